"""A bar for whoever looks; a function of the caller instead; nothing for files, or if unwanted."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

import fedbandits as fb
from fedbandits.notebook import bar as bars
from fedbandits.notebook.bar import bar, counting
from fedbandits.notebook.followed import followed, in_notebook, is_watched
from viewed_values import GAME, RULE, SWEEP, experiment


class Terminal(io.StringIO):
    """Standard error that is a terminal, while a call is made."""

    def isatty(self) -> bool:
        return True

    def during(self, call: Callable[..., object], **how: Any) -> str:
        """Return what a call has shown."""
        with contextlib.redirect_stderr(self):
            assert is_watched()
            call(**how)
        return self.getvalue()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Show bars from the first moment."""
    monkeypatch.setattr(bars, "PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


def calls(folder: Path) -> dict[str, Callable[..., object]]:
    """Return everything that has a bar, and a word that it shows."""
    return {
        "replications": lambda **how: fb.simulate(GAME, RULE, horizon=900, replications=3, **how),
        "local": lambda **how: experiment().run(workers=1, **how),
        "schedules": lambda **how: fb.plan(
            n_arms=2, gap=0.5, noise=0.5, spread=0.1, replications=5, **how
        ),
        "cells": lambda **how: fb.run_sweep(fb.read_sweep(SWEEP), folder, workers=1, **how),
    }


@pytest.mark.parametrize("word", calls(Path()))
def test_who_looks_sees_a_bar(word: str, terminal: Terminal, tmp_path: Path, quick: None) -> None:
    shown = terminal.during(calls(tmp_path)[word])
    assert word in shown
    assert "━" in shown


@pytest.mark.parametrize("word", calls(Path()))
def test_false_shows_nothing(word: str, terminal: Terminal, tmp_path: Path, quick: None) -> None:
    assert terminal.during(calls(tmp_path)[word], progress=False) == ""


@pytest.mark.parametrize("word", calls(Path()))
def test_a_function_is_told_instead(
    word: str, terminal: Terminal, tmp_path: Path, quick: None
) -> None:
    told: list[tuple[Any, ...]] = []
    shown = terminal.during(calls(tmp_path)[word], progress=lambda *what: told.append(what))
    assert told
    assert shown == ""


@pytest.mark.parametrize("word", calls(Path()))
def test_what_is_quickly_done_needs_no_bar(
    word: str,
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    quick: None,
) -> None:
    monkeypatch.setattr(bars, "PATIENCE", 3600.0)
    assert terminal.during(calls(tmp_path)[word]) == ""


def test_files_get_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    assert not is_watched()
    fb.simulate(GAME, RULE, horizon=900, replications=3)
    assert file.getvalue() == ""
    monkeypatch.setattr(sys, "stderr", None)  # as in a program without a console
    assert not is_watched()


def test_the_documented_callback_is_told_of_every_replication() -> None:
    told: list[tuple[str, int]] = []
    experiment(7).run(workers=1, progress=lambda label, done: told.append((label, done)))
    assert {label for label, _ in told} == {"fed2-ucb", "local"}
    assert sum(done for _, done in told) == 14


def test_a_bar_is_gone_when_the_block_fails(terminal: Terminal) -> None:
    def interrupted() -> None:
        with bar(*counting("games"), total=3):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        terminal.during(interrupted)
    assert "games" in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[2K")  # the line is erased


def test_quiet_and_files_yield_nothing() -> None:
    with bar(console=Console(file=Terminal(), force_terminal=True), quiet=True) as update:
        assert update is None
    with bar(console=Console(file=io.StringIO())) as update:
        assert update is None


# Notebooks ----------------------------------------------------------------------------------------


class Cell:
    """What is below a cell: each update takes the place of the last."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def display(self, picture: dict[str, str], **how: Any) -> Cell:
        assert how == {"raw": True, "display_id": True}
        self.shown.append(picture["text/plain"])
        return self

    def update(self, picture: dict[str, str], **how: Any) -> None:
        self.shown.append(picture["text/plain"])


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    """Be in a notebook."""
    found = Cell()
    package, display = ModuleType("IPython"), ModuleType("IPython.display")
    monkeypatch.setattr(
        package, "get_ipython", lambda: SimpleNamespace(kernel=object()), raising=False
    )
    monkeypatch.setattr(display, "display", found.display, raising=False)
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr(bars, "PATIENCE", 0.0)
    monkeypatch.setattr(bars, "_PAUSE", 0.0)
    return found


@pytest.mark.parametrize("word", calls(Path()))
def test_a_notebook_has_a_bar_below_the_cell(
    word: str, cell: Cell, tmp_path: Path, quick: None
) -> None:
    assert in_notebook()
    calls(tmp_path)[word]()
    *pictures, last = cell.shown
    assert word in pictures[-1]
    assert all("\n" not in picture and "\x1b" not in picture for picture in pictures)
    assert last == ""


def test_a_notebook_has_no_bar_for_what_is_quickly_done(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bars, "PATIENCE", 3600.0)
    fb.simulate(GAME, RULE, horizon=900, replications=3)
    assert cell.shown == []


def test_a_plain_python_with_ipython_loaded_is_no_notebook(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    package = ModuleType("IPython")
    monkeypatch.setitem(sys.modules, "IPython", package)
    assert not in_notebook()
    monkeypatch.setattr(package, "get_ipython", lambda: None, raising=False)
    assert not in_notebook()


def test_nobody_is_told_without_need() -> None:
    def never() -> Any:
        raise AssertionError("a bar was made")

    with followed(False, never) as told:
        assert told is None
    with followed(print, never) as told:
        assert told is print
