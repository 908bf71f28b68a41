"""The tail of one comparison where clients protect their means."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats

import fedbandits as fb
from fedbandits.privacy.mechanisms import noise_error
from fedbandits.rules.algorithms import Algorithm
from fedbandits.rules.distortion import (
    DistortionSums,
    sub_gamma_width,
)
from fedbandits.rules.phased import Weights
from fedbandits.rules.radii import Radius
from null_games import (
    NOISE,
    SPREAD,
    equal_arms,
    exceeds,
    standard_errors,
)
from protected_means import _LENGTH, WIDE, claim, claim_of_rounding, noised, rounded
from rule_calls import width_of

# The tail of one comparison ----------------------------------------------------------------------
#
# With normal outcomes and normal noise everything is known: after one phase of three clients an
# estimate has the variance σ²/3n + σ_c²/3 + s²/3, and arm 0 of two equal arms goes when the other
# is ahead by the width.

SCALE = 0.6
NORMAL_NOISE = noised("gaussian", SCALE, WIDE)
OF_NOISE = SCALE**2 / 3
REPLICATIONS = {"cohorts": 60_000, "clients": 8_000}


def of_data(pulls: int) -> float:
    return NOISE**2 / (3 * pulls) + SPREAD**2 / 3


@dataclass(frozen=True)
class Tail:
    """A game of one phase with Gaussian noise, and the width that it should have."""

    name: str
    algorithm: Algorithm
    width: float
    pulls: int = 4
    privacy: fb.Privacy = NORMAL_NOISE
    horizon: int = 1_000

    @property
    def chance(self) -> float:
        deviation = math.sqrt(2 * (of_data(self.pulls) + OF_NOISE))
        return float(stats.norm.sf(self.width / deviation))


def certified_tail(
    name: str, *, delta: float = 0.5, privacy: fb.Privacy = NORMAL_NOISE, **options: Any
) -> Tail:
    log = math.log(math.pi**2 / (6 * delta))
    # However arms depend on each other, noise is independent of everything.
    difference = (4 if options.get("dependence") == "any" else 2) * of_data(4) + 2 * OF_NOISE
    algorithm = fb.Fed2Ucb(pulls=4, admissions=3, radius=fb.CertifiedRadius(delta=delta), **options)
    width = math.sqrt(2 * difference * log)
    return Tail(name, algorithm, width, privacy=privacy)


def with_rho(sensitivity: float, **level: Any) -> fb.Privacy:
    """Return a policy whose noise has the scale when a release has this sensitivity: Δ/√(2ρ)."""
    rho = (sensitivity / SCALE) ** 2 / 2 * level.get("releases", 1)
    return fb.Privacy(range=WIDE, noise="gaussian", rho=rho, min_pulls=1, **level)


def _short(name: str, radius: Radius, log: float, factor: float) -> Tail:
    """Return a game of one pull an arm and two slots, where log T is small."""
    width = math.sqrt(factor * (of_data(1) + OF_NOISE) * log)
    return Tail(name, fb.Fed2Ucb(pulls=1, admissions=3, radius=radius), width, 1, horizon=2)


_LOG8 = math.log(8)
TAILS = [
    certified_tail("certified, δ = 0.5"),
    certified_tail("certified, δ = 0.2", delta=0.2),
    certified_tail("certified, any dependence", dependence="any"),
    certified_tail("certified, inverse-variance", weights="inverse-variance"),
    certified_tail("an event", privacy=with_rho(_LENGTH / 4)),
    certified_tail(
        "a person with 3 observations",
        privacy=with_rho(3 * _LENGTH / 4, level="person", observations=3),
    ),
    certified_tail("a user", privacy=with_rho(math.sqrt(2) * _LENGTH, level="user", releases=5)),
    _short("pairwise", fb.PairwiseRadius(), math.log(2), 12.0),
    _short("joint", fb.JointRadius(), math.log(2), 24.0),
    Tail(
        "paper, tuned",
        fb.Fed2Ucb(pulls=4, admissions=3, radius=fb.PaperRadius(arm=0.5, client=0.1)),
        2 * math.sqrt(0.5 * (NOISE**2 / 12 + OF_NOISE) * _LOG8)
        + 2 * math.sqrt(0.1 * SPREAD**2 / 3 * _LOG8),
        horizon=8,
    ),
]
IN_CLIENTS = ("certified, δ = 0.5", "certified, δ = 0.2", "a user")
RUNS = [(tail, "cohorts") for tail in TAILS] + [
    (tail, "clients") for tail in TAILS if tail.name in IN_CLIENTS
]


def off_by(tail: Tail, fidelity: str) -> float:
    """Return how many standard errors the rate of losses in phase 1 is off its Gaussian value."""
    replications = REPLICATIONS[fidelity]
    run = fb.simulate(
        equal_arms(),
        tail.algorithm,
        horizon=tail.horizon,
        replications=replications,
        seed=201,
        fidelity=fidelity,
        privacy=tail.privacy,
        max_phases=1,
        workers=1,
        grid_points=1,
    )
    lost = int((run.games.winner == 1).sum())
    return standard_errors(lost, replications, tail.chance)


@pytest.mark.parametrize(
    ("tail", "fidelity"), RUNS, ids=[f"{tail.name}-{fidelity}" for tail, fidelity in RUNS]
)
def test_with_gaussian_noise_the_tail_in_phase_1_is_gaussian(tail: Tail, fidelity: str) -> None:
    assert tail.chance * REPLICATIONS[fidelity] > 100
    assert abs(off_by(tail, fidelity)) < 4


PLANTED = [(tail, how) for tail, how in RUNS if how == "cohorts" or tail.name == IN_CLIENTS[0]]


@pytest.mark.parametrize("by", [0.0, 1 / math.sqrt(2), math.sqrt(2)])
@pytest.mark.parametrize(
    ("tail", "fidelity"), PLANTED, ids=[f"{tail.name}-{fidelity}" for tail, fidelity in PLANTED]
)
def test_noise_that_is_forgotten_or_off_by_the_root_of_2_in_a_width_is_found_out(
    tail: Tail, fidelity: str, by: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(monkeypatch, by)
    assert math.copysign(1.0, 1.0 - by) * off_by(tail, fidelity) > 4


# Laplace noise of one client who is sure of everything else: a difference of two has the tail
# e^-x (1/2 + x/4) at x scales, for x > 0.


def lost_to_laplace(delta: float, replications: int, seed: int = 202) -> int:
    """Return how often arm 0 goes in the one phase of such a game."""
    problem = fb.Approximate(means=[0.5, 0.5], noise=fb.Gaussian(1e-6), spread=fb.Gaussian(1e-6))
    run = fb.simulate(
        problem,
        fb.Fed2Ucb(pulls=1, admissions=1, radius=fb.CertifiedRadius(delta=delta)),
        horizon=1_000,
        replications=replications,
        seed=seed,
        fidelity="clients",
        privacy=noised("laplace", SCALE),
        max_phases=1,
        workers=1,
        grid_points=1,
    )
    return int((run.games.winner == 1).sum())


@pytest.mark.parametrize("delta", [0.5, 0.2])
def test_the_tail_of_laplace_noise_is_its_own_and_below_its_level(
    delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    replications = 10_000
    log = math.log(math.pi**2 / (6 * delta))
    # Two estimates of variance 2β² each: √(2 · 4β² · L) + βL.
    x = math.sqrt(8 * log) + log
    chance = math.exp(-x) * (1 / 2 + x / 4)
    assert chance < math.exp(-log)
    assert abs(standard_errors(lost_to_laplace(delta, replications), replications, chance)) < 4
    for by in (1 / math.sqrt(2), math.sqrt(2)) if delta == 0.5 else ():
        with monkeypatch.context() as patch:
            claim(patch, by)
            off = standard_errors(lost_to_laplace(delta, replications), replications, chance)
        assert (1 - by) * off > 0
        assert abs(off) > 4


@pytest.mark.parametrize("clients", [1, 3])
def test_laplace_noise_is_found_out_if_it_is_taken_for_normal(clients: int) -> None:
    """At small levels a tail that falls like e^-x needs more than the root of its variance."""
    rng = np.random.default_rng(203)
    games, delta = 400_000, 2e-5
    log = math.log(math.pi**2 / (6 * delta))
    ahead = rng.laplace(0.0, 1.0, (games, clients)) - rng.laplace(0.0, 1.0, (games, clients))
    error = noise_error("laplace", np.full(clients, 1.0))
    of_estimate = (
        DistortionSums.nothing((clients,)).released(1, error).over(1).averaged(np.ones(clients))
    )
    normal, honest = (
        float(sub_gamma_width(2 * of_estimate.variance, scale, log))
        for scale in (np.zeros(()), of_estimate.scale)
    )
    behind = ahead.mean(axis=-1)
    assert not exceeds(int((behind >= honest).sum()), games, math.exp(-log))
    # With three of them it would take still smaller levels to be seen.
    assert exceeds(int((behind >= normal).sum()), games, math.exp(-log)) == (clients == 1)


# One bit, stochastically: whatever clients have seen of arms with mean 1/2, each sends a fair coin.
# Over 30 clients the difference of two estimates is that of 60 coins from half, over 30.


def lost_to_coins(delta: float, replications: int) -> int:
    """Return how often arm 0 goes in the one phase of such a game."""
    problem = fb.Approximate(means=[0.5, 0.5], noise=fb.Bernoulli(), spread=fb.Beta(0.1))
    run = fb.simulate(
        problem,
        fb.Fed2Ucb(pulls=100, admissions=30, radius=fb.CertifiedRadius(delta=delta)),
        horizon=1_000,
        replications=replications,
        seed=204,
        privacy=rounded(1),
        max_phases=1,
        workers=1,
        grid_points=1,
    )
    return int((run.games.winner == 1).sum())


@pytest.mark.parametrize("delta", [0.5, 0.2])
def test_the_tail_of_stochastic_rounding_is_that_of_coins_and_below_its_level(
    delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    replications = 4_000
    log = math.log(math.pi**2 / (6 * delta))
    # σ²/3000 + σ_c²/30 of the observations, and h²/4 with h = 1 for each of 30 clients.
    width = math.sqrt(4 * (0.25 / 3_000 + 0.01 / 30 + 0.25 / 30) * log)
    chance = float(stats.binom.sf(math.ceil(30 + 30 * width) - 1, 60, 0.5))
    assert chance < math.exp(-log)
    assert abs(standard_errors(lost_to_coins(delta, replications), replications, chance)) < 4
    for by in (0.0, 0.5, 2.0) if delta == 0.5 else ():
        with monkeypatch.context() as patch:
            claim_of_rounding(patch, variance=by)
            off = standard_errors(lost_to_coins(delta, replications), replications, chance)
        assert math.copysign(1.0, 1.0 - by) * off > 4


# Later phases: with pulls that grow and a scale that follows from them, n_q and s_q both differ
# from phase to phase, and clients who came later have released less.

_GROWING = "2 + 2*p"


def variances_by_hand(weights: Weights, phases: int) -> tuple[list[float], list[float]]:
    """Return the variance of an estimate after every phase, and the part of it that is noise."""
    rho = (_LENGTH / 4 / SCALE) ** 2 / 2
    totals: list[float] = []
    parts: list[float] = []
    for p in range(1, phases + 1):
        of_clients, of_noise, sizes = [], [], []
        for q in range(1, p + 1):
            pulls = [2 + 2 * r for r in range(q, p + 1)]
            n = sum(pulls)
            scales = [_LENGTH / f / math.sqrt(2 * rho) for f in pulls]
            noise = sum((s * f / n) ** 2 for s, f in zip(scales, pulls, strict=True))
            of_noise.append(noise)
            of_clients.append(NOISE**2 / n + SPREAD**2 + noise)
            sizes.append(2**q)
        own = [1 / v if weights == "inverse-variance" else 1.0 for v in of_clients]
        total = sum(g * w for g, w in zip(sizes, own, strict=True))
        for found, each in ((totals, of_clients), (parts, of_noise)):
            found.append(
                sum(g * (w / total) ** 2 * v for g, w, v in zip(sizes, own, each, strict=True))
            )
    return totals, parts


@pytest.mark.parametrize("weights", ["equal", "inverse-variance"])
def test_variances_are_as_by_hand_in_later_phases_too(weights: Weights) -> None:
    phases, replications = 4, 30_000
    run = fb.simulate(
        equal_arms(),
        fb.Fed2Ucb(
            pulls=_GROWING, admissions="2^p", radius=fb.PaperRadius(arm=1e9), weights=weights
        ),
        horizon=10_000,
        replications=replications,
        seed=205,
        fidelity="cohorts",
        privacy=with_rho(_LENGTH / 4),
        max_phases=phases,
        workers=1,
        grid_points=1,
        trace=True,
    )
    assert run.games.trace is not None
    totals, parts = variances_by_hand(weights, phases)
    beliefs = fb.Beliefs(n_arms=2, horizon=10_000, noise=NOISE, spread=SPREAD)
    radius = fb.CertifiedRadius(delta=0.1)
    rule = fb.Fed2Ucb(pulls=_GROWING, admissions="2^p", radius=radius, weights=weights).rule(
        beliefs
    )
    sums = DistortionSums.nothing((0,))
    counts = np.zeros(0)
    privacy = with_rho(_LENGTH / 4)
    for p, total in enumerate(totals, start=1):
        sums, counts = sums.admitted(1), np.append(counts, 0.0) + 2 + 2 * p
        scale = float(privacy.noise_scale(2 + 2 * p, 2))
        sums = sums.released(2 + 2 * p, noise_error("gaussian", scale))
        # Both arms; the standard error of a variance of normal values is √(2/n) of it.
        sample = run.games.trace[p - 1].var(axis=0, ddof=1).mean()
        assert abs(sample / total - 1) < 4 * math.sqrt(2 / (2 * replications))
        assert parts[p - 1] > 0.1 * total
        width = width_of(
            rule,
            phase=p,
            counts=counts,
            sizes=[2**q for q in range(1, p + 1)],
            distortion=sums.over(counts),
        )
        log = math.log(math.pi**2 * p**2 / 0.6)
        assert 2 * float(width) == pytest.approx(math.sqrt(4 * total * log), rel=1e-4)
