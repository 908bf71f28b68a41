"""What rules promise where clients protect their means: tails, null games, fidelities and orders.

As in `test_guarantees`: laws are written out here once more, from their statements and not from the
code, and every check is shown to fail for an error that is planted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from scipy import stats

import fedbandits as fb
from fedbandits.privacy.mechanisms import Rounded
from fedbandits.privacy.sampling import seeded_noise
from fedbandits.rules.arrays import BoolArray, FloatArray
from fedbandits.rules.distortion import (
    UNDISTORTED,
    Distortion,
    DistortionSums,
    ReleaseError,
)
from fedbandits.rules.phased import PhasedRule, Weights
from fedbandits.rules.radii import Dependence, Radius
from fedbandits.rules.reports import Reports
from fedbandits.rules.statistics import aggregate
from fedbandits.simulation.game import PlayedGames
from games import MEANS
from null_games import (
    LEVELS,
    PHASES,
    bernoulli_sums,
    equal_arms,
    exceeds,
    in_random_order,
    lost_on_the_way,
)
from protected_means import UNIT, WIDE, claim_of_rounding, noised, rounded

# Figure 4's means --------------------------------------------------------------------------------

FIGURE_4 = fb.Approximate(means=MEANS, noise=fb.Bernoulli(), spread=fb.Beta(0.02))
BEST = 9
POLICIES: dict[str, fb.Privacy | None] = {
    "none": None,
    **{f"stochastic, {bits} bits": rounded(bits) for bits in (3, 4, 8)},
    **{f"nearest, {bits} bits": rounded(bits, "nearest") for bits in (3, 4, 8)},
    **{
        f"gaussian, ε = {epsilon}": fb.Privacy(
            range=UNIT, noise="gaussian", epsilon=epsilon, delta=1e-6
        )
        for epsilon in (1, 4)
    },
    **{
        f"laplace, ε = {epsilon}": fb.Privacy(range=UNIT, noise="laplace", epsilon=epsilon)
        for epsilon in (1, 4)
    },
}
# Nearest rounding to steps above the gap never decides: nine phases, when the others are mostly
# done, of a game that takes twice as long with each.
UNDECIDED = ("nearest, 3 bits", "nearest, 4 bits")


def figure_4(name: str) -> PlayedGames:
    return fb.simulate(
        FIGURE_4,
        fb.Fed2Ucb(pulls=100, admissions="2^p", radius=fb.CertifiedRadius(delta="1/T")),
        horizon=10**6,
        replications=200,
        seed=200,
        fidelity="clients",
        privacy=POLICIES[name],
        max_phases=9 if name in UNDECIDED else 14,
        workers=1,
        grid_points=1,
        trace=True,
    ).games


def times_dropped(outcome: PlayedGames, arm: int) -> int:
    """Return in how many replications an arm is out in some phase, or loses in the last."""
    assert outcome.trace is not None
    played = np.arange(len(outcome.trace))[:, np.newaxis] < outcome.phases
    out = (np.isnan(outcome.trace[..., arm]) & played).any(axis=0)
    return int((out | ((outcome.winner >= 0) & (outcome.winner != arm))).sum())


def test_8_bits_of_stochastic_rounding_cost_no_more_than_3_percent_and_lose_nothing() -> None:
    without, with_bits = figure_4("none"), figure_4("stochastic, 8 bits")
    for outcome in (without, with_bits):
        assert times_dropped(outcome, BEST) == 0
        assert (outcome.winner == BEST).all()
    # The games share their draws: what they differ by is compared with its own standard error.
    extra = with_bits.total - 1.03 * without.total
    error = extra.std(ddof=1) / math.sqrt(extra.size)
    assert extra.mean() + stats.norm.ppf(0.995) * error < 0
    # An eighth of the bits, in a game that is as long.
    assert with_bits.uplink_bits.mean() < 0.15 * without.uplink_bits.mean()


@pytest.mark.parametrize("name", sorted(set(POLICIES) - {"none", "stochastic, 8 bits", *UNDECIDED}))
def test_the_best_of_figure_4_s_arms_is_never_lost(name: str) -> None:
    outcome = figure_4(name)
    assert times_dropped(outcome, BEST) == 0
    assert (outcome.winner == BEST).all()


def limits_of_nearest(bits: int) -> FloatArray:
    """Return where estimates of figure 4's arms go when means of 100 pulls are rounded."""
    grid = Rounded(low=0.0, high=1.0, bits=bits, rounding="nearest")
    successes = np.arange(101)
    values = grid.values(grid.places(successes / 100, np.random.default_rng(0)))
    law = fb.Beta(0.02)
    return np.array(
        [
            float(stats.betabinom.pmf(successes, 100, *law.parameters(mean)) @ values)
            for mean in MEANS
        ]
    )


@pytest.mark.parametrize("bits", [3, 4])
def test_coarse_nearest_rounding_stays_undecided_and_never_loses_the_best_arm(bits: int) -> None:
    outcome = figure_4(f"nearest, {bits} bits")
    assert times_dropped(outcome, BEST) == 0
    assert (outcome.winner == -1).all()
    # Nor would it later on: what estimates go to is within the width that is left for ever.
    limits, step = limits_of_nearest(bits), 1 / (2**bits - 1)
    assert limits.max() - limits[BEST] < step
    assert limits[BEST] - np.delete(limits, BEST).max() < step
    assert outcome.trace is not None
    for arm in (8, BEST):
        last = outcome.trace[-1, :, arm]
        assert abs(last.mean() - limits[arm]) < 4 * last.std(ddof=1) / math.sqrt(last.size)


# Null games --------------------------------------------------------------------------------------
#
# All arms are equal, so that whoever drops arm 0 has lost a best arm. Means are released as clients
# release them when deployed, phase by phase, and all rules look at the same games.


@dataclass(frozen=True)
class Seen:
    """What a phase shows: pulls so far, released means, and what protects them."""

    counts: FloatArray
    means: FloatArray
    distortion: Distortion


@dataclass(frozen=True)
class Null:
    """Games with what a rule is told of them."""

    phases: tuple[Seen, ...]
    noise: float
    spread: float
    population: int | None

    @property
    def n_games(self) -> int:
        return int(self.phases[0].means.shape[0])

    def rule(self, radius: Radius, weights: Weights = "equal", horizon: int = 100) -> PhasedRule:
        beliefs = fb.Beliefs(
            n_arms=self.phases[0].means.shape[1],
            horizon=horizon,
            noise=self.noise,
            spread=self.spread,
            population=self.population,
        )
        return fb.Fed2Ucb(pulls=1, admissions=1, radius=radius, weights=weights).rule(beliefs)


def release(
    privacy: fb.Privacy, means: FloatArray, pulls: int, rng: np.random.Generator
) -> tuple[FloatArray, ReleaseError]:
    """Return what clients send of fresh means, and what it may be off by."""
    mechanism = privacy.mechanism(pulls, means.shape[1])
    if isinstance(mechanism, Rounded):
        return mechanism.values(mechanism.places(means, rng)), mechanism.error
    return mechanism.values(mechanism.places(means, seeded_noise(rng))), mechanism.error


def watch(
    rng: np.random.Generator,
    local: FloatArray,
    privacy: fb.Privacy,
    sums_of: Callable[[np.random.Generator, int, FloatArray], FloatArray] = bernoulli_sums,
    *,
    pulls: int = 10,
    joining: int | None = None,
    phases: int = PHASES,
) -> tuple[Seen, ...]:
    """Return some phases of clients who join so many a phase, or all at once."""
    clients = local.shape[-1]
    joined = np.zeros(clients) if joining is None else np.arange(float(clients)) // joining
    sums = np.zeros(local.shape)
    left = DistortionSums.nothing((0,))
    seen = []
    for phase in range(phases):
        present = int((joined <= phase).sum())
        left = left.admitted(present - left.scales.size)
        fresh = sums_of(rng, pulls, local[..., :present]) / pulls
        released, error = release(privacy, fresh, pulls, rng)
        sums[..., :present] += pulls * released
        left = left.released(pulls, error)
        counts = pulls * (phase + 1 - joined[:present])
        seen.append(Seen(counts, sums[..., :present] / counts, left.over(counts)))
    return tuple(seen)


def times_lost(
    rule: PhasedRule,
    phases: Sequence[Seen],
    claimed: Callable[[Distortion], Distortion] = lambda distortion: distortion,
) -> int:
    """Return in how many replications arm 0 is ever dropped; what is claimed may be wrong."""
    active: BoolArray = np.ones(phases[0].means.shape[:2], dtype=np.bool_)
    for phase, seen in enumerate(phases, start=1):
        distortion = claimed(seen.distortion)
        reports = Reports(
            counts=seen.counts, means=seen.means, active=active, distortion=distortion
        )
        active = rule.decide(phase=phase, active=active, estimate=rule.estimate(reports)).active
    return int((~active[:, 0]).sum())


def forgotten(_: Distortion) -> Distortion:
    """Plant an error: nothing is known of what protects means."""
    return UNDISTORTED


GAMES = 2_000


def _beta(mean: float, sigma: float, privacy: fb.Privacy, seed: int) -> Null:
    rng = np.random.default_rng(seed)
    law = fb.Beta(sigma)
    local = rng.beta(*law.parameters(mean), size=(GAMES, 4, 24))
    return Null(watch(rng, local, privacy, joining=3), 0.5, law.proxy(np.array([mean])), None)


def _two_clients(privacy: fb.Privacy, seed: int) -> Null:
    rng = np.random.default_rng(seed)
    local = in_random_order(rng, [0.3, 0.7], (GAMES, 4))
    return Null(watch(rng, local, privacy), 0.5, 0.0, 2)


def _shared_offset(privacy: fb.Privacy, seed: int) -> Null:
    """Clients have an offset that arm 0 gains from and all others lose by."""
    rng = np.random.default_rng(seed)
    offset = rng.uniform(-0.4, 0.4, (GAMES, 1, 12))
    local = 0.5 + np.concatenate([offset, -offset, -offset], axis=1)
    # A uniform law is subgaussian with its own variance.
    return Null(watch(rng, local, privacy), 0.5, 0.4 / math.sqrt(3), None)


NULL_GAMES: dict[str, Callable[[fb.Privacy, int], Null]] = {
    "beta spread": lambda privacy, seed: _beta(0.5, 0.1, privacy, seed),
    "rare successes": lambda privacy, seed: _beta(0.05, 0.02, privacy, seed),
    "two clients": _two_clients,
    "a shared offset": _shared_offset,
}
PROTECTIONS: dict[str, fb.Privacy] = {
    "stochastic, 1 bit": rounded(1),
    "stochastic, 3 bits": rounded(3),
    "nearest, 4 bits": rounded(4, "nearest"),
    "gaussian": noised("gaussian", 0.6),
    "laplace": noised("laplace", 0.5),
}
CERTIFYING: dict[str, tuple[Callable[[float], Radius], Weights]] = {
    "certified": (lambda delta: fb.CertifiedRadius(delta=delta), "equal"),
    "certified, inverse-variance": (
        lambda delta: fb.CertifiedRadius(delta=delta),
        "inverse-variance",
    ),
    "certified, any": (lambda delta: fb.CertifiedRadius(delta=delta, dependence="any"), "equal"),
    "certified, any, inverse-variance": (
        lambda delta: fb.CertifiedRadius(delta=delta, dependence="any"),
        "inverse-variance",
    ),
    "bernstein": (lambda delta: fb.BernsteinRadius(delta=delta), "equal"),
    "bernstein, any": (lambda delta: fb.BernsteinRadius(delta=delta, dependence="any"), "equal"),
    "chernoff": (lambda delta: fb.ChernoffRadius(delta=delta), "equal"),
}


def promises(rule: str, game: Null, name: str) -> bool:
    """Return whether a rule states a guarantee for a game."""
    if rule.endswith("inverse-variance") and game.population is not None:
        return False
    return name != "a shared offset" or "any" in rule or rule == "chernoff"


@pytest.mark.parametrize("protection", sorted(PROTECTIONS))
@pytest.mark.parametrize("name", sorted(NULL_GAMES))
def test_in_null_games_arm_0_is_lost_no_more_often_than_stated(name: str, protection: str) -> None:
    seed = 210
    game = NULL_GAMES[name](PROTECTIONS[protection], seed)
    tested = 0
    for label, (radius_at, weights) in CERTIFYING.items():
        if not promises(label, game, name):
            continue
        # Halving fifty times takes long: fewer games for intervals by the divergence.
        n_games = 400 if label == "chernoff" else GAMES
        phases = [replace(seen, means=seen.means[:n_games]) for seen in game.phases]
        for delta in LEVELS:
            lost = times_lost(game.rule(radius_at(delta), weights), phases)
            message = f"{label}, δ = {delta}: {lost} of {n_games} (seed {seed})"
            assert not exceeds(lost, n_games, delta), message
            tested += 1
    assert tested >= 4 * len(LEVELS)


@pytest.mark.parametrize("protection", ["gaussian", "laplace", "stochastic, 1 bit"])
@pytest.mark.parametrize("name", ["beta spread", "two clients"])
def test_null_games_find_out_a_rule_that_forgets_what_protects_means(
    name: str, protection: str
) -> None:
    game = NULL_GAMES[name](PROTECTIONS[protection], 210)
    for label in ("certified", "certified, inverse-variance", "bernstein"):
        radius_at, weights = CERTIFYING[label]
        if not promises(label, game, name):
            continue
        rule = game.rule(radius_at(0.05), weights)
        assert exceeds(times_lost(rule, game.phases, forgotten), GAMES, 0.05), label


def test_with_an_offset_that_arms_share_it_takes_any_dependence_with_noise_as_well() -> None:
    """A difference has 4 v of the observations, and 2 d of the noise as ever."""
    rng = np.random.default_rng(211)
    offset = rng.uniform(-0.4, 0.4, (40_000, 1, 12))
    local = 0.5 + np.concatenate([offset, -offset], axis=1)
    phases = watch(rng, local, noised("gaussian", 0.05), pulls=100, phases=1)
    game = Null(phases, 0.5, 0.4 / math.sqrt(3), None)
    cases: list[tuple[Dependence, bool]] = [("independent", True), ("any", False)]
    for dependence, too_often in cases:
        radius = fb.CertifiedRadius(delta=0.001, dependence=dependence)
        lost = times_lost(game.rule(radius), game.phases)
        assert exceeds(lost, game.n_games, 0.001) == too_often, f"{dependence}: {lost} (seed 211)"


@pytest.mark.parametrize("weights", ["equal", "inverse-variance"])
@pytest.mark.parametrize(
    "privacy",
    [
        pytest.param(
            fb.Privacy(
                range=WIDE, noise="gaussian", rho=1e4, level="user", releases=PHASES, min_pulls=1
            ),
            id="a user",
        ),
        pytest.param(noised("gaussian", 0.4, WIDE), id="an event"),
    ],
)
def test_the_simulator_keeps_what_is_stated_in_null_games_with_noise(
    privacy: fb.Privacy, weights: Weights
) -> None:
    # Of a user the noise depends on how many arms are left, and so on what was observed before.
    problem = equal_arms(4)
    replications, seed = 4_000, 212
    for delta in LEVELS:
        run = fb.simulate(
            problem,
            fb.Fed2Ucb(
                pulls=5, admissions=3, radius=fb.CertifiedRadius(delta=delta), weights=weights
            ),
            horizon=10**6,
            replications=replications,
            seed=seed,
            fidelity="cohorts",
            privacy=privacy,
            max_phases=PHASES,
            workers=1,
            grid_points=1,
            trace=True,
        )
        lost = lost_on_the_way(run.games)
        assert not exceeds(lost, replications, delta), f"δ = {delta}: {lost} (seed {seed})"


# Rules whose level is T^-3, in short games of one phase.


@cache
def first_phases(protection: str) -> Null:
    rng = np.random.default_rng(213)
    law = fb.Beta(0.2)
    local = rng.beta(*law.parameters(0.5), size=(60_000, 2, 4))
    privacy = SHORT_PROTECTIONS[protection]
    phases = watch(rng, local, privacy, pulls=5, phases=1)
    return Null(phases, 0.5, law.proxy(np.array([0.5])), None)


SHORT_PROTECTIONS = PROTECTIONS | {
    "gaussian": noised("gaussian", 1.5),
    "laplace": noised("laplace", 1.0),
}


@pytest.mark.parametrize("protection", sorted(SHORT_PROTECTIONS))
@pytest.mark.parametrize(
    "radius",
    [fb.PaperRadius(), fb.JointRadius(), fb.PairwiseRadius(), fb.PairwiseRadius(dependence="any")],
    ids=["paper", "joint", "pairwise", "pairwise, any"],
)
def test_a_comparison_of_a_short_game_errs_as_rarely_as_stated(
    radius: Radius, protection: str
) -> None:
    game = first_phases(protection)
    for horizon in (5, 10):
        level = (1.0 if radius.rule == "pairwise" else 2.0) * horizon**-3
        rule = game.rule(radius, horizon=horizon)
        lost = times_lost(rule, game.phases)
        assert not exceeds(lost, game.n_games, level), f"{lost} (seed 213)"
        if protection in ("gaussian", "laplace"):
            assert exceeds(times_lost(rule, game.phases, forgotten), game.n_games, level)


# Nearest rounding at its worst: ten clients, all of whose means of arm 0 are just below a boundary
# and are rounded down, while all of the others' are just above one and are rounded up. One client
# likes arm 0 better by a whole step, so that it is the best by h/10 - and is seen 0.9 h behind.

_BITS = 4
_STEP = 1 / (2**_BITS - 1)
_ASIDE = 0.0015
_SURE = 0.01
_ARM_0 = [7.5 * _STEP - _ASIDE] * 9 + [8.5 * _STEP - _ASIDE]
_RIVAL = [7.5 * _STEP + _ASIDE] * 10
TRAP = fb.Exact(
    local_means=np.array([_ARM_0, _RIVAL, _RIVAL]).T, noise=fb.Gaussian(_SURE), name="trap"
)


def two_point_sums(rng: np.random.Generator, pulls: int, local: FloatArray) -> FloatArray:
    """Return sums of outcomes that are a little above or below the mean."""
    above = rng.binomial(pulls, 0.5, local.shape)
    return np.asarray(pulls * local + _SURE * (2 * above - pulls))


EVERY_RULE: dict[str, Radius] = {
    **{name: radius_at(0.05) for name, (radius_at, _) in CERTIFYING.items() if "inv" not in name},
    "paper": fb.PaperRadius(),
    "joint": fb.JointRadius(),
    "pairwise": fb.PairwiseRadius(),
}


@cache
def trap() -> Null:
    rng = np.random.default_rng(214)
    local = np.broadcast_to(np.array([_ARM_0, _RIVAL, _RIVAL]), (400, 3, 10))
    assert local[0].mean(axis=-1).argmax() == 0
    phases = watch(rng, local, rounded(_BITS, "nearest"), two_point_sums, pulls=1_000)
    # All are seen where they should be: 0.9 steps ahead of the arm that is the best.
    seen = aggregate(phases[-1].means).mean(axis=0)
    assert seen[1] - seen[0] == pytest.approx(0.9 * _STEP, rel=1e-3)
    return Null(phases, _SURE, 0.0, 10)


@pytest.mark.parametrize("name", sorted(EVERY_RULE))
def test_nearest_rounding_at_its_worst_does_not_lose_the_best_arm(name: str) -> None:
    game = trap()
    rule = game.rule(EVERY_RULE[name])
    lost = times_lost(rule, game.phases)
    assert lost == 0, f"{lost} of {game.n_games} (seed 214)"
    # Without its bias in the widths, or with that of one arm for two, it is lost.
    assert exceeds(times_lost(rule, game.phases, forgotten), game.n_games, 0.05)
    assert exceeds(
        times_lost(rule, game.phases, lambda known: replace(known, bias=known.bias / 2)),
        game.n_games,
        0.05,
    )


def test_the_simulator_widens_by_the_bias_of_nearest_rounding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lost() -> int:
        run = fb.simulate(
            TRAP,
            fb.Fed1Ucb(pulls=1_000, radius=fb.CertifiedRadius(delta=0.05)),
            horizon=10**6,
            replications=100,
            seed=215,
            fidelity="clients",
            privacy=rounded(_BITS, "nearest"),
            max_phases=PHASES,
            workers=1,
            grid_points=1,
            trace=True,
        )
        return lost_on_the_way(run.games)

    assert lost() == 0
    for by in (0.0, 0.5):
        with monkeypatch.context() as patch:
            claim_of_rounding(patch, bias=by)
            assert exceeds(lost(), 100, 0.05)
