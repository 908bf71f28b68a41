"""A table to read, as plain words: the same in a terminal, in Markdown and on a page."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from html import escape

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedbandits.report.markup import Words, row, table

WIDTH = 140
"""How many characters a line to a file or a pipe can have; more if the table needs them."""

# A column of words has at least so many characters, if it needs them.
_LEAST_WORDS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A table to read.

    Parameters
    ----------
    name : str
        Its title in a terminal, and its name for screen readers on a page.
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

    def print(self, console: Console) -> None:
        """Print it; what looks like markup in it is not.

        No number is cut. If the terminal is too narrow for all columns, the others follow below,
        beside the first column again. In a file or a pipe, lines are as long as the table needs.
        """
        if not console.is_terminal:
            console.width = max(
                WIDTH, _across(max(low, min(high, 40)) for low, high in self._limits())
            )
        console.print(Text(self.name, style="bold"))
        for part in self._parts(console.width):
            console.print(part)
        if self.note:
            console.print(Text(self.note, style="italic"), width=min(console.width, 100))

    def _limits(self) -> list[tuple[int, int]]:
        """Return the least and the greatest width of each column.

        Headings and words can be broken between words, and numbers cannot.
        """
        limits = []
        for place, heading in enumerate(self.headings):
            cells = [cells[place] for cells in self.rows]
            most = max(map(cell_len, [heading, *cells]))
            words = place == 0 or heading in self.words
            whole = [*heading.split(), *(() if words else cells)]
            least = max(map(cell_len, whole), default=0)
            limits.append((max(least, min(most, _LEAST_WORDS)) if words else least, most))
        return limits

    def _parts(self, width: int) -> list[Table]:
        limits = self._limits()
        parts = [[0]]
        for place in range(1, len(limits)):
            least = _across(limits[one][0] for one in [*parts[-1], place])
            if least > width and len(parts[-1]) > 1:
                parts.append([0])
            parts[-1].append(place)
        return [self._part(shown, limits, width) for shown in parts]

    def _part(self, shown: Sequence[int], limits: Sequence[tuple[int, int]], width: int) -> Table:
        room = width - _across(limits[place][0] for place in shown)
        part = Table()
        for place in shown:
            least, most = limits[place]
            more = max(0, min(room, most - least))
            room -= more
            left = place == 0 or self.headings[place] in self.words
            part.add_column(
                Text(self.headings[place]),
                justify="left" if left else "right",
                overflow="fold",
                width=least + more,
            )
        for cells in self.rows:
            part.add_row(*(Text(cells[place]) for place in shown))
        return part

    def text(self) -> str:
        """Return it as plain text, in lines as long as it needs."""
        buffer = io.StringIO()
        self.print(Console(file=buffer, force_terminal=False))
        return buffer.getvalue().rstrip()

    def markdown(self) -> str:
        """Return it as Markdown."""
        lines = [self.headings, ["---"] * len(self.headings), *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def html(self, *, kind: str = "") -> str:
        """Return it as HTML, of a kind that `fedbandits.report.markup.table` knows."""
        heads, *lines = (
            [
                Words(escape(cell)) if heading in self.words else escape(cell)
                for heading, cell in zip(self.headings, cells, strict=True)
            ]
            for cells in (self.headings, *self.rows)
        )
        return table(self.name, heads, [row(*line) for line in lines], kind=kind)


def _across(widths: Iterable[int]) -> int:
    """Return how wide a table is with columns of these widths, with its lines."""
    return 1 + sum(width + 3 for width in widths)
