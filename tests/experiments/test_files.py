"""Experiment files: what they mean, and one clear line for every mistake."""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.construct import construct
from fedbandits.experiments.describe import describe_experiment
from repository import EXAMPLES

FILES = sorted(EXAMPLES.glob("*.toml"))

VALID: dict[str, Any] = {
    "title": "demo",
    "horizon": 10_000,
    "replications": 10,
    "seed": 1,
    "problem": {
        "model": "approximate",
        "means": [0.5, 0.9],
        "noise": {"law": "gaussian", "sigma": 0.5},
        "spread": {"law": "gaussian", "sigma": 0.1},
    },
    "variants": [
        {"label": "a", "algorithm": "fed2-ucb", "pulls": "10", "admissions": "2^p"},
        {"label": "b", "algorithm": "fed1-ucb", "pulls": 10, "clients": 5},
    ],
}

Edit = Callable[[dict[str, Any]], object]


def edited(edit: Edit) -> dict[str, Any]:
    tables = copy.deepcopy(VALID)
    edit(tables)
    return tables


def exact(**keys: Any) -> dict[str, Any]:
    return {"model": "exact", "noise": {"law": "gaussian", "sigma": 0.5}, **keys}


MISTAKES: list[tuple[str, Edit, str]] = [
    (
        "unknown key",
        lambda t: t.update(horizn=5),
        r'^horizn: is not a key here; did you mean "horizon"',
    ),
    ("missing key", lambda t: t.pop("horizon"), r"^horizon: is missing; the radius"),
    ("missing title", lambda t: t.pop("title"), r"^title: is missing$"),
    ("horizon a word", lambda t: t.update(horizon="10"), r"^horizon: '10' is not a valid integer"),
    ("horizon true", lambda t: t.update(horizon=True), r"^horizon: True is not a valid integer"),
    (
        "horizon zero",
        lambda t: t.update(horizon=0),
        r"^horizon: 0 is not a whole number from 1 to 10\^15",
    ),
    (
        "horizon too long",
        lambda t: t.update(horizon=10**16),
        r"^horizon: 10000000000000000 is not a whole",
    ),
    (
        "horizon too short",
        lambda t: t.update(horizon=15),
        r"^horizon: 15 slots; the first phase of",
    ),
    ("negative seed", lambda t: t.update(seed=-1), r"^seed: -1 is below 0; give a whole number"),
    ("no replications", lambda t: t.update(replications=0), r"^replications: 0 is not"),
    ("no problem", lambda t: t.pop("problem"), r"^problem: give either one \[problem\]"),
    ("two kinds of problem", lambda t: t.update(problems={}), r"^problem: give either one"),
    (
        "unknown model",
        lambda t: t["problem"].update(model="exacct"),
        r'^problem\.model: .*mean "exact"',
    ),
    ("no model", lambda t: t["problem"].pop("model"), r"^problem\.model: is missing"),
    ("empty means", lambda t: t["problem"].update(means=[]), r"^problem\.means: is empty"),
    ("one arm", lambda t: t["problem"].update(means=[0.5]), r"^problem\.means: has one arm"),
    (
        "NaN",
        lambda t: t["problem"].update(means=[0.5, float("nan")]),
        r"^problem\.means\[1\]: nan is not",
    ),
    (
        "a word as mean",
        lambda t: t["problem"].update(means=[0.5, "x"]),
        r"^problem\.means\[1\]: 'x' is not",
    ),
    (
        "negative sigma",
        lambda t: t["problem"]["noise"].update(sigma=-1.0),
        r"^problem\.noise\.sigma: -1",
    ),
    (
        "no sigma",
        lambda t: t["problem"]["noise"].pop("sigma"),
        r"^problem\.noise\.sigma: is missing",
    ),
    (
        "negative spread",
        lambda t: t["problem"]["spread"].update(sigma=-0.1),
        r"^problem\.spread\.sigma: -0\.1",
    ),
    (
        "unknown law",
        lambda t: t["problem"]["noise"].update(law="gausian"),
        r'^problem\.noise\.law: .*"gaussian"',
    ),
    (
        "beta as noise",
        lambda t: t["problem"]["noise"].update(law="beta"),
        r'^problem\.noise\.law: "beta" is not',
    ),
    (
        "empirical sampled",
        lambda t: t["problem"].update(noise={"law": "empirical"}),
        r"^problem\.noise\.law",
    ),
    (
        "offset a word",
        lambda t: t["problem"]["spread"].update(offset="x"),
        r"^problem\.spread\.offset: 'x'",
    ),
    (
        "negative offset",
        lambda t: t["problem"]["spread"].update(offset=-1.0),
        r"^problem\.spread\.offset: -1",
    ),
    (
        "spread leaves [0, 1]",
        lambda t: t["problem"].update(noise={"law": "bernoulli"}),
        r"^problem\.spread: local means from -inf to inf with bernoulli noise",
    ),
    (
        "population zero",
        lambda t: t["problem"].update(population=0),
        r"^problem\.population: 0 is not a whole number from 1",
    ),
    (
        "ragged local means",
        lambda t: t.update(problem=exact(local_means=[[0.1, 0.2], [0.3]])),
        r"^problem\.local_means\[1\]: 1 arms, but local_means\[0\] has 2",
    ),
    ("no local means", lambda t: t.update(problem=exact()), r"^problem\.local_means: is missing"),
    (
        "empty local means",
        lambda t: t.update(problem=exact(local_means=[])),
        r"^problem\.local_means: is empty",
    ),
    (
        "no observations",
        lambda t: t.update(problem=exact(noise={"law": "empirical"})),
        r"^problem\.observations: is missing",
    ),
    ("no variants", lambda t: t.update(variants=[]), r"^variants: is empty"),
    (
        "unknown algorithm",
        lambda t: t["variants"][0].update(algorithm="fed2ucb"),
        r'^variants\[0\]\.algorithm: "fed2ucb" is not an algorithm; did you mean "fed2-ucb"',
    ),
    (
        "no algorithm",
        lambda t: t["variants"][1].pop("algorithm"),
        r"^variants\[1\]\.algorithm: is missing",
    ),
    (
        "unknown key of a variant",
        lambda t: t["variants"][0].update(pull="1"),
        r'^variants\[0\]\.pull: is not a key of a fed2-ucb variant; did you mean "pulls"',
    ),
    (
        "a key of another algorithm",
        lambda t: t["variants"][1].update(admissions="1"),
        r"^variants\[1\]\.admissions: is not a key of a fed1-ucb variant",
    ),
    ("no pulls", lambda t: t["variants"][0].pop("pulls"), r"^variants\[0\]\.pulls: is missing"),
    (
        "pulls below 1",
        lambda t: t["variants"][0].update(pulls="100/p^9"),
        r'^variants\[0\]\.pulls: "100/p\^9" gives 0\.195312 pulls in phase 2; .* at least 1',
    ),
    (
        "pulls not whole",
        lambda t: t["variants"][0].update(pulls="10*log(T)"),
        r"^variants\[0\]\.pulls: .* must be a whole number \(wrap it in ceil",
    ),
    (
        "pulls not an expression",
        lambda t: t["variants"][0].update(pulls="2^"),
        r'^variants\[0\]\.pulls: "2\^" ends too early',
    ),
    (
        "pulls a list",
        lambda t: t["variants"][0].update(pulls=[1]),
        r"^variants\[0\]\.pulls: \[1\] is not a schedule",
    ),
    (
        "nobody in the first phase",
        lambda t: t["variants"][0].update(admissions="p-1"),
        r"^variants\[0\]\.admissions: .* 0 clients in phase 1; a phase needs at least 1",
    ),
    (
        "fewer than no clients",
        lambda t: t["variants"][0].update(admissions="3-p"),
        r"^variants\[0\]\.admissions: .* -1 clients in phase 4; a phase needs at least 0",
    ),
    (
        "clients zero",
        lambda t: t["variants"][1].update(clients=0),
        r"^variants\[1\]\.clients: 0 is not a whole number from 1",
    ),
    (
        "clients missing",
        lambda t: t["variants"][1].pop("clients"),
        r"^variants\[1\]\.clients: is missing; the population is unlimited",
    ),
    (
        "more clients than there are",
        lambda t: t["problem"].update(population=3),
        r"^variants\[1\]\.clients: 5 clients of a population of 3",
    ),
    (
        "radius constant",
        lambda t: t["variants"][0].update(radius={"arm": -1.0}),
        r"^variants\[0\]\.radius\.arm: -1",
    ),
    (
        "radius rule",
        lambda t: t["variants"][0].update(radius={"rule": "papper"}),
        r'^variants\[0\]\.radius\.rule: .*did you mean "paper"',
    ),
    (
        "radius key",
        lambda t: t["variants"][0].update(radius={"arms": 1.0}),
        r'^variants\[0\]\.radius\.arms: is not a key here; did you mean "arm"',
    ),
    (
        "radius a number",
        lambda t: t["variants"][0].update(radius=6),
        r"^variants\[0\]\.radius: 6 is not a table",
    ),
    (
        "assumed noise",
        lambda t: t["variants"][0].update(assume={"noise": -1.0}),
        r"^variants\[0\]\.assume\.noise: -1",
    ),
    (
        "fidelity that is none",
        lambda t: t["variants"][0].update(fidelity="cohort"),
        r'^variants\[0\]\.fidelity: "cohort" is not a fidelity',
    ),
    (
        "fidelity that is not valid",
        lambda t: (
            t["problem"]["spread"].update(offset=0.1),
            t["variants"][0].update(fidelity="cohorts"),
        ),
        r'^variants\[0\]\.fidelity: "cohorts" is not valid here: the arms .* share an offset',
    ),
    (
        "same label twice",
        lambda t: t["variants"][1].update(label="a"),
        r'^variants\[1\]\.label: "a" is the label of variants\[0\] too',
    ),
    (
        "unknown problem",
        lambda t: t["variants"][1].update(problem="radio"),
        r'^variants\[1\]\.problem: "radio" is not a problem; known: problem',
    ),
    (
        "negative cost",
        lambda t: t.update(communication_cost=-1.0),
        r"^communication_cost: -1",
    ),
    ("huge cost", lambda t: t.update(communication_cost=1e300), r"^communication_cost: 1e\+300"),
    (
        "huge mean",
        lambda t: t["problem"].update(means=[0.5, 1e308]),
        r"^problem\.means\[1\]: 1e\+308",
    ),
    (
        "huge sigma",
        lambda t: t["problem"]["noise"].update(sigma=1e200),
        r"^problem\.noise\.sigma: 1e\+200",
    ),
    (
        "tiny sigma",
        lambda t: t["problem"]["spread"].update(sigma=1e-170),
        r"^problem\.spread\.sigma: 1e-170",
    ),
    (
        "huge offset",
        lambda t: t["problem"]["spread"].update(offset=1e308),
        r"^problem\.spread\.offset: 1e\+308",
    ),
    (
        "model a list",
        lambda t: t["problem"].update(model=["exact"]),
        r"^problem\.model: \['exact'\]",
    ),
    ("huge grid", lambda t: t.update(grid_points=10**9), r"^grid_points: 1,000,000,000 points"),
    (
        "huge population",
        lambda t: t["problem"].update(population=10**30),
        r"^problem\.population: 10+ is not",
    ),
    (
        "huge cap",
        lambda t: t["variants"][0].update(max_clients=10**30),
        r"^variants\[0\]\.max_clients: 10+ is",
    ),
    (
        "a table as noise",
        lambda t: t["problem"].update(noise=[1]),
        r"^problem\.noise: \[1\] is not a table",
    ),
    (
        "negative city",
        lambda t: t.update(problem={"model": "cognitive-radio", "city": {"seed": -1}}),
        r"^problem\.city\.seed: -1 is not a whole number from 0",
    ),
    (
        "observations of one arm",
        lambda t: t.update(problem=exact(noise={"law": "empirical"}, observations=[[[1.0]]])),
        r"^problem\.observations: has one arm",
    ),
]


def check(tables: dict[str, Any]) -> None:
    fb.read_experiment(tables).check()


def test_the_file_from_which_the_mistakes_are_made_is_valid() -> None:
    check(VALID)


@pytest.mark.parametrize(
    ("edit", "message"),
    [pytest.param(edit, message, id=name) for name, edit, message in MISTAKES],
)
def test_a_mistake_is_one_line_that_names_the_key(edit: Edit, message: str) -> None:
    with pytest.raises(fb.InputError, match=message) as caught:
        check(edited(edit))
    assert "\n" not in str(caught.value)


WRONG_IN_ALL_TABLES: dict[str, Any] = {
    "title": 5,
    "horizon": 0,
    "seed": -1,
    "replicatons": 4,
    "communication_cost": -2,
    "problem": {
        "model": "approximate",
        "means": [0.5, 0.9],
        "noise": {"law": "gaussian", "sigma": -1},
        "spread": {"law": "gausian"},
        "population": 0,
        "goal": "mx",
    },
    "variants": [
        {
            "algorithm": "fed2-ucb",
            "pulls": "0.5 +",
            "epsilon": -1,
            "foo": 1,
            "privacy": {
                "range": [0, 1],
                "noise": "laplace",
                "epsilon": -1,
                "min_pulls": 0,
                "level": "usr",
            },
            "max_clients": 0,
            "max_phases": -1,
        },
        {"algorithm": "ucb9"},
        {
            "algorithm": "fed1-ucb",
            "label": " ",
            "pulls": 10,
            "assume": {"noise": -1, "spread": "x"},
            "radius": {"rule": "paper", "arm": -1, "client": -2},
        },
    ],
}


def test_all_mistakes_of_a_file_are_told_at_once() -> None:
    with pytest.raises(fb.InputError) as caught:
        check(WRONG_IN_ALL_TABLES)
    assert [error.where for error in caught.value.each] == [
        *("title", "horizon", "seed", "replicatons", "communication_cost"),
        *("problem.noise.sigma", "problem.spread.law", "problem.goal", "problem.population"),
        *("variants[0].foo", "variants[0].pulls", "variants[0].admissions", "variants[0].epsilon"),
        *(f"variants[0].privacy.{key}" for key in ("level", "min_pulls", "epsilon")),
        *("variants[0].max_clients", "variants[0].max_phases", "variants[1].algorithm"),
        *("variants[2].radius.arm", "variants[2].radius.client"),
        *("variants[2].assume.noise", "variants[2].assume.spread", "variants[2].label"),
    ]
    for error in caught.value.each:
        assert str(error).startswith(f"{error.where}: ")
        assert "stand-in" not in str(error)


@pytest.mark.parametrize(
    ("table", "wrong"),
    [
        # What needs, excludes or is compared with the value that is wrong is not wrong itself.
        ({"range": [0, 1], "noise": "laplace", "epsilon": -1}, ["epsilon"]),
        ({"range": [0, 1], "noise": "gausian", "epsilon": 1.0, "delta": 1e-6}, ["noise"]),
        ({"range": [0, 1], "noise": "gaussian", "rho": 0.1, "level": "user"}, ["releases"]),
        ({"range": [0, 1], "quantize": {"bits": 99}}, ["quantize.bits"]),
        ({"range": [0, 1], "quantize": {"bits": 8, "widening": "paper"}}, ["quantize.widening"]),
        ({"range": [1, 0], "noise": "laplace", "scale": 0.1}, ["range"]),
        ({"range": [0, 1], "noise": "laplace", "epsilom": 1.0}, ["epsilom"]),
        ({"noise": "laplace", "scale": -1, "min_pulls": 0}, ["range", "min_pulls", "scale"]),
    ],
)
def test_what_only_follows_from_a_mistake_is_not_told(
    table: dict[str, Any], wrong: list[str]
) -> None:
    with pytest.raises(fb.InputError) as caught:
        construct(fb.Privacy, table, "")
    assert [error.where for error in caught.value.each] == wrong


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_shipped_examples_are_valid(path: Path) -> None:
    fb.load_experiment(path).check()


def assert_reads_back(tables: dict[str, Any]) -> None:
    experiment = fb.read_experiment(tables)
    described = describe_experiment(experiment)
    again = fb.read_experiment(json.loads(json.dumps(described)))
    assert describe_experiment(again) == described
    for one, other in zip(experiment.variants, again.variants, strict=True):
        np.testing.assert_array_equal(one.problem.means, other.problem.means)
        assert one.problem.name == other.problem.name
    (a, *_), (b, *_) = experiment.run(workers=1).simulations, again.run(workers=1).simulations
    np.testing.assert_array_equal(a.games.total, b.games.total)


PROBLEMS = {
    "approximate": VALID["problem"],
    "offset and population": {
        **VALID["problem"],
        "spread": {"law": "uniform", "sigma": 0.1, "offset": 0.2},
        "population": 9,
    },
    "beta": {
        **VALID["problem"],
        "noise": {"law": "bernoulli"},
        "spread": {"law": "beta", "sigma": 0.1},
    },
    "exact": exact(local_means=[[0.1, 0.5], [0.9, 0.4], [0.2, 0.7], [0.5, 0.5], [0.3, 0.6]]),
    "empirical": exact(
        noise={"law": "empirical"}, observations=[[[1, 2, 2], [5]], [[3.5], [1, 4]], [[0], [2]]] * 2
    ),
    "cognitive radio": {"model": "cognitive-radio", "city": {"channels": 3, "seed": 4}},
    "base station": {
        "model": "cognitive-radio",
        "area": [10, 8],
        "base_station": [5, 5],
        "listener": "base-station",
        "channels": [[{"at": [5, 5], "reach": 2.0, "activity": 0.5}], []],
    },
}


@pytest.mark.parametrize("name", list(PROBLEMS))
def test_a_described_experiment_reads_back_as_itself(name: str) -> None:
    assert_reads_back({**VALID, "problem": PROBLEMS[name]})


def test_variants_may_name_their_problem_and_cost() -> None:
    tables = edited(
        lambda t: (
            t.update(problems={"easy": t.pop("problem"), "coins": PROBLEMS["beta"]}),
            t["variants"][0].update(problem="coins", communication_cost=0.0),
            t["variants"][1].update(problem="easy", assume={"noise": 0.7}, max_phases=3),
        )
    )
    experiment = fb.read_experiment(tables)
    assert [variant.problem.name for variant in experiment.variants] == ["coins", "easy"]
    assert [variant.communication_cost for variant in experiment.variants] == [0.0, 1.0]
    assert experiment.variants[1].assume == fb.Assume(noise=0.7)
    assert_reads_back(tables)


def test_a_file_that_is_not_there_not_text_or_not_toml_says_so(tmp_path: Path) -> None:
    with pytest.raises(fb.InputError, match=r"nothing\.toml: cannot be read: No such file"):
        fb.load_experiment(tmp_path / "nothing.toml")
    with pytest.raises(fb.InputError, match="cannot be read: Is a directory"):
        fb.load_experiment(tmp_path)
    bad = tmp_path / "bad.toml"
    bad.write_bytes(b"\xff\xfe")
    with pytest.raises(fb.InputError, match="is not UTF-8 text"):
        fb.load_experiment(bad)
    bad.write_text("title = \n", encoding="utf-8")
    with pytest.raises(fb.InputError, match=r"is not TOML: Invalid value \(at line 1"):
        fb.load_experiment(bad)


def test_the_design_pages_example_is_understood() -> None:
    text = """
title = "Fed2-UCB on the cognitive-radio game"
horizon = 1_000_000
replications = 100
seed = 2021
communication_cost = 1.0

[problem]
model = "approximate"
means = [0.70, 0.71, 0.72, 0.73, 0.74, 0.75, 0.76, 0.765, 0.77, 0.79]
noise = { law = "gaussian", sigma = 0.5 }
spread = { law = "gaussian", sigma = 0.02 }

[[variants]]
label = "f = 100"
algorithm = "fed2-ucb"
pulls = "100"
admissions = "2^p"
radius = { rule = "paper", arm = 6.0, client = 6.0 }
assume = { noise = 0.5, spread = 0.02 }
"""
    experiment = fb.read_experiment(tomllib.loads(text))
    assert experiment.check() == ["cohorts"]
    assert experiment.variants[0].algorithm == fb.Fed2Ucb(pulls="100", admissions="2^p")


def test_different_problems_of_one_name_are_refused() -> None:
    """Random numbers are drawn by name, and a written experiment could not tell them apart."""
    problems = [
        fb.Approximate(means=means, noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.1))
        for means in ([0.5, 0.9], [0.5, 0.8])
    ]
    variants = [
        fb.Variant(label=str(i), problem=problem, algorithm=fb.ImprovedUcb())
        for i, problem in enumerate(problems)
    ]
    with pytest.raises(fb.InputError, match=r'variants\[1\]\.problem: another .* "problem"'):
        fb.Experiment(title="x", variants=variants, horizon=1_000)
