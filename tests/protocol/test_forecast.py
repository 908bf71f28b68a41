"""What a run will probably still cost is what it costs, if everything stays as it is."""

from __future__ import annotations

from typing import Any

import pytest

from fedbandits.federation.local import server_of
from fedbandits.federation.trial import read_trial
from fedbandits.protocol import Server, Update
from fedbandits.protocol.forecast import MOST_PHASES, Forecast, forecast

TABLES: dict[str, Any] = {
    "title": "colours",
    "arms": ["red", "green", "blue"],
    "pulls": "20",
    "admissions": "2",
    "range": [0, 1],
    "radius": {"rule": "certified", "delta": 0.05},
    "assume": {"noise": 0.5, "spread": 0.02},
    "horizon": 100_000,
}
MEANS = (0.3, 0.62, 0.7)

CASES: dict[str, dict[str, Any]] = {
    "certified": {},
    "growing": {"admissions": "2^p", "pulls": "10 * p"},
    "a fixed crowd": {"population": 6, "admissions": "6"},
    "paper": {"radius": {"rule": "paper"}},
    "liars": {"liars": 0.1, "admissions": "20"},
}


def played(server: Server) -> None:
    """Play a phase in which every client observes exactly the true means."""
    first = len(server.clients)
    assignment = server.open([f"client-{first + k}" for k in range(server.wanted())])
    answer(server, assignment.phase)


def answer(server: Server, phase: int) -> None:
    assignment = server.assignment
    assert assignment is not None
    for client in server.missing:
        means = tuple(m if n else 0.0 for m, n in zip(MEANS, assignment.pulls, strict=True))
        sent = Update(
            header=server.header,
            phase=phase,
            client=client,
            counts=assignment.pulls,
            means=means,
        )
        assert server.receive(sent) is None
    server.close()


def pulls_of(server: Server) -> int:
    return int(server.run_state.counted.counts.sum())


@pytest.mark.parametrize("name", CASES)
def test_it_is_what_happens_if_nothing_changes(name: str) -> None:
    server = server_of(read_trial(TABLES | CASES[name]))
    played(server)
    found = forecast(server.run_state)
    assert isinstance(found, Forecast)
    assert found.phases >= 1
    before = server.phase, len(server.clients), pulls_of(server)
    reports = 0
    while not server.finished and server.phase < before[0] + MOST_PHASES:
        played(server)
        reports += len(server.clients)
    assert found.phases == server.phase - before[0]
    assert found.clients == len(server.clients) - before[1]
    assert found.pulls == pulls_of(server) - before[2]
    assert found.reports == reports
    assert found.settled == (server.decision is not None and server.decision.winner == 2)
    assert found.left == server.left


def test_updates_of_the_open_phase_do_not_change_it() -> None:
    server = server_of(read_trial(TABLES))
    played(server)
    between = forecast(server.run_state)
    server.open([f"new-{k}" for k in range(server.wanted())])
    opened = forecast(server.run_state)
    assert isinstance(between, Forecast)
    assert isinstance(opened, Forecast)
    # The open phase is no longer among those to come.
    assert opened.phases == between.phases - 1
    assert opened.reports == between.reports - len(server.clients)
    assignment = server.assignment
    assert assignment is not None
    sent = Update(
        header=server.header,
        phase=assignment.phase,
        client=server.missing[0],
        counts=assignment.pulls,
        means=(0.7, 0.2, 0.1),
    )
    assert server.receive(sent) is None
    assert forecast(server.run_state) == opened


def test_no_more_clients_join_than_there_are() -> None:
    server = server_of(read_trial(TABLES))
    played(server)
    found = forecast(server.run_state, clients=3)
    assert isinstance(found, Forecast)
    assert found.clients == 1
    assert found.phases > 1


def test_it_says_why_it_says_nothing() -> None:
    server = server_of(read_trial(TABLES))
    assert forecast(server.run_state) == (
        "What it will still cost is not known before a phase is decided."
    )
    played(server)
    server.stop(words="enough")
    assert forecast(server.run_state) == "The run is over, and costs nothing more."


def test_a_tie_has_no_end_in_sight_and_takes_no_time() -> None:
    changes = {"assume": {"noise": 0.5, "spread": 3.0}, "admissions": "1"}
    server = server_of(read_trial(TABLES | changes | {"max_phases": 10**6}))
    played(server)
    found = forecast(server.run_state)
    assert isinstance(found, Forecast)
    assert not found.settled
    assert "no answer by these estimates" in found.words()
