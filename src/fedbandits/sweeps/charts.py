"""What a sweep shows, as a chart: lines over one key, maps over two or three."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedbandits.experiments.charts import is_logarithmic
from fedbandits.experiments.tables import quantity
from fedbandits.report.chart import NORMAL_95, Axis, Chart, Heat, Plot, Series, named_axis
from fedbandits.report.palette import colours
from fedbandits.rules.arrays import FloatArray
from fedbandits.sweeps.cells import Cell
from fedbandits.sweeps.keys import in_words, is_choice, short_names
from fedbandits.sweeps.results import SweepResults
from fedbandits.sweeps.sweep import Sweep

MOST_KEYS = 3
"""More keys do not fit into a picture."""

# Beyond so many times the least, all is equally bad; and so many numbers fit into a map.
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


def _named(sweep: Sweep, key: str) -> Axis:
    """Return an axis on which every value of a key has a place."""
    return named_axis(in_words(key, short_names(sweep.keys)[key]), sweep.texts_of(key))


def _axis(sweep: Sweep, key: str) -> tuple[Axis, list[float]]:
    """Return the axis of a key, and where its values stand: at their numbers, if they are some."""
    values = sweep.values_of(key)
    numbers = _numbers(values)
    if numbers is None:
        return _named(sweep, key), [float(place) for place in range(len(values))]
    wide = numbers[0] > 0 and numbers[-1] / numbers[0] >= 20 and not isinstance(values[0], float)
    log = bool(numbers[0] > 0 and (sweep.axes[sweep.keys.index(key)].scale == "log" or wide))
    return replace(_named(sweep, key), ticks=None, names=False, log=log), numbers.tolist()


def _together(sweep: Sweep) -> tuple[Axis, list[float]]:
    """Return the axis of zipped keys, one place per setting: no number of one stands for all."""
    short = short_names(sweep.keys)
    name = ", ".join(in_words(key, short[key]) for key in sweep.keys)
    texts = [", ".join(sweep.texts(number).values()) for number in range(len(sweep))]
    return named_axis(name, texts), [float(place) for place in range(len(texts))]


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
    across, places = _axis(sweep, sweep.keys[0]) if len(sweep.axes) == 1 else _together(sweep)
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
        alike = comparison.twins[comparison.best]
        best.add(alike[len(alike) // 2])
        if relative:
            places = list(comparison.behind)
            shown[places] = means[places] / means[comparison.best]
    if not any(is_choice(key) for key in sweep.keys):
        best = set()  # every place has conditions of its own
    values_of = {key: sweep.values_of(key) for key in sweep.keys}
    n_variants = len(results.cells) // len(sweep)
    columns = 1 if apart is None else len(values_of[apart])
    shape = (len(values_of[up]), len(values_of[across]))
    values = np.full((n_variants, columns, *shape), np.nan)
    marks: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for place, cell in enumerate(results.cells):
        at = {key: values_of[key].index(value) for key, value in sweep.values(cell.setting).items()}
        panel = (cell.variant, 0 if apart is None else at[apart])
        values[(*panel, at[up], at[across])] = shown[place]
        if place in best:
            marks.setdefault(panel, []).append((at[up], at[across]))
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
            title=_heading(sweep, apart, column, name),
        )
        for row, name in enumerate(names)
        for column in range(columns)
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
        apart = min(keys, key=lambda key: len(sweep.values_of(key)))
        keys = [key for key in keys if key != apart]
    up, across = keys
    if is_choice(across) and not is_choice(up):
        up, across = across, up
    return across, up, apart


def _name(sweep: Sweep, cell: Cell, n_variants: int) -> str:
    """Return what a variant's maps are called, with the keys that it does not have."""
    own = sweep.keys_of(cell.variant, cell.problem)
    missing = [short_names(sweep.keys)[key] for key in sweep.keys if key not in own]
    return ", ".join([cell.label, *(f"has no {key}" for key in missing)]) if n_variants > 1 else ""


def _heading(sweep: Sweep, apart: str | None, column: int, variant: str) -> str:
    parts = [variant] if variant else []
    if apart is not None:
        parts.append(f"{short_names(sweep.keys)[apart]} = {sweep.texts_of(apart)[column]}")
    return ", ".join(parts)
