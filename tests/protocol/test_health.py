"""What a run watches about itself breaks the promises that rest on it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.privacy.mechanisms import Noised
from fedbandits.privacy.policy import Privacy
from fedbandits.protocol import Assignment, Client, Release, Server
from fedbandits.protocol.answer import answer_of
from fedbandits.protocol.health import Drift, drift, segments
from fedbandits.protocol.state import RunState
from fedbandits.rules.guarantees import Assumption, Status
from small_server import HEADER, steady, update

SIGMA, CLIENTS = 0.2, ("a", "b", "c", "d[1]")


def played(phases: list[tuple[float, float]], noise: float | None = SIGMA, **keys: Any) -> Server:
    """Return a server after phases in which the options had these means, alike at every client."""
    certified = fb.CertifiedRadius(delta=0.05)
    algorithm = fb.Fed1Ucb(**{"pulls": 100, "clients": 4, "radius": certified, **keys})
    spread = None if noise is None else 0.1
    told = fb.Beliefs(n_arms=2, horizon=None, noise=noise, spread=spread, population=4)
    server = Server(algorithm.rule(told), arms=["red", "blue"])
    for number, means in enumerate(phases, 1):
        server.open(CLIENTS if number == 1 else [])
        assert server.assignment is not None
        for client in CLIENTS:
            said = update(
                header=server.header, phase=number, client=client, counts=(100, 100), means=means
            )
            assert server.receive(said) is None
        server.close()
    return server


def test_an_option_that_changes_breaks_the_promise() -> None:
    steady = [(0.50, 0.52)] * 3
    server = played(steady)
    watched = drift(server.run_state)
    assert isinstance(watched, Drift)
    assert not watched.suspicious
    assert server.run_state.guarantee.error == 0.05

    server = played([*steady, (0.50, 0.52 - 0.11)])
    watched = drift(server.run_state)
    assert isinstance(watched, Drift)
    assert [one.arm for one in watched.suspicious] == ["blue"]
    assert watched.suspicious[0].by < 0
    broken = server.run_state.guarantee.condition(Assumption.NO_DRIFT)
    assert broken is not None
    assert broken.status is Status.BROKEN
    assert "blue seems to have changed by -" in broken.why
    assert server.run_state.guarantee.error is None
    answer = answer_of(server)
    assert answer is not None
    assert "blue seems to have changed" in answer.words()
    # It stays broken, whatever comes.
    back = played([*steady, (0.50, 0.52 - 0.11), *[(0.50, 0.52)] * 5])
    assert back.run_state.guarantee.error is None


@pytest.mark.parametrize("by", [0.076, 0.077, 0.079, 0.08])
def test_a_promise_is_withdrawn_by_the_limit_that_is_shown(by: float) -> None:
    """The limit of the phase before would withdraw it for changes of 0.077 and 0.079."""
    state = played([*[(0.50, 0.52)] * 3, (0.50, 0.52 - by)]).run_state
    watched = drift(state)
    assert isinstance(watched, Drift)
    assert bool(watched.suspicious) == (state.guarantee.error is None) == (by > 0.079)


def test_a_promise_that_rests_on_a_range_is_not_withdrawn_for_a_noise_that_was_told() -> None:
    bernstein = fb.BernsteinRadius(delta=0.05)
    state = played([(0.5, 0.52), (0.5, 0.6)], noise=0.05, radius=bernstein).run_state
    assert state.guarantee.error == 0.05
    state = played([(0.5, 0.52), (0.5, 0.9)], noise=0.05, radius=bernstein).run_state
    assert state.guarantee.error is None


def test_after_a_withdrawal_limits_are_wider() -> None:
    """In which phases an option was tried that came back depends on what was observed."""
    state = played([(0.50, 0.52)] * 3).run_state
    watched, after = drift(state), drift(replace(state, comebacks=4))
    assert isinstance(watched, Drift)
    assert isinstance(after, Drift)
    assert watched.changes[0].unusual < after.changes[0].unusual
    near = segments(state, {"north": ["a"]})
    wide = segments(replace(state, comebacks=4), {"north": ["a"]})
    assert not isinstance(near, str)
    assert not isinstance(wide, str)
    assert wide[0].intervals["red"][0] < near[0].intervals["red"][0]


def test_what_was_seen_of_a_change_survives_a_checkpoint() -> None:
    state = played([(0.50, 0.52), (0.51, 0.50)]).run_state
    again = RunState.restored(state.kept(), state.terms)
    assert np.array_equal(again.trend.score, state.trend.score)
    assert drift(again) == drift(state)


def test_what_cannot_be_watched_says_why() -> None:
    assert drift(played([(0.5, 0.52)], liars=1).run_state) == (
        "a client that lies could pretend anything"
    )
    untold = played([(0.5, 0.52)], noise=None, radius=fb.PairedTRadius(delta=0.05, min_clients=2))
    assert drift(untold.run_state) == "it is not told how large the noise is"
    told = fb.Beliefs(n_arms=2, horizon=None, noise=SIGMA, spread=0.1)
    rule = fb.Fed2Ucb(pulls=100, admissions=4, radius=fb.CertifiedRadius(delta=0.05)).rule(told)
    private = Privacy(range=(0.0, 1.0), noise="laplace", scale=0.1)
    server = Server(rule, privacy=private, arms=["red", "blue"])
    assert drift(server.run_state) == "means have Laplace noise"


def test_segments_are_about_their_clients_alone() -> None:
    server = played([(0.50, 0.52)] * 2)
    found = segments(server.run_state, {"north": ["a", "b*"], "south": ["z"]})
    assert not isinstance(found, str)
    assert [(one.name, one.clients) for one in found] == [
        ("north", 2),
        ("south", 0),
        ("other clients", 2),
    ]
    # A name is itself, also if it could be read as a pattern.
    named = segments(server.run_state, {"last": ["d[1]"]})
    assert not isinstance(named, str)
    assert [one.clients for one in named] == [1, 3]
    low, high = found[0].intervals["red"]
    assert low < found[0].means["red"] == 0.5 < high
    assert found[1].intervals["red"] == (-math.inf, math.inf)
    assert "lies" in segments(played([(0.5, 0.52)], liars=1).run_state, {"north": ["a"]})


def test_lost_outcomes_break_the_promise_and_name_the_client() -> None:
    told = fb.Beliefs(n_arms=2, horizon=None, noise=SIGMA, spread=0.1, population=2)
    certified = fb.CertifiedRadius(delta=0.05)
    server = Server(fb.Fed1Ucb(pulls=100, clients=2, radius=certified).rule(told))
    server.open(["a", "b"])
    for client, uneven in (("a", ()), ("b", (1,))):
        said = update(
            header=server.header, client=client, counts=(100, 100), means=(0.5, 0.5), uneven=uneven
        )
        assert server.receive(said) is None
    found = server.run_state.guarantee
    assert found.error is None
    assert any("b lost the outcomes of some options" in why for why in found.breaches)
    wrong = update(
        header=server.header, client="a", counts=(100, 100), means=(0.5, 0.5), uneven=(9,)
    )
    assert server.receive(wrong) is not None


def test_what_is_lost_stays_with_a_client_that_adds_noise() -> None:
    noised = Release(mechanism=Noised(low=0.0, high=1.0, kind="gaussian", scale=0.1))
    for release, told in ((Release(), (1,)), (noised, ())):
        client = Client("a", steady(0.5, 0.5, 0.5), uneven=lambda: (1,))
        asked = Assignment(header=HEADER, phase=1, pulls=(20, 20, 20), release=release)
        assert client.play(asked).uneven == told
