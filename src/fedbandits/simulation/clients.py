"""Fidelity `clients`: the phase sum of each (client, arm), from its exact law.

Clients are drawn one by one; a phase's pulls of an arm by a client are one draw: normal, binomial
or multinomial.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np

from fedbandits.problems.problem import ClientSampler
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.estimates import Estimate
from fedbandits.rules.reports import Reports
from fedbandits.rules.statistics import aggregate
from fedbandits.rules.variance_components import merged_squares
from fedbandits.simulation.game import Game
from fedbandits.simulation.memory_limit import check_memory
from fedbandits.simulation.phases import Played
from fedbandits.simulation.releases import PhaseReleases, Releases, protect
from fedbandits.simulation.streams import Purpose

_BYTES_A_CLIENT_AND_ARM = 3 * 8
# So many means are held at once for rules that need every client's; of one row at least.
_MEANS_AT_ONCE = 2**18


class ClientsOfReplication:
    """The clients of one replication: for every arm their local means and their sums so far.

    An arm that is out is left as it was: it is never read again.
    """

    def __init__(
        self, sampler: ClientSampler, number: int, n_arms: int, *, with_squares: bool
    ) -> None:
        self.sampler = sampler
        self.number = number
        self.with_squares = with_squares
        self.means = [np.empty(0) for _ in range(n_arms)]
        self.sums = [np.empty(0) for _ in range(n_arms)]
        self.squares = [np.empty(0) for _ in range(n_arms)]
        self.rows: IntArray = np.empty(0, dtype=np.int64)
        self.cells: list[IntArray | None] = [None] * n_arms

    def admit(self, clients: int, arms: list[int]) -> None:
        """Let new clients in, with their local means of some arms."""
        drawn = self.sampler.draw(clients, arms)
        if drawn.rows is not None:
            self.rows = np.concatenate((self.rows, drawn.rows))
        zeros = np.zeros(clients)
        for arm in arms:
            self.means[arm] = np.concatenate((self.means[arm], drawn.means[arm]))
            self.sums[arm] = np.concatenate((self.sums[arm], zeros))
            if self.with_squares:
                self.squares[arm] = np.concatenate((self.squares[arm], zeros))
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
        self._shares = self.problem.shares
        self._kept: list[ClientsOfReplication] = []
        self._releases = Releases(game)

    def admit(self, phase: int, clients: int, active: BoolArray) -> None:
        """Let new clients in."""
        self.counts = np.append(self.counts, np.zeros(clients))
        self._releases.admit(clients)
        self._check_memory(active)
        if not self._kept:
            self._kept = [
                ClientsOfReplication(
                    self.problem.sampler(self.streams.sources(number)),
                    number,
                    active.shape[1],
                    with_squares=self.rule.needs_squares,
                )
                for number in self.numbers
            ]
        for replication, arms in zip(self._kept, active, strict=True):
            replication.admit(clients, np.flatnonzero(arms).tolist())

    def play(self, phase: int, pulls: int, active: BoolArray, n_phases: int) -> Played:
        """Pull the active arms in one phase."""
        before = self.counts
        self.counts = before + float(pulls)
        releases = self._releases.play(phase, pulls, self.counts[np.newaxis], np.ones(1))
        room = np.empty(self.counts.shape)
        for state, arms in zip(self._kept, active, strict=True):
            for arm in np.flatnonzero(arms).tolist():
                self._pull(
                    state,
                    phase,
                    arm,
                    pulls=pulls,
                    before=before,
                    room=room,
                    releases=releases,
                )
        # Means are held for some rows at once, and for none where averages are enough.
        n_rows = active.shape[0]
        at_once = n_rows
        if self.rule.needs_each_client:
            at_once = max(1, _MEANS_AT_ONCE // (active.shape[1] * self.counts.size))
        parts = [
            self.rule.estimate(self._reports(slice(first, first + at_once), active, releases))
            for first in range(0, n_rows, at_once)
        ]
        return Played(Estimate.joined(parts), bits=releases.bits)

    def _reports(self, rows: slice, active: BoolArray, releases: PhaseReleases) -> Reports:
        """Return what the clients of some replications have reported, shape (1, rows, …)."""
        kept, active = self._kept[rows], active[rows]
        shares = self._shares if self.rule.estimator.needs_shares else None
        reports = Reports(
            counts=self.counts.reshape(1, 1, 1, -1),
            active=active,
            shares=None if shares is None else np.array([[[shares[state.rows]] for state in kept]]),
            distortion=releases.distortion,
            averages=partial(self._averages, kept, active),
        )
        if not self.rule.needs_each_client:
            return reports
        means = np.zeros((1, *active.shape, self.counts.size))
        squares = np.zeros(means.shape) if self.rule.needs_squares else None
        for row, state in enumerate(kept):
            for arm in np.flatnonzero(active[row]).tolist():
                np.multiply(state.sums[arm], 1.0 / self.counts, out=means[0, row, arm])
                if squares is not None:
                    squares[0, row, arm] = state.squares[arm]
        return replace(reports, means=means, squares=squares, averages=None)

    def _averages(
        self,
        kept: Sequence[ClientsOfReplication],
        active: BoolArray,
        weights: FloatArray | None,
    ) -> FloatArray:
        """Return averages over clients, one array of means at a time."""
        share, room = 1.0 / self.counts, np.empty(self.counts.shape)
        averages = np.zeros((1, *active.shape))
        of_row = None
        for row, state in enumerate(kept):
            if weights is not None:
                of_row = weights[0, row if weights.shape[1] > 1 else 0, 0]
            for arm in np.flatnonzero(active[row]).tolist():
                means = np.multiply(state.sums[arm], share, out=room)
                averages[0, row, arm] = aggregate(means, of_row)
        return averages

    def _pull(
        self,
        state: ClientsOfReplication,
        phase: int,
        arm: int,
        *,
        pulls: int,
        before: FloatArray,
        room: FloatArray,
        releases: PhaseReleases,
    ) -> None:
        """Add what clients report of a phase's pulls of an arm to that before."""
        rng = self.streams.at(Purpose.PHASE_SUMS, replication=state.number, phase=phase, arm=arm)
        noise, means, cells = self.problem.noise, state.means[arm], state.cells[arm]
        sums = state.sums[arm]
        if state.with_squares:
            fresh, scatter = noise.phase_moments(rng, pulls, means, cells, room)
            known = before, sums, state.squares[arm]
            state.squares[arm] = merged_squares(known, (pulls, fresh, scatter))
            sums += fresh
            return
        fresh = noise.phase_sums(rng, pulls, means, cells, room)
        if self._releases.privacy is not None:
            rng = self.streams.at(Purpose.RELEASES, replication=state.number, phase=phase, arm=arm)
            fresh = pulls * protect(fresh / pulls, releases, self._releases.privacy, rng)
        sums += fresh

    def keep(self, going: BoolArray) -> None:
        """Forget the replications that are over."""
        self._kept = [
            state for state, stays in zip(self._kept, going.tolist(), strict=True) if stays
        ]

    def _check_memory(self, active: BoolArray) -> None:
        """Refuse to hold more than the limit: in parts if that helps, else say so."""
        n, n_arms = active.shape
        held = self.counts.size * _BYTES_A_CLIENT_AND_ARM
        if self.rule.radius.needs_each_client:
            held *= 3  # all means at once, their copy for active arms, and deviations from them
        if self.rule.needs_components:
            held *= 2  # sums of squares, and what variances are computed with
        if self.problem.population is not None:
            held += self.problem.population * 8  # drawn all at once
        check_memory(
            held,
            clients=self.counts.size,
            n_arms=n_arms,
            replications=n,
            limit=self.memory_limit,
        )
