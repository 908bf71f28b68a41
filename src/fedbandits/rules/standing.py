"""What a rule knows when a phase begins, for rules that let it decide what is played."""

from __future__ import annotations

from dataclasses import dataclass

from fedbandits.rules.arrays import BoolArray, IntArray
from fedbandits.rules.estimates import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What all phases so far have shown; leading axes are free.

    Parameters
    ----------
    active : array of bool, shape (..., arms)
        The arms that are left.
    estimate : Estimate
        What is known of every arm.
    clients : array of int, shape (...)
        How many are in, whether they have reported or not.
    slots_left : array of int, shape (...)
        What is left of the horizon.
    """

    active: BoolArray
    estimate: Estimate
    clients: IntArray
    slots_left: IntArray
