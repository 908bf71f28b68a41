"""What a rule promises, and what that rests on, in words that a non-statistician can repeat.

The one list of assumptions: answers, plans and reports take their words from here. Arms are called
options, since not everybody who reads an answer knows what an arm is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedbandits.rules.levels import LevelLike, as_level
from fedbandits.rules.phased import PhasedRule, Player
from fedbandits.rules.radii import (
    BernsteinRadius,
    CertifiedRadius,
    ChernoffRadius,
    ImprovedUcbRadius,
    IndexRadius,
    JointRadius,
    PairedTRadius,
    PairwiseRadius,
    PaperRadius,
)

BOUNDS_HOLD = "noise and spread are no larger than was assumed"
"""What a rule that is told σ and σ_c relies on."""

ESTIMATES_HOLD = (
    "noise and spread are what was estimated from the same data (nothing is proven for a finite"
    " sample)"
)
"""What a rule that is told neither relies on."""

NORMAL_CLIENTS = "the means of clients are normal and rest on equally many pulls"
"""What the t-test relies on."""

INDEPENDENT_OPTIONS = (
    "what a client sees of one option has nothing to do with what it sees of another"
)
"""What a rule with ``dependence = "independent"`` relies on."""

RANDOM_CLIENTS = "the clients are a random sample of those the answer is for"
"""What everybody relies on who has not asked all clients."""

LIKE_DRAWS = (
    "the means of the clients that exist are themselves like draws from a law of the assumed spread"
)
"""What a rule relies on that asks some of N clients before the others, unless it is told half the
range of their means: ``bounded`` of `fedbandits.Beliefs`."""

ALL_CLIENTS = "the answer is for these clients alone"
"""What takes its place where all clients there are play from the start."""

NO_DRIFT = "an option is as good at the end as at the beginning"
"""What everybody relies on."""

NO_SELECTION = "nobody drops out because of what was observed"
"""What everybody relies on."""

ALWAYS = (RANDOM_CLIENTS, NO_DRIFT, NO_SELECTION)
"""What every statement rests on, whatever the rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What a rule promises.

    Parameters
    ----------
    words : str
        The promise; it begins with "none" if there is none. With a tolerance it allows for options
        that are worse than the best by no more.
    error : float or None
        With which probability the best option is ever dropped, at most; None if nothing is known.
    conditions : tuple of str
        What it rests on, beside `BOUNDS_HOLD` and `ALWAYS`.
    """

    words: str
    error: float | None = None
    conditions: tuple[str, ...] = ()


def promise_of(rule: PhasedRule) -> Promise:
    """Return what a rule promises.

    Examples
    --------
    >>> from fedbandits import BernsteinRadius, Fed2Ucb
    >>> from fedbandits.rules.phased import Beliefs
    >>> told = Beliefs(n_arms=2, horizon=None, noise=0.3, spread=0.1)
    >>> algorithm = Fed2Ucb(pulls=10, admissions="2^p", radius=BernsteinRadius(delta=0.05))
    >>> found = promise_of(algorithm.rule(told))
    >>> found.words
    'drops the best option with a probability of at most 0.05'
    >>> print(listed(found.conditions))
    all outcomes lie between 0 and 1, and what a client sees of one option has nothing to do with
    what it sees of another
    """
    if rule.needs_components:
        return Promise(
            words="none in finite samples: it estimates noise or spread from what it decides on"
        )
    radius = rule.radius
    match radius:
        case CertifiedRadius() | BernsteinRadius() | ChernoffRadius():
            return Promise(
                words=_at_most(radius.delta, rule),
                error=as_level(radius.delta).value(rule.horizon),
                conditions=_conditions(rule),
            )
        case IndexRadius(commit="certified"):
            return Promise(
                words=_commits_wrongly(radius.delta, rule),
                error=as_level(radius.delta).value(rule.horizon),
                conditions=_conditions(rule),
            )
        case IndexRadius():
            words = (
                "none for the option that it settles on: it stops asking when its index would not"
                " change its mind"
            )
        case PairedTRadius():
            words = f"{_at_most(radius.delta, rule)} if {NORMAL_CLIENTS}, and nothing in general"
        case PaperRadius():
            words = _of_the_paper(radius, rule)
        case JointRadius():
            words = _without_tolerance(rule) or "the paper's regret bounds, with narrower intervals"
        case PairwiseRadius():
            words = "a comparison errs with a probability of at most 1/T³"
        case ImprovedUcbRadius():
            words = "the regret bound of Auer and Ortner (2010), for one player"
        case _:
            words = f"what its rule, {radius.rule}, promises"
    return Promise(words=words, conditions=_conditions(rule))


def interval_assumptions(rule: PhasedRule) -> tuple[str, ...]:
    """Return what the intervals of `PhasedRule.interval_widths` rest on, whatever the radius.

    Examples
    --------
    >>> from fedbandits import CertifiedRadius, Fed1Ucb
    >>> from fedbandits.rules.phased import Beliefs
    >>> told = Beliefs(n_arms=2, horizon=None, noise=0.3, spread=0.1)
    >>> algorithm = Fed1Ucb(pulls=10, clients=5, radius=CertifiedRadius(delta=0.05))
    >>> for assumption in interval_assumptions(algorithm.rule(told)):
    ...     print(assumption)
    noise and spread are no larger than was assumed
    the answer is for these clients alone
    an option is as good at the end as at the beginning
    nobody drops out because of what was observed
    """
    if rule.radius.needs_each_client:
        first = f"{NORMAL_CLIENTS} (else nothing is proven)"
    elif rule.needs_components:
        first = ESTIMATES_HOLD
    else:
        first = BOUNDS_HOLD
    drawn = (LIKE_DRAWS,) if _takes_clients_for_draws(rule) else ()
    whom = ALL_CLIENTS if rule.asks_everyone else RANDOM_CLIENTS
    return (first, *drawn, whom, NO_DRIFT, NO_SELECTION)


def for_whom(rule: PhasedRule) -> str:
    """Return whom the answer of a rule is for.

    Examples
    --------
    >>> from fedbandits import Fed1Ucb, Fed2Ucb
    >>> from fedbandits.rules.phased import Beliefs
    >>> told = Beliefs(n_arms=2, horizon=1000, noise=0.3, spread=0.1)
    >>> for_whom(Fed2Ucb(pulls=10, admissions="2^p").rule(told))
    'future clients like these'
    >>> for_whom(Fed1Ucb(pulls=10, clients=5).rule(told))
    'these 5 clients'
    """
    if rule.player is Player.SERVER:
        return "the clients that one player observes as a whole"
    if rule.population is None or rule.target == "population":
        return "future clients like these"
    clients = "this one client" if rule.population == 1 else f"these {rule.population:,} clients"
    return f"{clients}, weighted" if rule.estimator.needs_shares else clients


def listed(parts: Sequence[str]) -> str:
    """Return parts of a sentence as one.

    Examples
    --------
    >>> listed(["it rains"]), listed(["it rains", "it is cold"])
    ('it rains', 'it rains, and it is cold')
    """
    *first, last = parts
    return f"{', '.join(first)}, and {last}" if first else last


def _conditions(rule: PhasedRule) -> tuple[str, ...]:
    """Return what a promise of the radius rests on, beside what all of them do."""
    found = []
    limits = rule.radius.limits
    if limits is not None:
        low, high = limits
        found.append(f"all outcomes lie between {low:g} and {high:g}")
    if rule.radius.independent_arms:
        found.append(INDEPENDENT_OPTIONS)
    if _takes_clients_for_draws(rule):
        found.append(LIKE_DRAWS)
    return tuple(found)


def _takes_clients_for_draws(rule: PhasedRule) -> bool:
    """Return whether σ_c²(1/M − 1/N) is in the widths: for some clients it is no proxy."""
    return (
        rule.population is not None
        and rule.target == "clients"
        and not (rule.bounded or rule.asks_everyone or rule.radius.needs_each_client)
    )


def _without_tolerance(rule: PhasedRule) -> str | None:
    """Return why the paper's regret bounds fail with a tolerance: what is lost grows with T."""
    if rule.epsilon == 0.0:
        return None
    return "none: the paper's regret bounds are about one option that is left, without a tolerance"


def _of_the_paper(radius: PaperRadius, rule: PhasedRule) -> str:
    stopped = _without_tolerance(rule)
    if stopped is not None:
        return stopped
    if not rule.estimator.equal_weights:
        return "none: the paper's proofs are about plain averages"
    if radius.arm >= 6 and (radius.client >= 6 or rule.asks_everyone):
        return "the regret bounds of Theorems 2 and 3"
    return "none: its constants are below the 6 that carries the paper's proofs"


def _commits_wrongly(delta: LevelLike, rule: PhasedRule) -> str:
    """Return what a certified commitment of an index rule promises."""
    value = as_level(delta).value(rule.horizon)
    return f"settles on another option than the best with a probability of at most {value:g}"


def _at_most(delta: LevelLike, rule: PhasedRule) -> str:
    level = as_level(delta)
    named = f" ({level})" if level.expression.depends_on_horizon else ""
    value = f"{level.value(rule.horizon):g}{named}"
    # No option that is left is worse than the best by more, unless a comparison with it has erred.
    worse = f", or settles on one worse by more than {rule.epsilon:g}," if rule.epsilon else ""
    return f"drops the best option{worse} with a probability of at most {value}"
