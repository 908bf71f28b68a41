"""The summary as a table for a terminal."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedbandits.experiments.bounds import VariantBound
from fedbandits.experiments.wording import in_words, share


def summary_table(summary: dict[str, Any]) -> Table:
    """Return the summary as a Rich table: a row a variant, means ± standard errors."""
    alone = all(variant["regret"]["total"]["stderr"] is None for variant in summary["variants"])
    notes = [] if alone else ["± one standard error"]
    if any(variant.get("epsilon") for variant in summary["spec"]["variants"]):
        notes.append("best arm found: up to the variant's epsilon")
    # Text, because titles and labels are the user's: what looks like markup in them is not.
    table = Table(
        title=Text(summary["title"]),
        title_justify="left",
        title_style="bold",
        caption="; ".join(notes) or None,
        caption_justify="left",
    )
    table.add_column("variant", overflow="fold")
    table.add_column("fidelity", no_wrap=True)
    for heading in ("total regret", "exploration", "communication", "clients", "phases"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("best arm found", justify="right")
    for variant in summary["variants"]:
        regret = variant["regret"]
        table.add_row(
            Text(variant["label"]),
            variant["fidelity"],
            in_words(regret["total"]),
            in_words(regret["exploration"]),
            in_words(regret["communication"]),
            in_words(variant["clients"]),
            in_words(variant["phases"]),
            _outcome(variant),
        )
    return table


def bounds_table(title: str, bounds: Sequence[VariantBound]) -> Table:
    """Return bounds on the expected total regret as a Rich table, or why there are none."""
    table = Table(title=Text(title), title_justify="left", title_style="bold")
    table.add_column("variant", overflow="fold")
    table.add_column("bound on regret", justify="right", no_wrap=True)
    capped = any(found.bound is not None and found.bound.undecided > 0 for found in bounds)
    also = ("undecided",) if capped else ()
    for heading in ("exploration", "communication", "failure", *also, "phases"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("by", overflow="fold")
    for found in bounds:
        cells = ["–"] * (5 + capped)
        if found.bound is not None:
            bound, first, last = found.bound, found.bound.phases.min(), found.bound.phases.max()
            terms = [bound.total, bound.exploration, bound.communication, bound.failure]
            terms += [bound.undecided] if capped else []
            cells = [f"{value:,.0f}" for value in terms]
            cells.append(f"{first:,} to {last:,}")
        by = found.reason if found.bound is None else f"Theorem {found.bound.theorem}"
        table.add_row(Text(found.variant.label), *cells, by)
    return table


def _outcome(variant: dict[str, Any]) -> str:
    """Return how often the best arm was found, and what happened otherwise."""
    parts = [share(variant["best_arm_rate"])]
    for key, word in (("wrong_arm_rate", "wrong"), ("undecided_rate", "undecided")):
        if variant[key]:
            parts.append(f"{share(variant[key])} {word}")
    if variant["privacy"] is not None and variant["privacy"]["budget_spent_rate"]:
        spent = share(variant["privacy"]["budget_spent_rate"])
        parts.append(f"{spent} ended by the privacy budget")
    return ", ".join(parts)


def summary_text(summary: dict[str, Any], width: int = 140) -> str:
    """Return the table as plain text."""
    buffer = io.StringIO()
    Console(file=buffer, width=width).print(summary_table(summary))
    return buffer.getvalue().rstrip()
