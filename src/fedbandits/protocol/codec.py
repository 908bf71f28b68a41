"""Messages, records and states as plain values, to be carried or kept.

A dataclass becomes a dictionary of its fields and the name of its class, which says what it is if a
field may hold one of several. Reading checks every type, so that what comes from outside is either
a message or an `InputError`. Numbers keep all their bits, and mappings their order. A field that is
marked `IF_ANY` is left out while it has its default, as it is where nobody knew of it yet.
"""

from __future__ import annotations

import binascii
import math
import re
import types
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from fedbandits.errors import InputError
from fedbandits.protocol.journal import Journal
from fedbandits.rules.distortion import UNDISTORTED

_CLASS = "is"

IF_ANY = {"if any": True}
"""Metadata of a field that is said only if it has another value than its default."""

AnySize: TypeAlias = Annotated[int, "of any size"]
"""A whole number of a state that may have more than 64 bits."""

# What arrays of a state hold.
_DTYPES = ("bool", "int64", "float64")

# Values that are compared by what they are, and not by what is in them.
_CONSTANTS = {"UNDISTORTED": UNDISTORTED}

# Larger whole numbers mean nothing here, and those of thousands of digits cannot be written down.
_LARGEST_WHOLE = 2**63 - 1


def encode(value: Any) -> Any:
    """Return a message or record as dictionaries, lists, numbers and text.

    Examples
    --------
    >>> from fedbandits.protocol.messages import Header
    >>> encode(Header(run="demo", epoch=1, arms="x"))
    {'is': 'Header', 'run': 'demo', 'epoch': 1, 'arms': 'x', 'version': 2}
    """
    if type(value) in _PLAIN:
        return value
    if is_dataclass(value) and not isinstance(value, type):
        constant = next((name for name, one in _CONSTANTS.items() if one is value), None)
        names = () if constant else _field_names(type(value))
        said = {name: encode(getattr(value, name)) for name in names}
        for name, default in _if_any(type(value)).items():
            if said[name] == default:
                del said[name]
        return {_CLASS: constant or type(value).__name__, **said}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, np.ndarray):
        return _plain_array(value)
    return _plain_parts(value)


def _plain_parts(value: Any) -> Any:
    """Return what holds several values as a list; pairs if it is a mapping."""
    if isinstance(value, tuple | list | Journal):
        return [encode(part) for part in value]
    if isinstance(value, Mapping):
        return [[encode(key), encode(part)] for key, part in value.items()]
    if isinstance(value, set | frozenset):
        return sorted(encode(part) for part in value)
    return value


_PLAIN = frozenset({bool, int, float, str, type(None)})


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


@cache
def _if_any(kind: Any) -> dict[str, Any]:
    """Return the fields that are left out while they have their defaults, with these in plain."""
    marked = (field for field in fields(kind) if field.metadata == IF_ANY)
    return {field.name: encode(field.default) for field in marked}


def _plain_array(array: npt.NDArray[Any]) -> dict[str, Any]:
    """Return an array with all its bits, and the order of its axes in memory.

    That order may decide in which order numbers are added up.
    """
    if array.dtype.name not in _DTYPES:
        raise TypeError(f"an array of {array.dtype} cannot be kept")
    order: Literal["C", "F"] = "F" if array.flags.fnc else "C"
    data = binascii.b2a_base64(array.tobytes(order), newline=False).decode()
    return {_CLASS: array.dtype.name, "shape": list(array.shape), "order": order, "data": data}


def decode(kind: Any, said: Any, where: str = "message") -> Any:
    """Return what `encode` made plain; refuse what is none.

    Parameters
    ----------
    kind : type
        What it should be: a dataclass, a union of them, or the type of a field.
    said : object
        Plain values.
    where : str
        What to call it in an error.

    Examples
    --------
    >>> from fedbandits.protocol.messages import Header
    >>> decode(Header, encode(Header(run="demo", epoch=1, arms="x")))
    Header(run='demo', epoch=1, arms='x', version=2)
    >>> decode(Header, {"is": "Header", "run": "demo", "epoch": "1", "arms": "x", "version": 1})
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: message.epoch: '1' is not of type int
    """
    try:
        return _reader(kind)(said)
    except _MisfitError as error:
        raise InputError(f"{where}{error.path}", error.problem) from None


Reader: TypeAlias = Callable[[Any], Any]
"""Takes plain values and returns what they stand for."""


class _MisfitError(Exception):
    """What is wrong, and where: the path grows on its way out."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(problem)
        self.problem, self.path = problem, path


@cache
def _reader(kind: Any) -> Reader:
    """Return what reads values of a type. Types are looked at once, and not for every value."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _one_of(parts)
    if origin is Literal:
        return _choice(kind, {value: value for value in parts})
    if kind == AnySize:
        return _plain(int)
    if origin is not None:
        return _parts_reader(origin, parts)
    if is_dataclass(kind):
        return _record_of(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _choice(kind, {member.value: member for member in kind})
    return {int: _whole, float: _number, str: _text, bytes: _bytes}.get(kind) or _plain(kind)


def _parts_reader(origin: Any, parts: tuple[Any, ...]) -> Reader:
    """Return what reads a type that holds values of other types."""
    if origin is tuple:
        return _row_of(_reader(parts[0])) if parts[1:] == (Ellipsis,) else _parts_of(parts)
    if origin in (list, set, frozenset):
        return _collected(origin, _row_of(_reader(parts[0])))
    if origin is np.ndarray:
        return _array
    pairs = _parts_of((parts[0], int if origin is Counter else parts[1]))
    return _collected(_OF_PAIRS[origin], _row_of(pairs))


def _plain(kind: Any) -> Reader:
    def read(said: Any) -> Any:
        if type(said) is not kind:
            raise _wrong(said, kind)
        return said

    return read


def _whole(said: Any) -> int:
    if type(said) is not int:  # a truth value is a whole number to Python, and not to us
        raise _wrong(said, int)
    if not -_LARGEST_WHOLE <= said <= _LARGEST_WHOLE:
        raise _MisfitError("is a whole number of more than 64 bits")
    return said


def _number(said: Any) -> float:
    if type(said) is not float and type(said) is not int:
        raise _wrong(said, float)
    try:
        number = float(said)
    except OverflowError:
        raise _wrong(said, float) from None
    # Nothing is equal to it or decided by it. An infinite width is one that is not known.
    if math.isnan(number):
        raise _MisfitError("is not a number")
    return number


def _text(said: Any) -> str:
    if type(said) is not str:
        raise _wrong(said, str)
    if not said.isascii() and not is_text(said):
        raise _MisfitError("is not text that can be written down")
    return said


def _bytes(said: Any) -> bytes:
    try:
        found = bytes.fromhex(said)
    except (TypeError, ValueError):
        raise _wrong(said, bytes) from None
    if found.hex() != said:  # there is one way to say it
        raise _wrong(said, bytes)
    return found


def _choice(kind: Any, values: dict[Any, Any]) -> Reader:
    def read(said: Any) -> Any:
        if type(said) is not str or said not in values:
            raise _wrong(said, kind)
        return values[said]

    return read


def _one_of(kinds: tuple[Any, ...]) -> Reader:
    others = [kind for kind in kinds if kind is not type(None)]
    only = _reader(others[0]) if len(others) == 1 else None
    if str in others and only is None:
        only = _member_or_text(others)
    named = {_name(kind): _record_of(kind) for kind in others if is_dataclass(kind)}
    optional = len(others) < len(kinds)

    def read(said: Any) -> Any:
        if said is None and optional:
            return None
        if only is not None:
            return only(said)
        name = said.get(_CLASS) if isinstance(said, dict) else None
        if isinstance(name, str) and name in named:
            return named[name](said)
        raise _MisfitError(f"{_shown(said)} is none of {', '.join(named)}")

    return read


def _member_or_text(kinds: Sequence[Any]) -> Reader:
    """Return what reads a member of an enumeration, or any other text."""
    members = {member.value: member for kind in kinds if kind is not str for member in kind}

    def read(said: Any) -> Any:
        text = _text(said)
        return members.get(text, text)

    return read


def _collected(collect: Callable[[Any], Any], row: Reader) -> Reader:
    def read(said: Any) -> Any:
        return collect(row(said))

    return read


def _counter(pairs: Any) -> Counter[Any]:
    return Counter(dict(pairs))


def _journal(entries: Sequence[tuple[Any, Any]]) -> Journal[Any, Any]:
    found: Journal[Any, Any] = Journal()
    for key, value in entries:
        found = found.added(key, value)
    return found


_OF_PAIRS: dict[Any, Reader] = {Mapping: dict, dict: dict, Counter: _counter, Journal: _journal}


def _array(said: Any) -> npt.NDArray[Any]:
    try:
        if said.keys() != {_CLASS, "shape", "order", "data"} or said[_CLASS] not in _DTYPES:
            raise _wrong(said, np.ndarray)
        data = binascii.a2b_base64(said["data"], strict_mode=True)
        # Of bytes that nobody else has: an array that cannot be written into.
        flat = np.frombuffer(data, dtype=said[_CLASS])
        return flat.reshape(_row_of(_whole)(said["shape"]), order=said["order"])
    except (AttributeError, TypeError, ValueError):
        raise _wrong(said, np.ndarray) from None


def _parts_of(kinds: tuple[Any, ...]) -> Reader:
    """Return what reads a tuple with a type of its own for each part."""
    readers = [_reader(kind) for kind in kinds]

    def read(said: Any) -> tuple[Any, ...]:
        if not isinstance(said, list | tuple) or len(said) != len(readers):
            raise _wrong(said, tuple)
        return tuple([reader(part) for reader, part in zip(readers, said, strict=True)])

    return read


def _row_of(of_each: Reader) -> Reader:
    known: dict[Reader, Callable[[Sequence[Any]], bool]]
    known = {_whole: _all_whole, _number: _all_numbers}
    at_once = known.get(of_each)

    def read(said: Any) -> tuple[Any, ...]:
        if not isinstance(said, list | tuple):
            raise _wrong(said, tuple)
        if at_once is not None and at_once(said):
            return tuple(said)
        found: list[Any] = []
        try:
            for part in said:
                found.append(of_each(part))
        except _MisfitError as error:
            error.path = f"[{len(found)}]{error.path}"
            raise
        return tuple(found)

    return read


def _all_whole(said: Sequence[Any]) -> bool:
    """Return whether these are whole numbers beyond doubt."""
    return set(map(type, said)) == {int} and max(map(abs, said)) <= _LARGEST_WHOLE


def _all_numbers(said: Sequence[Any]) -> bool:
    """Return whether these are numbers beyond doubt."""
    return set(map(type, said)) == {float} and math.isfinite(sum(said))


def _record_of(kind: Any) -> Reader:
    hints = get_type_hints(kind, include_extras=True)
    readers = [(field.name, _reader(hints[field.name])) for field in fields(kind)]
    named = kind.__name__
    expected, defaults = {_CLASS, *(name for name, _ in readers)}, _if_any(kind)
    constants = {name: one for name, one in _CONSTANTS.items() if isinstance(one, kind)}

    def read(said: Any) -> Any:
        if constants and isinstance(said, dict) and said.get(_CLASS) in constants:
            return constants[said[_CLASS]]
        if not isinstance(said, dict) or said.get(_CLASS) != named:
            raise _wrong(said, kind)
        if said.keys() != expected:
            said = {**defaults, **said}
        if said.keys() != expected:
            raise _other_fields(said, expected, kind)
        found = {}
        try:
            for name, reader in readers:
                found[name] = reader(said[name])
            return kind(**found)
        except _MisfitError as error:
            error.path = f".{name}{error.path}"
            raise
        except InputError as error:
            raise _MisfitError(error.problem, f".{error.where}") from None

    return read


def _other_fields(said: dict[Any, Any], expected: set[str], kind: Any) -> _MisfitError:
    """Return what is wrong with the fields of a message."""
    if not all(isinstance(name, str) for name in said):
        return _wrong(said, kind)
    name = min(said.keys() ^ expected)
    problem = "is missing" if name in expected else "is not a field"
    return _MisfitError(f"{problem} of {kind.__name__}", f".{name[:80]}")


def is_text(said: str) -> bool:
    """Return whether text can be written down: half a character of UTF-16 cannot.

    Examples
    --------
    >>> is_text("α"), is_text(chr(0xD800))
    (True, False)
    """
    return re.search("[\ud800-\udfff]", said) is None


def _name(kind: Any) -> str:
    return str(getattr(kind, "__name__", kind))


def _wrong(said: Any, kind: Any) -> _MisfitError:
    return _MisfitError(f"{_shown(said)} is not of type {_name(kind)}")


def _shown(said: Any) -> str:
    try:
        shown = repr(said[:80] if isinstance(said, str) else said)
    except (ValueError, RecursionError):  # too many digits, or too deep
        return f"a {type(said).__name__}"
    return f"{shown[:80]}{'…' if len(shown) > 80 else ''}"
