"""Live runs of the same rules: a durable log, the loop around it, clients in their places.

A client's own file imports from here; nothing heavy comes along before it is used.
"""

from typing import TYPE_CHECKING, Any

from fedbandits.federation.client_app import client_app

if TYPE_CHECKING:
    from fedbandits.federation.halts import HaltedError
    from fedbandits.federation.host import ClientInfo
    from fedbandits.federation.last_word import best_arm
    from fedbandits.federation.live import LiveTrial

__all__ = ["ClientInfo", "HaltedError", "LiveTrial", "best_arm", "client_app"]

_LATER = {
    "ClientInfo": "host",
    "HaltedError": "halts",
    "LiveTrial": "live",
    "best_arm": "last_word",
}


def __getattr__(name: str) -> Any:
    """Import what is heavy when it is first asked for."""
    from importlib import import_module  # noqa: PLC0415 - for what is rarely asked for

    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
