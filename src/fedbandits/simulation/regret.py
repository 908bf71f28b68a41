"""Regret accounting: the paper's regret, exact at every point of a grid of slots.

Exploration regret of a slot in which M clients play arm k is M·(μ* − μ_k), with the true global
means; communication regret is C·M at the end of every phase that decides. Within a phase the active
arms are played in index order, so both curves are piecewise linear with jumps and are evaluated on
the grid without ever being laid out slot by slot.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.phased import Charge


def make_grid(horizon: int, points: int) -> IntArray:
    """Return slots at which the curves are evaluated: evenly spaced, the horizon last.

    Examples
    --------
    >>> make_grid(1000, 4)
    array([ 250,  500,  750, 1000])
    >>> make_grid(3, 400)
    array([1, 2, 3])
    """
    points = min(points, horizon)
    steps = np.arange(1, points + 1, dtype=np.int64)
    # ceil(step * horizon / points), in integers and without overflow.
    whole, rest = divmod(horizon, points)
    return steps * whole + -(-(steps * rest) // points)


@dataclass(frozen=True, slots=True)
class Breakpoints:
    """Where the regret curves of one replication bend or jump, exactly; right-continuous."""

    slot: IntArray
    exploration: FloatArray
    communication: FloatArray


class RegretLedger:
    """Adds up the regret of many replications as they are played.

    Parameters
    ----------
    gaps : array, shape (arms,)
        μ* − μ_k.
    horizon : int
        T.
    grid : array of int
        Ascending slots at which the curves are wanted; the last is the horizon.
    replications : int
        How many are kept.
    cost : float
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
    >>> ledger.play(row, np.array([[10, 10, 10]]), clients=2, complete=np.array([True]))
    >>> ledger.stay(row, np.array([2]), clients=2)
    >>> ledger.exploration_curves, ledger.communication_curves
    (array([[12.5, 15. ]]), array([[0., 2.]]))
    """

    def __init__(
        self,
        *,
        gaps: FloatArray,
        horizon: int,
        grid: IntArray,
        replications: int,
        cost: float,
        charge: Charge,
        breakpoints: bool = False,
    ) -> None:
        self.gaps = gaps
        self.horizon = horizon
        self.grid = grid
        self.cost_at_end = cost if charge is Charge.PHASE else 0.0
        self.cost_a_slot = cost if charge is Charge.SLOT else 0.0
        self.slot: IntArray = np.zeros(replications, dtype=np.int64)
        self.exploration: FloatArray = np.zeros(replications)
        self.communication: FloatArray = np.zeros(replications)
        self.exploration_curves: FloatArray = np.zeros((replications, grid.size))
        self.communication_curves: FloatArray = np.zeros((replications, grid.size))
        self._cursor: IntArray = np.zeros(replications, dtype=np.int64)
        self._points: list[list[tuple[int, float, float]]] | None = (
            [[(0, 0.0, 0.0)] for _ in range(replications)] if breakpoints else None
        )

    def play(self, rows: IntArray, pulls: IntArray, *, clients: int, complete: BoolArray) -> None:
        """Account for a phase.

        Parameters
        ----------
        rows : array of int, shape (n,)
            The replications that play it.
        pulls : array of int, shape (n, arms)
            Slots on each arm, in index order, cut to what is left of the horizon.
        clients : int
            M(p).
        complete : array of bool, shape (n,)
            Whether the phase is played to its end; else it costs no communication at its end.
        """
        start = self.slot[rows]
        ends = pulls.cumsum(axis=-1)
        regrets = (pulls * self.gaps).cumsum(axis=-1)
        stop = start + ends[:, -1]
        reached = self.grid.searchsorted(stop, side="right")
        if (reached > self._cursor[rows]).any():
            points, since, at = self._points_in_phase(rows, start, reached)
            arm = (ends[at] < since[:, np.newaxis]).sum(axis=1)
            into_arm = since - (ends - pulls)[at, arm]
            done = regrets[at, arm] - self.gaps[arm] * (pulls[at, arm] - into_arm)
            at_end = complete[at] & (since == ends[at, -1])
            paid = self.cost_at_end * at_end + self.cost_a_slot * since
            row = rows[at]
            self.exploration_curves[row, points] = self.exploration[row] + clients * done
            self.communication_curves[row, points] = self.communication[row] + clients * paid
        if self._points is not None:
            self._keep_points(rows, pulls, clients, complete)
        self.slot[rows] = stop
        self.exploration[rows] += clients * regrets[:, -1]
        paid = self.cost_at_end * complete + self.cost_a_slot * ends[:, -1]
        self.communication[rows] += clients * paid
        self._cursor[rows] = reached

    def stay(self, rows: IntArray, arms: IntArray, *, clients: int) -> None:
        """Account for all clients staying on an arm until the horizon, without communication."""
        start = self.slot[rows]
        slope = clients * self.gaps[arms]
        later = self.grid > start[:, np.newaxis]
        beyond = self.grid - start[:, np.newaxis]
        exploration = self.exploration[rows, np.newaxis] + slope[:, np.newaxis] * beyond
        self.exploration_curves[rows] = np.where(later, exploration, self.exploration_curves[rows])
        self.communication_curves[rows] = np.where(
            later, self.communication[rows, np.newaxis], self.communication_curves[rows]
        )
        self.exploration[rows] += slope * (self.horizon - start)
        self.slot[rows] = self.horizon
        self._cursor[rows] = self.grid.size
        if self._points is not None:
            for row in rows:
                self._keep_point(row, self.horizon, self.exploration[row], self.communication[row])

    def breakpoints(self) -> list[Breakpoints]:
        """Return the breakpoints of every replication, if they were kept."""
        return [
            Breakpoints(
                np.array([slot for slot, _, _ in points], dtype=np.int64),
                np.array([exploration for _, exploration, _ in points]),
                np.array([communication for _, _, communication in points]),
            )
            for points in self._points or ()
        ]

    def _points_in_phase(
        self, rows: IntArray, start: IntArray, reached: IntArray
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Return the grid points that lie in a phase: which, how many slots into it, whose."""
        first = self._cursor[rows]
        times = reached - first
        at = np.repeat(np.arange(rows.size), times)
        before = np.repeat(times.cumsum() - times, times)
        points = np.arange(at.size) - before + first[at]
        return points, self.grid[points] - start[at], at

    def _keep_points(
        self, rows: IntArray, pulls: IntArray, clients: int, complete: BoolArray
    ) -> None:
        for row, row_pulls, row_complete in zip(rows, pulls, complete, strict=True):
            slot = int(self.slot[row])
            exploration, communication = self.exploration[row], self.communication[row]
            for n, gap in zip(row_pulls.tolist(), self.gaps.tolist(), strict=True):
                if n:
                    slot += n
                    exploration += clients * n * gap
                    communication += clients * self.cost_a_slot * n
                    self._keep_point(row, slot, exploration, communication)
            if row_complete and self.cost_at_end:
                self._keep_point(row, slot, exploration, communication + clients * self.cost_at_end)

    def _keep_point(self, row: int, slot: int, exploration: float, communication: float) -> None:
        if self._points is not None:
            self._points[row].append((slot, float(exploration), float(communication)))
