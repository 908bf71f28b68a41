"""Regret: what the simulator reports is what the messages of the game add up to, slot by slot."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbandits.problems import Approximate, Gaussian
from fedbandits.protocol import PhaseClosed, PhaseOpened, Server
from fedbandits.rules.algorithms import (
    AuthorsBaseline,
    Centralized,
    Fed1Ucb,
    Fed2Ucb,
    ImprovedUcb,
)
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.phased import Charge, PhasedRule
from fedbandits.rules.radii import PaperRadius
from fedbandits.simulation import simulate
from fedbandits.simulation.game import Game, PlayedGames, ledger_of
from fedbandits.simulation.phases import Played, play_phases
from fedbandits.simulation.pulls import play_logged, play_pulls
from fedbandits.simulation.regret import Breakpoints, RegretLedger, make_grid
from rule_calls import estimate_by_hand

modest = settings(deadline=None, derandomize=True, max_examples=160)
seeds = st.integers(0, 2**32 - 1)

# Means are multiples of 1/64 and costs whole: every sum here is exact in floating point too.
UNIT = 64


# The slow way: a list of what happened in every single slot ---------------------------------------


@dataclasses.dataclass
class SlotBySlot:
    """Regret after every slot, index 0 being before the first, in fractions."""

    gaps: list[Fraction]
    horizon: int
    cost: int
    charge: Charge
    exploration: list[Fraction] = dataclasses.field(default_factory=lambda: [Fraction(0)])
    communication: list[Fraction] = dataclasses.field(default_factory=lambda: [Fraction(0)])

    @property
    def slot(self) -> int:
        return len(self.exploration) - 1

    def one_slot(self, arm: int, clients: int, *, exploring: bool) -> None:
        paid = self.cost * clients if exploring and self.charge is Charge.SLOT else 0
        self.exploration.append(self.exploration[-1] + clients * self.gaps[arm])
        self.communication.append(self.communication[-1] + paid)

    def phase(self, pulls: list[int], clients: int) -> None:
        for arm, n in enumerate(pulls):
            for _ in range(n):
                self.one_slot(arm, clients, exploring=True)

    def decided(self, clients: int) -> None:
        if self.charge is Charge.PHASE:
            self.communication[-1] += self.cost * clients

    def stay(self, arm: int, clients: int) -> None:
        while self.slot < self.horizon:
            self.one_slot(arm, clients, exploring=False)

    def on(self, grid: IntArray) -> tuple[list[Fraction], list[Fraction]]:
        slots = grid.tolist()
        return [self.exploration[t] for t in slots], [self.communication[t] for t in slots]


def fractions_of(values: FloatArray) -> list[Fraction]:
    return [Fraction(value) for value in values.tolist()]


@dataclasses.dataclass
class Account:
    """What a log says of a game."""

    regret: SlotBySlot
    clients: int = 0
    phases: int = 0
    winner: int = -1
    decision_slot: int = -1


def account_of(server: Server, regret: SlotBySlot) -> Account:
    """Return what happened, from the messages of the game alone."""
    account = Account(regret)
    for record in server.log:
        if isinstance(record, PhaseOpened):
            account.clients += len(record.admitted)
            regret.phase(list(record.assignment.pulls), account.clients)
        elif isinstance(record, PhaseClosed):
            decision = record.decision
            account.phases += 1
            regret.decided(account.clients)
            if sum(decision.active) == 1:
                account.winner = decision.active.index(True)
                account.decision_slot = regret.slot
                regret.stay(account.winner, account.clients)
            elif decision.final:
                standing = [k for k, active in enumerate(decision.active) if active]
                best = max(standing, key=lambda k: (decision.estimates[k], -k))
                regret.stay(best, account.clients)
    return account


# Whole games -------------------------------------------------------------------------------------


@st.composite
def games(draw: st.DrawFn) -> Game:
    """Return a small game whose regret is exact."""
    n_arms = draw(st.integers(2, 4))
    means = draw(st.lists(st.integers(0, UNIT), min_size=n_arms, max_size=n_arms))
    horizon = draw(st.integers(3, 250))
    problem = Approximate(
        means=[mean / UNIT for mean in means],
        noise=Gaussian(draw(st.sampled_from([0.05, 0.2]))),
        spread=Gaussian(draw(st.sampled_from([0.0, 0.1]))),
    )
    pulls = draw(st.sampled_from(["1", "4", "p", "2^p", "ceil(log(T))"]))
    radius = PaperRadius(arm=draw(st.sampled_from([0.01, 0.5, 2.0, 6.0])), client=0.1)
    algorithms: list[Fed2Ucb | Fed1Ucb | Centralized | AuthorsBaseline | ImprovedUcb] = [
        Fed2Ucb(pulls=pulls, admissions="2^p", radius=radius),
        Fed2Ucb(pulls=pulls, admissions="max(0, 4 - 2*p) + 1", radius=radius),
        Fed1Ucb(pulls=pulls, clients=3, radius=radius),
        Centralized(clients=2, communicate="phase", radius=radius),
        Centralized(clients=2, communicate="slot", radius=radius),
        AuthorsBaseline(pulls=pulls, radius=radius),
        ImprovedUcb(),
    ]
    beliefs = Beliefs(
        n_arms=n_arms, horizon=horizon, noise=problem.noise_proxy, spread=problem.spread_proxy
    )
    rule = draw(st.sampled_from(algorithms)).rule(beliefs)
    rule = dataclasses.replace(
        rule,
        max_clients=draw(st.integers(1, 24)),
        max_phases=draw(st.none() | st.integers(1, 6)),
    )
    return Game(
        problem=problem,
        rule=rule,
        communication_cost=draw(st.integers(0, 5)),
        seed=draw(st.integers(0, 1000)),
        grid=make_grid(horizon, draw(st.integers(1, 300))),
        memory_limit=2**30,
        trace=True,
        breakpoints=True,
    )


def phased(game: Game) -> PhasedRule:
    assert isinstance(game.rule, PhasedRule)
    return game.rule


def nothing_happened_yet(game: Game) -> SlotBySlot:
    means = [Fraction(mean) for mean in game.problem.means.tolist()]
    return SlotBySlot(
        gaps=[max(means) - mean for mean in means],
        horizon=phased(game).slots,
        cost=int(game.communication_cost),
        charge=phased(game).charge,
    )


def assert_same_points(points: Breakpoints, slow: SlotBySlot) -> None:
    """Assert that the breakpoints lie on the curves, and that the curves are straight between."""
    slots = points.slot.tolist()
    assert slots == sorted(slots)
    assert (slots[0], slots[-1]) == (0, slow.horizon)
    exploration, communication = (
        fractions_of(points.exploration),
        fractions_of(points.communication),
    )
    # Of several points in one slot the last holds after it: the curves are right-continuous.
    last = {slot: number for number, slot in enumerate(slots)}
    for slot, number in last.items():
        assert exploration[number] == slow.exploration[slot]
        assert communication[number] == slow.communication[slot]
    corners = sorted(last)
    for left, right in pairwise(corners):
        rise = slow.exploration[right] - slow.exploration[left]
        for slot in range(left, right):
            straight = slow.exploration[left] + rise * (slot - left) / (right - left)
            assert slow.exploration[slot] == straight
    # A jump has a point before it and one after it.
    for before, after in pairwise(range(len(slots))):
        if slots[before] == slots[after]:
            assert exploration[before] == exploration[after]
            assert communication[before] <= communication[after]


@modest
@given(game=games(), replication=st.integers(0, 3))
def test_the_outcome_is_what_the_messages_add_up_to(game: Game, replication: int) -> None:
    rule = phased(game)
    outcome = play_pulls(game, np.array([replication]))
    server = play_logged(game, rule, replication)
    account = account_of(server, nothing_happened_yet(game))
    slow = account.regret
    assert slow.slot == rule.horizon
    exploration, communication = slow.on(game.grid)
    assert fractions_of(outcome.exploration) == [slow.exploration[-1]]
    assert fractions_of(outcome.communication) == [slow.communication[-1]]
    assert fractions_of(outcome.exploration_curves[0]) == exploration
    assert fractions_of(outcome.communication_curves[0]) == communication
    assert fractions_of(outcome.total) == [slow.exploration[-1] + slow.communication[-1]]
    assert outcome.clients.tolist() == [account.clients]
    assert outcome.phases.tolist() == [account.phases]
    assert outcome.winner.tolist() == [account.winner]
    assert outcome.decision_slot.tolist() == [account.decision_slot]
    (points,) = outcome.breakpoints
    assert_same_points(points, slow)


class Recorded:
    """Evidence that was recorded before: the estimates in the logs of some servers."""

    def __init__(self, servers: list[Server], most_phases: int) -> None:
        self.estimates = [
            [record.decision.estimates for record in server.log if isinstance(record, PhaseClosed)]
            for server in servers
        ]
        self.counts: FloatArray = np.zeros(0)
        self.rule = servers[0].rule
        self.most_phases = most_phases

    def admit(self, phase: int, newcomers: IntArray, active: BoolArray) -> None:
        self.counts = np.append(self.counts, np.zeros(int(newcomers[0])))

    def play(self, phase: int, pulls: IntArray, active: BoolArray, n_phases: int) -> Played:
        steps = np.arange(1.0, n_phases + 1).reshape(-1, 1, 1, 1)
        counts = self.counts + float(pulls.max()) * steps
        self.counts = counts[-1].reshape(-1)
        estimates = [
            [phases[min(phase - 1 + step, len(phases) - 1)] for phases in self.estimates]
            for step in range(n_phases)
        ]
        # Whatever stands where an arm is not active must not matter.
        values = np.where(active, np.array(estimates), 1e300)
        return Played(estimate_by_hand(self.rule, estimates=values, counts=counts))

    def keep(self, going: BoolArray) -> None:
        self.estimates = [
            phases for phases, stays in zip(self.estimates, going.tolist(), strict=True) if stays
        ]


@modest
@given(game=games(), replications=st.integers(1, 5), most_phases=st.integers(1, 9))
def test_replaying_the_estimates_in_step_gives_the_outcome_of_each_game(
    game: Game, replications: int, most_phases: int
) -> None:
    numbers = np.arange(replications)
    servers = [play_logged(game, phased(game), number) for number in numbers.tolist()]
    together = play_phases([game], numbers, lambda *_: Recorded(servers, most_phases))[0]
    one_by_one = play_pulls(game, numbers)
    for field in dataclasses.fields(PlayedGames):
        if field.name not in ("breakpoints", "trace"):
            assert (
                getattr(together, field.name).tolist() == getattr(one_by_one, field.name).tolist()
            ), field.name
    assert together.trace is not None
    assert one_by_one.trace is not None
    if together.phases.any():
        assert np.array_equal(together.trace, one_by_one.trace, equal_nan=True)
    for ours, theirs in zip(together.breakpoints, one_by_one.breakpoints, strict=True):
        assert ours.slot.tolist() == theirs.slot.tolist()
        assert ours.exploration.tolist() == theirs.exploration.tolist()
        assert ours.communication.tolist() == theirs.communication.tolist()


def test_a_game_that_ends_before_its_first_decision_has_an_empty_trace() -> None:
    game = dataclasses.replace(two_arms(19), trace=True)
    one_by_one = play_pulls(game, np.arange(3))
    servers = [play_logged(game, phased(game), replication) for replication in range(3)]
    together = play_phases([game], np.arange(3), lambda *_: Recorded(servers, 1))[0]
    for outcome in (one_by_one, together):
        assert outcome.trace is not None
        assert outcome.trace.shape == (0, 3, 2)


def two_arms(horizon: int, **settings_of_rule: Any) -> Game:
    """Return a game of arms 1/4 and 3/4 without any noise: two clients, ten pulls, C = 3."""
    problem = Approximate(means=[0.25, 0.75], noise=Gaussian(0.0), spread=Gaussian(0.0))
    noise = settings_of_rule.pop("noise", 0.0)
    rule = Fed1Ucb(pulls=10, clients=2).rule(
        Beliefs(n_arms=2, horizon=horizon, noise=noise, spread=0.0)
    )
    return Game(
        problem=problem,
        rule=dataclasses.replace(rule, **settings_of_rule),
        communication_cost=3.0,
        seed=0,
        grid=make_grid(horizon, horizon),
        memory_limit=2**30,
    )


def played(game: Game) -> tuple[float, float, int, int, int]:
    outcome = play_pulls(game, np.array([0]))
    return (
        float(outcome.exploration[0]),
        float(outcome.communication[0]),
        int(outcome.phases[0]),
        int(outcome.decision_slot[0]),
        int(outcome.winner[0]),
    )


def test_a_game_decided_in_one_phase_by_hand() -> None:
    # 10 slots on the worse arm, 2 clients, a gap of 1/2; one round of communication.
    game = two_arms(100)
    assert played(game) == (10.0, 6.0, 1, 20, 1)
    outcome = play_pulls(game, np.array([0]))
    assert outcome.exploration_curves[0].tolist() == [min(t, 10.0) for t in range(1, 101)]
    assert outcome.communication_curves[0].tolist() == [0.0] * 19 + [6.0] * 81


def test_a_phase_that_ends_exactly_at_the_horizon_decides_and_pays() -> None:
    assert played(two_arms(20)) == (10.0, 6.0, 1, 20, 1)


def test_a_phase_that_is_cut_short_neither_decides_nor_pays() -> None:
    assert played(two_arms(19)) == (10.0, 0.0, 0, -1, -1)
    assert played(two_arms(7)) == (7.0, 0.0, 0, -1, -1)


def test_a_wrong_winner_costs_regret_until_the_horizon() -> None:
    game = two_arms(100)
    upside_down = Approximate(means=[0.75, 0.25], noise=Gaussian(0.0), spread=Gaussian(0.0))
    ledger = ledger_of([dataclasses.replace(game, problem=upside_down)], np.array([0]))
    row = np.array([0])
    ledger.play(row, np.array([[10, 10]]), clients=2, complete=np.array([True]))
    ledger.stay(row, np.array([1]), clients=2)
    assert ledger.exploration.tolist() == [10.0 + 80.0]
    assert ledger.communication.tolist() == [6.0]


def test_an_undecided_game_that_is_capped_plays_its_best_estimate_for_free() -> None:
    # With much noise believed nothing is dropped; two phases, then the better arm until the end.
    game = two_arms(100, noise=9.0, max_phases=2)
    assert played(game) == (20.0, 12.0, 2, -1, -1)
    assert play_pulls(game, np.array([0])).capped.tolist() == [True]


def test_communication_in_every_slot_ends_when_one_arm_is_left() -> None:
    assert played(two_arms(100, charge=Charge.SLOT)) == (10.0, 20 * 6.0, 1, 20, 1)
    assert played(two_arms(19, charge=Charge.SLOT)) == (10.0, 19 * 6.0, 0, -1, -1)
    assert played(two_arms(100, charge=Charge.NOTHING)) == (10.0, 0.0, 1, 20, 1)


def test_simulating_reports_the_curves_of_the_messages() -> None:
    problem = Approximate(
        means=[mean / UNIT for mean in (20, 40, 33)], noise=Gaussian(0.2), spread=Gaussian(0.1)
    )
    run = simulate(
        problem,
        Fed2Ucb(pulls=5, admissions=2),
        horizon=600,
        communication_cost=2.0,
        fidelity="pulls",
        replications=3,
        seed=7,
        grid_points=37,
        workers=1,
    )
    rule = Fed2Ucb(pulls=5, admissions=2).rule(
        Beliefs(n_arms=3, horizon=600, noise=0.2, spread=0.1)
    )
    game = Game(
        problem=problem,
        rule=rule,
        communication_cost=2.0,
        seed=7,
        grid=run.grid,
        memory_limit=2**30,
    )
    assert run.grid.tolist() == make_grid(600, 37).tolist()
    for replication in range(3):
        slow = nothing_happened_yet(game)
        account_of(play_logged(game, rule, replication), slow)
        exploration, communication = slow.on(run.grid)
        assert fractions_of(run.games.exploration_curves[replication]) == exploration
        assert fractions_of(run.games.communication_curves[replication]) == communication
        total = [a + b for a, b in zip(exploration, communication, strict=True)]
        assert fractions_of(run.total_curves()[replication]) == total


# The ledger itself -------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Sequence:
    """Some replications that go through random phases in step, and end in every possible way."""

    seed: int
    n_arms: int
    replications: int
    horizon: int
    points: int
    cost: int
    charge: Charge


sequences = st.builds(
    Sequence,
    seed=seeds,
    n_arms=st.integers(1, 4),
    replications=st.integers(1, 4),
    horizon=st.integers(1, 150),
    points=st.integers(1, 160),
    cost=st.integers(0, 4),
    charge=st.sampled_from(Charge),
)


def cut(pulls: list[int], slots: int) -> list[int]:
    """Return what is played of a phase, in index order, when so many slots are left."""
    played_slots = [arm for arm, n in enumerate(pulls) for _ in range(n)][:slots]
    return [played_slots.count(arm) for arm in range(len(pulls))]


@settings(deadline=None, derandomize=True, max_examples=300)
@given(sequence=sequences)
def test_the_ledger_agrees_with_one_that_writes_every_slot_down(sequence: Sequence) -> None:
    rng = np.random.default_rng(sequence.seed)
    gaps = rng.integers(0, UNIT + 1, size=sequence.n_arms)
    grid = make_grid(sequence.horizon, sequence.points)
    ledger = RegretLedger(
        gaps=gaps / UNIT,
        horizon=sequence.horizon,
        grid=grid,
        replications=sequence.replications,
        cost=float(sequence.cost),
        charge=sequence.charge,
        breakpoints=True,
    )
    slow = [
        SlotBySlot(
            gaps=[Fraction(gap, UNIT) for gap in gaps.tolist()],
            horizon=sequence.horizon,
            cost=sequence.cost,
            charge=sequence.charge,
        )
        for _ in range(sequence.replications)
    ]
    going, clients = list(range(sequence.replications)), 0
    while going:
        clients += int(rng.integers(0, 4)) if clients else 1 + int(rng.integers(3))
        plans, cuts = [], []
        for row in going:
            left = sequence.horizon - slow[row].slot
            plan = rng.integers(0, 12, size=sequence.n_arms) * (rng.random(sequence.n_arms) < 0.7)
            plan[rng.integers(sequence.n_arms)] += 1
            if rng.random() < 0.15 and left:  # a phase that ends exactly at the horizon
                plan = np.bincount(rng.integers(sequence.n_arms, size=left), minlength=plan.size)
            plans.append(plan.tolist())
            cuts.append(cut(plan.tolist(), left))
        complete = [a == b for a, b in zip(plans, cuts, strict=True)]
        # Phases that are alike may be entered together, as often as the shortest of all fits.
        most = min(
            (sequence.horizon - slow[row].slot) // sum(plan)
            for row, plan in zip(going, plans, strict=True)
        )
        times = int(rng.integers(1, most + 1)) if most > 1 and rng.random() < 0.5 else 1
        ledger.play(
            np.array(going),
            np.array(cuts),
            clients=clients,
            complete=np.array(complete),
            times=times,
        )
        for row, pulls, whole in zip(going, cuts, complete, strict=True):
            for _ in range(times):
                slow[row].phase(pulls, clients)
                if whole:
                    slow[row].decided(clients)
        going = [row for row, whole in zip(going, complete, strict=True) if whole]
        over = [row for row in going if rng.random() < 0.2]
        if over:
            arms = rng.integers(sequence.n_arms, size=len(over))
            ledger.stay(np.array(over), arms, clients=clients)
            for row, arm in zip(over, arms.tolist(), strict=True):
                slow[row].stay(arm, clients)
            going = [row for row in going if row not in over]
    assert ledger.slot.tolist() == [sequence.horizon] * sequence.replications
    for row, (one, points) in enumerate(zip(slow, ledger.breakpoints(), strict=True)):
        exploration, communication = one.on(grid)
        assert fractions_of(ledger.exploration_curves[row]) == exploration
        assert fractions_of(ledger.communication_curves[row]) == communication
        assert Fraction(ledger.exploration.tolist()[row]) == one.exploration[-1]
        assert Fraction(ledger.communication.tolist()[row]) == one.communication[-1]
        assert_same_points(points, one)
        shared = {slot: number for number, slot in enumerate(points.slot.tolist())}
        for place, slot in enumerate(grid.tolist()):
            if slot in shared:
                at = shared[slot]
                assert points.exploration[at] == ledger.exploration_curves[row, place]
                assert points.communication[at] == ledger.communication_curves[row, place]


@pytest.mark.parametrize("charge", Charge)
def test_a_ledger_keeps_no_breakpoints_unasked(charge: Charge) -> None:
    ledger = RegretLedger(
        gaps=np.array([0.5, 0.0]),
        horizon=10,
        grid=make_grid(10, 2),
        replications=1,
        cost=1.0,
        charge=charge,
    )
    row = np.array([0])
    ledger.play(row, np.array([[2, 2]]), clients=1, complete=np.array([True]))
    ledger.stay(row, np.array([1]), clients=1)
    assert ledger.breakpoints() == []
    assert ledger.exploration_curves.tolist() == [[1.0, 1.0]]


def test_a_long_horizon_costs_no_memory_and_stays_exact() -> None:
    horizon = 10**15
    ledger = RegretLedger(
        gaps=np.array([0.5, 0.0]),
        horizon=horizon,
        grid=make_grid(horizon, 4),
        replications=1,
        cost=1.0,
        charge=Charge.PHASE,
    )
    row, half = np.array([0]), horizon // 4
    ledger.play(row, np.array([[half, half]]), clients=2, complete=np.array([True]))
    ledger.stay(row, np.array([0]), clients=2)
    assert ledger.exploration_curves.tolist() == [[half, half, 2.0 * half, 3.0 * half]]
    assert ledger.communication_curves.tolist() == [[0.0, 2.0, 2.0, 2.0]]


# The grid ----------------------------------------------------------------------------------------


@settings(deadline=None, derandomize=True, max_examples=300)
@given(horizon=st.one_of(st.integers(1, 2000), st.integers(1, 10**15)), points=st.integers(1, 1000))
def test_a_grid_is_even_but_for_early_points_and_ends_at_the_horizon(
    horizon: int, points: int
) -> None:
    grid = make_grid(horizon, points).tolist()
    early = points // 16 if 200 <= points < horizon else 0
    n = min(points - early, horizon)
    even = [-(-i * horizon // n) for i in range(1, n + 1)]
    assert n <= len(grid) <= n + early
    assert grid[-1] == horizon
    assert grid[0] >= 1
    assert all(a < b for a, b in pairwise(grid))
    assert set(even) <= set(grid)
    # What is added lies where a game may be decided early.
    assert all(even[0] / 8 - 1 <= point <= 4 * even[0] for point in set(grid) - set(even))


def test_a_fine_grid_on_the_longest_horizon_does_not_overflow() -> None:
    horizon, points = 10**15 - 1, 100_000
    grid = make_grid(horizon, points).tolist()
    n = points - points // 16
    assert set(grid) >= {-(-i * horizon // n) for i in range(1, n + 1)}
    assert min(grid) > 0
    assert max(grid) == horizon
    assert n <= len(grid) <= points
