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
    from fedbandits.errors import (
        AssumptionWarning,
        FedbanditsError,
        InputError,
        ProtocolError,
    )
    from fedbandits.experiments.experiment import Experiment
    from fedbandits.experiments.files import load_experiment, read_experiment
    from fedbandits.experiments.results import Results
    from fedbandits.federation.audit_file import AuditFile
    from fedbandits.loopback import play
    from fedbandits.planning.plan import Plan, plan
    from fedbandits.privacy.policy import Privacy, Quantize
    from fedbandits.problems import (
        LAWS,
        PROBLEMS,
        Approximate,
        Bernoulli,
        Beta,
        Channel,
        CognitiveRadio,
        Empirical,
        Exact,
        Gaussian,
        Transmitter,
        Uniform,
        best_arm,
        gap,
    )
    from fedbandits.protocol import Client, Server
    from fedbandits.rules.algorithms import (
        ALGORITHMS,
        AuthorsBaseline,
        Centralized,
        Fed1Ucb,
        Fed2Ucb,
        FedIndex,
        FedTs,
        ImprovedUcb,
        LocalUcb,
        Ucb1,
    )
    from fedbandits.rules.beliefs import Beliefs
    from fedbandits.rules.estimators import ESTIMATORS
    from fedbandits.rules.radii import (
        RADII,
        BernsteinRadius,
        CertifiedRadius,
        ChernoffRadius,
        JointRadius,
        PairedTRadius,
        PairwiseRadius,
        PaperRadius,
    )
    from fedbandits.rules.schedules import Schedule
    from fedbandits.simulation import Assume, Simulation, Variant, simulate, simulate_all
    from fedbandits.sweeps.results import SweepResults
    from fedbandits.sweeps.run import run_sweep
    from fedbandits.sweeps.sweep import Sweep, load_sweep, read_sweep

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
    "fedbandits.rules.estimators": "ESTIMATORS",
    "fedbandits.rules.beliefs": "Beliefs",
    "fedbandits.rules.radii": (
        "RADII BernsteinRadius CertifiedRadius ChernoffRadius JointRadius PairedTRadius "
        "PairwiseRadius PaperRadius"
    ),
    "fedbandits.rules.schedules": "Schedule",
    "fedbandits.simulation": "Assume Simulation Variant simulate simulate_all",
    "fedbandits.sweeps.results": "SweepResults",
    "fedbandits.sweeps.run": "run_sweep",
    "fedbandits.sweeps.sweep": "Sweep load_sweep read_sweep",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__version__ = version("fedbandits")
__all__ = [
    "ALGORITHMS",
    "ESTIMATORS",
    "LAWS",
    "PROBLEMS",
    "RADII",
    "Approximate",
    "Assume",
    "AssumptionWarning",
    "AuditFile",
    "AuthorsBaseline",
    "Beliefs",
    "Bernoulli",
    "BernsteinRadius",
    "Beta",
    "Centralized",
    "CertifiedRadius",
    "Channel",
    "ChernoffRadius",
    "Client",
    "CognitiveRadio",
    "Empirical",
    "Exact",
    "Experiment",
    "Fed1Ucb",
    "Fed2Ucb",
    "FedIndex",
    "FedTs",
    "FedbanditsError",
    "Gaussian",
    "ImprovedUcb",
    "InputError",
    "JointRadius",
    "LocalUcb",
    "PairedTRadius",
    "PairwiseRadius",
    "PaperRadius",
    "Plan",
    "Privacy",
    "ProtocolError",
    "Quantize",
    "Results",
    "Schedule",
    "Server",
    "Simulation",
    "Sweep",
    "SweepResults",
    "Transmitter",
    "Ucb1",
    "Uniform",
    "Variant",
    "best_arm",
    "gap",
    "load_experiment",
    "load_sweep",
    "plan",
    "play",
    "read_experiment",
    "read_sweep",
    "run_sweep",
    "simulate",
    "simulate_all",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import fedbandits` costs nothing."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'fedbandits' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
