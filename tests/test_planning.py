"""The planner: what it foresees happens, what it says of feasibility is arithmetic."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tomllib
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.experiments.files import read_experiment
from fedbandits.planning.candidates import Candidate, Shape, foresee
from fedbandits.planning.detection import Detector, feasibility, gap_table
from fedbandits.planning.figures import gap_curves, regret_map
from fedbandits.planning.outlook import Outlook, look_ahead
from fedbandits.planning.pilot import read_pilot
from fedbandits.planning.question import least_favourable, with_means
from fedbandits.planning.search import _Effort, map_table
from fedbandits.planning.text import assumptions, cells, columns
from fedbandits.planning.variant import variant_toml
from fedbandits.planning.wording import rounded
from fedbandits.rules.phased import PhasedRule
from fedbandits.rules.variance_components import variance_components
from rule_calls import decided

MEANS = (0.70, 0.71, 0.72, 0.73, 0.74, 0.75, 0.76, 0.765, 0.77, 0.79)


def command(*words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fedbandits", "plan", *map(str, words)],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=120,
        check=False,
    )


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


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let searches try fewer schedules, where which one is best does not matter."""
    effort = _Effort(coarse=3, fine=5, replications=64)
    monkeypatch.setattr(_Effort, "for_arms", staticmethod(lambda _: effort))


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
    outcome = run.outcome
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
    assert run.outcome.total.mean() == pytest.approx(outlook.regret.mean, rel=0.15)
    assert run.outcome.clients.mean() == pytest.approx(outlook.clients.mean, rel=0.15)


# Detection ----------------------------------------------------------------------------------------

DETECTORS = st.builds(
    Detector,
    n_arms=st.integers(2, 100),
    noise=st.floats(0.01, 2.0),
    spread=st.floats(0.01, 1.0),
    delta=st.floats(1e-9, 0.5),
    population=st.none() | st.integers(2, 5000),
    power=st.floats(0.5, 0.99),
    phase=st.integers(1, 20),
)


def test_the_smallest_gap_is_the_width_and_what_estimates_scatter() -> None:
    detector = Detector(n_arms=10, noise=0.5, spread=0.02, delta=0.05, population=1000, phase=3)
    variance = 0.02**2 * (1 / 200 - 1 / 1000) + 0.5**2 / (200 * 30)
    width = math.sqrt(4 * variance * math.log(9 * math.pi**2 * 9 / (6 * 0.05)))
    scatter = 2.2865 * math.sqrt(2 * variance)  # the normal quantile of 1 - 0.1/9
    assert float(detector.smallest_gap(200, 30)) == pytest.approx(width + scatter, rel=1e-4)
    half = Detector(n_arms=2, noise=1.0, spread=0.0, delta=0.05, power=0.5)
    alone = math.sqrt(4 * math.log(math.pi**2 / (6 * 0.05)))
    assert float(half.smallest_gap(1, 1)) == pytest.approx(alone)


@settings(max_examples=50, deadline=None)
@given(detector=DETECTORS, gap=st.floats(0.005, 1.0), pulls=st.integers(1, 10_000))
def test_fewest_clients_are_enough_and_one_fewer_is_not(
    detector: Detector, gap: float, pulls: int
) -> None:
    for n in (float(pulls), math.inf):
        fewest = detector.fewest_clients(gap, n)
        if fewest is None:
            assert detector.population is not None
            assert float(detector.smallest_gap(detector.population, n)) > gap
            continue
        assert float(detector.smallest_gap(fewest, n)) <= gap * (1 + 1e-9)
        if fewest > 1:
            assert float(detector.smallest_gap(fewest - 1, n)) > gap * (1 - 1e-9)


@settings(max_examples=50, deadline=None)
@given(detector=DETECTORS, gap=st.floats(0.005, 1.0), clients=st.integers(1, 3000))
def test_fewest_pulls_are_enough_and_one_fewer_is_not(
    detector: Detector, gap: float, clients: int
) -> None:
    clients = min(clients, detector.population or clients)
    fewest = detector.fewest_pulls(gap, clients)
    if fewest is None:
        assert float(detector.smallest_gap(clients)) >= gap * (1 - 1e-9)
        return
    assert float(detector.smallest_gap(clients, fewest)) <= gap * (1 + 1e-9)
    if fewest > 1:
        assert float(detector.smallest_gap(clients, fewest - 1)) > gap * (1 - 1e-9)


@settings(max_examples=50, deadline=None)
@given(detector=DETECTORS)
def test_more_of_anything_detects_smaller_gaps(detector: Detector) -> None:
    clients = np.array([1.0, 2.0, 5.0, 20.0, 100.0, 1000.0])
    clients = clients[clients <= (detector.population or np.inf)]
    for pulls in (1.0, 50.0, math.inf):
        assert (np.diff(detector.smallest_gap(clients, pulls)) < 0).all()
    few, many = detector.smallest_gap(clients, 3), detector.smallest_gap(clients, 30)
    assert (many < few).all()
    # A finite population is easier than everybody.
    everyone = Detector(
        n_arms=detector.n_arms, noise=detector.noise, spread=detector.spread, delta=detector.delta,
        power=detector.power, phase=detector.phase,
    )  # fmt: skip
    assert (detector.smallest_gap(clients) <= everyone.smallest_gap(clients)).all()


@pytest.mark.parametrize("population", [None, 60])
def test_a_detectable_gap_is_found_with_the_stated_power(population: int | None) -> None:
    """One look of the certified rule, simulated, at the smallest detectable gap."""
    n_arms, clients, pulls = 5, 40, 10
    detector = Detector(
        n_arms=n_arms, noise=0.5, spread=0.1, delta=0.05, population=population, power=0.9
    )
    gap = float(detector.smallest_gap(clients, pulls))
    game = fb.Approximate(
        means=[gap] + [0.0] * (n_arms - 1),
        noise=fb.Gaussian(0.5),
        spread=fb.Gaussian(0.1),
        population=population,
    )
    look = fb.Fed2Ucb(pulls=pulls, admissions=clients, radius=fb.CertifiedRadius(delta=0.05))
    run = fb.simulate(game, look, horizon=None, max_phases=1, replications=2000, seed=3)
    found = (run.outcome.winner == 0).mean()
    # The union bound over rivals is nearly sharp.
    assert 0.9 - 4 * math.sqrt(0.09 / 2000) < found < 0.95


def test_arms_that_are_far_behind_cost_no_power() -> None:
    """One look at the smallest detectable gap, the other arms two to five times as far behind."""
    ratios = (1.0, 2.0, 2.0, 5.0)
    detector = Detector(n_arms=5, noise=0.5, spread=0.1, delta=0.05, ratios=ratios)
    hardest = Detector(n_arms=5, noise=0.5, spread=0.1, delta=0.05)
    gap = float(detector.smallest_gap(40, 10))
    assert gap < float(hardest.smallest_gap(40, 10))
    assert detector.chance(gap, 40, 10) == pytest.approx(0.9, abs=1e-6)
    game = fb.Approximate(
        means=[0.0, *(-gap * ratio for ratio in ratios)],
        noise=fb.Gaussian(0.5),
        spread=fb.Gaussian(0.1),
    )
    look = fb.Fed2Ucb(pulls=10, admissions=40, radius=fb.CertifiedRadius(delta=0.05))
    run = fb.simulate(game, look, horizon=None, max_phases=1, replications=2000, seed=3)
    assert abs((run.outcome.winner == 0).mean() - 0.9) < 5 * math.sqrt(0.09 / 2000)


def test_what_is_said_of_one_look_is_the_chance_of_one_look() -> None:
    """All 50 clients, for an unlimited population, within 150 slots."""
    question = least_favourable(
        n_arms=3, gap=0.15, noise=0.5, spread=0.1, population=50, horizon=150, delta=0.05
    )
    found = feasibility(question)
    assert found.pulls == 50
    assert found.chance_unlimited is not None
    game = fb.Approximate(
        means=question.means, noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.1), population=None
    )
    look = fb.Fed2Ucb(pulls=50, admissions=50, radius=fb.CertifiedRadius(delta=0.05))
    run = fb.simulate(game, look, horizon=None, max_phases=1, replications=4000, seed=3)
    happened = (run.outcome.winner == 0).mean()
    # The union bound over two rivals is nearly sharp.
    assert -0.02 < happened - found.chance_unlimited < 0.04


@pytest.mark.parametrize("privacy", ["rounded", "event", "user"])
def test_a_detectable_gap_is_found_with_protected_means(privacy: str) -> None:
    policy = {
        "rounded": fb.Privacy(range=(0, 1), quantize=fb.Quantize(bits=4)),
        "event": fb.Privacy(range=(0, 1), noise="gaussian", epsilon=1.0, delta=1e-6),
        "user": fb.Privacy(range=(0, 1), noise="gaussian", rho=2.0, level="user", releases=4),
    }[privacy]
    detector = Detector(n_arms=3, noise=0.5, spread=0.1, delta=0.05, privacy=policy)
    gap = float(detector.smallest_gap(400, 40))
    bare = Detector(n_arms=3, noise=0.5, spread=0.1, delta=0.05)
    assert gap > float(bare.smallest_gap(400, 40))
    question = least_favourable(n_arms=3, gap=gap, noise=0.5, spread=0.1, privacy=policy)
    found = 0.0
    for phases in (1, 2, 4):
        look = fb.Fed1Ucb(pulls=40 // phases, radius=fb.CertifiedRadius(delta=0.05))
        # These are all clients there are, so that what others would leave open is put into noise.
        noise = math.sqrt(0.5**2 + 40 * 0.1**2)
        game = fb.Approximate(
            means=question.means,
            noise=fb.Gaussian(noise),
            spread=fb.Gaussian(0.0),
            population=400,
        )
        run = fb.simulate(
            game, look, horizon=None, max_phases=phases, replications=2000, seed=3,
            privacy=question.simulated_privacy,
        )  # fmt: skip
        found = max(found, (run.outcome.winner == 0).mean())
    # Earlier looks may find it as well; rounding scatters less than its proxy.
    assert 0.9 - 5 * math.sqrt(0.09 / 2000) < found < 0.99


def test_a_short_horizon_is_counted_in_what_is_within_reach(quick: None) -> None:
    asked: dict[str, Any] = {"n_arms": 3, "gap": 0.1, "noise": 0.5, "spread": 0.1}
    late = fb.plan(**asked, clients=50, horizon=50)
    assert not late.feasibility.within_reach
    said = "\n".join(late.answer())
    assert "out of reach" in said
    assert "16 times, which is what 50 slots allow" in said
    assert "leave the number of clients out" not in said.lower()
    assert "even all 50 clients together need about" in said
    long = fb.plan(**asked, clients=50)
    assert long.feasibility.within_reach
    assert f"with {96.5:g} %" in "\n".join(long.answer())


def test_feasibility_without_a_population_and_with_a_horizon() -> None:
    asked: dict[str, Any] = {"n_arms": 4, "gap": 0.1, "noise": 0.5, "spread": 0.05}
    assert feasibility(least_favourable(**asked)).within_reach
    # Of means that are known the actual gaps count.
    known = with_means([0.5, 0.4, 0.3, 0.2], noise=0.5, spread=0.05)
    hardest = feasibility(least_favourable(**asked)).clients_unlimited
    easier = feasibility(known).clients_unlimited
    assert hardest is not None
    assert easier is not None
    assert easier < hardest
    assert not feasibility(least_favourable(horizon=3, **asked)).fits
    tight = feasibility(least_favourable(population=20, horizon=40, **asked))
    assert tight.pulls_of_all is not None
    assert not tight.fits
    assert tight.gap_finite is not None
    assert tight.gap_finite > 0.1


def test_the_table_of_gaps_ends_at_nothing_for_a_finite_population() -> None:
    question = least_favourable(n_arms=3, gap=0.05, noise=0.5, spread=0.2, population=100)
    table = gap_table(question, 50)
    rows = list(
        zip(*(table[key] for key in ("population", "pulls", "clients", "gap")), strict=True)
    )
    finite = [row for row in rows if row[:2] == ("finite", "any")]
    assert finite[-1][2:] == (100.0, 0.0)
    for kind in ("finite", "unlimited"):
        gaps = [row[3] for row in rows if row[:2] == (kind, "50")]
        assert (np.diff(gaps) < 0).all()


# Schedules ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("population", [None, 300])
@pytest.mark.parametrize("shape", list(Shape))
def test_what_is_foreseen_is_what_the_rule_does_without_scatter(
    shape: Shape, population: int | None
) -> None:
    question = with_means(
        [0.5, 0.4, 0.45], noise=0.5, spread=0.1, population=population, delta=0.01
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
    found = regret_map(plan)
    assert found is not None
    assert found.regret[found.best] == np.nanmin(found.regret)
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
    free, dear = (fb.plan(**asked, communication_cost=cost) for cost in (0.0, 20.0))
    assert free.suggested is not None
    assert dear.suggested is not None
    assert dear.suggested.reports.mean < 0.3 * free.suggested.reports.mean


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


def test_a_plan_says_what_it_rests_on_and_draws_it(tmp_path: Path) -> None:
    plan = small()
    plan.write(tmp_path / "plan")
    written = {path.name for path in (tmp_path / "plan").iterdir()}
    assert written == {"plan.json", "report.html", "regret-map.png", "smallest-gap.png"}
    page = (tmp_path / "plan" / "report.html").read_text(encoding="utf-8")
    unlimited = replace(plan.question, population=None)
    assert set(assumptions(unlimited)) < set(assumptions(plan.question))
    for assumption in assumptions(plan.question):
        assert assumption in page
    assert "half the range of their means" in page
    assert "[[variants]]" in page
    assert page.count("data-figure=") == 2
    assert {curve.finite for curve in gap_curves(plan)} == {True, False}
    assert [row[0] for row in cells(plan)][:3] == ["algorithm", "pulls f(p)", "new clients g(p)"]
    infeasible = fb.plan(n_arms=5, gap=0.1, noise=0.5, spread=0.1, horizon=4)
    infeasible.write(tmp_path / "none")
    assert not (tmp_path / "none" / "regret-map.png").exists()
    assert "Not feasible" in (tmp_path / "none" / "report.html").read_text(encoding="utf-8")


# Pilot data ---------------------------------------------------------------------------------------


def pilot_rows(rng: np.random.Generator, clients: int, arms: int) -> list[str]:
    """Return summaries of clients with noise 0.5 and spread 0.1, pulling 5 to 25 times."""
    rows = ["client,arm,count,mean,sd"]
    for arm in range(arms):
        for client in range(clients):
            values = 0.3 * arm + rng.normal(0, 0.1) + rng.normal(0, 0.5, rng.integers(5, 26))
            rows.append(
                f"{client},{arm},{values.size},{values.mean():.12g},{values.std(ddof=1):.12g}"
            )
    return rows


def test_pilot_estimates_are_right_on_average_and_their_upper_ends_nearly_always(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(8)
    path = tmp_path / "pilot.csv"
    found = []
    for _ in range(150):
        path.write_text("\n".join(pilot_rows(rng, 30, 4)), encoding="utf-8")
        found.append(read_pilot(path))
    assert (found[0].clients, found[0].arms) == (30, 4)
    for name, truth in (("noise", 0.5), ("spread", 0.1)):
        intervals = [getattr(pilot, name) for pilot in found]
        squares = np.array([interval.estimate**2 for interval in intervals])
        assert abs(squares.mean() - truth**2) < 5 * squares.std(ddof=1) / math.sqrt(150)
        covered = np.mean([interval.high >= truth for interval in intervals])
        assert covered > 0.975 - 5 * math.sqrt(0.975 * 0.025 / 150)
        below = np.mean([interval.low <= truth for interval in intervals])
        assert below > 0.975 - 5 * math.sqrt(0.975 * 0.025 / 150)


def test_values_and_their_summaries_give_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    values, summaries = ["client,arm,value"], ["client,arm,count,mean,sd"]
    for client in range(6):
        for arm in "ab":
            seen = rng.normal(rng.normal(0, 0.2), 0.5, 4 + client)
            values += [f"{client},{arm},{value:.12g}" for value in seen]
            summaries.append(
                f"{client},{arm},{seen.size},{seen.mean():.12g},{seen.std(ddof=1):.12g}"
            )
    for name, rows in (("values", values), ("summaries", summaries)):
        (tmp_path / name).write_text("\n".join(rows), encoding="utf-8")
    one, two = (read_pilot(tmp_path / name) for name in ("values", "summaries"))
    assert one.observations == two.observations == 2 * sum(range(4, 10))
    for name in ("noise", "spread"):
        for end in ("estimate", "low", "high"):
            assert getattr(getattr(one, name), end) == pytest.approx(
                getattr(getattr(two, name), end), rel=1e-6
            )


def test_a_pilot_and_a_rule_estimate_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(10)
    counts = np.array([[1, 1, *range(2, 12)], [*range(12, 2, -1), 1, 0]])
    pulls = [[rng.normal(rng.normal(0, 0.4), 0.5, n) for n in row] for row in counts]
    rows = [
        f"{client},{arm},{value!r}"
        for arm, clients in enumerate(pulls)
        for client, values in enumerate(clients)
        for value in values.tolist()
    ]
    path = tmp_path / "pilot.csv"
    path.write_text("\n".join(["client,arm,value", *rows]), encoding="utf-8")
    pilot = read_pilot(path)
    means, squares = (
        np.array([[of(values) if values.size else 0.0 for values in row] for row in pulls])
        for of in (np.mean, lambda values: values.size * values.var())
    )
    found = variance_components(counts, means, squares, np.array([True, True]))
    assert pilot.noise.estimate**2 == pytest.approx(float(found.noise_variance))
    assert pilot.spread.estimate**2 == pytest.approx(float(found.spread_variance))
    assert pilot.spread.estimate > 0


def test_a_plan_takes_the_upper_ends_of_a_pilot(quick: None, tmp_path: Path) -> None:
    path = tmp_path / "pilot.csv"
    path.write_text("\n".join(pilot_rows(np.random.default_rng(1), 20, 2)), encoding="utf-8")
    pilot = read_pilot(path)
    plan = fb.plan(pilot=path, gap=0.3)
    assert plan.question.n_arms == 2
    assert (plan.question.noise, plan.question.spread) == (pilot.noise.high, pilot.spread.high)
    assert any("upper ends" in line for line in plan.answer())
    assert fb.plan(pilot=path, gap=0.3, spread=0.1).question.spread == 0.1


@pytest.mark.parametrize("same", [True, False])
def test_clients_that_look_alike_in_a_pilot_are_not_called_alike(
    quick: None, tmp_path: Path, same: bool
) -> None:
    path = tmp_path / "pilot.csv"
    means = [0.5] * 6 if same else [0.49, 0.5, 0.51, 0.5, 0.49, 0.51]
    rows = [f"{client},a,20,{mean},0.5" for client, mean in enumerate(means)]
    path.write_text("\n".join(["client,arm,count,mean,sd", *rows]), encoding="utf-8")
    pilot = read_pilot(path)
    assert pilot.spread.estimate == 0.0
    # By six clients with a standard error of 0.11 no spread much below that can be ruled out.
    assert 0.05 < pilot.spread.high < 0.3
    plan = fb.plan(pilot=path, n_arms=2, gap=0.3)
    said = "\n".join(plan.answer())
    assert "No spread is visible, which is no proof that there is none" in said
    assert "alike" not in said


@pytest.mark.parametrize("spread", [0.0, 0.02, 0.1])
def test_the_upper_end_of_a_spread_holds_also_where_little_is_seen(
    tmp_path: Path, spread: float
) -> None:
    rng = np.random.default_rng(12)
    path = tmp_path / "pilot.csv"
    covered = 0
    for _ in range(200):
        local = rng.normal(0, spread, 5)
        rows = [
            f"{client},a,{x.size},{x.mean():.9g},{x.std(ddof=1):.9g}"
            for client, x in enumerate(rng.normal(mean, 0.5, 8) for mean in local)
        ]
        path.write_text("\n".join(["client,arm,count,mean,sd", *rows]), encoding="utf-8")
        found = read_pilot(path).spread.high
        assert found > 0
        covered += found >= spread
    assert covered / 200 > 0.975 - 5 * math.sqrt(0.975 * 0.025 / 200)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "pilot.csv:1: the columns are"),
        ("who,arm,value\n1,a,2\n", "pilot.csv:1: the columns are"),
        ("client,arm,value\n", "has no rows"),
        ("client,arm,value\n1,a,2\n1,a\n", "pilot.csv:3: 2 cells where the header has 3"),
        ("client,arm,value\n1,a,2\n1,a,x\n", 'pilot.csv:3: value: "x" is not a number'),
        ("client,arm,value\n1,a,nan\n", 'pilot.csv:2: value: "nan" is not a number'),
        ("client,arm,value\n1,,2\n", "pilot.csv:2: arm: is empty"),
        ("client,arm,value\n1,a,2\n2,a,3\n", "no client pulled an arm twice"),
        ("client,arm,value\n1,a,2\n1,a,3\n", "no arm was pulled by two clients"),
        ("client,arm,value\n1,a,2\n1,a,2\n2,a,2\n2,a,2\n", "there is no noise"),
        ("client,arm,count,mean,sd\n1,a,1.5,2,1\n", "pilot.csv:2: count: 1.5 is not a whole"),
        ("client,arm,count,mean,sd\n1,a,2,2,-1\n", "pilot.csv:2: sd: -1 is below 0"),
        ("client,arm,count,mean,sd\n1,a,2,2,1\n1,a,2,2,1\n", 'pilot.csv:3: client "1" has arm'),
    ],
)
def test_a_malformed_pilot_file_is_refused_where_it_is_wrong(
    tmp_path: Path, text: str, problem: str
) -> None:
    path = tmp_path / "pilot.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(fb.InputError) as refused:
        fb.plan(pilot=path, gap=0.1)
    assert problem in str(refused.value)


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
        ({"noise": 0.5, "spread": 0.1, "means": [1, 2], "horizon": 0}, "horizon: 0 slots"),
        ({"noise": 0.5, "spread": 0.1, "means": [1, 2], "clients": 0}, "clients: 0; there"),
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
    assert "undecided after 200 phases" in [row[0] for row in cells(none)]
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
    tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    done = command(*words, "--out", tmp_path / "out", cwd=tmp_path)
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


def test_the_readme_and_the_page_show_what_the_command_prints() -> None:
    words = "--arms 10 --gap 0.02 --noise 0.5 --spread 0.02"
    printed = "\n".join(line.rstrip() for line in command(*words.split()).stdout.splitlines())
    for page in ("README.md", "docs/planning.md"):
        text = (Path(__file__).parent.parent / page).read_text(encoding="utf-8")
        assert f"```\nfedbandits plan {words}\n```" in text
        shown = text.split(f"fedbandits plan {words}\n```\n\n```text\n")[1].split("\n```")[0]
        assert shown in printed


def test_the_page_shows_what_is_said_of_movielens() -> None:
    text = (Path(__file__).parent.parent / "docs/planning.md").read_text(encoding="utf-8")
    flat = " ".join(text.split())
    _, beyond, these, *_ = movielens().answer()
    assert beyond in flat
    assert these in flat


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
    question = with_means(MEANS, noise=0.5, spread=game.spread_proxy, privacy=privacy)
    foreseen = look_ahead(question, pulls, admissions, replications=1000, seed=1)
    algorithm = fb.Fed2Ucb(
        pulls=pulls, admissions=admissions, radius=question.radius, weights="inverse-variance"
    )
    run = fb.simulate(
        game, algorithm, horizon=None, fidelity="clients", privacy=privacy, replications=150,
        seed=2, workers=1,
    )  # fmt: skip
    outcome = run.outcome
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
    rows = [row[0] for row in cells(plan)]
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
    assert f"About {rounded(found.all_needed)} clients would do" in said
    assert f"a gap of {found.gap_finite:.3g} is the smallest" in said
    assert "Your schedule decides none of 1,000 games with it" in said
    assert "privacy budget spent" in [row[0] for row in cells(plan)]
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
        ({"noise": "laplace", "epsilon": 1.0}, {"means": [0.5, 1.5]}, "privacy.range: [0, 1], and"),
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


def test_the_command_takes_a_policy_as_an_inline_table(tmp_path: Path) -> None:
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
    text = (Path(__file__).parent.parent / "docs/planning.md").read_text(encoding="utf-8")
    flat = " ".join(text.split())
    table = '{ noise = "gaussian", epsilon = 2.0, delta = 1e-6, level = "event", range = [0, 1] }'
    assert f"--privacy '{table}'" in flat
    policy = fb.Privacy(range=(0, 1), noise="gaussian", epsilon=2.0, delta=1e-6)
    plan = fb.plan(n_arms=10, gap=0.02, noise=0.5, spread=0.02, privacy=policy)
    said = [line for line in plan.answer() if line.startswith(("Privacy", "What it", "In the"))]
    assert len(said) == 3
    for line in said:
        assert line in flat
