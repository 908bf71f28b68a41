"""Problems: what is played, and what is true of it."""

from fedbandits.problems.approximate import Approximate
from fedbandits.problems.cognitive_radio import Channel, CognitiveRadio, Transmitter
from fedbandits.problems.exact import Exact
from fedbandits.problems.laws import (
    Bernoulli,
    Beta,
    Empirical,
    Gaussian,
    NoiseLaw,
    SpreadLaw,
    Uniform,
)
from fedbandits.problems.problem import LocalModels, PlainProblem, Problem, best_arm, gap

__all__ = [
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
