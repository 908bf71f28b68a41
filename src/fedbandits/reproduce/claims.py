"""The paper's sentences about its experiments, each tested.

A sentence that says one thing is larger, faster, flatter or about equal is a claim. It holds or
fails when the measurements show so at level 0.01, by Holm's method over the whole table; else it is
undecided. “About equal” is an equivalence test within 10 %.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedbandits.experiments.tables import chose_best
from fedbandits.problems.exact import Exact
from fedbandits.reproduce.catalogue import experiment_text, paper_experiment
from fedbandits.reproduce.evidence import (
    Evidence,
    about_equal,
    certain,
    holm,
    less,
    less_in_the_middle,
    rate_above,
    rate_below,
    seldomer,
    steeper,
)
from fedbandits.reproduce.misranking import SPREAD, misranking_gaps
from fedbandits.reproduce.run import hashed
from fedbandits.rules.algorithms import Algorithm, AuthorsBaseline, Fed1Ucb, Fed2Ucb
from fedbandits.rules.arrays import BoolArray, FloatArray
from fedbandits.rules.radii import PaperRadius
from fedbandits.simulation.game import Outcome
from fedbandits.simulation.simulator import Progress, Simulation, Variant, simulate_all
from fedbandits.theory.sampling import misranking_probability

LEVEL = 0.01
MANY = 10_000
# Of the centralised version, whose every replication has some 28,000 phases.
FEW = 500

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
    """A sentence of the paper and how it is tested.

    Parameters
    ----------
    where : str
        Where it stands.
    sentence : str
        What it says, in our words and theirs.
    test : callable
        From measurements to evidence.
    """

    where: str
    sentence: str
    test: Callable[[Measured], Evidence]


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


def _best_arms_differ(_: Measured) -> Evidence:
    problem = paper_experiment("fig3").variants[0].problem
    if not isinstance(problem, Exact):
        raise TypeError("figure 3 is about given clients")
    table = problem.table
    best = int(problem.means.argmax())
    same = int((table.argmax(axis=1) == best).sum())
    return certain(
        same == 0, f"{same} of {len(table)} clients have the global best arm as their own"
    )


def _falls_exponentially(_: Measured) -> Evidence:
    clients = np.array([500, 1000])
    parts, holds = [], True
    for gap in (0.02, 0.01):
        low, high = misranking_probability(misranking_gaps(gap), SPREAD, clients)
        rate = float(np.log(low / high) / 500)
        theory = gap**2 / (4 * SPREAD**2)
        holds &= rate > 0.9 * theory
        parts.append(f"Δ = {gap:g}: rate {rate:.4f} a client, Δ²/(4σ_c²) = {theory:.4f}")
    return certain(holds, "; ".join(parts))


def _smaller_with_the_larger_gap(_: Measured) -> Evidence:
    large, small = (
        float(misranking_probability(misranking_gaps(gap), SPREAD, 200)) for gap in (0.02, 0.01)
    )
    return certain(large < small, f"at M = 200: {large:.3f} for Δ = 0.02, {small:.3f} for Δ = 0.01")


def _less_regret_by_doubling(gap: str) -> Claim:
    def test(m: Measured) -> Evidence:
        return less(m.total(f"2^p {gap}"), m.total(f"log {gap}"), ("2^p", "⌈log T⌉"))

    return Claim(
        where="figure 8",
        sentence=f"With Δ = {gap}, g(p) = 2^p has less regret than ⌈log T⌉.",
        test=test,
    )


def _median_on_movielens(pulls: str) -> Claim:
    def test(m: Measured) -> Evidence:
        fed2, fed1 = m.total(f"ML Fed2 {pulls}"), m.total("ML Fed1 all")
        return less_in_the_middle(fed2, fed1, ("Fed2-UCB", "Fed1-UCB"))

    return Claim(
        where="figure 6",
        sentence=f"Fed2-UCB with f = {pulls} does better in the median game, too.",
        test=test,
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        where="figure 3",
        sentence="Without communication loss, Fed1-UCB does almost as well as the baseline.",
        test=lambda m: about_equal(
            m.exploration("M=5"), m.total("baseline"), ("exploration", "baseline")
        ),
    ),
    Claim(
        where="figure 3",
        sentence="The baseline performs as improved UCB, by whose name the paper calls it.",
        test=lambda m: about_equal(
            m.total("baseline"), m.total("improved UCB"), ("baseline", "improved UCB")
        ),
    ),
    Claim(
        where="figure 3",
        sentence="The centralised version has a very large regret.",
        test=lambda m: less(m.total("M=5"), m.total("centralised"), ("Fed1-UCB", "centralised")),
    ),
    Claim(
        where="figure 3",
        sentence="With f(p) = ⌈10 log T⌉, Fed1-UCB incurs only a small communication loss.",
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
        test=lambda m: about_equal(m.total("M=10"), m.total("M=5"), ("M = 10", "M = 5")),
    ),
    Claim(
        where="figure 3",
        sentence="With M = 10 convergence is even faster.",
        test=lambda m: less(m.slot("M=10"), m.slot("M=5"), ("decides at slot", "with M = 5")),
    ),
    Claim(
        where="figure 3",
        sentence="The best arm is not the optimal arm of any client's local model.",
        test=_best_arms_differ,
    ),
    Claim(
        where="figure 4",
        sentence="Fed2-UCB successfully finds the optimal global arm (in more than 99 % of games).",
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
        test=lambda m: about_equal(
            m.exploration("Fed2"), m.total("baseline"), ("exploration", "baseline")
        ),
    ),
    Claim(
        where="figure 4",
        sentence="Fed2-UCB's additional communication loss is very limited.",
        test=lambda m: about_equal(
            m.total("Fed2"), m.exploration("Fed2"), ("total", "exploration")
        ),
    ),
    Claim(
        where="figures 3 and 4",
        sentence="Fed2-UCB achieves almost the same performance as Fed1-UCB.",
        test=lambda m: about_equal(m.total("Fed2"), m.total("M=5"), ("Fed2-UCB", "Fed1-UCB")),
    ),
    Claim(
        where="figures 3 and 4",
        sentence="Fed2-UCB converges even faster than Fed1-UCB.",
        test=lambda m: less(m.slot("Fed2"), m.slot("M=5"), ("decides at slot", "Fed1-UCB")),
    ),
    Claim(
        where="figure 5, footnote",
        sentence="The baseline cannot converge within T = 10,000 (undecided in more than 99 %).",
        test=lambda m: rate_above(m.undecided("short baseline"), 0.99, "undecided"),
    ),
    Claim(
        where="figure 5",
        sentence="f = 50 performs better than f = 10.",
        test=lambda m: less(m.total("f=50"), m.total("f=10"), ("f = 50", "f = 10")),
    ),
    Claim(
        where="figure 5",
        sentence="f = 50 performs better than f = 100.",
        test=lambda m: less(m.total("f=50"), m.total("f=100"), ("f = 50", "f = 100")),
    ),
    Claim(
        where="figure 5",
        sentence="With f = 10 convergence is fast.",
        test=lambda m: less(m.slot("f=10"), m.slot("f=50"), ("decides at slot", "with f = 50")),
    ),
    Claim(
        where="figure 5",
        sentence="f = 100 delays the convergence.",
        test=lambda m: less(m.slot("f=50"), m.slot("f=100"), ("f = 50 at slot", "f = 100")),
    ),
    Claim(
        where="figure 6",
        sentence="With 200 clients Fed1-UCB does not find the best arm (in most games).",
        test=lambda m: rate_above(m.wrong("ML Fed1 200"), 0.5, "wrong arm"),
    ),
    Claim(
        where="figure 6",
        sentence="With all clients Fed1-UCB converges to the best arm (in more than 99 %).",
        test=lambda m: rate_below(
            m.wrong("ML Fed1 all") | m.undecided("ML Fed1 all"), 0.01, "not found"
        ),
    ),
    Claim(
        where="figure 6",
        sentence="Fed2-UCB with f = 200 does much better than Fed1-UCB with all clients.",
        test=lambda m: less(
            m.total("ML Fed2 200"), m.total("ML Fed1 all"), ("Fed2-UCB", "Fed1-UCB")
        ),
    ),
    Claim(
        where="figure 6",
        sentence="Fed2-UCB with f = 500 still outperforms Fed1-UCB with all clients.",
        test=lambda m: less(
            m.total("ML Fed2 500"), m.total("ML Fed1 all"), ("Fed2-UCB", "Fed1-UCB")
        ),
    ),
    *(_median_on_movielens(pulls) for pulls in ("200", "500")),
    Claim(
        where="figure 6",
        sentence="Fed2-UCB (f = 200) ends on a wrong arm less often than Fed1-UCB with all clients "
        "(read from the curves).",
        test=lambda m: seldomer(
            m.wrong("ML Fed2 200"),
            m.wrong("ML Fed1 all"),
            ("Fed2-UCB", "Fed1-UCB"),
            "wrong arm",
        ),
    ),
    Claim(
        where="figure 6, equal spreads",
        sentence="At the same σ_c = 0.02, Fed2-UCB (f = 200) beats Fed1-UCB with all clients.",
        test=lambda m: less(
            m.total("equal Fed2 200"), m.total("equal Fed1 all"), ("Fed2-UCB", "Fed1-UCB")
        ),
    ),
    Claim(
        where="figure 6, equal spreads",
        sentence="At the same σ_c = 0.02, Fed2-UCB (f = 200) beats Fed1-UCB with 200 clients.",
        test=lambda m: less(
            m.total("equal Fed2 200"), m.total("equal Fed1 200"), ("Fed2-UCB", "Fed1-UCB")
        ),
    ),
    Claim(
        where="figure 7",
        sentence="P_e decreases exponentially with M.",
        test=_falls_exponentially,
    ),
    Claim(
        where="figure 7",
        sentence="P_e is smaller with Δ = 0.02 than with Δ = 0.01.",
        test=_smaller_with_the_larger_gap,
    ),
    *(_less_regret_by_doubling(gap) for gap in ("0.005", "0.01", "0.02", "0.04")),
    Claim(
        where="figure 8",
        sentence="g(p) = ⌈log T⌉ depends more strongly on Δ than 2^p (from 0.04 to 0.005).",
        test=lambda m: steeper(
            (m.total("log 0.04"), m.total("log 0.005")),
            (m.total("2^p 0.04"), m.total("2^p 0.005")),
            ("⌈log T⌉", "2^p"),
        ),
    ),
    Claim(
        where="Corollary 2, Table 2",
        sentence="Pulls f above O(1) lose O(log T): regret grows faster than with a constant f "
        "(log T doubles from T = 10^6 to 10^12).",
        test=lambda m: steeper(
            (m.total("growing f, T=10^6"), m.total("growing f, T=10^12")),
            (m.total("constant f, T=10^6"), m.total("constant f, T=10^12")),
            ("f = ⌈7 log T⌉", "f = 97"),
        ),
    ),
    Claim(
        where="supplement, quantisation",
        sentence="The radius that is widened for quantisation, B' = 2B, costs only slightly more.",
        test=lambda m: about_equal(m.total("widened"), m.total("as proved"), ("2B", "B")),
    ),
)


def measure(
    *, workers: int | None = None, scale: float = 1.0, progress: Progress | None = None
) -> Measured:
    """Simulate everything that the claims are about.

    Parameters
    ----------
    workers : int, optional
        Processes; all cores by default.
    scale : float
        Part of the replications, for a quick look.
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
            replications=_scaled(replications, scale),
            # Another seed than the figures': what is tested was not looked at before.
            seed=paper_experiment(name).seed + 1,
            grid_points=1,
            workers=workers,
            progress=progress,
        )
        simulations.update(zip(keys, found, strict=True))
    return Measured(simulations)


def _scaled(replications: int, scale: float) -> int:
    return max(2, round(replications * scale))


def claims_replications(scale: float) -> int:
    """Return how many replications `measure` simulates.

    Examples
    --------
    >>> claims_replications(1.0)
    300500
    """
    return sum(_scaled(run.replications, scale) for run in RUNS.values())


def claims_fingerprint(scale: float) -> str:
    """Return what the table of claims depends on, as a hash."""
    texts = {run.experiment: experiment_text(run.experiment) for run in RUNS.values()}
    runs = {
        key: (
            run.experiment,
            run.label,
            run.replications,
            run.horizon,
            repr(run.variant().algorithm),
        )
        for key, run in RUNS.items()
    }
    return hashed([texts, runs, [claim.sentence for claim in CLAIMS], scale, LEVEL])


def judge(measured: Measured) -> list[dict[str, Any]]:
    """Return the table of claims: what is said, what was measured, and the verdict."""
    found = [claim.test(measured) for claim in CLAIMS]
    holds = holm([evidence.for_it for evidence in found], LEVEL)
    fails = holm([evidence.against_it for evidence in found], LEVEL)
    return [
        {
            "where": claim.where,
            "claim": claim.sentence,
            "measured": evidence.measured,
            "verdict": "holds" if yes else "fails" if no else "undecided",
            "p_for": evidence.for_it,
            "p_against": evidence.against_it,
        }
        for claim, evidence, yes, no in zip(CLAIMS, found, holds, fails, strict=True)
    ]
