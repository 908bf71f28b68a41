"""Liars in a live trial: the same rules, and a run that none of them ends or stalls."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from commands import Command
from fedbandits.errors import InputError
from fedbandits.federation.checkpoint import read_checkpoint
from fedbandits.federation.course import Compared
from fedbandits.federation.durable_log import DurableLog, read_log
from fedbandits.federation.followed import FollowedRun, LoggedRun
from fedbandits.federation.host import ClientInfo
from fedbandits.federation.local import try_trial
from fedbandits.federation.run import header_of
from fedbandits.federation.trial import Trial, read_trial
from fedbandits.protocol.decisions import interval_widths
from fedbandits.protocol.fold import apply
from fedbandits.protocol.messages import Update
from fedbandits.protocol.promises import coverage
from fedbandits.protocol.records import ClientHalted
from fedbandits.protocol.server import Server
from fedbandits.protocol.state import RunState
from fedbandits.rules.estimators import Median, Plain, Trimmed
from fedbandits.rules.guarantees import Assumption
from fedbandits.rules.reports import Reports
from fedbandits.run_page.page import run_html

CLIENTS = 30


def trial(**keys: Any) -> Trial:
    algorithm = fb.Fed1Ucb(pulls=40, radius=fb.CertifiedRadius(delta=0.05), **keys)
    return Trial(
        title="colours",
        arms=("red", "blue"),
        algorithm=algorithm,
        limits=(0.0, 1.0),
        population=CLIENTS,
    )


def pull(arm: str, n: int, client: ClientInfo, *, lying: int) -> list[float]:
    """Return outcomes: blue is better, and liars say the opposite as loudly as they can."""
    if client.number < lying:
        return [float(arm == "red")] * n
    rng = np.random.default_rng([client.number, len(arm)])
    return [float(u < (0.2 if arm == "red" else 0.85)) for u in rng.random(n)]


def decided(lying: int, **keys: Any) -> Any:
    return try_trial(trial(**keys), lambda *told: pull(*told, lying=lying), CLIENTS)


def test_a_trial_that_allows_for_liars_finds_the_best_option_among_them() -> None:
    server = decided(3, liars=3)
    assert server.decision.winner == 1
    found = server.run_state.guarantee
    assert found.error == 0.05
    assert "at most 3 of the clients lie" in found.words()
    assert found.whom == "the honest ones of these 30 clients"
    # The same clients decide nothing that is promised if they are taken for honest.
    assert decided(3).run_state.guarantee.condition(Assumption.HONEST) is not None


def test_a_file_says_how_many_may_lie() -> None:
    tables: dict[str, Any] = {
        "title": "colours",
        "arms": ["red", "blue"],
        "range": [0, 1],
        "population": CLIENTS,
        "algorithm": "fed1-ucb",
        "pulls": 40,
        "radius": {"rule": "certified", "delta": 0.05},
        "liars": 3,
    }
    assert "at most 3" in read_trial(tables).rule().guarantee().words()
    with pytest.raises(InputError, match="liars: is for algorithms with a schedule"):
        read_trial(
            {"title": "colours", "arms": ["red", "blue"], "algorithm": "fed-index", "liars": 3}
        )


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("liars = 0.2", "by 0.0817, however many clients report"),
        (
            'estimator = { name = "median", liars = 0.3 }',
            "to find a gap below 0.16 between options",
        ),
        (
            'estimator = { name = "trimmed", liars = 0.2, groups = 4 }',
            "by any amount, however many clients report",
        ),
        ('dependence = "any"\nliars = 0.2', "by 0.115, however many clients report"),
        # A number is a share of all that exist.
        ("population = 40\nliars = 8", "by 0.0817, however many clients report"),
    ],
)
def test_check_says_what_liars_can_hide_whatever_reports(
    command: Command, tmp_path: Path, keys: str, said: str
) -> None:
    (tmp_path / "fedbandits.toml").write_text(
        'title = "colours"\narms = ["red", "blue"]\npulls = 20\nadmissions = 20\nrange = [0, 1]\n'
        'radius = { rule = "certified", delta = 0.05 }\nassume = { noise = 0.2, spread = 0.1 }\n'
        f"{keys}\n",
        encoding="utf-8",
    )
    done = command("check", tmp_path)
    assert done.code == 0, done.err
    assert said in done.out


@pytest.mark.parametrize(("noise", "code"), [("gaussian", 0), ("laplace", 2)])
def test_check_calls_no_trial_valid_that_is_refused(
    command: Command, tmp_path: Path, noise: str, code: int
) -> None:
    (tmp_path / "fedbandits.toml").write_text(
        'title = "colours"\narms = ["red", "blue"]\npulls = 20\nadmissions = 20\nliars = 3\n'
        'radius = { rule = "certified", delta = 0.05 }\nassume = { noise = 0.2, spread = 0.1 }\n'
        f'privacy = {{ noise = "{noise}", scale = 0.1, range = [0, 1] }}\n',
        encoding="utf-8",
    )
    done = command("check", tmp_path)
    assert done.code == code
    assert ("valid" in done.out) == (code == 0)
    # Three are nothing among ever more clients.
    assert "however many clients" not in done.out


def test_a_median_needs_to_know_how_much_clients_differ() -> None:
    told = trial(estimator=Median(liars=3))
    assert told.rule().guarantee().conditions
    with pytest.raises(InputError, match=r"assume\.spread: is missing, and"):
        replace(told, limits=None, noise=0.5).rule()
    # What the data say is enough for a trimmed mean.
    assert replace(trial(liars=3), limits=None, noise=0.5).rule().guarantee().error == 0.05


def test_an_option_that_is_out_keeps_the_interval_of_the_clients_that_tried_it() -> None:
    algorithm = fb.Fed2Ucb(
        pulls=60, admissions=25, radius=fb.CertifiedRadius(delta=0.05, dependence="any"), liars=0.04
    )
    many = 100
    told = Trial(
        title="colours",
        arms=("red", "blue", "green"),
        algorithm=algorithm,
        limits=(0.0, 1.0),
        population=many,
        max_phases=4,
    )

    def outcomes(arm: str, n: int, client: ClientInfo) -> list[float]:
        rng = np.random.default_rng([client.number, len(arm)])
        return [float(u < (0.02 if arm == "red" else 0.9)) for u in rng.random(n)]

    state = try_trial(told, outcomes, many).run_state
    assert list(state.beaten) == [0]
    assert state.behind is not None
    assert state.behind.pulled.sum(axis=1).tolist() == [25, many, many]
    # Its estimate is that of 25 of 100 clients, and those of the others are of all.
    widths = interval_widths(state, 0.05)
    assert widths[0] > 2 * widths[1] == 2 * widths[2]
    kept = RunState.restored(state.kept(), state.terms)
    assert np.array_equal(interval_widths(kept, 0.05), widths)
    again = kept.beaten[0].verdict(kept.terms.rule, np.ones(3, dtype=np.bool_))
    assert again.active.tolist() == [False, True, True]


@pytest.mark.parametrize(("options", "left"), [(2, True), (3, False)])
def test_a_halt_leaves_a_promise_between_two_options_alone(options: int, left: bool) -> None:
    told = fb.Beliefs(n_arms=options, horizon=None, noise=0.5, spread=0.5, population=CLIENTS)
    radius = fb.CertifiedRadius(delta=0.05)
    for liars in (None, 3):
        rule = fb.Fed1Ucb(pulls=10, radius=radius, liars=liars).rule(told)
        server = Server(rule)
        server.open([f"c{i}" for i in range(CLIENTS)])
        halted = apply(
            server.run_state, ClientHalted(client="c0", arms=(1,), reason="out of stock")
        )
        assert (halted.guarantee.error == 0.05) == (left or liars is None)
        assert (coverage(halted, 0.05).error == 0.05) == (left or liars is None)


@pytest.mark.parametrize(
    "lie",
    [{"means": (0.5, 5.0)}, {"clipped": 3}, {"uneven": (1,)}],
    ids=lambda lie: next(iter(lie)),
)
@pytest.mark.parametrize("liars", [None, 2])
def test_reports_that_no_honest_client_sends_end_the_promise_only_if_too_many_do(
    lie: dict[str, Any], liars: int | None
) -> None:
    told = fb.Beliefs(n_arms=2, horizon=None, noise=0.5, spread=0.5, population=CLIENTS)
    certified = fb.CertifiedRadius(delta=0.05)
    rule = fb.Fed1Ucb(pulls=10, radius=certified, liars=liars).rule(told)
    server = Server(rule, limits=(0.0, 1.0))
    server.open([f"c{i}" for i in range(CLIENTS)])
    found = []
    for number in range(3):
        said = {"counts": (10, 10), "means": (0.5, 0.5), **lie}
        server.receive(Update(header=server.header, phase=1, client=f"c{number}", **said))
        found.append(server.run_state.guarantee.error == 0.05)
    assert found == ([True, True, False] if liars else [False, False, False])
    assert RunState.restored(server.run_state.kept(), server.terms).guarantee.error is None


# How often a client is left out -------------------------------------------------------------------

PHASES = 5


def logged(path: Path, *, lying: int = 3, **keys: Any) -> Path:
    """Play a run to its end, with a log in a file."""
    told = read_trial(
        {
            "title": "colours",
            "arms": ["red", "blue", "green"],
            "range": [0, 1],
            "population": CLIENTS,
            "algorithm": "fed1-ucb",
            "pulls": 400,
            "max_phases": PHASES,
            "radius": {"rule": "certified", "delta": 0.05},
            **keys,
        }
    )
    rng = np.random.default_rng(5)

    def pull(arm: str, n: int, client: ClientInfo) -> list[float]:
        if client.number < lying:
            return [float(arm == "red")] * n
        # 400 tries of each: hardly two clients have the same mean.
        return [float(u < (0.45 if arm == "red" else 0.5)) for u in rng.random(n)]

    with DurableLog(path, header_of(told, told.title)) as log:
        try_trial(told, pull, CLIENTS, log=log)
    return path


def counted(run: FollowedRun) -> dict[str, Compared]:
    clients = run.status().course.clients
    return {one.name: one.compared for one in clients if one.compared is not None}


@pytest.mark.parametrize(
    "keys",
    [{"liars": 3}, {"estimator": {"name": "median", "liars": 3}, "assume": {"spread": 0.1}}],
    ids=["trimmed", "median"],
)
def test_liars_are_left_out_nearly_always_and_others_as_often_as_expected(
    tmp_path: Path, keys: dict[str, Any]
) -> None:
    by_name = counted(LoggedRun(logged(tmp_path / "run.fedlog", **keys)))
    found, liars = list(by_name.values()), [by_name.pop(f"client-{number}") for number in range(3)]
    assert len(found) == CLIENTS
    # Two comparisons with the leader in each phase, six of 30 clients left out of each.
    assert {one.comparisons for one in found} == {2 * PHASES}
    assert all(one.expected == pytest.approx(2 * PHASES * 0.2) for one in found)
    assert sum(one.left_out for one in found) <= 2 * PHASES * 6
    # Red leads nobody: where it is compared with the leader the liars are the lowest. They say the
    # same of the two others, so that they are in the middle of that comparison.
    assert all(one.left_out == PHASES for one in liars)
    # What is left to the honest is three of 27 there, and six of 27 of the two others.
    honest = np.mean([one.share for one in by_name.values()])
    assert honest == pytest.approx((3 / 27 + 6 / 27) / 2, abs=0.03)


def test_how_often_is_advanced_by_new_records_alone(tmp_path: Path) -> None:
    path = logged(tmp_path / "run.fedlog", liars=3)
    whole = LoggedRun(path, full=True)
    content = read_log(path)
    half = len(content.records) // 2
    # A reader that was there all along, and one that begins with a checkpoint of the first half.
    growing = tmp_path / "growing.fedlog"
    with DurableLog(growing, content.header) as log:
        for record in content.records[:half]:
            log.append(record)
        reader = LoggedRun(log)
        reader.write_checkpoint()
        before = counted(reader)
        for record in content.records[half:]:
            log.append(record)
        reader.refresh()
    assert counted(reader) == counted(whole) != before
    assert counted(LoggedRun(growing)) == counted(whole)
    assert read_checkpoint(growing) is not None


def test_the_page_and_the_status_give_a_hint_and_no_verdict(
    command: Command, tmp_path: Path
) -> None:
    run = LoggedRun(logged(tmp_path / "run.fedlog", liars=3))
    page = run_html(run)
    assert "left out as often as a liar" in page
    for heading in ("comparisons", "left out", "expected"):
        assert f">{heading}</th>" in page
    told = json.loads(command("status", "--json", tmp_path / "run.fedlog").out)
    assert all(one["compared"]["expected"] == 2.0 for one in told["clients"])
    # Whoever reads a terminal sees nobody named.
    assert "left out" not in run.status().words()


def test_without_liars_declared_nobody_is_left_out(tmp_path: Path) -> None:
    run = LoggedRun(logged(tmp_path / "run.fedlog"))
    assert counted(run) == {}
    assert ">left out</th>" not in run_html(run)
    assert "compared" not in run.status().as_dict()["clients"][0]


def test_a_group_is_left_out_as_a_whole() -> None:
    means = np.array([[0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5], [0.1, 0.9, 0.5, 0.5, 0.9, 0.9, 0.0]])
    reports = Reports(counts=np.full((2, 7), 9), means=means, active=np.ones(2, dtype=np.bool_))
    found = Trimmed(liars=1, groups=2).left_out(reports, 0)
    assert found is not None
    # Averages of the groups are 0.5, 0.5 and 0.9; the seventh client is in none.
    assert found.times.tolist() == [0, 0, 0, 0, 1, 1, 0]
    assert found.clients.tolist() == [True] * 6 + [False]
    assert found.share == pytest.approx(2 / 3)
    # Of two clients who may both lie, nobody is in the middle.
    few = replace(reports, counts=np.full((2, 2), 9), means=means[:, :2])
    assert Trimmed(liars=1).left_out(few, 0) is None
    assert Plain().left_out(reports, 0) is None
