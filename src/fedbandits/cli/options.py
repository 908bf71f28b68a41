"""Options that several commands have, and how all of them print a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

Workers = Annotated[
    int | None, typer.Option("--workers", "-w", min=1, help="Processes; all cores by default.")
]
MemoryLimit = Annotated[
    int, typer.Option(min=1, help="MiB for the statistics of clients, over all workers.")
]
SummaryAsJson = Annotated[
    bool, typer.Option("--json", help="Print the summary as JSON, and nothing else.")
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress and no table; errors only.")
]
Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        metavar="PATH",
        help="A Python file that registers parts of your own, besides those that the file lists;"
        " may be repeated.",
    ),
]


def print_table(table: Table, *, width: int = 140, **settings: Any) -> None:
    """Print a table; a pipe has no width of its own, and 80 columns would break labels."""
    from rich.console import Console  # noqa: PLC0415 - after --help

    console = Console()
    if not console.is_terminal:
        console.width = width
    console.print(table, **settings)
