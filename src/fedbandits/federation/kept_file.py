"""Small files that hold one value: written whole or not at all, and checked when read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from fedbandits.errors import InputError
from fedbandits.federation.state_files import write_whole
from fedbandits.protocol.codec import decode, encode

FORMAT = 1

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
            said = json.loads(self.path.read_bytes())
            if said["format"] != FORMAT:
                raise InputError("format", f"{said['format']}, and this version reads {FORMAT}")
            found: T = decode(self.kind, said[self.name], self.name)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputError(str(self.path), f"cannot be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(str(self.path), self.problem.format(error)) from None
        return found

    def write(self, value: T) -> None:
        """Keep a value instead of what was kept before; it is on disk then."""
        said = {"format": FORMAT, self.name: encode(value)}
        write_whole(self.path, json.dumps(said, indent=1))
