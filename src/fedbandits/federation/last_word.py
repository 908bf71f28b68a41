"""What a client keeps of the last word: what to stay on is known without anybody being asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fedbandits.errors import InputError
from fedbandits.federation.state_files import last_word_file, written_whole
from fedbandits.protocol import Conclusion
from fedbandits.protocol.codec import decode, encode

FORMAT = 1


def keep_last_word(path: Path, conclusion: Conclusion, arms: tuple[str, ...]) -> None:
    """Write what a run has found to a file: all of it or nothing."""
    said = {"format": FORMAT, "arms": list(arms), "conclusion": encode(conclusion)}
    written_whole(path, json.dumps(said, indent=1))


def read_last_word(path: Path) -> tuple[Conclusion, tuple[str, ...]] | None:
    """Return what a run has found, with the arms' names; None if nothing was heard of it yet.

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
        arms = tuple(str(arm) for arm in said["arms"])
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            str(path), f"is not the last word of a run ({error}); resume the run to get it again"
        ) from None
    if conclusion.decision.best >= len(arms):
        raise InputError(str(path), "names an option that there is none of")
    return conclusion, arms


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
    found = read_last_word(last_word_file(Path(state), client))
    if found is None:
        return None
    conclusion, arms = found
    return arms[conclusion.decision.best]
