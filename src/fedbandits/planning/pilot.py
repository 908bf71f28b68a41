r"""Pilot data: σ and σ_c, estimated from a few clients' observations.

The noise is pooled within all (client, arm) cells: :math:`\hat\sigma^2 = \sum (n_{km} - 1)
s_{km}^2 / \sum (n_{km} - 1)`, with a chi-square interval. The spread is, for every arm, the
between-clients variance of a one-way random-effects model after DerSimonian and Laird (1986),
averaged over arms. Its interval is the Q-profile (Viechtbauer, 2007) over all arms together: the
σ_c for which :math:`Q = \sum_k \sum_m (y_{km} - \bar y_k)^2 / (\sigma_c^2 + \sigma^2 / n_{km})`,
with its weighted means, is where chi-square says it should be. Both are for normal observations,
and the second for arms that are independent and have one spread.

Clients that look alike are no proof that they are. The upper end of the spread is therefore never
0: it is where so small a Q has become 40 times less likely than it is for clients that are alike,
:math:`F(Q(\sigma_c)) / F(Q(0)) = 0.025`, as physicists set limits on what they have not seen (Read,
2002). That is above the Q-profile's, and nearly the same where a spread is visible. σ, which is
estimated itself, is taken at the end of its interval that makes the interval of σ_c wider.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import optimize, stats

from fedbandits.errors import InputError
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.variance_components import dersimonian_laird

LEVEL = 0.95
"""Of the intervals."""

_VALUES = ("client", "arm", "value")
_SUMMARIES = ("client", "arm", "count", "mean", "sd")
_MOST = 1e100
_ROUNDED = 1e-18


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate with its 95 % interval."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pilot:
    """What pilot data say.

    Parameters
    ----------
    noise, spread : Interval
        σ and σ_c; a plan takes the upper ends, which are never 0.
    clients, arms, observations : int
        How much there was.
    """

    noise: Interval
    spread: Interval
    clients: int
    arms: int
    observations: int


@dataclass(frozen=True, slots=True)
class _Cells:
    """Counts, means and sums of squares around them by arm, an entry a client that pulled it."""

    counts: list[FloatArray]
    means: list[FloatArray]
    squares: float
    freedom: float


def read_pilot(path: str | Path) -> Pilot:
    """Return the estimates of a file.

    Parameters
    ----------
    path : str or Path
        A CSV file with a header: ``client, arm, value``, a row an observation, or ``client, arm,
        count, mean, sd``, a row a client and arm.

    Raises
    ------
    InputError
        If it cannot be read; the message names the line.
    """
    path = Path(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return _read(str(path), csv.reader(file))
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(str(path), f"is not UTF-8 text: {error.reason}") from None
    except csv.Error as error:
        raise InputError(str(path), f"is not a CSV file: {error}") from None


def _read(name: str, reader: Any) -> Pilot:
    header = [cell.strip().lower() for cell in next(reader, [])]
    if not any(set(kind) <= set(header) for kind in (_VALUES, _SUMMARIES)):
        raise InputError(
            f"{name}:1",
            f'the columns are "{", ".join(header)}"; a pilot file has {", ".join(_VALUES)}, or '
            f"{', '.join(_SUMMARIES)}",
        )
    single = "value" in header
    cells: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for row in reader:
        if not any(cell.strip() for cell in row):
            continue
        where = f"{name}:{reader.line_num}"
        if len(row) != len(header):
            raise InputError(
                where, f"{len(row)} cells where the header has {len(header)}; one for each column"
            )
        fields = dict(zip(header, (cell.strip() for cell in row), strict=True))
        for column in ("client", "arm"):
            if not fields[column]:
                raise InputError(f"{where}: {column}", "is empty; name one")
        key = (fields["arm"], fields["client"])
        if not single and key in cells:
            raise InputError(
                where, f'client "{key[1]}" has arm "{key[0]}" twice; give one row for both'
            )
        cells.setdefault(key, []).append(_observed(where, fields, single=single))
    if not cells:
        raise InputError(name, "has no rows below its header; give some observations")
    arms: dict[str, list[list[tuple[float, float, float]]]] = {}
    for (arm, _), parts in cells.items():
        arms.setdefault(arm, []).append(parts)
    return _estimate(name, list(arms.values()), clients=len({client for _, client in cells}))


def _observed(where: str, fields: dict[str, str], *, single: bool) -> tuple[float, float, float]:
    """Return the count, mean and sum of squares of a row."""
    if single:
        return 1.0, _number(where, "value", fields["value"]), 0.0
    count = _number(where, "count", fields["count"])
    if count < 1 or count != int(count):
        raise InputError(f"{where}: count", f"{fields['count']} is not a whole number of pulls")
    mean = _number(where, "mean", fields["mean"])
    if count == 1 and not fields["sd"]:
        return count, mean, 0.0
    deviation = _number(where, "sd", fields["sd"])
    if deviation < 0:
        raise InputError(f"{where}: sd", f"{fields['sd']} is below 0; a deviation is not")
    return count, mean, (count - 1) * deviation**2


def _number(where: str, key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not abs(value) <= _MOST:
        raise InputError(f"{where}: {key}", f'"{text}" is not a number; write it as 0.75 or 1e-3')
    return value


def _estimate(
    name: str, arms: Sequence[Sequence[Sequence[tuple[float, float, float]]]], *, clients: int
) -> Pilot:
    counts, means, squares, freedom = [], [], 0.0, 0.0
    for of_arm in arms:
        n = np.array([sum(part[0] for part in cell) for cell in of_arm])
        y = np.array(
            [sum(part[0] * part[1] for part in cell) / n[i] for i, cell in enumerate(of_arm)]
        )
        squares += sum(
            part[2] + part[0] * (part[1] - y[i]) ** 2
            for i, cell in enumerate(of_arm)
            for part in cell
        )
        freedom += float((n - 1).sum())
        counts.append(n)
        means.append(y)
    found = _Cells(counts, means, squares, freedom)
    if freedom < 1:
        raise InputError(
            name, "no client pulled an arm twice, so the noise cannot be seen; give more pulls"
        )
    if max(len(n) for n in counts) < 2:
        raise InputError(
            name, "no arm was pulled by two clients, so the spread cannot be seen; give more"
        )
    if squares <= 0:
        raise InputError(
            name, "all pulls of a client gave the same value: there is no noise to be seen"
        )
    noise = _noise(found)
    return Pilot(
        noise=noise,
        spread=_spread(found, noise),
        clients=clients,
        arms=len(arms),
        observations=int(sum(float(n.sum()) for n in counts)),
    )


def _noise(cells: _Cells) -> Interval:
    """Return σ with its chi-square interval."""
    low, high = (
        float(stats.chi2.ppf(level, cells.freedom)) for level in ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
    )
    return Interval(
        estimate=math.sqrt(cells.squares / cells.freedom),
        low=math.sqrt(cells.squares / high),
        high=math.sqrt(cells.squares / low),
    )


def _spread(cells: _Cells, noise: Interval) -> Interval:
    """Return σ_c after DerSimonian and Laird, averaged over arms, with its interval."""
    many = [(n, y) for n, y in zip(cells.counts, cells.means, strict=True) if n.size > 1]
    between = [float(dersimonian_laird(n, y, noise.estimate**2)) for n, y in many]
    freedom = float(sum(n.size - 1 for n, _ in many))
    # Cut off at 0 after averaging: before, it would be too large on average.
    estimate = max(0.0, float(np.mean(between)))
    tail = (1 - LEVEL) / 2
    low = _solve(
        lambda square: _distance(many, square, noise.high**2), float(stats.chi2.isf(tail, freedom))
    )

    def log_chance(square: float) -> float:
        """Return how likely so small a distance is, as a logarithm."""
        return float(stats.chi2.logcdf(_distance(many, square, noise.low**2), freedom))

    high = _solve(log_chance, log_chance(0.0) + math.log(tail))
    return Interval(
        estimate=math.sqrt(estimate),
        low=math.sqrt(min(low, estimate)),
        high=math.sqrt(max(high, estimate)),
    )


def _distance(
    many: Sequence[tuple[FloatArray, FloatArray]], square: float, variance: float
) -> float:
    """Return Q for a spread and noise of these squares."""
    total = 0.0
    for n, y in many:
        weights = 1.0 / (square + variance / n)
        # Means that agree to the last digit were rounded.
        scatter = (y - np.average(y, weights=weights)) ** 2 + _ROUNDED * variance
        total += float((weights * scatter).sum())
    return total


def _solve(falling: Callable[[float], float], wanted: float) -> float:
    """Return where a falling function is so much; 0 if it is less from the start."""
    if falling(0.0) <= wanted:
        return 0.0
    high = 1e-12
    while falling(high) > wanted:
        high *= 4.0
    return float(optimize.brentq(lambda square: falling(square) - wanted, 0.0, high, xtol=1e-15))
