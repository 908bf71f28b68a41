"""The program ``flwr``, called again and again in one process: loading it takes a second.

Run as a module, this file is that process: it takes the words of a command in a line of JSON, and
gives its exit code and what it has printed in another.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from fedbandits.errors import FedbanditsError, InputError

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}
"""Flower sends no news home, looks for none, and installs nothing."""

_PATIENCE = 60.0
_ENDS = 2.0


class FlowerError(FedbanditsError):
    """A process of Flower did not do what it should."""


class FlowerCommand:
    """The program ``flwr`` for one SuperLink.

    Parameters
    ----------
    superlink : str, optional
        Its name in Flower's configuration; the default one if there is none.
    environment : mapping, optional
        Of the process; this one's by default.
    """

    def __init__(
        self, superlink: str | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self._superlink = [] if superlink is None else [superlink]
        self._environment = {**(os.environ if environment is None else environment), **QUIET}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process; commands wait until it is ready."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self._environment,
                start_new_session=True,  # Ctrl-C is for the parent
            )

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        end_process(process, _ENDS)

    def register(self, keys: Iterable[Path]) -> None:
        """Tell the SuperLink which nodes may connect: by their public keys."""
        for key in keys:
            code, out = self._call("supernode", "register", str(key), *self._superlink)
            if code or '"success": false' in out:
                raise FlowerError(f"{key.stem} cannot be registered: {_end_of(out)}")

    def run(self, app: Path, config: Mapping[str, str | int]) -> int:
        """Start an app; return the number of its run."""
        words = ("--run-config", as_config(config), "--format", "json")
        _, out = self._call("run", str(app), *self._superlink, *words)
        try:
            said: dict[str, Any] = json.loads(out)
            return int(said["run-id"])
        except (ValueError, KeyError, TypeError):
            raise FlowerError(f"the run does not start: {_end_of(out)}") from None

    def status_of(self, run: int) -> str:
        """Return what Flower says of a run: its status, and why it ended."""
        words = ("--run-id", str(run), "--format", "json")
        _, out = self._call("list", *self._superlink, *words)
        try:
            return str(json.loads(out)["runs"][0]["status"])
        except (ValueError, KeyError, TypeError, IndexError):
            raise FlowerError(f"nothing is known of run {run}: {_end_of(out)}") from None

    def _call(self, *words: str) -> tuple[int, str]:
        """Return the exit code of a command, and what it has printed."""
        self.start()
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise FlowerError("flwr does not start")
        try:
            process.stdin.write(json.dumps(words).encode() + b"\n")
            process.stdin.flush()
            with selectors.DefaultSelector() as waiting:
                waiting.register(process.stdout, selectors.EVENT_READ)
                line = process.stdout.readline() if waiting.select(_PATIENCE) else None
        except OSError:
            line = b""
        if not line:
            self.close()
            why = "has ended" if line is not None else f"does not answer in {_PATIENCE:g} s"
            raise FlowerError(f"flwr {words[0]}: the program {why}")
        code, out = json.loads(line)
        return int(code), str(out)


def end_process(process: subprocess.Popen[bytes], patience: float) -> None:
    """Wait until a process ends, and kill it if it takes too long."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(patience)
    process.kill()
    process.wait()


def as_config(config: Mapping[str, str | int]) -> str:
    """Return key-value pairs as Flower's options take them.

    Examples
    --------
    >>> as_config({"name": "clinic", "clients": 3})
    'name="clinic" clients=3'
    """
    return " ".join(f"{key}={json.dumps(value)}" for key, value in config.items())


def as_options(options: Mapping[str, object]) -> list[str]:
    """Return the options of a program as its words.

    Examples
    --------
    >>> as_options({"--host": "127.0.0.1", "--port": 9092})
    ['--host', '127.0.0.1', '--port', '9092']
    """
    return [str(word) for option in options.items() for word in option]


def _end_of(out: str) -> str:
    return " ".join(out.split())[-500:]


def _program() -> Callable[[], object]:
    """Return ``flwr`` as Flower has installed it."""
    for point in entry_points(group="console_scripts", name="flwr"):
        found: Callable[[], object] = point.load()
        return found
    raise InputError("flwr", 'is not installed; pip install "fedbandits[flower]"')


def _answer_commands() -> None:
    """Run commands until there are no more of them."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    program = _program()
    with tempfile.TemporaryFile() as printed:
        os.dup2(printed.fileno(), 1)
        os.dup2(printed.fileno(), 2)
        for line in sys.stdin:
            printed.seek(0)
            printed.truncate()
            sys.argv = ["flwr", *json.loads(line)]
            code: object = 0
            try:
                program()
            except SystemExit as end:
                code = end.code
            except Exception as error:
                code = 1
                sys.stdout.write(f"{type(error).__name__}: {error}\n")
            sys.stdout.flush()
            sys.stderr.flush()
            printed.seek(0)
            out = printed.read().decode(errors="replace")
            answers.write(json.dumps([code if type(code) is int else int(bool(code)), out]) + "\n")
            answers.flush()


if __name__ == "__main__":
    _answer_commands()
