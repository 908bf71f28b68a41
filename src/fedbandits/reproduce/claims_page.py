"""What the paper says as a table with verdicts, and what we ask beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from fedbandits.experiments.report import markup
from fedbandits.experiments.report.markup import with_subscripts
from fedbandits.experiments.wording import listed
from fedbandits.reproduce.catalogue import CLAIMS
from fedbandits.reproduce.claims import FACTOR, Measured, claims_batches, judge
from fedbandits.reproduce.findings import ABOUT_EQUAL, FEWEST_GAMES
from fedbandits.reproduce.part import Part


def claims_section(found: Mapping[str, Any]) -> str:
    """Return what the paper says as a table with verdicts, and what we ask beside it in another.

    Parameters
    ----------
    found : mapping
        From `fedbandits.reproduce.claims.judge`.
    """
    papers = [claim for claim in found["claims"] if not claim["ours"]]
    ours = [claim for claim in found["claims"] if claim["ours"]]
    return f"""<p>Of {_statements(len(papers))} of the paper that were tested (a sentence may make
several), {counted(papers)}. {_what_they_rest_on(found)}</p>
<p>The probability of one wrong verdict or more in the whole is at most {found["level"]:g} (Holm's
method over all tests, for and against; means are compared game by game, by Student's t, because
variants of one problem share their random draws). Nothing is judged from fewer than {FEWEST_GAMES}
games. “About equal”,
“almost the same”, “small”, “limited” and “slightly” are tested as equivalence within
{ABOUT_EQUAL * 100:g}&nbsp;%, “very large” and “much better” as a factor of {FACTOR:g}. The paper
does not state these margins; they are ours, and whoever reads its words more generously will judge
some rows more mildly: the numbers are there, ± and in brackets as 95&nbsp;% intervals.</p>
{claims_table(papers, "the paper says", "Claims")}
<h3>Ours, to put the above into proportion</h3>
<p>The paper does not say these. Of {_statements(len(ours))} {counted(ours)}.</p>
{claims_table(ours, "we ask whether", "Our own questions")}"""


def _what_they_rest_on(found: Mapping[str, Any]) -> str:
    """Return how many games were played for the claims, and with which seeds."""
    games = found["games"]
    most = max(games.values())
    fewer = {run: count for run, count in games.items() if count < most}
    but = "".join(f", of the {run} version {count:,}" for run, count in fewer.items())
    why = " because a replication of it has some 28,000 phases" if fewer else ""
    seeds = listed(f"{seed}" for seed in sorted(set(found["seeds"].values())))
    return (
        f"They rest on {most:,} games of each variant{but}{why}, played with another seed than the"
        f" figures' ({seeds}): what is tested was not looked at before."
    )


def _statements(number: int) -> str:
    return "1 statement" if number == 1 else f"{number} statements"


def counted(claims: Sequence[Mapping[str, Any]]) -> str:
    """Return how many claims have which verdict.

    Examples
    --------
    >>> counted([{"verdict": "holds"}, {"verdict": "fails"}, {"verdict": "holds"}])
    '2 hold and 1 fails'
    """
    verdicts = [claim["verdict"] for claim in claims]
    words = {
        "holds": ("holds", "hold"),
        "fails": ("fails", "fail"),
        "undecided": ("is undecided", "are undecided"),
    }
    return listed(
        f"{verdicts.count(verdict)} {one if verdicts.count(verdict) == 1 else more}"
        for verdict, (one, more) in words.items()
        if verdict in verdicts
    )


def claims_table(claims: Sequence[Mapping[str, Any]], heading: str, name: str) -> str:
    """Return claims as a table, a row a claim.

    Parameters
    ----------
    claims : sequence of mapping
        As `fedbandits.reproduce.claims.judge` has them.
    heading : str
        Above what is said.
    name : str
        Of the table, for those who do not see it.
    """
    return markup.table(
        name, (heading, "measured", "verdict"), map(_claim_row, claims), kind="claims"
    )


def _claim_row(claim: Mapping[str, Any]) -> str:
    where = "; ".join(filter(None, (claim["where"], claim["read"])))
    games = "computed" if claim["games"] is None else f"of {claim['games']:,} games"
    verdict = ": ".join(filter(None, (claim["verdict"], claim["reason"])))
    return (
        f'<tr class="{claim["verdict"]}"><th scope="row">{with_subscripts(claim["claim"])} '
        f"<small>{with_subscripts(where)}</small></th>"
        f"<td>{with_subscripts(claim['measured'])} <small>{games}</small></td>"
        f"<td><b>{escape(verdict)}</b></td></tr>"
    )


PART = Part(
    key=CLAIMS,
    heading="What the paper says, and what was measured",
    batches=claims_batches,
    table=lambda runs: judge(Measured(runs)),
    section=lambda found, _: claims_section(found),
)
