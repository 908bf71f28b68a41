"""Tables as figures: regret curves for print and for the page, and the map of a radio problem.

What is drawn was computed in `fedbandits.experiments.tables`; nothing is computed from results
here. Figures are made with Matplotlib's objects alone: no global state is read or changed.
"""

from __future__ import annotations

import html
import io
import math
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Literal, TypeAlias

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from fedbandits.experiments.tables import REGRETS, Table
from fedbandits.problems.cognitive_radio import CognitiveRadio
from fedbandits.problems.problem import best_arm
from fedbandits.rules.algorithms import ALGORITHMS
from fedbandits.rules.arrays import FloatArray

PALETTE = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#33BBEE",
    "#332288",
    "#882255",
    "#000000",
    "#666633",
    "#5D3A00",
    "#7F3C8D",
)
"""Colours of Okabe and Ito and of Tol that stay apart with any colour blindness, and on paper."""

NORMAL_95 = 1.96
"""Standard errors on either side of a mean that hold 95 % of a normal law."""

LOG_RATIO = 30.0
"""How far apart regrets lie before a logarithmic axis is the better one."""

_INK, _FAINT, _RULE = "#222222", "#5f6368", "#dadce0"
_PAGE_AXES_HEIGHT = 380
_PAGE_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

ColourOf: TypeAlias = Mapping[str, str]
"""The colour of every label."""


def colours(labels: Sequence[str], algorithms: Sequence[str]) -> dict[str, str]:
    """Return the colour of every variant, the same in print and on the page.

    An algorithm that one variant alone uses has its own colour, so that it looks the same in every
    figure; the other variants share what is left, in their order.

    Parameters
    ----------
    labels, algorithms : sequence of str
        Label of each variant, and the name of its algorithm.

    Examples
    --------
    >>> colours(["ours", "f = 10", "f = 20"], ["fed2-ucb", "fed1-ucb", "fed1-ucb"])
    {'ours': '#0072B2', 'f = 10': '#D55E00', 'f = 20': '#009E73'}
    >>> colours(["f = 10", "f = 20", "ours"], ["fed1-ucb", "fed1-ucb", "fed2-ucb"])["ours"]
    '#0072B2'
    """
    users = Counter(algorithms)
    own = dict(zip(ALGORITHMS, PALETTE, strict=False))
    fixed = {
        label: own[algorithm]
        for label, algorithm in zip(labels, algorithms, strict=True)
        if users[algorithm] == 1 and algorithm in own
    }
    left = cycle([colour for colour in PALETTE if colour not in fixed.values()] or PALETTE)
    return {label: fixed[label] if label in fixed else next(left) for label in labels}


@contextmanager
def _style() -> Iterator[None]:
    """Style what is made meanwhile, whatever the user's own style is."""
    with mpl.rc_context(
        {
            "axes.edgecolor": _FAINT,
            "axes.facecolor": "white",
            "axes.grid": False,
            "axes.labelcolor": _INK,
            "axes.labelsize": 9.0,
            "axes.linewidth": 0.8,
            "figure.facecolor": "white",
            "font.family": "sans-serif",
            "font.sans-serif": ["DejaVu Sans"],
            "font.size": 9.0,
            "grid.color": _RULE,
            "grid.linewidth": 0.6,
            "savefig.bbox": None,
            "savefig.facecolor": "white",
            "text.color": _INK,
            "xtick.color": _FAINT,
            "xtick.labelcolor": _INK,
            "xtick.labelsize": 8.5,
            "ytick.color": _FAINT,
            "ytick.labelcolor": _INK,
            "ytick.labelsize": 8.5,
        }
    ):
        yield


# The table, curve by curve ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Curve:
    """Mean regret against slot, from (0, 0) on."""

    slot: FloatArray
    mean: FloatArray
    stderr: FloatArray | None

    @property
    def end(self) -> float:
        return float(self.mean[-1])

    def band(self) -> tuple[FloatArray, FloatArray] | None:
        """Return the 95 % confidence limits of the mean, if there are any."""
        if self.stderr is None:
            return None
        half = NORMAL_95 * self.stderr
        return self.mean - half, self.mean + half


def _by_variant(table: Table) -> dict[str, dict[str, _Curve]]:
    """Return the curves of a table by variant and regret, variants in their order."""
    rows: dict[str, dict[str, list[int]]] = {}
    for row, (label, regret) in enumerate(zip(table["variant"], table["regret"], strict=True)):
        rows.setdefault(label, {}).setdefault(regret, []).append(row)
    return {
        label: {regret: _curve(table, places) for regret, places in regrets.items()}
        for label, regrets in rows.items()
    }


def _curve(table: Table, rows: Sequence[int]) -> _Curve:
    errors = [table["stderr"][row] for row in rows]
    return _Curve(
        slot=np.array([0.0, *(table["slot"][row] for row in rows)]),
        mean=np.array([0.0, *(table["mean"][row] for row in rows)]),
        stderr=None if None in errors else np.array([0.0, *errors]),
    )


def _is_logarithmic(curves: Iterable[_Curve]) -> bool:
    """Return whether regrets at the horizon lie so far apart that a linear axis would hide some."""
    ends = [curve.end for curve in curves if curve.end > 0]
    return len(ends) > 1 and max(ends) > LOG_RATIO * min(ends)


def _axis_label(regret: str, *, logarithmic: bool) -> str:
    name = "regret" if regret == "total" else f"{regret} regret"
    return f"{name} (total over clients{', logarithmic' if logarithmic else ''})"


# Regret in print --------------------------------------------------------------------------------

# In inches. The axes keep their size; the figure grows with what stands around them.
_AXES_WIDTH, _LEAST_AXES_HEIGHT = 5.2, 3.3
_MARGIN, _LEADER = 0.12, 0.4
_LABEL_SIZE, _LINE_SPACING = 8.5, 1.15


def regret_figure(curves: Table, title: str, *, colour_of: ColourOf | None = None) -> Figure:
    """Draw total regret against slot: means, with a 95 % confidence band of each mean.

    Where communication costs anything, the exploration part is a thin dashed line. Labels stand at
    the ends of the curves. When totals differ by more than a factor of 30 the axis is logarithmic.

    Parameters
    ----------
    curves : Table
        From `fedbandits.experiments.tables.curves_table`.
    title : str
        What the figure is headed with.
    colour_of : mapping, optional
        The colour of every label, see `colours`; in the order of variants by default.

    Examples
    --------
    >>> table = {
    ...     "variant": ["demo"] * 4,
    ...     "regret": ["total", "total", "communication", "communication"],
    ...     "slot": [50, 100] * 2,
    ...     "mean": [8.0, 9.0, 0.0, 0.0],
    ...     "stderr": [0.5, 0.6, 0.0, 0.0],
    ... }
    >>> axes = regret_figure(table, "A demonstration").axes[0]
    >>> [line.get_ydata().tolist() for line in axes.lines]
    [[0.0, 8.0, 9.0]]
    """
    variants = _by_variant(curves)
    colour_of = _given_or_in_order(colour_of, variants)
    with _style():
        figure = Figure(figsize=(8.0, 4.5))
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        with_parts = [_draw_variant(axes, v, colour_of[label]) for label, v in variants.items()]
        totals = {label: regrets["total"] for label, regrets in variants.items()}
        _scale_axes(axes, list(totals.values()))
        _lay_out(figure, axes, totals, colour_of, (title, _key(totals, parts=any(with_parts))))
    return figure


def _given_or_in_order(colour_of: ColourOf | None, labels: Iterable[str]) -> ColourOf:
    return dict(zip(labels, cycle(PALETTE), strict=False)) if colour_of is None else colour_of


def _draw_variant(axes: Axes, regrets: Mapping[str, _Curve], colour: str) -> bool:
    """Draw a variant; return whether its exploration part was drawn, too."""
    total = regrets["total"]
    band = total.band()
    if band is not None:
        axes.fill_between(total.slot, *band, color=colour, alpha=0.18, linewidth=0)
    axes.plot(total.slot, total.mean, color=colour, linewidth=1.8, solid_joinstyle="round")
    communicates = "communication" in regrets and regrets["communication"].end > 0
    if communicates and "exploration" in regrets:
        part = regrets["exploration"]
        axes.plot(part.slot, part.mean, color=colour, linewidth=0.9, dashes=(5, 2.5))
        return True
    return False


def _key(totals: Mapping[str, _Curve], *, parts: bool) -> str:
    """Return what lines and bands are, in a line below the title."""
    if any(curve.stderr is not None for curve in totals.values()):
        said = ["line: mean of the replications", "band: 95 % confidence interval of the mean"]
    else:
        said = ["one replication, so there is no confidence band"]
    if parts:
        said.append("dashed: exploration part")
    return "; ".join(said)


def _scale_axes(axes: Axes, totals: Sequence[_Curve]) -> None:
    logarithmic = _is_logarithmic(totals)
    highest = max(float((band[1] if (band := c.band()) else c.mean).max()) for c in totals)
    horizon = max(float(curve.slot[-1]) for curve in totals)
    axes.set_xlim(0.0, horizon)
    if logarithmic:
        # From where the lowest curve begins: what lies below it is no regret at all.
        lowest = min(float(c.mean[c.mean > 0].min()) for c in totals if c.end > 0)
        axes.set_yscale("log", nonpositive="clip")
        axes.set_ylim(lowest / 1.3, highest * 1.3)
        decades = math.log10(highest / lowest)
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0,) if decades > 3 else (1.0, 2.0, 5.0)))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(0.0, highest * 1.04 or 1.0)
        axes.yaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]))
    # Fewer where every one is long.
    ticks = 5 if horizon < 1e9 else 2
    axes.xaxis.set_major_locator(MaxNLocator(nbins=ticks, steps=[1, 2, 2.5, 5, 10], integer=True))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(_with_separators))
    axes.set_xlabel("slot t")
    axes.set_ylabel(_axis_label("total", logarithmic=logarithmic))
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _with_separators(value: float, _: int | None = None) -> str:
    """Return a tick label.

    Examples
    --------
    >>> _with_separators(1_250_000.0), _with_separators(0.30000000000000004)
    ('1,250,000', '0.3')
    """
    return f"{value:,.12g}"


def _lay_out(
    figure: Figure,
    axes: Axes,
    totals: Mapping[str, _Curve],
    colour_of: ColourOf,
    heading: tuple[str, str],
) -> None:
    """Label the ends of the curves, head the figure and give everything the room it needs."""
    labels = [_label_at_end(axes, label) for label in totals]
    boxes = [_size(figure, label) for label in labels]
    pitch = [height + 0.05 for _, height in boxes]
    axes_height = max(_LEAST_AXES_HEIGHT, sum(pitch) + 0.1)
    # Where ticks stand depends on how large the axes are, and what their labels need on the ticks.
    _place(figure, axes, (8.0, axes_height + 2.0), (1.5, 1.0), axes_height)
    left, bottom = _size(figure, axes.yaxis)[0] + _MARGIN, _size(figure, axes.xaxis)[1] + _MARGIN
    right = _LEADER + 0.05 + max(width for width, _ in boxes) + _MARGIN
    width = left + _AXES_WIDTH + right
    title, key = heading
    title_text = _plain_text(figure, title, size=11.0)
    title_text.set_fontweight("bold")
    _wrap_within(figure, title_text, width - 2 * _MARGIN)
    key_text = _plain_text(figure, key, size=8.0)
    key_text.set_color(_FAINT)
    title_height, key_height = _size(figure, title_text)[1], _size(figure, key_text)[1]
    height = bottom + axes_height + 0.15 + key_height + 0.07 + title_height + _MARGIN
    _place(figure, axes, (width, height), (left, bottom), axes_height)
    title_text.set_position((_MARGIN / width, 1 - _MARGIN / height))
    key_text.set_position((_MARGIN / width, 1 - (_MARGIN + title_height + 0.07) / height))

    ends = [_height_in_axes(axes, curve.end) for curve in totals.values()]
    places = spread_out([end * axes_height for end in ends], pitch, 0.0, axes_height)
    for label, colour, end, place in zip(
        labels, map(colour_of.__getitem__, totals), ends, places, strict=True
    ):
        label.set_position((1.0 + (_LEADER + 0.05) / _AXES_WIDTH, place / axes_height))
        _lead(axes, colour, end, place / axes_height)


def _label_at_end(axes: Axes, label: str) -> Text:
    """Return the label of a curve, to be put in place later."""
    text = axes.text(
        1.0,
        0.0,
        _wrapped(label, 34, 3),
        transform=axes.transAxes,
        va="center",
        size=_LABEL_SIZE,
        linespacing=_LINE_SPACING,
    )
    # The user's dollar signs are dollar signs.
    text.set_parse_math(False)
    return text


def _lead(axes: Axes, colour: str, end: float, place: float) -> None:
    """Draw a line from the end of a curve to its label, level at both ends."""
    across = [1.0 + part * _LEADER / _AXES_WIDTH for part in (0.0, 0.2, 0.8, 1.0)]
    path = Path(list(zip(across, (end, end, place, place), strict=True)))
    axes.add_patch(
        PathPatch(
            path,
            transform=axes.transAxes,
            fill=False,
            edgecolor=colour,
            linewidth=1.2,
            joinstyle="round",
            clip_on=False,
        )
    )


def _wrapped(text: str, width: int, max_lines: int) -> str:
    """Return text in lines of a given number of characters, cut short with an ellipsis."""
    return textwrap.fill(text, width, max_lines=max_lines, placeholder=" …")


def _wrap_within(figure: Figure, text: Text, width: float) -> None:
    """Wrap a text so that it is no wider than so many inches."""
    content = text.get_text()
    characters = 120
    text.set_text(_wrapped(content, characters, 3))
    while _size(figure, text)[0] > width and characters > 10:
        characters -= 5
        text.set_text(_wrapped(content, characters, 3))


def _plain_text(figure: Figure, content: str, *, size: float) -> Text:
    text = figure.text(0.0, 1.0, content, size=size, va="top", linespacing=_LINE_SPACING)
    text.set_parse_math(False)
    return text


def _size(figure: Figure, part: Text | Axis) -> tuple[float, float]:
    """Return width and height of a text, or of an axis with its labels, in inches."""
    box = part.get_window_extent() if isinstance(part, Text) else part.get_tightbbox()
    return (0.0, 0.0) if box is None else (box.width / figure.dpi, box.height / figure.dpi)


def _place(
    figure: Figure,
    axes: Axes,
    size: tuple[float, float],
    corner: tuple[float, float],
    axes_height: float,
) -> None:
    """Give the figure a size and put the axes at a corner, all in inches."""
    width, height = size
    figure.set_size_inches(width, height)
    axes.set_position(
        (corner[0] / width, corner[1] / height, _AXES_WIDTH / width, axes_height / height)
    )


def _height_in_axes(axes: Axes, value: float) -> float:
    """Return how high up the axes a value is, from 0 to 1."""
    low, high = axes.get_ylim()
    if axes.get_yscale() == "log":
        low, high, value = math.log(low), math.log(high), math.log(max(value, low))
    return min(max((value - low) / (high - low), 0.0), 1.0)


def spread_out(
    wanted: Sequence[float], room: Sequence[float], low: float, high: float
) -> list[float]:
    """Return places near the wanted ones that do not overlap, in the same order.

    Labels that are too close form a block, which stands where its members want to be on average.

    Parameters
    ----------
    wanted : sequence of float
        Where the middle of each label should be.
    room : sequence of float
        How much each label takes.
    low, high : float
        Where the first begins at the lowest and the last ends at the highest.

    Examples
    --------
    >>> spread_out([1.0, 5.0, 5.0], [2.0, 2.0, 2.0], 0.0, 10.0)
    [1.0, 4.0, 6.0]
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    # A block: its members, where it begins, and how much it takes.
    blocks: list[tuple[list[int], float, float]] = []
    for index in order:
        members, taken = [index], room[index]
        begin = min(max(wanted[index] - taken / 2, low), high - taken)
        while blocks and blocks[-1][1] + blocks[-1][2] > begin:
            earlier, _, before = blocks.pop()
            members, taken = earlier + members, before + taken
            begins, offset = [], 0.0
            for member in members:
                begins.append(wanted[member] - room[member] / 2 - offset)
                offset += room[member]
            begin = min(max(sum(begins) / len(begins), low), high - taken)
        blocks.append((members, begin, taken))
    places = [0.0] * len(wanted)
    for members, begin, _ in blocks:
        at = begin
        for member in members:
            places[member] = at + room[member] / 2
            at += room[member]
    return places


# Regret on the page -----------------------------------------------------------------------------


def regret_page_figure(curves: Table, *, colour_of: ColourOf | None = None) -> dict[str, Any]:
    """Return an interactive figure of the regrets, as the plain value that Plotly draws.

    Every variant has a band and a line that are shown and hidden together, and buttons switch
    between total, exploration and communication regret without showing again what was hidden.

    Parameters
    ----------
    curves : Table
        From `fedbandits.experiments.tables.curves_table`.
    colour_of : mapping, optional
        As in `regret_figure`.

    Returns
    -------
    dict
        ``data``, ``layout`` and ``config``, ready for JSON.

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
    variants = _by_variant(curves)
    colour_of = _given_or_in_order(colour_of, variants)
    regrets = [name for name in REGRETS if all(name in v for v in variants.values())]
    views = {
        name: _view(name, {label: v[name] for label, v in variants.items()}) for name in regrets
    }
    first = regrets[0]
    data: list[dict[str, Any]] = []
    for number, label in enumerate(variants):
        data += _page_traces(label, f"variant-{number}", colour_of[label])
    data = [trace | shown for trace, shown in zip(data, views[first].traces, strict=True)]
    lines = sum(1 + name.count("<br>") for name in map(_page_label, variants))
    layout = {
        "autosize": True,
        "height": _PAGE_AXES_HEIGHT + 130 + 20 * lines,
        "margin": {"l": 60, "r": 45, "t": 60, "b": 60},
        "font": {"family": _PAGE_FONT, "size": 13, "color": _INK},
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "hovermode": "x unified",
        "hoverlabel": {"namelength": -1, "font": {"size": 12}, "bordercolor": _RULE},
        "modebar": {"orientation": "v", "bgcolor": "rgba(255,255,255,0)"},
        # Below the axes, where long labels take nothing from them.
        "legend": {
            "orientation": "v",
            "x": 0,
            "xanchor": "left",
            "y": -60 / _PAGE_AXES_HEIGHT,
            "yanchor": "top",
            "itemsizing": "constant",
            "traceorder": "normal",
            "maxheight": 20 * lines + 40,
        },
        "xaxis": {
            "title": {"text": "slot t", "font": {"size": 13}},
            "tickformat": ",d",
            "hoverformat": ",d",
            "unifiedhovertitle": {"text": "slot %{x:,d}"},
            "nticks": 6,
            "range": [0, max(float(v[first].slot[-1]) for v in variants.values())],
            "showgrid": False,
            "zeroline": False,
            "linecolor": _FAINT,
            "ticks": "outside",
        },
        "yaxis": {
            "tickformat": ",",
            "exponentformat": "none",
            "gridcolor": _RULE,
            "zeroline": False,
            "rangemode": "tozero",
            "automargin": True,
            "title": {
                "text": views[first].axis_title,
                "standoff": 12,
                "font": {"size": 13},
            },
            **views[first].axis,
        },
        "updatemenus": [_switch(views)],
    }
    config = {
        "responsive": True,
        "displaylogo": False,
        # By name, because what Plotly shows on its own sends the chart to its makers' servers.
        "modeBarButtons": [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
        "showSendToCloud": False,
        "plotlyServerURL": "",
        "toImageButtonOptions": {"format": "svg", "filename": "regret"},
    }
    return {"data": data, "layout": layout, "config": config}


@dataclass(frozen=True, slots=True)
class _View:
    """What the traces show of one regret: a band and a line for each variant, in turn."""

    traces: list[dict[str, Any]]
    axis: dict[str, Any]
    axis_title: str


def _view(regret: str, curves: Mapping[str, _Curve]) -> _View:
    logarithmic = _is_logarithmic(curves.values())
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
        digits = 0 if curve.end >= 100 else 2
        template = f"%{{y:,.{digits}f}}"
        line: dict[str, Any] = {"x": slots, "y": _rounded(curve.mean), "customdata": []}
        if curve.stderr is not None:
            line["customdata"] = _rounded(curve.stderr)
            template += f" ± %{{customdata:,.{digits}f}}"
        traces += [around, line | {"hovertemplate": template}]
    axis: dict[str, Any] = {"type": "linear", "dtick": None}
    if logarithmic:
        decades = math.log10(max(curve.end for curve in curves.values()) / floor)
        axis = {"type": "log", "dtick": 1 if decades > 2.5 else None}
    return _View(traces, axis, _axis_label(regret, logarithmic=logarithmic))


def _rounded(values: Iterable[float]) -> list[float]:
    """Return values to six digits, more than a screen shows, to keep the page small."""
    return [float(f"{value:.6g}") for value in values]


def _page_label(label: str) -> str:
    """Return a label in lines, with what Plotly would take for a tag escaped."""
    lines = textwrap.wrap(label, 44, max_lines=3, placeholder=" …")
    return "<br>".join(html.escape(line, quote=False) for line in lines)


def _page_traces(label: str, group: str, colour: str) -> list[dict[str, Any]]:
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    name = _page_label(label)
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "legendgroup": group,
            "showlegend": False,
            "hoverinfo": "skip",
            "fill": "toself",
            "fillcolor": f"rgba({red},{green},{blue},0.18)",
            "line": {"width": 0, "color": colour},
        },
        {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "legendgroup": group,
            "line": {"width": 2.2, "color": colour},
        },
    ]


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
        "bordercolor": _RULE,
        "font": {"size": 12},
        "buttons": buttons,
    }


# The map of a cognitive-radio problem -----------------------------------------------------------

_MOST_COLUMNS = 5
_OVERALL, _AT_STATION = "#D55E00", "#009E73"
_STATION_MARK: dict[str, Any] = {"marker": "^", "markeredgecolor": "black", "markersize": 6.5}


def availability_figure(problem: CognitiveRadio, *, resolution: int = 120) -> Figure:
    """Draw how available each channel is over the area, a small map each.

    The best channel overall and the best one at the base station are framed: where they differ,
    whoever listens at the base station alone settles on the wrong one.

    Parameters
    ----------
    problem : CognitiveRadio
        Whose channels to draw.
    resolution : int
        Into how many cells each side of the area is cut.

    Examples
    --------
    >>> figure = availability_figure(CognitiveRadio.example(n_channels=3), resolution=10)
    >>> len(figure.axes)  # three maps and the colour bar
    4
    """
    _, _, maps = problem.availability_map(resolution)
    at_station = problem.availability([problem.base_station])[:, 0]
    best, best_at_station = best_arm(problem), int(at_station.argmax())
    n_channels = len(maps)
    columns = min(_MOST_COLUMNS, n_channels)
    rows = math.ceil(n_channels / columns)
    width, height = problem.area
    # Long and narrow areas are drawn within reason.
    shape = min(max(height / width, 0.3), 2.5)
    # Few maps are larger: the key above them needs its room.
    cell = max(1.75, 5.4 / columns)
    low, high = float(maps.min()), float(maps.max())
    with _style():
        figure = Figure(
            figsize=(cell * columns + 0.9, rows * (0.9 * cell * shape + 0.42) + 0.75),
            layout="constrained",
        )
        FigureCanvasAgg(figure)
        cells: list[Axes] = list(
            figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat
        )
        for channel, axes in enumerate(cells[:n_channels]):
            picture = axes.imshow(
                maps[channel],
                origin="lower",
                extent=(0.0, width, 0.0, height),
                vmin=low,
                # A map of one value alone still needs a range.
                vmax=max(high, low + 1e-9),
                cmap="Blues_r",
                interpolation="bilinear",
                aspect=shape * width / height,
            )
            axes.plot(*problem.base_station, color="white", **_STATION_MARK)
            axes.set_title(
                f"channel {channel}\n"
                f"area {problem.means[channel]:.3f}, station {at_station[channel]:.3f}",
                size=7.5,
            )
            axes.tick_params(labelsize=7.5, length=2.5)
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 3, 4, 5, 10]))
            if channel == best:
                _frame(axes, _OVERALL)
            if channel == best_at_station:
                _frame(axes, _AT_STATION, inset=0.04 if channel == best else 0.0)
        for axes in cells[n_channels:]:
            axes.set_visible(False)
        # Maps above a place that stays empty are the lowest of their columns.
        for axes in cells[n_channels - columns : n_channels]:
            axes.tick_params(labelbottom=True)
        bar = figure.colorbar(picture, ax=cells, aspect=30, fraction=0.04, pad=0.015)
        bar.set_label("availability")
        bar.ax.tick_params(labelsize=7.5)
        figure.supxlabel("east (km)", size=9.0)
        figure.supylabel("north (km)", size=9.0)
        figure.legend(
            handles=[
                Line2D([], [], color="white", linestyle="none", **_STATION_MARK),
                Patch(facecolor="none", edgecolor=_OVERALL, linewidth=2.0),
                Patch(facecolor="none", edgecolor=_AT_STATION, linewidth=2.0),
            ],
            labels=[
                "base station",
                f"best overall: channel {best}",
                f"best at the base station: channel {best_at_station}",
            ],
            loc="outside upper left",
            ncols=3,
            frameon=False,
            fontsize=8.0,
        )
    return figure


def _frame(axes: Axes, colour: str, inset: float = 0.0) -> None:
    """Frame a map."""
    side = 1.0 - 2 * inset
    axes.add_patch(
        Rectangle(
            (inset, inset),
            side,
            side,
            transform=axes.transAxes,
            fill=False,
            edgecolor=colour,
            linewidth=2.8,
            clip_on=False,
            zorder=5,
        )
    )
    axes.title.set_fontweight("bold")


# Files ------------------------------------------------------------------------------------------


def image(figure: Figure, kind: Literal["png", "pdf"] = "png", *, dpi: float = 200.0) -> bytes:
    r"""Return a figure as the bytes of a file, the same ones every time.

    Examples
    --------
    >>> image(Figure(figsize=(1, 1)), dpi=10.0)[:4]
    b'\x89PNG'
    """
    buffer = io.BytesIO()
    # The time of day would make two files of the same results differ; and text in a PDF is to stay
    # text that can be searched and edited.
    metadata = {"CreationDate": None} if kind == "pdf" else None
    with mpl.rc_context({"pdf.fonttype": 42}):
        figure.savefig(buffer, format=kind, dpi=dpi, metadata=metadata)
    return buffer.getvalue()
