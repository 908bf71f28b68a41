"""Problems and laws: what they say of themselves is what they draw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import dblquad
from scipy.special import hyp1f1

from fedbandits import CertifiedRadius, Fed2Ucb, simulate
from fedbandits.errors import InputError
from fedbandits.problems import (
    Approximate,
    Bernoulli,
    Beta,
    Channel,
    CognitiveRadio,
    Empirical,
    Exact,
    Gaussian,
    Problem,
    Transmitter,
    Uniform,
    best_arm,
    gap,
)
from fedbandits.problems.laws import NoiseLaw, SpreadLaw
from fedbandits.problems.population import Recentred
from fedbandits.problems.problem import LocalModels
from fedbandits.rules.arrays import FloatArray
from small_problems import FREE, RATING_LAW, RATINGS, named, sources, two_channels

N_DRAWS = 20_000


def assert_moments(sample: FloatArray, mean: float, variance: float) -> None:
    """Assert mean and variance of independent draws to five standard errors each."""
    n = sample.size
    centred = sample - sample.mean()
    assert abs(sample.mean() - mean) <= 5 * math.sqrt(variance / n)
    fourth = float((centred**4).mean())
    assert abs(centred.var() - variance) <= 5 * math.sqrt((fourth - centred.var() ** 2) / n)


def one_of_each() -> list[Problem]:
    """Return a problem of every kind."""
    means = [0.4, 0.6, 0.55]
    return [
        Approximate(means=means, noise=Gaussian(0.5), spread=Gaussian(0.1)),
        Approximate(means=means, noise=Gaussian(0.5), spread=Uniform(0.1), offset=0.2),
        Approximate(means=means, noise=Bernoulli(), spread=Beta(0.1)),
        Approximate(means=means, noise=Gaussian(0.5), spread=Gaussian(0.1), population=40),
        Approximate(means=means, noise=Bernoulli(), spread=Beta(0.03), population=40),
        Exact(local_means=[[0.2, 0.9], [0.7, 0.2], [0.1, 0.4]], noise=Bernoulli()),
        Exact.from_observations(RATINGS),
        two_channels(),
        two_channels(population=40),
    ]


every_problem = pytest.mark.parametrize("problem", one_of_each(), ids=named)


# What a problem says of itself -------------------------------------------------------------------


def test_means_best_arm_and_gap_of_the_approximate_model() -> None:
    game = Approximate(means=[0.7, 0.79, 0.75], noise=Gaussian(0.5), spread=Gaussian(0.02))
    assert game.means.tolist() == [0.7, 0.79, 0.75]
    assert best_arm(game) == 1
    assert gap(game) == pytest.approx(0.04)
    assert (game.noise_proxy, game.spread_proxy) == (0.5, 0.02)
    assert game.arms_are_independent


def test_means_best_arm_gap_and_spread_of_the_exact_model() -> None:
    game = Exact(local_means=[[0.2, 0.9, 0.5], [0.5, 0.3, 0.5]], noise=Gaussian(0.5))
    assert game.means == pytest.approx([0.35, 0.6, 0.5])
    assert best_arm(game) == 1
    assert gap(game) == pytest.approx(0.1)
    assert game.population == 2
    # The widest range is that of arm 1, from 0.3 to 0.9.
    assert game.spread_proxy == pytest.approx(0.3)
    assert not game.arms_are_independent


def test_on_a_tie_the_lowest_arm_is_best_and_the_gap_is_zero() -> None:
    game = Approximate(means=[0.5, 0.7, 0.7], noise=Gaussian(0.5), spread=Gaussian(0.02))
    assert best_arm(game) == 1
    assert gap(game) == 0.0


def test_an_offset_adds_to_the_spread_and_makes_arms_dependent() -> None:
    game = Approximate(means=[0.1, 0.2], noise=Gaussian(0.5), spread=Gaussian(0.3), offset=0.4)
    assert game.spread_proxy == pytest.approx(0.5)
    assert not game.arms_are_independent
    first, second = game.sampler(sources(3)).draw(N_DRAWS).means
    covariance = float(np.cov(first, second)[0, 1])
    # The covariance of two normals with variance v and covariance c errs by √((v² + c²) / n).
    assert abs(covariance - 0.16) <= 5 * math.sqrt((0.25**2 + 0.16**2) / N_DRAWS)


def test_without_an_offset_arms_are_uncorrelated() -> None:
    game = Approximate(means=[0.1, 0.2], noise=Gaussian(0.5), spread=Gaussian(0.3))
    first, second = game.sampler(sources(3)).draw(N_DRAWS).means
    assert abs(np.corrcoef(first, second)[0, 1]) <= 5 / math.sqrt(N_DRAWS)


def test_a_problem_keeps_a_copy_of_its_means_that_nobody_can_write_to() -> None:
    given_means = np.array([0.3, 0.6])
    approximate = Approximate(means=given_means, noise=Gaussian(0.5), spread=Gaussian(0.1))
    exact = Exact(local_means=[given_means, given_means], noise=Gaussian(0.5))
    given_means[0] = 9.0
    assert approximate.means.tolist() == [0.3, 0.6]
    assert exact.means.tolist() == [0.3, 0.6]
    for held in (approximate.means, exact.table, two_channels().means):
        with pytest.raises(ValueError, match="read-only"):
            held[0] = 9.0


# How clients are drawn ---------------------------------------------------------------------------


@every_problem
def test_how_clients_are_grouped_makes_no_difference(problem: Problem) -> None:
    n_clients = problem.population or 40
    whole = problem.sampler(sources(5)).draw(n_clients)
    sampler = problem.sampler(sources(5))
    parts = [sampler.draw(size) for size in (1, 0, 2, n_clients - 3)]
    assert whole.means.shape == (problem.means.size, n_clients)
    np.testing.assert_array_equal(np.hstack([part.means for part in parts]), whole.means)
    if whole.cells is not None:
        cells = [part.cells for part in parts if part.cells is not None]
        np.testing.assert_array_equal(np.hstack(cells), whole.cells)


@every_problem
def test_another_seed_draws_other_clients(problem: Problem) -> None:
    n_clients = problem.population or 40
    draws = {
        problem.sampler(sources(seed)).draw(n_clients).means.round(9).tobytes() for seed in range(9)
    }
    assert len(draws) > 1


@every_problem
def test_clients_average_to_the_global_means(problem: Problem) -> None:
    n_clients = problem.population or N_DRAWS
    means = problem.sampler(sources(7)).draw(n_clients).means
    if problem.population is not None:
        np.testing.assert_allclose(means.mean(axis=1), problem.means, rtol=0, atol=1e-12)
    else:
        errors = means.std(axis=1) / math.sqrt(n_clients)
        assert (np.abs(means.mean(axis=1) - problem.means) <= 5 * errors).all()


@every_problem
def test_the_spread_proxy_is_no_smaller_than_the_spread(problem: Problem) -> None:
    n_clients = problem.population or N_DRAWS
    deviations = problem.sampler(sources(7)).draw(n_clients).means.std(axis=1)
    # The deviation of n draws errs by at most about σ/√(2n) for laws with tails up to normal.
    assert deviations.max() <= problem.spread_proxy * (1 + 5 / math.sqrt(2 * n_clients))


def test_recentring_shifts_every_client_of_an_arm_alike() -> None:
    game = Approximate(means=[0.4, 0.6], noise=Gaussian(0.5), spread=Gaussian(0.1))
    drawn = game.sampler(sources(1)).draw(25).means
    recentred = replace(game, population=25).sampler(sources(1)).draw(25).means
    shifts = recentred - drawn
    assert np.ptp(shifts, axis=1) == pytest.approx([0.0, 0.0], abs=1e-12)
    assert (np.abs(shifts[:, 0]) > 1e-4).all()


def test_exact_clients_come_in_a_random_order_that_covers_all() -> None:
    table = np.arange(12.0).reshape(6, 2)
    game = Exact(local_means=table, noise=Gaussian(0.5))
    orders = set()
    for seed in range(20):
        means = game.sampler(sources(seed)).draw(6).means
        order = tuple(int(first) // 2 for first in means[0])
        assert sorted(order) == list(range(6))
        np.testing.assert_array_equal(means, table[list(order)].T)
        orders.add(order)
    # 20 draws out of 720 orders: a few may meet, not most.
    assert len(orders) > 10


def test_exact_clients_bring_their_cells_along() -> None:
    game = Exact.from_observations(RATINGS)
    assert isinstance(game.noise, Empirical)
    clients = game.sampler(sources(2)).draw(3)
    assert clients.cells is not None
    np.testing.assert_allclose(game.noise.cell_means()[clients.cells], clients.means)


@every_problem
def test_at_the_server_one_player_has_the_global_means(problem: Problem) -> None:
    server = problem.at_server()
    assert server.population == 1
    assert server.name == problem.name
    np.testing.assert_allclose(server.means, problem.means, rtol=0, atol=1e-15)
    player = server.sampler(sources(0)).draw(1)
    np.testing.assert_allclose(player.means[:, 0], problem.means, rtol=0, atol=1e-15)
    pulls = 5_000
    sums = server.noise.phase_sums(np.random.default_rng(4), pulls, player.means, player.cells)
    error = problem.noise_proxy / math.sqrt(pulls)
    assert (np.abs(sums[:, 0] / pulls - problem.means) <= 5 * error).all()


# Laws of noise -----------------------------------------------------------------------------------


def values_of(cell: int) -> list[float]:
    return [values for row in RATINGS for values in row][cell]


@pytest.mark.parametrize(
    ("law", "mean", "cell", "variance"),
    [
        (Gaussian(0.5), 0.3, None, 0.25),
        (Gaussian(0.0), 0.3, None, 0.0),
        (Bernoulli(), 0.3, None, 0.21),
        (Bernoulli(), 0.98, None, 0.98 * 0.02),
        (Bernoulli(), 1.0, None, 0.0),
        *(
            (RATING_LAW, float(np.mean(values_of(cell))), cell, float(np.var(values_of(cell))))
            for cell in range(6)
        ),
    ],
)
def test_phase_sums_have_the_moments_of_summed_observations(
    law: NoiseLaw, mean: float, cell: int | None, variance: float
) -> None:
    pulls = 7
    rng = np.random.default_rng(11)
    means = np.full(N_DRAWS, mean)
    cells = None if cell is None else np.full(N_DRAWS, cell)
    direct = law.phase_sums(rng, pulls, means, cells)
    summed = law.observe(law.variates(rng, (N_DRAWS, pulls)), mean, cell).sum(axis=1)
    assert law.sums_in_closed_form
    for sums in (direct, summed):
        if variance == 0:
            np.testing.assert_allclose(sums, pulls * mean, rtol=1e-14)
        else:
            assert_moments(sums, pulls * mean, pulls * variance)


def test_uniform_observations_have_the_law_they_are_named_after() -> None:
    law = Uniform(0.2)
    seen = law.observe(law.variates(np.random.default_rng(6), N_DRAWS), 0.3, None)
    half = math.sqrt(3) * 0.2
    assert_moments(seen, 0.3, 0.04)
    assert 0.3 - half <= seen.min() <= 0.3 - half * 0.99
    assert 0.3 + half * 0.99 <= seen.max() <= 0.3 + half


def test_sums_of_uniforms_are_refused() -> None:
    assert not Uniform(0.2).sums_in_closed_form
    with pytest.raises(InputError, match=r"^noise: .*pulls"):
        Uniform(0.2).phase_sums(np.random.default_rng(0), 3, np.array([0.5]), None)


def test_empirical_observations_are_the_values_in_their_proportions() -> None:
    rng = np.random.default_rng(8)
    seen = RATING_LAW.observe(RATING_LAW.variates(rng, N_DRAWS), 0.0, 4)
    values, times = np.unique(seen, return_counts=True)
    assert values.tolist() == [2.0, 3.0, 5.0]
    shares = np.array([0.25, 0.5, 0.25])
    errors = np.sqrt(shares * (1 - shares) / N_DRAWS)
    assert (np.abs(times / N_DRAWS - shares) <= 5 * errors).all()


def test_empirical_observations_of_many_cells_are_those_of_each() -> None:
    variates = RATING_LAW.variates(np.random.default_rng(9), 6)
    cells = np.arange(6)
    together = RATING_LAW.observe(variates, np.zeros(6), cells)
    alone = [
        float(RATING_LAW.observe(variates[cell : cell + 1], 0.0, cell)[0]) for cell in range(6)
    ]
    assert together.tolist() == alone


def test_the_last_variate_below_one_still_gives_a_listed_value() -> None:
    # Summed up in floating point, 27 shares of 1/27 stay below the largest variate.
    law = Empirical.of([[[float(value) for value in range(27)], [0.0]]])
    assert law.probabilities[0].cumsum()[-1] < np.nextafter(1.0, 0.0)
    variates = np.array([np.nextafter(1.0, 0.0)])
    assert law.observe(variates, 0.0, 0).tolist() == [26.0]
    assert law.observe(variates, 0.0, np.array([0])).tolist() == [26.0]


def test_the_first_variate_gives_a_listed_value() -> None:
    law = Empirical.of([[[1.0], [2.0]]])
    assert law.observe(np.array([0.0]), 0.0, 1).tolist() == [2.0]
    assert law.observe(np.array([0.0, 0.0]), 0.0, np.array([0, 1])).tolist() == [1.0, 2.0]


def test_empirical_noise_is_half_the_range_of_its_values() -> None:
    assert RATING_LAW.proxy(np.array([3.0])) == 2.0


def test_empirical_noise_needs_to_know_whose_values() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match=r"^noise: "):
        RATING_LAW.phase_sums(rng, 3, np.array([3.0]), None)
    with pytest.raises(InputError, match=r"^noise: "):
        RATING_LAW.observe(np.array([0.5]), 3.0, None)


def test_the_pooled_law_gives_every_client_the_same_weight() -> None:
    pooled = Empirical.of([[[0.0], [1.0]], [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0]]]).pooled(2)
    assert pooled.support.tolist() == [0.0, 1.0]
    # Arm 1: client 0 always sees 1, client 1 a quarter of the time, however long their lists.
    assert pooled.probabilities.tolist() == [[0.5, 0.5], [0.375, 0.625]]
    game = Exact.from_observations(RATINGS)
    np.testing.assert_allclose(RATING_LAW.pooled(2).cell_means(), game.means)


def test_too_many_different_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Empirical, "_MOST_ENTRIES", 5 * 6 - 1)
    with pytest.raises(
        InputError, match=r"^observations: 5 different values of 6 clients and arms"
    ):
        Empirical.of(RATINGS)


# Laws of spread ----------------------------------------------------------------------------------


@pytest.mark.parametrize("law", [Gaussian(0.1), Uniform(0.1), Beta(0.1), Beta(0.3)])
@pytest.mark.parametrize("mean", [0.25, 0.7])
def test_local_means_have_the_stated_mean_deviation_and_support(
    law: Gaussian | Uniform | Beta, mean: float
) -> None:
    drawn = law.draw(np.random.default_rng(12), mean, N_DRAWS)
    assert_moments(drawn, mean, law.sigma**2)
    low, high = law.support(mean)
    assert low <= drawn.min() <= drawn.max() <= high


@pytest.mark.parametrize("law", [Gaussian(0.0), Uniform(0.0), Beta(0.0)])
def test_without_spread_every_local_mean_is_the_global_one(law: SpreadLaw) -> None:
    assert law.draw(np.random.default_rng(0), 0.3, 4).tolist() == [0.3] * 4
    assert law.support(0.3) == (0.3, 0.3)
    assert law.proxy(np.array([0.3])) == 0.0


def test_the_parameters_of_a_beta_law_give_its_mean_and_deviation() -> None:
    alpha, beta = Beta(0.1).parameters(0.7)
    total = alpha + beta
    assert alpha / total == pytest.approx(0.7)
    assert alpha * beta / (total**2 * (total + 1)) == pytest.approx(0.01)


@pytest.mark.parametrize("sigma", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("mean", [0.2, 0.5, 0.79])
def test_the_proxy_of_a_beta_law_bounds_its_moments(sigma: float, mean: float) -> None:
    proxy = Beta(sigma).proxy(np.array([mean]))
    alpha, beta = Beta(sigma).parameters(mean)
    assert proxy == pytest.approx(0.5 / math.sqrt(alpha + beta + 1))
    scales = np.linspace(-5, 5, 41) / sigma
    # E exp(λX) of a beta law is Kummer's function; a proxy bounds it by that of a normal law.
    moments = np.log(hyp1f1(alpha, alpha + beta, scales)) - scales * mean
    assert (moments <= scales**2 * proxy**2 / 2 + 1e-12).all()


def test_the_proxy_of_a_beta_law_holds_for_all_arms() -> None:
    means = np.array([0.1, 0.5, 0.9])
    alone = [Beta(0.1).proxy(means[[arm]]) for arm in range(3)]
    assert Beta(0.1).proxy(means) == max(alone)
    assert min(alone) < max(alone)


@pytest.mark.parametrize("sigma", [0.02, 0.3])
def test_the_deviation_of_a_uniform_law_bounds_its_moments(sigma: float) -> None:
    scales = np.linspace(0.1, 20, 50)
    moments = np.log(np.sinh(math.sqrt(3) * scales) / (math.sqrt(3) * scales))
    assert (moments <= scales**2 * (Uniform(sigma).proxy(np.array([0.5])) / sigma) ** 2 / 2).all()


# The cognitive radio -----------------------------------------------------------------------------


def erf_share(side: float, at: float, reach: float) -> float:
    """Return the average of exp(-(x - at)² / 2 reach²) over 0 to side."""
    scale = reach * math.sqrt(2)
    reached = math.erf((side - at) / scale) - math.erf(-at / scale)
    return reach * math.sqrt(math.pi / 2) * reached / side


@pytest.mark.parametrize("reach", [1e-200, 1e-12, 1e-5, 0.003, 0.05, 0.7, 4.0, 300.0])
@pytest.mark.parametrize("at", [(5.0, 4.0), (4.8, 3.8), (0.01, 7.99), (3.3, -0.5), (14.0, 11.0)])
def test_one_transmitter_is_integrated_as_in_closed_form(
    reach: float, at: tuple[float, float]
) -> None:
    lone = Channel([Transmitter(at=at, reach=reach, activity=0.8)])
    radio = CognitiveRadio(area=(10.0, 8.0), channels=[lone, FREE])
    blocked = 0.8 * erf_share(10.0, at[0], reach) * erf_share(8.0, at[1], reach)
    assert radio.means[0] == pytest.approx(1 - blocked, rel=0, abs=1e-13)
    # A narrow footprint is not to be lost in 1 - blocked: hold its own size as well.
    assert 1 - radio.means[0] == pytest.approx(blocked, rel=1e-9, abs=1e-15)


def test_integrating_in_parts_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = two_channels()
    monkeypatch.setattr("fedbandits.problems.cognitive_radio._MOST_AT_ONCE", 1_000)
    assert two_channels().means == pytest.approx(whole.means, rel=0, abs=1e-14)


def test_several_transmitters_are_integrated_as_by_dblquad() -> None:
    radio = two_channels()
    for arm in range(2):
        for power in (1, 2):

            def free(y: float, x: float, arm: int = arm, power: int = power) -> float:
                return float(radio.availability([(x, y)])[arm, 0]) ** power

            integral, _ = dblquad(free, 0.0, 6.0, 0.0, 4.0, epsabs=1e-9, epsrel=1e-9)
            moment = integral / 24.0
            if power == 1:
                assert radio.means[arm] == pytest.approx(moment, rel=0, abs=1e-9)
            else:
                deviation = math.sqrt(moment - radio.means[arm] ** 2)
                assert radio.spread_deviation()[arm] == pytest.approx(deviation, rel=1e-6)


@pytest.mark.parametrize("n_transmitters", [2, 5, 10])
def test_transmitters_in_one_place_are_integrated_as_in_closed_form(n_transmitters: int) -> None:
    masts = [Transmitter(at=(4.2, 3.1), reach=0.5, activity=0.7)] * n_transmitters
    radio = CognitiveRadio(area=(10.0, 8.0), channels=[Channel(masts), FREE])
    # The product multiplied out: n choose i times a Gaussian that is √i times narrower.
    exact = 1.0 + sum(
        math.comb(n_transmitters, i)
        * (-0.7) ** i
        * erf_share(10.0, 4.2, 0.5 / math.sqrt(i))
        * erf_share(8.0, 3.1, 0.5 / math.sqrt(i))
        for i in range(1, n_transmitters + 1)
    )
    assert radio.means[0] == pytest.approx(exact, rel=0, abs=1e-10)


def test_a_channel_without_primary_users_is_always_free() -> None:
    radio = replace(two_channels(), channels=(FREE, FREE), population=7)
    assert radio.means.tolist() == [1.0, 1.0]
    assert radio.spread_deviation().tolist() == [0.0, 0.0]
    assert radio.spread_proxy == 0.0
    assert (radio.sampler(sources(0)).draw(7).means == 1.0).all()


def test_availability_is_the_product_over_independent_transmitters() -> None:
    radio = two_channels()
    expected = (
        (1 - 0.6 * math.exp(-(1.0**2 + 2.5**2) / (2 * 1.2**2)))
        * (1 - 0.4 * math.exp(-(2.0**2 + 0.0**2) / (2 * 2.0**2)))
        * (1 - 0.2 * math.exp(-(5.0**2 + 7.0**2) / (2 * 12.0**2)))
    )
    assert radio.availability([(2.0, 1.0)])[0, 0] == pytest.approx(expected, rel=1e-14)
    assert radio.availability([(3.0, 2.0)])[1, 0] == pytest.approx(0.3, rel=1e-14)


def test_users_are_spread_as_the_area_says() -> None:
    radio = two_channels()
    means = radio.sampler(sources(21)).draw(N_DRAWS).means
    for arm in range(2):
        deviation = float(radio.spread_deviation()[arm])
        assert_moments(means[arm], float(radio.means[arm]), deviation**2)


def test_all_arms_of_a_user_are_seen_from_one_place() -> None:
    channel = two_channels().channels[0]
    twins = replace(two_channels(), channels=(channel, channel))
    first, second = twins.sampler(sources(2)).draw(50).means
    np.testing.assert_array_equal(first, second)
    assert np.ptp(first) > 0.1
    assert not twins.arms_are_independent


def test_the_map_averages_to_the_means_and_has_x_along_its_rows() -> None:
    radio = two_channels()
    x, y, free = radio.availability_map(200)
    assert free.shape == (2, 200, 200)
    assert (x[0], x[-1], y[0], y[-1]) == pytest.approx((0.015, 5.985, 0.01, 3.99))
    # The midpoint rule errs by h² / 24 times the curvature, which is below 0.7 / 1.2².
    assert free.mean(axis=(1, 2)) == pytest.approx(radio.means, abs=2 * 0.03**2 / 24)
    np.testing.assert_allclose(free[:, 30, 170], radio.availability([(x[170], y[30])])[:, 0])


def test_the_spread_of_one_transmitter_is_its_range_from_nearest_to_farthest_place() -> None:
    inside = Channel([Transmitter(at=(1.0, 3.0), reach=2.0, activity=0.8)])
    outside = Channel([Transmitter(at=(-1.0, 2.0), reach=2.0, activity=0.8)])
    radio = CognitiveRadio(area=(6.0, 4.0), channels=[inside, FREE])
    assert radio.spread_proxy == pytest.approx(0.4 * (1 - math.exp(-(25 + 9) / 8)))
    radio = CognitiveRadio(area=(6.0, 4.0), channels=[outside, FREE])
    assert radio.spread_proxy == pytest.approx(0.4 * (math.exp(-1 / 8) - math.exp(-(49 + 4) / 8)))


transmitters = st.builds(
    Transmitter,
    at=st.tuples(st.floats(-5, 15), st.floats(-5, 15)),
    reach=st.floats(0.01, 20),
    activity=st.floats(0, 1),
)


@given(
    masts=st.lists(transmitters, max_size=4),
    place=st.tuples(st.floats(0, 8), st.floats(0, 5)),
)
def test_availability_stays_within_its_bounds(
    masts: Sequence[Transmitter], place: tuple[float, float]
) -> None:
    channel = Channel(masts)
    low, high = channel.range_within((8.0, 5.0))
    free = float(channel.availability(np.array(place[0]), np.array(place[1])))
    assert 0 <= low <= high <= 1
    assert low - 1e-12 <= free <= high + 1e-12


@pytest.mark.parametrize("population", [None, 1, 6])
def test_a_listening_base_station_learns_its_own_place_only(population: int | None) -> None:
    users = two_channels(base_station=(1.0, 3.0))
    station = replace(users, listener="base-station", population=population)
    means = station.sampler(sources(0)).draw(6).means
    np.testing.assert_array_equal(means, np.tile(users.availability([(1.0, 3.0)]), 6))
    np.testing.assert_array_equal(station.means, users.means)
    assert np.abs(means[:, 0] - users.means).max() > 0.1


def test_the_base_station_stands_in_the_centre_by_default() -> None:
    assert two_channels().base_station == (3.0, 2.0)


def test_the_example_misleads_its_base_station() -> None:
    city = CognitiveRadio.example()
    here = city.availability([city.base_station])[:, 0]
    assert city.means.size == 10
    assert here.argmax() != best_arm(city)
    assert 0.01 <= gap(city) <= 0.03
    assert city.spread_deviation().min() > 3 * gap(city)
    # Some hundred users can be recentred without an availability above 1.
    everyone = replace(city, population=200).sampler(sources(1)).draw(200).means
    assert everyone.mean(axis=1) == pytest.approx(city.means, abs=1e-12)


@pytest.mark.parametrize("n_channels", [2, 3, 6])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_example_misleads_its_base_station(n_channels: int, seed: int) -> None:
    city = CognitiveRadio.example(n_channels, seed)
    again = CognitiveRadio.example(n_channels, seed)
    assert city.channels == again.channels
    assert len(city.channels) == n_channels
    assert city.availability([city.base_station])[:, 0].argmax() != best_arm(city)
    assert gap(city) == pytest.approx(0.02, abs=1e-9)


def test_another_seed_is_another_city() -> None:
    assert CognitiveRadio.example(3, 0).channels != CognitiveRadio.example(3, 1).channels


@given(
    means=st.lists(st.floats(0.001, 0.999), min_size=2, max_size=3),
    width=st.floats(0.001, 0.99),
    population=st.integers(1, 60),
    seed=st.integers(0, 10**6),
)
def test_whatever_can_be_made_can_be_drawn(
    means: list[float], width: float, population: int, seed: int
) -> None:
    sigma = width * min(math.sqrt(mean * (1 - mean)) for mean in means)
    game = Approximate(means=means, noise=Bernoulli(), spread=Beta(sigma), population=population)
    drawn = game.sampler(sources(seed)).draw(population).means
    assert 0 <= drawn.min() <= drawn.max() <= 1
    np.testing.assert_allclose(drawn.mean(axis=1), means, rtol=0, atol=1e-14)


def test_a_game_with_a_finite_population_of_rates_plays_in_every_fidelity() -> None:
    game = Approximate(means=[0.05, 0.9], noise=Bernoulli(), spread=Beta(0.2), population=6)
    rule = Fed2Ucb(pulls=20, admissions="2^p", radius=CertifiedRadius(delta=0.05))
    for fidelity in ("clients", "pulls"):
        run = simulate(
            game, rule, horizon=5000, replications=20, fidelity=fidelity, workers=1, warn=False
        )
        assert (run.games.winner == 1).all()


def test_spread_that_stays_within_probabilities_is_no_mistake() -> None:
    # √3 · 0.2 = 0.346: local means from 0.05 to 0.95.
    game = Approximate(means=[0.4, 0.6], noise=Bernoulli(), spread=Uniform(0.2))
    means = game.sampler(sources(1)).draw(N_DRAWS).means
    assert 0.05 < means.min() < 0.06
    assert 0.94 < means.max() < 0.95


class _Drawn:
    def __init__(self, means: FloatArray) -> None:
        self.means = means

    def draw(self, n_clients: int, arms: Sequence[int] | None = None) -> LocalModels:
        return LocalModels(self.means[np.newaxis].copy())


def populations(
    mean: float, spread: float, size: int, number: int
) -> tuple[FloatArray, FloatArray, float]:
    """Return beta draws and what becomes of them, shape (number, size), and their proxy."""
    law = Beta(spread)
    drawn = law.draw(np.random.default_rng(size), mean, number * size).reshape(number, size)
    kept = [Recentred(_Drawn(row), np.array([mean]), size, 0.0, 1.0).means[0] for row in drawn]
    return drawn, np.array(kept), law.proxy(np.array([mean]))


def moments(means: FloatArray, first: int, t: float) -> FloatArray:
    """Return the exponential moment of what the first clients leave open, over all orders."""
    deviations = means - means.mean(axis=-1, keepdims=True)
    chosen = list(combinations(range(means.shape[-1]), first))
    return np.asarray(np.exp(t * deviations[:, chosen].mean(axis=-1)).mean(axis=-1))


# Near its ends, or almost all at them.
WIDE_BETAS = [(0.5, 0.49), (0.5, 0.3), (0.05, 0.2), (0.02, 0.1), (0.9, 0.29)]


def majorised(kept: FloatArray, drawn: FloatArray) -> bool:
    sums = [
        np.cumsum(np.sort(each - each.mean(axis=-1, keepdims=True), axis=-1)[:, ::-1], axis=-1)
        for each in (kept, drawn)
    ]
    return bool((sums[0] <= sums[1] + 1e-9).all())


@pytest.mark.parametrize(("mean", "spread"), WIDE_BETAS)
def test_a_population_that_is_kept_in_its_range_is_like_draws(mean: float, spread: float) -> None:
    size, first = 8, 3
    drawn, kept, proxy = populations(mean, spread, size, 2_000)
    assert kept.mean(axis=-1) == pytest.approx(mean)
    at_end = (kept == 0.0) | (kept == 1.0)
    assert at_end.any(axis=-1).mean() > 0.05
    # One shift for all, where any client is left that shows it.
    some = ~at_end.all(axis=-1)
    shift = np.nanmax(np.where(at_end, np.nan, kept - drawn)[some], axis=-1, keepdims=True)
    assert kept[some] == pytest.approx(np.clip(drawn[some] + shift, 0.0, 1.0))
    assert majorised(kept, drawn)
    assert not majorised(mean + 1.1 * (drawn - mean), drawn)
    deviation = proxy * math.sqrt(1 / first - 1 / size)
    for t in (-3.0, -1.0, 1.0, 3.0):
        ours, independent = (moments(each, first, t / deviation) for each in (kept, drawn))
        assert (ours <= independent * (1 + 1e-9)).all()
        assert ours.mean() <= math.exp(t**2 / 2)
