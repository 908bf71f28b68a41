"""Results as plain tables: what is written to disk, printed, and drawn.

Tables are dictionaries of columns, so that they can be checked without rendering anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fedbandits.notebook import viewed
from fedbandits.problems.problem import gaps
from fedbandits.report.chart import NORMAL_95
from fedbandits.report.wording import ROUNDING, in_words, share
from fedbandits.rules.arrays import BoolArray, FloatArray
from fedbandits.simulation.fidelities import Fidelity

if TYPE_CHECKING:  # it shows itself by what is here
    from fedbandits.report.shown import Shown
    from fedbandits.simulation.simulator import Simulation

Table: TypeAlias = viewed.Table
"""Columns of one length, by name."""

REGRETS = ("total", "exploration", "communication")
OPEN = {"decision_slot", "winner"}
"""Columns that have no value in a game without a decision."""

QUANTILES = {"q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95}


def quantity(values: FloatArray) -> dict[str, float | None]:
    """Return mean and standard error over replications; null if there are too few.

    Examples
    --------
    >>> quantity(np.array([1.0, 2.0, 3.0]))
    {'mean': 2.0, 'stderr': 0.5773502691896258}
    >>> quantity(np.array([]))
    {'mean': None, 'stderr': None}
    """
    n = values.size
    return {
        "mean": float(values.mean()) if n else None,
        "stderr": float(values.std(ddof=1) / math.sqrt(n)) if n > 1 else None,
    }


def chose_best(simulation: Simulation) -> BoolArray:
    """Return which replications ended on an arm whose true mean is the best.

    With a tolerance one that is worse by no more is what was asked for, and counts as the best.
    """
    winner = simulation.games.winner
    tolerance = simulation.variant.algorithm.tolerance * (1 + ROUNDING)
    return np.asarray((winner >= 0) & (gaps(simulation.variant.problem)[winner] <= tolerance))


def summarise(simulation: Simulation) -> dict[str, Any]:
    """Return what summary.json says of a variant.

    The best and the wrong arm are told apart as in `chose_best`: up to the variant's tolerance.
    """
    return {
        "label": simulation.variant.label,
        "algorithm": simulation.variant.algorithm.name,
        "fidelity": simulation.fidelity.value,
        "seconds": round(simulation.seconds, 6),
        **measured(outcome_columns(simulation)),
    }


def outcome_columns(simulation: Simulation) -> dict[str, Any]:
    """Return an array for every column of `replications_table` that was measured."""
    played = simulation.games
    return {
        "total": played.total,
        "exploration": played.exploration,
        "communication": played.communication,
        "clients": played.clients,
        "phases": played.phases,
        "decision_slot": played.decision_slot,
        "winner": played.winner,
        "best": chose_best(simulation),
        "capped": played.capped,
        "budget_spent": played.spent,
        "uplink_bits": played.uplink_bits,
        "clipped": played.clipped,
    }


def measured(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return means with standard errors, and rates, of the columns of one variant.

    Parameters
    ----------
    columns : mapping of str to array
        From `outcome_columns`; −1 is the slot and the arm of a game without a decision.
    """
    decided, best = columns["winner"] >= 0, columns["best"]
    return {
        "regret": {
            **{regret: quantity(columns[regret]) for regret in REGRETS},
            "per_client": quantity(columns["total"] / np.maximum(columns["clients"], 1)),
        },
        "clients": quantity(columns["clients"].astype(np.float64)),
        "phases": quantity(columns["phases"].astype(np.float64)),
        "decision_slot": quantity(columns["decision_slot"][decided].astype(np.float64))
        if decided.any()
        else None,
        "best_arm_rate": float(best.mean()),
        "wrong_arm_rate": float((decided & ~best).mean()),
        "undecided_rate": float((~decided).mean()),
        "capped_rate": float(columns["capped"].mean()),
    }


def stacked(parts: Iterable[Mapping[str, Iterable[Any]]]) -> Table:
    """Return tables of the same columns below each other; a slot or an arm below 0 is none.

    Examples
    --------
    >>> stacked([{"game": [1, 2], "winner": [0, -1]}, {"game": [3], "winner": [4]}])
    {'game': [1, 2, 3], 'winner': [0, None, 4]}
    """
    table: Table = {}
    for part in parts:
        for name, column in part.items():
            table.setdefault(name, []).extend(column)
    for name in OPEN & table.keys():
        table[name] = [value if value >= 0 else None for value in table[name]]
    return table


def replications_table(simulations: Sequence[Simulation]) -> Table:
    """Return a row for every variant and replication."""
    return stacked(
        {
            "variant": [simulation.variant.label] * simulation.games.winner.size,
            "replication": range(simulation.games.winner.size),
            **{name: values.tolist() for name, values in outcome_columns(simulation).items()},
        }
        for simulation in simulations
    )


def shown_simulation(simulation: Simulation) -> Shown:
    """Return what one variant gave, one row per quantity."""
    from fedbandits.report.shown import Shown  # noqa: PLC0415 - Rich, only to show

    found = measured(outcome_columns(simulation))
    rows = {
        **{f"{regret} regret": in_words(found["regret"][regret]) for regret in REGRETS},
        "total regret per client": in_words(found["regret"]["per_client"]),
        "clients": in_words(found["clients"]),
    }
    if simulation.fidelity is not Fidelity.SLOTS:  # others go on choosing, and have no winner
        rows |= {
            "phases": in_words(found["phases"]),
            "slot of the decision": in_words(found["decision_slot"]),
            "best arm found": share(found["best_arm_rate"]),
            "wrong arm": share(found["wrong_arm_rate"]),
            "undecided": share(found["undecided_rate"]),
        }
    several = simulation.games.winner.size > 1
    return Shown(
        name=simulation.in_short(),
        headings=["", "mean"],
        rows=list(rows.items()),
        note="± half of a 95 % interval" if several else "",
    )


def curves_table(simulations: Sequence[Simulation]) -> Table:
    """Return a row for every variant, regret and slot of the grid: mean, stderr and quantiles."""
    return stacked(part for simulation in simulations for part in _curves(simulation))


def _curves(simulation: Simulation) -> Iterator[dict[str, list[Any]]]:
    played, slots = simulation.games, simulation.grid.tolist()
    curves = {
        "total": simulation.total_curves(),
        "exploration": played.exploration_curves,
        "communication": played.communication_curves,
    }
    for regret, values in curves.items():
        n = values.shape[0]
        stderr = values.std(axis=0, ddof=1) / math.sqrt(n) if n > 1 else None
        quantiles = np.quantile(values, list(QUANTILES.values()), axis=0)
        yield {
            "variant": [simulation.variant.label] * len(slots),
            "regret": [regret] * len(slots),
            "slot": slots,
            "mean": values.mean(axis=0).tolist(),
            "stderr": [None] * len(slots) if stderr is None else stderr.tolist(),
            **dict(zip(QUANTILES, quantiles.tolist(), strict=True)),
        }


def as_columns(rows: list[dict[str, Any]]) -> Table:
    """Return rows, of which there is at least one, as columns.

    Examples
    --------
    >>> as_columns([{"game": "a", "regret": 1.0}, {"game": "b", "regret": 2.0}])
    {'game': ['a', 'b'], 'regret': [1.0, 2.0]}
    """
    return {name: [row[name] for row in rows] for name in rows[0]}


def rows_of(table: Table, /, **wanted: object) -> list[dict[str, Any]]:
    """Return the rows whose columns have these values.

    Where a column is a standard error, ``stderr`` or ``ratio_stderr``, half of the 95 % interval
    stands beside it, as ``half`` or ``ratio_half``.

    Examples
    --------
    >>> table = {"game": ["a", "b", "a"], "rule": ["x", "x", "y"], "stderr": [1.0, 2.0, 3.0]}
    >>> rows_of(table, game="a", rule="y")
    [{'game': 'a', 'rule': 'y', 'stderr': 3.0, 'half': 5.88}]
    """
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    for row in rows:
        for name in ("", "ratio_"):
            if f"{name}stderr" in row:
                row[f"{name}half"] = NORMAL_95 * row[f"{name}stderr"]
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def arrays(rows: Iterable[Mapping[str, Any]], *names: str) -> list[FloatArray]:
    """Return columns of rows as arrays.

    Examples
    --------
    >>> arrays([{"x": 1, "y": 2.5}, {"x": 3, "y": 4.5}], "y", "x")
    [array([2.5, 4.5]), array([1., 3.])]
    """
    found = list(rows)
    return [np.array([row[name] for row in found], dtype=np.float64) for name in names]
