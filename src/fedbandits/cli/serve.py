"""The command that keeps a trial running on a SuperLink: ``serve``."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from fedbandits.cli.federation import Project
from fedbandits.cli.interrupt import interruptible
from fedbandits.cli.runs import trusted
from fedbandits.cli.up import print_answer, require_flower, shown


def serve(
    project: Project,
    log: Annotated[
        Path | None,
        typer.Option(help="Log of the run; if it exists, continue it.", show_default="run.fedlog"),
    ] = None,
    clients: Annotated[
        int,
        typer.Option(
            *("--clients", "-c"),
            min=0,
            help="Number of clients to wait for at the start.",
            show_default="patience.clients",
        ),
    ] = 0,
    superlink: Annotated[
        str | None, typer.Option(help="Its name in Flower's config.toml, if not the default.")
    ] = None,
) -> None:
    """Run a trial on a SuperLink of this machine, and continue from its log after a crash.

    It ends when the run is over. If you interrupt it, the server keeps running: run it again to
    watch.
    """
    require_flower()
    from fedbandits.federation.durable_log import has_begun  # noqa: PLC0415 - after --help
    from fedbandits.federation.flower.command import FlowerCommand  # noqa: PLC0415 - heavy
    from fedbandits.federation.flower.watchdog import Submitted, keep_running  # noqa: PLC0415
    from fedbandits.federation.followed import LoggedRun  # noqa: PLC0415 - likewise
    from fedbandits.federation.project import flower_app  # noqa: PLC0415 - likewise
    from fedbandits.federation.run import LOG_FILE, check_same  # noqa: PLC0415 - likewise
    from fedbandits.federation.trial import check_not_above, load_trial  # noqa: PLC0415 - likewise

    project = project.absolute()
    path = (project / LOG_FILE if log is None else log).absolute()
    trial = load_trial(project)
    check_not_above(clients, trial.population, "--clients")
    if has_begun(path):
        with trusted(path):
            check_same(LoggedRun(path).trial, trial, path)
    config: dict[str, str | int] = {"project": str(project), "log": str(path), "clients": clients}
    command = FlowerCommand(superlink)
    with (
        interruptible(f"the server keeps running; see: fedbandits status {path}"),
        tempfile.TemporaryDirectory(prefix="fedbandits-") as folder,
        shown() as (stage, watch),
    ):
        place = Submitted(command, flower_app(Path(folder), project), config)
        try:
            keep_running(path, place, stage=stage, watch=watch)
        finally:
            command.close()
    print_answer(path)
