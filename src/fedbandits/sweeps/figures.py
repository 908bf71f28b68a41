"""Pictures of a sweep, drawn with Matplotlib's objects alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from fedbandits.experiments.figures import LOG_RATIO, NORMAL_95, colours, image, style
from fedbandits.experiments.figures.lettering import wrapped
from fedbandits.experiments.figures.palette import INK
from fedbandits.sweeps.pictures import Lines, Maps, Panel, Scale, picture_of
from fedbandits.sweeps.results import SweepResults

# Beyond so many times the least, all is equally bad.
_MOST_TIMES = {True: 4.0, False: 10.0}
# So many letters fit below a picture, so many labels beside it, and so many numbers into it.
_LETTERS_ACROSS, _MOST_UP, _MOST_NUMBERS = 64, 20, 64


def write_figures(results: SweepResults, folder: Path) -> None:
    """Write sweep.png and sweep.pdf, if there are few enough keys."""
    figure = sweep_figure(results)
    if figure is not None:
        (folder / "sweep.png").write_bytes(image(figure, "png"))
        (folder / "sweep.pdf").write_bytes(image(figure, "pdf"))


def sweep_figure(results: SweepResults) -> Figure | None:
    """Return the picture that fits a sweep; None if it has too many keys."""
    picture = picture_of(results)
    if picture is None:
        return None
    if isinstance(picture, Maps):
        return maps_figure(picture)
    experiment = results.sweep.experiment(0)
    return lines_figure(picture, [variant.algorithm.name for variant in experiment.variants])


def lines_figure(picture: Lines, algorithms: list[str]) -> Figure:
    """Draw mean total regret over a key, a line a variant, with 95 % bands."""
    colour_of = colours([line.variant for line in picture.lines], algorithms)
    with style.new_figure(7.2, 4.4) as figure:
        axes: Axes = figure.subplots()
        numbers = picture.across.numbers
        places = np.arange(len(picture.across.texts)) if numbers is None else numbers
        for line in picture.lines:
            colour = colour_of[line.variant]
            half = NORMAL_95 * line.stderr
            axes.fill_between(
                places, line.mean - half, line.mean + half, color=colour, alpha=0.2, linewidth=0
            )
            axes.plot(
                places, line.mean, color=colour, marker="o", markersize=3.5, label=line.variant
            )
        if picture.across.log:
            axes.set_xscale("log")
            _plain_log(axes, "x")
        if numbers is None:
            axes.set_xticks(*_ticks_across(picture.across, _LETTERS_ACROSS))
        means = np.concatenate([line.mean for line in picture.lines])
        if means.min() > 0 and means.max() / means.min() > LOG_RATIO:
            axes.set_yscale("log")
            _plain_log(axes, "y")
        else:
            axes.set_ylim(bottom=min(0.0, float(means.min())))
            axes.yaxis.set_major_formatter(FuncFormatter(_plain))
        axes.set_xlabel(picture.across.name)
        axes.set_ylabel("mean total regret, with 95 % bands")
        axes.grid(visible=True, axis="y")
        style.open_frame(axes)
        if len(picture.lines) > 1:
            legend = axes.legend(frameon=False, fontsize=8.5)
            for text in legend.get_texts():
                text.set_parse_math(False)
        _head(figure, picture.title)
    return figure


def maps_figure(picture: Maps) -> Figure:
    """Draw mean total regret over two keys, a map a variant and value of the third key."""
    rows, columns = len(picture.rows), len(picture.rows[0])
    everything = np.array([[panel.values for panel in row] for row in picture.rows])
    least = max(float(np.nanmin(everything)), 1e-12)
    largest = float(np.nanmax(everything))
    most = max(min(largest, _MOST_TIMES[picture.relative] * least), 1.01 * least)
    norm = LogNorm(least, most)
    width = 6.4 if columns == 1 else 1.6 + 2.6 * columns
    height = 4.8 if rows == columns == 1 else 1.2 + 2.5 * rows
    with style.new_figure(width, height) as figure:
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for axes_row, row in zip(grid, picture.rows, strict=True):
            for axes, panel in zip(axes_row, row, strict=True):
                drawn = _draw_panel(axes, panel, picture, norm)
        for axes in grid[-1]:
            axes.set_xlabel(picture.across.name)
        for axes in grid[:, 0]:
            axes.set_ylabel(picture.up.name)
        bar = figure.colorbar(
            drawn, ax=grid.ravel().tolist(), extend="max" if largest > most else "neither"
        )
        bar.set_label(
            "regret, as a multiple of the best choice's"
            if picture.relative
            else "mean total regret (logarithmic)"
        )
        bar.outline.set_visible(False)
        few = most / least < 10
        between = MaxNLocator(6) if few else LogLocator(subs=(1.0, 2.0, 5.0))
        marks = [mark for mark in between.tick_values(least, most) if 1.1 * least < mark <= most]
        # The least is where colours begin: as good as the best, where they are multiples of it.
        bar.ax.yaxis.set_major_locator(FixedLocator([least, *marks]))
        bar.ax.yaxis.set_major_formatter(FuncFormatter(_plain))
        style.no_minor_ticks(bar.ax.yaxis)
        _head(figure, picture.title)
    return figure


def _draw_panel(axes: Axes, panel: Panel, picture: Maps, norm: LogNorm) -> AxesImage:
    axes.set_facecolor("#e8eaed")
    drawn = axes.imshow(panel.values, origin="lower", aspect="auto", cmap="viridis_r", norm=norm)
    for row, column in panel.best:
        axes.plot(column, row, marker="*", markersize=13, color="white", markeredgecolor=INK)
    if panel.values.size <= _MOST_NUMBERS and len(picture.rows[0]) == 1:
        _write_numbers(axes, panel, norm, relative=picture.relative)
    several = len(picture.rows[0]) > 1
    letters = _LETTERS_ACROSS // 2 if several else _LETTERS_ACROSS
    axes.set_xticks(*_ticks_across(picture.across, letters))
    axes.set_yticks(*_ticks(picture.up, _MOST_UP // 2 if len(picture.rows) > 1 else _MOST_UP))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if panel.heading:
        heading = axes.set_title(wrapped(panel.heading, 34, 2), size=9.0, loc="left")
        heading.set_parse_math(False)
    return drawn


def _write_numbers(axes: Axes, panel: Panel, norm: LogNorm, *, relative: bool) -> None:
    """Write every value into its place, where they are few; the best has its star instead."""
    for (row, column), value in np.ndenumerate(panel.values):
        if (row, column) in panel.best or np.isnan(value):
            continue
        dark = norm(min(float(value), float(norm.vmax or value))) > 0.5
        text = f"{value:.2f}" if relative else _plain(float(f"{value:.3g}"), 0)
        axes.text(
            column, row, text, ha="center", va="center", size=7.5, color="white" if dark else INK
        )


def _ticks_across(scale: Scale, letters: int) -> tuple[list[int], list[str]]:
    """Return what is labelled below a picture: fewer if the labels are long."""
    longest = max(len(text) for text in scale.texts)
    return _ticks(scale, max(2, letters // (longest + 2)))


def _ticks(scale: Scale, most: int) -> tuple[list[int], list[str]]:
    """Return places and texts of the values that are labelled: all, or some up to the last.

    The first is among them where some step leads from it to the last.
    """
    last = len(scale.texts) - 1
    step = last // most + 1
    even = [longer for longer in range(step, 2 * step) if last % longer == 0]
    places = list(range(last, -1, -(even or [step])[0]))[::-1]
    return places, [wrapped(scale.texts[place], 18, 2) for place in places]


def _head(figure: Figure, title: str) -> None:
    heading = figure.suptitle(wrapped(title, 80, 2), x=0.02, ha="left", size=11.0, weight="bold")
    heading.set_parse_math(False)


def _plain_log(axes: Axes, which: str) -> None:
    """Label a logarithmic axis with plain numbers."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(_plain))
    axis.set_minor_locator(NullLocator())


def _plain(value: float, _: object) -> str:
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
