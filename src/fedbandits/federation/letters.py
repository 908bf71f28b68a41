"""Sites without a network: files carry what a server and a client say to each other.

A *letter* is one file with all that the server has to say to one site now, signed by the server. A
*reply* is one file with what the site says to it, signed by its client. They may travel in any way,
take weeks, come in any order, twice or never: a site answers the same letter with the same reply,
and a server counts a reply once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedbandits.errors import FedbanditsError, InputError, file_errors
from fedbandits.federation.coordinator import Coordinator, Received, Reply, Sent, Transport
from fedbandits.federation.durable_log import DurableLog
from fedbandits.federation.followed import LoggedRun
from fedbandits.federation.host import ClientHost, ClientInfo, History, PullByName
from fedbandits.federation.kept_file import KeptFile
from fedbandits.federation.last_word import best_in
from fedbandits.federation.qr_code import unpacked
from fedbandits.federation.signing import (
    KEYS_FOLDER,
    SERVER,
    SigningKey,
    client_key,
    fingerprint,
    is_signed,
    public_line,
    read_keys,
)
from fedbandits.federation.state_files import (
    beside,
    check_name,
    key_file,
    letter_file,
    private_folder,
    write_whole,
)
from fedbandits.federation.trial import Trial
from fedbandits.protocol import (
    Assignment,
    Conclusion,
    Header,
    Recall,
    Receipt,
    Refusal,
    Refused,
    Server,
    ServerState,
    Update,
    conclusion_of,
)
from fedbandits.protocol.codec import encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """What a server says to one site.

    Parameters
    ----------
    client : str
        To whom.
    key : bytes
        The server's public key.
    messages : tuple of Assignment, Recall or Conclusion
        In the order in which they are to be taken.
    signature : bytes
        By that key, of all the rest.
    """

    client: str
    key: bytes
    messages: tuple[Sent, ...]
    signature: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteReply:
    """What a site says to a letter.

    Parameters
    ----------
    client : str
        Who says it.
    key : bytes
        The client's public key.
    replies : tuple of Update, Refusal or Receipt
        One for each message that asks for one.
    signature : bytes
        By that key, of all the rest.
    """

    client: str
    key: bytes
    replies: tuple[Reply, ...]
    signature: bytes = b""


LETTER, REPLY = ".letter.json", ".reply.json"
"""How the names of both files end."""

# No letter and no reply is larger.
_MOST_BYTES = 2**26

_DAMAGED = "is damaged, or something else ({}); ask for it once more"

# What a site can mend, or has said already: it is told here, and the server is not.
_STAYS_HERE = (Refused.PENDING, Refused.PAUSED, Refused.BUSY, Refused.PLAYED, Refused.FAILED)


def _letter_file(path: Path) -> KeptFile[Letter]:
    return KeptFile(path, Letter, "letter", _DAMAGED)


def _reply_file(path: Path) -> KeptFile[SiteReply]:
    return KeptFile(path, SiteReply, "reply", _DAMAGED)


def _bytes(said: Letter | SiteReply) -> bytes:
    """Return what is signed."""
    text = json.dumps(encode(replace(said, signature=b"")), sort_keys=True)
    return f"fedbandits post\n{text}".encode()


def _read(file: KeptFile[Any]) -> Any:
    """Return what is in a file, if it is signed with the key that it names."""
    path = file.path
    with file_errors(path, "cannot be read"):
        if not path.exists():
            raise InputError(str(path), "is not there")
        # A link may lead anywhere, for instance to a device that never ends.
        if not path.is_file():
            raise InputError(str(path), "is not a file; name one")
        if path.stat().st_size > _MOST_BYTES:
            raise InputError(str(path), f"has more than {_MOST_BYTES} bytes, and no letter has")
        content = path.read_bytes()
    said = file.value_in(unpacked(content, str(path), most=_MOST_BYTES))
    if not is_signed(said.key, _bytes(said), said.signature):
        raise InputError(str(path), "was changed on its way; ask for it once more")
    check_name(said.client, str(path))
    return said


# At the server ------------------------------------------------------------------------------------


def letters_of(server: Server, clients: Iterable[str], key: SigningKey) -> Iterator[Letter]:
    """Yield a letter for each of these clients to which there is something to say now."""
    missing, told = set(server.missing), server.run_state.recalled
    for client in clients:
        messages: list[Sent] = []
        if server.withdrawn and client not in told:
            messages.append(server.recall)
        if server.finished and server.run_state.last_word is not None:
            messages.append(conclusion_of(server))
        elif client in missing and server.assignment is not None:
            messages.append(server.assignment)
        if messages:
            letter = Letter(client=client, key=key.public, messages=tuple(messages))
            yield replace(letter, signature=key.sign(_bytes(letter)))


def write_letter(folder: Path, letter: Letter) -> Path:
    """Write a letter into a folder; its name says whom it is for, and what about."""
    last = letter.messages[-1]
    about = "end" if isinstance(last, Conclusion) else "recall"
    if isinstance(last, Assignment):
        about = f"phase-{last.phase}"
    path = letter_file(folder, letter.client, f"{about}{LETTER}")
    _letter_file(path).write(letter)
    return path


def read_reply(path: Path, server: Server, offline: Collection[str]) -> SiteReply:
    """Return the reply in a file, if it is of this run, and of the client that it names.

    Parameters
    ----------
    path : path
        Of the file.
    server : Server
        Of the run.
    offline : collection of str
        The clients that get letters: for all others their nodes answer, and no file does.

    Raises
    ------
    InputError
        If it is damaged, of somebody else or of another run.
    """
    reply: SiteReply = _read(_reply_file(path))
    if reply.client not in offline:
        raise InputError(
            str(path), f'is of "{reply.client}", which gets no letters in this run (offline)'
        )
    if not reply.replies:
        raise InputError(str(path), "says nothing; ask for it once more")
    known = server.run_state.keys.get(reply.client)
    if known is None and not server.pins_first_keys:
        raise InputError(str(path), f"{reply.client} has no key in this run")
    if known not in (None, reply.key):
        raise InputError(
            str(path),
            f"is signed with {fingerprint(reply.key)}, which is not the key of {reply.client} in"
            " this run; if it is right: fedbandits rebind --key",
        )
    for said in reply.replies:
        if said.client != reply.client or not _is_same_run(said.header, server.header):
            raise InputError(
                str(path), f'is of run "{said.header.run}", and this is "{server.header.run}"'
            )
        if isinstance(said, Refusal) and said.why in _STAYS_HERE:
            raise InputError(
                str(path), f"says what a site keeps to itself ({said.why.value}); ask for another"
            )
    return reply


def hand_in(folder: Path, reply: SiteReply) -> None:
    """Write a reply into the folder of those that wait for the server: the same one once."""
    name = f"{hashlib.sha256(_bytes(reply)).hexdigest()[:16]}{REPLY}"
    _reply_file(letter_file(folder, reply.client, name)).write(reply)


def _is_same_run(said: Header, now: Header) -> bool:
    """Return whether a header is of this run; a server may have been restarted since."""
    return replace(said, epoch=now.epoch) == now and said.epoch <= now.epoch


def inbox(log: Path) -> Path:
    """Return the folder of replies that wait for the server of a log."""
    return beside(log, ".inbox")


class IdleError(FedbanditsError):
    """Nothing more happens before another reply comes."""


class PostTransport:
    """A `fedbandits.federation.coordinator.Transport` of which some clients get letters.

    What is said to them is in the log, and `letters_of` writes it down; their replies come into a
    folder. They count as connected, because nobody can know better.

    Parameters
    ----------
    server : Server
        Of the run.
    clients : sequence of str
        Clients at sites without a network.
    folder : path
        Where their replies come in.
    network : Transport, optional
        What carries messages to all others; without one, all clients get letters.
    """

    def __init__(
        self,
        server: Server,
        clients: Sequence[str],
        folder: Path,
        network: Transport | None = None,
    ) -> None:
        self._server = server
        self._offline = dict.fromkeys(clients)
        self._folder = folder
        self._network = network
        self._seen: set[Path] = set()

    def connected(self) -> list[str]:
        """Return all that get letters, and the others that can be reached now."""
        online = () if self._network is None else self._network.connected()
        return [*self._offline, *(client for client in online if client not in self._offline)]

    def send(self, message: Sent, clients: Sequence[str]) -> None:
        """Send a message to those who can get it; for the others it waits in the log."""
        if self._network is not None:
            online = [client for client in clients if client not in self._offline]
            self._network.send(message, online)

    def receive(self, timeout: float) -> list[Received]:
        """Return what has come in, by letter or not.

        Raises
        ------
        IdleError
            If nothing has, and there is no network over which anything could.
        """
        found: list[Received] = [*self._new()]
        if self._network is not None:
            found += self._network.receive(0.0 if found else timeout)
        elif not found:
            raise IdleError("the run goes on when another reply is delivered")
        return found

    def flush(self, timeout: float) -> None:
        """Wait until the last word has arrived where there is a network."""
        self._forget()
        if self._network is not None:
            self._network.flush(timeout)

    def _forget(self) -> None:
        """Remove the files that were read before: what they say is in the log by now."""
        for path in self._seen:
            path.unlink(missing_ok=True)
        self._seen = set()

    def _new(self) -> Iterator[Reply]:
        """Yield what is in new files."""
        self._forget()
        self._seen = {path for path in sorted(self._folder.glob(f"*{REPLY}")) if path.is_file()}
        for path in sorted(self._seen):
            try:
                reply = read_reply(path, self._server, self._offline)
            except InputError:  # `deliver` has said so, or another process is writing it
                continue
            self._server.pin({reply.client: reply.key})
            recall, told = self._server.recall, self._server.run_state.recalled
            for said in reply.replies:
                if isinstance(said, Receipt) and (said.arms != recall.arms or said.client in told):
                    continue  # it was taken before, and what was halted then may have changed
                # An update is signed as it is. The others are as good as the whole file.
                header = said.header if isinstance(said, Update) else self._server.header
                yield replace(said, header=header)


def goes_on_alone(run: LoggedRun) -> bool:
    """Return whether a run needs no network: it began with letters, and no node has come since."""
    return run.only_letters and not run.server.run_state.homes


def advance(log: DurableLog, *, decide: bool = False) -> Server:
    """Take what has come in, decide what can be decided, and open the next phase.

    Only for a run without a network: there is no time, so a phase waits for all of its clients.

    Parameters
    ----------
    log : DurableLog
        Of the run.
    decide : bool
        Whether to decide the open phase now, if those who have reported are a quorum.

    Raises
    ------
    InputError
        If it is to be decided and cannot be.
    """
    run = LoggedRun(log)
    server, trial = run.serving(log), run.trial
    if not goes_on_alone(run):
        if decide:
            raise InputError("--decide", "this run has a server on a network, which decides")
        return server
    post = PostTransport(server, trial.offline, inbox(log.path))
    loop = Coordinator(server, post, clock=lambda: 0.0, seed=trial.seed, patience=trial.patience)

    def go_on() -> None:
        with suppress(IdleError):
            loop.run()

    go_on()
    if decide and server.state is ServerState.COLLECTING:
        if not server.has_quorum:
            missing = ", ".join(server.missing)
            raise InputError("--decide", f"too few have reported; missing: {missing}")
        server.close()
        go_on()
    return server


# At the site --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What became of a letter.

    Parameters
    ----------
    news : tuple of str
        In words, one for each message.
    reply : path or None
        The file to send back; None if there is nothing to say.
    done : bool
        Whether nothing is left to do with the letter.
    """

    news: tuple[str, ...]
    reply: Path | None
    done: bool


def play_letter(
    path: Path,
    project: Path,
    trial: Trial,
    pull: PullByName | None,
    *,
    state: Path,
    new: bool = False,
    history: History | None = None,
) -> Played:
    """Do what a letter says, and write the reply beside it.

    Parameters
    ----------
    path : path
        Of the letter.
    project : path
        Its folder `KEYS_FOLDER` has the server's public key. If it has none, the key of the first
        letter is kept there.
    trial : Trial
        What is compared, as this site knows it.
    pull : callable, optional
        The client's own code; None if the outcomes come from live traffic.
    state : path
        Where the client keeps its files.
    new : bool
        Whether the site answers for another client than before.
    history : callable, optional
        The client's own code, too, if the trial's covariate has no fixed coefficient.

    Raises
    ------
    InputError
        If the letter is damaged, of another server or for another site, or ``pull`` fails.
    """
    letter: Letter = _read(_letter_file(path))
    private_folder(state)
    if not new and any(state.glob("*.key")) and not key_file(state, letter.client).exists():
        raise InputError(
            str(path),
            f'is for client "{letter.client}", and {state} is of others; send it where it belongs,'
            " or take --new if this site answers for that client, too",
        )
    news = [*_trusted(letter, path, project)]
    key = client_key(state, letter.client)
    info = ClientInfo(name=letter.client)
    host = ClientHost(info, pull, trial, folder=state, sign=key.sign, history=history)
    replies: list[Reply] = []
    done = True
    for message in letter.messages:
        match message:
            case Recall():
                replies.append(host.recall(message))
                news.append("what is withdrawn is no longer given to anybody")
            case Conclusion():
                host.conclude(message)
                news.append(f"the run is over: {best_in(message) or 'nothing was found'}")
            case Assignment():
                said = host.answer(message)
                if isinstance(said, Refusal) and said.why in _STAYS_HERE:
                    done = False
                    news.append(f"not answered: {said.why.value} ({said.detail})")
                    continue
                replies.append(said)
                played = f"phase {message.phase} is played"
                news.append(said.words if isinstance(said, Refusal) else played)
    return Played(news=tuple(news), reply=_written(path, letter, replies, key), done=done)


def _trusted(letter: Letter, path: Path, project: Path) -> Iterator[str]:
    """Refuse a letter of another server than the one that is known; keep the first one."""
    folder = project / KEYS_FOLDER
    known = read_keys(folder).get(SERVER, set()) if folder.is_dir() else set()
    if known and letter.key not in known:
        raise InputError(
            str(path),
            f"is signed with {fingerprint(letter.key)}, which is not a key of the server in"
            f" {folder}; if the server has a new one, put it there",
        )
    if not known:
        kept = private_folder(folder) / "fedbandits-server.pub"
        if kept.exists():
            raise InputError(
                str(kept), f'is not called a key of the server: let its line end with "{SERVER}"'
            )
        write_whole(kept, f"{public_line(letter.key, SERVER)}\n")
        yield (
            f"this is the first letter: {fingerprint(letter.key)} is the server's key from now on"
            f" ({kept}); ask the server's operator whether it is right"
        )


def _written(path: Path, letter: Letter, replies: Sequence[Reply], key: SigningKey) -> Path | None:
    """Write the reply to a letter beside it; return its file."""
    if not replies:
        return None
    reply = SiteReply(client=letter.client, key=key.public, replies=tuple(replies))
    name = f"{path.name.removesuffix(LETTER).removesuffix('.json')}{REPLY}"
    file = _reply_file(path.with_name(name))
    file.write(replace(reply, signature=key.sign(_bytes(reply))))
    return file.path
