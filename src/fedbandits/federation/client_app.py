"""The decorator of a client's own code. It imports nothing: a client file stays light."""

from __future__ import annotations

from typing import Any, TypeVar

_Pull = TypeVar("_Pull")

_MARK = "__fedbandits_client_app__"


def client_app(pull: _Pull) -> _Pull:
    """Say that a function is a client's ``pull(arm, n, client)``; it stays as it is.

    Parameters
    ----------
    pull : callable
        Tries an option, by name, n times for a `ClientInfo`, and returns the n outcomes.

    Examples
    --------
    >>> @client_app
    ... def my_clinic(arm, n, client):
    ...     return [0.5] * n
    >>> is_client_app(my_clinic)
    True
    """
    if not callable(pull):
        raise TypeError("@client_app goes on a function pull(arm, n, client)")
    setattr(pull, _MARK, True)
    return pull


def is_client_app(found: Any) -> bool:
    """Return whether something was decorated."""
    return bool(getattr(found, _MARK, False))
