"""A run: a trial with its log, which says what the run is."""

from __future__ import annotations

import json
import platform
import uuid
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fedbandits.errors import InputError
from fedbandits.federation.durable_log import DamagedLogError, header_digest
from fedbandits.federation.state_files import beside
from fedbandits.federation.trial import Trial, read_trial
from fedbandits.plugins import KEY, check_unchanged
from fedbandits.protocol.messages import PROTOCOL_VERSION

LOG_FILE = "run.fedlog"
"""The default name of the log of a project's run."""

_PATIENCE = "patience"

# So many digits of a hash are enough that nobody finds two headers with the same.
_FINGERPRINT = 40


def plan_path(log: Path) -> Path:
    """Return the file that says how `fedbandits up` runs a log on this machine."""
    return beside(log, ".up.json")


def signed_header(
    trial: Trial, server: bytes, clients: Mapping[str, bytes], *, only_letters: bool = False
) -> dict[str, Any]:
    """Return what the log of a new run says of it, if updates and decisions are signed.

    The name of the run ends with a fingerprint of all the rest. Clients sign the name with every
    update: none of the rest can be changed after the first of them.

    Parameters
    ----------
    trial : Trial
        What is compared.
    server : bytes
        The public key that decisions are signed with.
    clients : mapping from str to bytes
        Public keys of clients that are known beforehand. If there are any, no others count.
    only_letters : bool
        Whether it begins without a network; see `fedbandits.federation.letters`.
    """
    keys = {name: key.hex() for name, key in sorted(clients.items())}
    signed = {"server": server.hex(), "clients": keys, "once": uuid.uuid4().hex}
    header = header_of(trial, "") | {"signed": signed}
    if only_letters:
        header["only_letters"] = True
    return header | {"run": signed_name(header)}


def signed_name(header: dict[str, Any]) -> str:
    """Return the name of a signed run, which stands for all of its header."""
    return f"{header['trial']['title']} {header_digest(header | {'run': ''})[:_FINGERPRINT]}"


def header_of(trial: Trial, name: str) -> dict[str, Any]:
    """Return what a log says of its run."""
    return {
        "run": name,
        "trial": dict(trial.tables),
        "arms": list(trial.arms),
        "versions": {
            "fedbandits": version("fedbandits"),
            "protocol": PROTOCOL_VERSION,
            "python": platform.python_version(),
        },
    }


def keys_in_header(header: dict[str, Any], path: Path) -> tuple[bytes, dict[str, bytes]] | None:
    """Return the server's public key, and those of clients that are known beforehand.

    None if the run is not signed.
    """
    if "signed" not in header:
        return None
    try:
        said = header["signed"]
        clients = {str(name): bytes.fromhex(key) for name, key in said["clients"].items()}
        return bytes.fromhex(said["server"]), clients
    except (AttributeError, KeyError, TypeError, ValueError):
        raise DamagedLogError(
            f"{path}: does not say which keys it is signed with; restore it from a copy"
        ) from None


def run_in_header(header: dict[str, Any], path: Path) -> tuple[str, Trial]:
    """Return the name and the trial of a log."""
    versions, tables = header.get("versions"), header.get("trial")
    if not isinstance(versions, dict) or not isinstance(tables, dict):
        raise DamagedLogError(f"{path}: does not say what the run is; restore it from a copy")
    protocol = versions.get("protocol")
    if protocol != PROTOCOL_VERSION:
        raise DamagedLogError(
            f"{path}: was written with protocol {protocol}, and this is {PROTOCOL_VERSION}; use the"
            f" version of fedbandits that began it ({versions})"
        )
    listed = tables.get(KEY)
    if isinstance(listed, list) and any(isinstance(one, str) for one in listed):
        # A log has their sources: it must not name any file of whoever reads it as one to run.
        raise DamagedLogError(f"{path}: names {KEY} without their sources; restore it from a copy")
    check_unchanged(tables, str(path))
    try:
        return str(header["run"]), read_trial(tables)
    except (KeyError, TypeError, InputError) as error:
        raise DamagedLogError(
            f"{path}: does not say what the run is ({error}); restore it from a copy"
        ) from None


def check_same(begun: Trial, trial: Trial, path: Path) -> None:
    """Refuse to continue with another trial than the log's; how long to wait may change.

    Raises
    ------
    InputError
        With the keys that differ.
    """
    before = json.loads(json.dumps(dict(begun.tables)))
    now = json.loads(json.dumps(dict(trial.tables)))
    keys = (before.keys() | now.keys()) - {_PATIENCE}
    changed = sorted(key for key in keys if before.get(key) != now.get(key))
    if changed:
        raise InputError(
            str(path),
            f"began with another {', '.join(changed)} than the trial says now; put it back to go"
            " on, or name another log to begin a new run",
        )
