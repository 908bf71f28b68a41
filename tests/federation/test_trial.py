"""Trials: their file, the client in its place, and the whole federation in one process."""

from __future__ import annotations

import importlib
import re
import tomllib
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import fedbandits as fb
from coin_trial import TABLES, coins
from fedbandits.cli.main import app
from fedbandits.federation.audit_file import read_audit
from fedbandits.federation.host import ClientHost, ClientInfo
from fedbandits.federation.last_word import best_arm
from fedbandits.federation.local import server_of, try_trial
from fedbandits.federation.project import new_project
from fedbandits.federation.state_files import audit_file, last_word_file
from fedbandits.federation.trial import load_trial, read_trial
from fedbandits.loopback import play
from fedbandits.protocol import (
    Client,
    PhaseOpened,
    Refusal,
    Refused,
    Server,
    Update,
    conclusion_of,
)
from fedbandits.protocol.turns import MOST_TURNS, permuted_blocks, turns


def test_the_federation_in_one_process_finds_the_best_option() -> None:
    server = try_trial(read_trial(TABLES), coins(1), 40)
    assert server.decision is not None
    assert server.arms[server.decision.best] == "blue"
    assert server.decision.winner is not None


def test_the_same_seeds_decide_the_same_with_and_without_turns_and_in_the_loop() -> None:
    """Sums of coins are exact, so that the order of pulls cannot change a bit."""
    trial = read_trial(TABLES)
    together = try_trial(trial, coins(2), 30).snapshot()
    in_order = try_trial(read_trial({**TABLES, "interleave": False}), coins(2), 30).snapshot()
    assert in_order == together
    pull = coins(2)
    # The loop admits in the order that the coordinator had drawn.
    chosen = [
        name
        for record in try_trial(trial, coins(2), 30).log
        if isinstance(record, PhaseOpened)
        for name in record.admitted
    ]
    left = iter(chosen)

    def client(name: str) -> Client:
        info = ClientInfo(name=name, number=int(name.removeprefix("client-")))
        return Client(name, lambda arm, n: pull(trial.arms[arm], n, info))

    server = server_of(trial)
    play(server, lambda wanted: [client(name) for name in islice(left, wanted)])
    assert server.snapshot() == together


def test_turns_are_even_permuted_and_complete() -> None:
    pulls = [250, 0, 250, 250]
    order = list(permuted_blocks(3, "alice")(1, pulls))
    assert Counter({arm: sum(n for a, n in order if a == arm) for arm in (0, 2, 3)}) == Counter(
        {0: 250, 2: 250, 3: 250}
    )
    blocks = [tuple(arm for arm, _ in order[i : i + 3]) for i in range(0, len(order), 3)]
    assert len(blocks) == MOST_TURNS
    assert all(sorted(block) == [0, 2, 3] for block in blocks)
    # All six orders occur about as often as each other.
    times = Counter(blocks)
    assert len(times) == 6
    assert max(times.values()) < MOST_TURNS / 2
    assert {n for _, n in order} == {2, 3}
    assert list(permuted_blocks(3, "alice")(2, pulls)) != order
    assert list(permuted_blocks(3, "bob")(1, pulls)) != order


def test_few_pulls_take_few_turns() -> None:
    rng = np.random.default_rng(1)
    assert sum(n for _, n in turns([3, 1], rng)) == 4
    assert list(turns([0, 0], rng)) == []


@pytest.mark.parametrize(
    ("change", "where", "words"),
    [
        ({"arms": ["red"]}, "arms", "at least two"),
        ({"arms": ["red", "red"]}, "arms", "there twice"),
        ({"algorithm": "ucb1"}, "algorithm", "does not run in a federation"),
        ({"gaol": "min"}, "gaol", 'did you mean "goal"'),
        ({"goal": "mx"}, "goal", 'did you mean "max"'),
        ({"pulls": "5"}, "pulls", "min_pulls is 10"),
        ({"pulls": "99-p"}, "pulls", "9 in phase 90, and min_pulls is 10"),
        ({"pulls": "ceil(1/(70-p))*99"}, "pulls", "divides by zero in phase 70"),
        ({"assume": {"noise": 0.5}}, "assume.spread", "is missing"),
        ({"assume": {"nois": 0.5}}, "assume.nois", "is not a key here"),
        ({"range": [1, 0]}, "range", "is empty"),
        ({"horizon": 50}, "horizon", "the first phase takes 120"),
        ({"quorum": {"fraction": 1.5}}, "quorum.fraction", "at most 1"),
        ({"patience": {"deadline": 0}}, "patience.deadline", "positive"),
        ({"privacy": {"noise": "laplace", "range": [0, 1]}}, "privacy.epsilon", "is missing"),
    ],
)
def test_what_cannot_be_is_said_with_its_key(
    change: dict[str, Any], where: str, words: str
) -> None:
    with pytest.raises(fb.InputError) as caught:
        read_trial({**TABLES, **change})
    assert caught.value.where == where
    assert words in caught.value.problem


def test_a_range_and_a_population_are_enough_to_know() -> None:
    tables = {**TABLES, "range": [0, 2], "population": 40}
    del tables["assume"]
    rule = read_trial(tables).rule()
    assert (rule.noise, rule.spread, rule.bounded) == (1.0, 1.0, True)


def test_a_new_project_runs_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "my_test"
    assert {path.relative_to(folder).as_posix() for path in new_project(folder)} == {
        ".gitignore",
        "README.md",
        "client.py",
        "fedbandits.toml",
        "flower/pyproject.toml",
    }
    assert load_trial(folder).title == "my_test"
    done = CliRunner().invoke(app, ["try", str(folder), "--clients", "8", "--quiet"])
    assert done.exit_code == 0, done.output
    assert "The answer is blue" in done.output
    flower = tomllib.loads((folder / "flower" / "pyproject.toml").read_text(encoding="utf-8"))
    assert flower["project"]["name"] == "my-test"
    for component in flower["tool"]["flwr"]["app"]["components"].values():
        module, name = component.split(":")
        assert hasattr(importlib.import_module(module), name)
    readme = (folder / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"`fedbandits (\w+)", readme)
    assert set(commands) == {"try", "up", "resume", "report"}
    with pytest.raises(fb.InputError, match="not an empty folder"):
        new_project(folder)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def pull(arm, n, client): return 1 / 0", "ZeroDivisionError: division by zero"),
        ("def pull(arm, n): return [0.5] * n", "TypeError"),
        ("def pull(arm, n, client): return [0.5] * (n + 1)", "return 1 number"),
        ("def pull(arm, n, client): return ['x'] * n", "returned[0] is 'x', which is not a number"),
        ("x = 1", "has no function pull"),
        ("def pull(:", "fails when it is read: SyntaxError"),
    ],
)
def test_what_goes_wrong_in_pull_is_said(tmp_path: Path, text: str, words: str) -> None:
    folder = tmp_path / "broken"
    new_project(folder)
    (folder / "client.py").write_text(text, encoding="utf-8")
    done = CliRunner().invoke(app, ["try", str(folder)])
    assert isinstance(done.exception, fb.InputError)
    assert words in str(done.exception)


def test_a_host_refuses_another_list_of_arms() -> None:
    trial = read_trial(TABLES)
    host = ClientHost(ClientInfo(name="a"), coins(1), trial)
    other = Server(read_trial({**TABLES, "arms": ["x", "y"]}).rule())
    refusal = host.answer(other.open(["a"]))
    assert isinstance(refusal, Refusal)
    assert refusal.why is Refused.ARMS
    assert "need the same" in refusal.detail


def test_the_winner_can_be_asked_for_afterwards(tmp_path: Path) -> None:
    tables = tomllib.loads('algorithm = "fed1-ucb"\nclients = 1')
    trial = read_trial({k: v for k, v in TABLES.items() if k != "admissions"} | tables)
    host = ClientHost(ClientInfo(name="a b"), coins(5), trial, folder=tmp_path)
    assert host.best_arm() is None
    server = server_of(trial)
    while not server.finished:
        update = host.answer(server.open([] if server.clients else ["a b"]))
        assert isinstance(update, Update)
        assert server.receive(update) is None
        decision = server.close()
    host.conclude(conclusion_of(server))
    assert host.best_arm() == "blue"
    assert len(read_audit(audit_file(tmp_path, "a b"))) == decision.phase
    # Also after a restart, and without a server or a client machine at all.
    assert ClientHost(ClientInfo(name="a b"), coins(5), trial, folder=tmp_path).best_arm() == "blue"
    assert best_arm(tmp_path, "a b") == "blue"
    assert best_arm(tmp_path, "a") is None
    last_word_file(tmp_path, "a b").write_text("{}", encoding="utf-8")
    with pytest.raises(fb.InputError, match="not the last word of a run"):
        best_arm(tmp_path, "a b")
