"""Values from tables: a dataclass is built from the keys of a table, or the error says which key.

The fields of the dataclass are the keys, their types are checked by pydantic, and what the class
itself refuses (`InputError`) is told with the key's full path.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Annotated, Any, TypeVar, get_type_hints

import numpy as np
from pydantic import BaseModel, ConfigDict, PlainValidator, ValidationError, create_model
from pydantic.errors import PydanticUserError

from fedbandits.errors import InputError, UnstatedError, nearest
from fedbandits.privacy.policy import Bits, Quantize
from fedbandits.problems.laws import LAWS, NoiseLaw, SpreadLaw
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.estimators import ESTIMATORS, Estimator
from fedbandits.rules.levels import Level, LevelLike, as_level
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


def keys_of(cls: type) -> list[str]:
    """Return the keys of the table that describes a value of a dataclass.

    Examples
    --------
    >>> keys_of(PaperRadius)
    ['arm', 'client']
    """
    return list(_model_of(cls).model_fields)


def radius_from(table: object) -> Radius:
    """Return the radius that a table describes.

    Examples
    --------
    >>> radius_from({"rule": "paper", "arm": 1.0})
    PaperRadius(arm=1.0, client=6.0)
    """
    if not isinstance(table, Mapping):
        raise InputError("", f'{table!r} is not a table such as {{ rule = "paper", arm = 6.0 }}')
    radius = RADII.named(table.get("rule", PaperRadius.rule), "rule")
    return construct(radius, {k: v for k, v in table.items() if k != "rule"}, "")


def paper_radius_from(table: object) -> Radius:
    """Return the paper's radius from a table: what algorithms of the paper alone take."""
    radius = radius_from(table)
    if radius.constants is None:
        raise InputError(
            "rule", f'"{radius.rule}" goes with fed2-ucb and fed1-ucb; this one takes "paper"'
        )
    return radius


def noise_from(table: object) -> NoiseLaw:
    """Return the law of noise that a table describes.

    Examples
    --------
    >>> noise_from({"law": "gaussian", "sigma": 0.5})
    Gaussian(sigma=0.5)
    """
    law: NoiseLaw = _law_from(table, NoiseLaw, "a law of noise")
    return law


def spread_from(table: object) -> SpreadLaw:
    """Return the law of spread that a table describes.

    Examples
    --------
    >>> spread_from({"law": "bernoulli"})
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: law: "bernoulli" is not a law of spread; known: beta, gaussian,
    uniform
    """
    law: SpreadLaw = _law_from(table, SpreadLaw, "a law of spread")
    return law


def _law_from(table: object, role: type, what: str) -> Any:
    if not isinstance(table, Mapping):
        raise InputError(
            "", f'{table!r} is not a table such as {{ law = "gaussian", sigma = 0.5 }}'
        )
    law = LAWS.named(table.get("law"), "law", role=role, what=what)
    return construct(law, {key: value for key, value in table.items() if key != "law"}, "")


def estimator_from(table: object) -> Estimator:
    """Return the estimator that a word or a table describes.

    Examples
    --------
    >>> estimator_from("inverse-variance")
    InverseVariance()
    """
    if isinstance(table, str):
        table = {"name": table}
    if not isinstance(table, Mapping):
        raise InputError("", f'{table!r} is not a word or a table such as {{ name = "plain" }}')
    estimator = ESTIMATORS.named(table.get("name"), "name")
    return construct(estimator, {k: v for k, v in table.items() if k != "name"}, "")


def level_from(value: object) -> Level:
    """Return an error probability; an error leaves it to the table to say where.

    Examples
    --------
    >>> str(level_from("1/T"))
    '1/T'
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str | Level):
        raise InputError("", f'{value!r} is not a number or an expression such as "1/T"')
    try:
        return as_level(value)
    except InputError as error:
        raise InputError("", error.problem) from None


def pair_from(value: object) -> tuple[float, float]:
    """Return a pair of numbers, which is a list in a file.

    Examples
    --------
    >>> pair_from([0, 1])
    (0.0, 1.0)
    """
    if isinstance(value, list | tuple) and len(value) == 2:
        first, second = value
        if all(isinstance(n, int | float) and not isinstance(n, bool) for n in value):
            return float(first), float(second)
    raise InputError("", f"{value!r} is not a list of two numbers such as [0, 1]")


def array_from(value: object) -> FloatArray:
    """Return an array of numbers, which is a list in a file, or lists in lists.

    Examples
    --------
    >>> array_from([[0, 1], [0.5, 0.5]])
    array([[0. , 1. ],
           [0.5, 0.5]])
    """
    try:
        found = np.array(value)
    except ValueError:  # of different lengths
        found = np.array(None)
    if found.dtype.kind not in "iuf" or not found.ndim:
        raise InputError("", f"{value!r} is not a list of numbers such as [0.5, 0.6]")
    found = found.astype(np.float64)
    found.setflags(write=False)
    return found


def quantize_from(table: object) -> Quantize:
    """Return how means are rounded, from a table.

    Examples
    --------
    >>> quantize_from({"bits": 4})
    Quantize(bits=4, rounding='stochastic', widening='exact')
    """
    if not isinstance(table, Mapping):
        raise InputError("", f"{table!r} is not a table such as {{ bits = 8 }}")
    return construct(Quantize, table, "")


def bits_from(value: object) -> Bits:
    """Return a number of bits; an error leaves it to the table to say where.

    Examples
    --------
    >>> bits_from("radius")
    'radius'
    """
    if value == "radius":
        return "radius"
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError("", f'{value!r} is not a whole number such as 8, or "radius"')
    return value


READERS: dict[Any, Callable[[Any], Any]] = {
    ScheduleLike: as_schedule,
    Radius: radius_from,
    PaperRadius: paper_radius_from,
    NoiseLaw: noise_from,
    SpreadLaw: spread_from,
    Estimator | None: estimator_from,
    LevelLike: level_from,
    LevelLike | None: level_from,
    tuple[float, float]: pair_from,
    FloatArray: array_from,
    Quantize | None: quantize_from,
    Bits: bits_from,
}
"""How a field of a type is read where it is not a plain number, word or list.

Whoever has more such types adds them here, before the first table with one of them is read.
"""


@cache  # making a model takes far longer than using it
def _model_of(cls: type) -> type[BaseModel]:
    try:
        return _new_model_of(cls)
    except (PydanticUserError, NameError, TypeError) as error:
        first = str(error).partition("\n")[0]
        raise InputError(
            cls.__qualname__, f"has a field whose type is none that a file can give: {first}"
        ) from None


def _new_model_of(cls: type) -> type[BaseModel]:
    hints = get_type_hints(cls)
    keys: dict[str, Any] = {}
    for field in fields(cls):
        hint = hints[field.name]
        if hint in READERS:
            hint = Annotated[Any, PlainValidator(READERS[hint])]
        required = field.default is MISSING and field.default_factory is MISSING
        keys[field.name] = (hint, ... if required else None)
    return create_model(cls.__name__, __base__=StrictTable, **keys)


def construct(cls: type[T], table: Mapping[str, Any], where: str) -> T:
    """Return the value of a dataclass that a table describes.

    Parameters
    ----------
    cls : dataclass
        What to build.
    table : mapping
        Its keys and their values.
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
    kind: type = cls
    for method in sorted(getattr(kind, "__abstractmethods__", ())):
        raise UnstatedError(kind.__name__, method, "all that is asked of it")
    checked = validated(_model_of(kind), table, where)
    try:
        return cls(**{name: getattr(checked, name) for name in checked.model_fields_set})
    except InputError as error:
        raise error.within(where) if where else error from None


def validated(model: type[ModelT], table: Mapping[str, Any], where: str) -> ModelT:
    """Return a table as its model has it; an error names the key."""
    try:
        return model.model_validate(dict(table))
    except ValidationError as error:
        raise _input_error(error, where, model.model_fields) from None


def _input_error(error: ValidationError, where: str, known: Collection[str]) -> InputError:
    """Return the first of pydantic's complaints, and the nearest of the keys that are known."""
    first = error.errors(include_url=False)[0]
    place = ""
    for part in first["loc"]:
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else part
    value = first["input"]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        found = cause.within(place) if place else cause
    elif first["type"] == "missing":
        found = InputError(place, "is missing")
    elif first["type"] == "extra_forbidden":
        found = InputError(place, f"is not a key here; {nearest(str(first['loc'][-1]), known)}")
    else:
        rule = first["msg"].removeprefix("Input should be ")
        # TOML has tables and lists, and no dictionaries or tuples.
        rule = rule.replace("a valid dictionary", "a table").replace("a valid tuple", "a list")
        found = InputError(place, f"{value!r} is not {rule}")
    return found.within(where) if where else found
