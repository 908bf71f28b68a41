"""MovieLens with its real users: facts, games and section, on small data made here."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from fedbandits.problems import Exact, Gaussian
from fedbandits.reproduce.movielens.store import import_data, load_real_clients, load_real_ratings
from fedbandits.reproduce.part import Kept
from fedbandits.reproduce.real_data import table as tables
from fedbandits.reproduce.real_data.section import PART, _reading, drawable, wrong_order
from fedbandits.reproduce.real_data.table import first_again, matrix_facts, pair_facts
from fedbandits.reproduce.reproduction import reproduce_paper
from fedbandits.reproduce.steps import Step
from fedbandits.rules.arrays import FloatArray, IntArray
from fedbandits.rules.phased import PhasedRule
from fedbandits.simulation import build_rules
from rating_files import RATINGS, folder, matrix
from rating_files import table as ratings_file
from rule_calls import width_of

COMMAND = "fedbandits data import PATH"
NOT_IMPORTED = "data not imported"
KEYS = ["all", "some", "finite", "finite-theory", "unlimited", "released"]


def totals(n: int = 60) -> IntArray:
    """Return what users gave to 5 groups: users differ widely, groups hardly."""
    return np.random.default_rng(3).integers(0, 12, (n, 5))


def users(n: int = 60) -> FloatArray:
    """Return the same, every user's divided by the largest."""
    return np.asarray(totals(n) / totals(n).max(axis=1, keepdims=True))


def section(table: dict[str, Any]) -> str:
    """Return the section, whose image is not looked at."""
    images = {"order": b""} if drawable(table) else {}
    return PART.section(Kept(made_from="", replications=None, table=table, images=images))


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDBANDITS_DATA", str(tmp_path / "store"))


# Facts


def test_facts_are_those_of_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_VALUES", 0)  # no games
    values = users()
    import_data(matrix(tmp_path / "means.npy", values))
    (facts,) = PART.compute()["data"]
    means = values.mean(axis=0)
    second, best = np.argsort(means)[-2:]
    gap = means[best] - means[second]
    spread = values.std(axis=0, ddof=1).mean()
    paired = stats.ttest_rel(values[:, best], values[:, second])
    assert (facts["kind"], facts["source"]) == ("matrix", "means.npy")
    assert (facts["users"], facts["clients"], facts["groups"]) == (60, 60, 5)
    assert (facts["best_group"], facts["second_group"]) == (best, second)
    assert facts["best_mean"] == pytest.approx(means.max())
    assert facts["gap"] == pytest.approx(gap)
    assert facts["spread"] == pytest.approx(spread)
    assert facts["z"] == pytest.approx(paired.statistic)
    assert facts["higher"] == (values[:, best] > values[:, second]).mean()
    assert facts["lower"] == (values[:, best] < values[:, second]).mean()
    theorem = 4 * spread**2 / gap**2 * math.log(5 * 10**6)
    assert facts["clients_by_theorem"] == math.ceil(theorem)


def test_the_clients_needed_put_two_groups_in_order_in_99_of_100_samples() -> None:
    rng = np.random.default_rng(5)
    differences = rng.normal(0.05, 0.3, 400)
    facts = pair_facts(differences) | {"gap": float(differences.mean()), "clients": 400}
    for key, finite in (("clients_unlimited", False), ("clients_of_these", True)):
        enough = facts[key]
        around = np.array([enough - 1, enough], dtype=np.float64)
        before, after = wrong_order(facts, around, finite=finite)
        assert after <= 0.01 < before
    # Counted: samples of 250 of these clients, without replacement.
    means = [rng.choice(differences, 250, replace=False).mean() for _ in range(4_000)]
    (expected,) = wrong_order(facts, np.array([250.0]), finite=True)
    wrong = np.mean(np.array(means) < 0)
    assert abs(wrong - expected) < 5 * math.sqrt(expected / 4_000) + 0.002
    assert expected > 0.0005


def test_the_best_group_is_first_again_as_often_as_the_normal_law_says() -> None:
    rng = np.random.default_rng(6)
    rows = rng.normal(0.5, 0.1, (300, 2))
    rows -= rows.mean(axis=0) - [0.505, 0.5]
    z = 0.005 / (rows[:, 0] - rows[:, 1]).std() * math.sqrt(300)
    expected = stats.norm.cdf(z)
    assert 0.6 < expected < 0.9
    assert abs(first_again(rows, seed=1, times=4_000) - expected) < 5 * 0.5 / 4_000**0.5


def test_a_matrix_of_totals_is_told_from_one_of_means() -> None:
    found = matrix_facts(users())
    # A fraction in lowest terms has lost what all totals of a user share.
    largest = totals().max(axis=1) // np.gcd.reduce(totals(), axis=1)
    assert found["denominators"] == [largest.min(), np.median(largest), largest.max()]
    assert found["largest_is_one"] == 1
    assert found["zeros"] == (totals() == 0).mean()
    assert not found["as_released"]
    rng = np.random.default_rng(1)
    rated = [[rng.integers(1, 11, rng.integers(1, 30)).mean() for _ in range(8)] for _ in range(20)]
    means = np.array(rated) / np.max(rated, axis=1, keepdims=True)
    assert matrix_facts(means)["denominators"] is None


# Games


def test_fed1_with_all_clients_finds_their_best_group(tmp_path: Path) -> None:
    import_data(matrix(tmp_path / "means.npy", users(40)))
    (game,) = PART.compute(games=20, workers=1)["games"]
    rows = {row["key"]: row for row in game["variants"]}
    assert list(rows) == KEYS
    assert (game["kind"], game["game"], game["replications"]) == ("matrix", "real clients", 20)
    assert (rows["all"]["wrong"]["share"], rows["all"]["undecided"]["share"]) == (0, 0)
    assert rows["all"]["clients"] == 40
    # Half of them have a favourite of their own.
    assert rows["some"]["clients"] == 20
    assert rows["some"]["wrong"]["share"] > 0.3
    # Constants that carry the proofs lose no best group, and need everyone.
    assert rows["finite-theory"]["wrong"]["share"] == 0
    assert rows["finite-theory"]["clients"] == 40
    # A sample of 40 does not decide; a rule that believes in hardly any spread does, wrongly.
    assert rows["unlimited"]["undecided"]["share"] == 1
    assert rows["released"]["wrong"]["low"] > 0.1
    for row in rows.values():
        for share in (row["wrong"], row["undecided"]):
            assert share["low"] <= share["share"] <= share["high"]


def test_the_same_seed_gives_the_same_table(tmp_path: Path) -> None:
    import_data(matrix(tmp_path / "means.npy", users(12)))
    first = PART.compute(games=5, workers=1)
    assert PART.compute(games=5, workers=2) == first
    assert json.loads(json.dumps(first, allow_nan=False)) == first


def test_data_that_is_too_large_is_described_and_not_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MOST_VALUES", 59)
    import_data(matrix(tmp_path / "means.npy", users(12)))
    table = PART.compute()
    assert table["data"][0]["first_again"] is None
    assert table["games"][0]["variants"] == []
    assert "Too many clients and arms" in section(table)


@pytest.mark.parametrize(
    "values",
    [
        [[0.5, 0.25, 0.5]],  # one client, and a tie
        [[0.5, 0.25], [0.75, 0.5]],  # clients who agree on the difference
        [[0.5, 0.5], [0.25, 0.25], [0.25, 0.25]],
    ],
)
def test_data_that_says_little_has_a_section_all_the_same(
    tmp_path: Path, values: list[list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "HORIZON", 10_000)
    import_data(matrix(tmp_path / "means.npy", values))
    table = PART.compute(games=2, workers=1)
    json.dumps(table, allow_nan=False)
    assert table["data"][0]["z"] is None
    text = section(table)
    assert "<figure" not in text
    assert "nan" not in text
    assert len(table["games"][0]["variants"]) == len(KEYS)


def test_a_rule_that_takes_users_for_a_sample_subtracts_no_population() -> None:
    game = Exact(local_means=users(), noise=Gaussian(0.2))
    plays = tables.plays_of(game, 0.3)
    assert list(plays) == KEYS
    rules = dict(zip(plays, build_rules([*plays.values()], 10**6), strict=True))
    widths = {
        key: float(width_of(rule, phase=6, counts=np.full((1, 1, 60), 10**6)).max())
        for key, (rule, _) in rules.items()
        if isinstance(rule, PhasedRule)
    }
    # Everyone is in, and has pulled without end.
    assert widths["all"] == pytest.approx(0.2 * math.sqrt(math.log(10**6) / 60e6))
    assert widths["finite"] == pytest.approx(widths["all"])
    client = 0.3 * math.sqrt(0.25 * math.log(10**6) / 60)
    assert widths["unlimited"] - widths["all"] == pytest.approx(client)
    for key in ("unlimited", "released"):
        rule, _ = rules[key]
        assert isinstance(rule, PhasedRule)
        assert (rule.population, rule.target) == (60, "population")
        # 30 are in: all others come, and then nobody.
        assert rule.admit(5, 30, False) == (30, False)
        assert rule.admit(6, 60, False) == (0, False)
    # 2 + 4 + 8 + 16 + 32 is 60 or more, and four more phases.
    assert plays["unlimited"].max_phases == 9
    assert plays["finite"].assume.spread == 0.3
    assert plays["released"].assume.spread == 0.02


# The section


def test_without_data_the_section_says_how_to_import_it() -> None:
    table = PART.compute()
    assert table == {"data": [], "games": []}
    heading, text = PART.heading, section(table)
    assert heading == "MovieLens with its real users"
    for words in (NOT_IMPORTED, COMMAND, "HetRec 2011", "GroupLens", "non-commercial"):
        assert words in text
    assert "<table>" not in text


def test_matrix_and_archive_are_labelled_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "HORIZON", 20_000)
    import_data(matrix(tmp_path / "<means>.npy", users(12)))
    text = section(PART.compute(games=2, workers=1))
    assert f"Real ratings: {NOT_IMPORTED}" in text
    assert COMMAND in text
    assert "HetRec archive: real" not in text
    import_data(folder(tmp_path / "archive"), n_groups=3)
    table = PART.compute(games=2, workers=1)
    assert [facts["kind"] for facts in table["data"]] == ["matrix", "ratings"]
    assert [(game["kind"], game["game"]) for game in table["games"]] == [
        ("matrix", "real clients"),
        ("ratings", "real clients"),
        ("ratings", "real ratings"),
    ]
    clients, ratings = load_real_clients(kind="ratings"), load_real_ratings()
    assert clients is not None
    assert ratings is not None
    facts = table["data"][1]
    assert facts["best_mean"] == pytest.approx(clients.means.max())
    assert facts["ratings"] == len(RATINGS)
    assert [game["noise"] for game in table["games"]] == [0.2, 0.2, ratings.noise_proxy]
    text = section(table)
    for words in (
        "<h3>Your matrix: real clients</h3>",
        "<h3>HetRec archive: real clients</h3>",
        "<h3>HetRec archive: real ratings</h3>",
        "&lt;means&gt;.npy",
        f"{facts['gap']:.5f}",
        f"{table['data'][0]['gap']:.5f}",
    ):
        assert words in text
    assert NOT_IMPORTED not in text
    assert "<means>" not in text


def test_a_matrix_of_something_else_is_not_called_movielens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "HORIZON", 20_000)
    import_data(matrix(tmp_path / "own.npy", users(12)))
    table = PART.compute(games=2, workers=1)
    title, text = PART.heading_of(Kept(made_from="", replications=2, table=table)), section(table)
    assert title == "Your matrix of local means"
    own = text.split("Real ratings: data not imported")[0]
    shown = re.sub(r"<script.*?</script>|<[^>]*>", "", own, flags=re.DOTALL)
    assert not re.search(r"\b(users?|groups?|movies?)\b", shown)
    import_data(folder(tmp_path / "archive"), n_groups=3)
    table = PART.compute(games=2, workers=1)
    assert PART.heading_of(Kept(made_from="", replications=2, table=table)) == PART.heading
    assert "users" in section(table)


def test_an_archive_alone_says_that_the_matrix_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MOST_VALUES", 0)
    import_data(folder(tmp_path / "archive"), n_groups=3)
    text = section(PART.compute())
    assert f"The authors' matrix: {NOT_IMPORTED}" in text
    assert "What the values of the matrix are" not in text


def row(key: str, regret: float, margin: float, *, wrong: float = 0.0) -> dict[str, Any]:
    """Return results of a variant as they stand in the table."""
    return {
        "key": key,
        "label": key.upper(),
        "told": "",
        "regret": {"mean": regret, "margin": margin},
        "wrong": {"share": wrong, "low": 0.8 * wrong, "high": min(1.0, wrong + 0.1)},
        "undecided": {"share": 0.0, "low": 0.0, "high": 0.1},
        "clients": 20.0,
        "phases": 2.0,
    }


@pytest.mark.parametrize(
    ("regrets", "least", "verdict"),
    [
        # As on the authors' matrix: all, some, finite, theory, unlimited, released.
        (
            (400, 2_000, 2_400, 1_700, 4_000, 200),
            "lowest mean regret had “ALL” with 400 ± 10",
            "Against Fed1-UCB with all clients that ordering is reversed here",
        ),
        (
            (400, 2_000, 300, 100, 4_000, 200),
            "lowest mean regret had “FINITE-THEORY” with 100 ± 10",
            "That ordering is found here, too",
        ),
        (
            (400, 2_000, 405, 1_700, 4_000, 200),
            "The difference from “FINITE” is within sampling error.",
            "That ordering is not reproduced here",
        ),
    ],
)
def test_regrets_are_compared_and_worded_by_what_was_found(
    regrets: tuple[float, ...], least: str, verdict: str
) -> None:
    wrong = {"some": 0.9, "released": 0.95}
    rows = [
        row(key, regret, 10.0, wrong=wrong.get(key, 0.0))
        for key, regret in zip(KEYS, regrets, strict=True)
    ]
    text = _reading(rows)
    assert least in text
    assert verdict in text
    assert "had 200 ± 10, less than Fed1-UCB with all clients; but it ended on a wrong" in text
    for regret in regrets[:4]:
        assert f"{regret:,} ± 10" in text


def test_regrets_of_variants_that_find_nothing_are_not_ranked() -> None:
    rows = [row(key, 100.0, 10.0, wrong=0.5) for key in KEYS]
    assert "No variant settled on the best group in at least 95 %" in _reading(rows)
    rows[0] = row("all", 100.0, 10.0)
    assert "Only one variant settled on the best group" in _reading(rows)
    assert "not clearly different from Fed1-UCB with all clients" in _reading(rows)


def test_the_figure_is_there_for_print(tmp_path: Path) -> None:
    import_data(matrix(tmp_path / "means.npy", users(12)))
    out = tmp_path / "out"
    for _ in range(2):
        reproduce_paper(["movielens"], out, replications=2, workers=1)
    folder_ = out / "movielens"
    assert (folder_ / "order.png").read_bytes().startswith(b"\x89PNG")
    assert (folder_ / "order.pdf").read_bytes().startswith(b"%PDF")
    points = pl.read_parquet(folder_ / "order.parquet")
    (facts,) = PART.compute(games=2, workers=1)["data"]
    assert set(points["population"]) == {"unlimited", "these alone"}
    for population, finite in (("unlimited", False), ("these alone", True)):
        part = points.filter(pl.col("population") == population)
        expected = wrong_order(facts, part["clients"].to_numpy(), finite=finite)
        np.testing.assert_allclose(part["wrong_order"].to_numpy(), expected)
        assert part["clients"].min() == 1


# Kept until something changes


def test_other_data_or_settings_have_another_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = [PART.fingerprint(None)]
    import_data(matrix(tmp_path / "means.npy", users()))
    seen.append(PART.fingerprint(None))
    changed = users()
    changed[0, 0] = 0.123
    import_data(matrix(tmp_path / "means.npy", changed))
    seen += [PART.fingerprint(None), PART.fingerprint(50)]
    import_data(folder(tmp_path / "archive", ratings_file(RATINGS)), n_groups=3)
    seen.append(PART.fingerprint(None))
    import_data(folder(tmp_path / "other", ratings_file(RATINGS[:-1])), n_groups=3)
    seen.append(PART.fingerprint(None))
    again = PART.fingerprint(None)
    monkeypatch.setattr(tables, "NOISE", 0.3)
    seen.append(PART.fingerprint(None))
    assert len(set(seen)) == len(seen)
    assert again == seen[-2]


def test_the_table_is_kept_until_the_data_changes(tmp_path: Path) -> None:
    told: list[Step] = []
    out = tmp_path / "out"

    def reproduce() -> str:
        page = reproduce_paper(["movielens"], out, replications=2, workers=1, watch=told.append)
        return page.read_text(encoding="utf-8")

    assert NOT_IMPORTED in reproduce()
    reproduce()
    import_data(matrix(tmp_path / "means.npy", users(6)))
    assert "<h3>Your matrix: real clients</h3>" in reproduce()
    assert {path.name for path in out.iterdir()} == {"movielens", "movielens.json", "report.html"}
    made = [step for step in told if step.state != "running"]
    assert [step.state for step in made] == ["done", "as it was", "done"]
    # Six variants, each played twice.
    assert [(step.replications, step.all_replications) for step in made] == [
        (0, 0),
        (0, 0),
        (12, 12),
    ]
