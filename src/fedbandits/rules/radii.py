"""Radii: the half-width of the confidence interval around a global estimate.

A radius is a frozen value that is called with what is known in a phase and returns a width for
every arm; the rules take any object of the shape of `Radius`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from fedbandits.errors import check_not_negative
from fedbandits.rules.arrays import FloatArray, IntArray


class Radius(Protocol):
    """How wide the interval around a global estimate is."""

    def __call__(
        self,
        *,
        pull_variance: FloatArray,
        client_variance: FloatArray,
        horizon: int,
        phase: int | IntArray,
    ) -> FloatArray:
        """Return the half-width.

        Parameters
        ----------
        pull_variance : array
            σ²η: what too few pulls leave open.
        client_variance : array
            σ_c²(1/M − 1/N): what too few clients leave open.
        horizon : int
            T.
        phase : int or array of int
            The phase that has just been played, from 1.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperRadius:
    r"""Width of the paper's double confidence bound, :math:`B_{p,2}`.

    :math:`B_p = \sqrt{a\,\sigma^2 \eta_p \log T} + \sqrt{b\,\sigma_c^2 \log T / M(p)}`: the first
    term is what too few pulls leave open, the second what too few clients do. Without
    client-sampling variance the second vanishes and this is :math:`B_{p,1}` of Fed1-UCB.

    Parameters
    ----------
    arm, client : float, default 6.0
        Constants a and b. 6 carries the proofs of Theorems 2 and 3; smaller values, such as those
        of the authors' released scripts, eliminate sooner and lose them.

    References
    ----------
    Shi and Shen (2021), "Federated Multi-Armed Bandits", AAAI: the definition of :math:`B_{p,2}`.

    Examples
    --------
    >>> width = PaperRadius()(pull_variance=1e-5, client_variance=4e-6, horizon=10**6, phase=1)
    >>> float(width.round(4))
    0.047
    """

    rule: ClassVar[str] = "paper"

    arm: float = 6.0
    client: float = 6.0

    def __post_init__(self) -> None:
        for name in ("arm", "client"):
            check_not_negative(getattr(self, name), name)

    def __call__(
        self,
        *,
        pull_variance: FloatArray,
        client_variance: FloatArray,
        horizon: int,
        phase: int | IntArray,
    ) -> FloatArray:
        """Return the half-width; see `Radius`."""
        log = math.log(horizon)
        arms = np.sqrt(self.arm * log * np.asarray(pull_variance))
        return np.asarray(arms + np.sqrt(self.client * log * np.asarray(client_variance)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ImprovedUcbRadius:
    r"""Width of improved UCB, :math:`\sqrt{2\,\sigma^2 \log(T \tilde\Delta_m^2) / n_m}`.

    With :math:`\tilde\Delta_m = 2^{-m}` in the m-th phase, m from 0. Auer and Ortner state it for
    rewards in [0, 1] as :math:`\sqrt{\log(T \tilde\Delta_m^2) / (2 n_m)}`, which is σ = 1/2 here.

    References
    ----------
    Auer and Ortner (2010), "UCB revisited", Periodica Mathematica Hungarica 61, figure 1.

    Examples
    --------
    >>> radius = ImprovedUcbRadius()
    >>> width = radius(pull_variance=0.25 / 28, client_variance=0.0, horizon=10**6, phase=1)
    >>> float(width.round(4))
    0.4967
    """

    def __call__(
        self,
        *,
        pull_variance: FloatArray,
        client_variance: FloatArray,
        horizon: int,
        phase: int | IntArray,
    ) -> FloatArray:
        """Return the half-width; see `Radius`. A single player has no client variance."""
        log = math.log(horizon) - 2.0 * (np.asarray(phase) - 1) * math.log(2.0)
        return np.asarray(np.sqrt(2.0 * np.maximum(log, 0.0) * np.asarray(pull_variance)))
