"""Parts of one's own: from a file, from Python, from an installed distribution."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from typer.testing import CliRunner

import fedbandits as fb
from commands import in_a_process as command
from fedbandits import registry
from fedbandits.cli.main import app
from fedbandits.experiments.fingerprint import code_of
from fedbandits.federation.followed import LoggedRun
from fedbandits.federation.project import new_project
from fedbandits.federation.served import begin_or_resume
from fedbandits.federation.trial import FILE as FILE_OF_TRIAL
from fedbandits.federation.trial import load_trial
from fedbandits.plugins import RunPlugins
from fedbandits.problems import PlainProblem, SpreadLaw
from fedbandits.rules.algorithms import Algorithm
from fedbandits.rules.estimators import Estimator
from fedbandits.rules.radii import RADII, Radius
from fedbandits.sweeps.cells import cells_of
from fedbandits.sweeps.run import SweepStep, run_sweep
from repository import TESTS

PARTS = TESTS / "own_parts.py"

FILE = """
title = "my own"
plugins = ["my_rules.py"]
horizon = 20_000
replications = 20
seed = 3

[problem]
model = "ladder"
rungs = [0, 0.5, 0.5]
apart = 0.1
noise = { law = "laplace", scale = 0.2 }

[[variants]]
label = "mine"
algorithm = "bold"
pulls = 10
radius = { rule = "scaled", factor = 0.25 }
estimator = "middle"

[[variants]]
label = "its radius"
algorithm = "fed2-ucb"
pulls = 10
admissions = "2^p"
radius = { rule = "scaled" }
"""
SWEEP = FILE + '\n[sweep]\n"problem.noise.scale" = [0.1, 0.2]\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(PARTS, tmp_path / "my_rules.py")
    (tmp_path / "mine.toml").write_text(FILE, encoding="utf-8")
    (tmp_path / "sweep.toml").write_text(SWEEP, encoding="utf-8")
    return tmp_path


@pytest.fixture(autouse=True)
def nothing_stays_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def python(program: str, *words: str | Path, cwd: Path | None = None) -> str:
    """Return what a program prints in a Python of its own."""
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, words)],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def regrets(experiment: fb.Experiment, **how: Any) -> list[list[float]]:
    return [run.games.total.tolist() for run in experiment.run(**how).simulations]


# From a file --------------------------------------------------------------------------------------


def test_a_file_brings_an_algorithm_a_radius_an_estimator_a_law_and_a_problem(folder: Path) -> None:
    experiment = fb.load_experiment(folder / "mine.toml")
    assert experiment.check() == ["pulls", "pulls"]
    mine, other = (variant.algorithm for variant in experiment.variants)
    assert type(mine).__name__ == "Bold"
    assert vars(mine)["radius"].factor == 0.25
    assert type(vars(mine)["estimator"]).__name__ == "Median"
    assert isinstance(other, fb.Fed2Ucb)
    assert vars(other.radius)["factor"] == 0.5
    assert experiment.variants[0].problem.means.tolist() == [0.0, 0.5, 1.0]
    rates = [one["best_arm_rate"] for one in experiment.run(workers=1).summary()["variants"]]
    assert rates == [1.0, 1.0]


def test_only_files_that_list_a_plugin_know_its_parts(folder: Path) -> None:
    tables = {**tomllib.loads(FILE), "plugins": []}
    fb.load_experiment(folder / "mine.toml")
    with pytest.raises(fb.InputError, match=r'^problem\.model: "ladder" is not a model'):
        fb.read_experiment(tables)
    assert "scaled" not in RADII


def test_two_files_may_have_parts_of_one_name(folder: Path) -> None:
    other = folder / "other"
    other.mkdir()
    for name in ("my_rules.py", "mine.toml"):
        shutil.copy(folder / name, other)
    edit(other / "my_rules.py", "FACTOR = 0.5", "FACTOR = 2.0")
    found = [fb.load_experiment(where / "mine.toml") for where in (folder, other, folder)]
    algorithms: list[Any] = [experiment.variants[1].algorithm for experiment in found]
    assert [algorithm.radius.factor for algorithm in algorithms] == [0.5, 2.0, 0.5]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = (", r"my_rules\.py, line 1: is not Python: "),
        ("import math\n\nmath.sqrt(-1)", r"my_rules\.py, line 3: fails when it is read: ValueErr"),
        ("import no_such_module", r"line 1: fails when it is read: ModuleNotFoundError: No module"),
        ("raise SystemExit(3)", r"my_rules\.py, line 1: fails when it is read: SystemExit: 3"),
        ("pass", r"my_rules\.py: registers nothing; write e\.g\. @fedbandits\.RADII\.register"),
        (
            "import fedbandits as fb\nfb.RADII.register(fb.Gaussian)",
            r"my_rules\.py, line 2: fails when it is read: Gaussian: has no name; write rule:",
        ),
    ],
)
def test_what_is_wrong_with_a_plugin_is_one_line_with_its_place(
    folder: Path, source: str, message: str
) -> None:
    (folder / "my_rules.py").write_text(source, encoding="utf-8")
    for _ in range(2):  # a broken file does not count as read
        with pytest.raises(fb.InputError, match=message) as caught:
            fb.load_experiment(folder / "mine.toml")
        assert "\n" not in str(caught.value)


def test_a_plugin_that_is_missing_is_named_with_its_key(folder: Path) -> None:
    edit(folder / "mine.toml", '"my_rules.py"', '"my_rules.py", "yours.py"')
    with pytest.raises(fb.InputError, match=r"^plugins\[1\]: .*yours\.py cannot be read: No such"):
        fb.load_experiment(folder / "mine.toml")
    edit(folder / "mine.toml", '"yours.py"', "5")
    with pytest.raises(fb.InputError, match=r"^plugins\[1\]: 5 is not the path of a file such as"):
        fb.load_experiment(folder / "mine.toml")
    with pytest.raises(fb.InputError, match=r"^plugins: 'x' is not a list of files such as"):
        fb.read_experiment({**tomllib.loads(FILE), "plugins": "x"})


def test_two_plugins_of_one_file_cannot_share_a_name(folder: Path) -> None:
    (folder / "more.py").write_text(PARTS.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    with pytest.raises(
        fb.InputError, match=r'more\.py: registers "scaled", and so does .*my_rules'
    ):
        fb.load_experiment(folder / "mine.toml", plugins=[folder / "more.py"])


def test_a_field_that_no_file_can_give_is_said(folder: Path) -> None:
    edit(folder / "my_rules.py", "    factor: float = FACTOR", "    factor: np.ndarray = None")
    with pytest.raises(fb.InputError, match="Scaled: has a field whose type is none that a file"):
        fb.load_experiment(folder / "mine.toml")


@pytest.mark.usefixtures("several_processes")
def test_the_code_of_a_file_is_the_same_on_several_processes(folder: Path) -> None:
    experiment = fb.load_experiment(folder / "mine.toml")
    alone = regrets(experiment, workers=1)
    assert regrets(experiment, workers=2) == alone


def test_a_value_on_its_way_brings_its_code_along(folder: Path) -> None:
    experiment = fb.load_experiment(folder / "mine.toml")
    packed = pickle.dumps((RunPlugins(), experiment.variants[0].algorithm))
    (folder / "my_rules.py").unlink()
    (folder / "packed").write_bytes(packed)
    program = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb'))[1].radius.factor)"
    assert python(program, folder / "packed") == "0.25\n"


# The commands -------------------------------------------------------------------------------------


def test_the_commands_take_a_file_with_plugins(folder: Path) -> None:
    for verb in ("check", "bounds"):
        done = command(verb, folder / "mine.toml", cwd=folder.parent)
        assert done.returncode == 0, done.stderr
        assert "mine" in done.stdout
    out = folder / "out"
    done = command("run", folder / "mine.toml", "--out", out, "-w", "2", cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert [variant["algorithm"] for variant in summary["variants"]] == ["bold", "fed2-ucb"]


def test_what_a_class_leaves_unsaid_is_the_users_mistake(folder: Path) -> None:
    policy = 'privacy = { range = [0, 1], noise = "laplace", epsilon = 1.0 }\n'
    edit(folder / "mine.toml", 'radius = { rule = "scaled" }\n', policy)
    done = command("check", "mine.toml", cwd=folder)
    assert done.returncode == 2
    (said,) = done.stderr.splitlines()
    assert said.endswith("define Laplace.clipped(means, cells, low, high)")


@pytest.mark.parametrize("verb", ["check", "bounds", "run", "sweep"])
def test_a_plugin_can_come_from_the_command_line(folder: Path, verb: str) -> None:
    name = "sweep.toml" if verb == "sweep" else "mine.toml"
    edit(folder / name, 'plugins = ["my_rules.py"]\n', "")
    out = ["--out", str(folder / "out"), "-w", "1"] if verb == "sweep" else []
    words = [verb, str(folder / name), *out]
    refused = CliRunner().invoke(app, words)
    assert isinstance(refused.exception, fb.InputError)
    assert refused.exception.where in ("problem.model", "problem.noise.law")
    done = CliRunner().invoke(app, [*words, "--plugin", str(folder / "my_rules.py")])
    assert done.exit_code == 0, done.output


def test_a_broken_plugin_is_one_line_and_exit_code_2(folder: Path) -> None:
    (folder / "my_rules.py").write_text("import fedbandits\n1 / 0\n", encoding="utf-8")
    done = command("check", "mine.toml", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: {folder / 'my_rules.py'}, line 2: fails when it is read: ZeroDivisionError:"
        " division by zero\n"
    )
    done = command("check", "mine.toml", "--plugin", "nowhere.py", cwd=folder)
    assert done.returncode == 2
    assert "nowhere.py cannot be read: No such file" in done.stderr


def test_help_reads_no_entry_points() -> None:
    python(
        "import importlib.metadata, sys\n"
        "def refuse(**_): raise SystemExit('read')\n"
        "importlib.metadata.entry_points = refuse\n"
        "import fedbandits as fb\n"
        "fb.RADII['paper'], fb.ALGORITHMS.named('fed2-ucb', ''), 'gaussian' in fb.LAWS\n"
        "sys.argv = ['fedbandits', '--help']\n"
        "from fedbandits.cli import main\n"
        "main()\n"
    )


# Written down and read back -----------------------------------------------------------------------


def test_a_summary_is_read_back_wherever_it_is(folder: Path, tmp_path: Path) -> None:
    experiment = fb.load_experiment(folder / "mine.toml")
    results = experiment.run(workers=1)
    out = results.write(folder / "out")
    # Neither the file's place nor what it says now matters.
    edit(folder / "my_rules.py", "FACTOR = 0.5", "FACTOR = 9.0")
    moved = out.rename(tmp_path / "moved")
    summary = json.loads((moved / "summary.json").read_text(encoding="utf-8"))
    for again in (
        fb.load_experiment(moved / "summary.json"),
        fb.read_experiment(summary["spec"]),
    ):
        assert regrets(again, workers=1) == [
            run.games.total.tolist() for run in results.simulations
        ]
        assert again.run(workers=1).summary()["spec"] == summary["spec"]
    done = command("check", moved / "summary.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


PICKY = """
from dataclasses import dataclass
from typing import ClassVar, Literal

import fedbandits as fb


@fb.RADII.register
@dataclass(frozen=True, kw_only=True)
class Picky(fb.JointRadius):
    rule: ClassVar[str] = "picky"

    low: float
    high: float
    word: Literal["a", "b"] = "a"
    inverse: float = 1.0

    def __post_init__(self) -> None:
        if 1 / self.inverse < 0:
            raise fb.InputError("inverse", "is below 0")
        if self.low < 0:
            raise fb.InputError("low", "is below 0")
        if self.high < self.low:
            raise fb.InputError("high", f"is below {self.low}")
"""


@pytest.mark.parametrize(
    ("keys", "wrong"),
    [
        ({"low": -1, "high": 5, "inverse": -1}, ["inverse", "low"]),
        ({"low": -1, "high": -5}, ["low", "high"]),
        ({"low": -1, "high": 0.005}, ["low"]),  # this high may be right
        ({"low": 5, "high": 4, "word": "c", "inverse": -1}, ["word", "inverse", "high"]),
        ({"low": 5, "hihg": 4, "inverse": "x"}, ["high", "inverse", "hihg"]),
    ],
)
def test_all_mistakes_in_the_table_of_ones_own_class_are_told(
    tmp_path: Path, keys: dict[str, Any], wrong: list[str]
) -> None:
    (tmp_path / "picky.py").write_text(PICKY, encoding="utf-8")
    tables = tomllib.loads(FILE.replace("my_rules.py", str(tmp_path / "picky.py")))
    law = {"law": "gaussian", "sigma": 0.5}
    tables["problem"] = {"model": "approximate", "means": [0, 1], "noise": law, "spread": law}
    tables["variants"] = [{**tables["variants"][1], "radius": {"rule": "picky", **keys}}]
    with pytest.raises(fb.InputError) as caught:
        fb.read_experiment(tables)
    assert [one.where for one in caught.value.each] == [f"variants[0].radius.{k}" for k in wrong]


def test_a_summary_without_a_spec_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    for text, message in (("{}", 'has no "spec"'), ("{", "is not JSON")):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(fb.InputError, match=message):
            fb.load_experiment(path)


def test_a_sweep_is_read_back_from_its_summary(folder: Path) -> None:
    results = run_sweep(fb.load_sweep(folder / "sweep.toml"), folder / "out", workers=1)
    results.write(folder / "out")
    (folder / "my_rules.py").unlink()
    again = fb.load_sweep(folder / "out" / "summary.json")
    assert played(again, folder / "out") == 0


# Trials -------------------------------------------------------------------------------------------


@pytest.fixture
def project(folder: Path) -> Path:
    """Return a project whose trial uses a radius of its own."""
    project = folder / "trial"
    new_project(project)
    shutil.copy(PARTS, project / "my_rules.py")
    edit(project / FILE_OF_TRIAL, "title =", 'plugins = ["my_rules.py"]\ntitle =')
    text = (project / FILE_OF_TRIAL).read_text(encoding="utf-8")
    text = re.sub(
        r"^radius = .*$", 'radius = { rule = "scaled" }\nhorizon = 1_000_000', text, flags=re.M
    )
    (project / FILE_OF_TRIAL).write_text(text, encoding="utf-8")
    return project


def test_a_trial_takes_plugins(project: Path) -> None:
    assert load_trial(project).rule().radius.rule == "scaled"
    words = ["try", str(project), "--clients", "4"]
    assert CliRunner().invoke(app, words).exit_code == 0
    edit(project / FILE_OF_TRIAL, 'plugins = ["my_rules.py"]\n', "")
    refused = CliRunner().invoke(app, words)
    assert isinstance(refused.exception, fb.InputError)
    assert str(refused.exception).startswith('radius.rule: "scaled" is not a radius; ')
    done = CliRunner().invoke(app, [*words, "--plugin", str(project / "my_rules.py")])
    assert done.exit_code == 0, done.output


def test_a_trial_takes_an_algorithm_of_ones_own(project: Path) -> None:
    path = project / FILE_OF_TRIAL
    edit(path, '"fed2-ucb"', '"bold"')
    edit(path, 'pulls = "50"', "pulls = 50")
    own = [line for line in path.read_text(encoding="utf-8").splitlines() if "= " in line]
    theirs = ("admissions", "epsilon")
    text = "\n".join(line for line in own if not line.startswith(theirs))
    path.write_text(text, encoding="utf-8")
    assert type(load_trial(project).algorithm).__name__ == "Bold"
    # Options that are alike to the last outcome: nothing is decided, whatever is drawn.
    edit(project / "client.py", "random.random() < rate + own", "_ % 2")
    done = CliRunner().invoke(app, ["try", str(project), "--clients", "4"])
    assert done.exit_code == 3, done.output  # over, and undecided
    edit(project / "my_rules.py", "    all_clients_from_start: ClassVar[bool] = False\n", "")
    with pytest.raises(
        fb.InputError,
        match=r'^algorithm: "bold" does not run in a federation: Bold does not say all_clie',
    ):
        load_trial(project)


def test_a_log_is_read_with_the_code_that_it_was_written_with(project: Path) -> None:
    log, run = begin_or_resume(load_trial(project), project / "run.fedlog")
    server = run.server
    log.close()
    again = LoggedRun(project / "run.fedlog")
    assert again.trial.rule() == server.rule
    edit(project / "my_rules.py", "FACTOR = 0.5", "FACTOR = 0.1")
    # A log may come from anywhere: what is in it does not run.
    with pytest.raises(fb.InputError, match=r"my_rules\.py has changed since this was writ"):
        LoggedRun(project / "run.fedlog")
    with pytest.raises(fb.InputError, match=r"my_rules\.py has changed since this was writ"):
        begin_or_resume(load_trial(project), project / "run.fedlog")
    (project / "my_rules.py").unlink()
    with pytest.raises(fb.InputError, match=r"run\.fedlog: .*my_rules\.py cannot be read: No such"):
        LoggedRun(project / "run.fedlog")


# Kept by a hash -----------------------------------------------------------------------------------


def played(sweep: fb.Sweep, out: Path, **how: Any) -> int:
    """Return how many cells a sweep plays, beyond those that are kept."""
    seen: list[SweepStep] = []
    run_sweep(sweep, out, progress=seen.append, **{"workers": 1, **how})
    return seen[-1].done - seen[-1].reused


def test_an_edited_rule_is_played_again(folder: Path) -> None:
    def load() -> fb.Sweep:
        return fb.load_sweep(folder / "sweep.toml")

    out = folder / "out"
    before = load()
    assert played(before, out) == 4
    assert played(load(), out) == 0
    first = run_sweep(before, out, workers=1).totals()
    # The default of a field, which the file does not say.
    edit(folder / "my_rules.py", "FACTOR = 0.5", "FACTOR = 0.1")
    assert played(load(), out) == 4
    second = run_sweep(load(), out, workers=1).totals()
    assert [np.array_equal(*pair) for pair in zip(first, second, strict=True)] == [
        True,
        False,
        True,
        False,
    ]
    # What was read before the edit is still what it was.
    assert played(before, out) == 0


def test_only_what_runs_the_edited_code_is_played_again(folder: Path) -> None:
    edit(folder / "sweep.toml", 'model = "ladder"\nrungs = [0, 0.5, 0.5]\napart = 0.1', PLAIN)
    edit(folder / "sweep.toml", '"problem.noise.scale" = [0.1, 0.2]', '"seed" = [1, 2]')
    edit(folder / "sweep.toml", 'radius = { rule = "scaled" }\n', "")
    edit(folder / "sweep.toml", 'noise = { law = "laplace", scale = 0.2 }\n', "")
    assert played(fb.load_sweep(folder / "sweep.toml"), folder / "out") == 4
    edit(folder / "my_rules.py", "FACTOR = 0.5", "FACTOR = 0.1")
    assert played(fb.load_sweep(folder / "sweep.toml"), folder / "out") == 2
    # Moved, and said on the command line: the same code.
    (folder / "my_rules.py").rename(folder / "same.py")
    edit(folder / "sweep.toml", 'plugins = ["my_rules.py"]\n', "")
    moved = fb.load_sweep(folder / "sweep.toml", plugins=[folder / "same.py"])
    assert played(moved, folder / "out") == 0


PLAIN = """model = "approximate"
means = [0.2, 0.8]
noise = { law = "gaussian", sigma = 0.5 }
spread = { law = "gaussian", sigma = 0.1 }
"""


def test_what_a_rule_imports_is_part_of_it(folder: Path) -> None:
    edit(folder / "my_rules.py", "FACTOR = 0.5", "from own_factor_a import FACTOR")
    (folder / "own_factor_a.py").write_text("from own_factor_b import FACTOR", encoding="utf-8")
    found = []
    for source in ("FACTOR = 0.5", "FACTOR = 0.5", "FACTOR = 0.7"):
        (folder / "own_factor_b.py").write_text(source, encoding="utf-8")
        found.append(python(PRINT_ADDRESSES, "sweep.toml", cwd=folder).split())
    assert found[0] == found[1]
    assert not set(found[0]) & set(found[2])


@pytest.mark.parametrize(
    "how",
    [
        'FACTOR = importlib.import_module("own_factor_c").FACTOR',
        'FACTOR = __import__("own_factor_c").FACTOR',
        'FACTOR = importlib.import_module("own_" + "factor_c").FACTOR',
        'later = lambda: importlib.import_module("own_factor_c")\nFACTOR = 0.5',
    ],
)
def test_what_a_rule_imports_by_a_function_is_part_of_it(folder: Path, how: str) -> None:
    edit(folder / "my_rules.py", "FACTOR = 0.5", f"import importlib\n{how}")
    found = []
    for source in ("FACTOR = 0.5", "FACTOR = 0.5", "FACTOR = 0.7"):
        (folder / "own_factor_c.py").write_text(source, encoding="utf-8")
        found.append(python(PRINT_ADDRESSES, "sweep.toml", cwd=folder).split())
    assert found[0] == found[1]
    assert not set(found[0]) & set(found[2])


PRINT_ADDRESSES = """
import sys
import fedbandits as fb
from fedbandits.sweeps.cells import cells_of
sweep = fb.load_sweep(sys.argv[1])
print(*(cell.address for n in range(len(sweep)) for cell, _ in cells_of(sweep, n)))
"""


def test_what_is_of_the_package_has_no_code_of_its_own() -> None:
    game = fb.Approximate(means=[0.5, 0.9], noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.1))
    assert code_of((game, fb.Fed2Ucb(pulls=10, admissions=2), fb.CognitiveRadio.example())) == []


@pytest.mark.usefixtures("several_processes")
def test_sweeps_on_several_processes_know_the_parts(folder: Path) -> None:
    alone = run_sweep(fb.load_sweep(folder / "sweep.toml"), folder / "alone", workers=1)
    several = run_sweep(fb.load_sweep(folder / "sweep.toml"), folder / "several", workers=2)
    assert several.replications() == alone.replications()
    # The same processes, and other code under the same names.
    edit(folder / "my_rules.py", "FACTOR = 0.5", "FACTOR = 0.1")
    changed = run_sweep(fb.load_sweep(folder / "sweep.toml"), folder / "several", workers=2)
    assert changed.replications() != alone.replications()


# From Python --------------------------------------------------------------------------------------


def scaled() -> Any:
    """Return a class as somebody would write it in a script."""

    @dataclass(frozen=True, kw_only=True)
    class Mine(fb.JointRadius):
        rule: ClassVar[str] = "mine"

        factor: float = 0.5

        def half_widths(self, known: Any) -> Any:
            return self.factor * fb.JointRadius.half_widths(self, known)

    return Mine


MINE = {
    "title": "registered",
    "horizon": 20_000,
    "replications": 20,
    "problem": {
        "model": "approximate",
        "means": [0.2, 0.8],
        "noise": {"law": "gaussian", "sigma": 0.5},
        "spread": {"law": "gaussian", "sigma": 0.1},
    },
    "variants": [
        {"algorithm": "fed2-ucb", "pulls": 10, "admissions": "2^p", "radius": {"rule": "mine"}}
    ],
}


def test_a_registered_class_is_known_by_its_name() -> None:
    Mine = fb.RADII.register(scaled())  # noqa: N806 - a class
    assert fb.RADII["mine"] is Mine
    assert "mine" in list(fb.RADII)
    assert fb.read_experiment(MINE).check() == ["cohorts"]
    again = fb.RADII.register(scaled())  # a cell of a notebook that is run once more
    assert fb.RADII["mine"] is again


@pytest.mark.usefixtures("several_processes")
def test_sweeps_on_several_processes_know_what_is_registered(tmp_path: Path) -> None:
    fb.RADII.register(scaled())
    sweep = fb.read_sweep({**MINE, "sweep": {"variants.radius.factor": [0.5, 1.0]}})
    alone = run_sweep(sweep, tmp_path / "alone", workers=1)
    several = run_sweep(sweep, tmp_path / "several", workers=2)
    assert several.replications() == alone.replications()


def test_code_without_a_source_is_not_kept() -> None:
    Mine = fb.RADII.register(scaled())  # noqa: N806 - a class
    sweep = fb.read_sweep({**MINE, "sweep": {"variants.radius.factor": [0.5, 1.0]}})
    Mine.__module__ = "nowhere"
    with pytest.raises(fb.InputError, match="nowhere has no source file, and results of code that"):
        list(cells_of(sweep, 0))


def test_code_that_was_edited_since_it_was_imported_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "edited_rules.py"
    path.write_text(SMALL, encoding="utf-8")
    narrow = import_module("edited_rules").Narrow()
    assert fb.RADII["narrow"] is type(narrow)
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime + 60))
    with pytest.raises(fb.InputError, match=r"Narrow: .*edited_rules\.py has changed since it was"):
        code_of(narrow)


SMALL = """
from dataclasses import dataclass
from typing import ClassVar
import fedbandits as fb

@fb.RADII.register
@dataclass(frozen=True, kw_only=True)
class Narrow(fb.JointRadius):
    rule: ClassVar[str] = "narrow"
"""


def melted(**members: Any) -> Any:
    """Return a frozen dataclass with these members, and nothing else of its own."""
    return dataclass(frozen=True)(type("Melted", (Radius,), {"rule": "melted", **members}))


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (5, "5: is not a class; a radius is one"),
        (type("Loose", (), {"rule": "loose"}), "Loose: is not a frozen dataclass, whose fields"),
        (dataclass(type("Soft", (), {"rule": "soft"})), "Soft: is not a frozen dataclass"),
        (melted(rule=5), r'Melted: has no name; write rule: ClassVar\[str\] = "my-own"'),
        (melted(), "Melted: does not define half_widths, margins, stays; write it as Radius"),
        (melted(stays=1, margins=1), "Melted: does not define half_widths; write it as Radius"),
    ],
)
def test_a_class_that_cannot_be_a_part_is_refused(part: Any, message: str) -> None:
    before = list(fb.RADII)
    with pytest.raises(fb.InputError, match=message):
        fb.RADII.register(part)
    assert list(fb.RADII) == before


def test_a_name_that_is_taken_is_refused(folder: Path) -> None:
    Paper = scaled()  # noqa: N806 - a class
    Paper.rule = "paper"
    with pytest.raises(
        fb.InputError,
        match=r'Mine: rule is "paper", which .*intervals\.PaperRadius has already; choose another',
    ):
        fb.RADII.register(Paper)
    fb.RADII.register(scaled())
    edit(folder / "my_rules.py", '"scaled"', '"mine"')
    with pytest.raises(fb.InputError, match=r'line \d+: fails .* rule is "mine", which .* has alr'):
        fb.load_experiment(folder / "mine.toml")


@pytest.mark.parametrize(
    ("parts", "parent", "key", "missing"),
    [
        (fb.ALGORITHMS, Algorithm, "name", "rule"),
        (fb.ESTIMATORS, Estimator, "name", "estimate, needs_each_client"),
        (fb.PROBLEMS, PlainProblem, "model", "goal, means, name, noise, population, sampler, spr"),
    ],
)
def test_a_part_says_which_members_it_lacks(
    parts: Any, parent: type, key: str, missing: str
) -> None:
    with pytest.raises(fb.InputError, match=f"Bare: does not define {missing}"):
        parts.register(dataclass(frozen=True)(type("Bare", (parent,), {key: "bare"})))


def test_a_law_says_which_method_it_lacks() -> None:
    with pytest.raises(fb.InputError, match="Still: does not define draw; write it as SpreadLaw"):

        @fb.LAWS.register
        @dataclass(frozen=True)
        class Still(SpreadLaw):
            law: ClassVar[str] = "still"

            def proxy(self, means: Any) -> float:
                return 0.0

            def support(self, mean: float) -> tuple[float, float]:
                return mean, mean


# From a distribution ------------------------------------------------------------------------------


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder of an installed distribution with two modules, of which one is broken."""
    home = tmp_path / "site"
    info = home / "own_rules-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: own-rules\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(
        "[fedbandits.radii]\n"
        "narrow = own_rules:Narrow\n"
        "wide = own_rules:Narrow\n"
        "gone = own_rules:Gone\n"
        "cracked = own_cracked:Cracked\n"
        "small = own_rules:fb\n"
        "[fedbandits.algorithms]\n"
        "other = own_cracked:Other\n",
        encoding="utf-8",
    )
    (home / "own_rules.py").write_text(SMALL.replace("@fb.RADII.register\n", ""), encoding="utf-8")
    (home / "own_cracked.py").write_text("1 / 0\n", encoding="utf-8")
    monkeypatch.syspath_prepend(home)
    monkeypatch.setattr(fb.RADII, "_loaded", {})
    yield home
    for name in ("own_rules", "own_cracked"):
        sys.modules.pop(name, None)


def test_an_entry_point_is_found_and_loaded_when_it_is_asked_for(distribution: Path) -> None:
    assert "narrow" in fb.RADII
    assert "own_rules" not in sys.modules
    assert fb.RADII["narrow"].__module__ == "own_rules"
    tables = json.loads(json.dumps(MINE).replace('"mine"', '"narrow"'))
    assert fb.read_experiment(tables).check() == ["cohorts"]
    assert code_of(fb.RADII["narrow"]())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cracked", r"\(own_cracked:Cracked\): cannot be loaded: ZeroDivisionError: division by"),
        ("gone", r"\(own_rules:Gone\): cannot be loaded: AttributeError"),
        ("wide", r'\(own_rules:Narrow\): is rule "narrow"; both must have the same name'),
        ("small", r"\(own_rules:fb\): cannot be loaded: <module.*: is not a class"),
    ],
)
def test_a_broken_entry_point_is_named_and_breaks_nothing_else(
    distribution: Path, name: str, message: str
) -> None:
    where = f'entry point "{name}" of fedbandits.radii, declared by own-rules '
    with pytest.raises(fb.InputError, match=where + message):
        fb.RADII[name]
    assert fb.RADII["paper"] is fb.PaperRadius
    assert fb.RADII["narrow"].__name__ == "Narrow"
    with pytest.raises(fb.InputError, match=r"known: .*cracked, .*narrow, .*paper"):
        fb.RADII.named("unheard", "radius.rule")
    with pytest.raises(fb.InputError, match=r'"other" of fedbandits\.algorithms'):
        fb.ALGORITHMS.named("other", "algorithm")


def test_two_distributions_cannot_share_a_name(distribution: Path) -> None:
    info = distribution / "more_rules-1.0.dist-info"
    shutil.copytree(distribution / "own_rules-1.0.dist-info", info)
    (info / "METADATA").write_text("Name: more-rules\nVersion: 1.0\n", encoding="utf-8")
    with pytest.raises(fb.InputError, match=r"own-rules .* and more|more-rules .* and own"):
        fb.RADII["narrow"]


def test_the_command_finds_an_entry_point(distribution: Path) -> None:
    file = distribution / "demo.toml"
    file.write_text(
        FILE.replace('plugins = ["my_rules.py"]\n', "")
        .replace('model = "ladder"\nrungs = [0, 0.5, 0.5]\napart = 0.1', PLAIN)
        .replace('noise = { law = "laplace", scale = 0.2 }\n', "")
        .replace('"bold"\n', '"fed2-ucb"\nadmissions = "2^p"\n')
        .replace('estimator = "middle"\n', "")
        .replace('"scaled", factor = 0.25', '"narrow"')
        .replace('"scaled"', '"narrow"'),
        encoding="utf-8",
    )
    program = "import sys; sys.path.insert(0, ''); from fedbandits.cli import main; main()"
    assert "mine: fed2-ucb, fidelity cohorts" in python(program, "check", file, cwd=distribution)
