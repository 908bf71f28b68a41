"""Charts as values: what is drawn, on paper (`still`) and on a page (`page`) alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal, TypeAlias

import numpy as np

NORMAL_95 = 1.96
"""Standard errors on either side of a mean that hold 95 % of a normal law."""

Form: TypeAlias = Literal["number", "percent", "power"]
"""How numbers of an axis read: 1,000, 50 % or 10³."""

Mark: TypeAlias = Literal["", "dot", "square", "triangle", "diamond", "down", "cross"]
"""The shape of points; none when empty."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis.

    Parameters
    ----------
    label : str
        What it shows, with the unit. Print and page add whether the axis is logarithmic.
    log : bool
        Whether it is logarithmic at first; on a page the reader can switch.
    low, high : float, optional
        Where it begins and ends; by default, where the data do.
    ticks : mapping of float to str, optional
        What is labelled, and how; round numbers by default.
    form : {"number", "percent", "power"}
        How round numbers read.
    names : bool
        Whether ticks name things that are no numbers: there is no other scale to switch to.
    """

    label: str = ""
    _: KW_ONLY
    log: bool = False
    low: float | None = None
    high: float | None = None
    ticks: Mapping[float, str] | None = None
    form: Form = "number"
    names: bool = False


def named_axis(label: str, names: Sequence[str]) -> Axis:
    """Return an axis whose places 0, 1, … have names.

    Examples
    --------
    >>> named_axis("rule", ["paper", "certified"]).ticks
    {0: 'paper', 1: 'certified'}
    """
    return Axis(label=label, ticks=dict(enumerate(names)), names=True)


@dataclass(frozen=True, slots=True)
class Series:
    """Points in order, as a line, as marks or as both, with an interval around each.

    Parameters
    ----------
    label : str
        Its name in the legend; none there when empty.
    x, y : sequence of float
        The points; NaN leaves a gap.
    colour : str
        As #RRGGBB.
    half : sequence of float, optional
        Half of the interval around each y: what follows a ±.
    low, high : sequence of float, optional
        The ends of intervals that are not symmetric.
    band : bool
        Whether intervals are a band, and not a bar at each point.
    width : float
        Of the line; none when 0.
    dash : tuple of float
        Lengths of line and gap in line widths; a solid line when empty.
    step : bool
        Whether y stays as it is up to the next x.
    mark : str
        The shape of its points.
    size : float
        Of its points.
    hollow : bool
        Whether points are outlines.
    opacity : float
        From 0 to 1.
    beside : float
        By how many pixels it stands beside its x, so that it hides no other.
    group : str
        The label of the series that it is hidden and shown with, if it has none.
    said : sequence of str
        What a page says of each point besides its value.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str
    _: KW_ONLY
    half: Sequence[float] | None = None
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    band: bool = False
    width: float = 1.8
    dash: tuple[float, ...] = ()
    step: bool = False
    mark: Mark = ""
    size: float = 4.0
    hollow: bool = False
    opacity: float = 1.0
    beside: float = 0.0
    group: str = ""
    said: Sequence[str] = ()

    def interval(self) -> tuple[list[float], list[float]] | None:
        """Return the lower and the upper ends of its intervals, if it has any.

        Examples
        --------
        >>> Series(label="a", x=[1], y=[5.0], half=[2.0], colour="#000000").interval()
        ([3.0], [7.0])
        """
        if self.half is not None:
            y, half = np.array(self.y, dtype=np.float64), np.array(self.half)
            return (y - half).tolist(), (y + half).tolist()
        if self.low is None or self.high is None:
            return None
        return list(self.low), list(self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guide:
    """A line across a plot, at an x or at a y, and what it says."""

    x: float | None = None
    y: float | None = None
    label: str = ""
    dash: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Words beside a point of a plot; on a dot of a colour if one is given."""

    x: float
    y: float
    text: str
    colour: str = ""


@dataclass(frozen=True, slots=True)
class Plot:
    """Series between two axes.

    Parameters
    ----------
    x, y : Axis
        Across and up.
    series, guides, notes
        What stands between them.
    title : str
        Above.
    enlarged : (float, float), optional
        A range of y that print shows once more, on a linear scale, if there is room.
    """

    x: Axis
    y: Axis
    series: Sequence[Series]
    _: KW_ONLY
    guides: Sequence[Guide] = ()
    notes: Sequence[Note] = ()
    title: str = ""
    enlarged: tuple[float, float] | None = None
    kind: Literal["plot"] = field(default="plot", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A thing with a value and its interval.

    `Rows` draws each as a dot with a bar.

    Parameters
    ----------
    label, below : str
        Its name, and a word on it.
    value, low, high : float
        With the ends of the interval.
    colour : str
        As #RRGGBB.
    faint : bool
        Whether its name stands back.
    """

    label: str
    value: float
    low: float
    high: float
    colour: str
    below: str = ""
    faint: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """One row per thing, from top to bottom: a dot with its interval, or a bar from 0."""

    x: Axis
    rows: Sequence[Row]
    title: str = ""
    bars: bool = False
    kind: Literal["rows"] = field(default="rows", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heat:
    """Values over two axes with names, as colours on a logarithmic scale; bright is low.

    Parameters
    ----------
    x, y : Axis
        From `named_axis`.
    values : sequence of sequence of float
        One row per name of y; NaN if there is none.
    label : str
        What the colours show; print and page add that their scale is logarithmic.
    limits : (float, float)
        Where colours begin and end; what is above has the last one.
    best : sequence of (int, int)
        Row and column of what has a star.
    note : str
        Beside the first star.
    numbers : bool
        Whether values are written into the cells, as ``cells`` says.
    title : str
        Above.
    """

    x: Axis
    y: Axis
    values: Sequence[Sequence[float]]
    label: str
    limits: tuple[float, float]
    best: Sequence[tuple[int, int]] = ()
    note: str = ""
    numbers: bool = False
    title: str = ""
    kind: Literal["heat"] = field(default="heat", init=False)
    cells: Sequence[Sequence[str]] = field(init=False)

    def __post_init__(self) -> None:
        """Write numbers once, because Python and browsers round halves differently."""
        object.__setattr__(self, "cells", [[*map(_three, row)] for row in self.values])


def _three(value: float) -> str:
    return "" if math.isnan(value) else f"{float(f'{value:.3g}'):,.12g}"


Panel: TypeAlias = Plot | Rows | Heat


@dataclass(frozen=True, slots=True)
class Chart:
    """Panels with one heading.

    Parameters
    ----------
    name : str
        Of the file, when it is saved.
    panels : sequence of Plot, Rows or Heat
        Row by row.
    columns : int
        How many panels stand side by side, if the screen is wide enough.
    aligned : bool
        Whether panels have the same axes, which are then labelled once in print.
    title, key : str
        The heading, and a line that says what lines and marks are: in print, because a page has
        a heading and a caption of its own.
    size : (float, float)
        Width and height in print, in inches.
    legend : {"ends", "inside", "below", "shared"}
        Where print names series: at the ends of curves, in each panel, below each panel, or below
        all of them. On a page legends stand below.
    """

    name: str
    panels: Sequence[Panel]
    _: KW_ONLY
    columns: int = 1
    aligned: bool = False
    title: str = ""
    key: str = ""
    size: tuple[float, float] = (8.0, 4.5)
    legend: Literal["ends", "inside", "below", "shared"] = "inside"
