"""What monitors read: each number is that of the log, in the format that Prometheus has."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path

import pytest

from fedbandits.federation.durable_log import read_log
from fedbandits.web.metrics import samples
from logged_runs import NASTY, eventful
from pages import ask, served
from staged import staged

LINE = re.compile(
    r'fedbandits_[a-z_]+(?:\{[a-z]+="(?:[^"\\\n]|\\["\\n])*"'
    r'(?:,[a-z]+="(?:[^"\\\n]|\\["\\n])*")*\})? [0-9.e+-]+(?:inf|nan)?'
)


def test_every_line_is_of_the_format(tmp_path: Path) -> None:
    eventful(tmp_path / "a.fedlog")
    with staged(tmp_path / "b.fedlog", 1, {"title": 'a "title" \\ of\nlines'}):
        pass
    with served(tmp_path) as server:
        said = ask(server, "/metrics")
    assert said.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert said.text.endswith("\n")
    types: dict[str, str] = {}
    for line in said.text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name not in types, "the samples of a metric stand together"
            types[name] = kind
        elif not line.startswith("# HELP "):
            assert LINE.fullmatch(line), line
            assert line.partition("{")[0].partition(" ")[0] == list(types)[-1]
    assert all((kind == "counter") == name.endswith("_total") for name, kind in types.items())
    assert NASTY not in said.text


def test_numbers_are_those_of_the_log(tmp_path: Path) -> None:
    path = eventful(tmp_path / "run.fedlog")
    with served(path) as server:
        (run,) = server.app.state.board.runs.values()
        opened = datetime.fromisoformat(run.live.status.course.phases[-1].opened).timestamp()
        found = {
            (one.name, one.labels.get("reason", "")): one.value
            for one in samples(run, now=opened + 90)
        }
    assert found["phase", ""] == 3
    assert found["clients", ""] == 6
    assert (found["clients_reported", ""], found["clients_missing", ""]) == (0, 5)
    assert found["open_phase_age_seconds", ""] == pytest.approx(90, abs=0.01)
    assert found["records", ""] == len(read_log(path).records)
    assert found["log_bytes", ""] == path.stat().st_size
    assert found["reports_total", ""] == 5
    assert found["report_bytes_total", ""] == 5 * 3 * 8
    assert found["rejected_updates_total", "not_finite"] == 2
    assert found["rejected_updates_total", "client"] == 1
    assert found["rejected_updates_total", "duplicate"] == 1
    assert found["rejected_updates_total", "signature"] == 0
    assert (found["up", ""], found["finished", ""], found["unreadable", ""]) == (0, 0, 0)
    assert ("privacy_rho_spent", "") not in found


def test_the_budget_is_there_if_there_is_one(tmp_path: Path) -> None:
    privacy = {"range": [0, 1], "noise": "gaussian", "epsilon": 8.0, "delta": 1e-6}
    with (
        staged(tmp_path / "run.fedlog", 0, {"privacy": privacy, "pulls": "400"}),
        served(tmp_path) as server,
    ):
        (run,) = server.app.state.board.runs.values()
        found = {one.name: one.value for one in samples(run)}
    assert found["privacy_epsilon_budget"] == 8.0
    assert found["privacy_epsilon_spent"] == 0.0
    assert found["up"] == 0  # it has given no sign of life


def test_health_counts_what_can_be_read(tmp_path: Path) -> None:
    with staged(tmp_path / "a.fedlog", 1):
        pass
    (tmp_path / "b.fedlog").write_bytes(b"something else")
    with served(tmp_path) as server:
        said = ask(server, "/health")
    assert said.status == 200
    assert json.loads(said.text)["runs"] == 2
    assert json.loads(said.text)["read"] == 1
