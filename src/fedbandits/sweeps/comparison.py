"""Which choice is best under which conditions, by differences within replications.

Settings of one problem share their random draws, so what luck does to one it does to the other, and
most of it cancels in the difference of two regrets of one replication. Conditions are keys that say
what is played (the problem, the horizon, the cost of communication); choices are the variants and
their own keys. Choices are compared under the same conditions only.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedbandits.experiments.game_means import GameMean, game_mean
from fedbandits.rules.arrays import FloatArray
from fedbandits.sweeps.cells import Cell
from fedbandits.sweeps.sweep import Sweep


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """By how much the mean regret of one cell exceeds that of another.

    Parameters
    ----------
    paired : GameMean
        From differences within replications.
    unpaired_error : float
        The standard error that it would have, had the two cells drawn independently.
    """

    paired: GameMean
    unpaired_error: float

    def numbers(self) -> dict[str, float]:
        """Return it as numbers, with its 95 % interval."""
        low, high = self.paired.interval
        found = {"mean": self.paired.value, "stderr": self.paired.error, "low": low, "high": high}
        return {**found, "unpaired_stderr": self.unpaired_error}


def difference(worse: FloatArray, better: FloatArray) -> Difference | None:
    """Return by how much one regret exceeds another; None of fewer than two replications.

    Examples
    --------
    >>> luck = np.array([0.0, 50.0, 100.0, 150.0])
    >>> found = difference(luck + [31.0, 29.0, 30.0, 30.0], luck)
    >>> found.paired.shown(), round(found.unpaired_error)
    ('30.0 ± 1.3', 46)
    """
    if better.size < 2:
        return None
    variances = worse.var(ddof=1) + better.var(ddof=1)
    return Difference(
        paired=game_mean(worse - better),
        unpaired_error=math.sqrt(float(variances) / better.size),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All choices under the same conditions.

    Parameters
    ----------
    ranked : list of list of int
        The places of every choice's cells, the least mean regret first. A choice has several places
        if settings vary no key of its variant.
    behind : dict of int to Difference or None
        For each of all those places, how far it is behind the best.
    """

    ranked: list[list[int]]
    behind: dict[int, Difference | None]

    @property
    def best(self) -> int:
        """The place of the best cell."""
        return self.ranked[0][0]

    def verdict(self) -> str:
        """Return by how much the best is better than the next, in words."""
        if len(self.ranked) < 2:
            return ""
        found = self.behind[self.ranked[1][0]]
        if found is None:
            return "one replication: nothing can be said"
        said = f"better by {found.paired.shown()}, paired"
        told_apart = found.paired.value > found.paired.margin
        return said if told_apart else f"not told apart from the next: {said}"

    def described(self, sweep: Sweep, cells: Sequence[Cell]) -> dict[str, Any]:
        """Return what summary.json says of it."""
        best = cells[self.best]
        values = sweep.values(best.setting)
        second = self.ranked[1][0] if len(self.ranked) > 1 else None
        behind = None if second is None else self.behind[second]
        return {
            "conditions": {key: values[key] for key in conditions_of(sweep, best)},
            "problem": best.problem,
            "best": named(sweep, best),
            "next": None if second is None else named(sweep, cells[second]),
            "difference": None if behind is None else behind.numbers(),
            "verdict": self.verdict(),
        }


def named(sweep: Sweep, cell: Cell) -> dict[str, Any]:
    """Return which cell this is, in the words of the file: by the keys that its variant has."""
    keys = sweep.keys_of(cell.variant, cell.problem)
    values = sweep.values(cell.setting)
    return {
        "setting": cell.setting,
        "label": sweep.label(cell.setting, keys),
        "values": {key: values[key] for key in keys},
        "variant": cell.label,
    }


def conditions_of(sweep: Sweep, cell: Cell) -> list[str]:
    """Return the keys that say what a cell plays: none of a problem that it does not play."""
    own = sweep.keys_of(cell.variant, cell.problem)
    return [key for key in sweep.conditions if key in own or not key.startswith("problems.")]


def choices_of(sweep: Sweep, cell: Cell) -> list[str]:
    """Return the keys that are chosen in a cell."""
    own = sweep.keys_of(cell.variant, cell.problem)
    return [key for key in own if key not in sweep.conditions]


def compared(sweep: Sweep, cells: Sequence[Cell], totals: Sequence[FloatArray]) -> list[Comparison]:
    """Return a comparison for all conditions, in their order.

    Parameters
    ----------
    sweep, cells : Sweep, sequence of Cell
        What was played.
    totals : sequence of array
        The total regret of every cell, one entry per replication.
    """
    alike: dict[str, dict[object, list[int]]] = {}
    for place, cell in enumerate(cells):
        values = sweep.values(cell.setting)
        played = [cell.problem, *(values[key] for key in conditions_of(sweep, cell))]
        choices = alike.setdefault(json.dumps(played), {})
        choices.setdefault((cell.address, cell.communication_cost), []).append(place)
    means = [float(np.mean(total)) for total in totals]
    found = []
    for choices in alike.values():
        ranked = sorted(choices.values(), key=lambda places: means[places[0]])
        best = totals[ranked[0][0]]
        behind: dict[int, Difference | None] = {}
        for places in ranked:
            behind |= dict.fromkeys(places, difference(totals[places[0]], best))
        found.append(Comparison(ranked=ranked, behind=behind))
    return found
