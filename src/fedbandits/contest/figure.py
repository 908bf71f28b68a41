"""The contest's figure: performance profiles."""

from __future__ import annotations

from itertools import cycle

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fedbandits.contest.standings import profile, standings
from fedbandits.experiments.figures import PALETTE
from fedbandits.experiments.figures.palette import FAINT
from fedbandits.experiments.figures.style import house_style
from fedbandits.experiments.tables import Table

LARGEST_FACTOR = 64.0
"""The figure ends here."""


def profile_figure(table: Table) -> Figure:
    """Draw in which share of the games each entrant is within a factor of the least regret.

    Those who are not ranked are dashed.
    """
    factors = np.geomspace(1.0, LARGEST_FACTOR, 400)
    with house_style():
        figure = Figure(figsize=(8.4, 4.6), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        ranked, dashes = iter(PALETTE), cycle(("--", "-.", ":"))
        for place in standings(table):
            axes.step(
                factors,
                100.0 * profile(table, place.entrant, factors),
                where="post",
                color=FAINT if place.reference else next(ranked),
                linestyle=next(dashes) if place.reference else "-",
                linewidth=1.2 if place.reference else 1.8,
                label=f"{place.entrant} (reference)" if place.reference else place.entrant,
            )
        axes.set_xscale("log", base=2)
        ticks = [2**power for power in range(int(np.log2(LARGEST_FACTOR)) + 1)]
        axes.set_xticks(ticks, [f"{tick}×" for tick in ticks])
        axes.set_xlim(1.0, LARGEST_FACTOR)
        axes.set_ylim(0.0, 102.0)
        axes.set_xlabel("total regret, in times the least of those who have to ask clients")
        axes.set_ylabel("games (%)")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=8.5)
    return figure
