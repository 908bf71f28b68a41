"""What algorithms refuse: parts that do not go together."""

from __future__ import annotations

from fedbandits.errors import InputError
from fedbandits.rules.estimators import Estimator
from fedbandits.rules.levels import LevelLike
from fedbandits.rules.radii import Radius
from fedbandits.rules.sampling import Target


def check_whom(estimator: Estimator, population: int | None, target: Target) -> None:
    """Refuse to weigh clients by what is known of them where each counts the same."""
    if estimator.uses_variances and population is not None and target == "clients":
        raise InputError(
            "weights",
            f'"{estimator.name}" is for target = "population"; of {population} clients that exist'
            ' each counts the same: use "equal"',
        )


def check_level(radius: Radius, delta: LevelLike | None, horizon: int | None) -> None:
    """Refuse a horizon, or none, that does not suit a radius; an error names the key in question.

    Parameters
    ----------
    radius : Radius
        With the level that holds.
    delta : number or expression in T, optional
        The level as the algorithm was given it; None if it is the radius's own.
    horizon : int, optional
        T.
    """
    try:
        radius.check_horizon(horizon)
    except InputError as error:
        if error.where == "delta" and delta is None:
            raise error.within("radius") from None
        raise


def check_paper_radius(radius: object) -> None:
    """Refuse what is not the paper's radius, for the algorithms of the paper alone."""
    if not isinstance(radius, Radius) or radius.constants is None:
        raise InputError(
            "radius", f"{radius!r} is not the paper's; give one such as PaperRadius(arm=6.0)"
        )
