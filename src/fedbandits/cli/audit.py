"""The command ``audit``: what a client has sent, and what it has spent."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedbandits.cli.options import print_table

if TYPE_CHECKING:
    from fedbandits.federation.verification import Verified
    from fedbandits.protocol import Entry
    from fedbandits.report.shown import Shown

MOST_ARMS_SHOWN = 6
"""How many means of an update fit into a line of the table."""


def audit(
    file: Annotated[Path, typer.Argument(help="A client's audit file.", metavar="FILE")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the entries as JSON, and nothing else.")
    ] = False,
) -> None:
    """Show everything that a client has sent, and the privacy budget it has spent.

    If the client's ledger of live traffic is beside the file, the means of every phase are computed
    again from its rows and compared with what was sent; the exit code is 1 if they do not agree.
    """
    from fedbandits.federation.audit_file import read_audit  # noqa: PLC0415 - after --help

    entries = read_audit(file)
    found = _compared(file, entries)
    if as_json:
        typer.echo(json.dumps([_plain(entry) for entry in entries], indent=2, allow_nan=False))
    elif not entries:
        typer.echo(f"{file}: nothing was sent")
    else:
        print_table(audit_table(entries))
        for line in (*audit_words(entries), *_verification_words(found)):
            typer.echo(line)
    if any(one.wrong for one in found or ()):
        from fedbandits.federation.status import printable  # noqa: PLC0415 - after --help

        for one in found or ():
            for wrong in one.wrong:
                said = f'run "{one.run}", phase {one.phase}: {wrong}'
                typer.echo(printable(said), err=True)
        raise typer.Exit(1)


def _compared(file: Path, entries: list[Entry]) -> list[Verified] | None:
    """Return how entries compare with the ledger beside the file; None if there is none."""
    from fedbandits.federation.verification import ledger_of, verified  # noqa: PLC0415

    ledger = ledger_of(file, entries[0].update.client) if entries else None
    return None if ledger is None else verified(entries, ledger)


def _verification_words(found: list[Verified] | None) -> list[str]:
    if found is None:
        return ["Source data: none is stored beside this file; outcomes of pull are never stored."]
    agree = sum(not (one.wrong or one.unknown) for one in found)
    lines = [f"Source data: {agree:,} of {len(found):,} updates agree with the rows of the ledger."]
    for one in found:
        if one.unknown:
            lines.append(f"Phase {one.phase} can no longer be verified: {one.unknown}.")
    return lines


def audit_table(entries: list[Entry]) -> Shown:
    """Return a table with one row per update that the client has sent."""
    from fedbandits.federation.status import printable  # noqa: PLC0415 - after --help
    from fedbandits.report.shown import Shown  # noqa: PLC0415 - likewise

    rows = []
    for entry in entries:
        update = entry.update
        pulled = [mean for mean, n in zip(entry.means, update.counts, strict=True) if n]
        shown = ", ".join(f"{mean:.4g}" for mean in pulled[:MOST_ARMS_SHOWN])
        more = len(pulled) - MOST_ARMS_SHOWN
        rows.append(
            [
                entry.at,
                printable(update.header.run),  # the server has named it
                str(update.phase),
                f"{sum(update.counts):,}",
                f"{entry.clipped:,}",
                f"{entry.update.payload_bits:,}",
                shown + (f" and {more} more" if more > 0 else ""),
            ]
        )
    sent = "means, as they were sent"
    return Shown(
        name=f"client {entries[-1].update.client}",
        headings=["sent at", "run", "phase", "pulls", "clipped", "bits", sent],
        rows=rows,
        words=("run", sent),
    )


def audit_words(entries: list[Entry]) -> list[str]:
    """Return a summary of all entries, in sentences."""
    from fedbandits.privacy.mechanisms import Noised  # noqa: PLC0415 - after --help

    pulls = sum(sum(entry.update.counts) for entry in entries)
    clipped = sum(entry.clipped for entry in entries)
    bits = sum(entry.update.payload_bits for entry in entries)
    last = entries[-1]
    updates = "1 update" if len(entries) == 1 else f"{len(entries):,} updates"
    lines = [f"{updates} about {pulls:,} observations, {bits:,} bits of means."]
    single = sum(
        entry.update.counts.count(1) for entry in entries if entry.release.mechanism is None
    )
    lines.append(
        f"{single:,} of the means {'is' if single == 1 else 'are'} of a single pull, which is an"
        " observation."
        if single
        else "They are means; no observation left the client."
    )
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
    lines.append(
        f"Privacy: {last.budget}."
        if last.budget
        else "Privacy: the client has no policy; means were sent as the server asked."
    )
    return lines


def _plain(entry: Entry) -> dict[str, Any]:
    said = asdict(entry)
    said["update"]["packed"] = entry.update.packed.hex()
    return said
