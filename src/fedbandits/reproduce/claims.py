"""The paper's sentences about its experiments, each tested.

What says that one thing is larger, faster, flatter or about equal is a claim. It holds or fails
when the measurements show so at level 0.01, by Holm's method over the whole table; else it is
undecided. “About equal” is an equivalence test within 10 %. Margins and factors that the paper does
not state are ours and labelled so, and so are the questions that we add to the paper's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from fedbandits.experiments.tables import chose_best
from fedbandits.problems.problem import best_arm, gap
from fedbandits.reproduce.catalogue import paper_experiment
from fedbandits.reproduce.findings import (
    Finding,
    about_equal,
    certain,
    less,
    less_in_the_middle,
    less_often,
    rate_above,
    rate_below,
    steeper,
    verdicts,
)
from fedbandits.reproduce.misranking import SPREAD, misranking_gaps
from fedbandits.reproduce.part import Batch
from fedbandits.rules.algorithms import Algorithm, AuthorsBaseline, Fed1Ucb, Fed2Ucb
from fedbandits.rules.arrays import BoolArray, FloatArray
from fedbandits.rules.radii import PaperRadius
from fedbandits.simulation.game import Outcome
from fedbandits.simulation.simulator import Simulation, Variant
from fedbandits.theory.sampling import misranking_probability

LEVEL = 0.01
"""The probability of a wrong verdict anywhere in the table is at most this."""

MANY = 10_000
FEW = 500
"""Games of the centralised version, whose every replication has some 28,000 phases."""

OFFSET = 1
"""Added to the figures' seed: what is tested was not looked at before."""

FACTOR = 2.0
"""“Very large” and “much better” are by at least this factor."""

_F = "ceil(10*log(T))"


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedRun:
    """A simulation that claims are about: of an experiment, with what is changed in it.

    Parameters
    ----------
    experiment, label : str
        Which variant of which experiment.
    replications : int
        How many games.
    algorithm : Algorithm, optional
        Another one than the variant's.
    horizon : int, optional
        Another one than the experiment's.
    """

    experiment: str
    label: str
    replications: int = MANY
    algorithm: Algorithm | None = None
    horizon: int | None = None

    def variant(self) -> Variant:
        """Return the variant of the experiment, with another algorithm where one is given."""
        (found,) = (v for v in paper_experiment(self.experiment).variants if v.label == self.label)
        return found if self.algorithm is None else replace(found, algorithm=self.algorithm)


RUNS: dict[str, TestedRun] = {
    **{
        key: TestedRun(experiment=experiment, label=label)
        for key, experiment, label in (
            ("M=5", "fig3", "Fed1-UCB, M = 5"),
            ("M=10", "fig3", "Fed1-UCB, M = 10"),
            ("baseline", "fig3", "baseline"),
            ("improved UCB", "fig3", "improved UCB"),
            ("Fed2", "fig4", "Fed2-UCB"),
            ("f=10", "fig5", "f = 10"),
            ("f=50", "fig5", "f = 50"),
            ("f=100", "fig5", "f = 100"),
            ("ML Fed2 200", "fig6", "Fed2-UCB, f = 200"),
            ("ML Fed2 500", "fig6", "Fed2-UCB, f = 500"),
            ("ML Fed1 200", "fig6", "Fed1-UCB, 200 clients"),
            ("ML Fed1 all", "fig6", "Fed1-UCB, 2,000 clients"),
            ("equal Fed2 200", "fig6-equal", "Fed2-UCB, f = 200"),
            ("equal Fed1 200", "fig6-equal", "Fed1-UCB, 200 clients"),
            ("equal Fed1 all", "fig6-equal", "Fed1-UCB, 2,000 clients"),
            ("as proved", "fig3-theory", "Fed1-UCB, M = 5"),
        )
    },
    "centralised": TestedRun(experiment="fig3", label="centralised, M = 5", replications=FEW),
    "short baseline": TestedRun(
        experiment="fig5",
        label="f = 10",
        algorithm=AuthorsBaseline(pulls=_F, radius=PaperRadius(arm=4.0)),
    ),
    **{
        f"{short} {gap}": TestedRun(experiment="fig8", label=f"g = {schedule}, Δ = {gap}")
        for short, schedule in (("log", "⌈log T⌉"), ("2^p", "2^p"))
        for gap in ("0.005", "0.01", "0.02", "0.04")
    },
    # Pulls that grow with the horizon and pulls that do not, alike at T = 10^6.
    **{
        f"{short} f, T=10^{exponent}": TestedRun(
            experiment="fig4-theory",
            label="Fed2-UCB",
            algorithm=Fed2Ucb(pulls=pulls, admissions="2^p"),
            horizon=10**exponent,
        )
        for short, pulls in (("constant", "97"), ("growing", "ceil(7*log(T))"))
        for exponent in (6, 12)
    },
    # B' = 2B is four times the constant under the root.
    "widened": TestedRun(
        experiment="fig3-theory",
        label="Fed1-UCB, M = 5",
        algorithm=Fed1Ucb(pulls=_F, radius=PaperRadius(arm=24.0)),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What the paper says, or what we ask beside it, and how it is tested.

    Parameters
    ----------
    where : str
        Where it stands.
    sentence : str
        What it says, in our words and theirs.
    test : callable
        From measurements to finding.
    read : str
        How its words are read where they can be read otherwise: a margin or a factor of ours.
    ours : bool
        Whether the question is ours and the paper says nothing of the kind.
    """

    where: str
    sentence: str
    test: Callable[[Measured], Finding]
    read: str = ""
    ours: bool = False


class Measured:
    """The runs, with what the claims ask of them."""

    def __init__(self, simulations: Mapping[str, Simulation]) -> None:
        self.simulations = simulations

    def outcome(self, run: str) -> Outcome:
        """Return all of a run."""
        return self.simulations[run].outcome

    def total(self, run: str) -> FloatArray:
        """Return total regrets."""
        return self.outcome(run).total

    def exploration(self, run: str) -> FloatArray:
        """Return exploration regrets."""
        return self.outcome(run).exploration

    def communication(self, run: str) -> FloatArray:
        """Return communication regrets."""
        return self.outcome(run).communication

    def clients(self, run: str) -> FloatArray:
        """Return how many clients were admitted."""
        return self.outcome(run).clients.astype(np.float64)

    def slots_a_phase(self, run: str) -> FloatArray:
        """Return how many slots pass from one admission of clients to the next, on average."""
        return self.slot(run) / np.maximum(self.outcome(run).phases, 1)

    def slot(self, run: str) -> FloatArray:
        """Return decision slots; a game that is not decided counts with its horizon."""
        simulation = self.simulations[run]
        slots = simulation.outcome.decision_slot
        return np.where(slots < 0, simulation.grid[-1], slots).astype(np.float64)

    def wrong(self, run: str) -> BoolArray:
        """Return which games ended on a wrong arm."""
        return ~chose_best(self.simulations[run]) & ~self.undecided(run)

    def undecided(self, run: str) -> BoolArray:
        """Return which games ended undecided."""
        return self.outcome(run).winner < 0


_TEN = "within 10 %, a margin of ours"
_TWICE = "at least by a factor of 2, which is ours"
_SURE = "in more than 99 % of the games, a threshold of ours"


def _best_arms_differ(_: Measured) -> Finding:
    problem = paper_experiment("fig3").variants[0].problem
    clients = problem.population or 0
    means = problem.sampler(np.random.default_rng).draw(clients).means
    same = int((means.argmax(axis=0) == best_arm(problem)).sum())
    return certain(same == 0, f"{same} of {clients} clients have the global best arm as their own")


def _means_and_gap(_: Measured) -> Finding:
    problem = paper_experiment("fig3").variants[0].problem
    low, high, least = float(problem.means.min()), float(problem.means.max()), gap(problem)
    holds = round(low, 12) >= 0.7 and high <= 0.8 and math.isclose(least, 0.02, rel_tol=1e-9)
    return certain(holds, f"means from {low:.2f} to {high:.2f}, Δ = {least:.4f}")


def _gap_on_movielens(_: Measured) -> Finding:
    least = gap(paper_experiment("fig6").variants[0].problem)
    return certain(round(least, 4) == 0.0053, f"Δ = {least:.6f}")


def _falls_exponentially(_: Measured) -> Finding:
    clients = np.array([500, 1000])
    parts, holds = [], True
    for least in (0.02, 0.01):
        low, high = misranking_probability(misranking_gaps(least), SPREAD, clients)
        rate = float(np.log(low / high) / 500)
        theory = least**2 / (4 * SPREAD**2)
        holds &= rate > 0.9 * theory
        parts.append(f"Δ = {least:g}: rate {rate:.4f} a client, Δ²/(4σ_c²) = {theory:.4f}")
    return certain(holds, "; ".join(parts))


def _smaller_with_the_larger_gap(_: Measured) -> Finding:
    large, small = (
        float(misranking_probability(misranking_gaps(least), SPREAD, 200)) for least in (0.02, 0.01)
    )
    return certain(large < small, f"at M = 200: {large:.3f} for Δ = 0.02, {small:.3f} for Δ = 0.01")


_Test: TypeAlias = Callable[[Measured], Finding]
_Quantity: TypeAlias = tuple[Callable[[Measured], FloatArray], str]
"""What is compared, and what it is called."""


def _quantity(measured: Callable[[Measured, str], FloatArray]) -> Callable[[str, str], _Quantity]:
    return lambda run, name: (lambda m: measured(m, run), name)


_total = _quantity(Measured.total)
_exploration = _quantity(Measured.exploration)
_communication = _quantity(Measured.communication)
_clients = _quantity(Measured.clients)
_slot = _quantity(Measured.slot)
_slots_a_phase = _quantity(Measured.slots_a_phase)


def _less(a: _Quantity, b: _Quantity, *, factor: float = 1.0) -> _Test:
    return lambda m: less(a[0](m), b[0](m), (a[1], b[1]), factor=factor)


def _near(a: _Quantity, b: _Quantity) -> _Test:
    return lambda m: about_equal(a[0](m), b[0](m), (a[1], b[1]))


def _finds_the_best(run: str) -> _Test:
    return lambda m: rate_below(m.wrong(run) | m.undecided(run), 0.01, "not found")


def _steeper(a: tuple[str, str], b: tuple[str, str], names: tuple[str, str]) -> _Test:
    def growth(m: Measured, ends: tuple[str, str]) -> tuple[FloatArray, FloatArray]:
        return m.total(ends[0]), m.total(ends[1])

    return lambda m: steeper(growth(m, a), growth(m, b), names)


def _median_on_movielens(pulls: str) -> _Test:
    def test(m: Measured) -> Finding:
        fed2, fed1 = m.total(f"ML Fed2 {pulls}"), m.total("ML Fed1 all")
        return less_in_the_middle(fed2, fed1, ("Fed2-UCB", "Fed1-UCB"))

    return test


def _seldom_wrong(m: Measured) -> Finding:
    fed2, fed1 = m.wrong("ML Fed2 200"), m.wrong("ML Fed1 all")
    return less_often(fed2, fed1, ("Fed2-UCB", "Fed1-UCB"), "wrong arm")


def _fed2_against_fed1(ours: str, theirs: str, *, factor: float = 1.0) -> _Test:
    return _less(_total(ours, "Fed2-UCB"), _total(theirs, "Fed1-UCB"), factor=factor)


def _said(
    where: str, *rows: tuple[str, _Test] | tuple[str, _Test, str], ours: bool = False
) -> list[Claim]:
    """Return the claims that stand in one place: sentence, test, and how its words are read."""
    return [
        Claim(where=where, sentence=sentence, test=test, read="".join(read), ours=ours)
        for sentence, test, *read in rows
    ]


CLAIMS: tuple[Claim, ...] = (
    *_said(
        "figure 3",
        ("The global means are in [0.7, 0.8], with Δ = 0.02.", _means_and_gap),
        ("The best arm is not the optimal arm of any client's local model.", _best_arms_differ),
        (
            "Without communication loss, Fed1-UCB does almost the same as the baseline.",
            _near(_exploration("M=5", "exploration"), _total("baseline", "baseline")),
            _TEN,
        ),
        (
            "The centralised version has a very large regret.",
            _less(_total("M=5", "Fed1-UCB"), _total("centralised", "centralised"), factor=FACTOR),
            f"larger than Fed1-UCB's {_TWICE}",
        ),
        (
            "… due to significant communications.",
            _less(
                _exploration("centralised", "exploration"),
                _communication("centralised", "communication"),
            ),
            "more than half of it, which is our reading",
        ),
        (
            "With f(p) = ⌈10 log T⌉, Fed1-UCB incurs only a small communication loss.",
            _near(_total("M=5", "total"), _exploration("M=5", "exploration")),
            _TEN,
        ),
        (
            "Fed1-UCB converges faster than the baseline.",
            _less(_slot("M=5", "decides at slot"), _slot("baseline", "baseline")),
        ),
        (
            "With M = 10 the regret remains approximately the same as with M = 5.",
            _near(_total("M=10", "M = 10"), _total("M=5", "M = 5")),
            _TEN,
        ),
        (
            "With M = 10 convergence is even faster.",
            _less(_slot("M=10", "decides at slot"), _slot("M=5", "with M = 5")),
        ),
    ),
    *_said(
        "figure 4",
        ("Fed2-UCB successfully finds the optimal global arm.", _finds_the_best("Fed2"), _SURE),
        (
            "Without communication loss, Fed2-UCB does worse than the baseline.",
            _less(_total("baseline", "baseline"), _exploration("Fed2", "exploration")),
        ),
        (
            "… and only slightly worse.",
            _near(_exploration("Fed2", "exploration"), _total("baseline", "baseline")),
            _TEN,
        ),
        (
            "Fed2-UCB's additional communication loss is very limited.",
            _near(_total("Fed2", "total"), _exploration("Fed2", "exploration")),
            _TEN,
        ),
    ),
    *_said(
        "figures 3 and 4",
        (
            "Fed2-UCB achieves almost the same performance as Fed1-UCB.",
            _near(_total("Fed2", "Fed2-UCB"), _total("M=5", "Fed1-UCB")),
            _TEN,
        ),
        (
            "Fed2-UCB converges even faster than Fed1-UCB.",
            _less(_slot("Fed2", "decides at slot"), _slot("M=5", "Fed1-UCB")),
        ),
    ),
    *_said(
        "figure 5, footnote",
        (
            "The baseline cannot converge within T = 10,000.",
            lambda m: rate_above(m.undecided("short baseline"), 0.99, "undecided"),
            f"undecided {_SURE}",
        ),
    ),
    *_said(
        "figure 5",
        (
            "With f = 10 new clients are admitted rapidly.",
            _less(_slots_a_phase("f=10", "slots a phase"), _slots_a_phase("f=50", "with f = 50")),
            "sooner than with f = 50, which is our reading",
        ),
        (
            "With f = 10 the regret is large: f = 50 performs better.",
            _less(_total("f=50", "f = 50"), _total("f=10", "f = 10")),
        ),
        (
            "With f = 10 convergence is fast.",
            _less(_slot("f=10", "decides at slot"), _slot("f=50", "with f = 50")),
            "faster than with f = 50, which is our reading",
        ),
        (
            "f = 100 admits new clients slowly.",
            _less(
                _slots_a_phase("f=50", "slots a phase with f = 50"),
                _slots_a_phase("f=100", "f = 100"),
            ),
            "later than f = 50, which is our reading",
        ),
        (
            "f = 100 delays the convergence.",
            _less(_slot("f=50", "f = 50 at slot"), _slot("f=100", "f = 100")),
            "later than f = 50, which is our reading",
        ),
        (
            "f = 50 performs better than f = 100.",
            _less(_total("f=50", "f = 50"), _total("f=100", "f = 100")),
        ),
    ),
    *_said(
        "figure 6",
        ("The suboptimality gap of the pre-processed data is Δ ≈ 0.0053.", _gap_on_movielens),
        (
            "With 200 clients Fed1-UCB does not find the best arm.",
            lambda m: rate_above(m.wrong("ML Fed1 200"), 0.5, "wrong arm"),
            "in most games, a threshold of ours",
        ),
        (
            "With all clients Fed1-UCB converges to the best arm.",
            _finds_the_best("ML Fed1 all"),
            _SURE,
        ),
        (
            "… but with a large regret; Fed2-UCB with f = 200 does much better.",
            _fed2_against_fed1("ML Fed2 200", "ML Fed1 all", factor=FACTOR),
            f"better {_TWICE}",
        ),
        (
            "… since only the necessary amount of clients are sampled.",
            _less(_clients("ML Fed2 200", "clients of Fed2-UCB"), _clients("ML Fed1 all", "all")),
            "fewer than all of them, which is our reading",
        ),
        (
            "… to capture the global model faithfully.",
            _finds_the_best("ML Fed2 200"),
            f"the best arm is found {_SURE}",
        ),
        (
            "With f = 500 new clients are admitted more slowly than with f = 200.",
            _less(
                _slots_a_phase("ML Fed2 200", "slots a phase with f = 200"),
                _slots_a_phase("ML Fed2 500", "f = 500"),
            ),
        ),
        (
            "Fed2-UCB with f = 500 still outperforms Fed1-UCB with all clients.",
            _fed2_against_fed1("ML Fed2 500", "ML Fed1 all"),
        ),
        *(
            (
                f"Fed2-UCB with f = {pulls} outperforms Fed1-UCB with 200 clients.",
                _fed2_against_fed1(f"ML Fed2 {pulls}", "ML Fed1 200"),
            )
            for pulls in ("200", "500")
        ),
    ),
    *_said(
        "figure 7",
        (
            "P_e decreases exponentially with M.",
            _falls_exponentially,
            "at no less than 0.9 times the rate of the corrected Theorem 1, a threshold of ours",
        ),
        ("P_e is smaller with Δ = 0.02 than with Δ = 0.01.", _smaller_with_the_larger_gap),
    ),
    *_said(
        "figure 8",
        *(
            (
                f"With Δ = {least}, g(p) = 2^p has less regret than ⌈log T⌉.",
                _less(_total(f"2^p {least}", "2^p"), _total(f"log {least}", "⌈log T⌉")),
            )
            for least in ("0.005", "0.01", "0.02", "0.04")
        ),
        (
            "g(p) = ⌈log T⌉ depends more strongly on Δ than 2^p.",
            _steeper(("log 0.04", "log 0.005"), ("2^p 0.04", "2^p 0.005"), ("⌈log T⌉", "2^p")),
            "by which factor regret grows from Δ = 0.04 to 0.005, in our game",
        ),
    ),
    *_said(
        "supplement, discussion of Theorem 2",
        (
            "Any f(p) of a higher order than O(1) cannot have an O(log T) regret.",
            _steeper(
                ("growing f, T=10^6", "growing f, T=10^12"),
                ("constant f, T=10^6", "constant f, T=10^12"),
                ("f = ⌈7 log T⌉", "f = 97"),
            ),
            "it grows faster than with a constant f as log T doubles, T = 10^6 to 10^12: our "
            "reading",
        ),
    ),
    *_said(
        "supplement, better privacy protection",
        (
            "The radius that is widened for quantisation, B' = 2B, costs only slightly more.",
            _near(_total("widened", "2B"), _total("as proved", "B")),
            _TEN,
        ),
    ),
    *_said(
        "figure 3",
        (
            "The baseline performs as improved UCB, by whose name the paper calls it.",
            _near(_total("baseline", "baseline"), _total("improved UCB", "improved UCB")),
            _TEN,
        ),
        ours=True,
    ),
    *_said(
        "figure 6",
        *(
            (
                f"Fed2-UCB with f = {pulls} does better than Fed1-UCB with all clients in the "
                "median game, too.",
                _median_on_movielens(pulls),
            )
            for pulls in ("200", "500")
        ),
        (
            "Fed2-UCB (f = 200) ends on a wrong arm less often than Fed1-UCB with all clients.",
            _seldom_wrong,
        ),
        ours=True,
    ),
    *_said(
        "figure 6, equal spreads",
        *(
            (
                f"At the same σ_c = 0.02, Fed2-UCB (f = 200) beats Fed1-UCB with {clients}.",
                _fed2_against_fed1("equal Fed2 200", f"equal Fed1 {rival}"),
            )
            for rival, clients in (("all", "all clients"), ("200", "200 clients"))
        ),
        ours=True,
    ),
)
"""What the paper says, in its order, and then what is ours."""


def claims_batches() -> list[Batch]:
    """Return everything that the claims are about.

    What shares an experiment is simulated together, so that no core waits for another.
    """
    together: dict[tuple[str, int | None, int], dict[str, Variant]] = {}
    for key, run in RUNS.items():
        horizon = run.horizon or paper_experiment(run.experiment).horizon
        shared = together.setdefault((run.experiment, horizon, run.replications), {})
        shared[key] = run.variant()
    return [
        Batch(
            variants=variants,
            horizon=horizon,
            replications=replications,
            seed=paper_experiment(name).seed + OFFSET,
        )
        for (name, horizon, replications), variants in together.items()
    ]


def judge(measured: Measured) -> dict[str, Any]:
    """Return the table of claims: what is said, what was measured, and the verdict.

    Returns
    -------
    dict
        ``level``, ``seeds`` and ``games`` by experiment and run, and ``claims``, one a row, with
        the numbers behind what is shown.
    """
    found = [claim.test(measured) for claim in CLAIMS]
    return {
        "level": LEVEL,
        "seeds": {
            name: paper_experiment(name).seed + OFFSET
            for name in dict.fromkeys(run.experiment for run in RUNS.values())
        },
        "games": {key: int(measured.outcome(key).winner.size) for key in RUNS},
        "claims": [
            {
                "where": claim.where,
                "claim": claim.sentence,
                "read": claim.read,
                "ours": claim.ours,
                "measured": finding.measured,
                "games": finding.games,
                "verdict": verdict,
                "reason": "" if finding.enough else "too few games",
                "p_for": finding.for_it,
                "p_against": finding.against_it,
                "numbers": list(finding.numbers),
            }
            for claim, finding, verdict in zip(CLAIMS, found, verdicts(found, LEVEL), strict=True)
        ],
    }
