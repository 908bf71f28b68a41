"""The table of results: a row for every variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from fedbandits.experiments.figures import NORMAL_95, ColourOf
from fedbandits.experiments.report.markup import scrolling
from fedbandits.experiments.wording import mean_and_error, share
from fedbandits.simulation.fidelities import Fidelity

_HEADINGS = (
    "total",
    "exploration",
    "communication",
    "clients",
    "phases",
    "decision slot",
    "best arm",
    "wrong arm",
    "undecided",
    "capped",
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
    headings = "".join(f'<th scope="col">{heading}</th>' for heading in _HEADINGS)
    times = NORMAL_95 if intervals else 1.0
    rows = "\n".join(
        _results_row(variant, colour_of[variant["label"]], times) for variant in variants
    )
    said = "Means over replications; ± is "
    said += "a 95&nbsp;% confidence interval." if intervals else "one standard error."
    # One replication has no error.
    if all(variant["regret"]["total"]["stderr"] is None for variant in variants):
        said = "One replication."
    table = f"""<table>
<caption>{said}</caption>
<thead>
<tr><td></td><th colspan="3" scope="colgroup">regret at the end</th>
<td colspan="3"></td><th colspan="4" scope="colgroup">share of replications</th></tr>
<tr><th scope="col">variant <small>algorithm, fidelity</small></th>
{headings}</tr>
</thead>
<tbody>
{rows}
</tbody>
</table>"""
    return scrolling("Results", table)


def _results_row(variant: Mapping[str, Any], colour: str, times: float) -> str:
    def cell(measured: Mapping[str, float | None] | None) -> str:
        return _cell(measured, times)

    regret = variant["regret"]
    measured = [regret["total"], regret["exploration"], regret["communication"], variant["clients"]]
    rates = ["best_arm_rate", "wrong_arm_rate", "undecided_rate", "capped_rate"]
    if variant["fidelity"] == Fidelity.SLOTS.value:
        cells = [*map(cell, measured), *["<td>–</td>"] * (2 + len(rates))]
    else:
        measured += [variant["phases"], variant["decision_slot"]]
        cells = [*map(cell, measured), *(f"<td>{share(variant[rate])}</td>" for rate in rates)]
    return (
        f'<tr><th scope="row"><span class="swatch" style="background:{colour}"></span>'
        f"{escape(variant['label'])} <small>{escape(variant['algorithm'])},"
        f" {escape(variant['fidelity'])}</small></th>{''.join(cells)}</tr>"
    )


def _cell(measured: Mapping[str, float | None] | None, times: float) -> str:
    """Return a mean ± so many standard errors."""
    if measured is not None and measured["stderr"] is not None:
        measured = {**measured, "stderr": times * measured["stderr"]}
    mean, error = mean_and_error(measured)
    return f"<td>{mean}{f' <small>± {error}</small>' if error else ''}</td>"
