"""An estimator of one's own, without any change in the package: a median of means."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.errors import InputError, UnstatedError
from fedbandits.federation.host import ClientInfo
from fedbandits.federation.local import try_trial
from fedbandits.federation.trial import Trial
from fedbandits.loopback import play
from fedbandits.protocol import Client, Pull, Server
from fedbandits.rules.algorithms import Algorithm
from fedbandits.rules.distortion import UNDISTORTED
from fedbandits.rules.estimates import Estimate
from fedbandits.rules.estimators import Estimator, Plain
from fedbandits.rules.guarantees import Condition, ProofContext
from fedbandits.rules.phased import PhasedRule
from fedbandits.rules.plans import PhasePlan, State
from fedbandits.rules.reports import Reports
from fedbandits.rules.sampling import Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class MedianOfMeans(Estimator):
    """The median over blocks of clients of their average means: a few wild clients do no harm."""

    name: ClassVar[str] = "median-of-means"
    needs_each_client: ClassVar[bool] = True
    blocks: int = 5

    def estimate(self, reports: Reports, sampling: Sampling) -> Estimate:
        plain = Plain().estimate(reports, sampling)
        means = reports.each_mean()
        counts = np.broadcast_to(reports.counts, means.shape)
        averages = np.full((self.blocks, *means.shape[:-1]), np.nan)
        for block in range(self.blocks):
            own, inside = means[..., block :: self.blocks], counts[..., block :: self.blocks] > 0
            present = inside.sum(axis=-1)
            total = np.where(inside, own, 0.0).sum(axis=-1)
            np.divide(total, present, out=averages[block], where=present > 0)
        pulled = np.isfinite(averages).any(axis=0)
        values = np.nanmedian(np.where(pulled, averages, 0.0), axis=0)
        # A median of normal averages has π/2 times the variance of their average.
        return replace(
            plain,
            values=values,
            pull_variance=plain.pull_variance * np.pi / 2,
            client_variance=plain.client_variance * np.pi / 2,
        )


GAME = fb.Approximate(means=[0.3, 0.5, 0.7], noise=fb.Gaussian(0.3), spread=fb.Gaussian(0.1))
ROBUST = fb.Fed2Ucb(
    pulls=20, admissions=10, radius=fb.CertifiedRadius(delta=0.05), estimator=MedianOfMeans()
)


@pytest.mark.parametrize("fidelity", ["clients", "pulls"])
def test_it_plays_where_every_client_is_seen(fidelity: str) -> None:
    run = fb.simulate(GAME, ROBUST, horizon=10**5, replications=8, fidelity=fidelity, workers=1)
    assert run.games.winner.tolist() == [2] * 8
    plain = fb.simulate(
        GAME, replace(ROBUST, estimator=None), horizon=10**5, replications=8, fidelity=fidelity
    )
    # Its intervals are wider, and so its games take longer.
    assert run.games.phases.sum() > plain.games.phases.sum()


def test_averages_over_cohorts_are_not_enough_for_it() -> None:
    with pytest.raises(InputError, match='"median-of-means" needs the mean of every client'):
        fb.simulate(GAME, ROBUST, horizon=10**5, replications=2, fidelity="cohorts")
    assert fb.simulate(GAME, ROBUST, horizon=10**5, replications=2).fidelity.value == "clients"


def test_a_server_uses_it_and_wild_clients_do_no_harm() -> None:
    told = fb.Beliefs(n_arms=2, horizon=None, noise=0.1, spread=0.05, population=25)
    algorithm = fb.Fed1Ucb(
        pulls=20, radius=fb.CertifiedRadius(delta=0.05), estimator=MedianOfMeans(blocks=5)
    )

    def pull_of(client: int) -> Pull:
        wild = client == 0
        return lambda arm, n: [1e6 * (arm == 0) if wild else 0.2 + 0.5 * arm] * n

    clients = [Client(str(m), pull_of(m)) for m in range(25)]
    last = play(Server(algorithm.rule(told)), lambda wanted: clients[:wanted])
    assert last is not None
    assert last.winner == 1


def test_a_trial_tries_it_in_one_process() -> None:
    trial = Trial(
        title="colours",
        arms=("red", "blue"),
        algorithm=fb.Fed1Ucb(
            pulls=40, radius=fb.CertifiedRadius(delta=0.05), estimator=MedianOfMeans()
        ),
        limits=(0.0, 1.0),
        population=30,
    )

    def pull(arm: str, n: int, client: ClientInfo) -> list[float]:
        rng = np.random.default_rng([client.number, len(arm)])
        return [float(u < (0.3 if arm == "red" else 0.7)) for u in rng.random(n)]

    server = try_trial(trial, pull, 30)
    assert server.decision is not None
    assert server.decision.winner == 1


def test_what_it_does_not_say_is_an_error_that_names_it() -> None:
    class Silent(Estimator):
        name = "silent"

    with pytest.raises(UnstatedError, match=r"define Silent.needs_each_client"):
        assert Silent().needs_each_client
    with pytest.raises(UnstatedError, match=r"define Silent.estimate"):
        Silent().estimate(Reports.planned([1]), Sampling(noise=1.0, spread=1.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Median(Estimator):
    """The median of the means of clients, of those that have one or of all."""

    name: ClassVar[str] = "median"
    needs_each_client: ClassVar[bool] = True
    careful: bool = True

    def estimate(self, reports: Reports, sampling: Sampling) -> Estimate:
        middle = np.nanmedian if self.careful else np.median
        plain = Plain().estimate(reports, sampling)
        return replace(plain, values=middle(reports.each_mean(), axis=-1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Growing(PhasedRule):
    """Lets more clients in for as long as the best two arms are close: rows differ in clients."""

    def plan(self, state: State) -> PhasePlan:
        planned = PhasedRule.plan(self, state)
        if state.estimate is None:
            return planned
        values = np.sort(state.estimate.values, axis=-1)
        close = values[..., -1] - values[..., -2] < 0.1
        return replace(planned, newcomers=np.where(close, 30, 0))


@dataclass(frozen=True, kw_only=True)
class Grow(Algorithm):
    name: ClassVar[str] = "grow"
    estimator: Estimator

    def rule(self, beliefs: fb.Beliefs) -> Growing:
        radius = fb.CertifiedRadius(delta=0.05)
        fed2 = fb.Fed2Ucb(pulls=20, admissions=10, radius=radius, estimator=self.estimator)
        made = fed2.rule(beliefs)
        return Growing(**{field.name: getattr(made, field.name) for field in fields(made)})


CLOSE = fb.Approximate(means=[0.5, 0.6], noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.1))


def test_clients_that_are_not_there_are_no_clients_with_a_mean_of_zero() -> None:
    def played(seed: int, replications: int) -> tuple[int, int, float]:
        found = fb.simulate(
            CLOSE,
            Grow(estimator=Median()),
            horizon=2000,
            replications=replications,
            seed=seed,
            fidelity="clients",
            workers=1,
        ).games
        return int(found.phases[0]), int(found.clients[0]), float(found.exploration[0])

    # Alone it has no more room than clients; among others it has that of those with the most.
    for seed in range(8):
        assert played(seed, 1) == played(seed, 40)


def test_an_estimator_that_takes_clients_that_are_not_there_for_clients_is_refused() -> None:
    with pytest.raises(InputError, match=r'"median" gives NaN .* numpy\.nanmedian'):
        fb.simulate(
            CLOSE,
            Grow(estimator=Median(careful=False)),
            horizon=2000,
            replications=50,
            fidelity="clients",
            workers=1,
        )


def test_a_client_without_pulls_has_no_mean_and_an_arm_without_any_has_zeros() -> None:
    seen = Reports(
        counts=np.array([[10, 10, 0], [0, 0, 0]]),
        means=np.array([[0.2, 0.4, 0.0], [0.0, 0.0, 0.0]]),
        active=np.array([True, True]),
    )
    assert np.isnan(seen.each_mean()).tolist() == [[False, False, True], [False] * 3]
    assert np.nanmedian(seen.each_mean(), axis=-1).tolist() == pytest.approx([0.3, 0.0])
    assert seen.each_mean(absent=0.0) is seen.means


PROTECTED = fb.Privacy(range=(0, 1), noise="gaussian", epsilon=0.3, delta=1e-6)
GIVEN = fb.Exact(local_means=[[0.5, 0.55]] * 5, noise=fb.Bernoulli())


def play_protected(estimator: Estimator) -> Any:
    algorithm = fb.Fed1Ucb(pulls=50, radius=fb.CertifiedRadius(delta=0.05), estimator=estimator)
    return fb.simulate(
        GIVEN, algorithm, horizon=10**4, replications=1, privacy=PROTECTED, workers=1, warn=False
    )


def test_protected_means_are_for_estimators_that_say_that_they_take_them() -> None:
    class Unable(Median):
        takes_protected = False

    class Able(Median):
        takes_protected = True

    class Noisier(Plain):
        def estimate(self, reports: Reports, sampling: Sampling) -> Estimate:
            return replace(Plain.estimate(self, reports, sampling), distortion=UNDISTORTED)

    with pytest.raises(UnstatedError, match=r"define Median\.takes_protected"):
        play_protected(Median())
    # What the plain average says is not about what replaces it.
    with pytest.raises(UnstatedError, match=r"define Noisier\.takes_protected"):
        play_protected(Noisier())
    with pytest.raises(InputError, match=r'privacy\.estimator: "median" does not allow for'):
        play_protected(Unable())
    assert play_protected(Able()).games.winner.size == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Trimmed(Plain):
    """As if the plain average were proven to stand some clients that lie."""

    proven: ClassVar[bool] = True
    liars: int = 3

    def conditions(self, context: ProofContext) -> tuple[Condition, ...]:
        whom = "the clients" if context.everyone else "40 clients"
        return (Condition("few liars", f"at most {self.liars} of {whom} lie"),)


def test_an_estimator_adds_conditions_of_its_own_to_what_is_promised() -> None:
    told = fb.Beliefs(n_arms=2, horizon=None, noise=0.3, spread=0.1)
    rule = fb.Fed2Ucb(
        pulls=10, admissions=2, radius=fb.CertifiedRadius(delta=0.05), estimator=Trimmed()
    ).rule(told)
    for found in (rule.guarantee(), rule.interval_guarantee(0.05)):
        assert found.error == 0.05
        assert "at most 3 of 40 clients lie" in found.words()
        assert found.condition("few liars") is not None
        late = found.broken("few liars", "4 clients lied")
        assert (late.error, late.breaches) == (None, ("4 clients lied",))
    assert rule.guarantee().without("few liars").condition("few liars") is None
    # While clients are unheard it is needed as well.
    assert "few liars" in {one.kind for one in rule.part_conditions() or ()}


def test_an_estimator_that_drops_a_condition_is_not_proven() -> None:
    class Careless(Trimmed):
        def conditions(self, context: ProofContext) -> tuple[Condition, ...]:
            return ()

    assert not Careless().proven
