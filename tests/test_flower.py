"""The federation's Flower parts in one process: a grid that calls the ClientApp, and mischief."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from fedbandits.errors import InputError
from fedbandits.federation.coordinator import Coordinator, Patience
from fedbandits.federation.durable_log import LogInUseError, read_log
from fedbandits.federation.flower import client as client_module
from fedbandits.federation.flower.client import NodePlan, within
from fedbandits.federation.flower.server import serve
from fedbandits.federation.flower.transport import STRIKES, FlowerTransport
from fedbandits.federation.flower.wire import packed, unpacked
from fedbandits.federation.followed import LoggedRun
from fedbandits.federation.last_word import best_arm
from fedbandits.federation.local import server_of
from fedbandits.federation.now_file import read_now
from fedbandits.federation.run import begin_or_resume
from fedbandits.federation.trial import Trial, load_trial
from fedbandits.protocol import (
    AnswerRefused,
    PhaseClosed,
    Quorum,
    Refused,
    Rejection,
    ServerStarted,
    UpdateAccepted,
    UpdateRejected,
)
from flower_project import (
    CLIENTS,
    admitted,
    decided,
    of_kind,
    pulls_made,
    simulated,
    tried,
    write_project,
)

Mischief = Callable[[Message, Message], Message | None]
"""From a message and its reply to what arrives; None if nothing does."""


class Room(Grid):
    """A grid whose nodes are in this process, and answer when they are asked.

    Parameters
    ----------
    nodes : dict
        Node configs, by the nodes' numbers.
    mischief : callable
        What befalls replies.
    """

    def __init__(
        self, nodes: dict[int, dict[str, Any]], mischief: Mischief = lambda _, reply: reply
    ) -> None:
        self.nodes = nodes
        self.mischief = mischief
        self.asked: list[tuple[int, str]] = []
        self._replies: dict[str, Message] = {}
        self._number = 0

    def set_run(self, run: Run) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Run:
        raise NotImplementedError

    def create_message(self, *_: Any, **__: Any) -> Message:
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return [self._pushed(message) for message in messages]

    def _pushed(self, message: Message) -> str:
        self._number += 1
        number = str(self._number)
        node = message.metadata.dst_node_id
        message.metadata.__dict__["_message_id"] = number
        self.asked.append((node, message.metadata.message_type))
        context = Context(
            run_id=1,
            node_id=node,
            node_config=self.nodes.get(node, {}),
            state=RecordDict(),
            run_config={},
        )
        try:
            reply = client_module.app(message, context)
        except Exception as error:
            reply = Message(Error(code=2, reason=str(error)), reply_to=message)
        arrived = self.mischief(message, reply)
        if arrived is not None:
            self._replies[number] = arrived
        return number

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [
            self._replies.pop(number) for number in list(message_ids) if number in self._replies
        ]

    def send_and_receive(self, *_: Any, **__: Any) -> Iterable[Message]:
        raise NotImplementedError


@pytest.fixture(autouse=True)
def in_a_run() -> None:
    """Be somebody to Flower, as its own processes are: messages say who has made them."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path / "colours")


def three_nodes(project: Path) -> dict[int, dict[str, Any]]:
    return {
        node: {"project": str(project), "name": "client", "first": 2 * node, "clients": 2}
        for node in range(3)
    }


def config(project: Path, **more: Any) -> dict[str, Any]:
    return {"project": str(project), "clients": CLIENTS, **more}


def test_flower_carries_what_decides_in_one_process_and_in_a_simulation(project: Path) -> None:
    serve(Room(three_nodes(project)), config(project))
    records = read_log(project / "run.fedlog").records
    in_one_process = tried(project)
    assert decided(records) == decided(in_one_process.log) == decided(simulated().log)
    assert admitted(records) == admitted(in_one_process.log)
    assert best_arm(project / "state", "client-3") == "blue"


def test_a_run_that_is_over_tells_its_clients_once_more(project: Path) -> None:
    room = Room(three_nodes(project))
    serve(room, config(project))
    for file in (project / "state").glob("*.answer.json"):
        file.unlink()
    room.asked.clear()
    serve(room, config(project))
    assert best_arm(project / "state", "client-0") == "blue"
    assert {kind for _, kind in room.asked} == {"query.who", "query.conclude"}


def test_a_server_that_dies_goes_on_from_its_log_without_new_pulls(project: Path) -> None:
    class DeadError(Exception):
        """The process is gone."""

    def dies_in_phase_2(message: Message, reply: Message) -> Message:
        if "phase" in message.metadata.message_type:
            assignment = unpacked(message)["message"]
            if assignment["phase"] == 2 and message.metadata.dst_node_id == 2:
                raise DeadError
        return reply

    now = project / "now.json"
    with pytest.raises(DeadError):
        serve(Room(three_nodes(project), dies_in_phase_2), config(project, now=str(now)))
    seen = read_now(now)
    assert seen is not None
    assert seen.over
    assert seen.error == "DeadError: "
    pulled = pulls_made(project)
    assert pulled["client-1"] == 30 + 20
    serve(Room(three_nodes(project)), config(project, now=str(now)))
    records = read_log(project / "run.fedlog").records
    assert [record.epoch for record in of_kind(records, ServerStarted)] == [2]
    assert decided(records) == decided(simulated().log)
    assert pulls_made(project)["client-1"] == 30 + 20 + 20
    seen = read_now(now)
    assert seen is not None
    assert (seen.over, seen.error) == (True, None)
    assert [arm["name"] for arm in seen.arms if arm["left"]] == ["blue"]


def test_a_second_server_on_a_log_is_refused_and_leaves_it_alone(project: Path) -> None:
    log, _ = begin_or_resume(load_trial(project), project / "run.fedlog")
    with log, pytest.raises(LogInUseError, match="another server writes this log"):
        serve(Room(three_nodes(project)), config(project))
    assert read_log(project / "run.fedlog").records == ()


def test_a_trial_that_was_changed_does_not_go_on(project: Path) -> None:
    log, _ = begin_or_resume(load_trial(project), project / "run.fedlog")
    log.close()
    file = project / "fedbandits.toml"
    file.write_text(file.read_text().replace('pulls = "10"', 'pulls = "20"'), encoding="utf-8")
    with pytest.raises(InputError, match="began with another pulls"):
        serve(Room(three_nodes(project)), config(project))
    # How long to wait may change.
    file.write_text(file.read_text().replace('pulls = "20"', 'pulls = "10"'), encoding="utf-8")
    file.write_text(file.read_text().replace("deadline = 120", "deadline = 60"), encoding="utf-8")
    serve(Room(three_nodes(project)), config(project))
    assert LoggedRun(project / "run.fedlog").server.finished


class Hall:
    """A transport over a room, with time that passes when somebody waits."""

    def __init__(self, room: Room, trial: Trial, **patience: Any) -> None:
        self.now = 0.0
        self.news: list[str] = []
        self.room = room
        self.server = server_of(trial)
        self.patience = Patience(**{"deadline": 50.0, "grace": 50.0, "resend": 10.0, **patience})
        self.transport = FlowerTransport(
            room,
            self.patience,
            tell=self.news.append,
            clock=lambda: self.now,
            sleep=self.sleep,
        )

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def run(self, clients: int = CLIENTS) -> None:
        Coordinator(
            self.server,
            self.transport,
            clock=lambda: self.now,
            seed=0,
            patience=replace(self.patience, clients=clients),
            watch=lambda at: self.news.append(at.news),
        ).run()

    def rejections(self) -> list[Rejection]:
        return [record.rejection for record in of_kind(self.server.log, UpdateRejected)]


def changed(reply: Message, message: Message, change: Callable[[Any], Any]) -> Message:
    return Message(packed(change(unpacked(reply))), reply_to=message)


def test_who_speaks_for_somebody_elses_client_is_not_heard(project: Path) -> None:
    def lies(message: Message, reply: Message) -> Message:
        """Node 2 answers in the name of a client of node 0."""
        if message.metadata.dst_node_id != 2 or "phase" not in message.metadata.message_type:
            return reply
        stolen = {"client": "client-1", "means": [9.0, 9.0, 9.0]}
        return changed(reply, message, lambda said: {"answers": [{**said["answers"][0], **stolen}]})

    trial = replace(load_trial(project), quorum=Quorum(fraction=0.5))
    hall = Hall(Room(three_nodes(project), lies), trial)
    hall.run()
    accepted = [record.update for record in of_kind(hall.server.log, UpdateAccepted)]
    assert accepted
    assert max(max(update.means) for update in accepted) < 2.0
    assert not {"client-4", "client-5"} & {update.client for update in accepted}
    assert hall.rejections() == [Rejection.FORM] * STRIKES
    assert any('speaks for client "client-1"' in news for news in hall.news)
    assert sum("node 2 is not listened to any more" in news for news in hall.news) == 1


def test_a_node_that_floods_is_cut_off(project: Path) -> None:
    def floods(message: Message, reply: Message) -> Message:
        if message.metadata.dst_node_id != 2 or "phase" not in message.metadata.message_type:
            return reply
        return changed(reply, message, lambda said: {"answers": said["answers"] + [None] * 5000})

    trial = replace(load_trial(project), quorum=Quorum(fraction=0.5))
    hall = Hall(Room(three_nodes(project), floods), trial)
    hall.run()
    assert hall.server.finished
    assert hall.rejections() == [Rejection.FORM] * STRIKES


def test_a_name_is_not_given_twice_while_its_node_is_there(project: Path) -> None:
    nodes = three_nodes(project)
    nodes[7] = {**nodes[2], "project": str(project)}  # claims clients 4 and 5 as well
    hall = Hall(Room(nodes), load_trial(project))
    hall.run()
    assert decided(hall.server.log) == decided(simulated().log)
    assert sum("which another node has" in news for news in hall.news) == 2
    assert not any(node == 7 for node, kind in hall.room.asked if "phase" in kind)


GARBAGE = [
    RecordDict(),
    RecordDict({"fedbandits": ConfigRecord({"json": "{"})}),
    RecordDict({"fedbandits": ConfigRecord({"json": "[]"})}),
    RecordDict({"fedbandits": ConfigRecord({"text": "{}"})}),
    packed({"answers": None}),
    packed({"answers": [None]}),
    packed({"answers": [{"is": "Update"}]}),
    packed({"clients": [1, 2]}),
    packed({"clients": ["a", "a"]}),
    packed({"clients": ["x" * 1500]}),
    packed({"clients": ["\n"]}),
]


@pytest.mark.parametrize("kind", ["query.who", "train.phase"])
@pytest.mark.parametrize("number", range(len(GARBAGE)))
def test_garbage_from_a_node_is_written_down_and_the_others_go_on(
    project: Path, number: int, kind: str
) -> None:
    def mad(message: Message, reply: Message) -> Message:
        here = message.metadata.dst_node_id == 2 and message.metadata.message_type == kind
        return Message(GARBAGE[number], reply_to=message) if here else reply

    trial = replace(load_trial(project), quorum=Quorum(fraction=0.5))
    hall = Hall(Room(three_nodes(project), mad), trial)
    hall.run(clients=4)
    assert hall.server.finished
    closed = of_kind(hall.server.log, PhaseClosed)
    assert len(closed) >= 2
    heard = {record.update.client for record in of_kind(hall.server.log, UpdateAccepted)}
    assert heard == {"client-0", "client-1", "client-2", "client-3"}
    if kind == "train.phase":
        assert {"client-4", "client-5"} & set(hall.server.clients)
        assert hall.rejections() == [Rejection.FORM] * STRIKES
    else:
        assert not {"client-4", "client-5"} & set(hall.server.clients)


def test_a_node_that_fails_is_asked_again_and_not_in_a_hurry(project: Path) -> None:
    failed: list[float] = []

    def fails_twice(message: Message, reply: Message) -> Message:
        asked = "phase" in message.metadata.message_type and message.metadata.dst_node_id == 0
        if asked and len(failed) < 2:
            failed.append(hall.now)
            return Message(Error(code=5, reason="Node unavailable"), reply_to=message)
        return reply

    hall = Hall(Room(three_nodes(project), fails_twice), load_trial(project))
    hall.run()
    assert decided(hall.server.log) == decided(simulated().log)
    assert failed[1] - failed[0] >= hall.patience.resend
    assert any("Node unavailable (code 5)" in news for news in hall.news)


def test_messages_to_a_silent_node_do_not_queue_up(project: Path) -> None:
    def silent(message: Message, reply: Message) -> Message | None:
        slow = "phase" in message.metadata.message_type and message.metadata.dst_node_id == 0
        return None if slow else reply

    trial = replace(load_trial(project), max_phases=1)
    hall = Hall(Room(three_nodes(project), silent), trial, deadline=1000.0, grace=1000.0)
    hall.run()
    times = sum(node == 0 for node, kind in hall.room.asked if "phase" in kind)
    # After 30, 90, 210, 450, 930 and 1,890 s, where every 10 s would be 200 times.
    assert times == 7


def test_a_run_in_the_middle_waits_for_a_node_to_say_whom_it_hosts(project: Path) -> None:
    """A server that goes on has open questions to clients whose nodes it does not know yet."""
    hall = Hall(Room(three_nodes(project)), load_trial(project))
    hall.server.open(["client-1", "client-4"])
    again = Hall(hall.room, load_trial(project))
    again.server = server_of(load_trial(project), hall.server.log)
    again.run()
    assert decided(again.server.log) == decided(simulated().log)
    assert again.now < again.patience.resend


def test_what_goes_wrong_in_pull_is_not_told_to_the_server(project: Path) -> None:
    (project / "client.py").write_text(
        "def pull(arm, n, client):\n    raise ValueError('patient 17 has a temperature of 39.8')\n",
        encoding="utf-8",
    )
    sent: list[str] = []

    def seen(message: Message, reply: Message) -> Message:
        sent.append(json.dumps(unpacked(reply)))
        return reply

    hall = Hall(Room(three_nodes(project), seen), load_trial(project))
    hall.run()
    assert not of_kind(hall.server.log, PhaseClosed)
    assert any("its own code failed (ValueError" in news for news in hall.news)
    assert not any("39.8" in each or "patient" in each for each in sent + hall.news)


def test_a_hung_pull_is_given_up(project: Path) -> None:
    (project / "hold" / "client-1").touch()
    nodes = three_nodes(project)
    file = project / "fedbandits.toml"
    file.write_text(file.read_text().replace("pulls = 90", "pulls = 0.2"), encoding="utf-8")
    hall = Hall(Room(nodes), load_trial(project), abandoned=1)
    begun = time.monotonic()
    hall.run()
    assert time.monotonic() - begun < 60.0
    assert any("its own code failed (TimeoutError" in news for news in hall.news)
    (project / "hold" / "client-1").unlink()


def test_the_last_word_is_kept_whatever_client_py_does_by_then(project: Path) -> None:
    sent: list[str] = []

    def breaks(message: Message, reply: Message) -> Message:
        if "phase" in message.metadata.message_type and unpacked(message)["message"]["phase"] == 3:
            broken = "raise RuntimeError('patient 17')"
            (project / "client.py").write_text(broken, encoding="utf-8")
        sent.append(str(reply.error if reply.has_error() else unpacked(reply)))
        return reply

    room = Room({0: {"project": str(project), "name": "client", "first": 0, "clients": 6}}, breaks)
    hall = Hall(room, load_trial(project))
    hall.run()
    assert {best_arm(project / "state", f"client-{n}") for n in range(CLIENTS)} == {"blue"}
    assert not any("patient" in each for each in sent + hall.news)


def test_who_has_not_confirmed_the_last_word_is_told_again_and_named(project: Path) -> None:
    lost: list[float] = []

    def loses_twice(message: Message, reply: Message) -> Message:
        if "conclude" in message.metadata.message_type and len(lost) < 2:
            lost.append(hall.now)
            return Message(Error(code=2, reason="NodeError"), reply_to=message)
        return reply

    hall = Hall(Room(three_nodes(project), loses_twice), load_trial(project))
    hall.run()
    assert len(lost) == 2
    assert not any("have not confirmed" in news for news in hall.news)
    never = Hall(
        Room(three_nodes(project), lambda m, r: None if "conc" in m.metadata.message_type else r),
        load_trial(project),
    )
    never.run()
    assert any("6 clients have not confirmed the last word" in news for news in never.news)


def test_a_node_with_another_list_of_arms_says_so_and_keeps_no_wrong_answer(project: Path) -> None:
    other = project.parent / "other"
    shutil.copytree(project, other)
    file = other / "fedbandits.toml"
    turned = file.read_text().replace('["red", "green", "blue"]', '["blue", "green", "red"]')
    file.write_text(turned, encoding="utf-8")
    nodes = three_nodes(project)
    nodes[2]["project"] = str(other)
    trial = replace(load_trial(project), quorum=Quorum(fraction=0.5))
    hall = Hall(Room(nodes), trial)
    hall.run()
    refusals = {record.refusal.why for record in of_kind(hall.server.log, AnswerRefused)}
    assert refusals == {Refused.ARMS}
    assert best_arm(project / "state", "client-1") == "blue"
    assert {best_arm(other / "state", f"client-{n}") for n in (4, 5)} == {None}


def test_an_older_run_does_not_change_what_a_newer_one_has_found(project: Path) -> None:
    room = Room(three_nodes(project))
    old, new = project / "old.fedlog", project / "new.fedlog"
    serve(room, config(project, log=str(old)))
    client = project / "client.py"
    text = client.read_text()
    # Of another length: Python takes a file of the same second and size for the one it has read.
    turned = text.replace("0.3, 0.5, 0.6", "0.60, 0.5, 0.3")
    client.write_text(turned, encoding="utf-8")
    serve(room, config(project, log=str(new)))
    assert best_arm(project / "state", "client-1") == "red"
    serve(room, config(project, log=str(old)))
    assert best_arm(project / "state", "client-1") == "red"


def test_a_client_that_has_moved_does_not_silence_the_others_of_its_node(project: Path) -> None:
    nodes = three_nodes(project)
    moved = False

    def moves(message: Message, reply: Message) -> Message:
        nonlocal moved
        if "phase" in message.metadata.message_type and not moved:
            moved = True
            nodes[2] = {"project": str(project), "clients": "client-4"}
            nodes[3] = {"project": str(project), "clients": "client-5"}
        return reply

    hall = Hall(Room(nodes, moves), load_trial(project), deadline=500.0)
    hall.run()
    heard = [record.update.client for record in of_kind(hall.server.log, UpdateAccepted)]
    assert {"client-4", "client-5"} <= set(heard)
    assert {node for node, kind in hall.room.asked if kind == "train.phase"} == {0, 1, 2, 3}


def test_given_clients_are_all_waited_for(project: Path) -> None:
    file = project / "fedbandits.toml"
    given = 'algorithm = "fed1-ucb"\nclients = 6'
    file.write_text(file.read_text().replace('admissions = "2"', given), encoding="utf-8")
    nodes = three_nodes(project)
    late = nodes.pop(2)
    room = Room(nodes)
    hall = Hall(room, load_trial(project))

    def sleep(seconds: float) -> None:
        hall.now += seconds
        if hall.now > 20.0:
            nodes[2] = late

    hall.transport._sleep = sleep
    hall.run(clients=1)
    assert len(hall.server.clients) == CLIENTS


def test_what_ends_the_process_is_an_error_like_others(project: Path) -> None:
    (project / "client.py").write_text(
        "import sys\ndef pull(arm, n, client):\n    sys.exit(3)\n", encoding="utf-8"
    )
    hall = Hall(Room(three_nodes(project)), load_trial(project), abandoned=1)
    hall.run()
    assert any("its own code failed (SystemExit" in news for news in hall.news)


def test_one_client_without_budget_does_not_end_the_run_of_all(project: Path) -> None:
    def lies(message: Message, reply: Message) -> Message:
        """Client 1 says that its budget is spent, and a lot more."""
        if message.metadata.dst_node_id or "phase" not in message.metadata.message_type:
            return reply
        asked = unpacked(message)
        refusal = {
            "is": "Refusal",
            "header": asked["message"]["header"],
            "phase": asked["message"]["phase"],
            "client": "client-1",
            "why": Refused.BUDGET.value,
            "detail": "x" * 100_000,
        }
        return Message(packed({"answers": [refusal]}), reply_to=message)

    trial = replace(load_trial(project), quorum=Quorum(fraction=0.5))
    hall = Hall(Room(three_nodes(project), lies), trial)
    hall.run()
    assert len(decided(hall.server.log)) == 3
    (first, *_) = of_kind(hall.server.log, AnswerRefused)
    assert first.refusal.why is Refused.BUDGET
    assert len(first.refusal.detail) <= 300


def test_within_returns_raises_and_gives_up() -> None:
    assert within(5.0, lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        within(5.0, lambda: 1 / 0)
    with pytest.raises(RuntimeError, match="it ends the process"):
        within(5.0, sys.exit)
    with pytest.raises(TimeoutError, match=r"more than 0\.01 s"):
        within(0.01, lambda: time.sleep(1.0))


@pytest.mark.parametrize(
    ("node", "names"),
    [
        ({"name": "clinic"}, ["clinic"]),
        ({"name": "clinic", "clients": 2}, ["clinic-0", "clinic-1"]),
        ({"name": "clinic", "clients": 2, "first": 5}, ["clinic-5", "clinic-6"]),
        ({"clients": "north, south"}, ["north", "south"]),
    ],
)
def test_a_node_hosts_whom_its_config_names(
    tmp_path: Path, node: dict[str, Any], names: Sequence[str]
) -> None:
    plan = NodePlan({"project": str(tmp_path), **node})
    assert [info.name for info in plan.clients] == names
    assert plan.state == tmp_path / "state"
    here, strangers = plan.named([names[0], "stranger"])
    assert [info.name for info in here] == names[:1]
    assert strangers == ["stranger"]
    with pytest.raises(InputError, match="are no names"):
        plan.named([7])


@pytest.mark.parametrize(
    ("node", "where"),
    [
        ({}, "node-config.project"),
        ({"project": "x"}, "node-config.name"),
        ({"project": "x", "name": "a", "clients": 0}, "node-config.clients"),
        ({"project": "x", "name": "a", "clients": 1.5}, "node-config.clients"),
        ({"project": "x", "name": "a", "clients": 2, "first": -1}, "node-config.clients"),
        ({"project": "x", "clients": "a, a"}, "node-config.clients"),
        ({"project": "x", "clients": " , "}, "node-config.clients"),
        ({"project": "x", "name": "a" * 90}, "node-config.clients"),
    ],
)
def test_a_node_config_that_cannot_be_is_refused(node: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError) as raised:
        NodePlan(node)
    assert raised.value.where == where


def test_a_run_config_that_cannot_be_is_refused(project: Path) -> None:
    with pytest.raises(InputError, match=r"run-config\.project"):
        serve(Room({}), {})
    with pytest.raises(InputError, match=r"run-config\.clients"):
        serve(Room({}), {"project": str(project), "clients": -1})
