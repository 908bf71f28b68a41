"""What holds of every radius, whatever it is told."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fedbandits as fb
from fedbandits.rules.eliminations import best_active
from fedbandits.rules.estimates import Estimate
from fedbandits.rules.radii import RADII, PhaseStatistics, Radius
from fedbandits.rules.statistics import aggregate
from null_games import Overconfident, every_radius, modest, radius_named, seeds
from rule_calls import changed

# Rules are played here on what they are not made for, too.
pytestmark = pytest.mark.filterwarnings("ignore::fedbandits.errors.AssumptionWarning")


# Properties of every radius -----------------------------------------------------------------------


def known_at(seed: int, lead: tuple[int, ...], n_arms: int, clients: int = 40) -> PhaseStatistics:
    """Return what may be known after phases, with variances of their own for every arm."""
    rng = np.random.default_rng(seed)
    shape = (*lead, n_arms)
    means = rng.uniform(0.2, 0.8, (*shape, 1)) + rng.uniform(-0.2, 0.2, (*shape, clients))
    factor = 10.0 ** rng.uniform(-5.0, -1.0, shape)
    active = rng.random(shape) < 0.7
    active[..., rng.integers(n_arms)] = True
    phase = rng.integers(1, 9, (*lead, 1))
    client_variance = 10.0 ** rng.uniform(-6.0, -2.0, shape)
    return PhaseStatistics(
        phase=phase,
        active=active,
        n_arms=n_arms,
        horizon=1000,
        estimate=Estimate(
            values=aggregate(means),
            pull_variance=0.25 * factor,
            client_variance=client_variance,
            pull_factor=factor,
            heaviest_pull=np.minimum(factor * rng.uniform(1.0, 3.0, shape), 1.0),
            pulls=1.0 / factor,
            clients=np.array([float(clients)]),
            even=np.array([True]),
            independent_clients=bool(rng.random() < 0.5),
            client_means=means,
        ),
    )


def member(known: PhaseStatistics, at: tuple[int, ...]) -> PhaseStatistics:
    """Return one of a batch, by itself."""
    seen = known.estimate
    assert seen.client_means is not None
    return changed(
        known,
        phase=int(np.asarray(known.phase)[at][0]),
        active=known.active[at],
        values=seen.values[at],
        pull_variance=seen.pull_variance[at],
        client_variance=seen.client_variance[at],
        pull_factor=seen.pull_factor[at],
        heaviest_pull=seen.heaviest_pull[at],
        client_means=seen.client_means[at],
    )


def variants_of(name: str) -> list[Radius]:
    """Return a radius in all its ways."""
    radius: Any = radius_named(name)
    found: list[Any] = [radius]
    if hasattr(radius, "dependence"):
        found += [replace(each, dependence="any") for each in found]
    if hasattr(radius, "delta"):
        found += [replace(each, delta=0.3) for each in found]
    return found


batches = st.tuples(st.integers(1, 3), st.integers(1, 4))


@every_radius
@modest
@given(seed=seeds, lead=batches, n_arms=st.integers(2, 6))
def test_a_batch_is_decided_bit_for_bit_as_its_members(
    name: str, seed: int, lead: tuple[int, int], n_arms: int
) -> None:
    known = known_at(seed, lead, n_arms)
    for radius in variants_of(name):
        widths, margins, stays = (
            method(known) for method in (radius.half_widths, radius.margins, radius.stays)
        )
        for at in np.ndindex(lead):
            alone = member(known, at)
            assert radius.half_widths(alone).tobytes() == widths[at].tobytes()
            assert radius.margins(alone).tobytes() == margins[at].tobytes()
            assert radius.stays(alone).tolist() == stays[at].tolist()


@every_radius
@modest
@given(seed=seeds, lead=batches, n_arms=st.integers(2, 6), clients=st.integers(30, 200))
def test_where_client_means_lie_in_memory_changes_no_bit(
    name: str, seed: int, lead: tuple[int, int], n_arms: int, clients: int
) -> None:
    known = known_at(seed, lead, n_arms, clients)
    assert known.estimate.client_means is not None
    moved = np.moveaxis(
        np.ascontiguousarray(np.moveaxis(known.estimate.client_means, -1, 0)), 0, -1
    )
    rows = np.arange(lead[1])[:, np.newaxis]
    radius = radius_named(name)
    widths = radius.half_widths(known)
    for means in (
        np.asfortranarray(known.estimate.client_means),
        moved,
        known.estimate.client_means[:, rows, np.arange(n_arms)],
    ):
        assert radius.half_widths(changed(known, client_means=means)).tobytes() == widths.tobytes()


@every_radius
@modest
@given(seed=seeds, lead=batches, n_arms=st.integers(1, 6))
def test_the_arm_that_looks_best_is_never_dropped(
    name: str, seed: int, lead: tuple[int, int], n_arms: int
) -> None:
    known = known_at(seed, lead, n_arms)
    # Nothing left to learn makes all widths zero; a tie then goes to the lower index.
    certain = Overconfident(radius_named(name), 10**6) if name != "paired-t" else radius_named(name)
    tied = changed(known, values=np.round(known.estimate.values, 1))
    for radius in [*variants_of(name), certain]:
        for each in (known, tied):
            stays = radius.stays(each)
            best = np.asarray(best_active(each.estimate.values, each.active))
            assert np.take_along_axis(stays, best[..., np.newaxis], axis=-1).all()
            assert not (stays & ~each.active).any()


@every_radius
@modest
@given(seed=seeds, n_arms=st.integers(2, 6), share=st.floats(0.01, 1.0))
def test_less_variance_means_narrower_widths_and_keeps_no_more_arms(
    name: str, seed: int, n_arms: int, share: float
) -> None:
    known = known_at(seed, (3,), n_arms)
    assert known.estimate.client_means is not None
    centre = known.estimate.values[..., np.newaxis]
    surer = changed(
        known,
        pull_variance=known.estimate.pull_variance * share,
        client_variance=known.estimate.client_variance * share,
        pull_factor=known.estimate.pull_factor * share,
        heaviest_pull=known.estimate.heaviest_pull * share,
        client_means=centre + (known.estimate.client_means - centre) * share,
    )
    for radius in variants_of(name):
        slack = 1e-12
        assert (radius.half_widths(surer) <= radius.half_widths(known) + slack).all()
        assert (radius.margins(surer) <= radius.margins(known) + slack).all()
        assert not (radius.stays(surer) & ~radius.stays(known)).any()
        # An arm that is alone is compared with nobody, and has no width in some rules.
        if share < 0.9 and (known.active.sum(axis=-1) > 1).any():
            assert radius.half_widths(surer).sum() < radius.half_widths(known).sum()


def pair_width(radius: Any, known: PhaseStatistics, k: int, j: int) -> float:
    """Return by hand how far j must be ahead of k for k to go, in a batch of one."""
    log = math.log(1000)
    phase = int(np.asarray(known.phase))
    v = (known.estimate.pull_variance + known.estimate.client_variance).tolist()
    if radius.rule == "paper":
        parts = (known.estimate.pull_variance, known.estimate.client_variance)
        return sum(math.sqrt(6 * log * float(part[arm])) for part in parts for arm in (k, j))
    if radius.rule == "joint":
        return math.sqrt(6 * log * v[k]) + math.sqrt(6 * log * v[j])
    proxy = v[k] + v[j]
    if getattr(radius, "dependence", None) == "any":
        proxy = (math.sqrt(v[k]) + math.sqrt(v[j])) ** 2
    if radius.rule == "pairwise":
        return math.sqrt(2 * proxy * 3 * log)
    rivals = known.n_arms - 1
    delta = float(radius.delta.value(1000))
    level = 6 * delta / (math.pi**2 * phase**2 * rivals)
    if radius.rule == "certified":
        return math.sqrt(2 * proxy * -math.log(level))
    if radius.rule == "paired-t":
        assert known.estimate.client_means is not None
        difference = known.estimate.client_means[j] - known.estimate.client_means[k]
        quantile = float(stats.t.ppf(1 - level, difference.size - 1))
        return quantile * float(difference.std(ddof=1)) / math.sqrt(difference.size)
    if radius.rule == "bernstein":
        total = bernstein_variance(known, k, delta) + bernstein_variance(known, j, delta)
        twice = 2 if radius.dependence == "any" else 1
        half = -math.log(level / 2)
        heaviest = float(known.estimate.heaviest_pull[known.active].max())
        return math.sqrt(2 * twice * total * half) + twice * heaviest * half
    raise AssertionError(radius.rule)


def bernstein_variance(known: PhaseStatistics, arm: int, delta: float) -> float:
    """Return the variance of an estimate by hand: the largest that its rates allow, by halving."""
    phase = int(np.asarray(known.phase))
    log = math.log(2 * 2 * known.n_arms * math.pi**2 * phase**2 / (6 * delta))
    w, eta = float(known.estimate.heaviest_pull[arm]), float(known.estimate.pull_factor[arm])
    clients = float(known.estimate.client_variance[arm])
    pulls = eta if known.estimate.independent_clients else w
    estimate = min(max(float(known.estimate.values[arm]), 0.0), 1.0)
    highest = []
    for rate in (estimate, 1 - estimate):
        low, high = rate, 1e6
        for _ in range(200):
            middle = (low + high) / 2
            fits = middle - rate <= math.sqrt(2 * (middle * pulls + clients) * log) + w * log
            low, high = (middle, high) if fits else (low, middle)
        highest.append(high)
    return min(min(highest) * pulls, eta / 4) + clients


@pytest.mark.parametrize("name", sorted(set(RADII) - {"chernoff"}))
@modest
@given(seed=seeds, n_arms=st.integers(2, 6))
def test_who_stays_and_by_what_margin_is_as_a_loop_over_pairs_finds_it(
    name: str, seed: int, n_arms: int
) -> None:
    known = member(known_at(seed, (1,), n_arms), (0,))
    estimates = known.estimate.values.tolist()
    arms = np.flatnonzero(known.active).tolist()
    best = max(arms, key=lambda arm: estimates[arm])
    for radius in variants_of(name):
        widths = {(k, j): pair_width(radius, known, k, j) for k in arms for j in arms if k != j}
        beaten = {k for (k, j), width in widths.items() if estimates[j] - estimates[k] >= width}
        stays = radius.stays(known)
        assert stays.tolist() == [
            k in arms and (k == best or k not in beaten) for k in range(n_arms)
        ]
        margins = radius.margins(known)
        for k in arms:
            own = [width for (one, _), width in widths.items() if one == k]
            assert margins[k] == pytest.approx(max(own, default=0.0), rel=1e-9)


@modest
@given(seed=seeds, n_arms=st.integers(2, 6))
def test_chernoff_compares_the_ends_where_the_divergence_is_used_up(seed: int, n_arms: int) -> None:
    known = member(known_at(seed, (1,), n_arms), (0,))
    arms = np.flatnonzero(known.active).tolist()
    for radius in variants_of("chernoff"):
        assert isinstance(radius, fb.ChernoffRadius)
        delta = 0.3 if "0.3" in str(radius.delta) else 0.001
        log = math.log(2 * n_arms * math.pi**2 * int(np.asarray(known.phase)) ** 2 / (6 * delta))
        ends = {}
        for arm in arms:
            rate = min(max(float(known.estimate.values[arm]), 0.0), 1.0)
            most = float(log * known.estimate.heaviest_pull[arm])
            grid = np.linspace(0.0, 1.0, 20_001)
            with np.errstate(divide="ignore", invalid="ignore"):
                parts = [
                    np.where(share > 0, share * np.log(share / other), 0.0)
                    for share, other in ((rate, grid), (1 - rate, 1 - grid))
                ]
            inside = grid[parts[0] + parts[1] <= most]
            inside = np.append(inside, rate)
            clients = math.sqrt(2 * float(known.estimate.client_variance[arm]) * log)
            ends[arm] = (inside.min() - clients, inside.max() + clients)
        widths = radius.half_widths(known)
        margins = radius.margins(known)
        for k in arms:
            lower, upper = ends[k]
            assert widths[k] == pytest.approx((upper - lower) / 2, abs=1e-4)
            own = known.estimate.values[k] - lower
            others = [ends[j][1] - known.estimate.values[j] for j in arms if j != k]
            assert margins[k] == pytest.approx(own + max(others) if others else 0.0, abs=2e-4)
        highest = max(lower for lower, _ in ends.values())
        stays = radius.stays(known)
        for k in arms:
            if abs(ends[k][1] - highest) > 2e-4 and k != best_active(
                known.estimate.values, known.active
            ):
                assert stays[k] == (ends[k][1] > highest)
