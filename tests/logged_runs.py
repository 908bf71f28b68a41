"""Runs with a log in a file: played, cut, begun."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedbandits.federation.durable_log import DurableLog, read_log
from fedbandits.federation.followed import FollowedRun
from fedbandits.federation.host import ClientInfo, PullByName
from fedbandits.federation.local import try_trial
from fedbandits.federation.run import begin_or_resume, header_of
from fedbandits.federation.trial import Trial, read_trial
from fedbandits.protocol import (
    MemoryLog,
    PhaseClosed,
    Rejection,
    Server,
    Update,
)

RATES = {"red": 0.3, "green": 0.6, "blue": 0.75}
TABLES: dict[str, Any] = {
    "title": "colours",
    "arms": list(RATES),
    "pulls": "40",
    "admissions": "2^p",
    "radius": {"rule": "certified", "delta": 0.05},
    "assume": {"noise": 0.5, "spread": 0.05},
}
# Text that would do something if it were not escaped.
NASTY = "<script>alert(1)</script><img src=x onerror=alert(2)>\x1b[2J</b>"


def coins() -> PullByName:
    """Return a pull whose outcomes depend on client, arm and how often it was pulled before."""
    streams: dict[tuple[int, str], np.random.Generator] = {}

    def pull(arm: str, n: int, client: ClientInfo) -> list[float]:
        key = [client.number, list(RATES).index(arm)]
        rng = streams.setdefault((client.number, arm), np.random.default_rng(key))
        return [float(u < RATES[arm]) for u in rng.random(n)]

    return pull


def played(path: Path, changes: dict[str, Any] | None = None, clients: int = 40) -> Path:
    """Play a trial to its end, with a log in a file."""
    trial = read_trial(TABLES | (changes or {}))
    with DurableLog(path, header_of(trial, trial.title)) as log:
        try_trial(trial, coins(), clients, log=log)
    return path


def cut(path: Path, to: Path, n_records: int) -> Path:
    """Write the beginning of a log into another file: the run as it was then."""
    content = read_log(path)
    with DurableLog(to, content.header) as log:
        for record in content.records[:n_records]:
            log.append(record)
    return to


def begun(path: Path, changes: dict[str, Any] | None = None) -> tuple[DurableLog, Server]:
    return begin_or_resume(read_trial(TABLES | (changes or {})), path)


def update(server: Server, client: str, means: Sequence[float] = (0.2, 0.45, 0.8)) -> Update:
    """Return what a client sends in the open phase."""
    assignment = server.assignment
    assert assignment is not None
    return Update(
        header=server.header,
        phase=assignment.phase,
        client=client,
        counts=assignment.pulls,
        means=tuple(m if n else 0.0 for m, n in zip(means, assignment.pulls, strict=True)),
    )


def closings(path: Path) -> list[int]:
    """Return how many records a log holds after each decision."""
    records = read_log(path).records
    return [n for n, record in enumerate(records, 1) if isinstance(record, PhaseClosed)]


EQUAL = (0.5, 0.5, 0.5)


def eventful(path: Path) -> Path:
    """Return a run with everything in it: lies, strangers, an abandoned phase, a restart."""
    changes = {"quorum": {"fraction": 0.9}, "quarantine_after": 2, "admissions": "4", "pulls": "20"}
    log, server = begun(path, changes | {"arms": ["red", "green", NASTY]})
    with log:
        server.open(["a", "b", NASTY, "liar"])
        for _ in range(2):
            assert server.receive(update(server, "liar", (np.nan, 0, 0))) is Rejection.NOT_FINITE
        assert server.receive(update(server, "stranger")) is Rejection.CLIENT
        assert server.receive(update(server, NASTY, EQUAL)) is None
        server.abandon()
        server.open(["c"])
        for client in ("a", "b", NASTY, "c"):
            assert server.receive(update(server, client, EQUAL)) is None
        assert server.receive(update(server, "a")) is Rejection.DUPLICATE
        server.close()
    trial = read_trial(read_log(path).header["trial"])
    log, server = begin_or_resume(trial, path)
    with log:
        server.withdraw(1, NASTY)
        server.open(["d"])
    return path


def followed(name: str, trial: Trial, records: MemoryLog) -> FollowedRun:
    run = FollowedRun(name, trial)
    for n, record in enumerate(records):
        run.take(record, f"2026-01-01T00:{n // 60 % 60:02}:{n % 60:02}.000+00:00")
    return run
