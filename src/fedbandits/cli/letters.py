"""The commands about sites without a network: ``post`` and ``deliver`` at the server, ``site``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedbandits.cli.printing import print_plain
from fedbandits.cli.runs import LogFile, read_run, trusted
from fedbandits.errors import InputError

if TYPE_CHECKING:
    from fedbandits.federation.letters import SiteReply
    from fedbandits.protocol import Server


def post(
    log: LogFile,
    project: Path | None = None,
    out: Annotated[Path | None, typer.Option("--out", "-o")] = None,
    decide: Annotated[bool, typer.Option("--decide")] = False,
    qr: Annotated[bool, typer.Option("--qr")] = False,
) -> None:
    """Write one signed letter for each site without a network to which there is something to say.

    Letters that were written before and are still not answered are written again. If all clients
    get letters, no server is needed: this command also opens phases.

    Parameters
    ----------
    project
        To begin a run in which all clients get letters (offline in fedbandits.toml): its folder.
    out : default post beside the log
        Folder for the letters.
    decide
        Decide the open phase now, if those who have reported are a quorum; for a run that needs no
        server.
    qr
        Also draw each letter as a QR code, unless it is too large for one.
    """
    from fedbandits.federation.durable_log import has_begun  # noqa: PLC0415 - after --help
    from fedbandits.federation.letters import letters_of, write_letter  # noqa: PLC0415 - likewise
    from fedbandits.federation.served import begin_or_resume  # noqa: PLC0415 - likewise
    from fedbandits.federation.signing import KEYS_FOLDER, server_key  # noqa: PLC0415 - likewise
    from fedbandits.federation.state_files import private_folder  # noqa: PLC0415 - likewise
    from fedbandits.federation.trial import load_trial  # noqa: PLC0415 - likewise

    if not has_begun(log) and project is not None:
        trial = load_trial(project)
        if not trial.offline:
            raise InputError("offline", "is empty; list the clients that get letters")
        keys = project / KEYS_FOLDER
        begin_or_resume(trial, log, signed=True, keys=keys, only_letters=True)[0].close()
    server = _advanced(log, decide=decide)
    run = read_run(log)
    if not run.signed:
        raise InputError(str(log), "is not signed, and letters are; begin another run")
    if server is None and decide:
        raise InputError("--decide", "a server writes this log, and decides itself")
    folder = private_folder(log.absolute().parent / "post" if out is None else out)
    written = [
        write_letter(folder, letter)
        for letter in letters_of(run.server, run.trial.offline, server_key(log))
    ]
    for path in written:
        typer.echo(f"wrote {path}")
        if qr:
            _draw(path)
    if not written:
        typer.echo("no letter is needed now")
    print_plain(run.status().state_words())


def _draw(path: Path) -> None:
    """Draw a letter or a reply as a QR code, and say so."""
    from fedbandits.federation.qr_code import write_code  # noqa: PLC0415 - after --help

    code = write_code(path)
    typer.echo(f"wrote {code}" if code is not None else f"{path} is too large for a QR code")


def _scanned(path: Path, ending: str) -> list[Path]:
    """Return the files to read: one itself, or for "-" one for each code that a scanner types."""
    from fedbandits.federation.qr_code import write_scanned  # noqa: PLC0415 - after --help

    if path != Path("-"):
        return [path]
    lines = [line.strip("\r\n") for line in typer.get_text_stream("stdin")]
    return [write_scanned(line, Path(), ending) for line in lines if line.strip()]


def _advanced(log: Path, *, decide: bool = False) -> Server | None:
    """Let a run go on that needs no server; None if one writes the log."""
    from fedbandits.federation.durable_log import DurableLog, LogInUseError  # noqa: PLC0415
    from fedbandits.federation.letters import advance  # noqa: PLC0415 - after --help

    try:
        with trusted(log), DurableLog(log) as written:
            return advance(written, decide=decide)
    except LogInUseError:
        return None


def deliver(log: LogFile, files: Annotated[list[Path], typer.Argument(metavar="FILE...")]) -> None:
    """Hand replies of sites without a network to a run; the same reply counts once.

    The exit code is 2 if a file is not there, damaged, of another run, or of somebody else. The
    others are delivered.

    Parameters
    ----------
    files
        Replies, as fedbandits site has written them; - for QR codes that a scanner types.
    """
    from fedbandits.federation.letters import (  # noqa: PLC0415 - after --help
        REPLY,
        goes_on_alone,
        hand_in,
        inbox,
        read_reply,
    )
    from fedbandits.federation.state_files import private_folder  # noqa: PLC0415 - likewise

    run = read_run(log)
    folder, wrong = private_folder(inbox(log)), 0
    for path in (found for file in files for found in _scanned(file, REPLY)):
        try:
            reply = read_reply(path, run.server, run.trial.offline)
        except InputError as error:
            wrong += 1
            print_plain(str(error), "not delivered: ", err=True)
            continue
        late = _too_late(reply, run.server)
        print_plain(f"{path}: {late or f'what {reply.client} says is handed in'}")
        if late is not None and len(reply.replies) == 1:
            continue
        hand_in(folder, reply)
    if _advanced(log) is not None and not goes_on_alone(run):
        typer.echo("no server runs now: it takes them as soon as the run is resumed")
    print_plain(read_run(log).status().state_words())
    if wrong:
        raise typer.Exit(2)


def _too_late(reply: SiteReply, server: Server) -> str | None:
    """Return why the update in a reply changes nothing; None if it may count."""
    from fedbandits.protocol import Update  # noqa: PLC0415 - after --help

    for said in reply.replies:
        if isinstance(said, Update):
            about = f"phase {said.phase} of {said.client}"
            if said.phase == server.phase and said.client in server.run_state.reports:
                return f"{about} was delivered before"
            if said.phase != server.phase or server.finished:
                return f"{about} comes too late, and does not count"
    return None


def site(
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    project: Path = Path(),
    state: Path | None = None,
    new: Annotated[bool, typer.Option("--new")] = False,
    qr: Annotated[bool, typer.Option("--qr")] = False,
) -> None:
    """Do what a letter says, at a site without a network, and write the reply beside it.

    The same letter again gives the same reply. The exit code is 3 if it cannot be answered yet:
    take the same letter again later.

    Parameters
    ----------
    file
        A letter, as fedbandits post has written it; - for a QR code that a scanner types.
    project
        Folder with fedbandits.toml and client.py.
    state : default state in PROJECT
        Where clients keep their files.
    new
        This site answers for a client for which it has not answered before, too.
    qr
        Also draw the reply as a QR code, unless it is too large for one.
    """
    from fedbandits.federation.letters import LETTER, play_letter  # noqa: PLC0415 - after --help
    from fedbandits.federation.local import load_client  # noqa: PLC0415 - likewise
    from fedbandits.federation.trial import load_trial  # noqa: PLC0415 - likewise

    trial = load_trial(project)
    code = load_client(project, trial)
    scanned = _scanned(file, LETTER)
    if len(scanned) != 1:
        raise InputError("-", f"{len(scanned)} codes were scanned; scan that of one letter")
    played = play_letter(
        scanned[0],
        project,
        trial,
        code.pull,
        history=code.history,
        state=project / "state" if state is None else state,
        new=new,
    )
    for news in played.news:
        print_plain(news)
    if played.reply is not None:
        typer.echo(f"send back: {played.reply}")
        if qr:
            _draw(played.reply)
    if not played.done:
        raise typer.Exit(3)
