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

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from fedbandits.errors import InputError
from fedbandits.privacy.mechanisms import UNPROTECTED_BITS
from fedbandits.privacy.packing import payload_bits
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.distortion import UNDISTORTED, Distortion
from fedbandits.rules.phased import Charge, PhasedRule, cut_to_fit
from fedbandits.rules.variance_components import VarianceComponents
from fedbandits.simulation.batches import rows_in_step
from fedbandits.simulation.game import Game, Outcome, ledger_of


class OutOfMemoryLimitError(Exception):
    """The statistics of these replications together would exceed the memory limit."""


class FailedGameError(Exception):
    """One of several games in step cannot go on; ``problem`` says why.

    Parameters
    ----------
    game : Game
        Which.
    problem : InputError
        What is wrong with it.
    """

    def __init__(self, game: Game, problem: InputError) -> None:
        super().__init__(game, problem)
        self.game = game
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Played:
    """What some phases gave, one after the other.

    Parameters
    ----------
    estimates : array, shape (phases, replications, arms)
        Global estimates after each.
    counts : array, shape (phases, 1 or replications, 1, groups)
        Pulls so far of an active arm by each client of a group.
    client_means : array, shape (phases, replications, arms, clients), optional
        The mean of every client, for radii that need them.
    components : VarianceComponents, shape (phases, replications) or (replications,), optional
        What is estimated of σ and σ_c, or what rules in step believe that differ in it.
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
        """Clients in each group, shape (groups,) or (replications, 1, groups)."""
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
    try:
        return play_at_once(game, replications, evidence_of)
    except OutOfMemoryLimitError:
        # Streams are keyed by replication, so a batch can be begun again in halves.
        half = replications.size // 2
        parts = (replications[:half], replications[half:])
        return Outcome.joined([play_phases(game, part, evidence_of) for part in parts])


def play_at_once(game: Game, replications: IntArray, evidence_of: EvidenceFactory) -> Outcome:
    """Play replications of a game in one batch; parameters as in `play_phases`.

    Raises
    ------
    OutOfMemoryLimitError
        If they are too many for that.
    """
    standings = _Standings([game], replications)
    try:
        _play_in_step(standings, _Alone(evidence_of(game, replications)))
    except FailedGameError as error:
        raise error.problem from None
    return standings.outcome()


def play_in_step(
    games: Sequence[Game], replications: IntArray, evidence_of: SharedEvidenceFactory
) -> list[Outcome]:
    """Play replications of several games that can be played in step; see `batches`.

    Parameters
    ----------
    games : sequence of Game
        With one key of `fedbandits.simulation.batches.batch_key`.
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
        with _of_game(games[0]):
            alone = play_phases(
                games[0], replications, lambda game, some: evidence_of([game], some)
            )
        return [alone]
    try:
        standings = _Standings(games, replications)
        _play_in_step(standings, evidence_of(games, replications))
    except OutOfMemoryLimitError:
        half = len(games) // 2
        return [
            outcome
            for part in (games[:half], games[half:])
            for outcome in play_in_step(part, replications, evidence_of)
        ]
    together = standings.outcome()
    return [
        together.part(np.flatnonzero(standings.of_row == number)) for number in range(len(games))
    ]


class _Alone:
    """The evidence of one game, whose clients and pulls are the same in all replications."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence

    @property
    def most_phases(self) -> int:
        return self.evidence.most_phases

    @property
    def sizes(self) -> FloatArray:
        return self.evidence.sizes

    def admit(self, phase: int, clients: int | IntArray, active: BoolArray) -> None:
        self.evidence.admit(phase, int(np.max(clients)), active)

    def play(self, phase: int, pulls: int | IntArray, active: BoolArray, n_phases: int) -> Played:
        return self.evidence.play(phase, int(np.max(pulls)), active, n_phases)

    def keep(self, going: BoolArray) -> None:
        self.evidence.keep(going)


class _Standings:
    """How all rows of a batch stand; ``rows`` are those that go on."""

    def __init__(self, games: Sequence[Game], replications: IntArray) -> None:
        self.of_row, _ = rows_in_step(len(games), replications)
        self.played = games
        self.rules = [game.phased_rule() for game in games]
        # For all that rules in step have in common.
        self.rule = self.rules[0]
        n = self.of_row.size
        self.ledger = ledger_of(games, self.of_row)
        self.rows: IntArray = np.arange(n)
        self.active: BoolArray = np.ones((n, self.rule.n_arms), dtype=np.bool_)
        self.clients: IntArray = np.zeros(n, dtype=np.int64)
        self.phases: IntArray = np.zeros(n, dtype=np.int64)
        self.decision_slot: IntArray = np.full(n, -1, dtype=np.int64)
        self.winner: IntArray = np.full(n, -1, dtype=np.int64)
        self.capped: BoolArray = np.zeros(n, dtype=np.bool_)
        self.spent: BoolArray = np.zeros(n, dtype=np.bool_)
        self.uplink_bits: FloatArray = np.zeros(n)
        self.trace: list[FloatArray] | None = [] if games[0].trace else None

    def games(self, rows: IntArray | None = None) -> list[int]:
        """Return the games of some rows, by default of those that go on."""
        if len(self.rules) == 1:
            return [0]
        of_row = self.of_row[self.rows if rows is None else rows]
        return np.flatnonzero(np.bincount(of_row)).tolist()

    def slots_left(self) -> IntArray:
        return self.rule.slots - self.ledger.slot[self.rows]

    def plan(self, phase: int, rows: IntArray) -> IntArray:
        """Return how often each client pulls each arm in this phase, in some rows."""
        if len(self.rules) == 1:
            return self.rule.plan(phase, self.active[rows])
        pulls = np.zeros(len(self.rules), dtype=np.int64)
        for game in self.games(rows):
            with _of_game(self.played[game]):
                pulls[game] = self.rules[game].pulls_in(phase)
        return np.where(self.active[rows], pulls[self.of_row[rows], np.newaxis], 0)

    def play_out(self, over: BoolArray, planned: IntArray) -> None:
        """Let these rows play a phase that does not fit up to the horizon, and end."""
        cut = cut_to_fit(planned[over], self.slots_left()[over])
        rows = self.rows[over]
        self.ledger.play(rows, cut, clients=self.clients[rows], complete=~over[over])
        self.rows = self.rows[~over]

    def settle(self, phase: int, played: Played, sizes: FloatArray) -> None:
        """Decide phases that are alike: every row up to its first drop, then on from there."""
        n_phases = played.estimates.shape[0]
        steps = np.arange(n_phases)
        if self.trace is not None:
            self.trace += [np.full(self.active.shape, np.nan) for _ in steps]
        places = np.arange(self.rows.size)
        done = np.zeros_like(places)
        bits_of = np.array([payload_bits(n, played.bits) for n in range(self.rule.n_arms + 1)])
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
                counts=_of_places(played.counts, places, axis=1),
                sizes=sizes if sizes.ndim == 1 else _of_places(sizes, places, axis=0),
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
            everyone = np.ones(rows.size, dtype=np.bool_)
            planned, clients = self.plan(phase, rows), self.clients[rows]
            self.ledger.play(rows, planned, clients=clients, complete=everyone, times=until - done)
            if self.rule.charge is Charge.PHASE:
                sent = bits_of[active.sum(axis=-1)]
            else:  # every observation by itself, or nothing at all
                sent = played.bits * planned.sum(axis=-1) * (self.rule.charge is Charge.SLOT)
            self.uplink_bits[rows] += clients.astype(np.float64) * (until - done) * sent
            stays = np.zeros_like(active)
            last = (until - 1, np.arange(rows.size))
            stays[:, arms] = verdict.active[last]
            decided = verdict.settled[last]
            self.active[rows] = stays
            self.phases[rows] = phase + until - 1
            self.decision_slot[rows[decided]] = self.ledger.slot[rows[decided]]
            winner = arms[self.rule.best(verdict.estimates[last], verdict.active[last])]
            self.winner[rows[decided]] = winner[decided]
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

    def end(self, phase: int, estimates: FloatArray) -> BoolArray:
        """Let rows that are decided or may not go on stay on their arm; return which they are."""
        rows = self.rows
        over: BoolArray = self.winner[rows] >= 0
        if self.rule.ends_after(phase):
            self.capped[rows] |= ~over & (phase == self.rule.max_phases)
            self.spent[rows] |= ~over & self.rule.spent_after(phase)
            over = np.ones_like(over)
        # A phase that ends with the last slot decides, and none follows.
        over |= self.ledger.slot[rows] == self.rule.slots
        if over.any():
            best = self.rule.best(estimates[over], self.active[rows[over]])
            winner = self.winner[rows[over]]
            arms, clients = np.where(winner < 0, best, winner), self.clients[rows[over]]
            self.ledger.stay(rows[over], arms, clients=clients)
            self.rows = rows[~over]
        return over

    def outcome(self) -> Outcome:
        return Outcome(
            exploration=self.ledger.exploration,
            communication=self.ledger.communication,
            clients=self.clients,
            phases=self.phases,
            decision_slot=self.decision_slot,
            winner=self.winner,
            capped=self.capped,
            spent=self.spent,
            uplink_bits=self.uplink_bits,
            clipped=np.zeros(self.capped.shape),
            exploration_curves=self.ledger.exploration_curves,
            communication_curves=self.ledger.communication_curves,
            trace=None
            if self.trace is None
            else np.array(self.trace[: self.phases.max()]).reshape(-1, *self.active.shape),
            breakpoints=tuple(self.ledger.breakpoints()),
        )


def _of_places(values: FloatArray, places: IntArray, *, axis: int) -> FloatArray:
    """Return the values at some places along an axis, or the one that all have."""
    return values if values.shape[axis] == 1 else np.take(values, places, axis=axis)


@contextmanager
def _of_game(game: Game) -> Iterator[None]:
    """Say which game a mistake is in."""
    try:
        yield
    except InputError as error:
        raise FailedGameError(game, error) from None


@dataclass(frozen=True, slots=True)
class _Crowd:
    """The clients of one game: how many, and whether a cap has ever cut them short."""

    clients: int = 0
    capped: bool = False


def _play_in_step(
    standings: _Standings,
    evidence: SharedEvidence,
    phase: int = 0,
    crowds: Mapping[int, _Crowd] | None = None,
    stretch: int = 1,
) -> None:
    """Play the rows that go on, from after a phase until all are over."""
    crowds = dict.fromkeys(standings.games(), _Crowd()) if crowds is None else crowds
    while standings.rows.size:
        phase += 1
        before = {game: crowds[game] for game in standings.games()}
        crowds = {}
        for game, crowd in before.items():
            with _of_game(standings.played[game]):
                crowds[game] = _admitted(standings.rules[game], phase, crowd)
        newcomers = {game: crowds[game].clients - before[game].clients for game in crowds}
        if all(newcomers.values()) != any(newcomers.values()):
            apart = [game for game, joining in newcomers.items() if not joining]
            going = ~np.isin(standings.of_row[standings.rows], apart)
            rest, standings.rows = standings.rows[going], standings.rows[~going]
            own = copy(evidence)
            own.keep(~going)
            evidence.keep(going)
            own_crowds = {game: before[game] for game in apart}
            _play_in_step(standings, own, phase - 1, own_crowds, stretch)
            standings.rows = rest
        _count_clients(standings, crowds)
        planned = standings.plan(phase, standings.rows)
        fits = planned.sum(axis=-1) <= standings.slots_left()
        if not fits.all():
            standings.play_out(~fits, planned)
            evidence.keep(fits)
            planned = planned[fits]
            if not standings.rows.size:
                break
        playing = standings.active[standings.rows]
        of_row = standings.of_row[standings.rows]
        joining = np.array([newcomers.get(game, 0) for game in range(len(standings.rules))])
        if joining[of_row[0]]:
            evidence.admit(phase, joining[of_row], playing)
        fitting = int((standings.slots_left() // planned.sum(axis=-1)).min())
        n_phases = min(stretch, fitting, evidence.most_phases)
        for game in standings.games():
            with _of_game(standings.played[game]):
                n_phases = _alike(standings.rules[game], phase, crowds[game], n_phases)
        played = evidence.play(phase, planned.max(axis=-1), playing, n_phases)
        standings.settle(phase, played, evidence.sizes)
        stretch *= 2
        phase += n_phases - 1
        over = standings.end(phase, played.estimates[-1])
        if over.any():
            evidence.keep(~over)


def _admitted(rule: PhasedRule, phase: int, crowd: _Crowd) -> _Crowd:
    newcomers, capped = rule.admit(phase, crowd.clients, crowd.capped)
    return _Crowd(crowd.clients + newcomers, capped)


def _count_clients(standings: _Standings, crowds: Mapping[int, _Crowd]) -> None:
    """Enter how many clients there are into the rows that go on."""
    rows = standings.rows
    n_games = len(standings.rules)
    clients = np.array([crowds[game].clients if game in crowds else 0 for game in range(n_games)])
    capped = np.array([game in crowds and crowds[game].capped for game in range(n_games)])
    standings.clients[rows] = clients[standings.of_row[rows]]
    standings.capped[rows] = capped[standings.of_row[rows]]


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
