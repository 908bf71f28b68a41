"""The lower bound of a game: its value, or why nothing is proven."""

from __future__ import annotations

import math
from typing import Any

import pytest

import fedbandits as fb
from commands import Command
from fedbandits.experiments.bounds import bounds_of, lower_bound_of
from fedbandits.experiments.report.page import report_html
from fedbandits.experiments.results import Results
from fedbandits.experiments.text import TIMES
from fedbandits.simulation import Variant
from fedbandits.simulation.attacks import Attack
from fedbandits.theory.lower_bound import LowerBound
from repository import ROOT

NORMAL: dict[str, Any] = {
    "means": [0.5, 0.6],
    "noise": fb.Gaussian(0.5),
    "spread": fb.Gaussian(0.1),
}


def test_two_arms_have_the_bound_in_closed_form() -> None:
    least = lower_bound_of(fb.Approximate(**NORMAL), 3.0)
    assert isinstance(least, LowerBound)
    by_hand = 2 * (0.5 * math.sqrt(0.1) + 0.1 * math.sqrt(2 * 3.0)) ** 2 / 0.1**2
    assert least.slope == pytest.approx(by_hand)


def test_given_clients_have_the_slope_of_lai_and_robbins() -> None:
    given = fb.Exact(local_means=[[0.2, 0.9], [0.6, 0.1]], noise=fb.Gaussian(0.5))
    least = lower_bound_of(given, 3.0)
    assert isinstance(least, LowerBound)
    assert least.slope == pytest.approx(2 * 0.25 / 0.1)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"offset": 0.1}, "the arms of a client share an offset"),
        ({"population": 9}, "in a finite population"),
        ({"means": [0.6, 0.5, 0.6]}, "several arms are the best"),
        ({"noise": fb.Bernoulli(), "spread": fb.Beta(0.05)}, "normal rewards"),
        ({"spread": fb.Uniform(0.1)}, "normal rewards"),
    ],
)
def test_what_is_not_proven_has_no_bound(changes: dict[str, Any], reason: str) -> None:
    found = lower_bound_of(fb.Approximate(**NORMAL | changes), 3.0)
    assert isinstance(found, str)
    assert reason in found


def test_clients_that_lie_play_another_game() -> None:
    told: dict[str, Any] = {
        "problem": fb.Approximate(**NORMAL),
        "algorithm": fb.Fed2Ucb(pulls=10, admissions=20, radius=fb.CertifiedRadius(), liars=0.1),
    }
    honest = Variant(label="honest", **told)
    lying = Variant(label="lying", attack=Attack(share=0.1), **told)
    found = bounds_of(fb.Experiment(title="", variants=[honest, lying], horizon=10**6))
    assert isinstance(found[0].least, LowerBound)
    assert found[1].least == "some clients lie"


def test_the_command_says_it(command: Command) -> None:
    said = " ".join(command("bounds", ROOT / "examples" / "figure-4.toml").out.split())
    assert (
        "at least 143.3 · log T for this game if a report costs 1: 1,980 at T = 1,000,000" in said
    )


def played(horizon: int | None = 5_000, **games: dict[str, Any]) -> Results:
    """Return small results: certified elimination on games that differ by these keys."""
    rule = fb.Fed2Ucb(
        pulls=20, admissions="2^p", radius=fb.CertifiedRadius(), delta=0.1, weights="equal"
    )
    variants = [
        fb.Variant(
            label=label,
            problem=fb.Approximate(**NORMAL | changes, name=label),
            algorithm=rule,
            communication_cost=2.0,
        )
        for label, changes in games.items()
    ]
    demo = fb.Experiment(title="demo", variants=variants, horizon=horizon, replications=4, seed=1)
    return demo.run(workers=1)


def test_a_run_shows_regret_as_a_multiple_of_the_bound_that_is_proven() -> None:
    results = played(normal={}, finite={"population": 90}, also_finite={"population": 80})
    bounds = [one["lower_bound"] for one in results.summary()["variants"]]
    least = lower_bound_of(fb.Approximate(**NORMAL), 2.0)
    assert isinstance(least, LowerBound)
    assert bounds[0]["slope"] == least.slope
    assert bounds[0]["at_horizon"] == least.at(5_000) == least.slope * math.log(5_000)
    total = results.simulations[0].games.total.mean()
    assert bounds[0]["times"]["mean"] == pytest.approx(total / least.at(5_000))
    assert bounds[0]["reason"] is None
    for none in bounds[1:]:
        assert none["times"] is none["slope"] is none["at_horizon"] is None
    said = " ".join(results.table().split())
    assert f"{bounds[0]['times']['mean']:.2f}"[:-1] in said
    # The reason is said once for all whom it concerns.
    assert said.count(TIMES) >= 1
    assert said.count("in a finite population") == 1
    assert "no lower bound for finite and also_finite: in a finite population" in said
    page = " ".join(report_html(results).split())
    assert f">{TIMES}</th>" in page
    assert "No lower bound for finite and also_finite" in page
    assert "The dotted line is the slope of the lower bound" in page


@pytest.mark.parametrize(
    ("horizon", "changes", "reason"),
    [
        (5_000, {"offset": 0.1}, "the arms of a client share an offset"),
        (None, {}, "without a horizon there is no log T"),
    ],
)
def test_a_run_says_nothing_of_bounds_if_none_is_proven(
    horizon: int | None, changes: dict[str, Any], reason: str
) -> None:
    results = played(horizon, one=changes)
    (variant,) = results.summary()["variants"]
    assert reason in variant["lower_bound"]["reason"]
    for shown in (results.table(), report_html(results)):
        assert "lower bound" not in shown.replace(variant["lower_bound"]["reason"], "")


def test_who_asks_no_clients_has_no_bound() -> None:
    """One player who observes the global model pays for no reports, and no clients differ."""
    game = fb.Approximate(**NORMAL)
    variants = [
        fb.Variant(label="one player", problem=game, algorithm=fb.Ucb1()),
        fb.Variant(label="clients", problem=game, algorithm=fb.FedIndex()),
    ]
    demo = fb.Experiment(title="demo", variants=variants, horizon=2_000, replications=3, seed=1)
    one, clients = (variant["lower_bound"] for variant in demo.run(workers=1).summary()["variants"])
    assert one["times"] is None
    assert "asks no clients" in one["reason"]
    assert clients["times"]["mean"] > 0


def test_a_bound_of_nothing_divides_nothing() -> None:
    silent = {"noise": fb.Gaussian(0.0), "spread": fb.Gaussian(0.0)}
    (variant,) = played(silent=silent).summary()["variants"]
    assert variant["lower_bound"]["times"] is None
    assert variant["lower_bound"]["reason"] == "it is 0"
