"""Numbers for monitors, in the text format of Prometheus."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from fedbandits.federation.course import PhaseEnd
from fedbandits.federation.presence import Sign
from fedbandits.privacy.protection import spent_at_most
from fedbandits.protocol import Rejection
from fedbandits.web.watched import WatchedRun

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_HELP = {
    "up": ("gauge", "Whether a server is at work on the run."),
    "finished": ("gauge", "Whether the run is over."),
    "phase": ("gauge", "The last phase that was opened."),
    "options_left": ("gauge", "Options that are left."),
    "clients": ("gauge", "Clients that are in the run."),
    "clients_reported": ("gauge", "Clients that have reported in the open phase."),
    "clients_missing": ("gauge", "Clients that have not reported in the open phase."),
    "open_phase_age_seconds": ("gauge", "How long the open phase has lasted; 0 if none is open."),
    "pulls_total": ("counter", "Pulls behind the updates that counted."),
    "reports_total": ("counter", "Updates that counted."),
    "report_bytes_total": ("counter", "Bytes of the means in them."),
    "rejected_updates_total": ("counter", "Updates that did not count, by reason."),
    "records": ("gauge", "Records of the log."),
    "log_bytes": ("gauge", "Size of the log."),
    "privacy_rho_spent": ("gauge", "What a client has spent at most, as zero-concentrated rho."),
    "privacy_rho_budget": ("gauge", "What a client may spend, as zero-concentrated rho."),
    "privacy_epsilon_spent": ("gauge", "What a client has spent at most, as epsilon."),
    "privacy_epsilon_budget": ("gauge", "What a client may spend, as epsilon."),
    "unreadable": ("gauge", "Whether the log cannot be read."),
}


class Sample(NamedTuple):
    """One number of one run."""

    name: str
    value: float
    labels: Mapping[str, str] = {}


def samples(run: WatchedRun, now: float | None = None) -> Iterable[Sample]:
    """Yield the numbers of a run.

    Parameters
    ----------
    run : WatchedRun
        The run.
    now : float, optional
        The time, in seconds of the system's clock; by default it is asked for.
    """
    yield Sample("unreadable", bool(run.problem))
    if run.live is None:
        return
    status, course = run.live.status, run.live.status.course
    presence = status.presence
    yield Sample("up", presence is not None and presence.sign is Sign.RUNNING)
    yield Sample("finished", status.finished)
    yield Sample("phase", course.phases[-1].phase if course.phases else 0)
    yield Sample("options_left", sum(arm.state.name == "LEFT" for arm in status.arms))
    yield Sample("clients", len(course.clients))
    yield Sample("clients_reported", len(status.reported))
    yield Sample("clients_missing", len(status.missing))
    age = 0.0
    if course.phases and course.phases[-1].end is PhaseEnd.OPEN:
        opened = datetime.fromisoformat(course.phases[-1].opened).timestamp()
        age = max(0.0, (time.time() if now is None else now) - opened)
    yield Sample("open_phase_age_seconds", round(age, 3))
    yield Sample("pulls_total", sum(client.pulls for client in course.clients))
    yield Sample("reports_total", sum(client.phases for client in course.clients))
    yield Sample("report_bytes_total", -(-status.bits // 8))
    for kind in Rejection:
        labels = {"reason": kind.name.lower()}
        yield Sample("rejected_updates_total", course.rejections.get(kind, 0), labels)
    yield Sample("records", run.records)
    yield Sample("log_bytes", run.size)
    privacy = run.live.run.trial.privacy
    if privacy is not None and privacy.noise is not None:
        spent = spent_at_most(run.live.run.server.rule, privacy, len(course.phases))
        yield Sample("privacy_rho_spent", spent.rho)
        if privacy.rho is not None:
            yield Sample("privacy_rho_budget", privacy.rho)
        if privacy.epsilon is not None:
            yield Sample("privacy_epsilon_spent", spent.epsilon(privacy.delta))
            yield Sample("privacy_epsilon_budget", privacy.epsilon)


def metrics_text(runs: Iterable[WatchedRun], streams: int) -> str:
    """Return all numbers of all runs.

    Parameters
    ----------
    runs : iterable of WatchedRun
        The runs.
    streams : int
        Viewers that have a page open.
    """
    lines: dict[str, list[str]] = {name: [] for name in _HELP}
    for run in runs:
        for sample in samples(run):
            labels = {"run": run.key, "title": run.title, "log": run.name, **sample.labels}
            said = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
            lines[sample.name].append(f"fedbandits_{sample.name}{{{said}}} {sample.value:.17g}")
    text = [
        "# HELP fedbandits_page_viewers Viewers that have a page open.",
        "# TYPE fedbandits_page_viewers gauge",
        f"fedbandits_page_viewers {streams}",
    ]
    for name, (kind, words) in _HELP.items():
        if lines[name]:
            text += [f"# HELP fedbandits_{name} {words}", f"# TYPE fedbandits_{name} {kind}"]
            text += lines[name]
    return "\n".join(text) + "\n"


def _escaped(value: str) -> str:
    r"""Return a label as the format has it.

    Examples
    --------
    >>> print(_escaped('a "b"\n'))
    a \"b\"\n
    """
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
