"""The architecture page says what the import contract says; other pages only link to it.

``python tests/test_architecture.py`` writes the table of layers anew, from the contract in
``pyproject.toml`` and the first line of each package's docstring.
"""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

from repository import ROOT, TESTS

PAGE = ROOT / "docs" / "architecture.md"
_BEGIN, _END = "<!-- layers: begin -->\n", "<!-- layers: end -->\n"


def _layers() -> list[list[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [[name.strip() for name in layer.split("|")] for layer in layers]


def _summary(package: str) -> str:
    """Return the first line of a package's docstring, without its full stop."""
    path = ROOT / "src" / Path(*package.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    said = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8")))
    assert said, source
    return said.splitlines()[0].removesuffix(".")


def table() -> str:
    """Return the table of layers, the highest first."""
    rows = [
        f"| {level} | `{name.removeprefix('fedbandits.')}` | {_summary(name)} |"
        for level, layer in zip(range(len(_layers()), 0, -1), _layers(), strict=True)
        for name in layer
    ]
    return "\n".join(["| level | folder | what is in it |", "| --- | --- | --- |", *rows]) + "\n"


def test_the_page_has_the_layers_of_the_contract() -> None:
    text = PAGE.read_text(encoding="utf-8")
    said = text[text.index(_BEGIN) + len(_BEGIN) : text.index(_END)]
    assert said == table(), "run: python tests/test_architecture.py"


def test_every_package_is_in_a_layer() -> None:
    known = {name for layer in _layers() for name in layer}
    here = {
        f"fedbandits.{path.stem}"
        for path in (ROOT / "src" / "fedbandits").iterdir()
        if (path.is_dir() and (path / "__init__.py").exists()) or path.suffix == ".py"
    }
    assert here - {"fedbandits.__init__", "fedbandits.__main__"} == known


def test_no_other_page_lists_the_layers() -> None:
    for name in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert "docs/architecture.md" in text, name
        assert not re.search(r"^\W*loopback\W+\w+", text, flags=re.MULTILINE), name


def test_files_that_the_page_names_exist() -> None:
    text = PAGE.read_text(encoding="utf-8")
    named = re.findall(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+\.py)`", text)
    assert named
    folders = (ROOT / "src" / "fedbandits", ROOT)
    missing = [name for name in named if not any((folder / name).exists() for folder in folders)]
    assert not missing


def test_tests_are_in_folders_of_the_source_and_no_file_is_long() -> None:
    files = list(TESTS.rglob("*.py"))
    folders = {file.parent.relative_to(TESTS) for file in files}
    assert all((ROOT / "src" / "fedbandits" / folder).is_dir() for folder in folders)
    assert not [file for file in files if len(file.read_text(encoding="utf-8").splitlines()) > 800]


if __name__ == "__main__":
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    PAGE.write_text(before + _BEGIN + table() + _END + rest.partition(_END)[2], encoding="utf-8")
