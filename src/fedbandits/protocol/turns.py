"""The order in which a client tries the options: in turns, each turn in an order of its own.

If every option were tried in one go, one of them would have the mornings and another the nights. In
permuted blocks none is confounded with the time of day; how often each is tried stays the same, and
so does the law of its mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

Turns: TypeAlias = Callable[[int, Sequence[int]], Iterator[tuple[int, int]]]
"""From a phase and its pulls of each arm to which arm to pull next, and how often."""

MOST_TURNS = 100
"""More turns than this would cost calls, and hardly mix any better."""


def in_order(_phase: int, pulls: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield one arm after the other: the paper's order, if nothing depends on the time.

    Examples
    --------
    >>> list(in_order(1, [2, 0, 3]))
    [(0, 2), (2, 3)]
    """
    for arm, n in enumerate(pulls):
        if n:
            yield arm, n


def permuted_blocks(seed: int, client: str) -> Turns:
    """Return turns in permuted blocks, the same whenever they are asked for.

    Parameters
    ----------
    seed : int
        Of the trial.
    client : str
        Whose they are: no two clients keep step with each other.

    Examples
    --------
    >>> order = permuted_blocks(7, "alice")
    >>> list(order(1, [1, 1, 1])) == list(order(1, [1, 1, 1]))
    True
    """

    def order(phase: int, pulls: Sequence[int]) -> Iterator[tuple[int, int]]:
        return turns(pulls, np.random.default_rng([seed, phase, *client.encode()]))

    return order


def turns(pulls: Sequence[int], rng: np.random.Generator) -> Iterator[tuple[int, int]]:
    """Yield arms with how often to pull each now, until all have been pulled as often as planned.

    Parameters
    ----------
    pulls : sequence of int
        How often to pull each arm in all.
    rng : numpy.random.Generator
        For the order within a turn.

    Examples
    --------
    >>> list(turns([2, 0, 2], np.random.default_rng(2)))
    [(0, 1), (2, 1), (2, 1), (0, 1)]
    """
    n_turns = min(max(pulls, default=0), MOST_TURNS)
    active = [arm for arm, n in enumerate(pulls) if n]
    for turn in range(n_turns):
        for place in rng.permutation(len(active)).tolist():
            arm = active[place]
            # As even as whole numbers can be.
            now = pulls[arm] * (turn + 1) // n_turns - pulls[arm] * turn // n_turns
            if now:
                yield arm, now
