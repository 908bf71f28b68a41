"""Whether anything answers at an address at all, before a client waits for it."""

from __future__ import annotations

import re
import socket

from fedbandits.errors import InputError

_ADDRESS = re.compile(r"(?:[a-z]+://)?(\[[0-9a-fA-F:]+\]|[^:/\s]+):(\d{1,5})/?")


def check_reachable(address: str, timeout: float) -> None:
    """Refuse an address that is none, or at which nothing accepts a connection in time.

    Parameters
    ----------
    address : str
        Host and port, with a scheme such as ``tcp://`` or without.
    timeout : float
        Seconds.

    Examples
    --------
    >>> check_reachable("here", 1.0)
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: --address: "here" is not a host and a port such as
    tcp://10.0.0.1:8786
    """
    found = _ADDRESS.fullmatch(address)
    if found is None or int(found[2]) > 65535:
        raise InputError(
            "--address", f'"{address}" is not a host and a port such as tcp://10.0.0.1:8786'
        )
    host, port = found[1].strip("[]"), int(found[2])
    try:
        socket.create_connection((host, port), timeout=timeout).close()
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        raise InputError(
            "--address",
            f"{address} does not answer within {timeout:g} s ({reason}); start the cluster, or"
            " raise --timeout",
        ) from None
