"""The standings and the games of a contest as text, for a terminal, a page and a Markdown file.

All of it is made from what contest.json says (`fedbandits.contest.summary`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedbandits.contest.standings import COUNTS, FIELDS, Field
from fedbandits.report.shown import Shown

HOW_TO_READ = (
    f"Entrants are ranked twice: among {FIELDS['asking']}, from “first” to “worst ratio”, and among"
    f" {FIELDS['all']} (“of all”). Brackets after “first” show in how many of these games the"
    " entrant is clearly better than every other, that is, all paired 95 % intervals are above 0."
    " Ratios are to the lowest mean regret of a game. “Times the bound” is the geometric mean of"
    " regret as a multiple of the lower bound, over as many games as the brackets show."
    " “Undecided”, “wrong commits” and “wrong at the end” count replications; “–” means that the"
    " algorithm never commits. “Wrong at the end” means that some client played an arm that is not"
    " the best in the last hundredth of the slots."
)
"""For those who see the standings for the first time."""

THE_BOUND = (
    "The lower bound of a game is its slope times log T: in the limit, every consistent rule that"
    " learns from clients has at least that regret. At a finite T it is a yardstick: it makes games"
    " comparable, and ratios below 1 can occur. It does not apply to references and"
    " local-ucb, whose clients report nothing."
)
"""What a multiple of the bound means."""


def shown_standings(summary: Mapping[str, Any]) -> Shown:
    """Return the standings.

    Parameters
    ----------
    summary : mapping
        What contest.json says.
    """
    near = _near(summary)
    headings = [
        *("entrant", "games", "first", near, "median ratio", "worst ratio", "times the bound"),
        *("first of all", f"{near} of all"),
        *("undecided", "wrong commits", "wrong at the end"),
    ]
    rows = [_place_cells(place) for place in summary["standings"]]
    return Shown(name="Standings", headings=headings, rows=rows)


def _near(summary: Mapping[str, Any]) -> str:
    return f"within {100 * (summary['near'] - 1):.0f} %"


def printed_standings(summary: Mapping[str, Any]) -> Shown:
    """Return the standings as a terminal has them, which has no text around them."""
    note = " ".join((HOW_TO_READ, THE_BOUND, *absences(summary)))
    return replace(shown_standings(summary), name=played_with(summary), note=note)


def _place_cells(place: Mapping[str, Any]) -> list[str]:
    asking, every = place["asking"], place["all"]
    return [
        place["entrant"] + (" (reference)" if place["reference"] else ""),
        str(place["games"]),
        *(["–"] * 4 if asking is None else _rank_cells(asking)),
        _geometric_mean(place),
        _first(every),
        str(every["near"]),
        *(shown_count(place[name]) for name in COUNTS),
    ]


def _geometric_mean(place: Mapping[str, Any]) -> str:
    mean = place["times_bound"]
    return "–" if mean is None else f"{shown_ratio(mean)} ({place['bounded_games']})"


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


def shown_multiple(entrant: Mapping[str, Any]) -> str:
    """Return the regret of an entrant in a game as a multiple of the bound, if there is one."""
    times = entrant["times_bound"]
    return "–" if times is None else shown_ratio(times)


def shown_games(summary: Mapping[str, Any]) -> Shown:
    """Return who is first in every game, and where the champion stands.

    Parameters
    ----------
    summary : mapping
        What contest.json says.
    """
    champion = summary["champion"]
    headings = [
        *("game", "fidelity", "lower bound", f"{champion}, times the bound"),
        *("first", f"ratio of {champion}", "first of all", f"ratio of {champion} to it"),
    ]
    rows = [_game_cells(game, champion) for game in summary["games"]]
    return Shown(name="Games", headings=headings, rows=rows)


def _game_cells(game: Mapping[str, Any], champion: str) -> list[str]:
    own = next((row for row in game["entrants"] if row["entrant"] == champion), None)
    bound = game["lower_bound"]
    cells = [
        game["game"],
        game["fidelity"],
        "–" if bound is None else f"{bound:,.0f}",
        "–" if own is None else shown_multiple(own),
    ]
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


def without_bound(summary: Mapping[str, Any]) -> list[str]:
    """Return for which games no lower bound is proven, and why; one sentence per reason."""
    found: dict[str, list[str]] = {}
    for game in summary["games"]:
        if game["no_bound"] is not None:
            found.setdefault(game["no_bound"], []).append(game["game"])
    return [
        f"No bound is proven for {counted(len(names))} ({'; '.join(names)}): {reason}."
        for reason, names in found.items()
    ]


def absences(summary: Mapping[str, Any]) -> list[str]:
    """Return who does not play how many games, and why; one sentence per entrant and reason."""
    found = Counter((one["entrant"], one["reason"]) for one in summary["absent"])
    return [
        f"{entrant} does not play {counted(n)}: {reason}." for (entrant, reason), n in found.items()
    ]


def counted(games: int) -> str:
    """Return how many games, in words that agree.

    Examples
    --------
    >>> counted(1), counted(62)
    ('1 game', '62 games')
    """
    return "1 game" if games == 1 else f"{games} games"


def played_with(summary: Mapping[str, Any]) -> str:
    """Return what a contest was played with, in a sentence."""
    versions = ", ".join(f"{name} {version}" for name, version in summary["versions"].items())
    files = "".join(f", with {Path(plugin['path']).name}" for plugin in summary["plugins"])
    return (
        f"{counted(len(summary['games']))}, {summary['replications']:,} replications of each by"
        f" every entrant{files}, seed {summary['seed']}; {versions}."
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
        " ".join((THE_BOUND, *without_bound(summary))),
        "\n".join(f"- {absence}" for absence in absences(summary)),
        *(_losses(summary, field) for field in FIELDS),
        shown_games(summary).markdown(),
    )
    return "\n\n".join(filter(None, parts)) + "\n"


def _losses(summary: Mapping[str, Any], field: Field) -> str:
    head = f"Where {summary['champion']} is not {_near(summary)} of the first of {FIELDS[field]}:"
    said = losses(summary, field)
    return "\n".join([head, "", *(f"- {loss}" for loss in said)]) if said else f"{head} nowhere."
