"""Every algorithm: its name, who plays, what it pulls and decides."""

from __future__ import annotations

import dataclasses
import itertools
import math
import pickle
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbandits.errors import InputError
from fedbandits.loopback import play
from fedbandits.protocol import Client, MemoryLog, Server
from fedbandits.rules.algorithms import (
    ALGORITHMS,
    AuthorsBaseline,
    Centralized,
    Fed1Ucb,
    Fed2Ucb,
    ImprovedUcb,
    LocalUcb,
    Ucb1,
)
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.indices import SlotRule
from fedbandits.rules.phased import Charge, PhasedRule, Player
from fedbandits.rules.radii import ImprovedUcbRadius
from fedbandits.rules.radii.known import example_statistics
from fedbandits.rules.statistics import client_factor
from rule_calls import changed, decided
from whole_rules import (
    BELIEFS,
    every_algorithm,
    every_phased_algorithm,
    made,
    modest,
    pulls_of,
    seeds,
)

# Improved UCB ------------------------------------------------------------------------------------


def auer_ortner(horizon: int) -> list[tuple[int, Decimal]]:
    """Return n_m and log(T Δ̃_m²) for every phase, from the statement of the algorithm."""
    digits = Context(prec=50)
    last = (digits.ln(Decimal(horizon)) - 1) / digits.ln(Decimal(2)) / 2
    table, guess = [], Fraction(1)
    for _ in range(int(last) + 1):
        ratio = guess**2 * horizon
        log = digits.ln(Decimal(ratio.numerator) / Decimal(ratio.denominator))
        pulls = 2 * log * guess.denominator**2
        table.append((int(pulls.to_integral_value(ROUND_CEILING)), log))
        guess /= 2
    return table


@pytest.mark.parametrize("horizon", [3, 10, 11, 43, 44, 100, 1000, 10**4, 10**6, 10**9, 12345678])
def test_improved_ucb_makes_the_pulls_of_auer_and_ortner(horizon: int) -> None:
    rule = ImprovedUcb().rule(Beliefs(n_arms=3, horizon=horizon, noise=0.5, spread=0.3))
    table = auer_ortner(horizon)
    assert rule.last_phase == len(table)
    pulls = 0
    for m, (n_m, log) in enumerate(table):
        pulls += rule.pulls(m + 1)
        assert pulls == n_m
        verdict = decided(
            rule,
            phase=m + 1,
            active=np.ones(3, dtype=np.bool_),
            estimates=np.zeros(3),
            counts=[pulls],
        )
        assert float(verdict.widths) == pytest.approx(
            math.sqrt(float(log) / (2 * n_m)), rel=1e-12, abs=0.0
        )


def test_improved_ucb_scales_its_pulls_with_the_variance() -> None:
    loud = ImprovedUcb().rule(Beliefs(n_arms=3, horizon=10**6, noise=2.0, spread=0.0))
    pulls = 0
    for m, (_, log) in enumerate(auer_ortner(10**6)):
        pulls += loud.pulls(m + 1)
        assert pulls == math.ceil(16 * 2 * float(log) * 4**m)


@modest
@given(horizon=st.integers(3, 10**7), noise=st.sampled_from([0.0, 1e-6, 0.01, 0.5, 3.0]))
def test_improved_ucb_pulls_at_least_once_in_every_phase(horizon: int, noise: float) -> None:
    rule = ImprovedUcb().rule(Beliefs(n_arms=2, horizon=horizon, noise=noise, spread=0.0))
    assert rule.last_phase is not None
    assert min(rule.pulls(phase) for phase in range(1, rule.last_phase + 3)) >= 1


def test_improved_ucb_is_one_player_at_the_server_who_talks_to_nobody() -> None:
    rule = ImprovedUcb().rule(Beliefs(n_arms=2, horizon=1000, noise=0.5, spread=9.0))
    assert (rule.player, rule.charge, rule.population) == (Player.SERVER, Charge.NOTHING, 1)
    assert rule.admit(1, 0, False) == (1, False)
    assert rule.admit(2, 1, False) == (0, False)


def test_improved_ucb_refuses_a_horizon_without_a_phase() -> None:
    with pytest.raises(InputError, match="at least 3"):
        ImprovedUcb().rule(Beliefs(n_arms=2, horizon=2, noise=0.5, spread=0.0))


def test_the_radius_of_improved_ucb_is_never_of_a_negative_log() -> None:
    known = changed(example_statistics(), pull_variance=np.array(0.25), horizon=10, phase=9)
    late = ImprovedUcbRadius().half_widths(known)
    assert float(late) == 0.0


# Every algorithm ---------------------------------------------------------------------------------


@every_algorithm
def test_an_algorithm_goes_by_the_name_it_is_registered_under(name: str) -> None:
    assert made(name).name == name
    assert ALGORITHMS.named(name, "algorithm") is ALGORITHMS[name]


@every_algorithm
def test_an_algorithm_and_its_rule_are_frozen_values(name: str) -> None:
    algorithm = made(name)
    assert algorithm == made(name)
    assert algorithm.rule(BELIEFS) == made(name).rule(BELIEFS)
    value: Any
    for value in (algorithm, algorithm.rule(BELIEFS)):
        assert not hasattr(value, "__dict__")
        for field in dataclasses.fields(value):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(value, field.name, getattr(value, field.name))


@every_algorithm
def test_an_algorithm_and_its_rule_survive_pickling(name: str) -> None:
    algorithm = made(name)
    rule = algorithm.rule(BELIEFS)
    assert pickle.loads(pickle.dumps(algorithm)) == algorithm
    again = pickle.loads(pickle.dumps(rule))
    assert again == rule
    assert pickle.loads(pickle.dumps(algorithm)).rule(BELIEFS) == rule


@every_algorithm
def test_a_rule_takes_over_what_is_believed(name: str) -> None:
    rule = made(name).rule(BELIEFS)
    assert (rule.n_arms, rule.horizon, rule.noise) == (4, 5000, 0.5)


@every_phased_algorithm
def test_a_phased_rule_admits_plays_and_decides(name: str) -> None:
    rule = made(name).rule(BELIEFS)
    assert isinstance(rule, PhasedRule)
    clients, capped = rule.admit(1, 0, False)
    assert 1 <= clients <= 12
    assert not capped
    active = np.array([True, True, False, True])
    planned = pulls_of(rule, 1, active)
    assert planned[2] == 0
    assert len(set(planned[active].tolist())) == 1
    assert planned.sum() >= 3
    counts = np.full((4, clients), planned.max())
    estimates = np.array([0.2, 0.4, 9.0, 0.3])
    verdict = decided(rule, phase=1, active=active, estimates=estimates, counts=counts)
    assert (verdict.widths > 0).all()
    assert verdict.active[1]
    assert not (verdict.active & ~active).any()
    # With a million times as many pulls by the whole population nothing is left open.
    counts = np.full((4, 12), 10**9)
    verdict = decided(rule, phase=1, active=active, estimates=estimates, counts=counts)
    assert verdict.active.tolist() == [False, True, False, False]


@pytest.mark.parametrize("name", ["ucb1", "local-ucb"])
def test_a_slot_rule_pulls_every_arm_once_and_then_the_highest_index(name: str) -> None:
    rule = made(name).rule(BELIEFS)
    assert isinstance(rule, SlotRule)
    nothing = np.zeros((3, 4))
    assert [rule.choose(nothing, nothing, slot).tolist() for slot in range(1, 5)] == [
        [arm] * 3 for arm in range(4)
    ]
    sums, counts = np.array([[3.0, 1.0, 2.0, 2.0]]), np.array([[5.0, 2.0, 4.0, 4.0]])
    for slot in (5, 16, 1000):
        by_hand = [
            s / n + math.sqrt(2 * math.log(slot) / n)
            for s, n in zip(sums[0].tolist(), counts[0].tolist(), strict=True)
        ]
        assert rule.index(sums, counts, slot)[0] == pytest.approx(by_hand, rel=1e-14, abs=0.0)
        assert rule.choose(sums, counts, slot).tolist() == [by_hand.index(max(by_hand))]


def test_who_plays_and_who_pays_for_communication() -> None:
    rules = {name: made(name).rule(BELIEFS) for name in ALGORITHMS}
    at_server = {name for name, rule in rules.items() if rule.player is Player.SERVER}
    assert at_server == {"improved-ucb", "authors-baseline", "ucb1", "kl-ucb", "thompson"}
    charges = {name: rule.charge for name, rule in rules.items() if isinstance(rule, PhasedRule)}
    assert charges == {
        "fed2-ucb": Charge.PHASE,
        "fed1-ucb": Charge.PHASE,
        "fed-index": Charge.PHASE,
        "fed-ts": Charge.PHASE,
        "fed-mom-ucb": Charge.PHASE,
        "centralized": Charge.PHASE,
        "improved-ucb": Charge.NOTHING,
        "authors-baseline": Charge.NOTHING,
    }
    assert Centralized(communicate="slot").rule(BELIEFS).charge is Charge.SLOT
    assert Centralized().rule(BELIEFS).pulls(7) == 1


def test_an_unknown_algorithm_is_answered_with_the_nearest() -> None:
    with pytest.raises(InputError, match='did you mean "fed2-ucb"'):
        ALGORITHMS.named("fed2ucb", "algorithm")


# Who plays ---------------------------------------------------------------------------------------


def test_fed1_ucb_plays_with_the_whole_population_or_as_many_as_asked_for() -> None:
    assert Fed1Ucb(pulls=1).rule(BELIEFS).admit(1, 0, False) == (12, False)
    assert Fed1Ucb(pulls=1, clients=5).rule(BELIEFS).admit(1, 0, False) == (5, False)
    assert Fed1Ucb(pulls=1, clients=5).rule(BELIEFS).population == 5
    assert LocalUcb(clients=5).rule(BELIEFS).clients == 5
    assert LocalUcb().rule(BELIEFS).clients == 12
    assert Ucb1().rule(BELIEFS).clients == 1


@pytest.mark.parametrize("clients", [0, -1])
def test_fewer_than_one_client_is_refused(clients: int) -> None:
    for make in (Centralized, LocalUcb):
        with pytest.raises(InputError, match="from 1 to"):
            make(clients=clients)
    with pytest.raises(InputError, match="from 1 to"):
        Fed1Ucb(pulls=1, clients=clients)


def test_more_clients_than_there_are_is_refused() -> None:
    with pytest.raises(InputError, match="population of 12"):
        Fed1Ucb(pulls=1, clients=13).rule(BELIEFS)


def test_everyone_of_an_unlimited_population_is_refused() -> None:
    unlimited = dataclasses.replace(BELIEFS, population=None)
    for algorithm in (Fed1Ucb(pulls=1), Centralized(), LocalUcb()):
        with pytest.raises(InputError, match="say how many clients play"):
            algorithm.rule(unlimited)
    assert AuthorsBaseline(pulls=1).rule(unlimited).admit(1, 0, False) == (1, False)


# Fed1-UCB is Fed2-UCB ----------------------------------------------------------------------------


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    seed=seeds,
    clients=st.integers(1, 9),
    n_arms=st.integers(2, 5),
    pulls=st.sampled_from(["3", "2^p", "ceil(log(T))", "7*p"]),
    horizon=st.integers(2, 2000),
    spread=st.floats(0.0, 3.0),
)
def test_fed1_ucb_is_fed2_ucb_with_everyone_in_to_the_last_bit(
    *, seed: int, clients: int, n_arms: int, pulls: str, horizon: int, spread: float
) -> None:
    unlimited = Beliefs(n_arms=n_arms, horizon=horizon, noise=0.1, spread=spread)
    limited = dataclasses.replace(unlimited, population=clients)
    games = [
        Fed1Ucb(pulls=pulls, clients=clients).rule(unlimited),
        Fed1Ucb(pulls=pulls).rule(limited),
        Fed2Ucb(pulls=pulls, admissions=clients).rule(limited),
        Fed2Ucb(pulls=pulls, admissions=f"{clients}*2^p").rule(limited),
    ]
    logs = [list(_played(rule, seed)) for rule in games]
    assert logs[1:] == logs[:1] * 3
    assert len(logs[0]) >= 1


def _played(rule: PhasedRule, seed: int) -> MemoryLog:
    """Return the log of a game whose clients draw from streams of their own."""

    def client(number: int) -> Client:
        rng = np.random.default_rng([seed, number])
        means = rng.random(rule.n_arms)
        return Client(str(number), lambda arm, n: rng.normal(means[arm], 0.1, size=n))

    log = MemoryLog()
    play(Server(rule, log=log), lambda wanted: [client(number) for number in range(wanted)])
    return log


@pytest.mark.parametrize("population", [2, 3, 5, 8])
def test_the_bounded_factor_is_a_proxy_of_every_sample_of_a_population(population: int) -> None:
    """Serfling: the moment generating function over all samples of M of N values in [0, 1]."""
    strengths = np.array([-40.0, -12.0, -4.0, -1.0, 1.0, 4.0, 12.0, 40.0])
    too_small = 0
    for ones in range(1, population):
        values = np.array([1.0] * ones + [0.0] * (population - ones))
        for clients in range(1, population):
            samples = itertools.combinations(range(population), clients)
            errors = np.array([values[list(sample)].mean() for sample in samples]) - values.mean()
            logs = np.log(np.exp(np.outer(strengths, errors)).mean(axis=1))
            bounded = client_factor(clients, population, bounded=True)
            assert (logs <= strengths**2 / 2 * bounded / 4 + 1e-12).all()
            plain = client_factor(clients, population)
            too_small += bool((logs > strengths**2 / 2 * plain / 4 + 1e-12).any())
    # The factor of a variance is none: that is why there is another.
    assert too_small > 0
