"""Households that draw from their own ratings as those in the folder above do, and some that lie.

The liars want dramas to lose: they give each of them half a star, and all other films five stars.
Both are inside the range of ratings, so no check can find them out.
"""

import runpy
from collections.abc import Sequence
from pathlib import Path

from fedbandits.federation import ClientInfo, client_app

HONEST = runpy.run_path(str(Path(__file__).absolute().parent.parent / "client.py"))

LIARS = {f"client-{number}" for number in range(0, 400, 50)}  # 8 of 400
BEST = "drama"


@client_app
def pull(arm: str, n: int, client: ClientInfo) -> Sequence[float]:
    """Draw n of the client's own ratings of a genre, or lie about it."""
    if client.name in LIARS:
        return [float(arm != BEST)] * n
    drawn: Sequence[float] = HONEST["pull"](arm, n, client)
    return drawn
