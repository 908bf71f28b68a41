"""The whole federation in one process, in memory: how a trial is tried before it is deployed."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedbandits.errors import InputError
from fedbandits.federation.client_app import is_client_app
from fedbandits.federation.coordinator import Answer, Coordinator, Watch
from fedbandits.federation.host import ClientHost, ClientInfo, PullByName, told
from fedbandits.federation.trial import Trial
from fedbandits.privacy.sampling import seeded_noise
from fedbandits.protocol import Assignment, Conclusion, Log, Server

CLIENT_FILE = "client.py"


class LocalTransport:
    """Carries messages by calling the clients, one after the other.

    Parameters
    ----------
    hosts : sequence of ClientHost
        All clients.
    """

    def __init__(self, hosts: Sequence[ClientHost]) -> None:
        self._hosts = {host.info.name: host for host in hosts}
        self._answers: list[Answer] = []

    def connected(self) -> list[str]:
        """Return all of them."""
        return list(self._hosts)

    def send(self, message: Assignment | Conclusion, clients: Sequence[str]) -> None:
        """Let clients answer at once."""
        for name in clients:
            if isinstance(message, Conclusion):
                self._hosts[name].conclude(message)
            else:
                self._answers.append(self._hosts[name].answer(message))

    def receive(self, timeout: float) -> list[Answer]:
        """Return the answers; there is nothing to wait for."""
        answers, self._answers = self._answers, []
        return answers

    def flush(self, timeout: float) -> None:
        """Return: everything has arrived."""


def server_of(trial: Trial, log: Log | None = None, run: str | None = None) -> Server:
    """Return the server of a trial, new or from its log; by its title if the run has no name."""
    return Server(
        trial.rule(),
        arms=trial.arms,
        run=trial.title if run is None else run,
        log=log,
        privacy=trial.privacy,
        quorum=trial.quorum,
        quarantine_after=trial.quarantine_after,
        limits=trial.limits,
    )


def try_trial(
    trial: Trial,
    pull: PullByName,
    clients: int,
    *,
    seed: int | None = None,
    log: Log | None = None,
    watch: Watch = lambda _: None,
) -> Server:
    """Play a trial with so many clients in this process; return its server.

    Nothing is waited for, and noise is seeded: it protects nothing here.

    Parameters
    ----------
    trial : Trial
        What is compared.
    pull : callable
        ``pull(arm, n, client)``.
    clients : int
        How many there are.
    seed : int, optional
        Of everything random but ``pull``; the trial's own by default.
    log : Log, optional
        Where the records go.
    watch : callable
        Told what happens.

    Examples
    --------
    >>> from fedbandits.federation.trial import read_trial
    >>> trial = read_trial({
    ...     "title": "demo", "arms": ["red", "blue"], "pulls": "20", "admissions": "2^p",
    ...     "radius": {"rule": "certified", "delta": 0.05}, "assume": {"noise": 0.1, "spread": 0.1},
    ... })
    >>> server = try_trial(trial, lambda arm, n, client: [0.4 + 0.5 * (arm == "blue")] * n, 20)
    >>> server.arms[server.decision.winner]
    'blue'
    """
    if clients < 1:
        raise InputError("clients", f"{clients} is below 1; a federation has some")
    chosen = trial.seed if seed is None else seed
    hosts = [
        ClientHost(
            ClientInfo(name=f"client-{number}", number=number),
            pull,
            trial,
            noise=seeded_noise(np.random.default_rng([chosen, number, 1])),
            rng=np.random.default_rng([chosen, number, 2]),
        )
        for number in range(clients)
    ]
    server = server_of(trial, log)
    # Nobody is late here: time stands still.
    Coordinator(
        server,
        LocalTransport(hosts),
        clock=lambda: 0.0,
        seed=chosen,
        patience=trial.patience,
        watch=watch,
    ).run()
    return server


def load_pull(folder: Path) -> PullByName:
    """Return the ``pull`` of a project: the function in client.py.

    Raises
    ------
    InputError
        If there is none; what goes wrong inside the file is said with its line.
    """
    path = folder / CLIENT_FILE
    if not path.is_file():
        raise InputError(str(path), "is not there; write a function pull(arm, n, client) in it")
    spec = importlib.util.spec_from_file_location("fedbandits_client_file", path)
    if spec is None or spec.loader is None:
        raise InputError(str(path), "is not Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(str(path), f"fails when it is read: {told(error)}") from error
    marked = [value for value in vars(module).values() if is_client_app(value)]
    if len(marked) > 1:
        raise InputError(str(path), f"has {len(marked)} functions with @client_app; keep one")
    found: Any = marked[0] if marked else getattr(module, "pull", None)
    if not callable(found):
        raise InputError(
            str(path), "has no function pull(arm, n, client); write one, with @client_app above it"
        )
    pull: PullByName = found
    return pull
