"""Signed runs: what verify accepts, and everything that it must find."""

from __future__ import annotations

import json
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from fedbandits.cli.main import app
from fedbandits.errors import InputError
from fedbandits.federation.durable_log import (
    DamagedLogError,
    DurableLog,
    _header_rows,
    read_log,
)
from fedbandits.federation.flower.server import serve
from fedbandits.federation.followed import LoggedRun
from fedbandits.federation.run import signed_name
from fedbandits.federation.served import begin_or_resume
from fedbandits.federation.signing import (
    client_key,
    fingerprint,
    is_signed,
    public_line,
    read_keys,
    read_public,
    server_key,
    signing_key,
)
from fedbandits.federation.trial import read_trial
from fedbandits.federation.verification import UnverifiedError, verify_log
from fedbandits.protocol import (
    HeadSigned,
    PhaseClosed,
    PhaseOpened,
    Record,
    Rejection,
    RunEnded,
    Server,
    Update,
    UpdateAccepted,
    UpdateRejected,
    decisions,
)
from fedbandits.protocol.messages import signed_bytes
from fedbandits.run_page.page import run_html
from flower_project import decided, write_project
from logged_runs import played
from room import Room, config, three_nodes
from signed_runs import (
    CLIENTS,
    KEYS,
    LOG,
    STATE,
    TABLES,
    Timed,
    give_keys,
    hosts,
    replayed,
    rewritten,
    swapped,
)
from signed_runs import signed_run as play_signed

BAD = (UnverifiedError, DamagedLogError)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the log of a signed run that is over; the keys are in the folder `KEYS` beside it."""
    return play_signed(tmp_path_factory.mktemp("signed"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory, log: Path) -> Path:
    """Return another run of the same clients and the same server."""
    folder = tmp_path_factory.mktemp("other")
    (folder / STATE).mkdir()
    for key in (*log.parent.glob("*.key"), *log.parent.glob("*.pub")):
        shutil.copy(key, folder)
    for key in log.parent.glob(f"{STATE}/*.key"):
        shutil.copy(key, folder / STATE)
    return play_signed(folder)


def records_of(path: Path) -> list[Record]:
    return list(read_log(path).records)


def updates_of(path: Path) -> list[Update]:
    return [each.update for each in records_of(path) if isinstance(each, UpdateAccepted)]


def refused(path: Path, keys: Path) -> str:
    with pytest.raises(BAD) as found:
        verify_log(path, keys)
    return str(found.value)


# What is good -------------------------------------------------------------------------------------


def test_a_run_is_verified_with_its_log_and_public_keys_alone(log: Path, tmp_path: Path) -> None:
    shutil.copy(log, tmp_path / "copy.fedlog")
    shutil.copytree(log.parent / KEYS, tmp_path / "keys")
    done = subprocess.run(
        [sys.executable, "-m", "fedbandits", "verify", "copy.fedlog", "--keys", "keys"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    run = LoggedRun(log)
    answer = run.answer()
    assert answer is not None
    assert answer.winner == "blue"
    assert answer.words() in done.stdout
    assert run.status().head in done.stdout
    assert f"of {CLIENTS} clients, every one signed" in done.stdout


def test_status_and_report_carry_the_fingerprint_of_the_verdict(log: Path) -> None:
    found, run = verify_log(log, log.parent / KEYS), LoggedRun(log)
    assert len(found.head) == 64
    assert run.status().as_dict()["head"] == found.head
    assert found.head in run.status().words()
    assert found.head in run_html(run)


def test_what_is_written_after_the_end_is_signed_and_keeps_the_fingerprint(
    log: Path, tmp_path: Path
) -> None:
    shutil.copytree(log.parent, tmp_path / "run")
    again, keys = tmp_path / "run" / LOG, tmp_path / "run" / KEYS
    before = verify_log(again, keys)
    written, _ = begin_or_resume(read_trial(TABLES), again)
    written.close()
    after = verify_log(again, keys)
    assert after.head == before.head
    assert after.records == before.records + 2  # a new epoch, and its signature
    assert after.answer == before.answer


def test_every_decision_is_signed_and_nothing_else(log: Path) -> None:
    records = records_of(log)
    for before, record in pairwise(records):
        assert isinstance(record, HeadSigned) == isinstance(before, PhaseClosed | RunEnded)
    assert isinstance(records[-1], HeadSigned)


def test_a_checkpoint_knows_keys_and_fingerprint(log: Path, tmp_path: Path) -> None:
    shutil.copytree(log.parent, tmp_path / "run")
    path = tmp_path / "run" / LOG
    with DurableLog(path) as written:
        LoggedRun(written, full=True).write_checkpoint()
    short, full = LoggedRun(path), LoggedRun(path, full=True)
    assert short.server.snapshot() == full.server.snapshot()
    assert short.status().head == full.status().head != ""


# What is not --------------------------------------------------------------------------------------


def columns(path: Path) -> list[tuple[str, str, str, int]]:
    """Return every value in a log: its table, column and key, and how long it is."""
    found = []
    with closing(sqlite3.connect(path)) as database:
        for key, value in database.execute("SELECT key, value FROM header"):
            found += [("header", "value", key, len(value)), ("header", "key", key, len(key))]
        for number, *values in database.execute("SELECT * FROM records"):
            for column, value in zip(("at", "body", "checksum"), values, strict=True):
                found.append(("records", column, str(number), len(value)))
    return found


@settings(deadline=None, derandomize=True, max_examples=120)
@given(data=st.data())
def test_every_flipped_bit_is_found(
    log: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    table, column, key, length = data.draw(st.sampled_from(columns(log)))
    place, bit = data.draw(st.integers(0, length - 1)), data.draw(st.integers(0, 7))
    copy = tmp_path_factory.mktemp("flipped") / LOG
    shutil.copy(log, copy)
    named = "key" if table == "header" else "number"
    with closing(sqlite3.connect(copy)) as database:
        (value,) = database.execute(f"SELECT {column} FROM {table} WHERE {named} = ?", (key,))
        flipped = bytearray(value[0].encode())
        flipped[place] ^= 1 << bit
        database.execute(
            f"UPDATE {table} SET {column} = CAST(? AS TEXT) WHERE {named} = ?", (flipped, key)
        )
        database.commit()
    said = refused(copy, log.parent / KEYS)
    if table == "records":
        assert f"record {key} " in said


@settings(deadline=None, derandomize=True, max_examples=150)
@given(data=st.data())
def test_a_flipped_bit_of_the_file_is_found_or_changes_nothing(
    log: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(log.read_bytes())
    place, bit = data.draw(st.integers(0, len(content) - 1)), data.draw(st.integers(0, 7))
    content[place] ^= 1 << bit
    copy = tmp_path_factory.mktemp("flipped") / LOG
    copy.write_bytes(content)
    with suppress(*BAD, InputError):
        assert verify_log(copy, log.parent / KEYS) == verify_log(log, log.parent / KEYS)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(data=st.data())
def test_every_cut_is_found_even_if_the_checksums_are_made_again(
    log: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    length = len(records_of(log))
    first = data.draw(st.integers(0, length - 1))
    end = data.draw(st.just(length) | st.integers(first + 1, length))
    copy = tmp_path_factory.mktemp("cut") / LOG
    rewritten(log, copy, lambda all_: all_[:first] + all_[end:])
    refused(copy, log.parent / KEYS)


def test_a_damaged_tail_is_found_that_an_ordinary_reader_tolerates(
    log: Path, tmp_path: Path
) -> None:
    copy = tmp_path / LOG
    shutil.copy(log, copy)
    with closing(sqlite3.connect(copy)) as database:
        database.execute(
            "INSERT INTO records SELECT max(number) + 1, at, 'torn', 'torn' FROM records"
        )
        database.commit()
    assert read_log(copy).dropped == 1
    n = len(records_of(log))
    assert f"record {n + 1} is damaged" in refused(copy, log.parent / KEYS)


def _changed(
    number: int, change: Callable[[Update], Update]
) -> Callable[[list[Timed]], list[Timed]]:
    """Return what changes one update of a log."""

    def changed(records: list[Timed]) -> list[Timed]:
        places = [n for n, (each, _) in enumerate(records) if isinstance(each, UpdateAccepted)]
        found, at = records[places[number]]
        assert isinstance(found, UpdateAccepted)
        records[places[number]] = UpdateAccepted(change(found.update)), at
        return records

    return changed


def _swapped_signatures(records: list[Timed]) -> list[Timed]:
    one, two, *_ = (each.update for each, _ in records if isinstance(each, UpdateAccepted))
    records = _changed(0, lambda update: replace(update, signature=two.signature))(records)
    return _changed(1, lambda update: replace(update, signature=one.signature))(records)


def _swapped_updates(records: list[Timed]) -> list[Timed]:
    one, two, *_ = (each.update for each, _ in records if isinstance(each, UpdateAccepted))
    return _changed(1, lambda _: one)(_changed(0, lambda _: two)(records))


FORGERIES: dict[str, Callable[[list[Timed]], list[Timed]]] = {
    "another mean": _changed(0, lambda update: replace(update, means=(0.5, *update.means[1:]))),
    "no signature": _changed(0, lambda update: replace(update, signature=b"")),
    "a forged signature": _changed(0, lambda update: replace(update, signature=bytes(64))),
    "signatures of two clients swapped": _swapped_signatures,
    "an update in another's name": _changed(0, lambda update: replace(update, client="client-7")),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
@pytest.mark.parametrize("insider", [False, True], ids=["anybody", "the server itself"])
def test_forged_updates_are_found(
    log: Path, tmp_path: Path, forge: Callable[[list[Timed]], list[Timed]], *, insider: bool
) -> None:
    first = next(n for n, each in enumerate(records_of(log), 1) if isinstance(each, UpdateAccepted))
    path = rewritten(log, tmp_path / LOG, forge, signer=log if insider else None)
    assert f"record {first} is not good" in refused(path, log.parent / KEYS)


def test_records_that_changed_places_are_found_unless_the_server_itself_does_it(
    log: Path, tmp_path: Path
) -> None:
    path = rewritten(log, tmp_path / LOG, _swapped_updates)
    assert "not signed with the server's key" in refused(path, log.parent / KEYS)
    (tmp_path / "insider").mkdir()
    path = rewritten(log, tmp_path / "insider" / LOG, _swapped_updates, signer=log)
    verify_log(path, log.parent / KEYS)  # in which order they came the server alone knows


def test_nothing_is_changed_by_writing_it_again(log: Path, tmp_path: Path) -> None:
    path = rewritten(log, tmp_path / LOG, lambda records: records)
    assert verify_log(path, log.parent / KEYS) == verify_log(log, log.parent / KEYS)


def test_a_server_that_swaps_two_options_in_all_updates_is_found(log: Path, tmp_path: Path) -> None:
    path = replayed(log, tmp_path / LOG, swapped)
    lie = LoggedRun(path, full=True).answer()
    assert lie is not None
    assert lie.winner == "red"  # the whole log says so, and every decision follows
    first = next(
        n for n, each in enumerate(records_of(path), 1) if isinstance(each, UpdateAccepted)
    )
    said = refused(path, log.parent / KEYS)
    assert f"record {first} is not good" in said
    assert Rejection.SIGNATURE.value in said


def test_a_server_that_changes_the_question_afterwards_is_found(log: Path, tmp_path: Path) -> None:
    header = read_log(log).header
    header["trial"] = header["trial"] | {"goal": "min"}
    (tmp_path / "kept").mkdir()
    kept = replayed(log, tmp_path / "kept" / LOG, lambda update: update, header)
    assert "the header is not the one" in refused(kept, log.parent / KEYS)
    header["run"] = signed_name(header)
    (tmp_path / "renamed").mkdir()
    renamed = replayed(log, tmp_path / "renamed" / LOG, lambda update: update, header)
    lie = LoggedRun(renamed, full=True).server.decision
    assert lie is not None
    assert lie.best == 0  # red, because the least is wanted now
    assert Rejection.SIGNATURE.value in refused(renamed, log.parent / KEYS)


def test_updates_of_another_run_or_phase_are_found(log: Path, other: Path, tmp_path: Path) -> None:
    theirs = {(update.client, update.phase): update for update in updates_of(other)}

    def foreign(update: Update) -> Update:
        return replace(theirs[update.client, update.phase], header=update.header)

    path = replayed(log, tmp_path / LOG, foreign)
    assert Rejection.SIGNATURE.value in refused(path, log.parent / KEYS)
    second = {update.client: update for update in updates_of(log) if update.phase == 2}
    (tmp_path / "phase").mkdir()

    def earlier(update: Update) -> Update:
        return replace(second[update.client], phase=3) if update.phase == 3 else update

    late = replayed(log, tmp_path / "phase" / LOG, earlier)
    assert len(updates_of(late)) == len(updates_of(log))
    said = refused(late, log.parent / KEYS)
    places = [n for n, each in enumerate(records_of(late), 1) if isinstance(each, UpdateAccepted)]
    assert f"record {places[4 + CLIENTS]} is not good" in said
    assert Rejection.SIGNATURE.value in said


def test_a_server_with_another_key_is_found(log: Path, tmp_path: Path) -> None:
    server_key(tmp_path / LOG, new=True)
    path = rewritten(log, tmp_path / LOG, lambda all_: all_, signer=tmp_path / LOG)
    assert "not signed with the server's key" in refused(path, log.parent / KEYS)
    header = read_log(log).header
    header["signed"] |= {"server": server_key(tmp_path / LOG).public.hex()}
    header["run"] = signed_name(header)
    (tmp_path / "new").mkdir()
    new = rewritten(log, tmp_path / "new" / LOG, lambda all_: all_, header, signer=tmp_path / LOG)
    assert "names SHA256:" in refused(new, log.parent / KEYS)


def test_decisions_that_do_not_follow_are_found_whoever_signs_them(
    log: Path, tmp_path: Path
) -> None:
    def turned(record: Record) -> Record:
        if isinstance(record, RunEnded):
            return replace(record, decision=replace(record.decision, best=0, winner=0))
        return record

    def change(records: list[Timed]) -> list[Timed]:
        return [(turned(record), at) for record, at in records]

    path = rewritten(log, tmp_path / LOG, change, signer=log)
    assert "another last word follows" in refused(path, log.parent / KEYS)


def test_a_key_that_the_client_has_not_given_is_found(log: Path, tmp_path: Path) -> None:
    keys = shutil.copytree(log.parent / KEYS, tmp_path / "keys")
    stranger = signing_key(tmp_path / "stranger.key", "client client-0")
    (keys / "client-0.pub").write_text(public_line(stranger.public, "client client-0"))
    said = refused(log, keys)
    assert "is not among the given keys of client-0" in said


# What people do wrong -----------------------------------------------------------------------------


def command(*said: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in said])


def test_a_missing_key_or_folder_is_the_users_mistake(log: Path, tmp_path: Path) -> None:
    for name in ("client-0.pub", "fedbandits-server.pub"):
        keys = shutil.copytree(log.parent / KEYS, tmp_path / name)
        (keys / name).unlink()
        with pytest.raises(InputError, match="has no key of"):
            verify_log(log, keys)
    with pytest.raises(InputError, match="is not a folder"):
        verify_log(log, tmp_path / "nowhere")
    with pytest.raises(InputError, match="is not there"):
        verify_log(tmp_path / "none.fedlog", log.parent / KEYS)
    (keys / "x.pub").write_text("ssh-rsa AAAA me", encoding="utf-8")
    with pytest.raises(InputError, match="is not a public key"):
        verify_log(log, keys)


def test_the_exit_code_says_whose_mistake_it_is(log: Path, tmp_path: Path) -> None:
    def code(*said: object) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "fedbandits", "verify", *map(str, said)],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stderr

    cut = rewritten(log, tmp_path / LOG, lambda all_: all_[:-1])
    found, said = code(cut, "--keys", log.parent / KEYS)
    assert (found, "it is not signed" in said) == (1, True)
    assert code(log, "--keys", tmp_path / "nowhere")[0] == 2


def test_an_unsigned_log_stays_readable_and_is_said_to_be_unsigned(
    log: Path, tmp_path: Path
) -> None:
    path = played(tmp_path / "old.fedlog")
    assert "the log is unsigned" in refused(path, log.parent / KEYS)
    status = LoggedRun(path).status()
    assert (status.signed, status.head) == (False, "")
    assert "not signed" in status.words()


def test_a_run_that_goes_on_is_not_verified_and_all_so_far_is_said_to_be_good(
    log: Path, tmp_path: Path
) -> None:
    records = records_of(log)
    end = next(n for n, each in enumerate(records) if isinstance(each, HeadSigned))
    path = rewritten(log, tmp_path / LOG, lambda all_: all_[: end + 1])
    assert "are good, and the last word of the run is not among them" in refused(
        path, log.parent / KEYS
    )


def test_json(log: Path) -> None:
    done = command("verify", log, "--keys", log.parent / KEYS, "--json")
    assert json.loads(done.stdout)["clients"] == CLIENTS


# What a server takes ------------------------------------------------------------------------------


@pytest.fixture
def signed(tmp_path: Path) -> Iterator[Server]:
    written, run = begin_or_resume(read_trial(TABLES), tmp_path / LOG, signed=True)
    with written:
        yield run.server


def test_updates_without_a_good_signature_are_rejected_and_blamed_on_nobody(
    signed: Server, tmp_path: Path
) -> None:
    one, two = hosts(tmp_path, signed, 2)
    assignment = signed.open(["client-0", "client-1"])
    good, others = one.answer(assignment), two.answer(assignment)
    assert isinstance(good, Update)
    assert isinstance(others, Update)
    for bad in (
        replace(good, signature=b""),
        replace(good, signature=others.signature),
        replace(good, means=good.means[::-1]),
        replace(good, clipped=1),
        replace(others, client="client-0"),
    ):
        for _ in range(signed.terms.quarantine_after or 0):
            assert signed.receive(bad) is Rejection.SIGNATURE
    assert not signed.quarantined  # whoever has sent that, it was not the client
    assert signed.receive(good) is None
    rejected = [each for each in signed.log if isinstance(each, UpdateRejected)]
    assert {each.rejection for each in rejected} == {Rejection.SIGNATURE}


def test_a_signature_is_for_one_assignment(signed: Server, tmp_path: Path) -> None:
    (host,) = hosts(tmp_path, signed, 1)
    assignment = signed.open(["client-0"])
    update = host.answer(assignment)
    assert isinstance(update, Update)
    key = signed.run_state.keys.get("client-0")
    assert key is not None
    more = replace(assignment, pulls=tuple(2 * n for n in assignment.pulls))
    squares = replace(assignment, release=replace(assignment.release, squares=True))
    for asked, good in ((assignment, True), (more, False), (squares, False)):
        assert is_signed(key, signed_bytes(update, asked), update.signature) is good


def test_a_forged_halt_changes_nothing(signed: Server, tmp_path: Path) -> None:
    from fedbandits.protocol import Halt

    (host,) = hosts(tmp_path, signed, 1)
    update = host.answer(signed.open(["client-0"]))
    assert isinstance(update, Update)
    forged = replace(update, halt=Halt(arms=(0,), reason="harm"))
    assert signed.receive(forged) is Rejection.SIGNATURE
    assert signed.receive(replace(forged, phase=2)) is Rejection.PHASE
    assert signed.receive(update) is None
    assert signed.receive(forged) is Rejection.DUPLICATE
    assert not signed.run_state.halts


def test_the_first_key_counts_until_the_operator_says_why_not(
    signed: Server, tmp_path: Path
) -> None:
    (host,) = hosts(tmp_path, signed, 1)
    new = signing_key(tmp_path / "new.key", "client client-0")
    assert signed.pin({"client-0": new.public}) == {"client-0": new.public}
    assert signed.run_state.keys.get("client-0") != new.public
    signed.change_key("client-0", new.public, "its disk was lost")
    assignment = signed.open(["client-0"])
    update = host.answer(assignment)
    assert signed.receive(update) is Rejection.SIGNATURE  # with the key that is lost
    host.sign = new.sign
    assert signed.receive(host.answer(assignment)) is None
    signed.close()


def test_keys_that_are_known_beforehand_are_the_only_ones(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    state = tmp_path / STATE
    state.mkdir()
    client_key(state, "client-0")
    shutil.copy(state / "client-0.pub", keys)
    trial = read_trial(TABLES)
    written, run = begin_or_resume(trial, tmp_path / LOG, signed=True, keys=keys)
    with written:
        server = run.server
        assert [client for client, _ in server.run_state.keys] == ["client-0"]
        one, two = hosts(tmp_path, server, 2)
        assignment = server.open(["client-0", "client-1"])
        assert server.receive(one.answer(assignment)) is None
        assert server.receive(two.answer(assignment)) is Rejection.SIGNATURE
    written, run = begin_or_resume(trial, tmp_path / LOG)
    with written:
        assert not run.server.pins_first_keys


def test_a_log_that_counts_other_keys_than_those_known_beforehand_is_found(
    log: Path, tmp_path: Path
) -> None:
    header = read_log(log).header
    others = {"client-0": signing_key(tmp_path / "a.key", "client client-0").public.hex()}
    header["signed"] = {**header["signed"], "clients": others}
    header["run"] = signed_name(header)
    forged = rewritten(log, tmp_path / LOG, list, header)
    with pytest.raises(UnverifiedError, match=r"record 1 is not good: .* in the header"):
        verify_log(forged, log.parent / KEYS)


def test_numbers_that_are_close_beside_a_large_one_decide_nothing(tmp_path: Path) -> None:
    written, run = begin_or_resume(read_trial(TABLES), tmp_path / LOG, signed=True)
    with written:
        server = run.server
        found = hosts(tmp_path, server, 4)
        assignment = server.open([host.info.name for host in found])
        for host in found:
            sent = host.answer(assignment)
            assert isinstance(sent, Update)
            update = replace(sent, means=(-1e9, 0.2, 0.2001))
            key = client_key(tmp_path / STATE, host.info.name)
            signature = key.sign(signed_bytes(update, assignment))
            assert server.receive(replace(update, signature=signature)) is None
        decision = decisions.decided(server.run_state)
        assert decision.best == 2
        server._commit(PhaseClosed(replace(decision, estimates=(-1e9, 0.7, 0.2001))))
        server.stop()
        assert server.decision is not None
        assert server.decision.best == 1
    with pytest.raises(UnverifiedError, match="another last word follows"):
        verify_log(tmp_path / LOG, give_keys(tmp_path))


def test_a_first_phase_without_clients_is_found(log: Path, tmp_path: Path) -> None:
    def nobody(records: list[Timed]) -> list[Timed]:
        return [
            (replace(record, admitted=()) if isinstance(record, PhaseOpened) else record, at)
            for record, at in records
        ]

    with pytest.raises(UnverifiedError, match="needs at least one client"):
        verify_log(rewritten(log, tmp_path / LOG, nobody), log.parent / KEYS)


@pytest.mark.parametrize(
    "change",
    [
        lambda _: "[" * 100_000,
        lambda _: "1",
        lambda _: "{",
        lambda header: json.dumps(header | {"versions": [1]}),
        lambda header: json.dumps(header | {"trial": None}),
        lambda header: json.dumps(header | {"trial": header["trial"] | {"plugins": [__file__]}}),
    ],
)
def test_a_header_that_is_none_is_said_to_be_damaged(
    log: Path, tmp_path: Path, change: Callable[[dict[str, Any]], str]
) -> None:
    copy, text = Path(shutil.copy(log, tmp_path)), change(read_log(log).header)
    with closing(sqlite3.connect(copy)) as database, database:
        rows = [(said, key) for key, said in _header_rows(text).items()]
        database.executemany("UPDATE header SET value = ? WHERE key = ?", rows)
    with pytest.raises(DamagedLogError, match=r"what the run is;|without their sources"):
        verify_log(copy, log.parent / KEYS)


def test_a_server_without_its_key_does_not_go_on(tmp_path: Path) -> None:
    trial = read_trial(TABLES)
    begin_or_resume(trial, tmp_path / LOG, signed=True)[0].close()
    (tmp_path / "fedbandits-server.key").unlink()
    with pytest.raises(InputError, match="restore it from a copy"):
        begin_or_resume(trial, tmp_path / LOG)
    server_key(tmp_path / LOG, new=True)
    with pytest.raises(InputError, match="another key"):
        begin_or_resume(trial, tmp_path / LOG)


def test_a_decision_whose_signature_is_lost_is_signed_when_the_run_goes_on(
    log: Path, tmp_path: Path
) -> None:
    shutil.copytree(log.parent, tmp_path / "run")
    path = tmp_path / "run" / LOG
    with closing(sqlite3.connect(path)) as database:
        database.execute("DELETE FROM records WHERE number = (SELECT max(number) FROM records)")
        database.commit()
    (path.with_name(f"{LOG}.checkpoint")).unlink(missing_ok=True)
    refused(path, log.parent / KEYS)
    begin_or_resume(read_trial(TABLES), path)[0].close()
    verify_log(path, log.parent / KEYS)


# Keys ---------------------------------------------------------------------------------------------


def test_a_private_key_is_for_its_owner_even_in_a_shared_folder(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o2770)
    key = client_key(shared, "α/1")
    (private,) = shared.glob("*.key")
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert client_key(shared, "α/1").public == key.public
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    (public,) = shared.glob("*.pub")
    assert read_public(public) == ("client α/1", key.public)
    assert read_keys(shared) == {"client α/1": {key.public}}


def test_what_is_not_a_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.key").write_text("nothing", encoding="utf-8")
    with pytest.raises(InputError, match="is not a private key"):
        client_key(tmp_path, "a")


def test_fingerprints_are_those_of_openssh(tmp_path: Path) -> None:
    keygen = shutil.which("ssh-keygen")
    if keygen is None:
        pytest.skip("ssh-keygen is not installed")
    key = client_key(tmp_path, "a")
    done = subprocess.run(
        [keygen, "-lf", str(tmp_path / "a.pub")], capture_output=True, text=True, check=True
    )
    assert fingerprint(key.public) in done.stdout


# The commands, and Flower -------------------------------------------------------------------------


def test_a_key_is_changed_by_a_command(log: Path, tmp_path: Path) -> None:
    written, run = begin_or_resume(read_trial(TABLES), tmp_path / LOG, signed=True)
    with written:
        hosts(tmp_path, run.server, 1)
    new = signing_key(tmp_path / "new.key", "client client-0")
    said = ("rebind", tmp_path / LOG, "--reason", "its disk was lost", "--key")
    assert command(*said, tmp_path / "new.pub", "client-9").exit_code != 0
    done = command(*said, tmp_path / "new.pub", "client-0")
    assert done.exit_code == 0, done.exception
    assert fingerprint(new.public) in done.output
    assert fingerprint(new.public) in LoggedRun(tmp_path / LOG).status().words()
    done = command(*said, log.parent / KEYS / "client-1.pub", "client-0")
    assert isinstance(done.exception, InputError)


@pytest.mark.usefixtures("in_a_run")
def test_a_federation_on_flower_is_signed_by_default_and_verified(tmp_path: Path) -> None:
    project = write_project(tmp_path / "signed")
    serve(Room(three_nodes(project)), config(project))
    assert verify_log(project / LOG, give_keys(project)).clients == 6
    plain = write_project(tmp_path / "plain", signed=False)
    serve(Room(three_nodes(plain)), config(plain))
    assert "signed" not in read_log(plain / LOG).header
    assert decided(records_of(project / LOG)) == decided(records_of(plain / LOG))


def test_nothing_needs_the_package_that_signs_before_something_is_signed() -> None:
    code = (
        "import sys; sys.modules['cryptography'] = None\n"
        "import fedbandits, fedbandits.cli.main, fedbandits.federation.verification\n"
        "import fedbandits.federation.served, fedbandits.federation.host\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
