"""Checkpoints beside a log: the same run from them and later records, or as if they were not there.

Storms are those of ``faults.py``: games with crashes, withdrawals, halts, lies and every ending.
"""

from __future__ import annotations

import hashlib
import json
import logging
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic_core import from_json
from typer.testing import CliRunner

from fault_games import RECORDS
from faults import played as storm
from fedbandits.cli import runs
from fedbandits.cli.main import app
from fedbandits.errors import InputError
from fedbandits.federation import checkpoint as checkpoint_module
from fedbandits.federation import durable_log, served
from fedbandits.federation.checkpoint import (
    Checkpoint,
    checkpoint_path,
    read_checkpoint,
    write_checkpoint,
)
from fedbandits.federation.course import CourseReader
from fedbandits.federation.durable_log import DamagedLogError, DurableLog, read_log
from fedbandits.federation.followed import FollowedRun, LoggedRun
from fedbandits.federation.served import begin_or_resume
from fedbandits.federation.trial import read_trial
from fedbandits.protocol import (
    ArmWithdrawn,
    Halt,
    Record,
    Refusal,
    Refused,
    Rejection,
    RunState,
    Server,
    UpdateRejected,
)
from fedbandits.protocol.codec import decode, encode
from fedbandits.protocol.fold import apply
from fedbandits.protocol.journal import Journal
from fedbandits.rules.distortion import UNDISTORTED
from logged_runs import EQUAL, TABLES, begun, eventful, played, update

AT = "2026-01-01T00:00:00.000+00:00"


def bits(value: Any) -> Any:
    """Return all of a value, to be compared: bits, types, orders, and how arrays lie in memory."""
    said: Any = value
    if value is UNDISTORTED:
        said = "the one and only"
    elif isinstance(value, np.ndarray):
        steps = [step for step, n in zip(value.strides, value.shape, strict=True) if n > 1]
        said = value.dtype.str, value.shape, value.size and steps, value.tobytes()
    elif isinstance(value, float):
        said = value.hex()
    elif is_dataclass(value) and not isinstance(value, type):
        names = [one.name for one in fields(value) if one.name != "terms"]
        said = [(name, bits(getattr(value, name))) for name in names]
    elif isinstance(value, Mapping):
        said = [(bits(key), bits(part)) for key, part in value.items()]
    elif isinstance(value, set | frozenset):
        said = sorted(map(repr, value))
    elif isinstance(value, tuple | list | Journal):
        said = [bits(part) for part in value]
    return type(value).__name__, said


def as_it_is(_: object) -> None:
    """Change nothing."""


def run_bits(run: FollowedRun) -> Any:
    """Return all that a run knows; the last answer is worked out first."""
    answers = run.answers()
    status = replace(run.status(), presence=None)
    return bits([run.server.run_state, run._history, answers, status])


def through_json(value: Any) -> Any:
    return from_json(json.dumps(value))


# The same, bit for bit ---------------------------------------------------------------------------


_NOT_IN_STORMS = {"terms", "stopped", "outside", "capped", "keys", "head", "uneven", "clipping"}
_NOT_IN_STORMS |= {"guarded"}
PARTS = {one.name for one in fields(RunState)} - _NOT_IN_STORMS
"""What storms change.

In none is a range or a guardrail declared, a cap reached, anything signed or lost, or a run stopped
by a person.
"""


def bits_of(state: RunState, part: str) -> Any:
    return bits(getattr(state, part))


@pytest.mark.parametrize("part", range(2))
def test_a_storm_goes_on_from_any_record_as_from_the_first(part: int) -> None:
    seen: set[type[Record]] = set()
    kept: set[str] = set()
    for seed in range(part * 150, (part + 1) * 150):
        server = storm(seed).server
        records, rng = list(server.log), random.Random(seed)
        cuts = {rng.randint(0, len(records)) for _ in range(3)}
        cuts |= {n for n, record in enumerate(records, 1) if isinstance(record, ArmWithdrawn)}
        first = state = RunState.begun(server.terms)
        course = CourseReader(server.arms)
        for n, record in enumerate([*records, None]):
            if n in cuts:
                again = RunState.restored(through_json(state.kept()), server.terms)
                assert bits(again) == bits(state), (seed, n)
                end = reduce(apply, records[n:], again)
                assert bits(end) == bits(reduce(apply, records[n:], state)), (seed, n)
                assert bits(decode(CourseReader, through_json(encode(course)))) == bits(course)
                kept |= {name for name in PARTS if bits_of(again, name) != bits_of(first, name)}
            if record is not None:
                state = apply(state, record)
                course.take(record, AT)
                seen.add(type(record))
        assert bits(state) == bits(server.run_state)
    assert seen == set(RECORDS)
    assert kept == PARTS


def everything(path: Path) -> Path:
    """Return a run with all that people, nodes and clients may do to it, to its end."""
    log, server = begun(path, {"quorum": {"fraction": 0.5}, "admissions": "4", "range": [0, 1]})
    with log:
        server.settle("SHA256:a", ["a", "b", "c"])
        server.settle("SHA256:b", ["c", "d", "e"])
        server.rebind(["b"], "SHA256:b", "moved")
        server.open(["a", "b", "c", "d"])
        assert server.receive(update(server, "a", (2.0, 0.5, 0.5))) is Rejection.RANGE
        assert server.receive(None) is Rejection.FORM
        server.note_refusal(
            Refusal(header=server.header, phase=1, client="b", why=Refused.FAILED, detail="x")
        )
        halted = replace(update(server, "c", EQUAL), halt=Halt(arms=(1,), reason="ß"))
        for sent in (update(server, "a", EQUAL), halted, update(server, "d", EQUAL)):
            assert server.receive(sent) is None
        server.close()
        server.open([])
        server.abandon()
    trial = read_trial(read_log(path).header["trial"])
    log, run = begin_or_resume(trial, path)
    server = run.server
    with log:
        # So many phases that not all answers are kept.
        while server.phase < 30:
            server.open([])
            for client in ("a", "b", "c", "d"):
                assert server.receive(update(server, client, (0.1, 0.5, 0.55))) is None
            server.close()
        assert server.left == 2
        server.withdraw(2, "harm")
        assert server.finished
    return path


TRIALS: dict[str, dict[str, Any]] = {
    "certified": {},
    "chernoff": {"radius": {"rule": "chernoff", "delta": 0.05}, "range": [0, 1]},
    "rounded": {"privacy": {"range": [0, 1], "quantize": {"bits": 6}}},
    "noised": {"privacy": {"range": [0, 1], "noise": "gaussian", "scale": 0.01}},
    "lowest": {"goal": "min"},
}
"""Changes of a trial whose states have other parts."""


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("logs")
    found = {"eventful": eventful(folder / "a.fedlog"), "everything": everything(folder / "b.fed")}
    for name, changes in TRIALS.items():
        found[name] = played(folder / f"{name}.fedlog", changes)
    return found


def checkpoints(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the checkpoint after each record of a log, as its writer would have written it."""
    content, copy = read_log(path), path.with_name(f"{path.name}.copy")
    run = LoggedRun(path, full=True)
    rows = sqlite3.connect(path).execute("SELECT checksum FROM records ORDER BY number").fetchall()
    name, trial, place = run.name, run.trial, run._log.place
    run = LoggedRun.__new__(LoggedRun)
    FollowedRun.__init__(run, name, trial)
    for number, (record, at) in enumerate(zip(content.records, content.times, strict=True), 1):
        run.take(record, at)
        run._history.answers.after_last()
        content_then = {"state": run.server.run_state.kept(), "history": encode(run._history)}
        then = replace(place, number=number, checksum=rows[number - 1][0])
        write_checkpoint(copy, Checkpoint(place=then, content=content_then))
        yield number, checkpoint_path(copy).read_bytes()
    checkpoint_path(copy).unlink()


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[Record]:
    """Return the list to which every record that is folded is added."""
    seen: list[Record] = []
    follow = Server.follow

    def noted(self: Server, record: Record) -> None:
        seen.append(record)
        follow(self, record)

    monkeypatch.setattr(Server, "follow", noted)
    return seen


@pytest.mark.parametrize("name", ["eventful", "everything", *TRIALS])
def test_a_run_is_the_same_from_every_checkpoint(
    name: str, logs: dict[str, Path], taken: list[Record]
) -> None:
    path = logs[name]
    expected = run_bits(LoggedRun(path, full=True))
    records = read_log(path).records
    all_of_them = list(checkpoints(path))
    assert len(all_of_them) == len(records)
    for number, said in random.Random(name).sample(all_of_them, min(40, len(records))):
        checkpoint_path(path).write_bytes(said)
        taken.clear()
        run = LoggedRun(path)
        assert taken == list(records[number:])
        assert run_bits(run) == expected
    checkpoint_path(path).unlink()


# As if it were not there -------------------------------------------------------------------------


def damaged(said: bytes, rng: random.Random) -> Iterator[bytes]:
    """Yield what may become of a checkpoint."""
    yield b""
    yield b"\n"
    yield said[: len(said) // 2]
    yield said[:-1]
    yield said + b" "
    yield b"\x80\x04K\x01."
    for _ in range(30):
        place = rng.randrange(len(said))
        yield said[:place] + bytes([said[place] ^ (1 << rng.randrange(8))]) + said[place + 1 :]


def forged(said: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """Return a checkpoint with other values, and the checksum of these."""
    found = json.loads(said.partition(b"\n")[2])
    change(found)
    text = json.dumps(found).encode()
    return hashlib.sha256(text).hexdigest().encode() + b"\n" + text


def _deep(found: dict[str, Any]) -> None:
    lists: list[Any] = []
    for _ in range(300):
        lists = [lists]
    found["content"]["state"]["columns"] = lists


FORGERIES: dict[str, Callable[[dict[str, Any]], None]] = {
    "another format": lambda found: found.update(format=0),
    "another version": lambda found: found.update(fedbandits="0.0.1"),
    "another numpy": lambda found: found.update(numpy="1.0"),
    "another run": lambda found: found["place"].update(run="0" * 64),
    "another chain": lambda found: found["place"].update(checksum="0" * 64),
    "an earlier record": lambda found: found["place"].update(number=3),
    "a record that is not there": lambda found: found["place"].update(number=10**6),
    "record 0": lambda found: found["place"].update(number=0, checksum=""),
    "record -1": lambda found: found["place"].update(number=-1),
    "no number": lambda found: found["place"].update(number="1; DROP TABLE records"),
    "no place": lambda found: found.pop("place"),
    "no content": lambda found: found.update(content=[]),
    "no state": lambda found: found["content"].pop("state"),
    "no history": lambda found: found["content"].update(history=None),
    "a field less": lambda found: found["content"]["state"].pop("active"),
    "a field more": lambda found: found["content"]["state"].update(more=1),
    "other terms": lambda found: found["content"]["state"].update(terms=1),
    "no stage": lambda found: found["content"]["state"].update(stage="asleep"),
    "an array of objects": lambda found: found["content"]["state"]["active"].update({"is": "O"}),
    "a short array": lambda found: found["content"]["state"]["active"].update(data="AA=="),
    "no base64": lambda found: found["content"]["state"]["active"].update(data="%"),
    "no order": lambda found: found["content"]["state"]["active"].update(order="Z"),
    "lists in lists": _deep,
}


def test_a_checkpoint_that_is_none_is_as_good_as_none(
    logs: dict[str, Path], taken: list[Record]
) -> None:
    path = logs["everything"]
    *_, (_, said) = checkpoints(path)
    expected, records = run_bits(LoggedRun(path, full=True)), read_log(path).records
    others = {name: forged(said, change) for name, change in FORGERIES.items()}
    others |= {f"damage {n}": each for n, each in enumerate(damaged(said, random.Random(1)))}
    *_, (_, others["of another log"]) = checkpoints(logs["eventful"])
    assert forged(said, as_it_is) != said  # spaces alone: it is used
    for name, other in others.items():
        checkpoint_path(path).write_bytes(other)
        taken.clear()
        assert run_bits(LoggedRun(path)) == expected, name
        assert taken == list(records), name
    checkpoint_path(path).write_bytes(forged(said, as_it_is))
    taken.clear()
    LoggedRun(path)
    assert not taken
    checkpoint_path(path).unlink()
    checkpoint_path(path).mkdir()
    assert run_bits(LoggedRun(path)) == expected
    checkpoint_path(path).rmdir()


def test_a_log_that_went_another_way_since_has_no_use_for_its_checkpoint(
    logs: dict[str, Path], tmp_path: Path
) -> None:
    """The log was restored from an older copy, and the run has gone on from there."""
    content = read_log(logs["certified"])
    path = tmp_path / "run.fedlog"
    with DurableLog(path, content.header) as log:
        for record in content.records:
            log.append(record)
        LoggedRun(log).write_checkpoint()
    made = read_checkpoint(path)
    assert made is not None
    assert made.place.number == len(content.records)
    path.unlink()
    with DurableLog(path, content.header) as log:
        for record in content.records[:-2]:
            log.append(record)
        assert run_bits(LoggedRun(path)) == run_bits(LoggedRun(path, full=True))
        for number in range(5):
            log.append(UpdateRejected(client=str(number), phase=1, rejection=Rejection.CLIENT))
        assert run_bits(LoggedRun(path)) == run_bits(LoggedRun(path, full=True))


# Who writes it, and when -------------------------------------------------------------------------


def test_the_server_writes_it_now_and_then_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: list[Record]
) -> None:
    monkeypatch.setattr(served, "_RECORDS", 4)
    path = tmp_path / "run.fedlog"
    trial = read_trial(TABLES | {"admissions": "9"})
    log, run = begin_or_resume(trial, path)
    numbers = []
    with log, run:
        run.server.open([f"client-{n}" for n in range(9)])
        for client in run.server.clients:
            run.server.receive(update(run.server, client))
            run.beat()
            found = read_checkpoint(path)
            numbers.append(0 if found is None else found.place.number)
            assert len(taken) == len(log)  # each record is read once
    assert numbers == [0, 0, 4, 4, 4, 4, 8, 8, 8]
    assert checkpoint_path(path).stat().st_mode & 0o777 == 0o600
    last = read_checkpoint(path)
    assert last is not None
    assert last.place.number == 10
    expected = run_bits(LoggedRun(path, full=True))
    assert run_bits(LoggedRun(path)) == expected
    taken.clear()
    log, again = begin_or_resume(trial, path)
    with log:
        assert not taken
        assert [type(record).__name__ for record in read_log(path).records[10:]] == [
            "ServerStarted"
        ]
        assert (
            again.server.close()
            == Server.replay(
                again.server.rule,
                list(log),
                arms=trial.arms,
                run=again.server.header.run,
                quarantine_after=3,
            ).decision
        )


def test_a_run_goes_on_if_no_checkpoint_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object, **__: object) -> None:
        raise InputError("run.fedlog.checkpoint", "cannot be written: No space left on device")

    path = tmp_path / "run.fedlog"
    log, run = begin_or_resume(read_trial(TABLES), path)
    with caplog.at_level(logging.WARNING), log, run:
        run.server.open(["a", "b"])
        monkeypatch.setattr(checkpoint_module, "write_whole", full)
    assert "no checkpoint was written" in caplog.text
    assert not checkpoint_path(path).exists()
    assert len(read_log(path).records) == 1


def test_what_an_interrupted_read_has_left_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "run.fedlog"
    log, run = begin_or_resume(read_trial(TABLES), path)
    with caplog.at_level(logging.WARNING), log, run:
        run.server.open(["a", "b"])
        with monkeypatch.context() as patch:
            patch.setattr(CourseReader, "take", interrupted)
            with pytest.raises(KeyboardInterrupt):
                run.beat()
        run.server.receive(update(run.server, "stranger"))
    assert "was interrupted" in caplog.text
    assert not checkpoint_path(path).exists()


def test_reading_writes_no_checkpoint(logs: dict[str, Path], tmp_path: Path) -> None:
    path = Path(shutil.copy(logs["everything"], tmp_path / "run.fedlog"))
    before = sorted(tmp_path.iterdir())
    for arguments in (["status"], ["status", "--full"], ["status", "--json"]):
        done = CliRunner().invoke(app, [arguments[0], str(path), *arguments[1:]])
        assert done.exit_code == 0, done.output
    assert sorted(tmp_path.iterdir()) == before


# What is checked ---------------------------------------------------------------------------------


def damage(path: Path, number: int) -> None:
    with sqlite3.connect(path) as database:
        database.execute(
            "UPDATE records SET body = replace(body, '0', '1') WHERE number = ?", (number,)
        )
    database.close()


def with_checkpoint(path: Path, at: int, to: Path) -> Path:
    """Return a copy of a log with a checkpoint after some of its records."""
    shutil.copy(path, to)
    checkpoint_path(to).write_bytes(dict(checkpoints(path))[at])
    return to


def test_damage_before_a_checkpoint_is_found_by_a_full_read_and_by_the_server(
    logs: dict[str, Path], tmp_path: Path, taken: list[Record]
) -> None:
    path = with_checkpoint(logs["certified"], 8, tmp_path / "run.fedlog")
    damage(path, 3)
    taken.clear()
    LoggedRun(path)
    assert len(taken) == len(read_log(logs["certified"]).records) - 8
    for read in (
        lambda: LoggedRun(path, full=True),
        lambda: read_log(path),
        lambda: begin_or_resume(read_trial(TABLES), path),
    ):
        with pytest.raises(DamagedLogError, match="record 3 is damaged"):
            read()
    done = CliRunner().invoke(app, ["status", str(path), "--full"])
    assert "record 3 is damaged" in str(done.exception)


@pytest.mark.parametrize("number", [8, 9])
def test_damage_at_a_checkpoint_and_after_it_is_always_found(
    number: int, logs: dict[str, Path], tmp_path: Path
) -> None:
    path = with_checkpoint(logs["certified"], 8, tmp_path / "run.fedlog")
    damage(path, number)
    with pytest.raises(DamagedLogError, match=f"record {number} is damaged"):
        LoggedRun(path)


def test_a_server_drops_a_damaged_end_whatever_a_checkpoint_says(
    logs: dict[str, Path], tmp_path: Path
) -> None:
    log, run = begin_or_resume(read_trial(TABLES), tmp_path / "run.fedlog")
    with log, run:
        run.server.open(["a", "b"])
        run.server.receive(update(run.server, "a"))
    damage(log.path, 2)
    log, run = begin_or_resume(read_trial(TABLES), log.path)
    with log, run:
        assert log.dropped == 1
        assert run.server.missing == ("a", "b")
    assert run_bits(LoggedRun(log.path)) == run_bits(LoggedRun(log.path, full=True))


def test_a_long_read_is_shown_on_a_terminal(
    logs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(durable_log, "_TOLD_EVERY", 5)
    path = logs["everything"]
    LoggedRun(path, progress=lambda done, of: told.append((done, of)))
    length = len(read_log(path).records)
    assert told == [(n, length) for n in range(5, length + 1, 5)]
    monkeypatch.setattr(runs, "_SHOWN_AFTER", 0.0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    done = CliRunner().invoke(app, ["status", str(path)])
    assert done.exit_code == 0
    assert "reading b.fed" in done.stderr
    monkeypatch.delenv("FORCE_COLOR")
    assert not CliRunner().invoke(app, ["status", str(path)]).stderr


def test_numbers_of_any_size_are_kept(logs: dict[str, Path]) -> None:
    """After withdrawals late in a long run the number of looks has more than 64 bits."""
    state = replace(LoggedRun(logs["everything"]).server.run_state, comebacks=10**30)
    assert RunState.restored(through_json(state.kept()), state.terms).comebacks == 10**30


def test_what_cannot_be_kept_is_refused() -> None:
    for value in (np.zeros(2, dtype=np.float32), np.array([object()])):
        with pytest.raises(TypeError, match="cannot be kept"):
            encode(value)
