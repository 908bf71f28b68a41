"""What protection adds to the widths of rules."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.privacy.policy import Privacy
from fedbandits.protocol import (
    Server,
)
from fedbandits.rules.algorithms import Fed2Ucb
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.distortion import UNDISTORTED, Distortion, DistortionSums, ReleaseError
from fedbandits.rules.estimators import InverseVariance, Plain
from fedbandits.rules.radii import Radius
from protection import GAUSSIAN, LAPLACE, NEAREST, SEED, STOCHASTIC, client_of, fed1, repeatable
from rule_calls import decided, width_of

# The algebra of errors ---------------------------------------------------------------------------

amounts = st.floats(0.0, 10.0)
releases = st.lists(st.tuples(st.integers(0, 1000), amounts, amounts, amounts), min_size=1)


@repeatable
@given(releases)
def test_sums_over_phases_are_the_direct_formula(phases: list[tuple[int, ...]]) -> None:
    sums = DistortionSums.nothing((1,))
    for n, variance, scale, bias in phases:
        sums = sums.released(n, ReleaseError(variance=variance, scale=scale, bias=bias))
    n, d, c, b = np.array(phases, dtype=np.float64).T
    total = max(n.sum(), 1.0)
    found = sums.over(np.array([n.sum()]))
    assert found.variance[0] == pytest.approx((n**2 * d).sum() / total**2, rel=1e-12)
    assert found.scale[0] == pytest.approx((n * c).max() / total, rel=1e-12)
    assert found.bias[0] == pytest.approx((n * b).sum() / total, rel=1e-12)


@repeatable
@given(st.lists(st.tuples(st.integers(1, 1000), st.integers(0, 3)), min_size=1, max_size=8))
def test_who_joins_later_has_the_errors_of_fewer_phases(phases: list[tuple[int, int]]) -> None:
    error = ReleaseError(variance=0.04, scale=0.1, bias=0.01)
    sums, joined = DistortionSums.nothing((0,)), []
    for number, (pulls, newcomers) in enumerate(phases):
        sums = sums.admitted(newcomers).released(pulls, error)
        joined += [number] * newcomers
    for client, first in enumerate(joined):
        n = np.array([pulls for pulls, _ in phases[first:]], dtype=np.float64)
        found = sums.over(np.full(len(joined), n.sum()))
        assert found.variance[client] == pytest.approx(0.04 * (n**2).sum() / n.sum() ** 2)
        assert found.scale[client] == pytest.approx(0.1 * n.max() / n.sum())
        assert found.bias[client] == pytest.approx(0.01)


groups = st.lists(
    st.tuples(st.integers(0, 6), st.floats(0.01, 10.0), amounts, amounts, amounts), min_size=1
)


@repeatable
@given(groups)
def test_groups_are_averaged_as_their_clients_are_one_by_one(
    members: list[tuple[int, float, float, float, float]],
) -> None:
    sizes, each, d, c, b = (np.array(part) for part in zip(*members, strict=True))
    by_group = Distortion(variance=d, scale=c, bias=b).averaged(each * sizes, sizes)
    d, c, b, weights = (np.repeat(part, sizes) for part in (d, c, b, each))
    if not sizes.sum():
        return
    one_by_one = Distortion(variance=d, scale=c, bias=b).averaged(weights)
    shares = weights / weights.sum()
    for found in (by_group, one_by_one):
        assert found.variance == pytest.approx((shares**2 * d).sum(), rel=1e-9)
        assert found.scale == pytest.approx((shares * c).max(), rel=1e-9)
        assert found.bias == pytest.approx((shares * b).sum(), rel=1e-9)


RADII: list[Radius] = [
    fb.PaperRadius(),
    fb.JointRadius(),
    fb.PairwiseRadius(),
    fb.CertifiedRadius(delta=0.1),
    fb.BernsteinRadius(range=(0, 1), delta=0.1),
    fb.ChernoffRadius(range=(0, 1), delta=0.1),
    fb.PairedTRadius(delta=0.1),
]


@pytest.mark.parametrize("radius", RADII, ids=lambda radius: str(radius.rule))
@pytest.mark.parametrize("weights", ["equal", "inverse-variance"])
def test_without_protection_decisions_are_the_same_to_the_last_bit(
    radius: Radius, weights: Any
) -> None:
    """Left out, nothing, and errors of nothing: one verdict."""
    if radius.needs_each_client:
        weights = "equal"  # its only ones
    rng = np.random.default_rng(SEED)
    rule = dataclasses.replace(
        Fed2Ucb(pulls=10, admissions=4, radius=radius).rule(
            Beliefs(n_arms=4, horizon=10**4, noise=0.1, spread=0.02)
        ),
        estimator=Plain() if weights == "equal" else InverseVariance(),
    )
    for _ in range(20):
        counts = rng.integers(1, 200, 40)[np.newaxis].repeat(4, axis=0)
        means = rng.normal(rng.uniform(0.2, 0.8, (4, 1)), 0.05, (4, 40))
        known: dict[str, Any] = {
            "phase": 3,
            "active": np.array([True, True, False, True]),
            "estimates": means.mean(axis=1),
            "counts": counts,
            "client_means": means if radius.needs_each_client else None,
        }
        nothing = DistortionSums.nothing((4, 40)).released(counts, ReleaseError()).over(counts)
        plain = decided(rule, **known)
        # "chernoff" has an event more wherever means are protected, however little.
        for distortion in (UNDISTORTED, nothing)[: 1 if radius.rule == "chernoff" else 2]:
            verdict = decided(rule, **known, distortion=distortion)
            assert verdict.active.tolist() == plain.active.tolist()
            assert verdict.widths.tobytes() == plain.widths.tobytes()
            assert verdict.settled == plain.settled
        # Something is seen.
        some = DistortionSums.nothing((4, 40)).released(counts, ReleaseError(bias=0.01))
        wider = decided(rule, **known, distortion=some.over(counts))
        active = known["active"]
        shapes = [np.broadcast_to(verdict.widths, 4)[active] for verdict in (plain, wider)]
        assert (shapes[1] > shapes[0]).all()


@pytest.mark.parametrize("privacy", [NEAREST, STOCHASTIC, GAUSSIAN, LAPLACE])
def test_a_server_widens_by_what_its_clients_did(privacy: Privacy) -> None:
    """And without a policy by nothing."""
    rule = fed1(noise=0.5, radius=fb.CertifiedRadius(delta=0.1), clients=4)
    widths = {}
    for held in (None, privacy):
        server = Server(rule, privacy=held)
        clients = [client_of(number, held) for number in range(4)]
        assignment = server.open([client.name for client in clients])
        for client in clients:
            assert server.receive(client.play(assignment)) is None
        widths[held] = np.array(server.close().widths)
    counts = np.full((3, 4), 20)
    bare = width_of(rule, phase=1, counts=counts)
    assert widths[None].tolist() == np.broadcast_to(bare, 3).tolist()
    error = privacy.mechanism(20, 3).error
    distortion = DistortionSums.nothing((3, 4)).released(20, error).over(counts)
    assert widths[privacy] == pytest.approx(
        width_of(rule, phase=1, counts=counts, distortion=distortion), rel=1e-12
    )
    assert (widths[privacy] > widths[None]).all()
