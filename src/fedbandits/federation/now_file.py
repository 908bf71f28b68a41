"""Where a run is at this moment, in a small file, for who watches it live.

It is for the eye only: the truth is in the log.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fedbandits.errors import FedbanditsError, InputError
from fedbandits.federation.coordinator import Bulletin
from fedbandits.federation.state_files import written_whole
from fedbandits.protocol import Server, answer_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """What can be seen of a run that goes on.

    Parameters
    ----------
    bulletin : dict
        The fields of `Bulletin`.
    arms : list of dict
        Name, whether it is left, estimate, low and high of each, once a phase is closed.
    over : bool
        Whether the server has ended.
    error : str or None
        Why the server could not go on, if it could not.
    where : str or None
        Where the user's mistake is, if it was one.
    """

    bulletin: dict[str, Any]
    arms: list[dict[str, Any]]
    over: bool
    error: str | None = None
    where: str | None = None


class NowFile:
    """The file, for the server that writes it.

    Parameters
    ----------
    path : path, optional
        Of the file; without one nobody watches.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._arms: tuple[object, list[dict[str, Any]]] = (None, [])
        self._last = Now(bulletin={}, arms=[], over=False)

    def write(self, bulletin: Bulletin, server: Server) -> None:
        """Say where a run is."""
        arms = self._arms_of(server)
        self._write(Now(bulletin=asdict(bulletin), arms=arms, over=False))

    def ended(self, error: BaseException | None = None) -> None:
        """Say that the server has ended, and why if it had to."""
        why, where = None if error is None else f"{type(error).__name__}: {error}", None
        if isinstance(error, InputError):
            why, where = error.problem, error.where
        elif isinstance(error, FedbanditsError):
            why = str(error)
        self._write(replace(self._last, over=True, error=why, where=where))

    def _arms_of(self, server: Server) -> list[dict[str, Any]]:
        decision = server.decision
        if decision is None:
            return []
        if self._arms[0] is not decision:  # there is nothing new between two decisions
            answer = answer_of(server)
            arms = [
                {
                    "name": arm,
                    "left": arm in answer.survivors,
                    "estimate": answer.estimates[arm],
                    "low": low,
                    "high": high,
                }
                for arm, (low, high) in answer.intervals.items()
            ]
            self._arms = (decision, arms)
        return self._arms[1]

    def _write(self, now: Now) -> None:
        self._last = now
        if self.path is not None:
            with suppress(InputError):  # it is for the eye: the run goes on without it
                written_whole(self.path, json.dumps(asdict(now)), durable=False)


def read_now(path: Path) -> Now | None:
    """Return where a run is; None if nothing is known."""
    try:
        return Now(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
