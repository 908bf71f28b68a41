"""Algorithms with what they need given, and what is asked of every one of them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from fedbandits.rules.algorithms import (
    ALGORITHMS,
    Algorithm,
)
from fedbandits.rules.arrays import BoolArray, IntArray
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.phased import PhasedRule
from fedbandits.rules.plans import State

modest = settings(deadline=None, derandomize=True, max_examples=150)
seeds = st.integers(0, 2**32 - 1)
every_algorithm = pytest.mark.parametrize("name", sorted(ALGORITHMS))
every_phased_algorithm = pytest.mark.parametrize(
    "name",
    ["fed2-ucb", "fed1-ucb", "fed-index", "centralized", "improved-ucb", "authors-baseline"],
)


def pulls_of(rule: PhasedRule, phase: int, active: BoolArray) -> IntArray:
    """Return what a phase pulls when these arms are left."""
    state = State(phase=phase, active=active, clients=0, slots_left=rule.slots)
    return rule.plan(state).pulls


GIVEN: dict[str, Any] = {"pulls": "10", "admissions": "2^p", "liars": 0.1}
BELIEFS = Beliefs(n_arms=4, horizon=5000, noise=0.5, spread=0.1, population=12)


def made(name: str) -> Algorithm:
    """Return an algorithm with its required parameters given and the others by default."""
    kind: Any = ALGORITHMS[name]
    required = [
        field.name
        for field in dataclasses.fields(kind)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    algorithm: Algorithm = kind(**{key: GIVEN[key] for key in required})
    return algorithm
