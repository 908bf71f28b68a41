"""The tutorials run from top to bottom, and print what they show.

Blocks of a page are taken in order, in one empty folder and one Python namespace:

- ``python`` is run; if its first line is a comment with the name of a file, it is written there;
- ``toml`` begins with such a comment, and is written;
- ``sh`` holds commands, which have to succeed; a comment such as ``# exit code 3`` says
  that one ends in another way, and a backslash continues a line;
- ``console`` holds commands for other machines: not run here, but each was tested, and stands in
  docs/production.md or deploy/try-systemd.sh;
- ``text`` is what the block before it prints: each of its lines, in this order.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

from commands import Command
from repository import DOCS

PAGES = sorted(page for page in (DOCS / "tutorials").glob("*.md") if page.stem != "index")
_BLOCK = re.compile(r"^```(python|toml|sh|text)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"# ([\w/.-]+\.(?:py|toml))\n")


def steps(page: Path) -> Iterator[tuple[str, str]]:
    yield from _BLOCK.findall(page.read_text(encoding="utf-8"))


def missing(shown: str, printed: str) -> list[str]:
    """Return the lines that were not printed after those before them; blanks do not matter."""
    said = iter(" ".join(line.split()) for line in printed.splitlines())
    wanted = [" ".join(line.split()) for line in shown.splitlines() if line.strip()]
    return [line for line in wanted if not any(line in one for one in said)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_runs_and_prints_what_it_shows(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: Command,
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    with mpl.rc_context({"backend": "agg"}):
        for kind, text in steps(page):
            named = _NAME.match(text)
            if kind == "text":
                assert not missing(text, printed), printed
            elif named is not None:
                path = tmp_path / named[1]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            elif kind == "python":
                exec(compile(text, str(page), "exec", dont_inherit=True), names)
                printed = capsys.readouterr().out
            else:
                printed = ""
                for line in text.replace("\\\n", " ").splitlines():
                    program, *words = shlex.split(line, comments=True)
                    assert program == "fedbandits", line
                    done = command(*words)
                    ends = re.search(r"# exit code (\d)$", line)
                    assert done.code == int(ends[1] if ends else 0), done.err
                    printed += done.out + (done.err if done.code else "")


def test_lines_in_another_order_are_missed() -> None:
    assert missing("a\nb\n", "a 1\n b  2\n") == []
    assert missing("b\na\n", "a\nb\n") == ["a"]


def test_commands_for_other_machines_are_those_that_were_tested() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    shown = re.findall(r"^```console\n(.*?)^```", pages, flags=re.MULTILINE | re.DOTALL)
    tested = [DOCS / "production.md", DOCS.parent / "deploy" / "try-systemd.sh"]
    known = [
        line.strip() for one in tested for line in one.read_text(encoding="utf-8").splitlines()
    ]
    assert shown
    assert [
        line for block in shown for line in block.splitlines() if line.strip() not in known
    ] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_fits_on_a_page_has_a_picture_and_says_what_is_next(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 170
    assert re.search(r"!\[[^]]+\]\([^)]+\)", text) or "```{image}" in text
    assert "\n## What to read next\n" in text
