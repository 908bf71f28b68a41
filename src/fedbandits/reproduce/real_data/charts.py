"""Why the best group cannot be found among many more users: a chart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import stats

from fedbandits.experiments.tables import Table, as_columns
from fedbandits.report.chart import Axis, Chart, Guide, Note, Plot, Series
from fedbandits.report.palette import PALETTE
from fedbandits.reproduce.real_data.facts import SURE
from fedbandits.rules.arrays import FloatArray

KINDS = {"matrix": "Matrix", "ratings": "HetRec archive"}
"""What the section calls each kind of import."""


def can_be_drawn(facts: Mapping[str, Any]) -> bool:
    """Return whether two groups differ, and clients do, too."""
    return facts["clients_unlimited"] is not None


def wrong_order(facts: Mapping[str, Any], clients: FloatArray, *, finite: bool) -> FloatArray:
    """Return how likely the two best groups stand in the wrong order over so many clients.

    Parameters
    ----------
    facts : mapping
        From `fedbandits.reproduce.real_data.facts.facts_of`.
    clients : array
        M.
    finite : bool
        Whether they are drawn from these clients alone, M of N.

    Examples
    --------
    >>> facts = {"clients": 100, "gap": 0.1, "difference_deviation": 1.0}
    >>> wrong_order(facts, np.array([25.0, 100.0]), finite=False).round(3)
    array([0.309, 0.159])
    >>> wrong_order(facts, np.array([25.0, 100.0]), finite=True).round(3)
    array([0.282, 0.   ])
    """
    left = 1 / clients - (1 / facts["clients"] if finite else 0.0)
    deviation = facts["difference_deviation"] * np.sqrt(np.maximum(left, 0.0))
    with np.errstate(divide="ignore"):
        return np.asarray(stats.norm.sf(facts["gap"] / deviation))


def drawable(table: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the facts of the imports that can be drawn, of a table of the section."""
    return [facts for facts in table["data"] if can_be_drawn(facts)]


_POPULATIONS = {"unlimited": False, "these alone": True}
"""Whether clients are drawn from these alone."""


def order_table(found: Mapping[str, Any]) -> Table | None:
    """Return what `order_chart` draws, point by point; None if nothing can be drawn.

    Parameters
    ----------
    found : mapping
        From `fedbandits.reproduce.real_data.table.real_data_table`.
    """
    rows = [
        {"kind": facts["kind"], "population": population, "clients": x, "wrong_order": y}
        for facts in drawable(found)
        for population, finite in _POPULATIONS.items()
        for x, y in _points(facts, finite=finite)
    ]
    return as_columns(rows) if rows else None


def _most(facts: Mapping[str, Any]) -> float:
    """Return how many clients the axis goes up to, with room for what the dot is labelled with."""
    return float(20 * max(facts["clients"], facts["clients_unlimited"]))


def _points(facts: Mapping[str, Any], *, finite: bool) -> list[tuple[float, float]]:
    """Return the numbers of clients that are drawn, each with its chance of a wrong order."""
    clients = np.geomspace(1, _most(facts), 400)
    if finite:
        n = facts["clients"]
        # Densely at the beginning of a logarithmic axis, and where it falls to nothing.
        near = np.concatenate([np.geomspace(1, n, 200), n - np.geomspace(n, 1e-3, 400), [n]])
        clients = np.unique(near[(near >= 1) & (near <= n)])
    chances = wrong_order(facts, clients, finite=finite)
    return list(zip(clients.tolist(), chances.tolist(), strict=True))


def order_chart(found: Mapping[str, Any]) -> Chart:
    """Return the chance of a wrong order against the number of clients, one panel per import."""
    data = drawable(found)
    panels = [_panel(facts, colour) for facts, colour in zip(data, PALETTE, strict=False)]
    size = (8.0 if len(panels) == 1 else 9.5, 4.0)
    return Chart(name="order", panels=panels, columns=len(panels), size=size)


def _panel(facts: Mapping[str, Any], colour: str) -> Plot:
    n, enough = facts["clients"], facts["clients_unlimited"]
    series = []
    for finite in _POPULATIONS.values():
        x, y = zip(*_points(facts, finite=finite), strict=True)
        label = f"these {n:,} alone" if finite else "unlimited population"
        series.append(Series(label, x, y, colour, dash=(5.0, 2.5) if finite else ()))
    words = f"{enough:,} clients: {100 * (1 - SURE):.0f} %"
    pair = f"groups {facts['best_group']} and {facts['second_group']}"
    return Plot(
        Axis("clients asked", log=True, low=1.0, high=_most(facts)),
        Axis("chance that the second best group is ahead", form="percent", low=0.0, high=0.52),
        series,
        guides=[Guide(x=n, label=f"all {n:,}", dash=(1, 2)), Guide(y=1 - SURE, dash=(1, 2))],
        notes=[Note(x=enough, y=1 - SURE, text=words, colour=colour)],
        title=f"{KINDS[facts['kind']]}: {pair}",
    )
