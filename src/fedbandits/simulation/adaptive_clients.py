"""Fidelity `clients` for index rules: the phase sum of each (client, arm), from its exact law.

As in `fedbandits.simulation.clients`, but every replication has clients and counts of its own.
"""

from __future__ import annotations

import numpy as np

from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.reports import Reports
from fedbandits.simulation.adaptive import Gathered
from fedbandits.simulation.adaptive_releases import AdaptiveReleases
from fedbandits.simulation.clients import ClientsOfReplication
from fedbandits.simulation.game import Game
from fedbandits.simulation.memory_limit import check_memory
from fedbandits.simulation.releases import PhaseReleases, protect
from fedbandits.simulation.streams import Purpose

# Local means, sums and counts, and what is computed from them for all replications at once.
_BYTES_A_CLIENT_AND_ARM = 10 * 8


class AdaptiveClients:
    """The statistics of every client, replication by replication.

    Parameters
    ----------
    game : Game
        With a noise law whose sums have a closed form.
    replications : array of int
        Their numbers.
    """

    def __init__(self, game: Game, replications: IntArray) -> None:
        self.problem = game.played
        self.rule = game.phased_rule()
        self.streams = game.streams()
        self.memory_limit = game.memory_limit
        self._shares = self.problem.shares
        self._releases = AdaptiveReleases(game, replications.size)
        self._clients: IntArray = np.zeros(replications.size, dtype=np.int64)
        self._counts: FloatArray = np.zeros((replications.size, self.rule.n_arms, 0))
        self._kept = [
            ClientsOfReplication(
                self.problem.sampler(self.streams.sources(number)),
                number,
                self.rule.n_arms,
                with_squares=False,
            )
            for number in replications.tolist()
        ]

    def admit(self, phase: int, newcomers: IntArray) -> None:
        """Let new clients into some of the replications."""
        self._clients = self._clients + newcomers
        most = int(self._clients.max())
        self._check_memory(most)
        more = max(most - self._counts.shape[2], 0)
        self._counts = np.pad(self._counts, ((0, 0), (0, 0), (0, more)))
        self._releases.admit(more)
        arms = list(range(self.rule.n_arms))
        for state, clients in zip(self._kept, newcomers.tolist(), strict=True):
            if clients:
                state.admit(clients, arms)

    def play(self, phase: int, pulls: IntArray, active: BoolArray) -> Gathered:
        """Let every client pull each arm so often."""
        most = self._counts.shape[2]
        present = np.arange(most) < self._clients[:, np.newaxis, np.newaxis]
        fresh = pulls[:, :, np.newaxis] * present
        how = self._releases.play(phase, pulls, fresh)
        self._counts = self._counts + fresh
        means = np.zeros(self._counts.shape)
        for row, state in enumerate(self._kept):
            release = how[row] if how else None
            for arm, n in enumerate(pulls[row].tolist()):
                if n:
                    self._pull(state, phase, arm, n, release)
                sums = state.sums[arm]
                known = self._counts[row, arm, : sums.size]
                means[row, arm, : sums.size] = sums / np.maximum(known, 1.0)
        reports = Reports(
            counts=self._counts,
            active=active,
            means=means,
            shares=self._all_shares(most),
            distortion=self._releases.distortion(self._counts),
        )
        return Gathered(estimate=self.rule.estimate(reports), bits=self._releases.bits)

    def keep(self, going: BoolArray) -> None:
        """Forget the replications that are over."""
        self._kept = [
            state for state, stays in zip(self._kept, going.tolist(), strict=True) if stays
        ]
        self._clients, self._counts = self._clients[going], self._counts[going]
        self._releases.keep(going)

    def _pull(
        self,
        state: ClientsOfReplication,
        phase: int,
        arm: int,
        pulls: int,
        release: PhaseReleases | None,
    ) -> None:
        """Add what clients report of a phase's pulls of an arm to that before."""
        rng = self.streams.at(Purpose.PHASE_SUMS, replication=state.number, phase=phase, arm=arm)
        means = state.means[arm]
        room = np.empty(means.shape)
        fresh = self.problem.noise.phase_sums(rng, pulls, means, state.cells[arm], room)
        if release is not None:
            rng = self.streams.at(Purpose.RELEASES, replication=state.number, phase=phase, arm=arm)
            fresh = pulls * protect(fresh / pulls, release, self._releases.privacy, rng)
        state.sums[arm] = state.sums[arm] + fresh

    def _all_shares(self, most: int) -> FloatArray | None:
        """Return the weights that clients have of their own, where they have some."""
        if not self.rule.estimator.needs_shares or self._shares is None:
            return None
        shares = np.zeros((len(self._kept), 1, most))
        for row, state in enumerate(self._kept):
            shares[row, 0, : state.rows.size] = self._shares[state.rows]
        return shares

    def _check_memory(self, most: int) -> None:
        check_memory(
            most * _BYTES_A_CLIENT_AND_ARM + (self.problem.population or 0) * 8,
            clients=most,
            n_arms=self.rule.n_arms,
            replications=len(self._kept),
            limit=self.memory_limit,
        )
