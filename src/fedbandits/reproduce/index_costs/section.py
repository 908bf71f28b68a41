"""The numbers as tables to read: on the page, and as Markdown for README and documentation."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from fedbandits.experiments.game_means import GameMean
from fedbandits.experiments.tables import Table
from fedbandits.experiments.wording import listed
from fedbandits.report.shown import Shown
from fedbandits.reproduce.computed import rows_of
from fedbandits.reproduce.index_costs.tables import (
    CERTIFIED,
    FIRST,
    GROWING,
    MOSS,
    OURS,
    index_games,
)
from fedbandits.reproduce.texts import Row, shown_table

BRIEF, REGRETS, TAILS = "In brief", "Total regret", "Tails and ends"
GROWTH, FITS, MOVIELENS = "Mean regret by horizon", "Growth with log T", "MovieLens as released"

_POWER_NAMES = {0.5: "√log T", 1.0: "log T", 1.5: "(log T)^1.5", 2.0: "log² T"}
_MEAN = "{regret:,.0f} ± {half:,.0f}"


def shown_tables(tables: Mapping[str, Table]) -> dict[str, Shown]:
    """Return everything to read, by name.

    Parameters
    ----------
    tables : mapping of str to Table
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
    regrets = Shown(
        name=REGRETS,
        headings=["game", *rules, f"{CERTIFIED} / moss"],
        rows=[[row[name] for name in ("title", *rules, "times")] for row in beside],
    )
    found = (
        shown_table("index-brief", beside),
        regrets,
        shown_table("index-tails", games),
        _growth(tables["growth"], titles),
        shown_table("index-fits", _fits(tables["fits"], titles)),
        shown_table("index-movielens", movielens),
    )
    return {shown.name: shown for shown in found}


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
        name=GROWTH,
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


def index_costs_markdown(tables: Mapping[str, Table]) -> str:
    """Return all tables as Markdown, as README and documentation repeat them."""
    return "\n\n".join(
        f"## {name}\n\n{shown.markdown()}" for name, shown in shown_tables(tables).items()
    )


def index_costs_values(tables: Mapping[str, Table]) -> dict[str, object]:
    """Return what the text of the section has in braces.

    Parameters
    ----------
    tables : mapping of str to Table
        From `fedbandits.reproduce.index_costs.tables.index_costs_tables`.
    """
    shown = shown_tables(tables)
    names = {
        "regrets": REGRETS,
        "tails": TAILS,
        "growth": GROWTH,
        "fits": FITS,
        "movielens": MOVIELENS,
    }
    return {
        **{key: shown[name].html() for key, name in names.items()},
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
