"""Backups of a run: consistent while a server writes, whole or refused, and continued."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from commands import Command
from fedbandits.errors import InputError
from fedbandits.federation.backup import make_backup, restore_backup
from fedbandits.federation.coordinator import Coordinator, Sent
from fedbandits.federation.durable_log import DurableLog, read_log
from fedbandits.federation.flower.up import plan_new, planned
from fedbandits.federation.local import LocalTransport
from fedbandits.federation.project import new_project
from fedbandits.federation.served import begin_or_resume
from fedbandits.federation.trial import load_trial, read_trial
from fedbandits.federation.verification import verify_log
from fedbandits.protocol import Rejection, ServerStarted, UpdateAccepted, UpdateRejected
from flower_project import decided, of_kind
from logged_runs import cut, played
from signed_runs import CLIENTS, LOG, STATE, TABLES, give_keys, hosts, signed_run

KEY = "fedbandits-server.key"


def rejected(number: int) -> UpdateRejected:
    return UpdateRejected(client=f"client-{number}", phase=1, rejection=Rejection.PHASE)


def test_every_backup_is_a_prefix_of_a_log_that_is_being_written(tmp_path: Path) -> None:
    path, done, enough = tmp_path / LOG, threading.Event(), threading.Event()

    def write() -> None:
        with DurableLog(path, {"run": "demo"}) as log:
            number = 0
            while not enough.is_set():
                log.append(rejected(number))
                number += 1
                done.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert done.wait(60)
        made = [make_backup(path, tmp_path / f"{number}.backup") for number in range(12)]
    finally:
        enough.set()
        writer.join()
    assert len({backup.place.number for backup in made}) > 1  # it was written meanwhile
    whole = read_log(path)
    for number, backup in enumerate(made):
        restored = tmp_path / f"{number}.fedlog"
        assert restore_backup(tmp_path / f"{number}.backup", restored) == backup
        content = read_log(restored)
        assert content.header == whole.header
        assert len(content.records) == backup.place.number
        assert content.records == whole.records[: backup.place.number]
        assert content.times == whole.times[: backup.place.number]


def test_a_backup_does_not_disturb_the_log_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    log = played(tmp_path / LOG)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    out = tmp_path / "out"
    out.mkdir()
    make_backup(log, out / "a.backup")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path != out} == before
    assert [path.name for path in out.iterdir()] == ["a.backup"]
    assert stat.S_IMODE((out / "a.backup").stat().st_mode) == 0o600


class KilledError(Exception):
    """The server was killed."""


class Present(LocalTransport):
    """Clients that are there; whatever is sent to others is lost."""

    def send(self, message: Sent, clients: Sequence[str]) -> None:
        super().send(message, [name for name in clients if name in self.connected()])


def goes_on(
    log: Path,
    clients: Path,
    until: int | None = None,
    *,
    present: slice = slice(CLIENTS),
    **changes: Any,
) -> None:
    """Begin or continue a signed run, with clients whose files are in a folder.

    It goes on to its end, or until the server is killed after so many decisions.
    """
    written, run = begin_or_resume(read_trial(TABLES | changes), log, signed=True)

    def watch(_: object) -> None:
        if until is not None and len(decided(run.server.log)) >= until:
            raise KilledError

    with written:
        transport = Present(hosts(clients, run.server, 2 * CLIENTS)[present])
        with nullcontext() if until is None else pytest.raises(KilledError):
            Coordinator(run.server, transport, clock=transport.clock, watch=watch).run()


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """Return the folder of a run that was stopped after its first decision."""
    folder = tmp_path / "first"
    folder.mkdir()
    goes_on(folder / LOG, folder, until=1)
    return folder


@pytest.fixture
def second(tmp_path: Path) -> Path:
    """Return the folder of another machine."""
    folder = tmp_path / "second"
    folder.mkdir()
    return folder


def test_a_run_goes_on_from_its_backup_on_another_machine(
    first: Path, second: Path, command: Command
) -> None:
    file = first / "a.backup"
    done = command("backup", first / LOG, "--out", file)
    assert done.code == 0, done.err
    assert "server's key: included" in done.out
    assert f"records: {len(read_log(first / LOG).records)}\n" in done.out
    done = command("restore", file, second / LOG)
    assert done.code == 0, done.err
    assert done.out.endswith(f"next: fedbandits status {second / LOG}\n")
    assert (second / KEY).read_bytes() == (first / KEY).read_bytes()
    for name in (LOG, KEY):
        assert stat.S_IMODE((second / name).stat().st_mode) == 0o600
    assert command("status", second / LOG).code == 0
    shutil.copytree(first / STATE, second / STATE)
    for folder in (first, second):  # the clients of each know nothing of the other
        goes_on(folder / LOG, folder)
    assert decided(read_log(second / LOG).records) == decided(read_log(first / LOG).records)
    done = command("verify", second / LOG, "--keys", give_keys(second))
    assert done.code == 0, done.err


def test_a_run_that_an_older_version_has_begun_goes_on_after_an_upgrade(
    first: Path, second: Path, command: Command
) -> None:
    """``begun.zip`` is `first` as a version without QR codes, guardrails and covariates left it.

    It holds a backup and the files of the clients. If the protocol's version changes, this has to
    fail: write the file anew with that version, and say in the changelog that runs do not go on.
    """
    shutil.unpack_archive(Path(__file__).parent / "begun.zip", second)
    assert command("restore", second / "run.backup", second / LOG).code == 0
    assert command("status", second / LOG, "--full").code == 0
    for folder in (first, second):
        goes_on(folder / LOG, folder)
    assert decided(read_log(second / LOG).records) == decided(read_log(first / LOG).records)
    assert command("verify", second / LOG, "--keys", give_keys(second)).code == 0


def test_two_servers_of_one_run_get_the_same_answers_until_one_is_behind(
    first: Path, second: Path
) -> None:
    make_backup(first / LOG, first / "a.backup")
    restore_backup(first / "a.backup", second / LOG)
    goes_on(first / LOG, first, until=2)
    goes_on(second / LOG, first)  # the same clients repeat what they have sent in phase 2
    ahead = read_log(second / LOG).records
    assert len(decided(ahead)) > 2
    assert decided(read_log(first / LOG).records) == decided(ahead)[:2]
    epochs = [
        max(record.epoch for record in of_kind(read_log(folder / LOG).records, ServerStarted))
        for folder in (first, second)
    ]
    assert epochs[0] == epochs[1]  # nothing in a message says which of the two has sent it
    with pytest.raises(InputError, match="is an old copy"):
        goes_on(first / LOG, first)
    verify_log(second / LOG, give_keys(first))


def test_clients_join_and_leave_in_the_middle_of_a_run(tmp_path: Path) -> None:
    log, quorum = tmp_path / LOG, {"fraction": 0.5}
    goes_on(log, tmp_path, 1, present=slice(4), quorum=quorum)
    goes_on(log, tmp_path, 2, present=slice(2, 8), quorum=quorum)  # two have left, four are new
    updates = [record.update for record in of_kind(read_log(log).records, UpdateAccepted)]
    heard = {
        phase: {int(one.client.rpartition("-")[2]) for one in updates if one.phase == phase}
        for phase in (1, 2)
    }
    assert heard == {1: {0, 1, 2, 3}, 2: {2, 3, 4, 5, 6, 7}}


@pytest.fixture(scope="module")
def backup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("backups")
    make_backup(signed_run(folder), folder / "a.backup")
    return folder / "a.backup"


@pytest.mark.parametrize("at", [0.0, 0.001, 0.02, 0.3, 0.7, 0.999])
@pytest.mark.parametrize("cuts", [True, False])
def test_a_damaged_backup_is_refused_and_nothing_is_written(
    backup: Path, tmp_path: Path, command: Command, at: float, cuts: bool
) -> None:
    content = bytearray(backup.read_bytes())
    place = int(at * len(content))
    if cuts:
        del content[place:]
    else:
        content[place] ^= 1
    damaged, to = tmp_path / "damaged.backup", tmp_path / "to"
    damaged.write_bytes(content)
    to.mkdir()
    done = command("restore", damaged, to / LOG)
    assert done.code == 2
    assert "is damaged" in done.err or "is not a backup" in done.err
    assert list(to.iterdir()) == []


def test_what_is_there_is_never_overwritten(backup: Path, tmp_path: Path, command: Command) -> None:
    log = tmp_path / LOG
    restore_backup(backup, log)
    before = log.read_bytes()
    done = command("restore", backup, log)
    assert (done.code, log.read_bytes()) == (2, before)
    assert "is there already; name another log" in done.err
    done = command("backup", log, "--out", backup)
    assert done.code == 2
    assert "a backup is never replaced" in done.err
    other = tmp_path / "other"
    other.mkdir()
    (other / KEY).write_text("another key", encoding="utf-8")
    done = command("restore", backup, other / LOG)
    assert done.code == 2
    assert "is of another run" in done.err
    assert not (other / LOG).exists()
    assert (other / KEY).read_text(encoding="utf-8") == "another key"
    newest = tmp_path / "third.fedlog-wal"
    newest.write_bytes(b"of a log that is gone")
    done = command("restore", backup, tmp_path / "third.fedlog")
    assert done.code == 2
    assert str(newest) in done.err
    done = command("restore", backup, tmp_path / "nowhere" / LOG)
    assert done.code == 2
    assert "is not a folder" in done.err


def test_no_log_or_no_backup_is_a_mistake_of_the_user(tmp_path: Path, command: Command) -> None:
    done = command("backup", tmp_path / LOG, "--out", tmp_path / "a.backup")
    assert done.code == 2
    assert "is not there" in done.err
    text = tmp_path / "notes.txt"
    text.write_text("hello", encoding="utf-8")
    for words in (("backup", text, "--out", tmp_path / "a.backup"), ("restore", text, "a.fedlog")):
        assert command(*words).code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_backup_says_what_it_holds_in_its_second_line(backup: Path) -> None:
    first, second, _ = backup.read_bytes().split(b"\n", 2)
    assert first.startswith(b"fedbandits backup ")
    said = json.loads(second)
    log = backup.with_name(LOG)
    assert said["place"]["number"] == len(read_log(log).records)
    assert said["run"] == read_log(log).header["run"]
    assert KEY in said["files"]


def test_resume_knows_what_runs_on_this_machine(tmp_path: Path) -> None:
    new_project(tmp_path / "trial")
    log, plan = plan_new(tmp_path / "trial", clients=4, nodes=2, log=None)
    begin_or_resume(load_trial(tmp_path / "trial"), log)[0].close()
    make_backup(log, tmp_path / "a.backup")
    restore_backup(tmp_path / "a.backup", tmp_path / LOG)
    assert planned(tmp_path / LOG) == plan


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
def test_what_root_restores_belongs_to_the_owner_of_the_folder(
    backup: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "server"
    folder.mkdir()
    os.chown(folder, 10001, 10001)
    restore_backup(backup, folder / LOG)
    assert {path.stat().st_uid for path in folder.iterdir()} == {10001}
    make_backup(folder / LOG, folder / "b.backup")
    assert (folder / "b.backup").stat().st_uid == 10001


def test_the_key_of_other_runs_stays_where_it_is(tmp_path: Path) -> None:
    signed_run(tmp_path)
    plain = played(tmp_path / "plain.fedlog")
    made = make_backup(plain, tmp_path / "plain.backup")
    assert made.files == ("run.fedlog",)


def test_a_damaged_tail_is_kept_and_said(tmp_path: Path) -> None:
    log = cut(played(tmp_path / "whole.fedlog"), tmp_path / LOG, 10)
    with sqlite3.connect(log) as database:
        database.execute("UPDATE records SET body = 'x' WHERE number = 10")
    database.close()
    made = make_backup(log, tmp_path / "a.backup")
    assert (made.place.number, made.dropped) == (9, 1)
    assert "damaged: 1 records" in made.words()
    restore_backup(tmp_path / "a.backup", tmp_path / "again.fedlog")
    assert read_log(tmp_path / "again.fedlog").dropped == 1
