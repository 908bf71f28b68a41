"""Arms as rows: what is known of each, and whether it is left."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedbandits.experiments.figures import interactive, style
from fedbandits.experiments.figures.palette import FAINT, PALETTE, RULE
from fedbandits.federation.status import ArmState, ArmStatus, printable, short_name
from fedbandits.rules.phased import Goal

MOST_ROWS = 25
"""So many arms are shown, the best ones of those that are left first."""

LABEL = "estimated mean"
"""What the axis of estimates is called."""

_LEFT, _OUT = PALETTE[0], "#9aa0a6"
_ROW_PIXELS, _ROW_INCHES = 42, 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRow:
    """An arm of which something is known.

    Parameters
    ----------
    name : str
        Of the arm.
    state : ArmState
        Whether it is left.
    phase : int or None
        The last one that was played with it, if it is not left.
    when : str or None
        Before, in or after which phase it was withdrawn.
    estimate, low, high : float
        With the ends of its interval.
    """

    name: str
    state: ArmState
    phase: int | None
    when: str | None
    estimate: float
    low: float
    high: float

    @property
    def label(self) -> str:
        """Its name, as it can be shown."""
        return printable(self.name)

    @property
    def fate(self) -> str:
        """What became of it, in two words: reasons are long, and stand elsewhere."""
        match self.state:
            case ArmState.LEFT:
                return "left"
            case ArmState.OUT:
                return f"out in phase {self.phase}"
        return f"withdrawn {self.when}"


def arm_rows(arms: Sequence[ArmStatus], goal: Goal) -> list[ArmRow]:
    """Return the arms that a figure shows: those with an estimate, who is left and best first.

    Examples
    --------
    >>> def arm(name, state, estimate):
    ...     known = {"estimate": estimate, "low": 0.0, "high": 1.0}
    ...     return ArmStatus(name=name, state=state, phase=1, when=None, reason=None, **known)
    >>> out, left = ArmState.OUT, ArmState.LEFT
    >>> arms = [arm("a", out, 0.9), arm("b", left, 0.5), arm("c", left, 0.6), arm("d", left, None)]
    >>> [row.name for row in arm_rows(arms, "max")], [row.name for row in arm_rows(arms, "min")]
    (['c', 'b', 'a'], ['b', 'c', 'a'])
    """
    names = [field.name for field in fields(ArmRow)]
    rows = [
        ArmRow(**{name: getattr(arm, name) for name in names})
        for arm in arms
        if arm.estimate is not None
    ]
    sign = -1.0 if goal == "max" else 1.0
    return sorted(rows, key=lambda row: (row.state is not ArmState.LEFT, sign * row.estimate))


def arm_intervals_figure(arms: Sequence[ArmRow]) -> Figure:
    """Draw estimates and intervals, a row an arm, from top to bottom.

    Parameters
    ----------
    arms : sequence of ArmRow
        From `arm_rows`; of more than `MOST_ROWS` the first.
    """
    arms = arms[:MOST_ROWS]
    with style.new_figure(8.0, 1.0 + _ROW_INCHES * len(arms)) as figure:
        axes: Axes = figure.subplots()
        for row, arm in enumerate(arms):
            colour = _colour(arm)
            axes.plot([arm.low, arm.high], [row, row], color=colour, linewidth=2.0)
            axes.plot(arm.estimate, row, marker="o", markersize=6, color=colour)
        axes.set_ylim(len(arms) - 0.4, -0.6)
        labels = axes.set_yticks(
            range(len(arms)), [f"{short_name(arm.label, 30)}  ({arm.fate})" for arm in arms]
        )
        for tick, arm in zip(labels, arms, strict=True):
            tick.label1.set_parse_math(False)
            tick.label1.set_color("black" if arm.state is ArmState.LEFT else FAINT)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 2.5, 5, 10]))
        axes.set_xlabel(LABEL)
        axes.grid(axis="x")
        axes.set_axisbelow(True)
        axes.tick_params(axis="y", length=0)
        axes.spines[["top", "right", "left"]].set_visible(False)
    return figure


def arm_intervals_page_figure(arms: Sequence[ArmRow]) -> dict[str, Any]:
    """Return the same as an interactive figure, as the plain value that Plotly draws."""
    arms = arms[:MOST_ROWS]
    data = []
    for state, colour in ((True, _LEFT), (False, _OUT)):
        rows = [(row, arm) for row, arm in enumerate(arms) if (arm.state is ArmState.LEFT) is state]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [arm.estimate for _, arm in rows],
                "y": [row for row, _ in rows],
                "marker": {"size": 10, "color": colour},
                "error_x": {
                    "type": "data",
                    "symmetric": False,
                    "array": [arm.high - arm.estimate for _, arm in rows],
                    "arrayminus": [arm.estimate - arm.low for _, arm in rows],
                    "color": colour,
                    "thickness": 2.5,
                    "width": 0,
                },
                "customdata": [[arm.low, arm.high] for _, arm in rows],
                "text": [_two_lines(arm) for _, arm in rows],
                "hovertemplate": "%{text}<br>%{x:.4g}, between %{customdata[0]:.4g} and"
                " %{customdata[1]:.4g}<extra></extra>",
            }
        )
    layout = interactive.layout(
        110 + _ROW_PIXELS * len(arms),
        top=30,
        hovermode="closest",
        showlegend=False,
        xaxis=interactive.across(LABEL, showgrid=True, gridcolor=RULE, nticks=6),
        yaxis={
            "tickmode": "array",
            "tickvals": list(range(len(arms))),
            "ticktext": [_two_lines(arm) for arm in arms],
            "range": [len(arms) - 0.4, -0.6],
            "automargin": True,
            "zeroline": False,
            "showgrid": False,
        },
    )
    by_width = {"xaxis.nticks": (3, 6), "yaxis.tickfont.size": (11, 13)}
    return interactive.drawn("estimates", data, layout, by_width)


def _colour(arm: ArmRow) -> str:
    return _LEFT if arm.state is ArmState.LEFT else _OUT


def _two_lines(arm: ArmRow) -> str:
    """Return a name and what became of it, with what Plotly would take for a tag escaped."""
    name = html.escape(short_name(arm.label, 20), quote=False)
    return f"{name}<br><span style='color:{FAINT};font-size:0.85em'>{arm.fate}</span>"
