"""Few clients decide nothing, and a client that is unlike the others is seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from fedbandits.cli.main import app
from fedbandits.errors import InputError
from fedbandits.federation.coordinator import Bulletin, Coordinator, Patience
from fedbandits.federation.durable_log import DurableLog
from fedbandits.federation.followed import LoggedRun
from fedbandits.federation.host import ClientHost, ClientInfo
from fedbandits.federation.local import LocalTransport, load_pull, server_of, try_trial
from fedbandits.federation.project import new_project
from fedbandits.federation.run import header_of
from fedbandits.federation.trial import load_trial, read_trial
from fedbandits.protocol import PhaseClosed, PhaseOpened, UpdateAccepted
from fedbandits.rules.guarantees import Guarantee
from fedbandits.rules.outliers import FEWEST, THRESHOLD, outliers
from fedbandits.run_page.page import run_html

TABLES: dict[str, Any] = {
    "title": "colours",
    "arms": ["red", "blue"],
    "pulls": "200",
    "admissions": "2^p",
    "radius": {"rule": "certified", "delta": 0.05},
    "assume": {"noise": 0.1, "spread": 0.01},
    "range": [0, 1],
}


def clearly_blue(arm: str, n: int, _client: ClientInfo) -> list[float]:
    return [0.9 if arm == "blue" else 0.1] * n


# A least number of clients ------------------------------------------------------------------------


def test_the_project_that_new_writes_does_not_decide_on_two_clients(tmp_path: Path) -> None:
    """Version 0.1.0 wrote a project with ``least = 1``, which decided on its first two clients."""
    new_project(tmp_path / "my_test")
    trial = load_trial(tmp_path / "my_test")
    least = trial.quorum.least
    assert least >= 4
    server = try_trial(trial, clearly_blue, 8)
    opened = next(iter(server.log))
    assert isinstance(opened, PhaseOpened)
    assert len(opened.admitted) == least
    heard = 0
    for record in server.log:
        heard += isinstance(record, UpdateAccepted)
        assert heard >= least or not isinstance(record, PhaseClosed)
    with pytest.raises(InputError, match=r"quorum\.least: 4, and there are 2 clients"):
        try_trial(trial, load_pull(tmp_path / "my_test"), 2)
    done = CliRunner().invoke(app, ["up", str(tmp_path / "my_test"), "--clients", "2"])
    assert isinstance(done.exception, InputError)
    assert "the first phase would never be opened" in str(done.exception)
    assert not list(tmp_path.glob("my_test/*.up.json"))


def test_the_first_phase_waits_for_the_least_number_and_says_why() -> None:
    trial = read_trial({**TABLES, "quorum": {"least": 6}})

    class Gathering(LocalTransport):
        """A client more whenever somebody waits."""

        def connected(self) -> list[str]:
            return super().connected()[: 2 + int(self.now)]

    hosts = [ClientHost(ClientInfo(name=f"c{n}"), clearly_blue, trial) for n in range(9)]
    transport, told, server = Gathering(hosts), [], server_of(trial)
    patience = Patience(resend=1.0)

    def watch(at: Bulletin) -> None:
        told.append(at.news)

    Coordinator(server, transport, clock=transport.clock, patience=patience, watch=watch).run()
    assert told[0] == (
        "waiting for clients: 2 of 6 are connected (fewer than 6 decide nothing: quorum.least)"
    )
    assert server.decision is not None
    assert server.arms[server.decision.best] == "blue"
    assert server.heard == len(server.clients) == 6


@pytest.mark.parametrize("algorithm", ["fed2-ucb", "fed-index"])
def test_rules_of_all_kinds_begin_with_the_least_number(algorithm: str) -> None:
    own = {"fed2-ucb": {}, "fed-index": {"commit": "certified", "horizon": 100_000}}[algorithm]
    tables = {**TABLES, "algorithm": algorithm, "quorum": {"least": 7}, "max_phases": 5, **own}
    if algorithm == "fed-index":
        for key in ("pulls", "admissions", "radius", "commit"):
            tables.pop(key, None)
    server = try_trial(read_trial(tables), clearly_blue, 20)
    opened = next(iter(server.log))
    assert isinstance(opened, PhaseOpened)
    assert len(opened.admitted) >= 7
    assert server.decision is not None
    assert server.arms[server.decision.best] == "blue"


def test_a_least_number_that_there_never_is_is_refused() -> None:
    with pytest.raises(InputError, match=r"quorum\.least: 9 is above the population, 8"):
        read_trial({**TABLES, "population": 8, "quorum": {"least": 9}})
    waits = read_trial({**TABLES, "patience": {"clients": 4}})
    with pytest.raises(InputError, match=r"patience\.clients: 4, and there are 2 clients"):
        try_trial(waits, clearly_blue, 2)


def test_more_clients_at_first_leave_the_error_and_take_the_regret_bound() -> None:
    """The error probability is proven of any number of clients, a regret bound of a schedule."""

    def proven(tables: dict[str, Any], least: int) -> Guarantee:
        return server_of(read_trial({**tables, "quorum": {"least": least}})).run_state.guarantee

    assert proven(TABLES, 2).error == proven(TABLES, 9).error == 0.05
    paper = {**TABLES, "radius": {"rule": "paper"}, "horizon": 10**6}
    assert proven(paper, 2).regret
    assert not proven(paper, 9).regret
    assert "the regret bounds are about the schedule" in proven(paper, 9).words()


# Who is unlike the others -------------------------------------------------------------------------


@given(
    values=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20),
    shift=st.floats(-1e3, 1e3),
    order=st.randoms(use_true_random=False),
)
@settings(deadline=None, derandomize=True, max_examples=100)
def test_outliers_depend_neither_on_order_nor_on_rows_beside(
    values: list[float], shift: float, order: Any
) -> None:
    row = np.array(values)
    known = np.ones(row.size, dtype=np.bool_)
    found = outliers(row, known)
    places = list(range(row.size))
    order.shuffle(places)
    assert outliers(row[places], known).tolist() == found[places].tolist()
    both = outliers(np.stack([row, row + shift]), np.stack([known, known]))
    assert both[0].tolist() == found.tolist()
    assert not found.any() or row.size >= FEWEST
    # Half of the values cannot all be far from the median of them.
    assert 2 * found.sum() <= row.size


def test_the_rule_for_outliers_is_the_one_that_is_stated() -> None:
    row = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 0.0])
    every = np.ones(6, dtype=np.bool_)
    for far, marked in ((THRESHOLD * 1.4826 * 1.5 - 0.01, False), (20.0, True)):
        row[5] = 2.5 + far
        assert outliers(row, every).tolist() == [False] * 5 + [marked]
    assert outliers(np.array([1.0, 1.0, 1.0, 1.0, 2.0]), every[:5]).tolist() == [False] * 4 + [True]
    assert not outliers(np.ones(6), every).any()
    unknown = np.array([True] * 5 + [False])
    assert not outliers(np.array([1.0, 1.1, 0.9, 1.0, 1.05, 99.0]), unknown).any()
    assert not outliers(np.array([1.0, 1.1, 0.9, 99.0]), every[:4]).any()


def test_status_and_report_mark_a_client_that_is_unlike_the_others(tmp_path: Path) -> None:
    tables = {**TABLES, "admissions": "8", "max_phases": 1}
    trial = read_trial(tables)
    path = tmp_path / "run.fedlog"

    def one_turned(arm: str, n: int, client: ClientInfo) -> list[float]:
        rate = {"red": 0.2, "blue": 0.6}[arm] + 0.01 * client.number
        return [0.95 if (client.number, arm) == (3, "red") else rate] * n

    with DurableLog(path, header_of(trial, "demo")) as log:
        try_trial(trial, one_turned, 8, log=log)
    run = LoggedRun(path)
    status = run.status()
    marked = {one.client: one.unlike for one in status.means if any(one.unlike)}
    assert marked == {"client-3": (True, False)}
    assert "means far from those of the other clients: client-3 (red)" in status.words()
    said = json.loads(CliRunner().invoke(app, ["status", str(path), "--json"]).stdout)
    of_client = {one["name"]: one for one in said["clients"]}
    assert of_client["client-3"]["unlike"] == {"red": True, "blue": False}
    assert of_client["client-5"]["means"] == pytest.approx({"red": 0.25, "blue": 0.65})
    page = run_html(run)
    assert "Means of each client" in page
    assert "<b>0.95 !</b>" in page
    assert page.count(" !</b>") == 1
    assert "3.5 robust standard deviations" in page
