"""Live traffic: which units count, what their outcomes are, and that nothing of it is lost."""

from __future__ import annotations

import heapq
import json
import os
import random
import sqlite3
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import fedbandits as fb
from fedbandits.cli.main import app
from fedbandits.construct import keys_of
from fedbandits.federation import LiveTrial
from fedbandits.federation.audit_file import read_audit
from fedbandits.federation.coordinator import Bulletin, Coordinator
from fedbandits.federation.host import ClientHost, ClientInfo
from fedbandits.federation.last_word import best_arm
from fedbandits.federation.live_store import Collected, LiveStore, order_of_units
from fedbandits.federation.local import (
    TrafficTransport,
    server_of,
    simulated_traffic,
    try_trial,
)
from fedbandits.federation.project import new_project
from fedbandits.federation.state_files import live_file
from fedbandits.federation.trial import Live, Trial, read_trial
from fedbandits.protocol import (
    Assignment,
    Conclusion,
    Decision,
    Reason,
    Refusal,
    Refused,
    Release,
    Update,
    arms_hash,
)
from fedbandits.protocol.messages import Header
from fedbandits.protocol.turns import permuted_blocks
from test_docs import rows, text_of
from test_trial import TABLES, coins

ARMS = ("red", "green", "blue")
LIVE: dict[str, Any] = {"maturity": 600, "missing": 0.0}
TRIAL = read_trial({**TABLES, "live": LIVE, "min_pulls": 2})
PATIENT = read_trial({**TABLES, "live": {}, "min_pulls": 2})


class Time:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def header(run: str = "run 1", epoch: int = 1) -> Header:
    return Header(run=run, epoch=epoch, arms=arms_hash(ARMS))


def decided(best: int, active: tuple[bool, ...], **changes: Any) -> Decision:
    said: dict[str, Any] = {
        "header": header(),
        "phase": 1,
        "active": active,
        "estimates": (0.0,) * len(active),
        "widths": (1.0,) * len(active),
        "best": best,
        "winner": None,
        "reason": Reason.OPEN,
    }
    return Decision(**{**said, **changes})


def phase(number: int, *pulls: int, **changes: Any) -> Assignment:
    return Assignment(**{"header": header(), "phase": number, "pulls": pulls, **changes})


class Shop:
    """One client: its service, and what answers the server, each with a view of its own."""

    def __init__(self, folder: Path, trial: Trial = TRIAL) -> None:
        self.time = Time()
        self.folder, self.trial = folder, trial
        self.live = LiveTrial(trial, client="shop", state=folder, clock=self.time, durable=False)
        self.units = count(1)

    def answer(self, assignment: Assignment) -> Update | Refusal:
        """Answer as a process that begins and ends with the message."""
        path = live_file(self.folder, "shop")
        store = LiveStore(path, "shop", self.trial, clock=self.time, durable=False)
        host = ClientHost(ClientInfo(name="shop"), None, self.trial, folder=self.folder, live=store)
        return host.answer(assignment)

    def pending(self, assignment: Assignment) -> str:
        answer = self.answer(assignment)
        assert isinstance(answer, Refusal)
        assert answer.why is Refused.PENDING
        return answer.detail

    def update(self, assignment: Assignment) -> Update:
        answer = self.answer(assignment)
        assert isinstance(answer, Update)
        return answer

    def come(self, n: int) -> dict[str, str]:
        """Let so many new units come; return their options."""
        return {unit: self.live.assign(unit) for unit in (f"u{next(self.units)}" for _ in range(n))}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path)
    with shop.live:
        yield shop


# Who counts ---------------------------------------------------------------------------------------


def test_a_phase_counts_as_many_units_as_it_asks_for_in_permuted_blocks(shop: Shop) -> None:
    assert shop.pending(phase(1, 40, 40, 40)) == "0 of 120 units have come"
    assert shop.live.wanted() == 120
    arms = shop.come(120)
    assert shop.live.wanted() == 0
    assert Counter(arms.values()) == dict.fromkeys(ARMS, 40)
    order = list(arms.values())
    blocks = [order[i : i + 3] for i in range(0, 120, 3)]
    assert all(sorted(block) == sorted(ARMS) for block in blocks)
    assert len({tuple(block) for block in blocks}) == 6
    # It is the order in which a client without traffic would have pulled.
    pulled = [ARMS[arm] for arm, n in permuted_blocks(0, "shop")(1, (40, 40, 40)) for _ in range(n)]
    assert order == pulled
    # Who comes again gets the same, and is not counted again.
    assert {unit: shop.live.assign(unit) for unit in arms} == arms
    assert shop.pending(phase(1, 40, 40, 40)).startswith("120 of 120 units have come")


def test_large_phases_are_mixed_unit_by_unit_also_if_options_differ_in_number() -> None:
    order = list(order_of_units(3, "shop", 1, [500, 0, 500]))
    assert all(sorted(order[i : i + 2]) == [0, 2] for i in range(0, 1000, 2))
    uneven = list(order_of_units(3, "shop", 1, [300, 100]))
    assert Counter(uneven) == {0: 300, 1: 100}
    assert all(uneven[i : i + 40].count(1) == 10 for i in range(0, 400, 40))


def test_who_comes_before_between_or_after_phases_does_not_count(shop: Shop) -> None:
    early = shop.come(6)
    assert Counter(early.values()) == dict.fromkeys(ARMS, 2)  # nothing is known: in turn
    assert not shop.live.record("u1", 1.0)
    shop.pending(phase(1, 2, 2, 2))
    counted = shop.come(6)
    beyond = shop.come(3)
    assert sorted(beyond.values()) == sorted(ARMS)
    assert [shop.live.record(unit, 0.5) for unit in beyond] == [False] * 3
    assert all(shop.live.record(unit, 1.0) for unit in counted)
    assert not shop.live.record("u1", 0.0)  # nor is the phase of who came before it
    update = shop.update(phase(1, 2, 2, 2))
    assert (update.counts, update.means) == ((2, 2, 2), (1.0, 1.0, 1.0))
    # The next phase brings a decision: who is beyond it gets what looked best.
    following = phase(2, 0, 2, 2, previous=decided(2, (False, True, True)))
    shop.pending(following)
    assert Counter(shop.come(4).values()) == {"green": 2, "blue": 2}
    assert set(shop.come(5).values()) == {"blue"}


def test_an_option_that_is_out_is_not_given_any_more(shop: Shop) -> None:
    shop.pending(phase(1, 2, 2, 2))
    arms = shop.come(6)
    # The best one was withdrawn since: it is not the best of what is left.
    shop.pending(phase(2, 2, 2, 0, previous=decided(2, (True, True, True))))
    now = {unit: shop.live.assign(unit) for unit in arms}
    assert {unit: arm for unit, arm in now.items() if arms[unit] != "blue"} == {
        unit: arm for unit, arm in arms.items() if arm != "blue"
    }
    assert "blue" not in now.values()
    assert now == {unit: shop.live.assign(unit) for unit in arms}
    assert shop.live.wanted() == 4  # they have had their turn


# What their outcomes are --------------------------------------------------------------------------


def test_a_phase_is_ready_when_every_unit_is_final(shop: Shop) -> None:
    asked = phase(1, 2, 2, 2)
    shop.pending(asked)
    arms = shop.come(6)
    red = [unit for unit, arm in arms.items() if arm == "red"]
    shop.time.now += 599
    assert shop.live.record(red[0], 1.0)
    assert "their outcomes are waited for" in shop.pending(asked)
    shop.time.now += 1
    # What comes later than the maturity does not count, also if nobody has asked meanwhile.
    assert not shop.live.record(red[1], 1.0)
    assert shop.update(asked).means == (0.5, 0.0, 0.0)
    assert not shop.live.record(red[1], 1.0)
    assert shop.live.record(red[0], 1.0)
    # It stays ready if the clock is put back, and the answer is the same in another epoch.
    shop.time.now -= 500
    again = shop.update(phase(1, 2, 2, 2, header=header(epoch=2)))
    assert (again.means, again.header.epoch) == ((0.5, 0.0, 0.0), 2)
    assert not shop.live.record(red[1], 1.0)


def test_without_a_maturity_every_outcome_is_waited_for(tmp_path: Path) -> None:
    shop = Shop(tmp_path, PATIENT)
    asked = phase(1, 2, 2, 2)
    shop.pending(asked)
    *most, last = shop.come(6)
    assert all(shop.live.record(unit, 1.0) for unit in most)
    shop.time.now += 1e9
    detail = shop.pending(asked)
    # How many outcomes are there may be what is to be protected.
    assert detail == "6 of 6 units have come; their outcomes are waited for"
    assert shop.live.record(last, 0.0)
    assert sum(shop.update(asked).means) == 2.5
    shop.live.close()


def test_noised_means_are_sent_at_a_time_that_says_nothing_of_outcomes(tmp_path: Path) -> None:
    privacy = {"noise": "laplace", "epsilon": 2.0, "range": [0, 1], "min_pulls": 2}
    trial = read_trial({**TABLES, "live": LIVE, "min_pulls": 2, "privacy": privacy})
    assert trial.privacy is not None
    shop = Shop(tmp_path, trial)
    release = Release(mechanism=trial.privacy.mechanism(2, 3))
    asked = phase(1, 2, 2, 2, release=release)
    shop.pending(asked)
    for unit in shop.come(6):
        assert shop.live.record(unit, 1.0)
    assert "waited for" in shop.pending(asked)
    shop.time.now += 600
    assert shop.update(asked).packed
    shop.live.close()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (float("nan"), "not a finite number"),
        (float("inf"), "not a finite number"),
        (1e200, "not a finite number"),
        ("1.0", "not a finite number"),
        (None, "not a finite number"),
        (10**400, "not a finite number"),
        (1.5, "outside the trial's range of 0 to 1; clip it"),
    ],
)
def test_a_value_that_cannot_be_is_refused(tmp_path: Path, value: Any, words: str) -> None:
    trial = read_trial({**TABLES, "live": LIVE, "range": [0, 1]})
    with LiveTrial(trial, client="shop", state=tmp_path) as live:
        live.assign("u1")
        with pytest.raises(fb.InputError, match=words) as caught:
            live.record("u1", value)
        assert caught.value.where == "value"


def test_a_unit_that_cannot_be_is_refused(shop: Shop) -> None:
    shop.pending(phase(1, 2, 2, 2))
    nameless: list[Any] = ["", 7, None, "\ud800"]
    for unit in nameless:
        with pytest.raises(fb.InputError, match="is not a name"):
            shop.live.assign(unit)
        with pytest.raises(fb.InputError, match="is not a name"):
            shop.live.record(unit, 1.0)
    with pytest.raises(fb.InputError, match="never assigned"):
        shop.live.record("stranger", 1.0)
    shop.live.assign("u1")
    assert shop.live.record("u1", True)
    assert shop.live.record("u1", np.float64(1.0))
    with pytest.raises(fb.InputError, match=r"0\.0 for unit 'u1', whose outcome is 1\.0"):
        shop.live.record("u1", 0.0)


# Phases and runs that follow each other -----------------------------------------------------------


def test_a_later_phase_replaces_one_that_was_never_reported(shop: Shop) -> None:
    shop.pending(phase(1, 2, 2, 2))
    arms = shop.come(4)
    assert shop.live.record("u1", 1.0)
    second = phase(2, 2, 2, 2)
    assert shop.pending(second) == "0 of 6 units have come"
    assert not shop.live.record("u2", 1.0)
    assert {unit: shop.live.assign(unit) for unit in arms} == arms
    assert shop.pending(second) == "0 of 6 units have come"
    # What is late of the phase before does not bring it back.
    assert shop.pending(phase(1, 2, 2, 2)) == "phase 1 is over here"
    for unit in shop.come(6):
        shop.live.record(unit, 0.25)
    assert shop.update(second).means == (0.25, 0.25, 0.25)
    with pytest.raises(fb.ProtocolError, match="before"):
        shop.answer(phase(2, 3, 3, 3))


def test_a_new_run_begins_with_new_units(shop: Shop) -> None:
    shop.pending(phase(1, 2, 2, 2))
    shop.come(6)
    for number in range(1, 7):
        shop.live.record(f"u{number}", 1.0)
    shop.update(phase(1, 2, 2, 2))
    new = header("run 2")
    assert shop.pending(phase(1, 2, 2, 2, header=new)) == "0 of 6 units have come"
    assert not shop.live.record("u1", 0.0)  # an outcome of the run before
    arms = {f"u{number}": shop.live.assign(f"u{number}") for number in range(1, 7)}
    assert Counter(arms.values()) == dict.fromkeys(ARMS, 2)
    assert all(shop.live.record(unit, 0.0) for unit in arms)
    assert shop.update(phase(1, 2, 2, 2, header=new)).means == (0.0, 0.0, 0.0)
    # The run before does not come back.
    assert '"run 2" was begun here since' in shop.pending(phase(2, 2, 2, 2))
    store = shop.live.store
    store.conclude("run 1", decided(0, (True, False, False), reason=Reason.ONE_ARM_LEFT))
    assert shop.live.best_arm() is None


def test_other_options_begin_anew_unless_a_run_goes_on(tmp_path: Path) -> None:
    other = read_trial({**TABLES, "live": LIVE, "arms": ["x", "y"]})
    shop = Shop(tmp_path)
    shop.come(2)
    shop.live.close()
    with LiveTrial(other, client="shop", state=tmp_path) as live:
        assert live.assign("u1") in {"x", "y"}
    with shop.live:
        shop.pending(phase(1, 2, 2, 2))
        shop.come(1)
    with (
        LiveStore(live_file(tmp_path, "shop"), "shop", other) as store,
        pytest.raises(fb.InputError, match="has red, green, blue; give the service the same"),
    ):
        store.assign("u1")


def concluded(winner: int) -> Conclusion:
    active = tuple(arm == winner for arm in range(3))
    last = decided(winner, active, winner=winner, reason=Reason.ONE_ARM_LEFT)
    return Conclusion(
        header=header(),
        arms=ARMS,
        decision=last,
        low=(0.0,) * 3,
        high=(1.0,) * 3,
        level=0.05,
        error=None,
        assumptions=(),
        words="",
    )


def test_after_the_end_everybody_gets_the_winner(shop: Shop) -> None:
    assert shop.live.best_arm() is None
    shop.pending(phase(1, 2, 2, 2))
    arms = shop.come(4)
    assert set(arms.values()) == set(ARMS)
    ClientHost(ClientInfo(name="shop"), None, TRIAL, folder=shop.folder).conclude(concluded(1))
    assert {shop.live.assign(unit) for unit in arms} == {"green"}
    assert set(shop.come(5).values()) == {"green"}
    assert not shop.live.record("u1", 1.0)
    assert shop.live.wanted() == 0
    assert shop.pending(phase(2, 2, 2, 2)) == "phase 2 is over here"
    shop.live.close()
    with LiveTrial(TRIAL, client="shop", state=shop.folder) as again:
        assert again.best_arm() == "green" == best_arm(shop.folder, "shop")


def test_what_is_forgotten_is_gone_but_not_the_phase_that_goes_on(shop: Shop) -> None:
    shop.pending(phase(1, 2, 2, 2))
    for unit in shop.come(6):
        shop.live.record(unit, 0.123456789)
    shop.update(phase(1, 2, 2, 2))
    shop.live.assign("somebody-else")
    assert shop.live.forget(before=shop.time.now + 1) == 1
    # Overwritten, and not only left out.
    shop.live.close()
    (file,) = shop.folder.glob("shop.live.sqlite")
    assert b"u6" in file.read_bytes()
    assert b"somebody-else" not in file.read_bytes()
    assert shop.update(phase(1, 2, 2, 2)).means[0] == pytest.approx(0.123456789)
    shop.pending(phase(2, 2, 2, 2))
    shop.time.now += 10
    shop.come(3)
    assert shop.live.forget(before=shop.time.now) == 6
    assert shop.live.wanted() == 3
    with pytest.raises(fb.InputError, match="is forgotten"):
        shop.live.record("u1", 1.0)


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
        while not store.take(asked).ready:
            clock.now += 1
            unit = f"u{clock.now}"
            store.assign(unit)
            value = float(rng.random() < RATE)
            heapq.heappush(later, (clock.now + (FAST if value else SLOW), unit, value))
            while later[0][0] <= clock.now:
                _, outcome_of, value = heapq.heappop(later)
                store.record(outcome_of, value)
        means += [float(np.mean(store.read(arm, EACH))) for arm in (0, 1)]
        store.close()
    return means


class FirstOutcomes(LiveStore):
    """A mutant: counts the outcomes that come first."""

    came: dict[str, list[float]]

    def record(self, unit: str, value: float) -> bool:
        self.came[self.assign(unit)].append(value)
        return True

    def take(self, assignment: Assignment) -> Collected:
        super().take(assignment)
        return Collected(
            ready=all(
                len(self.came[arm]) >= n for arm, n in zip(ARMS, assignment.pulls, strict=True)
            )
        )

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
    said = [each.communicate(timeout=120) for each in services]
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
    assert [value for *_, value in rows[60:]] == [None] * 30
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
    rest, _ = process.communicate(timeout=60)
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
    _, errors = process.communicate(timeout=60)
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
    with pytest.raises(fb.InputError, match=r"not a database|not one of live traffic"):
        LiveTrial(TRIAL, client="shop", state=tmp_path)
    assert path.read_bytes() == content


def test_a_store_of_another_format_is_refused(shop: Shop) -> None:
    shop.live.close()
    with sqlite3.connect(live_file(shop.folder, "shop")) as database:
        database.execute("PRAGMA user_version = 9")
    database.close()
    with pytest.raises(fb.InputError, match="has format 9, and this version reads 1"):
        shop.live.assign("u1")


# The file and the whole loop ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "where", "words"),
    [
        ({"live": {"maturity": 60}}, "live.missing", "both or neither"),
        ({"live": {"missing": 0.0}}, "live.maturity", "both or neither"),
        ({"live": {"maturity": 0, "missing": 0}}, "live.maturity", "too late"),
        ({"live": {"maturity": -5, "missing": 0}}, "live.maturity", "not a number from 0"),
        ({"live": {"maturity": 60, "missing": float("nan")}}, "live.missing", "finite"),
        ({"live": {"maturity": 60, "mising": 0}}, "live.mising", "did you mean"),
        ({"live": {"maturity": 86400, "missing": 0}}, "live.maturity", "patience.deadline is 3600"),
        ({"live": LIVE, "range": [1, 2]}, "live.missing", "outside the range 1 to 2"),
        ({"live": LIVE, "interleave": False}, "interleave", "time of day"),
        ({"live": {}, "patience": {"resend": 3600}}, "patience.resend", "ask more often"),
    ],
)
def test_live_traffic_that_cannot_be_is_said_with_its_key(
    change: dict[str, Any], where: str, words: str
) -> None:
    with pytest.raises(fb.InputError) as caught:
        read_trial({**TABLES, **change})
    assert caught.value.where == where
    assert words in caught.value.problem


def test_the_page_has_every_key() -> None:
    assert set(rows(text_of("live.md"))) == set(keys_of(Live))


def test_a_trial_without_live_traffic_has_no_service(tmp_path: Path) -> None:
    plain = read_trial(TABLES)
    with pytest.raises(fb.InputError, match=r"write live = \{\}"):
        LiveTrial(plain, client="shop", state=tmp_path / "state")
    assert not (tmp_path / "state").exists()
    host = ClientHost(ClientInfo(name="a"), None, plain)
    with pytest.raises(fb.InputError, match="pull: is missing"):
        host.answer(server_of(plain).open(["a"]))
    with pytest.raises(fb.InputError, match="folder: client a has none"):
        ClientHost(ClientInfo(name="a"), None, TRIAL)


@pytest.mark.parametrize("live", [{}, LIVE])
def test_live_traffic_decides_the_same_as_pulls_with_the_same_outcomes(live: Any) -> None:
    server = try_trial(read_trial({**TABLES, "live": live}), coins(2), 30)
    assert server.decision is not None
    assert server.decision.winner is not None
    assert server.arms[server.decision.winner] == "blue"
    assert server.snapshot() == try_trial(read_trial(TABLES), coins(2), 30).snapshot()


def gaussians() -> Any:
    """Return a pull with outcomes whose sums depend on the order of adding them up."""
    streams: dict[tuple[str, str], random.Random] = {}

    def pull(arm: str, n: int, client: ClientInfo) -> list[float]:
        stream = streams.setdefault((client.name, arm), random.Random(f"{client.name} {arm}"))
        return [stream.gauss(ARMS.index(arm) / 4, 0.5) for _ in range(n)]

    return pull


def test_they_are_the_same_to_the_last_bit() -> None:
    tables = {**TABLES, "pulls": "150"}
    live = try_trial(read_trial({**tables, "live": {}}), gaussians(), 12)
    assert live.snapshot() == try_trial(read_trial(tables), gaussians(), 12).snapshot()


def test_who_has_no_traffic_is_left_out_at_the_deadline(tmp_path: Path) -> None:
    trial = read_trial({**TABLES, "live": LIVE, "admissions": "8", "quorum": {"fraction": 0.75}})
    transport = TrafficTransport(600.0)
    pull = coins(3)
    news: list[str] = []

    def watch(bulletin: Bulletin) -> None:
        news.append(bulletin.news)

    for number in range(8):
        info = ClientInfo(name=f"client-{number}", number=number)
        live = LiveTrial(
            trial, client=info.name, state=tmp_path, clock=transport.clock, durable=False
        )
        host = ClientHost(info, None, trial, folder=tmp_path, live=live.store)
        quiet = number == 3
        transport.join(host, (lambda: None) if quiet else simulated_traffic(live, pull, info))
    server = server_of(trial)
    coordinator = Coordinator(
        server, transport, clock=transport.clock, patience=trial.patience, watch=watch
    )
    decision = coordinator.run()
    assert decision is not None
    assert server.arms[decision.best] == "blue"
    assert transport.now >= 3600
    assert not any("abandoned" in each for each in news)
    sent = {path.stem: len(read_audit(path)) for path in tmp_path.glob("client-*.jsonl")}
    assert sent == {f"client-{number}": decision.phase for number in range(8) if number != 3}
    assert best_arm(tmp_path, "client-0") == "blue"


def test_a_project_with_live_traffic_is_tried_with_pull_in_its_place(tmp_path: Path) -> None:
    folder = tmp_path / "my_test"
    new_project(folder)
    file = folder / "fedbandits.toml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text + "\nlive = { maturity = 600, missing = 0.0 }\n", encoding="utf-8")
    done = CliRunner().invoke(app, ["try", str(folder), "--clients", "12", "--quiet"])
    assert done.exit_code == 0, done.output
    assert "The answer is" in done.output or "best so far" in done.output
    # A service finds its trial by the folder.
    with LiveTrial(folder, client="shop", state=folder / "state") as live:
        assert live.assign("visitor") in {"red", "green", "blue"}
    client = folder / "client.py"
    client.write_text("def pull(arm, n, client): return [0.5] * (n + 1)", encoding="utf-8")
    done = CliRunner().invoke(app, ["try", str(folder)])
    assert isinstance(done.exception, fb.InputError)
    assert "returned [0.5, 0.5]; return a list with 1 number" in str(done.exception)
    client.unlink()
    done = CliRunner().invoke(app, ["try", str(folder)])
    assert isinstance(done.exception, fb.InputError)
    assert "write a function pull" in str(done.exception)
