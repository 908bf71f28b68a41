"""Fidelity `cohorts` for index rules: the phase sum of each (cohort, arm), from its normal law.

As in `fedbandits.simulation.cohorts`, but every replication has cohorts and counts of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.reports import Reports
from fedbandits.simulation.adaptive import Gathered
from fedbandits.simulation.adaptive_releases import AdaptiveReleases
from fedbandits.simulation.game import Game
from fedbandits.simulation.memory_limit import OutOfMemoryLimitError
from fedbandits.simulation.releases import deviation
from fedbandits.simulation.streams import REPLICATIONS_PER_BLOCK, Purpose, blocks_of

# Local means, sums and counts, and what is computed from them.
_BYTES_A_COHORT_AND_ARM = 8 * 8


class AdaptiveCohorts:
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
        self.rule = game.phased_rule()
        self.noise = game.played.cohort_law.noise
        self.means = problem.means
        self.population = problem.population
        self.spread = game.played.cohort_law.spread
        self.replications = replications
        self.streams = game.streams()
        self.memory_limit = game.memory_limit
        self._blocks = blocks_of(replications)
        shape = (replications.size, self.means.size, 0)
        self._groups: IntArray = np.zeros(replications.size, dtype=np.int64)
        self._sizes: FloatArray = np.zeros((replications.size, 1, 0))
        self._local: FloatArray = np.zeros(shape)
        self._noise_sums: FloatArray = np.zeros(shape)
        self._counts: FloatArray = np.zeros(shape)
        self._releases = AdaptiveReleases(game, replications.size)

    def admit(self, phase: int, newcomers: IntArray) -> None:
        """Let a cohort of new clients into some of the replications."""
        joined = newcomers > 0
        n, n_arms, room = self._local.shape
        if self._groups[joined].max() == room:
            if _BYTES_A_COHORT_AND_ARM * n * n_arms * (room + 1) > self.memory_limit and n > 1:
                raise OutOfMemoryLimitError
            wider = ((0, 0), (0, 0), (0, 1))
            self._sizes = np.pad(self._sizes, wider)
            self._local = np.pad(self._local, wider)
            self._noise_sums = np.pad(self._noise_sums, wider)
            self._counts = np.pad(self._counts, wider)
            self._releases.admit(1)
        rows = np.flatnonzero(joined)
        local = np.broadcast_to(self.means, (n, n_arms)).copy()
        if self.spread > 0:
            shift, scale = self._cohort_law(newcomers)
            needed = np.broadcast_to(joined[:, np.newaxis], (n, n_arms))
            for part, arm, drawn in self._draw(Purpose.COHORT_MEANS, phase, needed, 1):
                local[part, arm] += scale[part] * drawn[0]
            local += shift
        self._local[rows, :, self._groups[rows]] = local[rows]
        self._sizes[rows, 0, self._groups[rows]] = newcomers[rows]
        self._groups[rows] += 1

    def play(self, phase: int, pulls: IntArray, active: BoolArray) -> Gathered:
        """Let every client pull each arm so often."""
        present = self._sizes > 0
        fresh = pulls[:, :, np.newaxis] * present
        how = self._releases.play(phase, pulls, fresh)
        variance = self.noise**2 * fresh
        if how:
            errors = np.array([deviation(one, self._releases.privacy) for one in how])
            variance = variance + (fresh * errors[:, np.newaxis, np.newaxis]) ** 2
        scale = np.sqrt(variance / np.where(present, self._sizes, 1.0))
        n_groups = self._local.shape[2]
        for part, arm, drawn in self._draw(Purpose.COHORT_SUMS, phase, pulls > 0, n_groups):
            self._noise_sums[part, arm] += scale[part, arm] * drawn.T
        self._counts = self._counts + fresh
        reports = Reports(
            counts=self._counts,
            active=active,
            means=self._local + self._noise_sums / np.maximum(self._counts, 1.0),
            sizes=self._sizes,
            distortion=self._releases.distortion(self._counts),
        )
        return Gathered(estimate=self.rule.estimate(reports), bits=self._releases.bits)

    def keep(self, going: BoolArray) -> None:
        """Forget the replications that are over."""
        self.replications = self.replications[going]
        self._groups, self._sizes = self._groups[going], self._sizes[going]
        self._local, self._noise_sums = self._local[going], self._noise_sums[going]
        self._counts = self._counts[going]
        self._blocks = blocks_of(self.replications)
        self._releases.keep(going)

    def _draw(
        self, purpose: Purpose, phase: int, needed: BoolArray, n_groups: int
    ) -> Iterator[tuple[slice, int, FloatArray]]:
        """Yield rows, an arm and their standard normals, shape (groups, rows), block by block.

        One group after the other, so that what one is given does not depend on how many follow.
        """
        for block, places, rows in self._blocks:
            for arm in np.flatnonzero(needed[rows].any(axis=0)).tolist():
                rng = self.streams.at(purpose, replication=block, phase=phase, arm=arm)
                drawn = rng.standard_normal((n_groups, REPLICATIONS_PER_BLOCK))
                yield rows, arm, drawn[:, places]

    def _cohort_law(self, newcomers: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return what the average of a next cohort deviates by: expected, and its deviation.

        In a population that averages to the global mean exactly, those who are still out make up
        for those who are in.
        """
        joining = np.maximum(newcomers, 1).astype(np.float64)
        if self.population is None:
            return np.zeros((newcomers.size, 1)), self.spread / np.sqrt(joining)
        out = np.maximum(self.population - self._sizes.sum(axis=(1, 2)), 1.0)
        excess = ((self._local - self.means[:, np.newaxis]) * self._sizes).sum(axis=2)
        left = np.maximum(1.0 / joining - 1.0 / out, 0.0)
        return -excess / out[:, np.newaxis], self.spread * np.sqrt(left)
