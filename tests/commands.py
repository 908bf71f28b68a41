"""The command: in a process of its own, and in this one."""

from __future__ import annotations

import contextlib
import io
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from fedbandits.cli.main import main


def in_a_process(*words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "fedbandits", *map(str, words)],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=600,
        check=False,
    )


def command(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command in this process, which takes a second less."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        pytest.MonkeyPatch.context() as patch,
        warnings.catch_warnings(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setattr(sys, "argv", ["fedbandits", *map(str, words)])
        warnings.simplefilter("default")
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


@dataclass(frozen=True)
class Done:
    """What the command has returned and printed."""

    code: int
    out: str
    err: str


Command = Callable[..., Done]
"""The fixture ``command``: takes the words of a command line."""
