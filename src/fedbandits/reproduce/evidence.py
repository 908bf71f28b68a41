"""Tests of the paper's sentences: larger, smaller, about equal, often, seldom.

Each test gives two p-values: how surprising the measurements would be if the sentence were not
true, and how surprising if it were. Means are compared by normal approximations on independent
replications.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from fedbandits.rules.arrays import BoolArray, FloatArray

ABOUT_EQUAL = 0.10
"""“About equal” is within this part of the second quantity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What measurements say of a sentence.

    Parameters
    ----------
    measured : str
        The quantities, with 95 % confidence intervals.
    for_it, against_it : float
        p-values: small ``for_it`` shows the sentence true, small ``against_it`` shows it false.
    """

    measured: str
    for_it: float
    against_it: float


def _interval(values: FloatArray) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(values.size))


def _shown(name: str, mean: float, error: float) -> str:
    return f"{name}: {mean:,.0f} ± {1.96 * error:,.0f}"


def less(a: FloatArray, b: FloatArray, names: tuple[str, str]) -> Evidence:
    """Return the evidence that the mean of ``a`` is below that of ``b``.

    Examples
    --------
    >>> found = less(np.arange(50.0), np.arange(50.0) + 30, ("a", "b"))
    >>> found.measured, found.for_it < 0.001, found.against_it > 0.999
    ('a: 24 ± 4, b: 54 ± 4', True, True)
    """
    (mean_a, error_a), (mean_b, error_b) = _interval(a), _interval(b)
    z = (mean_b - mean_a) / math.hypot(error_a, error_b)
    return Evidence(
        measured=f"{_shown(names[0], mean_a, error_a)}, {_shown(names[1], mean_b, error_b)}",
        for_it=float(stats.norm.sf(z)),
        against_it=float(stats.norm.cdf(z)),
    )


def about_equal(a: FloatArray, b: FloatArray, names: tuple[str, str]) -> Evidence:
    """Return the evidence that the mean of ``a`` is within 10 % of that of ``b``.

    Two one-sided tests on mean(a) − (1 ± 0.1) mean(b); against it, the nearer of the two reversed,
    doubled.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> a, b = rng.normal(100, 10, 400), rng.normal(102, 10, 400)
    >>> about_equal(a, b, ("a", "b")).for_it < 0.001
    True
    """
    (mean_a, error_a), (mean_b, error_b) = _interval(a), _interval(b)
    tails = []
    for factor in (1 - ABOUT_EQUAL, 1 + ABOUT_EQUAL):
        z = (mean_a - factor * mean_b) / math.hypot(error_a, factor * error_b)
        tails.append(z)
    low, high = tails
    percent = 100 * (mean_a / mean_b - 1)
    both = f"{_shown(names[0], mean_a, error_a)}, {_shown(names[1], mean_b, error_b)}"
    return Evidence(
        measured=f"{both} ({percent:+.1f} %)",
        for_it=float(max(stats.norm.sf(low), stats.norm.cdf(high))),
        against_it=float(min(1.0, 2 * min(stats.norm.cdf(low), stats.norm.sf(high)))),
    )


def less_in_the_middle(a: FloatArray, b: FloatArray, names: tuple[str, str]) -> Evidence:
    """Return the evidence that the median of ``a`` is below that of ``b``.

    A median's 95 % interval lies between order statistics (binomial); its half-width stands for
    1.96 standard errors.

    Examples
    --------
    >>> found = less_in_the_middle(np.arange(99.0), np.arange(99.0) + 50, ("a", "b"))
    >>> found.measured, found.for_it < 0.001
    ('median of a: 49 (39 to 59), of b: 99 (89 to 109)', True)
    """
    middles, errors, shown = [], [], []
    for values, name in zip((a, b), names, strict=True):
        ordered = np.sort(values)
        reach = 1.96 * math.sqrt(values.size) / 2
        low = ordered[max(0, math.floor((values.size - 1) / 2 - reach))]
        high = ordered[min(values.size - 1, math.ceil((values.size - 1) / 2 + reach))]
        middles.append(float(np.median(ordered)))
        errors.append(max(float(high - low) / (2 * 1.96), np.finfo(float).tiny))
        shown.append(f"of {name}: {middles[-1]:,.0f} ({low:,.0f} to {high:,.0f})")
    z = (middles[1] - middles[0]) / math.hypot(*errors)
    return Evidence(
        measured=f"median {', '.join(shown)}",
        for_it=float(stats.norm.sf(z)),
        against_it=float(stats.norm.cdf(z)),
    )


def seldomer(a: BoolArray, b: BoolArray, names: tuple[str, str], what: str) -> Evidence:
    """Return the evidence that something happens in a smaller share of ``a`` than of ``b``.

    Fisher's exact test.

    Examples
    --------
    >>> often, seldom = np.arange(100) < 30, np.arange(100) < 5
    >>> found = seldomer(seldom, often, ("a", "b"), "lost")
    >>> found.measured, found.for_it < 0.001
    ('lost: a in 5.00 %, b in 30.00 %', True)
    """
    counts = np.array([[x.sum(), (~x).sum()] for x in (a, b)])
    shares = (f"{name} in {100 * x.mean():.2f} %" for name, x in zip(names, (a, b), strict=True))
    return Evidence(
        measured=f"{what}: {', '.join(shares)}",
        for_it=float(stats.fisher_exact(counts, alternative="less").pvalue),
        against_it=float(stats.fisher_exact(counts, alternative="greater").pvalue),
    )


def rate_below(happened: BoolArray, most: float, name: str) -> Evidence:
    """Return the evidence that something happens in less than a share ``most`` of all games.

    Examples
    --------
    >>> rate_below(np.zeros(1000, dtype=bool), 0.01, "lost").measured
    'lost in 0.00 % (0.00 to 0.37 %) of 1,000'
    """
    n, k = happened.size, int(happened.sum())
    exact = stats.binomtest(k, n)
    interval = exact.proportion_ci(0.95, method="exact")
    share = f"{100 * k / n:.2f} % ({100 * interval.low:.2f} to {100 * interval.high:.2f} %)"
    return Evidence(
        measured=f"{name} in {share} of {n:,}",
        for_it=float(stats.binomtest(k, n, most, alternative="less").pvalue),
        against_it=float(stats.binomtest(k, n, most, alternative="greater").pvalue),
    )


def rate_above(happened: BoolArray, least: float, name: str) -> Evidence:
    """Return the evidence that something happens in more than a share ``least`` of all games."""
    below = rate_below(happened, least, name)
    return Evidence(measured=below.measured, for_it=below.against_it, against_it=below.for_it)


def steeper(
    a: tuple[FloatArray, FloatArray], b: tuple[FloatArray, FloatArray], names: tuple[str, str]
) -> Evidence:
    """Return the evidence that the mean grows by a larger factor in ``a`` than in ``b``.

    Each is a pair (from, to); ratios are compared on the logarithmic scale by the delta method.
    """
    growth, variance = [], 0.0
    for start, end in (a, b):
        (mean_0, error_0), (mean_1, error_1) = _interval(start), _interval(end)
        growth.append(math.log(mean_1 / mean_0))
        variance += (error_0 / mean_0) ** 2 + (error_1 / mean_1) ** 2
    z = (growth[0] - growth[1]) / math.sqrt(variance)
    shown = ", ".join(
        f"{name}: × {math.exp(value):.2f}" for name, value in zip(names, growth, strict=True)
    )
    return Evidence(
        measured=shown, for_it=float(stats.norm.sf(z)), against_it=float(stats.norm.cdf(z))
    )


def certain(holds: bool, measured: str) -> Evidence:
    """Return the evidence of a fact that was computed, not sampled."""
    return Evidence(measured=measured, for_it=float(not holds), against_it=float(holds))


def holm(p_values: list[float], level: float) -> list[bool]:
    """Return which hypotheses Holm's method rejects at a level over all of them.

    Examples
    --------
    >>> holm([0.001, 0.04, 0.02], level=0.05)
    [True, True, True]
    >>> holm([0.001, 0.04, 0.03], level=0.05)
    [True, False, False]
    """
    rejected = [False] * len(p_values)
    for rank, i in enumerate(np.argsort(p_values, kind="stable").tolist()):
        if p_values[i] > level / (len(p_values) - rank):
            break
        rejected[i] = True
    return rejected
