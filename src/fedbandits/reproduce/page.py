"""The page of the reproduction: what every part shows, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fedbandits.experiments.report.glossary import WORDS
from fedbandits.problems.problem import gap
from fedbandits.report.markup import definitions, with_subscripts
from fedbandits.report.page import html_page
from fedbandits.reproduce.catalogue import paper_experiment
from fedbandits.reproduce.part import Made, Part
from fedbandits.reproduce.texts import fill, section_text, table_html, texts

TITLE = "Federated Multi-Armed Bandits, reproduced"
_BYLINE = (
    "The figures of Shi and Shen, “Federated Multi-Armed Bandits” (AAAI 2021), simulated with "
    "fedbandits."
)


def reproduction_page(sections: Iterable[Sequence[Part]], made: Made) -> str:
    """Return the page.

    Parameters
    ----------
    sections : iterable
        The parts of each section, in order.
    made : mapping
        What they have made, by their keys.
    """
    shown = [
        (parts[0].heading, "\n".join(part.section(made[part.key]) for part in parts))
        for parts in sections
    ]
    return html_page(
        title=TITLE,
        byline=_BYLINE,
        sections=[
            ("What this is", _introduction(made)),
            *shown,
            ("How to read this", definitions(WORDS)),
        ],
    )


def _introduction(made: Made) -> str:
    """Return what the page is, and its settings beside the paper's."""
    known: dict[str, Any] = {"gap": gap(paper_experiment("fig6").variants[0].problem)}
    for key in ("fig3", "fig4", "fig5"):
        known[key] = made[key].table["summary"]["spec"]["replications"] if key in made else None
    rows = {
        with_subscripts(figure): [{**row, "here": fill(row["here"], known)} for row in settings]
        for figure, settings in texts("tables")["settings"]["rows"].items()
    }
    return fill(section_text("introduction"), {"settings": table_html("settings", rows)})
