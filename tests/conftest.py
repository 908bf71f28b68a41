"""What tests may ask for, wherever they are. What it takes is imported when it is asked for."""

from __future__ import annotations

import contextlib
import math
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from commands import Command, Done

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from fedbandits.experiments.results import Results
    from shop import Shop

# Whoever runs the tests in the background has Ctrl-C ignored, and so would all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    with contextlib.suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, signal.default_int_handler)

# Files go to processes whole; those that take longest go first, so that none is left for the end.
LONGEST_FIRST = (
    "test_flower_processes.py",
    "test_fidelities.py",
    "test_sweep_backends.py",
    "test_faults.py",
    "test_reproduce.py",
    "test_browser.py",
    "test_laboratory_page.py",
    "test_laboratory.py",
    "test_sweeps.py",
    "test_plugins.py",
    "test_golden.py",
    "test_simulation.py",
    "test_index_rules.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


@pytest.fixture(autouse=True)
def same_draws(request: pytest.FixtureRequest) -> None:
    """Seed what the client of a new project draws from, or its outcomes differ from run to run."""
    random.seed(request.node.nodeid)


_PLAYERS = ("fedbandits.simulation.tasks", "fedbandits.sweeps.backends.on_processes")


@pytest.fixture(scope="session", autouse=True)
def one_process() -> Iterator[None]:
    """Play in this process what a user's machine plays on several if it takes over a second.

    The cores are busy with tests, and starting processes takes more than most games.
    """
    with pytest.MonkeyPatch.context() as patch:
        for module in _PLAYERS:
            patch.setattr(f"{module}._SERIAL_SECONDS", math.inf)
        yield


@pytest.fixture
def several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Play on several processes from the start whatever has more than one worker."""
    for module in _PLAYERS:
        monkeypatch.setattr(f"{module}._SERIAL_SECONDS", -1.0)
        monkeypatch.setattr(f"{module}._processes", {"started": False})


@pytest.fixture(scope="session")
def results() -> Results:
    """Return results of a small run with nasty labels."""
    from drawn_runs import run

    return run()


@pytest.fixture(scope="session")
def page(results: Results) -> str:
    """Return the page of these results."""
    from fedbandits.experiments.report.page import report_html

    return report_html(results)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return Chromium."""
    from browsers import started

    yield from started()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the planner try fewer schedules, where which one is best does not matter."""
    monkeypatch.setattr("fedbandits.planning.search._effort", lambda _: (3, 5, 64))


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Command]:
    """Run the command in this process, as its script does."""
    from fedbandits.cli.main import main

    handler = signal.getsignal(signal.SIGTERM)

    def run(*words: str | Path) -> Done:
        monkeypatch.setattr(sys, "argv", ["fedbandits", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return Done(int(end.value.code or 0), said.out, said.err)

    yield run
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the log of a run that is over."""
    from logged_runs import played

    return played(tmp_path_factory.mktemp("runs") / "run.fedlog")


@pytest.fixture
def in_a_run() -> None:
    """Be somebody to Flower, as its own processes are: messages say who has made them."""
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """Return a client with live traffic."""
    from shop import Shop

    shop = Shop(tmp_path)
    with shop.live:
        yield shop
