"""What a run still proves: its guarantee, folded over the log like the rest of its state."""

from __future__ import annotations

from dataclasses import replace

from fedbandits.protocol.log import (
    ArmWithdrawn,
    PhaseAbandoned,
    PhaseClosed,
    Record,
    Rejection,
    UpdateAccepted,
    UpdateRejected,
)
from fedbandits.protocol.state import RunState
from fedbandits.rules.guarantees import Assumption, Condition, Guarantee

_NO_REGRET_BOUND = (
    "none: an option was withdrawn, and the regret bounds are about games in which none is"
)


def still_proven(record: Record, before: RunState, state: RunState) -> Guarantee:
    """Return what is still proven after a record.

    Parameters
    ----------
    record : Record
        What has happened.
    before, state : RunState
        What the run was, and what it is but for its guarantee.
    """
    found = before.guarantee
    match record:
        case UpdateAccepted(update=update) if update.clipped:
            return found.broken(
                Assumption.IN_RANGE,
                f"observations lay outside {_clips_to(state)} and were clipped: the answer is about"
                " clipped outcomes",
            )
        case UpdateRejected(rejection=Rejection.RANGE):
            return found.broken(Assumption.IN_RANGE, _outside(state))
        case PhaseClosed():
            if before.missing or state.quarantined:
                found = found.opened(Assumption.NO_SELECTION)
            return _of_part(found, before, state)
        case PhaseAbandoned():
            return found.opened(Assumption.NO_SELECTION)
        case ArmWithdrawn():
            if found.regret:
                return replace(found, claim="", regret=False, reason=_NO_REGRET_BOUND)
            return found.requiring(Condition(Assumption.WITHDRAWN_ANYWAY))
    return found


def coverage(state: RunState, level: float) -> Guarantee:
    """Return what is still proven about intervals at a level.

    Parameters
    ----------
    state : RunState
        Of the run.
    level : float
        Their error probability, if all is kept.
    """
    rule = state.terms.rule
    stated = rule.guarantee()
    since = [one for one in state.guarantee.conditions if stated.condition(one.kind) != one]
    return rule.interval_guarantee(level).requiring(*since).following(since)


def _of_part(found: Guarantee, before: RunState, state: RunState) -> Guarantee:
    """Return what a phase leaves proven that was decided without some of all clients.

    What those who were never heard leave open is in the widths, if a spread between clients or a
    range is given: the client term of M of N clients. Then they must be missing at random.
    """
    rule = state.terms.rule
    if not rule.asks_everyone or rule.population is None:
        return found
    heard = int(state.counted.pulled[before.active].sum(axis=1).min(initial=rule.population))
    if heard >= rule.population:
        return found.kept(Assumption.ALL_CLIENTS)
    never = f"{rule.population - heard:,} of {rule.population:,} clients were never heard, and"
    if not rule.spread:
        return found.broken(
            Assumption.ALL_CLIENTS,
            f"{never} neither a spread between clients nor a range of outcomes is given to bound"
            " what they may change",
        )
    more = rule.part_conditions()
    if more is None:
        return found.broken(
            Assumption.ALL_CLIENTS, f"{never} what the rule proves is about all of them"
        )
    return found.requiring(*more)


def _outside(state: RunState) -> str:
    clients = sorted(state.outside)
    named = ", ".join(clients[:3]) + (f" and {len(clients) - 3:,} more" if clients[3:] else "")
    return (
        f"means of {named} lay outside {_range(state)} and were not counted, though"
        " the answer is for them, too"
    )


def _clips_to(state: RunState) -> str:
    privacy = state.terms.privacy
    return _words_of(None if privacy is None else privacy.range)


def _range(state: RunState) -> str:
    return _words_of(state.terms.range)


def _words_of(limits: tuple[float, float] | None) -> str:
    low, high = limits or (0.0, 0.0)
    return f"[{low:g}, {high:g}]"
