"""The wheel works where there is nothing else: in an empty environment, outside of the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from importlib.util import find_spec
from pathlib import Path

import pytest

import fedbandits
from repository import EXAMPLES, ROOT

pytestmark = pytest.mark.slow

PACKAGE = ROOT / "src" / "fedbandits"
UV = find_spec("uv") is not None
# What leads back to the checkout, or to the environment of these tests.
_LEAKS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "MYPYPATH")


def run(*words: str | Path, cwd: Path) -> str:
    """Run a program of the empty environment, and return what it printed."""
    env = {name: value for name, value in os.environ.items() if name not in _LEAKS}
    env["UV_SYSTEM_CERTS"] = "1"  # as the Makefile lets it
    done = subprocess.run(
        [*map(str, words)],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with what `make dist` builds."""
    out = tmp_path_factory.mktemp("dist")
    installer = "uv" if UV else "pip"
    run(sys.executable, "-m", "build", "--installer", installer, "--outdir", out, ROOT, cwd=out)
    return out


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (found,) = dist.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def empty(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment with the wheel, its extra for reports, and what these need."""
    home = tmp_path_factory.mktemp("empty")
    python = home / "bin" / "python"
    what: list[str | Path] = ["--constraint", ROOT / "constraints.txt", f"{wheel}[report]"]
    if UV:
        uv = [sys.executable, "-m", "uv"]
        run(*uv, "venv", "--clear", "--python", sys.executable, home, cwd=home.parent)
        run(*uv, "pip", "install", "--python", python, *what, cwd=home)
    else:
        run(sys.executable, "-m", "venv", home, cwd=home.parent)
        run(python, "-m", "pip", "install", *what, cwd=home)
    return home


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def test_the_wheel_has_every_file_of_the_package_and_no_other(wheel: Path) -> None:
    def files_of(folder: Path) -> set[str]:
        found = (path for path in folder.rglob("*") if path.is_file())
        return {
            path.relative_to(folder).as_posix()
            for path in found
            if path.suffix != ".pyc" and path.name != ".gitignore"
        }

    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith(".gitignore")]
    inside = {name.removeprefix("fedbandits/") for name in names if name.startswith("fedbandits/")}
    assert inside == files_of(PACKAGE)
    assert {"py.typed", "__init__.pyi", "report/d3-LICENSE.txt", "report/d3.min.js"} <= inside
    marker = "/data/share/fedbandits/examples/"
    assert {name.partition(marker)[2] for name in names if marker in name} == files_of(EXAMPLES)
    licences = {name.partition("/licenses/")[2] for name in names if "/licenses/" in name}
    assert licences == {"LICENSE", "src/fedbandits/report/d3-LICENSE.txt"}


def test_the_sdist_has_what_it_takes_to_build_and_test(dist: Path) -> None:
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "Makefile", "constraints.txt", "README.md", "LICENSE"} <= names
    assert {"CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "docs/conf.py"} <= names
    assert {"tests/conftest.py", "tests/golden.json", "examples/figure-4.toml"} <= names
    assert not [
        name
        for name in names
        if name.endswith(".pyc") or (name.startswith((".", "out/")) and name != ".gitignore")
    ]


def test_the_metadata_say_what_the_package_is(wheel: Path) -> None:
    found = metadata_of(wheel)
    assert found["Name"] == "fedbandits"
    assert found["Version"] == fedbandits.__version__
    assert found["License-Expression"] == "Apache-2.0"
    assert found["Requires-Python"] == ">=3.11"
    assert found["Description-Content-Type"] == "text/markdown"
    assert found.get_payload() == (ROOT / "README.md").read_text(encoding="utf-8")
    assert "Typing :: Typed" in found.get_all("Classifier", [])
    extras = set(found.get_all("Provides-Extra", []))
    assert {"report", "privacy", "keys", "qr", "flower", "dask", "ray", "all"} <= extras
    # Others cannot install what is only here.
    assert not [need for need in found.get_all("Requires-Dist", []) if "file:" in need]
    assert wheel.name == f"fedbandits-{fedbandits.__version__}-py3-none-any.whl"


def test_figure_4_is_played_in_an_empty_environment(empty: Path, tmp_path: Path) -> None:
    command = empty / "bin" / "fedbandits"
    assert run(command, "--version", cwd=tmp_path).split()[-1] == fedbandits.__version__
    where = run(
        empty / "bin" / "python",
        "-c",
        "import fedbandits; print(fedbandits.__file__)",
        cwd=tmp_path,
    )
    assert Path(where.strip()).is_relative_to(empty)
    run(command, "reproduce", "fig4", "--replications", "2", "--out", "page", cwd=tmp_path)
    page = (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    assert "Figure 4" in page
    example = empty / "share" / "fedbandits" / "examples" / "figure-4.toml"
    said = run(command, "run", example, "-n", "2", "--out", "run", cwd=tmp_path)
    assert "total regret" in said
    assert {"summary.json", "replications.parquet", "regret.png", "report.html"} <= {
        path.name for path in (tmp_path / "run").iterdir()
    }


def test_a_type_checker_reads_the_installed_package(empty: Path, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "import fedbandits as fb\n"
        "results: fb.Results = fb.load_experiment('file.toml').run(progress=False)\n"
        "columns: dict[str, list[object]] = results.columns()\n"
        "wrong: int = results.in_short()\n"
    )
    words = ["--strict", "--python-executable", str(empty / "bin" / "python"), "own.py"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *words], cwd=tmp_path, capture_output=True, text=True,
        timeout=1200, check=False,
    )  # fmt: skip
    assert "own.py:4: error: Incompatible types in assignment" in done.stdout, done.stdout
    assert "Found 1 error in 1 file" in done.stdout, done.stdout
