"""A sweep: the experiment of a file under many settings of some of its keys."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedbandits.errors import InputError
from fedbandits.experiments.experiment import Experiment
from fedbandits.experiments.files import defaults_of_file, read_experiment
from fedbandits.plugins import load_tables, with_sources
from fedbandits.sweeps.grid import Combine, SweptKey, read_grid
from fedbandits.sweeps.keys import (
    check_apart,
    check_keys,
    is_choice,
    paths_of,
    reaches,
    short_names,
    with_value,
)

MOST_SETTINGS = 1_000_000
"""More settings are played only by whoever says so."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sweep:
    """What a file with a ``[sweep]`` table says.

    Settings are numbered from 0; of crossed keys the last one changes fastest.

    Parameters
    ----------
    tables : mapping
        The file without its sweep.
    axes : tuple of SweptKey
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
    axes: tuple[SweptKey, ...]
    combine: Combine
    # Values of every axis, their texts, and what they are set at: worked out once.
    _values: tuple[list[Any], ...]
    _shown: tuple[list[str], ...]
    _paths: tuple[list[tuple[str | int, ...]], ...]

    def __len__(self) -> int:
        """Return how many settings there are."""
        sizes = [len(values) for values in self._values]
        return sizes[0] if self.combine == "zip" else math.prod(sizes)

    @property
    def title(self) -> str:
        """What tables and figures are headed with."""
        return str(self.tables["title"])

    @property
    def keys(self) -> list[str]:
        """The keys that vary."""
        return [axis.key for axis in self.axes]

    @property
    def conditions(self) -> list[str]:
        """Those of them that say what is played; the others are choices of whoever plays."""
        return [key for key in self.keys if not is_choice(key)]

    def keys_of(self, variant: int, problem: str) -> list[str]:
        """Return the keys that one variant on one problem has: others change nothing about it."""
        return [
            key
            for key, paths in zip(self.keys, self._paths, strict=True)
            if any(reaches(path, variant, problem) for path in paths)
        ]

    def values(self, number: int) -> dict[str, Any]:
        """Return the value of every key in a setting."""
        return {
            axis.key: values[place]
            for axis, values, place in zip(
                self.axes, self._values, self._places(number), strict=True
            )
        }

    def values_of(self, key: str) -> list[Any]:
        """Return all values of a key, in order."""
        return self._values[self.keys.index(key)]

    def texts_of(self, key: str) -> list[str]:
        """Return all values of a key, in order, as labels have them."""
        return self._shown[self.keys.index(key)]

    def texts(self, number: int) -> dict[str, str]:
        """Return the value of every key in a setting, as labels have it."""
        return {
            axis.key: shown[place]
            for axis, shown, place in zip(self.axes, self._shown, self._places(number), strict=True)
        }

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
        for values, paths, place in zip(
            self._values, self._paths, self._places(number), strict=True
        ):
            for path in paths:
                tables = with_value(tables, path, values[place])
        return dict(tables)

    def experiment(self, number: int) -> Experiment:
        """Return the experiment of a setting; what is wrong with it is said with its label."""
        try:
            return read_experiment(self.tables_of(number))
        except InputError as error:
            raise self.located(error, number) from None

    def located(self, error: InputError, number: int) -> InputError:
        """Return an error of one setting, with its label."""
        return InputError(error.where, f"{error.problem} (setting: {self.label(number)})")

    def described(self) -> dict[str, Any]:
        """Return the tables of a file that says the same, with what it leaves to defaults."""
        return {
            **defaults_of_file(),
            **self.tables,
            "sweep": {
                "combine": self.combine,
                **dict(zip(self.keys, self._values, strict=True)),
            },
        }

    def _places(self, number: int) -> Iterator[int]:
        """Yield which of its values every key has in a setting."""
        if self.combine == "zip":
            yield from (number for _ in self.axes)
            return
        rest = len(self)
        for values in self._values:
            rest //= len(values)
            yield number // rest
            number %= rest


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
    axes, combine = read_grid(table, most=most)
    keys = [axis.key for axis in axes]
    check_keys(keys, base)
    check_apart(keys, base)
    values = tuple(axis.values() for axis in axes)
    sweep = Sweep(
        tables=base,
        axes=axes,
        combine=combine,
        _values=values,
        _shown=tuple(_texts(of_axis) for of_axis in values),
        _paths=tuple(paths_of(axis.key, base) for axis in axes),
    )
    sweep.experiment(0)
    return sweep


def _texts(values: Sequence[Any]) -> list[str]:
    """Return values as labels have them: with as few digits as tell them apart.

    Examples
    --------
    >>> _texts([0.005, 0.0123456, 0.2]), _texts([0.10001, 0.10002]), _texts([[1, 2], "2^p"])
    (['0.005', '0.0123', '0.2'], ['0.10001', '0.10002'], ['[1, 2]', '2^p'])
    """
    for digits in range(3, 17):
        found = [_text(value, digits) for value in values]
        if len(set(found)) == len(values):
            return found
    return [f"{text} ({number})" for number, text in enumerate(found)]


def _text(value: Any, digits: int) -> str:
    match value:
        case bool() | dict() | list():
            return json.dumps(value, ensure_ascii=False)
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.{digits}g}"
    return str(value)
