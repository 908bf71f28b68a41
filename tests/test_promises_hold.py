"""What is printed holds, or is not printed: every case in which the first version was wrong.

Each case was seen: promises were looked up by the type of a rule, and outlived whatever happened in
a game. Here either the promise is kept in the least favourable game that we know, or it is gone and
what is printed says which condition broke.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import stats

import fedbandits as fb
from fedbandits.experiments.bounds import bounds_of
from fedbandits.experiments.report.page import report_html
from fedbandits.rules.arrays import BoolArray, FloatArray
from fedbandits.rules.estimates import Estimate
from fedbandits.rules.estimators import Plain
from fedbandits.rules.guarantees import Assumption, Condition, Guarantee, Setting, Status
from fedbandits.rules.phased import Beliefs, PhasedRule, Verdict
from fedbandits.rules.radii import PhaseStatistics, Radius
from fedbandits.rules.reports import Reports
from fedbandits.rules.sampling import Sampling

DELTA = 0.05
GAMES = 10_000


def is_kept(lost: int, games: int = GAMES, delta: float = DELTA) -> bool:
    """Return whether so many losses may well be from a probability of δ: at the 1 % level."""
    return bool(stats.binomtest(lost, games, delta, alternative="greater").pvalue >= 0.01)


def test_the_test_of_a_promise_rejects_violations_of_the_size_that_were_seen() -> None:
    assert is_kept(round(DELTA * GAMES))
    for rate in (0.08, 0.145, 0.21):
        assert not is_kept(round(rate * GAMES))


# The value ---------------------------------------------------------------------------------------

CLAIM = Guarantee(claim="keeps the best", error=DELTA, whom="these 5 clients").requiring(
    Condition(Assumption.NO_DRIFT), Condition(Assumption.IN_RANGE)
)


def test_an_error_probability_is_gone_as_soon_as_a_condition_is_broken() -> None:
    assert CLAIM.holds
    broken = CLAIM.broken(Assumption.NO_DRIFT, "prices rose")
    assert (broken.error, broken.holds, broken.breaches) == (None, False, ("prices rose",))
    assert str(DELTA) not in broken.words()
    # What was broken stays broken, and what does not matter breaks nothing.
    assert broken.kept(Assumption.NO_DRIFT) == broken
    assert CLAIM.broken(Assumption.HONEST, "someone lied") == CLAIM
    given = replace(CLAIM, conditions=broken.conditions)
    assert given.error is None


def test_conditions_are_marked_and_not_forgotten() -> None:
    kept = CLAIM.kept(Assumption.NO_DRIFT, Assumption.HONEST)
    assert [one.status for one in kept.conditions] == [Status.KEPT, Status.UNVERIFIABLE]
    again = kept.requiring(Condition(Assumption.NO_DRIFT), Condition(Assumption.HONEST))
    assert [one.kind for one in again.conditions] == [
        Assumption.NO_DRIFT,
        Assumption.IN_RANGE,
        Assumption.HONEST,
    ]
    assert again.conditions[0].status is Status.KEPT
    late = kept.broken(Assumption.IN_RANGE, "a mean of 7")
    assert CLAIM.following(late) == late


def test_nothing_proven_is_a_value_too() -> None:
    nothing = Guarantee.nothing("none: nobody knows", Condition(Assumption.NO_DRIFT))
    assert not nothing.holds
    assert nothing.words() == "none: nobody knows"
    assert replace(nothing, error=DELTA).error is None


# Rules and radii of one's own --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Halving(PhasedRule):
    """Drops the worse half of the arms in every phase, whatever the widths."""

    def decide(self, *, phase: Any, active: BoolArray, estimate: Estimate) -> Verdict:
        verdict = PhasedRule.decide(self, phase=phase, active=active, estimate=estimate)
        order = np.argsort(np.where(active, -verdict.estimates, np.inf), axis=-1)
        place = np.argsort(order, axis=-1)
        half = (active.sum(axis=-1, keepdims=True) + 1) // 2
        stays = active & (place < half)
        return replace(verdict, active=stays, settled=stays.sum(axis=-1) == 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedHalving(Halving):
    """The same, by somebody who has a proof."""

    def guarantee(self) -> Guarantee:
        return Guarantee(claim="finds one of the best half", error=0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class CarelessRadius(fb.CertifiedRadius):
    """Widths of a tenth."""

    def log_term(self, known: PhaseStatistics) -> FloatArray:
        return fb.CertifiedRadius.log_term(self, known) / 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RenamedRadius(fb.CertifiedRadius):
    """Another name for the same."""

    rule: ClassVar[str] = "renamed"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRadius(Radius):
    """A radius that is none of this package's and states nothing of what it proves."""

    rule: ClassVar[str] = "own"
    uses_noise: ClassVar[bool] = True
    uses_spread: ClassVar[bool] = True
    needs_each_client: ClassVar[bool] = False
    equal_weights_only: ClassVar[bool] = False
    right: fb.CertifiedRadius

    def check_horizon(self, horizon: int | None) -> None:
        self.right.check_horizon(horizon)

    def half_widths(self, known: PhaseStatistics) -> FloatArray:
        return self.right.half_widths(known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Median(Plain):
    """An estimator that nobody has proven anything about."""

    def estimate(self, reports: Reports, sampling: Sampling) -> Estimate:
        return replace(
            Plain.estimate(self, reports, sampling), values=np.median(reports.each_mean(), axis=-1)
        )


def rule_with(radius: Any, kind: type[PhasedRule] = PhasedRule, **told: Any) -> PhasedRule:
    beliefs = Beliefs(n_arms=8, horizon=5000, noise=0.5, spread=0.1, **told)
    rule = fb.Fed2Ucb(pulls=10, admissions=2, radius=radius).rule(beliefs)
    return kind(**{field.name: getattr(rule, field.name) for field in fields(PhasedRule)})


def test_a_rule_that_replaces_how_it_decides_proves_nothing_unless_it_says_so() -> None:
    radius = fb.CertifiedRadius(delta=DELTA)
    assert rule_with(radius).guarantee().error == DELTA
    halving = rule_with(radius, Halving)
    for found in (halving.guarantee(), halving.interval_guarantee(DELTA)):
        assert found.error is None
        assert not found.holds
        assert "Halving replaces a part of PhasedRule" in found.words()
    assert rule_with(radius, StatedHalving).guarantee().error == 0.5
    assert not rule_with(radius, StatedHalving).interval_guarantee(DELTA).holds


def test_a_radius_that_replaces_a_width_or_states_nothing_proves_nothing() -> None:
    careless = rule_with(CarelessRadius(delta=DELTA)).guarantee()
    assert "none: CarelessRadius states no proof" in careless.words()
    own = rule_with(OwnRadius(right=fb.CertifiedRadius(delta=DELTA))).guarantee()
    assert "none: OwnRadius states no proof" in own.words()
    assert (careless.error, own.error) == (None, None)
    # A new name changes nothing that is proven.
    assert rule_with(RenamedRadius(delta=DELTA)).guarantee().error == DELTA


def test_an_estimator_that_replaces_how_it_estimates_proves_nothing() -> None:
    rule = replace(rule_with(fb.CertifiedRadius(delta=DELTA)), estimator=Median())
    for found in (rule.guarantee(), rule.interval_guarantee(DELTA)):
        assert not found.holds
        assert 'the estimator "plain" is not proven' in found.words()


def test_every_radius_states_its_own_proof() -> None:
    setting = Setting(horizon=1000)
    for radius in (fb.CertifiedRadius(delta=0.1), fb.BernsteinRadius(delta=0.1)):
        assert radius.guarantee(setting).error == 0.1
    assert fb.PaperRadius().guarantee(setting).regret
    assert not fb.PaperRadius(client=1).guarantee(setting).regret
    assert fb.PaperRadius(client=1).guarantee(replace(setting, everyone=True)).regret


# One answer, everywhere --------------------------------------------------------------------------

FINITE = fb.Approximate(
    means=[0.3, 0.6], noise=fb.Gaussian(0.3), spread=fb.Gaussian(0.1), population=20
)
TIED = replace(FINITE, means=np.array([0.6, 0.6]), name="tied")
RATES = fb.Exact(local_means=[[0.2, 0.9], [0.4, 0.6], [0.3, 0.5]], noise=fb.Bernoulli())
NORMAL = fb.Exact(local_means=[[0.2, 0.9]], noise=fb.Gaussian(0.5))
NOISED = fb.Privacy(range=(0, 1), noise="gaussian", epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize(
    ("problem", "settings", "words"),
    [
        (FINITE, {}, None),
        (RATES, {"privacy": NOISED}, None),
        (RATES, {"max_phases": 1}, None),
        (TIED, {}, "several options are the best"),
        (NORMAL, {"privacy": NOISED}, r"lie outside \[0, 1\] and are clipped"),
        (FINITE, {"assume": fb.Assume(noise=0.1)}, "told noise 0.1"),
    ],
)
def test_bounds_and_the_report_give_one_answer(
    problem: Any, settings: dict[str, Any], words: str | None
) -> None:
    variant = fb.Variant(
        label="it",
        problem=problem,
        algorithm=fb.Fed2Ucb(pulls=10, admissions=2),
        **settings,
    )
    experiment = fb.Experiment(title="", variants=[variant], horizon=5000, replications=2)
    (found,) = bounds_of(experiment)
    results = experiment.run(workers=1)
    said = results.summary()["variants"][0]["guarantee"]
    assert said in re.sub("&#x27;", "'", report_html(results))
    if words is None:
        assert found.bound is not None
        assert said.startswith("the regret bounds of Theorems 2 and 3")
    else:
        assert found.bound is None
        for answer in (str(found.reason), said):
            assert re.search(words, answer)
            assert "Theorem" not in answer


def test_given_clients_who_join_gradually_break_the_independence_of_options() -> None:
    """If one sample judges all options and they are liked by opposite clients, 8 % are lost."""
    given = fb.Exact(local_means=[[0.0, 1.0], [1.0, 0.0]] * 50, noise=fb.Gaussian(0.1))
    for dependence, kept in (("independent", False), ("any", True)):
        radius = fb.CertifiedRadius(delta=DELTA, dependence=dependence)  # type: ignore[arg-type]
        algorithm = fb.Fed2Ucb(pulls=10, admissions=10, radius=radius)
        variant = fb.Variant(label="it", problem=given, algorithm=algorithm)
        (found,) = fb.Experiment(title="", variants=[variant], horizon=9000).guarantees()
        assert found.error == (DELTA if kept else None)
        assert ("the arms of a client for independent" in found.words()) == (not kept)
