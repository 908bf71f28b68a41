"""The server as a fold: one table of what may happen when, and what each record changes."""

from __future__ import annotations

from dataclasses import replace

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
    Rejection,
    RunEnded,
    ServerStarted,
    UpdateAccepted,
    UpdateRejected,
)
from fedbandits.protocol.messages import Decision, Refusal, Refused
from fedbandits.protocol.promises import still_proven
from fedbandits.protocol.state import RunState, ServerState
from fedbandits.protocol.tally import Tally
from fedbandits.protocol.validation import FAULTS

_CUT = "PhaseOpened, cut short by the horizon"

_TRANSITIONS: dict[ServerState, dict[str, ServerState]] = {
    ServerState.READY: {
        "PhaseOpened": ServerState.COLLECTING,
        _CUT: ServerState.ENDING,
        "UpdateRejected": ServerState.READY,
        "ArmWithdrawn": ServerState.READY,
        "ServerStarted": ServerState.READY,
        "RunEnded": ServerState.FINISHED,
    },
    ServerState.COLLECTING: {
        "UpdateAccepted": ServerState.COLLECTING,
        "UpdateRejected": ServerState.COLLECTING,
        "AnswerRefused": ServerState.COLLECTING,
        "ArmWithdrawn": ServerState.COLLECTING,
        "ServerStarted": ServerState.COLLECTING,
        "PhaseClosed": ServerState.READY,
        "PhaseAbandoned": ServerState.READY,
        "RunEnded": ServerState.FINISHED,
    },
    ServerState.ENDING: {
        "UpdateRejected": ServerState.ENDING,
        "ServerStarted": ServerState.ENDING,
        "RunEnded": ServerState.FINISHED,
    },
    ServerState.FINISHED: {
        "UpdateRejected": ServerState.FINISHED,
        "ServerStarted": ServerState.FINISHED,
    },
}
"""Where each record leads. What leads to READY leads to ENDING if no phase follows."""


def stage_after(state: RunState, record: Record) -> ServerState:
    """Return where a record leads by the table; refuse one that may not come now."""
    cut = isinstance(record, PhaseOpened) and not record.complete
    event = _CUT if cut else type(record).__name__
    stage = _TRANSITIONS[state.stage].get(event)
    if stage is None:
        raise ProtocolError(f"{event} may not come while the server is {state.stage.value}")
    return stage


def apply(state: RunState, record: Record) -> RunState:
    """Return the state after one more record: the only way in which it ever changes.

    Raises
    ------
    ProtocolError
        If the record may not come now.
    """
    stage = stage_after(state, record)
    after = _changed(state, record)
    guarantee = still_proven(record, state, after)
    if guarantee is not state.guarantee:
        after = replace(after, guarantee=guarantee)
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
            if rejection is Rejection.RANGE:
                after = replace(after, outside=state.outside | {client})
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
        comebacks=out.comebacks * (state.phase + 1) if back.any() else out.comebacks,
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
