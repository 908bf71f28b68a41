"""Finished cells on disk: kept as they finish, found again by what they are made from."""

import os
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from fedbandits.errors import file_errors
from fedbandits.sweeps.cells import FinishedCell

FOLDER = "finished"
"""Beside the results."""

_ADDRESS, _FIDELITY = "address", "fidelity"


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of NumPy files with some cells each: one array per column, one row per cell.

    A file is written whole or not at all, under a name made from its cells. What cannot be read is
    taken for not there. Nothing is ever deleted: a file that is changed back finds its cells.

    Parameters
    ----------
    folder : Path
        Made when the first cells are kept.
    """

    folder: Path

    def keep(self, cells: Sequence[FinishedCell]) -> None:
        """Write cells that have just finished."""
        addresses = [cell.address for cell in cells]
        arrays = {
            _ADDRESS: np.array(addresses),
            _FIDELITY: np.array([cell.fidelity for cell in cells]),
            **{name: np.stack([cell.columns[name] for cell in cells]) for name in cells[0].columns},
        }
        name = sha256("".join(addresses).encode()).hexdigest()[:32]
        with file_errors("--out", f"{self.folder} cannot be written", "; name another one"):
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, begun = tempfile.mkstemp(prefix=".cells-", dir=self.folder)
            with os.fdopen(handle, "wb") as file:
                np.savez_compressed(file, allow_pickle=False, **arrays)
                file.flush()
                os.fsync(file.fileno())
            Path(begun).replace(self.folder / f"{name}.npz")

    def read(self, addresses: Collection[str]) -> dict[str, FinishedCell]:
        """Return the cells of some addresses, those that are there."""
        found: dict[str, FinishedCell] = {}
        for path in sorted(self.folder.glob("*.npz")):
            try:
                with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
                    arrays = dict(content)
            except (OSError, EOFError, ValueError, BadZipFile):
                continue
            about = zip(arrays.pop(_ADDRESS), arrays.pop(_FIDELITY), strict=True)
            for row, (address, fidelity) in enumerate(about):
                if address in addresses:
                    columns = {name: array[row] for name, array in arrays.items()}
                    found[str(address)] = FinishedCell(
                        address=str(address), fidelity=str(fidelity), columns=columns
                    )
        return found
