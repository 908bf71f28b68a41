"""The commands that run a trial for real on this machine: ``up`` and ``resume``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedbandits.cli.federation import Project
from fedbandits.cli.interrupt import RunInterruptedError
from fedbandits.cli.runs import trusted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fedbandits.federation.flower.up import LocalPlan, ShowNow, Stage
    from fedbandits.federation.now_file import Now


def up(
    project: Project,
    clients: Annotated[int, typer.Option("--clients", "-c", min=1, help="How many there are.")] = 4,
    nodes: Annotated[
        int | None,
        typer.Option(min=1, help="SuperNodes to put them on; at most 4 by default."),
    ] = None,
    log: Annotated[
        Path | None, typer.Option(help="Where to write the run down; run.fedlog in the project.")
    ] = None,
) -> None:
    """Run a trial for real: a SuperLink and SuperNodes on this machine, with TLS and keys."""
    _require_flower()
    from fedbandits.federation.flower.up import plan_new  # noqa: PLC0415 - heavy

    path, plan = plan_new(project, clients=clients, nodes=nodes, log=log)
    _run(path, plan)


def resume(
    log: Annotated[Path, typer.Argument(help="Of a run that fedbandits up has begun.")],
) -> None:
    """Go on with a run from its log; of one that is over, tell the clients once more."""
    _require_flower()
    from fedbandits.federation.flower.up import planned  # noqa: PLC0415 - heavy

    with trusted(log):
        plan = planned(log.absolute())
    _run(log.absolute(), plan)


def _require_flower() -> None:
    from importlib.util import find_spec  # noqa: PLC0415 - after --help

    from fedbandits.errors import InputError  # noqa: PLC0415 - likewise

    if find_spec("flwr") is None:
        raise InputError("Flower", 'is not installed; pip install "fedbandits[flower]"')


def _run(log: Path, plan: LocalPlan) -> None:
    from fedbandits.federation.durable_log import is_begun  # noqa: PLC0415 - after --help
    from fedbandits.federation.flower.up import bring_up  # noqa: PLC0415 - heavy
    from fedbandits.federation.followed import LoggedRun  # noqa: PLC0415 - likewise
    from fedbandits.protocol import answer_of  # noqa: PLC0415 - likewise

    try:
        with _shown() as (stage, watch):
            bring_up(log, plan, stage=stage, watch=watch)
    except KeyboardInterrupt:
        begun = f"what has happened is in the log; go on with: fedbandits resume {log}"
        left = begun if is_begun(log) else "nothing had begun; run it again"
        raise RunInterruptedError(left) from None
    run = LoggedRun(log)
    if run.server.decision is None:
        typer.echo(f"nothing was decided: no phase was closed; see: fedbandits status {log}")
        raise typer.Exit(1)
    typer.echo(answer_of(run.server).words())
    typer.echo(f"log: {log}\nnext: fedbandits report {log}")


@contextmanager
def _shown() -> Iterator[tuple[Stage, ShowNow]]:
    """Yield what is told of a run: a terminal gets a table that changes, anything else lines."""
    from rich.console import Console  # noqa: PLC0415 - after --help
    from rich.live import Live  # noqa: PLC0415 - likewise

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(console).stage, _Lines(console).show
        return
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        yield live.update, lambda now: live.update(table_of(now))


class _Lines:
    """What happens, line by line."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def stage(self, what: str) -> None:
        self.console.print(what, markup=False, highlight=False, soft_wrap=True)

    def show(self, now: Now) -> None:
        if now.bulletin and not now.over:
            self.stage(f"{now.bulletin['news']} ({_counts(now)})")


def _counts(now: Now) -> str:
    at = now.bulletin
    options = "1 option" if at["left"] == 1 else f"{at['left']} options"
    return f"{at['clients']} clients in, {options} left, {at['bits']:,} bits sent"


def table_of(now: Now) -> Table:
    """Return where a run is as a table: the options with their intervals, and the phase."""
    from rich.table import Table  # noqa: PLC0415 - after --help
    from rich.text import Text  # noqa: PLC0415 - likewise

    at = now.bulletin
    if not at:
        return Table()
    title = f"phase {at['phase']}: {at['reported']} of {at['clients']} clients have reported"
    table = Table(title=Text(title), caption=Text(f"{at['news']} ({_counts(now)})"))
    table.add_column("option")
    for name in ("estimate", "from", "to"):
        table.add_column(name, justify="right")
    table.add_column("")
    for arm in now.arms:
        numbers = (f"{arm[key]:.4f}" for key in ("estimate", "low", "high"))
        style = "" if arm["left"] else "dim"
        table.add_row(Text(arm["name"]), *numbers, "" if arm["left"] else "out", style=style)
    return table
