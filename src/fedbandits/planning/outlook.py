"""What to expect of a schedule: the outcomes of simulated games, in a few numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any

import numpy as np

from fedbandits.errors import InputError
from fedbandits.planning.candidates import scheduled
from fedbandits.planning.question import Question
from fedbandits.rules.algorithms import Algorithm, FedIndex
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.indices import SlotRule
from fedbandits.rules.phased import PhasedRule
from fedbandits.simulation import Simulation, Variant, simulate_all
from fedbandits.simulation.game import PlayedGames
from fedbandits.simulation.releases import NormalPrivacy

LAST_PHASE = 200
"""Games that go on longer are called undecided."""

FEWER_GAMES = 200
"""No more games are behind the numbers of a schedule if some clients may lie: each takes longer."""

RANGE = (0.05, 0.95)
"""The quantiles between which nine games of ten end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """A quantity over replications.

    Parameters
    ----------
    mean, stderr : float
        What to expect, and its standard error over the simulated games.
    low, high : float
        Nine of ten games end up between them.
    """

    mean: float
    stderr: float
    low: float
    high: float

    @classmethod
    def over(cls, values: FloatArray | IntArray) -> Expected:
        """Return the quantity over replications, of which there is at least one.

        Examples
        --------
        >>> Expected.over(np.arange(101.0)).high
        95.0
        """
        spread = float(values.std(ddof=1)) if values.size > 1 else 0.0
        low, high = np.quantile(values, RANGE).tolist()
        stderr = spread / math.sqrt(values.size)
        return cls(mean=float(values.mean()), stderr=stderr, low=low, high=high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What came out of simulated games of an algorithm.

    Parameters
    ----------
    algorithm : str
        Its name.
    regret, per_client, communication, clients, phases : Expected
        Total regret, the same divided by the clients of a game, the part of it that is
        communication, clients admitted and phases.
    wrong_rate, undecided_rate : float
        Shares of games that lose the best arm, and that end with several arms left. If all other
        arms are equal, a game that has lost the best one may never end.
    replications : int
        How many games were simulated.
    """

    algorithm: str
    regret: Expected
    per_client: Expected
    communication: Expected
    clients: Expected
    phases: Expected
    wrong_rate: float
    undecided_rate: float
    replications: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexOutlook(Simulated):
    """What to expect of an index rule with its defaults, and what is proven about it, in words."""

    guarantee: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook(Simulated):
    """What to expect of a schedule.

    Parameters
    ----------
    pulls, admissions : str
        f and g; no g is all clients from the start.
    weights : str
        How clients are averaged.
    exploration : Expected
        Like the other regrets: up to the horizon; without one, up to the decision.
    slots : Expected, optional
        Until the decision, over the decided games. A client that is in from the start makes this
        many pulls.
    pulls_of_arm : Expected
        Of one arm that stays to the end, by a client that is in from the start.
    pulls_in_all : Expected
        By all clients together, of all arms, until the decision.
    reports : Expected
        Messages from clients to the server: one per client and phase.
    uplink_bits : Expected
        Of all means that a client sends, on average over those admitted.
    spent_rate : float
        Undecided games that the clients' privacy budget has ended.
    decided : int
        Games with a decision. Without a horizon the expected numbers are theirs alone, or, if there
        are none, of all games up to where they were given up: after `LAST_PHASE` phases, or when
        the privacy budget was spent.
    cut : bool
        Whether undecided games are left out of the numbers, or cut off.
    """

    pulls: str
    admissions: str | None
    weights: str
    exploration: Expected
    slots: Expected | None
    pulls_of_arm: Expected
    pulls_in_all: Expected
    reports: Expected
    uplink_bits: Expected
    spent_rate: float
    decided: int
    cut: bool


def ended(question: Question, played: PlayedGames) -> BoolArray:
    """Return which games have an end: with a horizon all of them, otherwise the decided ones."""
    if question.horizon is not None:
        return np.ones(played.winner.size, dtype=np.bool_)
    return np.asarray(played.winner >= 0)


def simulated(
    question: Question,
    algorithms: Iterable[Algorithm],
    *,
    draws: str = "plan: outlook",
    fidelity: str | None = None,
    max_phases: int | None = None,
    workers: int | None = 1,
    **settings: Any,
) -> list[Simulation]:
    """Simulate algorithms on the game of a question.

    Parameters
    ----------
    question : Question
        The game.
    algorithms, max_phases
        What plays it, and for how long at most.
    draws : str
        The name of the random draws. The best of many by simulated regret is partly lucky, so the
        numbers of a plan come from other draws than those of the search.
    fidelity : str, optional
        As in an experiment file.
    workers, **settings
        As in `fedbandits.simulate_all`.
    """
    problem = question.problem(draws)
    variants = [
        Variant(
            label=algorithm.name,
            problem=problem,
            algorithm=algorithm,
            communication_cost=question.communication_cost,
            fidelity=fidelity,
            max_phases=_last_listed(question, algorithm, max_phases),
            privacy=None if question.privacy is None else NormalPrivacy.of(question.privacy),
        )
        for algorithm in algorithms
    ]
    settings |= {"grid_points": 1, "warn": False, "workers": workers}
    settings["progress"] = settings.get("progress") or False  # a plan has a bar of its own
    if question.liars:
        settings["replications"] = min(settings["replications"], FEWER_GAMES)
    return simulate_all(variants, horizon=question.horizon, **settings)


def _last_listed(question: Question, algorithm: Algorithm, max_phases: int | None) -> int | None:
    """Return after how many phases games end, at the latest.

    If some clients may lie, that is before there are more clients than can be simulated one by one.
    """
    if not question.liars or max_phases is None:
        return max_phases
    rule = algorithm.rule(question.beliefs)
    if rule.decides_every_slot:
        return max_phases
    few = takewhile(lambda one: one.clients <= question.most_clients, rule.phases())
    return max(1, sum(1 for _ in islice(few, max_phases)))


def look_ahead(question: Question, pulls: str, admissions: str | None, **settings: Any) -> Outlook:
    """Return what to expect of a schedule.

    Parameters
    ----------
    question : Question
        The game.
    pulls, admissions : str
        f and g; no g is all clients from the start.
    **settings
        As in `simulated`.
    """
    algorithm = scheduled(question, pulls, admissions)
    try:
        (run,) = simulated(question, [algorithm], max_phases=LAST_PHASE, trace=True, **settings)
    except InputError as error:
        # There is only one variant, and the user has not numbered it.
        raise InputError(error.where.removeprefix("variants[0]."), error.problem) from None
    played = run.games
    replications, over = played.winner.size, ended(question, played)
    cut = not over.all()
    over = over if over.any() else ~over
    each, members = _phases(run.rule, int(played.phases.max()))
    trace = played.trace
    if trace is None or not len(trace):  # a phase that does not fit into the horizon leaves none
        trace = np.full((1, replications, question.n_arms), np.nan)
    playing = (~np.isnan(trace)).sum(axis=-1)[: len(each) - 1]
    in_all = (playing * (each * members)[1:, np.newaxis]).sum(axis=0)
    decided = played.winner >= 0
    best = int(np.argmax(question.means))
    last = np.maximum(played.phases, 1) - 1
    gone = np.isnan(trace[last, np.arange(replications), best]) & (played.phases > 0)
    lost = np.where(decided, played.winner != best, gone)
    return Outlook(
        **_simulated(algorithm, played, over, lost),
        pulls=pulls,
        admissions=admissions,
        weights="equal" if admissions is None else question.weights,
        exploration=Expected.over(played.exploration[over]),
        slots=Expected.over(played.decision_slot[decided]) if decided.any() else None,
        pulls_of_arm=Expected.over(np.cumsum(each)[played.phases[over]]),
        pulls_in_all=Expected.over(in_all[over]),
        reports=Expected.over(np.cumsum(members)[played.phases[over]]),
        uplink_bits=Expected.over((played.uplink_bits / np.maximum(played.clients, 1))[over]),
        spent_rate=float(played.spent.mean()),
        decided=int(decided.sum()),
        cut=cut,
    )


def _simulated(
    algorithm: Algorithm, played: PlayedGames, over: BoolArray, lost: BoolArray
) -> dict[str, Any]:
    """Return the fields of `Simulated`: what came out of the games that are over."""
    return {
        "algorithm": algorithm.name,
        "regret": Expected.over(played.total[over]),
        "per_client": Expected.over((played.total / np.maximum(played.clients, 1))[over]),
        "communication": Expected.over(played.communication[over]),
        "clients": Expected.over(played.clients[over]),
        "phases": Expected.over(played.phases[over]),
        "wrong_rate": float(lost.mean()),
        "undecided_rate": float(((played.winner < 0) & ~lost).mean()),
        "replications": played.winner.size,
    }


def _phases(rule: PhasedRule | SlotRule, last: int) -> FloatArray:
    """Return pulls of an arm and clients by phase, from phase 0, in which there are none.

    Schedules do not depend on what is observed: a phase is the same in all games.
    """
    if rule.decides_every_slot:
        raise TypeError("a slot rule has no phases")
    played = [(one.pulls, one.clients) for one in islice(rule.phases(), last)]
    return np.array([(0.0, 0.0), *played]).T


def look_at_index_rule(question: Question, **settings: Any) -> IndexOutlook | None:
    """Simulate the index rule; None without a horizon, or if its first phase does not fit.

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
        (run,) = simulated(question, [FedIndex()], **settings)
    except InputError:
        return None
    played = run.games
    wrong = (played.winner >= 0) & (played.winner != int(np.argmax(question.means)))
    return IndexOutlook(
        **_simulated(FedIndex(), played, ended(question, played), wrong),
        guarantee=run.rule.guarantee().statement(),
    )
