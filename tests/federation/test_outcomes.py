"""Outcomes are held to the declared range where they arise, and errors say where that is."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import fedbandits as fb
from fedbandits.cli.main import app
from fedbandits.errors import InputError
from fedbandits.federation import LiveTrial
from fedbandits.federation.audit_file import read_audit
from fedbandits.federation.flower import client as client_module
from fedbandits.federation.host import ClientHost, ClientInfo
from fedbandits.federation.local import LocalTransport, load_pull, try_trial
from fedbandits.federation.state_files import audit_file
from fedbandits.federation.trial import Trial, read_trial
from fedbandits.protocol import (
    Assignment,
    Header,
    Refusal,
    Refused,
    Update,
    UpdateAccepted,
    answer_of,
    arms_hash,
)
from fedbandits.protocol.client import Slice
from fedbandits.protocol.outcomes import OutOfRangeError, as_outcomes

ARMS = ("red", "blue")
TABLES: dict[str, Any] = {
    "title": "colours",
    "arms": list(ARMS),
    "pulls": "300",
    "admissions": "4",
    "radius": {"rule": "certified", "delta": 0.05},
    "assume": {"spread": 0.05},
    "range": [0, 1],
    "min_pulls": 1,
    "interleave": False,
}
PLAIN = {key: value for key, value in TABLES.items() if key != "range"} | {
    "assume": {"noise": 0.5, "spread": 0.05}
}
ROUNDED = {"quantize": {"bits": 8}, "range": [0, 1]}
NOISED = {"noise": "laplace", "epsilon": 2.0, "range": [0, 1], "min_pulls": 1}
INFO = ClientInfo(name="clinic-1")


def mistyped(arm: str, n: int, client: ClientInfo) -> list[float]:
    """Return outcomes of red, the worse one, with one in 300 a hundred times too large."""
    rate = 0.3 if arm == "red" else 0.45
    rng = np.random.default_rng([len(client.name), client.number, n])
    found = (rng.random(n) < rate).astype(float)
    if arm == "red":
        found[17] = 55.0
    return [float(value) for value in found]


def asked(trial: Trial, *pulls: int, **more: Any) -> Assignment:
    header = Header(run="demo", epoch=1, arms=arms_hash(trial.arms))
    return Assignment(header=header, phase=1, pulls=pulls, **more)


def host(pull: Callable[..., Any], folder: Path | None = None, **changes: Any) -> ClientHost:
    return ClientHost(INFO, pull, read_trial({**TABLES, **changes}), folder=folder)


def constant(value: Any) -> Callable[..., Any]:
    return lambda _arm, n, _client: [value] * n


# The range ----------------------------------------------------------------------------------------


def test_a_mistyped_outcome_decides_nothing_and_is_named() -> None:
    """Without the check red wins, with a promise of 0.05.

    Version 0.1.0 asked only whether outcomes are finite, and let it.
    """
    free = try_trial(read_trial(PLAIN), mistyped, 12)
    assert free.decision is not None
    assert free.arms[free.decision.best] == "red"
    with pytest.raises(OutOfRangeError) as caught:
        try_trial(read_trial(TABLES), mistyped, 12)
    line = mistyped.__code__.co_firstlineno
    assert caught.value.where.startswith('pull("red", ')
    assert caught.value.where.endswith(f"client-0) in {__file__}, line {line}")
    assert "returned[17] is 55.0, outside the trial's range of 0 to 1" in caught.value.problem


def test_a_trial_that_clips_counts_what_it_clips_and_says_what_the_answer_is_about() -> None:
    server = try_trial(read_trial({**TABLES, "outside": "clip"}), mistyped, 12)
    assert server.decision is not None
    assert server.arms[server.decision.best] == "blue"
    updates = [one.update for one in server.log if isinstance(one, UpdateAccepted)]
    assert updates
    assert all(update.clipped == 1 for update in updates if update.counts[0])
    assert all(max(update.means) <= 1.0 for update in updates)
    words = answer_of(server).words()
    about = "what lies outside [0, 1] is clipped: the answer is about clipped outcomes"
    assert about in words
    assert "with a probability of at most 0.05" in words
    # A server that was not told so by the trial promises nothing more once anything is clipped.
    silent = fb.Server(read_trial(TABLES).rule(), arms=ARMS, limits=(0, 1))
    header = silent.open(["a"]).header
    update = Update(header=header, phase=1, client="a", counts=(300, 300), means=(0.5, 0.5))
    assert silent.receive(replace(update, clipped=1)) is None
    assert silent.run_state.guarantee.error is None


@pytest.mark.parametrize("privacy", [None, ROUNDED], ids=["as they are", "rounded"])
def test_an_outcome_outside_is_refused_before_anything_is_kept(
    tmp_path: Path, privacy: dict[str, Any] | None
) -> None:
    changes = {} if privacy is None else {"privacy": privacy}
    trial = read_trial({**TABLES, **changes})
    clinic = ClientHost(INFO, constant(1.5), trial, folder=tmp_path)
    mechanism = None if trial.privacy is None else trial.privacy.mechanism(20, 2)
    question = asked(trial, 20, 20, release=fb.protocol.Release(mechanism=mechanism))
    with pytest.raises(OutOfRangeError, match=r"clinic-1\).*returned\[0\] is 1\.5"):
        clinic.answer(question)
    assert not audit_file(tmp_path, INFO.name).exists()


def test_with_noise_an_outcome_outside_is_clipped_since_a_refusal_would_tell_of_it(
    tmp_path: Path,
) -> None:
    trial = read_trial({**TABLES, "privacy": NOISED})
    assert trial.privacy is not None
    mechanism = trial.privacy.mechanism(5, 2)
    question = asked(trial, 5, 5, release=fb.protocol.Release(mechanism=mechanism))
    answer = ClientHost(INFO, constant(1.5), trial, folder=tmp_path).answer(question)
    assert isinstance(answer, Update)
    assert answer.clipped == 0
    (entry,) = read_audit(audit_file(tmp_path, INFO.name))
    assert entry.clipped == 10


def test_outcomes_have_one_range() -> None:
    with pytest.raises(InputError, match=r"privacy\.range: \[0, 1\], and range is \[0, 5\]"):
        read_trial({**TABLES, "range": [0, 5], "privacy": ROUNDED})
    alone = {key: value for key, value in TABLES.items() if key != "range"}
    assert read_trial({**alone, "privacy": ROUNDED}).range == (0, 1)
    of_radius = {"rule": "bernstein", "delta": 0.05, "range": [0, 0.5]}
    assert read_trial({**TABLES, "radius": of_radius}).range == (0, 0.5)
    with pytest.raises(InputError, match=r"have nothing in common"):
        read_trial({**TABLES, "radius": {**of_radius, "range": [2, 3]}})
    with pytest.raises(InputError, match="outside: 'clop' is not known; did you mean \"clip\""):
        read_trial({**TABLES, "outside": "clop"})
    with pytest.raises(InputError, match=r"outside: .* no range is declared"):
        read_trial({**PLAIN, "outside": "clip"})


def test_live_outcomes_are_refused_or_kept_as_they_are_and_clipped_when_they_count(
    tmp_path: Path,
) -> None:
    live = {"live": {"maturity": 600, "missing": 0.0}, "interleave": True}
    for privacy in ({}, {"privacy": ROUNDED}):
        strict = read_trial({**TABLES, **privacy, **live})
        with LiveTrial(strict, client="shop", state=tmp_path / f"strict{len(privacy)}") as shop:
            shop.assign("ada")
            with pytest.raises(OutOfRangeError, match=r"value: it is 1\.5, outside"):
                shop.record("ada", 1.5)
    trial = read_trial({**TABLES, **live, "outside": "clip"})
    clinic = ClientHost(ClientInfo(name="shop"), None, trial, folder=tmp_path)
    question = asked(trial, 1, 1)
    assert isinstance(clinic.answer(question), Refusal)
    with LiveTrial(trial, client="shop", state=tmp_path) as shop:
        for unit in ("ada", "bob"):
            shop.assign(unit)
            assert shop.record(unit, 55.0)
    answer = ClientHost(ClientInfo(name="shop"), None, trial, folder=tmp_path).answer(question)
    assert isinstance(answer, Update)
    assert (answer.means, answer.clipped) == ((1.0, 1.0), 2)


def test_the_server_is_told_the_kind_and_the_site_everything(
    caplog: pytest.LogCaptureFixture,
) -> None:
    trial = read_trial(TABLES)
    question = asked(trial, 5, 5)
    with pytest.raises(OutOfRangeError) as caught:
        host(constant(1.5)).answer(question)
    with caplog.at_level(logging.ERROR, "flwr.fedbandits"):
        refusal = client_module._failure(INFO, question, caught.value)
    assert refusal.why is Refused.OUTSIDE
    assert "1.5" not in refusal.detail
    assert "red" not in refusal.detail
    assert all(word in caplog.text for word in ("clinic-1", "red", "1.5", f"{__file__}, line"))


def test_check_warns_of_a_trial_without_a_range(tmp_path: Path) -> None:
    for tables, warned in ((TABLES, False), (PLAIN, True)):
        write(tmp_path, tables, "def pull(arm, n, client): return [0.5] * n")
        done = CliRunner().invoke(app, ["check", str(tmp_path)])
        assert done.exit_code == 0, done.output
        assert "valid" in done.output
        assert ("warning: no range is declared" in done.output) == warned
        again = CliRunner().invoke(app, ["check", str(tmp_path / "fedbandits.toml")])
        assert again.output.replace("/fedbandits.toml", "") == done.output


# What pull returns --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (["0.1", "0.2"], r"returned[0] is '0.1', which is not a number; return 2 numbers"),
        (["0.5", 0.5], "returned[0] is '0.5'"),
        (np.array(["0.1", "0.2"]), "returned[0] is '0.1'"),
        ([0.5, None], "returned[1] is None"),
        ([True, 0.5], "returned[0] is True"),
        (np.array([True, False]), "returned[0] is True"),
        ([0.5, np.True_], "returned[1] is np.True_"),
        ([0.5, float("nan")], "returned[1] is nan, which is not a finite number"),
        (np.array([np.inf, 0.5]), "returned[0] is inf"),
        ([0.5, 10**400], "returned[1] is inf"),
        ([0.5, -1e200], "returned[1] is -1e+200"),
        ([0.5], "returned [0.5], 1 values; return 2 numbers"),
        (np.zeros((2, 2)), "returned an array of shape (2, 2)"),
        (0.5, "returned 0.5, a float"),
        ("0.5", "returned '0.5', a str"),
        (None, "returned None, a NoneType"),
        ({0: 0.5, 1: 0.5}, "a dict; return 2 numbers"),
        ((value for value in (0.5, 0.5)), "a generator; return 2 numbers"),
        ([[0.5], [0.5]], "returned[0] is [0.5]"),
    ],
)
def test_what_is_no_list_of_numbers_is_refused_with_the_value(returned: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        host(lambda _arm, _n, _client: returned).answer(asked(read_trial(TABLES), 2, 2))
    assert words in caught.value.problem
    where = caught.value.where
    assert where.startswith('pull("')
    assert "clinic-1" in where
    assert f"{__file__}, line " in where


@pytest.mark.parametrize(
    "returned",
    [[1, 0.5], (1, 0.5), np.array([1.0, 0.5]), np.array([1, 0]), [np.float32(1), np.int64(0)]],
)
def test_numbers_of_all_kinds_are_taken(returned: Any) -> None:
    found = as_outcomes(returned, 2)
    assert found.dtype == np.float64
    assert found.tolist() == [float(value) for value in returned]


def test_an_error_in_a_library_names_the_line_of_the_users_own_code(tmp_path: Path) -> None:
    write(
        tmp_path,
        TABLES,
        "import json\n\ndef pull(arm, n, client):\n    return json.loads('{')\n",
    )
    with pytest.raises(InputError) as caught:
        try_trial(read_trial(TABLES), load_pull(tmp_path), 4)
    assert caught.value.where.startswith('pull("')
    assert "client-" in caught.value.where
    assert "JSONDecodeError: " in caught.value.problem
    assert caught.value.problem.endswith(f"({tmp_path / 'client.py'}, line 4)")


def write(folder: Path, tables: dict[str, Any], client: str) -> None:
    lines = [f"{key} = {_toml(value)}" for key, value in tables.items()]
    (folder / "fedbandits.toml").write_text("\n".join(lines), encoding="utf-8")
    (folder / "client.py").write_text(client, encoding="utf-8")


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items()) + " }"
    return json.dumps(value)


# The clock of try ---------------------------------------------------------------------------------


class Miscounting(ClientHost):
    """A client whose updates never count."""

    def answer(self, assignment: Assignment, within: Slice | None = None) -> Update:
        answer = super().answer(assignment, within)
        assert isinstance(answer, Update)
        return replace(answer, counts=tuple(n + 1 for n in answer.counts))


def test_try_does_not_wait_for_a_client_whose_update_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An hour of the trial passes at once: the clock goes on while nobody has anything to say.

    In version 0.1.0 it stood still, so that no deadline ever came.
    """

    class OneMiscounts(LocalTransport):
        def join(self, host: ClientHost, traffic: Callable[[], None] | None = None) -> None:
            wrong = Miscounting(host.info, constant(0.5), host.trial)
            super().join(host if self.connected() else wrong, traffic)

    monkeypatch.setattr("fedbandits.federation.local.LocalTransport", OneMiscounts)
    trial = read_trial({**TABLES, "quarantine_after": 1000, "quorum": {"fraction": 0.5}})
    server = try_trial(trial, lambda arm, n, _: [0.2 if arm == "red" else 0.9] * n, 4)
    assert server.decision is not None
    assert server.decision.winner == 1
    assert server.heard == 3
