"""Sites without a network: letters, replies, and all that happens to files on their way."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import zxingcpp
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from typer.testing import CliRunner

from fedbandits.cli.main import app
from fedbandits.errors import InputError
from fedbandits.federation.durable_log import has_begun, read_log
from fedbandits.federation.flower.server import serve
from fedbandits.federation.followed import LoggedRun
from fedbandits.federation.last_word import best_arm
from fedbandits.federation.letters import (
    LETTER,
    REPLY,
    Letter,
    SiteReply,
    _bytes,
    _letter_file,
    _reply_file,
    inbox,
)
from fedbandits.federation.live import LiveTrial
from fedbandits.federation.local import load_pull, try_trial
from fedbandits.federation.qr_code import PREFIX, packed, unpacked, write_code
from fedbandits.federation.served import begin_or_resume
from fedbandits.federation.signing import (
    SERVER,
    SigningKey,
    client_key,
    public_line,
    server_key,
    signing_key,
)
from fedbandits.federation.trial import load_trial
from fedbandits.federation.verification import verify_log
from fedbandits.protocol import (
    ClientHalted,
    Halt,
    KeyPinned,
    RecallConfirmed,
    Refused,
    ServerState,
    UpdateAccepted,
    UpdateRejected,
)
from fedbandits.rules.guarantees import Assumption
from flower_project import TRIAL, decided, write_project
from room import Room
from signed_runs import KEYS, LOG, give_keys

CLIENTS = [f"client-{number}" for number in range(4)]
CHANGES: dict[str, Any] = {"admissions": "4"}


def fedbandits(*said: object, code: int = 0, typed: str = "") -> str:
    """Run a command that ends with this exit code; return what it prints."""
    done = CliRunner().invoke(app, [str(word) for word in said], input=typed)
    found = 2 if isinstance(done.exception, InputError) else done.exit_code
    assert found == code, (done.output, done.exception)
    return done.output if done.exception is None else f"{done.output}{done.exception}"


def letters(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{LETTER}"))


class Sites:
    """Sites that have the project each, and get letters from a log."""

    def __init__(self, project: Path, log: Path, names: list[str]) -> None:
        self.log, self.post = log, project / "post"
        self.places = {name: project.parent / f"at-{name}" for name in names}
        for place in self.places.values():
            shutil.copytree(project, place, ignore=shutil.ignore_patterns("*.fedlog*", "keys"))

    def carried(self, letter: Path) -> Path:
        """Bring a letter to its site."""
        name = letter.name.rpartition("-phase")[0] or letter.name.removesuffix(f"-end{LETTER}")
        return Path(shutil.copy(letter, self.places[name]))

    def reply(self, letter: Path, code: int = 0) -> Path:
        """Let a site answer a letter; return the file that it sends back."""
        there = self.carried(letter)
        fedbandits("site", there, "--project", there.parent, code=code)
        return there.with_name(there.name.replace(LETTER, REPLY))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path / "server", **CHANGES, offline=CLIENTS)


@pytest.fixture
def sites(project: Path) -> Sites:
    return Sites(project, project / LOG, CLIENTS)


def posted(sites: Sites, project: Path) -> list[Path]:
    shutil.rmtree(sites.post, ignore_errors=True)
    fedbandits("post", sites.log, "--project", project)
    return letters(sites.post)


def test_a_run_without_any_network_decides_what_one_with_it_does(
    project: Path, sites: Sites
) -> None:
    for phase in range(1, 4):
        got = posted(sites, project)
        assert [path.name for path in got] == [f"{name}-phase-{phase}{LETTER}" for name in CLIENTS]
        fedbandits("deliver", sites.log, *map(sites.reply, got))
    assert LoggedRun(sites.log).server.finished
    assert not list(inbox(sites.log).iterdir())
    together = try_trial(load_trial(project), load_pull(project), len(CLIENTS))
    assert decided(read_log(sites.log).records) == decided(together.log)
    ends = posted(sites, project)
    assert len(ends) == len(CLIENTS)
    for letter in ends:
        there = sites.carried(letter)
        assert "the run is over: blue" in fedbandits("site", there, "--project", there.parent)
        name = letter.name.removesuffix(f"-end{LETTER}")
        assert best_arm(there.parent / "state", name) == "blue"
    keys = give_keys(project)
    for name, place in sites.places.items():
        shutil.copy(place / "state" / f"{name}.pub", keys)
    assert verify_log(sites.log, keys).clients == len(CLIENTS)


def test_late_repeated_lost_and_damaged_files_change_nothing(project: Path, sites: Sites) -> None:
    first = posted(sites, project)
    one, two, three, four = map(sites.reply, first)
    damaged = one.with_name(f"damaged{REPLY}")
    damaged.write_text(one.read_text().replace("0.", "1.", 1), encoding="utf-8")
    said = fedbandits("deliver", sites.log, damaged, two, code=2)
    assert "was changed on its way" in said
    assert "what client-1 says is handed in" in said
    cut = one.with_name(f"cut{REPLY}")
    cut.write_text(one.read_text()[:100], encoding="utf-8")
    assert "is damaged" in fedbandits("deliver", sites.log, cut, code=2)
    # A letter is lost, and written again; the site answers both with the same numbers.
    again = posted(sites, project)
    assert [path.name.partition("-phase")[0] for path in again] == [
        name for name in CLIENTS if name != "client-1"
    ]
    numbers = json.loads(one.read_text())["reply"]["replies"]
    assert json.loads(sites.reply(again[0]).read_text())["reply"]["replies"] == numbers
    assert "was delivered before" in fedbandits("deliver", sites.log, two)
    fedbandits("deliver", sites.log, four, four, three)
    assert LoggedRun(sites.log).server.phase == 1
    fedbandits("deliver", sites.log, one)
    assert LoggedRun(sites.log).server.phase == 2
    assert "comes too late" in fedbandits("deliver", sites.log, three)
    records = read_log(sites.log).records
    updates = [each for each in records if isinstance(each, UpdateAccepted)]
    assert len(updates) == len(CLIENTS)
    assert not list(inbox(sites.log).iterdir())


def test_files_of_others_are_refused(project: Path, sites: Sites, tmp_path: Path) -> None:
    one, two, *_ = posted(sites, project)
    reply = sites.reply(one)
    # At another site.
    sites.reply(two)
    wrong = Path(shutil.copy(one, sites.places["client-1"]))
    said = fedbandits("site", wrong, "--project", wrong.parent, code=2)
    assert 'is for client "client-0"' in said
    # Of another server, once one is known.
    other = write_project(tmp_path / "another" / "server", **CHANGES, offline=CLIENTS)
    strangers = Sites(other, other / LOG, ["client-0"])
    letter = posted(strangers, other)[0]
    there = Path(shutil.copy(letter, sites.places["client-0"] / f"x{LETTER}"))
    said = fedbandits("site", there, "--project", there.parent, code=2)
    assert "is not a key of the server" in said
    # Of another run.
    assert "is of run" in fedbandits("deliver", other / LOG, reply, code=2)
    # With another key than the first.
    fedbandits("deliver", sites.log, reply)
    shutil.rmtree(sites.places["client-0"] / "state")
    assert "is not the key of client-0" in fedbandits(
        "deliver", sites.log, sites.reply(one), code=2
    )


def forged(path: Path, said: Letter | SiteReply, key: SigningKey) -> Path:
    """Write a letter or a reply that somebody signs with a key of theirs."""
    said = replace(said, key=key.public)
    said = replace(said, signature=key.sign(_bytes(said)))
    if isinstance(said, Letter):
        _letter_file(path).write(said)
    else:
        _reply_file(path).write(said)
    return path


@pytest.mark.parametrize("content", [b"[" * 200_000, b"1", b"", b"\xff\xfe\xfa", b"9" * 6000])
def test_a_bad_file_is_refused_and_the_others_are_delivered(
    project: Path, sites: Sites, content: bytes
) -> None:
    letter = posted(sites, project)[0]
    bad = project / f"bad{REPLY}"
    bad.write_bytes(content)
    fedbandits("site", bad, "--project", project, code=2)
    assert "is damaged" in fedbandits("deliver", sites.log, bad, sites.reply(letter), code=2)
    assert CLIENTS[0] not in LoggedRun(sites.log).server.missing


def test_what_is_no_file_is_not_read(project: Path, sites: Sites) -> None:
    posted(sites, project)
    endless, huge = project / f"endless{REPLY}", project / f"huge{REPLY}"
    endless.symlink_to("/dev/zero")
    with huge.open("wb") as file:
        file.truncate(2**40)
    said = fedbandits("deliver", sites.log, endless, huge, code=2)
    assert "is not a file" in said
    assert "more than 67108864 bytes" in said


def test_a_reply_may_be_written_in_another_encoding(project: Path, sites: Sites) -> None:
    reply = sites.reply(posted(sites, project)[0])
    reply.write_text(reply.read_text(encoding="utf-8"), encoding="utf-16")
    fedbandits("deliver", sites.log, reply)
    assert CLIENTS[0] not in LoggedRun(sites.log).server.missing


def test_a_stranger_pins_no_key_and_stalls_no_run(project: Path, sites: Sites) -> None:
    got = posted(sites, project)
    assignment = LoggedRun(sites.log).server.assignment
    assert assignment is not None
    stranger = signing_key(project / "stranger.key", "client x")

    def refused(name: str, why: str, *replies: Any) -> None:
        said = SiteReply(client=name, key=b"", replies=replies)
        reply = forged(project / f"forged{REPLY}", said, stranger)
        assert why in fedbandits("deliver", sites.log, reply, code=2)

    refused(CLIENTS[0], "says nothing")
    refused("on a node", "gets no letters", assignment.refused("on a node", Refused.ARMS))
    refused("x" * 5000, "is not a name")
    ahead = assignment.refused(CLIENTS[0], Refused.PLAYED)
    refused(CLIENTS[0], "keeps to itself", ahead)
    assert not any(isinstance(each, KeyPinned) for each in read_log(sites.log).records)
    fedbandits("deliver", sites.log, *map(sites.reply, got))
    assert LoggedRun(sites.log).decided == 1


def test_a_repeated_receipt_does_not_bring_a_halt_back(project: Path, sites: Sites) -> None:
    posted(sites, project)
    fedbandits("withdraw", sites.log, "red", "--reason", "rash")
    reply = sites.reply(posted(sites, project)[0])
    said = _reply_file(reply).read()
    assert said is not None
    halt = Halt(arms=(1,), reason="checked")
    key = client_key(sites.places[CLIENTS[0]] / "state", CLIENTS[0])
    receipt = replace(said.replies[0], halt=halt)
    forged(reply, replace(said, replies=(receipt, *said.replies[1:])), key)
    for _ in range(2):  # the update, which comes after the receipt, says that nothing is halted
        fedbandits("deliver", sites.log, reply)
        assert not LoggedRun(sites.log).server.run_state.halts
    told = [each for each in read_log(sites.log).records if isinstance(each, ClientHalted)]
    assert [each.arms for each in told] == [(1,), ()]


def test_a_letter_that_is_refused_pins_no_key_of_a_server(project: Path, sites: Sites) -> None:
    letter = posted(sites, project)[0]
    place = sites.places[CLIENTS[0]]
    (place / "state").mkdir()
    client_key(place / "state", CLIENTS[0])
    stranger = signing_key(project / "stranger.key", SERVER)
    said = Letter(client=CLIENTS[1], key=b"", messages=())
    other = forged(place / f"other{LETTER}", said, stranger)
    fedbandits("site", other, "--project", place, code=2)
    assert not (place / "keys").exists()
    # A key that was put there by hand and says of itself that it is another's is not replaced.
    kept = place / "keys" / "fedbandits-server.pub"
    kept.parent.mkdir()
    kept.write_text(public_line(server_key(sites.log).public, "root@server"), encoding="utf-8")
    mine = forged(other, replace(said, client=CLIENTS[0]), stranger)
    assert 'let its line end with "server"' in fedbandits("site", mine, "--project", place, code=2)
    kept.write_text(public_line(server_key(sites.log).public, SERVER), encoding="utf-8")
    assert sites.reply(letter).exists()


def test_a_reply_counts_after_the_server_was_restarted(project: Path, sites: Sites) -> None:
    got = posted(sites, project)
    begin_or_resume(load_trial(project), sites.log)[0].close()
    assert LoggedRun(sites.log).server.header.epoch == 2
    fedbandits("deliver", sites.log, *map(sites.reply, got))
    assert LoggedRun(sites.log).decided == 1
    assert not any(isinstance(each, UpdateRejected) for each in read_log(sites.log).records)


def test_a_withdrawal_travels_with_the_next_letter(project: Path, sites: Sites) -> None:
    posted(sites, project)
    fedbandits("withdraw", sites.log, "red", "--reason", "rash")
    for letter in posted(sites, project):
        fedbandits("deliver", sites.log, sites.reply(letter))
    told = [each for each in read_log(sites.log).records if isinstance(each, RecallConfirmed)]
    assert {client for each in told for client in each.clients} == set(CLIENTS)
    assert LoggedRun(sites.log).decided == 1


def test_a_phase_is_decided_by_a_quorum_if_somebody_says_so(tmp_path: Path) -> None:
    changes = CHANGES | {"quorum": {"fraction": 0.5}, "assume": TRIAL["assume"]}
    project = write_project(tmp_path / "server", **changes, offline=CLIENTS)
    sites = Sites(project, project / LOG, CLIENTS)
    got = posted(sites, project)
    fedbandits("deliver", sites.log, sites.reply(got[0]))
    assert "too few have reported" in fedbandits("post", sites.log, "--decide", code=2)
    fedbandits("deliver", sites.log, sites.reply(got[1]))
    fedbandits("post", sites.log, "--decide")
    run = LoggedRun(sites.log)
    assert (run.decided, run.server.state) == (1, ServerState.COLLECTING)
    answer = run.answer()
    assert answer is not None
    assert Assumption.NO_SELECTION.value in answer.words()  # two were not heard


def test_live_traffic_at_a_site_is_answered_once_its_outcomes_are_there(tmp_path: Path) -> None:
    project = write_project(
        tmp_path / "server", **CHANGES, offline=CLIENTS, live={}, interleave=True
    )
    sites = Sites(project, project / LOG, CLIENTS)
    letter = posted(sites, project)[0]
    there = sites.carried(letter)
    said = fedbandits("site", there, "--project", there.parent, code=3)
    assert "not all of its outcomes are there yet" in said
    trial = load_trial(there.parent)
    with LiveTrial(trial, client=CLIENTS[0], state=there.parent / "state") as live:
        for number in range(live.wanted()):
            arm = live.assign(f"unit-{number}")
            live.record(f"unit-{number}", 0.9 if arm == "blue" else 0.2)
    fedbandits("deliver", sites.log, sites.reply(letter))
    assert CLIENTS[0] not in LoggedRun(sites.log).server.missing


def test_a_run_on_a_network_is_not_opened_by_letters(project: Path, sites: Sites) -> None:
    begin_or_resume(load_trial(project), sites.log, signed=True)[0].close()
    assert posted(sites, project) == []
    assert LoggedRun(sites.log).server.phase == 0
    assert "which decides" in fedbandits("post", sites.log, "--decide", code=2)


def test_a_site_needs_neither_flower_nor_a_server() -> None:
    code = (
        "import sys; sys.modules['flwr'] = None\n"
        "import fedbandits.federation.letters, fedbandits.cli.main\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_letters_need_signatures(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="letters are signed"):
        load_trial(write_project(tmp_path / "a", offline=["x"], signed=False))


@pytest.mark.usefixtures("in_a_run")
def test_two_nodes_and_two_sites_without_a_network_decide_what_four_nodes_do(
    tmp_path: Path,
) -> None:
    patience = TRIAL["patience"]
    online = write_project(tmp_path / "online", **CHANGES)
    nodes = {
        node: {"project": str(online), "name": "client", "first": 2 * node, "clients": 2}
        for node in range(2)
    }
    serve(Room(nodes), {"project": str(online), "clients": 4})
    mixed = write_project(tmp_path / "mixed", **CHANGES, patience=patience, offline=CLIENTS[2:])
    sites = Sites(mixed, mixed / LOG, CLIENTS[2:])
    nodes = {
        node: {"project": str(mixed), "name": "client", "first": node, "clients": 1}
        for node in range(2)
    }
    failed: list[BaseException] = []

    def serving() -> None:
        try:
            serve(Room(nodes), {"project": str(mixed), "clients": 4})
        except BaseException as error:
            failed.append(error)
            raise

    server = threading.Thread(target=serving)
    server.start()
    for phase in range(1, 4):
        wait_for(partial(waits_in, sites.log, phase))
        shutil.rmtree(sites.post, ignore_errors=True)
        fedbandits("post", sites.log)
        one, two = map(sites.reply, letters(sites.post))
        damaged = two.with_name(f"damaged{REPLY}")
        damaged.write_text(two.read_text().replace("0.", "1.", 1), encoding="utf-8")
        fedbandits("deliver", sites.log, two, damaged, code=2)
        fedbandits("deliver", sites.log, two)  # twice
        wait_for(lambda: LoggedRun(sites.log).server.missing == ("client-2",))
        fedbandits("deliver", sites.log, one)  # late
    server.join(60)
    assert not failed
    assert not server.is_alive()
    assert decided(read_log(sites.log).records) == decided(read_log(online / LOG).records)
    keys = give_keys(mixed)
    for name, place in sites.places.items():
        shutil.copy(place / "state" / f"{name}.pub", keys)
    assert verify_log(sites.log, mixed / KEYS).clients == 4


def waits_in(log: Path, phase: int) -> bool:
    if not has_begun(log):
        return False
    server = LoggedRun(log).server
    return server.phase == phase and set(server.missing) == {"client-2", "client-3"}


def wait_for(happens: Callable[[], bool]) -> None:
    """Wait until something has happened; the test is over if it never does."""
    for _ in range(600):
        if happens():
            return
        time.sleep(0.1)
    raise TimeoutError


def test_qr_codes_carry_a_run_as_files_do(
    project: Path, sites: Sites, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but what a scanner reads goes to and fro."""
    for phase in range(1, 4):
        fedbandits("post", sites.log, "--project", project, "--qr")
        typed = []
        for name, place in sites.places.items():
            code = sites.post / f"{name}-phase-{phase}.letter.png"
            monkeypatch.chdir(place)
            fedbandits("site", "-", "--qr", typed=scan(code))
            (reply,) = place.glob("*.reply.png")
            typed.append(scan(reply))
            reply.unlink()
        monkeypatch.chdir(tmp_path)
        fedbandits("deliver", sites.log, "-", typed="".join(typed))
    together = try_trial(load_trial(project), load_pull(project), len(CLIENTS))
    assert decided(read_log(sites.log).records) == decided(together.log)


def test_a_code_that_is_not_read_whole_is_refused(
    project: Path, sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    letter = posted(sites, project)[0]
    monkeypatch.chdir(next(iter(sites.places.values())))
    text = packed(letter.read_bytes())
    other = "0" if text[40] != "0" else "1"
    for wrong in (text[:-1], text[:-3], f"{text}00", text[:40] + other + text[41:], f"{PREFIX}a"):
        said = fedbandits("site", "-", typed=f"{wrong}\n", code=2)
        assert "scan it once more" in said or "was changed on its way" in said
    assert "0 codes were scanned" in fedbandits("site", "-", code=2)
    bomb = packed(json.dumps("0" * 10**8).encode())
    assert "scan it once more" in fedbandits("site", "-", typed=bomb, code=2)


@given(st.recursive(st.text() | st.integers(), st.lists))
def test_a_code_holds_any_file(value: object) -> None:
    text = packed(json.dumps(value).encode())
    assert json.loads(unpacked(f"{text}\r\n".encode(), "", most=10**6)) == value


def test_a_letter_that_is_too_large_for_a_code_is_written_without_one(tmp_path: Path) -> None:
    path = tmp_path / "a.letter.json"
    path.write_text(json.dumps(random.Random(1).randbytes(3000).hex()), encoding="utf-8")
    assert write_code(path) is None
    path.write_text(json.dumps(random.Random(1).randbytes(1500).hex()), encoding="utf-8")
    assert write_code(path) == tmp_path / "a.letter.png"


def scan(code: Path) -> str:
    """Return what a scanner types when it sees the picture."""
    with Image.open(code) as picture:
        (seen,) = zxingcpp.read_barcodes(picture.convert("L"))
    return f"{seen.text}\n"
