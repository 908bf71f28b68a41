"""An estimator of one's own, without any change in the package: a median of means."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.errors import InputError, UnstatedError
from fedbandits.federation.host import ClientInfo
from fedbandits.federation.local import try_trial
from fedbandits.federation.trial import Trial
from fedbandits.loopback import play
from fedbandits.protocol import Client, Pull, Server
from fedbandits.rules.estimates import Estimate
from fedbandits.rules.estimators import Estimator, Plain
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
    assert run.outcome.winner.tolist() == [2] * 8
    plain = fb.simulate(
        GAME, replace(ROBUST, estimator=None), horizon=10**5, replications=8, fidelity=fidelity
    )
    # Its intervals are wider, and so its games take longer.
    assert run.outcome.phases.sum() > plain.outcome.phases.sum()


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
