"""Signed runs on disk, and what somebody may do to their logs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from coin_trial import TABLES as COINS
from coin_trial import coins
from fedbandits.federation.coordinator import Coordinator
from fedbandits.federation.durable_log import DurableLog, read_log
from fedbandits.federation.followed import LoggedRun
from fedbandits.federation.host import ClientHost, ClientInfo
from fedbandits.federation.local import LocalTransport
from fedbandits.federation.served import begin_or_resume
from fedbandits.federation.signing import client_key, server_key
from fedbandits.federation.trial import read_trial
from fedbandits.protocol import (
    HeadSigned,
    KeyPinned,
    PhaseClosed,
    PhaseOpened,
    Record,
    Server,
    Update,
    UpdateAccepted,
)

TABLES = COINS | {"pulls": "15", "admissions": "4"}
CLIENTS = 8
STATE = "state"
LOG = "run.fedlog"
KEYS = "given"


Timed: TypeAlias = tuple[Record, str]
"""A record, and when it was written."""


def hosts(folder: Path, server: Server, clients: int = CLIENTS) -> list[ClientHost]:
    """Return clients with keys in a folder, which the server is told."""
    state, trial, pull = folder / STATE, read_trial(TABLES), coins(3)
    state.mkdir(exist_ok=True)
    found = []
    for number in range(clients):
        info = ClientInfo(name=f"client-{number}", number=number)
        key = client_key(state, info.name)
        server.pin({info.name: key.public})
        found.append(ClientHost(info, pull, trial, folder=state, sign=key.sign))
    return found


def signed_run(folder: Path, keys: Path | None = None) -> Path:
    """Play a signed run to its end; return its log. The public keys are in the folder `KEYS`."""
    log, run = begin_or_resume(read_trial(TABLES), folder / LOG, signed=True, keys=keys)
    with log:
        transport = LocalTransport(hosts(folder, run.server))
        Coordinator(run.server, transport, clock=transport.clock).run()
    give_keys(folder)
    return folder / LOG


def give_keys(folder: Path) -> Path:
    """Copy all public keys of a folder to one that is given to others."""
    given = folder / KEYS
    given.mkdir(exist_ok=True)
    for path in (*folder.glob("*.pub"), *folder.glob(f"{STATE}/*.pub")):
        shutil.copy(path, given)
    return given


def rewritten(
    path: Path,
    to: Path,
    change: Callable[[list[Timed]], list[Timed]],
    header: dict[str, Any] | None = None,
    *,
    signer: Path | None = None,
) -> Path:
    """Write a log anew with other records and good checksums, as anybody can.

    Parameters
    ----------
    path, to : path
        The log, and where to write the other.
    change : callable
        From its records, with the time of each, to those of the other.
    header : dict, optional
        Another header.
    signer : path, optional
        A log beside which there is the key that signs decisions anew; by default the server's
        signatures are as they were.
    """
    content = read_log(path)
    records = change(list(zip(content.records, content.times, strict=True)))
    with DurableLog(to, content.header if header is None else header) as log:
        if signer is not None:
            log.sign_with(server_key(signer).sign, over=False)
        for record, at in records:
            place = at, log._number, log._checksum
            anew = signer is not None and isinstance(record, HeadSigned)
            log._write([log._signature(*place) if anew else log._row(record, *place)])
    return to


def swapped(update: Update) -> Update:
    """Return an update with the first and the last option swapped."""

    def swap(values: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*values[::-1],) if len(values) == 3 else values

    return replace(update, counts=swap(update.counts), means=swap(update.means))


def replayed(
    path: Path, to: Path, change: Callable[[Update], Update], header: dict[str, Any] | None = None
) -> Path:
    """Play a run again from its updates, each of them changed, with decisions that follow.

    The server's key signs them: this is what a server can do that lies.
    """
    content = read_log(path)
    for key in path.parent.glob("fedbandits-server.*"):
        shutil.copy(key, to.parent)
    with DurableLog(to, content.header if header is None else header) as log:
        server = LoggedRun(log).serving(log)
        server.is_signed = None  # it counts what it likes
        for record in content.records:
            if server.finished:
                break
            match record:
                case KeyPinned():
                    server._commit(record)
                case PhaseOpened(admitted=admitted):
                    server.open(admitted)
                case UpdateAccepted(update=update):
                    if server.receive(change(replace(update, header=server.header))) is not None:
                        server.stop()  # it asks for what nobody has sent
                case PhaseClosed():
                    server.close()
    return to
