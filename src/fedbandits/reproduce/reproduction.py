"""All of it: run what is asked for, write the page."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedbandits.errors import InputError, nearest
from fedbandits.experiments.output import open_output
from fedbandits.reproduce.catalogue import FIGURES
from fedbandits.reproduce.claims import MANY, claims_fingerprint, judge, measure
from fedbandits.reproduce.drawn import write_drawn
from fedbandits.reproduce.misranking import misranking_figure, misranking_table
from fedbandits.reproduce.page import reproduction_page
from fedbandits.reproduce.real_data import real_data_fingerprint, real_data_table
from fedbandits.reproduce.run import Reproduced, reproduce_experiment
from fedbandits.reproduce.scaling import scaling_figure, scaling_fingerprint, scaling_table
from fedbandits.reproduce.theory_tables import theory_fingerprint, theory_tables

MISRANKING = "fig7"
MOVIELENS = "movielens"
THEORY = "theory"
SCALING = "scaling"
CLAIMS = "claims"
COMPUTED = (MISRANKING, MOVIELENS, THEORY, SCALING, CLAIMS)
"""The parts that are no figure of regret curves."""


def reproduce_paper(
    keys: list[str],
    directory: Path,
    *,
    replications: int | None = None,
    workers: int | None = None,
    fresh: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Path:
    """Run the experiments of the paper's figures and write them on one page.

    Parameters
    ----------
    keys : list of str
        "fig3" to "fig8", "movielens", "theory", "scaling" and "claims"; all of them when
        empty.
    directory : Path
        Where the page and a folder for every experiment go.
    replications, workers, fresh
        As in `reproduce_experiment`.
    say : callable
        Told what is done, line by line.

    Returns
    -------
    Path
        Of the page.
    """
    known = [*FIGURES, *COMPUTED]
    for key in keys:
        if key not in known:
            raise InputError("", f'"{key}" is not a part of the paper; {nearest(key, known)}')
    wanted = keys or known
    figures = [figure for key, figure in FIGURES.items() if key in wanted]
    names = [name for figure in figures for name in figure.experiments]
    report = _Steps(len(names) + sum(part in wanted for part in COMPUTED), say)
    made: dict[str, Reproduced] = {}
    for name in names:
        made[name] = reproduce_experiment(
            name, directory, replications=replications, workers=workers, fresh=fresh
        )
        report.done(name, reused=made[name].reused)
    misranking = None
    if MISRANKING in wanted:
        points = misranking_table()
        figure_7 = misranking_figure(points)
        misranking = write_drawn(points, figure_7, directory / MISRANKING, "misranking")
        report.done(MISRANKING, reused=False)
    # A quick look at the figures is a quick look at the rest.
    scale = 1.0 if replications is None else min(1.0, replications / MANY)
    movielens = None
    if MOVIELENS in wanted:
        movielens, reused = _kept(
            directory / "movielens.json",
            real_data_fingerprint(scale),
            lambda: real_data_table(scale=scale, workers=workers),
            fresh=fresh,
        )
        report.done(MOVIELENS, reused=reused)
    theory = None
    if THEORY in wanted:
        theory, reused = _kept(
            directory / "theory.json",
            theory_fingerprint(made, scale),
            lambda: theory_tables(made, scale=scale, workers=workers),
            fresh=fresh,
        )
        report.done(THEORY, reused=reused)
    scaling = None
    if SCALING in wanted:
        growth, reused = _kept(
            directory / "scaling.json",
            scaling_fingerprint(scale),
            lambda: scaling_table(scale=scale, workers=workers),
            fresh=fresh,
        )
        scaling = write_drawn(growth, scaling_figure(growth), directory / SCALING, "scaling")
        report.done(SCALING, reused=reused)
    claims = None
    if CLAIMS in wanted:
        claims, reused = _kept(
            directory / "claims.json",
            claims_fingerprint(scale),
            lambda: judge(measure(workers=workers, scale=scale)),
            fresh=fresh,
        )
        report.done(CLAIMS, reused=reused)
    page = reproduction_page(
        figures,
        made,
        misranking=misranking,
        movielens=movielens,
        theory=theory,
        scaling=scaling,
        claims=claims,
    )
    with open_output(directory) as staging:
        (staging / "report.html").write_text(page, encoding="utf-8")
    return directory / "report.html"


class _Steps:
    """Says what is done, and how long the rest may take."""

    def __init__(self, steps: int, say: Callable[[str], None]) -> None:
        self.steps = steps
        self.say = say
        self.finished = 0
        self.begin = time.monotonic()

    def done(self, name: str, *, reused: bool) -> None:
        self.finished += 1
        passed = time.monotonic() - self.begin
        left = passed / self.finished * (self.steps - self.finished)
        how = "as it was" if reused else "done"
        step = f"{self.finished} of {self.steps}"
        self.say(f"{name}: {how} ({step}, {passed:.0f} s, about {left:.0f} s left)")


def _kept(file: Path, made_from: str, make: Callable[[], Any], *, fresh: bool) -> tuple[Any, bool]:
    """Return what a JSON file holds if it was made from the same, else make and write it.

    Returns
    -------
    found, reused
        What was made, and whether an earlier run had made it.
    """
    if not fresh:
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
            if found["made_from"] == made_from:
                return found["table"], True
        except (OSError, ValueError, KeyError, TypeError):
            pass
    with open_output(file.parent) as staging:
        table = make()
        text = json.dumps({"made_from": made_from, "table": table}, indent=2, ensure_ascii=False)
        (staging / file.name).write_text(text + "\n", encoding="utf-8")
    return table, False
