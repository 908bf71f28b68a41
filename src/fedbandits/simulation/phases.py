"""The driver of phased rules: many replications in step, phase by phase.

The schedules do not depend on what is observed, so all replications are in the same phase with the
same clients; they differ in which arms are active, and so in how many slots a phase takes. Where
the estimates come from is the business of a fidelity, behind `Evidence`.

Phases that are alike (no new clients, as many pulls) are played together: the rules take a leading
axis of phases as they take one of replications. A replication in which one of them drops an arm is
looked at once more from there on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from fedbandits.privacy.mechanisms import UNPROTECTED_BITS
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.distortion import UNDISTORTED, Distortion
from fedbandits.rules.phased import PhasedRule
from fedbandits.rules.variance_components import VarianceComponents
from fedbandits.simulation.batch import Batch, in_parts
from fedbandits.simulation.game import Game, Outcome


@dataclass(frozen=True, slots=True)
class Played:
    """What some phases gave, one after the other.

    Parameters
    ----------
    estimates : array, shape (phases, replications, arms)
        Global estimates after each.
    counts : array, shape (phases, 1, 1, groups)
        Pulls so far of an active arm by each client of a group.
    client_means : array, shape (phases, replications, arms, clients), optional
        The mean of every client, for radii that need them.
    components : VarianceComponents, shape (phases, replications), optional
        What is estimated of σ and σ_c, for rules that do not know them.
    shares : array, shape (phases, replications, 1, clients), optional
        The weight of every client, where they have weights of their own.
    distortion : Distortion, shape (phases, 1, 1, groups)
        What protecting clients' means leaves in them.
    bits : int
        Of every mean that was sent.
    """

    estimates: FloatArray
    counts: FloatArray
    client_means: FloatArray | None = None
    components: VarianceComponents | None = None
    shares: FloatArray | None = None
    distortion: Distortion = UNDISTORTED
    bits: int = UNPROTECTED_BITS


class Evidence(Protocol):
    """The statistics that the clients of many replications have gathered."""

    @property
    def most_phases(self) -> int:
        """How many phases can be played at once."""
        ...

    @property
    def sizes(self) -> FloatArray:
        """Clients in each group, shape (groups,)."""
        ...

    def admit(self, phase: int, clients: int, active: BoolArray) -> None:
        """Let new clients in; only their local means of active arms are ever needed."""
        ...

    def play(self, phase: int, pulls: int, active: BoolArray, n_phases: int) -> Played:
        """Pull the active arms in one or several phases that are alike."""
        ...

    def keep(self, going: BoolArray) -> None:
        """Forget the replications that are over."""
        ...


EvidenceFactory: TypeAlias = Callable[[Game, IntArray], Evidence]
"""Makes the evidence of a game for some replications."""


def play_phases(game: Game, replications: IntArray, evidence_of: EvidenceFactory) -> Outcome:
    """Play replications of a game with a phased rule, in as many batches as memory asks for.

    Parameters
    ----------
    game : Game
        With a `PhasedRule`.
    replications : array of int
        Their numbers, ascending.
    evidence_of : callable
        The fidelity.
    """
    rule = game.phased_rule()
    return in_parts(
        lambda part: _play_in_step(game, rule, part, evidence_of(game, part)), replications
    )


class _Standings(Batch):
    """Replications that are all in the same phase with the same clients."""

    def settle(self, phase: int, played: Played, sizes: FloatArray) -> None:
        """Decide phases that are alike: every row up to its first drop, then on from there."""
        n_phases = played.estimates.shape[0]
        steps = np.arange(n_phases)
        if self.trace is not None:
            self.trace += [np.full(self.active.shape, np.nan) for _ in steps]
        places = np.arange(self.rows.size)
        done = np.zeros_like(places)
        while places.size:
            rows = self.rows[places]
            active = self.active[rows]
            # An arm that is out everywhere would only take time.
            arms = np.flatnonzero(active.any(axis=0))
            playing = active[:, arms]
            estimates = played.estimates[:, places[:, np.newaxis], arms]
            verdict = self.rule.decide(
                phase=(phase + steps).reshape(-1, 1, 1),
                active=playing,
                estimates=estimates,
                counts=played.counts,
                sizes=sizes,
                client_means=None
                if played.client_means is None
                else played.client_means[:, places[:, np.newaxis], arms],
                components=None if played.components is None else played.components.at(places),
                shares=None if played.shares is None else played.shares[:, places],
                distortion=played.distortion,
            )
            turns = (verdict.active != playing).any(axis=-1) | verdict.settled
            turns &= steps[:, np.newaxis] >= done
            until = np.where(turns.any(axis=0), turns.argmax(axis=0) + 1, n_phases)
            self._remember(phase, rows, played.estimates[:, places], done, until)
            self.account(rows, self.rule.plan(phase, active), played.bits, until - done)
            stays = np.zeros_like(active)
            last = (until - 1, np.arange(rows.size))
            stays[:, arms] = verdict.active[last]
            decided = verdict.settled[last]
            best = arms[self.rule.best(verdict.estimates[last], verdict.active[last])]
            self.decide(rows, phase + until - 1, stays, best, decided)
            again = ~decided & (until < n_phases)
            places, done = places[again], until[again]

    def _remember(
        self, phase: int, rows: IntArray, estimates: FloatArray, done: IntArray, until: IntArray
    ) -> None:
        """Keep the estimates of phases, if that was asked for."""
        if self.trace is not None:
            for step, values in enumerate(estimates):
                now = (done <= step) & (step < until)
                self.trace[phase - 1 + step][rows[now]] = np.where(
                    self.active[rows[now]], values[now], np.nan
                )


def _play_in_step(
    game: Game, rule: PhasedRule, replications: IntArray, evidence: Evidence
) -> Outcome:
    standings = _Standings(game, rule, replications.size)
    phase, clients, capped, stretch = 0, 0, False, 1
    while standings.rows.size:
        phase += 1
        newcomers, capped = rule.admit(phase, clients, capped)
        clients += newcomers
        standings.clients[standings.rows] = clients
        standings.capped[standings.rows] = capped
        planned = rule.plan(phase, standings.active[standings.rows])
        fits = planned.sum(axis=-1) <= standings.slots_left()
        if not fits.all():
            standings.play_out(~fits, planned)
            evidence.keep(fits)
            planned = planned[fits]
            if not standings.rows.size:
                break
        playing = standings.active[standings.rows]
        if newcomers:
            evidence.admit(phase, newcomers, playing)
        fitting = int((standings.slots_left() // planned.sum(axis=-1)).min())
        most = min(stretch, fitting, evidence.most_phases)
        n_phases = _alike(rule, phase, clients, capped, most)
        played = evidence.play(phase, int(planned[0].max()), playing, n_phases)
        standings.settle(phase, played, evidence.sizes)
        stretch *= 2
        phase += n_phases - 1
        over = standings.end(phase, played.estimates[-1])
        if over.any():
            evidence.keep(~over)
    return standings.outcome()


def _alike(rule: PhasedRule, phase: int, clients: int, capped: bool, most: int) -> int:
    """Return how many phases from this one on pull as often and admit nobody, up to a most."""
    pulls, found = rule.pulls(phase), 1
    while (
        found < most
        and not rule.ends_after(phase + found - 1)
        and rule.admit(phase + found, clients, capped) == (0, capped)
        and rule.pulls(phase + found) == pulls
    ):
        found += 1
    return found
