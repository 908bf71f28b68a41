"""All of it: make what is asked for, and write the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fedbandits.errors import InputError, nearest
from fedbandits.experiments.output import check_output, open_output
from fedbandits.experiments.report.glossary import WORDS
from fedbandits.problems.problem import gap
from fedbandits.report.markup import definitions, with_subscripts
from fedbandits.report.page import html_page
from fedbandits.report.wording import listed
from fedbandits.reproduce.catalogue import paper_experiment
from fedbandits.reproduce.part import Made, Part
from fedbandits.reproduce.parts import PARTS, SECTIONS
from fedbandits.reproduce.steps import OnStep, Steps
from fedbandits.reproduce.texts import fill, section_text, table_html, texts

_PAGE = "report.html"
_FIRST = "claims"
"""The verdicts stand above the rest, which is in the order of the paper."""


def reproduce_paper(
    keys: list[str],
    directory: Path,
    *,
    replications: int | None = None,
    workers: int | None = None,
    fresh: bool = False,
    watch: OnStep = lambda _: None,
) -> Path:
    """Run the experiments of the paper's figures and write them on one page.

    The page also shows what earlier runs have left in the directory, with any number of
    replications, as long as the same sources made it.

    Parameters
    ----------
    keys : list of str
        Of `fedbandits.reproduce.parts.SECTIONS`, such as "fig3"; all of them if empty.
    directory : Path
        Where the page and a folder for every experiment go.
    replications : int, optional
        Instead of the files'; parts without a file take at most so many instead of their own.
    workers : int, optional
        Processes; all cores by default.
    fresh : bool
        Make what is asked for even if an earlier run has left it.
    watch : callable
        Told what is being made, how far it is and how long the rest may take.

    Returns
    -------
    Path
        Of the page.
    """
    for key in keys:
        if key not in SECTIONS:
            hint = nearest(key, SECTIONS)
            raise InputError("", f'"{key}" is not a part of the reproduction; {hint}')
    check_output(directory)
    if (directory / _PAGE).is_dir():
        raise InputError(
            "--out", f"{directory / _PAGE} is a directory; move it, or name another one"
        )
    wanted = [part for part in PARTS.values() if part.asked in keys or not keys]
    steps = Steps({part.key: part.seconds(replications) for part in wanted}, watch)
    # What earlier runs have left goes on the page as well; what is asked for takes its place.
    left = {part.key: part.find(directory) for part in PARTS.values() if part not in wanted}
    made = {key: kept for key, kept in left.items() if kept is not None}
    for part in wanted:
        with steps.part(part.key, replications=part.replications(replications)) as step:
            kept = part.get(
                directory,
                games=replications,
                workers=workers,
                fresh=fresh,
                progress=step.progress,
            )
            made[part.key], step.reused = kept, kept.reused
    shown = [
        SECTIONS[key]
        for key in dict.fromkeys((_FIRST, *SECTIONS))
        if all(part.key in made for part in SECTIONS[key])
    ]
    made = {part.key: made[part.key] for parts in shown for part in parts}
    made = {key: PARTS[key].complete(directory, made) for key in made}
    with open_output(directory) as staging:
        (staging / _PAGE).write_text(reproduction_page(shown, made), encoding="utf-8")
    return directory / _PAGE


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
    shown = []
    for parts in sections:
        text = "\n".join(part.section(made[part.key]) for part in parts)
        shown.append((parts[0].heading_of(made[parts[0].key]), text))
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
    counts = [
        made[key].table["summary"]["spec"]["replications"]
        for key in ("fig3", "fig4", "fig5")
        if key in made
    ]
    known["replications"] = listed(f"{n:,}" for n in counts) if counts else ""
    rows = {
        with_subscripts(group["name"]): [
            {**row, "here": fill(row["here"], known)} for row in group["rows"]
        ]
        for group in texts("tables")["settings"]["of"]
        if any(f"fig{number}" in made for number in group["figures"])
    }
    tested = " What the paper says of its curves is tested sentence by sentence."
    values = {
        "settings": table_html("settings", rows) if rows else "",
        "tested": tested if _FIRST in made else "",
    }
    return fill(section_text("introduction"), values)
