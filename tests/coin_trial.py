"""A small trial whose options are coins."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from fedbandits.federation.host import ClientInfo

TABLES: dict[str, Any] = {
    "title": "colours",
    "arms": ["red", "green", "blue"],
    "pulls": "40",
    "admissions": "2^p",
    "radius": {"rule": "certified", "delta": 0.05},
    "assume": {"noise": 0.5, "spread": 0.05},
}
RATES = {"red": 0.25, "green": 0.5, "blue": 0.75}


def coins(seed: int) -> Any:
    """Return a pull whose outcomes depend on client, arm and how often it was pulled before."""
    seen: Counter[tuple[str, str]] = Counter()

    def pull(arm: str, n: int, client: ClientInfo) -> list[float]:
        first = seen[client.name, arm]
        seen[client.name, arm] += n
        rng = np.random.default_rng([seed, client.number, list(RATES).index(arm)])
        return [float(u < RATES[arm]) for u in rng.random(first + n)[first:]]

    return pull
