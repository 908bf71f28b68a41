"""Why the best group cannot be found among many more users: a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from scipy import stats

from fedbandits.experiments.figures import PALETTE, style
from fedbandits.experiments.figures.palette import FAINT
from fedbandits.experiments.tables import Table
from fedbandits.reproduce.real_data.facts import SURE
from fedbandits.rules.arrays import FloatArray

KINDS = {"matrix": "Matrix", "ratings": "HetRec archive"}
"""What the section calls each kind of import."""

CAPTION = (
    "How likely the second best group is to come out ahead of the best one, against the number of "
    "clients who were asked (normal calculation, every client's values known exactly, these two "
    "groups alone). Solid: clients drawn from an unlimited population of users like these. Dashed: "
    "clients drawn from these users alone, of whom nobody is left in the end. Dotted: all of these "
    "users, and a chance of 1 %."
)


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


def order_table(found: Mapping[str, Any]) -> Table | None:
    """Return what `order_figure` draws, point by point; None if nothing can be drawn.

    Parameters
    ----------
    found : mapping
        From `fedbandits.reproduce.real_data.table.real_data_table`.
    """
    if not drawable(found):
        return None
    table: Table = {key: [] for key in ("kind", "population", "clients", "wrong_order")}
    for facts in drawable(found):
        for population, finite in (("unlimited", False), ("these alone", True)):
            clients = _clients(facts, finite=finite)
            table["kind"] += [facts["kind"]] * clients.size
            table["population"] += [population] * clients.size
            table["clients"] += clients.tolist()
            table["wrong_order"] += wrong_order(facts, clients, finite=finite).tolist()
    return table


def _most(facts: Mapping[str, Any]) -> float:
    """Return how many clients the axis goes up to, with room for what the dot is labelled with."""
    return float(20 * max(facts["clients"], facts["clients_unlimited"]))


def _clients(facts: Mapping[str, Any], *, finite: bool) -> FloatArray:
    """Return the numbers of clients that are drawn."""
    if not finite:
        return np.geomspace(1, _most(facts), 400)
    n = facts["clients"]
    # Densely at the beginning of a logarithmic axis, and where it falls to nothing.
    clients = np.concatenate([np.geomspace(1, n, 200), n - np.geomspace(n, 1e-3, 400), [n]])
    return np.unique(clients[(clients >= 1) & (clients <= n)])


def order_figure(found: Mapping[str, Any]) -> Figure:
    """Draw the chance of a wrong order against the number of clients, a panel an import."""
    data = drawable(found)
    with style.new_figure(8.0 if len(data) == 1 else 9.5, 4.0) as figure:
        panels = figure.subplots(1, len(data), squeeze=False)[0]
        for axes, facts, colour in zip(panels, data, PALETTE, strict=False):
            _draw(axes, facts, colour)
        panels[0].set_ylabel("chance that the second best group is ahead")
    return figure


def _draw(axes: Axes, facts: Mapping[str, Any], colour: str) -> None:
    n, enough = facts["clients"], facts["clients_unlimited"]
    unlimited, finite = _clients(facts, finite=False), _clients(facts, finite=True)
    axes.plot(
        unlimited, wrong_order(facts, unlimited, finite=False), color=colour, linewidth=1.8,
        label="unlimited population",
    )  # fmt: skip
    axes.plot(
        finite, wrong_order(facts, finite, finite=True), color=colour, linewidth=1.8,
        dashes=(5, 2.5), label=f"these {n:,} alone",
    )  # fmt: skip
    axes.axvline(n, color=FAINT, linewidth=0.9, linestyle=":")
    axes.axhline(1 - SURE, color=FAINT, linewidth=0.9, linestyle=":")
    axes.annotate(
        f"all {n:,}", (n, 0.455), xytext=(4, 0), textcoords="offset points", size=8.5, color=FAINT
    )
    axes.plot([enough], [1 - SURE], color=colour, marker="o", markersize=5, linestyle="")
    axes.annotate(
        f"{enough:,} clients: {100 * (1 - SURE):.0f} %", (enough, 1 - SURE), xytext=(5, 7),
        textcoords="offset points", size=8.5,
    )  # fmt: skip
    axes.set(xscale="log", xlim=(1, _most(facts)), ylim=(0, 0.52), xlabel="clients asked")
    style.whole_numbers(axes.xaxis)
    style.no_minor_ticks(axes.xaxis)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    pair = f"groups {facts['best_group']} and {facts['second_group']}"
    axes.set_title(f"{KINDS[facts['kind']]}: {pair}", loc="left", fontweight="bold")
    style.finish(axes)
    axes.legend(frameon=False, loc="lower left")


def order_alt(data: Sequence[Mapping[str, Any]]) -> str:
    """Return what the figure shows, for those who do not see it."""
    parts = []
    for facts in data:
        n = facts["clients"]
        chance = float(wrong_order(facts, np.array([float(n)]), finite=False)[0])
        parts.append(
            f"{KINDS[facts['kind']]}: from near 50 % with few clients to {100 * chance:.1f} % with "
            f"{n:,} and 1 % with {facts['clients_unlimited']:,} of an unlimited population; 1 % "
            f"with {facts['clients_of_these']:,} and nothing with all {n:,} of these users"
        )
    return f"Chance that the second best group comes out ahead of the best. {'. '.join(parts)}."
