"""Whether a server is at work on a log, whom it reaches, and what it waits for.

Two things tell: the lock of the log, which the system lets go when its process ends, and the age of
a small file beside it in which the server says where the run is, about every second. That file is
for people who watch; the log is what counts.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

from fedbandits.errors import FedbanditsError, InputError
from fedbandits.federation.coordinator import Bulletin
from fedbandits.federation.durable_log import is_held
from fedbandits.federation.run import plan_path
from fedbandits.federation.state_files import beside, write_whole
from fedbandits.federation.status import clock_time, counted, node_words, shortened
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


SILENT_AFTER = 15.0
"""Seconds without a sign of life after which a server hangs, or is gone."""


class Sign(Enum):
    """Whether there is a server."""

    RUNNING = "running"
    SILENT = "silent"
    """A process holds the log, and gives no sign of life."""
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """What can be seen of the server of a log.

    Parameters
    ----------
    sign : Sign
        Whether there is one.
    age : float or None
        Seconds since its last sign of life; None if there never was one.
    now : Now or None
        What it said then.
    resume : str
        The command that continues the run.

    Examples
    --------
    >>> Presence(sign=Sign.GONE, age=None, now=None, resume="fedbandits resume run.fedlog").lines()
    ['no server is running; go on with: fedbandits resume run.fedlog']
    """

    sign: Sign
    age: float | None
    now: Now | None
    resume: str

    def lines(self, say: Callable[[float], str] | None = None) -> list[str]:
        """Return it for a terminal, for a run that is not over.

        Parameters
        ----------
        say : callable, optional
            What puts the age of the last sign of life into words; a page counts it up by itself.
        """
        say = duration if say is None else say
        match self.sign:
            case Sign.GONE:
                ended = self._how_it_ended(say)
                return [f"no server is running{ended}; go on with: {self.resume}"]
            case Sign.SILENT:
                since = "" if self.age is None else f" for {say(self.age)}"
                return [
                    f"a process holds the log and has given no sign of life{since}: it hangs, or"
                    f" its machine is overloaded; if it does not recover, end it and go on with:"
                    f" {self.resume}"
                ]
        return self._running()

    def _how_it_ended(self, say: Callable[[float], str]) -> str:
        if self.now is None or self.age is None:
            return ""
        if self.now.error is not None:
            where = f"{self.now.where}: " if self.now.where else ""
            return f": the last one ended {say(self.age)} ago ({where}{self.now.error})"
        if self.now.over:
            return f": the last one ended {say(self.age)} ago"
        return f": the last one died; its last sign of life was {say(self.age)} ago"

    def _running(self) -> list[str]:
        if self.now is None or not self.now.bulletin:
            return ["the server is starting"]
        at = self.now.bulletin
        waiting = f"; it waits for {at['waiting']}" if at["waiting"] else ""
        here = sum(node["connected"] for node in self.now.nodes)
        return [
            f"the server is running{waiting}",
            f"connected: {counted(at['connected'], 'client')} on {counted(here, 'node')}",
            *notes(self.now),
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return it in values that JSON has, without what a server that is gone has said."""
        now = self.now
        found: dict[str, Any] = {
            "state": self.sign.value,
            "seen": None if now is None else _iso(now.at),
            "age": self.age,
            "error": None if now is None else now.error,
            "resume": self.resume,
        }
        if now is not None and now.bulletin and self.sign is Sign.RUNNING:
            found |= {
                "waiting": now.bulletin["waiting"],
                "connected": now.bulletin["connected"],
                "away": now.bulletin["away"],
                "deadline": None if now.deadline is None else _iso(now.deadline),
                "given_up": None if now.given_up is None else _iso(now.given_up),
                "nodes": now.nodes,
            }
        return found


def notes(now: Now) -> list[str]:
    """Return the deadline of the open phase, who is away, and what is wrong with nodes."""
    said, found = now.bulletin, []
    if now.deadline is not None and now.given_up is not None:
        ends, given_up = (clock_time(_iso(at)) for at in (now.deadline, now.given_up))
        found.append(
            f"phase {said['phase']} is decided at {ends} at the latest if enough clients have"
            f" reported, and abandoned at {given_up} if not"
        )
    if said["away"]:
        found.append(f"not connected: {shortened(said['away'])}")
    return found + [
        f"{node_words(n['key'], n['hosts'])} {n['trouble']}" for n in now.nodes if n["trouble"]
    ]


def presence_of(log: Path) -> Presence:
    """Return what can be seen of the server of a log; nothing is written."""
    now = read_now(now_path(log))
    # A server that works writes again within a second, even if the clock was set back.
    age = None if now is None else abs(time.time() - now.at)
    fresh = age is not None and age <= SILENT_AFTER
    match is_held(log):
        case True:
            sign = Sign.RUNNING if fresh else Sign.SILENT
        case False:
            sign = Sign.GONE
        case None:  # cannot be found out: trust what the server says itself
            sign = Sign.RUNNING if fresh and now is not None and not now.over else Sign.GONE
    return Presence(sign=sign, age=age, now=now, resume=_resume(log, now))


def _resume(log: Path, now: Now | None) -> str:
    said = shlex.quote(str(log))
    if plan_path(log).exists():
        return f"fedbandits resume {said}"
    project = shlex.quote(now.project) if now is not None and now.project else "PROJECT"
    return f"fedbandits coordinate {project} --log {said}"


def duration(seconds: float) -> str:
    """Return a number of seconds, as people say it.

    Examples
    --------
    >>> duration(8.2), duration(200), duration(9000), duration(400_000)
    ('8 s', '3 min', '2.5 h', '4.6 days')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} days"


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
