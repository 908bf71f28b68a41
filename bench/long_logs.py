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
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bars import Row
from fedbandits.federation.durable_log import DurableLog
from fedbandits.federation.followed import LoggedRun
from fedbandits.federation.local import server_of
from fedbandits.federation.run import header_of
from fedbandits.federation.trial import Trial, read_trial
from fedbandits.protocol import PhaseClosed, PhaseOpened, Record, Update, UpdateAccepted
from fedbandits.protocol.codec import encode
from trials import CLIENTS, UNDECIDED

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


def written_log(path: Path, trial: Trial, n_records: int) -> None:
    """Write a log of so many records."""
    log = DurableLog(path, header_of(trial, trial.title))
    try:
        database, before, rows = log._database, "", []
        for number, body in enumerate(bodies(trial, n_records), start=1):
            before = hashlib.sha256(f"{before}\n{_AT} {body}".encode()).hexdigest()
            rows.append((number, _AT, body, before))
            if len(rows) == 10_000:
                with database:
                    database.executemany("INSERT INTO records VALUES (?, ?, ?, ?)", rows)
                rows = []
        with database:
            database.executemany("INSERT INTO records VALUES (?, ?, ?, ?)", rows)
    finally:
        log.close()


def costs_of_reading(n_records: int) -> tuple[float, float]:
    """Return seconds to open a log, and to refresh its status after one more record."""
    trial = read_trial(UNDECIDED | {"max_phases": 10**9})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.fedlog"
        written_log(path, trial, n_records)
        begin = time.process_time()
        run = LoggedRun(path)
        opened = time.process_time() - begin
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
    return opened, statistics.median(refreshed)


def reading() -> Iterator[Row]:
    """Measure what a person waits for who looks at a run of a million records."""
    # One record less than whole phases: clients are missing in the last one.
    _, short = costs_of_reading(SHORT - CLIENTS // 2)
    opened, long = costs_of_reading(LONG - CLIENTS // 2)
    yield Row("(h) open a log of 10⁶ records", opened, 40.0, False, " s", f"{CLIENTS:,} clients")
    yield Row("(i) refresh after one more", 1e3 * long, 50.0, False, " ms", "with the status")
    detail = f"{1e3 * short:.1f} ms with {SHORT:,} records"
    yield Row("(j) likewise, against 10³", long / short, 2.0, False, " ×", detail)
