"""A few processes for everybody who uses the laboratory, each ended at its limit.

Every task has a process of its own, which is killed if the task takes too long, if nobody waits for
it any more, or if the same viewer asks for something newer. Where the system allows, processes are
forked from one that has imported everything, which takes milliseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, TypeAlias

Message: TypeAlias = Mapping[str, Any]
"""What is known by now, ready for JSON; ``kind`` says what about."""

_WORKER = "fedbandits.laboratory.worker"
PROCESSES = 2
"""Tasks that are worked on at once."""

WAITING = 16
"""Tasks that may wait for them; more are refused."""

SECONDS = 20.0
"""How long a task may take."""

# Seconds: the first process has everything to import, and the machine may be busy.
_STARTS_WITHIN = 60.0

_LAST = ("done", "refused", "game", "broke")
"""The kinds of a task's last message."""


def _context() -> Any:
    """Return how processes are started."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_WORKER])
    return context


def _begin(connection: Connection, said: Mapping[str, str], seconds: float) -> None:
    """Work on a task; what that takes is not imported by the process that serves pages."""
    from fedbandits.laboratory.worker import work  # noqa: PLC0415 - heavy

    work(connection, said, seconds)


@dataclass(eq=False)
class Pool:
    """Processes for tasks, a bound on those that wait, and who waits for what.

    Parameters
    ----------
    processes, waiting : int
        How many tasks are worked on, and how many may wait.
    seconds : float
        How long a task may take.
    """

    processes: int = PROCESSES
    waiting: int = WAITING
    seconds: float = SECONDS
    _free: asyncio.Semaphore = field(init=False)
    _newest: dict[str, asyncio.Event] = field(default_factory=dict, init=False)
    _queued: int = field(default=0, init=False)
    _running: set[int] = field(default_factory=set, init=False)
    _start: Any = field(init=False)

    def __post_init__(self) -> None:
        self._free = asyncio.Semaphore(self.processes)
        self._start = _context()

    @property
    def running(self) -> frozenset[int]:
        """The processes that work on something now, by their ids."""
        return frozenset(self._running)

    async def warm(self) -> None:
        """Import what tasks need, before there is one."""
        async for _ in self.answers({"options": ""}, ""):
            pass  # an empty field is refused at once

    async def answers(self, said: Mapping[str, str], viewer: str) -> AsyncIterator[Message]:
        """Yield what a task says, or why it says nothing more.

        Parameters
        ----------
        said : mapping of str to str
            What is asked, as `fedbandits.laboratory.worker.answers` takes it.
        viewer : str
            Who asks; what the same viewer asked before is ended.
        """
        before = self._newest.get(viewer)
        if before is not None:
            before.set()
        if self._queued >= self.waiting:
            yield {"kind": "busy", "waiting": self._queued}
            return
        newer = self._newest[viewer] = asyncio.Event()
        try:
            if not await self._turn(newer):
                yield {"kind": "superseded"}
                return
            try:
                async for message in self._worked(said, newer):
                    yield message
            finally:
                self._free.release()
        finally:
            if self._newest.get(viewer) is newer:
                del self._newest[viewer]

    async def _turn(self, newer: asyncio.Event) -> bool:
        """Wait for a process to be free; return whether it is still wanted."""
        self._queued += 1
        turn = asyncio.ensure_future(self._free.acquire())
        given_up = asyncio.ensure_future(newer.wait())
        try:
            await asyncio.wait({turn, given_up}, return_when=asyncio.FIRST_COMPLETED)
            wanted = not newer.is_set()
        except BaseException:
            wanted = False
            raise
        finally:
            self._queued -= 1
            given_up.cancel()
            if not wanted and not turn.cancel() and not turn.cancelled():
                self._free.release()
        return wanted

    async def _worked(
        self, said: Mapping[str, str], newer: asyncio.Event
    ) -> AsyncIterator[Message]:
        """Yield what a process of its own says about a task."""
        loop = asyncio.get_running_loop()
        heard: asyncio.Queue[Message] = asyncio.Queue()
        unwanted = threading.Event()

        def tell(message: Message) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and all who listened
                loop.call_soon_threadsafe(heard.put_nowait, message)

        near, far = self._start.Pipe(duplex=False)
        process = self._start.Process(target=_begin, args=(far, dict(said), self.seconds))
        process.daemon = True
        # Starting takes a moment, and at first seconds: never in the way of other requests.
        with_process = partial(self._follow, process, near, far, tell, unwanted)
        threading.Thread(target=with_process, daemon=True).start()
        end = loop.time() + _STARTS_WITHIN
        given_up = asyncio.ensure_future(newer.wait())
        next_one = asyncio.ensure_future(heard.get())
        try:
            while True:
                await asyncio.wait(
                    {next_one, given_up},
                    timeout=end - loop.time(),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if given_up.done() or not next_one.done():
                    cut = {"kind": "cut", "seconds": self.seconds}
                    yield {"kind": "superseded"} if given_up.done() else cut
                    return
                message = next_one.result()
                next_one = asyncio.ensure_future(heard.get())
                if message["kind"] == "ready":
                    end = loop.time() + self.seconds
                    continue
                yield message
                if message["kind"] in _LAST:
                    return
        finally:
            given_up.cancel()
            next_one.cancel()
            unwanted.set()
            if process.pid is not None:
                process.kill()

    def _follow(
        self,
        process: BaseProcess,
        near: Connection,
        far: Connection,
        tell: Callable[[Message], None],
        unwanted: threading.Event,
    ) -> None:
        """Start a process, tell what it says, and see it off."""
        process.start()
        self._running.add(process.ident or 0)
        far.close()
        last: Message = {}
        try:
            while not unwanted.is_set():
                last = json.loads(near.recv_bytes())
                tell(last)
        except (EOFError, OSError):
            if last.get("kind") not in _LAST:
                tell({"kind": "broke"})  # the system has ended it, or we have: then nobody listens
        finally:
            near.close()
            process.kill()
            process.join()
            self._running.discard(process.ident or 0)
