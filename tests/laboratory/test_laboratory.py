"""The laboratory's numbers are those of the terminal, and whatever is typed has bounds."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args
from urllib.parse import parse_qsl

import numpy as np
import pytest

from fedbandits.errors import InputError
from fedbandits.experiments.bounds import bounds_of
from fedbandits.experiments.files import read_experiment
from fedbandits.laboratory import designs
from fedbandits.laboratory import setting as fields
from fedbandits.laboratory.designs import CERTIFIED, INDEX, LABELS, OWN, STAGES, Laboratory
from fedbandits.laboratory.playback import MOST_FRAMES, playback, watch
from fedbandits.laboratory.pool import Message, Pool
from fedbandits.laboratory.presets import presets
from fedbandits.laboratory.setting import FIELDS, Setting
from fedbandits.laboratory.worker import answers
from fedbandits.planning.plan import plan

BIN = Path(sys.executable).parent
SMALL = {"options": "3", "gap": "0.1", "horizon": "20000"}
SETTINGS: dict[str, dict[str, str]] = {
    "numbers": SMALL,
    "rates": {**SMALL, "outcome": "rate", "best": "0.6", "clients": "60"},
    "rounded": {**SMALL, "clients": "40", "privacy": "bits", "design": "fed1-ucb", "pulls": "50"},
    "noised": {**SMALL, "clients": "40", "privacy": "epsilon", "epsilon": "5"},
    "liars": {**SMALL, "clients": "200", "liars": "0.05", "rule": "certified"},
    "means": {**SMALL, "given": "means", "means": "0.1 0.4 0.2, 0.3", "design": "fed-ts"},
}


def told(said: Mapping[str, str], seconds: float = 60.0) -> list[Message]:
    return list(answers(said, seconds))


def last(messages: list[Message], kind: str) -> Message:
    return [one for one in messages if one["kind"] == kind][-1]


# What the form says


def test_choices_are_those_of_the_types_and_defaults_are_valid() -> None:
    kinds = {
        "outcome": fields.Outcome,
        "given": fields.Given,
        "privacy": fields.Protection,
        "design": fields.Design,
        "rule": fields.Rule,
    }
    for one in FIELDS:
        assert tuple(one.choices or ()) == (get_args(kinds[one.name]) if one.choices else ())
    assert {one.name for one in FIELDS} == set(asdict(Setting()))
    assert Setting.read(Setting().as_text()) == Setting()


@pytest.mark.parametrize("preset", presets(), ids=lambda one: one.key)
def test_a_link_restores_a_preset_and_its_designs_can_be_played(preset: Any) -> None:
    query = preset.setting.link()
    assert len(query) < 2_500
    assert Setting.read(dict(parse_qsl(query))) == preset.setting
    assert [one.refused for one in Laboratory(preset.setting).columns] == ["", "", ""]


@pytest.mark.parametrize(
    ("said", "field", "words"),
    [
        ({"options": "many"}, "options", '"many" is not a number; give a whole number from 2'),
        ({"options": "2.5"}, "options", "2.5 is not whole; give a whole number"),
        ({"options": "1e9"}, "options", "1e9 is out of range; give a whole number from 2 to 100"),
        ({"gap": "nan"}, "gap", "nan is out of range; give a number from 1e-06"),
        ({"gap": ""}, "gap", "is empty; give a number from"),
        ({"noise": "-1"}, "noise", "-1 is out of range"),
        ({"outcome": "maybe"}, "outcome", '"maybe" is not a choice;'),
        ({"horison": "1000"}, "", "is not a field; did you mean"),
        ({"means": "x" * 2001}, "means", "has 2,001 characters; 2,000 are the most: shorten it"),
        ({"given": "means", "means": "1"}, "means", "1 of them; give one for each of 2 to 100"),
        ({"given": "means", "means": "1 1"}, "means", "the best is 0 above the next"),
        ({"given": "means", "means": "1 <b>"}, "means", '"<b>" is not a number'),
        ({"outcome": "rate", "best": "1.2"}, "best", "rates lie between 0 and 1: change one"),
        ({"outcome": "rate", "gap": "0.9"}, "gap", "rates lie between 0 and 1: change one"),
        ({"liars": "0.1", "privacy": "bits"}, "liars", "set one of the two to none"),
        ({"outcome": "rate", "best": "0.9", "spread": "0.4"}, "spread", "too wide for a beta law"),
        ({"game": "1000"}, "", "1000 is out of range"),
        ({"game": "0", "left": "nobody"}, "", '"nobody" is not a design; known: certified'),
        ({"game": "0", "left": OWN, "design": "fed1-ucb"}, "clients", "give a number"),
    ],
)
def test_a_mistake_names_its_field_the_rule_the_value_and_the_way_out(
    said: dict[str, str], field: str, words: str
) -> None:
    (message,) = told(said)
    (mistake,) = message["errors"]
    assert mistake["field"] == field
    assert words in mistake["problem"]


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(InputError) as caught:
        Setting.read({"gap": "x", "cost": "-1", "seed": ""})
    assert [one.where for one in caught.value.each] == ["gap", "cost", "seed"]


# The numbers


@pytest.mark.parametrize("name", SETTINGS)
def test_the_file_gives_the_same_numbers_in_the_terminal(name: str, tmp_path: Path) -> None:
    messages = told(SETTINGS[name], seconds=0.0)  # the first stage alone
    shown = last(messages, "games")
    assert set(shown["designs"]) == set(LABELS)
    assert shown["games"] == STAGES[0]
    assert last(messages, "done") == {"kind": "done", "complete": False}
    file = tmp_path / "copied.toml"
    file.write_text(shown["file"], encoding="utf-8")
    command = [str(BIN / "fedbandits"), "run", str(file), "--json", "--quiet", "--workers", "1"]
    ran = subprocess.run(command, capture_output=True, check=True, text=True)
    for variant in json.loads(ran.stdout)["variants"]:
        numbers = shown["designs"][variant["label"]]
        for mine, theirs in (
            (numbers["regret"], variant["regret"]["total"]),
            (numbers["exploration"], variant["regret"]["exploration"]),
            (numbers["communication"], variant["regret"]["communication"]),
            (numbers["clients"], variant["clients"]),
            (numbers["phases"], variant["phases"]),
            (numbers["pulls"], variant["decision_slot"]),
        ):
            assert (mine is None) == (theirs is None)
            if mine is not None:
                assert (mine["mean"], mine["stderr"]) == (theirs["mean"], theirs["stderr"])
        assert numbers["wrong"]["mean"] == variant["wrong_arm_rate"]
        assert numbers["undecided"]["mean"] == variant["undecided_rate"]


def test_the_command_writes_the_file_and_prints_the_numbers(tmp_path: Path) -> None:
    shown = last(told(SMALL, seconds=0.0), "games")
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "200"}
    ran = subprocess.run(
        ["sh", "-c", shown["command"]],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        check=True,
        text=True,
    )
    for numbers in shown["designs"].values():
        assert numbers["regret"]["text"].split("\u00a0")[0] in ran.stdout


def test_the_file_passes_check_and_says_what_the_page_says_is_proven(tmp_path: Path) -> None:
    messages = told(SETTINGS["rates"], seconds=0.0)
    file = tmp_path / "copied.toml"
    file.write_text(last(messages, "games")["file"], encoding="utf-8")
    command = [str(BIN / "fedbandits"), "check", str(file)]
    ran = subprocess.run(command, capture_output=True, check=True, text=True)
    said = " ".join(ran.stdout.split())
    for design in last(messages, "outlook")["designs"]:
        assert design["guarantee"] in said


def test_stages_refine_the_same_games_and_say_when_all_are_played() -> None:
    messages = told(SMALL)
    stages = [one for one in messages if one["kind"] == "games"]
    assert [one["games"] for one in stages] == [STAGES[0]] * 3 + [*STAGES[1:]]
    assert messages[-1] == {"kind": "done", "complete": True}
    rough, fine = (one["designs"][INDEX]["regret"] for one in (stages[2], stages[-1]))
    assert fine["stderr"] < rough["stderr"]
    assert abs(fine["mean"] - rough["mean"]) < 5 * rough["stderr"]
    assert fine["low"] < fine["mean"] < fine["high"]


def test_the_certified_design_is_what_plan_expects_of_its_schedule() -> None:
    lab = Laboratory(Setting.read({**SMALL, "clients": "100"}))
    table = lab.columns[0].table
    assert table is not None
    planned = plan(
        n_arms=3,
        gap=0.1,
        noise=0.5,
        spread=0.02,
        clients=100,
        horizon=20_000,
        pulls=table["pulls"],
        admissions=table.get("admissions", "100"),
    )
    assert lab.plan.feasibility == planned.feasibility
    assert planned.yours is not None
    theirs, ours = planned.yours.regret, lab.numbers(lab.play(1000, CERTIFIED))[CERTIFIED]["regret"]
    assert abs(theirs.mean - ours["mean"]) < 5 * np.hypot(theirs.stderr, ours["stderr"])
    # It is foreseen, not searched for, and so costs more than the best, but not much.
    assert planned.suggested is not None
    assert ours["mean"] < 1.5 * planned.suggested.regret.mean


def test_an_infeasible_setting_says_why_and_its_other_designs_are_played() -> None:
    messages = told({**SMALL, "liars": "0.4", "spread": "0.3", "clients": "50"}, seconds=0.0)
    outlook = last(messages, "outlook")
    assert not outlook["feasible"]
    assert outlook["why"][0].startswith("Not feasible: liars may move a comparison by")
    assert outlook["designs"][0]["refused"]
    assert set(last(messages, "games")["designs"]) == {INDEX, OWN}
    few = told({"horizon": "100", "options": "100", "outcome": "rate"}, seconds=0.0)
    assert all(one["refused"] for one in last(few, "outlook")["designs"][1:])


def test_the_lower_bound_is_that_of_the_file() -> None:
    lab = Laboratory(Setting.read(SMALL))
    (first, *_) = bounds_of(read_experiment(lab.tables(1, LABELS)))
    assert not isinstance(first.least, str)
    assert lab.outlook()["bound"]["at"] == first.least.at(20_000)
    rates = Laboratory(Setting.read(SETTINGS["rates"])).outlook()["bound"]
    assert rates["at"] is None
    assert "normal rewards" in rates["reason"]


def test_a_design_that_memory_forbids_is_left_out_of_numbers_and_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(designs, "MEMORY_LIMIT", 4_000)
    messages = told(SETTINGS["rates"], seconds=0.0)
    failed = {one["design"]: one for one in messages if one["kind"] == "failed"}
    assert list(failed) == [INDEX, OWN]
    assert failed[OWN]["field"] == "clients"
    assert "and a process may take" in failed[OWN]["problem"]
    shown = last(messages, "games")
    assert set(shown["designs"]) == {CERTIFIED}
    assert f'label = "{OWN}"' not in shown["file"]


# A game step by step


@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "means"])
@pytest.mark.parametrize("label", LABELS)
def test_frames_are_the_game_that_the_simulator_plays(name: str, label: str) -> None:
    lab = Laboratory(Setting.read(SETTINGS[name]))
    (run,) = lab.play(3, label).simulations
    for game in range(3):
        _, frames, played = watch(lab, label, game)
        for one in ("winner", "clients", "phases", "decision_slot", "exploration", "communication"):
            assert getattr(played, one)[0] == getattr(run.games, one)[game], one
        assert len(frames) == min(MOST_FRAMES, int(played.phases[0]))
        assert sum(frame.newcomers for frame in frames) == frames[-1].clients
        if len(frames) == int(played.phases[0]) and played.winner[0] == 0:
            # After a decision for the best arm nothing is lost.
            spent = sum(frame.exploration for frame in frames)
            assert spent == pytest.approx(float(played.exploration[0]))
            assert frames[-1].settled


def test_a_frame_says_who_was_pulled_and_what_was_dropped() -> None:
    lab = Laboratory(Setting.read(SMALL))
    _, frames, _ = watch(lab, OWN, 0)
    for before, after in itertools.pairwise(frames):
        assert before.after == after.before
    for frame in frames:
        assert all((pulls > 0) == on for pulls, on in zip(frame.pulls, frame.before, strict=True))
        best = max(v for v, on in zip(frame.values, frame.before, strict=True) if on)
        width = frame.widths[0]
        for value, on, stays in zip(frame.values, frame.before, frame.after, strict=True):
            if on:  # the paper's rule: out when the interval lies below that of the best
                assert stays == (value + width >= best - width)


def test_a_playback_is_json_with_both_sides() -> None:
    made = playback(Laboratory(Setting.read(SMALL)), left=OWN, replication=2)
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    assert [side["label"] for side in made["sides"]] == [OWN, INDEX]


# Bounds on work

ENDLESS = {"pulls": "1", "admissions": "1", "horizon": "10000000", "gap": "0.000001"}
SERIOUS = 60.0


async def heard(pool: Pool, said: Mapping[str, str], viewer: str = "a") -> list[Message]:
    return [message async for message in pool.answers(said, viewer)]


async def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + SERIOUS
    while not true():
        assert time.monotonic() < end, "it never came true"
        await asyncio.sleep(0.02)


def test_an_endless_task_is_cut_off_and_the_pool_goes_on() -> None:
    async def scene() -> None:
        pool = Pool(processes=1, seconds=3.0)
        messages = await heard(pool, ENDLESS)
        assert messages[-1] == {"kind": "cut", "seconds": 3.0}
        await until(lambda: not pool.running)
        assert last(await heard(pool, {"options": ""}), "refused")

    asyncio.run(scene())


def test_a_newer_question_of_a_viewer_ends_the_older_one() -> None:
    async def scene() -> None:
        pool = Pool(processes=2, seconds=SERIOUS)
        older = asyncio.ensure_future(heard(pool, ENDLESS, "v"))
        other = asyncio.ensure_future(heard(pool, ENDLESS, "w"))
        await until(lambda: len(pool.running) == 2)
        newer = await heard(pool, {"options": ""}, "v")
        assert (await older)[-1] == {"kind": "superseded"}
        assert newer[-1]["kind"] == "refused"
        assert not other.done()
        other.cancel()
        await until(lambda: not pool.running)

    asyncio.run(scene())


def test_those_who_wait_are_few_and_may_give_up() -> None:
    async def scene() -> None:
        pool = Pool(processes=1, waiting=1, seconds=SERIOUS)
        first = asyncio.ensure_future(heard(pool, ENDLESS, "a"))
        await until(lambda: pool.running)
        second = asyncio.ensure_future(heard(pool, ENDLESS, "b"))
        await asyncio.sleep(0)
        assert await heard(pool, SMALL, "c") == [{"kind": "busy", "waiting": 1}]
        second.cancel()
        await asyncio.sleep(0.05)
        third = asyncio.ensure_future(heard(pool, {"options": ""}, "d"))
        first.cancel()
        assert (await third)[-1]["kind"] == "refused"
        await until(lambda: not pool.running)
        # No turn was lost on the way.
        assert (await heard(pool, {"options": ""}, "e"))[-1]["kind"] == "refused"

    asyncio.run(scene())


def test_a_process_that_the_system_kills_is_told_and_replaced() -> None:
    async def scene() -> None:
        pool = Pool(processes=1, seconds=SERIOUS)
        task = asyncio.ensure_future(heard(pool, ENDLESS))
        await until(lambda: pool.running)
        (process,) = pool.running
        os.kill(process, signal.SIGKILL)
        assert (await task)[-1] == {"kind": "broke"}
        assert (await heard(pool, {"options": ""}))[-1]["kind"] == "refused"

    asyncio.run(scene())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how much is held")
def test_a_process_cannot_take_more_memory_than_its_limit() -> None:
    code = (
        "from fedbandits.laboratory import worker\n"
        "worker.limit_itself(60.0)\n"
        "try:\n"
        "    bytearray(2 * worker.MEMORY)\n"
        "except MemoryError:\n"
        "    print('refused')\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert ran.stdout == "refused\n"


@pytest.mark.skipif(not hasattr(signal, "alarm"), reason="there are no alarms here")
def test_a_process_ends_although_its_server_was_killed() -> None:
    code = "from fedbandits.laboratory import worker; worker.limit_itself(-4.5)\nwhile True: pass"
    ran = subprocess.run([sys.executable, "-c", code], check=False, timeout=SERIOUS)
    assert ran.returncode == -signal.SIGALRM


@pytest.mark.parametrize(
    "said",
    [
        {"pulls": "9^9^9^9^9^9"},
        {"pulls": "(" * 900},
        {"pulls": "__import__('os').getcwd()"},
        {"admissions": "10^9", "outcome": "rate"},
        {"given": "means", "means": "1e9, -1e9, 0"},
        {"outcome": "rate", "clients": "1", "spread": "0"},
        {"cost": "0", "spread": "0", "clients": "1"},
    ],
)
def test_whatever_is_typed_ends_with_an_answer(said: dict[str, str]) -> None:
    assert told(said, seconds=0.0)[-1]["kind"] in ("done", "refused")
