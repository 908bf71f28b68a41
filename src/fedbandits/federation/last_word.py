"""What a client keeps of the last word: what to stay on is known without anybody being asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fedbandits.errors import InputError
from fedbandits.federation.audit_file import read_audit
from fedbandits.federation.state_files import audit_file, last_word_file, written_whole
from fedbandits.protocol import Conclusion
from fedbandits.protocol.codec import decode, encode

FORMAT = 1


def keep_last_word(state: Path, client: str, conclusion: Conclusion) -> None:
    """Write what a run has found to a client's file: all of it or nothing.

    A run that the client has played is not forgotten for one that it has played before.
    """
    path, run = last_word_file(state, client), conclusion.header.run
    kept = read_last_word(path)
    sent = audit_file(state, client)
    played = read_audit(sent) if sent.exists() else []
    newest = played[-1].update.header.run if played else run
    if kept is not None and kept.header.run == newest != run:
        return
    said = {"format": FORMAT, "conclusion": encode(conclusion)}
    written_whole(path, json.dumps(said, indent=1))


def read_last_word(path: Path) -> Conclusion | None:
    """Return what a run has found; None if nothing was heard of it yet.

    Raises
    ------
    InputError
        If the file is something else.
    """
    try:
        said: Any = json.loads(path.read_text(encoding="utf-8"))
        if said["format"] != FORMAT:
            raise InputError("format", f"{said['format']}, and this version reads {FORMAT}")
        conclusion: Conclusion = decode(Conclusion, said["conclusion"], "conclusion")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            str(path), f"is not the last word of a run ({error}); resume the run to get it again"
        ) from None
    if not 0 <= conclusion.decision.best < len(conclusion.arms):
        raise InputError(str(path), "names an option that there is none of")
    return conclusion


def best_in(conclusion: Conclusion) -> str | None:
    """Return the option to stay on; None if nothing is known of any."""
    decision = conclusion.decision
    return conclusion.arms[decision.best] if decision.known else None


def best_arm(state: str | Path, client: str) -> str | None:
    """Return the option that a client is to stay on; None while the run goes on.

    It is read from the client's own files: no server is needed.

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
    return None if conclusion is None else best_in(conclusion)
