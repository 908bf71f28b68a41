"""The driver of phased rules: many replications in step, phase by phase.

The schedules do not depend on what is observed, so all replications are in the same phase with the
same clients; they differ in which arms are active, and so in how many slots a phase takes. Where
the estimates come from is the business of a fidelity, behind `Evidence`. Several games are played
in step as well, a row a game and replication: they differ in clients and pulls, too. One that
admits nobody where others do goes its own way from there, since it has fewer groups of clients.

Phases that are alike (no new clients, as many pulls) are played together: the rules take a leading
axis of phases as they take one of replications. A replication in which one of them drops an arm is
looked at once more from there on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias

import numpy as np

from fedbandits.privacy.mechanisms import UNPROTECTED_BITS
from fedbandits.rules.arrays import BoolArray, IntArray
from fedbandits.rules.estimates import Estimate
from fedbandits.rules.phased import PhasedRule
from fedbandits.simulation.game import Game, Outcome
from fedbandits.simulation.in_step import FailedGameError, mistakes_of
from fedbandits.simulation.memory_limit import OutOfMemoryLimitError, in_parts
from fedbandits.simulation.scoreboard import Scoreboard


@dataclass(frozen=True, slots=True)
class Played:
    """What some phases gave, one after the other.

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
    """The statistics that the clients of many replications have gathered."""

    @property
    def most_phases(self) -> int:
        """How many phases can be played at once."""
        ...

    def admit(self, phase: int, clients: int, active: BoolArray) -> None:
        """Let new clients in; only their local means of active arms are ever needed."""
        ...

    def play(self, phase: int, pulls: int, active: BoolArray, n_phases: int) -> Played:
        """Pull the active arms in one or several phases that are alike."""
        ...

    def keep(self, going: BoolArray) -> None:
        """Forget the replications that are over.

        What is held is replaced and not written into: a shallow copy may keep the others.
        """
        ...


class SharedEvidence(Evidence, Protocol):
    """That of several games in step: clients and pulls are arrays, an entry a replication."""

    def admit(self, phase: int, clients: int | IntArray, active: BoolArray) -> None:
        """Let new clients in."""
        ...

    def play(self, phase: int, pulls: int | IntArray, active: BoolArray, n_phases: int) -> Played:
        """Pull the active arms in one or several phases that are alike."""
        ...


EvidenceFactory: TypeAlias = Callable[[Game, IntArray], Evidence]
"""Makes the evidence of a game for some replications."""

SharedEvidenceFactory: TypeAlias = Callable[[Sequence[Game], IntArray], SharedEvidence]
"""Makes the evidence of several games for some replications of each."""


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
    return in_parts(partial(play_at_once, game, evidence_of=evidence_of), replications)


def play_at_once(game: Game, replications: IntArray, evidence_of: EvidenceFactory) -> Outcome:
    """Play replications of a game in one batch; parameters as in `play_phases`.

    Raises
    ------
    OutOfMemoryLimitError
        If they are too many for that.
    """
    board = Scoreboard([game], replications)
    try:
        _play_in_step(board, _Alone(evidence_of(game, replications)))
    except FailedGameError as error:
        raise error.problem from None
    return board.outcome()


def play_in_step(
    games: Sequence[Game], replications: IntArray, evidence_of: SharedEvidenceFactory
) -> list[Outcome]:
    """Play replications of several games in step.

    Parameters
    ----------
    games : sequence of Game
        With one key of `fedbandits.simulation.in_step.key_in_step`.
    replications : array of int
        Of each game, ascending.
    evidence_of : callable
        The fidelity.

    Raises
    ------
    FailedGameError
        If a schedule of one of them has no value in a phase.
    """
    if len(games) == 1:
        with mistakes_of(games[0]):
            alone = play_phases(
                games[0], replications, lambda game, some: evidence_of([game], some)
            )
        return [alone]
    try:
        board = Scoreboard(games, replications)
        _play_in_step(board, evidence_of(games, replications))
    except OutOfMemoryLimitError:
        half = len(games) // 2
        return [
            outcome
            for part in (games[:half], games[half:])
            for outcome in play_in_step(part, replications, evidence_of)
        ]
    return board.outcomes()


class _Alone:
    """The evidence of one game, whose clients and pulls are the same in all replications."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence

    @property
    def most_phases(self) -> int:
        return self.evidence.most_phases

    def admit(self, phase: int, clients: int | IntArray, active: BoolArray) -> None:
        self.evidence.admit(phase, int(np.max(clients)), active)

    def play(self, phase: int, pulls: int | IntArray, active: BoolArray, n_phases: int) -> Played:
        return self.evidence.play(phase, int(np.max(pulls)), active, n_phases)

    def keep(self, going: BoolArray) -> None:
        self.evidence.keep(going)


def _plan(board: Scoreboard, phase: int, rows: IntArray) -> IntArray:
    """Return how often each client pulls each arm in this phase, in some rows."""
    if len(board.rules) == 1:
        return board.rule.plan(phase, board.active[rows])
    pulls = np.zeros(len(board.rules), dtype=np.int64)
    for game in board.games(rows):
        with mistakes_of(board.played[game]):
            pulls[game] = board.rules[game].pulls_in(phase)
    return np.where(board.active[rows], pulls[board.of_row[rows], np.newaxis], 0)


def _settle(board: Scoreboard, phase: int, played: Played) -> None:
    """Decide phases that are alike: every row up to its first drop, then on from there."""
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
        board.account(rows, _plan(board, phase, rows), played.bits, until - done)
        stays = np.zeros_like(active)
        last = (until - 1, np.arange(rows.size))
        stays[:, arms] = verdict.active[last]
        decided = verdict.settled[last]
        best = arms[board.rule.best(verdict.estimates[last], verdict.active[last])]
        board.decide(rows, phase + until - 1, stays, best, decided)
        again = ~decided & (until < n_phases)
        places, done = places[again], until[again]


@dataclass(frozen=True, slots=True)
class _Crowd:
    """The clients of one game: how many, and whether a cap has ever cut them short."""

    clients: int = 0
    capped: bool = False


def _play_in_step(
    board: Scoreboard,
    evidence: SharedEvidence,
    phase: int = 0,
    crowds: Mapping[int, _Crowd] | None = None,
    stretch: int = 1,
) -> None:
    """Play the rows that go on, from after a phase until all are over."""
    crowds = dict.fromkeys(board.games(), _Crowd()) if crowds is None else crowds
    while board.rows.size:
        phase += 1
        before = {game: crowds[game] for game in board.games()}
        crowds = {}
        for game, crowd in before.items():
            with mistakes_of(board.played[game]):
                crowds[game] = _admitted(board.rules[game], phase, crowd)
        newcomers = {game: crowds[game].clients - before[game].clients for game in crowds}
        if all(newcomers.values()) != any(newcomers.values()):
            apart = [game for game, joining in newcomers.items() if not joining]
            going = ~np.isin(board.of_row[board.rows], apart)
            rest, board.rows = board.rows[going], board.rows[~going]
            own = copy(evidence)
            own.keep(~going)
            evidence.keep(going)
            own_crowds = {game: before[game] for game in apart}
            _play_in_step(board, own, phase - 1, own_crowds, stretch)
            board.rows = rest
        _count_clients(board, crowds)
        planned = _plan(board, phase, board.rows)
        fits = planned.sum(axis=-1) <= board.slots_left()
        if not fits.all():
            board.play_out(~fits, planned)
            evidence.keep(fits)
            planned = planned[fits]
            if not board.rows.size:
                break
        playing = board.active[board.rows]
        of_row = board.of_row[board.rows]
        joining = np.array([newcomers.get(game, 0) for game in range(len(board.rules))])
        if joining[of_row[0]]:
            evidence.admit(phase, joining[of_row], playing)
        fitting = int((board.slots_left() // planned.sum(axis=-1)).min())
        n_phases = min(stretch, fitting, evidence.most_phases)
        for game in board.games():
            with mistakes_of(board.played[game]):
                n_phases = _alike(board.rules[game], phase, crowds[game], n_phases)
        played = evidence.play(phase, planned.max(axis=-1), playing, n_phases)
        _settle(board, phase, played)
        stretch *= 2
        phase += n_phases - 1
        over = board.end(phase, played.estimate.values[-1])
        if over.any():
            evidence.keep(~over)


def _admitted(rule: PhasedRule, phase: int, crowd: _Crowd) -> _Crowd:
    newcomers, capped = rule.admit(phase, crowd.clients, crowd.capped)
    return _Crowd(crowd.clients + newcomers, capped)


def _count_clients(board: Scoreboard, crowds: Mapping[int, _Crowd]) -> None:
    """Enter how many clients there are into the rows that go on."""
    rows = board.rows
    n_games = len(board.rules)
    clients = np.array([crowds[game].clients if game in crowds else 0 for game in range(n_games)])
    capped = np.array([game in crowds and crowds[game].capped for game in range(n_games)])
    board.clients[rows] = clients[board.of_row[rows]]
    board.capped[rows] = capped[board.of_row[rows]]


def _alike(rule: PhasedRule, phase: int, crowd: _Crowd, most: int) -> int:
    """Return how many phases from this one on pull as often and admit nobody, up to a most."""
    pulls, found = rule.pulls(phase), 1
    while (
        found < most
        and not rule.ends_after(phase + found - 1)
        and _admitted(rule, phase + found, crowd) == crowd
        and rule.pulls(phase + found) == pulls
    ):
        found += 1
    return found
