"""Fidelities agree and regret keeps its order where clients protect their means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats

import fedbandits as fb
from fedbandits.privacy.mechanisms import Rounded
from fedbandits.privacy.policy import Widening
from fedbandits.problems import Problem
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.distortion import (
    UNDISTORTED,
)
from fedbandits.rules.phased import PhasedRule, Weights
from fedbandits.rules.radii import Radius
from fedbandits.simulation import build_rules
from fedbandits.simulation.clients import ClientEvidence
from fedbandits.simulation.game import Game, PlayedGames
from fedbandits.simulation.phases import Played, play_phases
from fedbandits.simulation.regret import make_grid
from protected_means import _LENGTH, UNIT, WIDE, noised, rounded
from same_law import LEVEL, p_values

# Fidelities draw from one law --------------------------------------------------------------------

BERNOULLI = fb.Approximate(
    means=[0.3, 0.5, 0.7], noise=fb.Bernoulli(), spread=fb.Beta(0.1), name="bernoulli"
)
NORMAL = fb.Approximate(
    means=[0.3, 0.5, 0.7], noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.1), name="normal"
)


def play(
    problem: Problem,
    privacy: fb.Privacy,
    fidelity: str,
    *,
    seed: int,
    replications: int,
    weights: Weights = "equal",
) -> PlayedGames:
    return fb.simulate(
        problem,
        fb.Fed2Ucb(pulls=20, admissions=2, radius=fb.CertifiedRadius(delta=0.3), weights=weights),
        horizon=10_000,
        replications=replications,
        seed=seed,
        fidelity=fidelity,
        privacy=privacy,
        max_phases=4,
        workers=1,
        grid_points=1,
        trace=True,
    ).games


def scores(a: PlayedGames, b: PlayedGames) -> dict[str, float]:
    """Return by how many standard errors means of two samples differ."""
    found = {}
    for name in ("total", "clients", "phases", "uplink_bits"):
        x, y = (np.asarray(getattr(outcome, name), dtype=np.float64) for outcome in (a, b))
        error = math.sqrt(x.var(ddof=1) / x.size + y.var(ddof=1) / y.size)
        assert error > 0, name
        found[name] = float((x.mean() - y.mean()) / error)
    return found


PAIRS: dict[str, tuple[Problem, fb.Privacy, tuple[str, str], int, Weights]] = {
    "stochastic, 4 bits": (BERNOULLI, rounded(4), ("clients", "pulls"), 350, "equal"),
    "laplace": (BERNOULLI, noised("laplace", 0.1), ("clients", "pulls"), 350, "equal"),
    "gaussian": (
        BERNOULLI,
        noised("gaussian", 0.15),
        ("clients", "pulls"),
        350,
        "inverse-variance",
    ),
    "an event": (
        NORMAL,
        fb.Privacy(range=WIDE, noise="gaussian", rho=40.0),
        ("cohorts", "clients"),
        1_500,
        "equal",
    ),
    "a user": (
        NORMAL,
        fb.Privacy(range=WIDE, noise="gaussian", rho=4e5, level="user", releases=4),
        ("cohorts", "clients"),
        1_500,
        "equal",
    ),
    "a user, inverse-variance": (
        NORMAL,
        fb.Privacy(range=WIDE, noise="gaussian", rho=4e5, level="user", releases=4),
        ("cohorts", "clients"),
        1_500,
        "inverse-variance",
    ),
}


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_fidelities_agree_where_means_are_protected(name: str) -> None:
    problem, privacy, pair, replications, weights = PAIRS[name]
    one, other = (
        play(problem, privacy, fidelity, seed=seed, replications=replications, weights=weights)
        for seed, fidelity in enumerate(pair, start=220)
    )
    found = p_values(one, other)
    assert min(found.values()) > LEVEL, found
    differ = scores(one, other)
    assert max(abs(score) for score in differ.values()) < 4, differ
    assert (one.spent.mean() > 0.05) == (privacy.level == "user")


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("stochastic, 4 bits", rounded(2)),
        ("laplace", noised("laplace", 0.14)),
        ("gaussian", noised("gaussian", 0.21)),
        ("an event", fb.Privacy(range=WIDE, noise="gaussian", rho=40.0 / 1.3)),
        (
            "a user",
            fb.Privacy(range=WIDE, noise="gaussian", rho=4e5 / 1.3, level="user", releases=4),
        ),
    ],
)
def test_the_tests_reject_another_scale(name: str, wrong: fb.Privacy) -> None:
    problem, privacy, (_, fidelity), replications, weights = PAIRS[name]
    fidelity = "clients" if fidelity == "pulls" else fidelity
    one, other = (
        play(problem, policy, fidelity, seed=seed, replications=replications, weights=weights)
        for seed, policy in ((220, privacy), (221, wrong))
    )
    assert min(p_values(one, other).values()) < LEVEL


# The order of the regret -------------------------------------------------------------------------

HORIZONS = [10**4, 10**5, 10**6, 10**7, 10**8]
_FIVE = np.array([0.3, 0.4, 0.5, 0.65]) + np.linspace(-0.2, 0.2, 5)[:, np.newaxis]
CLOSE = fb.Exact(local_means=_FIVE, noise=fb.Gaussian(0.5), name="close")
CLOSE_RATES = fb.Exact(local_means=_FIVE, noise=fb.Bernoulli(), name="close rates")


def regrets(
    problem: Problem, radius: Radius, privacies: Sequence[fb.Privacy | None], replications: int
) -> FloatArray:
    """Return regrets, shape (horizons, replications); the games share their draws."""
    return np.array(
        [
            fb.simulate(
                problem,
                fb.Fed1Ucb(pulls=10, radius=radius),
                horizon=horizon,
                replications=replications,
                seed=230,
                privacy=privacy,
                workers=1,
                grid_points=1,
            ).games.total
            for horizon, privacy in zip(HORIZONS, privacies, strict=True)
        ]
    )


def slope(totals: FloatArray) -> tuple[float, FloatArray]:
    """Return the slope of log regret against log log T, and what each replication moves it by."""
    x = np.log(np.log(HORIZONS))
    lever = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
    means = totals.mean(axis=1)
    return float(lever @ np.log(means)), lever @ (totals / means[:, np.newaxis])


def expected_slope(radius: Radius, of_release: float) -> float:
    """Return the slope if every arm went when its gap is its width, in theory.

    Of the paper's radius it is 1 but for the last phase, which is played to its end. In the
    certified width is ln p, too, so that its slope is below 1 and the lower the more phases.
    """
    gaps = [0.15, 0.25, 0.35]
    totals = []
    for horizon in HORIZONS:
        log = math.log(horizon)
        phases = []
        for gap in gaps:
            # After p phases of ten pulls by five clients.
            share = (0.25 / 10 + of_release) / 5 / gap**2
            p = 24 * share * log
            for _ in range(100 if radius.rule == "certified" else 0):
                p = 4 * share * (math.log(3 * math.pi**2 / 6) + log + 2 * math.log(p))
            phases.append(p + 0.5)
        pulls = 5 * 10 * sum(gap * p for gap, p in zip(gaps, phases, strict=True))
        totals.append([pulls + 5 * phases[0]])
    return slope(np.array(totals))[0]


# What protects them, how many replications, and the variance proxy of what one release is off by.
ORDERS: dict[str, tuple[Problem, fb.Privacy, int, float]] = {
    "gaussian": (
        CLOSE,
        fb.Privacy(range=WIDE, noise="gaussian", rho=133.0),
        600,
        (_LENGTH / 10) ** 2 / 266,
    ),
    "stochastic, 8 bits": (CLOSE_RATES, rounded(8), 20, 1 / (4 * 255**2)),
    "stochastic, 3 bits": (CLOSE_RATES, rounded(3), 20, 1 / (4 * 7**2)),
}


@pytest.mark.parametrize("radius", [fb.CertifiedRadius(), fb.PaperRadius()], ids=lambda r: r.rule)
@pytest.mark.parametrize("name", sorted(ORDERS))
def test_the_order_of_the_regret_is_what_it_is_without_protection(
    name: str, radius: Radius
) -> None:
    problem, privacy, replications, of_release = ORDERS[name]
    without = regrets(problem, radius, [None] * len(HORIZONS), replications)
    protected = regrets(problem, radius, [privacy] * len(HORIZONS), replications)
    (plain, one), (private, other) = slope(without), slope(protected)
    error = (one - other).std(ddof=1) / math.sqrt(replications)
    expected = expected_slope(radius, of_release) - expected_slope(radius, 0.0)
    # Chance lets arms go a little before theory does, which is worth up to 0.02 here.
    allowed = 0.02 + stats.norm.ppf(0.995) * error
    assert abs(private - plain - expected) < allowed, (plain, private, expected, error)
    # Regret over log T does not grow with T.
    for totals in (without, protected):
        by_log = totals.mean(axis=1) / np.log(HORIZONS)
        assert 0.6 < by_log[-1] / by_log[0] < 1.05


def test_the_test_rejects_noise_whose_cost_grows_with_log_t() -> None:
    growing = [noised("gaussian", 0.3 * math.sqrt(math.log(t)), WIDE) for t in HORIZONS]
    totals = regrets(CLOSE, fb.PaperRadius(), growing, 50)
    assert slope(totals)[0] > 1.5
    by_log = totals.mean(axis=1) / np.log(HORIZONS)
    assert by_log[-1] > 1.5 * by_log[0]


# Persons, and bits by the radius -----------------------------------------------------------------


def test_a_person_with_5_observations_costs_what_an_event_of_5_times_the_range_does() -> None:
    person = fb.Privacy(
        range=WIDE, noise="gaussian", epsilon=20.0, delta=1e-6, level="person", observations=5
    )
    low, high = WIDE
    event = fb.Privacy(
        range=(low - 2 * _LENGTH, high + 2 * _LENGTH),
        noise="gaussian",
        epsilon=20.0,
        delta=1e-6,
    )
    once = replace(event, range=WIDE)
    for pulls in (10, 20, 100):
        scales = [float(policy.noise_scale(pulls, 4)) for policy in (person, event, once)]
        assert scales[0] == pytest.approx(scales[1], rel=1e-5)
        assert scales[0] == pytest.approx(5 * scales[2], rel=1e-5)
    runs = [
        fb.simulate(
            CLOSE,
            fb.Fed1Ucb(pulls=50, radius=fb.CertifiedRadius()),
            horizon=10**5,
            replications=200,
            seed=240,
            privacy=policy,
            workers=1,
            grid_points=1,
        ).games
        for policy in (person, event, once)
    ]
    # The same draws, so all but the last bits of the scales is the same.
    assert runs[0].total.mean() == pytest.approx(runs[1].total.mean(), rel=1e-3)
    assert runs[0].total.mean() > 2 * runs[2].total.mean()


class Watched(ClientEvidence):
    """Clients of whom everything is remembered."""

    seen: list[Played]

    def __init__(self, games: Sequence[Game], replications: IntArray) -> None:
        super().__init__(games, replications)
        self.seen = []

    def play(self, phase: int, pulls: IntArray, active: BoolArray, n_phases: int) -> Played:
        played = super().play(phase, pulls, active, n_phases)
        self.seen.append(played)
        return played


def watched(
    radius: Radius, privacy: fb.Privacy | None
) -> tuple[PhasedRule, list[Played], PlayedGames]:
    """Play 20 replications of a game and return all that was seen of it."""
    variant = fb.Variant(
        label="it",
        problem=CLOSE_RATES,
        algorithm=fb.Fed1Ucb(pulls=10, radius=radius),
        privacy=privacy,
        max_phases=60,
    )
    ((rule, _),) = build_rules([variant], 10**6)
    assert isinstance(rule, PhasedRule)
    kept: list[Watched] = []

    def evidence(games: Sequence[Game], replications: IntArray) -> Watched:
        kept.append(Watched(games, replications))
        return kept[-1]

    game = Game(
        problem=CLOSE_RATES,
        rule=rule,
        communication_cost=1.0,
        seed=241,
        grid=make_grid(10**6, 1),
        memory_limit=2**30,
        trace=True,
        privacy=privacy,
    )
    (outcome,) = play_phases([game], np.arange(20), evidence)
    return rule, kept[0].seen, outcome


BY_RADIUS = [fb.PaperRadius(), fb.JointRadius(), fb.PairwiseRadius(), fb.CertifiedRadius()]


@dataclass(frozen=True)
class Errs:
    """What rounding does in a phase, with the half-width of an interval before and after it."""

    bits: int
    largest: float
    claimed: float
    width: float
    widened: float


def rounding_errors(radius: Radius, widening: Widening) -> list[Errs]:
    """Return what nearest rounding does, with bits by the radius, in every phase of 20 games."""
    privacy = fb.Privacy(
        range=UNIT, quantize=fb.Quantize(bits="radius", rounding="nearest", widening=widening)
    )
    rule, seen, private = watched(radius, privacy)
    # The same draws of games in which nothing is ever dropped, nor rounded.
    _, _, plain = watched(fb.PaperRadius(arm=1e9), None)
    assert private.trace is not None
    assert plain.trace is not None
    found = []
    for phase, played in enumerate(seen, start=1):
        left = played.estimate
        bare, wide = (
            rule.radius.half_widths(rule._known(phase, np.zeros(1, np.bool_), estimate))
            for estimate in (replace(left, distortion=UNDISTORTED), left)
        )
        off = np.abs(private.trace[phase - 1] - plain.trace[phase - 1])
        found.append(
            Errs(
                bits=played.bits,
                largest=float(np.nanmax(off)),
                claimed=float(left.distortion.bias.max()),
                width=float(bare.max()),
                widened=float(wide.max()),
            )
        )
    return found


@pytest.mark.parametrize("widening", ["exact", "paper"])
@pytest.mark.parametrize("radius", BY_RADIUS, ids=lambda radius: radius.rule)
def test_with_bits_by_the_radius_rounding_errs_by_no_more(
    radius: Radius, widening: Widening
) -> None:
    phases = rounding_errors(radius, widening)
    assert len(phases) >= 20
    for errs in phases:
        assert errs.largest <= errs.claimed + 1e-12
        assert errs.claimed <= errs.width * (1 + 1e-12)
        if widening == "paper":
            assert errs.widened == 2 * errs.width
        else:
            assert errs.widened == pytest.approx(errs.width + errs.claimed, rel=1e-12)
    # As few bits as that allows: with one less the first phase would err by more.
    first = phases[0]
    assert first.bits == 1 or 0.5 / (2 ** (first.bits - 1) - 1) > first.width
    assert max(errs.bits for errs in phases) < 12


def test_rounding_to_two_bits_fewer_than_it_says_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = Rounded.places

    def coarser(self: Rounded, means: FloatArray, rng: np.random.Generator) -> IntArray:
        coarse = replace(self, bits=max(1, self.bits - 2))
        return right(self, coarse.values(right(coarse, means, rng)), rng)

    monkeypatch.setattr(Rounded, "places", coarser)
    phases = rounding_errors(fb.PaperRadius(), "paper")
    assert any(errs.largest > errs.claimed for errs in phases)
    assert any(errs.largest > errs.width for errs in phases)


@pytest.mark.parametrize(
    "radius",
    [fb.PaperRadius(), fb.PairwiseRadius(), fb.CertifiedRadius()],
    ids=lambda radius: radius.rule,
)
def test_the_paper_s_widening_costs_about_four_times_the_regret(radius: Radius) -> None:
    doubled = fb.Privacy(
        range=UNIT,
        quantize=fb.Quantize(bits="radius", rounding="nearest", widening="paper"),
    )
    outcomes = [
        fb.simulate(
            CLOSE_RATES,
            fb.Fed1Ucb(pulls=10, radius=radius),
            horizon=10**6,
            replications=20,
            seed=242,
            privacy=privacy,
            workers=1,
            grid_points=1,
        ).games
        for privacy in (None, doubled)
    ]
    assert all((outcome.winner == 3).all() for outcome in outcomes)
    once, twice = (outcome.total for outcome in outcomes)
    ratio = twice.mean() / once.mean()
    error = (twice / once.mean() - ratio * once / once.mean()).std(ddof=1) / math.sqrt(once.size)
    assert ratio - 3 * error > 3
    assert ratio + 3 * error < 5
    # In a fraction of the bits of a mean, though in four times as many phases.
    assert outcomes[1].uplink_bits.mean() < outcomes[0].uplink_bits.mean()
