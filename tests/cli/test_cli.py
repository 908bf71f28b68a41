"""The command: what it prints, writes, refuses, and leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import click
import polars as pl
import pytest
import typer
from typer.core import TyperArgument, TyperOption

from commands import command, in_a_process
from fedbandits.cli.main import app

FILE = """
title = "demo"
horizon = 20_000
replications = 40
seed = 3

[problem]
model = "approximate"
means = [0.5, 0.6, 0.9]
noise = { law = "gaussian", sigma = 0.5 }
spread = { law = "gaussian", sigma = 0.1 }

[[variants]]
label = "doubling"
algorithm = "fed2-ucb"
pulls = "10"
admissions = "2^p"

[[variants]]
label = "alone"
algorithm = "improved-ucb"
"""

OUTPUTS = {
    "summary.json",
    "replications.parquet",
    "curves.parquet",
    "regret.png",
    "regret.pdf",
    "report.html",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "demo.toml"
    path.write_text(FILE, encoding="utf-8")
    return path


def test_run_writes_everything_and_says_where(file: Path, tmp_path: Path) -> None:
    done = in_a_process("run", file, "--out", tmp_path / "results")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "results").iterdir()} == OUTPUTS
    assert str(tmp_path / "results" / "report.html") in done.stdout
    assert "doubling" in done.stdout
    assert done.stderr == ""
    # Nothing else is left beside the results.
    assert {path.name for path in tmp_path.iterdir()} == {"demo.toml", "results"}


def test_the_summary_has_the_documented_shape(file: Path, tmp_path: Path) -> None:
    command("run", file, "--out", tmp_path / "results")
    summary = json.loads((tmp_path / "results" / "summary.json").read_text(encoding="utf-8"))
    assert set(summary) == {"title", "seed", "versions", "spec", "variants"}
    assert summary["seed"] == 3
    first = summary["variants"][0]
    assert set(first) == {
        "label", "algorithm", "fidelity", "seconds", "regret", "clients", "phases",
        "decision_slot", "best_arm_rate", "wrong_arm_rate", "undecided_rate", "capped_rate",
        "lower_bound", "uplink_bits", "privacy", "guarantee", "doubts",
    }  # fmt: skip
    assert set(first["regret"]) == {"total", "exploration", "communication", "per_client"}
    for measured in (*first["regret"].values(), first["clients"], first["phases"]):
        assert set(measured) == {"mean", "stderr"}
    assert first["best_arm_rate"] + first["wrong_arm_rate"] + first["undecided_rate"] == 1.0


def test_the_tables_agree_with_the_summary(file: Path, tmp_path: Path) -> None:
    command("run", file, "--out", tmp_path / "results")
    folder = tmp_path / "results"
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    replications = pl.read_parquet(folder / "replications.parquet")
    curves = pl.read_parquet(folder / "curves.parquet")
    assert replications.height == 2 * 40
    for variant in summary["variants"]:
        label, total = variant["label"], variant["regret"]["total"]
        rows = replications.filter(pl.col("variant") == label)["total"]
        assert rows.mean() == pytest.approx(total["mean"])
        assert rows.std() / 40**0.5 == pytest.approx(total["stderr"])
        last = curves.filter(
            (pl.col("variant") == label)
            & (pl.col("regret") == "total")
            & (pl.col("slot") == 20_000)
        )
        assert last["mean"].item() == pytest.approx(total["mean"])
        assert last["stderr"].item() == pytest.approx(total["stderr"])
        for name, level in (
            ("q05", 0.05),
            ("q25", 0.25),
            ("q50", 0.5),
            ("q75", 0.75),
            ("q95", 0.95),
        ):
            assert last[name].item() == pytest.approx(rows.quantile(level, "linear"))


def test_json_is_all_there_is_on_standard_output(file: Path) -> None:
    done = command("run", file, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["title"] == "demo"


def test_quiet_prints_nothing(file: Path, tmp_path: Path) -> None:
    done = command("run", file, "--quiet", "--out", tmp_path / "results")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def numbers(done: subprocess.CompletedProcess[str]) -> list[dict[str, object]]:
    variants = json.loads(done.stdout)["variants"]
    for variant in variants:
        variant.pop("seconds")
    return list(variants)


def test_the_same_seed_gives_the_same_numbers_and_options_override_the_file(file: Path) -> None:
    base = numbers(command("run", file, "--json"))
    assert numbers(command("run", file, "--json", "--workers", "2")) == base
    assert numbers(command("run", file, "--json", "--seed", "3")) == base
    assert numbers(command("run", file, "--json", "--seed", "4")) != base
    fewer = json.loads(command("run", file, "--json", "-n", "7").stdout)
    assert fewer["spec"]["replications"] == 7
    pulls = numbers(command("run", file, "--json", "--fidelity", "pulls", "-n", "3"))
    assert [variant["fidelity"] for variant in pulls] == ["pulls", "pulls"]


def test_check_validates_only(file: Path, tmp_path: Path) -> None:
    done = command("check", file)
    assert done.returncode == 0
    assert "doubling: fed2-ucb, fidelity cohorts" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"demo.toml"}


@pytest.mark.parametrize("verb", ["run", "check"])
def test_a_mistake_in_the_file_is_one_line_and_exit_code_2(file: Path, verb: str) -> None:
    file.write_text(FILE.replace('"2^p"', '"p-1"'), encoding="utf-8")
    done = command(verb, file)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith('error: variants[0].admissions: "p-1" gives 0 clients in phase 1')
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("verb", ["run", "check"])
def test_a_mistake_that_shows_late_leaves_nothing_behind(
    file: Path, tmp_path: Path, verb: str
) -> None:
    # Few games go on for so long, but they can: the schedule ends in phase 101.
    tie = FILE.replace("[0.5, 0.6, 0.9]", "[0.5, 0.5, 0.5]").replace('"2^p"', '"101-p"')
    file.write_text(tie, encoding="utf-8")
    into: list[str | Path] = ["--out", tmp_path / "results"] if verb == "run" else []
    done = command(verb, file, *into)
    assert done.returncode == 2, done
    assert done.stderr.startswith(
        'error: variants[0].admissions: "101-p" gives -1 clients in phase'
    )
    assert {path.name for path in tmp_path.iterdir()} == {"demo.toml"}


def test_an_output_directory_that_cannot_be_written_is_refused_before_the_run(
    file: Path, tmp_path: Path
) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for out in (
        file,
        file / "below",
        Path("/proc/nothing/here"),
        tmp_path / "dangling",
        tmp_path / ("x" * 300),
    ):
        done = command("run", file, "--out", out)
        assert done.returncode == 2, done
        assert done.stderr.startswith("error: --out: "), done.stderr
        assert done.stderr.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"demo.toml", "dangling"}


def test_a_directory_in_the_way_of_a_file_leaves_everything_as_it_was(
    file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "results"
    (out / "regret.png").mkdir(parents=True)
    done = command("run", file, "--out", out)
    assert done.returncode == 2
    assert "regret.png is a directory; move it" in done.stderr
    assert [path.name for path in out.iterdir()] == ["regret.png"]


def test_labels_that_look_like_markup_are_shown_as_they_are(file: Path) -> None:
    file.write_text(FILE.replace('"doubling"', '"a[/]b [bold]x"'), encoding="utf-8")
    done = command("run", file, "-n", "3")
    assert done.returncode == 0, done.stderr
    assert "a[/]b [bold]x" in done.stdout
    # With a terminal there is a progress display, too.
    shown = subprocess.run(
        ["script", "-qec", f"{sys.executable} -m fedbandits run {file} -n 3", "/dev/null"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert shown.returncode == 0, shown.stdout
    assert "Traceback" not in shown.stdout


def test_results_replace_older_ones_and_spare_other_files(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "results"
    out.mkdir(parents=True)
    (out / "notes.txt").write_text("mine", encoding="utf-8")
    (out / "summary.json").write_text("old", encoding="utf-8")
    assert command("run", file, "--out", out).returncode == 0
    assert (out / "notes.txt").read_text(encoding="utf-8") == "mine"
    assert {path.name for path in out.iterdir()} == OUTPUTS | {"notes.txt"}
    json.loads((out / "summary.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing_behind(
    file: Path, tmp_path: Path, how: signal.Signals
) -> None:
    slow = FILE.replace("20_000", "3_000_000").replace('"improved-ucb"', '"ucb1"')
    head, *_, ucb1 = slow.split("[[variants]]")  # no other variant is finished before
    file.write_text(f"{head}[[variants]]{ucb1}", encoding="utf-8")
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "fedbandits",
            "run",
            str(file),
            "--out",
            str(tmp_path / "new" / "out"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    staging = tmp_path / "new"
    for _ in range(6000):
        if staging.exists():
            break
        time.sleep(0.1)
    time.sleep(0.5)
    os.kill(process.pid, how)
    _, stderr = process.communicate(timeout=600)
    assert process.returncode == 130
    assert stderr == "interrupted; nothing was written\n"
    assert {path.name for path in tmp_path.iterdir()} == {"demo.toml"}


@pytest.mark.parametrize(
    "words", [["run"], ["run", "x.toml", "--workers", "0"], ["runn"], ["run", "--x"]]
)
def test_wrong_usage_is_exit_code_2(words: list[str]) -> None:
    done = command(*words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


HEAVY = ("matplotlib", "flwr", "scipy", "joblib", "pydantic", "numpy")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("run", "An experiment file"),
        ("sweep", "with a table"),
        ("contest", "Parts of names"),
        ("status", "The log of a run"),
    ],
)
def test_help_says_what_an_argument_is(name: str, words: str) -> None:
    assert words in command(name, "--help").stdout


def test_every_option_and_argument_says_what_it_is() -> None:
    root = typer.main.get_group(app)
    data = root.commands["data"]
    assert isinstance(data, click.Group)
    for name, one in {**root.commands, **data.commands}.items():
        if one is data:
            continue
        assert one.help, name
        assert "Parameters" not in one.help
        for param in one.params:
            said = isinstance(param, TyperArgument | TyperOption) and param.help
            # The path to import is described in the help of the command.
            assert said or (name, param.name) == ("import", "path"), (name, param.name)


def test_help_and_version_import_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from fedbandits.cli import main\n"
        "sys.argv = ['fedbandits', '--help']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 0, end.code\n"
        f"print('LOADED', [name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=600
    )
    assert "Simulate every variant" in done.stdout
    assert done.stdout.splitlines()[-1] == "LOADED []"
    assert command("--version").stdout.startswith("fedbandits 0.")


def test_a_missing_extra_is_named(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Matplotlib, figures are refused before the run; the summary is not."""
    missing = {"matplotlib"}
    monkeypatch.setattr(
        "fedbandits.experiments.output.find_spec",
        lambda name: None if name in missing else find_spec(name),
    )
    done = command("run", file, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "install the extra, fedbandits[report]" in done.stderr
    assert not (tmp_path / "out").exists()


def test_bounds_says_what_the_theorems_promise_or_why_nothing(file: Path) -> None:
    done = command("bounds", file)
    assert done.returncode == 0
    assert "Theorem 2" in done.stdout
    assert "the theorems are about the paper's" in done.stdout
