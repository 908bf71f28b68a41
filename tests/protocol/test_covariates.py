"""Outcomes adjusted by a covariate: differences stay, noise shrinks, promises hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.errors import InputError
from fedbandits.privacy.mechanisms import Noised
from fedbandits.privacy.policy import Privacy, Quantize
from fedbandits.protocol import Assignment, Client, Rejection, Release, Server, answer_of
from fedbandits.protocol.codec import decode, encode
from fedbandits.protocol.covariates import FEWEST_PAIRS, Adjustment, Covariate, gain_of
from fedbandits.protocol.messages import Update
from fedbandits.protocol.outcomes import OutOfRangeError, parted
from fedbandits.protocol.unfinished import ArmSums
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.guarantees import Assumption, Status
from fedbandits.rules.phased import PhasedRule
from fedbandits.rules.reports import Reports
from small_server import HEADER, update

FIXED = Covariate(name="before", range=(0, 40), coefficient=0.5, mean=10)
HISTORY = Covariate(name="before", range=(0, 40), coefficient="history")

# What a trial says --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"name": " "}, "name: is empty"),
        ({"range": (5, 5)}, "range: .* is empty"),
        ({"coefficient": math.nan}, "coefficient: nan is not a finite number"),
        ({"coefficient": math.inf}, "coefficient: inf is not a finite number"),
        ({"coefficient": "pilot"}, "coefficient: 'pilot' is not a number"),
        ({"coefficient": 1e99}, r"coefficient: 1e\+99 is too large for this range"),
        ({"mean": None}, "mean: is missing; give the usual mean"),
        ({"mean": 41.0}, r"mean: 41 is outside \[0, 40\]"),
        ({"mean": math.nan}, "mean: nan is outside"),
        ({"largest": 1.0}, 'largest: is only for coefficient = "history"'),
        ({"coefficient": "history"}, "mean: is that of the history"),
        ({"coefficient": "history", "mean": None, "largest": 0.0}, "largest: 0 is not above 0"),
    ],
)
def test_what_a_trial_says_of_a_covariate_is_checked(said: dict[str, Any], problem: str) -> None:
    usual = {"name": "before", "range": (0, 40), "coefficient": 0.5, "mean": 10.0}
    with pytest.raises(InputError, match=problem):
        Covariate(**{**usual, **said})


@pytest.mark.parametrize("coefficient", [0.5, -0.5, 0.0])
def test_the_range_of_adjusted_outcomes_is_exact(coefficient: float) -> None:
    covariate = replace(FIXED, coefficient=coefficient)
    assert covariate.fixed is not None
    ends = covariate.fixed(*map(np.ravel, np.meshgrid([0.0, 30.0], [0.0, 40.0])))
    assert covariate.adjusted_range((0.0, 30.0)) == (ends.min(), ends.max())
    odd = replace(FIXED, coefficient=0.8, mean=12.0)
    assert odd.adjusted_range((-30.0, 60.0)) == (-52.4, 69.6)


def test_the_range_holds_whatever_a_client_may_estimate() -> None:
    rng, limits = np.random.default_rng(1), (0.0, 30.0)
    for covariate in (HISTORY, replace(HISTORY, largest=0.1)):
        low, high = covariate.adjusted_range(limits)
        most = covariate.largest or 30 / 40
        assert (low, high) == (0 - 40 * most, 30 + 40 * most)
        for _ in range(50):
            before = np.clip(rng.normal(rng.uniform(0, 40), rng.uniform(0.01, 9), 60), 0, 40)
            found = covariate.estimated(rng.normal(3, 1) * before, before, limits)
            assert abs(found.coefficient) <= most
            corners = found(*map(np.ravel, np.meshgrid(limits, (0.0, 40.0))))
            assert low <= corners.min()
            assert corners.max() <= high


def test_a_coefficient_is_the_slope_of_the_history() -> None:
    rng = np.random.default_rng(2)
    before = rng.uniform(0, 40, 500)
    outcomes = 3 + 0.7 * before + rng.normal(0, 2, 500)
    found = HISTORY.estimated(outcomes, before, None)
    assert found.coefficient == pytest.approx(np.polyfit(before, outcomes, 1)[0])
    assert found.mean == pytest.approx(before.mean())
    assert found.units == 500
    left = [np.var(outcomes - slope * before) for slope in np.linspace(0, 1.5, 100)]
    assert np.var(found(outcomes, before)) <= min(left)


@pytest.mark.parametrize(
    "before", [np.arange(FEWEST_PAIRS - 1.0), np.full(90, 7.0), np.full(90, 0.1), np.array([])]
)
def test_of_a_short_or_constant_history_nothing_is_estimated(before: FloatArray) -> None:
    found = HISTORY.estimated(2 * before, before, None)
    assert found.coefficient == 0
    assert 0 <= found.mean <= 40
    assert np.array_equal(found(before, before), before)


@pytest.mark.parametrize(
    ("returned", "problem"),
    [
        ([1.0, 2.0], r"returned\[0\] is 1.0; return 2 rows \(outcome, covariate\)"),
        ({"outcome": [1.0, 2.0]}, 'returned a mapping without "covariate"'),
        (
            {"outcome": [1.0, 2.0], "covariate": [1.0, 2.0], "more": []},
            "returned 'more', which the trial does not",
        ),
        ({"outcome": [1.0, 2.0], "covariate": [1.0]}, "covariate: returned .*1 values; return 2"),
        ({"outcome": [1.0], "covariate": [1.0, 2.0]}, "outcome: returned .*1 values; return 2"),
        ({"outcome": [1.0, 2.0], "covariate": [1.0, None]}, r"covariate: returned\[1\] is None"),
        ({"outcome": [1.0, 2.0], "covariate": [math.nan, 1.0]}, r"covariate: returned\[0\] is nan"),
        ({"outcome": [math.nan, 2.0], "covariate": [1.0, 1.0]}, r"outcome: returned\[0\] is nan"),
        ({"outcome": [1.0, 2.0], "covariate": 3.0}, "covariate: returned 3.0, a float"),
    ],
)
def test_what_pull_returns_is_checked(returned: object, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        parted(returned, 2, covariate=True)


def test_a_history_has_as_many_covariates_as_outcomes() -> None:
    with pytest.raises(InputError, match=r"covariate: returned .* 2 values; return 3"):
        parted({"outcome": [1.0, 2.0, 3.0], "covariate": [1.0, 2.0]}, None, covariate=True)
    with pytest.raises(InputError, match="outcome: returned 3, a int"):
        parted({"outcome": 3, "covariate": [1.0]}, None, covariate=True)


def test_the_gain_is_in_hundredths_and_never_below_minus_one() -> None:
    assert gain_of([(0.0, 0.0)]) == 0.0
    assert gain_of([(500.0, 2.0)]) == -1.0
    assert gain_of([(0.6661, 1.0)]) == 0.33
    assert math.copysign(1, gain_of([(1.0, 1.0)])) == 1


# A client -----------------------------------------------------------------------------------------

ROWS = {0: ([3.0, 5.0, 4.0, 9.0], [10.0, 14.0, 6.0, 20.0]), 1: ([1.0, 1.0, 2.0, 0.0], [10.0] * 4)}


def pull(arm: int, n: int) -> dict[str, list[float]]:
    outcomes, before = ROWS[arm]
    return {"outcome": outcomes[:n], "covariate": before[:n]}


def asked(*pulls: int, **release: Any) -> Assignment:
    return Assignment(header=HEADER, phase=1, pulls=pulls, release=Release(**release))


def test_a_client_reports_means_and_squares_of_adjusted_outcomes_and_the_gain() -> None:
    client = Client("a", pull, covariate=FIXED)
    said = client.play(asked(4, 4, squares=True))
    adjusted = np.array(ROWS[0][0]) - 0.5 * (np.array(ROWS[0][1]) - 10)
    assert said.means == pytest.approx((adjusted.mean(), 1.0))
    assert said.squares == pytest.approx((4 * adjusted.var(), 2.0))
    assert said.gain == round(1 - (4 * adjusted.var() + 2) / (4 * np.var(ROWS[0][0]) + 2), 2)
    assert decode(Update, encode(said)) == said
    bare = Client("a", lambda arm, n: pull(arm, n)["outcome"]).play(asked(4, 4))
    assert bare.gain is None
    assert "gain" not in encode(bare)


def test_several_calls_of_pull_give_what_one_gives() -> None:
    def turns(phase: int, pulls: Any) -> Iterator[tuple[int, int]]:
        yield from [(0, 1), (0, 3)]

    seen: list[int] = []

    def later(arm: int, n: int) -> dict[str, list[float]]:
        first = sum(seen)
        seen.append(n)
        return {key: values[first : first + n] for key, values in pull(arm, 4).items()}

    parts = Client("a", later, covariate=FIXED, turns=turns).play(asked(4, squares=True))
    whole = Client("a", pull, covariate=FIXED).play(asked(4, squares=True))
    assert parts.squares == pytest.approx(whole.squares)
    assert parts.means == pytest.approx(whole.means)
    assert parts.gain == whole.gain
    kept = ArmSums(pulls=4, total=1.0, plain_total=2.0, plain_squares=3.0)
    assert decode(ArmSums, encode(kept)) == kept


def test_covariates_and_outcomes_outside_their_ranges_are_refused_or_clipped() -> None:
    def wild(arm: int, n: int) -> dict[str, list[float]]:
        return {"outcome": [35.0, 3.0], "covariate": [10.0, 90.0]}

    limits = (0.0, 30.0)
    with pytest.raises(OutOfRangeError, match=r"returned\[0\] is 35.0, outside the trial's range"):
        Client("a", wild, covariate=FIXED, limits=limits).play(asked(2))
    with pytest.raises(OutOfRangeError, match=r"covariate: returned\[1\] is 90.0, outside the co"):
        Client("a", wild, covariate=FIXED).play(asked(2))
    clips = Client("a", wild, covariate=FIXED, limits=limits, outside="clip").play(asked(2))
    assert clips.means == ((30.0 + 3.0 - 0.5 * 30) / 2,)
    assert clips.clipped == 1  # a covariate that is clipped is as valid, and not counted


def test_rounding_in_the_last_digits_is_not_taken_for_an_outcome_outside_the_range() -> None:
    """Means at the end of the range of adjusted outcomes stay in the range of a mechanism."""
    odd = Covariate(name="x", range=(0.0, 0.7), coefficient=0.3, mean=0.1)
    low, high = odd.adjusted_range((0.0, 0.1))
    rounds = Privacy(range=(low, high), quantize=Quantize(bits=12)).mechanism(100, 1)
    for outcome, covariate in ((0.0, 0.7), (0.1, 0.0)):

        def steady(_: int, n: int, y: float = outcome, x: float = covariate) -> Any:
            return {"outcome": [y] * n, "covariate": [x] * n}

        client = Client("a", steady, covariate=odd, limits=(0.0, 0.1))
        assert client.play(asked(100, mechanism=rounds)).clipped == 0


def test_the_gain_stays_with_the_client_if_means_have_noise() -> None:
    privacy = Privacy(range=(-15, 35), noise="gaussian", epsilon=1.0, delta=1e-6)
    noised = privacy.mechanism(100, 2)
    assert isinstance(noised, Noised)

    def many(arm: int, n: int) -> dict[str, list[float]]:
        return {key: values * (n // 4) for key, values in pull(arm, 4).items()}

    class Box(list[Any]):
        def claim(self) -> None: ...

    box = Box()
    client = Client(
        "a", many, covariate=FIXED, limits=(0.0, 30.0), outbox=box,
        noise=lambda _kind, _scale, n: np.zeros(n, dtype=np.int64),
    )  # fmt: skip
    said = client.play(asked(100, 100, mechanism=noised))
    assert said.gain is None
    assert box[0].gain == Client("a", many, covariate=FIXED).play(asked(100, 100)).gain
    assert box[0].gain > 0


def test_without_an_adjustment_a_client_of_a_history_does_not_play() -> None:
    with pytest.raises(InputError, match="adjustment: is missing"):
        Client("a", pull, covariate=HISTORY).play(asked(4))
    found = Adjustment(coefficient=0.5, mean=10.0)
    said = Client("a", pull, covariate=HISTORY, adjustment=lambda _: found).play(asked(4))
    assert said.means == Client("a", pull, covariate=FIXED).play(asked(4)).means


# A server -----------------------------------------------------------------------------------------


def collecting(**terms: Any) -> Server:
    told = fb.Beliefs(n_arms=2, horizon=None, noise=1.0, spread=0.0, population=1)
    certified = fb.CertifiedRadius(delta=0.05)
    rule = fb.Fed1Ucb(pulls=20, clients=1, radius=certified).rule(told)
    server = Server(rule, arms=["red", "blue"], **{"covariate": FIXED, **terms})
    server.open(["a"])
    return server


def test_a_server_takes_means_in_the_range_of_adjusted_outcomes_and_no_others() -> None:
    for mean, fate in (
        (-14.9, None),
        (34.9, None),
        (-15.1, Rejection.RANGE),
        (36, Rejection.RANGE),
    ):
        server = collecting(limits=(0.0, 30.0))
        said = update(header=server.header, client="a", counts=(20, 20), means=(float(mean), 1.0))
        said = replace(said, gain=0.5)
        assert server.receive(said) is fate
        broken = server.run_state.guarantee.condition(Assumption.IN_RANGE)
        assert broken is not None
        assert (broken.status is Status.BROKEN) == (fate is not None)
        if fate is not None:
            assert "means of a lay outside [-15, 35]" in broken.why


@pytest.mark.parametrize("gain", [1.5, -1.01, math.nan, 1, "0.5", True])
def test_a_gain_that_is_none_is_refused(gain: Any) -> None:
    server = collecting()
    said = update(header=server.header, client="a", counts=(20, 20), means=(0.0, 1.0))
    assert server.receive(replace(said, gain=gain)) is Rejection.FORM
    assert server.receive(replace(said, gain=-1.0)) is None
    bare = collecting(covariate=None)
    assert bare.receive(replace(said, gain=0.5)) is Rejection.SHAPE
    assert bare.receive(said) is None


def test_a_client_that_does_not_adjust_is_noticed_and_so_is_a_gain_with_noise() -> None:
    """Its fedbandits.toml may be an older one."""
    server = collecting()
    said = update(header=server.header, client="a", counts=(20, 20), means=(0.0, 1.0))
    assert server.receive(said) is Rejection.SHAPE
    privacy = Privacy(range=(-15, 35), noise="gaussian", epsilon=4.0, delta=1e-6)
    private = collecting(limits=(0.0, 30.0), privacy=privacy)
    assert private.assignment is not None
    client = Client(
        "a", lambda _, n: {"outcome": [1.0] * n, "covariate": [1.0] * n}, covariate=FIXED,
        limits=(0.0, 30.0), noise=lambda _kind, _scale, n: np.zeros(n, dtype=np.int64),
    )  # fmt: skip
    said = client.play(private.assignment)
    assert private.receive(replace(said, gain=0.5)) is Rejection.SHAPE
    assert private.receive(said) is None


def test_an_answer_says_that_it_is_adjusted_and_what_that_needs() -> None:
    server = collecting()
    said = update(header=server.header, client="a", counts=(20, 20), means=(0.0, 9.0))
    assert server.receive(replace(said, gain=0.5)) is None
    server.close()
    words = answer_of(server).words()
    assert "outcomes adjusted by before: options differ as they do in outcomes themselves" in words
    assert words.count('"before" of a unit is known before its option') == 2
    assert "at most 0.05" in words
    assert "was estimated from units of before the trial" in HISTORY.condition.words


def test_clipped_outcomes_are_said_with_the_range_of_outcomes() -> None:
    found = collecting(limits=(0.0, 30.0), outside="clip").run_state.guarantee
    condition = found.condition(Assumption.IN_RANGE)
    assert condition is not None
    assert "what lies outside [0, 30] is clipped" in condition.words
    assert condition.limits == (-15.0, 35.0)


def test_no_server_lets_adjusted_outcomes_be_clipped() -> None:
    privacy = Privacy(range=(-15, 34), noise="gaussian", epsilon=4.0, delta=1e-6)
    with pytest.raises(InputError, match=r"privacy: .* write \[-15.0, 35.0\]"):
        collecting(limits=(0.0, 30.0), privacy=privacy)
    with pytest.raises(InputError, match="range: is missing, and privacy must hold"):
        collecting(privacy=privacy)


# Many trials --------------------------------------------------------------------------------------

GAMES, ARMS, DELTA = 4000, 3, 0.1
R = 0.8
Draw = Callable[[np.random.Generator], FloatArray]
"""Means of fresh units, by game, option and client."""


def certified(noise: float, clients: int, pulls: int) -> PhasedRule:
    told = fb.Beliefs(n_arms=ARMS, horizon=None, noise=noise, spread=0.0, population=clients)
    radius = fb.CertifiedRadius(delta=DELTA)
    return fb.Fed1Ucb(pulls=pulls, clients=clients, radius=radius).rule(told)


def played(
    rule: PhasedRule, draw: Draw, phases: int, seed: int = 1
) -> tuple[FloatArray, FloatArray]:
    """Return in which games option 0 is lost, and the phases until one option is left."""
    rng, sums = np.random.default_rng(seed), np.zeros(1)
    for phase in range(1, phases + 1):
        sums = sums + draw(rng)
        if phase == 1:
            active = np.ones(sums.shape[:2], dtype=bool)
            over = np.full(len(sums), phases)
        counts = np.full(sums.shape, phase * rule.pulls(phase))
        estimate = rule.estimate(Reports(counts=counts, means=sums / phase, active=active))
        active = rule.decide(phase=phase, active=active, estimate=estimate).active
        over = np.where((active.sum(axis=1) == 1) & (over == phases), phase, over)
    return ~active[:, 0], over


def units(
    rng: np.random.Generator, clients: int, n: int, games: int = GAMES
) -> tuple[FloatArray, FloatArray]:
    """Return outcomes, of variance 1 and mean 0, and covariates of correlation R."""
    shape = (games, ARMS, clients, n)
    before = rng.standard_normal(shape)
    return R * before + math.sqrt(1 - R**2) * rng.standard_normal(shape), before


def with_gap(adjusted: FloatArray, gap: float) -> FloatArray:
    """Return the means of units, those of the first option higher by a gap."""
    above = np.array([gap, 0.0, 0.0])[:, np.newaxis]
    return np.asarray(adjusted.mean(axis=-1) + above, dtype=np.float64)


def test_with_a_fixed_coefficient_the_best_is_lost_no_more_often_than_promised() -> None:
    """The hardest game, nearly a tie. Clients differ in their covariates, and so in their shift."""
    clients, n = 4, 20
    for coefficient in (R, 0.4):
        noise = math.hypot(R - coefficient, math.sqrt(1 - R**2))
        adjust = Adjustment(coefficient=coefficient, mean=0.5)  # not the mean: estimates are off

        def draw(rng: np.random.Generator, adjust: Adjustment = adjust) -> FloatArray:
            outcomes, before = units(rng, clients, n)
            here = before + np.arange(clients)[:, np.newaxis]
            return with_gap(adjust(outcomes, here), 1e-3)

        lost, _ = played(certified(noise, clients, n), draw, 10)
        assert lost.mean() <= DELTA
    assert lost.mean() > 0.003  # it can fail: the game is hard enough that some are lost


def test_with_a_coefficient_of_a_history_the_best_is_lost_no_more_often_than_promised() -> None:
    """Each client estimates its own coefficient and mean, once, from a hundred units."""
    clients, n, wide = 4, 20, Covariate(name="x", range=(-9, 9), coefficient="history")
    rng = np.random.default_rng(5)
    past = rng.standard_normal((GAMES, clients, 100))
    outcomes = R * past + math.sqrt(1 - R**2) * rng.standard_normal(past.shape)
    found = [
        [wide.estimated(y, x, None) for y, x in zip(ys, xs, strict=True)]
        for ys, xs in zip(outcomes, past, strict=True)
    ]
    slope, mean = (
        np.array([[getattr(one, key) for one in row] for row in found])[
            :, np.newaxis, :, np.newaxis
        ]
        for key in ("coefficient", "mean")
    )

    def draw(rng: np.random.Generator) -> FloatArray:
        outcomes, before = units(rng, clients, n)
        return with_gap(outcomes - slope * (before - mean), 1e-3)

    worst = float(np.abs(slope - R).max())
    lost, _ = played(certified(math.hypot(worst, math.sqrt(1 - R**2)), clients, n), draw, 10)
    assert 0.003 < lost.mean() <= DELTA


def test_a_coefficient_of_the_same_units_breaks_the_promise() -> None:
    """The planted error: what is estimated from the units themselves is biased, by option."""
    clients, n = 40, 5
    bend = np.array([0.3, -0.3, -0.3])[:, np.newaxis, np.newaxis]

    def drawn(rng: np.random.Generator, *, same: bool) -> FloatArray:
        before = rng.standard_normal((GAMES, ARMS, clients, n))
        outcomes = bend * (before**2 - 1)
        apart = before - before.mean(axis=-1, keepdims=True)
        own = (apart * outcomes).sum(-1, keepdims=True) / (apart**2).sum(-1, keepdims=True)
        return with_gap(outcomes - (own if same else 0.1) * before, 0.05)

    rule = certified(0.6, clients, n)
    assert played(rule, lambda rng: drawn(rng, same=False), 8)[0].mean() <= DELTA
    assert played(rule, lambda rng: drawn(rng, same=True), 8)[0].mean() > 2 * DELTA


def test_a_covariate_that_depends_on_the_option_breaks_the_promise() -> None:
    """The planted error: a covariate that is measured after the option has worked."""
    clients, n = 4, 20
    late = np.array([0.2, 0.0, 0.0])[:, np.newaxis, np.newaxis]

    def draw(rng: np.random.Generator) -> FloatArray:
        outcomes, before = units(rng, clients, n)
        return with_gap(outcomes - R * (before + late), 0.05)

    assert played(certified(math.sqrt(1 - R**2), clients, n), draw, 10)[0].mean() > 2 * DELTA


def test_what_it_takes_shrinks_with_the_variance_that_is_left() -> None:
    clients, n, gap = 4, 4, 0.3

    def draw(rng: np.random.Generator, coefficient: float) -> FloatArray:
        outcomes, before = units(rng, clients, n, games=400)
        return with_gap(outcomes - coefficient * before, gap)

    left = 1 - R**2
    plain = played(certified(1.0, clients, n), lambda rng: draw(rng, 0.0), 200)[1]
    short = played(certified(math.sqrt(left), clients, n), lambda rng: draw(rng, R), 200)[1]
    assert (plain < 200).mean() > 0.99
    # A little less than in proportion: fewer looks cost less.
    assert 0.75 * left < short.mean() / plain.mean() < 1.05 * left


def test_a_rule_that_estimates_the_noise_gains_by_itself() -> None:
    clients, n, gap = 30, 4, 0.2
    told = fb.Beliefs(n_arms=ARMS, horizon=None, noise=None, spread=None)
    radius = fb.PairedTRadius(delta=DELTA)
    rule = fb.Fed2Ucb(pulls=n, admissions=clients, radius=radius).rule(told)

    def draw(rng: np.random.Generator, coefficient: float) -> FloatArray:
        outcomes, before = units(rng, clients, n, games=400)
        return with_gap(outcomes - coefficient * before, gap)

    plain = played(rule, lambda rng: draw(rng, 0.0), 60)[1]
    short = played(rule, lambda rng: draw(rng, R), 60)[1]
    assert 0.6 * (1 - R**2) < short.mean() / plain.mean() < 1.1 * (1 - R**2)
