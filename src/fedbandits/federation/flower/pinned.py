"""A node runs only the app that is installed on it, whatever a server sends.

A server sends a bundle along with every run, and Flower's own client process unpacks and runs what
is in it. A node of ours has another process in its place (`fedbandits.federation.flower.task`),
which never unpacks a bundle. It reads which app the bundle names, refuses any but ours, and calls
the one that the operator of the node has installed.

This uses private parts of Flower, so it runs only with the version that was tested.
"""

from __future__ import annotations

import io
import tomllib
import zipfile
from importlib import import_module
from importlib.metadata import version
from typing import Final

from fedbandits.errors import InputError

CLIENT_APP: Final = "fedbandits.federation.flower.client:app"
"""What a bundle must name for a node to answer: the app that runs is the installed one."""

TESTED: Final = "1.41"
"""The version of Flower whose private parts are known."""

_LARGEST = 100_000


class ForeignAppError(Exception):
    """A run brings another app than the one that this node runs."""


def check_flower() -> None:
    """Refuse a version of Flower other than the one that was tested.

    Raises
    ------
    InputError
        If they are not: a node that cannot be kept to its own app does not start.
    """
    found, lacks = version("flwr"), ""
    try:
        import_module("fedbandits.federation.flower.task")
    except ImportError as error:
        lacks = f" ({error})"
    if lacks or not found.startswith(f"{TESTED}."):
        raise InputError(
            "Flower",
            f"{found} is not the version that a node is known to be safe with{lacks}; nothing was"
            f' started. Install the one that was tested: pip install "flwr=={TESTED}.*"',
        )


def check_bundle(content: bytes) -> None:
    """Refuse a bundle of another app, without running anything of it.

    That nothing of a bundle runs does not depend on this: no bundle is ever unpacked.

    Raises
    ------
    ForeignAppError
        If it names another client app, brings code, or cannot be read.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as bundle:
            code = sorted(name for name in bundle.namelist() if not _is_plain(name))
            about = bundle.getinfo("pyproject.toml")
            if about.file_size > _LARGEST:
                raise ForeignAppError("its pyproject.toml is too large")
            with bundle.open(about) as file:
                said = tomllib.loads(file.read(_LARGEST + 1).decode())
        app = said["tool"]["flwr"]["app"]["components"]["clientapp"]
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError, OSError, NotImplementedError) as e:
        raise ForeignAppError(f"its bundle cannot be read ({type(e).__name__})") from None
    if app != CLIENT_APP:
        raise ForeignAppError(f"it names the client app {str(app)[:200]!r}")
    if code:
        raise ForeignAppError(f"it brings files of its own, such as {code[0][:200]!r}")


def _is_plain(name: str) -> bool:
    """Return whether a file is one that our own bundles have: none of them is code."""
    return name in {"pyproject.toml", "LICENSE", "README.md"} or name.startswith(".info/")
