"""Schedules that a plan may suggest, and a rough forecast of each that needs no simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from fedbandits.planning.protection import radii_apart, release_error
from fedbandits.planning.question import Question
from fedbandits.rules.algorithms import Fed1Ucb, Fed2Ucb
from fedbandits.rules.arrays import FloatArray, IntArray
from fedbandits.rules.distortion import UNDISTORTED, Distortion, ReleaseError
from fedbandits.rules.phased import PhasedRule
from fedbandits.rules.reports import Reports

MOST_PHASES = 40
"""Schedules that are foreseen to take more phases are not considered."""


class Shape(Enum):
    """How a schedule goes on from its first phase, whose value stands for the braces."""

    CONSTANT = "{}"
    GROWING = "{}*p"
    DOUBLING = "{}*2^(p-1)"

    def expression(self, first: int) -> str:
        """Return the schedule that begins with so many.

        Examples
        --------
        >>> [shape.expression(20) for shape in Shape], Shape.DOUBLING.expression(2)
        (['20', '20*p', '20*2^(p-1)'], '2^p')
        """
        written = self.value.format(first).removeprefix("1*")
        return "2^p" if written == "2*2^(p-1)" else written

    def factors(self, n_phases: int) -> FloatArray:
        """Return the value of each phase relative to the first."""
        phases = np.arange(1.0, n_phases + 1)
        if self is Shape.CONSTANT:
            return np.ones(n_phases)
        return phases if self is Shape.GROWING else 2.0 ** (phases - 1)


PULLS_SHAPES = (Shape.CONSTANT, Shape.DOUBLING)
"""The shapes that are tried for f; for g all are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Schedules f and g by their shapes and first values.

    Parameters
    ----------
    pulls, admissions : int
        f(1) and g(1).
    pulls_shape, admissions_shape : Shape
        How they go on; no shape of admissions is Fed1-UCB: all clients play from the start.

    Examples
    --------
    >>> candidate = Candidate(pulls=100, admissions=2, admissions_shape=Shape.DOUBLING)
    >>> candidate.f, candidate.g
    ('100', '2^p')
    """

    pulls: int
    admissions: int
    pulls_shape: Shape = Shape.CONSTANT
    admissions_shape: Shape | None = Shape.CONSTANT

    @property
    def f(self) -> str:
        """The pulls schedule."""
        return self.pulls_shape.expression(self.pulls)

    @property
    def g(self) -> str | None:
        """The admissions schedule; None if all clients play from the start."""
        shape = self.admissions_shape
        return None if shape is None else shape.expression(self.admissions)

    def algorithm(self, question: Question) -> Fed1Ucb | Fed2Ucb:
        """Return the algorithm with these schedules and the certified radius."""
        return scheduled(question, self.f, self.g)


def scheduled(question: Question, pulls: str, admissions: str | None) -> Fed1Ucb | Fed2Ucb:
    """Return Fed2-UCB with these schedules, or Fed1-UCB without an admissions schedule."""
    liars = question.liars or None
    if admissions is None:
        return Fed1Ucb(pulls=pulls, radius=question.radius, liars=liars)
    return Fed2Ucb(
        pulls=pulls,
        admissions=admissions,
        radius=question.radius,
        weights=question.weights,
        liars=liars,
    )


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What to expect of candidates if estimates equalled the means; infinite if undecided."""

    regret: FloatArray
    phases: FloatArray
    slots: FloatArray


def foresee(question: Question, candidates: Sequence[Candidate]) -> Foreseen:
    """Return a forecast for candidates of the same shapes.

    An arm goes in the first phase in which its gap is at least the width. Estimates scatter, so
    this is rough, but it shows where to search.

    Examples
    --------
    >>> from fedbandits.planning.question import Question
    >>> means = [0.70, 0.71, 0.72, 0.73, 0.74, 0.75, 0.76, 0.765, 0.77, 0.79]
    >>> game = Question(means=means, noise=0.5, spread=0.02, delta=1e-6)
    >>> paper = Candidate(pulls=100, admissions=2, admissions_shape=Shape.DOUBLING)
    >>> foresee(game, [paper]).regret.round(-2), foresee(game, [paper]).phases
    (array([9600.]), array([8.]))
    """
    ((f_shape, g_shape),) = {(c.pulls_shape, c.admissions_shape) for c in candidates}
    phases = np.arange(1, MOST_PHASES + 1)
    firsts = np.array([(c.pulls, c.admissions) for c in candidates], dtype=np.float64)
    pulls = firsts[:, :1] * f_shape.factors(MOST_PHASES)
    newcomers = firsts[:, 1:] * (phases == 1 if g_shape is None else g_shape.factors(MOST_PHASES))
    clients = np.cumsum(newcomers, axis=1)
    if question.population is not None:
        clients = np.minimum(clients, question.population)
        newcomers = np.diff(clients, axis=1, prepend=0.0)
    width = (_widths_with_liars if question.liars else _widths)(question, pulls, newcomers, phases)
    if question.most_releases is not None:
        width[:, question.most_releases :] = np.inf
    # Up to which phase every rival plays: (candidates, rivals), counted from 0.
    gaps = np.sort(question.gaps)[1:]
    kinds, copies = np.unique(gaps, return_counts=True)
    out = width[:, np.newaxis, :] <= kinds[:, np.newaxis]
    last = np.where(out.any(axis=-1), out.argmax(axis=-1), MOST_PHASES - 1)
    decided = out.any(axis=-1).all(axis=-1)
    rows = np.arange(len(candidates))[:, np.newaxis]
    played = np.cumsum(clients * pulls, axis=1)[rows, last]
    slots = np.cumsum(pulls, axis=1)[rows, last]
    end = last.max(axis=1)
    reports = np.cumsum(clients, axis=1)[rows[:, 0], end]
    regret = (played * kinds * copies).sum(axis=1) + question.communication_cost * reports
    lasts = (slots * copies).sum(axis=1) + slots.max(axis=1)
    return Foreseen(
        regret=np.where(decided, regret, np.inf),
        phases=np.where(decided, end + 1.0, np.inf),
        slots=np.where(decided, lasts, np.inf),
    )


def _widths(
    question: Question, pulls: FloatArray, newcomers: FloatArray, phases: IntArray
) -> FloatArray:
    """Return the width between two arms after every phase, shape (candidates, phases)."""
    counts = _since(np.cumsum(pulls, axis=1))
    left = _distortion(question, pulls, counts)
    reports = Reports.planned(counts, newcomers[:, np.newaxis, :], distortion=left)
    radius = rule_for(question).width(phase=phases, reports=reports)
    return np.asarray(radii_apart(question.privacy) * radius)


def _widths_with_liars(
    question: Question, pulls: FloatArray, newcomers: FloatArray, phases: IntArray
) -> FloatArray:
    """Return these widths up to the phase that resolves the smallest gap, infinite after it.

    They are those that hold if liars send the worst; games in which nobody lies decide sooner. How
    many are trimmed depends on the number of clients, so every phase is asked for by itself.
    """
    rule, counts = rule_for(question), _since(np.cumsum(pulls, axis=1))
    clients = np.cumsum(newcomers, axis=1)
    width = np.full(pulls.shape, np.inf)
    for row, of_phases in enumerate(clients):
        for column, phase in enumerate(phases.tolist()):
            if of_phases[column] > question.most_clients:
                break
            some = np.flatnonzero(newcomers[row, : column + 1])
            reports = Reports.planned(counts[row, column, some], newcomers[row, some])
            width[row, column] = 2.0 * float(rule.width(phase=phase, reports=reports).max())
            if width[row, column] <= question.gap:
                break
    return width


def rule_for(question: Question, *, at_once: bool = False) -> PhasedRule:
    """Return a rule for a question, whose clients join gradually or all at once.

    Neither widths nor what is proven depend on the numbers of its schedules.
    """
    return scheduled(question, "1", None if at_once else "1").rule(question.beliefs)


def _since(sums: FloatArray) -> FloatArray:
    """Return running sums counted from each admission on: (candidates, phase now, of admission).

    Later cohorts have nothing.
    """
    before = np.pad(sums, ((0, 0), (1, 0)))[:, :-1]
    return np.maximum(sums[:, :, np.newaxis] - before[:, np.newaxis, :], 0.0)


def _distortion(question: Question, pulls: FloatArray, counts: FloatArray) -> Distortion:
    """Return the errors that protection leaves in each cohort's means, with all arms in play."""
    if question.privacy is None:
        return UNDISTORTED
    each, places = np.unique(pulls, return_inverse=True)
    errors = [release_error(question.privacy, n, question.n_arms) for n in each.tolist()]
    error = ReleaseError.several((errors[at] for at in places.ravel()), pulls.shape)
    n = np.maximum(counts, 1.0)
    # Pulls never fall from phase to phase, so the last release has the largest scale.
    return Distortion(
        variance=_since(np.cumsum(pulls**2 * error.variance, axis=1)) / n**2,
        scale=(pulls * error.scale)[:, :, np.newaxis] * (counts > 0) / n,
        bias=_since(np.cumsum(pulls * error.bias, axis=1)) / n,
    )
