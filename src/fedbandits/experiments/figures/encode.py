"""Figures as the bytes of files."""

from __future__ import annotations

import io
from typing import Literal

import matplotlib as mpl
from matplotlib.figure import Figure


def image(figure: Figure, kind: Literal["png", "pdf"] = "png", *, dpi: float = 200.0) -> bytes:
    r"""Return a figure as the bytes of a file, the same ones every time.

    Examples
    --------
    >>> image(Figure(figsize=(1, 1)), dpi=10.0)[:4]
    b'\x89PNG'
    """
    buffer = io.BytesIO()
    # The time of day would make two files of the same results differ; and text in a PDF is to stay
    # text that can be searched and edited.
    metadata = {"CreationDate": None} if kind == "pdf" else None
    with mpl.rc_context({"pdf.fonttype": 42}):
        figure.savefig(buffer, format=kind, dpi=dpi, metadata=metadata)
    return buffer.getvalue()
