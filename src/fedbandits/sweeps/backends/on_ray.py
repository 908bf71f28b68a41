"""A Ray cluster: one that is running, or workers on this machine."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager

from fedbandits.errors import FedbanditsError, InputError
from fedbandits.sweeps.backends import MOST_LOSSES, Backend, Where, all_lost, connect
from fedbandits.sweeps.cells import made_with
from fedbandits.sweeps.tasks import SweepTask, TaskResult, run_remotely


@contextmanager
def opened(where: Where) -> Iterator[Backend]:
    """Yield what plays tasks on a cluster; what is started here ends with the block."""
    # A sweep sends no usage statistics.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray  # noqa: PLC0415 - an extra

    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    if where.address is None:
        # "local" starts a cluster of its own even if the environment names another.
        ray.init("local", num_cpus=where.n_workers, include_dashboard=False, **quiet)
    else:
        _check_cluster(where.address, where.timeout)
        ray.init(address=where.address, **quiet)
    try:
        cpus = ray.cluster_resources().get("CPU", 1.0)
        yield Backend(workers=max(1, int(cpus)), play=_answers)
    finally:
        ray.shutdown()


# Connects, or ends in time: 0 connected, 3 too late, 4 refused, with the reason.
_PROBE = """
import os, sys, threading
import ray
late = threading.Timer(float(sys.argv[2]), os._exit, args=[3])
late.daemon = True
late.start()
try:
    ray.init(address=sys.argv[1], logging_level="ERROR", log_to_driver=False)
except Exception as error:
    print(str(error).strip().partition("\\n")[0], flush=True)
    os._exit(4)
os._exit(0)
"""
_LATE = 3
# A process and Ray in it take a while to begin, which is no fault of the address.
_SECONDS_TO_BEGIN = 60.0


def _check_cluster(address: str, timeout: float) -> None:
    """Refuse an address at which no Ray cluster lets a client in, in time.

    Ray's own client tries for minutes and then ends its process, so that it tries in another first.
    """
    connect(address, timeout).close()
    try:
        probe = subprocess.run(
            [sys.executable, "-c", _PROBE, address, str(timeout)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=False,
            timeout=timeout + _SECONDS_TO_BEGIN,
        )
        ended, reason = probe.returncode, probe.stdout.strip()
    except subprocess.TimeoutExpired:
        ended, reason = _LATE, ""
    if ended:
        said = f" ({reason})" if reason else ""
        raise InputError(
            "--address",
            f"{address} is no Ray cluster that answers within {timeout:g} s{said}; if it is one, it"
            " may still be starting: raise --timeout",
        )


def _answers(tasks: Sequence[SweepTask]) -> Generator[TaskResult, None, None]:
    """Yield the answers as they come."""
    import ray  # noqa: PLC0415 - an extra

    remote = ray.remote(num_cpus=1, max_retries=MOST_LOSSES)(run_remotely)
    expected = made_with()
    waiting = [remote.remote(task, expected) for task in tasks]
    while waiting:
        (done, *_), waiting = ray.wait(waiting, num_returns=1)
        try:
            answer: TaskResult = ray.get(done)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except (
            ray.exceptions.WorkerCrashedError,
            ray.exceptions.OutOfMemoryError,
            ray.exceptions.NodeDiedError,
            ray.exceptions.ObjectLostError,
        ) as error:
            raise all_lost(type(error).__name__) from None
        except ray.exceptions.RayError as error:
            raise FedbanditsError(f"a worker could not play its cells: {error}") from None
        yield answer
