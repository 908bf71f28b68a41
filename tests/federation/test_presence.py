"""Whether a server is at work on a log, what it waits for, and what keeps a run going."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message

from commands import command
from fedbandits.errors import InputError
from fedbandits.federation.coordinator import (
    Bulletin,
    Coordinator,
    Patience,
    Requests,
)
from fedbandits.federation.durable_log import DurableLog, read_log
from fedbandits.federation.flower.command import FlowerError
from fedbandits.federation.flower.processes import CONNECTION, LocalFederation, free_port
from fedbandits.federation.flower.server import serve
from fedbandits.federation.flower.transport import FlowerTransport
from fedbandits.federation.flower.up import plan_new
from fedbandits.federation.flower.watchdog import MOST_CRASHES, Stage, keep_running
from fedbandits.federation.flower.wire import unpacked
from fedbandits.federation.followed import LoggedRun
from fedbandits.federation.local import load_pull, try_trial
from fedbandits.federation.presence import (
    SILENT_AFTER,
    Now,
    NowFile,
    Sign,
    now_path,
    presence_of,
    read_now,
)
from fedbandits.federation.served import begin_or_resume
from fedbandits.federation.trial import Trial, load_trial, read_trial
from fedbandits.protocol import PhaseOpened, ServerStarted
from fedbandits.protocol.records import ArmWithdrawn
from flower_project import (
    CLIENTS,
    TRIAL,
    decided,
    of_kind,
    simulated,
    write_project,
    write_trial,
)
from room import Hall, Room, config, three_nodes

pytestmark = pytest.mark.usefixtures("in_a_run")

LONGEST = 480.0

# A server in a process of its own; its clients are in it, too.
_SERVER = """
import os, signal, sys
from pathlib import Path
from flwr.supercore.task_identity import TaskIdentity
from fedbandits.federation.flower.processes import CONNECTION, LocalFederation, free_port
from fedbandits.federation.flower.server import serve
from room import Room, config, three_nodes

TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
project, does = Path(sys.argv[1]), sys.argv[2]

def befalls(message, reply):
    phase = "phase" in message.metadata.message_type
    if phase and does == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    return None if phase and does == "waits" else reply

serve(Room(three_nodes(project), befalls), config(project))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path / "colours")


def started(project: Path, does: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", _SERVER, str(project), does],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.DEVNULL,
    )


@pytest.fixture
def waiting(project: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A server whose clients never report."""
    server = started(project, "waits")
    yield server
    server.kill()
    server.wait()


def until(true: Callable[[], Any]) -> None:
    end = time.monotonic() + LONGEST
    while not true():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_status_tells_a_server_at_work_from_one_that_was_killed(
    project: Path, waiting: subprocess.Popen[bytes]
) -> None:
    """Version 0.1.0 read the log alone: a phase was "open" after kill -9."""
    log = project / "run.fedlog"
    until(lambda: (now := read_now(now_path(log))) is not None and now.deadline is not None)
    status = command("status", log)
    assert "the server is running; it waits for 2 of 2 clients to report" in status.stdout
    assert "connected: 6 clients on 3 nodes" in status.stdout
    assert "phase 1 is decided at 20" in status.stdout
    seen = json.loads(command("status", log, "--json").stdout)["server"]
    assert (seen["state"], seen["connected"], seen["away"]) == ("running", 6, [])
    assert [node["clients"] for node in seen["nodes"]] == [2, 2, 2]
    assert seen["seen"] < seen["deadline"] < seen["given_up"]
    # A sign of life is a moment old, again and again.
    until(lambda: (now := read_now(now_path(log))) is not None and now.at > time.time() - 1)
    waiting.kill()
    waiting.wait()
    status = command("status", log)
    assert "phase 1 is open" in status.stdout
    assert "no server is running: the last one died; its last sign of life was" in status.stdout
    assert f"go on with: fedbandits coordinate {project} --log {log}" in status.stdout
    dead = json.loads(command("status", log, "--json").stdout)["server"]
    assert dead["state"] == "gone"
    assert "connected" not in dead


class Watched:
    """A server that is driven step by step, and watched through its files."""

    def __init__(self, project: Path, nodes: dict[int, dict[str, Any]], **patience: Any) -> None:
        self.now, self.wall = 0.0, 1_000_000_000.0
        self.path = project / "run.fedlog"
        self.log, run = begin_or_resume(load_trial(project), self.path)
        server = run.server
        self.room = Room(nodes, lambda message, reply: None if _of_phase(message) else reply)
        patient = Patience(**{"deadline": 60.0, "grace": 600.0, "clients": CLIENTS, **patience})
        transport = FlowerTransport(
            self.room, server, patient, clock=lambda: self.now, sleep=self.sleep, beat=self.beat
        )
        self.file = NowFile(now_path(self.path), project, clock=lambda: self.wall + self.now)
        self.coordinator = Coordinator(
            server,
            transport,
            clock=lambda: self.now,
            patience=patient,
            beat=lambda at: self.file.write(at, server, transport.nodes()),
        )

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def beat(self) -> None:
        self.file.beat()

    def words(self) -> str:
        return LoggedRun(self.path).status().words()

    def seen(self) -> Now:
        found = read_now(now_path(self.path))
        assert found is not None
        return found


def _of_phase(message: Message) -> bool:
    return "phase" in message.metadata.message_type


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> list[Watched]:
    """Let status look at the clock of the server that a test drives."""
    driven: list[Watched] = []
    monkeypatch.setattr(
        "fedbandits.federation.presence.time.time", lambda: driven[0].wall + driven[0].now
    )
    return driven


def test_a_run_that_waits_says_for_what(project: Path, wall: list[Watched]) -> None:
    nodes = three_nodes(project)
    gone = nodes.pop(2)
    watched = Watched(project, nodes)
    wall.append(watched)
    with watched.log:
        for _ in range(3):
            watched.coordinator.step()
        assert "no phase was opened yet" in watched.words()
        assert "it waits for clients: 4 of 6 are connected" in watched.words()
        assert "connected: 4 clients on 2 nodes" in watched.words()
        nodes[2] = gone
        while "phase 1 is open" not in watched.words():
            watched.coordinator.step()
        # Somebody who is in is away, and the deadline passes.
        nodes.pop(0)
        nodes.pop(2)
        while watched.now < 10:
            watched.coordinator.step()
        assert "not connected: client-" in watched.words()
        deadline = watched.seen().deadline
        while watched.now < 75:
            watched.coordinator.step()
        assert "it waits for a quorum, after the deadline: 2 of 2 clients" in watched.words()
        assert deadline is not None
        assert watched.seen().deadline == deadline  # it does not move on with the clock


def test_a_server_that_hangs_is_not_taken_for_one_that_works(
    project: Path, wall: list[Watched]
) -> None:
    watched = Watched(project, three_nodes(project))
    wall.append(watched)
    with watched.log:
        watched.coordinator.step()
        assert presence_of(watched.path).sign is Sign.RUNNING
        watched.now += SILENT_AFTER + 1
        assert presence_of(watched.path).sign is Sign.SILENT
        assert "has given no sign of life for 16 s" in watched.words()
        watched.wall -= 3600.0  # nor if the clock is set back
        assert presence_of(watched.path).sign is Sign.SILENT
    assert presence_of(watched.path).sign is Sign.GONE


def test_looking_at_a_log_does_not_keep_a_server_from_it(project: Path) -> None:
    log = project / "run.fedlog"
    first, _ = begin_or_resume(load_trial(project), log)
    first.close()
    looker = subprocess.Popen(
        [
            *(sys.executable, "-c"),
            "import sys; from pathlib import Path\n"
            "from fedbandits.federation.presence import presence_of\n"
            "print('ready', flush=True)\n"
            "while True: presence_of(Path(sys.argv[1]))",
            str(log),
        ],
        stdout=subprocess.PIPE,
    )
    try:
        assert looker.stdout is not None
        assert looker.stdout.readline() == b"ready\n"
        for _ in range(200):
            DurableLog(log).close()
    finally:
        looker.kill()
        looker.communicate()


def test_a_refused_server_does_not_speak_for_the_one_at_work(project: Path) -> None:
    log, _ = begin_or_resume(load_trial(project), project / "run.fedlog")
    with log:
        with pytest.raises(Exception, match="another server writes this log"):
            serve(Room(three_nodes(project)), config(project))
        assert read_now(now_path(log.path)) is None
        (project / "fedbandits.toml").write_text("title = 1", encoding="utf-8")
        with pytest.raises(InputError):
            serve(Room(three_nodes(project)), config(project))
        assert read_now(now_path(log.path)) is None
    with pytest.raises(InputError):
        serve(Room(three_nodes(project)), config(project))
    seen = read_now(now_path(log.path))
    assert seen is not None
    assert (seen.over, seen.crashed, seen.where) == (True, False, "title")


WAITS: list[tuple[dict[str, Any], str]] = [
    (
        {"patience": {"clients": 4}},
        "patience.clients: 4, and there are 2 clients: the first phase would never be opened; take"
        " --clients 4 or more, or lower it",
    ),
    (
        {"quorum": {"fraction": 0.5, "least": 3}},
        "quorum.least: 3, and there are 2 clients",
    ),
    (
        {"algorithm": "fed1-ucb", "population": 5},
        "population: 5, and there are 2 clients",
    ),
]


@pytest.mark.parametrize(("changes", "words"), WAITS)
def test_a_run_with_too_few_clients_is_refused_at_the_start(
    project: Path, changes: dict[str, Any], words: str
) -> None:
    write_trial(project, **changes)
    if "algorithm" in changes:  # it has no admissions: all are in from the start
        file = project / "fedbandits.toml"
        lines = file.read_text(encoding="utf-8").splitlines()
        file.write_text("\n".join(each for each in lines if "admissions" not in each))
    with pytest.raises(InputError) as refused:
        plan_new(project, clients=2, nodes=None, log=None)
    assert str(refused.value).startswith(words)
    with pytest.raises(InputError) as refused:
        try_trial(load_trial(project), load_pull(project), 2)
    assert str(refused.value).startswith(words)
    for verb in ("up", "try"):
        typed = command(verb, project, "--clients", "2")
        assert (typed.returncode, words in typed.stderr) == (2, True)


def test_more_clients_than_exist_are_not_waited_for(project: Path) -> None:
    with pytest.raises(InputError, match=r"^patience.clients: 7 clients of a population of 6"):
        read_trial({**TRIAL, "population": 6, "patience": {"clients": 7}})
    write_trial(project, population=6)
    with pytest.raises(InputError, match=r"^run-config.clients: 7 clients of a population"):
        serve(Room(three_nodes(project)), config(project, clients=7))


class OneBehind(Room):
    """A room in which node 2 holds every reply back until it is sent another message."""

    held: Message | None = None

    def _pushed(self, message: Message) -> str:
        number = super()._pushed(message)
        if message.metadata.dst_node_id == 2:
            reply = self._replies.pop(number)
            if self.held is not None:
                self._replies[self.held.metadata.reply_to_message_id] = self.held
            self.held = reply
        return number


def phases_took(hall: Hall, requests: Requests = tuple) -> list[float]:
    """Run, and return how long each phase was open."""
    opened: list[float] = []

    def watch(at: Bulletin) -> None:
        hall.news.append(at.news)
        if at.news == f"phase {at.phase} is open" or "last word" in at.news:
            opened.append(hall.now)

    Coordinator(
        hall.server,
        hall.transport,
        clock=lambda: hall.now,
        patience=replace(hall.patience, clients=CLIENTS),
        watch=watch,
        requests=requests,
    ).run()
    return [end - start for start, end in pairwise(opened)]


def all_from_the_start(project: Path) -> Trial:
    return read_trial({**load_trial(project).tables, "admissions": "6", "max_phases": 6})


def test_a_node_one_message_behind_is_noticed_and_does_not_slow_the_run(project: Path) -> None:
    """Version 0.1.0 waited for every reply until it sent again, without a warning."""
    hall = Hall(OneBehind(three_nodes(project)), all_from_the_start(project), deadline=600.0)
    took = phases_took(hall)
    # Two phases wait until the message is sent again: before and after an extra message has helped.
    assert len(took) == 6
    assert sum(seconds > 5.0 for seconds in took) <= 2, took
    assert max(took[3:]) < 5.0, took
    assert sum("is one message behind" in news for news in hall.news) == 1
    (trouble,) = [node["trouble"] for node in hall.transport.nodes() if node["trouble"]]
    assert "restart its SuperNode" in trouble


class Slow(Room):
    """A room in which node 2 takes one message after the other, and its time for a phase."""

    hall: Hall
    free = 0.0

    def __init__(self, nodes: dict[int, dict[str, Any]], seconds: float) -> None:
        super().__init__(nodes)
        self.seconds = seconds
        self._late: list[tuple[float, str, Message]] = []
        self.played = {0}

    def _pushed(self, message: Message) -> str:
        number = super()._pushed(message)
        if message.metadata.dst_node_id == 2:
            phase = unpacked(message)["message"]["phase"] if _of_phase(message) else 0
            takes = 2.0 if phase in self.played else self.seconds  # from memory, what it has played
            self.played.add(phase)
            self.free = max(self.free, self.hall.now) + takes
            self._late.append((self.free, number, self._replies.pop(number)))
        return number

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        for late in [late for late in self._late if late[0] <= self.hall.now]:
            self._late.remove(late)
            self._replies[late[1]] = late[2]
        return super().pull_messages(message_ids)


@pytest.mark.parametrize("seconds", [3.0, 15.0, 25.0, 31.0, 33.0, 40.0, 70.0])
def test_a_slow_node_is_not_taken_for_one_that_is_behind(project: Path, seconds: float) -> None:
    room = Slow(three_nodes(project), seconds)
    hall = room.hall = Hall(room, all_from_the_start(project), deadline=600.0, grace=600.0)
    took = phases_took(hall)
    assert min(took) >= seconds
    assert not any("one message behind" in news for news in hall.news)


def test_a_withdrawal_in_a_phase_is_no_sign_of_a_node_that_is_behind(project: Path) -> None:
    room = Slow(three_nodes(project), 40.0)
    hall = room.hall = Hall(room, all_from_the_start(project), deadline=600.0, grace=600.0)
    wanted = [ArmWithdrawn(arm=0, reason="harm")]

    def requests() -> Sequence[ArmWithdrawn]:
        return [wanted.pop()] if wanted and hall.server.phase == 1 and hall.now > 10 else []

    phases_took(hall, requests)
    assert not wanted
    assert hall.server.finished
    assert not any("one message behind" in news for news in hall.news)


class Crashing:
    """A place where servers are processes that do what they are told, one after the other."""

    def __init__(self, project: Path, *deeds: str) -> None:
        self.project = project
        self.deeds = list(deeds)
        self.servers: list[subprocess.Popen[bytes]] = []

    def begin(self, stage: Stage) -> int:
        stage("starting")
        self.servers.append(started(self.project, self.deeds[len(self.servers)]))
        return len(self.servers)

    def end(self) -> None:
        self.servers[-1].kill()

    def status_of(self, run: int) -> str:
        return "running" if self.servers[run - 1].poll() is None else "finished:failed"

    def look_after(self, stage: Stage) -> None:
        pass

    def last_words(self) -> str:
        return ""

    def close(self) -> None:
        for server in self.servers:
            server.kill()
            server.wait()


def kept_running(place: Crashing) -> list[str]:
    said: list[str] = []
    try:
        keep_running(place.project / "run.fedlog", place, stage=said.append, watch=lambda _: None)
    finally:
        place.close()
    return said


def test_a_run_goes_on_by_itself_after_its_server_was_killed(project: Path) -> None:
    """Version 0.1.0 submitted a run once, and ended when its server was gone."""
    said = kept_running(Crashing(project, "dies", "dies", "serves"))
    assert sum("the server has died; going on from the log" in line for line in said) == 2
    records = read_log(project / "run.fedlog").records
    assert [record.epoch for record in of_kind(records, ServerStarted)] == [2, 3]
    assert decided(records) == decided(simulated().log)


class RefusesLate(Crashing):
    """A server says why it ends while Flower, which is slow to answer, is asked about it."""

    def begin(self, stage: Stage) -> int:
        return 1

    def status_of(self, run: int) -> str:
        file = NowFile(now_path(self.project / "run.fedlog"), self.project)
        file.ended(InputError("run.fedlog", "began with another arms than the trial says now"))
        return "finished:failed"


def test_a_refusal_that_comes_while_flower_is_asked_is_no_crash(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedbandits.federation.flower.watchdog._DOUBT", 0.0)
    with pytest.raises(InputError, match="began with another arms"):
        kept_running(RefusesLate(project))


def test_a_server_that_dies_again_and_again_is_given_up(project: Path) -> None:
    place = Crashing(project, *["dies"] * MOST_CRASHES)
    with pytest.raises(FlowerError, match=r"crash 3 in a row without a decided phase") as given_up:
        kept_running(place)
    assert f"go on with: fedbandits coordinate {project}" in str(given_up.value)
    assert len(place.servers) == MOST_CRASHES
    assert len(of_kind(read_log(project / "run.fedlog").records, PhaseOpened)) == 1


def test_the_death_of_a_server_is_noticed_within_seconds(project: Path) -> None:
    place = Crashing(project, "waits", "serves")
    killed = noticed = 0.0

    def stage(line: str) -> None:
        nonlocal noticed
        if "has died" in line:
            noticed = time.monotonic()

    def watch(now: Any) -> None:
        nonlocal killed
        if now.deadline is not None and not killed:
            place.servers[0].send_signal(signal.SIGKILL)
            place.servers[0].wait()
            killed = time.monotonic()

    try:
        keep_running(project / "run.fedlog", place, stage=stage, watch=watch)
    finally:
        place.close()
    assert 0.0 < noticed - killed < 60.0


def test_what_the_server_refuses_is_not_tried_again(project: Path) -> None:
    (project / "fedbandits.toml").write_text("title = 1", encoding="utf-8")
    place = Crashing(project, "serves")
    with pytest.raises(InputError, match=r"^title"):
        kept_running(place)
    assert len(place.servers) == 1


def test_flwr_is_loaded_once_for_many_commands(tmp_path: Path) -> None:
    """Version 0.1.0 started the program anew for every command, which took over a second each."""
    federation = LocalFederation(tmp_path)
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(
        f'[superlink.{CONNECTION}]\naddress = "127.0.0.1:{free_port()}"\ninsecure = true\n'
    )
    loaded = []
    for run in (1, 2):
        with pytest.raises(FlowerError, match=rf"^nothing is known of run {run}: .*SuperLink"):
            federation.command.status_of(run)
        loaded += federation.strays()
    assert len(loaded) == 2
    assert len(set(loaded)) == 1
    federation.close()
    assert federation.strays() == []


def test_what_is_loaded_for_every_message_is_what_it_needs() -> None:
    code = (
        "import sys, fedbandits.federation.flower.client\n"
        "print(*(m for m in ('scipy', 'opendp', 'matplotlib') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == ""
