"""The commands ``new`` and ``try`` of a live federation, and the ``check`` of its trial."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedbandits.cli.options import UNDECIDED, Plugins
from fedbandits.cli.printing import print_plain, print_warnings
from fedbandits.errors import InputError

if TYPE_CHECKING:
    from fedbandits.federation.coordinator import Bulletin
    from fedbandits.federation.local import ClientCode
    from fedbandits.federation.trial import Trial

Project = Annotated[
    Path, typer.Argument(help="A project: a folder with fedbandits.toml and client.py.")
]
Clients = Annotated[int, typer.Option("--clients", "-c", min=1, help="Number of clients.")]

TRIAL_FILE = "fedbandits.toml"
"""The name by which ``check`` knows a trial; the module that also has it is slow to import."""


def require_flower() -> None:
    """Refuse a command that needs Flower if Flower is not installed."""
    if find_spec("flwr") is None:
        raise InputError("Flower", 'is not installed; pip install "fedbandits[flower]"')


def check_trial(path: Path, plugins: Iterable[Path]) -> None:
    """Say that a trial is valid, what it will prove, and what it leaves unchecked."""
    from fedbandits.federation.local import server_of  # noqa: PLC0415 - after --help
    from fedbandits.federation.trial import load_trial  # noqa: PLC0415 - likewise

    trial = load_trial(path, plugins=plugins)
    server = server_of(trial)
    typer.echo(f"{path}: valid")
    typer.echo(f"  guarantee: {server.run_state.guarantee.words()}")
    if trial.covariate is not None:
        typer.echo(f'  covariate "{trial.covariate.name}": {trial.covariate_words()}')
    floor = server.rule.liars_floor
    if floor:
        far = f"{floor:.3g}" if isfinite(floor) else "any amount"
        gap = f"below {2 * floor:.3g} " if isfinite(floor) else ""
        typer.echo(
            f"  liars: they may move the difference of two options by {far}, however many clients"
            f" report; if they do, no number of clients is sure to find a gap {gap}between options"
        )
    for rail in trial.guardrails:
        typer.echo(
            f"  guardrail: {rail.words}; an option that is beyond it is withdrawn when a phase"
            f" ends, and one that is not with a probability of at most {rail.level:g}"
        )
    print_warnings(trial.doubts())


def new(folder: Path) -> None:
    """Write a small project that runs as it is, for you to change into your own.

    Parameters
    ----------
    folder
        Folder of the new project; it must not exist yet.
    """
    from fedbandits.federation.project import new_project  # noqa: PLC0415 - after --help

    for file in new_project(folder):
        typer.echo(f"wrote {file}")
    typer.echo(f"next: fedbandits try {folder} --clients 8")


def try_(  # noqa: PLR0917 - options of a command, all of them named
    project: Project,
    clients: Clients = 8,
    seed: Annotated[int | None, typer.Option(min=0)] = None,
    plugin: Plugins = None,
    aa: Annotated[bool, typer.Option("--aa")] = False,
    runs: Annotated[int, typer.Option(min=1)] = 50,
    quiet: Annotated[bool, typer.Option("--quiet", "-q")] = False,
) -> None:
    """Play the whole federation in this process, in memory, to debug a trial.

    Parameters
    ----------
    seed
        Override the trial's; it does not seed pull.
    aa
        Play it several times with all options the same, and count how often it calls a difference.
    runs
        With --aa: how many times.
    quiet
        Print only the answer.
    """
    from fedbandits.federation.local import load_client, try_trial  # noqa: PLC0415 - after --help
    from fedbandits.federation.trial import load_trial  # noqa: PLC0415 - likewise
    from fedbandits.protocol import answer_of, conclusion_of  # noqa: PLC0415 - likewise

    trial = load_trial(project, plugins=plugin or ())
    if not quiet:
        print_warnings(trial.doubts())

    code = load_client(project, trial, simulated=True)
    if aa:
        _try_aa(trial, code, clients, runs, seed, quiet=quiet)
        return

    def watch(at: Bulletin) -> None:
        left = {0: "no option is", 1: "1 option is"}.get(at.left, f"{at.left} options are")
        if not quiet:
            print_plain(f"{at.news}; {at.clients} clients are in, {left} left")

    server = try_trial(trial, code.pull, clients, seed=seed, watch=watch, history=code.history)
    if server.decision is None:
        nothing = "nothing was decided: no phase was closed"
        print_plain(nothing if server.left else conclusion_of(server).words)
        raise typer.Exit(UNDECIDED)
    print_plain(answer_of(server).words())
    if not server.left:
        raise typer.Exit(UNDECIDED)
    if server.decision.winner is None:
        print_plain(f"best so far: {trial.arms[server.decision.best]}; try more clients or pulls")
        raise typer.Exit(UNDECIDED)


def _try_aa(
    trial: Trial, code: ClientCode, clients: int, runs: int, seed: int | None, *, quiet: bool
) -> None:
    from fedbandits.cli.progress import show_tries  # noqa: PLC0415 - after --help
    from fedbandits.federation.aa import try_aa  # noqa: PLC0415 - likewise

    with show_tries(runs, quiet=quiet) as watch:
        found = try_aa(
            trial, code.pull, clients, runs=runs, seed=seed, watch=watch, history=code.history
        )
    print_plain(found.words())
    if not found.sound:
        raise typer.Exit(UNDECIDED)
