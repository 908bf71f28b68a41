"""What every problem knows: its true means, its best arm, its gap, and how to draw its clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, get_args

import numpy as np

from fedbandits.errors import LARGEST, InputError, nearest
from fedbandits.problems.laws import NoiseLaw
from fedbandits.rules.arrays import FloatArray, IntArray
from fedbandits.rules.phased import Goal

Sources: TypeAlias = Callable[[int], np.random.Generator]
"""Independent random generators by number: one an arm, and the next numbers for what arms share.

A source that is asked for twice goes on where it was.
"""


@dataclass(frozen=True, slots=True)
class LocalModels:
    """Clients in their order of admission.

    Parameters
    ----------
    means : array, shape (arms, clients)
        Local means μ_{k,m}.
    cells : array of int, shape (arms, clients), optional
        Which cells of an empirical law they are.
    rows : array of int, shape (clients,), optional
        Which of the given clients they are, where clients are given.
    """

    means: FloatArray
    cells: IntArray | None = None
    rows: IntArray | None = None


class ClientSampler(Protocol):
    """Draws clients one after the other; how they are grouped makes no difference."""

    def draw(self, n_clients: int, arms: Sequence[int] | None = None) -> LocalModels:
        """Return the next clients.

        Parameters
        ----------
        n_clients : int
            How many.
        arms : sequence of int, optional
            The arms whose local means are wanted, all by default. Those of the others need not be
            drawn and must not be read; an arm that was left out once stays out.
        """
        ...


class Problem(Protocol):
    """A game: K arms with true global means, and a population of clients around them."""

    @property
    def model(self) -> str:
        """The name in experiment files."""
        ...

    @property
    def name(self) -> str:
        """What its random streams are keyed by: problems of one name share their draws."""
        ...

    @property
    def means(self) -> FloatArray:
        """True global means μ_k."""
        ...

    @property
    def goal(self) -> Goal:
        """Whether the best arm has the highest or the lowest mean."""
        ...

    @property
    def noise(self) -> NoiseLaw:
        """How an observation scatters around the local mean."""
        ...

    @property
    def population(self) -> int | None:
        """How many clients exist at all; None is unlimited."""
        ...

    @property
    def arms_are_independent(self) -> bool:
        """Whether the local means of one client are independent between arms."""
        ...

    @property
    def noise_proxy(self) -> float:
        """σ that a rule is told by default."""
        ...

    @property
    def spread_proxy(self) -> float:
        """σ_c that a rule is told by default."""
        ...

    def sampler(self, sources: Sources) -> ClientSampler:
        """Return a sampler of clients, in a random order of admission."""
        ...

    def at_server(self) -> Problem:
        """Return the game of one hypothetical player who observes the global model itself."""
        ...


def best_arm(problem: Problem) -> int:
    """Return the arm with the best global mean, the lowest index on ties."""
    return int(gaps(problem).argmin())


def gap(problem: Problem) -> float:
    """Return Δ: how far the second best global mean is from the best (0 on ties)."""
    return float(np.sort(gaps(problem))[1])


def gaps(problem: Problem) -> FloatArray:
    """Return Δ_k: how much worse than the best each arm is, whichever way is better."""
    means = problem.means
    return np.asarray(means.max() - means if problem.goal == "max" else means - means.min())


def as_goal(goal: str) -> Goal:
    """Return a goal by its name, or refuse what is none."""
    for known in get_args(Goal):
        if goal == known:
            return "max" if known == "max" else "min"
    raise InputError("goal", f'"{goal}" is not a goal; {nearest(goal, get_args(Goal))}')


def checked_means(values: Sequence[float] | FloatArray, where: str = "means") -> FloatArray:
    """Return global means as an array that nobody can write to, or say what is wrong with them."""
    means = np.array(values, dtype=np.float64)
    if means.ndim != 1 or means.size == 0:
        raise InputError(where, "is empty; give the mean of at least two arms")
    if means.size == 1:
        raise InputError(where, "has one arm; a game needs at least two")
    fine = np.abs(means) <= LARGEST
    if not fine.all():
        bad = int(np.flatnonzero(~fine)[0])
        raise InputError(
            f"{where}[{bad}]", f"{means[bad]} is not a finite number of at most {LARGEST:g}"
        )
    means.setflags(write=False)
    return means
