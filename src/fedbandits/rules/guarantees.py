"""Guarantees: what is proven, about whom, and what the proof assumes, as one value.

A radius states what it proves (`Radius.guarantee`), and its rule adds whom that is about and what
every statement rests on. A simulated problem, a privacy policy and the records of a live run then
say of each condition that it is kept, or that it is broken. Whatever prints a promise prints this
value. In its words arms are called options, because not everybody who reads an answer knows what
an arm is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

from fedbandits.rules.levels import LevelLike, as_level


class Assumption(Enum):
    """What a proof may rest on; the value is how it is put unless a condition has its own words."""

    NOISE_BOUND = "the noise is no larger than was assumed"
    """σ bounds the noise."""
    SPREAD_BOUND = "the spread between clients is no larger than was assumed"
    """σ_c bounds the spread."""
    EXACTLY_NORMAL = (
        "outcomes and the means of clients are normal, noise and spread are exactly what was"
        " assumed, and a client's options are independent of each other"
    )
    """Of a certified commitment if clients join: bounds are not enough."""
    ESTIMATES_HOLD = (
        "noise and spread are what was estimated from the same data (nothing is proven for a finite"
        " sample)"
    )
    """Of a rule that is told neither σ nor σ_c."""
    NORMAL_CLIENTS = "the means of clients are normal and rest on equally many pulls"
    """Of the t-test."""
    IN_RANGE = "all outcomes lie in the declared range"
    """Of radii and policies that are told a range."""
    INDEPENDENT_OPTIONS = (
        "what a client sees of one option has nothing to do with what it sees of another"
    )
    """Of comparisons with ``dependence = "independent"``. If clients are given, the same sample
    judges all options, and this is about their local means."""
    LIKE_DRAWS = (
        "the means of the clients that exist are themselves like draws from a law of the assumed"
        " spread"
    )
    """If some of N clients are asked before the others, unless half the range of their means is
    known: ``bounded`` of `fedbandits.Beliefs`."""
    SINGLE_BEST = "a single option is the best"
    """Of regret bounds: two that tie would be compared, at a cost, to the horizon."""
    RANDOM_CLIENTS = "the clients are a random sample of those the answer is for"
    """If not all clients are asked."""
    ALL_CLIENTS = "the answer is for these clients alone"
    """If all clients that exist play from the start."""
    NO_DRIFT = "an option is as good at the end as at the beginning"
    """Of every statement."""
    NO_SELECTION = (
        "whether a client answers has nothing to do with what it observed, nor with how good the"
        " options are for it"
    )
    """Of every statement: dropping out may depend neither on observations nor on local means."""
    WITHDRAWN_ANYWAY = "options were withdrawn for other reasons than what was observed of them"
    """Of a run in which one was: else the best of the rest depends on what was observed."""
    HALTED_ANYWAY = (
        "clients have halted options, or themselves, for other reasons than what they observed and"
        " how good the options are for them"
    )
    """Of a run in which a site did: else who reports an option depends on how good it is there."""
    FEW_LIARS = "no more clients lie than was declared"
    """Of estimators that stand liars."""
    LIARS_ANYWAY = (
        "which clients lie has nothing to do with what they would observe (they may know"
        " everything, and act together)"
    )
    """Of estimators that stand liars: if those lie who would report the highest values, the others
    are no sample of all."""
    NORMAL_LAWS = "outcomes and the means of clients are normal"
    """Of floors that are exact for normal clients."""
    COVARIATE = (
        "the covariate of a unit is known before its option, and how outcomes are adjusted by it"
        " was settled before the trial, or from other units"
    )
    """Of trials that adjust outcomes by a covariate."""
    HONEST = "clients report what they observed (a false report inside the range goes unnoticed)"
    """Of every statement."""


ConditionKind: TypeAlias = Assumption | str
"""What a condition is about: one of the above, or a word for a condition of your own."""

_COMMON = frozenset(
    {
        Assumption.NOISE_BOUND,
        Assumption.SPREAD_BOUND,
        Assumption.RANDOM_CLIENTS,
        Assumption.ALL_CLIENTS,
        Assumption.NO_DRIFT,
        Assumption.NO_SELECTION,
        Assumption.HONEST,
    }
)


class Status(Enum):
    """The state of a condition."""

    UNVERIFIABLE = "cannot be checked"
    KEPT = "kept"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Condition:
    """One of the things that a proof assumes.

    Parameters
    ----------
    kind : Assumption or str
        What it is about. A part of your own may have a kind of its own, as any text.
    words : str
        How it is put; as the kind puts it by default.
    status : Status
        Whether it is kept.
    why : str
        What broke it.
    limits : (float, float), optional
        The range that it is about, if it is about one.

    Examples
    --------
    >>> Condition("few liars", "at most 3 of 40 clients lie").words
    'at most 3 of 40 clients lie'
    >>> Condition(Assumption.NO_DRIFT).words
    'an option is as good at the end as at the beginning'
    """

    kind: ConditionKind
    words: str = ""
    status: Status = Status.UNVERIFIABLE
    why: str = ""
    limits: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        usual = self.kind.value if isinstance(self.kind, Assumption) else self.kind
        object.__setattr__(self, "words", self.words or usual)

    @property
    def common(self) -> bool:
        """Whether nearly every statement assumes it, so that it can be said once for all."""
        return self.kind in _COMMON


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofContext:
    r"""What a radius has to know about its rule to say what it proves.

    Parameters
    ----------
    horizon : int, optional
        T.
    epsilon : float
        The tolerance.
    plain : bool
        Whether estimates are plain averages over clients.
    shares : bool
        Whether clients have weights of their own.
    everyone : bool
        Whether the answer is for clients who all play from the start: no client term is left.
    finite : bool
        Whether the answer is for a number of clients that exist.
    draws : bool
        Whether the client term is :math:`\sigma_c^2 (1/M - 1/N)` of N clients that exist.
    one_player : bool
        Whether one player makes all pulls, on the global model itself.
    exact : bool
        Whether σ and σ_c are exactly those of normal laws, and estimates the most likely means:
        what they deviate by is then a likelihood ratio, whatever counts depend on.
    """

    horizon: int | None
    epsilon: float = 0.0
    plain: bool = True
    shares: bool = False
    everyone: bool = False
    finite: bool = False
    draws: bool = False
    one_player: bool = False
    exact: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """What is proven, and what the proof assumes.

    Parameters
    ----------
    claim : str
        What is proven, in words; empty if nothing is.
    error : float or None
        With which probability the best option is lost, at most. None if no probability is proven,
        and as soon as a condition is broken.
    whom : str
        Whom it is about.
    conditions : tuple of Condition
        What it rests on, one of a kind. Without a claim: what the widths rest on.
    reason : str
        Why nothing is proven.
    regret : bool
        Whether what is claimed is a bound on the regret, by Theorems 2 and 3.

    Examples
    --------
    >>> found = Guarantee(claim="never errs", error=0.0, whom="these 5 clients")
    >>> found = found.requiring(Condition(Assumption.NO_DRIFT), Condition(Assumption.IN_RANGE))
    >>> found.words()
    'never errs, if all outcomes lie in the declared range; the answer is for these 5 clients'
    >>> late = found.broken(Assumption.NO_DRIFT, "prices rose in May")
    >>> late.error, late.holds, late.words()
    (None, False, 'none: prices rose in May; the answer is for these 5 clients')
    """

    claim: str = ""
    error: float | None = None
    whom: str = ""
    conditions: tuple[Condition, ...] = ()
    reason: str = ""
    regret: bool = False

    def __post_init__(self) -> None:
        if not self.holds:
            object.__setattr__(self, "error", None)

    @classmethod
    def nothing(cls, reason: str, *conditions: Condition) -> Guarantee:
        """Return the empty guarantee.

        Parameters
        ----------
        reason : str
            Why nothing is proven; it begins with "none".
        *conditions : Condition
            What the widths rest on nevertheless.
        """
        return cls(reason=reason).requiring(*conditions)

    @property
    def holds(self) -> bool:
        """Whether something is proven and none of its conditions is known to be broken."""
        return bool(self.claim) and not self.breaches

    @property
    def breaches(self) -> tuple[str, ...]:
        """What broke conditions, in words."""
        return tuple(one.why for one in self.conditions if one.status is Status.BROKEN)

    def condition(self, kind: ConditionKind) -> Condition | None:
        """Return the condition of a kind, or None if it is not assumed."""
        return next((one for one in self.conditions if one.kind == kind), None)

    def requiring(self, *conditions: Condition) -> Guarantee:
        """Return the guarantee with these conditions added; existing ones of a kind stay."""
        there = {one.kind for one in self.conditions}
        more = {one.kind: one for one in reversed(conditions) if one.kind not in there}
        return replace(self, conditions=(*self.conditions, *reversed(more.values())))

    def without(self, kind: ConditionKind) -> Guarantee:
        """Return the guarantee without its condition of a kind, for one that says more of it."""
        others = tuple(one for one in self.conditions if one.kind != kind)
        return replace(self, conditions=others)

    def kept(self, *kinds: ConditionKind) -> Guarantee:
        """Return the guarantee with these conditions kept; what was broken stays broken."""
        return self._marked(Status.KEPT, kinds)

    def opened(self, kind: ConditionKind) -> Guarantee:
        """Return the guarantee with a condition that can no longer be checked, unless broken."""
        return self._marked(Status.UNVERIFIABLE, (kind,))

    def _marked(self, status: Status, kinds: Sequence[ConditionKind]) -> Guarantee:
        intact = (one for one in self.conditions if one.status is not Status.BROKEN)
        return self.following(replace(one, status=status) for one in intact if one.kind in kinds)

    def broken(self, kind: ConditionKind, why: str) -> Guarantee:
        """Return the guarantee with a condition broken; the same if it is not assumed."""
        return self.following([Condition(kind, status=Status.BROKEN, why=why)])

    def following(self, conditions: Iterable[Condition]) -> Guarantee:
        """Return the guarantee with its conditions in the state of these of the same kinds."""
        found = {one.kind: one for one in conditions}
        return replace(
            self,
            conditions=tuple(
                replace(one, status=found[one.kind].status, why=found[one.kind].why)
                if one.kind in found
                else one
                for one in self.conditions
            ),
        )

    def statement(self) -> str:
        """Return what is proven and what it assumes beyond the common conditions, in words."""
        if not self.claim:
            return self.reason
        if self.breaches:
            return f"none: {'; '.join(self.breaches)}"
        also = [one.words for one in self.conditions if not one.common]
        return f"{self.claim}, if {listed(also)}" if also else self.claim

    def words(self) -> str:
        """Return all of it in a sentence, without the conditions that nearly everything has."""
        return self.statement() + (f"; the answer is for {self.whom}" if self.whom else "")


def keeps_best(delta: LevelLike, context: ProofContext, *conditions: Condition) -> Guarantee:
    """Return the promise to drop the best option with a probability of at most δ.

    With a tolerance no option that is left is worse than the best by more, unless a comparison with
    it has erred.

    Examples
    --------
    >>> print(keeps_best("1/T", ProofContext(horizon=1000, epsilon=0.1)).claim)
    drops the best option, or settles on one worse by more than 0.1, with a probability of at most
    0.001 (1/T)
    """
    level = as_level(delta)
    named = f" ({level})" if level.expression.depends_on_horizon else ""
    worse = (
        f", or settles on one worse by more than {context.epsilon:g}," if context.epsilon else ""
    )
    value = level.value(context.horizon)
    return Guarantee(
        claim=f"drops the best option{worse} with a probability of at most {value:g}{named}",
        error=value,
    ).requiring(*conditions)


def bounds_needed(context: ProofContext, *, noise: bool = True) -> tuple[Condition, ...]:
    """Return what widths with σ (unless told otherwise) and σ_c in them assume."""
    found = [Condition(Assumption.NOISE_BOUND)] if noise else []
    if not context.everyone:
        found.append(Condition(Assumption.SPREAD_BOUND))
    if context.draws:
        found.append(Condition(Assumption.LIKE_DRAWS))
    return tuple(found)


def pairs_needed(
    context: ProofContext, dependence: str, *, noise: bool = True
) -> tuple[Condition, ...]:
    r"""Return what comparisons of two arms at a time assume.

    The best of N clients that are drawn is itself random. If how the M first deviate from all N
    depends on that, any of K(K − 1) comparisons may be one with the best arm, and δ is K times as
    large. For normal draws it does not: the deviations are independent of the average over all.
    """
    found = list(bounds_needed(context, noise=noise))
    if context.draws:
        found[-1] = Condition(Assumption.LIKE_DRAWS, LIKE_NORMAL_DRAWS)
    if dependence == "independent":
        found.append(Condition(Assumption.INDEPENDENT_OPTIONS))
    return tuple(found)


LIKE_NORMAL_DRAWS = (
    f"{Assumption.LIKE_DRAWS.value}, and how those asked first deviate from all has nothing to do"
    " with which option is best (as for normal draws; else the probability is up to as many times"
    " as large as there are options)"
)
"""What pairs rest on if the best of N drawn clients is asked for."""


def within(limits: tuple[float, float]) -> Condition:
    """Return the condition that outcomes lie in a range."""
    low, high = limits
    words = f"all outcomes lie between {low:g} and {high:g}"
    return Condition(Assumption.IN_RANGE, words, limits=limits)


def listed(parts: Sequence[str]) -> str:
    """Return parts of a sentence as one.

    Examples
    --------
    >>> listed(["it rains"]), listed(["it rains", "it is cold"])
    ('it rains', 'it rains, and it is cold')
    """
    *first, last = parts
    return f"{', '.join(first)}, and {last}" if first else last
