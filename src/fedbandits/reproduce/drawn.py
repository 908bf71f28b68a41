"""Figures that are computed, not played: their tables and images beside the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedbandits.experiments.figures import image
from fedbandits.reproduce.part import Drawing
from fedbandits.reproduce.run import is_made_from, marked


def kept_image(
    drawing: Drawing, table: Any, folder: Path, name: str, *, made_from: str, fresh: bool
) -> bytes | None:
    """Return a drawing as PNG, from a folder that has it already or drawn into it.

    The folder gets the figure as PNG and PDF and what is drawn as Parquet.

    Parameters
    ----------
    drawing : Drawing
        How it is drawn.
    table : Any
        The table of the part; None is returned if it has nothing to draw.
    folder : Path
        Where the files go; it is made if need be.
    name : str
        Of the files, without a suffix.
    made_from : str
        The hash of what the table was made from.
    fresh : bool
        Draw it even if it is there.
    """
    drawn = drawing.drawn(table)
    if drawn is None:
        return None
    files = [folder / f"{name}.{suffix}" for suffix in ("png", "pdf", "parquet")]
    if not fresh and is_made_from(folder, made_from) and all(file.is_file() for file in files):
        return files[0].read_bytes()
    import polars as pl  # noqa: PLC0415 - heavy, and only needed to write

    figure = drawing.draw(table)
    with marked(folder, made_from) as staging:
        png = image(figure, "png")
        (staging / f"{name}.png").write_bytes(png)
        (staging / f"{name}.pdf").write_bytes(image(figure, "pdf"))
        frame = pl.DataFrame(drawn, infer_schema_length=None)
        frame.write_parquet(staging / f"{name}.parquet")
    return png
