"""Runs that are watched: one reader per log, for all viewers together.

A log is read in a thread, new records only. Nothing is written: not the log, and nothing beside it.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyio import CapacityLimiter, to_thread

from fedbandits.errors import FedbanditsError
from fedbandits.federation.durable_log import has_begun
from fedbandits.federation.followed import LoggedRun
from fedbandits.federation.presence import Sign, presence_of
from fedbandits.federation.requests import request_words, requests_left
from fedbandits.federation.state_files import beside
from fedbandits.federation.status import clock_time
from fedbandits.report.markup import Words, table
from fedbandits.report.markup import row as table_row
from fedbandits.run_page.live import LiveRun, headline
from fedbandits.run_page.tables import text
from fedbandits.web.live_parts import LiveParts

ENDING = ".fedlog"
"""What the names of logs end in, if a folder is searched for them."""

MOST_RUNS = 200
"""So many runs of a folder are watched, those whose logs were written last."""

# Seconds between looks: at a log, at that of a run that is over, and at a folder for new ones.
_LOOK, _LOOK_LATER, _SEARCH = 0.5, 5.0, 3.0

# Seconds for the last look at all logs.
_LAST = 2.0

# Folders below the one that is served.
_DEEP = 3

_GONE = '<p class="bad" role="alert"><b>The log is gone: all of this is as it was before.</b></p>'


@dataclass(frozen=True, slots=True)
class Reading:
    """How much of a log was read, while that takes a while."""

    done: int = 0
    of: int = 0


class WatchedRun:
    """A run that viewers watch.

    Parameters
    ----------
    path : path
        Of its log.
    name : str
        What people call the file.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self.key = hashlib.blake2b(str(path.resolve()).encode(), digest_size=6).hexdigest()
        self.parts = LiveParts()
        self.live: LiveRun | None = None
        self.problem = ""
        self.records = 0
        self._reading = Reading()
        self._run: LoggedRun | None = None
        self._seen: Any = None
        self._failures = 0
        self._lock = threading.Lock()

    @property
    def title(self) -> str:
        """Name of its trial; of the file before that is known."""
        return self.name if self.live is None else self.live.run.trial.title

    @property
    def size(self) -> int:
        """Bytes of the log."""
        files = (self.path, beside(self.path, "-wal"))
        return sum(one.stat().st_size for one in files if one.is_file())

    @property
    def finished(self) -> bool:
        """Whether the run is over, and its log hardly changes any more."""
        return self.live is not None and self.live.status.finished

    async def look(self, limiter: CapacityLimiter) -> bool:
        """Read what is new, and return whether anything is."""
        task = asyncio.ensure_future(to_thread.run_sync(self.refresh, limiter=limiter))
        while not task.done():
            await asyncio.wait([task], timeout=_LOOK)
            if not task.done() and self.live is None:
                self.parts.put({"notice": _progress(self._reading)})
        found = task.result()
        return found is not None and self.parts.put(found)

    def refresh(self) -> dict[str, str] | None:
        """Read what is new and return the parts of the page; None if nothing has changed.

        It takes long for a log that is read for the first time, and runs in a thread.
        """
        with self._lock:
            try:
                seen = self._marks()
                if seen == self._seen:
                    return None
                self._take()
                self._seen = seen
            except (FedbanditsError, OSError) as error:
                self._run, self._seen = None, None  # it is read again
                self._failures += 1
                if self._failures == 1:  # as if it was written just now
                    return None
                # Viewers are not told where the file is on this machine.
                self.problem = str(error).replace(str(self.path), self.name)
                notice = f'<p class="bad" role="alert"><b>{text(self.problem)}</b></p>'
                return {"notice": notice, "runs": self.row()}
            if self.live is None:
                return {"notice": "<p>The run has not begun yet.</p>"}
            return {"notice": "", "runs": self.row(), **self.live.parts()}

    def _take(self) -> None:
        """Read new records."""
        if self._run is None:
            if not has_begun(self.path):
                return
            self._run = LoggedRun(self.path, progress=self._read)
        else:
            self._run.refresh()
        waiting = [
            f"the server was asked {request_words(one, self._run.trial.arms)}, and has not done it"
            " yet"
            for one in requests_left(self.path)
        ]
        self.live = LiveRun.of(self._run, waiting=waiting, before=self.live)
        self.records, self.problem, self._failures = self._run.n_records, "", 0

    def _read(self, done: int, of: int) -> None:
        self._reading = Reading(done, of)

    def _marks(self) -> Any:
        """Return what differs as soon as there is something new to show."""
        files = (self.path, beside(self.path, "-wal"), beside(self.path, ".requests"))
        marks: list[tuple[int, ...] | None] = []
        for file in files:
            try:
                found = file.stat()
            except FileNotFoundError:
                marks.append(None)
            else:
                marks.append((found.st_size, found.st_mtime_ns, found.st_ino))
        presence = presence_of(self.path)
        now = presence.now
        if now is None:
            return marks, presence.sign
        # Signs of life alone are nothing new, unless they end.
        told = {key: said for key, said in now.bulletin.items() if key not in ("seconds", "grace")}
        last = now.at if presence.sign is not Sign.RUNNING else 0.0
        said = (told, now.deadline, now.given_up, now.nodes, now.over, now.error, last)
        return marks, presence.sign, repr(said)

    def row(self) -> str:
        """Return its row in the list of runs."""
        if self.live is None or self.problem:
            said = text(self.problem) if self.problem else "is being read"
            return table_row(text(self.name), Words(said), *("–",) * 5)
        status = self.live.status
        sign = None if status.presence is None else status.presence.sign
        server = "over" if status.finished else "–" if sign is None else sign.value
        phase = status.course.phases[-1].phase if status.course.phases else 0
        wrote = "–" if status.wrote is None else clock_time(status.wrote)
        return table_row(
            f'<a href="/run/{self.key}">{text(self.title)}</a> <small>{text(self.name)}</small>',
            Words(headline(status)),
            f"{phase:,}",
            f"{len(status.course.clients):,}",
            f"{len(status.reported):,} of {len(status.reported) + len(status.missing):,}",
            Words(server),
            Words(wrote),
        )


def _progress(reading: Reading) -> str:
    done = reading.done / reading.of if reading.of else 0.0
    said = f"{reading.done:,} of {reading.of:,} records" if reading.of else "begins"
    return (
        f'<p role="status">The log is being read: {said}. It takes seconds the next time, if the'
        f' server has written a checkpoint.</p>\n<progress max="1" value="{done:.3f}"'
        ' aria-label="How much of the log was read"></progress>'
    )


class Board:
    """All runs of a log or a folder, and the list of them.

    Parameters
    ----------
    source : path
        A log, or a folder in which logs are looked for.
    """

    def __init__(self, source: Path) -> None:
        self.source = source
        self.runs: dict[str, WatchedRun] = {}
        self.parts = LiveParts()
        self._limiter = CapacityLimiter(2)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        if not source.is_dir():
            self._add(logs_in(source))

    def _add(self, logs: Iterable[tuple[Path, str]]) -> None:
        for path, name in logs:
            run = WatchedRun(path, name)
            self.runs.setdefault(run.key, run)

    @property
    def single(self) -> WatchedRun | None:
        """The run, if there is only one to show."""
        return next(iter(self.runs.values())) if not self.source.is_dir() and self.runs else None

    async def watch(self) -> None:
        """Watch everything until it is cancelled."""
        try:
            while True:
                logs = await to_thread.run_sync(logs_in, self.source)
                self._add(logs)
                there = {path for path, _ in logs}
                for key, run in list(self.runs.items()):
                    if run.path not in there:  # it was moved or removed
                        del self.runs[key]
                        self._tasks.pop(key).cancel()
                        run.parts.put({"notice": _GONE})
                        run.parts.end()
                    elif key not in self._tasks:
                        self._tasks[key] = asyncio.create_task(self._follow(run))
                self.parts.put({"list": self._list()})
                await asyncio.sleep(_SEARCH)
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _follow(self, run: WatchedRun) -> None:
        while True:
            if await run.look(self._limiter):
                self.parts.put({"list": self._list()})
            await asyncio.sleep(_LOOK_LATER if run.finished else _LOOK)

    async def end(self) -> None:
        """Send what is known by now to all viewers, and that nothing more comes."""
        read = [run.look(self._limiter) for run in self.runs.values() if run.live is not None]
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*read), _LAST)
        for parts in (self.parts, *(run.parts for run in self.runs.values())):
            parts.end()

    def _list(self) -> str:
        if not self.runs:
            return f"<p>There is no log (*{ENDING}) in {text(self.source.resolve().name)} yet.</p>"
        rows = [run.parts.shown.get("runs") or run.row() for run in self.runs.values()]
        heads = ("run", Words("in short"), "phase", "clients", "reported")
        return table("Runs", (*heads, Words("server"), Words("last wrote")), rows)


def logs_in(source: Path) -> list[tuple[Path, str]]:
    """Return the logs of a folder, or the one that is named, with what people call them."""
    if not source.is_dir():
        return [(source, source.name)]
    root, found = source.resolve(), []
    for folder, below, files in os.walk(root):
        inside = Path(folder).relative_to(root)
        if len(inside.parts) >= _DEEP:
            below.clear()
        below[:] = [name for name in below if not name.startswith(".")]
        for name in files:
            path = Path(folder) / name
            # A link could lead anywhere.
            if name.endswith(ENDING) and not path.is_symlink():
                found.append((path.stat().st_mtime, path, str(inside / name)))
    return [(path, name) for _, path, name in sorted(found, reverse=True)[:MOST_RUNS]]
