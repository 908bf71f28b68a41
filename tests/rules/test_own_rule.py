"""An adaptive rule of one's own, without any change in the package: halving by estimates."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import stats

import fedbandits as fb
from fedbandits.errors import InputError
from fedbandits.loopback import play
from fedbandits.protocol import Client, Server
from fedbandits.rules.algorithms import Algorithm
from fedbandits.rules.phased import PhasedRule
from fedbandits.rules.plans import PhasePlan, State
from fedbandits.simulation.game import PlayedGames
from games import APPROXIMATE


@dataclass(frozen=True, slots=True, kw_only=True)
class Focus(PhasedRule):
    """Elimination that pulls the better half of the arms three times as often as the others.

    Ten clients join whenever the two best estimates are closer than what clients leave open.
    """

    def plan(self, state: State) -> PhasePlan:
        by_schedule = PhasedRule.plan(self, state)
        if state.estimate is None:
            return by_schedule
        values = np.where(state.active, state.estimate.values, -np.inf)
        middle = np.median(state.estimate.values, axis=-1, keepdims=True)
        pulls = by_schedule.pulls * np.where(values > middle, 3, 1)
        best = np.sort(values, axis=-1)
        close = best[..., -1] - best[..., -2] < np.sqrt(state.estimate.client_variance.max(axis=-1))
        return replace(by_schedule, newcomers=np.where(close, 10, 0), pulls=pulls)


@dataclass(frozen=True, slots=True, kw_only=True)
class FocusUcb(Algorithm):
    """Makes the rule."""

    name: ClassVar[str] = "focus-ucb"

    def rule(self, beliefs: fb.Beliefs) -> PhasedRule:
        fed2 = fb.Fed2Ucb(pulls=50, admissions=20, radius=fb.CertifiedRadius(delta=0.05))
        made = fed2.rule(beliefs)
        return Focus(**{field.name: getattr(made, field.name) for field in fields(made)})


GAME = fb.Approximate(means=[0.4, 0.5, 0.6, 0.9], noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.05))
FINITE = fb.Approximate(
    means=[0.4, 0.5, 0.6, 0.9], noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.05), population=200
)


def played(fidelity: str, n: int, problem: Any = GAME, **options: Any) -> PlayedGames:
    return fb.simulate(
        problem,
        FocusUcb(),
        horizon=10**5,
        replications=n,
        fidelity=fidelity,
        workers=1,
        warn=False,
        **options,
    ).games


def test_a_rule_that_plans_for_itself_follows_no_schedule() -> None:
    told = fb.Beliefs(n_arms=4, horizon=10**5, noise=0.5, spread=0.05)
    assert not FocusUcb().rule(told).scheduled
    assert fb.Fed2Ucb(pulls=5, admissions=2).rule(told).scheduled


@pytest.mark.parametrize("fidelity", ["cohorts", "clients", "pulls"])
def test_it_plays_in_every_fidelity(fidelity: str) -> None:
    found = played(fidelity, 12, seed=3)
    assert found.winner.tolist() == [3] * 12


@pytest.mark.parametrize("problem", [GAME, FINITE], ids=["unlimited", "finite"])
def test_fidelities_agree(problem: Any) -> None:
    one, other = played("cohorts", 400, problem, seed=1), played("clients", 400, problem, seed=2)
    for name in ("exploration", "clients", "phases"):
        values = [getattr(outcome, name) for outcome in (one, other)]
        assert stats.ks_2samp(values[0], values[1], method="asymp").pvalue > 1e-4, name
    few = played("pulls", 60, problem, seed=3)
    assert stats.ks_2samp(few.exploration, other.exploration).pvalue > 1e-4


def test_a_server_lets_it_plan() -> None:
    told = fb.Beliefs(n_arms=2, horizon=10**6, noise=0.5, spread=0.02)
    rng = np.random.default_rng(1)
    server = Server(FocusUcb().rule(told))
    names = iter(range(10**6))

    def admit(wanted: int) -> list[Client]:
        return [
            Client(str(next(names)), lambda arm, n: rng.normal(0.4 + 0.05 * arm, 0.5, n))
            for _ in range(wanted)
        ]

    last = play(server, admit)
    assert last is not None
    assert last.winner == 1
    assert last.phase > 1


def test_a_plan_without_pulls_is_refused() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Idle(PhasedRule):
        def plan(self, state: State) -> PhasePlan:
            plan = PhasedRule.plan(self, state)
            return plan if state.phase == 1 else replace(plan, pulls=0 * plan.pulls)

    @dataclass(frozen=True, slots=True, kw_only=True)
    class IdleUcb(Algorithm):
        name: ClassVar[str] = "idle"

        def rule(self, beliefs: fb.Beliefs) -> PhasedRule:
            made = fb.Fed2Ucb(pulls=5, admissions=2).rule(beliefs)
            return Idle(**{field.name: getattr(made, field.name) for field in fields(made)})

    with pytest.raises(InputError, match="plans no pulls, or a negative number, in phase 2"):
        fb.simulate(APPROXIMATE, IdleUcb(), horizon=10**5, replications=2, workers=1)
