"""What somebody waits for who changes a field of the laboratory.

Prints a table and exits 1 when a bar is missed. Times are the processor's, whatever else the
machine does meanwhile.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator

from bars import Row, shown
from fedbandits.laboratory.presets import Preset, presets
from fedbandits.laboratory.worker import answers


def first_numbers(preset: Preset) -> float:
    """Return how long the laboratory works until all designs have their first numbers."""
    begin = time.process_time()
    for message in answers(preset.setting.as_text(), 0.0):
        if message["kind"] == "games" and len(message["designs"]) == 3:
            return time.process_time() - begin
    raise RuntimeError(f"no numbers for {preset.label}")


def answering() -> Iterator[Row]:
    """Measure every preset."""
    known = presets()
    first_numbers(known[0])  # what is imported late is there when the page has been opened
    for preset in known:
        seconds = statistics.median(first_numbers(preset) for _ in range(5))
        yield Row(preset.label, seconds, 0.5, False, " s", "three designs, 16 games of each")


if __name__ == "__main__":
    sys.exit(shown("laboratory: first numbers", answering()))
