"""What the page shows: tables to read, which README and documentation repeat, and charts."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from fedbandits.experiments.game_means import GameMean
from fedbandits.experiments.tables import Table, arrays, rows_of
from fedbandits.experiments.wording import listed
from fedbandits.report.chart import NORMAL_95, Axis, Chart, Plot, Series
from fedbandits.report.palette import FAINT, colours
from fedbandits.report.shown import Shown
from fedbandits.reproduce.index_costs.tables import (
    AUTHORS,
    CERTIFIED,
    FIRST,
    GROWING,
    MOSS,
    OURS,
    Tables,
    index_games,
    points,
)
from fedbandits.reproduce.texts import Row, shown_table
from fedbandits.rules.algorithms import FedIndex

_POWER_NAMES = {0.5: "√log T", 1.0: "log T", 1.5: "(log T)^1.5", 2.0: "log² T"}
_MEAN = "{regret:,.0f} ± {half:,.0f}"


def shown_tables(tables: Tables) -> dict[str, Shown]:
    """Return everything to read, by what the text of the section calls it.

    Parameters
    ----------
    tables : dict of str to Table
        From `fedbandits.reproduce.index_costs.tables.index_costs_tables`.
    """
    titles = {game.key: game.title for game in index_games()}
    games = [
        {**row, "title": titles[row["game"]], "wrong_in_10_000": 1e4 * row["wrong_high"]}
        for row in rows_of(tables["games"])
    ]
    movielens = [
        {**row, "times": "1" if row["algorithm"] == OURS else _times(row)}
        for row in rows_of(tables["movielens"])
    ]
    beside = _side_by_side(games)
    rules = list(dict.fromkeys(tables["games"]["rule"]))
    return {
        "brief": shown_table("index-brief", beside),
        "regrets": Shown(
            name="Total regret",
            headings=["game", *rules, f"{CERTIFIED} / moss"],
            rows=[[row[name] for name in ("title", *rules, "times")] for row in beside],
        ),
        "tails": shown_table("index-tails", games),
        "growth": _growth(tables["growth"], titles),
        "fits": shown_table("index-fits", _fits(tables["fits"], titles)),
        "movielens": shown_table("index-movielens", movielens),
    }


def _side_by_side(games: list[dict[str, Any]]) -> list[Row]:
    """Return a row for every game: that of one index, with the mean regret of every rule."""
    rows: list[Row] = []
    for ours in (row for row in games if row["rule"] == MOSS):
        rules = {row["rule"]: row for row in games if row["game"] == ours["game"]}
        means = {rule: _MEAN.format_map(row) for rule, row in rules.items()}
        rows.append({**ours, **means, "times": _times(rules[CERTIFIED])})
    return rows


def _times(row: Row) -> str:
    return GameMean(row["ratio"], row["ratio_stderr"], row["replications"]).shown()


def _growth(growth: Table, titles: Mapping[str, str]) -> Shown:
    by_game = {game: rows_of(growth, game=game) for game in GROWING}
    return Shown(
        name="Mean regret by horizon",
        headings=["game", *(f"T = {row['horizon']:,}" for row in by_game[GROWING[0]])],
        rows=[
            [titles[game], *(_MEAN.format_map(row) for row in rows)]
            for game, rows in by_game.items()
        ],
    )


def _fits(fits: Table, titles: Mapping[str, str]) -> list[Row]:
    rows: list[Row] = []
    for line in rows_of(fits, power=1.0):
        same = rows_of(fits, game=line["game"], first=line["first"])
        explained = [_explained(row) for row in same]
        rows.append({**line, "explained": explained, "title": titles[line["game"]]})
    return rows


def _explained(row: Row) -> str:
    p = "p < 0.001" if row["misfit"] < 1e-3 else f"p = {row['misfit']:.3f}"
    return f"{row['r_squared']:.4f} ({p})"


def index_costs_markdown(tables: Tables) -> str:
    """Return all tables as Markdown, as README and documentation repeat them."""
    shown = shown_tables(tables).values()
    return "\n\n".join(f"## {table.name}\n\n{table.markdown()}" for table in shown)


def index_costs_values(tables: Tables) -> dict[str, object]:
    """Return what the text of the section has in braces.

    Parameters
    ----------
    tables : dict of str to Table
        From `fedbandits.reproduce.index_costs.tables.index_costs_tables`.
    """
    return {
        **{key: shown.html() for key, shown in shown_tables(tables).items()},
        "games": max(tables["games"]["replications"]),
        "growth_games": max(tables["growth"]["replications"]),
        "movielens_games": max(tables["movielens"]["replications"]),
        "powers": _which_power_fits(tables["fits"]),
    }


def _which_power_fits(fits: Table) -> str:
    """Return in words which powers of log T the means do not refute, game by game."""
    said = []
    for game in index_games():
        for first in FIRST if game.key in GROWING else ():
            rows = rows_of(fits, game=game.key, first=first)
            best = max(rows, key=lambda row: float(row["r_squared"]))
            kept = [_POWER_NAMES[row["power"]] for row in rows if row["misfit"] >= _REFUTED]
            refuted = f"do not refute {listed(kept)}" if kept else "refute all four powers"
            said.append(
                f"{game.title} from T = {first:,} on they {refuted}, and"
                f" {_POWER_NAMES[best['power']]} has the highest R²"
            )
    return escape(
        f"Means can refute that regret grows as a power of log T (here at level {_REFUTED:g}). On"
        f" {'; on '.join(said)}. Six horizons say no more than that."
    )


_REFUTED = 0.01
"""A power is refuted when its misfit has a smaller p-value."""


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
    return Chart("tails", panels, columns=3, aligned=True, size=(10.4, 4.4), legend="below")


def growth_chart(tables: Tables) -> Chart:
    """Return mean regret against log T with the lines that are fitted, one panel per game."""
    titles = {game.key: game.title for game in index_games()}
    panels = [
        Plot(
            Axis("horizon T (slots)", log=True, form="power"),
            Axis("mean total regret", low=0.0),
            _growth_lines(tables["growth"], tables["fits"], game),
            title=_title(titles[game]),
        )
        for game in GROWING
    ]
    return Chart("growth", panels, columns=2, size=(9.0, 4.8), legend="below")


def _growth_lines(growth: Table, fits: Table, game: str) -> list[Series]:
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
