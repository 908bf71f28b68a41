"""Fidelity `cohorts`: the phase sum of each (cohort, arm), from its exact normal law.

With Gaussian noise and spread the average over a cohort of g clients of their local means is normal
with variance σ_c²/g, and the average of their sums over a phase of f pulls adds normal noise of
variance σ² f/g. Nothing else of a cohort enters a plain average, so the cost does not depend on how
many clients or pulls there are.
"""

from __future__ import annotations

import math

import numpy as np

from fedbandits.problems.approximate import Approximate
from fedbandits.problems.laws import Gaussian
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.statistics import aggregate
from fedbandits.simulation.game import Game
from fedbandits.simulation.phases import OutOfMemoryLimitError, Played
from fedbandits.simulation.streams import REPLICATIONS_PER_BLOCK, Purpose, blocks_of


class CohortEvidence:
    """Averages over cohorts, for many replications at once.

    Parameters
    ----------
    game : Game
        With Gaussian noise, and clients whose cohort averages are normal or known.
    replications : array of int
        Their numbers, ascending.
    """

    def __init__(self, game: Game, replications: IntArray) -> None:
        problem = game.played
        noise = problem.noise
        if not isinstance(noise, Gaussian):
            raise TypeError("cohorts need gaussian noise")
        self.noise = noise.sigma
        self.means = problem.means
        self.population = problem.population
        # A cohort of given clients is all of them, whose average is the global mean itself.
        self.spread = problem.spread_proxy if isinstance(problem, Approximate) else 0.0
        self.replications = replications
        self.streams = game.streams()
        self.memory_limit = game.memory_limit
        self.counts: FloatArray = np.zeros(0)
        self.sizes: FloatArray = np.zeros(0)
        shape = (replications.size, self.means.size, 0)
        self._local: FloatArray = np.zeros(shape)
        self._noise_sums: FloatArray = np.zeros(shape)
        self._ahead: FloatArray = np.zeros((1, *shape))
        self._counts_ahead: FloatArray = np.zeros((0, 0))
        self._blocks = blocks_of(replications)

    @property
    def most_phases(self) -> int:
        """As many as fit into the memory limit, and not so many that most are thrown away."""
        return max(1, min(64, self.memory_limit // (32 * max(self._local.size, 1))))

    def admit(self, phase: int, clients: int, active: BoolArray) -> None:
        """Let a cohort of new clients in."""
        n, n_arms, n_groups = self._local.shape
        if 16 * n * n_arms * (n_groups + 1) > self.memory_limit and n > 1:
            raise OutOfMemoryLimitError
        local = np.broadcast_to(self.means, (n, n_arms)).copy()
        if self.spread > 0:
            shift, deviation = self._cohort_law(clients)
            drawn = self._draw(Purpose.COHORT_MEANS, phase, active, 1)
            local += shift + deviation * drawn[:, :, 0]
        self._local = np.append(self._local, local[:, :, np.newaxis], axis=2)
        self._noise_sums = np.pad(self._noise_sums, ((0, 0), (0, 0), (0, 1)))
        self.sizes = np.append(self.sizes, float(clients))
        self.counts = np.append(self.counts, 0.0)

    def play(self, phase: int, pulls: int, active: BoolArray, n_phases: int) -> Played:
        """Pull the active arms in one or several phases."""
        scale = self.noise * math.sqrt(pulls) / np.sqrt(self.sizes)
        ahead = np.empty((n_phases + 1, *self._noise_sums.shape))
        ahead[0] = self._noise_sums
        for step in range(n_phases):
            drawn = self._draw(Purpose.COHORT_SUMS, phase + step, active, self.sizes.size)
            np.multiply(drawn, scale, out=ahead[step + 1])
        np.cumsum(ahead, axis=0, out=ahead)
        steps = np.arange(1.0, n_phases + 1).reshape(-1, 1, 1, 1)
        counts = self.counts + float(pulls) * steps
        self._ahead, self._counts_ahead = ahead, counts.reshape(n_phases, -1)
        estimates = aggregate(self._local + ahead[1:] / counts, weights=self.sizes)
        return Played(estimates, counts)

    def accept(self, n_phases: int) -> None:
        """Keep the first so many of the phases that were played last."""
        self._noise_sums = self._ahead[n_phases]
        self.counts = self._counts_ahead[n_phases - 1]

    def keep(self, going: BoolArray) -> None:
        """Forget the replications that are over."""
        self.replications = self.replications[going]
        self._local, self._noise_sums = self._local[going], self._noise_sums[going]
        self._blocks = blocks_of(self.replications)

    def _draw(self, purpose: Purpose, phase: int, active: BoolArray, n_groups: int) -> FloatArray:
        """Return standard normals, shape (replications, arms, groups), for active arms at least."""
        parts = []
        for block, places, rows in self._blocks:
            drawn = np.zeros((active.shape[1], n_groups, REPLICATIONS_PER_BLOCK))
            for arm in np.flatnonzero(active[rows].any(axis=0)).tolist():
                rng = self.streams.at(purpose, replication=block, phase=phase, arm=arm)
                rng.standard_normal(out=drawn[arm])
            parts.append(drawn.transpose(2, 0, 1)[places])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _cohort_law(self, clients: int) -> tuple[FloatArray | float, float]:
        """Return the expected deviation of the next cohort's average and its standard deviation.

        In a population that averages to the global mean exactly, those who are still out make up
        for those who are in.
        """
        if self.population is None:
            return 0.0, self.spread / math.sqrt(clients)
        out = self.population - float(self.sizes.sum())
        excess = ((self._local - self.means[:, np.newaxis]) * self.sizes).sum(axis=2)
        return -excess / out, self.spread * math.sqrt(max(1.0 / clients - 1.0 / out, 0.0))
