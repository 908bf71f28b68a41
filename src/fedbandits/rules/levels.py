"""Error probabilities: a number, or an expression in the horizon such as ``1/T``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

from fedbandits.errors import InputError, is_number
from fedbandits.rules.schedules import Schedule

SMALLEST_LEVEL = 1e-200
"""Shared out over arms and phases, a smaller δ leaves floating point: widths would be infinite."""


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
        try:
            number = self.expression.value(phase=1, horizon=1 if horizon is None else horizon)
        except InputError as error:
            # Schedules have phases, and δ has none.
            raise InputError("delta", error.problem.removesuffix(" in phase 1")) from None
        # Compared before it is a float, which not every number fits.
        found = float(number) if 0 < number < 1 else 0.0
        if not 0.0 < found < 1.0:
            raise InputError(
                "delta",
                f"{self._for(horizon)} is not an error probability; give one between 0 and 1",
            )
        if found < SMALLEST_LEVEL:
            raise InputError(
                "delta",
                f"{self._for(horizon)} is too small to compute with; {SMALLEST_LEVEL:g} is the"
                " smallest",
            )
        return found

    def _for(self, horizon: int | None) -> str:
        of_it = f" for T = {horizon}" if self.expression.depends_on_horizon else ""
        return f'"{self.expression.source}"{of_it}'

    def same_as(self, other: Level) -> bool:
        """Return whether another δ is the same number, or the same expression in T.

        Examples
        --------
        >>> as_level(0.05).same_as(as_level("1/20")), as_level("1/T").same_as(as_level("1 / T"))
        (True, True)
        >>> as_level("1/T").same_as(as_level(0.05))
        False
        """
        if self.expression.depends_on_horizon or other.expression.depends_on_horizon:
            return "".join(str(self).split()) == "".join(str(other).split())
        return self.value(None) == other.value(None)

    def __str__(self) -> str:
        return self.expression.source


LevelLike: TypeAlias = Level | float | str
"""What may be given as δ: a number, an expression in T, or a `Level`."""


def as_level(level: LevelLike, where: str = "delta") -> Level:
    """Return a given value as an error probability.

    Examples
    --------
    >>> as_level("p/T")
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: delta: "p/T" depends on the phase; δ is for all of them together
    """
    if isinstance(level, Level):
        return level
    if not isinstance(level, str) and not (is_number(level) and 0.0 < level < 1.0):
        raise InputError(where, f"{level!r} is not a number between 0 and 1")
    text = level if isinstance(level, str) else repr(float(level))
    try:
        found = Level(Schedule(text))
        if not (found.expression.depends_on_phase or found.expression.depends_on_horizon):
            found.value(None)
    except InputError as error:
        raise InputError(where, error.problem) from None
    if found.expression.depends_on_phase:
        raise InputError(where, f'"{text}" depends on the phase; δ is for all of them together')
    return found


def simultaneous_log(statements: int, level: float, looks: int) -> float:
    r"""Return :math:`\ln(n \pi^2 p^2 / (6 \delta))`: δ over n statements and all phases.

    If each of them fails in phase p with a probability of at most :math:`e^{-L}` with this L, any
    of them fails in any phase with a probability of at most δ.

    Examples
    --------
    >>> round(simultaneous_log(4, 0.05, 1), 3)
    4.88
    """
    return math.log(statements * math.pi**2 * looks**2 / (6 * level))
