"""Who enters the contest: the algorithms of the package, with one set of parameters for all games.

Fed1-UCB and Fed2-UCB have no defaults for their schedules. They get those of the paper, schedules
that double, which suit more games, and those that follow from the cost of a report. *References*
are hypothetical: one player who observes the global model itself, with no clients and nothing to
pay for. They are ranked among all entrants, and not among those that must ask clients. `ucb1` is
the one that decides in every slot: `kl-ucb` and `thompson` assume rates, or known noise, and
do not enter. *Guests* are the algorithms of plugin files, with their defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, fields
from typing import TypeAlias

from fedbandits.contest.games import ContestGame
from fedbandits.errors import InputError
from fedbandits.plugins import Plugin
from fedbandits.rules import algorithms
from fedbandits.rules.optimal_phases import OPTIMAL
from fedbandits.rules.radii import CertifiedRadius, PaperRadius, Radius
from fedbandits.simulation import Variant, build_rules
from fedbandits.simulation.fidelities import Fidelity

LONGEST_IN_SLOTS = 10**5
"""Algorithms that decide in every slot play games up to this horizon: each slot is simulated."""

LOCAL_CLIENTS = 4
"""How many clients play by themselves if their number is not given."""

TOO_LONG = "it decides in every slot, and the game has more than 10⁵ of them"

_Enter: TypeAlias = Callable[[ContestGame], algorithms.Algorithm | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrant:
    """An algorithm with its parameters.

    Parameters
    ----------
    label : str
        What tables call it.
    enter : callable
        From a game to the algorithm, or the reason why it does not play this game.
    reference : bool
        Whether it is hypothetical.
    guest : bool
        Whether it is from a plugin file.
    """

    label: str
    enter: _Enter
    reference: bool = False
    guest: bool = False

    def variant(self, game: ContestGame) -> Variant | str:
        """Return what it plays, or the reason why it does not play this game."""
        found = self.enter(game)
        return found if isinstance(found, str) else _variant(self.label, found, game)


def _variant(label: str, algorithm: algorithms.Algorithm, game: ContestGame) -> Variant:
    return Variant(
        label=label, problem=game.problem, algorithm=algorithm, communication_cost=game.cost
    )


def _elimination(
    exact: Radius, approximate: Radius, *, doubling: bool = False, weighted: bool = False
) -> Callable[[ContestGame], algorithms.Algorithm]:
    """Return Fed1-UCB if all clients are given, else Fed2-UCB."""

    def enter(game: ContestGame) -> algorithms.Algorithm:
        if game.problem.clients_are_given:
            pulls = "2^(p+4)" if doubling else "ceil(10*log(T))"
            return algorithms.Fed1Ucb(pulls=pulls, radius=exact)
        pulls = "2^(p+4)" if doubling else "100"
        return _gradual(game, pulls=pulls, admissions="2^p", radius=approximate, weighted=weighted)

    return enter


def _gradual(
    game: ContestGame, *, pulls: str, admissions: str, radius: Radius, weighted: bool = True
) -> algorithms.Algorithm:
    """Return Fed2-UCB; weights by variance need an unlimited population."""
    by_variance = weighted and game.problem.population is None
    return algorithms.Fed2Ucb(
        pulls=pulls,
        admissions=admissions,
        radius=radius,
        weights="inverse-variance" if by_variance else "equal",
    )


def _in_slots(algorithm: Callable[[ContestGame], algorithms.Algorithm]) -> _Enter:
    return lambda game: algorithm(game) if game.horizon <= LONGEST_IN_SLOTS else TOO_LONG


def entrants() -> list[Entrant]:
    """Return those of the package, index rules first.

    Examples
    --------
    >>> [entrant.label for entrant in entrants()][:2]
    ['fed-index, moss', 'fed-index, ucb2']
    """
    paper, certified = PaperRadius(), CertifiedRadius()
    authors = (PaperRadius(arm=4.0), PaperRadius(arm=1.0, client=1.0))
    asking: dict[str, _Enter] = {
        "fed-index, moss": lambda _: algorithms.FedIndex(index="moss"),
        "fed-index, ucb2": lambda _: algorithms.FedIndex(index="ucb2"),
        "fed-index, ucb": lambda _: algorithms.FedIndex(index="ucb"),
        "fed-ts": lambda _: algorithms.FedTs(),
        "elimination, paper": _elimination(paper, paper),
        "elimination, authors' constants": _elimination(*authors),
        "elimination, certified": _elimination(certified, certified, weighted=True),
        "elimination, certified, doubling": _elimination(
            certified, certified, doubling=True, weighted=True
        ),
        "elimination, optimal": lambda game: _gradual(
            game, pulls=OPTIMAL, admissions=OPTIMAL, radius=certified
        ),
        "centralized": lambda game: (
            algorithms.Centralized()
            if game.problem.clients_are_given
            else "it needs all clients of an exact model"
        ),
        "local-ucb": _in_slots(
            lambda game: algorithms.LocalUcb(
                clients=None if game.problem.clients_are_given else LOCAL_CLIENTS
            )
        ),
    }
    references: dict[str, _Enter] = {
        "improved-ucb": lambda _: algorithms.ImprovedUcb(),
        "authors-baseline": lambda _: algorithms.AuthorsBaseline(pulls="ceil(10*log(T))"),
        "ucb1": _in_slots(lambda _: algorithms.Ucb1()),
    }
    return [
        Entrant(label=label, enter=enter, reference=label in references)
        for label, enter in (asking | references).items()
    ]


def guests(plugins: Iterable[Plugin]) -> list[Entrant]:
    """Return the algorithms that plugin files register, with their defaults."""
    taken = {entrant.label for entrant in entrants()}
    found = []
    for plugin in plugins:
        parts = plugin.parts().items()
        own = {name: part for (group, name), part in parts if group == algorithms.ALGORITHMS.group}
        if not own:
            raise InputError(
                plugin.path,
                "registers no algorithm, and only algorithms enter the contest; write"
                " @fedbandits.ALGORITHMS.register above a class of it",
            )
        for name, part in own.items():
            if name in taken:
                raise InputError(
                    plugin.path, f'the contest has an entrant "{name}" already; choose another name'
                )
            algorithm = _with_defaults(part, f'{plugin.path}, "{name}"')
            found.append(Entrant(label=name, enter=_as_guest(name, algorithm), guest=True))
    return found


def _with_defaults(part: type[algorithms.Algorithm], where: str) -> algorithms.Algorithm:
    needed = [
        one.name
        for one in fields(part)
        if one.init and one.default is MISSING and one.default_factory is MISSING
    ]
    if needed:
        raise InputError(
            where,
            f"has no default for {' and '.join(needed)}, and an algorithm enters the contest with"
            " its defaults; give each of these fields one in the class",
        )
    try:
        return part()
    except InputError as error:
        raise error.within(where) from None


def _as_guest(name: str, algorithm: algorithms.Algorithm) -> _Enter:
    """Return an entrant that leaves out the games that it cannot play."""

    def enter(game: ContestGame) -> algorithms.Algorithm | str:
        try:
            ((_, fidelity),) = build_rules([_variant(name, algorithm, game)], game.horizon)
        except InputError as error:
            return str(error).removeprefix("variants[0].")
        if fidelity is Fidelity.PULLS:
            return "it can only be simulated pull by pull, which would take hours"
        if fidelity is Fidelity.SLOTS and game.horizon > LONGEST_IN_SLOTS:
            return TOO_LONG
        return algorithm

    return enter
