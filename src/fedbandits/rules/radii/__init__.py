r"""Radii: how far apart two global estimates must be before the lower one is dropped.

Every rule here is a frozen value that looks at what is known after a phase (`PhaseStatistics`) and
says which arms stay, how wide an interval is, and how far below the best estimate an arm may still
be the better one (its margin). A driver asks for nothing else, so rules can be exchanged.

What an estimate may be wrong by has two parts, subgaussian one given the other: client m's mean of
n pulls is subgaussian around the global mean with variance proxy σ_c² + σ²/n, so an average with
weights w_m has the proxy :math:`v = \sigma_c^2 \sum w_m^2 + \sigma^2 \sum w_m^2 / n_m`. The
paper bounds the two parts one by one and adds the widths; everything sharper starts from v.

"Error probability" always means: *if* σ and σ_c are true bounds, clients are a random sample of
those the answer is for, outcomes are stationary, and neither schedules, admissions nor dropout
depend on what was observed.
"""

from __future__ import annotations

from dataclasses import replace

from fedbandits.errors import InputError
from fedbandits.rules.levels import LevelLike
from fedbandits.rules.radii.bernstein import BernsteinRadius
from fedbandits.rules.radii.chernoff import ChernoffRadius
from fedbandits.rules.radii.intervals import ImprovedUcbRadius, JointRadius, PaperRadius
from fedbandits.rules.radii.known import PhaseStatistics, Radius
from fedbandits.rules.radii.paired_t import PairedTRadius
from fedbandits.rules.radii.pairs import CertifiedRadius, Dependence, PairwiseRadius

RADII: dict[str, type[Radius]] = {
    radius.rule: radius
    for radius in (
        PaperRadius,
        JointRadius,
        PairwiseRadius,
        CertifiedRadius,
        PairedTRadius,
        BernsteinRadius,
        ChernoffRadius,
    )
}
"""The radii by their names in experiment files."""


def with_options(
    radius: Radius, *, delta: LevelLike | None, dependence: Dependence | None
) -> Radius:
    """Return a radius with another level or dependence, where one is given.

    Examples
    --------
    >>> with_options(PairwiseRadius(), delta=None, dependence="any")
    PairwiseRadius(dependence='any')
    >>> with_options(JointRadius(), delta=0.05, dependence=None)
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: delta: the radius "joint" has none; leave it out, or use another
    """
    for name, value in (("delta", delta), ("dependence", dependence)):
        if value is None:
            continue
        if not hasattr(radius, name):
            raise InputError(
                name, f'the radius "{radius.rule}" has none; leave it out, or use another'
            )
        radius = replace(radius, **{name: value})
    return radius


__all__ = [
    "RADII",
    "BernsteinRadius",
    "CertifiedRadius",
    "ChernoffRadius",
    "Dependence",
    "ImprovedUcbRadius",
    "JointRadius",
    "PairedTRadius",
    "PairwiseRadius",
    "PaperRadius",
    "PhaseStatistics",
    "Radius",
    "with_options",
]
