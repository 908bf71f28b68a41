"""Visitors who spend as last month, more or less, and a little more on the blue page."""

from __future__ import annotations

import numpy as np

from fedbandits.federation import ClientInfo, client_app

_RNG: dict[str, np.random.Generator] = {}


def _visitors(n: int, client: ClientInfo) -> tuple[np.ndarray, np.ndarray]:
    """Return what n visitors have spent before, and what they spend now on the red page."""
    rng = _RNG.setdefault(client.name, np.random.default_rng(client.number))
    before = np.clip(rng.normal(50, 10, n), 0, 100)
    return before, np.clip(0.8 * before + rng.normal(0, 6, n), -50, 150)


@client_app
def pull(arm: str, n: int, client: ClientInfo) -> dict[str, np.ndarray]:
    """Show n visitors a page; return what they spend, and what they have spent before."""
    before, spent = _visitors(n, client)
    return {"outcome": spent + (2.0 if arm == "blue" else 0.0), "covariate": before}


def history(client: ClientInfo) -> dict[str, np.ndarray]:
    """Return visitors of before the trial: last month's spending, and that of the month before."""
    before, spent = _visitors(500, client)
    return {"outcome": spent, "covariate": before}
