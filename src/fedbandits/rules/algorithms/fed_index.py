"""Index rules in phases: adaptive allocation for both models of the paper."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from fedbandits.errors import InputError, check_count, check_word
from fedbandits.rules.algorithms.adaptive_algorithm import AdaptiveAlgorithm
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.index_rules import IndexRule
from fedbandits.rules.levels import LevelLike, as_level
from fedbandits.rules.phased import PhasedRule
from fedbandits.rules.radii import Commit, Index, IndexRadius


@dataclass(frozen=True, slots=True, kw_only=True)
class FedIndex(AdaptiveAlgorithm):
    """Federated index rule: clients pull what may still be the best, more join when they must.

    For the exact model, the approximate model and everything between. In every phase the arm with
    the best estimate and the arms whose index is above it are pulled. How long a phase is and how
    many clients join depends on what a report costs; see `fedbandits.rules.index_rules`.

    Parameters
    ----------
    index : {"moss", "ucb2", "ucb"}
        What an arm is given beyond its estimate. "moss" explores least, and has the least regret
        on average; "ucb" explores most, and errs least.
    arms_per_phase : int, optional
        How many arms a phase plays at most; the leader and all challengers by default. Fewer take
        more rounds.
    first_pulls : int
        Pulls of every arm by all clients together in the first phase, at least. They are more if
        reports are expensive.
    initial_clients : int
        How many clients play the first phase at most; fewer if so many already tell as much as
        T/K pulls of an arm, its share of what one client has. A population of up to twice as many
        plays it as a whole. Nobody joins for gaps below half of
        what one client could show that pulls an arm in every slot: ties would never have enough.
    commit : {"index", "certified"}
        When the rule stops asking: when its indices would not let it change its mind, or when a
        test with error probability δ agrees. The test needs all clients from the start, or normal
        laws whose noise and spread are known exactly.
    delta : number or expression in T, optional
        δ; "1/T" by default.
    release : bool
        Whether clients stop comparing when nobody else may join (`max_clients`, or the limit above)
        and more pulls by those who are in would tell next to nothing: they play the leader to the
        end and report no more. The rule does not commit then.

    Examples
    --------
    >>> rule = FedIndex().rule(Beliefs(n_arms=10, horizon=10**6, noise=0.5, spread=0.02))
    >>> rule.admissions(1), rule.pulls(1)
    (8, 18)
    """

    name: ClassVar[str] = "fed-index"

    initial_clients: int = 8
    index: Index = "moss"
    arms_per_phase: int | None = None
    commit: Commit = "index"
    delta: LevelLike | None = None
    release: bool = False

    def __post_init__(self) -> None:
        AdaptiveAlgorithm.__post_init__(self)
        check_word(self.index, Index, "index")
        check_word(self.commit, Commit, "commit")
        check_count(self.arms_per_phase, "arms_per_phase", 2, optional=True)
        if self.delta is not None:
            if self.commit != "certified":
                raise InputError("delta", 'goes with commit = "certified"; leave it out')
            as_level(self.delta)

    def rule(self, beliefs: Beliefs) -> PhasedRule:
        """Return the rule for a game, given what is believed about it."""
        beliefs.horizon_for(self.name)
        noise = beliefs.noise_for(self.name)
        clients, pulls = self._first_phase(beliefs)
        joining = clients != beliefs.population
        if self.commit == "certified" and joining:
            self._check_joining(beliefs, clients)
        radius = IndexRadius(
            index=self.index,
            noise=noise,
            commit=self.commit,
            delta="1/T" if self.delta is None else self.delta,
            first_variance=max(
                (noise**2 / pulls + joining * beliefs.spread_for(self.name) ** 2) / clients,
                math.ulp(0.0),
            ),
            joining=joining,
        )
        own = {"arms_per_phase": self.arms_per_phase, "release": self.release}
        return self._rule(beliefs, IndexRule, radius, **own)

    def _check_joining(self, beliefs: Beliefs, clients: int) -> None:
        """Refuse a certified commitment by clients who join, unless it is proven."""
        if beliefs.population is not None:
            raise InputError(
                "commit",
                f'"certified" needs all {beliefs.population:,} clients from the start, but only'
                f' {clients} play then; raise initial_clients, or use "index"',
            )
        if not beliefs.exact:
            raise InputError(
                "commit",
                '"certified" with clients who join needs normal outcomes and normal means of'
                " clients, noise and spread that are known exactly and not just bounded, and no"
                ' offset that the arms of a client share; use "index"',
            )

    @property
    def whole_up_to(self) -> int:
        """The largest population that plays the first phase as a whole."""
        return 2 * self.initial_clients

    def _first_phase(self, beliefs: Beliefs) -> tuple[int, int]:
        clients, pulls = AdaptiveAlgorithm._first_phase(self, beliefs)
        most = beliefs.horizon_for(self.name) / (4 * beliefs.n_arms)
        return clients, max(pulls, math.ceil(min(self._worth_a_report(beliefs, clients), most)))

    def _worth_a_report(self, beliefs: Beliefs, clients: int) -> float:
        r"""Return how often each of M clients pulls an arm before its first report.

        n pulls show gaps d of :math:`\sqrt{2 \sigma^2 \log T / (M n)}`. Exploring all arms at such
        gaps costs :math:`K n d` per client, which may be √6 times C. If clients differ, n pulls by
        each can tell only so much: :math:`n = \frac32 (\sigma/\sigma_c) \sqrt{C / (2 K d)}` is near
        the optimum of the lower bound for gaps of :math:`d = 2 \sigma_c \sqrt{\log T / M}`. If that
        is more, a mean of the two is taken: gaps may be larger.
        """
        noise, spread = beliefs.noise_for(self.name), beliefs.spread_for(self.name)
        cost, log = beliefs.cost, math.log(beliefs.horizon_for(self.name))
        if not noise or log == 0:
            return 1.0
        alike = 3 * cost**2 * clients / (log * beliefs.n_arms**2 * noise**2)
        if not spread or clients == beliefs.population:
            return alike
        gap = 2 * spread * math.sqrt(log / clients)
        unlike = 1.5 * noise / spread * math.sqrt(cost / (2 * beliefs.n_arms * gap))
        if unlike <= alike:
            return unlike
        # Small gaps may be all there are, or there may be none: rather near the optimum for them.
        least = max(alike, self.first_pulls / clients)
        return min(unlike, math.cbrt(least * unlike**2))
