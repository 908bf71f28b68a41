"""The table of regrets, curve by curve, and the axis that suits them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedbandits.experiments.tables import Table
from fedbandits.rules.arrays import FloatArray

NORMAL_95 = 1.96
"""Standard errors on either side of a mean that hold 95 % of a normal law."""

LOG_RATIO = 20.0
"""How far apart regrets lie before a logarithmic axis is the better one."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Mean regret against slot, from (0, 0) on."""

    slot: FloatArray
    mean: FloatArray
    stderr: FloatArray | None

    @property
    def end(self) -> float:
        """The regret at the horizon."""
        return float(self.mean[-1])

    def band(self) -> tuple[FloatArray, FloatArray] | None:
        """Return the 95 % confidence limits of the mean, if there are any."""
        if self.stderr is None:
            return None
        half = NORMAL_95 * self.stderr
        return self.mean - half, self.mean + half


def curves_by_variant(table: Table) -> dict[str, dict[str, Curve]]:
    """Return the curves of a table by variant and regret, variants in their order."""
    rows: dict[str, dict[str, list[int]]] = {}
    for row, (label, regret) in enumerate(zip(table["variant"], table["regret"], strict=True)):
        rows.setdefault(label, {}).setdefault(regret, []).append(row)
    return {
        label: {regret: _curve(table, places) for regret, places in regrets.items()}
        for label, regrets in rows.items()
    }


def _curve(table: Table, rows: Sequence[int]) -> Curve:
    errors = [table["stderr"][row] for row in rows]
    return Curve(
        slot=np.array([0.0, *(table["slot"][row] for row in rows)]),
        mean=np.array([0.0, *(table["mean"][row] for row in rows)]),
        stderr=None if None in errors else np.array([0.0, *errors]),
    )


# The algorithms whose regret the paper shows with and without communication, and for how many
# variants that is still readable.
_SPLIT_ALGORITHMS, _MOST_SPLIT = ("fed2-ucb", "fed1-ucb"), 2


def shown_in_parts(labels: Sequence[str], algorithms: Sequence[str]) -> tuple[str, ...]:
    """Return the variants whose exploration part stands beside their total, as in the paper.

    They are those of Fed2-UCB and Fed1-UCB, where these are few.

    Parameters
    ----------
    labels, algorithms : sequence of str
        Label of each variant, and the name of its algorithm.

    Examples
    --------
    >>> shown_in_parts(["M = 5", "M = 10", "base"], ["fed1-ucb", "fed1-ucb", "authors-baseline"])
    ('M = 5', 'M = 10')
    >>> shown_in_parts(["f = 10", "f = 50", "f = 100"], ["fed2-ucb"] * 3)
    ()
    """
    found = tuple(
        label
        for label, algorithm in zip(labels, algorithms, strict=True)
        if algorithm in _SPLIT_ALGORITHMS
    )
    return found if len(found) <= _MOST_SPLIT else ()


def exploration_parts(
    variants: Mapping[str, Mapping[str, Curve]], in_parts: Collection[str]
) -> dict[str, Curve]:
    """Return the exploration parts that are drawn: of variants that pay for communication."""
    return {
        label: regrets["exploration"]
        for label, regrets in variants.items()
        if label in in_parts
        and "exploration" in regrets
        and "communication" in regrets
        and regrets["communication"].end > 0
    }


def part_label(label: str) -> str:
    """Return what the exploration part of a variant is called.

    Examples
    --------
    >>> part_label("Fed1-UCB, M = 5")
    'Fed1-UCB, M = 5, without communication'
    """
    return f"{label}, without communication"


def is_logarithmic(curves: Iterable[Curve]) -> bool:
    """Return whether regrets at the horizon lie so far apart that a linear axis would hide some."""
    ends = [curve.end for curve in curves if curve.end > 0]
    return len(ends) > 1 and max(ends) > LOG_RATIO * min(ends)


def axis_label(regret: str, *, logarithmic: bool) -> str:
    """Return what the axis of a regret is called."""
    name = "regret" if regret == "total" else f"{regret} regret"
    return f"{name} (total over clients{', logarithmic' if logarithmic else ''})"
