"""The whole federation in one process, in memory, to try a trial before it is deployed."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import cast

import numpy as np

from fedbandits.errors import InputError, check_count
from fedbandits.federation.client_app import is_client_app
from fedbandits.federation.coordinator import Announce, Coordinator, Reply, Sent
from fedbandits.federation.host import (
    ClientHost,
    ClientInfo,
    History,
    PullByName,
    call_pull,
    call_words,
    error_line,
)
from fedbandits.federation.live import LiveTrial
from fedbandits.federation.trial import Trial
from fedbandits.privacy.sampling import seeded_noise
from fedbandits.protocol import Conclusion, Log, Recall, Refusal, Refused, Server
from fedbandits.protocol.outcomes import parted
from fedbandits.rules.draws import SeededDraws

CLIENT_FILE = "client.py"


class LocalTransport:
    """Carries messages by calling the clients, one after the other.

    Parameters
    ----------
    hosts : sequence of ClientHost
        All clients, except those that join.
    maturity : float
        Seconds that pass when traffic has come.
    """

    def __init__(self, hosts: Sequence[ClientHost] = (), *, maturity: float = 0.0) -> None:
        self.now = 0.0
        self._hosts = {host.info.name: host for host in hosts}
        self._maturity = maturity
        self._traffic: dict[str, Callable[[], None]] = {}
        self._answers: list[Reply] = []

    def join(self, host: ClientHost, traffic: Callable[[], None] | None = None) -> None:
        """Add a client, and the function that sends it traffic while it waits for outcomes."""
        self._hosts[host.info.name] = host
        if traffic is not None:
            self._traffic[host.info.name] = traffic

    def clock(self) -> float:
        """Return the time, which passes only while nobody has anything to say."""
        return self.now

    def connected(self) -> list[str]:
        """Return all of them."""
        return list(self._hosts)

    def send(self, message: Sent, clients: Sequence[str]) -> None:
        """Let clients answer at once."""
        for host in map(self._hosts.__getitem__, clients):
            if isinstance(message, Conclusion):
                host.conclude(message)
            elif isinstance(message, Recall):
                self._answers.append(host.recall(message))
            else:
                self._answers.append(host.answer(message))

    def receive(self, timeout: float) -> list[Reply]:
        """Return the answers; if there are none, let the waiting time pass.

        Clients that wait for outcomes get traffic, and are asked again later.
        """
        answers, self._answers = self._answers, []
        if not answers:
            self.now += timeout
        waiting = [answer.client for answer in answers if self._waits(answer)]
        for name in waiting:
            self._traffic[name]()
        if waiting:
            self.now += self._maturity
        return [answer for answer in answers if not self._waits(answer)]

    def _waits(self, answer: Reply) -> bool:
        pending = isinstance(answer, Refusal) and answer.why is Refused.PENDING
        return pending and answer.client in self._traffic

    def flush(self, timeout: float) -> None:
        """Return: everything has arrived."""


def simulated_traffic(
    live: LiveTrial, pull: PullByName | None, info: ClientInfo
) -> Callable[[], None]:
    """Return a function that sends a client the units its phase wants, with ``pull`` for each.

    The outcome of a unit is there at once.
    """
    numbers, trial = count(1), live.trial

    def come() -> None:
        with live:
            for _ in range(live.wanted()):
                unit = f"unit-{next(numbers)}"
                # A unit has its covariate before its option; pull invents both at once.
                arm = live.assign(unit) if trial.covariate is None else live.store.next_option()
                returned = call_pull(pull, arm, 1, info)
                try:
                    outcomes, guarded, covariates = parted(
                        returned, 1, trial.guardrails, covariate=trial.covariate is not None
                    )
                    if trial.covariate is not None:
                        live.assign(unit, covariate=float(covariates[0]))
                    names = (rail.name for rail in trial.guardrails)
                    named = dict(zip(names, guarded[:, 0].tolist(), strict=True))
                    live.record(unit, float(outcomes[0]), **named)
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
        covariate=trial.covariate,
        draws=SeededDraws(trial.seed),
        guardrails=trial.guardrails,
    )


def try_trial(
    trial: Trial,
    pull: PullByName | None,
    clients: int,
    *,
    seed: int | None = None,
    log: Log | None = None,
    watch: Announce = lambda _: None,
    history: History | None = None,
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
    history : callable, optional
        ``history(client)``, if the trial's covariate has no fixed coefficient.

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
    server = server_of(replace(trial, seed=chosen), log)
    transport = LocalTransport(maturity=0.0 if trial.live is None else trial.live.maturity or 0.0)
    with tempfile.TemporaryDirectory(prefix="fedbandits-") as folder:
        for number in range(clients):
            info = ClientInfo(name=f"client-{number}", number=number)
            # What a client draws is seeded: for trying only.
            noise = seeded_noise(np.random.default_rng([chosen, number, 1]))
            rng = np.random.default_rng([chosen, number, 2])
            if trial.live is None:
                host = ClientHost(info, pull, trial, noise=noise, rng=rng, history=history)
                transport.join(host)
                continue
            name, clock = info.name, transport.clock
            live = LiveTrial(trial, client=name, state=folder, clock=clock, durable=False)
            live.close()
            host = ClientHost(
                info, None, trial, noise=noise, rng=rng, live=live.store, history=history
            )
            transport.join(host, simulated_traffic(live, pull, info))
        Coordinator(
            server,
            transport,
            clock=transport.clock,
            seed=chosen,
            patience=trial.patience,
            watch=watch,
        ).run()
    return server


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCode:
    """A user's code: the functions in client.py.

    Parameters
    ----------
    pull : callable, optional
        ``pull(arm, n, client)``; None if outcomes come from live traffic.
    history : callable, optional
        ``history(client)``; None if the trial does not ask for it.
    """

    pull: PullByName | None = None
    history: History | None = None


def load_client(folder: Path, trial: Trial, *, simulated: bool = False) -> ClientCode:
    """Return the functions of a project that the clients of a trial call.

    Parameters
    ----------
    folder : path
        Of the project.
    trial : Trial
        What is compared.
    simulated : bool
        Whether ``pull`` stands in for live traffic.

    Raises
    ------
    InputError
        If one is missing; what goes wrong inside the file is said with its line.
    """
    asks = trial.covariate is not None and trial.covariate.fixed is None
    pulls = trial.live is None or simulated
    if not pulls and not asks:
        return ClientCode()
    module = _client_module(folder)
    return ClientCode(
        pull=_pull_in(module) if pulls else None,
        history=_history_in(module) if asks else None,
    )


def load_pull(folder: Path) -> PullByName:
    """Return the ``pull`` of a project: the function in client.py.

    Raises
    ------
    InputError
        If there is none; what goes wrong inside the file is said with its line.
    """
    return _pull_in(_client_module(folder))


def _client_module(folder: Path) -> ModuleType:
    folder = folder.absolute()
    path = folder / CLIENT_FILE
    if not path.is_file():
        raise InputError(str(path), "is not there; write a function pull(arm, n, client) in it")
    module = ModuleType("fedbandits_client_file")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    if str(folder) not in sys.path:  # it may import what lies beside it
        sys.path.insert(0, str(folder))
    try:
        exec(compile(path.read_bytes(), str(path), "exec"), vars(module))
    except Exception as error:
        raise InputError(
            str(path), f"fails when it is read: {error_line(error, str(path))}"
        ) from error
    return module


def _pull_in(module: ModuleType) -> PullByName:
    path = module.__file__
    marked = [value for value in vars(module).values() if is_client_app(value)]
    if len(marked) > 1:
        raise InputError(str(path), f"has {len(marked)} functions with @client_app; keep one")
    found = marked[0] if marked else getattr(module, "pull", None)
    if not callable(found):
        raise InputError(
            str(path), "has no function pull(arm, n, client); write one, with @client_app above it"
        )
    return cast("PullByName", found)


def _history_in(module: ModuleType) -> History:
    found = getattr(module, "history", None)
    if not callable(found):
        raise InputError(
            str(module.__file__),
            "has no function history(client), from which the covariate's coefficient is estimated;"
            " write one, or fix the coefficient in fedbandits.toml",
        )
    return cast("History", found)
