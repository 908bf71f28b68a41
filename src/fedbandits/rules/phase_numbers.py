"""Numbers of pulls and clients, phase by phase."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from fedbandits.errors import InputError
from fedbandits.rules.schedules import Schedule


@dataclass(frozen=True, slots=True)
class Scheduled:
    """The whole numbers of a schedule for a fixed horizon, or without one.

    Parameters
    ----------
    what : {"pulls", "admissions"}
        Whether they are f(p) or g(p), which may be 0 after the first phase.
    schedule : Schedule
        Where they come from.
    horizon : int, optional
        T.
    """

    what: Literal["pulls", "admissions"]
    schedule: Schedule
    horizon: int | None

    def __call__(self, phase: int) -> int:
        """Return f(p) or g(p)."""
        number = self.schedule.pulls if self.what == "pulls" else self.schedule.admissions
        try:
            return number(phase=phase, horizon=self.horizon)
        except InputError as error:
            raise error.within(self.what) from None


@dataclass(frozen=True, slots=True)
class ScheduledPhase:
    """A phase of a schedule: how many clients play, how often each, and how many are new."""

    number: int
    clients: int
    pulls: int
    newcomers: int


@dataclass(frozen=True, slots=True)
class FirstThen:
    """One number in the first phase, and another in all that follow.

    Examples
    --------
    The admissions of the exact model, all at once, and the fewest pulls of an adaptive rule:

    >>> [FirstThen(5)(phase) for phase in (1, 2, 3)], [FirstThen(20, 1)(phase) for phase in (1, 2)]
    ([5, 0, 0], [20, 1])
    """

    first: int
    later: int = 0

    def __call__(self, phase: int) -> int:
        """Return the number of a phase."""
        return self.first if phase == 1 else self.later


def never_changes(numbers: Callable[[int], int]) -> bool:
    """Return whether it is known to be one number in all phases but the first."""
    match numbers:
        case Scheduled(schedule=schedule):
            return not schedule.depends_on_phase
        case FirstThen():
            return True
    return False
