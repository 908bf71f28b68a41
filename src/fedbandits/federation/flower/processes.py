"""A federation on one machine: a SuperLink and SuperNodes as child processes, with TLS and keys.

Each child has a session of its own, so that Ctrl-C reaches only the process that ends them. They
are ended by their ids, with all that they have started.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedbandits.errors import InputError
from fedbandits.federation.flower import keys
from fedbandits.federation.flower.command import QUIET, FlowerCommand, FlowerError, as_options
from fedbandits.federation.state_files import Closing, open_private, private_folder, write_whole

HOST = "127.0.0.1"
CONNECTION = "fedbandits-local"

# Seconds between a SuperLink's looks for a process to start; 1 s by default.
_TASK_POLL = {"FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2"}

MOST_OUTPUT = 8 * 2**20
"""Bytes of a process's output that are kept in a file, and as many before them."""

_STARTS = 60.0
_ENDS = 12.0  # longer than a node gives its SuperNode, so that it can clean up


@dataclass(slots=True)
class Child:
    """A process that was started here.

    Parameters
    ----------
    name : str
        What it is.
    process : subprocess.Popen
        The running process.
    output : path
        What it says.
    """

    name: str
    process: subprocess.Popen[bytes]
    output: Path

    @property
    def _before(self) -> Path:
        """Its earlier output, if the output was trimmed."""
        return self.output.with_suffix(".before.txt")

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None

    def ask_to_end(self) -> None:
        """Ask it to end."""
        self._signal(signal.SIGTERM)

    def end(self, patience: float = _ENDS) -> None:
        """Wait until it ends, or the time is over; then kill what is left of its session."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(patience)
        self._signal(signal.SIGKILL)  # also for what it has left behind
        self.process.wait()

    def _signal(self, number: signal.Signals) -> None:
        # The session has the same id as the process; it may be gone already.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def trim_output(self) -> None:
        """Keep its output below twice `MOST_OUTPUT`: the file and the one before it.

        It goes on writing at the end of the file, which is then its beginning.
        """
        with contextlib.suppress(OSError):  # for instance on a full disk: try again later
            if self.output.stat().st_size > MOST_OUTPUT:
                with self.output.open("rb") as file, open_private(self._before, "wb") as before:
                    file.seek(-MOST_OUTPUT, os.SEEK_END)
                    before.write(file.read(MOST_OUTPUT))
                os.truncate(self.output, 0)

    def last_words(self) -> str:
        """Return the end of its output."""
        files = [file for file in (self._before, self.output) if file.exists()]
        text = "".join(file.read_text(encoding="utf-8", errors="replace") for file in files)
        return "\n".join(text.strip().splitlines()[-15:])


class LocalFederation(Closing):
    """A SuperLink and its SuperNodes on this machine.

    Parameters
    ----------
    folder : path
        For keys, certificates, and what the processes say.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> federation = LocalFederation(Path(tempfile.mkdtemp()))
    >>> federation.children
    []
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.children: list[Child] = []
        self.superlink: Child | None = None
        self.command = FlowerCommand(CONNECTION, self._environment("home"))
        self._port = 0
        self._certificates: keys.Certificates | None = None

    def start(self) -> None:
        """Start the SuperLink, and wait until it answers."""
        self._certificates = keys.make_certificates(self.folder / "certificates")
        self._port = free_port()
        write_whole(
            private_folder(self.folder / "home") / "config.toml",
            connection_text(CONNECTION, f"{HOST}:{self._port}", str(self._certificates.authority)),
        )
        self.command.start()  # it loads while the SuperLink does
        words = ["--enable-supernode-auth", "--disable-runtime-dependency-installation"]
        options = {
            "--ssl-certfile": self._certificates.certificate,
            "--ssl-keyfile": self._certificates.key,
            "--ssl-ca-certfile": self._certificates.authority,
            "--host": HOST,
            "--port": self._port,
        }
        self.superlink = self._child("superlink", "flower-superlink", words, options)
        self._wait_for(self.superlink)

    def key(self, name: str) -> keys.NodeKey:
        """Return a node's key, made if it is not there."""
        return keys.make_node_key(self.folder / "keys", name)

    def register(self, names: Sequence[str]) -> None:
        """Tell the SuperLink which nodes may connect: by their public keys."""
        self.command.register(self.key(name).public for name in names)

    def start_node(self, name: str, config: Mapping[str, str | int]) -> Child:
        """Start a SuperNode with its key."""
        if self._certificates is None:
            raise FlowerError("the SuperLink is not there yet")
        options = {
            "--superlink": f"{HOST}:{self._port}",
            "--root-certificates": self._certificates.authority,
            "--key": self.key(name).private,
            **{f"--{key}": value for key, value in config.items() if key != "project"},
        }
        return self._child(name, "fedbandits", ["node", str(config["project"])], options)

    def close(self) -> None:
        """End all children, and what they have started."""
        self.command.close()
        for child in self.children:
            child.ask_to_end()
        end = time.monotonic() + _ENDS
        for child in self.children:
            child.end(max(0.0, end - time.monotonic()))
        self.children = []
        end = time.monotonic() + _ENDS
        while (left := self.strays()) and time.monotonic() < end:
            for number in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            time.sleep(0.05)

    def strays(self, child: str = "") -> list[int]:
        """Return the processes with a home in this federation's folder, even if not started here.

        With the name of a child, only its own.

        A SuperLink that was killed leaves its helpers behind, each in a session of its own. Known
        on Linux only.
        """
        mark = f"FLWR_HOME={self.folder / child}{os.sep}".encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                words = entry.read_bytes().split(b"\0")
                if any((word + os.sep.encode()).startswith(mark) for word in words):
                    found.append(int(entry.parent.name))
        return found

    def _child(
        self, name: str, program: str, words: Sequence[str], options: Mapping[str, object]
    ) -> Child:
        output = private_folder(self.folder / "output") / f"{name}.txt"
        with open_private(output, "ab") as file:
            process = subprocess.Popen(
                [flower_program(program), *words, *as_options(options)],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=self._environment(name),
                start_new_session=True,
            )
        child = Child(name, process, output)
        self.children.append(child)
        return child

    def _environment(self, home: str) -> dict[str, str]:
        # Every process has a home of its own, and finds Flower's other programs.
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        own = {"PATH": programs, "FLWR_HOME": str(self.folder / home)}
        return {**quiet_environment(), **_TASK_POLL, **own}

    def _wait_for(self, child: Child) -> None:
        end = time.monotonic() + _STARTS
        while time.monotonic() < end:
            if not child.alive:
                break
            with contextlib.suppress(OSError), socket.create_connection((HOST, self._port), 1.0):
                return
            time.sleep(0.1)
        raise FlowerError(f"the {child.name} does not start:\n{child.last_words()}")


def connection_text(name: str, address: str, authority: str) -> str:
    """Return Flower's configuration of one SuperLink: its name, address and certificate."""
    return (
        f'[superlink]\ndefault = "{name}"\n\n[superlink.{name}]\n'
        f'address = "{address}"\n'
        f"root-certificates = {json.dumps(authority)}\n"
    )


def quiet_environment() -> dict[str, str]:
    """Return the environment of Flower's processes: no news, and no proxy for this machine."""
    here = f"{HOST},localhost"
    known = (os.environ.get("NO_PROXY"), os.environ.get("no_proxy"))
    direct = ",".join([*(said for said in known if said), here])
    return {**os.environ, **QUIET, "NO_PROXY": direct, "no_proxy": direct}


def free_port() -> int:
    """Return a free port of this machine."""
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])


def flower_program(name: str) -> str:
    """Return where a program of Flower is."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise InputError(name, 'is not installed; pip install "fedbandits[flower]"')
    return found
