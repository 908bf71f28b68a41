"""Games whose arms are equal, what rules decide in them, and whether that is too often."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from scipy import stats

import fedbandits as fb
from fedbandits.rules.arrays import BoolArray, FloatArray
from fedbandits.rules.radii import RADII, PhaseStatistics, Radius
from fedbandits.simulation.game import PlayedGames
from rule_calls import changed

modest = settings(deadline=None, derandomize=True, max_examples=25)
seeds = st.integers(0, 2**32 - 1)
every_radius = pytest.mark.parametrize("name", sorted(RADII))
LEVELS = (0.5, 0.1, 0.05)

# Of a few hundred tests at this level fewer than one fails by chance with new seeds; with these
# seeds none does, and a failure means a change of a width or of a law.
SIGNIFICANCE = 0.001


def exceeds(events: int, trials: int, level: float) -> bool:
    """Return whether events are too many for a probability of at most this level."""
    p_value = stats.binomtest(events, trials, level, alternative="greater").pvalue
    return bool(p_value < SIGNIFICANCE)


def standard_errors(events: int, trials: int, chance: float) -> float:
    """Return how many standard errors a count is off what this chance gives."""
    return (events - trials * chance) / math.sqrt(trials * chance * (1 - chance))


def radius_named(name: str) -> Radius:
    """Return a radius as it is by default."""
    kind: Any = RADII[name]
    radius: Radius = kind()
    return radius


def rescale(monkeypatch: pytest.MonkeyPatch, radius: type[Radius], method: str, by: float) -> None:
    """Plant an error: all widths of a radius times a factor."""
    right: Callable[..., FloatArray] = getattr(radius, method)

    def wrong(self: Radius, *args: Any) -> FloatArray:
        return by * right(self, *args)

    monkeypatch.setattr(radius, method, wrong)


@dataclass(frozen=True)
class Overconfident(Radius):
    """An error for any radius: it takes the evidence for so many times what it is."""

    right: Radius
    times: int

    def __getattribute__(self, name: str) -> Any:
        """Say of itself what the right one says."""
        own = ("right", "times", "_seen", "half_widths", "stays", "margins")
        if name in own or name.startswith("__"):
            return object.__getattribute__(self, name)
        return getattr(object.__getattribute__(self, "right"), name)

    def _seen(self, known: PhaseStatistics) -> PhaseStatistics:
        means = known.estimate.client_means if self.needs_each_client else None
        seen = known.estimate
        return changed(
            known,
            pull_variance=seen.pull_variance / self.times,
            client_variance=seen.client_variance / self.times,
            pull_factor=seen.pull_factor / self.times,
            heaviest_pull=seen.heaviest_pull / self.times,
            client_means=None if means is None else np.concatenate([means] * self.times, axis=-1),
        )

    def half_widths(self, known: PhaseStatistics) -> FloatArray:
        return self.right.half_widths(self._seen(known))

    def stays(self, known: PhaseStatistics) -> BoolArray:
        return self.right.stays(self._seen(known))

    def margins(self, known: PhaseStatistics) -> FloatArray:
        return self.right.margins(self._seen(known))


NOISE, SPREAD = 0.5, 0.4


def equal_arms(n_arms: int = 2, population: int | None = None) -> fb.Approximate:
    return fb.Approximate(
        means=[0.5] * n_arms,
        noise=fb.Gaussian(NOISE),
        spread=fb.Gaussian(SPREAD),
        population=population,
    )


#
# All arms are equal, so that whoever drops arm 0 has lost a best arm. Every client goes on pulling
# every arm for eight phases, and all rules look at the same games.

PHASES = 8


def bernoulli_sums(rng: np.random.Generator, pulls: int, local: FloatArray) -> FloatArray:
    return rng.binomial(pulls, local).astype(np.float64)


def in_random_order(
    rng: np.random.Generator, table: Sequence[float], shape: tuple[int, int]
) -> Any:
    """Return given local means in orders of their own for every replication and arm."""
    return rng.permuted(np.broadcast_to(table, (*shape, len(table))), axis=-1)


def lost_on_the_way(outcome: PlayedGames) -> int:
    """Return in how many replications arm 0 was dropped."""
    assert outcome.trace is not None
    # Out in some phase that was played, or the loser of the last.
    played = np.arange(len(outcome.trace))[:, np.newaxis] < outcome.phases
    lost = (np.isnan(outcome.trace[..., 0]) & played).any(axis=0) | (outcome.winner > 0)
    return int(lost.sum())
