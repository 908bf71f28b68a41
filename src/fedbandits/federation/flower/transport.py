"""Carries messages between a server and the clients on Flower's nodes.

A node may host many clients: one message goes to a node, with the names of those it is for. Which
clients a node has it says itself, when it comes; as long as it does not say otherwise, and for the
life of this server, nobody else speaks for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid

from fedbandits.errors import InputError
from fedbandits.federation.coordinator import Patience, Received, Reply
from fedbandits.federation.flower.wire import CONCLUDE, PHASE, WHO, packed, unpacked
from fedbandits.federation.state_files import check_name
from fedbandits.protocol import Assignment, Conclusion, Refusal
from fedbandits.protocol.codec import decode, encode

POLL = 0.25
"""Seconds between looks at what has come in."""

LOOK_AROUND = 2.0
"""Seconds between looks at which nodes are there."""

MOST_CLIENTS = 100_000
"""A node that claims to host more than this is not believed."""

STRIKES = 3
"""A node that has sent what nobody sends by mistake so often is not listened to any more."""

LONGEST_DETAIL = 300
"""So much of a client's own words about a refusal is kept."""

# So long short questions are worth answering: a node may be busy.
_SHORT = 600.0

# So long, at least, a message is on its way before it is taken for lost. Flower loses none unless a
# node is killed; and every message costs a node a process, so that haste makes it slower.
_LOST_AFTER = 30.0


@dataclass(slots=True)
class _Node:
    """What is known of a node.

    Parameters
    ----------
    settled : bool
        Whether it has said whom it hosts, since it was last seen to come.
    here : bool
        Whether it is connected.
    denied : set of str
        Clients that it claims, and another node has.
    strikes : int
        How many of its replies nobody could have sent by mistake.
    """

    settled: bool = False
    here: bool = False
    denied: set[str] = field(default_factory=set)
    strikes: int = 0

    @property
    def muted(self) -> bool:
        return self.strikes >= STRIKES


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """A message that is on its way."""

    kind: str
    node: int
    clients: tuple[str, ...]
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
    """The last message, and the clients that it is still to reach.

    Parameters
    ----------
    message : Assignment or Conclusion
        It.
    homeless : set of str
        Clients whose node is not known yet.
    untold : set of str
        Clients that have not confirmed the last word.
    """

    message: Assignment | Conclusion
    homeless: set[str]
    untold: set[str] = field(default_factory=set)


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
        return [client for client in self._homes if self._reachable(client)]

    def send(self, message: Assignment | Conclusion, clients: Sequence[str]) -> None:
        """Send a message to the nodes of these clients; to who is not known yet when it is."""
        homeless = set(clients).difference(self._homes)
        untold = set(clients) if isinstance(message, Conclusion) else set[str]()
        self._parcel = _Parcel(message, homeless, untold)
        self._post(message, [client for client in clients if client not in homeless])

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
        """Wait until every client has confirmed the last word, so many seconds at most."""
        end = self._clock() + timeout
        parcel = self._parcel
        while parcel is not None and parcel.untold:
            self._look_around()
            self._collected()
            self._post(parcel.message, [each for each in parcel.untold if self._reachable(each)])
            if self._clock() >= end:
                self._tell(
                    f"{len(parcel.untold)} clients have not confirmed the last word; run the app"
                    " with the same log again to repeat it"
                )
                return
            self._sleep(POLL)

    def _reachable(self, client: str) -> bool:
        home = self._homes.get(client)
        return home is not None and self._nodes[home].here and not self._nodes[home].muted

    def _look_around(self) -> None:
        """See which nodes are there, and ask those that have come whom they host."""
        now = self._clock()
        if now - self._looked < LOOK_AROUND:
            return
        self._looked = now
        there = set(self._grid.get_node_ids())
        for node in there:
            self._nodes.setdefault(node, _Node())
        for number, known in self._nodes.items():
            came = number in there and not known.here
            known.here = number in there
            known.settled &= not came
            if known.here and not known.settled and not known.muted:
                self._ask(WHO, number, {}, (), key=(0, 0), ttl=_SHORT)

    def _post(self, message: Assignment | Conclusion, clients: Iterable[str]) -> None:
        by_node: dict[int, list[str]] = {}
        for client in clients:
            by_node.setdefault(self._homes[client], []).append(client)
        for node, names in by_node.items():
            if not self._nodes[node].muted:
                self._post_to(node, message, names)

    def _post_to(self, node: int, message: Assignment | Conclusion, names: list[str]) -> None:
        said: dict[str, Any] = {"clients": names, "message": encode(message)}
        epoch, patience = message.header.epoch, self._patience
        if isinstance(message, Conclusion):
            self._ask(CONCLUDE, node, said, names, key=(epoch, 0), ttl=_SHORT)
        else:
            worth = patience.deadline + patience.grace + patience.resend
            self._ask(PHASE, node, said, names, key=(epoch, message.phase), ttl=worth)

    def _ask(
        self,
        kind: str,
        node: int,
        said: dict[str, Any],
        names: Sequence[str],
        *,
        key: tuple[int, int],
        ttl: float,
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
        message_type = f"train.{kind}" if kind == PHASE else f"query.{kind}"
        message = Message(packed(said), node, message_type, ttl=ttl)
        sent = _Sent(kind=kind, node=node, clients=tuple(names), until=now + ttl)
        for pushed in self._grid.push_messages([message]):
            if pushed:  # what cannot be sent is sent again later
                self._sent[pushed] = sent

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
            if said.get("strangers"):  # it hosts others than it did
                self._nodes[sent.node].settled = False
            match sent.kind:
                case "who":
                    self._settle(sent.node, said)
                case "conclude":
                    self._note_told(sent, said)
                case "phase":
                    return self._answers(sent, said)
        except InputError as error:
            self._strike(sent.node, str(error))
            return [None]
        return []

    def _strike(self, node: int, why: str) -> None:
        """Hold against a node what it has sent; too often, and it is not listened to any more."""
        self._tell(f"node {node}: {why}")
        self._nodes[node].strikes += 1
        if self._nodes[node].strikes == STRIKES:
            self._tell(f"node {node} is not listened to any more")

    def _settle(self, node: int, said: dict[str, Any]) -> None:
        """Take down whom a node hosts; a name that another node has is not given twice."""
        names: tuple[str, ...] = decode(tuple[str, ...], said.get("clients"), "clients")
        if len(names) > MOST_CLIENTS or len(set(names)) != len(names):
            raise InputError("clients", "are too many, or there twice")
        for name in names:
            check_name(name, "clients")
        freed = {name for name, home in self._homes.items() if home == node}.difference(names)
        for name in freed:
            del self._homes[name]
        for other in self._nodes.values():  # whoever wanted them is asked once more
            other.settled &= freed.isdisjoint(other.denied)
        known = self._nodes[node]
        known.denied = {name for name in names if self._homes.get(name, node) != node}
        for name in sorted(known.denied):
            self._tell(f'node {node} claims client "{name}", which another node has')
        self._homes |= dict.fromkeys((name for name in names if name not in known.denied), node)
        known.settled = True
        if self._parcel is not None:
            found = self._parcel.homeless.intersection(self._homes)
            self._parcel.homeless -= found
            self._post(self._parcel.message, sorted(found))

    def _note_told(self, sent: _Sent, said: dict[str, Any]) -> None:
        told: tuple[str, ...] = decode(tuple[str, ...], said.get("told"), "told")
        if self._parcel is not None:
            self._parcel.untold.difference_update(set(told).intersection(sent.clients))

    def _answers(self, sent: _Sent, said: dict[str, Any]) -> list[Received]:
        """Return the answers of a node's clients; None once if there is anything else."""
        replies = said.get("answers")
        if not isinstance(replies, list) or len(replies) > len(sent.clients):
            raise InputError("answers", "are missing, or more than were asked for")
        answers: list[Received] = []
        wrong: list[str] = []
        for each in replies:
            try:
                answer: Reply = decode(Reply, each, "answer")
            except InputError as error:
                wrong.append(str(error))
                continue
            if self._homes.get(answer.client) != sent.node:
                wrong.append(f'it speaks for client "{answer.client}", which is not its own')
                continue
            answers.append(_short(answer))
        if wrong:
            self._strike(sent.node, wrong[0])
            answers.append(None)
        return answers


def _short(answer: Reply) -> Reply:
    """Return an answer with no more text in it than a log should keep."""
    if isinstance(answer, Refusal):
        return replace(answer, detail=answer.detail[:LONGEST_DETAIL])
    return answer


def _why(reply: Message) -> str:
    reason = (reply.error.reason or "").strip().splitlines()
    return f"{reason[-1] if reason else 'no reason is given'} (code {reply.error.code})"
