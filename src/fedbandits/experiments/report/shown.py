"""A table to read, every cell in words: the same on a page, in Markdown and on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from fedbandits.experiments.report.markup import row, table


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A table to read.

    Parameters
    ----------
    name : str
        What it is about.
    headings : sequence of str
        Of the columns.
    rows : sequence of sequence of str
        The first cell of a row says what the row is.

    Examples
    --------
    >>> print(Shown(name="demo", headings=["a", "b"], rows=[["1", "2"]]).markdown())
    | a | b |
    | --- | --- |
    | 1 | 2 |
    """

    name: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """Return it as Markdown."""
        lines = [self.headings, ["---"] * len(self.headings), *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def html(self, *, kind: str = "plain") -> str:
        """Return it as HTML, of a kind that `fedbandits.experiments.report.markup.table` knows."""
        rows = [row(*map(escape, cells)) for cells in self.rows]
        return table(self.name, [*map(escape, self.headings)], rows, kind=kind)
