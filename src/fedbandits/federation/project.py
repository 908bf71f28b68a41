"""A new project: a trial that runs as it is, for the user to change."""

import re
import stat
from importlib.resources import files
from pathlib import Path

from fedbandits.errors import InputError, file_errors
from fedbandits.federation.local import CLIENT_FILE
from fedbandits.federation.state_files import private_folder, write_whole
from fedbandits.federation.trial import FILE

FLOWER_APP = "flower"
"""The folder of a project that Flower carries to its nodes; nothing else is in it."""

_APP_FILE = "pyproject.toml"

# The source of each file; some have other names there, so that no tool takes them for ours.
_TEMPLATE = {
    FILE: FILE,
    CLIENT_FILE: f"{CLIENT_FILE}.txt",
    f"{FLOWER_APP}/{_APP_FILE}": f"{_APP_FILE}.txt",
    "README.md": "README.md",
    ".gitignore": "gitignore.txt",
}


def new_project(folder: Path) -> list[Path]:
    """Write a small project that runs as it is; return its files.

    Raises
    ------
    InputError
        If the folder is there and not empty, or its name is not a valid one.
    """
    name = folder.absolute().name
    if not re.fullmatch(r"[A-Za-z][\w-]*", name):
        raise InputError(
            str(folder), f'"{name}" is not a name; use letters, digits, - and _, a letter first'
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(str(folder), "is there already, and not an empty folder; name another")
    with file_errors(folder, "cannot be written"):
        for file in _TEMPLATE:
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_text(file, name), encoding="utf-8")
            for made in (path, path.parent):  # a node runs it: only its owner and group change it
                made.chmod(made.stat().st_mode & ~stat.S_IWOTH)
    return [folder / file for file in _TEMPLATE]


def flower_app(folder: Path, project: Path) -> Path:
    """Return the app of a project for Flower: its own, or one made in a folder."""
    own = project / FLOWER_APP
    if (own / _APP_FILE).is_file():
        return own
    text = _text(f"{FLOWER_APP}/{_APP_FILE}", "trial")
    write_whole(private_folder(folder) / _APP_FILE, text)
    return folder


def _text(file: str, name: str) -> str:
    """Return a file of the template for a project of this name."""
    source = files("fedbandits.federation") / "template" / _TEMPLATE[file]
    # Flower's names are of letters, digits and hyphens.
    said = name.replace("_", "-").lower() if file.endswith(_APP_FILE) else name
    return source.read_text(encoding="utf-8").replace("PROJECT", said)
