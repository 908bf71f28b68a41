"""What contest.json says: who stands where, what every game gave, and what it was played with."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fedbandits.contest.play import COMPARED, Contest
from fedbandits.contest.standings import (
    CHAMPION,
    FIELDS,
    NEAR,
    Field,
    firsts,
    lost_games,
    standings,
    told_apart,
)
from fedbandits.experiments.describe import versions
from fedbandits.experiments.tables import Table

_OF_A_GAME = ("group", "horizon", "communication_cost", "replications")
_OF_AN_ENTRANT = (
    *("entrant", "reference", "fidelity", "regret", "margin", "communication", "clients"),
    *("phases", "undecided", "wrong_commits", "wrong_at_end"),
)


def contest_summary(contest: Contest) -> dict[str, Any]:
    """Return a contest as plain tables; everything else that is shown of it is made from them.

    Margins are half of 95 % intervals.
    """
    table = contest.table
    return {
        "replications": contest.replications,
        "seed": contest.seed,
        "versions": versions(),
        "near": NEAR,
        "standings": [asdict(place) for place in standings(table)],
        "champion": CHAMPION,
        "lost": {field: _lost(table, field) for field in FIELDS},
        "games": _games(table),
    }


def _lost(table: Table, field: Field) -> list[dict[str, Any]]:
    """Return where the champion is not near the first, and what either spends on communication."""
    return [
        {
            "game": table["game"][own],
            "ratio": table[f"{field}_ratio"][own],
            "ratio_margin": table[f"{field}_ratio_margin"][own],
            "own": _spent(table, own),
            "first": _spent(table, first),
        }
        for own, first in lost_games(table, CHAMPION, field)
    ]


def _spent(table: Table, row: int) -> dict[str, Any]:
    names = ("entrant", "regret", "communication", "clients", "phases")
    return {name: table[name][row] for name in names}


def _games(table: Table) -> list[dict[str, Any]]:
    clear = {field: told_apart(table, field) for field in FIELDS}
    first = {field: firsts(table, field) for field in FIELDS}
    found = []
    for game in dict.fromkeys(table["game"]):
        rows = [i for i, name in enumerate(table["game"]) if name == game]
        fidelities = [table["fidelity"][i] for i in rows]
        best = {
            field: {
                "first": table["entrant"][first[field][game]],
                "told_apart": clear[field][game],
            }
            for field in FIELDS
        }
        found.append(
            {
                "game": game,
                **{name: table[name][rows[0]] for name in _OF_A_GAME},
                # Of those that have a choice of fidelities.
                "fidelity": next((name for name in fidelities if name != "slots"), "slots"),
                "asking": best["asking"],
                "all": best["all"],
                "entrants": [_entrant(table, i) for i in rows],
            }
        )
    return found


def _entrant(table: Table, row: int) -> dict[str, Any]:
    return {
        **{name: table[name][row] for name in _OF_AN_ENTRANT},
        **{
            field: None
            if table[f"{field}_ratio"][row] is None
            else {name: table[f"{field}_{name}"][row] for name in COMPARED}
            for field in FIELDS
        },
    }
