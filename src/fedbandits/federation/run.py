"""A run: a trial with its log, which says what the run is."""

from __future__ import annotations

import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fedbandits.errors import InputError
from fedbandits.federation.durable_log import DamagedLogError
from fedbandits.federation.state_files import beside
from fedbandits.federation.trial import Trial, read_trial
from fedbandits.plugins import check_unchanged
from fedbandits.protocol.messages import PROTOCOL_VERSION

LOG_FILE = "run.fedlog"
"""The default name of the log of a project's run."""

_PATIENCE = "patience"


def plan_path(log: Path) -> Path:
    """Return the file that says how `fedbandits up` runs a log on this machine."""
    return beside(log, ".up.json")


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
