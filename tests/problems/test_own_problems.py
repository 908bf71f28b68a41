"""Laws and problems of one's own: one class each, written as CONTRIBUTING.md says."""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any, ClassVar, cast

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.construct import construct
from fedbandits.errors import UnstatedError
from fedbandits.problems import LocalModels, NoiseLaw, PlainProblem, Problem
from fedbandits.problems.clipping import clipping
from fedbandits.problems.problem import Sources
from fedbandits.rules.arrays import FloatArray, IntArray
from fedbandits.rules.beliefs import Goal
from fedbandits.rules.guarantees import Assumption, Status
from fedbandits.simulation import Variant, build_rules
from fedbandits.simulation.variants import guarantee_of
from repository import ROOT

SEED = 15
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
UNIT = fb.Privacy(range=(0, 1), quantize=fb.Quantize(bits=8))
RULE = fb.Fed2Ucb(pulls=20, admissions="2^p", radius=fb.CertifiedRadius(delta=0.05))


@dataclass(frozen=True, slots=True)
class PlainLaplace(NoiseLaw):
    """Laplace noise with standard deviation ``sigma``: what a law has to say, and nothing else."""

    law: ClassVar[str] = "laplace"

    sigma: float

    def proxy(self, means: FloatArray) -> float:
        """Return the standard deviation; tails are heavier than any that a proxy covers."""
        return self.sigma

    def variates(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> FloatArray:
        return rng.laplace(scale=math.sqrt(0.5), size=size)

    def observe(
        self, variates: FloatArray, means: FloatArray | float, cells: IntArray | int | None
    ) -> FloatArray:
        return means + self.sigma * variates


@dataclass(frozen=True, slots=True)
class Laplace(PlainLaplace):
    """The same, and what clipping does to it."""

    def clipped(
        self, means: FloatArray, cells: IntArray | None, low: float, high: float
    ) -> tuple[FloatArray, FloatArray]:
        scale = self.sigma * math.sqrt(0.5)

        def beyond(end: float) -> tuple[FloatArray, FloatArray]:
            """Return P(X > end) and E max(X − end, 0)."""
            tail = np.exp(-np.abs(end - means) / scale) / 2
            above = np.where(end > means, tail, 1 - tail)
            return above, np.maximum(means - end, 0) + scale * tail

        (over_low, left), (over_high, right) = beyond(low), beyond(high)
        return 1 - over_low + over_high, low + left - right


def game_with(noise: NoiseLaw, spread: float = 0.0) -> fb.Approximate:
    return fb.Approximate(means=[0.5, 0.8], noise=noise, spread=fb.Gaussian(spread))


def test_a_law_that_says_what_clipping_does_reports_the_right_share() -> None:
    law = Laplace(0.5)
    found = clipping(game_with(law), 0.0, 1.0)
    # e^(−√2) = 24.3 % of the first arm lie outside; version 0.1.0 reported none.
    assert found.shares[0] == pytest.approx(math.exp(-math.sqrt(2)), rel=1e-12)
    rng = np.random.default_rng(SEED)
    drawn = law.observe(law.variates(rng, (2, 10**6)), np.array([[0.5], [0.8]]), None)
    inside = np.clip(drawn, 0.0, 1.0)
    for values, said in ((drawn != inside, found.shares), (inside, found.means)):
        error = values.std(axis=1) / 1000
        assert (np.abs(values.mean(axis=1) - said) <= 5 * error).all()
    with pytest.warns(fb.AssumptionWarning, match=r"up to 34 % of the observations of an arm lie"):
        run = fb.simulate(game_with(law), RULE, horizon=2000, replications=2, privacy=UNIT)
    assert run.fidelity.value == "pulls"


def test_a_law_that_does_not_say_what_clipping_does_is_refused() -> None:
    message = re.escape(
        "PlainLaplace does not say what clipping does to its observations; define "
        "PlainLaplace.clipped(means, cells, low, high)"
    )
    for fidelity in (None, "pulls"):
        with pytest.raises(UnstatedError, match=message):
            fb.simulate(
                game_with(PlainLaplace(0.5)),
                RULE,
                horizon=2000,
                replications=2,
                privacy=UNIT,
                fidelity=fidelity,
            )
    # Without privacy nothing is clipped, and nothing is asked.
    run = fb.simulate(game_with(PlainLaplace(0.5)), RULE, horizon=2000, replications=2, warn=False)
    assert run.fidelity.value == "pulls"


def test_what_a_law_does_not_say_is_not_assumed() -> None:
    law = PlainLaplace(0.5)
    game = game_with(law, spread=0.1)
    assert law.normal_deviation is None
    assert law.outcome_range is None
    assert game.cohort_law.obstacle == "it needs gaussian noise, and this is laplace"
    for fidelity, why in (("cohorts", "needs gaussian noise"), ("clients", "no closed form")):
        with pytest.raises(fb.InputError, match=why):
            fb.simulate(game, RULE, horizon=2000, fidelity=fidelity)
    wide = fb.BernsteinRadius(range=(-50, 50), delta=0.05)
    bounded = fb.Fed2Ucb(pulls=500, admissions="2", radius=wide)
    with pytest.warns(fb.AssumptionWarning, match="laplace noise knows no such range"):
        fb.simulate(game, bounded, horizon=2000, replications=2, fidelity="pulls")

    class Sums(PlainLaplace):
        sums_in_closed_form = True

    with pytest.raises(UnstatedError, match=r"define Sums\.phase_sums"):
        fb.simulate(game_with(Sums(0.5)), RULE, horizon=2000, replications=1, warn=False)


def test_a_law_without_its_methods_is_refused_with_their_names() -> None:
    @dataclass(frozen=True)
    class Unfinished(NoiseLaw):
        law: ClassVar[str] = "unfinished"

        def proxy(self, means: FloatArray) -> float:
            return 0.5

    with pytest.raises(TypeError, match="observe"):
        cast(Any, Unfinished)()
    # From a file, in one line.
    with pytest.raises(UnstatedError, match=r"define Unfinished\.observe"):
        construct(cast(Any, Unfinished), {}, "problem.noise")

    class Stranger:
        law = "strange"

        def proxy(self, means: FloatArray) -> float:
            return 0.5

    for make in (
        game_with,
        lambda law: fb.Exact(local_means=[[0.2, 0.9]], noise=law),
    ):
        with pytest.raises(fb.InputError) as caught:
            make(cast(Any, Stranger()))
        assert caught.value.where == "noise"
        assert all(f'"{name}"' in str(caught.value) for name in ("clipped", "observe", "variates"))
        assert "inherit from NoiseLaw" in str(caught.value)


def test_the_error_of_a_class_that_says_nothing_survives_a_worker() -> None:
    error = UnstatedError("Laplace", "clipped(low, high)", "what clipping does")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert isinstance(error, fb.FedbanditsError)


# Problems -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TwoSorts(PlainProblem):
    """Clients of two sorts, half of each, whose arms are all better or all worse by as much."""

    model: ClassVar[str] = "two-sorts"
    goal: ClassVar[Goal] = "max"
    population: ClassVar[int | None] = None
    name: ClassVar[str] = "problem"

    center: tuple[float, ...]
    apart: float
    noise: NoiseLaw

    @property
    def means(self) -> FloatArray:
        return np.array(self.center)

    @property
    def spread_proxy(self) -> float:
        return self.apart

    def sampler(self, sources: Sources) -> _Coins:
        return _Coins(self, sources(0))


class _Coins:
    def __init__(self, game: TwoSorts, rng: np.random.Generator) -> None:
        self.game, self.rng = game, rng

    def draw(self, n_clients: int, arms: Sequence[int] | None = None) -> LocalModels:
        sides = self.rng.choice([-self.game.apart, self.game.apart], n_clients)
        return LocalModels(self.game.means[:, np.newaxis] + sides)


SORTS = TwoSorts(center=(0.4, 0.7), apart=0.2, noise=fb.Bernoulli())


def test_a_problem_of_ones_own_is_played_in_every_valid_fidelity() -> None:
    runs = [
        fb.simulate(SORTS, RULE, horizon=20_000, replications=20, fidelity=fidelity, warn=False)
        for fidelity in ("clients", "pulls")
    ]
    for run in runs:
        assert (run.games.winner == 1).all()
    with pytest.raises(fb.InputError, match="it needs gaussian noise, and this is bernoulli"):
        fb.simulate(SORTS, RULE, horizon=20_000, fidelity="cohorts")
    alone = fb.simulate(SORTS, fb.ImprovedUcb(), horizon=20_000, replications=20, warn=False)
    assert (alone.games.winner == 1).all()


def test_nothing_is_taken_for_granted_of_its_clients() -> None:
    independent = fb.Fed2Ucb(
        pulls=20, admissions="2^p", radius=fb.PairwiseRadius(dependence="independent")
    )
    with pytest.warns(fb.AssumptionWarning, match="takes the arms of a client for independent"):
        fb.simulate(SORTS, independent, horizon=2000, replications=2)
    normal = TwoSorts(center=(0.4, 0.7), apart=0.2, noise=fb.Gaussian(0.5))
    with pytest.raises(fb.InputError, match="clients of the two-sorts model are not normal"):
        fb.simulate(normal, RULE, horizon=2000, fidelity="cohorts")
    assert clipping(normal, 0.0, 1.0).shares == pytest.approx([0.34, 0.37], abs=0.05)


@dataclass(frozen=True)
class Louder(fb.Gaussian):
    """Three times as noisy as its ``sigma`` says."""

    law: ClassVar[str] = "louder"

    def observe(
        self, variates: FloatArray, means: FloatArray | float, cells: IntArray | int | None
    ) -> FloatArray:
        return means + 3 * self.sigma * variates


@dataclass(frozen=True)
class HonestlyLouder(Louder):
    """The same, and it says so."""

    def proxy(self, means: FloatArray) -> float:
        return 3 * self.sigma


class _Opposed:
    def __init__(self, problem: fb.Approximate, rng: np.random.Generator) -> None:
        self.problem, self.rng = problem, rng

    def draw(self, n_clients: int, arms: Sequence[int] | None = None) -> LocalModels:
        sides = 0.2 * self.rng.standard_normal(n_clients)
        return LocalModels(self.problem.means[:, np.newaxis] + np.array([[1.0], [-1.0]]) * sides)


@dataclass(frozen=True, eq=False, init=False)
class Opposed(fb.Approximate):
    """Clients who like one arm the more, the less they like the other."""

    def sampler(self, sources: Sources) -> Any:
        return _Opposed(self, sources(0))


@dataclass(frozen=True, eq=False, init=False)
class HonestlyOpposed(Opposed):
    """The same, and it says how far they are spread."""

    spread_proxy = 0.2


def test_a_law_that_replaces_how_it_is_drawn_inherits_no_facts() -> None:
    law = Louder(0.5)
    assert law.normal_deviation is None
    assert not law.sums_in_closed_form
    message = r"Louder does not say what its proxy is, now that it replaces observe; define Louder"
    with pytest.raises(UnstatedError, match=message):
        fb.simulate(game_with(law), RULE, horizon=2000, replications=1)
    with pytest.raises(UnstatedError, match=r"define Louder\.clipped"):
        law.clipped(np.zeros(1), None, 0.0, 1.0)
    with pytest.raises(UnstatedError, match=r"define Louder\.phase_moments"):
        law.phase_moments(np.random.default_rng(), 1, np.zeros(1), None)
    # How wide it spreads clients is a fact about the same class, for whatever draws them.
    with pytest.raises(UnstatedError, match=r"define Louder\.support"):
        fb.Approximate(means=[0.5, 0.8], noise=fb.Gaussian(0.5), spread=law)


def test_a_law_that_says_anew_what_is_asked_is_played_as_it_is() -> None:
    game = game_with(HonestlyLouder(0.5))
    assert game.noise_proxy == 1.5
    for fidelity, why in (("cohorts", "needs gaussian noise"), ("clients", "no closed form")):
        with pytest.raises(fb.InputError, match=why):
            fb.simulate(game, RULE, horizon=2000, fidelity=fidelity)
    run = fb.simulate(game, RULE, horizon=2000, replications=40, workers=1)
    assert run.fidelity.value == "pulls"
    # Told 1.5, it is as careful as with normal noise of that size.
    normal = fb.simulate(
        game_with(fb.Gaussian(1.5)), RULE, horizon=2000, replications=40, fidelity="pulls"
    )
    assert (run.games.phases == normal.games.phases).all()


def test_what_a_mixin_or_a_helper_of_the_law_replaces_voids_its_facts_too() -> None:
    class Flat:
        def variates(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> FloatArray:
            return 9 * rng.random(size)

    @dataclass(frozen=True, slots=True)
    class Mixed(Flat, fb.Gaussian):
        pass

    @dataclass(frozen=True)
    class Wider(fb.Beta):
        def parameters(self, mean: float) -> tuple[float, float]:
            return mean, 1 - mean

    assert Mixed(0.5).normal_deviation is None
    with pytest.raises(UnstatedError, match=r"now that it replaces variates; define Mixed\.proxy"):
        Mixed(0.5).proxy(np.array([0.5]))
    with pytest.raises(UnstatedError, match=r"replaces parameters; define Wider\.proxy"):
        Wider(0.1).proxy(np.array([0.5]))


def test_a_law_keeps_its_facts_under_another_name_and_with_one_fact_more() -> None:
    @dataclass(frozen=True)
    class Bell(fb.Gaussian):
        law: ClassVar[str] = "bell"

        def in_words(self, symbol: str = "σ") -> str:
            return "a bell"

        @property
        def outcome_range(self) -> tuple[float, float]:
            return -1e9, 1e9

    @dataclass(frozen=True, eq=False)
    class Shuffled(fb.problems.Empirical):
        def observe(
            self, variates: FloatArray, means: FloatArray | float, cells: IntArray | int | None
        ) -> FloatArray:
            return fb.problems.Empirical.observe(self, 1 - variates, means, cells)

    assert Bell(0.5).normal_deviation == 0.5
    assert fb.simulate(game_with(Bell(0.5)), RULE, horizon=2000).fidelity.value == "cohorts"
    # A field is what it was given.
    lists = [[[1.0, 5.0], [3.0]]]
    assert Shuffled.of(lists).support.tolist() == [1.0, 3.0, 5.0]
    assert Shuffled.of(lists).outcome_range is None


def test_facts_are_judged_when_they_are_asked_for() -> None:
    @dataclass(frozen=True)
    class Assigned(fb.Gaussian):
        pass

    law = Assigned(0.5)
    assert law.normal_deviation == 0.5
    vars(law)["observe"] = Louder(0.5).observe
    assert law.normal_deviation is None
    Assigned.observe = Louder.observe
    assert Assigned(0.5).normal_deviation is None
    assert not Assigned(0.5).sums_in_closed_form
    Assigned.observe = fb.Gaussian.observe
    assert Assigned(0.5).normal_deviation == 0.5


def test_a_problem_that_replaces_its_sampler_inherits_no_facts() -> None:
    game = Opposed(means=[0.5, 0.6], noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.2))
    message = (
        "Opposed does not say what its spread_proxy is, now that it replaces sampler; define"
        " Opposed.spread_proxy"
    )
    with pytest.raises(UnstatedError, match=message):
        fb.simulate(game, RULE, horizon=2000, replications=1)
    stated = HonestlyOpposed(means=[0.5, 0.6], noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.2))
    assert not stated.arms_are_independent
    assert not stated.arms_compare_as_independent
    assert stated.observation_law is None
    run = fb.simulate(stated, RULE, horizon=2000, replications=4, warn=False)
    assert run.fidelity.value == "clients"
    alike = fb.Approximate(means=[0.5, 0.6], noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.2))
    assert fb.simulate(alike, RULE, horizon=2000, replications=4).fidelity.value == "cohorts"
    independent = fb.Fed2Ucb(
        pulls=20,
        admissions="2^p",
        radius=fb.CertifiedRadius(delta=0.05, dependence="independent"),
    )
    for problem, status in ((alike, Status.KEPT), (stated, Status.BROKEN)):
        variant = Variant(label="x", problem=problem, algorithm=independent)
        rule, _ = build_rules([variant], 2000)[0]
        found = guarantee_of(variant, rule).condition(Assumption.INDEPENDENT_OPTIONS)
        assert found is not None
        assert found.status is status


def test_clients_are_like_draws_only_if_the_problem_says_so() -> None:
    statuses = []
    for kind in (fb.Approximate, HonestlyOpposed):
        law = fb.Gaussian(0.2)
        problem = kind(means=[0.5, 0.6], noise=law, spread=law, population=50)
        variant = Variant(label="x", problem=problem, algorithm=RULE)
        rule, _ = build_rules([variant], 2000)[0]
        found = guarantee_of(variant, rule).condition(Assumption.LIKE_DRAWS)
        assert found is not None
        statuses.append(found.status)
    assert statuses == [Status.KEPT, Status.UNVERIFIABLE]


def test_a_report_tells_of_a_problem_of_ones_own(tmp_path: Path) -> None:
    experiment = fb.Experiment(
        title="own",
        horizon=2000,
        variants=[fb.Variant(label="a", problem=SORTS, algorithm=RULE)],
        replications=5,
    )
    results = experiment.run(workers=1)
    spec = results.summary()["spec"]["problem"]
    assert spec == {
        "model": "two-sorts",
        "center": [0.4, 0.7],
        "apart": 0.2,
        "noise": {"law": "bernoulli"},
    }
    results.write(tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "<dd>two-sorts</dd>" in page
    assert "bernoulli: one observation around the client's own mean" in page
    assert not list((tmp_path / "out").glob("map*"))


def test_a_problem_that_leaves_something_out_is_refused_with_its_name() -> None:
    class Hollow(PlainProblem):
        model = "hollow"

    with pytest.raises(fb.InputError) as caught:
        fb.Variant(label="a", problem=cast(Problem, Hollow()), algorithm=RULE)
    assert caught.value.where == "problem"
    assert all(
        f'"{name}"' in str(caught.value)
        for name in ("goal", "means", "name", "noise", "population", "sampler", "spread_proxy")
    )
    assert '"shares"' not in str(caught.value)
    assert "inherit from PlainProblem" in str(caught.value)


# The recipes --------------------------------------------------------------------------------------


def recipe(heading: str) -> dict[str, Any]:
    """Run the code of a section of CONTRIBUTING.md."""
    section = CONTRIBUTING.read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)\n *```", section, flags=re.DOTALL)
    found: dict[str, Any] = {"__name__": __name__}
    exec(compile(dedent(code), CONTRIBUTING, "exec", dont_inherit=True), found)
    return found


def test_the_recipe_of_a_law_gives_a_law_that_plays() -> None:
    law = recipe("Add a reward law")["Triangular"](0.2)
    drawn = law.observe(law.variates(np.random.default_rng(SEED), 10**5), 0.5, None)
    assert abs(drawn.mean() - 0.5) <= 5 * 0.2 / math.sqrt(10**5)
    assert drawn.std() == pytest.approx(0.2, rel=5 / math.sqrt(2 * 10**5))
    run = fb.simulate(game_with(law), RULE, horizon=5000, replications=10, warn=False)
    assert (run.games.winner == 1).all()
    assert law.in_words() == "triangular, σ = 0.2"


def test_the_recipe_of_a_problem_gives_a_problem_that_plays() -> None:
    made = recipe("Add a problem")["Seasons"]
    game: Problem = made(means=np.array([0.3, 0.6]), swing=0.2, noise=fb.Gaussian(0.5))
    drawn = game.sampler(np.random.default_rng).draw(10**5).means
    assert np.abs(drawn.mean(axis=1) - game.means).max() <= 5 * 0.2 / math.sqrt(2 * 10**5)
    run = fb.simulate(game, RULE, horizon=20_000, replications=10, warn=False)
    assert (run.games.winner == 1).all()
