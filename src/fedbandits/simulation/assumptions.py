"""What a rule assumes and a problem does not keep: said, since the user may know better."""

from __future__ import annotations

import numpy as np

from fedbandits.problems.problem import Problem, gaps
from fedbandits.rules.phased import PhasedRule, Player

# Sums that are equal on paper differ by less than this in a computer.
_ROUNDING = 1e-12


def doubts(problem: Problem, rule: PhasedRule) -> list[str]:
    """Return the assumptions of a rule's guarantee that a problem does not keep, in words.

    Clients of a finite population are drawn without replacement, which makes them depend on each
    other; their arms still do not, since each arm is drawn and recentred by itself. Arms of given
    clients do, whoever asks them in which order.

    Parameters
    ----------
    problem : Problem
        What is true.
    rule : PhasedRule
        What decides, with what it believes.

    Examples
    --------
    >>> from fedbandits import Approximate, CertifiedRadius, Fed2Ucb, Gaussian
    >>> from fedbandits.rules.phased import Beliefs
    >>> game = Approximate(means=[0.5, 0.9], noise=Gaussian(0.5), spread=Gaussian(0.1))
    >>> careless = Beliefs(n_arms=2, horizon=1000, noise=0.3, spread=0.1)
    >>> rule = Fed2Ucb(pulls=10, admissions="2^p", radius=CertifiedRadius()).rule(careless)
    >>> doubts(game, rule)
    ['it is told noise 0.3, and the noise is 0.5: its widths are too narrow']
    """
    found = []
    radius = rule.radius
    everyone = rule.player is Player.SERVER or (
        rule.target == "clients"
        and rule.population == problem.population
        and rule.admissions(1) >= (rule.population or np.inf)
    )
    unknown = [name for name, told in (("σ", rule.noise), ("σ_c", rule.spread)) if told is None]
    if unknown:
        found.append(
            f"{' and '.join(unknown)} {'are' if len(unknown) == 2 else 'is'} estimated from the"
            " same data: no finite-sample guarantee"
        )
    if radius.uses_noise and rule.noise is not None and rule.noise < problem.noise_proxy:
        found.append(
            f"it is told noise {rule.noise:g}, and the noise is {problem.noise_proxy:g}: its widths"
            " are too narrow"
        )
    if radius.uses_spread and not everyone:
        found += _doubts_about_clients(problem, rule)
    if radius.limits is not None:
        found += _doubts_about_range(problem, *radius.limits)
    if radius.normal_clients:
        found.append(
            f"{radius.rule} has no finite-sample guarantee: it takes the clients' differences for"
            " normal and their pulls for equal in number"
        )
    return found + _doubts_about_an_end(problem, rule)


def _doubts_about_an_end(problem: Problem, rule: PhasedRule) -> list[str]:
    worse = gaps(problem)
    tied = int((worse <= _ROUNDING * max(1.0, float(np.abs(problem.means).max()))).sum())
    if tied == 1 or rule.horizon is not None or rule.epsilon > 0:
        return []
    return [
        f"{tied} arms are equally good, so that only an error decides between them, and there is no"
        " horizon: set epsilon, which ends a game when all arms that are left are that close"
    ]


def _doubts_about_clients(problem: Problem, rule: PhasedRule) -> list[str]:
    found = []
    sample_taken_for_all = rule.target == "clients" and rule.population != problem.population
    if sample_taken_for_all:
        among = "an unlimited population" if problem.population is None else problem.population
        found.append(
            f"it takes the clients it admits ({rule.population:,}) for all there are, and they are"
            f" a sample of {among}: the best arm for them may not be the best for all"
        )
    elif rule.spread is not None and rule.spread < problem.spread_proxy:
        found.append(
            f"it is told spread {rule.spread:g}, and the spread is {problem.spread_proxy:g}: its"
            " widths are too narrow"
        )
    if rule.radius.independent_arms and not problem.arms_compare_as_independent:
        found.append(
            "it takes the arms of a client for independent, and they may not be; use"
            ' dependence = "any"'
        )
    return found


def _doubts_about_range(problem: Problem, low: float, high: float) -> list[str]:
    known = problem.noise.outcome_range
    if known is None:
        return [
            f"it takes all outcomes to lie in [{low:g}, {high:g}], and {problem.noise.law}"
            " noise knows no such range"
        ]
    lowest, highest = known
    if low <= lowest and highest <= high:
        return []
    return [
        f"it takes all outcomes to lie in [{low:g}, {high:g}], and they lie in [{lowest:g},"
        f" {highest:g}]"
    ]
