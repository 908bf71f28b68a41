"""How all commands print JSON, warnings and tables, and what they say when interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
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


class RunInterruptedError(Exception):
    """The user pressed Ctrl-C; the message says what is left behind."""


@contextmanager
def interruptible(left_behind: str | Callable[[], str]) -> Iterator[None]:
    """Turn Ctrl-C into an error that reaches `main`; Click would end without a message.

    Parameters
    ----------
    left_behind : str or callable
        The message, or a function that makes it when needed.
    """
    try:
        yield
    except KeyboardInterrupt:
        said = left_behind if isinstance(left_behind, str) else left_behind()
        raise RunInterruptedError(said) from None
