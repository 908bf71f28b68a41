"""The map of a cognitive-radio problem: how available each channel is, from place to place."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from fedbandits.errors import InputError
from fedbandits.problems.problem import Problem, best_arm
from fedbandits.report.style import new_figure

_MOST_COLUMNS = 5
_OVERALL, _AT_STATION = "#D55E00", "#009E73"
_STATION_MARK: dict[str, Any] = {"marker": "^", "markeredgecolor": "black", "markersize": 6.5}


def map_names(problems: Iterable[Problem]) -> dict[Hashable, str]:
    """Return the file name of the map of every place that problems have a map of, in their order.

    A map shows a place: problems that differ only in who listens there share one.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from fedbandits.problems import CognitiveRadio
    >>> users, elsewhere = CognitiveRadio.example(3), CognitiveRadio.example(3, seed=1)
    >>> station = replace(users, listener="base-station")
    >>> list(map_names([users, station, elsewhere]).values())
    ['map.png', 'map-2.png']
    """
    name_at: dict[Hashable, str] = {}
    for problem in problems:
        if problem.map is not None:
            new = f"map-{len(name_at) + 1}.png" if name_at else "map.png"
            name_at.setdefault(problem.map.place, new)
    return name_at


def availability_figure(problem: Problem, *, resolution: int = 120) -> Figure:
    """Draw how available each channel is over the area, a small map each.

    The best channel overall and the best one at the base station are framed. If they differ,
    a rule that listens at the base station alone settles on the wrong one.

    Parameters
    ----------
    problem : Problem
        Whose channels to draw; it has a map.
    resolution : int
        Into how many cells each side of the area is cut.

    Examples
    --------
    >>> from fedbandits.problems import CognitiveRadio
    >>> figure = availability_figure(CognitiveRadio.example(n_channels=3), resolution=10)
    >>> len(figure.axes)  # three maps and the colour bar
    4
    """
    drawn = problem.map
    if drawn is None:
        raise InputError("problem", f"the {problem.model} model has no map")
    _, _, maps = drawn.availability_map(resolution)
    at_station = drawn.availability([drawn.base_station])[:, 0]
    best, heard = best_arm(problem), int(at_station.argmax())
    columns = min(_MOST_COLUMNS, len(maps))
    rows = math.ceil(len(maps) / columns)
    width, height = drawn.area
    # Long and narrow areas are drawn within reason.
    shape = min(max(height / width, 0.3), 2.5)
    # Few maps are larger: the key above them needs its room.
    cell = max(1.75, 5.4 / columns)
    low, high = float(maps.min()), float(maps.max())
    size = cell * columns + 0.9, rows * (0.9 * cell * shape + 0.42) + 0.62
    with new_figure(*size, layout="compressed") as figure:
        cells: list[Axes] = list(
            figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat
        )
        for channel, axes in enumerate(cells[: len(maps)]):
            axes.imshow(
                maps[channel],
                origin="lower",
                extent=(0.0, width, 0.0, height),
                vmin=low,
                # A map of one value alone still needs a range.
                vmax=max(high, low + 1e-9),
                cmap="Blues_r",
                interpolation="bilinear",
                aspect=shape * width / height,
            )
            axes.plot(*drawn.base_station, color="white", **_STATION_MARK)
            axes.tick_params(labelsize=7.5, length=2.5)
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 3, 4, 5, 10]))
            means = f"area {problem.means[channel]:.3f}, station {at_station[channel]:.3f}"
            axes.set_title(f"channel {channel}\n{means}", size=7.5)
        _frame(cells[best], _OVERALL)
        _frame(cells[heard], _AT_STATION, inset=0.04 if heard == best else 0.0)
        for axes in cells[len(maps) :]:
            axes.set_visible(False)
        # Maps above a place that stays empty are the lowest of their columns.
        for axes in cells[len(maps) - columns : len(maps)]:
            axes.tick_params(labelbottom=True)
        _explain(figure, cells, best, heard)
    return figure


def _frame(axes: Axes, colour: str, inset: float = 0.0) -> None:
    """Frame a map."""
    side = 1.0 - 2 * inset
    look: dict[str, Any] = {"fill": False, "edgecolor": colour, "linewidth": 2.8, "clip_on": False}
    axes.add_patch(
        Rectangle((inset, inset), side, side, transform=axes.transAxes, zorder=5, **look)
    )
    axes.title.set_fontweight("bold")


def _explain(figure: Figure, cells: Sequence[Axes], best: int, heard: int) -> None:
    """Say what colours, axes, marks and frames are."""
    bar = figure.colorbar(cells[0].images[0], ax=cells, aspect=30, fraction=0.04, pad=0.015)
    bar.set_label("availability")
    bar.ax.tick_params(labelsize=7.5)
    figure.supxlabel("east (km)", size=9.0)
    figure.supylabel("north (km)", size=9.0)
    frame: dict[str, Any] = {"facecolor": "none", "linewidth": 2.0}
    key = {
        "base station": Line2D([], [], color="white", linestyle="none", **_STATION_MARK),
        f"best overall: channel {best}": Patch(edgecolor=_OVERALL, **frame),
        f"best at the base station: channel {heard}": Patch(edgecolor=_AT_STATION, **frame),
    }
    look: dict[str, Any] = {"loc": "outside upper left", "ncols": 3, "fontsize": 8.0}
    figure.legend(handles=[*key.values()], labels=[*key], frameon=False, **look)
