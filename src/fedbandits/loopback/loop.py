"""One piece of code that joins a server machine and client machines in one process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fedbandits.errors import ProtocolError
from fedbandits.protocol import Assignment, Client, Decision, RefusalError, Rejection, Server


def play(
    server: Server,
    admit: Callable[[int], Sequence[Client]],
    *,
    in_order: Callable[[Sequence[Client]], Sequence[Client]] = lambda clients: clients,
) -> Decision | None:
    """Play a game to its end and return its last decision.

    A phase that the horizon cuts short is not played here: nobody would read its observations.

    Parameters
    ----------
    server : Server
        Ready for its next phase.
    admit : callable
        Takes how many new clients the server wants and returns them; fewer when there are no more.
    in_order : callable
        From all clients to the order in which they report; that of admission by default.

    Returns
    -------
    Decision or None
        None when the horizon ended before the first decision.

    Examples
    --------
    >>> from fedbandits.rules.algorithms import Fed1Ucb
    >>> from fedbandits.rules.beliefs import Beliefs
    >>> rule = Fed1Ucb(pulls="10", clients=3).rule(
    ...     Beliefs(n_arms=2, horizon=1000, noise=0.01, spread=0.0)
    ... )
    >>> clients = [Client(name, lambda arm, n: [0.3 + 0.2 * arm] * n) for name in "abc"]
    >>> play(Server(rule), lambda wanted: clients[:wanted]).winner
    1
    """
    clients: list[Client] = []
    while not server.finished:
        newcomers = admit(server.wanted())
        clients.extend(newcomers)
        assignment = server.open([client.name for client in newcomers])
        if server.finished:
            break
        try:
            _report(server, in_order(clients), assignment)
        except RefusalError as error:
            last = server.refuse(error.refusal)
        else:
            last = server.close()
        if last is not None and last.final:
            for client in clients:
                client.conclude(last)
    return server.decision


class RejectionError(ProtocolError):
    """A server does not count what one of its own clients has sent; ``rejection`` says why."""

    def __init__(self, client: str, rejection: Rejection) -> None:
        super().__init__(f"update of client {client} rejected: {rejection.value}")
        self.rejection = rejection


def _report(server: Server, clients: Sequence[Client], assignment: Assignment) -> None:
    """Let every client play and hand in its update."""
    for client in clients:
        rejection = server.receive(client.play(assignment))
        if rejection is not None:
            raise RejectionError(client.name, rejection)
