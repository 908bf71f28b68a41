"""What a federation costs: seconds and bytes, and with --flower what real processes take.

Prints a table and exits 1 when a bar is missed. With --flower a SuperLink and four SuperNodes run
on this machine for some minutes; bare rounds of Flower and phases of a trial take turns, because
machines are noisy.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from bars import Row, shown
from fedbandits.federation.durable_log import DurableLog
from fedbandits.federation.host import ClientHost, ClientInfo
from fedbandits.federation.local import load_pull, try_trial
from fedbandits.federation.run import header_of
from fedbandits.federation.state_files import audit_file
from fedbandits.federation.trial import load_trial
from fedbandits.protocol import PhaseOpened, Server, UpdateAccepted
from long_logs import reading
from trials import CLIENTS, FIGURE_4, UNDECIDED, project

ROUNDED = {"privacy": {"range": [-4.0, 5.5], "quantize": {"bits": 8}}}


def played_of(server: Server) -> int:
    """Return clients × phases: how many updates have counted."""
    return sum(isinstance(record, UpdateAccepted) for record in server.log)


def time_of_trying(what: str, trial: dict[str, Any]) -> Row:
    """Time `fedbandits try` with a thousand clients, from its start to its end.

    It is the processor's time, whatever else the machine does meanwhile.
    """
    with project(trial) as folder:
        command = [
            sys.executable,
            "-m",
            "fedbandits",
            "try",
            str(folder),
            "--clients",
            str(CLIENTS),
        ]
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        by_the_clock = time.perf_counter() - begin
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        server = try_trial(load_trial(folder), load_pull(folder), CLIENTS)
    if server.decision is None or server.decision.winner != 9:
        raise RuntimeError("the best channel was not found")
    taken = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    played = played_of(server)
    detail = (
        f"decided by {len(server.clients):,} in phase {server.phase}: {played:,} clients × phases,"
        f" {1e6 * taken / played:,.0f} µs each with the start; {by_the_clock:.1f} s by the clock"
    )
    return Row(what, taken, 30.0, False, " s", detail)


def growth_of_log(what: str, trial: dict[str, Any], bar: float) -> Row:
    """Measure how many bytes a client and phase add to the log, with ten arms in the game."""
    with project(trial) as folder:
        found = load_trial(folder)
        path = folder / "run.fedlog"
        with DurableLog(path, header_of(found, found.title)) as log:
            server = try_trial(found, load_pull(folder), CLIENTS, log=log)
            played = played_of(server)
        size = path.stat().st_size
    if server.left != len(found.arms):
        raise RuntimeError("an arm was dropped")
    return Row(what, size / played, bar, False, " B", f"of {played:,} clients × phases, ten arms")


def growth_of_audit(what: str, trial: dict[str, Any], bar: float) -> Row:
    """Measure how many bytes a phase adds to what a client keeps, with ten arms in the game."""
    with project(trial) as folder:
        found, pull = load_trial(folder), load_pull(folder)
        host = ClientHost(ClientInfo(name="client-0"), pull, found, folder=folder)
        sizes = []
        for record in try_trial(found, pull, 1).log:
            if isinstance(record, PhaseOpened):
                host.answer(record.assignment)
                sizes.append(audit_file(folder, "client-0").stat().st_size)
    growth = statistics.median(np.diff(sizes).tolist())
    return Row(what, growth, bar, False, " B", "of one client, ten arms")


def in_one_process() -> Iterator[Row]:
    """Measure what needs no other process."""
    everybody = FIGURE_4 | {"admissions": str(CLIENTS)}
    # In turns a client is called a thousand times in a phase of ten arms, else ten times.
    at_once = everybody | {"interleave": False}
    undecided = UNDECIDED | {"interleave": False}
    rounded = undecided | ROUNDED
    yield time_of_trying("(a) try: figure 4, 1,000 clients", FIGURE_4)
    yield time_of_trying("(b) try: all of them in", everybody)
    yield time_of_trying("(c) try: likewise, not in turns", at_once)
    yield growth_of_log("(d) log, a client and phase", undecided, 1_050.0)
    yield growth_of_log("(e) log, with means in 8 bits", rounded, 700.0)
    yield growth_of_audit("(f) client's file, a phase", undecided, 950.0)
    yield growth_of_audit("(g) likewise, in 8 bits", rounded, 1_200.0)
    yield from reading()


def main() -> int:
    """Run all of it."""
    if "--flower" in sys.argv[1:]:
        from flower_costs import on_flower  # noqa: PLC0415 - needs Flower, and takes minutes

        return shown("federation on Flower", on_flower())
    return shown("federation", in_one_process())


if __name__ == "__main__":
    sys.exit(main())
