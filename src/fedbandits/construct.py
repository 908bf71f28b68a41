"""Values from tables: a value is made from the keys of a table, or the error says which key.

The parameters of a class, or of another callable that makes the value, are the keys. Pydantic
checks their types. A parameter that is a part or a dataclass itself is a table in the table. If the
class itself refuses a value (`InputError`), the error names the key's full path. All mistakes of a
table are told together, also those that a class would tell only once the first is gone.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, partial, reduce
from inspect import signature
from operator import or_
from types import GenericAlias, NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic_core import ErrorDetails

from fedbandits.errors import (
    InputError,
    Mistakes,
    UnstatedError,
    as_pair,
    check_number,
    check_word,
    nearest,
)
from fedbandits.problems import Problem
from fedbandits.problems.laws import LAWS, Empirical, NoiseLaw, SpreadLaw
from fedbandits.registry import Registry, keys_in_files
from fedbandits.rules.algorithms import Algorithm
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.estimators import ESTIMATORS, Estimator
from fedbandits.rules.levels import LevelLike, as_level
from fedbandits.rules.optimal_phases import OPTIMAL, Optimal
from fedbandits.rules.radii import RADII, PaperRadius, Radius
from fedbandits.rules.schedules import ScheduleLike, as_schedule

T = TypeVar("T")
ModelT = TypeVar("ModelT", bound=BaseModel)


class StrictTable(BaseModel):
    """A table that takes the keys it knows and values of their types, nothing else."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def parameters_of(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass value by name.

    Examples
    --------
    >>> parameters_of(PaperRadius(arm=1.0))
    {'arm': 1.0, 'client': 6.0}
    """
    return {field.name: getattr(value, field.name) for field in fields(value)}


def keys_of(make: Callable[..., Any]) -> tuple[str, ...]:
    """Return the keys of the table that describes a value.

    Examples
    --------
    >>> keys_of(PaperRadius)
    ('arm', 'client')
    """
    return _model_of(make)[1]


def all_keys_of(make: Callable[..., Any], table: Mapping[str, Any]) -> list[str]:
    """Return all keys that a table and the tables in it may have.

    Examples
    --------
    >>> from fedbandits.problems import Approximate
    >>> all_keys_of(Approximate, {"noise": {"law": "gaussian"}})[-4:]
    ['goal', 'noise.law', 'noise.sigma', 'spread.law']
    """
    found = [*keys_of(make)]
    for name, hint in _hints_of(make).items():
        kind = _kind_of(hint)
        given = table.get(name)
        here = given if isinstance(given, Mapping) else {}
        if part := _PARTS.get(kind):
            found.append(f"{name}.{part.registry.key}")
            named = here.get(part.registry.key, part.usual)
            maker = part.registry.get(str(named))
            inner = [] if named is None else keys_of_part(maker, here)
        elif _is_table(kind):
            inner = all_keys_of(kind, here)
        else:
            continue
        found += [f"{name}.{key}" for key in inner]
    return found


ANY = "*"
"""Stands for all keys of a table that names no known part."""


def keys_of_part(make: Callable[..., Any] | None, table: Mapping[str, Any]) -> list[str]:
    """Return all keys that the table of a part may have; any, if no part has its name."""
    return [ANY] if make is None else all_keys_of(make, table)


@dataclass(frozen=True, slots=True)
class _Part:
    """How a part is read from a table.

    Parameters
    ----------
    registry : Registry
        Where its class is found.
    role, what
        As in `Registry.named`.
    example : str
        A table that names one.
    usual : str, optional
        The name of the part that is meant if the table names none.
    """

    registry: Registry[Any]
    role: type
    what: str
    example: str
    usual: str | None = None

    def read(self, table: object) -> Any:
        """Return the part that a table describes, or a word that is its name."""
        key = self.registry.key
        given = {key: table} if isinstance(table, str) else table
        if not isinstance(given, Mapping):
            raise InputError("", f"{table!r} is not a table such as {{ {self.example} }}")
        name = given.get(key, self.usual)
        found = self.registry.named(name, key, role=self.role, what=self.what)
        return construct(found, {k: v for k, v in given.items() if k != key}, "")


_NOISE = _Part(LAWS, NoiseLaw, "a law of noise", 'law = "gaussian", sigma = 0.5')
_PARTS: dict[Any, _Part] = {
    Radius: _Part(RADII, Radius, "a radius", 'rule = "paper", arm = 6.0', PaperRadius.rule),
    NoiseLaw: _NOISE,
    NoiseLaw | type[NoiseLaw]: _NOISE,
    SpreadLaw: _Part(LAWS, SpreadLaw, "a law of spread", 'law = "gaussian", sigma = 0.5'),
    Estimator: _Part(ESTIMATORS, Estimator, "an estimator", 'name = "plain"'),
}


def _noise_from(table: object, *, given_clients: bool) -> Any:
    """Return the law of noise that a table describes; if the clients' data give it, its class."""
    if not isinstance(table, Mapping) or table.get("law") != Empirical.law:
        return _NOISE.read(table)
    if not given_clients:
        raise InputError("law", 'empirical noise needs given clients; use model = "exact"')
    for key in table:
        if key != "law":
            raise InputError(key, f"is not a key of {Empirical.law} noise")
    return Empirical


def array_from(value: object) -> FloatArray:
    """Return an array of numbers, which is a list in a file, or lists in lists.

    Examples
    --------
    >>> array_from([[0, 1], [0.5, 0.5]])
    array([[0. , 1. ],
           [0.5, 0.5]])
    """
    table = np.array(value, dtype=object)
    if not table.ndim or any(isinstance(one, list) for one in table.flat):  # of different lengths
        raise InputError("", f"{value!r} is not a list of numbers such as [0.5, 0.6]")
    for place, one in np.ndenumerate(table):
        check_number(one, "".join(f"[{number}]" for number in place))
    found = table.astype(np.float64)
    found.setflags(write=False)
    return found


def _number_from(value: object) -> object:
    check_number(value, "")
    return value


def _word_from(words: Any, word: object) -> object:
    check_word(word, words, "")
    return word


_READERS: dict[Any, Callable[[Any], Any]] = {
    **{kind: part.read for kind, part in _PARTS.items()},
    NoiseLaw: partial(_noise_from, given_clients=False),
    NoiseLaw | type[NoiseLaw]: partial(_noise_from, given_clients=True),
    ScheduleLike: as_schedule,
    ScheduleLike | Optimal: lambda value: value if value == OPTIMAL else as_schedule(value),
    LevelLike: partial(as_level, where=""),
    int | float: _number_from,  # as it is written
    tuple[float, float]: partial(as_pair, where=""),
    FloatArray: array_from,
    # Whoever constructs what holds one has read it already.
    Problem: lambda made: made,
    Algorithm: lambda made: made,
}
"""How a field of a type is read if it is not a plain number, word, list or table."""


def _hints_of(make: Callable[..., Any]) -> dict[str, Any]:
    hints = get_type_hints(make)
    return {name: hints[name] for name in signature(make).parameters}


def _kind_of(hint: Any) -> Any:
    """Return a type without None, which no file can give."""
    options = [one for one in get_args(hint) if one is not NoneType]
    return reduce(or_, options) if NoneType in get_args(hint) else hint


def _checked(hint: Any) -> Any:
    """Return the type by which pydantic checks the value of a field."""
    kind = _kind_of(hint)
    if kind in _READERS:
        return Annotated[Any, PlainValidator(_READERS[kind])]
    if _is_table(kind):
        return Annotated[Any, PlainValidator(partial(_from_table, kind))]
    if get_origin(kind) is Literal:
        return Annotated[Any, PlainValidator(partial(_word_from, kind))]
    if get_origin(kind) is list:
        return GenericAlias(list, (_checked(get_args(kind)[0]),))
    several = [one for one in get_args(kind) if _is_table(one) or get_origin(one) is Literal]
    # A class that takes values of several kinds, such as a number or a word, checks them itself.
    return Any if several else hint


def _is_table(kind: Any) -> bool:
    return isinstance(kind, type) and is_dataclass(kind)


def _from_table(kind: type, table: object) -> Any:
    if not isinstance(table, Mapping):
        example = "".join(
            f" such as {{ {field.name} = {field.default} }}"
            for field in fields(kind)[:1]
            if isinstance(field.default, int)
        )
        raise InputError("", f"{table!r} is not a table{example}")
    return construct(kind, table, "")


@cache  # making a model takes far longer than using it
def _model_of(make: Callable[..., Any]) -> tuple[type[BaseModel], tuple[str, ...]]:
    """Return what checks the table of a value, and the keys of the table."""
    name = getattr(make, "__qualname__", repr(make))
    try:
        hints, given = _hints_of(make), signature(make).parameters
        named = keys_in_files(make) if isinstance(make, type) and is_dataclass(make) else {}
        types: dict[str, Any] = {}
        for one, hint in hints.items():
            usual = ... if given[one].default is given[one].empty else None
            types[one] = _checked(hint), Field(usual, alias=named.get(one, one))
        keys = tuple(named.get(one, one) for one in hints)
        return create_model(name, __base__=StrictTable, **types), keys
    except (PydanticUserError, NameError, TypeError) as error:
        first = str(error).partition("\n")[0]
        raise InputError(
            name, f"has a field whose type is none that a file can give: {first}"
        ) from None


def construct(make: Callable[..., T], table: Mapping[str, Any], where: str) -> T:
    """Return the value that a table describes.

    Parameters
    ----------
    make : dataclass, or another callable
        What to build, or what builds it; its parameters are the keys.
    table : mapping
        The keys and their values.
    where : str
        Where the table stands, for errors.

    Examples
    --------
    >>> construct(PaperRadius, {"arms": 1.0}, "variants[0].radius")
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: variants[0].radius.arms: is not a key here; did you mean "arm"?
    (known: arm, client)
    """
    for method in sorted(getattr(make, "__abstractmethods__", ())):
        raise UnstatedError(getattr(make, "__name__", ""), method, "all that is asked of it")
    flat = dict(table)
    for outer, _, key in (one.partition(".") for one in keys_of(make) if "." in one):
        if isinstance(flat.get(outer), Mapping) and key in flat[outer]:
            flat[outer] = dict(flat[outer])
            flat[f"{outer}.{key}"] = flat[outer].pop(key)
    try:
        return _made(make, flat)
    except InputError as error:
        mistakes = Mistakes()
        for one in (error, *_behind(make, flat, error)):
            mistakes.add(one.within(where) if where else one)
        mistakes.tell()
        raise


def _made(make: Callable[..., T], table: Mapping[str, Any]) -> T:
    for key, why in getattr(make, "refusals", {}).items():
        if key in table:
            raise InputError(key, why)
    checked = validated(_model_of(make)[0], table, "")
    return make(**{name: getattr(checked, name) for name in checked.model_fields_set})


def _behind(
    make: Callable[..., Any], table: dict[str, Any], error: InputError
) -> Iterator[InputError]:
    """Yield the mistakes of a table that others hide.

    The value at the key of a mistake is replaced by some that may be right. If the table is right
    with one of them, there are no other mistakes; what is wrong with all of them is the next.
    """
    hints = dict(zip(keys_of(make), _hints_of(make).values(), strict=True))
    # What is missing only besides a value that is tried here is no mistake of the table.
    given = {*table, *(key_of(one, hints) for one in error.each)} - {""}
    seen: set[str] = set()
    while (key := key_of(error.each[0], (*hints, *table))) and key not in seen:
        seen.add(key)
        others = {name: value for name, value in table.items() if name != key}
        tables = [others | {key: one} for one in _stand_ins(hints[key])] if key in hints else []
        wrong = []
        for tried in (*tables, others):
            try:
                _made(make, tried)
            except InputError as found:
                # Others may need a key; only a table that is wrong inside is left out.
                may_be = key not in hints or tried is not others or error.where != key
                if may_be and all(key_of(one, given) not in ("", key) for one in found.each):
                    wrong.append((found, tried))
            except Exception:  # a class need not be ready for whatever is tried here
                continue
            else:
                return
        if wrong:
            error, table = wrong[0]
            yield error


def key_of(error: InputError, keys: Iterable[str]) -> str:
    """Return the key that a mistake is at, or in the table of; empty if it is at none of them."""
    found = [key for key in keys if f"{error.where}.".replace("[", ".").startswith(f"{key}.")]
    return max(found, key=len, default="")


def _stand_ins(hint: Any) -> Iterator[Any]:
    """Yield values that a key of a type may have."""
    kind = _kind_of(hint)
    if part := _PARTS.get(kind):
        yield tomllib.loads(f"part = {{ {part.example} }}")["part"]
    for one in (kind, *get_args(kind)):
        yield from get_args(one) if get_origin(one) is Literal else ()
    yield from ({}, 1, 2, 0.5, 0.01, 1000, 0, True, "a word")
    yield from ([0, 1], [0.5, 0.6], [[0.5, 0.6], [0.6, 0.5]])


def validated(model: type[ModelT], table: Mapping[str, Any], where: str) -> ModelT:
    """Return a table as its model has it; an error names the key."""
    try:
        return model.model_validate(dict(table))
    except ValidationError as error:
        known = [field.alias or name for name, field in model.model_fields.items()]
        mistakes = Mistakes()
        for complaint in error.errors(include_url=False):
            with mistakes.gathered(where):
                raise _input_error(complaint, known) from None
        mistakes.tell()
        raise


def _input_error(first: ErrorDetails, known: Collection[str]) -> InputError:
    """Return one of pydantic's complaints, and the nearest of the keys that are known."""
    place = ""
    for part in first["loc"]:
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else part
    value = first["input"]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        return cause.within(place) if place else cause
    if first["type"] == "missing":
        return InputError(place, "is missing")
    if first["type"] == "extra_forbidden":
        return InputError(place, f"is not a key here; {nearest(str(first['loc'][-1]), known)}")
    rule = first["msg"].removeprefix("Input should be ")
    # TOML has tables and lists, and no dictionaries or tuples.
    rule = rule.replace("a valid dictionary", "a table").replace("a valid tuple", "a list")
    return InputError(place, f"{value!r} is not {rule}")
