"""The standings and the games of a contest as text, for a terminal, a page and a Markdown file.

All of it is made from what contest.json says (`fedbandits.contest.summary`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fedbandits.contest.standings import COUNTS, FIELDS, Field
from fedbandits.report.shown import Shown

HOW_TO_READ = (
    f"Ranked twice: among {FIELDS['asking']}, from “first” to “worst ratio”, and among"
    f" {FIELDS['all']} (“of all”). In brackets: in how many of these games it is clearly better"
    " than every other, that is, all paired 95 % intervals are above 0. Ratios are to the lowest"
    " mean regret of a game. “Undecided”, “wrong commits” and “wrong at the end” count"
    " replications. “–”: the algorithm never commits. “Wrong at the end”: some client played an"
    " arm that is not the best in the last hundredth of the slots."
)
"""For those who see the standings for the first time."""


def shown_standings(summary: Mapping[str, Any]) -> Shown:
    """Return the standings.

    Parameters
    ----------
    summary : mapping
        What contest.json says.
    """
    near = _near(summary)
    headings = [
        *("entrant", "games", "first", near, "median ratio", "worst ratio"),
        *("first of all", f"{near} of all"),
        *("undecided", "wrong commits", "wrong at the end"),
    ]
    rows = [_place_cells(place) for place in summary["standings"]]
    return Shown(name="Standings", headings=headings, rows=rows)


def _near(summary: Mapping[str, Any]) -> str:
    return f"within {100 * (summary['near'] - 1):.0f} %"


def printed_standings(summary: Mapping[str, Any]) -> Shown:
    """Return the standings as a terminal has them, which has no text around them."""
    return replace(shown_standings(summary), name=played_with(summary), note=HOW_TO_READ)


def _place_cells(place: Mapping[str, Any]) -> list[str]:
    asking, every = place["asking"], place["all"]
    return [
        place["entrant"] + (" (reference)" if place["reference"] else ""),
        str(place["games"]),
        *(["–"] * 4 if asking is None else _rank_cells(asking)),
        _first(every),
        str(every["near"]),
        *(shown_count(place[name]) for name in COUNTS),
    ]


def _first(rank: Mapping[str, Any]) -> str:
    return f"{rank['first']} ({rank['told_apart']})" if rank["first"] else "0"


def _rank_cells(rank: Mapping[str, Any]) -> list[str]:
    ratios = (shown_ratio(rank[name]) for name in ("median", "worst"))
    return [_first(rank), str(rank["near"]), *ratios]


def shown_count(count: int | None) -> str:
    """Return how many replications, or a dash if it does not apply."""
    return "–" if count is None else f"{count:,}"


def shown_ratio(ratio: float, margin: float = 0.0) -> str:
    """Return a ratio with the digits that matter, and its margin if it has one.

    Examples
    --------
    >>> shown_ratio(1.0), shown_ratio(1.254, 0.04), shown_ratio(152.7, 3.1)
    ('1.00', '1.25 ± 0.04', '153 ± 3')
    """
    digits = 2 if ratio < 10 else 1 if ratio < 100 else 0
    said = f"{ratio:,.{digits}f}"
    return f"{said} ± {margin:,.{digits}f}" if margin else said


def shown_games(summary: Mapping[str, Any]) -> Shown:
    """Return who is first in every game, and where the champion stands.

    Parameters
    ----------
    summary : mapping
        What contest.json says.
    """
    champion = summary["champion"]
    headings = [
        *("game", "fidelity", "first", f"ratio of {champion}"),
        *("first of all", f"ratio of {champion} to it"),
    ]
    rows = [_game_cells(game, champion) for game in summary["games"]]
    return Shown(name="Games", headings=headings, rows=rows)


def _game_cells(game: Mapping[str, Any], champion: str) -> list[str]:
    cells = [game["game"], game["fidelity"]]
    own = next((row for row in game["entrants"] if row["entrant"] == champion), None)
    for field in FIELDS:
        first = game[field]["first"]
        cells.append(first if game[field]["told_apart"] else f"{first} (not told apart)")
        cells.append(
            "–" if own is None else shown_ratio(own[field]["ratio"], own[field]["ratio_margin"])
        )
    return cells


def losses(summary: Mapping[str, Any], field: Field) -> list[str]:
    """Return where the champion is not near the first of a field, and what either spends.

    Parameters
    ----------
    summary : mapping
        What contest.json says.
    field : {"asking", "all"}
        Among whom.
    """
    return [
        f"{lost['game']}: {shown_ratio(lost['ratio'], lost['ratio_margin'])} times the regret of"
        f" {lost['first']['entrant']}. Of its own {_spent(lost['own'])}; of the first's"
        f" {_spent(lost['first'])}."
        for lost in summary["lost"][field]
    ]


def _spent(entrant: Mapping[str, Any]) -> str:
    share = entrant["communication"] / entrant["regret"]
    return (
        f"{entrant['regret']:,.0f}, {100 * share:.0f} % is communication (phases:"
        f" {entrant['phases']:.1f}, clients: {entrant['clients']:,.0f})"
    )


def played_with(summary: Mapping[str, Any]) -> str:
    """Return what a contest was played with, in a sentence."""
    versions = ", ".join(f"{name} {version}" for name, version in summary["versions"].items())
    n = len(summary["games"])
    games = "1 game" if n == 1 else f"{n} games"
    return (
        f"{games}, {summary['replications']:,} replications of each by every entrant,"
        f" seed {summary['seed']}; {versions}."
    )


def as_markdown(summary: Mapping[str, Any]) -> str:
    """Return the standings, the losses of the champion and the games, for documentation to copy.

    Parameters
    ----------
    summary : mapping
        What contest.json says.
    """
    parts = (
        played_with(summary),
        shown_standings(summary).markdown(),
        HOW_TO_READ,
        *(_losses(summary, field) for field in FIELDS),
        shown_games(summary).markdown(),
    )
    return "\n\n".join(parts) + "\n"


def _losses(summary: Mapping[str, Any], field: Field) -> str:
    head = f"Where {summary['champion']} is not {_near(summary)} of the first of {FIELDS[field]}:"
    said = losses(summary, field)
    return "\n".join([head, "", *(f"- {loss}" for loss in said)]) if said else f"{head} nowhere."
