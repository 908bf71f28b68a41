"""Logs are read as they grow, by one reader for everybody, and nothing is ever written."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from fedbandits.federation import durable_log
from fedbandits.federation.followed import LoggedRun
from fedbandits.protocol import Record
from fedbandits.run_page.live import HEADINGS, LiveRun
from fedbandits.web.shell import parts
from fedbandits.web.watched import WatchedRun, logs_in
from logged_runs import NASTY, cut, eventful
from pages import Viewer, address_of, ask, served, wait_until
from staged import WARD, Staged, staged

LARGEST = 600_000


def everything_in(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(file.relative_to(folder)): (
            file.stat().st_mode,
            file.stat().st_mtime_ns,
            file.read_bytes() if file.is_file() else b"",
        )
        for file in sorted(folder.rglob("*"))
    }


def test_nothing_is_written_whoever_looks(tmp_path: Path) -> None:
    path = tmp_path / "run.fedlog"
    with staged(path, phases=2):
        pass
    before = everything_in(tmp_path)
    with served(tmp_path) as server:
        for ending in ("", "/clients?q=1"):
            assert ask(server, address_of(server, ending)).status == 200
        assert ask(server, "/metrics").status == 200
    assert everything_in(tmp_path) == before


def test_logs_are_opened_for_reading_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    connect = sqlite3.connect

    def noted(address: str, **settings: Any) -> sqlite3.Connection:
        opened.append(address)
        made: sqlite3.Connection = connect(address, **settings)
        return made

    with staged(tmp_path / "run.fedlog", phases=1) as run:
        monkeypatch.setattr(sqlite3, "connect", noted)
        with served(tmp_path) as server:
            run.opened(["clinic-4"])
            path = address_of(server)
            wait_until(lambda: "Phase 2 is open" in ask(server, path).text)
    assert opened
    assert all("?mode=ro" in address for address in opened)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_folder_that_cannot_be_written_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "run.fedlog"
    with staged(path, phases=2):
        tmp_path.chmod(0o555)
        try:
            with served(tmp_path) as server:
                assert "Four dressings" in ask(server, address_of(server)).text
        finally:
            tmp_path.chmod(0o755)


def test_only_new_records_are_read_however_many_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Record] = []
    take = LoggedRun.take

    def counted(run: LoggedRun, record: Record, at: str) -> None:
        taken.append(record)
        take(run, record, at)

    path = tmp_path / "run.fedlog"
    with staged(path, phases=2) as run:
        monkeypatch.setattr(LoggedRun, "take", counted)
        with served(path) as server:
            viewers = [Viewer(server, address_of(server, "/events")) for _ in range(5)]
            for viewer in viewers:
                viewer.next()
            before = len(taken)
            assert before == len(run.log)
            run.opened(["clinic-8"])
            run.report(["clinic-0"])
            for viewer in viewers:
                while "1 of 9 clients" not in viewer.next():
                    pass
                viewer.close()
            assert len(taken) - before == 2


def test_fifty_viewers_see_a_phase_being_decided(tmp_path: Path) -> None:
    with staged(tmp_path / "run.fedlog", phases=1) as run, served(tmp_path) as server:
        viewers = [Viewer(server, address_of(server, "/events")) for _ in range(50)]
        first = [set(json.loads(viewer.next())) for viewer in viewers]
        assert all(found >= set(HEADINGS) for found in first)
        run.phase(["clinic-4"])
        for viewer in viewers:
            while "After 2 phases" not in viewer.next():
                pass
        assert server.app.state.streams.open == 50
        for viewer in viewers:
            viewer.close()


def test_a_viewer_who_comes_back_gets_what_was_missed_and_no_more(tmp_path: Path) -> None:
    with staged(tmp_path / "run.fedlog", phases=1) as run, served(tmp_path) as server:
        page = ask(server, address_of(server)).text
        (version,) = re.findall(r'data-have="([^"]+)"', page)
        run.opened(["clinic-4"])
        watched = server.app.state.board.runs[address_of(server).rpartition("/")[2]]
        wait_until(lambda: "Phase 2 is open" in watched.parts.shown["phase"])
        viewer = Viewer(server, address_of(server, f"/events?have={version}"))
        missed = json.loads(viewer.next())
        viewer.close()
        assert "phase" in missed
        assert "estimates" not in missed
        # A server that was started again knows nothing of what it has sent before.
        viewer = Viewer(server, address_of(server, "/events?have=another-7"))
        assert set(json.loads(viewer.next())) >= set(HEADINGS)
        viewer.close()


def test_signs_of_life_alone_are_nothing_new(tmp_path: Path) -> None:
    with staged(tmp_path / "run.fedlog", phases=1) as run:
        run.opened(["clinic-4"])
        watched = WatchedRun(run.path, run.path.name)
        assert watched.refresh()
        for _ in range(3):
            run.tell()
            assert watched.refresh() is None
        run.report(["clinic-0"])
        found = watched.refresh()
        assert found is not None
        assert "1 of 5 clients has reported" in found["phase"]


def test_a_server_that_is_gone_is_said_so(tmp_path: Path) -> None:
    path = tmp_path / "run.fedlog"
    with staged(path, phases=1) as run:
        run.opened(["clinic-4"])
        assert "The server is running" in LiveRun.of(LoggedRun(path)).parts()["server"]
    said = LiveRun.of(LoggedRun(path)).parts()["server"]
    assert "No server is running" in said
    assert 'data-count="ago"' in said
    assert "fedbandits coordinate" in said


def test_a_damaged_log_is_said_so_and_read_again_when_it_is_restored(tmp_path: Path) -> None:
    path = tmp_path / "run.fedlog"
    with staged(path, phases=1):
        pass
    whole = path.read_bytes()
    with served(path) as server:
        path.write_bytes(b"no log at all")
        (run,) = server.app.state.board.runs.values()
        wait_until(lambda: run.problem)
        said = ask(server, address_of(server)).text
        assert "restore it from a copy" in said
        assert "After 1 phase" in said  # what was known is still shown
        assert 'fedbandits_unreadable{run="' in ask(server, "/metrics").text
        path.write_bytes(whole)
        wait_until(lambda: not run.problem)
        wait_until(lambda: "restore it" not in ask(server, address_of(server)).text)


def test_a_long_log_says_how_much_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.fedlog"
    with staged(path, phases=3):
        pass
    path.with_name("run.fedlog.checkpoint").unlink()
    monkeypatch.setattr(durable_log, "_TOLD_EVERY", 5)
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(WatchedRun, "_read", lambda _, done, of: told.append((done, of)))
    watched = WatchedRun(path, path.name)
    watched.refresh()
    assert [done for done, _ in told] == [5, 10, 15, 20, 25, 30]
    assert {of for _, of in told} == {30}


def test_a_run_that_has_not_begun_is_awaited(tmp_path: Path) -> None:
    path = tmp_path / "run.fedlog"
    with served(path) as server:
        assert "The run has not begun yet" in ask(server, address_of(server)).text
        with Staged(path):
            wait_until(lambda: "Four dressings" in ask(server, address_of(server)).text)


def test_a_folder_is_searched_and_links_are_not_followed(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    (inside / "deep" / "er").mkdir(parents=True)
    (inside / ".hidden").mkdir()
    outside.mkdir()
    for folder in (inside, inside / "deep" / "er", inside / ".hidden", outside):
        (folder / "a.fedlog").write_bytes(b"")
    (inside / "b.txt").write_bytes(b"")
    (inside / "link.fedlog").symlink_to(outside / "a.fedlog")
    (inside / "linked").symlink_to(outside)
    assert sorted(name for _, name in logs_in(inside)) == ["a.fedlog", "deep/er/a.fedlog"]


def test_new_runs_of_a_folder_are_listed(tmp_path: Path) -> None:
    with staged(tmp_path / "one.fedlog", phases=1), served(tmp_path) as server:
        viewer = Viewer(server, "/events")
        assert "one.fedlog" in viewer.next()
        with staged(tmp_path / "two.fedlog", 1, {"title": "Second"}):
            while "Second" not in viewer.next():
                pass
        viewer.close()
        page = ask(server, "/").text
        assert page.count('<a href="/run/') == 2
        for file in tmp_path.glob("two.fedlog*"):
            file.unlink()
        wait_until(lambda: ask(server, "/").text.count('<a href="/run/') == 1)


def test_names_are_text_whatever_is_in_them(tmp_path: Path) -> None:
    path = eventful(tmp_path / "run.fedlog")
    with served(tmp_path, allow_actions=True) as server:
        for where in ("/", address_of(server), address_of(server, "/clients")):
            said = ask(server, where, headers={"Authorization": f"Bearer {server.access.token}"})
            assert said.status == 200
            assert NASTY not in said.text
            for bad in ("<script>alert", "<img src=x", "\x1b"):
                assert bad not in said.text
        metrics = ask(server, "/metrics").text
        assert "\x1b" not in metrics
    assert path.exists()


def test_clients_are_found_by_name_and_state_page_by_page(tmp_path: Path) -> None:
    changes = {"admissions": "130"}
    with staged(tmp_path / "run.fedlog", changes=changes) as run, served(tmp_path) as server:
        run.opened([f"Clinic {number}" for number in range(130)])
        run.report([f"Clinic {number}" for number in range(100)])

        def rows(query: str) -> list[str]:
            text = ask(server, address_of(server, f"/clients?{query}")).text
            return re.findall(r'<th scope="row">(Clinic \d+)', text)

        wait_until(lambda: len(rows("state=missing")) == 30)
        assert len(rows("")) == 50
        assert rows("page=3") == [f"Clinic {number}" for number in range(100, 130)]
        assert rows("q=clinic+12") == ["Clinic 12", *(f"Clinic 12{k}" for k in range(10))]
        assert rows("q=clinic+12&state=reported") == ["Clinic 12"]
        assert rows("q=nobody") == []
        for odd in ("page=-1", "page=x", "page=%00", "state=none", "q=" + "x" * 500):
            assert ask(server, address_of(server, f"/clients?{odd}")).status == 200


def test_a_page_with_everything_weighs_less_than_600_kilobytes(tmp_path: Path) -> None:
    """A thousand clients, more phases than the journal shows, and long names."""
    changes = {
        "admissions": "1000",
        "arms": [f"option {number} {'x' * 40}" for number in range(12)],
        "assume": {"noise": 50.0, "spread": 5.0},
        "range": [-1000, 1000],
        "max_phases": 1000,
    }
    with staged(tmp_path / "run.fedlog", changes=changes) as run:
        run.opened([f"clinic {number} {'y' * 50}" for number in range(1000)])
        run.report(run.server.missing, means=[0.5] * 12)
        run.server.close()
        for _ in range(120):
            run.server.open([])
            run.report(run.server.missing[:1], means=[0.5] * 12)
            run.server.abandon()
        with served(tmp_path) as server:
            page = ask(server, address_of(server)).text
            linked = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
            assert set(linked) <= {f"/static/{name}" for name in parts()}
            everything = [page, *(ask(server, one).text for one in linked)]
            assert len(linked) >= 5
            assert sum(len(one.encode()) for one in everything) < LARGEST


def test_the_beginning_of_a_run_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "run.fedlog"
    with staged(path, phases=1):
        pass
    for records in (0, 1, 3):
        early = cut(path, tmp_path / f"{records}.fedlog", records)
        found = LiveRun.of(LoggedRun(early)).parts()
        assert set(found) == {*HEADINGS, "byline"}
        assert "nothing is known of the options" in found["verdict"]
        assert "not known before a phase is decided" in found["cost"]
    assert WARD["title"]
