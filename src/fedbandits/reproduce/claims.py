"""The paper's sentences about its experiments, each tested.

A sentence that says that one thing is larger, faster, flatter or about equal is a claim. It holds
or fails if the measurements show so at level 0.01, by Holm's method over the whole table; else it
is undecided. “About equal” is an equivalence test within 10 %. Margins and factors that the paper
does not state are ours and labelled so, and so are the questions that we add to the paper's.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np

from fedbandits.construct import construct
from fedbandits.problems.problem import best_arm, gap
from fedbandits.report.wording import listed
from fedbandits.reproduce import findings
from fedbandits.reproduce.catalogue import paper_experiment
from fedbandits.reproduce.findings import ABOUT_EQUAL, FEWEST_GAMES, Finding, certain, verdicts
from fedbandits.reproduce.misranking import SPREAD, misranking_gaps
from fedbandits.reproduce.part import Batch, Part, Runs, chose_wrong
from fedbandits.reproduce.texts import listing, table_html
from fedbandits.rules.algorithms import ALGORITHMS
from fedbandits.rules.arrays import FloatArray
from fedbandits.simulation import Simulation, Variant
from fedbandits.simulation.tables import chose_best
from fedbandits.theory.sampling import misranking_probability

LEVEL = 0.01
"""The probability of a wrong verdict anywhere in the table is at most this."""

OFFSET = 1
"""Added to the figures' seed: what is tested was not looked at before."""

FACTOR = 2.0
"""“Very large” and “much better” are by at least this factor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedRun:
    """A simulation that claims are about: of an experiment, with what is changed in it.

    ``claims.toml`` lists them, and several claims may be about one.

    Parameters
    ----------
    experiment, label : str
        Which variant of which experiment.
    games : int
        How many games.
    horizon : int, optional
        Another one than the experiment's.
    instead : dict, optional
        Another algorithm than the variant's, with the keys that a variant of a file has.
    """

    experiment: str
    label: str
    games: int = 10_000
    horizon: int | None = None
    instead: dict[str, Any] | None = None

    def variant(self) -> Variant:
        """Return the variant of the experiment, with another algorithm if one is given."""
        (found,) = (v for v in paper_experiment(self.experiment).variants if v.label == self.label)
        if self.instead is None:
            return found
        settings = {key: value for key, value in self.instead.items() if key != "algorithm"}
        other = construct(ALGORITHMS[self.instead["algorithm"]], settings, self.label)
        return replace(found, algorithm=other)


@cache
def claim_runs() -> dict[str, TestedRun]:
    """Return the runs that claims are about.

    Examples
    --------
    >>> claim_runs()["M=5"].experiment, claim_runs()["centralised"].games
    ('fig3', 500)
    """
    return {key: TestedRun(**run) for key, run in listing("claims")["runs"].items()}


def _slot(run: Simulation) -> FloatArray:
    """Return decision slots; a game that is not decided counts with its horizon."""
    slots = run.games.decision_slot
    return np.where(slots < 0, run.grid[-1], slots).astype(np.float64)


def _best_arms_differ() -> Finding:
    problem = paper_experiment("fig3").variants[0].problem
    clients = problem.population or 0
    means = problem.sampler(np.random.default_rng).draw(clients).means
    same = int((means.argmax(axis=0) == best_arm(problem)).sum())
    return certain(same == 0, f"{same} of {clients} clients have the global best arm as their own")


def _means_and_gap() -> Finding:
    problem = paper_experiment("fig3").variants[0].problem
    low, high, least = float(problem.means.min()), float(problem.means.max()), gap(problem)
    holds = round(low, 12) >= 0.7 and high <= 0.8 and math.isclose(least, 0.02, rel_tol=1e-9)
    return certain(holds, f"means from {low:.2f} to {high:.2f}, Δ = {least:.4f}")


def _gap_on_movielens() -> Finding:
    least = gap(paper_experiment("fig6").variants[0].problem)
    return certain(round(least, 4) == 0.0053, f"Δ = {least:.6f}")


def _falls_exponentially() -> Finding:
    clients = np.array([500, 1000])
    parts, holds = [], True
    for least in (0.02, 0.01):
        low, high = misranking_probability(misranking_gaps(least), SPREAD, clients)
        rate = float(np.log(low / high) / 500)
        theory = least**2 / (4 * SPREAD**2)
        holds &= rate > 0.9 * theory
        parts.append(f"Δ = {least:g}: rate {rate:.4f} a client, Δ²/(4σ_c²) = {theory:.4f}")
    return certain(holds, "; ".join(parts))


def _smaller_with_the_larger_gap() -> Finding:
    large, small = (
        float(misranking_probability(misranking_gaps(least), SPREAD, 200)) for least in (0.02, 0.01)
    )
    return certain(large < small, f"at M = 200: {large:.3f} for Δ = 0.02, {small:.3f} for Δ = 0.01")


_QUANTITIES: dict[str, Callable[[Simulation], Any]] = {
    "total": lambda run: run.games.total,
    "exploration": lambda run: run.games.exploration,
    "communication": lambda run: run.games.communication,
    "clients": lambda run: run.games.clients.astype(np.float64),
    "slot": _slot,
    # From one admission of clients to the next, on average.
    "slots a phase": lambda run: _slot(run) / np.maximum(run.games.phases, 1),
    "undecided": lambda run: run.games.winner < 0,
    "wrong": chose_wrong,
    "not found": lambda run: ~chose_best(run),
}
"""What is measured in every game of a run."""

_COMPARISONS: dict[str, Callable[..., Finding]] = {
    "less": findings.less,
    "much less": partial(findings.less, factor=FACTOR),
    "about equal": findings.about_equal,
    "less in the middle": findings.less_in_the_middle,
    "less often wrong": partial(findings.less_often, what="wrong arm"),
    "steeper": findings.steeper,
    "seldom": lambda happened, names: findings.rate_below(happened, 0.01, *names),
    "mostly": lambda happened, names: findings.rate_above(happened, 0.5, *names),
    "nearly always": lambda happened, names: findings.rate_above(happened, 0.99, *names),
}

_COMPUTED: dict[str, Callable[[], Finding]] = {
    "means and gap": _means_and_gap,
    "best arms differ": _best_arms_differ,
    "gap on MovieLens": _gap_on_movielens,
    "falls exponentially": _falls_exponentially,
    "smaller with the larger gap": _smaller_with_the_larger_gap,
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
    test : str
        What it is put to; claims.toml explains the tests.
    first, second : list of str
        What is compared: a quantity, the runs that it is measured in, and what it is called.
    read : str
        How its words are read if they can be read in several ways: a margin or a factor of ours.
    ours : bool
        Whether the question is ours and the paper says nothing of the kind.
    """

    where: str
    sentence: str
    test: str
    first: list[str] = field(default_factory=list)
    second: list[str] = field(default_factory=list)
    read: str = ""
    ours: bool = False

    def finding(self, runs: Runs) -> Finding:
        """Return what the runs say of it."""
        if self.test in _COMPUTED:
            return _COMPUTED[self.test]()
        values, names = [], []
        for quantity, *measured, name in filter(None, (self.first, self.second)):
            found = tuple(_QUANTITIES[quantity](runs[run]) for run in measured)
            values.append(found if len(found) > 1 else found[0])
            names.append(name)
        return _COMPARISONS[self.test](*values, tuple(names))


@cache
def claims() -> tuple[Claim, ...]:
    """Return what the paper says, in its order, and then what is ours.

    Examples
    --------
    >>> claims()[0].sentence
    'The global means are in [0.7, 0.8], with Δ = 0.02.'
    """
    return tuple(Claim(**claim) for claim in listing("claims")["claims"])


def claims_batches() -> list[Batch]:
    """Return everything that the claims are about.

    What shares an experiment is simulated together, so that no core waits for another.
    """
    together: dict[tuple[str, int | None, int], dict[str, Variant]] = {}
    for key, run in claim_runs().items():
        horizon = run.horizon or paper_experiment(run.experiment).horizon
        shared = together.setdefault((run.experiment, horizon, run.games), {})
        shared[key] = run.variant()
    return [
        Batch(variants, horizon, replications, paper_experiment(name).seed + OFFSET)
        for (name, horizon, replications), variants in together.items()
    ]


def judge(runs: Runs) -> dict[str, Any]:
    """Return the table of claims: what is said, what was measured, and the verdict.

    Returns
    -------
    dict
        ``level``, ``seeds`` and ``games`` by experiment and run, and ``claims``, one a row, with
        the numbers behind what is shown.
    """
    found = [claim.finding(runs) for claim in claims()]
    return {
        "level": LEVEL,
        "seeds": {
            name: paper_experiment(name).seed + OFFSET
            for name in dict.fromkeys(run.experiment for run in claim_runs().values())
        },
        "games": {key: int(runs[key].games.winner.size) for key in claim_runs()},
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
            for claim, finding, verdict in zip(claims(), found, verdicts(found, LEVEL), strict=True)
        ],
    }


# On the page --------------------------------------------------------------------------------------


def claims_values(found: Mapping[str, Any]) -> dict[str, object]:
    """Return what the text of the section has in braces.

    Parameters
    ----------
    found : mapping
        From `judge`.
    """
    values: dict[str, object] = {}
    for whose in ("papers", "ours"):
        claims = [claim for claim in found["claims"] if claim["ours"] == (whose == "ours")]
        values[whose] = f"{len(claims)} statement{'' if len(claims) == 1 else 's'}"
        values[f"{whose}_verdicts"] = counted(claims)
        values[f"{whose}_table"] = table_html(f"claims-{whose}", map(_worded, claims))
    least, most = min(found["games"].values()), max(found["games"].values())
    return {
        **values,
        "games": f"{most:,}" if least == most else f"{least:,} to {most:,}",
        "seeds": listed(f"{seed}" for seed in sorted(set(found["seeds"].values()))),
        "level": found["level"],
        "fewest": FEWEST_GAMES,
        "equal": 100 * ABOUT_EQUAL,
        "factor": FACTOR,
    }


def counted(claims: Sequence[Mapping[str, Any]]) -> str:
    """Return how many claims have which verdict.

    Examples
    --------
    >>> counted([{"verdict": "holds"}, {"verdict": "fails"}, {"verdict": "holds"}])
    '2 hold and 1 fails'
    """
    numbers = Counter(claim["verdict"] for claim in claims)
    one = {"holds": "holds", "fails": "fails", "undecided": "is undecided"}
    more = {"holds": "hold", "fails": "fail", "undecided": "are undecided"}
    return listed(
        f"{n} {(one if n == 1 else more)[verdict]}" for verdict in one if (n := numbers[verdict])
    )


def _worded(claim: Mapping[str, Any]) -> dict[str, Any]:
    """Return a claim with what its row says of it."""
    where = "; ".join(filter(None, (claim["where"], claim["read"])))
    games = "computed" if claim["games"] is None else f"of {claim['games']:,} games"
    said = ": ".join(filter(None, (claim["verdict"], claim["reason"])))
    return {**claim, "where": where, "played": games, "said": said}


PART = Part(
    key="claims",
    heading="What the paper says, and what was measured",
    cost=(2.0, 22.0),
    batches=claims_batches,
    table=judge,
    show=claims_values,
)
