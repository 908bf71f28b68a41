"""What a notebook asks of a value: a table to read, columns to compute with, a picture, a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

from fedbandits.errors import InputError, check_installed, nearest
from fedbandits.notebook.saved import read_value, write_value
from fedbandits.report.chart import Chart

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from matplotlib.axes import Axes

    from fedbandits.report.shown import Shown

Table: TypeAlias = dict[str, list[Any]]
"""Columns of one length, by name: the one shape of all tables."""

# Notebooks put all cells at the right, and have no style for what belongs to a page of its own.
_STYLE = ".fedbandits .words,.fedbandits th{text-align:left}.fedbandits p{white-space:pre-line}"


class Viewed(ABC):
    """A value that shows itself where people work with it.

    Subclasses say what there is: `shown`, `chart`, and the methods that return their tables.
    """

    __slots__ = ()

    tables: ClassVar[tuple[str, ...]]
    """The names of its tables, each a method without arguments; the first is the usual one."""
    charts: ClassVar[tuple[str, ...]]
    """The names of its charts; the first that there is, is the usual one."""

    @abstractmethod
    def in_short(self) -> str:
        """Return what it is, in a line."""

    @abstractmethod
    def shown(self) -> Shown:
        """Return what a reader should see first, as a table."""

    @abstractmethod
    def chart(self, name: str | None = None) -> Chart:
        """Return one of its charts, as a value that print and pages draw.

        Parameters
        ----------
        name : str, optional
            One of ``charts``; the usual one by default.
        """

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.in_short()}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        shown = self.shown()
        note = f"<p>{escape(shown.note)}</p>" if shown.note else ""
        head = f"<p><b>{escape(shown.name)}</b></p>"
        return (
            f'<div class="fedbandits"><style>{_STYLE}</style>{head}\n{shown.html()}\n{note}</div>'
        )

    def table(self) -> str:
        """Return what a notebook shows as text that fits a terminal."""
        return self.shown().text()

    def columns(self, table: str | None = None) -> Table:
        """Return a table as columns by name, each a list; None where there is no value.

        Parameters
        ----------
        table : str, optional
            One of ``tables``; the first by default.
        """
        found: Table = getattr(self, known_name(table, self.tables, "table"))()
        return found

    def to_polars(self, table: str | None = None) -> pl.DataFrame:
        """Return a table as a frame of Polars, which must be installed.

        Parameters
        ----------
        table : str, optional
            One of ``tables``; the first by default.
        """
        check_installed("polars", "to_polars()", "pip install polars")
        import polars  # noqa: PLC0415 - not everybody has it

        return polars.DataFrame(self.columns(table), strict=False)

    def to_pandas(self, table: str | None = None) -> pd.DataFrame:
        """Return a table as a frame of pandas, which must be installed.

        Parameters
        ----------
        table : str, optional
            One of ``tables``; the first by default.
        """
        check_installed("pandas", "to_pandas()", "pip install pandas")
        import pandas  # noqa: PLC0415 - not everybody has it

        return pandas.DataFrame(self.columns(table))

    def plot(self, name: str | None = None, *, ax: Axes | None = None) -> Axes:
        """Draw a chart with Matplotlib, and return the axes of its first panel.

        Needs the extra ``report``.

        Parameters
        ----------
        name : str, optional
            One of ``charts``; the usual one by default.
        ax : Axes, optional
            Where to draw. By default there is a new figure, which notebooks and
            ``matplotlib.pyplot.show`` show. Charts with several panels always have their own:
            ``axes.figure.axes`` holds all of them.
        """
        check_installed("matplotlib", "plot()", 'pip install "fedbandits[report]"')
        from fedbandits.report.still import draw  # noqa: PLC0415 - Matplotlib, only here

        chart = self.chart(name)
        if ax is not None and len(chart.panels) > 1:
            raise InputError(
                "ax",
                f"the chart has {len(chart.panels)} panels, which do not fit into one pair of axes;"
                " leave it out, and find all axes in plot().figure.axes",
            )
        return draw(chart, ax)

    def save(self, path: str | Path) -> Path:
        """Write it to a file that `load` reads, whole or not at all; return the path.

        The file holds numbers and the names of classes, and no code.
        """
        return write_value(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return what `save` has written; parts of your own must be imported before."""
        found = read_value(Path(path))
        if not isinstance(found, cls):
            kind = type(found).__name__
            raise InputError(str(path), f"holds {kind}, not {cls.__name__}; use {kind}.load")
        return found


def known_name(name: str | None, names: tuple[str, ...], where: str) -> str:
    """Return one of several names, the first by default, or say which there are.

    Examples
    --------
    >>> known_name(None, ("replications", "curves"), "table")
    'replications'
    >>> known_name("map", ("sweep",), "name")
    Traceback (most recent call last):
        ...
    fedbandits.errors.InputError: name: 'map' is not known; known: sweep
    """
    if name is None:
        return names[0]
    if name not in names:
        raise InputError(where, f"{name!r} is not known; {nearest(name, names)}")
    return name
