"""The page of a sweep, and the figure beside it."""

from __future__ import annotations

from html import escape
from pathlib import Path

from fedbandits.experiments.report.glossary import glossary
from fedbandits.experiments.report.page import run_again
from fedbandits.report.markup import definitions, items
from fedbandits.report.page import html_page, live_chart
from fedbandits.report.still import write_still
from fedbandits.sweeps.charts import sweep_chart, why_not_drawn
from fedbandits.sweeps.doubts import warnings_of
from fedbandits.sweeps.results import SweepResults
from fedbandits.sweeps.text import shown_cells, shown_comparisons

_CAPTIONS = {
    "plot": "Mean total regret of every setting; bands are 95&nbsp;% confidence intervals of it.",
    "heat": "Mean total regret of every setting: brighter is less, and a star marks the best choice"
    " under its conditions.",
}

_HOW_COMPARED = """Settings share their random draws, so that choices are compared replication by
replication."""


def write_page(results: SweepResults, folder: Path) -> None:
    """Write report.html; sweep.png and sweep.pdf as well, if there are few enough keys."""
    sweep, chart = results.sweep, sweep_chart(results)
    if chart is None:
        shown = f"<p>There is no chart: {escape(why_not_drawn(sweep) or '')}.</p>"
    else:
        alt = f"Mean total regret over {', '.join(sweep.keys)}."
        caption = _CAPTIONS[chart.panels[0].kind]
        png = write_still(chart, folder, "sweep")
        if any("★" in panel.title for panel in chart.panels):
            caption += " A star in a title: the best, and no key of the map changes it."
        shown = live_chart("sweep", chart, alt=alt, caption=caption, image=png)
    said = [
        *warnings_of(results.doubts(), len(sweep)),
        *(f"{key}: all its values give the same numbers" for key in results.idle_keys()),
    ]
    table, cells = shown_comparisons(results), shown_cells(results)
    sections = [
        ("Regret over the settings", shown),
        ("What is best, and where", f"<p>{_HOW_COMPARED} {table.note}.</p>\n{table.html()}"),
        *([] if cells is None else [(cells.name, cells.html())]),
        *([("To keep in mind", items(map(escape, said)))] if said else []),
        ("How to read this", definitions(glossary("arms, clients, slots", "regret"))),
        ("To run it again", run_again(sweep.described())),
    ]
    replications = sweep.experiment(0).replications
    page = html_page(
        title=sweep.title,
        byline=f"{len(sweep):,} settings, simulated with fedbandits: {replications:,} replications"
        " each",
        sections=sections,
    )
    (folder / "report.html").write_text(page, encoding="utf-8")
