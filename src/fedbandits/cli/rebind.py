"""The command that moves clients of a run to another node: ``rebind``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedbandits.cli.runs import LogFile, Wait, do_or_ask, read_run, stated
from fedbandits.cli.up import require_flower
from fedbandits.errors import InputError, nearest

if TYPE_CHECKING:
    from fedbandits.protocol import Server


def rebind(  # noqa: PLR0917 - options of a command, all of them named
    log: LogFile,
    node: Annotated[
        str,
        typer.Option(help="The node that answers from now on: its public key, or SHA256:…"),
    ],
    reason: Annotated[str, typer.Option(help="Why, in words; the log and the status show it.")],
    clients: Annotated[
        list[str] | None, typer.Argument(help="Clients to move.", metavar="CLIENT...")
    ] = None,
    of: Annotated[
        str | None,
        typer.Option("--of", help="Move all clients of this node instead: its key, or SHA256:…"),
    ] = None,
    wait: Wait = 60.0,
) -> None:
    """Let another node answer for clients, if a client has moved or a node has a new key.

    A client is bound to the key of the node that first answered for it. Without this command, no
    other node can answer for that client.
    """
    require_flower()
    from fedbandits.federation.coordinator import Rebinding  # noqa: PLC0415 - after --help

    words = stated(reason)
    run = read_run(log)
    to = _fingerprint(node, "--node")
    names = _named(run.server, clients or [], None if of is None else _fingerprint(of, "--of"))

    def do(server: Server) -> None:
        server.rebind(names, to, words)

    def done(server: Server) -> bool:
        return all(server.run_state.homes[name] == to for name in names)

    wanted = Rebinding(clients=tuple(names), node=to, reason=words)
    do_or_ask(log, run, wanted, do=do, done=done, wait=wait)
    typer.echo(f"node {to} now answers for {len(names)} clients")


def _fingerprint(said: str, where: str) -> str:
    """Return the fingerprint that is given, or that of the key in a file."""
    from fedbandits.federation.flower.keys import fingerprint  # noqa: PLC0415 - heavy

    if re.fullmatch(r"SHA256:[A-Za-z0-9+/]{43}", said):
        return said
    try:
        return fingerprint(Path(said).read_bytes())
    except (OSError, ValueError):
        raise InputError(
            where,
            f'"{said}" is neither a public key in a file nor a fingerprint; ssh-keygen -lf prints'
            " one, such as SHA256:…",
        ) from None


def _named(server: Server, clients: list[str], of: str | None) -> list[str]:
    """Return the clients to move."""
    homes = server.run_state.homes
    if bool(clients) == (of is not None):
        raise InputError(
            "CLIENT", "name the clients to move, or move all clients of a node with --of"
        )
    if of is not None:
        found = [client for client, home in homes.items() if home == of]
        if not found:
            raise InputError("--of", f"{of} answers for no client of this run")
        return found
    for client in clients:
        if client not in homes:
            raise InputError(
                "CLIENT", f'no node answers for "{client}"; {nearest(client, homes, most=8)}'
            )
    return clients
