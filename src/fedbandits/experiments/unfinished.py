"""What an interrupted run has finished: kept beside its results, and not played again."""

from __future__ import annotations

import shutil
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedbandits.experiments.describe import describe_experiment
from fedbandits.experiments.fingerprint import code_of, hashed
from fedbandits.simulation.game import PlayedGames, array_names

if TYPE_CHECKING:
    from fedbandits.experiments.experiment import Experiment

FOLDER = "unfinished"
"""In the directory of the results, until all of them are there."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The folder in which games of finished variants wait for those of the others.

    Parameters
    ----------
    directory : Path
        Where the results will be.
    """

    directory: Path

    @property
    def folder(self) -> Path:
        """Where the games are."""
        return self.directory / FOLDER

    def read(self, experiment: Experiment) -> dict[int, PlayedGames]:
        """Return the games of those variants that an earlier run has finished."""
        found = {}
        for number in range(len(experiment.variants)) if self.folder.exists() else ():
            try:
                with np.load(self._file(experiment, number)) as arrays:
                    found[number] = PlayedGames(**{name: arrays[name] for name in array_names()})
            except (OSError, KeyError, ValueError, zipfile.BadZipFile):
                continue
        return found

    def keep(self, experiment: Experiment, number: int, games: PlayedGames) -> None:
        """Write the games of a variant that has just finished."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self._file(experiment, number)
        begun = file.with_suffix(".part")
        with begun.open("wb") as opened:
            np.savez(opened, **{name: getattr(games, name) for name in array_names()})
        begun.replace(file)

    def clear(self) -> None:
        """Remove the folder: all results are there."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _file(self, experiment: Experiment, number: int) -> Path:
        """Return where a variant is kept: under the hash of all that its games are made from."""
        variant, (_, fidelity) = experiment.variants[number], experiment.built[number]
        alone = describe_experiment(replace(experiment, title="", variants=[variant]))
        code = code_of((variant.algorithm, variant.problem))
        return self.folder / f"{hashed([alone, fidelity.value, code])}.npz"
