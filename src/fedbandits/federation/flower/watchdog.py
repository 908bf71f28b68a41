"""Keeps a run going: submits it, watches its server, and continues from the log after a crash."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn, Protocol, TypeAlias

from fedbandits.errors import InputError
from fedbandits.federation.durable_log import has_begun, is_held, read_log
from fedbandits.federation.flower.command import FlowerCommand, FlowerError
from fedbandits.federation.presence import (
    SILENT_AFTER,
    Now,
    Sign,
    duration,
    now_path,
    presence_of,
    read_now,
)
from fedbandits.protocol import PhaseClosed

MOST_CRASHES = 3
"""The number of crashes in a row, with no phase decided between them, after which it gives up."""

# Seconds between looks at the server.
_LOOK = 0.25

# A server lets go of its log just before it says that it has ended.
_GONE = 2.0

# Seconds without a sign of life until Flower is asked about a server, and until it is given up.
_DOUBT = 10.0
_HANGS = 60.0

# Seconds between attempts to reach a SuperLink, and until they end.
_RETRY = 5.0
_UNREACHED = 120.0

Stage: TypeAlias = Callable[[str], None]
"""Told what is being started, and what is wrong."""

ShowNow: TypeAlias = Callable[[Now], None]
"""Told where the run is, whenever that has changed."""


class CrashError(FlowerError):
    """The server of a run is gone, and has not said that it was to end."""


class Place(Protocol):
    """Where a run is carried out. By default, processes are left to those who started them."""

    @abstractmethod
    def begin(self, stage: Stage) -> int:
        """Start what the run needs and is not there, submit it, and return its number."""

    def end(self) -> None:
        """End what is left of a run that has crashed, if it is in the way of the next."""
        return

    @abstractmethod
    def status_of(self, run: int) -> str:
        """Return what Flower says of a run."""

    def look_after(self, stage: Stage) -> None:
        """See whether what the run needs is still there.

        Raises
        ------
        CrashError
            If the run cannot go on without something that is gone.
        """
        return

    def last_words(self) -> str:
        """Return the end of what the server has said, if that can be known."""
        return ""


class Submitted(Place):
    """A SuperLink that is there already, to which the run is submitted.

    Parameters
    ----------
    command : FlowerCommand
        The program ``flwr``, for this SuperLink.
    app : path
        The app of the project.
    config : mapping
        What the run is told.
    """

    def __init__(self, command: FlowerCommand, app: Path, config: Mapping[str, str | int]) -> None:
        self._command = command
        self._app = app
        self._config = config

    def begin(self, stage: Stage) -> int:
        """Submit the run; a SuperLink that is just being restarted is waited for."""
        end = time.monotonic() + _UNREACHED
        while True:
            try:
                return self._command.run(self._app, self._config)
            except FlowerError as error:
                if time.monotonic() >= end:
                    raise
                stage(f"{error}; trying again in {_RETRY:g} s")
                time.sleep(_RETRY)
            finally:
                self._command.close()  # it is not needed for days

    def status_of(self, run: int) -> str:
        """Return what Flower says of a run."""
        return self._command.status_of(run)


def keep_running(log: Path, place: Place, *, stage: Stage, watch: ShowNow) -> None:
    """Carry a run through to its end; after a crash of its server, continue from the log.

    A server that is at work on the log already is watched, and no other is started beside it.

    Raises
    ------
    FlowerError
        If it crashes again and again, or ends with an error of its own.
    InputError
        If the server refuses what it was told.
    """
    crashes, decided = 0, _decided(log)
    while True:
        try:
            run = None
            if not is_held(log):
                now_path(log).unlink(missing_ok=True)
                run = _start_run(place, stage, again=crashes > 0)
            _watch_until_over(log, place, run, stage, watch)
        except CrashError as error:
            before, decided = decided, _decided(log)
            crashes = 1 if decided > before else crashes + 1
            go_on = f"go on with: {presence_of(log).resume}"
            if crashes >= MOST_CRASHES:
                raise FlowerError(
                    f"{error}; this was crash {crashes} in a row without a decided phase between"
                    f" them, so the run is not started again; find out why, then {go_on}"
                ) from None
            stage(f"{error}; going on from the log (crash {crashes} of {MOST_CRASHES} at most)")
            place.end()
        else:
            return


def _start_run(place: Place, stage: Stage, *, again: bool) -> int:
    """Begin a run; what goes wrong when it is begun again is one more crash."""
    try:
        return place.begin(stage)
    except FlowerError as error:
        if again:
            raise CrashError(str(error)) from None
        raise


def _decided(log: Path) -> int:
    """Return how many phases are decided: the progress that a run has made."""
    if not has_begun(log):
        return 0
    return sum(isinstance(record, PhaseClosed) for record in read_log(log).records)


def _watch_until_over(
    log: Path, place: Place, run: int | None, stage: Stage, watch: ShowNow
) -> None:
    """Watch a server until it says that the run is over."""
    seen, told = None, False
    alive = asked = time.monotonic()
    while True:
        place.look_after(stage)
        presence, moment = presence_of(log), time.monotonic()
        now = presence.now
        if now is not None and now != seen:
            seen = now
            if now.over:
                _check_ending(now, presence.resume)
            watch(now)
            if now.over:
                return
        if presence.sign is Sign.RUNNING:
            alive, told = moment, False
        silent = moment - alive
        if now is not None and presence.sign is Sign.GONE and silent >= _GONE:
            last = read_now(now_path(log))  # it may have said so just now
            if last is None or not last.over:
                _crash("the server has died", place, run, presence.resume)
        if now is None and moment - asked >= _DOUBT:
            asked = moment
            _check_started(log, place, run, presence.resume)
        quiet = f"the server has given no sign of life for {duration(silent)}"
        if now is not None and silent >= SILENT_AFTER and not told:
            told = True
            stage(quiet)
        if now is not None and silent >= _HANGS:
            _crash(quiet, place, run, presence.resume)
        time.sleep(_LOOK)


def _check_ending(now: Now, resume: str) -> None:
    """Raise why a server has ended, if it should not have."""
    if now.error is None:
        return
    if now.crashed:
        raise CrashError(f"the server has crashed: {now.error}")
    if now.where is not None:
        raise InputError(now.where, now.error)
    raise FlowerError(f"{now.error}; go on with: {resume}")


def _check_started(log: Path, place: Place, run: int | None, resume: str) -> None:
    """Ask Flower about a server that has given no sign of life yet."""
    status = _status(place, run)
    # To ask takes seconds: meanwhile it may have said why it has ended.
    if status.startswith("finished") and read_now(now_path(log)) is None:
        said = place.last_words()
        _crash(f"the server has ended before it began ({status}):\n{said}\n", place, run, resume)


def _crash(what: str, place: Place, run: int | None, resume: str) -> NoReturn:
    """Raise that a server is gone, unless somebody has stopped its run on purpose."""
    if _status(place, run).startswith("finished:stopped"):
        raise FlowerError(f"run {run} was stopped; go on with: {resume}")
    raise CrashError(what)


def _status(place: Place, run: int | None) -> str:
    """Return what Flower says of a run; nothing if it was not started here, or Flower is silent."""
    if run is None:
        return ""
    try:
        return place.status_of(run)
    except FlowerError:
        return ""
