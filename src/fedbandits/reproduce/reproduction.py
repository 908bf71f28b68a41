"""All of it: run what is asked for, write the page."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from fedbandits.errors import InputError, nearest
from fedbandits.experiments.output import open_output
from fedbandits.reproduce.catalogue import FIGURES, chosen_figures
from fedbandits.reproduce.misranking import misranking_table
from fedbandits.reproduce.page import reproduction_page
from fedbandits.reproduce.run import Reproduced, reproduce_experiment

MISRANKING = "fig7"


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
        "fig3" to "fig8"; all of them when empty.
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
    known = [*FIGURES, MISRANKING]
    for key in keys:
        if key not in known:
            raise InputError("", f'"{key}" is not a figure of the paper; {nearest(key, known)}')
    figures = (
        chosen_figures([key for key in keys if key != MISRANKING]) if keys != [MISRANKING] else []
    )
    names = [name for figure in figures for name in figure.experiments]
    made: dict[str, Reproduced] = {}
    begin = time.monotonic()
    for number, name in enumerate(names, start=1):
        made[name] = reproduce_experiment(
            name, directory, replications=replications, workers=workers, fresh=fresh
        )
        passed = time.monotonic() - begin
        left = passed / number * (len(names) - number)
        how = "as it was" if made[name].reused else "done"
        say(f"{name}: {how} ({number} of {len(names)}, {passed:.0f} s, about {left:.0f} s left)")
    misranking = misranking_table() if not keys or MISRANKING in keys else None
    page = reproduction_page(figures, made, misranking)
    with open_output(directory) as output:
        (output.staging / "report.html").write_text(page, encoding="utf-8")
    return directory / "report.html"
