"""Attacks: what simulated clients that lie report, in place of what they observed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from fedbandits.errors import (
    InputError,
    as_pair,
    check_count,
    check_not_negative,
    check_word,
    is_number,
)
from fedbandits.problems.problem import Problem, gaps
from fedbandits.rules.arrays import BoolArray, FloatArray
from fedbandits.rules.contrasts import share_of

AttackName: TypeAlias = Literal["extreme", "swapped", "push", "late", "stall"]
"""How liars lie; see `Attack`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scene:
    """What liars know when they report: everything, that of honest clients included.

    Parameters
    ----------
    phase : int
        The phase.
    means : array, shape (arms, honest clients)
        What honest clients have reported so far, with this phase.
    truth : callable
        From an arm to the means that liars have observed of it in this phase, shape (liars,).
    sums : array, shape (arms, liars)
        What the liars themselves have reported before, as sums.
    counts : array, shape (arms, liars)
        Of so many pulls.
    pulls : array, shape (arms,)
        How often every arm is pulled in this phase.
    """

    phase: int
    means: FloatArray
    truth: Callable[[int], FloatArray]
    sums: FloatArray
    counts: FloatArray
    pulls: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """Clients that lie, together and knowing everything, but inside the range of outcomes.

    Parameters
    ----------
    share : float or int
        How many clients lie: a share of those that were admitted, or a number of clients. Of the
        first n clients a share s are ⌊s n⌋, whatever n is.
    name : str
        What they do. "extreme": report the runner-up as good as can be, and the best arm as bad.
        "swapped": exchange what they saw of these two. "push": stay just inside what a trimmed
        mean keeps of the honest differences between the two, computed from what honest clients
        report. "late": honest at first, and extreme from ``from_phase`` on. "stall": make the arms
        that lead look as bad as can be and all others good, so that nothing gets decided.
    range : (float, float)
        Within which they stay; [0, 1] by default.
    from_phase : int
        When "late" liars begin; 3 by default.
    within : float
        How far behind the first an arm may be and still count as leading for "stall"; 0 by default.

    Examples
    --------
    >>> Attack(share=0.25, name="extreme").liars(8).astype(int)
    array([0, 0, 0, 1, 0, 0, 0, 1])
    """

    share: float
    name: AttackName = "extreme"
    range: tuple[float, float] = (0.0, 1.0)
    from_phase: int = 3
    within: float = 0.0

    def __post_init__(self) -> None:
        check_word(self.name, AttackName, "name")
        whole = is_number(self.share) and self.share >= 1 and float(self.share).is_integer()
        if not is_number(self.share) or not (whole or 0 <= self.share < 1):
            raise InputError(
                "share",
                f"{self.share!r} is neither a share below 1, such as 0.1, nor a number of clients,"
                " such as 3",
            )
        check_count(self.from_phase, "from_phase")
        check_not_negative(self.within, "within")
        object.__setattr__(self, "range", as_pair(self.range, "range"))

    def liars(self, clients: int) -> BoolArray:
        """Return which of this many clients lie, in the order of their admission."""
        if self.share >= 1:
            return np.arange(clients) < self.share
        return np.asarray(np.diff(share_of(self.share, np.arange(clients + 1))) > 0)

    def number_among(self, clients: int) -> int:
        """Return how many of this many clients lie."""
        if self.share >= 1:
            return min(clients, int(self.share))
        return int(share_of(self.share, clients))

    def lies(self, arm: int, scene: Scene, problem: Problem) -> FloatArray:
        """Return what liars report as their means of an arm in this phase, shape (liars,)."""
        low, high = self.range
        up, down = (high, low) if problem.goal == "max" else (low, high)
        best, rival = np.argsort(gaps(problem), kind="stable")[:2].tolist()
        # Liars without anybody to hide among are honest.
        honest_still = self.name == "late" and scene.phase < self.from_phase
        honest_still |= not scene.means.size
        if honest_still:
            return np.clip(scene.truth(arm), low, high)
        if self.name == "stall":
            sign = 1.0 if up > down else -1.0
            honest = np.where(scene.pulls > 0, sign * scene.means.mean(axis=-1), -np.inf)
            leads = honest[arm] >= honest.max() - self.within
            return np.full(scene.sums.shape[-1], down if leads else up)
        if arm not in (best, rival):
            return np.clip(scene.truth(arm), low, high)
        if self.name in ("extreme", "late"):
            return np.full(scene.sums.shape[-1], up if arm == rival else down)
        if self.name == "swapped":
            other = rival if arm == best else best
            return np.clip(scene.truth(other if scene.pulls[other] else arm), low, high)
        return self._pushed(arm, scene, best, rival, sign=1.0 if up > down else -1.0)

    def _pushed(self, arm: int, scene: Scene, best: int, rival: int, *, sign: float) -> FloatArray:
        """Return means after which a liar's difference is the highest that is not trimmed."""
        liars, honest = scene.sums.shape[-1], scene.means.shape[-1]
        ahead = np.sort(sign * (scene.means[rival] - scene.means[best]))
        inside = ahead[max(honest - liars - 1, 0)]
        middle = float((scene.means[rival] + scene.means[best]).mean()) / 2.0
        aim = middle + sign * inside / 2.0 * (1.0 if arm == rival else -1.0)
        # What makes the mean of all pulls so far the one that is aimed at.
        n = scene.pulls[arm]
        told = (aim * (scene.counts[arm] + n) - scene.sums[arm]) / n
        return np.asarray(np.clip(told, *self.range))


ATTACKS: tuple[str, ...] = get_args(AttackName)
"""The names of all attacks."""
