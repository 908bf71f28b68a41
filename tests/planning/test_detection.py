"""Which gaps can be detected, with how many clients and pulls."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.planning.detection import Detector, feasibility, gap_table
from fedbandits.planning.question import Question, least_favourable
from fedbandits.simulation.releases import NormalPrivacy

# Detection ----------------------------------------------------------------------------------------

DETECTORS = st.builds(
    Detector,
    n_arms=st.integers(2, 100),
    noise=st.floats(0.01, 2.0),
    spread=st.floats(0.01, 1.0),
    delta=st.floats(1e-9, 0.5),
    population=st.none() | st.integers(2, 5000),
    power=st.floats(0.5, 0.99),
    phase=st.integers(1, 20),
)


def test_the_smallest_gap_is_the_width_and_what_estimates_scatter() -> None:
    detector = Detector(n_arms=10, noise=0.5, spread=0.02, delta=0.05, population=1000, phase=3)
    variance = 0.02**2 * (1 / 200 - 1 / 1000) + 0.5**2 / (200 * 30)
    width = math.sqrt(4 * variance * math.log(9 * math.pi**2 * 9 / (6 * 0.05)))
    scatter = 2.2865 * math.sqrt(2 * variance)  # the normal quantile of 1 - 0.1/9
    assert float(detector.smallest_gap(200, 30)) == pytest.approx(width + scatter, rel=1e-4)
    half = Detector(n_arms=2, noise=1.0, spread=0.0, delta=0.05, power=0.5)
    alone = math.sqrt(4 * math.log(math.pi**2 / (6 * 0.05)))
    assert float(half.smallest_gap(1, 1)) == pytest.approx(alone)


@settings(max_examples=50, deadline=None)
@given(detector=DETECTORS, gap=st.floats(0.005, 1.0), pulls=st.integers(1, 10_000))
def test_fewest_clients_are_enough_and_one_fewer_is_not(
    detector: Detector, gap: float, pulls: int
) -> None:
    for n in (float(pulls), math.inf):
        fewest = detector.fewest_clients(gap, n)
        if fewest is None:
            assert detector.population is not None
            assert float(detector.smallest_gap(detector.population, n)) > gap
            continue
        assert float(detector.smallest_gap(fewest, n)) <= gap * (1 + 1e-9)
        if fewest > 1:
            assert float(detector.smallest_gap(fewest - 1, n)) > gap * (1 - 1e-9)


@settings(max_examples=50, deadline=None)
@given(detector=DETECTORS, gap=st.floats(0.005, 1.0), clients=st.integers(1, 3000))
def test_fewest_pulls_are_enough_and_one_fewer_is_not(
    detector: Detector, gap: float, clients: int
) -> None:
    clients = min(clients, detector.population or clients)
    fewest = detector.fewest_pulls(gap, clients)
    if fewest is None:
        assert float(detector.smallest_gap(clients)) >= gap * (1 - 1e-9)
        return
    assert float(detector.smallest_gap(clients, fewest)) <= gap * (1 + 1e-9)
    if fewest > 1:
        assert float(detector.smallest_gap(clients, fewest - 1)) > gap * (1 - 1e-9)


@settings(max_examples=50, deadline=None)
@given(detector=DETECTORS)
def test_more_of_anything_detects_smaller_gaps(detector: Detector) -> None:
    clients = np.array([1.0, 2.0, 5.0, 20.0, 100.0, 1000.0])
    clients = clients[clients <= (detector.population or np.inf)]
    for pulls in (1.0, 50.0, math.inf):
        assert (np.diff(detector.smallest_gap(clients, pulls)) < 0).all()
    few, many = detector.smallest_gap(clients, 3), detector.smallest_gap(clients, 30)
    assert (many < few).all()
    # A finite population is easier than everybody.
    everyone = Detector(
        n_arms=detector.n_arms, noise=detector.noise, spread=detector.spread, delta=detector.delta,
        power=detector.power, phase=detector.phase,
    )  # fmt: skip
    assert (detector.smallest_gap(clients) <= everyone.smallest_gap(clients)).all()


@pytest.mark.parametrize("population", [None, 60])
def test_a_detectable_gap_is_found_with_the_stated_power(population: int | None) -> None:
    """One look of the certified rule, simulated, at the smallest detectable gap."""
    n_arms, clients, pulls = 5, 40, 10
    detector = Detector(
        n_arms=n_arms, noise=0.5, spread=0.1, delta=0.05, population=population, power=0.9
    )
    gap = float(detector.smallest_gap(clients, pulls))
    game = fb.Approximate(
        means=[gap] + [0.0] * (n_arms - 1),
        noise=fb.Gaussian(0.5),
        spread=fb.Gaussian(0.1),
        population=population,
    )
    look = fb.Fed2Ucb(pulls=pulls, admissions=clients, radius=fb.CertifiedRadius(delta=0.05))
    run = fb.simulate(game, look, horizon=None, max_phases=1, replications=2000, seed=3)
    found = (run.games.winner == 0).mean()
    # The union bound over rivals is nearly sharp.
    assert 0.9 - 4 * math.sqrt(0.09 / 2000) < found < 0.95


def test_arms_that_are_far_behind_cost_no_power() -> None:
    """One look at the smallest detectable gap, the other arms two to five times as far behind."""
    ratios = (1.0, 2.0, 2.0, 5.0)
    detector = Detector(n_arms=5, noise=0.5, spread=0.1, delta=0.05, ratios=ratios)
    hardest = Detector(n_arms=5, noise=0.5, spread=0.1, delta=0.05)
    gap = float(detector.smallest_gap(40, 10))
    assert gap < float(hardest.smallest_gap(40, 10))
    assert detector.chance(gap, 40, 10) == pytest.approx(0.9, abs=1e-6)
    game = fb.Approximate(
        means=[0.0, *(-gap * ratio for ratio in ratios)],
        noise=fb.Gaussian(0.5),
        spread=fb.Gaussian(0.1),
    )
    look = fb.Fed2Ucb(pulls=10, admissions=40, radius=fb.CertifiedRadius(delta=0.05))
    run = fb.simulate(game, look, horizon=None, max_phases=1, replications=2000, seed=3)
    assert abs((run.games.winner == 0).mean() - 0.9) < 5 * math.sqrt(0.09 / 2000)


def test_what_is_said_of_one_look_is_the_chance_of_one_look() -> None:
    """All 50 clients, for an unlimited population, within 150 slots."""
    question = least_favourable(
        n_arms=3, gap=0.15, noise=0.5, spread=0.1, population=50, horizon=150, delta=0.05
    )
    found = feasibility(question)
    assert found.pulls == 50
    assert found.chance_unlimited is not None
    game = fb.Approximate(
        means=question.means, noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.1), population=None
    )
    look = fb.Fed2Ucb(pulls=50, admissions=50, radius=fb.CertifiedRadius(delta=0.05))
    run = fb.simulate(game, look, horizon=None, max_phases=1, replications=4000, seed=3)
    happened = (run.games.winner == 0).mean()
    # The union bound over two rivals is nearly sharp.
    assert -0.02 < happened - found.chance_unlimited < 0.04


@pytest.mark.parametrize("privacy", ["rounded", "event", "user"])
def test_a_detectable_gap_is_found_with_protected_means(privacy: str) -> None:
    policy = {
        "rounded": fb.Privacy(range=(0, 1), quantize=fb.Quantize(bits=4)),
        "event": fb.Privacy(range=(0, 1), noise="gaussian", epsilon=1.0, delta=1e-6),
        "user": fb.Privacy(range=(0, 1), noise="gaussian", rho=2.0, level="user", releases=4),
    }[privacy]
    detector = Detector(n_arms=3, noise=0.5, spread=0.1, delta=0.05, privacy=policy)
    gap = float(detector.smallest_gap(400, 40))
    bare = Detector(n_arms=3, noise=0.5, spread=0.1, delta=0.05)
    assert gap > float(bare.smallest_gap(400, 40))
    question = least_favourable(n_arms=3, gap=gap, noise=0.5, spread=0.1, privacy=policy)
    found = 0.0
    for phases in (1, 2, 4):
        look = fb.Fed1Ucb(pulls=40 // phases, radius=fb.CertifiedRadius(delta=0.05))
        # These are all clients there are, so that what others would leave open is put into noise.
        noise = math.sqrt(0.5**2 + 40 * 0.1**2)
        game = fb.Approximate(
            means=question.means,
            noise=fb.Gaussian(noise),
            spread=fb.Gaussian(0.0),
            population=400,
        )
        run = fb.simulate(
            game, look, horizon=None, max_phases=phases, replications=2000, seed=3,
            privacy=NormalPrivacy.of(policy),
        )  # fmt: skip
        found = max(found, (run.games.winner == 0).mean())
    # Earlier looks may find it as well; rounding scatters less than its proxy.
    assert 0.9 - 5 * math.sqrt(0.09 / 2000) < found < 0.99


def test_a_short_horizon_is_counted_in_what_is_within_reach(quick: None) -> None:
    asked: dict[str, Any] = {"n_arms": 3, "gap": 0.1, "noise": 0.5, "spread": 0.1}
    late = fb.plan(**asked, clients=50, horizon=50)
    assert not late.feasibility.within_reach
    said = "\n".join(late.answer())
    assert "out of reach" in said
    assert "16 times, which is what 50 slots allow" in said
    assert "leave the number of clients out" not in said.lower()
    assert "even all 50 clients together would need about" in said
    long = fb.plan(**asked, clients=50)
    assert long.feasibility.within_reach
    assert f"with {96.5:g} %" in "\n".join(long.answer())


def test_feasibility_without_a_population_and_with_a_horizon() -> None:
    asked: dict[str, Any] = {"n_arms": 4, "gap": 0.1, "noise": 0.5, "spread": 0.05}
    assert feasibility(least_favourable(**asked)).within_reach
    # Of means that are known the actual gaps count.
    known = Question(means=(0.5, 0.4, 0.3, 0.2), noise=0.5, spread=0.05)
    hardest = feasibility(least_favourable(**asked)).clients_unlimited
    easier = feasibility(known).clients_unlimited
    assert hardest is not None
    assert easier is not None
    assert easier < hardest
    assert not feasibility(least_favourable(horizon=3, **asked)).fits
    tight = feasibility(least_favourable(population=20, horizon=40, **asked))
    assert tight.pulls_of_all is not None
    assert not tight.fits
    assert tight.gap_finite is not None
    assert tight.gap_finite > 0.1


def test_the_table_of_gaps_ends_at_nothing_for_a_finite_population() -> None:
    question = least_favourable(n_arms=3, gap=0.05, noise=0.5, spread=0.2, population=100)
    table = gap_table(question, 50)
    rows = list(
        zip(*(table[key] for key in ("population", "pulls", "clients", "gap")), strict=True)
    )
    finite = [row for row in rows if row[:2] == ("finite", "any")]
    assert finite[-1][2:] == (100.0, 0.0)
    for kind in ("finite", "unlimited"):
        gaps = [row[3] for row in rows if row[:2] == (kind, "50")]
        assert (np.diff(gaps) < 0).all()
