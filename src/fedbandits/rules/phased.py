"""Rules that decide once a phase: what is played, who is admitted, what is dropped.

One frozen value, `PhasedRule`, is all that a driver needs: the simulator asks it for hundreds of
replications at once, the protocol's server for one. It reads no clock, file or random state.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from fedbandits.errors import InputError, check_not_negative, check_word, is_number
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.eliminations import best_active
from fedbandits.rules.estimates import Estimate
from fedbandits.rules.estimators import Estimator, GivenShares, Plain
from fedbandits.rules.guarantees import (
    Assumption,
    Condition,
    Guarantee,
    Setting,
    Status,
    bounds_needed,
    void_unless_stated,
)
from fedbandits.rules.plans import Plan, State
from fedbandits.rules.radii import PhaseStatistics, Radius
from fedbandits.rules.reports import Reports
from fedbandits.rules.sampling import Sampling, Target
from fedbandits.rules.schedules import Schedule
from fedbandits.rules.variance_components import FEWEST_TO_ESTIMATE

Weights: TypeAlias = Literal["equal", "inverse-variance"]
"""How the means of clients are averaged: each the same, or by how much is known of each."""

Goal: TypeAlias = Literal["max", "min"]
"""Whether the best arm has the highest or the lowest mean."""

_PLAIN = Plain()
_NONE = np.int64(0)

LONGEST_HORIZON = 10**15
"""Slots that no game may exceed, whether it has a horizon or not."""


def _given(value: float | None, name: str, algorithm: str) -> float:
    """Return σ or σ_c where an algorithm cannot do without."""
    if value is None:
        raise InputError(
            f"assume.{name}",
            f'"estimate" is not for {algorithm}, which must know it from the start; give a number',
        )
    return value


def check_estimator(estimator: object, weights: Weights = "equal") -> None:
    """Refuse what is no estimator, and one beside weights that are another."""
    if estimator is None:
        return
    if isinstance(estimator, type) or not isinstance(estimator, Estimator):
        raise InputError(
            "estimator", f"{estimator!r} is not an estimator such as InverseVariance()"
        )
    if weights != "equal":
        raise InputError("weights", f'"{weights}", and there is an estimator; give one of the two')


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

    def check_estimates(self, radius: Radius, estimator: Estimator, clients: int | None) -> None:
        """Refuse an estimator that does not go with a radius, and what cannot be estimated.

        That is σ or σ_c that nobody uses, or from clients that are too few.

        A radius that uses neither σ nor σ_c may be told neither: nothing is estimated then.

        Parameters
        ----------
        radius : Radius
            What decides.
        estimator : Estimator
            How clients' means become one value.
        clients : int, optional
            How many there can be at most; None is unlimited.
        """
        if radius.equal_weights_only and not estimator.equal_weights:
            raise InputError(
                "weights",
                f'"{estimator.name}" does not go with the radius "{radius.rule}", whose width is'
                ' that of a plain average; use "equal"',
            )
        used = {
            name: uses or estimator.uses_variances
            for name, uses in (("noise", radius.uses_noise), ("spread", radius.uses_spread))
        }
        if self.noise is None and self.spread is None and not any(used.values()):
            return
        for name, told in (("noise", self.noise), ("spread", self.spread)):
            if told is not None:
                continue
            if not used[name]:
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
    estimator : Estimator
        How clients' means become one value per arm; the plain average by default.
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

    decides_every_slot: ClassVar[Literal[False]] = False
    randomised: ClassVar[bool] = False
    """Whether it draws at random when it plans: `State.drawn`."""

    n_arms: int
    horizon: int | None
    noise: float | None
    spread: float | None
    population: int | None
    pulls: Callable[[int], int]
    admissions: Callable[[int], int]
    radius: Radius
    estimator: Estimator = _PLAIN
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
        for statement in ("guarantee", "interval_guarantee"):
            void_unless_stated(cls, statement, _unproven)

    @property
    def scheduled(self) -> bool:
        """Whether phases follow a schedule, so that many can be played at once.

        Whom a phase admits is known beforehand then, and every active arm is pulled as often. A
        subclass that plans for itself does not, unless it says so.
        """
        return type(self).plan is PhasedRule.plan

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
        elif not self.estimator.proven:
            found = Guarantee.nothing(f'none: the estimator "{self.estimator.name}" is not proven')
        else:
            found = self.radius.guarantee(self.setting)
            if found.regret and self.charge is Charge.SLOT:
                found = Guarantee.nothing(
                    "none: the theorems charge communication once a phase", *found.conditions
                )
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
        the answer is for these clients alone
        an option is as good at the end as at the beginning
        whether a client answers has nothing to do with what it observed, nor with how good the
        options are for it
        clients report what they observed (a false report inside the range goes unnoticed)
        """
        if not self.scheduled:
            return Guarantee.nothing(
                "are those of pulls that had been planned in advance (these were not, and no"
                " probability is proven)",
                *self._grounds(),
            )
        first = self.radius.interval_conditions(self.setting)
        if first is None or not self.estimator.proven:
            unproven = (
                f'the radius "{self.radius.rule}" states no proof of its intervals'
                if first is None
                else f'the estimator "{self.estimator.name}" is not proven'
            )
            return Guarantee.nothing(f"come without a probability: {unproven}", *self._grounds())
        if self.needs_components:
            first = (Condition(Assumption.ESTIMATES_HOLD),)
            first += (Condition(Assumption.LIKE_DRAWS),) if self.setting.draws else ()
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
            plain=self.estimator.equal_weights,
            shares=self.estimator.needs_shares,
            everyone=self.asks_everyone,
            one_player=self.player is Player.SERVER,
            draws=self.population is not None
            and self.target == "clients"
            and not (self.bounded or self.asks_everyone or self.radius.needs_each_client),
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
        return f"{clients}, weighted" if self.estimator.needs_shares else clients

    def part_conditions(self) -> tuple[Condition, ...] | None:
        """Return what is needed as long as some of the clients that it is for are not heard.

        What they leave open is the client term of M of N clients, with its assumptions. None if
        what is proven is about all of them alone.
        """
        part = replace(self.setting, everyone=False, draws=not self.bounded)
        words = "the clients that were heard are a random sample of all that the answer is for"
        found = self.radius.guarantee(part)
        if self.guarantee().claim and not found.claim:
            return None
        return (*found.conditions, Condition(Assumption.RANDOM_CLIENTS, words))

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

    def admit(self, phase: int, clients: int, capped: bool) -> tuple[int, bool]:
        """Return how many clients join by the schedule, and whether the cap has ever cut them.

        Parameters
        ----------
        phase : int
            The phase that begins.
        clients : int
            How many are in already.
        capped : bool
            What the last call returned; False at first.
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

    def plan(self, state: State) -> Plan:
        """Return who joins in a phase, and how often each client pulls each arm.

        By the schedules: g(p) clients, and f(p) pulls of every active arm. More pulls than the
        horizon has slots never fit, so they are returned as the horizon.
        """
        newcomers, capped = self._admitted(state)
        pulls = min(self.pulls(state.phase), self.slots)
        return Plan(
            newcomers=newcomers,
            pulls=np.where(state.active, np.int64(pulls), _NONE),
            capped=capped,
        )

    def _admitted(self, state: State) -> tuple[int | IntArray, bool | BoolArray]:
        clients, capped = state.clients, state.capped
        if isinstance(clients, int) and isinstance(capped, bool):
            return self.admit(state.phase, clients, capped)
        crowds = np.stack(np.broadcast_arrays(clients, capped), axis=-1)
        kinds, places = np.unique(crowds.reshape(-1, 2), axis=0, return_inverse=True)
        found = [self.admit(state.phase, crowd, bool(cut)) for crowd, cut in kinds.tolist()]
        joined = np.array(found, dtype=np.int64)[places].reshape(crowds.shape)
        return joined[..., 0], joined[..., 1] > 0

    def first_plan(self) -> Plan:
        """Return the plan of the first phase, before anything is known."""
        everything = np.ones(self.n_arms, dtype=np.bool_)
        return self.plan(State(phase=1, active=everything, clients=0, slots_left=self.slots))

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
        if not self.estimator.equal_weights:
            raise InputError(
                "weights",
                f'"{self.estimator.name}", and clients have weights of their own; use "equal"',
            )
        if self.radius.equal_weights_only:
            raise InputError(
                "radius.rule",
                f'"{self.radius.rule}" counts all clients the same, and they have weights; use'
                ' "certified"',
            )
        return replace(self, estimator=GivenShares())

    def with_fewest_pulls(self, fewest: int) -> PhasedRule:
        """Return the rule that never asks for the mean of fewer pulls; schedules say their own."""
        return self

    @property
    def fewest_clients(self) -> int:
        """With fewer clients nothing is ever decided."""
        return max(self.radius.fewest_clients, self.min_clients if self.needs_components else 1)

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
        return self.estimator.needs_squares or (self.noise is None and self._uses_noise)

    @property
    def needs_components(self) -> bool:
        """Whether σ or σ_c is estimated."""
        return (self.noise is None and self._uses_noise) or (
            self.spread is None and self._uses_spread
        )

    @property
    def needs_each_client(self) -> bool:
        """Whether it needs the mean of every client, and not just averages over clients."""
        return (
            self.needs_components
            or self.estimator.needs_each_client
            or self.radius.needs_each_client
        )

    @property
    def _uses_noise(self) -> bool:
        return self.radius.uses_noise or self.estimator.uses_variances

    @property
    def _uses_spread(self) -> bool:
        return self.radius.uses_spread or self.estimator.uses_variances

    @property
    def sampling(self) -> Sampling:
        """What it is told of noise, spread and population, and whom the answer is for."""
        noise, spread = self.noise, self.spread
        # What nobody uses is infinite, as it is where nothing can be said.
        if noise is None and not self._uses_noise:
            noise = math.inf
        if spread is None and not self._uses_spread:
            spread = math.inf
        return Sampling(
            noise=noise,
            spread=spread,
            population=self.population,
            target=self.target,
            bounded=self.bounded,
            min_clients=self.min_clients,
        )

    def estimate(self, reports: Reports, sampling: Sampling | None = None) -> Estimate:
        """Return what is known of every arm.

        Parameters
        ----------
        reports : Reports
            What clients have reported so far.
        sampling : Sampling, optional
            What is told in place of the rule's own `sampling`, for games that are played in step.
        """
        found = self.estimator.estimate(reports, self.sampling if sampling is None else sampling)
        if not self.radius.needs_each_client:
            return found
        return replace(found, client_means=reports.complete_means())

    def width(self, *, phase: int | IntArray, reports: Reports) -> FloatArray:
        """Return the half-width of the interval around an estimate.

        Parameters
        ----------
        phase : int or array of int
            The phase that has been played.
        reports : Reports
            Such as `Reports.planned`, before anything is observed.
        """
        return self.radius.half_widths(self._known(phase, reports.active, self.estimate(reports)))

    def interval_widths(self, level: float, *, phase: int, reports: Reports) -> FloatArray:
        """Return half-widths of intervals to show, simultaneous over arms and phases.

        At a level of their own, whatever the radius: see
        `fedbandits.rules.radii.Radius.interval_widths`.
        """
        known = self._known(phase, reports.active, self.estimate(reports))
        return self.radius.interval_widths(level, known, reports)

    def _known(
        self, phase: int | IntArray, active: BoolArray, estimate: Estimate
    ) -> PhaseStatistics:
        return PhaseStatistics(
            phase=phase,
            active=active,
            n_arms=self.n_arms,
            horizon=self.horizon,
            estimate=estimate,
        )

    def decide(self, *, phase: int | IntArray, active: BoolArray, estimate: Estimate) -> Verdict:
        """Return which arms stay active after a phase.

        Parameters
        ----------
        phase : int or array of int
            The phase that has just been played.
        active : array of bool, shape (..., arms)
            The arms that it played.
        estimate : Estimate
            What is known, from `estimate`.
        """
        upwards, radius = estimate, self.radius
        if self.goal == "min":
            upwards, radius = estimate.mirrored(), self.radius.mirrored()
        known = self._known(phase, active, upwards)
        stays = radius.stays(known)
        return Verdict(
            active=stays,
            estimates=estimate.values,
            widths=radius.half_widths(known),
            settled=self._settled(replace(known, active=stays), radius),
        )

    def _settled(self, known: PhaseStatistics, radius: Radius) -> BoolArray:
        """Return whether every arm that is left is as good as the best up to the tolerance.

        With probability at least 1 − δ no arm that is left is worse than the best by more than
        what it is behind by and its margin: the comparisons of the arms that stay are among those
        that the radius bounds anyway.
        """
        one: BoolArray = known.active.sum(axis=-1) == 1
        if self.epsilon == 0.0:
            return one
        values = known.estimate.values
        best = np.where(known.active, values, -np.inf).max(axis=-1, keepdims=True)
        worse = best - values + radius.margins(known)
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
