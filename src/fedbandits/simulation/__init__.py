"""The simulator: the rules driven over many replications at once."""

from fedbandits.simulation.fidelities import Fidelity
from fedbandits.simulation.game import Outcome
from fedbandits.simulation.simulator import (
    Assume,
    Simulation,
    Variant,
    build_rules,
    simulate,
    simulate_all,
)

__all__ = [
    "Assume",
    "Fidelity",
    "Outcome",
    "Simulation",
    "Variant",
    "build_rules",
    "simulate",
    "simulate_all",
]
