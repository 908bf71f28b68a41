r"""The orders of regret that the paper states: corollaries, Tables 2 and 3, the Lai-Robbins slope.

These are what stands inside an O(·) or a limit: no bounds at a finite horizon, but what a computed
bound or a simulated regret is compared with when T, Δ or C changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedbandits.rules.arrays import FloatArray, IntArray


def lai_robbins_slope(means: FloatArray, *, noise: str, sigma: float | None = None) -> float:
    r"""Return the slope of Eqn. (2): :math:`\sum_{k \ne k_*} \Delta_k / \mathrm{kl}(\mu_k, \mu_*)`.

    A lower bound in the limit: no consistent single player keeps its regret divided by log T below
    the slope as T grows (the limit inferior is at least this), and most stay above it for good. At
    a finite horizon a regret below the slope times log T contradicts nothing.

    Parameters
    ----------
    means : array, shape (arms,)
        Global means.
    noise : {"gaussian", "bernoulli"}
        The law of the rewards.
    sigma : float, optional
        Standard deviation of gaussian rewards.

    Examples
    --------
    >>> means = np.array([0.70, 0.71, 0.72, 0.73, 0.74, 0.75, 0.76, 0.765, 0.77, 0.79])
    >>> round(lai_robbins_slope(means, noise="gaussian", sigma=0.5) * math.log(10**6))
    1540
    """
    best = float(means.max())
    others = means[means < best]
    gaps = best - others
    if noise == "gaussian":
        if sigma is None:
            raise ValueError("gaussian rewards need their standard deviation")
        return float((2 * sigma**2 / gaps).sum())
    if noise != "bernoulli":
        raise ValueError(f"no divergence for {noise} rewards")
    divergence = others * np.log(others / best) + (1 - others) * np.log((1 - others) / (1 - best))
    return float((gaps / divergence).sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOrder:
    """A row of Table 2 or 3: what a schedule does to the phases and to the order of the regret.

    Parameters
    ----------
    schedule : str
        The expression.
    phases : array of int, shape (arms - 1,)
        The table's upper bound on :math:`p_k`.
    exploration, communication : float
        What stands inside the O(·), the latter with C.
    """

    schedule: str
    phases: IntArray
    exploration: float
    communication: float


def fed2_orders(
    gaps: FloatArray,
    *,
    noise: float,
    spread: float,
    horizon: int,
    cost: float,
    pulls: float,
    admissions: float,
) -> list[ScheduleOrder]:
    r"""Return Table 2: Fed2-UCB with f(p) = κ and four choices of g(p).

    The logarithm in the last two :math:`p_k` is base 2, and the second row has the 1/λ in its
    communication term that the paper's lacks. The third row is Corollary 1.

    Parameters
    ----------
    gaps : array, shape (arms - 1,)
        Δ_k.
    noise, spread, horizon, cost
        σ, σ_c, T and C.
    pulls, admissions : float
        κ and λ.
    """
    log = math.log(horizon)
    scale = (noise / math.sqrt(pulls) + spread) ** 2
    smallest = float(gaps.min())
    needed = 96 * scale * log / gaps**2
    by_lambda = (pulls * scale**2 / (admissions * gaps**3)).sum()
    by_lambda_messages = cost * scale**2 / (admissions * smallest**4)
    doubling = (pulls * scale * log / gaps).sum()
    doubling_messages = cost * scale * log / smallest**2
    return _rows(
        (f"{admissions:g}", needed / admissions, by_lambda * log**2, by_lambda_messages * log**2),
        (
            f"ceil({admissions:g}*log(T))",
            needed / (admissions * log),
            by_lambda * log,
            by_lambda_messages * log,
        ),
        ("2^p", np.log2(needed), doubling, doubling_messages),
        ("ceil(2^p*log(T))", np.log2(needed / log), doubling, doubling_messages),
    )


def fed1_orders(
    gaps: FloatArray, *, noise: float, clients: int, horizon: int, cost: float, pulls: float
) -> list[ScheduleOrder]:
    r"""Return Table 3: Fed1-UCB with four choices of f(p).

    The logarithm in the last two :math:`p_k` is base 2. The second row is Corollary 2.

    Parameters
    ----------
    gaps : array, shape (arms - 1,)
        Δ_k.
    noise, clients, horizon, cost
        σ, M, T and C.
    pulls : float
        κ.
    """
    log = math.log(horizon)
    smallest = float(gaps.min())
    needed = 96 * noise**2 * log / (clients * gaps**2)
    exploration = float((noise**2 * log / gaps).sum())
    messages = noise**2 / (pulls * smallest**2)
    doubling, doubling_log = (
        cost * clients * _doublings(part / (clients * smallest**2))
        for part in (noise**2 * log, noise**2)
    )
    return _rows(
        (f"{pulls:g}", needed / pulls, exploration, cost * messages * log),
        (f"ceil({pulls:g}*log(T))", needed / (pulls * log), exploration, cost * messages),
        ("2^p", np.log2(needed), exploration, doubling),
        ("ceil(2^p*log(T))", np.log2(needed / log), exploration, doubling_log),
    )


def _doublings(ratio: float) -> float:
    """Return how often 1 is doubled to reach a ratio, at least once."""
    return max(math.log2(ratio), 1.0)


def _rows(*rows: tuple[str, FloatArray, float, float]) -> list[ScheduleOrder]:
    """Return the rows of a table; there are whole numbers of phases, at least one."""
    return [
        ScheduleOrder(
            schedule=schedule,
            phases=np.maximum(np.ceil(phases), 1).astype(np.int64),
            exploration=float(exploration),
            communication=float(communication),
        )
        for schedule, phases, exploration, communication in rows
    ]
