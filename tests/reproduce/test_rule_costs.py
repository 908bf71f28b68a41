"""What each rule costs: the table, its bars, and the numbers that the documentation repeats."""

from __future__ import annotations

import re
from typing import Any

import pytest

from documentation import section, text_of
from fedbandits.report.chart import Rows
from fedbandits.report.still import still
from fedbandits.reproduce.rule_costs import (
    PART,
    rule_costs_chart,
    rule_costs_html,
    ruled_games,
)
from fedbandits.simulation.tables import Table

TOLD = section(text_of("rules.md"), "What it saves")


@pytest.fixture(scope="module")
def costs() -> Any:
    return PART.compute(workers=1)


def regret(costs: Table, game: str, rule: str) -> float:
    (row,) = (
        i
        for i, key in enumerate(zip(costs["game"], costs["rule"], strict=True))
        if key == (game, rule)
    )
    return float(costs["regret"][row])


def test_the_documentation_repeats_the_table(costs: Table) -> None:
    rows = {
        "paper": "`paper`, constants 6",
        "joint": "`joint`",
        "pairwise": "`pairwise`",
        "authors' tuned constants": "authors' tuned constants",
        "certified": "`certified`, δ = 1/T",
        "certified, weighted": "the same, inverse-variance weights",
    }
    for rule, words in rows.items():
        (line,) = re.findall(rf"^\| {re.escape(words)} \| (.*?) \| (.*?) ?\|", TOLD, re.M)
        assert line[0] == f"{regret(costs, 'fig4', rule):,.0f}"
        if line[1]:
            assert line[1] == f"{regret(costs, 'fig3', rule):,.0f}"
    assert f"over {ruled_games()['fig4'].replications:,} games" in " ".join(TOLD.split())


def test_sharper_rules_beat_the_tuned_constants_and_lose_no_best_arm(costs: Table) -> None:
    for game in ("fig4", "fig3"):
        tuned = regret(costs, game, "authors' tuned constants")
        assert regret(costs, game, "certified") < tuned < regret(costs, game, "paper")
    assert regret(costs, "fig4", "certified") <= 12_900
    assert regret(costs, "fig4", "certified, weighted") <= 10_900
    assert regret(costs, "fig3", "certified") <= 6_100
    assert set(costs["lost"]) == {0}


def test_rules_for_rates_are_sharper_than_a_sigma_of_one_half(costs: Table) -> None:
    assert regret(costs, "rates", "bernstein") < regret(costs, "rates", "certified") / 2
    for rule in ("bernstein", "chernoff"):
        cost = regret(costs, "given-rates", rule)
        assert cost < regret(costs, "given-rates", "certified") / 4


def test_every_rule_stands_with_its_guarantee(costs: Table) -> None:
    html = rule_costs_html(costs)
    assert len(costs["rule"]) == sum(len(game.variants) for game in ruled_games().values())
    assert html.count('<th scope="row">') == len(costs["rule"])
    assert "none: its constants are below 6" in html
    assert "at most 1e-06 (1/T)" in html


def test_the_figure_has_a_bar_for_every_rule(costs: Table) -> None:
    chart = rule_costs_chart(costs)
    panels = [panel for panel in chart.panels if isinstance(panel, Rows)]
    assert all(panel.bars for panel in panels)
    rows = [row for panel in panels for row in panel.rows]
    assert [row.value for row in rows] == costs["regret"]
    assert len({row.colour for row in rows}) == 2
    assert still(chart).startswith(b"\x89PNG")


def test_a_quick_look_takes_no_more_games_than_asked() -> None:
    quick = PART.compute(games=3, workers=1)
    assert set(quick["replications"]) == {3}
    assert PART.replications(3) == 3 * len(quick["rule"])
