"""What is to be said about a sweep besides its numbers: assumptions that do not hold, idle keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fedbandits.rules.arrays import FloatArray
from fedbandits.sweeps.cells import Cell
from fedbandits.sweeps.sweep import Sweep


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """An assumption of a variant's guarantee that its problem does not keep.

    Parameters
    ----------
    variant : str
        Its label.
    doubt : str
        The assumption, in words.
    settings : int
        In how many settings.
    """

    variant: str
    doubt: str
    settings: int


def doubts_of(cells: Iterable[Cell]) -> list[Doubt]:
    """Return every doubt about every variant once, in the order of settings."""
    found = Counter((cell.label, doubt) for cell in cells for doubt in cell.doubts)
    return [Doubt(variant=v, doubt=doubt, settings=n) for (v, doubt), n in found.items()]


def idle_keys(sweep: Sweep, cells: Sequence[Cell], totals: Sequence[FloatArray]) -> list[str]:
    """Return the keys all of whose values give the same numbers: they may be misunderstood.

    Zipped keys vary together, and are idle together.

    Parameters
    ----------
    sweep, cells, totals
        What was played, and the total regret of every cell.
    """
    idle: list[str] = []
    for keys in [sweep.keys] if sweep.combine == "zip" else [[key] for key in sweep.keys]:
        if len(sweep.axes[keys[0]].values) == 1:
            continue
        # What cells gave, by all that they have in common but these keys.
        first: dict[object, bytes] = {}
        for cell, total in zip(cells, totals, strict=True):
            texts = sweep.texts(cell.setting).items()
            rest = tuple(text for key, text in texts if key not in keys)
            if first.setdefault((cell.variant, rest), total.tobytes()) != total.tobytes():
                break
        else:
            idle += keys
    return idle


_MOST_LINES = 20


def warnings_of(doubts: Sequence[Doubt], settings: int) -> Iterator[str]:
    """Yield lines that say which assumptions do not hold, and in how many settings.

    Examples
    --------
    >>> list(warnings_of([Doubt(variant="A", doubt="arms may depend", settings=3)], 4))
    ['A: arms may depend (in 3 of 4 settings)']
    """
    for one in doubts[:_MOST_LINES]:
        yield f"{one.variant}: {one.doubt} (in {one.settings:,} of {settings:,} settings)"
    if len(doubts) > _MOST_LINES:
        yield f"{len(doubts) - _MOST_LINES:,} more like these; summary.json has all of them"
