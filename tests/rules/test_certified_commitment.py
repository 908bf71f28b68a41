"""A certified commitment: the test behind it, under adversaries, and where it is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.errors import InputError
from fedbandits.rules.arrays import BoolArray, FloatArray
from fedbandits.rules.estimators import Estimator, InverseVariance, Plain
from fedbandits.rules.guarantees import Assumption, Status
from fedbandits.rules.radii import IndexRadius
from fedbandits.rules.radii.known import PhaseStatistics, example_statistics
from fedbandits.rules.reports import Reports
from fedbandits.rules.sampling import Sampling
from fedbandits.simulation.variants import build_rules, guarantee_of
from games import APPROXIMATE, exact_game
from kept_promises import DELTA, GAMES, is_kept
from known_states import index_rule
from rule_calls import changed

NOISE = 1.0
MOST_LIKELY = InverseVariance()

Choose: TypeAlias = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
"""From counts, means and local means, shape (games, 2, clients), to how often each pulls."""


# The test ----------------------------------------------------------------------------------------


def test_the_product_of_two_mixtures_is_what_the_widths_come_from() -> None:
    """At the width the least favourable pair of means has a product of exactly (K − 1)/δ."""
    radius = IndexRadius(noise=NOISE, commit="certified", delta=DELTA, first_variance=0.02)
    variance, of_leader = np.array([3e-3, 0.7]), np.array([5e-4])
    known = changed(
        example_statistics(), pull_variance=variance, client_variance=np.zeros(1), n_arms=10
    )
    prior = 1 / 0.02
    for v, width in zip(variance, radius.test_widths(known, of_leader), strict=True):
        u = np.array([v, of_leader[0]])
        # Deviations with a difference of the width; the least of the products is looked for.
        share = np.linspace(0, 1, 100_001)
        off = np.stack([share * width, (1 - share) * width])
        precision = 1 / u[:, np.newaxis]
        logs = 0.5 * (precision * off) ** 2 / (prior + precision)
        logs -= 0.5 * np.log1p(precision / prior)
        assert logs.sum(axis=0).min() == pytest.approx(math.log(9 / DELTA), rel=1e-6)


def test_a_mixture_is_a_martingale_for_clients_with_any_counts() -> None:
    """Its mean under the truth is 1, by quadrature over what a client reports."""
    prior, spread = 3.0, 0.4
    nodes, weights = np.polynomial.hermite_e.hermegauss(201)
    weights = weights / weights.sum()
    taus = np.array([spread**2 + NOISE / n for n in (1, 5, 40)])
    first = nodes / math.sqrt(taus[0])
    for tau in taus[1:]:
        score = first[:, np.newaxis] + nodes / math.sqrt(tau)
        information = 1 / taus[0] + 1 / tau
        value = np.sqrt(prior / (prior + information)) * np.exp(
            score**2 / (2 * (prior + information))
        )
        assert float((weights[:, np.newaxis] * weights * value).sum()) == pytest.approx(1.0)


# Adversaries -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Adversary:
    """Two arms that are all but equal, and somebody who sees everything and wants the wrong one.

    Parameters
    ----------
    spread : float
        σ_c of the clients.
    offset : float
        Of what the arms of a client share.
    told : float, optional
        The σ_c that the test is told.
    short : float
        By which factor both σ and σ_c are larger than the test is told.
    estimator : Estimator
        Which average the test is about.
    choose : callable
        Who pulls what next.
    """

    choose: Choose
    spread: float = 0.5
    offset: float = 0.0
    told: float | None = None
    short: float = 1.0
    estimator: Estimator = MOST_LIKELY

    def errors(self, *, games: int = GAMES, clients: int = 12, steps: int = 60) -> int:
        """Return in how many games the wrong arm is ever committed to.

        A third of the clients begin.
        """
        told = (self.spread if self.told is None else self.told) / self.short
        noise = NOISE / self.short
        sampling = Sampling(noise=noise, spread=told)
        radius = IndexRadius(
            noise=noise,
            commit="certified",
            delta=DELTA,
            first_variance=(told**2 + noise**2) / (clients // 3),
            joining=True,
        )
        rng = np.random.default_rng(11)
        local = self.spread * rng.standard_normal((games, 2, clients))
        local += self.offset * rng.standard_normal((games, 1, clients))
        counts, sums = np.zeros(local.shape), np.zeros(local.shape)
        wrong = np.zeros(games, dtype=np.bool_)
        active = np.ones((1, 2), dtype=np.bool_)
        for step in range(steps):
            pulls = np.zeros(local.shape)
            if step == 0:
                pulls[..., : clients // 3] = 1.0
            else:
                pulls = self.choose(counts, sums / np.maximum(counts, 1), local)
            pulled = pulls * local + NOISE * np.sqrt(pulls) * rng.standard_normal(local.shape)
            counts, sums = counts + pulls, sums + pulled
            found = self.estimator.estimate(
                Reports(counts=counts, means=sums / np.maximum(counts, 1), active=active), sampling
            )
            known = PhaseStatistics(phase=1, active=active, n_arms=2, horizon=None, estimate=found)
            stays = np.broadcast_to(radius.stays(known), (games, 2))
            wrong |= stays[:, 1] & ~stays[:, 0]
        return int(wrong.sum())


def leaving_those_who_look_good(
    counts: FloatArray, means: FloatArray, local: FloatArray
) -> FloatArray:
    """Pull the wrong arm of clients who are below the truth, and the right arm of those above.

    One more client is asked whenever there is nobody left to pull.
    """
    sign = np.array([-1.0, 1.0])[:, np.newaxis]
    seen = counts > 0
    return 2.0 * _or_the_next(seen & (sign * means < 0.0), counts)


def knowing_local_means(counts: FloatArray, means: FloatArray, local: FloatArray) -> FloatArray:
    """Leave clients as soon as they look better than they are, and pull them till then."""
    sign = np.array([-1.0, 1.0])[:, np.newaxis]
    return 3.0 * _or_the_next((counts > 0) & (sign * (means - local) < 0.0), counts)


def asking_more_when_behind(counts: FloatArray, means: FloatArray, local: FloatArray) -> FloatArray:
    """Ask somebody new for an arm only while its average speaks for the right one."""
    sign = np.array([-1.0, 1.0])[:, np.newaxis]
    average = (counts * means).sum(axis=-1, keepdims=True) / counts.sum(axis=-1, keepdims=True)
    behind = sign * average < 0.0
    # The others pull ever more, so that there are many looks that differ.
    return np.where(behind, _next(counts), np.ceil(0.3 * counts))


def looking_at_the_other_arm(
    counts: FloatArray, means: FloatArray, local: FloatArray
) -> FloatArray:
    """Choose who pulls the wrong arm by what the same clients have shown of the right one."""
    good = (counts[:, 0] > 0) & (means[:, 0] > 0.5)
    return np.stack([_next(counts)[:, 0], 8.0 * (good & (counts[:, 1] < 40))], axis=1)


def _next(counts: FloatArray) -> FloatArray:
    """Return some clients who have not pulled an arm yet."""
    fresh = counts == 0
    few = fresh.cumsum(axis=-1) <= max(1, counts.shape[-1] // 12)
    return np.asarray(fresh & few, dtype=np.float64)


def _or_the_next(wanted: BoolArray, counts: FloatArray) -> FloatArray:
    return np.where(wanted.any(axis=-1, keepdims=True), wanted.astype(np.float64), _next(counts))


@pytest.mark.parametrize("spread", [0.1, 0.5])
@pytest.mark.parametrize(
    "choose", [leaving_those_who_look_good, asking_more_when_behind, looking_at_the_other_arm]
)
def test_no_adversary_makes_it_err_more_often_than_it_says(choose: Choose, spread: float) -> None:
    assert is_kept(Adversary(choose=choose, spread=spread).errors())


def test_widths_that_are_half_as_wide_are_found_out() -> None:
    assert not is_kept(Adversary(choose=asking_more_when_behind, short=2.0).errors())


@pytest.mark.parametrize(
    "planted",
    [
        # A client's arms share an offset: what the other arm has shown is known of this one.
        Adversary(choose=looking_at_the_other_arm, spread=0.1, offset=1.0, told=math.hypot(0.1, 1)),
        # Bounds are not enough: clients differ less than the test is told.
        Adversary(choose=leaving_those_who_look_good, spread=0.0, told=0.5),
        # Another average than the most likely mean.
        Adversary(choose=leaving_those_who_look_good, estimator=Plain()),
        # Who leaves depends on local means, not only on what was observed.
        Adversary(choose=knowing_local_means),
    ],
    ids=["offset", "bound", "plain", "selection"],
)
def test_the_adversaries_find_what_is_not_proven(planted: Adversary) -> None:
    games = 300
    assert not is_kept(planted.errors(games=games, clients=240), games)


# In the rule -------------------------------------------------------------------------------------

NEAR = fb.Approximate(
    means=[0.5, 0.48, 0.5 - 1e-9], noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.1)
)


def test_the_rule_errs_as_seldom_as_it_says_although_clients_join() -> None:
    """Two arms are all but equal: most games stay open, and a commitment is a coin toss."""
    algorithm = fb.FedIndex(commit="certified", delta=DELTA, first_pulls=20)
    found = fb.simulate(NEAR, algorithm, horizon=10**5, replications=GAMES, seed=5, workers=1)
    assert is_kept(int((found.games.winner >= 1).sum()))
    assert found.games.clients.max() > 8


def test_it_costs_less_than_elimination_with_the_same_promise() -> None:
    elimination: dict[str, Any] = {
        "admissions": "2^p",
        "radius": fb.CertifiedRadius(delta="1/T"),
        "weights": "inverse-variance",
    }
    ours, theirs = (
        fb.simulate(APPROXIMATE, algorithm, horizon=10**6, replications=500, seed=8, workers=1)
        for algorithm in (fb.FedIndex(commit="certified"), fb.Fed2Ucb(pulls=100, **elimination))
    )
    best = int(APPROXIMATE.means.argmax())
    assert (ours.games.winner == best).mean() > 0.99
    assert ours.games.total.mean() < 0.6 * theirs.games.total.mean()


def test_the_guarantee_says_what_it_rests_on() -> None:
    variant = fb.Variant(
        label="", problem=APPROXIMATE, algorithm=fb.FedIndex(commit="certified", delta=DELTA)
    )
    ((rule, _),) = build_rules([variant], 10**6)
    found = guarantee_of(variant, rule)
    condition = found.condition(Assumption.EXACTLY_NORMAL)
    assert found.error == DELTA
    assert condition is not None
    assert condition.status is Status.KEPT
    assert "exactly" in found.words()


_NORMAL: dict[str, Any] = {
    "means": [0.4, 0.6],
    "noise": fb.Gaussian(0.5),
    "spread": fb.Gaussian(0.1),
}


@pytest.mark.parametrize(
    ("problem", "options"),
    [
        (_NORMAL | {"offset": 0.1}, {}),
        (_NORMAL | {"noise": fb.Uniform(0.5)}, {}),
        (_NORMAL | {"noise": fb.Bernoulli(), "spread": fb.Beta(0.1)}, {}),
        (_NORMAL | {"population": 1000}, {}),
        (_NORMAL, {"assume": fb.Assume(noise=0.6)}),
        (_NORMAL, {"assume": fb.Assume(spread=0.2)}),
    ],
    ids=["offset", "uniform", "rates", "finite", "noise-bound", "spread-bound"],
)
def test_it_is_refused_where_it_is_not_proven(
    problem: dict[str, Any], options: dict[str, Any]
) -> None:
    variant = fb.Variant(
        label="",
        problem=fb.Approximate(**problem),
        algorithm=fb.FedIndex(commit="certified"),
        **options,
    )
    with pytest.raises(InputError) as caught:
        build_rules([variant], 10**6)
    assert caught.value.where == "variants[0].commit"
    assert caught.value.problem.count(". ") == 0  # one sentence


def test_protected_means_are_refused() -> None:
    privacy = fb.Privacy(range=(0, 1), noise="gaussian", rho=0.5)
    for game in (APPROXIMATE, exact_game(5)):
        algorithm = fb.FedIndex(commit="certified")
        with pytest.raises(InputError, match="certified"):
            fb.simulate(game, algorithm, horizon=1000, privacy=privacy, warn=False)


def test_only_the_most_likely_means_prove_it() -> None:
    rule = index_rule(commit="certified", delta=DELTA, exact=True)
    assert rule.guarantee().error == DELTA
    for changed_rule in (
        replace(rule, estimator=Plain()),
        replace(rule, exact=False),
        replace(rule, population=50),
    ):
        assert changed_rule.guarantee().error is None
