"""Rules are built once, results summarised once, files read once, tables handed over in memory."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedbandits.cli.main import main
from fedbandits.experiments import results
from fedbandits.reproduce.catalogue import experiment_text, paper_experiment
from fedbandits.reproduce.regret_curves import FIGURES
from fedbandits.rules.algorithms import Fed2Ucb

Counted = Callable[[object, str], list[str]]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Return what notes every call of a function that a module or class has."""

    def count(owner: object, name: str) -> list[str]:
        calls: list[str] = []
        called = getattr(owner, name)

        def noted(*args: Any, **settings: Any) -> Any:
            calls.append(name)
            return called(*args, **settings)

        monkeypatch.setattr(owner, name, noted)
        return calls

    return count


@pytest.fixture
def figure_4(tmp_path: Path) -> Path:
    file = tmp_path / "figure-4.toml"
    file.write_text(experiment_text("fig4"), encoding="utf-8")
    return file


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_run_builds_its_rules_once_and_is_summarised_once(
    figure_4: Path,
    tmp_path: Path,
    counted: Counted,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
) -> None:
    paper_experiment.cache_clear()
    built = counted(Fed2Ucb, "rule")
    described = counted(results, "describe_experiment")
    drawn = counted(results, "curves_table")
    out = str(tmp_path / "out")
    monkeypatch.setattr(
        sys,
        "argv",
        ["fedbandits", "run", str(figure_4), "-n", "2", "-w", "1", "--out", out, *options],
    )
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    # Figure 4's file has one variant.
    assert (len(built), len(described), len(drawn)) == (1, 1, 1)


def test_a_simulation_knows_the_rule_it_was_played_with() -> None:
    experiment = paper_experiment("fig3")
    played = experiment.run(workers=1).simulations
    assert [simulation.rule for simulation in played] == [rule for rule, _ in experiment.built]
    assert all(
        simulation.rule is rule
        for simulation, (rule, _) in zip(played, experiment.built, strict=True)
    )


def test_an_experiment_of_the_paper_is_read_once_and_handed_over_in_memory(
    tmp_path: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    paper_experiment.cache_clear()
    parsed = counted(tomllib, "loads")
    read = counted(json, "loads")
    figure_4 = FIGURES["fig4"][0]
    made = figure_4.get(tmp_path, games=2, workers=1)
    assert (len(parsed), len(read)) == (1, 0)
    again = figure_4.get(tmp_path, games=2, workers=1)
    assert (len(parsed), len(read)) == (1, 1)
    assert (made.reused, again.reused) == (False, True)
    # What was handed over is what stands in the files.
    assert (made.table, made.images) == (again.table, again.images)


def test_reproducing_a_figure_reads_each_of_its_files_once(
    tmp_path: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    paper_experiment.cache_clear()
    parsed: list[str] = []
    loads = tomllib.loads

    def noted(text: str, **settings: Any) -> Any:
        parsed.append(text)
        return loads(text, **settings)

    monkeypatch.setattr(tomllib, "loads", noted)
    built = counted(Fed2Ucb, "rule")
    out = str(tmp_path / "out")
    monkeypatch.setattr(
        sys, "argv", ["fedbandits", "reproduce", "fig4", "-n", "2", "-w", "1", "--out", out]
    )
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    # The authors' constants and the theory's: two files of one variant each. Others are texts.
    assert len(parsed) == len(set(parsed))
    assert {experiment_text("fig4"), experiment_text("fig4-theory")} <= set(parsed)
    assert len(built) == 2
