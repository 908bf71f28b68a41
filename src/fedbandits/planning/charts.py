"""The charts of a plan: regret over f and g, the smallest gap, and the price of honesty."""

from __future__ import annotations

import math

import numpy as np

from fedbandits.planning.candidates import Shape
from fedbandits.planning.detection import Detector, gap_curves
from fedbandits.planning.honesty import bearable
from fedbandits.planning.plan import Plan
from fedbandits.planning.search import map_table
from fedbandits.planning.wording import counted
from fedbandits.report.chart import (
    NORMAL_95,
    Axis,
    Chart,
    Guide,
    Heat,
    Note,
    Plot,
    Series,
    named_axis,
)
from fedbandits.report.palette import PALETTE
from fedbandits.simulation.assumptions import share_below

_MOST_TIMES = 4.0
_LIARS = "share of clients that may lie"
_FEWEST, _REGRET = "fewest clients", "total regret"
_WORDS: dict[Shape | None, str] = {
    Shape.CONSTANT: ", {}(p): the same in every phase",
    Shape.GROWING: " in phase 1, {}(p): times p in phase p",
    Shape.DOUBLING: " in phase 1, {}(p): doubled from phase to phase",
}


def map_chart(plan: Plan) -> Chart | None:
    """Return regret over first values of f and g, the best marked; None if nothing decides.

    Colours end at four times the least regret: beyond, all is equally bad.
    """
    best = plan.searched.best_on_map
    if best is None:
        return None
    table = map_table(plan.searched)
    pulls, admissions = sorted(set(table["pulls"])), sorted(set(table["admissions"]))
    regret = np.full((len(pulls), len(admissions)), np.nan)
    for one in plan.searched.map:
        if one.decides:
            row = pulls.index(one.candidate.pulls)
            regret[row, admissions.index(one.candidate.admissions)] = one.regret
    place = pulls.index(best.pulls), admissions.index(best.admissions)
    least = max(float(regret[place]), 1e-12)
    most = min(float(np.nanmax(regret)), _MOST_TIMES * least)
    f_words = f"pulls of each arm by each client{_WORDS[best.pulls_shape].format('f')}"
    g_words = f"new clients{_WORDS[best.admissions_shape].format('g')}"
    heat = Heat(
        x=named_axis(g_words, [f"{g:,}" for g in admissions]),
        y=named_axis(f_words, [f"{f:,}" for f in pulls]),
        values=regret.tolist(),
        label="expected total regret",
        limits=(least, max(most, 1.01 * least)),
        best=[place],
        note=f"f(p) = {best.f}, g(p) = {best.g}",
    )
    return Chart(name="regret-map", panels=[heat], size=(8.0, 5.2))


def gap_series(plan: Plan) -> list[Series]:
    """Return the smallest detectable gap against the number of clients.

    With the pulls of the plan, solid, and with any number of pulls, dotted.
    """
    pulls = planned_pulls(plan)
    series = []
    for n, many, clients, gaps in gap_curves(plan.question, pulls):
        who = "unlimited population" if n is None else f"these {n:,} clients alone"
        any_number = math.isinf(many)
        how = "any number of pulls" if any_number else f"{pulls:,.0f} pulls of each arm"
        # If clients are alike, pulls are all that is missing.
        if gaps.max() > 0:
            series.append(
                Series(
                    label=f"{who}, {how}",
                    x=clients.tolist(),
                    y=gaps.tolist(),
                    colour=PALETTE[0] if n is None else PALETTE[1],
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


def honesty_chart(plan: Plan) -> Chart | None:
    """Return clients and regret over the share that may lie; None if fewer than two shares decide.

    One panel each: both on a scale that begins at nothing.
    """
    regrets = [(one.share, one.outlook.regret) for one in plan.honesty if one.outlook is not None]
    fewest = [(one.share, one.clients) for one in plan.honesty if one.clients is not None]
    if len(regrets) < 2:
        return None
    drawn = [
        Series(
            label=_FEWEST,
            x=[share for share, _ in fewest],
            y=[clients for _, clients in fewest],
            colour=PALETTE[0],
            mark="dot",
        ),
        Series(
            label=_REGRET,
            x=[share for share, _ in regrets],
            y=[regret.mean for _, regret in regrets],
            half=[NORMAL_95 * regret.stderr for _, regret in regrets],
            colour=PALETTE[1],
            mark="dot",
        ),
    ]
    limit = bearable(plan.question)
    # Without a spread between clients any share below one half can be borne.
    guides = [Guide(x=limit, label=f"at most {share_below(limit)}")] if limit < 0.49 else []
    most = max(limit if guides else 0.0, *(share for share, _ in regrets))
    panels = [
        Plot(
            x=Axis(label=_LIARS, low=0.0, high=1.5 * most, form="percent"),
            y=Axis(label=one.label, low=0.0, high=1.15 * max(one.y)),
            series=[one],
            guides=guides,
        )
        for one in drawn
    ]
    return Chart(name="honesty", panels=panels, size=(8.0, 3.8))


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
