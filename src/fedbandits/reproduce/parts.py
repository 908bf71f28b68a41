"""All parts of the reproduction. To add one, write its file and name it here."""

from __future__ import annotations

from fedbandits.reproduce import (
    claims,
    index_costs,
    misranking,
    privacy_costs,
    rule_costs,
    scaling,
    theory_tables,
)
from fedbandits.reproduce.part import Part
from fedbandits.reproduce.real_data import section
from fedbandits.reproduce.regret_curves import FIGURES

_IN_ORDER: tuple[Part, ...] = (
    *(part for key in ("fig3", "fig4", "fig5", "fig6") for part in FIGURES[key]),
    section.PART,
    misranking.PART,
    *FIGURES["fig8"],
    theory_tables.PART,
    scaling.PART,
    rule_costs.PART,
    index_costs.PART,
    privacy_costs.PART,
    claims.PART,
)

PARTS: dict[str, Part] = {part.key: part for part in _IN_ORDER}
"""By their keys, in the order of the paper; what takes longest comes last."""

SECTIONS: dict[str, list[Part]] = {
    asked: [part for part in _IN_ORDER if part.asked == asked]
    for asked in dict.fromkeys(part.asked for part in _IN_ORDER)
}
"""The same, by what the command calls their sections."""
