"""A new project: a trial that runs as it is, to be changed into one's own."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from fedbandits.errors import InputError
from fedbandits.federation.local import CLIENT_FILE
from fedbandits.federation.trial import FILE

# Where the files of the template go; Python that is not ours to import has another name there.
_TEMPLATE = {FILE: FILE, CLIENT_FILE: f"{CLIENT_FILE}.txt", "README.md": "README.md"}


def new_project(folder: Path) -> list[Path]:
    """Write a small project that runs as it is; return its files.

    Raises
    ------
    InputError
        If the folder is there and not empty, or its name is none.
    """
    name = folder.absolute().name
    if not re.fullmatch(r"[A-Za-z][\w-]*", name):
        raise InputError(
            str(folder), f'"{name}" is not a name; use letters, digits, - and _, a letter first'
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(str(folder), "is there already, and not an empty folder; name another")
    template = files("fedbandits.federation") / "template"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, source in _TEMPLATE.items():
            text = (template / source).read_text(encoding="utf-8")
            (folder / file).write_text(text.replace("PROJECT", name), encoding="utf-8")
    except OSError as error:
        raise InputError(str(folder), f"cannot be written: {error.strerror}") from None
    return [folder / file for file in _TEMPLATE]
