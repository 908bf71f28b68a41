"""What a server decides: gather reports, estimate, decide, plan. Pure functions of its state.

All calls of a rule are here.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedbandits.privacy.protection import bits_in_phase
from fedbandits.protocol.messages import Assignment, Decision, Reason, Release
from fedbandits.protocol.state import Judgement, RunState
from fedbandits.protocol.tally import Tally
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.estimators import LeftOut
from fedbandits.rules.phased import PhasedRule, cut_to_fit
from fedbandits.rules.plans import PhasePlan, State
from fedbandits.rules.reports import Reports


def gathered(state: RunState) -> Tally:
    """Return all that was reported, with the open phase.

    Nothing more is counted of an arm that was withdrawn meanwhile: its estimate stays.
    """
    columns = [state.columns[client] for client, _ in state.reports]
    updates = [update for _, update in state.reports]
    return state.counted.reported(columns, updates, state.active, state.mechanism)


def _reports(state: RunState, tally: Tally) -> Reports:
    """Return what clients have reported by a tally."""
    terms = state.terms
    return Reports(
        counts=tally.counts,
        means=tally.means,
        active=state.active,
        squares=tally.squares,
        shares=terms.shares(tuple(state.columns)[: tally.counts.shape[1]]),
        distortion=tally.distortion(terms.privacy),
    )


def judged(state: RunState) -> Judgement:
    """Return what the open phase is decided by.

    The estimates of arms that are out, or that nobody has pulled, stay as they were.
    """
    estimate = state.terms.rule.estimate(_reports(state, gathered(state)))
    fresh = state.active & (estimate.pulls > 0)
    estimate = replace(estimate, values=np.where(fresh, estimate.values, state.estimates))
    return Judgement(phase=state.phase, looks=looks(state), active=state.active, estimate=estimate)


def left_out(state: RunState) -> LeftOut | None:
    """Return whom the phase that was decided last has left out; None if the rule leaves nobody out.

    By what was reported until then: of a state in which the phase has just been decided.
    """
    rule, decided_on = state.terms.rule, state.decided_on
    if decided_on is None or not rule.estimator.stands_liars:
        return None
    reports = replace(_reports(state, state.counted), active=decided_on)
    return rule.estimator.left_out(reports, int(rule.best(state.estimates, decided_on)))


def looks(state: RunState) -> int:
    """Return the number of the last phase, as far as error probabilities are shared out.

    The rule gives every phase p a share of δ that is proportional to 1/p², for estimates whose
    counts were known in advance. An arm that was dropped in one of w phases, or in none, and has
    come back is one of w + 1 such estimates, and of two arms there are (w + 1)² pairs: each gets
    an equal part of the share of its phase, which is that of phase p (w + 1). That is so after
    every withdrawal in phase w, whether or not an arm comes back: that depends on the data.

    Protected means change nothing about this: the noise of a release follows from f(p) and K, so
    that the phases that an arm has missed determine what is in its estimate. Bits that are chosen
    in each phase do not: see ``protocol/promises.py``.

    What a guardrail withdraws, and when, depends on what was observed. Then all K arms must be
    compared rightly at once, and in which phases such arms went is one of many ways. The count of
    ways begins with `fedbandits.rules.guardrails.looks_at_first` for that; ``docs/health.md`` has
    the proof.
    """
    return state.phase * state.comebacks


def decided(state: RunState) -> Decision:
    """Return what the open phase decides.

    Arms that a withdrawal has brought back are not judged before they are pulled again.
    """
    rule, active = state.terms.rule, state.active
    verdict = judged(state).verdict(rule, active)
    left = (verdict.active & active) | state.returning
    if verdict.settled and not state.returning.any():
        reason = Reason.ONE_ARM_LEFT if left.sum() == 1 else Reason.WITHIN_TOLERANCE
    else:
        reason = _last_phase(rule, state.phase) or _horizon(state) or Reason.OPEN
    widths = np.where(active, verdict.widths, state.widths)
    known = replace(state, estimates=verdict.estimates, widths=widths, behind=gathered(state))
    return _decision(known, state.phase, left, reason)


def last_word(state: RunState, reason: Reason) -> Decision:
    """Return all that is known, as the last decision of a run that ends for a reason."""
    phase = 0 if state.decision is None else state.decision.phase
    return _decision(state, phase, state.left, reason)


def _decision(state: RunState, phase: int, left: BoolArray, reason: Reason) -> Decision:
    """Return a decision that leaves some arms, by the estimates of a state."""
    best = best_known(state.terms.rule, state.estimates, left, state.behind)
    won = reason in (Reason.ONE_ARM_LEFT, Reason.WITHIN_TOLERANCE)
    return Decision(
        header=state.header,
        phase=phase,
        active=tuple(left.tolist()),
        estimates=tuple(state.estimates.tolist()),
        widths=tuple(state.widths.tolist()),
        best=best,
        winner=best if won else None,
        reason=reason,
    )


def best_known(
    rule: PhasedRule, estimates: FloatArray, left: BoolArray, behind: Tally | None
) -> int:
    """Return the arm that is left with the best estimate; one without any only if all are."""
    known = left if behind is None else left & behind.pulled.any(axis=1)
    return int(rule.best(estimates, known if known.any() else left))


def _last_phase(rule: PhasedRule, phase: int) -> Reason | None:
    """Return why no phase follows this one, if the rule says so."""
    if not rule.ends_after(phase):
        return None
    return Reason.BUDGET if rule.spent_after(phase) else Reason.LAST_PHASE


def _horizon(state: RunState) -> Reason | None:
    """Return that the horizon is reached, if it is."""
    return Reason.HORIZON if state.slots_played == state.terms.rule.slots else None


HARM = "guardrail "
"""What the reason of a withdrawal begins with that follows from what clients have reported."""


def harms(state: RunState) -> dict[int, str]:
    """Return the arms that are beyond a guardrail and not withdrawn yet, and why they are to be."""
    terms, known = state.terms, state.guarded
    found: dict[int, list[str]] = {}
    for rail, sums in zip(terms.guardrails, known.sums, strict=True):
        for arm in np.flatnonzero(rail.beyond(sums, known.counts)).tolist():
            said = rail.verdict(float(sums[arm]), float(known.counts[arm]))
            found.setdefault(arm, []).append(said)
    return {
        arm: f"{HARM}{'; '.join(said)}"
        for arm, said in sorted(found.items())
        if arm not in state.withdrawn
    }


def is_for_harm(state: RunState, arm: int, reason: str) -> bool:
    """Return whether a withdrawal is that of a guardrail, and not of a person."""
    return bool(state.terms.guardrails) and harms(state).get(arm) == reason


def is_closing(state: RunState) -> bool:
    """Return whether a guardrail has withdrawn an arm in the open phase, which then ends.

    What a test finds after some of the reports it would often not find after all of them: whoever
    chose their order could have any arm withdrawn.
    """
    given = () if state.assignment is None else state.assignment.withdrawn
    return bool(state.terms.guardrails) and any(
        state.withdrawn[arm].startswith(HARM) for arm in given
    )


def ending(state: RunState) -> Reason | None:
    """Return why no phase follows, between phases; None if one does."""
    if not state.left.any():
        return Reason.HARM
    if state.left.sum() == 1:
        return Reason.ONE_ARM_LEFT
    if state.decision is not None and state.decision.final:
        return state.decision.reason
    return _horizon(state) or _last_phase(state.terms.rule, state.phase)


def reinstated(state: RunState) -> BoolArray:
    """Return the arms that are out because of rivals that were withdrawn, and of no others.

    Each decision that has dropped an arm is made again, by the same rule from the same estimates,
    without the arms that were withdrawn since. The rule bounds the probability that an arm is ever
    behind one that is no better, by a comparison that it makes, for every arm: so for the best of
    the rest as well, if what was withdrawn does not depend on what was observed. What that arm has
    missed meanwhile does; see `looks`.
    """
    stays = np.ones(state.active.size, dtype=np.bool_)
    stays[list(state.withdrawn)] = False
    back = np.zeros(state.active.size, dtype=np.bool_)
    for arm, shown in state.beaten.items():
        back[arm] = shown.verdict(state.terms.rule, shown.active & stays).active[arm]
    return back


def admission(state: RunState) -> tuple[int, bool]:
    """Return how many new clients the next phase asks for, and whether a cap has cut them.

    They are never fewer than a decision needs, whatever the rule's schedule is. How many join is
    settled before anybody has pulled, and widths follow from who reports: what is proven is proven
    of any number of clients.
    """
    plan, short = _plan(state), state.terms.quorum.least - len(state.columns)
    return max(int(plan.newcomers), short), bool(plan.capped)


def planned(state: RunState, newcomers: int) -> tuple[Assignment, bool]:
    """Return what the next phase is with so many new clients, and whether all of it fits.

    What does not fit into the horizon is cut.
    """
    rule, phase = state.terms.rule, state.phase + 1
    pulls = _plan(state, newcomers).pulls
    fitting = cut_to_fit(pulls, rule.slots - state.slots_played)
    assignment = Assignment(
        header=state.header,
        phase=phase,
        pulls=tuple(fitting.tolist()),
        release=_release(state, pulls, newcomers),
        previous=state.decision,
    )
    return assignment, bool((fitting == pulls).all())


def _plan(state: RunState, joined: int | None = None) -> PhasePlan:
    """Return the plan of the next phase, if so many of those that it asks for have joined."""
    rule = state.terms.rule
    known = state.columns and not rule.scheduled
    return rule.plan(
        State(
            phase=state.phase + 1,
            active=state.active,
            clients=len(state.columns),
            slots_left=rule.slots - state.slots_played,
            capped=state.capped,
            estimate=rule.estimate(_reports(state, state.counted)) if known else None,
            joined=joined,
            random=state.terms.draws(state.phase + 1) if rule.randomised else None,
        )
    )


def _release(state: RunState, pulls: IntArray, newcomers: int) -> Release:
    """Return what clients are to send of the phase that begins, and how."""
    terms, counted = state.terms, state.counted
    before = terms.release if state.assignment is None else state.assignment.release
    if terms.privacy is None:
        return before
    # Noise that protects the mean of the fewest pulls protects the others, too.
    arm = int(np.where(pulls > 0, pulls, np.iinfo(np.int64).max).argmin())
    n = int(pulls[arm])
    bits = bits_in_phase(
        terms.rule,
        terms.privacy,
        phase=state.phase + 1,
        pulls=n,
        counts=np.pad(counted.counts[arm], (0, newcomers)) + n,
        sums=counted.distorted.admitted(newcomers).kept(np.array([arm])),
    )
    return replace(before, mechanism=terms.privacy.mechanism(n, terms.rule.n_arms, bits))


def interval_widths(state: RunState, level: float) -> FloatArray:
    """Return half-widths of intervals around all estimates, as of each arm's last decision.

    They hold together, in all phases, with probability 1 − ``level`` at least, unless pulls
    follow from what was observed; see `fedbandits.rules.phased.PhasedRule.interval_widths`.
    """
    terms, behind = state.terms, state.behind
    if behind is None:  # one arm was left before anything was measured
        return np.full(terms.rule.n_arms, np.inf)
    rule, phase = terms.rule, state.decided_as
    reports = _reports(state, behind)
    if not rule.estimator.stands_liars:
        widths = rule.interval_widths(level, phase=phase, reports=reports)
        return np.where(behind.pulled.any(axis=1), widths, np.inf)
    # Who is compared depends on the arms that were in the game when an arm was judged.
    judged_last = state.active if state.decided_on is None else state.decided_on
    reports = replace(reports, active=judged_last)
    widths = rule.interval_widths(level, phase=phase, reports=reports)
    widths = np.where(judged_last & behind.pulled.any(axis=1), widths, np.inf)
    for arm, shown in state.beaten.items():
        if not judged_last[arm]:
            then = rule.interval_widths(
                level, phase=phase, reports=reports, estimate=shown.estimate
            )
            widths[arm] = np.broadcast_to(then, widths.shape)[arm]
    return widths
