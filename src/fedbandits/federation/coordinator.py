"""The loop of a live run: whom to ask, how long to wait, when to decide.

It joins a `Server` machine with whatever carries its messages. Nothing is sent that is not in the
server's log, so that after a crash the same loop goes on from the log.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from fedbandits.errors import InputError, ProtocolError, check_number
from fedbandits.protocol import (
    Assignment,
    Conclusion,
    Decision,
    Reason,
    Refusal,
    Refused,
    Rejection,
    Server,
    ServerState,
    Update,
    conclusion_of,
)

Reply: TypeAlias = Update | Refusal
"""What a client answers to an assignment."""

Received: TypeAlias = Reply | None
"""What comes in: a reply, or nothing that can be read, which the server writes down as such."""


class Transport(Protocol):
    """Carries messages to clients and back: in order or not, once, twice or never."""

    def connected(self) -> Sequence[str]:
        """Return the clients that can be reached now."""
        ...

    def send(self, message: Assignment | Conclusion, clients: Sequence[str]) -> None:
        """Send a message to clients; whether it arrives is another matter."""
        ...

    def receive(self, timeout: float) -> Sequence[Received]:
        """Return what has come in, after so many seconds at the latest."""
        ...

    def flush(self, timeout: float) -> None:
        """Wait until the last word has arrived where it can, so many seconds at most."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawal:
    """Somebody wants an arm out.

    Parameters
    ----------
    arm : int
        Which.
    reason : str
        Why, in words.
    """

    arm: int
    reason: str


Requests: TypeAlias = Callable[[], Sequence[Withdrawal]]
"""What people want done to a run; asked again and again, and a thing done twice is done once."""


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
        Seconds after which an assignment is sent again to who has not answered. Clients answer a
        repeated assignment with what they have sent before.
    abandoned : int
        After so many abandoned phases in a row the run stops.
    clients : int
        So many clients must be connected before the first phase.
    pulls : float
        Seconds that a client's own code may take for a phase. Then the client gives up, and says
        so, instead of hanging; all clients of one node together give up before the deadline.
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
        for name in ("abandoned", "clients"):
            value = getattr(self, name)
            check_number(value, name, whole=True)
            if value < 1:
                raise InputError(name, f"{value} is below 1; give one such as 3")


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
    left : int
        Arms that are left.
    seconds : float
        Until the deadline of the open phase.
    bits : int
        Of all means that were sent.
    news : str
        What has just happened, in words.
    """

    phase: int
    clients: int
    reported: int
    connected: int
    left: int
    seconds: float
    bits: int
    news: str


Announce: TypeAlias = Callable[[Bulletin], None]
"""Told where a run is."""


_TICK = 1e-6

# What people ask for is looked at this often.
_LONGEST_WAIT = 5.0

# So long, at least, the last word is given to arrive.
_LAST_WORD = 60.0


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
        What people want withdrawn.
    """

    def __init__(
        self,
        server: Server,
        transport: Transport,
        *,
        clock: Clock,
        seed: int = 0,
        patience: Patience | None = None,
        watch: Announce = lambda _: None,
        requests: Requests = tuple,
    ) -> None:
        self.server = server
        self.transport = transport
        self.clock = clock
        self.seed = seed
        self.patience = Patience() if patience is None else patience
        self.watch = watch
        self.requests = requests
        self.connected = 0
        self._opened: float | None = None
        self._sent = -math.inf
        # Those who may not answer any more, since their privacy budget is spent.
        self._spent: set[str] = set()
        self._waiting = ""

    def run(self) -> Decision | None:
        """Go on until the run is over; return its last decision."""
        while self.step():
            pass
        return self.server.decision

    def step(self) -> bool:
        """Do the next thing: open a phase, wait for answers, or decide; return whether to go on."""
        if not self.server.finished:
            self._withdraw()
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

    def _withdraw(self) -> None:
        """Take out the arms that people want out."""
        server = self.server
        for wanted in self.requests():
            arm = server.arms[wanted.arm]
            try:
                server.withdraw(wanted.arm, wanted.reason)
            except ProtocolError as error:
                self._tell(f"{arm} cannot be withdrawn: {error}")
            else:
                self._tell(f"{arm} is withdrawn: {wanted.reason}")

    def _open(self) -> None:
        server = self.server
        if server.run_state.abandoned >= self.patience.abandoned:
            server.stop(Reason.QUORUM)
            return
        connected = self._reachable()
        inside = set(server.clients)
        outside = [client for client in connected if client not in inside and self._counts(client)]
        if inside and not server.wanted():
            outside = []
        # Where all clients are to play from the first phase on, nobody is let in later.
        all_of_them = server.wanted() if server.wanted() == server.rule.population else 1
        fewest = 1 if inside else max(self.patience.clients, all_of_them)
        there = len(inside.intersection(connected)) + len(outside)
        if there < fewest:
            news = f"waiting for clients: {there} of {fewest} are connected"
            if news != self._waiting:
                self._waiting = news
                self._tell(news)
            self._take(self.transport.receive(min(self.patience.resend, _LONGEST_WAIT)))
            return
        self._waiting = ""
        server.open(self._chosen(outside, server.wanted()))
        self._opened, self._sent = self.clock(), -math.inf
        if server.state is ServerState.COLLECTING:
            self._ask()
        self._tell(f"phase {server.phase} is open")

    def _counts(self, client: str) -> bool:
        """Return whether a client has a weight, where clients have weights."""
        weights = self.server.terms.weights
        return weights is None or client in weights

    def _reachable(self) -> list[str]:
        reachable = sorted(set(self.transport.connected()))
        self.connected = len(reachable)
        return reachable

    def _chosen(self, outside: Sequence[str], wanted: int) -> list[str]:
        """Return new clients at random; the choice is in the log, and the same if made again."""
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
        if self._opened is None:  # taken up from the log: clients have the whole time again
            self._opened = now
        if now - self._sent >= patience.resend - _TICK:
            self._ask()
        in_time, in_grace = self._time_left(self._opened)
        if self._waited_for() and in_grace > 0:
            wait = min(in_time or in_grace, self._sent + patience.resend - now)
            missing = len(server.missing)
            self._take(self.transport.receive(min(max(wait, 0.0), _LONGEST_WAIT)))
            if server.state is not ServerState.COLLECTING:
                return
            if len(server.missing) < missing:
                self._tell(f"{self._reported()} of {len(server.clients)} clients have reported")
            in_time, in_grace = self._time_left(self._opened)
        waited_for = self._waited_for()
        if waited_for and in_time > 0:
            return
        if server.has_quorum:
            decision = server.close()
            self._opened = None
            self._tell(f"phase {decision.phase} is decided: {decision.reason.value}")
        elif not waited_for or in_grace == 0.0:
            self._abandon()

    def _waited_for(self) -> bool:
        """Return whether somebody may still report."""
        return not self._spent.issuperset(self.server.missing)

    def _time_left(self, opened: float) -> tuple[float, float]:
        """Return the seconds until the deadline and until the end of the grace, or 0."""
        deadline = opened + self.patience.deadline
        now = self.clock()
        ends = (deadline - now, deadline + self.patience.grace - now)
        # What is less than a clock can tell is no time.
        first, second = (end if end > _TICK else 0.0 for end in ends)
        return first, second

    def _take(self, answers: Sequence[Received]) -> None:
        """Hand in what has come; of many that are alike, one is told with their number."""
        news: Counter[str] = Counter()
        # Who is still to report is looked up once, since thousands may say that they cannot yet.
        missing = set(self.server.missing) if answers else set()
        for answer in answers:
            if isinstance(answer, Refusal):
                said = self._refused(answer, missing)
            else:
                said = self._received(answer)
            if said is not None:
                news[said] += 1
        for said, times in news.items():
            self._tell(said if times == 1 else f"{said} (and {times - 1} more)")

    def _received(self, answer: Update | None) -> str | None:
        rejection = self.server.receive(answer)
        if rejection is None:
            return None
        if answer is None or rejection is Rejection.FORM:  # whose it is cannot be told
            return f"a message does not count: {rejection.value}"
        return f"an update of {answer.client} does not count: {rejection.value}"

    def _refused(self, refusal: Refusal, missing: set[str]) -> str | None:
        """Take a client's word that it does not answer: the others go on."""
        server = self.server
        known = refusal.header == server.header and refusal.client in missing
        if not known or server.assignment is None or refusal.phase != server.assignment.phase:
            return None
        if refusal.why is Refused.PENDING:
            return f"a client does not answer yet: {refusal.why.value}"
        server.note_refusal(refusal)
        if refusal.why is Refused.BUDGET:
            self._spent.add(refusal.client)
            self._end_if_spent(refusal)
        return f"{refusal.client} does not answer: {refusal.why.value} ({refusal.detail})"

    def _end_if_spent(self, refusal: Refusal) -> None:
        """Stop when those whose budget is not spent are too few for any quorum."""
        server = self.server
        asked = [client for client in server.clients if client not in server.quarantined]
        able = sum(client not in self._spent for client in asked)
        enough = (
            able >= server.terms.quorum.of(len(asked)) and not server.rule.estimator.needs_shares
        )
        if server.privacy is not None and not enough:
            server.refuse(refusal)

    def _abandon(self) -> None:
        server = self.server
        server.abandon()
        self._opened = None
        self._tell(f"phase {server.phase} is abandoned: too few clients have reported")

    def _conclude(self) -> None:
        self._tell("the last word is sent to all clients")
        self.transport.send(conclusion_of(self.server), self.server.clients)
        self.transport.flush(max(self.patience.resend, _LAST_WORD))
        self._tell("it is over")

    def _reported(self) -> int:
        """Return how many clients have reported in the open phase."""
        server = self.server
        if server.state is not ServerState.COLLECTING:
            return 0
        return len(server.clients) - len(server.missing) - len(server.quarantined)

    def _tell(self, news: str) -> None:
        server = self.server
        opened = self.clock() if self._opened is None else self._opened
        self.watch(
            Bulletin(
                phase=server.phase,
                clients=len(server.clients),
                reported=self._reported(),
                connected=self.connected,
                left=server.left,
                seconds=max(0.0, opened + self.patience.deadline - self.clock()),
                bits=sum(server.uplink_bits.values()),
                news=news,
            )
        )
