"""The contest on one page, and the folder it is in."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

import polars as pl

from fedbandits.contest.figure import profile_figure
from fedbandits.contest.play import CHAMPION
from fedbandits.contest.standings import NEAR, lost_games, standings
from fedbandits.experiments.figures import NORMAL_95, image
from fedbandits.experiments.report.markup import data_uri, scrolling
from fedbandits.experiments.report.shell import html_page
from fedbandits.experiments.tables import Table

_CAPTION = """How far up a curve is at a factor: the share of the games in which an entrant's mean
total regret is within that factor of the least. Dashed: hypothetical players who observe the global
model itself. A game that an entrant does not play counts as lost."""

_RULES = """Every algorithm has one set of parameters for all games; nothing is tuned to a game,
and none knows what a report costs. Ranked are those who have to ask clients. <em>References</em>
are one player who observes the global model itself: without clients to learn from and with nothing
to pay for, they show what a game would cost without federation. Algorithms that decide in every
slot play the games of up to 10⁵ slots."""


def write_contest(table: Table, folder: Path) -> None:
    """Write contest.json, contest.parquet, profile.png, profile.pdf and report.html."""
    summary = {
        "standings": [
            {name: getattr(place, name) for name in place.__dataclass_fields__}
            for place in standings(table)
        ],
        "lost": [
            {"game": game, "first": first, "ratio": ratio}
            for game, first, ratio in lost_games(table, CHAMPION)
        ],
    }
    text = json.dumps(summary, indent=2, allow_nan=False, ensure_ascii=False)
    (folder / "contest.json").write_text(text + "\n", encoding="utf-8")
    pl.DataFrame(table, infer_schema_length=None).write_parquet(folder / "contest.parquet")
    figure = profile_figure(table)
    png = image(figure, "png")
    (folder / "profile.png").write_bytes(png)
    (folder / "profile.pdf").write_bytes(image(figure, "pdf"))
    (folder / "report.html").write_text(contest_html(table, png), encoding="utf-8")


def contest_html(table: Table, png: bytes) -> str:
    """Return the contest as one page that needs no network.

    Parameters
    ----------
    table : Table
        From `fedbandits.contest.play.play_contest`.
    png : bytes
        The profile.
    """
    alt = "Performance profiles of all entrants; the higher a curve, the more games it wins."
    shown = (
        f'<figure><img src="{data_uri(png)}" alt="{escape(alt)}">'
        f"<figcaption>{_CAPTION}</figcaption></figure>"
    )
    return html_page(
        title=f"A contest on {len(set(table['game']))} games",
        byline="Played with fedbandits, the same parameters on all games",
        sections=[
            ("The rules", f"<p>{_RULES}</p>"),
            ("Standings", _standings_html(table)),
            ("Performance profiles", shown),
            (f"Where {escape(CHAMPION)} loses", _lost_html(table)),
            ("Every game", _games_html(table)),
        ],
        figures={},
    )


def _standings_html(table: Table) -> str:
    rows = "\n".join(
        f'<tr><th scope="row">{escape(place.entrant)}</th>'
        f"<td>{'reference' if place.reference else ''}</td><td>{place.games}</td>"
        f"<td>{place.first}</td><td>{place.near}</td><td>{place.median:.2f}</td>"
        f"<td>{place.worst:,.1f}</td></tr>"
        for place in standings(table)
    )
    near = f"{100 * (NEAR - 1):.0f}"
    head = (
        '<thead><tr><th scope="col">entrant</th><th scope="col"></th><th scope="col">games</th>'
        f'<th scope="col">first</th><th scope="col">within {near}&nbsp;%</th>'
        '<th scope="col">median ratio</th><th scope="col">worst ratio</th></tr></thead>'
    )
    return scrolling("Standings", f"<table>{head}<tbody>\n{rows}\n</tbody></table>")


def _lost_html(table: Table) -> str:
    lost = lost_games(table, CHAMPION)
    if not lost:
        return f"<p>Nowhere by more than {100 * (NEAR - 1):.0f}&nbsp;%.</p>"
    said = "".join(
        f"<li>{escape(game)}: {ratio:.2f} times the regret of {escape(first)}</li>"
        for game, first, ratio in lost
    )
    return f"<ul>{said}</ul>"


def _games_html(table: Table) -> str:
    bodies = []
    for game in dict.fromkeys(table["game"]):
        members = [i for i, name in enumerate(table["game"]) if name == game]
        members.sort(key=lambda i: float(table["regret"][i]))
        rows = "\n".join(_row_html(table, i) for i in members)
        heading = f'<tr><th colspan="7" scope="rowgroup">{escape(game)}</th></tr>'
        bodies.append(f"<tbody>\n{heading}\n{rows}\n</tbody>")
    head = (
        '<thead><tr><th scope="col">entrant</th><th scope="col">total regret</th>'
        '<th scope="col">ratio</th><th scope="col">behind the champion</th>'
        '<th scope="col">clients</th><th scope="col">phases</th>'
        '<th scope="col">wrong commits</th></tr></thead>'
    )
    said = (
        f"<p>± is a 95&nbsp;% interval. How far an entrant is behind {escape(CHAMPION)} is the mean"
        " of differences within replications, with a 95&nbsp;% interval.</p>"
    )
    return said + scrolling("Every game", f"<table>{head}{''.join(bodies)}</table>")


def _row_html(table: Table, i: int) -> str:
    behind = (
        ""
        if table["entrant"][i] == CHAMPION
        else f"{table['behind'][i]:,.0f}"
        f" [{table['behind_low'][i]:,.0f}, {table['behind_high'][i]:,.0f}]"
    )
    label = table["entrant"][i] + (" (reference)" if table["reference"][i] else "")
    return (
        f'<tr><th scope="row">{escape(label)}</th>'
        f"<td>{table['regret'][i]:,.0f} ± {NORMAL_95 * table['stderr'][i]:,.0f}</td>"
        f"<td>{table['ratio'][i]:.2f}</td><td>{behind}</td><td>{table['clients'][i]:,.0f}</td>"
        f"<td>{table['phases'][i]:,.1f}</td>"
        f"<td>{table['wrong'][i]} of {table['replications'][i]}</td></tr>"
    )
