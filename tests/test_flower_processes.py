"""A real federation: a SuperLink and three SuperNodes, with TLS and keys, and what befalls them.

One SuperLink serves all tests of this file, which run one after the other in one process.
"""

from __future__ import annotations

import contextlib
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
from fedbandits.federation.durable_log import is_begun, read_log
from fedbandits.federation.flower.processes import Child, LocalFederation
from fedbandits.federation.followed import LoggedRun
from fedbandits.federation.last_word import best_arm
from fedbandits.federation.now_file import read_now
from fedbandits.federation.project import flower_app
from fedbandits.federation.state_files import audit_file
from fedbandits.protocol import (
    PhaseClosed,
    PhaseOpened,
    ServerStarted,
    UpdateAccepted,
)
from flower_project import (
    CLIENTS,
    admitted,
    decided,
    forget_pulls,
    of_kind,
    pulls_made,
    simulated,
    tried,
    write_project,
    write_trial,
)

pytestmark = pytest.mark.xdist_group("flower")

LONGEST = 240.0
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
        """End a SuperNode and start it again.

        One that was killed may come back only after a minute: the SuperLink takes it for alive.
        """
        self.nodes[name].ask_to_end()
        self.nodes[name].end()
        self.start_node(name)

    def kill_node(self, name: str) -> None:
        """Kill a SuperNode and all of its processes with -9."""
        self.nodes[name].end(patience=0.0)

    def begin(self, log: Path, project: Path | None = None, now: Path | None = None) -> int:
        app = flower_app(self.folder / "app", self.project)
        config: dict[str, str | int] = {
            "project": str(self.project if project is None else project),
            "log": str(log),
            "clients": CLIENTS,
            "now": "" if now is None else str(now),
        }
        return self.federation.run(app, config)

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

    def server_process(self) -> int:
        """Return the process of the ServerApp."""
        for number in self.federation.strays():
            command = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
            if any(word.endswith(b"flwr-serverapp") for word in command):
                return number
        return pytest.fail("there is no server")

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
    second = field.begin(log, now=tmp_path / "second.json")
    end = time.monotonic() + LONGEST
    while (seen := read_now(tmp_path / "second.json")) is None:
        assert time.monotonic() < end
        time.sleep(0.2)
    assert "another server writes this log" in str(seen.error)
    field.let_go()
    records = field.wait_until_told(log)
    assert field.federation.status_of(second) == "finished:failed"
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


def test_a_server_killed_between_updates_and_decision_goes_on_to_the_same_decisions(
    field: Field, tmp_path: Path
) -> None:
    log = tmp_path / "run.fedlog"
    field.hold("client-1")
    field.begin(log)
    before = field.wait(log, lambda records: bool(of_kind(records, UpdateAccepted)))
    assert not of_kind(before, PhaseClosed)
    os.kill(field.server_process(), signal.SIGKILL)
    field.let_go()
    field.begin(log)
    records = field.wait_until_told(log)
    assert decided(records) == decided(simulated().log)
    assert [record.epoch for record in of_kind(records, ServerStarted)] == [2]
    # Who had answered, or was about to, has not pulled anew.
    assert pulls_made(field.project)["client-1"] == 30 + 20 + 20
    assert pulls_made(field.project)["client-4"] == 30 + 20 + 20


def test_a_node_killed_in_a_phase_does_not_keep_the_others(field: Field, tmp_path: Path) -> None:
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
        while not (is_begun(log) and read_log(log).records):
            assert time.monotonic() < end
            assert up.poll() is None
            time.sleep(0.2)
        # Nobody else may run it meanwhile: what runs for it would be ended.
        other = typed("resume", str(log))
        assert (other.returncode, "is being run already" in other.stderr) == (2, True)
        up.send_signal(signal.SIGINT)
        said, _ = up.communicate(timeout=LONGEST)
    finally:
        up.kill()
    assert up.returncode == 130, said
    assert f"go on with: fedbandits resume {log}" in said
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
