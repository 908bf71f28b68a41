"""What a server can say at any time: which arms are left, their intervals, and why it stopped."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedbandits.errors import ProtocolError, check_number
from fedbandits.notebook.viewed import Table, Viewed, known_name
from fedbandits.protocol.health import guarded
from fedbandits.protocol.messages import Conclusion, Reason
from fedbandits.protocol.promises import coverage
from fedbandits.protocol.server import Server
from fedbandits.report.chart import Axis, Chart, Row, Rows
from fedbandits.report.palette import FAINT, PALETTE
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.guarantees import Assumption, Condition, Guarantee, Status, listed
from fedbandits.rules.levels import as_level

if TYPE_CHECKING:
    from fedbandits.report.shown import Shown

_WHY = {
    Reason.OPEN: "it goes on: {left}",
    Reason.ONE_ARM_LEFT: "it is over: one option is left",
    Reason.WITHIN_TOLERANCE: "it is over: the options that are left differ by no more than the"
    " tolerance of {tolerance:g}",
    Reason.LAST_PHASE: "it is over: no phase follows, and {left}",
    Reason.HORIZON: "it is over: the horizon is reached, and {left}",
    Reason.QUORUM: "it is over: too few clients answer, and {left}",
    Reason.STOPPED: "it was stopped{stopped}, and {left}",
    Reason.BUDGET: "it is over: the clients' privacy budget is spent, and {left}",
    Reason.HARM: "it is over: every option was withdrawn, the last by a guardrail",
}


def guarantee_words(found: Guarantee) -> str:
    """Return what a run still proves, in a sentence; else what broke it, or why nothing is proven.

    What the run is known to keep is not said again.
    """
    if not found.holds:
        why = "; ".join(found.breaches) or found.reason.removeprefix("none: ")
        return f"No error probability is stated: {why}."
    also = [one.words for one in _open(found) if not one.common]
    moreover = f", if, in addition, {listed(also)}" if also else ""
    unknown = "" if found.error is not None else " No error probability is stated."
    return f"Guarantee: {found.claim}{moreover}.{unknown}"


def _open(found: Guarantee) -> list[Condition]:
    """Return the conditions that have to be believed."""
    return [one for one in found.conditions if one.status is not Status.KEPT]


def _coverage_words(found: Guarantee) -> str:
    """Return what is said of all intervals, after "they"."""
    if found.error is not None or not found.claim:
        return found.claim or found.reason
    return f"come without a probability, because {'; '.join(found.breaches)}"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Answer(Viewed):
    """What is known of the arms after a phase.

    Parameters
    ----------
    winner : str or None
        The arm that won, if one has.
    survivors : tuple of str
        The arms that are left.
    reason : Reason
        Why it stopped, or that it has not.
    tolerance : float
        By how much an arm may be worse than the best and still be good enough.
    whom : str
        Whom it is for: these clients, or future clients like these.
    phase, clients : int
        How many phases and clients are behind it.
    estimates : dict of str to float
        By arm. The winner's is optimistic: it was picked because it looked best.
    intervals : dict of str to (float, float)
        By arm; all of them together, in all phases, hold with probability 1 − ``level`` at least.
    level : float
        Their own error probability, which has nothing to do with that of the rule; 1 if none is
        proven.
    coverage : str
        What is said of all intervals, after "they".
    error : str
        With which probability the rule loses the best arm, or why none is stated, in words.
    assumptions : tuple of str
        What all of it rests on.
    withdrawn : dict of str to str
        Arms that somebody, or a guardrail, has taken out, and why.
    stopped : str
        Why somebody has stopped the run, in their words.
    adjusted : str
        The covariate that outcomes were adjusted by; empty if there is none.
    guardrails : tuple of str
        What guardrails say of the arms that are left, in sentences.
    """

    tables: ClassVar[tuple[str, ...]] = ("arms",)
    charts: ClassVar[tuple[str, ...]] = ("intervals",)

    winner: str | None
    survivors: tuple[str, ...]
    reason: Reason
    tolerance: float
    whom: str
    phase: int
    clients: int
    estimates: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    level: float
    coverage: str
    error: str
    assumptions: tuple[str, ...]
    withdrawn: dict[str, str] = field(default_factory=dict)
    stopped: str = ""
    adjusted: str = ""
    guardrails: tuple[str, ...] = ()

    def words(self) -> str:
        """Return it in words that a non-statistician can repeat."""
        phases = "1 phase" if self.phase == 1 else f"{self.phase} phases"
        clients = "1 client" if self.clients == 1 else f"{self.clients:,} clients"
        one = len(self.survivors) == 1
        why = _WHY[self.reason].format(
            tolerance=self.tolerance,
            stopped=f" ({self.stopped})" if self.stopped else "",
            left="one option is left" if one else "several options are left",
        )
        lines = [f"After {phases} with {clients} {why}. The answer is for {self.whom}."]
        if self.winner is not None:
            low, high = self.intervals[self.winner]
            known = (
                f"estimated {self.estimates[self.winner]:.4g} (a little optimistic, because it"
                f" was picked for looking best), between {low:.4g} and {high:.4g}"
            )
            if not math.isfinite(low):
                known = "the only one left, and nothing is known of how good it is"
            lines.append(f"The answer is {self.winner}: {known}.")
        if not self.survivors:
            lines.append("No option is left, so there is no answer: give what you give without it.")
        elif len(self.survivors) > 1 or self.winner is None:
            lines.append(f"Left {'is' if one else 'are'} {', '.join(self.survivors)}.")
        for arm, reason in self.withdrawn.items():
            lines.append(f"{arm} was withdrawn ({reason}): all of this is about the rest.")
        if self.adjusted:
            lines.append(
                f"Estimates are of outcomes adjusted by {self.adjusted}: options differ as they do"
                " in outcomes themselves, and all estimates may be off by one and the same amount."
            )
        lines += [
            *self.guardrails,
            self.error,
            f"{self.of_intervals} {'; '.join(self.assumptions)}.",
        ]
        return "\n".join(lines)

    def arms(self) -> Table:
        """Return one row per arm, as columns: estimate, interval, and what became of it."""
        ends = [self.intervals[arm] for arm in self.estimates]
        return {
            "arm": list(self.estimates),
            "estimate": list(self.estimates.values()),
            "low": [low for low, _ in ends],
            "high": [high for _, high in ends],
            "state": [self._state(arm) for arm in self.estimates],
        }

    def _state(self, arm: str) -> str:
        if arm == self.winner:
            return "the answer"
        if arm in self.survivors:
            return "left"
        return "withdrawn" if arm in self.withdrawn else "out"

    def in_short(self) -> str:
        """Return what is known, in a line."""
        answer = self.winner or f"{len(self.survivors)} of {len(self.estimates)} arms are left"
        clients = "1 client" if self.clients == 1 else f"{self.clients:,} clients"
        return f"{answer}, phase {self.phase}, {clients}, {self.reason.value}"

    def shown(self) -> Shown:
        """Return one row per arm, and all that is said about them."""
        from fedbandits.report.shown import Shown  # noqa: PLC0415 - Rich, only to show

        found = self.arms()
        numbers = zip(*(found[name] for name in ("estimate", "low", "high")), strict=True)
        rows = [
            [arm, *(f"{one:.4g}" if math.isfinite(one) else "–" for one in known), state]
            for arm, known, state in zip(found["arm"], numbers, found["state"], strict=True)
        ]
        headings = ["arm", "estimate", "from", "to", "state"]
        name = f"After phase {self.phase}"
        return Shown(name=name, headings=headings, rows=rows, words=["state"], note=self.words())

    def chart(self, name: str | None = None) -> Chart:
        """Return estimates and intervals, one row per arm of which something is known."""
        known_name(name, self.charts, "name")
        found = self.arms()
        rows = [
            Row(
                label=arm,
                below=state,
                value=value,
                low=low,
                high=high,
                colour=PALETTE[0] if arm in self.survivors else FAINT,
                faint=arm not in self.survivors,
            )
            for arm, value, low, high, state in zip(*found.values(), strict=True)
            if math.isfinite(low) and math.isfinite(high)
        ]
        if not rows:
            raise ProtocolError("nothing is known of any arm yet, so there is nothing to draw")
        panel = Rows(x=Axis("estimated mean"), rows=rows)
        return Chart("intervals", [panel], size=(8.0, 1.0 + 0.3 * len(rows)))

    @property
    def of_intervals(self) -> str:
        """What is said of all intervals, up to where the assumptions follow."""
        join = ", if" if self.level < 1 else ". All of this assumes that"
        return f"All intervals {self.coverage}{join}"


def answer_of(server: Server, *, level: float = 0.05) -> Answer:
    r"""Return what a server can say after the phase that it closed last.

    Intervals are simultaneous over arms and phases at their own level: estimate :math:`\pm
    \sqrt{2 v \ln(2 K \pi^2 p^2 / (6 \delta_i))}`, v the variance proxy of the estimate. An arm
    that is out keeps the pulls it has. Of rules that let pulls follow from what was observed they
    are the same, and no probability is known for them.

    Parameters
    ----------
    server : Server
        With at least one closed phase.
    level : float
        Error probability of the intervals, :math:`\delta_i`.

    Examples
    --------
    >>> from fedbandits.protocol import Update
    >>> from fedbandits.rules.algorithms import Fed1Ucb
    >>> from fedbandits.rules.beliefs import Beliefs
    >>> rule = Fed1Ucb(pulls="10", clients=1).rule(
    ...     Beliefs(n_arms=2, horizon=1000, noise=0.01, spread=0.0)
    ... )
    >>> server = Server(rule, arms=["red", "blue"])
    >>> assignment = server.open(["alice"])
    >>> server.receive(
    ...     Update(header=server.header, phase=1, client="alice", counts=(10, 10), means=(0.2, 0.9))
    ... )
    >>> decision = server.close()
    >>> said = answer_of(server).words().splitlines()
    >>> print(said[0])
    After 1 phase with 1 client it is over: one option is left. The answer is for this one client.
    >>> print(said[1])
    The answer is blue: estimated 0.9 (a little optimistic, because it was picked for looking
    best), between 0.8901 and 0.9099.
    """
    check_number(level, "level")
    as_level(level, "level")
    decision = server.decision
    if decision is None:
        raise ProtocolError("nothing is known before the first phase is closed")
    widths = server.interval_widths(level)
    proven, covered = server.run_state.guarantee, coverage(server.run_state, level)
    arms, estimates = server.arms, np.array(decision.estimates)
    return Answer(
        winner=None if decision.winner is None else arms[decision.winner],
        survivors=tuple(arm for arm, active in zip(arms, decision.active, strict=True) if active),
        reason=decision.reason,
        tolerance=server.rule.epsilon,
        whom=proven.whom,
        phase=decision.phase,
        clients=server.heard,
        estimates=dict(zip(arms, estimates.tolist(), strict=True)),
        intervals=_intervals(server, estimates, widths),
        level=1.0 if covered.error is None else covered.error,
        coverage=_coverage_words(covered),
        error=guarantee_words(proven),
        assumptions=tuple(one.words for one in _open(covered) if not one.why),
        withdrawn={arms[arm]: reason for arm, reason in sorted(server.withdrawn.items())},
        stopped=server.run_state.stopped,
        adjusted="" if server.terms.covariate is None else server.terms.covariate.name,
        guardrails=tuple(_guardrail_words(server)),
    )


def _guardrail_words(server: Server) -> Iterator[str]:
    """Yield what guardrails say of the arms that are left."""
    rails = {rail.name: rail for rail in server.terms.guardrails}
    left = {server.arms[arm] for arm in np.flatnonzero(server.run_state.left).tolist()}
    for one in guarded(server.run_state):
        rail, known = rails[one.guardrail], (one.mean, one.low, one.high)
        shown = [rail.shown(end) for end in known if end is not None]
        if one.arm in left and shown:
            mean, low, high = shown
            sure = "it is" if one.state == "within the limit" else "nothing is certain yet"
            yield (
                f"The guardrail of {one.arm} is {rail.words}: {sure}, with {mean} so far, between"
                f" {low} and {high}."
            )


def _intervals(
    server: Server, estimates: FloatArray, widths: FloatArray
) -> dict[str, tuple[float, float]]:
    """Return the intervals; the part of them in which the mean may lie, if outcomes have a range.

    Intervals of which nothing is known stay infinite. If outcomes have lain outside the range it
    bounds nothing.
    """
    low, high = estimates - widths, estimates + widths
    limits = server.terms.range
    in_range = server.run_state.guarantee.condition(Assumption.IN_RANGE)
    if limits is not None and (in_range is None or in_range.status is not Status.BROKEN):
        known = np.isfinite(widths)
        low = np.where(known, np.clip(low, *limits), low)
        high = np.where(known, np.clip(high, *limits), high)
    return dict(zip(server.arms, zip(low.tolist(), high.tolist(), strict=True), strict=True))


def conclusion_of(server: Server) -> Conclusion:
    """Return the last word of a server that is finished, for all clients.

    If it has decided nothing, that is what it says.
    """
    decision = server.run_state.last_word
    if decision is None:
        raise ProtocolError("there is no last word before the run is over")
    answer = None if server.decision is None else answer_of(server)
    unknown = [(-math.inf, math.inf)] * len(server.arms)
    low, high = zip(*(answer.intervals.values() if answer else unknown), strict=True)
    nothing = "It is over, and nothing was decided: no phase was closed."
    if decision.reason is Reason.HARM:
        gone = (f"{server.arms[arm]} ({why})" for arm, why in sorted(server.withdrawn.items()))
        nothing = f"It is over: every option was withdrawn, and none is left: {', '.join(gone)}."
    return Conclusion(
        header=server.header,
        arms=server.arms,
        decision=decision,
        low=low,
        high=high,
        level=answer.level if answer else 1.0,
        error=answer.error if answer else None,
        assumptions=answer.assumptions if answer else (),
        words=answer.words() if answer else nothing,
    )
