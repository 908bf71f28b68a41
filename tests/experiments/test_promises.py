"""What a variant promises, and which of its assumptions the problem does not keep."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.errors import AssumptionWarning
from fedbandits.rules.guarantees import Assumption
from fedbandits.simulation.tables import chose_best

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
        (fb.PaperRadius(arm=1, client=1), "none: its constants are below 6"),
        (fb.PaperRadius(arm=6, client=1), "none: its constants are below 6"),
        (fb.JointRadius(), "the paper's regret bounds"),
        (fb.PairwiseRadius(), "1/T³, if what a client sees of one option"),
        (fb.PairwiseRadius(dependence="any"), "1/T³;"),
        (fb.CertifiedRadius(), r"at most 0.001 \(1/T\), if what a client sees of one"),
        (fb.CertifiedRadius(delta=0.05, dependence="any"), "at most 0.05;"),
        (fb.ChernoffRadius(delta=0.1), "at most 0.1, if all outcomes lie between 0 and 1;"),
        (
            fb.BernsteinRadius(delta=0.1, range=(-1, 2)),
            "at most 0.1, if all outcomes lie between -1 and 2, and what a client sees of one",
        ),
        (fb.BernsteinRadius(delta=0.1, dependence="any"), "between 0 and 1;"),
        (fb.PairedTRadius(delta=0.1), "nothing in general"),
    ],
)
def test_every_radius_says_what_it_promises(radius: Any, words: str) -> None:
    # Outcomes of a normal law leave every range, which would break what some radii promise.
    ranged = isinstance(radius, fb.ChernoffRadius | fb.BernsteinRadius)
    (found,) = experiment(RATES if ranged else GAME, fed2(radius)).guarantees()
    assert re.search(words, found.words()), found


# Whom it is for ----------------------------------------------------------------------------------

WEIGHTED = fb.Exact(
    local_means=[[0.1, 0.9], [0.5, 0.4]], noise=fb.Gaussian(0.5), weights=[1.0, 2.0]
)


@pytest.mark.parametrize(
    ("problem", "algorithm", "words"),
    [
        (GAME, fed2(fb.CertifiedRadius()), "for future clients like these"),
        (FINITE, fed2(fb.CertifiedRadius()), "for these 20 clients"),
        (FINITE, ALL_OF_THEM, "for future clients like these"),
        (GIVEN, fb.Fed1Ucb(pulls=10), "for these 4 clients"),
        (GIVEN, fb.Fed1Ucb(pulls=10, target="population"), "for future clients like these"),
        (WEIGHTED, fb.Fed1Ucb(pulls=10), "for these 2 clients, weighted"),
        (GAME, fb.Fed1Ucb(pulls=10, clients=1), "for this one client"),
        (GAME, fb.ImprovedUcb(), "for the clients that one player observes as a whole"),
    ],
)
def test_a_promise_says_whom_it_is_for(problem: Any, algorithm: Any, words: str) -> None:
    (found,) = experiment(problem, algorithm).guarantees()
    assert found.words().endswith(f"; the answer is {words}")


@pytest.mark.parametrize(
    ("told", "algorithm", "assumed"),
    [
        ({"population": 50}, fed2(fb.CertifiedRadius()), True),
        ({"population": 50}, fed2(fb.PaperRadius()), True),
        ({"population": 50}, fed2(fb.ChernoffRadius()), True),
        ({"population": 50, "bounded": True}, fed2(fb.CertifiedRadius()), False),
        ({"population": 50}, fed2(fb.CertifiedRadius(), target="population"), False),
        ({"population": 50}, fed2(fb.PairedTRadius()), False),
        ({"population": 2}, fed2(fb.CertifiedRadius()), False),
        ({"population": 50}, fb.Fed1Ucb(pulls=10), False),
        ({}, fed2(fb.CertifiedRadius()), False),
    ],
)
def test_a_part_of_a_finite_population_rests_on_how_its_clients_scatter(
    told: dict[str, Any], algorithm: Any, assumed: bool
) -> None:
    rule = algorithm.rule(fb.Beliefs(n_arms=2, horizon=1000, noise=0.5, spread=0.1, **told))
    for found in (rule.guarantee(), rule.interval_guarantee(0.05)):
        assert (found.condition(Assumption.LIKE_DRAWS) is not None) == assumed


# Tolerance ---------------------------------------------------------------------------------------


def test_a_tolerance_is_part_of_the_promise() -> None:
    radius = fb.CertifiedRadius(delta=0.1, dependence="any")
    (found,) = experiment(GAME, fed2(radius, epsilon=0.05)).guarantees()
    assert found.words().startswith(
        "drops the best option, or settles on one worse by more than 0.05, with a probability of at"
        " most 0.1;"
    )
    # What is lost by an option that is a little worse grows with the horizon.
    for paper in (fb.PaperRadius(), fb.JointRadius()):
        (found,) = experiment(GAME, fed2(paper, epsilon=0.05)).guarantees()
        assert found.words().startswith("none: ")


@pytest.mark.parametrize(
    ("epsilon", "best"), [(0.0, [True, False]), (0.05, [True, True]), (0.04, [True, False])]
)
def test_an_arm_within_the_tolerance_is_what_was_asked_for(
    epsilon: float, best: list[bool]
) -> None:
    # 0.79 - 0.74 is a little more than 0.05 in a computer.
    close = fb.Approximate(means=[0.79, 0.74], noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.01))
    run = experiment(close, fed2(fb.CertifiedRadius(), epsilon=epsilon)).run(workers=1)
    (played,) = run.simulations
    simulation = replace(played, games=replace(played.games, winner=np.array([0, 1])))
    assert chose_best(simulation).tolist() == best
    run = replace(run, simulations=(simulation,))
    (variant,) = run.summary()["variants"]
    assert variant["wrong_arm_rate"] == 1 - np.mean(best)
    assert ("up to the variant's epsilon" in run.table()) == (epsilon > 0)


# Warnings ----------------------------------------------------------------------------------------


def test_python_users_are_warned_once_a_variant_where_an_assumption_does_not_hold() -> None:
    careless = fb.Assume(noise=0.1, spread=0.01)
    variants = [
        fb.Variant(label=label, problem=GAME, algorithm=fed2(fb.CertifiedRadius()), assume=assume)
        for label, assume in (("careless", careless), ("right", fb.Assume()), ("too", careless))
    ]
    with pytest.warns(AssumptionWarning) as caught:
        fb.simulate_all(variants, horizon=1000, replications=2)
    said = [str(warning.message) for warning in caught]
    assert [words.split(":")[0] for words in said] == ["careless", "too"]
    assert "told noise 0.1" in said[0]
    assert "told spread 0.01" in said[0]
    assert {warning.filename for warning in caught} == {__file__}
    with pytest.warns(AssumptionWarning, match="^fed2-ucb: it is told noise") as caught:
        fb.simulate(GAME, fed2(fb.CertifiedRadius()), assume=careless, horizon=100, replications=1)
    assert {warning.filename for warning in caught} == {__file__}


def test_an_experiment_says_its_doubts_itself() -> None:
    careless = experiment(GAME, fed2(fb.CertifiedRadius()), assume=fb.Assume(noise=0.1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert careless.run(workers=1).summary()["variants"][0]["doubts"]


@pytest.mark.parametrize(
    ("means", "horizon", "epsilon", "doubted"),
    [
        ([0.4, 0.6, 0.6], None, 0.0, "2 arms are equally good, .* no horizon: set epsilon"),
        ([0.4, 0.6, 0.6], None, 0.1, None),
        ([0.4, 0.6, 0.6], 1000, 0.0, "arms 1 and 2 are equally good: .* to the horizon; either"),
        ([0.4, 0.6, 0.6], 1000, 0.1, None),
        ([0.6, 0.6, 0.6], 1000, 0.0, "arms 0, 1 and 2 are equally good: .*; any of them counts"),
        ([0.4, 0.4, 0.6], None, 0.0, None),
        ([0.4, 0.4, 0.6], 1000, 0.0, None),
    ],
)
def test_a_tie_is_doubted_unless_epsilon_ends_it(
    means: list[float], horizon: int | None, epsilon: float, doubted: str | None
) -> None:
    tied = fb.Approximate(means=means, noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.1))
    algorithm = fed2(fb.CertifiedRadius(delta=0.05), epsilon=epsilon)
    variant = fb.Variant(label="it", problem=tied, algorithm=algorithm)
    (found,) = fb.Experiment(title="demo", variants=[variant], horizon=horizon).doubts()
    assert len(found) == (doubted is not None)
    assert doubted is None or re.match(doubted, found[0])


def test_arms_that_tie_but_for_rounding_tie() -> None:
    shares = [[0.7, 0.6, 0.1], [0.1, 0.2, 0.1]]
    problem = fb.Exact(local_means=shares, noise=fb.Gaussian(0.5))
    assert problem.means[0] != problem.means[1], "in the last digit"
    tied = experiment(problem, fb.Fed1Ucb(pulls=10))
    assert [doubt.split(":")[0] for doubt in tied.doubts()[0]] == ["arms 0 and 1 are equally good"]
    assert "several options are the best" in tied.guarantees()[0].words()


def test_the_theorems_are_about_plain_averages() -> None:
    algorithm = fed2(fb.PaperRadius(), weights="inverse-variance")
    (found,) = experiment(GAME, algorithm).guarantees()
    assert found.words().startswith("none")


def test_the_client_constant_does_not_matter_where_all_are_in() -> None:
    algorithm = fb.Fed1Ucb(pulls=10, radius=fb.PaperRadius(arm=6, client=0))
    (found,) = experiment(GIVEN, algorithm).guarantees()
    assert "Theorems" in found.words()


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
        # Without replacement clients depend on each other, and the arms of a client still do not.
        (FINITE, fed2(fb.CertifiedRadius())),
        (GAME, fb.Fed1Ucb(pulls=10, clients=7, target="population")),
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
