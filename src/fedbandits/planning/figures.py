"""The pictures of a plan: regret over f and g, and the smallest gap over the number of clients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter

from fedbandits.experiments.figures import PALETTE, interactive, style
from fedbandits.experiments.figures.palette import FAINT, INK
from fedbandits.experiments.tables import Table
from fedbandits.planning.candidates import Shape
from fedbandits.planning.detection import Detector, gap_table
from fedbandits.planning.plan import Plan
from fedbandits.planning.search import map_table
from fedbandits.planning.wording import counted, rounded
from fedbandits.rules.arrays import FloatArray

_MOST_TIMES = 4.0
_WORDS = {
    Shape.CONSTANT: "the same in every phase",
    Shape.GROWING: "times p in phase p",
    Shape.DOUBLING: "doubled from phase to phase",
}


@dataclass(frozen=True, slots=True)
class RegretMap:
    """Regret over first values of f (rows) and of g (columns); NaN where nothing was simulated.

    Parameters
    ----------
    pulls, admissions : list of int
        f(1) and g(1).
    regret : array, shape (pulls, admissions)
        Mean total regret.
    shapes : (Shape, Shape)
        How f and g go on.
    best : (int, int)
        Row and column of the least regret.
    """

    pulls: list[int]
    admissions: list[int]
    regret: FloatArray
    shapes: tuple[Shape, Shape]
    best: tuple[int, int]


def regret_map(plan: Plan) -> RegretMap | None:
    """Return the map of a plan; None if nothing decides."""
    middle = next((one.candidate for one in plan.searched.map), None)
    if middle is None or middle.admissions_shape is None:
        return None
    table = map_table(plan.searched)
    pulls, admissions = sorted(set(table["pulls"])), sorted(set(table["admissions"]))
    regret = np.full((len(pulls), len(admissions)), np.nan)
    for f, g, value, undecided in zip(
        table["pulls"], table["admissions"], table["regret"], table["undecided"], strict=True
    ):
        if undecided <= 0.05:
            regret[pulls.index(f), admissions.index(g)] = value
    if np.isnan(regret).all():
        return None
    row, column = np.unravel_index(int(np.nanargmin(regret)), regret.shape)
    return RegretMap(
        pulls=pulls,
        admissions=admissions,
        regret=regret,
        shapes=(middle.pulls_shape, middle.admissions_shape),
        best=(int(row), int(column)),
    )


def map_labels(found: RegretMap) -> tuple[str, str]:
    """Return what the axes of a map are called, g first."""
    names = []
    for what, symbol, shape in (
        ("new clients", "g", found.shapes[1]),
        ("pulls of each arm by each client", "f", found.shapes[0]),
    ):
        first = "" if shape is Shape.CONSTANT else " in phase 1"
        names.append(f"{what}{first}, {symbol}(p): {_WORDS[shape]}")
    return names[0], names[1]


def map_figure(found: RegretMap) -> Figure:
    """Draw regret over f and g, the best marked.

    Colours end at four times the least regret: beyond, all is equally bad.
    """
    least = float(found.regret[found.best])
    most = min(float(np.nanmax(found.regret)), _MOST_TIMES * least)
    with style.new_figure(8.0, 5.2) as figure:
        axes: Axes = figure.subplots()
        axes.set_facecolor("#e8eaed")
        picture = axes.imshow(
            found.regret,
            origin="lower",
            aspect="auto",
            cmap="viridis_r",
            norm=LogNorm(max(least, 1e-12), max(most, 1.01 * least, 1e-11)),
        )
        row, column = found.best
        axes.plot(column, row, marker="*", markersize=17, color="white", markeredgecolor=INK)
        axes.annotate(
            f"f(p) = {found.shapes[0].expression(found.pulls[row])}\n"
            f"g(p) = {found.shapes[1].expression(found.admissions[column])}",
            (column, row),
            xytext=(14 if column < len(found.admissions) / 2 else -14, 14),
            textcoords="offset points",
            ha="left" if column < len(found.admissions) / 2 else "right",
            va="bottom" if row < 0.75 * len(found.pulls) else "top",
            size=8.5,
            bbox={"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": FAINT},
        )
        horizontal, vertical = map_labels(found)
        axes.set_xlabel(horizontal)
        axes.set_ylabel(vertical)
        axes.set_xticks(range(len(found.admissions)), [f"{g:,}" for g in found.admissions])
        axes.set_yticks(range(len(found.pulls)), [f"{f:,}" for f in found.pulls])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        bar = figure.colorbar(
            picture, ax=axes, extend="max" if np.nanmax(found.regret) > most else "neither"
        )
        bar.set_label("expected total regret (logarithmic)")
        bar.outline.set_visible(False)
        bar.ax.yaxis.set_major_locator(FixedLocator(_round_values(least, most)))
        bar.ax.yaxis.set_major_formatter(
            FuncFormatter(lambda value, _: f"{value:,.4g}" if value < 1000 else f"{value:,.0f}")
        )
        style.no_minor_ticks(bar.ax.yaxis)
    return figure


def _round_values(low: float, high: float) -> list[float]:
    """Return round numbers from low to high, a few of them.

    Examples
    --------
    >>> _round_values(8600.0, 34000.0)
    [10000.0, 15000.0, 20000.0, 30000.0]
    """
    found: list[float] = []
    decade = 10.0 ** math.floor(math.log10(max(low, 1e-12)))
    while decade <= high:
        found += [decade * step for step in (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)]
        decade *= 10.0
    inside = [value for value in found if low <= value <= high]
    few = [v for v in inside if float(f"{v:.0e}"[0]) in (1.0, 2.0, 3.0, 5.0)]
    return few if len(few) >= 3 else inside


@dataclass(frozen=True, slots=True)
class GapCurve:
    """The smallest detectable gap against the number of clients."""

    label: str
    clients: list[float]
    gap: list[float]
    finite: bool
    limit: bool


def gap_curves(plan: Plan) -> list[GapCurve]:
    """Return the curves of a plan, with its pulls and with as many as one likes."""
    n = plan.question.population
    pulls = planned_pulls(plan)
    table: Table = gap_table(plan.question, pulls)
    curves: dict[tuple[str, str], GapCurve] = {}
    for kind, many, clients, gap in zip(
        table["population"], table["pulls"], table["clients"], table["gap"], strict=True
    ):
        who = "unlimited population" if kind == "unlimited" else f"these {n:,} clients alone"
        label = f"{who}, " + (
            "any number of pulls" if many == "any" else f"{pulls:,.0f} pulls of each arm"
        )
        curve = curves.setdefault(
            (kind, many), GapCurve(label, [], [], kind == "finite", many == "any")
        )
        curve.clients.append(clients)
        curve.gap.append(gap)
    # Where clients are alike, pulls are all that is missing.
    return [curve for curve in curves.values() if max(curve.gap) > 0]


def planned_pulls(plan: Plan) -> float:
    """Return how often a client pulls an arm that stays to the end, in whole pulls."""
    outlook = plan.suggested
    if outlook is None:
        return float(plan.feasibility.pulls_of_all or 100)
    return max(1.0, round(outlook.pulls_of_arm.mean))


def gap_figure(plan: Plan) -> Figure:
    """Draw the smallest detectable gap against the number of clients, and the wanted one."""
    question = plan.question
    curves = gap_curves(plan)
    with style.new_figure(8.0, 4.8) as figure:
        axes: Axes = figure.subplots()
        low, high = _gap_limits(plan, curves)
        for curve in curves:
            axes.plot(
                curve.clients,
                np.maximum(curve.gap, low / 100),
                color=_colour(curve),
                linewidth=1.2 if curve.limit else 2.2,
                linestyle=(0, (2, 2)) if curve.limit else "-",
                label=curve.label,
            )
        axes.axhline(question.gap, color=INK, linewidth=1.0)
        axes.set(xscale="log", yscale="log", ylim=(low, high))
        right = max(curve.clients[-1] for curve in curves)
        axes.set_xlim(1, right)
        beside: dict[str, Any] = {"textcoords": "offset points", "size": 8.5}
        axes.annotate(f"wanted: {question.gap:.4g}", (1, question.gap), xytext=(5, 4), **beside)
        enough = enough_clients(plan)
        if enough is not None:
            axes.plot([enough], [question.gap], color=PALETTE[0], marker="o", markersize=6)
            at = (enough, question.gap)
            axes.annotate(counted(enough, "client"), at, xytext=(6, 6), **beside)
        if question.population is not None:
            axes.axvline(question.population, color=FAINT, linewidth=0.9, linestyle=":")
            words, at = counted(question.population, "client"), (question.population, high)
            axes.annotate(words, at, xytext=(4, -4), va="top", color=FAINT, **beside)
        axes.set_xlabel("clients")
        axes.set_ylabel("smallest detectable gap")
        style.whole_numbers(axes.xaxis)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
        axes.yaxis.set_major_locator(FixedLocator(_ticks(low, high)))
        style.no_minor_ticks(axes.xaxis, axes.yaxis)
        style.finish(axes)
        figure.legend(
            *axes.get_legend_handles_labels(), loc="outside lower left", ncols=2, frameon=False
        )
    return figure


def enough_clients(plan: Plan) -> int | None:
    """Return how many clients of an unlimited population detect the gap with the planned pulls."""
    detector = Detector.of(plan.question, population=None)
    return detector.fewest_clients(plan.question.gap, planned_pulls(plan))


def _colour(curve: GapCurve) -> str:
    return PALETTE[1] if curve.finite else PALETTE[0]


def _gap_limits(plan: Plan, curves: Sequence[GapCurve]) -> tuple[float, float]:
    """Return a range of gaps that shows where the curves meet the wanted one."""
    highest = max(max(curve.gap) for curve in curves)
    return plan.question.gap / 5.0, max(highest, 2.0 * plan.question.gap)


def _ticks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 in every decade from low to high."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    found = [step * 10.0**e for e in range(first, last + 1) for step in (1.0, 2.0, 5.0)]
    return [value for value in found if low <= value <= high]


def map_page_figure(found: RegretMap) -> dict[str, Any]:
    """Return the map as an interactive figure."""
    least = float(found.regret[found.best])
    most = min(float(np.nanmax(found.regret)), _MOST_TIMES * least)
    ticks = _round_values(least, most)
    row, column = found.best
    horizontal, vertical = map_labels(found)
    names = [f"{g:,}" for g in found.admissions], [f"{f:,}" for f in found.pulls]
    shown = [
        [None if math.isnan(value) else math.log10(max(value, 1e-12)) for value in line]
        for line in found.regret.tolist()
    ]
    heat = {
        "type": "heatmap",
        "x": names[0],
        "y": names[1],
        "z": shown,
        "customdata": [
            [None if math.isnan(value) else float(f"{value:.6g}") for value in line]
            for line in found.regret.tolist()
        ],
        "zmin": math.log10(max(least, 1e-12)),
        "zmax": math.log10(max(most, 1.01 * least, 1e-11)),
        "colorscale": "Viridis",
        "reversescale": True,
        "hoverongaps": False,
        "hovertemplate": "f(1) = %{y}, g(1) = %{x}: regret %{customdata:,.0f}<extra></extra>",
        "xgap": 1,
        "ygap": 1,
        "colorbar": {
            "title": {"text": "expected total regret", "side": "right", "font": {"size": 13}},
            "tickvals": [math.log10(value) for value in ticks],
            "ticktext": [rounded(value) for value in ticks],
            "outlinewidth": 0,
            "thickness": 16,
        },
    }
    star = {
        "type": "scatter",
        "mode": "markers",
        "x": [names[0][column]],
        "y": [names[1][row]],
        "marker": {
            "symbol": "star",
            "size": 17,
            "color": "white",
            "line": {"width": 1.2, "color": INK},
        },
        "hoverinfo": "skip",
        "showlegend": False,
    }
    layout = interactive.layout(480, left=70, right=20, top=20, plot_bgcolor="#e8eaed")
    for key, title in (("xaxis", horizontal), ("yaxis", vertical)):
        layout[key] = {
            "type": "category",
            "title": {"text": title, "font": {"size": 13}, "standoff": 10},
            "showgrid": False,
            "automargin": True,
        }
    return interactive.drawn("regret-map", [heat, star], layout)


def gap_page_figure(plan: Plan) -> dict[str, Any]:
    """Return the smallest detectable gap as an interactive figure."""
    question, curves = plan.question, gap_curves(plan)
    low, high = _gap_limits(plan, curves)
    right = max(curve.clients[-1] for curve in curves)
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": curve.label,
            "x": [float(f"{x:.6g}") for x in curve.clients],
            "y": [float(f"{max(y, low / 100):.6g}") for y in curve.gap],
            "line": {
                "color": _colour(curve),
                "width": 1.4 if curve.limit else 2.4,
                "dash": "dot" if curve.limit else "solid",
            },
            "hovertemplate": "%{x:,.0f} clients: %{y:.3g}",
        }
        for curve in curves
    ]
    lines = [_line(y=question.gap, colour=INK, dash="solid")]
    level, enough = math.log10(question.gap), enough_clients(plan)
    notes = [_note(0.0, level, f" wanted: {question.gap:.4g}")]
    if enough is not None:
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [enough],
                "y": [question.gap],
                "marker": {"color": PALETTE[0], "size": 9},
                "hoverinfo": "skip",
                "showlegend": False,
            }
        )
        notes.append(_note(math.log10(enough), level, f" {counted(enough, 'client')}"))
    if question.population is not None:
        lines.append(_line(x=question.population, colour=FAINT, dash="dot"))
        at = math.log10(question.population)
        words = counted(question.population, "client")
        notes.append(_note(at, math.log10(high), f" {words}") | {"yanchor": "top"})
    layout = interactive.layout(
        460 + 20 * len(curves),
        top=20,
        xaxis=interactive.across(
            "clients", type="log", range=[0, math.log10(right)], dtick=1, tickformat=",d"
        ),
        yaxis=interactive.up(
            "smallest detectable gap",
            type="log",
            range=[math.log10(low), math.log10(high)],
            tickvals=_ticks(low, high),
            ticktext=[f"{value:.4g}" for value in _ticks(low, high)],
        ),
        shapes=lines,
        annotations=notes,
        legend=interactive.legend_below(-0.17),
    )
    return interactive.drawn("smallest-gap", data, layout)


def _line(
    *, x: float | None = None, y: float | None = None, colour: str, dash: str
) -> dict[str, Any]:
    """Return a line across the whole figure."""
    place = (
        {"x0": 0, "x1": 1, "xref": "paper", "y0": y, "y1": y}
        if x is None
        else {"y0": 0, "y1": 1, "yref": "paper", "x0": x, "x1": x}
    )
    return {"type": "line", "line": {"color": colour, "width": 1, "dash": dash}, **place}


def _note(x: float, y: float, text: str) -> dict[str, Any]:
    return {
        "x": x,
        "y": y,
        "text": text,
        "showarrow": False,
        "xanchor": "left",
        "yanchor": "bottom",
        "font": {"size": 12},
    }
