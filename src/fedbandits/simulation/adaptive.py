"""The driver of index rules: many replications in step, each with its own pulls and clients.

What is played depends on what was observed, so that replications differ in which arms they pull, in
how often, and in when clients join. They are still all in the same phase; where the estimates come
from is the business of a fidelity, behind `AdaptiveEvidence`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias

import numpy as np

from fedbandits.privacy.mechanisms import UNPROTECTED_BITS
from fedbandits.rules.arrays import BoolArray, IntArray
from fedbandits.rules.estimates import Estimate
from fedbandits.rules.index_rules import IndexRule
from fedbandits.rules.standing import Standing
from fedbandits.simulation.game import Game, Outcome
from fedbandits.simulation.memory_limit import in_parts
from fedbandits.simulation.scoreboard import Scoreboard


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What all phases so far gave; rows are replications.

    Parameters
    ----------
    estimate : Estimate
        What is known of every arm.
    bits : int
        Of every mean that was sent.
    """

    estimate: Estimate
    bits: int = UNPROTECTED_BITS


class AdaptiveEvidence(Protocol):
    """The statistics that the clients of many replications have gathered, each its own way."""

    def admit(self, phase: int, newcomers: IntArray) -> None:
        """Let new clients in, shape (rows,); none in some of the replications."""
        ...

    def play(self, phase: int, pulls: IntArray, active: BoolArray) -> Gathered:
        """Let every client pull each arm so often, shape (rows, arms)."""
        ...

    def keep(self, going: BoolArray) -> None:
        """Forget the replications that are over."""
        ...


AdaptiveFactory: TypeAlias = Callable[[Game, IntArray], AdaptiveEvidence]
"""Makes the evidence of a game for some replications."""


def play_adaptive(game: Game, replications: IntArray, evidence_of: AdaptiveFactory) -> Outcome:
    """Play replications of a game with an index rule, in as many batches as memory asks for.

    Parameters
    ----------
    game : Game
        With an `IndexRule`.
    replications : array of int
        Their numbers, ascending.
    evidence_of : callable
        The fidelity.
    """
    return in_parts(partial(play_adaptive_at_once, game, evidence_of=evidence_of), replications)


def play_adaptive_at_once(
    game: Game, replications: IntArray, evidence_of: AdaptiveFactory
) -> Outcome:
    """Play replications of a game in one batch; parameters as in `play_adaptive`.

    Raises
    ------
    OutOfMemoryLimitError
        If they are too many for that.
    """
    rule = game.rule
    if not isinstance(rule, IndexRule):
        raise TypeError("its pulls do not depend on what is observed")
    evidence = evidence_of(game, replications)
    board = Scoreboard([game], replications)
    gathered: Gathered | None = None
    phase = 0
    while board.rows.size:
        phase += 1
        newcomers, planned = _next_phase(rule, phase, board, gathered)
        fits = planned.sum(axis=-1) <= board.slots_left()
        if not fits.all():
            board.play_out(~fits, planned)
            evidence.keep(fits)
            newcomers, planned = newcomers[fits], planned[fits]
            if not board.rows.size:
                break
        if newcomers.any():
            evidence.admit(phase, newcomers)
        gathered = evidence.play(phase, planned, board.active[board.rows])
        _settle(rule, phase, board, planned, gathered)
        over = board.end(phase, gathered.estimate.values)
        if over.any():
            evidence.keep(~over)
            gathered = Gathered(estimate=gathered.estimate.at(~over), bits=gathered.bits)
    return board.outcome()


def _next_phase(
    rule: IndexRule, phase: int, board: Scoreboard, gathered: Gathered | None
) -> tuple[IntArray, IntArray]:
    """Return who joins and what is played, and count the clients in."""
    rows = board.rows
    active = board.active[rows]
    if gathered is None:
        clients, cut = rule.admit(phase, 0, False)
        newcomers = np.full(rows.size, clients, dtype=np.int64)
        capped = np.full(rows.size, cut)
        planned = rule.plan(phase, active)
    else:
        standing = Standing(
            active=active,
            estimate=gathered.estimate,
            clients=board.clients[rows],
            slots_left=board.slots_left(),
        )
        choice = rule.choose(standing)
        newcomers, capped = rule.joining(board.capped[rows], standing, choice)
        planned = rule.plan(phase, active, standing, newcomers, choice)
    board.clients[rows] += newcomers
    board.capped[rows] = capped
    return newcomers, planned


def _settle(
    rule: IndexRule, phase: int, board: Scoreboard, pulls: IntArray, gathered: Gathered
) -> None:
    """Account for a phase and enter what it decides."""
    rows = board.rows
    active = board.active[rows]
    verdict = rule.decide(phase=phase, active=active, estimate=gathered.estimate)
    once = np.ones(rows.size, dtype=np.int64)
    board.remember(phase, rows, gathered.estimate.values[np.newaxis], 0 * once, once)
    board.account(rows, pulls, gathered.bits, once)
    best = np.asarray(rule.best(verdict.estimates, verdict.active))
    board.decide(rows, phase, verdict.active, best, verdict.settled)
