"""Outcomes of live traffic: in any order, from several processes, and through kills."""

from __future__ import annotations

import heapq
import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.federation import LiveTrial
from fedbandits.federation.live_store import LiveStore, order_of_units
from fedbandits.federation.state_files import live_file
from fedbandits.protocol import (
    Assignment,
    Refusal,
    Refused,
)
from shop import ARMS, PATIENT, TRIAL, Shop, Time, phase

# The order of outcomes ----------------------------------------------------------------------------

RATE, FAST, SLOW = 0.3, 5.0, 200.0
CLIENTS, EACH = 25, 40


def reported_means(make: Callable[[Path, str, Time], LiveStore], folder: Path) -> list[float]:
    """Return what clients report of outcomes that come fast if they are good and slowly if not.

    One unit comes a second, whether a phase counts it or not.
    """
    rng = np.random.default_rng(6)
    asked = phase(1, EACH, EACH, 0)
    means = []
    for number in range(CLIENTS):
        clock = Time()
        store = make(folder, f"c{number}", clock)
        store.take(asked)
        later: list[tuple[float, str, float]] = []
        while isinstance(store.take(asked), Refusal):
            clock.now += 1
            unit = f"u{clock.now}"
            store.assign(unit)
            value = float(rng.random() < RATE)
            heapq.heappush(later, (clock.now + (FAST if value else SLOW), unit, value))
            while later[0][0] <= clock.now:
                _, outcome_of, value = heapq.heappop(later)
                store.record(outcome_of, value)
        means += [float(np.mean(np.array(store.read(arm, EACH)))) for arm in (0, 1)]
        store.close()
    return means


class FirstOutcomes(LiveStore):
    """A mutant: counts the outcomes that come first."""

    came: dict[str, list[float]]

    def record(self, unit: str, value: float, guarded: Mapping[str, float] | None = None) -> bool:
        self.came[self.assign(unit)].append(value)
        return True

    def take(self, assignment: Assignment) -> Refusal | tuple[int, ...]:
        super().take(assignment)
        each = zip(ARMS, assignment.pulls, strict=True)
        ready = all(len(self.came[arm]) >= n for arm, n in each)
        return () if ready else assignment.refused(self.client, Refused.PENDING)

    def read(self, arm: int, n: int) -> list[float]:
        return self.came[ARMS[arm]][:n]


def faithful(folder: Path, name: str, clock: Time) -> LiveStore:
    return LiveStore(live_file(folder, name), name, PATIENT, clock=clock, durable=False)


def first_outcomes(folder: Path, name: str, clock: Time) -> LiveStore:
    mutant = FirstOutcomes(live_file(folder, name), name, PATIENT, clock=clock, durable=False)
    mutant.came = defaultdict(list)
    return mutant


def standard_errors_off(means: list[float]) -> float:
    error = np.sqrt(RATE * (1 - RATE) / (len(means) * EACH))
    return float(abs(np.mean(means) - RATE) / error)


def test_outcomes_that_come_late_because_they_are_bad_count_as_much(tmp_path: Path) -> None:
    assert standard_errors_off(reported_means(faithful, tmp_path)) < 4


def test_counting_what_comes_first_would_be_seen(tmp_path: Path) -> None:
    assert standard_errors_off(reported_means(first_outcomes, tmp_path)) > 20


# Several at once, and killed ----------------------------------------------------------------------

SERVICE = """
import json, random, sys, threading
from fedbandits.federation import LiveTrial
from fedbandits.federation.trial import read_trial

folder, seed, tables = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
got = {}
with LiveTrial(read_trial(tables), client="shop", state=folder) as live:
    def work(number):
        units = [f"u{n}" for n in range(90)]
        random.Random(seed + number).shuffle(units)
        for unit in units:
            arm = live.assign(unit)
            assert got.setdefault(unit, arm) == arm
            live.record(unit, int(unit[1:]) % 4 / 4)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print(json.dumps(got))
"""


def service(text: str, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", text, str(folder), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kept(folder: Path) -> list[tuple[str, str, float | None]]:
    """Return units, options and outcomes as they are in the file, in the order of assignment."""
    database = sqlite3.connect(live_file(folder, "shop"))
    rows = database.execute("SELECT unit, arm, value FROM units ORDER BY number").fetchall()
    database.close()
    return [(unit, ARMS[arm], value) for unit, arm, value in rows]


def test_threads_of_several_processes_share_a_phase(tmp_path: Path) -> None:
    shop = Shop(tmp_path, PATIENT)
    asked = phase(1, 20, 20, 20)
    shop.pending(asked)
    tables = json.dumps(dict(PATIENT.tables))
    services = [service(SERVICE, tmp_path, str(seed), tables) for seed in (10, 20)]
    said = [each.communicate(timeout=600) for each in services]
    assert [each.returncode for each in services] == [0, 0], said
    first, second = (json.loads(out) for out, _ in said)
    assert first == second
    rows = kept(tmp_path)
    assert {unit: arm for unit, arm, _ in rows} == first
    assert len(rows) == 90
    counted = rows[:60]
    assert all(
        sorted(arm for _, arm, _ in counted[i : i + 3]) == sorted(ARMS) for i in range(0, 60, 3)
    )
    assert [value for *_, value in counted] == [int(unit[1:]) % 4 / 4 for unit, *_ in counted]
    # What came of those who do not count is kept, too.
    assert [value for *_, value in rows[60:]] == [int(unit[1:]) % 4 / 4 for unit, *_ in rows[60:]]
    update = shop.update(asked)
    assert update.counts == (20, 20, 20)
    for arm, mean in zip(ARMS, update.means, strict=True):
        assert 20 * mean == sum(value or 0.0 for _, given, value in counted if given == arm)
    shop.live.close()


STREAM = """
import json, sys
from fedbandits.federation import LiveTrial
from fedbandits.federation.trial import read_trial

live = LiveTrial(read_trial(json.loads(sys.argv[2])), client="shop", state=sys.argv[1])
for number in range(10**6):
    print("assigned", f"k{number}", live.assign(f"k{number}"), flush=True)
    if number >= 3:
        live.record(f"k{number - 3}", number / 8)
        print("recorded", f"k{number - 3}", number / 8, flush=True)
"""


def test_what_has_returned_outlasts_a_kill(tmp_path: Path) -> None:
    shop = Shop(tmp_path, PATIENT)
    shop.pending(phase(1, 1000, 1000, 1000))
    process = service(STREAM, tmp_path, json.dumps(dict(PATIENT.tables)))
    assert process.stdout is not None
    seen = list(islice(process.stdout, 90))
    process.kill()
    rest, _ = process.communicate(timeout=600)
    # The last line may be torn.
    said = [line.split() for line in ("".join(seen) + rest).split("\n")[:-1]]
    arms = {unit: arm for what, unit, arm in said if what == "assigned"}
    values = {unit: float(value) for what, unit, value in said if what == "recorded"}
    assert len(arms) > 40
    rows = kept(tmp_path)
    assert {unit: arm for unit, arm, _ in rows[: len(arms)]} == arms
    stored = {unit: value for unit, _, value in rows}
    assert {unit: stored[unit] for unit in values} == values
    # What was under way is there or not, and nothing else is.
    assert len(rows) - len(arms) in {0, 1}
    # Who comes now takes the next places of the same order.
    shop.come(9)
    order = [arm for _, arm, _ in kept(tmp_path)]
    assert len(order) == len(rows) + 9
    planned = islice(order_of_units(0, "shop", 1, [1000] * 3), len(order))
    assert order == [ARMS[arm] for arm in planned]
    shop.live.close()


FORKED = """
import json, os, signal, sys, threading, time
from fedbandits.federation import LiveTrial
from fedbandits.federation.trial import read_trial

inside = threading.Event()

def clock():
    if threading.current_thread() is not threading.main_thread():
        inside.set()
        time.sleep(0.5)  # in the middle of writing
    return time.time()

trial = read_trial(json.loads(sys.argv[2]))
live = LiveTrial(trial, client="shop", state=sys.argv[1], clock=clock)
thread = threading.Thread(target=live.assign, args=("meanwhile",))
thread.start()
inside.wait()
reads, writes = os.pipe()
child = os.fork()
signal.alarm(40)  # neither waits for ever
for number in range(30):
    live.assign(f"{'parent' if child else 'child'} {number}")
if child:
    thread.join()
    live.close()
    os.write(writes, b"closed")
    assert os.waitpid(child, 0)[1] == 0
else:
    os.read(reads, 6)
    for number in range(30, 40):
        live.assign(f"child {number}")
    os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_service_that_forks_goes_on_in_both(tmp_path: Path) -> None:
    shop = Shop(tmp_path, PATIENT)
    shop.pending(phase(1, 20, 20, 20))
    shop.live.close()  # nobody else keeps what is in SQLite's other file
    process = service(FORKED, tmp_path, json.dumps(dict(PATIENT.tables)))
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    rows = kept(tmp_path)
    assert len(rows) == 1 + 30 + 40
    assert Counter(arm for _, arm, _ in rows[:60]) == dict.fromkeys(ARMS, 20)


def test_threads_that_ask_for_the_same_unit_get_the_same(shop: Shop) -> None:
    shop.pending(phase(1, 2, 2, 2))
    got: list[str] = []
    barrier = threading.Barrier(6)

    def ask() -> None:
        barrier.wait()
        got.append(shop.live.assign("one"))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 6
    assert len(set(got)) == 1
    assert shop.live.wanted() == 5


@pytest.mark.parametrize("content", [b"not a database at all, but long enough" * 20, None])
def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path, content: bytes | None) -> None:
    path = live_file(tmp_path, "shop")
    if content is None:
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE orders (number INTEGER)")
        database.close()
        content = path.read_bytes()
    else:
        path.write_bytes(content)
    with pytest.raises(fb.InputError, match=r"not a database|not a file of live traffic"):
        LiveTrial(TRIAL, client="shop", state=tmp_path)
    assert path.read_bytes() == content


def test_a_store_of_another_format_is_refused(shop: Shop) -> None:
    shop.live.close()
    with sqlite3.connect(live_file(shop.folder, "shop")) as database:
        database.execute("PRAGMA user_version = 9")
    database.close()
    with pytest.raises(fb.InputError, match="has format 9, and this version reads 3"):
        shop.live.assign("u1")
