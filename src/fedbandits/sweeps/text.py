"""The comparisons of a sweep as a table, on a page and on a terminal."""

from __future__ import annotations

from fedbandits.experiments.tables import quantity
from fedbandits.experiments.wording import in_words
from fedbandits.report.shown import Shown
from fedbandits.sweeps.comparison import choices_of, conditions_of
from fedbandits.sweeps.results import SweepResults

# At most this many conditions have a row.
_MOST_ROWS = 40


def shown_comparisons(results: SweepResults) -> Shown:
    """Return which choice is best under which conditions, and by how much."""
    sweep, cells, totals = results.sweep, results.cells, results.totals()
    several = len({cell.label for cell in cells}) > 1
    comparisons, rows = results.comparisons(), []
    for one in comparisons[:_MOST_ROWS]:
        best = cells[one.best]
        choices = choices_of(sweep, best)
        chosen = [best.label] if several or not choices else []
        chosen += [sweep.label(best.setting, choices)] if choices else []
        conditions = sweep.label(best.setting, conditions_of(sweep, best))
        cost = in_words(quantity(totals[one.best]))
        rows.append([conditions, ", ".join(chosen), cost, one.verdict()][not sweep.conditions :])
    headings = ["conditions", "best", "total regret", "than the next"][not sweep.conditions :]
    left_out = len(comparisons) - _MOST_ROWS
    more = f"; {left_out:,} more in summary.json" if left_out > 0 else ""
    return Shown(
        name=f"{sweep.title}: {len(sweep):,} settings",
        headings=headings,
        rows=rows,
        words=("best", "than the next"),
        note=f"± is half of a 95 % interval{more}",
    )
