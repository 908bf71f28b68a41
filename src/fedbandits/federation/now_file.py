"""Where a run is at this moment, in a small file beside its log: the server's sign of life.

It is for people who watch; the log is what counts. Only the server writes it, about every second,
so its age tells whether the server is at work.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fedbandits.errors import FedbanditsError, InputError
from fedbandits.federation.coordinator import Bulletin
from fedbandits.federation.state_files import beside, write_whole
from fedbandits.protocol import Server, ServerState, answer_of

# Seconds between writes that are only a sign of life.
_BEAT = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """What can be seen of a run in progress.

    Parameters
    ----------
    at : float
        When it was written, in seconds of the system's clock.
    project : str
        The folder of the trial, where its server runs.
    bulletin : dict
        The fields of `Bulletin`.
    deadline, given_up : float or None
        When the open phase is decided at the latest if there is a quorum, and when it is abandoned
        if there is none, in seconds of the system's clock.
    nodes : list of dict
        What the server knows of each node.
    arms : list of dict
        Name, whether it is left, estimate, low and high of each, once a phase is closed.
    over : bool
        Whether the server has ended.
    error : str or None
        Why the server failed, if it did.
    where : str or None
        Where the user's mistake is, if it was one.
    crashed : bool
        Whether the error was not one of the server's own: starting again may help.
    """

    at: float = 0.0
    project: str = ""
    bulletin: dict[str, Any]
    deadline: float | None = None
    given_up: float | None = None
    nodes: list[dict[str, Any]] = field(default_factory=list)
    arms: list[dict[str, Any]]
    over: bool = False
    error: str | None = None
    where: str | None = None
    crashed: bool = False


def now_path(log: Path) -> Path:
    """Return the file in which the server of a log says where the run is."""
    return beside(log, ".now.json")


class NowFile:
    """The file, for the server that writes it.

    Parameters
    ----------
    path : path
        Of the file.
    project : path
        The folder of the trial.
    clock : callable
        The system's clock.
    """

    def __init__(
        self, path: Path, project: Path, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.path = path
        self._clock = clock
        self._arms: tuple[object, list[dict[str, Any]]] = (None, [])
        self._last = Now(project=str(project), bulletin={}, arms=[])

    def write(self, bulletin: Bulletin, server: Server, nodes: Sequence[dict[str, Any]]) -> None:
        """Say where a run is."""
        now, is_open, last = self._clock(), server.state is ServerState.COLLECTING, self._last
        self._write(
            replace(
                last,
                bulletin=asdict(bulletin),
                deadline=_end(now, bulletin.seconds, last.deadline) if is_open else None,
                given_up=_end(now, bulletin.grace, last.given_up) if is_open else None,
                nodes=list(nodes),
                arms=self._arms_of(server),
            )
        )

    def beat(self) -> None:
        """Give a sign of life, unless the last one is recent."""
        if abs(self._clock() - self._last.at) >= _BEAT:
            self._write(self._last)

    def ended(self, error: BaseException | None = None) -> None:
        """Say that the server has ended, and with which error if there was one."""
        why = None if error is None else f"{type(error).__name__}: {error}"
        where, crashed = None, False
        match error:
            case InputError():
                why, where = error.problem, error.where
            case FedbanditsError():
                why = str(error)
            case SystemExit() | KeyboardInterrupt():
                why = "the server was told to end"
            case Exception():
                crashed = True
        self._write(replace(self._last, over=True, error=why, where=where, crashed=crashed))

    def _arms_of(self, server: Server) -> list[dict[str, Any]]:
        decision = server.decision
        if decision is None:
            return []
        if self._arms[0] is not decision:  # there is nothing new between two decisions
            answer = answer_of(server)
            arms = [
                {
                    "name": arm,
                    "left": arm in answer.survivors,
                    "estimate": answer.estimates[arm],
                    "low": low,
                    "high": high,
                }
                for arm, (low, high) in answer.intervals.items()
            ]
            self._arms = (decision, arms)
        return self._arms[1]

    def _write(self, now: Now) -> None:
        self._last = replace(now, at=self._clock())
        with suppress(InputError):  # only people read it: the run does not need it
            write_whole(self.path, json.dumps(asdict(self._last)), durable=False)


def _end(now: float, left: float, before: float | None) -> float:
    """Return when a time is over; what was said before, if it is over or clocks are inaccurate."""
    at = now + left
    return at if before is None or (left and abs(at - before) >= _BEAT) else before


def read_now(path: Path) -> Now | None:
    """Return where a run is; None if nothing is known."""
    try:
        return Now(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
