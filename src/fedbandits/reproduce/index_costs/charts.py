"""The charts: how regret is spread over games, and how its mean grows with the horizon."""

from __future__ import annotations

import numpy as np

from fedbandits.experiments.tables import Table, arrays, rows_of
from fedbandits.report.chart import NORMAL_95, Axis, Chart, Plot, Series
from fedbandits.report.palette import FAINT, colours
from fedbandits.reproduce.index_costs.tables import (
    AUTHORS,
    CERTIFIED,
    FIRST,
    GROWING,
    MOSS,
    Tables,
    index_games,
    points,
)
from fedbandits.rules.algorithms import FedIndex

_LINE = "line from T = {first:,} on: slope {slope:,.0f} ± {sampling_margin:.1f}"
TAILED = (MOSS, CERTIFIED, AUTHORS)
"""The rules whose tails are drawn."""


def tails_chart(tables: Tables) -> Chart:
    """Return the share of games with as much regret or more, one panel per game."""
    ticks = {float(regret): f"{regret:,}" for regret in (500, 1_000, 2_000, 5_000, 10_000)}
    across = Axis("total regret at T = 1,000,000", log=True, low=300.0, ticks=ticks)
    share = Axis("share of the games with as much or more", log=True, form="percent")
    panels = []
    for game in index_games():
        colour_of = colours(TAILED, [game.algorithms[rule].name for rule in TAILED])
        series: list[Series] = []
        for rule in TAILED:
            drawn = arrays(rows_of(tables["tails"], game=game.key, rule=rule), "regret", "share")
            x, y = (column.tolist() for column in drawn)
            series += [
                Series(rule, x, y, colour_of[rule], width=1.6),
                # The worst of all games.
                Series("", x[:1], y[:1], colour_of[rule], group=rule, mark="dot", width=0.0),
            ]
        panels.append(Plot(across, share, series, title=_title(game.title)))
    return Chart(
        name="tails", panels=panels, columns=3, aligned=True, size=(10.4, 4.4), legend="below"
    )


def growth_chart(tables: Tables) -> Chart:
    """Return mean regret against log T with the lines that are fitted, one panel per game."""
    titles = {game.key: game.title for game in index_games()}
    panels = [
        Plot(
            Axis("horizon T (slots)", log=True, form="power"),
            Axis("mean total regret", low=0.0),
            _growth(tables["growth"], tables["fits"], game),
            title=_title(titles[game]),
        )
        for game in GROWING
    ]
    return Chart(name="growth", panels=panels, columns=2, size=(9.0, 4.8), legend="below")


def _growth(growth: Table, fits: Table, game: str) -> list[Series]:
    horizons, means, errors = points(growth, game, FIRST[0])
    x, logs = horizons.tolist(), np.log(horizons)
    colour = colours([MOSS], [FedIndex.name])[MOSS]
    series = []
    for first, dash in zip(FIRST, ((4.0, 2.0), ()), strict=True):
        (row,) = rows_of(fits, game=game, first=first, power=1.0)
        line = (row["intercept"] + row["slope"] * logs).tolist()
        series.append(Series(_LINE.format_map(row), x, line, colour, dash=dash, width=1.2))
    slope = fits["lai_robbins"][0]
    least, half = (slope * logs).tolist(), (NORMAL_95 * errors).tolist()
    return [
        *series,
        Series(f"Lai and Robbins: {slope:,.0f} log T", x, least, FAINT, dash=(1.0, 2.0)),
        Series("mean of fed-index", x, means.tolist(), colour, half=half, mark="dot", width=0.0),
    ]


def _title(title: str) -> str:
    return title[0].upper() + title[1:]
