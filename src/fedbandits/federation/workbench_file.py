"""The phase that a client has not finished, in a file: the next process continues it."""

from __future__ import annotations

from pathlib import Path

from fedbandits.errors import InputError
from fedbandits.federation.kept_file import KeptFile
from fedbandits.federation.state_files import file_errors
from fedbandits.protocol.unfinished import Unfinished


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

    def keep(self, work: Unfinished) -> None:
        """Keep it instead of what was kept before."""
        self.write(work)

    def clear(self) -> None:
        """Forget it: it is reported."""
        with file_errors(self.path, "cannot be removed"):
            self.path.unlink(missing_ok=True)
