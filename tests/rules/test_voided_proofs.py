"""A part that replaces what a proof is about proves nothing, however it does so."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, ClassVar

import numpy as np

import fedbandits as fb
from fedbandits.protocol import Quorum, Server
from fedbandits.rules.arrays import BoolArray, FloatArray
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.estimates import Estimate
from fedbandits.rules.estimators import Plain
from fedbandits.rules.guarantees import Guarantee, ProofContext
from fedbandits.rules.phased import PhasedRule, Verdict
from fedbandits.rules.radii import (
    ImprovedUcbRadius,
    IndexRadius,
    PhaseStatistics,
    Radius,
)
from fedbandits.rules.reports import Reports
from fedbandits.rules.sampling import Sampling
from kept_promises import DELTA
from ten_clients import EIGHT, answer_to

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


@dataclass(frozen=True, slots=True, kw_only=True)
class HalvingUcb(fb.Fed2Ucb):
    """The algorithm of a user who halves."""

    name: ClassVar[str] = "halving"

    def rule(self, beliefs: Beliefs) -> PhasedRule:
        rule = fb.Fed2Ucb.rule(self, beliefs)
        return Halving(**{field.name: getattr(rule, field.name) for field in fields(PhasedRule)})


def test_nothing_is_printed_about_a_rule_of_ones_own_that_is_often_wrong() -> None:
    means = [0.5] * 7 + [0.55]
    problem = fb.Approximate(means=means, noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.1))
    algorithm = HalvingUcb(pulls=10, admissions=2, radius=fb.CertifiedRadius())
    variant = fb.Variant(label="halving", problem=problem, algorithm=algorithm)
    experiment = fb.Experiment(title="", variants=[variant], horizon=5000, replications=50)
    results = experiment.run(workers=1)
    said = results.summary()["variants"][0]
    assert said["wrong_arm_rate"] > 0.2
    assert said["guarantee"].startswith("none: Halving replaces a part of PhasedRule")
    assert "0.0002" not in said["guarantee"]


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


class NarrowMixin:
    """Widths of nearly nothing, for whatever radius it is mixed into."""

    __slots__ = ()

    def log_term(self, known: PhaseStatistics) -> FloatArray:
        return np.asarray(0.001)


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedRadius(NarrowMixin, fb.CertifiedRadius):
    """A radius whose class replaces nothing itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedRadius(fb.CertifiedRadius):
    """A radius whose method is no plain function."""

    @cache  # noqa: B019 - what matters is that this is no function
    def log_term(self, known: PhaseStatistics) -> FloatArray:
        return np.asarray(0.001)


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRadius(fb.CertifiedRadius):
    """Shows intervals of no width."""

    def interval_widths(self, level: float, known: PhaseStatistics, reports: Reports) -> FloatArray:
        return np.zeros(known.n_arms)


class FirstClientMixin:
    """All weight to the client that is named first."""

    __slots__ = ()

    def weighed(self, reports: Reports, *_: object) -> FloatArray:
        return np.where(np.arange(np.shape(reports.counts)[-1]) == 0, 1.0, 1e-9)


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstClient(FirstClientMixin, Plain):
    """An estimator whose class replaces nothing itself."""


class DecidingMixin:
    """Decides by something else."""

    __slots__ = ()

    def decide(self, **_: Any) -> Verdict:
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedRule(DecidingMixin, PhasedRule):
    """A rule whose class replaces nothing itself."""


def test_what_is_mixed_in_or_no_plain_function_replaces_what_is_proven_too() -> None:
    for radius in (MixedRadius(delta=DELTA), CachedRadius(delta=DELTA)):
        assert rule_with(radius).guarantee().error is None
    assert not FirstClient().proven
    assert not rule_with(fb.CertifiedRadius(delta=DELTA), MixedRule).guarantee().holds


class DeafMixin:
    """Keeps from its bases that there is a subclass, and narrows widths."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        """Tell nobody."""

    def log_term(self, known: PhaseStatistics) -> FloatArray:
        return np.asarray(0.001)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeafRadius(DeafMixin, fb.CertifiedRadius):
    """A radius whose bases never hear of it."""


@dataclass(frozen=True, kw_only=True)
class RadiusWithRoom(fb.CertifiedRadius):
    """A radius that replaces nothing, and whose values have room for more attributes."""


@dataclass(frozen=True, kw_only=True)
class OwnAccess(fb.CertifiedRadius):
    """A radius that hands out another method than it has."""

    def __getattribute__(self, name: str) -> Any:
        if name == "log_term":
            return narrow
        return super().__getattribute__(name)


def narrow(*_: Any) -> FloatArray:
    return np.asarray(0.001)


def test_a_method_that_is_assigned_to_a_class_later_voids_what_is_proven() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Assigned(fb.CertifiedRadius):
        pass

    radius = Assigned(delta=DELTA)
    assert rule_with(radius).guarantee().error == DELTA
    Assigned.log_term = narrow  # type: ignore[assignment, method-assign]
    assert rule_with(radius).guarantee().error is None
    Assigned.log_term = fb.CertifiedRadius.log_term  # type: ignore[method-assign]
    assert rule_with(radius).guarantee().error == DELTA


def test_a_mixin_that_passes_no_hook_on_voids_what_is_proven() -> None:
    assert rule_with(DeafRadius(delta=DELTA)).guarantee().error is None


def test_an_attribute_of_the_value_that_hides_a_method_voids_what_is_proven() -> None:
    radius = RadiusWithRoom(delta=DELTA)
    assert rule_with(radius).guarantee().error == DELTA
    vars(radius)["log_term"] = narrow
    assert rule_with(radius).guarantee().error is None


def test_another_way_to_attributes_voids_what_is_proven() -> None:
    assert rule_with(OwnAccess(delta=DELTA)).guarantee().error is None


def test_rules_and_estimators_are_judged_when_they_are_asked_too() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Rule(PhasedRule):
        pass

    @dataclass(frozen=True, kw_only=True)
    class Average(Plain):
        pass

    rule = rule_with(fb.CertifiedRadius(delta=DELTA), Rule)
    assert rule.guarantee().error == DELTA
    object.__setattr__(rule, "decide", narrow)
    assert (rule.guarantee().error, rule.interval_guarantee(DELTA).error) == (None, None)
    average = Average()
    assert average.proven
    assert average.equal_weights
    Average.weighed = narrow  # type: ignore[assignment, method-assign]
    assert not average.proven
    assert not average.equal_weights


def test_what_replaces_a_method_of_a_class_that_states_its_own_proof_voids_that() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Further(StatedHalving):
        def decide(self, **_: Any) -> Verdict:
            raise NotImplementedError

    assert rule_with(fb.CertifiedRadius(delta=DELTA), Further).guarantee().error is None


def test_intervals_whose_widths_a_radius_replaces_have_no_probability() -> None:
    found = rule_with(PointRadius(delta=DELTA)).interval_guarantee(DELTA)
    assert (found.error, found.holds) == (None, False)
    assert 'the radius "certified" states no proof of its intervals' in found.words()
    # Whoever replaces only what decides shows the intervals of this package.
    assert rule_with(CarelessRadius(delta=DELTA)).interval_guarantee(DELTA).error == DELTA


def test_every_radius_states_its_own_proof() -> None:
    context = ProofContext(horizon=1000)
    for radius in (fb.CertifiedRadius(delta=0.1), fb.BernsteinRadius(delta=0.1)):
        assert radius.guarantee(context).error == 0.1
    assert fb.PaperRadius().guarantee(context).regret
    assert not fb.PaperRadius(client=1).guarantee(context).regret
    assert fb.PaperRadius(client=1).guarantee(replace(context, everyone=True)).regret


def test_a_radius_proves_nothing_in_a_setting_that_its_proof_is_not_about() -> None:
    told = Beliefs(n_arms=2, horizon=10_000, noise=0.5, spread=0.3)
    certified = IndexRadius(noise=0.5, commit="certified", delta=DELTA)
    pulls: dict[str, Any] = {"pulls": 10, "radius": certified}
    assert fb.Fed1Ucb(clients=4, **pulls).rule(told).guarantee().error == DELTA
    # With a tolerance, or for clients that are a sample, it may settle on another one.
    for algorithm in (
        fb.Fed1Ucb(clients=4, epsilon=0.5, **pulls),
        fb.Fed2Ucb(admissions=2, **pulls),
        fb.Fed2Ucb(pulls=10, admissions=2, radius=ImprovedUcbRadius()),
        fb.Fed1Ucb(pulls=10, clients=4, radius=ImprovedUcbRadius()),
    ):
        assert not algorithm.rule(told).guarantee().holds
    assert fb.ImprovedUcb().rule(told).guarantee().holds


def test_constants_that_are_enough_for_all_clients_are_not_for_some_of_them() -> None:
    rule = fb.Fed1Ucb(pulls=100, clients=10, radius=fb.PaperRadius(client=1)).rule(
        Beliefs(n_arms=2, horizon=100_000, noise=0.5, spread=0.3)
    )
    server = Server(rule, quorum=Quorum(fraction=0.8))
    assert server.run_state.guarantee.holds
    answer_to(server, dict.fromkeys(EIGHT, (0.2, 0.5)))
    server.close()
    why = "2 of 10 clients were never heard, and what the rule proves is about all of them"
    assert server.run_state.guarantee.breaches == (why,)
