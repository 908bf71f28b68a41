"""The least favourable order of events: what comes twice, at once, too late or in between."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fedbandits as fb
from fedbandits.federation.audit_file import read_audit
from fedbandits.federation.coordinator import (
    Bulletin,
    Coordinator,
    Patience,
    Stop,
    Wanted,
)
from fedbandits.federation.halts import set_halt
from fedbandits.federation.host import ClientHost, ClientInfo
from fedbandits.federation.local import server_of
from fedbandits.federation.requests import RequestFolder, leave_request
from fedbandits.federation.state_files import audit_file, live_file, recalls_file
from fedbandits.federation.trial import Trial, load_trial
from fedbandits.federation.verification import verified
from fedbandits.privacy.policy import Privacy
from fedbandits.protocol import (
    AnswerRefused,
    Assignment,
    ClientHalted,
    ClientsBound,
    Halt,
    Quorum,
    Reason,
    Recall,
    Receipt,
    Refusal,
    Refused,
    Server,
    ServerState,
    Update,
    answer_of,
    arms_hash,
    conclusion_of,
)
from fedbandits.protocol.promises import coverage
from fedbandits.protocol.records import ArmWithdrawn
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.phased import PhasedRule
from flower_project import write_project
from office import Office, a_rule, coordinator
from shop import TRIAL, Shop, header, phase

POLICY = Privacy(range=(0, 1), noise="gaussian", epsilon=5.0, delta=1e-6, level="user", releases=20)


def refusal(server: Server, client: str, why: Refused) -> Refusal:
    return Refusal(header=server.header, phase=server.phase, client=client, why=why)


# The coordinator ----------------------------------------------------------------------------------


def test_a_run_that_one_refusal_has_ended_outlives_those_that_came_with_it() -> None:
    office = Office("abc", silent="abc")
    server = Server(a_rule(), privacy=POLICY)
    driver = coordinator(server, office, clients=3)
    driver.step()
    office.answers = [refusal(server, name, Refused.BUDGET) for name in "abc"]
    driver.run()
    assert server.state is ServerState.FINISHED
    assert server.run_state.last_word is not None
    assert server.run_state.last_word.reason is Reason.BUDGET
    said = [record for record in server.log if isinstance(record, AnswerRefused)]
    assert [record.refusal.client for record in said] == ["a"]


def wanting(server: Server, office: Office, *wanted: Wanted) -> Coordinator:
    left = [list(wanted)]
    return Coordinator(
        server,
        office,
        clock=lambda: office.now,
        patience=Patience(clients=3),
        requests=lambda: left.pop() if left else (),
    )


def test_nobody_stays_on_what_was_withdrawn_in_the_moment_of_a_stop() -> None:
    """Requests of one second came in any order: after the stop, the withdrawal was lost."""
    office = Office("abc")
    server = Server(a_rule(noise=3.0))
    driver = coordinator(server, office, clients=3)
    while server.decision is None:
        driver.step()
    assert server.decision.best == 2
    harm = ArmWithdrawn(arm=2, reason="harm")
    wanting(server, office, Stop(reason="harm"), harm).run()
    last = server.run_state.last_word
    assert last is not None
    assert (last.reason, last.best, last.active[2]) == (Reason.STOPPED, 1, False)


def test_requests_are_done_in_the_order_in_which_they_were_left(tmp_path: Path) -> None:
    log = tmp_path / "run.fedlog"
    asked = [ClientsBound(clients=("c",), node=f"n{n}", reason="moved") for n in range(20)]
    for each in asked:
        leave_request(log, each)
    assert list(RequestFolder(log, 3)()) == asked


def test_a_move_that_is_asked_for_again_after_a_crash_is_one_move() -> None:
    server = Server(a_rule())
    server.settle("n1", ["a", "b"])
    for _ in range(2):  # the request is still there, since the server died before it was removed
        server.rebind(["a"], "n2", "new key")
    server.rebind(["a", "b"], "n2", "new key")
    moves = [each for each in server.log if isinstance(each, ClientsBound) and each.reason]
    assert [each.clients for each in moves] == [("a",), ("b",)]


def test_a_phase_is_not_kept_open_for_who_has_halted_all_that_is_left() -> None:
    office, news = Office("abc", silent="c"), list[Bulletin]()
    server = Server(a_rule(noise=0.01), quorum=Quorum(fraction=0.6))
    server.withdraw(0, "harm")
    driver = coordinator(server, office, news, clients=3)
    driver.step()
    halt = Halt(arms=(1, 2), reason="harm")
    office.answers.append(replace(refusal(server, "c", Refused.HALTED), halt=halt))
    while server.decision is None:
        driver.step()
    assert office.now < driver.patience.deadline


def test_a_run_ends_if_clients_outside_the_range_leave_no_quorum_without_the_spent() -> None:
    """Both count the same clients: those outside the range are asked for, and never listened to."""
    office = Office("abc", silent="abc")
    server = Server(
        a_rule(),
        limits=(0.0, 1.0),
        quorum=Quorum(fraction=0.5),
        quarantine_after=1,
    )
    driver = coordinator(server, office, clients=3, deadline=100.0, grace=100.0)
    driver.step()
    outside = Update(
        header=server.header, phase=1, client="a", counts=(4, 4, 4), means=(7.0, 0.5, 0.5)
    )
    office.answers = [outside]
    driver.step()
    assert server.quarantined == ("a",)
    assert not driver._can_decide_without({"b"})
    assert not server.has_quorum


# What clients have halted -------------------------------------------------------------------------


def test_a_halt_of_nothing_is_none() -> None:
    server = Server(a_rule())
    server.open(["a", "b", "c"])
    for _ in range(3):
        said = replace(
            refusal(server, "a", Refused.PENDING), halt=Halt(arms=(), reason="by mistake")
        )
        assert server.note_halt(said) is None
    assert not any(isinstance(record, ClientHalted) for record in server.log)


# What is still proven -----------------------------------------------------------------------------


def bounded(clients: int = 3) -> PhasedRule:
    told: dict[str, Any] = {"n_arms": 3, "horizon": None, "noise": 0.5, "spread": 0.5}
    algorithm = fb.Fed1Ucb(pulls="4", clients=clients, radius=fb.CertifiedRadius(delta=0.05))
    return algorithm.rule(Beliefs(**told))


def reported(server: Server, *clients: str) -> None:
    assignment = server.assignment
    assert assignment is not None
    for client in clients:
        said = Update(
            header=server.header,
            phase=server.phase,
            client=client,
            counts=assignment.pulls,
            means=tuple(0.5 if n else 0.0 for n in assignment.pulls),
        )
        assert server.receive(said) is None


@pytest.mark.parametrize("end", ["close", "abandon"])
def test_who_is_missing_because_of_its_outcomes_takes_the_promise_with_it(end: str) -> None:
    """What a client refuses to send lies outside the range, though the answer is for it, too."""
    fraction = 0.6 if end == "close" else 1.0
    server = Server(bounded(), limits=(0.0, 1.0), quorum=Quorum(fraction=fraction))
    server.open(["a", "b", "c"])
    reported(server, "a", "b")
    assert server.run_state.guarantee.error == 0.05
    server.note_refusal(refusal(server, "c", Refused.OUTSIDE))
    getattr(server, end)()
    found = server.run_state.guarantee
    assert found.error is None
    assert "outcomes of c lay outside [0, 1]" in found.breaches[0]
    assert coverage(server.run_state, 0.05).error is None
    if end == "close":
        assert "lay outside [0, 1]" in answer_of(server).error


def test_a_stop_does_not_save_a_promise_that_outcomes_have_broken() -> None:
    """They were in the open phase, which does not count; the range that they disprove does."""
    server = Server(bounded(), limits=(0.0, 1.0))
    server.open(["a", "b", "c"])
    reported(server, "a", "b", "c")
    server.close()
    server.open([])
    server.note_refusal(refusal(server, "c", Refused.OUTSIDE))
    assert server.run_state.guarantee.error == 0.05  # it may still be mended
    server.stop(words="the board says so")
    assert server.run_state.guarantee.error is None
    assert "outcomes of c lay outside [0, 1]" in answer_of(server).error


def test_who_mends_its_outcomes_before_the_phase_is_closed_is_heard_like_all_others() -> None:
    server = Server(bounded(), limits=(0.0, 1.0))
    server.open(["a", "b", "c"])
    server.note_refusal(refusal(server, "c", Refused.OUTSIDE))
    reported(server, "a", "b", "c")
    server.close()
    assert server.run_state.guarantee.error == 0.05


def with_regret_bound() -> PhasedRule:
    told: dict[str, Any] = {"n_arms": 3, "horizon": 10_000, "noise": 0.5, "spread": 0.1}
    rule = fb.Fed2Ucb(pulls="4", admissions="2^p").rule(Beliefs(**told))
    assert rule.guarantee().regret
    return rule


@pytest.mark.parametrize("event", ["fewer join", "one is missing", "abandoned", "all is well"])
def test_a_regret_bound_is_about_phases_as_they_were_planned(event: str) -> None:
    """Version 0.1.0 printed the bound whatever happened: it did not look at the run at all."""
    server = Server(with_regret_bound(), quorum=Quorum(fraction=0.5))
    names = "abcdefgh"[: server.wanted()]
    assert len(names) == 2
    server.open(list(names[:1] if event == "fewer join" else names))
    assert server.run_state.guarantee.holds is (event != "fewer join")
    if event == "abandoned":
        server.abandon()
    else:
        reported(server, *(names[:1] if event in ("fewer join", "one is missing") else names))
        server.close()
    found = server.run_state.guarantee
    assert found.holds is (event == "all is well")
    assert found.regret is found.holds
    assert found.reason.startswith("none: ") is not found.holds


# At a client --------------------------------------------------------------------------------------


def trial_of(folder: Path) -> Trial:
    return load_trial(write_project(folder / "p"))


def test_a_late_word_about_an_old_run_does_not_bring_a_withdrawn_option_back(
    tmp_path: Path,
) -> None:
    trial, pulled = trial_of(tmp_path), set[str]()

    def pull(arm: str, n: int, _: ClientInfo) -> list[float]:
        pulled.add(arm)
        return [0.5] * n

    def host() -> ClientHost:  # a process of its own for every message
        return ClientHost(ClientInfo(name="c"), pull, trial, folder=tmp_path)

    arms = Recall(header=replace(header("new"), arms=arms_hash(trial.arms)), arms=(0,))
    host().recall(arms)
    host().recall(replace(arms, header=replace(arms.header, run="old"), arms=(1,)))
    early = Assignment(header=arms.header, phase=1, pulls=(14, 14, 14))  # sent before the recall
    said = host().answer(early)
    assert isinstance(said, Update)
    assert pulled == {"green", "blue"}


@pytest.mark.parametrize("damaged", [audit_file, recalls_file])
def test_a_withdrawal_needs_no_other_file_than_the_one_that_assign_reads(
    tmp_path: Path, damaged: Any
) -> None:
    """A damaged file of what was sent before kept a recall from being obeyed."""
    shop = Shop(tmp_path)
    with shop.live:
        shop.pending(phase(1, 20, 20, 20))
        damaged(tmp_path, "shop").write_text("{damaged\n")
        host = ClientHost(ClientInfo(name="shop"), None, TRIAL, folder=tmp_path)
        receipt = host.recall(Recall(header=header(), arms=(0,)))
        assert isinstance(receipt, Receipt)
        assert "red" not in shop.come(30).values()


def test_the_last_word_reaches_assign_even_if_what_was_sent_before_is_damaged(
    tmp_path: Path,
) -> None:
    shop = Shop(tmp_path)
    with shop.live:
        server = server_of(TRIAL, run="run 1")
        server.open(["shop"])
        shop.pending(replace(phase(1, 20, 20, 20), header=server.header))
        server.withdraw(0, "harm")
        server.withdraw(1, "harm")
        audit_file(tmp_path, "shop").write_text("{damaged\n")
        host = ClientHost(ClientInfo(name="shop"), None, TRIAL, folder=tmp_path)
        assert server.finished is False
        server.stop(words="harm")
        with pytest.raises(fb.InputError, match="not an entry of an audit file"):
            host.conclude(conclusion_of(server))
        assert set(shop.come(30).values()) == {"blue"}


@pytest.mark.parametrize("out", ["withdrawn", "halted"])
def test_an_option_that_goes_out_between_the_last_outcome_and_the_update_is_no_breach(
    tmp_path: Path, out: str
) -> None:
    shop = Shop(tmp_path)
    with shop.live:
        asked = phase(1, 4, 4, 4)
        shop.pending(asked)
        for unit in shop.come(12):
            shop.live.record(unit, 0.5)
        # All outcomes are there, and the process dies before it sends anything.
        assert shop.live.store.take(asked) == ()
        if out == "withdrawn":
            shop.live.store.recall(asked.header.run, (0,))
        else:
            set_halt(tmp_path, arm="red", reason="harm")
            shop.come(1)
        sent = shop.update(asked)
        assert sent.counts == (0, 4, 4)
    entries = read_audit(audit_file(tmp_path, "shop"))
    assert [one.wrong for one in verified(entries, live_file(tmp_path, "shop"))] == [()]
