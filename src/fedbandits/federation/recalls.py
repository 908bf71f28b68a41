"""The options that a client was told are withdrawn, in a file: messages may come in any order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fedbandits.federation.kept_file import KeptFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """The options that were withdrawn in a run, as far as a client was told.

    Parameters
    ----------
    run : str
        Which.
    arms : tuple of int
        The options.
    """

    run: str
    arms: tuple[int, ...]


class Recalls:
    """The options that were withdrawn in all runs of a client.

    Parameters
    ----------
    path : path, optional
        Of the file; without one it is forgotten with the process.
    """

    def __init__(self, path: Path | None) -> None:
        self._known: dict[str, frozenset[int]] = {}
        self._file: KeptFile[tuple[Recalled, ...]] | None = None
        if path is not None:
            problem = "does not say what is withdrawn ({}); resume the run after removing it"
            self._file = KeptFile(path, tuple[Recalled, ...], "recalls", problem)

    def add(self, run: str, arms: Iterable[int]) -> frozenset[int]:
        """Keep that options are withdrawn in a run; return all that are. It is on disk then.

        Raises
        ------
        InputError
            If the file cannot be read: then nothing is pulled.
        """
        if self._file is not None:
            self._known = {one.run: frozenset(one.arms) for one in self._file.read() or ()}
        before = self._known.get(run, frozenset())
        after = before.union(arms)
        if after != before:
            self._known[run] = after
            if self._file is not None:
                self._file.write(
                    tuple(
                        Recalled(run=name, arms=tuple(sorted(out)))
                        for name, out in self._known.items()
                    )
                )
        return after
