"""Rules that decide once a phase: what is played, who is admitted, what is dropped.

One frozen value, `PhasedRule`, is all that a driver needs: the simulator asks it for hundreds of
replications at once, the protocol's server for one. It reads no clock, file or random state.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from fedbandits.errors import InputError, check_not_negative, check_word, is_number
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.distortion import UNDISTORTED, Distortion, sub_gamma_width
from fedbandits.rules.eliminations import best_active
from fedbandits.rules.guarantees import (
    Assumption,
    Condition,
    Guarantee,
    Proven,
    Setting,
    Status,
    bounds_needed,
    replaces_methods,
)
from fedbandits.rules.radii import (
    BernsteinRadius,
    ChernoffRadius,
    PairedTRadius,
    PhaseStatistics,
    Radius,
)
from fedbandits.rules.schedules import Schedule
from fedbandits.rules.standing import Standing
from fedbandits.rules.statistics import (
    client_factor,
    clients_in,
    heaviest_pull,
    inverse_variance_weights,
    pull_factor,
    weighted_factors,
)
from fedbandits.rules.variance_components import (
    FEWEST_TO_ESTIMATE,
    VarianceComponents,
    variance_components,
)

Weights: TypeAlias = Literal["equal", "inverse-variance"]
"""How the means of clients are averaged: each the same, or by how much is known of each."""

Averaging: TypeAlias = Weights | Literal["given"]
"""How a rule averages: as above, or by weights of the clients that its driver is given."""

Target: TypeAlias = Literal["population", "clients"]
"""Whom the answer is for: future clients like these, or these clients, each the same."""

Goal: TypeAlias = Literal["max", "min"]
"""Whether the best arm has the highest or the lowest mean."""

# Radii in whose widths σ, or σ_c, does not stand.
_WITHOUT_NOISE = (BernsteinRadius, ChernoffRadius, PairedTRadius)
_WITHOUT_SPREAD = (PairedTRadius,)

LONGEST_HORIZON = 10**15
"""Slots that no game may exceed, whether it has a horizon or not."""


def _uses_variances(radius: Radius, weights: Averaging) -> bool:
    """Return whether σ or σ_c makes any difference to what is decided."""
    return weights != "equal" or not isinstance(radius, _WITHOUT_SPREAD)


def _given(value: float | None, name: str, algorithm: str) -> float:
    """Return σ or σ_c where an algorithm cannot do without."""
    if value is None:
        raise InputError(
            f"assume.{name}",
            f'"estimate" is not for {algorithm}, which must know it from the start; give a number',
        )
    return value


class Player(Enum):
    """Who makes the pulls."""

    CLIENTS = "clients"
    """Every admitted client, on its own local model."""
    SERVER = "server"
    """One hypothetical player who observes the global model itself."""


class Charge(Enum):
    """When communication is paid for."""

    PHASE = "phase"
    """C for every client at the end of every phase that decides."""
    SLOT = "slot"
    """C for every client in every slot until one arm is left."""
    NOTHING = "nothing"
    """Never: there is nobody to talk to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beliefs:
    """What an algorithm is told of the game before it starts; it may differ from the truth.

    Parameters
    ----------
    n_arms : int
        K.
    horizon : int, optional
        T; None where the game is only to be decided, with error probability δ.
    noise, spread : float or None
        σ and σ_c, as bounds: subgaussian variance proxies. None where they are not known, and are
        to be estimated from the clients' statistics; both None for a radius that uses neither.
    population : int, optional
        How many clients exist at all, N; None is unlimited. Where some of them are asked before
        the others, the widths rest on what ``bounded`` says of the N local means.
    goal : {"max", "min"}
        Whether the best arm has the highest or the lowest mean.
    min_clients : int
        With fewer clients nothing is estimated, and nothing decided.
    weighted : bool
        Whether the answer is for all clients that exist, each counted by a weight of its own. The
        weights themselves are given to whoever drives the rule.
    bounded : bool
        Whether σ_c is half the range of the local means, of which nothing else is known: with a
        finite population that needs no more. Without it the N local means must themselves be like
        draws from a law with spread σ_c. Their standard deviation is not enough: of 3,000 clients
        who all have 0 but for one who has 1, hardly any sample shows that one.
    """

    n_arms: int
    horizon: int | None
    noise: float | None
    spread: float | None
    population: int | None = None
    goal: Goal = "max"
    min_clients: int = FEWEST_TO_ESTIMATE
    weighted: bool = False
    bounded: bool = False

    def __post_init__(self) -> None:
        for name in ("noise", "spread"):
            value = getattr(self, name)
            if value is not None:
                check_not_negative(value, name)
        for name, least in (("n_arms", 2), ("horizon", 1), ("population", 1), ("min_clients", 2)):
            value = getattr(self, name)
            if value is None and name in ("horizon", "population"):
                continue
            if not (is_number(value, whole=True) and value >= least):
                raise InputError(name, f"{value!r} is not a whole number of at least {least}")
            object.__setattr__(self, name, int(value))  # a NumPy integer would overflow
        check_word(self.goal, Goal, "goal")

    def horizon_for(self, algorithm: str) -> int:
        """Return T, which an algorithm needs."""
        if self.horizon is None:
            raise InputError(
                "horizon",
                f"is missing, and {algorithm} needs one; without it use fed2-ucb or "
                'fed1-ucb with radius = { rule = "certified", delta = 0.05 }',
            )
        return self.horizon

    def noise_for(self, algorithm: str) -> float:
        """Return σ, which an algorithm needs."""
        return _given(self.noise, "noise", algorithm)

    def spread_for(self, algorithm: str) -> float:
        """Return σ_c, which an algorithm needs."""
        return _given(self.spread, "spread", algorithm)

    def check_estimates(self, radius: Radius, weights: Weights, clients: int | None) -> None:
        """Refuse to estimate what nobody uses, or from clients that are too few.

        A radius that uses neither σ nor σ_c may be told neither: nothing is estimated then.

        Parameters
        ----------
        radius : Radius
            What decides.
        weights : {"equal", "inverse-variance"}
            How clients' means are averaged.
        clients : int, optional
            How many there can be at most; None is unlimited.
        """
        if self.noise is None and self.spread is None and not _uses_variances(radius, weights):
            return
        for name, told, without in (
            ("noise", self.noise, _WITHOUT_NOISE),
            ("spread", self.spread, _WITHOUT_SPREAD),
        ):
            if told is not None:
                continue
            if isinstance(radius, without) and weights == "equal":
                raise InputError(
                    f"assume.{name}",
                    f'"estimate", and the radius "{radius.rule}" does not use it; leave it out',
                )
            if clients is not None and clients < self.min_clients:
                raise InputError(
                    f"assume.{name}",
                    f'"estimate" takes at least {self.min_clients} clients, and there are'
                    f" {clients}; give a number, or lower assume.min_clients",
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a phase decides; leading axes as they came in.

    Parameters
    ----------
    active : array of bool, shape (..., arms)
        The arms that stay.
    estimates : array, shape (..., arms)
        Global estimates.
    widths : array, broadcast against ``estimates``
        Half-widths of their intervals.
    settled : array of bool, shape (...)
        Whether nothing is left to find out: one arm is left, or all that are left are as good as
        the best up to the tolerance.
    """

    active: BoolArray
    estimates: FloatArray
    widths: FloatArray
    settled: BoolArray


@dataclass(frozen=True, slots=True)
class ScheduledPulls:
    """f(p) of a schedule for a fixed horizon, or without one."""

    schedule: Schedule
    horizon: int | None

    def __call__(self, phase: int) -> int:
        """Return f(p)."""
        try:
            return self.schedule.pulls(phase=phase, horizon=self.horizon)
        except InputError as error:
            raise error.within("pulls") from None


@dataclass(frozen=True, slots=True)
class ScheduledAdmissions:
    """g(p) of a schedule for a fixed horizon, or without one."""

    schedule: Schedule
    horizon: int | None

    def __call__(self, phase: int) -> int:
        """Return g(p)."""
        try:
            return self.schedule.admissions(phase=phase, horizon=self.horizon)
        except InputError as error:
            raise error.within("admissions") from None


@dataclass(frozen=True, slots=True)
class AllAtOnce:
    """g(1) = clients, then nobody: the admissions of the exact model.

    Examples
    --------
    >>> [AllAtOnce(5)(phase) for phase in (1, 2, 3)]
    [5, 0, 0]
    """

    clients: int

    def __call__(self, phase: int) -> int:
        """Return g(p)."""
        return self.clients if phase == 1 else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasedRule:
    r"""Elimination in phases: Algorithm 2 of the paper, with exchangeable parts.

    Fed2-UCB, Fed1-UCB, its centralised version, the authors' baseline and improved UCB are all this
    rule with other schedules, radii and populations.

    Parameters
    ----------
    n_arms, horizon, noise, spread, population, goal, bounded, min_clients
        As in `Beliefs`.
    target : {"population", "clients"}
        Whom the answer is for. Of N clients that exist, M leave σ_c²(1/M − 1/N) open about
        "clients", and σ_c²/M about a "population" of which the N are a sample themselves.
    pulls : callable
        f: phase to pulls of each active arm by each client.
    admissions : callable
        g: phase to new clients.
    radius : Radius
        How far apart estimates must be before an arm is dropped.
    weights : {"equal", "inverse-variance", "given"}
        How clients' means are averaged; see `with_given_weights` for the last.
    epsilon : float
        The tolerance: an arm that is worse than the best by no more is good enough.
    player : Player
        Who makes the pulls.
    charge : Charge
        When communication is paid for.
    last_phase : int, optional
        The algorithm's own last phase: if arms are still open after it, the one with the best
        estimate is played on, undecided.
    max_clients, max_phases : int, optional
        Caps for games that do not get decided, in which 2^p would run away. At the first admissions
        stop; after the second the game goes on as after ``last_phase``.
    affordable : callable, optional
        Phase to whether the clients' privacy budget allows its releases. Before the first phase
        that it does not the game goes on as after ``last_phase``.
    """

    n_arms: int
    horizon: int | None
    noise: float | None
    spread: float | None
    population: int | None
    pulls: Callable[[int], int]
    admissions: Callable[[int], int]
    radius: Radius
    weights: Averaging = "equal"
    epsilon: float = 0.0
    goal: Goal = "max"
    min_clients: int = FEWEST_TO_ESTIMATE
    target: Target = "clients"
    bounded: bool = False
    player: Player = Player.CLIENTS
    charge: Charge = Charge.PHASE
    last_phase: int | None = None
    max_clients: int | None = None
    max_phases: int | None = None
    affordable: Callable[[int], bool] | None = None

    def __init_subclass__(cls) -> None:
        """Let a subclass that replaces a method state its own guarantee, or have none."""
        if replaces_methods(cls):
            for statement in ("guarantee", "interval_guarantee"):
                if statement not in vars(cls):
                    setattr(cls, statement, _unproven)

    @property
    def adaptive(self) -> bool:
        """Whether pulls and admissions depend on what was observed."""
        return False

    def guarantee(self) -> Guarantee:
        """Return what is proven about this rule, about whom, and what that rests on.

        A subclass that replaces a method has the empty guarantee unless it states its own.

        Examples
        --------
        >>> from fedbandits import BernsteinRadius, Fed2Ucb
        >>> told = Beliefs(n_arms=2, horizon=None, noise=0.3, spread=0.1)
        >>> algorithm = Fed2Ucb(pulls=10, admissions="2^p", radius=BernsteinRadius(delta=0.05))
        >>> print(algorithm.rule(told).guarantee().words())
        drops the best option with a probability of at most 0.05, if all outcomes lie between 0 and
        1, and what a client sees of one option has nothing to do with what it sees of another; the
        answer is for future clients like these
        """
        if self.needs_components:
            found = Guarantee.nothing(
                "none in finite samples: it estimates noise or spread from what it decides on",
                *self._estimated(),
            )
        elif isinstance(self.radius, Proven):
            found = self.radius.guarantee(self.setting)
            if found.regret and self.charge is Charge.SLOT:
                found = Guarantee.nothing(
                    "none: the theorems charge communication once a phase", *found.conditions
                )
        else:
            found = Guarantee.nothing(f'none: the radius "{self.radius.rule}" states no proof')
        return replace(found, whom=self.whom).requiring(*self._grounds())

    def interval_guarantee(self, level: float) -> Guarantee:
        """Return what is proven about the intervals of `interval_widths`, whatever the radius.

        Examples
        --------
        >>> from fedbandits import CertifiedRadius, Fed1Ucb
        >>> told = Beliefs(n_arms=2, horizon=None, noise=0.3, spread=0.1)
        >>> algorithm = Fed1Ucb(pulls=10, clients=5, radius=CertifiedRadius(delta=0.05))
        >>> for condition in algorithm.rule(told).interval_guarantee(0.05).conditions:
        ...     print(condition.words)
        the noise is no larger than was assumed
        the answer is for these clients alone, and all of them are heard
        an option is as good at the end as at the beginning
        whether a client answers has nothing to do with what it observed, nor with how good the
        options are for it
        clients report what they observed (a false report inside the range goes unnoticed)
        """
        if self.adaptive:
            return Guarantee.nothing(
                "none: pulls followed from what was observed", *self._grounds()
            )
        if self.radius.needs_clients:
            words = f"{Assumption.NORMAL_CLIENTS.value} (else nothing is proven)"
            first: tuple[Condition, ...] = (Condition(Assumption.NORMAL_CLIENTS, words),)
        elif self.needs_components:
            first = (Condition(Assumption.ESTIMATES_HOLD),)
            first += (Condition(Assumption.LIKE_DRAWS),) if self.setting.draws else ()
        else:
            first = bounds_needed(self.setting)
        return Guarantee(
            claim=f"hold together with a probability of {100 * (1 - level):g} %",
            error=level,
            whom=self.whom,
        ).requiring(*first, *self._grounds())

    @property
    def setting(self) -> Setting:
        """What its radius has to know to say what it proves."""
        return Setting(
            horizon=self.horizon,
            epsilon=self.epsilon,
            averaging=self.weights,
            everyone=self.asks_everyone,
            draws=self.population is not None
            and self.target == "clients"
            and not (self.bounded or self.asks_everyone or self.radius.needs_clients),
        )

    @property
    def whom(self) -> str:
        """Whom its answer is for.

        Examples
        --------
        >>> from fedbandits import Fed1Ucb, Fed2Ucb
        >>> told = Beliefs(n_arms=2, horizon=1000, noise=0.3, spread=0.1)
        >>> Fed2Ucb(pulls=10, admissions="2^p").rule(told).whom
        'future clients like these'
        >>> Fed1Ucb(pulls=10, clients=5).rule(told).whom
        'these 5 clients'
        """
        if self.player is Player.SERVER:
            return "the clients that one player observes as a whole"
        if self.population is None or self.target == "population":
            return "future clients like these"
        clients = (
            "this one client" if self.population == 1 else f"these {self.population:,} clients"
        )
        return f"{clients}, weighted" if self.weights == "given" else clients

    def _grounds(self) -> tuple[Condition, ...]:
        """Return what every statement about the rule rests on."""
        whom = Assumption.ALL_CLIENTS if self.asks_everyone else Assumption.RANDOM_CLIENTS
        return tuple(
            Condition(kind)
            for kind in (whom, Assumption.NO_DRIFT, Assumption.NO_SELECTION, Assumption.HONEST)
        )

    def _estimated(self) -> tuple[Condition, ...]:
        """Return what a rule rests on that is not told σ or σ_c."""
        known = {Assumption.NOISE_BOUND: self.noise, Assumption.SPREAD_BOUND: self.spread}
        unknown = [kind for kind, told in known.items() if told is None]
        named = " and ".join("σ" if kind is Assumption.NOISE_BOUND else "σ_c" for kind in unknown)
        why = (
            f"{named} {'are' if len(unknown) == 2 else 'is'} estimated from the same data: no"
            " finite-sample guarantee"
        )
        return (
            Condition(Assumption.ESTIMATES_HOLD, status=Status.BROKEN, why=why),
            *(one for one in bounds_needed(self.setting) if one.kind not in unknown),
        )

    @property
    def slots(self) -> int:
        """How many slots there are at most."""
        return LONGEST_HORIZON if self.horizon is None else self.horizon

    def best(self, estimates: FloatArray, active: BoolArray) -> IntArray:
        """Return the active arm with the best estimate, the lowest index on ties."""
        return best_active(self._upwards(estimates), active)

    def _upwards(self, estimates: FloatArray) -> FloatArray:
        """Return estimates of which a higher one is better."""
        return estimates if self.goal == "max" else -estimates

    def _upward_radius(self) -> Radius:
        """Return the radius for estimates of which a higher one is better: ranges are mirrored."""
        limits = getattr(self.radius, "range", None)
        if self.goal == "max" or limits is None:
            return self.radius
        low, high = limits
        return replace(self.radius, **{"range": (-high, -low)})

    def admit(
        self, phase: int, clients: int, capped: bool, standing: Standing | None = None
    ) -> tuple[int, bool]:
        """Return how many clients join in this phase, and whether the cap has ever cut them short.

        Parameters
        ----------
        phase : int
            The phase that begins.
        clients : int
            How many are in already.
        capped : bool
            What the last call returned; False at first.
        standing : Standing, optional
            What is known by now, for rules that look at it; schedules do not.
        """
        if capped or clients == self.population:
            return 0, capped
        wanted = self.admissions(phase)
        if self.population is not None:
            wanted = min(wanted, self.population - clients)
        if self.max_clients is None or wanted <= self.max_clients - clients:
            return wanted, False
        return self.max_clients - clients, True

    def ends_after(self, phase: int) -> bool:
        """Return whether no phase follows this one, decided or not."""
        return phase in (self.last_phase, self.max_phases) or self.spent_after(phase)

    def spent_after(self, phase: int) -> bool:
        """Return whether the clients' privacy budget allows no release after this phase."""
        return self.affordable is not None and not self.affordable(phase + 1)

    def pulls_in(self, phase: int) -> int:
        """Return how often each client pulls an active arm in this phase, by the schedule.

        More pulls than the horizon has slots never fit, so they are returned as the horizon.
        """
        return min(self.pulls(phase), self.slots)

    def plan(
        self,
        phase: int,
        active: BoolArray,
        standing: Standing | None = None,
        newcomers: IntArray | int = 0,
    ) -> IntArray:
        """Return how often each client pulls each arm in this phase: f(p) if active, else 0.

        Parameters
        ----------
        phase : int
            The phase that begins.
        active : array of bool, shape (..., arms)
            The arms that are left.
        standing : Standing, optional
            What is known by now, for rules that look at it; schedules do not.
        newcomers : int or array of int, shape (...)
            How many clients have joined in this phase, for the same rules.
        """
        return np.where(active, self.pulls_in(phase), 0).astype(np.int64)

    def with_given_weights(self) -> PhasedRule:
        r"""Return the rule that counts every client by a weight of its own.

        With weights :math:`a_m` that sum to 1 the estimate is :math:`\sum_m a_m \bar X_m`, which
        aims at :math:`\sum_m a_m \mu_{k,m}` and has the variance proxy :math:`v = \sigma^2 \sum_m
        a_m^2 / n_m`. All clients are in from the start, so no client term is left. What a radius
        makes of v holds as it does for equal weights.
        """
        if self.population is None or self.admissions(1) < self.population:
            raise InputError(
                "weights",
                "of clients need all of them from the first phase on; use fed1-ucb with all the"
                " clients there are",
            )
        if self.target == "population":
            raise InputError(
                "weights",
                'of clients are for an answer about these clients, and target is "population"; use'
                ' "clients"',
            )
        if self.weights == "inverse-variance":
            raise InputError(
                "weights", '"inverse-variance", and clients have weights of their own; use "equal"'
            )
        if isinstance(self.radius, PairedTRadius):
            raise InputError(
                "radius.rule",
                f'"{self.radius.rule}" counts all clients the same, and they have weights; use'
                ' "certified"',
            )
        return replace(self, weights="given")

    @property
    def fewest_clients(self) -> int:
        """With fewer clients nothing is ever decided."""
        if isinstance(self.radius, PairedTRadius):
            return self.radius.min_clients
        return self.min_clients if self.needs_components else 1

    def check_clients(self) -> None:
        """Refuse a rule that never has as many clients as it takes to decide anything."""
        fewest = self.fewest_clients
        if self.population is not None and self.population < fewest:
            raise InputError(
                "radius.min_clients",
                f'{fewest:,} clients are the fewest that "{self.radius.rule}" decides with, and'
                f" there are {self.population:,}; use another radius, or lower it at your own risk",
            )
        if self.max_clients is not None and self.max_clients < fewest:
            raise InputError(
                "max_clients",
                f"{self.max_clients:,} clients at most, and nothing is decided with fewer than"
                f" {fewest:,}; raise it, or lower min_clients",
            )

    @property
    def asks_everyone(self) -> bool:
        """Whether the answer is for clients who all play from the start."""
        return (
            self.target == "clients"
            and self.population is not None
            and self.admissions(1) >= self.population
            and (self.max_clients is None or self.max_clients >= self.population)
        )

    @property
    def needs_squares(self) -> bool:
        """Whether clients are to send sums of squares."""
        return self.noise is None and self._uses_variances

    @property
    def needs_components(self) -> bool:
        """Whether σ or σ_c is estimated."""
        return (self.noise is None or self.spread is None) and self._uses_variances

    @property
    def _uses_variances(self) -> bool:
        return _uses_variances(self.radius, self.weights)

    def components(
        self,
        *,
        counts: npt.ArrayLike,
        client_means: FloatArray,
        squares: FloatArray | None,
        active: BoolArray,
    ) -> VarianceComponents | None:
        """Return σ² and σ_c² as far as they are estimated, else None.

        Parameters
        ----------
        counts, client_means, active
            As in `decide`.
        squares : array, shape (..., arms, clients), optional
            Sums of squares of every client around its own mean.
        """
        if not self.needs_components:
            return None
        found = variance_components(
            counts,
            client_means,
            squares,
            active,
            noise_variance=None if self.noise is None else self.noise**2,
            min_clients=self.min_clients,
        )
        if self.spread is None:
            return found
        return replace(found, spread_variance=np.full_like(found.noise_variance, self.spread**2))

    def _variances(
        self, components: VarianceComponents | None
    ) -> tuple[float | FloatArray, float | FloatArray]:
        """Return σ² and σ_c², with an axis for the arms where they are estimated."""
        if components is not None:
            return (
                components.noise_variance[..., np.newaxis],
                components.spread_variance[..., np.newaxis],
            )
        if self.needs_components:
            raise InputError(
                "components", "are missing; σ or σ_c is to be estimated before anything is decided"
            )
        # Nobody uses what is None by now; it is infinite, as it is where nothing can be said.
        return (
            math.inf if self.noise is None else self.noise**2,
            math.inf if self.spread is None else self.spread**2,
        )

    def weights_of(
        self,
        counts: npt.ArrayLike,
        sizes: npt.ArrayLike = 1,
        components: VarianceComponents | None = None,
        shares: FloatArray | None = None,
        distortion: Distortion = UNDISTORTED,
    ) -> FloatArray:
        """Return the weight of every group in an estimate; arguments as in `decide`."""
        if self.weights == "given":
            if shares is None:
                raise InputError("shares", "are missing; the rule counts every client by its own")
            return np.where(np.asarray(counts) > 0, shares, 0.0)
        if self.weights == "inverse-variance":
            noise, spread = self._deviations(components)
            return inverse_variance_weights(
                counts, sizes, noise=noise, spread=spread, distorted=distortion.variance
            )
        return np.asarray((np.asarray(counts) > 0) * np.asarray(sizes, dtype=np.float64))

    def _deviations(
        self, components: VarianceComponents | None
    ) -> tuple[float | FloatArray, float | FloatArray]:
        """Return σ and σ_c, with axes for arms and clients where they are estimated."""
        if components is None:
            if self.noise is not None and self.spread is not None:
                return self.noise, self.spread
            self._variances(None)
        noise, spread = (np.asarray(v)[..., np.newaxis] for v in self._variances(components))
        # Where nothing can be said of variances all clients weigh the same.
        known = np.isfinite(noise) & np.isfinite(spread) & (noise + spread > 0)
        return np.sqrt(np.where(known, noise, 0.0)), np.sqrt(np.where(known, spread, 1.0))

    def width(
        self,
        *,
        phase: int | IntArray,
        counts: npt.ArrayLike,
        sizes: npt.ArrayLike = 1,
        components: VarianceComponents | None = None,
        shares: FloatArray | None = None,
        distortion: Distortion = UNDISTORTED,
    ) -> FloatArray:
        """Return the half-width of the interval around an estimate; arguments as in `decide`."""
        nothing = np.zeros(1)
        known = self._known(
            phase,
            nothing > 0,
            nothing,
            counts,
            sizes,
            components=components,
            shares=shares,
            distortion=distortion,
        )
        return self.radius.half_widths(known)

    def interval_widths(
        self,
        level: float,
        *,
        phase: int,
        counts: npt.ArrayLike,
        components: VarianceComponents | None = None,
        shares: FloatArray | None = None,
        distortion: Distortion = UNDISTORTED,
    ) -> FloatArray:
        r"""Return half-widths of intervals to show, simultaneous over arms and phases.

        :math:`\sqrt{2 v \ln(2 K \pi^2 p^2 / (6 \delta_i))}`: whatever the radius, at a level of
        their own, and with what protects the means.

        Parameters
        ----------
        level : float
            :math:`\delta_i`.
        phase, counts, components, shares, distortion
            As in `decide`.
        """
        nothing = np.zeros(1)
        known = self._known(
            phase,
            nothing > 0,
            nothing,
            counts,
            1,
            components=components,
            shares=shares,
            distortion=distortion,
        )
        log = math.log(2 * self.n_arms * math.pi**2 * phase**2 / (6 * level))
        of_estimate = known.distortion
        widths = sub_gamma_width(known.variance + of_estimate.variance, of_estimate.scale, log)
        return widths + of_estimate.bias

    def _known(
        self,
        phase: int | IntArray,
        active: BoolArray,
        estimates: FloatArray,
        counts: npt.ArrayLike,
        sizes: npt.ArrayLike,
        *,
        components: VarianceComponents | None = None,
        shares: FloatArray | None = None,
        distortion: Distortion = UNDISTORTED,
    ) -> PhaseStatistics:
        weights = self.weights_of(counts, sizes, components, shares, distortion)
        if self.weights == "equal":
            pulls = pull_factor(counts, sizes)
        else:
            pulls, clients = weighted_factors(weights, counts, sizes)
        if self.weights != "inverse-variance":
            among = self.population if self.target == "clients" else None
            clients = client_factor(clients_in(counts, sizes), among, bounded=self.bounded)
        noise, spread = self._variances(components)
        if self.spread is None:  # unknown, and of no consequence where all clients are in
            spread = np.where(clients > 0, spread, 0.0)
        return PhaseStatistics(
            phase=phase,
            active=active,
            estimates=estimates,
            pull_variance=np.asarray(noise * pulls),
            client_variance=np.asarray(spread * clients),
            n_arms=self.n_arms,
            horizon=self.horizon,
            pull_factor=np.asarray(pulls),
            heaviest_pull=heaviest_pull(weights, counts, sizes),
            independent_clients=self.population is None or self.target == "population",
            distortion=distortion
            if distortion is UNDISTORTED
            else distortion.averaged(weights, sizes),
        )

    def decide(
        self,
        *,
        phase: int | IntArray,
        active: BoolArray,
        estimates: FloatArray,
        counts: npt.ArrayLike,
        sizes: npt.ArrayLike = 1,
        client_means: FloatArray | None = None,
        components: VarianceComponents | None = None,
        shares: FloatArray | None = None,
        distortion: Distortion = UNDISTORTED,
    ) -> Verdict:
        """Return which arms stay active after a phase.

        Parameters
        ----------
        phase : int or array of int
            The phase that has just been played.
        active : array of bool, shape (..., arms)
            The arms that it played.
        estimates : array, shape (..., arms)
            Global estimates, from `fedbandits.rules.statistics.aggregate`.
        counts : array, shape (..., arms, groups)
            Pulls so far of each arm by each client of a group; axes of length 1 are broadcast.
        sizes : array, optional
            Clients in each group.
        client_means : array, shape (..., arms, clients), optional
            The mean of every client, for radii that need them one by one.
        components : VarianceComponents, optional
            From `components`, where σ or σ_c is estimated.
        shares : array, broadcast against ``counts``, optional
            The weight of every client, where they have weights of their own.
        distortion : Distortion, optional
            What protecting their means leaves in those of the groups.
        """
        upwards = self._upwards(estimates)
        known = self._known(
            phase,
            active,
            upwards,
            counts,
            sizes,
            components=components,
            shares=shares,
            distortion=distortion,
        )
        if client_means is not None:
            known = replace(known, client_means=self._upwards(client_means))
        radius = self._upward_radius()
        stays = radius.stays(known)
        return Verdict(
            active=stays,
            estimates=estimates,
            widths=radius.half_widths(known),
            settled=self._settled(replace(known, active=stays)),
        )

    def _settled(self, known: PhaseStatistics) -> BoolArray:
        """Return whether every arm that is left is as good as the best up to the tolerance.

        With probability at least 1 − δ no arm that is left is worse than the best by more than
        what it is behind by and its margin: the comparisons of the arms that stay are among those
        that the radius bounds anyway.
        """
        one: BoolArray = known.active.sum(axis=-1) == 1
        if self.epsilon == 0.0:
            return one
        best = np.where(known.active, known.estimates, -np.inf).max(axis=-1, keepdims=True)
        worse = best - known.estimates + self._upward_radius().margins(known)
        return one | np.where(known.active, worse <= self.epsilon, True).all(axis=-1)


def _unproven(rule: PhasedRule, *_: object) -> Guarantee:
    """Return the guarantee of a rule that replaces what is proven and proves nothing itself."""
    return Guarantee.nothing(
        f"none: {type(rule).__name__} replaces a part of PhasedRule and states no guarantee of its"
        " own",
        *rule._grounds(),
    )


def cut_to_fit(pulls: IntArray, slots_left: npt.ArrayLike) -> IntArray:
    """Return the pulls that a phase still makes when only so many slots are left.

    Arms are played in index order, so the cut falls on the last ones.

    Parameters
    ----------
    pulls : array of int, shape (..., arms)
        The pulls of the whole phase.
    slots_left : array of int, shape (...)
        What is left of the horizon.

    Examples
    --------
    >>> cut_to_fit(np.array([100, 0, 100, 100]), 150)
    array([100,   0,  50,   0])
    """
    if (pulls.sum(axis=-1) <= slots_left).all():
        return pulls
    before = np.cumsum(pulls, axis=-1) - pulls
    left = np.asarray(slots_left, dtype=np.int64)[..., np.newaxis]
    return np.minimum(pulls, np.maximum(left - before, 0))
