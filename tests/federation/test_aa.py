"""A/A runs: the same treatment under different names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from coin_trial import TABLES
from fedbandits.cli.main import app
from fedbandits.federation.aa import AaTries, try_aa
from fedbandits.federation.followed import FollowedRun
from fedbandits.federation.halts import HaltedError, halt_of, set_halt
from fedbandits.federation.host import ClientInfo, PullByName
from fedbandits.federation.live import LiveTrial
from fedbandits.federation.local import try_trial
from fedbandits.federation.project import new_project
from fedbandits.federation.trial import read_trial
from fedbandits.rules.arrays import FloatArray
from fedbandits.run_page.page import run_html

AA = read_trial({**TABLES, "aa": True, "max_phases": 6})


def fair(seed: int) -> PullByName:
    """Return a pull of fair coins that knows no option but the first one."""
    rng = np.random.default_rng(seed)

    def pull(arm: str, n: int, client: ClientInfo) -> FloatArray:
        assert arm == TABLES["arms"][0]
        return rng.integers(2, size=n).astype(np.float64)

    return pull


def test_every_option_is_the_first_one() -> None:
    first = TABLES["arms"][0]
    assert AA.arms == tuple(f"{first} ({number})" for number in range(1, len(AA.arms) + 1))
    server = try_trial(AA, fair(1), 12)
    assert server.decision is not None


def test_a_sound_trial_seldom_calls_a_difference() -> None:
    found = try_aa(read_trial(TABLES), fair(3), 4, runs=20)
    assert found.most == pytest.approx(len(AA.arms) * 0.05)
    assert found.sound, found.words()


def test_outcomes_that_are_not_those_of_the_option_are_found_out() -> None:
    """What is recorded depends on how many came before, as if turns leaked into outcomes."""
    turn = iter(range(10**9))

    def leaking(arm: str, n: int, client: ClientInfo) -> FloatArray:
        return np.full(n, next(turn) % len(AA.arms) / len(AA.arms))

    trial = read_trial({**TABLES, "interleave": False})
    found = try_aa(trial, leaking, 8, runs=8)
    assert not found.sound
    assert "NOT SOUND" in found.words()


def test_the_page_and_the_status_say_how_often_it_should(tmp_path: Path) -> None:
    run = FollowedRun("demo", AA)
    assert "This is an A/A run" in run.status().words()
    assert "of such runs call a difference" in run_html(run)
    assert "this one did not so far" in run.status().aa
    assert not FollowedRun("demo", read_trial(TABLES)).status().aa


def test_who_halts_the_treatment_halts_all_of_it(tmp_path: Path) -> None:
    set_halt(tmp_path, arm=TABLES["arms"][0], reason="rash")
    halt = halt_of(tmp_path, "a", AA.arms)
    assert halt is not None
    assert halt.arms == tuple(range(len(AA.arms)))


def test_live_traffic_gets_the_treatment(tmp_path: Path) -> None:
    trial = read_trial({**TABLES, "aa": True, "live": {}, "patience": {"deadline": 600}})
    with LiveTrial(trial, client="shop", state=tmp_path) as live:
        given = {live.assign(f"visitor-{number}") for number in range(20)}
        assert given == {TABLES["arms"][0]}
        set_halt(tmp_path, arm=TABLES["arms"][0], reason="rash")
        with pytest.raises(HaltedError):
            live.assign("one more")


def test_the_command(tmp_path: Path) -> None:
    new_project(tmp_path / "my_test")
    done = CliRunner().invoke(app, ["try", str(tmp_path / "my_test"), "--aa", "--runs", "3"])
    assert done.exit_code == 0, done.output
    assert "of 3 A/A runs called a difference where there is none; at most" in done.stdout


def test_words() -> None:
    assert AaTries(runs=10, called=0, most=None).words().endswith("so that any number may")
    assert not AaTries(runs=10, called=6, most=0.1).sound


@pytest.mark.slow
def test_two_thousand_sound_trials_call_no_more_differences_than_stated() -> None:
    small = {**TABLES, "arms": ["red", "blue"], "pulls": 10, "admissions": 4, "max_phases": 2}
    sound = try_aa(read_trial(small), fair(5), 4, runs=2000)
    assert sound.most == pytest.approx(2 * 0.05)
    assert sound.called <= 0.1 * 2000
    assert sound.sound
    # A noise that is assumed to be a third of what it is, is found out.
    told = read_trial({**small, "assume": {"noise": 0.15, "spread": 0.05}})
    assert not try_aa(told, fair(6), 4, runs=100).sound
