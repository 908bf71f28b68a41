"""Outcomes as they come from a user's code: checked one by one, before anything is made of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from fedbandits.errors import LARGEST, InputError, is_number
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.guardrails import OUTCOME, Guardrail

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
        raise InputError("", f"returned {_shown(returned)}, a {kind}; {_wanted(n)}")
    if len(values) != n:
        raise InputError("", f"returned {_shown(returned)}, {len(values)} values; {_wanted(n)}")
    finite = np.abs(values) <= LARGEST
    if not finite.all():
        place = int(finite.argmin())
        shown = float(values[place])
        raise InputError("", f"returned[{place}] is {shown!r}, which is not a finite number")
    return values.astype(np.float64, copy=False)


def as_guarded(
    returned: object, n: int, guardrails: Sequence[Guardrail]
) -> tuple[FloatArray, FloatArray]:
    """Return what a user's code has returned as n outcomes, and n values of each guardrail.

    That is n rows, each with an outcome and the guardrails in their order, or a mapping with n
    values for ``"outcome"`` and for the name of each guardrail.

    Returns
    -------
    array, shape (n,), and array, shape (guardrails, n)

    Raises
    ------
    InputError
        If it is anything else, or a value of a guardrail lies outside its range.

    Examples
    --------
    >>> adverse = Guardrail(name="adverse", limit=0.05)
    >>> as_guarded([(0.7, 0), (0.2, 1)], 2, [adverse])
    (array([0.7, 0.2]), array([[0., 1.]]))
    >>> as_guarded({"outcome": [0.7, 0.2]}, 2, [adverse])
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: returned a mapping without "adverse"; return 2 rows (outcome,
    adverse), or a mapping with 2 numbers for each of them
    """
    names = [OUTCOME, *(rail.name for rail in guardrails)]
    rows, each = ("1 row", "1 number") if n == 1 else (f"{n} rows", f"{n} numbers")
    wanted = f"return {rows} ({', '.join(names)}), or a mapping with {each} for each of them"
    if isinstance(returned, Mapping):
        columns = _of_mapping(returned, names, wanted)
    else:
        columns = _of_rows(returned, n, len(names), wanted)
    found = []
    for name, column in zip(names, columns, strict=True):
        try:
            found.append(as_outcomes(column, n))
        except InputError as error:
            raise InputError("", f"{name}: {error.problem}") from None
    for rail, values in zip(guardrails, found[1:], strict=True):
        refuse_beyond(values, rail, f"{rail.name}: returned[{{}}]")
    return found[0], np.array(found[1:]).reshape(len(guardrails), n)


def _of_mapping(returned: Mapping[Any, Any], names: Sequence[str], wanted: str) -> list[Any]:
    for name in names:
        if name not in returned:
            raise InputError("", f'returned a mapping without "{name}"; {wanted}')
    for name in returned:
        if name not in names:
            raise InputError("", f"returned {_shown(name)}, which is no guardrail; {wanted}")
    return [returned[name] for name in names]


def _of_rows(returned: object, n: int, width: int, wanted: str) -> list[Any]:
    if hasattr(returned, "__array__"):
        array = np.asarray(returned)
        if array.shape != (n, width):
            raise InputError("", f"returned an array of shape {array.shape}; {wanted}")
        return list(array.T)
    if not isinstance(returned, Sequence) or isinstance(returned, str | bytes):
        kind = type(returned).__name__
        raise InputError("", f"returned {_shown(returned)}, a {kind}; {wanted}")
    rows = [row.tolist() if isinstance(row, np.ndarray) else row for row in returned]
    for place, row in enumerate(rows):
        if not isinstance(row, Sequence) or isinstance(row, str | bytes) or len(row) != width:
            raise InputError("", f"returned[{place}] is {_shown(row)}; {wanted}")
    if len(rows) != n:
        raise InputError("", f"returned {len(rows)} rows; {wanted}")
    return [list(column) for column in zip(*rows, strict=True)]


def refuse_beyond(values: FloatArray, rail: Guardrail, name: str) -> None:
    """Refuse values outside a guardrail's range; the error names the first.

    Parameters
    ----------
    values : array
        Of the guardrail.
    rail : Guardrail
        Which.
    name : str
        What a value is called, with braces for its place.
    """
    low, high = rail.range
    inside = (low <= values) & (values <= high)
    if not inside.all():
        place = int(inside.argmin())
        raise InputError(
            "",
            f"{name.format(place)} is {float(values[place])!r}, outside the guardrail's range of"
            f" {low:g} to {high:g}; mend what gives it, or begin a run with a wider range in"
            " guardrails of fedbandits.toml",
        )


def _numbers(values: Sequence[Any], n: int) -> FloatArray:
    if not {type(value) for value in values} <= {float, int}:  # the others one by one
        for place, value in enumerate(values):
            if not is_number(value):
                raise InputError(
                    "", f"returned[{place}] is {_shown(value)}, which is not a number; {_wanted(n)}"
                )
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError:  # a whole number of hundreds of digits
        return np.array([math.inf if abs(value) > LARGEST else value for value in values])


def _wanted(n: int) -> str:
    return "return 1 number" if n == 1 else f"return {n} numbers"


def _shown(value: object) -> str:
    said = repr(value)
    return said if len(said) <= _LONGEST_VALUE else f"{said[: _LONGEST_VALUE - 1]}…"


def refuse_outside(values: FloatArray, limits: Limits, name: str = "returned[{}]") -> None:
    """Refuse values outside a range; the error names the first.

    Parameters
    ----------
    values : array
        Outcomes.
    limits : (float, float)
        The range.
    name : str
        What a value is called, with braces for its place.

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
            f"{name.format(place)} is {float(values[place])!r}, outside the trial's range of"
            f" {limits[0]:g} to {limits[1]:g}; mend what gives it, or begin a run with a wider"
            ' range or with outside = "clip" in fedbandits.toml',
        )
