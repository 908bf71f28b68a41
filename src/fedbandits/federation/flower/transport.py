"""Carries messages between a server and the clients on Flower's nodes.

A node may host many clients: one message goes to a node, with the names of those it is for. Which
clients a node has it says itself, when it comes. From then on they are bound to its key, in the
server's log: nobody else speaks for them unless the server's operator moves them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid

from fedbandits.errors import InputError
from fedbandits.federation.coordinator import Patience, Received, Reply, Sent
from fedbandits.federation.flower import keys as node_keys
from fedbandits.federation.flower.clocks import LIMITS, WORTH_SAYING, clock_words, off_by
from fedbandits.federation.flower.wire import CONCLUDE, PHASE, RECALL, WHO, packed, unpacked
from fedbandits.federation.halts import LONGEST_DETAIL, as_told
from fedbandits.federation.signing import KEY_BYTES, fingerprint
from fedbandits.federation.state_files import check_name
from fedbandits.federation.status import MOST_NAMES, node_words, printable, short_name, shortened
from fedbandits.protocol import Assignment, Conclusion, Recall, Refusal, Refused, Server
from fedbandits.protocol.codec import decode, encode

POLL = 0.25
"""Seconds between looks at what has come in."""

LOOK_AROUND = 2.0
"""Seconds between looks at which nodes are there."""

MOST_CLIENTS = 100_000
"""The most clients that a node may claim, at once or in all."""

STRIKES = 3
"""After this many replies that nobody sends by mistake, a node is ignored."""

# Seconds after which a reply is overdue, and within which it follows the repeated message. A node
# that holds replies back shows both, and a message sent with an extra one is not overdue.
_OVERDUE = 20.0
_RELEASED = 10.0

# Seconds without an answer after which a node is shown to those who watch.
_LONG = 60.0

# Seconds for which short questions are worth answering: a node may be busy.
_SHORT = 600.0

# The fewest seconds until a message is taken for lost. Flower loses none unless a node is killed,
# and every message costs a node a process: haste makes it slower.
_LOST_AFTER = 30.0

_LONGEST_NEWS = 1000


@dataclass(slots=True)
class _Node:
    """What is known of a node.

    Parameters
    ----------
    key : str
        Fingerprint of its registered key, by which it is the same after any restart.
    settled : bool
        Whether it has said whom it hosts since it last connected.
    here : bool
        Whether it is connected.
    denied : set of str
        Clients that it claims, and another node has.
    strikes : int
        How many of its replies nobody could have sent by mistake.
    last : int
        Number of the last message that it was sent.
    released, eased : int
        Of its last replies, how many were overdue and came as soon as the message was sent again,
        and how many came in time that were sent with an extra message.
    """

    key: str
    settled: bool = False
    here: bool = False
    denied: set[str] = field(default_factory=set)
    strikes: int = 0
    last: int = 0
    released: int = 0
    eased: int = 0

    @property
    def muted(self) -> bool:
        return self.strikes >= STRIKES

    @property
    def behind(self) -> bool:
        """Whether it is one message behind: overdue, but in time with an extra message."""
        return self.released >= 2 and self.eased >= 1

    @property
    def is_nudged(self) -> bool:
        """Whether it is sent an extra message: to see whether that helps, or because it does."""
        return self.behind or (self.released >= 1 and self.eased == 0)

    def trust(self) -> None:
        """Forget the signs that it is behind."""
        self.released = self.eased = 0

    def trouble(self, unanswered: float) -> str | None:
        """Return what is wrong with it, in words, given the seconds it has not answered."""
        if self.muted:
            return "is ignored: it has sent what nobody sends by mistake"
        if self.behind:
            return _ONE_BEHIND
        if self.denied:
            return f"claims clients that another node has: {shortened(sorted(self.denied))}"
        if self.here and unanswered >= _LONG:
            return f"has not answered for over {_LONG:.0f} s: its clients are at work, or it hangs"
        return None


_ONE_BEHIND = (
    "gives each reply only after it is sent another message: its SuperNode is one message behind."
    " It is sent an extra message each time; restart its SuperNode to mend it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """A message on its way: when it left, and until when it is worth an answer.

    Both times are of a clock that never goes back; `time_of_day` is when it left by the calendar.
    """

    kind: str
    node: int
    clients: tuple[str, ...]
    number: int
    nudged: bool
    at: float
    until: float
    time_of_day: float


@dataclass(slots=True)
class _Resending:
    """Which message was sent to a node last, how often, and when it may be sent again."""

    key: tuple[int, int]
    times: int = 0
    at: float = 0.0
    again: float = 0.0


@dataclass(eq=False)
class FlowerTransport:
    """A `fedbandits.federation.coordinator.Transport` over a Flower grid.

    Parameters
    ----------
    grid : Grid
        Flower's.
    server : Server
        Whose log says which node answers for whom.
    patience : Patience
        How long messages are worth answering.
    tell : callable
        Told, in words, what goes wrong on the way.
    beat : callable
        Called again and again while something is waited for: a sign of life.
    clock, sleep : callable
        The time.
    time_of_day : callable
        The time that nodes have, too, if their clocks are right.
    """

    grid: Grid
    server: Server
    patience: Patience
    _: KW_ONLY
    tell: Callable[[str], None] = lambda _: None
    beat: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    time_of_day: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self._bound = self.server.run_state.homes
        self._nodes: dict[int, _Node] = {}
        self._homes: dict[str, int] = {}
        self._sent: dict[str, _Sent] = {}
        self._resending: dict[tuple[int, str], _Resending] = {}
        # The last message other than a recall, the clients whose node is not known yet, and, if it
        # is the last word, those that have not confirmed it.
        self._last: Assignment | Conclusion | None = None
        self._without_node: set[str] = set()
        self._unconfirmed: set[str] = set()
        self._looked = -LOOK_AROUND
        self._number = 0

    def _tell(self, news: str) -> None:
        """Say what goes wrong; words of nodes are cut short, and made safe for a terminal."""
        self.tell(short_name(printable(news), _LONGEST_NEWS))

    def nodes(self) -> list[dict[str, Any]]:
        """Return what is known of each node, for those who watch."""
        hosted, now = self._by_node(self._homes), self.clock()
        asked: dict[int, float] = {}
        for sent in self._sent.values():
            asked[sent.node] = min(sent.at, asked.get(sent.node, sent.at))
        return [
            {
                "node": str(number),
                "key": node.key,
                "connected": node.here,
                "clients": len(hosted.get(number, ())),
                "hosts": hosted.get(number, [])[:MOST_NAMES],
                "trouble": node.trouble(now - asked.get(number, now)),
            }
            for number, node in self._nodes.items()
        ]

    def connected(self) -> list[str]:
        """Return the clients of all nodes that are there and have said whom they host."""
        self._look_around()
        return [client for client in self._homes if self._reachable(client)]

    def send(self, message: Sent, clients: Sequence[str]) -> None:
        """Send a message to the nodes of these clients, to some as soon as their node is known.

        A recall goes to the clients that can be reached: it is repeated until all confirm it.
        """
        if isinstance(message, Recall):
            self._post(message, [client for client in clients if self._reachable(client)])
            return
        self._last = message
        self._without_node = set(clients).difference(self._homes)
        self._unconfirmed = set(clients) if isinstance(message, Conclusion) else set()
        self._post(message, [client for client in clients if client in self._homes])

    def receive(self, timeout: float) -> list[Received]:
        """Return the answers that have come in, at the latest when the time is over.

        That more clients are connected is a reason to return, too.
        """
        end, known = self.clock() + timeout, len(self._homes)
        while True:
            self._look_around()
            answers = self._collected()
            left = end - self.clock()
            if answers or len(self._homes) > known or left <= 0:
                return answers
            self.beat()
            self.sleep(min(POLL, left))

    def flush(self, timeout: float) -> None:
        """Wait until every client has confirmed the last word, or the time is over."""
        end = self.clock() + timeout
        while self._last is not None and self._unconfirmed:
            self._look_around()
            self._collected()
            self._post(self._last, [each for each in self._unconfirmed if self._reachable(each)])
            if self.clock() >= end:
                missing = f"{len(self._unconfirmed)} clients have not confirmed the last word"
                self._tell(f"{missing}; resume the run to repeat it")
                return
            self.beat()
            self.sleep(POLL)

    def _reachable(self, client: str) -> bool:
        home = self._homes.get(client)
        return home is not None and self._nodes[home].here and not self._nodes[home].muted

    def _look_around(self) -> None:
        """See which nodes are connected, and ask new ones which clients they host."""
        now = self.clock()
        if now - self._looked < LOOK_AROUND:
            return
        self._looked = now
        self._obey_moves()
        there = set[int]()
        for node in self.grid.get_nodes():
            there.add(node.node_id)
            if node.node_id not in self._nodes:
                self._nodes[node.node_id] = _Node(node_keys.fingerprint(node.public_key))
        for number, known in self._nodes.items():
            came = number in there and not known.here
            known.here = number in there
            known.settled &= not came
            if came:  # what it was told before may be lost
                known.trust()
                self._resending.pop((number, RECALL), None)
            if known.here and not known.settled and not known.muted:
                self._ask(WHO, number, {}, key=(0, 0))

    def _post(self, message: Sent, clients: Iterable[str]) -> None:
        """Send a message to the nodes of these clients, one to each node."""
        match message:
            case Conclusion():
                kind, number = CONCLUDE, 0
            case Recall(arms=arms):
                kind, number = RECALL, len(arms)
            case Assignment(phase=phase):
                kind, number = PHASE, phase
        for node, names in self._by_node(clients).items():
            if not self._nodes[node].muted:
                said = {"clients": names, "message": encode(message)}
                self._ask(kind, node, said, key=(message.header.epoch, number))

    def _by_node(self, clients: Iterable[str]) -> dict[int, list[str]]:
        """Return clients by the node that hosts them."""
        found: dict[int, list[str]] = {}
        for client in clients:
            found.setdefault(self._homes[client], []).append(client)
        return found

    def _obey_moves(self) -> None:
        """Let go of clients that were moved to another node, and ask that node for them."""
        bound = self.server.run_state.homes
        if bound is self._bound:
            return
        self._bound = bound
        self._homes = {
            name: node for name, node in self._homes.items() if bound[name] == self._nodes[node].key
        }
        for known in self._nodes.values():
            known.settled &= all(bound[name] != known.key for name in known.denied)

    def _ask(self, kind: str, node: int, said: dict[str, Any], *, key: tuple[int, int]) -> None:
        """Send a message, unless it was sent recently and may still be answered."""
        now = self.clock()
        last = self._resending.get((node, kind))
        if last is None or last.key != key:
            last = self._resending[node, kind] = _Resending(key)
        # A node takes one message at a time: more of them would queue up.
        if now < last.again:
            return
        wait = max(self.patience.resend, _LOST_AFTER)
        first = last.times == 0
        last.at, last.again = now, now + wait * 2**last.times
        last.times += 1
        nudged = kind != WHO and self._nodes[node].is_nudged
        # A repeated message is answered from memory: how soon says nothing.
        self._push(kind, node, said, nudged=nudged and first)
        if nudged:
            # A SuperNode of Flower 1.41 looks for a reply to send only after it has taken a
            # message. If one reply too many is left in it, it is one message late from then on.
            self._push(WHO, node, {}, nudged=False)

    def _push(self, kind: str, node: int, said: dict[str, Any], *, nudged: bool) -> None:
        now, patience = self.clock(), self.patience
        message_type, ttl = f"query.{kind}", _SHORT
        if kind == PHASE:
            message_type = f"train.{kind}"
            ttl = patience.deadline + patience.grace + patience.resend
        message = Message(packed(said), node, message_type, ttl=ttl)
        self._number += 1
        self._nodes[node].last = self._number
        sent = _Sent(
            kind=kind,
            node=node,
            clients=tuple(said.get("clients", ())),
            number=self._number,
            nudged=nudged,
            at=now,
            until=now + ttl,
            time_of_day=self.time_of_day(),
        )
        self.beat()
        for pushed in self.grid.push_messages([message]):
            if pushed:  # a message that cannot be sent is repeated later
                self._sent[pushed] = sent

    def _collected(self) -> list[Received]:
        """Return the answers among what has come in, and take note of the rest."""
        if not self._sent:
            return []
        answers: list[Received] = []
        for reply in self.grid.pull_messages(list(self._sent)):
            sent = self._sent.pop(reply.metadata.reply_to_message_id, None)
            if sent is not None:
                self._note_answered(sent)
                if not reply.has_error():  # an error may come from Flower, not from the node
                    self._note_order(sent)
                answers += self._opened(sent, reply)
        now = self.clock()
        self._sent = {number: sent for number, sent in self._sent.items() if sent.until > now}
        return answers

    def _note_answered(self, sent: _Sent) -> None:
        """Let a node that has answered everything be asked again after the usual time."""
        busy = any((on.node, on.kind) == (sent.node, sent.kind) for on in self._sent.values())
        if not busy:
            last = self._resending[sent.node, sent.kind]
            last.times, last.again = 0, last.at + self.patience.resend

    def _note_order(self, sent: _Sent) -> None:
        """Notice a node that gives every reply one message late."""
        node, now = self._nodes[sent.node], self.clock()
        again = self._resending[sent.node, sent.kind].at
        slow = sent.nudged and now - sent.at > _OVERDUE
        if sent.number == node.last or slow:  # nothing was needed, or it did not help
            node.trust()
        elif sent.nudged and node.released:
            node.eased += 1
        elif again - sent.at >= _OVERDUE and now - again <= _RELEASED:
            known = node.behind
            node.released += 1
            if node.behind and not known:
                self._tell(f"{self._named(sent.node)} {_ONE_BEHIND}")

    def _opened(self, sent: _Sent, reply: Message) -> list[Received]:
        if reply.has_error():
            self._tell(f"{self._named(sent.node)} did not answer: {_why(reply)}")
            return []
        try:
            said = unpacked(reply)
            if said.get("strangers"):  # the clients that it hosts have changed
                self._nodes[sent.node].settled = False
            match sent.kind:
                case "who":
                    self._settle(sent.node, said)
                    self._compare_clocks(sent, said)
                case "conclude":
                    told: tuple[str, ...] = decode(tuple[str, ...], said.get("told"), "told")
                    self._unconfirmed.difference_update(set(told).intersection(sent.clients))
                case "phase" | "recall":
                    return self._answers(sent, said)
        except InputError as error:
            self._strike(sent.node, str(error))
            return [None]
        return []

    def _strike(self, node: int, why: str) -> None:
        """Count a reply against a node; after `STRIKES` of them the node is ignored."""
        self._tell(f"{self._named(node)}: {why}")
        self._nodes[node].strikes += 1
        if self._nodes[node].strikes == STRIKES:
            self._tell(f"{self._named(node)} is ignored from now on")

    def _named(self, node: int) -> str:
        """Return a node as people know it: by its clients, and its key."""
        key = self._nodes[node].key
        return node_words(key, (name for name, home in self._bound.items() if home == key))

    def _settle(self, node: int, said: dict[str, Any]) -> None:
        """Note which clients a node hosts; it does not get one that is bound to another node."""
        names: tuple[str, ...] = decode(tuple[str, ...], said.get("clients"), "clients")
        if len(names) > MOST_CLIENTS or len(set(names)) != len(names):
            raise InputError("clients", "are too many, or there twice")
        for name in names:
            check_name(name, "clients")
        known = self._nodes[node]
        bound = {name for name, home in self.server.run_state.homes.items() if home == known.key}
        if len(bound.union(names)) > MOST_CLIENTS:
            raise InputError("clients", "are others every time, and too many")
        self._homes = {name: home for name, home in self._homes.items() if home != node}
        self._obey_moves()
        own = self.server.settle(known.key, names)
        self._bound = self.server.run_state.homes
        known.denied = set(names).difference(own)
        for name in sorted(known.denied):
            self._tell(
                f'{self._named(node)} claims client "{name}", which {self._bound[name]} answers'
                " for; to move it: fedbandits rebind"
            )
        self._pin(node, own, decode(dict[str, bytes], said.get("keys", []), "keys"))
        self._homes |= dict.fromkeys(own, node)
        known.settled = True
        if self._last is not None:
            found = self._without_node.intersection(self._homes)
            self._without_node -= found
            self._post(self._last, sorted(found))

    def _pin(self, node: int, clients: Iterable[str], keys: dict[str, bytes]) -> None:
        """Note the keys that a node's clients sign with; say so if they are not theirs."""
        if any(len(key) != KEY_BYTES for key in keys.values()):
            raise InputError("keys", "are not of the right length")
        shown = {client: keys[client] for client in clients if client in keys}
        for client, key in self.server.pin(shown).items():
            self._tell(
                f'{self._named(node)} shows {fingerprint(key)} as the key of client "{client}",'
                " which is not its key in this run: its updates do not count. If it is right:"
                " fedbandits rebind --key"
            )

    def _compare_clocks(self, sent: _Sent, said: dict[str, Any]) -> None:
        """Say so if a node's clock is off; if it is too far off, Flower refuses what it signs."""
        there = said.get("time")
        if type(there) is not float:
            return
        ahead = off_by(there, there, sent.time_of_day, self.time_of_day())
        if abs(ahead) >= WORTH_SAYING:
            off = f"is {clock_words(ahead)} this server's; {LIMITS}"
            self._tell(f"the clock of {self._named(sent.node)} {off}")

    def _answers(self, sent: _Sent, said: dict[str, Any]) -> list[Received]:
        """Return the answers of a node's clients, and one None if anything else came."""
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
            if isinstance(answer, Refusal) and answer.why is Refused.PAUSED:
                self._resending[sent.node, sent.kind].again = 0.0  # it continues when asked again
            answers.append(_short(answer))
        if wrong:
            self._strike(sent.node, wrong[0])
            answers.append(None)
        return answers


def _short(answer: Reply) -> Reply:
    """Return an answer with its texts cut to what a log should keep."""
    if answer.halt is not None:
        answer = replace(answer, halt=as_told(answer.halt))
    if isinstance(answer, Refusal):
        return replace(answer, detail=printable(answer.detail[:LONGEST_DETAIL]))
    return answer


def _why(reply: Message) -> str:
    reason = (reply.error.reason or "").strip().splitlines()
    return f"{reason[-1] if reason else 'no reason is given'} (code {reply.error.code})"
