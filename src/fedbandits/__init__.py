"""Find the best of K options across many clients whose data never leaves them.

The names here are the Python interface; each is imported when it is first used.

Examples
--------
>>> import fedbandits as fb
>>> problem = fb.Approximate(means=[0.6, 0.9], noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.1))
>>> run = fb.simulate(problem, fb.Fed2Ucb(pulls=20, admissions="2^p"), horizon=10_000, seed=1)
>>> run.games.winner.mean()
np.float64(1.0)
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedbandits.errors import AssumptionWarning as AssumptionWarning
    from fedbandits.errors import FedbanditsError as FedbanditsError
    from fedbandits.errors import InputError as InputError
    from fedbandits.errors import ProtocolError as ProtocolError
    from fedbandits.experiments.experiment import Experiment as Experiment
    from fedbandits.experiments.files import load_experiment as load_experiment
    from fedbandits.experiments.files import read_experiment as read_experiment
    from fedbandits.experiments.results import Results as Results
    from fedbandits.federation.audit_file import AuditFile as AuditFile
    from fedbandits.loopback import play as play
    from fedbandits.planning.plan import Plan as Plan
    from fedbandits.planning.plan import plan as plan
    from fedbandits.privacy.policy import Privacy as Privacy
    from fedbandits.privacy.policy import Quantize as Quantize
    from fedbandits.problems import LAWS as LAWS
    from fedbandits.problems import PROBLEMS as PROBLEMS
    from fedbandits.problems import Approximate as Approximate
    from fedbandits.problems import Bernoulli as Bernoulli
    from fedbandits.problems import Beta as Beta
    from fedbandits.problems import Channel as Channel
    from fedbandits.problems import CognitiveRadio as CognitiveRadio
    from fedbandits.problems import Empirical as Empirical
    from fedbandits.problems import Exact as Exact
    from fedbandits.problems import Gaussian as Gaussian
    from fedbandits.problems import Transmitter as Transmitter
    from fedbandits.problems import Uniform as Uniform
    from fedbandits.problems import best_arm as best_arm
    from fedbandits.problems import gap as gap
    from fedbandits.protocol import Client as Client
    from fedbandits.protocol import Server as Server
    from fedbandits.rules.algorithms import ALGORITHMS as ALGORITHMS
    from fedbandits.rules.algorithms import AuthorsBaseline as AuthorsBaseline
    from fedbandits.rules.algorithms import Centralized as Centralized
    from fedbandits.rules.algorithms import Fed1Ucb as Fed1Ucb
    from fedbandits.rules.algorithms import Fed2Ucb as Fed2Ucb
    from fedbandits.rules.algorithms import FedIndex as FedIndex
    from fedbandits.rules.algorithms import FedTs as FedTs
    from fedbandits.rules.algorithms import ImprovedUcb as ImprovedUcb
    from fedbandits.rules.algorithms import LocalUcb as LocalUcb
    from fedbandits.rules.algorithms import Ucb1 as Ucb1
    from fedbandits.rules.beliefs import Beliefs as Beliefs
    from fedbandits.rules.estimators import ESTIMATORS as ESTIMATORS
    from fedbandits.rules.estimators import Median as Median
    from fedbandits.rules.estimators import Trimmed as Trimmed
    from fedbandits.rules.radii import RADII as RADII
    from fedbandits.rules.radii import BernsteinRadius as BernsteinRadius
    from fedbandits.rules.radii import CertifiedRadius as CertifiedRadius
    from fedbandits.rules.radii import ChernoffRadius as ChernoffRadius
    from fedbandits.rules.radii import JointRadius as JointRadius
    from fedbandits.rules.radii import PairedTRadius as PairedTRadius
    from fedbandits.rules.radii import PairwiseRadius as PairwiseRadius
    from fedbandits.rules.radii import PaperRadius as PaperRadius
    from fedbandits.rules.schedules import Schedule as Schedule
    from fedbandits.simulation import Assume as Assume
    from fedbandits.simulation import Attack as Attack
    from fedbandits.simulation import Simulation as Simulation
    from fedbandits.simulation import Variant as Variant
    from fedbandits.simulation import simulate as simulate
    from fedbandits.simulation import simulate_all as simulate_all
    from fedbandits.sweeps.results import SweepResults as SweepResults
    from fedbandits.sweeps.run import run_sweep as run_sweep
    from fedbandits.sweeps.sweep import Sweep as Sweep
    from fedbandits.sweeps.sweep import load_sweep as load_sweep
    from fedbandits.sweeps.sweep import read_sweep as read_sweep

# Where the names are defined.
_HOMES = {
    "fedbandits.errors": "AssumptionWarning FedbanditsError InputError ProtocolError",
    "fedbandits.experiments.experiment": "Experiment",
    "fedbandits.experiments.files": "load_experiment read_experiment",
    "fedbandits.experiments.results": "Results",
    "fedbandits.federation.audit_file": "AuditFile",
    "fedbandits.loopback": "play",
    "fedbandits.planning.plan": "Plan plan",
    "fedbandits.privacy.policy": "Privacy Quantize",
    "fedbandits.problems": (
        "LAWS PROBLEMS Approximate Bernoulli Beta Channel CognitiveRadio Empirical Exact "
        "Gaussian Transmitter Uniform best_arm gap"
    ),
    "fedbandits.protocol": "Client Server",
    "fedbandits.rules.algorithms": (
        "ALGORITHMS AuthorsBaseline Centralized Fed1Ucb Fed2Ucb FedIndex FedTs ImprovedUcb "
        "LocalUcb Ucb1"
    ),
    "fedbandits.rules.estimators": "ESTIMATORS Median Trimmed",
    "fedbandits.rules.beliefs": "Beliefs",
    "fedbandits.rules.radii": (
        "RADII BernsteinRadius CertifiedRadius ChernoffRadius JointRadius PairedTRadius "
        "PairwiseRadius PaperRadius"
    ),
    "fedbandits.rules.schedules": "Schedule",
    "fedbandits.simulation": "Assume Attack Simulation Variant simulate simulate_all",
    "fedbandits.sweeps.results": "SweepResults",
    "fedbandits.sweeps.run": "run_sweep",
    "fedbandits.sweeps.sweep": "Sweep load_sweep read_sweep",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__version__ = version("fedbandits")
__all__ = list(_HOME_OF)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import fedbandits` costs nothing."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'fedbandits' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
