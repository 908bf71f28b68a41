r"""How much privacy releases spend: Rényi divergences, added up, and (ε, δ).

What a release tells about data with and without a change is measured by the Rényi divergence
:math:`D_\alpha` between its two laws, for every order α > 1. Divergences of releases of the same
data add up, and the total is turned into (ε, δ) at the order that gives the smallest ε.

* A value of sensitivity Δ with Gaussian noise of standard deviation s has :math:`D_\alpha =
  \alpha\rho`, :math:`\rho = \Delta^2 / (2 s^2)`: it is ρ-zCDP (zero-concentrated).
* With Laplace noise of scale β it is ε₀-differentially private, :math:`\varepsilon_0 = \Delta_1 /
  \beta`, and so :math:`\varepsilon_0^2 / 2`-zCDP; its :math:`D_\alpha` is below both αε₀²/2 and ε₀.
  Where the change is spread over several values, Δ₁ is its sum: the divergence is convex in ε₀ and
  0 at 0, so the worst is all of it in one value.

Eliminations are computed from what was released and cost nothing more; counts are public. An
observation enters one release only, so that for one of them releases of different phases do not add
up: the largest counts. So it does for a person with at most c observations, with c times the
sensitivity, because the divergences are convex: they are worst if all c fall into one release. For
a whole client everything adds up.

The largest is taken at every order by itself. Releases with one kind of noise are ordered by their
scale, but Gaussian and Laplace noise are not: Laplace noise of ε₀ = 1.5 has ρ = 1.125 and ε = 1.5,
and Gaussian noise of the smaller ρ = 0.9 has ε = 7.3 at δ = 10⁻⁶.

On a lattice Gaussian noise spends no more than this. Laplace noise spends a little more, about 1/3
over the number of steps to a scale as a share: count one step to the sensitivity, and it is less.

After Bun and Steinke (2016), "Concentrated differential privacy: simplifications, extensions, and
lower bounds". Mironov (2017), "Rényi differential privacy", Proposition 6, for Laplace noise.
Canonne, Kamath and Steinke (2020), "The discrete Gaussian for differential privacy", for Gaussian
noise on a lattice and, Proposition 12, for the conversion.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from fedbandits import errors
from fedbandits.rules.arrays import FloatArray

# Orders are searched in steps of this size of log(α − 1), and then between two of them.
_LOG_STEP = 0.2

# exp of it and its products with what a release spends stay finite.
_LARGEST_LOG_ORDER = 400.0


@dataclass(frozen=True, slots=True)
class Spending:
    """What releases of the same data have spent together.

    Parameters
    ----------
    gaussian_rho : float
        The sum of ρ of the releases with Gaussian noise.
    laplaces : tuple of (float, int)
        ε₀ of the releases with Laplace noise, and how many had it; kept sorted, the largest first.
    or_else : tuple of Spending
        What was spent on other data instead; see `worst`.

    Examples
    --------
    >>> spent = Spending.laplace(0.1).times(3).plus(Spending.laplace(0.2))
    >>> spent
    Spending(gaussian_rho=0.0, laplaces=((0.2, 1), (0.1, 3)), or_else=())
    >>> round(spent.rho, 9), round(spent.epsilon(1e-6), 9)
    (0.035, 0.499984)
    >>> round(Spending.laplace(0.1).times(1000).epsilon(1e-6), 2)
    20.04
    """

    gaussian_rho: float = 0.0
    laplaces: tuple[tuple[float, int], ...] = ()
    or_else: tuple[Spending, ...] = ()

    def __post_init__(self) -> None:
        errors.check_not_negative(self.gaussian_rho, "gaussian_rho")
        times: Counter[float] = Counter()
        for epsilon, count in self.laplaces:
            errors.check_not_negative(epsilon, "laplaces")
            errors.check_count(count, "laplaces", 0)
            if epsilon > 0 and count > 0:
                times[float(epsilon)] += int(count)
        # What was spent is the same in any order, and so are two values of it.
        object.__setattr__(self, "laplaces", tuple(sorted(times.items(), reverse=True)))

    @classmethod
    def gaussian(cls, rho: float) -> Spending:
        """Return what one release with Gaussian noise spends.

        Examples
        --------
        >>> Spending.gaussian(0.5).rho
        0.5
        """
        return cls(gaussian_rho=rho)

    @classmethod
    def laplace(cls, epsilon: float) -> Spending:
        """Return what one release with Laplace noise spends.

        Examples
        --------
        >>> Spending.laplace(1.0).rho
        0.5
        """
        return cls(laplaces=((epsilon, 1),))

    def plus(self, other: Spending) -> Spending:
        """Return what both have spent together.

        Examples
        --------
        >>> Spending.gaussian(0.25).plus(Spending.gaussian(0.5)).gaussian_rho
        0.75
        """
        return _worst_of(
            Spending(one.gaussian_rho + two.gaussian_rho, one.laplaces + two.laplaces)
            for one in self._branches
            for two in other._branches
        )

    def times(self, releases: int) -> Spending:
        """Return what this many times as much spends.

        Examples
        --------
        >>> Spending.laplace(0.5).times(10**6).laplaces
        ((0.5, 1000000),)
        """
        errors.check_count(releases, "releases", 0)
        return _worst_of(
            Spending(
                branch.gaussian_rho * releases,
                tuple((epsilon, count * releases) for epsilon, count in branch.laplaces),
            )
            for branch in self._branches
        )

    def worst(self, other: Spending) -> Spending:
        """Return what one or the other has spent: at every order, the larger divergence.

        Examples
        --------
        >>> both = Spending.laplace(1.5).worst(Spending.gaussian(0.9))
        >>> both.rho, round(both.epsilon(1e-6), 1)
        (1.125, 7.3)
        """
        return _worst_of((*self._branches, *other._branches))

    @property
    def _branches(self) -> tuple[Spending, ...]:
        """All branches of which the largest counts."""
        return (Spending(self.gaussian_rho, self.laplaces), *self.or_else)

    @property
    def rho(self) -> float:
        """ρ of all of it, as zero-concentrated differential privacy."""
        return max(
            math.fsum([branch.gaussian_rho, *(n * each**2 / 2.0 for each, n in branch.laplaces)])
            for branch in self._branches
        )

    @property
    def pure_epsilon(self) -> float:
        """ε without any δ: the sum of ε₀; infinite if there is Gaussian noise."""
        if any(branch.gaussian_rho > 0 for branch in self._branches):
            return math.inf
        return max(
            math.fsum(count * epsilon for epsilon, count in branch.laplaces)
            for branch in self._branches
        )

    def epsilon(self, delta: float | None) -> float:
        r"""Return ε such that all of it is (ε, δ)-differentially private.

        The smallest over orders α > 1 of :math:`D_\alpha + \ln(1 - 1/\alpha) - \ln(\delta \alpha) /
        (\alpha - 1)`, which solves :math:`\delta = e^{(\alpha-1)(D_\alpha-\varepsilon)} (1 -
        1/\alpha)^\alpha / (\alpha - 1)` for ε. It is right at every order, so that a search that
        missed the best would cost some ε and no privacy.

        Parameters
        ----------
        delta : float or None
            δ; without one the result is `pure_epsilon`.

        Examples
        --------
        >>> Spending.laplace(0.5).epsilon(None), Spending.gaussian(0.1).epsilon(None)
        (0.5, inf)
        >>> round(Spending.gaussian(0.1).epsilon(1e-6), 3)
        2.142
        """
        if delta is None:
            return self.pure_epsilon
        check_delta(delta)
        if self == Spending():
            return 0.0
        log_delta = math.log(delta)

        def bound(log_excess: FloatArray) -> FloatArray:
            excess = np.exp(log_excess)
            return np.asarray(
                self._divergence(excess)
                - np.log1p(1.0 / excess)
                - (log_delta + np.log1p(excess)) / excess
            )

        # Gaussian noise has its best order near α = 1 + √(ln(1/δ)/ρ), Laplace noise above that; and
        # orders far above 1/δ are never the best. In between there may be two valleys.
        least = -5.0 - 0.5 * math.log(max(1.0, self.rho / -log_delta))
        most = min(5.0 - log_delta, _LARGEST_LOG_ORDER)
        steps = np.arange(least, most, _LOG_STEP)
        best = steps[np.argmin(bound(steps))]
        from scipy import optimize  # noqa: PLC0415 - slow to import, and rarely needed

        found = optimize.minimize_scalar(
            lambda log_excess: float(bound(np.array([log_excess]))[0]),
            bounds=(best - _LOG_STEP, best + _LOG_STEP),
            method="bounded",
            options={"xatol": 1e-9},
        )
        return max(0.0, min(self.pure_epsilon, float(found.fun)))

    def _divergence(self, excess: FloatArray) -> FloatArray:
        """Return the Rényi divergences of orders α, given as α − 1."""
        found = []
        for branch in self._branches:
            total = (1.0 + excess) * branch.gaussian_rho
            if branch.laplaces:
                epsilons, counts = np.array(branch.laplaces).T
                total = total + counts @ laplace_divergence(epsilons[:, None], excess)
            found.append(total)
        return np.asarray(np.maximum.reduce(found))

    def _within(self, other: Spending) -> bool:
        """Return whether this branch spends no more than another at any order, one by one."""
        return self.gaussian_rho <= other.gaussian_rho and all(
            sum(n for each, n in self.laplaces if each >= least)
            <= sum(n for each, n in other.laplaces if each >= least)
            for least, _ in self.laplaces
        )


def _worst_of(branches: Iterable[Spending]) -> Spending:
    """Return branches as one, without those that never spend more than another."""
    kept: list[Spending] = []
    for branch in sorted(set(branches), key=lambda one: (one.gaussian_rho, one.laplaces)):
        kept = [one for one in kept if not one._within(branch)]
        if not any(branch._within(one) for one in kept):
            kept.append(branch)
    *others, first = kept
    return Spending(first.gaussian_rho, first.laplaces, tuple(others))


UNBOUNDED = Spending(gaussian_rho=errors.LARGEST)
"""What a release without any noise spends: more than any budget has."""


def laplace_divergence(epsilon: float | FloatArray, excess: float | FloatArray) -> FloatArray:
    r"""Return the Rényi divergence of a release with Laplace noise.

    :math:`D_\alpha = \frac{1}{\alpha-1} \ln\left( \frac{\alpha}{2\alpha-1} e^{(\alpha-1)
    \varepsilon_0} + \frac{\alpha-1}{2\alpha-1} e^{-\alpha\varepsilon_0} \right)`.

    Parameters
    ----------
    epsilon : float or array
        ε₀.
    excess : float or array
        α − 1, which near α = 1 has more digits than α.

    Examples
    --------
    >>> laplace_divergence(0.5, np.array([1e-6, 1.0, 1e6])).round(4)
    array([0.1065, 0.2003, 0.5   ])
    """
    near = np.asarray(excess / (1.0 + 2.0 * excess))
    grown = np.asarray(excess * epsilon)
    # The logarithm is of nearly 1 if little is spent, and of infinity if much is; each has
    # its own way of writing the sum.
    little = np.log1p(
        (1.0 - near) * np.expm1(np.minimum(grown, 1.0)) + near * np.expm1(-(grown + epsilon))
    )
    much = grown + np.log1p(near * np.expm1(-(2.0 * grown + epsilon)))
    return np.asarray(np.where(grown < 1.0, little, much) / excess)


def rho_of(epsilon: float, delta: float) -> float:
    """Return the largest ρ that is (ε, δ)-differentially private.

    Examples
    --------
    >>> round(Spending.gaussian(rho_of(2.0, 1e-6)).epsilon(1e-6), 9)
    2.0
    """
    return _largest(Spending.gaussian, epsilon, delta, start=epsilon)


def laplace_epsilon_for(epsilon: float, delta: float, releases: int) -> float:
    """Return the largest ε₀ with which that many releases together are (ε, δ)-private.

    At least ε over the number of releases, which needs no δ.

    Parameters
    ----------
    epsilon, delta : float
        The budget.
    releases : int
        With Laplace noise.

    Examples
    --------
    >>> each = laplace_epsilon_for(2.0, 1e-6, 100)
    >>> round(each, 4), round(Spending.laplace(each).times(100).epsilon(1e-6), 9)
    (0.0432, 2.0)
    """
    errors.check_count(releases, "releases")
    return _largest(
        lambda each: Spending.laplace(each).times(releases),
        epsilon,
        delta,
        start=epsilon / releases,
    )


def _largest(
    spending: Callable[[float], Spending], epsilon: float, delta: float, start: float
) -> float:
    """Return the largest amount whose spending is (ε, δ)-differentially private, or just below."""
    errors.check_positive(epsilon, "epsilon", 2)
    check_delta(delta)

    def over(log_amount: float) -> float:
        return spending(math.exp(log_amount)).epsilon(delta) - epsilon

    safe = start if spending(start).epsilon(delta) <= epsilon else 0.0
    low = high = math.log(start)
    while over(low) > 0:
        low -= 2.0
    while over(high) <= 0:
        high += 2.0
    from scipy import optimize  # noqa: PLC0415 - slow to import, and rarely needed

    amount = math.exp(float(optimize.brentq(over, low, high, xtol=1e-12)))
    # Root finding ends on either side, and floating point rounds to either.
    while spending(amount).epsilon(delta) > epsilon:
        amount *= 1.0 - 1e-12
    return max(safe, amount)


def check_delta(delta: float) -> None:
    """Refuse an invalid δ."""
    errors.check_number(delta, "delta")
    if not 0.0 < delta < 1.0:
        raise errors.InputError(
            "delta", f"{delta:g} is not between 0 and 1; give a small one such as 1e-6"
        )
