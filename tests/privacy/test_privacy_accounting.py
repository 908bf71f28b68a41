"""What releases spend, held against another accountant's, and the laws that noise is from."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedbandits.errors import InputError
from fedbandits.privacy.accounting import (
    Spending,
    laplace_divergence,
    laplace_epsilon_for,
    rho_of,
)
from fedbandits.privacy.policy import Privacy
from fedbandits.privacy.sampling import Noise, NoiseKind, discrete_noise, seeded_noise
from fedbandits.rules.arrays import FloatArray, IntArray

LEVELS = ("event", "person", "user")
LAWS = (("gaussian",), ("laplace",), ("gaussian", "laplace"))

PLD_STEP = 1e-4
"""What the other accountant rounds privacy losses to, up and down: a step a phase is enough."""

LEVEL = 1e-6
"""Of goodness-of-fit tests: OpenDP takes no seed, so they must pass by chance about always."""


@dataclass(frozen=True, slots=True)
class Phase:
    """Equal releases: their law, how many scales of noise their sensitivity is, how many."""

    law: str
    ratio: float
    times: int = 1

    @property
    def spending(self) -> Spending:
        if self.law == "gaussian":
            return Spending.gaussian(self.ratio**2 / 2).times(self.times)
        return Spending.laplace(self.ratio).times(self.times)

    @property
    def event(self) -> dp_event.DpEvent:
        if self.law == "gaussian":
            release = dp_event.GaussianDpEvent(1.0 / self.ratio)
        else:
            release = dp_event.LaplaceDpEvent(1.0 / self.ratio)
        return dp_event.SelfComposedDpEvent(release, self.times)


def draw_schedule(seed: int) -> tuple[str, float, list[Phase]]:
    """Return a level, δ and phases with pulls, arms and scales at random."""
    rng = np.random.default_rng(seed)
    level = LEVELS[seed % 3]
    n_phases = int(rng.integers(2, 9))
    laws = [str(law) for law in rng.choice(LAWS[seed // 3 % 3], n_phases)]
    scales = rng.uniform(0.5, 2.0, n_phases)
    times = np.ones(n_phases, dtype=np.int64)
    if level == "user":
        arms = np.sort(rng.integers(1, 11, n_phases))[::-1]
        changes = np.where(np.array(laws) == "gaussian", np.sqrt(arms), arms)
        times = rng.integers(1, 1 + 10 ** rng.integers(0, 3), n_phases)
    else:
        person = rng.integers(2, 6) if level == "person" else 1
        changes = person / rng.integers(10, 200, n_phases)
    ratios = changes / scales
    # From much privacy to little, whatever the level; the other accountant is slow with none.
    ratios *= 10 ** rng.uniform(-1.5, 0.3) / math.sqrt(times @ ratios**2)
    phases = [
        Phase(law, float(ratio), int(count))
        for law, ratio, count in zip(laws, ratios, times, strict=True)
    ]
    return level, float(10 ** rng.uniform(-9.0, -3.0)), phases


@pytest.mark.parametrize("seed", range(27))
def test_epsilon_lies_between_that_of_loss_distributions_and_of_renyi_orders(seed: int) -> None:
    level, delta, phases = draw_schedule(seed)
    # For one observation or one person only one of the releases counts.
    counted = [phases] if level == "user" else [[phase] for phase in phases]
    ours = lower = upper = 0.0
    for releases in counted:
        total = reduce(Spending.plus, [phase.spending for phase in releases])
        ours = max(ours, total.epsilon(delta))
        exact, orders = PLDAccountant(value_discretization_interval=PLD_STEP), RdpAccountant()
        for phase in releases:
            exact.compose(phase.event)
            orders.compose(phase.event)
        lower = max(lower, exact.get_epsilon(delta) - PLD_STEP * len(releases))
        upper = max(upper, orders.get_epsilon(delta))
    told = f"seed {seed}: {level} level, delta {delta:g}, {phases}"
    assert lower > 0, told
    assert ours >= lower, told
    assert ours <= 1.1 * upper, told


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_of_events_and_persons_the_release_that_spends_most_has_the_largest_epsilon(
    law: str,
) -> None:
    ratios = np.random.default_rng(3).uniform(0.01, 2.0, 20)
    spent = [Phase(law, float(ratio)).spending for ratio in ratios]
    most = max(spent, key=lambda spending: spending.rho)
    assert most.epsilon(1e-6) == max(spending.epsilon(1e-6) for spending in spent)


@given(st.floats(1e-6, 50.0), st.floats(0.0, 1.0), st.floats(-15.0, 25.0).map(math.exp))
def test_a_change_spread_over_releases_spends_no_more_than_in_one(
    epsilon: float, share: float, excess: float
) -> None:
    """What persons and values of a vector rest on: the divergence is superadditive."""
    parts = laplace_divergence(np.array([share, 1 - share]) * epsilon, excess).sum()
    whole = float(laplace_divergence(epsilon, excess))
    assert parts <= whole * (1 + 1e-9) + 1e-15
    # Pure and zero-concentrated privacy bound it, and it is not negative.
    assert -1e-15 <= whole <= min(epsilon, (1 + excess) * epsilon**2 / 2) * (1 + 1e-8)


@pytest.mark.parametrize("scale", [1.0, 3.0, 50.0])
@pytest.mark.parametrize("change", [1, 2, 20])
def test_laplace_noise_on_a_lattice_spends_less_than_with_a_step_more(
    scale: float, change: int
) -> None:
    places = np.arange(-60 * int(scale) - 100, 60 * int(scale) + 100)
    log_law = np.log(np.tanh(0.5 / scale)) - np.abs(places) / scale
    log_moved = np.log(np.tanh(0.5 / scale)) - np.abs(places - change) / scale
    for excess in (0.01, 0.5, 3.0, 20.0):
        moment = np.exp(log_law + excess * (log_law - log_moved)).sum()
        discrete = math.log(moment) / excess
        assert discrete >= laplace_divergence(change / scale, excess) - 1e-9
        assert discrete <= laplace_divergence((change + 1) / scale, excess)


def test_spending_adds_up_in_any_order_and_in_bulk() -> None:
    one, two = Spending.laplace(0.1), Spending.gaussian(0.2).plus(Spending.laplace(0.3))
    assert one.plus(two) == two.plus(one)
    assert one.plus(one).plus(one) == one.times(3)
    assert two.plus(two) == two.times(2)
    assert two.times(2).rho == pytest.approx(0.4 + 0.3**2)
    assert one.times(0) == Spending() == Spending.laplace(0.0)
    assert Spending().epsilon(1e-6) == 0.0
    assert one.times(10**6).laplaces == ((0.1, 10**6),)


def test_pure_privacy_needs_no_delta_and_gaussian_noise_has_none() -> None:
    assert Spending.laplace(0.25).times(4).epsilon(None) == 1.0
    assert Spending().epsilon(None) == 0.0
    assert Spending.gaussian(1e-9).epsilon(None) == math.inf
    # A δ helps, if only a little.
    assert 0.99 < Spending.laplace(0.25).times(4).epsilon(1e-9) <= 1.0


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-3, 0.5])
def test_epsilon_grows_with_what_is_spent_and_falls_with_delta(delta: float) -> None:
    for amounts, of in (
        (np.geomspace(1e-12, 1e3, 40), Spending.gaussian),
        (np.geomspace(1e-6, 50.0, 40), Spending.laplace),
        (np.geomspace(1e-6, 50.0, 40), lambda each: Spending.laplace(each).times(10**6)),
    ):
        epsilons = np.array([of(float(amount)).epsilon(delta) for amount in amounts])
        assert np.isfinite(epsilons).all()
        assert (np.diff(epsilons) >= 0).all()
        assert epsilons[-1] > 10
        assert (epsilons >= [of(float(amount)).epsilon(delta * 1.5) for amount in amounts]).all()


def test_many_small_laplace_releases_spend_what_gaussian_ones_do() -> None:
    spent = Spending.laplace(1e-6).times(10**6)
    assert spent.epsilon(1e-6) == pytest.approx(Spending.gaussian(5e-7).epsilon(1e-6), rel=1e-5)


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-3, 0.3])
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 30.0])
def test_budgets_are_used_up_and_never_exceeded(epsilon: float, delta: float) -> None:
    rho = rho_of(epsilon, delta)
    assert epsilon * (1 - 1e-9) <= Spending.gaussian(rho).epsilon(delta) <= epsilon
    for releases in (1, 2, 100, 10**6):
        each = laplace_epsilon_for(epsilon, delta, releases)
        spent = Spending.laplace(each).times(releases)
        assert epsilon * (1 - 1e-9) <= spent.epsilon(delta) <= epsilon
        assert each >= epsilon / releases * (1 - 1e-9)
    assert laplace_epsilon_for(epsilon, delta, 1) >= epsilon


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_an_epsilon_that_is_none_is_refused(epsilon: float) -> None:
    told = rf"^epsilon: {epsilon!r} is not a positive number such as 2"
    with pytest.raises(InputError, match=told):
        rho_of(epsilon, 1e-6)
    with pytest.raises(InputError, match=told):
        laplace_epsilon_for(epsilon, 1e-6, 3)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 2.0, math.nan])
def test_a_delta_that_is_none_is_refused(delta: float) -> None:
    told = rf"^delta: {delta:g} is not between 0 and 1; give a small one such as 1e-6"
    with pytest.raises(InputError, match=told):
        rho_of(1.0, delta)
    with pytest.raises(InputError, match=told):
        laplace_epsilon_for(1.0, delta, 3)
    with pytest.raises(InputError, match=told):
        Spending.laplace(0.1).epsilon(delta)


def test_spending_that_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match=r"^gaussian_rho: -0.1 is not a number from 0"):
        Spending.gaussian(-0.1)
    with pytest.raises(InputError, match=r"^laplaces: inf is not a number from 0"):
        Spending.laplace(math.inf)
    with pytest.raises(InputError, match=r"^releases: -1 is not a whole number from 0 to 10\^15"):
        Spending.laplace(1.0).times(-1)
    with pytest.raises(InputError, match=r"^releases: 0 is not a whole number from 1 to 10\^15"):
        laplace_epsilon_for(1.0, 1e-6, 0)


def exact_law(law: NoiseKind, scale: float, farthest: int) -> FloatArray:
    """Return the probabilities of −farthest to farthest, what lies beyond put on the ends."""
    places = np.arange(-40 * farthest, 40 * farthest + 1)
    exponents = places**2 / (2 * scale**2) if law == "gaussian" else np.abs(places) / scale
    weights = np.exp(-exponents)
    clipped = np.clip(places, -farthest, farthest) + farthest
    return np.asarray(np.bincount(clipped, weights / weights.sum()))


def fits(noise: IntArray, law: NoiseKind, scale: float) -> bool:
    """Return whether noise may be from the discrete law, by a chi-square test."""
    farthest = math.ceil(2.5 * scale)
    counts = np.bincount(np.clip(noise, -farthest, farthest) + farthest, minlength=2 * farthest + 1)
    expected = noise.size * exact_law(law, scale, farthest)
    assert expected.min() > 20
    return bool(stats.chisquare(counts, expected).pvalue > LEVEL)


@pytest.mark.parametrize("scale", [0.6, 3.0])
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_noise_of_deployed_clients_is_from_the_discrete_law(law: NoiseKind, scale: float) -> None:
    assert fits(discrete_noise(law, scale, 20_000), law, scale)


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_rounded_noise_is_not_from_the_discrete_law_at_a_small_scale(law: NoiseKind) -> None:
    """The test above can fail: at scales of few steps the two laws differ."""
    assert not fits(seeded_noise(np.random.default_rng(1))(law, 0.6, 20_000), law, 0.6)


@pytest.mark.parametrize(
    "noise", [discrete_noise, seeded_noise(np.random.default_rng(2))], ids=["deployed", "seeded"]
)
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_at_a_scale_of_many_steps_noise_is_from_the_continuous_law(
    law: NoiseKind, noise: Noise
) -> None:
    scale = 2.0**20
    drawn = noise(law, scale, 20_000)
    assert drawn.dtype == np.int64
    cdf = stats.norm(scale=scale).cdf if law == "gaussian" else stats.laplace(scale=scale).cdf
    assert stats.kstest(drawn, cdf).pvalue > LEVEL


def test_seeded_noise_repeats_and_deployed_noise_does_not() -> None:
    first, second = (seeded_noise(np.random.default_rng(7)) for _ in range(2))
    assert (first("laplace", 1e6, 50) == second("laplace", 1e6, 50)).all()
    assert (discrete_noise("laplace", 1e6, 50) != discrete_noise("laplace", 1e6, 50)).any()
    assert discrete_noise("gaussian", 1e6, 0).shape == (0,)


@pytest.mark.parametrize(
    "noise", [discrete_noise, seeded_noise(np.random.default_rng(2))], ids=["deployed", "seeded"]
)
@pytest.mark.parametrize("scale", [0.0, -3.0, math.inf, math.nan, 1e16])
def test_a_scale_that_is_none_is_refused(noise: Noise, scale: float) -> None:
    told = f"scale: {scale:g} is not a positive number of steps up to 2^50; give one such as 2^20"
    with pytest.raises(InputError) as caught:
        noise("gaussian", scale, 3)
    assert str(caught.value) == told


def test_a_negative_number_of_draws_is_refused() -> None:
    with pytest.raises(InputError, match=r"^size: -1 is not a whole number from 0"):
        discrete_noise("gaussian", 1.0, -1)


def test_without_opendp_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(InputError) as caught:
        discrete_noise("gaussian", 1234.5, 1)  # a scale for which none was built before
    assert 'pip install "fedbandits[privacy]"' in str(caught.value)


@pytest.mark.parametrize("seed", range(20))
def test_of_releases_that_are_not_ordered_each_order_has_its_own_largest(seed: int) -> None:
    """What a person spends whose observations are split over two releases is bounded too."""
    rng = np.random.default_rng(seed)
    gaussian = Spending.gaussian(float(rng.uniform(0.05, 3.0)))
    laplace = Spending.laplace(float(rng.uniform(0.1, 3.0)))
    both = gaussian.worst(laplace)
    assert both == laplace.worst(gaussian) == both.worst(gaussian)
    assert both.rho == max(gaussian.rho, laplace.rho)
    for delta in (1e-9, 1e-6, 1e-2):
        larger = max(gaussian.epsilon(delta), laplace.epsilon(delta))
        assert both.epsilon(delta) >= larger * (1 - 1e-9)
        # A share of the observations in one release, the rest in the other.
        for share in (0.1, 0.5, 0.9):
            split = Spending.gaussian(share**2 * gaussian.rho).plus(
                Spending.laplace((1 - share) * laplace.pure_epsilon)
            )
            assert split.epsilon(delta) <= both.epsilon(delta) * (1 + 1e-9)


def test_the_larger_of_two_kinds_of_noise_is_not_the_one_with_the_larger_rho() -> None:
    """Laplace noise of ε₀ = 1.5 has the larger ρ, and Gaussian noise of ρ = 0.9 has ε = 7.3."""
    policy = Privacy(range=(0, 1), noise="laplace", scale=0.1)
    old, new = Spending.gaussian(0.9), Spending.laplace(1.5)
    assert old.rho < new.rho
    for total in (policy.total(old, new), policy.total(new, old)):
        assert (
            total.epsilon(1e-6) == pytest.approx(old.epsilon(1e-6)) == pytest.approx(7.3, abs=0.05)
        )
        assert total.rho == new.rho
