"""What a part of the reproduction is: its cost, what it depends on, how it is made and shown.

`fedbandits.reproduce.parts` lists all of them. A part is an experiment of the paper
(`fedbandits.reproduce.regret_curves`) or a table of its own (``fedbandits.reproduce.computed``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from fedbandits.experiments.output import open_output

MARK = "made-from.txt"
"""Beside files that belong together: the hash of what they were made from, written last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a part has made, which is on disk as well.

    Parameters
    ----------
    made_from : str
        The hash of what it was made from.
    replications : int or None
        How many were asked for; a part has fewer if it has fewer by itself.
    table : Any
        Its numbers.
    images : mapping of str to bytes
        Its figures as PNG, by name.
    reused : bool
        Whether an earlier run had made it.
    """

    made_from: str
    replications: int | None
    table: Any
    images: Mapping[str, bytes] = field(default_factory=dict)
    reused: bool = False


Made: TypeAlias = Mapping[str, Kept]
"""What parts have made, by their keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(ABC):
    """A part of the reproduction, which is made and kept as a whole.

    Parameters
    ----------
    key : str
        What its files and the progress line call it.
    heading : str
        Of its section on the page.
    cost : (float, float)
        Seconds that it takes on two cores: in any case, and for all of its replications.
    figure : str
        What the command calls the section that it shares with other parts; its own key if empty.
    """

    key: str
    heading: str
    cost: tuple[float, float]
    figure: str = ""

    @property
    def asked(self) -> str:
        """What the command calls its section."""
        return self.figure or self.key

    @abstractmethod
    def replications(self, games: int | None) -> int:
        """Return how many replications are simulated, given how many were asked for."""

    @abstractmethod
    def fingerprint(self, games: int | None) -> str:
        """Return what it depends on, as a hash."""

    @abstractmethod
    def find(self, directory: Path, made_from: str | None = None) -> Kept | None:
        """Return what an earlier run left if it is whole and today's sources would give the same.

        Parameters
        ----------
        directory : Path
            Where the page is.
        made_from : str, optional
            The hash that it must have; any number of replications will do by default.
        """

    @abstractmethod
    def make(self, directory: Path, *, games: int | None = None, **settings: Any) -> Kept:
        """Make it, put its files in place, and return it.

        Parameters
        ----------
        directory : Path
            Where the page is; files and folders there have the part's key as their name.
        games : int, optional
            How many games of each variant are asked for.
        **settings
            ``workers`` and ``progress``, as in `fedbandits.simulate_all`.
        """

    def complete(self, directory: Path, made: Made) -> Kept:
        """Return what the page shows, which may depend on what other parts have made."""
        return made[self.key]

    def heading_of(self, kept: Kept) -> str:
        """Return the heading of its section, which may depend on what was made."""
        return self.heading

    @abstractmethod
    def section(self, kept: Kept) -> str:
        """Return its HTML."""

    def seconds(self, games: int | None) -> float:
        """Return about how many seconds it takes."""
        always, all_replications = self.cost
        share = self.replications(games) / max(1, self.replications(None))
        return always + share * all_replications

    def get(
        self, directory: Path, *, games: int | None = None, fresh: bool = False, **settings: Any
    ) -> Kept:
        """Return what an earlier run has left, or make it.

        Parameters
        ----------
        directory, games
            As in `make`.
        fresh : bool
            Make it even if it is there.
        **settings
            As in `make`.
        """
        found = None if fresh else self.find(directory, self.fingerprint(games))
        return found or self.make(directory, games=games, **settings)


@contextmanager
def marked(folder: Path, made_from: str) -> Iterator[Path]:
    """Yield a staging folder whose files go to a folder that says what they were made from."""
    with open_output(folder) as staging:
        yield staging
        # Until all files are in place, none of another run is to be taken for one of this run.
        (folder / MARK).unlink(missing_ok=True)
    with open_output(folder) as staging:
        (staging / MARK).write_text(made_from + "\n", encoding="ascii")


def is_made_from(folder: Path, made_from: str) -> bool:
    """Return whether the files of a folder were made from this."""
    try:
        return (folder / MARK).read_text(encoding="ascii").strip() == made_from
    except (OSError, ValueError):
        return False
