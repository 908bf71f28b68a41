"""The whole federation in one process, in memory, to try a trial before it is deployed."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import cast

import numpy as np

from fedbandits.errors import InputError, check_count
from fedbandits.federation.client_app import is_client_app
from fedbandits.federation.coordinator import Announce, Coordinator, Reply, Sent
from fedbandits.federation.host import (
    ClientHost,
    ClientInfo,
    PullByName,
    call_pull,
    call_words,
    error_line,
)
from fedbandits.federation.live import LiveTrial
from fedbandits.federation.live_store import LiveStore
from fedbandits.federation.trial import Trial
from fedbandits.privacy.sampling import seeded_noise
from fedbandits.protocol import Conclusion, Log, Recall, Refusal, Refused, Server
from fedbandits.protocol.outcomes import as_outcomes
from fedbandits.rules.draws import SeededDraws

CLIENT_FILE = "client.py"


class LocalTransport:
    """Carries messages by calling the clients, one after the other.

    Parameters
    ----------
    hosts : sequence of ClientHost
        All clients.
    """

    def __init__(self, hosts: Sequence[ClientHost]) -> None:
        self.now = 0.0
        self._hosts = {host.info.name: host for host in hosts}
        self._answers: list[Reply] = []

    def clock(self) -> float:
        """Return the time, which passes only while nobody has anything to say."""
        return self.now

    def connected(self) -> list[str]:
        """Return all of them."""
        return list(self._hosts)

    def send(self, message: Sent, clients: Sequence[str]) -> None:
        """Let clients answer at once."""
        for name in clients:
            if isinstance(message, Conclusion):
                self._hosts[name].conclude(message)
            elif isinstance(message, Recall):
                self._answers.append(self._hosts[name].recall(message))
            else:
                self._answers.append(self._hosts[name].answer(message))

    def receive(self, timeout: float) -> list[Reply]:
        """Return the answers; if there are none, let the waiting time pass."""
        answers, self._answers = self._answers, []
        if not answers:
            self.now += timeout
        return answers

    def flush(self, timeout: float) -> None:
        """Return: everything has arrived."""


class TrafficTransport(LocalTransport):
    """Carries messages by calling the clients, with traffic for those that wait for outcomes.

    Parameters
    ----------
    maturity : float
        Seconds that pass when traffic has come.
    """

    def __init__(self, maturity: float) -> None:
        super().__init__(())
        self._maturity = maturity
        self._traffic: dict[str, Callable[[], None]] = {}

    def join(self, host: ClientHost, traffic: Callable[[], None]) -> None:
        """Add a client, and the function that sends it traffic."""
        self._hosts[host.info.name] = host
        self._traffic[host.info.name] = traffic

    def receive(self, timeout: float) -> list[Reply]:
        """Return the answers of clients that are done; the others are asked again later."""
        answers = super().receive(timeout)
        waiting = [answer.client for answer in answers if _pending(answer)]
        for name in waiting:
            self._traffic[name]()
        if waiting:
            self.now += self._maturity
        return [answer for answer in answers if not _pending(answer)]


def _pending(answer: Reply) -> bool:
    return isinstance(answer, Refusal) and answer.why is Refused.PENDING


def simulated_traffic(live: LiveTrial, pull: PullByName, info: ClientInfo) -> Callable[[], None]:
    """Return a function that sends a client the units its phase wants, with ``pull`` for each.

    The outcome of a unit is there at once.
    """
    numbers = count(1)

    def come() -> None:
        with live:
            for _ in range(live.wanted()):
                unit = f"unit-{next(numbers)}"
                arm = live.assign(unit)
                returned = call_pull(pull, arm, 1, info)
                try:
                    (value,) = as_outcomes(returned, 1).tolist()
                    live.record(unit, value)
                except InputError as error:
                    raise error.within(call_words(pull, arm, 1, info)) from None

    return come


def server_of(trial: Trial, log: Log | None = None, run: str | None = None) -> Server:
    """Return the server of a trial, new or from its log; the run's default name is its title."""
    return Server(
        trial.rule(),
        arms=trial.arms,
        run=trial.title if run is None else run,
        log=log,
        privacy=trial.privacy,
        quorum=trial.quorum,
        quarantine_after=trial.quarantine_after,
        limits=trial.limits,
        outside=trial.outside,
        draws=SeededDraws(trial.seed),
    )


def try_trial(
    trial: Trial,
    pull: PullByName,
    clients: int,
    *,
    seed: int | None = None,
    log: Log | None = None,
    watch: Announce = lambda _: None,
) -> Server:
    """Play a trial with some clients in this process; return its server.

    Nothing is waited for, and noise is seeded: it protects nothing here. If outcomes come from live
    traffic, ``pull`` stands in for it: units are assigned, pulled once each and recorded in the
    files that a service would write, in a folder that is removed in the end.

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
    check_count(clients, "clients")
    trial.check_clients(clients)
    chosen = trial.seed if seed is None else seed
    infos = [ClientInfo(name=f"client-{number}", number=number) for number in range(clients)]
    server = server_of(replace(trial, seed=chosen), log)

    def host(
        info: ClientInfo, pull: PullByName | None, live: LiveStore | None = None
    ) -> ClientHost:
        """Return a client with seeds for what it draws, which is for trying only."""
        noise = seeded_noise(np.random.default_rng([chosen, info.number, 1]))
        rng = np.random.default_rng([chosen, info.number, 2])
        return ClientHost(info, pull, trial, noise=noise, rng=rng, live=live)

    transport: LocalTransport
    with ExitStack() as stack:
        if trial.live is None:
            transport = LocalTransport([host(info, pull) for info in infos])
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="fedbandits-"))
            transport = traffic = TrafficTransport(trial.live.maturity or 0.0)
            for info in infos:
                live = LiveTrial(
                    trial, client=info.name, state=folder, clock=traffic.clock, durable=False
                )
                live.close()
                traffic.join(host(info, None, live.store), simulated_traffic(live, pull, info))
        Coordinator(
            server,
            transport,
            clock=transport.clock,
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
    folder = folder.absolute()
    path = folder / CLIENT_FILE
    if not path.is_file():
        raise InputError(str(path), "is not there; write a function pull(arm, n, client) in it")
    spec = importlib.util.spec_from_file_location("fedbandits_client_file", path)
    if spec is None or spec.loader is None:
        raise InputError(str(path), "is not Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    if str(folder) not in sys.path:  # it may import what lies beside it
        sys.path.insert(0, str(folder))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(
            str(path), f"fails when it is read: {error_line(error, str(path))}"
        ) from error
    marked = [value for value in vars(module).values() if is_client_app(value)]
    if len(marked) > 1:
        raise InputError(str(path), f"has {len(marked)} functions with @client_app; keep one")
    found = marked[0] if marked else getattr(module, "pull", None)
    if not callable(found):
        raise InputError(
            str(path), "has no function pull(arm, n, client); write one, with @client_app above it"
        )
    return cast("PullByName", found)
