"""What a sweep gave: a tidy table, a summary with paired differences, and the folder of files."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fedbandits.errors import InputError
from fedbandits.experiments.bounds import beside_lower_bound
from fedbandits.experiments.describe import versions
from fedbandits.experiments.parquet import write_parquet
from fedbandits.notebook.viewed import Viewed, known_name
from fedbandits.report.chart import Chart
from fedbandits.rules.arrays import FloatArray
from fedbandits.simulation.tables import Table, measured, stacked
from fedbandits.sweeps.cells import Cell, Columns, FinishedCell
from fedbandits.sweeps.comparison import Comparison, compared, named
from fedbandits.sweeps.doubts import Doubt, doubts_of, idle_keys
from fedbandits.sweeps.sweep import Sweep

if TYPE_CHECKING:
    from fedbandits.report.shown import Shown


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SweepResults(Viewed):
    """The cells of a sweep, all of them, and what their games gave.

    Parameters
    ----------
    sweep : Sweep
        What was run.
    cells : tuple of Cell
        In the order of settings, then of variants.
    finished : mapping of str to FinishedCell
        By address.
    """

    tables: ClassVar[tuple[str, ...]] = ("replications",)
    charts: ClassVar[tuple[str, ...]] = ("sweep",)

    sweep: Sweep
    cells: tuple[Cell, ...]
    finished: Mapping[str, FinishedCell]

    def totals(self) -> list[FloatArray]:
        """Return the total regret of every cell, one entry per replication."""
        return [self._measured(cell)["total"] for cell in self.cells]

    def _measured(self, cell: Cell) -> Columns:
        return self.finished[cell.address].at_price(cell.price)

    def comparisons(self) -> list[Comparison]:
        """Return for all conditions which choice has the least regret, with paired differences."""
        return compared(self.sweep, self.cells, self.totals())

    def doubts(self) -> list[Doubt]:
        """Return which assumptions do not hold, for which variants, and in how many settings."""
        return doubts_of(self.cells)

    def idle_keys(self) -> list[str]:
        """Return the keys all of whose values gave the same numbers."""
        return idle_keys(self.sweep, self.cells, self.totals())

    def summary(self) -> dict[str, Any]:
        """Return what summary.json holds."""
        comparisons = self.comparisons()
        behind = {
            place: None if found is None else found.numbers()
            for one in comparisons
            for place, found in one.behind.items()
        }
        return {
            "title": self.sweep.title,
            "versions": versions(),
            "spec": self.sweep.described(),
            "settings": len(self.sweep),
            "doubts": [asdict(one) for one in self.doubts()],
            "idle_keys": self.idle_keys(),
            "comparisons": [one.described(self.sweep, self.cells) for one in comparisons],
            "cells": [
                {**self.cell_summary(cell), "behind_the_best": behind[place]}
                for place, cell in enumerate(self.cells)
            ],
        }

    def cell_summary(self, cell: Cell) -> dict[str, Any]:
        """Return what summary.json says of a cell, without how far it is behind the best."""
        columns = self._measured(cell)
        return {
            **named(self.sweep, cell),
            "fidelity": cell.fidelity.value,
            **measured(columns),
            "lower_bound": beside_lower_bound(columns["total"], cell.yardstick),
        }

    def replications(self) -> Table:
        """Return one row per setting, variant and replication, with all keys as columns."""
        settings = [self.sweep.values(cell.setting) for cell in self.cells]
        values = {key: _alike([one[key] for one in settings]) for key in self.sweep.keys}
        games = [self.finished[cell.address].columns["winner"].size for cell in self.cells]
        return stacked(
            {
                "setting": [cell.setting] * n,
                **{key: [of_cells[place]] * n for key, of_cells in values.items()},
                "variant": [cell.label] * n,
                "replication": range(n),
                **{name: column.tolist() for name, column in self._measured(cell).items()},
            }
            for place, (cell, n) in enumerate(zip(self.cells, games, strict=True))
        )

    def in_short(self) -> str:
        """Return what was swept, in a line."""
        return f"{self.sweep.title}, {len(self.sweep):,} settings, {len(self.cells):,} cells"

    def shown(self) -> Shown:
        """Return which choice is best under which conditions, and by how much."""
        from fedbandits.sweeps.text import shown_comparisons  # noqa: PLC0415 - Rich, only to show

        return shown_comparisons(self)

    def chart(self, name: str | None = None) -> Chart:
        """Return mean total regret over the keys; an error says why if there is no such chart."""
        from fedbandits.sweeps.charts import sweep_chart, why_not_drawn  # noqa: PLC0415 - it takes these results

        known_name(name, self.charts, "name")
        found = sweep_chart(self)
        if found is None:
            raise InputError("sweep", f"{why_not_drawn(self.sweep)}; use replications()")
        return found

    def write(self, directory: str | Path) -> Path:
        """Write table, summary, figure and page into a directory; return its path.

        Needs the extra ``report``.
        """
        from fedbandits.experiments.output import open_output  # noqa: PLC0415 - as below
        from fedbandits.sweeps.page import write_page  # noqa: PLC0415 - Matplotlib, only here

        with open_output(Path(directory), command="fedbandits sweep") as folder:
            write_parquet(self.replications(), folder / "replications.parquet")
            text = json.dumps(self.summary(), indent=2, allow_nan=False)
            (folder / "summary.json").write_text(text + "\n", encoding="utf-8")
            write_page(self, folder)
        return Path(directory)


def _alike(values: list[Any]) -> list[Any]:
    """Return values of one type, as a table holds it: one list, table or text makes all text."""
    if any(isinstance(value, str | list | dict) for value in values):
        return [value if isinstance(value, str) else json.dumps(value) for value in values]
    if any(isinstance(value, float) for value in values):
        return [math.nan if value is None else float(value) for value in values]
    return values
