"""What a client has sent, in a file: its memory after a crash, and its audit."""

import json
import math
import os
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from fedbandits.errors import InputError, file_errors
from fedbandits.federation.state_files import lock_file, open_private, sync_folder
from fedbandits.privacy.accounting import Spending
from fedbandits.privacy.mechanisms import Mechanism, Noised, Rounded
from fedbandits.privacy.packing import unpack
from fedbandits.protocol.messages import Header, Release, Update
from fedbandits.protocol.outbox import Entry
from fedbandits.rules.guardrails import Guardrail

FORMAT = 1


class AuditFile:
    """An outbox in a file: one line of JSON per update, on disk before the update leaves.

    A last line that a crash has cut short was never sent: it is dropped, and what follows is
    written in its place.

    Parameters
    ----------
    path : path
        Of the file; made if it is not there, in a folder that is.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._claimed = False
        content = _content(self.path) if self.path.exists() else b""
        self._entries = _entries(content, self.path)
        self._length = content.rfind(b"\n") + 1

    def claim(self) -> None:
        """Refuse a second client of the same outbox."""
        if self._claimed:
            raise InputError(str(self.path), "is another client's; open it again for each client")
        self._claimed = True

    def append(self, entry: Entry) -> None:
        """Add an entry and wait until it is on disk."""
        entry = replace(entry, at=datetime.now(UTC).isoformat(timespec="seconds"))
        line = _line(entry)
        with file_errors(
            self.path, "cannot be written", "; nothing was sent, because it could not be recorded"
        ):
            is_new = not self._length and not self.path.exists()
            with open_private(self.path, "x+b" if is_new else "r+b") as file:
                lock_file(file)  # until it is closed: looking and writing are one step
                self._check_unchanged(file)
                file.truncate(self._length)
                file.seek(self._length)
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            if is_new:
                sync_folder(self.path.absolute().parent)
        self._length += len(line)
        self._entries.append(entry)

    def _check_unchanged(self, file: BinaryIO) -> None:
        """Refuse to overwrite what somebody else has written, or cut off."""
        end = file.seek(0, os.SEEK_END)
        file.seek(min(end, self._length))
        if end < self._length or b"\n" in file.read():
            raise InputError(
                str(self.path),
                "was changed since this client read it; nothing was sent: let one process at a time"
                " use it, and start again",
            )

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)


def read_audit(path: str | Path) -> list[Entry]:
    """Return the entries of an audit file; refuse another file, or one that was tampered with.

    Raises
    ------
    InputError
        If the file cannot be read; the message names the line.
    """
    return _entries(_content(Path(path)), Path(path))


def _content(path: Path) -> bytes:
    with file_errors(path, "cannot be read"):
        return path.read_bytes()


def _entries(content: bytes, path: Path) -> list[Entry]:
    entries: dict[tuple[str, str, int], Entry] = {}
    # Text after the last end of line was cut short by a crash, and never sent.
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        try:
            entry = _entry(json.loads(line))
            _check_entry(entry)
            first = next(iter(entries.values()), entry)
            if first.update.client != entry.update.client:
                raise InputError("client", f'another client, "{entry.update.client}"')
            release = (entry.update.header.run, entry.update.header.arms, entry.update.phase)
            if release in entries:
                raise InputError("phase", f"phase {entry.update.phase} was released before")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            reason = error.problem if isinstance(error, InputError) else type(error).__name__
            raise InputError(
                f"{path}, line {number}",
                f"is not an entry of an audit file ({reason}); restore the file: nothing else"
                " says what was released and spent",
            ) from None
        entries[release] = entry
    return list(entries.values())


def _check_entry(entry: Entry) -> None:
    """Refuse what no client has written: values that are not numbers, or contradict each other."""
    update, mechanism = entry.update, entry.release.mechanism
    header = update.header
    if not all(isinstance(word, str) for word in (update.client, header.run, header.arms)):
        raise InputError("client", "names are text")
    whole = [header.epoch, header.version, update.phase, entry.clipped]
    whole += [*update.counts, *update.halted, *update.uneven]
    if not all(gain is None or isinstance(gain, float) for gain in (entry.gain, update.gain)):
        raise InputError("gain", "a gain is a number")
    if not all(type(n) is int and n >= 0 for n in whole):
        raise InputError("counts", "counts are whole numbers")
    if len(entry.means) != len(update.counts) or not all(
        isinstance(mean, float) and math.isfinite(mean) for mean in entry.means
    ):
        raise InputError("means", "there is a mean for every arm")
    rows = [len(update.counts)] * len(entry.release.guardrails)
    if [len(row) for row in update.guardrails] != rows or not all(
        isinstance(total, float) and math.isfinite(total) for total in chain(*update.guardrails)
    ):
        raise InputError("guardrails", "there is a sum for every guardrail and arm")
    if mechanism is not None:
        pulled = [mean for mean, n in zip(entry.means, update.counts, strict=True) if n]
        places = unpack(update.packed, mechanism.bits, len(pulled))
        if mechanism.values(np.array(places, dtype=np.int64)).tolist() != pulled:
            raise InputError("means", "they are not what was sent")


def _line(entry: Entry) -> bytes:
    update, mechanism, protection = entry.update, entry.release.mechanism, None
    if mechanism is not None:
        protection = {"mechanism": type(mechanism).__name__.lower(), **asdict(mechanism)}
    said: dict[str, Any] = {
        "format": FORMAT,
        "at": entry.at,
        **asdict(update.header),
        "phase": update.phase,
        "client": update.client,
        "counts": update.counts,
        "means": entry.means,
        "sent_packed": update.packed.hex() if mechanism is not None else None,
        "squares": update.squares,
        "clipped": entry.clipped,
        "clipped_sent": update.clipped,
        "halted": update.halted,
        "uneven": update.uneven,
        "guardrails": [
            {**asdict(rail), "sums": sums}
            for rail, sums in zip(entry.release.guardrails, update.guardrails, strict=True)
        ],
        **({} if entry.gain is None else {"gain": entry.gain, "gain_sent": update.gain}),
        "protection": protection,
        "spent": asdict(entry.spent),
        "spent_in_total": asdict(entry.total),
        "budget": entry.budget,
    }
    return json.dumps(said, ensure_ascii=False).encode() + b"\n"


def _mechanism(said: dict[str, Any] | None) -> Mechanism | None:
    if said is None:
        return None
    kinds: dict[str, type[Mechanism]] = {"rounded": Rounded, "noised": Noised}
    return kinds[said.pop("mechanism")](**said)


def _spending(said: dict[str, Any]) -> Spending:
    return Spending(
        gaussian_rho=said["gaussian_rho"],
        laplaces=tuple((epsilon, times) for epsilon, times in said["laplaces"]),
        or_else=tuple(_spending(branch) for branch in said.get("or_else", ())),
    )


def _entry(said: dict[str, Any]) -> Entry:
    if said["format"] != FORMAT:
        raise InputError("format", f"format {said['format']}, and this version reads {FORMAT}")
    mechanism = _mechanism(said["protection"])
    guarded = [dict(one) for one in said.get("guardrails", ())]
    sums = tuple(tuple(one.pop("sums")) for one in guarded)
    squares = said["squares"]
    update = Update(
        header=Header(**{key: said[key] for key in ("run", "epoch", "arms", "version")}),
        phase=said["phase"],
        client=said["client"],
        counts=tuple(said["counts"]),
        means=tuple(said["means"]) if mechanism is None else (),
        packed=b"" if mechanism is None else bytes.fromhex(said["sent_packed"]),
        squares=None if squares is None else tuple(squares),
        clipped=said["clipped_sent"],
        halted=tuple(said.get("halted", ())),
        uneven=tuple(said.get("uneven", ())),
        guardrails=sums,
        gain=said.get("gain_sent"),
    )
    return Entry(
        update=update,
        release=Release(
            squares=squares is not None,
            mechanism=mechanism,
            guardrails=tuple(Guardrail(**one) for one in guarded),
        ),
        means=tuple(said["means"]),
        clipped=said["clipped"],
        gain=said.get("gain"),
        spent=_spending(said["spent"]),
        total=_spending(said["spent_in_total"]),
        budget=said["budget"],
        at=said["at"],
    )
