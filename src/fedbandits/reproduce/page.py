"""The page of the reproduction: every figure with its numbers, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from fedbandits.experiments.figures import colours, regret_page_figure, shown_in_parts
from fedbandits.experiments.report.glossary import WORDS
from fedbandits.experiments.report.markup import definitions, with_subscripts
from fedbandits.experiments.report.page import REGRET_CAPTION, regret_alt
from fedbandits.experiments.report.results_table import results_table
from fedbandits.experiments.report.shell import html_page, live_figure
from fedbandits.reproduce.catalogue import CLAIMS, PARTS, PaperFigure
from fedbandits.reproduce.run import Reproduced

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
    parts: Mapping[str, tuple[str, str]],
    live: Mapping[str, Any],
) -> str:
    """Return the page.

    Parameters
    ----------
    figures : sequence of PaperFigure
        Which figures of regret curves to show.
    experiments : mapping
        Their experiments by name.
    parts : mapping of str to (str, str)
        Heading and HTML of what is computed, by the keys of the parts.
    live : mapping
        The interactive figures in it, by their keys.
    """
    drawn: dict[str, Any] = {}
    sections = {figure.key: _figure_section(figure, experiments, drawn) for figure in figures}
    sections |= parts
    return html_page(
        title=TITLE,
        byline=_BYLINE,
        sections=[
            ("What this is", _INTRODUCTION),
            # The verdicts first; the rest in the order of the paper.
            *(sections[part] for part in dict.fromkeys((CLAIMS, *PARTS)) if part in sections),
            ("How to read this", definitions(WORDS)),
        ],
        figures={**drawn, **live},
        contents=True,
    )


def _figure_section(
    figure: PaperFigure, experiments: Mapping[str, Reproduced], live: dict[str, Any]
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
