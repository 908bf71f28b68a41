"""The contest on one page, its chart, and the folder it is in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from fedbandits.contest import words
from fedbandits.contest.play import Contest
from fedbandits.contest.standings import COUNTS, FIELDS, EntrantRecord, Field, profile, standings
from fedbandits.contest.summary import contest_summary
from fedbandits.experiments.parquet import write_parquet
from fedbandits.report.chart import Axis, Chart, Plot, Series
from fedbandits.report.markup import items, row, table
from fedbandits.report.page import html_page, live_chart
from fedbandits.report.palette import FAINT, PALETTE
from fedbandits.report.still import write_still
from fedbandits.simulation.tables import Table

_CAPTION = """Each curve shows the share of the games in which an entrant's mean total regret is at
most so many times the least of the game, among the entrants that the panel's title names. Higher is
better; at 1×, a curve shows in how many games the entrant is first. References are dashed. A game
that an entrant does not play counts as lost."""

_RULES = """Every algorithm has one set of parameters for all games; nothing is tuned to a game.
All are told the horizon, the noise, how much clients differ and what a report costs, and use what
they can: <code>fed-index</code> and optimal elimination plan with the cost.
<em>References</em> are one hypothetical player who observes the global model itself. They have no
clients to learn from and pay for nothing, so they show what a game would cost without federation.
No federation could run like that, which is why there are two rankings. All entrants play a game
equally often and in the same fidelity. So they share their draws and are compared replication by
replication. Algorithms that decide in every slot have a fidelity of their own and never commit."""

_GUESTS = """Entrants from plugin files play with their defaults. If the fidelity of a game is not
valid for one of them, it plays that game in a fidelity of its own, with its own draws."""

_HOW_GAMES_READ = """± is half of a 95&nbsp;% interval, by Student's t. “Times the bound” is total
regret as a multiple of the lower bound that the heading of the game gives. How far an
entrant is above the first is the mean of differences within replications; if its interval contains
0, the two are not told apart. First is the entrant with the lowest mean in these replications. This
makes intervals that compare with it a little too narrow if several are close."""


def write_contest(contest: Contest, folder: Path) -> None:
    """Write contest.json, contest.md, contest.parquet, profile.png, profile.pdf and report.html."""
    summary = contest_summary(contest)
    text = json.dumps(summary, indent=2, allow_nan=False, ensure_ascii=False)
    (folder / "contest.json").write_text(text + "\n", encoding="utf-8")
    (folder / "contest.md").write_text(words.as_markdown(summary), encoding="utf-8")
    write_parquet(contest.table, folder / "contest.parquet")
    png = write_still(profile_chart(contest.table), folder, "profile")
    (folder / "report.html").write_text(contest_html(summary, contest.table, png), encoding="utf-8")


def contest_html(summary: Mapping[str, Any], played: Table, png: bytes) -> str:
    """Return the contest as one page that needs no network.

    Parameters
    ----------
    summary : mapping
        What contest.json says.
    played : Table
        What contest.parquet has.
    png : bytes
        The profile.
    """
    alt = "Performance profiles: the higher a curve, the more games the entrant is good at."
    standings = words.shown_standings(summary).html(kind="")
    return html_page(
        title=f"A contest on {words.counted(len(summary['games']))}",
        byline=escape(words.played_with(summary)),
        sections=[
            ("Standings", f"{standings}\n<p>{escape(words.HOW_TO_READ)}</p>"),
            ("The rules", _rules_html(summary)),
            (
                "The lower bound",
                f"<p>{escape(words.THE_BOUND)}</p>{_listed(words.without_bound(summary))}",
            ),
            (
                "Performance profiles",
                live_chart("profile", profile_chart(played), alt=alt, caption=_CAPTION, image=png),
            ),
            (f"Where {escape(summary['champion'])} loses", _lost_html(summary)),
            ("Every game", _games_html(summary)),
        ],
    )


def _rules_html(summary: Mapping[str, Any]) -> str:
    guests = f"<p>{_GUESTS}</p>" if summary["plugins"] else ""
    return f"<p>{_RULES}</p>{guests}{_listed(words.absences(summary))}"


def _listed(sentences: Sequence[str]) -> str:
    return items(map(escape, sentences)) if sentences else ""


def _lost_html(summary: Mapping[str, Any]) -> str:
    parts = []
    for field, named in FIELDS.items():
        said = words.losses(summary, field)
        near = f"{100 * (summary['near'] - 1):.0f}&nbsp;%"
        head = f"<h3>Not within {near} of the first of {escape(named)}</h3>"
        parts += [head, _listed(said) or "<p>Nowhere.</p>"]
    return "\n".join(parts)


_HEADINGS = [
    *("entrant", "total regret<small>of which communication</small>", "times the bound"),
    *(
        "ratio<small>above the first</small>",
        "ratio of all",
        "clients<small>regret of each</small>",
        "phases",
    ),
    *("undecided", "wrong commits", "wrong at the end"),
]


def _games_html(summary: Mapping[str, Any]) -> str:
    groups = {
        escape(_game_heading(game)): [
            row(*_entrant_cells(entrant))
            for entrant in sorted(game["entrants"], key=lambda one: float(one["regret"]))
        ]
        for game in summary["games"]
    }
    return f"<p>{_HOW_GAMES_READ}</p>{table('Every game', _HEADINGS, groups, kind='')}"


def _game_heading(game: Mapping[str, Any]) -> str:
    bound = game["lower_bound"]
    said = "no lower bound is proven" if bound is None else f"lower bound {bound:,.0f}"
    played = f"fidelity {game['fidelity']}, {game['replications']} replications"
    return f"{game['game']} ({played}, {said})"


def _entrant_cells(entrant: Mapping[str, Any]) -> list[str]:
    asking, every = entrant["asking"], entrant["all"]
    return [
        escape(entrant["entrant"]) + (" (reference)" if entrant["reference"] else ""),
        f"{entrant['regret']:,.0f} ± {entrant['margin']:,.0f}"
        f"<small>{entrant['communication']:,.0f}</small>",
        words.shown_multiple(entrant),
        "–" if asking is None else _beside(asking),
        words.shown_ratio(every["ratio"], every["ratio_margin"]),
        f"{entrant['clients']:,.0f}<small>{entrant['per_client']:,.1f}</small>",
        f"{entrant['phases']:,.1f}",
        *(words.shown_count(entrant[name]) for name in COUNTS),
    ]


def _beside(first: Mapping[str, float]) -> str:
    """Return how far an entrant is from the first: the ratio, and the difference below it."""
    if first["ratio"] == 1.0:
        return "1.00<small>first</small>"
    above, margin = first["above"], first["above_margin"]
    said = f"{words.shown_ratio(first['ratio'], first['ratio_margin'])}"
    said += f"<small>{above:,.0f} ± {margin:,.0f}</small>"
    return said if above > margin else f"{said}<small>not told apart</small>"


LARGEST_FACTOR = 64.0
"""The chart ends here."""


def profile_chart(table: Table) -> Chart:
    """Return in which share of the games each entrant is within a factor of the least regret.

    One panel per field: algorithms that must ask clients, and all. References are dashed.
    """
    places = standings(table)
    asking = [place for place in places if not place.reference]
    panels = [_panel(table, "asking", asking), _panel(table, "all", places)]
    return Chart("profile", panels, columns=2, aligned=True, size=(9.6, 5.2), legend="shared")


def _panel(table: Table, field: Field, places: list[EntrantRecord]) -> Plot:
    factors = np.geomspace(1.0, LARGEST_FACTOR, 400)
    colours, dashes = cycle(PALETTE), cycle(((5.0, 2.5), (6.0, 2.0, 1.0, 2.0), (1.0, 2.0)))
    series = [
        Series(
            f"{place.entrant} (reference)" if place.reference else place.entrant,
            factors.tolist(),
            profile(table, place.entrant, field, factors).tolist(),
            FAINT if place.reference else next(colours),
            step=True,
            dash=next(dashes) if place.reference else (),
            width=1.2 if place.reference else 1.8,
        )
        for place in places
    ]
    ticks = {2.0**power: f"{2**power}×" for power in range(int(np.log2(LARGEST_FACTOR)) + 1)}
    return Plot(
        Axis(
            "total regret, as a multiple of the least",
            log=True,
            low=1.0,
            high=LARGEST_FACTOR,
            ticks=ticks,
        ),
        Axis("share of the games", form="percent", low=0.0, high=1.02),
        series,
        title=f"among {FIELDS[field]}",
    )
