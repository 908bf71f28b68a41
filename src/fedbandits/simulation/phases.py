"""The driver of phased rules: many replications in step, phase by phase.

The schedules do not depend on what is observed, so all replications are in the same phase with the
same clients; they differ in which arms are active, and so in how many slots a phase takes. Where
the estimates come from is the business of a fidelity, behind `Evidence`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import numpy as np

from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.eliminations import best_active
from fedbandits.rules.phased import PhasedRule, cut_to_fit
from fedbandits.simulation.game import Game, Outcome


class OutOfMemoryLimitError(Exception):
    """The statistics of these replications together would exceed the memory limit."""


class Evidence(Protocol):
    """The statistics that the clients of many replications have gathered."""

    @property
    def counts(self) -> FloatArray:
        """Pulls so far of an active arm by each client of a group, shape (groups,)."""
        ...

    @property
    def sizes(self) -> FloatArray:
        """Clients in each group, shape (groups,)."""
        ...

    def admit(self, phase: int, clients: int, active: BoolArray) -> None:
        """Let new clients in; only their local means of active arms are ever needed."""
        ...

    def play(self, phase: int, pulls: int, active: BoolArray) -> FloatArray:
        """Pull the active arms and return the estimates, shape (replications, arms)."""
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
    rule = game.rule
    if not isinstance(rule, PhasedRule):
        raise TypeError("a slot rule has no phases")
    try:
        return _play_in_step(game, rule, replications, evidence_of(game, replications))
    except OutOfMemoryLimitError:
        # Streams are keyed by replication, so a batch can be begun again in halves.
        half = replications.size // 2
        parts = (replications[:half], replications[half:])
        return Outcome.joined([play_phases(game, part, evidence_of) for part in parts])


def _play_in_step(
    game: Game, rule: PhasedRule, replications: IntArray, evidence: Evidence
) -> Outcome:
    n = replications.size
    ledger = game.ledger(n)
    active = np.ones((n, rule.n_arms), dtype=np.bool_)
    n_clients = np.zeros(n, dtype=np.int64)
    phases = np.zeros(n, dtype=np.int64)
    decision_slot = np.full(n, -1, dtype=np.int64)
    winner = np.full(n, -1, dtype=np.int64)
    capped_rows = np.zeros(n, dtype=np.bool_)
    trace: list[FloatArray] = []
    rows = np.arange(n)
    phase, clients, capped = 0, 0, False
    while rows.size:
        phase += 1
        newcomers, capped = rule.admit(phase, clients, capped)
        clients += newcomers
        n_clients[rows] = clients
        if capped:
            capped_rows[rows] = True
        playing = active[rows]
        planned = rule.plan(phase, playing)
        fitting = cut_to_fit(planned, rule.horizon - ledger.slot[rows])
        complete = (fitting == planned).all(axis=-1)
        ledger.play(rows, fitting, clients=clients, complete=complete)
        if not complete.all():
            rows, playing, planned = rows[complete], playing[complete], planned[complete]
            evidence.keep(complete)
            if not rows.size:
                break
        if newcomers:
            evidence.admit(phase, newcomers, playing)
        estimates = evidence.play(phase, int(planned[0].max()), playing)
        verdict = rule.decide(
            phase=phase,
            active=playing,
            estimates=estimates,
            counts=evidence.counts,
            sizes=evidence.sizes,
        )
        if game.trace:
            trace.append(np.full(active.shape, np.nan))
            trace[-1][rows] = np.where(playing, estimates, np.nan)
        active[rows] = verdict.active
        phases[rows] = phase
        over = verdict.active.sum(axis=-1) == 1
        decision_slot[rows[over]] = ledger.slot[rows[over]]
        winner[rows[over]] = verdict.active[over].argmax(axis=-1)
        if rule.ends_after(phase):
            if phase == rule.max_phases:
                capped_rows[rows[~over]] = True
            over = np.ones_like(over)
        if over.any():
            best = best_active(verdict.estimates[over], verdict.active[over])
            ledger.stay(rows[over], best, clients=clients)
            evidence.keep(~over)
            rows = rows[~over]
    return Outcome(
        exploration=ledger.exploration,
        communication=ledger.communication,
        clients=n_clients,
        phases=phases,
        decision_slot=decision_slot,
        winner=winner,
        capped=capped_rows,
        exploration_curves=ledger.exploration_curves,
        communication_curves=ledger.communication_curves,
        trace=np.array(trace) if game.trace else None,
        breakpoints=tuple(ledger.breakpoints()),
    )
