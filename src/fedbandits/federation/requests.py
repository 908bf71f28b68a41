"""What people ask of a run in progress: one small file per request, beside the log.

Only the server writes its log. To withdraw an arm or end the run, people leave a request. The
server takes it into the log within a second, and then removes it.
"""

import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from fedbandits.errors import InputError, file_errors, nearest
from fedbandits.federation.coordinator import Stop, Wanted
from fedbandits.federation.kept_file import KeptFile
from fedbandits.federation.state_files import beside, private_folder
from fedbandits.protocol import ArmWithdrawn, ClientsBound, KeyPinned, Server


def leave_request(log: Path, wanted: Wanted) -> None:
    """Leave a request for the server that writes a log."""
    folder = _folder(log)
    with file_errors(folder, "cannot be made", "; the server was not told"):
        private_folder(folder)
    name = f"{time.time_ns():020}-{uuid.uuid4().hex}.json"  # read in the order of their names
    _file(folder / name).write(wanted)


def requests_left(log: Path) -> list[Wanted]:
    """Return the requests that no server has taken yet, the oldest first; nothing is changed."""
    found = []
    for path in sorted(_folder(log).glob("*.json")):
        with suppress(InputError):  # half written, or taken meanwhile
            wanted = _file(path).read()
            if wanted is not None:
                found.append(wanted)
    return found


def request_words(wanted: Wanted, arms: Sequence[str]) -> str:
    """Return what somebody wants of a server, in words after "asked".

    Examples
    --------
    >>> request_words(ArmWithdrawn(arm=1, reason="harm"), ["red", "blue"])
    'to withdraw blue (harm)'
    """
    match wanted:
        case ArmWithdrawn(arm=arm):
            what = f"to withdraw {arms[arm] if 0 <= arm < len(arms) else arm}"
        case Stop():
            what = "to stop the run"
        case ClientsBound(clients=clients):
            what = f"to move {len(clients)} clients to another node"
        case KeyPinned(client=client):
            what = f"to accept another key of {client}"
    return f"{what} ({wanted.reason})"


def stated(reason: str) -> str:
    """Return a reason in one line; refuse an empty one."""
    words = " ".join(reason.split())
    if not words:
        raise InputError("--reason", "is empty; say why, for readers of the log")
    return words


def check_not_over(server: Server) -> None:
    """Refuse to stop a run that is over."""
    if server.finished:
        raise InputError("LOG", "the run is already over")


def number_to_withdraw(server: Server, arm: str) -> int:
    """Return the number of an arm that can be withdrawn; refuse any other."""
    arms = server.arms
    if arm not in arms:
        raise InputError("ARM", f'"{arm}" is not an arm of the run; {nearest(arm, arms)}')
    number = arms.index(arm)
    if number in server.withdrawn:
        raise InputError("ARM", f"{arm} was withdrawn before ({server.withdrawn[number]})")
    if server.finished:
        raise InputError(
            "LOG",
            "the run is over, and its clients are no longer asked; halt the arm at their sites:"
            " fedbandits halt",
        )
    if server.run_state.left[number] and server.left == 1:
        raise InputError("ARM", f"{arm} is the last one left; end the run: fedbandits stop LOG")
    return number


def _file(path: Path) -> KeptFile[Wanted]:
    return KeptFile(path, Wanted, "request", "is no request ({})")


class RequestFolder:
    """The requests that were left for a server; they are removed when it asks for more.

    Parameters
    ----------
    log : path
        Of the run.
    n_arms : int
        A request about another arm is ignored.
    """

    def __init__(self, log: Path, n_arms: int) -> None:
        self._log = log
        self._n_arms = n_arms
        self._seen: set[Path] = set()

    def __call__(self) -> Sequence[Wanted]:
        """Return the new ones. Those that were returned before are done, and are removed."""
        for path in self._seen:
            with suppress(OSError):  # another account's file, which may remove it
                path.unlink(missing_ok=True)
        found = []
        for path in sorted(set(_folder(self._log).glob("*.json")) - self._seen):
            with suppress(InputError):  # half written, or not one of ours; it is read again
                wanted = _file(path).read()
                self._seen.add(path)
                known = not isinstance(wanted, ArmWithdrawn) or 0 <= wanted.arm < self._n_arms
                if wanted is not None and known:
                    found.append(wanted)
        return found


def _folder(log: Path) -> Path:
    return beside(log, ".requests")
