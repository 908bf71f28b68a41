"""A project whose outcomes are those of a simulated game, for federations of all kinds.

Its clients live in processes that end after every message: how often a client has pulled is in a
file, so that its next outcomes are the next of its stream. A client waits while there is a file of
its name in the folder ``hold``. If there is a file ``slow``, every call takes so many seconds, and
is written down with its time.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.federation.local import load_pull, try_trial
from fedbandits.federation.trial import load_trial, read_trial
from fedbandits.protocol import Decision, PhaseClosed, PhaseOpened, Record, Server
from fedbandits.simulation.game import Game
from fedbandits.simulation.pulls import play_logged

if TYPE_CHECKING:
    from fedbandits.federation.flower.processes import LocalFederation

ARMS = ("red", "green", "blue")
CLIENTS = 6
PHASES = 3

TRIAL: dict[str, Any] = {
    "title": "colours",
    "arms": list(ARMS),
    "pulls": "10",
    "admissions": "2",
    "radius": {"rule": "certified", "delta": 1e-6},
    "assume": {"noise": 0.1, "spread": 0.05},
    "max_phases": PHASES,
    "interleave": False,
    "patience": {"deadline": 120, "grace": 30, "resend": 5, "pulls": 90},
}

_CLIENT = """
import json
import time
from pathlib import Path

import fedbandits as fb
from fedbandits.federation import client_app
from fedbandits.simulation.streams import Purpose, Streams

HERE = Path(__file__).parent
PROBLEM = fb.Approximate(
    means=[0.3, 0.5, 0.6], spread=fb.Gaussian(0.05), noise=fb.Gaussian(0.1)
)


@client_app
def pull(arm, n, client):
    while (HERE / "hold" / client.name).exists():
        time.sleep(0.05)
    if (HERE / "slow").exists():
        with (HERE / f"given-{client.name}").open("a") as given:
            given.write(f"{time.time()} {arm}\\n")
        time.sleep(float((HERE / "slow").read_text()))
    place = json.loads((HERE / "places.json").read_text()).get(client.name, 99)
    rng = Streams(5, PROBLEM.name).open(Purpose.CLIENT, replication=0, arm=place)
    model = PROBLEM.sampler(lambda _: rng).draw(1)
    file = HERE / "pulled" / client.name
    before = int(file.read_text()) if file.exists() else 0
    PROBLEM.noise.variates(rng, before)
    file.write_text(str(before + n))
    mean = float(model.means[["red", "green", "blue"].index(arm), 0])
    return PROBLEM.noise.observe(PROBLEM.noise.variates(rng, n), mean, None)
"""


def write_project(folder: Path, **changes: Any) -> Path:
    """Write the project; return its folder."""
    for inner in ("hold", "pulled"):
        (folder / inner).mkdir(parents=True)
    (folder / "client.py").write_text(_CLIENT, encoding="utf-8")
    (folder / "places.json").write_text("{}", encoding="utf-8")
    write_trial(folder, **changes)
    # Clients are simulated in the order in which they are let in.
    server = tried(folder)
    places = {name: place for place, name in enumerate(server.clients)}
    (folder / "places.json").write_text(json.dumps(places), encoding="utf-8")
    forget_pulls(folder)
    return folder


def write_trial(folder: Path, **changes: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tables = {**TRIAL, **changes}
    lines = [f"{key} = {_toml(value)}" for key, value in tables.items()]
    (folder / "fedbandits.toml").write_text("\n".join(lines), encoding="utf-8")


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    return json.dumps(value)


def forget_pulls(folder: Path) -> None:
    """Let every stream begin anew."""
    for file in (folder / "pulled").iterdir():
        file.unlink()


def pulls_made(folder: Path) -> dict[str, int]:
    """Return how often each client has pulled."""
    return {file.name: int(file.read_text()) for file in (folder / "pulled").iterdir()}


def tried(folder: Path) -> Server:
    """Play the project in this process."""
    forget_pulls(folder)
    server = try_trial(load_trial(folder), load_pull(folder), CLIENTS)
    forget_pulls(folder)
    return server


def simulated() -> Server:
    """Play the same game in the fidelity ``pulls``."""
    problem = fb.Approximate(
        means=[0.3, 0.5, 0.6], spread=fb.Gaussian(0.05), noise=fb.Gaussian(0.1)
    )
    rule = read_trial(TRIAL).rule()
    game = Game(
        problem=problem,
        rule=rule,
        communication_cost=1.0,
        seed=5,
        grid=np.array([1]),
        memory_limit=2**30,
    )
    return play_logged(game, rule, 0)


def decided(log: Any) -> list[tuple[Any, ...]]:
    """Return what a run has decided, to the last bit, whatever it is called and by whom."""
    return [_bare(record.decision) for record in log if isinstance(record, PhaseClosed)]


def _bare(decision: Decision) -> tuple[Any, ...]:
    return (
        decision.phase,
        decision.active,
        decision.estimates,
        decision.widths,
        decision.best,
        decision.winner,
        decision.reason,
    )


def admitted(log: Any) -> list[tuple[str, ...]]:
    """Return who was let in, phase by phase."""
    return [record.admitted for record in log if isinstance(record, PhaseOpened)]


def of_kind(records: Any, kind: type[Record]) -> list[Any]:
    """Return the records of a kind."""
    return [record for record in records if isinstance(record, kind)]


def process_of(federation: LocalFederation, program: str) -> int:
    """Return the process of a program of Flower, whoever has started it."""
    for number in federation.strays():
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
            if any(word.endswith(program.encode()) for word in command):
                return number
    return pytest.fail(f"there is no {program}")
