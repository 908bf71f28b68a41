"""Fed-MoM-UCB on the first scenario of its authors, and the rules for liars beside it.

Published figures are those of the arrays that its authors have stored beside their scripts: the
mean and the standard deviation of 100 games, counted above β alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.errors import InputError
from fedbandits.rules.algorithms.fed_mom_ucb import FedMomUcb
from fedbandits.rules.arrays import FloatArray

MEANS = np.array([0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.95])
GAME = fb.Approximate(means=MEANS, noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.01))
HORIZON = 50_000
BELIEFS = fb.Beliefs(n_arms=10, horizon=HORIZON, noise=0.5, spread=0.01)
BETA = FedMomUcb(liars=0.2).good_enough(BELIEFS)
GAMES = 100
# Of 89 clients 17 liars are drawn with replacement, which makes about 16. They report arms within
# β of the best as bad and all others as good.
LIES = fb.Attack(share=16, name="stall", within=0.17)


def beta_regret(
    algorithm: Any, pulls: Callable[[int], int], joined: Callable[[int], int], attack: fb.Attack
) -> FloatArray:
    """Return the regret above β of every game, with one unit for every report."""
    run = fb.simulate(
        GAME,
        algorithm,
        horizon=HORIZON,
        replications=GAMES,
        attack=attack,
        trace=True,
        warn=False,
    )
    assert run.games.trace is not None
    played = np.isfinite(run.games.trace)  # (phases, games, arms)
    phases = range(1, len(played) + 1)
    above = np.where(MEANS.max() - MEANS > BETA, MEANS.max() - MEANS - BETA, 0.0)
    clients = np.array([joined(p) for p in phases])[:, np.newaxis]
    often = np.array([pulls(p) for p in phases])[:, np.newaxis]
    return np.asarray((clients * (often * (played @ above) + played.any(axis=-1))).sum(axis=0))


PUBLISHED = {"10": (126_728.0, 16_287.0), "2^(p-1)": (21_992.0, 1_863.0)}
SCHEDULES: dict[str, Callable[[int], int]] = {"10": lambda _: 10, "2^(p-1)": lambda p: 2 ** (p - 1)}


@pytest.mark.parametrize("pulls", [pytest.param("10", marks=pytest.mark.slow), "2^(p-1)"])
def test_its_published_regret_is_reproduced(pulls: str) -> None:
    found = beta_regret(FedMomUcb(liars=0.2, pulls=pulls), SCHEDULES[pulls], lambda _: 89, LIES)
    mean, deviation = PUBLISHED[pulls]
    error = math.hypot(found.std(ddof=1), deviation) / math.sqrt(GAMES)
    assert abs(found.mean() - mean) < 4 * error


def test_the_rules_for_liars_have_at_least_five_times_less() -> None:
    for estimator in (fb.Trimmed(liars=0.2, shape="normal"), fb.Median(liars=0.2)):
        ours = fb.Fed2Ucb(
            pulls=100,
            admissions=20,
            radius=fb.CertifiedRadius(delta=0.001),
            estimator=estimator,
        )
        attack = fb.Attack(share=0.2, name="stall", within=0.17)
        found = beta_regret(ours, lambda _: 100, lambda p: 20 * p, attack)
        assert 5 * found.mean() < min(mean for mean, _ in PUBLISHED.values())


def test_its_floor_is_an_order_of_magnitude_higher() -> None:
    """ω/2 is what its widths keep however often clients pull: 3.47 σ_c of each arm at λ = 0.2."""
    of_each_arm = (BETA - 0.05) / 4 / 0.01
    assert of_each_arm == pytest.approx(3.47, abs=0.01)
    assert of_each_arm > 10 * fb.Median(liars=0.2).floor(1.0) / math.sqrt(2)


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"liars": 0.5}, "liars: 0.5 is not a share below 0.5"),
        ({"liars": 0.1, "delta": 2}, "delta: 2 is not a number between 0 and 1"),
    ],
)
def test_what_it_cannot_be_is_refused(keys: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        FedMomUcb(**keys)


def test_it_promises_nothing() -> None:
    assert FedMomUcb(liars=0.2).rule(BELIEFS).guarantee().error is None
