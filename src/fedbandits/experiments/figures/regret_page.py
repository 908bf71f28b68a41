"""Regret on the page: interactive, as the plain value that Plotly draws."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedbandits.experiments.figures import interactive
from fedbandits.experiments.figures.curves import (
    Curve,
    axis_label,
    curves_by_variant,
    exploration_parts,
    is_logarithmic,
    part_label,
)
from fedbandits.experiments.figures.palette import RULE, ColourOf, given_or_in_order
from fedbandits.experiments.tables import REGRETS, Table

_AXES_HEIGHT = 380

# On a phone: fewer ticks, so that their labels need not be turned; and what stands above and below
# the axes begins near the edge of the figure.
_BY_WIDTH: dict[str, tuple[Any, Any]] = {
    "margin.r": (40, 45),
    "xaxis.nticks": (3, 6),
    "legend.x": (-0.2, 0),
    "legend.font.size": (12, 13),
    "updatemenus[0].x": (-0.2, 0),
}


def regret_page_figure(
    curves: Table, *, colour_of: ColourOf | None = None, in_parts: Collection[str] = ()
) -> dict[str, Any]:
    """Return an interactive figure of the regrets, as the plain value that Plotly draws.

    Every variant has a band and a line that are shown and hidden together, and buttons switch
    between total, exploration and communication regret without showing again what was hidden.
    After them come the dashed lines of the exploration parts that stand beside the totals.

    Parameters
    ----------
    curves : Table
        From `fedbandits.experiments.tables.curves_table`.
    colour_of, in_parts
        As in `regret_figure`.

    Examples
    --------
    >>> table = {
    ...     "variant": ["demo"] * 2, "regret": ["total"] * 2, "slot": [50, 100],
    ...     "mean": [8.0, 9.0], "stderr": [0.5, 0.6],
    ... }
    >>> band, line = regret_page_figure(table)["data"]
    >>> line["name"], line["y"], band["legendgroup"] == line["legendgroup"]
    ('demo', [0.0, 8.0, 9.0], True)
    """
    variants = curves_by_variant(curves)
    colour_of = given_or_in_order(colour_of, variants)
    regrets = [name for name in REGRETS if all(name in v for v in variants.values())]
    parts = exploration_parts(variants, in_parts)
    views = {
        name: _view(name, {label: v[name] for label, v in variants.items()}, parts.values())
        for name in regrets
    }
    shown_first = views[regrets[0]].traces
    ranks = {label: 1000 + 2 * number for number, label in enumerate(variants)}
    data: list[dict[str, Any]] = []
    for label, rank in ranks.items():
        data += _traces(label, rank, colour_of[label])
    data += [_part_trace(label, ranks[label] + 1, colour_of[label]) for label in parts]
    names = [*variants, *map(part_label, parts)]
    return interactive.drawn(
        "regret",
        [trace | shown for trace, shown in zip(data, shown_first, strict=True)],
        _layout(
            views,
            horizon=max(float(v[regrets[0]].slot[-1]) for v in variants.values()),
            legend_lines=sum(1 + name.count("<br>") for name in map(_legend_name, names)),
        ),
        _BY_WIDTH,
    )


@dataclass(frozen=True, slots=True)
class _View:
    """What the traces show of one regret: band and line of each variant in turn, then its parts."""

    traces: list[dict[str, Any]]
    axis: dict[str, Any]
    axis_title: str


def _view(regret: str, curves: Mapping[str, Curve], parts: Iterable[Curve]) -> _View:
    logarithmic = is_logarithmic(curves.values())
    # Neither is ever below 0, and a logarithmic axis cannot show what is not above.
    positive = [float(c.mean[c.mean > 0].min()) for c in curves.values() if c.end > 0]
    floor = min(positive) if logarithmic else 0.0
    traces: list[dict[str, Any]] = []
    for curve in curves.values():
        slots = curve.slot.tolist()
        band = curve.band()
        around: dict[str, Any] = {"x": [], "y": []}
        if band is not None:
            low, high = (np.maximum(limit, floor) for limit in band)
            around = {"x": slots + slots[::-1], "y": _rounded([*high, *low[::-1]])}
        traces += [around, _line(curve)]
    # Beside a part there is nothing to compare its parts with.
    traces += [_line(part) if regret == "total" else {"x": [], "y": []} for part in parts]
    axis: dict[str, Any] = {"type": "linear", "dtick": None}
    if logarithmic:
        decades = math.log10(max(curve.end for curve in curves.values()) / floor)
        axis = {"type": "log", "dtick": 1 if decades > 2.5 else None}
    return _View(traces, axis, axis_label(regret, logarithmic=logarithmic))


def _line(curve: Curve) -> dict[str, Any]:
    """Return the points of a line, and how they read when they are pointed at."""
    digits = 0 if curve.end >= 100 else 2
    template = f"%{{y:,.{digits}f}}"
    errors: list[float] = []
    if curve.stderr is not None:
        errors = _rounded(curve.stderr)
        template += f" ± %{{customdata:,.{digits}f}}"
    return {
        "x": curve.slot.tolist(),
        "y": _rounded(curve.mean),
        "customdata": errors,
        "hovertemplate": template,
    }


def _rounded(values: Iterable[float]) -> list[float]:
    """Return values to six digits, more than a screen shows, to keep the page small."""
    return [float(f"{value:.6g}") for value in values]


def _traces(label: str, rank: int, colour: str) -> list[dict[str, Any]]:
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    shared: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines",
        "name": _legend_name(label),
        "legendgroup": f"variant-{rank}",
    }
    band = {
        "showlegend": False,
        "hoverinfo": "skip",
        "fill": "toself",
        "fillcolor": f"rgba({red},{green},{blue},0.18)",
        "line": {"width": 0, "color": colour},
    }
    return [
        {**shared, **band},
        {**shared, "legendrank": rank, "line": {"width": 2.2, "color": colour}},
    ]


def _part_trace(label: str, rank: int, colour: str) -> dict[str, Any]:
    """Return the dashed line of an exploration part, which stands below its variant's name."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": _legend_name(part_label(label)),
        "legendrank": rank,
        # In pixels, so that a legend's thick line is still seen to be dashed.
        "line": {"width": 1.6, "color": colour, "dash": "6px,3px"},
    }


def _legend_name(label: str) -> str:
    """Return a label in lines, with what Plotly would take for a tag escaped."""
    lines = textwrap.wrap(label, 34, max_lines=3, placeholder=" …")
    return "<br>".join(html.escape(line, quote=False) for line in lines)


def _layout(views: Mapping[str, _View], *, horizon: float, legend_lines: int) -> dict[str, Any]:
    """Return everything but the traces, as it is while the first view is shown."""
    first = next(iter(views.values()))
    return interactive.layout(
        _AXES_HEIGHT + 130 + 20 * legend_lines,
        hovermode="x unified",
        legend=interactive.legend_below(
            -60 / _AXES_HEIGHT,
            orientation="v",
            itemsizing="constant",
            traceorder="normal",
            maxheight=20 * legend_lines + 40,
        ),
        xaxis=interactive.across(
            "slot t",
            tickformat=",d",
            hoverformat=",d",
            unifiedhovertitle={"text": "slot %{x:,d}"},
            nticks=6,
            tickangle=0,
            range=[0, horizon],
        ),
        yaxis=interactive.up(
            first.axis_title,
            tickformat=",",
            exponentformat="none",
            rangemode="tozero",
            **first.axis,
        ),
        updatemenus=[_switch(views)],
    )


def _switch(views: Mapping[str, _View]) -> dict[str, Any]:
    """Return the buttons that switch between regrets.

    They replace the data of the traces, not the traces: a curve that was hidden stays hidden.
    """
    buttons = []
    for name, view in views.items():
        keys = ("x", "y", "customdata", "hovertemplate")
        empty: dict[str, Any] = {"customdata": [], "hovertemplate": ""}
        traces = {key: [(empty | trace)[key] for trace in view.traces] for key in keys}
        axes = {
            "yaxis.autorange": True,
            "yaxis.title.text": view.axis_title,
            **{f"yaxis.{key}": value for key, value in view.axis.items()},
        }
        buttons.append({"label": name, "method": "update", "args": [traces, axes]})
    return {
        "type": "buttons",
        "direction": "right",
        "active": 0,
        "showactive": True,
        "x": 0,
        "xanchor": "left",
        "y": 1.02,
        "yanchor": "bottom",
        "pad": {"b": 8},
        "bgcolor": "white",
        "bordercolor": RULE,
        "font": {"size": 12},
        "buttons": buttons,
    }
