"""Messages and records as plain values, for whoever carries or keeps them.

A dataclass becomes a dictionary of its fields; where a field may hold one of several, the name of
the class goes along. Reading checks every type, so that what comes from outside is either a message
or an `InputError`. Numbers keep all their bits.
"""

from __future__ import annotations

import types
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from fedbandits.errors import InputError

T = TypeVar("T")

_CLASS = "is"


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
        try:
            return kind(said)
        except ValueError:
            raise _wrong(said, kind, where) from None
    return _decode_plain(kind, said, where)


def _decode_plain(kind: Any, said: Any, where: str) -> Any:
    if kind is bytes:
        try:
            return bytes.fromhex(said)
        except (TypeError, ValueError):
            raise _wrong(said, kind, where) from None
    if kind is float and type(said) is int:
        return float(said)
    # A truth value is a whole number to Python, and not to us.
    if type(said) is not kind:
        raise _wrong(said, kind, where)
    return said


def _decode_one_of(kinds: tuple[Any, ...], said: Any, where: str) -> Any:
    if said is None and type(None) in kinds:
        return None
    others: list[Any] = [kind for kind in kinds if kind is not type(None)]
    if len(others) == 1:
        return decode(others[0], said, where)
    named: dict[str, Any] = {_name(kind): kind for kind in others if is_dataclass(kind)}
    name = said.get(_CLASS) if isinstance(said, dict) else None
    if name in named:
        return decode(named[name], said, where)
    for kind in others:
        if not is_dataclass(kind) and type(said) is kind:
            return said
    raise InputError(where, f"{said!r} is none of {', '.join(named) or kinds}")


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
    hints = _hints(kind)
    given = set(said) - {_CLASS}
    for name in sorted(given ^ set(hints)):
        problem = "is missing" if name in hints else "is not a field"
        raise InputError(f"{where}.{name}", f"{problem} of {kind.__name__}")
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
    name = _name(kind)
    shown = repr(said)
    return InputError(where, f"{shown[:80]}{'…' if len(shown) > 80 else ''} is not of type {name}")
