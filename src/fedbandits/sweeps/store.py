"""Finished cells on disk: kept as they finish, found again by what they are made from."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from fedbandits.errors import InputError
from fedbandits.sweeps.cells import FinishedCell

if TYPE_CHECKING:
    import polars as pl

FOLDER = "finished"
"""Beside the results."""


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of Parquet files with some cells each, a row a cell and a list a column.

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
        import polars as pl  # noqa: PLC0415 - heavy, and only needed to read and write

        addresses = [cell.address for cell in cells]
        frame = pl.DataFrame(
            {
                "address": addresses,
                "fidelity": [cell.fidelity for cell in cells],
                **{
                    name: pl.Series([cell.columns[name] for cell in cells])
                    for name in cells[0].columns
                },
            }
        )
        name = sha256("".join(addresses).encode()).hexdigest()[:32]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, begun = tempfile.mkstemp(prefix=".cells-", dir=self.folder)
            with os.fdopen(handle, "wb") as file:
                frame.write_parquet(file)
                file.flush()
                os.fsync(file.fileno())
            Path(begun).replace(self.folder / f"{name}.parquet")
        except OSError as error:
            raise InputError(
                "--out", f"{self.folder} cannot be written: {error.strerror}; name another one"
            ) from None

    def read(self, addresses: Collection[str]) -> dict[str, FinishedCell]:
        """Return the cells of some addresses, those that are there."""
        import polars as pl  # noqa: PLC0415 - as above

        found: dict[str, FinishedCell] = {}
        for file in sorted(self.folder.glob("*.parquet")):
            try:
                frame = pl.read_parquet(file)
                found |= {cell.address: cell for cell in _cells_in(frame, addresses)}
            except (OSError, pl.exceptions.PolarsError):
                continue
        return found


def _cells_in(frame: pl.DataFrame, addresses: Collection[str]) -> Iterator[FinishedCell]:
    """Yield those cells of a file that are asked for."""
    about = ("address", "fidelity")
    for row, (address, fidelity) in enumerate(frame.select(about).iter_rows()):
        if address in addresses:
            columns = {key: frame[key][row].to_numpy() for key in frame.columns if key not in about}
            yield FinishedCell(address=address, fidelity=fidelity, columns=columns)
