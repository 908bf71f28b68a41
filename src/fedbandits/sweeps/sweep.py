"""A sweep: the experiment of a file under many settings of some of its keys."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedbandits.errors import InputError, SeveralMistakesError
from fedbandits.experiments.experiment import Experiment
from fedbandits.experiments.files import defaults_of_file, read_experiment
from fedbandits.plugins import load_tables, with_sources
from fedbandits.sweeps.grid import Combine, SweptKey, read_grid
from fedbandits.sweeps.keys import (
    can_be_swept,
    check_apart,
    check_keys,
    is_choice,
    paths_of,
    reaches,
    short_names,
    with_value,
)

MOST_SETTINGS = 1_000_000
"""More settings are played only if the caller allows it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sweep:
    """What a file with a ``[sweep]`` table says.

    Settings are numbered from 0; of crossed keys the last one changes fastest.

    Parameters
    ----------
    tables : mapping
        The file without its sweep.
    axes : dict of str to SweptKey
        The keys that vary.
    combine : {"cross", "zip"}
        How they vary together.

    Examples
    --------
    >>> sweep = read_sweep({
    ...     "title": "demo",
    ...     "horizon": 10_000,
    ...     "problem": {
    ...         "model": "approximate",
    ...         "means": [0.5, 0.9],
    ...         "noise": {"law": "gaussian", "sigma": 0.5},
    ...         "spread": {"law": "gaussian", "sigma": 0.1},
    ...     },
    ...     "variants": [{"algorithm": "fed2-ucb", "pulls": "10", "admissions": "2^p"}],
    ...     "sweep": {"problem.spread.sigma": [0.1, 0.2], "variants.pulls": ["10", "20", "30"]},
    ... })
    >>> len(sweep), sweep.label(4)
    (6, 'spread.sigma = 0.2, pulls = 20')
    >>> sweep.experiment(4).variants[0].problem.spread_proxy
    0.2
    """

    tables: Mapping[str, Any]
    axes: dict[str, SweptKey]
    combine: Combine
    # What every key is set at: worked out once.
    _paths: dict[str, list[tuple[str | int, ...]]]

    def __len__(self) -> int:
        """Return how many settings there are."""
        sizes = [len(axis.values) for axis in self.axes.values()]
        return sizes[0] if self.combine == "zip" else math.prod(sizes)

    @property
    def title(self) -> str:
        """What tables and figures are headed with."""
        return str(self.tables["title"])

    @property
    def keys(self) -> list[str]:
        """The keys that vary."""
        return list(self.axes)

    @property
    def conditions(self) -> list[str]:
        """Those of them that say what is played; the others are choices."""
        return [key for key in self.keys if not is_choice(key)]

    def keys_of(self, variant: int, problem: str) -> list[str]:
        """Return the keys that one variant on one problem has: others change nothing about it."""
        return [
            key
            for key, paths in self._paths.items()
            if any(reaches(path, variant, problem) for path in paths)
        ]

    def places(self, number: int) -> dict[str, int]:
        """Return which of its values every key has in a setting."""
        if self.combine == "zip":
            return dict.fromkeys(self.axes, number)
        sizes = [len(axis.values) for axis in self.axes.values()]
        return dict(zip(self.axes, map(int, np.unravel_index(number, sizes)), strict=True))

    def values(self, number: int) -> dict[str, Any]:
        """Return the value of every key in a setting."""
        return {key: self.axes[key].values[place] for key, place in self.places(number).items()}

    def texts(self, number: int) -> dict[str, str]:
        """Return the value of every key in a setting, as labels have it."""
        return {key: self.axes[key].texts[place] for key, place in self.places(number).items()}

    def label(self, number: int, keys: Sequence[str] | None = None) -> str:
        """Return what a setting is called: some keys or all, each with its value."""
        names = short_names(self.keys)
        return ", ".join(
            f"{names[key]} = {text}"
            for key, text in self.texts(number).items()
            if keys is None or key in keys
        )

    def tables_of(self, number: int) -> dict[str, Any]:
        """Return the tables of the file in a setting."""
        tables: Any = self.tables
        for key, value in self.values(number).items():
            for path in self._paths[key]:
                tables = with_value(tables, path, value)
        return dict(tables)

    def experiment(self, number: int) -> Experiment:
        """Return the experiment of a setting; what is wrong with it is said with its label."""
        with self.located(number):
            return read_experiment(self.tables_of(number))

    @contextmanager
    def located(self, number: int) -> Iterator[None]:
        """Say in which setting a mistake is."""
        try:
            yield
        except InputError as error:
            setting = f" (setting: {self.label(number)})"
            said = [InputError(one.where, one.problem + setting) for one in error.each]
            raise SeveralMistakesError(*said) if len(said) > 1 else said[0] from None

    def described(self) -> dict[str, Any]:
        """Return the tables of a file that says the same, with what it leaves to defaults."""
        grid = {key: axis.values for key, axis in self.axes.items()}
        sweep = {"combine": self.combine, **grid}
        usual = {key: one for key, one in defaults_of_file().items() if can_be_swept(key)}
        return {**usual, **self.tables, "sweep": sweep}


def load_sweep(
    path: str | Path,
    *,
    most: int | None = MOST_SETTINGS,
    plugins: Iterable[str | Path] = (),
) -> Sweep:
    """Return the sweep of a TOML file, or of the summary.json of one.

    Parameters
    ----------
    path : path
        Of an experiment file with a ``[sweep]`` table.
    most : int, optional
        More settings are refused; None takes as many as a sweep can have.
    plugins : iterable of paths
        Plugin files besides those that the file lists.
    """
    return read_sweep(load_tables(path, plugins=plugins), most=most)


def read_sweep(tables: Mapping[str, Any], *, most: int | None = MOST_SETTINGS) -> Sweep:
    """Return the sweep that the tables of a file describe.

    Parameters
    ----------
    tables, most
        Tables of the file, and more settings than which are refused.
    """
    table = tables.get("sweep")
    if not isinstance(table, Mapping):
        raise InputError(
            "sweep",
            'is missing; name a key and its values, e.g. [sweep] "variants.pulls" = ["10", "50"]',
        )
    base = with_sources({key: tables[key] for key in tables if key != "sweep"}, Path())
    if not isinstance(base.get("variants"), list) or "title" not in base:
        read_experiment(base)  # says what is wrong
    found, combine = read_grid(table, most=most)
    axes = {axis.key: axis for axis in found}
    check_keys(list(axes), base)
    paths = {key: paths_of(key, base) for key in axes}
    check_apart(paths)
    sweep = Sweep(tables=base, axes=axes, combine=combine, _paths=paths)
    sweep.experiment(0)
    return sweep
