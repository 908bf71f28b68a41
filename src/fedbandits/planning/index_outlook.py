"""What an index rule would come to, beside the schedules of a plan.

It has nothing to search for: its pulls and admissions follow from what is observed. It needs a
horizon.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedbandits.errors import InputError
from fedbandits.planning.outlook import Expected, expected, simulated
from fedbandits.planning.question import Question
from fedbandits.rules.algorithms import FedIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexOutlook:
    """What to expect of an index rule with its defaults.

    Parameters
    ----------
    regret, communication, clients, phases : Expected
        As in `fedbandits.planning.outlook.Outlook`.
    wrong_rate, undecided_rate : float
        Games that commit to another arm than the best, and that commit to none.
    replications : int
        How many games were simulated.
    guarantee : str
        What is proven about it, in words.
    """

    regret: Expected
    communication: Expected
    clients: Expected
    phases: Expected
    wrong_rate: float
    undecided_rate: float
    replications: int
    guarantee: str

    def as_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return {"algorithm": FedIndex.name, **asdict(self)}


def look_at_index_rule(
    question: Question, *, replications: int, seed: int, workers: int | None = 1
) -> IndexOutlook | None:
    """Simulate the index rule; None without a horizon, or where its first phase does not fit.

    Examples
    --------
    >>> from fedbandits.planning.question import least_favourable
    >>> game = least_favourable(
    ...     n_arms=3, gap=0.2, noise=0.5, spread=0.1, horizon=10**5, delta=1e-5
    ... )
    >>> found = look_at_index_rule(game, replications=50, seed=1)
    >>> found.wrong_rate, look_at_index_rule(
    ...     least_favourable(n_arms=3, gap=0.2, noise=0.5, spread=0.1), replications=9, seed=1
    ... )
    (0.0, None)
    """
    if question.horizon is None:
        return None
    try:
        run = simulated(question, FedIndex(), replications=replications, seed=seed, workers=workers)
    except InputError:
        return None
    outcome = run.outcome
    decided = outcome.winner >= 0
    wrong = decided & (outcome.winner != int(np.argmax(question.means)))
    return IndexOutlook(
        regret=expected(outcome.total),
        communication=expected(outcome.communication),
        clients=expected(outcome.clients),
        phases=expected(outcome.phases),
        wrong_rate=float(wrong.mean()),
        undecided_rate=float((~decided).mean()),
        replications=replications,
        guarantee=run.rule.guarantee().statement(),
    )
