"""The charts of a plan: regret over f and g, and the smallest gap over the number of clients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedbandits.experiments.tables import Table
from fedbandits.planning.candidates import Shape
from fedbandits.planning.detection import Detector, gap_table
from fedbandits.planning.plan import Plan
from fedbandits.planning.search import map_table
from fedbandits.planning.wording import counted
from fedbandits.report.chart import Axis, Chart, Guide, Heat, Note, Plot, Series, named_axis
from fedbandits.report.palette import PALETTE
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


def map_chart(found: RegretMap) -> Chart:
    """Return regret over f and g, the best marked.

    Colours end at four times the least regret: beyond, all is equally bad.
    """
    least = max(float(found.regret[found.best]), 1e-12)
    most = min(float(np.nanmax(found.regret)), _MOST_TIMES * least)
    row, column = found.best
    across, up = map_labels(found)
    heat = Heat(
        x=named_axis(across, [f"{g:,}" for g in found.admissions]),
        y=named_axis(up, [f"{f:,}" for f in found.pulls]),
        values=found.regret.tolist(),
        label="expected total regret (logarithmic)",
        limits=(least, max(most, 1.01 * least)),
        best=[found.best],
        note=f"f(p) = {found.shapes[0].expression(found.pulls[row])}, "
        f"g(p) = {found.shapes[1].expression(found.admissions[column])}",
    )
    return Chart(name="regret-map", panels=[heat], size=(8.0, 5.2))


def gap_series(plan: Plan) -> list[Series]:
    """Return the smallest detectable gap against the number of clients.

    With the pulls of the plan, solid, and with as many as one likes, dotted.
    """
    n = plan.question.population
    pulls = planned_pulls(plan)
    table: Table = gap_table(plan.question, pulls)
    curves: dict[tuple[str, str], tuple[list[float], list[float]]] = {}
    for kind, many, clients, gap in zip(
        table["population"], table["pulls"], table["clients"], table["gap"], strict=True
    ):
        x, y = curves.setdefault((kind, many), ([], []))
        x.append(clients)
        y.append(gap)
    series = []
    for (kind, many), (x, y) in curves.items():
        who = "unlimited population" if kind == "unlimited" else f"these {n:,} clients alone"
        any_number = many == "any"
        how = "any number of pulls" if any_number else f"{pulls:,.0f} pulls of each arm"
        # Where clients are alike, pulls are all that is missing.
        if max(y) > 0:
            series.append(
                Series(
                    label=f"{who}, {how}",
                    x=x,
                    y=y,
                    colour=PALETTE[0] if kind == "unlimited" else PALETTE[1],
                    width=1.2 if any_number else 2.2,
                    dash=(2.0, 2.0) if any_number else (),
                )
            )
    return series


def planned_pulls(plan: Plan) -> float:
    """Return how often a client pulls an arm that stays to the end, in whole pulls."""
    outlook = plan.suggested
    if outlook is None:
        return float(plan.feasibility.pulls_of_all or 100)
    return max(1.0, round(outlook.pulls_of_arm.mean))


def enough_clients(plan: Plan) -> int | None:
    """Return how many clients of an unlimited population detect the gap with the planned pulls."""
    detector = Detector.of(plan.question, population=None)
    return detector.fewest_clients(plan.question.gap, planned_pulls(plan))


def gap_chart(plan: Plan) -> Chart:
    """Return the smallest detectable gap against the number of clients, and the wanted one."""
    question, series, enough = plan.question, gap_series(plan), enough_clients(plan)
    guides = [Guide(y=question.gap, label=f"wanted: {question.gap:.4g}")]
    notes = []
    if enough is not None:
        words = counted(enough, "client")
        notes = [Note(x=enough, y=question.gap, text=words, colour=PALETTE[0])]
    if question.population is not None:
        words = counted(question.population, "client")
        guides.append(Guide(x=question.population, label=words, dash=(1.0, 2.0)))
    plot = Plot(
        x=Axis(label="clients", log=True, low=1.0, high=max(one.x[-1] for one in series)),
        # A range of gaps that shows where the curves meet the wanted one.
        y=Axis(
            label="smallest detectable gap",
            log=True,
            low=question.gap / 5.0,
            high=max(2.0 * question.gap, *(max(one.y) for one in series)),
        ),
        series=series,
        guides=guides,
        notes=notes,
    )
    return Chart(name="smallest-gap", panels=[plot], size=(8.0, 4.8), legend="shared")
