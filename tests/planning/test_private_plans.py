"""Plans for clients that protect their means."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fedbandits as fb
from fedbandits.planning.candidates import Candidate, Shape, foresee
from fedbandits.planning.detection import feasibility
from fedbandits.planning.outlook import look_ahead
from fedbandits.planning.question import Question, least_favourable
from fedbandits.planning.text import columns, shown_plan
from fedbandits.planning.wording import rounded
from plans import MEANS, command
from repository import DOCS

# Privacy ------------------------------------------------------------------------------------------

ROUNDED = fb.Privacy(range=(0, 1), quantize=fb.Quantize(bits=4))
LAPLACE = fb.Privacy(range=(0, 1), noise="laplace", epsilon=1.0)


@pytest.mark.parametrize(("pulls", "admissions"), [("100", "2^p"), ("29", "60")])
@pytest.mark.parametrize("privacy", [ROUNDED, LAPLACE], ids=["rounded", "laplace"])
def test_rounding_and_laplace_noise_are_foreseen_by_normal_errors(
    privacy: fb.Privacy, pulls: str, admissions: str
) -> None:
    """The planner's normal game, against clients with Bernoulli outcomes and the true errors."""
    game = fb.Approximate(means=MEANS, noise=fb.Bernoulli(), spread=fb.Beta(0.02))
    question = Question(means=MEANS, noise=0.5, spread=game.spread_proxy, privacy=privacy)
    foreseen = look_ahead(question, pulls, admissions, replications=1000, seed=1)
    algorithm = fb.Fed2Ucb(
        pulls=pulls, admissions=admissions, radius=question.radius, weights="inverse-variance"
    )
    run = fb.simulate(
        game, algorithm, horizon=None, fidelity="clients", privacy=privacy, replications=150,
        seed=2, workers=1,
    )  # fmt: skip
    outcome = run.games
    assert foreseen.regret.mean == pytest.approx(outcome.total.mean(), rel=0.15)
    assert foreseen.clients.mean == pytest.approx(outcome.clients.mean(), rel=0.15)
    bits = (outcome.uplink_bits / outcome.clients).mean()
    assert foreseen.uplink_bits.mean == pytest.approx(bits, rel=0.15)


@pytest.mark.parametrize(
    "privacy",
    [
        ROUNDED,
        LAPLACE,
        fb.Privacy(range=(0, 1), quantize=fb.Quantize(bits=6, rounding="nearest")),
        fb.Privacy(range=(0, 1), noise="gaussian", epsilon=1.0, delta=1e-6),
        fb.Privacy(range=(0, 1), noise="laplace", epsilon=9.0, level="user", releases=30),
    ],
    ids=["stochastic", "laplace", "nearest", "gaussian", "user"],
)
def test_what_is_foreseen_with_protection_is_what_the_rule_does_without_scatter(
    privacy: fb.Privacy,
) -> None:
    """The forecast's widths, against those of a game whose random numbers are all small."""
    question = least_favourable(n_arms=3, gap=0.1, noise=0.5, spread=0.1, privacy=privacy)
    candidate = Candidate(pulls=20, admissions=300, admissions_shape=Shape.GROWING)
    found = foresee(question, [candidate])
    look = look_ahead(question, candidate.f, candidate.g, replications=400, seed=2)
    assert found.phases[0] == pytest.approx(look.phases.mean, rel=0.25)
    assert found.regret[0] == pytest.approx(look.regret.mean, rel=0.4)


def test_a_plan_shows_what_privacy_costs(quick: None) -> None:
    asked: dict[str, Any] = {"n_arms": 3, "gap": 0.1, "noise": 0.5, "spread": 0.05, "seed": 3}
    own: dict[str, Any] = {"pulls": 30, "admissions": "4*2^p"}
    policy = fb.Privacy(range=(0, 1), noise="gaussian", epsilon=1.0, delta=1e-6)
    plan, bare = fb.plan(**asked, **own, privacy=policy), fb.plan(**asked, **own)
    assert plan.unprotected is not None
    assert plan.unprotected.suggested == bare.suggested
    assert plan.unprotected.yours == bare.yours
    names = ["suggested", "without privacy", "yours", "yours without privacy"]
    assert [name for name, _ in columns(plan)] == names
    rows = [row[0] for row in shown_plan(plan).rows]
    for row in ("clients", "phases", "total regret", "uplink bits per client"):
        assert row in rows
    suggested, free = plan.suggested, plan.unprotected.suggested
    assert suggested is not None
    assert free is not None
    assert suggested.regret.mean > 1.1 * free.regret.mean
    assert plan.yours is not None
    assert bare.yours is not None
    assert plan.yours.regret.mean > 1.1 * bare.yours.regret.mean
    said = "\n".join(plan.answer())
    assert "What it costs" in said
    assert "nothing is clipped" in said
    told = plan.as_dict()
    assert told["without_privacy"]["suggested"]["regret"]["mean"] == free.regret.mean
    assert told["question"]["privacy"]["epsilon"] == 1.0
    assert json.dumps(told, allow_nan=False)


def test_less_privacy_costs_less_and_fewer_bits_send_less(quick: None) -> None:
    asked: dict[str, Any] = {"n_arms": 3, "gap": 0.1, "noise": 0.5, "spread": 0.05, "seed": 3}
    regrets = []
    for epsilon in (0.5, 2.0, 8.0):
        plan = fb.plan(**asked, privacy=fb.Privacy(range=(0, 1), noise="laplace", epsilon=epsilon))
        assert plan.suggested is not None
        regrets.append(plan.suggested.regret.mean)
    assert regrets == sorted(regrets, reverse=True)
    plan = fb.plan(**asked, privacy=ROUNDED)
    assert plan.suggested is not None
    assert plan.unprotected is not None
    assert plan.unprotected.suggested is not None
    assert plan.suggested.uplink_bits.mean < 0.2 * plan.unprotected.suggested.uplink_bits.mean
    assert "which is an approximation" in "\n".join(plan.answer())


def test_rounding_coarser_than_the_gap_is_refused_with_numbers(quick: None) -> None:
    asked: dict[str, Any] = {"n_arms": 3, "gap": 0.02, "noise": 0.5, "spread": 0.02}
    nearest = fb.Quantize(bits=5, rounding="nearest")
    plan = fb.plan(**asked, privacy=fb.Privacy(range=(0, 1), quantize=nearest))
    assert not plan.feasible
    assert plan.feasibility.clients_unlimited is None
    said = plan.answer()[-1]
    assert "steps of 0.0323, and the gap is 0.02" in said
    assert "at least 6 bits" in said
    assert 'rounding = "stochastic"' in said
    enough = fb.Quantize(bits=6, rounding="nearest")
    assert fb.plan(**asked, privacy=fb.Privacy(range=(0, 1), quantize=enough)).feasible
    coarse = fb.Privacy(range=(0, 1), quantize=fb.Quantize(bits=2))
    assert fb.plan(**asked, privacy=coarse).feasible


def test_hiding_all_of_a_few_clients_is_refused_with_numbers(quick: None, tmp_path: Path) -> None:
    policy = fb.Privacy(range=(0, 1), noise="laplace", epsilon=2.0, level="user", releases=3)
    asked: dict[str, Any] = {"n_arms": 3, "gap": 0.1, "noise": 0.5, "spread": 0.05}
    plan = fb.plan(**asked, clients=200, privacy=policy, pulls=50, admissions=50)
    found = plan.feasibility
    assert not plan.feasible
    assert found.all_needed is not None
    assert found.gap_finite is not None
    said = "\n".join(plan.answer())
    assert f"About {rounded(found.all_needed)} clients are enough" in said
    assert f"a gap of {found.gap_finite:.3g} is the smallest" in said
    assert "Your schedule decides none of 1,000 games with it" in said
    assert "privacy budget spent" in [row[0] for row in shown_plan(plan).rows]
    plan.write(tmp_path / "plan")
    # So many can, and so large a gap is found.
    more = 2 * found.all_needed
    assert fb.plan(**asked, clients=more, privacy=policy).feasible
    asked["gap"] = 0.9
    assert fb.plan(**asked, clients=2000, privacy=policy).feasible


def test_a_budget_that_ends_before_the_decision_is_told(quick: None) -> None:
    policy = fb.Privacy(range=(0, 1), noise="gaussian", rho=1.0, level="user", releases=1)
    asked: dict[str, Any] = {"n_arms": 3, "gap": 0.1, "noise": 0.5, "spread": 0.05}
    found = feasibility(least_favourable(**asked, population=200, privacy=policy))
    assert found.all_needed is not None
    # Enough for nine of ten games, and a plan asks for more.
    plan = fb.plan(**asked, clients=found.all_needed, privacy=policy)
    assert not plan.feasible
    assert "budget ends after 1 release," in plan.answer()[-1]


@pytest.mark.parametrize(
    ("policy", "asked", "problem"),
    [
        (
            {"noise": "laplace", "epsilon": 1.0},
            {"means": [0.5, 1.5]},
            "does not hold a mean of 1.5",
        ),
        ({"noise": "laplace", "epsilon": 1.0}, {"n_arms": 2, "gap": 2.0}, "privacy.range: [0, 1]"),
        (
            {"noise": "gaussian", "rho": 1e-3, "scale": 0.1, "level": "user", "releases": 2},
            {"n_arms": 2, "gap": 0.1},
            "privacy.scale: 0.1 spends more than the budget",
        ),
        (
            {"noise": "laplace", "epsilon": 1.0},
            {"n_arms": 2, "gap": 0.1, "pulls": 5, "admissions": 5},
            "privacy.min_pulls is 10",
        ),
    ],
)
def test_policies_that_do_not_fit_are_refused(
    policy: dict[str, Any], asked: dict[str, Any], problem: str
) -> None:
    with pytest.raises(fb.InputError) as refused:
        fb.plan(noise=0.5, spread=0.1, privacy=fb.Privacy(range=(0, 1), **policy), **asked)
    assert problem in str(refused.value)


def test_a_scale_with_a_budget_is_planned_with_the_pulls_that_it_allows(quick: None) -> None:
    policy = fb.Privacy(range=(0, 1), noise="gaussian", scale=0.05, epsilon=1.0, delta=1e-6)
    plan = fb.plan(n_arms=2, gap=0.2, noise=0.5, spread=0.1, privacy=policy)
    assert plan.question.fewest_pulls == 91
    assert plan.suggested is not None
    assert all(one.candidate.pulls >= 91 for one in plan.searched.tried)


def test_the_command_takes_a_policy_as_an_inline_table(quick: None, tmp_path: Path) -> None:
    words = ("--arms", "2", "--gap", "0.3", "--noise", "0.5", "--spread", "0.1")
    table = '{ noise = "gaussian", epsilon = 2.0, delta = 1e-6, level = "event", range = [0, 1] }'
    done = command(*words, "--privacy", table, "--out", tmp_path / "plan")
    assert done.returncode == 0, done.stderr
    assert "What it costs" in done.stdout
    assert 'privacy = { range = [0.0, 1.0], noise = "gaussian"' in done.stdout
    written = json.loads((tmp_path / "plan" / "plan.json").read_text(encoding="utf-8"))
    assert written["without_privacy"]["suggested"]["uplink_bits"]["mean"] > 0
    for wrong, problem in (
        ("{ noise = ", "privacy: is not a table of TOML"),
        ("7", "privacy: 7 is not a table"),
        ('{ noise = "gauss", epsilon = 1, range = [0, 1] }', "privacy.noise"),
        ("{ quantize = { bit = 4 }, range = [0, 1] }", "privacy.quantize.bit: is not a key"),
    ):
        refused = command(*words, "--privacy", wrong)
        assert refused.returncode == 2
        assert problem in refused.stderr
        assert "Traceback" not in refused.stderr


def test_the_page_shows_what_is_said_of_privacy() -> None:
    text = (DOCS / "planning.md").read_text(encoding="utf-8")
    flat = " ".join(text.split())
    table = '{ noise = "gaussian", epsilon = 2.0, delta = 1e-6, level = "event", range = [0, 1] }'
    assert f"--privacy '{table}'" in flat
    policy = fb.Privacy(range=(0, 1), noise="gaussian", epsilon=2.0, delta=1e-6)
    plan = fb.plan(n_arms=10, gap=0.02, noise=0.5, spread=0.02, privacy=policy)
    said = [line for line in plan.answer() if line.startswith(("Privacy", "What it", "In the"))]
    assert len(said) == 3
    for line in said:
        assert line in flat
