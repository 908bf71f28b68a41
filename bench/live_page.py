"""What the live page of a long run costs its server: 1,000 phases of 1,000 clients.

Prints a table and exits 1 when a bar is missed. Times are the processor's, whatever else the
machine does meanwhile.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

from bars import Row, shown
from fedbandits.federation.durable_log import DurableLog
from fedbandits.federation.followed import LoggedRun
from fedbandits.federation.run import header_of
from fedbandits.federation.served import records_between
from fedbandits.federation.trial import Trial, read_trial
from fedbandits.protocol import Update, UpdateAccepted
from fedbandits.report.page import html_page
from fedbandits.run_page.live import HEADINGS
from fedbandits.run_page.tables import found_clients
from fedbandits.web.shell import parts
from fedbandits.web.watched import WatchedRun
from long_logs import LONG, append_all, bodies, seconds_of
from trials import CLIENTS, UNDECIDED


def one_more(log: DurableLog, run: WatchedRun, trial: Trial) -> None:
    """Let one more client report."""
    if run.live is None or run.live.run.server.assignment is None:
        raise RuntimeError("no phase is open")
    server, assignment = run.live.run.server, run.live.run.server.assignment
    sent = Update(
        header=server.header,
        phase=assignment.phase,
        client=server.missing[0],
        counts=assignment.pulls,
        means=(0.7,) * len(trial.arms),
    )
    log.append(UpdateAccepted(sent))


def watching() -> Iterator[Row]:
    """Measure what viewers of such a run wait for."""
    trial = read_trial(UNDECIDED | {"max_phases": 10**9})
    # The last phase is open, and half of the clients are missing in it.
    n_records = LONG - CLIENTS // 2
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.fedlog"
        told = bodies(trial, n_records)
        with DurableLog(path, header_of(trial, trial.title)) as log:
            append_all(log, islice(told, n_records - records_between(n_records)))
            LoggedRun(log).write_checkpoint()
            append_all(log, told)
        run = WatchedRun(path, path.name)
        first, made = seconds_of(run.refresh)
        if not made or set(made) < set(HEADINGS):
            raise RuntimeError("the page is not complete")
        updates = []
        with DurableLog(path) as log:
            for _ in range(20):
                one_more(log, run, trial)
                begin = time.process_time()
                if not run.refresh():
                    raise RuntimeError("the update was not noticed")
                updates.append(time.process_time() - begin)
        if run.live is None:
            raise RuntimeError("the run was not read")
        status = run.live.status
        searched, (table, _) = seconds_of(partial(found_clients, status, "client-9"))
        page = html_page(title="", byline="", sections=[(name, made[name]) for name in HEADINGS])
    detail = f"{CLIENTS:,} clients, {LONG:,} records, from a checkpoint"
    yield Row("(a) first complete page", first, 2.0, False, " s", detail)
    detail = "median of 20 reports, all viewers together"
    yield Row("(b) an update", 1e3 * statistics.median(updates), 200.0, False, " ms", detail)
    yield Row("(c) a search for clients", 1e3 * searched, 200.0, False, " ms", "by a part of names")
    ours = sum(len(parts()[name].content) for name in ("live.css", "live.js"))
    weight = (len(page.encode()) + len(table.encode()) + ours) / 1_000
    yield Row("(d) weight of the page", weight, 600.0, False, " kB", "with styles and scripts")


if __name__ == "__main__":
    sys.exit(shown("live page", watching()))
