"""Verifies what others have written: a client's audit file by its ledger, a log by signatures.

Whoever verifies a log needs neither data nor trust in its server: only the log, and public keys
that came from their owners.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fedbandits.errors import FedbanditsError, InputError
from fedbandits.federation.durable_log import LogReader, OnRead, head_bytes
from fedbandits.federation.live_store import guarded_of, mean_of, values_of
from fedbandits.federation.local import server_of
from fedbandits.federation.run import keys_in_header, run_in_header, signed_name
from fedbandits.federation.signing import (
    SERVER,
    fingerprint,
    is_signed,
    owner_of,
    read_keys,
    require_signing,
)
from fedbandits.federation.state_files import live_file
from fedbandits.federation.status import counted
from fedbandits.privacy.mechanisms import Mechanism, Noised
from fedbandits.protocol import (
    Entry,
    HeadSigned,
    KeyPinned,
    PhaseClosed,
    Record,
    RunEnded,
    RunState,
    UpdateAccepted,
    answer_of,
    conclusion_of,
)
from fedbandits.protocol.consistency import contradiction, worked_out

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
    if update.guardrails:
        wrong += _guarded_apart(update.guardrails, kept["guardrails"], update.counts, "was sent")
    if forgotten:
        return told(wrong=tuple(wrong), unknown=f"{forgotten} of its units were forgotten")
    sent = [arm for arm, n in enumerate(kept["counts"]) if n]
    for arm, values in values_of(file, (first, last, phase), sent, kept).items():
        count, mean, found = kept["counts"][arm], kept["means"][arm], mean_of(values)
        if len(values) != count:
            wrong.append(f"{kept['arms'][arm]}: {count} units were kept, {len(values)} are there")
        elif abs(found - mean) > _LAST_DIGITS * max(1.0, abs(mean)):
            wrong.append(f"{kept['arms'][arm]}: {mean:g} was kept, and the rows give {found:g}")
    if update.guardrails:
        again = guarded_of(file, (first, last, phase), sent, kept)
        wrong += _guarded_apart(again, kept["guardrails"], kept["counts"], "is in the rows")
    return told(wrong=tuple(wrong))


def _guarded_apart(
    found: Sequence[Sequence[float]],
    kept: Sequence[Sequence[float]],
    counts: Sequence[int],
    where: str,
) -> Iterator[str]:
    """Yield which sums of guardrails are not those that were kept."""
    for place, (row, own) in enumerate(zip(found, kept, strict=True), 1):
        for arm, (total, said) in enumerate(zip(row, own, strict=True), 1):
            if counts[arm - 1] and abs(total - said) > _LAST_DIGITS * max(1.0, abs(said)):
                yield f"guardrail {place} of option {arm}: {total:g} {where}, and {said:g} was kept"


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


class UnverifiedError(FedbanditsError):
    """A log is not what was signed, or not signed at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedLog:
    """What a log says whose every signature is good.

    Parameters
    ----------
    run : str
        Name of the run.
    head : str
        Fingerprint of the log at its last word, as status and report print it.
    records, updates, clients, decisions : int
        How many records there are, updates that count, clients that have signed them, and
        signatures of the server.
    answer : str
        What was found, in words.
    """

    run: str
    head: str
    records: int
    updates: int
    clients: int
    decisions: int
    answer: str

    def words(self) -> str:
        """Return it for a terminal."""
        updates = f"{counted(self.updates, 'update')} of {counted(self.clients, 'client')}"
        return "\n".join(
            [
                f"{self.run}: verified",
                f"{counted(self.records, 'record')}, every one as it was written",
                f"{updates}, every one signed with the client's key",
                f"signed {counted(self.decisions, 'time')} with the server's key, at every decision"
                " and at the end",
                "every assignment and decision worked out again, with the same result",
                f"fingerprint: {self.head}",
                "",
                self.answer,
            ]
        )


def verify_log(path: Path, folder: Path, progress: OnRead | None = None) -> VerifiedLog:
    """Replay a log from its first record, and check every signature in it.

    Nothing is tolerated that an ordinary reader tolerates: every record must be there as it was
    written, up to the last word.

    Parameters
    ----------
    path : path
        Of the log.
    folder : path
        With the public keys of server and clients, in files ``*.pub``.
    progress : callable, optional
        Told how much of a long log was read.

    Raises
    ------
    UnverifiedError, DamagedLogError
        With the first record that is not what it should be.
    InputError
        If there is no such log or folder, or a key is missing.
    """
    require_signing("signatures are to be checked")
    reader, keys = LogReader(path), read_keys(folder)
    signed = keys_in_header(reader.header, path)
    if signed is None:
        raise UnverifiedError(
            f"{path}: the log is unsigned: whoever can write the file can have made it up"
        )
    name, trial = run_in_header(reader.header, path)
    if signed_name(reader.header) != name:
        raise UnverifiedError(f"{path}: the header is not the one that the run is named after")
    given = _given(keys, SERVER, folder)
    if signed[0] not in given:
        raise UnverifiedError(
            f"{path}: the header names {fingerprint(signed[0])} as the server's key, which is not"
            f" in {folder}"
        )
    server = server_of(trial, run=name)
    signatures = _Signatures(reader.header, signed, keys, folder)
    for record, at, checksum in reader.every(progress):
        problem = signatures.problem(server.run_state, record, at, checksum)
        if problem is not None:
            raise UnverifiedError(f"{path}: record {reader.number} is not good: {problem}")
        server.follow(worked_out(server.run_state, record))
    records = counted(reader.number, "record")
    if server.run_state.last_word is None:
        raise UnverifiedError(
            f"{path}: {records} are good, and the last word of the run is not among them: it goes"
            " on, or the log was cut"
        )
    if signatures.due:
        raise UnverifiedError(f"{path}: record {reader.number} is not good: it is not signed")
    if server.run_state.behind is not None:
        answer = answer_of(server).words()
    else:
        answer = "no phase was decided" if server.left else conclusion_of(server).words
    return VerifiedLog(
        run=name,
        head=server.run_state.head,
        records=reader.number,
        updates=sum(signatures.updates.values()),
        clients=len(signatures.updates),
        decisions=signatures.heads,
        answer=answer,
    )


def _given(keys: Mapping[str, set[bytes]], owner: str, folder: Path) -> set[bytes]:
    """Return the keys that somebody has given; without any, nothing can be said."""
    if owner not in keys:
        raise InputError(
            str(folder),
            f'has no key of "{owner}": no file *.pub whose line ends with that; get it from its'
            " owner, and not from the log",
        )
    return keys[owner]


class _Signatures:
    """The signatures of a log as far as it was read.

    Parameters
    ----------
    header : dict
        What the log says of its run.
    signed : (bytes, mapping from str to bytes)
        The server's public key, and those of clients that were known beforehand.
    keys : mapping from str to set of bytes
        The public keys that are given, by whose they are.
    folder : path
        Where they are.
    """

    def __init__(
        self,
        header: dict[str, Any],
        signed: tuple[bytes, Mapping[str, bytes]],
        keys: Mapping[str, set[bytes]],
        folder: Path,
    ) -> None:
        self._header, self._keys, self._folder = header, keys, folder
        self._server, self._beforehand = signed
        self._before = ""
        self.updates: Counter[str] = Counter()
        self.heads = 0
        self.due = False
        """Whether a signature of the server must come next."""

    def problem(self, state: RunState, record: Record, at: str, checksum: str) -> str | None:
        """Return what is wrong with the next record; None if all is right."""
        before, due, self._before = self._before, self.due, checksum
        if due != isinstance(record, HeadSigned):
            return "the one before it is not signed" if due else "nothing is to be signed here"
        over = state.last_word is not None
        self.due = isinstance(record, PhaseClosed | RunEnded) or (over and not due)
        match record:
            case HeadSigned():
                self.heads += 1
                said = head_bytes(self._header, before, at)
                same = (record.checksum, record.at) == (before, at)
                if not same or not is_signed(self._server, said, record.signature):
                    return "it is not signed with the server's key"
            case KeyPinned(client=client, key=key, reason=reason):
                if self._beforehand and not reason and self._beforehand.get(client) != key:
                    return f"{fingerprint(key)} is not the key of {client} in the header"
                if key not in self._keys.get(owner_of(client), {key}):
                    return f"{fingerprint(key)} is not among the given keys of {client}"
            case UpdateAccepted(update=update):
                _given(self._keys, owner_of(update.client), self._folder)
                self.updates[update.client] += 1
        return contradiction(state, record, is_signed)
