"""The common part of algorithms whose pulls depend on what was observed."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from fedbandits.errors import check_count
from fedbandits.rules.adaptive import AdaptiveRule
from fedbandits.rules.algorithms.algorithm import Algorithm
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.estimators import InverseVariance, Plain
from fedbandits.rules.phase_numbers import FirstThen
from fedbandits.rules.radii import Radius

# Clients join up to so many times what tells as much of an arm as one client does in T pulls.
_MOST_WORTH = 4.0

RuleT = TypeVar("RuleT", bound=AdaptiveRule)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveAlgorithm(Algorithm):
    """An algorithm that starts with a few clients and admits more if needed.

    Parameters
    ----------
    first_pulls, initial_clients
        As in `fedbandits.FedIndex`.
    """

    all_clients_from_start: ClassVar[bool] = False
    uses_variances: ClassVar[bool] = True
    """It must be told σ and σ_c."""
    refusals: ClassVar[Mapping[str, str]] = {
        "liars": "is for algorithms with a schedule: this one chooses pulls by what was reported,"
        " and nothing is proven of that if some reports are lies; use fed2-ucb or fed1-ucb"
    }

    first_pulls: int = 32
    initial_clients: int = 16

    def __post_init__(self) -> None:
        for name in ("first_pulls", "initial_clients"):
            check_count(getattr(self, name), name)

    @property
    def whole_up_to(self) -> int:
        """The largest population that plays the first phase as a whole."""
        return self.initial_clients

    def _first_phase(self, beliefs: Beliefs) -> tuple[int, int]:
        """Return how many clients play the first phase, and how often each pulls an arm.

        Given clients that have weights all play.
        """
        clients = beliefs.population
        if clients is None or not (beliefs.weighted or clients <= self.whole_up_to):
            share = self._worth(beliefs) / beliefs.n_arms
            clients = max(1, math.ceil(min(share, float(self.initial_clients))))
        return clients, math.ceil(self.first_pulls / clients)

    def _worth(self, beliefs: Beliefs) -> float:
        """Return how many clients tell as much about an arm as one client with T pulls.

        (σ_c/σ)² for every pull: σ_c²/M is then σ² over the pulls.
        """
        noise, spread = beliefs.noise_for(self.name), beliefs.spread_for(self.name)
        if spread == 0.0:
            return 0.0
        return beliefs.horizon_for(self.name) * (spread / noise) ** 2 if noise > 0 else math.inf

    def _rule(self, beliefs: Beliefs, kind: type[RuleT], radius: Radius, **own: Any) -> RuleT:
        """Return the rule of a kind for a game, given what is believed about it."""
        radius.check_horizon(beliefs.horizon)
        clients, pulls = self._first_phase(beliefs)
        worth = self._worth(beliefs)
        return kind.of(
            beliefs,
            pulls=FirstThen(pulls, 1),
            admissions=FirstThen(clients),
            radius=radius,
            estimator=InverseVariance() if beliefs.population is None else Plain(),
            most_clients=None if math.isinf(worth) else round(_MOST_WORTH * worth),
            **own,
        )
