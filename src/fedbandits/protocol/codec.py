"""Messages and records as plain values, for whoever carries or keeps them.

A dataclass becomes a dictionary of its fields; where a field may hold one of several, the name of
the class goes along. Reading checks every type, so that what comes from outside is either a message
or an `InputError`. Numbers keep all their bits.
"""

from __future__ import annotations

import math
import types
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from fedbandits.errors import InputError

_CLASS = "is"

# Larger whole numbers mean nothing here, and those of thousands of digits cannot be written down.
_LARGEST_WHOLE = 2**63 - 1


def encode(value: Any) -> Any:
    """Return a message or record as dictionaries, lists, numbers and text.

    Examples
    --------
    >>> from fedbandits.protocol.messages import Header
    >>> encode(Header(run="demo", epoch=1, arms="x"))
    {'is': 'Header', 'run': 'demo', 'epoch': 1, 'arms': 'x', 'version': 1}
    """
    if is_dataclass(value) and not isinstance(value, type):
        said = {field.name: encode(getattr(value, field.name)) for field in fields(value)}
        return {_CLASS: type(value).__name__, **said}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple | list):
        return [encode(part) for part in value]
    return value


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
    Header(run='demo', epoch=1, arms='x', version=1)
    >>> decode(Header, {"is": "Header", "run": "demo", "epoch": "1", "arms": "x", "version": 1})
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: message.epoch: '1' is not of type int
    """
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _decode_one_of(get_args(kind), said, where)
    if origin is tuple:
        return _decode_tuple(get_args(kind), said, where)
    if origin is Literal:
        if said not in get_args(kind):
            raise _wrong(said, kind, where)
        return said
    if is_dataclass(kind):
        return _decode_dataclass(kind, said, where)
    if isinstance(kind, type) and issubclass(kind, Enum):
        if not isinstance(said, str):
            raise _wrong(said, kind, where)
        try:
            return kind(said)
        except ValueError:
            raise _wrong(said, kind, where) from None
    return _decode_plain(kind, said, where)


def _decode_plain(kind: Any, said: Any, where: str) -> Any:
    if kind is bytes:
        return _decode_bytes(said, where)
    # A truth value is a whole number to Python, and not to us.
    if type(said) is not kind and not (kind is float and type(said) is int):
        raise _wrong(said, kind, where)
    if kind is float:
        try:
            number = float(said)
        except OverflowError:
            raise _wrong(said, kind, where) from None
        # Nothing is equal to it or decided by it. An infinite width is one that is not known.
        if math.isnan(number):
            raise InputError(where, "is not a number")
        return number
    if kind is int and abs(said) > _LARGEST_WHOLE:
        raise InputError(where, "is a whole number of more than 64 bits")
    if kind is str and not is_text(said):
        raise InputError(where, "is not text that can be written down")
    return said


def _decode_bytes(said: Any, where: str) -> bytes:
    try:
        found = bytes.fromhex(said)
    except (TypeError, ValueError):
        raise _wrong(said, bytes, where) from None
    if found.hex() != said:  # there is one way to say it
        raise _wrong(said, bytes, where)
    return found


def is_text(said: str) -> bool:
    """Return whether text can be written down: half a character of UTF-16 cannot.

    Examples
    --------
    >>> is_text("α"), is_text(chr(0xD800))
    (True, False)
    """
    try:
        said.encode()
    except UnicodeEncodeError:
        return False
    return True


def _decode_one_of(kinds: tuple[Any, ...], said: Any, where: str) -> Any:
    if said is None and type(None) in kinds:
        return None
    others: list[Any] = [kind for kind in kinds if kind is not type(None)]
    if len(others) == 1:
        return decode(others[0], said, where)
    named: dict[str, Any] = {_name(kind): kind for kind in others if is_dataclass(kind)}
    name = said.get(_CLASS) if isinstance(said, dict) else None
    if isinstance(name, str) and name in named:
        return decode(named[name], said, where)
    raise InputError(where, f"{_shown(said)} is none of {', '.join(named)}")


def _decode_tuple(kinds: tuple[Any, ...], said: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(said, list | tuple):
        raise _wrong(said, tuple, where)
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        kinds = (kinds[0],) * len(said)
    if len(kinds) != len(said):
        raise InputError(where, f"{len(said)} values where there are {len(kinds)}")
    return tuple(
        decode(kind, part, f"{where}[{number}]")
        for number, (kind, part) in enumerate(zip(kinds, said, strict=True))
    )


def _decode_dataclass(kind: Any, said: Any, where: str) -> Any:
    if not isinstance(said, dict) or said.get(_CLASS) != kind.__name__:
        raise _wrong(said, kind, where)
    if not all(isinstance(name, str) for name in said):
        raise _wrong(said, kind, where)
    hints = _hints(kind)
    given = set(said) - {_CLASS}
    for name in sorted(given ^ set(hints)):
        problem = "is missing" if name in hints else "is not a field"
        raise InputError(f"{where}.{name[:80]}", f"{problem} of {kind.__name__}")
    try:
        return kind(
            **{name: decode(hint, said[name], f"{where}.{name}") for name, hint in hints.items()}
        )
    except InputError as error:
        raise error if error.where.startswith(where) else error.within(where) from None


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _name(kind: Any) -> str:
    return str(getattr(kind, "__name__", kind))


def _wrong(said: Any, kind: Any, where: str) -> InputError:
    return InputError(where, f"{_shown(said)} is not of type {_name(kind)}")


def _shown(said: Any) -> str:
    try:
        shown = repr(said[:80] if isinstance(said, str) else said)
    except (ValueError, RecursionError):  # too many digits, or too deep
        return f"a {type(said).__name__}"
    return f"{shown[:80]}{'…' if len(shown) > 80 else ''}"
