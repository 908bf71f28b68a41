"""What a run still proves: its guarantee, folded over the log like the rest of its state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from fedbandits.protocol import records
from fedbandits.protocol.decisions import admission, is_for_harm
from fedbandits.protocol.health import drift
from fedbandits.protocol.messages import Refused, Update
from fedbandits.protocol.outcomes import Limits, words_of
from fedbandits.protocol.state import RunState
from fedbandits.rules.guarantees import Assumption, Condition, Guarantee, Status

_TAKEN_OUT = (
    "an option was withdrawn or halted, and the regret bounds are about games in which none is"
)
_FEWER = "{}, and the regret bounds are about phases in which all of the planned clients report"

_NO_COMEBACKS = (
    "none: an option was withdrawn, and nothing is proven of options that have missed phases and"
    " come back"
)

_CHOSEN_BY_HARM = (
    "none: a guardrail has withdrawn an option because of what was observed, and what the rule"
    " proves is about a best option that does not depend on it"
)

_OBSERVED_BITS = Condition(
    "the number of bits of a mean was settled in advance",
    status=Status.BROKEN,
    why="options were not tried equally often, so the number of bits of a mean depends on what was"
    " observed",
)

_UNEVEN = Condition(
    "clients have tried all options that are left, or none",
    status=Status.BROKEN,
    why="an option was withdrawn or halted: which clients are compared then depends on the options"
    " that are left, and liars may have a say in that",
)


_ALIKE = Condition(
    "whether the outcome of a unit is lost has nothing to do with its option",
    status=Status.BROKEN,
)
_LOST = "lost the outcomes of some options suspiciously more often than those of others"


def still_proven(record: records.Record, before: RunState, state: RunState) -> Guarantee:
    """Return what is still proven after a record.

    Parameters
    ----------
    record : records.Record
        What has happened.
    before, state : RunState
        What the run was, and what it is but for its guarantee.
    """
    found = before.guarantee
    match record:
        case records.UpdateAccepted(update=update) if (
            update.clipped or update.halted or update.uneven
        ):
            return _of_update(found, update, state)
        case records.UpdateRejected(rejection=records.Rejection.RANGE):
            return _outside(found, state, "means", sorted(state.outside), "counted")
        case records.PhaseOpened(admitted=admitted):
            if _has_observed_bits(before):
                found = found.requiring(_OBSERVED_BITS)
            if len(admitted) < admission(before)[0]:
                why = _FEWER.format("fewer clients joined than planned")
                found = _without_regret(found, why)
            return found
        case records.PhaseClosed():
            return _of_drift(_of_part(_of_silent(found, before), before, state), state)
        case records.PhaseAbandoned():
            found = _of_silent(found, before).opened(Assumption.NO_SELECTION)
            found = _without_regret(found, _FEWER.format("a phase was abandoned"))
            return _of_drift(found, state)
        case records.ArmWithdrawn():
            return _without_arm(found, record, before, state)
        case records.ClientHalted(arms=arms) if arms:
            return _of_uneven(_taken_out(found, Assumption.HALTED_ANYWAY), state)
        case records.RunEnded():
            found = _kept_back(found, before)
    return found


def _without_arm(
    found: Guarantee, record: records.ArmWithdrawn, before: RunState, state: RunState
) -> Guarantee:
    """Return what is proven of the rest if an arm is withdrawn, by a person or by a guardrail."""
    rule = state.terms.rule
    if is_for_harm(before, record.arm, record.reason):
        found = _without_regret(found, _TAKEN_OUT)
        allowed_for = rule.scheduled and rule.outlives_withdrawals
        if found.claim and not allowed_for:
            found = replace(found, claim="", reason=_CHOSEN_BY_HARM)
        return found
    found = _taken_out(found, Assumption.WITHDRAWN_ANYWAY)
    if found.claim and state.comebacks > 1 and not rule.outlives_withdrawals:
        found = replace(found, claim="", reason=_NO_COMEBACKS)
    return _of_uneven(found, state) if state.comebacks > 1 else found


def _has_observed_bits(before: RunState) -> bool:
    """Return whether random rounding in the next phase depends on what was observed.

    Its bits are chosen for the first option that is left. If options were tried equally often, it
    does not matter which one that is.
    """
    privacy = before.terms.privacy
    if privacy is None or not privacy.random_by_phase:
        return False
    counts = before.counted.counts[before.active]
    return not np.array_equal(counts, np.broadcast_to(counts[0], counts.shape))


def _of_update(found: Guarantee, update: Update, state: RunState) -> Guarantee:
    """Return what an update leaves proven, of which a part was halted, clipped or lost."""
    if update.uneven and not _may_be_lies(state, state.uneven):
        found = found.requiring(replace(_ALIKE, why=f"{', '.join(map(str, state.uneven))} {_LOST}"))
    if update.halted:
        found = _of_uneven(_taken_out(found, Assumption.HALTED_ANYWAY), state)
    if (
        update.clipped
        and state.terms.outside != "clip"
        and not _may_be_lies(state, [update.client])
    ):
        words = f"observations lay outside {_in_words(state.terms.clipped_range)} and were clipped"
        found = found.broken(Assumption.IN_RANGE, f"{words}: the answer is about clipped outcomes")
    return found


def _taken_out(found: Guarantee, kind: Assumption) -> Guarantee:
    """Return what is still proven if people take options out, here or everywhere."""
    return _without_regret(found, _TAKEN_OUT).requiring(Condition(kind))


def _of_uneven(found: Guarantee, state: RunState) -> Guarantee:
    """Return what is proven if some clients have tried fewer options than others.

    If clients may lie, those are compared that have tried all options that are left. Between two
    options these are the same, whatever is observed.
    """
    left = state.terms.rule.n_arms - len(state.withdrawn)
    uneven = state.terms.rule.estimator.stands_liars and left > 2
    return found.requiring(_UNEVEN) if uneven else found


def _without_regret(found: Guarantee, why: str) -> Guarantee:
    """Return what is proven if a bound on the regret no longer is."""
    if not found.regret:
        return found
    return replace(found, claim="", regret=False, reason=f"none: {why}")


def _of_silent(found: Guarantee, before: RunState) -> Guarantee:
    """Return what is proven when a phase ends without the clients that have not reported."""
    if not before.missing and not before.quarantined:
        return found
    found = _without_regret(_kept_back(found, before), _FEWER.format("clients did not report"))
    return found.opened(Assumption.NO_SELECTION)


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

    What clients that were never heard leave open is in the widths, if a spread between clients or a
    range is given: the client term of M of N clients. Then they must be missing at random.
    """
    rule = state.terms.rule
    if not rule.asks_everyone or rule.population is None:
        return found
    heard_of = state.counted.pulled[before.active].sum(axis=1)
    # What nobody has pulled is not judged.
    heard = int(heard_of[heard_of > 0].min(initial=rule.population))
    if heard >= rule.population:
        return found.kept(Assumption.ALL_CLIENTS)
    # A client that has halted an option is heard of the others.
    silent = "were never heard" if heard_of.max() == heard else "have not reported every option"
    never = f"{rule.population - heard:,} of {rule.population:,} clients {silent}, and"
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


def _of_drift(found: Guarantee, state: RunState) -> Guarantee:
    """Return what is proven if fresh reports are unlike those before."""
    watched = drift(state)
    if isinstance(watched, str) or not watched.suspicious:
        return found
    said = (f"{one.arm} seems to have changed by {one.by:+.3g}" for one in watched.suspicious)
    why = (
        f"{', '.join(said)} since clients first reported it; at most {100 * watched.level:g} % of"
        " runs in which no option changes look like that"
    )
    return found.broken(Assumption.NO_DRIFT, why)


def _kept_back(found: Guarantee, before: RunState) -> Guarantee:
    """Return what a phase leaves proven whose outcomes some clients do not report for their range.

    It does not matter whether it is decided, abandoned or stopped: the answer is for them, too.

    Clients that have corrected them meanwhile have reported.
    """
    refused = (before.phase, Refused.OUTSIDE)
    clients = [client for client in before.missing if (client, *refused) in before.refusals]
    what = "outcomes" if before.terms.covariate is None else "outcomes or covariates"
    return _outside(found, before, what, clients, "reported") if clients else found


def _may_be_lies(state: RunState, clients: Iterable[str]) -> bool:
    """Return whether clients that say or show what no honest one does may all be among the liars.

    If no more than the declared number do, nothing of what is assumed of honest clients is refuted,
    and one liar cannot end the promise. A client whose means are not counted is one of those that
    may lie, as every client is that was not heard.
    """
    estimator = state.terms.rule.estimator
    said = (
        client for client, _, why in (key for key, _ in state.refusals) if why is Refused.OUTSIDE
    )
    suspects = {*clients, *state.outside, *state.uneven, *state.clipping, *said}
    return estimator.stands_liars and len(suspects) <= estimator.liars_among(len(state.columns))


def _outside(
    found: Guarantee, state: RunState, what: str, clients: Sequence[str], fate: str
) -> Guarantee:
    """Return what is proven if something of these clients lay outside the range."""
    if _may_be_lies(state, clients):
        return found
    named = ", ".join(clients[:3]) + (f" and {len(clients) - 3:,} more" if clients[3:] else "")
    limits = state.terms.range if what == "means" else state.terms.observed_range
    why = f"{what} of {named} lay outside {_in_words(limits)} and were not {fate}"
    return found.broken(Assumption.IN_RANGE, f"{why}, though the answer is for them, too")


def _in_words(limits: Limits | None) -> str:
    return "the range" if limits is None else words_of(limits)
