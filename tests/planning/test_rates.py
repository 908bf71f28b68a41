"""Plans for rates: the sharpest radius, what is feasible, and a file that runs as it is."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import command
from fedbandits.errors import InputError
from fedbandits.experiments.files import read_experiment
from fedbandits.federation.trial import read_trial
from fedbandits.planning.rates import RatesPlan, RatesQuestion, forecasts, plan_rates
from fedbandits.rules.algorithms import Fed1Ucb
from fedbandits.rules.radii import ChernoffRadius
from fedbandits.simulation import Variant, build_rules
from fedbandits.simulation.variants import guarantee_of
from rule_calls import decided


@pytest.mark.parametrize(
    ("rates", "clients", "sharpest"),
    [
        ((0.02, 0.03), 20, "bernstein"),
        ((0.5, 0.55), 12, "certified"),
        ((0.02, 0.10), 20, "chernoff"),
        ((0.10, 0.12), None, "bernstein"),
    ],
)
def test_the_radius_with_the_fewest_pulls_comes_first(
    rates: tuple[float, ...], clients: int | None, sharpest: str
) -> None:
    found = forecasts(RatesQuestion(rates=rates, clients=clients))
    assert found[0].radius == sharpest
    assert {one.radius for one in found} == {"bernstein", "chernoff", "certified"}
    needed = [one.pulls_in_all for one in found]
    assert needed == sorted(needed)


def test_a_forecast_is_the_first_number_of_pulls_that_decides() -> None:
    question = RatesQuestion(rates=(0.02, 0.10, 0.05), clients=7, delta=0.01)
    (one,) = [found for found in forecasts(question) if found.radius == "chernoff"]
    plan = RatesPlan(question=question, compared=(), elimination=None, index=None)
    assert not plan.feasible
    rule = Fed1Ucb(pulls=1, radius=ChernoffRadius(delta=0.01)).rule(question.beliefs())
    left = [
        decided(
            rule,
            phase=1,
            active=np.ones(3, dtype=np.bool_),
            estimates=np.array(question.rates),
            counts=[[pulls]],
            sizes=7,
        ).active.sum()
        for pulls in (one.pulls - 1, one.pulls)
    ]
    assert left[0] > 1 == left[1]


@pytest.mark.parametrize("asked", [{"clients": 6}, {"spread": 0.02}, {"clients": 6, "delta": 0.2}])
def test_what_is_suggested_keeps_its_promise_in_its_game(asked: dict[str, Any]) -> None:
    plan = plan_rates([0.1, 0.4], **asked)
    assert plan.suggested is not None
    assert plan.suggested.wrong_rate <= asked.get("delta", 0.05)
    problem = plan.question.problem()
    variant = Variant(label="v", problem=problem, algorithm=plan.algorithm())
    ((rule, _),) = build_rules([variant], plan.question.horizon)
    promise = guarantee_of(variant, rule)
    assert promise.holds
    assert promise.error == asked.get("delta", 0.05)


def test_an_index_rule_is_considered_only_if_no_error_probability_is_asked_for() -> None:
    without = plan_rates([0.1, 0.4], clients=6, horizon=4000)
    assert without.index is not None
    assert without.elimination is not None
    assert without.suggested is not None
    least = min(without.index.regret.mean, without.elimination.regret.mean)
    assert without.suggested.regret.mean == least
    assert plan_rates([0.1, 0.4], clients=6, horizon=4000, delta=0.05).index is None
    assert plan_rates([0.1, 0.4], clients=6).index is None


@pytest.mark.parametrize(
    "options",
    [
        ("--clients", "6"),
        ("--clients", "6", "--horizon", "4000"),
        ("--clients", "6", "--horizon", "4000", "--delta", "0.1"),
        ("--spread", "0.02", "--cost", "0.5"),
    ],
)
def test_the_file_that_is_printed_runs_and_is_tried_as_it_is(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    done = command("plan", "--outcome", "binary", "--rates", "0.1,0.6", *options)
    assert done.returncode == 0, done.stderr
    _, _, text = done.stdout.partition("fedbandits.toml:\n\n")
    tables = tomllib.loads(text)
    assert read_experiment(tables).variants[0].algorithm == read_trial(tables).algorithm
    (tmp_path / "fedbandits.toml").write_text(text, encoding="utf-8")
    (tmp_path / "client.py").write_text(
        "import random\n\nRATES = {'option-1': 0.1, 'option-2': 0.6}\n\n\n"
        "def pull(arm, n, client):\n"
        "    return [float(random.random() < RATES[arm]) for _ in range(n)]\n",
        encoding="utf-8",
    )
    played = command("run", tmp_path / "fedbandits.toml", "--out", tmp_path / "out")
    assert played.returncode == 0, played.stderr
    assert "warning" not in played.stderr
    clients = options[1] if options[0] == "--clients" else "64"
    tried = command("try", tmp_path, "--clients", clients)
    assert tried.returncode == 0, tried.stderr
    assert "option-2" in tried.stdout


def test_what_is_not_feasible_is_said_with_exit_code_3(tmp_path: Path) -> None:
    words = ("plan", "--rates", "0.10,0.12", "--horizon", "500", "--delta", "0.05")
    done = command(*words, "--clients", "3")
    assert done.returncode == 3
    assert "not feasible: within 500 slots no radius decides" in done.stdout
    assert "fedbandits.toml" not in done.stdout
    told = command(*words, "--clients", "3", "--json", "--out", tmp_path / "plan")
    assert told.returncode == 3
    assert json.loads(told.stdout)["feasible"] is False
    assert [path.name for path in (tmp_path / "plan").iterdir()] == ["plan.json"]


def test_a_feasible_plan_is_written_as_a_file(tmp_path: Path) -> None:
    plan = plan_rates([0.1, 0.6], clients=6)
    plan.write(tmp_path / "plan")
    written = (tmp_path / "plan" / "fedbandits.toml").read_text("utf-8")
    assert written == plan.toml() + "\n"
    kept = json.loads((tmp_path / "plan" / "plan.json").read_text("utf-8"))
    assert kept["toml"] == plan.toml()
    assert kept["suggested"] == "fed1-ucb"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--outcome", "binary"), "rates: is missing"),
        (("--outcome", "colour", "--rates", "0.1,0.2"), 'outcome: "colour" is not "binary"'),
        (("--rates", "0.1,0.2", "--gap", "0.1"), "gap: does not go with --rates"),
        (("--rates", "0.1,x"), 'rates[1]: "x" is not a number'),
        (("--rates", "0.1,1.2"), "rates[1]: 1.2 is not a rate from 0 to 1"),
        (("--rates", "0.2,0.2"), "rates: 0.2 is there twice"),
        (("--rates", "0.2"), "rates: has one arm"),
        (("--rates", "0.1,0.2", "--delta", "2"), "delta: 2 is not an error probability"),
    ],
)
def test_mistakes_are_named(words: tuple[str, ...], message: str) -> None:
    done = command("plan", *words)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_mistake_in_the_table_of_a_trial_is_found_there() -> None:
    tables = tomllib.loads(plan_rates([0.1, 0.6], clients=6).toml())
    tables["trial"]["colour"] = "red"
    with pytest.raises(InputError) as raised:
        read_trial(tables)
    assert raised.value.where == "trial.colour"
