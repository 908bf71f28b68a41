"""Variants by the problem that they play: totals of different problems do not compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedbandits.experiments.results import Results
from fedbandits.problems.problem import Problem
from fedbandits.simulation.simulator import Simulation


@dataclass(frozen=True, slots=True)
class ProblemGroup:
    """A problem, and the simulations of the variants that play it."""

    key: str
    problem: Problem
    simulations: list[Simulation]


def problem_groups(results: Results, spec: Mapping[str, Any]) -> list[ProblemGroup]:
    """Return the different problems under their keys in the spec."""
    groups: dict[str, ProblemGroup] = {}
    for simulation, described in zip(results.simulations, spec["variants"], strict=True):
        key = described.get("problem", "problem")
        group = groups.setdefault(key, ProblemGroup(key, simulation.variant.problem, []))
        group.simulations.append(simulation)
    return list(groups.values())
