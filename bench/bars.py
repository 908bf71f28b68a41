"""Rows of a benchmark: what was measured, and the bar that it must meet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    measured: float
    bar: float
    at_least: bool
    unit: str
    detail: str

    @property
    def met(self) -> bool:
        """Whether the bar is met."""
        return self.measured >= self.bar if self.at_least else self.measured <= self.bar


def shown(title: str, rows: Iterable[Row]) -> int:
    """Print a table; return the exit code: 1 if a bar is missed."""
    table = Table("", "measured", "bar", "", "detail", title=title)
    missed = False
    for row in rows:
        missed |= not row.met
        sign = "≥" if row.at_least else "≤"
        table.add_row(
            row.what,
            f"{_number(row.measured)}{row.unit}",
            f"{sign} {row.bar:,g}{row.unit}",
            "met" if row.met else "MISSED",
            row.detail,
        )
    Console(width=120).print(table)
    return 1 if missed else 0


def _number(value: float) -> str:
    return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"
