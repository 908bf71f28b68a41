"""What is known after a phase, and what a radius makes of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from fedbandits.errors import InputError
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.distortion import UNDISTORTED, Distortion, sub_gamma_width


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseStatistics:
    """What is known after a phase; leading axes are free, and arm axes of length 1 stand for all.

    Parameters
    ----------
    phase : int or array of int
        The phase that has just been played, from 1.
    active : array of bool, shape (..., arms)
        The arms that it played.
    estimates : array, shape (..., arms)
        Global estimates; a higher one is better.
    pull_variance, client_variance : array, shape (..., arms)
        The two parts of an estimate's variance proxy: what too few pulls and what too few clients
        leave open.
    n_arms : int
        K: also the arms that are out already count in a bound over all arms.
    horizon : int, optional
        T; None where there is none.
    pull_factor : array, shape (..., arms)
        η: ``pull_variance`` for outcomes of variance 1.
    heaviest_pull : array, shape (..., arms)
        The largest weight that a single pull has in an estimate: 1 over all pulls if they are
        spread evenly over clients.
    client_means : array, shape (..., arms, clients), optional
        The mean of every client, for rules that need them one by one.
    clients : float or array, shape (...)
        How many have pulled any arm, for rules that reckon with all that clients ever pull.
    even : bool or array of bool, shape (..., arms)
        Whether all clients that exist have pulled an arm, and equally often.
    independent_clients : bool
        Whether clients are drawn independently of each other; not so from a finite population.
    distortion : Distortion
        What the protection of clients' means leaves in an estimate; nothing by default.
    """

    phase: int | IntArray
    active: BoolArray
    estimates: FloatArray
    pull_variance: FloatArray
    client_variance: FloatArray
    n_arms: int
    horizon: int | None
    pull_factor: FloatArray
    heaviest_pull: FloatArray
    client_means: FloatArray | None = None
    clients: FloatArray | float = 1.0
    even: BoolArray | bool = True
    independent_clients: bool = False
    distortion: Distortion = UNDISTORTED

    @property
    def variance(self) -> FloatArray:
        """v, the variance proxy of an estimate, before means were protected."""
        return np.asarray(self.pull_variance + self.client_variance)

    def of_active(self, values: FloatArray) -> FloatArray:
        """Return values of arms, or the largest of any active arm where that is larger."""
        if np.ndim(values) == 0 or values.shape[-1] == 1:
            return values
        among = np.where(self.active, values, 0.0).max(axis=-1, keepdims=True)
        return np.asarray(np.maximum(values, among))

    def widened(self, widths: FloatArray, estimates: int = 1) -> FloatArray:
        """Return widths with what biases of so many estimates can add to them.

        The paper's way is to double them, which is enough where the bias is no larger.
        """
        bias = estimates * self.of_active(self.distortion.bias)
        if self.distortion.doubled:
            return np.asarray(widths + np.maximum(widths, bias))
        return np.asarray(widths + bias)

    def log_horizon(self) -> float:
        """Return log T."""
        if self.horizon is None:
            raise ValueError("there is no horizon")
        return math.log(self.horizon)


@runtime_checkable
class Radius(Protocol):
    """How wide the intervals are, and what they decide: a frozen dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def rule(self) -> str:
        """The name in experiment files."""
        ...

    @property
    def needs_clients(self) -> bool:
        """Whether it needs the mean of every client, and not just their average."""
        ...

    def check_horizon(self, horizon: int | None) -> None:
        """Refuse a horizon, or none, that the widths cannot be computed for."""
        ...

    def half_widths(self, known: PhaseStatistics) -> FloatArray:
        """Return the half-width of the interval around each estimate, to be shown and logged."""
        ...

    def stays(self, known: PhaseStatistics) -> BoolArray:
        """Return the arms that stay active; the one with the highest estimate always does."""
        ...

    def margins(self, known: PhaseStatistics) -> FloatArray:
        """Return how far each arm may be below another active one, beyond the estimates."""
        ...


def need_horizon(rule: str, horizon: int | None) -> None:
    """Refuse a game without a horizon for a rule that has log T in its widths."""
    if horizon is None:
        raise InputError(
            "horizon",
            f'is missing; the radius "{rule}" has log T in its width (without a horizon use '
            '"certified")',
        )


def unbiased_width(
    variance: FloatArray, log: float | FloatArray, known: PhaseStatistics, estimates: int = 1
) -> FloatArray:
    r"""Return the width that a sum of so many estimates exceeds with probability :math:`e^{-L}`.

    :math:`\sqrt{2 (v + d) L} + c L`, biases apart: v of the observations, (d, c) of what protects
    them. Its errors are independent of everything else, so that d adds to v however arms depend on
    each other.

    Parameters
    ----------
    variance : array
        v, of all of the sum.
    log : float or array
        L.
    known : PhaseStatistics
        With the distortion of one estimate.
    estimates : int
        How many.
    """
    distortion = known.distortion
    added = estimates * known.of_active(distortion.variance)
    return sub_gamma_width(variance + added, known.of_active(distortion.scale), log)


def shared_log(known: PhaseStatistics, delta: float) -> FloatArray:
    r"""Return :math:`\ln((K-1)\,\pi^2 p^2 / (6\delta))`: δ over K − 1 rivals and all phases."""
    rivals = max(known.n_arms - 1, 1)
    phase = np.asarray(known.phase, dtype=np.float64)
    return np.asarray(np.log(rivals * math.pi**2 / (6.0 * delta)) + 2.0 * np.log(phase))


def example_statistics() -> PhaseStatistics:
    """Return something like figure 4's game after its first phases, for examples."""
    return PhaseStatistics(
        phase=1,
        active=np.array([True, True]),
        estimates=np.array([0.5, 0.6]),
        pull_variance=np.array(1e-5),
        client_variance=np.array(4e-6),
        n_arms=10,
        horizon=10**6,
        pull_factor=np.array(4e-5),
        heaviest_pull=np.array(4e-5),
    )
