"""An experiment: several variants under one horizon and one seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal

from fedbandits.errors import InputError, Mistakes, check_count, check_number
from fedbandits.experiments.results import Results
from fedbandits.experiments.unfinished import Unfinished
from fedbandits.plugins import Plugin
from fedbandits.problems.problem import Problem
from fedbandits.rules.guarantees import Guarantee
from fedbandits.simulation import Variant, build_rules, simulate_all
from fedbandits.simulation.simulator import DEFAULT_MEMORY_LIMIT, Progress, check_length
from fedbandits.simulation.variants import Built, all_doubts, guarantee_of

MOST_REPLICATIONS = 10_000_000
"""A game takes 100 bytes, and 16 more per point of its curves."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Experiment:
    """What an experiment file says, as a value.

    Parameters
    ----------
    title : str
        What report and figures are headed with.
    variants : sequence of Variant
        What is compared; labels differ.
    horizon : int, optional
        T; None if games are played until they are decided.
    replications : int
        How many independent games of every variant.
    seed : int
        The same seed gives the same numbers.
    grid_points : int
        On how many slots regret curves are kept.
    plugins : tuple of Plugin
        Files that the experiment's own parts come from, for reading it back.

    Examples
    --------
    >>> from fedbandits import Approximate, Fed2Ucb, Gaussian
    >>> game = Approximate(means=[0.5, 0.9], noise=Gaussian(0.5), spread=Gaussian(0.1))
    >>> demo = Experiment(
    ...     title="demo",
    ...     variants=[
    ...         Variant(label=f, problem=game, algorithm=Fed2Ucb(pulls=f, admissions="2^p"))
    ...         for f in ("10", "20")
    ...     ],
    ...     horizon=10_000,
    ...     replications=20,
    ... )
    >>> [variant["best_arm_rate"] for variant in demo.run().summary()["variants"]]
    [1.0, 1.0]
    """

    title: str
    variants: Sequence[Variant]
    horizon: int | None = None
    replications: int = 100
    seed: int = 0
    grid_points: int = 400
    plugins: tuple[Plugin, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "variants", tuple(self.variants))
        if not self.variants:
            raise InputError("variants", "is empty; give at least one")
        check_count(self.horizon, "horizon", optional=True)
        check_length(self.replications, self.grid_points)
        if self.replications > MOST_REPLICATIONS:
            raise InputError(
                "replications",
                f"{self.replications:,} games; what is kept of more than {MOST_REPLICATIONS:,} does"
                " not fit into memory: lower it, or play several seeds",
            )
        check_number(self.seed, "seed", whole=True)
        if self.seed < 0:
            raise InputError("seed", f"{self.seed} is below 0; give a whole number such as 2021")
        self._check_variants()

    def _check_variants(self) -> None:
        mistakes = Mistakes()
        named: dict[str, Problem] = {}
        labels: dict[str, int] = {}
        for number, variant in enumerate(self.variants):
            label, problem = variant.label, variant.problem
            with mistakes.gathered(f"variants[{number}]"):
                if not label.strip():
                    raise InputError("label", "is empty; name the variant")
                if (first := labels.setdefault(label, number)) != number:
                    raise InputError(
                        "label", f'"{label}" is the label of variants[{first}] too; change it'
                    )
            with mistakes.gathered(f"variants[{number}]"):
                if named.setdefault(problem.name, problem) is not problem:
                    raise InputError(
                        "problem",
                        f'another problem is also called "{problem.name}"; give each its own name,'
                        " which its random numbers are drawn by",
                    )
        mistakes.tell()

    @cached_property
    def built(self) -> Built:
        """The rule and the fidelity of every variant, built when first asked for."""
        return build_rules(self.variants, self.horizon)

    def check(self) -> list[str]:
        """Return the fidelity of every variant, or say all that is wrong, without simulating."""
        return [fidelity.value for _, fidelity in self.built]

    def guarantees(self) -> list[Guarantee]:
        """Return what is proven about every variant's game."""
        return [
            guarantee_of(variant, rule)
            for variant, (rule, _) in zip(self.variants, self.built, strict=True)
        ]

    def doubts(self) -> list[list[str]]:
        """Return for every variant what breaks its guarantee or speaks against its game."""
        return [
            all_doubts(variant, rule)
            for variant, (rule, _) in zip(self.variants, self.built, strict=True)
        ]

    def run(
        self,
        *,
        workers: int | None = None,
        memory_limit: int = DEFAULT_MEMORY_LIMIT,
        progress: Progress | Literal[False] | None = None,
        kept: Unfinished | None = None,
    ) -> Results:
        """Simulate every variant; see `fedbandits.simulate_all`.

        With ``kept``, variants that an interrupted run has finished are not played again.
        """
        simulations = simulate_all(
            self.variants,
            horizon=self.horizon,
            replications=self.replications,
            seed=self.seed,
            grid_points=self.grid_points,
            workers=workers,
            memory_limit=memory_limit,
            progress=progress,
            warn=False,
            rules=self.built,
            known=None if kept is None else kept.read(self),
            finished=None if kept is None else partial(kept.keep, self),
        )
        return Results(experiment=self, simulations=tuple(simulations))
