"""Figure 7: how likely M clients are to misrank the arms, by theory and by counting."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from fedbandits.report.chart import Axis, Chart, Plot, Series
from fedbandits.report.palette import PALETTE
from fedbandits.reproduce.catalogue import paper_experiment
from fedbandits.reproduce.findings import share_of
from fedbandits.reproduce.part import Drawing, Part
from fedbandits.rules.arrays import FloatArray
from fedbandits.simulation.tables import Table, arrays, as_columns, rows_of
from fedbandits.theory import sampling

SPREAD = 0.1
GAPS = (0.02, 0.01)
_CLIENTS = (1, 2, 5, 10, 20, 35, 50, 75, *range(100, 1001, 50))
_DRAWS = 100_000


def misranking_gaps(gap: float) -> FloatArray:
    """Return Δ_k of figure 4's arms but the best, which stands ``gap`` above the second, at 0.77.

    Examples
    --------
    >>> misranking_gaps(0.02).round(3).tolist()
    [0.09, 0.08, 0.07, 0.06, 0.05, 0.04, 0.03, 0.025, 0.02]
    """
    others = np.sort(paper_experiment("fig4").variants[0].problem.means)[:-1]
    return np.asarray(others.max() + gap - others)


def misranking_table() -> Table:
    """Return the probability for every gap and number of clients: exact, counted and bounded.

    Examples
    --------
    >>> table = misranking_table()
    >>> sorted(set(table["gap"])), min(table["clients"]), max(table["clients"])
    ([0.01, 0.02], 1, 1000)
    """
    rng = np.random.default_rng(np.random.SeedSequence([2021, 7]))
    rows = []
    for gap in GAPS:
        gaps = misranking_gaps(gap)
        averages = np.append(-gaps, 0.0)
        for clients in _CLIENTS:
            drawn = averages + rng.normal(0.0, SPREAD / math.sqrt(clients), (_DRAWS, 10))
            missed = share_of(drawn.argmax(axis=1) != 9, "missed")
            rows.append(
                {
                    "gap": gap,
                    "clients": clients,
                    "exact": float(sampling.misranking_probability(gaps, SPREAD, clients)),
                    "counted": missed["share"],
                    "bound": float(sampling.misranking_bound(gaps, SPREAD, clients)),
                    "printed": float(sampling.misranking_as_printed(gaps, SPREAD, clients)),
                    "counted_low": missed["low"],
                    "counted_high": missed["high"],
                }
            )
    return as_columns(rows)


# What is drawn as a line: its name, how thick it is, and its dashes.
_LINES: dict[str, tuple[str, float, tuple[float, ...]]] = {
    "exact": ("exact", 1.8, ()),
    "bound": ("corrected bound", 1.2, (5.0, 2.5)),
    "printed": ("as printed: no bound", 1.4, (1.0, 2.0)),
}
# Above 1 no form says anything, and below this no interval begins that has a point.
_LOWEST = 1e-7
_KEY = (
    "solid: exact; points: simulated, with 95 % intervals; triangles: never seen, upper limit; "
    "dashed: corrected bound; dotted: as printed, no bound"
)


def misranking_chart(table: Table) -> Chart:
    """Return the probability, on a logarithmic scale, against the number of clients."""
    series: list[Series] = []
    for gap, colour in zip(GAPS, PALETTE, strict=False):
        rows = rows_of(table, gap=gap)
        x, *lines = (column.tolist() for column in arrays(rows, "clients", *_LINES))
        for y, (name, width, dash) in zip(lines, _LINES.values(), strict=True):
            label = f"Δ = {gap:g}, {name}"
            series.append(Series(label, x, y, colour, width=width, dash=dash))
        series += _counted(rows, f"Δ = {gap:g}, simulated", colour)
    across = Axis("clients M", low=0.0, high=1000.0)
    up = Axis("probability of misranking Pₑ", log=True, form="power", low=_LOWEST, high=1.0)
    plot = Plot(across, up, series)
    title = "Figure 7: client sampling"
    return Chart("figure-7", [plot], title=title, key=_KEY, legend="ends")


def _counted(rows: list[dict[str, Any]], label: str, colour: str) -> list[Series]:
    """Return points with intervals; if nothing was counted, the upper end of the interval."""
    names = ("clients", "counted", "counted_low", "counted_high")
    clients, counted, low, high = arrays(rows, *names)
    seen, never = counted > 0, counted == 0
    points = Series(label, clients[seen].tolist(), counted[seen].tolist(), colour, mark="dot")
    ends = np.maximum(low[seen], _LOWEST).tolist(), high[seen].tolist()
    limits = Series("", clients[never].tolist(), high[never].tolist(), colour, mark="down")
    said = ["none seen: at most this"] * int(never.sum())
    return [
        replace(points, low=ends[0], high=ends[1], width=0.0),
        replace(limits, group=label, said=said, size=6.0, hollow=True, width=0.0),
    ]


PART = Part(
    key="fig7",
    heading="Figure 7: how many clients rank the arms correctly",
    cost=(3.0, 0.0),
    table=lambda _: misranking_table(),
    drawings={"misranking": Drawing(chart=misranking_chart)},
)
