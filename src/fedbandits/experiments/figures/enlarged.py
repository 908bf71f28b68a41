"""Curves that a logarithmic axis squeezes together, enlarged where nothing else stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fedbandits.experiments.figures import style
from fedbandits.experiments.figures.curves import Curve
from fedbandits.experiments.figures.labels import height_in_axes
from fedbandits.experiments.figures.palette import FAINT

# In parts of the axes: the box, room for its ticks, and how high it must be to be of any use.
_LEFT, _RIGHT, _BOTTOM = 0.45, 0.96, 0.11
_TICKS, _ABOVE, _LEAST_HEIGHT = 0.13, 0.09, 0.2


def enlarge_parts(
    axes: Axes,
    totals: Mapping[str, Curve],
    parts: Mapping[str, Curve],
    draw: Callable[[Axes], None],
    tick: Callable[[float, int | None], str],
) -> None:
    """Draw totals and parts once more, with a linear axis, below where all curves end.

    Nothing is drawn where the axes have no room for it.

    Parameters
    ----------
    axes : Axes
        With a logarithmic scale.
    totals, parts : mapping
        All totals, and the exploration parts of some of them, which are to be told apart.
    draw : callable
        Draws all curves into axes.
    tick : callable
        Returns the label of a tick.
    """
    horizon = axes.get_xlim()[1]
    before = _LEFT - _TICKS
    free = min(
        height_in_axes(axes, float(curve.mean[curve.slot >= before * horizon].min()))
        for curve in (*totals.values(), *parts.values())
    )
    height = free - _ABOVE - _BOTTOM
    if height < _LEAST_HEIGHT:
        return
    low = min(part.end for part in parts.values())
    high = max(totals[label].end for label in parts)
    box = axes.inset_axes((_LEFT, _BOTTOM, _RIGHT - _LEFT, height))
    draw(box)
    box.set(xlim=(0.0, horizon), ylim=(low - 0.4 * (high - low), high + 0.3 * (high - low)))
    box.set_title("the same, enlarged: linear scale", loc="left", size=7.5, color=FAINT, pad=3)
    box.xaxis.set_major_locator(MaxNLocator(nbins=2, integer=True))
    box.yaxis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 2.5, 5, 10]))
    for axis in (box.xaxis, box.yaxis):
        axis.set_major_formatter(FuncFormatter(tick))
        axis.set_tick_params(labelsize=7.0, length=2.5)
    style.open_frame(box)
