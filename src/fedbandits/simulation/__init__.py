"""The simulator: the rules driven over many replications at once."""

from fedbandits.simulation.attacks import Attack
from fedbandits.simulation.fidelities import Fidelity
from fedbandits.simulation.game import PlayedGames
from fedbandits.simulation.simulator import Simulation, simulate, simulate_all
from fedbandits.simulation.variants import Assume, Variant, build_rules

__all__ = [
    "Assume",
    "Attack",
    "Fidelity",
    "PlayedGames",
    "Simulation",
    "Variant",
    "build_rules",
    "simulate",
    "simulate_all",
]
