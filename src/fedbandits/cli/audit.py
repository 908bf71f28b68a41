"""The command ``audit``: what a client has sent, and what it has spent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedbandits.cli.options import AsJson
from fedbandits.cli.printing import print_json, print_table

if TYPE_CHECKING:
    from fedbandits.federation.verification import Verified
    from fedbandits.protocol import Entry
    from fedbandits.report.shown import Shown

MOST_ARMS_SHOWN = 6
"""How many means of an update fit into a line of the table."""


def audit(file: Annotated[Path, typer.Argument(metavar="FILE")], as_json: AsJson = False) -> None:
    """Show everything that a client has sent, and the privacy budget it has spent.

    If the client's ledger of live traffic is beside the file, the means of every phase are computed
    again from its rows and compared with what was sent; the exit code is 1 if they do not agree.

    Parameters
    ----------
    file
        A client's audit file.
    """
    from fedbandits.federation.audit_file import read_audit  # noqa: PLC0415 - after --help
    from fedbandits.federation.status import printable  # noqa: PLC0415 - likewise
    from fedbandits.federation.verification import ledger_of, verified  # noqa: PLC0415 - likewise

    entries = read_audit(file)
    ledger = ledger_of(file, entries[0].update.client) if entries else None
    found = None if ledger is None else verified(entries, ledger)
    if as_json:
        print_json([_plain(entry) for entry in entries])
    elif not entries:
        typer.echo(f"{file}: nothing was sent")
    else:
        print_table(audit_table(entries))
        for line in (*audit_words(entries), *_verification_words(found)):
            typer.echo(line)
    wrong = [
        f'run "{one.run}", phase {one.phase}: {what}' for one in found or () for what in one.wrong
    ]
    for line in wrong:
        typer.echo(printable(line), err=True)
    if wrong:
        raise typer.Exit(1)


def _verification_words(found: list[Verified] | None) -> list[str]:
    if found is None:
        return ["Source data: none is stored beside this file; outcomes of pull are never stored."]
    agree = sum(not (one.wrong or one.unknown) for one in found)
    return [
        f"Source data: {agree:,} of {len(found):,} updates agree with the rows of the ledger.",
        *(
            f"Phase {one.phase} can no longer be verified: {one.unknown}."
            for one in found
            if one.unknown
        ),
    ]


def audit_table(entries: list[Entry]) -> Shown:
    """Return a table with one row per update that the client has sent."""
    from fedbandits.federation.status import printable  # noqa: PLC0415 - after --help
    from fedbandits.report.shown import Shown  # noqa: PLC0415 - likewise

    def means(entry: Entry) -> str:
        pulled = [mean for mean, n in zip(entry.means, entry.update.counts, strict=True) if n]
        more = len(pulled) - MOST_ARMS_SHOWN
        shown = ", ".join(f"{mean:.4g}" for mean in pulled[:MOST_ARMS_SHOWN])
        return f"{shown} and {more} more" if more > 0 else shown

    columns: dict[str, Callable[[Entry], str]] = {
        "sent at": lambda entry: entry.at,
        "run": lambda entry: printable(entry.update.header.run),  # the server has named it
        "phase": lambda entry: str(entry.update.phase),
        "pulls": lambda entry: f"{sum(entry.update.counts):,}",
        "clipped": lambda entry: f"{entry.clipped:,}",
        "bits": lambda entry: f"{entry.update.payload_bits:,}",
        "means, as they were sent": means,
    }
    return Shown(
        name=f"client {entries[-1].update.client}",
        headings=[*columns],
        rows=[[cell(entry) for cell in columns.values()] for entry in entries],
        words=("run", "means, as they were sent"),
    )


def audit_words(entries: list[Entry]) -> list[str]:
    """Return a summary of all entries, in sentences."""
    from fedbandits.privacy.mechanisms import Noised  # noqa: PLC0415 - after --help

    pulls = sum(sum(entry.update.counts) for entry in entries)
    bits = sum(entry.update.payload_bits for entry in entries)
    updates = "1 update" if len(entries) == 1 else f"{len(entries):,} updates"
    lines = [f"{updates} about {pulls:,} observations, {bits:,} bits of means."]
    unprotected = [entry for entry in entries if entry.release.mechanism is None]
    single = sum(entry.update.counts.count(1) for entry in unprotected)
    if single:
        are = "is" if single == 1 else "are"
        lines.append(f"{single:,} of the means {are} of a single pull, which is an observation.")
    else:
        lines.append("They are means; no observation left the client.")
    clipped = sum(entry.clipped for entry in entries)
    if clipped:
        lines.append(
            f"{clipped:,} observations were outside the declared range and were clipped to it."
        )
    bare = sum(not isinstance(entry.release.mechanism, Noised) for entry in entries)
    if 0 < bare < len(entries):
        lines.append(
            f"{bare:,} of {len(entries):,} updates had no noise and protect nobody; the following"
            " is about the others."
        )
    no_policy = "the client has no policy; means were sent as the server asked"
    return [*lines, f"Privacy: {entries[-1].budget or no_policy}."]


def _plain(entry: Entry) -> dict[str, Any]:
    said = asdict(entry)
    said["update"]["packed"] = entry.update.packed.hex()
    return said
