"""What was sent is sent again after a crash, and what was spent is recalled."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.errors import InputError, ProtocolError
from fedbandits.federation.audit_file import AuditFile, read_audit
from fedbandits.privacy.accounting import Spending
from fedbandits.privacy.policy import Privacy
from fedbandits.protocol import (
    Assignment,
    Client,
    ClientState,
    Header,
    Refusal,
    RefusalError,
    Refused,
    Release,
    Server,
)
from fedbandits.rules.algorithms import Fed1Ucb
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.radii.paired_t import t_interval_widths
from fedbandits.simulation.assumptions import doubts
from protection import (
    GAUSSIAN,
    HEADER,
    LAPLACE,
    STOCHASTIC,
    USER,
    CountingNoise,
    CountingPull,
    assigned,
    policy,
    secret,
    seeded,
)

# Crash and re-send -------------------------------------------------------------------------------


@pytest.mark.parametrize("privacy", [STOCHASTIC, GAUSSIAN, LAPLACE])
@pytest.mark.parametrize("epoch", [1, 2])
def test_after_a_crash_the_very_same_bytes_are_sent(
    privacy: Privacy, epoch: int, tmp_path: Path
) -> None:
    """The update was recorded, and the client died before it was sent."""
    path, assignment = tmp_path / "a.jsonl", assigned(privacy)
    first = Client("a", secret, privacy=privacy, outbox=AuditFile(path), noise=seeded())
    sent = first.play(assignment)
    recorded = path.read_bytes()
    pull, noise = CountingPull(), CountingNoise()
    again = Client("a", pull, privacy=privacy, outbox=AuditFile(path), noise=noise)
    restarted = dataclasses.replace(HEADER, epoch=epoch)
    resent = again.play(dataclasses.replace(assignment, header=restarted))
    assert resent == dataclasses.replace(sent, header=restarted)
    assert (pull.calls, noise.calls) == (0, 0)
    assert path.read_bytes() == recorded
    assert again.spent == first.spent
    assert again.clipped == first.clipped > 0
    assert again.play(dataclasses.replace(assignment, header=restarted)) == resent
    # And the run goes on from there.
    following = dataclasses.replace(assigned(privacy, phase=2), header=restarted)
    assert again.play(following).phase == 2
    assert pull.calls == 3
    assert [entry.update.phase for entry in read_audit(path)] == [1, 2]


def test_another_question_about_a_phase_that_was_answered_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    Client("a", secret, privacy=LAPLACE, outbox=AuditFile(path), noise=seeded()).play(
        assigned(LAPLACE)
    )
    noise = CountingNoise()
    again = Client("a", secret, privacy=LAPLACE, outbox=AuditFile(path), noise=noise)
    louder = policy(epsilon=0.5).mechanism(20, 3)
    for asked in (assigned(LAPLACE, (30, 30, 30)), assigned(LAPLACE, mechanism=louder)):
        with pytest.raises(ProtocolError, match="phase 1 after phase 1"):
            again.play(asked)
    assert noise.calls == 0


@pytest.mark.parametrize("left", [0.0, 0.5, 0.99])
def test_a_torn_last_line_is_dropped_and_its_phase_played_again(
    left: float, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    client = Client("a", secret, privacy=LAPLACE, outbox=AuditFile(path), noise=seeded())
    client.play(assigned(LAPLACE))
    kept = path.read_bytes()
    client.play(assigned(LAPLACE, phase=2))
    last = path.read_bytes()[len(kept) :]
    path.write_bytes(kept + last[: int(left * len(last))])
    noise = CountingNoise()
    again = Client("a", secret, privacy=LAPLACE, outbox=AuditFile(path), noise=noise)
    again.play(assigned(LAPLACE, phase=2))
    assert noise.calls == 1
    lines = path.read_bytes().splitlines(keepends=True)
    assert lines[0] == kept
    assert [json.loads(line)["phase"] for line in lines] == [1, 2]
    assert lines[-1].endswith(b"\n")
    assert [entry.update.phase for entry in read_audit(path)] == [1, 2]


def test_a_line_that_is_written_in_another_way_is_left_as_it_is(tmp_path: Path) -> None:
    """What follows it is added behind it, wherever it ends."""
    path = tmp_path / "a.jsonl"
    Client("a", secret, privacy=LAPLACE, outbox=AuditFile(path), noise=seeded()).play(
        assigned(LAPLACE)
    )
    spaced = json.dumps(json.loads(path.read_bytes()), indent=None, separators=(" ,  ", " : "))
    path.write_text(spaced + "\n", encoding="utf-8")
    again = Client("a", secret, privacy=LAPLACE, outbox=AuditFile(path), noise=seeded())
    again.play(assigned(LAPLACE, phase=2))
    assert path.read_text(encoding="utf-8").startswith(spaced + "\n")
    assert [entry.update.phase for entry in read_audit(path)] == [1, 2]


def without(text: str, key: str) -> str:
    said = json.loads(text)
    del said[key]
    return json.dumps(said)


DAMAGES: dict[str, Callable[[str], str]] = {
    "cut short": lambda line: line[: len(line) // 2],
    "empty": lambda _: "",
    "not a table": lambda _: "[1, 2]",
    "a key is missing": lambda line: without(line, "spent"),
    "another format": lambda line: line.replace('"format": 1', '"format": 99'),
    "no such mechanism": lambda line: line.replace('"noised"', '"nothing"'),
    "not a number": lambda line: line.replace('"gaussian_rho": 0.0', '"gaussian_rho": "x"'),
    "not hexadecimal": lambda line: line.replace('"sent_packed": "', '"sent_packed": "zz'),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_line_in_the_middle_is_named(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    client = Client("a", secret, privacy=LAPLACE, outbox=AuditFile(path), noise=seeded())
    for phase in (1, 2, 3):
        client.play(assigned(LAPLACE, phase=phase))
    lines = path.read_text(encoding="utf-8").split("\n")
    damaged = DAMAGES[damage](lines[1])
    assert damaged != lines[1]
    path.write_text("\n".join([lines[0], damaged, *lines[2:]]), encoding="utf-8")
    with pytest.raises(InputError, match=r"line 2: is not an entry of an audit file .*; restore"):
        AuditFile(path)


def test_the_outbox_of_another_client_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    Client("alice", secret, outbox=AuditFile(path)).play(assigned(None))
    with pytest.raises(InputError, match=r'^outbox: is that of client "alice", and this is "bob"'):
        Client("bob", secret, outbox=AuditFile(path))


def test_what_cannot_be_recorded_is_not_sent(tmp_path: Path) -> None:
    outbox = AuditFile(tmp_path / "missing" / "a.jsonl")
    client = Client("a", secret, privacy=LAPLACE, outbox=outbox, noise=seeded())
    with pytest.raises(InputError, match=r"cannot be written: .*; nothing was sent"):
        client.play(assigned(LAPLACE))
    assert client.spent == Spending()
    assert client.clipped == 0
    assert client.state is ClientState.WAITING
    assert list(outbox) == []
    # Once it can be recorded the phase is played, for the first time.
    outbox.path.parent.mkdir()
    assert client.play(assigned(LAPLACE)).phase == 1
    assert [entry.update.phase for entry in read_audit(outbox.path)] == [1]


def test_a_folder_is_no_audit_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        AuditFile(tmp_path)


@pytest.mark.parametrize("how", ["removed", "cut off", "written to"])
def test_a_file_that_somebody_else_changes_is_not_written_over(how: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    client = Client("a", secret, privacy=LAPLACE, outbox=AuditFile(path), noise=seeded())
    client.play(assigned(LAPLACE))
    before = path.read_bytes()
    if how == "removed":
        path.unlink()
    else:
        path.write_bytes(before[:10] if how == "cut off" else before + before)
    left = path.read_bytes() if path.exists() else None
    with pytest.raises(InputError, match="nothing was sent"):
        client.play(assigned(LAPLACE, phase=2))
    assert (path.read_bytes() if path.exists() else None) == left
    assert client.state is ClientState.REPORTED
    path.write_bytes(before)
    assert client.play(assigned(LAPLACE, phase=2)).phase == 2


def test_what_was_spent_is_recalled_after_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    spent = []
    for phase in (1, 2, 3):  # a crash after every phase
        client = Client("a", secret, privacy=USER, outbox=AuditFile(path), noise=seeded())
        client.play(assigned(USER, phase=phase))
        spent.append(client.spent)
        assert read_audit(path)[-1].total == client.spent
    assert [total.pure_epsilon for total in spent] == pytest.approx([1.0, 2.0, 3.0], rel=1e-9)
    pull = CountingPull()
    client = Client("a", pull, privacy=USER, outbox=AuditFile(path), noise=seeded())
    assert client.spent == spent[-1]
    # In another run, too: it is the same client.
    other = dataclasses.replace(
        assigned(USER, phase=1), header=dataclasses.replace(HEADER, run="another")
    )
    with pytest.raises(RefusalError) as raised:
        client.play(other)
    assert raised.value.refusal.why is Refused.BUDGET
    assert pull.calls == 0


# Policies that change, outboxes that are shared, numbers out of proportion ------------------------


def noised_assignment(policy: fb.Privacy, phase: int = 1, **header: Any) -> Assignment:
    told: dict[str, Any] = {"run": "demo", "epoch": 1, "arms": "x"} | header
    return Assignment(
        header=Header(**told),
        phase=phase,
        pulls=(100, 100),
        release=Release(mechanism=policy.mechanism(100, 2)),
    )


def halves(arm: int, n: int) -> list[float]:
    return [0.5] * n


def test_what_was_sent_under_another_policy_is_counted_by_todays(tmp_path: Path) -> None:
    events = fb.Privacy(range=(0, 1), noise="gaussian", epsilon=2.0, delta=1e-6)
    file = tmp_path / "a.jsonl"
    client = Client("a", halves, privacy=events, outbox=AuditFile(file))
    for phase in (1, 2, 3):
        client.play(noised_assignment(events, phase))
    user = fb.Privacy(range=(0, 1), noise="gaussian", rho=1.0, level="user", releases=5)
    again = Client("a", halves, privacy=user, outbox=AuditFile(file))
    scale = events.noise_scale(100, 2)
    assert again.spent.rho == pytest.approx(3 * 2 / (2 * scale**2), rel=1e-3)
    with pytest.raises(RefusalError, match="budget"):
        again.play(noised_assignment(user, 4))
    person = dataclasses.replace(events, level="person", observations=50)
    assert Client("a", halves, privacy=person, outbox=AuditFile(file)).spent.rho == pytest.approx(
        2500 * client.spent.rho, rel=1e-3
    )


def test_after_a_change_from_gaussian_to_laplace_noise_the_larger_epsilon_counts(
    tmp_path: Path,
) -> None:
    """By ρ the Laplace release is the larger one, and ε = 1.5 would be printed: it is 7.3."""
    old = fb.Privacy(range=(0, 1), noise="gaussian", rho=0.9)
    new = fb.Privacy(range=(0, 1), noise="laplace", scale=1 / 150, delta=1e-6)
    file = tmp_path / "a.jsonl"
    Client("a", halves, privacy=old, outbox=AuditFile(file)).play(noised_assignment(old, 1))
    client = Client("a", halves, privacy=new, outbox=AuditFile(file))
    client.play(noised_assignment(new, 2))
    *_, last = AuditFile(file)
    assert last.spent.rho > 0.9
    for total in (client.spent, last.total):
        assert total.epsilon(1e-6) == pytest.approx(7.3, abs=0.05)
    assert "epsilon = 7.3" in last.budget


@pytest.mark.parametrize("level", ["event", "user"])
def test_means_without_noise_spend_all_of_a_users_budget(tmp_path: Path, level: Any) -> None:
    file = tmp_path / "a.jsonl"
    bare = noised_assignment(fb.Privacy(range=(0, 1), noise="laplace", epsilon=1.0))
    Client("a", halves, outbox=AuditFile(file)).play(dataclasses.replace(bare, release=Release()))
    policy = fb.Privacy(
        range=(0, 1),
        noise="laplace",
        epsilon=1.0,
        level=level,
        releases=3 if level == "user" else None,
    )
    client = Client("a", halves, privacy=policy, outbox=AuditFile(file))
    if level == "event":
        assert client.play(noised_assignment(policy, 2)).packed
    else:
        with pytest.raises(RefusalError, match="budget"):
            client.play(noised_assignment(policy, 2))


def test_a_server_is_not_told_of_a_mechanism_without_a_policy() -> None:
    policy = fb.Privacy(range=(0, 1), noise="laplace", epsilon=1.0)
    rule = fb.Fed1Ucb(pulls=100, clients=2).rule(
        fb.Beliefs(n_arms=2, horizon=1000, noise=0.5, spread=0.0)
    )
    with pytest.raises(fb.ProtocolError, match="give privacy"):
        Server(rule, release=Release(mechanism=policy.mechanism(100, 2)))


def test_an_outbox_serves_one_client_and_two_files_do_not_race(tmp_path: Path) -> None:
    policy = fb.Privacy(range=(0, 1), noise="laplace", epsilon=1.0)
    outbox = AuditFile(tmp_path / "a.jsonl")
    Client("a", halves, privacy=policy, outbox=outbox)
    with pytest.raises(fb.InputError, match="another client's"):
        Client("a", halves, privacy=policy, outbox=outbox)
    for attempt in range(20):
        file = tmp_path / f"race-{attempt}.jsonl"
        clients = [Client("a", halves, privacy=policy, outbox=AuditFile(file)) for _ in range(2)]
        sent: list[bytes] = []

        def answer(client: Client, kept: list[bytes] = sent) -> None:
            with contextlib.suppress(fb.InputError):
                kept.append(client.play(noised_assignment(policy)).packed)

        threads = [threading.Thread(target=answer, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(sent) == len(read_audit(file)) == 1


def test_another_list_of_arms_is_another_game_after_a_restart(tmp_path: Path) -> None:
    policy = fb.Privacy(range=(0, 1), noise="laplace", epsilon=1.0)
    file = tmp_path / "a.jsonl"
    first = Client("a", halves, privacy=policy, outbox=AuditFile(file)).play(
        noised_assignment(policy)
    )
    other = Client("a", halves, privacy=policy, outbox=AuditFile(file)).play(
        noised_assignment(policy, arms="other")
    )
    assert first.packed != other.packed


def test_means_that_are_all_alike_have_no_t_interval() -> None:
    widths = t_interval_widths(
        np.array([[0.3] * 30, [0.1, 0.2] * 15]), np.ones((2, 30), dtype=bool), level=0.05, phase=1
    )
    assert np.isinf(widths[0])
    assert np.isfinite(widths[1])


def test_a_refusal_of_an_earlier_phase_ends_nothing() -> None:
    rule = fb.Fed1Ucb(pulls=100, clients=1).rule(
        fb.Beliefs(n_arms=2, horizon=10_000, noise=0.5, spread=0.0)
    )
    server = Server(rule)
    server.open(["a"])
    stale = Refusal(header=server.header, phase=0, client="a", why=Refused.BUDGET)
    with pytest.raises(fb.ProtocolError, match="a refusal of phase 0 in phase 1"):
        server.refuse(stale)
    assert not server.finished


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"means": [0.5]}, "a mean for every arm"),
        ({"means": ["a", "b"]}, "a mean for every arm"),
        ({"counts": ["a", "b"]}, "whole numbers"),
        ({"clipped": None}, "whole numbers"),
        ({"client": None}, "names are text"),
        ({"means": [0.1, 0.2]}, "not what was sent"),
    ],
)
def test_an_audit_line_that_no_client_has_written_is_refused(
    tmp_path: Path, changed: dict[str, Any], words: str
) -> None:
    policy = fb.Privacy(range=(0, 1), noise="laplace", epsilon=1.0)
    file = tmp_path / "a.jsonl"
    Client("a", halves, privacy=policy, outbox=AuditFile(file)).play(noised_assignment(policy))
    line = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(line | changed) + "\n", encoding="utf-8")
    with pytest.raises(fb.InputError, match="line 1") as caught:
        read_audit(file)
    assert words in str(caught.value)


def test_the_same_phase_twice_is_no_audit(tmp_path: Path) -> None:
    policy = fb.Privacy(range=(0, 1), noise="laplace", epsilon=1.0)
    file = tmp_path / "a.jsonl"
    Client("a", halves, privacy=policy, outbox=AuditFile(file)).play(noised_assignment(policy))
    file.write_bytes(file.read_bytes() * 2)
    with pytest.raises(fb.InputError, match="released before"):
        read_audit(file)


@pytest.mark.parametrize(
    ("keys", "where"),
    [
        ({"range": (1e12, 1e12 + 1), "noise": "laplace", "epsilon": 1.0}, "range"),
        ({"range": (-1e308, 1e308), "noise": "laplace", "epsilon": 1.0}, "range"),
        ({"range": (0, 1), "noise": "gaussian", "scale": 1e300}, "scale"),
        ({"range": (0, 1), "noise": "gaussian", "scale": 1e-15}, "scale"),
        ({"range": (0, 1), "noise": "laplace", "epsilon": 1e300}, "epsilon"),
        ({"range": (0, 1), "noise": "gaussian", "rho": 1e300}, "rho"),
        (
            {"range": (0, 1), "noise": "laplace", "epsilon": 1.0, "level": "user"}
            | {"releases": 10**30},
            "releases",
        ),
    ],
)
def test_numbers_out_of_all_proportion_are_refused(keys: dict[str, Any], where: str) -> None:
    with pytest.raises(fb.InputError) as caught:
        fb.Privacy(**keys)
    assert caught.value.where == where


def test_a_gap_below_two_steps_of_nearest_rounding_may_never_be_decided() -> None:
    game = fb.Approximate(means=[0.4, 0.65], noise=fb.Bernoulli(), spread=fb.Beta(0.01))
    (doubt,) = doubts(
        Fed1Ucb(pulls=10, clients=5, target="population").rule(
            Beliefs(n_arms=2, horizon=1000, noise=0.5, spread=0.1)
        ),
        game,
        fb.Privacy(range=(0, 1), quantize=fb.Quantize(bits=3, rounding="nearest")),
    )
    assert "may never be told apart" in doubt
