"""What Flower's processes take: rounds side by side, memory, bytes on the wire and on disk."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bars import Row
from fedbandits.federation.flower.command import as_config
from fedbandits.federation.flower.processes import (
    HOST,
    Child,
    LocalFederation,
    free_port,
)
from trials import UNDECIDED, project

NODES = 4
ROUNDS = 12
PATIENCE = 3_600.0
QUIET = 30.0
MIB = 2**20

TRIAL = UNDECIDED | {
    "admissions": str(NODES),
    "max_phases": ROUNDS + 2,
    "patience": {"clients": NODES},
}

_CLIENT = """
def pull(arm, n, client):
    return [0.5] * n
"""

_APP = """
[project]
name = "rounds"
version = "1.0.0"
description = "Bare rounds and phases, in turns."
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "fedbandits"

[tool.flwr.app.components]
serverapp = "flower_rounds:server"
clientapp = "flower_rounds:client"

[tool.flwr.app.config]
project = ""
rounds = 0
"""


class Relay:
    """Stands between nodes and a SuperLink, and counts the bytes that pass."""

    def __init__(self, port: int) -> None:
        self.passed: list[tuple[float, int]] = []
        self._to = port
        self._listening = socket.create_server((HOST, free_port()))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def between(self, begin: float, end: float) -> int:
        """Return the bytes that have passed in a time, both ways."""
        return sum(size for at, size in list(self.passed) if begin <= at < end)

    def close(self) -> None:
        """Take no more connections."""
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection((HOST, self._to))
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):  # either end may leave
            while data := one.recv(65_536):
                self.passed.append((time.time(), len(data)))
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)


class RelayedFederation(LocalFederation):
    """A federation whose nodes reach the SuperLink through a relay.

    They are Flower's own SuperNodes, since ours would refuse the app that plays bare rounds.
    """

    def start(self) -> None:
        """Start the SuperLink, and the relay before it."""
        super().start()
        self.relay = Relay(self._port)
        self._port = self.relay.port

    def start_node(self, name: str, config: Mapping[str, str | int]) -> Child:
        """Start a SuperNode that runs what it is sent."""
        assert self._certificates is not None
        options = {
            "--root-certificates": self._certificates.authority,
            "--superlink": f"{HOST}:{self._port}",
            "--auth-supernode-private-key": self.key(name).private,
            "--node-config": as_config(config),
            "--host": HOST,
            "--port": free_port(),
        }
        return self._child(name, "flower-supernode", [], options)


class Memory:
    """The most memory that each part of a federation has had at once, all of its processes."""

    def __init__(self, federation: LocalFederation) -> None:
        self.peaks: dict[str, int] = {}
        self._federation = federation
        self._over = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def close(self) -> None:
        """Look no longer."""
        self._over.set()

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            now: dict[str, int] = {}
            for process in self._federation.strays():
                with contextlib.suppress(OSError, StopIteration):
                    part = _home_of(process).name
                    now[part] = now.get(part, 0) + _resident(process)
            for part, size in now.items():
                self.peaks[part] = max(size, self.peaks.get(part, 0))


def _home_of(process: int) -> Path:
    words = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    home = next(word for word in words if word.startswith(b"FLWR_HOME="))
    return Path(os.fsdecode(home.removeprefix(b"FLWR_HOME=")))


def _resident(process: int) -> int:
    pages = Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def on_flower() -> Iterator[Row]:
    """Measure rounds and phases of four SuperNodes."""
    if sys.platform != "linux":
        raise RuntimeError("memory is measured on Linux only")
    # Flower's processes import the app from here.
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    with (
        project(TRIAL, _CLIENT) as folder,
        RelayedFederation(folder / "federation") as federation,
    ):
        federation.start()
        memory = Memory(federation)
        result = _played(federation, folder)
        quiet = time.time()
        time.sleep(QUIET)
        memory.close()
        federation.relay.close()
        idle = federation.relay.between(quiet, quiet + QUIET) / QUIET / NODES
        disk = _disk(folder)
        yield from _rows(result, federation.relay, memory, idle, disk)


def _played(federation: LocalFederation, folder: Path) -> dict[str, Any]:
    names = [f"node-{place}" for place in range(NODES)]
    federation.register(names)
    for place, name in enumerate(names):
        config: dict[str, str | int] = {"project": str(folder), "name": f"client-{place}"}
        federation.start_node(name, config)
    app = folder / "app"
    app.mkdir()
    (app / "pyproject.toml").write_text(_APP, encoding="utf-8")
    run = federation.command.run(app, {"project": str(folder), "rounds": ROUNDS})
    file, end = folder / "result.json", time.monotonic() + PATIENCE
    asked = time.monotonic()
    while not file.exists():
        if time.monotonic() > end:
            raise RuntimeError("it takes too long")
        if time.monotonic() - asked > 60.0:
            asked = time.monotonic()
            if federation.command.status_of(run).startswith("finished") and not file.exists():
                said = "" if federation.superlink is None else federation.superlink.last_words()
                raise RuntimeError(f"the server has ended:\n{said}")
        time.sleep(0.5)
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _disk(folder: Path) -> tuple[int, float]:
    """Return the bytes in the home of a SuperNode, and those that a phase adds to its client."""
    home = folder / "federation" / "node-0"
    files = sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
    lines = (folder / "state" / "client-0.jsonl").read_bytes().splitlines(keepends=True)
    return files, statistics.median(len(line) for line in lines)


def _rows(
    result: dict[str, Any], relay: Relay, memory: Memory, idle: float, disk: tuple[int, float]
) -> Iterator[Row]:
    rounds = {
        kind: [each for each in result["times"] if each["kind"] == kind]
        for kind in ("bare", "phase")
    }
    seconds = {
        kind: [each["end"] - each["begin"] for each in found] for kind, found in rounds.items()
    }
    bare, phase = (statistics.median(seconds[kind]) for kind in ("bare", "phase"))
    load = os.getloadavg()[2]
    detail = (
        f"{phase:.1f} s against {bare:.1f} s, medians of {len(seconds['bare'])} each;"
        f" texts of {result['sent']} and {result['received']} bytes;"
        f" {load:.1f} processes wanted the {os.cpu_count()} cores"
    )
    yield Row("(h) a phase / a bare round", phase / bare, 1.1, False, "×", detail)
    sent = {
        kind: statistics.median(
            relay.between(each["begin"], each["end"]) / NODES / 1024 for each in found
        )
        for kind, found in rounds.items()
    }
    detail = f"of one SuperNode, both ways, with TLS; {sent['bare']:.0f} KiB in a bare round"
    yield Row("(i) network, a phase", sent["phase"], 200.0, False, " KiB", detail)
    detail = "of one SuperNode that waits, both ways: its polls and heartbeats"
    yield Row("(j) network, idle", 3_600 * idle / MIB, 20.0, False, " MiB/h", detail)
    nodes = [size for part, size in memory.peaks.items() if part.startswith("node-")]
    detail = "resident, the SuperNode with all its processes while its client plays; the largest"
    yield Row("(k) memory of a SuperNode", max(nodes) / MIB, 1_024.0, False, " MiB", detail)
    detail = "resident, the SuperLink with all its processes and the server"
    yield Row(
        "(l) memory of the SuperLink",
        memory.peaks["superlink"] / MIB,
        1_536.0,
        False,
        " MiB",
        detail,
    )
    detail = f"the client's file; {disk[0]:,} B more are the SuperNode's own, once"
    yield Row("(m) disk of a client, a phase", disk[1], 1_200.0, False, " B", detail)
