r"""Index rules: phases play the arms that may still be the best, as far as that is worth a report.

Elimination pulls all arms that are left equally often. An index rule keeps for every arm the
estimate :math:`m_k` and an index :math:`m_k + b_k` above it (`fedbandits.rules.radii.IndexRadius`).
The arm with the best estimate is the *leader*. Arms whose index is above the leader's estimate are
its *challengers*. In every phase all clients play the same arms: the challengers, and the leader.

How far a phase goes, and how many clients join for it, is what costs least (`IndexRule.step`): a
phase makes every client pay C for its report, and pulls of challengers cost what they are behind.
If reports are cheap, phases at most halve what is open about an arm. If they are expensive, phases
are fewer and longer.

The leader is pulled up to twice as often as any challenger in total, which costs no regret if it is
the best. If reports cost something, clients also go on playing it before they report, as long as
the risk that another arm is better is small compared with the report.

If there is no challenger, the leader is played alone until its lower end is above all indices: the
rule would no longer change its mind, and commits. If a test has to agree, an arm challenges until
the test can tell it from a leader that was pulled eight times as often.

If nobody else may join and pulls have told nearly all that these clients can tell, challengers may
be left that no pull would settle. The rule goes on comparing, or releases its clients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fedbandits.rules.adaptive import AdaptiveRule
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.eliminations import highest
from fedbandits.rules.phased import PhasedRule
from fedbandits.rules.plans import PhasePlan, State
from fedbandits.rules.radii import IndexRadius, PhaseStatistics

# How far a phase goes: by which factor the variance of an estimate falls at most, and for how much
# bad luck it allows, in standard deviations. The first is careful; the second saves reports.
_PACES = ((2.0, 0.0), (8.0, 1.0))
# How many times as many clients as there are may take part in the next phase.
_CROWDS = np.array([1.0, 1.25, 1.5, 2.0, 3.0, 4.0])
# The estimate of a challenger will move: its variance falls by this factor at least.
_LEAST_PACE = 1.1
# Beyond this factor it is not planned how many phases are left.
_FORESEEN = 8.0
# No arm has more than this many times the pulls of the arm with the highest index.
_AHEAD = 4.0
# The leader's total pulls are this many times those of any challenger.
_LEAD = 2.0
# If a test must agree, the leader's pulls leave open at most this share of an arm's variance.
_SPARE = 0.125
# In one phase the pulls of the leader grow by this factor at most: it may not be the best.
_LEADER_GROWTH = 8.0
# Before a report clients play the leader until the risk has cost this share of the report. Limits:
# this many times the pulls of the arm with the highest index, and this share of the slots left.
_FREE_SHARE = 0.1
_FREE_AHEAD = 64.0
_FREE_SLOTS = 0.25
# Nothing is divided by less.
_TINY = 1e-300
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The leader and what may challenge it; leading axes as given.

    Parameters
    ----------
    leader : array of bool, shape (..., arms)
        The arm with the best estimate.
    rivals : array of bool, shape (..., arms)
        The arms that may be pulled beside it.
    unpulled : array of bool, shape (..., arms)
        The arms that nobody has pulled.
    known : PhaseStatistics
        What was observed.
    widths : array, shape (..., arms)
        How far an index is above its estimate.
    variance : array, shape (..., arms)
        v, with what protects the means.
    of_leader : array, shape (..., 1)
        The client variance that is left in the leader's estimate.
    in_test : array, broadcast against the arms
        What its pulls leave open, as far as a test counts it; 0 without one.
    """

    leader: BoolArray
    rivals: BoolArray
    unpulled: BoolArray
    known: PhaseStatistics
    widths: FloatArray
    variance: FloatArray
    of_leader: FloatArray
    in_test: FloatArray

    @property
    def pulls(self) -> FloatArray:
        """How often all clients together have pulled each arm."""
        return self.known.estimate.pulls

    @property
    def index(self) -> FloatArray:
        """The indices."""
        return np.asarray(self.known.estimate.values + self.widths)

    @property
    def behind(self) -> FloatArray:
        """How far an estimate is below the leader's."""
        values = self.known.estimate.values
        return np.asarray(np.maximum(_value_at(self.leader, values) - values, 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a phase could be; leading axes as given.

    Parameters
    ----------
    clients : array, shape (..., 1)
        How many take part.
    pulls : array, shape (..., arms)
        How often each of them pulls each challenger.
    cost : array, shape (..., 1)
        What it costs, with the reports of phases that would have to follow.
    """

    clients: FloatArray
    pulls: FloatArray
    cost: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRule(AdaptiveRule):
    """Adaptive allocation in phases: what is played follows from indices.

    Parameters
    ----------
    **adaptive
        As in `fedbandits.rules.adaptive.AdaptiveRule`, with an `IndexRadius`.
    arms_per_phase : int, optional
        How many arms a phase plays at most; the leader and all challengers by default.
    release : bool
        Whether clients stop comparing when nobody else may join and more pulls by those who are in
        would tell next to nothing: they play the leader to the end and report no more.
    """

    radius: IndexRadius
    arms_per_phase: int | None = None
    release: bool = False

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
        step = self.step(state, choice)
        newcomers = (step.clients[..., 0] - state.clients).astype(np.int64)
        most = math.inf if self.max_clients is None else self.max_clients
        capped = state.capped | ((newcomers > 0) & (step.clients[..., 0] >= most))
        pulls = self._pulls(state, choice, step)
        if self.release:
            useful = replace(step, pulls=np.where(self._useless(state, choice), 0.0, step.pulls))
            goes_on = ((useful.pulls > 0) | choice.unpulled).any(axis=-1, keepdims=True)
            goes_on |= ~(step.pulls > 0).any(axis=-1, keepdims=True)
            # What does not fit is played to the end, and not reported.
            too_long = np.asarray(state.slots_left)[..., np.newaxis] + 1
            to_the_end = np.where(choice.leader, too_long, 0)
            pulls = np.where(goes_on, self._pulls(state, choice, useful), to_the_end)
        return PhasePlan(newcomers=newcomers, pulls=pulls, capped=capped)

    def choose(self, state: State) -> Choice:
        """Return the leader and what may challenge it, by what is known."""
        estimate = state.estimate
        if estimate is None:
            raise ValueError("nothing is known before the first phase")
        if self.goal == "min":
            estimate = estimate.mirrored()
        known = self._known(1, state.active, estimate)
        values, pulled = known.estimate.values, estimate.pulls > 0
        leader = highest(values, state.active & pulled)
        rivals = state.active & pulled & ~leader
        # Arms are compared with the leader, whose clients may be unlike the others, too.
        of_leader = _value_at(leader, known.estimate.client_variance, without=0.0)
        widths = self.radius.half_widths(known, of_leader)
        in_test = np.zeros_like(of_leader)
        if self.radius.commit == "certified":
            # What is left of it costs no regret to remove, if the leader is the best.
            in_test = _value_at(leader, known.estimate.pull_variance, without=0.0)
            in_test = np.minimum(in_test, self.spare * known.estimate.variance)
            widths = np.maximum(widths, self.radius.test_widths(known, of_leader + in_test))
        index = values + widths
        if self.arms_per_phase is not None:
            order = np.argsort(np.where(rivals, -index, np.inf), axis=-1, kind="stable")
            rivals &= np.argsort(order, axis=-1, kind="stable") < self.arms_per_phase - 1
        return Choice(
            leader=leader,
            rivals=rivals,
            unpulled=state.active & ~pulled,
            known=known,
            widths=widths,
            # More pulls dilute what protects the means, too.
            variance=np.asarray(known.estimate.variance + known.estimate.distortion.variance),
            of_leader=of_leader,
            in_test=in_test,
        )

    @property
    def spare(self) -> float:
        """The share of an arm's variance that a test may count again for the leader's pulls."""
        return _SPARE if self.radius.commit == "certified" else 0.0

    def step(self, state: State, choice: Choice) -> Step:
        """Return the cheapest phase: how many take part, and how often each pulls an arm.

        Once it is known how many have joined, only its pace is chosen.
        """
        games = choice.variance.shape[:-1]
        clients = np.broadcast_to(np.asarray(state.clients, dtype=np.float64), games)
        clients = clients[..., np.newaxis]
        if state.joined is not None:
            crowds = clients + np.asarray(state.joined)[..., np.newaxis]
        elif not self.spread:
            crowds = clients
        else:
            crowds = np.minimum(np.ceil(clients * _CROWDS), self._most())
            crowds = np.maximum(crowds, clients)
            crowds = np.where(np.asarray(state.capped)[..., np.newaxis], clients, crowds)
        careful, bold = (
            self._step(choice, clients, crowds, factor, luck) for factor, luck in _PACES
        )
        bolder = bold.cost < careful.cost
        return Step(
            clients=np.where(bolder, bold.clients, careful.clients),
            pulls=np.where(bolder, bold.pulls, careful.pulls),
            cost=np.where(bolder, bold.cost, careful.cost),
        )

    def _most(self) -> float:
        """Return how many clients may take part."""
        limits = (self.population, self.most_clients, self.max_clients)
        return min((limit for limit in limits if limit is not None), default=math.inf)

    def _useless(self, state: State, choice: Choice) -> BoolArray:
        """Return the arms of which more pulls tell next to nothing, because nobody else may join.

        Only clients could narrow down what is left open about them.
        """
        clients = np.asarray(state.clients, dtype=np.float64)[..., np.newaxis]
        full = np.asarray(state.capped)[..., np.newaxis] | (clients >= self._most())
        floor = self._left(clients) / clients
        return np.asarray(full & (floor > 0) & (choice.variance <= _LEAST_PACE * floor))

    def _step(
        self, choice: Choice, clients: FloatArray, crowds: FloatArray, factor: float, luck: float
    ) -> Step:
        r"""Return the cheapest phase of a pace; ``crowds`` are the numbers of clients to try.

        A challenger's variance is to fall to what brings its index down to the leader's estimate if
        neither moves: :math:`(d_k / b_k)^2 (v_k + c_l) - c_l'`, where :math:`d_k` is how far it is
        behind and :math:`c_l'` the leader's client variance with that many clients.
        """
        variance = choice.variance[..., np.newaxis]
        left = self._left(crowds)
        open_to = (left / crowds)[..., np.newaxis, :]
        moves = np.sqrt(
            (choice.variance + _value_at(choice.leader, choice.variance, without=0.0)) / 2
        )
        behind = np.maximum(choice.behind - luck * moves, 0.0)[..., np.newaxis]
        counted = choice.variance + choice.of_leader + choice.in_test
        scale = choice.widths**2 / np.maximum(counted, _TINY)
        # The logarithm in a width grows with the number of clients.
        scale = scale[..., np.newaxis] + 2.0 * np.log(crowds / clients)[..., np.newaxis, :]
        share = 1.0 + self.spare
        challengers = behind < np.sqrt(scale * (share * variance + open_to))
        challengers = choice.rivals[..., np.newaxis] & challengers
        enough = (behind**2 / np.maximum(scale, _TINY) - open_to) / share
        target = np.clip(enough, variance / factor, variance / _LEAST_PACE)
        pulls = self._pulls_for(target, choice, clients, crowds, left)
        # What is a whole number but for rounding errors stays that number.
        whole = np.ceil(np.maximum(pulls * (1.0 - _ROUNDING), 1.0))
        pulls = np.where(challengers, whole, 0.0)
        # In later phases an arm may turn out to be better than it looks.
        regret = np.sqrt(choice.behind**2 + choice.variance)[..., np.newaxis]
        explored = (pulls * regret).sum(axis=-2)
        foreseen = np.maximum(enough, variance / _FORESEEN)
        phases = np.log(variance / foreseen) / np.log(variance / target)
        phases = np.where(challengers & (target > enough), np.maximum(phases, 1.0), 1.0)
        cost = crowds * (self.cost * phases.max(axis=-2) + explored)
        cost = np.where(np.isfinite(cost), cost, np.inf)
        cheapest = cost.argmin(axis=-1)[..., np.newaxis]
        # If no number of clients is enough, all that may join do, and pull what is open twice.
        nothing = np.isinf(cost).all(axis=-1, keepdims=True)
        cheapest = np.where(nothing, crowds.shape[-1] - 1, cheapest)
        chosen = np.take_along_axis(pulls, cheapest[..., np.newaxis], axis=-1)[..., 0]
        chosen = np.where(np.isfinite(chosen), chosen, np.ceil(choice.pulls / clients))
        crowd = np.take_along_axis(crowds, cheapest, axis=-1)
        asked = (chosen > 0).any(axis=-1, keepdims=True)
        return Step(
            clients=np.where(asked, crowd, clients),
            pulls=chosen,
            cost=np.take_along_axis(cost, cheapest, axis=-1),
        )

    def _pulls_for(
        self,
        target: FloatArray,
        choice: Choice,
        clients: FloatArray,
        crowds: FloatArray,
        left: FloatArray,
    ) -> FloatArray:
        r"""Return how often each client must pull an arm for a variance, shape (..., arms, crowds).

        M clients have pulled it n times, M' − M are new: the x that solves

        .. math:: \frac{M (n + x)}{c (n + x) + \sigma^2} + \frac{(M' - M) x}{c x + \sigma^2}
            = \frac1v

        is the root of a quadratic. It is infinite if M' clients cannot tell as much.
        """
        noise = self.radius.noise**2
        worth = choice.variance * clients - self._left(clients)
        n = noise / np.maximum(worth, noise * 1e-12 + _TINY)
        n = np.minimum(n, choice.pulls / clients)[..., np.newaxis]
        old, new = clients[..., np.newaxis], (crowds - clients)[..., np.newaxis, :]
        c, wanted = left[..., np.newaxis, :], 1.0 / np.maximum(target, _TINY)
        square = c * (old + new - wanted * c)
        linear = (old + new - wanted * c) * (c * n + noise) - wanted * c * noise
        constant = noise * (old * n - wanted * (c * n + noise))
        root = linear + np.sqrt(np.maximum(linear**2 - 4.0 * square * constant, 0.0))
        # Enough clients, and a variance that a number can have.
        reached = ((square > 0) | (c == 0)) & (root > _TINY)
        short = np.broadcast_to(np.maximum(-2.0 * constant, 0.0), reached.shape)
        x = np.divide(short, root, out=np.full(reached.shape, np.inf), where=reached)
        return np.asarray(x)

    def _left(self, clients: FloatArray) -> FloatArray:
        """Return the variance between clients that is left open per client, with so many of them.

        It is σ_c² for an unlimited population, and 0 when all clients that exist are in.
        """
        factor = self.sampling.client_factor(np.maximum(clients, 1.0))
        return np.asarray((self.spread or 0.0) ** 2 * clients * factor)

    def _pulls(self, state: State, choice: Choice, step: Step) -> IntArray:
        """Return how often each client pulls each arm."""
        clients, challengers = step.clients, step.pulls > 0
        top = _value_at(highest(choice.index, challengers | choice.leader), choice.pulls)
        wanted = np.where(challengers, choice.pulls + step.pulls * clients, 0.0)
        wanted = np.minimum(wanted, _AHEAD * top)
        more = np.maximum(wanted - choice.pulls, 0.0)
        # Newcomers play the leader as often as what it is compared with.
        joined = clients > np.asarray(state.clients)[..., np.newaxis]
        least = np.where(joined, more.max(axis=-1, keepdims=True), 0.0)
        slots = np.asarray(state.slots_left)[..., np.newaxis]
        free = np.minimum(self._free(choice, clients), _FREE_AHEAD * top - choice.pulls)
        free = np.minimum(free, _FREE_SLOTS * slots * clients)
        of_leader = np.maximum(np.maximum(self._of_leader(choice, wanted), least), free)
        more = np.where(choice.leader, of_leader, more)
        pulls = np.ceil(np.minimum(more / clients, float(self.slots))).astype(np.int64)
        pulls = np.where(choice.unpulled, self.pulls(1), pulls)
        # The leader takes what the challengers leave it, rather than all.
        room = slots - np.where(choice.leader, 0, pulls).sum(axis=-1, keepdims=True)
        pulls = np.where(choice.leader & (room >= 0), np.minimum(pulls, room), pulls)
        return self.fitting(state, pulls, choice.leader)

    def _free(self, choice: Choice, clients: FloatArray) -> FloatArray:
        r"""Return how many pulls of the leader cost little beside the reports of all clients.

        A pull costs what the best arm is believed to be better: at most :math:`\sum_k E(X_k)^+` for
        normal :math:`X_k` with mean :math:`-d_k` and variance :math:`v_k + v_l`.
        """
        if self.cost == 0:
            return np.zeros_like(choice.variance)
        from scipy import special  # noqa: PLC0415 - slow to import, and rarely needed

        deviation = np.sqrt(
            choice.variance + _value_at(choice.leader, choice.variance, without=0.0)
        )
        behind = choice.behind / np.maximum(deviation, _TINY)
        density = np.exp(-(behind**2) / 2) / math.sqrt(2 * math.pi)
        excess = deviation * (density - behind * special.ndtr(-behind))
        risk = np.where(choice.rivals, np.maximum(excess, 0.0), 0.0).sum(axis=-1, keepdims=True)
        return np.asarray(_FREE_SHARE * self.cost * clients / np.maximum(risk, _TINY))

    def _of_leader(self, choice: Choice, wanted: FloatArray) -> FloatArray:
        """Return how many more pulls the leader gets, to be ahead of all or to be sure."""
        pulls = choice.pulls
        most = wanted.max(axis=-1, keepdims=True)
        lead = 1.0 / self.spare if self.spare else _LEAD
        catch_up = np.clip(lead * most - pulls, 0.0, (_LEADER_GROWTH - 1.0) * pulls)
        # Alone: as often as its lower end needs to be above every index, if nothing moves.
        highest_index = np.where(choice.rivals, choice.index, -np.inf).max(axis=-1, keepdims=True)
        above = np.maximum(choice.known.estimate.values - highest_index, 0.0)
        need = np.divide(choice.widths, above, out=np.full_like(above, np.inf), where=above > 0)
        alone = np.clip(need**2, _PACES[0][0], _LEADER_GROWTH) - 1.0
        return np.asarray(np.where(most > 0, catch_up, alone * pulls))


def _value_at(arm: BoolArray, values: FloatArray, without: float = -np.inf) -> FloatArray:
    """Return the value of one arm, with an axis of length 1 for the arms; −∞ without an arm."""
    found = np.where(arm, values, -np.inf).max(axis=-1, keepdims=True)
    return np.asarray(np.where(arm.any(axis=-1, keepdims=True), found, without))
