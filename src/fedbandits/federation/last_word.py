"""The last word of a run, kept by the client: it knows what to stay on without a server."""

from __future__ import annotations

from pathlib import Path

from fedbandits.errors import InputError
from fedbandits.federation.audit_file import read_audit
from fedbandits.federation.halts import refuse_halted
from fedbandits.federation.kept_file import KeptFile
from fedbandits.federation.state_files import audit_file, last_word_file
from fedbandits.protocol import Conclusion


def keep_last_word(state: Path, client: str, conclusion: Conclusion) -> None:
    """Write what a run has found to a client's file, whole or not at all.

    The last word of an older run does not replace that of the newest run that was played.
    """
    path, run = last_word_file(state, client), conclusion.header.run
    kept = read_last_word(path)
    sent = audit_file(state, client)
    played = read_audit(sent) if sent.exists() else []
    newest = played[-1].update.header.run if played else run
    if kept is not None and kept.header.run == newest != run:
        return
    _file(path).write(conclusion)


def _file(path: Path) -> KeptFile[Conclusion]:
    problem = "is not the last word of a run ({}); resume the run to get it again"
    return KeptFile(path, Conclusion, "conclusion", problem)


def read_last_word(path: Path) -> Conclusion | None:
    """Return what a run has found; None if it is not known yet.

    Raises
    ------
    InputError
        If the file is something else.
    """
    conclusion = _file(path).read()
    if conclusion is not None and not 0 <= conclusion.decision.best < len(conclusion.arms):
        raise InputError(str(path), "names an option that there is none of")
    return conclusion


def best_in(conclusion: Conclusion) -> str | None:
    """Return the option to stay on; None if nothing is known of any."""
    decision = conclusion.decision
    return conclusion.arms[decision.best] if decision.known else None


def best_arm(state: str | Path, client: str) -> str | None:
    """Return the option that a client should stay on; None while the run goes on.

    It is read from the client's own files: no server is needed.

    Raises
    ------
    HaltedError
        If it is halted there.

    Parameters
    ----------
    state : path
        The folder of the client's files.
    client : str
        Its name.

    Examples
    --------
    >>> import tempfile
    >>> best_arm(tempfile.mkdtemp(), "clinic-1") is None
    True
    """
    conclusion = read_last_word(last_word_file(Path(state), client))
    best = None if conclusion is None else best_in(conclusion)
    if conclusion is not None and best is not None:
        refuse_halted(Path(state), client, best, conclusion.arms)
    return best
