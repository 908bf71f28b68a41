"""Index rules in phases: adaptive allocation for both models of the paper."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from fedbandits.errors import InputError, check_number, check_word
from fedbandits.rules.adaptive import FewestPulls
from fedbandits.rules.algorithms.algorithm import Algorithm
from fedbandits.rules.estimators import InverseVariance, Plain
from fedbandits.rules.index_rules import IndexRule
from fedbandits.rules.levels import LevelLike, as_level
from fedbandits.rules.phased import AllAtOnce, Beliefs, PhasedRule
from fedbandits.rules.radii import Commit, Index, IndexRadius

# Clients join up to so many times what tells as much of an arm as one client does in T pulls.
_MOST_WORTH = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FedIndex(Algorithm):
    """Federated index rule: clients pull what may still be the best, more join when they must.

    For the exact model, the approximate model and everything between. In every phase the arm with
    the best estimate and the arms whose index is above it are pulled; see
    `fedbandits.rules.index_rules`.

    Parameters
    ----------
    index : {"moss", "ucb2", "ucb"}
        What an arm is given beyond its estimate. "moss" explores least, and has the least regret
        on average; "ucb" explores most, and errs least.
    growth : float
        α: the pulls of an arm in all grow by the factor 1 + α in a phase at most. More saves rounds
        of communication and costs pulls.
    arms_per_phase : int, optional
        How many arms a phase plays at most; the leader and all challengers by default. Fewer take
        more rounds.
    first_pulls : int
        Pulls of every arm by all clients together in the first phase.
    initial_clients : int
        How many clients play the first phase at most; fewer where so many already tell as much as
        T/K pulls of an arm, its share of what one client has.
    admit_when : float
        An arm asks for clients when its client variance is above so many times its pull variance.
        Less brings more clients in, who each pull less. Nobody joins for gaps below half of what
        one client could show that pulls an arm in every slot: ties would never have enough.
    commit : {"index", "certified"}
        When the rule stops asking: when its indices would not let it change its mind, or when a
        test with error probability δ agrees. The test needs all clients from the start.
    delta : number or expression in T, optional
        δ; "1/T" by default.

    Examples
    --------
    >>> rule = FedIndex().rule(Beliefs(n_arms=10, horizon=10**6, noise=0.5, spread=0.02))
    >>> rule.admissions(1), rule.pulls(1)
    (16, 2)
    """

    name: ClassVar[str] = "fed-index"
    all_clients_from_start: ClassVar[bool] = False

    index: Index = "moss"
    growth: float = 1.0
    arms_per_phase: int | None = None
    first_pulls: int = 32
    initial_clients: int = 16
    admit_when: float = 1.0
    commit: Commit = "index"
    delta: LevelLike | None = None

    def __post_init__(self) -> None:
        check_word(self.index, Index, "index")
        check_word(self.commit, Commit, "commit")
        for name in ("growth", "admit_when"):
            value = getattr(self, name)
            check_number(value, name)
            if not 0.0 < value < math.inf:
                raise InputError(name, f"{value!r} is not a positive number such as 1.0")
        for name, least in (("first_pulls", 1), ("initial_clients", 1), ("arms_per_phase", 2)):
            value = getattr(self, name)
            if value is None:
                continue
            check_number(value, name, whole=True)
            if value < least:
                raise InputError(name, f"{value} is below {least}; give one such as {2 * least}")
        if self.delta is not None:
            if self.commit != "certified":
                raise InputError("delta", 'goes with commit = "certified"; leave it out')
            as_level(self.delta)

    @property
    def uses_variances(self) -> bool:
        """Whether it must be told σ and σ_c: it must."""
        return True

    def rule(self, beliefs: Beliefs) -> PhasedRule:
        """Return the rule for a game of which this is believed."""
        horizon = beliefs.horizon_for(self.name)
        noise, spread = beliefs.noise_for(self.name), beliefs.spread_for(self.name)
        population = beliefs.population
        worth = clients_of_worth(horizon, noise, spread)
        clients = first_clients(beliefs, self.initial_clients, worth)
        if self.commit == "certified" and clients != population:
            raise InputError(
                "commit",
                f'"certified" is for clients who all play from the start, and {clients} do; use'
                ' "index", or raise initial_clients to a population that is finite',
            )
        first = math.ceil(self.first_pulls / clients)
        radius = IndexRadius(
            index=self.index,
            noise=noise,
            commit=self.commit,
            delta="1/T" if self.delta is None else self.delta,
            first_variance=max(noise**2 / (clients * first), math.ulp(0.0)),
        )
        radius.check_horizon(horizon)
        rule = IndexRule(
            n_arms=beliefs.n_arms,
            horizon=horizon,
            noise=noise,
            spread=spread,
            population=population,
            goal=beliefs.goal,
            bounded=beliefs.bounded,
            min_clients=beliefs.min_clients,
            pulls=FewestPulls(first, 1),
            admissions=AllAtOnce(clients),
            radius=radius,
            estimator=InverseVariance() if population is None else Plain(),
            growth=self.growth,
            admit_when=self.admit_when,
            arms_per_phase=self.arms_per_phase,
            most_clients=most_clients(worth),
        )
        return rule.with_given_weights() if beliefs.weighted else rule


def first_clients(beliefs: Beliefs, most: int, worth: float) -> int:
    """Return how many clients play the first phase of an adaptive rule.

    Parameters
    ----------
    beliefs : Beliefs
        Of the game; given clients that have weights all play.
    most : int
        How many at most.
    worth : float
        From `clients_of_worth`: fewer are enough where so many tell as much as an arm's share of
        what one client can pull.
    """
    population = beliefs.population
    if population is not None and (beliefs.weighted or population <= most):
        return population
    return max(1, math.ceil(min(worth / beliefs.n_arms, float(most))))


def most_clients(worth: float) -> int | None:
    """Return with how many clients nobody else is asked to join; None without a limit."""
    return None if math.isinf(worth) else round(_MOST_WORTH * worth)


def clients_of_worth(pulls: int, noise: float, spread: float) -> float:
    """Return how many clients tell as much of an arm as one client does with so many pulls.

    (σ_c/σ)² for every pull: σ_c²/M is then σ² over the pulls.
    """
    if spread == 0.0:
        return 0.0
    return pulls * (spread / noise) ** 2 if noise > 0 else math.inf
