"""A checkpoint beside a log: what its first records come to, so that opening it takes seconds.

The process that writes a log writes it, and nothing depends on it. It is used if it is whole, of
these versions, and of the log: the last record that it contains is there, under the same checksum,
which is one over all records before it. Otherwise it is as if it were not there. It holds plain
values, and reading it runs no code of its writer.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from pydantic_core import from_json

from fedbandits.federation.durable_log import Place
from fedbandits.federation.state_files import beside, write_whole
from fedbandits.protocol.codec import decode, encode

FORMAT = 2

NOT_ONE = (ArithmeticError, LookupError, TypeError, ValueError)
"""What goes wrong with values that are no checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What the first records of a log come to.

    Parameters
    ----------
    place : Place
        The last of these records.
    content : dict
        What they come to, in values that JSON has.
    """

    place: Place
    content: dict[str, Any]


def checkpoint_path(log: Path) -> Path:
    """Return the file of a log's checkpoint."""
    return beside(log, ".checkpoint")


def write_checkpoint(log: Path, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint of a log.

    Raises
    ------
    InputError
        If it cannot be written.
    TypeError, ValueError
        If the content has values that JSON does not have.
    """
    said = {**_versions(), "place": encode(checkpoint.place), "content": checkpoint.content}
    text = json.dumps(said, separators=(",", ":"))
    # A crash may leave half of it on disk: the checksum shows that.
    write_whole(checkpoint_path(log), f"{_digest(text.encode())}\n{text}", durable=False)


def read_checkpoint(log: Path) -> Checkpoint | None:
    """Return the checkpoint of a log; None if there is none that this version can use."""
    path = checkpoint_path(log)
    try:
        checksum, _, text = path.read_bytes().partition(b"\n") if path.is_file() else (b"",) * 3
        if not text or checksum.decode() != _digest(text):
            return None
        said = from_json(text)
        if any(said[key] != value for key, value in _versions().items()):
            return None
        return Checkpoint(place=decode(Place, said["place"]), content=dict(said["content"]))
    except (OSError, *NOT_ONE):
        return None


def _versions() -> dict[str, Any]:
    """Return what may change how records are folded: another version might differ in a bit."""
    return {"format": FORMAT, "fedbandits": version("fedbandits"), "numpy": np.__version__}


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
