"""Schedules f(p) and g(p): small expressions in the phase ``p`` and the horizon ``T``.

The grammar, parsed here and never handed to ``eval``::

    sum      = product (("+" | "-") product)*
    product  = unary (("*" | "/") unary)*
    unary    = "-" unary | power
    power    = atom ["^" unary]
    atom     = number | "p" | "T" | name "(" sum ("," sum)* ")" | "(" sum ")"
    name     = "log" | "sqrt" | "ceil" | "floor" | "min" | "max"

Whole numbers and fractions stay exact, so ``2^p`` is exact in phase 60 and beyond; ``log``
(natural) and ``sqrt`` give floating point.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

from fedbandits.errors import InputError, nearest

Number: TypeAlias = int | Fraction | float

_LONGEST = 200
_MOST_BITS = 16_384
_NUMBER = r"(?:[0-9]+(?:_[0-9]+)*(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"
_TOKEN = re.compile(
    rf"\s*(?:(?P<number>{_NUMBER})|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign>.))", re.DOTALL
)


class _EvaluationError(Exception):
    """Why an expression has no value in a phase."""


def _simplify(value: Number) -> Number:
    """Return a value as a whole number if it is one; refuse what would fill the memory."""
    if isinstance(value, float):
        if math.isnan(value):
            raise _EvaluationError("has no value")
        return value
    if max(abs(value.numerator), value.denominator).bit_length() > _MOST_BITS:
        raise _EvaluationError("is too large")
    return value.numerator if value.denominator == 1 else value


def _divide(a: Number, b: Number) -> Number:
    if b == 0:
        raise _EvaluationError("divides by zero")
    if isinstance(a, float) or isinstance(b, float):
        return _as_float(a) / _as_float(b)
    return Fraction(a) / Fraction(b)


def _power(a: Number, b: Number) -> Number:
    if not isinstance(a, float) and isinstance(b, int):
        if a == 0 and b < 0:
            raise _EvaluationError("divides by zero")
        size = max(abs(Fraction(a).numerator), Fraction(a).denominator)
        if abs(b) * size.bit_length() > _MOST_BITS:
            raise _EvaluationError("is too large")
        return Fraction(Fraction(a) ** b)
    base, exponent = _as_float(a), _as_float(b)
    if (base < 0 and not exponent.is_integer()) or (base == 0 and exponent < 0):
        raise _EvaluationError(f"has no real value: {base:g} to the power {exponent:g}")
    return math.pow(base, exponent)


def _log(a: Number) -> Number:
    if a <= 0:
        raise _EvaluationError(f"takes the log of {_show(a)}")
    if isinstance(a, float):
        return math.log(a)
    # Apart, because either may be beyond floating point.
    return math.log(a.numerator) - math.log(a.denominator)


def _sqrt(a: Number) -> Number:
    if a < 0:
        raise _EvaluationError(f"takes the square root of {_show(a)}")
    return math.sqrt(_as_float(a))


def _as_float(value: Number) -> float:
    """Return a value in floating point; refuse a fraction that is too small for it."""
    found = float(value)
    if found == 0 and value != 0:
        raise _EvaluationError("is too close to zero for floating point")
    return found


def _show(value: Number) -> str:
    """Return a value as people read it."""
    if isinstance(value, int) and abs(value) < 10**15:
        return str(value)
    if isinstance(value, float) or -(10**300) < value < 10**300:
        return f"{float(value):g}"
    sign = "-" if value < 0 else ""
    digits = math.log10(abs(value.numerator)) - math.log10(value.denominator)
    return f"{sign}10^{digits:.0f}"


# How tightly each operator binds, and what it does.
_OPERATORS: dict[str, tuple[int, Callable[[Any, Any], Number]]] = {
    "+": (1, operator.add),
    "-": (1, operator.sub),
    "*": (2, operator.mul),
    "/": (2, _divide),
    "^": (4, _power),
}
# A minus in front: -2^2 is -4, and -2*3 is (-2)*3.
_OF_MINUS = 3
# The fewest arguments, the most, and the function.
_FUNCTIONS: dict[str, tuple[int, int | None, Callable[..., Number]]] = {
    "log": (1, 1, _log),
    "sqrt": (1, 1, _sqrt),
    "ceil": (1, 1, math.ceil),
    "floor": (1, 1, math.floor),
    "min": (2, None, min),
    "max": (2, None, max),
}


_Node: TypeAlias = Callable[[dict[str, int]], Number]
"""A part of an expression: from the values of p and T to its own."""


def _variable(name: str) -> _Node:
    def value(variables: dict[str, int]) -> Number:
        if name not in variables:
            raise _EvaluationError(f"uses {name}, but this game has no horizon")
        return variables[name]

    return value


def _call(function: Callable[..., Number], *arguments: _Node) -> _Node:
    return lambda variables: _simplify(function(*(of(variables) for of in arguments)))


class _Parser:
    """Precedence climbing over the grammar in the module's docstring."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.tokens = [
            (match.lastgroup or "", match[match.lastindex or 0], match.start(match.lastindex or 0))
            for match in _TOKEN.finditer(source.rstrip())
        ]
        self.tokens.append(("end", "", len(source)))
        self.at = 0
        self.names: set[str] = set()

    def error(self, problem: str, position: int | None = None) -> InputError:
        place = "" if position is None else f" at character {position + 1}"
        return InputError(
            "",
            f'"{self.source}" {problem}{place}; a schedule is made of numbers, p, T, + - * / ^, '
            "log, sqrt, ceil, floor, min, max and parentheses",
        )

    def take(self, sign: str) -> bool:
        """Consume the next token if it is this sign; return whether it was."""
        found = self.tokens[self.at][1] == sign
        self.at += found
        return found

    def expect(self, sign: str) -> None:
        if not self.take(sign):
            _, token, position = self.tokens[self.at]
            found = f'"{token}"' if token else "the end"
            raise self.error(f'has {found} where "{sign}" is needed', position)

    def parse(self) -> _Node:
        if len(self.tokens) == 1:
            raise self.error("is empty")
        tree = self.expression()
        kind, token, position = self.tokens[self.at]
        if kind != "end":
            raise self.error(f'has an unexpected "{token}"', position)
        return tree

    def expression(self, looser: int = 0) -> _Node:
        """Parse as far as operators bind more tightly than ``looser``."""
        if self.take("-"):
            tree = _call(operator.sub, lambda _: 0, self.expression(_OF_MINUS))
        else:
            tree = self.atom()
        while (sign := self.tokens[self.at][1]) in _OPERATORS and _OPERATORS[sign][0] > looser:
            self.at += 1
            binding, function = _OPERATORS[sign]
            # A power takes another one, or a minus, as its exponent.
            tree = _call(function, tree, self.expression(min(binding, _OF_MINUS)))
        return tree

    def atom(self) -> _Node:
        kind, token, position = self.tokens[self.at]
        if kind == "end":
            raise self.error("ends too early")
        self.at += 1
        if token == "(":
            tree = self.expression()
            self.expect(")")
            return tree
        if kind == "number":
            constant = _simplify(Fraction(token))
            return lambda _: constant
        if kind == "name":
            return self.name(token, position)
        raise self.error(f'has an unexpected "{token}"', position)

    def name(self, token: str, position: int) -> _Node:
        if token in ("p", "T"):
            self.names.add(token)
            return _variable(token)
        if token not in _FUNCTIONS:
            hint = nearest(token, [*_FUNCTIONS, "p", "T"])
            raise self.error(f'uses the unknown name "{token}" ({hint})', position)
        fewest, most, function = _FUNCTIONS[token]
        self.expect("(")
        arguments = [self.expression()]
        while self.take(","):
            arguments.append(self.expression())
        self.expect(")")
        if len(arguments) < fewest or (most is not None and len(arguments) > most):
            takes = str(fewest) if most == fewest else f"at least {fewest}"
            raise self.error(
                f"gives {token} {len(arguments)} arguments, it takes {takes}", position
            )
        return _call(function, *arguments)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A whole number for every phase, written as an expression in ``p`` and ``T``.

    Parameters
    ----------
    source : str
        The expression, e.g. ``"100"``, ``"2^p"`` or ``"ceil(10*log(T))"``.

    Examples
    --------
    >>> Schedule("2^p").pulls(phase=60, horizon=10**6)
    1152921504606846976
    >>> Schedule("ceil(10*log(T))").pulls(phase=1, horizon=10**6)
    139
    >>> Schedule("100/p").pulls(phase=3, horizon=10**6)
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: "100/p" gives 33.3333 pulls in phase 3; it must be a whole number
    (wrap it in ceil(...))
    """

    source: str
    _value: _Node = field(init=False, repr=False, compare=False)
    _names: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.source) > _LONGEST:
            raise InputError("", f"a schedule of {len(self.source)} characters; {_LONGEST} at most")
        try:
            parser = _Parser(self.source)
            object.__setattr__(self, "_value", parser.parse())
        except RecursionError:
            raise InputError("", f'"{self.source}" is nested too deeply') from None
        object.__setattr__(self, "_names", frozenset(parser.names))

    def __reduce__(self) -> tuple[type[Schedule], tuple[str]]:
        """Return what another process makes it from: functions do not travel."""
        return Schedule, (self.source,)

    @property
    def depends_on_horizon(self) -> bool:
        """Whether the expression mentions ``T``."""
        return "T" in self._names

    @property
    def depends_on_phase(self) -> bool:
        """Whether the expression mentions ``p``."""
        return "p" in self._names

    def value(self, *, phase: int, horizon: int | None) -> Number:
        """Return the value in a phase, exact if the expression allows it."""
        variables = {"p": phase} if horizon is None else {"p": phase, "T": horizon}
        try:
            return self._value(variables)
        except _EvaluationError as error:
            raise InputError("", f'"{self.source}" {error} in phase {phase}') from None
        except (OverflowError, ValueError, RecursionError):
            raise InputError("", f'"{self.source}" is too large in phase {phase}') from None

    def pulls(self, *, phase: int, horizon: int | None) -> int:
        """Return f(p): how often each client pulls each active arm in phase ``p``."""
        return _whole(self, phase, horizon, 1, "pulls")

    def admissions(self, *, phase: int, horizon: int | None) -> int:
        """Return g(p): how many new clients phase ``p`` admits (phase 1: at least one)."""
        return _whole(self, phase, horizon, 1 if phase == 1 else 0, "clients")


# Drivers ask for a phase more than once, and so do many games with one schedule.
@lru_cache(maxsize=2**16)
def _whole(schedule: Schedule, phase: int, horizon: int | None, at_least: int, unit: str) -> int:
    """Return the value in a phase as a whole number, or say why it is not one."""
    value = schedule.value(phase=phase, horizon=horizon)
    gives = f'"{schedule.source}" gives {_show(value)} {unit} in phase {phase}'
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError("", f"{gives}; it must be a finite number")
    if value < at_least:
        below_one = 0 < value < 1
        hint = " (wrap it in ceil(...))" if below_one else f" (wrap it in max({at_least}, ...))"
        raise InputError("", f"{gives}; a phase needs at least {at_least}{hint}")
    if value != int(value):
        raise InputError("", f"{gives}; it must be a whole number (wrap it in ceil(...))")
    return int(value)


ScheduleLike: TypeAlias = Schedule | str | int


def as_schedule(value: ScheduleLike, where: str = "") -> Schedule:
    """Return ``value`` as a schedule; an error names the key ``where`` it was.

    Examples
    --------
    >>> as_schedule(100)
    Schedule(source='100')
    """
    if isinstance(value, Schedule):
        return value
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InputError(
            where, f'{value!r} is not a schedule; write an expression such as "100" or "2^p"'
        )
    if isinstance(value, int) and value.bit_length() > _MOST_BITS // 4:
        raise InputError(where, "is too large for a schedule")
    try:
        return Schedule(str(value))
    except InputError as error:
        raise error.within(where) if where else error from None
