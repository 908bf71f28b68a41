"""Means that change while a game is played: when, what that costs, and who is warned."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.errors import AssumptionWarning, InputError
from fedbandits.experiments.files import read_experiment
from fedbandits.protocol.health import Drift, drift
from fedbandits.rules.algorithms import Algorithm
from fedbandits.simulation import build_rules
from fedbandits.simulation.game import Game
from fedbandits.simulation.pulls import play_logged
from fedbandits.simulation.regret import make_grid
from fedbandits.simulation.variants import guarantee_of

SILENT = fb.Gaussian(1e-9)
CERTIFIED = fb.Fed2Ucb(
    pulls=10, admissions=2, radius=fb.CertifiedRadius(delta=0.05), target="population"
)


def drifting(**changes: Any) -> fb.Drifting:
    """Return a game in which arm 1 is the best at first, and arm 0 in the end."""
    given: dict[str, Any] = {
        "first_means": [0.2, 0.5],
        "means": [0.8, 0.5],
        "begin": 100,
        "noise": fb.Gaussian(0.5),
        "spread": fb.Gaussian(0.05),
    }
    return fb.Drifting(**given | changes)


def played(problem: Any, algorithm: Algorithm, **settings: Any) -> fb.Simulation:
    return fb.simulate(
        problem,
        algorithm,
        **{"horizon": 400, "replications": 3, "seed": 4, "warn": False} | settings,
    )


def test_means_change_at_once_or_on_a_line() -> None:
    at = np.array([0, 1, 100, 101, 150, 200, 10**6])
    step = drifting().means_at(at)[:, 0].tolist()
    line = drifting(end=200).means_at(at)[:, 0].tolist()
    assert step == pytest.approx([0.2, 0.2, 0.2, 0.8, 0.8, 0.8, 0.8])
    assert line == pytest.approx([0.2, 0.2, 0.2, 0.206, 0.5, 0.8, 0.8])
    assert drifting(end=200).means_at(at)[:, 1].tolist() == [0.5] * 7


@pytest.mark.parametrize("algorithm", [CERTIFIED, fb.FedIndex(), fb.ImprovedUcb(), fb.Ucb1()])
def test_before_the_change_it_is_the_game_of_the_first_means(algorithm: Algorithm) -> None:
    late = drifting(begin=400)
    still = fb.Approximate(means=late.first_means, noise=late.noise, spread=fb.Gaussian(0.05))
    fidelity = None if isinstance(algorithm, fb.Ucb1) else "pulls"
    one, other = (played(game, algorithm, fidelity=fidelity).games for game in (late, still))
    np.testing.assert_allclose(one.exploration_curves, other.exploration_curves, rtol=1e-9)
    assert one.winner.tolist() == other.winner.tolist()


def test_every_pull_is_made_in_its_slot() -> None:
    """Ten pulls of arm 0, then ten of arm 1: a step after slot 5 is in the first average."""
    game = drifting(begin=5, noise=SILENT, spread=None)
    run = played(game, CERTIFIED, trace=True, max_phases=2, assume=fb.Assume(noise=5.0))
    assert run.games.trace is not None
    # In the second phase 2 clients join, who begin in slot 21 and see the last means alone.
    np.testing.assert_allclose(run.games.trace[0, 0], [0.5, 0.5], atol=1e-6)
    older, newer = (5 * 0.2 + 15 * 0.8) / 20, 0.8
    np.testing.assert_allclose(run.games.trace[1, 0], [(older + newer) / 2, 0.5], atol=1e-6)


def test_regret_is_against_the_best_arm_of_each_slot() -> None:
    game = drifting(begin=5, noise=SILENT, spread=None)
    run = played(game, CERTIFIED, max_phases=1, horizon=40, assume=fb.Assume(noise=5.0))
    # Two clients: arm 0 in slots 1 to 10, of which it is worse in 5; then arm 1, and what leads.
    left = 20 * 0.3 if run.games.exploration[0] > 15 else 0.0
    assert run.games.exploration[0] == pytest.approx(2 * (5 * 0.3 + 10 * 0.3 + left))
    curve = run.games.exploration_curves[0]
    assert curve[[4, 9, 19]].tolist() == pytest.approx([3.0, 3.0, 9.0])


def test_a_slot_rule_is_charged_against_the_best_arm_of_each_slot() -> None:
    game = drifting(begin=200, noise=SILENT)
    curve = played(game, fb.Ucb1(), assume=fb.Assume(noise=1e-9)).games.exploration_curves[0]
    # It knows after two slots that arm 1 is the best, and never finds out that it no longer is.
    assert curve[[0, 1, 199, 399]].tolist() == pytest.approx([0.3, 0.3, 0.3, 0.3 + 200 * 0.3])


def test_slot_rules_observe_the_means_of_the_slot() -> None:
    """An arm that gets worse while it is played is left for the other."""
    game = drifting(first_means=[0.8, 0.5], means=[0.2, 0.5], begin=50, end=100, noise=SILENT)
    curve = played(game, fb.Ucb1(), assume=fb.Assume(noise=1e-9)).games.exploration_curves[0]
    assert curve[-1] == pytest.approx(curve[199])
    assert curve[-1] > 1


@pytest.mark.parametrize("algorithm", [CERTIFIED, fb.FedIndex(), fb.Ucb1(), fb.KlUcb()])
def test_every_rule_is_warned_and_none_promises_anything(algorithm: Algorithm) -> None:
    variant = fb.Variant(label="v", problem=drifting(), algorithm=algorithm)
    ((rule, _),) = build_rules([variant], 400)
    found = guarantee_of(variant, rule)
    assert (found.holds, found.error) == (False, None)
    words = "arm 0 changes by 0.6 after slot 100, and it takes every option to stay"
    assert any(words in why for why in found.breaches)
    with pytest.warns(AssumptionWarning, match=words):
        played(drifting(), algorithm, replications=1, warn=True)


def test_the_server_of_such_a_game_suspects_the_arm_that_changes() -> None:
    for begin, suspected in ((300, ["0"]), (10**6, [])):
        game = drifting(first_means=[0.45, 0.5], begin=begin, noise=fb.Gaussian(0.2))
        rule = fb.Fed1Ucb(pulls=50, clients=20, radius=fb.CertifiedRadius(delta=1e-9))
        told = fb.Assume(noise=1.0)
        variant = fb.Variant(label="v", problem=game, algorithm=rule, assume=told, max_phases=20)
        ((built, _),) = build_rules([variant], 2000)
        assert not built.decides_every_slot
        one = Game(
            problem=game,
            rule=built,
            communication_cost=1.0,
            seed=1,
            grid=make_grid(2000, 4),
            memory_limit=2**30,
        )
        found = drift(play_logged(one, built, 0).run_state)
        assert isinstance(found, Drift)
        assert [change.arm for change in found.suspicious] == suspected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fidelity": "clients"}, 'fidelity: "clients" is not valid here: the means change while'),
        ({"fidelity": "cohorts"}, 'fidelity: "cohorts" is not valid here: the means change while'),
        ({"horizon": None}, "horizon: is missing, and a game whose means change needs one"),
        ({"attack": fb.Attack(share=0.1)}, "attack: is not simulated for means that change"),
        ({"privacy": fb.Privacy(range=(0, 1), quantize=fb.Quantize(bits=8))}, "privacy: is not"),
        ({"breakpoints": True}, "breakpoints: regret bends in every slot if means change"),
    ],
)
def test_what_is_not_simulated_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        played(drifting(), CERTIFIED, **settings)


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"begin": -1}, "begin"),
        ({"end": 100}, "end"),
        ({"means": [0.5, 0.6, 0.7]}, "means"),
        ({"means": [0.2, 0.5]}, "means"),
        ({"noise": fb.Bernoulli()}, "spread"),
        ({"noise": fb.Bernoulli(), "spread": None, "means": [1.2, 0.5]}, "means"),
        ({"population": 0}, "population"),
    ],
)
def test_mistakes_are_named(changes: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError) as raised:
        drifting(**changes)
    assert raised.value.where == where


def test_what_describes_a_game_makes_it_again() -> None:
    for game in (drifting(), drifting(end=200, spread=None, goal="min", population=30)):
        tables = {
            "title": "t",
            "horizon": 9,
            "problem": game.described(),
            "variants": [{"algorithm": "ucb1"}],
        }
        (variant,) = read_experiment(tables).variants
        assert variant.problem.described() == game.described()
