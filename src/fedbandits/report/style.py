"""The look of everything that Matplotlib draws, and the files it becomes.

Figures are made with Matplotlib's objects alone: no global state is read or changed.
"""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font
from matplotlib.style import context
from matplotlib.text import Text
from PIL import Image

ImageKind: TypeAlias = Literal["png", "pdf"]

_FONT = "DejaVu Sans"


@contextmanager
def house_style() -> Iterator[None]:
    """Style what is made meanwhile, whatever the user's own style is."""
    with context(Path(__file__).with_name("print.mplstyle")), warnings.catch_warnings():
        # Letters that the font does not have are drawn as boxes; `boxed` finds them.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


@contextmanager
def new_figure(
    width: float, height: float, layout: Literal["constrained", "compressed"] | None = "constrained"
) -> Iterator[Figure]:
    """Yield a figure of so many inches, styled like all that is drawn into it meanwhile."""
    with house_style():
        figure = Figure(figsize=(width, height), layout=layout)
        FigureCanvasAgg(figure)
        yield figure


def image(figure: Figure, kind: ImageKind = "png", *, dpi: float = 200.0) -> bytes:
    r"""Return a figure as the bytes of a file, the same ones every time.

    Examples
    --------
    >>> image(Figure(figsize=(1, 1)), dpi=10.0)[:4]
    b'\x89PNG'
    """
    buffer = io.BytesIO()
    # The time of day would make two files of the same results differ.
    metadata = {"CreationDate": None} if kind == "pdf" else None
    with house_style():
        figure.savefig(buffer, format=kind, dpi=dpi, metadata=metadata)
    return buffer.getvalue() if kind == "pdf" else _with_few_colours(buffer)


def _with_few_colours(png: io.BytesIO) -> bytes:
    """Return a PNG that looks the same and takes a quarter of the bytes."""
    with Image.open(png) as picture:
        few = picture.convert("RGB").quantize(128, dither=Image.Dither.NONE)
    buffer = io.BytesIO()
    few.save(buffer, "png", optimize=True)
    return buffer.getvalue()


def boxed(figure: Figure) -> list[str]:
    """Return the texts of a figure with letters that the font does not have.

    Examples
    --------
    >>> figure = Figure()
    >>> _ = figure.text(0, 0, "Δ = 1"), figure.text(0, 0, "客户 1")
    >>> boxed(figure)
    ['客户 1']
    """
    known = get_font(findfont(_FONT)).get_charmap()
    texts = [part.get_text() for part in figure.findobj(Text) if isinstance(part, Text)]
    missing = (text for text in texts if any(ord(c) not in known for c in "".join(text.split())))
    return [*dict.fromkeys(" ".join(text.split()) for text in missing)]


def open_frame(axes: Axes) -> None:
    """Leave of the frame what is at the left and at the bottom, and put grids behind all."""
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def wrapped(text: str, width: int, max_lines: int) -> str:
    """Return text in lines of a given number of characters, cut short with an ellipsis."""
    return textwrap.fill(text, width, max_lines=max_lines, placeholder=" …")


def size_in_inches(figure: Figure, part: Text | Axis) -> tuple[float, float]:
    """Return width and height of a text, or of an axis with its labels, in inches."""
    box = part.get_window_extent() if isinstance(part, Text) else part.get_tightbbox()
    return (0.0, 0.0) if box is None else (box.width / figure.dpi, box.height / figure.dpi)


def number(value: float) -> str:
    """Return a number as ticks have it.

    Examples
    --------
    >>> number(1_250_000.0), number(0.30000000000000004)
    ('1,250,000', '0.3')
    """
    return f"{value:,.12g}"


_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def power(value: float) -> str:
    """Return a power of ten as ticks have it; nothing for what is none.

    Examples
    --------
    >>> power(1e-7), power(1000.0), power(20.0)
    ('10⁻⁷', '10³', '')
    """
    exponent = math.log10(value) if value > 0 else 0.5
    whole = round(exponent)
    return f"10{str(whole).translate(_SUPERSCRIPTS)}" if abs(exponent - whole) < 1e-9 else ""


def percent(value: float) -> str:
    """Return a share as ticks have it.

    Examples
    --------
    >>> percent(0.05)
    '5 %'
    """
    return f"{100 * value:.10g} %"
