"""Given clients that count by weights of their own: whose mean is estimated, and how surely."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.errors import InputError, ProtocolError
from fedbandits.experiments.bounds import bounds_of
from fedbandits.experiments.files import read_experiment
from fedbandits.problems import Problem
from fedbandits.problems.problem import best_arm, gaps
from fedbandits.protocol import Client, PhaseClosed, Server, Update, UpdateAccepted
from fedbandits.rules.algorithms import Algorithm
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.phased import PhasedRule
from fedbandits.rules.reports import Reports
from fedbandits.simulation import build_rules
from fedbandits.simulation.assumptions import doubts
from fedbandits.simulation.game import Game
from fedbandits.simulation.pulls import play_logged
from fedbandits.simulation.regret import make_grid
from rule_calls import width_of
from same_law import LEVEL, p_values

_rng = np.random.default_rng(5)
LOCAL = _rng.uniform(0.1, 0.9, (9, 4))
WEIGHTS = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 64.0]
SHARES = np.array(WEIGHTS) / 100
NORMAL = fb.Exact(local_means=LOCAL, noise=fb.Gaussian(0.5), weights=WEIGHTS)
COINS = fb.Exact(local_means=LOCAL, noise=fb.Bernoulli(), weights=WEIGHTS)
LISTS = [
    [[1 + (m * k + j) % 5 for j in range(1 + (m + k) % 4)] for k in range(4)] for m in range(9)
]
RATINGS = fb.Exact.from_observations(LISTS, weights=WEIGHTS)
ALL = fb.Fed1Ucb(pulls=10, radius=fb.CertifiedRadius(delta=0.05))


def simulate(problem: Problem, algorithm: Algorithm = ALL, **changes: Any) -> fb.Simulation:
    settings: dict[str, Any] = {"horizon": None, "replications": 20, "seed": 1, "workers": 1}
    return fb.simulate(problem, algorithm, **(settings | changes))


# Whose mean it is --------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", [NORMAL, COINS, RATINGS])
def test_means_gaps_and_the_best_arm_are_those_of_the_weighted_clients(problem: fb.Exact) -> None:
    wanted = [
        math.fsum(w * problem.table[m, k] for m, w in enumerate(WEIGHTS)) / 100 for k in range(4)
    ]
    assert problem.means == pytest.approx(wanted, rel=1e-14)
    assert gaps(problem) == pytest.approx(max(wanted) - np.array(wanted))
    assert best_arm(problem) == int(np.argmax(wanted))
    alone = problem.at_server()
    assert alone.weights is None
    assert alone.means == pytest.approx(wanted)


def test_one_player_who_observes_the_weighted_model_draws_from_the_weighted_lists() -> None:
    alone = RATINGS.at_server().noise
    assert isinstance(alone, fb.Empirical)
    assert alone.cell_means() == pytest.approx(RATINGS.means)
    assert alone.probabilities.sum(axis=1) == pytest.approx(1.0, abs=1e-15)
    run = simulate(RATINGS, fb.ImprovedUcb(), horizon=5_000)
    assert run.games.total.min() > 0


def test_weights_may_be_in_any_unit() -> None:
    tenfold = fb.Exact(
        local_means=LOCAL, noise=fb.Gaussian(0.5), weights=[8 * weight for weight in WEIGHTS]
    )
    assert tenfold.means.tobytes() == NORMAL.means.tobytes()
    assert simulate(tenfold).games.total.tobytes() == simulate(NORMAL).games.total.tobytes()


@pytest.mark.parametrize("fidelity", [None, "clients", "pulls"])
def test_equal_weights_are_no_weights_bit_for_bit(fidelity: str | None) -> None:
    for noise in (fb.Gaussian(0.5), fb.Bernoulli()):
        plain = fb.Exact(local_means=LOCAL, noise=noise)
        equal = fb.Exact(local_means=LOCAL, noise=noise, weights=[0.3] * 9)
        assert equal.weights is None
        assert equal.means.tobytes() == plain.means.tobytes()
        one, other = (
            simulate(problem, fidelity=fidelity, replications=5, max_phases=5, trace=True).games
            for problem in (plain, equal)
        )
        assert one.total.tobytes() == other.total.tobytes()
        assert one.trace is not None
        assert other.trace is not None
        assert one.trace.tobytes() == other.trace.tobytes()


@pytest.mark.parametrize(
    ("weights", "where", "words"),
    [
        ([1.0] * 8, "weights", "8 weights for 9 clients"),
        ([], "weights", "0 weights for 9 clients"),
        ([1.0] * 8 + [0.0], "weights[8]", "0 is not a positive number"),
        ([1.0] * 8 + [-1.0], "weights[8]", "-1 is not a positive number"),
        ([1.0] * 8 + [math.nan], "weights[8]", "nan is not a positive number"),
        ([math.inf] + [1.0] * 8, "weights[0]", "inf is not a positive number"),
    ],
)
def test_weights_that_are_none_are_refused(weights: list[float], where: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as raised:
        fb.Exact(local_means=LOCAL, noise=fb.Gaussian(0.5), weights=weights)
    assert raised.value.where == where


# The rule ----------------------------------------------------------------------------------------


def weighted_rule(**changes: Any) -> PhasedRule:
    told: dict[str, Any] = {
        "n_arms": 2,
        "horizon": None,
        "noise": 0.5,
        "spread": 0.3,
        "population": 3,
        "weighted": True,
        **changes,
    }
    return ALL.rule(Beliefs(**told))


def test_the_variance_is_that_of_the_weighted_mean_and_has_no_client_term() -> None:
    rule, counts, shares = weighted_rule(), np.array([10.0, 20.0, 40.0]), np.array([3.0, 1.0, 1.0])
    known = rule.estimate(Reports.planned(counts, shares=shares))
    brute = 0.25 * (0.6**2 / 10 + 0.2**2 / 20 + 0.2**2 / 40)
    assert float(known.pull_variance) == pytest.approx(brute)
    assert float(known.client_variance) == 0.0
    assert float(known.heaviest_pull) == pytest.approx(0.06)
    assert float(width_of(rule, phase=1, counts=counts, shares=shares)) == pytest.approx(
        math.sqrt(4 * brute * math.log(math.pi**2 / (6 * 0.05))) / 2
    )
    with pytest.raises(InputError, match="shares: are missing"):
        width_of(rule, phase=1, counts=counts)


@pytest.mark.parametrize(
    ("algorithm", "where", "words"),
    [
        (fb.Fed2Ucb(pulls=9, admissions=3), "algorithm", 'use "fed1-ucb"'),
        (fb.Fed1Ucb(pulls=9, clients=8), "clients", "8 of 9 clients, but clients with"),
        (fb.Centralized(clients=3), "clients", "must all play"),
        (fb.Fed1Ucb(pulls=9, radius=fb.PairedTRadius()), "radius.rule", "counts all clients the"),
    ],
)
def test_rules_that_do_not_take_all_clients_are_refused(
    algorithm: Algorithm, where: str, words: str
) -> None:
    with pytest.raises(InputError, match=words) as raised:
        simulate(NORMAL, algorithm, horizon=1_000)
    assert raised.value.where == f"variants[0].{where}"


def test_a_cap_that_leaves_clients_out_is_refused() -> None:
    with pytest.raises(InputError, match="8 of 9 clients, and they have weights") as raised:
        simulate(NORMAL, max_clients=8)
    assert raised.value.where == "variants[0].max_clients"
    assert simulate(NORMAL, max_clients=9).games.clients.tolist() == [9] * 20


def test_cohorts_are_not_valid_and_no_theorem_covers_weights() -> None:
    with pytest.raises(InputError, match="a cohort's average counts them the same"):
        simulate(NORMAL, fidelity="cohorts")
    variant = fb.Variant(label="a", problem=NORMAL, algorithm=fb.Fed1Ucb(pulls=10))
    (found,) = bounds_of(fb.Experiment(title="a", variants=[variant], horizon=10_000))
    assert found.reason == "the paper's proofs are about plain averages"
    ((rule, fidelity),) = build_rules([variant], 10_000)
    assert isinstance(rule, PhasedRule)
    assert fidelity.value == "clients"
    assert doubts(rule, NORMAL) == []


@pytest.mark.parametrize(
    "algorithm",
    [
        fb.Centralized(),
        fb.AuthorsBaseline(pulls=10),
        fb.ImprovedUcb(),
        fb.Ucb1(),
        fb.LocalUcb(),
        fb.Fed1Ucb(pulls=10),
        fb.Fed1Ucb(pulls=10, radius=fb.ChernoffRadius()),
        fb.Fed1Ucb(pulls=10, radius=fb.BernsteinRadius()),
    ],
)
def test_the_other_algorithms_play_for_the_weighted_mean(algorithm: Algorithm) -> None:
    run = simulate(COINS, algorithm, horizon=3_000, replications=3)
    # Regret is of the weighted means, and of all clients who play.
    clients = run.games.clients[0]
    assert run.games.exploration.max() <= 3_000 * clients * gaps(COINS).max() + 1e-6


# What is drawn -----------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", [NORMAL, COINS, RATINGS])
@pytest.mark.parametrize("fidelity", ["clients", "pulls"])
def test_estimates_are_unbiased_with_the_stated_variance(problem: fb.Exact, fidelity: str) -> None:
    replications = 800
    run = simulate(
        problem,
        replace(ALL, radius=fb.CertifiedRadius(delta=1e-9)),
        fidelity=fidelity,
        max_phases=1,
        replications=replications,
        trace=True,
    )
    assert run.games.trace is not None
    estimates = run.games.trace[0]
    error = estimates.std(axis=0, ddof=1) / math.sqrt(replications)
    assert (np.abs(estimates.mean(axis=0) - problem.means) <= 4 * error).all()
    # The plain average is far from it.
    assert (np.abs(problem.table.mean(axis=0) - problem.means) > 8 * error).any()
    if problem is NORMAL:
        wanted = 0.25 * float((SHARES**2).sum()) / 10
        ratio = estimates.var(axis=0, ddof=1).mean() / wanted
        assert abs(ratio - 1) < 4 * math.sqrt(2 / (4 * replications))


@pytest.mark.parametrize("problem", [NORMAL, pytest.param(COINS, marks=pytest.mark.slow)])
def test_fidelities_agree_on_weighted_clients(problem: fb.Exact) -> None:
    hasty = fb.Fed1Ucb(pulls=4, radius=fb.PaperRadius(arm=0.3))
    runs = [
        simulate(
            problem,
            hasty,
            horizon=4_000,
            fidelity=fidelity,
            seed=seed,
            max_phases=6,
            replications=replications,
            trace=True,
        ).games
        # As sure as 800 of both, and pull by pull a game costs the most.
        for fidelity, seed, replications in (("clients", 1, 4_000), ("pulls", 2, 450))
    ]
    found = p_values(*runs)
    assert min(found.values()) > LEVEL, found
    assert len(np.unique(runs[0].phases)) > 2


@pytest.mark.parametrize(
    ("weights", "rows"),
    [
        # Ties in the weighted mean, while arm 0 is ahead in the plain one.
        ([2.0, 1.0, 1.0], [[0.4, 0.6], [0.8, 0.2], [0.4, 0.6]]),
        ([0.9] + [0.1 / 9] * 9, [[0.49, 0.5]] + [[0.59, 0.5]] * 9),
    ],
)
@pytest.mark.parametrize("law", [fb.Gaussian(0.5), fb.Bernoulli()])
def test_the_best_arm_of_weighted_clients_is_lost_no_more_often_than_stated(
    weights: list[float], rows: list[list[float]], law: Any
) -> None:
    tie = fb.Exact(local_means=rows, noise=law, weights=weights)
    assert tie.means[0] == pytest.approx(tie.means[1], abs=1e-12)
    assert tie.table.mean(axis=0)[0] > tie.table.mean(axis=0)[1] + 0.05
    run = simulate(tie, replace(ALL, pulls=200), replications=1_000, max_phases=8)
    for arm in (0, 1):
        rate = float((run.games.winner == arm).mean())
        assert rate + 3 * math.sqrt(max(rate, 1e-3) / 1_000) <= 0.05
    # Who counts every client the same is sure of arm 0.
    plain = fb.Exact(local_means=rows, noise=law)
    sure = simulate(plain, replace(ALL, pulls=200), replications=50, max_phases=20)
    assert (sure.games.winner == 0).mean() > 0.9


def test_variances_may_be_estimated_for_weighted_clients() -> None:
    many = fb.Exact(
        local_means=np.tile(LOCAL[:, :2] + [0.0, 0.2], (3, 1)),
        noise=fb.Gaussian(0.5),
        weights=np.arange(1.0, 28.0),
    )
    for fidelity in ("clients", "pulls"):
        run = simulate(
            many,
            assume=fb.Assume(noise="estimate"),
            fidelity=fidelity,
            replications=5,
            max_phases=100,
        )
        assert (run.games.winner == best_arm(many)).all()


# The server --------------------------------------------------------------------------------------

BY_NAME = {"north": 3.0, "south": 1.0, "west": 1.0}


def plain_rule(**changes: Any) -> PhasedRule:
    return weighted_rule(weighted=False, **changes)


def play(server: Server, order: list[str], seed: int = 0) -> Server:
    """Play two phases with clients who draw by their names."""
    streams = {name: np.random.default_rng([seed, *name.encode()]) for name in order}

    def client(name: str) -> Client:
        return Client(name, lambda arm, n: streams[name].normal(0.5 + 0.001 * arm, 0.5, n))

    clients = [client(name) for name in order]
    for phase in range(2):
        assignment = server.open(order if phase == 0 else [])
        for each in clients:
            assert server.receive(each.play(assignment)) is None
        server.close()
    return server


def test_a_server_weights_clients_by_name_whatever_their_order() -> None:
    servers = [
        play(Server(plain_rule(), weights=BY_NAME), order)
        for order in (["north", "south", "west"], ["west", "north", "south"])
    ]
    for server in servers:
        decision = server.decision
        assert decision is not None
        sums = {name: np.zeros(2) for name in BY_NAME}
        for record in server.log:
            if isinstance(record, UpdateAccepted):
                sums[record.update.client] += 10 * np.array(record.update.means)
        brute = sum(weight / 5 * sums[name] / 20 for name, weight in BY_NAME.items())
        assert decision.estimates == pytest.approx(brute)
        variance = 0.25 * (0.36 + 0.04 + 0.04) / 20
        width = math.sqrt(4 * variance * math.log(4 * math.pi**2 / (6 * 0.05)))
        assert decision.widths == pytest.approx([width / 2] * 2)
    one, other = (server.decision for server in servers)
    assert one is not None
    assert other is not None
    assert one.estimates == pytest.approx(other.estimates, rel=1e-14)


def test_a_server_with_equal_weights_decides_as_one_without_bit_for_bit() -> None:
    order = list(BY_NAME)
    with_weights = play(Server(plain_rule(), weights=dict.fromkeys(order, 0.2)), order)
    without = play(Server(plain_rule()), order)
    assert with_weights.snapshot() == without.snapshot()
    assert with_weights.decision == without.decision


def test_a_replayed_server_has_the_state_of_the_live_one() -> None:
    live = play(Server(plain_rule(), weights=BY_NAME), list(BY_NAME))
    again = Server.replay(plain_rule(), live.log, weights=BY_NAME)
    assert again.snapshot() == live.snapshot()
    assert again.open([]) == live.open([])


def test_who_has_no_weight_is_not_admitted() -> None:
    for weights in (BY_NAME, dict.fromkeys(BY_NAME, 1.0)):
        server = Server(plain_rule(), weights=weights)
        with pytest.raises(ProtocolError, match='client "east" has no weight'):
            server.open(["north", "south", "east"])
        assert server.clients == ()
    server = Server(plain_rule(), weights=BY_NAME)
    with pytest.raises(ProtocolError, match="2 clients, but 3 have weights; all of them"):
        server.open(["north", "south"])
    assert server.open(["north", "west", "south"]).pulls == (10, 10)


@pytest.mark.parametrize(
    ("rule", "weights", "words"),
    [
        (plain_rule(), {"a": 1.0, "b": 2.0}, "2 weights for a rule of 3 clients"),
        (plain_rule(), {"a": 1.0, "b": 2.0, "c": 0.0}, 'of client "c" is 0.0, and not positive'),
        (plain_rule(), {"a": 1.0, "b": math.nan, "c": 1.0}, 'of client "b" is nan'),
        (weighted_rule(), None, "counts clients by weights; give them, by name"),
        (
            fb.Fed2Ucb(pulls=10, admissions=2).rule(
                Beliefs(n_arms=2, horizon=100, noise=0.5, spread=0.1)
            ),
            {"a": 1.0, "b": 2.0},
            "need all of them from the first phase on; use fed1-ucb",
        ),
        (
            fb.Fed1Ucb(pulls=10, clients=2, radius=fb.PairedTRadius(delta=0.1)).rule(
                Beliefs(n_arms=2, horizon=100, noise=0.5, spread=0.1)
            ),
            {"a": 1.0, "b": 2.0},
            "counts all clients the same",
        ),
    ],
)
def test_a_server_refuses_weights_that_its_rule_cannot_use(
    rule: PhasedRule, weights: dict[str, float] | None, words: str
) -> None:
    with pytest.raises(ProtocolError, match=words):
        Server(rule, weights=weights)


def test_simulated_clients_are_called_by_the_rows_that_their_weights_are_of() -> None:
    variant = fb.Variant(label="a", problem=NORMAL, algorithm=ALL, fidelity="pulls", max_phases=1)
    ((rule, _),) = build_rules([variant], None)
    assert isinstance(rule, PhasedRule)
    game = Game(
        problem=NORMAL,
        rule=rule,
        communication_cost=1.0,
        seed=1,
        grid=make_grid(None, 10),
        memory_limit=2**30,
    )
    server = play_logged(game, rule, 0)
    assert sorted(server.clients) == [str(row) for row in range(9)]
    assert list(server.clients) != sorted(server.clients)
    sent: dict[str, Update] = {
        record.update.client: record.update
        for record in server.log
        if isinstance(record, UpdateAccepted)
    }
    brute = sum(SHARES[row] * np.array(sent[str(row)].means) for row in range(9))
    (decision,) = [record.decision for record in server.log if isinstance(record, PhaseClosed)]
    assert decision.estimates == pytest.approx(brute)
    # Every client is who its name says: its means are around its own row.
    apart = np.array([np.array(sent[str(row)].means) - LOCAL[row] for row in range(9)])
    assert np.abs(apart).max() < 5 * 0.5 / math.sqrt(10)


# In files ----------------------------------------------------------------------------------------


def tables(**changes: Any) -> dict[str, Any]:
    return {
        "title": "demo",
        "horizon": 20_000,
        "replications": 3,
        "problem": {
            "model": "exact",
            "local_means": [[0.2, 0.9], [0.8, 0.3]],
            "noise": {"law": "gaussian", "sigma": 0.5},
            "client_weights": [1, 3.0],
            **changes,
        },
        "variants": [{"algorithm": "fed1-ucb", "pulls": 10}],
    }


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"goal": "min"},
        {
            "local_means": None,
            "noise": {"law": "empirical"},
            "observations": [[[1.0, 2.0], [3.0]], [[4.0], [0.0, 1.0]]],
        },
    ],
)
def test_a_file_gives_weights_and_the_summary_says_them(changes: dict[str, Any]) -> None:
    given = tables(**changes)
    given["problem"] = {key: value for key, value in given["problem"].items() if value is not None}
    experiment = read_experiment(given)
    problem = experiment.variants[0].problem
    assert isinstance(problem, fb.Exact)
    assert problem.means == pytest.approx((problem.table[0] + 3 * problem.table[1]) / 4)
    assert experiment.check() == ["clients"]
    summary = experiment.run(workers=1).summary()
    assert summary["spec"]["problem"]["client_weights"] == [1.0, 3.0]
    again = read_experiment(summary["spec"]).run(workers=1).summary()
    assert again["variants"][0]["regret"] == summary["variants"][0]["regret"]


@pytest.mark.parametrize(
    ("weights", "where", "words"),
    [
        ([1.0], "client_weights", "1 weights for 2 clients; give one per row"),
        ([1.0, 0.0], "client_weights[1]", "0 is not a positive number"),
        ([1.0, "3"], "client_weights[1]", "'3' is not a valid number"),
        ([1.0, True], "client_weights[1]", "True is not a valid number"),
        ("1, 3", "client_weights", "'1, 3' is not a valid list"),
    ],
)
def test_a_file_with_weights_that_are_none_names_the_key(
    weights: Any, where: str, words: str
) -> None:
    with pytest.raises(InputError, match=words) as raised:
        read_experiment(tables(client_weights=weights))
    assert raised.value.where == f"problem.{where}"


def test_weights_are_of_given_clients_alone() -> None:
    with pytest.raises(InputError, match="not a key") as raised:
        read_experiment(
            tables()
            | {
                "problem": {
                    "model": "approximate",
                    "means": [0.2, 0.8],
                    "noise": {"law": "gaussian", "sigma": 0.5},
                    "spread": {"law": "gaussian", "sigma": 0.1},
                    "client_weights": [1.0, 3.0],
                }
            }
        )
    assert raised.value.where == "problem.client_weights"
    by_and_by = tables() | {
        "variants": [{"algorithm": "fed2-ucb", "pulls": 10, "admissions": "2^p"}]
    }
    with pytest.raises(InputError, match="exact model from the start") as raised:
        read_experiment(by_and_by).check()
    assert raised.value.where == "variants[0].algorithm"
