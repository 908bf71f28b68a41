r"""A bound on the expected regret of index rules in the exact model, with communication.

The proof is on the page on index rules. It is about order, not about size: its constants are large,
and what games cost is measured there, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedbandits.errors import InputError
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.index_rules import IndexRule


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRegretBound:
    r"""A bound on the expected total regret, term by term.

    Parameters
    ----------
    exploration : float
        :math:`\sum_k (2048 \sigma^2 \lambda / \Delta_k + M n_1 \Delta_k)`, the pulls of wrong arms.
    last_phase : float
        :math:`1152 K \sigma^2 \lambda / \Delta_{\min} + K M \Delta_{\max}`, the phase that does not
        fit into the horizon; the second part is multiplied by the fewest pulls of a phase.
    failure : float
        :math:`\Delta_{\max} (1 + 16 \kappa \sigma^2 \sqrt\Lambda (\Delta_{\min}^{-2} + \sum_k
        \Delta_k^{-2}))`: estimates that deviate, indices that are too low, wrong commitments; κ is
        1 for "ucb2" and K for "moss".
    communication : float
        :math:`C M (1 + K \log_{1.1}(T / n_1))`.
    """

    exploration: float
    last_phase: float
    failure: float
    communication: float

    @property
    def total(self) -> float:
        """The sum of the four terms."""
        return self.exploration + self.last_phase + self.failure + self.communication


def index_regret_bound(rule: IndexRule, gaps: npt.ArrayLike, *, cost: float) -> IndexRegretBound:
    r"""Return a bound on the expected regret of an index rule in the exact model.

    With :math:`\lambda = \log(2 K M T^2)` and :math:`\Lambda = 1 + \log(M T)`; see
    `IndexRegretBound` for the terms.

    Parameters
    ----------
    rule : IndexRule
        With all clients from the start, plain averages, index "ucb2" or "moss" and commit "index".
    gaps : array, shape (arms - 1,)
        Δ_k of the arms other than the best; those without a gap cost nothing.
    cost : float
        C.

    Examples
    --------
    >>> from fedbandits import FedIndex
    >>> from fedbandits.rules.beliefs import Beliefs
    >>> told = Beliefs(n_arms=2, horizon=10**6, noise=0.5, spread=0.0, population=5)
    >>> bound = index_regret_bound(FedIndex(index="ucb2").rule(told), [0.1], cost=1.0)
    >>> round(bound.exploration), round(bound.communication)
    (156812, 1250)
    """
    _check_covered(rule)
    clients, horizon, arms = rule.admissions(1), rule.slots, rule.n_arms
    variance, first = (rule.noise or 0.0) ** 2, rule.pulls(1)
    wrong: FloatArray = np.asarray(gaps, dtype=np.float64)
    wrong = wrong[wrong > 0]
    communication = cost * clients * (1 + arms * math.log(max(horizon / first, 1.0), 1.1))
    log = math.log(2 * arms * clients) + 2 * math.log(horizon)
    # Without a wrong arm all but communication is 0.
    smallest, largest = float(wrong.min(initial=math.inf)), float(wrong.max(initial=0.0))
    too_low = low_index_bound(rule, smallest / 2)
    commits = sum(low_index_bound(rule, gap / 2) for gap in wrong.tolist())
    return IndexRegretBound(
        exploration=float((2048 * variance * log / wrong + clients * first * wrong).sum()),
        last_phase=1152 * arms * variance * log / smallest
        + arms * clients * rule.fewest_pulls * largest,
        failure=largest * (1 + clients * horizon * (too_low + commits)),
        communication=communication,
    )


def low_index_bound(rule: IndexRule, below: float) -> float:
    r"""Return a bound on the probability that an index is ever this far below its arm's mean.

    :math:`4 \kappa \sigma^2 \sqrt\Lambda / (M T x^2)`: Lemma of the page on index rules.

    Parameters
    ----------
    rule : IndexRule
        As in `index_regret_bound`.
    below : float
        x.
    """
    _check_covered(rule)
    pulls = float(rule.admissions(1)) * rule.slots
    kappa = rule.n_arms if rule.radius.index == "moss" else 1
    return (
        4 * kappa * (rule.noise or 0.0) ** 2 * math.sqrt(1 + math.log(pulls)) / (pulls * below**2)
    )


def _check_covered(rule: IndexRule) -> None:
    """Refuse a rule that the proof does not cover."""
    radius = rule.radius
    conditions = {
        "clients who all play from the start": rule.asks_everyone
        and (rule.max_clients is None or rule.max_clients >= rule.admissions(1)),
        "games that nothing ends but a commitment or the horizon": rule.last_phase is None
        and rule.max_phases is None
        and rule.affordable is None,
        "plain averages": rule.estimator.equal_weights,
        'the indices "ucb2" and "moss"': radius.index != "ucb",
        'commit = "index"': radius.commit == "index",
    }
    for about, holds in conditions.items():
        if not holds:
            raise InputError("rule", f"the bound is about {about}, not about this rule")
