"""What served pages cost: how long the laboratory takes to answer.

Prints a table and exits 1 when a bar is missed. Times are medians, because machines are noisy; on a
machine with other work they say little.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Iterator

from bars import Row, shown
from fedbandits.laboratory.pool import Pool
from fedbandits.laboratory.presets import Preset, presets

ROUNDS = 5


def laboratory() -> Iterator[Row]:
    """Yield how long a change of a field takes until all designs have their first numbers."""
    for preset in presets():
        times = asyncio.run(_times(preset))
        yield Row(
            f"laboratory, {preset.label}: first numbers",
            statistics.median(times),
            0.5,
            at_least=False,
            unit=" s",
            detail=f"all three designs, 16 games each; slowest of {ROUNDS}: {max(times):.2f} s",
        )


async def _times(preset: Preset) -> list[float]:
    pool = Pool()
    await pool.warm()  # importing is done once, when the page is opened
    return [await _first_numbers(pool, preset) for _ in range(ROUNDS)]


async def _first_numbers(pool: Pool, preset: Preset) -> float:
    begin = time.perf_counter()
    async for message in pool.answers(preset.setting.as_text(), "bench"):
        if message["kind"] == "games" and len(message["designs"]) == 3:
            return time.perf_counter() - begin
    raise AssertionError(f"no numbers for {preset.label}")


if __name__ == "__main__":
    sys.exit(shown("Served pages", laboratory()))
