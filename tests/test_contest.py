"""The contest: its games, who enters, how they are ranked, and what the command writes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import fedbandits as fb
from fedbandits.cli.main import app
from fedbandits.contest.entrants import entrants
from fedbandits.contest.figure import profile_figure
from fedbandits.contest.games import contest_games
from fedbandits.contest.play import CHAMPION, chosen_games, play_contest
from fedbandits.contest.standings import NEAR, lost_games, profile, standings
from fedbandits.experiments.tables import Table
from fedbandits.problems.problem import gap
from fedbandits.simulation.simulator import Variant, build_rules, simulate_all

GAMES = contest_games()


def test_the_games_are_as_different_as_the_page_says() -> None:
    assert len(GAMES) == 49
    assert len({game.name for game in GAMES}) == len(GAMES)
    arms = [game.problem.means.size for game in GAMES]
    assert (min(arms), max(arms)) == (2, 100)
    gaps = [gap(game.problem) for game in GAMES]
    assert min(gaps) == pytest.approx(0.005)
    assert max(gaps) == pytest.approx(0.5)
    spreads = [game.problem.spread_proxy / gap(game.problem) for game in GAMES]
    assert min(spreads) == 0.0
    assert max(spreads) >= 5.0
    assert {game.cost for game in GAMES} == {0.0, 1.0, 10.0, 100.0}
    assert {game.horizon for game in GAMES} == {10**power for power in range(4, 9)}
    assert sum(isinstance(game.problem.noise, fb.Bernoulli) for game in GAMES) >= 5
    assert sum(isinstance(game.problem, fb.Exact) for game in GAMES) >= 5


def test_every_algorithm_enters_with_the_same_parameters_on_all_games() -> None:
    entered: dict[str, set[str]] = {entrant.label: set() for entrant in entrants()}
    names = set()
    for game in GAMES:
        for entrant in entrants():
            algorithm = entrant.enter(game)
            if algorithm is None:
                continue
            names.add(algorithm.name)
            assert build_rules(
                [Variant(label="x", problem=game.problem, algorithm=algorithm)], game.horizon
            )
            entered[entrant.label].add(repr(algorithm))
    assert names == set(fb.ALGORITHMS)
    for label, algorithms in entered.items():
        # One for given clients, one for others, and one for a finite number of others.
        assert 1 <= len(algorithms) <= 3, label
        assert len(algorithms) == 1 or not label.startswith("fed-index")


def test_the_index_rule_is_near_the_first_in_nine_games_of_ten() -> None:
    """On the games that are drawn in cohorts, against the eliminations, in few replications."""
    rivals = [entrant for entrant in entrants() if entrant.label.startswith("elimination")]
    champion = next(entrant for entrant in entrants() if entrant.label == CHAMPION)
    near = played = 0
    for game in GAMES:
        if game.drawn_one_by_one:
            continue
        variants = [
            Variant(
                label=entrant.label,
                problem=game.problem,
                algorithm=algorithm,
                communication_cost=game.cost,
            )
            for entrant in (champion, *rivals)
            if (algorithm := entrant.enter(game)) is not None
        ]
        first, *others = (
            run.outcome.total.mean()
            for run in simulate_all(
                variants, horizon=game.horizon, replications=24, seed=5, workers=1, grid_points=1,
                warn=False,
            )
        )  # fmt: skip
        played += 1
        near += first <= NEAR * min(others)
    assert played >= 40
    assert near >= 0.9 * played


def test_a_contest_is_ranked_and_paired() -> None:
    table = play_contest(chosen_games(["figure 3, M = 10"]), replications=12, workers=1)
    rows = {label: i for i, label in enumerate(table["entrant"])}
    assert "centralized" in rows
    assert "local-ucb" not in rows  # a million slots
    ours, theirs = rows[CHAMPION], rows["elimination, certified"]
    assert table["ratio"][ours] == 1.0
    assert table["behind"][ours] == 0.0
    apart = table["regret"][theirs] - table["regret"][ours]
    assert table["behind"][theirs] == pytest.approx(apart)
    assert table["behind_low"][theirs] < apart < table["behind_high"][theirs]
    assert table["behind_low"][theirs] > 0
    first, *_, last = standings(table)
    assert (first.entrant, first.first, first.near) == (CHAMPION, 1, 1)
    assert last.reference
    assert lost_games(table, CHAMPION) == []
    assert lost_games(table, "centralized")[0][1] == CHAMPION


def test_a_profile_rises_to_the_share_of_games_that_were_played() -> None:
    table: Table = {
        "game": ["a", "a", "b"],
        "entrant": ["x", "y", "x"],
        "reference": [False, False, False],
        "ratio": [1.0, 2.0, 1.0],
    }
    assert profile(table, "y", np.array([1.0, 2.0, 9.0])).tolist() == [0.0, 0.5, 0.5]
    axes = profile_figure(table).axes[0]
    assert axes.get_legend() is not None


def test_the_command_writes_tables_profile_and_page(tmp_path: Path) -> None:
    out = tmp_path / "contest"
    arguments = ["contest", "K = 5, gap 0.2, spread 0.05", "-n", "4", "-w", "1", "-o", str(out)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "fed-index" in result.output
    written = {path.name for path in out.iterdir()}
    assert written == {
        *("contest.json", "contest.parquet", "profile.png", "profile.pdf", "report.html")
    }
    found = json.loads((out / "contest.json").read_text(encoding="utf-8"))
    assert found["standings"][0]["games"] == 1
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "K = 5, gap 0.2, spread 0.05" in page
    assert "http" not in page.split("<script")[0].replace("http-equiv", "")


def test_a_game_that_is_not_there_is_refused() -> None:
    with pytest.raises(fb.InputError, match="no game is called"):
        chosen_games(["figure 99"])
