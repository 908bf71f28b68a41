"""The server machine: phases, updates and decisions, without any input or output.

The caller owns the loop: it asks how many clients are wanted, opens the phase, hands in the updates
and closes the phase. The code that moves the bytes is a driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import TypeAlias, Unpack

from fedbandits.errors import ProtocolError
from fedbandits.protocol import decisions, messages, records
from fedbandits.protocol.fold import apply, refusal_key, stage_after
from fedbandits.protocol.log import Log, MemoryLog
from fedbandits.protocol.state import RunState, ServerState
from fedbandits.protocol.terms import TermsGiven, terms_of
from fedbandits.protocol.validation import FAULTS, IsSigned, is_well_formed, rejection_of
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.phased import PhasedRule

ServerSnapshot: TypeAlias = Mapping[str, object]
"""What a server has counted and decided, as plain values that compare bit for bit."""


class Server:
    """One game, decided by a `PhasedRule`.

    Every change of state is a record that is first appended to the log and then applied by
    `fedbandits.protocol.fold.apply`, so that `replay` of a log gives the same state, bit for bit.

    Parameters
    ----------
    rule : PhasedRule
        What decides.
    arms : sequence of str, optional
        Names of the arms; their indices by default.
    run : str
        Name of the run, in every header.
    epoch : int
        Counted up whenever a server takes a run over.
    log : Log, optional
        Where the records go; a `MemoryLog` by default. What it holds already has happened: the
        server goes on from there.
    release : Release, optional
        What clients are asked to send; by default what the rule needs: sums of squares if it
        estimates σ.
    weights : mapping from str to float, optional
        How much each client counts, by its name, in any unit. The answer is then for these clients,
        weighted; the rule takes all of them at once. Equal ones are the same as none.
    privacy : Privacy, optional
        How clients protect their means, by which widths are widened. Clients hold it, too.
    quorum : Quorum, optional
        How many clients must report before a phase is decided; all by default. A client that does
        not is left out of that phase, and counts with what it has reported before.
    limits : (float, float), optional
        The range that contains every outcome: a mean outside it, or outside the radius's own, is
        not counted.
    outside : {"refuse", "clip"}
        What clients do with an outcome outside it. If they clip, the answer is about clipped
        outcomes, and says so.
    covariate : Covariate, optional
        What clients adjust outcomes by: ``limits`` are then those of outcomes before that.
    quarantine_after : int, optional
        After so many invalid updates a client is ignored; by default every update is judged by
        itself.
    draws : callable, optional
        What a randomised rule draws, by phase; by default of the seed 0. A server that takes the
        run over is given the same.
    guardrails : sequence of Guardrail, optional
        Second outcomes with a limit. When a phase ends, arms that are beyond a limit are withdrawn.

    Examples
    --------
    >>> from fedbandits.rules.algorithms import Fed1Ucb
    >>> from fedbandits.rules.beliefs import Beliefs
    >>> rule = Fed1Ucb(pulls="10", clients=1).rule(
    ...     Beliefs(n_arms=2, horizon=1000, noise=0.01, spread=0.0)
    ... )
    >>> server = Server(rule, arms=["red", "blue"])
    >>> server.wanted()
    1
    >>> assignment = server.open(["alice"])
    >>> assignment.pulls
    (10, 10)
    >>> server.receive(
    ...     messages.Update(
    ...         header=server.header, phase=1, client="alice", counts=(10, 10), means=(0.2, 0.9)
    ...     )
    ... )
    >>> server.close().winner
    1
    """

    def __init__(
        self, rule: PhasedRule, *, log: Log | None = None, **terms: Unpack[TermsGiven]
    ) -> None:
        self.terms = terms_of(rule, **terms)
        self.log: Log = MemoryLog() if log is None else log
        self.is_signed: IsSigned | None = None
        """What checks signatures; None if updates need none."""
        self.pins_first_keys = True
        """Whether the first key that a client shows is its key."""
        self.run_state = reduce(apply, self.log, RunState.begun(self.terms))

    @property
    def rule(self) -> PhasedRule:
        """What decides, with weights and protection taken into account."""
        return self.terms.rule

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the arms."""
        return self.terms.arms

    @property
    def header(self) -> messages.Header:
        """Of the messages that it sends now."""
        return self.run_state.header

    @property
    def state(self) -> ServerState:
        """Where it is."""
        return self.run_state.stage

    @property
    def phase(self) -> int:
        """The last phase that was opened."""
        return self.run_state.phase

    @property
    def capped(self) -> bool:
        """Whether the cap on clients has ever cut admissions short."""
        return self.run_state.capped

    @property
    def assignment(self) -> messages.Assignment | None:
        """What clients play in it."""
        return self.run_state.assignment

    @property
    def decision(self) -> messages.Decision | None:
        """The last decision, and the last word once the run is over; None if nothing is decided."""
        return self.run_state.decision

    @property
    def withdrawn(self) -> Mapping[int, str]:
        """The arms that somebody, or a guardrail, has taken out, and why."""
        return self.run_state.withdrawn

    @property
    def clients(self) -> tuple[str, ...]:
        """The admitted clients, in their order of admission."""
        return tuple(self.run_state.columns)

    @property
    def left(self) -> int:
        """How many arms are left."""
        return int(self.run_state.left.sum())

    @property
    def heard(self) -> int:
        """How many clients are behind the last decision."""
        behind = self.run_state.behind
        return 0 if behind is None else int(behind.pulled.any(axis=0).sum())

    @property
    def quarantined(self) -> tuple[str, ...]:
        """The clients that are ignored."""
        return self.run_state.quarantined

    @property
    def missing(self) -> tuple[str, ...]:
        """The clients that are asked to report and have not, in their order of admission."""
        return self.run_state.missing

    @property
    def has_quorum(self) -> bool:
        """Whether enough clients have reported for the open phase to be decided."""
        return self.run_state.has_quorum

    @property
    def uplink_bits(self) -> dict[str, int]:
        """Bits of the means that each client has sent: 64 for one that is sent as it is."""
        return dict(zip(self.clients, self.run_state.counted.bits.tolist(), strict=True))

    @property
    def finished(self) -> bool:
        """Whether nothing more is decided."""
        return self.state in (ServerState.ENDING, ServerState.FINISHED)

    def wanted(self) -> int:
        """Return how many new clients the next phase asks for."""
        return decisions.admission(self.run_state)[0]

    def open(self, admitted: Sequence[str]) -> messages.Assignment:
        """Open the next phase with these new clients and return what everybody plays.

        When the phase does not fit into what is left of the horizon the server is finished: the
        assignment, cut to fit, is played out and nobody reports.
        """
        self._expect(ServerState.READY, "open a phase")
        state = self.run_state
        known = [client for client in admitted if client in state.columns]
        if known or len(set(admitted)) != len(admitted):
            raise ProtocolError(f"a client was admitted twice: {(known or list(admitted))[0]}")
        wanted, capped = decisions.admission(state)
        if len(admitted) > wanted:
            raise ProtocolError(f"{len(admitted)} new clients, but the phase wants {wanted}")
        if not state.columns and not admitted:
            raise ProtocolError("the first phase needs at least one client")
        self.terms.check_admitted(admitted, wanted)
        assignment, complete = decisions.planned(state, len(admitted))
        self._commit(
            records.PhaseOpened(
                admitted=tuple(admitted), assignment=assignment, complete=complete, capped=capped
            )
        )
        self.end()
        return assignment

    def receive(self, update: object) -> records.Rejection | None:
        """Take what a client has sent; return None if it counts, else why not. Never raises."""
        client, phase, rejection = "", 0, records.Rejection.FORM
        if is_well_formed(update):
            found = self._rejection_of(update)
            # Of one that comes late or twice nobody has checked the signature, or how old it is.
            if self.is_signed is None or found is None or found in FAULTS:
                self.note_halt(update)
            if found is None:
                self._commit(records.UpdateAccepted(update))
                return None
            client, phase, rejection = update.client, update.phase, found
        self._commit(records.UpdateRejected(client=client, phase=phase, rejection=rejection))
        return rejection

    def _rejection_of(self, update: messages.Update) -> records.Rejection | None:
        return rejection_of(self.run_state, update, self.is_signed)

    def note_refusal(self, refusal: messages.Refusal) -> None:
        """Write down why a client does not answer; what it has said before is not repeated."""
        if refusal.header != self.header or refusal.client not in self.run_state.columns:
            raise ProtocolError(f"a refusal from elsewhere: client {refusal.client}")
        if refusal.phase != self.phase:
            raise ProtocolError(f"a refusal of phase {refusal.phase} in phase {self.phase}")
        if refusal_key(refusal) not in self.run_state.refusals:
            self._commit(records.AnswerRefused(refusal))

    def note_halt(
        self, said: messages.Update | messages.Refusal | messages.Receipt
    ) -> messages.Halt | None:
        """Write down what is halted at a client, if that has changed; return it if it has.

        Every message of a client says what is halted there when it is sent.
        """
        known = self.run_state.halts.get(said.client)
        if said.header != self.header or said.client not in self.run_state.columns:
            return None
        nothing = messages.Halt(arms=(), reason="")
        halt = said.halt if said.halt is not None and said.halt.arms else nothing
        if halt == (known or nothing) or self.finished:
            return None
        if not set(halt.arms) <= set(range(len(self.arms))):
            return None
        self._commit(records.ClientHalted(client=said.client, arms=halt.arms, reason=halt.reason))
        return halt

    @property
    def recall(self) -> messages.Recall:
        """What all clients are told while arms are withdrawn."""
        return messages.Recall(header=self.header, arms=tuple(self.withdrawn))

    def confirm(self, receipts: Iterable[messages.Receipt]) -> tuple[str, ...]:
        """Write down which clients have taken the last recall; return those that are new."""
        recall, known = self.recall, self.run_state.recalled
        news = {
            said.client: None
            for said in receipts
            if (said.header, said.arms) == (recall.header, recall.arms) and said.client not in known
        }
        if not news:
            return ()
        self._commit(records.RecallConfirmed(tuple(news)))
        return tuple(news)

    def refuse(self, refusal: messages.Refusal) -> messages.Decision | None:
        """Take a client's refusal: if its budget is spent the run stops with what is known."""
        if refusal.why is not messages.Refused.BUDGET:
            raise ProtocolError(refusal.words)
        self.note_refusal(refusal)
        return self.stop(messages.Reason.BUDGET)

    def take_over(self, epoch: int) -> None:
        """Begin a new epoch: messages of an earlier server are no longer accepted."""
        if epoch <= self.header.epoch:
            raise ProtocolError(f"epoch {epoch} after epoch {self.header.epoch}")
        self._commit(records.ServerStarted(epoch=epoch))
        self.end()

    def withdraw(self, arm: int, reason: str) -> None:
        """Take an arm out, for harm or any reason but its estimates; the rest goes on.

        Guardrails do it by themselves when a phase ends.

        `recall` is to be sent to all clients then. An open phase goes on without the arm, and
        nothing of it is counted. Arms that were dropped only because of arms that are withdrawn are
        in the game again from the next phase on: so one that was decided against may be withdrawn,
        too, and does not come back.
        """
        left = self.run_state.left
        if not 0 <= arm < left.size or arm in self.withdrawn or self.finished:
            raise ProtocolError(f"arm {arm} is no longer in the game")
        if left[arm] and left.sum() == 1:
            raise ProtocolError("the last arm that is left cannot be withdrawn; stop the run")
        if self.terms.guardrails and reason.startswith(decisions.HARM):
            raise ProtocolError(
                f'a reason that begins with "{decisions.HARM}" is for guardrails; use other words'
            )
        self._commit(records.ArmWithdrawn(arm=arm, reason=reason))
        self.end()

    def settle(self, node: str, clients: Sequence[str]) -> list[str]:
        """Write down which clients a node claims; return those that it answers for.

        A client that nobody answers for is bound to the node for the rest of the run. One that
        another node answers for is not given away; the log says that it was claimed.

        Parameters
        ----------
        node : str
            Fingerprint of its key.
        clients : sequence of str
            The clients that it claims.
        """
        homes, claims = self.run_state.homes, self.run_state.claims
        new = tuple(client for client in clients if client not in homes)
        others = [client for client in clients if homes.get(client, node) != node]
        refused = tuple(client for client in others if (client, node) not in claims)
        if new:
            self._commit(records.ClientsBound(node=node, clients=new))
        if refused:
            self._commit(records.ClaimRefused(node=node, clients=refused))
        return [client for client in clients if homes.get(client, node) == node]

    def rebind(self, clients: Sequence[str], node: str, reason: str) -> None:
        """Let another node answer for clients that have one."""
        strangers = [client for client in clients if client not in self.run_state.homes]
        if strangers:
            raise ProtocolError(f"no node answers for {', '.join(strangers[:5])} yet")
        moved = tuple(client for client in clients if self.run_state.homes[client] != node)
        if moved:
            self._commit(records.ClientsBound(node=node, clients=moved, reason=reason))

    def pin(self, keys: Mapping[str, bytes], *, beforehand: bool = False) -> dict[str, bytes]:
        """Write down the keys of clients that have none yet; return those that are not theirs.

        The first key that a client shows is its key for the rest of the run, unless all keys were
        known beforehand. If updates need no signatures, nothing is written.

        Parameters
        ----------
        keys : mapping from str to bytes
            Public keys, by client.
        beforehand : bool
            Whether these are the keys that were known beforehand.
        """
        if self.is_signed is None:
            return {}
        for client, key in keys.items():
            if client not in self.run_state.keys and (beforehand or self.pins_first_keys):
                self._commit(records.KeyPinned(client=client, key=key))
        known = self.run_state.keys
        return {client: key for client, key in keys.items() if known.get(client) != key}

    def change_key(self, client: str, key: bytes, reason: str) -> None:
        """Let another key sign for a client that has one."""
        known = self.run_state.keys.get(client)
        if known is None:
            raise ProtocolError(f"{client} has shown no key yet")
        if known != key:
            self._commit(records.KeyPinned(client=client, key=key, reason=reason))

    def abandon(self) -> None:
        """End a phase below its quorum: what came is counted, and nothing is decided."""
        self._expect(ServerState.COLLECTING, "abandon a phase")
        if self.has_quorum:
            raise ProtocolError("enough clients have reported; close the phase")
        if not self._withdraw_harmful():
            self.end()
            return
        if self.has_quorum:  # nobody else had to report what is left
            self.close()
            return
        reported, missing = len(self.run_state.reports), len(self.missing)
        self._commit(
            records.PhaseAbandoned(phase=self.phase, reported=reported, expected=reported + missing)
        )
        self.end()

    def close(self) -> messages.Decision:
        """Decide the phase. A quorum of clients must have reported, all of them by default.

        Arms that a guardrail finds harmful are withdrawn first. If none is left, the run is over,
        and its last word is returned.
        """
        self._expect(ServerState.COLLECTING, "close a phase")
        if not self.has_quorum:
            missing = len(self.missing)
            asked = len(self.run_state.reports) + missing
            raise ProtocolError(f"{missing} of {asked} clients have not reported")
        if not self._withdraw_harmful():
            return self._ended(messages.Reason.HARM)
        decision = decisions.decided(self.run_state)
        self._commit(records.PhaseClosed(decision))
        self.end()
        return decision

    def _withdraw_harmful(self) -> bool:
        """Withdraw the arms that are beyond a guardrail; return whether any is left."""
        for arm, reason in decisions.harms(self.run_state).items():
            self._commit(records.ArmWithdrawn(arm=arm, reason=reason))
        return bool(self.run_state.left.any())

    def end(self) -> None:
        """Write the last word if no phase follows; a crash may have come in between."""
        if self.state is ServerState.ENDING:
            self.stop(decisions.ending(self.run_state) or messages.Reason.HORIZON)

    def stop(
        self, reason: messages.Reason = messages.Reason.STOPPED, words: str = ""
    ) -> messages.Decision | None:
        """End the run, and an open phase with it; return what is known.

        Parameters
        ----------
        reason : Reason
            Why.
        words : str
            The same in the words of the person who stopped it.
        """
        if not self._withdraw_harmful():
            reason = messages.Reason.HARM
        self._ended(reason, words)
        return self.decision

    def _ended(self, reason: messages.Reason, words: str = "") -> messages.Decision:
        last = decisions.last_word(self.run_state, reason)
        self._commit(records.RunEnded(last, words))
        return last

    @classmethod
    def replay(
        cls, rule: PhasedRule, log: Iterable[records.Record], **terms: Unpack[TermsGiven]
    ) -> Server:
        """Return the server whose log holds these records; the rest as when it was made."""
        return cls(rule, log=MemoryLog(log), **terms)

    def interval_widths(self, level: float) -> FloatArray:
        """Return half-widths of intervals around all estimates, after the last closed phase."""
        if self.decision is None:
            raise ProtocolError("nothing is known before the first phase is closed")
        return decisions.interval_widths(self.run_state, level)

    def snapshot(self) -> ServerSnapshot:
        """Return what was counted and decided as values that can be compared."""
        state = self.run_state
        alike = (
            "stage",
            "phase",
            "slots_played",
            "capped",
            "columns",
            "withdrawn",
            "homes",
            "keys",
        )
        others = ("recalled", "claims", "quarantined")
        arrays = ("active", "returning", "estimates", "widths", "counted")
        return {
            **{name: getattr(state, name) for name in (*alike, *others)},
            **{name: getattr(state, name).tobytes() for name in arrays},
            "keys": dict(state.keys),
            "reported": {client for client, _ in state.reports},
            "behind": b"" if state.behind is None else state.behind.tobytes(),
            "beaten": {arm: shown.phase for arm, shown in state.beaten.items()},
            "halts": {client: halt.arms for client, halt in state.halts.items()},
        }

    def follow(self, record: records.Record) -> None:
        """Apply a record that is in a log already, for readers of the log."""
        self.run_state = apply(self.run_state, record)

    def _expect(self, state: ServerState, action: str) -> None:
        if self.state is not state:
            raise ProtocolError(f"cannot {action} while {self.state.value}")

    def _commit(self, record: records.Record) -> None:
        """Log a record, then apply it."""
        stage_after(self.run_state, record)
        self.log.append(record)
        self.run_state = apply(self.run_state, record)
