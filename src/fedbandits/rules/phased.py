"""Rules that decide once per phase: what is played, who is admitted, what is dropped.

One frozen value, `PhasedRule`, is all that a driver needs: the simulator asks it for hundreds of
replications at once, the protocol's server for one. It reads no clock, file or random state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from enum import Enum
from itertools import count, islice
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from fedbandits.errors import LARGEST_COUNT, InputError
from fedbandits.rules.abilities import Judge, Statement
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.eliminations import best_active
from fedbandits.rules.estimates import Estimate
from fedbandits.rules.estimators import Estimator, GivenShares, Plain
from fedbandits.rules.guarantees import (
    Assumption,
    Condition,
    Guarantee,
    ProofContext,
    Status,
    bounds_needed,
)
from fedbandits.rules.phase_numbers import ScheduledPhase, never_changes
from fedbandits.rules.plans import PhasePlan, State
from fedbandits.rules.radii import PhaseStatistics, Radius
from fedbandits.rules.reports import Reports
from fedbandits.rules.sampling import Sampling, Target

Weights: TypeAlias = Literal["equal", "inverse-variance"]
"""How the means of clients are averaged: each the same, or by how much is known of each."""

_PLAIN = Plain()

LONGEST_HORIZON = LARGEST_COUNT
"""Slots that no game may exceed, whether it has a horizon or not."""

MOST_CHECKED_PHASES = 10_000
"""How many phases of a schedule are checked before a game; it takes a fraction of a second."""


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
class Verdict:
    """What a phase decides; leading axes as given.

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


def _unproven(rule: PhasedRule) -> Guarantee:
    """Return the guarantee of a rule that replaces what is proven and proves nothing itself."""
    why = f"{type(rule).__name__} replaces a part of PhasedRule and states no guarantee of its own"
    return replace(Guarantee.nothing(f"none: {why}", *rule.grounds()), whom=rule.whom)


def _unproven_intervals(rule: PhasedRule, _: float) -> Guarantee:
    """Return what is proven about the intervals of such a rule."""
    why = f"{type(rule).__name__} replaces a part of PhasedRule and states nothing about them"
    return Guarantee.nothing(f"come without a probability: {why}", *rule.grounds())


# A class that replaces a method states its own guarantee, or has none.
_JUDGE = Judge(
    {
        "guarantee": Statement(instead=_unproven),
        "interval_guarantee": Statement(instead=_unproven_intervals),
        "outlives_withdrawals": Statement(instead=property(lambda _: False)),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasedRule(Beliefs):
    r"""Elimination in phases: Algorithm 2 of the paper, with exchangeable parts.

    Fed2-UCB, Fed1-UCB, its centralised version, the authors' baseline and improved UCB are all this
    rule with other schedules, radii and populations.

    Parameters
    ----------
    **beliefs
        As in `Beliefs`: what it is told of the game.
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

    pulls: Callable[[int], int]
    admissions: Callable[[int], int]
    radius: Radius
    estimator: Estimator = _PLAIN
    epsilon: float = 0.0
    target: Target = "clients"
    player: Player = Player.CLIENTS
    charge: Charge = Charge.PHASE
    last_phase: int | None = None
    max_clients: int | None = None
    max_phases: int | None = None
    affordable: Callable[[int], bool] | None = None

    def __init_subclass__(cls) -> None:
        """Note what a class states: it is judged when it is asked for."""
        _JUDGE.hear(cls)

    @classmethod
    def of(cls, beliefs: Beliefs, **parts: Any) -> Self:
        """Return the rule of a game, given what is believed about it.

        Parameters
        ----------
        beliefs : Beliefs
            Of the game. If its clients have weights they are counted by them.
        **parts
            The other fields, and those that the algorithm believes otherwise.
        """
        told = {field.name: getattr(beliefs, field.name) for field in fields(Beliefs)}
        rule = cls(**told | parts)
        return rule.with_given_weights() if rule.weighted else rule

    @property
    def scheduled(self) -> bool:
        """Whether phases follow a schedule, so that many can be played at once.

        Whom a phase admits is known beforehand then, and every active arm is pulled as often. A
        subclass that plans for itself does not, unless it says so.
        """
        return type(self).plan is PhasedRule.plan

    def guarantee(self) -> Guarantee:
        """Return what is proven about this rule, about whom, and what that assumes.

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
            found = self.radius.guarantee(self.proof_context).requiring(
                *self.estimator.conditions(self.proof_context)
            )
            if found.regret and self.charge is Charge.SLOT:
                found = Guarantee.nothing(
                    "none: the theorems charge communication once a phase", *found.conditions
                )
        return replace(found, whom=self.whom).requiring(*self.grounds())

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
                *self.grounds(),
            )
        first = self.radius.interval_conditions(self.proof_context)
        unproven = None
        if first is None:
            unproven = f'the radius "{self.radius.rule}" states no proof of its intervals'
        elif not self.estimator.proven:
            unproven = f'the estimator "{self.estimator.name}" is not proven'
        elif self.needs_components:
            unproven = "noise or spread is estimated from the same data"
        if first is None or unproven:
            return Guarantee.nothing(f"come without a probability: {unproven}", *self.grounds())
        first += self.estimator.conditions(self.proof_context)
        return Guarantee(
            claim=f"hold together with a probability of {100 * (1 - level):g} %",
            error=level,
            whom=self.whom,
        ).requiring(*first, *self.grounds())

    @property
    def proof_context(self) -> ProofContext:
        """What its radius has to know to say what it proves."""
        return ProofContext(
            horizon=self.horizon,
            epsilon=self.epsilon,
            plain=self.estimator.equal_weights,
            shares=self.estimator.needs_shares,
            everyone=self.asks_everyone,
            finite=not self.sampling.independent_clients,
            one_player=self.player is Player.SERVER,
            exact=self.exact and self.population is None and self.estimator.most_likely,
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
            like = "the honest ones" if self.estimator.stands_liars else "these"
            return f"future clients like {like}"
        clients = (
            "this one client" if self.population == 1 else f"these {self.population:,} clients"
        )
        if self.estimator.stands_liars:
            return f"the honest ones of {clients}"
        return f"{clients}, weighted" if self.estimator.needs_shares else clients

    @property
    def spread_compared(self) -> float:
        """σ_c as it counts in the difference of two independent arms.

        If the arms of a client may depend on each other, their difference varies by up to √2 times
        as much.
        """
        independent = self.guarantee().condition(Assumption.INDEPENDENT_OPTIONS) is not None
        return (self.spread or 0.0) * (1.0 if independent else math.sqrt(2.0))

    @property
    def liars_floor(self) -> float | None:
        """By how much liars can move a comparison, however many clients there are.

        None if none are allowed for. Of clients that all play, too: the range of their means is all
        that is known, and what a limit from the data makes of it depends on what liars send.

        Examples
        --------
        >>> from fedbandits import CertifiedRadius, Fed2Ucb
        >>> told = Beliefs(n_arms=2, horizon=1000, noise=0.3, spread=0.1)
        >>> rule = Fed2Ucb(pulls=10, admissions=9, radius=CertifiedRadius(), liars=0.2).rule(told)
        >>> round(rule.liars_floor, 3)
        0.082
        """
        if not self.estimator.stands_liars or self.asks_everyone:
            return None
        exist = self.population if self.target == "clients" else None
        return self.estimator.floor(self.spread_compared, exist=exist)

    def part_conditions(self) -> tuple[Condition, ...] | None:
        """Return what is needed as long as some of the clients that it is for are not heard.

        What they leave open is the client term of M of N clients, with its assumptions. None if
        what is proven is about all of them alone.
        """
        part = replace(self.proof_context, everyone=False, draws=not self.bounded)
        words = "the clients that were heard are a random sample of all that the answer is for"
        found = self.radius.guarantee(part)
        if self.guarantee().claim and not found.claim:
            return None
        return (
            *found.conditions,
            *self.estimator.conditions(part),
            Condition(Assumption.RANDOM_CLIENTS, words),
        )

    @property
    def outlives_withdrawals(self) -> bool:
        """Whether what is proven is left after a withdrawal; see `fedbandits.rules.radii.Radius`.

        A subclass that replaces a method says so, or nothing is.
        """
        return self.radius.outlives_withdrawals

    def grounds(self) -> tuple[Condition, ...]:
        """Return what every statement about the rule assumes."""
        whom = Assumption.ALL_CLIENTS if self.asks_everyone else Assumption.RANDOM_CLIENTS
        return (
            tuple(Condition(kind) for kind in (whom, Assumption.NO_DRIFT, Assumption.NO_SELECTION))
            + self.estimator.honesty()
        )

    def _estimated(self) -> tuple[Condition, ...]:
        """Return what a rule assumes that is not told σ or σ_c."""
        known = {Assumption.NOISE_BOUND: self.noise, Assumption.SPREAD_BOUND: self.spread}
        unknown = [kind for kind, told in known.items() if told is None]
        named = " and ".join("σ" if kind is Assumption.NOISE_BOUND else "σ_c" for kind in unknown)
        why = (
            f"{named} {'are' if len(unknown) == 2 else 'is'} estimated from the same data: no"
            " finite-sample guarantee"
        )
        return (
            Condition(Assumption.ESTIMATES_HOLD, status=Status.BROKEN, why=why),
            *(one for one in bounds_needed(self.proof_context) if one.kind not in unknown),
        )

    @property
    def slots(self) -> int:
        """The largest possible number of slots."""
        return LONGEST_HORIZON if self.horizon is None else self.horizon

    def best(self, estimates: FloatArray, active: BoolArray) -> IntArray:
        """Return the active arm with the best estimate, the lowest index on ties."""
        return best_active(estimates if self.goal == "max" else -estimates, active)

    def admit(self, phase: int, clients: int, capped: bool) -> tuple[int, bool]:
        """Return how many clients join by the schedule, and whether the cap ever limited them.

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

    def phases(self) -> Iterator[ScheduledPhase]:
        """Yield the phases of its schedule, as many as fit into the slots if two arms play them."""
        clients, capped, slots = 0, False, 0
        for number in count(1):
            newcomers, capped = self.admit(number, clients, capped)
            clients += newcomers
            pulls = min(self.pulls(number), self.slots)
            yield ScheduledPhase(number, clients, pulls, newcomers)
            slots += 2 * pulls
            if slots >= self.slots or self.ends_after(number):
                return

    def checked_phases(self) -> Iterator[ScheduledPhase]:
        """Yield the phases that tell whether a schedule has a value as far as a game can go.

        Of one that is the same in all phases these are the first two, of a rule that plans for
        itself the first; of others all there are, up to 10,000.

        Examples
        --------
        >>> from fedbandits import Fed2Ucb
        >>> told = Beliefs(n_arms=2, horizon=10**6, noise=0.5, spread=0.02)
        >>> for pulls in ("100", "p"):
        ...     print(len(list(Fed2Ucb(pulls=pulls, admissions=2).rule(told).checked_phases())))
        2
        1000
        """
        most = MOST_CHECKED_PHASES
        if not self.scheduled:
            most = 1
        elif never_changes(self.pulls) and never_changes(self.admissions):
            most = 2
        return islice(self.phases(), most)

    def ends_after(self, phase: int) -> bool:
        """Return whether no phase follows this one, decided or not."""
        return phase in (self.last_phase, self.max_phases) or self.spent_after(phase)

    def spent_after(self, phase: int) -> bool:
        """Return whether the clients' privacy budget allows no release after this phase."""
        return self.affordable is not None and not self.affordable(phase + 1)

    def plan(self, state: State) -> PhasePlan:
        """Return who joins in a phase, and how often each client pulls each arm.

        By the schedules: g(p) clients, and f(p) pulls of every active arm. More pulls than the
        horizon has slots never fit, so they are returned as the horizon.
        """
        newcomers, capped = self._admitted(state)
        pulls = min(self.pulls(state.phase), self.slots)
        return PhasePlan(
            newcomers=newcomers,
            pulls=np.where(state.active, np.int64(pulls), np.int64(0)),
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

    def first_plan(self) -> PhasePlan:
        """Return the plan of the first phase, before anything is known."""
        everything = np.ones(self.n_arms, dtype=np.bool_)
        return self.plan(State(phase=1, active=everything, clients=0, slots_left=self.slots))

    def with_given_weights(self) -> Self:
        r"""Return the rule that counts every client by its own weight.

        With weights :math:`a_m` that sum to 1 the estimate is :math:`\sum_m a_m \bar X_m`, which
        aims at :math:`\sum_m a_m \mu_{k,m}` and has the variance proxy :math:`v = \sigma^2 \sum_m
        a_m^2 / n_m`. All clients are in from the start, so no client term is left. What a radius
        makes of v holds as it does for equal weights.
        """
        if self.population is None or self.admissions(1) < self.population:
            raise InputError(
                "weights",
                "of clients need all of them from the first phase on; use fed1-ucb with all"
                " clients",
            )
        if self.target == "population":
            raise InputError(
                "weights",
                'of clients are for an answer about these clients, but target is "population"; use'
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

    def check_estimates(self) -> None:
        """Refuse an estimator that does not fit the radius, and what cannot be estimated.

        That is σ or σ_c that nobody uses, or from clients that are too few. A rule that uses
        neither may be told neither: nothing is estimated then.
        """
        averaged = self.estimator
        if averaged.uses_variances and self.population is not None and self.target == "clients":
            raise InputError(
                "weights",
                f'"{averaged.name}" is for target = "population"; if {self.population} clients'
                ' exist, all count the same: use "equal"',
            )
        if self.radius.equal_weights_only and not averaged.equal_weights:
            raise InputError(
                "weights",
                f'"{averaged.name}" does not go with the radius "{self.radius.rule}", whose'
                ' width is that of a plain average; use "equal"',
            )
        if averaged.stands_liars:
            self._check_liars()
        unknown = self._not_told
        if len(unknown) == 2 and not any(unknown.values()):
            return
        for name, used in unknown.items():
            if not used:
                raise InputError(
                    f"assume.{name}",
                    f'"estimate", and the radius "{self.radius.rule}" does not use it; leave it'
                    " out",
                )
            if self.population is not None and self.population < self.min_clients:
                raise InputError(
                    f"assume.{name}",
                    f'"estimate" takes at least {self.min_clients} clients, and there are'
                    f" {self.population}; give a number, or lower assume.min_clients",
                )

    def _check_liars(self) -> None:
        """Refuse what nothing is proven for if clients may lie."""
        named = f'"{self.estimator.name}" for clients that may lie'
        if not self.radius.takes_contrasts:
            raise InputError(
                "radius.rule",
                f'"{self.radius.rule}" does not go with the estimator {named}; use "certified"',
            )
        if self.needs_components:
            name = "noise" if self.noise is None else "spread"
            raise InputError(
                f"assume.{name}",
                f'"estimate", but the estimator is {named}, who would be in it; give a number',
            )
        if self.epsilon > 0:
            raise InputError(
                "epsilon",
                f"{self.epsilon:g}, but the estimator is {named}, and a tolerance is not proven"
                " for it; leave it out",
            )
        if not self.scheduled:
            raise InputError(
                "estimator", f"is {named}, and the pulls of this rule depend on what they report"
            )

    @property
    def fewest_clients(self) -> int:
        """The fewest clients with which anything is ever decided."""
        return max(self.radius.fewest_clients, self.min_clients if self.needs_components else 1)

    def check_clients(self) -> None:
        """Refuse a rule that never has enough clients to decide anything."""
        fewest = self.fewest_clients
        if self.population is not None and self.population < fewest:
            raise InputError(
                "radius.min_clients",
                f'"{self.radius.rule}" needs at least {fewest:,} clients to decide, but there are'
                f" {self.population:,}; use another radius, or lower it at your own risk",
            )
        if self.max_clients is not None and self.max_clients < fewest:
            raise InputError(
                "max_clients",
                f"at most {self.max_clients:,} clients, but nothing is decided with fewer than"
                f" {fewest:,}; raise it, or lower min_clients",
            )

    @property
    def asks_everyone(self) -> bool:
        """Whether the answer is for clients that all play from the start."""
        return (
            self.target == "clients"
            and self.population is not None
            and self.admissions(1) >= self.population
            and (self.max_clients is None or self.max_clients >= self.population)
        )

    @property
    def needs_squares(self) -> bool:
        """Whether clients are to send sums of squares."""
        return self.estimator.needs_squares or self._not_told.get("noise", False)

    @property
    def needs_components(self) -> bool:
        """Whether σ or σ_c is estimated."""
        return any(self._not_told.values())

    @property
    def needs_each_client(self) -> bool:
        """Whether it needs the mean of every client, and not just averages over clients."""
        return (
            self.needs_components
            or self.estimator.needs_each_client
            or self.radius.needs_each_client
        )

    @property
    def _not_told(self) -> dict[str, bool]:
        """Which of σ and σ_c it is not told, and whether it uses them."""
        if self.noise is not None and self.spread is not None:
            return {}
        also = self.estimator.uses_variances
        used = {"noise": self.radius.uses_noise or also, "spread": self.radius.uses_spread or also}
        return {name: use for name, use in used.items() if getattr(self, name) is None}

    @property
    def sampling(self) -> Sampling:
        """What it is told of noise, spread and population, and whom the answer is for."""
        not_told = self._not_told
        # What is not used is infinite, as it is if nothing can be said.
        return Sampling(
            noise=self.noise if not_told.get("noise", True) else math.inf,
            spread=self.spread if not_told.get("spread", True) else math.inf,
            population=self.population,
            target=self.target,
            bounded=self.bounded,
            min_clients=self.min_clients,
        )

    def estimate(self, reports: Reports, sampling: Sampling | None = None) -> Estimate:
        """Return what is known about every arm.

        Parameters
        ----------
        reports : Reports
            What clients have reported so far.
        sampling : Sampling, optional
            What is told in place of the rule's own `sampling`, for games that are played in step.
        """
        found = self.estimator.estimate(reports, self.sampling if sampling is None else sampling)
        if self.estimator.needs_each_client:
            found = self._without_nan(found, reports)
        if not self.radius.needs_each_client:
            return found
        return replace(found, client_means=reports.complete_means())

    def _without_nan(self, found: Estimate, reports: Reports) -> Estimate:
        """Return estimates that are numbers; refuse those of active arms that are not."""
        missing = np.isnan(found.values)
        if (missing & reports.active & (found.pulls > 0)).any():
            raise InputError(
                "estimator",
                f'"{self.estimator.name}" gives NaN for an arm that some clients have not pulled;'
                " Reports.each_mean() is NaN for these: leave them out (as numpy.nanmedian does)",
            )
        return (
            replace(found, values=np.where(missing, 0.0, found.values)) if missing.any() else found
        )

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

    def interval_widths(
        self, level: float, *, phase: int, reports: Reports, estimate: Estimate | None = None
    ) -> FloatArray:
        """Return half-widths of intervals to show, simultaneous over arms and phases.

        At a level of their own, whatever the radius: see
        `fedbandits.rules.radii.Radius.interval_widths`. An estimate that was made before may stand
        in place of that of the reports.
        """
        found = self.estimate(reports) if estimate is None else estimate
        known = self._known(phase, reports.active, found)
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
            way=self.estimator.way,
        )

    def decide(self, *, phase: int | IntArray, active: BoolArray, estimate: Estimate) -> Verdict:
        """Return which arms stay active after a phase.

        One that nobody has pulled yet does: nothing is known of it.

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
        pulled = estimate.pulls > 0
        known = self._known(phase, active if pulled.all() else active & pulled, upwards)
        stays, widths = radius.stays(known), radius.half_widths(known)
        settled = self._settled(replace(known, active=stays), radius)
        if known.active is not active:
            open_still = active & ~pulled
            stays = (stays & known.active) | open_still
            settled &= ~open_still.any(axis=-1)
            widths = np.where(pulled, widths, np.inf)
        return Verdict(active=stays, estimates=estimate.values, widths=widths, settled=settled)

    def _settled(self, known: PhaseStatistics, radius: Radius) -> BoolArray:
        """Return whether every remaining arm is as good as the best, up to the tolerance.

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


_JUDGE.hear(PhasedRule, base=True)


def cut_to_fit(pulls: IntArray, slots_left: npt.ArrayLike) -> IntArray:
    """Return the pulls that a phase still makes if only this many slots are left.

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
