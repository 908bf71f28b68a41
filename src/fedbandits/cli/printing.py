"""How all commands print JSON, warnings and tables."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from fedbandits.report.shown import Shown


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


def print_warnings(warnings: Iterable[str]) -> None:
    """Say what may be wrong; the command continues, because the user may know better."""
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)


def print_table(shown: Shown) -> None:
    """Print a table; a pipe has no width, and the default of 80 columns would break labels."""
    from rich.console import Console  # noqa: PLC0415 - after --help

    from fedbandits.report.shown import WIDTH  # noqa: PLC0415 - likewise

    console = Console()
    if not console.is_terminal:
        console.width = WIDTH
    console.print(shown.printed())
