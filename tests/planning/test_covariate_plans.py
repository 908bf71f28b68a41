"""Plans for outcomes that are adjusted by a covariate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fedbandits as fb
from fedbandits.planning.text import assumptions
from plans import command

ASKED: dict[str, Any] = {"n_arms": 3, "gap": 0.1, "spread": 0.05, "seed": 3}


def test_a_plan_with_a_covariate_is_that_for_the_noise_that_it_leaves(quick: None) -> None:
    own: dict[str, Any] = {"pulls": 30, "admissions": "4*2^p"}
    plan = fb.plan(**ASKED, **own, noise=0.5, covariate_correlation=-0.6)
    same, bare = fb.plan(**ASKED, **own, noise=0.4), fb.plan(**ASKED, **own, noise=0.5)
    assert plan.unadjusted is not None
    assert plan.suggested == same.suggested
    assert plan.yours == same.yours
    assert plan.unadjusted.suggested == bare.suggested
    assert plan.question.noise == pytest.approx(0.4)
    said = " ".join(plan.answer())
    assert "leaves 64 % of the variance" in said
    assert "a noise of 0.4 instead of 0.5" in said
    assert "What it gains, the best schedule with it against the best without: " in said
    assert "pulls in all instead of" in said
    assert "Your schedule with it against the same without" in said
    assert any("known before its option" in one for one in assumptions(plan))
    assert not any("known before its option" in one for one in assumptions(bare))


@pytest.mark.parametrize("correlation", [1.0, -1.0, 3, float("nan"), "0.5"])
def test_a_correlation_lies_between_minus_one_and_one(correlation: Any) -> None:
    with pytest.raises(fb.InputError, match="covariate_correlation: "):
        fb.plan(**ASKED, noise=0.5, covariate_correlation=correlation)


def test_text_page_and_json_show_the_gain_and_the_keys_of_a_trial(
    quick: None, tmp_path: Path
) -> None:
    words = ("--arms", "3", "--gap", "0.1", "--noise", "0.5", "--spread", "0.05")
    asked = (*words, "--covariate-correlation", "0.6")
    printed = command(*asked, "--out", str(tmp_path / "out")).stdout
    keys = 'covariate = { name = "…", range = [low, high], coefficient = "history" }'
    assert "put this into fedbandits.toml:\n\nassume = { noise = 0.4, spread = 0.05 }\n" in printed
    assert keys in printed
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "range = [low, high], coefficient" in page
    assert "covariate correlation" in page
    assert "What it gains" in page
    said = json.loads(command(*asked, "--json").stdout)
    assert said["covariate"]["correlation"] == 0.6
    assert keys in said["covariate"]["toml"]
    assert said["without_covariate"]["noise"] == 0.5
    less, more = (
        part["suggested"]["pulls_in_all"]["mean"] for part in (said, said["without_covariate"])
    )
    assert less < 0.8 * more
    bare = json.loads(command(*words, "--json").stdout)
    assert (bare["covariate"], bare["without_covariate"]) == (None, None)


def test_a_covariate_may_make_a_plan_feasible(quick: None) -> None:
    asked: dict[str, Any] = {"n_arms": 2, "gap": 0.05, "noise": 0.5, "spread": 0.01, "clients": 4}
    assert not fb.plan(**asked, horizon=300).feasible
    plan = fb.plan(**asked, horizon=300, covariate_correlation=0.99)
    assert plan.feasible
    assert "Without it no schedule is feasible." in plan.answer()
