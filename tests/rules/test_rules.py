"""The rules: statistics, radii, eliminations and the algorithms made of them."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbandits.errors import InputError
from fedbandits.rules.algorithms import (
    Fed1Ucb,
    Fed2Ucb,
)
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.eliminations import best_active, eliminate
from fedbandits.rules.phase_numbers import FirstThen
from fedbandits.rules.phased import PhasedRule, cut_to_fit
from fedbandits.rules.radii import PaperRadius
from fedbandits.rules.radii.known import example_statistics
from fedbandits.rules.statistics import aggregate, client_factor, clients_in, pull_factor
from rule_calls import changed, decided
from whole_rules import BELIEFS, every_phased_algorithm, made, modest, pulls_of, seeds

schedules = st.lists(st.integers(1, 40), min_size=1, max_size=8)


def same_bits(a: FloatArray, b: FloatArray) -> bool:
    return a.shape == b.shape and np.asarray(a).tobytes() == np.asarray(b).tobytes()


# The paper's M(p), F(p) and eta_p ----------------------------------------------------------------


def paper_clients(g: list[int], p: int) -> int:
    """Return M(p)."""
    return sum(g[q - 1] for q in range(1, p + 1))


def paper_pulls(f: list[int], p: int) -> int:
    """Return F(p), with F(0) = 0."""
    return sum(f[q - 1] for q in range(1, p + 1))


def paper_eta(f: list[int], g: list[int], p: int) -> Fraction:
    """Return η_p."""
    total = Fraction(0)
    for q in range(1, p + 1):
        total += Fraction(g[q - 1], paper_pulls(f, p) - paper_pulls(f, q - 1))
    return total / paper_clients(g, p) ** 2


def cohort_counts(f: list[int], p: int) -> list[int]:
    """Return how often each cohort has pulled an active arm after phase p."""
    return [sum(f[q:p]) for q in range(p)]


@modest
@given(data=st.data(), f=schedules)
def test_clients_and_pull_factor_are_the_paper_s(data: st.DataObject, f: list[int]) -> None:
    g = data.draw(st.lists(st.integers(1, 300), min_size=len(f), max_size=len(f)))
    for p in range(1, len(f) + 1):
        counts = cohort_counts(f, p)
        assert clients_in(counts, g[:p]) == paper_clients(g, p)
        assert counts[0] == paper_pulls(f, p)
        eta = float(paper_eta(f, g, p))
        assert float(pull_factor(counts, g[:p])) == pytest.approx(eta, rel=1e-13, abs=0.0)


@modest
@given(data=st.data(), f=schedules)
def test_client_by_client_or_cohort_by_cohort_makes_no_difference(
    data: st.DataObject, f: list[int]
) -> None:
    g = data.draw(st.lists(st.integers(1, 30), min_size=len(f), max_size=len(f)))
    p = len(f)
    counts = cohort_counts(f, p)
    one_by_one = [n for n, size in zip(counts, g, strict=True) for _ in range(size)]
    shuffled = data.draw(st.permutations(one_by_one))
    assert clients_in(shuffled) == clients_in(counts, g)
    assert float(pull_factor(shuffled)) == pytest.approx(
        float(pull_factor(counts, g)), rel=1e-13, abs=0.0
    )


@modest
@given(clients=st.integers(1, 10**6), pulls=st.integers(1, 10**9))
def test_one_cohort_gives_one_over_its_pulls_in_all(clients: int, pulls: int) -> None:
    wanted = 1 / (clients * pulls)
    assert float(pull_factor([pulls], [clients])) == pytest.approx(wanted, rel=1e-14, abs=0.0)


def test_clients_who_never_pulled_an_arm_do_not_count() -> None:
    assert clients_in([100, 0, 100], [2, 4, 8]) == 10
    assert float(pull_factor([100, 0, 50], [2, 4, 8])) == pytest.approx((2 / 100 + 8 / 50) / 100)


def test_an_arm_that_nobody_pulled_has_an_infinite_factor() -> None:
    assert clients_in([0, 0]) == 0
    assert pull_factor([[0, 0], [5, 5]]).tolist() == [math.inf, 0.1]


@modest
@given(seed=seeds, shape=st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 300)))
def test_clients_and_pull_factor_of_a_batch_are_those_of_its_members(
    seed: int, shape: tuple[int, int, int]
) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 4, size=shape)
    sizes = rng.integers(1, 9, size=shape[-1])
    for r, k in np.ndindex(shape[:2]):
        assert clients_in(counts, sizes)[r, k] == clients_in(counts[r, k], sizes)
        assert pull_factor(counts, sizes)[r, k] == pull_factor(counts[r, k], sizes)


@modest
@given(clients=st.integers(1, 10**9), more=st.integers(0, 10**9))
def test_client_factor_is_that_of_drawing_without_replacement(clients: int, more: int) -> None:
    population = clients + more
    assert float(client_factor(clients)) == 1 / clients
    exact = Fraction(1, clients) - Fraction(1, population)
    factor = float(client_factor(clients, population))
    assert factor == pytest.approx(float(exact), abs=5e-16 / clients)
    assert float(client_factor(population, population)) == 0.0


def test_client_factor_takes_a_batch_and_is_never_negative() -> None:
    assert client_factor(np.array([1, 2, 4]), population=4).tolist() == [0.75, 0.25, 0.0]
    assert float(client_factor(5, population=4)) == 0.0


# Aggregation -------------------------------------------------------------------------------------

sizes_of_batches = st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 400))


def layouts(array: FloatArray) -> dict[str, FloatArray]:
    """Return the same numbers in other places of the memory."""
    wide = np.full((*array.shape[:-1], 2 * array.shape[-1]), np.nan)
    wide[..., ::2] = array
    frozen = array.copy()
    frozen.setflags(write=False)
    return {
        "Fortran order": np.asfortranarray(array),
        "every second entry": wide[..., ::2],
        "reversed": np.ascontiguousarray(array[..., ::-1])[..., ::-1],
        "transposed": np.ascontiguousarray(array.T).T,
        "axes moved": np.moveaxis(np.ascontiguousarray(np.moveaxis(array, -1, 0)), 0, -1),
        "rows of a larger one": np.concatenate([array, array + 1])[: array.shape[0]],
        "read-only": frozen,
    }


@modest
@given(seed=seeds, shape=sizes_of_batches)
def test_a_batch_is_aggregated_as_its_members_bit_for_bit(
    seed: int, shape: tuple[int, int, int]
) -> None:
    rng = np.random.default_rng(seed)
    means = rng.normal(0.5, 10.0, size=shape)
    shared, own = rng.random(shape[-1]), rng.random(shape)
    plain, weighted, apart = aggregate(means), aggregate(means, shared), aggregate(means, own)
    for r, k in np.ndindex(shape[:2]):
        assert same_bits(plain[r, k], aggregate(means[r, k]))
        assert same_bits(weighted[r, k], aggregate(means[r, k], shared))
        assert same_bits(apart[r, k], aggregate(means[r, k], own[r, k]))
    assert same_bits(plain[0], aggregate(means[0]))


@modest
@given(seed=seeds, shape=sizes_of_batches)
def test_the_memory_layout_does_not_change_a_bit_of_an_aggregate(
    seed: int, shape: tuple[int, int, int]
) -> None:
    rng = np.random.default_rng(seed)
    means, weights = rng.normal(0.5, 10.0, size=shape), rng.random(shape)
    shared = rng.random(shape[-1])
    plain, weighted = aggregate(means), aggregate(means, weights)
    together = aggregate(means, shared)
    shifted = layouts(weights)
    for name, other in layouts(means).items():
        assert same_bits(aggregate(other), plain), name
        assert same_bits(aggregate(other, shared), together), name
        assert same_bits(aggregate(other, weights), weighted), name
        assert same_bits(aggregate(means, shifted[name]), weighted), name
        assert same_bits(aggregate(other, shifted[name]), weighted), name


@modest
@given(seed=seeds, shape=sizes_of_batches)
def test_weights_of_one_are_no_weights(seed: int, shape: tuple[int, int, int]) -> None:
    means = np.random.default_rng(seed).normal(0.5, 10.0, size=shape)
    plain = aggregate(means)
    assert same_bits(aggregate(means, np.ones(shape[-1])), plain)
    assert same_bits(aggregate(means, np.ones(shape)), plain)
    assert same_bits(aggregate(means, np.ones(shape, dtype=np.bool_)), plain)


@modest
@given(seed=seeds, groups=st.integers(1, 400))
def test_an_aggregate_is_the_weighted_average(seed: int, groups: int) -> None:
    rng = np.random.default_rng(seed)
    means, weights = rng.normal(0.5, 10.0, size=groups), rng.integers(1, 100, size=groups)
    plain = math.fsum(means.tolist()) / groups
    products = [float(w) * m for w, m in zip(weights, means.tolist(), strict=True)]
    weighted = math.fsum(products) / float(weights.sum())
    assert float(aggregate(means)) == pytest.approx(plain, abs=1e-12)
    assert float(aggregate(means, weights)) == pytest.approx(weighted, abs=1e-12)


def test_a_group_of_no_weight_is_not_used() -> None:
    means = np.array([[0.25, 99.0, 0.75], [0.5, 0.5, -7.0]])
    assert aggregate(means, [[1, 0, 1], [1, 1, 0]]).tolist() == [0.5, 0.5]


def test_an_aggregate_leaves_its_input_as_it_is() -> None:
    means, weights = np.array([[0.25, 0.75]]), np.array([3.0, 1.0])
    aggregate(means, weights)
    assert means.tolist() == [[0.25, 0.75]]
    assert weights.tolist() == [3.0, 1.0]


# Radii -------------------------------------------------------------------------------------------


@modest
@given(
    data=st.data(),
    f=schedules,
    noise=st.floats(0.0, 10.0),
    spread=st.floats(0.0, 10.0),
    horizon=st.integers(2, 10**12),
    constants=st.tuples(st.floats(0.0, 20.0), st.floats(0.0, 20.0)),
)
def test_the_rule_s_widths_are_the_double_bound_of_the_paper(
    *,
    data: st.DataObject,
    f: list[int],
    noise: float,
    spread: float,
    horizon: int,
    constants: tuple[float, float],
) -> None:
    g = data.draw(st.lists(st.integers(1, 300), min_size=len(f), max_size=len(f)))
    p, (a, b) = len(f), constants
    rule = Fed2Ucb(pulls=1, admissions=1, radius=PaperRadius(arm=a, client=b)).rule(
        Beliefs(n_arms=2, horizon=horizon, noise=noise, spread=spread)
    )
    verdict = decided(
        rule,
        phase=p,
        active=np.ones(2, dtype=np.bool_),
        estimates=np.zeros(2),
        counts=cohort_counts(f, p),
        sizes=g,
    )
    log = math.log(horizon)
    wanted = math.sqrt(a * noise**2 * float(paper_eta(f, g, p)) * log)
    wanted += math.sqrt(b * spread**2 * log / paper_clients(g, p))
    assert float(verdict.widths) == pytest.approx(wanted, rel=1e-12, abs=0.0)


@modest
@given(
    clients=st.integers(1, 10**4),
    f=schedules,
    noise=st.floats(0.0, 10.0),
    spread=st.floats(0.0, 10.0),
    horizon=st.integers(2, 10**12),
)
def test_the_double_bound_is_the_single_one_when_the_population_is_in(
    clients: int, f: list[int], noise: float, spread: float, horizon: int
) -> None:
    rule = Fed2Ucb(pulls=1, admissions=clients).rule(
        Beliefs(n_arms=2, horizon=horizon, noise=noise, spread=spread, population=clients)
    )
    verdict = decided(
        rule,
        phase=len(f),
        active=np.ones(2, dtype=np.bool_),
        estimates=np.zeros(2),
        counts=[sum(f)],
        sizes=[clients],
    )
    wanted = math.sqrt(6 * noise**2 * math.log(horizon) / (clients * sum(f)))
    assert float(verdict.widths) == pytest.approx(wanted, rel=1e-12, abs=0.0)


def test_the_constants_of_the_proof_are_the_default() -> None:
    assert (PaperRadius().arm, PaperRadius().client) == (6.0, 6.0)
    assert Fed2Ucb(pulls=1, admissions=1).radius == PaperRadius()
    assert Fed1Ucb(pulls=1).radius == PaperRadius()


def test_a_radius_takes_a_batch() -> None:
    pull, client = np.array([[1e-4, 4e-4], [9e-4, 0.0]]), np.array([[0.0, 1e-4], [4e-4, 0.0]])
    radius = PaperRadius(arm=2.0, client=3.0)
    known = changed(example_statistics(), pull_variance=pull, client_variance=client, horizon=1000)
    widths = radius.half_widths(known)
    for at in np.ndindex(2, 2):
        one = changed(known, pull_variance=pull[at], client_variance=client[at])
        assert same_bits(widths[at], radius.half_widths(one))


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
@pytest.mark.parametrize("name", ["arm", "client"])
def test_a_constant_that_is_no_constant_is_refused(name: str, value: float) -> None:
    with pytest.raises(InputError) as caught:
        PaperRadius(**{name: value})
    assert caught.value.where == name


# Eliminations ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Arms:
    """Estimates, widths and who is active, in 64ths: sums and comparisons are exact."""

    estimates: FloatArray
    widths: FloatArray
    active: BoolArray


@st.composite
def arms_of_a_game(draw: st.DrawFn, *, ties: bool = True) -> Arms:
    n = draw(st.integers(1, 7))
    whole = st.integers(-64, 64)
    estimates = draw(st.lists(whole, min_size=n, max_size=n, unique=not ties))
    one_width = draw(st.booleans())
    widths = draw(st.lists(st.integers(0, 24), min_size=n, max_size=n))
    active = draw(st.lists(st.booleans(), min_size=n, max_size=n).filter(any))
    return Arms(
        np.array(estimates) / 64,
        np.full(n, widths[0] / 64) if one_width else np.array(widths) / 64,
        np.array(active),
    )


def eliminate_by_hand(arms: Arms) -> list[bool]:
    """Return who stays, arm by arm as Algorithm 2 says it."""
    estimates, widths = arms.estimates.tolist(), arms.widths.tolist()
    playing = [k for k, active in enumerate(arms.active.tolist()) if active]
    highest = max(estimates[k] - widths[k] for k in playing)
    best = next(k for k in playing if estimates[k] == max(estimates[j] for j in playing))
    stays = [k for k in playing if k == best or not estimates[k] + widths[k] <= highest]
    return [k in stays for k in range(len(estimates))]


@settings(deadline=None, derandomize=True, max_examples=500)
@given(arms=arms_of_a_game())
def test_elimination_is_that_of_algorithm_2(arms: Arms) -> None:
    stays = eliminate(arms.estimates, arms.widths, arms.active)
    assert stays.dtype == np.bool_
    assert stays.tolist() == eliminate_by_hand(arms)


@modest
@given(arms=arms_of_a_game())
def test_the_best_arm_stays_and_the_active_arms_only_get_fewer(arms: Arms) -> None:
    stays = eliminate(arms.estimates, arms.widths, arms.active)
    best = int(best_active(arms.estimates, arms.active))
    assert arms.active[best]
    assert stays[best]
    assert stays.sum() >= 1
    assert not (stays & ~arms.active).any()


@modest
@given(data=st.data(), arms=arms_of_a_game(ties=False))
def test_permuting_the_arms_permutes_who_stays(data: st.DataObject, arms: Arms) -> None:
    order = np.array(data.draw(st.permutations(range(arms.active.size))))
    stays = eliminate(arms.estimates, arms.widths, arms.active)
    permuted = eliminate(arms.estimates[order], arms.widths[order], arms.active[order])
    assert permuted.tolist() == stays[order].tolist()


@modest
@given(
    data=st.data(),
    arms=arms_of_a_game(),
    strange=st.sampled_from([-1e300, 1e300, math.inf, -math.inf, math.nan]),
)
def test_inactive_arms_have_no_influence(data: st.DataObject, arms: Arms, strange: float) -> None:
    stays = eliminate(arms.estimates, arms.widths, arms.active)
    estimates = np.where(arms.active, arms.estimates, strange)
    widths = np.where(arms.active, arms.widths, data.draw(st.floats(0.0, 100.0)))
    assert eliminate(estimates, widths, arms.active).tolist() == stays.tolist()
    assert best_active(estimates, arms.active) == best_active(arms.estimates, arms.active)


@modest
@given(seed=seeds, n_games=st.integers(1, 6), n_arms=st.integers(1, 6))
def test_a_batch_is_decided_as_its_members(seed: int, n_games: int, n_arms: int) -> None:
    rng = np.random.default_rng(seed)
    shape = (2, n_games, n_arms)
    estimates = rng.integers(-64, 65, size=shape) / 64
    active = rng.random(shape) < 0.7
    active[..., rng.integers(n_arms)] = True
    for widths in (
        rng.integers(0, 24, size=shape) / 64,
        rng.integers(0, 24, size=(n_games, n_arms)) / 64,
        np.array([10 / 64]),
        np.array(10 / 64),
    ):
        stays = eliminate(estimates, widths, active)
        full = np.broadcast_to(widths, shape)
        for at in np.ndindex(shape[:-1]):
            single = eliminate(estimates[at], full[at], active[at])
            assert stays[at].tolist() == single.tolist()
            assert best_active(estimates, active)[at] == best_active(estimates[at], active[at])


def test_touching_intervals_part_and_overlapping_ones_do_not() -> None:
    active = np.ones(2, dtype=np.bool_)
    estimates = np.array([0.5, 1.0])
    assert eliminate(estimates, np.array([0.25, 0.25]), active).tolist() == [False, True]
    wider = np.array([0.25, 0.25 + 2**-40])
    assert eliminate(estimates, wider, active).tolist() == [True, True]


def test_of_tied_arms_without_width_the_first_active_one_stays() -> None:
    estimates = np.array([0.5, 0.5, 0.5, 0.25])
    active = np.array([False, True, True, True])
    assert eliminate(estimates, np.zeros(4), active).tolist() == [False, True, False, False]
    assert best_active(estimates, active) == 1


def test_infinite_widths_drop_nobody() -> None:
    active = np.array([True, False, True])
    stays = eliminate(np.array([0.0, 5.0, 9.0]), np.full(3, np.inf), active)
    assert stays.tolist() == active.tolist()


def test_an_elimination_writes_into_nothing_it_was_given() -> None:
    arrays = [np.array([0.1, 0.9]), np.array([0.2, 0.2]), np.array([True, True])]
    before = [array.tobytes() for array in arrays]
    for array in arrays:
        array.setflags(write=False)
    assert eliminate(arrays[0], arrays[1], np.array([True, True])).tolist() == [False, True]
    assert [array.tobytes() for array in arrays] == before


# Phases that do not fit --------------------------------------------------------------------------


def slots_by_hand(pulls: list[int], slots_left: int) -> list[int]:
    """Return the pulls of a phase that is played slot by slot until nothing is left."""
    played = [0] * len(pulls)
    sequence = [arm for arm, n in enumerate(pulls) for _ in range(n)]
    for arm in sequence[:slots_left]:
        played[arm] += 1
    return played


vectors_of_pulls = st.lists(st.integers(0, 12), min_size=1, max_size=6)


@modest
@given(pulls=vectors_of_pulls, slots_left=st.integers(0, 60))
def test_a_phase_is_cut_where_the_horizon_ends(pulls: list[int], slots_left: int) -> None:
    cut = cut_to_fit(np.array(pulls), slots_left)
    assert cut.tolist() == slots_by_hand(pulls, slots_left)


@modest
@given(data=st.data(), n_arms=st.integers(1, 5), n_games=st.integers(1, 5))
def test_phases_of_a_batch_are_cut_each_for_itself(
    data: st.DataObject, n_arms: int, n_games: int
) -> None:
    row = st.lists(st.integers(0, 12), min_size=n_arms, max_size=n_arms)
    pulls = data.draw(st.lists(row, min_size=n_games, max_size=n_games))
    left = data.draw(st.lists(st.integers(0, 60), min_size=n_games, max_size=n_games))
    cut = cut_to_fit(np.array(pulls), np.array(left))
    by_hand = [slots_by_hand(*game) for game in zip(pulls, left, strict=True)]
    assert cut.tolist() == by_hand


# The phased rule ---------------------------------------------------------------------------------


def phased(**settings_of_rule: Any) -> PhasedRule:
    """Return a rule for three arms and 1000 slots, as Fed2-UCB makes it but for these settings."""
    pulls = settings_of_rule.pop("pulls", 10)
    admissions = settings_of_rule.pop("admissions", "2^p")
    rule = Fed2Ucb(pulls=pulls, admissions=admissions).rule(
        Beliefs(n_arms=3, horizon=1000, noise=0.5, spread=0.1)
    )
    return dataclasses.replace(rule, **settings_of_rule)


@modest
@given(
    g=st.lists(st.integers(0, 30), min_size=1, max_size=8),
    population=st.none() | st.integers(1, 60),
    max_clients=st.none() | st.integers(1, 60),
)
def test_admissions_stop_at_the_population_and_at_the_cap(
    g: list[int], population: int | None, max_clients: int | None
) -> None:
    rule = dataclasses.replace(
        phased(population=population, max_clients=max_clients),
        admissions=lambda phase: g[phase - 1],
    )
    clients, capped, cut_short = 0, False, False
    for phase in range(1, len(g) + 1):
        left = math.inf if population is None else population - clients
        wanted = min(g[phase - 1], left)
        room = math.inf if max_clients is None else max_clients - clients
        cut_short = cut_short or wanted > room
        newcomers, capped = rule.admit(phase, clients, capped)
        assert newcomers == min(wanted, room)
        assert capped == cut_short
        clients += newcomers


def test_a_cap_that_the_schedule_never_exceeds_is_not_hit() -> None:
    rule = phased(admissions=5, max_clients=15)
    assert rule.admit(3, 10, False) == (5, False)
    assert rule.admit(4, 15, False) == (0, True)
    exact = phased(max_clients=15)
    exact = dataclasses.replace(exact, admissions=FirstThen(15))
    assert exact.admit(1, 0, False) == (15, False)
    assert exact.admit(2, 15, False) == (0, False)


def test_a_population_as_large_as_the_cap_is_no_cap() -> None:
    rule = phased(admissions="2^p", population=6, max_clients=6)
    assert rule.admit(2, 2, False) == (4, False)
    assert rule.admit(3, 6, False) == (0, False)


def test_once_the_cap_has_cut_admissions_nobody_else_comes() -> None:
    rule = phased(admissions="2^p", max_clients=5)
    assert rule.admit(1, 0, False) == (2, False)
    assert rule.admit(2, 2, False) == (3, True)
    assert rule.admit(3, 5, True) == (0, True)
    assert phased(admissions=1, max_clients=5).admit(9, 2, True) == (0, True)


def test_a_full_house_asks_its_schedule_for_nobody() -> None:
    rule = phased(admissions="3 - p", population=2)
    assert rule.admit(1, 0, False) == (2, False)
    assert rule.admit(9, 2, False) == (0, False)


def test_a_phase_pulls_the_active_arms_alike_and_the_others_never() -> None:
    rule = phased(pulls="10*p")
    assert pulls_of(rule, 2, np.array([True, False, True])).tolist() == [20, 0, 20]
    batch = pulls_of(rule, 3, np.array([[True, True, True], [False, True, True]]))
    assert batch.tolist() == [[30, 30, 30], [0, 30, 30]]
    assert batch.dtype == np.int64


def test_more_pulls_than_slots_are_planned_as_the_horizon() -> None:
    rule = phased(pulls="2^p")
    planned: IntArray = pulls_of(rule, 200, np.array([True, True, False]))
    assert planned.tolist() == [1000, 1000, 0]


def test_a_rule_ends_after_its_last_phase_or_at_the_cap_of_phases() -> None:
    assert not any(phased().ends_after(phase) for phase in range(1, 100))
    rule = phased(last_phase=4, max_phases=7)
    assert [phase for phase in range(1, 10) if rule.ends_after(phase)] == [4, 7]


def test_a_schedule_that_fails_says_which_it_was() -> None:
    rule = phased(pulls="10/p", admissions="5/p")
    with pytest.raises(InputError) as caught:
        rule.pulls(3)
    assert caught.value.where == "pulls"
    with pytest.raises(InputError) as caught:
        rule.admissions(3)
    assert caught.value.where == "admissions"


@modest
@given(seed=seeds, n_games=st.integers(1, 5), clients=st.integers(1, 40))
def test_a_batch_of_games_is_decided_as_each_of_them(seed: int, n_games: int, clients: int) -> None:
    rng = np.random.default_rng(seed)
    rule = phased()
    shape = (n_games, rule.n_arms)
    active = rng.random(shape) < 0.8
    active[:, 0] = True
    estimates = rng.normal(0.5, 1.0, size=shape)
    counts = rng.integers(1, 500, size=(*shape, clients))
    together = decided(rule, phase=2, active=active, estimates=estimates, counts=counts)
    for game in range(n_games):
        alone = decided(
            rule, phase=2, active=active[game], estimates=estimates[game], counts=counts[game]
        )
        assert together.active[game].tolist() == alone.active.tolist()
        assert same_bits(together.widths[game], alone.widths)
        assert same_bits(together.estimates[game], alone.estimates)


@every_phased_algorithm
def test_several_phases_are_decided_together_as_one_after_the_other(name: str) -> None:
    rule = made(name).rule(BELIEFS)
    assert isinstance(rule, PhasedRule)
    rng = np.random.default_rng(3)
    n_phases, n_games, clients = 4, 3, 12
    active = np.array([[True, True, True, True], [True, False, True, True], [True] * 4])
    estimates = rng.normal(0.5, 0.2, size=(n_phases, n_games, rule.n_arms))
    counts = rng.integers(1, 500, size=(n_phases, 1, 1, clients))
    phases = np.arange(2, 2 + n_phases)
    together = decided(
        rule, phase=phases.reshape(-1, 1, 1), active=active, estimates=estimates, counts=counts
    )
    widths = np.broadcast_to(together.widths, estimates.shape)
    for step, phase in enumerate(phases.tolist()):
        alone = decided(
            rule, phase=phase, active=active, estimates=estimates[step], counts=counts[step]
        )
        assert together.active[step].tolist() == alone.active.tolist()
        assert same_bits(widths[step], np.broadcast_to(alone.widths, estimates[step].shape))
