"""What a variant promises, and which of its assumptions the problem does not keep."""

from __future__ import annotations

import re
from typing import Any

import pytest

import fedbandits as fb

GAME = fb.Approximate(means=[0.4, 0.6], noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.1))
RATES = fb.Approximate(means=[0.4, 0.6], noise=fb.Bernoulli(), spread=fb.Beta(0.1))
GIVEN = fb.Exact(
    local_means=[[0.1, 0.9], [0.5, 0.4], [0.2, 0.3], [0.4, 0.6]], noise=fb.Gaussian(0.5)
)

FINITE = fb.Approximate(
    means=[0.4, 0.6], noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.3), population=20
)
ALL_OF_THEM = fb.Fed2Ucb(pulls=10, admissions=20, radius=fb.CertifiedRadius(), target="population")


def experiment(problem: Any, algorithm: Any, **settings: Any) -> fb.Experiment:
    variant = fb.Variant(label="it", problem=problem, algorithm=algorithm, **settings)
    return fb.Experiment(title="demo", variants=[variant], horizon=1000, replications=2)


def fed2(radius: Any, **settings: Any) -> fb.Fed2Ucb:
    return fb.Fed2Ucb(pulls=10, admissions="2^p", radius=radius, **settings)


@pytest.mark.parametrize(
    ("radius", "words"),
    [
        (fb.PaperRadius(), "the regret bounds of Theorems 2 and 3"),
        (fb.PaperRadius(arm=1, client=1), "none: its constants are below the 6"),
        (fb.PaperRadius(arm=6, client=1), "none: its constants are below the 6"),
        (fb.JointRadius(), "the paper's regret bounds"),
        (fb.PairwiseRadius(), "1/T³, if what a client sees of one option"),
        (fb.PairwiseRadius(dependence="any"), "1/T³$"),
        (fb.CertifiedRadius(), r"at most 0.001 \(1/T\), if what a client sees of one"),
        (fb.CertifiedRadius(delta=0.05, dependence="any"), "at most 0.05$"),
        (fb.ChernoffRadius(delta=0.1), "at most 0.1, if all outcomes lie between 0 and 1$"),
        (
            fb.BernsteinRadius(delta=0.1, range=(-1, 2)),
            "at most 0.1, if all outcomes lie between -1 and 2, and what a client sees of one",
        ),
        (fb.BernsteinRadius(delta=0.1, dependence="any"), "between 0 and 1$"),
        (fb.PairedTRadius(delta=0.1), "nothing in general"),
    ],
)
def test_every_radius_says_what_it_promises(radius: Any, words: str) -> None:
    (found,) = experiment(GAME, fed2(radius)).guarantees()
    assert re.search(words, found), found


def test_the_theorems_are_about_plain_averages() -> None:
    algorithm = fed2(fb.PaperRadius(), weights="inverse-variance")
    (found,) = experiment(GAME, algorithm).guarantees()
    assert found.startswith("none")


def test_the_client_constant_does_not_matter_where_all_are_in() -> None:
    algorithm = fb.Fed1Ucb(pulls=10, radius=fb.PaperRadius(arm=6, client=0))
    (found,) = experiment(GIVEN, algorithm).guarantees()
    assert "Theorems" in found


@pytest.mark.parametrize(
    ("problem", "algorithm", "settings", "words"),
    [
        (GAME, fed2(fb.CertifiedRadius()), {"assume": fb.Assume(noise=0.1)}, "told noise 0.1"),
        (GAME, fed2(fb.CertifiedRadius()), {"assume": fb.Assume(spread=0.01)}, "told spread 0.01"),
        (GAME, fb.Fed1Ucb(pulls=10, clients=7), {}, "for all there are"),
        (GIVEN, fb.Fed1Ucb(pulls=10, clients=1), {}, "for all there are"),
        (GIVEN, fed2(fb.CertifiedRadius()), {}, "for independent"),
        (GAME, fed2(fb.BernsteinRadius()), {}, "gaussian noise knows no such range"),
        (RATES, fed2(fb.ChernoffRadius(range=(0, 0.5))), {}, r"they lie in \[0, 1\]"),
        (GAME, fed2(fb.PairedTRadius()), {}, "no finite-sample guarantee"),
        (FINITE, ALL_OF_THEM, {"assume": fb.Assume(spread=0.0)}, "told spread 0"),
    ],
)
def test_an_assumption_that_does_not_hold_is_named(
    problem: Any, algorithm: Any, settings: dict[str, Any], words: str
) -> None:
    (found,) = experiment(problem, algorithm, **settings).doubts()
    assert len(found) == 1, found
    assert re.search(words, found[0]), found


@pytest.mark.parametrize(
    ("problem", "algorithm"),
    [
        (GAME, fed2(fb.CertifiedRadius())),
        (GAME, fed2(fb.PaperRadius(arm=1, client=1))),
        (RATES, fed2(fb.ChernoffRadius())),
        (GIVEN, fb.Fed1Ucb(pulls=10, radius=fb.CertifiedRadius())),
        (GIVEN, fed2(fb.CertifiedRadius(dependence="any"))),
        (GAME, fb.ImprovedUcb()),
        (GAME, fb.Ucb1()),
    ],
)
def test_there_is_nothing_to_doubt_where_all_is_kept(problem: Any, algorithm: Any) -> None:
    assert experiment(problem, algorithm).doubts() == [[]]


def test_an_offset_that_normal_clients_share_is_safe() -> None:
    shared = fb.Approximate(
        means=[0.4, 0.6], noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.1), offset=0.2
    )
    assert experiment(shared, fed2(fb.CertifiedRadius())).doubts() == [[]]


def test_promises_and_doubts_are_in_the_summary_and_on_the_page() -> None:
    from fedbandits.experiments.report.page import report_html

    results = experiment(GAME, fed2(fb.PairedTRadius(delta=0.1, min_clients=5))).run(workers=1)
    (variant,) = results.summary()["variants"]
    assert "nothing in general" in variant["guarantee"]
    assert len(variant["doubts"]) == 1
    page = report_html(results)
    assert variant["guarantee"] in page
    assert "But paired-t has no finite-sample guarantee" in page
