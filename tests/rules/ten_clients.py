"""Ten clients of a live run, and a phase in which some of them report."""

from __future__ import annotations

from collections.abc import Mapping

from fedbandits.protocol import Server, Update


def answer_to(server: Server, means: Mapping[str, tuple[float, ...]]) -> None:
    """Play a phase: every client that is named reports these means, the others are silent."""
    assignment = server.open(list(CLIENTS) if server.phase == 0 else [])
    for client, own in means.items():
        update = Update(
            header=server.header,
            phase=assignment.phase,
            client=client,
            counts=assignment.pulls,
            means=tuple(m if n else 0.0 for m, n in zip(own, assignment.pulls, strict=True)),
        )
        server.receive(update)


CLIENTS = tuple("abcdefghij")
SIX, EIGHT = CLIENTS[:6], CLIENTS[:8]
