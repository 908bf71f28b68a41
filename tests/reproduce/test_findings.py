"""Tests of claims have the levels that they state."""

from __future__ import annotations

import re

import numpy as np
import pytest

from fedbandits.reproduce.findings import (
    FEWEST_GAMES,
    Finding,
    about_equal,
    less,
    less_in_the_middle,
    steeper,
    verdicts,
)

# Finding

TRIES = 4_000
FEW = FEWEST_GAMES


def rejections(found: list[Finding], which: str) -> float:
    """Return in which share of tries something is shown at level 0.01."""
    return float(np.mean([getattr(finding, which) < 0.01 for finding in found]))


SLACK = 5 * (0.01 * 0.99 / TRIES) ** 0.5


@pytest.mark.parametrize("n", [10, FEW, 200])
@pytest.mark.parametrize("shared", [0.0, 3.0])
def test_less_has_the_level_it_states(n: int, shared: float) -> None:
    """Where nothing differs, it and its reverse are each shown in a share of 1 %."""
    rng = np.random.default_rng(8)
    found = []
    for _ in range(TRIES):
        both = rng.normal(5, shared, n)
        found.append(less(both + rng.normal(0, 1, n), both + rng.normal(0, 2, n), ("a", "b")))
    for which in ("for_it", "against_it"):
        assert abs(rejections(found, which) - 0.01) < SLACK


def test_a_factor_is_tested_at_its_edge() -> None:
    rng = np.random.default_rng(9)
    found = [
        less(rng.normal(50, 9, FEW), rng.normal(100, 9, FEW), ("a", "b"), factor=2.0)
        for _ in range(TRIES)
    ]
    for which in ("for_it", "against_it"):
        assert abs(rejections(found, which) - 0.01) < SLACK
    assert less(rng.normal(50, 9, FEW), rng.normal(120, 9, FEW), ("a", "b"), factor=2).for_it < 1e-6


def test_skewed_quantities_keep_the_level_about() -> None:
    """As regrets with a few lost games are; a t test of these is not exact."""
    rng = np.random.default_rng(10)
    found = [
        less(rng.exponential(5, FEW), rng.exponential(5, FEW), ("a", "b")) for _ in range(TRIES)
    ]
    for which in ("for_it", "against_it"):
        assert rejections(found, which) < 0.01 + SLACK


@pytest.mark.parametrize("n", [FEW, 200])
def test_about_equal_is_shown_and_refuted_at_the_level_it_states(n: int) -> None:
    rng = np.random.default_rng(11)

    def found(mean: float, tries: int = 100) -> list[Finding]:
        return [
            about_equal(rng.normal(mean, 10, n), rng.normal(100, 10, n), ("a", "b"))
            for _ in range(tries)
        ]

    # At the edge of equivalence neither is shown more often than the level.
    for edge in (90.0, 110.0):
        at_edge = found(edge, TRIES)
        assert rejections(at_edge, "for_it") < 0.01 + SLACK
        assert rejections(at_edge, "against_it") < 0.01 + SLACK
    assert rejections(found(100.0), "for_it") > 0.95
    for far in (80.0, 120.0):
        assert rejections(found(far), "against_it") > 0.95
        assert rejections(found(far), "for_it") == 0


def test_intervals_of_ratios_hold_the_truth_in_95_of_100() -> None:
    rng = np.random.default_rng(12)
    within = 0
    for _ in range(TRIES):
        shared = rng.normal(0, 10, FEW)
        a, b = 104 + shared + rng.normal(0, 5, FEW), 100 + shared + rng.normal(0, 5, FEW)
        *_, ratio = about_equal(a, b, ("a", "b")).numbers
        within += ratio["low"] <= 1.04 <= ratio["high"]
    assert abs(within / TRIES - 0.95) < 5 * (0.05 * 0.95 / TRIES) ** 0.5


def test_steeper_has_the_level_it_states_and_intervals_that_hold() -> None:
    rng = np.random.default_rng(13)
    found, within = [], 0
    for _ in range(TRIES):
        shared = rng.normal(0, 0.05, FEW)
        low_a, high_a, low_b, high_b = (
            mean * (1 + shared + rng.normal(0, 0.1, FEW)) for mean in (10, 30, 200, 600)
        )
        found.append(steeper((low_a, high_a), (low_b, high_b), ("a", "b")))
        *_, ratio = found[-1].numbers
        within += ratio["low"] <= 1 <= ratio["high"]
    for which in ("for_it", "against_it"):
        assert abs(rejections(found, which) - 0.01) < SLACK
    assert abs(within / TRIES - 0.95) < 5 * (0.05 * 0.95 / TRIES) ** 0.5
    start, end = rng.normal(10, 1, FEW), rng.normal(40, 4, FEW)
    seen = steeper((start, end), (start, end / 2), ("a", "b"))
    assert seen.for_it < 1e-6
    assert seen.against_it > 1 - 1e-6
    assert steeper((start, end / 2), (start, end), ("a", "b")).against_it < 1e-6
    assert [number["growth"] for number in seen.numbers] == [
        pytest.approx(4, rel=0.1),
        pytest.approx(2, rel=0.1),
        pytest.approx(2),
    ]


def test_medians_have_the_level_they_state() -> None:
    rng = np.random.default_rng(14)
    found = []
    for _ in range(TRIES):
        both = rng.normal(5, 1, FEW)
        found.append(
            less_in_the_middle(
                both + rng.normal(0, 1, FEW), both + rng.normal(0, 1, FEW), ("a", "b")
            )
        )
    # The width between order statistics is an estimate itself.
    for which in ("for_it", "against_it"):
        assert rejections(found, which) < 0.02


def test_runs_of_other_lengths_are_compared_on_the_games_of_both() -> None:
    long, short = np.arange(1000.0), np.arange(200.0)[::-1] + 500
    found = less(long, short, ("a", "b"))
    assert found.games == 200
    assert found.numbers[0]["mean"] == 99.5
    assert found.for_it == less(long[:200], short, ("a", "b")).for_it


def test_equal_numbers_are_no_evidence_and_no_error() -> None:
    same = np.full(FEW, 925.3)
    assert less(same, same, ("a", "b")).for_it == 0.5
    assert less(same, same + 1, ("a", "b")).for_it == 0
    assert less(same, same + 1, ("a", "b")).against_it == 1
    assert less(same, same + 1, ("a", "b")).measured == "a: 925.3 ± 0, b: 926.3 ± 0"
    assert about_equal(same, same, ("a", "b")).for_it == 0


def test_digits_follow_the_interval() -> None:
    rng = np.random.default_rng(15)
    close = less(rng.normal(925, 1, FEW), rng.normal(2000, 300, FEW), ("a", "b")).measured
    assert re.fullmatch(r"a: 92\d\.\d\d ± 0\.\d\d, b: [12],\d{3} ± \d\d", close), close


def test_a_wrong_verdict_anywhere_has_the_stated_probability() -> None:
    """Twenty sentences at the edge: whichever verdict one of them gets is wrong half of the time.

    Both sides together are one family, so that it is 1 % and not 2 %.
    """
    rng = np.random.default_rng(16)
    wrong = 0
    for _ in range(TRIES):
        found = [
            Finding(measured="", for_it=p, against_it=1 - p, games=FEW)
            for p in rng.uniform(size=20).tolist()
        ]
        wrong += any(verdict != "undecided" for verdict in verdicts(found, 0.01))
    assert abs(wrong / TRIES - 0.01) < SLACK
