"""What index rules play in a phase, and whom they let in."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

import fedbandits as fb
from fedbandits.problems import Problem
from known_states import Seen, index_rule, joining, planned, standing

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


def test_clients_who_can_tell_no_more_are_released() -> None:
    """Nobody may join, and 4,000 pulls leave σ²/n far below σ_c²: the leader is played out."""
    told = standing([0.59, 0.6, 0.1], [[4000], [4000], [4000]], [10])
    keeps, releases = (replace(index_rule(release=on), max_clients=10) for on in (False, True))
    assert planned(keeps, told)[0] > 0
    assert planned(releases, told).tolist() == [0, 10**5 + 1, 0]
    assert joining(releases, told)[0] == 0
    # More pulls still tell something, more clients may join, or all clients that exist are in.
    fresh = standing([0.59, 0.6, 0.1], [[20], [20], [20]], [10])
    assert planned(releases, fresh).tolist() == planned(keeps, fresh).tolist()
    assert joining(index_rule(release=True), told)[0] > 0
    for setting in ({}, {"population": 10}):
        free, bound = (planned(index_rule(release=on, **setting), told) for on in (True, False))
        assert free.tolist() == bound.tolist()
    # An arm of which pulls still tell something is compared; one of which they do not is not.
    mixed = standing([0.59, 0.6, 0.58], [[600], [600], [200]], [10])
    assert planned(keeps, mixed)[0] > 0
    assert (planned(releases, mixed) > 0).tolist() == [False, True, True]
    # Arms that nobody has pulled come first.
    new = standing([0.59, 0.6, 0.0], [[4000], [4000], [0]], [10])
    assert planned(releases, new)[2] > 0
    # Who is sure has nobody to release.
    sure = standing([0.1, 0.9, 0.1], [[4000], [4000], [4000]], [10])
    assert planned(releases, sure).tolist() == planned(keeps, sure).tolist()


@pytest.mark.parametrize("fidelity", ["cohorts", "clients", "pulls"])
def test_released_clients_report_no_more_and_lose_less(fidelity: str) -> None:
    game = fb.Approximate(means=[0.5, 0.6], noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.3))
    kept, released = (
        fb.simulate(
            game,
            fb.FedIndex(release=release),
            horizon=10_000,
            max_clients=30,
            fidelity=fidelity,
            replications=40,
            seed=5,
            workers=1,
            warn=False,
        ).games
        for release in (False, True)
    )
    assert (released.phases <= kept.phases).all()
    assert released.phases.mean() < 0.8 * kept.phases.mean()
    # Until clients are released, the games are the same: what is left is chance about the leader.
    lower = kept.total - released.total
    assert lower.mean() > 2 * lower.std() / math.sqrt(lower.size)
    assert (released.winner < 0).mean() >= (kept.winner < 0).mean()


@pytest.mark.parametrize("clients", [25, 100])
def test_what_a_cap_costs_at_its_worst_gap_grows_with_spread_and_horizon(clients: int) -> None:
    """M clients know a gap up to σ_c √(2/M): the worst one costs 0.24 σ_c T √M."""
    spread, horizon = 0.2, 10**5
    gap = 0.7518 * spread * math.sqrt(2 / clients)
    game = fb.Approximate(
        means=[0.5, 0.5 + gap], noise=fb.Gaussian(0.5), spread=fb.Gaussian(spread)
    )
    rule = fb.FedIndex(release=True)
    run = fb.simulate(
        game,
        rule,
        horizon=horizon,
        max_clients=clients,
        communication_cost=0.0,
        replications=800,
        seed=7,
        workers=1,
        warn=False,
    )
    total = run.games.total
    worst = 0.2404 * spread * horizon * math.sqrt(clients)
    # Clients are released when their pulls have told nine tenths of what they can.
    assert abs(total.mean() - worst) < 0.1 * worst + 4 * total.std() / math.sqrt(total.size)


@settings(deadline=None, derandomize=True, max_examples=100)
@given(seed=st.integers(0, 2**32 - 1), games=st.integers(1, 5), groups=st.integers(1, 4))
def test_a_batch_is_planned_as_its_members(seed: int, games: int, groups: int) -> None:
    rng = np.random.default_rng(seed)
    spread = float(rng.choice([0.0, 0.05, 0.3]))
    rule = index_rule(n_arms=4, spread=spread, release=bool(rng.integers(2)))
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
