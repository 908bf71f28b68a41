"""Logs of a million records, written without playing a million rounds, and what reading them costs.

A phase is played once; the others repeat it under their own numbers. The log is what a server that
waits for the disk after every record would have written, checksums included.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from bars import Row
from fedbandits.federation.durable_log import DurableLog
from fedbandits.federation.followed import LoggedRun
from fedbandits.federation.local import server_of
from fedbandits.federation.run import header_of
from fedbandits.federation.served import begin_or_resume, records_between
from fedbandits.federation.trial import Trial, read_trial
from fedbandits.protocol import PhaseClosed, PhaseOpened, Record, Update, UpdateAccepted
from fedbandits.protocol.codec import encode
from trials import CLIENTS, UNDECIDED

T = TypeVar("T")

LONG, SHORT = 10**6, 10**3
_AT = "2026-01-01T00:00:00.000+00:00"


def a_phase(trial: Trial) -> list[Record]:
    """Return the records of a first phase with all clients, which decides nothing."""
    server = server_of(trial)
    assignment = server.open([f"client-{number}" for number in range(CLIENTS)])
    for number, client in enumerate(server.clients):
        means = tuple(0.7 + 0.01 * arm + 1e-5 * number for arm in range(len(trial.arms)))
        sent = Update(
            header=server.header, phase=1, client=client, counts=assignment.pulls, means=means
        )
        if server.receive(sent) is not None:
            raise RuntimeError("an update was rejected")
    server.close()
    return list(server.log)


def bodies(trial: Trial, n_records: int) -> Iterator[str]:
    """Yield so many records as the log has them."""
    opened, *updates, closed = a_phase(trial)
    if not isinstance(opened, PhaseOpened) or not isinstance(closed, PhaseClosed):
        raise TypeError("a phase is opened, played and closed")
    marks = [json.dumps(encode(update)).split('"phase": 1,') for update in updates]
    phase, written = 0, 0
    while written < n_records:
        phase += 1
        assignment = replace(opened.assignment, phase=phase)
        admitted = opened.admitted if phase == 1 else ()
        decision = replace(closed.decision, phase=phase)
        told = [
            json.dumps(encode(replace(opened, assignment=assignment, admitted=admitted))),
            *(f'{before}"phase": {phase},{after}' for before, after in marks),
            json.dumps(encode(PhaseClosed(decision))),
        ]
        # The last record is an update: one more may follow.
        yield from told[: min(len(told), n_records - written)]
        written += len(told)


def append_all(log: DurableLog, told: Iterable[str]) -> None:
    """Write records to a log without waiting for the disk after each."""
    rows = []
    for body in told:
        log._number += 1
        text = f"{log._checksum}\n{_AT} {body}"
        log._checksum = hashlib.sha256(text.encode()).hexdigest()
        rows.append((log._number, _AT, body, log._checksum))
        if len(rows) == 10_000:
            _insert(log, rows)
            rows = []
    _insert(log, rows)


def _insert(log: DurableLog, rows: list[tuple[int, str, str, str]]) -> None:
    with log._database as database:
        database.executemany("INSERT INTO records VALUES (?, ?, ?, ?)", rows)


class Costs(NamedTuple):
    """Seconds that reading a log takes: to open it, also from a checkpoint, and to refresh it."""

    opened: float
    written: float
    reopened: float
    resumed: float
    refreshed: float


def seconds_of(action: Callable[[], T]) -> tuple[float, T]:
    """Return the seconds that an action takes the processor, and what it returns."""
    begin = time.process_time()
    found = action()
    return time.process_time() - begin, found


def costs_of_reading(n_records: int) -> Costs:
    """Measure opening a log without a checkpoint and with one, and refreshing its status.

    The checkpoint is as old as a server ever leaves it.
    """
    trial = read_trial(UNDECIDED | {"max_phases": 10**9})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.fedlog"
        told = bodies(trial, n_records)
        with DurableLog(path, header_of(trial, trial.title)) as log:
            append_all(log, islice(told, max(1, n_records - records_between(n_records))))
            opened, run = seconds_of(partial(LoggedRun, path))
            written, _ = seconds_of(run.write_checkpoint)
            append_all(log, told)
        reopened, run = seconds_of(partial(LoggedRun, path))
        refreshed = []
        with DurableLog(path) as log:
            phase = run.server.phase
            for client in run.server.missing[:20]:
                assignment = run.server.assignment
                if assignment is None:
                    raise RuntimeError("no phase is open")
                log.append(
                    UpdateAccepted(
                        Update(
                            header=run.server.header,
                            phase=phase,
                            client=client,
                            counts=assignment.pulls,
                            means=(0.7,) * len(trial.arms),
                        )
                    )
                )
                begin = time.process_time()
                run.refresh()
                run.status()
                refreshed.append(time.process_time() - begin)
        resumed, (log, _) = seconds_of(partial(begin_or_resume, trial, path))
        log.close()
    return Costs(opened, written, reopened, resumed, statistics.median(refreshed))


def reading() -> Iterator[Row]:
    """Measure what a person waits for who looks at a run of a million records."""
    # One record less than whole phases: clients are missing in the last one.
    short = costs_of_reading(SHORT - CLIENTS // 2).refreshed
    long = costs_of_reading(LONG - CLIENTS // 2)
    detail = f"{CLIENTS:,} clients, no checkpoint"
    yield Row("(h) open a log of 10⁶ records", long.opened, 60.0, False, " s", detail)
    detail = f"and {records_between(LONG):,} later records"
    yield Row("(i) open it from a checkpoint", long.reopened, 2.0, False, " s", detail)
    detail = "the whole chain is checked"
    yield Row("(j) resume it from a checkpoint", long.resumed, 10.0, False, " s", detail)
    share = 1e6 * long.written / records_between(LONG)
    detail = f"{1e3 * long.written:.0f} ms for each checkpoint"
    yield Row("(k) checkpoints, a record", share, 20.0, False, " µs", detail)
    yield Row("(l) refresh after one more", 1e3 * long.refreshed, 50.0, False, " ms", "with status")
    detail = f"{1e3 * short:.1f} ms with {SHORT:,} records"
    yield Row("(m) likewise, against 10³", long.refreshed / short, 2.0, False, " ×", detail)
