"""What is known when a phase begins, and what is played in it."""

from __future__ import annotations

from dataclasses import dataclass

from fedbandits.errors import InputError
from fedbandits.rules.arrays import BoolArray, IntArray
from fedbandits.rules.draws import Draw, Drawn, Draws
from fedbandits.rules.estimates import Estimate


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class State:
    """What is known when a phase begins; leading axes are free.

    Parameters
    ----------
    phase : int
        The phase that begins, from 1.
    active : array of bool, shape (..., arms)
        The arms that are left.
    clients : int or array of int, shape (...)
        How many are in, whether they have reported or not.
    slots_left : int or array of int, shape (...)
        What is left of the horizon.
    capped : bool or array of bool, shape (...)
        Whether a cap on clients has ever cut admissions short.
    estimate : Estimate, optional
        What all phases so far have shown; None before the first, and for rules that follow a
        schedule.
    joined : int or array of int, shape (...), optional
        How many of the wanted newcomers have really joined; None before anybody was asked.
    random : callable, optional
        What rules draw from that say that they are randomised; see `fedbandits.rules.draws`.
    """

    phase: int
    active: BoolArray
    clients: int | IntArray
    slots_left: int | IntArray
    capped: bool | BoolArray = False
    estimate: Estimate | None = None
    joined: int | IntArray | None = None
    random: Draws | None = None

    def drawn(self, draw: Draw) -> Drawn:
        """Return what a randomised rule draws in this phase; drawing again gives the same.

        Parameters
        ----------
        draw : callable
            From a generator and a number of games to what each of them gets, along the first axis.
        """
        if self.random is None:
            raise InputError(
                "algorithm",
                "draws at random, but its rule does not say so; set randomised = True in its class",
            )
        return self.random(draw)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhasePlan:
    """Who joins in a phase, and what everybody plays; leading axes as given.

    Parameters
    ----------
    newcomers : int or array of int, shape (...)
        How many new clients are wanted.
    pulls : array of int, shape (..., arms)
        How often each client pulls each arm; 0 for arms that are out.
    capped : bool or array of bool, shape (...)
        Whether a cap has ever cut the newcomers short.
    """

    newcomers: int | IntArray
    pulls: IntArray
    capped: bool | BoolArray = False
