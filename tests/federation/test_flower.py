"""The federation's Flower parts in one process: a grid that calls the ClientApp, and mischief."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message
from typer.testing import CliRunner

from fedbandits.cli.main import app
from fedbandits.errors import InputError
from fedbandits.federation.durable_log import LogInUseError, read_log
from fedbandits.federation.flower.client import NodePlan
from fedbandits.federation.flower.server import serve
from fedbandits.federation.flower.transport import STRIKES
from fedbandits.federation.flower.up import plan_new, planned
from fedbandits.federation.flower.wire import unpacked
from fedbandits.federation.followed import FollowedRun, LoggedRun
from fedbandits.federation.last_word import best_arm
from fedbandits.federation.presence import now_path, read_now
from fedbandits.federation.run import begin_or_resume
from fedbandits.federation.trial import load_trial
from fedbandits.protocol import (
    AnswerRefused,
    ClaimRefused,
    ClientsBound,
    MemoryLog,
    PhaseClosed,
    Quorum,
    Refused,
    Rejection,
    ServerStarted,
    UpdateAccepted,
)
from flower_project import (
    admitted,
    decided,
    of_kind,
    pulls_made,
    simulated,
    tried,
    write_project,
)
from room import Hall, Room, changed, config, key_of, three_nodes

pytestmark = pytest.mark.usefixtures("in_a_run")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path / "colours")


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

    now = now_path(project / "run.fedlog")
    with pytest.raises(DeadError):
        serve(Room(three_nodes(project), dies_in_phase_2), config(project))
    seen = read_now(now)
    assert seen is not None
    assert seen.over
    assert (seen.error, seen.crashed) == ("DeadError: ", True)
    pulled = pulls_made(project)
    assert pulled["client-1"] == 30 + 20
    serve(Room(three_nodes(project)), config(project))
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
    named = "(of client-4, client-5) is ignored from now on"
    assert sum(named in news for news in hall.news) == 1


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
    assert sum(f"which {key_of(2)} answers for" in news for news in hall.news) == 2
    assert not any(node == 7 for node, kind in hall.room.asked if "phase" in kind)


@pytest.mark.parametrize(
    ("shift", "words"), [(3.0, "3 s ahead of this"), (-60.0, "60 s behind this"), (0.0, None)]
)
def test_a_clock_that_is_off_is_said_by_the_server(
    project: Path, shift: float, words: str | None
) -> None:
    def shifted(message: Message, reply: Message) -> Message:
        if message.metadata.message_type != "query.who" or message.metadata.dst_node_id != 1:
            return reply
        return changed(reply, message, lambda said: {**said, "time": said["time"] + shift})

    hall = Hall(Room(three_nodes(project), shifted), load_trial(project))
    hall.run()
    told = [news for news in hall.news if "the clock of node" in news]
    assert told == [news for news in told if key_of(1) in news and str(words) in news]
    assert len(told) == (words is not None)


def after_a_phase(project: Path) -> MemoryLog:
    """Return the log of a run of three nodes whose server ends after its first phase."""
    hall = Hall(Room(three_nodes(project)), load_trial(project))
    coordinator = hall.coordinator()
    while not of_kind(hall.server.log, PhaseClosed):
        coordinator.step()
    return MemoryLog(hall.server.log)


def test_after_a_restart_of_the_server_no_node_becomes_another(project: Path) -> None:
    """Version 0.1.0 knew who has a client as long as the process lasted, and then asked anew."""
    nodes = three_nodes(project)
    nodes[7] = nodes.pop(2)  # it is registered, and says that clients 4 and 5 are its own
    hall = Hall(Room(nodes), load_trial(project), after_a_phase(project), abandoned=1)
    heard = len(of_kind(hall.server.log, UpdateAccepted))
    hall.run()
    updates = of_kind(hall.server.log, UpdateAccepted)[heard:]
    assert not {"client-4", "client-5"}.intersection(record.update.client for record in updates)
    assert not any(node == 7 for node, kind in hall.room.asked if "phase" in kind)
    assert of_kind(hall.server.log, ClaimRefused) == [
        ClaimRefused(node=key_of(7), clients=("client-4", "client-5"))
    ]
    followed = FollowedRun("demo", load_trial(project))
    for record in hall.server.log:
        followed.take(record, "2026-01-01T00:00:00+00:00")
    (said,) = [line for line in followed.status().words().split("\n") if "REFUSED" in line]
    assert key_of(7) in said
    assert key_of(2) in said
    assert "client-4, client-5" in said
    assert followed.status().as_dict()["conflicts"][0] == {
        "client": "client-4",
        "claimed_by": key_of(7),
        "node": key_of(2),
    }


def test_a_node_with_a_new_key_is_heard_once_its_clients_are_rebound(project: Path) -> None:
    room = Room(three_nodes(project))
    room.keys[2] = 7
    hall = Hall(room, load_trial(project), after_a_phase(project), deadline=500.0)
    moved: list[float] = []

    def sleep(seconds: float) -> None:
        hall.now += seconds
        if hall.now > 20.0 and not moved:
            moved.append(hall.now)
            assert not any(node == 2 for node, kind in room.asked if "phase" in kind)
            hall.server.rebind(["client-4", "client-5"], key_of(7), "its key was renewed")

    hall.transport.sleep = sleep
    hall.run()
    assert moved
    assert decided(hall.server.log) == decided(simulated().log)
    assert hall.server.run_state.conflicts == ()
    followed = FollowedRun("demo", load_trial(project))
    for record in hall.server.log:
        followed.take(record, "2026-01-01T00:00:00+00:00")
    assert f"moved to node {key_of(7)}: client-4, client-5 (its key was renewed)" in (
        followed.status().words()
    )


def test_a_move_is_obeyed_though_a_node_settles_before_the_next_look(project: Path) -> None:
    nodes = three_nodes(project)
    nodes[3] = {"project": str(project), "clients": "client-5"}
    hall = Hall(Room(nodes), load_trial(project))
    hall.transport.receive(5.0)
    assert hall.transport._homes["client-5"] == 2
    hall.server.rebind(["client-5"], key_of(3), "it has moved")
    hall.transport._settle(0, {"clients": ["client-0", "client-1"]})
    hall.sleep(60.0)
    hall.transport.receive(5.0)
    assert hall.transport._homes["client-5"] == 3


def test_a_node_that_is_restarted_or_registered_anew_stays_who_it_is(project: Path) -> None:
    nodes = three_nodes(project)
    nodes[8] = nodes.pop(2)
    room = Room(nodes)
    room.keys[8] = 2  # another number, the same key
    hall = Hall(room, load_trial(project), after_a_phase(project))
    hall.run()
    assert decided(hall.server.log) == decided(simulated().log)
    assert len(of_kind(hall.server.log, ClientsBound)) == 3


def test_resume_refuses_a_changed_trial_before_anything_is_started(project: Path) -> None:
    path, plan = plan_new(project, clients=4, nodes=None, log=None)
    log, _ = begin_or_resume(load_trial(project), path)
    log.close()
    assert planned(path) == plan
    file = project / "fedbandits.toml"
    file.write_text(file.read_text().replace('"10"', '"20"'), encoding="utf-8")
    began = time.monotonic()
    done = CliRunner().invoke(app, ["resume", str(path)])
    assert isinstance(done.exception, InputError)
    assert "began with another pulls than the trial says now" in str(done.exception)
    assert time.monotonic() - began < 60.0
    assert not (project / ".federation").exists()


def test_an_old_copy_of_a_log_is_refused_as_such(project: Path) -> None:
    """Its clients have played phases that it does not know; none of their code has failed."""
    log, old = project / "run.fedlog", project / "old.fedlog"

    def copies_in_phase_2(message: Message, reply: Message) -> Message:
        if "phase" in message.metadata.message_type:
            assignment = unpacked(message)["message"]
            if assignment["phase"] == 2 and not old.exists():
                with sqlite3.connect(log) as source, sqlite3.connect(old) as copy:
                    source.backup(copy)
        return reply

    serve(Room(three_nodes(project), copies_in_phase_2), config(project))
    newest = read_log(log).records
    with pytest.raises(InputError, match="log: is an old copy: ") as caught:
        serve(Room(three_nodes(project)), config(project, log=str(old)))
    assert "phase 2 after phase 3" in str(caught.value)
    assert "restore the newest copy, or begin a new run" in str(caught.value)
    refused = of_kind(read_log(old).records, AnswerRefused)
    assert {record.refusal.why for record in refused} == {Refused.PLAYED}
    assert read_log(log).records == newest


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
