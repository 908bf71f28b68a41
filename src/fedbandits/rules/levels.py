"""Error probabilities: a number, or an expression in the horizon such as ``1/T``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from fedbandits.errors import InputError
from fedbandits.rules.schedules import Schedule


@dataclass(frozen=True, slots=True)
class Level:
    """An error probability δ.

    Parameters
    ----------
    expression : Schedule
        In T alone.

    Examples
    --------
    >>> as_level("1/T").value(10**6)
    1e-06
    >>> as_level(0.05).value(None)
    0.05
    """

    expression: Schedule

    def value(self, horizon: int | None) -> float:
        """Return δ for a horizon, or without one."""
        if horizon is None and self.expression.depends_on_horizon:
            raise InputError(
                "delta",
                f'"{self.expression.source}" needs a horizon, and there is none; give a number '
                "such as 0.05",
            )
        found = float(self.expression.value(phase=1, horizon=1 if horizon is None else horizon))
        if not 0.0 < found < 1.0:
            raise InputError("delta", f"is {found:g}; an error probability is between 0 and 1")
        return found

    def __str__(self) -> str:
        return self.expression.source


LevelLike: TypeAlias = Level | float | str
"""What may be given as δ: a number, an expression in T, or a `Level`."""


def as_level(level: LevelLike, where: str = "delta") -> Level:
    """Return an error probability from what was given for one.

    Examples
    --------
    >>> as_level("p/T")
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: delta: "p/T" depends on the phase; δ is for all of them together
    """
    if isinstance(level, Level):
        return level
    if not isinstance(level, str) and (isinstance(level, bool) or not 0.0 < level < 1.0):
        raise InputError(where, f"{level!r} is not a number between 0 and 1")
    text = level if isinstance(level, str) else repr(level)
    try:
        found = Level(Schedule(text))
    except InputError as error:
        raise error.within(where) if error.where else InputError(where, error.problem) from None
    if found.expression.depends_on_phase:
        raise InputError(where, f'"{text}" depends on the phase; δ is for all of them together')
    if not found.expression.depends_on_horizon:
        found.value(None)
    return found
