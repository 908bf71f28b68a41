"""Tests of the paper's sentences: larger, smaller, about equal, often, seldom.

Each test gives two p-values: how surprising the measurements would be if the sentence were not
true, and how surprising if it were.

Means are compared by Student's t on differences within a replication. Variants of one problem share
their random draws and two regrets of one game share the game, so replications are pairs. If they
share nothing, a pair is two independent games, and the test is as valid. Two runs of different
length are compared on the games that both have. Shares of two runs are compared as if independent,
by Fisher's exact test: what shares its draws makes that test conservative.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

from fedbandits.experiments.game_means import GameMean, game_mean, ratio_of
from fedbandits.report.chart import NORMAL_95
from fedbandits.rules.arrays import BoolArray, FloatArray

ABOUT_EQUAL = 0.10
"""“About equal” is within this part of the second quantity."""

FEWEST_GAMES = 100
"""Fewer games give no verdict: t is exact for normal quantities only, and regrets are skewed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What measurements say of a sentence.

    Parameters
    ----------
    measured : str
        The quantities, with 95 % confidence intervals.
    for_it, against_it : float
        p-values: small ``for_it`` shows the sentence true, small ``against_it`` shows it false.
    games : int, optional
        How many replications were compared; None for what was computed and not sampled.
    numbers : sequence of dict
        The same quantities as numbers: ``name``, ``n``, the estimate (``mean``, ``median``,
        ``share``, ``ratio`` or ``growth``), the ends of its interval ``low`` and ``high``, and
        ``stderr`` where it has one.
    """

    measured: str
    for_it: float
    against_it: float
    games: int | None = None
    numbers: Sequence[dict[str, Any]] = ()

    @property
    def enough(self) -> bool:
        """Whether it is worth a verdict."""
        return self.games is None or self.games >= FEWEST_GAMES


def _common(*runs: FloatArray) -> list[FloatArray]:
    """Return the games that all runs have."""
    n = min(run.size for run in runs)
    return [run[:n] for run in runs]


def _numbers(name: str, kind: str, found: GameMean) -> dict[str, Any]:
    """Return an estimate of some kind as numbers with a name."""
    low, high = found.interval
    error = {"stderr": found.error}
    return {"name": name, "n": found.n, kind: found.value, **error, "low": low, "high": high}


def _means(runs: Sequence[FloatArray], names: Sequence[str]) -> tuple[str, list[dict[str, Any]]]:
    """Return the means of runs, in words and as numbers."""
    found = {name: game_mean(run) for name, run in zip(names, runs, strict=True)}
    said = ", ".join(f"{name}: {mean.shown()}" for name, mean in found.items())
    return said, [_numbers(name, "mean", mean) for name, mean in found.items()]


def less(a: FloatArray, b: FloatArray, names: tuple[str, str], *, factor: float = 1.0) -> Finding:
    """Test whether the mean of ``a``, times a factor, is below that of ``b``.

    Examples
    --------
    >>> found = less(np.arange(50.0), np.arange(50.0)[::-1] + 30, ("a", "b"))
    >>> found.measured, found.for_it < 0.001, found.against_it > 0.999
    ('a: 24.5 ± 4.1, b: 54.5 ± 4.1', True, True)
    >>> less(np.arange(50.0), np.arange(50.0)[::-1] + 30, ("a", "b"), factor=3).for_it > 0.9
    True
    """
    a, b = _common(a, b)
    measured, numbers = _means((a, b), names)
    if factor != 1:
        ratio = ratio_of(b, a)
        measured += f" (× {ratio.shown()})"
        numbers.append(_numbers("ratio", "ratio", ratio))
    return Finding(measured, *game_mean(b - factor * a).tails(), a.size, numbers)


def about_equal(a: FloatArray, b: FloatArray, names: tuple[str, str]) -> Finding:
    """Test whether the mean of ``a`` is within 10 % of that of ``b``.

    Two one-sided tests on mean(a) − (1 ± 0.1) mean(b); against it, the nearer of the two reversed,
    doubled.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> a, b = rng.normal(100, 10, 400), rng.normal(102, 10, 400)
    >>> found = about_equal(a, b, ("a", "b"))
    >>> found.measured, found.for_it < 0.001
    ('a: 99.18 ± 0.90, b: 101.5 ± 1.0 (-2.2 ± 1.3 %)', True)
    """
    a, b = _common(a, b)
    measured, numbers = _means((a, b), names)
    low, high = (game_mean(a - factor * b).tails() for factor in (1 - ABOUT_EQUAL, 1 + ABOUT_EQUAL))
    ratio = ratio_of(a, b)
    percent = GameMean(100 * (ratio.value - 1), 100 * ratio.error, ratio.n)
    return Finding(
        f"{measured} ({percent.shown(sign=True)} %)",
        max(low[0], high[1]),
        min(1.0, 2 * min(low[1], high[0])),
        a.size,
        [*numbers, _numbers("ratio", "ratio", ratio)],
    )


def less_in_the_middle(a: FloatArray, b: FloatArray, names: tuple[str, str]) -> Finding:
    """Test whether the median of ``a`` is below that of ``b``.

    A median's 95 % interval lies between order statistics (binomial); its half-width stands for
    1.96 standard errors. Medians of pairs are correlated as the signs of what is above and below.

    Examples
    --------
    >>> found = less_in_the_middle(np.arange(99.0), np.arange(99.0)[::-1] + 50, ("a", "b"))
    >>> found.measured, found.for_it < 0.001
    ('median of a: 49 (39 to 59), of b: 99 (89 to 109)', True)
    """
    a, b = _common(a, b)
    middles, errors, shown, numbers = [], [], [], []
    for values, name in zip((a, b), names, strict=True):
        ordered = np.sort(values)
        reach = NORMAL_95 * math.sqrt(values.size) / 2
        low = float(ordered[max(0, math.floor((values.size - 1) / 2 - reach))])
        high = float(ordered[min(values.size - 1, math.ceil((values.size - 1) / 2 + reach))])
        middle = float(np.median(ordered))
        middles.append(middle)
        errors.append(max((high - low) / (2 * NORMAL_95), np.finfo(float).tiny))
        shown.append(f"of {name}: {middle:,.0f} ({low:,.0f} to {high:,.0f})")
        found = {"name": f"median of {name}", "n": values.size, "median": middle}
        numbers.append({**found, "low": low, "high": high})
    signs = np.sign([a - middles[0], b - middles[1]])
    together = float((signs[0] * signs[1]).mean())
    variance = errors[0] ** 2 + errors[1] ** 2 - 2 * together * errors[0] * errors[1]
    # Of the same games exactly, nothing is left.
    z = (middles[1] - middles[0]) / max(math.sqrt(max(variance, 0.0)), min(errors) / 100)
    for_it, against_it = float(stats.norm.sf(z)), float(stats.norm.cdf(z))
    return Finding(f"median {', '.join(shown)}", for_it, against_it, a.size, numbers)


def share_of(happened: BoolArray, name: str) -> dict[str, Any]:
    """Return how often something happened, with an exact 95 % interval (Clopper-Pearson).

    Examples
    --------
    >>> round(share_of(np.zeros(10_000, dtype=np.bool_), "never")["high"], 6)
    0.000369
    """
    k, n = int(happened.sum()), happened.size
    interval = stats.binomtest(k, n).proportion_ci(0.95, method="exact")
    low, high = float(interval.low), float(interval.high)
    return {"name": name, "n": n, "share": k / n, "low": low, "high": high}


def _in_percent(share: dict[str, Any]) -> str:
    value, low, high = (f"{100 * share[key]:.2f}" for key in ("share", "low", "high"))
    return f"{value} % ({low} to {high} %)"


def less_often(a: BoolArray, b: BoolArray, names: tuple[str, str], what: str) -> Finding:
    """Test whether something happens in a smaller share of ``a`` than of ``b``.

    Fisher's exact test.

    Examples
    --------
    >>> often, seldom = np.arange(100) < 30, np.arange(100) < 5
    >>> found = less_often(seldom, often, ("a", "b"), "lost")
    >>> found.measured, found.for_it < 0.001
    ('lost: a in 5.00 % (1.64 to 11.28 %), b in 30.00 % (21.24 to 39.98 %)', True)
    """
    counts = np.array([[x.sum(), (~x).sum()] for x in (a, b)])
    shares = [share_of(x, name) for name, x in zip(names, (a, b), strict=True)]
    shown = ", ".join(f"{share['name']} in {_in_percent(share)}" for share in shares)
    p_values = _of_both_sides(partial(stats.fisher_exact, counts))
    return Finding(f"{what}: {shown}", *p_values, min(a.size, b.size), shares)


def _of_both_sides(test: Callable[..., Any]) -> tuple[float, float]:
    """Return p-values of a test: for less, and for more."""
    less, more = (float(test(alternative=side).pvalue) for side in ("less", "greater"))
    return less, more


def rate_below(happened: BoolArray, most: float, name: str) -> Finding:
    """Test whether something happens in less than a share ``most`` of all games.

    Examples
    --------
    >>> rate_below(np.zeros(1000, dtype=bool), 0.01, "lost").measured
    'lost in 0.00 % (0.00 to 0.37 %)'
    """
    n, share = happened.size, share_of(happened, name)
    p_values = _of_both_sides(partial(stats.binomtest, int(happened.sum()), n, most))
    return Finding(f"{name} in {_in_percent(share)}", *p_values, n, [share])


def rate_above(happened: BoolArray, least: float, name: str) -> Finding:
    """Test whether something happens in more than a share ``least`` of all games."""
    below = rate_below(happened, least, name)
    return replace(below, for_it=below.against_it, against_it=below.for_it)


def steeper(
    a: tuple[FloatArray, FloatArray], b: tuple[FloatArray, FloatArray], names: tuple[str, str]
) -> Finding:
    """Test whether the mean grows by a larger factor in ``a`` than in ``b``.

    Each is a pair (from, to); factors are compared on the logarithmic scale, by the delta method.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> start, twice, thrice = (rng.normal(mean, 10, 400) for mean in (100, 200, 300))
    >>> found = steeper((start, thrice), (start, twice), ("a", "b"))
    >>> found.measured, found.for_it < 0.001
    ('a: × 3.02 (2.99 to 3.05), b: × 2.01 (1.99 to 2.03), a / b: 1.50 (1.49 to 1.51)', True)
    """
    a_from, a_to, b_from, b_to = _common(*a, *b)
    n = a_from.size
    # Growth on the logarithmic scale, and terms whose mean is 0 and whose spread is that of it.
    first, second = (
        np.array([math.log(end.mean() / start.mean()), *(end / end.mean() - start / start.mean())])
        for start, end in ((a_from, a_to), (b_from, b_to))
    )
    logs = [
        GameMean(float(one[0]), game_mean(one[1:]).error, n)
        for one in (first, second, first - second)
    ]
    numbers, shown = [], []
    signs = ("× ", "× ", "")
    for name, sign, log in zip((*names, " / ".join(names)), signs, logs, strict=True):
        growth, low, high = map(math.exp, (log.value, *log.interval))
        numbers.append({"name": name, "n": n, "growth": growth, "low": low, "high": high})
        shown.append(f"{name}: {sign}{growth:.2f} ({low:.2f} to {high:.2f})")
    return Finding(", ".join(shown), *logs[-1].tails(), n, numbers)


def certain(holds: bool, measured: str) -> Finding:
    """Return a fact that was computed, not sampled."""
    return Finding(measured, float(not holds), float(holds))


def holm(p_values: list[float], level: float) -> list[bool]:
    """Return which hypotheses Holm's method rejects at a level over all of them.

    Examples
    --------
    >>> holm([0.001, 0.04, 0.02], level=0.05)
    [True, True, True]
    >>> holm([0.001, 0.04, 0.03], level=0.05)
    [True, False, False]
    """
    order = np.argsort(p_values, kind="stable")
    small = np.sort(p_values) <= level / np.arange(order.size, 0, -1)
    rejected = np.empty(order.size, dtype=np.bool_)
    rejected[order] = np.logical_and.accumulate(small)
    return [bool(one) for one in rejected]


def verdicts(found: Sequence[Finding], level: float) -> list[str]:
    """Return whether each sentence "holds", "fails", or is "undecided".

    Holm's method runs once over both questions of every sampled sentence, so that the probability
    of one wrong verdict or more is at most ``level``. What is computed is no part of it, nor what
    rests on fewer than `FEWEST_GAMES` games, which stays undecided.

    Examples
    --------
    >>> sure, few = certain(True, ""), less(np.arange(9.0), np.arange(9.0) + 9, ("a", "b"))
    >>> verdicts([sure, few], level=0.01)
    ['holds', 'undecided']
    """
    tested = [finding for finding in found if finding.enough and finding.games is not None]
    both = [p for finding in tested for p in (finding.for_it, finding.against_it)]
    shown = iter(holm(both, level))
    said = []
    for finding in found:
        if not finding.enough:
            said.append("undecided")
        elif finding.games is None:
            said.append("holds" if not finding.for_it else "fails")
        else:
            yes, no = next(shown), next(shown)
            said.append("holds" if yes else "fails" if no else "undecided")
    return said
