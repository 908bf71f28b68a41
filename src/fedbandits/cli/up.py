"""The commands that run a trial for real on this machine: ``up`` and ``resume``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedbandits.cli.federation import Project
from fedbandits.cli.interrupt import RunInterruptedError
from fedbandits.cli.options import UNDECIDED
from fedbandits.cli.runs import trusted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fedbandits.federation.flower.up import LocalPlan
    from fedbandits.federation.flower.watchdog import ShowNow, Stage
    from fedbandits.federation.now_file import Now


def up(
    project: Project,
    clients: Annotated[int, typer.Option("--clients", "-c", min=1, help="Number of clients.")] = 4,
    nodes: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of SuperNodes.", show_default="one per processor, from 2 to 4"
        ),
    ] = None,
    log: Annotated[
        Path | None, typer.Option(help="Log of the run. Default: run.fedlog in the project.")
    ] = None,
) -> None:
    """Run a trial for real: a SuperLink and SuperNodes on this machine, with TLS and keys."""
    require_flower()
    from fedbandits.federation.flower.up import plan_new  # noqa: PLC0415 - heavy

    path, plan = plan_new(project, clients=clients, nodes=nodes, log=log)
    _run(path, plan)


def resume(
    log: Annotated[Path, typer.Argument(help="Log of a run that fedbandits up has started.")],
) -> None:
    """Continue a run from its log; if it is over, tell the clients its result once more."""
    require_flower()
    from fedbandits.federation.flower.up import planned  # noqa: PLC0415 - heavy

    with trusted(log):
        plan = planned(log.absolute())
    _run(log.absolute(), plan)


def require_flower() -> None:
    """Refuse a command that needs Flower if Flower is not installed."""
    from importlib.util import find_spec  # noqa: PLC0415 - after --help

    from fedbandits.errors import InputError  # noqa: PLC0415 - likewise

    if find_spec("flwr") is None:
        raise InputError("Flower", 'is not installed; pip install "fedbandits[flower]"')


def _run(log: Path, plan: LocalPlan) -> None:
    from fedbandits.federation.durable_log import has_begun  # noqa: PLC0415 - after --help
    from fedbandits.federation.flower.up import bring_up  # noqa: PLC0415 - heavy

    try:
        with shown() as (stage, watch):
            bring_up(log, plan, stage=stage, watch=watch)
    except KeyboardInterrupt:
        begun = f"everything so far is in the log; continue with: fedbandits resume {log}"
        left = begun if has_begun(log) else "nothing had started; run it again"
        raise RunInterruptedError(left) from None
    print_answer(log)


def print_answer(log: Path) -> None:
    """Print the answer of a run; end with exit code 3 if it is undecided."""
    from fedbandits.federation.followed import LoggedRun  # noqa: PLC0415 - after --help
    from fedbandits.protocol import answer_of  # noqa: PLC0415 - likewise

    run = LoggedRun(log)
    if run.server.decision is None:
        typer.echo(f"nothing was decided: no phase was closed; see: fedbandits status {log}")
        raise typer.Exit(UNDECIDED)
    typer.echo(answer_of(run.server).words())
    typer.echo(f"log: {log}\nnext: fedbandits report {log}")
    if run.server.decision.winner is None:
        raise typer.Exit(UNDECIDED)


@contextmanager
def shown() -> Iterator[tuple[Stage, ShowNow]]:
    """Yield what shows a run: a terminal gets a live table, anything else gets lines."""
    from rich.console import Console  # noqa: PLC0415 - after --help
    from rich.live import Live  # noqa: PLC0415 - likewise

    console = Console(stderr=True)
    if not console.is_terminal:
        lines = _Lines(console)
        yield lines.stage, lines.show
        return
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        yield live.update, lambda now: live.update(table_of(now))


class _Lines:
    """What happens, line by line."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.said: list[str] = []

    def stage(self, what: str) -> None:
        from fedbandits.federation.status import printable  # noqa: PLC0415 - after --help

        what = "\n".join(map(printable, what.split("\n")))
        self.console.print(what, markup=False, highlight=False, soft_wrap=True)

    def show(self, now: Now) -> None:
        """Print the lines that are new."""
        if not now.bulletin or now.over:
            return
        from fedbandits.federation.presence import notes  # noqa: PLC0415 - after --help

        lines = [f"{now.bulletin['news']} ({_counts(now)})", *notes(now)]
        for line in lines:
            if line not in self.said:
                self.stage(line)
        self.said = lines


def _counts(now: Now) -> str:
    at = now.bulletin
    options = "1 option" if at["left"] == 1 else f"{at['left']} options"
    return f"{at['clients']} clients admitted, {options} left, {at['bits']:,} bits sent"


def table_of(now: Now) -> Table:
    """Return the state of a run as a table: the options with their intervals, and the phase."""
    from rich.table import Table  # noqa: PLC0415 - after --help
    from rich.text import Text  # noqa: PLC0415 - likewise

    from fedbandits.federation.presence import notes  # noqa: PLC0415 - likewise
    from fedbandits.federation.status import printable  # noqa: PLC0415 - likewise

    at = now.bulletin
    if not at:
        return Table()
    title = f"phase {at['phase']} is over" if at["phase"] else "no phase was opened yet"
    if at["open"]:
        title = f"phase {at['phase']}: {at['reported']} of {at['clients']} clients have reported"
    caption = [f"{at['news']} ({_counts(now)})", *notes(now)]
    table = Table(title=Text(title), caption=Text("\n".join(map(printable, caption))))
    table.add_column("option")
    for name in ("estimate", "from", "to"):
        table.add_column(name, justify="right")
    table.add_column("")
    for arm in now.arms:
        numbers = (f"{arm[key]:.4f}" for key in ("estimate", "low", "high"))
        style = "" if arm["left"] else "dim"
        table.add_row(Text(arm["name"]), *numbers, "" if arm["left"] else "out", style=style)
    return table
