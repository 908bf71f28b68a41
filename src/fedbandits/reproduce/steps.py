"""Where a reproduction stands: which part is being made, and how long the rest may take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias

# How many seconds that were expected count as much as what was measured.
_TRUST = 15.0


State: TypeAlias = Literal["running", "done", "as it was"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Where a reproduction stands.

    Parameters
    ----------
    part : str
        What is being made or was made last.
    state : str
        "running", "done", or "as it was" when an earlier run had made it.
    number, parts : int
        Which part this is, from 1, and how many there are.
    replications, all_replications : int
        How many replications of the part are done, and of how many; 0 if that is not known.
    passed, left : float
        Seconds since the beginning, and about how many are left.
    share : float
        How much of the whole is done, from 0 to 1.
    """

    part: str
    state: State
    number: int
    parts: int
    replications: int
    all_replications: int
    passed: float
    left: float
    share: float


Clock: TypeAlias = Callable[[], float]
OnStep: TypeAlias = Callable[[Step], None]
"""Told where a reproduction stands, whenever that changes."""


@dataclass(slots=True)
class RunningPart:
    """A part that is being made.

    Parameters
    ----------
    changed : callable
        Called as replications are done.
    replications : int
        How many are done.
    reused : bool
        Whether an earlier run had made it.
    """

    changed: Callable[[], None]
    replications: int = 0
    reused: bool = False

    def progress(self, _: str, done: int) -> None:
        """Count replications; simulations call this."""
        self.replications += done
        self.changed()


class Steps:
    """Tells where a reproduction stands, part by part.

    What is left is what the remaining parts are expected to cost, times how much longer than
    expected everything has taken so far.

    Parameters
    ----------
    costs : mapping of str to float
        The parts, in order, and about how many seconds each takes.
    watch : callable
        What is told.
    clock : callable
        Seconds, from any beginning.

    Examples
    --------
    >>> seconds = iter(range(0, 100, 10))
    >>> told = []
    >>> steps = Steps({"a": 5.0, "b": 20.0}, told.append, clock=lambda: next(seconds))
    >>> with steps.part("a", replications=100) as part:
    ...     part.progress("a variant", 50)
    >>> [(step.state, step.replications, step.passed, round(step.left)) for step in told]
    [('running', 0, 10, 25), ('running', 50, 20, 32), ('done', 50, 30, 35)]
    """

    def __init__(
        self, costs: Mapping[str, float], watch: OnStep, *, clock: Clock = time.monotonic
    ) -> None:
        self._costs, self._watch, self._clock = dict(costs), watch, clock
        self._begin = clock()
        self._number = 0
        # Of the costs, with what was reused and without; and how many seconds that took.
        self._gone = self._expected = self._spent = 0.0

    @contextmanager
    def part(self, name: str, *, replications: int = 0) -> Iterator[RunningPart]:
        """Make a part: what simulates calls its ``progress``, what reads back sets ``reused``.

        Parameters
        ----------
        name : str
            Of the part.
        replications : int
            How many it has; 0 if that is not known.
        """
        self._number += 1
        cost = self._costs[name]
        begin = self._clock()

        def tell(state: State, now: float) -> None:
            share = (
                min(1.0, part.replications / max(replications, 1)) if state == "running" else 1.0
            )
            ran = share if state != "as it was" else 0.0
            took = now - begin if ran else 0.0
            pace = (_TRUST + self._spent + took) / (_TRUST + self._expected + cost * ran)
            whole = sum(self._costs.values())
            gone = self._gone + cost * share
            step = Step(
                part=name,
                state=state,
                number=self._number,
                parts=len(self._costs),
                replications=part.replications,
                all_replications=replications,
                passed=now - self._begin,
                left=pace * (whole - gone),
                share=gone / whole,
            )
            if state != "running":
                self._gone = gone
                self._expected += cost * ran
                self._spent += took
            self._watch(step)

        part = RunningPart(lambda: tell("running", self._clock()))
        tell("running", begin)
        yield part
        tell("as it was" if part.reused else "done", self._clock())
