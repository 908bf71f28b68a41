"""The section of the page: what the real users show, or how to bring their data in."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from fedbandits.experiments.report import markup
from fedbandits.experiments.report.markup import with_subscripts
from fedbandits.experiments.wording import listed, mean_and_error, share
from fedbandits.reproduce.real_data.figure import (
    CAPTION,
    KINDS,
    can_be_drawn,
    drawable,
    order_alt,
)
from fedbandits.reproduce.real_data.table import HORIZON, MORE_PHASES, NOISE, RELEASED_SPREAD

_COMMAND = "<pre>fedbandits data import PATH</pre>"
_ARCHIVE = (
    "the MovieLens data set of the HetRec 2011 workshop, "
    "<code>hetrec2011-movielens-2k-v2.zip</code>, which GroupLens hands out for non-commercial use"
)
_INTRODUCTION = f"""<p>The clients of figure 6 are not the users of MovieLens: the authors' script
draws them around the group means. Two other games are about the users themselves. <b>Real
clients</b>: a user's own values of the groups of movies are the local means of a client, and
observations scatter around them (σ = {NOISE:g}, as in the authors' script). <b>Real ratings</b>: a
client's observations are drawn from the ratings that this user gave to the movies of a group. In
both, the best group is the one with the highest mean over all clients.</p>"""
_NOTHING = f"""<p><b>Real clients and real ratings: data not imported.</b> The data does not ship
with this package. It is {_ARCHIVE}; or the matrix that the paper's authors published with their
code, a <code>.npy</code> file with a row a user and a column a group, which is enough for the real
clients. Whoever has either imports it once,</p>
{_COMMAND}
<p>and runs <code>fedbandits reproduce</code> again. Then this section holds the facts (users, gap,
spread, how many clients it takes to find the best group), a figure of why so many, and the games:
Fed1-UCB with all users and with 200 of them, Fed2-UCB on these users as all there are and as a
sample of an unlimited population.</p>"""
_ONLY_MATRIX = f"""<p><b>Real ratings: data not imported.</b> A matrix holds no ratings. They are in
{_ARCHIVE}:</p>
{_COMMAND}"""
_ONLY_RATINGS = f"""<p><b>The authors' matrix: data not imported.</b> The real clients above are
those of the archive. Those of the matrix that the paper's authors published with their code appear
after</p>
{_COMMAND}"""


def real_data_section(table: Mapping[str, Any], images: Mapping[str, bytes]) -> str:
    """Return the section as HTML.

    Parameters
    ----------
    table : mapping
        From `fedbandits.reproduce.real_data.table.real_data_table`.
    images : mapping of str to bytes
        The figure "order" as PNG, if it can be drawn.

    Examples
    --------
    >>> text = real_data_section({"data": [], "games": []}, {})
    >>> "data not imported" in text, "fedbandits data import PATH" in text
    (True, True)
    """
    data, games = table["data"], table["games"]
    if not data:
        return f"{_INTRODUCTION}\n{_NOTHING}"
    parts = [_INTRODUCTION, "<h3>What the data says</h3>", *map(_finding, data), _facts(data)]
    parts += [_about_rows(facts) for facts in data if "rows" in facts]
    parts += [
        markup.figure(png, alt=order_alt(drawable(table)), caption=escape(CAPTION))
        for png in images.values()
    ]
    parts += [_SETTINGS, *map(_game, games)]
    kinds = [facts["kind"] for facts in data]
    if "ratings" not in kinds:
        parts.append(_ONLY_MATRIX)
    if "matrix" not in kinds:
        parts.append(_ONLY_RATINGS)
    return "\n".join(parts)


def _finding(facts: Mapping[str, Any]) -> str:
    """Return in words what the clients say of the two best groups."""
    n = facts["clients"]
    said = [
        f"<b>{KINDS[facts['kind']]}.</b>",
        f"Over the {n:,} clients, group {facts['best_group']} (counted from 0) has the highest"
        f" mean, and group {facts['second_group']} is lower by a gap of {facts['gap']:.4f}.",
    ]
    if not can_be_drawn(facts):
        said.append("With these two alone, nothing more can be said of how sure that is.")
        return f"<p>{' '.join(said)}</p>"
    said.append(
        f"The clients themselves differ by much more: within a group their values have a standard"
        f" deviation of {facts['spread']:.4f}."
        if facts["spread"] > 5 * facts["gap"]
        else f"Within a group the clients' values have a standard deviation of"
        f" {facts['spread']:.4f}."
    )
    said.append(
        f"{share(facts['higher'])} of the clients have a higher value for the first group than for"
        f" the second, {share(facts['lower'])} a lower one."
    )
    if facts["first_again"] is not None:
        said.append(
            f"If {n:,} other users like these were asked, another group would come first in"
            f" {share(1 - facts['first_again'])} of the cases."
        )
    enough = facts["clients_unlimited"]
    said.append(
        "If the gap among users in general were this one, it would take"
        f" {enough:,} of them to have just these two groups in the right order in 99 of 100"
        f" samples, and there are {n:,} here"
        + (
            ": which group is best among <i>users in general</i> cannot be told from this data."
            if enough > n
            else "."
        )
    )
    said.append(
        f"Which is best among <i>these users</i> can be found: once all {n:,} are in, only the"
        f" noise of observations is left. But hardly fewer will do: 99 of 100 samples are right"
        f" from {facts['clients_of_these']:,} of them on."
        if facts["clients_of_these"] > n / 2
        else f"Of these {n:,} users alone, {facts['clients_of_these']:,} do."
    )
    return f"<p>{' '.join(said)}</p>"


_ABSENT = "–"
_Fact = Callable[[Mapping[str, Any]], str]


def _count(key: str) -> _Fact:
    return lambda facts: _ABSENT if facts.get(key) is None else f"{facts[key]:,.0f}"


def _number(key: str, digits: int) -> _Fact:
    return lambda facts: _ABSENT if facts[key] is None else f"{facts[key]:.{digits}f}"


def _part(key: str) -> _Fact:
    return lambda facts: _ABSENT if facts[key] is None else share(facts[key])


_FACTS: tuple[tuple[str, str, _Fact], ...] = (
    ("users in the data", "", _count("users")),
    ("clients", "users with a value for every group", _count("clients")),
    ("groups of movies", "the arms", _count("groups")),
    (
        "ratings a client gave in a group",
        "median; a mean of few ratings is itself uncertain",
        _count("ratings_in_group"),
    ),
    ("mean of the best group", "over all clients", _number("best_mean", 5)),
    ("mean of the second best group", "over all clients", _number("second_mean", 5)),
    ("gap Δ", "between the two", _number("gap", 5)),
    ("spread σ_c", "standard deviation of clients within a group, averaged", _number("spread", 4)),
    (
        "best minus second, client by client",
        "standard deviation",
        _number("difference_deviation", 4),
    ),
    ("paired z", "mean of these differences in standard errors", _number("z", 2)),
    (
        "the same group first again",
        "with as many clients drawn anew from these, with replacement",
        _part("first_again"),
    ),
    (
        "clients for the two best in order, unlimited population",
        "normal calculation, in 99 % of samples",
        _count("clients_unlimited"),
    ),
    (
        "clients for the same, of these clients alone",
        "normal calculation without replacement",
        _count("clients_of_these"),
    ),
    (
        "clients by Theorem 1, corrected",
        f"4 σ_c² log(KT) / Δ², so that P(another group first) ≤ 1/T, T = {HORIZON:,}; takes groups"
        " as independent",
        _count("clients_by_theorem"),
    ),
)


def _facts(data: Sequence[Mapping[str, Any]]) -> str:
    heads = (f"{KINDS[facts['kind']]} <small>{escape(facts['source'])}</small>" for facts in data)
    rows = [
        markup.row(
            with_subscripts(name) + (f" <small>{with_subscripts(note)}</small>" if note else ""),
            *(value(facts) for facts in data),
        )
        for name, note, value in _FACTS
        if any(value(facts) != _ABSENT for facts in data)
    ]
    return markup.table("Facts of the data", ("fact", *heads), rows, kind="")


def _about_rows(facts: Mapping[str, Any]) -> str:
    """Return what the values of a matrix are, as far as they show it themselves."""
    rows = facts["rows"]
    said = [
        "<b>What the values of the matrix are.</b> This is the one that the paper's authors"
        " published: its group means are those of figure 6."
        if rows["as_released"]
        else "<b>What the values of the matrix are.</b> It is not the one that the paper's authors"
        " published: its group means are others than those of figure 6.",
        f"{share(rows['zeros'])} of the values are 0, and the largest value of a row is 1 in"
        f" {share(rows['largest_is_one'])} of the rows.",
    ]
    if rows["denominators"] is not None:
        low, middle, high = rows["denominators"]
        said.append(
            f"In every row all values are whole multiples of 1/n, with an n of the row's own"
            f" between {low} and {high} (median {middle:g}; checked for each row)."
        )
        if rows["largest_is_one"] == 1:
            said.append(
                "That is the pattern of <i>totals</i>: what a user gave to a group, added up, and"
                " divided by the user's largest group. Mean ratings do not look like this, since"
                " every group of a user would have a denominator of its own. So a high value seems"
                " to say above all that a user rated many movies of a group, not that the user"
                " liked them; a 0, that there is no rating. The real clients of a matrix and those"
                " of the archive measure different things, and their numbers do not compare."
            )
    return f"<p>{' '.join(said)}</p>"


_SETTINGS = f"""<h3>The games</h3>
<p>Schedules and constants are those of figure 6 (Fed1-UCB: f = ⌊10 log T⌋, constant 1; Fed2-UCB:
f = 200, g = 2^p, constants 1 and 1/4) unless a row says otherwise; communication costs 1 a client
and phase. Regret adds up over the clients that are in, so that a small total can come from few of
them. A wrong group is one that is not best over all these clients. Ranges and ± are 95&nbsp;%
intervals. Games of the last two rows are ended {MORE_PHASES} phases after everyone is in, and the
group with the best estimate is played from then on: left alone, the rule would go on and lose
more.</p>"""


def _game(game: Mapping[str, Any]) -> str:
    heading = f"<h3>{KINDS[game['kind']]}: {game['game']}</h3>"
    if not game["variants"]:
        return f"{heading}\n<p>Too many clients and groups to be simulated here.</p>"
    noise = (
        f"Observations are the clients' own ratings, stars / 5; rules are told σ ="
        f" {game['noise']:g}, half of their range."
        if game["game"] == "real ratings"
        else f"Observations are normal around a client's values, σ = {game['noise']:g}."
    )
    played = f"{game['replications']:,} games of {game['horizon']:,} slots for each row."
    return "\n".join(
        (
            heading,
            f"<p>{noise} {played}</p>",
            _results(game["variants"]),
            _reading(game["variants"]),
        )
    )


_HEADINGS = ("variant", "total regret", "wrong group", "undecided", "clients", "phases")


def _results(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        markup.row(
            f"{escape(row['label'])} <small>{with_subscripts(row['told'])}</small>",
            _mean(row, "{} <small>± {}</small>"),
            _rate(row["wrong"]),
            _rate(row["undecided"]),
            f"{row['clients']:,.0f}",
            f"{row['phases']:,.1f}",
        )
        for row in rows
    ]
    return markup.table("Results", _HEADINGS, lines, kind="")


def _rate(rate: Mapping[str, float]) -> str:
    return (
        f"{share(rate['share'])} <small>{100 * rate['low']:.0f} to {100 * rate['high']:.0f} %"
        "</small>"
    )


def _reading(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return in words what the games show."""
    by_key = {row["key"]: row for row in rows}
    everyone, some, finite, theory, unlimited, released = (
        by_key[key] for key in ("all", "some", "finite", "finite-theory", "unlimited", "released")
    )
    best = 1 - everyone["wrong"]["share"] - everyone["undecided"]["share"]
    items = [
        f"With all clients in, Fed1-UCB settled on their best group in {share(best)} of the games."
        f" With some of them it takes the favourite of those for everybody's: a wrong group in"
        f" {share(some['wrong']['share'])}.",
        f"Fed2-UCB that knows how many clients there are let in {finite['clients']:,.0f} on average"
        f" of {everyone['clients']:,.0f}, and ended on a wrong group in"
        f" {share(finite['wrong']['share'])}; with the constants 6 and 6,"
        f" {theory['clients']:,.0f} and {share(theory['wrong']['share'])}."
        + (
            " The 1/4 of the authors' script is too small for clients who differ this much: the"
            " best group is sometimes dropped while few clients are in."
            if finite["wrong"]["low"] > theory["wrong"]["high"]
            else ""
        ),
        f"Taking them for a sample of an unlimited population, with σ<sub>c</sub> as it is,"
        f" Fed2-UCB was undecided in {share(unlimited['undecided']['share'])} of the games with all"
        " clients in."
        f" Told σ<sub>c</sub> = {RELEASED_SPREAD:g} instead, as in the authors' script, it let in"
        f" {released['clients']:,.0f} on average: a wrong group in"
        f" {share(released['wrong']['share'])}, undecided in"
        f" {share(released['undecided']['share'])}.",
        _least_regret(rows),
        _ordering(by_key),
    ]
    return markup.items(items)


def _least_regret(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return which variant had the least regret among those that find the best group."""
    found = sorted(
        (row for row in rows if _found_best(row) >= _FINDS), key=lambda row: row["regret"]["mean"]
    )
    said = f"the best group in at least {share(_FINDS)} of the games"
    if not found:
        return f"No variant settled on {said}, so that their regrets tell little."
    first, *others = found
    least = f"“{escape(first['label'])}” with {_mean(first)}"
    if not others:
        return f"Only one variant settled on {said}: {least} of regret on average."
    unclear = [row for row in others if _compared(first, row) != "less"]
    rest = listed([f"“{escape(row['label'])}” had {_mean(row)}" for row in others])
    text = (
        f"Of the {len(found)} variants that settled on {said} the lowest mean regret had {least};"
        f" {rest}."
    )
    if unclear:
        names = listed([f"“{escape(row['label'])}”" for row in unclear])
        text += f" The difference from {names} is within sampling error."
    return text


# In such a share of its games a variant finds the best group.
_FINDS = 0.95


def _found_best(row: Mapping[str, Any]) -> float:
    return float(1 - row["wrong"]["share"] - row["undecided"]["share"])


def _ordering(by_key: Mapping[str, Mapping[str, Any]]) -> str:
    """Return whether Fed2-UCB has less regret than Fed1-UCB, as in the paper's figure 6."""
    everyone, some, released = by_key["all"], by_key["some"], by_key["released"]
    knowing = [by_key["finite"], by_key["finite-theory"]]
    against = {_compared(row, everyone) for row in knowing}
    if against == {"less"} and {_compared(row, some) for row in knowing} == {"less"}:
        verdict = "That ordering is found here, too"
    elif against == {"more"}:
        verdict = "Against Fed1-UCB with all clients that ordering is reversed here"
    else:
        verdict = "That ordering is not reproduced here"
    text = (
        "In the paper's figure 6 Fed2-UCB has less regret than Fed1-UCB, with 200 clients and with"
        f" all. {verdict}: Fed2-UCB that knows how many clients there are had {_mean(knowing[0])},"
        f" and {_mean(knowing[1])} with the constants 6 and 6; Fed1-UCB had {_mean(everyone)} with"
        f" all clients and {_mean(some)} with some of them. Told σ<sub>c</sub> ="
        f" {RELEASED_SPREAD:g}, as in the authors' script, Fed2-UCB had {_mean(released)},"
        f" {_COMPARED[_compared(released, everyone)]} Fed1-UCB with all clients"
    )
    if released["wrong"]["low"] > 1 - _FINDS:
        text += (
            f"; but it ended on a wrong group in {share(released['wrong']['share'])} of the games,"
            f" with {released['clients']:,.0f} clients in on average, and few clients add up to"
            " little regret"
        )
    return f"{text}."


_COMPARED = {
    "less": "less than",
    "more": "more than",
    "unclear": "which is not clearly different from",
}


def _compared(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return whether one mean regret is less or more than another, by a 95 % interval.

    Examples
    --------
    >>> few, many = ({"regret": {"mean": mean, "margin": 3.0}} for mean in (10.0, 15.0))
    >>> _compared(few, many), _compared(many, few), _compared(few, few)
    ('less', 'more', 'unclear')
    """
    difference = one["regret"]["mean"] - other["regret"]["mean"]
    if abs(difference) <= math.hypot(one["regret"]["margin"], other["regret"]["margin"]):
        return "unclear"
    return "less" if difference < 0 else "more"


def _mean(row: Mapping[str, Any], shown: str = "{} ± {}") -> str:
    regret = row["regret"]
    return shown.format(*mean_and_error({"mean": regret["mean"], "stderr": regret["margin"]}))
