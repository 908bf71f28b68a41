"""What a sweep shows, as a chart: lines over one key, maps over two or three."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedbandits.report.chart import NORMAL_95, Axis, Chart, Heat, Plot, Series, named_axis
from fedbandits.report.palette import colours
from fedbandits.rules.arrays import FloatArray
from fedbandits.simulation.charts import is_logarithmic
from fedbandits.simulation.tables import quantity
from fedbandits.sweeps.cells import Cell
from fedbandits.sweeps.keys import in_words, is_choice, short_names
from fedbandits.sweeps.results import SweepResults
from fedbandits.sweeps.sweep import Sweep

MOST_KEYS = 3
"""More keys do not fit into a picture."""

# Colours end at this multiple of the least regret; and this many numbers fit into a map.
_MOST_TIMES, _MOST_NUMBERS = {True: 4.0, False: 10.0}, 64


def why_not_drawn(sweep: Sweep) -> str | None:
    """Return why there is no picture of a sweep, in words; None if there is one."""
    if sweep.combine == "zip" or len(sweep.axes) <= MOST_KEYS:
        return None
    return f"{len(sweep.axes)} keys, and no more than {MOST_KEYS} fit into a picture"


def sweep_chart(results: SweepResults) -> Chart | None:
    """Return the chart that fits the number of keys; None if there are too many."""
    sweep = results.sweep
    if why_not_drawn(sweep) is not None:
        return None
    return _lines(results) if sweep.combine == "zip" or len(sweep.axes) == 1 else _maps(results)


def _named(sweep: Sweep, *keys: str) -> Axis:
    """Return an axis on which every value of a key, or of keys that vary together, has a place."""
    short = short_names(sweep.keys)
    texts = zip(*(sweep.axes[key].texts for key in keys), strict=True)
    name = ", ".join(in_words(key, short[key]) for key in keys)
    return named_axis(name, [", ".join(together) for together in texts])


def _across(sweep: Sweep) -> tuple[Axis, list[float]]:
    """Return the axis of lines, and where values stand on it.

    The values of one key stand at their numbers, if they are numbers. No number of one zipped key
    stands for all of them.
    """
    named, (first, *others) = _named(sweep, *sweep.keys), sweep.axes.values()
    numbers = None if others else _numbers(first.values)
    if numbers is None:
        return named, [float(place) for place in range(len(sweep))]
    whole = not isinstance(first.values[0], float)
    wide = numbers[0] > 0 and whole and numbers[-1] / numbers[0] >= 20
    log = bool(wide or (numbers[0] > 0 and first.scale == "log"))
    return replace(named, ticks=None, names=False, log=log), numbers.tolist()


def _numbers(values: Sequence[Any]) -> FloatArray | None:
    """Return values as ascending numbers, if they are: texts such as "10" are."""
    try:
        numbers = np.array([float(value) for value in values])
    except (TypeError, ValueError):
        return None
    return numbers if (np.diff(numbers) > 0).all() else None


def _lines(results: SweepResults) -> Chart:
    """Return mean total regret over a key, one line per variant, with 95 % bands."""
    sweep = results.sweep
    variants = sweep.experiment(0).variants
    labels = [cell.label for cell in results.cells[: len(variants)]]
    colour_of = colours(labels, [variant.algorithm.name for variant in variants])
    across, places = _across(sweep)
    measured = [quantity(total) for total in results.totals()]
    means = [one["mean"] or 0.0 for one in measured]
    logarithmic = min(means) > 0 and is_logarithmic(means)
    series = []
    for number, label in enumerate(labels):
        of_it = measured[number :: len(variants)]
        errors = [one["stderr"] for one in of_it]
        series.append(
            Series(
                label=label,
                x=places,
                y=means[number :: len(variants)],
                half=None if None in errors else [NORMAL_95 * (error or 0.0) for error in errors],
                band=True,
                colour=colour_of[label],
                mark="dot",
                width=1.5,
            )
        )
    up = Axis(
        label="mean total regret, with 95 % bands",
        log=logarithmic,
        low=None if logarithmic else min(0.0, *means),
    )
    plot = Plot(x=across, y=up, series=series)
    return Chart(name="sweep", panels=[plot], title=sweep.title, size=(7.2, 4.4))


def _maps(results: SweepResults) -> Chart:
    """Return mean total regret over two keys, one map per variant and value of the third key."""
    sweep = results.sweep
    across, up, apart = _arranged(sweep)
    conditions = sweep.conditions
    relative = 0 < len(conditions) < len(sweep.axes)
    means = np.array([total.mean() for total in results.totals()])
    shown = means.copy()
    best: set[int] = set()
    for comparison in results.comparisons():
        # A choice that a key of the map does not touch is as good all along that key: one star.
        alike = comparison.ranked[0]
        best.add(alike[len(alike) // 2])
        if relative:
            places = list(comparison.behind)
            shown[places] = means[places] / means[comparison.best]
    if not any(is_choice(key) for key in sweep.keys):
        best = set()  # every place has conditions of its own
    sizes = {key: len(axis.values) for key, axis in sweep.axes.items()}
    n_variants = len(results.cells) // len(sweep)
    headings = [""]
    if apart is not None:
        short = short_names(sweep.keys)[apart]
        headings = [f"{short} = {text}" for text in sweep.axes[apart].texts]
    columns = len(headings)
    values = np.full((n_variants, columns, sizes[up], sizes[across]), np.nan)
    marks: dict[tuple[int, int], list[tuple[int, int]]] = {}
    starred: set[tuple[int, int]] = set()
    for place, cell in enumerate(results.cells):
        at = sweep.places(cell.setting)
        panel = (cell.variant, 0 if apart is None else at[apart])
        values[(*panel, at[up], at[across])] = shown[place]
        if place in best and _touched(sweep, cell, across, up):
            marks.setdefault(panel, []).append((at[up], at[across]))
        elif place in best:  # all cells are the same, so the panel has the star
            starred.add(panel)
    names = [_name(sweep, cell, n_variants) for cell in results.cells[:n_variants]]
    least = max(float(np.nanmin(values)), 1e-12)
    most = max(min(float(np.nanmax(values)), _MOST_TIMES[relative] * least), 1.01 * least)
    label = "regret, as a multiple of the best choice's"
    panels = [
        Heat(
            x=_named(sweep, across),
            y=_named(sweep, up),
            values=values[row, column].tolist(),
            label=label if relative else "mean total regret",
            limits=(least, most),
            best=marks.get((row, column), []),
            numbers=columns == 1 and values[row, column].size <= _MOST_NUMBERS,
            title=", ".join(part for part in (name, heading) if part)
            + (" ★" if (row, column) in starred else ""),
        )
        for row, name in enumerate(names)
        for column, heading in enumerate(headings)
    ]
    width = 6.4 if columns == 1 else 1.6 + 2.6 * columns
    height = 4.8 if n_variants == columns == 1 else 1.2 + 2.5 * n_variants
    return Chart(
        name="sweep",
        panels=panels,
        columns=columns,
        aligned=True,
        title=sweep.title,
        size=(width, height),
    )


def _arranged(sweep: Sweep) -> tuple[str, str, str | None]:
    """Return the keys across, up and apart: of three the one with the fewest values is apart."""
    keys = sweep.keys
    apart = None
    if len(keys) == MOST_KEYS:
        apart = min(keys, key=lambda key: len(sweep.axes[key].values))
        keys = [key for key in keys if key != apart]
    up, across = keys
    if is_choice(across) and not is_choice(up):
        up, across = across, up
    return across, up, apart


def _name(sweep: Sweep, cell: Cell, n_variants: int) -> str:
    """Return what a variant's maps are called, with the keys that it does not have."""
    own = sweep.keys_of(cell.variant, cell.problem)
    missing = [short_names(sweep.keys)[key] for key in sweep.keys if key not in own]
    if n_variants == 1:
        return ""
    same = "" if own else ": the same everywhere"
    return f"{cell.label} (no {' or '.join(missing)}{same})" if missing else cell.label


def _touched(sweep: Sweep, cell: Cell, *keys: str) -> bool:
    """Return whether a variant has any of these keys."""
    return not set(keys).isdisjoint(sweep.keys_of(cell.variant, cell.problem))
