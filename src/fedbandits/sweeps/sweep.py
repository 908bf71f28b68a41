"""A sweep: the experiment of a file under many settings of some of its keys."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedbandits.construct import key_of
from fedbandits.errors import InputError, Mistakes
from fedbandits.experiments.experiment import Experiment
from fedbandits.experiments.files import defaults_of_file, read_experiment
from fedbandits.plugins import load_tables, with_sources
from fedbandits.sweeps.grid import Combine, SweptKey, keys_in, read_grid
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
# If a setting is wrong, so many values of every key are read to report what is wrong with others.
_MOST_READ = 200


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
        """Say in which setting a mistake is, and which mistakes other values of the keys are."""
        mistakes = Mistakes()
        with self._labelled(mistakes, number):
            yield
        if mistakes.found:
            for other in self._with_each_value(_MOST_READ):
                with self._labelled(mistakes, other):
                    read_experiment(self.tables_of(other)).check()
        mistakes.tell()

    @contextmanager
    def _labelled(self, mistakes: Mistakes, number: int) -> Iterator[None]:
        try:
            yield
        except InputError as error:
            setting = f" (setting: {self.label(number)})" if self.axes else ""
            for one in error.each:
                mistakes.add(InputError(one.where, one.problem + setting))

    def _with_each_value(self, most: int) -> Iterator[int]:
        """Yield settings with the first values of every key; crossed keys differ one at a time."""
        step = 1 if self.combine == "zip" else len(self)
        for axis in self.axes.values():
            size = len(axis.values)
            step = max(1, step // size)
            yield from range(0, step * min(size, most), step)

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
        As in `fedbandits.plugins.load_tables`.
    """
    return read_sweep(load_tables(path, plugins=plugins), most=most)


def read_sweep(tables: Mapping[str, Any], *, most: int | None = MOST_SETTINGS) -> Sweep:
    """Return the sweep that the tables of a file describe.

    Parameters
    ----------
    tables, most
        Tables of the file, and more settings than which are refused.
    """
    base = with_sources({key: tables[key] for key in tables if key != "sweep"}, Path())
    try:
        axes, combine = read_grid(tables.get("sweep"), most=most)
        sweep = _sweep_of(base, axes, combine)
    except InputError as error:
        _tell_all(error, tables.get("sweep"), base)
        raise
    sweep.experiment(0)
    return sweep


def _sweep_of(base: Mapping[str, Any], axes: Sequence[SweptKey], combine: Combine) -> Sweep:
    by_key = {axis.key: axis for axis in axes}
    check_keys(list(by_key), base)
    paths = {key: paths_of(key, base) for key in by_key}
    check_apart(paths)
    return Sweep(tables=base, axes=by_key, combine=combine, _paths=paths)


def _tell_all(error: InputError, table: object, base: Mapping[str, Any]) -> None:
    """Raise the first mistake of a file together with the others: in keys, values and the rest."""
    mistakes = Mistakes()
    mistakes.add(error)
    sweep = _sweep_of(base, (), "cross")
    wrong: set[str] = set()
    for key, given in keys_in(table if isinstance(table, Mapping) else {}):
        wrong.add(key)
        with mistakes.gathered():
            check_keys([key], base)
            axes, _ = read_grid({key: given}, most=MOST_SETTINGS)
            larger = _sweep_of(base, [*sweep.axes.values(), *axes], "cross")
            larger.tables_of(0)
            sweep = larger
            wrong.remove(key)
    try:
        sweep.experiment(0)
    except InputError as others:
        # A key whose values are wrong may have none in the rest of the file.
        unset = {re.sub(r"\[\d+\]", "", key) for key in wrong}
        for one in others.each:
            if not key_of(InputError(re.sub(r"\[\d+\]", "", one.where), ""), unset):
                mistakes.add(one)
    mistakes.tell()
