"""Regret against slot, as charts: totals, and the two parts they are made of."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle

import numpy as np

from fedbandits.report.chart import NORMAL_95, Axis, Chart, Plot, Series
from fedbandits.report.palette import FAINT, PALETTE, ColourOf
from fedbandits.rules.algorithms import ALGORITHMS
from fedbandits.rules.arrays import FloatArray
from fedbandits.simulation.tables import REGRETS, Table

LOG_RATIO = 20.0
"""How far apart regrets lie before a logarithmic axis is the better one."""

# A curve with nearly all of its regret in so early a part of the slots is flat on a linear axis.
_NEARLY_ALL, _EARLY, _BEGUN = 0.9, 0.02, 0.02

PART, YARDSTICK = (4.0, 1.6), (1.0, 1.6)
"""How the exploration part of a total and the slope of a lower bound are drawn, in line widths."""

# With more than so many, curves would be lost between them.
_MOST_YARDSTICKS = 2


@dataclass(frozen=True, slots=True)
class Curve:
    """Mean regret against slot, from (0, 0) on."""

    slot: FloatArray
    mean: FloatArray
    stderr: FloatArray | None

    @property
    def end(self) -> float:
        """The regret at the horizon."""
        return float(self.mean[-1])

    def reached(self, share: float) -> float:
        """Return the first slot with so large a share of the regret at the horizon."""
        return float(self.slot[1:][self.mean[1:] >= share * self.end][0])

    def series(self, label: str, colour: str) -> Series:
        """Return it with the 95 % confidence band of the mean, if there is one."""
        half = None if self.stderr is None else (NORMAL_95 * self.stderr).tolist()
        x, y = self.slot.tolist(), self.mean.tolist()
        return Series(label, x, y, colour, half=half, band=True)

    def part(self, label: str, colour: str) -> Series:
        """Return it as the exploration part of a variant's total: dashed, without a band."""
        whole = self.series(f"{label}, without communication", colour)
        return replace(whole, half=None, band=False, width=1.2, dash=PART)


def curves_by_variant(table: Table) -> dict[str, dict[str, Curve]]:
    """Return the curves of a table by variant and regret, variants in their order."""
    rows: dict[str, dict[str, list[int]]] = {}
    for row, (label, regret) in enumerate(zip(table["variant"], table["regret"], strict=True)):
        rows.setdefault(label, {}).setdefault(regret, []).append(row)
    return {
        label: {regret: _curve(table, places) for regret, places in regrets.items()}
        for label, regrets in rows.items()
    }


def _curve(table: Table, rows: Sequence[int]) -> Curve:
    errors = [table["stderr"][row] for row in rows]
    return Curve(
        slot=np.array([0.0, *(table["slot"][row] for row in rows)]),
        mean=np.array([0.0, *(table["mean"][row] for row in rows)]),
        stderr=None if None in errors else np.array([0.0, *errors]),
    )


# For so many variants it is still readable to show regret with and without communication.
_MOST_SPLIT = 2


def shown_in_parts(labels: Sequence[str], algorithms: Sequence[str]) -> tuple[str, ...]:
    """Return the variants whose exploration part stands beside their total, as in the paper.

    They are those of algorithms that say so (`Algorithm.shown_in_parts`), if these are few.

    Parameters
    ----------
    labels, algorithms
        As in `fedbandits.report.palette.colours`.

    Examples
    --------
    >>> shown_in_parts(["M = 5", "M = 10", "base"], ["fed1-ucb", "fed1-ucb", "authors-baseline"])
    ('M = 5', 'M = 10')
    >>> shown_in_parts(["f = 10", "f = 50", "f = 100"], ["fed2-ucb"] * 3)
    ()
    """
    found = tuple(
        label
        for label, algorithm in zip(labels, algorithms, strict=True)
        if algorithm in ALGORITHMS and ALGORITHMS[algorithm].shown_in_parts
    )
    return found if len(found) <= _MOST_SPLIT else ()


def regret_charts(
    curves: Table,
    title: str,
    *,
    colour_of: ColourOf | None = None,
    in_parts: Collection[str] = (),
    slopes: Collection[float] = (),
) -> dict[str, Chart]:
    """Return regret against slot, total first: means, with a 95 % confidence band of each mean.

    When totals differ by more than a factor of 20 the axis is logarithmic.

    Parameters
    ----------
    curves : Table
        From `fedbandits.simulation.tables.curves_table`.
    title : str
        What the chart is headed with.
    colour_of : mapping, optional
        The colour of every label, see `fedbandits.report.palette.colours`; in the order of variants
        by default.
    in_parts : collection of str
        Labels of variants whose exploration part is also drawn beside the total, as a dashed line,
        if they pay for communication; see `shown_in_parts`.
    slopes : collection of float
        Of lower bounds on regret: slope times log t is drawn beside the totals, as a yardstick,
        unless there are more than two.

    Examples
    --------
    >>> table = {
    ...     "variant": ["demo"] * 2, "regret": ["total"] * 2, "slot": [50, 100],
    ...     "mean": [8.0, 9.0], "stderr": [0.5, 0.6],
    ... }
    >>> [line] = regret_charts(table, "A demonstration")["total"].panels[0].series
    >>> line.label, line.y, line.half
    ('demo', [0.0, 8.0, 9.0], [0.0, 0.98, 1.176])
    """
    variants = curves_by_variant(curves)
    colour_of = colour_of or dict(zip(variants, cycle(PALETTE), strict=False))
    parts = {
        label: each["exploration"]
        for label, each in variants.items()
        if label in in_parts and each["communication"].end > 0
    }
    lines = [] if len(slopes) > _MOST_YARDSTICKS else sorted(slopes)
    charts = {}
    for regret in REGRETS:
        if all(regret in each for each in variants.values()):
            found = {label: each[regret] for label, each in variants.items()}
            beside = (parts, lines) if regret == "total" else ({}, [])
            shown = _chart(regret, found, *beside, colour_of)
            charts[regret] = replace(shown, title=title)
    return charts


def _yardstick(slope: float, slot: FloatArray) -> Series:
    """Return slope times log t, which no consistent rule can stay below for ever."""
    # The product stays in one line.
    label = f"lower bound, as a yardstick: {slope:,.4g}\u00a0·\u00a0log\u00a0t"
    y = (slope * np.log(np.maximum(slot, 1.0))).tolist()
    return Series(label, slot.tolist(), y, FAINT, width=1.4, dash=YARDSTICK)


def _chart(
    regret: str,
    found: Mapping[str, Curve],
    parts: Mapping[str, Curve],
    slopes: Sequence[float],
    colour_of: ColourOf,
) -> Chart:
    logarithmic = is_logarithmic(curve.end for curve in found.values())
    series = []
    for label, curve in found.items():
        series.append(curve.series(label, colour_of[label]))
        if label in parts:
            series.append(parts[label].part(label, colour_of[label]))
    slots = max((curve.slot for curve in found.values()), key=lambda slot: float(slot[-1]))
    series += [_yardstick(slope, slots) for slope in slopes]
    ends = [one.interval() for one in series]
    highest = max(
        max(one.y if end is None else end[1]) for one, end in zip(series, ends, strict=True)
    )
    low, high = 0.0, 1.04 * highest or 1.0
    if logarithmic:
        # From where the lowest curve begins: what lies below it is no regret at all.
        lowest = min(float(c.mean[c.mean > 0].min()) for c in found.values() if c.end > 0)
        low, high = lowest / 1.3, 1.3 * highest
    enlarged = None
    if parts and logarithmic:
        # A logarithmic axis squeezes a total and its part together.
        least = min(part.end for part in parts.values())
        most = max(found[label].end for label in parts)
        enlarged = (least - 0.4 * (most - least), most + 0.3 * (most - least))
    name = "regret" if regret == "total" else f"{regret} regret"
    up = Axis(f"{name} (total over clients)", log=logarithmic, low=low, high=high)
    plot = Plot(_slots(list(found.values())), up, series, enlarged=enlarged)
    key = _key(
        bands=any(end is not None for end in ends), parts=bool(parts), yardstick=bool(slopes)
    )
    return Chart(name, [plot], key=key, legend="ends")


def _slots(curves: Sequence[Curve]) -> Axis:
    """Return the axis of slots: logarithmic if a curve is flat after a small part of them."""
    horizon = max(float(curve.slot[-1]) for curve in curves)
    rising = [curve for curve in curves if curve.end > 0]
    if not any(curve.reached(_NEARLY_ALL) <= _EARLY * horizon for curve in rising):
        return Axis("slot t", low=0.0, high=horizon)
    begin = min(curve.reached(_BEGUN) for curve in rising)
    return Axis("slot t", log=True, low=begin, high=horizon)


def _key(*, bands: bool, parts: bool, yardstick: bool) -> str:
    """Return what lines and bands are, in a line below the title."""
    said = ["one replication, so there is no confidence band"]
    if bands:
        said = ["line: mean of the replications", "band: 95 % confidence interval of the mean"]
    said += ["dashed: exploration regret alone"] if parts else []
    said += ["dotted: a bound only in the limit"] if yardstick else []
    return "; ".join(said)


def is_logarithmic(values: Iterable[float]) -> bool:
    """Return whether positive values lie so far apart that a linear axis would hide some.

    Examples
    --------
    >>> is_logarithmic([1.0, 15.0]), is_logarithmic([1.0, 25.0]), is_logarithmic([0.0, 25.0])
    (False, True, False)
    """
    positive = [value for value in values if value > 0]
    return len(positive) > 1 and max(positive) > LOG_RATIO * min(positive)
