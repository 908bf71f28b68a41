"""Replications that are played in step: how each of them stands, and what came out of all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedbandits.privacy.packing import payload_bits
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.phased import Charge, PhasedRule, cut_to_fit
from fedbandits.simulation.game import Game, Outcome


class OutOfMemoryLimitError(Exception):
    """The statistics of these replications together would exceed the memory limit."""


def in_parts(play: Callable[[IntArray], Outcome], replications: IntArray) -> Outcome:
    """Play replications together, or in halves where they exceed the memory limit.

    Streams are keyed by replication, so that a batch can be begun again in parts.
    """
    try:
        return play(replications)
    except OutOfMemoryLimitError:
        half = replications.size // 2
        parts = (replications[:half], replications[half:])
        return Outcome.joined([in_parts(play, part) for part in parts])


class Batch:
    """How all replications of a batch stand; ``rows`` are those that go on.

    Wherever clients are counted it is one number for all rows, or an array with one for each.

    Parameters
    ----------
    game : Game
        What is played.
    rule : PhasedRule
        What decides.
    replications : int
        How many.
    """

    def __init__(self, game: Game, rule: PhasedRule, replications: int) -> None:
        self.rule = rule
        self.ledger = game.ledger(replications)
        self.rows: IntArray = np.arange(replications)
        self.active: BoolArray = np.ones((replications, rule.n_arms), dtype=np.bool_)
        self.clients: IntArray = np.zeros(replications, dtype=np.int64)
        self.phases: IntArray = np.zeros(replications, dtype=np.int64)
        self.decision_slot: IntArray = np.full(replications, -1, dtype=np.int64)
        self.winner: IntArray = np.full(replications, -1, dtype=np.int64)
        self.capped: BoolArray = np.zeros(replications, dtype=np.bool_)
        self.spent: BoolArray = np.zeros(replications, dtype=np.bool_)
        self.uplink_bits: FloatArray = np.zeros(replications)
        self.trace: list[FloatArray] | None = [] if game.trace else None

    def slots_left(self) -> IntArray:
        """Return what is left of the horizon, for the rows that go on."""
        return self.rule.slots - self.ledger.slot[self.rows]

    def play_out(self, over: BoolArray, planned: IntArray) -> None:
        """Let these rows play a phase that does not fit up to the horizon, and end."""
        cut = cut_to_fit(planned[over], self.slots_left()[over])
        rows = self.rows[over]
        self.ledger.play(rows, cut, clients=self.clients[rows], complete=~over[over])
        self.rows = self.rows[~over]

    def account(self, rows: IntArray, pulls: IntArray, bits: int, times: IntArray) -> None:
        """Enter phases that were played to their end: regret, and what was sent.

        Parameters
        ----------
        rows : array of int, shape (n,)
            Who played them.
        pulls : array of int, shape (n, arms)
            Of each client, in one phase.
        bits : int
            Of every mean that was sent.
        times : array of int, shape (n,)
            How many phases there were, all alike.
        """
        clients = self.clients[rows]
        everyone = np.ones(rows.size, dtype=np.bool_)
        self.ledger.play(rows, pulls, clients=clients, complete=everyone, times=times)
        if self.rule.charge is Charge.PHASE:
            bits_of = np.array([payload_bits(n, bits) for n in range(self.rule.n_arms + 1)])
            sent = bits_of[(pulls > 0).sum(axis=-1)]
        else:  # every observation by itself, or nothing at all
            sent = bits * pulls.sum(axis=-1) * (self.rule.charge is Charge.SLOT)
        self.uplink_bits[rows] += clients.astype(np.float64) * times * sent

    def decide(
        self,
        rows: IntArray,
        phases: int | IntArray,
        stays: BoolArray,
        best: IntArray,
        settled: BoolArray,
    ) -> None:
        """Enter what the last of some phases has decided; their slots are accounted for.

        Parameters
        ----------
        rows : array of int, shape (n,)
            For whom.
        phases : int or array of int, shape (n,)
            The last phase.
        stays : array of bool, shape (n, arms)
            The arms that stay.
        best : array of int, shape (n,)
            The best of them.
        settled : array of bool, shape (n,)
            Whether it is the winner.
        """
        self.active[rows] = stays
        self.phases[rows] = phases
        self.decision_slot[rows[settled]] = self.ledger.slot[rows[settled]]
        self.winner[rows[settled]] = best[settled]

    def end(self, phase: int, estimates: FloatArray) -> BoolArray:
        """Let rows that are decided or may not go on stay on their arm; return which they are."""
        rows = self.rows
        over: BoolArray = self.winner[rows] >= 0
        if self.rule.ends_after(phase):
            self.capped[rows] |= ~over & (phase == self.rule.max_phases)
            self.spent[rows] |= ~over & self.rule.spent_after(phase)
            over = np.ones_like(over)
        # A phase that ends with the last slot decides, and none follows.
        over |= self.ledger.slot[rows] == self.rule.slots
        if over.any():
            ending = rows[over]
            best = self.rule.best(estimates[over], self.active[ending])
            winner = self.winner[ending]
            on = np.where(winner < 0, best, winner)
            self.ledger.stay(ending, on, clients=self.clients[ending])
            self.rows = rows[~over]
        return over

    def outcome(self) -> Outcome:
        """Return what came out."""
        return Outcome(
            exploration=self.ledger.exploration,
            communication=self.ledger.communication,
            clients=self.clients,
            phases=self.phases,
            decision_slot=self.decision_slot,
            winner=self.winner,
            capped=self.capped,
            spent=self.spent,
            uplink_bits=self.uplink_bits,
            clipped=np.zeros(self.capped.shape),
            exploration_curves=self.ledger.exploration_curves,
            communication_curves=self.ledger.communication_curves,
            trace=None
            if self.trace is None
            else np.array(self.trace[: self.phases.max()]).reshape(-1, *self.active.shape),
            breakpoints=tuple(self.ledger.breakpoints()),
        )
