"""Carries messages between a server and the clients on Flower's nodes.

A node may host many clients: one message goes to a node, with the names of those it is for. Which
clients a node has it says itself, when it is first seen; from then on nobody else speaks for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid

from fedbandits.errors import InputError
from fedbandits.federation.coordinator import Answer, Patience, Received
from fedbandits.federation.flower.wire import CONCLUDE, PHASE, WHO, packed, unpacked
from fedbandits.protocol import Assignment, Conclusion
from fedbandits.protocol.codec import decode, encode

POLL = 0.25
"""Seconds between looks at what has come in."""

LOOK_AROUND = 2.0
"""Seconds between looks at which nodes are there."""

MOST_CLIENTS = 100_000
"""A node that claims to host more than this is not believed."""

# So long short questions are worth answering: a node may be busy.
_SHORT = 600.0

# So long, at least, a message is on its way before it is taken for lost. Flower loses none unless a
# node is killed; and every message costs a node a process, so that haste makes it slower.
_LOST_AFTER = 30.0


@dataclass(slots=True)
class _Node:
    """What is known of a node."""

    clients: tuple[str, ...] = ()
    here: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """A message that is on its way."""

    kind: str
    node: int
    until: float


@dataclass(slots=True)
class _Resending:
    """Which message was sent to a node last, how often, and when it may be sent again."""

    key: tuple[int, int]
    times: int = 0
    at: float = 0.0
    again: float = 0.0


@dataclass(slots=True)
class _Parcel:
    """The last message, and the clients whose node is not known yet."""

    message: Assignment | Conclusion
    waiting: set[str] = field(default_factory=set)


class FlowerTransport:
    """A `fedbandits.federation.coordinator.Transport` over a Flower grid.

    Parameters
    ----------
    grid : Grid
        Flower's.
    patience : Patience
        How long messages are worth answering.
    tell : callable
        Told, in words, what goes wrong on the way.
    clock, sleep : callable
        The time.
    """

    def __init__(
        self,
        grid: Grid,
        patience: Patience,
        *,
        tell: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._grid = grid
        self._patience = patience
        self._tell = tell
        self._clock = clock
        self._sleep = sleep
        self._nodes: dict[int, _Node] = {}
        self._homes: dict[str, int] = {}
        self._sent: dict[str, _Sent] = {}
        self._resending: dict[tuple[int, str], _Resending] = {}
        self._parcel: _Parcel | None = None
        self._looked = -LOOK_AROUND

    def connected(self) -> list[str]:
        """Return the clients of all nodes that are there and have said whom they host."""
        self._look_around()
        return [client for client, node in self._homes.items() if self._nodes[node].here]

    def send(self, message: Assignment | Conclusion, clients: Sequence[str]) -> None:
        """Send a message to the nodes of these clients; to who is not known yet when it is."""
        at_home = [client for client in clients if client in self._homes]
        self._parcel = _Parcel(message, set(clients).difference(at_home))
        self._post(message, at_home)

    def receive(self, timeout: float) -> list[Received]:
        """Return the answers that have come in, after so many seconds at the latest.

        That more clients are connected is a reason to return, too.
        """
        end, known = self._clock() + timeout, len(self._homes)
        while True:
            self._look_around()
            answers = self._collected()
            left = end - self._clock()
            if answers or len(self._homes) > known or left <= 0:
                return answers
            self._sleep(min(POLL, left))

    def flush(self, timeout: float) -> None:
        """Wait until every node has confirmed the last word, so many seconds at most."""
        end = self._clock() + timeout
        while self._unconfirmed():
            self._look_around()
            self._collected()
            if self._clock() >= end:
                self._tell(
                    "not every node has confirmed the last word; resume the run to repeat it"
                )
                return
            self._sleep(POLL)

    def _unconfirmed(self) -> bool:
        waiting = self._parcel is not None and bool(self._parcel.waiting)
        return waiting or any(sent.kind == CONCLUDE for sent in self._sent.values())

    def _look_around(self) -> None:
        """See which nodes are there, and ask new ones whom they host."""
        now = self._clock()
        if now - self._looked < LOOK_AROUND:
            return
        self._looked = now
        there = set(self._grid.get_node_ids())
        for node in there:
            self._nodes.setdefault(node, _Node())
        for number, known in self._nodes.items():
            known.here = number in there
            if known.here and not known.clients:
                self._ask(WHO, number, {}, key=(0, 0), ttl=_SHORT)

    def _post(self, message: Assignment | Conclusion, clients: Iterable[str]) -> None:
        by_node: dict[int, list[str]] = {}
        for client in clients:
            by_node.setdefault(self._homes[client], []).append(client)
        for node, names in by_node.items():
            self._post_to(node, message, names)

    def _post_to(self, node: int, message: Assignment | Conclusion, names: list[str]) -> None:
        said: dict[str, Any] = {"clients": names, "message": encode(message)}
        epoch, patience = message.header.epoch, self._patience
        if isinstance(message, Conclusion):
            self._ask(CONCLUDE, node, said, key=(epoch, 0), ttl=_SHORT)
        else:
            worth = patience.deadline + patience.grace + patience.resend
            self._ask(PHASE, node, said, key=(epoch, message.phase), ttl=worth)

    def _ask(
        self, kind: str, node: int, said: dict[str, Any], *, key: tuple[int, int], ttl: float
    ) -> None:
        """Send a message, unless the same was sent not long ago and may still be answered."""
        now = self._clock()
        last = self._resending.get((node, kind))
        if last is None or last.key != key:
            last = self._resending[node, kind] = _Resending(key)
        # A node takes one message at a time: those it has not come to yet would queue up.
        if now < last.again:
            return
        wait = max(self._patience.resend, _LOST_AFTER)
        last.at, last.again = now, now + wait * 2**last.times
        last.times += 1
        self._push(kind, node, said, ttl)

    def _push(self, kind: str, node: int, said: dict[str, Any], ttl: float) -> None:
        message_type = f"train.{kind}" if kind == PHASE else f"query.{kind}"
        message = Message(packed(said), node, message_type, ttl=ttl)
        for pushed in self._grid.push_messages([message]):
            if pushed:  # what cannot be sent is sent again later
                self._sent[pushed] = _Sent(kind=kind, node=node, until=self._clock() + ttl)

    def _collected(self) -> list[Received]:
        """Return the answers among what has come in, and take note of the rest."""
        if not self._sent:
            return []
        answers: list[Received] = []
        for reply in self._grid.pull_messages(list(self._sent)):
            sent = self._sent.pop(reply.metadata.reply_to_message_id, None)
            if sent is not None:
                self._note_answered(sent)
                answers += self._opened(sent, reply)
        now = self._clock()
        self._sent = {number: sent for number, sent in self._sent.items() if sent.until > now}
        return answers

    def _note_answered(self, sent: _Sent) -> None:
        """Let a node that has nothing more to do be asked again as soon as it should be."""
        busy = any((on.node, on.kind) == (sent.node, sent.kind) for on in self._sent.values())
        if not busy:
            last = self._resending[sent.node, sent.kind]
            last.times, last.again = 0, last.at + self._patience.resend

    def _opened(self, sent: _Sent, reply: Message) -> list[Received]:
        if reply.has_error():
            self._tell(f"node {sent.node} did not answer: {_why(reply)}")
            return []
        try:
            said = unpacked(reply)
            match sent.kind:
                case "who":
                    self._settle(sent.node, said)
                case "phase":
                    return self._answers(sent.node, said)
        except InputError as error:
            self._tell(f"node {sent.node}: {error}")
        return []

    def _settle(self, node: int, said: dict[str, Any]) -> None:
        """Take down whom a node hosts; a name that another node has is not given twice."""
        names: list[str] = decode(tuple[str, ...], said.get("clients"), "clients")
        if len(names) > MOST_CLIENTS or len(set(names)) != len(names):
            raise InputError("clients", "are too many, or there twice")
        settled = []
        for name in names:
            if self._taken(name, node):
                self._tell(f'node {node} claims client "{name}", which another node has')
                continue
            self._homes[name] = node
            settled.append(name)
        self._nodes[node].clients = tuple(settled)
        if self._parcel is not None:
            known = self._parcel.waiting.intersection(settled)
            self._parcel.waiting -= known
            self._post(self._parcel.message, sorted(known))

    def _taken(self, name: str, node: int) -> bool:
        """Return whether a client is on another node, which is still there."""
        home = self._homes.get(name)
        return home is not None and home != node and self._nodes[home].here

    def _answers(self, node: int, said: dict[str, Any]) -> list[Received]:
        answers = said.get("answers")
        if not isinstance(answers, list):
            raise InputError("answers", "are missing")
        return [self._answer(node, each) for each in answers]

    def _answer(self, node: int, said: Any) -> Received:
        """Return an answer; None for what is none, or in another's name."""
        try:
            answer: Answer = decode(Answer, said, "answer")
        except InputError as error:
            self._tell(f"node {node}: {error}")
            return None
        if self._homes.get(answer.client) != node:
            self._tell(f'node {node} speaks for client "{answer.client}", which is not its own')
            return None
        return answer


def _why(reply: Message) -> str:
    reason = (reply.error.reason or "").strip().splitlines()
    return f"{reason[-1] if reason else 'no reason is given'} (code {reply.error.code})"
