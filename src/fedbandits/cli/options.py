"""Options: those that several commands have, and where each command's own get their help from."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

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

# A parameter in a docstring: its name, the default to show if it is another one, its indented help.
_PARAMETER = re.compile(r"^(\w+)(?: : default (.+))?\n((?: {4}.+\n?)+)", re.MULTILINE)


def add_command(app: typer.Typer, command: Callable[..., None], panel: str | None = None) -> None:
    """Add a command to an app; its docstring says what the command and its parameters are for.

    Parameters
    ----------
    app : typer.Typer
        What gets the command.
    command : callable
        Parameters with a default are options, others are arguments. Those in its docstring get
        their help from there, and what stands behind "default", if anything does, is shown as the
        default.
    panel : str, optional
        The heading of the list that has the command.

    Examples
    --------
    >>> from typer.testing import CliRunner
    >>> def greet(name: str = "") -> None:
    ...     '''Say hello.
    ...
    ...     Parameters
    ...     ----------
    ...     name : default nobody
    ...         Who is greeted.
    ...     '''
    >>> app = typer.Typer()
    >>> add_command(app, greet)
    >>> shown = CliRunner().invoke(app, ["--help"], env={"TERM": "dumb"}).output
    >>> "Say hello." in shown, "Who is greeted." in shown, "default: (nobody)" in shown
    (True, True, True)
    """
    help_, _, described = inspect.cleandoc(command.__doc__ or "").partition("Parameters\n---")
    hints = get_type_hints(command, include_extras=True)
    given = inspect.signature(command).parameters
    for name, shown, words in _PARAMETER.findall(described):
        kind: Any = hints[name]
        info = typer.Option() if given[name].default is not inspect.Parameter.empty else None
        if get_origin(kind) is Annotated:
            kind, info = kind.__origin__, kind.__metadata__[0]
        info = copy(info or typer.Argument())  # commands may share an option, and not its help
        info.help = " ".join(words.split())
        info.show_default = shown or info.show_default
        command.__annotations__[name] = Annotated[kind, info]
    name = command.__name__.rstrip("_")
    app.command(name, help=help_, rich_help_panel=panel)(command)
