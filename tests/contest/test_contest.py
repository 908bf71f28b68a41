"""The contest: its games, who enters, how they are ranked, and what the command writes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import fedbandits as fb
from commands import command
from fedbandits.cli.main import app
from fedbandits.contest.distance import distance_to
from fedbandits.contest.entrants import Entrant, entrants
from fedbandits.contest.games import ContestGame, contest_games
from fedbandits.contest.page import profile_chart
from fedbandits.contest.play import Contest, chosen_games, in_one_fidelity, play_contest
from fedbandits.contest.standings import (
    CHAMPION,
    NEAR,
    firsts,
    lost_games,
    profile,
    standings,
    told_apart,
)
from fedbandits.contest.summary import contest_summary
from fedbandits.contest.words import (
    absences,
    as_markdown,
    shown_games,
    shown_standings,
    without_bound,
)
from fedbandits.plugins import Plugin
from fedbandits.problems.problem import gap
from fedbandits.report.still import figure_of
from fedbandits.rules.algorithms import Algorithm
from fedbandits.simulation import Variant, build_rules
from fedbandits.simulation.tables import Table
from fedbandits.theory.lower_bound import lower_bound
from repository import DOCS

GAMES = contest_games()


# Games and entrants -------------------------------------------------------------------------------


def test_the_games_are_as_different_as_the_page_says() -> None:
    assert len(GAMES) == 62
    assert len({game.name for game in GAMES}) == len(GAMES)
    arms = [game.problem.means.size for game in GAMES]
    assert (min(arms), max(arms)) == (2, 100)
    gaps = [gap(game.problem) for game in GAMES]
    assert min(gaps) == pytest.approx(0.005)
    assert max(gaps) == pytest.approx(0.5)
    spreads = [game.problem.spread_proxy / gap(game.problem) for game in GAMES]
    assert min(spreads) == 0.0
    assert max(spreads) >= 10.0
    assert {game.cost for game in GAMES} == {0.0, 1.0, 10.0, 100.0, 300.0, 1000.0, 3000.0}
    assert sum(game.cost >= 100 for game in GAMES) >= 17
    assert {game.horizon for game in GAMES} == {10**power for power in range(4, 9)}
    assert sum(isinstance(game.problem.noise, fb.Bernoulli) for game in GAMES) >= 5
    assert sum(isinstance(game.problem, fb.Exact) for game in GAMES) >= 5


def entered(game: ContestGame) -> list[tuple[Entrant, Algorithm]]:
    found = [(entrant, entrant.enter(game)) for entrant in entrants()]
    return [(entrant, one) for entrant, one in found if not isinstance(one, str)]


def variants(game: ContestGame) -> list[Variant]:
    found = [entrant.variant(game) for entrant in entrants()]
    return [one for one in found if not isinstance(one, str)]


def test_every_algorithm_enters_with_the_same_parameters_on_all_games() -> None:
    found: dict[str, set[str]] = {entrant.label: set() for entrant in entrants()}
    names = set()
    for game in GAMES:
        for entrant, algorithm in entered(game):
            names.add(algorithm.name)
            found[entrant.label].add(repr(algorithm))
    # Fed-MoM-UCB is for clients that lie, and nobody does here. UCB1 is the reference that decides
    # in every slot; KL-UCB and Thompson sampling at the server assume rates, or known noise.
    assert names == set(fb.ALGORITHMS) - {"fed-mom-ucb", "kl-ucb", "thompson"}
    for label, algorithms in found.items():
        # One for given clients, one for others, and one for a finite number of others.
        assert 1 <= len(algorithms) <= 3, label
        assert len(algorithms) == 1 or not label.startswith("fed-index")


def test_all_entrants_of_a_game_are_played_in_one_fidelity() -> None:
    mixed = 0
    for game in GAMES:
        playing = variants(game)
        fastest = [fidelity.value for _, fidelity in build_rules(playing, game.horizon)]
        mixed += len({*fastest} - {"slots"}) > 1
        together = build_rules(in_one_fidelity(playing, game.horizon), game.horizon)
        chosen = [fidelity.value for _, fidelity in together]
        assert len({*chosen} - {"slots"}) == 1, game.name
        for own, common in zip(fastest, chosen, strict=True):
            assert (own == "slots") == (common == "slots")
    # Where only some of the given clients begin, an index rule needs to see them one by one.
    assert mixed == 3


def test_games_are_chosen_by_parts_of_their_names_in_any_case() -> None:
    assert [game.name for game in chosen_games(["FIGURE 3, m = 5"])] == ["figure 3, M = 5"]
    assert len(chosen_games([])) == len(GAMES)
    assert len(chosen_games(["figure 3", "figure 4", "figure 4, C"])) == 12


@pytest.mark.parametrize(
    ("typed", "meant"), [("fgure 4", "figure 4"), ("20 givn clients", "20 given clients")]
)
def test_a_name_that_no_game_has_is_refused_though_others_are_known(typed: str, meant: str) -> None:
    with pytest.raises(fb.InputError, match=f'contains "{typed}"; did you mean "{meant}"'):
        chosen_games(["figure 3", typed])


# Ranks --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_index_rule_is_near_the_first_in_nine_games_of_ten() -> None:
    """Among all that must ask clients, with few replications.

    There are 128, or 32 where clients are given or drawn one by one; the 95 % margins of ratios
    near the limit are then 0.1 and 0.2. Four lost games are allowed, and as many are lost here, one
    of them by no more than chance.

    `local-ucb` knows no horizon: what it has lost after some of the slots is the least that it
    loses, and only where that is not enough all slots are played.
    """
    asking = [entrant for entrant in entrants() if not entrant.reference]
    phased = [entrant for entrant in asking if entrant.label != "local-ucb"]
    (local,) = (entrant for entrant in asking if entrant.label == "local-ucb")
    near = 0
    for game in GAMES:
        in_cohorts = isinstance(game.problem, fb.Approximate) and isinstance(
            game.problem.noise, fb.Gaussian
        )
        table = play_contest(
            [game], entering=phased, replications=128 if in_cohorts else 32, seed=5, workers=1
        ).table
        own = table["regret"][table["entrant"].index(CHAMPION)]
        least = min(table["regret"])
        if not isinstance(local.enter(game), str):
            for part in (10, 3, 1):
                sooner = replace(game, horizon=game.horizon // part)
                lost = play_contest([sooner], entering=[local], replications=8, workers=1).table
                if lost["regret"][0] >= own:
                    break
            least = min(least, *lost["regret"])
        near += own <= NEAR * least
    assert near >= 0.9 * len(GAMES)


def test_pairs_of_replications_are_compared() -> None:
    rng = np.random.default_rng(8)
    first = rng.gamma(4.0, 100.0, size=4000)
    totals = 1.5 * first + rng.normal(0.0, 10.0, size=4000)
    beside = distance_to(totals, first)
    # What both have in common has no part in the margins.
    assert beside.ratio == pytest.approx(1.5, abs=0.01)
    assert beside.ratio_margin == pytest.approx(1.96 * 10 / 400 / np.sqrt(4000), rel=0.1)
    spread = (totals - first).std(ddof=1)
    assert beside.above_margin == pytest.approx(1.96 * spread / np.sqrt(4000), rel=0.01)
    assert beside.above == pytest.approx((totals - first).mean())
    itself = distance_to(first, first)
    assert (itself.ratio, itself.ratio_margin, itself.above, itself.above_margin) == (1, 0, 0, 0)


def test_a_ratio_is_in_its_interval_as_often_as_it_says() -> None:
    rng = np.random.default_rng(20)
    held = 0
    for _ in range(2000):
        first = rng.gamma(9.0, 10.0, size=30)
        beside = distance_to(0.5 * first + rng.gamma(4.0, 20.0, size=30), first)
        held += abs(beside.ratio - (0.5 + 80 / 90)) <= beside.ratio_margin
    # 95 % within five standard errors, and two per cent that a linearised ratio of 30 pairs lacks.
    assert 0.95 - 0.02 - 5 * np.sqrt(0.05 * 0.95 / 2000) <= held / 2000
    assert held / 2000 <= 0.95 + 5 * np.sqrt(0.05 * 0.95 / 2000)


LONG, SHORT = "figure 3, M = 10", "K = 2, gap 0.1, spread 0.1, T = 10^4, C = 1"


@pytest.fixture(scope="module")
def played() -> Contest:
    """A game that all finish, and one that is over too soon for some."""
    return play_contest(chosen_games([LONG, SHORT]), replications=12, workers=1)


def of(contest: Contest, game: str, entrant: str, column: str) -> Any:
    table = contest.table
    pairs = list(zip(table["game"], table["entrant"], strict=True))
    return table[column][pairs.index((game, entrant))]


def test_a_contest_is_ranked_twice_and_paired(played: Contest) -> None:
    table = played.table
    assert set(table["replications"]) == {12}
    long, short = LONG, SHORT
    assert "centralized" in [e for g, e in zip(table["game"], table["entrant"], strict=True)]
    assert (long, "local-ucb") not in zip(table["game"], table["entrant"], strict=True)
    assert of(played, long, CHAMPION, "asking_ratio") == 1.0
    apart = of(played, long, "elimination, certified", "regret")
    apart -= of(played, long, CHAMPION, "regret")
    assert of(played, long, "elimination, certified", "asking_above") == pytest.approx(apart)
    assert 0 < of(played, long, "elimination, certified", "asking_above_margin") < apart
    places = {place.entrant: place for place in standings(table)}
    first, *_, last = places.values()
    assert first.entrant == CHAMPION
    assert first.asking is not None
    assert (first.games, first.asking.first, first.asking.near) == (2, 2, 2)
    assert last.reference
    assert last.asking is None
    # A short game is cheaper for one who asks nobody: the two rankings differ.
    assert of(played, short, CHAMPION, "asking_ratio") == 1.0
    assert of(played, short, CHAMPION, "all_ratio") > NEAR
    assert first.all.near < first.asking.near
    assert sum(place.all.first for place in places.values()) == 2
    assert of(played, short, "ucb1", "asking_ratio") is None
    assert lost_games(table, CHAMPION, "asking") == []
    ((own, other),) = lost_games(table, CHAMPION, "all")
    assert (own["entrant"], own["game"]) == (CHAMPION, short)
    assert other["reference"]


def test_what_is_undecided_or_wrong_is_counted(played: Contest) -> None:
    long, short = LONG, SHORT
    for column in ("undecided", "wrong_commits", "wrong_at_end"):
        assert of(played, long, "elimination, certified", column) == 0
        assert of(played, short, CHAMPION, column) == 0
    # Ten thousand slots are too few for others: they play both arms to the end.
    entrant = "authors-baseline"
    assert of(played, short, entrant, "undecided") >= of(played, short, entrant, "wrong_at_end")
    assert of(played, short, entrant, "wrong_at_end") > 0
    assert of(played, short, entrant, "wrong_commits") == 0
    table = played.table
    assert all(
        (wrong or 0) <= at_end
        for wrong, at_end in zip(table["wrong_commits"], table["wrong_at_end"], strict=True)
    )


def test_an_algorithm_that_never_commits_is_neither_undecided_nor_wrong(played: Contest) -> None:
    for entrant in ("ucb1", "local-ucb"):
        assert of(played, SHORT, entrant, "undecided") is None
        assert of(played, SHORT, entrant, "wrong_commits") is None
        assert of(played, SHORT, entrant, "wrong_at_end") > 0
    rows = shown_standings(contest_summary(played)).rows
    assert {str(row[0]).split()[0]: list(row[-3:-1]) for row in rows if "–" in row[-3:]} == {
        "ucb1": ["–", "–"],
        "local-ucb": ["–", "–"],
    }


def test_a_wrong_commitment_is_wrong_at_the_end() -> None:
    (game,) = chosen_games(["K = 2, gap 0.02, spread 0.02"])
    radius = fb.PaperRadius(arm=0.03, client=0.03)
    hasty = Entrant(
        label="hasty",
        enter=lambda _: fb.Fed2Ucb(pulls="2^(p+4)", admissions="2^p", radius=radius),
    )
    table = play_contest([game], entering=[hasty], replications=40, workers=1).table
    assert table["undecided"] == [0]
    assert 0 < table["wrong_commits"][0] < 40
    assert table["wrong_at_end"] == table["wrong_commits"]


def made_up(*, ratios: list[float], above: list[float], margins: list[float]) -> Table:
    columns = {"ratio": ratios, "ratio_margin": margins, "above": above, "above_margin": margins}
    n = len(ratios)
    return {
        "game": ["a"] * n,
        "entrant": list("xyzw"[:n]),
        "reference": [False] * n,
        "replications": [9] * n,
        "times_bound": [None] * n,
        **{name: [0] * n for name in ("undecided", "wrong_commits", "wrong_at_end")},
        **{f"{field}_{name}": v for field in ("asking", "all") for name, v in columns.items()},
    }


def test_a_first_that_is_close_to_another_is_marked() -> None:
    clear = made_up(ratios=[1.0, 1.2, 2.0], above=[0.0, 2.0, 9.0], margins=[0.0, 1.0, 8.0])
    assert told_apart(clear, "all") == {"a": True}
    # Not from the next alone: the last one has a wide interval.
    wide = made_up(ratios=[1.0, 1.2, 2.0], above=[0.0, 2.0, 9.0], margins=[0.0, 1.0, 10.0])
    assert told_apart(wide, "all") == {"a": False}
    tied = made_up(ratios=[1.0, 1.0], above=[0.0, 0.0], margins=[0.0, 0.0])
    assert told_apart(tied, "all") == {"a": False}
    assert {game: row["entrant"] for game, row in firsts(tied, "all").items()} == {"a": "x"}
    assert [place.all.told_apart for place in standings(clear)] == [1, 0, 0]
    assert [place.all.told_apart for place in standings(wide)] == [0, 0, 0]


def test_a_profile_rises_to_the_share_of_games_that_were_played() -> None:
    table = made_up(ratios=[1.0, 2.0, 1.0], above=[0.0, 5.0, 0.0], margins=[0.0, 1.0, 0.0])
    table["game"], table["entrant"] = ["a", "a", "b"], ["x", "y", "x"]
    assert profile(table, "y", "asking", np.array([1.0, 2.0, 9.0])).tolist() == [0.0, 0.5, 0.5]
    chart = profile_chart(table)
    assert [panel.title for panel in chart.panels] == [
        "among algorithms that must ask clients",
        "among all entrants, references included",
    ]
    assert len(figure_of(chart).legends) == 1


# The lower bound ----------------------------------------------------------------------------------


def test_regret_is_shown_as_a_multiple_of_the_bound_where_one_is_proven() -> None:
    chosen = chosen_games(["figure 4, C = 100", "figure 4, C = 0", "rates 0.3 to 0.6, C = 10"])
    asking = [one for one in entrants() if one.label in {CHAMPION, "elimination, optimal"}]
    reference = [one for one in entrants() if one.label == "improved-ucb"]
    found = play_contest(chosen, entering=asking + reference, replications=4, workers=1)
    multiples = []
    for game in chosen[:2]:
        worse = np.delete(game.problem.means.max() - game.problem.means, -1)
        bound = lower_bound(worse, noise=0.5, spread=0.02, cost=game.cost).at(game.horizon)
        assert of(found, game.name, CHAMPION, "lower_bound") == pytest.approx(bound)
        assert of(found, game.name, CHAMPION, "no_bound") is None
        multiples.append(of(found, game.name, CHAMPION, "regret") / bound)
        assert of(found, game.name, CHAMPION, "times_bound") == pytest.approx(multiples[-1])
        assert of(found, game.name, "improved-ucb", "times_bound") is None
    rates = chosen[2].name
    assert of(found, rates, CHAMPION, "lower_bound") is of(found, rates, CHAMPION, "times_bound")
    assert "bernoulli" in of(found, rates, CHAMPION, "no_bound")
    places = {place.entrant: place for place in standings(found.table)}
    own = places[CHAMPION]
    assert (own.games, own.bounded_games) == (3, 2)
    assert own.times_bound == pytest.approx(np.sqrt(multiples[0] * multiples[1]))
    assert (places["improved-ucb"].bounded_games, places["improved-ucb"].times_bound) == (0, None)
    summary = contest_summary(found)
    (without,) = without_bound(summary)
    assert without.startswith(f"No bound is proven for 1 game ({rates}): ")
    shown = {row[0]: row for row in shown_games(summary).rows}
    assert (shown[rates][2], shown[rates][3]) == ("–", "–")
    assert shown[chosen[0].name][3] == f"{multiples[0]:.2f}"


def test_optimal_elimination_is_told_what_a_report_costs() -> None:
    (cheap, expensive) = chosen_games(["figure 4, C = 0", "figure 4, C = 100"])
    (optimal,) = (one for one in entrants() if one.label == "elimination, optimal")
    playing = [
        one for game in (cheap, expensive) if not isinstance(one := optimal.variant(game), str)
    ]
    assert [one.algorithm.uses_cost for one in playing] == [True, True]
    first = [build_rules([one], 10**6)[0][0] for one in playing]
    pulls = [0 if rule.decides_every_slot else rule.pulls(5) for rule in first]
    assert pulls[0] == 1 < pulls[1]


# Guests -------------------------------------------------------------------------------------------


(DOCUMENTED,) = re.findall(
    r"```python\n(.*?)```", (DOCS / "extending.md").read_text(encoding="utf-8"), flags=re.DOTALL
)
NO_DEFAULT = DOCUMENTED.replace("phases: int = 10", "phases: int")
ONLY_A_RADIUS = DOCUMENTED[: DOCUMENTED.index("@fb.ALGORITHMS")]
IN_SLOTS = """
from dataclasses import dataclass
from typing import ClassVar
import fedbandits as fb

@fb.ALGORITHMS.register
@dataclass(frozen=True, kw_only=True)
class OwnUcb(fb.Ucb1):
    name: ClassVar[str] = "own-ucb"
"""


def entering_file(folder: Path, source: str) -> Plugin:
    path = folder / "my_rules.py"
    path.write_text(source, encoding="utf-8")
    return Plugin.read(path, "--plugin")


def test_a_plugin_enters_with_one_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = DOCUMENTED.replace("phases: int = 10", "phases: int = 2")
    entering_file(tmp_path, source)
    game = "K = 5, gap 0.2, spread 0.05"
    asked = ["contest", game, "-n", "4", "-w", "1", "--plugin", "my_rules.py", "-o", "out"]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    assert "hasty-ucb" in result.output
    assert "every entrant, with my_rules.py, seed 8" in result.output
    found = json.loads(Path("out/contest.json").read_text(encoding="utf-8"))
    assert found["plugins"] == [{"path": str(tmp_path / "my_rules.py"), "source": source}]
    assert "hasty-ucb" in Path("out/report.html").read_text(encoding="utf-8")
    # The others play as if it were not there.
    (played,) = found["games"]
    without = play_contest(chosen_games([game]), replications=4, workers=1).table
    others = {one["entrant"]: one for one in played["entrants"]}
    hasty = others.pop("hasty-ucb")
    regrets = {name: one["regret"] for name, one in others.items()}
    assert regrets == dict(zip(without["entrant"], without["regret"], strict=True))
    # It is the paper's elimination with the paper's schedules, cut short by its default.
    assert hasty["phases"] == 2 < others["elimination, paper"]["phases"]
    assert hasty["asking"]["ratio"] > 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (ONLY_A_RADIUS, "my_rules.py: registers no algorithm, and only algorithms enter"),
        (NO_DEFAULT, 'my_rules.py, "hasty-ucb": has no default for phases'),
        (
            DOCUMENTED.replace('"2^p"', '"2^"'),
            'my_rules.py, "hasty-ucb".admissions: ',
        ),
        (
            DOCUMENTED.replace('"hasty-ucb"', '"elimination, paper"'),
            'the contest has an entrant "elimination, paper" already',
        ),
        ("import fedbandits", "my_rules.py: registers nothing"),
    ],
)
def test_a_file_that_cannot_enter_is_refused_in_one_line(
    tmp_path: Path, source: str, message: str
) -> None:
    plugin = entering_file(tmp_path, source)
    with pytest.raises(fb.InputError) as refused:
        play_contest(chosen_games(["figure 3, M = 5"]), plugins=[plugin], replications=2)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_plugin_is_named_with_its_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = command("contest", "figure 3", "--plugin", "none.py")
    assert result.returncode == 2
    assert result.stderr == "error: --plugin: none.py cannot be read: No such file or directory\n"


def test_games_that_a_guest_cannot_play_are_told_with_the_reason(tmp_path: Path) -> None:
    plugin = entering_file(tmp_path, IN_SLOTS)
    long, short = chosen_games(["figure 4, C = 0"]), chosen_games([SHORT])
    index = [one for one in entrants() if one.label == CHAMPION]
    found = play_contest(
        [*long, *short], entering=index, plugins=[plugin], replications=2, workers=1
    )
    pairs = list(zip(found.table["game"], found.table["entrant"], strict=True))
    assert (long[0].name, "own-ucb") not in pairs
    assert (short[0].name, "own-ucb") in pairs
    assert absences(contest_summary(found)) == [
        "own-ucb does not play 1 game: it decides in every slot, and the game has more than 10⁵ of"
        " them."
    ]
    with pytest.raises(fb.InputError, match='"own-ucb": can play none of the chosen games: it dec'):
        play_contest(long, entering=index, plugins=[plugin], replications=2, workers=1)


def test_a_guest_that_needs_every_client_does_not_slow_down_the_others() -> None:
    (game,) = chosen_games(["figure 4, C = 0"])
    one_by_one = fb.Fed2Ucb(pulls=100, admissions="2^p", radius=fb.PairedTRadius())
    playing = [
        Variant(label=label, problem=game.problem, algorithm=algorithm)
        for label, algorithm in {"moss": fb.FedIndex(), "own": one_by_one}.items()
    ]
    alike = in_one_fidelity(playing, game.horizon)
    assert [one.fidelity for one in alike] == ["clients", "clients"]
    apart = in_one_fidelity(playing, game.horizon, guests={"own"})
    assert [one.fidelity for one in apart] == ["cohorts", "clients"]


# What is written ----------------------------------------------------------------------------------


def test_the_command_writes_tables_profile_and_page(tmp_path: Path) -> None:
    out = tmp_path / "contest"
    name = "K = 5, gap 0.2, spread 0.05"
    arguments = ["contest", name.lower(), "-n", "4", "--seed", "77", "-w", "1", "-o", str(out)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "1 game, 4 replications of each by every entrant, seed 77" in result.output
    assert "among all entrants, references included" in " ".join(result.output.split())
    written = {path.name for path in out.iterdir()}
    assert written == {
        *("contest.json", "contest.md", "contest.parquet"),
        *("profile.png", "profile.pdf", "report.html"),
    }
    found = json.loads((out / "contest.json").read_text(encoding="utf-8"))
    assert (found["seed"], found["replications"]) == (77, 4)
    assert set(found["versions"]) == {"python", "fedbandits", "numpy", "scipy"}
    (game,) = found["games"]
    assert (game["fidelity"], game["replications"]) == ("cohorts", 4)
    for entrant in game["entrants"]:
        assert entrant["margin"] > 0
        assert (entrant["asking"] is None) == entrant["reference"]
        assert set(entrant["all"]) == {"ratio", "ratio_margin", "above", "above_margin"}
        assert {"undecided", "wrong_commits", "wrong_at_end"} < set(entrant)
    frame = pl.read_parquet(out / "contest.parquet")
    assert frame["regret"].to_list() == [entrant["regret"] for entrant in game["entrants"]]
    assert (out / "contest.md").read_text(encoding="utf-8") == as_markdown(found)
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "<h1>A contest on 1 game</h1>" in page
    for words in (name, "seed 77", "undecided", "wrong commits", "wrong at the end", "of all"):
        assert words in page
    assert page.count("data-figure=") == 1
    without_scripts = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert "http" not in without_scripts.replace("http-equiv", "")


def test_the_seed_decides_and_is_8_by_default(tmp_path: Path) -> None:
    game = "figure 4, C = 0"
    asked = ["contest", game, "-n", "2", "-w", "1", "-o", str(tmp_path)]
    assert CliRunner().invoke(app, asked).exit_code == 0
    found = json.loads((tmp_path / "contest.json").read_text(encoding="utf-8"))
    regrets = [entrant["regret"] for entrant in found["games"][0]["entrants"]]
    again, another = (
        play_contest(chosen_games([game]), replications=2, seed=seed, workers=1).table["regret"]
        for seed in (8, 9)
    )
    assert regrets == again
    assert regrets != another


def test_help_says_what_a_game_is() -> None:
    said = " ".join(CliRunner().invoke(app, ["contest", "--help"]).output.split())
    assert "Parts of names of games" in said


def test_a_misspelt_game_ends_with_a_line_and_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = command("contest", "figure 3", "fgure 4", "-o", "out")
    assert done.returncode == 2
    assert done.stderr.startswith("error: GAME: ")
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_an_interrupted_contest_leaves_nothing_behind(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "fedbandits", "contest", "figure 4, C = 0", "rates"),
            *("-n", "100", "-o", str(tmp_path / "new" / "out")),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("1 of 7: figure 4, C = 0")
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=600)
    assert process.returncode == 130
    assert stdout == ""
    assert stderr == "interrupted; nothing was written\n"
    assert not list(tmp_path.iterdir())


def test_the_documentation_shows_a_written_contest(played: Contest) -> None:
    """Its tables are those of a contest.md: the same columns, entrants and games, n and seed."""
    page = (DOCS / "index-rules.md").read_text(encoding="utf-8").split("## The contest")[1]
    assert "fedbandits contest -n 200 --seed 8 --out" in page
    assert "62 games, 200 replications of each by every entrant, seed 8" in page
    lines = [line for line in page.splitlines() if line.startswith("|")]
    rows = [line.strip("| ").split(" | ") for line in lines]
    for shown in (shown_standings, shown_games):
        assert shown(contest_summary(played)).headings in rows
    named = {first.removesuffix(" (reference)") for first, *_ in rows}
    assert {entrant.label for entrant in entrants()} <= named
    assert {game.name for game in GAMES} <= named
    own = dict(zip(rows[0], next(row for row in rows if row[0] == CHAMPION), strict=True))
    assert int(own["within 10 %"]) >= 0.95 * int(own["games"]) == 0.95 * len(GAMES)
