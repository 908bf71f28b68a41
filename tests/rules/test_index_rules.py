"""Index rules: what they play, whom they let in, when they commit, and what that costs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

import fedbandits as fb
from coin_trial import RATES, coins
from fedbandits.errors import InputError
from fedbandits.federation.host import ClientInfo
from fedbandits.federation.local import server_of, try_trial
from fedbandits.federation.trial import read_trial
from fedbandits.loopback import play
from fedbandits.problems import Problem
from fedbandits.protocol import Client, PhaseOpened, Quorum, Server, Update
from fedbandits.protocol.answer import answer_of
from fedbandits.reproduce.movielens.groups import as_released
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.index_rules import IndexRule
from fedbandits.rules.plans import State
from fedbandits.rules.radii import Index, IndexRadius
from fedbandits.rules.radii.known import example_statistics
from fedbandits.simulation.game import PlayedGames
from fedbandits.theory.index_regret import index_regret_bound, low_index_bound
from games import APPROXIMATE, exact_game
from rule_calls import changed, estimate_by_hand

LEVEL = 1e-4
"""As in the tests of fidelities: with these seeds no p-value is below."""


def index_rule(**settings_of: Any) -> IndexRule:
    """Return the rule for three arms of an unlimited population, but for these settings."""
    told: dict[str, Any] = {"n_arms": 3, "horizon": 10**6, "noise": 0.5, "spread": 0.1}
    for name in list(settings_of):
        if name in fb.Beliefs.__dataclass_fields__:
            told[name] = settings_of.pop(name)
    rule = fb.FedIndex(**settings_of).rule(fb.Beliefs(**told))
    assert isinstance(rule, IndexRule)
    return rule


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What clients have reported between two phases, with estimates by hand."""

    active: BoolArray
    estimates: FloatArray
    counts: IntArray | FloatArray
    sizes: FloatArray
    clients: IntArray
    slots_left: IntArray

    def by(self, rule: IndexRule, capped: bool | BoolArray = False, joined: Any = None) -> State:
        """Return it as a rule knows it, when so many of its newcomers have joined."""
        estimate = estimate_by_hand(
            rule, estimates=self.estimates, counts=self.counts, sizes=self.sizes
        )
        return State(
            phase=2,
            active=self.active,
            estimate=estimate,
            clients=self.clients,
            slots_left=self.slots_left,
            capped=capped,
            joined=joined,
        )


def planned(rule: IndexRule, seen: Seen, newcomers: Any = 0) -> IntArray:
    """Return what a rule plays in phase 2 if so many have joined."""
    return rule.plan(seen.by(rule, joined=newcomers)).pulls


def joining(rule: IndexRule, seen: Seen, capped: bool = False) -> tuple[int, bool]:
    """Return how many a rule asks to join in phase 2, and whether a cap has cut them."""
    plan = rule.plan(seen.by(rule, capped))
    return int(plan.newcomers), bool(plan.capped)


def standing(
    estimates: list[float], counts: list[list[int]], sizes: list[int], **changes: Any
) -> Seen:
    known = Seen(
        active=np.ones(len(estimates), dtype=np.bool_),
        estimates=np.array(estimates),
        counts=np.array(counts),
        sizes=np.array([sizes], dtype=np.float64),
        clients=np.asarray(sum(sizes)),
        slots_left=np.asarray(10**5),
    )
    return replace(known, **changes)


# Widths ------------------------------------------------------------------------------------------


def test_widths_are_those_of_the_page() -> None:
    known = changed(
        example_statistics(),
        pull_variance=np.array([1e-4, 4e-4]),
        client_variance=np.array([1e-4, 0.0]),
        clients=np.array(8.0),
    )
    variances, total = [2e-4, 4e-4], 8 * 10**6
    worth = [0.25 / v for v in variances]
    wanted: dict[Index, list[float]] = {
        "ucb": [math.log(10**6)] * 2,
        "ucb2": [1 + math.log(total / n) for n in worth],
        "moss": [1 + math.log(total / (10 * n)) for n in worth],
    }
    for index, logs in wanted.items():
        widths = IndexRadius(index=index, noise=0.5).half_widths(known)
        by_hand = [math.sqrt(2 * v * log) for v, log in zip(variances, logs, strict=True)]
        assert widths == pytest.approx(by_hand, rel=1e-12)


def test_an_index_that_has_seen_everything_is_still_above_its_estimate() -> None:
    known = changed(
        example_statistics(), pull_variance=np.array(1e-12), client_variance=np.zeros(1)
    )
    indices: tuple[Index, ...] = ("moss", "ucb2")
    for index in indices:
        radius = IndexRadius(index=index, noise=0.5)
        assert float(radius.logs(known).max()) == 1.0
        assert float(radius.half_widths(known).max()) > 0


def test_a_leader_is_committed_to_when_its_lower_end_is_above_every_index() -> None:
    radius = IndexRadius(noise=0.5)
    known = changed(
        example_statistics(),
        values=np.array([0.5, 0.6]),
        pull_variance=np.array([1e-4, 1e-5]),
        client_variance=np.array([1e-4, 1e-4]),
        clients=np.array(1.0),
    )
    up = float(radius.half_widths(known)[0])
    # Of the leader only what more pulls would remove counts.
    down = math.sqrt(2 * 1e-5 * float(radius.logs(known)[1]))
    for gap, decided in ((1.001 * (up + down), True), (0.999 * (up + down), False)):
        apart = changed(known, values=np.array([0.6 - gap, 0.6]))
        assert radius.stays(apart).tolist() == [not decided, True]


def test_a_confidence_sequence_covers_at_all_times_at_once() -> None:
    """A walk of normal steps leaves the sequence at any time in at most δ of all games."""
    delta, walks, steps = 0.2, 4000, 2000
    radius = IndexRadius(noise=1.0, commit="certified", delta=delta, first_variance=1 / 20)
    rng = np.random.default_rng(1)
    pulls = np.arange(1, steps + 1)
    known = changed(
        example_statistics(), n_arms=1, pull_variance=1.0 / pulls, client_variance=np.zeros(steps)
    )
    means = rng.standard_normal((walks, steps)).cumsum(axis=1) / pulls
    left = (np.abs(means) > radius._sequence(known)).any(axis=1).mean()
    assert left <= delta
    # The same walk leaves intervals for one fixed time far more often.
    fixed = np.abs(means) > np.sqrt(2 * math.log(2 / delta) / pulls)
    assert fixed.any(axis=1).mean() > 2 * delta


# What is played ----------------------------------------------------------------------------------


def test_the_first_phase_pulls_all_arms_by_as_many_clients_as_are_of_use() -> None:
    rule = index_rule(spread=0.02, cost=0.0)
    assert rule.admit(1, 0, False) == (8, False)
    assert rule.first_plan().pulls.tolist() == [4, 4, 4]
    # Clients who are alike tell no more than one of them.
    alone = index_rule(spread=0.0, cost=0.0)
    assert alone.admit(1, 0, False) == (1, False)
    assert alone.pulls(1) == 32
    # T/K · σ_c²/σ² = 10⁴/3 · 0.0016 = 5.3 clients.
    assert index_rule(spread=0.02, horizon=10**4).admit(1, 0, False)[0] == 6
    assert index_rule(spread=0.02, population=7).admit(1, 0, False)[0] == 7


def test_the_first_phase_is_worth_its_reports() -> None:
    log = math.log(10**6)
    # Clients who are alike: exploring gaps that it can just show costs √6 times C.
    for cost in (30.0, 100.0):
        pulls = index_rule(spread=0.0, population=4, cost=cost).pulls(1)
        shown = math.sqrt(2 * 0.25 * log / (4 * pulls))
        assert 3 * pulls * shown == pytest.approx(math.sqrt(6) * cost, rel=0.1)
    # Clients who differ: a half more than the optimum of the lower bound for such gaps.
    gap = 2 * 0.1 * math.sqrt(log / 8)
    by_hand = 1.5 * 5 * math.sqrt(400 / (2 * 3 * gap))
    assert index_rule(cost=400.0).pulls(1) == math.ceil(by_hand)
    # It never takes more than a quarter of the slots.
    assert index_rule(cost=1e9, horizon=12_000).pulls(1) == 1000


def test_the_leader_and_its_challengers_are_played_and_nobody_else() -> None:
    rule = index_rule(spread=0.0, population=4, cost=0.0)
    far = standing([0.2, 0.575, 0.6], [[1000], [1000], [1000]], [4])
    pulls = planned(rule, far)
    assert pulls[0] == 0
    # Its index would be at the leader's estimate with so many pulls in all.
    known = rule.choose(far.by(rule)).known
    width = float(rule.radius.half_widths(known)[1])
    target = 4000 * (width / 0.025) ** 2
    assert 4400 < target < 8000
    assert pulls[1] == math.ceil((target - 4000) / 4)
    assert pulls[2] == math.ceil((2 * target - 4000) / 4)


def test_phases_are_longer_if_reports_are_expensive() -> None:
    near = standing([0.59, 0.6, 0.0], [[1000], [1000], [1000]], [4])
    # Twice as many pulls in total; or eight times as many, but four times those of the leader.
    for cost, pulls in ((0.0, 1000), (1.0, 1000), (1e6, 3000)):
        rule = index_rule(spread=0.0, population=4, cost=cost)
        assert planned(rule, near)[0] == pulls


def test_clients_play_on_before_an_expensive_report_as_far_as_that_is_no_risk() -> None:
    near = standing([0.5, 0.575, 0.6], [[1000], [1000], [1000]], [4])
    played = [
        int(planned(index_rule(spread=0.0, population=4, cost=cost), near)[2])
        for cost in (0.0, 0.1, 1.0, 10.0, 1e6)
    ]
    assert played == sorted(played)
    assert played[0] == played[1] < played[2] < played[3]
    # No more than a quarter of what is left, nor 64 times the arm with the highest index.
    assert played[4] == 25_000
    longer = replace(near, slots_left=np.asarray(10**9))
    assert planned(index_rule(spread=0.0, population=4, cost=1e6), longer)[2] == 63_000


def test_no_arm_runs_ahead_of_the_one_with_the_highest_index() -> None:
    rule = index_rule(spread=0.0, population=4, cost=0.0)
    race = standing([0.55, 0.599, 0.6], [[30], [1000], [1000]], [4])
    index = rule.choose(race.by(rule)).index
    assert index.argmax() == 0
    assert index[1] > 0.6
    assert planned(rule, race).tolist() == [30, 0, 0]
    close = replace(race, counts=np.array([[400], [1000], [1000]]), estimates=race.estimates + 0.0)
    close.estimates[0] = 0.585
    assert rule.choose(close.by(rule)).index.argmax() == 0
    assert planned(rule, close)[1] == 600


def test_a_leader_that_is_far_ahead_is_not_pulled_without_need() -> None:
    rule = index_rule(spread=0.0, population=4, cost=0.0)
    ahead = standing([0.1, 0.58, 0.6], [[1000], [1000], [9000]], [4])
    pulls = planned(rule, ahead)
    assert pulls[1] > 0
    assert pulls[2] == 0
    # Who has just joined has nothing to compare with.
    grown = replace(ahead, clients=np.asarray(8))
    assert planned(rule, grown, 4)[2] > 0


def test_few_arms_a_phase_are_the_leader_and_the_highest_indices() -> None:
    rule = index_rule(spread=0.0, population=4, arms_per_phase=2)
    near = standing([0.597, 0.598, 0.6], [[100], [100], [100]], [4])
    assert (planned(rule, near) > 0).tolist() == [False, True, True]


def test_without_challengers_the_leader_plays_alone() -> None:
    rule = index_rule(spread=0.0, population=4)
    alone = standing([0.1, 0.2, 0.9], [[100], [100], [100]], [4])
    pulls = planned(rule, alone)
    assert pulls[:2].tolist() == [0, 0]
    assert pulls[2] >= 100


def test_a_phase_that_does_not_fit_is_played_on_the_leader() -> None:
    rule = index_rule(spread=0.0, population=4)
    late = standing([0.55, 0.59, 0.6], [[1000], [1000], [1000]], [4], slots_left=np.asarray(50))
    pulls = planned(rule, late)
    assert pulls[:2].tolist() == [0, 0]
    assert pulls[2] > 50


def test_arms_that_nobody_has_pulled_are_pulled_first() -> None:
    rule = index_rule(spread=0.0, population=4)
    unknown = standing([0.5, 0.0, 0.6], [[10], [0], [10]], [4])
    assert planned(rule, unknown)[1] == rule.pulls(1)
    nothing = standing([0.0, 0.0, 0.0], [[0], [0], [0]], [4], slots_left=np.asarray(3))
    assert planned(rule, nothing).tolist() == [rule.pulls(1)] * 3
    assert joining(rule, nothing) == (0, False)


def test_withdrawn_arms_are_neither_played_nor_followed() -> None:
    rule = index_rule(spread=0.0, population=4)
    known = standing(
        [0.59, 0.6, 0.9], [[100], [100], [100]], [4], active=np.array([True, True, False])
    )
    pulls = planned(rule, known)
    assert pulls[2] == 0
    assert (pulls[:2] > 0).all()


# Who joins ---------------------------------------------------------------------------------------


def least_pulls(
    variance: float, *, noise: float, spread: float, before: float, old: float, new: float
) -> float:
    """Return how often each client must pull an arm so that its estimate has a variance."""

    def informed(pulls: float) -> float:
        def of(n: float) -> float:
            return n / (spread**2 * n + noise**2)

        return old * of(before + pulls) + new * of(pulls) - 1 / variance

    if informed(0.0) >= 0:
        return 0.0
    return float(optimize.brentq(informed, 0.0, 1e12)) if informed(1e12) > 0 else math.inf


@pytest.mark.parametrize("cost", [0.0, 0.3, 10.0, 300.0])
@pytest.mark.parametrize("pulls", [2, 40, 500])
def test_a_phase_is_the_cheapest_that_a_search_finds(cost: float, pulls: int) -> None:
    """The plan of an arm behind by 0.05, by the words of the page and with roots by bisection."""
    noise, spread, clients, behind = 0.5, 0.1, 8, 0.05
    rule = index_rule(n_arms=2, cost=cost)
    known = standing([0.55, 0.6], [[pulls], [pulls]], [clients])
    of_clients, of_pulls = spread**2 / clients, noise**2 / (clients * pulls)
    variance = of_clients + of_pulls
    log = 1 + math.log(clients * 10**6 / 2 * variance / noise**2)
    found: list[tuple[float, int, int]] = []
    for factor, luck in ((2.0, 0.0), (8.0, 1.0)):
        for crowd in (8, 10, 12, 16, 24, 32):
            open_to = spread**2 / crowd
            scale = 2 * log * variance / (variance + of_clients) * (1 + of_clients / variance)
            scale += 2 * math.log(crowd / clients)
            slack = max(behind - luck * math.sqrt(variance), 0.0)
            enough = slack**2 / scale - open_to
            target = min(max(enough, variance / factor), variance / 1.1)
            more = least_pulls(
                target, noise=noise, spread=spread, before=pulls, old=clients, new=crowd - clients
            )
            phases = 1.0
            if target > enough:
                left = math.log(variance / max(enough, variance / 8))
                phases = max(left / math.log(variance / target), 1.0)
            if math.isfinite(more):
                more = max(math.ceil(more), 1)
                price = crowd * (cost * phases + more * math.sqrt(behind**2 + variance))
                found.append((price, crowd, int(more)))
    _, crowd, more = min(found)
    # Nor beyond four times the pulls of the arm with the highest index, which is the leader.
    more = min(more, math.ceil(3 * clients * pulls / crowd))
    plan = rule.plan(known.by(rule))
    assert (int(plan.newcomers), int(plan.pulls[0])) == (crowd - clients, more)


def test_pulls_are_planned_for_those_who_have_joined() -> None:
    rule = index_rule()
    known = standing([0.59, 0.6, 0.1], [[100], [100], [100]], [8])
    wanted, _ = joining(rule, known)
    assert wanted > 0
    # Fewer pull more; what they cannot find out at all they try twice as often.
    pulls = [int(planned(rule, known, joined)[0]) for joined in (wanted, wanted - 1, 0)]
    assert pulls[0] <= pulls[1] <= pulls[2] == 100


def test_nothing_but_the_scale_changes_if_all_is_measured_in_other_units() -> None:
    """Means, σ, σ_c and C times 4: regret is four times as much, to the last bit."""
    means = np.array([0.7, 0.76, 0.77, 0.79])
    for population in (None, 40, 5):
        totals = []
        for unit in (1.0, 4.0):
            noise = fb.Gaussian(0.5 * unit)
            game: Problem = fb.Approximate(
                means=unit * means,
                noise=noise,
                spread=fb.Gaussian(0.02 * unit),
                population=population,
            )
            if population == 5:
                game = fb.Exact(local_means=np.tile(unit * means, (5, 1)), noise=noise)
            played = fb.simulate(
                game,
                fb.FedIndex(),
                horizon=10**5,
                communication_cost=3.0 * unit,
                replications=50,
                seed=3,
                workers=1,
                warn=False,
            )
            totals.append(played.games.total)
        assert (totals[1] == 4.0 * totals[0]).all()


def test_clients_who_are_in_are_asked_before_others_join() -> None:
    """Without that, an arm that few have pulled doubles the clients phase after phase."""
    rule = index_rule()
    known = standing([0.59, 0.6, 0.1], [[1000, 0], [1000, 30], [1000, 0]], [8, 2000])
    assert joining(rule, known) == (0, False)
    assert planned(rule, known)[0] > 0


@pytest.mark.parametrize("gap", [0.001, 0.0001, 0.0])
def test_ties_bring_in_no_more_clients_than_are_of_worth(gap: float) -> None:
    # Without a limit it is a thousand million of them for a tie.
    game = fb.Approximate(means=[0.5, 0.5 + gap], noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.1))
    outcome = fb.simulate(
        game, fb.FedIndex(), horizon=10**6, replications=200, seed=8, workers=1, warn=False
    ).games
    assert outcome.clients.max() == 160_000  # 4 T (σ_c/σ)²
    assert outcome.communication.mean() < 12 * 160_000


def test_admissions_end_at_the_population_and_at_the_cap() -> None:
    known = standing([0.59, 0.6, 0.1], [[500], [500], [500]], [8])
    assert joining(index_rule(population=50), known)[0] > 2
    few = index_rule(population=10, initial_clients=8)
    assert joining(few, known) == (2, False)
    capped = replace(index_rule(), max_clients=10)
    assert joining(capped, known) == (2, True)
    assert joining(capped, known, capped=True) == (0, True)
    everyone = index_rule(population=8)
    assert joining(everyone, known) == (0, False)


@settings(deadline=None, derandomize=True, max_examples=100)
@given(seed=st.integers(0, 2**32 - 1), games=st.integers(1, 5), groups=st.integers(1, 4))
def test_a_batch_is_planned_as_its_members(seed: int, games: int, groups: int) -> None:
    rng = np.random.default_rng(seed)
    rule = index_rule(n_arms=4, spread=float(rng.choice([0.0, 0.05, 0.3])))
    counts = rng.integers(0, 60, (games, 4, groups)) * (rng.random((games, 1, groups)) < 0.8)
    sizes = rng.integers(1, 20, (games, 1, groups)).astype(np.float64)
    together = Seen(
        active=rng.random((games, 4)) < 0.8,
        estimates=rng.normal(0.5, 0.1, (games, 4)),
        counts=counts,
        sizes=sizes,
        clients=sizes.sum(axis=(1, 2)).astype(np.int64),
        slots_left=rng.integers(1, 2000, games),
    )
    plan = rule.plan(together.by(rule, np.zeros(games, dtype=np.bool_)))
    joined, pulls = np.asarray(plan.newcomers), plan.pulls
    for game in range(games):
        alone = Seen(
            active=together.active[game],
            estimates=together.estimates[game],
            counts=counts[game],
            sizes=sizes[game],
            clients=together.clients[game],
            slots_left=together.slots_left[game],
        )
        assert joining(rule, alone)[0] == joined[game]
        assert (planned(rule, alone, joined[game]) == pulls[game]).all()
        order = rng.permutation(4)
        moved = replace(
            alone,
            active=alone.active[order],
            estimates=alone.estimates[order],
            counts=counts[game][order],
        )
        assert (planned(rule, moved, joined[game]) == pulls[game][order]).all()


def test_the_lowest_mean_is_found_where_that_is_the_goal() -> None:
    rule = index_rule(spread=0.0, population=4, goal="min")
    known = standing([0.2, 0.22, 0.9], [[1000], [1000], [1000]], [4])
    pulls = planned(rule, known)
    assert pulls[0] > pulls[1] > 0
    assert pulls[2] == 0


# Fidelities and drivers --------------------------------------------------------------------------


def simulated(problem: Problem, fidelity: str, seed: int, n: int, **options: Any) -> PlayedGames:
    algorithm = options.pop("algorithm", fb.FedIndex(initial_clients=4))
    return fb.simulate(
        problem,
        algorithm,
        horizon=1000,
        fidelity=fidelity,
        replications=n,
        seed=seed,
        workers=1,
        trace=True,
        warn=False,
        **options,
    ).games


_SPREAD = fb.Gaussian(0.2)
_MEANS = [0.3, 0.4, 0.5, 0.6]
GAUSSIAN = fb.Approximate(means=_MEANS, noise=fb.Gaussian(0.5), spread=_SPREAD)
FINITE = fb.Approximate(means=_MEANS, noise=fb.Gaussian(0.5), spread=_SPREAD, population=30)
RATED = fb.Approximate(means=_MEANS, noise=fb.Bernoulli(), spread=fb.Beta(0.1), population=60)
_local = np.random.default_rng(5).uniform(0.1, 0.9, (9, 4))
GIVEN = fb.Exact(local_means=_local, noise=fb.Bernoulli(), weights=range(1, 10))


@pytest.mark.parametrize(
    ("problem", "one", "other"),
    [
        pytest.param(GAUSSIAN, "cohorts", "clients", id="gaussian"),
        pytest.param(FINITE, "cohorts", "clients", id="finite"),
        pytest.param(FINITE, "cohorts", "pulls", id="finite pulls"),
        pytest.param(RATED, "clients", "pulls", id="rates"),
        pytest.param(GIVEN, "clients", "pulls", id="weighted"),
    ],
)
def test_fidelities_agree(problem: Problem, one: str, other: str) -> None:
    n = {"cohorts": 2000, "clients": 500, "pulls": 100}
    a = simulated(problem, one, 1, n[one])
    b = simulated(problem, other, 2, n[other])
    found = p_values(a, b)
    assert min(found.values()) > LEVEL, found


def p_values(a: PlayedGames, b: PlayedGames) -> dict[str, float]:
    """Return p-values of two-sample tests, estimates of the first and a later phase among them."""
    assert a.trace is not None
    assert b.trace is not None
    found = {
        name: stats.ks_2samp(getattr(a, name), getattr(b, name)).pvalue
        for name in ("total", "communication", "clients", "phases", "decision_slot")
    }
    for phase in (0, 3):
        for arm in range(a.trace.shape[2]):
            x, y = (t[phase][np.isfinite(t[phase, :, arm]), arm] for t in (a.trace, b.trace))
            found[f"estimates of arm {arm} in phase {phase}"] = stats.ks_2samp(x, y).pvalue
    return found


def test_the_tests_reject_noise_that_is_too_large() -> None:
    noisier = fb.Approximate(
        means=_MEANS, noise=fb.Gaussian(0.9), spread=_SPREAD, name=GAUSSIAN.name
    )
    told = fb.Assume(noise=0.5, spread=0.2)
    off = simulated(noisier, "cohorts", 2, 2000, assume=told)
    found = p_values(off, simulated(GAUSSIAN, "clients", 1, 500))
    assert min(found.values()) < LEVEL, found


def test_fidelities_agree_on_protected_means() -> None:
    privacy = fb.Privacy(range=(-3.0, 4.0), noise="gaussian", rho=0.5)
    a, b, c = (
        simulated(GAUSSIAN, fidelity, seed, n, privacy=privacy)
        for fidelity, seed, n in (("cohorts", 1, 1500), ("clients", 2, 200), ("pulls", 3, 40))
    )
    for one, other in ((a, b), (a, c)):
        assert stats.ks_2samp(one.total, other.total).pvalue > LEVEL
        assert stats.ks_2samp(one.phases, other.phases).pvalue > LEVEL


def test_an_arm_is_not_judged_by_how_another_is_protected() -> None:
    """Widths of the worst protected arm for all of them once let the clients double for ever."""
    privacy = fb.Privacy(range=(-3.0, 4.0), noise="gaussian", rho=0.5)
    outcome = fb.simulate(
        GAUSSIAN, fb.FedIndex(), horizon=10**5, replications=500, seed=1, privacy=privacy, workers=1
    ).games
    bare = fb.simulate(
        GAUSSIAN, fb.FedIndex(), horizon=10**5, replications=500, seed=1, workers=1
    ).games
    assert np.median(bare.total) < np.median(outcome.total) < 20 * np.median(bare.total)
    assert outcome.clients.max() <= 4096


def test_the_numbers_do_not_depend_on_how_the_work_is_spread() -> None:
    whole = simulated(GAUSSIAN, "cohorts", 4, 300)
    parts = simulated(GAUSSIAN, "cohorts", 4, 300, memory_limit=100_000)
    assert (whole.total == parts.total).all()
    first = simulated(GAUSSIAN, "cohorts", 4, 140)
    assert (whole.total[:140] == first.total).all()
    clients = simulated(GAUSSIAN, "clients", 4, 30)
    small = simulated(GAUSSIAN, "clients", 4, 30, memory_limit=2**20)
    assert (clients.total == small.total).all()


TRIAL: dict[str, Any] = {
    "title": "colours",
    "arms": list(RATES),
    "algorithm": "fed-index",
    "horizon": 20_000,
    "assume": {"noise": 0.5, "spread": 0.2},
}


def test_a_trial_decides_as_the_loop_behind_the_pulls_fidelity() -> None:
    """Sums of coins are exact, so that not a bit may differ."""
    trial = read_trial({**TRIAL, "initial_clients": 4})
    tried = try_trial(trial, coins(2), 40)
    opened = [record for record in tried.log if isinstance(record, PhaseOpened)]
    assert sum(len(record.admitted) for record in opened) > 4
    assert len({record.assignment.pulls for record in opened}) > 2
    assert min(n for record in opened for n in record.assignment.pulls if n) >= trial.min_pulls
    left = (name for record in opened for name in record.admitted)
    pull = coins(2)

    def client(name: str) -> Client:
        info = ClientInfo(name=name, number=int(name.removeprefix("client-")))
        return Client(name, lambda arm, n: pull(trial.arms[arm], n, info))

    server = server_of(trial)
    play(server, lambda wanted: [client(name) for name in islice(left, wanted)])
    assert server.snapshot() == tried.snapshot()
    assert server.decision is not None
    assert server.arms[server.decision.best] == "blue"
    # And the log alone says the same.
    assert Server.replay(server.rule, server.log, arms=server.arms, run="colours").snapshot() == (
        server.snapshot()
    )


def test_a_server_goes_on_without_those_who_drop_out() -> None:
    rule = index_rule(n_arms=2, spread=0.0, population=4, horizon=4000, first_pulls=8)
    server = Server(rule, quorum=Quorum(fraction=0.5))
    server.open(["a", "b", "c", "d"])
    # Nobody reports: the phase is given up, and the next one begins from nothing.
    server.abandon()
    assert server.open([]).pulls == (2, 2)
    rng = np.random.default_rng(3)
    while not server.finished:
        assignment = server.assignment
        assert assignment is not None
        for name in ("a", "c"):
            means = tuple(
                rng.normal(mean, 0.5 / math.sqrt(n)) if n else 0.0
                for mean, n in zip((0.2, 0.9), assignment.pulls, strict=True)
            )
            update = Update(
                header=server.header,
                phase=server.phase,
                client=name,
                counts=assignment.pulls,
                means=means,
            )
            assert server.receive(update) is None
        server.close()
        if not server.finished:
            server.open([])
    assert server.decision is not None
    assert server.decision.winner == 1


def test_protected_means_are_of_enough_pulls_and_noise_is_that_of_the_fewest() -> None:
    privacy = {"range": [0, 1], "noise": "gaussian", "epsilon": 2.0, "delta": 1e-6}
    tried = try_trial(read_trial({**TRIAL, "privacy": privacy}), coins(1), 40)
    policy = fb.Privacy(range=(0, 1), noise="gaussian", epsilon=2.0, delta=1e-6)
    uneven = 0
    for record in tried.log:
        if isinstance(record, PhaseOpened) and record.complete:
            pulls = [n for n in record.assignment.pulls if n]
            assert min(pulls) >= policy.min_pulls
            uneven += len(set(pulls)) > 1
            assert record.assignment.release.mechanism == policy.mechanism(min(pulls), 3)
    assert uneven
    assert tried.decision is not None
    assert tried.arms[tried.decision.best] == "blue"


# What it promises --------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.05, 0.5])
def test_a_certified_commitment_errs_as_seldom_as_it_says(delta: float) -> None:
    game = fb.Exact(local_means=[[0.1, 0.4], [0.5, 0.18]], noise=fb.Gaussian(0.5))
    algorithm = fb.FedIndex(commit="certified", delta=delta, first_pulls=20)
    outcome = fb.simulate(
        game, algorithm, horizon=10**6, replications=3000, seed=5, workers=1, warn=False
    ).games
    assert game.means.argmax() == 0
    assert (outcome.winner == 1).mean() <= delta
    # It is not silent: nearly all of these games are decided.
    assert (outcome.winner == 0).mean() > 0.9


def test_a_certified_commitment_costs_less_than_elimination_with_the_same_promise() -> None:
    ours, theirs = (
        fb.simulate(exact_game(5), algorithm, horizon=10**6, replications=500, seed=8, workers=1)
        for algorithm in (
            fb.FedIndex(commit="certified"),
            fb.Fed1Ucb(pulls="ceil(10*log(T))", radius=fb.CertifiedRadius(delta="1/T")),
        )
    )
    assert (ours.games.winner == 9).mean() > 0.98
    assert ours.games.total.mean() < 0.75 * theirs.games.total.mean()


def test_nothing_is_certified_of_clients_who_do_not_report() -> None:
    # The two who are silent may be of another mind, whatever the others say.
    rule = index_rule(
        n_arms=2, horizon=4000, population=4, commit="certified", delta=0.05, first_pulls=8
    )
    server = Server(rule, quorum=Quorum(fraction=0.5))
    server.open(["a", "b", "c", "d"])
    rng = np.random.default_rng(3)
    while not server.finished:
        assignment = server.assignment
        assert assignment is not None
        for name in ("a", "c"):
            means = [
                rng.normal(mean, 0.5 / math.sqrt(max(n, 1))) if n else 0.0
                for mean, n in zip((0.2, 0.9), assignment.pulls, strict=True)
            ]
            server.receive(
                Update(
                    header=server.header,
                    phase=server.phase,
                    client=name,
                    counts=assignment.pulls,
                    means=tuple(means),
                )
            )
        server.close()
        if not server.finished:
            server.open([])
    assert server.decision is not None
    assert server.decision.winner is None
    said = answer_of(server)
    assert said.level == 1.0
    assert "no probability is proven" in said.words()


@pytest.mark.parametrize("index", ["ucb2", "moss"])
def test_an_index_is_as_seldom_too_low_as_the_lemma_says(index: Index) -> None:
    walks, slots, below = 20_000, 2000, 0.2
    rule = index_rule(n_arms=2, horizon=slots, noise=1.0, spread=0.0, population=1, index=index)
    pulls = np.arange(1, slots + 1)
    known = changed(
        example_statistics(),
        n_arms=2,
        horizon=slots,
        pull_variance=1.0 / pulls,
        client_variance=np.zeros(slots),
    )
    boundary = pulls * (below + rule.radius.half_widths(known))
    rng = np.random.default_rng(2)
    low = sum(
        int((rng.standard_normal((1000, slots)).cumsum(axis=1) < -boundary).any(axis=1).sum())
        for _ in range(walks // 1000)
    )
    likely = low_index_bound(rule, below)
    assert 0 < low / walks <= likely < 1


def test_regret_is_below_its_bound_which_grows_as_the_logarithm() -> None:
    game, algorithm = exact_game(5), fb.FedIndex(index="ucb2")
    gaps = game.means.max() - game.means
    bounds = []
    for horizon in (10**4, 10**6, 10**8):
        told = fb.Beliefs(n_arms=10, horizon=horizon, noise=0.5, spread=0.0, population=5)
        rule = algorithm.rule(told)
        assert isinstance(rule, IndexRule)
        bounds.append(index_regret_bound(rule, gaps, cost=1.0))
        outcome = fb.simulate(
            game, algorithm, horizon=horizon, replications=200, seed=8, workers=1
        ).games
        assert outcome.total.mean() < bounds[-1].total
        assert outcome.communication.max() <= bounds[-1].communication
    # From one horizon to the next all terms grow by the same but that of failures, by √log T.
    first, second = np.diff([bound.total - bound.failure for bound in bounds])
    assert first == pytest.approx(second)
    with pytest.raises(InputError, match="clients who all play from the start"):
        index_regret_bound(index_rule(), [0.1], cost=1.0)
    everybody = index_rule(population=5)
    for capped, about in (
        (replace(everybody, max_clients=2), "clients who all play"),
        (replace(everybody, max_phases=2), "nothing ends"),
    ):
        with pytest.raises(InputError, match=about):
            index_regret_bound(capped, [0.1], cost=1.0)


@given(
    index=st.sampled_from(["moss", "ucb2", "ucb"]),
    commit=st.sampled_from(["index", "certified"]),
    cost=st.sampled_from([0.0, 1.0, 100.0, 1e4]),
    per_phase=st.sampled_from([None, 2, 3]),
    clients=st.integers(1, 16),
    n_arms=st.integers(2, 5),
    seed=st.integers(0, 2**32 - 1),
)
def test_what_the_proof_says_of_a_phase_holds_whatever_is_known(
    *,
    index: Index,
    commit: str,
    cost: float,
    per_phase: int | None,
    clients: int,
    n_arms: int,
    seed: int,
) -> None:
    rule = index_rule(
        n_arms=n_arms,
        spread=0.0,
        population=clients,
        index=index,
        commit=commit,
        cost=cost,
        arms_per_phase=per_phase,
    )
    rng = np.random.default_rng(seed)
    games = 50
    before = np.ceil(10 ** rng.uniform(0, 4, (games, n_arms)))
    known = Seen(
        active=np.ones((games, n_arms), dtype=np.bool_),
        estimates=rng.normal(0.5, 10 ** rng.uniform(-3, 0, (games, 1)), (games, n_arms)).round(3),
        counts=before[..., np.newaxis],
        sizes=np.array([[float(clients)]]),
        clients=np.full(games, clients),
        slots_left=np.full(games, 10**9),
    )
    choice = rule.choose(known.by(rule))
    challengers = rule.step(known.by(rule), choice).pulls > 0
    after = before + planned(rule, known)
    top = np.where(challengers | choice.leader, choice.index, -np.inf).argmax(axis=-1)
    highest = before[np.arange(games), top][:, np.newaxis]
    leader = before[choice.leader][:, np.newaxis]
    assert ((after / before).max(axis=-1) >= 1.1 - 1e-12).all()
    assert (after <= np.where(challengers, 8, np.inf) * before).all()
    others = challengers & (before != highest)
    assert (after <= np.maximum(4 * highest, before))[others].all()
    assert (highest <= leader).all()
    assert (after <= np.maximum(64 * highest, before))[choice.leader].all()
    # Who challenges is at most a standard deviation of both beyond the reach of its index.
    pull_variance = 0.25 / (clients * before)
    reach = choice.index + np.sqrt((pull_variance + 0.25 / (clients * leader)) / 2)
    ahead = choice.known.estimate.values.max(axis=-1, keepdims=True)
    assert (reach >= ahead - 1e-12)[challengers & ~choice.uncertain].all()


def test_what_it_promises() -> None:
    promise = index_rule(population=4, commit="certified", delta=0.2).guarantee()
    assert promise.error == 0.2
    assert index_rule().guarantee().words().startswith("none")


@pytest.mark.parametrize(
    ("settings_of", "where"),
    [
        ({"index": "mos"}, "index"),
        ({"cost": -1.0}, "cost"),
        ({"first_pulls": 0}, "first_pulls"),
        ({"initial_clients": 0}, "initial_clients"),
        ({"arms_per_phase": 1}, "arms_per_phase"),
        ({"commit": "never"}, "commit"),
        ({"delta": 0.05}, "delta"),
        ({"commit": "certified", "delta": 2.0}, "delta"),
        ({"commit": "certified"}, "commit"),
        ({"noise": None}, "assume.noise"),
        ({"spread": None}, "assume.spread"),
        ({"horizon": None}, "horizon"),
    ],
)
def test_what_cannot_be_is_refused(settings_of: dict[str, Any], where: str) -> None:
    with pytest.raises(fb.InputError) as caught:
        index_rule(**settings_of)
    assert caught.value.where == where


def test_a_certified_commitment_knows_nothing_of_protected_means() -> None:
    privacy = fb.Privacy(range=(0, 1), noise="gaussian", rho=0.5)
    with pytest.raises(fb.InputError, match="certified"):
        fb.simulate(
            exact_game(5),
            fb.FedIndex(commit="certified"),
            horizon=1000,
            privacy=privacy,
            warn=False,
        )


# What it costs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("problem", "most", "worst"),
    [
        pytest.param(exact_game(5), 1250, 6_000, id="figure 3, M = 5"),
        pytest.param(exact_game(10), 1550, 6_000, id="figure 3, M = 10"),
        pytest.param(APPROXIMATE, 3000, 20_000, id="figure 4"),
    ],
)
def test_regret_and_tails_on_the_paper_s_games(problem: Problem, most: float, worst: float) -> None:
    n = 10_000
    outcome = fb.simulate(
        problem, fb.FedIndex(), horizon=10**6, replications=n, seed=8, workers=1, grid_points=1
    ).games
    total = outcome.total
    assert total.mean() + 3 * total.std() / math.sqrt(n) <= most
    assert ((outcome.winner >= 0) & (outcome.winner != 9)).sum() <= 1
    # No runaways: the worst of ten thousand is within a factor, and clients stay few.
    assert np.quantile(total, 0.99) < 3 * np.median(total)
    assert total.max() < worst
    assert outcome.clients.max() <= 1024


def test_near_ties_among_a_hundred_arms_do_not_run_away() -> None:
    """MovieLens as released; asking newcomers first once doubled the clients up to 500,000."""
    game = as_released(spread=0.02)
    ours = fb.simulate(game, fb.FedIndex(), horizon=10**6, replications=400, seed=1, workers=1)
    paper = fb.Fed2Ucb(pulls=200, admissions="2^p", radius=fb.PaperRadius(arm=1.0, client=0.25))
    theirs = fb.simulate(game, paper, horizon=10**6, replications=100, seed=1, workers=1)
    assert ours.games.total.max() < 4 * np.median(ours.games.total)
    assert ours.games.clients.max() <= 8192
    ratio = theirs.games.total.mean() / ours.games.total.mean()
    assert ratio > 3
