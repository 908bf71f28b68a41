"""What index rules cost: tables, fits and pictures, and what the documentation says."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import fedbandits as fb
from fedbandits.report.chart import NORMAL_95, Plot
from fedbandits.report.shown import Shown
from fedbandits.report.still import still
from fedbandits.reproduce.findings import share_of
from fedbandits.reproduce.index_costs import (
    AUTHORS,
    CERTIFIED,
    GROWING,
    GROWTH_REPLICATIONS,
    HORIZONS,
    MOSS,
    MOVIELENS_REPLICATIONS,
    PART,
    POWERS,
    QUANTILES,
    REPLICATIONS,
    TAILED,
    UCB,
    UCB2,
    fit_power,
    fits_table,
    games_batch,
    games_table,
    growth_batches,
    growth_chart,
    growth_table,
    index_games,
    movielens_batch,
    movielens_table,
    points,
    shown_tables,
    tails_chart,
)
from fedbandits.reproduce.part import Kept, play
from fedbandits.reproduce.reproduction import reproduce_paper
from fedbandits.reproduce.steps import Step
from fedbandits.rules.arrays import FloatArray
from fedbandits.simulation import Simulation
from fedbandits.simulation.tables import Table, chose_best
from repository import ROOT

RULES = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "index-rules.md").read_text(encoding="utf-8")
TITLES = {key: game.title for key, game in index_games().items()}
REGRETS = ("game", *index_games()["fig4"].algorithms, f"{CERTIFIED} / moss")
GAMES = 2_000
"""Of what is not played as often as in the report."""

LEVEL = 1e-4
"""No p-value of what holds is below, with these seeds; 4 standard errors are about as much."""


def table_under(text: str, headings: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the table of a page that has these headings: rows by first cell, cells by heading."""
    head = re.escape(f"| {' | '.join(headings)} |")
    (body,) = re.findall(rf"^{head}\n\|[-| ]+\|\n((?:\|.*\n)+)", text, flags=re.M)
    rows = [line.strip("| ").split(" | ") for line in body.splitlines()]
    return {row[0]: dict(zip(headings, row, strict=True)) for row in rows}


def number(cell: str) -> float:
    return float(re.split(r" [±(]", cell)[0].replace(",", ""))


def said(shown: Shown, text: str = PAGE) -> dict[str, dict[str, str]]:
    return table_under(text, shown.headings)


@pytest.fixture(scope="module")
def costs() -> dict[str, Table]:
    """Return the tables of the report, but of `moss` and certified elimination alone."""
    growth = growth_table(play(growth_batches(), workers=1))
    return {
        "games": games_table(play([games_batch(rules=(MOSS, CERTIFIED))], workers=1)),
        "growth": growth,
        "fits": fits_table(growth),
        "movielens": movielens_table(play([movielens_batch()], workers=1)),
    }


def cell(costs: dict[str, Table], game: str, rule: str, column: str) -> float:
    games = costs["games"]
    row = list(zip(games["game"], games["rule"], strict=True)).index((game, rule))
    return float(games[column][row])


# What the documentation says ---------------------------------------------------------------------


def test_the_page_repeats_the_report(costs: dict[str, Table]) -> None:
    """Cell by cell, as the command writes them; the other rules follow in the next test."""
    shown = shown_tables(costs)
    for name in ("growth", "fits", "movielens"):
        assert said(shown[name], PAGE) == said(shown[name], shown[name].markdown() + "\n"), name
    tails = said(shown["tails"])
    for row, cells in said(shown["tails"], shown["tails"].markdown() + "\n").items():
        assert tails[row] == cells
    headings = (
        "game",
        *(rule for rule in index_games()["fig3-5"].algorithms),
        f"{CERTIFIED} / moss",
    )
    regrets = table_under(PAGE, headings)
    for row, cells in said(shown["regrets"], shown["regrets"].markdown() + "\n").items():
        assert {heading: regrets[row][heading] for heading in cells} == cells


def test_the_other_rules_cost_what_the_page_says(costs: dict[str, Table]) -> None:
    """A smaller run of other draws: means by standard errors, quantiles by ranks."""
    rules = (UCB2, UCB, AUTHORS)
    played = play([games_batch(rules=rules, seed=7)], games=GAMES, workers=1)
    found = games_table(played)
    regrets = table_under(
        PAGE, ("game", *index_games()["fig3-5"].algorithms, f"{CERTIFIED} / moss")
    )
    tails = said(shown_tables(costs)["tails"])
    for row, (game, rule) in enumerate(zip(found["game"], found["rule"], strict=True)):
        outcome, cells = played[game, rule].games, tails[f"{TITLES[game]}: {rule}"]
        mean, margin = regrets[TITLES[game]][rule].replace(",", "").split(" ± ")
        error = math.hypot(float(margin) / NORMAL_95, found["stderr"][row])
        assert abs(found["regret"][row] - float(mean)) < 4 * error
        # Of ten thousand games the interval is as much narrower.
        narrower = math.sqrt(GAMES / REPLICATIONS)
        assert float(margin) == pytest.approx(
            NORMAL_95 * found["stderr"][row] * narrower, rel=0.15, abs=0.5
        )
        for name, digits in (("phases", 0.05), ("clients", 0.5)):
            values = getattr(outcome, name).astype(np.float64)
            assert_mean(values, number(cells[name]), digits)
        for heading, part in zip(("median", "95 %", "99 %"), QUANTILES.values(), strict=True):
            assert_quantile(outcome.total, number(cells[heading]), part)
        # Each further game above the worst of ten thousand has a probability of a sixth at most.
        assert (outcome.total > number(cells["worst"]) + 0.5).sum() <= 5
        assert number(cells["99 %"]) <= number(cells["worst"])
        for heading, name in (
            ("wrong commits", "wrong"),
            ("no commit by T", "undecided"),
            ("worse arm at the end", "worse_at_end"),
        ):
            assert_count(found[name][row], int(number(cells[heading])))


def assert_mean(values: FloatArray, stated: float, digits: float) -> None:
    error = values.std() * math.sqrt(1 / values.size + 1 / REPLICATIONS)
    assert abs(values.mean() - stated) <= 4 * error + digits


def assert_quantile(values: FloatArray, stated: float, part: float) -> None:
    """The share of games below a quantile of other games is as binomial as that of those."""
    error = math.sqrt(part * (1 - part) * (1 / values.size + 1 / REPLICATIONS))
    low, high = (values < stated - 0.5).mean(), (values <= stated + 0.5).mean()
    assert low - 4 * error <= part <= high + 4 * error


def assert_count(found: int, stated: int) -> None:
    counts = np.array([[found, GAMES - found], [stated, REPLICATIONS - stated]])
    assert stats.fisher_exact(counts).pvalue > LEVEL


def test_the_page_says_how_many_games_there_were() -> None:
    words = " ".join(PAGE.split())
    assert f"{REPLICATIONS:,} games each, the same defaults on all" in words
    assert f"{GROWTH_REPLICATIONS:,} games per point" in words
    assert f"{MOVIELENS_REPLICATIONS} games each, on the same draws" in words


def test_elimination_has_the_draws_of_the_part_about_rules(costs: dict[str, Table]) -> None:
    for game, words, column in (
        ("fig3-5", "`certified`, δ = 1/T", 2),
        ("fig4", "the same, inverse-variance weights", 1),
    ):
        (line,) = re.findall(rf"^\| {re.escape(words)} \|.*$", RULES, flags=re.M)
        stated = line.split("|")[column + 1].strip()
        assert stated == f"{cell(costs, game, CERTIFIED, 'regret'):,.0f}"


# What is asked of it -----------------------------------------------------------------------------


def test_regret_is_below_what_was_asked_for(costs: dict[str, Table]) -> None:
    for game, most in (("fig3-5", 1_250), ("fig3-10", 1_550), ("fig4", 3_000)):
        assert cell(costs, game, MOSS, "regret") + 3 * cell(costs, game, MOSS, "stderr") <= most
        assert cell(costs, game, MOSS, "wrong") <= 1
        # The tail: below that of elimination, and heavier against the median.
        worst = [cell(costs, game, rule, "worst") for rule in (MOSS, CERTIFIED)]
        heavy = [
            cell(costs, game, rule, "q99") / cell(costs, game, rule, "median")
            for rule in (MOSS, CERTIFIED)
        ]
        assert worst[0] < worst[1]
        assert heavy[0] > heavy[1]
        # Who has not committed plays the best arm all the same.
        late = cell(costs, game, MOSS, "undecided")
        assert cell(costs, game, MOSS, "worse_at_end") <= 0.05 * late


def test_on_movielens_fed2_ucb_has_more_than_three_times_the_regret(
    costs: dict[str, Table],
) -> None:
    ratio, error = (costs["movielens"][name][1] for name in ("ratio", "ratio_stderr"))
    assert ratio - 4 * error > 3


def p_of(fits: Table, game: str, first: int) -> dict[float, float]:
    """Return by power how likely means would be as far from a curve of it."""
    keys = zip(fits["game"], fits["first"], fits["power"], strict=True)
    return {
        power: fits["misfit"][row]
        for row, (key, start, power) in enumerate(keys)
        if (key, start) == (game, first)
    }


def test_which_powers_of_log_t_fit_is_what_the_page_says(costs: dict[str, Table]) -> None:
    fits = costs["fits"]
    for first in (10**4, 10**5):
        found = p_of(fits, "fig3-5", first)
        assert found[1.0] > 0.01
        assert max(found[power] for power in POWERS if power != 1.0) < 0.01
    assert max(p_of(fits, "fig4", 10**4).values()) < 0.01
    later = p_of(fits, "fig4", 10**5)
    assert later[1.0] > 0.01
    assert max(later[power] for power in POWERS if power != 1.0) < 0.01
    keys = list(zip(fits["game"], fits["first"], fits["power"], strict=True))
    for first in (10**4, 10**5):
        explained = {
            power: fits["r_squared"][keys.index(("fig4", first, power))] for power in POWERS
        }
        assert max(explained, key=lambda power: float(explained[power])) == 1.0


def test_regret_grows_by_the_same_for_every_unit_of_log_t(costs: dict[str, Table]) -> None:
    """On other draws, too: the line is not refuted, and its slope is the one of the page."""
    other = fits_table(growth_table(play(growth_batches(seed=99), games=800, workers=1)))
    keys = list(zip(other["game"], other["first"], other["power"], strict=True))
    for game, first in (("fig3-5", 10**4), ("fig3-5", 10**5), ("fig4", 10**5)):
        row = keys.index((game, first, 1.0))
        assert other["misfit"][row] > LEVEL
        one, two = other["slope"][row], costs["fits"]["slope"][row]
        errors = [fits["sampling_margin"][row] / NORMAL_95 for fits in (other, costs["fits"])]
        assert abs(one - two) < 4 * math.hypot(*errors)
        assert two - 4 * errors[1] > 0
    assert costs["fits"]["lai_robbins"][0] == pytest.approx(
        sum(0.5 / (0.79 - mean) for mean in index_games()["fig3-5"].problem.means[:-1].tolist())
    )


# Fits --------------------------------------------------------------------------------------------

LOGS = np.log(np.array(HORIZONS, dtype=np.float64))
ERRORS = np.array([4.0, 5.0, 6.0, 7.0, 7.0, 8.0])


def test_intervals_of_slopes_and_p_values_are_what_they_say() -> None:
    rng = np.random.default_rng(5)
    tries = 3_000
    found = [
        fit_power(np.exp(LOGS), 50 + 100 * LOGS + ERRORS * rng.standard_normal(6), ERRORS, 1.0)
        for _ in range(tries)
    ]
    for margin in ("sampling_margin", "residual_margin"):
        held = np.mean([abs(fit["slope"] - 100) <= fit[margin] for fit in found])
        assert abs(held - 0.95) < 5 * math.sqrt(0.95 * 0.05 / tries)
    assert stats.kstest([fit["misfit"] for fit in found], "uniform").pvalue > LEVEL


@pytest.mark.parametrize("truth", POWERS)
def test_the_power_that_is_true_fits_best(truth: float) -> None:
    rng = np.random.default_rng(6)
    # As far apart as regrets are: from 500 to 1,900.
    x = LOGS**truth
    means = 500 + 1_400 * (x - x[0]) / (x[-1] - x[0]) + ERRORS * rng.standard_normal(6)
    found = {power: fit_power(np.exp(LOGS), means, ERRORS, power) for power in POWERS}
    assert max(found, key=lambda power: found[power]["r_squared"]) == truth
    assert [power for power in POWERS if found[power]["misfit"] > 0.001] == [truth]
    # Where a line is not the right curve its distance to the means says so.
    for power, fit in found.items():
        assert (fit["residual_margin"] > 3 * fit["sampling_margin"]) == (power != truth)


def test_weights_are_those_of_standard_errors() -> None:
    means = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 9.0])
    errors = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1e3])
    line = np.polyfit(LOGS[:-1], means[:-1], 1)
    assert fit_power(np.exp(LOGS), means, errors, 1.0)["slope"] == pytest.approx(line[0], rel=1e-3)


# How games end -----------------------------------------------------------------------------------


def test_a_worse_arm_at_the_end_is_one_that_is_played_there() -> None:
    """By the bends of the regret curves, which say what is played in every slot."""
    game = fb.Exact(local_means=[[0.50, 0.52, 0.40]] * 3, noise=fb.Gaussian(0.5))
    # Who believes in less noise than there is commits to wrong arms.
    variant = fb.Variant(
        label="near", problem=game, algorithm=fb.FedIndex(), assume=fb.Assume(noise=0.2)
    )
    (run,) = fb.simulate_all(
        [variant], horizon=2_000, replications=400, seed=3, grid_points=100, workers=1,
        breakpoints=True, warn=False,
    )  # fmt: skip
    row = games_table({("fig3-5", MOSS): run})
    wrong = (run.games.winner >= 0) & ~chose_best(run)
    late = [played_late(run, number, 1_980) for number in range(400)]
    assert row["worse_at_end"] == [sum(late)]
    assert row["wrong"] == [wrong.sum()]
    assert row["undecided"] == [(run.games.winner < 0).sum()]
    assert row["wrong_high"] == [share_of(wrong, "")["high"]]
    # Every wrong commit before is one, and games that have not committed are others.
    assert 0 < wrong.sum() < sum(late) < 400
    before = wrong & (run.games.decision_slot < 1_980)
    assert before.sum() > 0.9 * wrong.sum()
    assert all(late[number] for number in np.flatnonzero(before).tolist())


def played_late(run: Simulation, number: int, slot: int) -> bool:
    """Return whether there was any exploration regret after a slot."""
    bends = run.games.breakpoints[number]
    before = np.interp(slot, bends.slot, bends.exploration)
    return bool(bends.exploration[-1] - before > 1e-9)


# The report --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def quick() -> Any:
    return PART.compute(games=20, workers=1)


def test_a_quick_look_takes_no_more_games_than_asked(quick: dict[str, Table]) -> None:
    replications = [
        n for name in ("games", "growth", "movielens") for n in quick[name]["replications"]
    ]
    assert set(replications) == {20}
    assert PART.replications(20) == sum(replications)
    assert PART.replications(None) == 15 * 10_000 + 12 * 2_000 + 2 * 400


def test_every_cell_stands_on_the_page(quick: dict[str, Table]) -> None:
    images = {"tails": b"one", "growth": b"two"}
    html = PART.section(Kept(made_from="", replications=None, table=quick, images=images))
    shown = shown_tables(quick)
    for name in ("regrets", "tails", "growth", "fits", "movielens"):
        for first, *cells in shown[name].rows:
            row = f'<tr><th scope="row">{first}</th>'.replace("'", "&#x27;")
            assert row in html
            for text in cells:
                assert f"<td>{text.replace('<', '&lt;')}</td>" in html
    assert html.index("base64,b25l") < html.index("base64,dHdv")
    # What fits is said of every game and first horizon.
    assert html.count("has the highest R²") == 4


def test_the_pictures_show_the_tables(quick: dict[str, Table]) -> None:
    tails = tails_chart(quick)
    for panel, game in zip(tails.panels, index_games(), strict=True):
        assert isinstance(panel, Plot)
        curves = [one for one in panel.series if one.label]
        assert [one.label for one in curves] == list(TAILED)
        for one, rule in zip(curves, TAILED, strict=True):
            x, y = np.array(one.x), np.array(one.y)
            keys = zip(quick["games"]["game"], quick["games"]["rule"], strict=True)
            row = list(keys).index((game, rule))
            # From the worst of twenty games to all of them.
            assert (x.max(), y[x.argmax()], y.max()) == (quick["games"]["worst"][row], 0.05, 1.0)
            assert (np.diff(x) <= 0).all()
    growth = growth_chart(quick)
    for panel, key in zip(growth.panels, GROWING, strict=True):
        assert isinstance(panel, Plot)
        _, means, _ = points(quick["growth"], key, HORIZONS[0])
        (dots,) = [one for one in panel.series if one.mark == "dot"]
        assert dots.y == means.tolist()
        assert "Lai and Robbins: 111 log T" in [one.label for one in panel.series]
    for chart in (tails, growth):
        assert still(chart).startswith(b"\x89PNG")


def test_the_command_writes_tables_pictures_and_a_section(tmp_path: Path) -> None:
    def reproduce() -> tuple[str, Step]:
        told: list[Step] = []
        page = reproduce_paper(
            ["index-rules"], tmp_path, replications=3, workers=1, watch=told.append
        )
        return page.read_text(encoding="utf-8"), told[-1]

    text, last = reproduce()
    assert last.state == "done"
    assert last.replications == last.all_replications == PART.replications(3)
    assert "<h2>Index rules: less regret than elimination" in text
    assert text.count('<img src="data:image/png') == 2
    folder = tmp_path / "index-rules"
    assert {path.name for path in folder.iterdir()} == {"growth", "tails", "tables.md"}
    for name in ("growth", "tails"):
        assert {path.suffix for path in (folder / name).iterdir()} == {
            ".png",
            ".pdf",
            ".parquet",
        }
    tables: dict[str, Any] = json.loads(
        (tmp_path / "index-rules.json").read_text(encoding="utf-8")
    )["table"]
    written = (folder / "tables.md").read_text(encoding="utf-8")
    for shown in shown_tables(tables).values():
        assert f"## {shown.name}\n\n{shown.markdown()}\n" in written
    again, last = reproduce()
    assert again == text
    assert last.state == "as it was"
