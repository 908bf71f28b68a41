"""The contest on one page, its chart, and the folder it is in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from fedbandits.contest.play import Contest
from fedbandits.contest.standings import COUNTS, FIELDS, EntrantRecord, Field, profile, standings
from fedbandits.contest.summary import contest_summary
from fedbandits.contest.words import (
    HOW_TO_READ,
    as_markdown,
    losses,
    played_with,
    shown_count,
    shown_ratio,
    shown_standings,
)
from fedbandits.experiments.parquet import write_parquet
from fedbandits.experiments.tables import Table
from fedbandits.report.chart import Axis, Chart, Plot, Series
from fedbandits.report.markup import items, row, table
from fedbandits.report.page import html_page, live_chart
from fedbandits.report.palette import FAINT, PALETTE
from fedbandits.report.still import write_still

_CAPTION = """How far up a curve is at a factor: the share of the games in which an entrant's mean
total regret is within that factor of the least, in the field that the panel's title names. Dashed:
references. A game that an entrant does not play counts as lost."""

_RULES = """Every algorithm has one set of parameters for all games; nothing is tuned to a game,
and none knows what a report costs. <em>References</em> are one hypothetical player who observes the
global model itself: without clients to learn from and with nothing to pay for, they show what a
game would cost without federation. No federation could be run so; this is why there are two
rankings. All entrants play a game as often and in the same fidelity, so that they share their draws
and are compared replication by replication. Algorithms that decide in every slot play the games of
up to 10⁵ slots, have a fidelity of their own, and never commit."""

_HOW_GAMES_READ = """± is half of a 95&nbsp;% interval, by Student's t. How far an entrant is above
the first is the mean of differences within replications; if its interval contains 0, the two are
not told apart. First is the entrant with the lowest mean in these replications, which makes
intervals that compare with it a little too narrow if several are close."""


def write_contest(contest: Contest, folder: Path) -> None:
    """Write contest.json, contest.md, contest.parquet, profile.png, profile.pdf and report.html."""
    summary = contest_summary(contest)
    text = json.dumps(summary, indent=2, allow_nan=False, ensure_ascii=False)
    (folder / "contest.json").write_text(text + "\n", encoding="utf-8")
    (folder / "contest.md").write_text(as_markdown(summary), encoding="utf-8")
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
    alt = "Performance profiles of all entrants; the higher a curve, the more games it wins."
    standings = shown_standings(summary).html(kind="")
    n = len(summary["games"])
    return html_page(
        title=f"A contest on {'1 game' if n == 1 else f'{n} games'}",
        byline=escape(played_with(summary)),
        sections=[
            ("The rules", f"<p>{_RULES}</p>"),
            ("Standings", f"{standings}\n<p>{escape(HOW_TO_READ)}</p>"),
            (
                "Performance profiles",
                live_chart("profile", profile_chart(played), alt=alt, caption=_CAPTION, image=png),
            ),
            (f"Where {escape(summary['champion'])} loses", _lost_html(summary)),
            ("Every game", _games_html(summary)),
        ],
    )


def _lost_html(summary: Mapping[str, Any]) -> str:
    parts = []
    for field, named in FIELDS.items():
        said = losses(summary, field)
        near = f"{100 * (summary['near'] - 1):.0f}&nbsp;%"
        head = f"<h3>Not within {near} of the first of {escape(named)}</h3>"
        parts += [head, items(map(escape, said)) if said else "<p>Nowhere.</p>"]
    return "\n".join(parts)


_HEADINGS = [
    *("entrant", "total regret", "ratio", "above the first", "ratio of all", "communication"),
    *("clients", "phases", "undecided", "wrong commits", "wrong at the end"),
]


def _games_html(summary: Mapping[str, Any]) -> str:
    groups = {
        escape(
            f"{game['game']} (fidelity {game['fidelity']}, {game['replications']} replications)"
        ): [
            row(*map(escape, _entrant_cells(entrant)))
            for entrant in sorted(game["entrants"], key=lambda one: float(one["regret"]))
        ]
        for game in summary["games"]
    }
    return f"<p>{_HOW_GAMES_READ}</p>{table('Every game', _HEADINGS, groups, kind='')}"


def _entrant_cells(entrant: Mapping[str, Any]) -> list[str]:
    asking, every = entrant["asking"], entrant["all"]
    return [
        entrant["entrant"] + (" (reference)" if entrant["reference"] else ""),
        f"{entrant['regret']:,.0f} ± {entrant['margin']:,.0f}",
        *(
            ["–", "–"]
            if asking is None
            else [shown_ratio(asking["ratio"], asking["ratio_margin"]), _above(asking)]
        ),
        shown_ratio(every["ratio"], every["ratio_margin"]),
        f"{entrant['communication']:,.0f}",
        f"{entrant['clients']:,.0f}",
        f"{entrant['phases']:,.1f}",
        *(shown_count(entrant[name]) for name in COUNTS),
    ]


def _above(beside: Mapping[str, float]) -> str:
    if beside["ratio"] == 1.0:
        return "first"
    said = f"{beside['above']:,.0f} ± {beside['above_margin']:,.0f}"
    return said if beside["above"] > beside["above_margin"] else f"{said}, not told apart"


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
    colours, dashes = iter(PALETTE), cycle(((5.0, 2.5), (6.0, 2.0, 1.0, 2.0), (1.0, 2.0)))
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
            "total regret, in times the least", log=True, low=1.0, high=LARGEST_FACTOR, ticks=ticks
        ),
        Axis("share of the games", form="percent", low=0.0, high=1.02),
        series,
        title=f"among {FIELDS[field]}",
    )
