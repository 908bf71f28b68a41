"""Our messages as Flower's: one record with one text in it, which either side checks."""

from __future__ import annotations

import json
from typing import Any, Final

from flwr.app import ConfigRecord, Message, RecordDict

from fedbandits.errors import InputError

WHO: Final = "who"
"""Asks a node for its clients."""
PHASE: Final = "phase"
"""Asks clients of a node to play a phase."""
RECALL: Final = "recall"
"""Tells clients of a node which options are withdrawn and no longer given."""
CONCLUDE: Final = "conclude"
"""Tells clients of a node the last word."""

_RECORD = "fedbandits"
_TEXT = "json"


def packed(said: Any) -> RecordDict:
    """Return plain values as the content of a message."""
    return RecordDict({_RECORD: ConfigRecord({_TEXT: json.dumps(said)})})


def unpacked(message: Message) -> dict[str, Any]:
    """Return the plain values in a message.

    Raises
    ------
    InputError
        If it is not one of ours.
    """
    try:
        said = json.loads(str(message.content.config_records[_RECORD][_TEXT]))
    except (KeyError, ValueError, TypeError, RecursionError):
        raise InputError("message", "is not one of fedbandits") from None
    if not isinstance(said, dict):
        raise InputError("message", "is not one of fedbandits")
    return said
