"""The common part of rules that plan by what was observed and ask for clients if needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from fedbandits.rules.arrays import BoolArray, IntArray
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
    most_clients : int, optional
        With so many nobody else is asked to join, whatever is open.
    """

    most_clients: int | None = None

    @property
    def fewest_pulls(self) -> int:
        """The fewest pulls of an arm that a phase plays, after the first."""
        return self.pulls(2)

    def with_fewest_pulls(self, fewest: int) -> Self:
        """Return the rule that never asks for the mean of fewer pulls."""
        pulls = FirstThen(max(self.pulls(1), fewest), max(self.pulls(2), fewest))
        return replace(self, pulls=pulls)

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
