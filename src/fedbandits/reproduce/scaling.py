"""How regret grows with the horizon, for the schedules of Tables 2 and 3."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from html import escape
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from fedbandits.experiments.estimates import estimate_of
from fedbandits.experiments.figures import NORMAL_95, colours, interactive, style
from fedbandits.experiments.figures.palette import FAINT
from fedbandits.experiments.report import markup
from fedbandits.experiments.report.shell import live_figure
from fedbandits.experiments.tables import Table
from fedbandits.problems.problem import Problem
from fedbandits.reproduce.catalogue import SCALING, paper_experiment
from fedbandits.reproduce.part import Batch, Drawing, Part, Runs, as_columns, rows_of
from fedbandits.rules.algorithms import Fed1Ucb, Fed2Ucb
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.radii import PaperRadius
from fedbandits.rules.schedules import as_schedule
from fedbandits.simulation.simulator import Variant

HORIZONS = tuple(10**exponent for exponent in range(3, 10))
REPLICATIONS = 200
RESAMPLED = 4_000
"""How often replications are drawn anew for the intervals of what is fitted."""

_SEED = 2021
_FEWEST_HORIZONS = 3
# A horizon at which some games are still open has the regret of a game that was cut short.
_MOST_UNDECIDED = 0.01

CAPTION = (
    "Total regret divided by log T, for the schedules of Tables 2 and 3 on the games of figures 4 "
    "and 3, constants 1 and 1. Flat: regret grows as log T; rising: faster than log T. Bars are "
    "95 % confidence intervals of means. Hollow points on lighter lines: more than 1 % of games "
    "are undecided at the horizon, so that their regret is that of games cut short; no fit "
    "includes them."
)
_GROWTH_CAPTION = (
    "Fitted over the horizons at which at least 99 % of the games get decided. Exponent: the slope "
    "of log regret against log log T, 1 where regret grows as log T, 2 where it grows as log² T, "
    "between them where a schedule is not yet at its limit. Slope: regret for every unit of log T, "
    "from a straight line through regret against log T, which suits exponents about 1. Intervals: "
    "95 %, replications drawn anew {times:,} times, each with all of its horizons, since these "
    "share their draws."
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


def scaling_batches() -> list[Batch]:
    """Return every schedule at every horizon that its first phase fits into."""
    problems = {table: game_of(table) for table in GAMES}
    return [
        Batch(
            variants={
                (schedule.table, schedule.label, horizon): Variant(
                    label=f"{schedule.table}: {schedule.label}",
                    problem=problems[schedule.table],
                    algorithm=schedule.algorithm,
                )
                for schedule in SCHEDULES
                if _fits(schedule.algorithm, horizon)
            },
            horizon=horizon,
            replications=REPLICATIONS,
            seed=_SEED,
        )
        for horizon in HORIZONS
    ]


def scaling_table(runs: Runs) -> Table:
    """Return regret for every schedule and horizon, and how it grows."""
    rows: list[dict[str, Any]] = []
    decided: dict[tuple[int, str], dict[int, FloatArray]] = {}
    for (number, schedule, horizon), run in runs.items():
        mean, undecided = estimate_of(run.outcome.total), float((run.outcome.winner < 0).mean())
        rows.append(
            {
                "table": number,
                "schedule": schedule,
                "horizon": horizon,
                "replications": mean.n,
                "mean": mean.value,
                "stderr": mean.error,
                "undecided": undecided,
            }
        )
        totals = decided.setdefault((number, schedule), {})
        if undecided <= _MOST_UNDECIDED:
            totals[horizon] = run.outcome.total
    found = {key: fit_growth(totals, seed=_SEED) for key, totals in decided.items()}
    for row in rows:
        growth = found[row["table"], row["schedule"]]
        row.update(dict.fromkeys(_FITTED) if growth is None else asdict(growth))
    return as_columns(rows)


def _fits(algorithm: Fed1Ucb | Fed2Ucb, horizon: int) -> bool:
    """Return whether the first phase fits into the horizon, with ten arms."""
    return 10 * as_schedule(algorithm.pulls).pulls(phase=1, horizon=horizon) <= horizon


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How the regret of a schedule grows with the horizon, with 95 % intervals.

    Parameters
    ----------
    exponent, exponent_low, exponent_high : float
        Regret grows as (log T) to this power.
    slope, slope_low, slope_high : float
        By so much for every unit of log T, if it grows as log T.
    """

    exponent: float
    exponent_low: float
    exponent_high: float
    slope: float
    slope_low: float
    slope_high: float


_FITTED = tuple(field.name for field in fields(Growth))


def fit_growth(
    totals: Mapping[int, FloatArray], *, seed: int, resampled: int = RESAMPLED
) -> Growth | None:
    """Return how regret grows, fitted to its means; None for fewer than three horizons.

    Replication r of every horizon is made from the same draws, so that what is drawn anew for the
    intervals are replications with all of their horizons.

    Parameters
    ----------
    totals : mapping of int to array of shape (replications,)
        Regrets by horizon.
    seed : int
        Of the resampling.
    resampled : int
        How often as many replications are drawn, with replacement.

    Examples
    --------
    >>> squares = {10**e: np.full(5, math.log(10**e) ** 2) for e in range(3, 10)}
    >>> found = fit_growth(squares, seed=1)
    >>> round(found.exponent, 6), round(found.exponent_low, 6), round(found.exponent_high, 6)
    (2.0, 2.0, 2.0)
    """
    if len(totals) < _FEWEST_HORIZONS:
        return None
    logs = np.log(np.array(list(totals), dtype=np.float64))
    regrets = np.stack(list(totals.values()), axis=1)
    n = len(regrets)
    rng = np.random.default_rng(np.random.SeedSequence([seed, n]))
    drawn = rng.multinomial(n, np.full(n, 1 / n), size=resampled) @ regrets / n
    # The means themselves first, then those of what was drawn.
    means = np.vstack([regrets.mean(axis=0), drawn])
    exponent, *exponents = _slopes(np.log(logs), np.log(means)).tolist()
    slope, *slopes = _slopes(logs, means).tolist()
    low, high = np.quantile([exponents, slopes], [0.025, 0.975], axis=1)
    return Growth(
        exponent=exponent,
        exponent_low=float(low[0]),
        exponent_high=float(high[0]),
        slope=slope,
        slope_low=float(low[1]),
        slope_high=float(high[1]),
    )


def _slopes(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the least-squares slope of every row of y against x.

    Examples
    --------
    >>> _slopes(np.array([1.0, 2.0, 4.0]), np.array([[3.0, 5.0, 9.0], [0.0, 0.0, 0.0]]))
    array([2., 0.])
    """
    around = x - x.mean()
    return np.asarray(y @ (around / (around @ around)))


def growth_of(table: Table, number: int, schedule: str) -> Growth | None:
    """Return how the regret of a schedule grows; None where too few horizons decide.

    Parameters
    ----------
    table : Table
        From `scaling_table`.
    number, schedule
        Which of its schedules.
    """
    row = rows_of(table, table=number, schedule=schedule)[0]
    if table["exponent"][row] is None:
        return None
    return Growth(**{column: table[column][row] for column in _FITTED})


def growth_table(table: Table) -> str:
    """Return exponents and slopes of all schedules as HTML.

    Parameters
    ----------
    table : Table
        From `scaling_table`.
    """
    groups = {
        escape(title): [
            _growth_row(table, number, schedule) for schedule in _schedules(table, number)
        ]
        for number, title in _TITLES.items()
    }
    headings = (
        "schedule",
        "exponent <small>95 % interval</small>",
        "slope: regret per unit of log T <small>95 % interval</small>",
        "horizons fitted",
    )
    return f"""<figure>
{markup.table("Growth of regret", headings, groups)}
<figcaption>{_GROWTH_CAPTION.format(times=RESAMPLED)}</figcaption>
</figure>"""


def _growth_row(table: Table, number: int, schedule: str) -> str:
    rows = rows_of(table, table=number, schedule=schedule)
    growth = growth_of(table, number, schedule)
    fitted = sum(table["undecided"][row] <= _MOST_UNDECIDED for row in rows)
    cells = '<td colspan="2">too few horizons decide</td>'
    if growth is not None:
        cells = markup.cells(
            (
                f"{growth.exponent:.2f} <small>{growth.exponent_low:.2f} to "
                f"{growth.exponent_high:.2f}</small>",
                f"{growth.slope:,.0f} <small>{growth.slope_low:,.0f} to "
                f"{growth.slope_high:,.0f}</small>",
            )
        )
    return (
        f'<tr><th scope="row">{escape(schedule)}</th>{cells}<td>{fitted} of {len(rows)}</td></tr>'
    )


_TITLES = {2: "Fed2-UCB (Table 2)", 3: "Fed1-UCB (Table 3)"}
_ALGORITHMS = {2: Fed2Ucb.name, 3: Fed1Ucb.name}
_PAGE_AXES, _NARROW_AXES = 380, 270
_HEADING = (
    "flat: regret grows as log T; rising: faster than log T; bars: 95 % confidence intervals of "
    "means; hollow: more than 1 % of the games undecided"
)


def scaling_figure(table: Table) -> Figure:
    """Draw regret over log T against the horizon, a panel a table."""
    room = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08)
    with style.new_figure(9.0, 5.0, room) as figure:
        figure.suptitle(_HEADING, x=0.012, ha="left", size=8.0, color=FAINT)
        for axes, number in zip(figure.subplots(1, 2), _TITLES, strict=True):
            for curve in _curves(table, number):
                _draw(axes, curve)
            axes.set(
                xscale="log", xlabel="horizon T (slots)", ylabel="total regret / log T",
                ylim=(0, None),
            )  # fmt: skip
            style.head(axes, _TITLES[number], 11.0)
            style.no_minor_ticks(axes.xaxis)
            style.whole_numbers(axes.yaxis)
            style.finish(axes)
            # Below the axes, where it hides nothing.
            axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(-0.02, -0.14))
    return figure


def _draw(axes: Axes, curve: _Curve) -> None:
    """Draw a curve: hollow and lighter where games are undecided."""
    axes.plot(curve.horizons, curve.values, color=curve.colour, alpha=_LIGHTER, linewidth=1.2)
    open_points = axes.errorbar(
        curve.horizons, curve.where(decided=False), curve.errors, color=curve.colour, linestyle="",
        marker=curve.marker, markersize=4.5, elinewidth=1.0, capsize=2.0, alpha=_LIGHTER_POINTS,
    )  # fmt: skip
    open_points.lines[0].set_markerfacecolor("white")
    axes.errorbar(
        curve.horizons, curve.where(decided=True), curve.errors, color=curve.colour, linewidth=1.6,
        marker=curve.marker, markersize=4.5, elinewidth=1.0, capsize=2.0, label=curve.label,
    )  # fmt: skip


# Of what is undecided: how much of its colour lines and points have.
_LIGHTER, _LIGHTER_POINTS = 0.35, 0.7
# In print and on the page; the shape tells shades of one hue apart once more.
_MARKERS = {"o": "circle", "s": "square", "^": "triangle-up", "D": "diamond", "v": "triangle-down"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Curve:
    label: str
    colour: str
    marker: str
    horizons: list[int]
    values: list[float]
    errors: list[float]
    undecided: list[float]

    def where(self, *, decided: bool) -> list[float]:
        """Return the values where games get decided, or where they do not; else not a number."""
        return [
            value if (part <= _MOST_UNDECIDED) == decided else math.nan
            for value, part in zip(self.values, self.undecided, strict=True)
        ]


def _schedules(table: Table, number: int) -> list[str]:
    keys = zip(table["table"], table["schedule"], strict=True)
    return list(dict.fromkeys(label for key, label in keys if key == number))


def _curves(table: Table, number: int) -> list[_Curve]:
    """Return regret over log T of every schedule of a table."""
    schedules = _schedules(table, number)
    colour_of = colours(schedules, [_ALGORITHMS[number]] * len(schedules))
    curves = []
    for schedule, marker in zip(schedules, cycle(_MARKERS), strict=False):
        rows = rows_of(table, table=number, schedule=schedule)
        growth = growth_of(table, number, schedule)
        label = schedule
        if growth is not None:
            label += (
                f": exponent {growth.exponent:.2f} ({growth.exponent_low:.2f}–"
                f"{growth.exponent_high:.2f})"
            )
        logs = [math.log(table["horizon"][row]) for row in rows]
        curves.append(
            _Curve(
                label=label,
                colour=colour_of[schedule],
                marker=marker,
                horizons=[table["horizon"][row] for row in rows],
                values=[table["mean"][row] / log for row, log in zip(rows, logs, strict=True)],
                errors=[
                    NORMAL_95 * table["stderr"][row] / log
                    for row, log in zip(rows, logs, strict=True)
                ],
                undecided=[table["undecided"][row] for row in rows],
            )
        )
    return curves


def scaling_page_figure(table: Table) -> dict[str, Any]:
    """Return the same as an interactive figure; its panels stand in a column on narrow screens."""
    panels = [_curves(table, number) for number in _TITLES]
    data = [
        trace
        for panel, curves in zip(_PANELS, panels, strict=True)
        for curve in curves
        for trace in _traces(curve, panel)
    ]
    layout = interactive.layout(0, top=40, bottom=0, annotations=[])
    for panel, title in zip(_PANELS, _TITLES.values(), strict=True):
        layout[f"xaxis{panel}"] = interactive.across(
            "horizon T (slots)", anchor=f"y{panel}", **interactive.POWERS
        )
        layout[f"yaxis{panel}"] = interactive.up(
            "total regret / log T", anchor=f"x{panel}", rangemode="tozero", tickformat=",.0f"
        )
        layout[f"legend{panel}"] = {"xanchor": "left", "yanchor": "top", "tracegroupgap": 0}
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
    wide, narrow = _beside_each_other(max(lines)), _above_each_other(lines)
    _change(layout, wide)
    by_width = {path: (narrow[path], wide[path]) for path in wide}
    return interactive.drawn("scaling", data, layout, by_width)


def _traces(curve: _Curve, panel: str) -> list[dict[str, Any]]:
    """Return what is undecided, hollow and lighter, and what is decided, hidden as one."""
    said = [
        f"{100 * part:.0f} % undecided" if part > _MOST_UNDECIDED else ""
        for part in curve.undecided
    ]
    shared: dict[str, Any] = {
        "type": "scatter",
        "name": curve.label,
        "legend": f"legend{panel}",
        "legendgroup": f"{panel}: {curve.label}",
        "x": curve.horizons,
        "mode": "lines+markers",
        "xaxis": f"x{panel}",
        "yaxis": f"y{panel}",
    }
    symbol = _MARKERS[curve.marker]
    decided = [None if math.isnan(value) else value for value in curve.where(decided=True)]
    whole = {
        **shared,
        "y": curve.values,
        "showlegend": False,
        "opacity": _LIGHTER_POINTS,
        "line": {"color": curve.colour, "width": 1},
        "marker": {
            "symbol": [f"{symbol}-open"] * len(curve.values),
            "size": [8 if text else 0 for text in said],
            "color": curve.colour,
        },
        "error_y": {
            "type": "data",
            "array": [e if text else 0 for e, text in zip(curve.errors, said, strict=True)],
            "thickness": 1,
        },
        "hovertemplate": [
            f"T = %{{x:,}}: %{{y:,.0f}}, {text}<extra></extra>" if text else "" for text in said
        ],
    }
    return [
        whole,
        {
            **shared,
            "y": decided,
            "error_y": {"type": "data", "array": curve.errors, "thickness": 1},
            "line": {"color": curve.colour},
            "marker": {"symbol": symbol, "size": 8},
            "hovertemplate": "T = %{x:,}: %{y:,.0f}",
        },
    ]


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


def _section(table: Table, images: Mapping[str, bytes]) -> str:
    alt = "Regret divided by log T against the horizon, for nine schedules."
    caption = markup.with_subscripts(CAPTION)
    shown = live_figure(SCALING, images["scaling"], alt=alt, caption=caption)
    games = f"<p>{max(table['replications']):,} games of each schedule and horizon.</p>"
    return f"{games}\n{shown}{growth_table(table)}"


PART = Part(
    key=SCALING,
    heading="Tables 2 and 3: how regret grows with the horizon",
    batches=scaling_batches,
    table=scaling_table,
    drawings={"scaling": Drawing(draw=scaling_figure)},
    live=scaling_page_figure,
    section=_section,
)
