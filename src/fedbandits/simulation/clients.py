"""Fidelity `clients`: the phase sum of each (client, arm), from its exact law.

Clients are drawn one by one; a phase's pulls of an arm by a client are one draw: normal, binomial
or multinomial.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fedbandits.errors import InputError
from fedbandits.problems.problem import ClientSampler
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.statistics import aggregate
from fedbandits.simulation.game import Game
from fedbandits.simulation.phases import OutOfMemoryLimitError, Played
from fedbandits.simulation.streams import Purpose

_BYTES_A_CLIENT_AND_ARM = 3 * 8


class _Replication:
    """The clients of one replication: for every arm their local means and their sums so far.

    An arm that is out is left as it was: it is never read again.
    """

    def __init__(self, sampler: ClientSampler, number: int, n_arms: int) -> None:
        self.sampler = sampler
        self.number = number
        self.means = [np.empty(0) for _ in range(n_arms)]
        self.sums = [np.empty(0) for _ in range(n_arms)]
        self.cells: list[IntArray | None] = [None] * n_arms

    def admit(self, clients: int, arms: list[int]) -> None:
        drawn = self.sampler.draw(clients, arms)
        zeros = np.zeros(clients)
        for arm in arms:
            self.means[arm] = np.concatenate((self.means[arm], drawn.means[arm]))
            self.sums[arm] = np.concatenate((self.sums[arm], zeros))
            if drawn.cells is not None:
                known, new = self.cells[arm], drawn.cells[arm]
                self.cells[arm] = new if known is None else np.concatenate((known, new))


class ClientEvidence:
    """The statistics of every client, replication by replication.

    Parameters
    ----------
    game : Game
        With a noise law whose sums have a closed form.
    replications : array of int
        Their numbers.
    """

    # Several phases at once would need as many sums of every client.
    most_phases: ClassVar[int] = 1

    def __init__(self, game: Game, replications: IntArray) -> None:
        self.problem = game.played
        self.rule = game.phased_rule()
        self.streams = game.streams()
        self.memory_limit = game.memory_limit
        self.numbers = replications.tolist()
        self.counts: FloatArray = np.zeros(0)
        self._kept: list[_Replication] = []

    @property
    def sizes(self) -> FloatArray:
        """One client a group."""
        return np.ones(1)

    def admit(self, phase: int, clients: int, active: BoolArray) -> None:
        """Let new clients in."""
        self.counts = np.append(self.counts, np.zeros(clients))
        self._check_memory(active)
        if not self._kept:
            self._kept = [
                _Replication(
                    self.problem.sampler(self.streams.sources(number)), number, active.shape[1]
                )
                for number in self.numbers
            ]
        for replication, arms in zip(self._kept, active, strict=True):
            replication.admit(clients, np.flatnonzero(arms).tolist())

    def play(self, phase: int, pulls: int, active: BoolArray, n_phases: int) -> Played:
        """Pull the active arms in one phase."""
        self.counts = self.counts + float(pulls)
        share = 1.0 / self.counts
        room = np.empty(share.shape)
        noise = self.problem.noise
        # None is faster, and the same.
        equal = self.rule.weights == "equal"
        weights = None if equal else self.rule.weights_of(self.counts)
        estimates = np.zeros((1, *active.shape))
        apart = None
        if self.rule.radius.needs_clients:
            apart = np.zeros((1, *active.shape, self.counts.size))
        for row, state in enumerate(self._kept):
            for arm in np.flatnonzero(active[row]).tolist():
                rng = self.streams.at(
                    Purpose.PHASE_SUMS, replication=state.number, phase=phase, arm=arm
                )
                sums = state.sums[arm]
                sums += noise.phase_sums(rng, pulls, state.means[arm], state.cells[arm], room)
                means = np.multiply(sums, share, out=room)
                estimates[0, row, arm] = aggregate(means, weights)
                if apart is not None:
                    apart[0, row, arm] = means
        return Played(estimates, self.counts.reshape(1, 1, 1, -1), apart)

    def keep(self, going: BoolArray) -> None:
        """Forget the replications that are over."""
        self._kept = [
            state for state, stays in zip(self._kept, going.tolist(), strict=True) if stays
        ]

    def _check_memory(self, active: BoolArray) -> None:
        """Refuse to hold more than the limit: in parts if that helps, else say so."""
        n, n_arms = active.shape
        held = self.counts.size * _BYTES_A_CLIENT_AND_ARM
        if self.rule.radius.needs_clients:
            held *= 3  # all means at once, their copy for active arms, and deviations from them
        if self.problem.population is not None:
            held += self.problem.population * 8  # drawn all at once
        a_replication = held * n_arms
        if n * a_replication <= self.memory_limit:
            return
        if n > 1:
            raise OutOfMemoryLimitError
        raise InputError(
            "memory_limit",
            f"one replication with {self.counts.size:,} clients and {n_arms} arms takes "
            f"{a_replication / 2**20:,.0f} MiB, and a process may take "
            f"{self.memory_limit / 2**20:,.0f} MiB; raise it, or lower max_clients",
        )
