"""Plans for clients of whom some may lie."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import commands
import fedbandits as fb
from fedbandits.planning.charts import honesty_chart
from fedbandits.planning.honesty import SHARES, Price, fewest_clients, hidden, shown_prices
from fedbandits.planning.question import least_favourable
from fedbandits.report.chart import Plot
from plans import command
from repository import DOCS

_ASKED: dict[str, Any] = {"n_arms": 2, "gap": 0.2, "noise": 0.2, "spread": 0.1}
_WORDS = ("--arms", "2", "--gap", "0.2", "--noise", "0.2", "--spread", "0.1")


@cache
def priced() -> fb.Plan:
    return fb.plan(**_ASKED, liars=0.05, seed=3)


def test_allowing_for_more_liars_takes_more_clients_pulls_and_regret() -> None:
    plan = priced()
    assert tuple(price.liars for price in plan.honesty) == SHARES
    assert all(price.bearable for price in plan.honesty)
    fewest = [price.clients or 0 for price in plan.honesty]
    assert fewest == sorted(fewest)
    assert fewest[-1] > 1.5 * fewest[0] > 0
    outlooks = [price.outlook for price in plan.honesty]
    regrets = [one.regret.mean for one in outlooks if one is not None]
    pulls = [one.pulls_in_all.mean for one in outlooks if one is not None]
    assert len(regrets) == len(SHARES)
    # Up to 5 % so few clients are enough that none of them may lie.
    assert regrets[2:] == sorted(regrets[2:])
    assert pulls[-1] > 2 * pulls[0]
    assert regrets[-1] > 2 * regrets[0]
    # The row that was asked for is the plan itself, and that of nobody the plan without liars.
    assert outlooks[2] == plan.suggested
    assert outlooks[0] == fb.plan(**_ASKED, seed=3).suggested


def test_the_fewest_clients_are_those_of_games_that_were_played() -> None:
    """So many decide, and a tenth fewer do not: with the trimmed mean, and by other draws."""
    asked = least_favourable(n_arms=2, gap=0.2, noise=0.2, spread=0.1, liars=0.2)
    found = fewest_clients(asked, seed=1, workers=1)
    assert found is not None

    def decided(clients: int) -> float:
        look = fb.Fed2Ucb(pulls=10**6, admissions=clients, radius=asked.radius, liars=0.2)
        run = fb.simulate(
            asked.problem("other draws"), look, horizon=None, max_phases=1, replications=1000,
            seed=5, workers=1,
        )  # fmt: skip
        return float((run.games.winner == 0).mean())

    # Both rates are of a few hundred games; 0.1 is 4 standard errors of their difference.
    assert decided(found) > 0.8
    assert decided(found // 2) < 0.8


def test_the_page_the_numbers_and_the_chart_say_the_same(tmp_path: Path) -> None:
    plan = priced()
    plan.write(tmp_path / "plan")
    told = json.loads((tmp_path / "plan" / "plan.json").read_text(encoding="utf-8"))
    prices = told["honesty"]["prices"]
    assert [one["fewest_clients"] for one in prices] == [one.clients for one in plan.honesty]
    assert told["question"]["liars"] == 0.05
    assert 0.2 < told["honesty"]["bearable_share"] < 0.5
    page = (tmp_path / "plan" / "report.html").read_text(encoding="utf-8")
    assert "What honesty is worth" in page
    assert "nobody lies in them" in page
    assert (tmp_path / "plan" / "honesty.png").exists()
    chart = honesty_chart(plan)
    assert chart is not None
    first = chart.panels[0]
    assert isinstance(first, Plot)
    assert list(first.series[0].x) == list(SHARES)
    assert list(first.series[0].y) == [one.clients for one in plan.honesty]
    assert [row[0] for row in shown_prices(plan.honesty).rows] == [
        "nobody", "1 %", "5 %", "10 %", "20 %",
    ]  # fmt: skip


def test_liars_that_can_hide_the_gap_are_named_before_anything_is_played() -> None:
    plan = fb.plan(n_arms=2, gap=0.1, noise=0.2, spread=0.1, liars=0.3)
    assert not plan.feasible
    assert plan.searched.tried == ()
    said = plan.answer()[-1]
    assert "no number of clients is sure to tell the best two arms apart" in said
    most = re.search(r"at most ([\d.]+) % may lie", said)
    assert most is not None
    share = float(most[1]) / 100
    # What is called bearable is, and a little more is not.
    asked: dict[str, Any] = {"n_arms": 2, "gap": 0.1, "noise": 0.2, "spread": 0.1}
    assert hidden(least_favourable(**asked, liars=share)) is None
    assert hidden(least_favourable(**asked, liars=1.01 * share)) is not None
    by_share = {price.liars: price for price in plan.honesty}
    assert set(by_share) == {*SHARES, 0.3}
    assert by_share[0.3] == Price(liars=0.3, share=0.3, bearable=False)
    assert not by_share[0.2].bearable
    assert by_share[0.05].outlook is not None
    assert "no number of clients is sure" in plan_table(plan)


def plan_table(plan: fb.Plan) -> str:
    return shown_prices(plan.honesty).text()


def test_a_number_of_liars_is_one_of_given_clients(quick: None) -> None:
    plan = fb.plan(n_arms=2, gap=0.3, noise=0.2, spread=0.1, clients=40, liars=3)
    assert [price.words for price in plan.honesty] == [
        "nobody", "1 %", "5 %", "3 clients", "10 %", "20 %",
    ]  # fmt: skip
    assert plan.question.share_of_liars == 0.075
    assert plan.suggested is not None
    # All of them at once might be kept from a decision.
    assert plan.suggested.admissions is not None
    assert plan.variant()["liars"] == 3


def test_without_liars_a_plan_says_nothing_of_them(quick: None) -> None:
    plan = fb.plan(**_ASKED)
    assert plan.honesty == ()
    assert plan.as_dict()["honesty"] is None
    assert "liars" not in plan.variant()
    assert "liar" not in " ".join(plan.answer())


def test_what_the_command_prints_runs_and_is_checked(tmp_path: Path) -> None:
    done = command(*_WORDS, "--liars", "0.1")
    assert done.returncode == 0, done.stderr
    assert "What honesty is worth" in done.stdout
    variant = done.stdout[done.stdout.index("[[variants]]") :].split("\n\n")[0]
    assert "liars = 0.1" in variant
    file = tmp_path / "planned.toml"
    file.write_text(
        'title = "planned"\nreplications = 40\nseed = 1\n[problem]\nmodel = "approximate"\n'
        'means = [0.2, 0.0]\nnoise = { law = "gaussian", sigma = 0.2 }\n'
        f'spread = {{ law = "gaussian", sigma = 0.1 }}\n{variant}\n',
        encoding="utf-8",
    )
    for word in ("check", "run"):
        played = commands.command(word, file)
        assert played.returncode == 0, played.stderr
    assert "at most 10 % of the clients that play lie" in commands.command("check", file).stdout


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("0.5", "liars: 0.5 is neither a share below 0.5"),
        ("-1", "liars: -1 is neither a share below 0.5"),
        ("1.5", "liars: 1.5 is neither a share below 0.5"),
        ("x", "'x' is not a valid float"),
        ("3", "liars: 3 is a number of clients, and how many there are is not given"),
    ],
)
def test_values_that_are_no_share_and_no_number_are_refused(value: str, problem: str) -> None:
    refused = command(*_WORDS, "--liars", value)
    assert refused.returncode == 2
    assert problem in " ".join(refused.stderr.split())
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"clients": 6, "liars": 3}, "liars: 3 of 6 clients are half of them or more"),
        (
            {"liars": 0.1, "privacy": fb.Privacy(range=(0, 1), noise="laplace", epsilon=1.0)},
            "no plan is made for protected means",
        ),
    ],
)
def test_liars_that_no_plan_can_allow_for_are_refused(asked: dict[str, Any], problem: str) -> None:
    with pytest.raises(fb.InputError, match=problem):
        fb.plan(**_ASKED, **asked)


def test_the_page_shows_what_honesty_is_worth() -> None:
    text = (DOCS / "planning.md").read_text(encoding="utf-8")
    assert "fedbandits plan --arms 10 --gap 0.02 --noise 0.5 --spread 0.02 --liars 0.05" in text
    plan = fb.plan(n_arms=10, gap=0.02, noise=0.5, spread=0.02, liars=0.05)
    assert shown_prices(plan.honesty).markdown() in text
