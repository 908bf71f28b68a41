"""What people ask of a run in progress: one small file per request, beside the log.

Only the server writes its log. To withdraw an arm or end the run, people leave a request. The
server takes it into the log within a second, and then removes it.
"""

import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from fedbandits.errors import InputError, file_errors
from fedbandits.federation.coordinator import Wanted
from fedbandits.federation.kept_file import KeptFile
from fedbandits.federation.state_files import beside, private_folder
from fedbandits.protocol import ArmWithdrawn


def leave_request(log: Path, wanted: Wanted) -> None:
    """Leave a request for the server that writes a log."""
    folder = _folder(log)
    with file_errors(folder, "cannot be made", "; the server was not told"):
        private_folder(folder)
    name = f"{time.time_ns():020}-{uuid.uuid4().hex}.json"  # read in the order of their names
    _file(folder / name).write(wanted)


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
