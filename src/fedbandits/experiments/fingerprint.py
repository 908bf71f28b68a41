"""What results were made from, as a hash: inputs, versions and the sources of the package."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path

from fedbandits.experiments.describe import versions

_SOURCES = {".py", ".toml", ".csv", ".css", ".js"}


def hashed(inputs: object) -> str:
    """Return the hash of what something was made from; versions and sources belong to it."""
    text = json.dumps([inputs, versions(), _own_sources()], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _own_sources() -> str:
    return sources(Path(__file__).parents[1])


def sources(package: Path) -> str:
    """Return the hash of what a package computes with: all its sources but the commands.

    Parameters
    ----------
    package : Path
        Its folder.
    """
    found = hashlib.sha256()
    for file in sorted(package.rglob("*")):
        name = file.relative_to(package)
        if file.suffix in _SOURCES and name.parts[0] != "cli":
            found.update(json.dumps([name.as_posix(), file.stat().st_size]).encode())
            found.update(file.read_bytes())
    return found.hexdigest()
