"""What people ask of a run that goes on: one small file each, beside the log.

Only the server writes its log. Who wants an arm out while it runs leaves a note; the server takes
it into the log at its next step, and removes it then.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from fedbandits.federation.coordinator import Withdrawal
from fedbandits.federation.state_files import written_whole
from fedbandits.protocol.codec import decode, encode


def request_withdrawal(log: Path, wanted: Withdrawal) -> None:
    """Leave a note for the server that writes a log."""
    folder = _folder(log)
    folder.mkdir(exist_ok=True)
    written_whole(folder / f"{uuid.uuid4().hex}.json", json.dumps(encode(wanted)))


class RequestFolder:
    """The notes that were left for a server; they are gone once it has come back for more.

    Parameters
    ----------
    log : path
        Of the run.
    n_arms : int
        A note about another arm is no note.
    """

    def __init__(self, log: Path, n_arms: int) -> None:
        self._log = log
        self._n_arms = n_arms
        self._seen: set[Path] = set()

    def __call__(self) -> Sequence[Withdrawal]:
        """Return the new ones. Those that were returned before are done by now, and removed."""
        for path in self._seen:
            with suppress(OSError):  # somebody else's, who may remove it
                path.unlink(missing_ok=True)
        return list(self._fresh())

    def _fresh(self) -> Iterator[Withdrawal]:
        folder = _folder(self._log)
        for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
            if path in self._seen:
                continue
            try:
                wanted: Withdrawal = decode(Withdrawal, json.loads(path.read_bytes()), "request")
            except OSError:  # not now; it is looked at again
                continue
            except ValueError:  # not one of ours
                self._seen.add(path)
                continue
            self._seen.add(path)
            if 0 <= wanted.arm < self._n_arms:
                yield wanted


def _folder(log: Path) -> Path:
    return log.with_name(f"{log.name}.requests")
