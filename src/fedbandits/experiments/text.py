"""The summary as a table for a terminal."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console
from rich.table import Table


def summary_table(summary: dict[str, Any]) -> Table:
    """Return the summary as a Rich table: a row a variant, means ± standard errors."""
    table = Table(title=summary["title"], title_justify="left", title_style="bold")
    table.add_column("variant", overflow="fold")
    table.add_column("fidelity")
    for heading in (
        "total regret",
        "exploration",
        "communication",
        "clients",
        "phases",
        "best arm",
    ):
        table.add_column(heading, justify="right")
    for variant in summary["variants"]:
        regret = variant["regret"]
        table.add_row(
            variant["label"],
            variant["fidelity"],
            with_error(regret["total"]),
            with_error(regret["exploration"]),
            with_error(regret["communication"]),
            f"{variant['clients']['mean']:,.0f}",
            f"{variant['phases']['mean']:,.1f}",
            _outcome(variant),
        )
    return table


def with_error(measured: dict[str, float | None]) -> str:
    """Return a mean and its standard error as people write them.

    Examples
    --------
    >>> with_error({"mean": 15089.3, "stderr": 52.1})
    '15,089 ± 52'
    >>> with_error({"mean": 3.21, "stderr": None})
    '3.2'
    """
    mean, stderr = measured["mean"], measured["stderr"]
    if mean is None:
        return "–"
    digits = 0 if abs(mean) >= 100 else 1
    error = "" if stderr is None else f" ± {stderr:,.{digits}f}"
    return f"{mean:,.{digits}f}{error}"


def _outcome(variant: dict[str, Any]) -> str:
    """Return how often the best arm was found, and what happened otherwise."""
    parts = [f"{100 * variant['best_arm_rate']:.4g} %"]
    for key, word in (("wrong_arm_rate", "wrong"), ("undecided_rate", "undecided")):
        if variant[key]:
            parts.append(f"{100 * variant[key]:.4g} % {word}")
    return ", ".join(parts)


def summary_text(summary: dict[str, Any], width: int = 120) -> str:
    """Return the table as plain text."""
    buffer = io.StringIO()
    Console(file=buffer, width=width).print(summary_table(summary))
    return buffer.getvalue().rstrip()
