"""Sweeps: grids, draws in common, what is kept, what is drawn, what is refused."""

from __future__ import annotations

import copy
import json
import math
import signal
import subprocess
import sys
import tempfile
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import fedbandits as fb
from commands import command
from fedbandits.report.wording import in_words
from fedbandits.rules.schedules import as_schedule
from fedbandits.simulation.tables import Table
from fedbandits.sweeps.grid import Range, read_grid
from fedbandits.sweeps.run import SweepStep, run_sweep
from fedbandits.sweeps.store import FOLDER, Store
from fedbandits.sweeps.text import shown_cells, shown_comparisons
from fedbandits.theory.lower_bound import lower_bound
from repository import EXAMPLES
from sweep_files import BASE, CELL_BY_CELL_FILE, DISTURBED, GRID, maps_of, run, sweep_of

WIDE = {"from": 1000, "to": 10**9}


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
    assert (axis.key, axis.values) == ("variants.privacy.scale", [1, 3, 9])


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
    assert axis.values == values
    assert [type(value) for value in axis.values] == [type(value) for value in values]


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
        ({"horizon": {"from": 1, "to": 9, "points": 2.5}}, ".points: 2.5 is not a valid integer"),
        ({"horizon": {"from": 1, "to": 9}}, ".points: or step must be given, and not both"),
        ({"horizon": {"from": 1, "points": 9}}, ".to: is missing"),
        ({"horizon": {"from": 1, "to": 9, "step": 0}}, "the grid would not end"),
        ({"horizon": {"from": 1, "to": 9, "step": -1}}, "the grid would not end"),
        ({"horizon": {"from": 1, "to": math.inf, "points": 5}}, "inf is not finite"),
        ({"horizon": {"from": math.nan, "to": 1, "points": 5}}, "nan is not finite"),
        ({"horizon": {"from": 0, "to": 9, "points": 5, "scale": "log"}}, "has no logarithms"),
        ({"horizon": {"from": 1, "to": 9, "points": 5, "scale": "lg"}}, 'did you mean "log"?'),
        (
            {"horizon": {"from": 1, "to": 9, "points": 5, "base": 2}},
            ".base: is not a key here; known: from, ",
        ),
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
    # It is over long before phase 100 in most games, and with the short horizon in all.
    with pytest.raises(
        fb.InputError, match=r'"100-p" gives 0 pulls in phase 100.*horizon = 20,000'
    ):
        run({"horizon": [5_000, 20_000], "variants[0].pulls": ["100-p"]}, tmp_path)
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
        timeout=600,
        check=False,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: memory_limit: a population of 100,000 takes 2 MiB")
    assert line.endswith("(setting: population = 100,000)")
    assert not (tmp_path / "out" / "replications.parquet").exists()


def test_all_mistakes_of_a_grid_are_told_at_once() -> None:
    grid = {"combine": "zop", "variants.pulls": [], "problem": {"population": 5}}
    with pytest.raises(fb.InputError) as caught:
        sweep_of(grid)
    places = [error.where for error in caught.value.each]
    assert places == ["sweep.combine", 'sweep."variants.pulls"', 'sweep."problem.population"']
    with pytest.raises(fb.InputError) as caught:
        sweep_of({"horizon": {"from": 1, "points": 0, "scale": "lg", "base": 2}})
    places = [error.where for error in caught.value.each]
    assert places == [f'sweep."horizon".{key}' for key in ("to", "scale", "base", "points")]
    with pytest.raises(fb.InputError) as caught:
        sweep_of({"variants.pols": [1, 2], "horizn": [1, 2]})
    places = [error.where for error in caught.value.each]
    assert places == ['sweep."variants.pols"', 'sweep."horizn"']


def test_all_mistakes_of_a_setting_are_told_at_once(tmp_path: Path) -> None:
    grid = {"problem.population": [5, 0], "variants.max_phases": [3, -1], "combine": "zip"}
    with pytest.raises(fb.InputError) as caught:
        run_sweep(sweep_of(grid), tmp_path, workers=1)
    setting = " (setting: population = 0, max_phases = -1)"
    assert str(caught.value).splitlines() == [
        f"{where} is not a whole number from 1 to 10^15{setting}"
        for where in (
            "problem.population: 0",
            "variants[0].max_phases: -1",
            "variants[1].max_phases: -1",
        )
    ]


def test_mistakes_in_keys_values_and_the_rest_of_the_file_are_told_at_once() -> None:
    grid = {
        "variants.pols": [1, 2],
        "problem.means[9]": [0.1, 0.2],
        "variants.pulls": [],
        "horizon": [20_000, -1],
        "problem.spread.sigma": [0.1, -0.1],
    }
    broken = copy.deepcopy(BASE)
    broken["problem"]["goal"] = "mx"
    broken["variants"][1]["foo"] = 1
    del broken["variants"][0]["pulls"]  # the sweep gives them, so that this is no mistake
    with pytest.raises(fb.InputError) as caught:
        fb.read_sweep({**broken, "sweep": grid})
    assert [error.where for error in caught.value.each] == [
        *('sweep."variants.pulls"', 'sweep."variants.pols"', 'sweep."problem.means[9]"'),
        *("problem.goal", "variants[1].foo", "horizon", "problem.spread.sigma"),
    ]
    with pytest.raises(fb.InputError) as caught:
        fb.read_sweep(broken)
    places = [error.where for error in caught.value.each]
    assert places == ["sweep", "problem.goal", "variants[0].pulls", "variants[1].foo"]


def test_an_unknown_name_makes_no_other_key_unknown() -> None:
    """Which keys there are depends on the algorithm, the model and the laws."""
    broken = copy.deepcopy(BASE)
    broken["variants"][0]["algorithm"] = "ucb9"
    broken["problem"]["spread"]["law"] = "gausian"
    with pytest.raises(fb.InputError) as caught:
        fb.read_sweep({**broken, "sweep": {"variants[0].pulls": [], "problem.spread.sigma": 1}})
    assert [error.where for error in caught.value.each] == [
        *('sweep."variants[0].pulls"', 'sweep."problem.spread.sigma"'),
        *("problem.spread.law", "variants[0].algorithm"),
    ]


@pytest.mark.parametrize(
    ("missing", "where"),
    [("variants", "variants"), ("problem", "problem.model"), ("title", "title")],
)
def test_keys_of_a_table_that_is_missing_are_not_told_besides(missing: str, where: str) -> None:
    tables = {key: value for key, value in BASE.items() if key != missing}
    with pytest.raises(fb.InputError) as caught:
        fb.read_sweep({**tables, "sweep": {"variants.pulls": [1, 2], "problem.population": [9]}})
    assert [error.where for error in caught.value.each] == [where]


def test_a_file_without_a_sweep_is_refused() -> None:
    with pytest.raises(fb.InputError, match="sweep: is missing; name a key"):
        fb.read_sweep(BASE)


# Numbers ------------------------------------------------------------------------------------------


def test_the_table_has_a_row_a_setting_variant_and_replication(tmp_path: Path) -> None:
    table = pl.DataFrame(run(GRID, tmp_path).replications())
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
    table = pl.DataFrame(run_sweep(sweep, tmp_path, workers=1).replications())
    for number in range(len(sweep)):
        alone = pl.DataFrame(sweep.experiment(number).run(workers=1).replications())
        swept = table.filter(pl.col("setting") == number).select(alone.columns)
        assert swept.equals(alone)


def test_index_rules_are_swept_one_game_at_a_time(tmp_path: Path) -> None:
    # What they pull depends on what they have seen: no game is in step with another.
    index = {"label": "index", "algorithm": "fed-index"}
    sweep = sweep_of(
        {"problem.spread.sigma": [0.05, 0.1], "communication_cost": [0.0, 2.0]},
        variants=[index, {**index, "label": "few", "initial_clients": 4}, *BASE["variants"]],
    )
    table = pl.DataFrame(run_sweep(sweep, tmp_path, workers=1).replications())
    for number in range(len(sweep)):
        alone = pl.DataFrame(sweep.experiment(number).run(workers=1).replications())
        swept = table.filter(pl.col("setting") == number).select(alone.columns)
        assert swept.equals(alone)


def test_lists_and_tables_can_be_values(tmp_path: Path) -> None:
    noise = {"law": "gaussian", "sigma": 0.2}
    grid = {"problem.means": [[0.5, 0.6], [0.5, 0.9]], "problem.noise": [noise]}
    table = pl.DataFrame(run(grid, tmp_path).replications())
    assert table["problem.means"].unique(maintain_order=True).to_list() == [
        "[0.5, 0.6]",
        "[0.5, 0.9]",
    ]
    assert table["problem.noise"].unique().to_list() == [json.dumps(noise)]


@pytest.mark.usefixtures("several_processes")
def test_workers_do_not_change_the_numbers(tmp_path: Path) -> None:
    alone = run(GRID, tmp_path / "1")
    together = run_sweep(sweep_of(GRID), tmp_path / "2", workers=2)
    assert together.replications() == alone.replications()


# Draws in common ----------------------------------------------------------------------------------


def test_draws_in_common_make_differences_precise(tmp_path: Path) -> None:
    """f = 50 against f = 60 on figure 4's game: the same luck befalls both.

    The variance of a paired difference is (1 − correlation) times that of an unpaired one; the
    correlation of 400 games is known to 0.05 or better.
    """
    tables = tomllib.loads((EXAMPLES / "figure-4.toml").read_text(encoding="utf-8"))
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
    (row,) = [line for line in shown_comparisons(results).text().splitlines() if "few" in line]
    assert "admissions" not in row


def test_regret_stands_beside_clients_and_the_lower_bound(tmp_path: Path) -> None:
    """The bound is that of each setting: its horizon, its gaps and what a report costs in it."""
    costs = {"communication_cost": [1.0, 50.0], "horizon": [10_000, 20_000]}
    results = run(costs, tmp_path)
    shown = shown_cells(results)
    assert shown is not None
    assert shown.headings == [
        *("variant", "setting", "total regret", "per client", "times the lower bound")
    ]
    cells = results.summary()["cells"]
    assert len(shown.rows) == len(cells) == 8
    for cell in cells:
        found, values = cell["lower_bound"], cell["values"]
        if cell["variant"] == "alone":
            assert found["times"] is None
            assert "asks no clients" in found["reason"]
            continue
        gaps = np.array([0.4, 0.3])
        least = lower_bound(gaps, noise=0.5, spread=0.1, cost=values["communication_cost"])
        assert found["at_horizon"] == pytest.approx(least.at(values["horizon"]))
        times = cell["regret"]["total"]["mean"] / found["at_horizon"]
        assert found["times"]["mean"] == pytest.approx(times)
        row = ["doubling", in_words(cell["regret"]["total"]), in_words(found["times"])]
        assert any(set(row) <= set(each) for each in shown.rows)
    assert [row[-1] for row in shown.rows if row[0] == "alone"] == ["–"] * 4
    # Nothing is proven of a finite population, and nothing is said.
    problem = {**BASE["problem"], "population": 40}
    finite = run({"variants.pulls": [5, 10]}, tmp_path / "finite", problem=problem)
    assert "times the lower bound" not in shown_comparisons(finite).headings
    many = run({"seed": list(range(21))}, tmp_path / "many", replications=1)
    assert shown_cells(many) is None


def test_a_variant_without_the_swept_key_has_one_star_and_says_so(tmp_path: Path) -> None:
    grid = {**ADMISSIONS, "problem.spread.sigma": [0.01, 0.02]}
    doubling, few = maps_of(run(grid, tmp_path, variants=WITH_FEW))
    assert doubling.best == []
    assert sorted(few.best) == [(1, 0), (1, 1)]  # in the middle of what is alike
    assert few.title == "few (no admissions)"
    assert (np.array(few.values) == 1.0).all()


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
    run_sweep(sweep_of(grid, **changed), folder, workers=1, progress=seen.append)
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
    assert run(GRID, tmp_path).replications() == whole
    assert not [file for file in (tmp_path / FOLDER).iterdir() if file.suffix != ".npz"]


def test_fresh_plays_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(GRID, tmp_path)
    monkeypatch.setattr(Store, "read", lambda *_: pytest.fail("it was read"))
    run_sweep(sweep_of(GRID), tmp_path, workers=1, fresh=True)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """What the sweep gives when nothing comes between."""
    sweep = fb.read_sweep(tomllib.loads(CELL_BY_CELL_FILE))
    return run_sweep(sweep, tmp_path_factory.mktemp("undisturbed"), workers=2).replications()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_what_is_finished_survives_an_interrupt_and_a_kill(
    tmp_path: Path, how: signal.Signals, undisturbed: Table
) -> None:
    file = tmp_path / "demo.toml"
    file.write_text(CELL_BY_CELL_FILE, encoding="utf-8")
    kept = tmp_path / "out" / FOLDER
    words = ["sweep", str(file), "--out", str(tmp_path / "out"), "--workers", "2"]
    script = DISTURBED.format(end=f"os.kill(os.getpid(), {how:d})")
    # Not a pipe: workers of a process that was killed would keep it open until they notice.
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        process = subprocess.run(
            [sys.executable, "-c", script, *words],
            stdout=subprocess.DEVNULL,
            stderr=said,
            timeout=600,
            check=False,
        )
        said.seek(0)
        stderr = said.read()
    finished = len(list(kept.glob("*.npz")))
    assert finished == 2
    # No table, rather than a part of one.
    assert not (tmp_path / "out" / "replications.parquet").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"demo.toml", "out"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {FOLDER}
    if how is signal.SIGINT:
        assert process.returncode == 130
        assert "finished cells are kept in" in stderr
    else:
        assert process.returncode == -how
    before = {path: path.stat().st_mtime_ns for path in kept.glob("*.npz")}
    seen: list[SweepStep] = []
    sweep = fb.load_sweep(file)
    resumed = run_sweep(sweep, tmp_path / "out", workers=2, progress=seen.append)
    assert next(one for one in seen if one.state == "playing").reused >= finished
    assert all(path.stat().st_mtime_ns == then for path, then in before.items())
    assert resumed.replications() == undisturbed
