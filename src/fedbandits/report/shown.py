"""A table to read, as plain words: the same in a terminal, in Markdown and on a page."""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedbandits.report.markup import row, table

WIDTH = 140
"""Characters in a line of text; 80 would break labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A table to read.

    Parameters
    ----------
    name : str
        What it is called: above it in a terminal, and by readers of screens on a page.
    headings : sequence of str
        Of the columns.
    rows : sequence of sequences of str
        What a row is about, then its cells.
    words : collection of str
        Headings of columns that hold words, which begin at the left, besides the first column.
    note : str
        What stands below it in a terminal.

    Examples
    --------
    >>> found = Shown(name="Games", headings=["game", "first"], rows=[["figure 4", "fed-ts"]])
    >>> print(found.markdown())
    | game | first |
    | --- | --- |
    | figure 4 | fed-ts |
    """

    name: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: Collection[str] = ()
    note: str = ""

    def printed(self) -> Table:
        """Return it as Rich prints it; what looks like markup in it is not."""
        found = Table(
            title=Text(self.name),
            title_justify="left",
            title_style="bold",
            caption=Text(self.note) if self.note else None,
            caption_justify="left",
        )
        for place, heading in enumerate(self.headings):
            words = place == 0 or heading in self.words
            justify: Literal["left", "right"] = "left" if words else "right"
            found.add_column(heading, justify=justify, overflow="fold", no_wrap=not words)
        for cells in self.rows:
            found.add_row(*map(Text, cells))
        return found

    def text(self, width: int = WIDTH) -> str:
        """Return it as plain text, so many characters wide."""
        buffer = io.StringIO()
        Console(file=buffer, width=width).print(self.printed())
        return buffer.getvalue().rstrip()

    def markdown(self) -> str:
        """Return it as Markdown."""
        lines = [self.headings, ["---"] * len(self.headings), *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def html(self, *, kind: str = "plain") -> str:
        """Return it as HTML, of a kind that `fedbandits.report.markup.table` knows."""
        rows = [row(*map(escape, cells)) for cells in self.rows]
        return table(self.name, [*map(escape, self.headings)], rows, kind=kind)
