"""Estimates of arms after each phase, up to where each went out."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedbandits.experiments.figures import interactive, style
from fedbandits.experiments.figures.arm_intervals import LABEL, ArmRow
from fedbandits.experiments.figures.palette import PALETTE, RULE
from fedbandits.federation.status import MOST_PHASES, ArmState, short_name
from fedbandits.protocol import Answer

MOST_COLOURED = 8
"""So many arms have a colour, a name and intervals; others are grey lines."""

_AXES_PIXELS = 340
_MARKERS = {
    ArmState.LEFT: ("o", "circle"),
    ArmState.OUT: ("X", "x"),
    ArmState.WITHDRAWN: ("s", "square-open"),
}
# How much of the way from phase to phase the arms of one phase are spread over.
_SPREAD = 0.36

# From one phase to the next where the axis is logarithmic.
_LOG_STEP = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmPath:
    """An arm's estimates for as long as it was in the game.

    Parameters
    ----------
    label : str
        Its name and what became of it.
    state : ArmState
        How it ended.
    colour : str or None
        None for one that stands in the background.
    phases : list of int
        That were decided with it.
    estimates, widths : list of float
        After them.
    """

    label: str
    state: ArmState
    colour: str | None
    phases: list[int]
    estimates: list[float]
    widths: list[float]


def arm_paths(arms: Sequence[ArmRow], answers: Sequence[Answer]) -> list[ArmPath]:
    """Return the paths of arms, those in the background last.

    Parameters
    ----------
    arms : sequence of ArmRow
        From `fedbandits.experiments.figures.arm_intervals.arm_rows`: the first have a colour.
    answers : sequence of Answer
        After each phase, from `fedbandits.federation.followed.FollowedRun.answers`.
    """
    colours = cycle(PALETTE)
    paths = []
    for number, arm in enumerate(arms):
        seen = [
            answer
            for answer in answers
            if arm.name in answer.survivors
            or (arm.state is ArmState.OUT and arm.phase == answer.phase)
        ]
        if not seen:  # withdrawn before the first decision
            continue
        paths.append(
            ArmPath(
                label=_label(arm),
                state=arm.state,
                colour=next(colours) if number < MOST_COLOURED else None,
                phases=[answer.phase for answer in seen],
                estimates=[answer.estimates[arm.name] for answer in seen],
                widths=[
                    answer.intervals[arm.name][1] - answer.estimates[arm.name] for answer in seen
                ],
            )
        )
    return paths


def arms_over_phases_figure(paths: Sequence[ArmPath]) -> Figure:
    """Draw estimates and intervals against phase; a cross is where an arm was decided against."""
    with style.new_figure(8.0, 4.2) as figure:
        axes: Axes = figure.subplots()
        for path in (path for path in paths if path.colour is None):
            axes.plot(path.phases, path.estimates, color=RULE, linewidth=1.0, zorder=1)
        coloured = [path for path in paths if path.colour is not None]
        logarithmic = last_phase(paths) > MOST_PHASES
        for path, shift in zip(coloured, _shifts(len(coloured)), strict=True):
            at = _places(path, shift, logarithmic=logarithmic)
            axes.errorbar(
                at, path.estimates, yerr=path.widths, color=path.colour, linewidth=1.6,
                elinewidth=1.0, marker="o", markersize=3,
            )  # fmt: skip
            axes.plot(
                at[-1:], path.estimates[-1:], color=path.colour, linestyle="none",
                marker=_MARKERS[path.state][0], markersize=8, label=path.label,
            )  # fmt: skip
        if logarithmic:
            axes.set_xscale("log")
            axes.set_xlim(0.9, 1.1 * last_phase(paths))
            style.no_minor_ticks(axes.xaxis)
        else:
            axes.set_xlim(0.5, last_phase(paths) + 0.5)
        ticks = _ticks(last_phase(paths), 12)
        axes.set_xticks(ticks, [f"{phase:,}" for phase in ticks])
        axes.yaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]))
        axes.set_xlabel("phase")
        axes.set_ylabel(LABEL)
        style.finish(axes)
        legend = axes.legend(
            loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8.5
        )
        for text in legend.get_texts():
            text.set_parse_math(False)
    return figure


def arms_over_phases_page_figure(paths: Sequence[ArmPath]) -> dict[str, Any]:
    """Return the same as an interactive figure, as the plain value that Plotly draws."""
    last = last_phase(paths)
    logarithmic = last > MOST_PHASES
    data: list[dict[str, Any]] = [
        _line(path, 0.0, logarithmic=logarithmic)
        | {"line": {"width": 1.2, "color": RULE}, "mode": "lines", "showlegend": False}
        for path in paths
        if path.colour is None
    ]
    coloured = [path for path in paths if path.colour is not None]
    for path, shift in zip(coloured, _shifts(len(coloured)), strict=True):
        small = [5] * (len(path.phases) - 1)
        data.append(
            _line(path, shift, logarithmic=logarithmic)
            | {
                "mode": "lines+markers",
                "line": {"width": 2.0, "color": path.colour},
                "marker": {
                    "symbol": ["circle"] * len(small) + [_MARKERS[path.state][1]],
                    "size": [*small, 10],
                    "color": path.colour,
                    "opacity": 1,
                },
                "error_y": {
                    "type": "data",
                    "array": path.widths,
                    "color": path.colour,
                    "thickness": 1.2,
                    "width": 0,
                },
            }
        )
    legend = 21 * len(coloured)
    layout = interactive.layout(
        _AXES_PIXELS + 130 + legend,
        top=30,
        bottom=70 + legend,
        hovermode="closest",
        legend=interactive.legend_below(
            -60 / _AXES_PIXELS, orientation="v", itemsizing="constant", maxheight=legend + 40
        ),
        xaxis=interactive.across(
            "phase",
            type="log" if logarithmic else "linear",
            range=[math.log10(0.9), math.log10(1.1 * last)] if logarithmic else [0.5, last + 0.5],
            tickmode="array",
            tickvals=_ticks(last, 12),
        ),
        yaxis=interactive.up(LABEL),
    )
    by_width = {
        "legend.x": (-0.2, 0),
        "legend.font.size": (12, 13),
        "xaxis.tickvals": (_ticks(last, 6), _ticks(last, 12)),
    }
    return interactive.drawn("eliminations", data, layout, by_width)


def _label(arm: ArmRow) -> str:
    name = short_name(arm.label, 24)
    return name if arm.state is ArmState.LEFT else f"{name} ({arm.fate})"


def last_phase(paths: Sequence[ArmPath]) -> int:
    """Return the last phase that is shown."""
    return max(path.phases[-1] for path in paths)


def _ticks(last: int, most: int) -> list[int]:
    """Return the phases that an axis names, so many at most.

    Examples
    --------
    >>> _ticks(7, 12), _ticks(7, 4), _ticks(90, 12)
    ([1, 2, 3, 4, 5, 6, 7], [1, 3, 5, 7], [1, 2, 5, 10, 20, 50])
    """
    if last > MOST_PHASES:
        steps = (digit * 10**power for power in range(9) for digit in (1, 2, 5))
        return [phase for phase in steps if phase <= last]
    return list(range(1, last + 1, -(-last // most)))


def _places(path: ArmPath, shift: float, *, logarithmic: bool) -> list[float]:
    """Return where an arm's estimates stand, a little beside their phases."""
    if logarithmic:
        return [phase * math.exp(shift * _LOG_STEP) for phase in path.phases]
    return [phase + shift for phase in path.phases]


def _line(path: ArmPath, shift: float, *, logarithmic: bool) -> dict[str, Any]:
    name = html.escape(path.label, quote=False)
    return {
        "type": "scatter",
        "name": name,
        "x": _places(path, shift, logarithmic=logarithmic),
        "y": path.estimates,
        "customdata": [
            [phase, estimate - width, estimate + width]
            for phase, estimate, width in zip(path.phases, path.estimates, path.widths, strict=True)
        ],
        "hovertemplate": f"{name.replace('%', '&#37;')}<br>phase %{{customdata[0]}}: %{{y:.4g}},"
        " between %{customdata[1]:.4g} and %{customdata[2]:.4g}<extra></extra>",
    }


def _shifts(number: int) -> list[float]:
    """Return how far to the side each of some arms stands, so that none hides another.

    Examples
    --------
    >>> _shifts(1), _shifts(3)
    ([0.0], [-0.18, 0.0, 0.18])
    """
    step = _SPREAD / max(1, number - 1)
    return [round((place - (number - 1) / 2) * step, 6) for place in range(number)]
