"""Which conditions of its rule's guarantee a simulated game keeps, and which it breaks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import islice

import numpy as np

from fedbandits.privacy.policy import Privacy
from fedbandits.problems.clipping import clipping
from fedbandits.problems.problem import Problem, gap, gaps
from fedbandits.rules.arrays import IntArray
from fedbandits.rules.guarantees import Assumption, Guarantee, within
from fedbandits.rules.indices import SlotRule
from fedbandits.rules.phased import MOST_CHECKED_PHASES, PhasedRule, Player
from fedbandits.simulation.attacks import Attack

# Sums that are equal on paper differ by less than this in a computer.
_ROUNDING = 1e-12

_GIVEN = "its clients are given: their means follow no law"

_ALWAYS_KEPT = (Assumption.NO_SELECTION, Assumption.LIARS_ANYWAY)
"""Of simulated clients."""


def guarantee_in(
    rule: PhasedRule,
    problem: Problem,
    privacy: Privacy | None = None,
    attack: Attack | None = None,
) -> Guarantee:
    """Return the guarantee of a rule with every condition that a game keeps, or breaks, marked.

    Simulated clients are drawn at random, drift only if their problem does, do not drop out, and
    lie only if there is an attack; who does depends on nothing that they observe. Clients of a
    finite population are drawn without replacement, which makes them depend on each other; their
    arms still do not, because each arm is drawn and recentred by itself. Arms of given clients do,
    because the same sample of them judges all arms.

    Parameters
    ----------
    rule : PhasedRule
        What decides, with what it believes.
    problem : Problem
        What is true.
    privacy : Privacy, optional
        How clients protect their means.
    attack : Attack, optional
        What clients do that lie.

    Examples
    --------
    >>> from fedbandits import Approximate, CertifiedRadius, Fed2Ucb, Gaussian
    >>> from fedbandits.rules.beliefs import Beliefs
    >>> game = Approximate(means=[0.5, 0.9], noise=Gaussian(0.5), spread=Gaussian(0.1))
    >>> careless = Beliefs(n_arms=2, horizon=1000, noise=0.3, spread=0.1)
    >>> rule = Fed2Ucb(pulls=10, admissions="2^p", radius=CertifiedRadius()).rule(careless)
    >>> guarantee_in(rule, game).breaches
    ('it is told noise 0.3; the proofs need 0.5, so its widths may be too narrow',)
    """
    found = rule.guarantee()
    if privacy is not None:
        found = found.requiring(within(privacy.range))
    broken = {
        Assumption.NOISE_BOUND: _too_little("noise", rule.noise, problem.noise_proxy),
        Assumption.EXACTLY_NORMAL: None
        if known_exactly(problem, rule.noise, rule.spread)
        else "the laws of its game are not exactly the normal ones that it is told",
        Assumption.INDEPENDENT_OPTIONS: _dependent(rule, problem),
        Assumption.IN_RANGE: _outside(found, problem, privacy),
        Assumption.NO_DRIFT: _drifts(problem),
        Assumption.HONEST: None if attack is None else "some clients lie",
        Assumption.FEW_LIARS: _too_many(rule, attack),
        Assumption.SINGLE_BEST: None
        if _best(problem).size == 1
        else "several options are the best",
    }
    if found.condition(Assumption.NORMAL_LAWS) is not None:
        obstacle = problem.cohort_law.obstacle
        broken[Assumption.NORMAL_LAWS] = _GIVEN if problem.clients_are_given else obstacle
    if problem.clients_are_given:
        broken[Assumption.LIKE_DRAWS] = _GIVEN
    elif problem.clients_are_like_draws:  # else nobody knows
        broken[Assumption.LIKE_DRAWS] = None
    whom = Assumption.ALL_CLIENTS if rule.asks_everyone else Assumption.RANDOM_CLIENTS
    broken[whom] = _sample_taken_for_all(rule, problem) or _best_without_liars(
        rule, problem, attack
    )
    if broken[whom] is None:
        broken[Assumption.SPREAD_BOUND] = _too_little("spread", rule.spread, problem.spread_proxy)
    return _judged(found.kept(*_ALWAYS_KEPT), broken)


def slot_guarantee_in(rule: SlotRule, problem: Problem) -> Guarantee:
    """Return what a rule that decides in every slot assumes, with what a game keeps and breaks.

    Examples
    --------
    >>> from fedbandits import Approximate, Gaussian, KlUcb
    >>> from fedbandits.rules.beliefs import Beliefs
    >>> game = Approximate(means=[0.5, 0.9], noise=Gaussian(0.5), spread=Gaussian(0.1))
    >>> rule = KlUcb().rule(Beliefs(n_arms=2, horizon=1000, noise=0.5, spread=0.1))
    >>> slot_guarantee_in(rule, game).breaches
    ('it takes all outcomes to lie in [0, 1], and gaussian noise knows no such range',)
    """
    found = rule.guarantee()
    return _judged(
        found,
        {
            Assumption.NOISE_BOUND: _too_little("noise", rule.noise, problem.noise_proxy),
            Assumption.IN_RANGE: _outside(found, problem, None),
            Assumption.NO_DRIFT: _drifts(problem),
        },
    )


def _judged(found: Guarantee, broken: Mapping[Assumption, str | None]) -> Guarantee:
    """Return a guarantee with these conditions broken if there is a reason, and kept if not."""
    found = found.kept(*(kind for kind, why in broken.items() if why is None))
    for kind, why in broken.items():
        found = found if why is None else found.broken(kind, why)
    return found


def doubts(
    rule: PhasedRule,
    problem: Problem,
    privacy: Privacy | None = None,
    attack: Attack | None = None,
) -> list[str]:
    """Return what breaks a rule's guarantee and other doubts about the game, in words.

    Parameters
    ----------
    rule, problem, privacy, attack
        As in `guarantee_in`.

    Examples
    --------
    >>> from fedbandits import Approximate, Fed2Ucb, Gaussian, Quantize
    >>> from fedbandits.rules.beliefs import Beliefs
    >>> game = Approximate(means=[0.77, 0.79], noise=Gaussian(0.5), spread=Gaussian(0.02))
    >>> told = Beliefs(n_arms=2, horizon=1000, noise=0.5, spread=0.02)
    >>> rule = Fed2Ucb(pulls=10, admissions="2^p").rule(told)
    >>> for doubt in doubts(rule, game, Privacy(range=(0, 1), quantize=Quantize(bits=8))):
    ...     print(doubt)
    up to 39 % of the observations of an arm lie outside [0, 1] and are clipped: the answer is about
    means of clipped observations, whose gap is 0.01221 where it was 0.02
    """
    found = guarantee_in(rule, problem, privacy, attack).conditions
    # A tie is part of the game, and no mistake.
    broken = [one for one in found if one.kind is not Assumption.SINGLE_BEST and one.why]
    endless = (
        _tied(rule, problem),
        _rounded_away(problem, privacy),
        liars_hide(rule, gap(problem)),
    )
    return [*(one.why for one in broken), *(why for why in endless if why is not None)]


def _drifts(problem: Problem) -> str | None:
    """Return a sentence if the means of a game change."""
    if problem.drift is None:
        return None
    return f"{problem.drift}, and it takes every option to stay as good as it is"


def _too_many(rule: PhasedRule, attack: Attack | None) -> str | None:
    """Return a sentence if more clients lie in some phase than a rule allows for."""
    if attack is None or not rule.estimator.stands_liars:
        return None
    # Of a schedule that never changes, too: the number of clients grows.
    for phase in islice(rule.phases(), MOST_CHECKED_PHASES):
        liars = attack.number_among(phase.clients)
        allowed = rule.estimator.liars_among(phase.clients)
        if liars > allowed:
            return (
                f"{liars:,} of {phase.clients:,} clients lie in phase {phase.number:,}, and it"
                f" allows for {allowed:,}"
            )
    return None


def _best_without_liars(rule: PhasedRule, problem: Problem, attack: Attack | None) -> str | None:
    """Return a sentence if the best arm of a game may not be the best for its honest clients.

    Of N clients f lie. The mean of the others differs from that of all by f/N of the range in which
    differences of two arms lie, at most: four times half the range of the means of an arm.
    """
    number = rule.population
    if attack is None or number is None or not rule.estimator.stands_liars:
        return None
    liars = attack.number_among(number)
    if rule.target == "population" or not liars:
        return None
    if problem.clients_are_given and gap(problem) > 4 * problem.spread_proxy * liars / number:
        return None
    return (
        f"its answer is for the honest ones of {number:,} clients, and the best arm is that of all:"
        f" without the {liars:,} that lie another one may be the best"
    )


def liars_hide(rule: PhasedRule, smallest: float) -> str | None:
    """Return a sentence if the liars that a rule allows for can hide a gap from any sample.

    Parameters
    ----------
    rule : PhasedRule
        With an estimator that may stand liars.
    smallest : float
        The gap.
    """
    floor = rule.liars_floor
    if floor is None or smallest <= 0 or 2 * floor < smallest:
        return None
    far = f"{floor:.3g}" if math.isfinite(floor) else "any amount"
    bearable = rule.estimator.bearable(smallest, rule.spread_compared)
    return (
        f"liars may move a comparison by {far}, and the gap is {smallest:.3g}: if they do, no"
        f" number of clients is sure to tell the best two arms apart (at most"
        f" {share_below(bearable)} may lie for that)"
    )


def share_below(share: float) -> str:
    """Return a share to three digits that is no larger: one that may not be exceeded.

    Examples
    --------
    >>> share_below(0.09996), share_below(0.216), share_below(0.0), share_below(0.00123)
    ('9.99 %', '21.6 %', '0 %', '0.123 %')
    """
    if share <= 0:
        return "0 %"
    digits = 2 - math.floor(math.log10(100 * share))
    return f"{math.floor(100 * share * 10.0**digits * (1 + 1e-12)) / 10.0**digits:g} %"


def known_exactly(problem: Problem, noise: float | None, spread: float | None) -> bool:
    """Return whether σ and σ_c are those of normal laws, with arms that are independent."""
    law = problem.cohort_law
    return law.obstacle is None and (noise, spread) == (law.noise, law.spread)


def _too_little(name: str, told: float | None, true: float) -> str | None:
    if told is None or told >= true:
        return None
    return (
        f"it is told {name} {told:g}; the proofs need {true:.4g}, so its widths may be too narrow"
    )


def _sample_taken_for_all(rule: PhasedRule, problem: Problem) -> str | None:
    believed = rule.population
    for_others = rule.player is Player.SERVER or rule.target == "population"
    if for_others or believed in (None, problem.population):
        return None
    among = "an unlimited population" if problem.population is None else problem.population
    return (
        f"it takes the clients it admits ({believed:,}) for all there are, and they are a sample of"
        f" {among}: the best arm for them may not be the best for all"
    )


def _dependent(rule: PhasedRule, problem: Problem) -> str | None:
    everyone = rule.player is Player.SERVER or (
        rule.asks_everyone and rule.population == problem.population
    )
    if everyone or problem.arms_compare_as_independent:
        return None
    return (
        'it takes the arms of a client for independent, and they may not be; use dependence = "any"'
    )


def _outside(found: Guarantee, problem: Problem, privacy: Privacy | None) -> str | None:
    """Return which outcomes leave the range that a guarantee assumes, if any do."""
    needed = found.condition(Assumption.IN_RANGE)
    if needed is None or needed.limits is None:
        return None
    low, high = needed.limits
    if privacy is not None:
        clipped = _clipped(problem, privacy)
        if clipped is not None or needed.limits == privacy.range:
            return clipped
    takes = f"it takes all outcomes to lie in [{low:g}, {high:g}]"
    known = problem.noise.outcome_range
    if known is None:
        return f"{takes}, and {problem.noise.law} noise knows no such range"
    lowest, highest = known
    if low <= lowest and highest <= high:
        return None
    return f"{takes}, and they lie in [{lowest:g}, {highest:g}]"


def _clipped(problem: Problem, privacy: Privacy) -> str | None:
    """Return what clipping changes about the answer, if anything."""
    low, high = privacy.range
    clipped = clipping(problem, low, high)
    if clipped.negligible:
        return None
    best, left = _best_of_clipped(problem, clipped.means)
    what = f"whose gap is {left:.4g} where it was {gap(problem):.4g}"
    if gaps(problem)[best] > 0:
        what += f", and of which arm {best} is the best, which it was not"
    return (
        f"up to {100 * clipped.shares.max():.2g} % of the observations of an arm lie outside"
        f" [{low:g}, {high:g}] and are clipped: the answer is about means of clipped"
        f" observations, {what}"
    )


def _best_of_clipped(problem: Problem, means: np.ndarray) -> tuple[int, float]:
    signed = means if problem.goal == "max" else -means
    best = int(signed.argmax())
    return best, float(signed[best] - np.sort(signed)[-2])


def _best(problem: Problem) -> IntArray:
    """Return the arms that are the best, several if they tie."""
    limit = _ROUNDING * max(1.0, float(np.abs(problem.means).max()))
    return np.flatnonzero(gaps(problem) <= limit)


def _tied(rule: PhasedRule, problem: Problem) -> str | None:
    """Return a sentence if several arms are the best and no tolerance ends the game."""
    tied = _best(problem)
    if tied.size == 1 or rule.epsilon > 0:
        return None
    if rule.horizon is not None:
        *others, last = map(str, tied)
        return (
            f"arms {', '.join(others)} and {last} are equally good: no rule can tell them"
            f" apart, so games run to the horizon; {'either' if tied.size == 2 else 'any of them'}"
            " counts as the best"
        )
    return (
        f"{tied.size} arms are equally good, so only an error decides between them, and there is no"
        " horizon: set epsilon, which ends a game when all arms that are left are that close"
    )


def _rounded_away(problem: Problem, privacy: Privacy | None) -> str | None:
    """Return a sentence if rounding hides the gap."""
    step = None if privacy is None else privacy.coarsest_step
    if privacy is None or step is None:
        return None
    low, high = privacy.range
    clipped = clipping(problem, low, high)
    left = gap(problem) if clipped.negligible else _best_of_clipped(problem, clipped.means)[1]
    if not 2.0 * step >= left > 0:
        return None
    # Two biases of half a step each, in the estimates and again in the width.
    enough = math.ceil(math.log2(1.0 + 2.0 * (high - low) / left))
    never = "are never" if step >= left else "may never be"
    return (
        f"means are rounded to the nearest of steps of {step:.3g}, and the gap is {left:.3g}: the"
        f" best two arms {never} told apart; use stochastic rounding, or {enough} bits or more"
    )
