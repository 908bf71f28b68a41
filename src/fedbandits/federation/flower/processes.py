"""A federation on one machine: a SuperLink and SuperNodes as child processes, TLS and keys made.

Children are started each in a session of its own, so that Ctrl-C reaches only who is to end them,
and ended with all that they have started, by their ids.
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
from types import TracebackType
from typing import Any, Self

from fedbandits.errors import FedbanditsError, InputError
from fedbandits.federation.flower.keys import (
    Certificates,
    NodeKey,
    make_certificates,
    make_node_key,
)

HOST = "127.0.0.1"
CONNECTION = "fedbandits-local"

# Flower sends no news home, looks for none, and installs nothing.
_ENVIRONMENT = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "NO_PROXY": "127.0.0.1,localhost",
    "no_proxy": "127.0.0.1,localhost",
}

_STARTS = 60.0
_ENDS = 5.0


class FlowerError(FedbanditsError):
    """A process of Flower did not do what it should."""


@dataclass(slots=True)
class Child:
    """A process that was started here.

    Parameters
    ----------
    name : str
        What it is.
    process : subprocess.Popen
        It.
    output : path
        What it says.
    """

    name: str
    process: subprocess.Popen[bytes]
    output: Path

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None

    def ask_to_end(self) -> None:
        """Let it end by itself."""
        self._signal(signal.SIGTERM)

    def end(self, patience: float = _ENDS) -> None:
        """End it, and all of its session; after so many seconds it is not asked any more."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(patience)
        self._signal(signal.SIGKILL)  # also for what it has left behind
        self.process.wait()

    def _signal(self, number: signal.Signals) -> None:
        # Its session has its id; when all of it is gone there is nobody to end.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def last_words(self) -> str:
        """Return the end of what it has said."""
        text = self.output.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.strip().splitlines()[-15:])


class LocalFederation:
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
        self._port = 0
        self._certificates: Certificates | None = None

    def start(self) -> None:
        """Start the SuperLink, and wait until it answers."""
        self._certificates = make_certificates(self.folder / "certificates")
        self._port = free_port()
        self.superlink = self._child(
            "superlink",
            "flower-superlink",
            ["--ssl-certfile", str(self._certificates.certificate)],
            ["--ssl-keyfile", str(self._certificates.key)],
            ["--ssl-ca-certfile", str(self._certificates.authority)],
            ["--enable-supernode-auth", "--disable-runtime-dependency-installation"],
            ["--host", HOST, "--port", str(self._port)],
        )
        self._wait_for(self.superlink)
        home = self.folder / "home"
        home.mkdir(parents=True, exist_ok=True)
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "{CONNECTION}"\n\n[superlink.{CONNECTION}]\n'
            f'address = "{HOST}:{self._port}"\n'
            f"root-certificates = {json.dumps(str(self._certificates.authority))}\n",
            encoding="utf-8",
        )

    def key(self, name: str) -> NodeKey:
        """Return a node's key, made if it is not there."""
        return make_node_key(self.folder / "keys", name)

    def register(self, names: Sequence[str]) -> None:
        """Tell the SuperLink which nodes may connect: by their public keys."""
        calls = [
            (name, self._flwr("supernode", "register", str(self.key(name).public), CONNECTION))
            for name in names
        ]
        for name, call in calls:
            out = _outcome(call)
            if call.returncode or b'"success": false' in out:
                raise FlowerError(f"{name} cannot be registered: {_told(out)}")

    def start_node(self, name: str, config: Mapping[str, str | int]) -> Child:
        """Start a SuperNode with its key."""
        if self._certificates is None:
            raise FlowerError("the SuperLink is not there yet")
        return self._child(
            name,
            "flower-supernode",
            ["--root-certificates", str(self._certificates.authority)],
            ["--superlink", f"{HOST}:{self._port}"],
            ["--auth-supernode-private-key", str(self.key(name).private)],
            ["--node-config", as_config(config)],
            ["--host", HOST, "--port", str(free_port())],
        )

    def run(self, app: Path, config: Mapping[str, str | int]) -> int:
        """Start an app; return the number of its run."""
        call = self._flwr(
            "run", str(app), CONNECTION, "--run-config", as_config(config), "--format", "json"
        )
        out = _outcome(call)
        try:
            said: dict[str, Any] = json.loads(out)
            return int(said["run-id"])
        except (ValueError, KeyError, TypeError):
            raise FlowerError(f"the run does not start: {_told(out)}") from None

    def status_of(self, run: int) -> str:
        """Return what Flower says of a run: its status, and why it ended."""
        call = self._flwr("list", CONNECTION, "--run-id", str(run), "--format", "json")
        out = _outcome(call)
        try:
            return str(json.loads(out)["runs"][0]["status"])
        except (ValueError, KeyError, TypeError, IndexError):
            raise FlowerError(f"nothing is known of run {run}: {_told(out)}") from None

    def stop(self) -> None:
        """End all children, and what they have started."""
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

    def strays(self) -> list[int]:
        """Return the processes that have a home in this federation's folder, whoever started them.

        A SuperLink that was killed leaves its helpers behind, each in a session of its own. Known
        on Linux only.
        """
        mark = f"FLWR_HOME={self.folder}{os.sep}".encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if any(word.startswith(mark) for word in entry.read_bytes().split(b"\0")):
                    found.append(int(entry.parent.name))
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _child(self, name: str, program: str, *arguments: Sequence[str]) -> Child:
        output = self.folder / "output" / f"{name}.txt"
        output.parent.mkdir(parents=True, exist_ok=True)
        with output.open("ab") as file:
            process = subprocess.Popen(
                [_program(program), *(word for words in arguments for word in words)],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=self._environment(name),
                start_new_session=True,
            )
        child = Child(name, process, output)
        self.children.append(child)
        return child

    def _flwr(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [_program("flwr"), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._environment("home"),
        )

    def _environment(self, home: str) -> dict[str, str]:
        # Every process has a home of its own, and finds Flower's other programs.
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        return {
            **os.environ,
            **_ENVIRONMENT,
            "PATH": programs,
            "FLWR_HOME": str(self.folder / home),
        }

    def _wait_for(self, child: Child) -> None:
        end = time.monotonic() + _STARTS
        while time.monotonic() < end:
            if not child.alive:
                break
            with contextlib.suppress(OSError), socket.create_connection((HOST, self._port), 1.0):
                return
            time.sleep(0.1)
        raise FlowerError(f"the {child.name} does not start:\n{child.last_words()}")


def _outcome(call: subprocess.Popen[bytes]) -> bytes:
    """Return what a command of Flower says, when it is done."""
    try:
        return call.communicate(timeout=_STARTS)[0]
    except subprocess.TimeoutExpired:
        call.kill()
        call.wait()
        raise FlowerError(f"flwr does not answer in {_STARTS:g} s") from None


def free_port() -> int:
    """Return a port of this machine that nobody listens at."""
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])


def as_config(config: Mapping[str, str | int]) -> str:
    """Return key-value pairs as Flower's options take them.

    Examples
    --------
    >>> as_config({"name": "clinic", "clients": 3})
    'name="clinic" clients=3'
    """
    return " ".join(f"{key}={json.dumps(value)}" for key, value in config.items())


def _program(name: str) -> str:
    """Return where a program of Flower is."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise InputError(name, 'is not installed; pip install "fedbandits[flower]"')
    return found


def _told(out: bytes) -> str:
    return " ".join(out.decode(errors="replace").split())[-500:]
