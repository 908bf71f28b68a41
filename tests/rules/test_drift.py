"""Options that change are found, and options that do not are seldom suspected."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.drift import LEVEL, Seen, Trend
from kept_promises import is_kept

TRIALS = 4000
ARMS, SIGMA, SPREAD = 2, 0.5, 0.3
ADMITTED = (4, 4, 8, 0, 8, 0)
PULLS = (10, 40, 10, 20, 40, 80)


def alarms(
    seed: int,
    *,
    drift: float = 0.0,
    since: int = 4,
    noise: float = 0.0,
    bias: float = 0.0,
    declared: bool = True,
    sigma: float = SIGMA,
) -> int:
    """Return in how many trials an option is suspected, in any phase.

    Parameters
    ----------
    seed : int
        Of all draws.
    drift, since : float, int
        By how much the first option changes, and in which phase.
    noise, bias : float
        Variance that the protection adds to every mean, and how far it shifts first reports down
        and later ones up.
    declared : bool
        Whether that is known.
    sigma : float
        What is assumed of σ.
    """
    rng = np.random.default_rng(seed)
    clients, n_phases = sum(ADMITTED), len(PULLS)
    local = SPREAD * rng.normal(size=(TRIALS, ARMS, clients))
    shape = (TRIALS, ARMS, clients)
    nothing = np.zeros(shape)
    seen = Seen(nothing, nothing, nothing, nothing)
    trend = Trend.nothing(ARMS)
    found = np.zeros(TRIALS, dtype=np.bool_)
    inside = np.zeros(clients, dtype=np.bool_)
    for phase in range(n_phases):
        new = slice(sum(ADMITTED[:phase]), sum(ADMITTED[: phase + 1]))
        n = PULLS[phase] * (inside | (np.arange(clients) < sum(ADMITTED[: phase + 1])))
        means = local + rng.normal(size=shape) * math.sqrt(SIGMA**2 / PULLS[phase] + noise)
        means[:, 0] += drift * (phase >= since)
        means += np.where(inside, bias, -bias)
        inside[new] = True
        now = Seen(
            seen.counts + n,
            seen.sums + n * means,
            seen.variances + declared * n**2 * noise,
            seen.biases + declared * n * bias,
        )
        trend, seen = trend.after(seen, now), now
        found |= (np.abs(trend.change) > trend.widths(sigma, phase + 1)).any(axis=-1)
    return int(found.sum())


def test_options_that_do_not_change_are_seldom_suspected() -> None:
    assert is_kept(alarms(1), TRIALS, LEVEL)
    # A noise that is larger than was assumed is noticed.
    assert not is_kept(alarms(1, sigma=SIGMA / 2), TRIALS, LEVEL)


@pytest.mark.parametrize(("drift", "since"), [(0.2, 4), (-0.2, 4), (0.25, 2), (-0.25, 2)])
def test_a_change_by_half_the_noise_is_found(drift: float, since: int) -> None:
    """Slowly or early, for better or worse: a novelty that wears off is a change for worse."""
    assert alarms(2, drift=drift, since=since) >= 0.95 * TRIALS


@pytest.mark.parametrize(("noise", "bias"), [(0.1, 0.0), (0.0, 0.05), (0.1, 0.05)])
def test_protected_means_are_not_taken_for_a_change(noise: float, bias: float) -> None:
    """Worst errors: rounded down at first and up later."""
    assert is_kept(alarms(4, noise=noise, bias=bias), TRIALS, LEVEL)
    assert not is_kept(alarms(4, noise=noise, bias=bias, declared=False), TRIALS, LEVEL)


def test_clients_that_differ_and_join_later_are_no_change() -> None:
    def of(counts: list[float], means: list[float]) -> Seen:
        n: FloatArray = np.array([counts])
        return Seen(n, n * np.array([means]), np.zeros((1, 2)), np.zeros((1, 2)))

    trend = Trend.nothing(1).after(of([10, 0], [0.1, 0.0]), of([20, 10], [0.1, 0.9]))
    assert trend.change == 0.0
    assert np.isinf(Trend.nothing(1).widths(SIGMA, 1)).all()
    assert trend.widths(SIGMA, 1) < replace(trend, weight=trend.weight / 2).widths(SIGMA, 1)


@pytest.mark.parametrize("value", [0.1, 1000.1, -1e6 / 3])
def test_outcomes_that_are_always_the_same_do_not_change_by_rounding(value: float) -> None:
    """Without noise the limit is no more than what sums in floating point may be off by."""
    nothing = np.zeros((ARMS, 1))
    seen, trend = Seen(nothing, nothing, nothing, nothing), Trend.nothing(ARMS)
    for phase in range(1, 100):
        now = Seen(seen.counts + 7, seen.sums + 7 * value, nothing, nothing)
        trend, seen = trend.after(seen, now), now
        assert (np.abs(trend.change) <= trend.widths(0.0, phase)).all()
    now = Seen(seen.counts + 7, seen.sums + 7 * value * (1 + 1e-9), nothing, nothing)
    trend = trend.after(seen, now)
    assert (np.abs(trend.change) > trend.widths(0.0, 100)).all()
