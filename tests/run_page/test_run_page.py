"""The page of a run: what it shows, and that what comes from a log is text."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import Command
from fedbandits.errors import InputError
from fedbandits.federation.course import PhaseEnd
from fedbandits.federation.durable_log import read_log
from fedbandits.federation.followed import FollowedRun, LoggedRun
from fedbandits.federation.local import server_of, try_trial
from fedbandits.federation.status import (
    MOST_PHASES,
    ArmState,
)
from fedbandits.federation.trial import Trial, read_trial
from fedbandits.protocol import (
    Answer,
    MemoryLog,
    answer_of,
)
from fedbandits.protocol.messages import PROTOCOL_VERSION
from fedbandits.report.chart import Plot, Rows, Series
from fedbandits.run_page.charts import (
    MOST_COLOURED,
    MOST_ROWS,
    arm_rows,
    intervals_chart,
    phases_chart,
)
from fedbandits.run_page.page import run_html
from fedbandits.run_page.tables import FEW_CLIENTS
from logged_runs import TABLES, closings, coins, cut, eventful, followed, played, update

# The page -----------------------------------------------------------------------------------------


class Tags(HTMLParser):
    """Collects the elements of a page, and the text of its tables."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.rows: list[list[str]] = []
        self.means: list[list[str]] = []
        self._table = self.rows
        self._cell = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        region = dict(attrs).get("aria-label")
        if region is not None:  # clients have a row in two tables
            self._table = self.means if region == "Means of clients" else self.rows
        if tag == "tr":
            self._table.append([])
        if tag in ("td", "th"):
            self._cell = True
            self._table[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._cell = False

    def handle_data(self, data: str) -> None:
        if self._cell:
            self._table[-1][-1] += data

    def row(self, name: str) -> list[str]:
        (found,) = [row for row in self.rows if row[0].split(" ")[0] == name]
        return found


def figures_of(page: str) -> dict[str, Any]:
    """Return the figures that a page draws."""
    return {
        key: json.loads(text)
        for key, text in re.findall(
            r'<script type="application/json" data-figure="(\w+)">(.*?)</script>', page
        )
    }


def test_the_page_of_a_finished_run(finished: Path, tmp_path: Path, command: Command) -> None:
    done = command("report", finished, "--out", tmp_path / "page")
    assert done.out == f"report: {tmp_path / 'page' / 'report.html'}\n"
    page = (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    run, content = LoggedRun(finished), read_log(finished)
    answer = answer_of(run.server)
    assert "The answer is <b>blue</b>" in page
    assert "This run goes on" not in page
    assert all(f"<li>{assumption}</li>" in page for assumption in answer.assumptions)
    assert answer.error is not None
    assert answer.error in page
    found = Tags(page)
    for client, bits in run.server.uplink_bits.items():
        assert f"{bits:,}" in found.row(client)
    assert f"{sum(run.server.uplink_bits.values()):,}" in found.row("all")
    figures = figures_of(page)
    assert set(figures) == {"estimates", "eliminations"}
    left, *out = figures["estimates"]["views"][""]["panels"][0]["rows"]
    assert (left["label"], left["value"]) == ("blue", float(f"{answer.estimates['blue']:.6g}"))
    assert [row["faint"] for row in out] == [True, True]
    assert f"protocol {PROTOCOL_VERSION}" in page
    assert content.header["versions"]["fedbandits"] in page
    assert "://" not in re.sub(r"<script.*?</script>", "", page, flags=re.S)


def test_the_page_is_beside_the_log_by_default(finished: Path, command: Command) -> None:
    assert command("report", finished).code == 0
    assert (finished.parent / "report.html").is_file()


def test_the_page_of_a_run_that_goes_on_is_honest(finished: Path, tmp_path: Path) -> None:
    first = closings(finished)[0]
    page = run_html(LoggedRun(cut(finished, tmp_path / "open.fedlog", first + 2)))
    assert "This run goes on." in page
    assert "Phase 2 is open: 1 of 6 clients has reported" in page
    assert "it goes on: several options are left" in page
    nothing = run_html(LoggedRun(cut(finished, tmp_path / "first.fedlog", 2)))
    assert "No phase was decided yet" in nothing
    assert figures_of(nothing) == {}
    assert "Eliminations over time" not in nothing


def test_what_comes_from_the_log_is_text(tmp_path: Path) -> None:
    """Names of clients and arms, and reasons, are anybody's."""
    page = run_html(LoggedRun(eventful(tmp_path / "run.fedlog")))
    found = Tags(page)
    assert "alert(1)" in page
    assert "<script>alert" not in page
    assert found.tags.count("img") == 2  # the figures
    assert "onerror" not in found.attributes
    assert "\x1b" not in page
    # Charts have the names as they are, in JSON that cannot end its script.
    names = [
        row["label"] for row in figures_of(page)["estimates"]["views"][""]["panels"][0]["rows"]
    ]
    assert any(name.startswith("<script>") for name in names)


def test_the_page_has_the_course_of_the_run(tmp_path: Path) -> None:
    page = run_html(LoggedRun(eventful(tmp_path / "run.fedlog")))
    found = Tags(page)
    assert "abandoned: below the quorum" in found.row("1")[0]
    assert found.row("1")[1:4] == ["4", "4", "1"]
    assert found.row("2")[1:4] == ["1", "5", "4"]
    assert "a server took the run over after phase 2: epoch 2" in page
    assert "green was withdrawn after phase 2" in page
    assert "now ignored" in found.row("liar")[0]
    assert "1 message came from who is not in the run" in page


def test_protected_means_are_said_to_be(tmp_path: Path, command: Command) -> None:
    changes = {"privacy": {"noise": "laplace", "epsilon": 200.0, "range": [0, 1]}}
    path = played(tmp_path / "run.fedlog", changes)
    assert command("report", path).code == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "laplace noise for epsilon = 200" in page
    assert "epsilon = 200 of 200" in page
    assert "the answer is about clipped outcomes" in page
    assert ">clipped</th>" in page


@pytest.fixture(scope="module")
def crowd() -> FollowedRun:
    """Return a run of 3,000 clients."""
    trial = read_trial(TABLES | {"admissions": "3000", "pulls": "10"})
    log = MemoryLog()
    server = server_of(trial, log)
    server.open([f"client {number}" for number in range(3000)])
    for number, client in enumerate(server.clients):
        if number == 2_345:
            server.receive(update(server, client, (np.inf, 0, 0)))
        server.receive(update(server, client))
    server.close()
    return followed("crowd", trial, log)


def test_thousands_of_clients_are_shortened_with_totals(crowd: FollowedRun) -> None:
    status = crowd.status()
    page = run_html(crowd)
    found = Tags(page)
    assert f"{FEW_CLIENTS} of 3,000 clients have a row" in page
    named = [row for row in found.rows if re.match(r"client \d+", row[0])]
    assert len(named) == FEW_CLIENTS
    # Who was rejected comes first.
    assert named[0][0].startswith("client 2345 ")
    assert named[0][6] == "1"
    (rest,) = [row for row in found.rows if row[0].endswith("clients more")]
    assert rest[0] == f"{3000 - FEW_CLIENTS:,} clients more"
    total = found.row("all")
    assert total[5] == f"{status.bits:,}" == f"{3000 * 3 * 64:,}"
    assert total[3] == f"{3000 * 30:,}"
    shown = sum(int(row[5].replace(",", "")) for row in (*named, rest))
    assert shown == status.bits
    assert len(status.as_dict()["clients"]) == 3000
    assert len(found.means) == 1 + FEW_CLIENTS


# Figures ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long_run() -> FollowedRun:
    """Return a run of 40 phases and 30 arms, of which one goes out in phase 30."""
    arms = [f"arm {number}" for number in range(30)]
    trial = read_trial(
        TABLES | {"arms": arms, "admissions": "20", "population": 20, "pulls": "100"}
    )
    log = MemoryLog()
    server = server_of(trial, log)
    for phase in range(1, 41):
        server.open([f"c{number}" for number in range(20)] if phase == 1 else [])
        means = [0.5] * 29 + [0.5 if phase < 28 else -20.0]
        for client in server.clients:
            assert server.receive(update(server, client, means)) is None
        server.close()
        if phase == 10:
            server.withdraw(3, "harm")
    return followed("long", trial, log)


def test_many_phases_keep_those_in_which_an_arm_went_out(
    long_run: FollowedRun,
) -> None:
    run = long_run
    answers = run.answers()
    phases = [answer.phase for answer in answers]
    status = run.status()
    (out,) = [arm for arm in status.arms if arm.state is ArmState.OUT]
    assert out.name == "arm 29"
    assert out.phase is not None
    assert 28 <= out.phase < 40
    assert {1, out.phase, 40} <= set(phases)
    assert len(phases) <= MOST_PHASES + 1
    assert phases == sorted(set(phases))
    assert answers[-1].intervals == answer_of(run.server).intervals


def test_the_last_answer_of_all_is_the_answer(finished: Path) -> None:
    run = LoggedRun(finished)
    answers = run.answers()
    phases = run.status().course.phases
    assert [answer.phase for answer in answers] == [
        each.phase for each in phases if each.end is PhaseEnd.DECIDED
    ]
    assert answers[-1] == answer_of(run.server)


def test_paths_end_where_arms_go_out(long_run: FollowedRun) -> None:
    run = long_run
    status = run.status()
    rows = arm_rows(status.arms, "max")
    answers: list[Answer] = run.answers()
    (plot,) = phases_chart(rows, answers).panels
    assert isinstance(plot, Plot)
    assert plot.x.log
    paths = [one for one in plot.series if one.width]
    assert len(paths) == 30
    ends = [one for one in plot.series if not one.width]
    coloured = [one for one in paths if one.label]
    assert len(ends) == len(coloured) == MOST_COLOURED
    for path, end in zip(coloured, ends, strict=True):
        assert (end.group, end.x[0], end.y[0]) == (path.label, path.x[-1], path.y[-1])
    assert len({one.beside for one in coloured}) == MOST_COLOURED

    def path_of(number: int) -> Series:
        # Grey lines come first.
        return [*coloured, *paths[: 30 - MOST_COLOURED]][number]

    lasts = {row.state: path_of(place).x[-1] for place, row in enumerate(rows)}
    assert lasts[ArmState.LEFT] == 40
    assert lasts[ArmState.OUT] == rows[-1].phase
    assert lasts[ArmState.WITHDRAWN] == 10
    (shown,) = intervals_chart(rows).panels
    assert isinstance(shown, Rows)
    assert len(shown.rows) == MOST_ROWS


def test_the_best_stands_first_whatever_the_goal(finished: Path) -> None:
    run = LoggedRun(finished)
    arms = run.status().arms
    assert [row.name for row in arm_rows(arms, "max")] == ["blue", "green", "red"]
    left = [replace(arm, state=ArmState.LEFT) for arm in arms]
    assert [row.name for row in arm_rows(left, "min")] == ["red", "green", "blue"]


def test_segments_and_changes_are_shown() -> None:
    log = MemoryLog()
    trial = read_trial({**TABLES, "segments": {"<b>north</b>": ["client-1*"], "south": ["x"]}})
    try_trial(trial, coins(), 40, log=log)
    run = followed("demo", trial, log)
    page = run_html(run)
    assert "&lt;b&gt;north&lt;/b&gt;" in page
    assert "other clients" in page
    assert "With a probability of 95 % all intervals of this table hold together" in page
    assert "unusual beyond" in page
    told = run.status().as_dict()
    assert [one["name"] for one in told["segments"]] == ["<b>north</b>", "south", "other clients"]
    assert not any(one["suspicious"] for one in told["drift"]["changes"].values())
    lied_to = read_trial({**trial.tables, "liars": 1})
    assert "Nothing can be said of segments" in run_html(started(lied_to))


def started(trial: Trial) -> FollowedRun:
    log = MemoryLog()
    try_trial(trial, coins(), 12, log=log)
    return followed("demo", trial, log)


def test_an_empty_segment_is_refused() -> None:
    with pytest.raises(InputError, match=r"segments\.north: is empty"):
        read_trial({**TABLES, "segments": {"north": []}})
