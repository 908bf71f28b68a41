"""The contest's figure: performance profiles."""

from __future__ import annotations

from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedbandits.contest.standings import FIELDS, Field, Place, profile, standings
from fedbandits.experiments.figures import PALETTE, style
from fedbandits.experiments.figures.palette import FAINT
from fedbandits.experiments.tables import Table

LARGEST_FACTOR = 64.0
"""The figure ends here."""


def profile_figure(table: Table) -> Figure:
    """Draw in which share of the games each entrant is within a factor of the least regret.

    A panel a field: those who have to ask clients, and all. References are dashed.
    """
    places = standings(table)
    with style.new_figure(9.6, 5.2) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        _draw(left, table, "asking", [place for place in places if not place.reference])
        _draw(right, table, "all", places)
        left.set_ylabel("games (%)")
        figure.legend(
            *right.get_legend_handles_labels(),
            loc="outside lower center",
            ncols=3,
            frameon=False,
            fontsize=8.5,
        )
    return figure


def _draw(axes: Axes, table: Table, field: Field, places: list[Place]) -> None:
    factors = np.geomspace(1.0, LARGEST_FACTOR, 400)
    colours, dashes = iter(PALETTE), cycle(("--", "-.", ":"))
    for place in places:
        axes.step(
            factors,
            100.0 * profile(table, place.entrant, field, factors),
            where="post",
            color=FAINT if place.reference else next(colours),
            linestyle=next(dashes) if place.reference else "-",
            linewidth=1.2 if place.reference else 1.8,
            label=f"{place.entrant} (reference)" if place.reference else place.entrant,
        )
    axes.set_title(f"among {FIELDS[field]}", fontsize=10)
    axes.set_xscale("log", base=2)
    ticks = [2**power for power in range(int(np.log2(LARGEST_FACTOR)) + 1)]
    axes.set_xticks(ticks, [f"{tick}×" for tick in ticks])
    axes.set_xlabel("total regret, in times the least")
    axes.set_xlim(1.0, LARGEST_FACTOR)
    axes.set_ylim(0.0, 102.0)
    style.open_frame(axes)
