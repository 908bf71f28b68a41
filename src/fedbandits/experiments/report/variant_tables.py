"""Tables with a row for every variant: its results, and what leaves its clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from fedbandits.experiments.text import TIMES, lower_bound_notes, never_decides
from fedbandits.report.markup import Words, row, swatch, table
from fedbandits.report.palette import ColourOf
from fedbandits.report.wording import mean_and_half, share
from fedbandits.simulation.tables import REGRETS

_REGRETS = ("total", "exploration", "communication", "per client")
_OTHERS = ("clients", "phases", "decision slot", "best arm", "wrong arm", "undecided", "capped")


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
    bounded = lower_bound_notes(variants)
    regrets = (*_REGRETS, *([TIMES] if bounded else []))
    return table(
        "Results",
        ("variant <small>algorithm, fidelity</small>", *regrets, *_OTHERS),
        [_results_row(one, colour_of[one["label"]], bool(bounded)) for one in variants],
        kind="",
        caption=" ".join([said, *(f"{escape(note[0].upper() + note[1:])}." for note in bounded)]),
        groups=(
            *(("", 1), ("regret at the end", len(regrets))),
            *(("", 3), ("share of replications", 4)),
        ),
    )


def _results_row(variant: Mapping[str, Any], colour: str, bounded: bool) -> str:
    measured = [variant["regret"][key] for key in (*REGRETS, "per_client")]
    measured += [variant["lower_bound"]["times"]] if bounded else []
    measured.append(variant["clients"])
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


_SENT = (
    "variant <small>protection</small>",
    *("bits per client", "bits in total", "budget ended it", "clipped"),
    Words("spent at most"),
)
_CAPTION = """Uplink: the bits of all means that clients send, without what carries them. A mean
that is sent as it is, or with noise, takes 64."""


def protection_section(variants: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of what the clients of every variant have sent.

    Parameters
    ----------
    variants : sequence of mapping
        As summary.json has them.
    """
    shown = table(
        "What leaves a client",
        _SENT,
        [_protection_row(variant) for variant in variants],
        caption=_CAPTION,
    )
    return f"""<p>Clients send the average of what they observed of each arm in a phase, never an
observation. Rounding blurs an average and saves bits; it is not differential privacy. Noise is: ε
and δ (or ρ) bound how much anybody can learn from all that was sent about <em>one observation</em>
at event level, about a <em>person</em> with so many observations at person level, about <em>all
that a client has</em> at user level.</p>
{shown}"""


def _protection_row(variant: Mapping[str, Any]) -> str:
    uplink, privacy = variant["uplink_bits"], variant["privacy"]
    bits = [mean_and_half(uplink[key])[0] for key in ("per_client", "total")]
    protection, rest, spent = "none", ["–", "–"], "–"
    if privacy is not None:
        clipped = mean_and_half(privacy["clipped"])[0] if privacy["clipped_share"] > 0 else "none"
        protection, spent = privacy["words"], privacy["spent"]
        rest = [share(privacy["budget_spent_rate"]), clipped]
    return row(
        f"{escape(variant['label'])} <small>{escape(protection)}</small>",
        *(escape(cell) for cell in (*bits, *rest)),
        Words(escape(spent)),
    )
