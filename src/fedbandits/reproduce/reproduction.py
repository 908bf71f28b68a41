"""All of it: run what is asked for, write the page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedbandits.errors import InputError, nearest
from fedbandits.experiments.output import open_output
from fedbandits.reproduce import (
    claims_page,
    index_costs,
    misranking,
    privacy_costs,
    real_data,
    rule_costs,
    scaling,
    theory_page,
)
from fedbandits.reproduce.catalogue import FIGURES, PARTS, THEORY, paper_experiment
from fedbandits.reproduce.drawn import kept_image
from fedbandits.reproduce.page import reproduction_page
from fedbandits.reproduce.part import Part
from fedbandits.reproduce.run import (
    Reproduced,
    read_experiment_on_disk,
    reproduce_experiment,
)
from fedbandits.reproduce.steps import OnStep, Steps, cost_of
from fedbandits.reproduce.theory_tables import bounds_table
from fedbandits.simulation.simulator import Progress

COMPUTED_PARTS: dict[str, Part] = {
    module.PART.key: module.PART
    for module in (
        *(real_data, misranking, theory_page, scaling, rule_costs, index_costs, privacy_costs),
        claims_page,
    )
}
"""The parts that are no figure of regret curves, by their keys."""


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
    steps = Steps(_costs(wanted, replications), watch)
    # What earlier runs have left goes on the page as well; what is asked for takes its place.
    made = _experiments_on_disk(directory, [part for part in FIGURES if part not in wanted])
    tables = _tables_on_disk(directory, [key for key in COMPUTED_PARTS if key not in wanted])
    images: dict[str, dict[str, bytes]] = {}
    for key in wanted:
        if key in FIGURES:
            for name in FIGURES[key].experiments:
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
            part = COMPUTED_PARTS[key]
            with steps.part(key, replications=part.replications(replications)) as step:
                tables[key] = _kept(
                    directory, part, replications, workers, step.progress, fresh=fresh
                )
                step.reused = tables[key].reused
                images[key] = _draw(directory, part, tables[key])
    if THEORY in tables:
        tables[THEORY] = _with_bounds(directory, tables[THEORY], made)
    sections, live = {}, {}
    for key, kept in tables.items():
        part = COMPUTED_PARTS[key]
        shown = images[key] if key in images else _draw(directory, part, kept)
        sections[key] = (part.heading, part.section(kept.table, shown))
        if part.live is not None:
            live[key] = part.live(kept.table)
    page = reproduction_page(
        [figure for figure in FIGURES.values() if all(name in made for name in figure.experiments)],
        made,
        sections,
        live,
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


def _costs(parts: list[str], replications: int | None) -> dict[str, float]:
    """Return about how many seconds everything takes that is made for these parts, in order."""
    costs = {}
    for part in parts:
        if part in FIGURES:
            for name in FIGURES[part].experiments:
                usual = paper_experiment(name).replications
                costs[name] = cost_of(name, (replications or usual) / usual)
        else:
            count = COMPUTED_PARTS[part].replications
            costs[part] = cost_of(part, count(replications) / max(1, count(None)))
    return costs


def _games(name: str, replications: int | None) -> int:
    """Return how many replications an experiment has, over all of its variants."""
    experiment = paper_experiment(name)
    return (replications or experiment.replications) * len(experiment.variants)


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
    directory: Path,
    part: Part,
    replications: int | None,
    workers: int | None,
    progress: Progress,
    *,
    fresh: bool,
) -> _Kept:
    """Return what a JSON file holds if it was made from the same, else make and write it."""
    made_from = part.fingerprint(replications)
    if not fresh:
        found = _on_disk(directory, part)
        if found is not None and found.made_from == made_from:
            return found
    # Said before the work is done, not after.
    with open_output(directory):
        pass
    made = _Kept(
        made_from=made_from,
        replications=replications,
        table=part.make(games=replications, workers=workers, progress=progress),
        reused=False,
    )
    made.write(_file(directory, part.key))
    return made


def _file(directory: Path, key: str) -> Path:
    return directory / f"{key}.json"


def _on_disk(directory: Path, part: Part) -> _Kept | None:
    """Return what a JSON file holds, if today's sources and data would give the same."""
    try:
        found = json.loads(_file(directory, part.key).read_text(encoding="utf-8"))
        if found["made_from"] != part.fingerprint(found["replications"]):
            return None
        return _Kept(**found, reused=True)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _tables_on_disk(directory: Path, keys: list[str]) -> dict[str, _Kept]:
    """Return the tables that earlier runs have left."""
    found = {key: _on_disk(directory, COMPUTED_PARTS[key]) for key in keys}
    return {key: kept for key, kept in found.items() if kept is not None}


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
    whole.write(_file(directory, THEORY))
    return whole


def _draw(directory: Path, part: Part, kept: _Kept) -> dict[str, bytes]:
    """Return the images of a part; draw and write what is not there yet.

    Several drawings have a folder each.
    """
    folder = directory / part.key
    images = {
        name: kept_image(
            drawing,
            kept.table,
            folder / name if len(part.drawings) > 1 else folder,
            name,
            made_from=kept.made_from,
            fresh=not kept.reused,
        )
        for name, drawing in part.drawings.items()
    }
    texts = part.texts(kept.table)
    if texts:
        with open_output(folder) as staging:
            for name, text in texts.items():
                (staging / name).write_text(text, encoding="utf-8")
    return {name: png for name, png in images.items() if png is not None}
