"""Tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedbandits.experiments.bounds import VariantBound
from fedbandits.report.shown import Shown
from fedbandits.report.wording import in_words, listed, share
from fedbandits.simulation.fidelities import Fidelity
from fedbandits.simulation.tables import REGRETS

TIMES = "times the lower bound"
"""The heading of regret as a multiple of what every consistent rule pays in the limit."""


def shown_summary(summary: dict[str, Any]) -> Shown:
    """Return the summary: one row per variant, means ± half of a 95 % interval."""
    variants = summary["variants"]
    alone = all(variant["regret"]["total"]["stderr"] is None for variant in variants)
    notes = [] if alone else ["± half of a 95 % interval"]
    bounded = lower_bound_notes(variants)
    if any(variant.get("epsilon") for variant in summary["spec"]["variants"]):
        notes.append("best arm found: up to the variant's epsilon")
    return Shown(
        name=summary["title"],
        headings=[
            *("variant", "fidelity", "total regret", "exploration", "communication", "per client"),
            *([TIMES] if bounded else []),
            *("clients", "phases", "best arm found"),
        ],
        rows=[
            [
                variant["label"],
                variant["fidelity"],
                *(in_words(variant["regret"][regret]) for regret in (*REGRETS, "per_client")),
                *([in_words(variant["lower_bound"]["times"])] if bounded else []),
                in_words(variant["clients"]),
                *(["–", "–"] if never_decides(variant) else _outcome(variant)),
            ]
            for variant in variants
        ],
        words=("fidelity", "best arm found"),
        note="\n".join(["; ".join(notes), *bounded]).strip(),
    )


def lower_bound_notes(variants: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what multiples of the lower bound are, and who has none; nothing if nobody has one.

    Parameters
    ----------
    variants : sequence of mapping
        As summary.json has them.
    """
    without: dict[str, list[str]] = {}
    for variant in variants:
        if variant["lower_bound"]["times"] is None:
            without.setdefault(variant["lower_bound"]["reason"], []).append(variant["label"])
    if sum(map(len, without.values())) == len(variants):
        return []
    return [
        f"{TIMES}: total regret divided by its slope × log T, a yardstick at a finite T",
        *(f"no lower bound for {listed(who)}: {why}" for why, who in without.items()),
    ]


def never_decides(variant: Mapping[str, Any]) -> bool:
    """Return whether a variant goes on choosing in every slot: it has no phases and no winner."""
    return bool(variant["fidelity"] == Fidelity.SLOTS.value)


def _outcome(variant: dict[str, Any]) -> list[str]:
    """Return the phases, how often the best arm was found, and what happened otherwise."""
    parts = [share(variant["best_arm_rate"])]
    for key, word in (("wrong_arm_rate", "wrong"), ("undecided_rate", "undecided")):
        if variant[key]:
            parts.append(f"{share(variant[key])} {word}")
    if variant["privacy"] is not None and variant["privacy"]["budget_spent_rate"]:
        spent = share(variant["privacy"]["budget_spent_rate"])
        parts.append(f"{spent} ended by the privacy budget")
    return [in_words(variant["phases"]), ", ".join(parts)]


def shown_bounds(title: str, horizon: int | None, bounds: Sequence[VariantBound]) -> Shown:
    """Return bounds on the expected total regret, or why there are none."""
    capped = any(found.bound is not None and found.bound.undecided > 0 for found in bounds)
    also = ("undecided",) if capped else ()
    terms = ("exploration", "communication", "failure", *also)
    rows = []
    for found in bounds:
        bound, by = found.bound, found.reason or ""
        cells = ["–"] * (len(terms) + 2)
        if bound is not None:
            cells = [f"{getattr(bound, term):,.0f}" for term in ("total", *terms)]
            cells.append(f"{bound.phases.min():,} to {bound.phases.max():,}")
            by = f"Theorem {bound.theorem}"
        rows.append([found.variant.label, *cells, by])
    headings = ["variant", "bound on regret", *terms, "phases", "by"]
    names = {found.variant.problem.name for found in bounds}
    said = (_least_words(found, horizon, alone=len(names) == 1) for found in bounds)
    note = "\n".join(dict.fromkeys(said))
    return Shown(name=title, headings=headings, rows=rows, words=("by",), note=note)


def _least_words(found: VariantBound, horizon: int | None, *, alone: bool) -> str:
    """Return what every consistent rule pays in the game of a variant, alone or one of several."""
    problem = "this game" if alone else f'"{found.variant.problem.name}"'
    cost = found.variant.communication_cost
    if isinstance(found.least, str):
        return f"No lower bound is proven for {problem}: {found.least}."
    said = (
        f"In the limit every consistent rule pays at least {found.least.slope:,.4g} · log T for"
        f" {problem} if a report costs {cost:g}"
    )
    if horizon is None:
        return f"{said}."
    return f"{said}: {found.least.at(horizon):,.0f} at T = {horizon:,}, a yardstick and no bound."
