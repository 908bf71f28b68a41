"""A switch at the site: its operator halts an option, or a whole client, without any server.

It is one small file in the folder of the clients' files. Every call of `assign` reads it, and so
does a client before every call of ``pull``. A halt lasts until it is lifted, whatever a server
says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from fedbandits.errors import InputError
from fedbandits.federation.kept_file import KeptFile
from fedbandits.federation.state_files import alone_with, halts_file
from fedbandits.federation.status import printable
from fedbandits.protocol import Halt

LONGEST_DETAIL = 300
"""The most characters of a client's own words that a server keeps."""


class HaltedError(InputError):
    """Nothing of a trial may be given here: give what you would give without the trial."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteHalt:
    """One thing that is halted.

    Parameters
    ----------
    client : str or None
        Where; at all clients of the folder if it is None.
    arm : str or None
        Which option; all of them if it is None.
    reason : str
        Why, in the operator's words. The server is told it.
    at : str
        When.
    """

    client: str | None
    arm: str | None
    reason: str
    at: str

    @property
    def words(self) -> str:
        """It in words."""
        what = "everything" if self.arm is None else self.arm
        where = "all clients here" if self.client is None else self.client
        return f"{what} is halted at {where} since {self.at}: {self.reason}"


def read_halts(folder: Path) -> tuple[SiteHalt, ...]:
    """Return what is halted in a folder of clients' files.

    Raises
    ------
    InputError
        If the file cannot be read; until it can, nothing is given to anybody.
    """
    return _file(folder).read() or ()


def _file(folder: Path) -> KeptFile[tuple[SiteHalt, ...]]:
    return KeptFile(
        halts_file(folder),
        tuple[SiteHalt, ...],
        "halts",
        "does not say what is halted ({}); nothing is given before it does: lift all halts"
        " (fedbandits halt FOLDER --lift) and set them again",
    )


def halt_of(folder: Path, client: str, arms: Sequence[str]) -> Halt | None:
    """Return what is halted at a client, or None.

    If a halted option is not one that the client knows, it could be any: all are halted.
    """
    found = [halt for halt in read_halts(folder) if halt.client in (None, client)]
    if not found:
        return None
    known = all(halt.arm in arms for halt in found)
    out = tuple(k for k, arm in enumerate(arms) if any(halt.arm == arm for halt in found))
    reasons = "; ".join(dict.fromkeys(halt.reason for halt in found))
    return Halt(arms=out if known else tuple(range(len(arms))), reason=reasons)


def as_told(halt: Halt) -> Halt:
    """Return a halt with its reason cut to what a server keeps of it."""
    return replace(halt, reason=printable(halt.reason[:LONGEST_DETAIL]))


def refuse_halted(folder: Path, client: str, arm: str, arms: Sequence[str]) -> None:
    """Refuse an option that is halted at a client.

    Raises
    ------
    HaltedError
        If it is.
    """
    halt = halt_of(folder, client, arms)
    if halt is not None and arms.index(arm) in halt.arms:
        raise HaltedError(
            arm, f"is halted here ({halt.reason}); give what you give without the trial"
        )


def set_halt(
    folder: Path, *, client: str | None = None, arm: str | None = None, reason: str
) -> SiteHalt:
    """Halt an option or everything, at a client or all of a folder; return what was written."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    new = SiteHalt(client=client, arm=arm, reason=reason, at=at)
    with alone_with(halts_file(folder)):
        others = [halt for halt in read_halts(folder) if (halt.client, halt.arm) != (client, arm)]
        try:
            _file(folder).write((*others, new))
        except InputError as error:  # for instance on a full disk
            words = "nothing more is halted: stop the service and the node, or make it writable"
            raise InputError(error.where, f"{error.problem}; {words}") from None
    return new


def lift_halts(
    folder: Path, *, client: str | None = None, arm: str | None = None
) -> list[SiteHalt]:
    """Lift the halt of an option or of a client, or all if neither is named; return the lifted."""
    everything = client is None and arm is None
    with alone_with(halts_file(folder)):
        try:
            halts = read_halts(folder)
        except InputError:
            if not everything:
                raise
            halts = ()
        gone = [halt for halt in halts if everything or (halt.client, halt.arm) == (client, arm)]
        _file(folder).write(tuple(halt for halt in halts if halt not in gone))
    return gone
