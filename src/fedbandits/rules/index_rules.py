r"""Index rules: phases play the arms that may still be the best, no more than needed.

Elimination pulls all arms that are left equally often. An index rule keeps for every arm the
estimate :math:`m_k` and an index :math:`m_k + b_k` above it (`fedbandits.rules.radii.IndexRadius`).
The arm with the best estimate is the *leader*; arms whose index is above the leader's estimate are
its *challengers*. In every phase all clients play the same:

* every challenger, so often that its pulls in all grow by the factor 1 + α at most, and by no more
  than what would bring its index down to the leader's estimate if that and its own stayed the same;
  and never beyond four times the pulls of the arm with the highest index: others wait until it has
  been looked at, or two bad arms would race each other while the best one, unlucky at first, is
  hardly pulled;
* the leader, up to twice as often as any challenger in all, which costs no regret if it is the
  best, and sharpens what all challengers are compared with.

A challenger whose variance would be more for want of clients than of pulls, even if all clients who
are in pulled it, is not pulled more: it asks for clients. As many join as there are already, and in
that phase it is pulled again. Nobody pulls a challenger beyond what its pulls can still tell, and
clients who are in already are asked before others join; and nobody is asked to join for gaps that
are not worth it (`IndexRule.most_clients`), so that ties do not run away.

When there is no challenger the leader is played alone, until its lower end is above all indices:
the rule would not change its mind any more, and commits. Where a test has to agree, arms that it
cannot tell from the leader challenge again once the leader's width is half of theirs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedbandits.rules.adaptive import AdaptiveRule
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.eliminations import highest
from fedbandits.rules.phased import PhasedRule
from fedbandits.rules.plans import PhasePlan, State
from fedbandits.rules.radii import IndexRadius, PhaseStatistics

# A challenger that is almost beaten is still pulled by so much more: its estimate will move.
_LEAST_GROWTH = 0.1
# No arm is pulled more than so many times as often as that with the highest index.
_AHEAD = 4.0
# The leader is pulled so many times as often as a challenger, in all.
_LEAD = 2.0
# What is not certain is looked at again when the width of the leader is so many times smaller.
_FINER = 2.0
# In one phase the pulls of the leader grow by this factor at most: it may not be the best.
_LEADER_GROWTH = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The leader and the challengers; leading axes as given."""

    leader: BoolArray
    challengers: BoolArray
    unpulled: BoolArray
    index: FloatArray
    known: PhaseStatistics
    pulls: FloatArray
    pull_variance: FloatArray
    client_floor: FloatArray
    short_of_clients: BoolArray


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRule(AdaptiveRule):
    """Adaptive allocation in phases: what is played follows from indices.

    Parameters
    ----------
    **adaptive
        As in `fedbandits.rules.adaptive.AdaptiveRule`, with an `IndexRadius`.
    arms_per_phase : int, optional
        How many arms a phase plays at most; the leader and all challengers by default.
    """

    radius: IndexRadius
    arms_per_phase: int | None = None

    # What is proven of a commitment its radius states, and of intervals nothing is: pulls follow
    # observations.
    guarantee = PhasedRule.guarantee
    interval_guarantee = PhasedRule.interval_guarantee

    @property
    def outlives_withdrawals(self) -> bool:
        """Whether what is proven is left after a withdrawal: that of a commitment is."""
        return self.radius.outlives_withdrawals

    def plan(self, state: State) -> PhasePlan:
        """Return who joins and what is pulled: the arms that may still be the best.

        A phase that does not fit into what is left of the horizon is played on the leader.
        """
        if state.estimate is None:
            return PhasedRule.plan(self, state)
        choice = self.choose(state)
        asks = (choice.challengers & choice.short_of_clients).any(axis=-1)
        newcomers, capped = self.doubling(state, asks)
        joined = newcomers if state.joined is None else np.asarray(state.joined, dtype=np.int64)
        return PhasePlan(
            newcomers=newcomers, pulls=self._pulls(state, choice, joined), capped=capped
        )

    def _pulls(self, state: State, choice: Choice, joined: IntArray) -> IntArray:
        """Return how often each client pulls each arm if this many have joined."""
        joined = joined[..., np.newaxis]
        clients = np.asarray(state.clients, dtype=np.int64)[..., np.newaxis] + joined
        stuck = choice.short_of_clients & (joined == 0)
        asked = choice.challengers & ~stuck
        top = highest(choice.index, asked | choice.leader)
        wanted = np.where(asked, self._target(choice) * choice.pulls, 0.0)
        wanted = np.minimum(wanted, _AHEAD * _value_at(top, choice.pulls))
        more = np.maximum(wanted - choice.pulls, 0.0)
        of_leader = self._of_leader(choice, wanted)
        # Who joins plays the leader as often as what it is compared with.
        least = np.where(joined > 0, more.max(axis=-1, keepdims=True), 0.0)
        more = np.where(choice.leader, np.maximum(of_leader, least), more)
        pulls = np.ceil(np.minimum(more / clients, float(self.slots))).astype(np.int64)
        pulls = np.where(choice.unpulled, self.pulls(1), pulls)
        return self.fitting(state, pulls, choice.leader)

    def choose(self, state: State) -> Choice:
        """Return the leader and the challengers, by what is known."""
        estimate = state.estimate
        if estimate is None:
            raise ValueError("nothing is known before the first phase")
        if self.goal == "min":
            estimate = estimate.mirrored()
        pulled = estimate.pulls > 0
        known = self._known(1, state.active, estimate)
        seen = state.active & pulled
        leader = highest(known.estimate.values, seen)
        widths = self.radius.half_widths(known)
        index = known.estimate.values + widths
        ahead = _value_at(leader, known.estimate.values)
        challengers = seen & ~leader & (index > ahead)
        if self.radius.commit == "certified":
            # The leader is looked at more closely first: that costs no regret if it is the best.
            of_leader = _value_at(leader, widths)
            open_still = (index > ahead - of_leader) & (_FINER * of_leader < widths)
            challengers |= seen & ~leader & open_still
        if self.arms_per_phase is not None:
            order = np.argsort(np.where(challengers, -index, np.inf), axis=-1, kind="stable")
            place = np.argsort(order, axis=-1, kind="stable")
            challengers &= place < self.arms_per_phase - 1
        floor = self.client_floor(state.clients)
        # More pulls dilute what protects the means, too.
        of_pulls = np.asarray(known.estimate.pull_variance + known.estimate.distortion.variance)
        return Choice(
            leader=leader,
            challengers=challengers,
            unpulled=state.active & ~pulled,
            index=index,
            known=known,
            pulls=estimate.pulls,
            pull_variance=of_pulls,
            client_floor=floor,
            short_of_clients=np.asarray(floor > self.admit_when * of_pulls),
        )

    def _target(self, choice: Choice) -> FloatArray:
        r"""Return the factor by which the pulls of each challenger are to grow.

        Its index comes down to the leader's estimate when v falls to :math:`v (\Delta / b)^2`, of
        which the client variance of all who are in is left as it is.
        """
        known = choice.known
        ahead = _value_at(choice.leader, known.estimate.values)
        width = choice.index - known.estimate.values
        behind = np.maximum(ahead - known.estimate.values, 0.0)
        share = np.divide(behind, width, out=np.zeros_like(width), where=width > 0)
        of_pulls = choice.pull_variance
        left = (of_pulls + known.estimate.client_variance) * share**2 - choice.client_floor
        most = 1.0 + self.growth
        enough = of_pulls < most * left
        # Newcomers who pull an arm hardly ever would leave it as short of clients as before.
        enough &= ~choice.short_of_clients
        factor = np.divide(of_pulls, left, out=np.full_like(left, most), where=enough)
        return np.asarray(np.maximum(factor, 1.0 + min(_LEAST_GROWTH, self.growth)))

    def _of_leader(self, choice: Choice, wanted: FloatArray) -> FloatArray:
        """Return how many more pulls the leader gets, to be ahead of all or to be sure."""
        known, pulls = choice.known, choice.pulls
        most = wanted.max(axis=-1, keepdims=True)
        catch_up = np.clip(_LEAD * most - pulls, 0.0, (_LEADER_GROWTH - 1.0) * pulls)
        # Alone: as often as its lower end needs to be above every index, if nothing moves.
        rivals = known.active & ~choice.leader
        highest = np.where(rivals, choice.index, -np.inf).max(axis=-1, keepdims=True)
        above = np.maximum(known.estimate.values - highest, 0.0)
        width = choice.index - known.estimate.values
        need = np.divide(width, above, out=np.full_like(width, np.inf), where=above > 0) ** 2
        alone = np.clip(need, 1.0 + self.growth, max(_LEADER_GROWTH, 1.0 + self.growth)) - 1.0
        return np.asarray(np.where(most > 0, catch_up, alone * pulls))


def _value_at(arm: BoolArray, values: FloatArray) -> FloatArray:
    """Return the value of one arm, with an axis of length 1 for the arms: −∞ without one."""
    return np.asarray(np.where(arm, values, -np.inf).max(axis=-1, keepdims=True))
