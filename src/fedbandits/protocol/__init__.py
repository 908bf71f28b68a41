"""The protocol, sans-IO: messages, the server machine, the client machine, the log."""

from fedbandits.protocol.answer import Answer, answer_of, conclusion_of
from fedbandits.protocol.client import Client, ClientState, Pull, RefusalError
from fedbandits.protocol.log import (
    AnswerRefused,
    ArmWithdrawn,
    Log,
    MemoryLog,
    PhaseAbandoned,
    PhaseClosed,
    PhaseOpened,
    Record,
    Rejection,
    RunEnded,
    ServerStarted,
    UpdateAccepted,
    UpdateRejected,
)
from fedbandits.protocol.messages import (
    Assignment,
    Conclusion,
    Decision,
    Header,
    Reason,
    Refusal,
    Refused,
    Release,
    Update,
    arms_hash,
)
from fedbandits.protocol.outbox import Entry, Outbox
from fedbandits.protocol.quorum import Quorum
from fedbandits.protocol.server import Server, ServerSnapshot
from fedbandits.protocol.state import RunState, ServerState

__all__ = [
    "Answer",
    "AnswerRefused",
    "ArmWithdrawn",
    "Assignment",
    "Client",
    "ClientState",
    "Conclusion",
    "Decision",
    "Entry",
    "Header",
    "Log",
    "MemoryLog",
    "Outbox",
    "PhaseAbandoned",
    "PhaseClosed",
    "PhaseOpened",
    "Pull",
    "Quorum",
    "Reason",
    "Record",
    "Refusal",
    "RefusalError",
    "Refused",
    "Rejection",
    "Release",
    "RunEnded",
    "RunState",
    "Server",
    "ServerSnapshot",
    "ServerStarted",
    "ServerState",
    "Update",
    "UpdateAccepted",
    "UpdateRejected",
    "answer_of",
    "arms_hash",
    "conclusion_of",
]
