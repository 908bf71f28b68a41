"""Short ways to ask a rule, for tests that give estimates and counts by hand."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy.typing as npt

from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.distortion import UNDISTORTED, Distortion
from fedbandits.rules.estimates import Estimate
from fedbandits.rules.phased import PhasedRule, Verdict
from fedbandits.rules.radii import PhaseStatistics
from fedbandits.rules.reports import Reports


def estimate_by_hand(
    rule: PhasedRule,
    *,
    estimates: FloatArray,
    counts: npt.ArrayLike,
    sizes: npt.ArrayLike = 1,
    client_means: FloatArray | None = None,
    shares: FloatArray | None = None,
    distortion: Distortion = UNDISTORTED,
) -> Estimate:
    """Return what a rule makes of counts, with other values."""
    reports = Reports.planned(counts, sizes, shares=shares, distortion=distortion)
    found = rule.estimator.estimate(reports, rule.sampling)
    return replace(found, values=estimates, client_means=client_means)


def decided(rule: PhasedRule, *, phase: int | IntArray, active: BoolArray, **known: Any) -> Verdict:
    """Return what a rule decides on estimates and counts; see `estimate_by_hand`."""
    return rule.decide(phase=phase, active=active, estimate=estimate_by_hand(rule, **known))


def width_of(
    rule: PhasedRule, *, phase: int | IntArray, counts: npt.ArrayLike, **known: Any
) -> FloatArray:
    """Return the half-width after so many pulls."""
    sizes = known.pop("sizes", 1)
    return rule.width(phase=phase, reports=Reports.planned(counts, sizes, **known))


def changed(known: PhaseStatistics, **values: Any) -> PhaseStatistics:
    """Return what is known with other values, of itself or of its estimate."""
    own = {field.name for field in fields(PhaseStatistics)}
    estimate = {name: value for name, value in values.items() if name not in own}
    return replace(
        known,
        estimate=replace(known.estimate, **estimate),
        **{name: value for name, value in values.items() if name in own},
    )
