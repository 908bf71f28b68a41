"""The cells of a sweep: one variant under one setting each, addressed by what it is made from.

Two cells with one address are the same games. Communication is paid for per message. If an
algorithm does not say that it may depend on what a message costs, that cost is no part of an
address: a sweep over C plays nothing twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy.typing as npt

from fedbandits.experiments.files import read_experiment
from fedbandits.experiments.fingerprint import code_of, hashed
from fedbandits.experiments.tables import outcome_columns
from fedbandits.simulation import build_rules, simulate_all
from fedbandits.simulation.fidelities import Fidelity
from fedbandits.simulation.variants import all_doubts
from fedbandits.sweeps.sweep import Sweep

Columns: TypeAlias = dict[str, npt.NDArray[Any]]
"""One array per measured quantity, with one entry per replication."""

# Played with this cost, communication regret counts messages.
_A_MESSAGE = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One variant under one setting.

    Parameters
    ----------
    setting, variant : int
        Their numbers.
    label : str
        Of the variant.
    problem : str
        The name of what it plays.
    address : str
        What its games are made from, as a hash.
    fidelity : Fidelity
        What is drawn.
    communication_cost : float
        C.
    played_cost : float
        The cost of a message in its games: C if what is played may depend on it, otherwise 1.
    group : tuple
        Horizon, replications and seed: what is played together has these in common.
    doubts : tuple of str
        Which assumptions of its rule's guarantee the problem does not keep.
    """

    setting: int
    variant: int
    label: str
    problem: str
    address: str
    fidelity: Fidelity
    communication_cost: float
    played_cost: float
    group: tuple[int | None, int, int]
    doubts: tuple[str, ...]

    @property
    def price(self) -> float:
        """What communication regret, as played, is multiplied by."""
        return 1.0 if self.played_cost == self.communication_cost else self.communication_cost


def cells_of(sweep: Sweep, number: int) -> Iterator[Cell]:
    """Yield the cells of a setting, or say what is wrong with it.

    Parameters
    ----------
    sweep : Sweep
        The sweep.
    number : int
        Of the setting.
    """
    experiment = sweep.experiment(number)
    with sweep.located(number):
        rules = build_rules(experiment.variants, experiment.horizon)
    tables = sweep.tables_of(number)
    built = zip(experiment.variants, rules, strict=True)
    for place, (variant, (rule, fidelity)) in enumerate(built):
        cost = variant.communication_cost if variant.algorithm.uses_cost else _A_MESSAGE
        spec = spec_of(tables, place, variant.problem.name, cost)
        code = code_of((variant.algorithm, variant.problem))
        yield Cell(
            setting=number,
            variant=place,
            label=variant.label,
            problem=variant.problem.name,
            address=address_of(spec, code),
            fidelity=fidelity,
            communication_cost=variant.communication_cost,
            played_cost=cost,
            group=(experiment.horizon, experiment.replications, experiment.seed),
            doubts=tuple(all_doubts(variant, rule)),
        )


def spec_of(tables: Mapping[str, Any], variant: int, problem: str, cost: float) -> dict[str, Any]:
    """Return the tables of a file that plays one variant alone.

    Parameters
    ----------
    tables : mapping
        Of the file in a setting.
    variant : int
        Its number.
    problem : str
        The name of its problem, which its random numbers are drawn by.
    cost : float
        Of a message.
    """
    played = {key: value for key, value in tables["variants"][variant].items() if key != "label"}
    named = tables["problem"] if "problem" in tables else tables["problems"][problem]
    # Regret is wanted at the end alone.
    spec: dict[str, Any] = {"title": "", "grid_points": 1, "problems": {problem: named}}
    for key in ("horizon", "replications", "seed"):
        if key in tables:
            spec[key] = tables[key]
    spec["variants"] = [{**played, "problem": problem, "communication_cost": cost}]
    return spec


def address_of(spec: Mapping[str, Any], code: Sequence[str]) -> str:
    """Return the hash of a spec, the versions and the sources: what its games are made from.

    Parameters
    ----------
    spec : mapping
        As `spec_of` has it.
    code : sequence of str
        Of others, as `code_of` has it.
    """
    text = json.dumps([spec, *code], sort_keys=True)
    return hashlib.sha256(f"{made_with()}:{text}".encode()).hexdigest()


@cache
def made_with() -> str:
    """Return the hash of the versions and sources that cells are played with here."""
    return hashed("a cell of a sweep")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FinishedCell:
    """What the games of an address gave.

    Parameters
    ----------
    address : str
        What they are made from.
    fidelity : str
        What was drawn.
    columns : dict of arrays
        What was measured; communication regret as played.
    """

    address: str
    fidelity: str
    columns: Columns

    def at_price(self, price: float) -> Columns:
        """Return what was measured, with communication regret times the price of a cell."""
        communication = price * self.columns["communication"]
        total = self.columns["exploration"] + communication
        return {"total": total, **self.columns, "communication": communication}


def play_cells(specs: Mapping[str, Mapping[str, Any]], *, memory_limit: int) -> list[FinishedCell]:
    """Play specs of one horizon, number of replications and seed, on one core.

    Parameters
    ----------
    specs : mapping
        By their addresses.
    memory_limit : int
        Bytes that the statistics of clients may take.
    """
    experiments = [read_experiment(spec) for spec in specs.values()]
    first = experiments[0]
    simulations = simulate_all(
        [variant for experiment in experiments for variant in experiment.variants],
        horizon=first.horizon,
        replications=first.replications,
        seed=first.seed,
        grid_points=1,
        workers=1,
        memory_limit=memory_limit,
        warn=False,
    )
    finished = []
    for address, simulation in zip(specs, simulations, strict=True):
        columns = outcome_columns(simulation)
        del columns["total"]  # depends on the cost of communication
        fidelity = simulation.fidelity.value
        finished.append(FinishedCell(address=address, fidelity=fidelity, columns=columns))
    return finished
