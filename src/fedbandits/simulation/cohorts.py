"""Fidelity `cohorts`: the phase sum of each (cohort, arm), from its exact normal law.

With Gaussian noise and spread the average over a cohort of g clients of their local means is normal
with variance σ_c²/g, and the average of their sums over a phase of f pulls adds normal noise of
variance σ² f/g. Nothing else of a cohort enters a plain average, so the cost does not depend on how
many clients or pulls there are. Gaussian noise of standard deviation s on every released mean adds
s² f²/g to that; other errors of releases are played so only if a normal law may stand in for theirs
(`NormalPrivacy`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from fedbandits.problems.approximate import Approximate
from fedbandits.problems.laws import Gaussian
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.statistics import aggregate
from fedbandits.simulation.batch import OutOfMemoryLimitError
from fedbandits.simulation.game import Game
from fedbandits.simulation.phases import Played
from fedbandits.simulation.releases import Releases, deviation
from fedbandits.simulation.streams import REPLICATIONS_PER_BLOCK, Purpose, blocks_of

# Sums of so many (phase, replication, arm, cohort) at once; more or fewer take longer.
_FASTEST_AT_ONCE = 2**19


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
        self.rule = game.phased_rule()
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
        # Of arms that are active in some replication still, as are the local means and sums.
        self._arms: IntArray = np.arange(self.means.size)
        shape = (replications.size, self.means.size, 0)
        self._local: FloatArray = np.zeros(shape)
        self._noise_sums: FloatArray = np.zeros(shape)
        self._blocks = blocks_of(replications)
        self._releases = Releases(game)

    @property
    def most_phases(self) -> int:
        """As many as fit into the memory limit and, roughly, into the cache."""
        if self._releases.one_by_one:
            return 1
        most = min(self.memory_limit // 32, _FASTEST_AT_ONCE) // max(self._local.size, 1)
        return max(1, min(64, most))

    def admit(self, phase: int, clients: int, active: BoolArray) -> None:
        """Let a cohort of new clients in."""
        self._forget_arms(active)
        n, n_arms, n_groups = self._local.shape
        if 16 * n * n_arms * (n_groups + 1) > self.memory_limit and n > 1:
            raise OutOfMemoryLimitError
        local = np.broadcast_to(self.means[self._arms], (n, n_arms)).copy()
        if self.spread > 0:
            shift, deviation = self._cohort_law(clients)
            for rows, drawn in self._draw(Purpose.COHORT_MEANS, phase, active, (1, 1)):
                local[rows] += deviation * drawn[0, :, :, 0]
            local += shift
        self._local = np.append(self._local, local[:, :, np.newaxis], axis=2)
        self._noise_sums = np.pad(self._noise_sums, ((0, 0), (0, 0), (0, 1)))
        self.sizes = np.append(self.sizes, float(clients))
        self.counts = np.append(self.counts, 0.0)
        self._releases.admit(1)

    def play(self, phase: int, pulls: int, active: BoolArray, n_phases: int) -> Played:
        """Pull the active arms in one or several phases."""
        self._forget_arms(active)
        scale = self.noise * math.sqrt(pulls) / np.sqrt(self.sizes)
        counts = self.counts + float(pulls) * np.arange(1.0, n_phases + 1).reshape(-1, 1, 1, 1)
        releases = self._releases.play(phase, pulls, counts[:, 0, 0], self.sizes)
        error = deviation(releases, self._releases.privacy)
        if error > 0:
            scale = math.hypot(self.noise * math.sqrt(pulls), pulls * error) / np.sqrt(self.sizes)
        weights = self.rule.weights_of(counts, self.sizes, distortion=releases.distortion)
        estimates = np.zeros((n_phases, *active.shape))
        # Block by block, so that what is worked on stays in the cache.
        shape = (n_phases, self.sizes.size)
        for rows, drawn in self._draw(Purpose.COHORT_SUMS, phase, active, shape):
            np.multiply(drawn, scale, out=drawn)
            drawn[0] += self._noise_sums[rows]
            sums = np.cumsum(drawn, axis=0) if n_phases > 1 else drawn
            self._noise_sums[rows] = sums[-1]
            sums /= counts
            sums += self._local[rows]
            estimates[:, rows, self._arms] = aggregate(sums, weights=weights)
        self.counts = counts[-1].reshape(-1)
        return Played(estimates, counts, distortion=releases.distortion, bits=releases.bits)

    def keep(self, going: BoolArray) -> None:
        """Forget the replications that are over."""
        self.replications = self.replications[going]
        self._local, self._noise_sums = self._local[going], self._noise_sums[going]
        self._blocks = blocks_of(self.replications)

    def _forget_arms(self, active: BoolArray) -> None:
        """Forget the arms that are active in no replication any more."""
        some = active[:, self._arms].any(axis=0)
        if not some.all():
            self._arms = self._arms[some]
            self._local, self._noise_sums = self._local[:, some], self._noise_sums[:, some]

    def _draw(
        self, purpose: Purpose, phase: int, active: BoolArray, shape: tuple[int, int]
    ) -> Iterator[tuple[slice, FloatArray]]:
        """Yield rows with their standard normals, block by block.

        From ``phase`` on, shape (phases, rows, arms, groups), where ``shape`` is of phases and
        groups. Of an arm that is active nowhere in a block they are zeros.
        """
        n_phases, n_groups = shape
        for block, places, rows in self._blocks:
            needed = active[rows][:, self._arms].any(axis=0)
            # With one cohort, what comes after the last replication that is left need not be drawn.
            last = int(places[-1]) + 1 if n_groups == 1 else REPLICATIONS_PER_BLOCK
            drawn = np.zeros((n_phases, needed.size, n_groups, last))
            arms = [(at, int(self._arms[at])) for at in np.flatnonzero(needed).tolist()]
            for step in range(n_phases):
                for at, arm in arms:
                    rng = self.streams.at(purpose, replication=block, phase=phase + step, arm=arm)
                    rng.standard_normal(out=drawn[step, at])
            yield rows, drawn.transpose(0, 3, 1, 2)[:, places]

    def _cohort_law(self, clients: int) -> tuple[FloatArray | float, float]:
        """Return the expected deviation of the next cohort's average and its standard deviation.

        In a population that averages to the global mean exactly, those who are still out make up
        for those who are in.
        """
        if self.population is None:
            return 0.0, self.spread / math.sqrt(clients)
        out = self.population - float(self.sizes.sum())
        means = self.means[self._arms, np.newaxis]
        excess = ((self._local - means) * self.sizes).sum(axis=2)
        return -excess / out, self.spread * math.sqrt(max(1.0 / clients - 1.0 / out, 0.0))
