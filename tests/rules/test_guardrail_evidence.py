"""Options that keep a limit are seldom taken for harmful, whatever chance and clients do."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandits.errors import InputError
from fedbandits.rules.arrays import BoolArray, FloatArray
from fedbandits.rules.guardrails import (
    Guardrail,
    log_evidence,
    looks_at_first,
    lowest_mean,
    settled,
)
from kept_promises import is_kept

TRIALS, ARMS, PHASES, EACH, LIMIT = 2500, 3, 40, 20, 0.1

Test = Callable[[Guardrail, FloatArray, FloatArray], BoolArray]
"""From a guardrail, sums and counts to the options that seem to harm."""

Values = Callable[[np.random.Generator, FloatArray], tuple[FloatArray, FloatArray]]
"""From what is known (sums over counts so far) to fresh sums and counts of one phase."""


def coins(rng: np.random.Generator, _: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return units that are all alike, exactly at the limit."""
    return rng.binomial(EACH, LIMIT, (TRIALS, ARMS)).astype(float), np.full((TRIALS, ARMS), EACH)


def clients(rng: np.random.Generator, _: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return units of clients that differ: one where all are harmed, nine where nobody is."""
    rates = np.array([0.9, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    sums = rng.binomial(EACH // 10, rates, (TRIALS, ARMS, 10)).sum(axis=-1)
    return sums.astype(float), np.full((TRIALS, ARMS), EACH)


def shares(rng: np.random.Generator, _: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return values between the ends of the range, which are a function of the outcome."""
    outcomes = rng.random((TRIALS, ARMS, EACH))
    return np.maximum(0.0, outcomes - 1.0 + math.sqrt(2 * LIMIT)).sum(axis=-1), np.full(
        (TRIALS, ARMS), EACH
    )


def adaptive(rng: np.random.Generator, seen: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return more units of options that look harmful, as a rule may that plays what looks best."""
    counts = np.where(seen > LIMIT, 5 * EACH, 1)
    return rng.binomial(counts, LIMIT).astype(float), counts


def alarms(values: Values, test: Test, level: float, phases: int = PHASES) -> int:
    """Return in how many trials any option seems to harm after any phase."""
    rng, rail = np.random.default_rng(1), Guardrail(name="adverse", limit=LIMIT, level=level)
    sums, counts = np.zeros((TRIALS, ARMS)), np.zeros((TRIALS, ARMS))
    found = np.zeros(TRIALS, dtype=np.bool_)
    for _ in range(phases):
        fresh, more = values(rng, sums / np.maximum(counts, 1))
        sums, counts = sums + fresh, counts + more
        found |= test(rail, sums, counts).any(axis=-1)
    return int(found.sum())


def faithful(rail: Guardrail, sums: FloatArray, counts: FloatArray) -> BoolArray:
    return rail.beyond(sums, counts)


def at_every_phase(rail: Guardrail, sums: FloatArray, counts: FloatArray) -> BoolArray:
    """A mutant: a test for one look, at every phase, at the same level."""
    from scipy import stats

    assert rail.level is not None
    return np.asarray(stats.binom.sf(np.ceil(sums) - 1, counts, rail.limit) <= rail.level / ARMS)


def without_mixture(rail: Guardrail, sums: FloatArray, counts: FloatArray) -> BoolArray:
    """A mutant: the likelihood ratio of the most likely mean in place of the average over all."""
    assert rail.level is not None
    mean = np.clip(sums / counts, rail.limit, 1 - 1e-12)
    ratio = sums * np.log(mean / rail.limit)
    ratio += (counts - sums) * np.log((1 - mean) / (1 - rail.limit))
    return np.asarray(ratio >= math.log(ARMS / rail.level))


@pytest.mark.parametrize("level", [0.01, 0.2])
@pytest.mark.parametrize("values", [coins, clients, shares, adaptive])
def test_options_at_the_limit_are_no_alarm(values: Values, level: float) -> None:
    assert is_kept(alarms(values, faithful, level), TRIALS, level)


@pytest.mark.parametrize("mutant", [at_every_phase, without_mixture])
def test_a_test_for_one_look_and_one_without_the_mixture_are_rejected(mutant: Test) -> None:
    assert not is_kept(alarms(coins, mutant, 0.2, phases=400), TRIALS, 0.2)


def test_a_harm_of_the_stated_size_is_found() -> None:
    """The power that docs/health.md states: 15 % where 5 % are allowed, 300 units."""
    rng, rail = np.random.default_rng(2), settled([Guardrail(name="adverse", limit=0.05)])[0]
    rates = np.array([0.05, 0.15, 0.02])
    sums = rng.binomial(300, rates, (TRIALS, 3)).astype(float)
    found = rail.beyond(sums, np.full((TRIALS, 3), 300.0))
    assert found[:, 1].mean() > 0.95
    assert found[:, [0, 2]].mean() < 0.01
    # Smaller harms take more units: 8 % are found with 3,000.
    fewer = rng.binomial(3000, 0.08, (TRIALS, 3)).astype(float)
    more = rail.beyond(fewer, np.full((TRIALS, 3), 3000.0))
    assert more.mean() > 0.95
    assert not rail.beyond(np.full(3, 20.0), np.full(3, 250.0)).any()


def test_intervals_hold_at_all_times() -> None:
    trials = 600
    rail, rng = Guardrail(name="hours", limit=3, range=(0, 24), level=0.1), np.random.default_rng(3)
    sums, counts, missed = np.zeros((trials, ARMS)), np.zeros((trials, ARMS)), np.zeros(trials, int)
    for _ in range(3):
        sums += 24 * rng.binomial(EACH, 0.3, (trials, ARMS))
        counts += EACH
        low, high = rail.intervals(sums, counts)
        missed |= ((low > 7.2) | (high < 7.2)).any(axis=-1)
    assert is_kept(int(missed.sum()), trials, 0.2)
    assert missed.any()
    # The interval of an option is beyond the limit exactly if the option is.
    assert np.array_equal(low > 3, rail.beyond(sums, counts))


@given(
    st.integers(1, 10**7),
    st.floats(0, 1),
    st.floats(1e-9, 1 - 1e-9),
    st.sampled_from(["min", "max"]),
)
def test_the_ends_of_intervals_are_where_the_test_says(
    n: int, share: float, limit: float, goal: str
) -> None:
    counts, sums = np.array([float(n), 0.0]), np.array([share * n, 0.0])
    rail = Guardrail(name="adverse", goal=goal, limit=limit)  # type: ignore[arg-type]
    low, high = rail.intervals(sums, counts)
    assert 0 <= low[0] <= share + 1e-9
    assert share - 1e-9 <= high[0] <= 1
    assert (low[1], high[1]) == (0.0, 1.0)
    beyond = rail.beyond(sums, counts)
    assert not beyond[1]
    end = low[0] if goal == "min" else high[0]
    if abs(end - limit) > 1e-9:
        assert beyond[0] == (end > limit if goal == "min" else end < limit)


@pytest.mark.parametrize("limit", [1e-12, 1e-3, 0.5, 1 - 1e-3])
@pytest.mark.parametrize("n", [1, 100, 10**7])
def test_extreme_numbers_give_a_verdict(n: int, limit: float) -> None:
    ends = log_evidence(np.array([0.0, n * limit, n]), np.full(3, float(n)), limit)
    assert not np.isnan(ends).any()
    assert ends[0] < 1
    assert ends[1] < 1
    # All units are harmed: ((1/l)^(n+1) - 1) / ((1/l) - 1) / (n+1).
    exact = math.log((1 - limit ** (n + 1)) / (1 - limit) / (n + 1)) - n * math.log(limit)
    assert ends[2] == pytest.approx(exact, rel=1e-9, abs=1e-9)


def test_evidence_is_the_average_over_all_larger_means() -> None:
    p = np.linspace(0.05, 1, 1_000_001)[1:-1]
    for total, n in ((23.0, 180.0), (3.7, 20.0), (0.0, 5.0)):
        ratio = (p / 0.05) ** total * ((1 - p) / 0.95) ** (n - total)
        found = log_evidence(np.array(total), np.array(n), 0.05)
        assert found == pytest.approx(math.log(ratio.mean()), abs=1e-4)


def test_the_evidence_falls_as_the_limit_rises() -> None:
    """Up to S/(n+1): halving finds the only place where it is no longer enough."""
    for total, n in ((5.0, 9.0), (30.0, 400.0), (0.5, 1.0)):
        limits = np.linspace(1e-4, total / (n + 1), 500)
        evidence = log_evidence(np.full(500, total), np.full(500, n), limits)
        assert (np.diff(evidence) < 0).all()
        assert evidence[-1] < 1
    assert lowest_mean(np.array([0.0]), np.array([10.0]), 3.0) == 0.0


def test_the_phases_weigh_no_more_than_the_first_looks_allow() -> None:
    """All sets of phases together: the product over phases, times the options."""
    for arms in range(2, 30):
        together = math.prod(1 + 1 / (w + 1) ** 2 for w in range(1, 10_000))
        assert arms * together <= looks_at_first(arms) ** 2


@pytest.mark.parametrize(
    ("keys", "where"),
    [
        ({"name": "no word"}, "name"),
        ({"name": "lambda"}, "name"),
        ({"name": "outcome"}, "name"),
        ({"name": "unit"}, "name"),
        ({"limit": 0.0}, "limit"),
        ({"limit": 1.0}, "limit"),
        ({"limit": float("nan")}, "limit"),
        ({"range": (1.0, 0.0)}, "range"),
        ({"range": (0.0, math.inf)}, "range"),
        ({"level": 0.0}, "level"),
        ({"level": 0.6}, "level"),
        ({"goal": "less"}, "goal"),
        ({"missing": 2.0}, "missing"),
    ],
)
def test_what_cannot_be_watched_is_refused(keys: dict[str, object], where: str) -> None:
    with pytest.raises(InputError) as refused:
        Guardrail(**{"name": "adverse", "limit": 0.05, **keys})  # type: ignore[arg-type]
    assert refused.value.where.startswith(where)


def test_guardrails_share_a_level_and_have_names_of_their_own() -> None:
    one, other = Guardrail(name="a", limit=0.5), Guardrail(name="b", limit=0.5, level=0.2)
    assert [rail.level for rail in settled([one, other])] == [0.005, 0.2]
    with pytest.raises(InputError, match=r"guardrails\[1\].name.*twice"):
        settled([one, one])
