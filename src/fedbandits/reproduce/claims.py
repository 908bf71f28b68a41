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
from typing import Any

import numpy as np

from fedbandits.experiments.fingerprint import hashed
from fedbandits.experiments.tables import chose_best
from fedbandits.problems.problem import best_arm, gap
from fedbandits.reproduce.catalogue import experiment_text, paper_experiment
from fedbandits.reproduce.evidence import (
    Evidence,
    about_equal,
    certain,
    less,
    less_in_the_middle,
    rate_above,
    rate_below,
    seldomer,
    steeper,
    verdicts,
)
from fedbandits.reproduce.misranking import SPREAD, misranking_gaps
from fedbandits.reproduce.run import at_most
from fedbandits.rules.algorithms import Algorithm, AuthorsBaseline, Fed1Ucb, Fed2Ucb
from fedbandits.rules.arrays import BoolArray, FloatArray
from fedbandits.rules.radii import PaperRadius
from fedbandits.simulation.game import Outcome
from fedbandits.simulation.simulator import Progress, Simulation, Variant, simulate_all
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
class Run:
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


RUNS: dict[str, Run] = {
    "M=5": Run(experiment="fig3", label="Fed1-UCB, M = 5"),
    "M=10": Run(experiment="fig3", label="Fed1-UCB, M = 10"),
    "baseline": Run(experiment="fig3", label="baseline"),
    "improved UCB": Run(experiment="fig3", label="improved UCB"),
    "centralised": Run(experiment="fig3", label="centralised, M = 5", replications=FEW),
    "Fed2": Run(experiment="fig4", label="Fed2-UCB"),
    "f=10": Run(experiment="fig5", label="f = 10"),
    "f=50": Run(experiment="fig5", label="f = 50"),
    "f=100": Run(experiment="fig5", label="f = 100"),
    "short baseline": Run(
        experiment="fig5",
        label="f = 10",
        algorithm=AuthorsBaseline(pulls=_F, radius=PaperRadius(arm=4.0)),
    ),
    "ML Fed2 200": Run(experiment="fig6", label="Fed2-UCB, f = 200"),
    "ML Fed2 500": Run(experiment="fig6", label="Fed2-UCB, f = 500"),
    "ML Fed1 200": Run(experiment="fig6", label="Fed1-UCB, 200 clients"),
    "ML Fed1 all": Run(experiment="fig6", label="Fed1-UCB, 2,000 clients"),
    "equal Fed2 200": Run(experiment="fig6-equal", label="Fed2-UCB, f = 200"),
    "equal Fed1 200": Run(experiment="fig6-equal", label="Fed1-UCB, 200 clients"),
    "equal Fed1 all": Run(experiment="fig6-equal", label="Fed1-UCB, 2,000 clients"),
    **{
        f"{short} {gap}": Run(experiment="fig8", label=f"g = {schedule}, Δ = {gap}")
        for short, schedule in (("log", "⌈log T⌉"), ("2^p", "2^p"))
        for gap in ("0.005", "0.01", "0.02", "0.04")
    },
    # Pulls that grow with the horizon and pulls that do not, alike at T = 10^6.
    **{
        f"{short} f, T=10^{exponent}": Run(
            experiment="fig4-theory",
            label="Fed2-UCB",
            algorithm=Fed2Ucb(pulls=pulls, admissions="2^p"),
            horizon=10**exponent,
        )
        for short, pulls in (("constant", "97"), ("growing", "ceil(7*log(T))"))
        for exponent in (6, 12)
    },
    "as proved": Run(experiment="fig3-theory", label="Fed1-UCB, M = 5"),
    # B' = 2B is four times the constant under the root.
    "widened": Run(
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
        From measurements to evidence.
    read : str
        How its words are read where they can be read otherwise: a margin or a factor of ours.
    ours : bool
        Whether the question is ours and the paper says nothing of the kind.
    """

    where: str
    sentence: str
    test: Callable[[Measured], Evidence]
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


def _best_arms_differ(_: Measured) -> Evidence:
    problem = paper_experiment("fig3").variants[0].problem
    clients = problem.population or 0
    means = problem.sampler(np.random.default_rng).draw(clients).means
    same = int((means.argmax(axis=0) == best_arm(problem)).sum())
    return certain(same == 0, f"{same} of {clients} clients have the global best arm as their own")


def _means_and_gap(_: Measured) -> Evidence:
    problem = paper_experiment("fig3").variants[0].problem
    low, high, least = float(problem.means.min()), float(problem.means.max()), gap(problem)
    holds = round(low, 12) >= 0.7 and high <= 0.8 and math.isclose(least, 0.02, rel_tol=1e-9)
    return certain(holds, f"means from {low:.2f} to {high:.2f}, Δ = {least:.4f}")


def _gap_on_movielens(_: Measured) -> Evidence:
    least = gap(paper_experiment("fig6").variants[0].problem)
    return certain(round(least, 4) == 0.0053, f"Δ = {least:.6f}")


def _falls_exponentially(_: Measured) -> Evidence:
    clients = np.array([500, 1000])
    parts, holds = [], True
    for least in (0.02, 0.01):
        low, high = misranking_probability(misranking_gaps(least), SPREAD, clients)
        rate = float(np.log(low / high) / 500)
        theory = least**2 / (4 * SPREAD**2)
        holds &= rate > 0.9 * theory
        parts.append(f"Δ = {least:g}: rate {rate:.4f} a client, Δ²/(4σ_c²) = {theory:.4f}")
    return certain(holds, "; ".join(parts))


def _smaller_with_the_larger_gap(_: Measured) -> Evidence:
    large, small = (
        float(misranking_probability(misranking_gaps(least), SPREAD, 200)) for least in (0.02, 0.01)
    )
    return certain(large < small, f"at M = 200: {large:.3f} for Δ = 0.02, {small:.3f} for Δ = 0.01")


def _less_regret_by_doubling(least: str) -> Claim:
    def test(m: Measured) -> Evidence:
        return less(m.total(f"2^p {least}"), m.total(f"log {least}"), ("2^p", "⌈log T⌉"))

    return Claim(
        where="figure 8",
        sentence=f"With Δ = {least}, g(p) = 2^p has less regret than ⌈log T⌉.",
        test=test,
    )


def _median_on_movielens(pulls: str) -> Claim:
    def test(m: Measured) -> Evidence:
        fed2, fed1 = m.total(f"ML Fed2 {pulls}"), m.total("ML Fed1 all")
        return less_in_the_middle(fed2, fed1, ("Fed2-UCB", "Fed1-UCB"))

    return Claim(
        where="figure 6",
        sentence=f"Fed2-UCB with f = {pulls} does better than Fed1-UCB with all clients in the "
        "median game, too.",
        test=test,
        ours=True,
    )


def _better_than_200_clients(pulls: str) -> Claim:
    def test(m: Measured) -> Evidence:
        fed2, fed1 = m.total(f"ML Fed2 {pulls}"), m.total("ML Fed1 200")
        return less(fed2, fed1, ("Fed2-UCB", "Fed1-UCB"))

    return Claim(
        where="figure 6",
        sentence=f"Fed2-UCB with f = {pulls} outperforms Fed1-UCB with 200 clients.",
        test=test,
    )


def _beats_at_equal_spreads(rival: str, clients: str) -> Claim:
    def test(m: Measured) -> Evidence:
        fed2, fed1 = m.total("equal Fed2 200"), m.total(f"equal Fed1 {rival}")
        return less(fed2, fed1, ("Fed2-UCB", "Fed1-UCB"))

    return Claim(
        where="figure 6, equal spreads",
        sentence=f"At the same σ_c = 0.02, Fed2-UCB (f = 200) beats Fed1-UCB with {clients}.",
        test=test,
        ours=True,
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        where="figure 3",
        sentence="The global means are in [0.7, 0.8], with Δ = 0.02.",
        test=_means_and_gap,
    ),
    Claim(
        where="figure 3",
        sentence="The best arm is not the optimal arm of any client's local model.",
        test=_best_arms_differ,
    ),
    Claim(
        where="figure 3",
        sentence="Without communication loss, Fed1-UCB does almost the same as the baseline.",
        read=_TEN,
        test=lambda m: about_equal(
            m.exploration("M=5"), m.total("baseline"), ("exploration", "baseline")
        ),
    ),
    Claim(
        where="figure 3",
        sentence="The centralised version has a very large regret.",
        read=f"larger than Fed1-UCB's {_TWICE}",
        test=lambda m: less(
            m.total("M=5"), m.total("centralised"), ("Fed1-UCB", "centralised"), factor=FACTOR
        ),
    ),
    Claim(
        where="figure 3",
        sentence="… due to significant communications.",
        read="more than half of it, which is our reading",
        test=lambda m: less(
            m.exploration("centralised"),
            m.communication("centralised"),
            ("exploration", "communication"),
        ),
    ),
    Claim(
        where="figure 3",
        sentence="With f(p) = ⌈10 log T⌉, Fed1-UCB incurs only a small communication loss.",
        read=_TEN,
        test=lambda m: about_equal(m.total("M=5"), m.exploration("M=5"), ("total", "exploration")),
    ),
    Claim(
        where="figure 3",
        sentence="Fed1-UCB converges faster than the baseline.",
        test=lambda m: less(m.slot("M=5"), m.slot("baseline"), ("decides at slot", "baseline")),
    ),
    Claim(
        where="figure 3",
        sentence="With M = 10 the regret remains approximately the same as with M = 5.",
        read=_TEN,
        test=lambda m: about_equal(m.total("M=10"), m.total("M=5"), ("M = 10", "M = 5")),
    ),
    Claim(
        where="figure 3",
        sentence="With M = 10 convergence is even faster.",
        test=lambda m: less(m.slot("M=10"), m.slot("M=5"), ("decides at slot", "with M = 5")),
    ),
    Claim(
        where="figure 4",
        sentence="Fed2-UCB successfully finds the optimal global arm.",
        read=_SURE,
        test=lambda m: rate_below(m.wrong("Fed2") | m.undecided("Fed2"), 0.01, "not found"),
    ),
    Claim(
        where="figure 4",
        sentence="Without communication loss, Fed2-UCB does worse than the baseline.",
        test=lambda m: less(
            m.total("baseline"), m.exploration("Fed2"), ("baseline", "exploration")
        ),
    ),
    Claim(
        where="figure 4",
        sentence="… and only slightly worse.",
        read=_TEN,
        test=lambda m: about_equal(
            m.exploration("Fed2"), m.total("baseline"), ("exploration", "baseline")
        ),
    ),
    Claim(
        where="figure 4",
        sentence="Fed2-UCB's additional communication loss is very limited.",
        read=_TEN,
        test=lambda m: about_equal(
            m.total("Fed2"), m.exploration("Fed2"), ("total", "exploration")
        ),
    ),
    Claim(
        where="figures 3 and 4",
        sentence="Fed2-UCB achieves almost the same performance as Fed1-UCB.",
        read=_TEN,
        test=lambda m: about_equal(m.total("Fed2"), m.total("M=5"), ("Fed2-UCB", "Fed1-UCB")),
    ),
    Claim(
        where="figures 3 and 4",
        sentence="Fed2-UCB converges even faster than Fed1-UCB.",
        test=lambda m: less(m.slot("Fed2"), m.slot("M=5"), ("decides at slot", "Fed1-UCB")),
    ),
    Claim(
        where="figure 5, footnote",
        sentence="The baseline cannot converge within T = 10,000.",
        read=f"undecided {_SURE}",
        test=lambda m: rate_above(m.undecided("short baseline"), 0.99, "undecided"),
    ),
    Claim(
        where="figure 5",
        sentence="With f = 10 new clients are admitted rapidly.",
        read="sooner than with f = 50, which is our reading",
        test=lambda m: less(
            m.slots_a_phase("f=10"), m.slots_a_phase("f=50"), ("slots a phase", "with f = 50")
        ),
    ),
    Claim(
        where="figure 5",
        sentence="With f = 10 the regret is large: f = 50 performs better.",
        test=lambda m: less(m.total("f=50"), m.total("f=10"), ("f = 50", "f = 10")),
    ),
    Claim(
        where="figure 5",
        sentence="With f = 10 convergence is fast.",
        read="faster than with f = 50, which is our reading",
        test=lambda m: less(m.slot("f=10"), m.slot("f=50"), ("decides at slot", "with f = 50")),
    ),
    Claim(
        where="figure 5",
        sentence="f = 100 admits new clients slowly.",
        read="later than f = 50, which is our reading",
        test=lambda m: less(
            m.slots_a_phase("f=50"),
            m.slots_a_phase("f=100"),
            ("slots a phase with f = 50", "f = 100"),
        ),
    ),
    Claim(
        where="figure 5",
        sentence="f = 100 delays the convergence.",
        read="later than f = 50, which is our reading",
        test=lambda m: less(m.slot("f=50"), m.slot("f=100"), ("f = 50 at slot", "f = 100")),
    ),
    Claim(
        where="figure 5",
        sentence="f = 50 performs better than f = 100.",
        test=lambda m: less(m.total("f=50"), m.total("f=100"), ("f = 50", "f = 100")),
    ),
    Claim(
        where="figure 6",
        sentence="The suboptimality gap of the pre-processed data is Δ ≈ 0.0053.",
        test=_gap_on_movielens,
    ),
    Claim(
        where="figure 6",
        sentence="With 200 clients Fed1-UCB does not find the best arm.",
        read="in most games, a threshold of ours",
        test=lambda m: rate_above(m.wrong("ML Fed1 200"), 0.5, "wrong arm"),
    ),
    Claim(
        where="figure 6",
        sentence="With all clients Fed1-UCB converges to the best arm.",
        read=_SURE,
        test=lambda m: rate_below(
            m.wrong("ML Fed1 all") | m.undecided("ML Fed1 all"), 0.01, "not found"
        ),
    ),
    Claim(
        where="figure 6",
        sentence="… but with a large regret; Fed2-UCB with f = 200 does much better.",
        read=f"better {_TWICE}",
        test=lambda m: less(
            m.total("ML Fed2 200"),
            m.total("ML Fed1 all"),
            ("Fed2-UCB", "Fed1-UCB"),
            factor=FACTOR,
        ),
    ),
    Claim(
        where="figure 6",
        sentence="… since only the necessary amount of clients are sampled.",
        read="fewer than all of them, which is our reading",
        test=lambda m: less(
            m.clients("ML Fed2 200"), m.clients("ML Fed1 all"), ("clients of Fed2-UCB", "all")
        ),
    ),
    Claim(
        where="figure 6",
        sentence="… to capture the global model faithfully.",
        read=f"the best arm is found {_SURE}",
        test=lambda m: rate_below(
            m.wrong("ML Fed2 200") | m.undecided("ML Fed2 200"), 0.01, "not found"
        ),
    ),
    Claim(
        where="figure 6",
        sentence="With f = 500 new clients are admitted more slowly than with f = 200.",
        test=lambda m: less(
            m.slots_a_phase("ML Fed2 200"),
            m.slots_a_phase("ML Fed2 500"),
            ("slots a phase with f = 200", "f = 500"),
        ),
    ),
    Claim(
        where="figure 6",
        sentence="Fed2-UCB with f = 500 still outperforms Fed1-UCB with all clients.",
        test=lambda m: less(
            m.total("ML Fed2 500"), m.total("ML Fed1 all"), ("Fed2-UCB", "Fed1-UCB")
        ),
    ),
    *(_better_than_200_clients(pulls) for pulls in ("200", "500")),
    Claim(
        where="figure 7",
        sentence="P_e decreases exponentially with M.",
        read="at no less than 0.9 times the rate of the corrected Theorem 1, a threshold of ours",
        test=_falls_exponentially,
    ),
    Claim(
        where="figure 7",
        sentence="P_e is smaller with Δ = 0.02 than with Δ = 0.01.",
        test=_smaller_with_the_larger_gap,
    ),
    *(_less_regret_by_doubling(least) for least in ("0.005", "0.01", "0.02", "0.04")),
    Claim(
        where="figure 8",
        sentence="g(p) = ⌈log T⌉ depends more strongly on Δ than 2^p.",
        read="by which factor regret grows from Δ = 0.04 to 0.005, in our game",
        test=lambda m: steeper(
            (m.total("log 0.04"), m.total("log 0.005")),
            (m.total("2^p 0.04"), m.total("2^p 0.005")),
            ("⌈log T⌉", "2^p"),
        ),
    ),
    Claim(
        where="supplement, discussion of Theorem 2",
        sentence="Any f(p) of a higher order than O(1) cannot have an O(log T) regret.",
        read="it grows faster than with a constant f as log T doubles, T = 10^6 to 10^12: our "
        "reading",
        test=lambda m: steeper(
            (m.total("growing f, T=10^6"), m.total("growing f, T=10^12")),
            (m.total("constant f, T=10^6"), m.total("constant f, T=10^12")),
            ("f = ⌈7 log T⌉", "f = 97"),
        ),
    ),
    Claim(
        where="supplement, better privacy protection",
        sentence="The radius that is widened for quantisation, B' = 2B, costs only slightly more.",
        read=_TEN,
        test=lambda m: about_equal(m.total("widened"), m.total("as proved"), ("2B", "B")),
    ),
    Claim(
        where="figure 3",
        sentence="The baseline performs as improved UCB, by whose name the paper calls it.",
        read=_TEN,
        test=lambda m: about_equal(
            m.total("baseline"), m.total("improved UCB"), ("baseline", "improved UCB")
        ),
        ours=True,
    ),
    *(_median_on_movielens(pulls) for pulls in ("200", "500")),
    Claim(
        where="figure 6",
        sentence="Fed2-UCB (f = 200) ends on a wrong arm less often than Fed1-UCB with all "
        "clients.",
        test=lambda m: seldomer(
            m.wrong("ML Fed2 200"),
            m.wrong("ML Fed1 all"),
            ("Fed2-UCB", "Fed1-UCB"),
            "wrong arm",
        ),
        ours=True,
    ),
    _beats_at_equal_spreads("all", "all clients"),
    _beats_at_equal_spreads("200", "200 clients"),
)
"""What the paper says, in its order, and then what is ours."""


def measure(
    *, workers: int | None = None, games: int | None = None, progress: Progress | None = None
) -> Measured:
    """Simulate everything that the claims are about.

    Parameters
    ----------
    workers : int, optional
        Processes; all cores by default.
    games : int, optional
        At most so many replications of each run, for a quick look.
    progress : callable, optional
        Called as replications are done.
    """
    # What shares an experiment is simulated together, so that no core waits for another.
    together: dict[tuple[str, int | None, int], list[str]] = {}
    for key, run in RUNS.items():
        horizon = run.horizon or paper_experiment(run.experiment).horizon
        together.setdefault((run.experiment, horizon, run.replications), []).append(key)
    simulations: dict[str, Simulation] = {}
    for (name, horizon, replications), keys in together.items():
        found = simulate_all(
            [RUNS[key].variant() for key in keys],
            horizon=horizon,
            replications=at_most(games, replications),
            seed=paper_experiment(name).seed + OFFSET,
            grid_points=1,
            workers=workers,
            progress=progress,
            warn=False,
        )
        simulations.update(zip(keys, found, strict=True))
    return Measured(simulations)


def claims_replications(games: int | None) -> int:
    """Return how many replications `measure` simulates.

    Examples
    --------
    >>> claims_replications(None), claims_replications(600)
    (300500, 18500)
    """
    return sum(at_most(games, run.replications) for run in RUNS.values())


def claims_fingerprint(games: int | None) -> str:
    """Return what the table of claims depends on, as a hash."""
    texts = {run.experiment: experiment_text(run.experiment) for run in RUNS.values()}
    runs = {
        key: (
            run.experiment,
            run.label,
            at_most(games, run.replications),
            run.horizon,
            repr(run.variant().algorithm),
        )
        for key, run in RUNS.items()
    }
    said = [(claim.where, claim.sentence, claim.read, claim.ours) for claim in CLAIMS]
    return hashed([texts, runs, said, LEVEL, OFFSET, FACTOR])


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
                "measured": evidence.measured,
                "games": evidence.games,
                "verdict": verdict,
                "reason": "" if evidence.enough else "too few games",
                "p_for": evidence.for_it,
                "p_against": evidence.against_it,
                "numbers": list(evidence.numbers),
            }
            for claim, evidence, verdict in zip(CLAIMS, found, verdicts(found, LEVEL), strict=True)
        ],
    }
