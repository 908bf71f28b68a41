"""The command that runs a node of a federation: ``node``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedbandits.cli.federation import Project, require_flower


def node(  # noqa: PLR0917 - options of a command, all of them named
    project: Project,
    superlink: Annotated[str, typer.Option()],
    root_certificates: Annotated[Path, typer.Option(exists=True, dir_okay=False)],
    key: Annotated[Path, typer.Option(exists=True, dir_okay=False)],
    name: str | None = None,
    clients: str = "1",
    first: Annotated[int | None, typer.Option(min=0)] = None,
    state: Path | None = None,
) -> None:
    """Run a node at its clients' site: it runs only the installed app, whatever a server sends.

    Any other app is refused before any of its code runs.

    Parameters
    ----------
    superlink
        Address of the server: host:port.
    root_certificates
        Certificate of the server's authority (PEM).
    key
        This node's private key.
    name
        Name of its client; several clients also get numbers.
    clients
        Number of clients that it hosts, or their names, separated by commas.
    first
        Number of the first of several clients.
    state : default state in PROJECT
        Where its clients keep their files.
    """
    require_flower()
    from fedbandits.federation.flower.pinned import check_flower  # noqa: PLC0415 - heavy

    check_flower()
    from fedbandits.federation.flower.node import NodeConnection, run_node  # noqa: PLC0415 - heavy

    said = {"project": str(project.absolute()), "name": name, "first": first}
    said |= {"clients": int(clients) if clients.isdecimal() else clients}
    said |= {"state": None if state is None else str(state.absolute())}
    try:
        run_node(
            NodeConnection(superlink=superlink, authority=root_certificates, key=key),
            {option: value for option, value in said.items() if value is not None},
        )
    except KeyboardInterrupt:
        typer.echo("stopped", err=True)
