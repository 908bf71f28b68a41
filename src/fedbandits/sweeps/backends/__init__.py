"""Where a sweep runs: processes of this machine, or a cluster; the numbers are the same."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TypeAlias

from fedbandits.errors import FedbanditsError, InputError, nearest
from fedbandits.sweeps.tasks import SweepTask, TaskResult

Play: TypeAlias = Callable[[Sequence[SweepTask]], Generator[TaskResult, None, None]]
"""Plays tasks and yields their answers in whatever order they come, each exactly once.

Close it if no more of them are needed.
"""

MOST_LOSSES = 3
"""A task whose worker is lost goes to another worker, this often; then the task is to blame."""

BACKENDS = {"processes": "joblib", "dask": "distributed", "ray": "ray"}
"""Names of backends, and the package that each needs; an extra has the backend's name."""


DEFAULT_TIMEOUT = 10.0
"""Seconds that the address of a cluster has to answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """On what a backend plays.

    Parameters
    ----------
    address : str, optional
        Of a cluster that is running; without one a backend starts workers on this machine.
    workers : int, optional
        How many to start here; all cores by default.
    timeout : float
        Seconds that the address has to answer.
    """

    address: str | None = None
    workers: int | None = None
    timeout: float = DEFAULT_TIMEOUT

    @property
    def n_workers(self) -> int:
        """How many workers to start here."""
        return self.workers or os.cpu_count() or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """What plays the tasks of a sweep.

    It is good until the block of `open_backend` ends.

    Parameters
    ----------
    workers : int
        How many tasks it plays at a time.
    play : callable
        Plays them.
    """

    workers: int
    play: Play


def all_lost(detail: str) -> FedbanditsError:
    """Return what is to be said of a task whose workers were lost too often."""
    return FedbanditsError(
        f"workers were lost {MOST_LOSSES + 1} times with the same cells, perhaps for want of memory"
        f" ({detail}); lower --memory-limit, or take fewer workers"
    )


def open_backend(name: str, where: Where) -> AbstractContextManager[Backend]:
    """Return what plays the tasks of a sweep, to be entered before and left after.

    Parameters
    ----------
    name : {"processes", "dask", "ray"}
        Which.
    where : Where
        On what it plays.
    """
    if name not in BACKENDS:
        raise InputError("--backend", f'"{name}" is not a backend; {nearest(name, BACKENDS)}')
    if name == "processes" and where.address is not None:
        raise InputError("--address", "processes run on this machine; use --backend dask or ray")
    if where.address is not None and where.workers is not None:
        raise InputError("--workers", f"the cluster at {where.address} has its own; leave it out")
    if find_spec(BACKENDS[name]) is None:
        raise InputError(
            "--backend",
            f'"{name}" needs {BACKENDS[name]}, which is not installed: pip install'
            f' "fedbandits[{name}]"',
        )
    backend = import_module(f"fedbandits.sweeps.backends.on_{name}")
    opened: AbstractContextManager[Backend] = backend.opened(where)
    return opened


_ADDRESS = re.compile(r"(?:[a-z]+://)?(\[[0-9a-fA-F:]+\]|[^:/\s]+):(\d{1,5})/?")


def connect(address: str, timeout: float) -> socket.socket:
    """Return a connection to an address, or say that nothing accepts one in time.

    Parameters
    ----------
    address : str
        Host and port, with a scheme such as ``tcp://`` or without.
    timeout : float
        Seconds.

    Examples
    --------
    >>> connect("here", 1.0)
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: --address: "here" is not a host and a port such as
    tcp://10.0.0.1:8786
    """
    found = _ADDRESS.fullmatch(address)
    if found is None or int(found[2]) > 65535:
        raise InputError(
            "--address", f'"{address}" is not a host and a port such as tcp://10.0.0.1:8786'
        )
    host, port = found[1].strip("[]"), int(found[2])
    try:
        return socket.create_connection((host, port), timeout=timeout)
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        raise InputError(
            "--address",
            f"{address} does not answer within {timeout:g} s ({reason}); start the cluster, or"
            " raise --timeout",
        ) from None
