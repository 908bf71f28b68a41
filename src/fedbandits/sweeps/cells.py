"""The cells of a sweep: one variant under one setting each, addressed by what it is made from.

Two cells with one address are the same games. Communication is paid for per message. If an
algorithm does not say that it may depend on what a message costs, that cost is no part of an
address: a sweep over C plays nothing twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeAlias

import numpy.typing as npt

from fedbandits.experiments.bounds import Yardstick, yardstick
from fedbandits.experiments.files import read_experiment
from fedbandits.experiments.fingerprint import code_of, hashed
from fedbandits.rules.indices import SlotRule
from fedbandits.rules.phased import PhasedRule
from fedbandits.simulation import Variant
from fedbandits.simulation.fidelities import Fidelity
from fedbandits.simulation.variants import all_doubts
from fedbandits.sweeps.sweep import Sweep

Columns: TypeAlias = dict[str, npt.NDArray[Any]]
"""One array per measured quantity, with one entry per replication."""

# A variant at the cost that its messages are played with, its rule, and what is drawn.
Playable: TypeAlias = tuple[Variant, tuple[PhasedRule | SlotRule, Fidelity]]

# Horizon, replications and seed: what is played together has these in common.
Group: TypeAlias = tuple[int | None, int, int]

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
    price : float
        What communication regret, as played, is multiplied by: C, or 1 if messages cost C in its
        games because what is played may depend on it.
    group : tuple
        Horizon, replications and seed.
    doubts : tuple of str
        Which assumptions of its rule's guarantee the problem does not keep.
    yardstick : tuple or str
        What the lower bound on its regret comes to, or why there is none.
    """

    setting: int
    variant: int
    label: str
    problem: str
    address: str
    fidelity: Fidelity
    communication_cost: float
    price: float
    group: Group
    doubts: tuple[str, ...]
    yardstick: Yardstick


def cells_of(sweep: Sweep, number: int) -> Iterator[tuple[Cell, Playable]]:
    """Yield the cells of a setting, and what plays them, or say what is wrong with it.

    Parameters
    ----------
    sweep : Sweep
        The sweep.
    number : int
        Of the setting.
    """
    tables = sweep.tables_of(number)
    with sweep.located(number):
        experiment = read_experiment(tables)
        built = zip(experiment.variants, experiment.built, strict=True)
    for place, (variant, (rule, fidelity)) in enumerate(built):
        uses_cost, paid = variant.algorithm.uses_cost, variant.communication_cost
        cost = paid if uses_cost else _A_MESSAGE
        spec = spec_of(tables, place, variant.problem.name, cost)
        code = code_of((variant.algorithm, variant.problem))
        cell = Cell(
            setting=number,
            variant=place,
            label=variant.label,
            problem=variant.problem.name,
            address=address_of(spec, code),
            fidelity=fidelity,
            communication_cost=paid,
            price=1.0 if uses_cost else paid,
            group=(experiment.horizon, experiment.replications, experiment.seed),
            doubts=tuple(all_doubts(variant, rule)),
            yardstick=yardstick(variant, rule, experiment.horizon),
        )
        yield cell, (replace(variant, communication_cost=cost), (rule, fidelity))


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
