"""Start-up kits: what is in each folder, and that a federation runs from the folders alone."""

from __future__ import annotations

import re
import shlex
import ssl
import stat
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import click
import pytest
import typer

from commands import Command
from documentation import blocks, text_of
from fedbandits.cli.main import app
from fedbandits.federation.durable_log import has_begun, read_log
from fedbandits.federation.flower.command import end_process
from fedbandits.federation.flower.processes import free_port
from fedbandits.federation.last_word import best_arm
from fedbandits.federation.project import new_project
from fedbandits.protocol import RunEnded
from repository import ROOT

PROGRAMS = Path(sys.executable).parent
NODES = ("clinic-1", "clinic-2")
LONGEST = 300.0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "my_test"
    new_project(folder)
    return folder


def words_of(unit: Path, key: str = "ExecStart") -> list[str]:
    """Return the command of a unit file."""
    text = unit.read_text(encoding="utf-8").replace("\\\n", " ")
    (line,) = re.findall(rf"^{key}=(.*)$", text, flags=re.MULTILINE)
    return shlex.split(line)


def environment_of(unit: Path) -> dict[str, str]:
    text = unit.read_text(encoding="utf-8")
    lines = re.findall(r"^Environment=(.*)$", text, flags=re.MULTILINE)
    return dict(pair.split("=", 1) for line in lines for pair in line.split())


def test_each_place_has_its_folder_and_each_private_key_is_in_one(
    project: Path, tmp_path: Path, command: Command
) -> None:
    (project / "secrets.csv").write_text("of patients", encoding="utf-8")
    out = tmp_path / "kit"
    options = ("--address", "trial.example.org:9092", "--out", out, "--archive")
    done = command("kit", project, "--nodes", ",".join(NODES), *options)
    assert done.code == 0, done.err
    private = [
        path for path in out.rglob("*") if path.is_file() and b"PRIVATE" in path.read_bytes()
    ]
    assert {str(path.relative_to(out)) for path in private} == {
        "server/server.key",
        "clinic-1/node.key",
        "clinic-2/node.key",
    }
    assert len({path.read_bytes() for path in private}) == 3
    for path in (*private, *out.glob("*.tar.gz")):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not list(out.rglob("secrets.csv"))
    for place in ("server", *NODES):
        readme = (out / place / "README.md").read_text(encoding="utf-8")
        assert len(readme.splitlines()) == 3
        with tarfile.open(out / f"{place}.tar.gz") as archive:
            packed = {name for name in archive.getnames() if (out / name).is_file()}
        assert packed == {
            str(path.relative_to(out)) for path in (out / place).rglob("*") if path.is_file()
        }
        subprocess.run(["sh", "-n", out / place / "install.sh"], check=True)
    strict = ["openssl", "verify", "-x509_strict", "-verify_hostname", "trial.example.org"]
    certificates = [out / "clinic-2" / "authority.pem", out / "server" / "server.pem"]
    subprocess.run([*strict, "-CAfile", *certificates], check=True, capture_output=True)


def test_nodes_are_added_to_a_kit_and_nothing_there_is_changed(
    project: Path, tmp_path: Path, command: Command
) -> None:
    out = tmp_path / "kit"
    options = ("--address", "192.0.2.7:9092", "--out", out)
    assert command("kit", project, "--nodes", "clinic-1", *options).code == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    done = command("kit", project, "--nodes", "clinic-3", *options)
    assert done.out.startswith(f"wrote {out / 'clinic-3'}\nnext")
    assert all(path.read_bytes() == content for path, content in before.items())
    authorities = [out / place / "authority.pem" for place in ("server", "clinic-3")]
    assert authorities[0].read_bytes() == authorities[1].read_bytes()
    assert {path.name for path in (out / "server" / "nodes").iterdir()} == {
        "clinic-1.pub",
        "clinic-3.pub",
    }
    done = command("kit", project, "--nodes", "clinic-1", *options)
    assert done.code == 2
    assert "clinic-1: is there already" in done.err


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"--nodes": "clinic-1,clinic-1"}, '--nodes: "clinic-1" is named twice'),
        ({"--nodes": "server"}, '--nodes: "server" cannot name a node'),
        ({"--nodes": "../x"}, '--nodes: "../x" cannot name a node'),
        ({"--nodes": ""}, '--nodes: "" cannot name a node'),
        ({"--address": "trial.example.org"}, "--address: "),
        ({"--address": "trial.example.org:99999"}, "--address: "),
        ({"--address": "trial.example.org:9093"}, "--port: 9093 is also the port of --address"),
        ({"--at": "srv"}, '--at: "srv" is not an absolute path'),
        ({"--state": "/var/my state"}, '--state: "/var/my state" is not'),
        ({"--programs": "/opt/%h"}, '--programs: "/opt/%h" is not'),
    ],
)
def test_what_no_unit_file_could_say_is_refused(
    project: Path, tmp_path: Path, command: Command, changes: dict[str, str], said: str
) -> None:
    options = {"--nodes": "clinic-1", "--address": "trial.example.org:9092"} | changes
    words = [word for pair in options.items() for word in pair]
    done = command("kit", project, *words, "--out", tmp_path / "kit")
    assert done.code == 2
    assert said in done.err
    assert not (tmp_path / "kit").exists()


def test_the_commands_of_the_units_are_those_of_the_program(
    project: Path, tmp_path: Path, command: Command
) -> None:
    out = tmp_path / "kit"
    options = ("--address", "trial.example.org:9092", "--out", out, "--at", out)
    assert command("kit", project, "--nodes", "clinic-1", *options).code == 0
    program = typer.main.get_command(app)
    assert isinstance(program, click.Group)
    for unit in ("server/fedbandits-run.service", "clinic-1/fedbandits-clinic-1.service"):
        _, name, *words = words_of(out / unit)
        assert program.commands[name].make_context(name, words).params["project"] == str(
            out / unit.split("/")[0] / "my_test"
        )
    assert (out / "server" / "config.toml").samefile(
        words_of(out / "server" / "fedbandits-run.service", "ExecStartPre")[-2]
    )


def test_the_production_guide_shows_the_units_of_the_kit(
    project: Path, tmp_path: Path, command: Command
) -> None:
    out = tmp_path / "kit"
    options = ("--address", "trial.example.org:9092", "--out", out)
    assert command("kit", project, "--nodes", "clinic-1", *options).code == 0
    shown = [unit for unit in blocks(text_of("production.md"), "ini") if unit.startswith("[Unit]")]
    shown = [text for text in shown if "Page of" not in text]  # a kit has no page of runs
    shown += blocks(text_of("production.md"), "nginx")[:1]
    own = {
        "/srv/my_test": "FOLDER/my_test",
        "/etc/fedbandits/ca.pem": "FOLDER/authority.pem",
        "/etc/fedbandits/node": "FOLDER/node.key",
        "/etc/fedbandits": "FOLDER",
        "--clients 20": "--clients 1",
    }
    for old, new in own.items():
        shown = [text.replace(old, new) for text in shown]
    made = []
    for place in ("server", "clinic-1"):
        for path in (out / place).iterdir():
            if path.suffix in {".service", ".conf"}:
                text = path.read_text(encoding="utf-8").replace(
                    f"/srv/fedbandits/{place}", "FOLDER"
                )
                made.append(text.replace(f"/var/lib/fedbandits/{place}", "/var/lib/fedbandits"))
    assert sorted(made) == sorted(shown)


def says_hello(folder: Path) -> bytes:
    """Return the certificate that a server of this folder shows to a node that knows ``ca.pem``."""
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(folder / "server.pem", folder / "server.key")
    node = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    here, there = ssl.MemoryBIO(), ssl.MemoryBIO()
    at_server = server.wrap_bio(here, there, server_side=True)
    at_node = node.wrap_bio(there, here, server_hostname="trial.example.org")
    for side in (at_node, at_server, at_node):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return at_node.getpeercert(binary_form=True) or b""


def test_a_certificate_is_renewed_as_the_guide_says_and_nodes_notice_nothing(
    tmp_path: Path,
) -> None:
    (made,) = [one for one in blocks(text_of("production.md"), "") if one.startswith("openssl ec")]
    renewed = made[made.index("openssl ecparam", 1) :]
    found = []
    for commands in (made, renewed):
        subprocess.run(["sh", "-e", "-c", commands], cwd=tmp_path, capture_output=True, check=True)
        found.append(says_hello(tmp_path))
    assert len(set(found)) == 2
    other = made[: made.index("openssl ecparam", 1)]
    subprocess.run(["sh", "-e", "-c", other], cwd=tmp_path, capture_output=True, check=True)
    with pytest.raises(ssl.SSLCertVerificationError):  # another authority signed nothing of it
        says_hello(tmp_path)


def test_containers_run_the_commands_of_the_units(
    project: Path, tmp_path: Path, command: Command
) -> None:
    out = tmp_path / "kit"
    options = ("--address", "trial.example.org:9092", "--out", out)
    assert command("kit", project, "--nodes", "clinic-1", *options).code == 0
    text = (ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8")
    services = dict(re.findall(r"^  (\w+):(.*?)(?=^  \w+:|^\w)", text, re.MULTILINE | re.DOTALL))
    units = {
        "superlink": "server/fedbandits-superlink.service",
        "run": "server/fedbandits-run.service",
        "node": "clinic-1/fedbandits-clinic-1.service",
    }
    for name, unit in units.items():
        said = services[name].partition("healthcheck:")[0]
        wanted = {word for word in words_of(out / unit) if word.startswith("--")}
        assert set(re.findall(r"--[a-z-]+", said)) == wanted


def test_plugins_of_the_trial_are_in_the_kit_if_they_are_in_the_project(
    project: Path, tmp_path: Path, command: Command
) -> None:
    radius = (
        "import fedbandits\n\n@fedbandits.RADII.register\nclass Mine(fedbandits.PaperRadius):\n"
    )
    plugin = f'{radius}    """Mine."""\n\n    rule = "mine"\n'
    (tmp_path / "outside.py").write_text(plugin, encoding="utf-8")
    (project / "rules").mkdir()
    (project / "rules" / "inside.py").write_text(plugin, encoding="utf-8")
    file = project / "fedbandits.toml"
    text = file.read_text(encoding="utf-8")
    out = tmp_path / "kit"
    options = ("--nodes", "clinic-1", "--address", "trial.example.org:9092", "--out", out)
    file.write_text(f'plugins = ["../outside.py"]\n{text}', encoding="utf-8")
    done = command("kit", project, *options)
    assert done.code == 2
    assert "a kit takes files of the project" in done.err
    assert not out.exists()
    file.write_text(f'plugins = ["rules/inside.py"]\n{text}', encoding="utf-8")
    assert command("kit", project, *options).code == 0
    for place in ("server", "clinic-1"):
        assert (out / place / "my_test" / "rules" / "inside.py").read_text("utf-8") == plugin


@contextmanager
def service(unit: Path, output: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start the command of a unit, with its environment and nothing of this process's."""
    with output.open("ab") as file:
        process = subprocess.Popen(
            words_of(unit),
            env={"PATH": f"{PROGRAMS}:/usr/bin:/bin", **environment_of(unit)},
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd="/",
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.terminate()
        end_process(process, 20.0)


@pytest.mark.slow
def test_a_federation_decides_from_the_folders_of_its_kit_alone(
    project: Path, tmp_path: Path, command: Command
) -> None:
    text = (project / "fedbandits.toml").read_text(encoding="utf-8")
    text = text.replace('pulls = "50"', 'pulls = "400"').replace("least = 4", "least = 2")
    (project / "fedbandits.toml").write_text(text, encoding="utf-8")
    out, state, port = tmp_path / "kit", tmp_path / "state", free_port()
    options = ("--at", out, "--state", state, "--programs", PROGRAMS, "--port", port)
    address = ("--address", f"127.0.0.1:{port}", "--out", out)
    assert (
        command("kit", project, "--nodes", ",".join(NODES), *address, *map(str, options)).code == 0
    )
    project.rename(tmp_path / "elsewhere")
    server, run = out / "server", out / "server" / "fedbandits-run.service"
    for place in ("server", *NODES):
        (state / place).mkdir(parents=True)
    with ExitStack() as stack:
        link = service(server / "fedbandits-superlink.service", tmp_path / "superlink.txt")
        superlink = stack.enter_context(link)
        home = {**environment_of(run), "FLWR_HOME": str(server)}
        for place in NODES:
            register = ["supernode", "register", str(server / "nodes" / f"{place}.pub"), "my-test"]
            while subprocess.run([PROGRAMS / "flwr", *register], env=home, check=False).returncode:
                assert superlink.poll() is None
                time.sleep(0.5)
            unit = out / place / f"fedbandits-{place}.service"
            stack.enter_context(service(unit, tmp_path / f"{place}.txt"))
        subprocess.run(words_of(run, "ExecStartPre"), check=True)
        coordinate = stack.enter_context(service(run, tmp_path / "run.txt"))
        assert coordinate.wait(LONGEST) in {0, 3}, (tmp_path / "run.txt").read_text(
            encoding="utf-8"
        )
    log = state / "server" / "run.fedlog"
    assert has_begun(log)
    ended = [record for record in read_log(log).records if isinstance(record, RunEnded)]
    assert len(ended) == 1
    for place in NODES:
        assert best_arm(state / place / "state", place) == "blue"
