"""All that a server knows, as one frozen value that records change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, get_type_hints

import numpy as np

from fedbandits.privacy.mechanisms import Mechanism
from fedbandits.protocol.codec import AnySize, decode, encode
from fedbandits.protocol.journal import Journal
from fedbandits.protocol.messages import Assignment, Decision, Halt, Header, Refused, Update
from fedbandits.protocol.tally import Tally
from fedbandits.protocol.terms import Terms
from fedbandits.rules.arrays import BoolArray, FloatArray
from fedbandits.rules.drift import Trend
from fedbandits.rules.estimates import Estimate
from fedbandits.rules.guarantees import Guarantee
from fedbandits.rules.guardrails import GuardrailSums, looks_at_first
from fedbandits.rules.phased import PhasedRule, Verdict


class ServerState(Enum):
    """Where the server is."""

    READY = "ready"
    """Between phases: the next one can be opened."""
    COLLECTING = "collecting"
    """A phase is being played; updates come in."""
    ENDING = "ending"
    """No phase follows; the last word is to be written."""
    FINISHED = "finished"
    """Nothing more is decided."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judgement:
    """The estimate that a phase was decided by, kept for as long as an arm is out because of it.

    Parameters
    ----------
    phase : int
        Which.
    looks : int
        Its number as far as error probabilities are shared out; see
        `fedbandits.protocol.decisions.looks`.
    active : array of bool
        The arms that were in the game.
    estimate : Estimate
        What was known of them.
    """

    phase: int
    looks: AnySize
    active: BoolArray
    estimate: Estimate

    def verdict(self, rule: PhasedRule, active: BoolArray) -> Verdict:
        """Return what a rule decides if only these arms are in the game."""
        return rule.decide(phase=self.looks, active=active, estimate=self.estimate)


@dataclass(frozen=True, kw_only=True, eq=False)
class RunState:
    """What a run is at a moment. `fedbandits.protocol.fold.apply` makes the next one.

    Mappings and arrays are shared between states and never written into.

    Parameters
    ----------
    terms : Terms
        What no record changes.
    stage : ServerState
        Between phases, in one, or finished.
    header : Header
        Of messages of the server that has the run now.
    phase, slots_played : int
        The last phase that was opened, and slots in all phases so far.
    capped : bool
        Whether the cap on clients has ever cut admissions short.
    abandoned : int
        Phases that were abandoned since the last decision.
    assignment : Assignment or None
        Of the last phase.
    columns : mapping from str to int
        The admitted clients, with their columns in tallies.
    reports : Journal from str to Update
        The updates of the open phase.
    active : array of bool
        The arms in the game.
    returning : array of bool
        Arms that a withdrawal has brought back while a phase was open: active from the next one on.
    estimates, widths : array
        Of every arm, as of the last decision in which it was active.
    counted : Tally
        All that was reported in phases that are over.
    behind : Tally or None
        What is behind ``estimates``: an abandoned phase may have counted more since. None before
        the first decision.
    beaten : mapping from int to Judgement
        What an arm was dropped by, for arms that are out and were not withdrawn.
    decision : Decision or None
        What is known: the last decision, without arms that were withdrawn since; the last word once
        the run is over. None if nothing was decided.
    last_word : Decision or None
        Once the run is over.
    withdrawn : mapping from int to str
        Arms that somebody, or a guardrail, has taken out, and why.
    recalled : frozenset of str
        Clients that have confirmed all withdrawals so far.
    halts : mapping from str to Halt
        What is halted at clients by their operators.
    stopped : str
        Why somebody has stopped the run, in their words.
    faults : Journal
        Clients of invalid updates, one entry for each.
    outside : frozenset of str
        Clients with means outside the range, which were not counted.
    refusals : Journal
        Which client has refused which phase, and why.
    homes : mapping from str to str
        Which node answers for a client, by the fingerprint of its key.
    claims : frozenset of (str, str)
        Clients and nodes that have claimed them while another one answered for them.
    keys : Journal from str to bytes
        The public keys that clients sign with, as far as they are known; the last one counts.
    head : str
        Checksum of the log at the last decision that the server has signed; empty if there is none.
    guarantee : Guarantee
        What is still proven.
    comebacks : int
        In how many ways an arm may have missed phases and come back; see
        `fedbandits.protocol.decisions.looks`.
    decided_as : int
        The number of the phase by which the last decision has its share of the error.
    decided_on : array of bool or None
        The arms that it was about: those that were in the game before it.
    trend : Trend
        What fresh means differ by from those before.
    clipping : frozenset of str
        Clients that say that they have clipped outcomes, though the trial does not allow it.
    uneven : mapping from str to tuple of int
        Clients that lose suspiciously many units of some arms, and of which.
    guarded : GuardrailSums
        What was reported of guardrails, with the open phase.
    """

    terms: Terms
    stage: ServerState = ServerState.READY
    header: Header
    phase: int = 0
    slots_played: int = 0
    capped: bool = False
    abandoned: int = 0
    assignment: Assignment | None = None
    columns: Mapping[str, int] = field(default_factory=dict)
    reports: Journal[str, Update] = field(default_factory=Journal)
    active: BoolArray
    returning: BoolArray
    estimates: FloatArray
    widths: FloatArray
    counted: Tally
    behind: Tally | None = None
    beaten: Mapping[int, Judgement] = field(default_factory=dict)
    decision: Decision | None = None
    last_word: Decision | None = None
    withdrawn: Mapping[int, str] = field(default_factory=dict)
    recalled: frozenset[str] = frozenset()
    halts: Mapping[str, Halt] = field(default_factory=dict)
    stopped: str = ""
    faults: Journal[str, None] = field(default_factory=Journal)
    outside: frozenset[str] = frozenset()
    refusals: Journal[tuple[str, int, Refused], None] = field(default_factory=Journal)
    homes: Mapping[str, str] = field(default_factory=dict)
    claims: frozenset[tuple[str, str]] = frozenset()
    keys: Journal[str, bytes] = field(default_factory=Journal)
    head: str = ""
    guarantee: Guarantee
    comebacks: AnySize = 1
    decided_as: AnySize = 0
    decided_on: BoolArray | None = None
    trend: Trend
    clipping: frozenset[str] = frozenset()
    uneven: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    guarded: GuardrailSums

    @classmethod
    def begun(cls, terms: Terms) -> RunState:
        """Return the state before the first record."""
        n_arms = terms.rule.n_arms
        return cls(
            terms=terms,
            header=terms.header,
            active=np.ones(n_arms, dtype=np.bool_),
            returning=np.zeros(n_arms, dtype=np.bool_),
            estimates=np.zeros(n_arms),
            widths=np.full(n_arms, np.inf),
            counted=Tally.nothing(n_arms),
            guarantee=terms.guarantee(),
            # A guardrail may withdraw an arm because of what was observed, from the first phase on.
            comebacks=looks_at_first(n_arms) if terms.guardrails else 1,
            trend=Trend.nothing(n_arms),
            guarded=GuardrailSums.nothing(len(terms.guardrails), n_arms),
        )

    def kept(self) -> dict[str, Any]:
        """Return all but the terms as plain values, from which `restored` makes the same state."""
        kept = (one.name for one in fields(self) if one.name != "terms")
        return {name: encode(getattr(self, name)) for name in kept}

    @classmethod
    def restored(cls, said: dict[str, Any], terms: Terms) -> RunState:
        """Return the state that was kept, of a run with these terms.

        Raises
        ------
        InputError
            If it is none.
        """
        kinds = get_type_hints(cls, include_extras=True)
        found = {name: decode(kinds[name], value, name) for name, value in said.items()}
        return cls(terms=terms, **found)

    @property
    def phases_over(self) -> int:
        """How many phases were opened and have ended."""
        return self.phase - (self.stage is ServerState.COLLECTING)

    def with_report(self, update: Update) -> RunState:
        """Return the state with one more update: what happens most, and must cost little."""
        after = object.__new__(RunState)
        after.__dict__.update(self.__dict__, reports=self.reports.added(update.client, update))
        if update.clipped and self.terms.outside != "clip":
            after.__dict__["clipping"] = self.clipping | {update.client}
        if update.uneven:
            after.__dict__["uneven"] = {**self.uneven, update.client: update.uneven}
        if update.guardrails:
            after.__dict__["guarded"] = self.guarded.added(update.counts, update.guardrails)
        return after

    @property
    def left(self) -> BoolArray:
        """The arms that are in the game, or will be from the next phase on."""
        return self.active | self.returning

    @property
    def mechanism(self) -> Mechanism | None:
        """How means of the last phase are protected."""
        return None if self.assignment is None else self.assignment.release.mechanism

    @property
    def conflicts(self) -> tuple[tuple[str, str], ...]:
        """Clients and nodes that claim them, and do not answer for them, in alphabetical order."""
        return tuple(
            sorted((client, node) for client, node in self.claims if self.homes.get(client) != node)
        )

    def is_quarantined(self, client: str) -> bool:
        """Return whether a client is ignored, because its updates were invalid too often."""
        most = self.terms.quarantine_after
        return most is not None and self.faults.count(client) >= most

    @property
    def quarantined(self) -> tuple[str, ...]:
        """The clients that are ignored."""
        if not self.faults:
            return ()
        return tuple(client for client in self.columns if self.is_quarantined(client))

    @property
    def missing(self) -> tuple[str, ...]:
        """The clients that are asked to report and have not, in their order of admission."""
        if self.stage is not ServerState.COLLECTING:
            return ()
        out = {*(client for client, _ in self.reports), *self.quarantined}
        return tuple(client for client in self.columns if client not in out)

    @property
    def has_quorum(self) -> bool:
        """Whether enough clients have reported for the open phase to be decided."""
        if self.terms.rule.estimator.needs_shares and self._unheard():
            return False
        return self.decides_with(len(self.reports))

    def decides_with(self, reports: int) -> bool:
        """Return whether reports of so many clients are enough to decide a phase."""
        # Whose means lie outside the range is ignored and still one of those the answer is for.
        ignored = sum(client not in self.outside for client in self.quarantined)
        return reports >= self.terms.quorum.of(len(self.columns) - ignored)

    def _unheard(self) -> bool:
        """Return whether a client has never reported an arm: then weights mean something else."""
        heard = self.counted.pulled.copy()
        for client, update in self.reports:
            heard[:, self.columns[client]] |= np.array(update.counts) > 0
        asked = self.active & (np.array(self.assignment.pulls if self.assignment else 0) > 0)
        return not heard[asked].all()
