"""Text in figures: shown as its author wrote it, wrapped and measured."""

from __future__ import annotations

import textwrap

from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.text import Text

LINE_SPACING = 1.15


def wrapped(text: str, width: int, max_lines: int) -> str:
    """Return text in lines of a given number of characters, cut short with an ellipsis."""
    return textwrap.fill(text, width, max_lines=max_lines, placeholder=" …")


def wrap_within(figure: Figure, text: Text, width: float) -> None:
    """Wrap a text so that it is no wider than so many inches."""
    content = text.get_text()
    characters = 120
    text.set_text(wrapped(content, characters, 3))
    while size_in_inches(figure, text)[0] > width and characters > 10:
        characters -= 5
        text.set_text(wrapped(content, characters, 3))


def size_in_inches(figure: Figure, part: Text | Axis) -> tuple[float, float]:
    """Return width and height of a text, or of an axis with its labels, in inches."""
    box = part.get_window_extent() if isinstance(part, Text) else part.get_tightbbox()
    return (0.0, 0.0) if box is None else (box.width / figure.dpi, box.height / figure.dpi)
