"""What a rule knows when a phase begins, for rules that let it decide what is played."""

from __future__ import annotations

from dataclasses import dataclass

from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.distortion import UNDISTORTED, Distortion


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What all phases so far have shown; leading axes are free.

    Parameters
    ----------
    active : array of bool, shape (..., arms)
        The arms that are left.
    estimates : array, shape (..., arms)
        Global estimates; of any value where nobody has pulled an arm.
    counts : array, shape (..., arms, groups)
        Pulls so far of each arm by each client of a group.
    sizes : array, broadcast against ``counts``
        Clients in each group.
    clients : array of int, shape (...)
        How many are in, whether they have reported or not.
    slots_left : array of int, shape (...)
        What is left of the horizon.
    shares : array, broadcast against ``counts``, optional
        The weight of every client, where they have weights of their own.
    distortion : Distortion
        What protecting their means leaves in those of the groups.
    """

    active: BoolArray
    estimates: FloatArray
    counts: FloatArray | IntArray
    sizes: FloatArray
    clients: IntArray
    slots_left: IntArray
    shares: FloatArray | None = None
    distortion: Distortion = UNDISTORTED
