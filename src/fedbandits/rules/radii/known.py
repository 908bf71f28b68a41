"""What is known after a phase, and what a radius concludes from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from fedbandits.errors import InputError, UnstatedError, check_word
from fedbandits.rules.abilities import Judge, Statement, unstated
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.contrasts import Contrasts, StandsLiars
from fedbandits.rules.distortion import sub_gamma_width
from fedbandits.rules.estimates import Estimate
from fedbandits.rules.guarantees import Condition, Guarantee, ProofContext, bounds_needed
from fedbandits.rules.levels import LevelLike, as_level, simultaneous_log
from fedbandits.rules.reports import Reports

Dependence: TypeAlias = Literal["independent", "any"]
"""Whether the arms of one client are independent, or may depend on each other in any way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseStatistics:
    """What is known after a phase; leading axes are free, and arm axes of length 1 stand for all.

    Parameters
    ----------
    phase : int or array of int
        The phase that has just been played, from 1.
    active : array of bool, shape (..., arms)
        The arms that it played.
    n_arms : int
        K: also the arms that are out already count in a bound over all arms.
    horizon : int, optional
        T; None if there is none.
    estimate : Estimate
        Of outcomes of which higher ones are better.
    way : StandsLiars, optional
        How arms are compared within clients, if some may lie.
    """

    phase: int | IntArray
    active: BoolArray
    n_arms: int
    horizon: int | None
    estimate: Estimate
    way: StandsLiars | None = None

    @property
    def within_clients(self) -> tuple[Contrasts, StandsLiars] | None:
        """What arms are compared by within clients, and how; None if averages are compared."""
        if self.estimate.contrasts is None:
            return None
        if self.way is None:
            raise ValueError("arms are compared within clients, and nobody says how")
        return self.estimate.contrasts, self.way

    def of_active(self, values: FloatArray) -> FloatArray:
        """Return values of arms, or the largest of any active arm if that is larger."""
        if np.ndim(values) == 0 or values.shape[-1] == 1:
            return values
        among = np.where(self.active, values, 0.0).max(axis=-1, keepdims=True)
        return np.asarray(np.maximum(values, among))

    def widened(self, widths: FloatArray, estimates: int = 1) -> FloatArray:
        """Return widths with what the biases of this many estimates can add.

        The paper's way is to double them, which is enough if the bias is no larger.
        """
        bias = estimates * self.of_active(self.estimate.distortion.bias)
        if self.estimate.distortion.doubled:
            return np.asarray(widths + np.maximum(widths, bias))
        return np.asarray(widths + bias)

    def log_horizon(self) -> float:
        """Return log T."""
        if self.horizon is None:
            raise ValueError("there is no horizon")
        return math.log(self.horizon)


def _unproven(radius: Radius, context: ProofContext) -> None:
    """Return that nothing is proven about intervals whose widths a class has replaced."""


# A class that replaces a method states what it proves, or proves nothing.
_JUDGE = Judge(
    {
        "guarantee": Statement(),
        "outlives_withdrawals": Statement(),
        "interval_conditions": Statement(about=("interval_widths",), instead=_unproven),
    }
)


class Radius:
    """How wide intervals are, and what they decide: a frozen dataclass.

    A class of your own states what is asked for here. Whatever it is asked and does not say is an
    error that names what to write.
    """

    __slots__ = ()

    __dataclass_fields__: ClassVar[dict[str, Any]]

    rule: ClassVar[str] = unstated("what it is called in files")
    uses_noise: ClassVar[bool] = unstated("whether σ is in its widths")
    uses_spread: ClassVar[bool] = unstated("whether σ_c is in its widths")
    needs_each_client: ClassVar[bool] = unstated(
        "whether it needs the mean of every client, and not just their average"
    )
    equal_weights_only: ClassVar[bool] = unstated(
        "whether its widths are those of a plain average alone"
    )
    takes_contrasts: ClassVar[bool] = False
    """Whether it compares arms within clients if the estimator says so: `Estimate.contrasts`."""
    known_before: ClassVar[bool] = False
    """Whether its widths are known before anything is observed."""
    outlives_withdrawals: ClassVar[bool] = False
    """Whether what it proves is left after a withdrawal, by which arms that have missed phases may
    come back: phase p has 6/(π² p²) of the error probability at most, or all phases share it in a
    sequence, for all arms together unless pulls follow from what was observed. See
    `fedbandits.protocol.decisions.looks`."""
    options: ClassVar[tuple[str, ...]] = ()
    """Which of its fields an algorithm may set for short: "delta", "dependence"."""

    def __init_subclass__(cls) -> None:
        """Note what a class states: it is judged when it is asked for."""
        _JUDGE.hear(cls)

    def guarantee(self, context: ProofContext) -> Guarantee:
        """Return what is proven in a context, and what the widths need for it.

        Nothing is, unless a class says so. Its rule adds what every statement rests on.
        """
        return Guarantee.nothing(f"none: {type(self).__name__} states no proof")

    @property
    def limits(self) -> tuple[float, float] | None:
        """The range that it assumes for all outcomes; None if it knows of none."""
        return None

    @property
    def constants(self) -> tuple[float, float] | None:
        """The constants of arms and clients, if this is the paper's radius."""
        return None

    @property
    def fewest_clients(self) -> int:
        """The fewest clients with which it decides anything."""
        return 1

    def mirrored(self) -> Radius:
        """Return the radius for outcomes times −1."""
        raise self._unstated("mirrored", "what it is for outcomes times −1")

    def check_horizon(self, horizon: int | None) -> None:
        """Refuse a horizon, or none, that the widths cannot be computed for."""
        raise self._unstated("check_horizon", "which horizons it needs")

    def check_protected(self) -> None:
        """Refuse means that are protected, if the widths do not allow for that."""
        raise self._unstated("check_protected", "whether its widths allow for protected means")

    def half_widths(self, known: PhaseStatistics) -> FloatArray:
        """Return the half-width of the interval around each estimate, to be shown and logged."""
        raise self._unstated("half_widths", "how wide its intervals are")

    def stays(self, known: PhaseStatistics) -> BoolArray:
        """Return the arms that stay active; the one with the highest estimate always does."""
        raise self._unstated("stays", "which arms stay")

    def margins(self, known: PhaseStatistics) -> FloatArray:
        """Return how far each arm may be below another active one, beyond the estimates."""
        raise self._unstated("margins", "how far an arm may be below another")

    def interval_widths(self, level: float, known: PhaseStatistics, reports: Reports) -> FloatArray:
        r"""Return half-widths of intervals to show, simultaneous over arms and phases.

        :math:`\sqrt{2 v \ln(2 K \pi^2 p^2 / (6 \delta_i))}` and what protects the means: at a
        level :math:`\delta_i` of their own.
        """
        log = simultaneous_log(2 * known.n_arms, level, int(known.phase))
        estimate, left = known.estimate, known.estimate.distortion
        if known.within_clients is not None:
            pairs, way = known.within_clients
            return pairs.interval_widths(way, np.asarray(log))
        widths = sub_gamma_width(estimate.variance + left.variance, left.scale, log)
        return np.asarray(widths + left.bias)

    def interval_conditions(self, context: ProofContext) -> tuple[Condition, ...] | None:
        """Return what `interval_widths` assume in a context; None if nothing is proven about them.

        A class that replaces them says so, or nothing is.
        """
        return bounds_needed(context)

    def _unstated(self, name: str, meaning: str) -> UnstatedError:
        return UnstatedError(type(self).__name__, name, meaning)


_JUDGE.hear(Radius, base=True)


class RadiusOfAverages(Radius):
    """Radii for averages over clients, protected or not, that treat both directions alike."""

    __slots__ = ()

    uses_noise: ClassVar[bool] = True
    uses_spread: ClassVar[bool] = True
    needs_each_client: ClassVar[bool] = False
    equal_weights_only: ClassVar[bool] = False

    delta: LevelLike
    dependence: Dependence

    def __post_init__(self) -> None:
        """Refuse invalid options."""
        if "delta" in self.options:
            object.__setattr__(self, "delta", as_level(self.delta))
        if "dependence" in self.options:
            check_word(self.dependence, Dependence, "dependence")

    def mirrored(self) -> Radius:
        """Return the same: both directions are alike."""
        return self

    def check_protected(self) -> None:
        """Take protected means: the widths allow for what protects them."""

    def check_horizon(self, horizon: int | None) -> None:
        """Refuse an invalid level, or a missing horizon if the widths need log T."""
        if "delta" in self.options:
            as_level(self.delta).value(horizon)
        else:
            need_horizon(self.rule, horizon)


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
    r"""Return the width that a sum of estimates exceeds with probability :math:`e^{-L}`.

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
    distortion = known.estimate.distortion
    added = estimates * known.of_active(distortion.variance)
    return sub_gamma_width(variance + added, known.of_active(distortion.scale), log)


def shared_log(known: PhaseStatistics, delta: float) -> FloatArray:
    r"""Return :math:`\ln((K-1)\,\pi^2 p^2 / (6\delta))`: δ over K − 1 rivals and all phases."""
    rivals = max(known.n_arms - 1, 1)
    phase = np.asarray(known.phase, dtype=np.float64)
    return np.asarray(np.log(rivals * math.pi**2 / (6.0 * delta)) + 2.0 * np.log(phase))


def example_statistics() -> PhaseStatistics:
    """Return statistics like those of figure 4's game after its first phases, for examples."""
    return PhaseStatistics(
        phase=1,
        active=np.array([True, True]),
        n_arms=10,
        horizon=10**6,
        estimate=Estimate(
            values=np.array([0.5, 0.6]),
            pull_variance=np.array(1e-5),
            client_variance=np.array(4e-6),
            pull_factor=np.array(4e-5),
            heaviest_pull=np.array(4e-5),
            pulls=np.array(25_000.0),
            clients=np.array(1.0),
            even=np.array(True),
        ),
    )
