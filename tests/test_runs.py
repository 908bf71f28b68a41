"""What can be said of a run from its log, and done to it: status, withdraw, report."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedbandits.cli.main import main
from fedbandits.experiments.figures.arm_intervals import (
    MOST_ROWS,
    arm_intervals_figure,
    arm_intervals_page_figure,
    arm_rows,
)
from fedbandits.experiments.figures.arms_over_phases import (
    MOST_COLOURED,
    arm_paths,
    arms_over_phases_figure,
    arms_over_phases_page_figure,
)
from fedbandits.experiments.report.run_page import run_html
from fedbandits.experiments.report.run_tables import FEW_CLIENTS
from fedbandits.federation import durable_log
from fedbandits.federation.coordinator import Coordinator, Patience
from fedbandits.federation.course import PhaseEnd
from fedbandits.federation.durable_log import DamagedLogError, DurableLog, read_log
from fedbandits.federation.followed import FollowedRun, LoggedRun
from fedbandits.federation.host import ClientHost, ClientInfo, PullByName
from fedbandits.federation.local import LocalTransport, server_of, try_trial
from fedbandits.federation.requests import RequestFolder
from fedbandits.federation.run import begin_or_resume, header_of
from fedbandits.federation.status import (
    MOST_NAMES,
    MOST_PHASES,
    ArmState,
    printable,
)
from fedbandits.federation.trial import Trial, read_trial
from fedbandits.protocol import (
    Answer,
    ArmWithdrawn,
    Assignment,
    Conclusion,
    MemoryLog,
    PhaseClosed,
    Reason,
    Refusal,
    Refused,
    Rejection,
    Server,
    ServerState,
    Update,
    UpdateAccepted,
    answer_of,
)
from fedbandits.protocol.codec import decode

RATES = {"red": 0.3, "green": 0.6, "blue": 0.75}
TABLES: dict[str, Any] = {
    "title": "colours",
    "arms": list(RATES),
    "pulls": "40",
    "admissions": "2^p",
    "radius": {"rule": "certified", "delta": 0.05},
    "assume": {"noise": 0.5, "spread": 0.05},
}
# Text that would do something if it were not escaped.
NASTY = "<script>alert(1)</script><img src=x onerror=alert(2)>\x1b[2J</b>"


def coins() -> PullByName:
    """Return a pull whose outcomes depend on client, arm and how often it was pulled before."""
    streams: dict[tuple[int, str], np.random.Generator] = {}

    def pull(arm: str, n: int, client: ClientInfo) -> list[float]:
        key = [client.number, list(RATES).index(arm)]
        rng = streams.setdefault((client.number, arm), np.random.default_rng(key))
        return [float(u < RATES[arm]) for u in rng.random(n)]

    return pull


def played(path: Path, changes: dict[str, Any] | None = None, clients: int = 40) -> Path:
    """Play a trial to its end, with a log in a file."""
    trial = read_trial(TABLES | (changes or {}))
    with DurableLog(path, header_of(trial, trial.title)) as log:
        try_trial(trial, coins(), clients, log=log)
    return path


def cut(path: Path, to: Path, n_records: int) -> Path:
    """Write the beginning of a log into another file: the run as it was then."""
    content = read_log(path)
    with DurableLog(to, content.header) as log:
        for record in content.records[:n_records]:
            log.append(record)
    return to


def begun(path: Path, changes: dict[str, Any] | None = None) -> tuple[DurableLog, Server]:
    log, run = begin_or_resume(read_trial(TABLES | (changes or {})), path)
    return log, run.server


def update(server: Server, client: str, means: Sequence[float] = (0.2, 0.45, 0.8)) -> Update:
    """Return what a client sends in the open phase."""
    assignment = server.assignment
    assert assignment is not None
    return Update(
        header=server.header,
        phase=assignment.phase,
        client=client,
        counts=assignment.pulls,
        means=tuple(m if n else 0.0 for m, n in zip(means, assignment.pulls, strict=True)),
    )


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


Command = Callable[..., Done]


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Command]:
    """Run the command in this process, as its script does."""
    handler = signal.getsignal(signal.SIGTERM)

    def run(*words: str | Path) -> Done:
        monkeypatch.setattr(sys, "argv", ["fedbandits", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return Done(int(end.value.code or 0), said.out, said.err)

    yield run
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played(tmp_path_factory.mktemp("runs") / "run.fedlog")


def closings(path: Path) -> list[int]:
    """Return how many records a log holds after each decision."""
    records = read_log(path).records
    return [n for n, record in enumerate(records, 1) if isinstance(record, PhaseClosed)]


# Status -------------------------------------------------------------------------------------------


def test_a_finished_run_is_told_with_its_answer(finished: Path, command: Command) -> None:
    done = command("status", finished)
    run, content = LoggedRun(finished), read_log(finished)
    assert done.code == 0
    assert "it is over" in done.out
    assert answer_of(run.server).words() in done.out
    (blue,) = re.findall(r"^blue +(\S+) +(\S+) to (\S+) +the answer$", done.out, re.M)
    answer = answer_of(run.server)
    expected = (answer.estimates["blue"], *answer.intervals["blue"])
    assert [float(number) for number in blue] == pytest.approx(expected, rel=1e-3)
    assert f"{len(run.server.clients):,} clients in" in done.out
    assert f"{sum(run.server.uplink_bits.values()):,} bits" in done.out
    assert content.times[0][:10] in done.out


def test_json_says_the_same_and_nothing_else(finished: Path, command: Command) -> None:
    done = command("status", finished, "--json")
    said = json.loads(done.out)
    run, content = LoggedRun(finished), read_log(finished)
    server = run.server
    assert (said["run"], said["title"], said["state"]) == ("colours", "colours", "finished")
    assert (said["began"], said["wrote"]) == (content.times[0], content.times[-1])
    assert said["answer"]["winner"] == "blue"
    assert said["answer"]["words"] == answer_of(server).words()
    assert {client["name"]: client["bits"] for client in said["clients"]} == server.uplink_bits
    accepted = [record.update for record in content.records if isinstance(record, UpdateAccepted)]
    assert sum(client["pulls"] for client in said["clients"]) == sum(
        sum(sent.counts) for sent in accepted
    )
    assert sum(phase["reported"] for phase in said["phases"]) == len(accepted)
    arms = {arm["name"]: arm for arm in said["arms"]}
    assert (arms["red"]["state"], arms["blue"]["state"]) == ("out", "left")
    first_without = next(
        record.decision.phase
        for record in content.records
        if isinstance(record, PhaseClosed) and not record.decision.active[0]
    )
    assert arms["red"]["phase"] == first_without


def test_an_open_phase_says_who_is_missing(finished: Path, tmp_path: Path) -> None:
    """Cut after each record: what is said is what the server of these records knows."""
    content = read_log(finished)
    records, trial = content.records, read_trial(content.header["trial"])
    run = FollowedRun("colours", trial)
    for n in range(len(records)):
        server = server_of(trial, MemoryLog(records[:n]), "colours")
        status = run.status()
        assert status.state is server.state
        assert status.missing == server.missing
        assert status.bits == sum(
            record.update.payload_bits
            for record in records[:n]
            if isinstance(record, UpdateAccepted)
        )
        if server.state is ServerState.COLLECTING:
            assert sorted((*status.reported, *status.missing)) == sorted(server.clients)
        json.dumps(status.as_dict(), allow_nan=False)
        run.take(records[n], content.times[n])
    last = cut(finished, tmp_path / "cut.fedlog", closings(finished)[-1] - 3)
    words = LoggedRun(last).status().state_words()
    run = LoggedRun(last)
    assert len(run.server.missing) == 2
    assert words.endswith(f"have reported; missing: {', '.join(run.server.missing)}")


def test_many_names_are_shortened(tmp_path: Path, command: Command) -> None:
    log, server = begun(tmp_path / "run.fedlog", {"admissions": "20"})
    with log:
        server.open([f"c{number}" for number in range(20)])
        server.receive(update(server, "c3"))
    done = command("status", tmp_path / "run.fedlog")
    assert "phase 1 is open: 1 of 20 clients has reported; missing: c0, c1, c2, c4," in done.out
    assert f"and {19 - MOST_NAMES} more" in done.out


def test_a_run_without_a_record_is_a_run(tmp_path: Path, command: Command) -> None:
    log, _ = begun(tmp_path / "run.fedlog")
    log.close()
    assert "no phase was opened yet" in command("status", tmp_path / "run.fedlog").out
    said = json.loads(command("status", tmp_path / "run.fedlog", "--json").out)
    assert (said["began"], said["answer"], said["phase"]) == (None, None, 0)
    assert all(arm["estimate"] is None for arm in said["arms"])


EQUAL = (0.5, 0.5, 0.5)


def eventful(path: Path) -> Path:
    """Return a run with everything in it: lies, strangers, an abandoned phase, a restart."""
    changes = {"quorum": {"fraction": 0.9}, "quarantine_after": 2, "admissions": "4", "pulls": "20"}
    log, server = begun(path, changes | {"arms": ["red", "green", NASTY]})
    with log:
        server.open(["a", "b", NASTY, "liar"])
        for _ in range(2):
            assert server.receive(update(server, "liar", (np.nan, 0, 0))) is Rejection.NOT_FINITE
        assert server.receive(update(server, "stranger")) is Rejection.CLIENT
        assert server.receive(update(server, NASTY, EQUAL)) is None
        server.abandon()
        server.open(["c"])
        for client in ("a", "b", NASTY, "c"):
            assert server.receive(update(server, client, EQUAL)) is None
        assert server.receive(update(server, "a")) is Rejection.DUPLICATE
        server.close()
    trial = read_trial(read_log(path).header["trial"])
    log, run = begin_or_resume(trial, path)
    with log:
        run.server.withdraw(1, NASTY)
        run.server.open(["d"])
    return path


def test_what_went_wrong_is_said(tmp_path: Path, command: Command) -> None:
    path = eventful(tmp_path / "run.fedlog")
    done = command("status", path)
    assert "abandoned below the quorum, and not decided: phase 1" in done.out
    assert "not listened to any more: liar" in done.out
    assert "1 restart of the server; this is epoch 2" in done.out
    assert "4 updates did not count" in done.out
    assert "already counted: 1" in done.out
    assert "phase 3 is open: 0 of 5 clients have reported" in done.out
    # What a name holds does nothing to the terminal.
    assert printable(done.out.replace("\n", "")) == done.out.replace("\n", "")
    said = json.loads(command("status", path, "--json").out)
    assert said["rejections"] == {"NOT_FINITE": 2, "CLIENT": 1, "DUPLICATE": 1}
    assert said["abandoned"] == [1]
    assert said["quarantined"] == ["liar"]
    assert [one["epoch"] for one in said["restarts"]] == [2]
    (green,) = [arm for arm in said["arms"] if arm["name"] == "green"]
    assert (green["state"], green["phase"], green["reason"]) == ("withdrawn", 2, NASTY)
    outcomes = [phase["outcome"] for phase in said["phases"]]
    assert outcomes == ["abandoned", "decided", "open"]
    assert [phase["reported"] for phase in said["phases"]] == [1, 4, 0]


def test_a_damaged_tail_is_said_and_a_damaged_middle_refused(
    finished: Path, tmp_path: Path, command: Command
) -> None:
    n = len(read_log(finished).records)
    tail = cut(finished, tmp_path / "tail.fedlog", n)
    with sqlite3.connect(tail) as database:
        database.execute("UPDATE records SET body = 'x' WHERE number = ?", (n,))
    done = command("status", tail)
    assert done.code == 0
    assert "1 record at the end of the log is damaged and left out" in done.out
    assert command("report", tail).code == 0
    assert "damaged and left out" in (tmp_path / "report.html").read_text(encoding="utf-8")
    middle = cut(finished, tmp_path / "middle.fedlog", n)
    with sqlite3.connect(middle) as database:
        database.execute("UPDATE records SET body = 'x' WHERE number = 2")
    for words in (["status"], ["report"], ["withdraw", "red", "--reason", "x"]):
        done = command(words[0], middle, *words[1:])
        assert (done.code, done.out) == (2, "")
        assert "record 2 is damaged or missing" in done.err
        assert len(done.err.splitlines()) == 1


def test_no_log_is_a_mistake_of_the_user(tmp_path: Path, command: Command) -> None:
    (tmp_path / "text").write_text("not a log, but long enough for one", encoding="utf-8")
    for name in ("nothing", "text"):
        done = command("status", tmp_path / name)
        assert done.code == 2
        assert done.err.startswith(f"error: {tmp_path / name}: ")


def test_records_that_do_not_follow_are_refused(tmp_path: Path, command: Command) -> None:
    trial = read_trial(TABLES)
    with DurableLog(tmp_path / "run.fedlog", header_of(trial, "x")) as log:
        log.append(UpdateAccepted(replace(_some_update(trial), phase=1)))
    done = command("status", tmp_path / "run.fedlog")
    assert done.code == 2
    assert "do not follow from each other" in done.err


def _some_update(trial: Trial) -> Update:
    server = server_of(trial)
    server.open(["a"])
    return update(server, "a")


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (lambda server: server.stop(), "somebody has stopped it"),
        (lambda server: server.stop(Reason.QUORUM), "too few clients answer"),
        (
            lambda server: server.refuse(
                Refusal(header=server.header, phase=1, client="a", why=Refused.BUDGET)
            ),
            "a cannot go on: its privacy budget is spent",
        ),
    ],
)
def test_a_run_may_end_without_a_decision(
    tmp_path: Path, command: Command, end: Callable[[Server], object], words: str
) -> None:
    path = tmp_path / "run.fedlog"
    log, server = begun(path)
    with log:
        server.open(["a", "b"])
        end(server)
    done = command("status", path)
    assert f"it is over: {words}; no phase was decided" in done.out
    assert command("report", path).code == 0
    assert "nothing is known of the options" in (tmp_path / "report.html").read_text("utf-8")


def test_withdrawals_may_leave_one_arm_of_which_nothing_is_known(tmp_path: Path) -> None:
    path = tmp_path / "run.fedlog"
    log, server = begun(path)
    with log:
        server.withdraw(0, "harm")
        server.withdraw(1, "harm")
    status = LoggedRun(path).status()
    assert status.finished
    assert status.answer is None
    assert "blue is all that withdrawals have left" in status.state_words()
    assert "<p>red was withdrawn (harm).</p>" in run_html(LoggedRun(path))


# A log that is being written ----------------------------------------------------------------------

HOLD = """
import sys
from fedbandits.federation.durable_log import DurableLog
with DurableLog(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_status_and_withdraw_beside_another_process(
    finished: Path, tmp_path: Path, command: Command
) -> None:
    path = cut(finished, tmp_path / "run.fedlog", closings(finished)[0])
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert command("status", path).code == 0
        assert command("report", path).code == 0
        # Who holds it takes no notes: it stays, and the next server has it.
        done = command("withdraw", path, "green", "--reason", "harm", "--wait", "0.4")
        assert done.code == 1
        assert "The note stays" in done.err
        assert done.out == ""
    finally:
        other.communicate(timeout=20)
    assert not any(isinstance(record, ArmWithdrawn) for record in read_log(path).records)
    (wanted,) = RequestFolder(path, 3)()
    assert (wanted.arm, wanted.reason) == (1, "harm")


class SlowTransport(LocalTransport):
    """Clients that answer once they are let."""

    def __init__(self, hosts: Sequence[ClientHost]) -> None:
        super().__init__(hosts)
        self.open = threading.Event()

    def send(self, message: Assignment | Conclusion, clients: Sequence[str]) -> None:
        if self.open.is_set() or isinstance(message, Conclusion):
            super().send(message, clients)

    def receive(self, timeout: float) -> list[Any]:
        found = super().receive(timeout)
        if not found:
            time.sleep(0.01)
        return found


def test_a_server_that_runs_takes_the_arm_out(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "run.fedlog"
    trial = read_trial(TABLES)
    hosts = [ClientHost(ClientInfo(name=f"c{n}", number=n), coins(), trial) for n in range(20)]
    transport, began = SlowTransport(hosts), threading.Event()
    servers: list[Server] = []

    def serve() -> None:
        log, run = begin_or_resume(trial, path)
        with log:
            coordinator = Coordinator(
                run.server,
                transport,
                clock=time.monotonic,
                patience=Patience(resend=0.02),
                requests=RequestFolder(path, len(trial.arms)),
                watch=lambda _: began.set(),
            )
            coordinator.run()
            servers.append(run.server)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert began.wait(20)
        done = command("withdraw", path, "blue", "--reason", "  it  hurts ", "--wait", "20")
        assert done.code == 0
        assert "blue is withdrawn: out from the next phase" in done.out
        assert "was told" in done.err
        words = command("status", path).out
        # Nothing was decided with it.
        assert re.search(r"^blue +– +– +withdrawn in phase 1: it hurts$", words, re.M)
    finally:
        transport.open.set()
        thread.join(60)
    assert not thread.is_alive()
    (server,) = servers
    assert server.decision is not None
    assert server.arms[server.decision.best] == "green"
    assert "blue was withdrawn (it hurts): all of this is about the rest" in (
        command("status", path).out
    )


# Withdraw -----------------------------------------------------------------------------------------


def test_without_a_server_the_arm_is_out_at_once(
    finished: Path, tmp_path: Path, command: Command
) -> None:
    path = cut(finished, tmp_path / "run.fedlog", 1)
    done = command("withdraw", path, "green", "--reason", "complaints")
    assert done.code == 0
    record = read_log(path).records[-1]
    assert record == ArmWithdrawn(arm=1, reason="complaints")
    # The run goes on without it.
    log, run = begin_or_resume(read_trial(TABLES), path)
    with log:
        for client in run.server.clients:
            assert run.server.receive(update(run.server, client)) is None
        run.server.close()
    done = command("status", path)
    assert "withdrawn in phase 1: complaints" in done.out


def test_a_withdrawn_arm_is_shown_as_it_was_known_then(
    finished: Path, tmp_path: Path, command: Command
) -> None:
    """In the middle of a phase, whose reports are then in no estimate of it."""
    first = closings(finished)[0]
    path = cut(finished, tmp_path / "run.fedlog", first + 2)
    known = answer_of(LoggedRun(cut(finished, tmp_path / "then.fedlog", first)).server)
    assert command("withdraw", path, "blue", "--reason", "harm").code == 0
    log, run = begin_or_resume(read_trial(TABLES), path)
    with log:
        for client in run.server.missing:
            assert run.server.receive(update(run.server, client)) is None
        run.server.close()
    status = LoggedRun(path).status()
    (blue,) = [arm for arm in status.arms if arm.name == "blue"]
    assert blue.state is ArmState.WITHDRAWN
    assert (blue.estimate, blue.low, blue.high) == (
        known.estimates["blue"],
        *known.intervals["blue"],
    )
    paths = arm_paths(arm_rows(status.arms, "max"), LoggedRun(path).answers())
    (withdrawn,) = [one for one in paths if one.state is ArmState.WITHDRAWN]
    assert withdrawn.phases == [1]


def test_what_cannot_be_withdrawn_is_refused(
    finished: Path, tmp_path: Path, command: Command
) -> None:
    path = cut(finished, tmp_path / "run.fedlog", 1)
    (tmp_path / "over.fedlog").write_bytes(finished.read_bytes())
    refused = [
        (path, "gren", "x", 'did you mean "green"'),
        (path, "green", "  ", "is empty; say why"),
        (tmp_path / "over.fedlog", "blue", "x", "the run is over"),
    ]
    assert command("withdraw", path, "green", "--reason", "harm").code == 0
    refused.append((path, "green", "x", "was withdrawn before (harm)"))
    before = read_log(path).records
    for log, arm, reason, words in refused:
        done = command("withdraw", log, arm, "--reason", reason)
        assert done.code == 2
        assert words in done.err
    assert read_log(path).records == before
    assert command("withdraw", path, "red").code == 2  # no reason at all
    # Now one is left in the open phase.
    assert command("withdraw", path, "red", "--reason", "harm").code == 0
    done = command("withdraw", path, "blue", "--reason", "harm")
    assert done.code == 2
    assert "is the last one left" in done.err


def test_an_arm_that_was_decided_against_stays_out(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "run.fedlog"
    log, server = begun(path, {"admissions": "40"})
    with log:
        server.open([f"c{number}" for number in range(40)])
        for client in server.clients:
            assert server.receive(update(server, client, (0.1, 0.78, 0.8))) is None
        assert server.close().active == (False, True, True)
    done = command("withdraw", path, "red", "--reason", "x")
    assert done.code == 2
    assert "is out already" in done.err


# The page -----------------------------------------------------------------------------------------


class Tags(HTMLParser):
    """Collects the elements of a page, and the text of its tables."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.rows: list[list[str]] = []
        self._cell = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self._cell = True
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._cell = False

    def handle_data(self, data: str) -> None:
        if self._cell:
            self.rows[-1][-1] += data

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
    left, out = figures["estimates"]["data"]
    assert left["x"] == [answer.estimates["blue"]]
    assert len(out["x"]) == 2
    assert "protocol 1" in page
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
    # Plotly, too, takes some tags for tags.
    drawn = json.dumps(figures_of(page))
    assert "&lt;script" in drawn
    assert "<script" not in drawn
    assert "<img" not in drawn


def test_the_page_has_the_course_of_the_run(tmp_path: Path) -> None:
    page = run_html(LoggedRun(eventful(tmp_path / "run.fedlog")))
    found = Tags(page)
    assert "abandoned: below the quorum" in found.row("1")[0]
    assert found.row("1")[1:4] == ["4", "4", "1"]
    assert found.row("2")[1:4] == ["1", "5", "4"]
    assert "a server took the run over after phase 2: epoch 2" in page
    assert "green was withdrawn after phase 2" in page
    assert "not listened to any more" in found.row("liar")[0]
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


def followed(name: str, trial: Trial, records: MemoryLog) -> FollowedRun:
    run = FollowedRun(name, trial)
    for n, record in enumerate(records):
        run.take(record, f"2026-01-01T00:{n // 60 % 60:02}:{n % 60:02}.000+00:00")
    return run


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
        each.phase for each in phases if each.outcome is PhaseEnd.DECIDED
    ]
    assert answers[-1] == answer_of(run.server)


def test_paths_end_where_arms_go_out(long_run: FollowedRun) -> None:
    run = long_run
    status = run.status()
    rows = arm_rows(status.arms, "max")
    answers: list[Answer] = run.answers()
    paths = arm_paths(rows, answers)
    assert len(paths) == 30
    assert sum(path.colour is not None for path in paths) == MOST_COLOURED
    by_state = {path.state: path for path in paths}
    assert by_state[ArmState.LEFT].phases[-1] == 40
    assert by_state[ArmState.OUT].phases[-1] == rows[-1].phase
    assert by_state[ArmState.WITHDRAWN].phases[-1] == 10
    still = arms_over_phases_figure(paths).axes[0]
    assert still.get_xscale() == "log"
    drawn = arms_over_phases_page_figure(paths)
    assert drawn["layout"]["xaxis"]["type"] == "log"
    assert len(drawn["data"]) == 30
    assert len(arm_intervals_page_figure(rows)["layout"]["yaxis"]["tickvals"]) == MOST_ROWS
    assert len(arm_intervals_figure(rows).axes[0].get_yticks()) == MOST_ROWS


def test_the_best_stands_first_whatever_the_goal(finished: Path) -> None:
    run = LoggedRun(finished)
    arms = run.status().arms
    assert [row.name for row in arm_rows(arms, "max")] == ["blue", "green", "red"]
    left = [replace(arm, state=ArmState.LEFT) for arm in arms]
    assert [row.name for row in arm_rows(left, "min")] == ["red", "green", "blue"]


# New records only ---------------------------------------------------------------------------------


def test_a_refresh_reads_what_is_new_and_nothing_else(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = read_log(finished)
    path = tmp_path / "run.fedlog"
    read: list[Any] = []

    def counted(kind: Any, said: Any, where: str = "message") -> Any:
        read.append(said)
        return decode(kind, said, where)

    with DurableLog(path, content.header) as log:
        run = LoggedRun(path)
        monkeypatch.setattr(durable_log, "decode", counted)
        for number, record in enumerate(content.records, start=1):
            log.append(record)
            run.refresh()
            assert len(read) == number
        run.refresh()
    assert len(read) == len(content.records)
    again = LoggedRun(path)
    # The times differ by when the copy was written, and by nothing else.
    assert run.status().as_dict() == again.status().as_dict()
    assert run.answers() == again.answers()
    assert run.server.snapshot() == LoggedRun(finished).server.snapshot()


def test_a_log_that_was_replaced_is_not_followed_any_further(
    finished: Path, tmp_path: Path
) -> None:
    path = cut(finished, tmp_path / "run.fedlog", 5)
    run = LoggedRun(path)
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM records WHERE number > 2")
    with pytest.raises(DamagedLogError, match="record 5 is another one than before"):
        run.refresh()


def test_a_log_of_the_first_version_is_refused_in_a_sentence(
    finished: Path, tmp_path: Path, command: Command
) -> None:
    path = cut(finished, tmp_path / "run.fedlog", 5)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE header SET value = '1' WHERE key = 'format'")
    done = command("status", path)
    assert (done.code, done.out) == (2, "")
    assert "is a log of format 1, and this version of fedbandits reads format 2" in " ".join(
        done.err.split()
    )


def test_an_arm_that_is_back_is_left_again(tmp_path: Path) -> None:
    changes = {"admissions": "1", "population": 1, "pulls": "400", "range": [0, 1], "assume": {}}
    log, server = begun(tmp_path / "run.fedlog", changes)
    with log:
        server.open(["a"])
        server.receive(update(server, "a", (0.76, 0.82, 0.9)))
        server.close()
        states = [arm.state for arm in LoggedRun(log.path).status().arms]
        assert states == [ArmState.OUT, ArmState.LEFT, ArmState.LEFT]
        server.withdraw(2, "harm")
        run = LoggedRun(log.path)
        states = [arm.state for arm in run.status().arms]
        assert states == [ArmState.LEFT, ArmState.LEFT, ArmState.WITHDRAWN]
        server.open([])
        server.receive(update(server, "a", (0.2, 0.9, 0.0)))
        server.close()
    run.refresh()
    status = run.status()
    assert [arm.state for arm in status.arms] == [
        ArmState.OUT,
        ArmState.LEFT,
        ArmState.WITHDRAWN,
    ]
    assert [phase.dropped for phase in status.course.phases] == [("red",), ("red",)]
    assert status.arms[0].phase == 2
