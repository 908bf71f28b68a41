"""Where data that a user imported is kept."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from fedbandits.errors import InputError

VARIABLE = "FEDBANDITS_DATA"
"""The environment variable that names another directory."""


def data_directory(
    *, environ: Mapping[str, str] | None = None, platform: str | None = None
) -> Path:
    """Return the directory of imported data; it need not exist.

    ``FEDBANDITS_DATA`` if it is set. Else ``fedbandits`` in the place that the system has for the
    data of programs: ``XDG_DATA_HOME`` or ``~/.local/share`` on Linux, ``~/Library/Application
    Support`` on macOS, ``LOCALAPPDATA`` on Windows.

    Parameters
    ----------
    environ : mapping, optional
        The environment; this process's by default.
    platform : str, optional
        As ``sys.platform``, which it is by default.

    Examples
    --------
    >>> data_directory(environ={"FEDBANDITS_DATA": "data"}).as_posix()
    'data'
    >>> data_directory(environ={"XDG_DATA_HOME": "/srv/data"}, platform="linux").as_posix()
    '/srv/data/fedbandits'
    """
    environ = os.environ if environ is None else environ
    platform = sys.platform if platform is None else platform
    if environ.get(VARIABLE):
        return Path(environ[VARIABLE])
    if platform == "win32":
        local = environ.get("LOCALAPPDATA")
        return (Path(local) if local else _home() / "AppData" / "Local") / "fedbandits"
    if platform == "darwin":
        return _home() / "Library" / "Application Support" / "fedbandits"
    # The XDG rules say that a relative path is to be ignored.
    shared = Path(environ.get("XDG_DATA_HOME", ""))
    return (shared if shared.is_absolute() else _home() / ".local" / "share") / "fedbandits"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        raise InputError(VARIABLE, "is not set, and there is no home directory; set it") from None
