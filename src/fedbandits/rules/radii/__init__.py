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

from dataclasses import replace

from fedbandits.errors import InputError
from fedbandits.registry import Registry
from fedbandits.rules.levels import LevelLike, as_level
from fedbandits.rules.radii.bernstein import BernsteinRadius
from fedbandits.rules.radii.chernoff import ChernoffRadius
from fedbandits.rules.radii.index import Commit, Index, IndexRadius
from fedbandits.rules.radii.intervals import ImprovedUcbRadius, JointRadius, PaperRadius
from fedbandits.rules.radii.known import Dependence, PhaseStatistics, Radius
from fedbandits.rules.radii.paired_t import PairedTRadius
from fedbandits.rules.radii.pairs import CertifiedRadius, PairwiseRadius

RADII: Registry[Radius] = Registry(
    "a radius",
    group="fedbandits.radii",
    key="rule",
    roles=(Radius,),
    required=("half_widths", "stays", "margins"),
    built_in=(
        PaperRadius,
        JointRadius,
        PairwiseRadius,
        CertifiedRadius,
        PairedTRadius,
        BernsteinRadius,
        ChernoffRadius,
    ),
)
"""The radii by their names in experiment files."""


def with_options(
    radius: Radius, *, delta: LevelLike | None, dependence: Dependence | None
) -> Radius:
    """Return a radius with another level or dependence, if one is given.

    Only a default of the radius is replaced, because nobody chose it. If the radius sets its own
    and the two differ, that is a mistake.

    Examples
    --------
    >>> with_options(PairwiseRadius(), delta=None, dependence="any")
    PairwiseRadius(dependence='any')
    >>> with_options(JointRadius(), delta=0.05, dependence=None)
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: delta: the radius "joint" has none; leave it out, or use another
    """
    if isinstance(radius, type) or not isinstance(radius, Radius):
        raise InputError(
            "radius", f"{radius!r} is not a radius such as CertifiedRadius(delta=0.05)"
        )
    for name, value in (("delta", delta), ("dependence", dependence)):
        if value is None:
            continue
        if name not in radius.options:
            raise InputError(
                name, f'the radius "{radius.rule}" has none; leave it out, or use another'
            )
        changed = replace(radius, **{name: value})
        own = getattr(radius, name)
        if str(own) != type(radius).__dataclass_fields__[name].default:
            check_option(name, value, own)
        radius = changed
    return radius


def check_option(name: str, value: LevelLike, own: LevelLike) -> None:
    """Refuse a level or dependence of an algorithm that contradicts its radius's own.

    Examples
    --------
    >>> check_option("delta", 0.05, "1/20")
    >>> check_option("delta", 0.05, "1/T")
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: delta: 0.05, and radius.delta is 1/T; give one of the two
    """
    same = as_level(value).same_as(as_level(own)) if name == "delta" else value == own
    if not same:
        raise InputError(name, f"{value}, and radius.{name} is {own}; give one of the two")


__all__ = [
    "RADII",
    "BernsteinRadius",
    "CertifiedRadius",
    "ChernoffRadius",
    "Commit",
    "Dependence",
    "ImprovedUcbRadius",
    "Index",
    "IndexRadius",
    "JointRadius",
    "PairedTRadius",
    "PairwiseRadius",
    "PaperRadius",
    "PhaseStatistics",
    "Radius",
    "check_option",
    "with_options",
]
