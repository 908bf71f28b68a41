"""Regret accounting: the paper's regret, exact at every point of a grid of slots.

Exploration regret of a slot in which M clients play arm k is M·(μ* − μ_k), with the true global
means; communication regret is C·M at the end of every phase that decides. Within a phase the active
arms are played in index order, so both curves are piecewise linear with jumps and are evaluated on
the grid without ever being laid out slot by slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedbandits.problems.problem import Problem, gaps_at
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.phased import LONGEST_HORIZON, Charge

_MANY_POINTS = 200
# This many numbers stay in the cache while they are worked on.
_IN_CACHE = 2**15


def make_grid(horizon: int | None, points: int) -> IntArray:
    """Return slots at which the curves are evaluated: evenly spaced, the horizon last.

    Of many points a sixteenth lies up to the fourth of these, spaced by a common factor: a game may
    be decided that early, and logarithmic axes show it. Without a horizon nobody knows how long a
    game takes, and all points are spaced like this.

    Examples
    --------
    >>> make_grid(1000, 4)
    array([ 250,  500,  750, 1000])
    >>> make_grid(3, 400)
    array([1, 2, 3])
    """
    if horizon is None:
        spaced = np.geomspace(1, LONGEST_HORIZON, points + 1)[1:]
        return np.unique(spaced.round().astype(np.int64))
    early = points // 16 if _MANY_POINTS <= points < horizon else 0
    points = min(points - early, horizon)
    steps = np.arange(1, points + 1, dtype=np.int64)
    # ceil(step * horizon / points), in integers and without overflow.
    whole, rest = divmod(horizon, points)
    even = steps * whole + -(-(steps * rest) // points)
    before = np.geomspace(max(1.0, even[0] / 8), min(4 * even[0], horizon), early + 1)[:-1]
    return np.union1d(before.round().astype(np.int64), even) if early else even


@dataclass(frozen=True, slots=True)
class Breakpoints:
    """Where the regret curves of one replication bend or jump, exactly; right-continuous."""

    slot: IntArray
    exploration: FloatArray
    communication: FloatArray


def at_rows(values: FloatArray, rows: IntArray | BoolArray | slice, axis: int = 0) -> FloatArray:
    """Return the values of some rows along an axis, or the one that all rows have."""
    if values.shape[axis] == 1:
        return values
    return values[rows] if axis == 0 else values[:, rows]


@dataclass(frozen=True, slots=True)
class Turn:
    """Slots in which all clients play one arm."""

    arm: int
    slots: int
    clients: int


def regret_of_turns(problem: Problem, turns: Sequence[Turn]) -> FloatArray:
    """Return the exploration regret after every slot of a game whose means change.

    It is against the arm that is the best in each slot.

    Parameters
    ----------
    problem : Problem
        What is true, and when.
    turns : sequence of Turn
        What is played, from the first slot to the horizon.

    Examples
    --------
    >>> from fedbandits.problems import Drifting, Gaussian
    >>> game = Drifting(first_means=[0, 1], means=[3, 1], begin=2, noise=Gaussian(1.0))
    >>> regret_of_turns(game, [Turn(0, 1, 5), Turn(1, 3, 5)]).tolist()
    [5.0, 5.0, 15.0, 25.0]
    """
    slots = [turn.slots for turn in turns]
    arms = np.repeat([turn.arm for turn in turns], slots)
    clients = np.repeat([float(turn.clients) for turn in turns], slots)
    parts = []
    for first in range(0, arms.size, _IN_CACHE):
        some = arms[first : first + _IN_CACHE]
        worse = gaps_at(problem, np.arange(first + 1, first + some.size + 1))
        parts.append(worse[np.arange(some.size), some])
    return np.asarray(np.cumsum(clients * np.concatenate(parts)))


class RegretLedger:
    """Adds up the regret of many replications as they are played.

    Parameters
    ----------
    gaps : array, shape (arms,) or (replications, arms)
        μ* − μ_k, the same in every replication or not.
    horizon : int, optional
        T.
    grid : array of int
        Ascending slots at which the curves are wanted; the last is the horizon.
    replications : int
        How many are kept.
    cost : float or array, shape (replications,)
        C.
    charge : Charge
        When communication is paid for.
    breakpoints : bool
        Whether to keep every point at which a curve bends or jumps as well.

    Examples
    --------
    Two clients play three arms for 10 slots each, then stay on the best until slot 100:

    >>> ledger = RegretLedger(
    ...     gaps=np.array([0.5, 0.25, 0.0]), horizon=100, grid=np.array([15, 100]),
    ...     replications=1, cost=1.0, charge=Charge.PHASE,
    ... )
    >>> row = np.array([0])
    >>> ledger.play(row, np.array([[10, 10, 10]]), clients=2, complete=True)
    >>> ledger.stay(row, np.array([2]), clients=2)
    >>> ledger.exploration_curves, ledger.communication_curves
    (array([[12.5, 15. ]]), array([[0., 2.]]))
    """

    def __init__(
        self,
        *,
        gaps: FloatArray,
        horizon: int | None,
        grid: IntArray,
        replications: int,
        cost: float | FloatArray,
        charge: Charge,
        breakpoints: bool = False,
    ) -> None:
        # With an axis of length 1 for what is the same in every replication.
        self.gaps: FloatArray = gaps.reshape(-1, gaps.shape[-1])
        self.horizon = LONGEST_HORIZON if horizon is None else horizon
        self.stops = horizon is None
        self.grid = grid
        self.cost: FloatArray = np.reshape(cost, -1)
        self.charge = charge
        self.slot: IntArray = np.zeros(replications, dtype=np.int64)
        self.exploration_curves: FloatArray = np.zeros((replications, grid.size))
        self.communication_curves: FloatArray = np.zeros((replications, grid.size))
        # Whole numbers, so that they do not depend on how phases are grouped: client-slots on each
        # arm, and client-messages. Exact below 2^53, which is nine million clients for 10^9 slots.
        self._plays: FloatArray = np.zeros((replications, gaps.shape[-1]))
        self._messages: FloatArray = np.zeros(replications)
        self._cursor: IntArray = np.zeros(replications, dtype=np.int64)
        # Of every replication, if they are to be kept.
        self._points = [[(0, 0.0, 0.0)] for _ in range(replications if breakpoints else 0)]

    @property
    def exploration(self) -> FloatArray:
        """Exploration regret so far."""
        return self._regret(self._plays, np.arange(self.slot.size))

    @property
    def communication(self) -> FloatArray:
        """Communication regret so far."""
        return self.cost * self._messages

    def play(
        self,
        rows: IntArray,
        pulls: IntArray,
        *,
        clients: int | IntArray,
        complete: bool | BoolArray,
        times: int | IntArray = 1,
    ) -> None:
        """Account for a phase, or for several that are alike.

        Parameters
        ----------
        rows : array of int, shape (n,)
            The replications that play it.
        pulls : array of int, shape (n, arms)
            Slots on each arm, in index order, cut to what is left of the horizon.
        clients : int or array of int, shape (n,)
            M(p).
        complete : bool or array of bool, shape (n,)
            Whether the phase is played to its end; else nothing is sent at its end.
        times : int or array of int, shape (n,)
            How often it is played.
        """
        clients = np.broadcast_to(clients, rows.shape)
        complete = np.broadcast_to(complete, rows.shape)
        slots = times * pulls.sum(axis=-1)
        stop = self.slot[rows] + slots
        reached = self.grid.searchsorted(stop, side="right")
        first = self._cursor[rows]
        if (reached > first).any():
            # Until a replication drops an arm all are alike: one of them is drawn for the others.
            before = (stop, self._plays.take(rows, axis=0), self._messages[rows])
            alike = len(self.gaps) == len(self.cost) == 1 and all(
                (values == values[0]).all()
                for values in (*before, reached, clients, complete, pulls)
            )
            some = slice(1 if alike else None)
            self._draw(rows[some], pulls[some], reached[some], clients[some], complete[some])
            if alike:
                points = slice(first[0], reached[0])
                for curves in (self.exploration_curves, self.communication_curves):
                    curves[rows[1:], points] = curves[rows[0], points]
        if self._points:
            for i, n in enumerate(np.broadcast_to(times, rows.shape).tolist()):
                for _ in range(n):
                    self._keep_points(int(rows[i]), pulls[i], int(clients[i]), bool(complete[i]))
        self.slot[rows] = stop
        client_phases = clients.astype(np.float64) * times
        self._plays[rows] += client_phases[:, np.newaxis] * pulls
        self._messages[rows] += self._sent(clients, times * complete, slots)
        self._cursor[rows] = reached

    def stay(self, rows: IntArray, arms: IntArray, *, clients: int | IntArray) -> None:
        """Account for all clients staying on an arm until the horizon, without communication.

        Without a horizon the game is over, and nothing more is counted.
        """
        start = self.slot[rows]
        clients = np.broadcast_to(0 if self.stops else clients, rows.shape).astype(np.float64)
        gaps = np.broadcast_to(at_rows(self.gaps, rows), (rows.size, self.gaps.shape[1]))
        slope = clients * gaps[np.arange(rows.size), arms]
        before, sent = self._regret(self._plays[rows], rows), self.communication[rows]
        at_once = max(1, _IN_CACHE // self.grid.size)
        for begin in range(0, rows.size, at_once):
            some = slice(begin, begin + at_once)
            row = rows[some]
            beyond = self.grid - start[some, np.newaxis]
            exploration = before[some, np.newaxis] + slope[some, np.newaxis] * beyond
            for curves, values in (
                (self.exploration_curves, exploration),
                (self.communication_curves, sent[some, np.newaxis]),
            ):
                curves[row] = np.where(beyond > 0, values, curves[row])
        self._plays[rows, arms] += clients * (self.horizon - start).astype(np.float64)
        self.slot[rows] = self.horizon
        self._cursor[rows] = self.grid.size
        if self._points:
            after = self._regret(self._plays[rows], rows)
            for i, at in enumerate(rows.tolist()):
                self._points[at].append((self.horizon, float(after[i]), float(sent[i])))

    def breakpoints(self) -> list[Breakpoints]:
        """Return the breakpoints of every replication, if they were kept."""
        kept = [np.array(points).T for points in self._points]
        return [Breakpoints(slots.astype(np.int64), *curves) for slots, *curves in kept]

    def _regret(self, plays: FloatArray, rows: IntArray) -> FloatArray:
        return np.asarray((plays * at_rows(self.gaps, rows)).sum(axis=-1))

    def _sent(self, clients: IntArray, ends: FloatArray | IntArray, slots: IntArray) -> FloatArray:
        """Return how many messages are charged for these ends of phases and slots."""
        charged = {Charge.PHASE: ends, Charge.SLOT: slots, Charge.NOTHING: np.zeros_like(slots)}
        return charged[self.charge].astype(np.float64) * clients

    def _draw(
        self,
        rows: IntArray,
        pulls: IntArray,
        reached: IntArray,
        clients: IntArray,
        complete: BoolArray,
    ) -> None:
        """Evaluate the curves at the grid points that lie in these phases."""
        first = self._cursor[rows]
        times = reached - first
        at = np.repeat(np.arange(rows.size), times)
        points = np.arange(at.size) - np.repeat(times.cumsum() - times, times) + first[at]
        row, length = rows[at], pulls.sum(axis=-1)[at]
        since = self.grid[points] - self.slot[row]
        # This many phases lie behind; the point is in the next one, at its last slot at the latest.
        behind = (since - 1) // length
        into = since - behind * length
        # Client-slots on each arm lie between those before the open phase and those after it. All
        # numbers are whole, and exact as floats; a point costs no more than this, as there may be
        # very many of them.
        client = clients.astype(np.float64)
        whole = client[:, np.newaxis] * pulls
        low = self._plays.take(rows, axis=0)
        high = low + whole
        from_here = (high - whole.cumsum(axis=-1)).take(at, axis=0)
        low, high = low.take(at, axis=0), high.take(at, axis=0)
        if behind.any():
            passed = behind[:, np.newaxis] * whole[at]
            from_here, low, high = from_here + passed, low + passed, high + passed
        plays = np.add(from_here, (client[at] * into)[:, np.newaxis], out=from_here)
        np.minimum(np.maximum(plays, low, out=plays), high, out=plays)
        self.exploration_curves[row, points] = self._regret(plays, row)
        ended = behind + (complete[at] & (into == length))
        messages = self._messages[row] + self._sent(clients[at], ended, since)
        self.communication_curves[row, points] = at_rows(self.cost, row) * messages

    def _keep_points(self, row: int, pulls: IntArray, clients: int, complete: bool) -> None:
        """Keep every bend and jump of one more phase."""
        points = self._points[row]
        slot, exploration, communication = points[-1]
        cost = float(at_rows(self.cost, np.array([row]))[0])
        gaps = at_rows(self.gaps, np.array([row]))[0].tolist()
        for n, gap in zip(pulls.tolist(), gaps, strict=True):
            if n:
                slot += n
                exploration += clients * n * gap
                if self.charge is Charge.SLOT:
                    communication += cost * clients * n
                points.append((slot, exploration, communication))
        if complete and self.charge is Charge.PHASE:
            points.append((slot, exploration, communication + cost * clients))
