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

from fedbandits.experiments.estimates import Estimate, estimate_of
from fedbandits.rules.arrays import FloatArray
from fedbandits.sweeps.cells import Cell
from fedbandits.sweeps.sweep import Sweep


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """By how much the mean regret of one cell exceeds that of another.

    Parameters
    ----------
    paired : Estimate
        From differences within replications.
    unpaired_error : float
        The standard error that it would have, had the two cells drawn independently.
    """

    paired: Estimate
    unpaired_error: float

    def numbers(self) -> dict[str, float]:
        """Return it as numbers, with its 95 % interval."""
        return {
            "mean": self.paired.value,
            "stderr": self.paired.error,
            "low": self.paired.value - self.paired.margin,
            "high": self.paired.value + self.paired.margin,
            "unpaired_stderr": self.unpaired_error,
        }


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
        paired=estimate_of(worse - better),
        unpaired_error=math.sqrt(float(variances) / better.size),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All choices under the same conditions.

    Parameters
    ----------
    places : list of int
        Where their cells stand, the least mean regret first.
    behind : dict of int to Difference or None
        For each of them, how far it is behind the best.
    """

    places: list[int]
    behind: dict[int, Difference | None]

    @property
    def best(self) -> int:
        """Where the best cell stands."""
        return self.places[0]

    def verdict(self) -> str:
        """Return by how much the best is better than the next, in words."""
        if len(self.places) < 2:
            return ""
        found = self.behind[self.places[1]]
        if found is None:
            return "one replication: nothing can be said"
        said = f"better by {found.paired.shown()}, paired"
        told_apart = found.paired.value > found.paired.margin
        return said if told_apart else f"not told apart from the next: {said}"

    def described(self, sweep: Sweep, cells: Sequence[Cell]) -> dict[str, Any]:
        """Return what summary.json says of it."""
        best = cells[self.best]
        found = {
            "conditions": {key: sweep.values(best.setting)[key] for key in sweep.conditions},
            "problem": best.problem,
            "best": named(sweep, best),
            "next": None,
            "difference": None,
            "verdict": self.verdict(),
        }
        if len(self.places) > 1:
            behind = self.behind[self.places[1]]
            found["next"] = named(sweep, cells[self.places[1]])
            found["difference"] = None if behind is None else behind.numbers()
        return found


def named(sweep: Sweep, cell: Cell) -> dict[str, Any]:
    """Return which cell this is, in the words of the file."""
    return {
        "setting": cell.setting,
        "label": sweep.label(cell.setting),
        "values": sweep.values(cell.setting),
        "variant": cell.label,
    }


def compared(sweep: Sweep, cells: Sequence[Cell], totals: Sequence[FloatArray]) -> list[Comparison]:
    """Return a comparison for all conditions, in their order.

    Parameters
    ----------
    sweep, cells : Sweep, sequence of Cell
        What was played.
    totals : sequence of array
        The total regret of every cell, an entry a replication.
    """
    alike: dict[str, list[int]] = {}
    for place, cell in enumerate(cells):
        values = sweep.values(cell.setting)
        played = [cell.problem, *(values[key] for key in sweep.conditions)]
        alike.setdefault(json.dumps(played), []).append(place)
    means = [float(np.mean(total)) for total in totals]
    found = []
    for places in alike.values():
        ranked = sorted(places, key=lambda place: means[place])
        best = totals[ranked[0]]
        behind = {place: difference(totals[place], best) for place in ranked}
        found.append(Comparison(places=ranked, behind=behind))
    return found
