"""What can be said of a run from its log, and done to it: status, withdraw, report."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from commands import Command
from fedbandits.federation import durable_log
from fedbandits.federation.coordinator import (
    Coordinator,
    Patience,
    Reply,
    Sent,
    Stop,
)
from fedbandits.federation.durable_log import DamagedLogError, DurableLog, read_log
from fedbandits.federation.flower.keys import fingerprint, make_node_key
from fedbandits.federation.followed import FollowedRun, LoggedRun
from fedbandits.federation.host import ClientHost, ClientInfo
from fedbandits.federation.local import LocalTransport, server_of
from fedbandits.federation.requests import RequestFolder, leave_request
from fedbandits.federation.run import header_of
from fedbandits.federation.served import begin_or_resume
from fedbandits.federation.status import (
    MOST_NAMES,
    ArmState,
    printable,
)
from fedbandits.federation.trial import Trial, read_trial
from fedbandits.protocol import (
    ArmWithdrawn,
    ClientsBound,
    Conclusion,
    MemoryLog,
    PhaseClosed,
    Reason,
    Recall,
    Refusal,
    Refused,
    Server,
    ServerState,
    Update,
    UpdateAccepted,
    answer_of,
)
from fedbandits.protocol.codec import decode
from fedbandits.report.chart import Plot
from fedbandits.run_page.charts import (
    arm_rows,
    phases_chart,
)
from fedbandits.run_page.page import run_html
from logged_runs import NASTY, TABLES, begun, closings, coins, cut, eventful, update

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


def test_what_went_wrong_is_said(tmp_path: Path, command: Command) -> None:
    path = eventful(tmp_path / "run.fedlog")
    done = command("status", path)
    assert "abandoned below the quorum, and not decided: phase 1" in done.out
    assert "ignored: liar" in done.out
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
    ends = [phase["end"] for phase in said["phases"]]
    assert ends == ["abandoned", "decided", "open"]
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
    assert "damaged and left out at the end of the log, as after a crash: 1 record" in done.out
    assert command("report", tail).code == 0
    assert "left out at the end" in (tmp_path / "report.html").read_text(encoding="utf-8")
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
    assert "contradict each other" in done.err


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
        assert "The request stays" in done.err
        assert done.out == ""
    finally:
        other.communicate(timeout=600)
    assert not any(isinstance(record, ArmWithdrawn) for record in read_log(path).records)
    (wanted,) = RequestFolder(path, 3)()
    assert wanted == ArmWithdrawn(arm=1, reason="harm")


@pytest.fixture
def bound(tmp_path: Path) -> Path:
    """The log of a run that goes on, with two clients on a node."""
    path = tmp_path / "run.fedlog"
    trial = read_trial(TABLES)
    with DurableLog(path, header_of(trial, "demo")) as log:
        server_of(trial, log, "demo").settle(f"SHA256:{'a' * 43}", ["north", "south"])
    return path


def test_moving_a_client_is_a_command_and_a_record(
    bound: Path, tmp_path: Path, command: Command
) -> None:
    key = make_node_key(tmp_path / "keys", "node").public
    done = command("rebind", bound, "north", "--node", key, "--reason", "its machine  was replaced")
    assert (done.code, done.err) == (0, "")
    to = fingerprint(key.read_bytes())
    assert read_log(bound).records[-1] == ClientsBound(
        node=to, clients=("north",), reason="its machine was replaced"
    )
    assert LoggedRun(bound).server.run_state.homes == {"north": to, "south": f"SHA256:{'a' * 43}"}
    assert f"moved to node {to}: north" in command("status", bound).out
    # A new key: all of a node's clients at once.
    done = command("rebind", bound, "--of", to, "--node", f"SHA256:{'b' * 43}", "--reason", "new")
    assert done.code == 0
    assert LoggedRun(bound).server.run_state.homes["north"] == f"SHA256:{'b' * 43}"


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="there is no ssh-keygen")
def test_a_node_is_known_by_what_ssh_keygen_prints(tmp_path: Path) -> None:
    key = make_node_key(tmp_path / "keys", "node").public
    said = subprocess.run(["ssh-keygen", "-lf", key], check=True, capture_output=True, text=True)
    assert said.stdout.split()[1] == fingerprint(key.read_bytes())


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["nort", "--node", f"SHA256:{'b' * 43}", "--reason", "x"], 'did you mean "north"'),
        (["north", "--node", "SHA256:short", "--reason", "x"], "ssh-keygen -lf prints"),
        (["north", "--node", f"SHA256:{'b' * 43}", "--reason", " "], "--reason: is empty"),
        (["--node", f"SHA256:{'b' * 43}", "--reason", "x"], "name the clients to move"),
        (
            ["--of", f"SHA256:{'c' * 43}", "--node", f"SHA256:{'b' * 43}", "--reason", "x"],
            "answers for no client",
        ),
    ],
)
def test_a_move_that_makes_no_sense_is_refused(
    bound: Path, command: Command, words: list[str], why: str
) -> None:
    done = command("rebind", bound, *words)
    assert done.code == 2
    assert why in done.err
    assert len(read_log(bound).records) == 1


def test_a_running_server_is_left_a_note_about_a_move(bound: Path, command: Command) -> None:
    with DurableLog(bound):
        done = command(
            *("rebind", bound, "north", "--node", f"SHA256:{'b' * 43}"),
            *("--reason", "moved", "--wait", "0.4"),
        )
    assert done.code == 1
    assert "The request stays" in done.err
    (wanted,) = RequestFolder(bound, 3)()
    assert wanted == ClientsBound(clients=("north",), node=f"SHA256:{'b' * 43}", reason="moved")
    server = server_of(read_trial(TABLES), run="demo")
    server.settle(f"SHA256:{'a' * 43}", ["north"])
    news: list[str] = []
    coordinator = Coordinator(
        server,
        LocalTransport([]),
        clock=time.monotonic,
        watch=lambda at: news.append(at.news),
        requests=lambda: [wanted],
    )
    coordinator._do_requests()
    assert server.run_state.homes["north"] == wanted.node
    assert news == [f"moved to node {wanted.node}: north"]


class SlowTransport(LocalTransport):
    """Clients that answer once they are let, and hear of recalls and the end before that."""

    always: tuple[type, ...] = (Conclusion, Recall)

    def __init__(self, hosts: Sequence[ClientHost]) -> None:
        super().__init__(hosts)
        self.open = threading.Event()

    def send(self, message: Sent, clients: Sequence[str]) -> None:
        if self.open.is_set() or isinstance(message, self.always):
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
        server = run.server
        with log:
            coordinator = Coordinator(
                server,
                transport,
                clock=time.monotonic,
                patience=Patience(resend=0.02),
                requests=RequestFolder(path, len(trial.arms)),
                watch=lambda _: began.set(),
            )
            coordinator.run()
            servers.append(server)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert began.wait(20)
        done = command("withdraw", path, "blue", "--reason", "  it  hurts ", "--wait", "20")
        assert done.code == 0
        assert "blue is withdrawn: the open phase continues without it" in done.out
        assert "all clients have confirmed" in done.out
        assert "asked the server" in done.err
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


class Empty(LocalTransport):
    def receive(self, timeout: float) -> list[Reply]:
        time.sleep(0.05)
        return []


def test_nobody_is_not_said_to_have_confirmed_a_withdrawal(
    tmp_path: Path, command: Command
) -> None:
    """While no node had connected, all of no clients had confirmed."""
    path, trial = tmp_path / "run.fedlog", read_trial(TABLES)
    began = threading.Event()

    def serve() -> None:
        log, run = begin_or_resume(trial, path)
        server = run.server
        with log:
            began.set()
            requests = RequestFolder(path, len(trial.arms))
            Coordinator(server, Empty(()), clock=time.monotonic, requests=requests).run()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert began.wait(20)
        done = command("withdraw", path, "blue", "--reason", "harm", "--wait", "20")
        assert done.code == 0, done.err
        assert "no client has connected yet" in done.out
        assert "confirmed" not in done.out
    finally:
        leave_request(path, Stop(reason="enough"))
        thread.join(60)


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
    server = run.server
    with log:
        for client in server.clients:
            assert server.receive(update(server, client)) is None
        server.close()
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
    server = run.server
    with log:
        for client in server.missing:
            assert server.receive(update(server, client)) is None
        server.close()
    status = LoggedRun(path).status()
    (blue,) = [arm for arm in status.arms if arm.name == "blue"]
    assert blue.state is ArmState.WITHDRAWN
    assert (blue.estimate, blue.low, blue.high) == (
        known.estimates["blue"],
        *known.intervals["blue"],
    )
    (plot,) = phases_chart(arm_rows(status.arms, "max"), LoggedRun(path).answers()).panels
    assert isinstance(plot, Plot)
    (withdrawn,) = [one for one in plot.series if "withdrawn" in one.label]
    assert withdrawn.x == [1]


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
    # Harm may be seen later, and if the other two were withdrawn it would be back.
    done = command("withdraw", path, "red", "--reason", "x")
    assert done.code == 0
    assert "will not come back" in done.out
    done = command("withdraw", path, "green", "--reason", "x")
    assert done.code == 0
    assert "the run is over, because one arm is left" in done.out
    assert "the answer is blue" in command("status", path).out.lower()


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
    with pytest.raises(DamagedLogError, match="record 5 has changed"):
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
