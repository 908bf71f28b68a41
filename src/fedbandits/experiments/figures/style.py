"""The look of every figure that Matplotlib draws."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import LayoutEngine
from matplotlib.ticker import FuncFormatter, NullLocator

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


@contextmanager
def new_figure(
    width: float,
    height: float,
    layout: Literal["constrained"] | LayoutEngine | None = "constrained",
) -> Iterator[Figure]:
    """Yield a figure of so many inches, styled like all that is drawn into it meanwhile."""
    with house_style():
        figure = Figure(figsize=(width, height), layout=layout)
        FigureCanvasAgg(figure)
        yield figure


def finish(axes: Axes, *, grid: Literal["x", "y"] = "y") -> None:
    """Leave of the frame what has ticks, and put a grid behind all that is drawn."""
    axes.grid(axis=grid)
    axes.set_axisbelow(True)
    open_frame(axes)


def open_frame(axes: Axes) -> None:
    """Leave the lines at the left and at the bottom."""
    axes.spines[["top", "right"]].set_visible(False)


def head(axes: Axes, title: str, size: float = 10.0) -> None:
    """Put a title above, at the left."""
    axes.set_title(title, loc="left", fontweight="bold", size=size)


def whole_numbers(*axes: Axis) -> None:
    """Label ticks with whole numbers, thousands apart by commas."""
    for axis in axes:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def no_minor_ticks(*axes: Axis) -> None:
    """Leave the ticks that are labelled."""
    for axis in axes:
        axis.set_minor_locator(NullLocator())
