"""What a run will probably still cost: the next phases, played with what is known now.

A projection and no promise: nothing of it is proven, and nothing is decided by it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedbandits.protocol.decisions import looks
from fedbandits.protocol.state import RunState, ServerState
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.distortion import UNDISTORTED, Distortion
from fedbandits.rules.estimates import Estimate
from fedbandits.rules.phased import cut_to_fit
from fedbandits.rules.plans import State
from fedbandits.rules.reports import Reports

MOST_PHASES = 100
"""So many phases are played at most."""

# Arms × clients in all phases together; about a tenth of a second.
_MOST_CELLS = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What phases after the open one will probably cost.

    Parameters
    ----------
    phases, clients, pulls, reports : int
        Of phases to come: how many, clients that join in them, pulls and reports of all clients.
    left : int
        Options that are left after them.
    settled : bool
        Whether the run has an answer then.
    ended : bool
        Whether no phase follows them.
    """

    phases: int = 0
    clients: int = 0
    pulls: int = 0
    reports: int = 0
    left: int = 0
    settled: bool = False
    ended: bool = False

    def words(self) -> str:
        """Return what it rests on, in words.

        Examples
        --------
        >>> Forecast(phases=3, left=1, settled=True).words().split(".")[0]
        'Probably still: until there is an answer'
        """
        if self.settled:
            to = "until there is an answer"
        elif self.ended:
            to = "until the run ends, which brings no answer by these estimates"
        else:
            to = f"for {self.phases} more phases, which bring no answer by these estimates"
        return (
            f"Probably still: {to}. This is a projection and no promise. It assumes that estimates"
            " stay as they are, that clients who join are like those who are in, and that everybody"
            " reports."
        )


def forecast(state: RunState, clients: int | None = None) -> Forecast | str:
    """Return what a run will probably still cost, or why that cannot be said.

    By phases that are over: updates of the open phase do not change it. The rule plans and decides
    one phase after the other. Every client keeps the means that it has;
    one that joins has those of a client that is in. Errors of protected means shrink as they did.

    Parameters
    ----------
    state : RunState
        Where the run is.
    clients : int, optional
        How many there are, if that is known: no more can join.

    Examples
    --------
    >>> from fedbandits.protocol import Server, Update
    >>> from fedbandits.rules.algorithms import Fed1Ucb
    >>> from fedbandits.rules.beliefs import Beliefs
    >>> told = Beliefs(n_arms=2, horizon=10_000, noise=0.5, spread=0.0)
    >>> server = Server(Fed1Ucb(pulls="100", clients=1).rule(told), arms=["red", "blue"])
    >>> forecast(server.run_state)
    'What it will still cost is not known before a phase is decided.'
    >>> assignment = server.open(["alice"])
    >>> sent = Update(
    ...     header=server.header, phase=1, client="alice", counts=(100, 100), means=(0.2, 0.6)
    ... )
    >>> server.receive(sent), server.close().final
    (None, False)
    >>> found = forecast(server.run_state)
    >>> found.settled, found.phases, found.pulls
    (True, 3, 600)
    """
    if state.stage in (ServerState.ENDING, ServerState.FINISHED):
        return "The run is over, and costs nothing more."
    if state.behind is None:
        return "What it will still cost is not known before a phase is decided."
    return _Ahead(state, clients).played()


class _Ahead:
    """The phases to come of a run."""

    def __init__(self, state: RunState, clients: int | None) -> None:
        self.state, self.rule = state, state.terms.rule
        tally = state.counted
        self.counts: IntArray = tally.counts
        heard = np.flatnonzero(tally.pulled.any(axis=0))
        # Whose means a client has: its own, or those of one who has reported.
        own = tally.pulled.any(axis=0)
        turns = heard[np.arange(own.size) % heard.size]
        self.like: IntArray = np.where(own, np.arange(own.size), turns)
        self.heard = heard
        self.tally = tally
        self.most = clients
        self.active: BoolArray = state.active | state.returning
        self.slots = self.rule.slots - state.slots_played
        self.phase, self.capped = state.phase, state.capped

    def played(self) -> Forecast:
        """Play phase after phase until one is the last."""
        state = self.state
        found, cells = Forecast(), 0
        if state.stage is ServerState.COLLECTING and state.assignment is not None:
            self.counts = self.counts + np.array(state.assignment.pulls)[:, np.newaxis]
            found = self._after(found)
        while not (found.settled or found.ended) and found.phases < MOST_PHASES:
            cells += self.counts.size
            if cells > _MOST_CELLS:
                break
            found = self._after(self._next(found))
        return replace(found, left=int(self.active.sum()))

    def _next(self, found: Forecast) -> Forecast:
        """Play one more phase, and count what it costs."""
        rule, n = self.rule, self.counts.shape[1]
        self.phase += 1
        plan = rule.plan(
            State(
                phase=self.phase,
                active=self.active,
                clients=n,
                slots_left=self.slots,
                capped=self.capped,
                estimate=None if rule.scheduled else self._estimate(),
                random=self.state.terms.draws(self.phase) if rule.randomised else None,
            )
        )
        joined = max(int(plan.newcomers), self.state.terms.quorum.least - n)
        if self.most is not None:
            joined = max(0, min(joined, self.most - n))
        if self.state.terms.shares(tuple(self.state.columns)) is not None:
            joined = 0  # all clients with weights are in from the start
        self.capped = bool(plan.capped)
        pulls = cut_to_fit(plan.pulls, self.slots)
        self.slots -= int(pulls.sum())
        none = np.zeros((len(self.counts), joined), dtype=np.int64)
        turns = self.heard[np.arange(n, n + joined) % self.heard.size]
        self.like = np.concatenate([self.like, turns])
        self.counts = np.concatenate([self.counts, none], axis=1) + pulls[:, np.newaxis]
        return replace(
            found,
            phases=found.phases + 1,
            clients=found.clients + joined,
            pulls=found.pulls + int(pulls.sum()) * (n + joined),
            reports=found.reports + n + joined,
            ended=bool((pulls != plan.pulls).any()),
        )

    def _after(self, found: Forecast) -> Forecast:
        """Decide a phase that was played."""
        if found.ended:  # cut by the horizon: nobody reports
            return found
        judged = replace(self.state, phase=self.phase)
        estimate = self._estimate()
        verdict = self.rule.decide(phase=looks(judged), active=self.active, estimate=estimate)
        self.active = self.active & verdict.active
        ended = self.rule.ends_after(self.phase) or self.slots == 0
        return replace(found, settled=bool(verdict.settled), ended=ended)

    def _estimate(self) -> Estimate:
        """Return what the rule would know."""
        tally, like = self.tally, self.like
        known = tally.pulled[:, like]
        values = np.where(known, tally.means[:, like], self.state.estimates[:, np.newaxis])
        pulled = self.counts > 0
        # As many pulls as now, for each pull then.
        share: FloatArray = np.where(known & pulled, tally.counts[:, like], 1) / np.maximum(
            self.counts, 1
        )
        distortion = tally.distortion(self.state.terms.privacy)
        if distortion is not UNDISTORTED:
            distortion = Distortion(
                variance=distortion.variance[:, like] * share,
                scale=distortion.scale[:, like] * share,
                bias=distortion.bias[:, like],
                doubled=distortion.doubled,
            )
        columns = tuple(self.state.columns)
        return self.rule.estimate(
            Reports(
                counts=self.counts,
                means=np.where(pulled, values, 0.0),
                active=self.active,
                squares=tally.squares[:, like] / share,
                shares=self.state.terms.shares(columns),
                distortion=distortion,
            )
        )
