"""The switch of a site: obeyed at once, without a server; and what it does to promises."""

from __future__ import annotations

import json
import stat
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from commands import Command
from fedbandits.federation import HaltedError
from fedbandits.federation.coordinator import Coordinator, Patience
from fedbandits.federation.durable_log import read_log
from fedbandits.federation.flower.client import NodePlan
from fedbandits.federation.flower.client import _played as play_until
from fedbandits.federation.flower.server import serve
from fedbandits.federation.followed import LoggedRun
from fedbandits.federation.halts import halt_of, lift_halts, read_halts, set_halt
from fedbandits.federation.host import ClientHost, ClientInfo
from fedbandits.federation.last_word import best_arm
from fedbandits.federation.local import LocalTransport, server_of
from fedbandits.federation.state_files import halts_file
from fedbandits.federation.trial import load_trial, read_trial
from fedbandits.protocol import (
    ClientHalted,
    Halt,
    PhaseClosed,
    Quorum,
    Refusal,
    Refused,
    Rejection,
    Server,
    Update,
    UpdateAccepted,
    answer_of,
)
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.guarantees import Assumption, Status
from fedbandits.rules.phased import PhasedRule
from fedbandits.rules.reports import Reports
from fedbandits.run_page.page import run_html
from flower_project import of_kind, write_project
from kept_promises import GAMES, is_kept
from room import Hall, Room, config, three_nodes
from shop import Shop, concluded, phase

pytestmark = pytest.mark.usefixtures("in_a_run")

ARMS = ("red", "green", "blue")
HARM = "a rash on the ward"


# Pulls --------------------------------------------------------------------------------------------


def test_the_next_call_of_pull_obeys_and_the_server_is_told(tmp_path: Path) -> None:
    trial = load_trial(write_project(tmp_path / "p", interleave=True))
    pulled: list[str] = []

    def pull(arm: str, n: int, info: ClientInfo) -> list[float]:
        if info.name == "c1":
            pulled.append(arm)
            if len(pulled) == 8:
                set_halt(tmp_path, client="c1", arm="red", reason=HARM)
        return [0.5] * n

    hosts = [
        ClientHost(ClientInfo(name=name), pull, trial, folder=tmp_path) for name in ("c0", "c1")
    ]
    server = server_of(trial)
    assignment = server.open(["c0", "c1"])
    before = server.run_state.guarantee
    updates = [host.answer(assignment) for host in hosts]
    assert "red" not in pulled[8:]
    assert pulled.count("green") == pulled.count("blue") == 10
    said = updates[1]
    assert isinstance(said, Update)
    assert (said.counts, said.halted) == ((0, 10, 10), (0,))
    assert said.halt == Halt(arms=(0,), reason=HARM)
    assert [server.receive(each) for each in updates] == [None, None]
    assert of_kind(server.log, ClientHalted) == [ClientHalted(client="c1", arms=(0,), reason=HARM)]
    # What is proven rests on it from the same record on.
    assert before.condition(Assumption.HALTED_ANYWAY) is None
    condition = server.run_state.guarantee.condition(Assumption.HALTED_ANYWAY)
    assert condition is not None
    assert condition.status is Status.UNVERIFIABLE
    server.close()
    assert Assumption.HALTED_ANYWAY.value in answer_of(server).words()
    assert server.run_state.counted.counts[0].tolist() == [10, 0]
    # Lifted, and told with the next message.
    lift_halts(tmp_path)
    again = hosts[1].answer(server.open([f"d{k}" for k in range(server.wanted())]))
    assert isinstance(again, Update)
    assert again.counts == (10, 10, 10)
    server.receive(again)
    assert of_kind(server.log, ClientHalted)[-1].arms == ()
    assert server.run_state.halts == {}


def test_of_a_halted_option_nothing_may_be_reported() -> None:
    server = Server(_rule(), arms=ARMS)
    server.open(["a"])
    said = Update(
        header=server.header,
        phase=1,
        client="a",
        counts=(20, 20, 20),
        means=(0.1, 0.2, 0.3),
        halted=(0,),
    )
    assert server.receive(said) is Rejection.COUNTS
    assert server.receive(replace(said, halted=(7,))) is Rejection.COUNTS
    assert server.receive(replace(said, counts=(0, 0, 20))) is Rejection.COUNTS
    assert server.receive(replace(said, halt="x")) is Rejection.FORM  # type: ignore[arg-type]
    assert server.receive(replace(said, counts=(0, 20, 20))) is None


def _rule() -> PhasedRule:
    beliefs = Beliefs(n_arms=3, horizon=None, noise=0.5, spread=0.0)
    return fb.Fed1Ucb(pulls="20", clients=1, radius=fb.CertifiedRadius(delta=0.05)).rule(beliefs)


@pytest.mark.parametrize("fraction", [0.5, 1.0])
def test_a_client_that_is_halted_altogether_is_missing(tmp_path: Path, fraction: float) -> None:
    trial = replace(
        load_trial(write_project(tmp_path / "p")), quorum=Quorum(fraction=fraction), max_phases=1
    )
    trial = replace(trial, patience=Patience(deadline=100, grace=0, resend=10, abandoned=1))

    def pull(arm: str, n: int, info: ClientInfo) -> list[float]:
        assert info.name == "c1"
        return [0.5] * n

    set_halt(tmp_path, reason=HARM)
    hosts = [
        ClientHost(ClientInfo(name="c0"), pull, trial, folder=tmp_path),
        ClientHost(ClientInfo(name="c1"), pull, trial),
    ]
    said = hosts[0].answer(server_of(trial).open(["c0", "c1"]))
    assert isinstance(said, Refusal)
    assert (said.why, said.detail) == (Refused.HALTED, HARM)
    server = server_of(trial)
    transport = LocalTransport(hosts)

    class Passing(LocalTransport):
        def receive(self, timeout: float) -> list[Any]:
            found = super().receive(timeout)
            self.now += 0.0 if found else timeout
            return found

    transport = Passing(hosts)
    Coordinator(server, transport, clock=transport.clock, patience=trial.patience).run()
    assert of_kind(server.log, ClientHalted)[0].arms == (0, 1, 2)
    closed = of_kind(server.log, PhaseClosed)
    if fraction == 0.5:  # the others are enough: nobody waits for a halt to be lifted
        assert len(closed) == 1
        assert transport.now < 100
        assert server.run_state.guarantee.condition(Assumption.HALTED_ANYWAY) is not None
    else:
        assert not closed
        assert transport.now >= 100


def test_it_is_told_over_flower_and_shown(tmp_path: Path) -> None:
    project = write_project(tmp_path / "p")
    (project / "state").mkdir()
    set_halt(project / "state", client="client-3", arm="red", reason=HARM)
    serve(Room(three_nodes(project)), config(project))
    run = LoggedRun(project / "run.fedlog")
    assert [each.client for each in of_kind(read_log(project / "run.fedlog").records, ClientHalted)]
    status = run.status()
    assert f"halted at client-3: red ({HARM})" in status.words()
    assert json.loads(json.dumps(status.as_dict()))["halts"][0]["client"] == "client-3"
    assert HARM in run_html(run)
    accepted = of_kind(read_log(project / "run.fedlog").records, UpdateAccepted)
    silent = [each.update for each in accepted if each.update.client == "client-3"]
    assert all(each.counts[0] == 0 for each in silent)


def test_a_client_that_fails_or_has_not_begun_lifts_nothing(tmp_path: Path) -> None:
    """The log said that it had, whenever its turn did not come within the slice of a node."""
    project = write_project(tmp_path / "p")
    broken = "def pull(arm, n, client):\n    return 1 / 0\n"
    (project / "client.py").write_text(broken, encoding="utf-8")
    (project / "state").mkdir()
    set_halt(project / "state", arm="red", reason=HARM)
    hall = Hall(Room(three_nodes(project)), load_trial(project), abandoned=1)
    hall.run()
    told = of_kind(hall.server.log, ClientHalted)
    assert {(each.arms, each.reason) for each in told} == {((0,), HARM)}
    node = NodePlan({"project": str(project), "name": "client", "clients": 1})
    over = time.monotonic() - 1.0
    late = play_until(node, node.clients[0], phase(1, 10, 10, 10), over, 1.0)
    assert late.halt == Halt(arms=(0,), reason=HARM)
    halts_file(project / "state").write_text("{", encoding="utf-8")
    late = play_until(node, node.clients[0], phase(1, 10, 10, 10), over, 1.0)
    assert late.halt is not None
    assert late.halt.arms == (0, 1, 2)


# Live traffic -------------------------------------------------------------------------------------


def test_the_next_unit_obeys_without_any_message(shop: Shop) -> None:
    asked = phase(1, 10, 10, 10)
    shop.pending(asked)
    before = shop.come(10)
    set_halt(shop.folder, arm="red", reason=HARM)
    after = shop.come(40)
    assert "red" not in after.values()
    red = [unit for unit, arm in before.items() if arm == "red"]
    assert all(shop.live.assign(unit) != "red" for unit in red)
    for unit in (*before, *after):
        shop.live.record(unit, 1.0)
    said = shop.update(asked)
    assert (said.counts, said.halted, said.halt) == (
        (0, 10, 10),
        (0,),
        Halt(arms=(0,), reason=HARM),
    )
    # Lifted in this phase it is back in the next one.
    lift_halts(shop.folder, arm="red")
    shop.pending(phase(2, 4, 4, 4))
    assert set(shop.come(12).values()) == set(ARMS)


def test_a_site_that_is_halted_gives_nothing_and_goes_on_when_that_is_lifted(shop: Shop) -> None:
    asked = phase(1, 4, 4, 4)
    shop.pending(asked)
    first = shop.come(5)
    set_halt(shop.folder, client="shop", reason=HARM)
    for unit in (*first, "somebody new"):
        with pytest.raises(HaltedError, match=f"{HARM}.*give what you give without it"):
            shop.live.assign(unit)
    said = shop.answer(asked)
    assert isinstance(said, Refusal)
    assert (said.why, said.halt) == (Refused.HALTED, Halt(arms=(0, 1, 2), reason=HARM))
    lift_halts(shop.folder)
    rest = shop.come(7)
    for unit in (*first, *rest):
        assert shop.live.record(unit, 1.0)
    assert shop.update(asked).counts == (4, 4, 4)


def test_what_is_not_understood_halts_everything(shop: Shop) -> None:
    set_halt(shop.folder, arm="rde", reason=HARM)  # who has typed this wants something out
    with pytest.raises(HaltedError):
        shop.live.assign("u")
    halts_file(shop.folder).write_text("{")
    with pytest.raises(fb.InputError, match="does not say what is halted"):
        shop.live.assign("u")
    lift_halts(shop.folder)
    assert shop.live.assign("u") in ARMS


def test_halts_that_are_set_at_once_all_hold(tmp_path: Path) -> None:
    start = threading.Barrier(8)

    def halt_one(number: int) -> None:
        start.wait()
        set_halt(tmp_path, client=f"c{number}", arm="red", reason=HARM)

    threads = [threading.Thread(target=halt_one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {halt.client for halt in read_halts(tmp_path)} == {f"c{number}" for number in range(8)}


def test_the_winner_is_not_named_where_it_is_halted(shop: Shop) -> None:
    host = ClientHost(
        ClientInfo(name="shop"), None, shop.trial, folder=shop.folder, live=shop.live.store
    )
    host.conclude(concluded(0))
    assert shop.live.best_arm() == best_arm(shop.folder, "shop") == host.best_arm() == "red"
    set_halt(shop.folder, arm="red", reason=HARM)
    for ask in (shop.live.best_arm, lambda: best_arm(shop.folder, "shop"), host.best_arm):
        with pytest.raises(HaltedError, match=HARM):
            ask()
    with pytest.raises(HaltedError, match=HARM):
        shop.come(1)
    lift_halts(shop.folder)
    assert shop.live.best_arm() == "red"


# The command --------------------------------------------------------------------------------------


def test_the_command_halts_lifts_and_refuses_typing_errors(
    tmp_path: Path, command: Command
) -> None:
    project = write_project(tmp_path / "p")
    done = command("halt", project, "--arm", "rde", "--reason", HARM)
    assert done.code == 2
    assert "red" in done.err
    assert command("halt", project, "--client", "nobody").code == 2
    assert command("halt", tmp_path / "none").code == 2
    assert halt_of(project / "state", "c", ARMS) is None
    done = command("halt", project, "--arm", "red", "--reason", HARM)
    assert done.code == 1  # it is written, and may be the wrong folder
    assert "no client has files in" in done.err
    assert stat.S_IMODE((project / "state").stat().st_mode) == 0o700
    (project / "state" / "c.jsonl").touch()
    done = command("halt", project, "--arm", "red", "--reason", HARM)
    assert done.code == 0
    assert "red is halted at all clients here since" in done.out
    assert halt_of(project / "state", "c", ARMS) == Halt(arms=(0,), reason=HARM)
    command("halt", project, "--reason", "all of it")
    assert halt_of(project / "state", "c", ARMS) == Halt(
        arms=(0, 1, 2), reason=f"{HARM}; all of it"
    )
    done = command("halt", project, "--arm", "red", "--lift")
    assert "lifted: red" in done.out
    assert "nothing was lifted" in command("halt", project, "--arm", "red", "--lift").err
    assert "still: everything" in done.out
    command("halt", project, "--lift")
    assert read_halts(project / "state") == ()


# The promise --------------------------------------------------------------------------------------

CLIENTS, PULLS, SPREAD, NOISE = 100, 25, 0.2, 0.25
GAP = 0.01


def estimates(
    rule: PhasedRule, local: FloatArray, counts: IntArray, rng: np.random.Generator
) -> BoolArray:
    """Return the arms that stay after one phase of many games, by who has reported what."""
    noise = rng.normal(0.0, NOISE, local.shape) / np.sqrt(PULLS)
    means = np.where(counts > 0, local + noise, 0.0)
    active = np.ones(local.shape[:-1], dtype=np.bool_)
    reports = Reports(counts=counts, means=means, active=active)
    return rule.decide(phase=1, active=active, estimate=rule.estimate(reports)).active


def fed2() -> PhasedRule:
    beliefs = Beliefs(n_arms=2, horizon=None, noise=NOISE, spread=SPREAD)
    radius = fb.CertifiedRadius(delta=0.05)
    return fb.Fed2Ucb(pulls=str(PULLS), admissions=str(CLIENTS), radius=radius).rule(beliefs)


def lost(*, harmful: bool) -> int:
    """Return in how many games the better option is lost.

    The worse one is halted at four of ten clients: at random, or where it does worst, so that what
    is left of it looks better than it is.
    """
    rng = np.random.default_rng(16)
    local = rng.normal(0.0, SPREAD, (GAMES, 2, CLIENTS)) + np.array([GAP, 0.0])[:, None]
    key = local[:, 1] if harmful else rng.random((GAMES, CLIENTS))
    halted = key.argsort(axis=1).argsort(axis=1) < 0.4 * CLIENTS
    counts = np.full(local.shape, PULLS)
    counts[:, 1] = np.where(halted, 0, PULLS)
    return int((~estimates(fed2(), local, counts, rng)[:, 0]).sum())


def test_halts_at_random_leave_the_promise_and_halts_for_harm_break_it_as_is_said() -> None:
    assert is_kept(lost(harmful=False))
    # This is why the condition is printed: where it does not hold, neither does the promise.
    assert not is_kept(lost(harmful=True))
    server = Server(fed2(), arms=["a", "b"])
    server.open([f"c{k}" for k in range(CLIENTS)])
    for k in range(CLIENTS):
        out = k % 5 < 2
        server.receive(
            Update(
                header=server.header,
                phase=1,
                client=f"c{k}",
                counts=(PULLS, 0 if out else PULLS),
                means=(0.9, 0.0 if out else 0.1),
                halted=(1,) if out else (),
            )
        )
    server.close()
    answer = answer_of(server)
    assert answer.error is not None
    assert Assumption.HALTED_ANYWAY.value in answer.error


def test_of_given_clients_a_halt_leaves_one_unheard_and_without_a_range_nothing_is_promised() -> (
    None
):
    def played(**more: Any) -> Server:
        tables = {
            "title": "t",
            "arms": ["a", "b"],
            "algorithm": "fed1-ucb",
            "clients": 2,
            "pulls": "20",
            "radius": {"rule": "certified", "delta": 0.05},
            **more,
        }
        server = server_of(read_trial(tables))
        server.open(["c0", "c1"])
        for name, halted in (("c0", ()), ("c1", (1,))):
            server.receive(
                Update(
                    header=server.header,
                    phase=1,
                    client=name,
                    counts=(20, 0 if halted else 20),
                    means=(0.5, 0.0 if halted else 0.4),
                    halted=halted,
                )
            )
        server.close()
        return server

    bare = played(assume={"noise": 0.5})
    assert bare.run_state.guarantee.error is None
    said = answer_of(bare).words()
    assert "1 of 2 clients have not reported every option" in said
    assert ", if" not in said.splitlines()[-1]  # nothing is said of intervals that would need one
    ranged = played(range=[0, 1])
    assert ranged.run_state.guarantee.error == 0.05
    assert Assumption.HALTED_ANYWAY.value in answer_of(ranged).words()
