"""Clients that lie in the simulator: who does, what they report, and what it does to rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.errors import InputError
from fedbandits.problems import Problem
from fedbandits.rules.estimators import Estimator, Median, Trimmed
from fedbandits.rules.guarantees import Assumption, Status
from fedbandits.simulation.attacks import ATTACKS, Attack, Scene
from fedbandits.simulation.variants import Variant, all_doubts, build_rules, guarantee_of
from kept_promises import DELTA, is_kept

GAME = fb.Approximate(means=[0.5, 0.7], noise=fb.Gaussian(0.2), spread=fb.Gaussian(0.1))
# The best arm is hardly better: what liars add decides.
NEAR_TIE = fb.Approximate(
    means=[0.5, 0.499], noise=fb.Gaussian(0.2), spread=fb.Gaussian(0.1), name="near tie"
)
ROBUST = [Trimmed(liars=0.2), Trimmed(liars=0.2, shape="normal"), Median(liars=0.2)]


def algorithm(estimator: Estimator | None) -> fb.Fed2Ucb:
    return fb.Fed2Ucb(
        pulls=20, admissions=25, radius=fb.CertifiedRadius(delta=DELTA), estimator=estimator
    )


def played(
    estimator: Estimator | None, attack: Attack | None, game: Problem = GAME, **settings: Any
) -> Any:
    usual: dict[str, Any] = {"horizon": 10**5, "replications": 200, "workers": 1, "max_phases": 40}
    return fb.simulate(
        game, algorithm(estimator), attack=attack, warn=False, **{**usual, **settings}
    ).games


def lost(estimator: Estimator | None, attack: Attack, games: int) -> int:
    """Return in how many games of a near tie the best arm is dropped."""
    found = played(estimator, attack, NEAR_TIE, replications=games, max_phases=4)
    return int((found.winner == 1).sum())


@pytest.mark.parametrize("share", [0.1, 0.25, 1 / 3, 0.0])
def test_a_share_of_liars_is_kept_in_every_phase(share: float) -> None:
    attack = Attack(share=share)
    for n in range(1, 200):
        assert attack.number_among(n) == Trimmed(liars=min(share, 0.49)).liars_among(n)
    lying = attack.liars(199)
    assert np.array_equal(lying[:50], attack.liars(50))


def test_a_number_of_liars_are_the_first_clients() -> None:
    assert Attack(share=3).liars(5).tolist() == [True, True, True, False, False]


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("goal", ["max", "min"])
def test_lies_stay_inside_the_range(name: Any, goal: Any) -> None:
    game = fb.Approximate(
        means=[0.2, 0.5, 0.7], noise=fb.Gaussian(0.2), spread=fb.Gaussian(0.1), goal=goal
    )
    rng = np.random.default_rng(1)
    attack = Attack(share=0.2, name=name, range=(0.1, 0.9), from_phase=2)
    scene = Scene(
        phase=2,
        means=rng.normal(0.5, 1.0, size=(3, 8)),
        truth=lambda arm: np.full(2, 0.3 * arm),
        sums=np.zeros((3, 2)),
        counts=np.zeros((3, 2)),
        pulls=np.full(3, 10.0),
    )
    for arm in range(3):
        told = attack.lies(arm, scene, game)
        assert told.shape == (2,)
        assert ((told >= 0.1) & (told <= 0.9)).all()


def test_extreme_liars_praise_the_runner_up() -> None:
    scene = Scene(
        phase=1,
        means=np.zeros((3, 4)),
        truth=lambda _: np.full(1, 0.5),
        sums=np.zeros((3, 1)),
        counts=np.zeros((3, 1)),
        pulls=np.ones(3),
    )
    means = [0.2, 0.5, 0.7]
    game = fb.Approximate(means=means, noise=fb.Gaussian(0.2), spread=fb.Gaussian(0.1))
    told = [float(Attack(share=0.2).lies(arm, scene, game)[0]) for arm in range(3)]
    assert told == [0.5, 1.0, 0.0]
    lowest = fb.Approximate(
        means=means, noise=fb.Gaussian(0.2), spread=fb.Gaussian(0.1), goal="min"
    )
    told = [float(Attack(share=0.2).lies(arm, scene, lowest)[0]) for arm in range(3)]
    assert told == [1.0, 0.0, 0.5]


def test_averages_lose_the_best_arm_to_a_few_liars_and_the_rules_for_liars_do_not() -> None:
    attack = Attack(share=0.2)
    assert (played(None, attack, NEAR_TIE, max_phases=4).winner == 1).mean() > 0.5
    for way in ROBUST:
        assert is_kept(lost(way, attack, 200), 200)


@pytest.mark.parametrize("name", ATTACKS)
def test_no_attack_at_the_declared_share_loses_the_best_arm(name: Any) -> None:
    for way in ROBUST:
        attack = Attack(share=0.2, name=name, from_phase=2)
        assert is_kept(lost(way, attack, 300), 300)


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("way", ROBUST)
def test_no_attack_at_the_declared_share_loses_the_best_arm_in_ten_thousand_games(
    way: Estimator, name: Any
) -> None:
    attack = Attack(share=0.2, name=name, from_phase=2)
    assert is_kept(lost(way, attack, 10_000), 10_000)


@pytest.mark.parametrize("way", [Trimmed(liars=0.02, shape="normal"), Median(liars=0.02)])
def test_above_the_declared_share_an_attack_breaks_it(way: Estimator) -> None:
    assert not is_kept(lost(way, Attack(share=0.4), 200), 200)


@pytest.mark.parametrize("name", ATTACKS)
def test_pull_by_pull_liars_do_the_same(name: Any) -> None:
    attack = Attack(share=0.2, name=name, from_phase=2)
    phases = [
        played(Median(liars=0.2), attack, replications=n, fidelity=fidelity).phases
        for fidelity, n in (("clients", 200), ("pulls", 24))
    ]
    error = np.hypot(*(one.std(ddof=1) / np.sqrt(one.size) for one in phases))
    assert abs(phases[0].mean() - phases[1].mean()) <= 4 * error + 1e-9


def guaranteed(estimator: Estimator | None, attack: Attack | None) -> tuple[Any, list[str]]:
    variant = Variant(label="one", problem=GAME, algorithm=algorithm(estimator), attack=attack)
    ((rule, _),) = build_rules([variant], 10**5)
    return guarantee_of(variant, rule), all_doubts(variant, rule)


def test_the_guarantee_says_whether_too_many_lie() -> None:
    within, _ = guaranteed(Trimmed(liars=0.1), Attack(share=0.1))
    assert within.error == DELTA
    assert within.condition(Assumption.FEW_LIARS).status is Status.KEPT
    beyond, doubts = guaranteed(Trimmed(liars=0.1), Attack(share=0.2))
    assert beyond.error is None
    assert "5 of 25 clients lie in phase 1, and it allows for 2" in doubts
    # Of 50 clients as many lie as it allows for, and later on more do.
    for allowed, share in ((0.1, 0.11), (5, 0.1)):
        later, doubts = guaranteed(Trimmed(liars=allowed), Attack(share=share))
        assert later.error is None
        assert "clients lie in phase" in doubts[0]
    naive, doubts = guaranteed(None, Attack(share=0.2))
    assert (naive.error, doubts) == (None, ["some clients lie"])


@pytest.mark.parametrize(("better", "told"), [(0.001, None), (0.3, DELTA)])
def test_the_best_arm_of_all_may_not_be_that_of_the_honest(better: float, told: Any) -> None:
    local = [[0.75 + better, 0.25]] * 10 + [[0.25 + better, 0.75]] * 10
    game = fb.Exact(local_means=local, noise=fb.Gaussian(0.02))
    radius = fb.CertifiedRadius(delta=DELTA)
    algorithm = fb.Fed1Ucb(pulls=400, radius=radius, estimator=Trimmed(liars=0.1))
    attack = Attack(share=0.1, range=(0.0, 1.3))
    variant = Variant(label="one", problem=game, algorithm=algorithm, attack=attack)
    ((rule, _),) = build_rules([variant], 10**5)
    assert guarantee_of(variant, rule).error == told
    games = fb.simulate(
        game, algorithm, attack=attack, horizon=10**5, replications=200, workers=1, warn=False
    ).games
    assert is_kept(int((games.winner == 1).sum()), 200) == (told is not None)


def test_it_says_beforehand_that_liars_hide_the_gap() -> None:
    _, doubts = guaranteed(Trimmed(liars=0.3), None)
    assert "no number of clients is sure to tell the best two arms apart" in doubts[0]
    assert guaranteed(Trimmed(liars=0.1), None)[1] == []
    (of_groups,) = guaranteed(Trimmed(liars=0.2, groups=4), None)[1]
    assert "by any amount" in of_groups
    (of_median,) = guaranteed(Median(liars=0.45), None)[1]
    assert f"by {Median(liars=0.45).floor(0.1):.3g}, and the gap is 0.2" in of_median


def test_what_is_not_simulated_is_refused() -> None:
    def refused(told: str, **keys: Any) -> None:
        with pytest.raises(InputError, match=told):
            fb.simulate(GAME, horizon=10**4, replications=1, attack=Attack(share=0.1), **keys)

    refused("attack: is by clients that report", algorithm=fb.Ucb1())
    refused(
        "attack: is not simulated for means that are protected",
        algorithm=algorithm(None),
        privacy=fb.Privacy(range=(0, 1), noise="gaussian", epsilon=1.0, delta=1e-6),
    )
    refused('fidelity: "cohorts" is not valid', algorithm=algorithm(None), fidelity="cohorts")
    with pytest.raises(InputError, match=r"share: 1\.5 is neither a share"):
        Attack(share=1.5)
