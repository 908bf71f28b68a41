"""What benchmarks share: rows with a bar, medians of interleaved rounds, and the table."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
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


def seconds(work: Callable[[], object]) -> float:
    """Return how long a piece of work takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def medians(works: list[Callable[[], object]], rounds: int) -> list[float]:
    """Return the median time of each piece of work, run in turns."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for taken, work in zip(times, works, strict=True):
            taken.append(seconds(work))
    return [statistics.median(taken) for taken in times]


def report(title: str, measures: Sequence[Callable[[], Row]]) -> int:
    """Print a table of all rows; return 1 if a bar is missed."""
    table = Table("", "measured", "bar", "", "detail", title=title)
    missed = False
    for measure in measures:
        row = measure()
        missed |= not row.met
        sign = "≥" if row.at_least else "≤"
        digits = 2 if row.measured < 100 else 0
        table.add_row(
            row.what,
            f"{row.measured:,.{digits}f}{row.unit}",
            f"{sign} {row.bar:,.{0 if row.bar == int(row.bar) else 1}f}{row.unit}",
            "met" if row.met else "MISSED",
            row.detail,
        )
    Console(width=120).print(table)
    return 1 if missed else 0
