"""The loop of a live run: whom to ask, how long to wait, when to decide.

It joins a `Server` machine with whatever carries its messages. Nothing is sent that is not in the
server's log, so that after a crash the same loop continues from the log.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import Protocol, TypeAlias

import numpy as np

from fedbandits.errors import InputError, ProtocolError, check_count, check_number
from fedbandits.federation.status import short_name, shortened
from fedbandits.protocol import Refused, Server, ServerState, conclusion_of, messages, records

Reply: TypeAlias = messages.Update | messages.Refusal | messages.Receipt
"""What a client answers to an assignment or a recall."""

Sent: TypeAlias = messages.Assignment | messages.Recall | messages.Conclusion
"""What a server sends."""

Received: TypeAlias = Reply | None
"""What comes in: a reply, or None for what cannot be read, which the server records."""


class Transport(Protocol):
    """Carries messages to clients and back, in any order, once, twice or never."""

    def connected(self) -> Sequence[str]:
        """Return the clients that can be reached now."""

    def send(self, message: Sent, clients: Sequence[str]) -> None:
        """Send a message to clients; it may not arrive."""

    def receive(self, timeout: float) -> Sequence[Received]:
        """Return what has come in, at the latest when the time is over."""

    def flush(self, timeout: float) -> None:
        """Wait until the last word has arrived, or the time is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Somebody wants the run to end.

    Parameters
    ----------
    reason : str
        Why, in words.
    """

    reason: str


Wanted: TypeAlias = records.ArmWithdrawn | records.ClientsBound | records.KeyPinned | Stop
"""What people may ask of a run in progress: the record that they want in its log, or its end."""

Requests: TypeAlias = Callable[[], Sequence[Wanted]]
"""Returns what people ask for; called again and again, and repeated requests have no effect."""


Clock: TypeAlias = Callable[[], float]
"""Seconds since any moment, never going back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait for clients.

    Parameters
    ----------
    deadline : float
        Seconds that clients have for a phase. Then it is decided by those who have reported, if
        they are a quorum.
    grace : float
        Seconds more to wait for a quorum; then the phase is abandoned.
    resend : float
        Seconds after which an assignment is sent again to clients without an answer. They answer a
        repeated assignment with what they sent before.
    abandoned : int
        The number of abandoned phases in a row after which the run stops.
    clients : int
        How many clients must be connected before the first phase.
    pulls : float
        Seconds that a client's own code may take for a phase. Then the client gives up, and says
        so, instead of hanging; the others of its node continue. All of them give up before the
        deadline.
    """

    deadline: float = 3600.0
    grace: float = 3600.0
    resend: float = 60.0
    abandoned: int = 3
    clients: int = 1
    pulls: float = 600.0

    def __post_init__(self) -> None:
        for name in ("deadline", "grace", "resend", "pulls"):
            value = getattr(self, name)
            check_number(value, name)
            if not 0.0 <= value < math.inf or (value == 0.0 and name != "grace"):
                raise InputError(name, f"{value!r} is not a positive number of seconds")
            if value > _CENTURY:
                raise InputError(name, f"{value:g} seconds are more than a hundred years")
        check_count(self.abandoned, "abandoned")
        check_count(self.clients, "clients")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulletin:
    """Where a run is.

    Parameters
    ----------
    phase : int
        The last one that was opened.
    clients, reported : int
        Clients that are in, and those that have reported in the open phase.
    connected : int
        Clients that can be reached.
    away : tuple of str
        Clients that are in and cannot be reached; no more than `MOST_AWAY` of them.
    left : int
        Arms that are left.
    open : bool
        Whether a phase is.
    seconds, grace : float
        Until the deadline of the open phase, and until it is abandoned if there is no quorum.
    bits : int
        Of all means that were sent.
    waiting : str
        What is being waited for, in words.
    news : str
        What has just happened, in words.
    """

    phase: int
    clients: int
    reported: int
    connected: int
    away: tuple[str, ...]
    left: int
    open: bool
    seconds: float
    grace: float
    bits: int
    waiting: str
    news: str


Announce: TypeAlias = Callable[[Bulletin], None]
"""Told where a run is."""


MOST_AWAY = 1000
"""The most clients that cannot be reached and are named."""

_TICK = 1e-6

# No clock is asked for a later time.
_CENTURY = 100 * 366 * 86_400.0

# A sign of life is given this often while there is no news.
_BEAT = 1.0

LOOK = 1.0
"""Seconds after which the server looks again at what people ask for, at the latest."""

# The most seconds until a recall is sent again to a client that has not confirmed it.
_RECALL_AGAIN = 30.0

# The fewest seconds that the last word has to arrive.
_LAST_WORD = 60.0


@dataclass(eq=False)
class Coordinator:
    """Drives a server through its phases.

    Parameters
    ----------
    server : Server
        New, or taken up from its log.
    transport : Transport
        What carries the messages.
    clock : callable
        The time.
    seed : int
        Of the choice of clients.
    patience : Patience
        How long to wait.
    watch : callable, optional
        Told what happens.
    requests : callable, optional
        What people want done.
    beat : callable, optional
        Told where the run is at least every few seconds, whether or not anything has happened.
    """

    server: Server
    transport: Transport
    _: KW_ONLY
    clock: Clock
    seed: int = 0
    patience: Patience = field(default_factory=Patience)
    watch: Announce = lambda _: None
    requests: Requests = tuple
    beat: Announce | None = None

    def __post_init__(self) -> None:
        self.connected: frozenset[str] = frozenset()
        self._beaten = -math.inf
        self._news = ""
        self._opened: float | None = None
        self._sent = -math.inf
        # What was withdrawn when a client was last told, and when that was.
        self._recalls: dict[str, tuple[messages.Recall, float]] = {}
        # Clients that may no longer answer, because their privacy budget is spent.
        self._spent: set[str] = set()
        # Clients that have already played the open phase, for a server with a newer log.
        self._ahead: set[str] = set()
        self._waiting = ""

    def run(self) -> messages.Decision | None:
        """Run until the end; return the last decision."""
        while self.step():
            pass
        return self.server.decision

    def step(self) -> bool:
        """Do the next thing: open a phase, wait or decide; return whether there is more to do."""
        self._beat()
        if not self.server.finished:
            self._do_requests()
        if not self.server.finished:
            self._recall()
        match self.server.state:
            case ServerState.READY:
                self._open()
            case ServerState.COLLECTING:
                self._collect()
            case ServerState.ENDING:
                self.server.end()
            case ServerState.FINISHED:
                self._conclude()
                return False
        return True

    def _do_requests(self) -> None:
        """Do what people ask for: withdraw arms, move clients, end the run."""
        # An arm that is withdrawn together with a stop of the run is withdrawn first.
        for wanted in sorted(self.requests(), key=lambda each: isinstance(each, Stop)):
            match wanted:
                case Stop(reason=reason):
                    self.server.stop(words=reason)
                    self._tell(f"the run is stopped: {reason}")
                case records.ArmWithdrawn(arm=number, reason=reason):
                    arm = self.server.arms[number]
                    with self._refusal_told(f"{arm} cannot be withdrawn"):
                        self.server.withdraw(number, reason)
                        self._tell(f"{arm} is withdrawn: {reason}")
                case records.ClientsBound(clients=clients, node=node, reason=reason):
                    with self._refusal_told(f"clients cannot be moved to node {node}"):
                        self.server.rebind(clients, node, reason)
                        self._tell(f"moved to node {node}: {shortened(clients, most=1)}")
                case records.KeyPinned(client=client, key=key, reason=reason):
                    with self._refusal_told(f"{client} cannot have another key"):
                        self.server.change_key(client, key, reason)
                        self._tell(f"{short_name(client)} has another key: {reason}")
            if self.server.finished:
                return

    @contextmanager
    def _refusal_told(self, what: str) -> Iterator[None]:
        """Tell it if the server refuses what is done within the block."""
        try:
            yield
        except ProtocolError as error:
            self._tell(f"{what}: {error}")

    def _recall(self) -> bool:
        """Tell what is withdrawn to all who can be reached and have not confirmed it.

        This includes clients that were not admitted yet: their service may already give options.
        Return whether there are any.
        """
        server, now = self.server, self.clock()
        if not server.withdrawn:
            return False
        recall, known = server.recall, server.run_state.recalled
        unconfirmed = [client for client in self._reachable() if client not in known]
        again = min(self.patience.resend, _RECALL_AGAIN)
        # A client that comes back is told at once.
        last = {client: self._recalls[client] for client in unconfirmed if client in self._recalls}
        due = [
            client
            for client in unconfirmed
            if client not in last or last[client][0] != recall or now - last[client][1] >= again
        ]
        self._recalls = last | dict.fromkeys(due, (recall, now))
        if due:
            self.transport.send(recall, due)
        return bool(unconfirmed)

    def _open(self) -> None:
        server = self.server
        if server.run_state.abandoned >= self.patience.abandoned:
            server.stop(messages.Reason.QUORUM)
            return
        connected = self._reachable()
        inside = set(server.clients)
        outside = [client for client in connected if client not in inside]
        if server.terms.weights is not None:  # a client without one does not count
            outside = [client for client in outside if client in server.terms.weights]
        if inside and not server.wanted():
            outside = []
        # If all clients are to play from the first phase on, none is admitted later.
        all_of_them = server.wanted() if server.wanted() == server.rule.population else 1
        least = server.terms.quorum.least
        fewest = 1 if inside else max(self.patience.clients, all_of_them, least)
        there = len(inside.intersection(connected)) + len(outside)
        if there < fewest:
            waiting = f"clients: {there} of {fewest} are connected"
            if there < least and least > 1:
                waiting += f" (fewer than {least} decide nothing: quorum.least)"
            if waiting != self._waiting:
                self._waiting = waiting
                self._tell(f"waiting for {waiting}")
            self._take(self.transport.receive(min(self.patience.resend, LOOK)))
            return
        self._waiting = ""
        server.open(self._chosen(outside, server.wanted()))
        self._opened, self._sent = self.clock(), -math.inf
        self._ahead = set()
        if server.state is ServerState.COLLECTING:
            self._ask()
        self._tell(f"phase {server.phase} is open")

    def _reachable(self) -> list[str]:
        reachable = sorted(set(self.transport.connected()))
        self.connected = frozenset(reachable)
        return reachable

    def _chosen(self, outside: Sequence[str], wanted: int) -> list[str]:
        """Return new clients at random. The choice is in the log; made again, it is the same."""
        # The seed of a phase does not depend on what happened before it.
        rng = np.random.default_rng([self.seed, self.server.phase + 1])
        order = rng.permutation(len(outside))[:wanted]
        return [outside[place] for place in order.tolist()]

    def _ask(self) -> None:
        """Send the open assignment to all who have not answered it."""
        assignment = self.server.assignment
        if assignment is not None and self.server.missing:
            self.transport.send(assignment, self.server.missing)
        self._sent = self.clock()

    def _collect(self) -> None:
        server, patience = self.server, self.patience
        now = self.clock()
        if self._opened is None:  # resumed from the log: clients have the whole time again
            self._opened = now
        if now - self._sent >= patience.resend - _TICK:
            self._ask()
        in_time, in_grace = self._time_left(self._opened)
        if self._waited_for() and in_grace > 0:
            wait = min(in_time or in_grace, self._sent + patience.resend - now)
            missing = len(server.missing)
            self._take(self.transport.receive(min(max(wait, 0.0), LOOK)))
            if server.state is not ServerState.COLLECTING:
                return
            if len(server.missing) < missing:
                self._tell(f"{self._reported()} of {len(server.clients)} clients have reported")
            in_time, in_grace = self._time_left(self._opened)
        waited_for = self._waited_for()
        if waited_for and in_time > 0:
            return
        known = set(server.withdrawn)
        if server.has_quorum:
            decision = server.close()
            news = f"phase {decision.phase} is decided: {decision.reason.value}"
        elif not waited_for or in_grace == 0.0:
            server.abandon()
            news = f"phase {server.phase} is abandoned: too few clients have reported"
        else:
            return
        self._opened = None
        for arm, reason in server.withdrawn.items():
            if arm not in known:
                self._tell(f"{server.arms[arm]} is withdrawn: {reason}")
        self._tell(news if server.left else "no option is left")

    def _waited_for(self) -> bool:
        """Return whether a client may still report; without a quorum, a halt may yet be lifted."""
        silent, state = self._spent | self._ahead, self.server.run_state
        if state.has_quorum and state.assignment is not None:
            pulls, out = state.assignment.pulls, state.assignment.withdrawn
            asked = {arm for arm, n in enumerate(pulls) if n}.difference(out)
            silent |= {each for each, halt in state.halts.items() if asked <= set(halt.arms)}
        return not silent.issuperset(self.server.missing)

    def _time_left(self, opened: float) -> tuple[float, float]:
        """Return the seconds until the deadline and until the end of the grace, or 0."""
        left = opened + self.patience.deadline - self.clock()
        # Less than a clock can measure is no time.
        first, second = (end if end > _TICK else 0.0 for end in (left, left + self.patience.grace))
        return first, second

    def _take(self, answers: Sequence[Received]) -> None:
        """Hand in what has come; of many equal answers, one is told with their number."""
        news: Counter[str] = Counter()
        self._confirm([answer for answer in answers if isinstance(answer, messages.Receipt)])
        # Looked up once, because thousands of clients may answer that they cannot report yet.
        missing = set(self.server.missing) if answers else set()
        for answer in answers:
            self._beat()
            said = None
            if isinstance(answer, messages.Refusal):
                said = self._refused(answer, missing)
            elif not isinstance(answer, messages.Receipt):
                said = self._received(answer)
            if said is not None:
                news[said] += 1
        for said, times in news.items():
            self._tell(said if times == 1 else f"{said} (and {times - 1} more)")

    def _confirm(self, receipts: Sequence[messages.Receipt]) -> None:
        """Record which clients have confirmed that they no longer give the withdrawn options."""
        for receipt in receipts:
            self._note_halt(receipt)
        if self.server.confirm(receipts):
            done = len(self.server.run_state.recalled)
            self._tell(f"{done} clients have confirmed what is withdrawn")

    def _note_halt(self, said: messages.Update | messages.Refusal | messages.Receipt) -> None:
        halt = self.server.note_halt(said)
        if halt is not None:
            arms = ", ".join(self.server.arms[arm] for arm in halt.arms)
            what = f"has halted {arms}: {halt.reason}" if arms else "has lifted what was halted"
            self._tell(f"{said.client} {what}")

    def _received(self, answer: messages.Update | None) -> str | None:
        rejection = self.server.receive(answer)
        if rejection is None:
            return None
        if answer is None or rejection is records.Rejection.FORM:  # nobody knows whose it is
            return f"a message does not count: {rejection.value}"
        return f"an update of {answer.client} does not count: {rejection.value}"

    def _refused(self, refusal: messages.Refusal, missing: set[str]) -> str | None:
        """Take a client's word that it does not answer: the others continue."""
        server = self.server
        known = refusal.header == server.header and refusal.client in missing
        # Another answer of the same batch may have ended the run.
        if server.state is not ServerState.COLLECTING or not known or refusal.phase != server.phase:
            return None
        self._note_halt(refusal)
        if refusal.why is Refused.PAUSED:
            self._sent = -math.inf
        if refusal.why in (Refused.PAUSED, Refused.HALTED):
            return None
        if refusal.why is Refused.PENDING:
            return f"a client does not answer yet: {refusal.why.value}"
        server.note_refusal(refusal)
        if refusal.why is Refused.BUDGET:
            self._spent.add(refusal.client)
            if server.terms.privacy is not None and not self._can_decide_without(self._spent):
                server.refuse(refusal)
        if refusal.why is Refused.PLAYED:
            self._ahead.add(refusal.client)
            if not self._can_decide_without(self._ahead):
                raise InputError(
                    "log",
                    "is an old copy: clients have played more phases since then"
                    f" ({refusal.client}: {refusal.detail}); restore the newest copy, or begin a"
                    " new run with another log",
                )
        return f"{refusal.client} does not answer: {refusal.why.value} ({refusal.detail})"

    def _can_decide_without(self, clients: set[str]) -> bool:
        """Return whether the clients that are not among these are a quorum."""
        server = self.server
        able = set(server.clients).difference(server.quarantined, clients)
        enough = server.run_state.decides_with(len(able))
        return enough and not server.rule.estimator.needs_shares

    def _conclude(self) -> None:
        """Send the last word to all clients, including connected ones that were never admitted."""
        self._tell("the last word is sent to all clients")
        self._recall()
        everybody = dict.fromkeys((*self.server.clients, *self._reachable()))
        self.transport.send(conclusion_of(self.server), list(everybody))
        wait = max(self.patience.resend, _LAST_WORD)
        end = self.clock() + wait
        while self._recall() and self.clock() < end:
            self._take(self.transport.receive(LOOK))
        self.transport.flush(wait)
        self._tell("it is over")

    def _reported(self) -> int:
        """Return how many clients have reported in the open phase."""
        server = self.server
        if server.state is not ServerState.COLLECTING:
            return 0
        return len(server.clients) - len(server.missing) - len(server.quarantined)

    def _tell(self, news: str) -> None:
        self._news = news
        self.watch(self._bulletin())

    def _beat(self) -> None:
        """Give a sign of life, at most once per `_BEAT`."""
        now = self.clock()
        if self.beat is not None and now - self._beaten >= _BEAT:
            self._beaten = now
            self._reachable()
            self.beat(self._bulletin())

    def _bulletin(self) -> Bulletin:
        server = self.server
        in_time, in_grace = self._time_left(self.clock() if self._opened is None else self._opened)
        away = [client for client in server.clients if client not in self.connected]
        return Bulletin(
            phase=server.phase,
            clients=len(server.clients),
            reported=self._reported(),
            connected=len(self.connected),
            away=tuple(away[:MOST_AWAY]),
            left=server.left,
            open=server.state is ServerState.COLLECTING,
            seconds=in_time,
            grace=in_grace,
            bits=sum(server.uplink_bits.values()),
            waiting=self._waited_for_now(in_time),
            news=self._news,
        )

    def _waited_for_now(self, in_time: float) -> str:
        """Return what is being waited for, in words."""
        if self.server.finished:
            return "clients to confirm the last word"
        if self.server.state is not ServerState.COLLECTING:
            return self._waiting
        reports = f"{len(self.server.missing)} of {len(self.server.clients)} clients to report"
        return reports if in_time > 0 else f"a quorum, after the deadline: {reports}"
