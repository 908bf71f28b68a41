"""Regret in print."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from fedbandits.experiments.figures import style
from fedbandits.experiments.figures.curves import (
    Curve,
    axis_label,
    curves_by_variant,
    exploration_parts,
    is_logarithmic,
    part_label,
)
from fedbandits.experiments.figures.enlarged import enlarge_parts
from fedbandits.experiments.figures.layout import Ending, lay_out
from fedbandits.experiments.figures.palette import ColourOf, given_or_in_order
from fedbandits.experiments.tables import Table


def regret_figure(
    curves: Table,
    title: str,
    *,
    colour_of: ColourOf | None = None,
    in_parts: Collection[str] = (),
) -> Figure:
    """Draw total regret against slot: means, with a 95 % confidence band of each mean.

    Labels stand at the ends of the curves. When totals differ by more than a factor of 20 the axis
    is logarithmic.

    Parameters
    ----------
    curves : Table
        From `fedbandits.experiments.tables.curves_table`.
    title : str
        What the figure is headed with.
    colour_of : mapping, optional
        The colour of every label, see `colours`; in the order of variants by default.
    in_parts : collection of str
        Labels of variants whose exploration part is drawn, too, as a dashed line, if they pay for
        communication; see `shown_in_parts`.

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
    variants = curves_by_variant(curves)
    colour_of = given_or_in_order(colour_of, variants)
    with style.new_figure(8.0, 4.5, layout=None) as figure:
        axes = figure.add_subplot()
        totals = {label: regrets["total"] for label, regrets in variants.items()}
        parts = exploration_parts(variants, in_parts)

        def draw(into: Axes) -> None:
            for label, total in totals.items():
                _draw_total(into, total, colour_of[label])
            for label, part in parts.items():
                into.plot(
                    part.slot, part.mean, color=colour_of[label], linewidth=1.2, dashes=_DASHES
                )  # fmt: skip

        draw(axes)
        _scale_axes(axes, list(totals.values()))
        if parts and axes.get_yscale() == "log":
            enlarge_parts(axes, totals, parts, draw, _with_separators)
        endings = []
        for label, total in totals.items():
            endings.append(Ending(label=label, value=total.end, colour=colour_of[label]))
            if label in parts:
                endings.append(
                    Ending(
                        label=part_label(label),
                        value=parts[label].end,
                        colour=colour_of[label],
                        dashes=_DASHES,
                    )
                )
        lay_out(figure, axes, endings, (title, _key(totals, parts=bool(parts))))
    return figure


# In line widths.
_DASHES = (4.0, 1.6)


def _draw_total(axes: Axes, total: Curve, colour: str) -> None:
    band = total.band()
    if band is not None:
        axes.fill_between(total.slot, *band, color=colour, alpha=0.18, linewidth=0)
    axes.plot(total.slot, total.mean, color=colour, linewidth=1.8, solid_joinstyle="round")


def _key(totals: Mapping[str, Curve], *, parts: bool) -> str:
    """Return what lines and bands are, in a line below the title."""
    if any(curve.stderr is not None for curve in totals.values()):
        said = ["line: mean of the replications", "band: 95 % confidence interval of the mean"]
    else:
        said = ["one replication, so there is no confidence band"]
    if parts:
        said.append("dashed: exploration regret alone")
    return "; ".join(said)


def _scale_axes(axes: Axes, totals: Sequence[Curve]) -> None:
    logarithmic = is_logarithmic(totals)
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
    axes.set_ylabel(axis_label("total", logarithmic=logarithmic))
    style.finish(axes)


def _with_separators(value: float, _: int | None = None) -> str:
    """Return a tick label.

    Examples
    --------
    >>> _with_separators(1_250_000.0), _with_separators(0.30000000000000004)
    ('1,250,000', '0.3')
    """
    return f"{value:,.12g}"
