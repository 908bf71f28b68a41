r"""How much privacy releases spend: zero-concentrated differential privacy (zCDP), and (ε, δ).

A release of a value of sensitivity Δ with Gaussian noise of standard deviation s is ρ-zCDP with
:math:`\rho = \Delta^2 / (2 s^2)`; with Laplace noise of scale β it is ε₀-differentially private
with :math:`\varepsilon_0 = \Delta_1 / \beta`, and so :math:`\varepsilon_0^2 / 2`-zCDP. ρ adds up
over releases of the same data. Eliminations are computed from what was released and cost nothing
more; counts are public.

References
----------
Bun and Steinke (2016), "Concentrated differential privacy: simplifications, extensions, and lower
bounds". Canonne, Kamath and Steinke (2020), "The discrete Gaussian for differential privacy",
Proposition 12, for the conversion.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy import optimize

from fedbandits.errors import InputError


def gaussian_rho(sensitivity: float, scale: float) -> float:
    r"""Return ρ of a release with Gaussian noise: :math:`\Delta^2 / (2 s^2)`.

    Examples
    --------
    >>> round(gaussian_rho(0.01, 0.1), 12)
    0.005
    """
    return sensitivity**2 / (2.0 * scale**2)


def laplace_rho(sensitivity: float, scale: float) -> float:
    r"""Return ρ of a release with Laplace noise: :math:`(\Delta_1 / \beta)^2 / 2`.

    Examples
    --------
    >>> round(laplace_rho(0.01, 0.1), 12)
    0.005
    """
    return (sensitivity / scale) ** 2 / 2.0


def gaussian_scale(sensitivity: float, rho: float) -> float:
    """Return the standard deviation of the noise that spends ρ.

    Examples
    --------
    >>> round(gaussian_scale(0.01, gaussian_rho(0.01, 0.1)), 12)
    0.1
    """
    return sensitivity / math.sqrt(2.0 * rho)


def epsilon_of(rho: float, delta: float) -> float:
    r"""Return ε such that ρ-zCDP is (ε, δ)-differentially private.

    The smallest over orders α > 1 of :math:`\alpha\rho + \ln(1 - 1/\alpha) - \ln(\delta \alpha) /
    (\alpha - 1)`, which solves :math:`\delta = e^{(\alpha-1)(\alpha\rho-\varepsilon)} (1 -
    1/\alpha)^\alpha / (\alpha - 1)` for ε.

    Examples
    --------
    >>> round(epsilon_of(0.1, 1e-6), 3)
    2.142
    >>> epsilon_of(0.0, 1e-6)
    0.0
    """
    check_delta(delta)
    if rho < 0:
        raise InputError("rho", f"{rho:g} is negative; a release spends something or nothing")
    if rho == 0:
        return 0.0

    def epsilon(log_excess: float) -> float:
        order = 1.0 + math.exp(log_excess)
        return order * rho + math.log1p(-1.0 / order) - math.log(delta * order) / (order - 1.0)

    # The minimum lies near α = 1 + √(ln(1/δ)/ρ).
    middle = 0.5 * math.log(math.log(1.0 / delta) / rho)
    found = optimize.minimize_scalar(
        epsilon, bounds=(middle - 10.0, middle + 10.0), method="bounded", options={"xatol": 1e-9}
    )
    return max(0.0, float(found.fun))


def rho_of(epsilon: float, delta: float) -> float:
    """Return the largest ρ that is (ε, δ)-differentially private.

    Examples
    --------
    >>> round(epsilon_of(rho_of(2.0, 1e-6), 1e-6), 9)
    2.0
    """
    check_epsilon(epsilon)
    check_delta(delta)
    low, high = -60.0, math.log(epsilon) + 1.0  # ρ-zCDP is never better than ρ
    found = optimize.brentq(
        lambda log_rho: epsilon_of(math.exp(log_rho), delta) - epsilon, low, high, xtol=1e-13
    )
    return math.exp(float(found) - 1e-12)


def event_rho(releases: Sequence[float], observations: int = 1) -> float:
    """Return ρ of one observation, or of a person with at most so many: the largest release.

    An observation enters one release only, so that releases of different phases do not add up. A
    person with at most c observations changes the sums of phases by at most c observations in all,
    which is worst where they fall into one: c² times as much.

    Parameters
    ----------
    releases : sequence of float
        ρ of every release, for one observation changed.
    observations : int
        c.

    Examples
    --------
    >>> event_rho([0.01, 0.03, 0.02]), event_rho([0.01, 0.03], observations=2)
    (0.03, 0.12)
    """
    return observations**2 * max(releases, default=0.0)


def user_rho(releases: Sequence[float]) -> float:
    """Return ρ of a whole client: all of its releases add up.

    Examples
    --------
    >>> user_rho([0.25, 0.5])
    0.75
    """
    return math.fsum(releases)


def check_epsilon(epsilon: float) -> None:
    """Refuse an ε that is none."""
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise InputError("epsilon", f"{epsilon:g} is not a positive number")


def check_delta(delta: float) -> None:
    """Refuse a δ that is none."""
    if not 0.0 < delta < 1.0:
        raise InputError("delta", f"{delta:g} is not between 0 and 1")
