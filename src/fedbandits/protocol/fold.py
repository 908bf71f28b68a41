"""The server as a fold: one table of what may happen when, and what each record changes."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

import numpy as np

from fedbandits.errors import ProtocolError
from fedbandits.protocol.decisions import ending, gathered, judged, reinstated
from fedbandits.protocol.journal import Journal
from fedbandits.protocol.log import (
    AnswerRefused,
    ArmWithdrawn,
    PhaseAbandoned,
    PhaseClosed,
    PhaseOpened,
    Record,
    RunEnded,
    ServerStarted,
    UpdateAccepted,
    UpdateRejected,
)
from fedbandits.protocol.messages import Decision, Refusal, Refused
from fedbandits.protocol.state import RunState, ServerState
from fedbandits.protocol.tally import Tally
from fedbandits.protocol.validation import FAULTS


class _Event(Enum):
    OPENED = "a phase is opened"
    PLAYED_OUT = "a phase is opened that the horizon cuts short"
    ACCEPTED = "an update is accepted"
    REJECTED = "an update is rejected"
    REFUSED = "a client refuses to answer"
    CLOSED = "a phase is closed"
    ABANDONED = "a phase ends below its quorum"
    WITHDRAWN = "an arm is withdrawn"
    STARTED = "a server takes the run over"
    ENDED = "the run ends"


_TRANSITIONS: dict[tuple[ServerState, _Event], ServerState] = {
    (ServerState.READY, _Event.OPENED): ServerState.COLLECTING,
    (ServerState.READY, _Event.PLAYED_OUT): ServerState.ENDING,
    (ServerState.READY, _Event.REJECTED): ServerState.READY,
    (ServerState.READY, _Event.WITHDRAWN): ServerState.READY,
    (ServerState.READY, _Event.STARTED): ServerState.READY,
    (ServerState.READY, _Event.ENDED): ServerState.FINISHED,
    (ServerState.COLLECTING, _Event.ACCEPTED): ServerState.COLLECTING,
    (ServerState.COLLECTING, _Event.REJECTED): ServerState.COLLECTING,
    (ServerState.COLLECTING, _Event.REFUSED): ServerState.COLLECTING,
    (ServerState.COLLECTING, _Event.WITHDRAWN): ServerState.COLLECTING,
    (ServerState.COLLECTING, _Event.STARTED): ServerState.COLLECTING,
    (ServerState.COLLECTING, _Event.CLOSED): ServerState.READY,
    (ServerState.COLLECTING, _Event.ABANDONED): ServerState.READY,
    (ServerState.COLLECTING, _Event.ENDED): ServerState.FINISHED,
    (ServerState.ENDING, _Event.REJECTED): ServerState.ENDING,
    (ServerState.ENDING, _Event.STARTED): ServerState.ENDING,
    (ServerState.ENDING, _Event.ENDED): ServerState.FINISHED,
    (ServerState.FINISHED, _Event.REJECTED): ServerState.FINISHED,
    (ServerState.FINISHED, _Event.STARTED): ServerState.FINISHED,
}

_EVENTS: dict[type[Record], _Event] = {
    UpdateAccepted: _Event.ACCEPTED,
    UpdateRejected: _Event.REJECTED,
    AnswerRefused: _Event.REFUSED,
    PhaseClosed: _Event.CLOSED,
    PhaseAbandoned: _Event.ABANDONED,
    ArmWithdrawn: _Event.WITHDRAWN,
    ServerStarted: _Event.STARTED,
    RunEnded: _Event.ENDED,
}


def stage_after(state: RunState, record: Record) -> ServerState:
    """Return where a record leads by the table; refuse one that may not come now."""
    if isinstance(record, PhaseOpened):
        event = _Event.OPENED if record.complete else _Event.PLAYED_OUT
    else:
        event = _EVENTS[type(record)]
    step = (state.stage, event)
    if step not in _TRANSITIONS:
        raise ProtocolError(f"not while {state.stage.value}: {event.value}")
    return _TRANSITIONS[step]


def apply(state: RunState, record: Record) -> RunState:
    """Return the state after one more record: the only way in which it ever changes.

    Raises
    ------
    ProtocolError
        If the record may not come now.
    """
    stage = stage_after(state, record)
    after = _changed(state, record)
    if stage is ServerState.READY and ending(after) is not None:
        stage = ServerState.ENDING
    return after if after.stage is stage else replace(after, stage=stage)


def _changed(state: RunState, record: Record) -> RunState:
    """Return the state after what a record says, still where it was."""
    after = state
    match record:
        case PhaseOpened():
            after = _opened(state, record)
        case UpdateAccepted(update=update):
            after = state.with_report(update)
        case UpdateRejected(client=client, rejection=rejection) if rejection in FAULTS:
            after = replace(state, faults=state.faults.added(client, None))
        case AnswerRefused(refusal=refusal):
            after = replace(state, refusals=state.refusals.added(refusal_key(refusal), None))
        case PhaseClosed(decision=decision):
            after = _closed(state, decision)
        case PhaseAbandoned():
            after = _between_phases(state, gathered(state))
            after = replace(after, abandoned=state.abandoned + 1)
        case ArmWithdrawn(arm=arm, reason=reason):
            after = _withdrawn(state, arm, reason)
        case ServerStarted(epoch=epoch):
            after = _taken_over(state, epoch)
        case RunEnded(decision=decision):
            # A last word that says nothing of any arm is not a decision.
            decided = state.decision is not None or decision.winner is not None
            after = replace(
                state,
                last_word=decision,
                decision=decision if decided else None,
                reports=Journal(),
            )
    return after


def refusal_key(refusal: Refusal) -> tuple[str, int, Refused]:
    """Return what makes a refusal the same as one before."""
    return refusal.client, refusal.phase, refusal.why


def _opened(state: RunState, record: PhaseOpened) -> RunState:
    columns = dict(state.columns)
    for client in record.admitted:
        columns[client] = len(columns)
    return replace(
        state,
        phase=record.assignment.phase,
        capped=record.capped,
        assignment=record.assignment,
        slots_played=state.slots_played + sum(record.assignment.pulls),
        columns=columns,
        counted=state.counted.admitted(len(record.admitted)),
    )


def _between_phases(state: RunState, counted: Tally) -> RunState:
    """Return the state with the open phase's updates counted, and arms back that were to return."""
    return replace(
        state,
        counted=counted,
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
        beaten=beaten,
        decision=decision,
        abandoned=0,
    )


def _withdrawn(state: RunState, arm: int, reason: str) -> RunState:
    """Return the state without an arm, and with those back that only such arms have beaten.

    What is known already is without it, too: nobody stays on it.
    """
    other = np.arange(state.active.size) != arm
    out = replace(
        state,
        withdrawn={**state.withdrawn, arm: reason},
        active=state.active & other,
        returning=state.returning & other,
    )
    back = reinstated(out)
    after = replace(
        out,
        returning=out.returning | back,
        beaten={k: shown for k, shown in out.beaten.items() if not back[k]},
    )
    if state.stage is ServerState.READY:
        after = _between_phases(after, after.counted)
    if after.decision is None:
        return after
    best = int(state.terms.rule.best(after.estimates, after.left))
    decision = replace(after.decision, active=tuple(after.left.tolist()), best=best)
    return replace(after, decision=decision)


def _taken_over(state: RunState, epoch: int) -> RunState:
    """Return the state of a new incarnation; what it sends again has its header."""
    header = replace(state.header, epoch=epoch)
    assignment, decision, last = state.assignment, state.decision, state.last_word
    return replace(
        state,
        header=header,
        assignment=None if assignment is None else replace(assignment, header=header),
        decision=None if decision is None else replace(decision, header=header),
        last_word=None if last is None else replace(last, header=header),
    )
