"""Compares the ledger of a client's live traffic with what its audit file says it sent."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fedbandits.errors import InputError
from fedbandits.federation.live_store import mean_of, values_of
from fedbandits.federation.state_files import live_file
from fedbandits.privacy.mechanisms import Mechanism, Noised
from fedbandits.protocol import Entry

# Sums of the same numbers in different orders differ in their last digits.
_LAST_DIGITS = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The result of verifying one update.

    Parameters
    ----------
    run : str
        Run of the update.
    phase : int
        Phase of the update.
    wrong : tuple of str
        What does not agree, in words; empty if all does.
    unknown : str
        Why it could not be verified, in words; empty if it could.
    """

    run: str
    phase: int
    wrong: tuple[str, ...] = ()
    unknown: str = ""


def ledger_of(audit: Path, client: str) -> Path | None:
    """Return the ledger that lies beside a client's audit file, if there is one."""
    path = live_file(audit.parent, client)
    return path if path.exists() else None


def verified(entries: Sequence[Entry], ledger: Path) -> list[Verified]:
    """Compare every update that left a client with the rows of its ledger.

    From the rows of each phase the means are worked out again. They must be what the client kept of
    them before it protected them, and what was sent must be that, rounded or with noise as it says.

    Raises
    ------
    InputError
        If the ledger cannot be read.
    """
    try:
        # A file that another process writes is read as it is; nothing is changed.
        with closing(sqlite3.connect(f"{ledger.absolute().as_uri()}?mode=ro", uri=True)) as file:
            return [_verified(entry, file) for entry in entries]
    except (sqlite3.Error, ValueError, KeyError) as error:
        raise InputError(str(ledger), f"is not a ledger that can be read ({error})") from None


def _verified(entry: Entry, file: sqlite3.Connection) -> Verified:
    update = entry.update
    run, phase = update.header.run, update.phase
    told = partial(Verified, run=run, phase=phase)
    row = file.execute(
        "SELECT first, last, body, forgotten FROM reports WHERE run = ? AND phase = ?", (run, phase)
    ).fetchone()
    if row is None:
        return told(wrong=("the ledger knows nothing of this phase",))
    first, last, body, forgotten = row
    kept = json.loads(body)
    wrong = []
    for arm, n in enumerate(update.counts):
        count, mean = kept["counts"][arm], kept["means"][arm]
        if not n:  # it was withdrawn or halted meanwhile, and nothing of it was sent
            continue
        if n != count:
            wrong.append(f"{kept['arms'][arm]}: {n} units were sent, and {count} were kept")
        elif not _agrees(entry.means[arm], mean, entry.release.mechanism):
            wrong.append(f"{kept['arms'][arm]}: {entry.means[arm]:g} was sent, and {mean:g} kept")
    if forgotten:
        return told(wrong=tuple(wrong), unknown=f"{forgotten} of its units were forgotten")
    sent = [arm for arm, n in enumerate(kept["counts"]) if n]
    for arm, values in values_of(file, (first, last, phase), sent, kept).items():
        count, mean, again = kept["counts"][arm], kept["means"][arm], mean_of(values)
        if len(values) != count:
            wrong.append(f"{kept['arms'][arm]}: {count} units were kept, {len(values)} are there")
        elif abs(again - mean) > _LAST_DIGITS * max(1.0, abs(mean)):
            wrong.append(f"{kept['arms'][arm]}: {mean:g} was kept, and the rows give {again:g}")
    return told(wrong=tuple(wrong))


def _agrees(sent: float, kept: float, mechanism: Mechanism | None) -> bool:
    """Return whether the mean that was sent is the one that was kept, up to its protection."""
    aside = _LAST_DIGITS * max(1.0, abs(kept))
    if isinstance(mechanism, Noised):
        aside += _SCALES_OUT * mechanism.scale
    elif mechanism is not None:
        aside += mechanism.step
    return abs(sent - kept) <= aside


# A difference of more scales than this is not noise.
_SCALES_OUT = 60.0
