"""What contest.json says: who stands where, what every game gave, and what it was played with."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fedbandits.contest.play import COMPARED, Contest
from fedbandits.contest.standings import (
    CHAMPION,
    COUNTS,
    FIELDS,
    NEAR,
    Field,
    firsts,
    lost_games,
    standings,
    told_apart,
)
from fedbandits.experiments.describe import versions
from fedbandits.simulation.tables import Table, rows_of

_OF_A_GAME = (
    *("group", "horizon", "communication_cost", "replications", "lower_bound", "no_bound"),
)
_OF_AN_ENTRANT = (
    *("entrant", "reference", "fidelity", "regret", "margin", "times_bound", "communication"),
    *("per_client", "clients", "phases", *COUNTS),
)
_SPENT = ("entrant", "regret", "communication", "clients", "phases")


def contest_summary(contest: Contest) -> dict[str, Any]:
    """Return a contest as plain tables; everything else that is shown of it is made from them.

    Margins are half of 95 % intervals.
    """
    table = contest.table
    return {
        "replications": contest.replications,
        "seed": contest.seed,
        "versions": versions(),
        "plugins": [asdict(plugin) for plugin in contest.plugins],
        "near": NEAR,
        "standings": [asdict(place) for place in standings(table)],
        "champion": CHAMPION,
        "lost": {field: _lost(table, field) for field in FIELDS},
        "absent": contest.absent,
        "games": _games(table),
    }


def _lost(table: Table, field: Field) -> list[dict[str, Any]]:
    """Return where the champion is not near the first, and what either spends on communication."""
    return [
        {
            "game": own["game"],
            "ratio": own[f"{field}_ratio"],
            "ratio_margin": own[f"{field}_ratio_margin"],
            "own": {name: own[name] for name in _SPENT},
            "first": {name: first[name] for name in _SPENT},
        }
        for own, first in lost_games(table, CHAMPION, field)
    ]


def _games(table: Table) -> list[dict[str, Any]]:
    clear = {field: told_apart(table, field) for field in FIELDS}
    first = {field: firsts(table, field) for field in FIELDS}
    found = []
    for game in dict.fromkeys(table["game"]):
        rows = rows_of(table, game=game)
        fidelities = [row["fidelity"] for row in rows]
        best: dict[str, Any] = {
            field: {"first": first[field][game]["entrant"], "told_apart": clear[field][game]}
            for field in FIELDS
        }
        found.append(
            {
                "game": game,
                **{name: rows[0][name] for name in _OF_A_GAME},
                # Of those that have a choice of fidelities.
                "fidelity": next((name for name in fidelities if name != "slots"), "slots"),
                **best,
                "entrants": [_entrant(row) for row in rows],
            }
        )
    return found


def _entrant(row: dict[str, Any]) -> dict[str, Any]:
    return {
        **{name: row[name] for name in _OF_AN_ENTRANT},
        **{
            field: None
            if row[f"{field}_ratio"] is None
            else {name: row[f"{field}_{name}"] for name in COMPARED}
            for field in FIELDS
        },
    }
