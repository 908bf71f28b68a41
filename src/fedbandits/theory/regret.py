r"""What Theorems 2 and 3 promise: when each arm is out at the latest, and the regret until then.

Both theorems are about the paper's radius with the constants 6, about noise and spread that are
true bounds, and about their own model: Theorem 2 about clients sampled from an unlimited
population, Theorem 3 about clients that are all there are. Both proofs take :math:`\Delta_{\max}
\le 1`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from fedbandits.errors import InputError
from fedbandits.rules.arrays import FloatArray, IntArray
from fedbandits.rules.phased import Charge, PhasedRule, Player
from fedbandits.rules.radii import PaperRadius
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
        :math:`p_k`: after so many phases the arm is out, with high probability.
    exploration : float
        :math:`\sum_k \Delta_k \sum_{q \le p_k} M(q) f(q)`.
    communication : float
        :math:`C \sum_{q \le p_{\max}} M(q)`.
    failure : float
        What the improbable case adds: :math:`4\beta(1+C)K` in Theorem 2, with β the most clients
        that can be in divided by T; :math:`2(1+C)MK/T` in Theorem 3, as its proof ends (its
        statement drops the :math:`1/T`).
    """

    theorem: int
    phases: IntArray
    exploration: float
    communication: float
    failure: float

    @property
    def total(self) -> float:
        """The sum of the three terms."""
        return self.exploration + self.communication + self.failure


def obstacle_to_bound(
    rule: PhasedRule,
    gaps: FloatArray,
    *,
    true_noise: float,
    true_spread: float,
    true_population: int | None,
) -> str | None:
    """Return why no theorem of the paper covers a rule on a problem, or None.

    Parameters
    ----------
    rule : PhasedRule
        What decides, with what it believes.
    gaps : array, shape (arms - 1,)
        Δ_k of the arms other than the best.
    true_noise, true_spread : float
        σ and σ_c of the problem, as variance proxies.
    true_population : int or None
        How many clients there are; None is unlimited.
    """
    constants = rule.radius.constants
    if constants is None:
        return "the theorems are about the paper's radius"
    if rule.epsilon > 0 or not rule.estimator.equal_weights:
        return "the theorems are about plain averages and one arm that is left"
    if rule.noise is None or rule.spread is None:
        return "the theorems take noise and spread as known, and this rule estimates them"
    exact, (of_arms, of_clients) = is_exact(rule), constants
    sampled = rule.player is Player.CLIENTS and rule.population != true_population
    conditions = {
        "the theorems charge communication once a phase": rule.charge is not Charge.SLOT,
        "the theorems need a single best arm": (gaps > 0).all(),
        "the proofs take gaps of at most 1": gaps.max() <= 1,
        f"the rule believes in less noise ({rule.noise:g}) than there is ({true_noise:g})": (
            rule.noise >= true_noise
        ),
        "Theorem 3 is about all clients there are, and these are a sample": not (exact and sampled),
        "Theorem 2 is about an unlimited population": exact or true_population is None,
        f"the rule believes in less spread ({rule.spread:g}) than there is ({true_spread:g})": (
            exact or rule.spread >= true_spread
        ),
        f"the proof needs the constant 6 for arms, and this is {of_arms:g}": of_arms == 6,
        f"the proof needs the constant 6 for clients, and this is {of_clients:g}": (
            exact or of_clients == 6
        ),
    }
    return next((reason for reason, holds in conditions.items() if not holds), None)


def is_exact(rule: PhasedRule) -> bool:
    """Return whether a rule is Fed1-UCB: all who are believed to exist are in from the start."""
    return rule.population is not None and rule.admissions(1) >= rule.population


def phases_needed(rule: PhasedRule, gaps: FloatArray) -> IntArray:
    r"""Return :math:`p_k`, the first phase with :math:`4 B_p \le \Delta_k` for the constants 6.

    That is :math:`96(\sigma\sqrt{\eta_p} + \sigma_c/\sqrt{M(p)})^2 \log T \le \Delta_k^2` in
    Theorem 2 and
    :math:`M F(p) \ge 96\sigma^2 \log T / \Delta_k^2` in Theorem 3.

    Parameters
    ----------
    rule : PhasedRule
        Its schedules, noise, spread and population.
    gaps : array, shape (arms - 1,)
        Δ_k, all positive.

    Examples
    --------
    >>> from fedbandits.rules.algorithms import Fed1Ucb
    >>> from fedbandits.rules.phased import Beliefs
    >>> rule = Fed1Ucb(pulls="ceil(10*log(T))", clients=5).rule(
    ...     Beliefs(n_arms=2, horizon=10**6, noise=0.5, spread=0.0)
    ... )
    >>> phases_needed(rule, np.array([0.02])).tolist()
    [1193]
    """
    found = np.zeros(gaps.size, dtype=np.int64)
    for numbers, widths in _widths(rule):
        fits = 4 * widths[:, np.newaxis] <= gaps
        out = (found == 0) & fits.any(axis=0)
        found[out] = numbers[fits.argmax(axis=0)[out]]
        if found.all():
            return found
    raise InputError("horizon", f"no arm can be told apart within {_MOST_PHASES:,} phases")


def regret_bound(rule: PhasedRule, gaps: FloatArray, *, cost: float) -> RegretBound:
    """Return the bound of Theorem 2, or of Theorem 3 where everybody is in from the start.

    Parameters
    ----------
    rule : PhasedRule
        Its schedules, noise, spread and population.
    gaps : array, shape (arms - 1,)
        Δ_k, all positive.
    cost : float
        C; 0 for a rule that never communicates.
    """
    if rule.charge is Charge.NOTHING:
        cost = 0.0
    phases = phases_needed(rule, gaps)
    last = int(phases.max())
    client_pulls, clients = np.zeros(last + 1), np.zeros(last + 1)
    for phase in islice(_phases(rule), last):
        played = float(phase.clients) * phase.pulls
        client_pulls[phase.number] = client_pulls[phase.number - 1] + played
        clients[phase.number] = phase.clients
    if is_exact(rule):
        theorem, failure = 3, 2 * (1 + cost) * clients[last] * (gaps.size + 1) / rule.slots
    else:
        theorem, failure = 2, 4 * _most_clients(rule) / rule.slots * (1 + cost) * (gaps.size + 1)
    return RegretBound(
        theorem=theorem,
        phases=phases,
        exploration=float((gaps * client_pulls[phases]).sum()),
        communication=cost * float(clients.sum()),
        failure=float(failure),
    )


@dataclass(frozen=True, slots=True)
class _Phase:
    """A phase of a game in which nothing is decided yet: M(p), f(p), and who is new."""

    number: int
    clients: int
    pulls: int
    newcomers: int


def _phases(rule: PhasedRule) -> Iterator[_Phase]:
    """Yield phase after phase of a game in which nothing gets decided."""
    clients, capped = 0, False
    for number in range(1, _MOST_PHASES + 1):
        newcomers, capped = rule.admit(number, clients, capped)
        clients += newcomers
        yield _Phase(number, clients, rule.pulls(number), newcomers)


def _widths(rule: PhasedRule) -> Iterator[tuple[IntArray, FloatArray]]:
    """Yield phases, and the paper's B_p for the constants 6 after them.

    As many at once as have the same clients, for a game of one cohort may need 100,000 phases.
    """
    proven = replace(rule, radius=PaperRadius())
    counts, sizes = np.zeros(0), np.zeros(0)
    for newcomers, run in _runs(rule):
        if newcomers:
            counts, sizes = np.append(counts, 0.0), np.append(sizes, float(newcomers))
        numbers = np.array([phase.number for phase in run], dtype=np.int64)
        pulls = np.cumsum([float(phase.pulls) for phase in run])
        after = counts + pulls[:, np.newaxis]
        yield numbers, proven.width(phase=numbers, reports=Reports.planned(after, sizes))
        counts = after[-1]


def _runs(rule: PhasedRule) -> Iterator[tuple[int, list[_Phase]]]:
    """Yield phases with the newcomers of the first; nobody is new in the others."""
    run: list[_Phase] = []
    for phase in _phases(rule):
        if run and (phase.newcomers or len(run) == _LONGEST_RUN):
            yield run[0].newcomers, run
            run = []
        run.append(phase)
    yield run[0].newcomers, run


def _most_clients(rule: PhasedRule) -> int:
    """Return how many clients can be in before the horizon ends: two arms in every phase."""
    slots, most = 0, 0
    for phase in _phases(rule):
        slots += 2 * phase.pulls
        most = phase.clients
        if slots >= rule.slots or most == rule.max_clients:
            break
    return most
