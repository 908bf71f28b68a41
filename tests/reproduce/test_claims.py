"""Claims of the paper: judged, shown and kept."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fedbandits.report.markup import with_subscripts
from fedbandits.reproduce.catalogue import paper_experiment
from fedbandits.reproduce.claims import PART, claim_runs, counted
from fedbandits.reproduce.claims import claims as all_claims
from fedbandits.reproduce.part import Kept
from fedbandits.reproduce.reproduction import reproduce_paper
from fedbandits.reproduce.steps import Step

GAMES = 300

FAIL = {
    "The best arm is not the optimal arm of any client's local model.",
    "Fed2-UCB's additional communication loss is very limited.",
    "With all clients Fed1-UCB converges to the best arm.",
    "With Δ = 0.04, g(p) = 2^p has less regret than ⌈log T⌉.",
    "The radius that is widened for quantisation, B' = 2B, costs only slightly more.",
    "The baseline performs as improved UCB, by whose name the paper calls it.",
    "At the same σ_c = 0.02, Fed2-UCB (f = 200) beats Fed1-UCB with 200 clients.",
}
# With so few games; a share above 99 % takes some 900 to be shown.
OPEN = {
    "Fed2-UCB successfully finds the optimal global arm.",
    "… and only slightly worse.",
    "Fed2-UCB achieves almost the same performance as Fed1-UCB.",
    "The baseline cannot converge within T = 10,000.",
    "… to capture the global model faithfully.",
}


@pytest.fixture(scope="module")
def claims(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("claims")
    reproduce_paper(["claims"], folder, replications=GAMES, workers=1)
    return folder, json.loads((folder / "claims.json").read_text(encoding="utf-8"))["table"]


def test_claims_are_judged_and_those_that_fail_are_not_hidden(
    claims: tuple[Path, dict[str, Any]],
) -> None:
    """All but those that are open are far from any doubt: p < 1e-7."""
    folder, found = claims
    judged = {claim["claim"]: claim["verdict"] for claim in found["claims"]}
    assert len(judged) == len(all_claims())
    assert set(judged) > FAIL | OPEN
    for sentence, verdict in judged.items():
        if sentence in OPEN:
            assert verdict == "undecided", sentence
        else:
            assert verdict == ("fails" if sentence in FAIL else "holds"), sentence
    text = (folder / "report.html").read_text(encoding="utf-8")
    for claim in found["claims"]:
        assert with_subscripts(claim["claim"]) in text
        assert with_subscripts(claim["read"]) in text
        assert with_subscripts(claim["measured"]) in text
    assert "σ_c" not in text
    assert "P<sub>e</sub> decreases" in text


def test_claims_say_what_they_rest_on(claims: tuple[Path, dict[str, Any]]) -> None:
    folder, found = claims
    text = re.sub(r"\s+", " ", (folder / "report.html").read_text(encoding="utf-8"))
    ours = [claim for claim in found["claims"] if claim["ours"]]
    papers = len(found["claims"]) - len(ours)
    assert f"Of {papers} statements of the paper that were tested" in text
    assert f"Of {len(ours)} statements 4 hold and 2 fail." in text
    first = text.index(with_subscripts(ours[0]["claim"]))
    assert first > text.index("Ours, to put the above into proportion")
    assert f"They rest on {GAMES} games of each variant, as each row says" in text
    assert "The games have another seed than the figures'" in text
    assert "(Holm's method over all tests, for and against" in text
    assert found["level"] == 0.01
    assert set(found["games"]) == set(claim_runs())
    assert set(found["games"].values()) == {GAMES}
    for name, seed in found["seeds"].items():
        assert seed != paper_experiment(name).seed
    for claim in found["claims"]:
        if claim["games"] is None:
            assert claim["p_for"] + claim["p_against"] == 1
            continue
        assert claim["numbers"]
        for number in claim["numbers"]:
            assert number["n"] == GAMES
            keys = set(number) & {"mean", "median", "share", "ratio", "growth"}
            (key,) = keys
            assert number["low"] <= number[key] <= number["high"]


def test_the_page_says_how_many_games_each_claim_has() -> None:
    said = {"level": 0.01, "seeds": {"fig3": 2022}}
    rows = [claim_row(games=500), claim_row(games=None), claim_row(games=2, ours=True)]
    table = {**said, "games": {"M=5": 10_000, "centralised": 500}, "claims": rows}
    section = PART.section(Kept(made_from="", replications=None, table=table))
    text = " ".join(section.split())
    assert "They rest on 500 to 10,000 games of each variant, as each row says" in text
    assert "another seed than the figures' (2022)" in text
    assert text.count("<small>of 500 games</small>") == 1
    assert text.count("<small>computed</small>") == 1
    assert (
        "Of 2 statements of the paper that were tested (a sentence may make several), 2 hold."
        in text
    )
    assert "Of 1 statement 1 holds." in text


def claim_row(*, games: int | None, ours: bool = False) -> dict[str, Any]:
    """Return a claim as it is judged."""
    return {
        "where": "figure 3",
        "claim": "a sentence",
        "read": "",
        "ours": ours,
        "measured": "a number",
        "games": games,
        "verdict": "holds",
        "reason": "",
    }


def test_verdicts_are_counted_in_words() -> None:
    def words(*verdicts: str) -> str:
        return counted([{"verdict": verdict} for verdict in verdicts])

    assert words("holds") == "1 holds"
    assert words("holds", "holds", "fails") == "2 hold and 1 fails"
    assert words("fails", "fails", "undecided", "holds") == "1 holds, 2 fail and 1 is undecided"
    assert words("undecided", "undecided") == "2 are undecided"


def test_few_games_give_no_verdict(tmp_path: Path) -> None:
    page = reproduce_paper(["claims"], tmp_path, replications=99, workers=1)
    table = json.loads((tmp_path / "claims.json").read_text(encoding="utf-8"))["table"]
    for claim in table["claims"]:
        if claim["games"] is None:
            assert claim["verdict"] in {"holds", "fails"}
            assert not claim["reason"]
        else:
            assert (claim["verdict"], claim["reason"]) == ("undecided", "too few games")
    assert "undecided: too few games" in page.read_text(encoding="utf-8")


def test_claims_are_kept(claims: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = claims
    told: list[Step] = []
    reproduce_paper(["claims"], folder, replications=GAMES, workers=1, watch=told.append)
    assert [step.state for step in told] == ["running", "as it was"]
