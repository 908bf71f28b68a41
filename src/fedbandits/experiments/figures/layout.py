"""Room in the regret figure: it grows with what stands around its axes, which keep their size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from fedbandits.experiments.figures.labels import GAP, LEADER, label_at_end, put_at_ends
from fedbandits.experiments.figures.lettering import LINE_SPACING, size_in_inches, wrap_within
from fedbandits.experiments.figures.palette import FAINT

# In inches.
_AXES_WIDTH, _LEAST_AXES_HEIGHT, _MARGIN = 5.2, 3.3, 0.12


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Where a curve ends at the right, and what it is called there.

    Parameters
    ----------
    label, value, colour
        Its name, its last value and its colour.
    dashes : tuple of float
        Lengths of line and gap, in line widths; a solid line when empty.
    """

    label: str
    value: float
    colour: str
    dashes: tuple[float, ...] = ()


def lay_out(
    figure: Figure, axes: Axes, endings: Sequence[Ending], heading: tuple[str, str]
) -> None:
    """Label the ends of the curves, head the figure and give everything the room it needs."""
    labels = [label_at_end(axes, ending.label) for ending in endings]
    boxes = [size_in_inches(figure, label) for label in labels]
    pitch = [height + GAP for _, height in boxes]
    axes_height = max(_LEAST_AXES_HEIGHT, sum(pitch) + 0.1)
    # Where ticks stand depends on how large the axes are, and what their labels need on the ticks.
    _place(figure, axes, (8.0, axes_height + 2.0), (1.5, 1.0), axes_height)
    left = size_in_inches(figure, axes.yaxis)[0] + _MARGIN
    bottom = size_in_inches(figure, axes.xaxis)[1] + _MARGIN
    right = LEADER + GAP + max(width for width, _ in boxes) + _MARGIN
    width = left + _AXES_WIDTH + right
    title, key = heading
    title_text = _heading_text(figure, title, size=11.0)
    title_text.set_fontweight("bold")
    wrap_within(figure, title_text, width - 2 * _MARGIN)
    key_text = _heading_text(figure, key, size=8.0)
    key_text.set_color(FAINT)
    title_height = size_in_inches(figure, title_text)[1]
    key_height = size_in_inches(figure, key_text)[1]
    height = bottom + axes_height + 0.15 + key_height + 0.07 + title_height + _MARGIN
    _place(figure, axes, (width, height), (left, bottom), axes_height)
    title_text.set_position((_MARGIN / width, 1 - _MARGIN / height))
    key_text.set_position((_MARGIN / width, 1 - (_MARGIN + title_height + 0.07) / height))
    put_at_ends(
        axes,
        labels,
        ends=[ending.value for ending in endings],
        colours=[ending.colour for ending in endings],
        dashes=[ending.dashes for ending in endings],
        room=pitch,
        axes_size=(_AXES_WIDTH, axes_height),
    )


def _heading_text(figure: Figure, content: str, *, size: float) -> Text:
    text = figure.text(0.0, 1.0, content, size=size, va="top", linespacing=LINE_SPACING)
    text.set_parse_math(False)
    return text


def _place(
    figure: Figure,
    axes: Axes,
    size: tuple[float, float],
    corner: tuple[float, float],
    axes_height: float,
) -> None:
    """Give the figure a size and put the axes at a corner, all in inches."""
    width, height = size
    figure.set_size_inches(width, height)
    axes.set_position(
        (corner[0] / width, corner[1] / height, _AXES_WIDTH / width, axes_height / height)
    )
