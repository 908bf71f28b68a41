"""The client machine: it pulls what it is assigned and reports statistics, nothing else.

It holds its own privacy policy, and refuses what the policy does not allow, whatever the server
asks. What it has sent is in its outbox.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import Enum
from typing import TypeAlias

import numpy as np

from fedbandits.errors import AssumptionWarning, InputError, ProtocolError
from fedbandits.privacy.accounting import UNBOUNDED, Spending
from fedbandits.privacy.mechanisms import PLACES_PER_SCALE, Mechanism, Noised, Rounded
from fedbandits.privacy.packing import pack
from fedbandits.privacy.policy import Privacy
from fedbandits.privacy.sampling import Noise, discrete_noise
from fedbandits.protocol.covariates import Adjustment, Covariate, gain_of
from fedbandits.protocol.messages import (
    Assignment,
    Decision,
    Halt,
    Header,
    Refusal,
    Refused,
    Release,
    Update,
)
from fedbandits.protocol.outbox import Entry, Outbox
from fedbandits.protocol.outcomes import (
    Limits,
    Outside,
    joint_range,
    parted,
    refuse_outside,
)
from fedbandits.protocol.turns import Turns, in_order
from fedbandits.protocol.unfinished import ArmSums, MemoryWorkbench, Unfinished, Workbench
from fedbandits.rules.arrays import FloatArray, IntArray
from fedbandits.rules.guardrails import Guardrail
from fedbandits.rules.variance_components import merged_squares

Returned: TypeAlias = (
    Sequence[float]
    | Sequence[Sequence[float]]
    | Mapping[str, Sequence[float] | FloatArray]
    | FloatArray
)
"""The n observations of a call; if there are guardrails or a covariate, see `parted`."""

Pull: TypeAlias = Callable[[int, int], Returned]
"""``pull(arm, n)`` tries an arm n times and returns the n observations."""

MOST_AT_ONCE = 65_536
"""So many observations are asked for in one call, which bounds what a client ever holds."""


# A scale that another machine has computed may differ in its last digits.
_ALIKE = 1.0 - 1e-9


class RefusalError(ProtocolError):
    """A client may not answer an assignment; its ``refusal`` is the message to send instead."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.words)
        self.refusal = refusal


Halted: TypeAlias = Callable[[], Halt | None]
"""Says what is halted at the client at this moment; asked before every call of ``pull``."""


def _nothing() -> None:
    """Say that nothing is halted."""


def _in_words(arm: int, pulls: int) -> str:
    return f"pull(arm={arm}, n={pulls})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """How long a client may play before it answers that it has not finished.

    Parameters
    ----------
    seconds : float
        Of this call of `Client.play`. One call of ``pull`` is always made.
    in_all : float
        Of the whole phase; then the client gives it up.
    clock : callable
        The time in seconds.
    """

    seconds: float
    in_all: float
    clock: Callable[[], float]


_UNLIMITED = Slice(seconds=math.inf, in_all=math.inf, clock=lambda: 0.0)


class ClientState(Enum):
    """Where a client is."""

    WAITING = "waiting"
    """No phase played yet."""
    REPORTED = "reported"
    """The last assignment is played and its update made."""
    FINISHED = "finished"
    """The winner is known."""


@dataclass(eq=False, repr=False)
class Client:
    """One client of a game.

    Parameters
    ----------
    name : str
        Who it is, in its updates.
    pull : callable
        ``pull(arm, n) -> n observations``: the user's code.
    privacy : Privacy, optional
        The client's own policy. Without one it protects its means as the server asks.
    outbox : Outbox, optional
        What it has sent so far, and is to be kept of what it sends: an `AuditFile` outlasts the
        process. By default the last update is kept, in memory.
    noise : Noise, optional
        Where noise comes from; OpenDP's discrete samplers by default. A seeded one is for
        simulations only.
    rng : numpy.random.Generator, optional
        For stochastic rounding; not seeded by default.
    turns : Turns
        In which order the arms are pulled; one after the other by default.
    min_pulls : int
        A mean of fewer pulls is not sent, whatever the policy says.
    halted : callable, optional
        Says what is halted here, without any server; nothing by default.
    workbench : Workbench, optional
        Where a phase is kept that is not finished; in memory by default.
    limits : (float, float), optional
        The range that contains every outcome. Without one nothing is refused; a mechanism clips to
        its own range all the same.
    outside : {"refuse", "clip"}
        What becomes of an outcome outside these limits. If means are noised it is clipped
        whatever is said here: a refusal would tell of a single outcome.
    where : callable, optional
        From an arm and a number of pulls to what an error about them begins with.
    uneven : callable, optional
        Says of which arms suspiciously many units are lost here; of none by default.
    guardrails : tuple of Guardrail
        Second outcomes that it sends sums of; an assignment that has other ones is refused.
    covariate : Covariate, optional
        What outcomes are adjusted by. Then ``pull`` returns a mapping, of outcomes and covariates.
    adjustment : callable, optional
        From the name of a run to what this client adjusts by in all of it; what the covariate has
        fixed by default.

    Examples
    --------
    >>> header = Header(run="demo", epoch=1, arms="x")
    >>> alice = Client("alice", lambda arm, n: [0.25 + arm] * n)
    >>> alice.play(Assignment(header=header, phase=1, pulls=(4, 0, 2))).means
    (0.25, 0.0, 2.25)
    """

    name: str
    pull: Pull
    _: KW_ONLY
    privacy: Privacy | None = None
    outbox: Outbox | None = None
    noise: Noise = discrete_noise
    rng: np.random.Generator | None = None
    turns: Turns = in_order
    min_pulls: int = 1
    halted: Halted = _nothing
    workbench: Workbench | None = None
    limits: Limits | None = None
    outside: Outside = "refuse"
    where: Callable[[int, int], str] = _in_words
    uneven: Callable[[], tuple[int, ...]] = tuple
    guardrails: tuple[Guardrail, ...] = ()
    covariate: Covariate | None = None
    adjustment: Callable[[str], Adjustment] | None = None

    state: ClientState = field(default=ClientState.WAITING, init=False)
    best: int | None = field(default=None, init=False)
    spent: Spending = field(default_factory=Spending, init=False)
    releases: int = field(default=0, init=False)
    clipped: int = field(default=0, init=False)
    _header: Header | None = field(default=None, init=False)
    # What was sent last, by game.
    _last: dict[tuple[str, str, int], Entry] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._workbench = MemoryWorkbench() if self.workbench is None else self.workbench
        self._rng = np.random.default_rng() if self.rng is None else self.rng
        if self.privacy is not None:
            self.min_pulls = max(self.min_pulls, self.privacy.min_pulls)
        if self.outbox is not None:
            self.outbox.claim()
            for entry in self.outbox:
                self._recall(entry)
        elif self.privacy and self.privacy.noise and self.noise is discrete_noise:
            warnings.warn(
                f"client {self.name} has no outbox: after a restart it would draw noise again for"
                " what it has sent, and forget what it has spent; give it an AuditFile",
                AssumptionWarning,
                stacklevel=3,
            )

    def _recall(self, entry: Entry) -> None:
        """Take up an entry of the outbox: what was sent, and what it has spent."""
        if entry.update.client != self.name:
            raise InputError(
                "outbox",
                f'is that of client "{entry.update.client}", and this is "{self.name}"; give every'
                " client its own",
            )
        self._last[_game(entry.update.header)] = entry
        self.spent = self._after_spending(self._spent_by(entry.release, entry.update.counts))
        self.releases += 1
        self.clipped += entry.clipped

    def _spent_by(self, release: Release, counts: Sequence[int]) -> Spending:
        """Return what a release spends by today's policy, whatever it was made under."""
        policy, pulls = self.privacy, [n for n in counts if n]
        if policy is None or policy.noise is None or not pulls:
            return Spending()
        if isinstance(release.mechanism, Noised):
            return policy.spends(min(pulls), len(pulls), release.mechanism)
        # Means without noise protect nobody. An observation of another release is another matter.
        return Spending() if policy.level == "event" else UNBOUNDED

    def _after_spending(self, spent: Spending) -> Spending:
        return self.spent if self.privacy is None else self.privacy.total(self.spent, spent)

    def play(self, assignment: Assignment, within: Slice | None = None) -> Update:
        """Play a phase and return its update; the same assignment again gets the same update.

        Nothing is pulled of an arm that is withdrawn or halted here, from the next call of ``pull``
        on, and nothing is reported of it: a mean of the first few pulls would be less protected
        than was agreed.

        Parameters
        ----------
        assignment : Assignment
            What to play.
        within : Slice, optional
            How long to play before the rest is left for the next time; until it is done by default.

        Raises
        ------
        RefusalError
            If the policy does not allow the answer, or the client has played on without this
            server, and nothing was pulled then; if the client is halted; or if the time is over:
            what was pulled is kept, and the client goes on when it is asked again.
        """
        self._check(assignment.header)
        last = self._last.get(_game(assignment.header))
        if last is not None and assignment.phase <= last.update.phase:
            return self._again(assignment, last)
        if self.state is ClientState.FINISHED:
            raise ProtocolError(f"client {self.name} is finished: it cannot take an assignment")
        self._allowed(assignment, assignment.pulls)
        adjustment = self._adjustment(assignment.header.run)
        work = self._played(assignment, adjustment, within or _UNLIMITED)
        left_out = {*assignment.withdrawn, *work.halted}
        sums = [ArmSums() if k in left_out else kept for k, kept in enumerate(work.sums)]
        counts = tuple(kept.pulls for kept in sums)
        spent = self._allowed(assignment, counts)
        release, pulled = assignment.release, np.array(counts) > 0
        means = np.array([kept.total / kept.pulls if kept.pulls else 0.0 for kept in sums])
        clipped = sum(kept.clipped for kept in sums)
        gain = None
        if adjustment is not None:
            gain = gain_of((kept.squares, kept.plain_squares) for kept in sums)
        mechanism, packed = release.mechanism, b""
        if mechanism is not None:
            places = self._places(mechanism, means[pulled])
            packed = pack(places.tolist(), mechanism.bits)
            means[pulled] = mechanism.values(places)
        update = Update(
            header=assignment.header,
            phase=assignment.phase,
            client=self.name,
            counts=counts,
            means=tuple(means.tolist()) if mechanism is None else (),
            packed=packed,
            squares=tuple(kept.squares for kept in sums) if release.squares else None,
            clipped=0 if isinstance(mechanism, Noised) else clipped,
            halted=work.halted,
            uneven=() if isinstance(mechanism, Noised) else self.uneven(),
            guardrails=tuple(
                tuple(kept.guardrails[place] if kept.pulls else 0.0 for kept in sums)
                for place in range(len(self.guardrails))
            ),
            gain=None if isinstance(mechanism, Noised) else gain,
        )
        total = self._after_spending(spent)
        entry = Entry(
            update=update,
            release=release,
            means=tuple(means.tolist()),
            clipped=clipped,
            gain=gain,
            spent=spent,
            total=total,
            budget="" if self.privacy is None else self.privacy.in_words(total),
        )
        if self.outbox is not None:
            self.outbox.append(entry)
        self._workbench.clear()
        self._recall(entry)
        self._header, self.state = assignment.header, ClientState.REPORTED
        return update

    def has_played(self, run: str) -> bool:
        """Return whether the client has sent anything in a run, or has begun a phase of it."""
        begun = self._workbench.read()
        return run in {name for name, _, _ in self._last} or (
            begun is not None and begun.run == run
        )

    def _adjustment(self, run: str) -> Adjustment | None:
        """Return what outcomes of a run are adjusted by; None if there is no covariate."""
        if self.covariate is None:
            return None
        found = self.covariate.fixed if self.adjustment is None else self.adjustment(run)
        if found is None:
            raise InputError("adjustment", "is missing, and the covariate fixes no coefficient")
        return found

    def _played(
        self, assignment: Assignment, adjustment: Adjustment | None, within: Slice
    ) -> Unfinished:
        """Pull what is left of a phase, and return all that came of it."""
        header, pulls = assignment.header, assignment.pulls
        begun = Unfinished(
            run=header.run,
            arms=header.arms,
            phase=assignment.phase,
            pulls=pulls,
            sums=(ArmSums(),) * len(pulls),
        )
        kept = self._workbench.read()
        if kept is not None and _phase_of(kept) == _phase_of(begun):
            begun = kept
        sums, halted = list(begun.sums), set(begun.halted)
        asked = {k for k, n in enumerate(pulls) if n}.difference(assignment.withdrawn)
        calls, first, start = 0, True, within.clock()

        def work(calls: int) -> Unfinished:
            return replace(
                begun,
                calls=calls,
                sums=tuple(sums),
                halted=tuple(sorted(halted)),
                seconds=begun.seconds + within.clock() - start,
            )

        def left(why: Refused, detail: str) -> RefusalError:
            self._workbench.write(work(calls))
            return self._refused(assignment, why, detail)

        for calls, (arm, n) in enumerate(self._calls(assignment)):
            if calls < begun.calls:
                continue
            halt = self.halted()
            if halt is not None:
                out = asked.difference(halted).intersection(halt.arms)
                if out and out == asked.difference(halted):
                    raise left(Refused.HALTED, halt.reason)
                halted |= out
            if arm in halted or arm in assignment.withdrawn:
                continue
            seconds = within.clock() - start
            if seconds >= within.seconds and not first:
                raise left(Refused.PAUSED, f"{calls} calls of pull are made")
            if begun.seconds + seconds > within.in_all:
                raise TimeoutError(
                    f"pull has taken more than {within.in_all:g} s for phase {assignment.phase};"
                    " give it longer (patience.pulls), or mend it"
                )
            sums[arm] = self._observe(sums[arm], arm, n, assignment.release, adjustment)
            first = False
        return work(calls + 1)

    def _calls(self, assignment: Assignment) -> Iterator[tuple[int, int]]:
        """Yield the calls of ``pull`` that a phase takes, which is always the same sequence."""
        for arm, n in self.turns(assignment.phase, assignment.pulls):
            for start in range(0, n, MOST_AT_ONCE):
                yield arm, min(n - start, MOST_AT_ONCE)

    def _again(self, assignment: Assignment, last: Entry) -> Update:
        """Return what was sent for the last phase, as it was."""
        update = last.update
        # Nothing was sent of arms that were withdrawn or halted by then.
        sent, asked = update.counts, assignment.pulls
        same = (assignment.phase, assignment.release) == (update.phase, last.release)
        same &= len(sent) == len(asked) and all(map(lambda n, all_: n in (0, all_), sent, asked))
        after = f"phase {assignment.phase} after phase {update.phase}"
        if self.state is ClientState.FINISHED:
            raise ProtocolError(f"client {self.name}: {after}")
        if not same:
            raise self._refused(assignment, Refused.PLAYED, after)
        self._header, self.state = assignment.header, ClientState.REPORTED
        return replace(update, header=assignment.header)

    def refuse_forbidden(self, assignment: Assignment) -> None:
        """Refuse what the policy does not allow, before anything is begun for it.

        Raises
        ------
        RefusalError
            If `play` would refuse it whatever is observed.
        """
        last = self._last.get(_game(assignment.header))
        if last is None or assignment.phase > last.update.phase:
            self._allowed(assignment, assignment.pulls)

    def _allowed(self, assignment: Assignment, counts: Sequence[int]) -> Spending:
        """Return what sending means of so many pulls spends, or refuse it."""
        policy, mechanism = self.privacy, assignment.release.mechanism
        if assignment.release.guardrails != self.guardrails:
            asked = ", ".join(rail.words for rail in assignment.release.guardrails) or "none"
            own = ", ".join(rail.words for rail in self.guardrails) or "none"
            raise self._refused(
                assignment,
                Refused.POLICY,
                f"guardrails: {asked}, and here {own}; server and clients need the same in"
                " fedbandits.toml, in the same order",
            )
        pulls = [n for n in counts if n]
        fewest = min(pulls, default=0)
        if pulls and fewest < self.min_pulls:
            raise self._refused(
                assignment, Refused.FEW_PULLS, f"{fewest} pulls, and min_pulls is {self.min_pulls}"
            )
        if policy is None or not pulls:
            return Spending()
        if not _protects(policy, assignment.release, fewest, len(assignment.pulls)):
            raise self._refused(
                assignment, Refused.POLICY, f"{assignment.release}, and the policy is {policy}"
            )
        if not isinstance(mechanism, Noised):
            return Spending()
        if policy.releases is not None and self.releases >= policy.releases:
            raise self._refused(
                assignment, Refused.BUDGET, f"all {policy.releases} releases were made"
            )
        spent = self._spent_by(assignment.release, counts)
        total = policy.total(self.spent, spent)
        if not policy.within_budget(total):
            raise self._refused(assignment, Refused.BUDGET, policy.in_words(total))
        if self.noise is discrete_noise:  # said before anything is pulled for nothing
            discrete_noise(mechanism.kind, float(PLACES_PER_SCALE), 1)
        return spent

    def _refused(self, assignment: Assignment, why: Refused, detail: str) -> RefusalError:
        return RefusalError(assignment.refused(self.name, why, detail))

    def _places(self, mechanism: Mechanism, means: FloatArray) -> IntArray:
        if isinstance(mechanism, Noised):
            return mechanism.places(means, self.noise)
        return mechanism.places(means, self._rng)

    def conclude(self, decision: Decision) -> None:
        """Take the last decision: ``best`` is then the arm to stay on."""
        self._check(decision.header)
        if not decision.final:
            raise ProtocolError(f"client {self.name}: phase {decision.phase} is not the last")
        self.state = ClientState.FINISHED
        self.best = decision.best if any(decision.active) else None

    def _check(self, header: Header) -> None:
        """Refuse another game; a server that was restarted counts its epoch up."""
        known = self._header
        if known and (_game(header) != _game(known) or header.epoch < known.epoch):
            raise ProtocolError(f"client {self.name}: {header}, but {known} is being played")

    def _observe(
        self, kept: ArmSums, arm: int, n: int, release: Release, adjustment: Adjustment | None
    ) -> ArmSums:
        """Return an arm's sums with fresh observations."""
        returned, mechanism = self.pull(arm, n), release.mechanism
        own = None if mechanism is None else (mechanism.low, mechanism.high)
        plain_total, plain_squares = kept.plain_total, kept.plain_squares
        try:
            outcomes, guarded, covariates = parted(
                returned, n, self.guardrails, covariate=self.covariate is not None
            )
            if self.covariate is None or adjustment is None:
                limits = joint_range((self.limits, own))
                found, clipped = self._held_to_range(outcomes, release, limits)
            else:
                plain, outside = self._held_to_range(outcomes, release, self.limits)
                held = self.covariate.held(covariates, clips=self._clips(release))
                found, clipped = _clipped(self._adjusted(adjustment, plain, held), own)
                clipped += outside
                before = (kept.pulls, plain_total, plain_squares)
                plain_total, plain_squares = _with_sums(before, plain)
        except InputError as error:
            raise error.within(self.where(arm, n)) from None
        total, squares = _with_sums((kept.pulls, kept.total, kept.squares), found)
        if not release.squares and adjustment is None:
            squares = kept.squares
        rails = np.array(kept.guardrails or np.zeros(len(guarded))) + guarded.sum(axis=1)
        return ArmSums(
            pulls=kept.pulls + n,
            total=total,
            squares=squares,
            clipped=kept.clipped + clipped,
            guardrails=tuple(rails.tolist()),
            plain_total=plain_total,
            plain_squares=plain_squares,
        )

    def _clips(self, release: Release) -> bool:
        return self.outside == "clip" or isinstance(release.mechanism, Noised)

    def _held_to_range(
        self, outcomes: FloatArray, release: Release, limits: Limits | None
    ) -> tuple[FloatArray, int]:
        """Return outcomes inside a range, and how many had to be clipped to it.

        Those outside the declared range are refused, unless they are to be clipped.
        """
        if self.limits is not None and not self._clips(release):
            refuse_outside(outcomes, self.limits)
        return _clipped(outcomes, limits)

    def _adjusted(
        self, adjustment: Adjustment, outcomes: FloatArray, covariates: FloatArray
    ) -> FloatArray:
        """Return adjusted outcomes; only their last digits could lie outside their range."""
        found = adjustment(outcomes, covariates)
        if self.covariate is None or self.limits is None:
            return found
        return np.clip(found, *self.covariate.adjusted_range(self.limits))


def _clipped(values: FloatArray, limits: Limits | None) -> tuple[FloatArray, int]:
    """Return values clipped to a range, and how many were outside."""
    if limits is None:
        return values, 0
    inside = np.clip(values, *limits)
    return inside, int((inside != values).sum())


def _with_sums(before: tuple[int, float, float], fresh: FloatArray) -> tuple[float, float]:
    """Return a sum and a sum of squares around the mean, with fresh values added."""
    total = float(fresh.sum())
    apart = fresh - total / len(fresh)
    merged = merged_squares(before, (len(fresh), total, float(apart @ apart)))
    return before[1] + total, float(merged)


def _phase_of(work: Unfinished) -> tuple[object, ...]:
    return work.run, work.arms, work.phase, work.pulls


def _protects(policy: Privacy, release: Release, pulls: int, arms: int) -> bool:
    """Return whether a release is protected as a policy asks, or more."""
    asked = release.mechanism
    if asked is None or release.squares or release.guardrails:
        return False
    own = policy.mechanism(pulls, arms, asked.bits)
    if isinstance(own, Noised) and isinstance(asked, Noised):
        return replace(asked, scale=own.scale) == own and asked.scale >= own.scale * _ALIKE
    if isinstance(own, Rounded) and isinstance(asked, Rounded):
        return replace(asked, bits=own.bits) == own and asked.bits <= own.bits
    return False


def _game(header: Header) -> tuple[str, str, int]:
    """Return what makes a game another one; a server that was restarted goes on with the same."""
    return header.run, header.arms, header.version
