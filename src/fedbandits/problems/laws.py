"""Laws: how observations scatter around a local mean, and local means around a global one.

A law is a distribution *around a given mean*. `Gaussian` and `Uniform` serve as noise and as
spread, `Bernoulli` and `Empirical` as noise, `Beta` as spread. Each states its subgaussian
variance proxy, which is what a rule is told by default.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from fedbandits.errors import LARGEST, InputError, check_not_negative
from fedbandits.registry import Registry
from fedbandits.rules.arrays import FloatArray, IntArray


class Law(Protocol):
    """A distribution around a mean."""

    @property
    def law(self) -> str:
        """The name in experiment files."""
        ...

    def proxy(self, means: FloatArray) -> float:
        """Return the square root of a variance proxy that is valid around all these means."""
        ...


class NoiseLaw(Law, Protocol):
    """How one observation scatters around the local mean.

    ``means`` holds local means and ``cells`` says whose they are (client × arms + arm), which only
    laws that are given client by client look at; the two have one shape.
    """

    @property
    def sums_in_closed_form(self) -> bool:
        """Whether `phase_sums` can be drawn without drawing every observation."""
        ...

    def check_means(self, lowest: float, highest: float, where: str) -> None:
        """Refuse local means that the law cannot have."""
        ...

    def variates(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> FloatArray:
        """Return raw variates, one for every observation that `observe` will make of them."""
        ...

    def observe(
        self, variates: FloatArray, means: FloatArray | float, cells: IntArray | int | None
    ) -> FloatArray:
        """Return one observation for every variate."""
        ...

    def phase_sums(
        self,
        rng: np.random.Generator,
        pulls: int,
        means: FloatArray,
        cells: IntArray | None,
        out: FloatArray | None = None,
    ) -> FloatArray:
        """Return, for every local mean, the sum of ``pulls`` fresh observations.

        ``out`` is room that the law may use for them, of the shape of ``means``.
        """
        ...

    def phase_moments(
        self,
        rng: np.random.Generator,
        pulls: int,
        means: FloatArray,
        cells: IntArray | None,
        out: FloatArray | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Return `phase_sums`, the same to the last bit, and sums of squares around their means.

        Both are from their exact joint law.
        """
        ...


class SpreadLaw(Law, Protocol):
    """How local means scatter around the global mean."""

    def support(self, mean: float) -> tuple[float, float]:
        """Return the lowest and the highest local mean around a global mean."""
        ...

    def draw(self, rng: np.random.Generator, mean: float, n_clients: int) -> FloatArray:
        """Return the local means of ``n_clients`` independent clients."""
        ...


def _check_sigma(sigma: float) -> None:
    check_not_negative(sigma, "sigma")
    if 0 < sigma < 1 / LARGEST:
        raise InputError("sigma", f"{sigma} is too small; give 0, or at least {1 / LARGEST:g}")


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Normal with standard deviation ``sigma``: as noise or as spread.

    Examples
    --------
    >>> sums = Gaussian(0.5).phase_sums(np.random.default_rng(1), 100, np.array([0.2, 0.8]), None)
    >>> sums.round(2)
    array([21.73, 84.11])
    """

    law: ClassVar[str] = "gaussian"
    sums_in_closed_form: ClassVar[bool] = True

    sigma: float

    def __post_init__(self) -> None:
        _check_sigma(self.sigma)

    def proxy(self, means: FloatArray) -> float:
        """Return the standard deviation, which is a normal law's own proxy."""
        return self.sigma

    def check_means(self, lowest: float, highest: float, where: str) -> None:
        """Accept any mean."""

    def variates(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> FloatArray:
        """Return standard normals."""
        return rng.standard_normal(size)

    def observe(
        self, variates: FloatArray, means: FloatArray | float, cells: IntArray | int | None
    ) -> FloatArray:
        """Return normal observations."""
        return means + self.sigma * variates

    def phase_sums(
        self,
        rng: np.random.Generator,
        pulls: int,
        means: FloatArray,
        cells: IntArray | None,
        out: FloatArray | None = None,
    ) -> FloatArray:
        """Return normal sums."""
        # In place: for a row of many clients, memory traffic costs as much as drawing.
        sums = rng.standard_normal(out=out) if out is not None else rng.standard_normal(means.shape)
        sums *= self.sigma / math.sqrt(pulls)
        sums += means
        sums *= float(pulls)
        return sums

    def phase_moments(
        self,
        rng: np.random.Generator,
        pulls: int,
        means: FloatArray,
        cells: IntArray | None,
        out: FloatArray | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Return normal sums and, independent of them, squares: σ² times chi-square."""
        sums = self.phase_sums(rng, pulls, means, cells, out)
        if pulls == 1:
            return sums, np.zeros(means.shape)
        return sums, self.sigma**2 * rng.chisquare(pulls - 1, means.shape)

    def support(self, mean: float) -> tuple[float, float]:
        """Return the whole line, or the mean alone when there is no spread."""
        return (mean, mean) if self.sigma == 0 else (-math.inf, math.inf)

    def draw(self, rng: np.random.Generator, mean: float, n_clients: int) -> FloatArray:
        """Return normal local means."""
        means = rng.standard_normal(n_clients)
        means *= self.sigma
        means += mean
        return means


@dataclass(frozen=True, slots=True)
class Uniform:
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

    sigma: float

    def __post_init__(self) -> None:
        _check_sigma(self.sigma)

    def proxy(self, means: FloatArray) -> float:
        """Return the standard deviation, which is a valid proxy for a uniform law."""
        return self.sigma

    def check_means(self, lowest: float, highest: float, where: str) -> None:
        """Accept any mean."""

    def variates(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> FloatArray:
        """Return uniforms on [0, 1)."""
        return rng.random(size)

    def observe(
        self, variates: FloatArray, means: FloatArray | float, cells: IntArray | int | None
    ) -> FloatArray:
        """Return uniform observations."""
        return means + (2.0 * variates - 1.0) * (math.sqrt(3.0) * self.sigma)

    def phase_sums(
        self,
        rng: np.random.Generator,
        pulls: int,
        means: FloatArray,
        cells: IntArray | None,
        out: FloatArray | None = None,
    ) -> FloatArray:
        """Refuse: see ``sums_in_closed_form``."""
        raise InputError("noise", 'a sum of uniforms has no closed form; use fidelity = "pulls"')

    def phase_moments(
        self,
        rng: np.random.Generator,
        pulls: int,
        means: FloatArray,
        cells: IntArray | None,
        out: FloatArray | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Refuse: see ``sums_in_closed_form``."""
        sums = self.phase_sums(rng, pulls, means, cells, out)
        return sums, sums

    def support(self, mean: float) -> tuple[float, float]:
        """Return the mean ± √3 σ."""
        half = math.sqrt(3.0) * self.sigma
        return mean - half, mean + half

    def draw(self, rng: np.random.Generator, mean: float, n_clients: int) -> FloatArray:
        """Return uniform local means."""
        return self.observe(self.variates(rng, n_clients), mean, None)


@dataclass(frozen=True, slots=True)
class Bernoulli:
    """One with the local mean as probability, else zero: as noise.

    Examples
    --------
    >>> Bernoulli().phase_sums(np.random.default_rng(1), 100, np.array([0.2, 0.8]), None)
    array([20., 73.])
    """

    law: ClassVar[str] = "bernoulli"
    sums_in_closed_form: ClassVar[bool] = True

    def proxy(self, means: FloatArray) -> float:
        """Return 1/2, the proxy of any law on [0, 1]."""
        return 0.5

    def check_means(self, lowest: float, highest: float, where: str) -> None:
        """Refuse local means that are no probabilities."""
        if lowest < 0 or highest > 1:
            raise InputError(
                where,
                f"local means from {lowest:g} to {highest:g} with bernoulli noise; a probability "
                "lies in [0, 1] (use a beta spread, or gaussian noise)",
            )

    def variates(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> FloatArray:
        """Return uniforms on [0, 1)."""
        return rng.random(size)

    def observe(
        self, variates: FloatArray, means: FloatArray | float, cells: IntArray | int | None
    ) -> FloatArray:
        """Return zeros and ones."""
        return np.asarray(variates < means, dtype=np.float64)

    def phase_sums(
        self,
        rng: np.random.Generator,
        pulls: int,
        means: FloatArray,
        cells: IntArray | None,
        out: FloatArray | None = None,
    ) -> FloatArray:
        """Return binomial sums."""
        return rng.binomial(pulls, means).astype(np.float64)

    def phase_moments(
        self,
        rng: np.random.Generator,
        pulls: int,
        means: FloatArray,
        cells: IntArray | None,
        out: FloatArray | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Return binomial sums s, and squares s(n − s)/n, which they determine."""
        sums = self.phase_sums(rng, pulls, means, cells, out)
        return sums, sums * (pulls - sums) / pulls


@dataclass(frozen=True, slots=True, eq=False)
class Empirical:
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
    sums_in_closed_form: ClassVar[bool] = True
    _MOST_ENTRIES: ClassVar[int] = 50_000_000

    support: FloatArray
    probabilities: FloatArray
    sizes: IntArray

    @classmethod
    def of(cls, observations: Sequence[Sequence[Sequence[float]]]) -> Empirical:
        """Return the law of nested lists: client, arm, values."""
        if not observations or not observations[0]:
            raise InputError(
                "observations", "is empty; give a list of lists of values for a client"
            )
        n_arms = len(observations[0])
        if n_arms == 1:
            raise InputError("observations", "has one arm; a game needs at least two")
        for m, row in enumerate(observations):
            if len(row) != n_arms:
                raise InputError(
                    f"observations[{m}]", f"{len(row)} arms where observations[0] has {n_arms}"
                )
            for k, values in enumerate(row):
                if len(values) == 0:
                    raise InputError(
                        f"observations[{m}][{k}]",
                        "is empty; every client needs a value of every arm",
                    )
                if not (np.abs(np.asarray(values, dtype=np.float64)) <= LARGEST).all():
                    raise InputError(
                        f"observations[{m}][{k}]",
                        f"holds a value that is not a number of at most {LARGEST:g}",
                    )
        cells = [np.asarray(values, dtype=np.float64) for row in observations for values in row]
        support = np.unique(np.concatenate(cells))
        if len(cells) * support.size > cls._MOST_ENTRIES:
            raise InputError(
                "observations",
                f"{support.size} different values of {len(cells)} clients and arms; at most "
                f"{cls._MOST_ENTRIES // len(cells)} fit into memory (round the values)",
            )
        probabilities = np.zeros((len(cells), support.size))
        for shares, listed in zip(probabilities, cells, strict=True):
            places, times = np.unique(np.searchsorted(support, listed), return_counts=True)
            shares[places] = times / listed.size
        return cls(support, probabilities, np.array([values.size for values in cells]))

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

    def pooled(self, n_arms: int, weights: FloatArray | None = None) -> Empirical:
        """Return the law of one client who draws every value from a client at random.

        Clients are drawn with these probabilities, equal ones by default.
        """
        by_client = self.probabilities.reshape(-1, n_arms, self.support.size)
        if weights is None:
            shares = by_client.mean(axis=0)
        else:
            shares = np.tensordot(weights, by_client, axes=1)
            shares /= shares.sum(axis=-1, keepdims=True)  # they add up to 1 but for rounding
        return Empirical(self.support, shares, self.sizes.reshape(-1, n_arms).sum(axis=0))

    def proxy(self, means: FloatArray) -> float:
        """Return half of the range of the values."""
        return float(self.support[-1] - self.support[0]) / 2

    def check_means(self, lowest: float, highest: float, where: str) -> None:
        """Accept any mean: the means are those of the lists."""

    def variates(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> FloatArray:
        """Return uniforms on [0, 1)."""
        return rng.random(size)

    def observe(
        self,
        variates: FloatArray,
        means: FloatArray | float,
        cells: IntArray | int | None,
    ) -> FloatArray:
        """Return values from the lists, by inversion."""
        steps = np.cumsum(self.probabilities[_given(cells)], axis=-1)
        last = self.support.size - 1
        if steps.ndim == 1:
            places = np.searchsorted(steps, variates, side="right")
        else:
            places = (variates[..., np.newaxis] >= steps).sum(axis=-1)
        return np.asarray(self.support[np.minimum(places, last)])

    def phase_sums(
        self,
        rng: np.random.Generator,
        pulls: int,
        means: FloatArray,
        cells: IntArray | None,
        out: FloatArray | None = None,
    ) -> FloatArray:
        """Return sums of multinomial draws."""
        times = rng.multinomial(pulls, self.probabilities[_given(cells)])
        return np.asarray(times @ self.support, dtype=np.float64)

    def phase_moments(
        self,
        rng: np.random.Generator,
        pulls: int,
        means: FloatArray,
        cells: IntArray | None,
        out: FloatArray | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Return sums and squares of multinomial draws."""
        times = rng.multinomial(pulls, self.probabilities[_given(cells)])
        sums = np.asarray(times @ self.support, dtype=np.float64)
        apart = self.support - sums[..., np.newaxis] / pulls
        return sums, np.asarray((times * apart**2).sum(axis=-1))


def _given(cells: IntArray | int | None) -> IntArray | int:
    if cells is None:
        raise InputError("noise", "empirical noise needs clients that are given one by one")
    return cells


@dataclass(frozen=True, slots=True)
class Beta:
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

    sigma: float

    def __post_init__(self) -> None:
        _check_sigma(self.sigma)

    def parameters(self, mean: float) -> tuple[float, float]:
        """Return α and β of the law with this mean."""
        if not 0 < mean < 1:
            raise InputError("means", f"{mean:g} with a beta spread; it must lie inside (0, 1)")
        total = mean * (1 - mean) / self.sigma**2 - 1 if self.sigma > 0 else math.inf
        if total <= 0:
            raise InputError(
                "spread.sigma",
                f"{self.sigma:g} is too wide for a beta law with mean {mean:g}; "
                f"it must be below {math.sqrt(mean * (1 - mean)):.4g}",
            )
        return mean * total, (1 - mean) * total

    def proxy(self, means: FloatArray) -> float:
        """Return the largest 1 / (2 √(α + β + 1)), a valid proxy (Marchal, Arbel 2017)."""
        if self.sigma == 0:
            return 0.0
        return max(0.5 / math.sqrt(sum(self.parameters(float(mean))) + 1) for mean in means)

    def support(self, mean: float) -> tuple[float, float]:
        """Return [0, 1], or the mean alone when there is no spread."""
        self.parameters(mean)
        return (mean, mean) if self.sigma == 0 else (0.0, 1.0)

    def draw(self, rng: np.random.Generator, mean: float, n_clients: int) -> FloatArray:
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
