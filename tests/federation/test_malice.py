"""Servers, nodes and sites that mean harm, or are broken: what they send is not taken."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import stat
import tempfile
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Error, Message

from coin_trial import TABLES
from commands import Command
from fedbandits.errors import InputError
from fedbandits.federation.coordinator import Stop
from fedbandits.federation.flower import transport as transport_module
from fedbandits.federation.flower.client import NodePlan
from fedbandits.federation.flower.node import private_scratch
from fedbandits.federation.halts import set_halt
from fedbandits.federation.host import ClientHost, ClientInfo
from fedbandits.federation.live import LiveTrial
from fedbandits.federation.requests import RequestFolder, leave_request
from fedbandits.federation.trial import load_trial, read_trial
from fedbandits.privacy.mechanisms import Rounded
from fedbandits.protocol import (
    AnswerRefused,
    ClientHalted,
    Quorum,
    Recall,
    Refusal,
    Refused,
    Release,
)
from flower_project import of_kind, write_project
from logged_runs import begun, played
from room import Hall, Room, changed, three_nodes
from shop import LIVE, TRIAL, Shop, concluded, decided, header, phase

pytestmark = pytest.mark.usefixtures("in_a_run")


ALL = (True, True, True)
PLAIN = {
    "title": "colours",
    "pulls": "40",
    "admissions": "4",
    "radius.rule": "certified",
    "radius.delta": 0.05,
    "range": [0, 1],
    "assume.spread": 0.05,
}
EVIL = "\x1b]0;pwned\x07\x1b[2J<script>alert(1)</script>\nserver: all is well\u202e"


# A server ----------------------------------------------------------------------------------------


def ending(**changes: Any) -> Any:
    last = concluded(0)
    return replace(last, decision=replace(last.decision, **changes))


@pytest.mark.parametrize(
    "message",
    [
        phase(1, 20),
        phase(1, 20, 20, 20, 20),
        phase(1, -5, 20, 20),
        phase(1, 0, 0, 0),
        phase(0, 20, 20, 20),
        phase(1, 20, 20, 20, withdrawn=(99,)),
        phase(2, 20, 20, 20, previous=decided(99, ALL)),
        phase(2, 20, 20, 20, previous=decided(0, (True,))),
        phase(1, 20, 20, 20, header=header("x" * 2000)),
        phase(1, 20, 20, 20, header=replace(header(), version=1)),
        Recall(header=replace(header(), version=3), arms=(0,)),
        Recall(header=header(), arms=(99,)),
        Recall(header=header(), arms=(-1,)),
        ending(best=99),
        ending(best=-1),
        ending(winner=99),
        ending(active=(True,)),
        ending(active=(False, False, False)),
        ending(widths=(0.1,)),
        replace(concluded(0), low=()),
        replace(concluded(0), decision=decided(0, ALL)),
    ],
    ids=lambda message: str(message)[-60:],
)
def test_what_no_server_sends_leaves_no_trace_in_the_service(shop: Shop, message: Any) -> None:
    host = ClientHost(
        ClientInfo(name="shop"), None, TRIAL, folder=shop.folder, live=shop.live.store
    )
    name = {"Assignment": "answer", "Recall": "recall", "Conclusion": "conclude"}
    before = shop.come(4)
    with pytest.raises(InputError):
        getattr(host, name[type(message).__name__])(message)
    assert {unit: shop.live.assign(unit) for unit in before} == before
    assert set(shop.come(6).values()) == {"red", "green", "blue"}
    assert shop.live.best_arm() is None
    assert not (shop.folder / "shop.answer.json").exists()


def test_more_than_the_trial_says_is_not_sent(tmp_path: Path) -> None:
    host = ClientHost(
        ClientInfo(name="a"), lambda _, n, __: [0.5] * n, read_trial(TABLES), folder=tmp_path
    )
    for release in (
        Release(squares=True),
        Release(mechanism=Rounded(low=0.99, high=1.0, bits=52, rounding="nearest")),
    ):
        said = host.answer(phase(1, 20, 20, 20, release=release))
        assert isinstance(said, Refusal)
        assert said.why is Refused.POLICY


def test_no_unit_gets_an_option_for_a_phase_that_could_not_be_reported(tmp_path: Path) -> None:
    trial = read_trial({**TABLES, "live": LIVE, "min_pulls": 10})
    shop = Shop(tmp_path, trial)
    with shop.live:
        shop.pending(phase(1, 3, 3, 3), Refused.FEW_PULLS)
        assert shop.live.wanted() == 0


def test_the_name_of_a_run_is_no_command_for_the_terminal_of_a_client(
    tmp_path: Path, command: Command
) -> None:
    host = ClientHost(
        ClientInfo(name="a"), lambda _, n, __: [0.5] * n, read_trial(TABLES), folder=tmp_path
    )
    host.answer(phase(1, 20, 20, 20, header=header(EVIL)))
    done = command("audit", tmp_path / "a.jsonl")
    assert done.code == 0
    assert "1 update about 60" in done.out
    assert all(line.isprintable() for line in done.out.splitlines())


def test_the_name_of_an_option_is_no_command_for_a_terminal(
    tmp_path: Path, command: Command
) -> None:
    arms = ["red", f"{EVIL}{EVIL}"]
    file = "".join(f"{key} = {json.dumps(value)}\n" for key, value in PLAIN.items())
    (tmp_path / "fedbandits.toml").write_text(f"{file}arms = {json.dumps(arms)}\n")
    (tmp_path / "client.py").write_text(
        "def pull(arm, n, client):\n    return [float(arm != 'red')] * n\n"
    )
    done = command("try", tmp_path, "--clients", "8")
    assert done.code == 0, done.err
    assert "The answer is " in done.out
    assert all(line.isprintable() for line in done.out.split("\n"))
    played(tmp_path / "run.fedlog", {"arms": ["red", "green", "blue"]}, 8)
    done = command("withdraw", tmp_path / "run.fedlog", EVIL, "--reason", "harm")
    assert done.code == 2
    assert all(line.isprintable() for line in done.err.split("\n"))


def test_a_client_that_is_named_twice_plays_once(tmp_path: Path) -> None:
    node = NodePlan({"project": str(write_project(tmp_path / "p")), "clients": "a,b"})
    here, strangers = node.named(["b", "b", "x", "a", "x"])
    assert [info.name for info in here] == ["b", "a"]
    assert strangers == ["x"]


@pytest.mark.parametrize("name", ["", "x" * 300, "a\nb", "\x1b[2J"])
def test_a_service_has_a_name_that_a_node_could_have(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="is not a name"):
        LiveTrial(TRIAL, client=name, state=tmp_path)


# A node ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mischief", ["error", "stranger", "clock", "halt", "refusal"])
def test_what_a_node_says_is_short_and_no_command_for_a_terminal(
    tmp_path: Path, mischief: str
) -> None:
    project = write_project(tmp_path / "p")
    long = EVIL + "x" * 100_000
    halt = {"is": "Halt", "arms": [0], "reason": long}

    def lies(answer: Any) -> Any:
        if mischief == "stranger":
            return {**answer, "client": long}
        if mischief == "halt":
            return {**answer, "halt": halt}
        kept = {name: answer[name] for name in ("header", "phase", "client", "halt")}
        return {**kept, "is": "Refusal", "why": Refused.FAILED.value, "detail": long}

    def befalls(message: Message, reply: Message) -> Message:
        kind = message.metadata.message_type
        if message.metadata.dst_node_id != 2:
            return reply
        if mischief == "error":
            return Message(Error(code=2, reason=long), reply_to=message)
        if mischief == "clock" and "who" in kind:
            return changed(reply, message, lambda said: {**said, "time": math.inf})
        if mischief == "clock" or "phase" not in kind:
            return reply
        return changed(reply, message, lambda said: {"answers": [*map(lies, said["answers"])]})

    trial = replace(load_trial(project), quorum=Quorum(fraction=0.5))
    hall = Hall(Room(three_nodes(project), befalls), trial)
    hall.run(4)
    assert hall.server.decision is not None
    if mischief == "halt":  # an update brings it, and it is in the log
        assert of_kind(hall.server.log, ClientHalted)
    else:
        assert any("node SHA256:" in news or "client-5" in news for news in hall.news)
    assert all(news.isprintable() and len(news) <= 1000 for news in hall.news)
    for record in (
        *of_kind(hall.server.log, ClientHalted),
        *of_kind(hall.server.log, AnswerRefused),
    ):
        said = record.reason if isinstance(record, ClientHalted) else record.refusal.detail
        assert said.isprintable()
        assert len(said) <= 300


def test_a_node_that_has_other_clients_every_time_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport_module, "MOST_CLIENTS", 50)
    project = write_project(tmp_path / "p")
    times = count()

    def befalls(message: Message, reply: Message) -> Message:
        if message.metadata.dst_node_id != 2:
            return reply
        if "who" in message.metadata.message_type:
            names = [f"n{next(times)}" for _ in range(20)]
            return changed(reply, message, lambda said: {**said, "clients": names})
        return changed(reply, message, lambda _: {"answers": [], "strangers": ["x"]})

    trial = replace(load_trial(project), quorum=Quorum(fraction=0.1))
    hall = Hall(Room(three_nodes(project), befalls), trial)
    hall.run(4)
    key = next(each["key"] for each in hall.transport.nodes() if each["node"] == "2")
    bound = [name for name, home in hall.server.run_state.homes.items() if home == key]
    assert 0 < len(bound) <= 50


# What was killed ---------------------------------------------------------------------------------


def test_a_node_removes_what_one_before_it_has_left_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").touch()
    left, young = tmp_path / "fedbandits-node-left", tmp_path / "fedbandits-node-young"
    for folder in (left, young):
        folder.mkdir(mode=0o700)
        (folder / "secret").touch()
    (tmp_path / "fedbandits-node-link").symlink_to(victim)
    with private_scratch() as running:
        for folder in (left, running, victim):
            os.utime(folder, (1, 1))
        with private_scratch() as mine:
            assert not left.exists()
            assert all(each.exists() for each in (running, young, victim / "file"))
            assert stat.S_IMODE(mine.stat().st_mode) == 0o700
    assert not running.exists()


def test_requests_are_taken_in_the_order_in_which_they_were_left(tmp_path: Path) -> None:
    log = tmp_path / "run.fedlog"
    wanted = [Stop(reason=str(number)) for number in range(20)]
    for each in wanted:
        leave_request(log, each)
    assert list(RequestFolder(log, 3)()) == wanted


def test_a_full_disk_is_said_in_words(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.fedlog"
    log, _ = begun(path)
    with log:
        for file in tmp_path.glob("run.fedlog*"):
            shutil.copy(file, tmp_path / file.name.replace("run", "crashed"))
    (tmp_path / "crashed.fedlog-shm").unlink(missing_ok=True)
    assert (tmp_path / "crashed.fedlog-wal").exists()

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    for words in (("status",), ("withdraw", "red"), ("stop",)):
        reason = () if words == ("status",) else ("--reason", "harm")
        done = command(words[0], tmp_path / "crashed.fedlog", *words[1:], *reason)
        assert done.code == 2
        assert "No space left on device" in done.err
    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(InputError, match="the server was not told"):
        leave_request(tmp_path / "other.fedlog", Stop(reason="harm"))
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="nothing more is halted: stop the service"):
        set_halt(tmp_path, reason="harm")
