"""Labels at the ends of curves: as near as can be, none on another, tied to them by a line."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.text import Text

from fedbandits.experiments.figures.lettering import LINE_SPACING, wrapped

LEADER, GAP = 0.4, 0.05
"""Inches from the axes to where a label's line ends, and of space around a label."""

_LABEL_SIZE = 8.5


def label_at_end(axes: Axes, label: str) -> Text:
    """Return the label of a curve, to be put in place later."""
    text = axes.text(
        1.0,
        0.0,
        wrapped(label, 34, 3),
        transform=axes.transAxes,
        va="center",
        size=_LABEL_SIZE,
        linespacing=LINE_SPACING,
    )
    # The user's dollar signs are dollar signs.
    text.set_parse_math(False)
    return text


def put_at_ends(
    axes: Axes,
    labels: Sequence[Text],
    *,
    ends: Iterable[float],
    colours: Iterable[str],
    room: Sequence[float],
    axes_size: tuple[float, float],
    dashes: Sequence[tuple[float, ...]] | None = None,
) -> None:
    """Put labels beside the values where their curves end, and draw lines from there to them.

    Room, how much of the height each label takes, and the size of the axes are in inches. Lines
    are dashed as their curves are: all are solid by default.
    """
    width, height = axes_size
    levels = [height_in_axes(axes, end) for end in ends]
    places = spread_out([level * height for level in levels], room, 0.0, height)
    dashed = [()] * len(labels) if dashes is None else dashes
    for label, colour, level, place, dash in zip(
        labels, colours, levels, places, dashed, strict=True
    ):
        label.set_position((1.0 + (LEADER + GAP) / width, place / height))
        _lead(axes, width, (level, place / height), colour, dash)


def height_in_axes(axes: Axes, value: float) -> float:
    """Return how high up the axes a value is, from 0 to 1."""
    low, high = axes.get_ylim()
    if axes.get_yscale() == "log":
        low, high, value = math.log(low), math.log(high), math.log(max(value, low))
    return min(max((value - low) / (high - low), 0.0), 1.0)


def spread_out(
    wanted: Sequence[float], room: Sequence[float], low: float, high: float
) -> list[float]:
    """Return places near the wanted ones that do not overlap, in the same order.

    Labels that are too close form a block, which stands where its members want to be on average.

    Parameters
    ----------
    wanted : sequence of float
        Where the middle of each label should be.
    room : sequence of float
        How much each label takes.
    low, high : float
        Where the first begins at the lowest and the last ends at the highest.

    Examples
    --------
    >>> spread_out([1.0, 5.0, 5.0], [2.0, 2.0, 2.0], 0.0, 10.0)
    [1.0, 4.0, 6.0]
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    # A block: its members, where it begins, and how much it takes.
    blocks: list[tuple[list[int], float, float]] = []
    for index in order:
        members, taken = [index], room[index]
        begin = min(max(wanted[index] - taken / 2, low), high - taken)
        while blocks and blocks[-1][1] + blocks[-1][2] > begin:
            earlier, _, before = blocks.pop()
            members, taken = earlier + members, before + taken
            begins, offset = [], 0.0
            for member in members:
                begins.append(wanted[member] - room[member] / 2 - offset)
                offset += room[member]
            begin = min(max(sum(begins) / len(begins), low), high - taken)
        blocks.append((members, begin, taken))
    places = [0.0] * len(wanted)
    for members, begin, _ in blocks:
        at = begin
        for member in members:
            places[member] = at + room[member] / 2
            at += room[member]
    return places


def _lead(
    axes: Axes,
    axes_width: float,
    levels: tuple[float, float],
    colour: str,
    dash: tuple[float, ...],
) -> None:
    """Draw a line from the end of a curve to its label, level at both ends."""
    across = [1.0 + part * LEADER / axes_width for part in (0.0, 0.2, 0.8, 1.0)]
    end, place = levels
    path = Path(list(zip(across, (end, end, place, place), strict=True)))
    axes.add_patch(
        PathPatch(
            path,
            transform=axes.transAxes,
            fill=False,
            edgecolor=colour,
            linewidth=1.2,
            linestyle=(0, dash) if dash else "solid",
            joinstyle="round",
            clip_on=False,
        )
    )
