"""What newcomers stumble over: names, help, mistakes in files, and runs that are interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.cli import main
from fedbandits.contest.games import contest_games
from fedbandits.experiments.unfinished import Unfinished
from fedbandits.simulation.charts import regret_charts

FILE = """
title = "demo"
horizon = 2_000
replications = 5
[problem]
model = "approximate"
means = [0.5, 0.9]
noise = { law = "gaussian", sigma = 0.5 }
spread = { law = "gaussian", sigma = 0.1 }
[[variants]]
algorithm = "fed2-ucb"
pulls = 10
admissions = "2^p"
[[variants]]
algorithm = "ucb1"
[[variants]]
algorithm = "local-ucb"
clients = 3
"""

SECOND_PROBLEM = """
[[variants]]
problem = "two"
label = "late"
algorithm = "fed2-ucb"
pulls = "3 - p"
admissions = 2
[problems.two]
model = "exact"
local_means = [[0.2, 0.9], [0.7, 0.4]]
noise = { law = "bernoulli" }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "demo.toml"
    path.write_text(FILE, encoding="utf-8")
    return path


class Said:
    """What a command says, in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, *words: object) -> tuple[int, str, str]:
        self.monkeypatch.setattr(sys, "argv", ["fedbandits", *map(str, words)])
        kept = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGHUP)}
        try:
            main()
            code: object = 0
        except SystemExit as end:
            code = end.code
        finally:
            for name, handler in kept.items():
                signal.signal(name, handler)
        found = self.capsys.readouterr()
        return int(str(code or 0)), found.out, found.err


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    monkeypatch.setenv("COLUMNS", "120")
    return Said(monkeypatch, capsys)


def test_a_misspelt_command_is_suggested_once(said: Said) -> None:
    code, _, err = said("runn")
    assert (code, err.count("Did you mean")) == (2, 1)
    assert "'run'" in err


def test_help_begins_with_what_newcomers_need(said: Said) -> None:
    _, out, _ = said("--help")
    lines = [line.strip("│ ").split(" ")[0] for line in out.splitlines() if line.startswith("│")]
    assert lines.index("run") < lines.index("check") < lines.index("audit")
    assert out.index("Experiments") < out.index("Federations")


def test_check_reports_every_mistake_of_a_file(said: Said, file: Path) -> None:
    wrong = FILE.replace("2_000", "-1").replace("sigma = 0.1", "sigmaa = 0.1")
    wrong = wrong.replace('"2^p"', '"2^q"').replace("clients = 3", 'client = 3\nfidelity = "x"')
    file.write_text(wrong, encoding="utf-8")
    code, _, err = said("check", file)
    assert code == 2
    found = [line.split(": ")[1] for line in err.splitlines()]
    assert found == [
        "horizon",
        "problem.spread.sigma",
        "problem.spread.sigmaa",
        "variants[0].admissions",
        "variants[2].client",
        "variants[2].fidelity",
    ]
    assert all(line.startswith("error: ") for line in err.splitlines())


@pytest.mark.parametrize("command", ["check", "run", "sweep"])
def test_every_command_that_reads_a_file_reports_three_mistakes_at_once(
    said: Said, file: Path, tmp_path: Path, command: str
) -> None:
    """In the problem, in a variant that cannot be read, and in the rule of one that can be."""
    wrong = FILE.replace("sigma = 0.1", "sigma = -1").replace("clients = 3", "client = 3")
    wrong = wrong.replace("[[variants]]", '[[variants]]\nproblem = "one"')
    wrong = wrong.replace("[problem]", "[problems.one]") + SECOND_PROBLEM
    sweep = '[sweep]\n"variants[0].pulls" = [10, 20]\n' if command == "sweep" else ""
    file.write_text(wrong + sweep, encoding="utf-8")
    options = ("--out", tmp_path / "out") if command == "sweep" else ()
    code, _, err = said(command, file, *options)
    assert code == 2
    assert [line.split(": ")[:2] for line in err.splitlines()] == [
        ["error", "problems.one.spread.sigma"],
        ["error", "variants[2].client"],
        ["error", "variants[3].pulls"],
    ]


def test_check_reports_what_is_wrong_with_several_rules(said: Said, file: Path) -> None:
    wrong = FILE.replace("pulls = 10", 'pulls = "3 - p"').replace("clients = 3", "")
    file.write_text(wrong, encoding="utf-8")
    code, _, err = said("check", file)
    assert code == 2
    assert [line.split(": ")[1] for line in err.splitlines()] == [
        "variants[0].pulls",
        "variants[2].clients",
    ]


def test_more_replications_than_memory_holds_are_refused(said: Said, file: Path) -> None:
    file.write_text(FILE.replace("= 5", "= 1000000000000"), encoding="utf-8")
    code, _, err = said("check", file)
    assert code == 2
    assert err.startswith("error: replications: 1,000,000,000,000 games; ")


def test_a_byte_order_mark_is_no_mistake(said: Said, file: Path) -> None:
    file.write_text(FILE, encoding="utf-8-sig")
    assert said("check", file)[0] == 0


def test_labels_that_the_font_lacks_print_no_warning(
    file: Path, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    labelled = FILE.replace('"ucb1"', '"ucb1"\nlabel = "联邦 🎉"')
    file.write_text(labelled, encoding="utf-8")
    fb.load_experiment(file).run(workers=1).write(tmp_path / "out")
    assert [str(one.message) for one in recwarn if "Glyph" in str(one.message)] == []


def test_tied_best_arms_are_warned_of(said: Said, file: Path) -> None:
    index = '[[variants]]\nalgorithm = "fed-index"\n'
    tied = FILE.replace("0.5, 0.9", "0.9, 0.9") + index
    file.write_text(tied, encoding="utf-8")
    _, _, err = said("check", file)
    assert err.startswith("warning: fed2-ucb; fed-index: arms 0 and 1 are equally good")
    assert err.count("equally good") == 1, "once for all variants"
    file.write_text(tied + "[sweep]\nhorizon = [1_000, 2_000]\n", encoding="utf-8")
    _, _, err = said("check", file)
    assert "fed2-ucb: arms 0 and 1 are equally good" in err
    assert "(in 2 of 2 settings)" in err


def test_an_unknown_game_suggests_nothing_unlike_it(said: Said) -> None:
    code, _, err = said("contest", "nosuchgame")
    assert code == 2
    assert "did you mean" not in err
    assert f"fedbandits contest --list prints the names of all {len(contest_games())} games" in err
    _, _, err = said("contest", "figur 3")
    games = '(games: "figure 3, M = 5"; "figure 3, M = 10")'
    assert f'did you mean "figure 3"? {games}' in err
    _, out, _ = said("contest", "figure 3", "--list")
    assert out.splitlines() == ["figure 3, M = 5", "figure 3, M = 10"]
    assert len(said("contest", "--list")[1].splitlines()) == len(contest_games())


def test_a_key_without_its_table_is_suggested_with_it(said: Said, file: Path) -> None:
    file.write_text(FILE + "[sweep]\npulls = [10, 20]\n", encoding="utf-8")
    code, _, err = said("check", file)
    assert code == 2
    assert 'did you mean "variants.pulls"?' in err


def test_rules_that_never_decide_have_no_outcome(said: Said, file: Path, tmp_path: Path) -> None:
    _, out, _ = said("run", file, "--out", tmp_path / "out", "--workers", 1)
    lines = [line.split("│") for line in out.splitlines() if "│" in line]
    rows = {cells[1].strip(): [cell.strip() for cell in cells[2:-1]] for cells in lines}
    assert rows["ucb1"][-2:] == rows["local-ucb"][-2:] == ["–", "–"]
    assert "%" in rows["fed2-ucb"][-1]
    assert "0 %, 100 % undecided" not in out


def test_regret_per_client_is_said(said: Said, file: Path, tmp_path: Path) -> None:
    _, out, _ = said("run", file, "--out", tmp_path / "out", "--workers", 1)
    assert "per client" in out
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    for variant in summary["variants"][1:]:
        each = variant["regret"]["total"]["mean"] / variant["clients"]["mean"]
        assert variant["regret"]["per_client"]["mean"] == pytest.approx(each)
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Per client <b>" in page
    assert ">per client</th>" in page


def test_a_matrix_of_another_shape_is_not_called_movielens(
    said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    np.save(tmp_path / "some.npy", np.random.default_rng(0).random((40, 10)))
    _, out, _ = said("data", "import", tmp_path / "some.npy")
    assert out.startswith("a matrix of 40 clients and 10 arms, imported from some.npy; it is not")
    assert "group" not in out


def test_an_interrupted_run_goes_on_where_it_was(file: Path, tmp_path: Path) -> None:
    experiment, kept = fb.load_experiment(file), Unfinished(tmp_path / "out")
    played: list[str] = []

    def interrupting(label: str, _: int) -> None:
        played.append(label)
        if label == "ucb1":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        experiment.run(workers=1, progress=interrupting, kept=kept)
    assert list(kept.read(experiment)) == [0]
    # What is another game is not taken for the one that was played.
    assert kept.read(replace(experiment, seed=9)) == {}
    again = experiment.run(workers=1, progress=lambda label, _: played.append(label), kept=kept)
    assert played.count("fed2-ucb") == 1
    fresh = experiment.run(workers=1)
    assert again.curves() == fresh.curves()
    assert again.replications() == fresh.replications()


def test_what_follows_plus_or_minus_is_half_of_a_95_percent_interval() -> None:
    for file in Path(fb.__file__).parent.rglob("*.py"):
        for line in file.read_text(encoding="utf-8").splitlines():
            if "±" in line and "stderr" in line:
                assert "NORMAL_95 *" in line, f"{file.name}: {line.strip()}"


@pytest.mark.parametrize(("means", "early"), [((95, 100, 100), True), ((5, 50, 100), False)])
def test_what_happens_early_is_drawn_on_a_logarithmic_axis(
    means: tuple[float, ...], early: bool
) -> None:
    rest: dict[str, list[Any]] = {
        "variant": ["it"] * 3,
        "regret": ["total"] * 3,
        "stderr": [1.0] * 3,
    }
    curves = {**rest, "slot": [100, 5_000, 10_000], "mean": [*means]}
    (plot,) = regret_charts(curves, "demo")["total"].panels
    assert plot.x.log == early
    assert plot.x.low == (100 if early else 0)


def test_ctrl_c_outside_of_the_work_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fedbandits.reproduce.catalogue.experiment_text", interrupted)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["fedbandits", "reproduce", "--show", "fig4"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_ctrl_c_says_one_line_and_what_is_kept(file: Path, tmp_path: Path) -> None:
    slow = FILE.replace("2_000", "3_000_000")
    file.write_text(slow, encoding="utf-8")
    out = tmp_path / "out"
    process = subprocess.Popen(
        [sys.executable, "-m", "fedbandits", "run", str(file), "--out", str(out), "-w", "2"],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    for _ in range(6000):
        if list(out.glob("unfinished/*.npz")):
            break
        time.sleep(0.1)
    time.sleep(2.5)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: workers hear it, too
    _, err = process.communicate(timeout=600)
    assert process.returncode == 130
    assert err == f"interrupted; finished variants are kept in {out}; run it again to continue\n"
