"""What is drawn of a sweep, as plain values: lines over one key, maps over two or three."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedbandits.experiments.tables import quantity
from fedbandits.rules.arrays import FloatArray
from fedbandits.sweeps.keys import in_words, is_choice, short_names
from fedbandits.sweeps.results import SweepResults
from fedbandits.sweeps.sweep import Sweep

MOST_KEYS = 3
"""More keys do not fit into a picture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """An axis of a picture.

    Parameters
    ----------
    name : str
        What it is called.
    texts : list of str
        The values, in order.
    numbers : array, optional
        The same as numbers, ascending, if that is what they are.
    log : bool
        Whether they are spread evenly by their logarithms.
    """

    name: str
    texts: list[str]
    numbers: FloatArray | None
    log: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Mean total regret of a variant over one key, and its standard error (NaN if unknown)."""

    variant: str
    mean: FloatArray
    stderr: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Regret over one key, or over several that vary together."""

    title: str
    across: Scale
    lines: list[Line]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Regret over two keys: one map of several.

    Parameters
    ----------
    heading : str
        What is the same all over it.
    values : array, shape (up, across)
        Mean total regret, or how many times that of the best choice under the same conditions.
    best : list of (int, int)
        Row and column of choices that are best under their conditions.
    """

    heading: str
    values: FloatArray
    best: list[tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Maps:
    """Regret over two keys, or over three as small multiples.

    Parameters
    ----------
    title : str
        Of the sweep.
    across, up : Scale
        The two keys.
    rows : list of list of Panel
        A row a variant, a column a value of the third key.
    relative : bool
        Whether values are multiples of the best choice's regret.
    """

    title: str
    across: Scale
    up: Scale
    rows: list[list[Panel]]
    relative: bool


def why_not_drawn(sweep: Sweep) -> str | None:
    """Return why there is no picture of a sweep, in words; None if there is one."""
    if sweep.combine == "zip" or len(sweep.axes) <= MOST_KEYS:
        return None
    return f"{len(sweep.axes)} keys, and no more than {MOST_KEYS} fit into a picture"


def picture_of(results: SweepResults) -> Lines | Maps | None:
    """Return what fits the number of keys; None if there are too many."""
    sweep = results.sweep
    if why_not_drawn(sweep) is not None:
        return None
    return _lines(results) if sweep.combine == "zip" or len(sweep.axes) == 1 else _maps(results)


def _scale(sweep: Sweep, key: str) -> Scale:
    values = sweep.values_of(key)
    axis = sweep.axes[sweep.keys.index(key)]
    numbers = _numbers(values)
    positive = numbers is not None and numbers[0] > 0
    wide = positive and numbers is not None and numbers[-1] / numbers[0] >= 20
    return Scale(
        name=in_words(key, short_names(sweep.keys)[key]),
        texts=sweep.texts_of(key),
        numbers=numbers,
        log=positive and (axis.scale == "log" or (wide and not isinstance(values[0], float))),
    )


def _together(sweep: Sweep) -> Scale:
    """Return the axis of zipped keys, a place a setting: no number of one stands for all."""
    short = short_names(sweep.keys)
    return Scale(
        name=", ".join(in_words(key, short[key]) for key in sweep.keys),
        texts=[", ".join(sweep.texts(number).values()) for number in range(len(sweep))],
        numbers=None,
        log=False,
    )


def _numbers(values: Sequence[Any]) -> FloatArray | None:
    """Return values as ascending numbers, if they are: texts such as "10" are."""
    try:
        numbers = np.array([float(value) for value in values])
    except (TypeError, ValueError):
        return None
    return numbers if (np.diff(numbers) > 0).all() else None


def _lines(results: SweepResults) -> Lines:
    sweep = results.sweep
    n_variants = len(results.cells) // len(sweep)
    measured = [quantity(total) for total in results.totals()]
    lines = []
    for variant in range(n_variants):
        of_it = measured[variant::n_variants]
        errors = [np.nan if one["stderr"] is None else one["stderr"] for one in of_it]
        lines.append(
            Line(
                variant=results.cells[variant].label,
                mean=np.array([one["mean"] for one in of_it]),
                stderr=np.array(errors),
            )
        )
    across = _scale(sweep, sweep.keys[0]) if len(sweep.axes) == 1 else _together(sweep)
    return Lines(title=sweep.title, across=across, lines=lines)


def _maps(results: SweepResults) -> Maps:
    sweep = results.sweep
    across, up, apart = _arranged(sweep)
    conditions = sweep.conditions
    relative = 0 < len(conditions) < len(sweep.axes)
    means = np.array([total.mean() for total in results.totals()])
    shown = means.copy()
    best: set[int] = set()
    for comparison in results.comparisons():
        # A choice that a key of the map does not touch is as good all along that key.
        best.update(comparison.twins[comparison.best])
        if relative:
            alike = list(comparison.behind)
            shown[alike] = means[alike] / means[comparison.best]
    if not any(is_choice(key) for key in sweep.keys):
        best = set()  # every place has conditions of its own
    places = {key: sweep.values_of(key) for key in sweep.keys}
    n_variants = len(results.cells) // len(sweep)
    columns = 1 if apart is None else len(places[apart])
    shape = (len(places[up]), len(places[across]))
    values = np.full((n_variants, columns, *shape), np.nan)
    marks: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for place, cell in enumerate(results.cells):
        at = {key: places[key].index(value) for key, value in sweep.values(cell.setting).items()}
        panel = (cell.variant, 0 if apart is None else at[apart])
        values[(*panel, at[up], at[across])] = shown[place]
        if place in best:
            marks.setdefault(panel, []).append((at[up], at[across]))
    names = [cell.label for cell in results.cells[:n_variants]]
    rows = [
        [
            Panel(
                heading=_heading(sweep, apart, column, name if n_variants > 1 else ""),
                values=values[row, column],
                best=marks.get((row, column), []),
            )
            for column in range(columns)
        ]
        for row, name in enumerate(names)
    ]
    return Maps(
        title=sweep.title,
        across=_scale(sweep, across),
        up=_scale(sweep, up),
        rows=rows,
        relative=relative,
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


def _heading(sweep: Sweep, apart: str | None, column: int, variant: str) -> str:
    parts = [variant] if variant else []
    if apart is not None:
        parts.append(f"{short_names(sweep.keys)[apart]} = {sweep.texts_of(apart)[column]}")
    return ", ".join(parts)
