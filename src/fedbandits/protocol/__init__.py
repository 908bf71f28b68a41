"""The protocol, sans-IO: messages, the server machine, the client machine, the log."""

from fedbandits.protocol.answer import Answer, answer_of
from fedbandits.protocol.client import Client, ClientState, Pull
from fedbandits.protocol.log import (
    Log,
    MemoryLog,
    PhaseClosed,
    PhaseOpened,
    Record,
    Rejection,
    UpdateAccepted,
    UpdateRejected,
)
from fedbandits.protocol.messages import (
    Assignment,
    Decision,
    Header,
    Reason,
    Release,
    Update,
    arms_hash,
)
from fedbandits.protocol.server import Server, ServerSnapshot, ServerState

__all__ = [
    "Answer",
    "Assignment",
    "Client",
    "ClientState",
    "Decision",
    "Header",
    "Log",
    "MemoryLog",
    "PhaseClosed",
    "PhaseOpened",
    "Pull",
    "Reason",
    "Record",
    "Rejection",
    "Release",
    "Server",
    "ServerSnapshot",
    "ServerState",
    "Update",
    "UpdateAccepted",
    "UpdateRejected",
    "answer_of",
    "arms_hash",
]
