"""The reproduction: files that ship, runs that are kept, the page."""

from __future__ import annotations

import html
import json
import re
import tomllib
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import fedbandits as fb
from fedbandits.reproduce.catalogue import FIGURES, experiment_text, paper_experiment
from fedbandits.reproduce.claims import CLAIMS
from fedbandits.reproduce.evidence import about_equal, less
from fedbandits.reproduce.misranking import misranking_table
from fedbandits.reproduce.reproduction import reproduce_paper
from fedbandits.reproduce.run import reproduce_experiment
from fedbandits.reproduce.scaling import SCHEDULES, growth_of
from test_cli import command

NAMES = [name for figure in FIGURES.values() for name in figure.experiments]


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
    first = reproduce_experiment("fig5", tmp_path, replications=4)
    again = reproduce_experiment("fig5", tmp_path, replications=4)
    assert (first.reused, again.reused) == (False, True)
    assert again.summary == first.summary
    assert not reproduce_experiment("fig5", tmp_path, replications=5).reused
    assert not reproduce_experiment("fig5", tmp_path, replications=5, fresh=True).reused
    (tmp_path / "fig5" / "curves.parquet").write_bytes(b"damaged")
    assert not reproduce_experiment("fig5", tmp_path, replications=5).reused


def test_one_worker_and_two_give_the_same_numbers(tmp_path: Path) -> None:
    one = reproduce_experiment("fig4", tmp_path / "one", replications=6, workers=1)
    two = reproduce_experiment("fig4", tmp_path / "two", replications=6, workers=2)
    assert one.curves == two.curves


def test_the_page_shows_what_was_asked_for(tmp_path: Path) -> None:
    lines: list[str] = []
    page = reproduce_paper(["fig5", "fig7"], tmp_path, replications=3, say=lines.append)
    text = page.read_text(encoding="utf-8")
    assert [line.split(":")[0] for line in lines] == ["fig5", "fig5-theory", "fig7"]
    keys = re.findall(r'data-figure="([^"]+)"', text)
    assert keys == ["fig5", "fig5-theory", "fig7"]
    for key in keys:
        assert f'<figure id="{key}"' in text
    found = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.DOTALL)
    assert all(json.loads(block)["data"] for block in found)
    assert {path.name for path in tmp_path.iterdir()} == {
        "fig5",
        "fig5-theory",
        "fig7",
        "report.html",
    }
    check_drawn(tmp_path / "fig7", "misranking")


def check_drawn(folder: Path, name: str) -> None:
    """Check that a computed figure is there for print, with its numbers."""
    png, pdf, table = (folder / f"{name}.{suffix}" for suffix in ("png", "pdf", "parquet"))
    assert set(folder.iterdir()) == {png, pdf, table}
    assert png.read_bytes().startswith(b"\x89PNG")
    assert pdf.read_bytes().startswith(b"%PDF")
    assert pl.read_parquet(table).height > 0


@pytest.fixture(scope="module")
def claims(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, str]]]:
    folder = tmp_path_factory.mktemp("claims")
    reproduce_paper(["claims"], folder, replications=300, workers=1)
    return folder, json.loads((folder / "claims.json").read_text(encoding="utf-8"))["table"]


def test_claims_are_judged_and_those_that_fail_are_not_hidden(
    claims: tuple[Path, list[dict[str, str]]],
) -> None:
    folder, table = claims
    verdicts = {claim["claim"]: claim["verdict"] for claim in table}
    assert len(verdicts) == len(CLAIMS)
    # These are far from any doubt, whatever the seed.
    assert verdicts["The centralised version has a very large regret."] == "holds"
    assert verdicts["Fed1-UCB converges faster than the baseline."] == "holds"
    assert verdicts["The best arm is not the optimal arm of any client's local model."] == "fails"
    widened = next(text for text in verdicts if text.startswith("The radius that is widened"))
    assert verdicts[widened] == "fails"
    text = (folder / "report.html").read_text(encoding="utf-8")
    for claim in table:
        assert html.escape(claim["claim"]) in text
        assert html.escape(claim["measured"]) in text


def test_claims_are_kept(claims: tuple[Path, list[dict[str, str]]]) -> None:
    folder, _ = claims
    lines: list[str] = []
    reproduce_paper(["claims"], folder, replications=300, workers=1, say=lines.append)
    assert lines[0].startswith("claims: as it was")


def test_evidence_has_the_level_it_states() -> None:
    """Where nothing differs, 'less' and its reverse are each shown in a share of 1 %."""
    rng = np.random.default_rng(8)
    found = [less(rng.normal(5, 1, 200), rng.normal(5, 1, 200), ("a", "b")) for _ in range(4_000)]
    for p in ("for_it", "against_it"):
        share = np.mean([getattr(evidence, p) < 0.01 for evidence in found])
        assert abs(share - 0.01) < 5 * (0.01 * 0.99 / 4_000) ** 0.5
    edge = [
        about_equal(rng.normal(110, 10, 200), rng.normal(100, 10, 200), ("a", "b")).for_it < 0.01
        for _ in range(4_000)
    ]
    # At the edge of equivalence it is shown no more often than the level.
    assert np.mean(edge) < 0.01 + 5 * (0.01 * 0.99 / 4_000) ** 0.5


def test_regret_grows_as_the_tables_say(tmp_path: Path) -> None:
    page = reproduce_paper(["scaling"], tmp_path, replications=2_000, workers=1)
    table = json.loads((tmp_path / "scaling.json").read_text(encoding="utf-8"))["table"]
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "scaling", "scaling.json"}
    check_drawn(tmp_path / "scaling", "scaling")
    assert 'data-figure="scaling"' in page.read_text(encoding="utf-8")
    growth = {(s.table, s.label): growth_of(table, s.table, s.label) for s in SCHEDULES}
    for key, found in growth.items():
        assert found is not None, key
        # Doubling cohorts and every schedule of Fed1-UCB: O(log T).
        if key[0] == 3 or key[1].startswith(("f = 10, g = 2^p", "f = 10, g = ⌈2^p")):
            assert abs(found.exponent - 1) < 0.15, (key, found)
    constant, pulls = growth[2, "f = 10, g = 2"], growth[2, "f = ⌈10 log T⌉, g = 2^p"]
    assert constant is not None
    assert pulls is not None
    # On their way to O(log² T).
    assert constant.exponent - constant.margin > 1.2
    assert pulls.exponent - pulls.margin > 1.1


def test_figure_7_counts_what_the_integral_says() -> None:
    table = misranking_table()
    exact, counted = np.array(table["exact"]), np.array(table["counted"])
    error = np.sqrt(exact * (1 - exact) / 100_000)
    assert (abs(counted - exact) < 5 * error + 1e-4).all()
    low, high = np.array(table["counted_low"]), np.array(table["counted_high"])
    assert ((low <= counted) & (counted <= high)).all()
    # They are 95 % intervals, and 54: fewer than 45 hits are as good as impossible.
    assert ((low <= exact) & (exact <= high)).sum() >= 45
    assert (np.array(table["bound"]) >= exact).all()
    assert (np.array(table["printed"]) < exact).any()


def test_the_command_shows_files_and_refuses_unknown_figures(tmp_path: Path) -> None:
    shown = command("reproduce", "--show", "fig4")
    assert shown.stdout == experiment_text("fig4")
    for words in (["fig9"], ["--show", "figure4"]):
        done = command("reproduce", *words, "--out", tmp_path / "out")
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert "(known: " in done.stderr
    assert not (tmp_path / "out").exists()


def test_the_command_writes_the_page_and_says_where(tmp_path: Path) -> None:
    done = command("reproduce", "fig5", "-n", "2", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"report: {tmp_path / 'out' / 'report.html'}\n"
    assert "fig5-theory: done (2 of 2" in done.stderr
