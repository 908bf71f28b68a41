"""What leaves a client: the bits of its means, how they are protected, and what that spends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from fedbandits.experiments.wording import mean_and_half, share
from fedbandits.report.markup import Words, row, table

_HEADINGS = (
    "variant <small>protection</small>",
    *("bits a client", "bits in total", "budget ended it", "clipped"),
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
        "What leaves a client", _HEADINGS, [_row(variant) for variant in variants], caption=_CAPTION
    )
    return f"""<p>Clients send the average of what they observed of each arm in a phase, never an
observation. Rounding blurs an average and saves bits; it is no differential privacy. Noise is: ε
and δ (or ρ) bound how much anybody can learn from all that was sent about <em>one observation</em>
at event level, about a <em>person</em> with so many observations at person level, about <em>all
that a client has</em> at user level.</p>
{shown}"""


def _row(variant: Mapping[str, Any]) -> str:
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
