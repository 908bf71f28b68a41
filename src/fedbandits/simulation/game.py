"""A game to simulate, and its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from fedbandits.errors import InputError
from fedbandits.privacy.policy import Privacy
from fedbandits.problems.problem import Problem, gaps
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.indices import SlotRule
from fedbandits.rules.phased import Charge, PhasedRule, Player
from fedbandits.simulation.attacks import Attack
from fedbandits.simulation.regret import Breakpoints, RegretLedger
from fedbandits.simulation.streams import Streams


def as_played(problem: Problem, rule: PhasedRule | SlotRule) -> Problem:
    """Return a problem as those see it who play by a rule."""
    return problem.at_server() if rule.player is Player.SERVER else problem


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Game:
    """Everything that a driver needs to play replications of one variant.

    Parameters
    ----------
    problem : Problem
        What is true.
    rule : PhasedRule or SlotRule
        What decides.
    communication_cost : float
        C.
    seed : int
        Of the random streams.
    grid : array of int
        Slots at which regret is wanted.
    memory_limit : int
        Bytes that the statistics of clients may take in one process.
    trace : bool
        Whether to keep the estimates of every phase.
    breakpoints : bool
        Whether to keep every point at which a regret curve bends or jumps.
    privacy : Privacy, optional
        How clients protect their means.
    attack : Attack, optional
        What clients do that lie; none do by default.
    """

    problem: Problem
    rule: PhasedRule | SlotRule
    communication_cost: float
    seed: int
    grid: IntArray
    memory_limit: int
    trace: bool = False
    breakpoints: bool = False
    privacy: Privacy | None = None
    attack: Attack | None = None

    @property
    def played(self) -> Problem:
        """The problem as its players see it."""
        return as_played(self.problem, self.rule)

    def phased_rule(self) -> PhasedRule:
        """Return the rule of a game that is played in phases."""
        if self.rule.decides_every_slot:
            raise TypeError("a slot rule has no phases")
        return self.rule

    def streams(self) -> Streams:
        """Return the random streams."""
        return Streams(self.seed, self.problem.name)


def ledger_of(games: Sequence[Game], of_row: IntArray) -> RegretLedger:
    """Return an empty account of the regret of several games with one horizon and grid.

    Parameters
    ----------
    games : sequence of Game
        What is played.
    of_row : array of int
        Which game every row is a replication of.
    """
    first = games[0]
    # What differs between games has an axis of rows; what does not, one of length 1.
    apart = of_row if len(games) > 1 else np.zeros(1, dtype=np.int64)
    return RegretLedger(
        gaps=np.array([gaps(game.problem) for game in games])[apart],
        horizon=first.rule.horizon,
        grid=first.grid,
        replications=of_row.size,
        cost=np.array([game.communication_cost for game in games])[apart],
        charge=first.rule.charge if not first.rule.decides_every_slot else Charge.NOTHING,
        breakpoints=first.breakpoints,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlayedGames:
    """The results of games, one entry per replication.

    Parameters
    ----------
    exploration, communication : array of float, shape (replications,)
        The two regrets at the horizon.
    clients, phases : array of int
        Clients admitted, phases decided.
    decision_slot : array of int
        The slot after which one arm was left; -1 if undecided.
    winner : array of int
        That arm; -1 if undecided.
    capped : array of bool
        Whether a cap on clients or phases was hit.
    spent : array of bool
        Whether the clients' privacy budget ended it undecided.
    uplink_bits : array of float
        Bits of all means that clients have sent; 64 for one that is sent as it is.
    clipped : array of float
        Observations that clients have clipped to a declared range.
    exploration_curves, communication_curves : array, shape (replications, grid)
        The regrets on the grid.
    trace : array, shape (phases, replications, arms), optional
        Estimates after every phase; NaN for an arm or a replication that was out.
    breakpoints : tuple of Breakpoints
        One per replication, if asked for.
    """

    exploration: FloatArray
    communication: FloatArray
    clients: IntArray
    phases: IntArray
    decision_slot: IntArray
    winner: IntArray
    capped: BoolArray
    spent: BoolArray
    uplink_bits: FloatArray
    clipped: FloatArray
    exploration_curves: FloatArray
    communication_curves: FloatArray
    trace: FloatArray | None = None
    breakpoints: tuple[Breakpoints, ...] = ()

    @classmethod
    def of(cls, ledger: RegretLedger, **others: Any) -> PlayedGames:
        """Return the games whose regret is in a ledger."""
        return cls(
            exploration=ledger.exploration,
            communication=ledger.communication,
            exploration_curves=ledger.exploration_curves,
            communication_curves=ledger.communication_curves,
            breakpoints=tuple(ledger.breakpoints()),
            **others,
        )

    @property
    def total(self) -> FloatArray:
        """Total regret at the horizon."""
        return self.exploration + self.communication

    def part(self, rows: IntArray) -> PlayedGames:
        """Return that of some replications."""
        arrays = {name: getattr(self, name)[rows] for name in array_names()}
        trace = self.trace
        if trace is not None:
            trace = trace[: arrays["phases"].max(initial=0), rows]
        points = tuple(self.breakpoints[row] for row in rows.tolist()) if self.breakpoints else ()
        return PlayedGames(**arrays, trace=trace, breakpoints=points)

    def up_to(self, points: int) -> PlayedGames:
        """Return the same games with regret curves on the first points of the grid alone."""
        curves = ("exploration_curves", "communication_curves")
        return replace(self, **{name: getattr(self, name)[:, :points] for name in curves})

    @staticmethod
    def joined(parts: Sequence[PlayedGames]) -> PlayedGames:
        """Return several groups of games as one, in order."""
        if len(parts) == 1:
            return parts[0]
        arrays = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in array_names()
        }
        traces = [part.trace for part in parts if part.trace is not None]
        trace = None
        if traces:
            longest = max(len(t) for t in traces)
            padded = [
                np.pad(t, ((0, longest - len(t)), (0, 0), (0, 0)), constant_values=np.nan)
                for t in traces
            ]
            trace = np.concatenate(padded, axis=1)
        points = tuple(point for part in parts for point in part.breakpoints)
        return PlayedGames(**arrays, trace=trace, breakpoints=points)


def array_names() -> list[str]:
    """Return the fields with one entry per replication."""
    return [one.name for one in fields(PlayedGames) if one.name not in ("trace", "breakpoints")]


# How much memory the statistics of clients may take


class OutOfMemoryLimitError(Exception):
    """The statistics of these replications together would exceed the memory limit.

    Streams are keyed by replication, so that they can be begun again in parts.
    """


def check_memory(held: int, limit: int, what: str, lower: str, *, replications: int = 1) -> None:
    """Refuse to use more memory than the limit: play in parts if that helps, else say so.

    Parameters
    ----------
    held, limit : int
        Bytes that one replication takes, and that all may take.
    what, lower : str
        What takes so much, and what to lower.
    replications : int
        How many are held at once.
    """
    if replications * held <= limit:
        return
    if replications > 1:
        raise OutOfMemoryLimitError
    raise InputError(
        "memory_limit",
        f"{what} takes {held / 2**20:,.0f} MiB, and a process may take {limit / 2**20:,.0f} MiB;"
        f" raise it, or lower {lower}",
    )
