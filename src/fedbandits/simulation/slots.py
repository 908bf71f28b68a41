"""The driver of rules that decide in every slot, such as `ucb1` and `local-ucb`.

All players of all replications in step, slot by slot. Regret is kept on the grid alone.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from fedbandits.problems.laws import NoiseLaw
from fedbandits.problems.problem import gaps, gaps_at
from fedbandits.rules.arrays import FloatArray, IntArray
from fedbandits.rules.draws import Drawn, DrawRows, SlotDraws
from fedbandits.rules.indices import SlotRule
from fedbandits.simulation.game import Game, PlayedGames, check_memory
from fedbandits.simulation.streams import REPLICATIONS_PER_BLOCK, Purpose, Streams, blocks_of

Blocks: TypeAlias = "list[tuple[int, IntArray, slice]]"

_SLOTS_PER_BLOCK = 256
# Local means, sums, counts and what an index is computed with.
_ARRAYS = 6


def play_slots(game: Game, replications: IntArray) -> PlayedGames:
    """Play replications of a game with a slot rule.

    What a randomised rule draws for one of them comes after what it draws for those before it in
    their block, so these are played as well.
    """
    rule = game.rule
    if not rule.decides_every_slot:
        raise TypeError("a phased rule does not decide in every slot")
    a_replication = 8 * rule.clients * (_SLOTS_PER_BLOCK + _ARRAYS * rule.n_arms)
    a_replication += 8 * (game.played.population or 0) * rule.n_arms
    what, n = f"one replication with {rule.clients:,} clients", replications.size
    check_memory(a_replication, game.memory_limit, what, "clients", replications=n)
    if rule.randomised:
        played = _play(game, rule, _with_earlier(replications))
        return played.part(np.arange(-n, 0) + played.winner.size)
    return _play(game, rule, replications)


def _play(game: Game, rule: SlotRule, replications: IntArray) -> PlayedGames:
    problem, streams, n = game.played, game.streams(), replications.size
    n_clients, n_arms, blocks = rule.clients, rule.n_arms, blocks_of(replications)
    models = [problem.sampler(streams.sources(r)).draw(n_clients) for r in replications.tolist()]
    # Players are (replication, client). What is known of their arms is kept one after the other,
    # because one index into that is faster than two into a table.
    means = np.array([model.means.T for model in models]).ravel()
    drawn = [model.cells.T for model in models if model.cells is not None]
    cells = np.array(drawn).ravel() if drawn else None
    drifts = problem.drift is not None
    worse, moved = gaps(game.problem), np.zeros(n_arms)
    begins = np.arange(0, means.size, n_arms)
    reward_sums, counts = np.zeros(means.size), np.zeros(means.size)
    known = reward_sums.reshape(-1, n_arms), counts.reshape(-1, n_arms)
    regret = np.zeros(n)
    curves = np.empty((n, game.grid.size))
    next_point = 0
    variates = np.empty((0, 0))
    for slot in range(1, rule.horizon + 1):
        place = (slot - 1) % _SLOTS_PER_BLOCK
        if place == 0:
            block = slot // _SLOTS_PER_BLOCK
            variates = _variates(problem.noise, streams, replications, n_clients, block)
        draws = _draws(streams, blocks, n_clients, slot) if rule.randomised else None
        if drifts:
            now = np.array([0, slot])
            worse, moved = gaps_at(problem, now)[1], np.diff(problem.means_at(now), axis=0)[0]
        arms = rule.choose(*known, slot, draws)
        pulled = begins + arms
        local = means[pulled] + moved[arms] if drifts else means[pulled]
        reward_sums[pulled] += problem.noise.observe(
            variates[place], local, None if cells is None else cells[pulled]
        )
        counts[pulled] += 1.0
        regret += worse[arms].reshape(n, n_clients).sum(axis=1)
        if slot == game.grid[next_point]:
            curves[:, next_point] = regret
            next_point += 1
    undecided = np.full(n, -1, dtype=np.int64)
    return PlayedGames(
        exploration=regret,
        communication=np.zeros(n),
        clients=np.full(n, n_clients, dtype=np.int64),
        phases=np.zeros(n, dtype=np.int64),
        decision_slot=undecided,
        winner=undecided,
        capped=np.zeros(n, dtype=np.bool_),
        spent=np.zeros(n, dtype=np.bool_),
        uplink_bits=np.zeros(n),
        clipped=np.zeros(n),
        exploration_curves=curves,
        communication_curves=np.zeros_like(curves),
    )


def _variates(
    noise: NoiseLaw, streams: Streams, replications: IntArray, n_clients: int, slot_block: int
) -> FloatArray:
    """Return the raw variates of a block of slots, shape (slots, players)."""
    variates = np.empty((_SLOTS_PER_BLOCK, replications.size, n_clients))
    for block, places, rows in blocks_of(replications):
        for client in range(n_clients):
            rng = streams.at(Purpose.SLOTS, replication=block, phase=slot_block, arm=client)
            drawn = noise.variates(rng, (_SLOTS_PER_BLOCK, REPLICATIONS_PER_BLOCK))
            variates[:, rows, client] = drawn[:, places]
    return variates.reshape(_SLOTS_PER_BLOCK, -1)


def _with_earlier(replications: IntArray) -> IntArray:
    """Return replications with those before them that draw from the same streams."""
    first = int(replications[0])
    return np.arange(first - first % REPLICATIONS_PER_BLOCK, int(replications[-1]) + 1)


def _draws(streams: Streams, blocks: Blocks, n_clients: int, slot: int) -> SlotDraws:
    """Return what the players of a randomised rule draw in a slot, along the first axis."""

    def drawn(draw: DrawRows) -> Drawn:
        parts = []
        for block, _, rows in blocks:
            rng = streams.at(Purpose.RULE, replication=block, phase=slot)
            parts.append(draw(rng, slice(rows.start * n_clients, rows.stop * n_clients)))
        return np.concatenate(parts)

    return drawn
