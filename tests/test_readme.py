"""What the README and the walk-throughs show runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import fedbandits as fb
from fedbandits.report.wording import in_words
from fedbandits.reproduce.claims import claims
from fedbandits.simulation.tables import quantity
from repository import ROOT


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```", text, flags=re.MULTILINE | re.DOTALL)
    return [re.sub(rf"^{indent}", "", block, flags=re.MULTILINE) for indent, block in found]


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_the_fifteen_lines_of_python_run_and_write_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = blocks("README.md", "python")
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 15
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert "index rule" in capsys.readouterr().out
    written = {path.name for path in (tmp_path / "out" / "fed2-ucb").iterdir()}
    assert {"summary.json", "report.html", "regret.png"} <= written
    summary = json.loads((tmp_path / "out/fed2-ucb/summary.json").read_text(encoding="utf-8"))
    total = summary["variants"][0]["regret"]["total"]
    # The known regret of figure 4's game: 15,089 ± 52.
    assert abs(total["mean"] - 15_089) < 4 * (total["stderr"] ** 2 + 52**2) ** 0.5


def test_the_sweep_of_the_page_gives_its_numbers(tmp_path: Path) -> None:
    (shown,) = [
        block for block in blocks("docs/sweeps.md", "text") if "communication_cost" in block
    ]
    sweep = fb.load_sweep(ROOT / "examples" / "sweep-communication.toml")
    results = fb.run_sweep(sweep, tmp_path, workers=1)
    totals = results.totals()
    said = [
        [
            sweep.label(results.cells[one.best].setting).replace(", ", " "),
            in_words(quantity(totals[one.best])),
            one.verdict(),
        ]
        for one in results.comparisons()
    ]
    found = {" ".join(" ".join(row).split()) for row in said}
    assert {" ".join(line.split()) for line in shown.splitlines()} <= found


def test_the_algorithm_of_the_walk_through_plays() -> None:
    code = blocks("CONTRIBUTING.md", "python")[0]
    names: dict[str, Any] = {"__name__": "fedbandits"}
    exec(compile(code, "CONTRIBUTING.md", "exec", dont_inherit=True), names)
    game = fb.Approximate(means=[0.5, 0.5], noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.1))
    mine = names["MyUcb"](pulls=10, admissions="2^p", phases=3)
    run = fb.simulate(game, mine, horizon=10_000, replications=5)
    assert (run.games.phases == 3).all()


def test_every_algorithm_law_and_model_is_on_the_page() -> None:
    text = (ROOT / "docs" / "experiment-files.md").read_text(encoding="utf-8")
    for name in (*fb.ALGORITHMS, "gaussian", "bernoulli", "uniform", "empirical", "beta"):
        assert f"`{name}`" in text


def test_the_page_counts_the_claims_rightly() -> None:
    text = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    papers = sum(not claim.ours for claim in claims())
    assert f"tests {papers} statements of the paper" in text


def test_public_names_are_listed_once_and_can_be_imported() -> None:
    stub = (ROOT / "src/fedbandits/__init__.pyi").read_text(encoding="utf-8")
    assert sorted(fb.__all__) == sorted(re.findall(r"^from .* as (\w+)$", stub, re.MULTILINE))
    for name in fb.__all__:
        assert getattr(fb, name) is not None


def test_the_citation_and_the_package_have_one_version() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {fb.__version__}\n" in citation
