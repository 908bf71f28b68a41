"""A run that a test moves on step by step, as its server would, with signs of life beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fedbandits.federation.coordinator import Bulletin
from fedbandits.federation.presence import NowFile, now_path
from fedbandits.federation.served import ServedRun, begin_or_resume
from fedbandits.federation.state_files import Closing
from fedbandits.federation.trial import read_trial
from fedbandits.protocol import Update

WARD: dict[str, Any] = {
    "title": "Four dressings",
    "arms": ["silver", "honey", "gauze", "film"],
    "pulls": "25",
    "admissions": "4",
    "range": [0, 1],
    "radius": {"rule": "certified", "delta": 0.05},
    "assume": {"noise": 0.5, "spread": 0.05},
    "quorum": {"fraction": 0.7},
    "quarantine_after": 3,
}
MEANS = (0.62, 0.68, 0.38, 0.58)


class Staged(Closing):
    """A run that holds its log, as a server does."""

    def __init__(self, path: Path, changes: dict[str, Any] | None = None) -> None:
        self.path = path
        self.log, self.run = begin_or_resume(read_trial(WARD | (changes or {})), path)
        self.server = self.run.server
        self.now = NowFile(now_path(path), path.parent)

    def tell(self, news: str = "a phase was opened", away: Sequence[str] = ()) -> None:
        """Give a sign of life."""
        server = self.server
        missing = len(server.missing)
        self.now.write(
            Bulletin(
                phase=server.phase,
                clients=len(server.clients),
                reported=len(server.clients) - missing,
                connected=24,
                away=tuple(away),
                left=server.left,
                open=server.assignment is not None and not server.finished,
                seconds=1500.0,
                grace=3300.0,
                bits=sum(server.uplink_bits.values()),
                waiting=f"{missing} of {len(server.clients)} clients to report",
                news=news,
            ),
            server,
            [{"key": "SHA256:Qf0k", "hosts": [], "connected": True, "trouble": ""}],
        )

    def opened(self, names: Sequence[str]) -> None:
        """Open a phase with these new clients."""
        self.server.open(names)
        self.tell()

    def report(self, clients: Sequence[str], means: Sequence[float] | None = None) -> None:
        """Let clients report; each has its own seed."""
        server = self.server
        for client in clients:
            assignment = server.assignment
            assert assignment is not None
            rng = np.random.default_rng([assignment.phase, *client.encode()])
            seen = means or [
                float(rng.binomial(max(n, 1), mean)) / max(n, 1)
                for n, mean in zip(assignment.pulls, MEANS, strict=False)
            ]
            server.receive(
                Update(
                    header=server.header,
                    phase=assignment.phase,
                    client=client,
                    counts=assignment.pulls,
                    means=tuple(
                        m if n else 0.0 for m, n in zip(seen, assignment.pulls, strict=True)
                    ),
                )
            )
        self.tell("updates came")

    def phase(self, names: Sequence[str]) -> None:
        """Play a whole phase."""
        self.opened(names)
        self.report(self.server.missing)
        self.server.close()
        self.tell("a phase was decided")

    def close(self) -> None:
        """End, as a server that is told to."""
        self.run.close()
        self.log.close()


@contextmanager
def staged(path: Path, phases: int = 0, changes: dict[str, Any] | None = None) -> Iterator[Staged]:
    """Yield a run in which so many phases were played."""
    with Staged(path, changes) as run:
        for number in range(phases):
            run.phase([f"clinic-{4 * number + k}" for k in range(4)])
        yield run


__all__ = ["MEANS", "WARD", "ServedRun", "Staged", "staged"]
