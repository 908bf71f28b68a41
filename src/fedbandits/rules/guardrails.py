r"""Whether an option harms: second outcomes with a limit, watched by a test that is always valid.

Let x in [0, 1] be what is watched, and its mean at most the limit l. For every p > l,
:math:`(p/l)^x ((1-p)/(1-l))^{1-x} \le 1 + (x - l)(p - l)/(l(1 - l))`, so that the product over
units is a supermartingale. Its average over p in (l, 1) is one as well, and follows from the sum
and the number of units alone. By Ville's inequality it ever reaches 1/α with a probability of at
most α, however often it is looked at. ``docs/health.md`` has the proof.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedbandits.errors import InputError, as_pair, check_number, check_word
from fedbandits.rules.arrays import BoolArray, FloatArray
from fedbandits.rules.beliefs import Goal

LEVEL = 0.01
"""How likely any option is taken for harmful though none is, at most, if nothing else is said."""

OUTCOME = "outcome"
"""What the outcome itself is called beside guardrails."""

# Parameters of ``record``, by which its guardrails are given.
_TAKEN = ("self", "unit", "value", "covariate", OUTCOME)

# A limit that is found by so many halvings is as exact as a number of 64 bits.
_HALVINGS = 60

# Π (1 + 1/(w+1)²) over all phases w = sinh(π)/(2π): what all sets of phases weigh together.
_ALL_PHASES = math.sinh(math.pi) / (2 * math.pi)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guardrail:
    """A second outcome of every unit, and how large or small its mean may be.

    Parameters
    ----------
    name : str
        What it is called: a word that Python can name a parameter by.
    goal : {"min", "max"}
        "min": an option harms if the mean is above the limit; "max": if it is below.
    limit : float
        The limit, inside the range.
    range : (float, float)
        What contains every value; [0, 1] by default.
    level : float, optional
        How likely any option is withdrawn though it keeps the limit, at most, for all options
        together. By default all guardrails of a trial share `LEVEL`.
    missing : float, optional
        What a unit of live traffic counts whose outcome has not come in time; by default the
        harmless end of the range.

    Examples
    --------
    >>> Guardrail(name="adverse", limit=0.05).words
    'adverse at most 5 %'
    >>> Guardrail(name="adverse", limit=1.5)
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: limit: 1.5 is not inside the range of 0 to 1; a mean could never
    be beyond it, or always is: give a limit between the two, or another range
    """

    name: str
    goal: Goal = "min"
    limit: float
    range: tuple[float, float] = (0.0, 1.0)
    level: float | None = None
    missing: float | None = None

    def __post_init__(self) -> None:
        name = self.name
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise InputError("name", f'{name!r} is not a word such as "adverse"; use letters and _')
        if name in _TAKEN:
            raise InputError("name", f'"{name}" has a meaning of its own; take another word')
        check_word(self.goal, Goal, "goal")
        low, high = as_pair(self.range, "range")
        if not -math.inf < low < high < math.inf:
            raise InputError("range", f"[{low:g}, {high:g}] is not a range; write [low, high]")
        object.__setattr__(self, "range", (low, high))
        for key in ("limit", "level", "missing"):
            value = getattr(self, key)
            if value is not None:
                check_number(value, key)
                object.__setattr__(self, key, float(value))
        if not 0.0 < self.share_limit < 1.0:
            raise InputError(
                "limit",
                f"{self.limit:g} is not inside the range of {low:g} to {high:g}; a mean could never"
                " be beyond it, or always is: give a limit between the two, or another range",
            )
        if self.level is not None and not 0.0 < self.level <= 0.5:
            raise InputError(
                "level", f"{self.level:g} is not an error probability such as {LEVEL}, at most 0.5"
            )
        if self.missing is not None and not low <= self.missing <= high:
            raise InputError(
                "missing", f"{self.missing:g} is outside the range of {low:g} to {high:g}"
            )

    @property
    def share_limit(self) -> float:
        """The limit as a share of the way from the harmless end of the range to the other."""
        return float(self.shares(np.array(self.limit), np.array(1.0)))

    @property
    def assumed(self) -> float:
        """What a unit counts whose outcome has not come in time."""
        if self.missing is not None:
            return self.missing
        return self.range[0] if self.goal == "min" else self.range[1]

    @property
    def is_rate(self) -> bool:
        """Whether means are shown in percent."""
        return self.range == (0.0, 1.0)

    @property
    def words(self) -> str:
        """What it asks for."""
        most = "at most" if self.goal == "min" else "at least"
        return f"{self.name} {most} {self.shown(self.limit)}"

    def shown(self, mean: float) -> str:
        """Return a mean in words.

        Examples
        --------
        >>> Guardrail(name="adverse", limit=0.05).shown(23 / 180)
        '12.8 %'
        """
        return f"{100 * mean:.3g} %" if self.is_rate else f"{mean:.4g}"

    def shares(self, sums: FloatArray, counts: FloatArray) -> FloatArray:
        """Return sums of values as sums of shares in [0, 1], of which more is worse."""
        low, high = self.range
        far = sums - counts * low if self.goal == "min" else counts * high - sums
        return np.asarray(np.clip(far / (high - low), 0.0, counts))

    def beyond(self, sums: FloatArray, counts: FloatArray) -> BoolArray:
        """Return of which options the mean is beyond the limit, whatever chance does.

        Parameters
        ----------
        sums, counts : array, shape (..., arms)
            Of all values of an option so far, and how many there are.

        Examples
        --------
        >>> rail = Guardrail(name="adverse", limit=0.05)
        >>> rail.beyond(np.array([23.0, 9.0]), np.array([180.0, 180.0])).tolist()
        [True, False]
        """
        evidence = log_evidence(self.shares(sums, counts), counts, self.share_limit)
        return np.asarray(evidence >= self._needed(counts.shape[-1]))

    def intervals(self, sums: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the ends of intervals that hold at all times, all of them together.

        Each end misses for any option with a probability of at most ``level``. An option is beyond
        the limit if its whole interval is.
        """
        needed, shares = self._needed(counts.shape[-1]), self.shares(sums, counts)
        least, most = (
            lowest_mean(shares, counts, needed),
            lowest_mean(counts - shares, counts, needed),
        )
        low, high = self.range
        ends = low + (high - low) * least, high - (high - low) * most
        if self.goal == "min":
            return ends
        return low + (high - low) * most, high - (high - low) * least

    def _needed(self, arms: int) -> float:
        """Return the logarithm that the evidence against an option must reach."""
        return math.log(arms / (LEVEL if self.level is None else self.level))

    def verdict(self, total: float, count: float) -> str:
        """Return what was observed of an option that harms, in words.

        Examples
        --------
        >>> Guardrail(name="adverse", limit=0.05).verdict(23.0, 180)
        'adverse: 23 of 180 (12.8 %), limit 5 %'
        """
        mean = self.shown(total / count)
        known = f"mean {mean} of {count:.0f}"
        if self.is_rate and total.is_integer():
            known = f"{total:.0f} of {count:.0f} ({mean})"
        return f"{self.name}: {known}, limit {self.shown(self.limit)}"


def settled(guardrails: Sequence[Guardrail]) -> list[Guardrail]:
    """Return guardrails with their levels: those without one share `LEVEL`.

    Examples
    --------
    >>> [rail.level for rail in settled([Guardrail(name=name, limit=0.05) for name in "ab"])]
    [0.005, 0.005]
    """
    names = [rail.name for rail in guardrails]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise InputError(
                f"guardrails[{place}].name", f'"{name}" is there twice; name each by itself'
            )
    share = LEVEL / max(len(guardrails), 1)
    return [replace(rail, level=rail.level or share) for rail in guardrails]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GuardrailSums:
    """What was reported of guardrails so far. Never written into.

    Parameters
    ----------
    counts : array, shape (arms,)
        Units of every option.
    sums : array, shape (guardrails, arms)
        Of their values.
    """

    counts: FloatArray
    sums: FloatArray

    @classmethod
    def nothing(cls, guardrails: int, arms: int) -> GuardrailSums:
        """Return what is known before anybody has reported."""
        return cls(counts=np.zeros(arms), sums=np.zeros((guardrails, arms)))

    def added(self, counts: Sequence[int], sums: Sequence[Sequence[float]]) -> GuardrailSums:
        """Return the sums with those of one more report."""
        return GuardrailSums(
            counts=self.counts + np.array(counts, dtype=np.float64),
            sums=self.sums + np.array(sums, dtype=np.float64),
        )


def log_evidence(sums: FloatArray, counts: FloatArray, limit: float | FloatArray) -> FloatArray:
    r"""Return the logarithm of the evidence that a mean is above a limit.

    :math:`\int_l^1 (p/l)^S ((1-p)/(1-l))^{n-S} \frac{dp}{1-l}`, by the incomplete beta function.

    Parameters
    ----------
    sums, counts : array
        S and n: of values in [0, 1], and how many there are.
    limit : float or array
        l, between 0 and 1.

    Examples
    --------
    >>> float(np.exp(log_evidence(np.array(23.0), np.array(180.0), 0.05)).round())
    231.0
    """
    from scipy import special  # noqa: PLC0415 - slow to import, and rarely needed

    above, below = sums + 1.0, counts - sums + 1.0
    with np.errstate(divide="ignore"):  # far below the limit nothing is left of the integral
        inside = np.log(special.betaincc(above, below, limit))
    weighed = sums * np.log(limit) + below * np.log1p(-np.asarray(limit))
    return np.asarray(special.betaln(above, below) + inside - weighed)


def lowest_mean(sums: FloatArray, counts: FloatArray, needed: float) -> FloatArray:
    """Return the largest limit that means are above beyond doubt; 0 if there is none.

    Below S/(n+1) the evidence falls as the limit rises, so that halving finds where it is no longer
    enough. It is rounded downwards.

    Parameters
    ----------
    sums, counts : array
        Of values in [0, 1], and how many there are.
    needed : float
        The logarithm that the evidence must reach, above 1.

    Examples
    --------
    >>> lowest_mean(np.array([23.0]), np.array([180.0]), math.log(300)).round(3)
    array([0.049])
    """
    sums, counts = np.broadcast_arrays(sums, counts)
    proven, open_ = np.zeros(sums.shape), sums / (counts + 1.0)
    for _ in range(_HALVINGS):
        middle = (proven + open_) / 2
        enough = np.zeros(sums.shape, dtype=np.bool_)
        tried = middle > 0
        enough[tried] = log_evidence(sums[tried], counts[tried], middle[tried]) >= needed
        proven, open_ = np.where(enough, middle, proven), np.where(enough, open_, middle)
    return proven


def looks_at_first(arms: int) -> int:
    r"""Return by how much the number of a phase counts more while guardrails may withdraw options.

    What a guardrail withdraws, and when, may depend on what was observed. So comparisons must hold
    for all K options at once, and for every set of phases in which some were withdrawn: each of
    them weighs :math:`\prod 1/(w+1)^2`, all of them together :math:`\sinh(\pi)/(2\pi)`.

    Examples
    --------
    >>> [looks_at_first(arms) for arms in (2, 3, 10)]
    [2, 3, 5]
    """
    return math.ceil(math.sqrt(arms * _ALL_PHASES))
