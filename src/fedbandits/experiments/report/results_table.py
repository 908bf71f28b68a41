"""The table of results: a row for every variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from fedbandits.experiments.figures import ColourOf
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


def results_table(variants: Sequence[Mapping[str, Any]], colour_of: ColourOf) -> str:
    """Return what the summary says of the variants, beside their colours."""
    headings = "".join(f'<th scope="col">{heading}</th>' for heading in _HEADINGS)
    rows = "\n".join(_results_row(variant, colour_of[variant["label"]]) for variant in variants)
    return f"""<div class="scroll" role="region" aria-label="Results" tabindex="0">
<table>
<thead>
<tr><td></td><th colspan="3" scope="colgroup">regret at the end</th>
<td colspan="3"></td><th colspan="4" scope="colgroup">share of replications</th></tr>
<tr><th scope="col">variant <small>algorithm, fidelity</small></th>
{headings}</tr>
</thead>
<tbody>
{rows}
</tbody>
</table>
</div>"""


def _results_row(variant: Mapping[str, Any], colour: str) -> str:
    regret = variant["regret"]
    measured = [regret["total"], regret["exploration"], regret["communication"], variant["clients"]]
    rates = ["best_arm_rate", "wrong_arm_rate", "undecided_rate", "capped_rate"]
    if variant["fidelity"] == Fidelity.SLOTS.value:
        cells = [*map(_cell, measured), *["<td>–</td>"] * (2 + len(rates))]
    else:
        measured += [variant["phases"], variant["decision_slot"]]
        cells = [*map(_cell, measured), *(f"<td>{share(variant[rate])}</td>" for rate in rates)]
    return (
        f'<tr><th scope="row"><span class="swatch" style="background:{colour}"></span>'
        f"{escape(variant['label'])} <small>{escape(variant['algorithm'])},"
        f" {escape(variant['fidelity'])}</small></th>{''.join(cells)}</tr>"
    )


def _cell(measured: Mapping[str, float | None] | None) -> str:
    mean, error = mean_and_error(measured)
    return f"<td>{mean}{f' <small>± {error}</small>' if error else ''}</td>"
