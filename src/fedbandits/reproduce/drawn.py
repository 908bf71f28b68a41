"""Figures that are computed, not played: their tables and images beside the page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from fedbandits.experiments.figures import image
from fedbandits.experiments.output import open_output
from fedbandits.experiments.tables import Table


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


def write_drawn(table: Table, figure: Figure, folder: Path, name: str) -> Drawn:
    """Write a figure as PNG and PDF and its table as Parquet into a folder.

    Parameters
    ----------
    table : Table
        What is drawn.
    figure : Figure
        The drawing.
    folder : Path
        Where the files go; it is made if need be.
    name : str
        Of the files, without a suffix.
    """
    import polars as pl  # noqa: PLC0415 - heavy, and only needed to write

    with open_output(folder) as staging:
        png = image(figure, "png")
        (staging / f"{name}.png").write_bytes(png)
        (staging / f"{name}.pdf").write_bytes(image(figure, "pdf"))
        frame = pl.DataFrame(table, infer_schema_length=None)
        frame.write_parquet(staging / f"{name}.parquet")
    return Drawn(table=table, image=png)
