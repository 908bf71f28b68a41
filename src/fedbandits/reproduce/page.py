"""The page of the reproduction: every figure with its numbers, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from fedbandits.experiments.figures import colours, regret_page_figure, shown_in_parts
from fedbandits.experiments.report.glossary import WORDS
from fedbandits.experiments.report.markup import data_uri, definitions, scrolling, with_subscripts
from fedbandits.experiments.report.page import REGRET_CAPTION, regret_alt
from fedbandits.experiments.report.results_table import results_table
from fedbandits.experiments.report.shell import html_page, live_figure
from fedbandits.experiments.tables import Table
from fedbandits.experiments.wording import listed
from fedbandits.reproduce.catalogue import (
    CLAIMS,
    INDEX_RULES,
    MISRANKING,
    MOVIELENS,
    PARTS,
    PRIVACY,
    RULES,
    SCALING,
    THEORY,
    PaperFigure,
)
from fedbandits.reproduce.claims import FACTOR
from fedbandits.reproduce.drawn import Drawn
from fedbandits.reproduce.evidence import ABOUT_EQUAL, FEWEST_GAMES
from fedbandits.reproduce.index_costs import index_costs_section
from fedbandits.reproduce.index_costs.figures import GROWTH_CAPTION, TAILS_CAPTION
from fedbandits.reproduce.index_costs.section import HEADING as INDEX_HEADING
from fedbandits.reproduce.misranking import CAPTION as MISRANKING_CAPTION
from fedbandits.reproduce.misranking import misranking_page_figure
from fedbandits.reproduce.privacy_costs import CAPTION as PRIVACY_CAPTION
from fedbandits.reproduce.privacy_costs import privacy_costs_html
from fedbandits.reproduce.real_data import real_data_section
from fedbandits.reproduce.rule_costs import CAPTION as RULES_CAPTION
from fedbandits.reproduce.rule_costs import rule_costs_html
from fedbandits.reproduce.run import Reproduced
from fedbandits.reproduce.scaling import CAPTION as SCALING_CAPTION
from fedbandits.reproduce.scaling import growth_table, scaling_page_figure
from fedbandits.reproduce.theory_page import HEADING as THEORY_HEADING
from fedbandits.reproduce.theory_page import theory_section
from fedbandits.reproduce.theory_tables import Rows

TITLE = "Federated Multi-Armed Bandits, reproduced"
_BYLINE = (
    "The figures of Shi and Shen, “Federated Multi-Armed Bandits” (AAAI 2021), simulated with "
    "fedbandits."
)
_INTRODUCTION = """<p>Each figure is drawn from simulations whose settings stand in one file that
can be read and changed: <code>fedbandits reproduce --show fig4</code> prints it. The published
curves come from the constants of the authors' released scripts, which are smaller than the 6 that
carries the paper's proofs; every figure is shown with both. Bands, bars and every ± on this page
are 95&nbsp;% confidence intervals.</p>"""


def reproduction_page(
    figures: Sequence[PaperFigure],
    experiments: Mapping[str, Reproduced],
    *,
    misranking: Drawn | None,
    movielens: Mapping[str, Any] | None,
    theory: Mapping[str, Rows] | None,
    scaling: Drawn | None,
    rules: Drawn | None,
    index_rules: Mapping[str, Table] | None,
    index_figures: Mapping[str, Drawn],
    privacy: Drawn | None,
    claims: Mapping[str, Any] | None,
) -> str:
    """Return the page.

    Parameters
    ----------
    figures : sequence of PaperFigure
        Which figures to show, in order.
    experiments : mapping
        Their experiments by name.
    misranking : Drawn, optional
        Figure 7, which is computed and counted instead of played.
    movielens : mapping, optional
        MovieLens with its real users; empty tables where no data is imported.
    theory : mapping, optional
        The tables of what the theorems promise.
    scaling : Drawn, optional
        Regret against the horizon.
    rules : Drawn, optional
        What each rule costs.
    index_rules : mapping, optional
        The tables of what index rules cost.
    index_figures : mapping
        Their figures, "tails" and "growth", if there are tables.
    privacy : Drawn, optional
        What protecting the clients' means costs.
    claims : mapping, optional
        What the paper says and the verdicts, from `fedbandits.reproduce.claims.judge`.
    """
    live: dict[str, object] = {}
    sections: dict[str, tuple[str, str]] = {}
    for figure in figures:
        sections[figure.key] = _figure_section(figure, experiments, live)
    if misranking is not None:
        live[MISRANKING] = misranking_page_figure(misranking.table)
        alt = "Probability of misranking against the number of clients, for two gaps."
        caption = with_subscripts(MISRANKING_CAPTION)
        shown = live_figure(MISRANKING, misranking.image, alt=alt, caption=caption)
        sections[MISRANKING] = ("Figure 7: how many clients rank the arms rightly", shown)
    if movielens is not None:
        sections[MOVIELENS] = real_data_section(movielens)
    if theory is not None:
        sections[THEORY] = (THEORY_HEADING, theory_section(theory))
    if scaling is not None:
        live[SCALING] = scaling_page_figure(scaling.table)
        alt = "Regret divided by log T against the horizon, for nine schedules."
        caption = with_subscripts(SCALING_CAPTION)
        shown = live_figure(SCALING, scaling.image, alt=alt, caption=caption)
        shown += growth_table(scaling.table)
        games = max(scaling.table["replications"])
        shown = f"<p>{games:,} games of each schedule and horizon.</p>\n{shown}"
        sections[SCALING] = ("Tables 2 and 3: how regret grows with the horizon", shown)
    if rules is not None:
        alt = "Bars of total regret for every rule, on four games."
        sections[RULES] = (
            "Sharper than the paper: what each rule costs",
            f"{rule_costs_html(rules.table)}\n{_still_figure(rules, alt, RULES_CAPTION)}",
        )
    if index_rules is not None:
        pictures = {
            name: _still_figure(index_figures[name], alt, caption)
            for name, alt, caption in (
                (
                    "tails",
                    "Share of games with as much regret or more, on three games.",
                    TAILS_CAPTION,
                ),
                ("growth", "Mean regret against the horizon, on two games.", GROWTH_CAPTION),
            )
        }
        sections[INDEX_RULES] = (INDEX_HEADING, index_costs_section(index_rules, pictures))
    if privacy is not None:
        alt = "Total regret against epsilon, against bits of a mean, and over log T against T."
        sections[PRIVACY] = (
            "Better privacy protection: what it costs",
            f"{_still_figure(privacy, alt, PRIVACY_CAPTION)}\n{privacy_costs_html(privacy.table)}",
        )
    if claims is not None:
        heading = "What the paper says, and what was measured"
        sections[CLAIMS] = (heading, claims_section(claims))
    return html_page(
        title=TITLE,
        byline=_BYLINE,
        sections=[
            ("What this is", _INTRODUCTION),
            # The verdicts first; the rest in the order of the paper.
            *(sections[part] for part in dict.fromkeys((CLAIMS, *PARTS)) if part in sections),
            ("How to read this", definitions(WORDS)),
        ],
        figures=live,
        contents=True,
    )


def _still_figure(drawn: Drawn, alt: str, caption: str) -> str:
    """Return a figure that is an image alone."""
    return (
        f'<figure>\n<img src="{data_uri(drawn.image)}" alt="{alt}">\n'
        f"<figcaption>{with_subscripts(caption)}</figcaption>\n</figure>"
    )


def _figure_section(
    figure: PaperFigure, experiments: Mapping[str, Reproduced], live: dict[str, object]
) -> tuple[str, str]:
    """Return heading and HTML of a figure of regret curves, and add what is drawn in it."""
    parts = [f"<p>{with_subscripts(figure.caption)}</p>"]
    for name, heading in figure.experiments.items():
        made = experiments[name]
        variants = made.summary["variants"]
        named = [v["label"] for v in variants], [v["algorithm"] for v in variants]
        colour_of, in_parts = colours(*named), shown_in_parts(*named)
        live[name] = regret_page_figure(made.curves, colour_of=colour_of, in_parts=in_parts)
        spec = made.summary["spec"]
        parts += [
            f"<h3>{escape(heading)}</h3>",
            f"<p>{spec['replications']:,} replications of {spec['horizon']:,} slots.</p>",
            live_figure(name, made.image, alt=regret_alt(variants), caption=REGRET_CAPTION),
            results_table(variants, colour_of, intervals=True),
        ]
    return f"Figure {figure.key.removeprefix('fig')}: {escape(figure.title)}", "\n".join(parts)


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
    return scrolling(
        name,
        f"""<table class="claims">
<thead><tr><th scope="col">{heading}</th><th scope="col">measured</th>
<th scope="col">verdict</th></tr></thead>
<tbody>
{"".join(map(_claim_row, claims))}</tbody>
</table>""",
    )


def _claim_row(claim: Mapping[str, Any]) -> str:
    where = "; ".join(filter(None, (claim["where"], claim["read"])))
    games = "computed" if claim["games"] is None else f"of {claim['games']:,} games"
    verdict = ": ".join(filter(None, (claim["verdict"], claim["reason"])))
    return (
        f'<tr class="{claim["verdict"]}"><th scope="row">{with_subscripts(claim["claim"])} '
        f"<small>{with_subscripts(where)}</small></th>"
        f"<td>{with_subscripts(claim['measured'])} <small>{games}</small></td>"
        f"<td><b>{escape(verdict)}</b></td></tr>\n"
    )
