"""The driver of rules that decide in every slot: `ucb1` and `local-ucb`.

All players of all replications in step, slot by slot. Regret is kept on the grid alone.
"""

from __future__ import annotations

import numpy as np

from fedbandits.problems.laws import NoiseLaw
from fedbandits.problems.problem import gaps
from fedbandits.rules.arrays import FloatArray, IntArray
from fedbandits.simulation.game import Game, PlayedGames, check_memory
from fedbandits.simulation.streams import REPLICATIONS_PER_BLOCK, Purpose, Streams, blocks_of

_SLOTS_PER_BLOCK = 256
# Local means, sums, counts and what an index is computed with.
_ARRAYS = 6


def play_slots(game: Game, replications: IntArray) -> PlayedGames:
    """Play replications of a game with a slot rule."""
    rule = game.rule
    if not rule.decides_every_slot:
        raise TypeError("a phased rule does not decide in every slot")
    a_replication = 8 * rule.clients * (_SLOTS_PER_BLOCK + _ARRAYS * rule.n_arms)
    a_replication += 8 * (game.played.population or 0) * rule.n_arms
    what, n = f"one replication with {rule.clients:,} clients", replications.size
    check_memory(a_replication, game.memory_limit, what, "clients", replications=n)
    problem, streams = game.played, game.streams()
    n_clients, n_arms = rule.clients, rule.n_arms
    models = [problem.sampler(streams.sources(r)).draw(n_clients) for r in replications.tolist()]
    # Players are (replication, client). What is known of their arms is kept one after the other,
    # because one index into that is faster than two into a table.
    means = np.array([model.means.T for model in models]).ravel()
    drawn = [model.cells.T for model in models if model.cells is not None]
    cells = np.array(drawn).ravel() if drawn else None
    worse = gaps(game.problem)
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
        arms = rule.choose(*known, slot)
        pulled = begins + arms
        reward_sums[pulled] += problem.noise.observe(
            variates[place], means[pulled], None if cells is None else cells[pulled]
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
