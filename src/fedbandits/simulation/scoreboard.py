"""The state of replications that are played together, and their results.

A row is a replication of a game. The driver plays the rows of one game, or of several in step, and
keeps the score here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedbandits.privacy.packing import payload_bits
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.phased import Charge, PhasedRule, cut_to_fit
from fedbandits.simulation.game import Game, PlayedGames, ledger_of
from fedbandits.simulation.in_step import rows_in_step


class Scoreboard:
    """The state of all rows; ``rows`` are those that continue.

    Parameters
    ----------
    games : sequence of Game
        What is played: one game, or several with one key of
        `fedbandits.simulation.in_step.key_in_step`.
    replications : array of int
        Of each of them, ascending.
    """

    def __init__(self, games: Sequence[Game], replications: IntArray) -> None:
        self.of_row, self.replications = rows_in_step(len(games), replications)
        self.played = games
        self.rules: list[PhasedRule] = [game.phased_rule() for game in games]
        # For all that rules in step have in common.
        self.rule = self.rules[0]
        n = self.of_row.size
        self.ledger = ledger_of(games, self.of_row)
        self.rows: IntArray = np.arange(n)
        self.active: BoolArray = np.ones((n, self.rule.n_arms), dtype=np.bool_)
        self.clients: IntArray = np.zeros(n, dtype=np.int64)
        self.phases: IntArray = np.zeros(n, dtype=np.int64)
        self.decision_slot: IntArray = np.full(n, -1, dtype=np.int64)
        self.winner: IntArray = np.full(n, -1, dtype=np.int64)
        self.capped: BoolArray = np.zeros(n, dtype=np.bool_)
        self.spent: BoolArray = np.zeros(n, dtype=np.bool_)
        self.uplink_bits: FloatArray = np.zeros(n)
        self.trace: list[FloatArray] | None = [] if games[0].trace else None

    def slots_left(self) -> IntArray:
        """Return what is left of the horizon, for the rows that continue."""
        return self.rule.slots - self.ledger.slot[self.rows]

    def play_out(self, over: BoolArray, planned: IntArray) -> None:
        """Let these rows play a phase that does not fit until the horizon, and end."""
        cut = cut_to_fit(planned[over], self.slots_left()[over])
        rows = self.rows[over]
        self.ledger.play(rows, cut, clients=self.clients[rows], complete=False)
        self.rows = self.rows[~over]

    def account(self, rows: IntArray, pulls: IntArray, bits: int, times: IntArray) -> None:
        """Enter phases that were played to their end: regret, and what was sent.

        Parameters
        ----------
        rows : array of int, shape (n,)
            The rows that played them.
        pulls : array of int, shape (n, arms)
            Of each client, in one phase.
        bits : int
            Of every mean that was sent.
        times : array of int, shape (n,)
            How many phases there were, all alike.
        """
        clients = self.clients[rows]
        self.ledger.play(rows, pulls, clients=clients, complete=True, times=times)
        if self.rule.charge is Charge.PHASE:
            bits_of = np.array([payload_bits(n, bits) for n in range(self.rule.n_arms + 1)])
            sent = bits_of[(pulls > 0).sum(axis=-1)]
        else:  # every observation by itself, or nothing at all
            sent = bits * pulls.sum(axis=-1) * (self.rule.charge is Charge.SLOT)
        self.uplink_bits[rows] += clients.astype(np.float64) * times * sent

    def remember(
        self, phase: int, rows: IntArray, estimates: FloatArray, done: IntArray, until: IntArray
    ) -> None:
        """Keep the estimates of some phases, if a trace was asked for; before they are decided.

        Parameters
        ----------
        phase : int
            The first of them.
        rows : array of int, shape (n,)
            The rows that they belong to.
        estimates : array, shape (phases, n, arms)
            After each phase.
        done, until : array of int, shape (n,)
            How many of them are known already, and up to which they are to be kept.
        """
        if self.trace is None:
            return
        for step, values in enumerate(estimates):
            at = phase - 1 + step
            if at == len(self.trace):
                self.trace.append(np.full(self.active.shape, np.nan))
            now = (done <= step) & (step < until)
            kept = np.where(self.active[rows[now]], values[now], np.nan)
            self.trace[at][rows[now]] = kept

    def end(self, phase: int, estimates: FloatArray) -> BoolArray:
        """Let rows that are decided or must stop stay on their arm; return which they are."""
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

    def played_games(self) -> list[PlayedGames]:
        """Return the results, game by game."""
        together = PlayedGames.of(
            self.ledger,
            clients=self.clients,
            phases=self.phases,
            decision_slot=self.decision_slot,
            winner=self.winner,
            capped=self.capped,
            spent=self.spent,
            uplink_bits=self.uplink_bits,
            clipped=np.zeros(self.capped.shape),
            trace=None
            if self.trace is None
            else np.array(self.trace[: self.phases.max()]).reshape(-1, *self.active.shape),
        )
        if len(self.played) == 1:
            return [together]
        return [
            together.part(np.flatnonzero(self.of_row == number))
            for number in range(len(self.played))
        ]
