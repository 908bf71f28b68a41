"""What a schedule will come to: the distribution of a simulated game, in a few numbers."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedbandits.errors import InputError
from fedbandits.planning.candidates import scheduled
from fedbandits.planning.question import Question
from fedbandits.rules.algorithms import Algorithm
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.indices import SlotRule
from fedbandits.rules.phased import PhasedRule
from fedbandits.simulation.game import Outcome
from fedbandits.simulation.simulator import Simulation, Variant, simulate_all

LAST_PHASE = 200
"""Games that go on longer are called undecided."""

RANGE = (0.05, 0.95)
"""The quantiles between which nine games of ten end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """A quantity over replications.

    Parameters
    ----------
    mean, stderr : float
        What to expect, and how exactly the simulation knows it.
    low, high : float
        Nine of ten games end up between them.
    """

    mean: float
    stderr: float
    low: float
    high: float

    @classmethod
    def over(cls, values: FloatArray | IntArray) -> Expected | None:
        """Return the quantity over replications; None where there are none.

        Examples
        --------
        >>> Expected.over(np.arange(101.0)).high
        95.0
        """
        if values.size == 0:
            return None
        spread = float(values.std(ddof=1)) if values.size > 1 else 0.0
        low, high = (float(value) for value in np.quantile(values, RANGE))
        return cls(
            mean=float(values.mean()), stderr=spread / math.sqrt(values.size), low=low, high=high
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What to expect of a schedule.

    Parameters
    ----------
    pulls, admissions : str
        f and g; no g is all clients from the start.
    algorithm : str
        By its name in experiment files.
    weights : str
        How clients are averaged.
    regret, exploration, communication : Expected
        Up to the horizon; without one, up to the decision.
    clients, phases : Expected
        Admitted and played.
    slots : Expected, optional
        Until the decision, over the games that are decided: as many pulls a client makes that is
        in from the start.
    pulls_of_arm : Expected
        Of one arm that stays to the end, by a client that is in from the start.
    pulls_in_all : Expected
        By all clients together, of all arms, until the decision.
    reports : Expected
        Messages from clients to the server: one a client and phase.
    uplink_bits : Expected
        Of all means that a client sends, on average over those admitted.
    wrong_rate, undecided_rate : float
        Games that lose the best arm, and that end with several. Where all other arms are equal, a
        game that has lost the best one may never end.
    spent_rate : float
        Undecided games that the clients' privacy budget has ended.
    replications : int
        How many games were simulated.
    decided : int
        Games with a decision. Without a horizon the expected numbers are theirs alone, or, if there
        are none, of all games up to where they were given up: after `LAST_PHASE` phases, or when
        the privacy budget was spent.
    cut : bool
        Whether games that were not decided are left out of the numbers, or cut off.
    """

    pulls: str
    admissions: str | None
    algorithm: str
    weights: str
    regret: Expected
    exploration: Expected
    communication: Expected
    clients: Expected
    phases: Expected
    slots: Expected | None
    pulls_of_arm: Expected
    pulls_in_all: Expected
    reports: Expected
    uplink_bits: Expected
    wrong_rate: float
    undecided_rate: float
    spent_rate: float
    replications: int
    decided: int
    cut: bool

    def as_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return asdict(self)


def ended(question: Question, outcome: Outcome) -> BoolArray:
    """Return which games have an end: with a horizon all of them, otherwise the decided ones."""
    if question.horizon is not None:
        return np.ones(outcome.winner.size, dtype=np.bool_)
    return np.asarray(outcome.winner >= 0)


def simulated(
    question: Question, algorithm: Algorithm, *, max_phases: int | None = None, **settings: Any
) -> Simulation:
    """Simulate an algorithm, with random draws that no search has seen.

    Whoever picks the best of many by their simulated regrets picks some luck as well: the numbers
    of a plan come from draws of their own.

    Parameters
    ----------
    question : Question
        The game.
    algorithm, max_phases
        What plays it, and for how long at most.
    **settings
        As in `fedbandits.simulate_all`.
    """
    variant = Variant(
        label=algorithm.name,
        problem=question.problem("plan: outlook"),
        algorithm=algorithm,
        communication_cost=question.communication_cost,
        max_phases=max_phases,
        privacy=question.simulated_privacy,
    )
    return simulate_all([variant], horizon=question.horizon, grid_points=1, warn=False, **settings)[
        0
    ]


def look_ahead(
    question: Question,
    pulls: str,
    admissions: str | None,
    *,
    replications: int,
    seed: int,
    workers: int | None = 1,
) -> Outlook:
    """Return what to expect of a schedule.

    Parameters
    ----------
    question : Question
        The game.
    pulls, admissions : str
        f and g; no g is all clients from the start.
    replications, seed, workers : int
        As in `fedbandits.simulate_all`.
    """
    algorithm = scheduled(question, pulls, admissions)
    try:
        run = simulated(
            question, algorithm, max_phases=LAST_PHASE, trace=True,
            replications=replications, seed=seed, workers=workers,
        )  # fmt: skip
    except InputError as error:
        # There is one variant, and nobody who plans has numbered it.
        raise InputError(error.where.removeprefix("variants[0]."), error.problem) from None
    outcome = run.outcome
    over = ended(question, outcome)
    cut = not over.all()
    if not over.any():
        over = ~over
    each, members = _phases(run.rule, int(outcome.phases.max()))
    if outcome.trace is None:
        raise TypeError("a trace was asked for")
    trace = outcome.trace
    if not len(trace):  # a phase that does not fit into the horizon leaves none
        trace = np.full((1, replications, question.n_arms), np.nan)
    playing = (~np.isnan(trace)).sum(axis=-1)[: len(each) - 1]
    in_all = (playing * (each * members)[1:, np.newaxis]).sum(axis=0)
    decided = outcome.winner >= 0
    best = int(np.argmax(question.means))
    last = np.maximum(outcome.phases, 1) - 1
    gone = np.isnan(trace[last, np.arange(replications), best]) & (outcome.phases > 0)
    lost = np.where(decided, outcome.winner != best, gone)
    return Outlook(
        pulls=pulls,
        admissions=admissions,
        algorithm=algorithm.name,
        weights="equal" if admissions is None else question.weights,
        regret=expected(outcome.total[over]),
        exploration=expected(outcome.exploration[over]),
        communication=expected(outcome.communication[over]),
        clients=expected(outcome.clients[over]),
        phases=expected(outcome.phases[over]),
        slots=Expected.over(outcome.decision_slot[decided]),
        pulls_of_arm=expected(np.cumsum(each)[outcome.phases[over]]),
        pulls_in_all=expected(in_all[over]),
        reports=expected(np.cumsum(members)[outcome.phases[over]]),
        uplink_bits=expected((outcome.uplink_bits / np.maximum(outcome.clients, 1))[over]),
        wrong_rate=float(lost.mean()),
        undecided_rate=float((~decided & ~lost).mean()),
        spent_rate=float(outcome.spent.mean()),
        replications=replications,
        decided=int(decided.sum()),
        cut=cut,
    )


def _phases(rule: PhasedRule | SlotRule, last: int) -> tuple[FloatArray, FloatArray]:
    """Return pulls of an arm and clients by phase, from phase 0, in which there are none.

    Schedules do not depend on what is observed: a phase is the same in all games.
    """
    if rule.decides_every_slot:
        raise TypeError("a slot rule has no phases")
    pulls, clients, capped = [0], [0], False
    for phase in range(1, last + 1):
        newcomers, capped = rule.admit(phase, clients[-1], capped)
        clients.append(clients[-1] + newcomers)
        pulls.append(rule.pulls(phase))
    return np.array(pulls, dtype=np.float64), np.array(clients, dtype=np.float64)


def expected(values: FloatArray | IntArray) -> Expected:
    """Return a quantity over replications, of which there is at least one."""
    found = Expected.over(values)
    if found is None:  # pragma: no cover - there is at least one replication
        raise ValueError("no replications")
    return found
