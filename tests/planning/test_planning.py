"""The planner: what it foresees happens, what it says of feasibility is arithmetic."""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.experiments.bounds import lower_bound_of
from fedbandits.experiments.files import read_experiment
from fedbandits.planning.candidates import Candidate, Shape, foresee
from fedbandits.planning.charts import gap_series, map_chart
from fedbandits.planning.detection import Detector
from fedbandits.planning.outlook import Outlook, look_ahead
from fedbandits.planning.plan import variant_toml
from fedbandits.planning.question import Question, least_favourable
from fedbandits.planning.search import map_table
from fedbandits.planning.text import assumptions, guarantee, in_short, shown_plan
from fedbandits.report.chart import Heat
from fedbandits.rules.phased import PhasedRule
from fedbandits.theory.lower_bound import LowerBound
from plans import MEANS, command
from repository import DOCS
from rule_calls import decided


@cache
def figure_4() -> fb.Plan:
    return fb.plan(
        means=MEANS, noise=0.5, spread=0.02, horizon=10**6, pulls=100, admissions="2^p", seed=4
    )


@cache
def movielens() -> fb.Plan:
    return fb.plan(n_arms=100, gap=0.0053, noise=0.2, spread=0.256, clients=2113)


@cache
def small() -> fb.Plan:
    return fb.plan(n_arms=3, gap=0.2, noise=0.5, spread=0.1, clients=40, replications=400, seed=2)


# What the plan must show --------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["suggested", "yours"])
def test_the_plan_for_figure_4_is_what_clients_one_by_one_give(which: str) -> None:
    plan = figure_4()
    outlook = getattr(plan, which)
    yours = fb.Fed2Ucb(
        pulls=100, admissions="2^p", radius=fb.CertifiedRadius(), weights="inverse-variance"
    )
    run = fb.simulate(
        fb.Approximate(means=MEANS, noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.02)),
        plan.algorithm() if which == "suggested" else yours,
        horizon=10**6,
        fidelity="clients",
        replications=150,
        seed=99,
        workers=1,
    )
    outcome = run.games
    for foreseen, simulated in (
        (outlook.clients, outcome.clients),
        (outlook.phases, outcome.phases),
        (outlook.regret, outcome.total),
        (outlook.exploration, outcome.exploration),
        (outlook.communication, outcome.communication),
        (outlook.slots, outcome.decision_slot),
    ):
        assert foreseen.mean == pytest.approx(simulated.mean(), rel=0.15)
        # Nine of ten games end between the two; discrete quantities put some more on the edges.
        inside = (foreseen.low <= simulated) & (simulated <= foreseen.high)
        assert 0.8 < inside.mean() <= 1.0


def test_the_search_for_figure_4_beats_the_papers_schedule() -> None:
    plan = figure_4()
    assert plan.suggested is not None
    assert plan.yours is not None
    # The known regret of the paper's schedule with these rules: 10,375.
    assert abs(plan.yours.regret.mean - 10_375) < 4 * math.hypot(plan.yours.regret.stderr, 40)
    assert plan.suggested.regret.mean < 0.9 * plan.yours.regret.mean
    assert len(plan.searched.tried) > 200
    assert plan.others == ()


def test_movielens_is_out_of_reach_but_for_its_own_clients() -> None:
    plan = movielens()
    found = plan.feasibility
    assert not found.within_reach
    assert found.clients_unlimited is not None
    assert found.clients_unlimited > 30 * 2113
    assert found.clients_finite is not None
    assert 0.95 * 2113 < found.clients_finite < 2113
    assert found.needs_nearly_all(2113)
    said = "\n".join(plan.answer())
    assert "out of reach" in said
    assert "nearly all of them" in said
    assert plan.suggested is not None
    assert plan.suggested.clients.mean > 0.95 * 2113
    # Everyone at once is the better of the two.
    assert plan.suggested.algorithm == "fed1-ucb"
    assert [other.algorithm for other in plan.others] == ["fed2-ucb"]
    assert plan.others[0].regret.mean > plan.suggested.regret.mean
    told = plan.as_dict()["feasibility"]
    assert told["unlimited_population"]["within_reach"] is False
    assert told["finite_population"]["nearly_all"] is True


def test_the_block_for_a_file_gives_what_was_foreseen(quick: None) -> None:
    """Whatever is asked, what is printed runs, and with another seed comes to the same."""
    asked: dict[str, Any] = {"noise": 0.5, "spread": 0.05}
    means = [0.5, 0.55, 0.6, 0.7]
    for own in (
        {"means": means},
        {"means": means, "clients": 30},
        {"means": means, "clients": 400},
        {"means": means, "horizon": 10**5, "communication_cost": 3.0},
        {"means": means, "privacy": fb.Privacy(range=(-9, 9), noise="gaussian", rho=50.0)},
    ):
        plan = fb.plan(**asked, **own, seed=1)
        assert plan.suggested is not None
        for which in (plan.suggested, *plan.others):
            _check_block(plan, which)
        assert plan.as_dict()["toml"] == plan.toml()
        assert tomllib.loads(plan.toml())["variants"] == [plan.variant()]
        said = " ".join(plan.answer())
        assert f'weights = "{plan.suggested.weights}"' in said
        assert ("delta = 0.05" if plan.question.horizon is None else 'delta = "1/T"') in said


def _check_block(plan: fb.Plan, outlook: Outlook) -> None:
    question = plan.question
    problem: dict[str, Any] = {
        "model": "approximate",
        "means": list(question.means),
        "noise": {"law": "gaussian", "sigma": question.noise},
        "spread": {"law": "gaussian", "sigma": question.spread},
    }
    if question.population is not None:
        problem["population"] = question.population
    horizon = {} if question.horizon is None else {"horizon": question.horizon}
    variants = tomllib.loads(variant_toml(question, outlook))
    experiment = read_experiment(
        {"title": "t", "problem": problem, "seed": 77, "replications": 400, **horizon, **variants}
    )
    (run,) = experiment.run(workers=1).simulations
    assert run.games.total.mean() == pytest.approx(outlook.regret.mean, rel=0.15)
    assert run.games.clients.mean() == pytest.approx(outlook.clients.mean, rel=0.15)


# Schedules ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("population", [None, 300])
@pytest.mark.parametrize("shape", list(Shape))
def test_what_is_foreseen_is_what_the_rule_does_without_scatter(
    shape: Shape, population: int | None
) -> None:
    question = Question(
        means=(0.5, 0.4, 0.45), noise=0.5, spread=0.1, population=population, delta=0.01
    )
    candidate = Candidate(pulls=7, admissions=9, admissions_shape=shape)
    problem = question.problem()
    rule = candidate.algorithm(question).rule(
        fb.Beliefs(n_arms=3, horizon=10**9, noise=0.5, spread=0.1, population=population)
    )
    assert isinstance(rule, PhasedRule)
    active, counts, sizes = np.ones(3, dtype=bool), np.zeros(0), np.zeros(0)
    regret = slots = phase = 0.0
    while active.sum() > 1:
        phase += 1
        joined, _ = rule.admit(int(phase), int(sizes.sum()), False)
        if joined:
            counts, sizes = np.append(counts, 0.0), np.append(sizes, float(joined))
        counts = counts + rule.pulls(int(phase))
        gaps = problem.means.max() - problem.means
        regret += float(sizes.sum() * (7 * gaps[active].sum() + 1.0))
        slots += 7 * active.sum()
        active = decided(
            rule,
            phase=int(phase),
            active=active,
            estimates=problem.means,
            counts=counts,
            sizes=sizes,
        ).active
    found = foresee(question, [candidate])
    assert found.phases[0] == phase
    assert found.slots[0] == slots
    assert found.regret[0] == pytest.approx(regret)


def test_expected_pulls_and_reports_add_up() -> None:
    question = least_favourable(n_arms=4, gap=0.2, noise=0.5, spread=0.1, communication_cost=2.0)
    found = look_ahead(question, "10", "2^p", replications=300, seed=5)
    assert found.communication.mean == pytest.approx(2.0 * found.reports.mean)
    # Every pull of another arm costs the gap; the best arm's pulls are the rest.
    assert found.pulls_in_all.mean > found.exploration.mean / 0.2
    assert found.pulls_of_arm.mean == pytest.approx(10 * found.phases.mean)
    assert found.slots is not None
    assert found.slots.mean <= 4 * found.pulls_of_arm.mean


def test_the_suggestion_is_the_least_of_all_that_decide() -> None:
    plan = small()
    fit = [one for one in plan.searched.tried if one.decides]
    least = min(fit, key=lambda one: one.regret)
    assert plan.searched.best is not None
    assert least.regret == min(one.regret for one in fit if one.candidate == plan.searched.best)
    found = map_chart(plan)
    assert found is not None
    (heat,) = found.panels
    assert isinstance(heat, Heat)
    assert heat.values[heat.best[0][0]][heat.best[0][1]] == np.nanmin(np.array(heat.values))
    table = map_table(plan.searched)
    assert len({*zip(table["f"], table["g"], strict=True)}) == len(table["f"]) > 20


def test_the_same_seed_gives_the_same_plan(quick: None) -> None:
    asked: dict[str, Any] = {"n_arms": 2, "gap": 0.4, "noise": 0.5, "spread": 0.1, "delta": 0.1}
    one, two = fb.plan(**asked, seed=6), fb.plan(**asked, seed=6)
    assert one.as_dict() == two.as_dict()
    other = fb.plan(**asked, seed=7)
    assert one.suggested is not None
    assert other.suggested is not None
    assert one.suggested.regret != other.suggested.regret


def test_costlier_communication_means_fewer_reports(quick: None) -> None:
    asked: dict[str, Any] = {"n_arms": 3, "gap": 0.1, "noise": 0.5, "spread": 0.05}
    free, expensive = (fb.plan(**asked, communication_cost=cost) for cost in (0.0, 20.0))
    assert free.suggested is not None
    assert expensive.suggested is not None
    assert expensive.suggested.reports.mean < 0.3 * free.suggested.reports.mean


def test_what_cannot_be_done_is_not_suggested(quick: None) -> None:
    late = fb.plan(n_arms=5, gap=0.01, noise=0.5, spread=0.1, clients=30, horizon=500)
    assert not late.feasible
    assert "Not feasible" in late.answer()[-1]
    assert "Raise the horizon" in late.answer()[-1]
    with pytest.raises(fb.InputError, match="nothing is suggested"):
        late.algorithm()
    assert json.dumps(late.as_dict(), allow_nan=False)
    short = fb.plan(n_arms=5, gap=0.1, noise=0.5, spread=0.1, horizon=4)
    assert not short.feasible
    tiny = fb.plan(n_arms=2, gap=1e-8, noise=0.5, spread=0.5)
    assert not tiny.feasible
    assert "Not feasible" in tiny.answer()[-1]


def test_in_short_a_plan_is_at_most_four_sentences(quick: None) -> None:
    late = fb.plan(n_arms=5, gap=0.01, noise=0.5, spread=0.1, clients=30, horizon=500)
    for plan in (small(), movielens(), late):
        said = in_short(plan)
        assert len(said.split(". ")) <= 4
        best = plan.suggested
        assert said == plan.answer()[-1] if best is None else f"f(p) = {best.pulls}" in said
        assert best is None or guarantee(plan).claim in said


def test_a_plan_says_what_it_rests_on_and_draws_it(tmp_path: Path) -> None:
    plan = small()
    plan.write(tmp_path / "plan")
    written = {path.name for path in (tmp_path / "plan").iterdir()}
    assert written == {"plan.json", "report.html", "regret-map.png", "smallest-gap.png"}
    page = (tmp_path / "plan" / "report.html").read_text(encoding="utf-8")
    gradual = replace(
        plan,
        suggested=next(one for one in (plan.suggested, *plan.others) if one and one.admissions),
    )
    unlimited = replace(gradual, question=replace(plan.question, population=None))
    assert set(assumptions(unlimited)) < set(assumptions(gradual))
    for assumption in assumptions(plan):
        assert assumption in page
    assert "[[variants]]" in page
    assert page.count("data-figure=") == 2
    populations = {one.label.split(",")[0] for one in gap_series(plan)}
    assert len(populations) == 2
    assert "unlimited population" in populations
    rows = [row[0] for row in shown_plan(plan).rows]
    assert rows[:3] == ["algorithm", "pulls f(p)", "new clients g(p)"]
    infeasible = fb.plan(n_arms=5, gap=0.1, noise=0.5, spread=0.1, horizon=4)
    infeasible.write(tmp_path / "none")
    assert not (tmp_path / "none" / "regret-map.png").exists()
    assert "Not feasible" in (tmp_path / "none" / "report.html").read_text(encoding="utf-8")


# Beside the lower bound, and near ties ------------------------------------------------------------


def test_a_plan_stands_beside_what_any_rule_pays() -> None:
    plan = figure_4()
    least = lower_bound_of(plan.problem(), 1.0)
    assert isinstance(least, LowerBound)
    assert plan.suggested is not None
    times = plan.suggested.regret.mean / least.at(10**6)
    said = " ".join(plan.answer())
    assert f"That is {times:.1f} times the lower bound." in said
    assert "a yardstick at a finite T" in said
    rows = {row[0].strip(): row[1:] for row in shown_plan(plan).rows}
    assert rows["times the lower bound"][0] == f"{times:.1f}"
    assert len(rows["times the lower bound"]) == len(rows["per client"]) == len(rows["clients"])
    assert plan.as_dict()["lower_bound"] == least.at(10**6)
    each = plan.suggested.per_client
    assert each.low * plan.suggested.clients.low < plan.suggested.regret.high
    assert each.mean * plan.suggested.clients.mean == pytest.approx(
        plan.suggested.regret.mean, rel=0.2
    )


def test_what_is_paid_until_a_decision_is_no_less_than_proven(quick: None) -> None:
    plan = fb.plan(n_arms=2, gap=0.1, noise=0.5, spread=0.1, delta=0.1, replications=200)
    least = lower_bound_of(plan.problem(), 1.0)
    assert isinstance(least, LowerBound)
    proven = least.until_decision(0.1)
    assert plan.as_dict()["lower_bound"] == proven
    assert plan.suggested is not None
    assert plan.suggested.regret.mean > proven
    said = " ".join(plan.answer())
    assert f"Every rule with this error probability pays at least {proven:.1f} until" in said
    # In a finite population nothing is proven, and nothing is said.
    assert "lower bound" not in " ".join([*small().answer(), small().table()])
    assert small().as_dict()["lower_bound"] is None


def test_a_near_tie_comes_with_what_can_be_done_about_it(quick: None) -> None:
    asked: dict[str, Any] = {"n_arms": 2, "noise": 0.5, "spread": 0.2, "replications": 20}
    (said,) = [one for one in fb.plan(gap=0.01, **asked).answer() if "nearly a tie" in one]
    everyone = Detector(n_arms=2, noise=0.5, spread=0.2, delta=0.05)
    few, many = (everyone.fewest_clients(gap) for gap in (0.02, 0.01))
    assert f"A gap of 0.02 takes about {few:,} clients" in said
    assert many is not None
    assert many > 10_000
    assert "instead of 12,300." in said
    assert f"max_clients = {few:,}" in said
    assert "epsilon = 0.02" in said
    assert not any("nearly a tie" in one for one in fb.plan(gap=0.05, **asked).answer())
    # Who asks for given clients can ask them all.
    given = fb.plan(gap=0.01, clients=500, **asked)
    assert not any("nearly a tie" in one for one in given.answer())


# The interface ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({}, "noise: is missing"),
        ({"noise": 0.5}, "spread: is missing"),
        ({"noise": 0.5, "spread": 0.1}, "arms: is missing"),
        ({"noise": 0.5, "spread": 0.1, "n_arms": 3}, "gap: is missing"),
        ({"noise": 0.5, "spread": 0.1, "n_arms": 1, "gap": 1}, "arms: 1; a comparison"),
        ({"noise": 0.5, "spread": 0.1, "n_arms": 3, "gap": -1}, "gap: -1 is not"),
        ({"noise": 0.5, "spread": 0.1, "n_arms": 3, "gap": math.nan}, "gap: nan is not"),
        ({"noise": 0.0, "spread": 0.1, "n_arms": 3, "gap": 1}, "noise: 0 is too small"),
        ({"noise": 0.5, "spread": -1.0, "n_arms": 3, "gap": 1}, "spread: -1.0 is not"),
        ({"noise": 0.5, "spread": 0.1, "means": [0.5, 0.5]}, "means: the best is 0 above"),
        ({"noise": 0.5, "spread": 0.1, "means": [0.5, 1], "gap": 1}, "gap: is known"),
        ({"noise": 0.5, "spread": 0.1, "means": [0.5, 1], "n_arms": 3}, "arms: 3 arms and 2"),
        ({"noise": 0.5, "spread": 0.1, "means": [1, 2], "delta": 2}, "delta: 2 is not"),
        (
            {"noise": 0.5, "spread": 0.1, "means": [1, 2], "delta": 0.1, "horizon": 9},
            "delta: is 1/T",
        ),
        ({"noise": 0.5, "spread": 0.1, "means": [1, 2], "horizon": 0}, "horizon: 0 is not a whole"),
        ({"noise": 0.5, "spread": 0.1, "means": [1, 2], "clients": 0}, "clients: 0 is not a whole"),
        ({"noise": 0.5, "spread": 0.1, "means": [1, 2], "clients": 10**10}, "clients: 10,000"),
        ({"noise": 0.5, "spread": 0.1, "means": [1, 2], "communication_cost": -1}, "cost: -1"),
        ({"noise": 0.5, "spread": 0.1, "means": [1, 2], "pulls": 3}, "admissions: is missing"),
        (
            {"noise": 0.5, "spread": 0.1, "means": [1, 2], "pulls": "q", "admissions": 1},
            'pulls: "q" uses the unknown name',
        ),
        ({"noise": 0.5, "spread": 0.1, "means": [1, 2], "seed": -1}, "seed: -1"),
        ({"noise": 0.5, "spread": 0.1, "means": [1, 2], "replications": 1}, "replications: 1"),
        ({"pilot": "/nowhere/pilot.csv"}, "cannot be read"),
        ({"pilot": 3}, "pilot: 3 is not the path"),
        *(
            ({"noise": 0.5, "spread": 0.1, "n_arms": 2, "gap": 0.3, **wrong}, problem)
            for wrong, problem in (
                ({"delta": "0.05"}, "delta: '0.05' is not a number"),
                ({"replications": 2.5}, "replications: 2.5 is not a whole number"),
                ({"seed": 1.5}, "seed: 1.5 is not a whole number"),
                ({"clients": 2.5}, "clients: 2.5 is not a whole number"),
                ({"horizon": 10.5}, "horizon: 10.5 is not a whole number"),
                ({"workers": 1.5}, "workers: 1.5 is not a whole number"),
                ({"privacy": "much"}, "privacy: 'much' is not a policy"),
            )
        ),
        ({"noise": 0.5, "spread": 0.1, "means": [[0.1, 0.2]]}, "means[0]: [0.1, 0.2] is not"),
        ({"noise": 0.5, "spread": 0.1, "means": "0.1,0.2"}, "means: '0.1,0.2' is not a list"),
        ({"noise": 0.5, "spread": 0.1, "means": np.zeros((2, 2))}, "means[0]: array"),
    ],
)
def test_what_is_wrong_is_named(asked: dict[str, Any], problem: str) -> None:
    with pytest.raises(fb.InputError) as refused:
        fb.plan(**asked)
    assert problem in str(refused.value)


def test_a_schedule_that_decides_only_in_part_is_told_with_a_caveat(quick: None) -> None:
    asked: dict[str, Any] = {"n_arms": 2, "noise": 0.5, "spread": 0.1, "pulls": 1}
    some = fb.plan(**asked, gap=0.09, admissions="1")
    assert some.yours is not None
    assert 0 < some.yours.decided < 1000
    assert some.yours.cut
    said = some.answer()[-1]
    assert f"The numbers are of the {some.yours.decided:,} that were decided within 200" in said
    asked["spread"] = 3.0
    none = fb.plan(**asked, gap=0.3, admissions="1", delta=1e-6)
    assert none.feasible
    assert none.yours is not None
    assert none.yours.decided == 0
    assert none.yours.phases.mean == 200
    assert "None was decided within 200 phases" in none.answer()[-1]
    assert "undecided after 200 phases" in [row[0] for row in shown_plan(none).rows]
    suggested = none.suggested
    assert suggested is not None
    assert not suggested.cut


def test_one_client_is_one_client(quick: None) -> None:
    asked: dict[str, Any] = {"n_arms": 2, "gap": 0.3, "noise": 0.5, "spread": 0.1, "clients": 1}
    for horizon in (None, 20, 1000):
        said = "\n".join(fb.plan(**asked, horizon=horizon).answer())
        for wrong in ("1 clients", "All 1", "all 1 ", "these 1 ", "1 phases", "1 pulls"):
            assert f" {wrong}" not in f" {said}".replace("\n", " ")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--arms", "3", "--gap", "0"), "noise: is missing"),
        (("--arms", "3", "--gap", "0", "--noise", "1", "--spread", "1"), "gap: 0 is not"),
        (("--means", "0.5,x", "--noise", "1", "--spread", "1"), 'means[1]: "x" is not a number'),
        (("--pilot", "none.csv", "--gap", "1"), "none.csv: cannot be read"),
        (("--arms", "many"), "Invalid value"),
    ],
)
def test_mistakes_end_with_2_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = command(*words, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert problem in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_the_command_prints_a_plan_and_writes_it(tmp_path: Path) -> None:
    words = ("--arms", "2", "--gap", "0.3", "--noise", "0.5", "--spread", "0.1")
    done = command(*words, "--clients", "50", "--out", tmp_path / "plan")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "Expected regret" in done.stdout
    assert "This holds if" in done.stdout
    assert str(tmp_path / "plan" / "report.html") in done.stdout
    written = json.loads((tmp_path / "plan" / "plan.json").read_text(encoding="utf-8"))
    printed = command(*words, "--clients", "50", "--json")
    assert printed.stderr == ""
    assert json.loads(printed.stdout) == written
    assert written["suggested"]["regret"]["mean"] > 0
    assert written["question"]["clients"] == 50


def test_the_page_shows_what_the_command_prints() -> None:
    words = "--arms 10 --gap 0.02 --noise 0.5 --spread 0.02"
    printed = "\n".join(line.rstrip() for line in command(*words.split()).stdout.splitlines())
    text = (DOCS / "planning.md").read_text(encoding="utf-8")
    assert f"```\nfedbandits plan {words}\n```" in text
    shown = text.split(f"fedbandits plan {words}\n```\n\n```text\n")[1].split("\n```")[0]
    assert shown in printed


def test_the_page_shows_what_is_said_of_movielens() -> None:
    text = (DOCS / "planning.md").read_text(encoding="utf-8")
    flat = " ".join(text.split())
    _, beyond, these, *_ = movielens().answer()
    assert beyond in flat
    assert these in flat
