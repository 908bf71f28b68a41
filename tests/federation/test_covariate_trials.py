"""Trials that adjust outcomes by a covariate: tried, in live traffic, and by letters."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import Command
from documentation import blocks, text_of
from fedbandits.errors import InputError
from fedbandits.federation import LiveTrial
from fedbandits.federation.aa import try_aa
from fedbandits.federation.audit_file import read_audit
from fedbandits.federation.coordinator import Coordinator
from fedbandits.federation.durable_log import DurableLog
from fedbandits.federation.flower.client import NodePlan
from fedbandits.federation.followed import LoggedRun
from fedbandits.federation.host import ClientHost, ClientInfo
from fedbandits.federation.letters import LETTER
from fedbandits.federation.live_store import LiveStore
from fedbandits.federation.local import LocalTransport, load_client, try_trial
from fedbandits.federation.run import header_of
from fedbandits.federation.served import begin_or_resume
from fedbandits.federation.state_files import adjustments_file, audit_file, live_file
from fedbandits.federation.trial import Trial, load_trial, read_trial
from fedbandits.federation.verification import verified
from fedbandits.protocol import Assignment, Refusal, Server, Update, answer_of, arms_hash
from fedbandits.protocol.covariates import FEWEST_PAIRS
from fedbandits.protocol.messages import Header
from fedbandits.run_page.page import run_html
from repository import ROOT

FIXED = {"name": "visits before", "range": [0, 40], "coefficient": 0.8, "mean": 12.0}
HISTORY = {"name": "visits before", "range": [0, 40], "coefficient": "history"}
LIVE = {"maturity": 600, "missing": 0.0}
TABLES: dict[str, Any] = {
    "title": "colours",
    "arms": ["red", "blue"],
    "pulls": "50",
    "admissions": "4",
    "radius": {"rule": "certified", "delta": 0.05},
    "assume": {"noise": 2.2, "spread": 0.1},
    "range": [-30, 60],
    "covariate": FIXED,
}


def trial_of(**changes: Any) -> Trial:
    said = {**TABLES, **changes}
    return read_trial({key: value for key, value in said.items() if value is not None})


def visits(seed: int, gap: float = 1.0) -> Any:
    """Return a pull whose outcomes are explained by visits to 72 %; blue is better by a gap."""
    rng = np.random.default_rng(seed)

    def pull(arm: str, n: int, client: ClientInfo) -> dict[str, Any]:
        before = np.clip(rng.normal(12, 4, n), 0, 40)
        outcomes = 5 + 0.8 * (before - 12) + rng.normal(gap * (arm == "blue"), 2, n)
        return {"outcome": outcomes, "covariate": before}

    return pull


def history(client: ClientInfo) -> dict[str, Any]:
    return dict(visits(client.number)("red", 400, client))


def gains(server: Server) -> list[Any]:
    return [one.update.gain for one in server.log if hasattr(one, "update")]


# What the file says -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"covariate": {**FIXED, "mean": 50.0}}, r"covariate.mean: 50 is outside \[0, 40\]"),
        ({"covariate": {**FIXED, "slope": 1.0}}, "covariate.slope"),
        ({"covariate": {"name": "x", "range": [0, 1]}}, "covariate.coefficient"),
        ({"covariate": {**FIXED, "coefficient": "pilot"}}, "covariate.coefficient"),
        (
            {"privacy": {"noise": "laplace", "epsilon": 1.0, "range": [-30, 60]}},
            r"privacy.range: \[-30, 60\] does not hold all adj.*; write \[-52.4, 69.6\]",
        ),
        (
            {"privacy": {"noise": "laplace", "epsilon": 1.0, "range": [-60, 70]}, "range": None},
            "range: is missing, and privacy.range must hold adjusted outcomes",
        ),
        (
            {
                "privacy": {"noise": "laplace", "epsilon": 1.0, "range": [-200, 200]},
                "covariate": HISTORY,
            },
            "covariate.coefficient: .*units that no budget covers",
        ),
        (
            {"radius": {"rule": "bernstein", "delta": 0.05, "range": [-30, 60]}},
            "radius.range: .*write",
        ),
    ],
)
def test_a_trial_that_would_break_its_promise_is_refused(
    changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        trial_of(**changes)


def test_ranges_noise_and_doubts_are_those_of_adjusted_outcomes() -> None:
    trial = trial_of()
    assert trial.range == (-30, 60)
    assert trial.adjusted_limits == pytest.approx((-30 - 0.8 * 28, 60 + 0.8 * 12))
    assert trial.doubts() == ()
    bare = trial_of(assume={"spread": 0.1})
    assert bare.rule().noise == pytest.approx((90 + 0.8 * 40) / 2)
    assert any("gains nothing" in doubt for doubt in bare.doubts())
    words = bare.covariate_words()
    assert "0.8 times what visits before is above 12" in words
    assert "they lie in [-52.4, 69.6] instead of [-30, 60]" in words
    assert "the σ of adjusted outcomes is at most 61, half of that range" in words
    t = trial_of(radius={"rule": "paired-t", "delta": 0.05}, assume=None)
    assert not any("gains nothing" in doubt for doubt in t.doubts())
    wide = {"rule": "bernstein", "delta": 0.05, "range": [-60, 70]}
    assert any("gains nothing" in doubt for doubt in trial_of(radius=wide).doubts())
    assert trial_of(covariate=None).covariate_words() == ""


# Played -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("covariate", [FIXED, HISTORY], ids=["fixed", "history"])
@pytest.mark.parametrize("live", [None, LIVE], ids=["pull", "live"])
@pytest.mark.parametrize("treatment", [False, True], ids=["", "aa"])
def test_it_works_in_every_way_that_outcomes_come(
    covariate: dict[str, Any], live: dict[str, Any] | None, treatment: bool
) -> None:
    trial = trial_of(covariate=covariate, live=live, aa=treatment, max_phases=2)
    server = try_trial(trial, visits(1, 2.0), 8, history=history)
    assert server.decision is not None
    told = gains(server)
    assert told
    assert np.mean(told) == pytest.approx(1 - 4 / (4 + 0.64 * 16), abs=0.05)
    if treatment:
        assert server.decision.winner is None
    else:
        assert server.arms[server.decision.winner or 0] == "blue"
        red, blue = server.decision.estimates
        assert blue - red == pytest.approx(2.0, abs=0.5)
        assert red == pytest.approx(5.0, abs=0.5)


def test_estimates_with_protected_means_stay_within_what_is_declared() -> None:
    privacy = {"noise": "gaussian", "epsilon": 4.0, "delta": 1e-6, "range": [-53, 70]}
    trial = trial_of(privacy=privacy, pulls="2000", max_phases=3)
    server = try_trial(trial, visits(3, gap=20.0), 16)
    assert server.decision is not None
    assert set(gains(server)) == {None}
    assert server.run_state.guarantee.error == 0.05
    assert "what lies outside [-30, 60] is clipped" in answer_of(server).words()
    rounded = trial_of(privacy={"quantize": {"bits": 10}, "range": [-53, 70]}, max_phases=3)
    server = try_trial(rounded, visits(3), 16)
    assert None not in gains(server)
    assert server.run_state.guarantee.error == 0.05


def test_many_aa_tries_are_sound() -> None:
    found = try_aa(trial_of(max_phases=2), visits(4), 8, runs=8)
    assert found.sound


def test_what_pull_returns_is_named_in_an_error() -> None:
    def bare(arm: str, n: int, client: ClientInfo) -> list[float]:
        return [0.0] * n

    for live in (None, LIVE):
        with pytest.raises(InputError, match=r'pull\("(red|blue)".*\(outcome, covariate\)'):
            try_trial(trial_of(live=live), bare, 4)


# A history ----------------------------------------------------------------------------------------


def host_of(folder: Path, told: Any, **changes: Any) -> ClientHost:
    trial = trial_of(covariate=HISTORY, **changes)
    info = ClientInfo(name="a")
    return ClientHost(info, visits(1), trial, folder=folder, history=told)


def asked(phase: int = 1, run: str = "run 1") -> Assignment:
    header = Header(run=run, epoch=1, arms=arms_hash(TABLES["arms"]))
    return Assignment(header=header, phase=phase, pulls=(50, 50))


def test_a_coefficient_is_estimated_once_per_run_and_kept(tmp_path: Path) -> None:
    """A history that is read again may hold the run's own units."""
    calls: list[float] = []

    def grows(client: ClientInfo) -> dict[str, Any]:
        calls.append(1.0)
        found = history(client)
        found["outcome"] = found["outcome"] + len(calls) * 0.1 * found["covariate"]
        return found

    for phase in (1, 2):  # each message has a process of its own
        assert isinstance(host_of(tmp_path, grows).answer(asked(phase)), Update)
    assert len(calls) == 1
    assert isinstance(host_of(tmp_path, grows).answer(asked(1, "run 2")), Update)
    assert len(calls) == 2
    kept = json.loads(adjustments_file(tmp_path, "a").read_text())["runs"]
    assert [one["run"] for one in kept] == ["run 1", "run 2"]
    first, second = (one["adjustment"]["coefficient"] for one in kept)
    assert second == pytest.approx(first + 0.1)
    assert first == pytest.approx(0.9, abs=0.1)

    adjustments_file(tmp_path, "a").unlink()
    with pytest.raises(InputError, match="is not asked in the middle of a run"):
        host_of(tmp_path, grows).answer(asked(3))
    adjustments_file(tmp_path, "a").write_text("{}")
    with pytest.raises(InputError, match="does not say what outcomes are adjusted by"):
        host_of(tmp_path, grows).answer(asked(3))


def test_a_history_that_says_nothing_is_refused_if_the_noise_of_adjusted_outcomes_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def short(client: ClientInfo) -> dict[str, Any]:
        return {key: values[: FEWEST_PAIRS - 1] for key, values in history(client).items()}

    def constant(client: ClientInfo) -> dict[str, Any]:
        return {"outcome": [1.0, 2.0] * 50, "covariate": [7.0] * 100}

    for told, why in ((short, "29 units, and 30 are needed"), (constant, "explains nothing")):
        with pytest.raises(InputError, match=f"{why}.*assume.noise is that of adjusted outcomes"):
            host_of(tmp_path, told).answer(asked())
    estimates = {"radius": {"rule": "paired-t", "delta": 0.05}, "assume": None}
    said = host_of(tmp_path, short, **estimates).answer(asked())
    assert isinstance(said, Update)
    assert said.gain == 0.0
    assert "outcomes of this client count as they are: 29 units" in caplog.text


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        (None, "history: is missing"),
        (lambda _: 1 / 0, r"history\(a\): failed: ZeroDivisionError"),
        (
            lambda _: [1.0],
            r"history\(a\): returned\[0\] is 1.0; return rows \(outcome, covariate\)",
        ),
        (
            lambda _: {"outcome": [1.0] * 40, "covariate": [41.0] * 40},
            r"history\(a\).covariate: returned\[0\] is 41.0, outside the covariate's range",
        ),
        (
            lambda _: {"outcome": [float("nan")] * 40, "covariate": [1.0] * 40},
            r"history\(a\): outcome: returned\[0\] is nan",
        ),
    ],
)
def test_mistakes_in_a_history_are_named(tmp_path: Path, told: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        host_of(tmp_path, told).answer(asked())


def test_the_functions_of_client_py_are_those_that_the_trial_asks_for(tmp_path: Path) -> None:
    asks, live = trial_of(covariate=HISTORY), trial_of(covariate=HISTORY, live=LIVE)
    assert load_client(tmp_path, trial_of(live=LIVE)).pull is None  # it needs no file
    (tmp_path / "client.py").write_text("def pull(arm, n, client): ...")
    with pytest.raises(InputError, match=r"client.py: has no function history\(client\)"):
        load_client(tmp_path, asks)
    (tmp_path / "client.py").write_text("def history(client): ...")
    assert load_client(tmp_path, live).history is not None
    assert load_client(tmp_path, live).pull is None
    with pytest.raises(InputError, match="has no function pull"):
        load_client(tmp_path, live, simulated=True)


# Live traffic -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (None, 'covariate: is missing; give "visits before"'),
        (float("nan"), "covariate: nan is not a finite number"),
        ("12", "covariate: '12' is not a finite number"),
        (True, "covariate: True is a truth value; give 1.0 or 0.0"),
        (40.5, "covariate: it is 40.5, outside the covariate's range of 0 to 40"),
    ],
)
def test_a_unit_gets_no_option_without_its_covariate(
    tmp_path: Path, value: Any, problem: str
) -> None:
    with LiveTrial(trial_of(live=LIVE), client="a", state=tmp_path) as live:
        with pytest.raises(InputError, match=problem):
            live.assign("ada", covariate=value)
        assert live.assign("ada", covariate=12.0) in TABLES["arms"]
    (tmp_path / "other").mkdir()
    bare = trial_of(live=LIVE, covariate=None)
    with LiveTrial(bare, client="a", state=tmp_path / "other") as live:
        live.wanted()
        with pytest.raises(InputError, match=r"covariate: is not in fedbandits.toml"):
            live.assign("ada", covariate=12.0)


def phase_of(folder: Path, trial: Trial, rows: list[tuple[float, float | None]]) -> ClientHost:
    """Let units come with covariates and outcomes (None for one that is lost) in one phase."""
    now = [1000.0]
    path = live_file(folder, "a")
    store = LiveStore(path, "a", trial, clock=lambda: now[0], durable=False)
    live = LiveTrial(trial, client="a", state=folder, clock=lambda: now[0], durable=False)
    host = ClientHost(ClientInfo(name="a"), None, trial, folder=folder, live=store)
    assert isinstance(host.answer(asked()), Refusal)
    for number, (before, value) in enumerate(rows):
        arm = live.assign(f"u{number}", covariate=before)
        assert live.assign(f"u{number}", covariate=0.0) == arm  # the first covariate counts
        if value is not None:
            assert live.record(f"u{number}", value)
    now[0] += 700
    live.close()
    return host


def test_what_live_traffic_reports_follows_from_the_ledger(
    tmp_path: Path, command: Command
) -> None:
    rng = np.random.default_rng(2)
    rows: list[tuple[float, float | None]] = [
        (float(before), None if number % 10 == 0 else 5 + 0.8 * float(before))
        for number, before in enumerate(rng.uniform(0, 40, 100))
    ]
    trial = trial_of(live=LIVE)
    said = phase_of(tmp_path, trial, rows).answer(asked())
    assert isinstance(said, Update)
    with sqlite3.connect(live_file(tmp_path, "a")) as file:
        found = file.execute("SELECT arm, value, covariate FROM units").fetchall()
    file.close()
    for arm in (0, 1):
        adjusted = [(y or 0.0) - 0.8 * (x - 12) for k, y, x in found if k == arm]
        assert said.means[arm] == pytest.approx(np.mean(adjusted))
    entries = read_audit(audit_file(tmp_path, "a"))
    assert entries[0].gain == said.gain == entries[0].update.gain
    (checked,) = verified(entries, live_file(tmp_path, "a"))
    assert checked.wrong == ()
    printed = command("audit", str(audit_file(tmp_path, "a"))).out
    assert "gain" in printed
    assert "it was sent with the means" in printed
    with sqlite3.connect(live_file(tmp_path, "a")) as file:
        file.execute("DROP TRIGGER units_are_kept")
        file.execute("UPDATE units SET covariate = 40 - covariate WHERE number < 60")
    file.close()
    (checked,) = verified(entries, live_file(tmp_path, "a"))
    assert checked.wrong


def test_the_covariate_of_a_unit_cannot_be_changed_afterwards(tmp_path: Path) -> None:
    phase_of(tmp_path, trial_of(live=LIVE), [(3.0, None)])
    file = sqlite3.connect(live_file(tmp_path, "a"))
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        file.execute("UPDATE units SET covariate = 4")
    file.close()


def test_a_ledger_of_before_covariates_is_taken_over(tmp_path: Path) -> None:
    """A file of format 2, as an earlier version has left it in the middle of a run."""
    bare = trial_of(live=LIVE, covariate=None)
    with LiveTrial(bare, client="a", state=tmp_path) as live:
        arm = live.assign("ada")
    with sqlite3.connect(live_file(tmp_path, "a")) as file:
        file.execute("DROP TRIGGER units_are_kept")
        file.execute("ALTER TABLE units DROP COLUMN covariate")
        file.execute(
            "CREATE TRIGGER units_are_kept BEFORE UPDATE ON units WHEN OLD.value IS NOT NULL"
            " BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
        )
        file.execute("PRAGMA user_version = 2")
    file.close()
    with LiveTrial(bare, client="a", state=tmp_path) as live:
        assert live.assign("ada") == arm
    with LiveTrial(trial_of(live=LIVE), client="a", state=tmp_path) as live:
        live.assign("bob", covariate=3.0)
    with sqlite3.connect(live_file(tmp_path, "a")) as file:
        rows = file.execute("SELECT unit, covariate FROM units").fetchall()
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            file.execute("UPDATE units SET covariate = 4")
    file.close()
    assert rows == [("ada", None), ("bob", 3.0)]


def test_a_service_with_another_file_is_noticed(tmp_path: Path) -> None:
    """The node adjusts, and the service does not know of a covariate."""
    trial, bare = trial_of(live=LIVE), trial_of(live=LIVE, covariate=None)
    now = [1000.0]
    store = LiveStore(live_file(tmp_path, "a"), "a", trial, clock=lambda: now[0], durable=False)
    host = ClientHost(ClientInfo(name="a"), None, trial, folder=tmp_path, live=store)
    host.answer(asked())
    live = LiveTrial(bare, client="a", state=tmp_path, clock=lambda: now[0], durable=False)
    for number in range(100):
        live.assign(f"u{number}")
    live.close()
    now[0] += 700
    with pytest.raises(InputError, match="covariate: a unit of the phase has none"):
        host.answer(asked())


# Letters ------------------------------------------------------------------------------------------

_CLIENT = """
import random

def pull(arm, n, client):
    before = [random.uniform(0, 40) for _ in range(n)]
    level = 9.0 if arm == "blue" else 5.0
    outcomes = [level + 0.3 * x + random.gauss(0, 0.5) for x in before]
    return {"outcome": outcomes, "covariate": before}

def history(client):
    return pull("red", 100, client)
"""


def write_project(folder: Path, covariate: dict[str, Any], **changes: Any) -> Path:
    def toml(value: Any) -> str:
        if isinstance(value, dict):
            return "{ " + ", ".join(f"{key} = {toml(one)}" for key, one in value.items()) + " }"
        return json.dumps(value)

    folder.mkdir()
    said = {**TABLES, "covariate": covariate, **changes}
    lines = (f"{key} = {toml(value)}" for key, value in said.items())
    (folder / "fedbandits.toml").write_text("\n".join(lines), encoding="utf-8")
    (folder / "client.py").write_text(_CLIENT, encoding="utf-8")
    return folder


def test_sites_without_a_network_adjust_by_their_own_histories(
    tmp_path: Path, command: Command
) -> None:
    sites = ["north", "south"]
    project = write_project(tmp_path / "server", HISTORY, offline=sites, admissions="2")
    log = project / "run.fedlog"
    for _ in range(3):
        assert command("post", log, "--project", project).code == 0
        replies = []
        for letter in sorted((project / "post").glob(f"*-phase-*{LETTER}")):
            state = tmp_path / letter.name.split("-")[0]
            done = command("site", letter, "--project", project, "--state", state)
            assert done.code == 0, done.err
            replies.append(done.out.split("send back: ")[1].strip())
            letter.unlink()
        if not replies:
            break
        assert command("deliver", log, *replies).code == 0
    status = LoggedRun(log).status()
    assert status.answer is not None
    assert status.answer.winner == "blue"
    assert status.gain == pytest.approx(0.98, abs=0.03)
    for site in sites:
        (kept,) = json.loads(adjustments_file(tmp_path / site, site).read_text())["runs"]
        assert kept["adjustment"]["coefficient"] == pytest.approx(0.3, abs=0.05)
        assert kept["adjustment"]["units"] == 100


def test_a_node_of_flower_adjusts_by_the_history_of_its_client(tmp_path: Path) -> None:
    project = write_project(tmp_path / "project", HISTORY)
    plan = NodePlan({"project": str(project), "name": "clinic"})
    said = plan.host(plan.clients[0]).answer(asked())
    assert isinstance(said, Update)
    assert said.gain == pytest.approx(0.98, abs=0.03)
    assert said.signature
    assert adjustments_file(project / "state", "clinic").exists()


# What is shown ------------------------------------------------------------------------------------


def test_status_report_and_check_show_the_covariate_and_its_gain(
    tmp_path: Path, command: Command
) -> None:
    trial = trial_of()
    path = tmp_path / "run.fedlog"
    with DurableLog(path, header_of(trial, trial.title)) as log:
        told = gains(try_trial(trial, visits(5), 8, log=log))
    status = LoggedRun(path).status()
    assert status.gain is not None
    assert status.gain == pytest.approx(np.mean(told))
    line = f"which makes the variance within options {100 * status.gain:.0f} % smaller ("
    assert line in status.words()
    said = status.as_dict()
    assert said["covariate"] == "visits before"
    assert said["gain"] == status.gain
    assert {"gain", "measured"} <= set(said["clients"][0])
    page = run_html(LoggedRun(path))
    assert "variance by covariate" in page
    assert "−7" in page
    assert "compare options with each other, and not with outcomes elsewhere" in page

    bare = trial_of(covariate=None)
    with DurableLog(tmp_path / "bare.fedlog", header_of(bare, "bare")) as log:
        try_trial(bare, lambda arm, n, client: visits(5)(arm, n, client)["outcome"], 8, log=log)
    status = LoggedRun(tmp_path / "bare.fedlog").status()
    assert "covariate" not in status.as_dict()
    assert "gain" not in status.as_dict()["clients"][0]
    assert "adjusted" not in status.words()

    project = write_project(tmp_path / "trial", FIXED, assume={"spread": 0.1})
    done = command("check", project / "fedbandits.toml")
    assert 'covariate "visits before": outcomes are adjusted by 0.8 times' in done.out
    assert "gains nothing" in " ".join(done.err.split())


def test_the_page_shows_what_the_example_prints(tmp_path: Path, command: Command) -> None:
    folder = ROOT / "examples" / "covariate-trial"
    trial = load_trial(folder)
    code = load_client(folder, trial)
    log, run = begin_or_resume(trial, tmp_path / "run.fedlog", signed=False)
    hosts = [
        ClientHost(
            ClientInfo(name=f"client-{number}", number=number),
            code.pull,
            trial,
            folder=tmp_path,
            history=code.history,
        )
        for number in range(12)
    ]
    with log:
        transport = LocalTransport(hosts)
        Coordinator(run.server, transport, clock=transport.clock).run()
    checked, status, _ = blocks(text_of("covariates.md"), "text")
    assert checked in command("check", folder / "fedbandits.toml").out
    assert status in command("status", tmp_path / "run.fedlog").out
