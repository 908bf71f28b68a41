"""Laws: how observations scatter around a local mean, and local means around a global one.

A law is a distribution *around a given mean*. `Gaussian` and `Uniform` serve as noise and as
spread, `Bernoulli` and `Empirical` as noise, `Beta` as spread. Each states its subgaussian
variance proxy, which is what a rule is told by default.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence, Sized
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np

from fedbandits.errors import LARGEST, InputError, UnstatedError, check_not_negative, is_number
from fedbandits.registry import Registry
from fedbandits.rules.abilities import Judge, Statement
from fedbandits.rules.arrays import FloatArray, IntArray

Rng: TypeAlias = np.random.Generator
Means: TypeAlias = FloatArray | float
TwoArrays: TypeAlias = tuple[FloatArray, FloatArray]
Cells: TypeAlias = IntArray | None
"""Whose local means they are: client × arms + arm; None if the law does not depend on it."""

# What a law says of its draws, which are variates, observations and local means.
_FACTS = (
    "normal_deviation",
    "proxy",
    "outcome_range",
    "sums_in_closed_form",
    "phase_sums",
    "phase_moments",
    "clipped",
    "pooled",
    "support",
)
# What names and describes it, and refuses means that it cannot have.
_WORDS = ("law", "described", "in_words", "observations", "mean_range")


_JUDGE = Judge(dict.fromkeys(_FACTS, Statement()), words=_WORDS)


@runtime_checkable
class Law(Protocol):
    """A distribution around a mean.

    Your own class inherits from `NoiseLaw`, from `SpreadLaw` or from both. It has to write the
    abstract methods; everything else has a default, or an error that names the method. A
    class that replaces how another law is drawn states again what holds of it: see `_FACTS`.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Note what a class states: it is judged when it is asked for."""
        super().__init_subclass__(**options)
        _JUDGE.hear(cls)

    @property
    @abstractmethod
    def law(self) -> str:
        """The name in experiment files."""

    @abstractmethod
    def proxy(self, means: FloatArray) -> float:
        """Return the square root of a variance proxy that is valid around all these means."""

    @property
    def normal_deviation(self) -> float | None:
        """The standard deviation of a normal law; None (the default) for any other law."""
        return None

    def described(self) -> dict[str, Any]:
        """Return the table of an experiment file that gives the law: its name and its fields."""
        own: Any = self
        return {"law": self.law, **{one.name: getattr(self, one.name) for one in fields(own)}}

    def _unstated(self, method: str, meaning: str) -> UnstatedError:
        return UnstatedError(type(self).__name__, method, meaning)

    def in_words(self, symbol: str = "σ") -> str:
        """Return its name and its parameters, with this symbol for ``sigma``.

        Examples
        --------
        >>> Gaussian(0.02).in_words("σ_c")
        'gaussian, σ_c = 0.02'
        """
        said = self.law
        for key, value in list(self.described().items())[1:]:
            shown = f"{value:.4g}" if is_number(value) else value
            said += f", {symbol if key == 'sigma' else key} = {shown}"
        return said


class NoiseLaw(Law, Protocol):
    """How one observation scatters around the local mean.

    ``means`` holds local means and ``cells`` says whose they are (client × arms + arm), which only
    laws that are given client by client look at; the two have one shape.
    """

    given_by_cell: ClassVar[bool] = False
    """Whether every client and arm has a law of its own, which needs given clients."""

    @property
    def sums_in_closed_form(self) -> bool:
        """Whether `phase_sums` can be drawn without drawing every observation."""
        return False

    @property
    def mean_range(self) -> tuple[float, float]:
        """The lowest and the highest local mean that the law can have."""
        return -math.inf, math.inf

    @property
    def outcome_range(self) -> tuple[float, float] | None:
        """The range of all observations, whatever the local mean; None if it is not known."""
        return None

    def variates(self, rng: Rng, size: int | tuple[int, ...]) -> FloatArray:
        """Return raw variates, one for each observation that `observe` will make.

        By default they are uniform on [0, 1).
        """
        return rng.random(size)

    @abstractmethod
    def observe(self, variates: FloatArray, means: Means, cells: Cells | int) -> FloatArray:
        """Return one observation for every variate."""

    def phase_sums(
        self, rng: Rng, pulls: int, means: FloatArray, cells: Cells, out: FloatArray | None = None
    ) -> FloatArray:
        """Return, for every local mean, the sum of ``pulls`` fresh observations.

        ``out`` is room that the law may use for them, of the shape of ``means``.
        """
        if self.sums_in_closed_form:
            written = "phase_sums(rng, pulls, means, cells, out)"
            raise self._unstated(written, "how to draw the sum of its observations")
        no_sum = f"a sum of {self.law} observations has no closed form"
        raise InputError("noise", f'{no_sum}; use fidelity = "pulls"')

    def phase_moments(
        self, rng: Rng, pulls: int, means: FloatArray, cells: Cells, out: FloatArray | None = None
    ) -> TwoArrays:
        """Return `phase_sums`, the same to the last bit, and sums of squares around their means.

        Both are from their exact joint law.
        """
        written = "phase_moments(rng, pulls, means, cells, out)"
        raise self._unstated(written, "how to draw sums of its observations and of their squares")

    def clipped(self, means: FloatArray, cells: Cells, low: float, high: float) -> TwoArrays:
        """Return what clipping observations to a range does.

        For every local mean: the share of observations outside, and the mean of clipped ones.
        """
        written = "clipped(means, cells, low, high)"
        raise self._unstated(written, "what clipping does to its observations")

    def pooled(self, n_arms: int, shares: FloatArray | None) -> NoiseLaw:
        """Return the law of one player who draws every observation from a client at random.

        Clients are drawn with these probabilities, equal ones if there are none. A law that does
        not depend on the client is the same for all of them.
        """
        if self.given_by_cell:
            meaning = "what one player observes who draws from all clients"
            raise self._unstated("pooled(n_arms, shares)", meaning)
        return self

    def observations(self, n_arms: int) -> list[list[list[float]]]:
        """Return the lists that define a law: client, arm, values."""
        raise self._unstated("observations(n_arms)", "which lists it is given by")


class SpreadLaw(Law, Protocol):
    """How local means scatter around the global mean."""

    @abstractmethod
    def support(self, mean: float) -> tuple[float, float]:
        """Return the lowest and the highest local mean around a global mean."""

    @abstractmethod
    def draw(self, rng: Rng, mean: float, n_clients: int) -> FloatArray:
        """Return the local means of ``n_clients`` independent clients."""


def check_means(noise: NoiseLaw, lowest: float, highest: float, where: str) -> None:
    """Refuse local means that are impossible under a law.

    Examples
    --------
    >>> check_means(Bernoulli(), 0.2, 1.4, "local_means")
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: local_means: local means from 0.2 to 1.4 with bernoulli noise,
    whose means lie in [0, 1] (use a beta spread, or gaussian noise)
    """
    low, high = noise.mean_range
    if lowest < low or highest > high:
        raise InputError(
            where,
            f"local means from {lowest:g} to {highest:g} with {noise.law} noise, whose means lie in"
            f" [{low:g}, {high:g}] (use a beta spread, or gaussian noise)",
        )


def check_rows(rows: Sequence[Sized], where: str, each: str) -> None:
    """Refuse a table without clients, or whose clients have different numbers of arms."""
    if len(rows) == 0:
        raise InputError(where, f"is empty; give {each}")
    for m, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise InputError(f"{where}[{m}]", f"{len(row)} arms, but {where}[0] has {len(rows[0])}")


def _certain(means: FloatArray, low: float, high: float) -> tuple[FloatArray, FloatArray]:
    """Return what clipping does to observations that are their means."""
    inside = np.clip(means, low, high)
    return (inside != means).astype(np.float64), inside


@dataclass(frozen=True, slots=True)
class _WithSigma:
    """A law with a standard deviation, ``sigma``."""

    sigma: float

    def __post_init__(self) -> None:
        check_not_negative(self.sigma, "sigma")
        if 0 < self.sigma < 1 / LARGEST:
            least = 1 / LARGEST
            raise InputError("sigma", f"{self.sigma} is too small; give 0, or at least {least:g}")


@dataclass(frozen=True, slots=True)
class Gaussian(_WithSigma, NoiseLaw, SpreadLaw):
    """Normal with standard deviation ``sigma``: as noise or as spread.

    Examples
    --------
    >>> sums = Gaussian(0.5).phase_sums(np.random.default_rng(1), 100, np.array([0.2, 0.8]), None)
    >>> sums.round(2)
    array([21.73, 84.11])
    """

    law: ClassVar[str] = "gaussian"
    sums_in_closed_form: ClassVar[bool] = True

    @property
    def normal_deviation(self) -> float:
        """Its ``sigma``."""
        return self.sigma

    def proxy(self, means: FloatArray) -> float:
        """Return the standard deviation, which is a normal law's own proxy."""
        return self.sigma

    def variates(self, rng: Rng, size: int | tuple[int, ...]) -> FloatArray:
        """Return standard normals."""
        return rng.standard_normal(size)

    def observe(self, variates: FloatArray, means: Means, cells: Cells | int) -> FloatArray:
        """Return normal observations."""
        return means + self.sigma * variates

    def phase_sums(
        self, rng: Rng, pulls: int, means: FloatArray, cells: Cells, out: FloatArray | None = None
    ) -> FloatArray:
        """Return normal sums."""
        # In place: for a row of many clients, memory traffic costs as much as drawing.
        sums = rng.standard_normal(out=out) if out is not None else rng.standard_normal(means.shape)
        sums *= self.sigma / math.sqrt(pulls)
        sums += means
        sums *= float(pulls)
        return sums

    def phase_moments(
        self, rng: Rng, pulls: int, means: FloatArray, cells: Cells, out: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return normal sums and, independent of them, squares: σ² times chi-square."""
        sums = self.phase_sums(rng, pulls, means, cells, out)
        if pulls == 1:
            return sums, np.zeros(means.shape)
        return sums, self.sigma**2 * rng.chisquare(pulls - 1, means.shape)

    def clipped(self, means: FloatArray, cells: Cells, low: float, high: float) -> TwoArrays:
        """Return what clipping a normal law does."""
        from scipy.special import ndtr  # noqa: PLC0415 - slow to import, and rarely needed

        if self.sigma == 0:
            return _certain(means, low, high)
        below, above = (low - means) / self.sigma, (high - means) / self.sigma
        under, over = ndtr(below), ndtr(-above)
        densities = np.exp(-np.square([below, above]) / 2) / math.sqrt(2 * math.pi)
        middle = means * (1 - under - over) + self.sigma * (densities[0] - densities[1])
        return under + over, low * under + high * over + middle

    def support(self, mean: float) -> tuple[float, float]:
        """Return the whole line, or only the mean if there is no spread."""
        return (mean, mean) if self.sigma == 0 else (-math.inf, math.inf)

    def draw(self, rng: Rng, mean: float, n_clients: int) -> FloatArray:
        """Return normal local means."""
        means = rng.standard_normal(n_clients)
        means *= self.sigma
        means += mean
        return means


@dataclass(frozen=True, slots=True)
class Uniform(_WithSigma, NoiseLaw, SpreadLaw):
    """Uniform with standard deviation ``sigma`` (half-width √3 σ): as noise or as spread.

    Examples
    --------
    >>> low, high = Uniform(0.1).support(0.5)
    >>> round(low, 4), round(high, 4)
    (0.3268, 0.6732)
    """

    law: ClassVar[str] = "uniform"
    # A sum of n uniforms has the Irwin-Hall law, for which there is no sampler better than n draws.
    sums_in_closed_form: ClassVar[bool] = False

    def proxy(self, means: FloatArray) -> float:
        """Return the standard deviation, which is a valid proxy for a uniform law."""
        return self.sigma

    def observe(self, variates: FloatArray, means: Means, cells: Cells | int) -> FloatArray:
        """Return uniform observations."""
        return means + (2.0 * variates - 1.0) * (math.sqrt(3.0) * self.sigma)

    def clipped(self, means: FloatArray, cells: Cells, low: float, high: float) -> TwoArrays:
        """Return what clipping a uniform law does."""
        if self.sigma == 0:
            return _certain(means, low, high)
        half = math.sqrt(3.0) * self.sigma
        ends = np.clip([means - half, means + half], low, high)
        inside = (ends[1] - ends[0]) / (2 * half)
        under = np.clip((low - means + half) / (2 * half), 0.0, 1.0)
        over = np.clip((means + half - high) / (2 * half), 0.0, 1.0)
        middle = inside * (ends[0] + ends[1]) / 2
        return under + over, low * under + high * over + middle

    def support(self, mean: float) -> tuple[float, float]:
        """Return the mean ± √3 σ."""
        half = math.sqrt(3.0) * self.sigma
        return mean - half, mean + half

    def draw(self, rng: Rng, mean: float, n_clients: int) -> FloatArray:
        """Return uniform local means."""
        return self.observe(self.variates(rng, n_clients), mean, None)


@dataclass(frozen=True, slots=True)
class Bernoulli(NoiseLaw):
    """1 with the local mean as probability, otherwise 0: as noise.

    Examples
    --------
    >>> Bernoulli().phase_sums(np.random.default_rng(1), 100, np.array([0.2, 0.8]), None)
    array([20., 73.])
    """

    law: ClassVar[str] = "bernoulli"
    sums_in_closed_form: ClassVar[bool] = True
    # Every local mean is a probability, and every outcome 0 or 1.
    mean_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    outcome_range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def proxy(self, means: FloatArray) -> float:
        """Return 1/2, the proxy of any law on [0, 1]."""
        return 0.5

    def observe(self, variates: FloatArray, means: Means, cells: Cells | int) -> FloatArray:
        """Return zeros and ones."""
        return np.asarray(variates < means, dtype=np.float64)

    def phase_sums(
        self, rng: Rng, pulls: int, means: FloatArray, cells: Cells, out: FloatArray | None = None
    ) -> FloatArray:
        """Return binomial sums."""
        return rng.binomial(pulls, means).astype(np.float64)

    def phase_moments(
        self, rng: Rng, pulls: int, means: FloatArray, cells: Cells, out: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return binomial sums s, and squares s(n − s)/n, which they determine."""
        sums = self.phase_sums(rng, pulls, means, cells, out)
        return sums, sums * (pulls - sums) / pulls

    def clipped(self, means: FloatArray, cells: Cells, low: float, high: float) -> TwoArrays:
        """Return what clipping zeros and ones does."""
        ends = np.clip([0.0, 1.0], low, high)
        outside = (1 - means) * (ends[0] != 0.0) + means * (ends[1] != 1.0)
        return outside, (1 - means) * ends[0] + means * ends[1]


@dataclass(frozen=True, slots=True, eq=False)
class Empirical(NoiseLaw):
    """Draws with replacement from a client's own list of values: as noise, for real data.

    Parameters
    ----------
    support : array, shape (values,)
        The different values that occur at all, ascending.
    probabilities : array, shape (cells, values)
        How often each value stands in the list of client m and arm k, cell = m · arms + k.
    sizes : array of int, shape (cells,)
        How long the lists are.

    Examples
    --------
    >>> ratings = [[[1.0, 5.0], [3.0]], [[4.0], [2.0, 2.0, 5.0]]]
    >>> law = Empirical.of(ratings)
    >>> law.support
    array([1., 2., 3., 4., 5.])
    >>> law.cell_means()
    array([3., 3., 4., 3.])
    """

    law: ClassVar[str] = "empirical"
    given_by_cell: ClassVar[bool] = True
    sums_in_closed_form: ClassVar[bool] = True
    _MOST_ENTRIES: ClassVar[int] = 50_000_000

    support: FloatArray
    probabilities: FloatArray
    sizes: IntArray

    @classmethod
    def of(cls, observations: Sequence[Sequence[Sequence[float]]]) -> Empirical:
        """Return the law given by nested lists: client, arm, values."""
        check_rows(observations, "observations", "each client one list of values per arm")
        if len(observations[0]) < 2:
            few = "one arm" if observations[0] else "no arm"
            raise InputError("observations", f"has {few}; a game needs at least two")
        cells = [np.asarray(values, dtype=np.float64) for row in observations for values in row]
        for cell, values in enumerate(cells):
            where = "observations[{}][{}]".format(*divmod(cell, len(observations[0])))
            if values.size == 0:
                raise InputError(where, "is empty; give each client a value of every arm")
            if not (np.abs(values) <= LARGEST).all():
                raise InputError(where, f"holds a value that is not a number up to {LARGEST:g}")
        support = np.unique(np.concatenate(cells))
        if len(cells) * support.size > cls._MOST_ENTRIES:
            many = f"{support.size} different values of {len(cells)} clients and arms"
            most = f"at most {cls._MOST_ENTRIES // len(cells)} fit into memory (round them)"
            raise InputError("observations", f"{many}; {most}")
        probabilities = np.zeros((len(cells), support.size))
        for shares, listed in zip(probabilities, cells, strict=True):
            places, times = np.unique(np.searchsorted(support, listed), return_counts=True)
            shares[places] = times / listed.size
        return cls(support, probabilities, np.array([values.size for values in cells]))

    def described(self) -> dict[str, Any]:
        """Return its name: its lists are those of the problem."""
        return {"law": self.law}

    def observations(self, n_arms: int) -> list[list[list[float]]]:
        """Return lists that have this law: client, arm, values, sorted."""
        lists = [
            np.repeat(self.support, np.rint(shares * size).astype(np.int64)).tolist()
            for shares, size in zip(self.probabilities, self.sizes, strict=True)
        ]
        return [lists[start : start + n_arms] for start in range(0, len(lists), n_arms)]

    def cell_means(self) -> FloatArray:
        """Return the mean of every cell."""
        return np.asarray(self.probabilities @ self.support)

    def pooled(self, n_arms: int, shares: FloatArray | None = None) -> Empirical:
        """Return the law of one player who draws every value from a client at random."""
        by_client = self.probabilities.reshape(-1, n_arms, self.support.size)
        if shares is None:
            mixed = by_client.mean(axis=0)
        else:
            mixed = np.tensordot(shares, by_client, axes=1)
            mixed /= mixed.sum(axis=-1, keepdims=True)  # they add up to 1 but for rounding
        return Empirical(self.support, mixed, self.sizes.reshape(-1, n_arms).sum(axis=0))

    @property
    def outcome_range(self) -> tuple[float, float]:
        """The lowest and the highest value of all lists."""
        occurring = self.support[self.probabilities.any(axis=0)]
        return float(occurring[0]), float(occurring[-1])

    def proxy(self, means: FloatArray) -> float:
        """Return half of the range of the values."""
        return float(self.support[-1] - self.support[0]) / 2

    def observe(self, variates: FloatArray, means: Means, cells: Cells | int) -> FloatArray:
        """Return values from the lists, by inversion."""
        steps = np.cumsum(self.probabilities[_given(cells)], axis=-1)
        last = self.support.size - 1
        if steps.ndim == 1:
            places = np.searchsorted(steps, variates, side="right")
        else:
            places = (variates[..., np.newaxis] >= steps).sum(axis=-1)
        return np.asarray(self.support[np.minimum(places, last)])

    def phase_sums(
        self, rng: Rng, pulls: int, means: FloatArray, cells: Cells, out: FloatArray | None = None
    ) -> FloatArray:
        """Return sums of multinomial draws."""
        times = rng.multinomial(pulls, self.probabilities[_given(cells)])
        return np.asarray(times @ self.support, dtype=np.float64)

    def phase_moments(
        self, rng: Rng, pulls: int, means: FloatArray, cells: Cells, out: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return sums and squares of multinomial draws."""
        times = rng.multinomial(pulls, self.probabilities[_given(cells)])
        sums = np.asarray(times @ self.support, dtype=np.float64)
        apart = self.support - sums[..., np.newaxis] / pulls
        return sums, np.asarray((times * apart**2).sum(axis=-1))

    def clipped(self, means: FloatArray, cells: Cells, low: float, high: float) -> TwoArrays:
        """Return what clipping the values of the lists does."""
        probabilities = self.probabilities[_given(cells)]
        inside = np.clip(self.support, low, high)
        return probabilities @ (inside != self.support), probabilities @ inside


def _given(cells: Cells | int) -> IntArray | int:
    if cells is None:
        raise InputError("noise", "empirical noise needs clients that are given one by one")
    return cells


@dataclass(frozen=True, slots=True)
class Beta(_WithSigma, SpreadLaw):
    """Beta law with standard deviation ``sigma`` around a mean in (0, 1): as spread.

    Examples
    --------
    >>> low, high = Beta(0.02).support(0.7)
    >>> low, high
    (0.0, 1.0)
    >>> round(Beta(0.02).proxy(np.array([0.7, 0.79])), 5)
    0.02455
    """

    law: ClassVar[str] = "beta"

    def parameters(self, mean: float) -> tuple[float, float]:
        """Return α and β of the law with this mean."""
        if not 0 < mean < 1:
            raise InputError("means", f"{mean:g} with a beta spread; it must lie inside (0, 1)")
        total = mean * (1 - mean) / self.sigma**2 - 1 if self.sigma > 0 else math.inf
        if total <= 0:
            wide = f"{self.sigma:g} is too wide for a beta law with mean {mean:g}"
            most = math.sqrt(mean * (1 - mean))
            raise InputError("spread.sigma", f"{wide}; it must be below {most:.4g}")
        return mean * total, (1 - mean) * total

    def proxy(self, means: FloatArray) -> float:
        """Return the largest 1 / (2 √(α + β + 1)), a valid proxy (Marchal, Arbel 2017)."""
        if self.sigma == 0:
            return 0.0
        return max(0.5 / math.sqrt(sum(self.parameters(float(mean))) + 1) for mean in means)

    def support(self, mean: float) -> tuple[float, float]:
        """Return [0, 1], or only the mean if there is no spread."""
        self.parameters(mean)
        return (mean, mean) if self.sigma == 0 else (0.0, 1.0)

    def draw(self, rng: Rng, mean: float, n_clients: int) -> FloatArray:
        """Return beta-distributed local means."""
        if self.sigma == 0:
            return np.full(n_clients, mean)
        return rng.beta(*self.parameters(mean), size=n_clients)


LAWS: Registry[Law] = Registry(
    "a law",
    group="fedbandits.laws",
    key="law",
    roles=(NoiseLaw, SpreadLaw),
    built_in=(Gaussian, Uniform, Bernoulli, Beta),
)
"""The laws by their names in experiment files; `Empirical` comes with the observations instead."""
