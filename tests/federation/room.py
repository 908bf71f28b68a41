"""Flower in one process: a grid whose nodes are called, and a transport whose time is simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import Context, Error, Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.run import Run

from fedbandits.federation.coordinator import Coordinator, Patience
from fedbandits.federation.flower import client as client_module
from fedbandits.federation.flower.keys import fingerprint
from fedbandits.federation.flower.transport import FlowerTransport
from fedbandits.federation.flower.wire import packed, unpacked
from fedbandits.federation.local import server_of
from fedbandits.federation.trial import Trial
from fedbandits.protocol import (
    MemoryLog,
    Rejection,
    UpdateRejected,
)
from flower_project import (
    CLIENTS,
    of_kind,
)

Mischief = Callable[[Message, Message], Message | None]
"""From a message and its reply to what arrives; None if nothing does."""


@cache
def public_key(number: int) -> bytes:
    """Return a public key as Flower keeps it, always the same for a number."""
    key = ec.derive_private_key(number + 1, ec.SECP384R1()).public_key()
    return key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def key_of(number: int) -> str:
    return fingerprint(public_key(number))


class Room(Grid):
    """A grid whose nodes are in this process, and answer when they are asked.

    Parameters
    ----------
    nodes : dict
        Node configs, by the nodes' numbers.
    mischief : callable
        What befalls replies.
    """

    def __init__(
        self, nodes: dict[int, dict[str, Any]], mischief: Mischief = lambda _, reply: reply
    ) -> None:
        self.nodes = nodes
        self.mischief = mischief
        self.keys: dict[int, int] = {}  # by node, if it is not the first that it had
        self.asked: list[tuple[int, str]] = []
        self._replies: dict[str, Message] = {}
        self._number = 0

    def set_run(self, run: Run) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Run:
        raise NotImplementedError

    def create_message(self, *_: Any, **__: Any) -> Message:
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return list(self.nodes)

    def get_nodes(self) -> Iterable[NodeInfo]:
        return [
            NodeInfo(node_id=node, public_key=public_key(self.keys.get(node, node)))
            for node in self.nodes
        ]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return [self._pushed(message) for message in messages]

    def _pushed(self, message: Message) -> str:
        self._number += 1
        number = str(self._number)
        node = message.metadata.dst_node_id
        message.metadata.__dict__["_message_id"] = number
        self.asked.append((node, message.metadata.message_type))
        context = Context(
            run_id=1,
            node_id=node,
            node_config=self.nodes.get(node, {}),
            state=RecordDict(),
            run_config={},
        )
        try:
            reply = client_module.clients(message, context)
        except Exception as error:
            reply = Message(Error(code=2, reason=str(error)), reply_to=message)
        arrived = self.mischief(message, reply)
        if arrived is not None:
            self._replies[number] = arrived
        return number

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [
            self._replies.pop(number) for number in list(message_ids) if number in self._replies
        ]

    def send_and_receive(self, *_: Any, **__: Any) -> Iterable[Message]:
        raise NotImplementedError


def three_nodes(project: Path) -> dict[int, dict[str, Any]]:
    return {
        node: {"project": str(project), "name": "client", "first": 2 * node, "clients": 2}
        for node in range(3)
    }


def config(project: Path, **more: Any) -> dict[str, Any]:
    return {"project": str(project), "clients": CLIENTS, **more}


class Hall:
    """A transport over a room, with time that passes when somebody waits."""

    def __init__(
        self, room: Room, trial: Trial, log: MemoryLog | None = None, **patience: Any
    ) -> None:
        self.now = 0.0
        self.news: list[str] = []
        self.room = room
        self.server = server_of(trial, log)
        self.patience = Patience(**{"deadline": 50.0, "grace": 50.0, "resend": 10.0, **patience})
        self.transport = FlowerTransport(
            room,
            self.server,
            self.patience,
            tell=self.news.append,
            clock=lambda: self.now,
            sleep=self.sleep,
        )

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def run(self, clients: int = CLIENTS) -> None:
        self.coordinator(clients).run()

    def coordinator(self, clients: int = CLIENTS) -> Coordinator:
        return Coordinator(
            self.server,
            self.transport,
            clock=lambda: self.now,
            seed=0,
            patience=replace(self.patience, clients=clients),
            watch=lambda at: self.news.append(at.news),
        )

    def rejections(self) -> list[Rejection]:
        return [record.rejection for record in of_kind(self.server.log, UpdateRejected)]


def changed(reply: Message, message: Message, change: Callable[[Any], Any]) -> Message:
    return Message(packed(change(unpacked(reply))), reply_to=message)
