"""The contest as a file of Markdown, for a documentation to copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedbandits.contest.standings import FIELDS, Field
from fedbandits.contest.words import (
    HOW_TO_READ,
    losses,
    played_with,
    shown_games,
    shown_standings,
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
            f"{shown_standings(summary).markdown()}\n",
            f"{HOW_TO_READ}\n",
            *lost,
            f"{shown_games(summary).markdown()}\n",
        ]
    )


def _losses(summary: Mapping[str, Any], field: Field) -> str:
    head = f"Where {summary['champion']} is not within"
    head += f" {100 * (summary['near'] - 1):.0f} % of the first of {FIELDS[field]}:"
    said = losses(summary, field)
    return "\n".join([head, "", *(f"- {loss}" for loss in said)]) if said else f"{head} nowhere."
