"""A Dask cluster: one that is running, or workers on this machine."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from fedbandits.errors import InputError
from fedbandits.sweeps.backends import MOST_LOSSES, Backend, Where, all_lost, connect
from fedbandits.sweeps.cells import made_with
from fedbandits.sweeps.tasks import SweepTask, TaskResult, run_remotely


@contextmanager
def opened(where: Where) -> Iterator[Backend]:
    """Yield what plays tasks on a cluster; what is started here ends with the block."""
    import dask  # noqa: PLC0415 - an extra
    from distributed import Client, LocalCluster  # noqa: PLC0415 - likewise

    with ExitStack() as stack:
        settings = {
            "distributed.scheduler.allowed-failures": MOST_LOSSES,
            # What workers hold has the sweep's own limit, of which Dask knows nothing.
            "distributed.worker.memory.terminate": False,
        }
        stack.enter_context(dask.config.set(settings))
        if where.address is None:
            with _ignoring_ctrl_c():
                cluster = stack.enter_context(
                    LocalCluster(
                        n_workers=where.n_workers,
                        threads_per_worker=1,
                        processes=True,
                        dashboard_address="127.0.0.1:0",
                        silence_logs=logging.CRITICAL,
                    )
                )
            client = stack.enter_context(Client(cluster))
        else:
            _check_scheduler(where.address, where.timeout)
            client = stack.enter_context(Client(where.address, timeout=where.timeout))
            _await_workers(client, where.address, where.timeout)

        # A worker plays as many tasks at a time as it has threads.
        threads = sum(client.nthreads().values())
        yield Backend(workers=max(1, threads), play=partial(_answers, client))


@contextmanager
def _ignoring_ctrl_c() -> Iterator[None]:
    """Start processes that ignore Ctrl-C: the one that started them ends them.

    A terminal signals the whole group, and each of them would print a traceback.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can set it
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _await_workers(client: Any, address: str, timeout: float) -> None:
    """Refuse a scheduler that has no workers."""
    try:
        client.wait_for_workers(1, timeout=timeout)
    except TimeoutError:
        raise InputError(
            "--address",
            f"{address} has no workers, and none came within {timeout:g} s; start some (dask worker"
            f" {address}), or raise --timeout",
        ) from None


def _check_scheduler(address: str, timeout: float) -> None:
    """Refuse an address at which no scheduler says who it is in time.

    A Dask client waits forever for something that accepts its connection and says nothing.
    """
    from distributed.core import rpc  # noqa: PLC0415 - an extra

    connect(address, timeout).close()

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


def _answers(client: Any, tasks: Sequence[SweepTask]) -> Generator[TaskResult, None, None]:
    """Yield the answers as they come."""
    from distributed import as_completed  # noqa: PLC0415 - an extra
    from distributed.scheduler import KilledWorker  # noqa: PLC0415 - likewise

    # Not pure: a key made from a task's content would find what an earlier sweep has left.
    futures = [client.submit(run_remotely, task, made_with(), pure=False) for task in tasks]
    for future in as_completed(futures):
        try:
            yield future.result()
        except KilledWorker as error:
            raise all_lost(str(error).partition("\n")[0]) from None
        except (ImportError, AttributeError, RuntimeError) as error:
            first = _first_cause(error)
            if not isinstance(first, ImportError | AttributeError):
                raise
            raise InputError(
                "--address",
                f"the scheduler or a worker there cannot read what it is sent ({first}); install"
                " this version of fedbandits on the scheduler and on all workers",
            ) from None
        future.release()


def _first_cause(error: BaseException) -> BaseException:
    """Return the error that began it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error
