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
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.reports import Reports
from fedbandits.rules.sampling import Sampling
from fedbandits.rules.statistics import aggregate
from fedbandits.simulation.game import Game, OutOfMemoryLimitError
from fedbandits.simulation.in_step import rows_in_step
from fedbandits.simulation.phases import Played
from fedbandits.simulation.regret import at_rows
from fedbandits.simulation.releases import Releases
from fedbandits.simulation.streams import REPLICATIONS_PER_BLOCK, Purpose, blocks_of

# Sums of this many (phase, replication, arm, cohort) at once; more or fewer take longer.
_FASTEST_AT_ONCE = 2**19
# This many of them stay in the cache while they are worked on; at least one block.
_IN_CACHE = 2**16
# Of every row, arm and cohort: local means and sums, and where rows and arms are pulled differently
# counts and what is computed from them, too.
_BYTES_BY_SCHEDULE = 2 * 8
_BYTES_WITHOUT = 8 * 8


class CohortEvidence:
    """Averages over cohorts, for many replications at once, one row each.

    Parameters
    ----------
    games : sequence of Game
        With Gaussian noise, and clients whose cohort averages are normal or known. Several are
        played in step; `fedbandits.simulation.in_step` says which can be, and how rows stand.
    replications : array of int
        Their numbers, ascending.
    """

    def __init__(self, games: Sequence[Game], replications: IntArray) -> None:
        first = games[0]
        of_row, self.replications = rows_in_step(len(games), replications)
        n_rows = of_row.size
        # What differs between games has an axis of rows; what does not, one of length 1.
        of_row = of_row if len(games) > 1 else np.zeros(1, dtype=np.int64)
        self.rule = first.phased_rule()
        played = [game.played for game in games]
        laws = [problem.cohort_law for problem in played]
        self.noise: FloatArray = np.array([[[law.noise]] for law in laws])[of_row]
        self.spread: FloatArray = np.array([[[law.spread]] for law in laws])[of_row]
        self.means: FloatArray = np.array([problem.means for problem in played])[of_row]
        self._told = _told(games, of_row)
        self.population = played[0].population
        self.streams = first.streams()
        self.memory_limit = first.memory_limit
        # By a schedule all arms are pulled alike, and all rows of a game.
        alike = self.rule.scheduled
        rows_apart = of_row.size if alike else n_rows
        self.counts: FloatArray = np.zeros((rows_apart, 1 if alike else self.rule.n_arms, 0))
        self.sizes: FloatArray = np.zeros((rows_apart, 1, 0))
        self._groups: IntArray = np.zeros(rows_apart, dtype=np.int64)
        # Of arms that are active in some replication still, as are the local means and sums.
        self._arms: IntArray = np.arange(self.means.shape[1])
        shape = (n_rows, self._arms.size, 0)
        self._local: FloatArray = np.zeros(shape)
        self._noise_sums: FloatArray = np.zeros(shape)
        self._blocks = blocks_of(self.replications)
        self._releases = Releases(first, n_rows)

    @property
    def most_phases(self) -> int:
        """As many as fit into the memory limit and, roughly, into the cache."""
        if self._releases.one_by_one or not self.rule.scheduled:
            return 1
        most = min(self.memory_limit // 32, _FASTEST_AT_ONCE) // max(self._local.size, 1)
        return max(1, min(64, most))

    def admit(self, phase: int, newcomers: IntArray, active: BoolArray) -> None:
        """Admit a cohort of new clients, if there are any."""
        self._forget_arms(active)
        joined = newcomers > 0
        size = newcomers[: len(self.sizes)].astype(np.float64)
        n, n_arms, room = self._local.shape
        if self._groups[size > 0].max() == room:
            held = _BYTES_BY_SCHEDULE if self.rule.scheduled else _BYTES_WITHOUT
            if held * n * n_arms * (room + 1) > self.memory_limit and n > 1:
                raise OutOfMemoryLimitError
            self._local, self._noise_sums, self.sizes, self.counts = (
                np.concatenate((values, np.zeros((*values.shape[:2], 1))), axis=2)
                for values in (self._local, self._noise_sums, self.sizes, self.counts)
            )
            self._releases.admit(1)
        local = np.broadcast_to(self.means[:, self._arms], (n, n_arms)).copy()
        if (self.spread > 0).any():
            shift, scale = self._cohort_law(size)
            needed = active & joined[:, np.newaxis]
            for rows, drawn in self._draw(Purpose.COHORT_MEANS, phase, needed, (1, 1)):
                local[rows] += at_rows(scale, rows) * drawn[0, :, :, 0]
            local += shift
        (rows_in,) = np.nonzero(joined)
        self._local[rows_in, :, np.broadcast_to(self._groups, n)[rows_in]] = local[rows_in]
        (apart,) = np.nonzero(size)
        self.sizes[apart, 0, self._groups[apart]] = size[apart]
        self._groups = self._groups + (size > 0)

    def play(self, phase: int, pulls: IntArray, active: BoolArray, n_phases: int) -> Played:
        """Let every client pull each arm this often, in one or several phases."""
        self._forget_arms(active)
        if self.rule.scheduled:
            fresh = pulls.max(axis=-1)[: len(self.sizes)].astype(np.float64).reshape(-1, 1, 1)
        else:
            fresh = pulls[:, :, np.newaxis] * (self.sizes > 0).astype(np.float64)
        counts = self.counts + fresh * np.arange(1.0, n_phases + 1).reshape(-1, 1, 1, 1)
        distortion = self._releases.play(phase, pulls, fresh, counts, self.sizes)
        reports = Reports(
            counts=counts,
            active=active,
            sizes=self.sizes,
            distortion=distortion,
            averages=partial(self._averages, phase, pulls > 0, counts, self._scale(fresh)),
        )
        estimate = self.rule.estimate(reports, self._told)
        self.counts = counts[-1]
        return Played(estimate, bits=self._releases.bits)

    def _scale(self, fresh: FloatArray) -> FloatArray:
        """Return the standard deviation of the average over a cohort of its sums in a phase."""
        error = np.array([one.deviation for one in self._releases.how])
        if self.rule.scheduled:
            of_sums = self.noise * np.sqrt(fresh)
            # Only games that are played alone protect anything, and there all rows are alike.
            if error.any():
                of_sums = np.array([[[math.hypot(of_sums.item(), fresh.item() * error.item())]]])
            return np.asarray(of_sums / np.sqrt(self.sizes))
        # The same, in an order of operations that every bit of earlier results rests on.
        variance = self.noise.item() ** 2 * fresh
        if error.any():
            variance = variance + (fresh * error[:, np.newaxis, np.newaxis]) ** 2
        return np.sqrt(variance / np.maximum(self.sizes, 1.0))

    def _averages(
        self,
        phase: int,
        pulled: BoolArray,
        counts: FloatArray,
        scale: FloatArray,
        weights: FloatArray | None,
    ) -> FloatArray:
        """Draw what phases add to the sums of cohorts; return the averages after each of them."""
        n_phases = counts.shape[0]
        averages = np.zeros((n_phases, *pulled.shape))
        scale, counts = self._of_arms(scale), np.maximum(self._of_arms(counts), 1.0)
        weights = None if weights is None else self._of_arms(weights)
        # Block by block, so that what is worked on stays in the cache.
        shape = (n_phases, self.sizes.shape[-1])
        for rows, drawn in self._draw(Purpose.COHORT_SUMS, phase, pulled, shape):
            np.multiply(drawn, at_rows(scale, rows), out=drawn)
            drawn[0] += self._noise_sums[rows]
            sums = np.cumsum(drawn, axis=0) if n_phases > 1 else drawn
            self._noise_sums[rows] = sums[-1]
            sums /= at_rows(counts, rows, axis=1)
            sums += self._local[rows]
            some = None if weights is None else at_rows(weights, rows, axis=1)
            averages[:, rows, self._arms] = aggregate(sums, weights=some)
        return averages

    def keep(self, going: BoolArray) -> None:
        """Forget the replications that are over."""
        self.replications = self.replications[going]
        self._local, self._noise_sums = self._local[going], self._noise_sums[going]
        self._blocks = blocks_of(self.replications)
        self.noise, self.spread = at_rows(self.noise, going), at_rows(self.spread, going)
        self.means = at_rows(self.means, going)
        self._groups = self._groups if self._groups.size == 1 else self._groups[going]
        self.sizes, self.counts = at_rows(self.sizes, going), at_rows(self.counts, going)
        self._releases.keep(going)
        if self._told is not None:
            self._told = self._told.at(going)

    def _of_arms(self, values: FloatArray) -> FloatArray:
        """Return the values of arms that are left in some row, or the one value of all arms."""
        few = values.shape[-2] == 1 or self._arms.size == values.shape[-2]
        return values if few else values[..., self._arms, :]

    def _forget_arms(self, active: BoolArray) -> None:
        """Forget the arms that are no longer active in any replication."""
        some = active[:, self._arms].any(axis=0)
        if not some.all():
            self._arms = self._arms[some]
            self._local, self._noise_sums = self._local[:, some], self._noise_sums[:, some]

    def _draw(
        self, purpose: Purpose, phase: int, active: BoolArray, shape: tuple[int, int]
    ) -> Iterator[tuple[slice, FloatArray]]:
        """Yield rows with their standard normals, block by block.

        From ``phase`` on, shape (phases, rows, arms, groups), where ``shape`` is of phases and
        groups. Of an arm that is active nowhere in a block they are zeros. Rows of one replication
        get the same ones.
        """
        n_phases, n_groups = shape
        for block, places, rows in self._blocks:
            needed = active[rows][:, self._arms].any(axis=0)
            # With one cohort, what comes after the last replication that is left need not be drawn.
            last = int(places.max()) + 1 if n_groups == 1 else REPLICATIONS_PER_BLOCK
            drawn = np.zeros((n_phases, needed.size, n_groups, last))
            arms = [(at, int(self._arms[at])) for at in np.flatnonzero(needed).tolist()]
            for step in range(n_phases):
                for at, arm in arms:
                    rng = self.streams.at(purpose, replication=block, phase=phase + step, arm=arm)
                    rng.standard_normal(out=drawn[step, at])
            by_place = drawn.transpose(0, 3, 1, 2)
            at_once = max(REPLICATIONS_PER_BLOCK, _IN_CACHE // (drawn.size // last))
            for start in range(rows.start, rows.stop, at_once):
                some = slice(start, min(start + at_once, rows.stop))
                yield some, by_place[:, places[start - rows.start : some.stop - rows.start]]

    def _cohort_law(self, size: FloatArray) -> tuple[FloatArray | float, FloatArray]:
        """Return the expected deviation of the next cohort's average and its standard deviation.

        In a population that averages to the global mean exactly, those who are still out make up
        for those who are in.
        """
        clients, spread = np.maximum(size, 1.0)[:, np.newaxis], self.spread[:, 0]
        if self.population is None:
            return 0.0, spread / np.sqrt(clients)
        # By a schedule the last group is the one that joins.
        known = slice(None, -1 if self.rule.scheduled else None)
        sizes = self.sizes[..., known]
        out = np.maximum(self.population - sizes.sum(axis=2), 1.0)
        means = self.means[:, self._arms, np.newaxis]
        excess = ((self._local[..., known] - means) * sizes).sum(axis=2)
        return -excess / out, spread * np.sqrt(np.maximum(1.0 / clients - 1.0 / out, 0.0))


def _told(games: Sequence[Game], of_row: IntArray) -> Sampling | None:
    """Return what the rules are told, row by row; None if all are told the same."""
    told = [game.phased_rule().sampling for game in games]
    pairs = [(one.noise, one.spread) for one in told]
    if len(set(pairs)) == 1:
        return None
    noise, spread = np.array(pairs)[of_row].T
    return replace(told[0], noise=noise, spread=spread)
