"""Fidelity `clients`: the phase sum of each (client, arm), from its exact law.

Clients are drawn one by one; a phase's pulls of an arm by a client are one draw: normal, binomial
or multinomial.
"""

from __future__ import annotations

import numpy as np

from fedbandits.errors import InputError
from fedbandits.problems.problem import ClientSampler
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.statistics import aggregate
from fedbandits.simulation.game import Game
from fedbandits.simulation.phases import OutOfMemoryLimitError
from fedbandits.simulation.streams import Purpose

_BYTES_A_CLIENT_AND_ARM = 3 * 8


class _Replication:
    """The clients of one replication: local means and sums so far, shape (arms, room)."""

    def __init__(self, sampler: ClientSampler, number: int, n_arms: int) -> None:
        self.sampler = sampler
        self.number = number
        self.means: FloatArray = np.empty((n_arms, 0))
        self.sums: FloatArray = np.empty((n_arms, 0))
        self.cells: IntArray | None = None

    def admit(self, clients: int) -> None:
        drawn = self.sampler.draw(clients)
        self.means = np.append(self.means, drawn.means, axis=1)
        self.sums = np.pad(self.sums, ((0, 0), (0, clients)))
        if drawn.cells is not None:
            known = drawn.cells[:, :0] if self.cells is None else self.cells
            self.cells = np.append(known, drawn.cells, axis=1)


class ClientEvidence:
    """The statistics of every client, replication by replication.

    Parameters
    ----------
    game : Game
        With a noise law whose sums have a closed form.
    replications : array of int
        Their numbers.
    """

    def __init__(self, game: Game, replications: IntArray) -> None:
        problem = game.played
        self.noise = problem.noise
        self.n_arms = problem.means.size
        self.streams = game.streams()
        self.memory_limit = game.memory_limit
        self.counts: FloatArray = np.zeros(0)
        self._kept = [
            _Replication(problem.sampler(self.streams.sources(number)), number, self.n_arms)
            for number in replications.tolist()
        ]

    @property
    def sizes(self) -> FloatArray:
        """One client a group."""
        return np.ones(1)

    def admit(self, phase: int, clients: int) -> None:
        """Let new clients in."""
        self.counts = np.append(self.counts, np.zeros(clients))
        a_replication = self.counts.size * self.n_arms * _BYTES_A_CLIENT_AND_ARM
        if a_replication * len(self._kept) > self.memory_limit:
            if len(self._kept) > 1:
                raise OutOfMemoryLimitError
            raise InputError(
                "memory_limit",
                f"one replication with {self.counts.size:,} clients and {self.n_arms} arms takes "
                f"{a_replication / 2**20:,.0f} MiB, and a process may take "
                f"{self.memory_limit / 2**20:,.0f} MiB; raise it, or lower max_clients",
            )
        for replication in self._kept:
            replication.admit(clients)

    def play(self, phase: int, pulls: int, active: BoolArray) -> FloatArray:
        """Pull the active arms and return the estimates."""
        self.counts = self.counts + float(pulls)
        share = 1.0 / self.counts
        estimates = np.zeros(active.shape)
        for row, state in enumerate(self._kept):
            for arm in np.flatnonzero(active[row]).tolist():
                rng = self.streams.at(
                    Purpose.PHASE_SUMS, replication=state.number, phase=phase, arm=arm
                )
                cells = None if state.cells is None else state.cells[arm]
                sums = state.sums[arm]
                sums += self.noise.phase_sums(rng, pulls, state.means[arm], cells)
                estimates[row, arm] = aggregate(sums * share)
        return estimates

    def keep(self, going: BoolArray) -> None:
        """Forget the replications that are over."""
        self._kept = [
            state for state, stays in zip(self._kept, going.tolist(), strict=True) if stays
        ]
