"""The commands that run a trial for real: ``up``, ``resume`` and ``coordinate``."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedbandits.cli.federation import Clients, Project, require_flower
from fedbandits.cli.options import UNDECIDED
from fedbandits.cli.printing import interruptible, print_plain
from fedbandits.cli.runs import read_run, trusted
from fedbandits.cli.serve import has_web

if TYPE_CHECKING:
    from rich.table import Table

    from fedbandits.federation.flower.up import LocalPlan
    from fedbandits.federation.flower.watchdog import ShowNow, Stage
    from fedbandits.federation.presence import Now


Page = Annotated[bool, typer.Option("--page/--no-page", help="Show the run in a browser.")]


def up(
    project: Project,
    clients: Clients = 4,
    nodes: Annotated[int | None, typer.Option(min=1)] = None,
    log: Path | None = None,
    page: Page = True,
) -> None:
    """Run a trial for real: a SuperLink and SuperNodes on this machine, with TLS and keys.

    The run can be watched in a browser, at the address that is printed.

    Parameters
    ----------
    nodes : default one per processor, from 2 to 4
        Number of SuperNodes.
    log
        Log of the run. Default: run.fedlog in the project.
    """
    require_flower()
    from fedbandits.federation.flower.up import plan_new  # noqa: PLC0415 - heavy

    path, plan = plan_new(project, clients=clients, nodes=nodes, log=log)
    _run(path, plan, page=page)


def resume(log: Path, page: Page = True) -> None:
    """Continue a run from its log; if it is over, tell the clients its result once more.

    Parameters
    ----------
    log
        Log of a run that fedbandits up has started.
    """
    require_flower()
    from fedbandits.federation.flower.up import planned  # noqa: PLC0415 - heavy

    with trusted(log):
        plan = planned(log.absolute())
    _run(log.absolute(), plan, page=page)


def coordinate(
    project: Project,
    log: Path | None = None,
    clients: Annotated[int, typer.Option("--clients", "-c", min=0)] = 0,
    superlink: str | None = None,
) -> None:
    """Run a trial on a SuperLink of this machine, and continue from its log after a crash.

    It ends when the run is over. If you interrupt it, the server keeps running: run it again to
    watch.

    Parameters
    ----------
    log : default run.fedlog
        Log of the run; if it exists, continue it.
    clients : default patience.clients
        Number of clients to wait for at the start.
    superlink
        Its name in Flower's config.toml, if not the default.
    """
    require_flower()
    from fedbandits.federation.durable_log import has_begun  # noqa: PLC0415 - after --help
    from fedbandits.federation.flower.command import FlowerCommand  # noqa: PLC0415 - heavy
    from fedbandits.federation.flower.watchdog import Submitted, keep_running  # noqa: PLC0415
    from fedbandits.federation.project import flower_app  # noqa: PLC0415 - likewise
    from fedbandits.federation.run import LOG_FILE, check_same  # noqa: PLC0415 - likewise
    from fedbandits.federation.trial import check_not_above, load_trial  # noqa: PLC0415 - likewise

    project = project.absolute()
    path = (project / LOG_FILE if log is None else log).absolute()
    trial = load_trial(project)
    check_not_above(clients, trial.population, "--clients")
    if has_begun(path):
        check_same(read_run(path).trial, trial, path)
    config: dict[str, str | int] = {"project": str(project), "log": str(path), "clients": clients}
    with (
        interruptible(f"the server keeps running; see: fedbandits status {path}"),
        tempfile.TemporaryDirectory(prefix="fedbandits-") as folder,
        shown() as (stage, watch),
        closing(FlowerCommand(superlink)) as command,
    ):
        place = Submitted(command, flower_app(Path(folder), project), config)
        keep_running(path, place, stage=stage, watch=watch)
    print_answer(path)


def _run(log: Path, plan: LocalPlan, *, page: bool) -> None:
    from fedbandits.federation.durable_log import has_begun  # noqa: PLC0415 - after --help
    from fedbandits.federation.flower.up import bring_up  # noqa: PLC0415 - heavy

    def left_behind() -> str:
        if not has_begun(log):
            return "nothing had started; run it again"
        return f"everything so far is in the log; continue with: fedbandits resume {log}"

    with interruptible(left_behind), _page(log, wanted=page), shown() as (stage, watch):
        bring_up(log, plan, stage=stage, watch=watch)
    print_answer(log)


@contextmanager
def _page(log: Path, *, wanted: bool) -> Iterator[None]:
    """Serve the page of a run while it goes on, if what serves pages is installed."""
    if not wanted or not has_web():
        yield
        return
    from fedbandits.web.serving import page_beside  # noqa: PLC0415 - heavy

    with page_beside(log) as address:
        typer.echo(f"page: {address}", err=True)
        yield


def print_answer(log: Path) -> None:
    """Print the answer of a run; end with exit code 3 if it is undecided."""
    from fedbandits.protocol import answer_of  # noqa: PLC0415 - after --help

    run = read_run(log)
    if run.server.decision is None:
        typer.echo(f"nothing was decided: no phase was closed; see: fedbandits status {log}")
        raise typer.Exit(UNDECIDED)
    print_plain(answer_of(run.server).words())
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
        lines = _Lines()
        yield lines.stage, lines.show
        return
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        yield live.update, lambda now: live.update(table_of(now))


class _Lines:
    """What happens, line by line."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def stage(self, what: str) -> None:
        print_plain(what, err=True)

    def show(self, now: Now) -> None:
        """Print the lines that are new."""
        if not now.bulletin or now.over:
            return
        lines = _news(now)
        for line in lines:
            if line not in self.said:
                self.stage(line)
        self.said = lines


def _news(now: Now) -> list[str]:
    """Return what has happened, line by line."""
    from fedbandits.federation.presence import notes  # noqa: PLC0415 - after --help
    from fedbandits.federation.status import counted  # noqa: PLC0415 - likewise

    at = now.bulletin
    counts = f"{at['clients']} clients admitted, {counted(at['left'], 'option')} left"
    return [f"{at['news']} ({counts}, {at['bits']:,} bits sent)", *notes(now)]


def table_of(now: Now) -> Table:
    """Return the state of a run as a table: the options with their intervals, and the phase."""
    from rich.table import Table  # noqa: PLC0415 - after --help
    from rich.text import Text  # noqa: PLC0415 - likewise

    from fedbandits.federation.status import printable  # noqa: PLC0415 - likewise

    at = now.bulletin
    if not at:
        return Table()
    title = f"phase {at['phase']} is over" if at["phase"] else "no phase was opened yet"
    if at["open"]:
        title = f"phase {at['phase']}: {at['reported']} of {at['clients']} clients have reported"
    caption = "\n".join(map(printable, _news(now)))
    table = Table("option", title=Text(title), caption=Text(caption))
    for name in ("estimate", "from", "to"):
        table.add_column(name, justify="right")
    table.add_column("")
    for arm in now.arms:
        numbers = (f"{arm[key]:.4f}" for key in ("estimate", "low", "high"))
        style, out = ("", "") if arm["left"] else ("dim", "out")
        table.add_row(Text(arm["name"]), *numbers, out, style=style)
    return table
