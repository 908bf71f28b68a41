"""Fidelity `pulls`: every observation, through the real client and server machines.

The reference that everything is checked against, for any reward law.
"""

from __future__ import annotations

import numpy as np

from fedbandits.errors import InputError
from fedbandits.loopback import play
from fedbandits.privacy.mechanisms import UNPROTECTED_BITS
from fedbandits.privacy.policy import Privacy
from fedbandits.privacy.sampling import seeded_noise
from fedbandits.problems.problem import LocalModels, Problem
from fedbandits.protocol import Client, PhaseClosed, PhaseOpened, Pull, Reason, Server
from fedbandits.rules.arrays import FloatArray, IntArray
from fedbandits.rules.phased import Charge, PhasedRule
from fedbandits.simulation.game import Game, Outcome
from fedbandits.simulation.regret import RegretLedger
from fedbandits.simulation.streams import Purpose, Streams


def play_pulls(game: Game, replications: IntArray) -> Outcome:
    """Play replications of a game, one after the other, pull by pull."""
    rule = game.phased_rule()
    _check_memory(game)
    return Outcome.joined(
        [_play_one(game, rule, replication) for replication in replications.tolist()]
    )


def _check_memory(game: Game) -> None:
    """Refuse a finite population that is drawn at once and does not fit."""
    population = game.played.population or 0
    held = 8 * population * game.problem.means.size
    if held > game.memory_limit:
        raise InputError(
            "memory_limit",
            f"a population of {population:,} takes {held / 2**20:,.0f} MiB, and a process may take "
            f"{game.memory_limit / 2**20:,.0f} MiB; raise it, or lower population",
        )


def play_logged(game: Game, rule: PhasedRule, replication: int) -> Server:
    """Play one replication and return its server, with the log of all messages."""
    return _play(game, rule, replication)[0]


def _play(game: Game, rule: PhasedRule, replication: int) -> tuple[Server, _ClientSource]:
    source = _ClientSource(game.played, game.streams(), replication, game.privacy)
    streams, number = game.streams(), np.array([replication])
    server = Server(
        rule,
        run=f"replication {replication}",
        weights=source.weights,
        privacy=game.privacy,
        draws=lambda phase: lambda draw: streams.draws(number, phase)(draw)[0],
    )
    play(server, source.admit)
    return server, source


class _ClientSource:
    """Makes the clients of a replication: each draws from a stream of its own."""

    def __init__(
        self, problem: Problem, streams: Streams, replication: int, privacy: Privacy | None
    ) -> None:
        self.problem = problem
        self.streams = streams
        self.replication = replication
        self.privacy = privacy
        self.clients: list[Client] = []
        # The clients of a finite population depend on each other: they are drawn together.
        self.together = (
            None if problem.population is None else problem.sampler(streams.sources(replication))
        )
        shares = problem.shares
        # Clients that have weights are called by their rows.
        self.weights = (
            None
            if shares is None
            else {str(row): share for row, share in enumerate(shares.tolist())}
        )

    def admit(self, wanted: int) -> list[Client]:
        first = len(self.clients)
        newcomers = [self._client(number) for number in range(first, first + wanted)]
        self.clients.extend(newcomers)
        return newcomers

    def _client(self, number: int) -> Client:
        rng = self.streams.open(Purpose.CLIENT, replication=self.replication, arm=number)
        sampler = self.together or self.problem.sampler(lambda _: rng)
        model = sampler.draw(1)
        named_by = model.rows if self.weights is not None else None
        name = str(number if named_by is None else int(named_by[0]))
        releases = self.streams.open(
            Purpose.CLIENT_RELEASES, replication=self.replication, arm=number
        )
        return Client(
            name,
            _pull_of(self.problem, model, rng),
            privacy=self.privacy,
            noise=seeded_noise(releases),
            rng=releases,
        )


def _pull_of(problem: Problem, model: LocalModels, rng: np.random.Generator) -> Pull:
    noise = problem.noise
    means = model.means[:, 0].tolist()
    cells = None if model.cells is None else model.cells[:, 0].tolist()

    def pull(arm: int, n: int) -> FloatArray:
        return noise.observe(
            noise.variates(rng, n), means[arm], None if cells is None else cells[arm]
        )

    return pull


def _play_one(game: Game, rule: PhasedRule, replication: int) -> Outcome:
    server, source = _play(game, rule, replication)
    ledger = game.ledger(1)
    decision_slot = _account(server, ledger)
    decision = server.decision
    decided = decision is not None and decision.winner is not None
    return Outcome(
        exploration=ledger.exploration,
        communication=ledger.communication,
        clients=np.array([len(server.clients)]),
        phases=np.array([0 if decision is None else decision.phase]),
        decision_slot=np.array([decision_slot if decided else -1]),
        winner=np.array([decision.winner if decision and decision.winner is not None else -1]),
        capped=np.array(
            [
                server.capped
                or (not decided and decision is not None and decision.phase == rule.max_phases)
            ]
        ),
        spent=np.array([decision is not None and decision.reason is Reason.BUDGET]),
        uplink_bits=np.array([_uplink_bits(server)]),
        clipped=np.array([float(sum(client.clipped for client in source.clients))]),
        exploration_curves=ledger.exploration_curves,
        communication_curves=ledger.communication_curves,
        trace=_trace(server) if game.trace else None,
        breakpoints=tuple(ledger.breakpoints()),
    )


def _account(server: Server, ledger: RegretLedger) -> int:
    """Enter a server's log into the ledger; return the slot of the last decision."""
    row = np.array([0])
    clients, last = 0, 0
    for record in server.log:
        if isinstance(record, PhaseOpened):
            clients += len(record.admitted)
            ledger.play(
                row,
                np.array([record.assignment.pulls], dtype=np.int64),
                clients=clients,
                complete=np.array([record.complete]),
            )
        elif isinstance(record, PhaseClosed):
            last = int(ledger.slot[0])
            if record.decision.final:
                ledger.stay(row, np.array([record.decision.best]), clients=clients)
    return last


def _uplink_bits(server: Server) -> float:
    """Return the bits of all means that clients have sent, or of observations if they send them."""
    if server.rule.charge is Charge.PHASE:
        return float(sum(server.uplink_bits.values()))
    if server.rule.charge is Charge.NOTHING:
        return 0.0
    clients, bits = 0, 0
    for record in server.log:
        if isinstance(record, PhaseOpened):
            clients += len(record.admitted)
            bits += clients * UNPROTECTED_BITS * sum(record.assignment.pulls) * record.complete
    return float(bits)


def _trace(server: Server) -> FloatArray:
    """Return the estimates of every phase, shape (phases, 1, arms)."""
    trace = []
    playing = (True,) * server.rule.n_arms
    for record in server.log:
        if isinstance(record, PhaseClosed):
            trace.append([np.where(playing, record.decision.estimates, np.nan)])
            playing = record.decision.active
    return np.array(trace).reshape(-1, 1, server.rule.n_arms)
