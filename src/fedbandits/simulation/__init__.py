"""The simulator: the rules driven over many replications at once."""

from fedbandits.simulation.attacks import Attack as Attack
from fedbandits.simulation.fidelities import Fidelity as Fidelity
from fedbandits.simulation.game import PlayedGames as PlayedGames
from fedbandits.simulation.simulator import Simulation as Simulation
from fedbandits.simulation.simulator import simulate as simulate
from fedbandits.simulation.simulator import simulate_all as simulate_all
from fedbandits.simulation.variants import Assume as Assume
from fedbandits.simulation.variants import Variant as Variant
from fedbandits.simulation.variants import build_rules as build_rules
