"""Where a sweep runs: processes, a real Dask scheduler, a real Ray; the same numbers on all."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import fedbandits as fb
from fedbandits.errors import FedbanditsError
from fedbandits.sweeps.backends import BACKENDS, Where, open_backend
from fedbandits.sweeps.cells import made_with
from fedbandits.sweeps.run import Standing, run_sweep
from fedbandits.sweeps.store import FOLDER
from fedbandits.sweeps.tasks import Task, run_remotely
from sweep_files import BASE, FILE, sweep_of
from test_cli import command

GRID: dict[str, Any] = {
    "problem.spread.sigma": [0.05, 0.2],
    "variants.pulls": ["10", "20", "30"],
}
# Cohorts, clients one by one, and a baseline.
VARIANTS = [
    BASE["variants"][0],
    {**BASE["variants"][0], "label": "one by one", "fidelity": "clients"},
    BASE["variants"][1],
]


def sweep(replications: int = 10) -> fb.Sweep:
    return sweep_of(GRID, variants=VARIANTS, replications=replications)


# So many that every worker has something in hand while another answers.
SLOW = 600


@pytest.fixture(scope="module", autouse=True)
def clusters_of_our_own() -> Iterator[None]:
    """Let Ray know a token of these tests, whatever else the machine's user has set up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", uuid.uuid4().hex * 2)
        yield


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    """What one process gives."""
    return run_sweep(sweep(), tmp_path_factory.mktemp("alone"), workers=1).replications()


@pytest.fixture(scope="module")
def expected_slowly(tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    """What one process gives of the longer sweep."""
    return run_sweep(sweep(SLOW), tmp_path_factory.mktemp("alone"), workers=1).replications()


class Killer:
    """Kills a process when a sweep has its first answer; the others are being played then."""

    def __init__(self, find: Callable[[], list[int]]) -> None:
        self.find = find
        self.killed: int | None = None

    def __call__(self, standing: Standing) -> None:
        if standing.state == "playing" and standing.done and self.killed is None:
            self.killed = self.find()[0]
            os.kill(self.killed, signal.SIGKILL)


def free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def running(*words: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program in a process group of its own, all of which ends with the block."""
    process = subprocess.Popen(
        [sys.executable, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, **environment},
    )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=60)


def wait_for(port: int, seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail(f"nothing listens at port {port}")


@pytest.fixture(scope="module")
def dask_cluster() -> Iterator[str]:
    """A Dask scheduler with two workers, each a program of its own."""
    pytest.importorskip("distributed")
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    # Workers are to find the package that is tested.
    with running("-m", "distributed.cli.dask_scheduler", "--port", str(port), "--no-dashboard"):
        wait_for(port)
        worker = ("-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard")
        with running(*worker, "--nanny"), running(*worker, "--nanny"):
            yield address


def test_a_dask_cluster_gives_the_same_numbers(
    dask_cluster: str, expected: pl.DataFrame, tmp_path: Path
) -> None:
    found = run_sweep(sweep(), tmp_path, backend="dask", address=dask_cluster)
    assert found.replications().equals(expected)


def test_dask_on_this_machine_gives_the_same_numbers(
    expected: pl.DataFrame, tmp_path: Path
) -> None:
    pytest.importorskip("distributed")
    found = run_sweep(sweep(), tmp_path, backend="dask", workers=2)
    assert found.replications().equals(expected)


def test_a_dask_worker_that_is_lost_is_made_up_for(
    dask_cluster: str, expected_slowly: pl.DataFrame, tmp_path: Path
) -> None:
    from distributed import Client

    with Client(dask_cluster) as client:
        client.wait_for_workers(2, timeout=180)
        workers = list(client.run(os.getpid).values())
    assert len(set(workers)) == 2
    kill_one = Killer(lambda: workers)
    found = run_sweep(sweep(SLOW), tmp_path, backend="dask", address=dask_cluster, watch=kill_one)
    assert kill_one.killed
    assert found.replications().equals(expected_slowly)


def test_ray_on_this_machine_gives_the_same_numbers(expected: pl.DataFrame, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    started: set[int] = set()
    found = run_sweep(
        sweep(),
        tmp_path,
        backend="ray",
        workers=2,
        watch=lambda _: started.update(processes_of(b"ray::")),
    )
    assert found.replications().equals(expected)
    assert started
    # None is left behind; a process ends a moment after it is told to.
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{process}/exe").exists() for process in started):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_ray_worker_that_is_lost_is_made_up_for(
    expected_slowly: pl.DataFrame, tmp_path: Path
) -> None:
    pytest.importorskip("ray")
    kill_one = Killer(lambda: processes_of(b"ray::run_remotely"))
    found = run_sweep(sweep(SLOW), tmp_path, backend="ray", workers=2, watch=kill_one)
    assert kill_one.killed
    assert found.replications().equals(expected_slowly)


def processes_of(pattern: bytes) -> list[int]:
    """Return the processes below this one whose command line matches."""
    parents: dict[int, int] = {}
    matching = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes()
            fields = (folder / "stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
        except (OSError, ValueError):
            continue
        parents[int(folder.name)] = int(fields[1])
        if re.match(pattern, line, re.DOTALL):
            matching.append(int(folder.name))
    return [process for process in matching if os.getpid() in above(process, parents)]


def above(process: int, parents: dict[int, int]) -> list[int]:
    """Return the parent of a process, the parent of that, and so on."""
    found: list[int] = []
    while process in parents:
        process = parents[process]
        found.append(process)
    return found


def test_a_running_ray_gives_the_same_numbers(expected: pl.DataFrame, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    port = free_port()
    words = ("-m", "ray.scripts.scripts", "start", "--head", f"--port={port}", "--num-cpus=2")
    quiet = {"RAY_USAGE_STATS_ENABLED": "0"}
    with running(*words, "--include-dashboard=false", "--block", **quiet):
        wait_for(port)
        found = run_sweep(sweep(), tmp_path, backend="ray", address=f"127.0.0.1:{port}")
    assert found.replications().equals(expected)


def test_a_process_that_is_lost_is_made_up_for(
    expected_slowly: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedbandits.sweeps.backends.on_processes._SERIAL_SECONDS", -1.0)
    kill_one = Killer(lambda: processes_of(b".*popen_loky_posix"))
    found = run_sweep(sweep(SLOW), tmp_path, workers=2, watch=kill_one)
    assert kill_one.killed
    assert found.replications().equals(expected_slowly)


def test_a_worker_with_other_sources_is_refused() -> None:
    task = Task(specs={}, memory_limit=1)
    with pytest.raises(FedbanditsError, match="a worker has other versions or sources"):
        run_remotely(task, "others")
    assert made_with() != "others"


def test_cells_that_nobody_played_are_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def forgetful(*_: object) -> Iterator[Any]:
        yield lambda tasks: (task.run() for task in tasks[1:])

    monkeypatch.setattr("fedbandits.sweeps.run.open_backend", forgetful)
    with pytest.raises(FedbanditsError, match="2 of 14 cells were not played; nothing was written"):
        run_sweep(sweep(), tmp_path, workers=1)
    assert [path.name for path in tmp_path.iterdir()] == [FOLDER]


# What is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_an_address_that_does_not_answer_is_refused_in_time(tmp_path: Path, backend: str) -> None:
    pytest.importorskip(BACKENDS[backend])
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(fb.InputError, match=r"^--address: .* does not answer within 2 s"):
        run_sweep(sweep(), tmp_path, backend=backend, address=address, timeout=2.0)


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_an_address_at_which_something_else_listens_is_refused_in_time(
    tmp_path: Path, backend: str
) -> None:
    pytest.importorskip(BACKENDS[backend])
    with closing(socket.socket()) as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(fb.InputError, match=r"is no .* that answers within 2 s"):
            run_sweep(sweep(), tmp_path, backend=backend, address=address, timeout=2.0)


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_a_backend_that_is_not_installed_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    monkeypatch.setattr("fedbandits.sweeps.backends.find_spec", lambda _: None)
    with pytest.raises(fb.InputError, match=rf'pip install "fedbandits\[{backend}\]"'):
        open_backend(backend, Where())


def test_a_cluster_has_its_own_workers() -> None:
    with pytest.raises(fb.InputError, match="--workers: the cluster at x:1 has its own"):
        open_backend("dask", Where(address="x:1", workers=2))


def test_the_command_runs_on_dask(dask_cluster: str, tmp_path: Path) -> None:
    file = tmp_path / "demo.toml"
    file.write_text(FILE + '"variants.pulls" = ["10", "20"]\n', encoding="utf-8")
    words = ("--backend", "dask", "--address", dask_cluster)
    done = command("sweep", file, "--out", tmp_path / "out", *words)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "replications.parquet").is_file()
