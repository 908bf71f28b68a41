"""The tail of one comparison is what a radius says, in the first phase and in later ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

import fedbandits as fb
from fedbandits.problems import Problem
from fedbandits.rules.algorithms import Algorithm
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.phased import Weights
from fedbandits.rules.radii import Radius
from fedbandits.rules.statistics import aggregate
from fedbandits.simulation.game import PlayedGames
from null_games import NOISE, SPREAD, equal_arms, rescale, standard_errors
from rule_calls import decided

# Rules are played here on what they are not made for, too.
pytestmark = pytest.mark.filterwarnings("ignore::fedbandits.errors.AssumptionWarning")


# The tail of one comparison ----------------------------------------------------------------------
#
# With normal outcomes and equal means, everything is known: an estimate is normal with variance v,
# and arm 0 goes in phase 1 when the best of the others is ahead by the width. Variances and widths
# are written out here once more, from the statements and not from the code.

REPLICATIONS = 60_000


@dataclass(frozen=True)
class Tail:
    """A game of one phase, with the variance of its estimates and the width that it should have."""

    name: str
    problem: Problem
    algorithm: Algorithm
    variance: float
    width: float
    radius: type[Radius]
    method: str
    horizon: int = 1_000

    @property
    def chance(self) -> float:
        """Return the probability that arm 0 goes in phase 1."""
        ahead, rivals = self.width / math.sqrt(self.variance), self.problem.means.size - 1

        def density(x: float) -> float:
            some_ahead = -math.expm1(rivals * float(stats.norm.logcdf(x + ahead)))
            return float(stats.norm.pdf(x)) * some_ahead

        return float(integrate.quad(density, -12.0, 12.0, epsabs=1e-12)[0])


# Three clients who disagree, and two arms that are equal on average.
DISAGREEING = fb.Exact(
    local_means=[[0.25, 0.75], [1.0, 0.0], [0.25, 0.75]], noise=fb.Gaussian(NOISE)
)


def variance_of(pulls: int, clients: int = 3, population: int | None = None) -> float:
    """Return v after phase 1."""
    sampled = 1 / clients - (0.0 if population is None else 1 / population)
    return NOISE**2 / (pulls * clients) + SPREAD**2 * sampled


def certified_tail(
    name: str,
    *,
    n_arms: int = 2,
    delta: float = 0.5,
    factor: float = 4.0,
    population: int | None = None,
    **options: Any,
) -> Tail:
    variance = variance_of(4, population=population)
    log = math.log((n_arms - 1) * math.pi**2 / (6 * delta))
    return Tail(
        name,
        equal_arms(n_arms, population),
        fb.Fed2Ucb(pulls=4, admissions=3, radius=fb.CertifiedRadius(delta=delta), **options),
        variance,
        math.sqrt(factor * variance * log),
        fb.CertifiedRadius,
        "_width",
    )


def tail_without_level(name: str, radius: Radius, factor: float, method: str) -> Tail:
    """Return a game that is as short as can be, so that log T is small: two slots, two pulls."""
    variance = variance_of(1)
    return Tail(
        name,
        equal_arms(),
        fb.Fed2Ucb(pulls=1, admissions=3, radius=radius),
        variance,
        math.sqrt(factor * variance * math.log(2)),
        type(radius),
        method,
        horizon=2,
    )


def paper_tail(name: str, radius: fb.PaperRadius, horizon: int, pulls: int) -> Tail:
    log = math.log(horizon)
    arms = math.sqrt(radius.arm * NOISE**2 / (3 * pulls) * log)
    clients = math.sqrt(radius.client * SPREAD**2 / 3 * log)
    return Tail(
        name,
        equal_arms(),
        fb.Fed2Ucb(pulls=pulls, admissions=3, radius=radius),
        variance_of(pulls),
        2 * (arms + clients),
        fb.PaperRadius,
        "half_widths",
        horizon=horizon,
    )


def exact_tail(name: str, radius: Radius, pulls: int, width: float, method: str) -> Tail:
    """Return Fed1-UCB with three given clients; the width is in roots of v."""
    variance = NOISE**2 / (3 * pulls)
    return Tail(
        name,
        DISAGREEING,
        fb.Fed1Ucb(pulls=pulls, radius=radius),
        variance,
        width * math.sqrt(variance),
        type(radius),
        method,
        horizon=2 * pulls,
    )


_HALF = math.log(math.pi**2 / 3)  # δ = 1/2, one rival, phase 1
_LOG2 = math.log(2)
TAILS = [
    certified_tail("certified"),
    certified_tail("certified, δ = 0.1", delta=0.1),
    certified_tail("certified, any dependence", factor=8.0, dependence="any"),
    certified_tail("certified, inverse-variance", weights="inverse-variance"),
    certified_tail("certified, a population of 4", population=4),
    certified_tail("certified, 4 arms", n_arms=4),
    exact_tail(
        "certified, exact", fb.CertifiedRadius(delta=0.5), 4, math.sqrt(4 * _HALF), "_width"
    ),
    tail_without_level("pairwise", fb.PairwiseRadius(), 12.0, "_width"),
    tail_without_level("pairwise, any", fb.PairwiseRadius(dependence="any"), 24.0, "_width"),
    exact_tail("pairwise, exact", fb.PairwiseRadius(), 1, math.sqrt(12 * _LOG2), "_width"),
    tail_without_level("joint", fb.JointRadius(), 24.0, "half_widths"),
    exact_tail("joint, exact", fb.JointRadius(), 1, math.sqrt(24 * _LOG2), "half_widths"),
    paper_tail("paper, tuned", fb.PaperRadius(arm=0.5, client=0.1), 8, 4),
    exact_tail("paper, exact", fb.PaperRadius(), 1, math.sqrt(24 * _LOG2), "half_widths"),
]
every_tail = pytest.mark.parametrize("tail", TAILS, ids=[tail.name for tail in TAILS])


def lost_in_first_phase(outcome: PlayedGames) -> int:
    """Return in how many replications phase 1 dropped arm 0."""
    assert outcome.trace is not None
    # Decided at once, or seen to be out in phase 2.
    lost = (outcome.phases == 1) & (outcome.winner > 0)
    if len(outcome.trace) > 1:
        lost |= (outcome.phases == 2) & np.isnan(outcome.trace[1][:, 0])
    return int(lost.sum())


def off_by(tail: Tail, seed: int = 20) -> float:
    """Return how many standard errors the rate of losses in phase 1 is off its Gaussian value."""
    run = fb.simulate(
        tail.problem,
        tail.algorithm,
        horizon=tail.horizon,
        replications=REPLICATIONS,
        seed=seed,
        fidelity="cohorts",
        max_phases=2,
        workers=1,
        grid_points=1,
        trace=True,
    )
    return standard_errors(lost_in_first_phase(run.games), REPLICATIONS, tail.chance)


def test_the_chance_with_two_arms_is_the_tail_of_their_difference() -> None:
    for tail in TAILS:
        if tail.problem.means.size == 2:
            by_hand = float(stats.norm.sf(tail.width / math.sqrt(2 * tail.variance)))
            assert tail.chance == pytest.approx(by_hand, rel=1e-6)
        assert tail.chance * REPLICATIONS > 100


@every_tail
def test_the_tail_in_phase_1_is_gaussian(tail: Tail) -> None:
    assert abs(off_by(tail)) < 4


@every_tail
def test_a_width_that_is_wrong_by_the_root_of_2_is_found_out(
    tail: Tail, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        rescale(patch, tail.radius, tail.method, 1 / math.sqrt(2))
        assert off_by(tail) > 4
    with monkeypatch.context() as patch:
        rescale(patch, tail.radius, tail.method, math.sqrt(2))
        assert off_by(tail) < -4


@cache
def later_estimates(weights: Weights) -> FloatArray:
    """Return estimates of two equal arms after each of five phases, when nothing is dropped."""
    run = fb.simulate(
        equal_arms(),
        fb.Fed2Ucb(pulls=3, admissions="2^p", radius=fb.PaperRadius(arm=1e9), weights=weights),
        horizon=100,
        replications=REPLICATIONS,
        seed=21,
        max_phases=5,
        workers=1,
        grid_points=1,
        trace=True,
    )
    assert run.games.trace is not None
    return run.games.trace


@pytest.mark.parametrize("phase", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("weights", ["equal", "inverse-variance"])
def test_the_tail_of_each_comparison_is_gaussian_in_later_phases_too(
    weights: Weights, phase: int
) -> None:
    # δ is so close to 1 that phase 5 still errs in some replications of a thousand.
    radius = fb.CertifiedRadius(delta=0.99)
    beliefs = fb.Beliefs(n_arms=2, horizon=100, noise=NOISE, spread=SPREAD)
    rule = fb.Fed2Ucb(pulls=3, admissions="2^p", radius=radius, weights=weights).rule(beliefs)
    cohorts = range(1, phase + 1)
    verdict = decided(
        rule,
        phase=phase,
        active=np.ones((REPLICATIONS, 2), dtype=np.bool_),
        estimates=later_estimates(weights)[phase - 1],
        counts=[3 * (phase - q + 1) for q in cohorts],
        sizes=[2**q for q in cohorts],
    )
    # The width is the root of 4 v L, and the deviation of a difference that of 2 v.
    chance = stats.norm.sf(math.sqrt(2 * math.log(math.pi**2 * phase**2 / (6 * 0.99))))
    assert chance * REPLICATIONS > 100
    for arm in (0, 1):
        lost = int((~verdict.active[:, arm]).sum())
        assert abs(standard_errors(lost, REPLICATIONS, float(chance))) < 4


# The paired t-test is exact for normal clients whatever their variances are: a client's offset is
# much larger here than what is compared, and the rule is told nothing true.

PAIRED = fb.PairedTRadius(delta=0.3, min_clients=2)


def lost_by_paired_t(clients: int, phase: int = 1) -> float:
    """Return how many standard errors the paired t-test is off its level."""
    rng = np.random.default_rng(22)
    means = rng.normal(0.5, 0.1, (REPLICATIONS, 2, clients))
    means[:, 1] += rng.normal(0.0, 0.3, (REPLICATIONS, clients))
    means += rng.normal(0.0, 5.0, (REPLICATIONS, 1, clients))
    beliefs = fb.Beliefs(n_arms=2, horizon=100, noise=1e-9, spread=1e9)
    rule = fb.Fed2Ucb(pulls=1, admissions=clients, radius=PAIRED).rule(beliefs)
    verdict = decided(
        rule,
        phase=phase,
        active=np.ones((REPLICATIONS, 2), dtype=np.bool_),
        estimates=aggregate(means),
        counts=np.ones(clients),
        client_means=means,
    )
    chance = 6 * 0.3 / (math.pi**2 * phase**2)
    return standard_errors(int((~verdict.active[:, 0]).sum()), REPLICATIONS, chance)


@pytest.mark.parametrize("phase", [1, 3])
@pytest.mark.parametrize("clients", [2, 5, 30])
def test_the_paired_t_test_has_its_level_exactly(clients: int, phase: int) -> None:
    assert abs(lost_by_paired_t(clients, phase)) < 4


@pytest.mark.parametrize("by", [1 / math.sqrt(2), math.sqrt(2)])
def test_a_paired_t_test_with_a_wrong_width_is_found_out(
    by: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rescale(monkeypatch, fb.PairedTRadius, "_widths", by)
    assert abs(lost_by_paired_t(5)) > 4


def test_the_simulator_gives_the_paired_t_test_its_level() -> None:
    replications = 6_000
    run = fb.simulate(
        equal_arms(),
        fb.Fed2Ucb(pulls=2, admissions=4, radius=PAIRED),
        horizon=4,
        replications=replications,
        seed=23,
        workers=1,
        grid_points=1,
    )
    chance = 1.8 / math.pi**2
    for arm in (0, 1):
        lost = int((run.games.winner == 1 - arm).sum())
        assert abs(standard_errors(lost, replications, chance)) < 4
