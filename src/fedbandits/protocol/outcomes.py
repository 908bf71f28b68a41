"""Outcomes as they come from a user's code: checked one by one, before anything is made of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from fedbandits.errors import LARGEST, InputError, is_number
from fedbandits.rules.arrays import FloatArray

Limits: TypeAlias = tuple[float, float]
"""Low and high end of a range that contains every outcome."""

Outside: TypeAlias = Literal["refuse", "clip"]
"""What becomes of an outcome outside the declared range."""

_LONGEST_VALUE = 60


class OutOfRangeError(InputError):
    """An outcome lies outside the range that was declared for all of them."""


def joint_range(declared: Iterable[Limits | None]) -> Limits | None:
    """Return the range that all declared ones have in common; None if none is declared.

    Examples
    --------
    >>> joint_range([(0.0, 5.0), None, (1.0, 9.0)])
    (1.0, 5.0)
    """
    known = [one for one in declared if one is not None]
    if not known:
        return None
    low, high = max(low for low, _ in known), min(high for _, high in known)
    if low >= high:
        raise InputError(
            "range", f"{' and '.join(map(words_of, known))} have nothing in common; declare one"
        )
    return low, high


def words_of(limits: Limits) -> str:
    """Return a range in words.

    Examples
    --------
    >>> words_of((0.0, 1.0))
    '[0, 1]'
    """
    return f"[{limits[0]:g}, {limits[1]:g}]"


def as_outcomes(returned: object, n: int) -> FloatArray:
    """Return what a user's code has returned as n numbers.

    Nothing is converted: a text, a truth value or a missing value is more often a mistake than a
    number.

    Raises
    ------
    InputError
        If it is anything but n finite numbers; it names the first value that is none.

    Examples
    --------
    >>> as_outcomes([1, 0.5], 2)
    array([1. , 0.5])
    >>> as_outcomes([0.5, "1.0"], 2)
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: returned[1] is '1.0', which is not a number; return 2 numbers
    """
    if hasattr(returned, "__array__"):
        array = np.asarray(returned)
        if array.ndim != 1:
            raise InputError("", f"returned an array of shape {array.shape}; {_wanted(n)}")
        values = array if array.dtype.kind in "fiu" else _numbers(array.tolist(), n)
    elif isinstance(returned, Sequence) and not isinstance(returned, str | bytes):
        values = _numbers(returned, n)
    else:
        kind = type(returned).__name__
        raise InputError("", f"returned {shown(returned)}, a {kind}; {_wanted(n)}")
    if len(values) != n:
        raise InputError("", f"returned {shown(returned)}, {len(values)} values; {_wanted(n)}")
    finite = np.abs(values) <= LARGEST
    if not finite.all():
        place = int(finite.argmin())
        value = float(values[place])
        raise InputError("", f"returned[{place}] is {value!r}, which is not a finite number")
    return values.astype(np.float64, copy=False)


def _numbers(values: Sequence[Any], n: int) -> FloatArray:
    if not {type(value) for value in values} <= {float, int}:  # the others one by one
        for place, value in enumerate(values):
            if not is_number(value):
                raise InputError(
                    "", f"returned[{place}] is {shown(value)}, which is not a number; {_wanted(n)}"
                )
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError:  # a whole number of hundreds of digits
        return np.array([math.inf if abs(value) > LARGEST else value for value in values])


def _wanted(n: int) -> str:
    return "return 1 number" if n == 1 else f"return {n} numbers"


def shown(value: object) -> str:
    """Return a value as an error shows it."""
    said = repr(value)
    return said if len(said) <= _LONGEST_VALUE else f"{said[: _LONGEST_VALUE - 1]}…"


def refuse_outside(
    values: FloatArray, limits: Limits, name: str = "returned[{}]", whose: str = "trial's"
) -> None:
    """Refuse values outside a range; the error names the first.

    Parameters
    ----------
    values : array
        Outcomes.
    limits : (float, float)
        The range.
    name : str
        What a value is called, with braces for its place.
    whose : str
        Whose range it is.

    Raises
    ------
    OutOfRangeError
        If there is one.

    Examples
    --------
    >>> refuse_outside(np.array([0.0, 55.0]), (0.0, 60.0))
    """
    inside = (limits[0] <= values) & (values <= limits[1])
    if not inside.all():
        place = int(inside.argmin())
        raise OutOfRangeError(
            "",
            f"{name.format(place)} is {float(values[place])!r}, outside the {whose} range of"
            f" {limits[0]:g} to {limits[1]:g}; mend what gives it, or begin a run with a wider"
            ' range or with outside = "clip" in fedbandits.toml',
        )
