"""Options that several commands have, and how all of them print a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fedbandits.report.shown import Shown

Workers = Annotated[
    int | None,
    typer.Option("--workers", "-w", min=1, help="Number of processes. Default: all cores."),
]
MemoryLimit = Annotated[
    int, typer.Option(min=1, help="MiB for the statistics of clients, all workers together.")
]
SummaryAsJson = Annotated[
    bool, typer.Option("--json", help="Print the summary as JSON, and nothing else.")
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print only errors, no progress and no table.")
]
UNDECIDED = 3
"""The exit code of a command whose run is over without a winner."""

Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        metavar="PATH",
        help="A Python file that registers your own parts, in addition to those that the file"
        " lists; may be repeated.",
    ),
]


def print_table(shown: Shown) -> None:
    """Print a table; a pipe has no width, and the default of 80 columns would break labels."""
    from rich.console import Console  # noqa: PLC0415 - after --help

    from fedbandits.report.shown import WIDTH  # noqa: PLC0415 - likewise

    console = Console()
    if not console.is_terminal:
        console.width = WIDTH
    console.print(shown.printed())
