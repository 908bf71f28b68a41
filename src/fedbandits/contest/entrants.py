"""Who enters the contest: every algorithm of the package, with one set of parameters for all games.

Fed1-UCB and Fed2-UCB have no defaults for their schedules; they get those of the paper, and once
more the schedules that double, which suit more games. *References* are hypothetical: one player who
observes the global model itself, with no clients and nothing to pay for. They are ranked among all
entrants, and not among those that must ask clients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from fedbandits.contest.games import ContestGame
from fedbandits.rules.algorithms import (
    Algorithm,
    AuthorsBaseline,
    Centralized,
    Fed1Ucb,
    Fed2Ucb,
    FedIndex,
    FedTs,
    ImprovedUcb,
    LocalUcb,
    Ucb1,
)
from fedbandits.rules.radii import CertifiedRadius, PaperRadius, Radius

LONGEST_IN_SLOTS = 10**5
"""Algorithms that decide in every slot play games up to this horizon: each slot is simulated."""

LOCAL_CLIENTS = 4
"""How many clients play by themselves if their number is not given."""


_Enter: TypeAlias = Callable[[ContestGame], Algorithm | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrant:
    """An algorithm with its parameters.

    Parameters
    ----------
    label : str
        What tables call it.
    enter : callable
        From a game to the algorithm, or None if it does not apply.
    reference : bool
        Whether it is hypothetical.
    """

    label: str
    enter: _Enter
    reference: bool = False


def _elimination(
    exact: Radius, approximate: Radius, *, doubling: bool = False, weighted: bool = False
) -> Callable[[ContestGame], Algorithm]:
    """Return Fed1-UCB if all clients are given, else Fed2-UCB."""

    def enter(game: ContestGame) -> Algorithm:
        if game.problem.clients_are_given:
            pulls = "2^(p+4)" if doubling else "ceil(10*log(T))"
            return Fed1Ucb(pulls=pulls, radius=exact)
        by_variance = weighted and game.problem.population is None
        return Fed2Ucb(
            pulls="2^(p+4)" if doubling else "100",
            admissions="2^p",
            radius=approximate,
            weights="inverse-variance" if by_variance else "equal",
        )

    return enter


def _in_slots(algorithm: Callable[[ContestGame], Algorithm]) -> _Enter:
    return lambda game: algorithm(game) if game.horizon <= LONGEST_IN_SLOTS else None


def entrants() -> list[Entrant]:
    """Return all of them, index rules first.

    Examples
    --------
    >>> [entrant.label for entrant in entrants()][:2]
    ['fed-index, moss', 'fed-index, ucb2']
    """
    paper, certified = PaperRadius(), CertifiedRadius()
    authors = (PaperRadius(arm=4.0), PaperRadius(arm=1.0, client=1.0))
    asking: dict[str, _Enter] = {
        "fed-index, moss": lambda _: FedIndex(index="moss"),
        "fed-index, ucb2": lambda _: FedIndex(index="ucb2"),
        "fed-index, ucb": lambda _: FedIndex(index="ucb"),
        "fed-ts": lambda _: FedTs(),
        "elimination, paper": _elimination(paper, paper),
        "elimination, authors' constants": _elimination(*authors),
        "elimination, certified": _elimination(certified, certified, weighted=True),
        "elimination, certified, doubling": _elimination(
            certified, certified, doubling=True, weighted=True
        ),
        "centralized": lambda game: Centralized() if game.problem.clients_are_given else None,
        "local-ucb": _in_slots(
            lambda game: LocalUcb(clients=None if game.problem.clients_are_given else LOCAL_CLIENTS)
        ),
    }
    references: dict[str, _Enter] = {
        "improved-ucb": lambda _: ImprovedUcb(),
        "authors-baseline": lambda _: AuthorsBaseline(pulls="ceil(10*log(T))"),
        "ucb1": _in_slots(lambda _: Ucb1()),
    }
    return [
        Entrant(label=label, enter=enter, reference=label in references)
        for label, enter in (asking | references).items()
    ]
