"""How regret grows with the horizon: what is fitted, how sure it is, and what is drawn."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from fedbandits.report.chart import Plot
from fedbandits.report.palette import colours
from fedbandits.reproduce import scaling
from fedbandits.reproduce.scaling import (
    HORIZONS,
    PART,
    SCHEDULES,
    TabledSchedule,
    fit_growth,
    growth_table,
    scaling_chart,
)
from fedbandits.reproduce.texts import section_text
from fedbandits.rules.arrays import FloatArray
from fedbandits.simulation.tables import Table, rows_of


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
    assert found["exponent"] == pytest.approx(1)
    assert found["slope"] == pytest.approx(500)
    # A replication that has thrice the regret at every horizon changes the slope alone.
    assert (found["exponent_low"], found["exponent_high"]) == pytest.approx((1, 1))
    assert (found["slope_low"], found["slope_high"]) == pytest.approx((250, 750))


@pytest.mark.parametrize("shared", [True, False])
def test_the_intervals_hold_the_truth_in_95_of_100_cases(shared: bool) -> None:
    rng = np.random.default_rng(7)
    held, widths, found = [], [], []
    for seed in range(300):
        growth = fit_growth(totals(rng, shared=shared), seed=seed, resampled=500)
        assert growth is not None
        held.append(
            (
                growth["exponent_low"] <= 1 <= growth["exponent_high"],
                growth["slope_low"] <= 500 <= growth["slope_high"],
            )
        )
        widths.append(growth["exponent_high"] - growth["exponent_low"])
        found.append(growth["exponent"])
    # 95 %, with the error of counting 300, and the percent that a percentile interval loses.
    for share in np.mean(held, axis=0).tolist():
        assert 0.94 - 4 * math.sqrt(0.95 * 0.05 / 300) < share < 0.95 + 4 * 0.0126
    # As wide as what differs from one seed to another.
    assert np.mean(widths) == pytest.approx(2 * 1.96 * np.std(found), rel=0.2)


def test_few_horizons_are_not_fitted() -> None:
    few = dict(list(totals(np.random.default_rng(1)).items())[:2])
    assert fit_growth(few, seed=1) is None


def growth_of(table: Table, schedule: TabledSchedule) -> dict[str, Any]:
    """Return a row of a schedule: what is fitted is the same in all of them."""
    return rows_of(table, table=schedule.table, schedule=schedule.label)[0]


@pytest.fixture(scope="module")
def table() -> Any:
    return PART.compute(games=40, workers=1)


def test_the_table_holds_what_is_fitted_over_decided_horizons(table: Table) -> None:
    assert json.loads(json.dumps(table, allow_nan=False)) == table
    for schedule in SCHEDULES:
        growth = growth_of(table, schedule)
        rows = [
            row
            for row, key in enumerate(zip(table["table"], table["schedule"], strict=True))
            if key == (schedule.table, schedule.label)
        ]
        decided = [row for row in rows if table["undecided"][row] <= 0.01]
        logs = np.log([table["horizon"][row] for row in decided])
        means = np.array([table["mean"][row] for row in decided])
        assert growth["exponent"] == pytest.approx(np.polyfit(np.log(logs), np.log(means), 1)[0])
        assert growth["slope"] == pytest.approx(np.polyfit(logs, means, 1)[0])
        assert growth["exponent_low"] < growth["exponent"] < growth["exponent_high"]
        assert growth["slope_low"] < growth["slope"] < growth["slope_high"]


def test_replications_of_a_horizon_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[int, FloatArray]] = []

    def watched(totals: dict[int, FloatArray], *, seed: int) -> None:
        given.append(totals)

    monkeypatch.setattr(scaling, "fit_growth", watched)
    made = PART.compute(games=5, workers=1)
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
    for panel in scaling_chart(table).panels:
        assert isinstance(panel, Plot)
        for one in panel.series:
            known = [place for place, y in enumerate(one.y) if not math.isnan(y)]
            assert one.x[0] == 1_000 or one.x[0] == 10_000
            if one.hollow:
                hollow += len(known)
                assert all("undecided" in one.said[place] for place in known)
            elif one.mark:
                filled += len(known)
                assert one.label
            else:
                # The line behind goes through all of them.
                assert len(known) == len(one.x)
        assert min(one.x[0] for one in panel.series) == 1_000
        groups = {one.label for one in panel.series if one.label}
        assert {one.group for one in panel.series if not one.label} == groups
    assert (hollow, filled) == (undecided, len(table["horizon"]) - undecided)
    assert "Hollow" in section_text("scaling")
    assert "rising: faster than log T" in section_text("scaling")


def test_exponents_and_slopes_stand_in_a_table(table: Table) -> None:
    text = growth_table(table)
    for schedule in SCHEDULES:
        growth = growth_of(table, schedule)
        assert schedule.label in text
        assert "<td>{exponent:.2f} <small>{exponent_low:.2f} to".format_map(growth) in text
        assert "<td>{slope:,.0f} <small>{slope_low:,.0f} to".format_map(growth) in text
    assert "<td>6 of 7</td>" in text


def test_schedules_have_the_hue_of_their_algorithm(table: Table) -> None:
    left, right = scaling_chart(table).panels
    for panel, algorithm, number in ((left, "fed2-ucb", 5), (right, "fed1-ucb", 4)):
        assert isinstance(panel, Plot)
        given_out = set(colours([str(n) for n in range(number)], [algorithm] * number).values())
        assert {one.colour for one in panel.series} == given_out
