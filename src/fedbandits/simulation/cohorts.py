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
from fedbandits.simulation.game import Game
from fedbandits.simulation.in_step import rows_in_step
from fedbandits.simulation.memory_limit import OutOfMemoryLimitError
from fedbandits.simulation.phases import Played
from fedbandits.simulation.releases import Releases, deviation
from fedbandits.simulation.streams import REPLICATIONS_PER_BLOCK, Purpose, blocks_of

# Sums of so many (phase, replication, arm, cohort) at once; more or fewer take longer.
_FASTEST_AT_ONCE = 2**19
# Of these so many stay in the cache while they are worked on.
_IN_CACHE = 2**16
_TOLD = ("noise", "spread")


class CohortEvidence:
    """Averages over cohorts, for many replications at once, a row each.

    Parameters
    ----------
    games : Game or sequence of Game
        With Gaussian noise, and clients whose cohort averages are normal or known. Several are
        played in step; `fedbandits.simulation.in_step` says which can be, and how rows stand.
    replications : array of int
        Their numbers, ascending.
    """

    def __init__(self, games: Game | Sequence[Game], replications: IntArray) -> None:
        games = (games,) if isinstance(games, Game) else tuple(games)
        first = games[0]
        of_row, self.replications = rows_in_step(len(games), replications)
        n_rows = of_row.size
        # What differs between games has an axis of rows; what does not, one of length 1.
        of_row = of_row if len(games) > 1 else np.zeros(1, dtype=np.int64)
        self.rule = first.phased_rule()
        self.noise: FloatArray = np.array([[[game.played.cohort_law.noise]] for game in games])[
            of_row
        ]
        self.spread: FloatArray = np.array([[[game.played.cohort_law.spread]] for game in games])[
            of_row
        ]
        self.means: FloatArray = np.array([game.played.means for game in games])[of_row]
        self._told = _told(games, of_row)
        self.population = first.played.population
        self.streams = first.streams()
        self.memory_limit = first.memory_limit
        self.counts: FloatArray = np.zeros((of_row.size, 1, 0))
        self.sizes: FloatArray = np.zeros((of_row.size, 1, 0))
        # Of arms that are active in some replication still, as are the local means and sums.
        self._arms: IntArray = np.arange(self.means.shape[1])
        shape = (n_rows, self._arms.size, 0)
        self._local: FloatArray = np.zeros(shape)
        self._noise_sums: FloatArray = np.zeros(shape)
        self._blocks = blocks_of(self.replications)
        self._releases = Releases(first)

    @property
    def most_phases(self) -> int:
        """As many as fit into the memory limit and, roughly, into the cache."""
        if self._releases.one_by_one:
            return 1
        most = min(self.memory_limit // 32, _FASTEST_AT_ONCE) // max(self._local.size, 1)
        return max(1, min(64, most))

    def admit(self, phase: int, clients: int | IntArray, active: BoolArray) -> None:
        """Let a cohort of new clients in, in every row."""
        size = np.reshape(np.asarray(clients, dtype=np.float64), (-1, 1, 1))
        self._forget_arms(active)
        n, n_arms, n_groups = self._local.shape
        if 16 * n * n_arms * (n_groups + 1) > self.memory_limit and n > 1:
            raise OutOfMemoryLimitError
        local = np.broadcast_to(self.means[:, self._arms], (n, n_arms)).copy()
        if (self.spread > 0).any():
            shift, scale = self._cohort_law(size)
            for rows, drawn in self._draw(Purpose.COHORT_MEANS, phase, active, (1, 1)):
                local[rows] += _at(scale, rows) * drawn[0, :, :, 0]
            local += shift
        self._local = np.append(self._local, local[:, :, np.newaxis], axis=2)
        self._noise_sums = np.append(self._noise_sums, np.zeros((n, n_arms, 1)), axis=2)
        self.sizes = np.append(self.sizes, size, axis=2)
        self.counts = np.append(self.counts, np.zeros_like(size), axis=2)
        self._releases.admit(1)

    def play(self, phase: int, pulls: int | IntArray, active: BoolArray, n_phases: int) -> Played:
        """Pull the active arms in one or several phases, so often in every row."""
        self._forget_arms(active)
        often = np.reshape(np.asarray(pulls, dtype=np.float64), (-1, 1, 1))
        of_sums = self.noise * np.sqrt(often)
        counts = self.counts + often * np.arange(1.0, n_phases + 1).reshape(-1, 1, 1, 1)
        # Only games that are played alone protect anything, and there all rows are alike.
        releases = self._releases.play(
            phase, int(often[0, 0, 0]), counts[:, 0, 0], self.sizes[0, 0]
        )
        error = deviation(releases, self._releases.privacy)
        if error > 0:
            of_sums = np.array([[[math.hypot(of_sums.item(), often.item() * error)]]])
        reports = Reports(
            counts=counts,
            active=active,
            sizes=self.sizes,
            distortion=releases.distortion,
            averages=partial(self._averages, phase, active, counts, of_sums / np.sqrt(self.sizes)),
        )
        estimate = self.rule.estimate(reports, self._told)
        self.counts = counts[-1]
        return Played(estimate, bits=releases.bits)

    def _averages(
        self,
        phase: int,
        active: BoolArray,
        counts: FloatArray,
        scale: FloatArray,
        weights: FloatArray | None,
    ) -> FloatArray:
        """Draw what phases add to the sums of cohorts; return the averages after each of them."""
        n_phases = counts.shape[0]
        averages = np.zeros((n_phases, *active.shape))
        # Block by block, so that what is worked on stays in the cache.
        shape = (n_phases, self.sizes.shape[-1])
        for rows, drawn in self._draw(Purpose.COHORT_SUMS, phase, active, shape):
            np.multiply(drawn, _at(scale, rows), out=drawn)
            drawn[0] += self._noise_sums[rows]
            sums = np.cumsum(drawn, axis=0) if n_phases > 1 else drawn
            self._noise_sums[rows] = sums[-1]
            sums /= _at(counts, rows, axis=1)
            sums += self._local[rows]
            some = None if weights is None else _at(weights, rows, axis=1)
            averages[:, rows, self._arms] = aggregate(sums, weights=some)
        return averages

    def keep(self, going: BoolArray) -> None:
        """Forget the replications that are over."""
        self.replications = self.replications[going]
        self._local, self._noise_sums = self._local[going], self._noise_sums[going]
        self._blocks = blocks_of(self.replications)
        self.noise, self.spread = _at(self.noise, going), _at(self.spread, going)
        self.means = _at(self.means, going)
        self.sizes, self.counts = _at(self.sizes, going), _at(self.counts, going)
        if self._told is not None:
            self._told = self._told.at(going)

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
            for start in range(rows.start, rows.stop, at_once := self._rows_at_once(drawn)):
                some = slice(start, min(start + at_once, rows.stop))
                yield some, by_place[:, places[start - rows.start : some.stop - rows.start]]

    def _rows_at_once(self, drawn: FloatArray) -> int:
        """Return of how many rows as much is drawn as stays in the cache; of a block at least."""
        return max(REPLICATIONS_PER_BLOCK, _IN_CACHE // (drawn.size // int(drawn.shape[-1])))

    def _cohort_law(self, clients: FloatArray) -> tuple[FloatArray | float, FloatArray]:
        """Return the expected deviation of the next cohort's average and its standard deviation.

        In a population that averages to the global mean exactly, those who are still out make up
        for those who are in.
        """
        clients, spread = clients[:, 0], self.spread[:, 0]
        if self.population is None:
            return 0.0, spread / np.sqrt(clients)
        out = self.population - self.sizes.sum(axis=2)
        means = self.means[:, self._arms, np.newaxis]
        excess = ((self._local - means) * self.sizes).sum(axis=2)
        return -excess / out, spread * np.sqrt(np.maximum(1.0 / clients - 1.0 / out, 0.0))


def _told(games: Sequence[Game], of_row: IntArray) -> Sampling | None:
    """Return what the rules are told, row by row; None where all are told the same."""
    told = [game.phased_rule().sampling for game in games]
    if len({(one.noise, one.spread) for one in told}) == 1:
        return None
    noise, spread = (np.array([getattr(one, name) for one in told])[of_row] for name in _TOLD)
    return replace(told[0], noise=noise, spread=spread)


def _at(values: FloatArray, rows: slice | BoolArray, axis: int = 0) -> FloatArray:
    """Return the values of some rows along an axis, or the one that all rows have."""
    if values.shape[axis] == 1:
        return values
    return values[rows] if axis == 0 else values[:, rows]
