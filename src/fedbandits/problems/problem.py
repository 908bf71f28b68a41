"""What every problem knows: its true means, its best arm, its gap, and how to draw its clients."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np

from fedbandits.errors import LARGEST, InputError
from fedbandits.problems.laws import Law, NoiseLaw
from fedbandits.registry import keys_in_files
from fedbandits.rules.abilities import Judge, Statement
from fedbandits.rules.arrays import FloatArray, IntArray
from fedbandits.rules.beliefs import Goal

Sources: TypeAlias = Callable[[int], np.random.Generator]
"""Independent random generators by number: one per arm, then those for what arms share.

A source that is asked for twice goes on where it was.
"""


# What a problem says of the clients that its sampler draws.
_FACTS = (
    "arms_are_independent",
    "arms_compare_as_independent",
    "clients_are_given",
    "clients_are_like_draws",
    "cohort_law",
    "drift",
    "observation_law",
    "spread_proxy",
)
# What names, describes and draws a picture of it.
_WORDS = ("model", "name", "goal", "described", "facts", "map", "place", "availability_map")


_JUDGE = Judge(dict.fromkeys(_FACTS, Statement()), words=_WORDS)


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
        Which of the given clients they are, if clients are given.
    """

    means: FloatArray
    cells: IntArray | None = None
    rows: IntArray | None = None


class ClientSampler(Protocol):
    """Draws clients one after the other; grouping them differently changes nothing."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortLaw:
    """The law of averages over cohorts of clients, if it is normal.

    Parameters
    ----------
    obstacle : str, optional
        Why it is not, in words; None if it is.
    noise, spread : float
        σ and σ_c.
    of_everyone : bool
        Whether only the cohort of all clients has it.
    """

    obstacle: str | None = None
    noise: float = 0.0
    spread: float = 0.0
    of_everyone: bool = False


class Map(Protocol):
    """What a problem shows of its arms from place to place, for a figure."""

    @property
    def place(self) -> Hashable:
        """What is shown: problems with the same place share a map."""

    @property
    def area(self) -> tuple[float, float]:
        """Width and height in km."""

    @property
    def base_station(self) -> tuple[float, float]:
        """Where the base station stands."""

    def availability(self, places: FloatArray | Sequence[tuple[float, float]]) -> FloatArray:
        """Return the local means, shape (arms, places), at places given as rows (x, y)."""

    def availability_map(self, resolution: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return x, y and the local means there, shape (arms, y, x)."""


class PlainProblem(Protocol):
    """Everything about a problem that has a default; your own class inherits from it.

    By default nothing is taken for granted of the clients: they are drawn, not given, their arms
    may depend on each other, and cohorts of them are not normal. What the class has to write is in
    `Problem`.

    Examples
    --------
    >>> from fedbandits.problems import Gaussian
    >>> @dataclass(frozen=True, kw_only=True)
    ... class TwoSorts(PlainProblem):
    ...     model = "two-sorts"
    ...     goal = "max"
    ...     population = None
    ...     noise: NoiseLaw
    ...     apart: float
    ...     name: str = "problem"
    ...     means = np.array([0.5, 0.6])
    ...
    ...     @property
    ...     def spread_proxy(self):
    ...         return self.apart
    ...
    ...     def sampler(self, sources):
    ...         rng = sources(0)
    ...         class Coins:
    ...             def draw(_, n_clients, arms=None):
    ...                 sides = rng.choice([-self.apart, self.apart], n_clients)
    ...                 return LocalModels(self.means[:, np.newaxis] + sides)
    ...         return Coins()
    >>> game = TwoSorts(noise=Gaussian(0.5), apart=0.1)
    >>> game.noise_proxy, game.cohort_law.obstacle
    (0.5, 'clients of the two-sorts model are not normal around the global means')
    >>> game.described()
    {'model': 'two-sorts', 'noise': {'law': 'gaussian', 'sigma': 0.5}, 'apart': 0.1}
    """

    clients_are_given: ClassVar[bool] = False
    """Whether the clients are fixed, and known to be all there are."""
    clients_are_like_draws: ClassVar[bool] = False
    """Whether N clients are independent draws with spread σ_c, recentred or not.

    If a class does not say so it cannot be checked, which is not to say that they are not."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Note what a class states: it is judged when it is asked for."""
        super().__init_subclass__(**options)
        _JUDGE.hear(cls)

    @property
    def noise_proxy(self: Problem) -> float:
        """The σ that a rule is told by default: that of the noise law."""
        return self.noise.proxy(self.means)

    @property
    def arms_are_independent(self) -> bool:
        """Whether the local means of one client are independent between arms."""
        return False

    @property
    def arms_compare_as_independent(self) -> bool:
        """Whether a client's arms differ by no more than independent ones would."""
        return self.arms_are_independent

    @property
    def shares(self) -> FloatArray | None:
        """How much each given client counts, summing to 1; None if all count the same."""
        return None

    @property
    def cohort_law(self: Problem) -> CohortLaw:
        """The law of averages over cohorts, or why it is not normal."""
        return CohortLaw(
            obstacle=no_normal_noise(self.noise)
            or f"clients of the {self.model} model are not normal around the global means"
        )

    @property
    def drift(self) -> str | None:
        """How its means change while it is played, in words; None if they do not."""
        return None

    def means_at(self: Problem, slots: IntArray) -> FloatArray:
        """Return the global means in some slots, from 1, shape (slots, arms).

        If they change, all local means change by as much; the sampler gives those of slot 0.
        """
        return np.broadcast_to(self.means, (*slots.shape, self.means.size))

    @property
    def observation_law(self) -> NoiseLaw | None:
        """How an observation of a client drawn at random scatters around the global mean.

        None if there is no closed form.
        """
        return None

    @property
    def map(self) -> Map | None:
        """What a report can draw of it, if anything."""
        return None

    def at_server(self: Problem) -> Problem:
        """Return the game of one hypothetical player who observes the global model itself."""
        from fedbandits.problems.exact import Exact  # noqa: PLC0415 - which is a problem itself

        return Exact(local_means=[self.means], noise=self.noise, name=self.name, goal=self.goal)

    def described(self: Problem) -> dict[str, Any]:
        """Return the table of an experiment file that gives the problem.

        By default the model and the fields of the dataclass, as plain values. What is None and the
        usual goal are left out, and what is 0 in a table of something else; the name is that of the
        table.
        """
        own: Any = self
        table: dict[str, Any] = {"model": self.model}
        for name, key in keys_in_files(own).items():
            value = getattr(own, name)
            if value is None or name == "name" or (name == "goal" and value == "max"):
                continue
            outer, _, inner = key.partition(".")
            if not inner:
                table[key] = _plain(value)
            elif value:
                table[outer][inner] = _plain(value)
        return table

    @classmethod
    def reader(cls) -> Callable[..., Any]:
        """Return the callable that makes a problem; its parameters are the keys of the table.

        By default that is the class itself.
        """
        return cls

    def facts(self: Problem) -> dict[str, str]:
        """Return what a report says about this model, as terms and their meaning.

        "model" and "spread" replace what a report says anyway; others are added.
        """
        return {"model": self.model}


class Problem(PlainProblem, Protocol):
    """A game: K arms with true global means, and a population of clients around them.

    Your own class inherits from `PlainProblem` and writes what that leaves open.
    """

    @property
    def model(self) -> str:
        """The name in experiment files."""

    @property
    def name(self) -> str:
        """The key of its random streams: problems with the same name share their draws."""

    @property
    def means(self) -> FloatArray:
        """True global means μ_k."""

    @property
    def goal(self) -> Goal:
        """Whether the best arm has the highest or the lowest mean."""

    @property
    def noise(self) -> NoiseLaw:
        """How an observation scatters around the local mean."""

    @property
    def population(self) -> int | None:
        """How many clients exist in total; None is unlimited."""

    @property
    def spread_proxy(self) -> float:
        """The σ_c that a rule is told by default."""

    def sampler(self, sources: Sources) -> ClientSampler:
        """Return a sampler of clients, in a random order of admission."""


def _plain(value: Any) -> Any:
    """Return a value as it is written in an experiment file."""
    if isinstance(value, Law):
        return value.described()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def no_normal_noise(noise: NoiseLaw) -> str | None:
    """Return why cohorts cannot have this noise, or None."""
    if noise.normal_deviation is not None:
        return None
    return f"it needs gaussian noise, and this is {noise.law}"


def best_arm(problem: Problem) -> int:
    """Return the arm with the best global mean, the lowest index on ties."""
    return int(gaps(problem).argmin())


def gap(problem: Problem) -> float:
    """Return Δ: how far the second best global mean is from the best (0 on ties)."""
    return float(np.sort(gaps(problem))[1])


def gaps(problem: Problem) -> FloatArray:
    """Return Δ_k: how much worse than the best each arm is, for either goal."""
    return _behind(problem.means, problem.goal)


def gaps_at(problem: Problem, slots: IntArray) -> FloatArray:
    """Return how much worse each arm is than the best one of the same slot, (slots, arms)."""
    return _behind(problem.means_at(slots), problem.goal)


def _behind(means: FloatArray, goal: Goal) -> FloatArray:
    best = (means.max if goal == "max" else means.min)(axis=-1, keepdims=True)
    return np.asarray(best - means if goal == "max" else means - best)


def deviations(values: FloatArray) -> str:
    """Return the standard deviations of all arms in a few words.

    Examples
    --------
    >>> deviations(np.array([0.1, 0.25]))
    'standard deviation 0.1 to 0.25, depending on the arm,'
    """
    low, high = f"{values.min():.3g}", f"{values.max():.3g}"
    return f"standard deviation {low if low == high else f'{low} to {high}, depending on the arm,'}"


def set_fields(problem: object, **values: object) -> None:
    """Set fields of a frozen dataclass that has its own ``__init__``."""
    for name, value in values.items():
        object.__setattr__(problem, name, value)


def checked_means(values: Sequence[float] | FloatArray, where: str = "means") -> FloatArray:
    """Return global means as a read-only array, or say what is wrong with them."""
    means = np.array(values, dtype=np.float64)
    if means.ndim != 1 or means.size == 0:
        raise InputError(where, "is empty; give the mean of at least two arms")
    if means.size == 1:
        raise InputError(where, "has one arm; a game needs at least two")
    bad = np.flatnonzero(~(np.abs(means) <= LARGEST))
    if bad.size:
        wrong = f"{means[bad[0]]} is not a finite number of at most {LARGEST:g}"
        raise InputError(f"{where}[{bad[0]}]", wrong)
    means.setflags(write=False)
    return means
