"""Whether a server is at work on a log, whom it reaches, and what it waits for.

Two things tell: the lock of the log, which the system lets go when its process ends, and the age of
the file in which the server says where the run is.
"""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

from fedbandits.federation.durable_log import is_held
from fedbandits.federation.now_file import Now, now_path, read_now
from fedbandits.federation.run import plan_path
from fedbandits.federation.status import clock_time, counted, node_words, shortened

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

    def lines(self) -> list[str]:
        """Return it for a terminal, for a run that is not over."""
        match self.sign:
            case Sign.GONE:
                return [f"no server is running{self._how_it_ended()}; go on with: {self.resume}"]
            case Sign.SILENT:
                since = "" if self.age is None else f" for {duration(self.age)}"
                return [
                    f"a process holds the log and has given no sign of life{since}: it hangs, or"
                    f" its machine is overloaded; if it does not recover, end it and go on with:"
                    f" {self.resume}"
                ]
        return self._running()

    def _how_it_ended(self) -> str:
        if self.now is None or self.age is None:
            return ""
        if self.now.error is not None:
            where = f"{self.now.where}: " if self.now.where else ""
            return f": the last one ended {duration(self.age)} ago ({where}{self.now.error})"
        if self.now.over:
            return f": the last one ended {duration(self.age)} ago"
        return f": the last one died; its last sign of life was {duration(self.age)} ago"

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
    return f"fedbandits serve {project} --log {said}"


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
