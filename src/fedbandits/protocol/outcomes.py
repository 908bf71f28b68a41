"""Outcomes as they come from a user's code: checked one by one, before anything is made of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any, Literal, TypeAlias

import numpy as np

from fedbandits.errors import LARGEST, InputError, is_number
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.guardrails import OUTCOME, Guardrail

Limits: TypeAlias = tuple[float, float]
"""Low and high end of a range that contains every outcome."""

Outside: TypeAlias = Literal["refuse", "clip"]
"""What becomes of an outcome outside the declared range."""

COVARIATE = "covariate"
"""What the covariate of a unit is called beside its outcome."""

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


def parted(
    returned: object, n: int | None, guardrails: Sequence[Guardrail] = (), *, covariate: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what a user's code has returned as outcomes, values of guardrails, and covariates.

    That is n rows, each with an outcome, the guardrails in their order and the covariate, or a
    mapping with n values for ``"outcome"``, for the name of each guardrail, and for
    ``"covariate"``. If there is nothing but outcomes it is a list of them.

    Parameters
    ----------
    returned : object
        What it has returned.
    n : int, optional
        How many there should be of each; as many of one as of the others by default.
    guardrails : sequence of Guardrail
        Those of the trial.
    covariate : bool
        Whether there is one.

    Returns
    -------
    outcomes, guarded, covariates : array, shape (n,), (guardrails, n) and (n,)
        The covariates are all 0 if there are none.

    Raises
    ------
    InputError
        If it is anything else, or a value of a guardrail lies outside its range.

    Examples
    --------
    >>> adverse = Guardrail(name="adverse", limit=0.05)
    >>> parted([(0.7, 0), (0.2, 1)], 2, [adverse], covariate=False)[:2]
    (array([0.7, 0.2]), array([[0., 1.]]))
    >>> parted({"outcome": [0.7, 0.2]}, 2, [adverse], covariate=False)
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: returned a mapping without "adverse"; return 2 rows (outcome,
    adverse), or a mapping with 2 numbers for each of them
    """
    names = [OUTCOME, *(rail.name for rail in guardrails), *([COVARIATE] if covariate else [])]
    if len(names) == 1:
        outcomes = as_outcomes(returned, _length(returned) if n is None else n)
        return outcomes, np.zeros((0, len(outcomes))), np.zeros(len(outcomes))
    rows, each = {
        None: ("rows", "equally many numbers"),
        1: ("1 row", "1 number"),
    }.get(n, (f"{n} rows", f"{n} numbers"))
    wanted = f"return {rows} ({', '.join(names)}), or a mapping with {each} for each of them"
    if isinstance(returned, Mapping):
        columns = _of_mapping(returned, names, wanted)
    else:
        columns = _of_rows(returned, n, len(names), wanted)
    found: list[FloatArray] = []
    for name, column in zip(names, columns, strict=True):
        length = n if n is not None else len(found[0]) if found else _length(column)
        try:
            found.append(as_outcomes(column, length))
        except InputError as error:
            raise InputError("", f"{name}: {error.problem}") from None
    guarded = np.array(found[1 : 1 + len(guardrails)]).reshape(len(guardrails), len(found[0]))
    for rail, values in zip(guardrails, guarded, strict=True):
        refuse_outside(values, rail.range, f"{rail.name}: returned[{{}}]", "guardrail's")
    return found[0], guarded, found[-1] if covariate else np.zeros(len(found[0]))


def _length(values: object) -> int:
    return len(values) if isinstance(values, Sized) else 1


def _of_mapping(returned: Mapping[Any, Any], names: Sequence[str], wanted: str) -> list[Any]:
    for name in names:
        if name not in returned:
            raise InputError("", f'returned a mapping without "{name}"; {wanted}')
    for name in returned:
        if name not in names:
            raise InputError("", f"returned {shown(name)}, which the trial does not have; {wanted}")
    return [returned[name] for name in names]


def _of_rows(returned: object, n: int | None, width: int, wanted: str) -> list[Any]:
    if hasattr(returned, "__array__"):
        array = np.asarray(returned)
        if array.ndim != 2 or array.shape[1] != width or n not in (None, len(array)):
            raise InputError("", f"returned an array of shape {array.shape}; {wanted}")
        return list(array.T)
    if not isinstance(returned, Sequence) or isinstance(returned, str | bytes):
        kind = type(returned).__name__
        raise InputError("", f"returned {shown(returned)}, a {kind}; {wanted}")
    rows = [row.tolist() if isinstance(row, np.ndarray) else row for row in returned]
    for place, row in enumerate(rows):
        if not isinstance(row, Sequence) or isinstance(row, str | bytes) or len(row) != width:
            raise InputError("", f"returned[{place}] is {shown(row)}; {wanted}")
    if n not in (None, len(rows)):
        raise InputError("", f"returned {len(rows)} rows; {wanted}")
    return [list(column) for column in zip(*rows, strict=True)] or [[]] * width


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
        Whose range it is; only a guardrail's values are never clipped.

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
        clip = "" if whose == "guardrail's" else ' or with outside = "clip"'
        raise OutOfRangeError(
            "",
            f"{name.format(place)} is {float(values[place])!r}, outside the {whose} range of"
            f" {limits[0]:g} to {limits[1]:g}; mend what gives it, or begin a run with a wider"
            f" range{clip} in fedbandits.toml",
        )
