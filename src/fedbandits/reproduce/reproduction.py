"""All of it: run what is asked for, write the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from fedbandits.errors import InputError, nearest
from fedbandits.experiments.output import open_output
from fedbandits.experiments.tables import Table
from fedbandits.reproduce.catalogue import (
    CLAIMS,
    FIGURES,
    INDEX_RULES,
    MISRANKING,
    MOVIELENS,
    PARTS,
    PRIVACY,
    RULES,
    SCALING,
    THEORY,
    paper_experiment,
)
from fedbandits.reproduce.claims import (
    claims_fingerprint,
    claims_replications,
    judge,
    measure,
)
from fedbandits.reproduce.drawn import Drawn, kept_drawing
from fedbandits.reproduce.index_costs import (
    growth_figure,
    index_costs_fingerprint,
    index_costs_markdown,
    index_costs_replications,
    index_costs_tables,
    tails_figure,
)
from fedbandits.reproduce.misranking import (
    misranking_figure,
    misranking_fingerprint,
    misranking_table,
)
from fedbandits.reproduce.page import reproduction_page
from fedbandits.reproduce.privacy_costs import (
    privacy_costs_figure,
    privacy_costs_fingerprint,
    privacy_costs_replications,
    privacy_costs_table,
)
from fedbandits.reproduce.real_data import (
    can_be_drawn,
    order_figure,
    order_table,
    real_data_fingerprint,
    real_data_replications,
    real_data_table,
)
from fedbandits.reproduce.rule_costs import (
    rule_costs_figure,
    rule_costs_fingerprint,
    rule_costs_replications,
    rule_costs_table,
)
from fedbandits.reproduce.run import (
    Reproduced,
    read_experiment_on_disk,
    reproduce_experiment,
)
from fedbandits.reproduce.scaling import (
    scaling_figure,
    scaling_fingerprint,
    scaling_replications,
    scaling_table,
)
from fedbandits.reproduce.steps import Steps, Watch, cost_of
from fedbandits.reproduce.theory_tables import (
    bounds_table,
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

    The page shows what earlier runs have left in the directory, too, as long as the same sources
    made it, with however many replications.

    Parameters
    ----------
    keys : list of str
        "fig3" to "fig8", "movielens", "theory", "scaling", "rules", "index-rules", "privacy" and
        "claims"; all of them when empty.
    directory : Path
        Where the page and a folder for every experiment go.
    replications : int, optional
        Instead of the files'; parts without a file take at most so many instead of their own.
    workers, fresh
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
    _check_output(directory)
    wanted = [part for part in PARTS if part in keys or not keys]
    ways = _ways(workers)
    steps = Steps(_costs(wanted, ways, replications), watch)
    # What earlier runs have left goes on the page as well; what is asked for takes its place.
    made = _experiments_on_disk(directory, [part for part in FIGURES if part not in wanted])
    tables = _tables_on_disk(
        directory, {part: way for part, way in ways.items() if part not in wanted}
    )
    drawn: dict[str, Drawn] = {}
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
        else:
            way = ways[part]
            with steps.part(part, replications=way.replications(replications)) as step:
                tables[part] = _kept(
                    directory / f"{part}.json", way, replications, step.progress, fresh=fresh
                )
                step.reused = tables[part].reused
                if part == THEORY:
                    tables[part] = _with_bounds(directory, tables[part], made)
                if part in _DRAWN:
                    drawn[part] = _draw(directory, part, tables[part])
    if THEORY in tables and THEORY not in wanted:
        tables[THEORY] = _with_bounds(directory, tables[THEORY], made)
    for part in _DRAWN:
        if part in tables and part not in drawn:
            drawn[part] = _draw(directory, part, tables[part])
    _draw_order(directory, tables.get(MOVIELENS))
    index_figures = _draw_index_rules(directory, tables.get(INDEX_RULES))
    found = {part: kept.table for part, kept in tables.items()}
    page = reproduction_page(
        [figure for figure in FIGURES.values() if all(name in made for name in figure.experiments)],
        made,
        misranking=drawn.get(MISRANKING),
        movielens=found.get(MOVIELENS),
        theory=found.get(THEORY),
        scaling=drawn.get(SCALING),
        rules=drawn.get(RULES),
        index_rules=found.get(INDEX_RULES),
        index_figures=index_figures,
        privacy=drawn.get(PRIVACY),
        claims=found.get(CLAIMS),
    )
    with open_output(directory) as staging:
        (staging / _PAGE).write_text(page, encoding="utf-8")
    return directory / _PAGE


_PAGE = "report.html"


def _check_output(directory: Path) -> None:
    """Refuse, before anything is made, a place where the page cannot be written."""
    if directory.exists() and not directory.is_dir():
        raise InputError("--out", f"{directory} is not a directory; name another one")
    if (directory / _PAGE).is_dir():
        raise InputError(
            "--out", f"{directory / _PAGE} is a directory; move it, or name another one"
        )


def _costs(
    parts: list[str], ways: Mapping[str, _Way], replications: int | None
) -> dict[str, float]:
    """Return about how many seconds everything takes that is made for these parts, in order."""
    costs = {}
    for part in parts:
        if part in FIGURES:
            for name in FIGURES[part].experiments:
                usual = paper_experiment(name).replications
                costs[name] = cost_of(name, (replications or usual) / usual)
        else:
            count = ways[part].replications
            costs[part] = cost_of(part, count(replications) / max(1, count(None)))
    return costs


def _games(name: str, replications: int | None) -> int:
    """Return how many replications an experiment has, over all of its variants."""
    experiment = paper_experiment(name)
    return (replications or experiment.replications) * len(experiment.variants)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """How a table is made: what from, by what, and with how many replications in all."""

    made_from: Callable[[int | None], str]
    make: Callable[[int | None, Progress], Any]
    replications: Callable[[int | None], int]


def _ways(workers: int | None) -> dict[str, _Way]:
    """Return how tables are made, given how many replications were asked for."""
    return {
        MOVIELENS: _Way(
            made_from=real_data_fingerprint,
            make=lambda games, progress: real_data_table(
                games=games, workers=workers, progress=progress
            ),
            replications=real_data_replications,
        ),
        MISRANKING: _Way(
            made_from=lambda _: misranking_fingerprint(),
            make=lambda _, __: misranking_table(),
            replications=lambda _: 0,
        ),
        THEORY: _Way(
            made_from=theory_fingerprint,
            make=lambda games, progress: theory_tables(
                games=games, workers=workers, progress=progress
            ),
            replications=theory_replications,
        ),
        SCALING: _Way(
            made_from=scaling_fingerprint,
            make=lambda games, progress: scaling_table(
                games=games, workers=workers, progress=progress
            ),
            replications=scaling_replications,
        ),
        RULES: _Way(
            made_from=rule_costs_fingerprint,
            make=lambda games, progress: rule_costs_table(
                games=games, workers=workers, progress=progress
            ),
            replications=rule_costs_replications,
        ),
        INDEX_RULES: _Way(
            made_from=index_costs_fingerprint,
            make=lambda games, progress: index_costs_tables(
                games=games, workers=workers, progress=progress
            ),
            replications=index_costs_replications,
        ),
        PRIVACY: _Way(
            made_from=privacy_costs_fingerprint,
            make=lambda games, progress: privacy_costs_table(
                games=games, workers=workers, progress=progress
            ),
            replications=privacy_costs_replications,
        ),
        CLAIMS: _Way(
            made_from=claims_fingerprint,
            make=lambda games, progress: judge(
                measure(games=games, workers=workers, progress=progress)
            ),
            replications=claims_replications,
        ),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """A table, what it was made from, and whether an earlier run had made it.

    ``replications`` is how many were asked for; a part has fewer where it has fewer by itself.
    """

    made_from: str
    replications: int | None
    table: Any
    reused: bool

    def write(self, file: Path) -> None:
        """Write it as JSON."""
        content = {
            "made_from": self.made_from,
            "replications": self.replications,
            "table": self.table,
        }
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        with open_output(file.parent) as staging:
            (staging / file.name).write_text(text + "\n", encoding="utf-8")


def _kept(
    file: Path, way: _Way, replications: int | None, progress: Progress, *, fresh: bool
) -> _Kept:
    """Return what a JSON file holds if it was made from the same, else make and write it."""
    made_from = way.made_from(replications)
    if not fresh:
        found = _on_disk(file, way)
        if found is not None and found.made_from == made_from:
            return found
    # Said before the work is done, not after.
    with open_output(file.parent):
        pass
    made = _Kept(
        made_from=made_from,
        replications=replications,
        table=way.make(replications, progress),
        reused=False,
    )
    made.write(file)
    return made


def _on_disk(file: Path, way: _Way) -> _Kept | None:
    """Return what a JSON file holds, if today's sources and data would give the same."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if found["made_from"] != way.made_from(found["replications"]):
            return None
        return _Kept(
            made_from=found["made_from"],
            replications=found["replications"],
            table=found["table"],
            reused=True,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _tables_on_disk(directory: Path, ways: Mapping[str, _Way]) -> dict[str, _Kept]:
    """Return the tables that earlier runs have left."""
    found = {part: _on_disk(directory / f"{part}.json", way) for part, way in ways.items()}
    return {part: kept for part, kept in found.items() if kept is not None}


def _experiments_on_disk(directory: Path, parts: list[str]) -> dict[str, Reproduced]:
    """Return the experiments of the figures of which earlier runs have left all."""
    made = {}
    for part in parts:
        found = {
            name: read_experiment_on_disk(name, directory) for name in FIGURES[part].experiments
        }
        whole = {name: one for name, one in found.items() if one is not None}
        if len(whole) == len(found):
            made.update(whole)
    return made


def _with_bounds(directory: Path, kept: _Kept, made: Mapping[str, Reproduced]) -> _Kept:
    """Return the tables of the theory with the bounds for what is on the page, on disk as well."""
    order = [name for figure in FIGURES.values() for name in figure.experiments if name in made]
    bounds = bounds_table({name: made[name] for name in order})
    if kept.table.get("bounds") == bounds:
        return kept
    whole = replace(kept, table={**kept.table, "bounds": bounds})
    whole.write(directory / f"{THEORY}.json")
    return whole


_DRAWN: dict[str, tuple[Callable[[Table], Figure], str]] = {
    MISRANKING: (misranking_figure, "misranking"),
    SCALING: (scaling_figure, "scaling"),
    RULES: (rule_costs_figure, "rules"),
    PRIVACY: (privacy_costs_figure, "privacy"),
}
"""How the tables are drawn that are figures, and what the files are called."""


def _draw(directory: Path, part: str, kept: _Kept) -> Drawn:
    draw, name = _DRAWN[part]
    return kept_drawing(
        kept.table,
        draw,
        directory / part,
        name,
        made_from=kept.made_from,
        fresh=not kept.reused,
    )


def _draw_order(directory: Path, kept: _Kept | None) -> None:
    """Draw how many users put the two best groups in order, if there is data of any."""
    data = [] if kept is None else [facts for facts in kept.table["data"] if can_be_drawn(facts)]
    if kept is not None and data:
        kept_drawing(
            order_table(data),
            lambda _: order_figure(data),
            directory / MOVIELENS,
            "order",
            made_from=kept.made_from,
            fresh=not kept.reused,
        )


def _draw_index_rules(directory: Path, kept: _Kept | None) -> dict[str, Drawn]:
    """Draw tails and growth of index rules, a folder each, and write all their tables to read."""
    if kept is None:
        return {}
    folder = directory / INDEX_RULES
    draws: dict[str, Callable[[Table], Figure]] = {"tails": tails_figure, "growth": growth_figure}
    drawn = {
        name: kept_drawing(
            kept.table[name],
            draw,
            folder / name,
            name,
            made_from=kept.made_from,
            fresh=not kept.reused,
        )
        for name, draw in draws.items()
    }
    with open_output(folder) as staging:
        text = index_costs_markdown(kept.table)
        (staging / "tables.md").write_text(text + "\n", encoding="utf-8")
    return drawn
