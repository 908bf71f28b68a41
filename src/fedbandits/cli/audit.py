"""The command ``audit``: what a client has sent, and what it has spent."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedbandits.cli.options import print_table

if TYPE_CHECKING:
    from fedbandits.protocol import Entry

MOST_ARMS_SHOWN = 6
"""So many means of an update fit into a line of the table."""


def audit(
    file: Annotated[Path, typer.Argument(help="A client's audit file.", metavar="FILE")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the entries as JSON, and nothing else.")
    ] = False,
) -> None:
    """Show everything that a client has sent, and the privacy budget it has spent."""
    from fedbandits.federation.audit_file import read_audit  # noqa: PLC0415 - after --help

    entries = read_audit(file)
    if as_json:
        typer.echo(json.dumps([_plain(entry) for entry in entries], indent=2, allow_nan=False))
        return
    if not entries:
        typer.echo(f"{file}: nothing was sent")
        return
    print_table(audit_table(entries))
    for line in audit_words(entries):
        typer.echo(line)


def audit_table(entries: list[Entry]) -> Any:
    """Return a row for every update that left the client."""
    from rich.table import Table  # noqa: PLC0415 - after --help
    from rich.text import Text  # noqa: PLC0415 - after --help

    table = Table(title=Text(f"client {entries[-1].update.client}"), title_justify="left")
    for heading in ("sent at", "run", "phase"):
        table.add_column(heading, overflow="fold")
    for heading in ("pulls", "clipped", "bits"):
        table.add_column(heading, justify="right")
    table.add_column("means, as they were sent", overflow="fold")
    for entry in entries:
        update = entry.update
        pulled = [mean for mean, n in zip(entry.means, update.counts, strict=True) if n]
        shown = ", ".join(f"{mean:.4g}" for mean in pulled[:MOST_ARMS_SHOWN])
        more = len(pulled) - MOST_ARMS_SHOWN
        table.add_row(
            entry.at,
            Text(update.header.run),
            str(update.phase),
            f"{sum(update.counts):,}",
            f"{entry.clipped:,}",
            f"{entry.update.payload_bits:,}",
            shown + (f" and {more} more" if more > 0 else ""),
        )
    return table


def audit_words(entries: list[Entry]) -> list[str]:
    """Return what all entries come to, in sentences."""
    from fedbandits.privacy.mechanisms import Noised  # noqa: PLC0415 - after --help

    pulls = sum(sum(entry.update.counts) for entry in entries)
    clipped = sum(entry.clipped for entry in entries)
    bits = sum(entry.update.payload_bits for entry in entries)
    last = entries[-1]
    lines = [f"{len(entries):,} updates about {pulls:,} observations, {bits:,} bits of means."]
    single = sum(
        entry.update.counts.count(1) for entry in entries if entry.release.mechanism is None
    )
    lines.append(
        f"{single:,} of the means {'is' if single == 1 else 'are'} of a single pull, and so an"
        " observation."
        if single
        else "They are means, and no observation left the client."
    )
    if clipped:
        lines.append(
            f"{clipped:,} observations lay outside the declared range and were clipped to it."
        )
    bare = sum(not isinstance(entry.release.mechanism, Noised) for entry in entries)
    if 0 < bare < len(entries):
        lines.append(
            f"{bare:,} of {len(entries):,} updates had no noise on them, and protect nobody; what"
            " follows is about the others."
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
