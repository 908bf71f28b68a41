"""Labels at the ends of curves: as near as can be, none on another, tied to them by a line.

The figure grows with what stands around its axes, which keep their size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.text import Text

from fedbandits.report.chart import Chart, Series
from fedbandits.report.palette import FAINT
from fedbandits.report.style import size_in_inches, wrapped

# In inches: from the axes to where a label's line ends, and of space around a label.
_LEADER, _GAP = 0.4, 0.05
_AXES_WIDTH, _LEAST_AXES_HEIGHT, _MARGIN = 5.2, 3.3, 0.12
_LINE_SPACING = 1.15


def lay_out(figure: Figure, axes: Axes, chart: Chart, series: Sequence[Series]) -> None:
    """Label the ends of series, head the figure and give everything the room it needs."""
    low = axes.get_ylim()[0]
    at_end = [one for one in series if one.y[-1] >= low]
    for one in series:
        if one.y[-1] < low:
            _label_where_it_leaves(axes, one)
    look: Any = {"transform": axes.transAxes, "va": "center", "size": 8.5}
    labels = [
        axes.text(1.0, 0.0, wrapped(one.label, 34, 3), linespacing=_LINE_SPACING, **look)
        for one in at_end
    ]
    boxes = [size_in_inches(figure, label) for label in labels]
    pitch = [height + _GAP for _, height in boxes]
    axes_height = max(_LEAST_AXES_HEIGHT, sum(pitch) + 0.1)

    def place(width: float, height: float, left: float, bottom: float) -> None:
        """Give the figure a size and put the axes at a corner, all in inches."""
        figure.set_size_inches(width, height)
        share = _AXES_WIDTH / width, axes_height / height
        axes.set_position((left / width, bottom / height, *share))

    # Where ticks stand depends on how large the axes are, and what their labels need on the ticks.
    place(8.0, axes_height + 2.0, 1.5, 1.0)
    left = size_in_inches(figure, axes.yaxis)[0] + _MARGIN
    bottom = size_in_inches(figure, axes.xaxis)[1] + _MARGIN
    right = _LEADER + _GAP + max((width for width, _ in boxes), default=0.0) + _MARGIN
    width = left + _AXES_WIDTH + right
    room = width - 2 * _MARGIN
    title = _heading(figure, chart.title, room, size=11.0, fontweight="bold")
    key = _heading(figure, chart.key, room, size=8.0, color=FAINT)
    title_height, key_height = (size_in_inches(figure, text)[1] for text in (title, key))
    height = bottom + axes_height + 0.15 + key_height + 0.07 + title_height + _MARGIN
    place(width, height, left, bottom)
    title.set_position((_MARGIN / width, 1 - _MARGIN / height))
    key.set_position((_MARGIN / width, 1 - (_MARGIN + title_height + 0.07) / height))
    levels = [float(places_of(axes, one)[-1, 1]) for one in at_end]
    places = spread_out([level * axes_height for level in levels], pitch, 0.0, axes_height)
    for one, label, level, at in zip(at_end, labels, levels, places, strict=True):
        label.set_position((1.0 + (_LEADER + _GAP) / _AXES_WIDTH, at / axes_height))
        _lead(axes, one, level, at / axes_height)


def _heading(figure: Figure, content: str, width: float, **look: Any) -> Text:
    """Return a text that is no wider than so many inches."""
    text = figure.text(0.0, 1.0, content, va="top", linespacing=_LINE_SPACING, **look)
    for characters in range(160, 10, -5):
        text.set_text(wrapped(content, characters, 3))
        if size_in_inches(figure, text)[0] <= width:
            break
    return text


def places_of(axes: Axes, series: Series) -> npt.NDArray[np.float64]:
    """Return how far across and up its axes each point of a series is, from 0 to 1."""
    points = np.column_stack([series.x, series.y])
    return np.asarray((axes.transScale + axes.transLimits).transform(points)).clip(0.0, 1.0)


def spread_out(
    wanted: Sequence[float], room: Sequence[float], low: float, high: float
) -> list[float]:
    """Return places near the wanted ones that do not overlap, in the same order.

    Labels that are too close form a block, which stands where its members want to be on average:
    the least squares of isotonic regression, by its formula of least and largest means.

    Parameters
    ----------
    wanted : sequence of float
        Where the middle of each label should be.
    room : sequence of float
        How much each label takes.
    low, high : float
        Where the first begins at the lowest and the last ends at the highest.

    Examples
    --------
    >>> spread_out([1.0, 5.0, 5.0], [2.0, 2.0, 2.0], 0.0, 10.0)
    [1.0, 4.0, 6.0]
    """
    order = np.argsort(wanted, kind="stable")
    sizes = np.array(room, dtype=np.float64)[order]
    # Middles of labels that stand without gaps from 0 on, and from where each wants them to.
    middles = np.cumsum(sizes) - sizes / 2
    begins = np.array(wanted, dtype=np.float64)[order] - middles
    n = len(begins)
    blocks = [
        max(min(begins[i:j].mean() for j in range(k + 1, n + 1)) for i in range(k + 1))
        for k in range(n)
    ]
    places = np.empty(n)
    places[order] = np.clip(blocks, low, high - sizes.sum()) + middles
    return [float(place) for place in places]


def _lead(axes: Axes, series: Series, end: float, place: float) -> None:
    """Draw a line from the end of a curve to its label, level at both ends."""
    across = [1.0 + part * _LEADER / _AXES_WIDTH for part in (0.0, 0.2, 0.8, 1.0)]
    axes.add_patch(
        PathPatch(
            Path(list(zip(across, (end, end, place, place), strict=True))),
            transform=axes.transAxes,
            fill=False,
            edgecolor=series.colour,
            linewidth=1.2,
            linestyle=(0, series.dash) if series.dash else "solid",
            joinstyle="round",
            clip_on=False,
        )
    )


def _label_where_it_leaves(axes: Axes, series: Series) -> None:
    """Label a falling curve beside where it leaves the axes at the bottom."""
    left = int((places_of(axes, series)[:, 1] < 0.12).argmax())
    axes.annotate(
        series.label, (series.x[left], 0.06), xycoords=("data", "axes fraction"), xytext=(9, 0),
        textcoords="offset points", color=series.colour, size=8.5, va="center",
    )  # fmt: skip
