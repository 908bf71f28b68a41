"""A file of parts as somebody who uses the package would write it; tests copy it somewhere else."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

import fedbandits as fb
from fedbandits.problems.laws import NoiseLaw
from fedbandits.problems.problem import LocalModels
from fedbandits.rules.radii import Radius

FACTOR = 0.5


@fb.RADII.register
@dataclass(frozen=True, kw_only=True)
class Scaled(fb.JointRadius):
    """The joint radius times a factor, without any proof."""

    rule: ClassVar[str] = "scaled"

    factor: float = FACTOR

    def half_widths(self, known: Any) -> Any:
        return self.factor * fb.JointRadius.half_widths(self, known)


@fb.ALGORITHMS.register
@dataclass(frozen=True, kw_only=True)
class Bold:
    """Fed2-UCB that gives up after some phases."""

    name: ClassVar[str] = "bold"

    pulls: int
    phases: int = 3
    radius: Radius = field(default_factory=Scaled)

    def rule(self, beliefs: fb.Beliefs) -> Any:
        fed2 = fb.Fed2Ucb(pulls=self.pulls, admissions="2^p", radius=self.radius)
        return replace(fed2.rule(beliefs), last_phase=self.phases)


@fb.LAWS.register
@dataclass(frozen=True)
class Laplace:
    """Noise with heavier tails, drawn one by one."""

    law: ClassVar[str] = "laplace"
    sums_in_closed_form: ClassVar[bool] = False

    scale: float

    def proxy(self, means: Any) -> float:
        return 2.0 * self.scale

    def check_means(self, lowest: float, highest: float, where: str) -> None:
        pass

    def variates(self, rng: np.random.Generator, size: Any) -> Any:
        return rng.random(size)

    def observe(self, variates: Any, means: Any, cells: Any) -> Any:
        sides = variates - 0.5
        return means - self.scale * np.sign(sides) * np.log1p(-2 * np.abs(sides))

    def phase_sums(self, *_: Any) -> Any:
        raise NotImplementedError

    def phase_moments(self, *_: Any) -> Any:
        raise NotImplementedError


@fb.PROBLEMS.register
@dataclass(frozen=True, eq=False, kw_only=True)
class Ladder:
    """Means on a ladder, and two sorts of clients."""

    model: ClassVar[str] = "ladder"
    arms_are_independent: ClassVar[bool] = False

    rungs: int
    apart: float
    noise: NoiseLaw
    name: str = "problem"
    goal: str = "max"
    population: int | None = None

    @property
    def means(self) -> Any:
        return np.linspace(0.0, 1.0, self.rungs)

    @property
    def noise_proxy(self) -> float:
        return self.noise.proxy(self.means)

    @property
    def spread_proxy(self) -> float:
        return self.apart

    def sampler(self, sources: Any) -> Any:
        return _TwoSorts(self, sources(0))

    def at_server(self) -> Any:
        return fb.Exact(local_means=[self.means], noise=self.noise, name=self.name)


class _TwoSorts:
    def __init__(self, problem: Ladder, rng: np.random.Generator) -> None:
        self.problem, self.rng = problem, rng

    def draw(self, n_clients: int, arms: Any = None) -> LocalModels:
        sides = self.rng.choice([-self.problem.apart, self.problem.apart], n_clients)
        return LocalModels(self.problem.means[:, np.newaxis] + sides)
