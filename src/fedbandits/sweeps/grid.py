"""The ``[sweep]`` table of a file: which of its keys vary, over which values, and how together."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from fedbandits.construct import construct, keys_of
from fedbandits.errors import LARGEST, InputError, Mistakes, check_word
from fedbandits.sweeps.keys import place_of

Scale: TypeAlias = Literal["linear", "log"]
Combine: TypeAlias = Literal["cross", "zip"]
"""Every value of one key with every value of the others, or the first with the first and so on."""

COMBINE = "combine"
MOST_AT_ALL = 10_000_000
"""More settings are never played: what is held of them would not fit into memory."""

# So that 0.1 + 2 * 0.1 is the 0.3 that a person would write.
_DIGITS = 12
# A grid of more steps is taken for one that does not end.
_FAR_TOO_MANY = 1e15


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Evenly spaced values, their ends included; whole numbers if both ends are.

    In a file it is a table such as ``{ from = 0.01, to = 0.1, points = 10 }``.

    Parameters
    ----------
    start, stop : int or float
        The first value, and the last or a bound on it: the keys ``from`` and ``to``.
    points : int, optional
        How many.
    step : int or float, optional
        The difference of two neighbours, in place of points.
    scale : {"linear", "log"}
        Whether differences or ratios are even.

    Examples
    --------
    >>> Range(start=0.005, stop=0.5, points=3, scale="log").values()
    [0.005, 0.05, 0.5]
    >>> Range(start=1, stop=10, points=4, scale="log").values()
    [1, 2, 5, 10]
    """

    start: int | float = field(metadata={"key": "from"})
    stop: int | float = field(metadata={"key": "to"})
    points: int | None = None
    step: int | float | None = None
    scale: Scale = "linear"

    def __post_init__(self) -> None:
        start, stop, step, points = self.start, self.stop, self.step, self.points
        for key, end in (("from", start), ("to", stop)):
            if not abs(end) <= LARGEST:
                rule = f"is not finite; no grid ends there (beyond {LARGEST:g})"
                raise InputError(key, f"{_shown(end)} {rule}")
        check_word(self.scale, Scale, "scale")
        if self.scale == "log" and min(start, stop) <= 0:
            told = f"from {start} to {stop} has no logarithms"
            raise InputError("scale", f'{told}; use scale = "linear", or start above 0')
        if (points is None) == (step is None):
            raise InputError("points", "or step must be given, and not both")
        if points is not None and (points < 1 or (points == 1 and start != stop)):
            least = "at least 1" if points < 1 else "2 or more from one end to another"
            raise InputError("points", f"{points} points; a range has {least}")
        if step is None:
            return
        if self.scale == "log":
            raise InputError("step", 'goes with scale = "linear"; give points instead')
        # No quotient of what is this small is finite, or larger than what is far too many.
        far = abs(step) <= LARGEST and abs(step) * _FAR_TOO_MANY < abs(stop - start)
        if not 0 < abs(step) <= LARGEST or far or (stop - start) * step < 0:
            told = f"{_shown(step)} never leads from {start} to {stop}"
            raise InputError("step", f"{told}; the grid would not end")

    @property
    def size(self) -> int:
        """How many values there are."""
        if self.step is None:
            return self.points or 0
        # One more than fit, where only rounding keeps the last from fitting.
        return math.floor((self.stop - self.start) / self.step * (1 + 1e-12)) + 1

    def values(self) -> list[float]:
        """Return them, in order; some may coincide once they are rounded."""
        last = self.size - 1
        stop = self.stop if self.step is None else self.start + last * self.step
        if not last:
            return [self.start]
        shares = [number / last for number in range(last + 1)]
        if self.scale == "log":
            ratio = math.log(stop / self.start)
            spaced = [self.start * math.exp(share * ratio) for share in shares]
        else:
            spaced = [self.start + share * (stop - self.start) for share in shares]
        spaced[-1] = stop
        if isinstance(self.start, int) and isinstance(stop, int):
            return [round(value) for value in spaced]
        return [float(f"{value:.{_DIGITS}g}") for value in spaced]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptKey:
    """A key of the file that varies.

    Parameters
    ----------
    key : str
        Its path in the file, such as ``problem.spread.sigma``.
    values : list
        Its values, in order.
    texts : list of str
        The same, as labels have them.
    scale : {"linear", "log"}
        How the values are meant to be drawn.
    """

    key: str
    values: list[Any]
    texts: list[str]
    scale: Scale = "linear"


def read_grid(table: object, *, most: int | None = None) -> tuple[tuple[SweptKey, ...], Combine]:
    """Return the keys that a ``[sweep]`` table varies, and how they are combined.

    Keys may be quoted (``"problem.spread.sigma"``) or not: tables in it are looked into until there
    are values.

    Parameters
    ----------
    table : mapping
        What the file says; anything else is refused.
    most : int, optional
        More settings are refused; None allows up to `MOST_AT_ALL`.

    Examples
    --------
    >>> axes, combine = read_grid({
    ...     "problem": {"spread": {"sigma": {"from": 0.01, "to": 0.1, "points": 4}}},
    ...     "variants.pulls": ["10", "50"],
    ... })
    >>> [(axis.key, axis.values) for axis in axes], combine
    ([('problem.spread.sigma', [0.01, 0.04, 0.07, 0.1]), ('variants.pulls', ['10', '50'])], 'cross')
    """
    if not isinstance(table, Mapping):
        raise InputError(
            "sweep",
            'is missing; name a key and its values, e.g. [sweep] "variants.pulls" = ["10", "50"]',
        )
    mistakes = Mistakes()
    combine = table.get(COMBINE, "cross")
    with mistakes.gathered():
        check_word(combine, Combine, f"sweep.{COMBINE}")
    given = []
    for key, one in keys_in(table):
        with mistakes.gathered():
            given.append((key, _given(one, key)))
    mistakes.tell()
    if not given:
        raise InputError(
            "sweep", 'names no key; give one its values, e.g. "variants.pulls" = ["10", "50"]'
        )
    seen = [key for key, _ in given]
    for key in seen:
        if seen.count(key) > 1:
            raise InputError(place_of(key), "is there twice; leave one of them out")
    # What a range stands for may not fit into memory.
    sizes = [one.size if isinstance(one, Range) else len(one) for _, one in given]
    settings = max(sizes) if combine == "zip" else math.prod(sizes)
    if settings > MOST_AT_ALL:
        raise InputError(
            "sweep",
            f"{settings:,} settings; one sweep has at most {MOST_AT_ALL:,}, even with --yes:"
            " lower points, or split it",
        )
    if most is not None and settings > most:
        raise InputError(
            "sweep", f"{settings:,} settings; say --yes to play more than {most:,}, or lower points"
        )
    for key, size in zip(seen, sizes, strict=True):
        if combine == "zip" and size != sizes[0]:
            raise InputError(
                place_of(key),
                f"{size:,} values and {sizes[0]:,} of {seen[0]}; zipped keys have as many each",
            )
    return tuple(_swept(key, one) for key, one in given), combine


def _swept(key: str, given: list[Any] | Range) -> SweptKey:
    """Return a key with its values; refuse a range whose points coincide once rounded."""
    if not isinstance(given, Range):
        return SweptKey(key=key, values=given, texts=_texts(given))
    values = given.values()
    different = len(set(values))
    if different < len(values):
        found = f"{len(values):,} points, {different:,} different"
        if isinstance(values[0], int):
            rule = "whole numbers; write 0.0 for fractions, or lower points"
        else:
            rule = f"numbers of {_DIGITS} digits; lower points"
        raise InputError(place_of(key), f"{found} {rule}")
    return SweptKey(key=key, values=values, texts=_texts(values), scale=given.scale)


def keys_in(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the keys that vary, with what they are given."""
    for name, given in table.items():
        key = f"{above}.{name}" if above else name
        if key == COMBINE:
            continue
        if given and isinstance(given, Mapping) and not _is_range(given):
            yield from keys_in(given, key)
        else:
            yield key, given


def _is_range(table: Mapping[str, Any]) -> bool:
    """Return whether a table is a range: one of its parts has one value.

    A key of the file may be called like a part of a range; it has a list or a range.
    """
    return any(
        key in keys_of(Range) and not isinstance(value, list | Mapping)
        for key, value in table.items()
    )


def _given(given: Any, key: str) -> list[Any] | Range:
    where = place_of(key)
    if given == {}:
        raise InputError(where, "is empty; give a list of values or a range")
    if isinstance(given, Mapping):
        return construct(Range, given, where)
    if not isinstance(given, list):
        raise InputError(
            where,
            f"{given!r} is one value; give a list, or a range such as"
            " { from = 0.01, to = 0.1, points = 10 }",
        )
    if not given:
        raise InputError(where, "is an empty list; give at least one value")
    for number, value in enumerate(given):
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"{where}[{number}]", f"{value} is not a finite number")
        if value in given[:number]:
            raise InputError(f"{where}[{number}]", f"{value!r} is there twice; leave one out")
    return given


def _shown(value: float) -> str:
    """Return a number in a few digits, however large it is."""
    if isinstance(value, int) and abs(value) > LARGEST:
        return "a whole number this large"  # no floating-point number is
    return f"{value:g}"


def _texts(values: Sequence[Any]) -> list[str]:
    """Return values as labels have them: with as few digits as tell them apart.

    Examples
    --------
    >>> _texts([0.005, 0.0123456, 0.2]), _texts([0.10001, 0.10002]), _texts([[1, 2], "2^p"])
    (['0.005', '0.0123', '0.2'], ['0.10001', '0.10002'], ['[1, 2]', '2^p'])
    """
    for digits in range(3, 17):
        found = [_text(value, digits) for value in values]
        if len(set(found)) == len(values):
            return found
    return [f"{text} ({number})" for number, text in enumerate(found)]


def _text(value: Any, digits: int) -> str:
    match value:
        case bool() | dict() | list():
            return json.dumps(value, ensure_ascii=False)
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.{digits}g}"
    return str(value)
