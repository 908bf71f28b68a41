"""Guardrails in federations of all kinds: pull, live traffic, letters, logs, pages, audits."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from coin_trial import TABLES
from fedbandits.cli.main import app
from fedbandits.errors import InputError
from fedbandits.federation.audit_file import AuditFile, read_audit
from fedbandits.federation.coordinator import Coordinator
from fedbandits.federation.durable_log import DurableLog, read_log
from fedbandits.federation.flower.server import serve
from fedbandits.federation.followed import LoggedRun
from fedbandits.federation.halts import HaltedError
from fedbandits.federation.host import ClientHost, ClientInfo, PullByName
from fedbandits.federation.last_word import best_arm
from fedbandits.federation.live import LiveTrial
from fedbandits.federation.local import LocalTransport, try_trial
from fedbandits.federation.run import header_of
from fedbandits.federation.served import begin_or_resume
from fedbandits.federation.signing import client_key
from fedbandits.federation.state_files import audit_file, live_file
from fedbandits.federation.trial import Trial, read_trial
from fedbandits.federation.verification import UnverifiedError, verified, verify_log
from fedbandits.protocol import (
    ArmWithdrawn,
    PhaseClosed,
    Reason,
    Refused,
    Rejection,
    Release,
    RunEnded,
    UpdateAccepted,
    answer_of,
    conclusion_of,
)
from fedbandits.protocol.codec import encode
from fedbandits.run_page.page import run_html
from flower_project import of_kind
from room import Room, config, three_nodes
from shop import LIVE, Shop, phase
from signed_runs import KEYS, LOG, STATE, Timed, give_keys, rewritten

pytestmark = pytest.mark.usefixtures("in_a_run")

ADVERSE = {"name": "adverse", "goal": "min", "limit": 0.05}
GUARDED = {**TABLES, "guardrails": [ADVERSE], "pulls": "60", "admissions": "4", "max_phases": 6}
RATES = {"red": 0.25, "green": 0.5, "blue": 0.75}
HARMS_BLUE = {"red": 0.01, "green": 0.01, "blue": 0.3}


def patients(seed: int = 1, harms: dict[str, float] | None = None) -> PullByName:
    """Return a pull of coins, with who is harmed: those of the best option, by default."""
    rates = HARMS_BLUE if harms is None else harms
    rng = np.random.default_rng(seed)

    def pull(arm: str, n: int, client: ClientInfo) -> Any:
        return {
            "outcome": (rng.random(n) < RATES[arm]).astype(float),
            "adverse": (rng.random(n) < rates[arm]).astype(float),
        }

    return pull


def logged(path: Path, trial: Trial, pull: PullByName) -> LoggedRun:
    with DurableLog(path, header_of(trial, trial.title)) as log:
        try_trial(trial, pull, 8, log=log)
    return LoggedRun(path)


# The file -----------------------------------------------------------------------------------------


def test_a_trial_has_guardrails_that_share_a_level() -> None:
    second = {"name": "sleep", "goal": "max", "limit": 6, "range": [0, 24], "level": 0.001}
    trial = read_trial({**GUARDED, "guardrails": [ADVERSE, second]})
    assert [rail.words for rail in trial.guardrails] == ["adverse at most 5 %", "sleep at least 6"]
    assert [rail.level for rail in trial.guardrails] == [0.005, 0.001]
    assert read_trial(TABLES).guardrails == []


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"guardrails": [{**ADVERSE, "limit": 5}]}, r"guardrails\[0\].limit: 5 is not inside"),
        ({"guardrails": [{"name": "adverse"}]}, r"guardrails\[0\].limit: is missing"),
        ({"guardrails": [{**ADVERSE, "gaol": "min"}]}, r"gaol: is not a key here.*goal"),
        ({"guardrails": [{**ADVERSE, "goal": "low"}]}, r"guardrails\[0\].goal: .*low"),
        ({"guardrails": [ADVERSE, ADVERSE]}, r"guardrails\[1\].name: \"adverse\" is there twice"),
        ({"guardrails": ADVERSE}, "guardrails: .* is not a valid list"),
        ({"guardrails": ["adverse"]}, r"guardrails\[0\]: 'adverse' is not a table"),
        (
            {"privacy": {"range": [0, 1], "noise": "gaussian", "epsilon": 1.0, "delta": 1e-6}},
            "guardrails: clients protect their means, and sums of guardrails are not protected",
        ),
        (
            {"liars": 1, "radius": {"rule": "certified", "delta": 0.05}},
            "guardrails: clients may lie",
        ),
    ],
)
def test_what_cannot_be_watched_is_refused(keys: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read_trial({**GUARDED, **keys})


# Runs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("live", [False, True])
def test_the_best_option_is_withdrawn_if_it_harms(tmp_path: Path, live: bool) -> None:
    trial = read_trial({**GUARDED, **({"live": LIVE} if live else {})})
    run = logged(tmp_path / LOG, trial, patients())
    status = run.status()
    assert [(gone.arm, gone.when) for gone in status.course.withdrawals] == [("blue", "in phase 1")]
    assert status.course.withdrawals[0].reason.startswith("guardrail adverse: ")
    assert status.answer is not None
    assert status.answer.winner == "green"
    known = {one.arm: one for one in status.guardrails}
    assert known["blue"].state == "harmful"
    assert known["blue"].units == 240
    words = status.words()
    assert "option  guardrail  mean" in words
    assert "≤ 0.05  harmful" in words
    said = json.loads(json.dumps(status.as_dict()))["guardrails"]
    assert [one["arm"] for one in said] == ["red", "green", "blue"]
    assert said[2]["low"] > 0.05
    page = run_html(run)
    assert "Guardrails" in page
    assert "At most 1 % of runs in which every option keeps all limits withdraw one" in page
    assert "guardrail adverse: " in page


def test_if_all_harm_nothing_is_given_any_more(tmp_path: Path) -> None:
    harms = dict.fromkeys(RATES, 0.3)
    trial = read_trial(GUARDED)
    run = logged(tmp_path / LOG, trial, patients(harms=harms))
    status = run.status()
    assert status.finished
    assert status.answer is None
    assert status.state_words() == (
        "it is over: every option was withdrawn, the last by a guardrail"
    )
    found = CliRunner().invoke(app, ["status", str(tmp_path / LOG)])
    assert found.output.count("guardrail adverse: ") >= 3
    assert {arm.state.value for arm in status.arms} == {"withdrawn"}
    assert "every option was withdrawn, the last by a guardrail" in run_html(run)
    assert run.server.run_state.last_word is not None
    assert run.server.run_state.last_word.reason is Reason.HARM


def test_an_answer_says_if_nothing_is_certain_of_what_is_left() -> None:
    """With two options withdrawn, the third one is left; it may harm as well."""
    trial = read_trial({**GUARDED, "pulls": "20"})
    server = try_trial(trial, patients(harms={"red": 0.1, "green": 0.5, "blue": 0.5}), 8)
    assert set(server.withdrawn) == {1, 2}
    said = answer_of(server).words()
    assert "The answer is red" in said
    assert "The guardrail of red is adverse at most 5 %: nothing is certain yet, with " in said
    assert said in conclusion_of(server).words


def test_commands_say_what_is_watched_and_what_was_withdrawn(tmp_path: Path) -> None:
    (tmp_path / "fedbandits.toml").write_text(
        'title = "drugs"\narms = ["red", "green", "blue"]\npulls = "60"\nadmissions = "4"\n'
        'radius = { rule = "certified", delta = 0.05 }\nassume = { noise = 0.5, spread = 0.05 }\n'
        'guardrails = [{ name = "adverse", goal = "min", limit = 0.05 }]\n'
    )
    code = (
        "import numpy as np\n\nRNG = np.random.default_rng(1)\n\n\n"
        "def pull(arm, n, client):\n    harmed = RNG.random(n) < HARM.get(arm, 0.0)\n"
        "    return [(float(RNG.random() < 0.5), float(one)) for one in harmed]\n"
    )
    runner = CliRunner()
    found = runner.invoke(app, ["check", str(tmp_path / "fedbandits.toml")])
    assert "guardrail: adverse at most 5 %" in found.output
    assert "with a probability of at most 0.01" in found.output
    for harm, said in (
        ('{"blue": 0.4}', "blue is withdrawn: guardrail adverse: "),
        ('dict.fromkeys(["red", "green", "blue"], 0.4)', "every option was withdrawn, and none"),
    ):
        (tmp_path / "client.py").write_text(f"{code}\n\nHARM = {harm}\n")
        found = runner.invoke(app, ["try", str(tmp_path)])
        assert said in found.output, found.output
    (tmp_path / "client.py").write_text("def pull(arm, n, client):\n    return [0.5] * n\n")
    found = runner.invoke(app, ["try", str(tmp_path)])
    assert 'pull("' in str(found.exception)
    assert "client.py, line 1" in str(found.exception)
    assert "(outcome, adverse), or a mapping with" in str(found.exception)


def test_an_aa_run_has_guardrails_too() -> None:
    trial = read_trial({**GUARDED, "aa": True})
    server = try_trial(trial, patients(harms={"red": 0.3}), 8)
    assert set(server.withdrawn) == {0, 1, 2}  # they are all red
    assert not try_trial(trial, patients(harms={"red": 0.01}), 8).withdrawn


def project(folder: Path, **changes: Any) -> Path:
    """Write a project for nodes that are called by Flower."""
    folder.mkdir()
    tables = {**GUARDED, "patience": {"deadline": 120, "resend": 5}, "interleave": False, **changes}
    tables["assume"] = {"noise": 0.5, "spread": 0.01}

    def value(one: Any) -> str:
        if isinstance(one, dict):
            return f"{{ {', '.join(f'{key} = {value(each)}' for key, each in one.items())} }}"
        if isinstance(one, list):
            return f"[{', '.join(map(value, one))}]"
        return json.dumps(one)

    text = "\n".join(f"{key} = {value(one)}" for key, one in tables.items())
    (folder / "fedbandits.toml").write_text(f"{text}\n")
    (folder / "client.py").write_text(
        "import numpy as np\n\n\ndef pull(arm, n, client):\n"
        "    k = ['red', 'green', 'blue'].index(arm)\n"
        "    rng = np.random.default_rng([n, k, *client.name.encode()])\n"
        "    outcomes = rng.random(n) < [0.25, 0.5, 0.75][k]\n"
        "    harmed = rng.random(n) < [0.01, 0.01, 0.3][k]\n"
        "    return np.stack([outcomes, harmed], axis=1).astype(float)\n"
    )
    return folder


def test_nodes_of_flower_are_told_and_the_log_can_be_verified(tmp_path: Path) -> None:
    """A real small federation: three nodes with two clients each, signed."""
    place = project(tmp_path / "drugs")
    room = Room(three_nodes(place))
    serve(room, config(place))
    run = LoggedRun(place / LOG)
    status = run.status()
    assert [gone.arm for gone in status.course.withdrawals] == ["blue"]
    assert not status.unconfirmed
    assert status.answer is not None
    assert status.answer.winner == "green"
    assert {best_arm(place / "state", name) for name in run.server.clients} == {"green"}


# What others can verify ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a signed run in which blue is withdrawn for harm."""
    folder = tmp_path_factory.mktemp("signed")
    trial, pull = read_trial(GUARDED), patients()
    log, run = begin_or_resume(trial, folder / LOG, signed=True)
    state = folder / STATE
    state.mkdir()
    with log:
        hosts = []
        for number in range(8):
            info = ClientInfo(name=f"client-{number}", number=number)
            key = client_key(state, info.name)
            run.server.pin({info.name: key.public})
            hosts.append(ClientHost(info, pull, trial, folder=state, sign=key.sign))
        transport = LocalTransport(hosts)
        Coordinator(run.server, transport, clock=transport.clock).run()
    give_keys(folder)
    return folder


def verified_with(
    signed: Path, to: Path, change: Callable[[list[Timed]], list[Timed]]
) -> str | None:
    """Return what verify finds wrong with a log that a lying server has written and signed anew."""
    for key in signed.glob("fedbandits-server.*"):
        shutil.copy(key, to)
    path = rewritten(signed / LOG, to / LOG, change, signer=to / LOG)
    try:
        verify_log(path, signed / KEYS)
    except UnverifiedError as error:
        return str(error)
    return None


def test_a_log_with_a_withdrawal_for_harm_verifies(signed: Path, tmp_path: Path) -> None:
    assert len(of_kind(read_log(signed / LOG).records, ArmWithdrawn)) == 1
    found = verify_log(signed / LOG, signed / KEYS)
    assert "blue was withdrawn (guardrail adverse: " in found.answer
    assert verified_with(signed, tmp_path, list) is None


def without_withdrawal(records: list[Timed]) -> list[Timed]:
    return [(record, at) for record, at in records if not isinstance(record, ArmWithdrawn)]


def of_another_option(records: list[Timed]) -> list[Timed]:
    return [
        (ArmWithdrawn(arm=0, reason=record.reason), at)
        if isinstance(record, ArmWithdrawn)
        else (record, at)
        for record, at in records
    ]


def before_any_report(records: list[Timed]) -> list[Timed]:
    place = next(n for n, (one, _) in enumerate(records) if isinstance(one, UpdateAccepted))
    gone = next(one for one in records if isinstance(one[0], ArmWithdrawn))
    rest = without_withdrawal(records)
    return [*rest[:place], gone, *rest[place:]]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (without_withdrawal, "blue must be withdrawn before it"),
        (of_another_option, "no withdrawal by a guardrail follows"),
        (before_any_report, "no withdrawal by a guardrail follows"),
    ],
)
def test_a_server_that_lies_about_harm_is_found_out(
    signed: Path,
    tmp_path: Path,
    change: Callable[[list[Timed]], list[Timed]],
    problem: str,
) -> None:
    found = verified_with(signed, tmp_path, change)
    assert found is not None
    assert problem in found


def test_a_server_that_changes_what_clients_have_signed_is_found_out(
    signed: Path, tmp_path: Path
) -> None:
    def unharmed(records: list[Timed]) -> list[Timed]:
        return [
            (UpdateAccepted(replace(record.update, guardrails=((0.0,) * 3,))), at)
            if isinstance(record, UpdateAccepted)
            else (record, at)
            for record, at in without_withdrawal(records)
        ]

    found = verified_with(signed, tmp_path, unharmed)
    assert found is not None
    assert Rejection.SIGNATURE.value in found


def test_what_was_sent_is_in_the_audit(signed: Path) -> None:
    client = of_kind(read_log(signed / LOG).records, UpdateAccepted)[0].update.client
    path = audit_file(signed / STATE, client)
    (first, *_) = read_audit(path)
    assert first.update.guardrails[0][2] > 0
    assert [rail.name for rail in first.release.guardrails] == ["adverse"]
    # A client that is restarted answers the same assignment with the same update.
    assert next(iter(AuditFile(path))).release == first.release
    found = CliRunner().invoke(app, ["audit", str(path)])
    assert "adverse " in found.output
    assert "Beside each mean it sent the sum of: adverse." in found.output
    said = json.loads(CliRunner().invoke(app, ["audit", str(path), "--json"]).output)
    assert said[0]["update"]["guardrails"] == encode(first.update)["guardrails"]
    lines = path.read_text().splitlines()
    kept = json.loads(lines[0])
    kept["guardrails"][0]["sums"] = kept["guardrails"][0]["sums"][:2]
    path.with_name("other.jsonl").write_text(json.dumps(kept) + "\n")
    with pytest.raises(InputError, match="a sum for every guardrail and arm"):
        read_audit(path.with_name("other.jsonl"))


# Live traffic -------------------------------------------------------------------------------------


LIVE_TRIAL = read_trial({**GUARDED, "live": LIVE, "min_pulls": 2})
RELEASE = Release(guardrails=tuple(LIVE_TRIAL.guardrails))


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path, LIVE_TRIAL)


def test_outcomes_and_guardrails_are_recorded_together(shop: Shop) -> None:
    asked = phase(1, 14, 14, 14, release=RELEASE)
    shop.pending(asked)
    units = shop.come(42)
    for number, (unit, arm) in enumerate(units.items()):
        if number < 40:
            harmed = float(arm == "blue" and number % 2 == 0)
            assert shop.live.record(unit, 0.5, adverse=harmed)
            assert shop.live.record(unit, 0.5, adverse=harmed)  # the same again
    with pytest.raises(
        InputError, match=r"guardrails: {'adverse': 0.25} for unit 'u1', which has {'adverse': 0.0}"
    ):
        shop.live.record("u1", 0.5, adverse=0.25)
    shop.time.now += 700
    # Two have no outcome in time: they count as not harmed.
    assert not shop.live.record("u42", 0.5, adverse=1.0)
    update = shop.update(asked)
    blue = [number for number, arm in enumerate(units.values()) if arm == "blue"]
    harmed = sum(number % 2 == 0 for number in blue if number < 40)
    assert update.guardrails == ((0.0, 0.0, float(harmed)),)
    entries = read_audit(audit_file(shop.folder, "shop"))
    ledger = live_file(shop.folder, "shop")
    assert [one.wrong for one in verified(entries, ledger)] == [()]
    # A row that was changed later is found, and the file itself refuses it.
    with sqlite3.connect(ledger) as database:
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            database.execute("UPDATE guarded SET value = 1")
        database.execute("DROP TRIGGER guarded_are_kept")
        database.execute("UPDATE guarded SET value = 1 WHERE number = 1")
    database.close()
    (found,) = verified(entries, ledger)
    assert any(one.startswith("guardrail 1 of option ") for one in found.wrong)


def test_what_is_missing_counts_what_the_trial_says(tmp_path: Path) -> None:
    cautious = [{**ADVERSE, "missing": 1.0}]
    trial = read_trial({**GUARDED, "live": LIVE, "min_pulls": 2, "guardrails": cautious})
    shop = Shop(tmp_path, trial)
    asked = phase(1, 14, 14, 14, release=Release(guardrails=tuple(trial.guardrails)))
    shop.pending(asked)
    shop.come(42)
    shop.time.now += 700
    assert shop.update(asked).guardrails == ((14.0, 14.0, 14.0),)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, r"adverse: is missing; call record\(unit, value, adverse=…\)"),
        ({"adverse": 0.0, "rash": 1.0}, "rash: is no guardrail of the trial"),
        ({"adverse": 1.5}, "adverse: it is 1.5, outside the guardrail's range of 0 to 1"),
        ({"adverse": True}, "adverse: True is a truth value"),
        ({"adverse": "1"}, "adverse: '1' is not a finite number"),
        ({"adverse": float("nan")}, "adverse: nan is not a finite number"),
    ],
)
def test_a_service_that_records_something_else_is_told(
    shop: Shop, given: dict[str, Any], problem: str
) -> None:
    shop.come(1)
    with pytest.raises(InputError, match=problem):
        shop.live.record("u1", 0.5, **given)
    plain = Shop(shop.folder / "plain")
    plain.come(1)
    with pytest.raises(InputError, match="adverse: is no guardrail of the trial"):
        plain.live.record("u1", 0.5, adverse=0.0)


def test_a_server_that_asks_for_no_guardrails_gets_no_units(shop: Shop) -> None:
    """Else it could leave out the sums by which an option is withdrawn."""
    assert "guardrails: none, and here adverse at most 5 %" in shop.pending(
        phase(1, 14, 14, 14), Refused.POLICY
    )


def test_forgotten_units_take_their_guardrails_with_them(shop: Shop) -> None:
    asked = phase(1, 14, 14, 14, release=RELEASE)
    shop.pending(asked)
    for unit in shop.come(42):
        shop.live.record(unit, 0.5, adverse=1.0)
    shop.update(asked)
    shop.pending(phase(2, 14, 14, 14, release=RELEASE))
    assert shop.live.forget(before=shop.time.now + 1) == 42
    with sqlite3.connect(live_file(shop.folder, "shop")) as database:
        assert database.execute("SELECT count(*) FROM guarded").fetchone() == (0,)
    database.close()
    entries = read_audit(audit_file(shop.folder, "shop"))
    (found,) = verified(entries, live_file(shop.folder, "shop"))
    assert "forgotten" in found.unknown


def test_a_file_from_before_guardrails_were_declared_is_used_on(tmp_path: Path) -> None:
    before = Shop(tmp_path, read_trial({**TABLES, "live": LIVE, "min_pulls": 2}))
    before.come(3)
    before.live.close()
    shop = Shop(tmp_path, LIVE_TRIAL)
    asked = phase(1, 14, 14, 14, release=RELEASE)
    shop.pending(asked)
    for unit in (f"v{number}" for number in range(42)):
        shop.live.assign(unit)
        shop.live.record(unit, 0.5, adverse=0.0)
    shop.time.now += 700
    assert shop.update(asked).guardrails == ((0.0, 0.0, 0.0),)


def test_a_service_gives_nothing_if_all_options_harm(tmp_path: Path) -> None:
    trial = read_trial({**GUARDED, "live": LIVE})
    state = tmp_path / "state"
    with LiveTrial(trial, client="shop", state=state, durable=False) as live:
        server = try_trial(trial, patients(harms=dict.fromkeys(RATES, 0.4)), 8)
        last = server.run_state.last_word
        assert last is not None
        live.store.conclude(server.header.run, last)  # its recall was lost
        assert live.best_arm() is None
        with pytest.raises(HaltedError, match="give what you give without it"):
            live.assign("visitor")


def test_letters_carry_guardrails(tmp_path: Path) -> None:
    names = [f"client-{number}" for number in range(4)]
    place = project(tmp_path / "drugs", offline=names)
    log, post = place / LOG, place / "post"

    def fedbandits(*said: object) -> str:
        done = CliRunner().invoke(app, [str(word) for word in said])
        assert done.exit_code == 0, (done.output, done.exception)
        return done.output

    sites = {name: tmp_path / f"at-{name}" for name in names}
    for site in sites.values():
        shutil.copytree(place, site)
    for _ in range(8):
        shutil.rmtree(post, ignore_errors=True)
        fedbandits("post", log, "--project", place)
        replies = []
        for name, site in sites.items():
            for letter in post.glob(f"{name}-*"):
                there = Path(shutil.copy(letter, site))
                fedbandits("site", there, "--project", site)
                replies += [one for one in site.glob("*reply*") if one.stat().st_size]
        if LoggedRun(log).server.finished:
            break
        fedbandits("deliver", log, *dict.fromkeys(replies))
    run = LoggedRun(log)
    assert run.server.finished
    assert [run.trial.arms[arm] for arm in run.server.withdrawn] == ["blue"]
    give_keys(place)
    for site in sites.values():
        for key in site.glob("**/*.pub"):
            shutil.copy(key, place / KEYS)
    assert "blue was withdrawn (guardrail adverse" in verify_log(log, place / KEYS).answer


def test_a_server_that_is_resumed_in_the_middle_withdraws_the_same(tmp_path: Path) -> None:
    trial = read_trial(GUARDED)
    whole = logged(tmp_path / LOG, trial, patients())
    records = read_log(tmp_path / LOG).records
    places = [n for n, one in enumerate(records) if isinstance(one, ArmWithdrawn | PhaseClosed)]
    for cut in {*places, *(place + 1 for place in places)}:
        path = tmp_path / f"cut-{cut}.fedlog"
        header = read_log(tmp_path / LOG).header
        with DurableLog(path, header) as log:
            for record in records[:cut]:
                log.append(record)
        log, run = begin_or_resume(trial, path)
        with log:
            server = run.server
            if any(isinstance(one, RunEnded) for one in records[:cut]):
                continue
            if server.state.value == "collecting":
                server.close()
        assert dict(server.withdrawn) == dict(whole.server.withdrawn)
