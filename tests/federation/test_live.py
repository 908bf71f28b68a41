"""Live traffic: which units count, what their outcomes are, and that nothing of it is lost."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import fedbandits as fb
from coin_trial import TABLES, coins
from documentation import rows, text_of
from fedbandits.cli.main import app
from fedbandits.construct import keys_of
from fedbandits.errors import InputError
from fedbandits.federation import LiveTrial, live_store
from fedbandits.federation.audit_file import read_audit
from fedbandits.federation.coordinator import Bulletin, Coordinator
from fedbandits.federation.host import ClientHost, ClientInfo
from fedbandits.federation.last_word import best_arm
from fedbandits.federation.live_store import LiveStore, order_of_units
from fedbandits.federation.local import (
    LocalTransport,
    server_of,
    simulated_traffic,
    try_trial,
)
from fedbandits.federation.project import new_project
from fedbandits.federation.state_files import live_file
from fedbandits.federation.trial import Live, read_trial
from fedbandits.protocol import (
    Reason,
    Refused,
    Release,
)
from fedbandits.protocol.turns import permuted_blocks
from shop import ARMS, LIVE, PATIENT, TRIAL, Shop, concluded, decided, header, phase

# Who counts ---------------------------------------------------------------------------------------


def test_a_phase_counts_as_many_units_as_it_asks_for_in_permuted_blocks(shop: Shop) -> None:
    assert shop.pending(phase(1, 40, 40, 40)) == "0 of 120 units have come"
    assert shop.live.wanted() == 120
    arms = shop.come(120)
    assert shop.live.wanted() == 0
    assert Counter(arms.values()) == dict.fromkeys(ARMS, 40)
    order = list(arms.values())
    blocks = [order[i : i + 3] for i in range(0, 120, 3)]
    assert all(sorted(block) == sorted(ARMS) for block in blocks)
    assert len({tuple(block) for block in blocks}) == 6
    # It is the order in which a client without traffic would have pulled.
    pulled = [ARMS[arm] for arm, n in permuted_blocks(0, "shop")(1, (40, 40, 40)) for _ in range(n)]
    assert order == pulled
    # Who comes again gets the same, and is not counted again.
    assert {unit: shop.live.assign(unit) for unit in arms} == arms
    assert shop.pending(phase(1, 40, 40, 40)).startswith("120 of 120 units have come")


def test_large_phases_are_mixed_unit_by_unit_also_if_options_differ_in_number() -> None:
    order = list(order_of_units(3, "shop", 1, [500, 0, 500]))
    assert all(sorted(order[i : i + 2]) == [0, 2] for i in range(0, 1000, 2))
    uneven = list(order_of_units(3, "shop", 1, [300, 100]))
    assert Counter(uneven) == {0: 300, 1: 100}
    assert all(uneven[i : i + 40].count(1) == 10 for i in range(0, 400, 40))


def test_who_comes_before_between_or_after_phases_does_not_count(shop: Shop) -> None:
    early = shop.come(6)
    assert Counter(early.values()) == dict.fromkeys(ARMS, 2)  # nothing is known: in turn
    assert not shop.live.record("u1", 1.0)
    shop.pending(phase(1, 2, 2, 2))
    counted = shop.come(6)
    beyond = shop.come(3)
    assert sorted(beyond.values()) == sorted(ARMS)
    assert [shop.live.record(unit, 0.5) for unit in beyond] == [False] * 3
    assert all(shop.live.record(unit, 1.0) for unit in counted)
    assert not shop.live.record("u1", 0.0)  # nor is the phase of who came before it
    update = shop.update(phase(1, 2, 2, 2))
    assert (update.counts, update.means) == ((2, 2, 2), (1.0, 1.0, 1.0))
    # The next phase brings a decision: who is beyond it gets what looked best.
    following = phase(2, 0, 2, 2, previous=decided(2, (False, True, True)))
    shop.pending(following)
    assert Counter(shop.come(4).values()) == {"green": 2, "blue": 2}
    assert set(shop.come(5).values()) == {"blue"}


def test_an_option_that_is_out_is_not_given_any_more(shop: Shop) -> None:
    shop.pending(phase(1, 2, 2, 2))
    arms = shop.come(6)
    # The best one was withdrawn since: it is not the best of what is left.
    shop.pending(phase(2, 2, 2, 0, previous=decided(2, (True, True, True))))
    now = {unit: shop.live.assign(unit) for unit in arms}
    assert {unit: arm for unit, arm in now.items() if arms[unit] != "blue"} == {
        unit: arm for unit, arm in arms.items() if arm != "blue"
    }
    assert "blue" not in now.values()
    assert now == {unit: shop.live.assign(unit) for unit in arms}
    assert shop.live.wanted() == 4  # they have had their turn


# What their outcomes are --------------------------------------------------------------------------


def test_a_phase_is_ready_when_every_unit_is_final(shop: Shop) -> None:
    asked = phase(1, 2, 2, 2)
    shop.pending(asked)
    arms = shop.come(6)
    red = [unit for unit, arm in arms.items() if arm == "red"]
    shop.time.now += 599
    assert shop.live.record(red[0], 1.0)
    assert "their outcomes are waited for" in shop.pending(asked)
    shop.time.now += 1
    # What comes later than the maturity does not count, also if nobody has asked meanwhile.
    assert not shop.live.record(red[1], 1.0)
    assert shop.update(asked).means == (0.5, 0.0, 0.0)
    assert not shop.live.record(red[1], 1.0)
    assert shop.live.record(red[0], 1.0)
    # It stays ready if the clock is put back, and the answer is the same in another epoch.
    shop.time.now -= 500
    again = shop.update(phase(1, 2, 2, 2, header=header(epoch=2)))
    assert (again.means, again.header.epoch) == ((0.5, 0.0, 0.0), 2)
    assert not shop.live.record(red[1], 1.0)


def test_without_a_maturity_every_outcome_is_waited_for(tmp_path: Path) -> None:
    shop = Shop(tmp_path, PATIENT)
    asked = phase(1, 2, 2, 2)
    shop.pending(asked)
    *most, last = shop.come(6)
    assert all(shop.live.record(unit, 1.0) for unit in most)
    shop.time.now += 1e9
    detail = shop.pending(asked)
    # How many outcomes are there may be what is to be protected.
    assert detail == "6 of 6 units have come; their outcomes are waited for"
    assert shop.live.record(last, 0.0)
    assert sum(shop.update(asked).means) == 2.5
    shop.live.close()


def test_noised_means_are_sent_at_a_time_that_says_nothing_of_outcomes(tmp_path: Path) -> None:
    privacy = {"noise": "laplace", "epsilon": 2.0, "range": [0, 1], "min_pulls": 2}
    trial = read_trial({**TABLES, "live": LIVE, "min_pulls": 2, "privacy": privacy})
    assert trial.privacy is not None
    shop = Shop(tmp_path, trial)
    release = Release(mechanism=trial.privacy.mechanism(2, 3))
    asked = phase(1, 2, 2, 2, release=release)
    shop.pending(asked)
    for unit in shop.come(6):
        assert shop.live.record(unit, 1.0)
    assert "waited for" in shop.pending(asked)
    shop.time.now += 600
    assert shop.update(asked).packed
    shop.live.close()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (float("nan"), "not a finite number"),
        (float("inf"), "not a finite number"),
        (1e200, "not a finite number"),
        ("1.0", "not a finite number"),
        (None, "not a finite number"),
        (10**400, "not a finite number"),
        (True, "is a truth value; record 1.0 or 0.0"),
        (np.bool_(False), "is a truth value"),
        (1.5, "is 1.5, outside the trial's range of 0 to 1; mend"),
    ],
)
def test_a_value_that_cannot_be_is_refused(tmp_path: Path, value: Any, words: str) -> None:
    trial = read_trial({**TABLES, "live": LIVE, "range": [0, 1]})
    with LiveTrial(trial, client="shop", state=tmp_path) as live:
        live.assign("u1")
        with pytest.raises(fb.InputError, match=words) as caught:
            live.record("u1", value)
        assert caught.value.where == "value"


def test_a_unit_that_cannot_be_is_refused(shop: Shop) -> None:
    shop.pending(phase(1, 2, 2, 2))
    nameless: list[Any] = ["", 7, None, "\ud800"]
    for unit in nameless:
        with pytest.raises(fb.InputError, match="is not a name"):
            shop.live.assign(unit)
        with pytest.raises(fb.InputError, match="is not a name"):
            shop.live.record(unit, 1.0)
    with pytest.raises(fb.InputError, match="never assigned"):
        shop.live.record("stranger", 1.0)
    shop.live.assign("u1")
    assert shop.live.record("u1", 1)
    assert shop.live.record("u1", np.float64(1.0))
    with pytest.raises(fb.InputError, match=r"0\.0 for unit 'u1', whose outcome is 1\.0"):
        shop.live.record("u1", 0.0)


# Phases and runs that follow each other -----------------------------------------------------------


def test_a_later_phase_replaces_one_that_was_never_reported(shop: Shop) -> None:
    shop.pending(phase(1, 2, 2, 2))
    arms = shop.come(4)
    assert shop.live.record("u1", 1.0)
    second = phase(2, 2, 2, 2)
    assert shop.pending(second) == "0 of 6 units have come"
    assert not shop.live.record("u2", 1.0)
    assert {unit: shop.live.assign(unit) for unit in arms} == arms
    assert shop.pending(second) == "0 of 6 units have come"
    # What is late of the phase before does not bring it back.
    assert shop.played(phase(1, 2, 2, 2)) == "phase 1 is over here"
    for unit in shop.come(6):
        shop.live.record(unit, 0.25)
    assert shop.update(second).means == (0.25, 0.25, 0.25)
    assert shop.played(phase(2, 3, 3, 3)).endswith("(2, 2, 2) before")


def test_a_new_run_begins_with_new_units(shop: Shop) -> None:
    shop.pending(phase(1, 2, 2, 2))
    shop.come(6)
    for number in range(1, 7):
        shop.live.record(f"u{number}", 1.0)
    shop.update(phase(1, 2, 2, 2))
    new = header("run 2")
    assert shop.pending(phase(1, 2, 2, 2, header=new)) == "0 of 6 units have come"
    assert not shop.live.record("u1", 0.0)  # an outcome of the run before
    arms = {f"u{number}": shop.live.assign(f"u{number}") for number in range(1, 7)}
    assert Counter(arms.values()) == dict.fromkeys(ARMS, 2)
    assert all(shop.live.record(unit, 0.0) for unit in arms)
    assert shop.update(phase(1, 2, 2, 2, header=new)).means == (0.0, 0.0, 0.0)
    # The run before does not come back.
    assert '"run 2" has begun here since' in shop.pending(phase(2, 2, 2, 2), Refused.BUSY)
    store = shop.live.store
    store.conclude("run 1", decided(0, (True, False, False), reason=Reason.ONE_ARM_LEFT))
    assert shop.live.best_arm() is None


def test_other_options_begin_anew_unless_a_run_goes_on(tmp_path: Path) -> None:
    other = read_trial({**TABLES, "live": LIVE, "arms": ["x", "y"]})
    shop = Shop(tmp_path)
    shop.come(2)
    shop.live.close()
    with LiveTrial(other, client="shop", state=tmp_path) as live:
        assert live.assign("u1") in {"x", "y"}
    with shop.live:
        shop.pending(phase(1, 2, 2, 2))
        shop.come(1)
    with (
        LiveStore(live_file(tmp_path, "shop"), "shop", other) as store,
        pytest.raises(fb.InputError, match="has red, green, blue; give the service the same"),
    ):
        store.assign("u1")


def test_after_the_end_everybody_gets_the_winner(shop: Shop) -> None:
    assert shop.live.best_arm() is None
    shop.pending(phase(1, 2, 2, 2))
    arms = shop.come(4)
    assert set(arms.values()) == set(ARMS)
    ClientHost(ClientInfo(name="shop"), None, TRIAL, folder=shop.folder).conclude(concluded(1))
    assert {shop.live.assign(unit) for unit in arms} == {"green"}
    assert set(shop.come(5).values()) == {"green"}
    assert not shop.live.record("u1", 1.0)
    assert shop.live.wanted() == 0
    assert shop.played(phase(2, 2, 2, 2)) == "phase 2 is over here"
    shop.live.close()
    with LiveTrial(TRIAL, client="shop", state=shop.folder) as again:
        assert again.best_arm() == "green" == best_arm(shop.folder, "shop")


def test_what_is_forgotten_is_gone_but_not_the_phase_that_goes_on(shop: Shop) -> None:
    shop.pending(phase(1, 2, 2, 2))
    for unit in shop.come(6):
        shop.live.record(unit, 0.123456789)
    shop.update(phase(1, 2, 2, 2))
    shop.live.assign("somebody-else")
    assert shop.live.forget(before=shop.time.now + 1) == 1
    # Overwritten, and not only left out.
    shop.live.close()
    (file,) = shop.folder.glob("shop.live.sqlite")
    assert b"u6" in file.read_bytes()
    assert b"somebody-else" not in file.read_bytes()
    assert shop.update(phase(1, 2, 2, 2)).means[0] == pytest.approx(0.123456789)
    shop.pending(phase(2, 2, 2, 2))
    shop.time.now += 10
    shop.come(3)
    assert shop.live.forget(before=shop.time.now) == 6
    assert shop.live.wanted() == 3
    with pytest.raises(fb.InputError, match="is forgotten"):
        shop.live.record("u1", 1.0)


def test_forgetting_says_so_if_it_cannot_overwrite(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_store, "WAIT", 0.1)
    shop.live.close()
    shop.live.assign("somebody")
    with closing(sqlite3.connect(live_file(shop.folder, "shop"))) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM units").fetchone()
        with pytest.raises(fb.InputError, match="1 units are deleted, and not overwritten"):
            shop.live.forget(before=shop.time.now + 1)
    assert shop.live.forget(before=shop.time.now + 1) == 0
    content = b"".join(file.read_bytes() for file in shop.folder.glob("shop.live.sqlite*"))
    assert b"somebody" not in content


# The file and the whole loop ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "where", "words"),
    [
        ({"live": {"maturity": 60}}, "live.missing", "both or neither"),
        ({"live": {"missing": 0.0}}, "live.maturity", "both or neither"),
        ({"live": {"maturity": 0, "missing": 0}}, "live.maturity", "too late"),
        ({"live": {"maturity": -5, "missing": 0}}, "live.maturity", "not a number from 0"),
        ({"live": {"maturity": 60, "missing": float("nan")}}, "live.missing", "finite"),
        ({"live": {"maturity": 60, "mising": 0}}, "live.mising", "did you mean"),
        ({"live": {"maturity": 86400, "missing": 0}}, "live.maturity", "patience.deadline is 3600"),
        ({"live": LIVE, "range": [1, 2]}, "live.missing", "outside range = [1, 2]"),
        ({"live": LIVE, "interleave": False}, "interleave", "time of day"),
        ({"live": {}, "patience": {"resend": 3600}}, "patience.resend", "ask more often"),
    ],
)
def test_live_traffic_that_cannot_be_is_said_with_its_key(
    change: dict[str, Any], where: str, words: str
) -> None:
    with pytest.raises(fb.InputError) as caught:
        read_trial({**TABLES, **change})
    assert caught.value.where == where
    assert words in caught.value.problem


def test_the_page_has_every_key() -> None:
    assert set(rows(text_of("live.md"))) == set(keys_of(Live))


def test_a_trial_without_live_traffic_has_no_service(tmp_path: Path) -> None:
    plain = read_trial(TABLES)
    with pytest.raises(fb.InputError, match=r"write live = \{\}"):
        LiveTrial(plain, client="shop", state=tmp_path / "state")
    assert not (tmp_path / "state").exists()
    host = ClientHost(ClientInfo(name="a"), None, plain)
    with pytest.raises(fb.InputError, match="pull: is missing"):
        host.answer(server_of(plain).open(["a"]))
    with pytest.raises(fb.InputError, match="folder: client a has none"):
        ClientHost(ClientInfo(name="a"), None, TRIAL)


@pytest.mark.parametrize("live", [{}, LIVE])
def test_live_traffic_decides_the_same_as_pulls_with_the_same_outcomes(live: Any) -> None:
    server = try_trial(read_trial({**TABLES, "live": live}), coins(2), 30)
    assert server.decision is not None
    assert server.decision.winner is not None
    assert server.arms[server.decision.winner] == "blue"
    assert server.snapshot() == try_trial(read_trial(TABLES), coins(2), 30).snapshot()


def gaussians() -> Any:
    """Return a pull with outcomes whose sums depend on the order of adding them up."""
    streams: dict[tuple[str, str], random.Random] = {}

    def pull(arm: str, n: int, client: ClientInfo) -> list[float]:
        stream = streams.setdefault((client.name, arm), random.Random(f"{client.name} {arm}"))
        return [stream.gauss(ARMS.index(arm) / 4, 0.5) for _ in range(n)]

    return pull


def test_they_are_the_same_to_the_last_bit() -> None:
    tables = {**TABLES, "pulls": "150"}
    live = try_trial(read_trial({**tables, "live": {}}), gaussians(), 12)
    assert live.snapshot() == try_trial(read_trial(tables), gaussians(), 12).snapshot()


def test_who_has_no_traffic_is_left_out_at_the_deadline(tmp_path: Path) -> None:
    trial = read_trial({**TABLES, "live": LIVE, "admissions": "8", "quorum": {"fraction": 0.75}})
    transport = LocalTransport(maturity=600.0)
    pull = coins(3)
    news: list[str] = []

    def watch(bulletin: Bulletin) -> None:
        news.append(bulletin.news)

    for number in range(8):
        info = ClientInfo(name=f"client-{number}", number=number)
        live = LiveTrial(
            trial, client=info.name, state=tmp_path, clock=transport.clock, durable=False
        )
        host = ClientHost(info, None, trial, folder=tmp_path, live=live.store)
        quiet = number == 3
        transport.join(host, (lambda: None) if quiet else simulated_traffic(live, pull, info))
    server = server_of(trial)
    coordinator = Coordinator(
        server, transport, clock=transport.clock, patience=trial.patience, watch=watch
    )
    decision = coordinator.run()
    assert decision is not None
    assert server.arms[decision.best] == "blue"
    assert transport.now >= 3600
    assert not any("abandoned" in each for each in news)
    sent = {path.stem: len(read_audit(path)) for path in tmp_path.glob("client-*.jsonl")}
    assert sent == {f"client-{number}": decision.phase for number in range(8) if number != 3}
    assert best_arm(tmp_path, "client-0") == "blue"


def test_a_project_with_live_traffic_is_tried_with_pull_in_its_place(tmp_path: Path) -> None:
    folder = tmp_path / "my_test"
    new_project(folder)
    file = folder / "fedbandits.toml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text + "\nlive = { maturity = 600, missing = 0.0 }\n", encoding="utf-8")
    done = CliRunner().invoke(app, ["try", str(folder), "--clients", "12", "--quiet"])
    assert done.exit_code == 0, done.output
    assert "The answer is" in done.output or "best so far" in done.output
    # A service finds its trial by the folder.
    with LiveTrial(folder, client="shop", state=folder / "state") as live:
        assert live.assign("visitor") in {"red", "green", "blue"}
    client = folder / "client.py"
    client.write_text("def pull(arm, n, client): return [0.5] * (n + 1)", encoding="utf-8")
    done = CliRunner().invoke(app, ["try", str(folder)])
    assert isinstance(done.exception, fb.InputError)
    assert "returned [0.5, 0.5], 2 values; return 1 number" in str(done.exception)
    client.unlink()
    done = CliRunner().invoke(app, ["try", str(folder)])
    assert isinstance(done.exception, fb.InputError)
    assert "write a function pull" in str(done.exception)


# Lost outcomes ------------------------------------------------------------------------------------


def test_a_client_says_if_it_loses_outcomes_of_one_option(tmp_path: Path) -> None:
    watching = {"live": {**LIVE, "attrition": True}, "min_pulls": 2}
    shop = Shop(tmp_path / "watching", read_trial({**TABLES, **watching}))
    asked = phase(1, 300, 300, 300)
    shop.pending(asked)
    for number, (unit, arm) in enumerate(shop.come(900).items()):
        if arm != "red" or number % 5:
            shop.live.record(unit, 1.0)
    shop.time.now += 600
    assert shop.update(asked).uneven == (0,)
    # Nobody is told of it unless the trial asks for it.
    quiet = Shop(tmp_path / "quiet")
    quiet.pending(phase(1, 300, 300, 300))
    quiet.come(900)
    quiet.time.now += 600
    assert quiet.update(phase(1, 300, 300, 300)).uneven == ()
    with pytest.raises(InputError, match=r"live\.attrition: true, and no maturity"):
        read_trial({**TABLES, "live": {"attrition": True}})
