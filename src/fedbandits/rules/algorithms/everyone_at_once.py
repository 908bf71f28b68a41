"""The rule of algorithms whose clients all play from the start."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fedbandits.errors import InputError
from fedbandits.rules.algorithms.elimination import elimination_rule
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.phase_numbers import FirstThen
from fedbandits.rules.phased import PhasedRule
from fedbandits.rules.radii import Radius


def everyone_at_once(beliefs: Beliefs, *, clients: int | None, **parts: Any) -> PhasedRule:
    """Return the special case of Fed2-UCB with M clients from the start, believed to be all.

    With N = M the client-sampling term of the radius is zero, and :math:`B_{p,2}` is
    :math:`B_{p,1}`; it stays where the answer is for a population that they are a sample of.

    Parameters
    ----------
    beliefs : Beliefs
        Of the game.
    clients : int, optional
        M; the whole population by default.
    **parts
        As in `elimination_rule`.
    """
    admitted = clients_of(clients, beliefs)
    if beliefs.weighted and admitted != beliefs.population:
        raise InputError(
            "clients",
            f"{admitted} of {beliefs.population} clients, but clients with weights must all play;"
            " leave it out",
        )
    told = replace(beliefs, population=admitted)
    return elimination_rule(told, admissions=FirstThen(admitted), **parts)


def check_paper_radius(radius: object) -> None:
    """Refuse any other radius than the paper's, for the algorithms that need it."""
    if not isinstance(radius, Radius):
        raise InputError("radius", f"{radius!r} is not a radius such as PaperRadius(arm=6.0)")
    if radius.constants is None:
        raise InputError(
            "radius.rule",
            f'"{radius.rule}" goes with fed2-ucb and fed1-ucb; this one takes "paper"',
        )


def clients_of(clients: int | None, beliefs: Beliefs) -> int:
    """Return how many clients play: the number asked for, else the whole population."""
    if clients is None:
        if beliefs.population is None:
            raise InputError(
                "clients", "is missing; the population is unlimited, so say how many clients play"
            )
        return beliefs.population
    if beliefs.population is not None and clients > beliefs.population:
        raise InputError(
            "clients", f"{clients} clients of a population of {beliefs.population}; lower it"
        )
    return clients
