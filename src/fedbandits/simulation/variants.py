"""Variants: an algorithm on a problem, and the rule that is built for it before any game."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from fedbandits.errors import (
    InputError,
    Mistakes,
    check_count,
    check_not_negative,
    check_stated,
    is_number,
    nearest,
)
from fedbandits.privacy.policy import Privacy
from fedbandits.privacy.protection import protected
from fedbandits.problems.problem import Problem
from fedbandits.rules.algorithms import Algorithm
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.guarantees import Guarantee
from fedbandits.rules.indices import SlotRule
from fedbandits.rules.phased import PhasedRule, Player
from fedbandits.rules.variance_components import FEWEST_TO_ESTIMATE
from fedbandits.simulation.assumptions import (
    doubts,
    guarantee_in,
    known_exactly,
    slot_guarantee_in,
)
from fedbandits.simulation.attacks import Attack
from fedbandits.simulation.fidelities import DEFAULT_MAX_CLIENTS, Fidelity, choose_fidelity
from fedbandits.simulation.game import as_played

DEFAULT_MAX_PHASES = 10_000
"""After this many phases a game without a horizon ends undecided."""

ESTIMATE: Final = "estimate"
Told: TypeAlias = float | Literal["estimate"]
"""What a rule is told of σ or σ_c: a number, or to estimate it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assume:
    """What the rule is told instead of the truth.

    Parameters
    ----------
    noise, spread : float or "estimate", optional
        σ and σ_c; the variance proxies of the truth by default. With "estimate" it is told nothing
        and estimates them from the clients' statistics, without a finite-sample guarantee: see
        `fedbandits.rules.variance_components`.
    min_clients : int, optional
        With fewer clients nothing is estimated, and nothing decided; 10 by default.

    Examples
    --------
    >>> Assume(noise=0.5, spread="estimate").spread
    'estimate'
    """

    noise: Told | None = None
    spread: Told | None = None
    min_clients: int | None = None

    def __post_init__(self) -> None:
        for name in ("noise", "spread"):
            value = getattr(self, name)
            if value is None or value == ESTIMATE:
                continue
            if not is_number(value):
                raise InputError(name, f'{value!r} is not a number or "{ESTIMATE}"')
            check_not_negative(value, name)
        check_count(self.min_clients, "min_clients", 2, optional=True)
        if self.min_clients is not None and ESTIMATE not in (self.noise, self.spread):
            raise InputError(
                "min_clients", 'is for noise or spread = "estimate", and both are known'
            )

    def believed(self, name: str, true: float) -> float | None:
        """Return what the rule believes of "noise" or "spread"; None if it is to estimate it."""
        told: Told | None = getattr(self, name)
        if told is None:
            return true
        return None if told == ESTIMATE else told


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Variant:
    """An algorithm on a problem, under a label.

    Parameters
    ----------
    label : str
        What tables and legends call it.
    problem : Problem
        What is played.
    algorithm : Algorithm
        What plays it.
    communication_cost : float
        C.
    assume : Assume
        What the rule believes of noise and spread.
    fidelity : str, optional
        "cohorts", "clients" or "pulls"; the fastest valid one by default.
    max_clients : int, optional
        Admissions stop at this many clients; 10⁹ by default in `cohorts`, 10⁶ otherwise.
    max_phases : int, optional
        After this many phases the best estimate is played on; unlimited by default.
    privacy : Privacy, optional
        How clients protect the means that they send; sent as they are by default.
    attack : Attack, optional
        What clients do that lie; none do by default.
    """

    label: str
    problem: Problem
    algorithm: Algorithm
    communication_cost: float = 1.0
    assume: Assume = Assume()
    fidelity: str | None = None
    max_clients: int | None = None
    max_phases: int | None = None
    privacy: Privacy | None = None
    attack: Attack | None = None

    def __post_init__(self) -> None:
        check_stated(self.problem, Problem, "problem", parent="PlainProblem")
        check_not_negative(self.communication_cost, "communication_cost")
        for name in ("max_clients", "max_phases"):
            check_count(getattr(self, name), name, optional=True)
        known = [fidelity.value for fidelity in Fidelity]
        if self.fidelity is not None and self.fidelity not in known:
            hint = nearest(self.fidelity, known)
            raise InputError("fidelity", f'"{self.fidelity}" is not a fidelity; {hint}')


Built: TypeAlias = "list[tuple[PhasedRule | SlotRule, Fidelity]]"
"""The rule of every variant, and the fidelity it is simulated in."""


def build_rules(variants: Sequence[Variant], horizon: int | None) -> Built:
    """Build the rule of every variant.

    Mistakes are reported before anything is simulated, with their places in ``variants``.
    """
    check_count(horizon, "horizon", optional=True)
    built: Built = []
    mistakes = Mistakes()
    for number, variant in enumerate(variants):
        try:
            built.append(_build_rule(variant, horizon))
        except InputError as error:
            mistakes.add(located(error, number))
    mistakes.tell()
    return built


def located(error: InputError, number: int) -> InputError:
    """Return an error of a variant, seen from the experiment."""
    # These are keys of the experiment, whichever variant they do not suit.
    if error.where in ("horizon", "memory_limit"):
        return error
    if error.where == "population":
        return error.within("problem")
    return error.within(f"variants[{number}]")


def _build_rule(variant: Variant, horizon: int | None) -> tuple[PhasedRule | SlotRule, Fidelity]:
    problem, assume = variant.problem, variant.assume
    if problem.drift is not None:
        _check_drifting(variant, horizon)
    noise = assume.believed("noise", problem.noise_proxy)
    spread = assume.believed("spread", problem.spread_proxy)
    beliefs = Beliefs(
        n_arms=problem.means.size,
        horizon=horizon,
        noise=noise,
        spread=spread,
        population=problem.population,
        cost=variant.communication_cost,
        goal=problem.goal,
        min_clients=FEWEST_TO_ESTIMATE if assume.min_clients is None else assume.min_clients,
        weighted=problem.shares is not None,
        # Of given clients nothing is known but the range of their means.
        bounded=problem.clients_are_given and assume.spread != "estimate",
        exact=known_exactly(problem, noise, spread),
    )
    rule = variant.algorithm.rule(beliefs)
    if not rule.decides_every_slot:
        return _build_phased(variant, rule)
    for name in ("max_clients", "max_phases"):
        if getattr(variant, name) is not None:
            raise InputError(name, "an algorithm that decides in every slot has no such cap")
    if variant.attack is not None:
        raise InputError(
            "attack", "is by clients that report, but here nobody reports anything; leave it out"
        )
    if variant.privacy is not None:
        raise InputError(
            "privacy", "protects what clients send, but here nobody sends anything; leave it out"
        )
    return rule, choose_fidelity(variant.fidelity, as_played(problem, rule), rule)


def _check_drifting(variant: Variant, horizon: int | None) -> None:
    """Refuse games with means that change which are not simulated."""
    if horizon is None:
        raise InputError("horizon", "is missing, and a game whose means change needs one")
    for name in ("privacy", "attack"):
        if getattr(variant, name) is not None:
            raise InputError(name, "is not simulated for means that change; leave it out")


def _build_phased(variant: Variant, rule: PhasedRule) -> tuple[PhasedRule, Fidelity]:
    """Return a rule with its caps, as its clients' privacy leaves it, or refuse what cannot be."""
    assume, privacy = variant.assume, variant.privacy
    if assume.noise == assume.spread == ESTIMATE and not rule.needs_components:
        raise InputError(
            "assume.noise",
            f'"estimate", and the radius "{rule.radius.rule}" does not use it; leave it out',
        )
    default = DEFAULT_MAX_PHASES if rule.horizon is None else None
    most_phases = default if variant.max_phases is None else variant.max_phases
    rule = replace(rule, max_clients=variant.max_clients, max_phases=most_phases)
    if privacy is not None:
        try:
            rule = protected(rule, privacy)
        except InputError as error:
            raise error.within("privacy") from None
    played = as_played(variant.problem, rule)
    if variant.attack is not None:
        _check_attack(rule, privacy)
    fidelity = choose_fidelity(variant.fidelity, played, rule, privacy, variant.attack)
    if rule.max_clients is None:
        most = DEFAULT_MAX_CLIENTS[fidelity]
        if rule.admissions(1) > most:
            raise InputError(
                "max_clients",
                f"{rule.admissions(1):,} clients in the first phase; {most:,} is the most in "
                f"{fidelity.value}, unless you set it higher",
            )
        rule = replace(rule, max_clients=most)
    rule.check_clients()
    if rule.estimator.needs_shares and rule.first_plan().capped:
        raise InputError(
            "max_clients",
            f"{rule.max_clients:,} of {rule.population:,} clients, and they have weights: all of"
            " them must play; raise it",
        )
    first = rule.pulls(1) * rule.n_arms
    if first > rule.slots:
        raise InputError(
            "horizon",
            f'{rule.slots:,} slots; the first phase of "{variant.label}" alone takes {first:,} '
            f"({rule.pulls(1):,} pulls of {rule.n_arms} arms): raise it, or lower "
            f"{'pulls' if rule.scheduled else 'first_pulls'}",
        )
    # What is believed of noise and spread has no part in it, and many variants differ in it alone.
    _check_schedules(replace(rule, noise=None, spread=None), privacy)
    return rule, fidelity


def _check_attack(rule: PhasedRule, privacy: Privacy | None) -> None:
    """Refuse games in which it is not said what liars would report."""
    if rule.player is Player.SERVER:
        raise InputError(
            "attack", "is by clients, but here one player makes all pulls; leave it out"
        )
    if privacy is not None:
        raise InputError("attack", "is not simulated for means that are protected; leave one out")
    if rule.needs_squares:
        raise InputError(
            "attack", "is not simulated for rules that estimate noise or spread; give numbers"
        )


@lru_cache(maxsize=2**12)
def _check_schedules(rule: PhasedRule, privacy: Privacy | None) -> None:
    """Refuse schedules that have no value in a phase, or one that privacy does not allow."""
    for phase in rule.checked_phases():
        if privacy is not None:
            privacy.check_pulls(phase.pulls, phase.number)


def guarantee_of(variant: Variant, rule: PhasedRule | SlotRule) -> Guarantee:
    """Return what is proven about a variant's game, with all that the game keeps and breaks."""
    if rule.decides_every_slot:
        return slot_guarantee_in(rule, variant.problem)
    return guarantee_in(rule, variant.problem, variant.privacy, variant.attack)


def all_doubts(variant: Variant, rule: PhasedRule | SlotRule) -> list[str]:
    """Return what breaks a variant's guarantee or speaks against its game, in words."""
    if rule.decides_every_slot:
        return list(slot_guarantee_in(rule, variant.problem).breaches)
    return doubts(rule, variant.problem, variant.privacy, variant.attack)
