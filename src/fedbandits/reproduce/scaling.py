"""How regret grows with the horizon, for the schedules of Tables 2 and 3."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, NullLocator
from scipy import stats

from fedbandits.experiments.figures import (
    HORIZONTAL,
    NORMAL_95,
    PALETTE,
    VERTICAL,
    house_layout,
    reader_config,
)
from fedbandits.experiments.figures.palette import FAINT
from fedbandits.experiments.figures.style import house_style
from fedbandits.experiments.tables import Table
from fedbandits.problems.problem import Problem
from fedbandits.reproduce.catalogue import experiment_text, paper_experiment
from fedbandits.reproduce.run import hashed
from fedbandits.rules.algorithms import Fed1Ucb, Fed2Ucb
from fedbandits.rules.radii import PaperRadius
from fedbandits.rules.schedules import as_schedule
from fedbandits.simulation.simulator import Progress, Variant, simulate_all

HORIZONS = tuple(10**exponent for exponent in range(3, 10))
REPLICATIONS = 200
# A horizon at which some games are still open has the regret of a game that was cut short.
_MOST_UNDECIDED = 0.01

CAPTION = (
    "Total regret divided by log T, for the schedules of Tables 2 and 3 on the games of figures 4 "
    "and 3, constants 1 and 1: flat is O(log T), a rising line is O(log² T). The exponent is the "
    "slope of log regret against log log T over the horizons at which at least 99 % of the games "
    "get decided, with a 95 % interval: 1 for O(log T), 2 for O(log² T), between them where a "
    "schedule is not yet at its limit."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledSchedule:
    """A schedule, on the game of its table.

    Parameters
    ----------
    table : int
        2 or 3.
    label : str
        What tables and legends call it.
    algorithm : Algorithm
        With the schedule; Fed2-UCB in Table 2, Fed1-UCB in Table 3.
    row : int, optional
        Where the paper's table has it, from 0; None if it does not.
    kappa, lam : float
        κ and λ of that row, if it has them.
    """

    table: int
    label: str
    algorithm: Fed1Ucb | Fed2Ucb
    row: int | None = None
    kappa: float = 1.0
    lam: float = 1.0


_RADIUS = PaperRadius(arm=1.0, client=1.0)
SCHEDULES = (
    *(
        ScaledSchedule(
            table=2,
            label=label,
            algorithm=Fed2Ucb(pulls=pulls, admissions=admissions, radius=_RADIUS),
            row=row,
            kappa=10.0,
            lam=lam,
        )
        for label, pulls, admissions, row, lam in (
            ("f = 10, g = 2", "10", "2", 0, 2.0),
            ("f = 10, g = ⌈log T⌉", "10", "ceil(log(T))", 1, 1.0),
            ("f = 10, g = 2^p", "10", "2^p", 2, 1.0),
            ("f = 10, g = ⌈2^p log T⌉", "10", "ceil(2^p*log(T))", 3, 1.0),
            ("f = ⌈10 log T⌉, g = 2^p", "ceil(10*log(T))", "2^p", None, 1.0),
        )
    ),
    *(
        ScaledSchedule(
            table=3,
            label=label,
            algorithm=Fed1Ucb(pulls=pulls, radius=_RADIUS),
            row=row,
            kappa=kappa,
        )
        for label, pulls, row, kappa in (
            ("f = 100", "100", 0, 100.0),
            ("f = ⌈10 log T⌉", "ceil(10*log(T))", 1, 10.0),
            ("f = 2^p", "2^p", 2, 1.0),
            ("f = ⌈2^p log T⌉", "ceil(2^p*log(T))", 3, 1.0),
        )
    ),
)
GAMES = {2: "fig4", 3: "fig3"}
"""The experiment whose first game is played for a table."""


def game_of(table: int) -> Problem:
    """Return the game of a table.

    Examples
    --------
    >>> game_of(2).population, game_of(3).population
    (None, 5)
    """
    return paper_experiment(GAMES[table]).variants[0].problem


def scaling_table(
    *, scale: float = 1.0, workers: int | None = None, progress: Progress | None = None
) -> Table:
    """Return regret for every schedule and horizon.

    Parameters
    ----------
    scale : float
        Part of the replications, for a quick look.
    workers : int, optional
        Processes; all cores by default.
    progress : callable, optional
        Called as replications are done.
    """
    games = {table: game_of(table) for table in GAMES}
    table: Table = {
        key: [] for key in ("table", "schedule", "horizon", "mean", "stderr", "undecided")
    }
    for horizon in HORIZONS:
        playable = _playable(horizon)
        variants = [
            Variant(
                label=f"{schedule.table}: {schedule.label}",
                problem=games[schedule.table],
                algorithm=schedule.algorithm,
            )
            for schedule in playable
        ]
        runs = simulate_all(
            variants,
            horizon=horizon,
            replications=_scaled(scale),
            seed=2021,
            grid_points=1,
            workers=workers,
            progress=progress,
        )
        for schedule, run in zip(playable, runs, strict=True):
            total = run.outcome.total
            table["table"].append(schedule.table)
            table["schedule"].append(schedule.label)
            table["horizon"].append(horizon)
            table["mean"].append(float(total.mean()))
            table["stderr"].append(float(total.std(ddof=1) / math.sqrt(total.size)))
            table["undecided"].append(float((run.outcome.winner < 0).mean()))
    return table


def _playable(horizon: int) -> list[ScaledSchedule]:
    return [schedule for schedule in SCHEDULES if _fits(schedule.algorithm, horizon)]


def _scaled(scale: float) -> int:
    return max(2, round(REPLICATIONS * scale))


def scaling_replications(scale: float) -> int:
    """Return how many replications `scaling_table` simulates.

    Examples
    --------
    >>> scaling_replications(1.0), scaling_replications(0.0)
    (12600, 126)
    """
    return _scaled(scale) * sum(len(_playable(horizon)) for horizon in HORIZONS)


def scaling_fingerprint(scale: float) -> str:
    """Return what the table depends on, as a hash."""
    texts = [experiment_text(name) for name in GAMES.values()]
    schedules = [(schedule.table, repr(schedule.algorithm)) for schedule in SCHEDULES]
    return hashed([texts, schedules, HORIZONS, REPLICATIONS, scale])


def _fits(algorithm: Fed1Ucb | Fed2Ucb, horizon: int) -> bool:
    """Return whether the first phase fits into the horizon, with ten arms."""
    return 10 * as_schedule(algorithm.pulls).pulls(phase=1, horizon=horizon) <= horizon


@dataclass(frozen=True, slots=True)
class Growth:
    """The fitted order of growth of a schedule.

    Parameters
    ----------
    exponent, margin : float
        Regret grows as (log T) to the power ``exponent`` ± ``margin`` (95 %).
    """

    exponent: float
    margin: float


def growth_of(table: Table, number: int, schedule: str) -> Growth | None:
    """Return the order of growth of a schedule; None where too few horizons decide.

    Examples
    --------
    >>> rows = [10**e for e in range(3, 10)]
    >>> made = {
    ...     "table": [2] * 7, "schedule": ["x"] * 7, "horizon": rows, "undecided": [0.0] * 7,
    ...     "mean": [math.log(t) ** 2 for t in rows], "stderr": [0.1] * 7,
    ... }
    >>> round(growth_of(made, 2, "x").exponent, 6)
    2.0
    """
    rows = _decided_rows(table, number, schedule)
    if len(rows) < 3:
        return None
    x = np.log(np.log([table["horizon"][i] for i in rows]))
    fit = stats.linregress(x, np.log([table["mean"][i] for i in rows]))
    width = float(stats.t.ppf(0.975, len(rows) - 2) * fit.stderr)
    return Growth(float(fit.slope), width)


def _decided_rows(table: Table, number: int, schedule: str) -> list[int]:
    """Return where the horizons of a schedule stand at which its games get decided."""
    return [
        i
        for i, key in enumerate(zip(table["table"], table["schedule"], strict=True))
        if key == (number, schedule) and table["undecided"][i] <= _MOST_UNDECIDED
    ]


_TITLES = {2: "Fed2-UCB (Table 2)", 3: "Fed1-UCB (Table 3)"}
_PAGE_AXES, _NARROW_AXES = 380, 270
_HEADING = "flat: regret grows as log T; rising: faster; bars: 95 % confidence intervals of means"


def scaling_figure(table: Table) -> Figure:
    """Draw regret over log T against the horizon, a panel a table."""
    with house_style():
        room = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08)
        figure = Figure(figsize=(9.0, 5.0), layout=room)
        FigureCanvasAgg(figure)
        figure.suptitle(_HEADING, x=0.012, ha="left", size=8.0, color=FAINT)
        for axes, number in zip(figure.subplots(1, 2), _TITLES, strict=True):
            for curve, colour in zip(_curves(table, number), PALETTE, strict=False):
                axes.errorbar(
                    curve.horizons, curve.values, curve.errors, color=colour, label=curve.label,
                    marker="o", markersize=3.5, linewidth=1.6, elinewidth=1.0, capsize=2.0,
                )  # fmt: skip
            axes.set(
                xscale="log", xlabel="horizon T (slots)", ylabel="total regret / log T",
                ylim=(0, None),
            )  # fmt: skip
            axes.set_title(_TITLES[number], loc="left", fontweight="bold", size=11.0)
            axes.xaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
            axes.grid(axis="y")
            axes.set_axisbelow(True)
            axes.spines[["top", "right"]].set_visible(False)
            # Below the axes, where it hides nothing.
            axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(-0.02, -0.14))
    return figure


@dataclass(frozen=True, slots=True)
class _Curve:
    label: str
    horizons: list[int]
    values: list[float]
    errors: list[float]


def _curves(table: Table, number: int) -> list[_Curve]:
    """Return regret over log T of every schedule of a table, where games get decided."""
    curves = []
    for schedule in dict.fromkeys(
        label for key, label in zip(table["table"], table["schedule"], strict=True) if key == number
    ):
        rows = _decided_rows(table, number, schedule)
        growth = growth_of(table, number, schedule)
        label = schedule
        if growth is not None:
            label += f": exponent {growth.exponent:.2f} ± {growth.margin:.2f}"
        logs = [math.log(table["horizon"][i]) for i in rows]
        curves.append(
            _Curve(
                label,
                [table["horizon"][i] for i in rows],
                [table["mean"][i] / log for i, log in zip(rows, logs, strict=True)],
                [NORMAL_95 * table["stderr"][i] / log for i, log in zip(rows, logs, strict=True)],
            )
        )
    return curves


def scaling_page_figure(table: Table) -> dict[str, Any]:
    """Return the same as an interactive figure; panels stand above each other where it is narrow.

    Returns
    -------
    dict
        As `fedbandits.experiments.figures.regret_page_figure`.
    """
    panels = [_curves(table, number) for number in _TITLES]
    data = [
        {
            "type": "scatter",
            "name": curve.label,
            "legend": f"legend{panel}",
            "x": curve.horizons,
            "y": curve.values,
            "error_y": {"type": "data", "array": curve.errors, "thickness": 1},
            "mode": "lines+markers",
            "line": {"color": colour},
            "xaxis": f"x{panel}",
            "yaxis": f"y{panel}",
            "hovertemplate": "T = %{x:,}: %{y:,.0f}",
        }
        for panel, curves in zip(_PANELS, panels, strict=True)
        for curve, colour in zip(curves, PALETTE, strict=False)
    ]
    layout: dict[str, Any] = {
        **house_layout(0),
        "margin": {"l": 60, "r": 45, "t": 40, "b": 0},
        "annotations": [],
    }
    for panel, title in zip(_PANELS, _TITLES.values(), strict=True):
        layout[f"xaxis{panel}"] = {
            **HORIZONTAL,
            "anchor": f"y{panel}",
            "type": "log",
            "dtick": 1,
            "exponentformat": "power",
            # Powers are drawn a quarter larger than what is asked for.
            "tickfont": {"size": 11},
            "title": {"text": "horizon T (slots)", "font": {"size": 13}},
        }
        layout[f"yaxis{panel}"] = {
            **VERTICAL,
            "anchor": f"x{panel}",
            "rangemode": "tozero",
            "title": {"text": "total regret / log T", "standoff": 12, "font": {"size": 13}},
            "tickformat": ",.0f",
        }
        layout[f"legend{panel}"] = {"xanchor": "left", "yanchor": "top"}
        layout["annotations"].append(
            {
                "text": f"<b>{title}</b>",
                "xref": "paper",
                "yref": "paper",
                "xanchor": "left",
                "yanchor": "bottom",
                "showarrow": False,
            }
        )
    lines = [len(curves) for curves in panels]
    wide = _beside_each_other(max(lines))
    _change(layout, wide)
    return {
        "data": data,
        "layout": layout,
        "config": reader_config("scaling"),
        "narrow": _above_each_other(lines),
        "wide": wide,
    }


_PANELS = ("", "2")
# In pixels: from the axes down to the legend, a line of it, from the axes up to the title, and from
# a legend down to the next panel.
_TO_LEGEND, _LINE, _TO_TITLE, _BETWEEN = 60, 20, 8, 60


def _beside_each_other(lines: int) -> dict[str, Any]:
    """Return where panels and legends of so many lines stand on a wide screen."""
    below = _TO_LEGEND + _LINE * lines + 20
    changes: dict[str, Any] = {
        "height": 40 + _PAGE_AXES + below,
        "margin.b": below,
        "margin.r": 45,
    }
    for number, (panel, left) in enumerate(zip(_PANELS, (0.0, 0.56), strict=True)):
        changes |= {
            f"xaxis{panel}.domain": [left, left + 0.44],
            f"yaxis{panel}.domain": [0.0, 1.0],
            f"legend{panel}.x": left,
            f"legend{panel}.y": -_TO_LEGEND / _PAGE_AXES,
            f"legend{panel}.font.size": 13,
            f"annotations[{number}].x": left,
            f"annotations[{number}].y": 1 + _TO_TITLE / _PAGE_AXES,
        }
    return changes


def _above_each_other(lines: Sequence[int]) -> dict[str, Any]:
    """Return where panels and legends of so many lines each stand on a narrow screen."""
    first, second = (_TO_LEGEND + _LINE * number for number in lines)
    whole = 2 * _NARROW_AXES + first + _BETWEEN
    part = _NARROW_AXES / whole
    changes: dict[str, Any] = {"height": 40 + whole + second, "margin.b": second, "margin.r": 15}
    for number, (panel, top) in enumerate(zip(_PANELS, (1.0, part), strict=True)):
        changes |= {
            f"xaxis{panel}.domain": [0.0, 1.0],
            f"yaxis{panel}.domain": [top - part, top],
            # Near the edge of the figure, like that of the regret figure.
            f"legend{panel}.x": -0.2,
            f"legend{panel}.y": top - part - _TO_LEGEND / whole,
            f"legend{panel}.font.size": 12,
            f"annotations[{number}].x": 0.0,
            f"annotations[{number}].y": top + _TO_TITLE / whole,
        }
    return changes


def _change(layout: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Change a layout as Plotly would, by paths like those of ``narrow`` and ``wide``.

    Examples
    --------
    >>> made = {"annotations": [{"x": 0}]}
    >>> _change(made, {"annotations[0].x": 1, "legend.font.size": 13})
    >>> made
    {'annotations': [{'x': 1}], 'legend': {'font': {'size': 13}}}
    """
    for path, value in changes.items():
        *parents, last = path.replace("[", ".").replace("]", "").split(".")
        place: Any = layout
        for key in parents:
            place = place[int(key)] if key.isdecimal() else place.setdefault(key, {})
        place[last] = value
