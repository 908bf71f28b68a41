"""The commands for a client's site: ``kit``, ``node``, ``halt`` and ``audit``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedbandits.cli.federation import Project, require_flower
from fedbandits.cli.options import AsJson
from fedbandits.cli.printing import print_json, print_plain, print_table
from fedbandits.errors import InputError, nearest

if TYPE_CHECKING:
    from fedbandits.federation.verification import Verified
    from fedbandits.protocol import Entry
    from fedbandits.report.shown import Shown

MOST_ARMS_SHOWN = 6
"""How many means of an update fit into a line of the table."""


def kit(  # noqa: PLR0917 - options of a command, all of them named
    project: Project,
    nodes: Annotated[str, typer.Option()],
    address: Annotated[str, typer.Option()],
    out: Annotated[Path, typer.Option("--out", "-o")],
    archive: Annotated[bool, typer.Option("--archive")] = False,
    port: Annotated[int, typer.Option(min=1, max=65535)] = 9093,
    at: str = "/srv/fedbandits",
    state: str = "/var/lib/fedbandits",
    programs: str = "/opt/fedbandits/bin",
) -> None:
    """Write one folder per place of a federation: keys, certificates, services, and a README.

    Each node has a folder with its private key, and one client of its name. If OUT has a server's
    folder already, it stays, and new nodes are added to it.

    Parameters
    ----------
    nodes
        Names of the nodes, separated by commas.
    address
        Host and port by which nodes call the server.
    out
        Folder to write the folders into.
    archive
        Also pack each folder into a .tar.gz file.
    port
        Port of the SuperLink on the server, which only the proxy calls.
    at
        Where places are installed: each in a folder of its name.
    state
        Where places keep their files: each in a folder of its name.
    programs
        Folder with the programs of fedbandits and Flower on every machine.
    """
    require_flower()
    from fedbandits.federation.flower.kit import SERVER, Kit  # noqa: PLC0415 - heavy

    made = Kit(project=project, address=address, port=port, at=at, state=state, programs=programs)
    names = [name.strip() for name in nodes.split(",")]
    for path in made.write(out, names, archive=archive):
        typer.echo(f"wrote {path}")
    typer.echo(
        f"next: bring each folder to its machine on a safe way, and follow its README.md; then"
        f" remove the folders of the nodes here, and keep {out / SERVER} to add nodes"
    )


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
    from fedbandits.federation import halts, state_files  # noqa: PLC0415 - after --help

    state, arms = _state_of(folder)
    words = " ".join(reason.split()) or "no reason given"
    if lift:
        lifted = halts.lift_halts(state, client=client, arm=arm)
        for gone in lifted:
            typer.echo(f"lifted: {gone.words}")
        if not lifted:
            typer.echo("nothing was lifted: no such halt was set", err=True)
        for stays in halts.read_halts(state):
            typer.echo(f"still: {stays.words}")
        return
    if client is not None and not state_files.is_known_client(state, client):
        raise InputError(
            "--client",
            f'"{client}" has no files in {state}; leave it out to halt all clients of the folder',
        )
    if arm is not None and arms and arm not in arms:
        raise InputError("--arm", f'"{arm}" is not an arm of the trial; {nearest(arm, arms)}')
    typer.echo(halts.set_halt(state, client=client, arm=arm, reason=words).words)
    if arm is not None and not arms:
        typer.echo(
            "this folder does not know the arms of the trial: if this is not one of them, all"
            " arms are halted",
            err=True,
        )
    if not state_files.has_clients(state):
        typer.echo(
            f"CAREFUL: no client has files in {state} yet, so maybe no client obeys. Name the"
            " folder that the clients use (--state of fedbandits node, state of LiveTrial); if this"
            " is the folder, clients obey as soon as they start",
            err=True,
        )
        raise typer.Exit(1)


def _state_of(folder: Path) -> tuple[Path, tuple[str, ...]]:
    """Return the folder of clients' files, and the options if they are known there."""
    from fedbandits.federation import live_store, state_files, trial  # noqa: PLC0415 - after --help

    if not folder.is_dir():
        raise InputError("FOLDER", f"{folder} is not a folder")
    if (folder / trial.FILE).is_file():
        state = folder / "state"
        return state_files.private_folder(state), trial.load_trial(folder).arms
    return folder, live_store.arms_in(folder)


def audit(file: Annotated[Path, typer.Argument(metavar="FILE")], as_json: AsJson = False) -> None:
    """Show everything that a client has sent, and the privacy budget it has spent.

    If the client's ledger of live traffic is beside the file, the means of every phase are computed
    again from its rows and compared with what was sent; the exit code is 1 if they do not agree.

    Parameters
    ----------
    file
        A client's audit file.
    """
    from fedbandits.federation import audit_file, verification  # noqa: PLC0415 - after --help

    entries = audit_file.read_audit(file)
    ledger = verification.ledger_of(file, entries[0].update.client) if entries else None
    found = None if ledger is None else verification.verified(entries, ledger)
    if as_json:
        print_json([_plain(entry) for entry in entries])
    elif not entries:
        typer.echo(f"{file}: nothing was sent")
    else:
        print_table(audit_table(entries))
        for line in (*audit_words(entries), *_verification_words(found)):
            typer.echo(line)
    wrong = [
        f'run "{one.run}", phase {one.phase}: {what}' for one in found or () for what in one.wrong
    ]
    if wrong:
        print_plain("\n".join(wrong), err=True)
        raise typer.Exit(1)


def _verification_words(found: list[Verified] | None) -> list[str]:
    if found is None:
        return ["Source data: none is stored beside this file; outcomes of pull are never stored."]
    agree = sum(not (one.wrong or one.unknown) for one in found)
    return [
        f"Source data: {agree:,} of {len(found):,} updates agree with the rows of the ledger.",
        *(
            f"Phase {one.phase} can no longer be verified: {one.unknown}."
            for one in found
            if one.unknown
        ),
    ]


def _gain(entry: Entry) -> str:
    return "–" if entry.gain is None else f"{100 * entry.gain:.0f} %"


def audit_table(entries: list[Entry]) -> Shown:
    """Return a table with one row per update that the client has sent."""
    from fedbandits.federation.status import printable  # noqa: PLC0415 - after --help
    from fedbandits.report.shown import Shown  # noqa: PLC0415 - likewise

    def of_arms(entry: Entry, values: Sequence[float]) -> str:
        pulled = [one for one, n in zip(values, entry.update.counts, strict=True) if n]
        more = len(pulled) - MOST_ARMS_SHOWN
        shown = ", ".join(f"{one:.4g}" for one in pulled[:MOST_ARMS_SHOWN])
        return f"{shown} and {more} more" if more > 0 else shown

    def means(entry: Entry) -> str:
        return of_arms(entry, entry.means)

    def guardrails(entry: Entry) -> str:
        each = zip(entry.release.guardrails, entry.update.guardrails, strict=True)
        return "; ".join(f"{rail.name} {of_arms(entry, sums)}" for rail, sums in each)

    columns: dict[str, Callable[[Entry], str]] = {
        "sent at": lambda entry: entry.at,
        "run": lambda entry: printable(entry.update.header.run),  # the server has named it
        "phase": lambda entry: str(entry.update.phase),
        "pulls": lambda entry: f"{sum(entry.update.counts):,}",
        "clipped": lambda entry: f"{entry.clipped:,}",
        **({"gain": _gain} if any(entry.gain is not None for entry in entries) else {}),
        "bits": lambda entry: f"{entry.update.payload_bits:,}",
        "means, as they were sent": means,
    }
    if any(entry.release.guardrails for entry in entries):
        columns["sums of guardrails"] = guardrails
    return Shown(
        name=f"client {entries[-1].update.client}",
        headings=[*columns],
        rows=[[cell(entry) for cell in columns.values()] for entry in entries],
        words=("run", "means, as they were sent", "sums of guardrails"),
    )


def audit_words(entries: list[Entry]) -> list[str]:
    """Return a summary of all entries, in sentences."""
    from fedbandits.privacy.mechanisms import Noised  # noqa: PLC0415 - after --help

    pulls = sum(sum(entry.update.counts) for entry in entries)
    bits = sum(entry.update.payload_bits for entry in entries)
    updates = "1 update" if len(entries) == 1 else f"{len(entries):,} updates"
    lines = [f"{updates} about {pulls:,} observations, {bits:,} bits of means."]
    unprotected = [entry for entry in entries if entry.release.mechanism is None]
    single = sum(entry.update.counts.count(1) for entry in unprotected)
    if single:
        are = "is" if single == 1 else "are"
        lines.append(f"{single:,} of the means {are} of a single pull, which is an observation.")
    else:
        lines.append("They are means; no observation left the client.")
    named = dict.fromkeys(rail.name for entry in entries for rail in entry.release.guardrails)
    if named:
        lines.append(f"Beside each mean it sent the sum of: {', '.join(named)}.")
    clipped = sum(entry.clipped for entry in entries)
    if clipped:
        lines.append(
            f"{clipped:,} observations were outside the declared range and were clipped to it."
        )
    kept = sum(entry.gain is not None and entry.update.gain is None for entry in entries)
    if any(entry.gain is not None for entry in entries):
        told = "stayed here" if kept == len(entries) else "was sent with the means"
        lines.append(f"The gain is the share of variance that the covariate explains; it {told}.")
    bare = sum(not isinstance(entry.release.mechanism, Noised) for entry in entries)
    if 0 < bare < len(entries):
        lines.append(
            f"{bare:,} of {len(entries):,} updates had no noise and protect nobody; the following"
            " is about the others."
        )
    no_policy = "the client has no policy; means were sent as the server asked"
    return [*lines, f"Privacy: {entries[-1].budget or no_policy}."]


def _plain(entry: Entry) -> dict[str, Any]:
    said = asdict(entry)
    said["update"]["packed"] = entry.update.packed.hex()
    del said["update"]["signature"]  # it is made when the update leaves, and not kept
    return said
