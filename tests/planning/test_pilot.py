"""What is estimated from pilot data."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.planning.pilot import read_pilot
from fedbandits.rules.variance_components import variance_components

# Pilot data ---------------------------------------------------------------------------------------


def pilot_rows(rng: np.random.Generator, clients: int, arms: int) -> list[str]:
    """Return summaries of clients with noise 0.5 and spread 0.1, pulling 5 to 25 times."""
    rows = ["client,arm,count,mean,sd"]
    for arm in range(arms):
        for client in range(clients):
            values = 0.3 * arm + rng.normal(0, 0.1) + rng.normal(0, 0.5, rng.integers(5, 26))
            rows.append(
                f"{client},{arm},{values.size},{values.mean():.12g},{values.std(ddof=1):.12g}"
            )
    return rows


def test_pilot_estimates_are_right_on_average_and_their_upper_ends_nearly_always(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(8)
    path = tmp_path / "pilot.csv"
    found = []
    for _ in range(150):
        path.write_text("\n".join(pilot_rows(rng, 30, 4)), encoding="utf-8")
        found.append(read_pilot(path))
    assert (found[0].clients, found[0].arms) == (30, 4)
    for name, truth in (("noise", 0.5), ("spread", 0.1)):
        intervals = [getattr(pilot, name) for pilot in found]
        squares = np.array([interval.estimate**2 for interval in intervals])
        assert abs(squares.mean() - truth**2) < 5 * squares.std(ddof=1) / math.sqrt(150)
        covered = np.mean([interval.high >= truth for interval in intervals])
        assert covered > 0.975 - 5 * math.sqrt(0.975 * 0.025 / 150)
        below = np.mean([interval.low <= truth for interval in intervals])
        assert below > 0.975 - 5 * math.sqrt(0.975 * 0.025 / 150)


def test_values_and_their_summaries_give_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    values, summaries = ["client,arm,value"], ["client,arm,count,mean,sd"]
    for client in range(6):
        for arm in "ab":
            seen = rng.normal(rng.normal(0, 0.2), 0.5, 4 + client)
            values += [f"{client},{arm},{value:.12g}" for value in seen]
            summaries.append(
                f"{client},{arm},{seen.size},{seen.mean():.12g},{seen.std(ddof=1):.12g}"
            )
    for name, rows in (("values", values), ("summaries", summaries)):
        (tmp_path / name).write_text("\n".join(rows), encoding="utf-8")
    one, two = (read_pilot(tmp_path / name) for name in ("values", "summaries"))
    assert one.observations == two.observations == 2 * sum(range(4, 10))
    for name in ("noise", "spread"):
        for end in ("estimate", "low", "high"):
            assert getattr(getattr(one, name), end) == pytest.approx(
                getattr(getattr(two, name), end), rel=1e-6
            )


def test_a_pilot_and_a_rule_estimate_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(10)
    counts = np.array([[1, 1, *range(2, 12)], [*range(12, 2, -1), 1, 0]])
    pulls = [[rng.normal(rng.normal(0, 0.4), 0.5, n) for n in row] for row in counts]
    rows = [
        f"{client},{arm},{value!r}"
        for arm, clients in enumerate(pulls)
        for client, values in enumerate(clients)
        for value in values.tolist()
    ]
    path = tmp_path / "pilot.csv"
    path.write_text("\n".join(["client,arm,value", *rows]), encoding="utf-8")
    pilot = read_pilot(path)
    means, squares = (
        np.array([[of(values) if values.size else 0.0 for values in row] for row in pulls])
        for of in (np.mean, lambda values: values.size * values.var())
    )
    found = variance_components(counts, means, squares, np.array([True, True]))
    assert pilot.noise.estimate**2 == pytest.approx(float(found.noise_variance))
    assert pilot.spread.estimate**2 == pytest.approx(float(found.spread_variance))
    assert pilot.spread.estimate > 0


def test_a_plan_takes_the_upper_ends_of_a_pilot(quick: None, tmp_path: Path) -> None:
    path = tmp_path / "pilot.csv"
    path.write_text("\n".join(pilot_rows(np.random.default_rng(1), 20, 2)), encoding="utf-8")
    pilot = read_pilot(path)
    plan = fb.plan(pilot=path, gap=0.3)
    assert plan.question.n_arms == 2
    assert (plan.question.noise, plan.question.spread) == (pilot.noise.high, pilot.spread.high)
    assert any("upper ends" in line for line in plan.answer())
    assert fb.plan(pilot=path, gap=0.3, spread=0.1).question.spread == 0.1


@pytest.mark.parametrize("same", [True, False])
def test_clients_that_look_alike_in_a_pilot_are_not_called_alike(
    quick: None, tmp_path: Path, same: bool
) -> None:
    path = tmp_path / "pilot.csv"
    means = [0.5] * 6 if same else [0.49, 0.5, 0.51, 0.5, 0.49, 0.51]
    rows = [f"{client},a,20,{mean},0.5" for client, mean in enumerate(means)]
    path.write_text("\n".join(["client,arm,count,mean,sd", *rows]), encoding="utf-8")
    pilot = read_pilot(path)
    assert pilot.spread.estimate == 0.0
    # By six clients with a standard error of 0.11 no spread much below that can be ruled out.
    assert 0.05 < pilot.spread.high < 0.3
    plan = fb.plan(pilot=path, n_arms=2, gap=0.3)
    said = "\n".join(plan.answer())
    assert "No spread is visible, which is no proof that there is none" in said
    assert "alike" not in said


@pytest.mark.parametrize("spread", [0.0, 0.02, 0.1])
def test_the_upper_end_of_a_spread_holds_also_where_little_is_seen(
    tmp_path: Path, spread: float
) -> None:
    rng = np.random.default_rng(12)
    path = tmp_path / "pilot.csv"
    covered = 0
    for _ in range(200):
        local = rng.normal(0, spread, 5)
        rows = [
            f"{client},a,{x.size},{x.mean():.9g},{x.std(ddof=1):.9g}"
            for client, x in enumerate(rng.normal(mean, 0.5, 8) for mean in local)
        ]
        path.write_text("\n".join(["client,arm,count,mean,sd", *rows]), encoding="utf-8")
        found = read_pilot(path).spread.high
        assert found > 0
        covered += found >= spread
    assert covered / 200 > 0.975 - 5 * math.sqrt(0.975 * 0.025 / 200)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "pilot.csv:1: the columns are"),
        ("who,arm,value\n1,a,2\n", "pilot.csv:1: the columns are"),
        ("client,arm,value\n", "has no rows"),
        ("client,arm,value\n1,a,2\n1,a\n", "pilot.csv:3: 2 cells, but the header has 3"),
        ("client,arm,value\n1,a,2\n1,a,x\n", 'pilot.csv:3: value: "x" is not a number'),
        ("client,arm,value\n1,a,nan\n", 'pilot.csv:2: value: "nan" is not a number'),
        ("client,arm,value\n1,,2\n", "pilot.csv:2: arm: is empty"),
        ("client,arm,value\n1,a,2\n2,a,3\n", "no client pulled an arm twice"),
        ("client,arm,value\n1,a,2\n1,a,3\n", "no arm was pulled by two clients"),
        ("client,arm,value\n1,a,2\n1,a,2\n2,a,2\n2,a,2\n", "there is no noise"),
        ("client,arm,count,mean,sd\n1,a,1.5,2,1\n", "pilot.csv:2: count: 1.5 is not a whole"),
        ("client,arm,count,mean,sd\n1,a,2,2,-1\n", "pilot.csv:2: sd: -1 is below 0"),
        ("client,arm,count,mean,sd\n1,a,2,2,1\n1,a,2,2,1\n", 'pilot.csv:3: client "1" has arm'),
    ],
)
def test_a_malformed_pilot_file_is_refused_where_it_is_wrong(
    tmp_path: Path, text: str, problem: str
) -> None:
    path = tmp_path / "pilot.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(fb.InputError) as refused:
        fb.plan(pilot=path, gap=0.1)
    assert problem in str(refused.value)
