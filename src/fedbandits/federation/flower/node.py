"""A node: a SuperNode, and the processes that answer its messages with the installed app.

The SuperNode carries messages and starts nothing itself (``--isolation process``). Each message is
answered in a process of its own, forked from one that has the app loaded. Its token goes there
through a pipe, so that it is in no list of processes, and the port between the two takes TLS and a
secret, both made again whenever a node starts: other accounts of the machine get nothing from it.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import multiprocessing
import os
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

from fedbandits.federation.flower import processes
from fedbandits.federation.flower.client import NodePlan
from fedbandits.federation.flower.clocks import check_clock
from fedbandits.federation.flower.command import FlowerError, as_options, end_process
from fedbandits.federation.flower.keys import make_certificates, write_private
from fedbandits.federation.flower.pinned import CLIENT_APP, check_flower
from fedbandits.federation.flower.task import LocalPort, Task, TaskQueue, answer_task
from fedbandits.federation.local import CLIENT_FILE
from fedbandits.federation.state_files import lock_file, open_private, warn_of_others
from fedbandits.federation.trial import FILE

_LOG = logging.getLogger("flwr.fedbandits")

_POLL = 0.25
_ENDS = 10.0
_CLOCK_CHECKS = 60.0

_SCRATCH = "fedbandits-node-"
_SCRATCH_AGE = 60.0

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConnection:
    """How a node reaches its server.

    Parameters
    ----------
    superlink : str
        Host and port.
    authority : path
        Certificate of the authority that signed the server's.
    key : path
        The node's private key, whose public half is registered at the server.
    """

    superlink: str
    authority: Path
    key: Path


def run_node(connection: NodeConnection, config: Mapping[str, str | int]) -> None:
    """Run a node until its SuperNode ends, or it is interrupted; no process is left.

    Parameters
    ----------
    connection : NodeConnection
        Where its server is.
    config : mapping
        What it is for, as `NodePlan` reads it.

    Raises
    ------
    InputError
        If its configuration has a mistake, Flower is not the version that was tested, or this
        machine's clock is so far off that the server refuses all that the node signs.
    FlowerError
        If the SuperNode ends.
    """
    check_flower()
    os.environ.update(processes.quiet_environment())  # of all processes that are started here
    plan = NodePlan(dict(config))
    _ = plan.trial  # report a mistake now, not when a message comes
    warn_of_others(connection.key, "r", "can be read by everybody here, who can answer for it")
    for path in (plan.project, plan.project / FILE, plan.project / CLIENT_FILE):
        warn_of_others(path, "w", "can be changed by everybody here, and this node runs it")
    check_clock(connection.superlink, connection.authority, _LOG.warning)
    with private_scratch() as folder, contextlib.closing(_Tasks()) as tasks:
        secret = secrets.token_bytes(32)
        certificates = make_certificates(folder)
        write_private(folder / "secret", secret)
        address = f"{processes.HOST}:{processes.free_port()}"
        with _supernode(connection, folder, address) as supernode:
            _LOG.info("this node runs %s as it is installed here, and nothing else", CLIENT_APP)
            port = LocalPort(address=address, authority=certificates.authority.read_bytes())
            queue, checked = TaskQueue(port, secret), time.monotonic()
            while supernode.poll() is None:
                if time.monotonic() - checked > _CLOCK_CHECKS:
                    check_clock(connection.superlink, connection.authority, _LOG.warning)
                    checked = time.monotonic()
                task = queue.next()
                if task is not None:
                    tasks.start(task, config)
                time.sleep(_POLL)
            code = supernode.returncode
            raise FlowerError(f"the SuperNode has ended with exit code {code}; its output is above")


@contextmanager
def private_scratch() -> Iterator[Path]:
    """Make a folder for a node's secrets, and remove it in the end.

    A node that was killed leaves its folder behind. The next node removes it: nobody holds its
    lock then.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*"):
        with contextlib.suppress(OSError):
            found = left.lstat()
            # Another node may be making a new one right now.
            old = time.time() - found.st_mtime > _SCRATCH_AGE
            if old and stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
                with open_private(left / "lock", "ab") as lock:
                    lock_file(lock, wait=False)
                    shutil.rmtree(left, ignore_errors=True)
    with (
        tempfile.TemporaryDirectory(prefix=_SCRATCH) as name,
        open_private(Path(name) / "lock", "ab") as lock,
    ):
        lock_file(lock)
        yield Path(name)


@contextmanager
def _supernode(
    connection: NodeConnection, folder: Path, address: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a SuperNode that starts nothing itself; end it afterwards."""
    options = {
        "--superlink": connection.superlink,
        "--root-certificates": connection.authority,
        "--auth-supernode-private-key": connection.key,
        "--isolation": "process",
        "--superexec-auth-secret-file": folder / "secret",
        "--ssl-certfile": folder / "server.pem",
        "--ssl-keyfile": folder / "server.key",
        "--ssl-ca-certfile": folder / "authority.pem",
        "--host": processes.HOST,
        "--port": address.rpartition(":")[2],
    }
    process = subprocess.Popen(
        [processes.flower_program("flower-supernode"), *as_options(options)],
        stdin=subprocess.DEVNULL,
        env={"FLWR_HOME": str(folder / "home"), **os.environ},
        # In a group of its own it gets one signal, from here. A second signal would cut its
        # shutdown short, and the server would take it for alive for another minute.
        process_group=None if sys.platform == "win32" else 0,
        preexec_fn=_follow_parent if sys.platform == "linux" else None,  # noqa: PLW1509 - no threads
    )
    try:
        yield process
    finally:
        process.terminate()
        end_process(process, _ENDS)


def _follow_parent() -> None:
    """Let the system end this process when its parent is gone."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class _Tasks:
    """The processes that answer messages."""

    def __init__(self) -> None:
        if sys.platform == "win32":
            self._context = multiprocessing.get_context("spawn")
        else:  # a fork of a process with everything loaded starts at once
            self._context = multiprocessing.get_context("forkserver")
            self._context.set_forkserver_preload(["fedbandits.federation.flower.task"])
        self._running: list[BaseProcess] = []

    def start(self, task: Task, config: Mapping[str, str | int]) -> None:
        """Answer a message in a process of its own."""
        self._running = [process for process in self._running if process.is_alive()]
        process = self._context.Process(target=answer_task, args=(task, dict(config)))
        process.start()
        self._running.append(process)

    def close(self) -> None:
        """End those that still run."""
        for process in self._running:
            process.kill()
            process.join()
