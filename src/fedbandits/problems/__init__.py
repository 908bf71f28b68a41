"""Problems: what is played, and what is true of it."""

from fedbandits.problems.approximate import Approximate
from fedbandits.problems.cognitive_radio import Channel, CognitiveRadio, Transmitter
from fedbandits.problems.exact import Exact
from fedbandits.problems.laws import (
    LAWS,
    Bernoulli,
    Beta,
    Empirical,
    Gaussian,
    NoiseLaw,
    SpreadLaw,
    Uniform,
)
from fedbandits.problems.problem import LocalModels, PlainProblem, Problem, best_arm, gap
from fedbandits.registry import Registry

PROBLEMS: Registry[Problem] = Registry(
    "a model",
    group="fedbandits.problems",
    key="model",
    roles=(Problem,),
    parent="PlainProblem of fedbandits.problems",
    built_in=(Approximate, Exact, CognitiveRadio),
)
"""The problems by their models' names in experiment files."""

__all__ = [
    "LAWS",
    "PROBLEMS",
    "Approximate",
    "Bernoulli",
    "Beta",
    "Channel",
    "CognitiveRadio",
    "Empirical",
    "Exact",
    "Gaussian",
    "LocalModels",
    "NoiseLaw",
    "PlainProblem",
    "Problem",
    "SpreadLaw",
    "Transmitter",
    "Uniform",
    "best_arm",
    "gap",
]
