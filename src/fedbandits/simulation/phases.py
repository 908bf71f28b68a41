"""The driver of rules that decide in phases: many replications in step, phase by phase.

Every phase is the same four steps: a rule plans, clients play and report, the rule estimates and
decides. A row is a replication of a game; where its estimates come from is the business of a
fidelity, behind `Evidence`. Several games that follow schedules are played in step as well. One
that admits nobody while others do is played apart from then on, because it has fewer groups of
clients.

Phases of a schedule that are alike (no new clients, as many pulls) are played together: the rules
take a leading axis of phases as they take one of replications. A replication in which one of them
drops an arm is decided again from there on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from fedbandits.errors import InputError
from fedbandits.privacy.mechanisms import UNPROTECTED_BITS
from fedbandits.rules.arrays import BoolArray, IntArray
from fedbandits.rules.estimates import Estimate
from fedbandits.rules.plans import PhasePlan, State
from fedbandits.simulation.game import Game, PlayedGames
from fedbandits.simulation.in_step import mistakes_of
from fedbandits.simulation.scoreboard import Scoreboard

_ONE_ARM = np.ones(1, dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class Played:
    """The results of some phases, one after the other.

    Parameters
    ----------
    estimate : Estimate
        What is known after each; values of shape (phases, replications, arms).
    bits : int
        Of every mean that was sent.
    """

    estimate: Estimate
    bits: int = UNPROTECTED_BITS


class Evidence(Protocol):
    """The statistics that the clients of many replications have gathered; rows are replications."""

    @property
    def most_phases(self) -> int:
        """How many phases can be played at once: one for rules without a schedule."""

    def admit(self, phase: int, newcomers: IntArray, active: BoolArray) -> None:
        """Admit new clients, shape (rows,); only local means of active arms are ever needed."""

    def play(self, phase: int, pulls: IntArray, active: BoolArray, n_phases: int) -> Played:
        """Let every client pull each arm this often, shape (rows, arms), in equal phases."""

    def keep(self, going: BoolArray) -> None:
        """Forget the replications that are over.

        What is held is replaced and not written into: a shallow copy may keep the others.
        """


EvidenceFactory: TypeAlias = Callable[[Sequence[Game], IntArray], Evidence]
"""Makes the evidence of games for some replications of each."""


def play_phases(
    games: Sequence[Game], replications: IntArray, evidence_of: EvidenceFactory
) -> list[PlayedGames]:
    """Play replications of a game with a phased rule, or of several in step.

    Parameters
    ----------
    games : sequence of Game
        One, or several with one key of `fedbandits.simulation.in_step.key_in_step`.
    replications : array of int
        Of each game, ascending.
    evidence_of : callable
        The fidelity.

    Raises
    ------
    OutOfMemoryLimitError
        If they are too many for one batch.
    FailedGameError
        If a schedule of one of them has no value in a phase.
    """
    board = Scoreboard(games, replications)
    _play_in_step(board, evidence_of(games, replications))
    return board.played_games()


def _settle(board: Scoreboard, phase: int, pulls: IntArray, played: Played) -> None:
    """Decide phases that are alike: every row up to its first drop, and then from there."""
    values = played.estimate.values
    n_phases = values.shape[0]
    steps = np.arange(n_phases)
    places = np.arange(board.rows.size)
    done = np.zeros_like(places)
    while places.size:
        rows = board.rows[places]
        active = board.active[rows]
        # An arm that is out everywhere would only take time.
        arms = np.flatnonzero(active.any(axis=0))
        playing = active[:, arms]
        verdict = board.rule.decide(
            phase=(phase + steps).reshape(-1, 1, 1),
            active=playing,
            estimate=played.estimate.at(places, arms),
        )
        turns = (verdict.active != playing).any(axis=-1) | verdict.settled
        turns &= steps[:, np.newaxis] >= done
        until = np.where(turns.any(axis=0), turns.argmax(axis=0) + 1, n_phases)
        board.remember(phase, rows, values[:, places], done, until)
        board.account(rows, np.where(active, pulls[places], 0), played.bits, until - done)
        stays = np.zeros_like(active)
        last = (until - 1, np.arange(rows.size))
        stays[:, arms] = verdict.active[last]
        decided = verdict.settled[last]
        best = arms[board.rule.best(verdict.estimates[last], verdict.active[last])]
        board.active[rows], board.phases[rows] = stays, phase + until - 1
        board.winner[rows[decided]] = best[decided]
        board.decision_slot[rows[decided]] = board.ledger.slot[rows[decided]]
        again = ~decided & (until < n_phases)
        places, done = places[again], until[again]


def _play_in_step(board: Scoreboard, evidence: Evidence, phase: int = 0, stretch: int = 1) -> None:
    """Play the rows that continue, from after a phase until all are over."""
    known: Estimate | None = None
    while board.rows.size:
        phase += 1
        newcomers, pulls, capped = _planned(board, phase, known)
        joining = newcomers > 0
        if len(board.rules) > 1 and joining.any() and not joining.all():
            rest, board.rows = board.rows[joining], board.rows[~joining]
            own = copy(evidence)
            own.keep(~joining)
            evidence.keep(joining)
            _play_in_step(board, own, phase - 1, stretch)
            board.rows = rest
            newcomers, pulls, capped = newcomers[joining], pulls[joining], capped[joining]
        board.clients[board.rows] += newcomers
        board.capped[board.rows] = capped
        fits = pulls.sum(axis=-1) <= board.slots_left()
        if not fits.all():
            board.play_out(~fits, pulls)
            evidence.keep(fits)
            newcomers, pulls = newcomers[fits], pulls[fits]
            if not board.rows.size:
                break
        playing = board.active[board.rows]
        if newcomers.any():
            evidence.admit(phase, newcomers, playing)
        n_phases = _alike(board, phase, pulls, min(stretch, evidence.most_phases))
        played = evidence.play(phase, pulls, playing, n_phases)
        _settle(board, phase, pulls, played)
        stretch *= 2
        phase += n_phases - 1
        over = board.end(phase, played.estimate.values[-1])
        if over.any():
            evidence.keep(~over)
        if not board.rule.scheduled:
            known = played.estimate.last()
            known = known.at(~over) if over.any() else known


def _planned(
    board: Scoreboard, phase: int, known: Estimate | None
) -> tuple[IntArray, IntArray, BoolArray]:
    """Return newcomers, pulls and whether a cap has cut them, for the rows that continue."""
    rows = board.rows
    active, of_row = board.active[rows], board.of_row[rows]
    if not board.rule.scheduled:
        the_one, replications = board.played[0], board.replications[rows]
        draws = the_one.streams().draws(replications, phase) if board.rule.randomised else None
        state = State(
            phase=phase,
            active=active,
            clients=board.clients[rows],
            slots_left=board.slots_left(),
            capped=board.capped[rows],
            estimate=known,
            random=draws,
        )
        with mistakes_of(the_one):
            plan = board.rule.plan(state)
            _check_plan(plan, board, phase)
        newcomers, capped, _ = np.broadcast_arrays(plan.newcomers, plan.capped, rows)
        return newcomers, plan.pulls, capped
    joining = np.zeros(len(board.rules), dtype=np.int64)
    cut, often = np.zeros(joining.shape, dtype=np.bool_), np.zeros_like(joining)
    for game, plan in _plans(board, _crowds(board), phase):
        joining[game], cut[game], often[game] = plan.newcomers, plan.capped, plan.pulls[0]
    return joining[of_row], np.where(active, often[of_row, np.newaxis], 0), cut[of_row]


def _crowds(board: Scoreboard) -> dict[int, tuple[int, bool]]:
    """Return the clients of every game that goes on, and whether a cap has ever cut them short.

    By a schedule they are the same in all rows of a game.
    """
    some_row = np.full(len(board.rules), -1, dtype=np.int64)
    some_row[board.of_row[board.rows]] = board.rows
    return {
        game: (int(board.clients[row]), bool(board.capped[row]))
        for game, row in enumerate(some_row.tolist())
        if row >= 0
    }


def _plans(
    board: Scoreboard, crowds: Mapping[int, tuple[int, bool]], phase: int
) -> Iterator[tuple[int, PhasePlan]]:
    """Yield the plan of a phase for each game that goes on; it is the same in all its rows."""
    slots = board.rule.slots
    for game, (clients, capped) in crowds.items():
        state = State(
            phase=phase, active=_ONE_ARM, clients=clients, slots_left=slots, capped=capped
        )
        with mistakes_of(board.played[game]):
            plan = board.rules[game].plan(state)
        yield game, plan


def _check_plan(plan: PhasePlan, board: Scoreboard, phase: int) -> None:
    """Refuse a plan that cannot be played."""
    if not (plan.pulls.sum(axis=-1) > 0).all() or (plan.pulls < 0).any():
        raise InputError(
            "algorithm",
            f"plans no pulls, or a negative number, in phase {phase}; plan at least one",
        )
    after = board.clients[board.rows] + plan.newcomers
    for most in (board.rule.population, board.rule.max_clients):
        if most is not None and (after > most).any():
            raise InputError(
                "algorithm",
                f"asks for {after.max():,} clients in phase {phase}, and {most:,} is the most; ask"
                " for fewer",
            )


def _alike(board: Scoreboard, phase: int, pulls: IntArray, most: int) -> int:
    """Return how many phases from this one on, up to ``most``, are played alike."""
    if most == 1 or not board.rule.scheduled:
        return 1
    most = min(most, int((board.slots_left() // pulls.sum(axis=-1)).min()))
    crowds = _crowds(board)
    often = np.zeros(len(board.rules), dtype=np.int64)
    often[board.of_row[board.rows]] = pulls.max(axis=-1)
    found = 1
    while found < most and not board.rule.ends_after(phase + found - 1):
        for game, plan in _plans(board, crowds, phase + found):
            if plan.newcomers or plan.capped != crowds[game][1] or plan.pulls[0] != often[game]:
                return found
        found += 1
    return found
