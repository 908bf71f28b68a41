"""Whether anything answers at an address at all, before a client waits for it."""

from __future__ import annotations

import re
import socket

from fedbandits.errors import InputError

_ADDRESS = re.compile(r"(?:[a-z]+://)?(\[[0-9a-fA-F:]+\]|[^:/\s]+):(\d{1,5})/?")


def connect(address: str, timeout: float) -> socket.socket:
    """Return a connection to an address, or say that nothing accepts one in time.

    Parameters
    ----------
    address : str
        Host and port, with a scheme such as ``tcp://`` or without.
    timeout : float
        Seconds.

    Examples
    --------
    >>> connect("here", 1.0)
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
        return socket.create_connection((host, port), timeout=timeout)
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        raise InputError(
            "--address",
            f"{address} does not answer within {timeout:g} s ({reason}); start the cluster, or"
            " raise --timeout",
        ) from None
