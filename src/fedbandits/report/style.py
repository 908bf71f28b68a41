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
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, fontManager, get_font
from matplotlib.style import context
from matplotlib.text import Text
from PIL import Image

ImageKind: TypeAlias = Literal["png", "pdf"]

_LOOK = Path(__file__).with_name("print.mplstyle")
_FONT = "DejaVu Sans"
# Frames in place of letters.
_FRAMES = ("Last Resort", "LastResort", ".LastResort")


@contextmanager
def house_style(letters: str = "") -> Iterator[None]:
    """Style what is made meanwhile, whatever the user's own style is.

    Letters that the font of figures does not have are drawn in installed fonts that have them.
    """
    fonts: dict[str, Any] = {"font.family": _fonts_for(letters)[0]}
    with context([_LOOK, fonts]), warnings.catch_warnings():
        # Letters that no font has are drawn as boxes; `boxed` finds them.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def _fonts_for(letters: str) -> tuple[list[str], set[str]]:
    """Return the font of figures with others for letters that it lacks, and what all lack."""
    found = [_FONT]
    missing = set("".join(letters.split())) - _letters_of(findfont(_FONT))
    if missing:
        # Upright and of normal weight if possible; the same ones every time.
        fonts = [one for one in fontManager.ttflist if not one.name.startswith(_FRAMES)]
        for font in sorted(fonts, key=lambda one: (one.style, one.weight != 400, one.name)):
            if having := missing & _letters_of(font.fname):
                found.append(font.name)
                missing -= having
    return found, missing


@cache
def _letters_of(path: str) -> frozenset[str]:
    try:
        return frozenset(map(chr, get_font(path).get_charmap()))
    except (OSError, RuntimeError):  # one that Matplotlib cannot draw with
        return frozenset()


@contextmanager
def new_figure(
    width: float,
    height: float,
    layout: Literal["constrained", "compressed"] | None = "constrained",
    *,
    letters: str = "",
) -> Iterator[Figure]:
    """Yield a figure of so many inches, styled like all that is drawn into it meanwhile."""
    with house_style(letters):
        figure = Figure(figsize=(width, height), layout=layout)
        FigureCanvasAgg(figure)
        yield figure


def _texts_of(figure: Figure) -> list[str]:
    return [part.get_text() for part in figure.findobj(Text) if isinstance(part, Text)]


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
    with house_style("".join(_texts_of(figure))):
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
    r"""Return the texts of a figure with letters that no installed font has.

    Examples
    --------
    >>> figure = Figure()
    >>> _ = figure.text(0, 0, "Δ = 1"), figure.text(0, 0, "\U0010fff0 1")
    >>> boxed(figure) == ["\U0010fff0 1"]
    True
    """
    texts = _texts_of(figure)
    _, missing = _fonts_for("".join(texts))
    return [*dict.fromkeys(" ".join(text.split()) for text in texts if missing & set(text))]


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
