"""When and on what a game stops: without a horizon, within a tolerance, for the lowest mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import fedbandits as fb
from fedbandits.errors import InputError, ProtocolError
from fedbandits.experiments.files import read_experiment
from fedbandits.loopback import play
from fedbandits.privacy.sampling import seeded_noise
from fedbandits.problems.problem import best_arm, gap, gaps
from fedbandits.protocol import Answer, Client, PhaseClosed, Server, Update, answer_of
from fedbandits.protocol.messages import Reason
from fedbandits.rules.beliefs import Beliefs, Goal
from fedbandits.rules.guarantees import Assumption
from fedbandits.rules.phased import LONGEST_HORIZON, PhasedRule
from fedbandits.rules.reports import Reports
from fedbandits.simulation.game import Game
from fedbandits.simulation.pulls import play_logged
from fedbandits.simulation.regret import make_grid
from rule_calls import decided

# Rules are played here on what they are not made for, too.
pytestmark = pytest.mark.filterwarnings("ignore::fedbandits.errors.AssumptionWarning")

MEANS = [0.2, 0.5, 0.5, 0.9]


def game(**changes: Any) -> fb.Approximate:
    settings: dict[str, Any] = {
        "means": MEANS,
        "noise": fb.Gaussian(0.5),
        "spread": fb.Gaussian(0.05),
        **changes,
    }
    return fb.Approximate(**settings)


def certified(**changes: Any) -> fb.Fed2Ucb:
    settings: dict[str, Any] = {
        "pulls": 20,
        "admissions": "2^p",
        "radius": fb.CertifiedRadius(delta=0.05),
        **changes,
    }
    return fb.Fed2Ucb(**settings)


# No horizon --------------------------------------------------------------------------------------


@pytest.mark.parametrize("fidelity", ["cohorts", "clients", "pulls"])
def test_a_game_without_a_horizon_ends_with_its_decision(fidelity: str) -> None:
    run = fb.simulate(game(), certified(), horizon=None, replications=6, fidelity=fidelity, seed=1)
    outcome = run.games
    assert (outcome.winner == 3).all()
    assert (outcome.decision_slot > 0).all()
    # The curves end when the last game is over, and at what was played until then.
    assert run.grid[-1] >= outcome.decision_slot.max()
    assert run.grid[-2] < outcome.decision_slot.max()
    assert run.total_curves()[:, -1].tolist() == outcome.total.tolist()


def test_the_regret_of_a_right_decision_is_that_with_a_long_horizon() -> None:
    alone = fb.simulate(game(), certified(), horizon=None, replications=50, seed=2)
    followed = fb.simulate(game(), certified(), horizon=10**9, replications=50, seed=2)
    assert alone.games.winner.tolist() == followed.games.winner.tolist()
    assert (alone.games.winner == 3).all()
    assert alone.games.exploration.tolist() == followed.games.exploration.tolist()


def test_nothing_is_counted_after_a_wrong_decision_without_a_horizon() -> None:
    hasty = certified(radius=fb.CertifiedRadius(delta=0.999), pulls=1)
    problem = game(means=[0.5, 0.501])
    run = fb.simulate(problem, hasty, horizon=None, replications=400, max_phases=12, seed=3)
    wrong = run.games.winner == 0
    assert wrong.any()
    assert run.games.exploration[wrong].max() < LONGEST_HORIZON * 0.001 / 10**6


def test_a_game_that_does_not_get_decided_is_capped() -> None:
    tie = game(means=[0.5, 0.5])
    run = fb.simulate(tie, certified(), horizon=None, replications=5, max_phases=7, seed=1)
    undecided = run.games.winner < 0
    assert undecided.any()
    assert run.games.capped[undecided].all()
    assert (run.games.phases[undecided] == 7).all()


@pytest.mark.parametrize(
    ("algorithm", "where", "words"),
    [
        (fb.Fed2Ucb(pulls=10, admissions="2^p"), "horizon", "log T in its width"),
        (fb.Fed1Ucb(pulls=10, clients=5), "horizon", "log T in its width"),
        (
            certified(radius=fb.CertifiedRadius(), delta="1/T"),
            "variants[0].delta",
            "needs a horizon",
        ),
        (
            certified(radius=fb.CertifiedRadius(delta="2/T")),
            "variants[0].radius.delta",
            "needs a horizon",
        ),
        (certified(pulls="ceil(log(T))"), "variants[0].pulls", "no horizon"),
        (fb.Ucb1(), "horizon", "ucb1 needs one"),
        (fb.ImprovedUcb(), "horizon", "improved-ucb needs one"),
    ],
)
def test_what_needs_a_horizon_says_so(algorithm: Any, where: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as raised:
        fb.simulate(game(), algorithm, horizon=None, replications=1)
    assert raised.value.where == where


def test_the_grid_without_a_horizon_reaches_as_far_as_a_game_can() -> None:
    grid = make_grid(None, 400)
    assert grid[0] >= 1
    assert grid[-1] == LONGEST_HORIZON
    assert (np.diff(grid) > 0).all()


# Tolerance ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("fidelity", ["cohorts", "clients", "pulls"])
def test_two_arms_that_tie_are_settled_within_the_tolerance(fidelity: str) -> None:
    tie = game(means=[0.2, 0.9, 0.9])
    algorithm = certified(epsilon=0.1)
    run = fb.simulate(tie, algorithm, horizon=None, replications=8, fidelity=fidelity, seed=1)
    assert np.isin(run.games.winner, (1, 2)).all()


def test_a_server_says_that_it_stopped_within_the_tolerance() -> None:
    tie = game(means=[0.2, 0.9, 0.9], noise=fb.Gaussian(0.1), spread=fb.Gaussian(0.01))
    rule = certified(epsilon=0.1).rule(Beliefs(n_arms=3, horizon=None, noise=0.1, spread=0.01))
    played = Game(
        problem=tie,
        rule=rule,
        communication_cost=1.0,
        seed=1,
        grid=make_grid(None, 10),
        memory_limit=2**30,
    )
    server = play_logged(played, rule, 0)
    last = [record.decision for record in server.log if isinstance(record, PhaseClosed)][-1]
    assert last.reason is Reason.WITHIN_TOLERANCE
    assert sum(last.active) == 2
    assert last.winner == last.best
    assert server.finished


def test_a_tolerance_ends_games_sooner_and_never_changes_who_is_dropped() -> None:
    close = game(means=[0.2, 0.88, 0.9])
    exact, tolerant = (
        fb.simulate(close, certified(epsilon=e), horizon=None, replications=100, seed=4)
        for e in (0.0, 0.05)
    )
    assert (tolerant.games.phases <= exact.games.phases).all()
    assert tolerant.games.phases.mean() < exact.games.phases.mean()
    assert np.isin(tolerant.games.winner, (1, 2)).all()


# The answer --------------------------------------------------------------------------------------


def test_the_intervals_of_an_answer_hold_together_as_often_as_they_say() -> None:
    problem = game(means=[0.3, 0.6, 0.9], noise=fb.Gaussian(0.3), spread=fb.Gaussian(0.1))
    rule = certified(pulls=5).rule(Beliefs(n_arms=3, horizon=None, noise=0.3, spread=0.1))
    played = Game(
        problem=problem,
        rule=rule,
        communication_cost=1.0,
        seed=7,
        grid=make_grid(None, 10),
        memory_limit=2**30,
    )
    missed, games, narrowest = 0, 300, np.inf
    for replication in range(games):
        found = answer_of(play_logged(played, rule, replication), level=0.2)
        inside = [
            low <= mean <= high
            for (low, high), mean in zip(found.intervals.values(), problem.means, strict=True)
        ]
        missed += not all(inside)
        narrowest = min(narrowest, *(high - low for low, high in found.intervals.values()))
    assert stats.binomtest(missed, games, 0.2, alternative="greater").pvalue > 0.001
    # And they say something: the gap is 0.3.
    assert narrowest < 0.3


def test_an_answer_says_who_is_left_and_why_in_words() -> None:
    rule = certified(epsilon=0.1).rule(Beliefs(n_arms=2, horizon=None, noise=0.01, spread=0.001))
    server = Server(rule, arms=["old", "new"])
    with pytest.raises(ProtocolError, match="before the first phase"):
        answer_of(server)
    server.open(["a", "b"])
    for client in ("a", "b"):
        update = Update(
            header=server.header, phase=1, client=client, counts=(20, 20), means=(0.50, 0.501)
        )
        assert server.receive(update) is None
    server.close()
    found = answer_of(server, level=0.1)
    assert found.survivors == ("old", "new")
    assert found.winner == "new"
    words = found.words()
    assert "After 1 phase with 2 clients it is over" in words
    assert "differ by no more than the tolerance of 0.1." in words
    assert "with a probability of 90 %" in words
    assert (
        "Guarantee: drops the best option, or settles on one worse by more than 0.1, with a"
        " probability of at most 0.05, if, in addition," in words
    )
    assert found.whom == "future clients like these"
    assert "The answer is for future clients like these." in words
    log = np.log(2 * 2 * np.pi**2 / (6 * 0.1))
    width = np.sqrt(2 * log * (0.01**2 / 40 + 0.001**2 / 2))
    low, high = found.intervals["new"]
    assert (low, high) == pytest.approx((0.501 - width, 0.501 + width))
    with pytest.raises(InputError, match="between 0 and 1"):
        answer_of(server, level=1.0)


def test_the_width_of_an_interval_is_the_stated_one_in_every_phase_and_with_all_weights() -> None:
    counts = np.array([[60.0, 40.0, 20.0], [40.0, 20.0, 0.0]])
    for weights in ("equal", "inverse-variance"):
        rule = certified(weights=weights).rule(
            Beliefs(n_arms=5, horizon=None, noise=0.5, spread=0.1)
        )
        seen = Reports.planned(counts)
        for arm, row in enumerate(counts):
            inside = row[row > 0]
            variance = 0.1**2 + 0.5**2 / inside
            w = np.ones(inside.size) if weights == "equal" else 1 / variance
            v = (w**2 * variance).sum() / w.sum() ** 2
            for phase in (1, 3, 7):
                log = np.log(2 * 5 * np.pi**2 * phase**2 / (6 * 0.05))
                found = rule.interval_widths(0.05, phase=phase, reports=seen)[arm]
                assert found == pytest.approx(np.sqrt(2 * v * log))


def test_an_answer_by_paired_t_claims_no_more_than_it_may() -> None:
    radius = fb.PairedTRadius(delta=0.05, min_clients=2)
    rule = certified(radius=radius).rule(Beliefs(n_arms=2, horizon=50, noise=0.0, spread=0.0))
    server = Server(rule, arms=["old", "new"])
    server.open(["a", "b"])
    for client, means in (("a", (0.4, 0.5)), ("b", (0.6, 0.8))):
        update = Update(header=server.header, phase=1, client=client, counts=(20, 20), means=means)
        assert server.receive(update) is None
    server.close()
    found = answer_of(server)
    tail = 6 * 0.05 / (4 * np.pi**2)
    width = stats.t.isf(tail, 1) * np.sqrt(0.02 / 2)
    assert found.intervals["old"] == pytest.approx((0.5 - width, 0.5 + width))
    assert found.error.startswith("No error probability is stated")
    assert "nothing is proven" in found.words()


def test_an_answer_after_the_horizon_says_that_it_is_over() -> None:
    beliefs = Beliefs(n_arms=2, horizon=50, noise=0.5, spread=0.1)
    server = Server(certified().rule(beliefs), arms=["old", "new"])
    server.open(["a", "b"])
    assert answer_of_two(server, phase=1).reason is Reason.OPEN
    server.open(["c", "d"])
    assert server.finished
    found = answer_of(server)
    assert found.reason is Reason.HORIZON
    assert found.clients == 2


def test_an_answer_whose_budget_is_spent_says_so_and_that_outcomes_are_clipped() -> None:
    policy = fb.Privacy(range=(0, 2), noise="gaussian", rho=1.0, level="user", releases=1)
    rule = certified(epsilon=0.0).rule(Beliefs(n_arms=2, horizon=None, noise=0.5, spread=0.1))
    server = Server(rule, arms=["old", "new"], privacy=policy)
    rng = np.random.default_rng(5)
    clients = [
        Client(name, lambda arm, n: [0.5 + 0.01 * arm] * n, noise=seeded_noise(rng))
        for name in ("a", "b")
    ]
    play(server, lambda wanted: clients[:wanted])
    found = answer_of(server)
    assert found.reason is Reason.BUDGET
    words = found.words()
    assert "it is over: the clients' privacy budget is spent, and several options are left" in words
    assert "what lies outside [0, 2] is clipped: the answer is about clipped outcomes" in words


def test_an_answer_for_some_of_real_clients_says_what_they_must_be_like() -> None:
    for bounded in (False, True):
        told = Beliefs(
            n_arms=2, horizon=None, noise=0.5, spread=0.1, population=10, bounded=bounded
        )
        server = Server(certified().rule(told), arms=["old", "new"])
        server.open(["a", "b"])
        found = answer_of_two(server, phase=1)
        assert found.whom == "these 10 clients"
        assert (Assumption.LIKE_DRAWS.value in found.assumptions) == (not bounded)
        assert (Assumption.LIKE_DRAWS.value in str(found.error)) == (not bounded)


def answer_of_two(server: Server, phase: int) -> Answer:
    for client in ("a", "b"):
        update = Update(
            header=server.header, phase=phase, client=client, counts=(20, 20), means=(0.5, 0.51)
        )
        assert server.receive(update) is None
    server.close()
    return answer_of(server)


# The lowest mean ---------------------------------------------------------------------------------


def test_the_goal_decides_which_arm_is_best_and_what_the_others_cost() -> None:
    lowest = game(goal="min")
    assert best_arm(lowest) == 0
    assert gap(lowest) == pytest.approx(0.3)
    assert gaps(lowest).tolist() == pytest.approx([0.0, 0.3, 0.3, 0.7])
    assert best_arm(game()) == 3


@pytest.mark.parametrize("fidelity", ["cohorts", "clients", "pulls"])
@pytest.mark.parametrize(
    "radius",
    [
        fb.PaperRadius(),
        fb.JointRadius(),
        fb.PairwiseRadius(),
        fb.CertifiedRadius(),
        fb.BernsteinRadius(range=(-3, 4)),
        fb.ChernoffRadius(range=(-3, 4)),
    ],
    ids=lambda radius: str(radius.rule),
)
def test_the_lowest_mean_is_found(fidelity: str, radius: Any) -> None:
    problem = game(goal="min", noise=fb.Gaussian(0.2))
    algorithm = certified(radius=radius)
    run = fb.simulate(problem, algorithm, horizon=10**6, replications=3, fidelity=fidelity, seed=1)
    assert (run.games.winner == 0).all()


def test_paired_t_finds_the_lowest_mean() -> None:
    algorithm = certified(radius=fb.PairedTRadius(delta=0.01))
    run = fb.simulate(game(goal="min"), algorithm, horizon=10**6, replications=5, seed=1)
    assert (run.games.winner == 0).all()


@pytest.mark.parametrize("algorithm", [fb.Ucb1(), fb.ImprovedUcb(), fb.Fed1Ucb(pulls=9, clients=4)])
def test_every_algorithm_goes_for_the_lowest_mean(algorithm: Any) -> None:
    highest, lowest = (
        fb.simulate(problem, algorithm, horizon=3000, replications=40, seed=1).games
        for problem in (
            game(means=[0.0, 0.5, 1.0], spread=fb.Gaussian(0.0)),
            game(means=[1.0, 0.5, 0.0], spread=fb.Gaussian(0.0), goal="min"),
        )
    )
    # The two games mirror each other: their regrets have the same law.
    error = np.hypot(highest.total.std(), lowest.total.std()) / np.sqrt(40)
    assert abs(highest.total.mean() - lowest.total.mean()) <= 4.5 * error


def mirror(rule: PhasedRule) -> PhasedRule:
    """Return a rule for the negative outcomes."""
    limits = getattr(rule.radius, "range", None)
    if limits is None:
        return rule
    low, high = limits
    return replace(rule, radius=replace(rule.radius, **{"range": (-high, -low)}))


def test_deciding_is_symmetric_in_the_goal() -> None:
    rng = np.random.default_rng(5)
    estimates = rng.normal(size=(200, 6))
    active = rng.random((200, 6)) < 0.8
    active[:, 0] = True
    beliefs = Beliefs(n_arms=6, horizon=1000, noise=0.5, spread=0.1)
    clients = estimates[..., np.newaxis] + rng.normal(size=(200, 6, 40)) * 0.1
    rated = (fb.BernsteinRadius(range=(-4, 4)), fb.ChernoffRadius(range=(-5, 9)))
    plain = (fb.PaperRadius(), fb.CertifiedRadius(), fb.JointRadius(), fb.PairedTRadius())
    for radius in (*plain, *rated):
        rule = certified(radius=radius).rule(beliefs)
        counts = np.array([40.0, 20.0])
        sizes = np.array([2.0, 4.0])
        games: list[tuple[Goal, int, PhasedRule]] = [("max", 1, rule), ("min", -1, mirror(rule))]
        up, down = (
            decided(
                replace(mirrored, goal=goal),
                phase=2,
                active=active,
                estimates=sign * estimates,
                counts=counts,
                sizes=sizes,
                client_means=sign * clients,
            )
            for goal, sign, mirrored in games
        )
        assert up.active.tolist() == down.active.tolist()
        assert not up.active.all()


BOUNDED = [fb.BernsteinRadius(delta=0.01), fb.ChernoffRadius(delta=0.01)]


@pytest.mark.parametrize("radius", BOUNDED, ids=lambda radius: str(radius.rule))
def test_a_range_is_mirrored_with_the_goal(radius: Any) -> None:
    algorithm = fb.Fed1Ucb(pulls=20, radius=radius)
    phases = []
    games: list[tuple[Goal, list[float]]] = [("max", [0.8, 0.2]), ("min", [0.2, 0.8])]
    for goal, rates in games:
        problem = fb.Exact(local_means=[rates] * 20, noise=fb.Bernoulli(), goal=goal)
        run = fb.simulate(problem, algorithm, horizon=None, replications=100, max_phases=50)
        assert (run.games.winner == 0).all()
        phases.append(run.games.phases.mean())
    assert phases[0] == pytest.approx(phases[1], rel=0.2)


@pytest.mark.parametrize("radius", BOUNDED, ids=lambda radius: str(radius.rule))
def test_equal_rates_stay_open_whatever_the_goal(radius: Any) -> None:
    tie = fb.Exact(local_means=[[0.5, 0.5]] * 20, noise=fb.Bernoulli(), goal="min")
    algorithm = fb.Fed1Ucb(pulls=20, radius=radius)
    run = fb.simulate(tie, algorithm, horizon=None, replications=400, max_phases=8, seed=1)
    decided = int((run.games.winner >= 0).sum())
    # Either of two arms may be lost, each with probability 0.01 at most.
    assert stats.binomtest(decided, 400, 0.02, alternative="greater").pvalue > 0.001


# Whom the answer is for --------------------------------------------------------------------------


def test_a_finite_population_that_is_a_sample_itself_leaves_more_open() -> None:
    beliefs = Beliefs(n_arms=4, horizon=None, noise=0.5, spread=0.1, population=100)
    for target, share in (("clients", 1 / 50 - 1 / 100), ("population", 1 / 50)):
        rule = certified(target=target).rule(beliefs)
        everything = fb.CertifiedRadius(delta=0.05).half_widths
        planned = Reports.planned([10.0], [50.0])
        known = rule._known(1, np.ones(4, bool), rule.estimate(planned))
        assert float(known.estimate.client_variance) == pytest.approx(0.01 * share)
        assert everything(known) == pytest.approx(rule.width(phase=1, reports=planned))


def test_inverse_variance_weights_are_refused_where_clients_count_the_same() -> None:
    finite = game(population=50)
    with pytest.raises(InputError, match="all count the same"):
        fb.simulate(finite, certified(weights="inverse-variance"), horizon=1000)
    run = fb.simulate(
        finite,
        certified(weights="inverse-variance", target="population"),
        horizon=10**5,
        replications=4,
    )
    assert run.games.clients.max() <= 50
    with pytest.raises(InputError, match="unlimited"):
        fb.simulate(game(), certified(target="clients"), horizon=1000)


def test_paired_t_decides_nothing_from_differences_that_are_all_alike() -> None:
    rare = fb.Exact(local_means=[[1e-4, 2e-3]] * 40, noise=fb.Bernoulli())
    algorithm = fb.Fed1Ucb(pulls=1, radius=fb.PairedTRadius(delta=0.05))
    run = fb.simulate(rare, algorithm, horizon=None, replications=300, max_phases=3, seed=1)
    assert (run.games.winner == 0).mean() < 0.05


def test_weights_that_a_width_does_not_fit_are_refused() -> None:
    algorithm = certified(radius=fb.PairedTRadius(), weights="inverse-variance")
    with pytest.raises(InputError, match="plain average"):
        fb.simulate(game(), algorithm, horizon=1000)


def test_clients_without_noise_and_spread_weigh_the_same() -> None:
    quiet = game(noise=fb.Gaussian(0.0), spread=fb.Gaussian(0.0))
    run = fb.simulate(
        quiet, certified(weights="inverse-variance"), horizon=None, replications=3, seed=1
    )
    assert (run.games.winner == 3).all()


# In files ----------------------------------------------------------------------------------------


def test_a_file_says_goal_delta_tolerance_and_no_horizon() -> None:
    tables: dict[str, Any] = {
        "title": "demo",
        "replications": 3,
        "problem": {
            "model": "approximate",
            "goal": "min",
            "means": MEANS,
            "noise": {"law": "gaussian", "sigma": 0.2},
            "spread": {"law": "gaussian", "sigma": 0.02},
        },
        "variants": [
            {
                "algorithm": "fed2-ucb",
                "pulls": "20",
                "admissions": "2^p",
                "radius": {"rule": "certified", "dependence": "any"},
                "delta": 0.1,
                "epsilon": 0.01,
                "weights": "inverse-variance",
                "target": "population",
            }
        ],
    }
    experiment = read_experiment(tables)
    summary = experiment.run(workers=1).summary()
    assert summary["variants"][0]["best_arm_rate"] == 1.0
    assert "horizon" not in summary["spec"]
    again = read_experiment(summary["spec"])
    assert (
        again.run(workers=1).summary()["variants"][0]["regret"]
        == (summary["variants"][0]["regret"])
    )
    tables["problem"]["goal"] = "least"
    with pytest.raises(InputError, match="'least' is not known; known: max, min") as raised:
        read_experiment(tables)
    assert raised.value.where == "problem.goal"


@pytest.mark.parametrize(
    ("radius", "where", "words"),
    [
        ({"rule": "certifed"}, "radius.rule", "certified"),
        ({"rule": "certified", "delta": 2.0}, "radius.delta", "between 0 and 1"),
        ({"rule": "certified", "delta": "p/T"}, "radius.delta", "depends on the phase"),
        ({"rule": "bernstein", "range": [1.0, 0.0]}, "radius.range", "lower end first"),
        ({"rule": "paired-t", "min_clients": 1}, "radius.min_clients", "from 2 to"),
        ({"rule": "pairwise", "dependence": "some"}, "radius.dependence", "independent"),
        ({"rule": "joint", "arm": 6.0}, "radius.arm", "not a key"),
    ],
)
def test_a_radius_that_cannot_be_is_refused_by_its_key(
    radius: dict[str, Any], where: str, words: str
) -> None:
    tables = {
        "title": "demo",
        "horizon": 1000,
        "problem": {
            "model": "approximate",
            "means": MEANS,
            "noise": {"law": "gaussian", "sigma": 0.2},
            "spread": {"law": "gaussian", "sigma": 0.02},
        },
        "variants": [
            {"algorithm": "fed2-ucb", "pulls": "20", "admissions": "2^p", "radius": radius}
        ],
    }
    with pytest.raises(InputError, match=words) as raised:
        read_experiment(tables)
    assert raised.value.where == f"variants[0].{where}"


@pytest.mark.parametrize(
    ("make", "where"),
    [
        (lambda: certified(target="client"), "target"),
        (lambda: certified(weights="inverse"), "weights"),
        (lambda: fb.CertifiedRadius(delta=float("nan")), "delta"),
        (lambda: fb.CertifiedRadius(delta=True), "delta"),
        (lambda: fb.CertifiedRadius(delta=-0.1), "delta"),
        (lambda: Beliefs(n_arms=1, horizon=9, noise=0.1, spread=0.1), "n_arms"),
        (lambda: Beliefs(n_arms=2, horizon=-3, noise=0.1, spread=0.1), "horizon"),
        (lambda: Beliefs(n_arms=2, horizon=9, noise=float("nan"), spread=0.1), "noise"),
        (lambda: Beliefs(n_arms=2, horizon=9, noise=0.1, spread=-1.0), "spread"),
        (lambda: Beliefs(n_arms=2, horizon=9, noise=0.1, spread=0.1, population=0), "population"),
    ],
)
def test_what_cannot_be_is_refused_in_python_too(make: Any, where: str) -> None:
    with pytest.raises(InputError) as raised:
        make()
    assert raised.value.where == where
