"""The page of the reproduction: every figure with its numbers, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from fedbandits.experiments.figures import colours, regret_page_figure
from fedbandits.experiments.report.glossary import WORDS
from fedbandits.experiments.report.markup import definitions, with_subscripts
from fedbandits.experiments.report.page import REGRET_CAPTION, regret_alt
from fedbandits.experiments.report.results_table import results_table
from fedbandits.experiments.report.shell import html_page, live_figure
from fedbandits.reproduce.catalogue import (
    CLAIMS,
    MISRANKING,
    MOVIELENS,
    PARTS,
    SCALING,
    THEORY,
    PaperFigure,
)
from fedbandits.reproduce.claims import LEVEL
from fedbandits.reproduce.drawn import Drawn
from fedbandits.reproduce.misranking import CAPTION as MISRANKING_CAPTION
from fedbandits.reproduce.misranking import misranking_page_figure
from fedbandits.reproduce.real_data import real_data_section
from fedbandits.reproduce.run import Reproduced
from fedbandits.reproduce.scaling import CAPTION as SCALING_CAPTION
from fedbandits.reproduce.scaling import scaling_page_figure
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
carries the paper's proofs; every figure is shown with both. Bands and ± are sampling errors of the
simulation.</p>"""


def reproduction_page(
    figures: Sequence[PaperFigure],
    experiments: Mapping[str, Reproduced],
    *,
    misranking: Drawn | None,
    movielens: Mapping[str, Any] | None,
    theory: Mapping[str, Rows] | None,
    scaling: Drawn | None,
    claims: Sequence[Mapping[str, Any]] | None,
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
    claims : sequence of mapping, optional
        The paper's sentences and their verdicts.
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
        sections[SCALING] = ("Tables 2 and 3: how regret grows with the horizon", shown)
    if claims is not None:
        heading = "What the paper says, and what was measured"
        sections[CLAIMS] = (heading, claims_table(claims))
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
    )


def _figure_section(
    figure: PaperFigure, experiments: Mapping[str, Reproduced], live: dict[str, object]
) -> tuple[str, str]:
    """Return heading and HTML of a figure of regret curves, and add what is drawn in it."""
    parts = [f"<p>{with_subscripts(figure.caption)}</p>"]
    for name, heading in figure.experiments.items():
        made = experiments[name]
        variants = made.summary["variants"]
        colour_of = colours(
            [variant["label"] for variant in variants],
            [variant["algorithm"] for variant in variants],
        )
        live[name] = regret_page_figure(made.curves, colour_of=colour_of)
        spec = made.summary["spec"]
        parts += [
            f"<h3>{escape(heading)}</h3>",
            f"<p>{spec['replications']:,} replications of {spec['horizon']:,} slots.</p>",
            live_figure(name, made.image, alt=regret_alt(variants), caption=REGRET_CAPTION),
            results_table(variants, colour_of),
        ]
    return f"Figure {figure.key.removeprefix('fig')}: {escape(figure.title)}", "\n".join(parts)


def claims_table(claims: Sequence[Mapping[str, Any]]) -> str:
    """Return the claims as a table, with a sentence that counts the verdicts."""
    verdicts = [claim["verdict"] for claim in claims]
    counted = ", ".join(
        f"{verdicts.count(verdict)} {word}"
        for verdict, word in (("holds", "hold"), ("fails", "fail"), ("undecided", "are undecided"))
        if verdict in verdicts
    )
    rows = "\n".join(
        f'<tr class="{claim["verdict"]}"><th scope="row">{with_subscripts(claim["claim"])} '
        f"<small>{escape(claim['where'])}</small></th><td>{with_subscripts(claim['measured'])}</td>"
        f"<td><b>{escape(claim['verdict'])}</b></td></tr>"
        for claim in claims
    )
    return f"""<p>Of {len(claims)} sentences of the paper about its experiments, {counted}. A
verdict is a test at level {LEVEL:g}, by Holm's method over the whole table; “about equal”, “almost
the same”, “small” and “slightly” are tested as equivalence within 10&nbsp;%. ± is a 95&nbsp;%
interval. Whoever reads those words more generously will judge some rows more mildly: the numbers
are there.</p>
<div class="scroll" role="region" aria-label="Claims" tabindex="0">
<table class="claims">
<thead><tr><th scope="col">the paper says</th><th scope="col">measured</th>
<th scope="col">verdict</th></tr></thead>
<tbody>
{rows}
</tbody>
</table>
</div>"""
