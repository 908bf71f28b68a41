"""Privacy: rounding to a grid, and how much of a budget releases spend."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedbandits.errors import InputError
from fedbandits.privacy import accounting
from fedbandits.privacy.mechanisms import Rounded, bits_for

SEED = 5


def nearest(bits: int, low: float = 0.0, high: float = 1.0) -> Rounded:
    return Rounded(low=low, high=high, bits=bits, rounding="nearest")


@pytest.mark.parametrize("bits", [1, 3, 8, 16])
def test_nearest_rounding_errs_by_no_more_than_half_a_step(bits: int) -> None:
    rng = np.random.default_rng(SEED)
    means = rng.uniform(-2.0, 3.0, 2000)
    grid = nearest(bits, -2.0, 3.0)
    places = grid.places(means, rng)
    back = grid.values(places)
    assert places.min() >= 0
    assert places.max() <= 2**bits - 1
    assert grid.places(np.array([-2.5, 3.5]), rng).tolist() == [0, 2**bits - 1]
    assert np.abs(back - means).max() <= grid.step / 2 * (1 + 1e-9)


@pytest.mark.parametrize("bits", [1, 3, 8])
def test_stochastic_rounding_is_right_on_average_and_never_off_by_a_step(bits: int) -> None:
    rng = np.random.default_rng(SEED)
    grid = Rounded(low=0.0, high=1.0, bits=bits, rounding="stochastic")
    n, step = 40_000, grid.step
    for mean in (0.0, 0.013, 0.5, 0.77, 1.0):
        means = np.full(n, mean)
        back = grid.values(grid.places(means, rng))
        assert np.abs(back - mean).max() < step * (1 + 1e-9)
        # The proxy of h²/4 bounds the variance; half a step bounds what four errors may be.
        assert back.var() <= step**2 / 4 * (1 + 1e-9)
        assert abs(back.mean() - mean) <= 4 * step / 2 / math.sqrt(n) + 1e-12


def test_bits_for_a_radius_are_the_fewest() -> None:
    for radius in (0.3, 0.1, 0.01, 1e-4):
        bits = bits_for(radius, 0.0, 1.0)
        assert nearest(bits).step / 2 <= radius
        assert bits == 1 or nearest(bits - 1).step / 2 > radius


@pytest.mark.parametrize("bits", [0, -1, 53])
def test_bits_that_a_mean_cannot_have_are_refused(bits: int) -> None:
    with pytest.raises(InputError, match="bits"):
        nearest(bits)


def test_the_conversion_is_no_better_than_the_exact_curve_of_the_gaussian_mechanism() -> None:
    """ε of one Gaussian release: the exact δ(ε) of Balle and Wang (2018) is below ours."""
    from scipy import stats

    for rho in (1e-3, 0.05, 0.5, 4.0):
        mu = math.sqrt(2 * rho)  # sensitivity over standard deviation
        for delta in (1e-9, 1e-6, 1e-3):
            epsilon = accounting.Spending.gaussian(rho).epsilon(delta)
            exact = stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(
                -mu / 2 - epsilon / mu
            )
            assert exact <= delta
            # And not far above it: the plain bound ρ + 2√(ρ ln(1/δ)) is looser.
            assert epsilon <= rho + 2 * math.sqrt(rho * math.log(1 / delta))


def test_a_budget_is_turned_back_into_its_epsilon() -> None:
    for epsilon in (0.01, 1.0, 8.0):
        for delta in (1e-9, 1e-5):
            rho = accounting.rho_of(epsilon, delta)
            assert accounting.Spending.gaussian(rho).epsilon(delta) == pytest.approx(
                epsilon, rel=1e-6
            )
            assert accounting.Spending.gaussian(rho).epsilon(delta) <= epsilon


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 1e-6), (-1.0, 1e-6), (math.inf, 1e-6), (1.0, 0.0), (1.0, 1.0)]
)
def test_budgets_that_cannot_be_are_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(InputError):
        accounting.rho_of(epsilon, delta)
