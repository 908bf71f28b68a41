"""Figures and the page: what is drawn is what the tables say, and the page is one safe file."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawn_runs import NASTY, curves, drawn, plot_of, regret_figure
from fedbandits.experiments.availability import availability_figure
from fedbandits.experiments.results import Results
from fedbandits.problems import CognitiveRadio
from fedbandits.report.end_labels import spread_out
from fedbandits.report.page import chart_data
from fedbandits.report.style import image
from fedbandits.reproduce.catalogue import paper_experiment
from fedbandits.simulation.charts import PART, YARDSTICK, regret_charts, shown_in_parts

LONG = "a label so long that it does not fit into one line, nor into two, and hardly into three"


def named(results: Results) -> tuple[list[str], list[str]]:
    """Return the labels and algorithms of variants."""
    variants = [simulation.variant for simulation in results.simulations]
    return [variant.label for variant in variants], [v.algorithm.name for v in variants]


def test_figure_has_a_line_for_every_variant_and_exploration_part(results: Results) -> None:
    labels, _ = named(results)
    axes = regret_figure(results.curves(), "title", in_parts=labels).axes[0]
    dashed = [line for line in axes.lines if line.is_dashed()]
    assert len(axes.lines) - len(dashed) == 3
    # Improved UCB never communicates, so all of its regret is exploration.
    assert len(dashed) == 2
    assert len(axes.collections) == 3
    for line in axes.lines:
        assert np.asarray(line.get_xydata())[0].tolist() == [0, 0]


def test_lines_and_bands_are_means_and_1_96_standard_errors(results: Results) -> None:
    table = results.curves()
    axes = regret_figure(table, "title").axes[0]
    for number, simulation in enumerate(results.simulations):
        rows = [
            row
            for row, key in enumerate(zip(table["variant"], table["regret"], strict=True))
            if key == (simulation.variant.label, "total")
        ]
        means = np.array([table["mean"][row] for row in rows])
        half = 1.96 * np.array([table["stderr"][row] for row in rows])
        solid = [line for line in axes.lines if not line.is_dashed()]
        assert np.asarray(solid[number].get_ydata())[1:].tolist() == means.tolist()
        corners = np.asarray(axes.collections[number].get_paths()[0].vertices)
        for slot, low, high in zip(simulation.grid, means - half, means + half, strict=True):
            at = corners[corners[:, 0] == slot, 1]
            assert (at.min(), at.max()) == pytest.approx((low, high))


def test_one_replication_has_no_band_and_says_so() -> None:
    figure = regret_figure(curves({"a": 10.0}, stderr=None), "title")
    assert len(figure.axes[0].collections) == 0
    assert "one replication, so there is no confidence band" in figure.texts[1].get_text()


def test_parts_of_the_figure_are_labelled(results: Results) -> None:
    figure = regret_figure(results.curves(), "The title")
    axes = figure.axes[0]
    assert figure.texts[0].get_text() == "The title"
    assert axes.get_xlabel() == "slot t"
    assert axes.get_ylabel().startswith("regret (total over clients")
    assert [text.get_text() for text in axes.texts] == [NASTY, "f = 40 $x^{$", "_alone"]


def test_ticks_have_thousands_separators() -> None:
    axes = drawn(regret_figure(curves({"a": 30_000.0}), "title")).axes[0]
    assert "1,000" in [label.get_text() for label in axes.get_xticklabels()]
    assert "10,000" in [label.get_text() for label in axes.get_yticklabels()]


def test_exploration_parts_are_dashed_and_labelled_in_print_and_on_the_page() -> None:
    table = curves({"ours": 100.0, "base": 60.0}, cost=30.0)
    figure = regret_figure(table, "title", in_parts=["ours"])
    axes = figure.axes[0]
    (dashed,) = (line for line in axes.lines if line.is_dashed())
    assert np.asarray(dashed.get_ydata()).tolist() == [0, 17.5, 35, 70]
    assert [text.get_text() for text in axes.texts] == [
        "ours",
        "ours, without communication",
        "base",
    ]
    assert figure.texts[1].get_text().endswith("dashed: exploration regret alone")
    charts = regret_charts(table, "title", in_parts=["ours"])
    ours, part, _ = plot_of(charts["total"]).series
    assert part.label == "ours, without communication"
    assert part.dash
    assert part.y == [0, 17.5, 35, 70]
    assert part.colour == ours.colour
    # Beside the parts themselves there is nothing to compare them with.
    for regret in ("exploration", "communication"):
        assert [one.label for one in plot_of(charts[regret]).series] == ["ours", "base"]
    # What costs nothing is not drawn twice.
    free = curves({"ours": 100.0, "base": 60.0})
    assert not any(
        line.is_dashed() for line in regret_figure(free, "", in_parts=["ours"]).axes[0].lines
    )
    assert len(plot_of(regret_charts(free, "", in_parts=["ours"])["total"]).series) == 2


def test_the_papers_figures_3_and_4_show_fed_ucb_without_communication() -> None:
    shown = {}
    for name in ("fig3", "fig4", "fig5", "fig6", "fig8"):
        variants = paper_experiment(name).variants
        shown[name] = shown_in_parts(
            [variant.label for variant in variants], [v.algorithm.name for v in variants]
        )
    assert shown["fig3"] == ("Fed1-UCB, M = 5", "Fed1-UCB, M = 10")
    assert shown["fig4"] == ("Fed2-UCB",)
    assert shown["fig5"] == shown["fig6"] == shown["fig8"] == ()


def test_parts_that_a_logarithmic_axis_hides_are_enlarged_where_nothing_stands() -> None:
    table = curves({"ours": 1_000.0, "all": 30_000.0}, cost=50.0)
    # Flat after the first quarter, as regrets are.
    table["mean"] = [
        end
        for start in range(0, len(table["mean"]), 3)
        for end in [table["mean"][start + 2]] * 3
    ]  # fmt: skip
    first = regret_figure(table, "title", in_parts=["ours"])
    assert first.axes[0].get_yscale() == "log"
    assert not first.axes[0].child_axes, "no room below flat curves that begin at the bottom"
    table["mean"][0] = table["mean"][3] = 2.0
    figure = drawn(regret_figure(table, "title", in_parts=["ours"]))
    axes = figure.axes[0]
    (box,) = axes.child_axes
    low, high = box.get_ylim()
    assert low < 950
    assert 1_000 < high < 1_100
    assert box.get_yscale() == "linear"
    around = box.get_tightbbox()
    assert around is not None
    for line in axes.lines:
        points = axes.transData.transform(np.asarray(line.get_xydata())[1:])
        assert not any(around.contains(x, y) for x, y in points)
    linear = regret_figure(curves({"a": 9.0, "b": 8.0}, cost=1.0), "", in_parts=["a"])
    assert not linear.axes[0].child_axes


def test_lower_bounds_are_dotted_lines_beside_totals() -> None:
    table = curves({"ours": 100.0, "base": 60.0}, cost=30.0)
    charts = regret_charts(table, "title", slopes=[20.0])
    *_, line = plot_of(charts["total"]).series
    assert line.label == "lower bound, as a yardstick: 20\u00a0·\u00a0log\u00a0t"
    # At the slots of the curves, so that a page can show all values at one of them.
    assert line.x == plot_of(charts["total"]).series[0].x == [0, 250, 500, 1000]
    assert line.y == pytest.approx([0.0, *20.0 * np.log([250, 500, 1000])])
    assert line.dash == YARDSTICK != PART
    assert plot_of(charts["total"]).y.high > 20.0 * np.log(1000)
    for regret in ("exploration", "communication"):
        assert len(plot_of(charts[regret]).series) == 2
    figure = regret_figure(table, "title", slopes=[20.0])
    assert figure.texts[1].get_text().endswith("dotted: a bound only in the limit")
    assert sum(line.is_dashed() for line in figure.axes[0].lines) == 1
    # Two are told apart by their slopes; more would bury the curves.
    for slopes, lines in (([7.0, 20.0], 2), ([7.0, 20.0, 30.0], 0), ([], 0)):
        shown = plot_of(regret_charts(table, "title", slopes=slopes)["total"]).series
        assert sum("yardstick" in one.label for one in shown) == lines


@pytest.mark.parametrize(("least", "logarithmic"), [(150.0, False), (149.0, True)])
def test_axis_is_logarithmic_beyond_a_ratio_of_20(least: float, logarithmic: bool) -> None:
    table = curves({"a": 3000.0, "b": least})
    axes = regret_figure(table, "title").axes[0]
    assert axes.get_yscale() == ("log" if logarithmic else "linear")
    assert ("logarithmic" in axes.get_ylabel()) == logarithmic
    up = chart_data(regret_charts(table, ""))["views"]["total"]["panels"][0]["y"]
    assert up.get("log", False) == logarithmic
    # A reader of the page can switch, so the label leaves it to the page.
    assert up["label"] == "regret (total over clients)"


@pytest.mark.parametrize(
    "totals", [{"a": 0.0}, {"a": 0.0, "b": 5.0}, {"a": 0.0, "b": 5.0, "c": 1e9}]
)
def test_no_regret_at_all_can_be_drawn(totals: dict[str, float]) -> None:
    assert image(regret_figure(curves(totals, stderr=0.0), ""), dpi=50.0)
    assert json.dumps(chart_data(regret_charts(curves(totals, stderr=0.0), "")), allow_nan=False)


@pytest.mark.parametrize("totals", [[100.0] * 12, [2.0**n for n in range(12)]])
def test_many_long_labels_overlap_nothing(totals: list[float]) -> None:
    table = curves({f"{n} {LONG}": total for n, total in enumerate(totals)}, cost=0.5)
    figure = drawn(regret_figure(table, f"A title: {LONG}. {LONG}"))
    axes = figure.axes[0]
    boxes = [text.get_window_extent() for text in (*axes.texts, *figure.texts)]
    for number, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:number])
        assert not box.overlaps(axes.bbox)
        assert figure.bbox.x0 <= box.x0
        assert box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0
        assert box.y1 <= figure.bbox.y1


@given(
    st.lists(st.tuples(st.floats(-5, 15), st.floats(0.1, 1.0)), min_size=1, max_size=10),
)
def test_labels_that_are_spread_out_keep_order_and_distance(
    pairs: list[tuple[float, float]],
) -> None:
    wanted, room = [at for at, _ in pairs], [size for _, size in pairs]
    places = spread_out(wanted, room, 0.0, 10.0)
    order = sorted(range(len(pairs)), key=lambda i: wanted[i])
    edge = 0.0
    for index in order:
        assert places[index] - room[index] / 2 >= edge - 1e-9
        edge = places[index] + room[index] / 2
    assert edge <= 10.0 + 1e-9


def test_a_label_with_room_stands_at_its_curve() -> None:
    assert spread_out([5.0, 1.0], [1.0, 1.0], 0.0, 10.0) == [5.0, 1.0]


def test_figures_leave_matplotlib_as_it_was(results: Results) -> None:
    before = dict(mpl.rcParams)
    image(regret_figure(results.curves(), "title"), "pdf")
    image(availability_figure(CognitiveRadio.example(3), resolution=5))
    assert dict(mpl.rcParams) == before


def test_nothing_imports_pyplot() -> None:
    code = "import fedbandits.report.still, sys; print('matplotlib.pyplot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("kind", ["png", "pdf"])
def test_files_are_the_same_every_time(kind: Any) -> None:
    table = curves({"a": 1.0})
    assert image(regret_figure(table, "title"), kind) == image(regret_figure(table, "title"), kind)
