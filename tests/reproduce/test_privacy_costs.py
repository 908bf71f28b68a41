"""What privacy costs: the table, its figure, and what the documentation says of it."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest

from fedbandits.report.chart import NORMAL_95, Plot
from fedbandits.report.still import still
from fedbandits.reproduce.privacy_costs import (
    BITS,
    BITS_PANEL,
    EPSILON,
    EPSILONS,
    GROWTH,
    HORIZONS,
    PART,
    privacy_costs_chart,
    privacy_costs_html,
)
from fedbandits.simulation.tables import Table
from repository import DOCS

GAMES = 20


@pytest.fixture(scope="module")
def costs() -> Any:
    return PART.compute(games=GAMES, workers=1)


def curve(costs: Table, panel: str, scheme: str, column: str) -> list[float]:
    return [
        value
        for at, curve_of, value in zip(costs["panel"], costs["scheme"], costs[column], strict=True)
        if (at, curve_of) == (panel, scheme)
    ]


def test_every_setting_has_a_row(costs: Table) -> None:
    for kind in ("gaussian", "laplace"):
        assert curve(costs, EPSILON, f"{kind} noise", "x") == list(EPSILONS)
    assert curve(costs, BITS_PANEL, "stochastic rounding", "x") == list(BITS)
    assert curve(costs, GROWTH, "gaussian noise", "x") == list(HORIZONS)
    assert sum(costs["replications"]) == PART.replications(GAMES)
    assert not any(costs["wrong"])
    assert not any(costs["undecided"])


def test_less_privacy_and_more_bits_cost_less(costs: Table) -> None:
    for panel, scheme in (
        (EPSILON, "gaussian noise"),
        (EPSILON, "laplace noise"),
        (BITS_PANEL, "stochastic rounding"),
        (BITS_PANEL, "nearest rounding"),
    ):
        ratios = curve(costs, panel, scheme, "ratio")
        errors = curve(costs, panel, scheme, "ratio_stderr")
        for (before, after), error in zip(pairwise(ratios), errors, strict=False):
            assert after < before + 4 * error
        assert ratios[-1] < 1.1 < ratios[0] + 4 * errors[0]


def test_the_order_of_the_regret_is_unchanged(costs: Table) -> None:
    ratios = curve(costs, GROWTH, "gaussian noise", "ratio")
    errors = curve(costs, GROWTH, "gaussian noise", "ratio_stderr")
    # The same multiple at every horizon, four powers of ten apart.
    assert abs(ratios[-1] - ratios[0]) < 4 * (errors[0] ** 2 + errors[-1] ** 2) ** 0.5


def test_the_figure_shows_every_row_and_the_table_repeats_it(costs: Table) -> None:
    chart = privacy_costs_chart(costs)
    assert len(chart.panels) == 3
    plots = [panel for panel in chart.panels if isinstance(panel, Plot)]
    marked = sum(len(one.x) for plot in plots for one in plot.series if one.mark)
    # All but the unprotected one, which is a line across the first two panels.
    assert marked == len(costs["panel"]) - 1
    plain = costs["regret"][costs["panel"].index("")]
    for plot in plots[:2]:
        assert plot.series[-1].y == [plain, plain]
    assert still(chart)[:4] == b"\x89PNG"
    page = privacy_costs_html(costs)
    not_growth = [i for i, panel in enumerate(costs["panel"]) if panel != GROWTH]
    assert len(re.findall('<th scope="row">', page)) == len(not_growth)
    for i in not_growth:
        shown = f"{costs['regret'][i]:,.0f} ± {NORMAL_95 * costs['stderr'][i]:,.0f}"
        assert shown in page


def test_what_the_documentation_says_of_it_holds(costs: Table) -> None:
    page = (DOCS / "privacy.md").read_text(encoding="utf-8")
    said = " ".join(page.split())
    assert "Laplace noise is cheaper than Gaussian noise" in said
    gaussian = curve(costs, EPSILON, "gaussian noise", "regret")
    laplace = curve(costs, EPSILON, "laplace noise", "regret")
    assert all(one < other for one, other in zip(laplace[:3], gaussian[:3], strict=True))
    assert "Stochastic rounding to 6 bits costs next to nothing" in said
    six = curve(costs, BITS_PANEL, "stochastic rounding", "ratio")[BITS.index(6)]
    assert six < 1.05
