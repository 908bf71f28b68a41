"""The whole page: its parts, one after the other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from fedbandits.experiments.figures import (
    colours,
    image,
    regret_figure,
    regret_page_figure,
    shown_in_parts,
)
from fedbandits.experiments.report.glossary import WORDS
from fedbandits.experiments.report.markup import definitions
from fedbandits.experiments.report.opening import opening
from fedbandits.experiments.report.problem_groups import problem_groups
from fedbandits.experiments.report.problem_sections import problem_sections
from fedbandits.experiments.report.protection_section import protection_section
from fedbandits.experiments.report.results_table import results_table
from fedbandits.experiments.report.shell import html_page, live_figure
from fedbandits.experiments.results import Results
from fedbandits.experiments.wording import in_words
from fedbandits.rules.guarantees import Guarantee, listed

REGRET_CAPTION = """Mean regret of each variant from the start to the horizon, added up over its
clients; bands are 95&nbsp;% confidence intervals of the mean. A dashed curve is the exploration
part of a total: what is left of it without the cost of communication. <span class="screen">Point at
a curve to read its value and standard error; click a label to hide or show its curve, double-click
it to see it alone. The buttons show the total or one of its two parts.</span>"""


def report_html(results: Results, *, images: Mapping[str, bytes] | None = None) -> str:
    """Return the results as one page that needs no network.

    Parameters
    ----------
    results : Results
        What to show.
    images : mapping of str to bytes, optional
        PNG files that were drawn already and need not be drawn again: ``regret.png``, and
        ``map.png``, ``map-2.png``, … as in `fedbandits.experiments.figures.map_names`.

    Examples
    --------
    >>> from fedbandits import Approximate, Experiment, Fed2Ucb, Gaussian, Variant
    >>> game = Approximate(means=[0.5, 0.9], noise=Gaussian(0.5), spread=Gaussian(0.1))
    >>> variant = Variant(label="ours", problem=game, algorithm=Fed2Ucb(pulls=9, admissions="2^p"))
    >>> demo = Experiment(title="demo", variants=[variant], horizon=10_000, replications=5)
    >>> page = report_html(demo.run())
    >>> page[:15], "<h1>demo</h1>" in page
    ('<!DOCTYPE html>', True)
    """
    drawn = {} if images is None else images
    summary, curves = results.summary(), results.curves()
    title, variants = summary["title"], summary["variants"]
    named = [v["label"] for v in variants], [v["algorithm"] for v in variants]
    colour_of, in_parts = colours(*named), shown_in_parts(*named)
    static = drawn.get("regret.png") or image(
        regret_figure(curves, title, colour_of=colour_of, in_parts=in_parts)
    )
    games = problem_groups(results, summary["spec"])
    regret = live_figure("regret", static, alt=regret_alt(variants), caption=REGRET_CAPTION)
    again = f"""<p>Seed {summary["seed"]}; {_versions(summary["versions"])}. The same seed and
versions give the same numbers.</p>
<details>
<summary>The whole experiment, as JSON</summary>
<pre id="spec">{escape(_spec_text(summary["spec"]))}</pre>
</details>"""
    return html_page(
        title=title,
        byline=_byline(results),
        sections=[
            ("In short", opening(games, results.experiment.replications)),
            ("Regret over time", regret),
            ("Results", results_table(variants, colour_of)),
            (
                "What each variant promises",
                promises(variants, results.experiment.guarantees()),
            ),
            ("What leaves a client", protection_section(variants)),
            ("How to read this", definitions(WORDS)),
            (
                "The problem" if len(games) == 1 else "The problems",
                problem_sections(games, drawn),
            ),
            ("To run it again", again),
        ],
        figures={"regret": regret_page_figure(curves, colour_of=colour_of, in_parts=in_parts)},
    )


def promises(variants: Sequence[Mapping[str, Any]], guarantees: Sequence[Guarantee]) -> str:
    """Return what is proven about variants' games, and what speaks against it."""
    items = []
    for variant in variants:
        doubts = "".join(f"<br>But {escape(doubt)}." for doubt in variant["doubts"])
        items.append((escape(variant["label"]), f"{escape(variant['guarantee'])}.{doubts}"))
    common = dict.fromkeys(
        one.words for found in guarantees for one in found.conditions if one.kind.common
    )
    always = f"<p>Always if {escape(listed(list(common)))}.</p>\n" if common else ""
    return f"{always}{definitions(items)}"


def _byline(results: Results) -> str:
    experiment = results.experiment
    n_variants = len(results.simulations)
    length = (
        "until they are decided"
        if experiment.horizon is None
        else f"of {experiment.horizon:,} slots each"
    )
    return (
        f"{n_variants} {'variant' if n_variants == 1 else 'variants'}, simulated with fedbandits:"
        f" {_replications(experiment.replications)} {length}"
    )


def _replications(n: int) -> str:
    return "one replication" if n == 1 else f"{n:,} replications"


def regret_alt(variants: Sequence[Mapping[str, Any]]) -> str:
    """Return what a figure of regret shows, for those who do not see it."""
    ends = ", ".join(f"{v['label']}: {in_words(v['regret']['total'])}" for v in variants)
    return f"Curves of total regret against slot; at the end, {ends}."


def _versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{escape(name)} {escape(version)}" for name, version in versions.items())


def _spec_text(value: Any, indent: str = "") -> str:
    """Return JSON in lines: what is short, and numbers, in one line.

    Examples
    --------
    >>> print(_spec_text({"means": [0.5] * 3, "noise": {"law": "gaussian", "sigma": 0.5}}))
    {"means": [0.5, 0.5, 0.5], "noise": {"law": "gaussian", "sigma": 0.5}}
    """
    text = json.dumps(value, ensure_ascii=False)
    nested = isinstance(value, dict | list) and any(
        isinstance(part, dict | list | str)
        for part in (value.values() if isinstance(value, dict) else value)
    )
    if not nested or len(indent) + len(text) <= 88:
        return text
    deeper = indent + "  "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {_spec_text(part, deeper)}" for key, part in value.items()]
        first, last = "{}"
    else:
        parts = [_spec_text(part, deeper) for part in value]
        first, last = "[]"
    lines = ",\n".join(deeper + part for part in parts)
    return f"{first}\n{lines}\n{indent}{last}"
