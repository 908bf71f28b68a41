"""The table of results: a row for every variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from fedbandits.experiments.tables import REGRETS
from fedbandits.experiments.text import never_decides
from fedbandits.experiments.wording import mean_and_half, share
from fedbandits.report.markup import row, swatch, table
from fedbandits.report.palette import ColourOf

_HEADINGS = (
    *("total", "exploration", "communication", "per client"),
    *("clients", "phases", "decision slot"),
    *("best arm", "wrong arm", "undecided", "capped"),
)


def results_table(variants: Sequence[Mapping[str, Any]], colour_of: ColourOf) -> str:
    """Return what the summary says of the variants, beside their colours.

    Parameters
    ----------
    variants : sequence of mapping
        As summary.json has them.
    colour_of : mapping
        Of the labels.
    """
    said = "Means over replications; ± is half of a 95&nbsp;% confidence interval."
    # One replication has no error.
    if all(variant["regret"]["total"]["stderr"] is None for variant in variants):
        said = "One replication."
    return table(
        "Results",
        ("variant <small>algorithm, fidelity</small>", *_HEADINGS),
        [_results_row(variant, colour_of[variant["label"]]) for variant in variants],
        kind="",
        caption=said,
        groups=(("", 1), ("regret at the end", 4), ("", 3), ("share of replications", 4)),
    )


def _results_row(variant: Mapping[str, Any], colour: str) -> str:
    regret = variant["regret"]
    measured = [*(regret[key] for key in (*REGRETS, "per_client")), variant["clients"]]
    rates = ["best_arm_rate", "wrong_arm_rate", "undecided_rate", "capped_rate"]
    if never_decides(variant):
        others = ["–"] * (2 + len(rates))
    else:
        measured += [variant["phases"], variant["decision_slot"]]
        others = [share(variant[rate]) for rate in rates]
    return row(
        f"{swatch(colour)}{escape(variant['label'])}"
        f" <small>{escape(variant['algorithm'])}, {escape(variant['fidelity'])}</small>",
        *map(_cell, measured),
        *others,
    )


def _cell(measured: Mapping[str, float | None] | None) -> str:
    """Return a mean ± half of its interval."""
    mean, half = mean_and_half(measured)
    return f"{mean} <small>± {half}</small>" if half else mean
