"""Abilities: what a class says of itself, and the error where it does not."""

from __future__ import annotations

from typing import Any

from fedbandits.errors import UnstatedError


def unstated(meaning: str) -> Any:
    """Return a class attribute that must be stated by whoever is asked for it.

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
