"""A run with the server that plays it: it begins once, and continues from its log after each stop.

The process that serves a run is the only one that writes its log, and the checkpoint beside it.
"""

import logging
import uuid
from dataclasses import replace
from pathlib import Path

from fedbandits.errors import FedbanditsError
from fedbandits.federation.durable_log import DurableLog, has_begun
from fedbandits.federation.followed import LoggedRun
from fedbandits.federation.run import check_same, header_of, run_in_header, signed_header
from fedbandits.federation.signing import keys_of_clients, server_key
from fedbandits.federation.state_files import Closing
from fedbandits.federation.trial import Trial

_LOG = logging.getLogger("flwr.fedbandits")

_RECORDS = 10_000
_SHARE = 0.02


def records_between(length: int) -> int:
    """Return after how many records a log of a length gets another checkpoint.

    What one costs grows with the clients and phases in it, and stays small beside these records.
    """
    return max(_RECORDS, int(_SHARE * length))


class ServedRun(Closing):
    """A run with the server that plays it, and the checkpoint of its log.

    The checkpoint is written now and then, and when the run is closed. Whatever goes wrong with it,
    the run goes on: the next reader reads the records instead.

    Parameters
    ----------
    trial : Trial
        What is compared.
    log : DurableLog
        The log, which this process writes.
    resumes : bool
        Whether the run goes on from its log.
    """

    def __init__(self, trial: Trial, log: DurableLog, *, resumes: bool) -> None:
        if resumes:
            _, begun = run_in_header(log.header, log.path)
            check_same(begun, trial, log.path)
            # How long to wait may change during a run; decisions do not depend on it.
            trial = replace(begun, patience=trial.patience)
        self.trial = trial
        self._log, self._written = log, len(log)
        self._read = LoggedRun(log)  # as its records tell it, apart from the server
        self.server = self._read.serving(log)
        if resumes:
            self.server.take_over(self.server.header.epoch + 1)

    def beat(self) -> None:
        """Read what is new, and write a checkpoint if it is time."""
        self._write(records_between(len(self._log)))

    def close(self) -> None:
        """Write a checkpoint of all records."""
        self._write(0)

    def _write(self, least: int) -> None:
        """Write a checkpoint if at least so many records have come since the last one."""
        try:
            self._read.refresh()
            if len(self._log) - self._written < least:
                return
            self._written = len(self._log)
            self._read.write_checkpoint()
        except (FedbanditsError, TypeError, ValueError) as error:
            _LOG.warning("no checkpoint was written, and the run goes on without: %s", error)


def begin_or_resume(
    trial: Trial,
    path: Path,
    *,
    signed: bool = False,
    keys: Path | None = None,
    only_letters: bool = False,
) -> tuple[DurableLog, ServedRun]:
    """Open the log of a run, or begin one; return the log and the run.

    A server that continues from a log starts a new epoch: messages to the one before it no longer
    count. It checks all of the log, whose end may be damaged, before it writes more.

    Parameters
    ----------
    trial : Trial
        What is compared.
    path : path
        Of the log.
    signed : bool
        Whether updates of a new run must be signed by clients, and decisions are by the server. A
        run that has begun goes on as it began.
    keys : path, optional
        Folder with the public keys of the clients that count in a new run, if it is there. Without
        it, the first key that a client shows is its key.
    only_letters : bool
        Whether a new signed run begins without a network; see `fedbandits.federation.letters`.

    Raises
    ------
    InputError
        If the log is of another trial.
    LogInUseError
        If another server is writing it.
    """
    resumes = has_begun(path)
    header = None
    if not resumes and signed:
        known = {} if keys is None or not keys.exists() else keys_of_clients(keys)
        server = server_key(path, new=True).public
        header = signed_header(trial, server, known, only_letters=only_letters)
    elif not resumes:
        # A unique name: clients answer a phase that they have played before from memory.
        header = header_of(trial, f"{trial.title} {uuid.uuid4().hex[:8]}")
    log = DurableLog(path, header)
    try:
        return log, ServedRun(trial, log, resumes=resumes)
    except BaseException:
        log.close()
        raise
