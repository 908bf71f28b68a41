"""A start-up kit: one folder for each place of a federation, with all that its machine needs.

The server's folder has its certificate, and the public keys of the nodes. The folder of a node has
its private key, which is nowhere else. The key of the certificates' authority is forgotten at once.
"""

from __future__ import annotations

import re
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from fedbandits.errors import InputError, file_errors
from fedbandits.federation.flower.keys import make_certificates, make_node_key
from fedbandits.federation.flower.processes import HOST, connection_text
from fedbandits.federation.local import CLIENT_FILE
from fedbandits.federation.signing import KEYS_FOLDER
from fedbandits.federation.state_files import open_private, private_folder, write_whole
from fedbandits.federation.trial import FILE, load_trial
from fedbandits.plugins import load_tables, plugins_of

SERVER = "server"
"""The folder of the server."""

_AUTHORITY = "authority.pem"
_NODE_KEY = "node.key"
_OF_A_SERVER = ("superlink.service", "run.service", "nginx.conf")

# No character that systemd, nginx or a shell takes for something else.
_PATH = re.compile(r"/[\w./+-]*", re.ASCII)
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,59}")
_ADDRESS = re.compile(r"([A-Za-z0-9][A-Za-z0-9.-]*):([0-9]{1,5})")
_TAKEN = (SERVER, "superlink", "run")
_MOST_PORTS = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit:
    """A federation to set up.

    Parameters
    ----------
    project : path
        Its trial.
    address : str
        Host and port by which nodes call the server.
    port : int
        Of the SuperLink, on the server's machine alone.
    at, state : str
        The folders of a machine with the folder of its place, and with what the place keeps.
    programs : str
        The folder of a machine with the programs of fedbandits and Flower.

    Raises
    ------
    InputError
        If the project has a mistake, or one of these cannot be written into a unit file.
    """

    project: Path
    address: str
    port: int
    at: str
    state: str
    programs: str

    def __post_init__(self) -> None:
        load_trial(self.project)
        for path in self._plugins:
            if not path.is_relative_to(self.project.resolve()):
                raise InputError(
                    "plugins", f"{path} is not in {self.project}; a kit takes files of the project"
                )
        for option in ("at", "state", "programs"):
            said = getattr(self, option)
            if not _PATH.fullmatch(said):
                raise InputError(
                    f"--{option}",
                    f'"{said}" is not an absolute path of letters, digits and . _ + - alone',
                )
        if not re.fullmatch(r"[A-Za-z][\w-]*", self.name, re.ASCII):
            raise InputError(
                str(self.project),
                f'"{self.name}" cannot name services; use letters, digits, - and _, a letter first',
            )
        found = _ADDRESS.fullmatch(self.address)
        if found is None or not 0 < int(found[2]) <= _MOST_PORTS:
            raise InputError(
                "--address",
                f'"{self.address}" is not a host and a port, such as trial.example.org:9092',
            )
        if self.port == self.public_port and not self.is_local:
            raise InputError(
                "--port",
                f"{self.port} is also the port of --address, which the proxy listens on; name"
                " another",
            )

    @property
    def name(self) -> str:
        """The project's."""
        return self.project.absolute().name

    @property
    def _plugins(self) -> list[Path]:
        """The plugin files of its trial."""
        listed = plugins_of(load_tables(self.project / FILE))
        return [Path(plugin.path).resolve() for plugin in listed]

    @property
    def host(self) -> str:
        """The server's, as nodes call it."""
        return self.address.rpartition(":")[0]

    @property
    def public_port(self) -> int:
        """The port that nodes call."""
        return int(self.address.rpartition(":")[2])

    @property
    def is_local(self) -> bool:
        """Whether all nodes are on the server's machine, and call the SuperLink itself."""
        return self.host in (HOST, "localhost")

    def folder(self, place: str) -> str:
        """Return where the folder of a place is on its machine."""
        return f"{self.at.rstrip('/')}/{place}"

    def write(self, out: Path, nodes: Sequence[str], *, archive: bool = False) -> list[Path]:
        """Write the folders, or add nodes to those that are there; return what was written.

        Parameters
        ----------
        out : path
            The folder for them. If it has a server's folder, that one only gets the public keys of
            new nodes.
        nodes : sequence of str
            Names of the new nodes; each has one client, of the same name.
        archive : bool
            Whether to pack each new folder as well.

        Raises
        ------
        InputError
            If a name cannot be one, a node is there already, or a file cannot be written.
        """
        _check_names(nodes)
        server = out / SERVER
        for place in nodes:
            if (out / place).exists():
                raise InputError(
                    str(out / place), "is there already; leave it out, or remove it for a new key"
                )
        with file_errors(out, "cannot be written"):
            written = [out / place for place in nodes]
            if not (server / _AUTHORITY).exists():
                self._write_server(server, len(nodes))
                written = [server, *written]
            for place in nodes:
                self._write_node(out / place, server)
            if archive:
                written += [_packed(folder) for folder in written]
        return written

    def _write_server(self, folder: Path, clients: int) -> None:
        make_certificates(private_folder(folder), self.host)
        connection = self.name.replace("_", "-").lower()
        units = ["fedbandits-superlink", "fedbandits-run"]
        said = {"CLIENTS": clients, "CONNECTION": connection, "UNITS": " ".join(units)}
        for template in _OF_A_SERVER:
            if template.endswith(".service"):
                self._render(template, folder / f"fedbandits-{template}", said)
            elif not self.is_local:
                self._render(template, folder / template, said)
        self._render("install.sh", folder / "install.sh", said)
        authority = f"{self.folder(SERVER)}/{_AUTHORITY}"
        at = f"{HOST}:{self.port}"
        write_whole(folder / "config.toml", connection_text(connection, at, authority))
        self._copy_project(folder, KEYS_FOLDER)
        proxy = f", and nginx for {self.folder(SERVER)}/nginx.conf"
        _write_readme(
            folder,
            f"{self._to_install}{'' if self.is_local else proxy}.",
            f"As root, run `sh install.sh`: it copies this folder to {self.folder(SERVER)} and"
            " starts the services.",
            f"For each key of the folder nodes: `FLWR_HOME={self.folder(SERVER)}"
            f" {self.programs}/flwr supernode register nodes/NAME.pub {connection}`.",
        )

    def _write_node(self, folder: Path, server: Path) -> None:
        place = folder.name
        key = make_node_key(private_folder(folder), _NODE_KEY)
        public = private_folder(server / "nodes") / f"{place}.pub"
        write_whole(public, f"{key.public.read_text(encoding='utf-8')} {place}\n")
        shutil.copyfile(server / _AUTHORITY, folder / _AUTHORITY)
        unit = f"fedbandits-{place}"
        self._render("node.service", folder / f"{unit}.service", {})
        self._render("install.sh", folder / "install.sh", {"UNITS": unit})
        self._copy_project(folder, CLIENT_FILE)
        _write_readme(
            folder,
            f"{self._to_install}.",
            f"Read {self.name}/{CLIENT_FILE}, which runs here, and put what it needs beside it.",
            f"As root, run `sh install.sh`: it copies this folder to {self.folder(place)} and"
            f" starts the service {unit}.",
        )

    @property
    def _to_install(self) -> str:
        return (
            f"Install Python's package fedbandits[flower,privacy] {version('fedbandits')}, so that"
            f" its programs are in {self.programs}"
        )

    def _copy_project(self, folder: Path, own: str) -> None:
        """Copy what a place needs of the project, and nothing else that may lie there."""
        project, to = self.project.resolve(), private_folder(folder / self.name)
        for path in (project / FILE, project / own, *self._plugins):
            target = to / path.relative_to(project)
            private_folder(target.parent)
            if path.is_dir():
                shutil.copytree(path, target)
            elif path.exists():  # a trial with live traffic has no client.py
                shutil.copyfile(path, target)

    def _render(self, template: str, path: Path, said: Mapping[str, object]) -> None:
        """Write a file of the template for the folder that it goes to."""
        place = path.parent.name
        values: dict[str, object] = {
            "HARDENED": _template("hardened.txt"),
            "FOLDER": self.folder(place),
            "STATE": f"{self.state.rstrip('/')}/{place}",
            "HOME": self.state,
            "PROGRAMS": self.programs.rstrip("/"),
            "PROJECT": self.name,
            "PLACE": place,
            "ADDRESS": self.address,
            "HOST": self.host,
            "PUBLIC": self.public_port,
            "PORT": self.port,
            **said,
        }
        text = re.sub(r"@([A-Z]+)@", lambda found: str(values[found[1]]), _template(template))
        write_whole(path, text)


def _template(name: str) -> str:
    source = files("fedbandits.federation") / "template" / "kit" / name
    return source.read_text(encoding="utf-8")


def _check_names(nodes: Sequence[str]) -> None:
    for place in nodes:
        if not _NAME.fullmatch(place) or place in _TAKEN:
            raise InputError(
                "--nodes",
                f'"{place}" cannot name a node; use small letters, digits and . _ -, and not'
                f" {', '.join(_TAKEN)}",
            )
        if nodes.count(place) > 1:
            raise InputError("--nodes", f'"{place}" is named twice')


def _write_readme(folder: Path, *lines: str) -> None:
    text = "".join(f"{number}. {line}\n" for number, line in enumerate(lines, 1))
    write_whole(folder / "README.md", text)


def _packed(folder: Path) -> Path:
    """Pack a folder; the archive is for the account that makes it alone."""
    path = folder.with_name(f"{folder.name}.tar.gz")
    with (
        open_private(path, "xb") as file,
        tarfile.open(fileobj=file, mode="w:gz") as archive,
    ):
        archive.add(folder, arcname=folder.name)
    return path
