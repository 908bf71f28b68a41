"""Estimators that stand liars: what is proven, under the worst lies, and where it is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fedbandits as fb
from fedbandits.construct import construct
from fedbandits.errors import InputError
from fedbandits.privacy.protection import protected
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.contrasts import Contrasts, Crowd
from fedbandits.rules.distortion import UNDISTORTED, Distortion, DistortionSums, ReleaseError
from fedbandits.rules.estimators import Estimator, Median, Plain, Trimmed
from fedbandits.rules.estimators.robust import Robust
from fedbandits.rules.guarantees import Assumption
from fedbandits.rules.reports import Reports
from fedbandits.rules.sampling import Sampling
from fedbandits.rules.statistics import ranked
from kept_promises import DELTA, GAMES, is_kept

LOG = np.array(math.log(1 / DELTA))


def crowd(units: int, liars: int, variance: float = 1.0, **other: Any) -> Crowd:
    """Return clients that are drawn from a law of some variance, without noise."""
    return Crowd(
        **{
            "units": units,
            "liars": liars,
            "noise": np.zeros(()),
            "spread": np.array(variance),
            "sampled": True,
            "range": np.array(math.inf),
            **other,
        }
    )


# Lemma 1 -----------------------------------------------------------------------------------------


@given(
    honest=st.lists(st.floats(-100, 100), min_size=3, max_size=12),
    lies=st.lists(st.floats(-1e6, 1e6), max_size=5),
)
def test_a_trimmed_mean_is_near_the_honest_mean_whatever_liars_send(
    honest: list[float], lies: list[float]
) -> None:
    f = min(len(lies), len(honest) - 1)
    values = np.array(honest + lies[:f])
    m = values.size - 2 * f
    found = float(Trimmed(liars=f).middle(values, f))
    bound = float(np.std(honest)) * math.sqrt(f / m)
    assert abs(found - np.mean(honest)) <= bound + 1e-9 * (1 + np.abs(values).max())


@pytest.mark.parametrize("order", ["drawn", "tied", "sorted", "lied"])
@pytest.mark.parametrize("shape", [(3, 2, 2_500), (2, 5_001), (40,)])
def test_many_clients_are_trimmed_as_few_are(shape: tuple[int, ...], order: str) -> None:
    values = np.random.default_rng(7).normal(size=shape)
    size = shape[-1]
    liars = size // 10
    if order == "tied":
        values = values.round(1)
    elif order == "sorted":
        values = np.sort(values, axis=-1)
    elif order == "lied":
        # In all places that a sample is taken from, as far as they go.
        values[..., :: size // 100 or 1] = 1e300
    ordered = np.sort(values, axis=-1)
    for rank in (0, 1, liars, size // 2, size - 2, size - 1):
        assert np.array_equal(ranked(values, rank), ordered[..., rank])
    if order != "lied" or size > 100:
        trimmed = Trimmed(liars=0.1).middle(values, liars)
        assert trimmed == pytest.approx(ordered[..., liars : size - liars].mean(axis=-1), abs=1e-12)


@given(st.integers(1, 40), st.integers(0, 10**6))
def test_values_in_an_unlucky_order_are_ranked_too(share: int, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=4_000)
    # A sample takes every eighth.
    values[::8] += share - 20.0
    rank = share * 100 - 1
    assert ranked(values, rank) == np.partition(values, rank)[rank]


@pytest.mark.parametrize(("n", "f"), [(10, 1), (40, 3), (41, 20)])
def test_no_estimator_does_better_than_the_trimmed_mean(n: int, f: int) -> None:
    values = np.array([0.0] * (n - f) + [1.0] * f)
    assert float(Trimmed(liars=f).middle(values, f)) == 0.0
    honest = values[f:]  # if f of the zeros are the lies
    assert honest.mean() == pytest.approx(honest.std() * math.sqrt(f / (n - 2 * f)))


def test_one_client_less_in_the_trimming_lets_a_lie_through() -> None:
    values = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 1e9, 1e9])
    assert float(Trimmed(liars=2).middle(values, 2)) == pytest.approx(0.4)
    assert float(Trimmed(liars=2).middle(values, 1)) > 1e8


# How far they may be off -------------------------------------------------------------------------


def highest_lies(honest: FloatArray, liars: int) -> FloatArray:
    return np.concatenate([honest, np.full((len(honest), liars), 1e9)], axis=1)


def errors(way: Robust, honest: FloatArray, within: Crowd, narrower: float = 1.0) -> int:
    """Return in how many games the middle is further off than it may be, by the worst lies."""
    middle = way.middle(highest_lies(honest, within.liars), within.liars)
    return int((middle > narrower * way.excess(within, LOG)).sum())


@pytest.mark.parametrize(("n", "f"), [(10, 1), (41, 4), (301, 60)])
@pytest.mark.parametrize(
    "way", [Trimmed(liars=1, shape="normal"), Trimmed(liars=1), Median(liars=1)]
)
def test_normal_clients(way: Robust, n: int, f: int) -> None:
    honest = np.random.default_rng([n, f]).normal(size=(GAMES, n - f))
    found = errors(way, honest, crowd(n, f))
    assert is_kept(found)
    if way.name == "median" and n % 2:
        # Exact: not below δ either.
        assert found >= stats.binom.ppf(0.005, GAMES, DELTA)


@pytest.mark.parametrize("way", [Trimmed(liars=1, shape="normal"), Median(liars=1)])
def test_widths_that_are_too_narrow_by_the_root_of_two_are_found_out(way: Robust) -> None:
    honest = np.random.default_rng(7).normal(size=(2000, 241))
    assert not is_kept(errors(way, honest, crowd(301, 60), 1 / math.sqrt(2)), 2000)


def test_clients_of_any_law_with_the_least_favourable_one() -> None:
    """Of two values the honest mean is as far from the trimmed mean as Lemma 1 allows."""
    n, f, games = 4000, 800, 1000
    p = f / (n - f)
    proxy = (1 - 2 * p) / (2 * math.log((1 - p) / p))  # of a coin, by Kearns and Saul
    honest = p - (np.random.default_rng(3).random((games, n - f)) < p).astype(np.float64)
    found = [
        errors(Trimmed(liars=f), honest, crowd(n, f, proxy), narrower)
        for narrower in (1.0, 1 / math.sqrt(2))
    ]
    assert is_kept(found[0], games)
    assert not is_kept(found[1], games)


def test_given_clients_need_no_law_but_a_range() -> None:
    """Honest clients at both ends of the range, as far from their mean as there is."""
    n, f, noise = 100, 10, 0.01
    h = n - f
    local = np.where(np.arange(h) < f, -1.0, 0.0)
    rng = np.random.default_rng(4)
    honest = local - local.mean() + rng.normal(scale=math.sqrt(noise), size=(GAMES, h))
    given = crowd(n, f, 0.0, noise=np.array(noise), sampled=False, range=np.array(1.0))
    assert is_kept(errors(Trimmed(liars=f), honest, given))
    # Without a range nothing is known of it but what the data say.
    unknown = crowd(n, f, 0.0, noise=np.array(noise), sampled=False)
    assert np.isinf(Trimmed(liars=f).excess(unknown, LOG))
    lower = Trimmed(liars=f).lower(highest_lies(honest, f), unknown, LOG)
    assert is_kept(int((lower > 0).sum()))


@pytest.mark.parametrize("lie", [-1e9, -0.5, 0.0, 2.0, 1e9])
def test_the_limit_from_the_data_holds_whatever_is_sent(lie: float) -> None:
    n, f = 40, 4
    honest = np.random.default_rng(5).normal(size=(GAMES, n - f))
    values = np.concatenate([honest, np.full((GAMES, f), lie)], axis=1)
    lower = Trimmed(liars=f).lower(values, crowd(n, f), LOG)
    assert is_kept(int((lower > 0).sum()))
    # The limit from the data is the sharper one, unless lies are extremely low.
    usual = (honest.mean(axis=1) - Trimmed(liars=f).excess(crowd(n, f), LOG)).mean()
    assert (lower.mean() > usual) == (lie > -1e9)


@pytest.mark.parametrize("lie", [-1e9, -5.0, 1.0, 1e9])
def test_the_better_of_both_limits_is_taken_unless_both_are_below_zero(lie: float) -> None:
    n, f = 40, 4
    shifts = np.linspace(-1.0, 4.0, 300)[:, np.newaxis]
    honest = np.random.default_rng(8).normal(size=(300, n - f)) + shifts
    values = np.concatenate([honest, np.full((300, f), lie)], axis=1)
    way, within = Trimmed(liars=f), crowd(n, f)
    ordered = np.sort(values, axis=1)
    chance = math.sqrt(2 * (float(LOG) + math.log(2)) / (n - f))
    best = np.maximum(
        ordered[:, f : n - f].mean(axis=1) - way.excess(within, LOG),
        ordered[:, : n - f].mean(axis=1) - chance,
    )
    found = way.lower(values, within, LOG)
    assert (best > 0).any()
    assert found[best >= 0] == pytest.approx(best[best >= 0])
    assert (found[best < 0] <= best[best < 0] + 1e-12).all()


def test_a_limit_that_leaves_out_one_lie_too_few_is_found_out() -> None:
    n, f = 40, 4
    honest = np.random.default_rng(5).normal(size=(GAMES, n - f))
    lower = Trimmed(liars=f - 1).lower(highest_lies(honest, f), crowd(n, f - 1), LOG)
    assert not is_kept(int((lower > 0).sum()))


def test_if_those_lie_who_would_report_the_least_nothing_holds() -> None:
    """The condition that who lies has nothing to do with values is needed."""
    n, f = 200, 40
    values = np.sort(np.random.default_rng(6).normal(size=(2000, n)), axis=1)
    middle = Median(liars=f).middle(highest_lies(values[:, f:], f), f)
    excess = Median(liars=f).excess(crowd(n, f), LOG)
    assert not is_kept(int((middle > excess).sum()), 2000)


def test_floors_are_those_of_the_theory() -> None:
    for share, floors in ((0.05, (0.236, 0.113, 0.066)), (0.2, (0.577, 0.424, 0.319))):
        ways = (Trimmed(liars=share), Trimmed(liars=share, shape="normal"), Median(liars=share))
        found = [way.floor(1.0) / math.sqrt(2) for way in ways]
        assert found == pytest.approx(floors, abs=1e-3)
        # With so many liars a gap of twice the floor is just not resolved.
        for way in ways:
            assert way.bearable(2 * way.floor(1.0), 1.0) == pytest.approx(share, abs=1e-3)


# Rules -------------------------------------------------------------------------------------------


def rule_with(estimator: Estimator | None = None, **other: Any) -> Any:
    told = fb.Beliefs(n_arms=2, horizon=None, noise=0.3, spread=0.1)
    keys = {"radius": fb.CertifiedRadius(delta=DELTA), "estimator": estimator, **other}
    return fb.Fed2Ucb(pulls=10, admissions=20, **keys).rule(told)


def test_without_liars_it_compares_as_averages_do() -> None:
    reports = Reports.planned([10.0] * 20)
    plain, trimmed = rule_with(Plain()), rule_with(Trimmed(liars=0))
    assert trimmed.width(phase=3, reports=reports) == pytest.approx(
        plain.width(phase=3, reports=reports)
    )


def test_a_share_counts_clients_that_were_never_heard() -> None:
    counts = np.full((2, 20), 10)
    counts[:, 15:] = 0
    means = np.where(counts > 0, 0.5, 0.0)
    seen = Reports(counts=counts, means=means, active=np.ones(2, dtype=np.bool_))
    found = Trimmed(liars=0.2).estimate(seen, Sampling(noise=0.3, spread=0.1)).contrasts
    assert found is not None
    assert (found.clients, found.liars) == (15, 4)


def test_clients_with_fewer_pulls_make_widths_wider() -> None:
    def width(counts: list[float]) -> float:
        found = rule_with(Trimmed(liars=2)).width(phase=1, reports=Reports.planned(counts))
        return float(np.max(found))

    assert width([10.0] * 19 + [5.0]) == width([5.0] * 20) > width([10.0] * 20)


def test_groups_are_averaged_first() -> None:
    pairs = Contrasts(
        groups=4,
        clients=42,
        liars=2,
        noise=np.array(0.4),
        spread=np.array(0.8),
        sampled=True,
        half_range=math.inf,
        bias=np.zeros(1),
    )
    one = pairs.of_one()
    assert (one.units, one.liars, float(one.noise), float(one.spread)) == (10, 2, 0.1, 0.2)


def test_a_missing_client_does_not_change_who_is_grouped_with_whom() -> None:
    counts = np.full((2, 8), 10)
    counts[1, 3] = 0
    means = np.arange(16.0).reshape(2, 8) * (counts > 0)
    seen = Reports(counts=counts, means=means, active=np.ones(2, dtype=np.bool_))
    assert seen.complete_means(3)[0].tolist() == [0.0, 1.0, 2.0]
    assert seen.complete_means(2)[0].tolist() == [0.0, 1.0, 4.0, 5.0, 6.0, 7.0]
    found = Trimmed(liars=1, groups=2).estimate(seen, Sampling(noise=0.3, spread=0.1)).contrasts
    assert found is not None
    assert (found.clients, found.of_one().units) == (6, 3)


def test_groups_promise_nothing_about_all_clients_that_exist() -> None:
    # Honest clients prefer neither option. One of them shares a group with the liar.
    ahead = np.full(20, 0.05)
    ahead[1] = -0.05 * 18
    ahead[0] = 1.0
    means = 0.5 + np.stack([-ahead / 2, ahead / 2])
    seen = Reports(counts=np.full((2, 20), 10**9), means=means, active=np.ones(2, dtype=np.bool_))
    told = fb.Beliefs(n_arms=2, horizon=None, noise=0.5, spread=0.5, population=20, bounded=True)

    def rule(groups: int) -> Any:
        radius, way = fb.CertifiedRadius(delta=DELTA), Trimmed(liars=1, groups=groups)
        return fb.Fed1Ucb(pulls=10, radius=radius, estimator=way).rule(told)

    def stays(groups: int) -> list[bool]:
        found = rule(groups).estimate(seen)
        decided = rule(groups).decide(phase=1, active=seen.active, estimate=found)
        return list(decided.active.tolist())

    assert rule(1).guarantee().error == DELTA
    assert rule(2).guarantee().error is None
    # What the groups without the liar leave open about the honest clients is in the widths.
    assert stays(1) == stays(2) == [True, True]


@pytest.mark.parametrize("way", [Trimmed(liars=3), Median(liars=3), Trimmed(liars=2, groups=3)])
@pytest.mark.parametrize("clients", [1, 2, 3, 6, 9])
def test_nothing_is_known_if_most_clients_may_lie(way: Estimator, clients: int) -> None:
    rule, active = rule_with(way), np.ones(2, dtype=np.bool_)
    means = np.stack([np.zeros(clients), np.ones(clients)])
    seen = Reports(counts=np.full((2, clients), 10), means=means, active=active)
    units = clients // (3 if way == Trimmed(liars=2, groups=3) else 1)
    unknown = units <= 2 * way.liars_among(clients)
    found = rule.decide(phase=1, active=active, estimate=rule.estimate(seen))
    assert np.isinf(found.widths).all() == unknown
    assert np.isinf(rule.interval_widths(DELTA, phase=1, reports=seen)).all() == unknown
    assert found.active.all() or not unknown


def test_it_is_promised_as_long_as_no_more_lie() -> None:
    found = rule_with(liars=0.1).guarantee()
    assert found.error == DELTA
    assert "at most 10 % of the clients that play lie, in every phase" in found.words()
    assert found.whom == "future clients like the honest ones"
    assert "has nothing to do with what they would observe" in found.words()
    assert found.condition(Assumption.HONEST) is None
    assert rule_with(liars=3).guarantee().condition(Assumption.FEW_LIARS).words == (
        "at most 3 of the clients lie"
    )
    assert rule_with().guarantee().condition(Assumption.HONEST) is not None


def test_the_median_promises_nothing_for_a_finite_number_of_clients() -> None:
    told = fb.Beliefs(n_arms=2, horizon=None, noise=0.3, spread=0.1, population=50)
    certified = fb.CertifiedRadius(delta=DELTA)
    median = fb.Fed1Ucb(pulls=10, radius=certified, estimator=Median(liars=2)).rule(told)
    trimmed = fb.Fed1Ucb(pulls=10, radius=certified, liars=2).rule(told)
    assert median.guarantee().error is None
    assert trimmed.guarantee().error == DELTA
    assert trimmed.whom == "the honest ones of these 50 clients"
    # Also if they are asked gradually, and their range is all that is known.
    keys: dict[str, Any] = {"pulls": 10, "admissions": 5, "radius": certified}
    for bounded in (False, True):
        told = replace(told, bounded=bounded)
        assert fb.Fed2Ucb(estimator=Median(liars=2), **keys).rule(told).guarantee().error is None
        assert fb.Fed2Ucb(liars=2, **keys).rule(told).guarantee().error == DELTA


# Protected means ---------------------------------------------------------------------------------

UNIT = (0.0, 1.0)
PROTECTED = {
    "rounded": ReleaseError(bias=0.1),
    "noisy": ReleaseError(variance=0.1),
    "both": ReleaseError(variance=0.1, bias=0.1),
}


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("how", PROTECTED)
def test_protected_means_keep_the_promise(how: str, groups: int) -> None:
    """Theorem 6: errors all in the worst direction, and the highest lies on top of them."""
    n, f, error = 48, 2, PROTECTED[how]
    rng = np.random.default_rng([len(how), groups])
    sd = math.sqrt(0.1**2 + 0.3**2 / 10 + error.variance)
    means = sd * rng.normal(size=(GAMES, 2, n)) + error.bias * np.array([[-1.0], [1.0]])
    means[:, :, :f] = [[-1e9], [1e9]]
    rule, active = rule_with(Trimmed(liars=f, groups=groups)), np.ones((GAMES, 2), dtype=np.bool_)
    first = DELTA * 6 / math.pi**2  # phase 1 has so much of δ

    def lost(distortion: Distortion) -> int:
        reports = Reports(
            counts=np.full((1, 1, n), 10), means=means, active=active, distortion=distortion
        )
        verdict = rule.decide(phase=1, active=active, estimate=rule.estimate(reports))
        return int((~verdict.active[:, 0]).sum())

    sums = DistortionSums.nothing((1, 1, n)).released(10, error)
    assert is_kept(lost(sums.over(np.full((1, 1, n), 10))), delta=first)
    assert not is_kept(lost(UNDISTORTED), delta=first)


def test_the_largest_error_of_any_client_counts() -> None:
    rule = rule_with(Trimmed(liars=2))

    def width(biases: list[float]) -> float:
        left = Distortion(variance=np.zeros(20), scale=np.zeros(20), bias=np.array(biases))
        planned = Reports.planned([10.0] * 20, distortion=left)
        return float(np.max(rule.width(phase=1, reports=planned)))

    plain = width([0.0] * 20)
    assert width([0.0] * 19 + [0.1]) == pytest.approx(plain + 0.1) == width([0.1] * 20)


@pytest.mark.parametrize(
    ("estimator", "privacy", "told"),
    [
        (
            Trimmed(liars=2),
            fb.Privacy(range=UNIT, noise="laplace", scale=0.1),
            "not proven for Laplace noise",
        ),
        (
            Trimmed(liars=2, shape="normal"),
            fb.Privacy(range=UNIT, quantize=fb.Quantize(bits=8)),
            'protected means are not normal, which shape = "normal" is proven for',
        ),
        (
            Median(liars=2),
            fb.Privacy(range=UNIT, quantize=fb.Quantize(bits=8)),
            "does not allow for protected",
        ),
        (
            Trimmed(liars=2),
            fb.Privacy(range=UNIT, quantize=fb.Quantize(bits="radius")),
            "clients that may lie are compared one by one",
        ),
    ],
)
def test_protection_that_is_not_proven_is_refused(
    estimator: Robust, privacy: fb.Privacy, told: str
) -> None:
    with pytest.raises(InputError, match=told):
        protected(rule_with(estimator), privacy)
    for fine in (
        fb.Privacy(range=UNIT, noise="gaussian", scale=0.1),
        fb.Privacy(range=UNIT, quantize=fb.Quantize(bits=8)),
    ):
        found = protected(rule_with(Trimmed(liars=2)), fine).guarantee()
        assert found.error == DELTA


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"liars": 0.5}, "liars: 0.5 is neither a share below 0.5"),
        ({"liars": -1}, "liars: -1 is neither"),
        ({"liars": 2.5}, "liars: 2.5 is neither"),
        ({"liars": 0.1, "estimator": Plain()}, "liars: is short for the estimator"),
        ({"liars": 0.1, "weights": "inverse-variance"}, "liars: is short for the estimator"),
        ({"liars": 0.1, "radius": fb.PaperRadius()}, 'radius.rule: "paper" does not go with'),
        ({"liars": 0.1, "epsilon": 0.1}, "epsilon: 0.1, but the estimator is"),
    ],
)
def test_what_is_not_proven_is_refused(keys: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError) as raised:
        fb.Fed2Ucb(
            pulls=10, admissions=20, **{"radius": fb.CertifiedRadius(delta=DELTA), **keys}
        ).rule(fb.Beliefs(n_arms=2, horizon=1000, noise=0.3, spread=0.1))
    assert told in str(raised.value)


def test_estimated_variances_are_refused() -> None:
    told = fb.Beliefs(n_arms=2, horizon=None, noise=0.3, spread=None)
    with pytest.raises(InputError, match=r'assume\.spread: "estimate", but the estimator is'):
        fb.Fed2Ucb(pulls=10, admissions=20, radius=fb.CertifiedRadius(delta=DELTA), liars=0.1).rule(
            told
        )


def test_a_rule_that_chooses_pulls_by_reports_says_why_it_takes_no_liars() -> None:
    with pytest.raises(InputError, match="liars: is for algorithms with a schedule"):
        construct(fb.FedIndex, {"liars": 0.1}, "")
