"""Charts as plain values, and what print shows of them."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.font_manager import fontManager
from matplotlib.patches import Rectangle

from drawn_runs import NASTY, Page, curves, drawn, plot_of
from every_chart import KINDS, LINE
from fedbandits.experiments.availability import availability_figure
from fedbandits.experiments.results import Results
from fedbandits.problems import CognitiveRadio, best_arm
from fedbandits.report.chart import Axis, Chart, Heat, Plot, Series
from fedbandits.report.page import chart_data, html_page, live_chart
from fedbandits.report.palette import PALETTE
from fedbandits.report.still import figure_of, still, write_still
from fedbandits.simulation.charts import regret_charts

# Regret on the page


def test_a_chart_becomes_plain_values_and_back(results: Results) -> None:
    made = chart_data(regret_charts(results.curves(), "title"))
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    assert list(made["views"]) == ["total", "exploration", "communication"]
    # All variants share their slots, which are there once.
    (slots,) = made["xs"]
    assert slots[0] == 0
    for view in made["views"].values():
        (panel,) = view["panels"]
        assert [one["x"] for one in panel["series"]] == [0, 0, 0]
        assert all(one["y"][0] == 0 for one in panel["series"])


def test_intervals_of_a_chart_are_1_96_standard_errors() -> None:
    (line,) = plot_of(regret_charts(curves({"a": 8.0}), "")["total"]).series
    assert line.y == [0, 2, 4, 8]
    assert line.half == pytest.approx([0, 1.96, 1.96, 1.96])
    low, high = line.interval() or ([], [])
    assert low == pytest.approx([0, 0.04, 2.04, 6.04])
    assert high == pytest.approx([0, 3.96, 5.96, 9.96])


def test_what_is_shown_by_buttons_has_the_same_names_and_colours() -> None:
    charts = regret_charts(curves({"a": 10.0, "b": 20.0}, cost=4.0), "")
    for regret, ends in {
        "total": [10, 20],
        "exploration": [6, 16],
        "communication": [4, 4],
    }.items():
        plot = plot_of(charts[regret])
        assert [one.y[-1] for one in plot.series] == ends
        assert [(one.label, one.colour) for one in plot.series] == [
            ("a", PALETTE[0]),
            ("b", PALETTE[1]),
        ]
        assert "total over clients" in plot.y.label


def test_names_are_text_wherever_they_come_from() -> None:
    line = Series(label=NASTY, x=[1, 2], y=[1.0, 2.0], colour="#0072B2")
    chart = Chart(name="demo", panels=[Plot(x=Axis(label=NASTY), y=Axis(), series=[line])])
    page = html_page(
        title=NASTY,
        byline="",
        sections=[("one", live_chart("demo", chart, alt=NASTY, caption=""))],
    )
    assert "<script>alert" not in page
    (data,) = Page(page).of("script", type="application/json")
    (panel,) = json.loads(data)["views"][""]["panels"]
    assert panel["series"][0]["label"] == panel["x"]["label"] == NASTY


# Every kind of panel


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_panel_is_drawn_and_is_plain(kind: str) -> None:
    chart = KINDS[kind]
    assert still(chart).startswith(b"\x89PNG")
    made = chart_data({"": chart})
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    assert [panel["kind"] for panel in made["views"][""]["panels"]] == [kind] * len(chart.panels)


def test_print_shows_what_a_plot_holds() -> None:
    figure = drawn(figure_of(KINDS["plot"]))
    axes = figure.axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "linear")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("clients, logarithmic", "chance")
    assert {"here", "there", "both"} <= {text.get_text() for text in axes.texts}
    # Nothing is cut off, what stands beside its place included.
    assert axes.get_ylim()[0] == 0
    assert axes.get_ylim()[1] >= 0.9
    assert "20 %" in [label.get_text() for label in axes.get_yticklabels()]
    (key,) = figure.legends
    assert [text.get_text() for text in key.get_texts()] == ["line", "dots", "band", "steps"]


def test_print_shows_what_rows_hold() -> None:
    dots, bars = drawn(figure_of(KINDS["rows"])).axes
    names = [label.get_text() for label in dots.get_yticklabels()]
    assert names == ["arm 0  (left)", "arm 1  (left)", "arm 2  (left)"]
    values = [np.asarray(line.get_xdata()).tolist() for line in dots.lines]
    assert values == [[0], [-1, 2], [1], [0, 3], [2], [1, 4]]
    (bar,) = bars.patches
    assert isinstance(bar, Rectangle)
    assert bar.get_width() == 5
    assert [text.get_text() for text in bars.texts] == ["5"]


def test_print_shows_what_a_map_holds() -> None:
    axes, bar = drawn(figure_of(KINDS["heat"])).axes
    shown = axes.images[0].get_array()
    assert shown is not None
    assert shown.shape == (2, 3)
    assert [text.get_text() for text in axes.texts] == ["here", "2", "4", "30", "3"]
    assert bar.get_ylabel() == "regret, logarithmic"
    assert bar.get_yticks()[0] == 1.0


@pytest.fixture
def few_fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the machine have no font but those that come with Matplotlib."""
    shipped = [one for one in fontManager.ttflist if "matplotlib" in one.fname]
    monkeypatch.setattr(fontManager, "ttflist", shipped)


@pytest.mark.usefixtures("few_fonts")
def test_letters_that_the_font_does_not_have_are_a_note(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    line = replace(LINE, label="北京 🚀")
    plot = Plot(x=Axis(label="客户"), y=Axis(), series=[line])
    chart = Chart(name="demo", panels=[plot], title="标题", legend="ends")
    assert write_still(chart, tmp_path, "regret")
    (said,) = caplog.messages
    for text in ("北京 🚀", "客户", "标题"):
        assert f'"{text}"' in said
    assert "regret.png shows boxes" in said
    caplog.clear()
    write_still(KINDS["plot"], tmp_path, "plot")
    assert caplog.messages == []


def font_with(letters: str, path: Path) -> None:
    """Write a font that draws each of some letters as a black square."""
    pen: Any = import_module("fontTools.pens.ttGlyphPen").TTGlyphPen(None)
    pen.moveTo((100, 0))
    for corner in ((100, 800), (900, 800), (900, 0)):
        pen.lineTo(corner)
    pen.closePath()
    names = [".notdef", *(f"u{ord(letter):X}" for letter in letters)]
    builder: Any = import_module("fontTools.fontBuilder").FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder(names)
    builder.setupCharacterMap(dict(zip(map(ord, letters), names[1:], strict=True)))
    square = pen.glyph()
    builder.setupGlyf(dict.fromkeys(names, square))
    builder.setupHorizontalMetrics(dict.fromkeys(names, (1000, 100)))
    builder.setupHorizontalHeader(ascent=900, descent=-100)
    builder.setupNameTable({"familyName": "Squares", "styleName": "Regular", "psName": "Squares"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(path)


@pytest.mark.usefixtures("few_fonts")
def test_letters_are_drawn_in_an_installed_font_that_has_them(
    tmp_path: Path, recwarn: pytest.WarningsRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    plot = Plot(x=Axis(label="客户"), y=Axis(), series=[replace(LINE, label="北京 🚀")])
    chart = Chart(name="demo", panels=[plot], legend="ends")
    write_still(chart, tmp_path, "boxes")
    caplog.clear()
    font_with("客户北京🚀", tmp_path / "squares.ttf")
    fontManager.addfont(tmp_path / "squares.ttf")
    write_still(chart, tmp_path, "squares")
    assert caplog.messages == []
    assert b"Squares" in (tmp_path / "squares.pdf").read_bytes()
    assert b"Squares" not in (tmp_path / "boxes.pdf").read_bytes()
    assert [str(one.message) for one in recwarn if "Glyph" in str(one.message)] == []


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


def test_print_and_page_write_the_same_numbers_into_a_map() -> None:
    (heat,) = KINDS["heat"].panels
    assert isinstance(heat, Heat)
    # To six digits the first is 479.5, and browsers round halves up.
    made = replace(heat, values=[[479.4999999, 430.5, math.nan], [1234.5, 0.0125, 3.0]], best=[])
    chart = Chart(name="map", panels=[made])
    (panel,) = chart_data({"": chart})["views"][""]["panels"]
    assert panel["cells"] == [["479", "430", ""], ["1,230", "0.0125", "3"]]
    axes = figure_of(chart).axes[0]
    assert [text.get_text() for text in axes.texts] == ["479", "430", "1,230", "0.0125", "3"]
