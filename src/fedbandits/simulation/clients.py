"""Fidelity `clients`: the phase sum of each (client, arm), from its exact law.

Clients are drawn one by one; a phase's pulls of an arm by a client are one draw: normal, binomial
or multinomial.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fedbandits.problems.problem import ClientSampler
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.statistics import aggregate
from fedbandits.rules.variance_components import VarianceComponents, merged_squares
from fedbandits.simulation.game import Game
from fedbandits.simulation.memory_limit import check_memory
from fedbandits.simulation.phases import Played
from fedbandits.simulation.releases import PhaseReleases, Releases, protect
from fedbandits.simulation.streams import Purpose

_BYTES_A_CLIENT_AND_ARM = 3 * 8


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

    @property
    def sizes(self) -> FloatArray:
        """One client a group."""
        return np.ones(1)

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
        share = 1.0 / self.counts
        room = np.empty(share.shape)
        estimated = self.rule.needs_components
        weighted = self.rule.weights == "given"
        releases = self._releases.play(phase, pulls, self.counts[np.newaxis], self.sizes)
        weights = None if estimated or weighted else self._weights(None, None, releases)
        estimates = np.zeros((1, *active.shape))
        components = []
        apart = None
        if self.rule.radius.needs_clients:
            apart = np.zeros((1, *active.shape, self.counts.size))
        for row, state in enumerate(self._kept):
            arms = np.flatnonzero(active[row]).tolist()
            if weighted and not estimated:
                weights = self._weights(state, None, releases)
            together = np.empty((len(arms), share.size)) if estimated else None
            for place, arm in enumerate(arms):
                self._pull(
                    state,
                    phase,
                    arm,
                    pulls=pulls,
                    before=before,
                    room=room,
                    releases=releases,
                )
                means = np.multiply(state.sums[arm], share, out=room)
                if together is None:
                    estimates[0, row, arm] = aggregate(means, weights)
                else:
                    together[place] = means
                if apart is not None:
                    apart[0, row, arm] = means
            if together is not None:
                found = self._estimated(state, arms, together)
                estimates[0, row, arms] = aggregate(together, self._weights(state, found, releases))
                components.append(found)
        return Played(
            estimates,
            self.counts.reshape(1, 1, 1, -1),
            apart,
            VarianceComponents.stacked([VarianceComponents.stacked(components)], axis=0)
            if estimated
            else None,
            np.array([[[self._shares_of(state)] for state in self._kept]]) if weighted else None,
            distortion=releases.distortion,
            bits=releases.bits,
        )

    def _shares_of(self, state: ClientsOfReplication) -> FloatArray | None:
        """Return the weights that clients have of their own, in their order of admission."""
        return None if self._shares is None else self._shares[state.rows]

    def _weights(
        self,
        state: ClientsOfReplication | None,
        components: VarianceComponents | None,
        releases: PhaseReleases,
    ) -> FloatArray | None:
        """Return how clients are averaged; None, which is faster, where all count the same."""
        if self.rule.weights == "equal":
            return None
        shares = None if state is None else self._shares_of(state)
        return self.rule.weights_of(
            self.counts,
            components=components,
            shares=shares,
            distortion=releases.last_distortion(),
        )

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

    def _estimated(
        self, state: ClientsOfReplication, arms: list[int], means: FloatArray
    ) -> VarianceComponents:
        """Return what the clients of a replication show of noise and spread."""
        squares = np.array([state.squares[arm] for arm in arms]) if state.with_squares else None
        found = self.rule.components(
            counts=self.counts,
            client_means=means,
            squares=squares,
            active=np.ones(len(arms), dtype=np.bool_),
        )
        if found is None:
            raise TypeError("the rule estimates nothing")
        return found

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
