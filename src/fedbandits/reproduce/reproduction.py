"""All of it: run what is asked for, write the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedbandits.errors import InputError, nearest
from fedbandits.experiments.output import open_output
from fedbandits.reproduce.catalogue import (
    CLAIMS,
    FIGURES,
    MISRANKING,
    MOVIELENS,
    PARTS,
    SCALING,
    THEORY,
    paper_experiment,
)
from fedbandits.reproduce.claims import (
    MANY,
    claims_fingerprint,
    claims_replications,
    judge,
    measure,
)
from fedbandits.reproduce.drawn import Drawn, write_drawn
from fedbandits.reproduce.misranking import misranking_figure, misranking_table
from fedbandits.reproduce.page import reproduction_page
from fedbandits.reproduce.real_data import (
    real_data_fingerprint,
    real_data_replications,
    real_data_table,
)
from fedbandits.reproduce.run import Reproduced, reproduce_experiment
from fedbandits.reproduce.scaling import (
    scaling_figure,
    scaling_fingerprint,
    scaling_replications,
    scaling_table,
)
from fedbandits.reproduce.steps import Steps, Watch, cost_of
from fedbandits.reproduce.theory_tables import (
    theory_fingerprint,
    theory_replications,
    theory_tables,
)
from fedbandits.simulation.simulator import Progress


def reproduce_paper(
    keys: list[str],
    directory: Path,
    *,
    replications: int | None = None,
    workers: int | None = None,
    fresh: bool = False,
    watch: Watch = lambda _: None,
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
    watch : callable
        Told what is being made, how far it is and how long the rest may take.

    Returns
    -------
    Path
        Of the page.
    """
    for key in keys:
        if key not in PARTS:
            raise InputError("", f'"{key}" is not a part of the paper; {nearest(key, PARTS)}')
    wanted = [part for part in PARTS if part in keys or not keys]
    # A quick look at the figures is a quick look at the rest.
    scale = 1.0 if replications is None else min(1.0, replications / MANY)
    steps = Steps(_costs(wanted, replications, scale), watch)
    made: dict[str, Reproduced] = {}
    drawn: dict[str, Drawn] = {}
    tables: dict[str, Any] = {}
    ways = _ways(made, scale, workers)
    for part in wanted:
        if part in FIGURES:
            for name in FIGURES[part].experiments:
                with steps.part(name, replications=_games(name, replications)) as step:
                    made[name] = reproduce_experiment(
                        name,
                        directory,
                        replications=replications,
                        workers=workers,
                        fresh=fresh,
                        progress=step.progress,
                    )
                    step.reused = made[name].reused
        elif part == MISRANKING:
            with steps.part(part):
                points = misranking_table()
                figure = misranking_figure(points)
                drawn[part] = write_drawn(points, figure, directory / part, "misranking")
        else:
            with steps.part(part, replications=ways[part].replications(scale)) as step:
                tables[part], step.reused = _kept(
                    directory / f"{part}.json", ways[part], step.progress, fresh=fresh
                )
                if part == SCALING:
                    figure = scaling_figure(tables[part])
                    drawn[part] = write_drawn(tables[part], figure, directory / part, part)
    page = reproduction_page(
        [FIGURES[part] for part in wanted if part in FIGURES],
        made,
        misranking=drawn.get(MISRANKING),
        movielens=tables.get(MOVIELENS),
        theory=tables.get(THEORY),
        scaling=drawn.get(SCALING),
        claims=tables.get(CLAIMS),
    )
    with open_output(directory) as staging:
        (staging / "report.html").write_text(page, encoding="utf-8")
    return directory / "report.html"


def _costs(parts: list[str], replications: int | None, scale: float) -> dict[str, float]:
    """Return about how many seconds everything takes that is made for these parts, in order."""
    costs = {}
    for part in parts:
        if part in FIGURES:
            for name in FIGURES[part].experiments:
                usual = paper_experiment(name).replications
                costs[name] = cost_of(name, (replications or usual) / usual)
        elif part == MOVIELENS and not real_data_replications(scale):
            costs[part] = cost_of(part, 0.0)
        else:
            costs[part] = cost_of(part, scale)
    return costs


def _games(name: str, replications: int | None) -> int:
    """Return how many replications an experiment has, over all of its variants."""
    experiment = paper_experiment(name)
    return (replications or experiment.replications) * len(experiment.variants)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """How a table is made: what from, by what, and with how many replications."""

    made_from: Callable[[], str]
    make: Callable[[Progress], Any]
    replications: Callable[[float], int]


def _ways(made: Mapping[str, Reproduced], scale: float, workers: int | None) -> dict[str, _Way]:
    """Return how tables are made, some from what has been made until then."""
    return {
        MOVIELENS: _Way(
            made_from=lambda: real_data_fingerprint(scale),
            make=lambda progress: real_data_table(scale=scale, workers=workers, progress=progress),
            replications=real_data_replications,
        ),
        THEORY: _Way(
            made_from=lambda: theory_fingerprint(made, scale),
            make=lambda progress: theory_tables(
                made, scale=scale, workers=workers, progress=progress
            ),
            replications=theory_replications,
        ),
        SCALING: _Way(
            made_from=lambda: scaling_fingerprint(scale),
            make=lambda progress: scaling_table(scale=scale, workers=workers, progress=progress),
            replications=scaling_replications,
        ),
        CLAIMS: _Way(
            made_from=lambda: claims_fingerprint(scale),
            make=lambda progress: judge(measure(scale=scale, workers=workers, progress=progress)),
            replications=claims_replications,
        ),
    }


def _kept(file: Path, way: _Way, progress: Progress, *, fresh: bool) -> tuple[Any, bool]:
    """Return what a JSON file holds if it was made from the same, else make and write it.

    Returns
    -------
    found, reused
        What was made, and whether an earlier run had made it.
    """
    made_from = way.made_from()
    if not fresh:
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
            if found["made_from"] == made_from:
                return found["table"], True
        except (OSError, ValueError, KeyError, TypeError):
            pass
    with open_output(file.parent) as staging:
        table = way.make(progress)
        text = json.dumps({"made_from": made_from, "table": table}, indent=2, ensure_ascii=False)
        (staging / file.name).write_text(text + "\n", encoding="utf-8")
    return table, False
