"""The algorithms, one file each, and the table of their names."""

from __future__ import annotations

from fedbandits.errors import InputError, nearest
from fedbandits.rules.algorithms.algorithm import Algorithm
from fedbandits.rules.algorithms.authors_baseline import AuthorsBaseline
from fedbandits.rules.algorithms.centralized import Centralized
from fedbandits.rules.algorithms.fed1_ucb import Fed1Ucb
from fedbandits.rules.algorithms.fed2_ucb import Fed2Ucb
from fedbandits.rules.algorithms.fed_index import FedIndex
from fedbandits.rules.algorithms.improved_ucb import ImprovedUcb
from fedbandits.rules.algorithms.local_ucb import LocalUcb
from fedbandits.rules.algorithms.ucb1 import Ucb1

ALGORITHMS: dict[str, type[Algorithm]] = {
    algorithm.name: algorithm
    for algorithm in (
        Fed2Ucb,
        Fed1Ucb,
        FedIndex,
        Centralized,
        ImprovedUcb,
        AuthorsBaseline,
        Ucb1,
        LocalUcb,
    )
}
"""The algorithms by their names in experiment files: add yours here."""


def algorithm_named(name: str) -> type[Algorithm]:
    """Return the class of an algorithm; an unknown name is an error that suggests the nearest.

    Examples
    --------
    >>> algorithm_named("fed2-ucb")
    <class 'fedbandits.rules.algorithms.fed2_ucb.Fed2Ucb'>
    """
    if name not in ALGORITHMS:
        hint = nearest(name, ALGORITHMS)
        raise InputError("algorithm", f'"{name}" is not an algorithm; {hint}')
    return ALGORITHMS[name]


__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "AuthorsBaseline",
    "Centralized",
    "Fed1Ucb",
    "Fed2Ucb",
    "FedIndex",
    "ImprovedUcb",
    "LocalUcb",
    "Ucb1",
    "algorithm_named",
]
