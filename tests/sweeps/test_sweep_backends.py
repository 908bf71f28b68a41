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
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import fedbandits as fb
from commands import command
from fedbandits.errors import FedbanditsError
from fedbandits.simulation.tables import Table
from fedbandits.sweeps.backends import BACKENDS, Backend, Where, open_backend
from fedbandits.sweeps.backends.on_processes import _on_processes
from fedbandits.sweeps.cells import made_with
from fedbandits.sweeps.run import SweepStep, run_sweep
from fedbandits.sweeps.store import FOLDER
from fedbandits.sweeps.tasks import SweepTask, run_remotely
from repository import TESTS
from sweep_files import BASE, CELL_BY_CELL_FILE, DISTURBED, FILE, sweep_of

GRID: dict[str, Any] = {
    "problem.spread.sigma": [0.05, 0.2],
    "variants.pulls": ["10", "20", "30"],
}
OWN_PARTS = TESTS / "own_parts.py"
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
def expected(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """What one process gives."""
    return run_sweep(sweep(), tmp_path_factory.mktemp("alone"), workers=1).replications()


@pytest.fixture(scope="module")
def expected_slowly(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """What one process gives of the longer sweep."""
    return run_sweep(sweep(SLOW), tmp_path_factory.mktemp("alone"), workers=1).replications()


class Killer:
    """Kills a process when a sweep has its first answer; the others are being played then."""

    def __init__(self, find: Callable[[], list[int]]) -> None:
        self.find = find
        self.killed: int | None = None

    def __call__(self, standing: SweepStep) -> None:
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
            process.wait(timeout=300)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=300)


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
    with running("-m", "distributed.cli.dask_scheduler", "--port", str(port), "--no-dashboard"):
        wait_for(port)
        worker = ("-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard")
        with running(*worker, "--nanny"), running(*worker, "--nanny"):
            yield address


def test_a_dask_cluster_gives_the_same_numbers(
    dask_cluster: str, expected: Table, tmp_path: Path
) -> None:
    found = run_sweep(sweep(), tmp_path, backend="dask", address=dask_cluster)
    assert found.replications() == expected


def test_dask_on_this_machine_gives_the_same_numbers(expected: Table, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    found = run_sweep(sweep(), tmp_path, backend="dask", workers=2)
    assert found.replications() == expected


def test_a_dask_worker_that_is_lost_is_made_up_for(
    dask_cluster: str, expected_slowly: Table, tmp_path: Path
) -> None:
    from distributed import Client

    with Client(dask_cluster) as client:
        client.wait_for_workers(2, timeout=180)
        workers = list(client.run(os.getpid).values())
    assert len(set(workers)) == 2
    kill_one = Killer(lambda: workers)
    found = run_sweep(
        sweep(SLOW), tmp_path, backend="dask", address=dask_cluster, progress=kill_one
    )
    assert kill_one.killed
    assert found.replications() == expected_slowly


def test_ray_on_this_machine_gives_the_same_numbers(expected: Table, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    started: set[int] = set()
    found = run_sweep(
        sweep(),
        tmp_path,
        backend="ray",
        workers=2,
        progress=lambda _: started.update(processes_of(b"ray::")),
    )
    assert found.replications() == expected
    assert started
    # None is left behind; a process ends a moment after it is told to.
    deadline = time.monotonic() + 600
    while any(Path(f"/proc/{process}/exe").exists() for process in started):
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize("backend", ["dask", pytest.param("ray", marks=pytest.mark.slow)])
def test_parts_of_ones_own_travel_with_their_source(backend: str, tmp_path: Path) -> None:
    pytest.importorskip(BACKENDS[backend])
    own = tmp_path / "my_rules.py"
    own.write_text(OWN_PARTS.read_text(encoding="utf-8"), encoding="utf-8")
    radius = {"rule": "scaled", "factor": 0.5}
    mine = sweep_of(
        {"variants.pulls": ["10", "20"]},
        plugins=[str(own)],
        variants=[{**BASE["variants"][0], "radius": radius}],
        replications=10,
    )
    own.unlink()
    here = run_sweep(mine, tmp_path / "here", workers=1).replications()
    there = run_sweep(mine, tmp_path / "there", backend=backend, workers=1).replications()
    assert there == here


@pytest.mark.slow
def test_a_ray_worker_that_is_lost_is_made_up_for(expected_slowly: Table, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    kill_one = Killer(lambda: processes_of(b"ray::run_remotely"))
    found = run_sweep(sweep(SLOW), tmp_path, backend="ray", workers=2, progress=kill_one)
    assert kill_one.killed
    assert found.replications() == expected_slowly


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


@pytest.mark.slow
def test_a_running_ray_gives_the_same_numbers(expected: Table, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    port = free_port()
    words = ("-m", "ray.scripts.scripts", "start", "--head", f"--port={port}", "--num-cpus=2")
    quiet = {"RAY_USAGE_STATS_ENABLED": "0"}
    with running(*words, "--include-dashboard=false", "--block", **quiet):
        wait_for(port)
        # It listens before it lets anybody in.
        address = f"127.0.0.1:{port}"
        found = run_sweep(sweep(), tmp_path, backend="ray", address=address, timeout=600.0)
    assert found.replications() == expected


@pytest.mark.usefixtures("several_processes")
def test_a_process_that_is_lost_is_made_up_for(expected_slowly: Table, tmp_path: Path) -> None:
    kill_one = Killer(lambda: processes_of(b".*popen_loky_posix"))
    found = run_sweep(sweep(SLOW), tmp_path, workers=2, progress=kill_one)
    assert kill_one.killed
    assert found.replications() == expected_slowly


class Deadly(dict[str, Any]):
    """Cells whose task ends the process that plays it: always, or the first time."""

    def __init__(self, mark: Path, *, always: bool) -> None:
        super().__init__({str(mark): {}})
        self.mark, self.always = mark, always

    def __reduce__(self) -> Any:
        return rebuilt, (self.mark, self.always)

    def values(self) -> Any:
        if self.always or not self.mark.exists():
            self.mark.touch()
            os._exit(1)
        raise fb.InputError("played", str(self.mark))


def rebuilt(mark: Path, always: bool) -> Deadly:
    return Deadly(mark, always=always)


def task_of(cells: dict[str, Any]) -> SweepTask:
    return SweepTask(cells=cells, group=(1, 1, 0), memory_limit=1)


@pytest.mark.slow
def test_losses_are_counted_task_by_task(tmp_path: Path) -> None:
    # More tasks lose their process than one may lose, each once: none of them is to blame.
    marks = [tmp_path / str(number) for number in range(5)]
    tasks = [task_of(Deadly(mark, always=False)) for mark in marks]
    answers = list(_on_processes(tasks, 2))
    assert {answer.refused for answer in answers} == {("played", str(mark)) for mark in marks}
    tasks = [task_of(Deadly(tmp_path / "always", always=True))]
    with pytest.raises(FedbanditsError, match="workers were lost 4 times with the same cells"):
        list(_on_processes(tasks, 2))


def test_ray_says_what_became_of_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    from fedbandits.sweeps.backends import on_ray

    for error, said in (
        (ray.exceptions.OutOfMemoryError("no memory left"), "lost 4 times .*OutOfMemoryError"),
        (ray.exceptions.NodeDiedError("gone"), "lost 4 times .*NodeDiedError"),
        (ray.exceptions.RaySystemError("odd"), "a worker could not play its cells: .*odd"),
    ):

        def fail(_: object, error: Exception = error) -> None:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(ray, "remote", lambda **_: lambda _: Remote)
            patch.setattr(ray, "wait", lambda waiting, **_: (waiting, []))
            patch.setattr(ray, "get", fail)
            with pytest.raises(FedbanditsError, match=said):
                list(on_ray._answers([task_of({})]))


class Remote:
    """What Ray makes of a function, as far as it is looked at here."""

    @staticmethod
    def remote(*_: object) -> str:
        return "a reference"


def test_a_cluster_is_sized_by_its_own_workers(
    dask_cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    with open_backend("dask", Where(address=dask_cluster)) as opened:
        assert opened.workers == 2
    assert Where().n_workers == 64


def test_a_worker_with_other_sources_is_refused() -> None:
    task = task_of({})
    with pytest.raises(FedbanditsError, match="a worker has other versions or sources"):
        run_remotely(task, "others")
    assert made_with() != "others"


def test_cells_that_nobody_played_are_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def forgetful(*_: object) -> Iterator[Any]:
        yield Backend(workers=1, play=lambda tasks: (task.run() for task in tasks[1:]))

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


def test_something_else_that_greets_as_ray_would_is_refused_in_time(tmp_path: Path) -> None:
    """HTTP/2, which Ray speaks too, and not a word after its greeting."""
    pytest.importorskip("ray")
    greeted = []

    def greet(server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                connection.sendall(bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
                greeted.append(connection)

    with closing(socket.socket()) as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        Thread(target=greet, args=(server,), daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        begin = time.monotonic()
        with pytest.raises(fb.InputError, match="is no Ray cluster that answers within 2 s"):
            run_sweep(sweep(), tmp_path, backend="ray", address=address, timeout=2.0)
        # A process with Ray in it begins in seconds, on a machine that has other work in more.
        assert time.monotonic() - begin < 240
    assert greeted
    for connection in greeted:
        connection.close()


@contextmanager
def dask_scheduler(*, packages: Path | None = None) -> Iterator[str]:
    """A Dask scheduler without workers, perhaps with other packages than ours."""
    pytest.importorskip("distributed")
    port = free_port()
    words = ("-m", "distributed.cli.dask_scheduler", "--port", str(port), "--no-dashboard")
    other = {} if packages is None else {"PYTHONPATH": str(packages)}
    with running(*words, **other):
        wait_for(port)
        yield f"tcp://127.0.0.1:{port}"


def test_a_dask_scheduler_without_workers_is_refused_in_time(tmp_path: Path) -> None:
    with (
        dask_scheduler() as address,
        pytest.raises(fb.InputError, match=r"^--address: .* has no workers, and none came within"),
    ):
        run_sweep(sweep(), tmp_path, backend="dask", address=address, timeout=1.0)


def test_a_dask_scheduler_without_this_package_is_refused_in_one_line(tmp_path: Path) -> None:
    hollow = tmp_path / "packages"
    (hollow / "fedbandits").mkdir(parents=True)
    (hollow / "fedbandits" / "__init__.py").touch()
    file = tmp_path / "demo.toml"
    file.write_text(FILE + '"variants.pulls" = ["10", "20"]\n', encoding="utf-8")
    with dask_scheduler(packages=hollow) as address:
        worker = ("-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard")
        with running(*worker):
            words = ("--backend", "dask", "--address", address, "--timeout", "60")
            done = command("sweep", file, "--out", tmp_path / "out", *words)
    assert done.returncode == 2
    (error,) = [line for line in done.stderr.splitlines() if not line.startswith("finished")]
    assert error == (
        "error: --address: the scheduler or a worker there cannot read what it is sent (No module"
        " named 'fedbandits.sweeps'); install this version of fedbandits on the scheduler and on"
        " all workers"
    )


def test_ctrl_c_on_dask_is_told_in_one_line(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    file = tmp_path / "demo.toml"
    file.write_text(CELL_BY_CELL_FILE, encoding="utf-8")
    out = tmp_path / "out"
    words = ["sweep", str(file), "--out", str(out), "--backend", "dask", "--workers", "2"]
    # As a terminal does it: the whole group is told.
    script = DISTURBED.format(end="os.killpg(0, signal.SIGINT)")
    process = subprocess.run(
        [sys.executable, "-c", script, *words],
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=180,
        check=False,
    )
    assert process.returncode == 130
    said = [line for line in process.stderr.splitlines() if not line.startswith("finished ")]
    assert said == [f"interrupted; finished cells are kept in {out}; run it again to continue"]


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
