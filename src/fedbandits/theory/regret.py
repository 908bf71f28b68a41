r"""What Theorems 2 and 3 promise: when an arm is dropped at the latest, and the regret until then.

Both proofs need one thing of a rule: in every phase an interval misses its arm's mean with
probability at most :math:`c / T^3`. That is so for the radii whose guarantee says so, with the
widths that they have: the paper's with larger constants, the joint radius, widths that allow for
what protects the means of clients, and for clients drawn from a finite population. Theorem 2 is
about clients that are a sample, Theorem 3 about clients that are all there are.

The theorems end a game when one arm is left, or at the horizon. A cap on phases or a privacy budget
may end it before, and then the arm that looks best is played on. The bound has a term for that; the
derivation is on the page on theory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from fedbandits.errors import InputError
from fedbandits.privacy.policy import Privacy
from fedbandits.privacy.protection import bits_in_phase
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.distortion import UNDISTORTED, DistortionSums, ReleaseError
from fedbandits.rules.phase_numbers import ScheduledPhase
from fedbandits.rules.phased import Charge, PhasedRule
from fedbandits.rules.reports import Reports

_MOST_PHASES = 1_000_000
_LONGEST_RUN = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RegretBound:
    r"""A bound on the expected total regret, term by term.

    Parameters
    ----------
    theorem : int
        2 or 3.
    phases : array of int, shape (arms - 1,)
        :math:`p_k`: the phase after which the arm is out, with high probability.
    exploration : float
        :math:`\sum_k \Delta_k \sum_{q \le p_k} M(q) f(q)`.
    communication : float
        :math:`C \sum_{q \le p_{\max}} M(q)`.
    failure : float
        What the improbable case adds: :math:`4\beta(1+C)K` in Theorem 2, with β the most clients
        that can be in divided by T; :math:`2(1+C)MK/T` in Theorem 3, as its proof ends (its
        statement drops the :math:`1/T`). For gaps above 1 the largest takes the place of the 1.
    undecided : float
        What it costs to play on, to the horizon, the arm that looks best after the last phase that
        a cap or a budget allows: :math:`M(P)\,(T - 2F(P))` times what the arms that may be left
        and look best lose, each with the probability that it does.
    """

    theorem: int
    phases: IntArray
    exploration: float
    communication: float
    failure: float
    undecided: float = 0.0

    @property
    def total(self) -> float:
        """The sum of the four terms."""
        return self.exploration + self.communication + self.failure + self.undecided


def phases_needed(rule: PhasedRule, gaps: FloatArray, privacy: Privacy | None = None) -> IntArray:
    r"""Return :math:`p_k`, the first phase with :math:`4 B_p \le \Delta_k`.

    For the paper's radius with the constants 6 that is :math:`96(\sigma\sqrt{\eta_p} +
    \sigma_c/\sqrt{M(p)})^2 \log T \le \Delta_k^2` in Theorem 2 and :math:`M F(p) \ge 96\sigma^2
    \log T / \Delta_k^2` in Theorem 3. If the game can have no such phase it is the last one.

    Parameters
    ----------
    rule : PhasedRule
        Its radius, schedules, noise, spread and population.
    gaps : array, shape (arms - 1,)
        Δ_k, all positive.
    privacy : Privacy, optional
        How clients protect their means.

    Examples
    --------
    >>> from fedbandits.rules.algorithms import Fed1Ucb
    >>> from fedbandits.rules.beliefs import Beliefs
    >>> rule = Fed1Ucb(pulls="ceil(10*log(T))", clients=5).rule(
    ...     Beliefs(n_arms=2, horizon=10**6, noise=0.5, spread=0.0)
    ... )
    >>> phases_needed(rule, np.array([0.02])).tolist()
    [1193]
    """
    return _drops(rule, gaps, privacy).phases


def regret_bound(
    rule: PhasedRule, gaps: FloatArray, *, cost: float, privacy: Privacy | None = None
) -> RegretBound:
    """Return the bound of Theorem 2, or of Theorem 3 if all clients play from the start.

    It holds if the rule's guarantee on the regret does.

    Parameters
    ----------
    rule, gaps, privacy
        As in `phases_needed`.
    cost : float
        C; 0 for a rule that never communicates.
    """
    if rule.charge is Charge.NOTHING:
        cost = 0.0
    outs = _drops(rule, gaps, privacy)
    last = int(outs.phases.max())
    played = list(islice(_phases(rule), last))
    clients = np.array([0.0, *(phase.clients for phase in played)])
    client_pulls = np.cumsum([0.0, *(float(phase.clients) * phase.pulls for phase in played)])
    lost = max(1.0, float(gaps.max())) + cost
    if rule.asks_everyone:
        theorem, misses, most = 3, 2, clients[last]
    else:
        theorem, misses, most = 2, 4, _most_clients(rule)
    failure = misses * most / rule.slots * lost * (gaps.size + 1)
    undecided = 0.0
    if rule.ends_after(last):
        slots_left = max(rule.slots - 2 * sum(phase.pulls for phase in played), 0)
        undecided = clients[last] * slots_left * _loss_after_cap(rule, gaps, outs, misses)
    return RegretBound(
        theorem=theorem,
        phases=outs.phases,
        exploration=float((gaps * client_pulls[outs.phases]).sum()),
        communication=cost * float(clients.sum()),
        failure=float(failure),
        undecided=float(undecided),
    )


def _loss_after_cap(rule: PhasedRule, gaps: FloatArray, outs: _Drops, misses: int) -> float:
    """Return how much worse the arm that looks best after the last phase is, on average, at most.

    It looks no worse than the best one, and both are within B of their means. That one of two
    estimates is off by half a gap is less likely the larger the gap is.
    """
    left = gaps[~outs.out & (gaps <= 2 * outs.width)]
    if not left.size:
        return 0.0
    ratio = np.maximum(left / 2 - outs.bias, 0.0) / (outs.width - outs.bias)
    chance = np.minimum(misses * np.exp(-3.0 * math.log(rule.slots) * ratio**2), 1.0)
    return float(min(left.max(), (left * chance).sum()))


@dataclass(frozen=True, slots=True)
class _Drops:
    """When arms are dropped at the latest, if ever, and width and bias after that."""

    phases: IntArray
    out: BoolArray
    width: float
    bias: float


def _drops(rule: PhasedRule, gaps: FloatArray, privacy: Privacy | None) -> _Drops:
    found, last, width, bias = np.zeros(gaps.size, dtype=np.int64), 0, math.inf, 0.0
    for numbers, widths, biases in _widths(rule, privacy):
        fits = 4 * widths[:, np.newaxis] <= gaps
        out = (found == 0) & fits.any(axis=0)
        found[out] = numbers[fits.argmax(axis=0)[out]]
        last, width, bias = int(numbers[-1]), float(widths[-1]), float(biases[-1])
        if found.all():
            break
    if last == _MOST_PHASES and not found.all():
        raise InputError("horizon", f"no arm can be told apart within {_MOST_PHASES:,} phases")
    return _Drops(phases=np.where(found > 0, found, last), out=found > 0, width=width, bias=bias)


def _phases(rule: PhasedRule) -> Iterator[ScheduledPhase]:
    return islice(rule.phases(), _MOST_PHASES)


def _widths(
    rule: PhasedRule, privacy: Privacy | None
) -> Iterator[tuple[IntArray, FloatArray, FloatArray]]:
    """Yield phases, the rule's B_p after them, and the part of it that never averages out.

    As many at once as have the same clients, for a game of one cohort may need 100,000 phases.
    """
    sums, counts, sizes = DistortionSums.nothing((0,)), np.zeros(0), np.zeros(0)
    one_by_one = privacy is not None and privacy.bits_by_phase
    for run in _runs(rule, 1 if one_by_one else _LONGEST_RUN):
        if run[0].newcomers:
            counts, sizes = np.append(counts, 0.0), np.append(sizes, float(run[0].newcomers))
            sums = sums.admitted(1)
        numbers = np.array([phase.number for phase in run], dtype=np.int64)
        pulls = np.array([float(phase.pulls) for phase in run])
        after = counts + np.cumsum(pulls)[:, np.newaxis]
        distortion = UNDISTORTED
        if privacy is not None:
            number, first = run[0].number, run[0].pulls
            bits = bits_in_phase(
                rule, privacy, phase=number, pulls=first, counts=after[0], sizes=sizes, sums=sums
            )
            of = {n: privacy.mechanism(n, rule.n_arms, bits).error for n in {p.pulls for p in run}}
            errors = ReleaseError.several((of[phase.pulls] for phase in run), (-1,))
            reached = _released(sums, pulls, errors)
            distortion = reached.over(after, doubled=privacy.doubled)
            sums = reached.kept((-1,))
        reports = Reports.planned(after, sizes, distortion=distortion)
        biases = np.broadcast_to(rule.estimate(reports).distortion.bias, numbers.shape)
        yield numbers, rule.width(phase=numbers, reports=reports), biases
        counts = after[-1]


def _released(sums: DistortionSums, pulls: FloatArray, errors: ReleaseError) -> DistortionSums:
    """Return the sums after each of some releases, shape (phases, groups)."""
    variances = np.cumsum(pulls**2 * errors.variance)
    scales = np.maximum.accumulate(pulls * errors.scale)
    biases = np.cumsum(pulls * errors.bias)
    return DistortionSums(
        variance_sums=sums.variance_sums + variances[:, np.newaxis],
        scales=np.maximum(sums.scales, scales[:, np.newaxis]),
        bias_sums=sums.bias_sums + biases[:, np.newaxis],
    )


def _runs(rule: PhasedRule, longest: int) -> Iterator[list[ScheduledPhase]]:
    """Yield runs of phases of which only the first has newcomers."""
    run: list[ScheduledPhase] = []
    for phase in _phases(rule):
        if run and (phase.newcomers or len(run) == longest):
            yield run
            run = []
        run.append(phase)
    yield run


def _most_clients(rule: PhasedRule) -> int:
    """Return how many clients can join before the game ends."""
    most = 0
    for phase in _phases(rule):
        most = phase.clients
        if most in (rule.max_clients, rule.population):
            break
    return most
