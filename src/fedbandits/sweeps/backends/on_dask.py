"""A Dask cluster: one that is running, or workers on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

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
    import dask  # noqa: PLC0415 - an extra
    from distributed import Client, LocalCluster  # noqa: PLC0415 - likewise

    with ExitStack() as stack:
        settings = {
            "distributed.scheduler.allowed-failures": _MOST_LOSSES,
            # What workers hold has the sweep's own limit, of which Dask knows nothing.
            "distributed.worker.memory.terminate": False,
        }
        stack.enter_context(dask.config.set(settings))
        if where.address is None:
            cluster = stack.enter_context(
                LocalCluster(
                    n_workers=where.n_workers,
                    threads_per_worker=1,
                    processes=True,
                    dashboard_address="127.0.0.1:0",
                    silence_logs=True,
                )
            )
            client = stack.enter_context(Client(cluster))
        else:
            _check_scheduler(where.address, where.timeout)
            client = stack.enter_context(Client(where.address, timeout=where.timeout))

        def play(tasks: Sequence[Task]) -> Iterator[Answer]:
            yield from _answers(client, tasks)

        yield play


def _check_scheduler(address: str, timeout: float) -> None:
    """Refuse an address at which no scheduler says who it is in time.

    A Dask client waits forever for something that accepts its connection and says nothing.
    """
    from distributed.core import rpc  # noqa: PLC0415 - an extra

    reached(address, timeout).close()

    async def identity() -> None:
        async with rpc(address, timeout=timeout) as scheduler:
            await scheduler.identity()

    try:
        asyncio.run(asyncio.wait_for(identity(), timeout))
    except (OSError, TimeoutError) as error:
        raise InputError(
            "--address",
            f"{address} is no Dask scheduler that answers within {timeout:g} s"
            f" ({type(error).__name__})",
        ) from None


def _answers(client: Any, tasks: Sequence[Task]) -> Iterator[Answer]:
    """Yield the answers as they come."""
    from distributed import as_completed  # noqa: PLC0415 - an extra
    from distributed.scheduler import KilledWorker  # noqa: PLC0415 - likewise

    # Not pure: a key made from a task's content would find what an earlier sweep has left.
    futures = [client.submit(run_remotely, task, made_with(), pure=False) for task in tasks]
    for future in as_completed(futures):
        try:
            yield future.result()
        except KilledWorker as error:
            raise FedbanditsError(
                f"workers were lost {_MOST_LOSSES + 1} times with the same cells, perhaps for want"
                f" of memory ({error})"
            ) from None
        future.release()
