"""How regret grows with the horizon: what is fitted, how sure it is, and what is drawn."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex

from fedbandits.experiments.figures import colours
from fedbandits.experiments.tables import Table
from fedbandits.reproduce import scaling
from fedbandits.reproduce.scaling import (
    CAPTION,
    HORIZONS,
    PART,
    SCHEDULES,
    fit_growth,
    growth_of,
    growth_table,
    scaling_figure,
    scaling_page_figure,
)
from fedbandits.rules.arrays import FloatArray


def totals(rng: np.random.Generator, n: int = 200, *, shared: bool = True) -> dict[int, FloatArray]:
    """Return regrets of 500 log T on average; a replication's luck is the same at all horizons."""
    luck = rng.normal(0.0, 0.2, (n, 1))
    own = rng.normal(0.0, 0.02 if shared else 0.2, (n, len(HORIZONS)))
    factors = 1 + (luck if shared else 0.0) + own
    return {t: 500 * math.log(t) * factors[:, i] for i, t in enumerate(HORIZONS)}


def test_exponent_and_slope_are_those_of_the_means() -> None:
    exact = {t: np.array([1.0, 3.0]) * 250 * math.log(t) for t in HORIZONS}
    found = fit_growth(exact, seed=1)
    assert found is not None
    assert found.exponent == pytest.approx(1)
    assert found.slope == pytest.approx(500)
    # A replication that has thrice the regret at every horizon changes the slope alone.
    assert (found.exponent_low, found.exponent_high) == pytest.approx((1, 1))
    assert (found.slope_low, found.slope_high) == pytest.approx((250, 750))


@pytest.mark.parametrize("shared", [True, False])
def test_the_intervals_hold_the_truth_in_95_of_100_cases(shared: bool) -> None:
    rng = np.random.default_rng(7)
    held, widths, found = [], [], []
    for seed in range(300):
        growth = fit_growth(totals(rng, shared=shared), seed=seed, resampled=500)
        assert growth is not None
        held.append(
            (
                growth.exponent_low <= 1 <= growth.exponent_high,
                growth.slope_low <= 500 <= growth.slope_high,
            )
        )
        widths.append(growth.exponent_high - growth.exponent_low)
        found.append(growth.exponent)
    # 95 %, with the error of counting 300, and the percent that a percentile interval loses.
    for share in np.mean(held, axis=0).tolist():
        assert 0.94 - 4 * math.sqrt(0.95 * 0.05 / 300) < share < 0.95 + 4 * 0.0126
    # As wide as what differs from one seed to another.
    assert np.mean(widths) == pytest.approx(2 * 1.96 * np.std(found), rel=0.2)


def test_few_horizons_are_not_fitted() -> None:
    few = dict(list(totals(np.random.default_rng(1)).items())[:2])
    assert fit_growth(few, seed=1) is None


@pytest.fixture(scope="module")
def table() -> Any:
    return PART.make(games=40, workers=1)


def test_the_table_holds_what_is_fitted_over_decided_horizons(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert json.loads(json.dumps(table, allow_nan=False)) == table
    for schedule in SCHEDULES:
        growth = growth_of(table, schedule.table, schedule.label)
        assert growth is not None
        rows = [
            row
            for row, key in enumerate(zip(table["table"], table["schedule"], strict=True))
            if key == (schedule.table, schedule.label)
        ]
        decided = [row for row in rows if table["undecided"][row] <= 0.01]
        logs = np.log([table["horizon"][row] for row in decided])
        means = np.array([table["mean"][row] for row in decided])
        assert growth.exponent == pytest.approx(np.polyfit(np.log(logs), np.log(means), 1)[0])
        assert growth.slope == pytest.approx(np.polyfit(logs, means, 1)[0])
        assert growth.exponent_low < growth.exponent < growth.exponent_high
        assert growth.slope_low < growth.slope < growth.slope_high
    # Nothing is fitted again from the means.
    monkeypatch.setattr(scaling, "fit_growth", None)
    assert growth_of(table, 2, "f = 10, g = 2^p") is not None


def test_replications_of_a_horizon_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[int, FloatArray]] = []

    def watched(totals: dict[int, FloatArray], *, seed: int) -> None:
        given.append(totals)

    monkeypatch.setattr(scaling, "fit_growth", watched)
    made = PART.make(games=5, workers=1)
    assert set(made["exponent"]) == {None}
    assert len(given) == len(SCHEDULES)
    assert {total.shape for totals in given for total in totals.values()} == {(5,)}
    # Doubling cohorts: all horizons decide, and a replication has its luck at each of them.
    whole = np.stack(list(given[3].values()))
    assert len(whole) == len(HORIZONS)
    assert np.asarray(np.corrcoef(whole[-2:]))[0, 1] > 0.5


def test_every_horizon_is_drawn_and_undecided_ones_are_hollow(table: Table) -> None:
    undecided = sum(part > 0.01 for part in table["undecided"])
    assert undecided >= 7
    hollow = filled = 0
    for axes in scaling_figure(table).axes:
        for line in axes.lines:
            if line.get_marker() in ("o", "s", "^", "D", "v"):
                points = int(np.isfinite(np.asarray(line.get_ydata(), dtype=float)).sum())
                if to_hex(line.get_markerfacecolor()) == "#ffffff":
                    hollow += points
                else:
                    filled += points
        assert min(float(np.min(line.get_xdata())) for line in axes.lines) == 1_000
    assert (hollow, filled) == (undecided, len(table["horizon"]) - undecided)
    assert "Hollow" in CAPTION
    assert "rising: faster than log T" in CAPTION


def test_the_page_draws_every_horizon_too(table: Table) -> None:
    figure = scaling_page_figure(table)
    assert json.loads(json.dumps(figure, allow_nan=False)) == figure
    traces = figure["data"]
    assert len(traces) == 2 * len(SCHEDULES)
    for whole, decided in zip(traces[::2], traces[1::2], strict=True):
        assert whole["legendgroup"] == decided["legendgroup"]
        assert whole["showlegend"] is False
        assert None not in whole["y"]
        assert whole["x"] == decided["x"]
        for place, value in enumerate(decided["y"]):
            open_here = value is None
            assert (whole["marker"]["size"][place] > 0) == open_here
            assert ("undecided" in whole["hovertemplate"][place]) == open_here
            assert open_here or value == whole["y"][place]


def test_exponents_and_slopes_stand_in_a_table(table: Table) -> None:
    text = growth_table(table)
    for schedule in SCHEDULES:
        growth = growth_of(table, schedule.table, schedule.label)
        assert growth is not None
        assert schedule.label in text
        assert f"<td>{growth.exponent:.2f} <small>{growth.exponent_low:.2f} to" in text
        assert f"<td>{growth.slope:,.0f} <small>{growth.slope_low:,.0f} to" in text
    assert "<td>6 of 7</td>" in text


def test_schedules_have_the_hue_of_their_algorithm(table: Table) -> None:
    left, right = scaling_figure(table).axes
    for axes, algorithm, number in ((left, "fed2-ucb", 5), (right, "fed1-ucb", 4)):
        given_out = set(colours([str(n) for n in range(number)], [algorithm] * number).values())
        assert {to_hex(line.get_color()).upper() for line in axes.lines} == given_out
