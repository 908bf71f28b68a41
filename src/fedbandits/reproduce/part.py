"""A part of the reproduction that is computed: what it plays, what that gives, how it is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from matplotlib.figure import Figure

from fedbandits.experiments.estimates import estimate_of
from fedbandits.experiments.fingerprint import hashed
from fedbandits.experiments.tables import Table, chose_best
from fedbandits.simulation.simulator import Progress, Simulation, Variant, simulate_all

Runs: TypeAlias = dict[Any, Simulation]
"""What was played, by the keys that its batches have."""


def at_most(asked: int | None, usual: int, *, fewest: int = 2) -> int:
    """Return how many games a part plays when so many were asked for: no more than usual.

    Examples
    --------
    >>> at_most(None, 200), at_most(100, 200), at_most(500, 200), at_most(1, 200)
    (200, 100, 200, 2)
    """
    return usual if asked is None else max(fewest, min(asked, usual))


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Variants that are played together.

    Parameters
    ----------
    variants : mapping
        By keys that no other batch of the part has.
    horizon, seed, grid_points
        As in `fedbandits.simulate_all`.
    replications : int
        How many games of each, if no fewer are asked for.
    fewest : int
        However few are asked for.
    """

    variants: Mapping[Any, Variant]
    horizon: int | None
    replications: int
    seed: int
    grid_points: int = 1
    fewest: int = 2

    def games(self, asked: int | None) -> int:
        """Return how many games of each are played when so many are asked for."""
        return at_most(asked, self.replications, fewest=self.fewest)


def play(
    batches: Iterable[Batch],
    *,
    games: int | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Runs:
    """Play batches.

    Parameters
    ----------
    batches : iterable of Batch
        What to play.
    games : int, optional
        At most so many of each, for a quick look.
    workers, progress
        As in `fedbandits.simulate_all`.
    """
    runs: Runs = {}
    for batch in batches:
        found = simulate_all(
            list(batch.variants.values()),
            horizon=batch.horizon,
            replications=batch.games(games),
            seed=batch.seed,
            grid_points=batch.grid_points,
            workers=workers,
            progress=progress,
            warn=False,
        )
        runs.update(zip(batch.variants, found, strict=True))
    return runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A figure of a part.

    Parameters
    ----------
    draw : callable
        From the table of the part to the figure.
    drawn : callable
        From the table of the part to the columns that are drawn; None if there is nothing to draw.
    """

    draw: Callable[[Any], Figure]
    drawn: Callable[[Any], Table | None] = lambda table: table


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of the reproduction that is no figure of regret curves.

    Parameters
    ----------
    key, heading : str
        What the command and the page call it.
    table : callable
        From what was played to what is kept as JSON.
    section : callable
        From that and the images of its drawings, by name, to HTML.
    batches : callable
        Returns what is played.
    drawings : mapping of str to Drawing
        By the names of their files.
    live : callable, optional
        From the table to the interactive figure that has the part's key on the page.
    texts : callable
        From the table to files of text that are written as well, by name.
    inputs : callable
        Returns what the table depends on besides the package's sources and the number of games.
    """

    key: str
    heading: str
    table: Callable[[Runs], Any]
    section: Callable[[Any, Mapping[str, bytes]], str]
    batches: Callable[[], list[Batch]] = list
    drawings: Mapping[str, Drawing] = field(default_factory=dict)
    live: Callable[[Any], dict[str, Any]] | None = None
    texts: Callable[[Any], Mapping[str, str]] = lambda _: {}
    inputs: Callable[[], object] = lambda: None

    def make(
        self,
        *,
        games: int | None = None,
        workers: int | None = None,
        progress: Progress | None = None,
    ) -> Any:
        """Play everything and return the table; parameters as in `play`."""
        return self.table(play(self.batches(), games=games, workers=workers, progress=progress))

    def replications(self, games: int | None) -> int:
        """Return how many replications `make` simulates, given how many were asked for."""
        return sum(len(batch.variants) * batch.games(games) for batch in self.batches())

    def fingerprint(self, games: int | None) -> str:
        """Return what the table depends on, as a hash."""
        played = [batch.games(games) for batch in self.batches()]
        return hashed([self.key, played, self.inputs()])


def costs_of(run: Simulation) -> dict[str, float | int]:
    """Return what a rule cost, as columns: mean regret, clients, phases, and how games ended."""
    outcome, mean = run.outcome, estimate_of(run.outcome.total)
    decided = outcome.winner >= 0
    return {
        "replications": mean.n,
        "regret": mean.value,
        "stderr": mean.error,
        "clients": float(outcome.clients.mean()),
        "phases": float(outcome.phases.mean()),
        "undecided": int((~decided).sum()),
        "wrong": int((decided & ~chose_best(run)).sum()),
    }


def as_columns(rows: list[dict[str, Any]]) -> Table:
    """Return rows, of which there is one at least, as columns.

    Examples
    --------
    >>> as_columns([{"game": "a", "regret": 1.0}, {"game": "b", "regret": 2.0}])
    {'game': ['a', 'b'], 'regret': [1.0, 2.0]}
    """
    return {name: [row[name] for row in rows] for name in rows[0]}


def rows_of(table: Table, /, **wanted: object) -> list[int]:
    """Return where columns have these values.

    Examples
    --------
    >>> rows_of({"game": ["a", "b", "a"], "rule": ["x", "x", "y"]}, game="a", rule="y")
    [2]
    """
    keys = zip(*(table[name] for name in wanted), strict=True)
    return [row for row, key in enumerate(keys) if key == tuple(wanted.values())]
