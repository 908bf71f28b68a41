"""A withdrawn option is given to nobody: in mid-phase, wherever a client is by then."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import Counter
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from coin_trial import TABLES
from commands import Command
from fedbandits.cli.up import table_of
from fedbandits.errors import ProtocolError
from fedbandits.federation.coordinator import LOOK, Bulletin, Coordinator, Stop
from fedbandits.federation.durable_log import read_log
from fedbandits.federation.flower import client as client_module
from fedbandits.federation.flower.server import serve
from fedbandits.federation.followed import LoggedRun
from fedbandits.federation.host import ClientHost, ClientInfo
from fedbandits.federation.kept_file import WorkbenchFile
from fedbandits.federation.last_word import best_arm
from fedbandits.federation.live import LiveTrial
from fedbandits.federation.live_store import LiveStore
from fedbandits.federation.local import ClientCode, LocalTransport, server_of
from fedbandits.federation.presence import Now
from fedbandits.federation.requests import leave_request
from fedbandits.federation.state_files import workbench_file
from fedbandits.federation.trial import load_trial, read_trial
from fedbandits.privacy.policy import Privacy, Quantize
from fedbandits.privacy.sampling import seeded_noise
from fedbandits.protocol import (
    ArmWithdrawn,
    Assignment,
    Client,
    Header,
    Reason,
    Recall,
    RecallConfirmed,
    Receipt,
    Refusal,
    RefusalError,
    Refused,
    Rejection,
    Release,
    RunEnded,
    Server,
    Update,
    UpdateAccepted,
    answer_of,
    arms_hash,
    conclusion_of,
)
from fedbandits.protocol.client import Slice
from fedbandits.protocol.turns import permuted_blocks
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.phased import PhasedRule
from flower_project import of_kind, write_project
from logged_runs import begun, update
from room import Room, config, three_nodes
from shop import LIVE, TRIAL, Shop, header, phase

pytestmark = pytest.mark.usefixtures("in_a_run")

ARMS = ("red", "green", "blue")
NOISY = Privacy(range=(0, 1), noise="gaussian", epsilon=5.0, delta=1e-6, level="user", releases=20)
ROUNDED = Privacy(range=(0, 1), quantize=Quantize(bits=8))


def rule(**changes: Any) -> PhasedRule:
    told: dict[str, Any] = {"n_arms": 3, "horizon": None, "noise": 0.5, "spread": 0.0}
    radius = fb.CertifiedRadius(delta=0.05)
    return fb.Fed1Ucb(pulls="20", clients=2, radius=radius).rule(Beliefs(**{**told, **changes}))


def collecting(privacy: Privacy | None = None) -> Server:
    server = Server(rule(), arms=ARMS, privacy=privacy)
    server.open(["a", "b"])
    return server


def client(name: str, privacy: Privacy | None = None, **more: Any) -> Client:
    rng = np.random.default_rng([7, *name.encode()])
    values = [0.9, 0.4, 0.5]
    return Client(
        name,
        more.pop("pull", lambda arm, n: [values[arm]] * n),
        privacy=privacy,
        noise=seeded_noise(rng),
        rng=rng,
        turns=permuted_blocks(1, name),
        **more,
    )


# What the server counts ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "rejection"),
    [
        ((20, 20, 20), None),
        ((0, 20, 20), None),
        ((7, 20, 20), None),
        ((21, 20, 20), Rejection.COUNTS),
        ((-1, 20, 20), Rejection.COUNTS),
        ((0, 19, 20), Rejection.COUNTS),
        ((0, 0, 20), Rejection.COUNTS),
    ],
)
def test_less_may_be_reported_of_what_was_withdrawn_in_this_phase_and_of_nothing_else(
    counts: tuple[int, ...], rejection: Rejection | None
) -> None:
    server = collecting()
    said = Update(header=server.header, phase=1, client="a", counts=counts, means=(0.5, 0.4, 0.3))
    if counts != (20, 20, 20):
        assert server.receive(said) is Rejection.COUNTS  # nothing is withdrawn yet
    server.withdraw(0, "harm")
    assert server.receive(said) is rejection


@pytest.mark.parametrize("privacy", [None, ROUNDED, NOISY])
def test_nothing_is_counted_of_it_whether_clients_heard_before_in_or_after_their_phase(
    privacy: Privacy | None,
) -> None:
    def played(when: str) -> tuple[Server, list[Client]]:
        server = collecting(privacy)
        clients = [client(name, privacy) for name in "ab"]
        early = server.assignment
        assert early is not None
        updates = [each.play(early) for each in clients] if when == "after" else []
        server.withdraw(0, "harm")
        late = server.assignment
        assert late is not None
        assert late.withdrawn == (0,)
        if when == "in":
            part = Slice(seconds=0.0, in_all=math.inf, clock=lambda: 0.0)
            for each in clients:
                with pytest.raises(RefusalError) as paused:
                    each.play(early, part)
                assert paused.value.refusal.why is Refused.PAUSED
        again = [each.play(late) for each in clients]
        assert not updates or again == updates  # the same word for word, and the same noise
        for said in again:
            assert said.counts == ((20 if when == "after" else 0), 20, 20)
            assert server.receive(said) is None
        server.close()
        return server, clients

    found = {when: played(when) for when in ("before", "in", "after")}
    for server, _ in found.values():
        assert server.run_state.counted.counts[0].tolist() == [0, 0]
        assert server.run_state.counted.counts[1:].tolist() == [[20, 20], [20, 20]]
        assert server.decision is not None
        assert not server.decision.active[0]
        assert "red was withdrawn (harm)" in answer_of(server).words()
    if privacy is None:
        decisions = {server.decision for server, _ in found.values()}
        assert len(decisions) == 1
    if privacy is NOISY:  # what was not sent was not spent
        spent = {when: clients[0].spent for when, (_, clients) in found.items()}
        assert spent["before"] == spent["in"] != spent["after"]


def test_a_client_goes_on_where_it_was_to_the_last_bit(tmp_path: Path) -> None:
    """In slices of one call each, in a new process every time, and with sums of squares."""
    assignment = Assignment(
        header=header(), phase=1, pulls=(40, 0, 30), release=Release(squares=True)
    )

    def outcomes(arm: int, n: int) -> list[float]:
        calls[arm] += n
        return [math.sin(1 + arm + calls[arm] + k) for k in range(n)]

    calls: Counter[int] = Counter()
    whole = client("a", pull=outcomes).play(assignment)
    calls.clear()
    part = Slice(seconds=0.0, in_all=math.inf, clock=lambda: 0.0)

    def in_a_new_process() -> Update | Refused:
        one = client("a", pull=outcomes, workbench=WorkbenchFile(tmp_path / "work"))
        try:
            return one.play(assignment, part)
        except RefusalError as error:
            return error.refusal.why

    answers = [in_a_new_process() for _ in range(70)]
    assert answers == [Refused.PAUSED] * 69 + [whole]
    assert calls == {0: 40, 2: 30}
    assert not (tmp_path / "work").exists()


def test_a_client_plays_one_run_at_a_time(tmp_path: Path) -> None:
    """Two runs at once replaced each other's unfinished phases, and pulled without end."""
    trial, seconds = read_trial(TABLES), count()
    part = Slice(seconds=3.0, in_all=600.0, clock=lambda: float(next(seconds)))

    def pull(arm: str, n: int, client: ClientInfo) -> list[float]:
        return [0.5] * n

    def asked(run: str) -> Update | Refusal:
        header = Header(run=run, epoch=1, arms=arms_hash(trial.arms))
        host = ClientHost(ClientInfo(name="a"), pull, trial, folder=tmp_path)
        return host.answer(Assignment(header=header, phase=1, pulls=(20, 20, 20)), part)

    first = asked("first")
    for _ in range(100):
        if isinstance(first, Update):
            break
        second = asked("second")
        assert isinstance(second, Refusal)
        assert (second.why, second.detail) == (Refused.BUSY, '"first" has a phase here')
        first = asked("first")
    assert isinstance(first, Update)
    # A run that has left a phase behind does not keep others away for long.
    second = asked("second")
    assert isinstance(second, Refusal)
    assert second.why is Refused.PAUSED
    file = workbench_file(tmp_path, "a")
    os.utime(file, (time.time() - 61.0,) * 2)
    third = asked("third")
    assert isinstance(third, Refusal)
    assert third.why is Refused.PAUSED


def test_a_phase_that_takes_too_long_in_all_is_given_up_without_another_pull() -> None:
    now = 0.0

    def slow(arm: int, n: int) -> list[float]:
        nonlocal now
        now += 4.0
        return [0.5] * n

    one = client("a", pull=slow)
    part = Slice(seconds=5.0, in_all=11.0, clock=lambda: now)
    assignment = Assignment(header=header(), phase=1, pulls=(50, 50))
    with pytest.raises(RefusalError):
        one.play(assignment, part)
    with pytest.raises((TimeoutError, RefusalError)):
        one.play(assignment, part)
    before = now
    with pytest.raises(TimeoutError, match="more than 11 s"):
        one.play(assignment, part)
    assert now <= before + 4.0


def test_an_assignment_that_comes_after_the_recall_does_not_bring_the_option_back(
    tmp_path: Path,
) -> None:
    trial = load_trial(write_project(tmp_path / "p"))
    pulled: list[str] = []

    def pull(arm: str, n: int, _: ClientInfo) -> list[float]:
        pulled.append(arm)
        return [0.5] * n

    def host() -> ClientHost:  # a process of its own for every message
        return ClientHost(ClientInfo(name="c"), pull, trial, folder=tmp_path)

    server = server_of(trial)
    early = server.open(["c"])
    server.withdraw(0, "harm")
    assert host().recall(server.recall).arms == (0,)
    answer = host().answer(early)
    assert isinstance(answer, Update)
    assert set(pulled) == {"green", "blue"}
    assert server.receive(answer) is None


# Live traffic -------------------------------------------------------------------------------------


def recall(shop: Shop, *arms: int) -> None:
    """Take options back as a process that begins and ends with the message."""
    path = shop.live.store.path
    store = LiveStore(path, "shop", shop.trial, clock=shop.time, durable=False)
    info = ClientInfo(name="shop")
    host = ClientHost(info, None, shop.trial, folder=shop.folder, live=store)
    assert host.recall(Recall(header=header(), arms=arms)).arms == arms


def test_from_the_next_unit_on_nobody_gets_it_and_the_rest_stays_balanced(shop: Shop) -> None:
    asked = phase(1, 20, 20, 20)
    shop.pending(asked)
    before = shop.come(25)
    recall(shop, 0)
    after = shop.come(60)
    assert "red" not in after.values()
    # Whoever had it gets another one from now on, and does not count a second time.
    red = [unit for unit, arm in before.items() if arm == "red"]
    assert all(shop.live.assign(unit) != "red" for unit in red)
    # The rest is as large as it was to be, in blocks of one unit of each.
    found = list(before.values()) + list(after.values())
    came = Counter(before.values())
    wanted = 40 - came["green"] - came["blue"]
    fresh = list(after.values())[:wanted]
    assert Counter(found[:25] + fresh)["green"] == Counter(found[:25] + fresh)["blue"] == 20
    pairs = [fresh[k : k + 2] for k in range(abs(came["green"] - came["blue"]), wanted - 1, 2)]
    assert all(sorted(pair) == ["blue", "green"] for pair in pairs)
    for unit, arm in {**before, **after}.items():
        counts = shop.live.record(unit, 1.0)
        assert counts == (unit in [*before, *list(after)[:wanted]] and unit not in red), arm
    said = shop.update(replace(asked, withdrawn=(0,)))
    assert said.counts == (0, 20, 20)
    assert said.means == (0.0, 1.0, 1.0)


def test_outcomes_of_a_withdrawn_option_are_not_waited_for(shop: Shop) -> None:
    asked = phase(1, 4, 4, 4)
    shop.pending(asked)
    for unit, arm in shop.come(12).items():
        if arm != "red":
            shop.live.record(unit, 0.5)
    assert "outcomes are waited for" in shop.pending(asked)
    recall(shop, 0)
    assert shop.update(asked).counts == (0, 4, 4)


def test_a_client_that_was_not_let_in_yet_obeys_too(shop: Shop) -> None:
    recall(shop, 2)
    assert set(shop.come(10).values()) == {"red", "green"}


def test_the_best_known_option_is_not_given_between_phases_either(shop: Shop) -> None:
    shop.pending(phase(1, 2, 2, 2))
    for unit in shop.come(6):
        shop.live.record(unit, 1.0)
    shop.update(phase(1, 2, 2, 2))
    recall(shop, 1)
    given = set(shop.come(20).values())
    assert given == {"red", "blue"}


# In the middle of a run ---------------------------------------------------------------------------


def test_a_recall_reaches_everybody_and_is_in_the_log(tmp_path: Path) -> None:
    trial = load_trial(write_project(tmp_path / "p"))

    def coin(arm: str, n: int, info: ClientInfo) -> list[float]:
        return [0.2 + 0.1 * ARMS.index(arm)] * n

    hosts = [ClientHost(ClientInfo(name=f"c{k}", number=k), coin, trial) for k in range(3)]
    server = server_of(trial)
    wanted: list[Any] = []

    def requests() -> list[Any]:
        found = (
            [ArmWithdrawn(arm=0, reason="harm")]
            if server.phase == 1 and not server.withdrawn
            else []
        )
        wanted.extend(found)
        return found

    transport = LocalTransport(hosts)
    news: list[Bulletin] = []
    Coordinator(
        server, transport, clock=transport.clock, requests=requests, watch=news.append
    ).run()
    assert wanted
    confirmed = {name for each in of_kind(server.log, RecallConfirmed) for name in each.clients}
    assert confirmed == {"c0", "c1", "c2"}
    assert any("3 clients have confirmed" in each.news for each in news)
    assert not news[-1].open


def test_pull_obeys_between_two_calls_of_a_phase_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real ServerApp and ClientApp: a request that is left while a node is busy.

    Version 0.1.0 pulled all 40 of the phase: "out from the next phase".
    """
    project = write_project(tmp_path / "p", pulls="40", interleave=True, max_phases=1)
    log = project / "run.fedlog"
    given: list[tuple[float, str]] = []
    asked_at = 0.0
    monkeypatch.setattr(client_module, "SLICE", 0.3)

    def pull(arm: str, n: int, _: ClientInfo) -> list[float]:
        nonlocal asked_at
        given.append((time.monotonic(), arm))
        if len(given) == 20:
            asked_at = time.monotonic()
            leave_request(log, ArmWithdrawn(arm=0, reason="harm"))
        time.sleep(0.02)
        return [0.5] * n

    monkeypatch.setattr(client_module, "load_client", lambda *_: ClientCode(pull=pull))
    serve(Room({0: {"project": str(project), "name": "client"}}), config(project, clients=1))
    records = read_log(log).records
    (out,) = of_kind(records, ArmWithdrawn)
    assert out.arm == 0
    last_red = max(at for at, arm in given if arm == "red")
    # One slice, one look of the server, and one call of pull, here without Flower's own time; and
    # some seconds for a machine that has other work.
    assert last_red - asked_at <= 0.3 + LOOK + 5.0
    arms = Counter(arm for _, arm in given)
    assert arms["red"] < 40
    assert arms["green"] == arms["blue"] == 40
    (accepted,) = of_kind(records, UpdateAccepted)
    assert accepted.update.counts == (0, 40, 40)
    assert of_kind(records, RecallConfirmed)
    assert LoggedRun(log).status().unconfirmed == ()


# Stopping -----------------------------------------------------------------------------------------


def test_stop_ends_an_open_phase_and_everybody_hears_it(tmp_path: Path) -> None:
    project = write_project(tmp_path / "p")
    log = project / "run.fedlog"
    room = Room(three_nodes(project))
    stopped = threading.Event()

    def mischief(message: Any, reply: Any) -> Any:
        if "phase" in message.metadata.message_type:
            if not stopped.is_set():
                leave_request(log, Stop(reason="the ethics board says so"))
                stopped.set()
            return None  # nobody reports
        return reply

    room.mischief = mischief
    serve(room, config(project))
    records = read_log(log).records
    (end,) = of_kind(records, RunEnded)
    assert (end.decision.reason, end.words) == (Reason.STOPPED, "the ethics board says so")
    status = LoggedRun(log).status()
    assert "the ethics board says so" in status.state_words()
    assert {kind for _, kind in room.asked} >= {"query.conclude"}
    assert best_arm(project / "state", "client-0") is None  # nothing was decided


def test_after_a_stop_no_unit_counts(shop: Shop) -> None:
    shop.pending(phase(1, 4, 4, 4))
    server = Server(rule(), arms=ARMS, run="run 1")
    server.open(["shop", "b"])
    server.stop(words="enough")
    with LiveStore(shop.live.store.path, "shop", TRIAL, clock=shop.time, durable=False) as store:
        store.conclude("run 1", conclusion_of(server).decision)
    assert shop.live.wanted() == 0
    (unit,) = shop.come(1)
    assert not shop.live.record(unit, 1.0)


def test_stop_and_withdraw_say_what_clients_know(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "run.fedlog"
    log, server = begun(path)
    with log:
        server.open(["c0", "c1"])
    done = command("withdraw", path, "red", "--reason", "rash")
    assert done.code == 0
    assert "the open phase continues without it" in done.out
    assert "no client knows of it" in done.out
    assert "withdrawal not confirmed yet by: c0, c1" in command("status", path).out
    done = command("stop", path, "--reason", "rash everywhere")
    assert done.code == 0
    assert "no client knows of it" in done.out
    assert "rash everywhere" in command("status", path).out
    again = command("stop", path, "--reason", "x")
    assert again.code == 2
    assert "already over" in again.err
    for name in ("withdraw", "stop"):
        said = " ".join(command(name, "--help").out.replace("│", " ").split())
        assert "within 1 second" in said
        assert "one call of pull" in said


# What is said of it -------------------------------------------------------------------------------


def test_one_option_that_is_left_is_not_called_several(tmp_path: Path) -> None:
    """Version 0.1.0 said "several options are left" of every run that ended undecided."""
    log, server = begun(tmp_path / "run.fedlog")
    with log:
        server.open(["c0", "c1"])
        for name in ("c0", "c1"):
            server.receive(update(server, name, (0.5, 0.51, 0.52)))
        server.close()
        server.open([f"d{k}" for k in range(server.wanted())])
        server.withdraw(0, "harm")
        server.withdraw(1, "harm")
        words = answer_of(server).words()
        assert "it goes on: one option is left" in words
        assert "several" not in words
        server.stop(words="enough")
        words = answer_of(server).words()
    assert "it was stopped (enough), and one option is left" in words
    assert "Left is blue." in words
    assert "several" not in words


def test_a_table_of_a_run_that_is_over_counts_no_reports() -> None:
    bulletin = {
        "phase": 2,
        "clients": 4,
        "reported": 0,
        "away": [],
        "left": 1,
        "bits": 9,
        "news": "it is over",
        "open": False,
    }
    assert (
        str(table_of(Now(bulletin=bulletin, arms=[], nodes=[], over=True)).title)
        == "phase 2 is over"
    )
    bulletin |= {"open": True, "reported": 3}
    title = str(table_of(Now(bulletin=bulletin, arms=[], nodes=[], over=False)).title)
    assert "3 of 4 clients have reported" in title


def test_intervals_of_a_rate_stay_in_its_range() -> None:
    """Version 0.1.0 gave intervals such as −0.01 to 1.049."""
    server = Server(rule(), arms=ARMS, limits=(0.0, 1.0))
    server.open(["a", "b"])
    for name in "ab":
        server.receive(
            Update(
                header=server.header,
                phase=1,
                client=name,
                counts=(20,) * 3,
                means=(0.02, 0.5, 0.99),
            )
        )
    server.close()
    widths = server.interval_widths(0.05)
    assert widths[0] > 0.02  # without a range they would leave it
    answer = answer_of(server)
    assert answer.intervals["red"][0] == 0.0
    assert answer.intervals["blue"][1] == 1.0
    assert all(0.0 <= low <= high <= 1.0 for low, high in answer.intervals.values())


def test_an_undecided_run_ends_with_3(tmp_path: Path, command: Command) -> None:
    """Version 0.1.0 ended with 0, as if there were an answer."""
    project = write_project(tmp_path / "p", max_phases=1)
    done = command("try", project, "--clients", "6")
    assert done.code == 3
    assert "best so far" in done.out


# Nobody is forgotten ------------------------------------------------------------------------------


def test_a_withdrawal_that_ends_the_run_reaches_those_who_were_not_let_in(tmp_path: Path) -> None:
    tables = {**TABLES, "arms": ["red", "blue"], "live": LIVE, "patience": {"clients": 3}}
    trial = read_trial(tables)
    hosts = [ClientHost(ClientInfo(name=name), None, trial, folder=tmp_path) for name in ("a", "b")]
    server = server_of(trial)
    transport = LocalTransport(hosts)  # a third one is waited for when somebody acts
    requests = [[ArmWithdrawn(arm=0, reason="harm")]]
    Coordinator(
        server,
        transport,
        clock=transport.clock,
        requests=lambda: requests.pop() if requests else [],
    ).run()
    assert server.run_state.recalled == {"a", "b"}
    for name in ("a", "b"):
        with LiveTrial(trial, client=name, state=tmp_path) as live:
            assert {live.assign(f"u{k}") for k in range(10)} == {"blue"}


def test_who_has_not_confirmed_is_named_when_the_run_is_over_and_if_it_was_not_let_in(
    tmp_path: Path, command: Command
) -> None:
    path = tmp_path / "run.fedlog"
    log, server = begun(path)
    with log:
        server.settle("SHA256:node", ["c0", "c1", "outside"])
        server.open(["c0", "c1"])
        server.withdraw(0, "harm")
        receipts = [
            Receipt(header=server.header, client=name, arms=(0,)) for name in ("c0", "outside")
        ]
        server.confirm(receipts[:1])
        assert LoggedRun(path).status().unconfirmed == ("c1", "outside")
        server.stop(words="enough")
        assert "not confirmed yet by: c1, outside" in command("status", path).out
        server.confirm(receipts)  # also after the end
    assert LoggedRun(path).status().unconfirmed == ("c1",)


def test_an_option_that_was_decided_against_can_be_withdrawn_and_does_not_come_back() -> None:
    server = Server(rule(noise=0.01), arms=ARMS)
    server.open(["a", "b"])
    for name in "ab":
        assert server.receive(update(server, name, (0.2, 0.8, 0.8))) is None
    server.close()
    assert server.left == 2
    server.withdraw(0, "harm was seen later")
    assert server.left == 2
    assert server.recall.arms == (0,)
    server.withdraw(1, "harm")
    assert server.decision is not None
    assert server.arms[server.decision.best] == "blue"
    assert not server.run_state.left[0]
    with pytest.raises(ProtocolError):
        server.withdraw(0, "twice")
