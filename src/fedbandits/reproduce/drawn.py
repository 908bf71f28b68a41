"""Figures that are computed, not played: their tables and images beside the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from fedbandits.experiments.figures import image
from fedbandits.experiments.output import open_output
from fedbandits.experiments.tables import Table
from fedbandits.reproduce.run import MARK


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A table and its figure.

    Parameters
    ----------
    table : Table
        What is drawn.
    image : bytes
        The figure as PNG.
    """

    table: Table
    image: bytes


def kept_drawing(
    table: Table,
    draw: Callable[[Table], Figure],
    folder: Path,
    name: str,
    *,
    made_from: str,
    fresh: bool,
) -> Drawn:
    """Return the drawing of a table, from a folder that has it already or drawn into it.

    The folder gets the figure as PNG and PDF and its table as Parquet.

    Parameters
    ----------
    table : Table
        What is drawn.
    draw : callable
        Draws it.
    folder : Path
        Where the files go; it is made if need be.
    name : str
        Of the files, without a suffix.
    made_from : str
        The hash of what the table was made from.
    fresh : bool
        Draw it even if it is there.
    """
    files = [folder / f"{name}.{suffix}" for suffix in ("png", "pdf", "parquet")]
    try:
        same = (folder / MARK).read_text(encoding="ascii").strip() == made_from
        if same and not fresh and all(file.is_file() for file in files):
            return Drawn(table=table, image=files[0].read_bytes())
    except (OSError, ValueError):
        pass
    figure = draw(table)
    import polars as pl  # noqa: PLC0415 - heavy, and only needed to write

    with open_output(folder) as staging:
        png = image(figure, "png")
        (staging / f"{name}.png").write_bytes(png)
        (staging / f"{name}.pdf").write_bytes(image(figure, "pdf"))
        frame = pl.DataFrame(table, infer_schema_length=None)
        frame.write_parquet(staging / f"{name}.parquet")
        # Until all files are in place, none of another run is to be taken for one of this run.
        (folder / MARK).unlink(missing_ok=True)
    with open_output(folder) as staging:
        (staging / MARK).write_text(made_from + "\n", encoding="ascii")
    return Drawn(table=table, image=png)
