"""The commands about a run's log: ``status``, ``withdraw`` and ``report``."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedbandits.cli.interrupt import interruptible
from fedbandits.errors import InputError, ProtocolError, nearest

if TYPE_CHECKING:
    from fedbandits.federation.followed import LoggedRun
    from fedbandits.protocol import Server

LogFile = Annotated[Path, typer.Argument(help="The log of a run.", metavar="LOG")]

# How often to look whether the server has taken a note.
_POLL_SECONDS = 0.3


def status(
    log: LogFile,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print it as JSON, and nothing else.")
    ] = False,
) -> None:
    """Show where a run is: its phase, who is missing, what is known of the arms.

    The log may be written meanwhile.
    """
    found = _read(log).status()
    if as_json:
        typer.echo(json.dumps(found.as_dict(), indent=2, allow_nan=False))
    else:
        typer.echo(found.words())


def withdraw(
    log: LogFile,
    arm: Annotated[str, typer.Argument(help="Name of the arm.", metavar="ARM")],
    reason: Annotated[str, typer.Option(help="Why, in words; the log and all reports have it.")],
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for a server that writes the log.")
    ] = 60.0,
) -> None:
    """Take an arm out, for harm or any reason but its estimates: the answer is about the rest.

    It is out from the next phase. A server that runs is told, and takes it out at its next step.
    """
    from fedbandits.federation.coordinator import Withdrawal  # noqa: PLC0415 - after --help
    from fedbandits.federation.durable_log import DurableLog, LogInUseError  # noqa: PLC0415
    from fedbandits.federation.local import server_of  # noqa: PLC0415 - likewise
    from fedbandits.federation.requests import request_withdrawal  # noqa: PLC0415 - likewise

    words = " ".join(reason.split())
    if not words:
        raise InputError("--reason", "is empty; say why, for those who read the log")
    run = _read(log)
    number = _number(run.server, arm)
    try:
        with trusted(log), DurableLog(log) as written:
            server = server_of(run.trial, written, run.name)
            _number(server, arm)
            server.withdraw(number, words)
    except LogInUseError:
        with interruptible("the note stays, and the server takes it at its next step"):
            request_withdrawal(log, Withdrawal(arm=number, reason=words))
            typer.echo("a server writes this log; it was told, and the log is watched", err=True)
            _await(log, arm, wait)
    typer.echo(f"{arm} is withdrawn: out from the next phase; everything is about the rest")


def report(
    log: LogFile,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write report.html here.", show_default="beside the log"),
    ] = None,
) -> None:
    """Write a page about a run, over or not: what is known, what it rests on, what was sent."""
    from fedbandits.experiments.output import open_output  # noqa: PLC0415 - after --help

    run = _read(log)
    folder = log.parent if out is None else out
    with interruptible("nothing was written"), open_output(folder) as staging:
        from fedbandits.experiments.report.run_page import run_html  # noqa: PLC0415 - heavy

        (staging / "report.html").write_text(run_html(run), encoding="utf-8")
    typer.echo(f"report: {folder / 'report.html'}")


def _read(log: Path) -> LoggedRun:
    from fedbandits.federation.followed import LoggedRun  # noqa: PLC0415 - after --help

    with trusted(log):
        return LoggedRun(log)


@contextmanager
def trusted(log: Path) -> Iterator[None]:
    """Turn what is wrong with a log into what its user has to mend."""
    from fedbandits.federation.durable_log import DamagedLogError  # noqa: PLC0415 - after --help

    try:
        yield
    except DamagedLogError as error:
        raise InputError("", str(error)) from None
    except ProtocolError as error:
        raise InputError(
            str(log), f"its records do not follow from each other ({error}); restore it from a copy"
        ) from None


def _number(server: Server, arm: str) -> int:
    """Return the number of an arm that can be withdrawn."""
    arms = server.arms
    if arm not in arms:
        raise InputError("ARM", f'"{arm}" is none of the run; {nearest(arm, arms)}')
    number = arms.index(arm)
    if number in server.withdrawn:
        raise InputError("ARM", f"{arm} was withdrawn before ({server.withdrawn[number]})")
    if server.finished:
        raise InputError("LOG", "the run is over; there is no phase to take an arm out of")
    if not server.snapshot().active[number]:
        raise InputError("ARM", f"{arm} is out already: it was decided against")
    if server.left == 1:
        raise InputError(
            "ARM",
            f"{arm} is the last one left; end the server instead: what is known is in the log",
        )
    return number


def _await(log: Path, arm: str, seconds: float) -> None:
    """Wait until a server has withdrawn an arm; end with exit code 1 if it has not in time."""
    end = time.monotonic() + seconds
    run = _read(log)
    server = run.server
    while True:
        with trusted(log):
            run.refresh()
        if server.arms.index(arm) in server.withdrawn:
            return
        try:
            _number(server, arm)
        except InputError as error:
            typer.echo(f"not withdrawn, since meanwhile: {error.problem}", err=True)
            raise typer.Exit(1) from None
        if time.monotonic() >= end:
            typer.echo(
                f"not withdrawn yet: the log does not say so after {seconds:g} seconds. The note"
                " stays, and the server takes it at its next step; see fedbandits status",
                err=True,
            )
            raise typer.Exit(1)
        time.sleep(min(_POLL_SECONDS, max(0.0, end - time.monotonic())))
