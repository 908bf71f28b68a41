"""Abilities: what a class states about itself, and the error if it does not.

A statement is about the methods of the class that makes it. A value with other methods, however it
got them, has not made it: it gets a cautious default, or an error that names what to write. That is
judged whenever the statement is asked for. Only changes to the class that makes the statement go
unnoticed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from types import MemberDescriptorType
from typing import Any, Protocol

from fedbandits.errors import UnstatedError


def unstated(meaning: str) -> Any:
    """Return a class attribute that a class must state if it is asked for it.

    Parameters
    ----------
    meaning : str
        What it says, after "whether" or "what".

    Examples
    --------
    >>> class Radius:
    ...     uses_noise = unstated("whether σ is in its widths")
    >>> class Mine(Radius):
    ...     pass
    >>> Mine().uses_noise
    Traceback (most recent call last):
        ...
    fedbandits.errors.UnstatedError: Mine does not say whether σ is in its widths; define
    Mine.uses_noise
    """
    return _Unstated(meaning)


class _Unstated:
    def __init__(self, meaning: str) -> None:
        self.meaning = meaning
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:
            return self
        raise UnstatedError(owner.__name__, self.name, self.meaning)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """How a statement is judged.

    Parameters
    ----------
    about : tuple of str
        The methods that it is about; by default all of the class that makes it which neither state
        something themselves nor only describe, or make, a value.
    instead : object, optional
        What takes its place. By default that is what the base of all such classes says, which
        states nothing itself, or an error that names what to write.
    """

    about: tuple[str, ...] = ()
    instead: Any = None


class Judge:
    """Gives statements only to values whose methods made them.

    A method is replaced by a class below the one that makes the statement, by a mixin, by an
    assignment to such a class, or by an attribute of the value; and all of them are by a
    ``__getattribute__``.

    Parameters
    ----------
    statements : mapping
        By the name of the attribute or method that states something.
    words : collection of str
        What only names and describes a value: a class may replace it and keep what is stated.

    Examples
    --------
    >>> judge = Judge({"bounded": Statement(), "spread": Statement()}, words=["name"])
    >>> class Law:
    ...     bounded = False
    ...     def __init_subclass__(cls): judge.hear(cls)
    >>> class Coin(Law):
    ...     bounded = True
    ...     def draw(self): return 0.5
    ...     def spread(self): return 0.5
    ...     def name(self): return "coin"
    >>> class Renamed(Coin):
    ...     def name(self): return "penny"
    >>> class Heavy(Coin):
    ...     def draw(self): return 1e9
    >>> Coin().bounded, Renamed().bounded, Heavy().bounded
    (True, True, False)
    >>> Heavy().spread()
    Traceback (most recent call last):
        ...
    fedbandits.errors.UnstatedError: Heavy does not say what its spread is, now that it replaces
    draw; define Heavy.spread
    """

    def __init__(self, statements: Mapping[str, Statement], *, words: Collection[str] = ()) -> None:
        self.statements = statements
        self.aside = frozenset((*statements, *words))

    def hear(self, kind: type, *, base: bool = False) -> None:
        """Note what a class states, to be judged when it is asked for; a field is given as it is.

        What a protocol says is a default, and so is what the base of all such classes says, unless
        something else takes its place.
        """
        if Protocol in kind.__bases__:
            return
        annotations = vars(kind).get("__annotations__", {})
        for name in self.statements.keys() & vars(kind).keys():
            value, annotation = vars(kind)[name], str(annotations.get(name, "ClassVar"))
            if base and self.statements[name].instead is None:
                continue
            if "ClassVar" in annotation and not isinstance(value, _Stated | MemberDescriptorType):
                setattr(kind, name, _Stated(self, name, value))


@dataclass(frozen=True, slots=True)
class _Stated:
    """A statement in the place where a class has written it."""

    judge: Judge
    name: str
    value: Any

    def __get__(self, part: object, kind: type) -> Any:
        if vars(kind).get(self.name) is self and not getattr(part, "__dict__", None):
            return _bound(self.value, part, kind)  # the usual case, asked thousands of times
        owner = next(one for one in kind.__mro__ if self.name in vars(one))
        replaced = []
        if part is not None and vars(owner)[self.name] is self:  # else it is asked as inherited
            about = self.judge.statements[self.name].about
            replaced = _replaced(part, owner, about or _methods(owner, self.judge.aside))
        if not replaced:
            return _bound(self.value, part, kind)
        written = (vars(one)[self.name] for one in kind.__mro__ if self.name in vars(one))
        defaults = (value for value in written if not isinstance(value, _Stated))
        instead = self.judge.statements[self.name].instead or next(defaults, None)
        if instead is None or getattr(instead, "__isabstractmethod__", False):
            meaning = f"what its {self.name} is, now that it replaces {replaced[0]}"
            raise UnstatedError(kind.__name__, self.name, meaning)
        return _bound(instead, part, kind)


def _bound(value: Any, part: object, kind: type) -> Any:
    """Return an attribute of a class as it is of a value."""
    return value.__get__(part, kind) if hasattr(value, "__get__") else value


def _replaced(part: object, owner: type, names: Collection[str]) -> list[str]:
    """Return the methods of a value that are not those of the class that made a statement."""
    kind, own = type(part), getattr(part, "__dict__", {})
    if kind is owner and not own:
        return []
    names = (*names, "__getattribute__")
    return sorted(
        name
        for name in names
        if name in own or (kind is not owner and _found(kind, name) is not _found(owner, name))
    )


@cache
def _methods(kind: type, aside: frozenset[str]) -> frozenset[str]:
    """Return a class's methods: neither values, nor places for them, nor what makes a value."""
    return frozenset(
        name
        for base in kind.__mro__[:-1]
        for name in vars(base)
        if not name.startswith("__") and name not in aside and _is_method(_found(kind, name))
    )


def _is_method(value: object) -> bool:
    if isinstance(value, MemberDescriptorType | classmethod):
        return False
    return callable(value) or hasattr(type(value), "__get__")


def _found(kind: type, name: str) -> object:
    """Return an attribute of a class as it was written."""
    return next(vars(one)[name] for one in kind.__mro__ if name in vars(one))
