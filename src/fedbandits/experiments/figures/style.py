"""The look of every figure that Matplotlib draws."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib as mpl

from fedbandits.experiments.figures.palette import FAINT, INK, RULE


@contextmanager
def house_style() -> Iterator[None]:
    """Style what is made meanwhile, whatever the user's own style is."""
    with mpl.rc_context(
        {
            "axes.edgecolor": FAINT,
            "axes.facecolor": "white",
            "axes.grid": False,
            "axes.labelcolor": INK,
            "axes.labelsize": 9.0,
            "axes.linewidth": 0.8,
            "figure.facecolor": "white",
            "font.family": "sans-serif",
            "font.sans-serif": ["DejaVu Sans"],
            "font.size": 9.0,
            "grid.color": RULE,
            "grid.linewidth": 0.6,
            "savefig.bbox": None,
            "savefig.facecolor": "white",
            "text.color": INK,
            "xtick.color": FAINT,
            "xtick.labelcolor": INK,
            "xtick.labelsize": 8.5,
            "ytick.color": FAINT,
            "ytick.labelcolor": INK,
            "ytick.labelsize": 8.5,
        }
    ):
        yield
