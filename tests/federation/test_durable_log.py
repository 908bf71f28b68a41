"""What lasts: the log in SQLite, the outbox in a file, and messages as plain values."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import random
import signal
import sqlite3
import subprocess
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbandits.errors import InputError
from fedbandits.federation.audit_file import AuditFile, read_audit
from fedbandits.federation.coordinator import Stop
from fedbandits.federation.durable_log import (
    DamagedLogError,
    DurableLog,
    LogInUseError,
    is_held,
    read_log,
)
from fedbandits.federation.requests import RequestFolder, leave_request
from fedbandits.privacy.accounting import Spending
from fedbandits.privacy.mechanisms import MOST_BITS, Mechanism, Noised, Rounded
from fedbandits.privacy.packing import pack
from fedbandits.protocol import (
    AnswerRefused,
    ArmWithdrawn,
    Assignment,
    ClaimRefused,
    ClientHalted,
    ClientsBound,
    Decision,
    Entry,
    Header,
    HeadSigned,
    KeyPinned,
    PhaseAbandoned,
    PhaseClosed,
    PhaseOpened,
    Reason,
    RecallConfirmed,
    Record,
    Refusal,
    Refused,
    Rejection,
    Release,
    RunEnded,
    ServerStarted,
    Update,
    UpdateAccepted,
    UpdateRejected,
)
from fedbandits.protocol.codec import decode, encode
from fedbandits.rules.beliefs import Goal
from fedbandits.rules.guardrails import Guardrail

modest = settings(deadline=None, derandomize=True, max_examples=150)

RUN = {"run": "demo", "arms": ["red", "blue"], "delta": 0.05}
HEADER = Header(run="demo", epoch=1, arms="x")
DECISION = Decision(
    header=HEADER,
    phase=1,
    active=(True, False),
    estimates=(0.1 + 0.2, 1e-300),
    widths=(0.1, math.inf),
    best=0,
    winner=None,
    reason=Reason.OPEN,
)
ASSIGNMENT = Assignment(
    header=HEADER,
    phase=2,
    pulls=(10, 0),
    release=Release(mechanism=Noised(low=0.0, high=1.0, kind="gaussian", scale=0.1)),
    previous=DECISION,
)
UPDATE = Update(header=HEADER, phase=2, client="α", counts=(10, 0), packed=b"\x00\xff")
RECORDS: list[Record] = [
    PhaseOpened(admitted=("α", "b"), assignment=ASSIGNMENT, complete=True, capped=False),
    UpdateAccepted(UPDATE),
    UpdateAccepted(
        Update(header=HEADER, phase=2, client="b", counts=(4, 0), means=(0.3, 0.0), squares=(1.0,))
    ),
    UpdateRejected(client="b", phase=2, rejection=Rejection.DUPLICATE),
    PhaseClosed(DECISION),
    PhaseAbandoned(phase=2, reported=1, expected=3),
    ArmWithdrawn(arm=1, reason="harm: “ouch”\n"),
    RecallConfirmed(("α", "b")),
    ClientHalted(client="α", arms=(0, 1), reason="harm: “ouch”\n"),
    ServerStarted(epoch=2),
    ClientsBound(node="SHA256:x", clients=("a", "b"), reason="moved"),
    ClaimRefused(node="SHA256:y", clients=("a",)),
    KeyPinned(client="α", key=bytes(32), reason="a new machine"),
    HeadSigned(checksum="00", at="2026-01-31T12:00:00.000+00:00", signature=bytes(64)),
    UpdateAccepted(dataclasses.replace(UPDATE, signature=b"\x01\xff")),
    AnswerRefused(
        Refusal(header=HEADER, phase=2, client="a", why=Refused.FAILED, detail="ValueError")
    ),
    RunEnded(dataclasses.replace(DECISION, reason=Reason.BUDGET)),
    RunEnded(dataclasses.replace(DECISION, reason=Reason.STOPPED), "“enough”"),
]


def numbered(n: int) -> UpdateRejected:
    return UpdateRejected(client=f"client {n}", phase=n, rejection=Rejection.PHASE)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a log of six records is."""
    path = tmp_path / "run.fedlog"
    with DurableLog(path, RUN) as log:
        for n in range(6):
            log.append(numbered(n))
    return path


# What is written is there ------------------------------------------------------------------------


def test_every_kind_of_record_comes_back_as_it_was(tmp_path: Path) -> None:
    assert {type(record) for record in RECORDS} == set(get_args(Record))
    path = tmp_path / "run.fedlog"
    with DurableLog(path, RUN) as log:
        for number, record in enumerate(RECORDS, start=1):
            log.append(record)
            assert len(log) == number
        assert list(log) == RECORDS
        assert read_log(path).records == tuple(RECORDS)
    content = read_log(path)
    assert content.records == tuple(RECORDS)
    assert (content.header, content.dropped) == (RUN, 0)
    assert len(content.times) == len(RECORDS)
    assert list(content.times) == sorted(content.times)
    with DurableLog(path) as log:
        assert (list(log), log.header, log.dropped) == (RECORDS, RUN, 0)


def test_a_log_goes_on_where_it_ended(path: Path) -> None:
    for n in range(6, 9):
        with DurableLog(path, RUN) as log:
            log.append(numbered(n))
    assert list(read_log(path).records) == [numbered(n) for n in range(9)]


def test_a_log_is_written_to_the_disk_before_it_goes_on(path: Path) -> None:
    with DurableLog(path) as log:
        pragmas = ("journal_mode", "synchronous")
        found = [log._database.execute(f"PRAGMA {pragma}").fetchone()[0] for pragma in pragmas]
    assert found == ["wal", 2]  # 2 is FULL


@pytest.mark.parametrize("name", ["a b.fedlog", "50%.fedlog", "what?.fedlog", "#1.fedlog"])
def test_a_log_may_have_any_name(tmp_path: Path, name: str) -> None:
    with DurableLog(tmp_path / name, RUN) as log:
        log.append(numbered(0))
    assert read_log(tmp_path / name).records == (numbered(0),)
    assert (tmp_path / name).is_file()


def test_a_log_of_another_run_is_refused(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(InputError, match="is another run's log"):
        DurableLog(path, {**RUN, "delta": 0.1})
    assert path.read_bytes() == before
    with DurableLog(path, dict(reversed(RUN.items()))) as log:  # the same, in another order
        assert len(log) == 6


def test_a_record_that_cannot_be_written_is_not_there(path: Path) -> None:
    with DurableLog(path) as log:
        log._database.execute("PRAGMA query_only = ON")
        with pytest.raises(InputError, match=r"cannot be written: .*; nothing was sent"):
            log.append(numbered(6))
        assert len(log) == 6
        log._database.execute("PRAGMA query_only = OFF")
        log.append(numbered(6))
    assert list(read_log(path).records) == [numbered(n) for n in range(7)]


def fill(log: DurableLog) -> None:
    for n in range(6, 1000):
        log.append(numbered(n))


def test_a_disk_that_is_full_is_said(path: Path) -> None:
    with DurableLog(path) as log:
        pages = log._database.execute("PRAGMA page_count").fetchone()[0]
        log._database.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(InputError, match="full"):
            fill(log)
        length = len(log)
    assert list(read_log(path).records) == [numbered(n) for n in range(length)]


# One writer --------------------------------------------------------------------------------------


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )


SECOND = """
import sys
from fedbandits.federation.durable_log import DurableLog, LogInUseError, read_log
print(len(read_log(sys.argv[1]).records))
try:
    DurableLog(sys.argv[1])
except LogInUseError as error:
    print(error)
"""


def test_a_second_writer_is_refused_and_reading_goes_on(path: Path) -> None:
    with DurableLog(path) as log:
        for arguments in ((path,), (path, RUN)):
            with pytest.raises(LogInUseError, match="another server writes this log"):
                DurableLog(*arguments)
        log.append(numbered(6))
        assert len(read_log(path).records) == 7
        done = run_python(SECOND, str(path))
        assert done.stdout.startswith("7\n"), done.stderr
        assert "another server writes this log" in done.stdout
        log.append(numbered(7))
    with DurableLog(path) as log:
        assert len(log) == 8


def test_a_link_to_a_log_is_that_log(path: Path, tmp_path: Path) -> None:
    """Two servers would write one log if each had a name for it, and a reader would see nothing."""
    link = tmp_path / "elsewhere" / "link.fedlog"
    link.parent.mkdir()
    link.symlink_to(path)
    with DurableLog(path) as log:
        log.append(numbered(6))
        assert is_held(link)
        assert len(read_log(link).records) == 7
        with pytest.raises(LogInUseError):
            DurableLog(link)
        leave_request(link, Stop(reason="enough"))
        assert RequestFolder(path, 2)() == [Stop(reason="enough")]
    assert [file.name for file in link.parent.iterdir()] == ["link.fedlog"]


def test_a_log_that_was_refused_is_free_again(path: Path) -> None:
    with pytest.raises(InputError):
        DurableLog(path, {"run": "another"})
    DurableLog(path).close()


# Damage ------------------------------------------------------------------------------------------


def damaged(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as database:
        for statement in statements:
            database.execute(statement)
    database.close()


def flip(path: Path, text: bytes, *, to: bytes) -> None:
    """Change bytes of the file itself."""
    content = path.read_bytes()
    assert content.count(text) == 1
    path.write_bytes(content.replace(text, to))


TAILS: dict[str, tuple[int, Callable[[Path], None]]] = {
    "the body": (1, lambda path: damaged(path, "UPDATE records SET body = 'x' WHERE number = 6")),
    "an empty body": (
        1,
        lambda path: damaged(path, "UPDATE records SET body = '' WHERE number = 6"),
    ),
    "half the body": (
        1,
        lambda path: damaged(path, "UPDATE records SET body = substr(body, 1, 9) WHERE number = 6"),
    ),
    "the checksum": (
        1,
        lambda path: damaged(path, "UPDATE records SET checksum = 'x' WHERE number = 6"),
    ),
    "the time": (1, lambda path: damaged(path, "UPDATE records SET at = 'now' WHERE number = 6")),
    "a byte on the disk": (1, lambda path: flip(path, b"client 5", to=b"client 7")),
    "a byte that is no text": (1, lambda path: flip(path, b"client 5", to=b"client \xff")),
    "three bodies": (
        3,
        lambda path: damaged(path, "UPDATE records SET body = 'x' || number WHERE number > 3"),
    ),
    "all of it": (6, lambda path: damaged(path, "UPDATE records SET body = 'x', checksum = 'y'")),
}


@pytest.mark.parametrize(("dropped", "damage"), TAILS.values(), ids=TAILS.keys())
def test_a_damaged_tail_falls_back_to_the_last_good_record(
    path: Path, dropped: int, damage: Callable[[Path], None]
) -> None:
    damage(path)
    left = 6 - dropped
    good = [numbered(n) for n in range(left)]
    content = read_log(path)
    assert (list(content.records), content.dropped, len(content.times)) == (good, dropped, left)
    with DurableLog(path, RUN) as log:
        assert (list(log), log.dropped) == (good, dropped)
        log.append(numbered(99))
    with DurableLog(path, RUN) as log:
        assert (list(log), log.dropped) == ([*good, numbered(99)], 0)


def swapped(first: int, second: int) -> list[str]:
    """Return statements that swap the records of two rows."""
    return [
        f"UPDATE records SET number = -1 WHERE number = {first}",
        f"UPDATE records SET number = {first} WHERE number = {second}",
        f"UPDATE records SET number = {second} WHERE number = -1",
    ]


MIDDLES: dict[str, list[str]] = {
    "a changed body": ["UPDATE records SET body = replace(body, '2', '9') WHERE number = 3"],
    "a changed checksum": ["UPDATE records SET checksum = 'x' WHERE number = 3"],
    "a changed checksum before the last": ["UPDATE records SET checksum = 'x' WHERE number = 5"],
    "a changed body before the last": ["UPDATE records SET body = 'x' WHERE number = 5"],
    "a changed time": ["UPDATE records SET at = 'now' WHERE number = 3"],
    "a missing row": ["DELETE FROM records WHERE number = 3"],
    "the first row missing": ["DELETE FROM records WHERE number = 1"],
    "the row before the last missing": ["DELETE FROM records WHERE number = 5"],
    "a missing row that was covered up": [
        "DELETE FROM records WHERE number = 3",
        "UPDATE records SET number = number - 1 WHERE number > 3",
    ],
    "swapped rows": swapped(2, 3),
    "the last two rows swapped": swapped(5, 6),
    "a row twice": ["INSERT INTO records SELECT 7, at, body, checksum FROM records WHERE number=6"],
    "another run": ["UPDATE header SET value = '{}' WHERE key = 'run'"],
    "another format": ["UPDATE header SET value = '3' WHERE key = 'format'"],
    "no header": ["DELETE FROM header"],
}


@pytest.mark.parametrize("statements", MIDDLES.values(), ids=MIDDLES.keys())
def test_damage_in_the_middle_is_refused(path: Path, statements: list[str]) -> None:
    damaged(path, *statements)
    rows = "SELECT * FROM records ORDER BY number"
    with sqlite3.connect(path) as database:
        before = database.execute(rows).fetchall()
    for opened in opened_every_way(path, RUN):
        with pytest.raises(DamagedLogError, match=r"run\.fedlog: "):
            opened()
    after = database.execute(rows).fetchall()
    database.close()
    assert after == before


@pytest.mark.parametrize("first", range(3))
def test_a_byte_changed_anywhere_never_changes_a_record(path: Path, first: int) -> None:
    content, source = path.read_bytes(), random.Random(first)
    found: Counter[str] = Counter()
    for place in range(first, len(content), 3):
        if content[place] == 0 and source.random() < 0.9:  # most of it is room
            continue
        other = bytearray(content)
        other[place] ^= source.randrange(1, 256)
        path.write_bytes(other)
        try:
            log = read_log(path)
        except (DamagedLogError, InputError):
            found["refused"] += 1
            continue
        assert list(log.records) == [numbered(n) for n in range(6 - log.dropped)]
        assert log.header == RUN
        found["fell back" if log.dropped else "unharmed"] += 1
    assert found["refused"] > 100
    assert found["fell back"] > 10


# What is no log ----------------------------------------------------------------------------------


def opened_every_way(
    path: Path, header: dict[str, Any] | None = None
) -> Iterator[Callable[[], object]]:
    yield partial(read_log, path)
    yield partial(DurableLog, path)
    if header is not None:
        yield partial(DurableLog, path, header)


def test_a_log_that_is_not_there_is_named(tmp_path: Path) -> None:
    for opened in opened_every_way(tmp_path / "none"):
        with pytest.raises(InputError, match="none: is not there; name the log of a run"):
            opened()
    assert list(tmp_path.iterdir()) == []
    for opened in opened_every_way(tmp_path):
        with pytest.raises(InputError, match="is a folder; name the log of a run"):
            opened()
    with pytest.raises(InputError, match="cannot be written"):
        DurableLog(tmp_path / "no folder" / "run.fedlog", RUN)


def test_an_empty_file_is_no_log_and_may_become_one(tmp_path: Path) -> None:
    path = tmp_path / "run.fedlog"
    path.touch()
    for opened in opened_every_way(path):
        with pytest.raises(InputError, match="is empty; name the log of a run"):
            opened()
    assert path.read_bytes() == b""
    with DurableLog(path, RUN) as log:  # a crash at the very beginning leaves no more
        log.append(numbered(0))
    assert read_log(path).records == (numbered(0),)


@pytest.mark.parametrize("content", [b"x", b"not a database " * 100, bytes(4096), b"\xff" * 99])
def test_what_is_no_database_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    for opened in opened_every_way(path, RUN):
        with pytest.raises(DamagedLogError, match=r"notes\.txt: is damaged, or not a log"):
            opened()
    assert path.read_bytes() == content


def test_a_database_of_somebody_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "ratings.sqlite"
    damaged(path, "CREATE TABLE ratings (who TEXT)", "INSERT INTO ratings VALUES ('me')")
    content = path.read_bytes()
    for opened in opened_every_way(path, RUN):
        with pytest.raises(InputError, match="is a database, and not the log of a run"):
            opened()
    assert path.read_bytes() == content


def test_a_folder_is_no_log(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for opened in opened_every_way(folder, RUN):
        with pytest.raises(InputError, match="folder: "):
            opened()


# A process that is killed ------------------------------------------------------------------------

APPENDS = """
import sys
from fedbandits.federation.durable_log import DurableLog
from fedbandits.protocol import Rejection, UpdateRejected
with DurableLog(sys.argv[1], {"run": "killed"}) as log:
    n = len(log)
    while True:
        log.append(UpdateRejected(client=f"client {n}", phase=n, rejection=Rejection.PHASE))
        n += 1
        print(n, flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="kill -9 is of POSIX")
def test_a_log_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "run.fedlog"
    before = 0
    for some in (1, 7, 40):
        with subprocess.Popen(
            [sys.executable, "-c", APPENDS, str(path)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for _ in range(some):
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
            said = [before + some, *(int(line) for line in process.stdout if line.endswith("\n"))]
        content = read_log(path)
        length = len(content.records)
        # What was said to be written is there, and at most one more.
        assert said[-1] <= length <= said[-1] + 1
        assert (list(content.records), content.dropped) == ([numbered(n) for n in range(length)], 0)
        before = length
    with DurableLog(path) as log:
        assert len(log) == before


# Messages as plain values ------------------------------------------------------------------------

MESSAGES: list[Any] = [Header, Decision, Release, Assignment, Refusal, Update]
KINDS: list[Any] = [*MESSAGES, *get_args(Record)]
GOALS = get_args(Goal)


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Return all values of a type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return st.one_of(*(values_of(argument) for argument in arguments))
    if origin is tuple:
        return st.lists(values_of(arguments[0]), max_size=4).map(tuple)
    if origin is Literal:
        return st.sampled_from(arguments)
    if kind is Guardrail:  # it refuses others
        words = {"name": st.sampled_from(["adverse", "sleep"]), "goal": st.sampled_from(GOALS)}
        level = st.none() | st.floats(0.001, 0.5)
        return st.builds(Guardrail, limit=st.floats(0.01, 0.99), level=level, **words)
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        fields = {one.name: values_of(hints[one.name]) for one in dataclasses.fields(kind)}
        if kind is Rounded:  # it refuses others
            fields["bits"] = st.integers(1, MOST_BITS)
        return st.builds(cast(Any, kind), **fields)
    if issubclass(kind, Enum):
        return st.sampled_from(list(kind))
    plain: dict[Any, st.SearchStrategy[Any]] = {
        type(None): st.none(),
        bool: st.booleans(),
        int: st.integers(-(2**63) + 1, 2**63 - 1),
        float: st.floats(allow_nan=False),
        str: st.text(max_size=20),
        bytes: st.binary(max_size=20),
    }
    return plain[kind]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_messages_and_records_come_back_to_the_last_bit(kind: Any) -> None:
    @modest
    @given(value=values_of(kind))
    def check(value: Any) -> None:
        said = json.loads(json.dumps(encode(value)))
        assert decode(kind, said) == value
        assert repr(decode(kind, said)) == repr(value)  # -0.0 is not 0.0

    check()


@modest
@given(record=values_of(Record))
def test_a_record_is_known_by_its_name(record: Record) -> None:
    assert decode(Record, json.loads(json.dumps(encode(record)))) == record


junk: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([math.nan, math.inf, 10**400, -(10**4000), "\ud800", "Update", "aB", b"x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3) | st.just("is") | st.integers(), inner, max_size=3)
    ),
    max_leaves=5,
)


@st.composite
def spoilt(draw: st.DrawFn, kind: Any) -> Any:
    """Return a message in plain values in which something is wrong, or not."""
    said = encode(draw(values_of(kind)))
    place: Any = {"": said}
    key: Any = ""
    while place[key] and isinstance(place[key], dict | list) and draw(st.booleans()):
        place = place[key]
        key = draw(
            st.sampled_from(sorted(place) if isinstance(place, dict) else [*range(len(place))])
        )
    match draw(st.sampled_from(["replace", "remove", "add"])):
        case "remove" if place is not said and isinstance(place, dict) and key:
            del place[key]
        case "add" if isinstance(place, dict) and key:
            place[draw(st.text(max_size=3) | st.integers())] = draw(junk)
        case _ if key == "":
            said = draw(junk)
        case _:
            place[key] = draw(junk)
    return said


@pytest.mark.parametrize("kind", [*MESSAGES, Record], ids=lambda kind: str(kind)[-20:])
def test_what_is_malformed_is_an_input_error_and_nothing_else(kind: Any) -> None:
    @modest
    @given(said=spoilt(kind))
    def check(said: Any) -> None:
        try:
            found = decode(kind, said)
        except InputError:
            return
        assert decode(kind, encode(found)) == found  # by chance it is one
        json.dumps(encode(found)).encode()

    check()


def changed(**changes: Any) -> dict[Any, Any]:
    said = dict(encode(UPDATE))
    return {**said, **changes}


MALFORMED: dict[str, Any] = {
    "nothing": None,
    "a number": 3,
    "text": "Update",
    "a list": [],
    "no fields": {},
    "another message": encode(HEADER),
    "a name that is none": changed(**{"is": ["Update"]}),
    "a field too many": changed(more=1),
    "a field that is not named by text": {**changed(), 1: 2},
    "a field too few": {name: value for name, value in changed().items() if name != "means"},
    "NaN": changed(means=[math.nan]),
    "a number beyond floating point": changed(means=[10**400]),
    "a number of too many digits": changed(phase=10**5000),
    "a mean of too many digits": changed(means=[10**5000]),
    "a whole number of 65 bits": changed(phase=2**64),
    "a truth value for a number": changed(phase=True),
    "a truth value for a mean": changed(means=[True]),
    "a fraction for a whole number": changed(phase=1.0),
    "text for a number": changed(phase="1"),
    "half a character": changed(client="\ud800"),
    "bytes in capitals": changed(packed="FF"),
    "bytes with blanks": changed(packed="00 ff"),
    "no bytes": changed(packed="xyz"),
    "a list for bytes": changed(packed=[]),
    "text for a list": changed(counts="12"),
    "a dictionary for a list": changed(counts={"0": 1}),
}


@pytest.mark.parametrize("said", MALFORMED.values(), ids=MALFORMED.keys())
@pytest.mark.parametrize("kind", [Update, Record], ids=["update", "record"])
def test_what_is_wrong_is_said(kind: Any, said: Any) -> None:
    if kind is Record:
        said = {"is": "UpdateAccepted", "update": said}
    with pytest.raises(InputError) as caught:
        decode(kind, said)
    assert caught.value.where.startswith("message")


def test_what_is_nested_too_deep_is_an_input_error() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for kind in (Update, Record, float, Reason, bytes):
        with pytest.raises(InputError):
            decode(kind, deep)


@pytest.mark.parametrize("reason", [[], {}, 3, None, "why not"], ids=repr)
def test_a_word_that_is_none_of_several_is_an_input_error(reason: Any) -> None:
    with pytest.raises(InputError, match=r"message\.reason: .* is not of type Reason"):
        decode(Decision, encode(DECISION) | {"reason": reason})


# The outbox --------------------------------------------------------------------------------------


def entry(mechanism: Mechanism | None, phase: int = 1) -> Entry:
    means, places = (0.25, 0.0, 0.5), (64, 128)
    if mechanism is not None:
        first, last = mechanism.values(np.array(places)).tolist()
        means = (first, 0.0, last)
    update = Update(
        header=HEADER,
        phase=phase,
        client="α",
        counts=(4, 0, 4),
        means=means if mechanism is None else (),
        packed=b"" if mechanism is None else pack(places, mechanism.bits),
    )
    return Entry(
        update=update,
        release=Release(mechanism=mechanism),
        means=means,
        clipped=2,
        spent=Spending(gaussian_rho=0.5, laplaces=((0.25, 2),)),
        total=Spending(gaussian_rho=1.5).worst(Spending.laplace(3.0)),
        budget="rho = 1.5",
    )


MECHANISMS: list[Mechanism | None] = [
    None,
    Rounded(low=0.0, high=1.0, bits=8, rounding="stochastic"),
    Noised(low=0.0, high=1.0, kind="gaussian", scale=0.1),
    Noised(low=0.0, high=1.0, kind="laplace", scale=0.1),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_an_outbox_comes_back_as_it_was(tmp_path: Path, mechanism: Mechanism | None) -> None:
    path = tmp_path / "sent.jsonl"
    outbox = AuditFile(path)
    for phase in (1, 2):
        outbox.append(entry(mechanism, phase))
    again = list(AuditFile(path))
    assert again == list(outbox)
    assert [dataclasses.replace(e, at="") for e in again] == [entry(mechanism, p) for p in (1, 2)]


@pytest.mark.parametrize("left", [0, 1, 50, -2, -1])
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_an_entry_that_was_cut_short_was_never_sent(
    tmp_path: Path, left: int, mechanism: Mechanism | None
) -> None:
    path = tmp_path / "sent.jsonl"
    AuditFile(path).append(entry(mechanism))
    first = path.read_bytes()
    AuditFile(path).append(entry(mechanism, 2))
    second = path.read_bytes()[len(first) :]
    path.write_bytes(first + second[:left])
    outbox = AuditFile(path)
    assert [e.update.phase for e in outbox] == [1]
    outbox.append(entry(mechanism, 3))
    assert path.read_bytes().startswith(first)
    assert [e.update.phase for e in read_audit(path)] == [1, 3]


def test_an_outbox_that_somebody_has_tidied_up_is_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "sent.jsonl"
    AuditFile(path).append(entry(None))
    tidy = json.dumps(json.loads(path.read_text()), separators=(",", ":"), sort_keys=True) + "\n"
    path.write_text(tidy)
    AuditFile(path).append(entry(None, 2))
    assert path.read_text().startswith(tidy)
    assert [e.update.phase for e in read_audit(path)] == [1, 2]
