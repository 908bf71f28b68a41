"""Simulate replications of a variant: in chunks, on one core or several, with the same numbers."""

from __future__ import annotations

import math
import os
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from fedbandits.errors import (
    AssumptionWarning,
    InputError,
    check_not_negative,
    check_stated,
)
from fedbandits.loopback import RejectionError
from fedbandits.plugins import RunPlugins
from fedbandits.privacy.policy import Privacy
from fedbandits.privacy.protection import protected
from fedbandits.problems.problem import Problem
from fedbandits.protocol import Rejection
from fedbandits.rules.algorithms import Algorithm
from fedbandits.rules.arrays import FloatArray, IntArray
from fedbandits.rules.guarantees import Guarantee
from fedbandits.rules.indices import SlotRule
from fedbandits.rules.phased import LONGEST_HORIZON, Beliefs, PhasedRule, Player
from fedbandits.rules.variance_components import FEWEST_TO_ESTIMATE, check_min_clients
from fedbandits.simulation.assumptions import doubts, guarantee_in
from fedbandits.simulation.clients import ClientEvidence
from fedbandits.simulation.cohorts import CohortEvidence
from fedbandits.simulation.fidelities import DEFAULT_MAX_CLIENTS, Fidelity, choose_fidelity
from fedbandits.simulation.game import Game, Outcome
from fedbandits.simulation.in_step import FailedGameError, in_batches, key_in_step
from fedbandits.simulation.memory_limit import OutOfMemoryLimitError
from fedbandits.simulation.phases import play_at_once, play_in_step, play_phases
from fedbandits.simulation.pulls import play_pulls
from fedbandits.simulation.regret import make_grid
from fedbandits.simulation.slots import play_slots

DEFAULT_MEMORY_LIMIT = 512 * 2**20
"""Bytes that the statistics of clients may take, over all workers together."""

MOST_GRID_POINTS = 100_000
DEFAULT_MAX_PHASES = 10_000
"""After so many phases a game without a horizon ends undecided."""

_PLAYERS: dict[Fidelity, Callable[[Game, IntArray], Outcome]] = {
    Fidelity.COHORTS: partial(play_phases, evidence_of=CohortEvidence),
    Fidelity.CLIENTS: partial(play_at_once, evidence_of=ClientEvidence),
    Fidelity.PULLS: play_pulls,
    Fidelity.SLOTS: play_slots,
}
# How many replications one task takes: vectorised drivers gain from many, the others do not.
_MOST_PER_TASK = {
    Fidelity.COHORTS: 2048,
    Fidelity.CLIENTS: 64,
    Fidelity.PULLS: 2,
    Fidelity.SLOTS: 256,
}
# Below so many, a vectorised driver takes as long for half of them.
_FEWEST_PER_TASK = {
    Fidelity.COHORTS: 256,
    Fidelity.CLIENTS: 4,
    Fidelity.PULLS: 1,
    Fidelity.SLOTS: 64,
}
# So many rows, a game and replication each, are played in step; more leave the cache.
_MOST_ROWS_IN_STEP = 6400
_SERIAL_SECONDS = 1.0
# Once there are processes, work is handed to them at once.
_SERIAL_SECONDS_LATER = 0.1
_processes = {"started": False}

ESTIMATE: Final = "estimate"
Told: TypeAlias = float | Literal["estimate"]
"""What a rule is told of σ or σ_c: a number, or to estimate it."""

Progress: TypeAlias = Callable[[str, int], None]
"""Called with a variant's label and how many more of its replications are done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assume:
    """What the rule is told in place of the truth.

    Parameters
    ----------
    noise, spread : float or "estimate", optional
        σ and σ_c; the variance proxies of the truth by default. With "estimate" it is told nothing
        and estimates them from the clients' statistics, without a finite-sample guarantee: see
        `fedbandits.rules.variance_components`.
    min_clients : int, optional
        With fewer clients nothing is estimated, and nothing decided; 10 by default.

    Examples
    --------
    >>> Assume(noise=0.5, spread="estimate").spread
    'estimate'
    """

    noise: Told | None = None
    spread: Told | None = None
    min_clients: int | None = None

    def __post_init__(self) -> None:
        for name in ("noise", "spread"):
            value = getattr(self, name)
            if value is not None and value != ESTIMATE:
                as_told(value, name)
        if self.min_clients is not None:
            check_min_clients(self.min_clients)
            if ESTIMATE not in (self.noise, self.spread):
                raise InputError(
                    "min_clients", 'is for noise or spread = "estimate", and both are known'
                )


def as_told(value: object, where: str) -> Told:
    """Return what a rule is told of noise or spread, or refuse what is neither.

    Examples
    --------
    >>> as_told("estimated", "noise")
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: noise: 'estimated' is not a number or "estimate"
    """
    if value == ESTIMATE:
        return "estimate"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(where, f'{value!r} is not a number or "{ESTIMATE}"')
    check_not_negative(value, where)
    return float(value)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Variant:
    """An algorithm on a problem, under a label.

    Parameters
    ----------
    label : str
        What tables and legends call it.
    problem : Problem
        What is played.
    algorithm : Algorithm
        What plays it.
    communication_cost : float
        C.
    assume : Assume
        What the rule believes of noise and spread.
    fidelity : str, optional
        "cohorts", "clients" or "pulls"; the fastest valid one by default.
    max_clients : int, optional
        At so many clients admissions stop; 10⁹ by default in `cohorts`, 10⁶ otherwise.
    max_phases : int, optional
        After so many phases the best estimate is played on; unlimited by default.
    privacy : Privacy, optional
        How clients protect the means that they send; sent as they are by default.
    """

    label: str
    problem: Problem
    algorithm: Algorithm
    communication_cost: float = 1.0
    assume: Assume = Assume()
    fidelity: str | None = None
    max_clients: int | None = None
    max_phases: int | None = None
    privacy: Privacy | None = None

    def __post_init__(self) -> None:
        check_stated(self.problem, Problem, "problem", parent="PlainProblem")
        check_not_negative(self.communication_cost, "communication_cost")
        for name in ("max_clients", "max_phases"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= LONGEST_HORIZON:
                raise InputError(name, f"{value} is not a whole number from 1 to 10^15")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Simulation:
    """What simulating a variant gave.

    Parameters
    ----------
    variant : Variant
        What was simulated.
    rule : PhasedRule or SlotRule
        What decided.
    fidelity : Fidelity
        What was drawn.
    grid : array of int
        The slots of the curves.
    outcome : Outcome
        An entry a replication.
    seconds : float
        How long it took, added up over workers.
    """

    variant: Variant
    rule: PhasedRule | SlotRule
    fidelity: Fidelity
    grid: IntArray
    outcome: Outcome
    seconds: float

    def total_curves(self) -> FloatArray:
        """Return the total regret on the grid, shape (replications, grid)."""
        return self.outcome.exploration_curves + self.outcome.communication_curves


Built: TypeAlias = "list[tuple[PhasedRule | SlotRule, Fidelity]]"
"""The rule of every variant, and the fidelity it is simulated in."""


def build_rules(variants: Sequence[Variant], horizon: int | None) -> Built:
    """Build the rule of every variant.

    What is wrong is said before anything is simulated, where it stands in ``variants``.
    """
    _check_horizon(horizon)
    built = []
    for number, variant in enumerate(variants):
        try:
            built.append(_build_rule(variant, horizon))
        except InputError as error:
            raise _located(error, number) from None
    return built


def _located(error: InputError, number: int) -> InputError:
    """Return an error of a variant, seen from the experiment."""
    # These are keys of the experiment, whichever variant they do not suit.
    if error.where in ("horizon", "memory_limit"):
        return error
    if error.where == "population":
        return error.within("problem")
    return error.within(f"variants[{number}]")


def _build_rule(variant: Variant, horizon: int | None) -> tuple[PhasedRule | SlotRule, Fidelity]:
    problem, assume = variant.problem, variant.assume
    beliefs = Beliefs(
        n_arms=problem.means.size,
        horizon=horizon,
        noise=_told(assume.noise, problem.noise_proxy),
        spread=_told(assume.spread, problem.spread_proxy),
        population=problem.population,
        goal=problem.goal,
        min_clients=FEWEST_TO_ESTIMATE if assume.min_clients is None else assume.min_clients,
        weighted=problem.shares is not None,
        # Of given clients nothing is known but the range of their means.
        bounded=problem.clients_are_given and assume.spread != "estimate",
    )
    rule = variant.algorithm.rule(beliefs)
    if not rule.decides_every_slot:
        most = variant.max_phases
        if most is None and horizon is None:
            most = DEFAULT_MAX_PHASES
        rule = replace(rule, max_clients=variant.max_clients, max_phases=most)
        if assume.noise == assume.spread == ESTIMATE and not rule.needs_components:
            raise InputError(
                "assume.noise",
                f'"estimate", and the radius "{rule.radius.rule}" does not use it; leave it out',
            )
    else:
        _refuse_caps(variant)
    rule = _protected(rule, variant.privacy)
    played = problem.at_server() if rule.player is Player.SERVER else problem
    fidelity = choose_fidelity(variant.fidelity, played, rule, variant.privacy)
    if rule.decides_every_slot:
        return rule, fidelity
    if rule.max_clients is None:
        most = DEFAULT_MAX_CLIENTS[fidelity]
        if rule.admissions(1) > most:
            raise InputError(
                "max_clients",
                f"{rule.admissions(1):,} clients in the first phase; {most:,} is the most in "
                f"{fidelity.value}, unless you set it higher",
            )
        rule = replace(rule, max_clients=most)
    rule.check_clients()
    if rule.estimator.needs_shares and rule.first_plan().capped:
        raise InputError(
            "max_clients",
            f"{rule.max_clients:,} of {rule.population:,} clients, and they have weights: all of"
            " them must play; raise it",
        )
    _check_first_phases(rule, variant.label, variant.privacy)
    return rule, fidelity


def _protected(rule: PhasedRule | SlotRule, privacy: Privacy | None) -> PhasedRule | SlotRule:
    """Return a rule as its clients' privacy leaves it; refuse what has nothing to protect."""
    if privacy is None:
        return rule
    if rule.decides_every_slot:
        raise InputError(
            "privacy", "protects what clients send, and here nobody sends anything; leave it out"
        )
    try:
        return protected(rule, privacy)
    except InputError as error:
        raise error.within("privacy") from None


def _told(assumed: Told | None, true: float) -> float | None:
    """Return what a rule believes of σ or σ_c; None if it is to estimate it."""
    if assumed is None:
        return true
    return None if assumed == ESTIMATE else assumed


def _refuse_caps(variant: Variant) -> None:
    for name in ("max_clients", "max_phases"):
        if getattr(variant, name) is not None:
            raise InputError(name, "an algorithm that decides in every slot has no such cap")


_CHECKED_PHASES = 64


def _check_first_phases(rule: PhasedRule, label: str, privacy: Privacy | None) -> None:
    """Refuse schedules that fail early on, and a horizon that is too short for one phase."""
    first = rule.pulls(1) * rule.n_arms
    if first > rule.slots:
        raise InputError(
            "horizon",
            f'{rule.slots:,} slots; the first phase of "{label}" alone takes {first:,} '
            f"({rule.pulls(1):,} pulls of {rule.n_arms} arms): raise it, or lower "
            f"{'pulls' if rule.scheduled else 'first_pulls'}",
        )
    # What is believed of noise and spread has no part in it, and many variants differ in it alone.
    _check_schedules(replace(rule, noise=None, spread=None), privacy)


@lru_cache(maxsize=2**12)
def _check_schedules(rule: PhasedRule, privacy: Privacy | None) -> None:
    """Refuse schedules that have no value in one of the first phases."""
    clients, capped, slots = 0, False, 0
    for phase in range(1, _CHECKED_PHASES + 1):
        pulls = rule.pulls(phase)
        if privacy is not None:
            privacy.check_pulls(pulls, phase)
        # Two arms are the fewest that a phase plays.
        slots += 2 * pulls
        if slots > rule.slots or rule.ends_after(phase) or not rule.scheduled:
            break
        newcomers, capped = rule.admit(phase, clients, capped)
        clients += newcomers


@dataclass(frozen=True, slots=True)
class _Task:
    """Some replications of one variant, or of several that are played in step."""

    numbers: list[int]
    games: list[Game]
    fidelity: Fidelity
    replications: IntArray

    def run(self) -> list[tuple[int, Outcome, float]] | None:
        """Return number, outcome and seconds of every variant; None if memory asks for halves."""
        begin = time.perf_counter()
        try:
            outcomes = self._play_together()
        except OutOfMemoryLimitError:
            return None
        took = (time.perf_counter() - begin) / len(self.games)
        return [
            (number, outcome, took) for number, outcome in zip(self.numbers, outcomes, strict=True)
        ]

    def parts(self, at_most: Mapping[int, int]) -> list[_Task]:
        """Return tasks of so many replications at most as are known to fit, by variant."""
        most = at_most.get(self.numbers[0], self.replications.size)
        return [
            replace(self, replications=self.replications[start : start + most])
            for start in range(0, self.replications.size, most)
        ]

    def _play_together(self) -> list[Outcome]:
        if len(self.games) == 1:
            return [self._play_alone(self.numbers[0], self.games[0])]
        try:
            return play_in_step(self.games, self.replications, CohortEvidence)
        except FailedGameError as error:
            number = self.numbers[self.games.index(error.game)]
            raise _located(error.problem, number) from None

    def _play_alone(self, number: int, game: Game) -> Outcome:
        try:
            return _PLAYERS[self.fidelity](game, self.replications)
        except InputError as error:
            raise _located(error, number) from None
        except RejectionError as error:
            if error.rejection is not Rejection.RANGE:
                raise
            # A server takes no such mean; the other fidelities have none that could refuse it.
            refused = InputError(
                "radius.range",
                f'{error}; widen it, or use fidelity = "clients" to see what becomes of the rule',
            )
            raise _located(refused, number) from None


def most_in_step(replications: int) -> int:
    """Return how many games of so many replications are played in step.

    Examples
    --------
    >>> most_in_step(100), most_in_step(10**6)
    (64, 1)
    """
    return max(1, _MOST_ROWS_IN_STEP // replications)


def guarantee_of(variant: Variant, rule: PhasedRule | SlotRule) -> Guarantee:
    """Return what is proven about a variant's game, with all that the game keeps and breaks."""
    if rule.decides_every_slot:
        return rule.guarantee()
    return guarantee_in(rule, variant.problem, variant.privacy)


def all_doubts(variant: Variant, rule: PhasedRule | SlotRule) -> list[str]:
    """Return what breaks a variant's guarantee or speaks against its game, in words."""
    return [] if rule.decides_every_slot else doubts(rule, variant.problem, variant.privacy)


def _warn(variants: Sequence[Variant], rules: Built) -> None:
    """Warn whoever has called `simulate` or `simulate_all`, once a variant."""
    for variant, (rule, _) in zip(variants, rules, strict=True):
        found = all_doubts(variant, rule)
        if found:
            words = f"{variant.label}: {'; '.join(found)}"
            warnings.warn(words, AssumptionWarning, stacklevel=3)


def simulate_all(
    variants: Sequence[Variant],
    *,
    horizon: int | None,
    replications: int = 100,
    seed: int = 0,
    grid_points: int = 400,
    workers: int | None = None,
    memory_limit: int = DEFAULT_MEMORY_LIMIT,
    progress: Progress | None = None,
    trace: bool = False,
    breakpoints: bool = False,
    warn: bool = True,
    rules: Built | None = None,
) -> list[Simulation]:
    """Simulate several variants; variants of one problem share their random draws.

    The numbers depend on the seed and the problems' names alone: not on the workers, the memory
    limit, or which other variants there are. Where a problem does not keep what a rule assumes
    there is an `fedbandits.AssumptionWarning`.

    Parameters
    ----------
    variants : sequence of Variant
        What to simulate.
    horizon : int, optional
        T; None where every game is only to be decided: it is over then, or after `max_phases`.
    replications : int
        How many independent games.
    seed : int
        Not negative.
    grid_points : int
        On how many slots regret curves are kept: 16 bytes a point and replication.
    workers : int, optional
        Processes; all cores by default, and only once a second has passed.
    memory_limit : int
        Bytes that the statistics of clients may take, over all workers together.
    progress : callable, optional
        Called as replications are done.
    trace, breakpoints : bool
        Whether to keep the estimates of every phase, and every bend of the regret curves.
    warn : bool
        Whether to warn of assumptions that do not hold.
    rules : list, optional
        What `build_rules` has made of the variants, if that is done.

    Examples
    --------
    >>> from fedbandits.problems import Approximate, Gaussian
    >>> from fedbandits.rules.algorithms import Fed2Ucb
    >>> game = Approximate(means=[0.5, 0.9], noise=Gaussian(0.5), spread=Gaussian(0.1))
    >>> variant = Variant(
    ...     label="demo", problem=game, algorithm=Fed2Ucb(pulls=10, admissions="2^p")
    ... )
    >>> (run,) = simulate_all([variant], horizon=10_000, replications=20, seed=1)
    >>> int((run.outcome.winner == 1).sum())
    20
    """
    _check_counts(replications, grid_points, workers, memory_limit)
    rules = build_rules(variants, horizon) if rules is None else rules
    if warn:
        _warn(variants, rules)
    n_workers = workers or os.cpu_count() or 1
    grid = make_grid(horizon, grid_points)
    fidelities = [fidelity for _, fidelity in rules]
    games = [
        Game(
            problem=variant.problem,
            rule=rule,
            communication_cost=variant.communication_cost,
            seed=seed,
            grid=grid,
            memory_limit=memory_limit // n_workers,
            trace=trace,
            breakpoints=breakpoints,
            privacy=variant.privacy,
        )
        for variant, (rule, _) in zip(variants, rules, strict=True)
    ]
    keys = [key_in_step(game, fidelity) for game, fidelity in zip(games, fidelities, strict=True)]
    tasks: list[_Task] = []
    for numbers in in_batches(keys, most_in_step(replications)):
        fidelity = fidelities[numbers[0]]
        shared = max(math.ceil(replications / n_workers), _FEWEST_PER_TASK[fidelity])
        at_once = min(_MOST_PER_TASK[fidelity], shared)
        together = [games[number] for number in numbers]
        tasks += [
            _Task(numbers, together, fidelity, np.arange(start, min(start + at_once, replications)))
            for start in range(0, replications, at_once)
        ]
    parts: list[dict[int, Outcome]] = [{} for _ in variants]
    seconds = [0.0] * len(variants)
    for task, found in _run(tasks, n_workers):
        for number, outcome, took in found:
            parts[number][int(task.replications[0])] = outcome
            seconds[number] += took
            if progress is not None:
                progress(variants[number].label, outcome.winner.size)
    simulations = [
        Simulation(
            variant=variant,
            rule=rule,
            fidelity=fidelity,
            grid=grid,
            outcome=Outcome.joined([outcomes[first] for first in sorted(outcomes)]),
            seconds=took,
        )
        for variant, (rule, fidelity), outcomes, took in zip(
            variants, rules, parts, seconds, strict=True
        )
    ]
    return simulations if horizon is not None else _up_to_the_last(simulations)


def _up_to_the_last(simulations: list[Simulation]) -> list[Simulation]:
    """Return simulations without a horizon, with a grid that ends when the last game is over."""
    over = 1
    for simulation in simulations:
        curves = simulation.total_curves()
        moving = np.flatnonzero((curves != curves[:, -1:]).any(axis=0))
        over = max(over, int(moving[-1]) + 2 if moving.size else 1)
    return [
        replace(
            simulation,
            grid=simulation.grid[:over],
            outcome=replace(
                simulation.outcome,
                exploration_curves=simulation.outcome.exploration_curves[:, :over],
                communication_curves=simulation.outcome.communication_curves[:, :over],
            ),
        )
        for simulation in simulations
    ]


def simulate(
    problem: Problem,
    algorithm: Algorithm,
    *,
    horizon: int | None,
    label: str | None = None,
    communication_cost: float = 1.0,
    assume: Assume | None = None,
    fidelity: str | None = None,
    max_clients: int | None = None,
    max_phases: int | None = None,
    privacy: Privacy | None = None,
    **settings: Any,
) -> Simulation:
    """Simulate one algorithm on one problem; see `Variant` and `simulate_all`.

    Examples
    --------
    >>> from fedbandits.problems import Exact, Gaussian
    >>> from fedbandits.rules.algorithms import Fed1Ucb
    >>> game = Exact(local_means=[[0.2, 0.9], [0.7, 0.4]], noise=Gaussian(0.5))
    >>> run = simulate(game, Fed1Ucb(pulls=50), horizon=10**5, replications=10)
    >>> run.fidelity.value, sorted(set(run.outcome.winner.tolist()))
    ('cohorts', [1])
    """
    variant = Variant(
        label=algorithm.name if label is None else label,
        problem=problem,
        algorithm=algorithm,
        communication_cost=communication_cost,
        assume=Assume() if assume is None else assume,
        fidelity=fidelity,
        max_clients=max_clients,
        max_phases=max_phases,
        privacy=privacy,
    )
    rules = build_rules([variant], horizon)
    if settings.pop("warn", True):
        _warn([variant], rules)
    return simulate_all([variant], horizon=horizon, warn=False, rules=rules, **settings)[0]


def _check_horizon(horizon: int | None) -> None:
    if horizon is not None and not 1 <= horizon <= LONGEST_HORIZON:
        raise InputError("horizon", f"{horizon} slots; it must be from 1 to 10^15")


def _check_counts(
    replications: int, grid_points: int, workers: int | None, memory_limit: int
) -> None:
    if grid_points > MOST_GRID_POINTS:
        raise InputError("grid_points", f"{grid_points:,} points; {MOST_GRID_POINTS:,} at most")
    for name, value in (
        ("replications", replications),
        ("grid_points", grid_points),
        ("workers", 1 if workers is None else workers),
        ("memory_limit", memory_limit),
    ):
        if value < 1:
            raise InputError(name, f"{value} is not a whole number of at least 1")


_Found: TypeAlias = tuple[_Task, list[tuple[int, Outcome, float]]]


def _run(tasks: Sequence[_Task], workers: int) -> Iterator[_Found]:
    """Run the tasks: here for a second, and what is left then on several processes.

    Starting processes takes about a second, and most experiments are done before. A task that
    memory does not allow is run in halves, and so are all of its variant from then on.
    """
    alone = _SERIAL_SECONDS_LATER if _processes["started"] else _SERIAL_SECONDS
    begin = time.perf_counter()
    at_most: dict[int, int] = {}
    left = deque(tasks)
    while left and (workers == 1 or time.perf_counter() - begin <= alone):
        task, *rest = left.popleft().parts(at_most)
        left.extendleft(reversed(rest))
        found = task.run()
        if found is None:
            at_most[task.numbers[0]] = task.replications.size // 2
            left.appendleft(task)
        else:
            yield task, found
    while left:
        round_of = [part for task in left for part in task.parts(at_most)]
        left.clear()
        for task, found in zip(round_of, _on_processes(round_of, workers), strict=True):
            if found is None:
                half = task.replications.size // 2
                at_most[task.numbers[0]] = min(half, at_most.get(task.numbers[0], half))
                left.append(task)
            else:
                yield task, found


def _on_processes(
    tasks: Sequence[_Task], workers: int
) -> Iterator[list[tuple[int, Outcome, float]] | None]:
    """Yield what tasks give, in their order."""
    from joblib import Parallel, delayed  # noqa: PLC0415 - only long work needs it

    _processes["started"] = True
    parallel = Parallel(n_jobs=workers, return_as="generator")
    yield from parallel(delayed(_run_task)(RunPlugins(), task) for task in tasks)


def _run_task(_: RunPlugins, task: _Task) -> list[tuple[int, Outcome, float]] | None:
    return task.run()
