"""Policies, assignments and clients that tests of protection share."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import settings

import fedbandits as fb
from fedbandits.privacy.mechanisms import Mechanism
from fedbandits.privacy.policy import Privacy, Quantize
from fedbandits.privacy.sampling import Noise, NoiseKind, seeded_noise
from fedbandits.protocol import (
    Assignment,
    Client,
    Header,
    Refusal,
    Refused,
    Release,
    arms_hash,
)
from fedbandits.rules.algorithms import Fed1Ucb
from fedbandits.rules.arrays import IntArray
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.phased import PhasedRule

# The same examples in every run; one that fails is printed with how to repeat it.
repeatable = settings(deadline=None, derandomize=True, print_blob=True, max_examples=100)

SEED = 11
HEADER = Header(run="run", epoch=1, arms=arms_hash(["0", "1", "2"]))

NEAREST = Privacy(range=(0, 1), quantize=Quantize(bits=8, rounding="nearest"))
STOCHASTIC = Privacy(range=(0, 1), quantize=Quantize(bits=8))
RADIUS = Privacy(range=(0, 1), quantize=Quantize(bits="radius"))
GAUSSIAN = Privacy(range=(0, 1), noise="gaussian", epsilon=2.0, delta=1e-6)
LAPLACE = Privacy(range=(0, 1), noise="laplace", epsilon=1.0)


def policy(**keys: Any) -> Privacy:
    """Return a policy with Laplace noise, but for these keys."""
    return Privacy(**{"range": (0, 1), "noise": "laplace", **keys})


def mechanism_of(privacy: Privacy | None, pulls: int, arms: int) -> Mechanism | None:
    return None if privacy is None else privacy.mechanism(pulls, arms)


def assigned(
    privacy: Privacy | None,
    pulls: tuple[int, ...] = (20, 20, 20),
    *,
    phase: int = 1,
    **release: Any,
) -> Assignment:
    """Return an assignment that asks for the protection of a policy, but for these changes."""
    active = [n for n in pulls if n]
    asked = Release(**{"mechanism": mechanism_of(privacy, min(active), len(active)), **release})
    return Assignment(header=HEADER, phase=phase, pulls=pulls, release=asked)


def seeded(seed: int = SEED) -> Noise:
    return seeded_noise(np.random.default_rng(seed))


class CountingNoise:
    """Noise that counts how often it was drawn."""

    def __init__(self) -> None:
        self.calls = 0
        self._drawn = seeded()

    def __call__(self, kind: NoiseKind, scale: float, size: int) -> IntArray:
        self.calls += 1
        return self._drawn(kind, scale, size)


class CountingPull:
    """Observations that are all 0.3, and count how often they were asked for."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, arm: int, n: int) -> list[float]:
        self.calls += 1
        return [0.3] * n


# Doubles that nothing computes by chance: in [0, 1], and outside.
INSIDE = [0.7320508075688772, 0.14142135623730951, 0.31415926535897931, 0.57721566490153287]
OUTSIDE = [-7.6180339887498949, 123456.78901234567, 1.0000000317811, -0.00271828182845904]
MARKERS = [*INSIDE, *OUTSIDE]


def secret(arm: int, n: int) -> list[float]:
    """Return markers, other ones for every arm."""
    return [MARKERS[(arm + i) % len(MARKERS)] for i in range(n)]


NOBODY = Refusal(header=HEADER, phase=1, client="a", why=Refused.BUDGET)


USER = policy(epsilon=3.0, level="user", releases=3)


def fed1(*, clients: int = 2, pulls: str = "20", n_arms: int = 3, **beliefs: Any) -> PhasedRule:
    """Return Fed1-UCB that is told of so much noise that it decides nothing."""
    told: dict[str, Any] = {"horizon": 100_000, "noise": 10.0, "spread": 0.0, **beliefs}
    radius = told.pop("radius", fb.PaperRadius())
    return Fed1Ucb(pulls=pulls, clients=clients, radius=radius).rule(Beliefs(n_arms=n_arms, **told))


FALLING = "max(10, 100 - 20*p)"  # 80, 60, 40, 20, 10 pulls
# One observation of n spends 50/n: phase 2 is the last that 1 allows.
GENEROUS, STRICT = policy(scale=1 / 50, epsilon=10.0), policy(scale=1 / 50, epsilon=1.0)


def client_of(number: int, privacy: Privacy | None) -> Client:
    rng = np.random.default_rng([SEED, number])
    return Client(
        f"client {number}",
        lambda arm, n: rng.binomial(1, 0.3 + 0.1 * arm, n).astype(np.float64),
        privacy=privacy,
        noise=seeded_noise(np.random.default_rng([SEED, 1000 + number])),
        rng=np.random.default_rng([SEED, 2000 + number]),
    )


THREE_BITS = Privacy(range=(0, 1), quantize=Quantize(bits=3))


BERNOULLI = fb.Approximate(means=[0.3, 0.7], noise=fb.Bernoulli(), spread=fb.Beta(0.05))
GAME = fb.Fed2Ucb(pulls=30, admissions="p", radius=fb.CertifiedRadius(delta=0.1))
