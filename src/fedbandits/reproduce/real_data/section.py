"""The section of the page: what the real users show, or how to bring their data in."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import partial
from html import escape
from typing import Any

import numpy as np
from scipy import stats

from fedbandits.report import markup
from fedbandits.report.chart import Axis, Chart, Guide, Note, Plot, Series
from fedbandits.report.markup import with_subscripts
from fedbandits.report.palette import PALETTE
from fedbandits.report.wording import listed
from fedbandits.reproduce.part import Drawing, Part
from fedbandits.reproduce.real_data import table as tables
from fedbandits.reproduce.texts import Row, fill, table_html, texts
from fedbandits.rules.arrays import FloatArray
from fedbandits.simulation.tables import Table, as_columns


def is_movielens(facts: Row) -> bool:
    """Return whether facts are about an archive or the authors' matrix, not another matrix."""
    return bool(facts["kind"] == "ratings" or facts["rows"]["as_released"])


def _name(facts: Row) -> str:
    """Return what the section calls an import."""
    if facts["kind"] == "ratings":
        return "HetRec archive"
    return "The paper's matrix" if is_movielens(facts) else "Your matrix"


# What a matrix that is not of MovieLens has instead.
_OWN_WORDS = {
    **{"groups of movies": "arms", "a group": "an arm", "group": "arm", "groups": "arms"},
    **{"user": "client", "users": "clients"},
}
_OWN = re.compile("<[^>]*>|" + "|".join(rf"\b{word}\b" for word in _OWN_WORDS))


def _worded(html: str, facts: Row) -> str:
    """Return a text about an import, in words that suit it; tags stay as they are.

    Examples
    --------
    >>> facts = {"kind": "matrix", "rows": {"as_released": False}}
    >>> _worded('<b class="group">a group of these users</b>', facts)
    '<b class="group">an arm of these clients</b>'
    """
    if is_movielens(facts):
        return html
    return _OWN.sub(lambda found: _OWN_WORDS.get(found[0], found[0]), html)


def can_be_drawn(facts: Mapping[str, Any]) -> bool:
    """Return whether the two best groups differ, and their clients as well."""
    return facts["clients_unlimited"] is not None


def wrong_order(facts: Mapping[str, Any], clients: FloatArray, *, finite: bool) -> FloatArray:
    """Return how likely the two best groups stand in the wrong order over so many clients.

    Parameters
    ----------
    facts : mapping
        From `fedbandits.reproduce.real_data.table.facts_of`.
    clients : array
        M.
    finite : bool
        Whether they are drawn from these clients alone, M of N.

    Examples
    --------
    >>> facts = {"clients": 100, "gap": 0.1, "difference_deviation": 1.0}
    >>> wrong_order(facts, np.array([25.0, 100.0]), finite=False).round(3)
    array([0.309, 0.159])
    >>> wrong_order(facts, np.array([25.0, 100.0]), finite=True).round(3)
    array([0.282, 0.   ])
    """
    left = 1 / clients - (1 / facts["clients"] if finite else 0.0)
    deviation = facts["difference_deviation"] * np.sqrt(np.maximum(left, 0.0))
    with np.errstate(divide="ignore"):
        return np.asarray(stats.norm.sf(facts["gap"] / deviation))


def drawable(table: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the facts of the imports that can be drawn, of a table of the section."""
    return [facts for facts in table["data"] if can_be_drawn(facts)]


_POPULATIONS = {"unlimited": False, "these alone": True}
"""Whether clients are drawn from these alone."""


def order_table(found: Mapping[str, Any]) -> Table | None:
    """Return what `order_chart` draws, point by point; None if nothing can be drawn.

    Parameters
    ----------
    found : mapping
        From `fedbandits.reproduce.real_data.table.real_data_table`.
    """
    rows = [
        {"kind": facts["kind"], "population": population, "clients": x, "wrong_order": y}
        for facts in drawable(found)
        for population, finite in _POPULATIONS.items()
        for x, y in _points(facts, finite=finite)
    ]
    return as_columns(rows) if rows else None


def _most(facts: Mapping[str, Any]) -> float:
    """Return how many clients the axis goes up to, with room for what the dot is labelled with."""
    return float(20 * max(facts["clients"], facts["clients_unlimited"]))


def _points(facts: Mapping[str, Any], *, finite: bool) -> list[tuple[float, float]]:
    """Return the numbers of clients that are drawn, each with its chance of a wrong order."""
    clients = np.geomspace(1, _most(facts), 400)
    if finite:
        n = facts["clients"]
        # Densely at the beginning of a logarithmic axis, and where it falls to nothing.
        near = np.concatenate([np.geomspace(1, n, 200), n - np.geomspace(n, 1e-3, 400), [n]])
        clients = np.unique(near[(near >= 1) & (near <= n)])
    chances = wrong_order(facts, clients, finite=finite)
    return list(zip(clients.tolist(), chances.tolist(), strict=True))


def order_chart(found: Mapping[str, Any]) -> Chart:
    """Return the chance of a wrong order against the number of clients, one panel per import."""
    data = drawable(found)
    panels = [_panel(facts, colour) for facts, colour in zip(data, PALETTE, strict=False)]
    size = (8.0 if len(panels) == 1 else 9.5, 4.0)
    return Chart("order", panels, columns=len(panels), size=size)


def _panel(facts: Mapping[str, Any], colour: str) -> Plot:
    n, enough = facts["clients"], facts["clients_unlimited"]
    series = []
    for finite in _POPULATIONS.values():
        x, y = zip(*_points(facts, finite=finite), strict=True)
        label = f"these {n:,} alone" if finite else "unlimited population"
        series.append(Series(label, x, y, colour, dash=(5.0, 2.5) if finite else ()))
    words = f"{enough:,} clients: {100 * (1 - tables.SURE):.0f} %"
    arm = "group" if is_movielens(facts) else "arm"
    pair = f"{arm}s {facts['best_group']} and {facts['second_group']}"
    return Plot(
        Axis("clients asked", log=True, low=1.0, high=_most(facts)),
        Axis(f"chance that the second best {arm} is ahead", form="percent", low=0.0, high=0.52),
        series,
        guides=[Guide(x=n, label=f"all {n:,}", dash=(1, 2)), Guide(y=1 - tables.SURE, dash=(1, 2))],
        notes=[Note(x=enough, y=1 - tables.SURE, text=words, colour=colour)],
        title=f"{_name(facts)}: {pair}",
    )


def real_data_values(table: Row) -> dict[str, object]:
    """Return what the text of the section has in braces.

    Parameters
    ----------
    table : mapping
        From `fedbandits.reproduce.real_data.table.real_data_table`.

    Examples
    --------
    >>> text = str(real_data_values({"data": [], "games": []})["data"])
    >>> "data not imported" in text, "fedbandits data import PATH" in text
    (True, True)
    """
    missing = partial(said, "missing", archive=said("missing", "archive"))
    data, by_kind = table["data"], {facts["kind"]: facts for facts in table["data"]}
    about = said("about", "movielens", noise=tables.NOISE)
    if not data:
        return {"about": about, "data": missing("all"), "games": ""}
    # Words of MovieLens, if there is any of it.
    common = next(filter(is_movielens, data), data[0])
    findings = ["<h3>What the data says</h3>"]
    findings += [_worded(_finding(facts), facts) for facts in data]
    findings += [_worded(_facts(data), common)]
    findings += [_worded(_about_rows(facts["rows"]), facts) for facts in data if "rows" in facts]
    settings = said("games", "settings", more_phases=tables.MORE_PHASES)
    games = [_worded(settings, common)]
    games += [
        _worded(_game(game, _name(by_kind[game["kind"]])), by_kind[game["kind"]])
        for game in table["games"]
    ]
    games += [missing(kind) for kind in ("ratings", "matrix") if kind not in by_kind]
    shown: dict[str, object] = {"data": "\n".join(findings), "games": "\n".join(games)}
    if is_movielens(common):
        return {"about": about, **shown}
    about = said("about", "own", noise=tables.NOISE)
    return {"heading": "Your matrix of local means", "about": about, **shown}


def _finding(facts: Row) -> str:
    """Return in words what the clients say of the two best groups."""
    n, again = facts["clients"], facts["first_again"]
    keys = ["best", "alone"]
    if can_be_drawn(facts):
        keys = [
            "best",
            "wide" if facts["spread"] > 5 * facts["gap"] else "narrow",
            "higher",
            "again" if again is not None else "",
            "too_few" if facts["clients_unlimited"] > n else "enough",
            "nearly_all" if facts["clients_of_these"] > n / 2 else "some",
        ]
    words = {**facts, "name": _name(facts), "others": None if again is None else 1 - again}
    return f"<p>{said('finding', *keys, **words)}</p>"


def _facts(data: Sequence[Row]) -> str:
    """Return a row for every fact, a column for every import."""
    rows = []
    for key, fact in texts("movielens")["facts"].items():
        values = [facts.get(key) for facts in data]
        if any(value is not None for value in values):
            note = with_subscripts(fill(fact["note"], {"horizon": tables.HORIZON}))
            name = with_subscripts(fact["name"]) + (f" <small>{note}</small>" if note else "")
            form = f"{{value:{fact['form']}}}"
            rows.append(markup.row(name, *(fill(form, {"value": value}) for value in values)))
    heads = (f"{_name(facts)} <small>{escape(facts['source'])}</small>" for facts in data)
    return markup.table("Facts of the data", ("fact", *heads), rows, kind="")


def _about_rows(rows: Row) -> str:
    """Return what the values of a matrix are, as far as they show it themselves."""
    keys = ["authors" if rows["as_released"] else "others", "zeros"]
    if rows["denominators"] is not None:
        totals = rows["as_released"] and rows["largest_is_one"] == 1
        keys += ["multiples", "totals"] if totals else ["multiples"]
    return f"<p>{said('values', *keys, **rows)}</p>"


def _game(game: Row, name: str) -> str:
    heading = f"<h3>{name}: {game['game']}</h3>"
    if not game["variants"]:
        return f"{heading}\n<p>{said('games', 'too_many')}</p>"
    words = said("games", game["game"], "played", **game)
    results = table_html("real-results", game["variants"])
    return f"{heading}\n<p>{words}</p>\n{results}\n{_reading(game['variants'])}"


# In such a share of its games a variant finds the best group.
_FINDS = 0.95


def _reading(rows: Sequence[Row]) -> str:
    """Return in words what the games show."""
    by_key = {row["key"]: row for row in rows}
    words = {
        **by_key,
        "released_spread": tables.RELEASED_SPREAD,
        "found": _found_best(by_key["all"]),
    }
    too_small = by_key["finite"]["wrong"]["low"] > by_key["finite-theory"]["wrong"]["high"]
    items = [
        said("reading", "all", **words),
        said("reading", "finite", "quarter" if too_small else "", **words),
        said("reading", "unlimited", **words),
    ]
    return markup.items([*items, _least_regret(rows), _ordering(by_key, words)])


def _least_regret(rows: Sequence[Row]) -> str:
    """Return which variant had the least regret among those that find the best group."""
    found = [row for row in rows if _found_best(row) >= _FINDS]
    if not found:
        return said("reading", "least_none", finds=_FINDS)
    first, *others = sorted(found, key=lambda row: float(row["regret"]["mean"]))
    unclear = [f"“{escape(row['label'])}”" for row in others if _compared(first, row) != "less"]
    return said(
        "reading",
        "least" if others else "least_one",
        "unclear" if unclear else "",
        **{**first, "label": escape(first["label"])},
        variants=len(found),
        finds=_FINDS,
        unclear=listed(unclear or [""]),
    )


def _found_best(row: Row) -> float:
    return float(1 - row["wrong"]["share"] - row["undecided"]["share"])


def _ordering(by_key: Mapping[str, Row], words: Row) -> str:
    """Return whether Fed2-UCB has less regret than Fed1-UCB, as in the paper's figure 6."""
    everyone, some, released = by_key["all"], by_key["some"], by_key["released"]
    knowing = [by_key["finite"], by_key["finite-theory"]]
    against = {_compared(row, everyone) for row in knowing}
    verdict = "neither"
    if against == {"less"} and {_compared(row, some) for row in knowing} == {"less"}:
        verdict = "found"
    elif against == {"more"}:
        verdict = "reversed"
    often_wrong = released["wrong"]["low"] > 1 - _FINDS
    return said(
        "reading",
        "ordering",
        verdict=said("reading", verdict),
        compared=said("reading", _compared(released, everyone)),
        but=said("reading", "but", **words) if often_wrong else "",
        **words,
    )


def _compared(one: Row, other: Row) -> str:
    """Return whether one mean regret is less or more than another, by a 95 % interval.

    Examples
    --------
    >>> few, many = ({"regret": {"mean": mean, "margin": 3.0}} for mean in (10.0, 15.0))
    >>> _compared(few, many), _compared(many, few), _compared(few, few)
    ('less', 'more', 'not_clear')
    """
    difference = one["regret"]["mean"] - other["regret"]["mean"]
    if abs(difference) <= math.hypot(one["regret"]["margin"], other["regret"]["margin"]):
        return "not_clear"
    return "less" if difference < 0 else "more"


def said(table: str, *keys: str, **words: Any) -> str:
    """Return sentences of ``texts/movielens.toml``, one after the other; none for an empty key.

    Examples
    --------
    >>> said("finding", "some", clients=2113, clients_of_these=900)
    'Of these 2,113 users alone, 900 do.'
    """
    sentences = " ".join(texts("movielens")[table][key] for key in keys if key)
    return " ".join(fill(sentences, words).split())


PART = Part(
    key="movielens",
    heading="MovieLens with its real users",
    # Of a matrix that is imported; without one there is nothing to simulate.
    cost=(0.1, 35.0),
    batches=tables.real_data_batches,
    table=tables.real_data_table,
    drawings={"order": Drawing(chart=order_chart, drawn=order_table)},
    show=real_data_values,
    inputs=tables.real_data_inputs,
)
