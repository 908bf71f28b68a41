"""What is drawn of a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedbandits.report.chart import Plot
from fedbandits.report.still import figure_of
from fedbandits.sweeps.charts import sweep_chart
from sweep_files import (
    BASE,
    GRID,
    chart_of,
    maps_of,
    run,
)

# Pictures -----------------------------------------------------------------------------------------


def test_one_key_is_drawn_as_lines_with_bands(tmp_path: Path) -> None:
    results = run({"problem.spread.sigma": [0.05, 0.1, 0.2]}, tmp_path)
    (plot,) = chart_of(results).panels
    assert isinstance(plot, Plot)
    assert plot.x.label == "spread of clients σ_c (spread.sigma)"
    doubling, alone = plot.series
    assert (doubling.label, alone.label) == ("doubling", "alone")
    assert doubling.x == [0.05, 0.1, 0.2]
    assert doubling.band
    summary = results.summary()["cells"][2]["regret"]["total"]
    assert doubling.half is not None
    assert (doubling.y[1], doubling.half[1]) == (summary["mean"], 1.96 * summary["stderr"])


def test_two_keys_are_drawn_as_a_map_with_the_best_of_every_condition(tmp_path: Path) -> None:
    results = run({**GRID, "variants.pulls": ["5", "10", "20", "40"]}, tmp_path)
    doubling, alone = maps_of(results)
    assert doubling.x.label == "spread of clients σ_c (spread.sigma)"
    assert doubling.y.label == "pulls f(p)"
    assert doubling.label == "regret, as a multiple of the best choice's"
    assert (doubling.title, alone.title) == ("doubling", "alone (no pulls)")
    both = np.array([doubling.values, alone.values])
    assert (both.min(axis=(0, 1)) == 1.0).all()
    marked = {column for panel in (doubling, alone) for _, column in panel.best}
    assert marked == {0, 1, 2}
    for panel in (doubling, alone):
        assert all(panel.values[row][column] == 1.0 for row, column in panel.best)


def test_a_variant_that_the_map_does_not_touch_has_its_star_in_the_title(tmp_path: Path) -> None:
    results = run({"variants.pulls": ["5", "10"], "variants.admissions": ["1", "2"]}, tmp_path)
    doubling, alone = maps_of(results)
    means = [total.mean() for total in results.totals()]
    best_is_alone = results.cells[int(np.argmin(means))].label == "alone"
    same = "alone (no pulls or admissions: the same everywhere)"
    assert alone.title == (f"{same} ★" if best_is_alone else same)
    assert alone.best == []
    assert bool(doubling.best) != best_is_alone


def test_three_keys_are_drawn_as_small_multiples(tmp_path: Path) -> None:
    results = run(
        {**GRID, "variants.admissions": ["2^p", "5", "10"]},
        tmp_path,
        variants=[BASE["variants"][0]],
    )
    maps = maps_of(results)
    assert chart_of(results).columns == 2
    assert [panel.title for panel in maps] == ["pulls = 10", "pulls = 20"]
    assert np.array(maps[0].values).shape == (3, 3)
    assert not np.isnan(np.array(maps[0].values)).any()


def test_four_keys_are_not_drawn(tmp_path: Path) -> None:
    grid = {**GRID, "variants.admissions": ["2^p"], "communication_cost": [1.0]}
    results = run(grid, tmp_path)
    assert sweep_chart(results) is None
    # A picture of another sweep would be taken for one of this.
    run({"problem.spread.sigma": [0.05, 0.1]}, tmp_path).write(tmp_path / "out")
    assert (tmp_path / "out" / "sweep.png").exists()
    results.write(tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "replications.parquet",
        "report.html",
        "summary.json",
    }
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "There is no chart: 4 keys" in page


SIGMA = "spread of clients σ_c (spread.sigma)"
ZIPPED = {"variants.pulls": ["5", "9"], "problem.spread.sigma": [0.1, 0.2], "combine": "zip"}


@pytest.mark.parametrize(
    ("grid", "maps", "across_and_up", "ticks"),
    [
        ({"problem.spread.sigma": [0.05, 0.1, 0.2]}, 0, [SIGMA], None),
        (
            {"variants.admissions": ["2^p", "5"]},
            0,
            ["new clients g(p) (admissions)"],
            ["2^p", "5"],
        ),
        (ZIPPED, 0, [f"pulls f(p), {SIGMA}"], ["5, 0.1", "9, 0.2"]),
        (GRID, 2, [SIGMA, "pulls f(p)"], ["0.05", "0.1", "0.2"]),
        (
            {**GRID, "horizon": [10_000, 15_000, 20_000]},
            4,
            ["horizon T", SIGMA],
            ["10,000", "15,000", "20,000"],
        ),
    ],
)
def test_what_fits_is_drawn(
    tmp_path: Path,
    grid: dict[str, Any],
    maps: int,
    across_and_up: list[str],
    ticks: list[str] | None,
) -> None:
    figure = figure_of(chart_of(run(grid, tmp_path, replications=3)))
    figure.canvas.draw()
    if not maps:
        (axes,) = figure.axes
        assert [line.get_label() for line in axes.get_lines()] == ["doubling", "alone"]
        assert len(axes.collections) == 2  # a band a line
        assert axes.get_ylabel() == "mean total regret, with 95 % bands, logarithmic"
        assert [axes.get_xlabel()] == across_and_up
    else:
        *drawn, bar = figure.axes
        assert [len(axes.images) for axes in drawn] == [1] * maps
        axes = drawn[-2 if maps == 4 else -1]  # below, at the left
        assert [axes.get_xlabel(), axes.get_ylabel()] == across_and_up
        assert bar.get_ylabel() in {
            "regret, as a multiple of the best choice's, logarithmic",
            "mean total regret, logarithmic",
        }
    if ticks is not None:
        assert [text.get_text() for text in axes.get_xticklabels()] == ticks
    assert figure.get_suptitle() == "demo"


def test_maps_label_their_last_row_and_colours_begin_at_the_best(tmp_path: Path) -> None:
    pulls = [str(number) for number in range(5, 29)]
    grid = {"variants.pulls": pulls, "problem.spread.sigma": [0.05, 0.1]}
    chart = chart_of(run(grid, tmp_path, replications=3, variants=[BASE["variants"][0]]))
    figure = figure_of(chart)
    figure.canvas.draw()
    axes, bar = figure.axes
    labels = [text.get_text() for text in axes.get_yticklabels()]
    assert labels[-1] == pulls[-1]
    assert len(labels) in range(8, 21)
    assert bar.get_yticks()[0] == 1.0
