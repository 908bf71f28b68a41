"""What leaves a client: the bits of its means, how they are protected, and what that spends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from fedbandits.experiments.report.markup import scrolling
from fedbandits.experiments.wording import mean_and_error, share

_HEADINGS = ("bits a client", "bits in total", "budget ended it", "clipped")


def protection_section(variants: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of what the clients of every variant have sent.

    Parameters
    ----------
    variants : sequence of mapping
        As summary.json has them.
    """
    headings = "".join(f'<th scope="col">{heading}</th>' for heading in _HEADINGS)
    rows = "\n".join(_row(variant) for variant in variants)
    table = f"""<table class="plain">
<caption>Uplink: the bits of all means that clients send, without what carries them. A mean that is
sent as it is, or with noise, takes 64.</caption>
<thead><tr><th scope="col">variant <small>protection</small></th>{headings}
<th scope="col" class="words">spent at most</th></tr></thead>
<tbody>
{rows}
</tbody>
</table>"""
    return f"""<p>Clients send the average of what they observed of each arm in a phase, never an
observation. Rounding blurs an average and saves bits; it is no differential privacy. Noise is: ε
and δ (or ρ) bound how much anybody can learn from all that was sent about <em>one observation</em>
at event level, about a <em>person</em> with so many observations at person level, about <em>all
that a client has</em> at user level.</p>
{scrolling("What leaves a client", table)}"""


def _row(variant: Mapping[str, Any]) -> str:
    uplink, privacy = variant["uplink_bits"], variant["privacy"]
    bits = [mean_and_error(uplink[key])[0] for key in ("per_client", "total")]
    protection, rest, spent = "none", ["–", "–"], "–"
    if privacy is not None:
        clipped = mean_and_error(privacy["clipped"])[0] if privacy["clipped_share"] > 0 else "none"
        protection, spent = privacy["words"], privacy["spent"]
        rest = [share(privacy["budget_spent_rate"]), clipped]
    cells = "".join(f"<td>{escape(cell)}</td>" for cell in (*bits, *rest))
    return (
        f'<tr><th scope="row">{escape(variant["label"])} <small>{escape(protection)}</small></th>'
        f'{cells}<td class="words">{escape(spent)}</td></tr>'
    )
