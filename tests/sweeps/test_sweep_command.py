"""The command sweep: what it writes, says and refuses."""

from __future__ import annotations

import io
import json
import tomllib
from pathlib import Path

import pytest
from rich.console import Console

import fedbandits as fb
from commands import command
from fedbandits.cli.progress import sweep_progress
from fedbandits.simulation.fidelities import Fidelity
from fedbandits.sweeps.cells import cells_of
from fedbandits.sweeps.doubts import Doubt, warnings_of
from fedbandits.sweeps.run import SweepStep, run_sweep
from fedbandits.sweeps.store import FOLDER
from repository import EXAMPLES
from sweep_files import BASE, FILE, run

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
        "report.html",
        "summary.json",
        "sweep.png",
        "sweep.pdf",
    }
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "decision slot" not in page, "words that the page does not use are not explained"
    assert "paired" in done.stdout
    assert "per client" in done.stdout
    assert "times the lower bound" in page
    assert "finished 3 of 3 cells" in done.stderr
    again = command("sweep", file, "--out", tmp_path / "out", "--json")
    assert "3 of them from an earlier run" in again.stderr
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
        "note: [sweep] is ignored here; fedbandits sweep plays it\n",
    )


def test_what_is_not_drawn_is_said(file: Path, tmp_path: Path) -> None:
    drawn = command("sweep", file, "--out", tmp_path / "out")
    assert drawn.stdout.splitlines()[-2:] == [
        f"figure: {tmp_path / 'out' / 'sweep.png'}",
        f"report: {tmp_path / 'out' / 'report.html'}",
    ]
    more = '"variants.admissions" = ["2^p"]\nseed = [1]\nhorizon = [20000]\n'
    file.write_text(file.read_text(encoding="utf-8") + more, encoding="utf-8")
    done = command("sweep", file, "--out", tmp_path / "out")
    assert done.stdout.splitlines()[-2] == (
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
        "warning: doubling: it is told noise 0.3; the proofs need {}, so its widths may be too"
        " narrow"
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
    tell = sweep_progress(quiet=False, console=Console(file=buffer, width=80))
    assert callable(tell)
    tell(SweepStep(state="reading", done=0, cells=100, reused=0, passed=0.0))
    for done, passed in ((10, 0.0), (30, 5.0), (60, 11.25), (100, 20.0)):
        tell(SweepStep(state="playing", done=done, cells=100, reused=10, passed=passed))
    assert buffer.getvalue().splitlines() == [
        "finished 10 of 100 cells, 10 of them from an earlier run (0 s)",
        "finished 60 of 100 cells, 10 of them from an earlier run (11 s, about 9 s left)",
        "finished 100 of 100 cells, 10 of them from an earlier run (20 s)",
    ]


SHIPPED = sorted(EXAMPLES.glob("sweep-*.toml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_examples_are_valid_and_played_in_cohorts(path: Path) -> None:
    sweep = fb.load_sweep(path)
    fidelities = {cell.fidelity for n in range(len(sweep)) for cell, _ in cells_of(sweep, n)}
    assert fidelities == {Fidelity.COHORTS}


def test_sampling_clients_begins_to_matter_where_the_documentation_says(tmp_path: Path) -> None:
    """Fed1-UCB is cheaper where clients differ by less than the gap of 0.02, Fed2-UCB above."""
    path = EXAMPLES / "sweep-spread.toml"
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    tables["sweep"] = {"problem.spread.sigma": [0.01, 0.0421696503429]}
    below, above = run_sweep(fb.read_sweep(tables), tmp_path, workers=1).summary()["comparisons"]
    assert below["best"]["variant"].startswith("Fed1-UCB")
    assert above["best"]["variant"].startswith("Fed2-UCB")
    assert all("not told apart" not in one["verdict"] for one in (below, above))
