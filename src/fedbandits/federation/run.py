"""A run: a trial with its log. It begins once, and continues from its log after each stop."""

from __future__ import annotations

import json
import platform
import uuid
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fedbandits.errors import InputError
from fedbandits.federation.durable_log import DamagedLogError, DurableLog, has_begun
from fedbandits.federation.local import server_of
from fedbandits.federation.state_files import beside
from fedbandits.federation.trial import Trial, read_trial
from fedbandits.plugins import check_unchanged
from fedbandits.protocol import Server
from fedbandits.protocol.messages import PROTOCOL_VERSION

LOG_FILE = "run.fedlog"
"""The default name of the log of a project's run."""


def plan_path(log: Path) -> Path:
    """Return the file that says how `fedbandits up` runs a log on this machine."""
    return beside(log, ".up.json")


def begin_or_resume(trial: Trial, path: Path) -> tuple[DurableLog, Server]:
    """Open the log of a run, or begin one; return the log and the run's server.

    A server that continues from a log starts a new epoch: messages to the one before it no longer
    count.

    Raises
    ------
    InputError
        If the log is of another trial.
    LogInUseError
        If another server is writing it.
    """
    if not has_begun(path):
        # A unique name: clients answer a phase that they have played before from memory.
        name = f"{trial.title} {uuid.uuid4().hex[:8]}"
        log = DurableLog(path, header_of(trial, name))
        return log, server_of(trial, log, name)
    log = DurableLog(path)
    try:
        name, begun = run_in_header(log.header, log.path)
        check_same(begun, trial, log.path)
        server = server_of(begun, log, name)
        server.take_over(server.header.epoch + 1)
    except BaseException:
        log.close()
        raise
    return log, server


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


def run_in_header(header: dict[str, Any], path: Path) -> tuple[str, Trial]:
    """Return the name and the trial of a log."""
    protocol = header.get("versions", {}).get("protocol")
    if protocol != PROTOCOL_VERSION:
        raise DamagedLogError(
            f"{path}: was written with protocol {protocol}, and this is {PROTOCOL_VERSION}; use the"
            f" version of fedbandits that began it ({header.get('versions')})"
        )
    check_unchanged(header.get("trial") or {}, str(path))
    try:
        return str(header["run"]), read_trial(header["trial"])
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
    before, now = (json.loads(json.dumps(dict(one.tables))) for one in (begun, trial))
    keys = (before.keys() | now.keys()) - {"patience"}
    changed = sorted(key for key in keys if before.get(key) != now.get(key))
    if changed:
        raise InputError(
            str(path),
            f"began with another {', '.join(changed)} than the trial says now; put it back to go"
            " on, or name another log to begin a new run",
        )
