"""What holds for every simulation: same numbers however the work is spread, caps, cuts, streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.problems import Problem
from fedbandits.rules.algorithms import Algorithm
from fedbandits.simulation import simulator, tasks
from fedbandits.simulation.game import PlayedGames
from fedbandits.simulation.streams import Purpose, Streams
from games import APPROXIMATE, exact_game

# Rules are played here on what they are not made for, too.
pytestmark = pytest.mark.filterwarnings("ignore::fedbandits.errors.AssumptionWarning")

TUNED = fb.PaperRadius(arm=0.5, client=0.5)
GAME = fb.Approximate(means=[0.2, 0.5, 0.6], noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.1))
COINS = fb.Approximate(means=[0.2, 0.5, 0.6], noise=fb.Bernoulli(), spread=fb.Beta(0.1))
GIVEN = fb.Exact(
    local_means=[[0.1, 0.7, 0.4], [0.6, 0.2, 0.8], [0.3, 0.5, 0.7]], noise=fb.Uniform(0.3)
)
DOUBLING = fb.Fed2Ucb(pulls=10, admissions="2^p", radius=TUNED)

SETTINGS = [
    pytest.param(GAME, DOUBLING, "cohorts", id="cohorts"),
    pytest.param(GAME, DOUBLING, "clients", id="clients"),
    pytest.param(GAME, DOUBLING, "pulls", id="pulls"),
    pytest.param(COINS, DOUBLING, "clients", id="bernoulli clients"),
    pytest.param(GIVEN, fb.Fed1Ucb(pulls=10), "pulls", id="uniform pulls"),
    pytest.param(GAME, fb.Ucb1(), None, id="ucb1"),
    pytest.param(COINS, fb.Thompson(), None, id="thompson"),
    pytest.param(GIVEN, fb.LocalUcb(), None, id="local-ucb"),
]


def play(
    problem: Problem,
    algorithm: Algorithm,
    fidelity: str | None,
    *,
    replications: int = 150,
    horizon: int = 2_000,
    workers: int = 1,
    memory_limit: int = 2**30,
    seed: int = 5,
) -> PlayedGames:
    return fb.simulate(
        problem,
        algorithm,
        horizon=horizon,
        replications=replications,
        seed=seed,
        fidelity=fidelity,
        workers=workers,
        memory_limit=memory_limit,
        grid_points=50,
    ).games


def assert_same(a: PlayedGames, b: PlayedGames) -> None:
    for field in fields(PlayedGames):
        if field.name not in ("trace", "breakpoints"):
            np.testing.assert_array_equal(
                getattr(a, field.name), getattr(b, field.name), field.name
            )


@pytest.mark.usefixtures("several_processes")
@pytest.mark.parametrize(("problem", "algorithm", "fidelity"), SETTINGS)
def test_one_worker_and_two_give_the_same_numbers(
    problem: Problem, algorithm: Algorithm, fidelity: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = play(problem, algorithm, fidelity)
    sizes = dict.fromkeys(tasks.PER_TASK, (1, 20))
    monkeypatch.setattr(simulator, "PER_TASK", sizes)
    assert_same(play(problem, algorithm, fidelity, workers=2), alone)


@pytest.mark.usefixtures("several_processes")
def test_what_is_left_after_a_second_is_played_on_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alone = play(GAME, DOUBLING, "cohorts")
    clock, on_processes, left = count(), tasks._on_processes, []

    def counted(there: Sequence[tasks.Task], workers: int) -> Iterator[Any]:
        left.append(len(there))
        return on_processes(there, workers)

    # Of 8 tasks two begin here: each look at the clock takes 0.2 s, and a task takes two looks.
    monkeypatch.setattr(tasks, "time", SimpleNamespace(perf_counter=lambda: 0.2 * next(clock)))
    monkeypatch.setattr(tasks, "_SERIAL_SECONDS", 1.0)
    monkeypatch.setattr(tasks, "_on_processes", counted)
    monkeypatch.setattr(simulator, "PER_TASK", dict.fromkeys(tasks.PER_TASK, (1, 20)))
    assert_same(play(GAME, DOUBLING, "cohorts", workers=2), alone)
    assert left == [6]


@pytest.mark.parametrize(("problem", "algorithm", "fidelity"), SETTINGS)
@pytest.mark.parametrize("at_once", [1, 7, 64])
def test_any_chunk_size_gives_the_same_numbers(
    problem: Problem,
    algorithm: Algorithm,
    fidelity: str | None,
    at_once: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = play(problem, algorithm, fidelity, replications=20)
    sizes = dict.fromkeys(tasks.PER_TASK, (1, at_once))
    monkeypatch.setattr(simulator, "PER_TASK", sizes)
    assert_same(play(problem, algorithm, fidelity, replications=20), whole)


@pytest.mark.parametrize("fidelity", ["cohorts", "clients"])
def test_a_small_memory_limit_splits_the_work_and_changes_no_number(fidelity: str) -> None:
    whole = play(GAME, DOUBLING, fidelity)
    limit = {"cohorts": 3_000, "clients": 40_000}[fidelity]
    assert_same(play(GAME, DOUBLING, fidelity, memory_limit=limit), whole)


def test_a_memory_limit_below_one_replication_is_an_error_that_says_so() -> None:
    with pytest.raises(fb.InputError, match=r"memory_limit: one replication with .* clients"):
        play(GAME, DOUBLING, "clients", memory_limit=500)


@pytest.mark.parametrize(("problem", "algorithm", "fidelity"), SETTINGS)
def test_more_replications_begin_with_the_same_ones(
    problem: Problem, algorithm: Algorithm, fidelity: str | None
) -> None:
    few = play(problem, algorithm, fidelity, replications=12)
    many = play(problem, algorithm, fidelity, replications=140)
    np.testing.assert_array_equal(few.total, many.total[:12])


def test_seeds_and_problem_names_change_the_numbers() -> None:
    renamed = fb.Approximate(means=GAME.means, noise=GAME.noise, spread=GAME.spread, name="another")
    base = play(GAME, DOUBLING, "clients").total
    assert (play(GAME, DOUBLING, "clients", seed=6).total != base).any()
    assert (play(renamed, DOUBLING, "clients").total != base).any()


@pytest.mark.parametrize("fidelity", ["cohorts", "clients"])
def test_variants_of_a_problem_share_their_draws(fidelity: str) -> None:
    """Common random numbers: regrets of two similar rules are correlated."""
    narrow = replace(DOUBLING, radius=fb.PaperRadius(arm=0.4, client=0.4))
    a, b = (play(GAME, algorithm, fidelity, replications=400) for algorithm in (DOUBLING, narrow))
    assert np.corrcoef(a.total, b.total)[0, 1] > 0.5
    shuffled = play(GAME, narrow, fidelity, replications=400, seed=99)
    assert abs(np.corrcoef(a.total, shuffled.total)[0, 1]) < 5 / np.sqrt(400)


def test_streams_are_keyed_by_every_part_of_their_key() -> None:
    streams = Streams(1, "problem")
    keys = [
        (purpose, replication, phase, arm)
        for purpose in Purpose
        for replication in range(3)
        for phase in range(3)
        for arm in range(3)
    ]
    draws = [
        streams.at(purpose, replication=r, phase=p, arm=k).standard_normal(4)
        for purpose, r, p, k in keys
    ]
    assert len({tuple(draw) for draw in draws}) == len(keys)
    again = streams.open(keys[0][0], replication=0, arm=0).standard_normal(4)
    np.testing.assert_array_equal(again, draws[0])


def test_neighbouring_streams_are_uncorrelated() -> None:
    streams = Streams(1, "problem")
    draws = np.array(
        [streams.at(Purpose.PHASE_SUMS, replication=r).standard_normal(500) for r in range(200)]
    )
    correlations = np.corrcoef(draws)[np.triu_indices(200, k=1)]
    assert abs(correlations.mean()) < 5 / np.sqrt(500 * correlations.size)
    assert abs((draws.mean(axis=1) * np.sqrt(500)).var() - 1) < 5 * np.sqrt(2 / 200)


def first_estimates(fidelity: str) -> list[float]:
    run = fb.simulate(
        GAME, DOUBLING, horizon=2_000, replications=1, seed=5, fidelity=fidelity, trace=True
    )
    assert run.games.trace is not None
    return [float(estimate) for estimate in run.games.trace[0, 0]]


# Made in this folder by: python -c "import test_simulation as t;
# print({f: t.first_estimates(f) for f in t.GOLDEN})"
# They are part of every published number: a change here must be meant.
GOLDEN: dict[str, list[float]] = {
    "cohorts": [0.10640057925160917, 0.5278519993210808, 0.505786347729963],
    "clients": [0.030398438014447346, 0.4306545244773673, 0.5689757635142204],
    "pulls": [0.18361723964815474, 0.3822058370009317, 0.8213781511956368],
}


@pytest.mark.parametrize("fidelity", list(GOLDEN))
def test_the_same_seed_gives_the_numbers_it_always_gave(fidelity: str) -> None:
    np.testing.assert_allclose(first_estimates(fidelity), GOLDEN[fidelity], rtol=1e-12)


@pytest.mark.parametrize("fidelity", ["cohorts", "clients", "pulls"])
def test_admissions_stop_at_the_cap_and_the_replication_is_marked(fidelity: str) -> None:
    tie = fb.Approximate(means=[0.5, 0.5], noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.1))
    run = fb.simulate(
        tie,
        fb.Fed2Ucb(pulls=10, admissions="2^p"),
        horizon=500,
        replications=5,
        fidelity=fidelity,
        max_clients=20,
    )
    assert run.games.capped.all()
    assert (run.games.clients == 20).all()
    # Phases of 20 slots go on after the cap, until the horizon.
    assert (run.games.phases == 25).all()
    assert (run.games.winner == -1).all()


@pytest.mark.parametrize("fidelity", ["cohorts", "clients", "pulls"])
def test_after_the_last_phase_the_best_estimate_is_played_on(fidelity: str) -> None:
    run = fb.simulate(
        GAME,
        fb.Fed1Ucb(pulls=500, clients=50, radius=fb.PaperRadius(arm=1e9)),
        horizon=10_000,
        replications=4,
        fidelity=fidelity,
        max_phases=1,
    )
    outcome = run.games
    assert outcome.capped.all()
    assert (outcome.winner == -1).all()
    # 50 clients, 500 pulls of gaps 0.4 and 0.1; then nothing more on the best arm.
    np.testing.assert_allclose(outcome.exploration, 50 * 500 * 0.5)


@pytest.mark.parametrize("fidelity", ["cohorts", "clients", "pulls"])
def test_a_phase_that_does_not_fit_is_played_up_to_the_horizon(fidelity: str) -> None:
    never = fb.PaperRadius(arm=1e9, client=1e9)
    run = fb.simulate(
        GAME,
        fb.Fed2Ucb(pulls=10, admissions="2", radius=never),
        horizon=75,
        replications=3,
        fidelity=fidelity,
        communication_cost=2.0,
    )
    outcome = run.games
    # Two phases of 30 slots with 2 and 4 clients; then 6 clients for 10 slots of arm 0, 5 of arm 1.
    assert (outcome.phases == 2).all()
    assert (outcome.clients == 6).all()
    assert (outcome.communication == 2.0 * (2 + 4)).all()
    np.testing.assert_allclose(outcome.exploration, (2 + 4) * 10 * 0.5 + 6 * (10 * 0.4 + 5 * 0.1))


@pytest.mark.parametrize("fidelity", ["cohorts", "clients", "pulls"])
def test_a_phase_that_ends_at_the_horizon_decides_and_pays(fidelity: str) -> None:
    sharp = fb.Approximate(means=[0.0, 1.0], noise=fb.Gaussian(0.01), spread=fb.Gaussian(0.01))
    run = fb.simulate(
        sharp, fb.Fed1Ucb(pulls=10, clients=2), horizon=20, replications=3, fidelity=fidelity
    )
    assert (run.games.winner == 1).all()
    assert (run.games.decision_slot == 20).all()
    assert (run.games.communication == 2.0).all()


@pytest.mark.parametrize("fidelity", ["cohorts", "clients", "pulls"])
def test_no_phase_follows_one_that_ends_with_the_last_slot(fidelity: str) -> None:
    tie = fb.Approximate(means=[0.5, 0.5], noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.1))
    run = fb.simulate(
        tie,
        # In phase 4 the admissions would not be a whole number: it must not be asked for.
        fb.Fed2Ucb(pulls=10, admissions="6/p"),
        horizon=60,
        replications=4,
        fidelity=fidelity,
    )
    assert (run.games.phases == 3).all()
    assert (run.games.clients == 6 + 3 + 2).all()
    assert (run.games.winner == -1).all()


def test_huge_schedules_stay_exact_and_do_not_fit() -> None:
    run = fb.simulate(
        GAME,
        fb.Fed2Ucb(pulls="2^(p*p)", admissions="2", radius=fb.PaperRadius(arm=1e9, client=1e9)),
        horizon=10**12,
        replications=2,
    )
    # 2^(p²) pulls: phases 1 to 6 fit into 10¹², the seventh (2^49 a pull) does not.
    assert (run.games.phases == 6).all()
    assert (run.games.clients == 14).all()


@pytest.mark.parametrize("fidelity", ["clients", "pulls"])
def test_a_finite_population_is_never_exceeded(fidelity: str) -> None:
    small = fb.Approximate(
        means=[0.5, 0.5], noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.1), population=11
    )
    run = fb.simulate(
        small,
        fb.Fed2Ucb(pulls=10, admissions="2^p"),
        horizon=400,
        replications=4,
        fidelity=fidelity,
    )
    assert (run.games.clients == 11).all()
    assert not run.games.capped.any()


def test_improved_ucb_and_the_baseline_play_the_global_model_alone() -> None:
    for algorithm in (fb.ImprovedUcb(), fb.AuthorsBaseline(pulls=50)):
        outcome = play(exact_game(5), algorithm, None, replications=20, horizon=10**5)
        assert (outcome.clients == 1).all()
        assert (outcome.communication == 0).all()


def test_ucb1_chooses_as_its_definition_says() -> None:
    """The driver against UCB1 in plain Python, fed with the same variates."""
    replications, horizon, sigma = 3, 300, 0.5
    outcome = play(GAME, fb.Ucb1(), None, replications=replications, horizon=horizon)
    streams = Streams(5, "problem")
    gaps = GAME.means.max() - GAME.means
    for replication in range(replications):
        variates = [
            streams.at(Purpose.SLOTS, phase=block).standard_normal((256, 128))[:, replication]
            for block in range(2)
        ]
        sums, counts, regret = [0.0] * 3, [0] * 3, 0.0
        for slot in range(1, horizon + 1):
            if slot <= 3:
                arm = slot - 1
            else:
                index = [
                    s / n + np.sqrt(8 * sigma**2 * np.log(slot) / n)
                    for s, n in zip(sums, counts, strict=True)
                ]
                arm = int(np.argmax(index))
            sums[arm] += GAME.means[arm] + sigma * variates[(slot - 1) // 256][(slot - 1) % 256]
            counts[arm] += 1
            regret += gaps[arm]
        assert regret == pytest.approx(outcome.exploration[replication], rel=1e-12)


def test_ucb1_stays_below_its_regret_bound() -> None:
    """Auer, Cesa-Bianchi and Fischer (2002), Theorem 1."""
    coins = fb.Exact(local_means=[[0.3, 0.5, 0.6]], noise=fb.Bernoulli())
    outcome = play(coins, fb.Ucb1(), None, replications=100, horizon=5_000)
    gaps = np.array([0.3, 0.1])
    bound = (8 * np.log(5_000) / gaps).sum() + (1 + np.pi**2 / 3) * gaps.sum()
    assert outcome.total.mean() < bound


def test_clients_alone_have_linear_regret_that_federation_removes() -> None:
    alone = play(exact_game(5), fb.LocalUcb(), None, replications=4, horizon=60_000)
    half = alone.exploration_curves[:, 24]
    # The second half of the horizon costs as much as the first: nobody learns the global arm.
    np.testing.assert_allclose(alone.exploration - half, half, rtol=0.1)
    together = play(exact_game(5), fb.Fed1Ucb(pulls=20, radius=TUNED), None, horizon=60_000)
    assert alone.exploration.mean() > 2 * together.total.mean()


def test_the_base_station_alone_settles_on_a_channel_that_is_not_the_best() -> None:
    city = fb.CognitiveRadio.example(n_channels=4, seed=2082)
    station = fb.CognitiveRadio(
        area=city.area,
        channels=city.channels,
        base_station=city.base_station,
        listener="base-station",
    )
    # In the example the best channel is the one that is busy where the base station stands.
    heard = fb.simulate(
        station, fb.Fed1Ucb(pulls=2_000, clients=1), horizon=10**6, replications=20
    ).games
    assert (heard.winner >= 0).all()
    assert (heard.winner != fb.best_arm(city)).all()


def test_breakpoints_are_where_the_curves_bend() -> None:
    run = fb.simulate(
        GAME, DOUBLING, horizon=2_000, replications=5, breakpoints=True, grid_points=2_000
    )
    for replication, points in enumerate(run.games.breakpoints):
        curve = run.games.exploration_curves[replication]
        inside = points.slot > 0
        np.testing.assert_allclose(points.exploration[inside], curve[points.slot[inside] - 1])
        assert points.slot[-1] == 2_000


def test_regret_on_the_grid_ends_with_the_totals() -> None:
    run = fb.simulate(APPROXIMATE, DOUBLING, horizon=10**5, replications=50)
    np.testing.assert_allclose(run.total_curves()[:, -1], run.games.total, rtol=1e-12)
    assert (np.diff(run.total_curves(), axis=1) >= -1e-9).all()


def test_a_cap_below_the_given_clients_is_simulated_client_by_client() -> None:
    """Some of the given clients do not average to the global means, so cohorts are not valid."""
    split = fb.Exact(
        local_means=[[0.0, 1.0], [0.0, 1.0], [3.0, 0.2], [3.0, 0.2], [0.0, 1.0]],
        noise=fb.Gaussian(0.5),
    )
    run = fb.simulate(
        split,
        fb.Fed1Ucb(pulls=50),
        horizon=10_000,
        replications=300,
        max_clients=2,
        max_phases=1,
        trace=True,
    )
    assert run.fidelity.value == "clients"
    assert run.games.capped.all()
    assert run.games.trace is not None
    # Averages of two of five: the clients' variance (divisor 4) times 1/2 - 1/5, and the noise.
    expected = np.var([0, 0, 3, 3, 0], ddof=1) * (1 / 2 - 1 / 5) + 0.25 / 100
    assert run.games.trace[0, :, 0].var() == pytest.approx(expected, rel=0.25)
    with pytest.raises(fb.InputError, match="needs all given clients"):
        fb.simulate(split, fb.Fed1Ucb(pulls=50), horizon=1_000, max_clients=2, fidelity="cohorts")


def test_a_range_that_outcomes_leave_ends_a_game_of_real_messages_with_its_key() -> None:
    rule = fb.Fed2Ucb(pulls=2, admissions=3, radius=fb.ChernoffRadius(range=(0.4, 0.5)))
    with pytest.raises(fb.InputError, match=r'outside the .* fidelity = "clients"') as raised:
        fb.simulate(GAME, rule, horizon=1000, replications=1, fidelity="pulls")
    assert raised.value.where == "variants[0].radius.range"
    fb.simulate(GAME, rule, horizon=1000, replications=1, fidelity="clients")


def test_slot_rules_keep_to_the_memory_limit() -> None:
    whole = play(GIVEN, fb.LocalUcb(), None, replications=40, horizon=300)
    split = play(GIVEN, fb.LocalUcb(), None, replications=40, horizon=300, memory_limit=60_000)
    assert_same(split, whole)
    with pytest.raises(fb.InputError, match="memory_limit: one replication with 10,000 clients"):
        play(GAME, fb.LocalUcb(clients=10_000), None, memory_limit=2**20, horizon=300)


def test_clients_who_play_alone_observe_apart_from_each_other() -> None:
    """Twins who shared their noise would make the same choices, and double each other's regret."""
    twins = fb.Exact(local_means=[[0.5, 0.6]] * 2, noise=fb.Gaussian(0.5))
    alone = play(twins, fb.Ucb1(), None, replications=400, horizon=500)
    both = play(twins, fb.LocalUcb(), None, replications=400, horizon=500)
    ratio = both.exploration.var() / alone.exploration.var()
    # 2 if they are independent, 4 if they are one.
    assert abs(ratio - 2) < 5 * 2 * np.sqrt(2 * 2 / 400)
    assert ratio < 3


@pytest.mark.parametrize("cap", ["max_clients", "max_phases"])
def test_slot_rules_refuse_caps_that_they_do_not_have(cap: str) -> None:
    settings: dict[str, Any] = {cap: 3}
    with pytest.raises(fb.InputError, match=f"{cap}: an algorithm that decides in every slot"):
        fb.simulate(GIVEN, fb.LocalUcb(), horizon=100, **settings)


def test_more_clients_at_once_than_a_fidelity_takes_is_an_error() -> None:
    with pytest.raises(fb.InputError, match="max_clients: 5,000,000 clients in the first phase"):
        fb.simulate(COINS, fb.Fed1Ucb(pulls=10, clients=5_000_000), horizon=1_000)


def test_cohorts_split_their_work_by_memory() -> None:
    told: list[int] = []
    settings: dict[str, Any] = {"horizon": 2_000, "replications": 150, "seed": 5, "workers": 1}
    roomy = fb.simulate(GAME, DOUBLING, fidelity="cohorts", **settings)
    narrow = fb.simulate(
        GAME,
        DOUBLING,
        fidelity="cohorts",
        memory_limit=3_000,
        progress=lambda _, done: told.append(done),
        **settings,
    )
    assert narrow.games.total.tolist() == roomy.games.total.tolist()
    assert sum(told) == 150
    assert max(told) < 80


@pytest.mark.usefixtures("several_processes")
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("algorithm", "bytes_of_a_mean"), [(DOUBLING, 24), (fb.FedIndex(), 80)], ids=["fed2", "index"]
)
def test_clients_that_do_not_fit_are_played_in_parts_and_each_part_is_told(
    workers: int, algorithm: Any, bytes_of_a_mean: int
) -> None:
    told: list[int] = []
    settings: dict[str, Any] = {"horizon": 2_000, "replications": 12, "seed": 3}
    roomy = fb.simulate(GAME, algorithm, fidelity="clients", workers=1, **settings)
    most = int(roomy.games.clients.max())
    narrow = fb.simulate(
        GAME,
        algorithm,
        fidelity="clients",
        workers=workers,
        # Room for one replication with all its clients, and for some with few.
        memory_limit=workers * bytes_of_a_mean * GAME.means.size * most,
        progress=lambda _, done: told.append(done),
        **settings,
    )
    assert narrow.games.total.tolist() == roomy.games.total.tolist()
    assert sum(told) == 12
    assert len(told) > 4


def test_a_population_that_does_not_fit_is_an_error_in_every_fidelity() -> None:
    crowd = fb.Approximate(
        means=[0.4, 0.6], noise=fb.Bernoulli(), spread=fb.Beta(0.1), population=10**9
    )
    settings: list[tuple[Algorithm, str | None]] = [
        (DOUBLING, "pulls"),
        (DOUBLING, "clients"),
        (fb.LocalUcb(clients=2), None),
    ]
    for algorithm, fidelity in settings:
        with pytest.raises(fb.InputError, match="memory_limit: "):
            play(crowd, algorithm, fidelity, replications=2, memory_limit=2**20)
