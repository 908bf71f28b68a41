"""A trial on real processes of this machine: begun, watched, interrupted, taken up again."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from fedbandits.errors import InputError
from fedbandits.federation.durable_log import is_begun
from fedbandits.federation.flower.processes import FlowerError, LocalFederation
from fedbandits.federation.followed import LoggedRun
from fedbandits.federation.local import load_pull
from fedbandits.federation.now_file import Now, read_now
from fedbandits.federation.project import flower_app
from fedbandits.federation.run import LOG_FILE
from fedbandits.federation.state_files import lock_file, written_whole
from fedbandits.federation.trial import load_trial

MOST_NODES = 4
"""So many nodes are started at most, unless it is said: each is two processes of its own."""

_LOOK = 0.25
_DOUBT = 60.0

Stage: TypeAlias = Callable[[str], None]
"""Told what is being started."""

ShowNow: TypeAlias = Callable[[Now], None]
"""Told where the run is, whenever it is somewhere else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPlan:
    """What runs on this machine.

    Parameters
    ----------
    project : str
        The folder of the trial.
    clients, nodes : int
        How many clients there are, and on how many SuperNodes.
    """

    project: str
    clients: int
    nodes: int


def plan_new(
    project: Path, *, clients: int, nodes: int | None, log: Path | None
) -> tuple[Path, LocalPlan]:
    """Write down what is to run; return the log of the run that can now be begun, and the plan.

    Raises
    ------
    InputError
        If the project is not as it must be, or the log is there already.
    """
    project = project.absolute()
    if load_trial(project).live is None:
        load_pull(project)
    path = (project / LOG_FILE if log is None else log).absolute()
    if not path.parent.is_dir():
        raise InputError(str(path.parent), "is not a folder; make it, or name another log")
    if is_begun(path):
        raise InputError(
            str(path),
            f"is there already; go on with: fedbandits resume {path}; or name another with --log",
        )
    most = min(clients, MOST_NODES) if nodes is None else nodes
    if most > clients:
        raise InputError("nodes", f"{most} for {clients} clients; each needs a client at least")
    plan = LocalPlan(project=str(project), clients=clients, nodes=most)
    written_whole(_plan_path(path), json.dumps(asdict(plan)))
    return path, plan


def planned(log: Path) -> LocalPlan:
    """Return what runs with a log.

    Raises
    ------
    InputError
        If it was not begun on this machine.
    """
    LoggedRun(log)
    try:
        said: dict[str, Any] = json.loads(_plan_path(log).read_text(encoding="utf-8"))
        return LocalPlan(**said)
    except (OSError, ValueError, TypeError):
        raise InputError(
            str(log),
            "was not begun by fedbandits up; where Flower runs, go on with: flwr run … --run-config"
            f' \'project="…" log="{log}"\'',
        ) from None


def bring_up(log: Path, plan: LocalPlan, *, stage: Stage, watch: ShowNow) -> None:
    """Run what is planned until it is over; whatever happens, no process is left.

    Raises
    ------
    FlowerError
        If one of Flower's processes fails.
    InputError
        If the server refuses, as where another one writes the log.
    """
    # Logs of one name in two places are two runs.
    place = hashlib.blake2b(str(log).encode(), digest_size=4).hexdigest()
    folder = Path(plan.project) / ".federation" / f"{log.stem}-{place}"
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder, log), LocalFederation(folder) as federation:
        federation.stop()  # what one before this has left, if it was killed
        stage("starting the SuperLink")
        federation.start()
        names = [f"node-{place}" for place in range(plan.nodes)]
        stage(f"registering the keys of {plan.nodes} SuperNodes")
        federation.register(names)
        stage(f"starting {plan.nodes} SuperNodes with {plan.clients} clients")
        _start_nodes(federation, names, plan)
        now = folder / "now.json"
        now.unlink(missing_ok=True)
        run = federation.run(
            flower_app(folder / "app", Path(plan.project)),
            {
                "project": plan.project,
                "log": str(log),
                "clients": plan.clients,
                "now": str(now),
            },
        )
        stage(f"waiting for the server; what processes say is in {folder / 'output'}")
        _watch_until_over(federation, run, now, watch)


@contextmanager
def _alone(folder: Path, log: Path) -> Iterator[None]:
    """Keep others from running the same log from here: they would end what runs for it."""
    with (folder / "lock").open("ab") as file:
        try:
            lock_file(file, wait=False)
        except OSError:
            raise InputError(
                str(log), "is being run already; watch it with: fedbandits status"
            ) from None
        yield


def _start_nodes(federation: LocalFederation, names: Sequence[str], plan: LocalPlan) -> None:
    """Start SuperNodes with all clients among them, as evenly as it goes."""
    first = 0
    for place, name in enumerate(names):
        hosted = (plan.clients - first) // (len(names) - place)
        federation.start_node(
            name, {"project": plan.project, "name": "client", "first": first, "clients": hosted}
        )
        first += hosted


def _watch_until_over(federation: LocalFederation, run: int, file: Path, watch: ShowNow) -> None:
    seen, since = None, time.monotonic()
    while True:
        now = read_now(file)
        if now is not None and now != seen:
            seen, since = now, time.monotonic()
            if now.error is not None:
                mistake = now.where is not None
                raise InputError(str(now.where), now.error) if mistake else FlowerError(now.error)
            watch(now)
            if now.over:
                return
        superlink = federation.superlink
        if superlink is not None and not superlink.alive:
            raise FlowerError(f"the SuperLink has ended:\n{superlink.last_words()}")
        if time.monotonic() - since > _DOUBT:
            since = time.monotonic()
            ended = _ended(federation, run)
            if ended is not None and read_now(file) == seen:  # without a last word
                raise FlowerError(ended)
        time.sleep(_LOOK)


def _ended(federation: LocalFederation, run: int) -> str | None:
    """Return how the server has ended, if it has."""
    try:
        status = federation.status_of(run)
    except FlowerError:  # not known now; it is asked again
        return None
    if not status.startswith("finished"):
        return None
    said = "" if federation.superlink is None else federation.superlink.last_words()
    return f"the server has ended ({status}):\n{said}"


def _plan_path(log: Path) -> Path:
    return log.with_name(f"{log.name}.up.json")
