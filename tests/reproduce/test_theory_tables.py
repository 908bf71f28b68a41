"""The page's tables of what the theorems promise, and that no simulated mean may be above."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.reproduce.catalogue import paper_experiment
from fedbandits.reproduce.part import Kept, play
from fedbandits.reproduce.reproduction import reproduce_paper
from fedbandits.reproduce.steps import Step
from fedbandits.reproduce.theory_tables import (
    PART,
    Rows,
    bounds_html,
    bounds_table,
    clients_table,
    orders_table,
    schedules_table,
    theory_batches,
)
from fedbandits.theory.sampling import clients_for_error, misranking_probability
from games import MEANS

GAPS = 0.79 - np.array(MEANS[:-1])
LOG = math.log(10**6)


def reproduced(name: str, *, mean: float = 1.0, stderr: float | None = 0.1) -> Kept:
    """Return an experiment whose variants all have the same regret, without simulating it."""
    experiment = paper_experiment(name)
    regret = {"total": {"mean": mean, "stderr": stderr}}
    summary: dict[str, Any] = {
        "title": experiment.title,
        "spec": {"replications": experiment.replications},
        "variants": [{"label": variant.label, "regret": regret} for variant in experiment.variants],
    }
    return Kept(made_from="", replications=None, table={"summary": summary})


# Theorems 2 and 3 ---------------------------------------------------------------------------------

# By hand: after 13 phases M(q) = 2^(q + 1) - 2 clients a phase; a billion clients at most.
COMMUNICATION = sum(2 ** (q + 1) - 2 for q in range(1, 14))
FAILURE = 4 * (10**9 / 10**6) * (1 + 1) * 10


def test_bounds_are_those_of_theorem_2_term_by_term() -> None:
    row = bounds_table({"fig4-theory": reproduced("fig4-theory")})[0]
    assert (row["variant"], row["theorem"], row["reason"]) == ("Fed2-UCB", 2, None)
    assert row["communication"] == COMMUNICATION == 32_738
    assert row["failure"] == pytest.approx(FAILURE)
    assert row["exploration"] == pytest.approx(295_836)
    assert row["bound"] == row["exploration"] + row["communication"] + row["failure"]
    assert (row["low"], row["high"]) == (pytest.approx(1 - 0.196), pytest.approx(1 + 0.196))


BOUND = 408_574.0


@pytest.mark.parametrize(
    ("mean", "stderr"), [(BOUND + 1, 0.0), (BOUND - 1, 1.0), (BOUND + 1, None), (math.nan, 0.0)]
)
def test_a_mean_that_is_not_below_its_bound_is_an_error(mean: float, stderr: float | None) -> None:
    made = reproduced("fig4-theory")
    made.table["summary"]["variants"][0]["regret"] = {"total": {"mean": mean, "stderr": stderr}}
    with pytest.raises(RuntimeError, match="Fed2-UCB") as caught:
        bounds_table({"fig4-theory": made})
    message = str(caught.value)
    assert "fig4-theory" in message
    assert "Theorem 2" in message
    assert f"{BOUND:,.1f}" in message
    assert f"{mean:,.1f}" in message


def test_a_mean_just_below_its_bound_is_none() -> None:
    made = reproduced("fig4-theory")
    made.table["summary"]["variants"][0]["regret"] = {"total": {"mean": BOUND - 3, "stderr": 1.0}}
    assert bounds_table({"fig4-theory": made})[0]["high"] == pytest.approx(BOUND - 1.04)


def test_without_a_bound_there_is_a_reason_and_nothing_to_exceed() -> None:
    rows = bounds_table({"fig4": reproduced("fig4", mean=1e12)})
    rows += [
        row
        for row in bounds_table({"fig6-theory": reproduced("fig6-theory")})
        if row["variant"].startswith("Fed1")
    ]
    assert [row["bound"] for row in rows] == [None] * 5
    reasons = [row["reason"] for row in rows]
    below = "its constants are below 6, which the paper's proofs need"
    assert reasons[0] == f"{below} (1 for arms, 1 for clients)"
    assert reasons[2] == 'the theorems are about the paper\'s radius, and this is "improved-ucb"'
    assert "they are a sample" in reasons[3]
    shown = bounds_html(rows)
    for reason in (
        "6, which the paper&#x27;s proofs need (1 for arms",
        "the paper&#x27;s radius",
        "a sample",
    ):
        assert reason in shown
    assert "Of 5 variants 0 meet the conditions" in shown


# Tables 2 and 3 -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def schedules() -> Rows:
    return schedules_table(play(theory_batches(), games=2, workers=1))


def test_every_row_of_both_tables_is_there(schedules: Rows) -> None:
    assert [row["table"] for row in schedules] == [2] * 5 + [3] * 4
    for row in schedules:
        assert row["theorem"] == row["table"]
        assert row["high"] < row["bound"]
        for exact, printed in zip(row["phases"], row["phases_table"], strict=True):
            assert exact <= printed


def test_table_2_has_the_numbers_of_its_formulas(schedules: Rows) -> None:
    rows = {row["schedule"]: row for row in schedules}
    scale = (0.5 / math.sqrt(10) + 0.02) ** 2
    constant = rows["f = 10, g = 2"]
    assert constant["phases_table"][1] == math.ceil(96 * scale * LOG / (2 * 0.02**2))
    explored = sum(10 * scale**2 * LOG**2 / (2 * gap**3) for gap in GAPS)
    assert constant["order_exploration"] == pytest.approx(explored)
    logarithmic = rows["f = 10, g = ⌈log T⌉"]
    assert logarithmic["phases_table"][1] == math.ceil(96 * scale / 0.02**2)
    assert logarithmic["order_communication"] == pytest.approx(scale**2 * LOG / 0.02**4)
    own = rows["f = 100, g = 2^p"]
    assert own["phases"] == [9, 13]
    assert own["bound"] == pytest.approx(BOUND)


def test_table_3_has_the_numbers_of_its_formulas(schedules: Rows) -> None:
    rows = {row["schedule"]: row for row in schedules}
    needed = 96 * 0.25 * LOG / (5 * 0.02**2)
    assert rows["f = 100"]["phases"][1] == rows["f = 100"]["phases_table"][1]
    assert rows["f = 100"]["phases"][1] == math.ceil(needed / 100)
    assert rows["f = ⌈10 log T⌉"]["phases"][1] == math.ceil(needed / 139)
    # 2 + 4 + … + 2^p pulls.
    assert rows["f = 2^p"]["phases"][1] == math.ceil(math.log2(needed / 2 + 1))
    assert rows["f = 2^p"]["communication"] == 5 * rows["f = 2^p"]["phases"][1]
    # The page says that regret is about a quarter of the bound.
    assert all(0.2 < row["mean"] / row["bound"] < 0.3 for row in schedules if row["table"] == 3)
    assert rows["f = 100"]["order_communication"] == pytest.approx(0.25 * LOG / (100 * 0.02**2))


def test_the_tables_simulate_the_games_of_the_figures(schedules: Rows) -> None:
    rows = {(row["table"], row["schedule"]): row for row in schedules}
    for name, key in (
        ("fig3-theory", (3, "f = ⌈10 log T⌉")),
        ("fig4-theory", (2, "f = 100, g = 2^p")),
    ):
        figure = paper_experiment(name)
        alone = replace(figure, variants=figure.variants[:1], replications=20)
        total = alone.run(workers=1).simulations[0].games.total
        assert rows[key]["replications"] == 20
        assert rows[key]["mean"] == pytest.approx(total.mean())


# Theorem 1 ----------------------------------------------------------------------------------------


def test_client_numbers_are_enough_fewest_and_too_few() -> None:
    rows = clients_table()
    assert [(row["game"], row["gap"], row["spread"], row["error"]) for row in rows] == [
        ("figure 7", 0.02, 0.1, 0.01),
        ("figure 7", 0.02, 0.1, 1e-6),
        ("figure 7", 0.01, 0.1, 0.01),
        ("figure 7", 0.01, 0.1, 1e-6),
        ("figure 4", pytest.approx(0.02), 0.02, 0.01),
        ("figure 4", pytest.approx(0.02), 0.02, 1e-6),
    ]
    for row in rows:
        ratio = (row["spread"] / row["gap"]) ** 2
        assert row["corrected"] == math.ceil(4 * ratio * math.log(10 / row["error"]))
        assert row["printed"] == math.ceil(ratio * math.log(10 / row["error"]))
        assert row["printed"] < row["exact"] < row["corrected"]
        assert row["corrected_error"] < row["exact_error"] <= row["error"]
        assert row["printed_error"] > 3 * row["error"]
        gaps = 0.77 + row["gap"] - np.array(MEANS[:-1])
        assert misranking_probability(gaps, row["spread"], row["exact"] - 1) > row["error"]


def test_the_fewest_clients_may_be_one() -> None:
    assert clients_for_error([1.0], 0.01, error=0.4) == 1
    for error in (0.0, 1.0, math.nan):
        with pytest.raises(fb.InputError, match="error"):
            clients_for_error([0.02], 0.1, error=error)


# Orders, the page ---------------------------------------------------------------------------------


def test_orders_are_those_of_the_corollaries(schedules: Rows) -> None:
    rows = {row["statement"]: row for row in orders_table(schedules)}
    scale = (0.5 / 10 + 0.02) ** 2
    first = (100 * scale * LOG / GAPS).sum() + scale * LOG / 0.02**2
    assert rows["Corollary 1"]["value"] == pytest.approx(first)
    assert rows["Corollary 2"]["value"] == pytest.approx((0.25 * LOG / GAPS).sum())
    assert rows["Lai-Robbins"]["value"] == pytest.approx((0.5 * LOG / GAPS).sum())
    assert rows["Corollary 1"]["mean"] == schedules[3]["mean"]


def test_the_section_shows_every_table(schedules: Rows) -> None:
    made = reproduced("fig4-theory")
    made.table["summary"]["variants"][0]["regret"] = {"total": {"mean": 87_019.0, "stderr": 1.0}}
    tables = {
        "bounds": bounds_table({"fig4-theory": made}),
        "schedules": schedules,
        "clients": clients_table(),
        "orders": orders_table(schedules),
    }
    section = PART.section(Kept(made_from="", replications=None, table=tables))
    text = " ".join(section.split())
    assert text.count('<div class="scroll"') == text.count("<table") == text.count("<figcaption>")
    assert text.count("<table") == 5
    for number in ("408,574", "87,019", "295,836", "4,068,536", "1,607", "52,595", "1,612"):
        assert f">{number}" in text, number
    assert "21&nbsp;%" in text
    assert "Asymptotic: no bound at a finite horizon." in text
    # A lower bound in the limit, which few approach.
    assert "cannot stay below it as T grows, and most such players stay above it" in text


def test_the_page_has_the_section_and_it_is_kept(tmp_path: Path) -> None:
    told: list[Step] = []
    for _ in range(2):
        page = reproduce_paper(
            ["fig5", "theory"], tmp_path, replications=3, workers=1, watch=told.append
        )
    made = [step.state for step in told if step.part == "theory" and step.state != "running"]
    assert made == ["done", "as it was"]
    text = page.read_text(encoding="utf-8")
    assert text.index("Figure 5: ") < text.index("Theory: what the theorems promise")
    assert "Of 6 variants 3 meet the conditions of a theorem" in text
    assert "none: its constants are below 6, which the paper&#x27;s proofs need (2 for arms" in text
    table = json.loads((tmp_path / "theory.json").read_text(encoding="utf-8"))["table"]
    assert set(table) == {"bounds", "schedules", "clients", "orders"}
    assert [row["failure"] for row in table["bounds"]] == [None] * 3 + [8_000_000.0] * 3


def test_what_the_tables_depend_on_is_in_their_hash() -> None:
    first = PART.fingerprint(None)
    assert first == PART.fingerprint(200) == PART.fingerprint(10_000)
    assert first != PART.fingerprint(100)
    # Tables 2 and 3 are never simulated with fewer than 20.
    assert PART.fingerprint(2) == PART.fingerprint(20)


def bounds_on_disk(folder: Path) -> list[str]:
    table = json.loads((folder / "theory.json").read_text(encoding="utf-8"))["table"]
    return list(dict.fromkeys(row["experiment"] for row in table["bounds"]))


def test_bounds_are_those_of_the_figures_on_the_page(tmp_path: Path) -> None:
    reproduce_paper(["fig5", "theory"], tmp_path, replications=3, workers=1)
    assert bounds_on_disk(tmp_path) == ["fig5", "fig5-theory"]
    told: list[Step] = []
    # Alone, the theory is compared with what is there.
    page = reproduce_paper(["theory"], tmp_path, replications=3, workers=1, watch=told.append)
    assert told[-1].state == "as it was"
    assert bounds_on_disk(tmp_path) == ["fig5", "fig5-theory"]
    assert "Of 6 variants 3 meet" in page.read_text(encoding="utf-8")
    # Alone, a figure is compared with the theory that is there.
    page = reproduce_paper(["fig4"], tmp_path, replications=3, workers=1)
    assert bounds_on_disk(tmp_path) == ["fig4", "fig4-theory", "fig5", "fig5-theory"]
    assert "none: its constants are below 6, which the paper" in page.read_text(encoding="utf-8")
