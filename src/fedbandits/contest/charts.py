"""The contest's chart: performance profiles."""

from __future__ import annotations

from itertools import cycle

import numpy as np

from fedbandits.contest.standings import FIELDS, EntrantRecord, Field, profile, standings
from fedbandits.experiments.tables import Table
from fedbandits.report.chart import Axis, Chart, Plot, Series
from fedbandits.report.palette import FAINT, PALETTE

LARGEST_FACTOR = 64.0
"""The chart ends here."""


def profile_chart(table: Table) -> Chart:
    """Return in which share of the games each entrant is within a factor of the least regret.

    One panel per field: those who have to ask clients, and all. References are dashed.
    """
    places = standings(table)
    asking = [place for place in places if not place.reference]
    panels = [_panel(table, "asking", asking), _panel(table, "all", places)]
    return Chart(
        name="profile", panels=panels, columns=2, aligned=True, size=(9.6, 5.2), legend="shared"
    )


def _panel(table: Table, field: Field, places: list[EntrantRecord]) -> Plot:
    factors = np.geomspace(1.0, LARGEST_FACTOR, 400)
    colours, dashes = iter(PALETTE), cycle(((5.0, 2.5), (6.0, 2.0, 1.0, 2.0), (1.0, 2.0)))
    series = [
        Series(
            f"{place.entrant} (reference)" if place.reference else place.entrant,
            factors.tolist(),
            profile(table, place.entrant, field, factors).tolist(),
            FAINT if place.reference else next(colours),
            step=True,
            dash=next(dashes) if place.reference else (),
            width=1.2 if place.reference else 1.8,
        )
        for place in places
    ]
    ticks = {2.0**power: f"{2**power}×" for power in range(int(np.log2(LARGEST_FACTOR)) + 1)}
    return Plot(
        Axis(
            "total regret, in times the least", log=True, low=1.0, high=LARGEST_FACTOR, ticks=ticks
        ),
        Axis("share of the games", form="percent", low=0.0, high=1.02),
        series,
        title=f"among {FIELDS[field]}",
    )
