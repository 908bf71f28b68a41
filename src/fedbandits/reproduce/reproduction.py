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
from fedbandits.reproduce.claims import LEVEL, MANY, claims_fingerprint, judge, measure
from fedbandits.reproduce.misranking import misranking_table
from fedbandits.reproduce.page import reproduction_page
from fedbandits.reproduce.run import Reproduced, reproduce_experiment

MISRANKING = "fig7"
CLAIMS = "claims"


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
        "fig3" to "fig8" and "claims"; all of them when empty.
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
    known = [*FIGURES, MISRANKING, CLAIMS]
    for key in keys:
        if key not in known:
            raise InputError("", f'"{key}" is not a part of the paper; {nearest(key, known)}')
    wanted = keys or known
    figures = [figure for key, figure in FIGURES.items() if key in wanted]
    names = [name for figure in figures for name in figure.experiments]
    report = _Steps(len(names) + (MISRANKING in wanted) + (CLAIMS in wanted), say)
    made: dict[str, Reproduced] = {}
    for name in names:
        made[name] = reproduce_experiment(
            name, directory, replications=replications, workers=workers, fresh=fresh
        )
        report.done(name, reused=made[name].reused)
    misranking = None
    if MISRANKING in wanted:
        misranking = misranking_table()
        report.done(MISRANKING, reused=False)
    claims = None
    if CLAIMS in wanted:
        scale = 1.0 if replications is None else min(1.0, replications / MANY)
        claims, reused = _claims(directory, scale=scale, workers=workers, fresh=fresh)
        report.done(CLAIMS, reused=reused)
    page = reproduction_page(figures, made, misranking, claims)
    with open_output(directory) as output:
        (output.staging / "report.html").write_text(page, encoding="utf-8")
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


def _claims(
    directory: Path, *, scale: float, workers: int | None, fresh: bool
) -> tuple[list[dict[str, Any]], bool]:
    """Return the table of claims, and whether an earlier run had made it."""
    made_from = claims_fingerprint(scale)
    file = directory / "claims.json"
    if not fresh:
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
            if found["made_from"] == made_from:
                return list(found["claims"]), True
        except (OSError, ValueError, KeyError, TypeError):
            pass
    with open_output(directory) as output:
        claims = judge(measure(workers=workers, scale=scale))
        text = json.dumps({"made_from": made_from, "level": LEVEL, "claims": claims}, indent=2)
        (output.staging / "claims.json").write_text(text + "\n", encoding="utf-8")
    return claims, False
