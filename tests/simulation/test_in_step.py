"""Games in step: the numbers are those of each game played alone, to the last bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.rules.phased import PhasedRule
from fedbandits.simulation import build_rules
from fedbandits.simulation.game import Game, PlayedGames
from fedbandits.simulation.in_step import key_in_step
from fedbandits.simulation.regret import make_grid

MEANS = [0.3, 0.5, 0.55, 0.9]


def game(sigma: float = 0.5, spread: float = 0.1, **others: Any) -> fb.Approximate:
    settings: dict[str, Any] = {"means": MEANS, **others}
    return fb.Approximate(noise=fb.Gaussian(sigma), spread=fb.Gaussian(spread), **settings)


def variants(
    problems: Sequence[fb.Approximate], schedules: Sequence[tuple[Any, Any]], **of_rule: Any
) -> list[fb.Variant]:
    return [
        fb.Variant(
            label=f"{number}, {f}, {g}",
            problem=problem,
            algorithm=fb.Fed2Ucb(pulls=f, admissions=g, **of_rule),
            communication_cost=0.5 * number,
        )
        for number, problem in enumerate(problems)
        for f, g in schedules
    ]  # fmt: skip


SCHEDULES = [(10, "2^p"), (37, "3"), ("5*p", "p"), ("2^p", "2")]
# These admit nobody in some phases, each in others.
GAPPY = [(10, "2^p"), (10, "max(0, 3 - p)"), (15, "max(0, 5 - p)"), (20, "4*max(0, 2 - p)")]

CASES: dict[str, tuple[list[fb.Variant], dict[str, Any]]] = {
    "schedules": (variants([game()], SCHEDULES), {}),
    "problems": (
        variants(
            [game(), game(0.3), game(0.5, 0.0), game(0.2, 0.3), game(means=[0.9, 0.1, 0.2, 0.3])],
            SCHEDULES[:2],
        ),
        {},
    ),
    "admissions that pause": (variants([game(), game(0.4)], GAPPY), {"horizon": 3_000}),
    "finite populations": (
        variants([game(population=40), game(0.3, population=40)], SCHEDULES[:3]),
        {},
    ),
    "certified": (
        variants([game(), game(0.4)], SCHEDULES, radius=fb.CertifiedRadius(delta=0.01)),
        {"horizon": None},
    ),
    "pairwise, with a tolerance": (
        variants([game(), game(0.4)], SCHEDULES, radius=fb.PairwiseRadius(), epsilon=0.1),
        {},
    ),
    "inverse-variance weights": (
        variants([game()], SCHEDULES, radius=fb.CertifiedRadius(), weights="inverse-variance"),
        {},
    ),
    "lowest mean": (variants([game(goal="min"), game(0.4, goal="min")], SCHEDULES), {}),
    "caps": (
        [
            fb.Variant(
                label=str(most),
                problem=game(),
                algorithm=fb.Fed2Ucb(pulls=f, admissions="2^p"),
                max_clients=most,
                max_phases=12,
            )
            for most, f in ((5, 3), (20, 3), (1_000, 4))
        ],
        {},
    ),
    "one player": (
        [
            fb.Variant(label=str(sigma), problem=game(sigma), algorithm=fb.ImprovedUcb())
            for sigma in (0.2, 0.5)
        ],
        {},
    ),
    "all clients from the start": (
        [
            fb.Variant(
                label=str(f),
                problem=game(),
                algorithm=fb.Fed1Ucb(pulls=f, clients=5, radius=fb.PaperRadius(arm=2.0)),
            )
            for f in (2, 5)
        ],
        {},
    ),
}


def assert_same(together: PlayedGames, alone: PlayedGames) -> None:
    for field in fields(PlayedGames):
        ours, theirs = getattr(together, field.name), getattr(alone, field.name)
        if field.name == "breakpoints":
            for one, other in zip(ours, theirs, strict=True):
                assert one.slot.tolist() == other.slot.tolist()
                assert one.exploration.tolist() == other.exploration.tolist()
                assert one.communication.tolist() == other.communication.tolist()
        else:
            assert np.array_equal(ours, theirs, equal_nan=field.name == "trace"), field.name


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("memory_limit", [2**29, 40_000])
def test_games_in_step_give_what_each_gives_alone(name: str, memory_limit: int) -> None:
    played, others = CASES[name]
    # More than a block of replications, and not a whole number of blocks.
    settings: dict[str, Any] = {"horizon": 5_000, "replications": 140, "seed": 7, **others}
    settings |= {"workers": 1, "memory_limit": memory_limit, "trace": True, "breakpoints": True}
    together = fb.simulate_all(played, warn=False, **settings)
    for variant, found in zip(played, together, strict=True):
        (alone,) = fb.simulate_all([variant], warn=False, **settings)
        # Without a horizon a grid ends with the last game of all.
        if settings["horizon"] is not None:
            assert_same(found.games, alone.games)
        else:
            assert np.array_equal(found.games.total, alone.games.total)
            assert np.array_equal(found.games.decision_slot, alone.games.decision_slot)


@pytest.mark.parametrize("name", CASES)
def test_these_games_are_played_in_step(name: str) -> None:
    played, others = CASES[name]
    assert len({key(variant, others.get("horizon", 20_000)) for variant in played}) == 1


def key(variant: fb.Variant, horizon: int | None) -> object:
    ((rule, fidelity),) = build_rules([variant], horizon)
    assert isinstance(rule, PhasedRule)
    return key_in_step(
        Game(
            problem=variant.problem,
            rule=rule,
            communication_cost=1.0,
            seed=1,
            grid=make_grid(horizon, 1),
            memory_limit=1,
            privacy=variant.privacy,
        ),
        fidelity,
    )


def test_what_shares_no_draws_or_no_rule_is_not_played_in_step() -> None:
    one = variants([game()], SCHEDULES[:1])[0]
    keys = [
        key(variant, 20_000)
        for variant in (
            one,
            variants([game(name="other")], SCHEDULES[:1])[0],
            variants([game(means=[0.1, 0.9])], SCHEDULES[:1])[0],
            variants([game(population=100)], SCHEDULES[:1])[0],
            variants([game()], SCHEDULES[:1], radius=fb.PaperRadius(arm=1.0))[0],
            variants([game()], SCHEDULES[:1], weights="inverse-variance")[0],
            variants([game(0.4)], SCHEDULES[:1], weights="inverse-variance")[0],
        )
    ]
    assert len(set(keys)) == len(keys)
    assert key(one, 20_000) != key(one, 30_000)


def test_one_by_one_fidelities_and_private_games_are_played_alone() -> None:
    coins = fb.Approximate(means=[0.4, 0.6], noise=fb.Bernoulli(), spread=fb.Beta(0.05))
    algorithm = fb.Fed2Ucb(pulls=20, admissions=2)
    assert key(fb.Variant(label="a", problem=coins, algorithm=algorithm), 20_000) is None
    privacy = fb.Privacy(range=(-9, 9), noise="gaussian", epsilon=1.0, delta=1e-6)
    private = fb.Variant(label="b", problem=game(), algorithm=algorithm, privacy=privacy)
    assert key(private, 20_000) is None


def test_games_of_index_rules_are_played_alone() -> None:
    played = [
        fb.Variant(label=str(sigma), problem=game(sigma), algorithm=fb.FedIndex())
        for sigma in (0.3, 0.5)
    ]
    assert [key(variant, 5_000) for variant in played] == [None, None]


def test_a_mistake_in_one_of_several_games_is_said_of_that_one() -> None:
    # 64 phases are checked beforehand; the last schedule fails after that.
    failing = "2 / max(1, p - 67)"
    wide = fb.PaperRadius(arm=1e9, client=1e9)
    played = variants([game()], [(1, "2"), (1, "3"), (failing, "2")], radius=wide)
    with pytest.raises(fb.InputError, match=r"^variants\[2\]\.pulls: .* in phase 70"):
        fb.simulate_all(played, horizon=2_000, replications=3, workers=1)
