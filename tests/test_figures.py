"""Figures and the page: what is drawn is what the tables say, and the page is one safe file."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.colors import rgb_to_hsv, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from fedbandits.experiments.experiment import Experiment
from fedbandits.experiments.figures import (
    PALETTE,
    availability_figure,
    colours,
    image,
    regret_figure,
    regret_page_figure,
    shown_in_parts,
    spread_out,
)
from fedbandits.experiments.report.page import report_html
from fedbandits.experiments.results import Results
from fedbandits.experiments.tables import Table
from fedbandits.problems import Approximate, CognitiveRadio, Exact, Gaussian, best_arm
from fedbandits.reproduce.catalogue import paper_experiment
from fedbandits.rules.algorithms import ALGORITHMS, Fed1Ucb, Fed2Ucb, ImprovedUcb, Ucb1
from fedbandits.rules.arrays import FloatArray
from fedbandits.simulation import Variant

NASTY = '<script>alert(1)</script> & "x"'
LONG = "a label so long that it does not fit into one line, nor into two, and hardly into three"
GAME = Approximate(means=[0.5, 0.7, 0.9], noise=Gaussian(0.5), spread=Gaussian(0.1))


def curves(totals: dict[str, float], *, cost: float = 0.0, stderr: float | None = 1.0) -> Table:
    """Return a table of curves that rise straight to the given totals in 1,000 slots."""
    table: Table = {"variant": [], "regret": [], "slot": [], "mean": [], "stderr": []}
    for label, total in totals.items():
        ends = {"total": total, "exploration": total - cost, "communication": cost}
        for regret, end in ends.items():
            for slot in (250, 500, 1000):
                row = (label, regret, slot, end * slot / 1000, stderr)
                for column, value in zip(table.values(), row, strict=True):
                    column.append(value)
    return table


def run(*, replications: int = 5, labels: tuple[str, ...] = (NASTY, "f = 40 $x^{$")) -> Results:
    """Return small results with an algorithm that communicates and one that does not."""
    variants = [
        Variant(label=label, problem=GAME, algorithm=Fed2Ucb(pulls=pulls, admissions="2^p"))
        for label, pulls in zip(labels, (20, 40, 80, 160), strict=False)
    ]
    variants.append(Variant(label="_alone", problem=GAME, algorithm=ImprovedUcb()))
    return Experiment(
        title=f"Title of {NASTY}", variants=variants, horizon=5_000, replications=replications
    ).run()


@pytest.fixture(scope="module")
def results() -> Results:
    return run()


@pytest.fixture(scope="module")
def page(results: Results) -> str:
    return report_html(results)


# Regret in print


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
    on_page = regret_page_figure(table, in_parts=["ours"])
    assert len(on_page["data"]) == 5
    part, (_, line) = on_page["data"][-1], on_page["data"][:2]
    assert (part["name"], part["line"]["dash"]) == ("ours, without communication", "6px,3px")
    assert part["y"] == [0, 17.5, 35, 70]
    assert part["line"]["color"] == line["line"]["color"]
    # Below its variant, above the next one.
    ranks = [trace["legendrank"] for trace in on_page["data"] if "legendrank" in trace]
    assert sorted(ranks) == [ranks[0], ranks[2], ranks[1]]
    total, exploration, communication = on_page["layout"]["updatemenus"][0]["buttons"]
    assert total["args"][0]["y"][-1] == part["y"]
    # There the part is all that is shown, or none of it.
    assert exploration["args"][0]["y"][-1] == communication["args"][0]["y"][-1] == []
    # What costs nothing is not drawn twice.
    free = curves({"ours": 100.0, "base": 60.0})
    assert not any(
        line.is_dashed() for line in regret_figure(free, "", in_parts=["ours"]).axes[0].lines
    )
    assert len(regret_page_figure(free, in_parts=["ours"])["data"]) == 4


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


@pytest.mark.parametrize(("least", "logarithmic"), [(150.0, False), (149.0, True)])
def test_axis_is_logarithmic_beyond_a_ratio_of_20(least: float, logarithmic: bool) -> None:
    table = curves({"a": 3000.0, "b": least})
    axes = regret_figure(table, "title").axes[0]
    assert axes.get_yscale() == ("log" if logarithmic else "linear")
    assert ("logarithmic" in axes.get_ylabel()) == logarithmic
    layout = regret_page_figure(table)["layout"]
    assert layout["yaxis"]["type"] == ("log" if logarithmic else "linear")
    assert layout["yaxis"]["title"]["text"] == axes.get_ylabel()


@pytest.mark.parametrize(
    "totals", [{"a": 0.0}, {"a": 0.0, "b": 5.0}, {"a": 0.0, "b": 5.0, "c": 1e9}]
)
def test_no_regret_at_all_can_be_drawn(totals: dict[str, float]) -> None:
    assert image(regret_figure(curves(totals, stderr=0.0), ""), dpi=50.0)
    assert json.dumps(regret_page_figure(curves(totals, stderr=0.0)), allow_nan=False)


def drawn(figure: Figure) -> Figure:
    figure.canvas.draw()
    return figure


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
    code = "import fedbandits.experiments.report, sys; print('matplotlib.pyplot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("kind", ["png", "pdf"])
def test_files_are_the_same_every_time(kind: Any) -> None:
    table = curves({"a": 1.0})
    assert image(regret_figure(table, "title"), kind) == image(regret_figure(table, "title"), kind)


# Colours


def test_an_algorithm_of_one_variant_keeps_its_colour() -> None:
    alone = colours(["x"], ["fed2-ucb"])["x"]
    among = colours(["a", "b", "c", "x"], ["fed1-ucb", "fed1-ucb", "my-own", "fed2-ucb"])
    assert among["x"] == alone
    assert len(set(among.values())) == 4


def lightness(colour: str) -> float:
    return float(lab(colour)[0])


@pytest.mark.parametrize("algorithm", [*ALGORITHMS, "my-own"])
@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_variants_of_an_algorithm_are_shades_of_its_hue(algorithm: str, number: int) -> None:
    labels = [f"f = {f}" for f in range(number)]
    (usual,) = colours(["alone"], [algorithm]).values()
    # Whatever else is in the figure.
    others = [other for other in ALGORITHMS if other != algorithm]
    given_out = colours([*labels, *others], [algorithm] * number + others)
    shades = [given_out[label] for label in labels]
    hue, saturation, _ = rgb_to_hsv(to_rgb(usual))
    for shade in shades:
        away = abs(rgb_to_hsv(to_rgb(shade))[0] - hue)
        assert saturation == 0 or min(away, 1 - away) < 0.03, (usual, shade)
    steps = -np.diff([lightness(shade) for shade in shades])
    assert (steps > (12 if number <= 3 else 5)).all(), steps
    if number in (1, 2):
        assert shades[0] == usual


def test_an_algorithm_has_one_hue_in_every_figure_of_the_paper() -> None:
    hues: dict[str, set[str]] = {}
    for name in ("fig3", "fig4", "fig5", "fig6", "fig6-equal"):
        variants = paper_experiment(name).variants
        labels, algorithms = [v.label for v in variants], [v.algorithm.name for v in variants]
        given_out = colours(labels, algorithms)
        assert len(set(given_out.values())) == len(variants)
        for label, algorithm in zip(labels, algorithms, strict=True):
            red, green, blue = (int(255 * part) for part in to_rgb(given_out[label]))
            order = "".join(key for _, key in sorted([(red, "r"), (green, "g"), (blue, "b")]))
            hues.setdefault(algorithm, set()).add("grey" if red == green == blue else order)
    assert hues == {
        "fed1-ucb": {"bgr"},
        "fed2-ucb": {"rgb"},
        "centralized": {"rbg"},
        "authors-baseline": {"grey"},
        "improved-ucb": {"gbr"},
    }


# Machado, Oliveira and Fernandes (2009), on linear red, green and blue, at full severity.
EYES = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
XYZ = np.array(
    [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
)  # of linear red, green and blue


def light(colour: str) -> FloatArray:
    """Return linear red, green and blue."""
    parts = np.array(to_rgb(colour))
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(colour: str, eyes: str = "usual") -> FloatArray:
    """Return CIELAB coordinates, in which distances are those that are seen."""
    seen = np.clip(EYES[eyes] @ light(colour), 0, 1)
    x = XYZ @ seen / [0.9505, 1.0, 1.089]
    f = np.where(x > 0.008856, np.cbrt(x), 7.787 * x + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("eyes", EYES)
def test_algorithms_stay_apart_with_any_colour_blindness(eyes: str) -> None:
    names = [*ALGORITHMS, "my-own"]
    given_out = list(colours(names, names).values())
    for number, one in enumerate(given_out):
        for other in given_out[:number]:
            apart = float(np.linalg.norm(lab(one, eyes) - lab(other, eyes)))
            assert apart > 15, (one, other)


@pytest.mark.parametrize(
    "algorithm", ["fed2-ucb", "fed1-ucb", "centralized", "improved-ucb", "authors-baseline"]
)
@pytest.mark.parametrize("number", [1, 2, 3, 5])
def test_curves_stand_out_from_white(algorithm: str, number: int) -> None:
    labels = [str(n) for n in range(number)]
    for colour in colours(labels, [algorithm] * number).values():
        contrast = 1.05 / (float(XYZ[1] @ light(colour)) + 0.05)
        assert contrast >= 3.0, colour


def test_more_variants_than_a_hue_has_shades_take_colours_of_their_own() -> None:
    labels = [f"f = {f}" for f in range(8)]
    given_out = colours([*labels, "base"], ["fed2-ucb"] * 8 + ["fed1-ucb"])
    assert list(given_out.values())[:3] == [PALETTE[0], PALETTE[2], PALETTE[3]]
    assert len(set(given_out.values())) == 9
    assert given_out["base"] == colours(["x"], ["fed1-ucb"])["x"]


@given(st.lists(st.sampled_from([*ALGORITHMS, "my-own"]), min_size=1, max_size=15))
def test_colours_differ_as_long_as_there_are_any(algorithms: list[str]) -> None:
    labels = [str(number) for number in range(len(algorithms))]
    given_out = colours(labels, algorithms)
    assert list(given_out) == labels
    assert len(set(given_out.values())) >= min(len(labels), len(PALETTE))


def test_pairs_share_the_colour_of_what_they_have_in_common() -> None:
    labels = [f"g = {g}, Δ = {gap}" for g in ("⌈log T⌉", "2^p") for gap in (0.005, 0.01, 0.02)]
    given_out = list(colours(labels, ["fed2-ucb"] * 6).values())
    assert len(set(given_out)) == 6
    assert given_out[:3] == list(PALETTE[:3])
    for light, dark in zip(given_out[:3], given_out[3:], strict=True):
        assert rgb_to_hsv(to_rgb(light))[0] == pytest.approx(rgb_to_hsv(to_rgb(dark))[0], abs=0.01)
        assert rgb_to_hsv(to_rgb(dark))[2] < 0.6 * rgb_to_hsv(to_rgb(light))[2]


@pytest.mark.parametrize(
    "labels",
    [
        ["a, x", "a, y", "b, x"],
        ["a, x", "b, x"],
        ["a, x", "a, y"],
        ["a, x", "b, y"],
        ["x", "y", "a, x", "a, y"],
        [f"{row}, {column}" for row in "abc" for column in "xy"],
    ],
)
def test_what_is_not_all_pairs_has_colours_of_its_own(labels: list[str]) -> None:
    as_shades = colours([str(n) for n in range(len(labels))], ["ucb1"] * len(labels))
    given_out = colours(labels, ["ucb1"] * len(labels))
    assert list(given_out.values()) == list(as_shades.values())


def test_print_and_page_use_the_colours_given(results: Results) -> None:
    colour_of = dict(zip((NASTY, "f = 40 $x^{$", "_alone"), PALETTE[3:], strict=False))
    axes = regret_figure(results.curves(), "title", colour_of=colour_of).axes[0]
    solid = [line for line in axes.lines if not line.is_dashed()]
    assert [to_hex(line.get_color()).upper() for line in solid] == list(colour_of.values())
    figure = regret_page_figure(results.curves(), colour_of=colour_of)
    lines = figure["data"][1::2]
    assert [line["line"]["color"] for line in lines] == list(colour_of.values())


# Regret on the page


def test_page_figure_groups_bands_with_their_lines(results: Results) -> None:
    figure = regret_page_figure(results.curves())
    assert json.loads(json.dumps(figure, allow_nan=False)) == figure
    bands, lines = figure["data"][::2], figure["data"][1::2]
    groups = [line["legendgroup"] for line in lines]
    assert groups == [band["legendgroup"] for band in bands]
    assert len(set(groups)) == 3
    for band, line in zip(bands, lines, strict=True):
        assert (band["showlegend"], band["hoverinfo"]) == (False, "skip")
        assert (line["x"][0], line["y"][0]) == (0, 0)
        assert ":,." in line["hovertemplate"]


def test_page_band_is_1_96_standard_errors_and_never_below_nothing() -> None:
    band, line = regret_page_figure(curves({"a": 8.0}))["data"]
    assert line["y"] == [0, 2, 4, 8]
    assert band["x"] == [0, 250, 500, 1000, 1000, 500, 250, 0]
    assert band["y"] == pytest.approx([0, 3.96, 5.96, 9.96, 6.04, 2.04, 0.04, 0])
    band, _ = regret_page_figure(curves({"a": 4.0}))["data"]
    assert min(band["y"]) == 0


def test_page_bands_on_a_logarithmic_axis_are_above_zero() -> None:
    bands = regret_page_figure(curves({"a": 4.0, "b": 1e6, "c": 0.0}))["data"][::2]
    assert min(min(band["y"]) for band in bands) > 0


def test_page_figure_shows_labels_as_they_are(results: Results) -> None:
    names = [line["name"] for line in regret_page_figure(results.curves())["data"][1::2]]
    assert names[0] == '&lt;script&gt;alert(1)&lt;/script&gt; &amp; "x"'


def test_buttons_switch_between_regrets_and_keep_what_is_hidden() -> None:
    figure = regret_page_figure(curves({"a": 10.0, "b": 20.0}, cost=4.0))
    (switch,) = figure["layout"]["updatemenus"]
    assert [button["label"] for button in switch["buttons"]] == [
        "total",
        "exploration",
        "communication",
    ]
    for button, ends in zip(switch["buttons"], ([10, 20], [6, 16], [4, 4]), strict=True):
        traces, axes = button["args"]
        assert [y[-1] for y in traces["y"][1::2]] == ends
        assert "visible" not in traces
        assert "total over clients" in axes["yaxis.title.text"]


def test_nothing_on_the_page_sends_data_away(results: Results) -> None:
    config = regret_page_figure(results.curves())["config"]
    assert not config["showSendToCloud"]
    assert config["plotlyServerURL"] == ""
    assert config["modeBarButtons"] == [["toImage", "zoom2d", "pan2d", "resetScale2d"]]


# The map


def frames(axes: Axes) -> list[str]:
    return [to_hex(patch.get_edgecolor()) for patch in axes.patches if isinstance(patch, Rectangle)]


@pytest.mark.parametrize("n_channels", [2, 7])
def test_map_shows_every_channel_and_frames_the_best(n_channels: int) -> None:
    city = CognitiveRadio.example(n_channels)
    figure = drawn(availability_figure(city, resolution=8))
    shown = [axes for axes in figure.axes if axes.images]
    assert len(shown) == n_channels
    for channel, axes in enumerate(shown):
        title = axes.get_title()
        assert f"channel {channel}" in title
        assert f"area {city.means[channel]:.3f}" in title
        (mark,) = axes.lines
        assert np.asarray(mark.get_xydata()).tolist() == [list(city.base_station)]
    at_station = int(city.availability([city.base_station])[:, 0].argmax())
    framed = {channel for channel, axes in enumerate(shown) if frames(axes)}
    assert framed == {best_arm(city), at_station}
    assert len(framed) == 2
    (bar,) = (axes for axes in figure.axes if axes.get_label() == "<colorbar>")
    assert bar.get_ylabel() == "availability"
    (key,) = figure.legends
    assert [text.get_text() for text in key.get_texts()] == [
        "base station",
        f"best overall: channel {best_arm(city)}",
        f"best at the base station: channel {at_station}",
    ]


# The page


class Page(HTMLParser):
    """Reads a page strictly: every element is closed, and in order."""

    VOID = frozenset({"meta", "img", "br", "link", "hr", "input"})

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.append((*self.open[-1], data))

    def of(self, tag: str, **attributes: str) -> Iterator[str]:
        """Return the texts of elements, as they are shown."""
        for name, attrs, text in self.texts:
            if name == tag and attributes.items() <= attrs.items():
                yield text

    def shown(self) -> str:
        return " ".join(text for tag, _, text in self.texts if tag not in ("script", "style"))


def test_page_is_complete_html(page: str) -> None:
    assert page.startswith("<!DOCTYPE html>")
    parsed = Page(page)
    assert ("html", {"lang": "en"}) in parsed.elements
    assert any(tag == "meta" and attrs.get("name") == "viewport" for tag, attrs in parsed.elements)
    assert "".join(parsed.of("title")) == f"Title of {NASTY}"
    identifiers = [attrs["id"] for _, attrs in parsed.elements if "id" in attrs]
    assert len(identifiers) == len(set(identifiers))


def test_page_loads_nothing_from_elsewhere(page: str) -> None:
    parsed = Page(page)
    for tag, attrs in parsed.elements:
        assert tag not in ("link", "iframe", "object", "base")
        assert "href" not in attrs
        assert (attrs.get("src") or "data:image/png;base64,").startswith("data:image/png;base64,")
    (style,) = parsed.of("style")
    assert "url(" not in style
    assert "@import" not in style
    policies = [attrs["content"] for tag, attrs in parsed.elements if "http-equiv" in attrs]
    assert policies
    assert (policies[0] or "").startswith("default-src 'none'")


def test_page_shows_labels_as_they_are(results: Results, page: str) -> None:
    parsed = Page(page)
    scripts = [text for text in parsed.of("script") if text.strip()]
    # Plotly, the figure, and what puts the two together: no script came from a label.
    assert len(scripts) == 3
    assert "<script>alert" not in page
    shown = parsed.shown()
    for simulation in results.simulations:
        assert simulation.variant.label in shown


def test_json_on_the_page_can_be_read(results: Results, page: str) -> None:
    parsed = Page(page)
    (figure,) = parsed.of("script", type="application/json")
    names = [trace["name"] for trace in json.loads(figure)["data"]]
    assert names[1::2][2] == "_alone"
    parts = [name.replace("<br>", " ") for name in names[6:]]
    assert parts == [f"{name}, without communication" for name in names[1:4:2]]
    spec = json.loads("".join(parsed.of("pre")))
    assert spec == json.loads(json.dumps(results.summary()["spec"]))


def test_page_has_the_numbers_of_the_summary(results: Results, page: str) -> None:
    shown = Page(page).shown()
    for variant in results.summary()["variants"]:
        assert f"{variant['regret']['total']['mean']:,.0f}" in shown
    for word in ("fidelity", "phase", "exploration, communication", "decision slot", "capped"):
        assert word in shown
    assert f"Seed {results.experiment.seed};" in shown


def test_page_falls_back_to_an_image(page: str) -> None:
    parsed = Page(page)
    (picture,) = (attrs for tag, attrs in parsed.elements if tag == "img")
    assert (picture["alt"] or "").startswith("Curves of total regret against slot")
    assert any(tag == "noscript" for tag, _ in parsed.elements)


def test_page_takes_images_that_were_drawn_already(results: Results) -> None:
    assert "data:image/png;base64,cmVhZHk=" in report_html(results, images={"regret.png": b"ready"})


def test_page_of_the_same_results_is_the_same(results: Results, page: str) -> None:
    assert report_html(results) == page


def test_page_of_one_replication_claims_nothing() -> None:
    shown = Page(report_html(run(replications=1))).shown()
    assert "how much of it is chance cannot be said" in shown
    assert "clearly" not in shown.split("Regret over time")[0]
    assert "±" not in shown


def test_page_says_when_a_difference_is_not_clear() -> None:
    # One pull a phase more makes hardly a difference, ten times as many do, and c is a.
    variants = [
        Variant(label=label, problem=GAME, algorithm=Fed2Ucb(pulls=pulls, admissions="2^p"))
        for label, pulls in (("a", 40), ("b", 41), ("c", 40), ("d", 400))
    ]
    results = Experiment(title="close", variants=variants, horizon=5_000, replications=20).run()
    totals = {s.variant.label: s.outcome.total for s in results.simulations}
    opening = Page(report_html(results)).shown().split("Regret over time")[0]
    difference = totals["b"] - totals["a"]
    error = float(difference.std(ddof=1)) / math.sqrt(20)
    assert abs(float(difference.mean())) <= 2 * error, "pick two that are closer"
    assert "Not clearly different from it, within 2 standard errors" in opening
    assert "had exactly as much" in opening
    assert "clearly had" in opening


def test_page_tells_problems_apart() -> None:
    city = CognitiveRadio.example(3)
    given_clients = Exact(
        local_means=[[0.2, 0.9], [0.7, 0.4]], noise=Gaussian(0.5), name="two & two"
    )
    results = Experiment(
        title="several problems",
        variants=[
            Variant(label="radio", problem=city, algorithm=Fed1Ucb(pulls=20, clients=5)),
            Variant(label="given", problem=given_clients, algorithm=Fed1Ucb(pulls=20)),
            Variant(label="slots", problem=given_clients, algorithm=Ucb1()),
        ],
        horizon=500,
        replications=2,
    ).run()
    parsed = Page(report_html(results))
    shown = parsed.shown()
    assert "Problem “two & two”." in shown
    assert "never settled on an arm, by design" in shown
    assert "12 km × 9 km, base station at (6, 4.5)" in shown
    pictures = [attrs["alt"] for tag, attrs in parsed.elements if tag == "img"]
    assert pictures[1:] == ["Maps of the availability of 3 channels."]


def test_radio_problems_of_one_place_share_a_map(tmp_path: Path) -> None:
    city = CognitiveRadio.example(2)
    problems = {
        "users": city,
        "station": replace(city, listener="base-station", name="station"),
        "elsewhere": replace(city, base_station=(0.0, 0.0), name="elsewhere"),
    }
    rule = Fed1Ucb(pulls=5, clients=2)
    results = Experiment(
        title="one place, and another",
        variants=[Variant(label=k, problem=p, algorithm=rule) for k, p in problems.items()],
        horizon=50,
        replications=2,
    ).run()
    results.write(tmp_path)
    assert sorted(file.name for file in tmp_path.glob("map*")) == ["map-2.png", "map.png"]
    parsed = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    pictures = [attrs["src"] for tag, attrs in parsed.elements if tag == "img"]
    drawn_maps = [(tmp_path / name).read_bytes() for name in ("map.png", "map-2.png")]
    assert drawn_maps[0] != drawn_maps[1]
    assert [b64decode((source or "").partition(",")[2]) for source in pictures[1:]] == drawn_maps
    assert "The map is that of “problem”, above." in parsed.shown()
