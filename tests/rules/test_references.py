"""KL-UCB and Thompson sampling at the server: their indices, their regret, and what they assume."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import fedbandits as fb
from fedbandits.errors import AssumptionWarning, InputError
from fedbandits.rules.algorithms import Algorithm
from fedbandits.rules.algorithms.kl_ucb import KlUcbRule, furthest_rate
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.draws import Drawn, DrawRows, SlotDraws
from fedbandits.rules.indices import SlotRule
from fedbandits.rules.radii.chernoff import divergence_end
from whole_rules import BELIEFS

HORIZON = 20_000


def rates_game(*rates: float) -> fb.Exact:
    """Return a game of one client with outcomes of 0 and 1."""
    return fb.Exact(local_means=[list(rates)], noise=fb.Bernoulli())


def regrets(algorithm: Algorithm, *rates: float, replications: int = 128) -> FloatArray:
    run = fb.simulate(
        rates_game(*rates), algorithm, horizon=HORIZON, replications=replications, seed=3
    )
    return run.games.total


# KL-UCB ------------------------------------------------------------------------------------------


def test_the_furthest_rate_is_that_of_halving() -> None:
    rng = np.random.default_rng(0)
    rates = np.concatenate((rng.random(4000), 10 ** -rng.uniform(0, 6, 2000), [0.0] * 50))
    most = 10 ** rng.uniform(-5, 1.5, rates.size)
    exact = divergence_end(rates, most, 1.0)
    off = np.abs(furthest_rate(rates, most) - exact) / (exact - rates)
    assert off.max() < 2e-4
    assert off[exact < 0.9].max() < 1e-4
    assert np.median(off) < 1e-8
    assert furthest_rate(np.array([1.0]), np.array([0.3])).tolist() == pytest.approx([1.0])


@pytest.mark.parametrize("goal", ["max", "min"])
@pytest.mark.parametrize("loglog", [0.0, 3.0])
def test_an_index_is_where_the_divergence_uses_up_the_logarithm(goal: Any, loglog: float) -> None:
    """In the range [1, 5], of outcomes of which the highest or the lowest are the best."""
    algorithm = fb.KlUcb(range=(1, 5), loglog=loglog)
    rule = algorithm.rule(replace(BELIEFS, goal=goal))
    counts, slot = np.array([[9.0, 30.0, 4.0, 1000.0]]), 1043
    means = np.array([[2.0, 3.0, 4.5, 1.2]])
    rates = (means - 1) / 4 if goal == "max" else (5 - means) / 4
    q = rule.index(means * counts, counts, slot)
    used = counts * (special.rel_entr(rates, q) + special.rel_entr(1 - rates, 1 - q))
    log = math.log(slot)
    np.testing.assert_allclose(used, log + loglog * math.log(log), rtol=1e-3)
    assert (q > rates).all()


@dataclass(frozen=True, slots=True, kw_only=True)
class _WrongDivergence(KlUcbRule):
    """A planted mistake: twice the squared distance, which is at most the divergence."""

    def index(
        self,
        reward_sums: FloatArray,
        counts: FloatArray,
        slot: int,
        draws: SlotDraws | None = None,
    ) -> FloatArray:
        means = reward_sums / counts
        return np.asarray(means + np.sqrt(math.log(slot) / (2 * counts)))


class _Wrong(fb.KlUcb):
    def rule(self, beliefs: fb.Beliefs) -> KlUcbRule:
        told = fb.KlUcb().rule(beliefs)
        return _WrongDivergence(
            n_arms=told.n_arms,
            horizon=told.horizon,
            noise=told.noise,
            clients=1,
            player=told.player,
        )


def off_lai_robbins(algorithm: Algorithm, best: float, other: float) -> tuple[float, float]:
    """Return by how much pulls of the worse arm differ from log T / kl, and 4 standard errors.

    Both as parts of log T / kl, which the number of these pulls approaches.
    """
    divergence = special.rel_entr(other, best) + special.rel_entr(1 - other, 1 - best)
    pulls = regrets(algorithm, best, other) / (best - other) / (math.log(HORIZON) / divergence)
    return float(pulls.mean() - 1), float(4 * pulls.std() / math.sqrt(pulls.size))


@pytest.mark.parametrize(("best", "other"), [(0.9, 0.5), (0.3, 0.02)])
def test_kl_ucb_comes_near_the_constant_of_lai_and_robbins(best: float, other: float) -> None:
    """After 20,000 slots the index of the best arm is still above its rate: 10 % are missing."""
    off, tolerance = off_lai_robbins(fb.KlUcb(), best, other)
    assert abs(off + 0.07) < 0.07 + tolerance
    assert tolerance < 0.2


def test_a_wrong_divergence_misses_that_constant() -> None:
    off, tolerance = off_lai_robbins(_Wrong(), 0.3, 0.02)
    assert off > 0.3 + tolerance


@pytest.mark.parametrize("algorithm", [fb.KlUcb(), fb.Thompson()], ids=lambda one: one.name)
def test_references_for_rates_beat_ucb1_on_the_same_game(algorithm: Algorithm) -> None:
    rates = (0.05, 0.02, 0.1, 0.05)
    less = regrets(fb.Ucb1(), *rates) - regrets(algorithm, *rates)
    assert less.mean() > 5 * less.std() / math.sqrt(less.size)
    assert less.mean() > 0.5 * regrets(fb.Ucb1(), *rates).mean()


# Thompson sampling -------------------------------------------------------------------------------


def indices(rule: SlotRule, reward_sums: list[float], counts: list[float]) -> FloatArray:
    """Return the draws of many games that know the same, shape (games, arms)."""
    games = 4000

    def draws(draw: DrawRows) -> Drawn:
        return draw(np.random.default_rng(7), slice(0, games))

    known = np.tile([reward_sums, counts], (games, 1, 1))
    return rule.index(known[:, 0], known[:, 1], slot=99, draws=draws)


SUMS, COUNTS = [3.0, 0.0, 2.5, 40.0], [10.0, 1.0, 4.0, 50.0]


def test_draws_are_from_the_beta_laws_of_successes_and_failures() -> None:
    drawn = indices(fb.Thompson().rule(BELIEFS), SUMS, COUNTS)
    lowest = indices(fb.Thompson().rule(replace(BELIEFS, goal="min")), SUMS, COUNTS)
    scaled = fb.Thompson(range=(-1, 1)).rule(BELIEFS)
    shifted = indices(scaled, [2 * s - n for s, n in zip(SUMS, COUNTS, strict=True)], COUNTS)
    for arm, (s, n) in enumerate(zip(SUMS, COUNTS, strict=True)):
        law = stats.beta(1 + s, 1 + n - s)
        assert stats.kstest(drawn[:, arm], law.cdf).pvalue > 1e-3
        assert stats.kstest(shifted[:, arm], law.cdf).pvalue > 1e-3
        assert stats.kstest(1 - lowest[:, arm], law.cdf).pvalue > 1e-3
        # A planted mistake, the prior left out, is found.
        if s > 0:
            assert stats.kstest(drawn[:, arm], stats.beta(s, n - s).cdf).pvalue < 1e-6


@pytest.mark.parametrize("goal", ["max", "min"])
def test_draws_are_from_the_normal_laws_of_averages(goal: Any) -> None:
    rule = fb.Thompson(posterior="gaussian").rule(replace(BELIEFS, goal=goal))
    drawn = indices(rule, SUMS, COUNTS) * (1 if goal == "max" else -1)
    for arm, (s, n) in enumerate(zip(SUMS, COUNTS, strict=True)):
        assert stats.kstest(drawn[:, arm], stats.norm(s / n, 0.5 / math.sqrt(n)).cdf).pvalue > 1e-3


def test_gaussian_thompson_sampling_comes_near_the_constant_of_lai_and_robbins() -> None:
    """For normal outcomes pulls of a worse arm approach 2 σ² log T / Δ²."""
    game = fb.Exact(local_means=[[0.5, 0.0]], noise=fb.Gaussian(0.5))
    run = fb.simulate(
        game, fb.Thompson(posterior="gaussian"), horizon=HORIZON, replications=128, seed=3
    )
    pulls = run.games.total / 0.5 / (2 * math.log(HORIZON))
    tolerance = 4 * pulls.std() / math.sqrt(pulls.size)
    assert abs(pulls.mean() - 0.85) < 0.25 + tolerance
    assert tolerance < 0.25


def test_a_randomised_rule_without_draws_is_refused() -> None:
    known = np.ones((1, 4))
    with pytest.raises(TypeError, match="needs draws"):
        fb.Thompson().rule(BELIEFS).index(known, known, slot=9)


# What they assume, and promise -------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [fb.KlUcb(), fb.Thompson()], ids=lambda one: one.name)
def test_outcomes_that_leave_the_range_are_warned_of(algorithm: Algorithm) -> None:
    game = fb.Exact(local_means=[[0.4, 0.6]], noise=fb.Gaussian(0.5))
    with pytest.warns(AssumptionWarning, match=r"lie in \[0, 1\], and gaussian noise knows no"):
        run = fb.simulate(game, algorithm, horizon=200, replications=2)
    assert np.isfinite(run.games.total).all()


def test_too_little_noise_is_warned_of() -> None:
    game, told = rates_game(0.4, 0.6), fb.Assume(noise=0.3)
    with pytest.warns(AssumptionWarning, match=r"it is told noise 0\.3"):
        fb.simulate(game, fb.Thompson(posterior="gaussian"), horizon=9, replications=2, assume=told)


@pytest.mark.parametrize("algorithm", [fb.KlUcb(), fb.Thompson()], ids=lambda one: one.name)
def test_no_error_probability_is_promised(algorithm: Algorithm) -> None:
    found = algorithm.rule(BELIEFS).guarantee()
    assert (found.error, found.holds) == (None, False)
    assert found.statement().startswith("none")
    with pytest.raises(InputError, match=r"assume\.noise: \"estimate\", and .* does not use it"):
        algorithm.rule(replace(BELIEFS, noise=None))


def test_bad_parameters_are_refused_with_their_key() -> None:
    for make, where in (
        (lambda: fb.KlUcb(range=(1, 0)), "range"),
        (lambda: fb.KlUcb(loglog=-1), "loglog"),
        (lambda: fb.Thompson(posterior="cauchy"), "posterior"),  # type: ignore[arg-type]
        (lambda: fb.Thompson(posterior="gaussian", range=(0, 1)), "range"),
    ):
        with pytest.raises(InputError) as raised:
            make()
        assert raised.value.where == where
