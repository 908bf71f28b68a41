"""A file of parts as somebody who uses the package would write it; tests copy it somewhere else."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

import fedbandits as fb
from fedbandits.problems import LocalModels, NoiseLaw, PlainProblem
from fedbandits.rules.algorithms import Algorithm
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.beliefs import Goal
from fedbandits.rules.estimators import Estimator, Plain
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
class Bold(Algorithm):
    """Fed2-UCB that gives up after some phases."""

    name: ClassVar[str] = "bold"
    all_clients_from_start: ClassVar[bool] = False
    uses_variances: ClassVar[bool] = True

    pulls: int
    phases: int = 3
    radius: Radius = field(default_factory=Scaled)
    estimator: Estimator | None = None

    def rule(self, beliefs: fb.Beliefs) -> Any:
        fed2 = fb.Fed2Ucb(
            pulls=self.pulls, admissions="2^p", radius=self.radius, estimator=self.estimator
        )
        return replace(fed2.rule(beliefs), last_phase=self.phases)


@fb.ESTIMATORS.register
@dataclass(frozen=True, kw_only=True)
class Median(Estimator):
    """The median of the means of clients, with the variance of their average."""

    name: ClassVar[str] = "middle"
    needs_each_client: ClassVar[bool] = True

    def estimate(self, reports: Any, sampling: Any) -> Any:
        plain = Plain().estimate(reports, sampling)
        return replace(plain, values=np.nanmedian(reports.each_mean(), axis=-1))


@fb.LAWS.register
@dataclass(frozen=True)
class Laplace(NoiseLaw):
    """Noise with heavier tails, drawn one by one."""

    law: ClassVar[str] = "laplace"

    scale: float

    def proxy(self, means: Any) -> float:
        return 2.0 * self.scale

    def variates(self, rng: np.random.Generator, size: Any) -> Any:
        return rng.random(size)

    def observe(self, variates: Any, means: Any, cells: Any) -> Any:
        sides = variates - 0.5
        return means - self.scale * np.sign(sides) * np.log1p(-2 * np.abs(sides))


@fb.PROBLEMS.register
@dataclass(frozen=True, eq=False, kw_only=True)
class Ladder(PlainProblem):
    """Means on a ladder, and two sorts of clients."""

    model: ClassVar[str] = "ladder"
    goal: ClassVar[Goal] = "max"
    population: ClassVar[int | None] = None

    rungs: FloatArray
    apart: float
    noise: NoiseLaw
    name: str = "problem"

    @property
    def means(self) -> FloatArray:
        return np.cumsum(self.rungs)

    @property
    def spread_proxy(self) -> float:
        return self.apart

    def sampler(self, sources: Any) -> Any:
        return _TwoSorts(self, sources(0))


class _TwoSorts:
    def __init__(self, problem: Ladder, rng: np.random.Generator) -> None:
        self.problem, self.rng = problem, rng

    def draw(self, n_clients: int, arms: Any = None) -> LocalModels:
        sides = self.rng.choice([-self.problem.apart, self.problem.apart], n_clients)
        return LocalModels(self.problem.means[:, np.newaxis] + sides)
