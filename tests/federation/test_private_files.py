"""What a federation keeps is for its own account, whatever the umask, and for a group if asked."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from fedbandits.errors import InputError
from fedbandits.federation import LiveTrial
from fedbandits.federation.durable_log import DurableLog
from fedbandits.federation.flower.command import FlowerError
from fedbandits.federation.flower.keys import make_certificates, make_node_key
from fedbandits.federation.flower.node import NodeConnection, run_node
from fedbandits.federation.host import ClientHost, ClientInfo
from fedbandits.federation.local import server_of
from fedbandits.federation.project import new_project
from fedbandits.federation.requests import leave_request
from fedbandits.federation.run import header_of
from fedbandits.federation.state_files import open_private, private_folder, write_whole
from fedbandits.federation.trial import Trial, read_trial
from fedbandits.protocol import conclusion_of
from fedbandits.protocol.records import ArmWithdrawn
from repository import DOCS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no modes")

OTHER = "fedbandits-test"


def _as_account(user: int, groups: Sequence[int], work: Callable[[], object]) -> bool:
    """Return whether something can be done by another account."""
    child = os.fork()  # and no program is started, which that account might not be able to read
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    try:
        os.setgroups(list(groups))
        os.setgid(user)
        os.setuid(user)
        work()
    except (OSError, InputError):
        os._exit(1)
    os._exit(0)


def _tables() -> dict[str, object]:
    return {
        "title": "colours",
        "arms": ["red", "blue"],
        "pulls": "10",
        "admissions": "1",
        "range": [0, 1],
        "radius": {"rule": "certified", "delta": 0.05},
        "assume": {"spread": 0.1},
        "live": {"maturity": 600, "missing": 0.0},
    }


def _trial(**changes: object) -> Trial:
    return read_trial({**_tables(), **changes})


@pytest.fixture(autouse=True)
def no_umask() -> Iterator[None]:
    """Let nothing be private by chance."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that everybody may enter."""
    folder = Path(tempfile.mkdtemp(prefix="fedbandits-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def other() -> Iterator[int]:
    """Another account of this machine."""
    if os.geteuid() != 0:
        pytest.skip("only root can make another account")
    if shutil.which("useradd") is None:
        pytest.skip("there is no useradd")
    name = f"{OTHER}-{os.getpid()}"
    subprocess.run(["useradd", "--system", "--no-create-home", name], check=True)
    found = subprocess.run(["id", "-u", name], check=True, capture_output=True, text=True)
    yield int(found.stdout)
    subprocess.run(["userdel", name], check=True, capture_output=True)


def _keep_everything(folder: Path) -> None:
    """Leave in a folder all that a server and a client keep, as it is while they run."""
    trial = _trial()
    played = read_trial({key: value for key, value in _tables().items() if key != "live"})
    with DurableLog(folder / "server" / "run.fedlog", header_of(played, "demo")) as log:
        server = server_of(played, log, "demo")
        host = ClientHost(
            ClientInfo(name="shop"), lambda _, n, __: [0.5] * n, played, folder=folder / "state"
        )
        server.receive(host.answer(server.open(["shop"])))
        server.close()
        server.stop()
        host.conclude(conclusion_of(server))
        leave_request(log.path, ArmWithdrawn(arm=0, reason="harm"))
        live = LiveTrial(trial, client="shop", state=folder / "state")
        live.assign("ada")
        make_certificates(folder / "certificates")
        make_node_key(folder / "keys", "node")
        write_whole(folder / "server" / "now.json", "{}")
        _check(folder)
        live.close()
    _check(folder)


def _check(folder: Path) -> None:
    found = {str(path.relative_to(folder)): path.stat().st_mode for path in folder.rglob("*")}
    names = {Path(name).name for name in found}
    assert {"run.fedlog", "run.fedlog.lock", "shop.jsonl", "shop.live.sqlite", "node"} <= names
    open_to_others = [name for name, mode in found.items() if mode & 0o077]
    assert open_to_others == []


def test_nothing_is_for_others_whatever_the_umask(tmp_path: Path) -> None:
    """Version 0.1.0 left the modes of all files but the keys to the umask."""
    for name in ("server", "state"):
        private_folder(tmp_path / "all" / name)
    _keep_everything(tmp_path / "all")


def test_sqlite_gives_what_it_writes_beside_a_file_the_same_mode(tmp_path: Path) -> None:
    live = LiveTrial(_trial(), client="shop", state=tmp_path / "state")
    live.assign("ada")
    beside = [tmp_path / "state" / f"shop.live.sqlite{end}" for end in ("-wal", "-shm", ".lock")]
    assert [file.stat().st_mode & 0o777 for file in beside] == [0o600] * 3
    live.close()


def test_another_account_reads_nothing(place: Path, other: int) -> None:
    for name in ("server", "state"):
        private_folder(place / "all" / name)
    _keep_everything(place / "all")
    for folder in (place / "all").rglob("*"):
        if folder.is_dir():
            folder.chmod(0o755)  # as if an operator had opened them: the files are private, too
    (place / "all").chmod(0o755)
    for file in (place / "all").rglob("*"):
        if file.is_file():
            assert not _as_account(other, (), file.read_bytes), file


def test_a_service_of_the_folders_group_shares_its_files(place: Path, other: int) -> None:
    state, shared = place / "state", 54_321  # a group that nobody else has
    state.mkdir()
    os.chown(state, 0, shared)
    state.chmod(0o2770)
    live = LiveTrial(_trial(), client="shop", state=state)
    live.assign("eve")

    def serve() -> None:
        service = LiveTrial(_trial(), client="shop", state=state)
        service.assign("ada")
        service.close()

    assert _as_account(other, (shared,), serve)
    assert not _as_account(other, (), serve)
    assert live.assign("ada") in ("red", "blue")
    live.close()
    for file in state.iterdir():
        assert (file.stat().st_mode & 0o777, file.stat().st_gid) == (0o660, shared), file


def test_what_root_makes_in_somebodys_folder_is_theirs(place: Path, other: int) -> None:
    os.chown(place, other, other)
    write_whole(place / "note.json", "{}")
    private_folder(place / "requests")
    assert {path.stat().st_uid for path in place.iterdir()} == {other}


def test_files_of_an_older_version_are_closed_to_others(tmp_path: Path) -> None:
    file = tmp_path / "shop.jsonl"
    file.write_text("")
    file.chmod(0o666)
    open_private(file, "r+b").close()
    assert file.stat().st_mode & 0o777 == 0o600
    with DurableLog(tmp_path / "run.fedlog", {"run": "demo"}):
        pass
    (tmp_path / "run.fedlog").chmod(0o644)
    with DurableLog(tmp_path / "run.fedlog"):
        assert (tmp_path / "run.fedlog").stat().st_mode & 0o777 == 0o600


def test_an_open_file_of_somebody_else_is_named(
    place: Path, other: int, caplog: pytest.LogCaptureFixture
) -> None:
    file = place / "shop.jsonl"
    file.write_text("")
    file.chmod(0o666)
    os.chown(file, other, other)
    with caplog.at_level("WARNING", logger="flwr.fedbandits"):
        open_private(file, "r+b").close()
    assert f"chmod 600 {file}" in caplog.text
    assert file.stat().st_mode & 0o777 == 0o666


def test_a_node_says_if_others_can_change_its_code_or_read_its_key(
    place: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody sends a node code; but with no umask everybody on its machine could write it."""
    project, key = place / "trial", make_node_key(place / "keys", "node").private
    assert not any(file.stat().st_mode & 0o002 for file in new_project(project))
    assert not project.stat().st_mode & 0o002

    def unreachable(*_: object) -> None:
        raise FlowerError("the clock is compared first")

    monkeypatch.setattr("fedbandits.federation.flower.node.check_clock", unreachable)
    connection = NodeConnection(superlink="127.0.0.1:1", authority=key, key=key)
    monkeypatch.setattr(os, "environ", os.environ.copy())

    def warned() -> str:
        caplog.clear()
        with (
            caplog.at_level("WARNING", logger="flwr.fedbandits"),
            pytest.raises(FlowerError),
        ):
            run_node(connection, {"project": str(project), "name": "a"})
        return caplog.text

    assert not warned()
    key.chmod(0o644)
    assert f"chmod o-r {key}" in warned()
    (project / "client.py").chmod(0o666)
    assert f"chmod o-w {project / 'client.py'}" in warned()


def test_a_link_in_a_shared_folder_leads_nowhere(place: Path) -> None:
    """Whoever may write into the folder could otherwise name any file of the node's account."""
    victim, file = place / "victim", place / "halts.json"
    victim.write_text("untouched")
    (place / f"halts.json.{os.getpid()}.new").symlink_to(victim)
    write_whole(file, "a halt")
    assert file.read_text() == "a halt"
    assert not file.is_symlink()
    lock = place / "halts.json.lock"
    lock.symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        open_private(lock, "ab")
    assert victim.read_text() == "untouched"


def _units() -> dict[str, str]:
    """Return the units of the production guide, by their names."""
    text = (DOCS / "production.md").read_text(encoding="utf-8")
    found = re.findall(r"`/etc/systemd/system/([\w-]+\.service)`:?\n\n```ini\n(.*?)```", text, re.S)
    return dict(found)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd")
@pytest.mark.parametrize(
    "name",
    ["fedbandits-superlink.service", "fedbandits-node.service", "fedbandits-run.service"],
)
def test_the_units_of_the_guide_are_hardened(tmp_path: Path, name: str) -> None:
    unit = tmp_path / name
    unit.write_text(_units()[name], encoding="utf-8")
    call = subprocess.run(
        [
            "systemd-analyze",
            "security",
            "--offline=true",
            "--threshold=40",
            "--no-pager",
            str(unit),
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    assert "Overall exposure level" in call.stdout, call.stderr
    assert call.returncode == 0, call.stdout
