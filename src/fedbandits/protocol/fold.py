"""The server as a fold: one table of what may happen when, and what each record changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedbandits.errors import ProtocolError
from fedbandits.protocol import records
from fedbandits.protocol.decisions import (
    best_known,
    ending,
    gathered,
    is_for_harm,
    judged,
    looks,
    reinstated,
)
from fedbandits.protocol.journal import Journal
from fedbandits.protocol.messages import Decision, Halt, Refusal, Refused
from fedbandits.protocol.promises import still_proven
from fedbandits.protocol.state import RunState, ServerState
from fedbandits.protocol.tally import Tally
from fedbandits.protocol.validation import FAULTS

_CUT = "PhaseOpened, cut short by the horizon"

_RUNNING = (ServerState.READY, ServerState.COLLECTING)

_COMES: dict[str, tuple[tuple[ServerState, ...], ServerState | None]] = {
    "PhaseOpened": ((ServerState.READY,), ServerState.COLLECTING),
    _CUT: ((ServerState.READY,), ServerState.ENDING),
    "UpdateAccepted": ((ServerState.COLLECTING,), None),
    "AnswerRefused": ((ServerState.COLLECTING,), None),
    "PhaseClosed": ((ServerState.COLLECTING,), ServerState.READY),
    "PhaseAbandoned": ((ServerState.COLLECTING,), ServerState.READY),
    "ArmWithdrawn": (_RUNNING, None),
    "ClientHalted": (_RUNNING, None),
    "RunEnded": ((*_RUNNING, ServerState.ENDING), ServerState.FINISHED),
}
"""When records may come, and where they lead: nowhere else if None. Others may always come.

What leads to READY leads to ENDING if no phase follows, and a withdrawal does if no arm is left.
"""


def stage_after(state: RunState, record: records.Record) -> ServerState:
    """Return where a record leads by the table; refuse one that may not come now."""
    cut = isinstance(record, records.PhaseOpened) and not record.complete
    event = _CUT if cut else type(record).__name__
    stages, to = _COMES.get(event, (ServerState, None))
    if state.stage not in stages:
        raise ProtocolError(f"{event} may not come while the server is {state.stage.value}")
    return to or state.stage


def apply(state: RunState, record: records.Record) -> RunState:
    """Return the state after one more record: the only way in which it ever changes.

    Raises
    ------
    ProtocolError
        If the record may not come now.
    """
    stage = stage_after(state, record)
    after = _changed(state, record)
    done = stage is ServerState.COLLECTING and not after.left.any()
    if done or (stage is ServerState.READY and ending(after) is not None):
        stage = ServerState.ENDING
    if after.stage is not stage:
        after = replace(after, stage=stage)
    guarantee = still_proven(record, state, after)
    return after if guarantee is state.guarantee else replace(after, guarantee=guarantee)


def _changed(state: RunState, record: records.Record) -> RunState:
    """Return the state after what a record says, still where it was."""
    match record:
        case records.PhaseOpened():
            return _opened(state, record)
        case records.UpdateAccepted(update=update):
            return state.with_report(update)
        case records.PhaseClosed(decision=decision):
            return _closed(state, decision)
        case records.PhaseAbandoned():
            after = _between_phases(state, gathered(state))
            return replace(after, abandoned=state.abandoned + 1)
        case records.ArmWithdrawn(arm=arm, reason=reason):
            return _withdrawn(state, arm, reason)
        case records.ServerStarted(epoch=epoch):
            return _taken_over(state, epoch)
        case records.RunEnded(decision=decision, words=words):
            # A last word that says nothing of any arm is not a decision.
            decided = state.decision is not None or decision.winner is not None
            return replace(
                state,
                last_word=decision,
                decision=decision if decided else None,
                stopped=words,
                reports=Journal(),
                head="",
            )
    return _clients_changed(state, record)


def _clients_changed(state: RunState, record: records.Record) -> RunState:
    """Return the state after a record about clients that changes no phase."""
    match record:
        case records.UpdateRejected(client=client, rejection=rejection) if rejection in FAULTS:
            outside = {client} if rejection is records.Rejection.RANGE else set()
            faults = state.faults.added(client, None)
            return replace(state, faults=faults, outside=state.outside | outside)
        case records.AnswerRefused(refusal=refusal):
            return replace(state, refusals=state.refusals.added(refusal_key(refusal), None))
        case records.RecallConfirmed(clients=clients):
            return replace(state, recalled=state.recalled.union(clients))
        case records.ClientHalted(client=client, arms=arms, reason=reason):
            others = {each: halt for each, halt in state.halts.items() if each != client}
            now = {client: Halt(arms=arms, reason=reason)} if arms else {}
            return replace(state, halts={**others, **now})
        case records.ClientsBound(node=node, clients=clients):
            return replace(state, homes={**state.homes, **dict.fromkeys(clients, node)})
        case records.ClaimRefused(node=node, clients=clients):
            return replace(state, claims=state.claims | {(client, node) for client in clients})
    return _signatures_changed(state, record)


def _signatures_changed(state: RunState, record: records.Record) -> RunState:
    """Return the state after a record about keys and signatures, which changes no decision."""
    match record:
        case records.KeyPinned(client=client, key=key):
            return replace(state, keys=state.keys.added(client, key))
        case records.HeadSigned(checksum=checksum):
            # The verdict keeps its fingerprint, whatever else is written and signed after it.
            kept = state.head if state.stage is ServerState.FINISHED else ""
            return replace(state, head=kept or checksum)
    return state


def refusal_key(refusal: Refusal) -> tuple[str, int, Refused]:
    """Return what makes a refusal the same as one before."""
    return refusal.client, refusal.phase, refusal.why


def _opened(state: RunState, record: records.PhaseOpened) -> RunState:
    clients = (*state.columns, *record.admitted)
    return replace(
        state,
        phase=record.assignment.phase,
        capped=record.capped,
        assignment=record.assignment,
        slots_played=state.slots_played + sum(record.assignment.pulls),
        columns={client: column for column, client in enumerate(clients)},
        counted=state.counted.admitted(len(record.admitted)),
    )


def _between_phases(state: RunState, counted: Tally) -> RunState:
    """Return the state with the open phase's updates counted, and arms back that were to return."""
    return replace(
        state,
        counted=counted,
        trend=state.trend.after(state.counted.seen, counted.seen),
        reports=Journal(),
        active=state.left,
        returning=np.zeros_like(state.returning),
    )


def _closed(state: RunState, decision: Decision) -> RunState:
    counted, active = gathered(state), np.array(decision.active)
    dropped = np.flatnonzero(state.active & ~active).tolist()
    beaten = state.beaten
    if dropped:
        beaten = {**beaten, **dict.fromkeys(dropped, judged(state))}
    behind = Tally.nothing(active.size) if state.behind is None else state.behind
    behind = behind.admitted(len(counted.bits) - len(behind.bits))
    return replace(
        _between_phases(state, counted),
        active=active,
        estimates=np.array(decision.estimates),
        widths=np.array(decision.widths),
        behind=behind.with_arms(state.active, counted),
        decided_as=looks(state),
        decided_on=state.active,
        beaten=beaten,
        decision=decision,
        abandoned=0,
    )


def _withdrawn(state: RunState, arm: int, reason: str) -> RunState:
    """Return the state without an arm, and with those back that only such arms have beaten.

    What is known already is without it, too: nobody stays on it.
    """
    other = np.arange(state.active.size) != arm
    assignment = state.assignment
    if assignment is not None and state.stage is ServerState.COLLECTING and assignment.pulls[arm]:
        assignment = replace(assignment, withdrawn=(*assignment.withdrawn, arm))
    out = replace(
        state,
        assignment=assignment,
        recalled=frozenset(),
        withdrawn={**state.withdrawn, arm: reason},
        active=state.active & other,
        returning=state.returning & other,
        beaten={k: shown for k, shown in state.beaten.items() if k != arm},
    )
    back = reinstated(out)
    ways = state.phases_over + 1
    if is_for_harm(state, arm, reason):
        # When it happens depends on what was observed, too.
        ways *= state.phases_over + 2
    after = replace(
        out,
        returning=out.returning | back,
        # Whether an arm comes back depends on what was observed: the share of those who stayed is
        # the smaller one, too, if nobody does.
        comebacks=out.comebacks * ways,
        beaten={k: shown for k, shown in out.beaten.items() if not back[k]},
    )
    if state.stage is ServerState.READY:
        after = _between_phases(after, after.counted)
    if after.decision is None:
        return after
    best = best_known(state.terms.rule, after.estimates, after.left, after.behind)
    decision = replace(after.decision, active=tuple(after.left.tolist()), best=best)
    return replace(after, decision=decision)


def _taken_over(state: RunState, epoch: int) -> RunState:
    """Return the state of a new incarnation; what it sends again has its header."""
    header = replace(state.header, epoch=epoch)
    sent = {name: getattr(state, name) for name in ("assignment", "decision", "last_word")}
    again = {name: replace(said, header=header) for name, said in sent.items() if said is not None}
    return replace(state, header=header, **again)
