"""What nodes send, keep and suffer: garbage, hung pulls, too much output, last words."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flwr.app import ConfigRecord, Error, Message, RecordDict

from fedbandits.federation.durable_log import read_log
from fedbandits.federation.flower.processes import MOST_OUTPUT, Child, LocalFederation
from fedbandits.federation.flower.server import serve
from fedbandits.federation.flower.transport import STRIKES
from fedbandits.federation.flower.wire import packed, unpacked
from fedbandits.federation.last_word import best_arm
from fedbandits.federation.local import server_of
from fedbandits.federation.trial import load_trial
from fedbandits.federation.user_code import MOST, each_in_time
from fedbandits.protocol import (
    AnswerRefused,
    PhaseClosed,
    Quorum,
    Refused,
    Rejection,
    UpdateAccepted,
)
from flower_project import (
    CLIENTS,
    decided,
    of_kind,
    simulated,
    write_project,
)
from room import Hall, Room, config, key_of, three_nodes

pytestmark = pytest.mark.usefixtures("in_a_run")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path / "colours")


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
    assert time.monotonic() - begun < 90.0
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
    other = write_project(project.parent / "other")
    never = Hall(
        Room(three_nodes(other), lambda m, r: None if "conc" in m.metadata.message_type else r),
        load_trial(other),
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
            hall.server.rebind(["client-5"], key_of(3), "it has moved")
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

    hall.transport.sleep = sleep
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
            "halt": None,
        }
        return Message(packed({"answers": [refusal]}), reply_to=message)

    trial = replace(load_trial(project), quorum=Quorum(fraction=0.5))
    hall = Hall(Room(three_nodes(project), lies), trial)
    hall.run()
    assert len(decided(hall.server.log)) == 3
    (first, *_) = of_kind(hall.server.log, AnswerRefused)
    assert first.refusal.why is Refused.BUDGET
    assert len(first.refusal.detail) <= 300


def test_a_call_in_time_returns_raises_and_gives_up() -> None:
    def alone(seconds: float, call: Callable[[], Any]) -> Any:
        (found,) = each_in_time([call], each=seconds, together=9.0)
        return found

    assert alone(5.0, lambda: 3) == 3
    assert isinstance(alone(5.0, lambda: 1 / 0), ZeroDivisionError)
    ended = alone(5.0, sys.exit)
    assert isinstance(ended, RuntimeError)
    assert "it ends the process" in str(ended)
    late = alone(0.01, lambda: time.sleep(1.0))
    assert isinstance(late, TimeoutError)
    assert "more than 0.01 s" in str(late)


def test_calls_follow_each_other_until_one_takes_more_than_its_share() -> None:
    running: list[int] = []
    seen: list[int] = []

    def quick() -> int:
        running.append(1)
        seen.append(len(running))
        time.sleep(0.01)
        running.pop()
        return 1

    assert each_in_time([quick] * 10, each=9.0, together=9.0) == [1] * 10
    assert seen == [1] * 10
    held = threading.Event()
    calls: list[Callable[[], Any]] = [held.wait, quick, held.wait, quick]
    began = time.monotonic()
    found = each_in_time(calls, each=90.0, together=0.8)
    held.set()
    assert found[1::2] == [1, 1]
    assert all(isinstance(one, TimeoutError) for one in found[::2])
    assert time.monotonic() - began < 90.0


def test_three_hanging_clients_of_ten_cost_the_others_nothing(tmp_path: Path) -> None:
    """All of a node's time is what one client may take, and three of them never return.

    Version 0.1.0 let clients play one after the other, so that those took the time of the rest.
    """
    project = write_project(
        tmp_path / "colours",
        patience={"deadline": 4, "grace": 1, "resend": 1, "pulls": 90},
        quorum={"fraction": 0.7},
        admissions="10",
        max_phases=1,
    )
    for name in ("client-0", "client-4", "client-5"):
        (project / "hold" / name).touch()
    node = {"project": str(project), "name": "client", "first": 0, "clients": 10}
    try:
        serve(Room({0: node}), config(project, clients=10))
    finally:
        shutil.rmtree(project / "hold")
    records = read_log(project / "run.fedlog").records
    (closed,) = of_kind(records, PhaseClosed)
    assert closed.decision.phase == 1
    heard = {record.update.client for record in of_kind(records, UpdateAccepted)}
    assert heard == {f"client-{number}" for number in (1, 2, 3, 6, 7, 8, 9)}
    refused = {record.refusal.client: record.refusal for record in of_kind(records, AnswerRefused)}
    assert set(refused) == {"client-0", "client-4", "client-5"}
    assert {one.why for one in refused.values()} == {Refused.FAILED}
    assert all(one.detail.startswith("TimeoutError") for one in refused.values())


def test_a_chatty_pull_is_cut_short_and_plays_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = write_project(tmp_path / "colours", max_phases=1)
    file = project / "client.py"
    noisy = "    for stream in (sys.stdout, sys.stderr):\n        print('x' * 10**6, file=stream)\n"
    text = file.read_text().replace("client):\n", f"client):\n{noisy}")
    file.write_text(f"import sys\n{text}", encoding="utf-8")
    serve(Room(three_nodes(project)), config(project))
    captured = capsys.readouterr()
    said = captured.out + captured.err
    assert "more was printed, and is left out" in said
    # Three nodes are asked once each.
    assert 2 * MOST <= said.count("x") < 3 * MOST + 10_000
    assert len(of_kind(read_log(project / "run.fedlog").records, PhaseClosed)) == 1


def test_the_output_of_a_process_is_trimmed_while_it_writes(tmp_path: Path) -> None:
    federation = LocalFederation(tmp_path)
    code = f"for n in range(6): print(n, 'x' * {MOST_OUTPUT // 2}, flush=True); input()"
    (tmp_path / "output").mkdir()
    output = tmp_path / "output" / "chatty.txt"
    with output.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=file,
            start_new_session=True,
        )
    child = Child("chatty", process, output)
    federation.children.append(child)
    with federation:
        assert process.stdin is not None
        for number in range(6):
            while not re.search(rf"^{number} ", output.read_text(), re.MULTILINE):
                time.sleep(0.01)
            child.trim_output()
            process.stdin.write(b"\n")
            process.stdin.flush()
        process.stdin.close()
        process.wait(10)
    kept = sum(one.stat().st_size for one in output.parent.iterdir())
    assert kept <= 2 * MOST_OUTPUT
    assert re.search(r"^5 x", child.last_words(), re.MULTILINE)
