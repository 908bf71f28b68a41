"""Problems and their names, small enough to try all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedbandits.problems import (
    Channel,
    CognitiveRadio,
    Empirical,
    Problem,
    Transmitter,
)
from fedbandits.problems.problem import Sources

RATINGS = [
    [[1.0, 5.0], [3.0, 3.0, 4.0]],
    [[4.0], [2.0, 2.0, 5.0]],
    [[2.0, 3.0, 3.0, 5.0], [1.0, 4.0]],
]


def sources(seed: int) -> Sources:
    """Return sources that go on where they were, as the contract of `Sources` says."""
    made: dict[int, np.random.Generator] = {}

    def source(number: int) -> np.random.Generator:
        return made.setdefault(number, np.random.default_rng([seed, number]))

    return source


def two_channels(**settings: Any) -> CognitiveRadio:
    """Return a small radio game in which availability stays well inside (0, 1)."""
    return CognitiveRadio(
        area=(6.0, 4.0),
        channels=[
            Channel(
                [
                    Transmitter(at=(1.0, 3.5), reach=1.2, activity=0.6),
                    Transmitter(at=(4.0, 1.0), reach=2.0, activity=0.4),
                    Transmitter(at=(-3.0, 8.0), reach=12.0, activity=0.2),
                ]
            ),
            Channel([Transmitter(at=(3.0, 2.0), reach=3.0, activity=0.7)]),
        ],
        **settings,
    )


def named(problem: Problem) -> str:
    return f"{problem.model}-{problem.noise.law}-{problem.population}"


RATING_LAW = Empirical.of(RATINGS)


FREE = Channel()
