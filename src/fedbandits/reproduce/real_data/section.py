"""The section of the page: what the real users show, or how to bring their data in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from fedbandits.experiments.wording import listed
from fedbandits.report import markup
from fedbandits.report.markup import with_subscripts
from fedbandits.reproduce.real_data.charts import KINDS, can_be_drawn
from fedbandits.reproduce.real_data.table import HORIZON, MORE_PHASES, NOISE, RELEASED_SPREAD
from fedbandits.reproduce.texts import Row, fill, table_html, texts


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
    archive = said("missing", "archive")
    missing = {
        kind: said("missing", kind, archive=archive) for kind in ("all", "matrix", "ratings")
    }
    data, kinds = table["data"], [facts["kind"] for facts in table["data"]]
    if not data:
        return {"noise": NOISE, "data": missing["all"], "games": ""}
    findings = ["<h3>What the data says</h3>", *map(_finding, data), _facts(data)]
    findings += [_about_rows(facts["rows"]) for facts in data if "rows" in facts]
    games = [said("games", "settings", more_phases=MORE_PHASES), *map(_game, table["games"])]
    games += [missing[kind] for kind in ("ratings", "matrix") if kind not in kinds]
    return {"noise": NOISE, "data": "\n".join(findings), "games": "\n".join(games)}


def _finding(facts: Row) -> str:
    """Return in words what the clients say of the two best groups."""
    n, again = facts["clients"], facts["first_again"]
    keys = ["best", "alone"]
    if can_be_drawn(facts):
        keys = [
            "best",
            "wide" if facts["spread"] > 5 * facts["gap"] else "narrow",
            "higher",
            *(["again"] if again is not None else []),
            "too_few" if facts["clients_unlimited"] > n else "enough",
            "nearly_all" if facts["clients_of_these"] > n / 2 else "some",
        ]
    words = {**facts, "name": KINDS[facts["kind"]], "others": None if again is None else 1 - again}
    return f"<p>{said('finding', *keys, **words)}</p>"


def _facts(data: Sequence[Row]) -> str:
    """Return a row for every fact, a column for every import."""
    rows = []
    for key, fact in texts("movielens")["facts"].items():
        values = [facts.get(key) for facts in data]
        if any(value is not None for value in values):
            note = with_subscripts(fill(fact["note"], {"horizon": HORIZON}))
            name = with_subscripts(fact["name"]) + (f" <small>{note}</small>" if note else "")
            form = f"{{value:{fact['form']}}}"
            rows.append(markup.row(name, *(fill(form, {"value": value}) for value in values)))
    heads = (f"{KINDS[facts['kind']]} <small>{escape(facts['source'])}</small>" for facts in data)
    return markup.table("Facts of the data", ("fact", *heads), rows, kind="")


def _about_rows(rows: Row) -> str:
    """Return what the values of a matrix are, as far as they show it themselves."""
    keys = ["authors" if rows["as_released"] else "others", "zeros"]
    if rows["denominators"] is not None:
        keys += ["multiples", "totals"] if rows["largest_is_one"] == 1 else ["multiples"]
    return f"<p>{said('values', *keys, **rows)}</p>"


def _game(game: Row) -> str:
    heading = f"<h3>{KINDS[game['kind']]}: {game['game']}</h3>"
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
    words = {**by_key, "released_spread": RELEASED_SPREAD, "found": _found_best(by_key["all"])}
    too_small = by_key["finite"]["wrong"]["low"] > by_key["finite-theory"]["wrong"]["high"]
    items = [
        said("reading", "all", **words),
        said("reading", "finite", *(["quarter"] if too_small else []), **words),
        said("reading", "unlimited", **words),
        _least_regret(rows),
        _ordering(by_key, words),
    ]
    return markup.items(items)


def _least_regret(rows: Sequence[Row]) -> str:
    """Return which variant had the least regret among those that find the best group."""
    found = sorted(
        (row for row in rows if _found_best(row) >= _FINDS), key=lambda row: row["regret"]["mean"]
    )
    if not found:
        return said("reading", "least_none", finds=_FINDS)
    names = {row["key"]: f"“{escape(row['label'])}”" for row in found}
    first, *others = found
    least = f"{names[first['key']]} with {_mean(first)}"
    if not others:
        return said("reading", "least_one", finds=_FINDS, first=least)
    unclear = [names[row["key"]] for row in others if _compared(first, row) != "less"]
    return said(
        "reading",
        *(["least", "unclear"] if unclear else ["least"]),
        variants=len(found),
        finds=_FINDS,
        first=least,
        rest=listed(f"{names[row['key']]} had {_mean(row)}" for row in others),
        unclear=listed(unclear) if unclear else "",
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


def _mean(row: Row) -> str:
    return fill("{regret:mean}", row)


def said(table: str, *keys: str, **words: Any) -> str:
    """Return sentences of ``texts/movielens.toml``, one after the other.

    Examples
    --------
    >>> said("finding", "some", clients=2113, clients_of_these=900)
    'Of these 2,113 users alone, 900 do.'
    """
    sentences = " ".join(texts("movielens")[table][key] for key in keys)
    return " ".join(fill(sentences, words).split())
