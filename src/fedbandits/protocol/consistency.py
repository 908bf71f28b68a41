"""Whether a record follows from those before it: what somebody checks who trusts no server."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import repeat
from typing import Any

from fedbandits.errors import ProtocolError
from fedbandits.protocol import decisions, records
from fedbandits.protocol.codec import encode
from fedbandits.protocol.fold import stage_after
from fedbandits.protocol.messages import Reason
from fedbandits.protocol.state import RunState, ServerState
from fedbandits.protocol.validation import IsSigned, is_well_formed, rejection_of

# Another processor may compute the last digits of a number differently. This is relative to the
# largest number beside it, because small ones may be differences of large ones.
_LAST_DIGITS = 1e-9

_OTHER_ASSIGNMENT = "another assignment follows from the records before it"

# Why a run may end although the rule goes on.
_BY_PEOPLE: tuple[Reason, ...] = (Reason.STOPPED, Reason.QUORUM, Reason.BUDGET)


def contradiction(
    state: RunState, record: records.Record, is_signed: IsSigned | None = None
) -> str | None:
    """Return what a record says that no server could have found, in words; None if it follows.

    Assignments and decisions are worked out again. Of what came from outside (who joined, who was
    not counted, what people have withdrawn or stopped) only the form can be checked.

    Parameters
    ----------
    state : RunState
        After all records before it.
    record : Record
        The next one.
    is_signed : callable, optional
        What checks signatures, if updates must have them.
    """
    problem = _out_of_turn(state, record)
    if problem is not None:
        return problem
    match record:
        case records.PhaseOpened():
            return _of_opening(state, record)
        case records.UpdateAccepted(update=update):
            rejection: records.Rejection | None = records.Rejection.FORM
            if is_well_formed(update):
                rejection = rejection_of(state, update, is_signed)
            if rejection is not None:
                return f"the update of {update.client} must not count: {rejection.value}"
        case records.PhaseClosed(decision=decision):
            if not state.has_quorum or not _alike(decisions.decided(state), decision):
                return "another decision follows from the records before it, or none"
        case records.PhaseAbandoned():
            reported, expected = len(state.reports), len(state.reports) + len(state.missing)
            found = (state.phase, reported, expected)
            if state.has_quorum or found != (record.phase, record.reported, record.expected):
                return "the phase has a quorum, or other clients have reported"
        case records.RunEnded(decision=decision):
            reasons, last = _BY_PEOPLE, decisions.last_word(state, decision.reason)
            if state.stage is ServerState.ENDING:
                reasons = (decisions.ending(state) or Reason.HORIZON,)
            if decision.reason not in reasons or not _alike(last, decision):
                return "another last word follows from the records before it, or none"
    return _of_people(state, record)


def _out_of_turn(state: RunState, record: records.Record) -> str | None:
    """Return why a record may not come now; None if it may."""
    try:
        stage_after(state, record)
    except ProtocolError as error:
        return str(error)
    if isinstance(record, records.PhaseClosed | records.PhaseAbandoned | records.RunEnded):
        for arm, reason in decisions.harms(state).items():
            return f"{state.terms.arms[arm]} must be withdrawn before it ({reason})"
    return None


def worked_out(state: RunState, record: records.Record) -> records.Record:
    """Return a record that follows with the decision as it is found here, to the last digit.

    What is decided later must not rest on numbers that are only close: beside a large one, much
    is close.
    """
    match record:
        case records.PhaseClosed():
            return records.PhaseClosed(decisions.decided(state))
        case records.RunEnded(decision=decision, words=words):
            return records.RunEnded(decisions.last_word(state, decision.reason), words)
    return record


def _of_opening(state: RunState, record: records.PhaseOpened) -> str | None:
    admitted = record.admitted
    wanted, capped = decisions.admission(state)
    known = any(client in state.columns for client in admitted)
    if known or len(set(admitted)) != len(admitted) or len(admitted) > wanted:
        return "a client is admitted twice, or more than the rule asks for"
    if not state.columns and not admitted:
        return "the first phase needs at least one client"
    try:
        state.terms.check_admitted(admitted, wanted)
    except ProtocolError as error:
        return str(error)
    assignment, complete = decisions.planned(state, len(admitted))
    same = (record.complete, record.capped) == (complete, capped)
    return None if same and _alike(assignment, record.assignment) else _OTHER_ASSIGNMENT


def _of_people(state: RunState, record: records.Record) -> str | None:
    """Return what is wrong with a record about what somebody outside has done."""
    match record:
        case records.ArmWithdrawn(arm=arm, reason=reason):
            left = state.left
            if decisions.is_for_harm(state, arm, reason):
                return None
            if state.terms.guardrails and reason.startswith(decisions.HARM):
                return "no withdrawal by a guardrail follows from the records before it"
            if not 0 <= arm < left.size or arm in state.withdrawn or (left[arm] and left.sum() < 2):
                return "an arm is withdrawn that cannot be"
        case records.ClientHalted(client=client, arms=arms):
            if client not in state.columns or not set(arms) <= set(range(state.active.size)):
                return "something is halted that is not there"
        case records.ServerStarted(epoch=epoch) if epoch <= state.header.epoch:
            return f"epoch {epoch} after epoch {state.header.epoch}"
        case records.KeyPinned(client=client, reason=reason):
            if (client in state.keys) != bool(reason):
                return f"{client} has another key, and nobody says why"
    return None


def _alike(found: Any, said: Any) -> bool:
    """Return whether two messages say the same, up to the last digits of their numbers."""
    one, other = encode(found), encode(said)
    aside = _LAST_DIGITS * max((abs(n) for n in _numbers(one) if math.isfinite(n)), default=0.0)
    return _same(one, other, aside)


def _numbers(said: Any) -> Iterator[float]:
    """Yield the numbers in plain values, without those that are whole."""
    if isinstance(said, float):
        yield said
    elif isinstance(said, dict | list):
        for part in said.values() if isinstance(said, dict) else said:
            yield from _numbers(part)


def _same(one: Any, other: Any, aside: float) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[k], other[k], aside) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other, repeat(aside)))
    if isinstance(one, float) and isinstance(other, float):
        return one == other or abs(one - other) <= aside
    return type(one) is type(other) and bool(one == other)
