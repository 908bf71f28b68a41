"""The table of regrets, curve by curve, and the axis that suits them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def is_logarithmic(curves: Iterable[Curve]) -> bool:
    """Return whether regrets at the horizon lie so far apart that a linear axis would hide some."""
    ends = [curve.end for curve in curves if curve.end > 0]
    return len(ends) > 1 and max(ends) > LOG_RATIO * min(ends)


def axis_label(regret: str, *, logarithmic: bool) -> str:
    """Return what the axis of a regret is called."""
    name = "regret" if regret == "total" else f"{regret} regret"
    return f"{name} (total over clients{', logarithmic' if logarithmic else ''})"
