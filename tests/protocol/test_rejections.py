"""Updates that do not count: rejected, logged, and without effect."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from fedbandits.privacy.policy import Privacy, Quantize
from fedbandits.privacy.sampling import seeded_noise
from fedbandits.protocol import (
    Client,
    Header,
    Rejection,
    Release,
    Server,
    ServerState,
    UpdateRejected,
)
from fedbandits.protocol.tally import means_of
from fedbandits.rules.algorithms import Fed1Ucb, Fed2Ucb
from fedbandits.rules.beliefs import Beliefs
from fedbandits.rules.radii import BernsteinRadius, ChernoffRadius
from small_server import (
    HEADER,
    collecting,
    fed1,
    records_of,
    server_in,
    steady,
    two_arm_rule,
    update,
)

# Rejections --------------------------------------------------------------------------------------

REJECTED: list[tuple[str, dict[str, Any], Rejection]] = [
    ("run", {"header": dataclasses.replace(HEADER, run="another")}, Rejection.HEADER),
    ("epoch", {"header": dataclasses.replace(HEADER, epoch=2)}, Rejection.HEADER),
    ("arms", {"header": dataclasses.replace(HEADER, arms="0" * 16)}, Rejection.HEADER),
    ("version", {"header": dataclasses.replace(HEADER, version=99)}, Rejection.HEADER),
    ("unknown client", {"client": "c"}, Rejection.CLIENT),
    ("nameless client", {"client": ""}, Rejection.CLIENT),
    ("phase to come", {"phase": 2}, Rejection.PHASE),
    ("phase before", {"phase": 0}, Rejection.PHASE),
    ("too few means", {"means": (0.5, 0.25)}, Rejection.SHAPE),
    ("too many means", {"means": (0.5, 0.25, 0.75, 0.1)}, Rejection.SHAPE),
    ("no means", {"means": ()}, Rejection.SHAPE),
    ("squares unasked", {"squares": (0.25, 0.1, 0.6)}, Rejection.SHAPE),
    ("too few pulls", {"counts": (10, 10, 9)}, Rejection.COUNTS),
    ("too many pulls", {"counts": (10, 10, 11)}, Rejection.COUNTS),
    ("negative pulls", {"counts": (10, 10, -10)}, Rejection.COUNTS),
    ("pulls of too many arms", {"counts": (10, 10, 10, 0)}, Rejection.COUNTS),
    ("NaN", {"means": (0.5, math.nan, 0.75)}, Rejection.NOT_FINITE),
    ("infinity", {"means": (math.inf, 0.25, 0.75)}, Rejection.NOT_FINITE),
    ("minus infinity", {"means": (0.5, 0.25, -math.inf)}, Rejection.NOT_FINITE),
    ("beyond floating point", {"means": (0.5, 0.25, 10**400)}, Rejection.NOT_FINITE),
    ("a word", {"means": (0.5, 0.25, "high")}, Rejection.FORM),
    ("means in a list", {"means": [0.5, 0.25, 0.75]}, Rejection.FORM),
    ("means missing", {"means": None}, Rejection.FORM),
    ("squares in a list", {"squares": []}, Rejection.FORM),
    ("pulls missing", {"counts": None}, Rejection.FORM),
    ("a client of no name", {"client": ["a"]}, Rejection.FORM),
]


@pytest.mark.parametrize(
    ("changes", "why"), [row[1:] for row in REJECTED], ids=[r[0] for r in REJECTED]
)
def test_an_update_that_does_not_count_is_rejected_logged_and_without_effect(
    changes: dict[str, Any], why: Rejection
) -> None:
    server, untouched = collecting(), collecting()
    server.receive(update(client="b"))
    untouched.receive(update(client="b"))
    records, before = records_of(server), server.snapshot()
    bad = update(**changes)
    assert server.receive(bad) is why
    assert server.snapshot() == before
    # Nothing of a message without form is taken into the log.
    formed = why is not Rejection.FORM
    rejected = UpdateRejected(
        client=bad.client if formed else "", phase=bad.phase if formed else 0, rejection=why
    )
    assert records_of(server) == [*records, rejected]
    for each in (server, untouched):
        assert each.receive(update()) is None
    assert server.close() == untouched.close()


def test_a_second_update_of_a_client_is_a_duplicate_even_if_it_differs() -> None:
    server, untouched = collecting(), collecting()
    assert server.receive(update()) is None
    assert untouched.receive(update()) is None
    before = server.snapshot()
    for again in (update(), update(means=(9.0, 9.0, 9.0))):
        assert server.receive(again) is Rejection.DUPLICATE
        assert server.snapshot() == before
        assert records_of(server)[-1] == UpdateRejected(
            client="a", phase=1, rejection=Rejection.DUPLICATE
        )
    for each in (server, untouched):
        each.receive(update(client="b"))
    assert server.close() == untouched.close()


def test_before_the_first_phase_every_client_is_unknown() -> None:
    server = Server(fed1())
    assert server.receive(update()) is Rejection.CLIENT
    assert server.state is ServerState.READY


def test_a_late_update_is_of_a_phase_that_is_not_open() -> None:
    server = server_in(ServerState.FINISHED)
    before = server.snapshot()
    assert server.receive(update()) is Rejection.PHASE
    assert server.snapshot() == before
    between = Server(fed1(noise=9.0))
    between.open(["a", "b"])
    for client in "ab":
        between.receive(update(client=client))
    between.close()
    assert between.state is ServerState.READY
    assert between.receive(update()) is Rejection.PHASE


def test_squares_that_were_asked_for_are_needed_and_must_be_finite() -> None:
    server = Server(fed1(), release=Release(squares=True))
    assert server.open(["a", "b"]).release.squares
    assert server.receive(update()) is Rejection.SHAPE
    assert server.receive(update(squares=(0.5, 0.5))) is Rejection.SHAPE
    assert server.receive(update(squares=(0.5, 0.5, math.inf))) is Rejection.NOT_FINITE
    assert server.receive(update(squares=(0.5, 0.5, -0.1))) is Rejection.NOT_FINITE
    assert server.receive(update(squares=(0.5, 0.5, 0.6))) is None


@pytest.mark.parametrize("radius", [ChernoffRadius, BernsteinRadius])
@pytest.mark.parametrize("goal", ["max", "min"])
def test_a_mean_that_disproves_the_range_of_a_rule_is_rejected(radius: Any, goal: Any) -> None:
    told = Beliefs(n_arms=3, horizon=1000, noise=0.1, spread=0.0, goal=goal)
    limits = (0.1, 0.3)
    rule = Fed1Ucb(pulls=10, clients=2, radius=radius(range=limits)).rule(told)
    server = Server(rule)
    server.open(["a", "b"])
    for wrong in (37.0, 0.31, 0.09, -0.2):
        assert server.receive(update(means=(0.2, wrong, 0.3))) is Rejection.RANGE
    # Ten times 0.3 over ten is more than 0.3 in the last digit.
    assert sum([0.1] * 3) > limits[1]
    assert server.receive(update(means=(0.1, 0.2, sum([0.1] * 3)))) is None


def test_an_arm_that_is_not_pulled_has_no_mean_to_be_in_the_range() -> None:
    told = Beliefs(n_arms=3, horizon=10**6, noise=0.1, spread=0.0)
    rule = Fed1Ucb(pulls=100, clients=1, radius=ChernoffRadius(range=(1, 2))).rule(told)
    server = Server(rule)
    client = Client("a", steady(1.1, 1.5, 1.6))
    assert server.receive(client.play(server.open(["a"]))) is None
    while server.close().active != (False, True, True):
        assert server.receive(client.play(server.open([]))) is None
    later = client.play(server.open([]))
    assert later.means[0] == 0.0
    assert server.receive(later) is None


@pytest.mark.parametrize(
    "protection",
    [{"quantize": Quantize(bits=2)}, {"noise": "gaussian", "rho": 0.1}],
    ids=["rounded", "noised"],
)
def test_protection_that_moves_means_out_of_the_range_is_no_lie(
    protection: dict[str, Any],
) -> None:
    told = Beliefs(n_arms=2, horizon=10**6, noise=0.1, spread=0.0)
    rule = Fed1Ucb(pulls=100, clients=20, radius=ChernoffRadius(range=(0, 1))).rule(told)
    server = Server(rule, privacy=Privacy(range=(-0.4, 1.4), **protection))
    rng = np.random.default_rng(8)
    clients = [
        Client(f"c{m}", steady(0.0, 1.0), noise=seeded_noise(rng), rng=rng) for m in range(20)
    ]
    assignment = server.open([client.name for client in clients])
    assert [server.receive(client.play(assignment)) for client in clients] == [None] * 20
    means = np.array(
        [means_of(report, server.run_state.mechanism) for _, report in server.run_state.reports]
    )
    assert ((means < 0) | (means > 1)).any()


ODD: dict[str, Any] = {"epoch": np.array([1, 2])}


@pytest.mark.parametrize(
    "changes",
    [
        {"means": ("0.5", "0.1", "0.2")},
        {"means": (Fraction(1, 2), 0.1, 0.2)},
        {"means": (True, 0.1, 0.2)},
        {"means": [0.5, 0.1, 0.2]},
        {"counts": (True, 10, 10)},
        {"counts": (np.array([10]), 10, 10)},
        {"phase": True},
        {"phase": np.array([1, 1])},
        {"client": ["a"]},
        {"clipped": -5},
        {"clipped": "x"},
        {"header": None},
        {"header": dataclasses.replace(Header(run="run", epoch=1, arms="x"), **ODD)},
    ],
    ids=str,
)
def test_an_update_of_the_wrong_types_is_rejected_and_blocks_nothing(
    changes: dict[str, Any],
) -> None:
    rule = Fed2Ucb(pulls=10, admissions=1).rule(
        Beliefs(n_arms=3, horizon=1000, noise=9.0, spread=0.0)
    )
    server = Server(rule)
    server.open(["a"])
    before = server.snapshot()
    assert server.receive(dataclasses.replace(update(), **changes)) is Rejection.FORM
    assert server.snapshot() == before
    assert server.receive(update()) is None
    server.close()


@pytest.mark.parametrize("message", [None, "x", {}, 3])
def test_what_is_no_update_at_all_is_rejected(message: Any) -> None:
    server = Server(two_arm_rule())
    assert server.receive(message) is Rejection.FORM
