"""The protocol, sans-IO: messages, the server machine, the client machine, the log."""

from fedbandits.protocol.answer import Answer, answer_of
from fedbandits.protocol.client import Client, ClientState, Pull, RefusalError
from fedbandits.protocol.log import (
    ArmWithdrawn,
    Log,
    MemoryLog,
    PhaseAbandoned,
    PhaseClosed,
    PhaseOpened,
    PhaseRefused,
    Record,
    Rejection,
    RunStopped,
    ServerStarted,
    UpdateAccepted,
    UpdateRejected,
)
from fedbandits.protocol.messages import (
    Assignment,
    Decision,
    Header,
    Reason,
    Refusal,
    Refused,
    Release,
    Update,
    arms_hash,
)
from fedbandits.protocol.outbox import AuditFile, Entry, Outbox, read_audit
from fedbandits.protocol.quorum import Quorum
from fedbandits.protocol.server import Server, ServerSnapshot, ServerState

__all__ = [
    "Answer",
    "ArmWithdrawn",
    "Assignment",
    "AuditFile",
    "Client",
    "ClientState",
    "Decision",
    "Entry",
    "Header",
    "Log",
    "MemoryLog",
    "Outbox",
    "PhaseAbandoned",
    "PhaseClosed",
    "PhaseOpened",
    "PhaseRefused",
    "Pull",
    "Quorum",
    "Reason",
    "Record",
    "Refusal",
    "RefusalError",
    "Refused",
    "Rejection",
    "Release",
    "RunStopped",
    "Server",
    "ServerSnapshot",
    "ServerStarted",
    "ServerState",
    "Update",
    "UpdateAccepted",
    "UpdateRejected",
    "answer_of",
    "arms_hash",
    "read_audit",
]
