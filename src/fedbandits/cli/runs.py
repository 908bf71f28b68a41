"""The commands about a run's log: what reads it, copies it, or changes the run."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedbandits.cli.federation import require_flower
from fedbandits.cli.options import AsJson
from fedbandits.cli.printing import interruptible, print_json, print_plain
from fedbandits.errors import InputError, ProtocolError, nearest

if TYPE_CHECKING:
    from fedbandits.federation.coordinator import Wanted
    from fedbandits.federation.durable_log import OnRead
    from fedbandits.federation.followed import LoggedRun
    from fedbandits.protocol import Server

LogFile = Annotated[Path, typer.Argument(help="The log of a run.", metavar="LOG")]

# How often to look whether the server has taken a request.
_POLL_SECONDS = 0.3


# How long a log is read before that is shown.
_SHOWN_AFTER = 1.5


def status(
    log: LogFile,
    as_json: AsJson = False,
    full: Annotated[
        bool, typer.Option("--full", help="Read and check every record; use no checkpoint.")
    ] = False,
) -> None:
    """Show the state of a run: its phase, which clients are missing, what is known of the arms.

    A server may write the log at the same time.
    """
    found = read_run(log, full=full).status()
    if as_json:
        print_json(found.as_dict())
    else:
        typer.echo(found.words())


def verify(
    log: LogFile,
    keys: Annotated[Path, typer.Option(metavar="DIR")],
    as_json: AsJson = False,
) -> None:
    """Verify a run that is over, with nothing but its log and public keys.

    Every assignment, decision and the answer are worked out again, and every signature is checked.
    The exit code is 1 if anything is not as it was signed, and the message names the first record
    that is not.

    Parameters
    ----------
    keys
        Folder with the public keys (*.pub) of the server and its clients, as their owners gave
        them.
    """
    from dataclasses import asdict  # noqa: PLC0415 - after --help

    from fedbandits.federation.verification import verify_log  # noqa: PLC0415 - likewise

    with _shown_if_long(log) as progress:
        found = verify_log(log, keys, progress)
    if as_json:
        print_json(asdict(found))
    else:
        print_plain(found.words())


def backup(log: LogFile, out: Annotated[Path, typer.Option("--out", "-o")]) -> None:
    """Write a backup of a run into one file, even while a server writes the log.

    It has the log as it is at one moment, the private key of the server if the run is signed, and
    checksums. Only your account can read the file.

    Parameters
    ----------
    out
        File to write; it must not exist yet.
    """
    from fedbandits.federation.backup import make_backup  # noqa: PLC0415 - after --help

    with (
        interruptible("no backup was written"),
        trusted(log),
        _shown_if_long(log) as progress,
    ):
        made = make_backup(log, out, progress)
    print_plain(f"{made.words()}\nbackup: {out}")


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    log: Annotated[Path, typer.Argument(metavar="LOG")],
) -> None:
    """Write the log of a backup, with the server's key beside it; nothing is ever overwritten.

    Only one server may continue the run: stop the other one for good before you restore.

    Parameters
    ----------
    file
        A file of fedbandits backup.
    log
        Log to write; it must not exist yet.
    """
    from fedbandits.federation.backup import restore_backup  # noqa: PLC0415 - after --help

    with interruptible("nothing was restored"), _shown_if_long(log) as progress:
        made = restore_backup(file, log, progress)
    print_plain(f"{made.words()}\nlog: {log}\nnext: fedbandits status {log}")


Why = Annotated[str, typer.Option(help="Why, in words; the log and all reports show it.")]
Wait = Annotated[float, typer.Option(min=0, help="Seconds to wait for a running server.")]


def withdraw(
    log: LogFile,
    arm: Annotated[str, typer.Argument(metavar="ARM")],
    reason: Why,
    wait: Wait = 60.0,
) -> None:
    """Take an arm out, for harm or any reason but its estimates; the answer is about the others.

    A running server puts it into the log within 1 second and tells all clients. Live traffic obeys
    within about 10 seconds, pull within about 25 seconds plus at most one call of pull.

    Parameters
    ----------
    arm
        Name of the arm.
    """
    from fedbandits.federation.requests import number_to_withdraw, stated  # noqa: PLC0415
    from fedbandits.protocol import ArmWithdrawn  # noqa: PLC0415 - after --help

    words = stated(reason)
    run = read_run(log)
    number = number_to_withdraw(run.server, arm)
    was_left = bool(run.server.run_state.left[number])

    def do(server: Server) -> None:
        server.withdraw(number_to_withdraw(server, arm), words)

    def done(server: Server) -> bool:
        if number not in server.withdrawn:
            number_to_withdraw(server, arm)
        return number in server.withdrawn

    wanted = ArmWithdrawn(arm=number, reason=words)
    running = do_or_ask(log, wanted, do=do, done=done, wait=wait)
    now = read_run(log).server
    typer.echo(f"{arm} is withdrawn: {_after_withdrawal(now) if was_left else _STAYS_OUT}")
    if running:
        _await_receipts(log, wait)
    else:
        typer.echo(_NO_SERVER)


def stop(log: LogFile, reason: Why, wait: Wait = 60.0) -> None:
    """End a run and its open phase; what is known by then is the last word.

    A running server puts it into the log within 1 second and tells all clients. Live traffic obeys
    within about 10 seconds, pull within about 25 seconds plus at most one call of pull.
    """
    from fedbandits.federation.coordinator import Stop  # noqa: PLC0415 - after --help
    from fedbandits.federation.requests import check_not_over, stated  # noqa: PLC0415 - likewise

    words = stated(reason)
    run = read_run(log)
    check_not_over(run.server)

    def do(server: Server) -> None:
        check_not_over(server)
        server.stop(words=words)

    running = do_or_ask(
        log, Stop(reason=words), do=do, done=lambda server: server.finished, wait=wait
    )
    typer.echo("the run is stopped: nothing counts from now on")
    typer.echo("the server tells all clients that it can reach" if running else _NO_SERVER)


_STAYS_OUT = "it was already dropped, and will not come back if others are withdrawn"


def _after_withdrawal(server: Server) -> str:
    """Return what happens to a run after a withdrawal."""
    from fedbandits.protocol import ServerState  # noqa: PLC0415 - after --help

    if server.finished:
        return "the run is over, because one arm is left"
    if server.state is ServerState.COLLECTING:
        return "the open phase continues without it"
    return "no later phase has it"


_NO_SERVER = (
    "no server runs, so no client knows of it: resume the run at once, or halt the clients at"
    " their sites (fedbandits halt)"
)


def do_or_ask(
    log: Path,
    wanted: Wanted,
    *,
    do: Callable[[Server], None],
    done: Callable[[Server], bool],
    wait: float,
) -> bool:
    """Do something to a run, or ask the server that writes its log; return whether one does."""
    from fedbandits.federation import durable_log, followed, requests  # noqa: PLC0415 - after --help

    try:
        with trusted(log), durable_log.DurableLog(log) as written:
            do(followed.LoggedRun(written).serving(written))
    except durable_log.LogInUseError:
        with interruptible("the request stays, and the server takes it within a second"):
            requests.leave_request(log, wanted)
            typer.echo("asked the server that writes this log; waiting for the log", err=True)
            _await(log, done, wait)
        return True
    return False


def rebind(  # noqa: PLR0917 - options of a command, all of them named
    log: LogFile,
    reason: Annotated[str, typer.Option()],
    clients: Annotated[list[str] | None, typer.Argument(metavar="CLIENT...")] = None,
    node: str | None = None,
    of: str | None = None,
    key: Annotated[Path | None, typer.Option()] = None,
    wait: Wait = 60.0,
) -> None:
    """Let another node or key answer for clients, if they have moved or there is a new key.

    A client is bound to the key of the node that first answered for it, and to the key that it
    signs with. Without this command, no other node or key can answer for that client.

    Parameters
    ----------
    node
        The node that answers from now on: its public key, or SHA256:…
    reason
        Why, in words; the log and the status show it.
    clients
        Clients to move.
    of
        Move all clients of this node instead: its key, or SHA256:…
    key
        Instead of --node: the public key (*.pub) that one client signs with from now on.
    """
    from fedbandits.federation.requests import stated  # noqa: PLC0415 - after --help

    words = stated(reason)
    if (node is None) == (key is None) or (of is not None and key is not None):
        raise InputError("--node", "give the new node of clients, or the new --key of one client")
    if key is not None:
        _change_key(log, clients or [], key, words, wait)
        return
    require_flower()
    from fedbandits.protocol import ClientsBound  # noqa: PLC0415 - after --help

    run = read_run(log)
    to = _fingerprint(node or "", "--node")
    names = _named(run.server, clients or [], None if of is None else _fingerprint(of, "--of"))

    def do(server: Server) -> None:
        server.rebind(names, to, words)

    def done(server: Server) -> bool:
        return all(server.run_state.homes[name] == to for name in names)

    wanted = ClientsBound(clients=tuple(names), node=to, reason=words)
    do_or_ask(log, wanted, do=do, done=done, wait=wait)
    typer.echo(f"node {to} now answers for {len(names)} clients")


def _change_key(log: Path, clients: list[str], file: Path, reason: str, wait: float) -> None:
    """Let a client sign with another key from now on."""
    from fedbandits.federation.signing import fingerprint, owner_of, read_public  # noqa: PLC0415
    from fedbandits.protocol import KeyPinned  # noqa: PLC0415 - after --help

    owner, key = read_public(file)
    known = [client for client, _ in read_run(log).server.run_state.keys]
    if len(clients) != 1 or clients[0] not in known:
        raise InputError(
            "CLIENT",
            f"name the one client whose key changes; {nearest(' '.join(clients), known, most=8)}",
        )
    (client,) = clients
    if owner != owner_of(client):
        raise InputError("--key", f'{file} is the key of "{owner}", not of "{owner_of(client)}"')

    def do(server: Server) -> None:
        server.change_key(client, key, reason)

    def done(server: Server) -> bool:
        return server.run_state.keys.get(client) == key

    wanted = KeyPinned(client=client, key=key, reason=reason)
    do_or_ask(log, wanted, do=do, done=done, wait=wait)
    typer.echo(f"{client} now signs with {fingerprint(key)}")


def _fingerprint(said: str, where: str) -> str:
    """Return the fingerprint that is given, or that of the key in a file."""
    from fedbandits.federation.flower.keys import fingerprint  # noqa: PLC0415 - heavy

    if re.fullmatch(r"SHA256:[A-Za-z0-9+/]{43}", said):
        return said
    try:
        return fingerprint(Path(said).read_bytes())
    except (OSError, ValueError):
        raise InputError(
            where,
            f'"{said}" is neither a public key in a file nor a fingerprint; ssh-keygen -lf prints'
            " one, such as SHA256:…",
        ) from None


def _named(server: Server, clients: list[str], of: str | None) -> list[str]:
    """Return the clients to move."""
    homes = server.run_state.homes
    if bool(clients) == (of is not None):
        raise InputError(
            "CLIENT", "name the clients to move, or move all clients of a node with --of"
        )
    if of is not None:
        found = [client for client, home in homes.items() if home == of]
        if not found:
            raise InputError("--of", f"{of} answers for no client of this run")
        return found
    for client in clients:
        if client not in homes:
            raise InputError(
                "CLIENT", f'no node answers for "{client}"; {nearest(client, homes, most=8)}'
            )
    return clients


def report(log: LogFile, out: Annotated[Path | None, typer.Option("--out", "-o")] = None) -> None:
    """Write a page about a run, over or not: what is known, what it assumes, what was sent.

    Parameters
    ----------
    out : default beside the log
        Write report.html here.
    """
    from fedbandits.experiments.output import open_output  # noqa: PLC0415 - after --help

    run = read_run(log)
    folder = log.parent if out is None else out
    with interruptible("nothing was written"), open_output(folder) as staging:
        from fedbandits.run_page.page import run_html  # noqa: PLC0415 - heavy

        (staging / "report.html").write_text(run_html(run), encoding="utf-8")
    typer.echo(f"report: {folder / 'report.html'}")


def read_run(log: Path, *, full: bool = False) -> LoggedRun:
    """Return the run of a log, or say what is wrong with it."""
    from fedbandits.federation.followed import LoggedRun  # noqa: PLC0415 - after --help

    with trusted(log), _shown_if_long(log) as progress:
        return LoggedRun(log, full=full, progress=progress)


@contextmanager
def _shown_if_long(log: Path) -> Iterator[OnRead]:
    """Yield what reading a log calls; a terminal gets a bar if it takes a while."""
    begin = time.monotonic()
    bars: list[OnRead] = []
    with ExitStack() as stack:

        def read(done: int, of: int) -> None:
            if not bars and time.monotonic() - begin > _SHOWN_AFTER:
                from fedbandits.cli.progress import show_records  # noqa: PLC0415 - heavy

                bars.append(stack.enter_context(show_records(log.name)))
            for bar in bars:
                bar(done, of)

        yield read


@contextmanager
def trusted(log: Path) -> Iterator[None]:
    """Turn what is wrong with a log into an error that its user can fix."""
    from fedbandits.federation.durable_log import DamagedLogError  # noqa: PLC0415 - after --help

    try:
        yield
    except DamagedLogError as error:
        raise InputError("", str(error)) from None
    except ProtocolError as error:
        raise InputError(
            str(log), f"its records contradict each other ({error}); restore it from a copy"
        ) from None


def _await(log: Path, done: Callable[[Server], bool], seconds: float) -> None:
    """Wait until a server has done something; end with exit code 1 if it has not in time."""
    try:
        if any(done(run.server) for run in _followed(log, seconds)):
            return
    except InputError as error:
        typer.echo(f"not done: {error.problem}", err=True)
        raise typer.Exit(1) from None
    typer.echo(
        f"not done yet: the log does not say so after {seconds:g} seconds. The request"
        " stays, and the server takes it at its next step; see fedbandits status",
        err=True,
    )
    raise typer.Exit(1)


def _await_receipts(log: Path, seconds: float) -> None:
    """Wait until all clients have confirmed a withdrawal, and name those that have not."""
    from fedbandits.federation.status import shortened  # noqa: PLC0415 - after --help

    for run in _followed(log, seconds):
        unconfirmed, state = run.status().unconfirmed, run.server.run_state
        if not state.homes and not state.columns:
            typer.echo("no client has connected yet; the server tells each one when it does")
            return
        if not unconfirmed:
            typer.echo("all clients have confirmed that they no longer give it to anybody")
            return
    typer.echo(
        f"{len(unconfirmed)} clients have not confirmed after {seconds:g} seconds, and may still"
        f" give it: {shortened(unconfirmed)}. The server tells them as soon as they can be"
        " reached; they can be halted at their sites (fedbandits halt)",
        err=True,
    )
    raise typer.Exit(1)


def _followed(log: Path, seconds: float) -> Iterator[LoggedRun]:
    """Yield a run as its log has it, again and again until so much time has passed."""
    end = time.monotonic() + seconds
    run = read_run(log)
    while True:
        with trusted(log):
            run.refresh()
        yield run
        if time.monotonic() >= end:
            return
        time.sleep(min(_POLL_SECONDS, max(0.0, end - time.monotonic())))
