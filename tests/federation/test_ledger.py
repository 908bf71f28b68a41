"""The ledger of live traffic: nothing in it is lost, and what was sent follows from it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from coin_trial import TABLES
from commands import Command
from fedbandits.federation.audit_file import read_audit
from fedbandits.federation.state_files import audit_file, live_file
from fedbandits.federation.trial import read_trial
from fedbandits.federation.verification import verified
from fedbandits.protocol import Release
from shop import LIVE, Shop, decided, header, phase


def ledger(shop: Shop) -> list[tuple[Any, ...]]:
    with sqlite3.connect(live_file(shop.folder, "shop")) as database:
        rows = database.execute(
            "SELECT number, unit, arm, at, phase, value, counted FROM units ORDER BY number"
        ).fetchall()
    database.close()
    return rows


def played(shop: Shop, release: Release | None = None) -> dict[str, str]:
    """Play a phase with 14 units of each option, and drop red and green."""
    sent = {} if release is None else {"release": release}
    asked = phase(1, 14, 14, 14, **sent)
    shop.pending(asked)
    units = shop.come(42)
    for number, unit in enumerate(units):
        assert shop.live.record(unit, (number % 5) / 4)
    shop.time.now += 700
    shop.update(asked)
    shop.pending(phase(2, 0, 0, 14, previous=decided(2, (False, False, True)), **sent))
    return units


def test_who_comes_back_after_a_decision_gets_a_new_row_and_the_old_one_stays(shop: Shop) -> None:
    """Version 0.1.0 wrote over option and outcome: 213 of 420 that were counted were gone."""
    units = played(shop)
    before = ledger(shop)
    assert {shop.live.assign(unit) for unit in units} == {"blue"}
    after = ledger(shop)
    assert after[: len(before)] == before
    moved = [unit for unit, arm in units.items() if arm != "blue"]
    fresh = after[len(before) :]
    assert [row[1] for row in fresh] == moved
    assert {row[4] for row in fresh} == {0}  # a unit counts once in a run
    assert len({row[0] for row in after}) == len(after)
    # Its outcome goes to what it has now.
    assert not shop.live.record(moved[0], 0.25)
    old, new = (row[5] for row in ledger(shop) if row[1] == moved[0])
    assert (old, new) == (next(row[5] for row in before if row[1] == moved[0]), 0.25)


def test_a_new_run_keeps_the_rows_of_the_one_before(shop: Shop) -> None:
    units = played(shop)
    before = ledger(shop)
    shop.pending(phase(1, 14, 14, 14, header=header("run 2")))
    for unit in units:
        shop.live.assign(unit)
    after = ledger(shop)
    assert after[: len(before)] == before
    assert [row[4] for row in after[len(before) :]] == [1] * 42


def test_what_comes_late_or_does_not_count_is_kept_and_not_counted(shop: Shop) -> None:
    asked = phase(1, 2, 2, 2)
    shop.pending(asked)
    units = list(shop.come(7))
    assert shop.live.record(units[0], 1.0)
    assert not shop.live.record(units[6], 1.0)  # beyond the phase
    shop.time.now += 601
    assert not shop.live.record(units[1], 1.0)  # too late
    said = shop.update(asked)
    assert sum(said.means) == 0.5
    kept = [row[5:] for row in ledger(shop)]
    assert kept == [(1.0, 1), (1.0, 0), *[(None, None)] * 4, (1.0, 0)]


def test_the_file_itself_refuses_changes(shop: Shop) -> None:
    played(shop)
    database = sqlite3.connect(live_file(shop.folder, "shop"))
    for change in ("value = 0.5", "arm = 2", "unit = 'x'", "phase = 9", "at = 0"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            database.execute(f"UPDATE units SET {change} WHERE number = 1")
    database.close()


PRIVACY: dict[str, Any] = {
    "as they are": {},
    "rounded": {"privacy": {"range": [0, 1], "quantize": {"bits": 6}}},
    "noised": {"privacy": {"range": [0, 1], "noise": "laplace", "epsilon": 5.0}},
}


@pytest.mark.parametrize("keys", PRIVACY.values(), ids=PRIVACY)
def test_what_was_sent_is_verified_against_the_rows(
    tmp_path: Path, command: Command, keys: dict[str, Any]
) -> None:
    trial = read_trial({**TABLES, "live": LIVE, "min_pulls": 2, **keys})
    shop = Shop(tmp_path, trial)
    release = None
    if trial.privacy is not None:
        release = Release(mechanism=trial.privacy.mechanism(14, 3, 6))
    units = played(shop, release)
    for unit in units:
        shop.live.assign(unit)
    shop.live.close()
    audit = audit_file(tmp_path, "shop")
    done = command("audit", audit)
    assert done.code == 0, done.err
    assert "Source data: 1 of 1 updates agree with the rows of the ledger." in done.out
    # Somebody who gets around the ledger's own rule is found.
    with sqlite3.connect(live_file(tmp_path, "shop")) as database:
        database.execute("DROP TRIGGER units_are_kept")
        database.execute("UPDATE units SET value = 1 - value WHERE number = 1")
    database.close()
    done = command("audit", audit)
    assert done.code == 1
    assert "the rows give" in done.err
    assert command("audit", audit, "--json").code == 1


def test_outcomes_that_are_clipped_are_kept_as_they_came_and_verified_as_they_count(
    tmp_path: Path,
) -> None:
    tables = {**TABLES, "live": LIVE, "min_pulls": 2, "range": [0, 1], "outside": "clip"}
    shop = Shop(tmp_path, read_trial(tables))
    asked = phase(1, 2, 2, 2)
    shop.pending(asked)
    for unit in shop.come(6):
        assert shop.live.record(unit, 55.0)
    assert shop.update(asked).means == (1.0, 1.0, 1.0)
    shop.live.close()
    assert {row[5] for row in ledger(shop)} == {55.0}
    entries = read_audit(audit_file(tmp_path, "shop"))
    assert [one.wrong for one in verified(entries, live_file(tmp_path, "shop"))] == [()]


def test_a_mean_that_does_not_follow_is_found_and_forgotten_units_are_said(
    shop: Shop, command: Command
) -> None:
    played(shop)
    audit, store = audit_file(shop.folder, "shop"), live_file(shop.folder, "shop")
    (entry,) = read_audit(audit)
    assert [one.wrong for one in verified([entry], store)] == [()]
    text = audit.read_text()
    wrong = round(entry.means[0] + 0.1, 6)
    audit.write_text(text.replace(f'"means": [{entry.means[0]}', f'"means": [{wrong}'))
    done = command("audit", audit)
    assert done.code == 1
    assert "was sent, and" in done.err
    audit.write_text(text)
    assert shop.live.forget(before=shop.time.now - 100) == 42
    done = command("audit", audit)
    assert done.code == 0
    assert "can no longer be verified: 42 of its units were forgotten" in done.out
