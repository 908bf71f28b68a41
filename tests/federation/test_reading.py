"""Reading the log of a run: it changes nothing, and needs no right to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fedbandits.cli.main import app
from fedbandits.federation.durable_log import DurableLog, read_log
from fedbandits.federation.local import try_trial
from fedbandits.federation.run import header_of
from fedbandits.federation.trial import read_trial
from fedbandits.protocol import Rejection, UpdateRejected

RUN = {"run": "demo"}
TRIAL: dict[str, Any] = {
    "title": "demo",
    "arms": ["red", "blue"],
    "pulls": "20",
    "admissions": "2^p",
    "radius": {"rule": "certified", "delta": 0.05},
    "assume": {"noise": 0.1, "spread": 0.1},
}

READ = """
import os
import sys
from fedbandits.federation.durable_log import has_begun, read_log
from pathlib import Path
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
content = read_log(sys.argv[1])
assert has_begun(Path(sys.argv[1]))
print(len(content.records), content.dropped)
"""


def numbered(n: int) -> UpdateRejected:
    return UpdateRejected(client=f"client {n}", phase=n, rejection=Rejection.PHASE)


def read_without_rights(path: Path) -> tuple[str, str]:
    """Return what a process says that may read a log and write nothing; root becomes nobody."""
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path)],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    return done.stdout, done.stderr


def states_of_a_log(folder: Path) -> dict[str, Path]:
    """Return logs of seven records: ended in order, being written, and what a crash leaves."""
    found = {}
    for name in ("ended", "written", "crashed", "without its index"):
        found[name] = folder / name / "run.fedlog"
        found[name].parent.mkdir()
    with DurableLog(found["ended"], RUN) as log:
        for number in range(7):
            log.append(numbered(number))
    with DurableLog(found["written"], RUN) as log:
        for number in range(7):
            log.append(numbered(number))
        for end in ("", "-wal", "-shm"):
            shutil.copyfile(f"{found['written']}{end}", f"{found['crashed']}{end}")
        for end in ("", "-wal"):
            shutil.copyfile(f"{found['written']}{end}", f"{found['without its index']}{end}")
    return found


def bytes_in(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {one.name: (one.read_bytes(), one.stat().st_mtime_ns) for one in folder.iterdir()}


@pytest.mark.skipif(os.name != "posix", reason="accounts and rights are those of POSIX")
@pytest.mark.parametrize("state", ["ended", "crashed", "without its index"])
def test_reading_never_writes_and_needs_no_right_to(state: str) -> None:
    """Of another account, or of a folder that nobody may write to.

    Version 0.1.0 let SQLite write beside the log, and called one damaged where it could not.
    """
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        Path(place).chmod(0o755)
        path = states_of_a_log(Path(place))[state]
        before = bytes_in(path.parent)
        assert len(read_log(path).records) == 7
        if state != "crashed":
            assert bytes_in(path.parent) == before
        assert set(bytes_in(path.parent)) == set(before)
        before = bytes_in(path.parent)
        for file in path.parent.iterdir():
            file.chmod(0o444)
        path.parent.chmod(0o555)
        assert read_without_rights(path) == ("7 0\n", "")
        path.parent.chmod(0o755)
        assert bytes_in(path.parent) == before


@pytest.mark.skipif(os.name != "posix", reason="accounts and rights are those of POSIX")
def test_another_account_reads_a_log_that_is_being_written() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        Path(place).chmod(0o755)
        path = Path(place) / "run.fedlog"
        with DurableLog(path, RUN) as log:
            for number in range(7):
                log.append(numbered(number))
            for file in Path(place).iterdir():
                file.chmod(0o444)
            assert read_without_rights(path) == ("7 0\n", "")
            log.append(numbered(7))
        assert len(read_log(path).records) == 8
        assert {file.name for file in Path(place).iterdir()} == {"run.fedlog", "run.fedlog.lock"}


def test_status_and_report_leave_nothing_beside_a_log(tmp_path: Path) -> None:
    trial = read_trial(TRIAL)
    path = tmp_path / "run.fedlog"
    with DurableLog(path, header_of(trial, "demo")) as log:
        try_trial(trial, lambda arm, n, _: [0.4 + 0.5 * (arm == "blue")] * n, 20, log=log)
    before = {file.name for file in tmp_path.iterdir()}
    for words in (["status", str(path)], ["report", str(path), "--out", str(tmp_path / "page")]):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
    assert {file.name for file in tmp_path.iterdir()} == before | {"page"}
