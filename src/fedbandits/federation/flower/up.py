"""Runs a trial in real processes on this machine: begins, watches and resumes it."""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedbandits.errors import InputError
from fedbandits.federation.durable_log import has_begun, is_held
from fedbandits.federation.flower.processes import Child, LocalFederation
from fedbandits.federation.flower.watchdog import CrashError, Place, ShowNow, Stage, keep_running
from fedbandits.federation.followed import LoggedRun
from fedbandits.federation.kept_file import KeptFile
from fedbandits.federation.local import load_client
from fedbandits.federation.project import flower_app
from fedbandits.federation.run import LOG_FILE, check_same, plan_path
from fedbandits.federation.state_files import lock_file, open_private, private_folder
from fedbandits.federation.trial import load_trial

MOST_NODES = 4
"""The most nodes that are started, unless a number is given."""

MOST_NODE_RESTARTS = 20
"""How often a SuperNode that has ended is started again."""

_NODE_PAUSE = 5.0


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
    """Write down what is to run; return the log of the new run, and the plan.

    Raises
    ------
    InputError
        If the project has a mistake, or the log is there already.
    """
    project = project.absolute()
    trial = load_trial(project)
    trial.check_clients(clients)
    load_client(project, trial)
    path = (project / LOG_FILE if log is None else log).absolute()
    if not path.parent.is_dir():
        raise InputError(str(path.parent), "is not a folder; make it, or name another log")
    if has_begun(path):
        raise InputError(
            str(path),
            f"is there already; go on with: fedbandits resume {path}; or name another with --log",
        )
    # Each node costs seconds of a processor to start.
    most = min(clients, MOST_NODES, max(2, os.cpu_count() or 2)) if nodes is None else nodes
    if most > clients:
        raise InputError("nodes", f"{most} for {clients} clients; each needs a client at least")
    plan = LocalPlan(project=str(project), clients=clients, nodes=most)
    _plan_file(path).write(plan)
    return path, plan


def _plan_file(log: Path) -> KeptFile[LocalPlan]:
    return KeptFile(plan_path(log), LocalPlan, "plan", "does not say what runs ({})")


def planned(log: Path) -> LocalPlan:
    """Return what runs with a log.

    Raises
    ------
    InputError
        If it was not begun on this machine, or its fedbandits.toml was changed.
    """
    begun = LoggedRun(log).trial
    plan = _plan_file(log).read()
    if plan is None:
        raise InputError(
            str(log),
            "was not begun by fedbandits up; where its SuperLink runs, go on with: "
            f"fedbandits coordinate PROJECT --log {log}",
        )
    # The server would refuse it as well, but only after all processes have started.
    check_same(begun, load_trial(plan.project), log)
    return plan


class LocalPlace(LocalFederation, Place):
    """A federation on this machine, started when it is needed and repaired when a part dies.

    Parameters
    ----------
    folder : path
        For keys, certificates, and what the processes say.
    log : path
        Of the run.
    plan : LocalPlan
        What runs.
    """

    def __init__(self, folder: Path, log: Path, plan: LocalPlan) -> None:
        super().__init__(folder)
        self._log = log
        self._plan = plan
        self._said = f"what processes say is in {self.folder / 'output'}"
        self._nodes: dict[str, Child] = {}
        self._restarts: Counter[str] = Counter()
        self._again = 0.0

    def begin(self, stage: Stage) -> int:
        """Start the SuperLink and the nodes if they are not there, and submit the run."""
        plan = self._plan
        if self.superlink is None or not self.superlink.alive:
            self.close()  # what is left of an earlier one
            stage("starting the SuperLink")
            self.start()
            names = [f"node-{place}" for place in range(plan.nodes)]
            stage(f"registering the keys of {plan.nodes} SuperNodes")
            self.register(names)
            stage(f"starting {plan.nodes} SuperNodes with {plan.clients} clients")
            self._nodes = {name: self._start_share(name) for name in names}
        run = self.command.run(
            flower_app(self.folder / "app", Path(plan.project)),
            {"project": plan.project, "log": str(self._log), "clients": plan.clients},
        )
        self.command.close()  # it is not needed for long
        stage(f"waiting for the server; {self._said}")
        return run

    def end(self) -> None:
        """End everything if the server cannot be left alone: it hangs, or its SuperLink is gone."""
        if is_held(self._log) or self.superlink is None or not self.superlink.alive:
            self.close()

    def status_of(self, run: int) -> str:
        """Return what Flower says of a run."""
        return self.command.status_of(run)

    def look_after(self, stage: Stage) -> None:
        """Raise if the SuperLink is gone; start again the nodes that are.

        A SuperNode that was killed is refused for up to a minute: it is started until it is let in.
        """
        for child in self.children:
            child.trim_output()
        if self.superlink is not None and not self.superlink.alive:
            code = self.superlink.process.returncode
            raise CrashError(f"the SuperLink has ended (exit code {code}); {self._said}")
        if time.monotonic() < self._again:
            return
        self._again = time.monotonic() + _NODE_PAUSE
        for name, node in self._nodes.items():
            if not node.alive and self._restarts[name] < MOST_NODE_RESTARTS:
                self._restarts[name] += 1
                if self._restarts[name] == 1:
                    stage(f"{name} has ended and is started again; {self._said}")
                self.children.remove(node)
                self._nodes[name] = self._start_share(name)

    def last_words(self) -> str:
        """Return the end of what the SuperLink and the server have said."""
        return "" if self.superlink is None else self.superlink.last_words()

    def _start_share(self, name: str) -> Child:
        """Start a SuperNode with its share of the clients, as evenly as it goes."""
        plan, place = self._plan, int(name.rpartition("-")[2])
        first, end = (plan.clients * each // plan.nodes for each in (place, place + 1))
        return self.start_node(
            name,
            {"project": plan.project, "name": "client", "first": first, "clients": end - first},
        )


def bring_up(log: Path, plan: LocalPlan, *, stage: Stage, watch: ShowNow) -> None:
    """Run what is planned until it is over; whatever happens, no process is left.

    After a crash of the server or the SuperLink the run continues from its log.

    Raises
    ------
    FlowerError
        If Flower's processes fail again and again.
    InputError
        If the server refuses, for instance because another one writes the log.
    """
    # Logs with the same name in two places are two runs.
    own = hashlib.blake2b(str(log).encode(), digest_size=4).hexdigest()
    folder = Path(plan.project) / ".federation" / f"{log.stem}-{own}"
    private_folder(folder)
    with _alone(folder, log), LocalPlace(folder, log, plan) as place:
        place.close()  # what is left of an earlier one that was killed
        if is_held(log):
            raise InputError(str(log), "has a server already; watch it with: fedbandits status")
        keep_running(log, place, stage=stage, watch=watch)


@contextmanager
def _alone(folder: Path, log: Path) -> Iterator[None]:
    """Keep others from running the same log: they would end the processes that run it."""
    with open_private(folder / "lock", "ab") as file:
        try:
            lock_file(file, wait=False)
        except OSError:
            raise InputError(str(log), "runs already; watch it with: fedbandits status") from None
        yield
