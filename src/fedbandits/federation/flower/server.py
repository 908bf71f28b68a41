"""The ServerApp: opens the log of a run and drives its server until the run is over.

What it is for is in the run's ``--run-config``: ``project`` (the folder with fedbandits.toml),
``log`` (where the run is written down; what is there already goes on), and ``clients`` (how many to
wait for before the first phase, instead of the trial's). A file beside the log says where the run
is, for those who watch it.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedbandits.errors import InputError
from fedbandits.federation.coordinator import Bulletin, Coordinator, Patience
from fedbandits.federation.durable_log import is_held
from fedbandits.federation.flower.transport import FlowerTransport
from fedbandits.federation.letters import PostTransport, inbox
from fedbandits.federation.presence import NowFile, now_path
from fedbandits.federation.requests import RequestFolder
from fedbandits.federation.run import LOG_FILE
from fedbandits.federation.served import begin_or_resume
from fedbandits.federation.signing import KEYS_FOLDER
from fedbandits.federation.status import printable
from fedbandits.federation.trial import Trial, check_not_above, load_trial

app = ServerApp()
"""What a SuperLink runs."""

_LOG = logging.getLogger("flwr.fedbandits")


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run a trial, or continue it."""
    serve(grid, context.run_config)


def serve(grid: Grid, config: Mapping[str, Any]) -> None:
    """Run a trial over a grid, or continue it.

    Raises
    ------
    FedbanditsError
        If the trial or the log has a mistake, or another server writes the same log.
    """
    project, path = _paths(config)
    now = NowFile(now_path(path), project)
    try:
        _serve(grid, config, project, path, now)
    except BaseException as error:
        _LOG.error("%s", error)
        if not is_held(path):  # else it is the file of another server
            now.ended(error)
        raise
    now.ended()


def _serve(grid: Grid, config: Mapping[str, Any], project: Path, path: Path, now: NowFile) -> None:
    trial = load_trial(project)
    log, run = begin_or_resume(trial, path, signed=trial.signed, keys=project / KEYS_FOLDER)
    with log, run:
        if log.dropped:
            _LOG.warning("%s: %d damaged records at its end are dropped", path, log.dropped)
        trial, server = run.trial, run.server
        patience = _patience(trial, config)
        network = FlowerTransport(
            grid, server, patience, tell=lambda news: _LOG.warning("%s", news), beat=now.beat
        )
        transport = PostTransport(server, trial.offline, inbox(path), network)

        def beat(at: Bulletin) -> None:
            now.write(at, server, network.nodes())
            run.beat()

        def watch(at: Bulletin) -> None:
            _LOG.info("%s", printable(at.news))
            beat(at)

        Coordinator(
            server,
            transport,
            clock=time.monotonic,
            seed=trial.seed,
            patience=patience,
            watch=watch,
            requests=RequestFolder(path, len(trial.arms)),
            beat=beat,
        ).run()


def _paths(config: Mapping[str, Any]) -> tuple[Path, Path]:
    project = str(config.get("project", ""))
    if not project:
        raise InputError(
            "run-config.project",
            "is missing; run with --run-config 'project=\"/path/to/my_test\"', as it is where the"
            " SuperLink runs",
        )
    folder = Path(project).absolute()
    log = str(config.get("log", "")) or str(folder / LOG_FILE)
    return folder, Path(log).absolute()


def _patience(trial: Trial, config: Mapping[str, Any]) -> Patience:
    patience = trial.patience
    clients = config.get("clients", 0)
    if type(clients) is not int or clients < 0:
        raise InputError("run-config.clients", f"{clients!r} is not a number of clients")
    check_not_above(clients, trial.population, "run-config.clients")
    return replace(patience, clients=clients) if clients else patience
