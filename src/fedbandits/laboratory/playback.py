"""One game of the laboratory, phase by phase, to be shown step by step.

The simulator itself plays it. What clients report is watched on its way to the rule, and nothing
is drawn or decided anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedbandits.errors import InputError, check_count
from fedbandits.laboratory.designs import (
    CERTIFIED,
    COLOURS,
    INDEX,
    LABELS,
    MEMORY_LIMIT,
    Laboratory,
)
from fedbandits.problems.problem import gaps
from fedbandits.rules.arrays import BoolArray, IntArray
from fedbandits.simulation.clients import ClientEvidence
from fedbandits.simulation.cohorts import CohortEvidence
from fedbandits.simulation.fidelities import Fidelity
from fedbandits.simulation.game import Game, PlayedGames
from fedbandits.simulation.phases import Evidence, Played, play_phases
from fedbandits.simulation.regret import make_grid
from fedbandits.simulation.variants import Variant

MOST_FRAMES = 300
"""Phases that are shown; games of more are cut there, and said to be."""

MOST_GAMES = 1000
"""Games that can be asked for: those of the last stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What happens in a phase, and what is known after it.

    Parameters
    ----------
    phase : int
        Its number.
    newcomers, clients : int
        Who joins, and how many there are then.
    pulls : tuple of int
        Of each option by each client, in this phase.
    values, widths : tuple of float
        The estimate of each option, and half of its interval or, of an index rule, how far its
        index is above it.
    before, after : tuple of bool
        Whether each option is in play, when the phase begins and when it has been decided.
    settled : bool
        Whether the game is decided by it.
    exploration, communication : float
        Regret of the phase.
    """

    phase: int
    newcomers: int
    clients: int
    pulls: tuple[int, ...]
    values: tuple[float, ...]
    widths: tuple[float, ...]
    before: tuple[bool, ...]
    after: tuple[bool, ...]
    settled: bool
    exploration: float
    communication: float


class Watched:
    """Evidence of one replication that keeps a frame of every phase.

    Parameters
    ----------
    game : Game
        What is played.
    evidence : Evidence
        Where its reports come from.
    """

    def __init__(self, game: Game, evidence: Evidence) -> None:
        self._game, self._evidence = game, evidence
        self._gaps = gaps(game.problem)
        self._clients = self._newcomers = 0
        self.frames: list[Frame] = []

    most_phases = 1

    def admit(self, phase: int, newcomers: IntArray, active: BoolArray) -> None:
        """Admit new clients."""
        self._newcomers = int(newcomers[0])
        self._clients += self._newcomers
        self._evidence.admit(phase, newcomers, active)

    def play(self, phase: int, pulls: IntArray, active: BoolArray, n_phases: int) -> Played:
        """Let clients pull, and keep what the rule makes of it."""
        played = self._evidence.play(phase, pulls, active, n_phases)
        verdict = self._game.phased_rule().decide(
            phase=phase, active=active, estimate=played.estimate.last()
        )
        if len(self.frames) < MOST_FRAMES:
            widths = np.broadcast_to(verdict.widths, verdict.estimates.shape)[0]
            self.frames.append(
                Frame(
                    phase=phase,
                    newcomers=self._newcomers,
                    clients=self._clients,
                    pulls=tuple(pulls[0].tolist()),
                    values=tuple(verdict.estimates[0].tolist()),
                    widths=tuple(widths.tolist()),
                    before=tuple(active[0].tolist()),
                    after=tuple(verdict.active[0].tolist()),
                    settled=bool(verdict.settled[0]),
                    exploration=self._clients * float(pulls[0] @ self._gaps),
                    communication=self._clients * self._game.communication_cost,
                )
            )
        self._newcomers = 0
        return played

    def keep(self, going: BoolArray) -> None:
        """Forget the replication once it is over."""
        self._evidence.keep(going)


def watch(
    laboratory: Laboratory, label: str, replication: int
) -> tuple[Variant, list[Frame], PlayedGames]:
    """Play one replication of a design; return its frames and what came out.

    Examples
    --------
    >>> from fedbandits.laboratory.setting import Setting
    >>> lab = Laboratory(Setting.read({"options": "3", "gap": "0.1", "horizon": "20000"}))
    >>> _, frames, played = watch(lab, "index rule", 0)
    >>> len(frames) == int(played.phases[0]), frames[0].clients, frames[-1].settled
    (True, 8, True)
    """
    experiment = laboratory.experiment
    (number,) = (i for i, one in enumerate(experiment.variants) if one.label == label)
    variant, (rule, fidelity) = experiment.variants[number], experiment.built[number]
    game = Game(
        problem=variant.problem,
        rule=rule,
        communication_cost=variant.communication_cost,
        seed=experiment.seed,
        grid=make_grid(experiment.horizon, 1),
        memory_limit=MEMORY_LIMIT,
        privacy=variant.privacy,
        attack=variant.attack,
    )
    if fidelity not in (Fidelity.COHORTS, Fidelity.CLIENTS):
        raise InputError(
            "privacy",
            "observations are clipped one by one here, and such a game is not shown step by step;"
            " change the privacy",
        )
    kind = CohortEvidence if fidelity is Fidelity.COHORTS else ClientEvidence
    watched: list[Watched] = []

    def evidence(games: Sequence[Game], replications: IntArray) -> Watched:
        watched.append(Watched(game, kind(games, replications)))
        return watched[0]

    (played,) = play_phases([game], np.array([replication]), evidence)
    return variant, watched[0].frames, played


def playback(
    laboratory: Laboratory, *, left: str = CERTIFIED, replication: int = 0
) -> dict[str, Any]:
    """Return a game of two designs side by side, ready for JSON.

    Parameters
    ----------
    laboratory : Laboratory
        The setting.
    left : str
        The design beside the index rule.
    replication : int
        Which of the games of the laboratory.
    """
    check_count(replication, "game", 0)
    if replication >= MOST_GAMES:
        raise InputError("game", f"{replication:,}; the last one is {MOST_GAMES - 1:,}")
    if left not in LABELS:
        raise InputError("left", f'"{left}" is not a design; known: {", ".join(LABELS)}')
    for column in laboratory.columns:
        if column.label in (left, INDEX) and column.refused:
            raise InputError(column.field or "left", f"{column.label}: {column.refused}")
    sides = []
    for label in (left, INDEX):
        variant, frames, played = watch(laboratory, label, replication)
        winner = int(played.winner[0])
        sides.append(
            {
                "label": label,
                "colour": COLOURS[label],
                "algorithm": variant.algorithm.name,
                "frames": [_as_dict(frame) for frame in frames],
                "phases": int(played.phases[0]),
                "winner": winner if winner >= 0 else None,
                "regret": float(played.total[0]),
                "exploration": float(played.exploration[0]),
                "communication": float(played.communication[0]),
                "clients": int(played.clients[0]),
            }
        )
    return {
        "kind": "game",
        "game": replication,
        "means": list(laboratory.question.means),
        "cost": laboratory.setting.cost,
        "sides": sides,
    }


def _as_dict(frame: Frame) -> dict[str, Any]:
    """Return a frame for JSON: an infinite width is none, and numbers have six digits."""

    def brief(value: float) -> float | None:
        return float(f"{value:.6g}") if np.isfinite(value) else None

    return {
        "phase": frame.phase,
        "newcomers": frame.newcomers,
        "clients": frame.clients,
        "pulls": list(frame.pulls),
        "values": [brief(value) for value in frame.values],
        "widths": [brief(width) for width in frame.widths],
        "before": list(frame.before),
        "after": list(frame.after),
        "settled": frame.settled,
        "exploration": brief(frame.exploration),
        "communication": brief(frame.communication),
    }
