"""The reproduction: files that ship, runs that are kept, the page."""

from __future__ import annotations

import io
import json
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import polars as pl
import pytest
from rich.console import Console

import fedbandits as fb
from commands import command
from fedbandits.cli.progress import show_steps
from fedbandits.experiments.fingerprint import sources
from fedbandits.experiments.output import open_output
from fedbandits.report.chart import Plot
from fedbandits.reproduce.catalogue import experiment_text, paper_experiment
from fedbandits.reproduce.claims import claim_runs
from fedbandits.reproduce.misranking import misranking_chart, misranking_table
from fedbandits.reproduce.part import Batch
from fedbandits.reproduce.parts import PARTS
from fedbandits.reproduce.real_data.table import REPLICATIONS
from fedbandits.reproduce.regret_curves import FIGURES
from fedbandits.reproduce.reproduction import reproduce_paper, reproduction_page
from fedbandits.reproduce.scaling import SCHEDULES
from fedbandits.reproduce.steps import Step, Steps
from fedbandits.simulation.tables import Table, rows_of

NAMES = [part.key for parts in FIGURES.values() for part in parts]


@pytest.mark.parametrize("name", NAMES)
def test_every_shipped_experiment_is_valid_and_fast(name: str) -> None:
    experiment = paper_experiment(name)
    assert set(experiment.check()) == {"cohorts"}
    assert experiment.title.startswith(f"Figure {name[3]}")


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("-theory")])
def test_the_theorys_constants_are_6_and_all_else_is_as_the_authors_had_it(name: str) -> None:
    authors, theory = (
        tomllib.loads(experiment_text(key)) for key in (name.removesuffix("-theory"), name)
    )
    for table in (authors, theory):
        table.pop("title")
        table.pop("replications")
        for variant in table["variants"]:
            variant.pop("radius", None)
    assert theory == authors
    for variant in paper_experiment(name).variants:
        radius = getattr(variant.algorithm, "radius", fb.PaperRadius())
        assert radius == fb.PaperRadius()


def test_a_run_is_kept_until_something_changes(tmp_path: Path) -> None:
    first = PARTS["fig5"].get(tmp_path, games=4)
    again = PARTS["fig5"].get(tmp_path, games=4)
    assert (first.reused, again.reused) == (False, True)
    assert again.table == first.table
    assert not PARTS["fig5"].get(tmp_path, games=5).reused
    assert not PARTS["fig5"].get(tmp_path, games=5, fresh=True).reused
    (tmp_path / "fig5.json").write_bytes(b"damaged")
    assert not PARTS["fig5"].get(tmp_path, games=5).reused


@pytest.mark.usefixtures("several_processes")
def test_one_worker_and_two_give_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    parallel = joblib.Parallel

    def counted(*, n_jobs: int, return_as: str) -> Any:
        started.append(n_jobs)
        return parallel(n_jobs=n_jobs, return_as=return_as)

    monkeypatch.setattr(joblib, "Parallel", counted)
    one = PARTS["fig5"].get(tmp_path / "one", games=1_100, workers=1)
    assert not started
    two = PARTS["fig5"].get(tmp_path / "two", games=1_100, workers=2)
    assert started == [2]
    assert one.table["curves"] == two.table["curves"]


def test_other_sources_make_everything_anew(tmp_path: Path) -> None:
    (tmp_path / "cli").mkdir()
    (tmp_path / "rules").mkdir()
    for file in ("cli/main.py", "rules/radii.py", "game.toml"):
        (tmp_path / file).write_text("a", encoding="utf-8")
    first = sources(tmp_path)
    (tmp_path / "cli" / "main.py").write_text("b", encoding="utf-8")
    (tmp_path / "rules" / "radii.pyc").write_text("b", encoding="utf-8")
    assert sources(tmp_path) == first
    seen = {first}
    for file in ("rules/radii.py", "game.toml", "new.py"):
        (tmp_path / file).write_text("c", encoding="utf-8")
        seen.add(sources(tmp_path))
    assert len(seen) == 4


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Step]]:
    """Return the folder of many parts, and what was told while they were made."""
    told: list[Step] = []
    asked = ["claims", "scaling", "theory", "fig8", "fig7", "fig5"]
    folder = tmp_path_factory.mktemp("whole")
    reproduce_paper(asked, folder, replications=2, workers=1, watch=told.append)
    return folder, told


@pytest.fixture
def made(whole: tuple[Path, list[Step]], tmp_path: Path) -> Path:
    """Return a copy of this folder, to be changed."""
    return Path(shutil.copytree(whole[0], tmp_path / "made"))


def test_what_other_sources_have_made_is_not_taken(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ["fig5", "fig7"]
    told: list[Step] = []
    reproduce_paper(asked, made, replications=2, workers=1, watch=told.append)
    assert {step.state for step in told} == {"running", "as it was"}
    monkeypatch.setattr("fedbandits.experiments.fingerprint._own_sources", lambda: "others")
    text = reproduce_paper(["fig5"], made, replications=2, workers=1).read_text(encoding="utf-8")
    assert re.findall(r'data-figure="([^"]+)"', text) == ["fig5", "fig5-theory"]
    told.clear()
    reproduce_paper(["fig7"], made, replications=2, workers=1, watch=told.append)
    assert {step.state for step in told} == {"running", "done"}


def test_a_part_alone_leaves_the_others_on_the_page(made: Path) -> None:
    told: list[Step] = []
    page = reproduce_paper(["fig4"], made, replications=3, workers=1, watch=told.append)
    assert {step.part for step in told} == {"fig4", "fig4-theory"}
    text = page.read_text(encoding="utf-8")
    drawn = ["fig4", "fig4-theory", "fig5", "fig5-theory", "fig7", "fig8", "fig8-theory", "scaling"]
    assert sorted(re.findall(r'data-figure="([^"]+)"', text)) == drawn
    assert "What the paper says" in text
    assert text.count("<p>3 replications of") == 2
    assert text.count("<p>2 replications of") == 4
    # What is damaged or not whole is left out, and the rest stays.
    (made / "fig5.json").write_text("{", encoding="utf-8")
    (made / "claims.json").write_text("[]", encoding="utf-8")
    (made / "scaling" / "scaling.png").unlink()
    text = reproduce_paper(["fig7"], made, workers=1).read_text(encoding="utf-8")
    left = [key for key in drawn if not key.startswith("fig5")]
    assert sorted(re.findall(r'data-figure="([^"]+)"', text)) == left
    assert "What the paper says" not in text
    check_drawn(made / "scaling", "scaling")


@pytest.mark.parametrize(
    ("asked", "games"),
    [
        (None, (10_000, 2_000, 500, 200, 200, 100)),
        (100, (100, 100, 100, 100, 100, 100)),
        (1_000, (1_000, 1_000, 500, 200, 200, 100)),
        (1, (2, 2, 2, 2, 20, 2)),
    ],
)
def test_a_part_plays_as_many_games_as_asked_for_up_to_its_own(
    asked: int | None, games: tuple[int, ...]
) -> None:
    many, fewer, few, scaled, tabled, real = games
    assert PARTS["claims"].replications(asked) == 13 * many + 17 * fewer + few
    assert len(claim_runs()) == 13 + 17 + 1
    assert PARTS["scaling"].replications(asked) == 63 * scaled
    assert PARTS["theory"].replications(asked) == 9 * tabled
    on_real_clients = REPLICATIONS["real clients"]
    batch = Batch(variants={}, horizon=None, replications=on_real_clients, seed=0)
    assert batch.games(asked) == real


def test_the_page_shows_what_was_asked_for(tmp_path: Path) -> None:
    told: list[Step] = []
    page = reproduce_paper(["fig5", "fig7"], tmp_path, replications=3, watch=told.append)
    text = page.read_text(encoding="utf-8")
    assert [step.part for step in told if step.state == "done"] == ["fig5", "fig5-theory", "fig7"]
    keys = re.findall(r'data-figure="([^"]+)"', text)
    assert keys == ["fig5", "fig5-theory", "fig7"]
    for key in keys:
        assert f'<figure id="{key}"' in text
    found = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.DOTALL)
    assert all(json.loads(block)["views"] for block in found)
    assert {path.name for path in tmp_path.iterdir()} == {
        "fig5",
        "fig5.json",
        "fig5-theory",
        "fig5-theory.json",
        "fig7",
        "fig7.json",
        "report.html",
    }
    headings = re.findall(r"<h2>(.*?)</h2>", text)
    links = re.findall(r'<li><a href="#(section-\d)">(.*?)</a>', text)
    assert [heading for _, heading in links] == headings
    for target, heading in links:
        assert f'<section id="{target}">\n<h2>{heading}</h2>' in text
    said = "± is half of a 95&nbsp;% confidence interval. Times the lower bound: total regret"
    assert text.count(said) == 2
    check_drawn(tmp_path / "fig7", "misranking")


def check_drawn(folder: Path, name: str) -> None:
    """Check that a computed figure is there for print, with its numbers."""
    png, pdf, table = (folder / f"{name}.{suffix}" for suffix in ("png", "pdf", "parquet"))
    assert set(folder.iterdir()) == {png, pdf, table}
    assert png.read_bytes().startswith(b"\x89PNG")
    assert pdf.read_bytes().startswith(b"%PDF")
    assert pl.read_parquet(table).height > 0


def test_regret_grows_as_the_tables_say(tmp_path: Path) -> None:
    page = reproduce_paper(["scaling"], tmp_path, replications=2_000, workers=1)
    table = json.loads((tmp_path / "scaling.json").read_text(encoding="utf-8"))["table"]
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "scaling", "scaling.json"}
    check_drawn(tmp_path / "scaling", "scaling")
    assert 'data-figure="scaling"' in page.read_text(encoding="utf-8")
    growth = {(row["table"], row["schedule"]): row for row in rows_of(table)}
    assert len(growth) == len(SCHEDULES)
    for key, found in growth.items():
        # Doubling cohorts and every schedule of Fed1-UCB: O(log T).
        if key[0] == 3 or key[1].startswith(("f = 10, g = 2^p", "f = 10, g = ⌈2^p")):
            assert abs(found["exponent"] - 1) < 0.15, (key, found)
    constant, pulls = growth[2, "f = 10, g = 2"], growth[2, "f = ⌈10 log T⌉, g = 2^p"]
    # On their way to O(log² T).
    assert constant["exponent_low"] > 1.2
    assert pulls["exponent_low"] > 1.1


@pytest.fixture(scope="module")
def misranked() -> Table:
    return misranking_table()


def test_figure_7_counts_what_the_integral_says(misranked: Table) -> None:
    table = misranked
    exact, counted = np.array(table["exact"]), np.array(table["counted"])
    error = np.sqrt(exact * (1 - exact) / 100_000)
    assert (abs(counted - exact) < 5 * error + 1e-4).all()
    low, high = np.array(table["counted_low"]), np.array(table["counted_high"])
    assert ((low <= counted) & (counted <= high)).all()
    # They are 95 % intervals, and 54: fewer than 45 hits are as good as impossible.
    assert ((low <= exact) & (exact <= high)).sum() >= 45
    assert (np.array(table["bound"]) >= exact).all()
    assert (np.array(table["printed"]) < exact).any()


def test_figure_7_marks_the_upper_limit_where_nothing_was_counted(misranked: Table) -> None:
    table = misranked
    (plot,) = misranking_chart(table).panels
    assert isinstance(plot, Plot)
    points = [one for one in plot.series if one.mark == "dot"]
    limits = [one for one in plot.series if one.mark == "down"]
    never = 0
    for seen, unseen, gap in zip(points, limits, (0.02, 0.01), strict=True):
        assert unseen.group == seen.label
        rows = [row for row, value in enumerate(table["gap"]) if value == gap]
        counted = {table["clients"][row]: table["counted"][row] for row in rows}
        high = {table["clients"][row]: table["counted_high"][row] for row in rows}
        assert sorted([*seen.x, *unseen.x]) == sorted(counted)
        for clients, value, end in zip(seen.x, seen.y, seen.high or (), strict=True):
            assert value == counted[int(clients)] > 0
            assert end == high[int(clients)]
        for clients, value, said in zip(unseen.x, unseen.y, unseen.said, strict=True):
            never += 1
            assert counted[int(clients)] == 0
            assert value == high[int(clients)] == pytest.approx(3.7e-05, rel=0.01)
            assert said == "none seen: at most this"
        assert unseen.interval() is None
    assert never


# Where it stands


def test_every_part_has_a_cost() -> None:
    for part in PARTS.values():
        assert 0 < part.seconds(1) <= part.seconds(None)


def test_figures_stand_in_the_order_of_the_paper(whole: tuple[Path, list[Step]]) -> None:
    folder, told = whole
    text = (folder / "report.html").read_text(encoding="utf-8")
    made = [step.part for step in told if step.state == "done"]
    drawn = ["fig5", "fig5-theory", "fig7", "fig8", "fig8-theory", "scaling"]
    assert made == [*drawn[:-1], "theory", "scaling", "claims"]
    assert re.findall(r'<figure id="([^"]+)"', text) == drawn
    assert [heading.split(":")[0] for heading in re.findall(r"<h2>(.*?)</h2>", text)] == [
        "What this is",
        "What the paper says, and what was measured",
        "Figure 5",
        "Figure 7",
        "Figure 8",
        "Theory",
        "Tables 2 and 3",
        "How to read this",
    ]
    # What is said above is not said again.
    assert re.findall(r"<h3>(.*? constants|Constants .*?)</h3>", text) == [
        "The authors&#x27; constants",
        "The theory&#x27;s constants",
        "Constants 1 and 1",
        "The theory&#x27;s constants",
    ]


def test_replications_are_counted_while_a_part_is_made(whole: tuple[Path, list[Step]]) -> None:
    _, told = whole
    for first, second in pairwise(told):
        assert first.passed <= second.passed
        assert first.share <= second.share
    for step in told:
        assert step.left >= 0
        if step.state == "done" and step.part != "fig7":
            assert step.replications == step.all_replications > 0, step
    assert told[-1].share == pytest.approx(1)
    assert told[-1].left == pytest.approx(0, abs=1e-9)


def test_the_time_left_follows_what_was_measured() -> None:
    seconds = 0.0
    told: list[Step] = []
    steps = Steps({"a": 10.0, "b": 10.0, "c": 10.0}, told.append, clock=lambda: seconds)
    with steps.part("a"):
        seconds += 1000  # a hundred times what was expected
    assert told[-1].left == pytest.approx(20 * (15 + 1000) / (15 + 10))
    with steps.part("b") as part:
        part.reused = True
    # What was not made says nothing of how fast this machine is.
    assert told[-1].left == pytest.approx(10 * (15 + 1000) / (15 + 10))
    with steps.part("c"):
        pass
    assert told[-1].left == 0


def shown(*, terminal: bool) -> str:
    """Return what is shown of a reproduction of two parts, the second of which takes long."""
    out = io.StringIO()
    seconds = 0.0
    with show_steps(Console(file=out, force_terminal=terminal, width=120)) as watch:
        steps = Steps({"fig4": 10.0, "claims": 90.0}, watch, clock=lambda: seconds)
        with steps.part("fig4", replications=100) as part:
            part.progress("Fed2-UCB", 100)
            seconds += 10
        with steps.part("claims", replications=4_000) as part:
            for _ in range(4):
                seconds += 6
                part.progress("M = 5", 1_000)
    return out.getvalue()


def test_lines_name_what_is_being_made_and_the_time_left() -> None:
    assert shown(terminal=False).splitlines() == [
        "fig4: running (1 of 2, 0 s, about 2 min left)",
        "fig4: done (1 of 2, 10 s, about 2 min left)",
        "claims: running (2 of 2, 10 s, about 2 min left)",
        # Every ten seconds at most.
        "claims: 2,000 of 4,000 replications (2 of 2, 22 s, about 24 s left)",
        "claims: 4,000 of 4,000 replications (2 of 2, 34 s, about 0 s left)",
        "claims: done (2 of 2, 34 s, about 0 s left)",
    ]


def test_a_terminal_names_what_is_being_made_and_the_time_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fedbandits.notebook.bar.PATIENCE", 0.0)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown(terminal=True))
    assert re.search(r"claims \(2 of 2\) .* 4,000 of 4,000 replications about 0 s left", text)


# Interrupted


def test_the_introduction_promises_nothing_that_is_not_there() -> None:
    page = reproduction_page([], {})
    assert "sentence by sentence" not in page
    assert "Figure 3: Fed1-UCB" not in page


def check_that_only_figure_4_is_there(out: Path) -> None:
    """Check that one experiment is finished, and nothing is left of what was being made."""
    assert {path.name for path in out.iterdir()} == {"fig4", "fig4.json"}
    assert {path.name for path in (out / "fig4").iterdir()} == {
        "curves.parquet",
        "regret.pdf",
        "regret.png",
        "replications.parquet",
        "summary.json",
    }


def test_what_is_finished_outlives_an_interruption(tmp_path: Path) -> None:
    def interrupt(step: Step) -> None:
        if step.part == "fig4-theory" and step.replications:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce_paper(
            ["fig4", "fig7"], tmp_path / "out", replications=3, workers=1, watch=interrupt
        )
    check_that_only_figure_4_is_there(tmp_path / "out")
    told: list[Step] = []
    reproduce_paper(
        ["fig4", "fig7"], tmp_path / "out", replications=3, workers=1, watch=told.append
    )
    assert [(step.part, step.state) for step in told if step.state != "running"] == [
        ("fig4", "as it was"),
        ("fig4-theory", "done"),
        ("fig7", "done"),
    ]


def test_an_interruption_while_files_are_put_in_place_mixes_no_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    PARTS["fig5"].get(tmp_path, games=2, workers=1)
    replace = Path.replace

    def interrupted(path: Path, target: Path) -> Path:
        if path.name == "regret.png":
            raise KeyboardInterrupt
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        PARTS["fig5"].get(tmp_path, games=3, workers=1)
    monkeypatch.undo()
    for replications in (2, 3):
        made = PARTS["fig5"].get(tmp_path, games=replications, workers=1)
        assert not made.reused
        assert made.table["summary"]["spec"]["replications"] == replications


def test_ctrl_c_keeps_what_is_finished(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["reproduce", "fig4", "--replications", "5000", "--workers", "1", "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-m", "fedbandits", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("fig4-theory: running"):
            break
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=600)
    assert process.returncode == 130
    assert stdout == ""
    assert stderr == f"interrupted; finished figures are kept in {out}; run it again to continue\n"
    check_that_only_figure_4_is_there(out)


def test_the_command_shows_files_and_refuses_unknown_figures(tmp_path: Path) -> None:
    shown = command("reproduce", "--show", "fig4")
    assert shown.stdout == experiment_text("fig4")
    for words in (["fig9"], ["--show", "figure4"]):
        done = command("reproduce", *words, "--out", tmp_path / "out")
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert "(known: " in done.stderr
    assert not (tmp_path / "out").exists()


def test_what_is_computed_has_no_file_to_show() -> None:
    for part in ("fig7", "claims"):
        done = command("reproduce", "--show", part)
        assert done.returncode == 2
        assert f'"{part}" is computed and has no experiment file; files: fig3, ' in done.stderr


def test_a_page_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "report.html").mkdir(parents=True)
    with pytest.raises(fb.InputError, match=f"{out / 'report.html'} is a directory"):
        reproduce_paper(["fig5"], out, replications=2, workers=1)
    assert [path.name for path in out.iterdir()] == ["report.html"]
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(fb.InputError, match=f"{tmp_path / 'file'} is not a directory"):
        reproduce_paper(["fig5"], tmp_path / "file", replications=2, workers=1)


def test_errors_name_the_folder_as_it_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("taken").write_text("", encoding="utf-8")
    with pytest.raises(fb.InputError) as caught, open_output(Path("taken")):
        pass
    assert str(caught.value) == "--out: taken is not a directory; name another one"


def test_the_command_writes_the_page_and_says_where(tmp_path: Path) -> None:
    done = command("reproduce", "fig5", "-n", "2", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"report: {tmp_path / 'out' / 'report.html'}\n"
    lines = [line.split(",")[0] for line in done.stderr.splitlines()]
    assert lines == [
        "fig5: running (1 of 2",
        "fig5: done (1 of 2",
        "fig5-theory: running (2 of 2",
        "fig5-theory: done (2 of 2",
    ]
