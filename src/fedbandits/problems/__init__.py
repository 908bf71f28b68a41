"""Problems: what is played, and what is true of it."""

from fedbandits.problems.approximate import Approximate as Approximate
from fedbandits.problems.cognitive_radio import Channel as Channel
from fedbandits.problems.cognitive_radio import CognitiveRadio as CognitiveRadio
from fedbandits.problems.cognitive_radio import Transmitter as Transmitter
from fedbandits.problems.drifting import Drifting as Drifting
from fedbandits.problems.exact import Exact as Exact
from fedbandits.problems.laws import LAWS as LAWS
from fedbandits.problems.laws import Bernoulli as Bernoulli
from fedbandits.problems.laws import Beta as Beta
from fedbandits.problems.laws import Empirical as Empirical
from fedbandits.problems.laws import Gaussian as Gaussian
from fedbandits.problems.laws import NoiseLaw as NoiseLaw
from fedbandits.problems.laws import SpreadLaw as SpreadLaw
from fedbandits.problems.laws import Uniform as Uniform
from fedbandits.problems.problem import LocalModels as LocalModels
from fedbandits.problems.problem import PlainProblem as PlainProblem
from fedbandits.problems.problem import Problem as Problem
from fedbandits.problems.problem import best_arm as best_arm
from fedbandits.problems.problem import gap as gap
from fedbandits.registry import Registry

PROBLEMS: Registry[Problem] = Registry(
    "a model",
    group="fedbandits.problems",
    key="model",
    roles=(Problem,),
    parent="PlainProblem of fedbandits.problems",
    built_in=(Approximate, Exact, CognitiveRadio, Drifting),
)
"""The problems by their models' names in experiment files."""
