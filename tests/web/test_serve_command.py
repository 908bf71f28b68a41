"""The command ``serve``: what it prints, what it refuses, and how it ends."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from commands import Command
from staged import staged


def test_it_prints_its_address_and_ends_by_ctrl_c(tmp_path: Path) -> None:
    with staged(tmp_path / "run.fedlog", phases=1):
        pass
    words = ("serve", str(tmp_path), "--no-open", "--port", "0", "--allow-actions")
    served = subprocess.Popen(
        [sys.executable, "-m", "fedbandits", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert served.stdout is not None
        said = served.stdout.readline()
        (address,) = re.findall(r"page: (http://127\.0\.0\.1:\d+/\?token=\S{32,})\n", said)
        with urlopen(f"{address.partition('?')[0]}health", timeout=60) as answer:
            assert answer.status == 200
        served.send_signal(signal.SIGINT)
        _, errors = served.communicate(timeout=60)
    finally:
        served.kill()
    assert served.returncode == 130
    assert errors == "interrupted; the page has ended\n"


def test_mistakes_are_named(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = command("serve", tmp_path / "nowhere", "--no-open")
    assert done.code == 2
    assert "is not there; name the log of a run, or a folder with logs" in done.err
    monkeypatch.setenv("FEDBANDITS_TOKEN", "short")
    done = command("serve", tmp_path, "--no-open")
    assert done.code == 2
    assert "use at least 16" in done.err
    monkeypatch.setattr("fedbandits.cli.serve.find_spec", lambda _: None)
    done = command("serve", tmp_path, "--no-open")
    assert done.code == 2
    assert 'pip install "fedbandits[web]"' in done.err
