"""What each rule costs: the table, its bars, and the numbers that the README repeats."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from matplotlib.patches import Rectangle

from fedbandits.experiments.figures import image
from fedbandits.experiments.tables import Table
from fedbandits.reproduce.rule_costs import (
    PART,
    REPLICATIONS,
    rule_costs_figure,
    rule_costs_html,
    ruled_games,
)

# What its tests share is made once.
pytestmark = pytest.mark.xdist_group("costs of rules")

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def costs() -> Any:
    return PART.make(workers=1)


def regret(costs: Table, game: str, rule: str) -> float:
    (row,) = (
        i
        for i, key in enumerate(zip(costs["game"], costs["rule"], strict=True))
        if key == (game, rule)
    )
    return float(costs["regret"][row])


def test_the_readme_repeats_the_table(costs: Table) -> None:
    rows = {
        "paper": "`paper`, constants 6",
        "joint": "`joint`",
        "pairwise": "`pairwise`",
        "authors' tuned constants": "authors' tuned constants",
        "certified": "`certified`, δ = 1/T",
        "certified, weighted": "the same, inverse-variance weights",
    }
    for rule, words in rows.items():
        (line,) = re.findall(rf"^\| {re.escape(words)} \| (.*?) \| (.*?) ?\|", README, re.M)
        assert line[0] == f"{regret(costs, 'fig4', rule):,.0f}"
        if line[1]:
            assert line[1] == f"{regret(costs, 'fig3', rule):,.0f}"
    assert f"over {REPLICATIONS:,} games" in README


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
    assert len(costs["rule"]) == sum(len(game.algorithms) for game in ruled_games())
    assert html.count('<th scope="row">') == len(costs["rule"])
    assert "none: its constants are below the 6" in html
    assert "at most 1e-06 (1/T)" in html


def test_the_figure_has_a_bar_for_every_rule(costs: Table) -> None:
    figure = rule_costs_figure(costs)
    patches = [patch for axes in figure.axes for patch in axes.patches]
    assert [bar.get_width() for bar in patches if isinstance(bar, Rectangle)] == costs["regret"]
    assert image(figure).startswith(b"\x89PNG")


def test_a_quick_look_takes_no_more_games_than_asked() -> None:
    quick = PART.make(games=3, workers=1)
    assert set(quick["replications"]) == {3}
    assert PART.replications(3) == 3 * len(quick["rule"])
