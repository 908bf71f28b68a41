"""Fidelities: what is drawn, and which of them is valid for a game."""

from __future__ import annotations

import math
from enum import Enum

from fedbandits.errors import InputError
from fedbandits.privacy.policy import Privacy
from fedbandits.problems.clipping import clipping
from fedbandits.problems.problem import Problem
from fedbandits.rules.indices import SlotRule
from fedbandits.rules.phased import PhasedRule
from fedbandits.simulation.attacks import Attack
from fedbandits.simulation.releases import NormalPrivacy


class Fidelity(Enum):
    """What a simulation draws, the fastest first."""

    COHORTS = "cohorts"
    """The phase sum of each (cohort, arm)."""
    CLIENTS = "clients"
    """The phase sum of each (client, arm)."""
    PULLS = "pulls"
    """Every observation, through the real client and server machines."""
    SLOTS = "slots"
    """Every observation, for algorithms that decide in every slot."""


DEFAULT_MAX_CLIENTS = {Fidelity.COHORTS: 10**9, Fidelity.CLIENTS: 10**6, Fidelity.PULLS: 10**6}


def obstacle(
    fidelity: Fidelity,
    problem: Problem,
    rule: PhasedRule | SlotRule,
    privacy: Privacy | None = None,
    attack: Attack | None = None,
) -> str | None:
    """Return why a fidelity is not valid for a game, or None if it is.

    Parameters
    ----------
    fidelity : Fidelity
        What would be drawn.
    problem : Problem
        The game as its players see it.
    rule : PhasedRule or SlotRule
        What decides.
    privacy : Privacy, optional
        How clients protect their means.
    attack : Attack, optional
        What clients do that lie.
    """
    if rule.decides_every_slot != (fidelity is Fidelity.SLOTS):
        return (
            "the algorithm decides in every slot and has no fidelities"
            if rule.decides_every_slot
            else "only algorithms that decide in every slot have it"
        )
    if rule.decides_every_slot or fidelity is Fidelity.PULLS:
        return None
    one_by_one = _needs_pulls(problem, privacy)
    if one_by_one is not None:
        return one_by_one
    rough = isinstance(privacy, NormalPrivacy)
    if fidelity is Fidelity.COHORTS:
        if privacy is not None and not rough and privacy.noise != "gaussian":
            return "clients round their means, or add noise to them that is not gaussian"
        lied = "some clients lie, and only averages over clients are drawn"
        own = lied if attack is not None else _needs_clients(rule)
        return own or _obstacle_to_cohorts(problem, rule)
    if not problem.noise.sums_in_closed_form:
        return f"a sum of {problem.noise.law} observations has no closed form"
    if not rule.scheduled and rule.radius.needs_each_client:
        return f'the radius "{rule.radius.rule}" needs as many clients in all replications'
    return None


def _needs_pulls(problem: Problem, privacy: Privacy | None) -> str | None:
    """Return why sums over a phase are not enough, or None."""
    if problem.drift is not None:
        return "the means change while a phase is played, and only its sums are drawn"
    if privacy is None or isinstance(privacy, NormalPrivacy):
        return None
    low, high = privacy.range
    if clipping(problem, low, high).negligible:
        return None
    return f"observations are clipped to [{low:g}, {high:g}], one by one"


def _obstacle_to_cohorts(problem: Problem, rule: PhasedRule) -> str | None:
    law = problem.cohort_law
    if law.obstacle is not None or not law.of_everyone:
        return law.obstacle
    # As many as are let in, which a cap may make fewer than the schedule wants.
    if rule.first_plan().newcomers >= (problem.population or math.inf):
        return None
    return "it needs all given clients from the first phase on"


def _needs_clients(rule: PhasedRule) -> str | None:
    """Return why a rule needs the statistics of every client, or None."""
    if rule.needs_components:
        return "noise and spread are estimated from what every client reports"
    if rule.estimator.needs_shares:
        return "clients have weights of their own, and a cohort's average counts them the same"
    if rule.estimator.needs_each_client:
        return f'the estimator "{rule.estimator.name}" needs the mean of every client'
    if rule.radius.needs_each_client:
        return f'the radius "{rule.radius.rule}" needs the mean of every client'
    return None


def choose_fidelity(
    asked: str | None,
    problem: Problem,
    rule: PhasedRule | SlotRule,
    privacy: Privacy | None = None,
    attack: Attack | None = None,
) -> Fidelity:
    """Return the fidelity asked for, or the fastest valid one.

    Examples
    --------
    >>> from fedbandits.problems import Approximate, Bernoulli, Beta
    >>> from fedbandits.rules.algorithms import Fed2Ucb
    >>> from fedbandits.rules.beliefs import Beliefs
    >>> game = Approximate(means=[0.4, 0.6], noise=Bernoulli(), spread=Beta(0.02))
    >>> rule = Fed2Ucb(pulls="9", admissions="2").rule(
    ...     Beliefs(n_arms=2, horizon=1000, noise=0.5, spread=0.02)
    ... )
    >>> choose_fidelity(None, game, rule)
    <Fidelity.CLIENTS: 'clients'>
    >>> choose_fidelity("cohorts", game, rule)
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: fidelity: "cohorts" is not valid here: it needs gaussian noise,
    and this is bernoulli (valid: clients, pulls)
    """
    valid = [
        fidelity
        for fidelity in Fidelity
        if obstacle(fidelity, problem, rule, privacy, attack) is None
    ]
    if asked is None:
        return valid[0]
    names = ", ".join(fidelity.value for fidelity in valid)
    wanted = Fidelity(asked)
    if wanted not in valid:
        reason = obstacle(wanted, problem, rule, privacy, attack)
        raise InputError("fidelity", f'"{asked}" is not valid here: {reason} (valid: {names})')
    return wanted
