"""A real federation: a SuperLink and three SuperNodes, with TLS and keys, and what befalls them.

One SuperLink serves all tests of this file, which run one after the other in one process. Those
that are marked as slow take about a minute each.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fedbandits.errors import InputError
from fedbandits.federation.audit_file import read_audit
from fedbandits.federation.durable_log import has_begun, read_log
from fedbandits.federation.flower.processes import Child, LocalFederation
from fedbandits.federation.followed import LoggedRun
from fedbandits.federation.last_word import best_arm
from fedbandits.federation.presence import Sign, presence_of
from fedbandits.federation.project import flower_app
from fedbandits.federation.state_files import audit_file
from fedbandits.protocol import (
    PhaseClosed,
    PhaseOpened,
    RunEnded,
    ServerStarted,
    UpdateAccepted,
)
from flower_project import (
    CLIENTS,
    admitted,
    decided,
    forget_pulls,
    of_kind,
    process_of,
    pulls_made,
    simulated,
    tried,
    write_project,
    write_trial,
)
from foreign_app import OURS, write_foreign_app

# In seconds. Waiting costs nothing when it succeeds, and machines are busy at times.
LONGEST = 480.0
SOON = 60.0
NODES = ("node-0", "node-1", "node-2")
FEDBANDITS = str(Path(sys.executable).parent / "fedbandits")


class Field:
    """The federation in its place: its project, nodes, and what is in their files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = write_project(folder / "colours")
        self.state = folder / "state"
        self.federation = LocalFederation(folder / "federation")
        self.nodes: dict[str, Child] = {}

    def start(self) -> None:
        self.federation.start()
        self.federation.register(NODES)
        for name in NODES:
            self.start_node(name)

    def start_node(self, name: str) -> None:
        first = 2 * NODES.index(name)
        self.nodes[name] = self.federation.start_node(
            name,
            {
                "project": str(self.project),
                "state": str(self.state),
                "name": "client",
                "first": first,
                "clients": 2,
            },
        )

    def restart_node(self, name: str) -> None:
        """End a node and start it again; it is back when this returns.

        One that was killed may come back only after a minute: the SuperLink takes it for alive.
        """
        output, connected = self.nodes[name].output, b"SuperNode ID:"
        before = output.read_bytes().count(connected)
        self.nodes[name].ask_to_end()
        self.nodes[name].end()
        self.start_node(name)
        end = time.monotonic() + LONGEST
        while output.read_bytes().count(connected) == before:
            assert time.monotonic() < end, self.nodes[name].last_words()
            time.sleep(0.2)

    def kill_node(self, name: str) -> None:
        """Kill a SuperNode and all of its processes with -9."""
        for process in self.federation.strays(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.nodes[name].end(patience=0.0)

    def begin(self, log: Path, project: Path | None = None) -> int:
        app = flower_app(self.folder / "app", self.project)
        config: dict[str, str | int] = {
            "project": str(self.project if project is None else project),
            "log": str(log),
            "clients": CLIENTS,
        }
        return self.federation.command.run(app, config)

    def wait(self, log: Path, until: Callable[[list[Any]], bool]) -> list[Any]:
        """Wait until the records of a log are as they should be."""
        end = time.monotonic() + LONGEST
        records: list[Any] = []
        while time.monotonic() < end:
            with contextlib.suppress(InputError):  # it is not there yet, or being made
                records = list(read_log(log).records)
            if until(records):
                return records
            time.sleep(0.2)
        said = [child.last_words() for child in self.federation.children]
        pytest.fail("\n\n".join([f"not in {LONGEST} s; {len(records)} records", *said]))

    def wait_until_told(self, log: Path) -> list[Any]:
        """Wait until a run is over and its clients know it."""
        records = self.wait(log, _over)
        server = LoggedRun(log).server
        end = time.monotonic() + LONGEST
        while time.monotonic() < end:
            told = {best_arm(self.state, name) for name in server.clients}
            if None not in told:
                return records
            time.sleep(0.2)
        return records

    def hold(self, *clients: str) -> None:
        for client in clients:
            (self.project / "hold" / client).touch()

    def let_go(self) -> None:
        for file in (self.project / "hold").iterdir():
            file.unlink()


def _over(records: list[Any]) -> bool:
    return any(record.decision.final for record in of_kind(records, PhaseClosed))


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    field = Field(tmp_path_factory.mktemp("flower"))
    with field.federation:
        field.start()
        yield field
    assert field.federation.strays() == []


@pytest.fixture
def field(everything: Field) -> Iterator[Field]:
    """The federation with clients that have pulled nothing and were told nothing."""
    forget_pulls(everything.project)
    for file in everything.state.glob("*.answer.json"):
        file.unlink()
    yield everything
    everything.let_go()


def test_a_run_decides_as_in_one_process_and_as_simulated(field: Field, tmp_path: Path) -> None:
    log = tmp_path / "run.fedlog"
    field.begin(log)
    records = field.wait_until_told(log)
    in_one_process = tried(field.project)
    assert decided(records) == decided(in_one_process.log) == decided(simulated().log)
    assert admitted(records) == admitted(in_one_process.log)
    assert len(decided(records)) == 3
    # Everybody knows the winner, without asking anybody.
    assert {best_arm(field.state, f"client-{n}") for n in range(CLIENTS)} == {"blue"}


@pytest.mark.slow
def test_a_node_is_restarted_a_stranger_refused_and_a_second_server_too(
    field: Field, tmp_path: Path
) -> None:
    log = tmp_path / "run.fedlog"
    field.hold("client-4")  # the first phase stays open until all of it has been tried
    field.begin(log)
    field.wait(log, lambda records: bool(of_kind(records, UpdateAccepted)))
    # Client 1 has reported, and forgets nothing when its node is restarted.
    field.restart_node("node-0")
    stranger = field.federation.start_node(
        "stranger", {"project": str(field.project), "name": "stranger"}
    )
    second = field.begin(log)
    end = time.monotonic() + LONGEST
    while field.federation.command.status_of(second) != "finished:failed":
        assert time.monotonic() < end
        time.sleep(1.0)
    assert presence_of(log).sign is Sign.RUNNING
    field.let_go()
    records = field.wait_until_told(log)
    assert decided(records) == decided(simulated().log)
    assert len(of_kind(records, ServerStarted)) == 0
    assert "stranger" not in LoggedRun(log).server.clients
    said = stranger.output.read_text(encoding="utf-8")
    assert "Failed to activate SuperNode" in said
    assert not stranger.alive
    # Every phase was played once: 3 options, then the 2 that were left, twice.
    run = LoggedRun(log).name
    entries = read_audit(audit_file(field.state, "client-1"))
    assert [e.update.phase for e in entries if e.update.header.run == run] == [1, 2, 3]
    assert pulls_made(field.project)["client-1"] == 30 + 20 + 20
    stranger.end(patience=0.0)


def test_a_node_runs_no_code_that_a_server_sends(field: Field, tmp_path: Path) -> None:
    """The attack of a malicious server: apps that read a file of every node."""
    secret, trace, loot = (tmp_path / name for name in ("secret", "trace", "loot"))
    secret.write_text("outcomes of patients")
    before = {name: node.output.stat().st_size for name, node in field.nodes.items()}
    # One with its own client, and one that is called like ours, with files of its own.
    for name, client in {"evil": "evil.client:app", "colours": OURS}.items():
        app = write_foreign_app(
            tmp_path / name,
            name=name,
            package="evil",
            client=client,
            secret=secret,
            trace=trace,
            loot=loot,
            nodes=len(NODES),
        )
        run = field.federation.command.run(app, {"project": "/etc"})
        end = time.monotonic() + LONGEST
        while not loot.exists():
            assert time.monotonic() < end, field.federation.command.status_of(run)
            time.sleep(0.2)
        said = json.loads(loot.read_text())
        loot.unlink()
        assert len(said) == len(NODES)
        assert all("ForeignAppError" in reply.get("error", "") for reply in said), said
    assert not trace.exists()
    for name, node in field.nodes.items():
        told = node.output.read_bytes()[before[name] :].decode()
        assert told.count("REFUSED: run") == 2
        assert "evil.client:app" in told


@pytest.mark.slow
def test_a_server_killed_between_updates_and_decision_goes_on_to_the_same_decisions(
    field: Field, tmp_path: Path
) -> None:
    """As a service: ``coordinate`` notices that the server is gone, and submits the run again."""
    log = tmp_path / "run.fedlog"
    field.hold("client-1")
    served = subprocess.Popen(
        [
            FEDBANDITS,
            "coordinate",
            str(field.project),
            "--log",
            str(log),
            "--clients",
            str(CLIENTS),
        ],
        env={**os.environ, "FLWR_HOME": str(field.federation.folder / "home")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        before = field.wait(log, lambda records: bool(of_kind(records, UpdateAccepted)))
        assert not of_kind(before, PhaseClosed)
        os.kill(process_of(field.federation, "flwr-serverapp"), signal.SIGKILL)
        field.let_go()
        records = field.wait_until_told(log)
        said, _ = served.communicate(timeout=LONGEST)
    finally:
        served.kill()
    assert served.returncode == 0, said
    assert "the server has died; going on from the log" in said
    assert "The answer is blue" in said
    assert decided(records) == decided(simulated().log)
    assert [record.epoch for record in of_kind(records, ServerStarted)] == [2]
    # Who had answered, or was about to, has not pulled anew.
    assert pulls_made(field.project)["client-1"] == 30 + 20 + 20
    assert pulls_made(field.project)["client-4"] == 30 + 20 + 20


@pytest.mark.slow
def test_a_withdrawal_reaches_nodes_that_are_busy_with_a_phase(
    field: Field, tmp_path: Path
) -> None:
    """Version 0.1.0 went on with it until the next phase, which may be days."""
    log, project = tmp_path / "run.fedlog", field.project
    write_trial(project, pulls="60", admissions="6", max_phases=1, interleave=True)
    (project / "slow").write_text("0.15")
    try:
        field.begin(log)
        end = time.monotonic() + LONGEST
        while not list(project.glob("given-*")):
            assert time.monotonic() < end
            time.sleep(0.2)
        began = time.time()
        done = typed("withdraw", str(log), "red", "--reason", "rash", "--wait", "240")
        took = time.time() - began
        assert done.returncode == 0, done.stderr
        assert "all clients have confirmed" in done.stdout
        records = field.wait(log, lambda records: bool(of_kind(records, RunEnded)))
    finally:
        (project / "slow").unlink()
        write_trial(project)
    given = [
        line.split() for file in project.glob("given-*") for line in file.read_text().splitlines()
    ]
    reds = [float(at) - began for at, arm in given if arm == "red"]
    assert max(reds) < SOON, (max(reds), took)
    updates = [each.update for each in of_kind(records, UpdateAccepted)]
    assert [each.counts for each in updates] == [(0, 60, 60)] * CLIENTS
    assert len([arm for _, arm in given if arm == "blue"]) == 60 * CLIENTS


@pytest.mark.slow
def test_a_node_killed_in_a_phase_does_not_keep_the_others(field: Field, tmp_path: Path) -> None:
    """The last test of this federation: a node that was killed is refused for a minute."""
    log = tmp_path / "run.fedlog"
    short = tmp_path / "short"
    write_trial(
        short,
        pulls="40",
        admissions="6",
        quorum={"fraction": 0.6, "least": 3},
        # Then it waits for a quorum, and no longer: the four that are left.
        patience={"deadline": 3, "grace": 90, "resend": 5},
    )
    field.hold("client-4", "client-5")
    field.begin(log, short)
    field.wait(log, lambda records: bool(of_kind(records, PhaseOpened)))
    field.kill_node("node-2")
    records = field.wait(log, _over)
    (first, *_) = of_kind(records, PhaseOpened)
    assert len(first.admitted) == CLIENTS
    server = LoggedRun(log).server
    assert server.decision is not None
    assert server.arms[server.decision.best] == "blue"
    reported = {record.update.client for record in of_kind(records, UpdateAccepted)}
    assert reported == {"client-0", "client-1", "client-2", "client-3"}
    assert server.heard == 4


def typed(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command as somebody types it."""
    return subprocess.run([FEDBANDITS, *words], check=False, capture_output=True, text=True)


@pytest.mark.slow
def test_up_is_interrupted_and_resumed_to_the_same_decisions(tmp_path: Path) -> None:
    """As at a terminal: Ctrl-C in a phase leaves a log that goes on, and no process."""
    project = write_project(tmp_path / "own")
    log = project / "run.fedlog"
    for client in range(CLIENTS):
        (project / "hold" / f"client-{client}").touch()
    up = subprocess.Popen(
        [FEDBANDITS, "up", str(project), "--clients", str(CLIENTS), "--nodes", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        end = time.monotonic() + LONGEST
        while not (has_begun(log) and read_log(log).records):
            assert time.monotonic() < end
            assert up.poll() is None
            time.sleep(0.2)
        # Nobody else may run it meanwhile: what runs for it would be ended.
        other = typed("resume", str(log))
        assert (other.returncode, "runs already" in other.stderr) == (2, True)
        up.send_signal(signal.SIGINT)
        said, _ = up.communicate(timeout=LONGEST)
    finally:
        up.kill()
    assert up.returncode == 130, said
    assert f"continue with: fedbandits resume {log}" in said
    (folder,) = (project / ".federation").iterdir()
    assert LocalFederation(folder).strays() == []
    for file in (project / "hold").iterdir():
        file.unlink()
    again = typed("up", str(project))
    assert (again.returncode, "is there already" in again.stderr) == (2, True)
    done = typed("resume", str(log))
    assert done.returncode == 0, done.stderr
    assert "The answer is blue" in done.stdout
    assert "the last word is sent to all clients" in done.stderr
    assert decided(read_log(log).records) == decided(simulated().log)
    assert LocalFederation(folder).strays() == []


@pytest.mark.slow
def test_up_goes_on_by_itself_when_the_server_and_then_the_superlink_are_killed(
    tmp_path: Path,
) -> None:
    project = write_project(tmp_path / "own")
    log = project / "run.fedlog"
    for client in range(CLIENTS):
        (project / "hold" / f"client-{client}").touch()
    with (tmp_path / "said.txt").open("w+", encoding="utf-8") as said:
        up = subprocess.Popen(
            [FEDBANDITS, "up", str(project), "--clients", str(CLIENTS), "--nodes", "1"],
            stdout=said,
            stderr=subprocess.STDOUT,
        )

    def wait(true: Callable[[], object], longest: float = LONGEST) -> None:
        end = time.monotonic() + longest
        while not true():
            words = (tmp_path / "said.txt").read_text(encoding="utf-8")
            assert time.monotonic() < end, words
            assert up.poll() is None, words
            time.sleep(0.1)

    def epochs() -> list[int]:
        return [record.epoch for record in of_kind(read_log(log).records, ServerStarted)]

    def has_said(words: str) -> bool:
        return words in (tmp_path / "said.txt").read_text(encoding="utf-8")

    try:
        wait(lambda: has_begun(log) and read_log(log).records)
        (folder,) = (project / ".federation").iterdir()
        federation = LocalFederation(folder)
        os.kill(process_of(federation, "flwr-serverapp"), signal.SIGKILL)
        wait(lambda: has_said("the server has died; going on from the log"), SOON)
        wait(lambda: epochs() == [2] and presence_of(log).sign is Sign.RUNNING)
        os.kill(process_of(federation, "flower-superlink"), signal.SIGKILL)
        wait(lambda: has_said("the SuperLink has ended (exit code -9)"), SOON)
        for file in (project / "hold").iterdir():
            file.unlink()
        assert up.wait(LONGEST) == 0, (tmp_path / "said.txt").read_text(encoding="utf-8")
    finally:
        up.send_signal(signal.SIGTERM)
        up.wait()
    assert has_said("The answer is blue")
    assert epochs() == [2, 3]
    assert decided(read_log(log).records) == decided(simulated().log)
    assert federation.strays() == []
