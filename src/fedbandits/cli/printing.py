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


def print_plain(text: str, before: str = "", *, err: bool = False) -> None:
    """Print lines in which names and reasons of others stand: a terminal obeys none of them."""
    from fedbandits.federation.status import printable  # noqa: PLC0415 - after --help

    for line in text.split("\n"):
        typer.echo(f"{before}{printable(line)}", err=err)


def print_warnings(warnings: Iterable[str]) -> None:
    """Say what may be wrong; the command continues, because the user may know better."""
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)


def print_table(shown: Shown) -> None:
    """Print a table as wide as the terminal, or as it needs in a pipe."""
    from rich.console import Console  # noqa: PLC0415 - after --help

    shown.print(Console())
