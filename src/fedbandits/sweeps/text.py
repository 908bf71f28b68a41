"""A sweep as a table for a terminal: the best choice under all conditions."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from fedbandits.experiments.tables import quantity
from fedbandits.experiments.wording import in_words
from fedbandits.sweeps.comparison import choices_of, conditions_of
from fedbandits.sweeps.results import SweepResults

_MOST_ROWS = 40


def comparisons_table(results: SweepResults) -> Table:
    """Return which choice is best under which conditions, and by how much, as a Rich table."""
    sweep, cells = results.sweep, results.cells
    comparisons, totals = results.comparisons(), results.totals()
    variants = {cell.label for cell in cells}
    left_out = len(comparisons) - _MOST_ROWS
    more = f"; {left_out:,} more in summary.json" if left_out > 0 else ""
    table = Table(
        title=Text(f"{sweep.title}: {len(sweep):,} settings"),
        title_justify="left",
        title_style="bold",
        caption=f"± one standard error; differences ± half a 95 % interval{more}",
        caption_justify="left",
    )
    if sweep.conditions:
        table.add_column("conditions", overflow="fold")
    table.add_column("best", overflow="fold")
    table.add_column("total regret", justify="right", no_wrap=True)
    table.add_column("than the next", overflow="fold")
    for one in comparisons[:_MOST_ROWS]:
        best = cells[one.best]
        choices = choices_of(sweep, best)
        chosen = [best.label] if len(variants) > 1 or not choices else []
        chosen += [sweep.label(best.setting, choices)] if choices else []
        conditions = sweep.label(best.setting, conditions_of(sweep, best))
        row = [Text(conditions)] if sweep.conditions else []
        table.add_row(
            *row,
            Text(", ".join(chosen)),
            in_words(quantity(totals[one.best])),
            one.verdict(),
        )
    return table
