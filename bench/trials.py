"""The trials that are timed, as projects on disk: figure 4's game."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CLIENTS = 1_000

FIGURE_4: dict[str, Any] = {
    "title": "figure 4",
    "arms": [f"channel-{place}" for place in range(10)],
    "pulls": "100",
    "admissions": "2^p",
    "radius": {"rule": "certified", "delta": 0.05},
    "assume": {"noise": 0.5, "spread": 0.02},
}

# So little is sure of these that no arm is ever dropped: what is sent stays as long as it is.
UNDECIDED = FIGURE_4 | {
    "admissions": str(CLIENTS),
    "assume": {"noise": 50.0, "spread": 0.02},
    "max_phases": 5,
}

_CLIENT = """
import numpy as np

from fedbandits.federation import client_app

MEANS = [0.70, 0.71, 0.72, 0.73, 0.74, 0.75, 0.76, 0.765, 0.77, 0.79]
PLACES = {}


@client_app
def pull(arm, n, client):
    if client.number not in PLACES:
        rng = np.random.default_rng([2021, client.number])
        PLACES[client.number] = rng, rng.normal(MEANS, 0.02)
    rng, means = PLACES[client.number]
    return rng.normal(means[int(arm.removeprefix("channel-"))], 0.5, n)
"""


@contextmanager
def project(trial: dict[str, Any], client: str = _CLIENT) -> Iterator[Path]:
    """Write a trial to a folder that is removed in the end."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = "\n".join(f"{key} = {as_toml(value)}" for key, value in trial.items())
        (folder / "fedbandits.toml").write_text(text, encoding="utf-8")
        (folder / "client.py").write_text(client, encoding="utf-8")
        yield folder


def as_toml(value: Any) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {as_toml(each)}" for key, each in value.items()) + " }"
    return json.dumps(value)
