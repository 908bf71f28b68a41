"""Theorems 1 to 3, their corrections, and that simulations keep what they promise."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import fedbandits as fb
from fedbandits.experiments.bounds import bounds_of
from fedbandits.problems import Problem
from fedbandits.problems.problem import gaps
from fedbandits.rules.algorithms import Algorithm
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.phased import PhasedRule
from fedbandits.theory.orders import fed1_orders, fed2_orders, lai_robbins_slope
from fedbandits.theory.regret import phases_needed, regret_bound
from fedbandits.theory.sampling import (
    clients_needed,
    misranking_as_printed,
    misranking_bound,
    misranking_probability,
)
from games import APPROXIMATE, MEANS, exact_game

GAPS = 0.79 - np.array(MEANS[:-1])


# Theorem 1 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("clients", [1, 10, 200, 5_000])
def test_with_two_arms_the_probability_is_that_of_one_normal_difference(clients: int) -> None:
    exact = stats.norm.sf(0.02 * math.sqrt(clients) / (0.1 * math.sqrt(2)))
    assert misranking_probability([0.02], 0.1, clients) == pytest.approx(exact, rel=1e-9)


def test_the_probability_is_what_monte_carlo_counts() -> None:
    rng = np.random.default_rng(3)
    n, clients = 200_000, 50
    averages = np.array([*(-GAPS), 0.0]) + rng.normal(0, 0.1 / math.sqrt(clients), (n, 10))
    counted = (averages.argmax(axis=1) != 9).mean()
    exact = misranking_probability(GAPS, 0.1, clients)
    assert abs(counted - exact) < 5 * math.sqrt(exact * (1 - exact) / n)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(
    gaps=st.lists(st.floats(0.001, 1.0), min_size=1, max_size=8),
    spread=st.floats(0.01, 2.0),
    clients=st.integers(1, 10_000),
)
def test_the_corrected_bounds_bound(gaps: list[float], spread: float, clients: int) -> None:
    exact = misranking_probability(gaps, spread, clients)
    for dependence in ("independent", "any"):
        bound = misranking_bound(gaps, spread, clients, dependence=dependence)
        assert exact <= bound * (1 + 1e-9) + 1e-15


def test_the_printed_form_does_not_bound() -> None:
    exact = misranking_probability(GAPS, 0.1, 200)
    assert exact == pytest.approx(0.028, abs=0.0005)
    printed = misranking_as_printed(GAPS, 0.1, 200)
    # The theorem's second form, K exp(-MΔ²/σ_c²), is larger, and still no bound.
    with_smallest_gap = 10 * math.exp(-200 * 0.02**2 / 0.1**2)
    assert with_smallest_gap == pytest.approx(0.0034, abs=0.0001)
    assert printed < with_smallest_gap < exact


def test_the_number_of_clients_that_follows_is_enough() -> None:
    for horizon in (10**3, 10**6):
        needed = clients_needed(gap=0.02, spread=0.1, n_arms=10, horizon=horizon)
        assert misranking_bound([0.02] * 9, 0.1, needed) <= 1 / horizon
        assert misranking_probability([0.02] * 9, 0.1, needed) <= 1 / horizon


@pytest.mark.parametrize(
    ("gaps", "spread"), [([], 0.1), ([0.0], 0.1), ([math.nan], 0.1), ([0.1], 0.0)]
)
def test_impossible_games_are_refused(gaps: list[float], spread: float) -> None:
    with pytest.raises(fb.InputError):
        misranking_probability(gaps, spread, 10)


# Theorems 2 and 3 ---------------------------------------------------------------------------------


def rule_of(algorithm: Algorithm, *, horizon: int = 10**6, spread: float = 0.02) -> PhasedRule:
    rule = algorithm.rule(Beliefs(n_arms=10, horizon=horizon, noise=0.5, spread=spread))
    assert isinstance(rule, PhasedRule)
    return replace(rule, max_clients=10**9)


def test_phases_of_fed1_are_the_first_with_enough_pulls() -> None:
    rule = rule_of(fb.Fed1Ucb(pulls="ceil(10*log(T))", clients=5))
    for gap, phase in zip(GAPS, phases_needed(rule, GAPS), strict=True):
        needed = 96 * 0.25 * math.log(10**6) / gap**2
        assert 5 * 139 * phase >= needed > 5 * 139 * (phase - 1)


def test_phases_of_fed2_are_the_first_that_meet_theorem_2() -> None:
    rule = rule_of(fb.Fed2Ucb(pulls=100, admissions="2^p"))

    def holds(phase: int, gap: float) -> bool:
        clients = sum(2**q for q in range(1, phase + 1))
        eta = sum(2**q / (100 * (phase - q + 1)) for q in range(1, phase + 1)) / clients**2
        width = 0.5 * math.sqrt(eta) + 0.02 / math.sqrt(clients)
        return 96 * width**2 * math.log(10**6) <= gap**2

    for gap, phase in zip(GAPS, phases_needed(rule, GAPS), strict=True):
        assert holds(phase, gap)
        assert not holds(phase - 1, gap)


def test_the_terms_of_theorem_2_are_added_up_as_it_says() -> None:
    rule = rule_of(fb.Fed2Ucb(pulls=100, admissions="2^p"))
    bound = regret_bound(rule, GAPS, cost=2.0)
    phases = phases_needed(rule, GAPS)
    clients = [sum(2**q for q in range(1, p + 1)) for p in range(1, max(phases) + 1)]
    exploration = sum(
        gap * sum(100 * clients[q] for q in range(p)) for gap, p in zip(GAPS, phases, strict=True)
    )
    assert bound.theorem == 2
    assert bound.exploration == pytest.approx(exploration)
    assert bound.communication == pytest.approx(2.0 * sum(clients))
    assert bound.failure == pytest.approx(4 * (10**9 / 10**6) * (1 + 2.0) * 10)


def test_the_terms_of_theorem_3_are_added_up_as_its_proof_says() -> None:
    rule = rule_of(fb.Fed1Ucb(pulls=50, clients=5))
    bound = regret_bound(rule, GAPS, cost=1.0)
    phases = phases_needed(rule, GAPS)
    assert bound.theorem == 3
    assert bound.exploration == pytest.approx(5 * 50 * (GAPS * phases).sum())
    assert bound.communication == 5 * phases.max()
    assert bound.failure == pytest.approx(2 * 2 * 5 * 10 / 10**6)


COVERED = [
    pytest.param(exact_game(5), fb.Fed1Ucb(pulls="ceil(10*log(T))"), 10**6, id="figure 3's game"),
    pytest.param(exact_game(10), fb.Fed1Ucb(pulls="2^p"), 10**6, id="figure 3's game, 2^p"),
    pytest.param(APPROXIMATE, fb.Fed2Ucb(pulls=100, admissions="2^p"), 10**6, id="figure 4's game"),
    pytest.param(APPROXIMATE, fb.Fed2Ucb(pulls=50, admissions="ceil(log(T))"), 10**5, id="log T"),
    pytest.param(exact_game(5), fb.AuthorsBaseline(pulls=100), 10**6, id="a single player"),
]


@pytest.mark.parametrize(("problem", "algorithm", "horizon"), COVERED)
def test_simulated_regret_lies_below_the_bound(
    problem: Problem, algorithm: Algorithm, horizon: int
) -> None:
    variant = fb.Variant(label="covered", problem=problem, algorithm=algorithm)
    experiment = fb.Experiment(title="", variants=[variant], horizon=horizon, replications=200)
    (found,) = bounds_of(experiment)
    assert found.reason is None
    assert found.bound is not None
    regret = experiment.run(workers=1).simulations[0].games.total
    assert regret.mean() + 4 * regret.std() / math.sqrt(200) < found.bound.total


BERNOULLI = fb.Exact(local_means=[[0.5, 0.6], [0.3, 0.4], [0.2, 0.5]], noise=fb.Bernoulli())
CLOSE = fb.Exact(local_means=[[0.5, 0.51]] * 2, noise=fb.Bernoulli())
SPREAD_OUT = fb.Approximate(
    means=[0.4, 0.5, 0.6], noise=fb.Gaussian(0.3), spread=fb.Gaussian(0.2), name="spread out"
)
FINITE = replace(SPREAD_OUT, population=30, name="finite")
GIVEN = fb.Exact(
    local_means=[[0.5, 0.6], [0.3, 0.4], [0.2, 0.5], [0.9, 0.1], [0.1, 0.9], [0.3, 0.8]],
    noise=fb.Bernoulli(),
    name="given",
)


def noise(kind: Any, **budget: Any) -> dict[str, Any]:
    return {"privacy": fb.Privacy(range=(0, 1), noise=kind, delta=1e-6, **budget)}


def rounded(bits: Any, **how: Any) -> dict[str, Any]:
    quantize = fb.Quantize(bits=bits, rounding="nearest", **how)
    return {"privacy": fb.Privacy(range=(0, 1), quantize=quantize)}


FED1, FED2 = fb.Fed1Ucb(pulls=100), fb.Fed2Ucb(pulls=20, admissions="2^p")

BEYOND_THE_PAPER: dict[str, tuple[Problem, Algorithm, int, dict[str, Any]]] = {
    "gaussian noise": (BERNOULLI, FED1, 10**6, noise("gaussian", epsilon=0.1)),
    "laplace noise": (BERNOULLI, FED1, 10**6, noise("laplace", epsilon=0.1)),
    "a budget of 20 releases": (
        BERNOULLI,
        FED1,
        10**6,
        noise("gaussian", epsilon=1.0, level="user", releases=20),
    ),
    "8 bits": (BERNOULLI, FED1, 10**6, rounded(8)),
    "3 bits": (BERNOULLI, FED1, 10**6, rounded(3)),
    "bits by the radius": (BERNOULLI, FED1, 10**6, rounded("radius", widening="paper")),
    "one phase": (CLOSE, FED1, 10**8, {"max_phases": 1}),
    "one phase, enough": (BERNOULLI, FED1, 10**8, {"max_phases": 1}),
    "30 phases": (CLOSE, FED1, 10**6, {"max_phases": 30}),
    "four clients": (SPREAD_OUT, FED2, 10**5, {"max_clients": 4}),
    "noise and a cap": (CLOSE, FED1, 10**6, noise("gaussian", epsilon=1.0) | {"max_phases": 50}),
    "a finite population": (FINITE, FED2, 10**5, {}),
    "given clients": (GIVEN, fb.Fed2Ucb(pulls=20, admissions=1), 10**6, {}),
    "a sample that never grows": (
        SPREAD_OUT,
        fb.Fed1Ucb(pulls=20, clients=10, target="population"),
        10**5,
        {},
    ),
    "the joint radius": (
        SPREAD_OUT,
        fb.Fed2Ucb(pulls=20, admissions=20, radius=fb.JointRadius()),
        10**5,
        {},
    ),
    "constants of 8": (
        SPREAD_OUT,
        fb.Fed2Ucb(pulls=20, admissions=20, radius=fb.PaperRadius(arm=8.0, client=8.0)),
        10**5,
        {},
    ),
    "a gap above 1": (
        fb.Exact(local_means=[[0.0, 2.0]], noise=fb.Gaussian(1.0)),
        fb.Fed1Ucb(pulls=5),
        10**4,
        {},
    ),
}


def is_below(regret: FloatArray, bound: float) -> bool:
    """Return whether a mean regret is below a bound by four standard errors."""
    return bool(regret.mean() + 4 * regret.std() / math.sqrt(regret.size) < bound)


@pytest.mark.parametrize("name", list(BEYOND_THE_PAPER))
def test_bounds_hold_with_protection_caps_and_finite_populations(name: str) -> None:
    problem, algorithm, horizon, settings = BEYOND_THE_PAPER[name]
    variant = fb.Variant(label="x", problem=problem, algorithm=algorithm, **settings)
    experiment = fb.Experiment(title="", variants=[variant], horizon=horizon, replications=200)
    ((found,), (proven,)) = bounds_of(experiment), experiment.guarantees()
    assert found.bound is not None, found.reason
    assert proven.regret
    assert proven.holds
    regret = experiment.run(workers=1).simulations[0].games.total
    assert is_below(regret, found.bound.total)
    # The paper's formulas are no bounds for some of them, and the test would find it out.
    ((rule, _),) = experiment.built
    assert isinstance(rule, PhasedRule)
    worse = gaps(problem)
    uncapped = replace(rule, max_phases=None, affordable=None)
    wrong = regret_bound(uncapped, worse[worse > 0], cost=1.0).total
    if name in {"gaussian noise", "laplace noise", "a budget of 20 releases", "one phase"}:
        assert not is_below(regret, wrong)


def test_the_bound_of_a_capped_game_is_that_of_its_phases_and_of_playing_on() -> None:
    rule = rule_of(fb.Fed1Ucb(pulls=50, clients=5))
    capped = replace(rule, max_phases=100)
    bound = regret_bound(capped, GAPS, cost=1.0)
    width = math.sqrt(6 * 0.25 * math.log(10**6) / (5 * 5_000))
    needed = phases_needed(rule, GAPS)
    assert bound.phases.tolist() == np.minimum(needed, 100).tolist()
    left = GAPS[(needed > 100) & (2 * width >= GAPS)]
    chance = np.minimum(2 * 10.0 ** (-18 * (left / 2 / width) ** 2), 1.0)
    lost = min(left.max(), (left * chance).sum())
    assert bound.undecided == pytest.approx(5 * (10**6 - 2 * 5_000) * lost)
    assert bound.communication == 5 * 100
    assert regret_bound(rule, GAPS, cost=1.0).undecided == 0.0


def test_noise_is_in_the_width_of_the_bound_as_by_hand() -> None:
    rule = rule_of(fb.Fed1Ucb(pulls=100, clients=5))
    privacy = fb.Privacy(range=(0, 1), noise="gaussian", scale=0.2)
    phases = phases_needed(rule, GAPS, privacy)

    def holds(phase: int, gap: float) -> bool:
        variance = 0.25 / (5 * 100 * phase) + 0.2**2 / (5 * phase)
        bias = 0.2 * 0.5 / 2**20
        return 4 * (math.sqrt(6 * variance * math.log(10**6)) + bias) <= gap

    for gap, phase in zip(GAPS, phases, strict=True):
        assert holds(phase, gap) or phase == 10**6 / 200
        assert not holds(phase - 1, gap)


NOT_COVERED: dict[str, Algorithm] = {
    "6, which the paper's proofs need (1 for arms)": fb.Fed2Ucb(
        pulls=100, admissions="2^p", radius=fb.PaperRadius(arm=1.0)
    ),
    "6, which the paper's proofs need (1 for clients)": fb.Fed2Ucb(
        pulls=100, admissions="2^p", radius=fb.PaperRadius(client=1.0)
    ),
    "they are a sample of an unlimited population": fb.Fed1Ucb(pulls=100, clients=200),
    "paper's radius": fb.ImprovedUcb(),
    "every slot": fb.Ucb1(),
    "once a phase": fb.Centralized(clients=5, communicate="slot"),
}


@pytest.mark.parametrize("reason", list(NOT_COVERED))
def test_what_no_theorem_covers_says_why(reason: str) -> None:
    variant = fb.Variant(label="x", problem=APPROXIMATE, algorithm=NOT_COVERED[reason])
    (found,) = bounds_of(fb.Experiment(title="", variants=[variant], horizon=10**6))
    assert found.bound is None
    assert reason in str(found.reason)


def test_a_rule_that_believes_in_less_than_there_is_is_not_covered() -> None:
    base = fb.Variant(
        label="x", problem=APPROXIMATE, algorithm=fb.Fed2Ucb(pulls=100, admissions="2^p")
    )
    for assume, word in (
        (fb.Assume(noise=0.4), "told noise 0.4"),
        (fb.Assume(spread=0.01), "told spread 0.01"),
    ):
        told = replace(base, assume=assume)
        (found,) = bounds_of(fb.Experiment(title="", variants=[told], horizon=10**6))
        assert word in str(found.reason)


# Orders -------------------------------------------------------------------------------------------


def test_the_lai_robbins_slope_of_the_papers_game() -> None:
    slope = lai_robbins_slope(np.array(MEANS), noise="gaussian", sigma=0.5)
    assert slope * math.log(10**6) == pytest.approx(1_540, abs=1)


def test_the_bernoulli_slope_uses_the_divergence() -> None:
    slope = lai_robbins_slope(np.array([0.4, 0.6]), noise="bernoulli")
    divergence = 0.4 * math.log(0.4 / 0.6) + 0.6 * math.log(0.6 / 0.4)
    assert slope == pytest.approx(0.2 / divergence)


@pytest.mark.parametrize("horizon", [10**4, 10**6, 10**9])
def test_table_2_bounds_the_phases_that_theorem_2_needs(horizon: int) -> None:
    rows = fed2_orders(
        GAPS, noise=0.5, spread=0.02, horizon=horizon, cost=1.0, pulls=100, admissions=20
    )
    for row in rows:
        rule = rule_of(fb.Fed2Ucb(pulls=100, admissions=row.schedule), horizon=horizon)
        assert (phases_needed(rule, GAPS) <= row.phases).all(), row.schedule


@pytest.mark.parametrize("horizon", [10**4, 10**6, 10**9])
def test_table_3_bounds_the_phases_that_theorem_3_needs(horizon: int) -> None:
    for row in fed1_orders(GAPS, noise=0.5, clients=5, horizon=horizon, cost=1.0, pulls=10):
        rule = rule_of(fb.Fed1Ucb(pulls=row.schedule, clients=5), horizon=horizon)
        assert (phases_needed(rule, GAPS) <= row.phases).all(), row.schedule


def test_the_orders_grow_with_the_horizon_as_the_tables_say() -> None:
    def growth(schedule: str, term: str) -> float:
        small, large = (
            {
                row.schedule: row
                for row in fed2_orders(
                    GAPS,
                    noise=0.5,
                    spread=0.02,
                    horizon=horizon,
                    cost=1.0,
                    pulls=100,
                    admissions=20,
                )
            }[schedule]
            for horizon in (10**3, 10**6)
        )
        return float(getattr(large, term) / getattr(small, term))

    # log T doubles from 10³ to 10⁶.
    assert growth("20", "exploration") == pytest.approx(4)
    assert growth("20", "communication") == pytest.approx(4)
    for schedule in ("ceil(20*log(T))", "2^p", "ceil(2^p*log(T))"):
        assert growth(schedule, "exploration") == pytest.approx(2)
        assert growth(schedule, "communication") == pytest.approx(2)
