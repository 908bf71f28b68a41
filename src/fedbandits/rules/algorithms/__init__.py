"""The algorithms, one file each, and the table of their names."""

from __future__ import annotations

from typing import Protocol

from fedbandits.registry import Registry
from fedbandits.rules.algorithms.authors_baseline import AuthorsBaseline
from fedbandits.rules.algorithms.centralized import Centralized
from fedbandits.rules.algorithms.fed1_ucb import Fed1Ucb
from fedbandits.rules.algorithms.fed2_ucb import Fed2Ucb
from fedbandits.rules.algorithms.fed_index import FedIndex
from fedbandits.rules.algorithms.improved_ucb import ImprovedUcb
from fedbandits.rules.algorithms.local_ucb import LocalUcb
from fedbandits.rules.algorithms.ucb1 import Ucb1
from fedbandits.rules.indices import SlotRule
from fedbandits.rules.phased import Beliefs, PhasedRule


class Algorithm(Protocol):
    """An algorithm with its parameters: a frozen dataclass that makes a rule for a game.

    Its fields are the keys that a variant of an experiment file may set.
    """

    @property
    def name(self) -> str:
        """The name in experiment files."""
        ...

    def rule(self, beliefs: Beliefs) -> PhasedRule | SlotRule:
        """Return the rule for a game of which this is believed."""
        ...


ALGORITHMS: Registry[Algorithm] = Registry(
    "an algorithm",
    group="fedbandits.algorithms",
    key="name",
    roles=(Algorithm,),
    parent="Algorithm of fedbandits.rules.algorithms",
    built_in=(
        Fed2Ucb,
        Fed1Ucb,
        FedIndex,
        Centralized,
        ImprovedUcb,
        AuthorsBaseline,
        Ucb1,
        LocalUcb,
    ),
)
"""The algorithms by their names in experiment files."""


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
]
