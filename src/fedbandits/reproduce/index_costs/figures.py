"""The pictures: how regret is spread over games, and how its mean grows with the horizon."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter

from fedbandits.experiments.figures import NORMAL_95, colours, style
from fedbandits.experiments.figures.palette import FAINT
from fedbandits.experiments.tables import Table
from fedbandits.reproduce.index_costs.tables import (
    AUTHORS,
    CERTIFIED,
    FIRST,
    GROWING,
    MOSS,
    fits_table,
    index_games,
    points,
)
from fedbandits.reproduce.part import rows_of
from fedbandits.rules.algorithms import FedIndex

TAILS_CAPTION = """Which share of the games has so much total regret or more, for rules on the same
draws; both axes are logarithmic. A dot is the worst of all games. Where a curve falls
steeply games are alike; a curve that bends to the right has a heavy tail."""

GROWTH_CAPTION = """Mean total regret of fed-index with its 95 % confidence intervals against the
horizon, on a logarithmic axis: what grows as log T is a straight line. The lines are fitted to all
horizons and to those from 100,000 on. Dotted: the slope of Lai and Robbins times log T, for one
player with these means; it is a slope in the limit, and no bound at these horizons."""

TAILED = (MOSS, CERTIFIED, AUTHORS)
"""The rules whose tails are drawn."""


def tails_figure(tails: Table) -> Figure:
    """Draw the share of games with as much regret or more, a panel a game."""
    with style.new_figure(10.4, 3.8) as figure:
        panels = figure.subplots(1, 3, sharex=True, sharey=True)
        for axes, game in zip(panels, index_games(), strict=True):
            colour_of = colours(TAILED, [game.algorithms[rule].name for rule in TAILED])
            for rule in TAILED:
                rows = rows_of(tails, game=game.key, rule=rule)
                regrets = [tails["regret"][row] for row in rows]
                shares = [tails["share"][row] for row in rows]
                axes.plot(regrets, shares, color=colour_of[rule], linewidth=1.6, label=rule)
                axes.plot(regrets[:1], shares[:1], "o", color=colour_of[rule], markersize=4)
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(FixedLocator([500, 1_000, 2_000, 5_000, 10_000]))
            style.no_minor_ticks(axes.xaxis)
            style.whole_numbers(axes.xaxis)
            axes.set_xlabel("total regret at T = 1,000,000")
            _finish(axes, game.title)
        panels[0].set_yscale("log")
        panels[0].set_xlim(300, None)
        panels[0].set_ylabel("share of the games with as much or more")
        panels[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
        for axes in panels:
            axes.legend(frameon=False, fontsize=8.0, handlelength=1.2, loc="lower left")
    return figure


def growth_figure(growth: Table) -> Figure:
    """Draw mean regret against log T with the lines that are fitted, a panel a game."""
    fits = fits_table(growth)
    titles = {game.key: game.title for game in index_games()}
    colour = colours([MOSS], [FedIndex.name])[MOSS]
    with style.new_figure(9.0, 3.9) as figure:
        for axes, game in zip(figure.subplots(1, 2), GROWING, strict=True):
            horizons, means, errors = points(growth, game, FIRST[0])
            logs = np.log(horizons)
            for first, dash in zip(FIRST, ("--", "-"), strict=True):
                (row,) = rows_of(fits, game=game, first=first, power=1.0)
                axes.plot(
                    horizons,
                    fits["intercept"][row] + fits["slope"][row] * logs,
                    dash,
                    color=colour,
                    linewidth=1.2,
                    label=f"line from T = {first:,} on: slope {fits['slope'][row]:,.0f}"
                    f" ± {fits['sampling_margin'][row]:.1f}",
                )
            slope = fits["lai_robbins"][0]
            axes.plot(
                horizons,
                slope * logs,
                ":",
                color=FAINT,
                label=f"Lai and Robbins: {slope:,.0f} log T",
            )
            axes.errorbar(
                horizons, means, NORMAL_95 * errors, color=colour, linestyle="", marker="o",
                markersize=4.5, elinewidth=1.0, capsize=2.0, label="mean of fed-index",
            )  # fmt: skip
            axes.set_xscale("log")
            style.no_minor_ticks(axes.xaxis)
            axes.set_ylim(0.0, None)
            style.whole_numbers(axes.yaxis)
            axes.set_xlabel("horizon T (slots)")
            axes.set_ylabel("mean total regret")
            axes.legend(frameon=False, fontsize=8.0, loc="upper left")
            _finish(axes, titles[game])
    return figure


def _finish(axes: Axes, title: str) -> None:
    style.head(axes, title[0].upper() + title[1:])
    style.finish(axes)
