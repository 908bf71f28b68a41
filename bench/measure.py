"""How long work takes: medians of interleaved rounds, because machines are noisy."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


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
