"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Workers = Annotated[
    int | None,
    typer.Option("--workers", "-w", min=1, help="Number of processes. Default: all cores."),
]
MemoryLimit = Annotated[
    int, typer.Option(min=1, help="MiB for the statistics of clients, all workers together.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]
OUT = typer.Option("--out", "-o", help="Write results, figures and report.html here.")
Fresh = Annotated[bool, typer.Option("--fresh", help="Also play what an earlier run has finished.")]
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
