r"""Pilot data: σ and σ_c, estimated from a few clients' observations.

The noise is pooled within all (client, arm) cells: :math:`\hat\sigma^2 = \sum (n_{km} - 1)
s_{km}^2 / \sum (n_{km} - 1)`, with a chi-square interval. The spread is, for each arm, the
between-clients variance of a one-way random-effects model after DerSimonian and Laird (1986),
averaged over arms. Its interval is the Q-profile (Viechtbauer, 2007) over all arms together: the
σ_c for which :math:`Q = \sum_k \sum_m (y_{km} - \bar y_k)^2 / (\sigma_c^2 + \sigma^2 / n_{km})`,
with its weighted means, is where chi-square says it should be. Both are for normal observations,
and the second for arms that are independent and have one spread.

Clients that look alike may still differ. The upper end of the spread is therefore never
0: it is the value at which so small a Q is 40 times less likely than for clients that are alike,
:math:`F(Q(\sigma_c)) / F(Q(0)) = 0.025`, as physicists set limits on what they have not seen (Read,
2002). That is above the Q-profile's, and nearly the same if a spread is visible. σ, which is
estimated itself, is taken at the end of its interval that makes the interval of σ_c wider.
"""

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from scipy import optimize

from fedbandits.errors import LARGEST, InputError, file_errors
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.variance_components import dersimonian_laird

LEVEL = 0.95
"""Of the intervals."""

_VALUES = ("client", "arm", "value")
_SUMMARIES = ("client", "arm", "count", "mean", "sd")
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
        How many there were.
    """

    noise: Interval
    spread: Interval
    clients: int
    arms: int
    observations: int


_Part: TypeAlias = tuple[float, float, float]
"""The count, the mean and the sum of squares around it of some pulls."""

_Arm: TypeAlias = tuple[FloatArray, FloatArray]
"""The counts and means of the clients that have pulled an arm."""


def read_pilot(path: str | Path) -> Pilot:
    """Return the estimates of a file.

    Parameters
    ----------
    path : str or Path
        A CSV file with a header: ``client, arm, value``, one row per observation, or ``client, arm,
        count, mean, sd``, one row per client and arm.

    Raises
    ------
    InputError
        If it cannot be read; the message names the line.
    """
    path = Path(path)
    try:
        with (
            file_errors(path, "cannot be read"),
            path.open(encoding="utf-8-sig", newline="") as file,
        ):
            return _read(str(path), csv.reader(file))
    except UnicodeDecodeError as error:
        raise InputError(str(path), f"is not UTF-8 text: {error.reason}") from None
    except csv.Error as error:
        raise InputError(str(path), f"is not a CSV file: {error}") from None


def _read(name: str, reader: Any) -> Pilot:
    header = [cell.strip().lower() for cell in next(reader, [])]
    if not any(set(kind) <= set(header) for kind in (_VALUES, _SUMMARIES)):
        found, values, summaries = map(", ".join, (header, _VALUES, _SUMMARIES))
        needed = f"a pilot file has {values}, or {summaries}"
        raise InputError(f"{name}:1", f'the columns are "{found}"; {needed}')
    single = "value" in header
    arms: dict[str, dict[str, list[_Part]]] = {}
    for row in reader:
        if not any(cell.strip() for cell in row):
            continue
        where = f"{name}:{reader.line_num}"
        if len(row) != len(header):
            wrong = f"{len(row)} cells, but the header has {len(header)}; give one per column"
            raise InputError(where, wrong)
        fields = dict(zip(header, (cell.strip() for cell in row), strict=True))
        for column in ("client", "arm"):
            if not fields[column]:
                raise InputError(f"{where}: {column}", "is empty; name one")
        client, arm = fields["client"], fields["arm"]
        parts = arms.setdefault(arm, {}).setdefault(client, [])
        if parts and not single:
            raise InputError(where, f'client "{client}" has arm "{arm}" twice; give one row')
        parts.append(_observed(where, fields, single=single))
    if not arms:
        raise InputError(name, "has no rows below its header; give some observations")
    return _estimate(name, arms)


def _observed(where: str, fields: dict[str, str], *, single: bool) -> _Part:
    """Return what a row says."""
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
    if not abs(value) <= LARGEST:
        raise InputError(f"{where}: {key}", f'"{text}" is not a number; write it as 0.75 or 1e-3')
    return value


def _estimate(name: str, arms: Mapping[str, Mapping[str, Sequence[_Part]]]) -> Pilot:
    seen: list[_Arm] = []
    squares = 0.0
    for cells in arms.values():
        n = np.array([sum(count for count, *_ in cell) for cell in cells.values()])
        sums = [sum(count * mean for count, mean, _ in cell) for cell in cells.values()]
        y = np.array(sums) / n
        squares += sum(
            around + count * (mean - y[i]) ** 2
            for i, cell in enumerate(cells.values())
            for count, mean, around in cell
        )
        seen.append((n, y))
    freedom = sum(float((n - 1).sum()) for n, _ in seen)
    several = [(n, y) for n, y in seen if n.size > 1]
    for wrong, problem in (
        (freedom < 1, "no client pulled an arm twice, so the noise cannot be seen; give more"),
        (not several, "no arm was pulled by two clients, so the spread cannot be seen; give more"),
        (squares <= 0, "all pulls of a client gave the same value: there is no noise to be seen"),
    ):
        if wrong:
            raise InputError(name, problem)
    noise = _noise(squares, freedom)
    return Pilot(
        noise=noise,
        spread=_spread(several, noise),
        clients=len({client for cells in arms.values() for client in cells}),
        arms=len(arms),
        observations=int(sum(float(n.sum()) for n, _ in seen)),
    )


def _noise(squares: float, freedom: float) -> Interval:
    """Return σ with its chi-square interval."""
    from scipy import stats  # noqa: PLC0415 - slow to import

    low, high = stats.chi2.interval(LEVEL, freedom)
    return Interval(
        estimate=math.sqrt(squares / freedom),
        low=math.sqrt(squares / high),
        high=math.sqrt(squares / low),
    )


def _spread(arms: Sequence[_Arm], noise: Interval) -> Interval:
    """Return σ_c after DerSimonian and Laird, averaged over arms, with its interval."""
    from scipy import stats  # noqa: PLC0415 - slow to import

    between = [float(dersimonian_laird(n, y, noise.estimate**2)) for n, y in arms]
    freedom = float(sum(n.size - 1 for n, _ in arms))
    # Cut off at 0 after averaging: before, it would be too large on average.
    estimate = max(0.0, float(np.mean(between)))
    tail = (1 - LEVEL) / 2
    low = _solve(
        lambda square: _distance(arms, square, noise.high**2), float(stats.chi2.isf(tail, freedom))
    )

    def log_chance(square: float) -> float:
        """Return how likely so small a distance is, as a logarithm."""
        return float(stats.chi2.logcdf(_distance(arms, square, noise.low**2), freedom))

    high = _solve(log_chance, log_chance(0.0) + math.log(tail))
    return Interval(
        estimate=math.sqrt(estimate),
        low=math.sqrt(min(low, estimate)),
        high=math.sqrt(max(high, estimate)),
    )


def _distance(arms: Sequence[_Arm], square: float, variance: float) -> float:
    """Return Q for a spread and noise of these squares."""
    total = 0.0
    for n, y in arms:
        weights = 1.0 / (square + variance / n)
        # Means that agree to the last digit were rounded.
        scatter = (y - np.average(y, weights=weights)) ** 2 + _ROUNDED * variance
        total += float((weights * scatter).sum())
    return total


def _solve(falling: Callable[[float], float], wanted: float) -> float:
    """Return where a falling function reaches a value; 0 if it starts below it."""
    if falling(0.0) <= wanted:
        return 0.0
    high = 1e-12
    while falling(high) > wanted:
        high *= 4.0
    return float(optimize.brentq(lambda square: falling(square) - wanted, 0.0, high, xtol=1e-15))
