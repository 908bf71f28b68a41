"""The contest as a file of Markdown, for a documentation to copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedbandits.contest.standings import FIELDS, Field
from fedbandits.contest.words import (
    HOW_TO_READ,
    Cells,
    games_cells,
    losses,
    played_with,
    standings_cells,
)


def as_markdown(summary: Mapping[str, Any]) -> str:
    """Return the standings, the losses of the champion and the games.

    Parameters
    ----------
    summary : mapping
        What contest.json says.
    """
    lost = (f"{_losses(summary, field)}\n" for field in FIELDS)
    return "\n".join(
        [
            f"{played_with(summary)}\n",
            table_of(standings_cells(summary)),
            f"{HOW_TO_READ}\n",
            *lost,
            table_of(games_cells(summary)),
        ]
    )


def _losses(summary: Mapping[str, Any], field: Field) -> str:
    head = f"Where {summary['champion']} is not within"
    head += f" {100 * (summary['near'] - 1):.0f} % of the first of {FIELDS[field]}:"
    said = losses(summary, field)
    return "\n".join([head, "", *(f"- {loss}" for loss in said)]) if said else f"{head} nowhere."


def table_of(cells: Cells) -> str:
    """Return cells as a table.

    Examples
    --------
    >>> print(table_of(Cells(["a", "b"], [["1", "2"]])))
    | a | b |
    | --- | --- |
    | 1 | 2 |
    <BLANKLINE>
    """
    lines = [cells.headings, ["---"] * len(cells.headings), *cells.rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
