"""Base stations that sense as those in the folder above do, and some that lie on purpose.

The liars want the best channel for themselves: they say that it is never free, and that all others
always are. Both are inside the range of outcomes, so no check can find them out.
"""

import runpy
from collections.abc import Sequence
from pathlib import Path

from fedbandits.federation import ClientInfo, client_app

HONEST = runpy.run_path(str(Path(__file__).absolute().parent.parent / "client.py"))

LIARS = {f"client-{number}" for number in range(0, 500, 20)}  # 25 of 500
BEST = "ch34"


@client_app
def pull(arm: str, n: int, client: ClientInfo) -> Sequence[float]:
    """Sense a channel n times, or lie about it."""
    if client.name in LIARS:
        return [float(arm != BEST)] * n
    sensed: Sequence[float] = HONEST["pull"](arm, n, client)
    return sensed
