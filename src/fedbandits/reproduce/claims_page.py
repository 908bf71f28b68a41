"""What the paper says as a table with verdicts, and what we ask beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from fedbandits.experiments.wording import listed
from fedbandits.report import markup
from fedbandits.report.markup import with_subscripts
from fedbandits.reproduce.claims import FACTOR, claims_batches, judge
from fedbandits.reproduce.computed import Computed
from fedbandits.reproduce.findings import ABOUT_EQUAL, FEWEST_GAMES


def claims_values(found: Mapping[str, Any]) -> dict[str, object]:
    """Return what the text of the section has in braces.

    Parameters
    ----------
    found : mapping
        From `fedbandits.reproduce.claims.judge`.
    """
    papers = [claim for claim in found["claims"] if not claim["ours"]]
    ours = [claim for claim in found["claims"] if claim["ours"]]
    least, most = min(found["games"].values()), max(found["games"].values())
    return {
        "papers": _statements(len(papers)),
        "papers_verdicts": counted(papers),
        "papers_table": claims_table(papers, "the paper says", "Claims"),
        "ours": _statements(len(ours)),
        "ours_verdicts": counted(ours),
        "ours_table": claims_table(ours, "we ask whether", "Our own questions"),
        "games": f"{most:,}" if least == most else f"{least:,} to {most:,}",
        "seeds": listed(f"{seed}" for seed in sorted(set(found["seeds"].values()))),
        "level": found["level"],
        "fewest": FEWEST_GAMES,
        "equal": 100 * ABOUT_EQUAL,
        "factor": FACTOR,
    }


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
    """Return claims as a table, one row per claim.

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


PART = Computed(
    key="claims",
    heading="What the paper says, and what was measured",
    cost=(2.0, 22.0),
    batches=claims_batches,
    table=judge,
    show=claims_values,
)
