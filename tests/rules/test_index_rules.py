"""Index rules: widths, drivers, when they commit, what they promise, and what that costs."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

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
from fedbandits.rules.index_rules import IndexRule
from fedbandits.rules.radii import Index, IndexRadius
from fedbandits.rules.radii.known import example_statistics
from fedbandits.simulation.game import PlayedGames
from fedbandits.theory.index_regret import index_regret_bound, low_index_bound
from games import APPROXIMATE, exact_game
from known_states import Seen, index_rule, planned
from rule_calls import changed

LEVEL = 1e-4
"""As in the tests of fidelities: with these seeds no p-value is below."""


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
    if commit == "index":  # else an arm challenges until a test is passed
        assert (reach >= ahead - 1e-12)[challengers].all()


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
