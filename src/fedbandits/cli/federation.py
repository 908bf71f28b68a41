"""The commands of a live federation: ``new`` and ``try``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedbandits.cli.options import Plugins

if TYPE_CHECKING:
    from fedbandits.federation.coordinator import Bulletin

Project = Annotated[
    Path, typer.Argument(help="A project: a folder with fedbandits.toml and client.py.")
]


def new(
    folder: Annotated[Path, typer.Argument(help="Of the new project; it must not be there yet.")],
) -> None:
    """Write a small project that runs as it is, to be changed into your own."""
    from fedbandits.federation.project import new_project  # noqa: PLC0415 - after --help

    for file in new_project(folder):
        typer.echo(f"wrote {file}")
    typer.echo(f"next: fedbandits try {folder} --clients 8")


def try_(
    project: Project,
    clients: Annotated[int, typer.Option("--clients", "-c", min=1, help="How many there are.")] = 8,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Instead of the trial's; pull has its own.")
    ] = None,
    plugin: Plugins = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="The answer alone.")] = False,
) -> None:
    """Play the whole federation in this process, in memory: how to debug a trial."""
    from fedbandits.federation.local import load_pull, try_trial  # noqa: PLC0415 - after --help
    from fedbandits.federation.trial import load_trial  # noqa: PLC0415 - likewise
    from fedbandits.protocol import answer_of  # noqa: PLC0415 - likewise

    trial = load_trial(project, plugins=plugin or ())
    server = try_trial(
        trial,
        load_pull(project),
        clients,
        seed=seed,
        watch=_say_nothing if quiet else _say,
    )
    if server.decision is None:
        typer.echo("nothing was decided: no phase was closed")
        raise typer.Exit(1)
    typer.echo(answer_of(server).words())
    if server.decision.winner is None:
        typer.echo(f"best so far: {trial.arms[server.decision.best]}; try more clients or pulls")


def _say(at: Bulletin) -> None:
    left = "1 option is" if at.left == 1 else f"{at.left} options are"
    typer.echo(f"{at.news}; {at.clients} clients are in, {left} left")


def _say_nothing(_: Bulletin) -> None:
    pass
