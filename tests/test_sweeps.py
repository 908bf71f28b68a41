"""Sweeps: grids, draws in common, what is kept, what is drawn, what is refused."""

from __future__ import annotations

import io
import json
import math
import signal
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.console import Console

import fedbandits as fb
from fedbandits.cli.progress import show_sweep
from fedbandits.rules.schedules import as_schedule
from fedbandits.simulation.fidelities import Fidelity
from fedbandits.sweeps.cells import cells_of
from fedbandits.sweeps.doubts import Doubt, warnings_of
from fedbandits.sweeps.figures import sweep_figure
from fedbandits.sweeps.grid import Range, read_grid
from fedbandits.sweeps.pictures import Lines, Maps, picture_of
from fedbandits.sweeps.run import SweepStep, run_sweep
from fedbandits.sweeps.store import FOLDER, Store
from fedbandits.sweeps.text import comparisons_table
from sweep_files import BASE, CELL_BY_CELL_FILE, DISTURBED, FILE, sweep_of
from test_cli import command

WIDE = {"from": 1000, "to": 10**9}
GRID = {"problem.spread.sigma": [0.05, 0.1, 0.2], "variants.pulls": ["10", "20"]}


def run(grid: dict[str, Any], folder: Path, **changed: Any) -> fb.SweepResults:
    return run_sweep(sweep_of(grid, **changed), folder, workers=1)


# The grid -----------------------------------------------------------------------------------------


def test_keys_are_crossed_and_the_last_changes_fastest() -> None:
    sweep = sweep_of(GRID)
    assert len(sweep) == 6
    assert [sweep.label(number) for number in range(3)] == [
        "spread.sigma = 0.05, pulls = 10",
        "spread.sigma = 0.05, pulls = 20",
        "spread.sigma = 0.1, pulls = 10",
    ]


def test_zipped_keys_vary_together() -> None:
    sweep = sweep_of({**GRID, "variants.pulls": ["10", "20", "30"], "combine": "zip"})
    values = [tuple(sweep.values(number).values()) for number in range(len(sweep))]
    assert values == [(0.05, "10"), (0.1, "20"), (0.2, "30")]


def test_a_setting_is_the_file_with_other_values() -> None:
    sweep = sweep_of({**GRID, "problem.means[2]": [0.8, 0.95]})
    experiment = sweep.experiment(len(sweep) - 1)
    problem = experiment.variants[0].problem
    assert problem.means.tolist() == [0.5, 0.6, 0.95]
    assert problem.spread_proxy == 0.2
    assert isinstance(experiment.variants[0].algorithm, fb.Fed2Ucb)
    assert as_schedule(experiment.variants[0].algorithm.pulls).source == "20"
    assert BASE["problem"]["means"] == [0.5, 0.6, 0.9]


def test_a_key_of_all_variants_is_set_where_it_exists() -> None:
    both = [{**BASE["variants"][0], "label": name} for name in ("a", "b")]
    sweep = sweep_of({"variants.pulls": ["7"]}, variants=[*both, BASE["variants"][1]])
    assert [table.get("pulls") for table in sweep.tables_of(0)["variants"]] == ["7", "7", None]
    sweep = sweep_of({"variants[1].pulls": ["7"]}, variants=both)
    assert [table["pulls"] for table in sweep.tables_of(0)["variants"]] == ["10", "7"]


def test_keys_may_be_written_without_quotes() -> None:
    quoted = tomllib.loads('"problem.spread.sigma" = [0.1]\n"variants[0].pulls" = ["7"]')
    bare = tomllib.loads('problem.spread.sigma = [0.1]\n"variants[0]".pulls = ["7"]')
    assert read_grid(quoted) == read_grid(bare)


def test_a_key_called_like_a_part_of_a_range_may_be_written_without_quotes() -> None:
    quoted = tomllib.loads('"variants.privacy.scale" = [1, 2]')
    assert read_grid(quoted) == read_grid(tomllib.loads("variants.privacy.scale = [1, 2]"))
    ranged = 'variants.privacy.scale = { from = 1, to = 9, points = 3, scale = "log" }'
    (axis,), _ = read_grid(tomllib.loads(ranged))
    assert (axis.key, axis.values()) == ("variants.privacy.scale", [1, 3, 9])


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ({"from": 0.0, "to": 1.0, "points": 11}, [n / 10 for n in range(11)]),
        ({"from": 0.005, "to": 0.5, "points": 3, "scale": "log"}, [0.005, 0.05, 0.5]),
        ({"from": 1, "to": 1000, "points": 4, "scale": "log"}, [1, 10, 100, 1000]),
        ({"from": 1, "to": 3, "points": 3}, [1, 2, 3]),
        ({"from": 1, "to": 3.0, "points": 5}, [1.0, 1.5, 2.0, 2.5, 3.0]),
        ({"from": 0.1, "to": 0.5, "step": 0.1}, [0.1, 0.2, 0.3, 0.4, 0.5]),
        ({"from": 10, "to": 1, "step": -4}, [10, 6, 2]),
        ({"from": 2, "to": 2, "points": 1}, [2]),
    ],
)
def test_ranges(given: dict[str, Any], values: list[float]) -> None:
    (axis,), _ = read_grid({"horizon": given})
    assert axis.values() == values
    assert [type(value) for value in axis.values()] == [type(value) for value in values]


def test_a_log_range_is_even_in_ratios() -> None:
    values = Range(start=0.003, stop=0.7, points=9, scale="log").values()
    ratios = [b / a for a, b in pairwise(values)]
    assert max(ratios) / min(ratios) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"problem.spred.sigma": [1.0]}, 'did you mean "problem.spread.sigma"?'),
        ({"variants.pull": ["1"]}, 'did you mean "variants.pulls"?'),
        ({"variants[0].admission": ["1"]}, 'did you mean "variants[0].admissions"?'),
        ({"variants[7].pulls": ["1"]}, 'did you mean "variants[0].pulls"?'),
        ({"horizn": [1000]}, 'did you mean "horizon"?'),
        ({"title": ["a"]}, "cannot be swept"),
        ({"grid_points": [1]}, "cannot be swept"),
        ({"variants.label": ["a"]}, "cannot be swept"),
        ({"variants[0].label": ["a"]}, "cannot be swept"),
        ({"problem.model": ["exact"]}, "cannot be swept"),
        (
            {"problem.means[3]": [0.5]},
            'sweep."problem.means[3]": problem.means has no entry 3; the list has 3 entries',
        ),
        ({"horizon[0]": [5]}, 'sweep."horizon[0]": horizon has no entry 0; the list has 0 entries'),
        ({"problem..sigma": [1.0]}, "is not a key such as"),
        ({}, "names no key"),
        ({"horizon": []}, "is an empty list"),
        ({"problem": {}}, "is empty; give a list of values or a range"),
        ({"horizon": 1000}, "1000 is one value; give a list"),
        ({"horizon": {"from": 1, "to": 9, "points": 0}}, "0 points; a range has at least 1"),
        ({"horizon": {"from": 1, "to": 9, "points": 1}}, "1 points; a range has 2 or more"),
        ({"horizon": {"from": 1, "to": 9, "points": 2.5}}, "2.5 is not a whole number"),
        ({"horizon": {"from": 1, "to": 9}}, "give either points or step"),
        ({"horizon": {"from": 1, "points": 9}}, "is missing; a range has both ends"),
        ({"horizon": {"from": 1, "to": 9, "step": 0}}, "the grid would not end"),
        ({"horizon": {"from": 1, "to": 9, "step": -1}}, "the grid would not end"),
        ({"horizon": {"from": 1, "to": math.inf, "points": 5}}, "inf is not finite"),
        ({"horizon": {"from": math.nan, "to": 1, "points": 5}}, "nan is not finite"),
        ({"horizon": {"from": 0, "to": 9, "points": 5, "scale": "log"}}, "has no logarithms"),
        ({"horizon": {"from": 1, "to": 9, "points": 5, "scale": "lg"}}, 'did you mean "log"?'),
        ({"horizon": {"from": 1, "to": 9, "points": 5, "base": 2}}, "is not a key of a range"),
        ({"communication_cost": [1.0, math.inf]}, "inf is not a finite number"),
        ({"horizon": [1000, 1000]}, "is there twice"),
        ({"horizon": [1000], "combine": "cros"}, 'did you mean "cross"?'),
        ({**GRID, "combine": "zip"}, "2 values and 3 of problem.spread.sigma"),
        ({"horizon": {**WIDE, "points": 10**7}}, "10,000,000 settings; say --yes"),
        ({"horizon": {**WIDE, "points": 2000}, "seed": {**WIDE, "points": 1000}}, "2,000,000 set"),
        ({"horizon": {**WIDE, "points": 10**12}, "seed": [1], "combine": "zip"}, "even with --yes"),
        ({"horizon": {**WIDE, "points": 10**24}}, "even with --yes"),
        ({"horizon": {"from": 0.1, "to": 1.0, "step": 1e-300}}, "the grid would not end"),
        ({"horizon": {"from": -1e99, "to": 1e99, "step": 1e-300}}, "the grid would not end"),
        (
            {"horizon": {"from": 0, "to": 10**400, "points": 3}},
            "a whole number this large is not finite",
        ),
        ({"horizon": {"from": 0, "to": 9, "step": 10**400}}, "the grid would not end"),
        ({"horizon": {"from": 0.0, "to": 1.0, "step": 1e-9}}, "1,000,000,001 settings; one sweep"),
        (
            {"communication_cost": {"from": 0, "to": 1, "points": 11}},
            "11 points, 2 different whole numbers; write 0.0 for fractions",
        ),
        (
            {"variants.pulls": {"from": 1, "to": 9, "points": 9, "scale": "log"}},
            "9 points, 7 different whole numbers",
        ),
        (
            {"communication_cost": {"from": 1.0, "to": 1.0 + 1e-12, "points": 5}},
            "different numbers of 12 digits",
        ),
        (
            {"variants.pulls": ["1"], "variants[0].pulls": ["2"]},
            'sets variants[0].pulls, and so does "variants.pulls"',
        ),
        (
            {"problem.noise.sigma": [0.1], "problem.noise": [{"law": "bernoulli"}]},
            'sets problem.noise, and so does "problem.noise.sigma"',
        ),
        (
            {"problem.means[1]": [0.1], "problem.means": [[0.2, 0.3]]},
            'sets problem.means, and so does "problem.means[1]"',
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_way_out(grid: dict[str, Any], message: str) -> None:
    with pytest.raises(fb.InputError, match=r"^sweep") as caught:
        sweep_of(grid)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 400  # not all the keys there are


def test_no_number_of_settings_is_too_large_to_be_refused() -> None:
    for points in (10**9, 10**12, 10**24):
        tables = {**BASE, "sweep": {"horizon": {**WIDE, "points": points}}}
        with pytest.raises(fb.InputError, match="one sweep has at most 10,000,000, even with --y"):
            fb.read_sweep(tables, most=None)


def test_a_setting_that_cannot_be_played_is_named_before_any_is(tmp_path: Path) -> None:
    with pytest.raises(fb.InputError) as caught:
        run({"problem.spread.sigma": [0.1, -0.1]}, tmp_path)
    assert str(caught.value).startswith("problem.spread.sigma: -0.1 is not a number from 0")
    assert "(setting: spread.sigma = -0.1)" in str(caught.value)
    with pytest.raises(fb.InputError, match=r"slots; the first phase.*setting: horizon = 5"):
        run({"horizon": [20_000, 5]}, tmp_path)
    assert not (tmp_path / FOLDER).exists()


FINITE_RATES = """
title = "finite rates"
horizon = 4_000
replications = 40

[problem]
model = "approximate"
means = [0.4, 0.6, 0.9]
noise = { law = "bernoulli" }
spread = { law = "beta", sigma = 0.1 }
population = 400

[[variants]]
algorithm = "fed2-ucb"
pulls = "100"
admissions = "10"
fidelity = "FIDELITY"
"""


def test_finite_populations_of_rates_are_valid_and_play(tmp_path: Path) -> None:
    path = tmp_path / "rates.toml"
    path.write_text(FINITE_RATES.replace("FIDELITY", "clients"), encoding="utf-8")
    assert command("check", path).returncode == 0
    assert command("run", path, "--quiet", "--workers", "1").returncode == 0
    with path.open("a", encoding="utf-8") as file:
        file.write('[sweep]\n"problem.population" = [400, 50, 10]\n')
    assert command("check", path).returncode == 0
    done = command("sweep", path, "--out", tmp_path / "out", "--quiet", "--workers", "1")
    assert (done.returncode, done.stderr) == (0, "")


def test_what_a_worker_refuses_ends_the_sweep_with_one_line(tmp_path: Path) -> None:
    path = tmp_path / "late.toml"
    grid = '[sweep]\n"problem.population" = [400, 300, 200, 100, 50, 40, 100_000, 30, 20, 10]\n'
    path.write_text(FINITE_RATES.replace("FIDELITY", "pulls") + grid, encoding="utf-8")
    words = ["--out", str(tmp_path / "out"), "--quiet", "--workers", "2", "--memory-limit", "4"]
    script = (
        "from fedbandits.cli import main\n"
        "from fedbandits.sweeps.backends import on_processes\n"
        "on_processes._SERIAL_SECONDS = 0.0\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "sweep", str(path), *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: memory_limit: a population of 100,000 takes 2 MiB")
    assert line.endswith("(setting: population = 100,000)")
    assert not (tmp_path / "out" / "replications.parquet").exists()


def test_a_file_without_a_sweep_is_refused() -> None:
    with pytest.raises(fb.InputError, match="sweep: is missing; name a key"):
        fb.read_sweep(BASE)


# Numbers ------------------------------------------------------------------------------------------


def test_the_table_has_a_row_a_setting_variant_and_replication(tmp_path: Path) -> None:
    table = run(GRID, tmp_path).replications()
    assert table.height == 6 * 2 * 30
    assert set(GRID) < set(table.columns)
    rows = table.filter((pl.col("setting") == 3) & (pl.col("variant") == "doubling"))
    assert rows["problem.spread.sigma"].unique().to_list() == [0.1]
    assert rows["variants.pulls"].unique().to_list() == ["20"]
    assert rows["replication"].to_list() == list(range(30))


@pytest.mark.parametrize("horizon", [20_000, None])
def test_every_cell_has_the_numbers_of_a_run_of_its_setting(
    tmp_path: Path, horizon: int | None
) -> None:
    grid: dict[str, Any] = {**GRID, "communication_cost": [0.0, 1.0, 3.7]}
    certified = {**BASE["variants"][0], "radius": {"rule": "certified", "delta": 0.01}}
    changed: dict[str, Any] = {"variants": [certified, BASE["variants"][1]]}
    if horizon is None:
        changed |= {"horizon": None, "variants": [certified]}
    sweep = sweep_of(grid, **changed)
    table = run_sweep(sweep, tmp_path, workers=1).replications()
    for number in range(len(sweep)):
        alone = pl.DataFrame(sweep.experiment(number).run(workers=1).replications())
        swept = table.filter(pl.col("setting") == number).select(alone.columns)
        assert swept.equals(alone)


def test_index_rules_are_swept_one_game_at_a_time(tmp_path: Path) -> None:
    # What they pull depends on what they have seen: no game is in step with another.
    index = {"label": "index", "algorithm": "fed-index"}
    sweep = sweep_of(
        {"problem.spread.sigma": [0.05, 0.1], "communication_cost": [0.0, 2.0]},
        variants=[index, {**index, "label": "growing", "growth": 2.0}, *BASE["variants"]],
    )
    table = run_sweep(sweep, tmp_path, workers=1).replications()
    for number in range(len(sweep)):
        alone = pl.DataFrame(sweep.experiment(number).run(workers=1).replications())
        swept = table.filter(pl.col("setting") == number).select(alone.columns)
        assert swept.equals(alone)


def test_lists_and_tables_can_be_values(tmp_path: Path) -> None:
    noise = {"law": "gaussian", "sigma": 0.2}
    grid = {"problem.means": [[0.5, 0.6], [0.5, 0.9]], "problem.noise": [noise]}
    table = run(grid, tmp_path).replications()
    assert table["problem.means"].unique(maintain_order=True).to_list() == [
        "[0.5, 0.6]",
        "[0.5, 0.9]",
    ]
    assert table["problem.noise"].unique().to_list() == [json.dumps(noise)]


def test_workers_do_not_change_the_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedbandits.sweeps.backends.on_processes._SERIAL_SECONDS", -1.0)
    alone = run(GRID, tmp_path / "1")
    together = run_sweep(sweep_of(GRID), tmp_path / "2", workers=2)
    assert together.replications().equals(alone.replications())


# Draws in common ----------------------------------------------------------------------------------


def test_draws_in_common_make_differences_precise(tmp_path: Path) -> None:
    """f = 50 against f = 60 on figure 4's game: the same luck befalls both.

    The variance of a paired difference is (1 − correlation) times that of an unpaired one; the
    correlation of 400 games is known to 0.05 or better.
    """
    tables = tomllib.loads(
        (Path(__file__).parent.parent / "examples" / "figure-4.toml").read_text(encoding="utf-8")
    )
    tables["variants"] = [tables["variants"][0] | {"label": "one"}]
    tables["replications"] = 400
    found = run_sweep(
        fb.read_sweep({**tables, "sweep": {"variants.pulls": ["50", "60"]}}), tmp_path / "a"
    )
    (comparison,) = found.summary()["comparisons"]
    difference = comparison["difference"]
    assert difference["stderr"] < 0.6 * difference["unpaired_stderr"]
    # What it would be with other draws for each is what is called unpaired.
    apart = [
        run_sweep(
            fb.read_sweep({**tables, "seed": seed, "sweep": {"variants.pulls": [f]}}),
            tmp_path / "b",
        ).totals()[0]
        for seed, f in ((1, "50"), (2, "60"))
    ]
    independent = float((apart[0] - apart[1]).std(ddof=1)) / 20
    # Both are standard deviations of 400 games, each known to about 1/√(2·400) = 3.5 %.
    assert independent == pytest.approx(difference["unpaired_stderr"], rel=0.2)


def test_the_summary_says_how_much_better_the_best_is(tmp_path: Path) -> None:
    results = run(GRID, tmp_path)
    summary = results.summary()
    assert [one["conditions"] for one in summary["comparisons"]] == [
        {"problem.spread.sigma": sigma} for sigma in (0.05, 0.1, 0.2)
    ]
    totals = results.totals()
    for comparison in summary["comparisons"]:
        (sigma,) = comparison["conditions"].values()
        alike = [
            place
            for place, cell in enumerate(summary["cells"])
            if cell["values"]["problem.spread.sigma"] == sigma
            # "alone" has no pulls: its two settings are one choice.
            and (cell["variant"] == "doubling" or cell["setting"] % 2 == 0)
        ]
        first, second = sorted(alike, key=lambda place: totals[place].mean())[:2]
        assert summary["cells"][first]["behind_the_best"]["mean"] == 0.0
        differences = totals[second] - totals[first]
        assert comparison["difference"]["mean"] == pytest.approx(differences.mean())
        assert comparison["difference"]["stderr"] == pytest.approx(
            differences.std(ddof=1) / math.sqrt(30)
        )
        assert "paired" in comparison["verdict"]
    json.dumps(summary, allow_nan=False)


def test_one_replication_gives_no_verdict(tmp_path: Path) -> None:
    summary = run(GRID, tmp_path, replications=1).summary()
    assert summary["comparisons"][0]["verdict"] == "one replication: nothing can be said"
    assert summary["cells"][0]["behind_the_best"] is None


ADMISSIONS = {"variants.admissions": ["2^p", "5", "10"]}
# Few clients stand for all of them, and are cheap.
WITH_FEW = [
    BASE["variants"][0],
    {"label": "few", "algorithm": "fed1-ucb", "pulls": "10", "clients": 4},
]


def test_a_choice_is_not_compared_with_itself_where_a_key_does_not_touch_it(
    tmp_path: Path,
) -> None:
    results = run(ADMISSIONS, tmp_path, variants=WITH_FEW)
    (comparison,) = results.summary()["comparisons"]
    totals = {
        (cell["variant"], cell["setting"]): total.mean()
        for cell, total in zip(results.summary()["cells"], results.totals(), strict=True)
    }
    assert totals["few", 0] == totals["few", 1] == totals["few", 2] == min(totals.values())
    assert (comparison["best"]["variant"], comparison["best"]["label"]) == ("few", "")
    assert comparison["best"]["values"] == {}
    second = min(mean for (variant, _), mean in totals.items() if variant == "doubling")
    assert comparison["next"]["variant"] == "doubling"
    assert comparison["next"]["label"].startswith("admissions = ")
    assert comparison["difference"]["mean"] == pytest.approx(second - totals["few", 0])
    assert comparison["difference"]["mean"] > 0
    # Every setting says how far it is behind, whether it is counted or not.
    assert [
        cell["behind_the_best"]["mean"]
        for cell in results.summary()["cells"]
        if cell["variant"] == "few"
    ] == [0.0, 0.0, 0.0]
    buffer = io.StringIO()
    Console(file=buffer, width=140).print(comparisons_table(results))
    (row,) = [line for line in buffer.getvalue().splitlines() if "few" in line]
    assert "admissions" not in row


def test_what_a_key_does_not_touch_has_its_star_all_along_the_key(tmp_path: Path) -> None:
    grid = {**ADMISSIONS, "problem.spread.sigma": [0.01, 0.02]}
    picture = picture_of(run(grid, tmp_path, variants=WITH_FEW))
    assert isinstance(picture, Maps)
    ((doubling,), (few,)) = picture.rows
    assert doubling.best == []
    assert sorted(few.best) == [(row, column) for row in range(3) for column in range(2)]
    assert (few.values == 1.0).all()


def test_a_problem_is_compared_under_conditions_of_its_own(tmp_path: Path) -> None:
    problems = {"a": BASE["problem"], "b": BASE["problem"]}
    variants = [
        {**BASE["variants"][0], "label": f"{problem}{pulls}", "problem": problem, "pulls": pulls}
        for problem in problems
        for pulls in (10, 20)
    ]
    grid = {"problems.a.spread.sigma": [0.05, 0.1]}
    tables = {key: value for key, value in BASE.items() if key != "problem"}
    sweep = fb.read_sweep({**tables, "problems": problems, "variants": variants, "sweep": grid})
    comparisons = run_sweep(sweep, tmp_path, workers=1).summary()["comparisons"]
    assert [(one["problem"], *one["conditions"].values()) for one in comparisons] == [
        ("a", 0.05),
        ("b",),
        ("a", 0.1),
    ]


# What is kept -------------------------------------------------------------------------------------


def standings(grid: dict[str, Any], folder: Path, **changed: Any) -> SweepStep:
    """Run a sweep and return where it stood when it began to play."""
    seen: list[SweepStep] = []
    run_sweep(sweep_of(grid, **changed), folder, workers=1, watch=seen.append)
    assert seen[-1].done == seen[-1].cells
    return next(one for one in seen if one.state == "playing")


def test_a_changed_file_plays_only_what_changed(tmp_path: Path) -> None:
    # Improved UCB has no pulls, so there are three cells of it and not six.
    assert (standings(GRID, tmp_path).reused, standings(GRID, tmp_path).reused) == (0, 9)
    more = {**GRID, "variants.pulls": ["10", "20", "30"]}
    began = standings(more, tmp_path)
    assert (began.reused, began.cells) == (9, 12)
    renamed = [{**table, "label": f"my {table['label']}"} for table in BASE["variants"]]
    assert standings(more, tmp_path, variants=renamed, title="other").reused == 12
    assert standings({**more, "communication_cost": [0.0, 2.0]}, tmp_path).reused == 12
    assert standings(GRID, tmp_path, seed=4).reused == 0
    assert standings(GRID, tmp_path, replications=31).reused == 0


def test_other_versions_or_sources_play_everything_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    standings(GRID, tmp_path)
    monkeypatch.setattr("fedbandits.sweeps.cells.made_with", lambda: "others")
    assert standings(GRID, tmp_path).reused == 0


def test_a_file_that_was_cut_short_is_played_again(tmp_path: Path) -> None:
    whole = run(GRID, tmp_path).replications()
    files = sorted((tmp_path / FOLDER).iterdir())
    files[0].write_bytes(files[0].read_bytes()[:-50])
    began = standings(GRID, tmp_path)
    assert 0 < began.reused < began.cells
    assert run(GRID, tmp_path).replications().equals(whole)
    assert not [file for file in (tmp_path / FOLDER).iterdir() if file.suffix != ".parquet"]


def test_fresh_plays_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(GRID, tmp_path)
    monkeypatch.setattr(Store, "read", lambda *_: pytest.fail("it was read"))
    run_sweep(sweep_of(GRID), tmp_path, workers=1, fresh=True)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    """What the sweep gives when nothing comes between."""
    sweep = fb.read_sweep(tomllib.loads(CELL_BY_CELL_FILE))
    return run_sweep(sweep, tmp_path_factory.mktemp("undisturbed"), workers=2).replications()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_what_is_finished_survives_an_interrupt_and_a_kill(
    tmp_path: Path, how: signal.Signals, undisturbed: pl.DataFrame
) -> None:
    file = tmp_path / "demo.toml"
    file.write_text(CELL_BY_CELL_FILE, encoding="utf-8")
    kept = tmp_path / "out" / FOLDER
    words = ["sweep", str(file), "--out", str(tmp_path / "out"), "--workers", "2"]
    script = DISTURBED.format(end=f"os.kill(os.getpid(), {how:d})")
    process = subprocess.run(
        [sys.executable, "-c", script, *words],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    finished = len(list(kept.glob("*.parquet")))
    assert finished == 2
    # No table, rather than a part of one.
    assert not (tmp_path / "out" / "replications.parquet").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"demo.toml", "out"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {FOLDER}
    if how is signal.SIGINT:
        assert process.returncode == 130
        assert "finished cells are kept in" in process.stderr
    else:
        assert process.returncode == -how
    before = {path: path.stat().st_mtime_ns for path in kept.glob("*.parquet")}
    seen: list[SweepStep] = []
    sweep = fb.load_sweep(file)
    resumed = run_sweep(sweep, tmp_path / "out", workers=2, watch=seen.append)
    assert next(one for one in seen if one.state == "playing").reused >= finished
    assert all(path.stat().st_mtime_ns == then for path, then in before.items())
    assert resumed.replications().equals(undisturbed)


# Pictures -----------------------------------------------------------------------------------------


def test_one_key_is_drawn_as_lines_with_bands(tmp_path: Path) -> None:
    results = run({"problem.spread.sigma": [0.05, 0.1, 0.2]}, tmp_path)
    picture = picture_of(results)
    assert isinstance(picture, Lines)
    assert picture.across.name == "spread of clients σ_c (spread.sigma)"
    assert picture.across.numbers is not None
    doubling, alone = picture.lines
    assert (doubling.variant, alone.variant) == ("doubling", "alone")
    summary = results.summary()["cells"][2]["regret"]["total"]
    assert (doubling.mean[1], doubling.stderr[1]) == (summary["mean"], summary["stderr"])


def test_two_keys_are_drawn_as_a_map_with_the_best_of_every_condition(tmp_path: Path) -> None:
    results = run({**GRID, "variants.pulls": ["5", "10", "20", "40"]}, tmp_path)
    picture = picture_of(results)
    assert isinstance(picture, Maps)
    assert picture.across.name == "spread of clients σ_c (spread.sigma)"
    assert picture.up.name == "pulls f(p)"
    assert picture.relative
    ((doubling,), (alone,)) = picture.rows
    assert (doubling.heading, alone.heading) == ("doubling", "alone")
    both = np.array([doubling.values, alone.values])
    assert (both.min(axis=(0, 1)) == 1.0).all()
    marked = {column for panel in (doubling, alone) for _, column in panel.best}
    assert marked == {0, 1, 2}
    for panel in (doubling, alone):
        assert all(panel.values[place] == 1.0 for place in panel.best)


def test_three_keys_are_drawn_as_small_multiples(tmp_path: Path) -> None:
    results = run(
        {**GRID, "variants.admissions": ["2^p", "5", "10"]},
        tmp_path,
        variants=[BASE["variants"][0]],
    )
    picture = picture_of(results)
    assert isinstance(picture, Maps)
    (row,) = picture.rows
    assert [panel.heading for panel in row] == ["pulls = 10", "pulls = 20"]
    assert row[0].values.shape == (3, 3)
    assert not np.isnan(row[0].values).any()


def test_four_keys_are_not_drawn(tmp_path: Path) -> None:
    grid = {**GRID, "variants.admissions": ["2^p"], "communication_cost": [1.0]}
    results = run(grid, tmp_path)
    assert picture_of(results) is None
    # A picture of another sweep would be taken for one of this.
    run({"problem.spread.sigma": [0.05, 0.1]}, tmp_path).write(tmp_path / "out")
    assert (tmp_path / "out" / "sweep.png").exists()
    results.write(tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "replications.parquet",
        "summary.json",
    }


SIGMA = "spread of clients σ_c (spread.sigma)"
ZIPPED = {"variants.pulls": ["5", "9"], "problem.spread.sigma": [0.1, 0.2], "combine": "zip"}


@pytest.mark.parametrize(
    ("grid", "maps", "across_and_up", "ticks"),
    [
        ({"problem.spread.sigma": [0.05, 0.1, 0.2]}, 0, [SIGMA], None),
        (
            {"variants.admissions": ["2^p", "5"]},
            0,
            ["new clients g(p) (admissions)"],
            ["2^p", "5"],
        ),
        (ZIPPED, 0, [f"pulls f(p), {SIGMA}"], ["5, 0.1", "9, 0.2"]),
        (GRID, 2, [SIGMA, "pulls f(p)"], ["0.05", "0.1", "0.2"]),
        (
            {**GRID, "horizon": [10_000, 15_000, 20_000]},
            4,
            ["horizon T", SIGMA],
            ["10,000", "15,000", "20,000"],
        ),
    ],
)
def test_what_fits_is_drawn(
    tmp_path: Path,
    grid: dict[str, Any],
    maps: int,
    across_and_up: list[str],
    ticks: list[str] | None,
) -> None:
    figure = sweep_figure(run(grid, tmp_path, replications=3))
    assert figure is not None
    figure.canvas.draw()
    if not maps:
        (axes,) = figure.axes
        assert [line.get_label() for line in axes.get_lines()] == ["doubling", "alone"]
        assert len(axes.collections) == 2  # a band a line
        assert axes.get_ylabel() == "mean total regret, with 95 % bands"
        assert [axes.get_xlabel()] == across_and_up
    else:
        *drawn, bar = figure.axes
        assert [len(axes.images) for axes in drawn] == [1] * maps
        axes = drawn[-2 if maps == 4 else -1]  # below, at the left
        assert [axes.get_xlabel(), axes.get_ylabel()] == across_and_up
        assert bar.get_ylabel() in {
            "regret, as a multiple of the best choice's",
            "mean total regret (logarithmic)",
        }
    if ticks is not None:
        assert [text.get_text() for text in axes.get_xticklabels()] == ticks
    assert figure.get_suptitle() == "demo"


def test_maps_label_their_last_row_and_colours_begin_at_the_best(tmp_path: Path) -> None:
    pulls = [str(number) for number in range(5, 29)]
    grid = {"variants.pulls": pulls, "problem.spread.sigma": [0.05, 0.1]}
    figure = sweep_figure(run(grid, tmp_path, replications=3, variants=[BASE["variants"][0]]))
    assert figure is not None
    figure.canvas.draw()
    axes, bar = figure.axes
    labels = [text.get_text() for text in axes.get_yticklabels()]
    assert labels[-1] == pulls[-1]
    assert len(labels) in range(8, 21)
    assert bar.get_yticks()[0] == 1.0


# The command --------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "demo.toml"
    path.write_text(FILE + '"variants.pulls" = ["10", "20"]\n', encoding="utf-8")
    return path


def test_the_command_writes_everything_and_says_what_is_best(file: Path, tmp_path: Path) -> None:
    done = command("sweep", file, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        FOLDER,
        "replications.parquet",
        "summary.json",
        "sweep.png",
        "sweep.pdf",
    }
    assert "paired" in done.stdout
    assert "finished 3 of 3 cells" in done.stderr
    again = command("sweep", file, "--out", tmp_path / "out", "--json")
    assert "3 of them as they were" in again.stderr
    summary = json.loads(again.stdout)
    assert summary == json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert command("sweep", file, "--out", tmp_path / "out", "--quiet").stderr == ""


def test_check_reads_every_setting_and_run_says_that_it_leaves_them_out(
    file: Path, tmp_path: Path
) -> None:
    done = command("check", file)
    assert done.stdout.splitlines() == [
        f"{file}: valid, 2 settings",
        "  doubling: fidelity cohorts in 2 of them",
        "  alone: fidelity cohorts in 2 of them",
    ]
    done = command("run", file, "-n", "2")
    assert (done.returncode, done.stderr) == (
        0,
        "note: [sweep] is left out here; fedbandits sweep plays it\n",
    )


def test_what_is_not_drawn_is_said(file: Path, tmp_path: Path) -> None:
    drawn = command("sweep", file, "--out", tmp_path / "out")
    assert drawn.stdout.splitlines()[-1] == f"figure: {tmp_path / 'out' / 'sweep.png'}"
    more = '"variants.admissions" = ["2^p"]\nseed = [1]\nhorizon = [20000]\n'
    file.write_text(file.read_text(encoding="utf-8") + more, encoding="utf-8")
    done = command("sweep", file, "--out", tmp_path / "out")
    assert done.stdout.splitlines()[-1] == (
        "no figure: 4 keys, and no more than 3 fit into a picture"
    )
    assert not (tmp_path / "out" / "sweep.png").exists()


def test_results_of_a_run_and_of_a_sweep_are_not_mixed(file: Path, tmp_path: Path) -> None:
    swept, ran = tmp_path / "swept", tmp_path / "ran"
    assert command("sweep", file, "--out", swept).returncode == 0
    assert command("run", file, "-n", "2", "--out", ran).returncode == 0
    before = {
        path: path.read_bytes() for path in (*swept.iterdir(), *ran.iterdir()) if path.is_file()
    }
    done = command("sweep", file, "--out", ran)
    assert done.returncode == 2
    assert "ran has results of fedbandits run (curves.parquet, regret.png" in done.stderr
    assert not (ran / FOLDER).exists()
    done = command("run", file, "-n", "2", "--out", swept)
    assert done.returncode == 2
    assert "swept has results of fedbandits sweep (sweep.png" in done.stderr
    assert all(path.read_bytes() == content for path, content in before.items())


def test_the_summary_states_what_the_file_leaves_out(tmp_path: Path) -> None:
    tables = {key: value for key, value in BASE.items() if key != "seed"}
    sweep = fb.read_sweep({**tables, "sweep": {"variants.pulls": ["10"]}})
    spec = run_sweep(sweep, tmp_path, workers=1).summary()["spec"]
    assert (spec["seed"], spec["replications"]) == (0, 30)
    assert sweep.experiment(0).seed == 0


def test_assumptions_that_do_not_hold_are_said_as_by_run(file: Path, tmp_path: Path) -> None:
    text = file.read_text(encoding="utf-8")
    told = text.replace('admissions = "2^p"', 'admissions = "2^p"\nassume = { noise = 0.3 }')
    file.write_text(told + '"problem.noise.sigma" = [0.2, 0.4, 0.5]\n', encoding="utf-8")
    narrow = (
        "warning: doubling: it is told noise 0.3, and the noise is {}: its widths are too narrow"
    )
    said = [f"{narrow.format(sigma)} (in 2 of 6 settings)" for sigma in (0.4, 0.5)]
    assert command("check", file).stderr.splitlines() == said
    done = command("sweep", file, "--out", tmp_path / "out")
    lines = done.stderr.splitlines()
    assert lines[:2] == said, "before anything is played"
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert [(one["variant"], one["settings"]) for one in summary["doubts"]] == [("doubling", 2)] * 2
    assert command("run", file, "-n", "2").stderr.splitlines()[1:] == [narrow.format(0.5)]
    assert command("sweep", file, "--out", tmp_path / "out", "--quiet").stderr == ""


def test_doubts_are_counted_and_not_too_many_are_shown() -> None:
    many = [Doubt(variant="a", doubt=f"number {n}", settings=1) for n in range(25)]
    lines = list(warnings_of(many, 25))
    assert len(lines) == 21
    assert lines[-1] == "5 more like these; summary.json has all of them"


def test_a_key_all_of_whose_values_give_the_same_is_named(tmp_path: Path) -> None:
    # A cost of its own leaves the file's without effect.
    costly = [{**table, "communication_cost": 2.0} for table in BASE["variants"]]
    grid = {"communication_cost": [0.0, 5.0], "variants.pulls": ["10", "20"]}
    assert run(grid, tmp_path, variants=costly).summary()["idle_keys"] == ["communication_cost"]
    assert run(grid, tmp_path).summary()["idle_keys"] == []
    zipped = {**grid, "combine": "zip"}
    assert run(zipped, tmp_path, variants=costly).summary()["idle_keys"] == []
    one = {"communication_cost": [1.0], "variants.pulls": ["10", 10], "combine": "cross"}
    assert run(one, tmp_path).summary()["idle_keys"] == ["variants.pulls"]


@pytest.mark.parametrize(
    ("line", "words", "message"),
    [
        ('"variants.pulls" = []', [], 'error: sweep."variants.pulls": is an empty list'),
        ('"variants.puls" = ["1"]', [], 'did you mean "variants.pulls"?'),
        (
            "seed = { from = 1, to = 2000000, points = 2000000 }",
            [],
            "2,000,000 settings; say --yes",
        ),
        ('"variants.pulls" = ["1"]', ["--backend", "dusk"], 'did you mean "dask"?'),
        ('"variants.pulls" = ["1"]', ["--address", "x:1"], "use --backend dask or ray"),
    ],
)
def test_mistakes_end_with_one_line_and_code_2(
    tmp_path: Path, line: str, words: list[str], message: str
) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(FILE + line + "\n", encoding="utf-8")
    done = command("sweep", path, "--out", tmp_path / "out", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_progress_says_how_much_is_left() -> None:
    buffer = io.StringIO()
    with show_sweep(quiet=False, console=Console(file=buffer, width=80)) as watch:
        assert watch is not None
        watch(SweepStep(state="reading", done=0, cells=100, reused=0, passed=0.0, left=None))
        for done, passed, left in (
            (10, 0.0, None),
            (30, 5.0, 20.0),
            (60, 12.0, 9.0),
            (100, 20.0, 0.0),
        ):
            standing = SweepStep(
                state="playing", done=done, cells=100, reused=10, passed=passed, left=left
            )
            watch(standing)
    assert buffer.getvalue().splitlines() == [
        "finished 10 of 100 cells, 10 of them as they were (0 s)",
        "finished 60 of 100 cells, 10 of them as they were (12 s, about 9 s left)",
        "finished 100 of 100 cells, 10 of them as they were (20 s)",
    ]


EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("sweep-*.toml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_are_valid_and_played_in_cohorts(path: Path) -> None:
    sweep = fb.load_sweep(path)
    fidelities = {cell.fidelity for n in range(len(sweep)) for cell in cells_of(sweep, n)}
    assert fidelities == {Fidelity.COHORTS}


def test_sampling_clients_begins_to_matter_where_the_documentation_says(tmp_path: Path) -> None:
    """Fed1-UCB is cheaper where clients differ by less than the gap of 0.02, Fed2-UCB above."""
    path = Path(__file__).parent.parent / "examples" / "sweep-spread.toml"
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    tables["sweep"] = {"problem.spread.sigma": [0.01, 0.0421696503429]}
    below, above = run_sweep(fb.read_sweep(tables), tmp_path, workers=1).summary()["comparisons"]
    assert below["best"]["variant"].startswith("Fed1-UCB")
    assert above["best"]["variant"].startswith("Fed2-UCB")
    assert all("not told apart" not in one["verdict"] for one in (below, above))
