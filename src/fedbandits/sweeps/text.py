"""The comparisons and the cells of a sweep as tables, on a page and on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from fedbandits.experiments.text import TIMES
from fedbandits.report.shown import Shown
from fedbandits.report.wording import in_words
from fedbandits.sweeps.cells import Cell
from fedbandits.sweeps.comparison import choices_of, conditions_of
from fedbandits.sweeps.results import SweepResults

# At most this many conditions, or cells, have a row.
_MOST_ROWS = 40


def shown_comparisons(results: SweepResults) -> Shown:
    """Return which choice is best under which conditions, and by how much."""
    sweep, cells = results.sweep, results.cells
    several = len({cell.label for cell in cells}) > 1
    comparisons, rows = results.comparisons(), []
    bests = [cells[one.best] for one in comparisons[:_MOST_ROWS]]
    headings, regrets = _regrets(results, bests)
    for one, best, cost in zip(comparisons, bests, regrets, strict=False):
        choices = choices_of(sweep, best)
        chosen = [best.label] if several or not choices else []
        chosen += [sweep.label(best.setting, choices)] if choices else []
        conditions = sweep.label(best.setting, conditions_of(sweep, best))
        rows.append([conditions, ", ".join(chosen), *cost, one.verdict()][not sweep.conditions :])
    left_out = len(comparisons) - _MOST_ROWS
    more = f"; {left_out:,} more in summary.json" if left_out > 0 else ""
    return Shown(
        name=f"{sweep.title}: {len(sweep):,} settings",
        headings=["conditions", "best", *headings, "than the next"][not sweep.conditions :],
        rows=rows,
        words=("best", "than the next"),
        note=f"± is half of a 95 % interval{more}",
    )


def shown_cells(results: SweepResults) -> Shown | None:
    """Return the regret of every variant under every setting; None if there are too many."""
    if len(results.cells) > _MOST_ROWS:
        return None
    headings, regrets = _regrets(results, results.cells)
    rows = [
        [cell.label, results.sweep.label(cell.setting), *cost]
        for cell, cost in zip(results.cells, regrets, strict=True)
    ]
    return Shown(
        name="All settings",
        headings=["variant", "setting", *headings],
        rows=sorted(rows, key=lambda row: row[0]),
        words=("setting",),
    )


def _regrets(results: SweepResults, cells: Sequence[Cell]) -> tuple[list[str], list[list[str]]]:
    """Return headings and numbers of regrets: total, per client, and beside the lower bound."""
    found = [results.cell_summary(cell) for cell in cells]
    columns = {
        "total regret": [one["regret"]["total"] for one in found],
        "per client": [one["regret"]["per_client"] for one in found],
    }
    times = [one["lower_bound"]["times"] for one in found]
    if any(times):
        columns[TIMES] = times
    return list(columns), [list(map(in_words, row)) for row in zip(*columns.values(), strict=True)]
