"""Fidelity `clients`: the phase sum of each (client, arm), from its exact law.

Clients are drawn one by one; a phase's pulls of an arm by a client are one draw: normal, binomial
or multinomial.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import compress
from typing import Any, ClassVar

import numpy as np

from fedbandits.problems.problem import ClientSampler
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.distortion import Distortion
from fedbandits.rules.estimates import Estimate
from fedbandits.rules.reports import Reports
from fedbandits.rules.statistics import aggregate
from fedbandits.rules.variance_components import merged_squares
from fedbandits.simulation.attacks import Attack, Scene
from fedbandits.simulation.game import Game, check_memory
from fedbandits.simulation.phases import Played
from fedbandits.simulation.releases import Releases
from fedbandits.simulation.streams import Purpose

# Of every client and arm: local means and sums, and what is computed from them; if rows and arms
# are pulled differently it is held for all of them at once.
_BYTES_BY_SCHEDULE = 3 * 8
_BYTES_WITHOUT = 10 * 8
# This many means are held at once for rules that need every client's, but at least one row.
_MEANS_AT_ONCE = 2**18


@dataclass(slots=True, kw_only=True, eq=False)
class ClientsOfReplication:
    """The clients of one replication: for every arm their local means and their sums so far.

    An arm that is out is left as it was: it is never read again.
    """

    sampler: ClientSampler
    number: int
    with_squares: bool
    means: dict[int, FloatArray] = field(default_factory=dict)
    sums: dict[int, FloatArray] = field(default_factory=dict)
    squares: dict[int, FloatArray] = field(default_factory=dict)
    cells: dict[int, IntArray] = field(default_factory=dict)
    rows: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def admit(self, clients: int, arms: list[int]) -> None:
        """Admit new clients, with their local means of some arms."""
        drawn, zeros = self.sampler.draw(clients, arms), np.zeros(clients)
        if drawn.rows is not None:
            self.rows = np.concatenate((self.rows, drawn.rows))
        for arm in arms:
            _extend(self.means, arm, drawn.means[arm])
            _extend(self.sums, arm, zeros)
            if self.with_squares:
                _extend(self.squares, arm, zeros)
            if drawn.cells is not None:
                _extend(self.cells, arm, drawn.cells[arm])


def _extend(held: dict[int, Any], arm: int, new: FloatArray | IntArray) -> None:
    """Append values of new clients to those of an arm, in an array of its own."""
    held[arm] = np.concatenate((held.get(arm, new[:0]), new))


class ClientEvidence:
    """The statistics of every client, replication by replication.

    Parameters
    ----------
    games : sequence of Game
        One, with a noise law whose sums have a closed form.
    replications : array of int
        Their numbers.
    """

    # Several phases at once would need as many sums of every client.
    most_phases: ClassVar[int] = 1

    def __init__(self, games: Sequence[Game], replications: IntArray) -> None:
        (game,) = games
        self.problem = game.played
        # Asked for once: it is judged whenever it is asked for.
        self._phase_sums = self.problem.noise.phase_sums
        self.rule = game.phased_rule()
        self.streams = game.streams()
        self.memory_limit = game.memory_limit
        self.numbers = replications.tolist()
        # By a schedule all arms are pulled alike, and all rows.
        apart = (1, 1) if self.rule.scheduled else (replications.size, self.rule.n_arms)
        self.counts: FloatArray = np.zeros((*apart, 0))
        self._clients: IntArray = np.zeros(replications.size, dtype=np.int64)
        self._shares = self.problem.shares
        self._kept: list[ClientsOfReplication] = []
        self._releases = Releases(game, replications.size)
        self.attack = game.attack

    def admit(self, phase: int, newcomers: IntArray, active: BoolArray) -> None:
        """Admit new clients, with their local means of the remaining arms."""
        self._clients = self._clients + newcomers
        more = int(self._clients.max()) - self.counts.shape[-1]
        if more > 0:
            self.counts = np.pad(self.counts, ((0, 0), (0, 0), (0, more)))
            self._releases.admit(more)
        self._check_memory(active)
        if not self._kept:
            self._kept = [
                ClientsOfReplication(
                    sampler=self.problem.sampler(self.streams.sources(number)),
                    number=number,
                    with_squares=self.rule.needs_squares,
                )
                for number in self.numbers
            ]
        for state, clients, arms in zip(self._kept, newcomers.tolist(), active, strict=True):
            if clients:
                state.admit(clients, np.flatnonzero(arms).tolist())

    def play(self, phase: int, pulls: IntArray, active: BoolArray, n_phases: int) -> Played:
        """Let every client pull each arm this often in one phase."""
        most = self.counts.shape[-1]
        before = np.broadcast_to(self.counts, (*pulls.shape, most))
        if self.rule.scheduled:
            fresh = np.full((1, 1, 1), float(pulls.max()))
        else:
            present = np.arange(most) < self._clients[:, np.newaxis, np.newaxis]
            fresh = pulls[:, :, np.newaxis] * present.astype(np.float64)
        self.counts = self.counts + fresh
        distortion = self._releases.play(
            phase, pulls, fresh, self.counts[np.newaxis], np.ones((1, 1, 1))
        )
        honest = None if self.attack is None else self._sums(pulls)
        self._pull(phase, pulls, before)
        if self.attack is not None and honest is not None:
            self._lie(self.attack, phase, pulls, honest)
        # Means are held for some rows at once, and for none if averages are enough.
        at_once = n_rows = active.shape[0]
        if self.rule.scheduled and self.rule.needs_each_client:
            at_once = max(1, _MEANS_AT_ONCE // (active.shape[1] * most))
        parts = [
            self.rule.estimate(self._reports(slice(first, first + at_once), active, distortion))
            for first in range(0, n_rows, at_once)
        ]
        return Played(Estimate.joined(parts), bits=self._releases.bits)

    def _reports(self, rows: slice, active: BoolArray, distortion: Distortion) -> Reports:
        """Return what the clients of some replications have reported, shape (1, rows, …)."""
        kept, active = self._kept[rows], active[rows]
        counts, shares = self.counts[np.newaxis], None
        if self._shares is not None and self.rule.estimator.needs_shares:
            shares = np.zeros((1, len(kept), 1, counts.shape[-1]))
            for row, state in enumerate(kept):
                shares[0, row, 0, : state.rows.size] = self._shares[state.rows]
        reports = Reports(
            counts=counts,
            active=active,
            shares=shares,
            distortion=distortion,
            averages=partial(self._averages, kept, active),
        )
        if self.rule.scheduled and not self.rule.needs_each_client:
            return reports
        means = np.zeros((1, *active.shape, counts.shape[-1]))
        squares = np.zeros(means.shape) if self.rule.needs_squares else None
        share = 1.0 / self.counts[0, 0] if self.rule.scheduled else None
        for row, state in enumerate(kept):
            for arm in np.flatnonzero(active[row]).tolist():
                sums = state.sums[arm]
                mine = means[0, row, arm, : sums.size]
                if share is None:
                    np.divide(sums, np.maximum(self.counts[row, arm, : sums.size], 1.0), out=mine)
                else:
                    np.multiply(sums, share, out=mine)
                if squares is not None:
                    squares[0, row, arm, : sums.size] = state.squares[arm]
        return replace(reports, means=means, squares=squares, averages=None)

    def _averages(
        self, kept: Sequence[ClientsOfReplication], active: BoolArray, weights: FloatArray | None
    ) -> FloatArray:
        """Return averages over clients that all pull alike, one array of means at a time."""
        share = 1.0 / self.counts[0, 0]
        room = np.empty(share.shape)
        averages = np.zeros((1, *active.shape))
        if weights is not None:
            weights = np.broadcast_to(weights, (1, len(kept), 1, share.size))
        for row, state in enumerate(kept):
            of_row = None if weights is None else weights[0, row, 0]
            for arm, playing in enumerate(active[row].tolist()):
                if playing:
                    means = np.multiply(state.sums[arm], share, out=room)
                    averages[0, row, arm] = aggregate(means, of_row)
        return averages

    def _pull(self, phase: int, pulls: IntArray, before: FloatArray) -> None:
        """Add what clients report in this phase to what ``before`` pulls gave."""
        all_room, how = np.empty(before.shape[-1]), self._releases.how
        places, often = np.argwhere(pulls).tolist(), pulls[pulls != 0].tolist()
        for (row, arm), n in zip(places, often, strict=True):
            state = self._kept[row]
            number = state.number
            rng = self.streams.at(Purpose.PHASE_SUMS, replication=number, phase=phase, arm=arm)
            means, cells, sums = state.means[arm], state.cells.get(arm), state.sums[arm]
            room = all_room[: means.size]
            if state.with_squares:
                fresh, scatter = self.problem.noise.phase_moments(rng, n, means, cells, room)
                known = before[row, arm, : means.size], sums, state.squares[arm]
                state.squares[arm] = merged_squares(known, (n, fresh, scatter))
            else:
                fresh = self._phase_sums(rng, n, means, cells, room)
                if how:
                    rng = self.streams.at(
                        Purpose.RELEASES, replication=number, phase=phase, arm=arm
                    )
                    fresh = n * how[row if len(how) > 1 else 0].simulated(fresh / n, rng)
            sums += fresh

    def _lie(self, attack: Attack, phase: int, pulls: IntArray, before: list[FloatArray]) -> None:
        """Let liars report what they like in place of what they have observed in a phase.

        Parameters
        ----------
        attack : Attack
            What they do.
        phase : int
            The phase that was played.
        pulls : array of int, shape (rows, arms)
            How often.
        before : list of array
            The sums of all clients before it, shape (arms, clients); one per row.
        """
        counts = np.broadcast_to(self.counts, (*pulls.shape, self.counts.shape[-1]))
        for row, (state, sums) in enumerate(zip(self._kept, before, strict=True)):
            clients, n = sums.shape[-1], pulls[row].astype(np.float64)[:, np.newaxis]
            liars, arms = attack.liars(clients), np.flatnonzero(pulls[row]).tolist()
            after = sums.copy()
            for arm in arms:
                after[arm] = state.sums[arm]
            known = np.maximum(counts[row, :, :clients], 1.0)
            seen = (after - sums) / np.maximum(n, 1.0)
            scene = Scene(
                phase=phase,
                means=(after / known)[:, ~liars],
                truth=seen[:, liars].__getitem__,
                sums=sums[:, liars],
                counts=(known - n)[:, liars],
                pulls=n[:, 0],
            )
            for arm in arms:
                told = attack.lies(arm, scene, self.problem)
                state.sums[arm][liars] = scene.sums[arm] + n[arm] * told

    def _sums(self, pulls: IntArray) -> list[FloatArray]:
        """Return the sums of all clients, shape (arms, clients); 0 for arms that are not pulled."""
        found = [np.zeros((pulls.shape[1], clients)) for clients in self._clients.tolist()]
        for row, arm in np.argwhere(pulls).tolist():
            found[row][arm] = self._kept[row].sums[arm]
        return found

    def keep(self, going: BoolArray) -> None:
        """Forget the replications that are over."""
        self._kept = list(compress(self._kept, going))
        self._clients = self._clients[going]
        if not self.rule.scheduled:
            self.counts = self.counts[going]
        self._releases.keep(going)

    def _check_memory(self, active: BoolArray) -> None:
        """Refuse to use more memory than the limit: play in parts if that helps, else say so."""
        n, n_arms = active.shape
        clients = self.counts.shape[-1]
        held = clients * (_BYTES_BY_SCHEDULE if self.rule.scheduled else _BYTES_WITHOUT)
        if self.rule.radius.needs_each_client:
            held *= 3  # all means at once, their copy for active arms, and deviations from them
        if self.rule.needs_components or self.rule.estimator.needs_each_client:
            held *= 2  # sums of squares, and what variances are computed with
        if self.problem.population is not None:
            held += self.problem.population * 8  # drawn all at once
        what = f"one replication with {clients:,} clients and {n_arms} arms"
        check_memory(held * n_arms, self.memory_limit, what, "max_clients", replications=n)
