"""Small files that hold one value: written whole or not at all, and checked when read.

A client keeps three of them: the phase that it has not finished, which the next process continues,
the options that it was told are withdrawn, because messages may come in any order, and what it
adjusts outcomes by, which is settled before a run's first unit.
"""

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from fedbandits.errors import InputError, file_errors
from fedbandits.federation.state_files import write_whole
from fedbandits.protocol.codec import decode, encode
from fedbandits.protocol.covariates import Adjustment
from fedbandits.protocol.unfinished import Unfinished

FORMAT = 1

# Seconds after which a phase that nobody continues may be replaced by that of another run.
_AT_WORK = 60.0

T = TypeVar("T")


@dataclass(frozen=True)
class KeptFile(Generic[T]):
    """A file that holds one value.

    Parameters
    ----------
    path : path
        Of the file.
    kind : type
        Of the value, as `fedbandits.protocol.codec.decode` takes it.
    name : str
        What the value is called in the file.
    problem : str
        The message about a file with something else in it, with braces for the reason.

    Examples
    --------
    >>> import tempfile
    >>> file = KeptFile[tuple[int, ...]](
    ...     Path(tempfile.mkdtemp()) / "a.json", tuple[int, ...], "numbers", "is no list ({})"
    ... )
    >>> file.read()
    >>> file.write((1, 2))
    >>> file.read()
    (1, 2)
    """

    path: Path
    kind: Any
    name: str
    problem: str

    def read(self) -> T | None:
        """Return the value; None if there is no file.

        Raises
        ------
        InputError
            If the file cannot be read, or is something else.
        """
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputError(str(self.path), f"cannot be read: {error.strerror}") from None
        return self.value_in(content)

    def value_in(self, content: bytes) -> T:
        """Return the value in what a file contains.

        Raises
        ------
        InputError
            If that is something else.
        """
        try:
            said = json.loads(content)
            if said["format"] != FORMAT:
                raise InputError("format", f"{said['format']}, and this version reads {FORMAT}")
            found: T = decode(self.kind, said[self.name], self.name)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(str(self.path), self.problem.format(error)) from None
        return found

    def write(self, value: T) -> None:
        """Replace the value; when this returns it is on disk."""
        said = {"format": FORMAT, self.name: encode(value)}
        write_whole(self.path, json.dumps(said, indent=1))


class WorkbenchFile(KeptFile[Unfinished]):
    """A `fedbandits.protocol.unfinished.Workbench` that outlasts the process.

    Parameters
    ----------
    path : path
        Of the file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, Unfinished, "phase", "is no phase ({})")

    def read(self) -> Unfinished | None:
        """Return what is kept; None if there is nothing, or nothing that can be read.

        What cannot be read is pulled again: nothing of it was sent.
        """
        try:
            return super().read()
        except InputError:
            return None

    def other_run(self, run: str) -> str | None:
        """Return the other run whose phase is being played; None if there is none.

        Of two runs at once each would replace what the other has kept, and both would pull forever.
        """
        kept = self.read()
        if kept is None or kept.run == run:
            return None
        with file_errors(self.path, "cannot be read"):
            age = abs(time.time() - self.path.stat().st_mtime)
        return kept.run if age < _AT_WORK else None

    def clear(self) -> None:
        """Forget it: it is reported."""
        with file_errors(self.path, "cannot be removed"):
            self.path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """The options that were withdrawn in a run, as far as a client was told.

    Parameters
    ----------
    run : str
        The name of the run.
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
        """Keep on disk that options are withdrawn in a run; return all that are.

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
                known = self._known.items()
                kept = (Recalled(run=name, arms=tuple(sorted(out))) for name, out in known)
                self._file.write(tuple(kept))
        return after


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What a client adjusts outcomes by in a run.

    Parameters
    ----------
    run : str
        The name of the run.
    adjustment : Adjustment
        In all of it.
    """

    run: str
    adjustment: Adjustment


class Adjustments:
    """What a client adjusts outcomes by, in all of its runs.

    It is settled once for a run: a history that is read again later may hold the run's own units.

    Parameters
    ----------
    path : path, optional
        Of the file; without one it is forgotten with the process.
    """

    def __init__(self, path: Path | None) -> None:
        self._known: dict[str, Adjustment] = {}
        self._file: KeptFile[tuple[Settled, ...]] | None = None
        if path is not None:
            problem = "does not say what outcomes are adjusted by ({}); restore it"
            self._file = KeptFile(path, tuple[Settled, ...], "runs", problem)

    def settled(self, run: str, settle: Callable[[], Adjustment]) -> Adjustment:
        """Return what outcomes of a run are adjusted by; settle it if that was not done yet.

        Raises
        ------
        InputError
            If the file cannot be read, or ``settle`` refuses.
        """
        if self._file is not None:
            self._known = {one.run: one.adjustment for one in self._file.read() or ()}
        if run not in self._known:
            self._known[run] = settle()
            if self._file is not None:
                kept = (Settled(run=name, adjustment=one) for name, one in self._known.items())
                self._file.write(tuple(kept))
        return self._known[run]
