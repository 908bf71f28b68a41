"""What an algorithm is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from fedbandits.errors import UnstatedError
from fedbandits.rules.abilities import unstated
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.indices import SlotRule
from fedbandits.rules.phased import PhasedRule


class Algorithm:
    """An algorithm with its parameters: a frozen dataclass that makes a rule for a game.

    Its fields are the keys that a variant of an experiment file may set. A class of your own
    states `name` and defines `rule`; what a federation asks of it is for those that run in one.
    """

    __slots__ = ()

    __dataclass_fields__: ClassVar[dict[str, Any]]

    name: ClassVar[str] = unstated("what it is called in files")
    all_clients_from_start: ClassVar[bool] = unstated(
        "whether all its clients play from the start, and the answer is for them by default"
    )

    refusals: ClassVar[Mapping[str, str]] = {}
    """Keys of other algorithms that it does not take, and why not."""
    shown_in_parts: ClassVar[bool] = False
    """Whether figures show its regret without communication beside the total, as the paper's do."""

    @property
    def uses_variances(self) -> bool:
        """Whether it must be told σ and σ_c, or estimate them."""
        raise UnstatedError(
            type(self).__name__, "uses_variances", "whether it must be told noise and spread"
        )

    @property
    def uses_cost(self) -> bool:
        """Whether what it plays may depend on C. If not, a sweep over C plays its games once."""
        return True

    @property
    def tolerance(self) -> float:
        """How much worse than the best the arm that it settles on may be."""
        return 0.0

    def rule(self, beliefs: Beliefs) -> PhasedRule | SlotRule:
        """Return the rule for a game, given what is believed about it."""
        raise UnstatedError(type(self).__name__, "rule", "which rule it makes")
