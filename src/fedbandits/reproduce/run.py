"""Run the experiments of the paper, once: what is unchanged is read back instead."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedbandits.experiments.fingerprint import hashed
from fedbandits.experiments.output import open_output, write_tables_and_figures
from fedbandits.experiments.tables import Table
from fedbandits.reproduce.catalogue import experiment_text, paper_experiment
from fedbandits.simulation.simulator import Progress

MARK = "made-from.txt"
"""Beside files that belong together: the hash of what they were made from, written last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduced:
    """The tables of an experiment of the paper, which are on disk as well.

    Parameters
    ----------
    name : str
        Of the experiment.
    summary : dict
        What summary.json holds.
    curves : Table
        What curves.parquet holds.
    image : bytes
        regret.png.
    reused : bool
        Whether an earlier run had made them.
    """

    name: str
    summary: dict[str, Any]
    curves: Table
    image: bytes
    reused: bool


def fingerprint(name: str, replications: int | None) -> str:
    """Return what the results of an experiment depend on, as a hash.

    Examples
    --------
    >>> fingerprint("fig4", None) == fingerprint("fig4", 7)
    False
    """
    return hashed([experiment_text(name), replications or paper_experiment(name).replications])


@contextmanager
def marked(folder: Path, made_from: str) -> Iterator[Path]:
    """Yield a staging folder whose files go to a folder that says what they were made from."""
    with open_output(folder) as staging:
        yield staging
        # Until all files are in place, none of another run is to be taken for one of this run.
        (folder / MARK).unlink(missing_ok=True)
    with open_output(folder) as staging:
        (staging / MARK).write_text(made_from + "\n", encoding="ascii")


def is_made_from(folder: Path, made_from: str) -> bool:
    """Return whether the files of a folder were made from this."""
    try:
        return (folder / MARK).read_text(encoding="ascii").strip() == made_from
    except (OSError, ValueError):
        return False


def reproduce_experiment(
    name: str,
    directory: Path,
    *,
    replications: int | None = None,
    workers: int | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
) -> Reproduced:
    """Run an experiment of the paper into a folder of its own, unless it is there already.

    Parameters
    ----------
    name : str
        Of the experiment; its folder has the same name.
    directory : Path
        Where the folder goes.
    replications : int, optional
        Instead of the file's.
    workers : int, optional
        Processes; all cores by default.
    fresh : bool
        Run it even if an earlier run is there.
    progress : callable, optional
        Called as replications are done.
    """
    folder = directory / name
    made_from = fingerprint(name, replications)
    if not fresh:
        found = _read(name, folder, made_from)
        if found is not None:
            return found
    experiment = paper_experiment(name)
    if replications is not None:
        experiment = replace(experiment, replications=replications)
    with marked(folder, made_from) as staging:
        results = experiment.run(workers=workers, progress=progress)
        images = write_tables_and_figures(results, staging)
    return Reproduced(
        name=name,
        summary=results.summary(),
        curves=results.curves(),
        image=images["regret.png"],
        reused=False,
    )


def read_experiment_on_disk(name: str, directory: Path) -> Reproduced | None:
    """Return what an earlier run left of an experiment, if today's sources would give the same.

    With however many replications it was made: its summary says so.

    Parameters
    ----------
    name : str
        Of the experiment; its folder has the same name.
    directory : Path
        Where the folder is.
    """
    folder = directory / name
    try:
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        made_from = fingerprint(name, int(summary["spec"]["replications"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return _read(name, folder, made_from)


def _read(name: str, folder: Path, made_from: str) -> Reproduced | None:
    """Return what an earlier run left, if it was made from the same and is all there."""
    import polars as pl  # noqa: PLC0415 - heavy, and only needed here

    if not is_made_from(folder, made_from):
        return None
    try:
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        curves = pl.read_parquet(folder / "curves.parquet").to_dict(as_series=False)
        png = (folder / "regret.png").read_bytes()
    except (OSError, ValueError, pl.exceptions.PolarsError):
        return None
    return Reproduced(name=name, summary=summary, curves=curves, image=png, reused=True)
