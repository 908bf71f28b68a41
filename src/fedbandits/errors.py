"""The errors that fedbandits raises, grouped by who made the mistake."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from numbers import Integral, Real
from typing import Any, get_args


class FedbanditsError(Exception):
    """Any error that fedbandits raises on purpose."""


class InputError(FedbanditsError, ValueError):
    """A mistake in what the user gave: a file, an argument, a callable.

    Parameters
    ----------
    where : str
        The key or argument, as the user wrote it (``variants[1].pulls``).
    problem : str
        The rule, the value and the way out, in one line.

    Examples
    --------
    >>> print(InputError("variants[1].pulls", "0.5 pulls in phase 3; a phase needs at least 1"))
    variants[1].pulls: 0.5 pulls in phase 3; a phase needs at least 1
    """

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(where, problem)
        self.where = where
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}" if self.where else self.problem

    @property
    def each(self) -> tuple[InputError, ...]:
        """All mistakes, one by one."""
        return (self,)

    def within(self, prefix: str) -> InputError:
        """Return the same error, seen from the table that holds the key.

        Examples
        --------
        >>> str(InputError("pulls", "is empty").within("variants[0]"))
        'variants[0].pulls: is empty'
        """
        if not self.where:
            return type(self)(prefix, self.problem)
        joint = "" if self.where.startswith("[") else "."
        return type(self)(f"{prefix}{joint}{self.where}", self.problem)


class SeveralMistakesError(InputError):
    """Several mistakes in what the user gave, reported together.

    Parameters
    ----------
    *errors : InputError
        The mistakes, in the order of the file; ``where`` and ``problem`` are those of the first.

    Examples
    --------
    >>> wrong = InputError("seed", "is below 0"), InputError("title", "is empty")
    >>> print(SeveralMistakesError(*wrong))
    seed: is below 0
    title: is empty
    """

    def __init__(self, *errors: InputError) -> None:
        super().__init__(errors[0].where, errors[0].problem)
        self.args = errors  # all of them, so that the error survives the way from a worker process

    def __str__(self) -> str:
        return "\n".join(map(str, self.args))

    @property
    def each(self) -> tuple[InputError, ...]:
        """All mistakes, one by one."""
        return self.args

    def within(self, prefix: str) -> SeveralMistakesError:
        """Return the same errors, seen from the table that holds the keys."""
        return SeveralMistakesError(*(error.within(prefix) for error in self.args))


class Mistakes:
    """Gathers mistakes, one per key, so that all of them can be reported at once.

    Examples
    --------
    >>> mistakes = Mistakes()
    >>> with mistakes.gathered("variants[0]"):
    ...     raise InputError("pulls", "is empty")
    >>> mistakes.tell()
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: variants[0].pulls: is empty
    """

    def __init__(self) -> None:
        self.found: list[InputError] = []

    @contextmanager
    def gathered(self, where: str = "") -> Iterator[None]:
        """Continue after the block; a mistake in it belongs to the table at ``where``."""
        try:
            yield
        except InputError as error:
            self.add(error.within(where) if where else error)

    def add(self, error: InputError) -> None:
        """Add a mistake, or several, unless there is one at the same key."""
        for one in error.each:
            if one.where not in [known.where for known in self.found]:
                self.found.append(one)

    def tell(self) -> None:
        """Raise what was gathered, if anything was."""
        if self.found:
            raise self.found[0] if len(self.found) == 1 else SeveralMistakesError(*self.found)


@contextmanager
def file_errors(where: object, problem: str, way_out: str = "") -> Iterator[None]:
    """Turn an error of the system into an `InputError` that names the file.

    Parameters
    ----------
    where : path or str
        The file or folder, or the option that has named it.
    problem : str
        What cannot be done; the system's reason follows it.
    way_out : str
        What else to say, after the reason.
    """
    try:
        yield
    except OSError as error:
        raise InputError(str(where), f"{problem}: {error.strerror or error}{way_out}") from None


class ProtocolError(FedbanditsError):
    """A message or a call that the protocol does not allow in this state."""


class UnstatedError(FedbanditsError):
    """A class does not state something that is needed.

    Parameters
    ----------
    owner : str
        The class.
    name : str
        The attribute or method to write.
    meaning : str
        What it says, after "whether" or "what".

    Examples
    --------
    >>> print(UnstatedError("Laplace", "clipped(low, high)", "what clipping does"))
    Laplace does not say what clipping does; define Laplace.clipped(low, high)
    """

    def __init__(self, owner: str, name: str, meaning: str) -> None:
        # All of them, so that the error survives the way from a worker process.
        super().__init__(owner, name, meaning)

    def __str__(self) -> str:
        owner, name, meaning = self.args
        return f"{owner} does not say {meaning}; define {owner}.{name}"


class AssumptionWarning(UserWarning):
    """A rule assumes what does not hold in its problem; it runs, as the user may know better."""


LARGEST = 1e100
"""Larger numbers are refused: their squares and sums leave floating point."""


def is_number(value: object, *, whole: bool = False) -> bool:
    """Return whether a value is a number, or a whole one, of Python or NumPy; True is none.

    Examples
    --------
    >>> is_number(2.5), is_number(2.5, whole=True), is_number(True), is_number("2.5")
    (True, False, False, False)
    """
    if type(value) in ((int,) if whole else (int, float)):
        return True  # nearly always; asking the abstract classes takes five times as long
    return isinstance(value, Integral if whole else Real) and not isinstance(value, bool)


def check_number(value: object, where: str, *, whole: bool = False) -> None:
    """Refuse anything but a number, or anything but a whole number.

    Examples
    --------
    >>> check_number(2.5, "min_clients", whole=True)
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: min_clients: 2.5 is not a whole number such as 2
    """
    if not is_number(value, whole=whole):
        rule = "a whole number such as 2" if whole else "a number such as 0.5"
        raise InputError(where, f"{value!r} is not {rule}")


LARGEST_COUNT = 10**15
"""Larger numbers of slots, clients, phases and releases are mistakes."""


def check_count(value: Any, where: str, least: int = 1, *, optional: bool = False) -> None:
    """Refuse anything but a whole number in the range; None is allowed if it is optional.

    Examples
    --------
    >>> check_count(0, "replications")
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: replications: 0 is not a whole number from 1 to 10^15
    """
    if optional and value is None:
        return
    if not (is_number(value, whole=True) and least <= value <= LARGEST_COUNT):
        raise InputError(where, f"{value!r} is not a whole number from {least} to 10^15")


def check_positive(value: float, where: str, example: float = 0.1) -> None:
    """Refuse anything but a positive number."""
    check_number(value, where)
    if not 0 < value < math.inf:
        raise InputError(where, f"{value!r} is not a positive number such as {example:g}")


def check_not_negative(value: float, where: str) -> None:
    """Refuse anything but a number from 0 to a size that can be squared and added up.

    Examples
    --------
    >>> check_not_negative(-1.0, "communication_cost")
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: communication_cost: -1.0 is not a number from 0 to 1e+100
    """
    if not is_number(value) or not 0 <= value <= LARGEST:
        shown = str(value) if is_number(value) else repr(value)
        raise InputError(where, f"{shown} is not a number from 0 to {LARGEST:g}")


def as_pair(value: object, where: str) -> tuple[float, float]:
    """Return two numbers, which are a list in a file; refuse anything else.

    Examples
    --------
    >>> as_pair([0, 1], "range")
    (0.0, 1.0)
    """
    numbers = list(value) if isinstance(value, Iterable) else []
    if len(numbers) != 2 or not all(is_number(one) and math.isfinite(one) for one in numbers):
        raise InputError(where, f"{value!r} is not a pair of finite numbers such as [0, 1]")
    return float(numbers[0]), float(numbers[1])


def nearest(word: str, known: Iterable[str], *, most: int | None = None) -> str:
    """Return a hint that names the known words, or the most similar of many.

    Examples
    --------
    >>> nearest("fed-ucb2", ["fed2-ucb", "ucb1"])
    'did you mean "fed2-ucb"? (known: fed2-ucb, ucb1)'
    >>> nearest("x", ["fed2-ucb", "ucb1"])
    'known: fed2-ucb, ucb1'
    >>> nearest("ucb", ["fed2-ucb", "ucb1", "thompson"], most=2)
    'did you mean "ucb1"? (known: fed2-ucb, ucb1 and 1 more)'
    >>> nearest("pulls", ["problem.noise", "variants.pulls"])
    'did you mean "variants.pulls"? (known: problem.noise, variants.pulls)'
    """
    words = sorted(known)
    if not words:
        return "none is known here"
    shown = words if most is None else sorted(difflib.get_close_matches(word, words, most, 0.0))
    more = f" and {len(words) - len(shown)} more" if len(shown) < len(words) else ""
    listing = f"known: {', '.join(shown)}{more}"
    close = difflib.get_close_matches(word, words, n=1)
    close = close or [known for known in words if known.endswith(f".{word}")]
    return f'did you mean "{close[0]}"? ({listing})' if close else listing


def check_word(word: object, words: Any, where: str) -> None:
    """Refuse a word that a ``Literal`` does not list.

    Examples
    --------
    >>> from typing import Any, Literal, get_args
    >>> check_word("mx", Literal["max", "min"], "goal")
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: goal: 'mx' is not known; did you mean "max"? (known: max, min)
    """
    known = get_args(words)
    if word not in known:
        raise InputError(where, f"{word!r} is not known; {nearest(str(word), known)}")


def check_installed(package: str, what: str, install: str) -> None:
    """Refuse what needs a package that is not installed.

    Parameters
    ----------
    package : str
        As it is imported.
    what : str
        What needs it.
    install : str
        The command that installs it.

    Examples
    --------
    >>> check_installed("no_such_package", "to_frame()", "pip install no-such-package")
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: to_frame() needs no_such_package, which is not installed: pip
    install no-such-package
    """
    if find_spec(package) is None:
        raise InputError("", f"{what} needs {package}, which is not installed: {install}")


def check_stated(value: object, contract: type, where: str, *, parent: str = "") -> None:
    """Refuse a value whose class does not state all that a contract asks for.

    Parameters
    ----------
    value : object
        What is given.
    contract : type
        A protocol.
    where : str
        The key or argument.
    parent : str
        The class to inherit from, which has defaults; by default the contract itself.

    Examples
    --------
    >>> from typing import Protocol
    >>> class Purse(Protocol):
    ...     def pay(self, price): ...
    >>> check_stated(0.5, Purse, "purse")
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: purse: the class float does not say "pay"; write it, or inherit
    from Purse, which has defaults for much of it
    """
    kind: type = type(value)
    missing = _unsaid(kind, contract)
    if missing:  # by the class: an instance may have more
        missing = missing - set(dir(value))
    if missing:
        names = ", ".join(f'"{name}"' for name in sorted(missing))
        raise InputError(
            where,
            f"the class {type(value).__name__} does not say {names}; write it, or inherit from"
            f" {parent or contract.__name__}, which has defaults for much of it",
        )


@cache  # asked of every variant of a sweep
def _unsaid(kind: type, contract: type) -> frozenset[str]:
    return frozenset(name for name in dir(contract) if name[0] != "_") - set(dir(kind))
