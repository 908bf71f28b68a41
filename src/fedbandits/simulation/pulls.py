"""Fidelity `pulls`: every observation, through the real client and server machines.

The reference that everything is checked against, for any reward law.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from fedbandits.errors import InputError
from fedbandits.loopback import play
from fedbandits.privacy.mechanisms import UNPROTECTED_BITS
from fedbandits.privacy.sampling import seeded_noise
from fedbandits.protocol import Client, PhaseClosed, PhaseOpened, Reason, Server
from fedbandits.rules.arrays import FloatArray, IntArray
from fedbandits.rules.phased import Charge, PhasedRule
from fedbandits.simulation.attacks import Attack, Scene
from fedbandits.simulation.game import Game, PlayedGames, check_memory, ledger_of
from fedbandits.simulation.regret import Turn, regret_of_turns
from fedbandits.simulation.streams import Purpose


def play_pulls(game: Game, replications: IntArray) -> PlayedGames:
    """Play replications of a game, one after the other, pull by pull."""
    rule, population = game.phased_rule(), game.played.population or 0
    held = 8 * population * game.problem.means.size  # drawn at once
    check_memory(held, game.memory_limit, f"a population of {population:,}", "population")
    return PlayedGames.joined(
        [_play_one(game, rule, replication) for replication in replications.tolist()]
    )


def play_logged(game: Game, rule: PhasedRule, replication: int) -> Server:
    """Play one replication and return its server, with the log of all messages."""
    return _play(game, rule, replication)[0]


def _play(game: Game, rule: PhasedRule, replication: int) -> tuple[Server, _ClientSource]:
    source, number = _ClientSource(game, replication), np.array([replication])
    streams = game.streams()
    server = Server(
        rule,
        run=f"replication {replication}",
        weights=source.weights,
        privacy=game.privacy,
        draws=lambda phase: lambda draw: streams.draws(number, phase)(draw)[0],
    )
    play(server, source.admit, in_order=source.liars_last)
    return server, source


class _ClientSource:
    """Makes the clients of a replication; each draws from its own stream."""

    def __init__(self, game: Game, replication: int) -> None:
        self.problem, self.privacy = game.played, game.privacy
        self.streams, self.replication = game.streams(), replication
        self.attack, self.clients = game.attack, list[Client]()
        # Slots that each client has played, from the first of the game; all play the same.
        self.clocks = list[int]()
        # What clients have reported, if some of them lie: sums and pulls, shape (arms, clients).
        self.told = np.zeros((2, self.problem.means.size, 0))
        # The clients of a finite population depend on each other: they are drawn together.
        self.together = None
        if self.problem.population is not None:
            self.together = self.problem.sampler(self.streams.sources(replication))
        # Clients that have weights are called by their rows.
        self.weights = None
        if self.problem.shares is not None:
            self.weights = {
                str(row): share for row, share in enumerate(self.problem.shares.tolist())
            }

    def admit(self, wanted: int) -> list[Client]:
        first = len(self.clients)
        self.clocks += [max(self.clocks, default=0)] * wanted
        newcomers = [self._client(number) for number in range(first, first + wanted)]
        self.clients.extend(newcomers)
        return newcomers

    def _client(self, number: int) -> Client:
        rng = self.streams.open(Purpose.CLIENT, replication=self.replication, arm=number)
        model = (self.together or self.problem.sampler(lambda _: rng)).draw(1)
        named_by = model.rows if self.weights is not None else None
        name = str(number if named_by is None else int(named_by[0]))
        noise, means = self.problem.noise, model.means[:, 0].tolist()
        cells = [None] * len(means) if model.cells is None else model.cells[:, 0].tolist()

        def observe(arm: int, n: int) -> FloatArray:
            local = (
                means[arm]
                if self.problem.drift is None
                else means[arm] + self._moved(number, arm, n)
            )
            return noise.observe(noise.variates(rng, n), local, cells[arm])

        attack = self.attack
        pull = observe if attack is None else self._attacking(attack, number, observe)

        own = self.streams.open(Purpose.CLIENT_RELEASES, replication=self.replication, arm=number)
        return Client(name, pull, privacy=self.privacy, noise=seeded_noise(own), rng=own)

    def _moved(self, number: int, arm: int, n: int) -> FloatArray:
        """Return how far the mean of an arm has moved in the next slots of a client."""
        now, self.clocks[number] = self.clocks[number], self.clocks[number] + n
        means = self.problem.means_at(np.append(0, np.arange(now + 1, now + n + 1)))[:, arm]
        return np.asarray(means[1:] - means[0])

    def liars_last(self, clients: Sequence[Client]) -> Sequence[Client]:
        """Return the clients in the order in which they report: liars know what others say."""
        if self.attack is None:
            return clients
        lying = self.attack.liars(len(clients)).tolist()
        return [clients[at] for at in sorted(range(len(clients)), key=lying.__getitem__)]

    def _attacking(
        self, attack: Attack, number: int, observe: Callable[[int, int], FloatArray]
    ) -> Callable[[int, int], FloatArray]:
        """Return how a client pulls if some lie: what it reports is noted, and a lie if it lies."""
        self.told = np.pad(self.told, ((0, 0), (0, 0), (0, number + 1 - self.told.shape[-1])))
        asked = np.zeros(self.problem.means.size, dtype=np.int64)

        def pull(arm: int, n: int) -> FloatArray:
            asked[arm] += 1
            liars = attack.liars(self.told.shape[-1])
            sums, counts = self.told
            if not liars[number]:
                seen = observe(arm, n)
            else:
                honest = ~liars
                known = np.maximum(counts[:, honest], 1.0)
                # Arms that are still played have been pulled by everybody in this phase.
                most = counts[:, honest].max(axis=-1, initial=0.0)
                scene = Scene(
                    phase=int(asked[arm]),
                    means=sums[:, honest] / known,
                    truth=lambda other: np.array([observe(other, n).mean()]),
                    sums=sums[:, [number]],
                    counts=counts[:, [number]],
                    pulls=np.where(most == most.max(), float(n), 0.0),
                )
                seen = np.full(n, attack.lies(arm, scene, self.problem)[0])
            self.told[0, arm, number] += seen.sum()
            self.told[1, arm, number] += n
            return seen

        return pull


def _play_one(game: Game, rule: PhasedRule, replication: int) -> PlayedGames:
    server, source = _play(game, rule, replication)
    row = np.array([0])
    ledger = ledger_of([game], row)
    clients, observations, decision_slot = 0, 0, 0
    trace: list[list[FloatArray]] = []
    playing, turns = (True,) * rule.n_arms, list[Turn]()
    for record in server.log:
        if isinstance(record, PhaseOpened):
            clients += len(record.admitted)
            pulls = np.array([record.assignment.pulls], dtype=np.int64)
            ledger.play(row, pulls, clients=clients, complete=record.complete)
            turns += [Turn(arm, n, clients) for arm, n in enumerate(record.assignment.pulls)]
            observations += clients * sum(record.assignment.pulls) * record.complete
        elif isinstance(record, PhaseClosed):
            decision_slot = int(ledger.slot[0])
            trace.append([np.where(playing, record.decision.estimates, np.nan)])
            playing = record.decision.active
            if record.decision.final:
                left = int(ledger.horizon - ledger.slot[0])
                turns.append(Turn(record.decision.best, left, clients))
                ledger.stay(row, np.array([record.decision.best]), clients=clients)
    # Means at the end of a phase, every observation by itself, or nothing at all.
    bits = {
        Charge.PHASE: sum(server.uplink_bits.values()),
        Charge.SLOT: observations * UNPROTECTED_BITS,
        Charge.NOTHING: 0,
    }[rule.charge]
    decision = server.decision
    winner = None if decision is None else decision.winner
    at_last = decision is not None and winner is None and decision.phase == rule.max_phases
    found = PlayedGames.of(
        ledger,
        clients=np.array([len(server.clients)]),
        phases=np.array([0 if decision is None else decision.phase]),
        decision_slot=np.array([-1 if winner is None else decision_slot]),
        winner=np.array([-1 if winner is None else winner]),
        capped=np.array([server.capped or at_last]),
        spent=np.array([decision is not None and decision.reason is Reason.BUDGET]),
        uplink_bits=np.array([float(bits)]),
        clipped=np.array([float(sum(client.clipped for client in source.clients))]),
        trace=np.array(trace).reshape(-1, 1, rule.n_arms) if game.trace else None,
    )
    if game.problem.drift is None:
        return found
    if game.breakpoints:
        raise InputError("breakpoints", "regret bends in every slot if means change; leave it out")
    curve = regret_of_turns(game.problem, turns)[game.grid - 1][np.newaxis]
    return replace(found, exploration=curve[:, -1], exploration_curves=curve, breakpoints=())
