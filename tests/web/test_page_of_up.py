"""The page of a real federation, which ``up`` starts: also while its server is killed with -9."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fedbandits.federation.flower.processes import LocalFederation
from flower_project import CLIENTS, process_of, write_project
from pages import wait_until
from visits import open_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# In seconds. Waiting costs nothing when it succeeds, and machines are busy at times.
LONG = 480.0
FEDBANDITS = str(Path(sys.executable).parent / "fedbandits")


@pytest.mark.slow
def test_a_federation_is_watched_to_its_verdict_although_its_server_is_killed(
    browser: Browser, tmp_path: Path
) -> None:
    project = write_project(tmp_path / "own")
    for client in range(CLIENTS):
        (project / "hold" / f"client-{client}").touch()
    output = tmp_path / "said.txt"
    with output.open("w", encoding="utf-8") as said:
        up = subprocess.Popen(
            [FEDBANDITS, "up", str(project), "--clients", str(CLIENTS), "--nodes", "1"],
            stdout=said,
            stderr=subprocess.STDOUT,
        )

    def address() -> list[str]:
        return re.findall(r"page: (\S+)", output.read_text(encoding="utf-8"))

    try:
        wait_until(address)
        seen = open_page(browser, address()[0])
        assert "The run has not begun yet" in seen.text("notice")
        seen.wait_until(lambda: "0 of 2 clients have reported" in seen.text("phase"), LONG)
        seen.wait_until(lambda: "The server is running" in seen.text("server"))
        (folder,) = (project / ".federation").iterdir()
        os.kill(process_of(LocalFederation(folder), "flwr-serverapp"), signal.SIGKILL)
        seen.wait_until(lambda: "No server is running: the last one died" in seen.text("server"))
        # It is resumed from the log, and the page that was open all the time says so.
        seen.wait_until(lambda: "A server took the run over" in seen.text("journal"), LONG)
        seen.wait_until(lambda: "The server is running" in seen.text("server"), LONG)
        for file in (project / "hold").iterdir():
            file.unlink()
        seen.wait_until(lambda: "The answer is blue" in seen.text("verdict"), LONG)
        assert up.wait(LONG) == 0, output.read_text(encoding="utf-8")
        # The page ends with the command, and keeps what it has shown.
        seen.wait_until(lambda: seen.page.locator("#live.over, #live.lost").count())
        assert "The answer is blue" in seen.text("verdict")
        assert not [one for one in seen.complaints if "ERR_" not in one]
    finally:
        up.send_signal(signal.SIGTERM)
        up.wait()
