"""Figure 7: how likely M clients are to misrank the arms, by theory and by counting."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fedbandits.experiments.figures import PALETTE, reader_config
from fedbandits.experiments.figures.style import house_style
from fedbandits.experiments.tables import Table
from fedbandits.rules.arrays import FloatArray
from fedbandits.theory.sampling import (
    misranking_as_printed,
    misranking_bound,
    misranking_probability,
)

SPREAD = 0.1
GAPS = (0.02, 0.01)
# Figure 4's means; the best arm stands Δ above the second best, at 0.77.
_OTHERS = np.array([0.70, 0.71, 0.72, 0.73, 0.74, 0.75, 0.76, 0.765, 0.77])
_CLIENTS = np.unique(np.round(np.geomspace(1, 1000, 25)).astype(np.int64))
_DRAWS = 100_000

CAPTION = (
    "Probability that the best arm is not the best on average over M clients, with σ_c = 0.1. The "
    "game is ours, figure 4's means with the best arm at 0.77 + Δ, because the paper does not "
    "state it. Lines: the exact integral; points: the share of 100,000 simulated sets of clients, "
    "with 95 % intervals; dashed: the corrected bound of Theorem 1; dotted: the form that the "
    "theorem prints, which the probability exceeds, so that it is no bound."
)


def misranking_gaps(gap: float) -> FloatArray:
    """Return Δ_k of the arms other than the best, which stands ``gap`` above the second."""
    return 0.77 + gap - _OTHERS


def misranking_table(seed: int = 2021) -> Table:
    """Return the probability for every gap and number of clients: exact, counted and bounded.

    Examples
    --------
    >>> table = misranking_table()
    >>> sorted(set(table["gap"])), min(table["clients"]), max(table["clients"])
    ([0.01, 0.02], 1, 1000)
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, 7]))
    table: Table = {key: [] for key in ("gap", "clients", *_WAYS, "counted_error")}
    for gap in GAPS:
        gaps = misranking_gaps(gap)
        averages = np.append(-gaps, 0.0)
        exact = misranking_probability(gaps, SPREAD, _CLIENTS)
        table["gap"] += [gap] * _CLIENTS.size
        table["clients"] += _CLIENTS.tolist()
        table["exact"] += exact.tolist()
        table["bound"] += misranking_bound(gaps, SPREAD, _CLIENTS).tolist()
        table["printed"] += misranking_as_printed(gaps, SPREAD, _CLIENTS).tolist()
        for clients, probability in zip(_CLIENTS.tolist(), exact.tolist(), strict=True):
            drawn = averages + rng.normal(0.0, SPREAD / math.sqrt(clients), (_DRAWS, 10))
            table["counted"].append(float((drawn.argmax(axis=1) != 9).mean()))
            table["counted_error"].append(math.sqrt(probability * (1 - probability) / _DRAWS))
    return table


_WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "exact": ("exact", {"linewidth": 1.8}),
    "counted": ("simulated", {"linestyle": "", "marker": "o", "markersize": 3.5}),
    "bound": ("corrected bound", {"linewidth": 1.1, "dashes": (5, 2.5)}),
    "printed": ("as printed", {"linewidth": 1.1, "linestyle": ":"}),
}
_LOWEST = 1e-5


def misranking_figure(table: Table) -> Figure:
    """Draw the probability against the number of clients, both on logarithmic scales."""
    with house_style():
        figure = Figure(figsize=(8.0, 4.5), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        for gap, colour in zip(GAPS, PALETTE, strict=False):
            rows = [i for i, value in enumerate(table["gap"]) if value == gap]
            clients = [table["clients"][i] for i in rows]
            for way, (name, style) in _WAYS.items():
                values = [table[way][i] or math.nan for i in rows]
                axes.plot(clients, values, color=colour, label=f"Δ = {gap:g}, {name}", **style)
            errors = [1.96 * table["counted_error"][i] for i in rows]
            counted = [table["counted"][i] or math.nan for i in rows]
            axes.errorbar(clients, counted, errors, color=colour, linestyle="", linewidth=0.8)
        axes.set(xscale="log", yscale="log", ylim=(_LOWEST, 1.3), xlim=(1, 1000))
        axes.set(xlabel="clients M", ylabel="probability of misranking")
        axes.set_title("Figure 7: client sampling", loc="left", fontweight="bold")
        figure.legend(loc="outside right upper", frameon=False)
    return figure


def misranking_page_figure(table: Table) -> dict[str, Any]:
    """Return the same as an interactive figure."""
    modes = {"exact": "lines", "counted": "markers", "bound": "lines", "printed": "lines"}
    dashes = {"exact": "solid", "counted": "solid", "bound": "dash", "printed": "dot"}
    data = []
    for gap, colour in zip(GAPS, PALETTE, strict=False):
        rows = [i for i, value in enumerate(table["gap"]) if value == gap]
        for way, (name, _) in _WAYS.items():
            data.append(
                {
                    "type": "scatter",
                    "name": f"Δ = {gap:g}, {name}",
                    "x": [table["clients"][i] for i in rows],
                    "y": [table[way][i] or None for i in rows],
                    "mode": modes[way],
                    "line": {"color": colour, "dash": dashes[way]},
                    "marker": {"color": colour, "size": 6},
                    "hovertemplate": "M = %{x:,}: %{y:.3g}",
                }
            )
    layout = {
        "height": 460,
        "margin": {"l": 70, "r": 20, "t": 20, "b": 50},
        "xaxis": {"type": "log", "title": {"text": "clients M"}},
        "yaxis": {
            "type": "log",
            "range": [math.log10(_LOWEST), 0.1],
            "title": {"text": "probability of misranking"},
        },
        "paper_bgcolor": "#fff",
        "plot_bgcolor": "#fff",
    }
    return {"data": data, "layout": layout, "config": reader_config("figure-7")}
