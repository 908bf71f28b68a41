"""Thompson sampling in batches, and randomised rules in every driver."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import stats

import fedbandits as fb
from coin_trial import RATES, TABLES, coins
from fedbandits.errors import InputError
from fedbandits.federation.local import server_of, try_trial
from fedbandits.federation.trial import read_trial
from fedbandits.loopback import play
from fedbandits.problems import Problem
from fedbandits.protocol import (
    Client,
    MemoryLog,
    PhaseClosed,
    PhaseOpened,
    Server,
    UpdateAccepted,
)
from fedbandits.rules.algorithms import Algorithm
from fedbandits.rules.algorithms.fed_ts import PosteriorRadius, ThompsonRule, better_than
from fedbandits.rules.draws import SeededDraws
from fedbandits.rules.phased import PhasedRule
from fedbandits.rules.plans import PhasePlan, State
from fedbandits.rules.radii.known import example_statistics
from fedbandits.simulation import Variant, build_rules
from fedbandits.simulation.game import Game, PlayedGames
from fedbandits.simulation.pulls import play_logged
from fedbandits.simulation.regret import make_grid
from fedbandits.simulation.streams import Streams
from games import APPROXIMATE, exact_game
from rule_calls import changed, estimate_by_hand

LEVEL = 1e-4
"""As in the tests of fidelities: with these seeds no p-value is below."""

GAME = fb.Approximate(means=[0.4, 0.5, 0.6, 0.7], noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.05))


def thompson(**settings_of: Any) -> ThompsonRule:
    told: dict[str, Any] = {
        "n_arms": 3,
        "horizon": 10**6,
        "noise": 0.5,
        "spread": 0.0,
        "population": 4,
    }
    for name in list(settings_of):
        if name in fb.Beliefs.__dataclass_fields__:
            told[name] = settings_of.pop(name)
    rule = fb.FedTs(**settings_of).rule(fb.Beliefs(**told))
    assert isinstance(rule, ThompsonRule)
    return rule


def state_of(
    rule: ThompsonRule, estimates: list[float], counts: list[int], seed: int = 1, **changes: Any
) -> State:
    state = State(
        phase=2,
        active=np.ones(len(estimates), dtype=np.bool_),
        clients=4,
        slots_left=10**5,
        estimate=estimate_by_hand(
            rule,
            estimates=np.array(estimates),
            counts=np.array(counts)[:, np.newaxis],
            sizes=np.array([4.0]),
        ),
        random=SeededDraws(seed)(2),
    )
    return replace(state, **changes)


# What is played ----------------------------------------------------------------------------------


def test_pulls_are_shared_by_how_often_an_arm_is_the_best() -> None:
    rule = thompson(samples=20_000)
    # Two arms of one variance: the better one wins with probability Φ(Δ / √(2v)); the third never.
    state = state_of(rule, [0.60, 0.61, 0.1], [400, 400, 400])
    pulls = rule.plan(state).pulls
    chance = stats.norm.cdf(0.01 / math.sqrt(2 * 0.25 / 1600))
    batch = 1200
    share = pulls[1] / batch
    assert abs(share - chance) < 4 * math.sqrt(chance * (1 - chance) / 20_000) + 1 / batch
    assert pulls[2] == 0
    assert pulls.sum() in (batch, batch + 1, batch + 2)


def test_an_arm_too_rare_for_the_draws_gets_what_is_believed_of_it() -> None:
    rule = thompson(samples=1)
    state = state_of(rule, [0.55, 0.60, 0.0], [400, 400, 400])
    assert state.estimate is not None
    leader = np.array([False, True, False])
    rare = float(better_than(state.estimate, leader)[0])
    assert rare == pytest.approx(stats.norm.sf(0.05 / math.sqrt(2 * 0.25 / 1600)))
    assert 4800 * rare > 1 > 48 * rare
    pulls = rule.plan(state).pulls
    assert pulls[0] == math.ceil(1200 * rare)
    # In a batch of a hundredth it would be less than a pull.
    few = thompson(samples=1, growth=0.01)
    assert few.plan(state).pulls[0] == 0


def test_the_same_state_is_planned_the_same_and_another_seed_is_not() -> None:
    rule = thompson(samples=50)
    estimates, counts = [0.6, 0.605, 0.59], [50, 50, 50]
    plans = [rule.plan(state_of(rule, estimates, counts, seed)) for seed in (1, 1, 2)]
    assert plans[0].pulls.tolist() == plans[1].pulls.tolist()
    assert plans[0].pulls.tolist() != plans[2].pulls.tolist()


def test_the_lowest_mean_is_found_where_that_is_the_goal() -> None:
    rule = thompson(goal="min")
    pulls = rule.plan(state_of(rule, [0.2, 0.25, 0.9], [400, 400, 400])).pulls
    assert pulls[0] > pulls[1]
    assert pulls[2] == 0


def test_contenders_short_of_clients_ask_for_as_many_as_there_are() -> None:
    rule = thompson(spread=0.1, population=None)
    for counts, wanted in (([20, 20, 20], 0), ([100, 100, 100], 4)):
        plan = rule.plan(state_of(rule, [0.59, 0.6, 0.1], counts))
        assert int(plan.newcomers) == wanted


def test_a_belief_is_sure_when_others_are_better_with_little_probability() -> None:
    radius = PosteriorRadius(level=0.01)
    for gap, sure in ((2.32, False), (2.34, True)):
        known = changed(
            example_statistics(),
            values=np.array([0.5, 0.5 + gap * math.sqrt(2e-4)]),
            pull_variance=np.array(1e-4),
            client_variance=np.array(0.0),
        )
        assert radius.stays(known).tolist() == [not sure, True]


def test_it_proves_nothing() -> None:
    assert thompson().guarantee().error is None


# Fidelities and drivers --------------------------------------------------------------------------


def simulated(problem: Problem, fidelity: str, n: int, **options: Any) -> PlayedGames:
    algorithm = options.pop("algorithm", fb.FedTs(initial_clients=4))
    return fb.simulate(
        problem,
        algorithm,
        horizon=options.pop("horizon", 20_000),
        replications=n,
        fidelity=fidelity,
        workers=1,
        warn=False,
        **options,
    ).games


@pytest.mark.parametrize(
    "problem",
    [
        pytest.param(GAME, id="unlimited"),
        pytest.param(replace(GAME, population=30), id="finite"),
        pytest.param(exact_game(5), id="given"),
    ],
)
def test_fidelities_agree(problem: Problem) -> None:
    algorithm = fb.FedTs(initial_clients=5)
    found = [
        simulated(problem, fidelity, n, seed=seed, algorithm=algorithm)
        for fidelity, n, seed in (("cohorts", 400, 1), ("clients", 400, 2), ("pulls", 80, 3))
    ]
    for one, other in ((0, 1), (1, 2)):
        for name in ("exploration", "clients", "phases"):
            values = [getattr(found[place], name) for place in (one, other)]
            assert stats.ks_2samp(values[0], values[1], method="asymp").pvalue > LEVEL, name


@pytest.mark.parametrize("fidelity", ["cohorts", "clients", "pulls"])
def test_a_replication_does_not_depend_on_the_others(fidelity: str) -> None:
    several = simulated(GAME, fidelity, 6, seed=5)
    fewer = simulated(GAME, fidelity, 3, seed=5)
    assert several.exploration[:3].tolist() == fewer.exploration.tolist()


def test_pulls_are_what_a_server_plays_with_the_same_draws() -> None:
    """The simulator's game, and a server that is driven by hand on the same streams."""
    variant = Variant(label="ts", problem=GAME, algorithm=fb.FedTs(initial_clients=4))
    ((rule, _),) = build_rules([replace(variant, fidelity="pulls")], 20_000)
    assert isinstance(rule, PhasedRule)
    game = Game(
        problem=GAME,
        rule=rule,
        communication_cost=1.0,
        seed=8,
        grid=make_grid(20_000, 3),
        memory_limit=2**30,
    )
    logged = play_logged(game, rule, 2)
    streams = Streams(8, GAME.name)
    by_hand = Server(
        rule,
        run="replication 2",
        draws=lambda phase: lambda draw: streams.draws(np.array([2]), phase)(draw)[0],
        log=MemoryLog(),
    )
    for record in logged.log:
        match record:
            case PhaseOpened(admitted=admitted, assignment=assignment):
                assert by_hand.wanted() == len(admitted)
                assert by_hand.open(admitted) == assignment
            case UpdateAccepted(update=update):
                assert by_hand.receive(update) is None
            case PhaseClosed(decision=decision):
                assert by_hand.close() == decision
    assert by_hand.decision == logged.decision


def test_a_trial_is_tried_and_resumed_the_same() -> None:
    tables = {key: value for key, value in TABLES.items() if key not in ("pulls", "admissions")}
    tables = {key: value for key, value in tables.items() if key not in ("radius", "delta")}
    trial = read_trial(tables | {"algorithm": "fed-ts", "horizon": 20_000, "min_pulls": 2})
    first, second = (try_trial(trial, coins(1), 40) for _ in range(2))
    assert list(first.log) == list(second.log)
    assert first.decision is not None
    assert trial.arms[first.decision.best] == max(RATES, key=lambda arm: RATES[arm])
    # A server that goes on from any phase opens the next one just the same.
    records = list(first.log)
    for place, record in enumerate(records):
        if isinstance(record, PhaseOpened) and record.assignment.phase > 1:
            resumed = server_of(trial, MemoryLog(records[:place]))
            assert resumed.wanted() >= len(record.admitted)
            assert resumed.open(record.admitted) == record.assignment
    other = try_trial(trial, coins(1), 40, seed=trial.seed + 1)
    assert [r for r in other.log if isinstance(r, PhaseOpened)] != [
        r for r in first.log if isinstance(r, PhaseOpened)
    ]


def test_its_regret_is_of_the_order_of_an_index_rule_on_figure_4() -> None:
    one, other = (
        simulated(APPROXIMATE, "cohorts", 300, algorithm=algorithm, horizon=10**6, seed=4)
        for algorithm in (fb.FedTs(), fb.FedIndex())
    )
    assert one.total.mean() < 1.5 * other.total.mean()
    assert ((one.winner == 9) | (one.winner < 0)).all()
    # Every client pulls at least once in every phase of an elimination; here phases are few.
    assert one.phases.mean() < 25


# A rule of one's own -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Coin(PhasedRule):
    """Elimination that pulls once or twice as often, by the toss of a coin."""

    randomised: ClassVar[bool] = True

    def plan(self, state: State) -> PhasePlan:
        plan = PhasedRule.plan(self, state)
        tossed = state.drawn(lambda rng, games: rng.integers(1, 3, (games, 1)))
        return replace(plan, pulls=plan.pulls * tossed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shy(Coin):
    """One that does not say that it draws."""

    randomised: ClassVar[bool] = False


def coin(kind: type[Coin]) -> Any:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class CoinUcb(Algorithm):
        name: ClassVar[str] = "coin"

        def rule(self, beliefs: fb.Beliefs) -> PhasedRule:
            made = fb.Fed2Ucb(pulls=20, admissions=5).rule(beliefs)
            return kind(**{field.name: getattr(made, field.name) for field in fields(made)})

    return CoinUcb()


@pytest.mark.parametrize("fidelity", ["cohorts", "clients", "pulls"])
def test_a_randomised_rule_of_one_s_own_plays(fidelity: str) -> None:
    found = simulated(GAME, fidelity, 4, algorithm=coin(Coin), seed=2, horizon=10**4)
    again = simulated(GAME, fidelity, 4, algorithm=coin(Coin), seed=2, horizon=10**4)
    assert found.exploration.tolist() == again.exploration.tolist()
    assert len(set(found.exploration.tolist())) > 1


def test_who_draws_says_so() -> None:
    with pytest.raises(InputError, match="set randomised = True"):
        simulated(GAME, "cohorts", 2, algorithm=coin(Shy))


def _first_of(clients: list[Client], wanted: int) -> list[Client]:
    return clients[:wanted]


def test_a_server_without_a_seed_draws_as_with_seed_zero() -> None:
    rule = thompson()
    logs = []
    for draws in (None, SeededDraws(0)):
        clients = [Client(name, lambda arm, n: [0.3 + 0.01 * arm] * n) for name in "abcd"]
        server = Server(rule, draws=draws)
        play(server, partial(_first_of, clients))
        logs.append([r for r in server.log if isinstance(r, PhaseOpened)])
    assert logs[0] == logs[1]
