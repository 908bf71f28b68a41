"""The table of results: a row for every variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from fedbandits.experiments.figures import NORMAL_95, ColourOf
from fedbandits.experiments.report.markup import row, table
from fedbandits.experiments.wording import mean_and_error, share
from fedbandits.simulation.fidelities import Fidelity

_HEADINGS = (
    *("total", "exploration", "communication", "clients", "phases", "decision slot"),
    *("best arm", "wrong arm", "undecided", "capped"),
)


def results_table(
    variants: Sequence[Mapping[str, Any]], colour_of: ColourOf, *, intervals: bool = False
) -> str:
    """Return what the summary says of the variants, beside their colours.

    Parameters
    ----------
    variants : sequence of mapping
        As summary.json has them.
    colour_of : mapping
        Of the labels.
    intervals : bool
        Whether ± is a 95 % confidence interval, and not one standard error.
    """
    times = NORMAL_95 if intervals else 1.0
    said = "Means over replications; ± is "
    said += "a 95&nbsp;% confidence interval." if intervals else "one standard error."
    # One replication has no error.
    if all(variant["regret"]["total"]["stderr"] is None for variant in variants):
        said = "One replication."
    return table(
        "Results",
        ("variant <small>algorithm, fidelity</small>", *_HEADINGS),
        [_results_row(variant, colour_of[variant["label"]], times) for variant in variants],
        kind="",
        caption=said,
        groups=(("", 1), ("regret at the end", 3), ("", 3), ("share of replications", 4)),
    )


def _results_row(variant: Mapping[str, Any], colour: str, times: float) -> str:
    regret = variant["regret"]
    measured = [regret["total"], regret["exploration"], regret["communication"], variant["clients"]]
    rates = ["best_arm_rate", "wrong_arm_rate", "undecided_rate", "capped_rate"]
    if variant["fidelity"] == Fidelity.SLOTS.value:
        others = ["–"] * (2 + len(rates))
    else:
        measured += [variant["phases"], variant["decision_slot"]]
        others = [share(variant[rate]) for rate in rates]
    return row(
        f'<span class="swatch" style="background:{colour}"></span>{escape(variant["label"])}'
        f" <small>{escape(variant['algorithm'])}, {escape(variant['fidelity'])}</small>",
        *(_cell(one, times) for one in measured),
        *others,
    )


def _cell(measured: Mapping[str, float | None] | None, times: float) -> str:
    """Return a mean ± so many standard errors."""
    if measured is not None and measured["stderr"] is not None:
        measured = {**measured, "stderr": times * measured["stderr"]}
    mean, error = mean_and_error(measured)
    return f"{mean} <small>± {error}</small>" if error else mean
