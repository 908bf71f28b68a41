"""Simulated games whose means are protected are what the machines do."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.errors import InputError
from fedbandits.privacy.packing import payload_bits
from fedbandits.privacy.policy import Privacy
from fedbandits.privacy.sampling import seeded_noise
from fedbandits.problems import Problem
from fedbandits.problems.clipping import clipping
from fedbandits.protocol import (
    Client,
    Reason,
    Server,
)
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.beliefs import Beliefs
from fedbandits.simulation.streams import Purpose, Streams
from games import APPROXIMATE
from protection import (
    BERNOULLI,
    FALLING,
    GAME,
    GAUSSIAN,
    LAPLACE,
    NEAREST,
    RADIUS,
    SEED,
    STOCHASTIC,
    STRICT,
    THREE_BITS,
    USER,
    policy,
)

# Some of the clients may lie, though none does.
LIED_TO = replace(GAME, liars=0.1)

# Simulation --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("game", "privacy"),
    [
        *((GAME, how) for how in (None, NEAREST, STOCHASTIC, RADIUS, GAUSSIAN, LAPLACE, USER)),
        *((LIED_TO, how) for how in (None, NEAREST, STOCHASTIC, GAUSSIAN)),
    ],
)
def test_fidelity_pulls_is_what_the_machines_do(game: fb.Fed2Ucb, privacy: Privacy | None) -> None:
    """Drive the machines by hand, without the loopback."""
    run = fb.simulate(
        BERNOULLI,
        game,
        horizon=5000,
        privacy=privacy,
        fidelity="pulls",
        replications=3,
        seed=SEED,
        workers=1,
    )
    beliefs = Beliefs(
        n_arms=2, horizon=5000, noise=BERNOULLI.noise_proxy, spread=BERNOULLI.spread_proxy
    )
    streams = Streams(SEED, BERNOULLI.name)
    for replication in range(3):
        server = Server(game.rule(beliefs), run=f"replication {replication}", privacy=privacy)
        clients: list[Client] = []
        while not server.finished:
            new = [
                _simulated(streams, replication, len(clients) + i, privacy)
                for i in range(server.wanted())
            ]
            clients.extend(new)
            assignment = server.open([client.name for client in new])
            if server.finished:
                break
            assert [server.receive(client.play(assignment)) for client in clients] == [None] * len(
                clients
            )
            server.close()
        decision = server.decision
        assert decision is not None
        outcome = run.games
        assert outcome.winner[replication] == (-1 if decision.winner is None else decision.winner)
        assert outcome.phases[replication] == decision.phase
        assert outcome.clients[replication] == len(clients)
        assert outcome.uplink_bits[replication] == sum(server.uplink_bits.values())
        assert outcome.clipped[replication] == sum(client.clipped for client in clients) == 0
        assert outcome.spent[replication] == (decision.reason is Reason.BUDGET)


def _simulated(streams: Streams, replication: int, number: int, privacy: Privacy | None) -> Client:
    """Return a client with the streams that the simulator gives it."""
    rng = streams.open(Purpose.CLIENT, replication=replication, arm=number)
    releases = streams.open(Purpose.CLIENT_RELEASES, replication=replication, arm=number)
    means = BERNOULLI.sampler(lambda _: rng).draw(1).means[:, 0].tolist()

    def pull(arm: int, n: int) -> FloatArray:
        return BERNOULLI.noise.observe(BERNOULLI.noise.variates(rng, n), means[arm], None)

    return Client(str(number), pull, privacy=privacy, noise=seeded_noise(releases), rng=releases)


@pytest.mark.parametrize("privacy", [None, THREE_BITS, NEAREST, GAUSSIAN, USER])
def test_both_fidelities_count_the_same_bits(privacy: Privacy | None) -> None:
    """Of two arms both are sent in every phase up to the decision."""
    bits = 64 if privacy is None or privacy.quantize is None else privacy.quantize.bits
    assert isinstance(bits, int)
    for fidelity in ("clients", "pulls"):
        run = fb.simulate(
            BERNOULLI,
            GAME,
            horizon=5000,
            privacy=privacy,
            fidelity=fidelity,
            replications=6,
            seed=SEED,
            workers=1,
        )
        assert run.fidelity.value == fidelity
        phases = run.games.phases
        assert phases.min() >= 1
        # p new clients in phase p: p (p + 1) / 2 report in it.
        reports = [sum(p * (p + 1) // 2 for p in range(1, last + 1)) for last in phases.tolist()]
        assert run.games.uplink_bits.tolist() == [n * payload_bits(2, bits) for n in reports]


def test_bits_by_the_radius_are_the_same_in_both_fidelities() -> None:
    """They are known before anything is observed."""
    runs = [
        fb.simulate(
            fb.Approximate(means=[0.5, 0.5], noise=fb.Bernoulli(), spread=fb.Beta(0.05)),
            GAME,
            horizon=5000,
            privacy=RADIUS,
            fidelity=fidelity,
            replications=3,
            seed=SEED,
            workers=1,
            max_phases=4,
        )
        for fidelity in ("clients", "pulls")
    ]
    assert [run.games.phases.tolist() for run in runs] == [[4, 4, 4]] * 2
    assert runs[0].games.uplink_bits.tolist() == runs[1].games.uplink_bits.tolist()


@pytest.mark.parametrize(
    ("privacy", "phases"),
    [(STRICT, 2), (USER, 3), (policy(scale=4.0, level="user", releases=3), 3)],
)
def test_a_budget_ends_the_game_in_the_same_phase_in_both_fidelities(
    privacy: Privacy, phases: int
) -> None:
    game = fb.Fed2Ucb(pulls=FALLING, admissions=2, radius=fb.PaperRadius(arm=1e4))
    runs = [
        fb.simulate(
            BERNOULLI,
            game,
            horizon=10**4,
            privacy=privacy,
            fidelity=fidelity,
            replications=3,
            seed=SEED,
            workers=1,
        )
        for fidelity in ("clients", "pulls")
    ]
    for run in runs:
        assert run.games.spent.tolist() == [True] * 3
        assert run.games.phases.tolist() == [phases] * 3
        assert run.games.winner.tolist() == [-1] * 3
    assert runs[0].games.uplink_bits.tolist() == runs[1].games.uplink_bits.tolist()


WIDE = fb.Approximate(means=[0.5, 0.9], noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.05))


@pytest.mark.parametrize("privacy", [STOCHASTIC, GAUSSIAN])
def test_clipped_observations_are_counted(privacy: Privacy) -> None:
    for fidelity in ("cohorts", "clients"):
        with pytest.raises(InputError, match=r"clipped to \[0, 1\], one by one \(valid: pulls\)"):
            fb.simulate(WIDE, GAME, horizon=10**4, privacy=privacy, fidelity=fidelity)
    replications = 60
    run = fb.simulate(
        WIDE,
        fb.Fed2Ucb(pulls=50, admissions="max(0, 16 - 8*p)", radius=fb.PaperRadius(arm=1e4)),
        horizon=10**4,
        privacy=privacy,
        max_phases=2,
        replications=replications,
        seed=SEED,
        workers=1,
    )
    assert run.fidelity.value == "pulls"
    assert run.games.phases.tolist() == [2] * replications
    share = run.games.clipped / (2 * 8 * 50 * 2)  # phases, clients, pulls, arms
    expected = clipping(WIDE, 0.0, 1.0).shares.mean()
    error = share.std(ddof=1) / math.sqrt(replications)
    assert abs(share.mean() - expected) < 5 * error
    assert error < 0.01  # an error of a tenth of the share would be seen


def test_nothing_is_clipped_where_everything_is_inside() -> None:
    assert clipping(BERNOULLI, 0.0, 1.0).negligible
    assert clipping(BERNOULLI, -1.0, 2.0).shares.tolist() == [0.0, 0.0]
    assert clipping(BERNOULLI, 0.0, 1.0).means == pytest.approx(BERNOULLI.means, abs=0.002)


CLIPPED: dict[str, tuple[Problem, float, float]] = {
    "gaussian": (WIDE, 0.0, 1.0),
    "gaussian, one side": (WIDE, -10.0, 0.8),
    "gaussian with an offset": (
        fb.Approximate(
            means=[0.5, 0.9], noise=fb.Gaussian(0.3), spread=fb.Gaussian(0.2), offset=0.4
        ),
        0.0,
        1.0,
    ),
    "gaussian noise, beta spread": (
        fb.Approximate(means=[0.5, 0.9], noise=fb.Gaussian(0.3), spread=fb.Beta(0.1)),
        0.0,
        1.0,
    ),
    "figure 4": (APPROXIMATE, 0.0, 1.0),
    "bernoulli, beta spread": (
        fb.Approximate(means=[0.4, 0.8], noise=fb.Bernoulli(), spread=fb.Beta(0.1)),
        0.2,
        0.7,
    ),
    "uniform": (
        fb.Approximate(means=[0.5, 0.9, 2.0], noise=fb.Uniform(0.3), spread=fb.Uniform(0.1)),
        0.2,
        1.0,
    ),
    "uniform, wider than the range": (
        fb.Approximate(means=[0.5, 0.9], noise=fb.Uniform(1.0), spread=fb.Gaussian(0.1)),
        0.2,
        1.0,
    ),
    "no noise": (
        fb.Approximate(means=[0.5, 0.9], noise=fb.Gaussian(0.0), spread=fb.Uniform(0.2)),
        0.4,
        1.0,
    ),
    "given clients": (
        fb.Exact(local_means=[[0.2, 0.9], [0.7, 0.4], [1.4, -0.3]], noise=fb.Gaussian(0.2)),
        0.0,
        1.0,
    ),
    "given clients with weights": (
        fb.Exact(
            local_means=[[0.2, 0.9], [0.7, 0.4], [1.4, -0.3]],
            noise=fb.Uniform(0.2),
            weights=[1.0, 2.0, 5.0],
        ),
        0.0,
        1.0,
    ),
    "empirical": (
        fb.Exact.from_observations([[[0.1, 0.5, 2.0], [0.3, -1.0]], [[0.9], [0.2, 0.4, 0.6, 7.0]]]),
        0.0,
        1.0,
    ),
}


@pytest.mark.parametrize("name", CLIPPED)
def test_what_clipping_does_agrees_with_drawn_observations(name: str) -> None:
    problem, low, high = CLIPPED[name]
    found = clipping(problem, low, high)
    outside, inside, error_of = _drawn(problem, low, high)
    for values, said in ((outside, found.shares), (inside, found.means)):
        mean, error = error_of(values)
        assert (np.abs(mean - said) <= 5 * error + 1e-12).all()
        assert error.max() < 0.02
    assert not found.negligible


def _drawn(
    problem: Problem, low: float, high: float
) -> tuple[FloatArray, FloatArray, Callable[[FloatArray], tuple[FloatArray, FloatArray]]]:
    """Draw observations; return which are outside, what is left, and how they are averaged.

    The average over the population that `clipping` takes has an error of its own, of 20,000
    clients at most.
    """
    clients, each = (problem.population, 20_000) if problem.population else (100_000, 1)
    rng = np.random.default_rng(SEED)
    drawn = problem.sampler(lambda _: rng).draw(clients)
    means = np.repeat(drawn.means, each, axis=1)
    cells = None if drawn.cells is None else np.repeat(drawn.cells, each, axis=1)
    observed = problem.noise.observe(problem.noise.variates(rng, means.shape), means, cells)
    left = np.clip(observed, low, high)
    weights = np.full(clients, 1.0 / clients)
    if isinstance(problem, fb.Exact) and problem.shares is not None and drawn.rows is not None:
        weights = problem.shares[drawn.rows] / problem.shares[drawn.rows].sum()

    def averaged(values: FloatArray) -> tuple[FloatArray, FloatArray]:
        by_client = values.reshape(values.shape[0], clients, each)
        if each == 1:
            spread = by_client.std(axis=(1, 2))
            return by_client.mean(axis=(1, 2)), spread * math.sqrt(1 / clients + 1 / 20_000)
        variance = by_client.var(axis=2) / each
        return by_client.mean(axis=2) @ weights, np.sqrt(variance @ weights**2)

    return (left != observed).astype(np.float64), left, averaged


def test_clipping_shrinks_the_gap_of_figure_4() -> None:
    means = np.sort(clipping(APPROXIMATE, 0.0, 1.0).means)
    assert fb.gap(APPROXIMATE) == pytest.approx(0.020)
    assert means[-1] - means[-2] == pytest.approx(0.012, abs=0.0005)
