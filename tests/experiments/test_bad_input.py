"""Wrong types, two keys that contradict each other, and σ and σ_c that nobody needs to know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.errors import InputError
from fedbandits.experiments.describe import describe_experiment
from fedbandits.experiments.files import read_experiment
from fedbandits.loopback import play
from fedbandits.planning.question import Question
from fedbandits.protocol import Client, Server, answer_of
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.levels import SMALLEST_LEVEL, as_level
from fedbandits.rules.reports import Reports
from rule_calls import decided, width_of

# Wrong types -------------------------------------------------------------------------------------


def fed2(**keys: Any) -> fb.Fed2Ucb:
    return fb.Fed2Ucb(**{"pulls": 10, "admissions": 2, **keys})


def fed1(**keys: Any) -> fb.Fed1Ucb:
    return fb.Fed1Ucb(**{"pulls": 10, "clients": 3, **keys})


def beliefs(**keys: Any) -> Beliefs:
    return Beliefs(**{"n_arms": 2, "horizon": 1000, "noise": 0.1, "spread": 0.1, **keys})


def question(**keys: Any) -> Question:
    return Question(**{"means": (0.5, 0.4), "noise": 0.5, "spread": 0.1, **keys})


def plan(**keys: Any) -> object:
    return fb.plan(**{"n_arms": 2, "gap": 0.1, "noise": 0.5, "spread": 0.1, **keys})


def planned_means(means: Any) -> object:
    return fb.plan(means=means, noise=0.5, spread=0.1)


def server(weights: Any) -> Server:
    return Server(fed1().rule(beliefs()), weights=weights)


ANY: Any = "x"
HALF: Any = 2.5
LIST: Any = [0.1]
JOINT: Any = fb.JointRadius()

WRONG: list[tuple[Callable[[], object], str, str]] = [
    (lambda: fed2(epsilon="x"), "epsilon", "'x' is not a number"),
    (lambda: fed2(epsilon=None), "epsilon", "None is not a number"),
    (lambda: fed2(epsilon=True), "epsilon", "True is not a number"),
    (lambda: fed2(delta=[0.1], radius=fb.CertifiedRadius()), "delta", r"\[0.1\] is not a number"),
    (lambda: fed2(radius="paper"), "radius", "'paper' is not a radius such as"),
    (lambda: fed2(radius=fb.PaperRadius), "radius", "is not a radius such as"),
    (lambda: fed2(weights=["equal"]), "weights", "is not known"),
    (lambda: fed1(epsilon="x"), "epsilon", "'x' is not a number"),
    (lambda: fed1(weights="some"), "weights", "is not known"),
    (lambda: fed1(target="all"), "target", "is not known"),
    (lambda: fed1(radius=5), "radius", "5 is not a radius"),
    (lambda: fed1(clients="x"), "clients", "'x' is not a whole number"),
    (lambda: fed1(clients=2.5), "clients", "2.5 is not a whole number"),
    (lambda: fb.LocalUcb(clients=HALF), "clients", "2.5 is not a whole number"),
    (lambda: fb.Centralized(clients=ANY), "clients", "'x' is not a whole number"),
    (lambda: fb.Centralized(communicate=ANY), "communicate", "'x' is not known"),
    (lambda: fb.Centralized(radius=ANY), "radius", "'x' is not a radius"),
    (
        lambda: fb.AuthorsBaseline(pulls=1, radius=JOINT),
        "radius.rule",
        'this one takes "paper"',
    ),
    (lambda: fb.PaperRadius(arm=ANY), "arm", "'x' is not a number"),
    (lambda: fb.CertifiedRadius(delta=LIST), "delta", "is not a number between"),
    (lambda: fb.BernsteinRadius(range=ANY), "range", "'x' is not a pair of finite numbers"),
    (lambda: fb.PairedTRadius(min_clients=ANY), "min_clients", "'x' is not a whole number"),
    (lambda: fb.PairedTRadius(min_clients=HALF), "min_clients", "2.5 is not a whole number"),
    (lambda: beliefs(noise="x"), "noise", "'x' is not a number"),
    (lambda: beliefs(spread=[0.1]), "spread", "is not a number"),
    (lambda: beliefs(n_arms=None), "n_arms", "None is not a whole number from 2"),
    (lambda: beliefs(horizon=True), "horizon", "True is not a whole number"),
    (lambda: beliefs(population="x"), "population", "'x' is not a whole number"),
    (lambda: beliefs(min_clients="x"), "min_clients", "'x' is not a whole number"),
    (lambda: beliefs(min_clients=2.5), "min_clients", "2.5 is not a whole number"),
    (lambda: beliefs(min_clients=1), "min_clients", "1 is not a whole number from 2"),
    (lambda: question(means="ab"), "means", "'ab' is not a list of numbers"),
    (lambda: question(means=(0.5, "x")), "means[1]", "'x' is not a number"),
    (lambda: question(delta="x"), "delta", "'x' is not a number"),
    (lambda: question(population=2.5), "clients", "2.5 is not a whole number"),
    (lambda: question(horizon="x"), "horizon", "'x' is not a whole number"),
    (lambda: question(communication_cost="x"), "cost", "'x' is not a number"),
    (lambda: Question(means=ANY, noise=0.5, spread=0.1), "means", "'x' is not a list"),
    (lambda: plan(n_arms=2.5), "arms", "2.5 is not a whole number"),
    (lambda: plan(gap="x"), "gap", "'x' is not a number"),
    (lambda: plan(noise="x"), "noise", "'x' is not a number"),
    (lambda: plan(clients="x"), "clients", "'x' is not a whole number"),
    (lambda: plan(horizon="x"), "horizon", "'x' is not a whole number"),
    (lambda: plan(delta="x"), "delta", "'x' is not a number"),
    (lambda: plan(replications="x"), "replications", "'x' is not a whole number"),
    (lambda: plan(seed=0.5), "seed", "0.5 is not a whole number"),
    (lambda: plan(workers="x"), "workers", "'x' is not a whole number"),
    (lambda: planned_means(5), "means", "5 is not a list of numbers"),
    (lambda: planned_means([0.5, None]), "means[1]", "None is not a number"),
    (lambda: server({"a": "x"}), 'weights["a"]', "'x' is not a number"),
    (lambda: server([1.0, 2.0]), "weights", "is not a mapping such as"),
]


@pytest.mark.parametrize(("call", "where", "words"), WRONG)
def test_a_value_of_the_wrong_type_is_named(
    call: Callable[[], object], where: str, words: str
) -> None:
    with pytest.raises(InputError, match=words) as raised:
        call()
    assert raised.value.where == where


@pytest.mark.parametrize("radius", [fb.BernsteinRadius, fb.ChernoffRadius])
@pytest.mark.parametrize("limits", [5, None, "01", [0], [0, 1, 2], ["a", "b"], [0, float("inf")]])
def test_a_range_is_a_pair_of_numbers(radius: Any, limits: Any) -> None:
    with pytest.raises(
        InputError, match=r"is not a pair of finite numbers such as \[0, 1\]"
    ) as raised:
        radius(range=limits)
    assert raised.value.where == "range"


def test_numbers_of_numpy_are_numbers() -> None:
    told = beliefs(n_arms=np.int64(3), horizon=np.int64(1000), noise=np.float64(0.5))
    assert type(told.n_arms) is type(told.horizon) is int
    limits: Any = np.array([0, 1])
    assert fb.BernsteinRadius(range=limits).range == (0.0, 1.0)
    assert fed2(epsilon=np.float64(0.1)).rule(told).epsilon == 0.1
    assert str(as_level(np.float64(0.05))) == "0.05"
    means: Any = np.array([0.5, 0.75])
    assert Question(means=means, noise=0.5, spread=0.1).means == (0.5, 0.75)


# Levels ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delta", "words"),
    [
        ("1/0", '^delta: "1/0" divides by zero$'),
        ("10^400", "^delta: .* between 0 and 1$"),
        ("10^-400", "^delta: .* between 0 and 1$"),
        ("1/p", "^delta: .* depends on the phase"),
        ("1+", "^delta: "),
    ],
)
@pytest.mark.parametrize(
    "radius", [fb.CertifiedRadius, fb.PairedTRadius, fb.BernsteinRadius, fb.ChernoffRadius]
)
def test_a_level_that_is_none_names_its_key(radius: Any, delta: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        radius(delta=delta)


def test_a_level_names_the_key_that_it_stands_under() -> None:
    with pytest.raises(InputError, match=r'^level: "1/0" divides by zero$'):
        as_level("1/0", "level")


def test_a_level_that_is_none_for_the_horizon_says_which() -> None:
    with pytest.raises(InputError, match=r'^radius\.delta: "9/T" for T = 5 is not an error'):
        fed2(radius=fb.CertifiedRadius(delta="9/T")).rule(beliefs(horizon=5))


def test_a_level_names_its_key_where_the_horizon_divides_by_zero() -> None:
    tables = file_with(
        algorithm="fed2-ucb", admissions=2, delta="1/(T-1000)", radius={"rule": "certified"}
    )
    with pytest.raises(InputError, match="divides by zero") as raised:
        read_experiment(tables).check()
    assert raised.value.where == "variants[0].delta"
    del tables["variants"][0]["delta"]
    tables["variants"][0]["radius"]["delta"] = "1/(T-1000)"
    with pytest.raises(InputError, match="divides by zero") as raised:
        read_experiment(tables).check()
    assert raised.value.where == "variants[0].radius.delta"


@pytest.mark.parametrize("delta", [1e-320, 1e-201, "T^-100"])
@pytest.mark.parametrize(
    "radius", [fb.CertifiedRadius, fb.PairedTRadius, fb.BernsteinRadius, fb.ChernoffRadius]
)
def test_a_level_that_leaves_floating_point_is_refused(radius: Any, delta: Any) -> None:
    with pytest.raises(InputError, match=r"^(radius\.)?delta: .* 1e-200 is the smallest"):
        fed2(radius=radius(delta=delta)).rule(beliefs())


@pytest.mark.parametrize(
    "radius", [fb.CertifiedRadius, fb.PairedTRadius, fb.BernsteinRadius, fb.ChernoffRadius]
)
def test_the_smallest_level_has_finite_widths_in_the_last_of_many_phases(radius: Any) -> None:
    few = {"min_clients": 2} if radius is fb.PairedTRadius else {}
    rule = fed2(radius=radius(delta=SMALLEST_LEVEL, **few)).rule(beliefs(n_arms=1000))
    verdict = decided(
        rule,
        phase=10**6,
        active=np.ones(1000, dtype=np.bool_),
        estimates=np.linspace(0.0, 1.0, 1000),
        counts=np.full((1000, 2), 10.0),
        client_means=np.linspace(0.0, 1.0, 1000)[:, np.newaxis] * [0.9, 1.1],
    )
    assert np.isfinite(verdict.widths).all()
    assert (verdict.widths >= 0).all()


def file_with(horizon: int | None = 1000, **keys: Any) -> dict[str, Any]:
    return {
        "title": "demo",
        **({} if horizon is None else {"horizon": horizon}),
        "problem": {
            "model": "approximate",
            "means": [0.5, 0.9],
            "noise": {"law": "gaussian", "sigma": 0.5},
            "spread": {"law": "gaussian", "sigma": 0.1},
        },
        "variants": [{"pulls": 10, **keys}],
    }


FEDERATED = [
    {"algorithm": "fed2-ucb", "admissions": "2^p"},
    {"algorithm": "fed1-ucb", "clients": 5},
]


@pytest.mark.parametrize("algorithm", FEDERATED)
@pytest.mark.parametrize(
    ("key", "one", "own", "words"),
    [
        ("delta", 0.1, 0.05, "0.1, and radius.delta is 0.05; give one of the two"),
        # The default, but written.
        ("delta", 0.1, "1/T", "0.1, and radius.delta is 1/T; give one of the two"),
        ("delta", "1/T", 0.05, "1/T, and radius.delta is 0.05"),
        ("delta", "1/T", "2/T", "1/T, and radius.delta is 2/T"),
        ("dependence", "any", "independent", "any, and radius.dependence is independent"),
        ("dependence", "independent", "any", "independent, and radius.dependence is any"),
    ],
)
def test_a_variant_and_its_radius_must_not_contradict_each_other(
    algorithm: dict[str, Any], key: str, one: Any, own: Any, words: str
) -> None:
    tables = file_with(**algorithm, **{key: one}, radius={"rule": "certified", key: own})
    with pytest.raises(InputError, match=words) as raised:
        read_experiment(tables)
    assert raised.value.where == f"variants[0].{key}"


@pytest.mark.parametrize("algorithm", FEDERATED)
@pytest.mark.parametrize(
    ("one", "own"), [(0.05, 0.05), (0.05, "0.05"), ("1/20", 0.05), ("1/T", "1 / T")]
)
def test_the_same_level_twice_is_fine(algorithm: dict[str, Any], one: Any, own: Any) -> None:
    tables = file_with(**algorithm, delta=one, radius={"rule": "certified", "delta": own})
    experiment = read_experiment(tables)
    experiment.check()
    # As it is described, it is written twice.
    again = read_experiment(describe_experiment(experiment))
    assert again.variants[0].algorithm == experiment.variants[0].algorithm


@pytest.mark.parametrize("make", [fed1, fed2])
def test_in_python_only_a_default_is_replaced(make: Callable[..., Any]) -> None:
    made = make(delta=0.1, radius=fb.CertifiedRadius(dependence="any"))
    assert made.radius == fb.CertifiedRadius(delta=0.1, dependence="any")
    assert replace(made, epsilon=0.1).radius == made.radius
    with pytest.raises(InputError, match=r"^delta: 0\.1, and radius\.delta is 0\.05"):
        make(delta=0.1, radius=fb.CertifiedRadius(delta=0.05))


@pytest.mark.parametrize("algorithm", FEDERATED)
@pytest.mark.parametrize(
    ("keys", "where"),
    [
        ({"radius": {"rule": "certified", "delta": "1/T"}}, "variants[0].radius.delta"),
        ({"radius": {"rule": "certified"}}, "variants[0].radius.delta"),
        ({"radius": {"rule": "certified"}, "delta": "1/T"}, "variants[0].delta"),
        ({"radius": {"rule": "paper"}}, "horizon"),
    ],
)
def test_a_missing_horizon_names_the_key_that_needs_it(
    algorithm: dict[str, Any], keys: dict[str, Any], where: str
) -> None:
    with pytest.raises(InputError, match="horizon") as raised:
        read_experiment(file_with(None, **algorithm, **keys)).check()
    assert raised.value.where == where


# σ and σ_c that nobody needs ---------------------------------------------------------------------


def told_nothing(**keys: Any) -> Beliefs:
    return beliefs(**{"n_arms": 3, "horizon": None, "noise": None, "spread": None, **keys})


def clients_around(means: list[float], n: int) -> list[Client]:
    rng = np.random.default_rng(3)

    def client(number: int) -> Client:
        local = rng.normal(means, 0.05)
        own = np.random.default_rng([4, number])
        return Client(f"c{number}", lambda arm, n: own.normal(local[arm], 0.1, n).tolist())

    return [client(number) for number in range(n)]


def admitting(waiting: list[Client]) -> Callable[[int], list[Client]]:
    return lambda wanted: [waiting.pop(0) for _ in range(wanted)]


@pytest.mark.parametrize("goal", ["max", "min"])
@pytest.mark.parametrize("make", [fed1, fed2])
def test_a_paired_t_game_needs_neither_noise_nor_spread(
    make: Callable[..., Any], goal: str
) -> None:
    radius = fb.PairedTRadius(delta=0.05, min_clients=5)
    # Fewer than estimating would take: nothing is estimated.
    size = {"clients": 8} if make is fed1 else {"admissions": 8}
    algorithm = make(radius=radius, **size)
    rules = [
        algorithm.rule(told_nothing(goal=goal)),
        algorithm.rule(told_nothing(goal=goal, noise=0.1, spread=0.05)),
    ]
    decisions = []
    for rule in rules:
        assert not rule.needs_squares
        assert not rule.needs_components
        live = Server(rule)
        assert not live.terms.release.squares
        decisions.append(play(live, admitting(clients_around([0.1, 0.5, 0.9], 200))))
        answer = answer_of(live)
        assert all(np.isfinite(ends).all() for ends in answer.intervals.values())
        assert answer.error.startswith("No error probability is stated")
    assert decisions[0] is not None
    assert decisions[0].winner == (2 if goal == "max" else 0)
    # What a rule does not use makes no difference to it.
    assert decisions[0] == decisions[1]


def test_what_uses_variances_is_still_to_be_told_them() -> None:
    assert fed2(radius=fb.CertifiedRadius(delta=0.05)).rule(told_nothing()).needs_components
    with pytest.raises(InputError, match="takes at least 10 clients"):
        fed1(radius=fb.CertifiedRadius(delta=0.05)).rule(told_nothing())


def test_a_width_that_nothing_is_known_of_is_infinite() -> None:
    rule = fed1(radius=fb.PairedTRadius(delta=0.05, min_clients=3)).rule(told_nothing())
    nothing = Reports(
        counts=np.full((3, 3), 10), means=np.zeros((3, 3)), active=np.ones(3, dtype=np.bool_)
    )
    assert np.isinf(rule.interval_widths(0.05, phase=1, reports=nothing)).all()


# What can never decide ---------------------------------------------------------------------------

FEW_RATES = fb.Exact(local_means=[[0.2, 0.8], [0.3, 0.6], [0.4, 0.7]], noise=fb.Bernoulli())
MANY = fb.Approximate(means=[0.2, 0.8], noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.1))


@pytest.mark.parametrize("make", [fed1, fed2])
def test_paired_t_is_refused_with_fewer_clients_than_it_decides_with(
    make: Callable[..., Any],
) -> None:
    algorithm = make(radius=fb.PairedTRadius(delta=0.05))
    with pytest.raises(InputError, match='"paired-t" needs at least 30 clients') as raised:
        fb.simulate(FEW_RATES, algorithm, horizon=None, replications=1)
    assert raised.value.where == "variants[0].radius.min_clients"
    with pytest.raises(InputError, match="use another radius") as raised:
        Server(algorithm.rule(beliefs(population=3)))
    assert raised.value.where == "radius.min_clients"
    enough = make(radius=fb.PairedTRadius(delta=0.05, min_clients=3))
    assert enough.rule(beliefs(population=3)).fewest_clients == 3


@pytest.mark.parametrize(
    ("radius", "assume", "fewest"),
    [
        (fb.PairedTRadius(delta=0.05), fb.Assume(), 30),
        (fb.CertifiedRadius(delta=0.05), fb.Assume(spread="estimate"), 10),
    ],
)
def test_a_cap_below_what_it_takes_to_decide_is_refused(
    radius: Any, assume: fb.Assume, fewest: int
) -> None:
    with pytest.raises(InputError, match=f"with fewer than {fewest};") as raised:
        fb.simulate(
            MANY,
            fed2(radius=radius),
            assume=assume,
            horizon=None,
            replications=1,
            max_clients=fewest - 1,
        )
    assert raised.value.where == "variants[0].max_clients"


# Keys that fed1-ucb shares with fed2-ucb ---------------------------------------------------------


def test_fed1_ucb_takes_equal_weights_and_says_why_no_others() -> None:
    assert fed1(weights="equal") == fed1()
    with pytest.raises(
        InputError, match=r"pull equally often, so equal weights are the best"
    ) as raised:
        fed1(weights="inverse-variance")
    assert raised.value.where == "weights"


def test_fed1_ucb_may_take_its_clients_for_a_sample() -> None:
    told = beliefs(noise=0.5, spread=0.1)
    counts = [20.0]
    sample = fed1(target="population").rule(told)
    # As Fed2-UCB does that admits them at once, of a population without end.
    admitted = fed2(admissions=3).rule(told)
    assert width_of(sample, phase=2, counts=counts, sizes=[3]) == width_of(
        admitted, phase=2, counts=counts, sizes=[3]
    )
    known = sample.estimate(Reports.planned(counts, [3.0]))
    assert float(known.client_variance) == pytest.approx(0.1**2 / 3)
    assert known.independent_clients
    assert fed1(target="clients").rule(told) == fed1().rule(told)
    assert sample.admit(2, 3, False) == (0, False)


def test_weights_of_clients_are_for_an_answer_about_these_clients() -> None:
    for algorithm in (fed1(target="population"), fed2(admissions=3, target="population")):
        rule = algorithm.rule(beliefs(population=3))
        with pytest.raises(InputError, match='target is "population"'):
            rule.with_given_weights()
    with pytest.raises(InputError, match='target is "population"'):
        fed1(target="population").rule(beliefs(population=3, weighted=True))


def test_an_answer_refuses_a_level_that_is_none() -> None:
    rule = fed1(clients=1).rule(beliefs(noise=0.01))
    live = Server(rule)
    play(live, lambda _: [Client("a", lambda arm, n: [0.9 * arm] * n)])
    for level, words in ((None, "not a number"), ("0.05", "not a number"), (1e-300, "smallest")):
        wrong: Any = level
        with pytest.raises(InputError, match=words) as raised:
            answer_of(live, level=wrong)
        assert raised.value.where == "level"
