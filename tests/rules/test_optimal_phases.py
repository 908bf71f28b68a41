"""Elimination that is told what a report costs: its phases, and how near the limit it comes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.errors import InputError
from fedbandits.experiments.describe import describe_experiment
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.optimal_phases import LAST_PHASE, OptimalPhases
from fedbandits.rules.phased import PhasedRule
from fedbandits.rules.reports import Reports
from fedbandits.theory.lower_bound import lower_bound
from games import APPROXIMATE

COSTS = (0.0, 1.0, 30.0, 1000.0)
PROVEN = 260.0
"""What the page on the lower bound proves of the ratio for equal gaps, in the limit."""


def algorithm(**options: Any) -> fb.Fed2Ucb:
    usual: dict[str, Any] = {"pulls": "optimal", "admissions": "optimal"}
    return fb.Fed2Ucb(**usual | {"radius": fb.CertifiedRadius()} | options)


def told(**beliefs: Any) -> Beliefs:
    usual: dict[str, Any] = {"n_arms": 10, "horizon": 10**6, "noise": 0.5, "spread": 0.02}
    return Beliefs(**usual | beliefs)


def rule_of(**beliefs: Any) -> PhasedRule:
    rule = algorithm(weights="inverse-variance").rule(told(**beliefs))
    assert isinstance(rule, PhasedRule)
    return rule


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("spread", [0.0, 0.02, 0.4])
def test_a_phase_finds_the_gap_that_it_looks_for(cost: float, spread: float) -> None:
    """Its widths are at most the gap, with the pulls that its clients have made by then."""
    rule = rule_of(cost=cost, spread=spread)
    phases = OptimalPhases(n_arms=10, horizon=10**6, noise=0.5, spread=spread, cost=cost)
    sizes: list[int] = []
    counts: list[int] = []
    for phase in range(1, 15):
        sizes.append(rule.admissions(phase))
        counts = [n + rule.pulls(phase) for n in [*counts, 0]]
        made = Reports.planned(np.array([counts] * 10), np.array([sizes]))
        margin = 2 * float(rule.width(phase=phase, reports=made).max())
        gap, variance = phases.wanted(phase)
        assert margin <= gap * (1 + 1e-9)
        assert float(rule.estimate(made).variance.max()) <= variance * (1 + 1e-9)
        assert sum(sizes) == phases.clients(phase)


@pytest.mark.parametrize("cost", [1.0, 30.0, 1000.0])
def test_pulls_cost_least_among_all_that_find_the_gap(cost: float) -> None:
    phases = OptimalPhases(n_arms=10, horizon=10**6, noise=0.5, spread=0.1, cost=cost)
    n = np.arange(1, 5000)
    for phase in (4, 8, 12):
        gap, variance = phases.wanted(phase)
        costs = (0.1**2 + 0.25 / n) / variance * (cost + 10 * n * gap)
        # Rounding up to a whole number of pulls costs little.
        assert costs[phases.pulls(phase) - 1] <= 1.02 * costs.min()


def test_measured_in_another_unit_it_plays_the_same() -> None:
    for unit in (0.25, 8.0):
        one, other = (
            rule_of(cost=30.0),
            rule_of(cost=30.0 * unit, noise=0.5 * unit, spread=0.02 * unit),
        )
        for phase in range(1, 20):
            assert one.pulls(phase) == other.pulls(phase)
            assert one.admissions(phase) == other.admissions(phase)


def test_late_phases_are_numbers() -> None:
    rule = rule_of(cost=1e9)
    for phase in (LAST_PHASE, LAST_PHASE + 1, 10**6):
        assert rule.pulls(phase) >= 1
        assert rule.admissions(phase) >= 0
    for extreme in ({"noise": 0.0}, {"spread": 0.0}, {"noise": 0.0, "spread": 0.0}):
        assert rule_of(**extreme).pulls(1) >= 1


@pytest.mark.parametrize(("n_arms", "spread"), [(2, 0.1), (10, 0.05)])
def test_regret_is_within_the_proven_constant_of_the_bound_and_far_below_it(
    n_arms: int, spread: float
) -> None:
    """Equal gaps: the proof is about every game in which no comparison errs."""
    game = fb.Approximate(
        means=[0.5] + [0.45] * (n_arms - 1), noise=fb.Gaussian(0.5), spread=fb.Gaussian(spread)
    )
    for cost in COSTS:
        found = fb.simulate(
            game,
            algorithm(weights="inverse-variance"),
            horizon=10**6,
            replications=200,
            seed=4,
            workers=1,
            communication_cost=cost,
        ).games
        gaps = np.full(n_arms - 1, 0.05)
        bound = lower_bound(gaps, noise=0.5, spread=spread, cost=cost).at(10**6)
        last = math.log((n_arms - 1) * 10**6 * (math.pi * found.phases.max()) ** 2 / 6)
        assert (found.winner == 0).all()
        assert found.total.max() <= PROVEN * bound * last / math.log(10**6)
        assert 3.0 < found.total.mean() / bound < 7.0


def test_on_the_game_of_figure_4_it_beats_a_schedule_that_is_not_told() -> None:
    fixed = fb.Fed2Ucb(
        pulls=100, admissions="2^p", radius=fb.CertifiedRadius(), weights="inverse-variance"
    )
    for cost, factor in ((100.0, 0.65), (1000.0, 0.4)):
        ours, theirs = (
            fb.simulate(
                APPROXIMATE,
                one,
                horizon=10**6,
                replications=300,
                seed=2,
                workers=1,
                communication_cost=cost,
            ).games
            for one in (algorithm(weights="inverse-variance"), fixed)
        )
        assert (ours.winner == APPROXIMATE.means.argmax()).all()
        assert ours.total.mean() < factor * theirs.total.mean()


def test_it_promises_what_its_radius_does() -> None:
    assert rule_of().guarantee().error == pytest.approx(1e-6)


@pytest.mark.parametrize(
    ("options", "beliefs", "where"),
    [
        ({"admissions": "2^p"}, {}, "pulls"),
        ({"pulls": 100}, {}, "pulls"),
        ({"delta": 0.05}, {"horizon": None}, "horizon"),
        ({}, {"noise": None}, "assume.noise"),
        ({}, {"spread": None}, "assume.spread"),
    ],
)
def test_what_cannot_be_is_refused(
    options: dict[str, Any], beliefs: dict[str, Any], where: str
) -> None:
    with pytest.raises(InputError) as caught:
        algorithm(**options).rule(told(**beliefs))
    assert caught.value.where == where


def test_a_file_may_ask_for_it_and_a_sweep_over_the_cost_plays_it_anew() -> None:
    tables: dict[str, Any] = {
        "title": "optimal",
        "horizon": 10_000,
        "replications": 4,
        "problem": {
            "model": "approximate",
            "means": [0.2, 0.8],
            "noise": {"law": "gaussian", "sigma": 0.5},
            "spread": {"law": "gaussian", "sigma": 0.1},
        },
        "variants": [{"algorithm": "fed2-ucb", "pulls": "optimal", "admissions": "optimal"}],
    }
    (variant,) = fb.read_experiment(tables).variants
    assert variant.algorithm.uses_cost
    (described,) = describe_experiment(fb.read_experiment(tables))["variants"]
    assert described["pulls"] == described["admissions"] == "optimal"
    fixed = tables | {"variants": [{"algorithm": "fed2-ucb", "pulls": 9, "admissions": 2}]}
    assert not fb.read_experiment(fixed).variants[0].algorithm.uses_cost
