"""The whole page: its parts, one after the other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from fedbandits.experiments.describe import versions
from fedbandits.experiments.report.glossary import WORDS
from fedbandits.experiments.report.opening import opening
from fedbandits.experiments.report.problem_sections import problem_groups, problem_sections
from fedbandits.experiments.report.variant_tables import protection_section, results_table
from fedbandits.experiments.results import Results
from fedbandits.report.chart import Chart, Plot
from fedbandits.report.markup import definitions
from fedbandits.report.page import html_page, live_chart
from fedbandits.report.palette import colours
from fedbandits.report.wording import in_words
from fedbandits.rules.guarantees import Guarantee, listed
from fedbandits.simulation.charts import PART, YARDSTICK, regret_charts, shown_in_parts
from fedbandits.simulation.tables import Table

_MEANS = "Mean regret of each variant up to each slot, added up over its clients."
_BANDS = "Bands are 95&nbsp;% confidence intervals of the mean."
_PARTS = """A dashed curve is the exploration part of a total: what is left of it without the cost
of communication."""
_YARDSTICKS = """The dotted line is the slope of the lower bound times log&nbsp;t: in the
limit every consistent rule pays at least that. Before, it is a yardstick."""
_HOW_TO = """<span class="screen">Point at a curve to read its value; drag to zoom in,
double-click to see all; click a label to hide or show its curve, double-click it to see it alone.
The buttons show the total or one of its two parts, and switch axes to logarithmic ones.</span>"""


def report_html(results: Results, *, images: Mapping[str, bytes] | None = None) -> str:
    """Return the results as one page that needs no network.

    Parameters
    ----------
    results : Results
        What to show.
    images : mapping of str to bytes, optional
        PNG files that were drawn already and need not be drawn again: ``regret.png``, and
        ``map.png``, ``map-2.png``, … as in `fedbandits.experiments.availability.map_names`.

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
    summary = results.summary()
    variants = summary["variants"]
    games = problem_groups(results, summary["spec"])
    return html_page(
        title=summary["title"],
        byline=_byline(results),
        sections=[
            ("In short", opening(games, results.experiment.replications)),
            (
                "Regret over time",
                regret_section("regret", results.curves(), summary, drawn.get("regret.png")),
            ),
            ("What each variant promises", promises(variants, results.experiment.guarantees())),
            ("What leaves a client", protection_section(variants)),
            ("How to read this", definitions(WORDS)),
            (f"The problem{'s' if len(games) > 1 else ''}", problem_sections(games, drawn)),
            ("To run it again", run_again(summary["spec"])),
        ],
    )


def variant_colours(summary: Mapping[str, Any]) -> dict[str, str]:
    """Return the colour of every variant of a summary."""
    variants = summary["variants"]
    return colours([v["label"] for v in variants], [v["algorithm"] for v in variants])


def regret_of(curves: Table, summary: Mapping[str, Any]) -> dict[str, Chart]:
    """Return the charts of regret of a summary."""
    variants = summary["variants"]
    in_parts = shown_in_parts([v["label"] for v in variants], [v["algorithm"] for v in variants])
    slopes = {v["lower_bound"]["slope"] for v in variants} - {None}
    colour_of = variant_colours(summary)
    return regret_charts(
        curves, summary["title"], colour_of=colour_of, in_parts=in_parts, slopes=slopes
    )


def regret_section(
    key: str, curves: Table, summary: Mapping[str, Any], image: bytes | None = None
) -> str:
    """Return the chart of regret, under its key on the page, and the table of results.

    Parameters
    ----------
    key : str
        Of the chart.
    curves, summary
        As the results have them.
    image : bytes, optional
        The chart as PNG, if it was drawn already.
    """
    variants = summary["variants"]
    ends = ", ".join(f"{v['label']}: {in_words(v['regret']['total'])}" for v in variants)
    alt = f"Curves of total regret against slot; at the end, {ends}."
    charts = regret_of(curves, summary)
    plots = [panel for panel in charts["total"].panels if isinstance(panel, Plot)]
    shown = [one for plot in plots for one in plot.series]
    caption = [
        _MEANS,
        *([_BANDS] if any(one.band and one.half for one in shown) else []),
        *([_PARTS] if any(one.dash == PART for one in shown) else []),
        *([_YARDSTICKS] if any(one.dash == YARDSTICK for one in shown) else []),
        _HOW_TO,
    ]
    chart = live_chart(key, charts, alt=alt, caption=" ".join(caption), image=image)
    return f"{chart}\n{results_table(variants, variant_colours(summary))}"


def promises(variants: Sequence[Mapping[str, Any]], guarantees: Sequence[Guarantee]) -> str:
    """Return what is proven about variants' games, and what speaks against it."""
    items = []
    for variant, found in zip(variants, guarantees, strict=True):
        none = variant["guarantee"].startswith("none")
        common = [] if none else [one.words for one in found.conditions if one.common]
        only = f" It holds only if {escape(listed(common))}." if common else ""
        but = "Also:" if none else "But"
        doubts = "".join(f"<br>{but} {escape(doubt)}." for doubt in variant["doubts"])
        items.append((escape(variant["label"]), f"{escape(variant['guarantee'])}.{only}{doubts}"))
    return definitions(items)


def _byline(results: Results) -> str:
    horizon, n = results.experiment.horizon, results.experiment.replications
    variants = f"{len(results.simulations)} variant{'s' if len(results.simulations) > 1 else ''}"
    replications = "one replication" if n == 1 else f"{n:,} replications"
    length = "until they are decided" if horizon is None else f"of {horizon:,} slots each"
    return f"{variants}, simulated with fedbandits: {replications} {length}"


def run_again(spec: Mapping[str, Any]) -> str:
    """Return what the numbers of a page were made from."""
    made_with = ", ".join(f"{name} {version}" for name, version in versions().items())
    return f"""<p>Seed {spec["seed"]}; {escape(made_with)}. The same seed and versions
give the same numbers.</p>
<details>
<summary>All that was asked for, as JSON</summary>
<pre id="spec">{escape(_spec_text(spec))}</pre>
</details>"""


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
