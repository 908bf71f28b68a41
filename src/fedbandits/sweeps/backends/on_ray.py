"""A Ray cluster: one that is running, or workers on this machine."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fedbandits.errors import FedbanditsError, InputError
from fedbandits.sweeps.backends import Play, Where
from fedbandits.sweeps.backends.reach import reached
from fedbandits.sweeps.cells import made_with
from fedbandits.sweeps.tasks import Answer, Task, run_remotely

# A task whose worker is lost goes to another, so often before it is the task that is to blame.
_MOST_LOSSES = 3


@contextmanager
def opened(where: Where) -> Iterator[Play]:
    """Yield what plays tasks on a cluster; what is started here ends with the block."""
    # A sweep tells nobody that it runs.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray  # noqa: PLC0415 - an extra

    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    if where.address is None:
        # "local" starts one of its own even where the environment names another.
        ray.init("local", num_cpus=where.n_workers, include_dashboard=False, **quiet)
    else:
        _check_cluster(where.address, where.timeout)
        try:
            ray.init(address=where.address, **quiet)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise InputError(
                "--address", f"{where.address} is no Ray cluster that answers ({error})"
            ) from None
    try:
        yield _answers
    finally:
        ray.shutdown()


# The opening words of HTTP/2, which Ray speaks: a client's, with no settings of its own.
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_SETTINGS = 4


def _check_cluster(address: str, timeout: float) -> None:
    """Refuse an address at which nobody answers as a Ray cluster would, in time.

    Ray's own client tries for minutes and then ends the process.
    """
    with reached(address, timeout) as connection:
        if os.environ.get("RAY_USE_TLS") == "1":
            return  # a stranger's greeting is not answered there
        try:
            connection.sendall(_GREETING)
            answer = connection.recv(9)
        except OSError:
            answer = b""
    if len(answer) < 4 or answer[3] != _SETTINGS:
        raise InputError(
            "--address", f"{address} is no Ray cluster that answers within {timeout:g} s"
        )


def _answers(tasks: Sequence[Task]) -> Iterator[Answer]:
    """Yield the answers as they come."""
    import ray  # noqa: PLC0415 - an extra

    remote = ray.remote(num_cpus=1, max_retries=_MOST_LOSSES)(run_remotely)
    expected = made_with()
    waiting = [remote.remote(task, expected) for task in tasks]
    while waiting:
        (done, *_), waiting = ray.wait(waiting, num_returns=1)
        try:
            answer: Answer = ray.get(done)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RaySystemError as error:
            raise FedbanditsError(f"a worker could not play its cells: {error}") from None
        except ray.exceptions.WorkerCrashedError:
            raise FedbanditsError(
                f"workers were lost {_MOST_LOSSES + 1} times with the same cells, perhaps for want"
                " of memory"
            ) from None
        yield answer
