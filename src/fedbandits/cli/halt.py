"""The command ``halt``: the switch of a site, which needs no server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedbandits.errors import InputError, nearest


def halt(
    folder: Path,
    client: str | None = None,
    arm: str | None = None,
    reason: str = "no reason given",
    lift: Annotated[bool, typer.Option("--lift")] = False,
) -> None:
    """Stop an arm, or everything, at this site at once; this needs no server.

    The next call of assign or pull obeys, until the halt is lifted. The server learns of it with
    the client's next message and records it in the log.

    Parameters
    ----------
    folder
        A project, or the folder of its clients' files.
    client
        Only this client. Default: all clients of the folder.
    arm
        Only this arm. Default: all.
    reason
        Why, in words. The server sees it: do not name a patient.
    lift
        Lift the halt; all halts if no client or arm is named.
    """
    from fedbandits.federation.halts import lift_halts, read_halts, set_halt  # noqa: PLC0415
    from fedbandits.federation.state_files import has_clients, is_known_client  # noqa: PLC0415

    state, arms = _state_of(folder)
    words = " ".join(reason.split()) or "no reason given"
    if lift:
        lifted = lift_halts(state, client=client, arm=arm)
        for gone in lifted:
            typer.echo(f"lifted: {gone.words}")
        if not lifted:
            typer.echo("nothing was lifted: no such halt was set", err=True)
        for stays in read_halts(state):
            typer.echo(f"still: {stays.words}")
        return
    if client is not None and not is_known_client(state, client):
        raise InputError(
            "--client",
            f'"{client}" has no files in {state}; leave it out to halt all clients of the folder',
        )
    if arm is not None and arms and arm not in arms:
        raise InputError("--arm", f'"{arm}" is not an arm of the trial; {nearest(arm, arms)}')
    typer.echo(set_halt(state, client=client, arm=arm, reason=words).words)
    if arm is not None and not arms:
        typer.echo(
            "this folder does not know the arms of the trial: if this is not one of them, all"
            " arms are halted",
            err=True,
        )
    if not has_clients(state):
        typer.echo(
            f"CAREFUL: no client has files in {state} yet, so maybe no client obeys. Name the"
            " folder that the clients use (--state of fedbandits node, state of LiveTrial); if this"
            " is the folder, clients obey as soon as they start",
            err=True,
        )
        raise typer.Exit(1)


def _state_of(folder: Path) -> tuple[Path, tuple[str, ...]]:
    """Return the folder of clients' files, and the options if they are known there."""
    from fedbandits.federation.live_store import arms_in  # noqa: PLC0415 - after --help
    from fedbandits.federation.state_files import private_folder  # noqa: PLC0415 - likewise
    from fedbandits.federation.trial import FILE, load_trial  # noqa: PLC0415 - likewise

    if not folder.is_dir():
        raise InputError("FOLDER", f"{folder} is not a folder")
    if (folder / FILE).is_file():
        state = folder / "state"
        return private_folder(state), load_trial(folder).arms
    return folder, arms_in(folder)
