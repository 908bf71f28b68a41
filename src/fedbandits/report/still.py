"""Charts in print: drawn by Matplotlib."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.axis import Axis as Drawn
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.transforms import offset_copy

from fedbandits.report import style
from fedbandits.report.chart import Axis, Chart, Heat, Panel, Plot, Rows, Series
from fedbandits.report.end_labels import lay_out, places_of
from fedbandits.report.palette import FAINT, INK

_LOG = logging.getLogger(__name__)
_MARKERS = {"dot": "o", "square": "s", "triangle": "^", "diamond": "D", "down": "v", "cross": "X"}
_FORMS: dict[str, Callable[[float], str]] = {
    "number": style.number,
    "percent": style.percent,
    "power": style.power,
}
_STEPS = [1, 2, 2.5, 5, 10]
# So many letters fit below one panel; fewer names are written if they are long.
_LETTERS_ACROSS, _MOST_UP = 64, 20


def still(chart: Chart) -> bytes:
    """Return a chart as the bytes of a PNG file, the same ones every time."""
    return style.image(figure_of(chart))


def write_still(chart: Chart, folder: Path, name: str) -> bytes:
    """Write a chart as PNG and PDF, and return the PNG; say which texts cannot be read in them."""
    figure = figure_of(chart)
    if boxed := style.boxed(figure):
        _LOG.warning(
            "note: no installed font has all characters of %s; %s shows boxes,"
            " but the page shows the characters",
            ", ".join(f'"{text}"' for text in boxed),
            f"{name}.png",
        )
    png = style.image(figure)
    (folder / f"{name}.png").write_bytes(png)
    (folder / f"{name}.pdf").write_bytes(style.image(figure, "pdf"))
    return png


def figure_of(chart: Chart) -> Figure:
    """Return a chart as a figure for print.

    Examples
    --------
    >>> line = Series(label="demo", x=[0, 50, 100], y=[0.0, 8.0, 9.0], colour="#0072B2")
    >>> plot = Plot(x=Axis(label="slot t"), y=Axis(label="regret"), series=[line])
    >>> axes = figure_of(Chart(name="demo", panels=[plot])).axes[0]
    >>> [line.get_ydata().tolist() for line in axes.lines]
    [[0.0, 8.0, 9.0]]
    """
    with style.new_figure(*chart.size, _layout(chart), letters=repr(chart)) as figure:
        _fill(figure, chart)
    return figure


def draw(chart: Chart, axes: Axes | None = None) -> Axes:
    """Draw a chart for those who work with Matplotlib; return the axes of its first panel.

    Parameters
    ----------
    chart : Chart
        With one panel, if there are axes.
    axes : Axes, optional
        Where to draw; what stands around them, such as a title, is left to their owner. By default
        there is a new figure of pyplot, which shows it.
    """
    with style.house_style(repr(chart)):
        if axes is None:
            from matplotlib import pyplot  # noqa: PLC0415 - it keeps figures, which files do not need

            return _fill(pyplot.figure(figsize=chart.size, layout=_layout(chart)), chart)[0]
        inside = replace(chart, columns=1, legend="below" if chart.legend == "below" else "inside")
        figure = axes.get_figure(root=True)
        if figure is None:
            raise ValueError("the axes were removed from their figure; give others")
        _fill_axes(figure, inside, [axes])
    return axes


def _layout(chart: Chart) -> Literal["constrained"] | None:
    """Return who gives the parts of a figure their room; labels at ends take it themselves."""
    return None if chart.legend == "ends" else "constrained"


def _fill(figure: Figure, chart: Chart) -> list[Axes]:
    """Draw a chart into a figure of its own; return the axes of its panels."""
    at_ends = chart.legend == "ends"
    places = [figure.add_subplot()] if at_ends else _grid(figure, chart)
    _fill_axes(figure, chart, places)
    if not at_ends:
        for axes in places[len(chart.panels) :]:
            axes.set_visible(False)
        _head(figure, chart)
    return places[: len(chart.panels)]


def _fill_axes(figure: Figure, chart: Chart, places: list[Axes]) -> None:
    """Draw the panels of a chart, and name their series."""
    drawn = [*zip(places, chart.panels, strict=False)]
    for axes, panel in drawn:
        _draw(axes, panel, chart.columns)
    if isinstance(chart.panels[0], Heat):
        _colour_bar(figure, chart.panels[0], places)
    # Only now the limits of axes that panels share are known.
    plots = [(axes, panel) for axes, panel in drawn if isinstance(panel, Plot)]
    for axes, plot in plots:
        _dress_plot(axes, plot)
    if chart.legend == "ends":
        ((axes, plot),) = plots
        lay_out(figure, axes, chart, [s for s in plot.series if s.label and s.width])
    else:
        _name_series(figure, chart, plots)


def _grid(figure: Figure, chart: Chart) -> list[Axes]:
    """Return axes for all panels, row by row; what they have in common is labelled once."""
    rows = math.ceil(len(chart.panels) / chart.columns)
    heights = [len(one.rows) + 0.9 for one in chart.panels if isinstance(one, Rows)] or [1.0] * rows
    shared: Any = {"sharex": chart.aligned, "sharey": chart.aligned}
    grid = figure.subplots(rows, chart.columns, squeeze=False, height_ratios=heights, **shared)
    if chart.aligned:
        for axes in grid[:, 1:].flat:
            axes.yaxis.label.set_visible(False)
        for axes in grid[:-1].flat:
            axes.xaxis.label.set_visible(False)
    return list(grid.flat)


def _draw(axes: Axes, panel: Panel, columns: int) -> None:
    if panel.title:
        short = style.wrapped(panel.title, 34 if columns > 1 else 80, 2)
        axes.set_title(short, loc="left", fontweight="bold", size=10.0 if columns < 3 else 9)
    match panel:
        case Plot():
            for series in panel.series:
                _draw_series(axes, series)
        case Rows():
            _draw_rows(axes, panel)
        case Heat():
            _draw_heat(axes, panel, columns)


def _head(figure: Figure, chart: Chart) -> None:
    if chart.title:
        words = style.wrapped(chart.title, 80, 2)
        figure.suptitle(words, x=0.02, ha="left", size=11.0, weight="bold")
    elif chart.key:
        figure.suptitle(chart.key, x=0.012, ha="left", size=8.0, color=FAINT)


def _name_series(figure: Figure, chart: Chart, plots: list[tuple[Axes, Plot]]) -> None:
    """Put legends where the chart wants them, if there is more than one name."""
    names = [sum(bool(one.label) for one in plot.series) for _, plot in plots]
    most = max(names, default=0)
    if most < 2:
        return
    if chart.legend == "shared":
        fullest, _ = plots[names.index(most)]
        named = fullest.get_legend_handles_labels()
        figure.legend(*named, loc="outside lower left", ncols=3 if most > 4 else 2)
        return
    for axes, _ in plots:
        if chart.legend == "below":
            axes.legend(loc="upper left", bbox_to_anchor=(-0.02, -0.14))
        else:
            axes.legend(handlelength=1.6)


# Series between axes


def _dress_plot(axes: Axes, plot: Plot) -> None:
    """Give a plot its scales, limits, ticks, guides and notes."""
    if plot.x.log:
        axes.set_xscale("log")
    if plot.y.log:
        axes.set_yscale("log", nonpositive="clip")
    axes.set_xlim(plot.x.low, plot.x.high)
    axes.set_ylim(plot.y.low, plot.y.high)
    for guide in plot.guides:
        lined: dict[str, Any] = {"linewidth": 1.0, "linestyle": (0, guide.dash or (1, 0))}
        if guide.x is not None:
            axes.axvline(guide.x, color=FAINT, **lined)
            at, shift = (guide.x, 1.0), (4, -4)
            look: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "va": "top"}
        else:
            at, shift = (0.0, guide.y or 0.0), (5, 4)
            axes.axhline(at[1], color=FAINT, **lined)
            look = {"xycoords": ("axes fraction", "data")}
        _annotate(axes, guide.label, at, shift, color=FAINT, **look)
    for note in plot.notes:
        if note.colour:
            axes.plot([note.x], [note.y], color=note.colour, marker="o", markersize=5.5)
        _annotate(axes, note.text, (note.x, note.y), (6, 6))
    _scale(axes.xaxis, plot.x, letters=_LETTERS_ACROSS)
    _scale(axes.yaxis, plot.y)
    axes.grid(axis="y")
    style.open_frame(axes)
    if plot.enlarged is not None:
        _enlarge(axes, plot, plot.enlarged)


def _annotate(
    axes: Axes, text: str, at: tuple[float, float], shift: tuple[int, int], **look: Any
) -> None:
    """Put words beside a point, shifted by so many points of print."""
    axes.annotate(text, at, xytext=shift, textcoords="offset points", size=8.5, **look)


def _draw_series(axes: Axes, series: Series) -> None:
    drawn: dict[str, Any] = {"color": series.colour}
    ends = series.interval() or ()
    if series.beside:
        figure = axes.get_figure(root=True)
        shift = offset_copy(axes.transData, figure, x=0.7 * series.beside, units="points")
        drawn["transform"] = shift
        # What is shifted does not count for the limits of the axes by itself.
        for levels in (series.y, *ends):
            axes.update_datalim([*zip(series.x, levels, strict=True)])
    if ends and series.band:
        axes.fill_between(series.x, *ends, color=series.colour, alpha=0.18, linewidth=0)
    elif ends:
        known = ~np.isnan(np.array(series.y, dtype=np.float64))
        x, low, high = (np.array(values)[known] for values in (series.x, *ends))
        axes.vlines(x, low, high, linewidth=1.0, alpha=series.opacity, **drawn)
    axes.plot(
        series.x,
        series.y,
        label=series.label or None,
        linewidth=series.width,
        linestyle=(0, series.dash) if series.dash else "-" if series.width else "",
        drawstyle="steps-post" if series.step else "default",
        solid_joinstyle="round",
        marker=_MARKERS.get(series.mark, ""),
        markersize=series.size,
        markerfacecolor="white" if series.hollow else series.colour,
        alpha=series.opacity,
        zorder=2.5 if series.mark else 2,
        clip_on=bool(series.width),
        **drawn,
    )


def _scale(drawn: Drawn, axis: Axis, *, letters: int | None = None) -> None:
    """Label an axis, and put ticks where they can be read."""
    drawn.set_label_text(_titled(axis.label) if axis.log else axis.label)
    if axis.ticks is not None:
        names = _some(axis.ticks, letters) if axis.names else axis.ticks
        drawn.set_ticks(list(names), [style.wrapped(text, 18, 2) for text in names.values()])
        drawn.set_minor_locator(ticker.NullLocator())
        return
    low, high = sorted(drawn.get_view_interval())
    locator = _locator(low, high, log=axis.log, form=axis.form, across=bool(letters))
    _tick(drawn, locator, _FORMS[axis.form])


def _tick(axis: Drawn, locator: ticker.Locator, form: Callable[[float], str]) -> None:
    """Label an axis at some places, and nowhere else."""
    axis.set_major_locator(locator)
    axis.set_minor_locator(ticker.NullLocator())
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: form(value)))


def _titled(label: str) -> str:
    """Return the label of a logarithmic scale."""
    return f"{label}, logarithmic" if label else "logarithmic"


def _locator(low: float, high: float, *, log: bool, form: str, across: bool) -> ticker.Locator:
    if log:
        # Numbers across stand side by side, and need more room.
        many = form == "power" or math.log10(high / max(low, 1e-300)) > (2 if across else 3)
        return ticker.LogLocator(subs=(1.0,) if many else (1.0, 2.0, 5.0))
    # Fewer if each is long.
    most = 6 if not across else 5 if high < 1e9 else 2
    return ticker.MaxNLocator(nbins=most, steps=_STEPS, integer=across and high > 10)


def _some(ticks: Any, letters: int | None) -> dict[float, str]:
    """Return the names that have room: all, or some up to the last.

    The first is among them if some step leads from it to the last.

    Examples
    --------
    >>> list(_some({place: "a long name" for place in range(11)}, 64))
    [0, 5, 10]
    """
    longest = max(len(text) for text in ticks.values())
    most = _MOST_UP if letters is None else max(2, letters // (longest + 2))
    places = list(ticks)
    last = len(places) - 1
    step = last // most + 1
    even = [longer for longer in range(step, 2 * step) if last % longer == 0]
    return {places[at]: ticks[places[at]] for at in range(last, -1, -(even or [step])[0])[::-1]}


# In parts of the axes: the box, room for its ticks, and how high it must be to be of any use.
_LEFT, _RIGHT, _BOTTOM = 0.45, 0.96, 0.11
_TICKS, _ABOVE, _LEAST_HEIGHT = 0.13, 0.09, 0.2


def _enlarge(axes: Axes, plot: Plot, limits: tuple[float, float]) -> None:
    """Draw the series once more, with a linear axis, below where all of them end.

    Nothing is drawn if the axes have no room for it.
    """
    places = np.vstack([places_of(axes, series) for series in plot.series])
    free = np.nanmin(places[places[:, 0] >= _LEFT - _TICKS, 1])
    height = float(free) - _ABOVE - _BOTTOM
    if height < _LEAST_HEIGHT:
        return
    box = axes.inset_axes((_LEFT, _BOTTOM, _RIGHT - _LEFT, height))
    for series in plot.series:
        _draw_series(box, series)
    box.set(xscale=axes.get_xscale(), xlim=axes.get_xlim(), ylim=limits)
    box.set_title("the same, enlarged: linear scale", loc="left", size=7.5, color=FAINT, pad=3)
    few = ticker.LogLocator(numticks=4) if plot.x.log else ticker.MaxNLocator(nbins=2, integer=True)
    for axis, locator in ((box.xaxis, few), (box.yaxis, ticker.MaxNLocator(nbins=4, steps=_STEPS))):
        _tick(axis, locator, style.number)
        axis.set_tick_params(labelsize=7.0, length=2.5)
    style.open_frame(box)


# Rows


def _draw_rows(axes: Axes, panel: Rows) -> None:
    """Draw one row per thing, from top to bottom."""
    most = max(row.high for row in panel.rows)
    for place, row in enumerate(panel.rows):
        colour, width = (INK, 1.0) if panel.bars else (row.colour, 2.0)
        if panel.bars:
            axes.barh(place, row.value, color=row.colour, height=0.62)
            axes.text(row.high + 0.015 * most, place, f"{row.value:,.0f}", va="center", size=8.5)
        else:
            axes.plot(row.value, place, marker="o", markersize=6, color=row.colour)
        axes.plot([row.low, row.high], [place, place], color=colour, linewidth=width)
    axes.set_ylim(len(panel.rows) - 0.4, -0.6)
    names = [f"{row.label}  ({row.below})" if row.below else row.label for row in panel.rows]
    ticks = axes.set_yticks(range(len(panel.rows)), names)
    for tick, row in zip(ticks, panel.rows, strict=True):
        tick.label1.set_color(FAINT if row.faint else INK)
    if panel.bars:
        axes.set_xlim(0, 1.14 * most)
    else:
        axes.grid(axis="x")
        axes.spines["left"].set_visible(False)
    _scale(axes.xaxis, panel.x)
    axes.tick_params(axis="y", length=0)
    style.open_frame(axes)


# Maps


def _draw_heat(axes: Axes, heat: Heat, columns: int) -> None:
    """Draw a map; the best have stars."""
    values = np.array(heat.values, dtype=np.float64)
    norm = LogNorm(*heat.limits)
    axes.set_facecolor("#e8eaed")
    axes.imshow(values, origin="lower", aspect="auto", cmap="viridis_r", norm=norm)
    for row, column in heat.best:
        axes.plot(column, row, marker="*", markersize=14, color="white", markeredgecolor=INK)
    if heat.note and heat.best:
        row, column = heat.best[0]
        across, shift = ("left", 14) if column < values.shape[1] / 2 else ("right", -14)
        up = "bottom" if row < 0.75 * values.shape[0] else "top"
        box = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": FAINT}
        _annotate(axes, heat.note, (column, row), (shift, 14), ha=across, va=up, bbox=box)
    if heat.numbers:
        for (row, column), value in np.ndenumerate(values):
            if (row, column) not in heat.best and not np.isnan(value):
                ink = "white" if norm(min(float(value), heat.limits[1])) > 0.5 else INK
                look: Any = {"ha": "center", "va": "center", "size": 7.5, "color": ink}
                axes.text(column, row, heat.cells[row][column], **look)
    _scale(axes.xaxis, heat.x, letters=_LETTERS_ACROSS // min(columns, 2))
    _scale(axes.yaxis, heat.y)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _colour_bar(figure: Figure, heat: Heat, places: list[Axes]) -> None:
    """Say what the colours of all maps are: those of the first."""
    least, most = heat.limits
    beyond = bool((np.array(heat.values) > most).any())
    bar = figure.colorbar(places[0].images[0], ax=places, extend="max" if beyond else "neither")
    bar.set_label(_titled(heat.label))
    bar.outline.set_visible(False)
    between = (
        ticker.MaxNLocator(6) if most / least < 10 else ticker.LogLocator(subs=(1.0, 2.0, 5.0))
    )
    marks = [mark for mark in between.tick_values(least, most) if 1.1 * least < mark <= most]
    # The least is where colours begin: as good as the best, if they are multiples of it.
    ticks = ticker.FixedLocator([least, *marks])
    _tick(bar.ax.yaxis, ticks, lambda value: style.number(float(f"{value:.4g}")))
