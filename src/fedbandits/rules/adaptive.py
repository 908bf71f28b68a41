"""The common part of rules that plan by what was observed and ask for clients if needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.phase_numbers import FirstThen
from fedbandits.rules.phased import PhasedRule
from fedbandits.rules.plans import State


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveRule(PhasedRule):
    """Phases whose pulls and admissions follow from what was observed.

    Parameters
    ----------
    **phased
        As in `PhasedRule`. Of the schedules only the first values count: the pulls and clients of
        the first phase; later pulls are the fewest that a phase makes.
    growth : float
        α: by how much pulls grow in a phase, as a share of those before.
    admit_when : float
        An arm asks for clients when its client variance exceeds so many times its pull variance.
    most_clients : int, optional
        With so many nobody else is asked to join, whatever is open.
    """

    growth: float = 1.0
    admit_when: float = 1.0
    most_clients: int | None = None

    @property
    def fewest_pulls(self) -> int:
        """The fewest pulls of an arm that a phase plays, after the first."""
        return self.pulls(2)

    def with_fewest_pulls(self, fewest: int) -> Self:
        """Return the rule that never asks for the mean of fewer pulls."""
        pulls = FirstThen(max(self.pulls(1), fewest), max(self.pulls(2), fewest))
        return replace(self, pulls=pulls)

    def client_floor(self, clients: int | IntArray) -> FloatArray:
        """Return the client variance that is left when all admitted clients have pulled an arm."""
        factor = self.sampling.client_factor(np.maximum(clients, 1))
        return np.asarray((self.spread or 0.0) ** 2 * factor)[..., np.newaxis]

    def doubling(self, state: State, asks: np.bool_ | BoolArray) -> tuple[IntArray, BoolArray]:
        """Return as many newcomers as there are clients, if newcomers are asked for.

        Parameters
        ----------
        state : State
            With the clients that are in.
        asks : bool or array of bool, shape (...)
            Where more are asked for.

        Returns
        -------
        newcomers : array of int, shape (...)
            How many join.
        capped : array of bool, shape (...)
            Whether the cap has ever cut them short.
        """
        clients = np.asarray(state.clients, dtype=np.int64)
        capped = np.asarray(state.capped)
        wanted = np.where(asks & ~capped, clients, 0)
        for most in (self.population, self.most_clients):
            if most is not None:
                wanted = np.minimum(wanted, np.maximum(most - clients, 0))
        if self.max_clients is None:
            return wanted, capped
        room = self.max_clients - clients
        return np.minimum(wanted, room), np.asarray(capped | (wanted > room))

    def fitting(self, state: State, pulls: IntArray, leader: BoolArray) -> IntArray:
        """Return pulls that a mean may have; all on the leader if they do not fit.

        Parameters
        ----------
        state : State
            With the slots that are left.
        pulls : array of int, shape (..., arms)
            Of arms that have been pulled before; others are pulled as in the first phase.
        leader : array of bool, shape (..., arms)
            The arm that is played out on.
        """
        pulls = np.where(pulls > 0, np.maximum(pulls, self.fewest_pulls), 0)
        total = pulls.sum(axis=-1, keepdims=True)
        fits = total <= np.asarray(state.slots_left)[..., np.newaxis]
        fits |= ~leader.any(axis=-1, keepdims=True)  # nobody has reported anything yet
        return np.asarray(np.where(fits, pulls, np.where(leader, total, 0)))
