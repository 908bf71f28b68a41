"""Figure 7: how likely M clients are to misrank the arms, by theory and by counting."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from fedbandits.experiments.figures import PALETTE, interactive, style
from fedbandits.experiments.figures.labels import GAP, label_at_end, put_at_ends
from fedbandits.experiments.figures.lettering import size_in_inches
from fedbandits.experiments.figures.palette import FAINT
from fedbandits.experiments.report.markup import with_subscripts
from fedbandits.experiments.report.shell import live_figure
from fedbandits.experiments.tables import Table
from fedbandits.reproduce.catalogue import MISRANKING, paper_experiment
from fedbandits.reproduce.findings import share_of
from fedbandits.reproduce.part import Drawing, Part
from fedbandits.rules.arrays import FloatArray
from fedbandits.theory.sampling import (
    misranking_as_printed,
    misranking_bound,
    misranking_probability,
)

SPREAD = 0.1
GAPS = (0.02, 0.01)
_CLIENTS = np.array([1, 2, 5, 10, 20, 35, 50, 75, *range(100, 1001, 50)], dtype=np.int64)
_DRAWS = 100_000

CAPTION = (
    "Probability that the best arm is not the best on average over M clients, with σ_c = 0.1. The "
    "game is ours, figure 4's means with the best arm at 0.77 + Δ, because the paper does not "
    "state it. Solid: the exact integral; points: the share of 100,000 simulated sets of clients, "
    "with exact 95 % intervals; triangles: it happened in none of them, and the interval is all "
    "that lies below; dashed: the corrected bound of Theorem 1; dotted: the form that the theorem "
    "prints, which the probability exceeds, so that it is no bound. A straight line on these axes "
    "falls exponentially."
)


def misranking_gaps(gap: float) -> FloatArray:
    """Return Δ_k of figure 4's arms but the best, which stands ``gap`` above the second, at 0.77.

    Examples
    --------
    >>> misranking_gaps(0.02).round(3).tolist()
    [0.09, 0.08, 0.07, 0.06, 0.05, 0.04, 0.03, 0.025, 0.02]
    """
    others = np.sort(paper_experiment("fig4").variants[0].problem.means)[:-1]
    return np.asarray(others.max() + gap - others)


def misranking_table(seed: int = 2021) -> Table:
    """Return the probability for every gap and number of clients: exact, counted and bounded.

    Examples
    --------
    >>> table = misranking_table()
    >>> sorted(set(table["gap"])), min(table["clients"]), max(table["clients"])
    ([0.01, 0.02], 1, 1000)
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, 7]))
    columns = ("gap", "clients", *_WAYS, "counted_low", "counted_high")
    table: Table = {key: [] for key in columns}
    for gap in GAPS:
        gaps = misranking_gaps(gap)
        averages = np.append(-gaps, 0.0)
        table["gap"] += [gap] * _CLIENTS.size
        table["clients"] += _CLIENTS.tolist()
        table["exact"] += misranking_probability(gaps, SPREAD, _CLIENTS).tolist()
        table["bound"] += misranking_bound(gaps, SPREAD, _CLIENTS).tolist()
        table["printed"] += misranking_as_printed(gaps, SPREAD, _CLIENTS).tolist()
        for clients in _CLIENTS.tolist():
            drawn = averages + rng.normal(0.0, SPREAD / math.sqrt(clients), (_DRAWS, 10))
            missed = share_of(drawn.argmax(axis=1) != 9, "missed")
            table["counted"].append(missed["share"])
            table["counted_low"].append(missed["low"])
            table["counted_high"].append(missed["high"])
    return table


_WAYS: dict[str, str] = {
    "exact": "exact",
    "counted": "simulated",
    "bound": "corrected bound",
    "printed": "as printed: no bound",
}
# Above 1 no form says anything, and below this no interval begins that has a point.
_LOWEST = 1e-7
_PAGE_AXES = 400
# In pixels, below the axes: beside each other, the legends of the two gaps need less.
_LEGEND_WIDE, _LEGEND_NARROW = 170, 280
_HEADING = (
    "Figure 7: client sampling",
    "solid: exact; points: simulated, with 95 % intervals; triangles: never seen, upper limit; "
    "dashed: corrected bound; dotted: as printed, no bound",
)


def misranking_figure(table: Table) -> Figure:
    """Draw the probability, on a logarithmic scale, against the number of clients."""
    with style.new_figure(8.6, 4.9, layout=None) as figure:
        axes = figure.add_axes((0.09, 0.11, 0.62, 0.75))
        axes.set_yscale("log")
        axes.set(xlim=(0, 1000), ylim=(_LOWEST, 1.0))
        ends: list[tuple[str, float, str]] = []
        for gap, colour in zip(GAPS, PALETTE, strict=False):
            ways = _ways(table, gap)
            clients = ways["clients"]
            axes.plot(clients, ways["exact"], color=colour, linewidth=1.8)
            axes.plot(clients, ways["bound"], color=colour, linewidth=1.2, dashes=(5, 2.5))
            axes.plot(clients, ways["printed"], color=colour, linewidth=1.4, linestyle=":")
            seen = ways["counted"] > 0
            axes.vlines(
                clients[seen], np.maximum(ways["counted_low"][seen], _LOWEST),
                ways["counted_high"][seen], color=colour, linewidth=0.9, clip_on=False,
            )  # fmt: skip
            axes.plot(
                clients[~seen], ways["counted_high"][~seen], color=colour, linestyle="",
                marker="v", markersize=6, markerfacecolor="white", clip_on=False, zorder=3,
            )  # fmt: skip
            axes.plot(
                clients[seen], ways["counted"][seen], color=colour, linestyle="", marker="o",
                markersize=3.5, clip_on=False, zorder=3,
            )  # fmt: skip
            ends += [
                (f"Δ = {gap:g}, {_WAYS[way]}", float(ways[way][-1]), colour)
                for way in ("bound", "exact", "printed")
                if ways[way][-1] >= _LOWEST
            ]
            if ways["printed"][-1] < _LOWEST:
                _label_where_it_leaves(axes, f"Δ = {gap:g}, {_WAYS['printed']}", ways, colour)
        _label_ends(figure, axes, ends)
        _dress(figure, axes)
    return figure


def _ways(table: Table, gap: float) -> dict[str, FloatArray]:
    """Return the columns of a gap."""
    rows = [i for i, value in enumerate(table["gap"]) if value == gap]
    return {
        key: np.array([column[i] for i in rows], dtype=np.float64) for key, column in table.items()
    }


def _label_where_it_leaves(
    axes: Axes, label: str, ways: dict[str, FloatArray], colour: str
) -> None:
    """Label the printed form beside where it leaves the axes at the bottom."""
    level = math.log(5 * _LOWEST)
    logs = np.log(ways["printed"])
    where = float(np.interp(-level, -logs, ways["clients"]))
    axes.text(where + 12, math.exp(level), label, color=colour, size=8.5, va="center")


def _label_ends(figure: Figure, axes: Axes, ends: list[tuple[str, float, str]]) -> None:
    """Label curves at the right, none on another."""
    labels = [label_at_end(axes, label) for label, _, _ in ends]
    box = axes.get_position()
    width, height = figure.get_size_inches()
    put_at_ends(
        axes,
        labels,
        ends=[end for _, end, _ in ends],
        colours=[colour for _, _, colour in ends],
        room=[size_in_inches(figure, label)[1] + GAP for label in labels],
        axes_size=(box.width * float(width), box.height * float(height)),
    )


def _dress(figure: Figure, axes: Axes) -> None:
    style.whole_numbers(axes.xaxis)
    axes.yaxis.set_major_locator(LogLocator())
    style.no_minor_ticks(axes.yaxis)
    axes.set(xlabel="clients M", ylabel="probability of misranking $P_e$ (logarithmic)")
    style.finish(axes)
    title, key = _HEADING
    figure.text(0.015, 0.975, title, size=11.0, fontweight="bold", va="top")
    figure.text(0.015, 0.92, key, size=8.0, color=FAINT, va="top")


def _counted_on_page(ways: dict[str, FloatArray], colour: str) -> dict[str, Any]:
    """Return points and intervals; where nothing was counted, where the interval ends above."""
    seen = ways["counted"] > 0
    middle = np.where(seen, ways["counted"], ways["counted_high"])
    low = np.where(seen, np.maximum(ways["counted_low"], _LOWEST), middle)
    return {
        "y": middle.tolist(),
        "marker": {
            "color": colour,
            "size": np.where(seen, 7, 10).tolist(),
            "symbol": np.where(seen, "circle", "triangle-down-open").tolist(),
            "opacity": 1,
            "line": {"width": np.where(seen, 0, 1.5).tolist()},
        },
        "cliponaxis": False,
        "customdata": [
            f"{share:.3g}" if share else f"none, so at most {most:.2g}"
            for share, most in zip(
                ways["counted"].tolist(), ways["counted_high"].tolist(), strict=True
            )
        ],
        "hovertemplate": "M = %{x:,}: %{customdata}",
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": (ways["counted_high"] - middle).tolist(),
            "arrayminus": (middle - low).tolist(),
            "thickness": 1,
            "width": 0,
        },
    }


def misranking_page_figure(table: Table) -> dict[str, Any]:
    """Return the same as an interactive figure."""
    dashes = {"exact": "solid", "counted": "solid", "bound": "dash", "printed": "dot"}
    data = []
    for gap, colour in zip(GAPS, PALETTE, strict=False):
        ways = _ways(table, gap)
        for way, name in _WAYS.items():
            trace: dict[str, Any] = {
                "type": "scatter",
                "name": name,
                "legendgroup": f"{gap:g}",
                "legendgrouptitle": {"text": f"Δ = {gap:g}"},
                "x": ways["clients"].astype(int).tolist(),
                "y": [value or None for value in ways[way].tolist()],
                "mode": "markers" if way == "counted" else "lines",
                "line": {"color": colour, "dash": dashes[way]},
                "hovertemplate": f"Δ = {gap:g}, M = %{{x:,}}: %{{y:.3g}}",
            }
            if way == "counted":
                trace |= _counted_on_page(ways, colour)
            data.append(trace)
    layout = interactive.layout(
        _PAGE_AXES + 20 + _LEGEND_WIDE,
        top=20,
        bottom=_LEGEND_WIDE,
        legend=interactive.legend_below(-60 / _PAGE_AXES, orientation="h"),
        xaxis=interactive.across("clients M", range=[0, 1000], tickformat=",d"),
        yaxis=interactive.up(
            "probability of misranking P<sub>e</sub>",
            **interactive.POWERS,
            range=[math.log10(_LOWEST), 0.0],
        ),
    )
    by_width = {
        "height": (_PAGE_AXES + 20 + _LEGEND_NARROW, _PAGE_AXES + 20 + _LEGEND_WIDE),
        "margin.b": (_LEGEND_NARROW, _LEGEND_WIDE),
    }
    return interactive.drawn("figure-7", data, layout, by_width)


def _section(_: Table, images: Mapping[str, bytes]) -> str:
    alt = "Probability of misranking against the number of clients, for two gaps."
    caption = with_subscripts(CAPTION)
    return live_figure(MISRANKING, images["misranking"], alt=alt, caption=caption)


PART = Part(
    key=MISRANKING,
    heading="Figure 7: how many clients rank the arms rightly",
    table=lambda _: misranking_table(),
    drawings={"misranking": Drawing(draw=misranking_figure)},
    live=misranking_page_figure,
    section=_section,
)
