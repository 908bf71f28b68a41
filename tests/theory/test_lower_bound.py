"""The lower bound: every step of its proof in numbers, its special cases, and what it refuses."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import trapezoid
from scipy.optimize import minimize, minimize_scalar
from scipy.stats import norm

from fedbandits.errors import InputError
from fedbandits.rules.arrays import FloatArray
from fedbandits.theory.lower_bound import lower_bound
from fedbandits.theory.orders import lai_robbins_slope

FIGURE_4 = np.array([9, 8, 7, 6, 5, 4, 3, 2.5, 2]) / 100
positive = st.floats(1e-3, 1e3)


def told(n: float, noise: float, spread: float) -> float:
    """Return g(n) of the proof."""
    return n / (2 * (noise**2 + n * spread**2))


def price(m: float, gaps: FloatArray, noise: float, spread: float, cost: float) -> float:
    """Return what m clients for each unit of log T pay; infinite for too few."""
    room = m * gaps**2 / 2 - 2 * spread**2
    if (room <= 0).any():
        return math.inf
    return float(m * (cost + (noise**2 / room * gaps).sum()))


# 1. What n pulls tell.


def test_what_one_more_pull_tells_is_the_divergence_of_its_conditional_law() -> None:
    """By quadrature, at several pasts: it does not depend on what was observed."""
    noise, spread, shift = 0.7, 0.4, 0.3
    for i in (1, 2, 5):
        before, after = noise**2 + (i - 1) * spread**2, noise**2 + i * spread**2
        scale = math.sqrt(noise**2 * after / before)
        for mean_of_past in (-1.0, 0.0, 2.0):
            pull = (i - 1) * spread**2 / before
            first, other = pull * mean_of_past, shift + pull * (mean_of_past - shift)
            x = np.linspace(-12.0, 12.0, 200_001)
            log_ratio = norm.logpdf(x, first, scale) - norm.logpdf(x, other, scale)
            found = trapezoid(norm.pdf(x, first, scale) * log_ratio, x)
            grown = told(i, noise, spread) - told(i - 1, noise, spread)
            assert found == pytest.approx(shift**2 * grown, rel=1e-6)


@pytest.mark.parametrize("n", [1, 3, 20])
def test_what_n_pulls_tell_is_the_divergence_of_the_normal_vector(n: int) -> None:
    noise, spread = 0.7, 0.4
    covariance = noise**2 * np.eye(n) + spread**2 * np.ones((n, n))
    exact = 0.5 * np.linalg.solve(covariance, np.ones(n)).sum()
    assert told(n, noise, spread) == pytest.approx(exact)
    # A client offset that arms share would be another matrix, and another number.
    assert told(n, noise, 2 * spread) != pytest.approx(exact)


def test_rules_that_look_are_told_no_more_than_the_chain_rule_says() -> None:
    """A client stops when it looks good; the mean log-likelihood ratio is that of its counts."""
    rng = np.random.default_rng(3)
    noise, spread, shift, games, longest = 0.5, 0.3, 0.4, 40_000, 12
    local = spread * rng.standard_normal(games)
    ratio, tells, on, total = (
        np.zeros(games),
        np.zeros(games),
        np.ones(games, bool),
        np.zeros(games),
    )
    for i in range(1, longest + 1):
        pulled = local + noise * rng.standard_normal(games)
        before, after = noise**2 + (i - 1) * spread**2, noise**2 + i * spread**2
        scale = math.sqrt(noise**2 * after / before)
        expected = spread**2 / before * total
        moved = expected + shift * noise**2 / before
        step = norm.logpdf(pulled, expected, scale) - norm.logpdf(pulled, moved, scale)
        ratio += np.where(on, step, 0.0)
        tells += np.where(on, told(i, noise, spread) - told(i - 1, noise, spread), 0.0)
        total += np.where(on, pulled, 0.0)
        on &= total < 0.3 * i
    surplus = ratio - shift**2 * tells
    error = surplus.std() / math.sqrt(games)
    assert abs(surplus.mean()) < 4 * error
    # A divergence that is off by a tenth would be found.
    assert abs((ratio - 1.1 * shift**2 * tells).mean()) > 4 * error


# 2. The least favourable game.


@given(p=st.floats(0.0, 1.0), q=st.floats(0.0, 1.0))
def test_bretagnolle_and_huber_on_coins(p: float, q: float) -> None:
    """Whatever the event, two games that differ by KL confuse it with half of exp(-KL) at least."""
    apart = sum(
        x * math.log(x / y) if y > 0 else math.inf for x, y in ((p, q), (1 - p, 1 - q)) if x > 0
    )
    assert p + (1 - q) >= 0.5 * math.exp(-apart) - 1e-12


# 3 and 4. Averages over clients, and the split.


@given(counts=st.lists(st.floats(0, 1e4), min_size=1, max_size=8), noise=positive, spread=positive)
def test_clients_who_pull_alike_tell_the_most(
    counts: list[float], noise: float, spread: float
) -> None:
    alike = len(counts) * told(float(np.mean(counts)), noise, spread)
    each = sum(told(n, noise, spread) for n in counts)
    assert each <= alike * (1 + 1e-9)
    assert each <= len(counts) / (2 * spread**2)


def test_games_of_different_size_tell_no_more_than_their_average() -> None:
    rng = np.random.default_rng(4)
    clients, pulls = rng.integers(1, 50, size=(2, 1000)).astype(np.float64)
    told_apart = np.mean([m * told(n / m, 0.5, 0.1) for m, n in zip(clients, pulls, strict=True)])
    together = clients.mean() * told(pulls.mean() / clients.mean(), 0.5, 0.1)
    assert told_apart < together


@given(a_part=positive, b_part=positive, gap=positive)
def test_the_least_favourable_split(a_part: float, b_part: float, gap: float) -> None:
    def informs(a: float) -> float:
        return a**2 / a_part + (gap - a) ** 2 / b_part

    found = minimize_scalar(informs, bounds=(0, gap), method="bounded", options={"xatol": 1e-12})
    assert found.fun == pytest.approx(gap**2 / (a_part + b_part), rel=1e-6)


# 5. The price.


@settings(deadline=None)
@given(
    gaps=st.lists(st.floats(0.01, 2.0), min_size=1, max_size=6),
    noise=st.floats(0.05, 3.0),
    spread=st.floats(0.01, 3.0),
    cost=st.floats(0.01, 3000.0),
)
def test_no_number_of_clients_is_cheaper(
    gaps: list[float], noise: float, spread: float, cost: float
) -> None:
    given_gaps = np.asarray(gaps)
    bound = lower_bound(given_gaps, noise=noise, spread=spread, cost=cost)
    least = 4 * spread**2 / given_gaps.min() ** 2
    assert bound.clients > least
    around = least + (bound.clients - least) * np.geomspace(1e-3, 1e3, 2001)
    tried = [price(float(m), given_gaps, noise, spread, cost) for m in around]
    assert bound.slope <= min(tried) * (1 + 1e-9)
    assert bound.slope == pytest.approx(min(tried), rel=1e-4)
    # Convex: it falls, then it rises.
    rises = [b > a for a, b in pairwise(tried)]
    assert rises == sorted(rises)


def test_clients_who_differ_in_their_pulls_do_not_beat_it() -> None:
    """Brute force over allocations: groups of clients of any size with pulls of their own."""
    gaps, noise, spread, cost = np.array([0.3, 0.5]), 0.6, 0.1, 2.0
    bound = lower_bound(gaps, noise=noise, spread=spread, cost=cost)
    rng = np.random.default_rng(5)

    def total(logs: FloatArray) -> float:
        sizes, pulls = np.exp(logs[:3]), np.exp(logs[3:]).reshape(3, 2)
        lacking = 0.0
        for arm, gap in enumerate(gaps):
            informs = (sizes * pulls[:, arm] / (noise**2 + pulls[:, arm] * spread**2)).sum()
            known = 0.5 * gap**2 / (1 / informs + spread**2 / sizes.sum())
            lacking += max(0.0, 1.0 - known)
        return float((sizes * (cost + pulls @ gaps)).sum() + 1e4 * lacking)

    found = min(
        minimize(total, rng.normal(size=9), method="Nelder-Mead", options={"maxiter": 8000}).fun
        for _ in range(4)
    )
    assert bound.slope * (1 - 1e-6) <= found <= bound.slope * 1.05


@given(gap=st.floats(0.01, 2), noise=st.floats(0.01, 3), spread=st.floats(0.01, 3), cost=positive)
def test_two_arms_in_closed_form(gap: float, noise: float, spread: float, cost: float) -> None:
    bound = lower_bound(np.array([gap]), noise=noise, spread=spread, cost=cost)
    closed = 2 * (noise * math.sqrt(gap) + spread * math.sqrt(2 * cost)) ** 2 / gap**2
    assert bound.slope == pytest.approx(closed, rel=1e-9)


@pytest.mark.parametrize(("spread", "cost"), [(0.02, 0.0), (0.0, 100.0), (0.0, 0.0)])
def test_without_cost_or_without_spread_it_is_lai_and_robbins(spread: float, cost: float) -> None:
    bound = lower_bound(FIGURE_4, noise=0.5, spread=spread, cost=cost)
    means = 0.79 - np.append(FIGURE_4, 0.0)
    assert bound.slope == pytest.approx(lai_robbins_slope(means, noise="gaussian", sigma=0.5))


def test_the_limits_are_reached_continuously() -> None:
    lai_robbins = lower_bound(FIGURE_4, noise=0.5, spread=0.0, cost=0.0).slope
    for spread, cost in ((0.02, 1e-9), (1e-8, 1.0)):
        near = lower_bound(FIGURE_4, noise=0.5, spread=spread, cost=cost).slope
        assert near == pytest.approx(lai_robbins, rel=1e-3)
        assert near > lai_robbins
    silent = lower_bound(FIGURE_4, noise=0.0, spread=0.02, cost=3.0)
    assert lower_bound(FIGURE_4, noise=1e-7, spread=0.02, cost=3.0).slope == pytest.approx(
        silent.slope, rel=1e-3
    )
    assert silent.slope == pytest.approx(3.0 * 4 * 0.02**2 / 0.02**2)


# What is paid until a decision.


@given(delta=st.floats(1e-9, 0.49))
def test_a_decision_takes_the_divergence_of_two_coins(delta: float) -> None:
    bound = lower_bound(FIGURE_4, noise=0.5, spread=0.02, cost=1.0)
    coins = delta * math.log(delta / (1 - delta)) + (1 - delta) * math.log((1 - delta) / delta)
    assert bound.until_decision(delta) == pytest.approx(bound.slope * coins)
    # Fewer errors cost more, and who may be wrong half of the time need not look.
    assert bound.until_decision(delta / 2) > bound.until_decision(delta)
    assert bound.until_decision(0.5) == bound.until_decision(0.9) == 0.0
    # For small errors it is the slope times log 1/δ.
    assert bound.until_decision(1e-12) == pytest.approx(bound.slope * math.log(1e12), rel=1e-6)


@given(right=st.floats(0.0, 1.0), wrong=st.floats(0.0, 1.0))
def test_no_pair_of_error_probabilities_below_delta_takes_less(right: float, wrong: float) -> None:
    """The divergence of coins is monotone: step 2 of the proof at a fixed δ."""
    delta = 0.1
    p, q = 1 - delta * right, delta * wrong
    coins = sum(x * math.log(x / y) for x, y in ((p, q), (1 - p, 1 - q)) if x > 0 and y > 0)
    assert q == 0 or coins >= (1 - 2 * delta) * math.log((1 - delta) / delta) * (1 - 1e-9)


def test_a_sequential_test_of_one_arm_pays_no_less() -> None:
    """The most economical test of whether an arm is better than a known one errs and pays so."""
    rng = np.random.default_rng(6)
    gap, noise, delta, games = 0.5, 1.0, 0.1, 4000
    # Wald's test of two games: the arm is worse, or better, by the gap.
    limit = math.log((1 - delta) / delta)
    ratio, pulls, on = np.zeros(games), np.zeros(games), np.ones(games, dtype=bool)
    while on.any():
        ratio[on] += 2 * gap * (-gap + noise * rng.standard_normal(on.sum())) / noise**2
        pulls[on] += 1
        on &= np.abs(ratio) < limit
    assert (ratio > 0).mean() <= delta
    # Between these games the shift is twice the gap; the bound allows the nearest one.
    known = lower_bound(np.array([2 * gap]), noise=noise, spread=0.0, cost=0.0)
    paid = 2 * gap * pulls
    error = paid.std() / math.sqrt(games)
    assert paid.mean() + 4 * error >= known.until_decision(delta)
    # It is nearly attained: whole pulls overshoot the limit.
    assert paid.mean() <= 1.7 * known.until_decision(delta)


@given(factor=st.floats(0.01, 100), cost=st.floats(0.0, 1000))
def test_it_scales_with_the_unit_of_reward(factor: float, cost: float) -> None:
    bound = lower_bound(FIGURE_4, noise=0.5, spread=0.02, cost=cost)
    scaled = lower_bound(
        factor * FIGURE_4, noise=0.5 * factor, spread=0.02 * factor, cost=cost * factor
    )
    assert scaled.slope == pytest.approx(factor * bound.slope, rel=1e-9)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"gaps": np.array([0.1, 0.0])}, "gaps"),
        ({"gaps": np.array([])}, "gaps"),
        ({"noise": -1.0}, "noise"),
        ({"spread": math.nan}, "spread"),
        ({"cost": math.inf}, "cost"),
    ],
)
def test_what_is_no_game_is_refused(change: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError, match=where):
        lower_bound(**{"gaps": FIGURE_4, "noise": 0.5, "spread": 0.02, "cost": 1.0, **change})
