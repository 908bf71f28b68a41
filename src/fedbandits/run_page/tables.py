"""Tables on the page of a run: its arms, its phases, what its clients sent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape

from fedbandits.federation.course import ClientCourse, PhaseCourse, PhaseEnd
from fedbandits.federation.status import ArmStatus, RunStatus, clock_time, counted, printable
from fedbandits.protocol.health import Drift, Segment
from fedbandits.report.markup import Words, row, table

MOST_CLIENTS, FEW_CLIENTS = 60, 30
"""So many clients have a row of their own; of more than that, these few."""

MOST_ARMS = 10
"""So many arms have a column in the table of clients' means."""


def arms_table(arms: Sequence[ArmStatus], winner: str | None) -> str:
    """Return a row for every arm, in their order."""
    rows = []
    for arm in arms:
        cells = ("–", "–")
        if arm.estimate is not None:
            cells = (f"{arm.estimate:.4g}", f"{arm.low:.4g} to {arm.high:.4g}")
        won = winner is not None and arm.name == winner
        rows.append(_row(text(arm.name), "the answer" if won else text(arm.words), cells))
    return table("Options", ("option", "estimate", "interval"), rows)


def phases_table(phases: Sequence[PhaseCourse]) -> str:
    """Return a row for every phase."""
    rows = []
    for each in phases:
        counts = (each.admitted, each.clients, each.reported, each.arms, each.pulls)
        ended = ("–", "–")
        if each.ended is not None:
            ended = (clock_time(each.ended), _duration(each.opened, each.ended))
        cells = (*(f"{number:,}" for number in counts), clock_time(each.opened), *ended)
        rows.append(_row(f"{each.phase}", text(result_of(each)), cells))
    headings = (
        *("phase", "new clients", "clients in", "reported", "options", "pulls each"),
        *("opened", "ended", "took"),
    )
    return table("Phases", headings, rows)


def clients_table(status: RunStatus, *, clipped: bool) -> str:
    """Return a row for every client, or for some of them and one for the rest, and the totals.

    Parameters
    ----------
    status : RunStatus
        Of the run.
    clipped : bool
        Whether there is a column of observations that were clipped.
    """
    clients = status.course.clients
    shown = shown_clients(clients)
    names = {client.name for client in shown}
    rest = [client for client in clients if client.name not in names]
    quarantined = set(status.quarantined)

    trimming = any(client.compared is not None for client in clients)

    def sent(head: str, some: Sequence[ClientCourse], below: str = "") -> str:
        cells = _sums(some)[: None if clipped else -1]
        return _row(head, below, (*cells, *(_left_out(some) if trimming else ())))

    rows = [
        sent(text(client.name), [client], _complaints(client, client.name in quarantined))
        for client in shown
    ]
    if rest:
        rows.append(sent(f"{counted(len(rest), 'client')} more", rest))
    if len(clients) > 1:
        rows.append(sent(f"all {len(clients):,}", clients))
    headings = (
        *("client", "joined in phase", "phases reported", "pulls", "means sent", "bits"),
        *("not counted", "clipped"),
    )
    compared = ("comparisons", "left out", "expected") if trimming else ()
    return table("Clients", (*headings[: None if clipped else -1], *compared), rows)


CLIENT_STATES = (
    *("reported", "missing", "not connected", "halted", "ignored", "with updates not counted"),
    "unlike the others",
)
"""What can be said of a client, besides that it is in; several may be true."""

ROWS = 50
"""So many clients are on one page of their table."""


def client_states(status: RunStatus) -> dict[str, tuple[str, ...]]:
    """Return which of `CLIENT_STATES` each client is in, by its name."""
    now = None if status.presence is None else status.presence.now
    away = now.bulletin.get("away", ()) if now is not None and not status.finished else ()
    halts = {one.client: one.arms for one in status.course.halts}
    members = (
        *(set(status.reported), set(status.missing), set(away)),
        *({client for client, arms in halts.items() if arms}, set(status.quarantined)),
        {one.name for one in status.course.clients if one.rejections},
        {one.client for one in status.means if any(one.unlike)},
    )
    return {
        one.name: tuple(
            state for state, names in zip(CLIENT_STATES, members, strict=True) if one.name in names
        )
        for one in status.course.clients
    }


def found_clients(
    status: RunStatus, words: str = "", state: str = "", page: int = 1
) -> tuple[str, int]:
    """Return a page of the table of clients, and how many clients it is about.

    Parameters
    ----------
    status : RunStatus
        Of the run.
    words : str
        What their names contain, whatever the case; all have nothing in their names.
    state : str
        One of `CLIENT_STATES` that they are in; any if it is empty.
    page : int
        From 1.
    """
    states, part = client_states(status), words.casefold()
    found = [
        client
        for client in status.course.clients
        if part in client.name.casefold() and (not state or state in states[client.name])
    ]
    quarantined, means = set(status.quarantined), {one.client: one for one in status.means}
    rows = []
    for client in found[(page - 1) * ROWS : page * ROWS]:
        known = means[client.name]
        unlike = [arm.name for arm, far in zip(status.arms, known.unlike, strict=True) if far]
        below = [
            *filter(None, [_complaints(client, client.name in quarantined)]),
            *([f"unlike the others in {text(', '.join(unlike))}"] if unlike else []),
        ]
        said = ", ".join(states[client.name]) or "–"
        rows.append(_row(text(client.name), "; ".join(below), (Words(said), *_sums([client])[:-1])))
    headings = (
        *("client", Words("state"), "joined in phase", "phases reported", "pulls", "means sent"),
        *("bits", "not counted"),
    )
    return table("Clients", headings, rows), len(found)


def means_table(status: RunStatus) -> str:
    """Return a row for every client with its mean of every arm; those unlike the others first.

    Of many arms the first are shown, and those of which a mean is unlike the others.
    """
    chosen = [
        place
        for place, arm in enumerate(status.arms)
        if place < MOST_ARMS or any(one.unlike[place] for one in status.means)
    ]
    clients = sorted(status.means, key=lambda one: not any(one.unlike))
    rows = [
        _row(
            text(one.client),
            "unlike the others" if any(one.unlike) else "",
            (_mean(one.means[place], one.unlike[place]) for place in chosen),
        )
        for one in clients[: MOST_CLIENTS if len(clients) <= MOST_CLIENTS else FEW_CLIENTS]
    ]
    headings = ("client", *(text(status.arms[place].name) for place in chosen))
    return table("Means of clients", headings, rows)


def segments_table(segments: Sequence[Segment]) -> str:
    """Return a row for every segment with the mean of every option there, and its interval."""
    arms = list(segments[0].means)
    rows = []
    for one in segments:
        cells = (
            f"{one.means[arm]:.4g} <small>{low:.3g} to {high:.3g}</small>"
            if math.isfinite(high)
            else "–"
            for arm, (low, high) in one.intervals.items()
        )
        rows.append(_row(text(one.name), counted(one.clients, "client"), cells))
    return table("Segments", ("segment", *map(text, arms)), rows)


def drift_table(drift: Drift) -> str:
    """Return a row for every option with what it seems to have changed by."""
    rows = []
    for one in drift.changes:
        cells = ("–", "–")
        if math.isfinite(one.unusual):
            by = f"{one.by:+.3g}"
            cells = (f"<b>{by} !</b>" if one.suspicious else by, f"{one.unusual:.3g}")
        below = "seems to have changed" if one.suspicious else ""
        rows.append(_row(text(one.arm), below, cells))
    return table("Change of options", ("option", "change", "unusual beyond"), rows)


def _mean(mean: float | None, unlike: bool) -> str:
    if mean is None:
        return "–"
    return f"<b>{mean:.4g} !</b>" if unlike else f"{mean:.4g}"


def strangers(status: RunStatus) -> int:
    """Return how many messages came from outside the run, or from an unknown sender."""
    inside = sum(sum(client.rejections.values()) for client in status.course.clients)
    return sum(status.course.rejections.values()) - inside


def shown_clients(clients: Sequence[ClientCourse]) -> list[ClientCourse]:
    """Return the clients that have a row: if there are too many, rejected ones first.

    Then those that were left out of comparisons most often, if anybody was.

    Examples
    --------
    >>> clients = [ClientCourse(name=f"c{number}", admitted=1) for number in range(300)]
    >>> shown = shown_clients(clients)
    >>> len(shown), shown[0].name, len(shown_clients(clients[:7]))
    (30, 'c0', 7)
    """
    if len(clients) <= MOST_CLIENTS:
        return list(clients)
    return sorted(clients, key=_unlikely)[:FEW_CLIENTS]


def _unlikely(client: ClientCourse) -> tuple[bool, float]:
    """Return what brings a client to the top of the table."""
    return not client.rejections, -(client.compared.share if client.compared else 0.0)


def text(words: str) -> str:
    """Return words that came from anybody, to be shown and nothing else."""
    return escape(printable(words))


def _row(head: str, below: str, cells: Iterable[str]) -> str:
    return row(f"{head} <small>{below}</small>" if below else head, *cells)


def _sums(clients: Sequence[ClientCourse]) -> tuple[str, ...]:
    """Return what clients have sent, added up; of a single client, also when it joined."""
    rows = [
        (one.phases, one.pulls, one.means, one.bits, sum(one.rejections.values()), one.clipped)
        for one in clients
    ]
    joined = f"{clients[0].admitted}" if len(clients) == 1 else ""
    return (joined, *(f"{sum(column):,}" for column in zip(*rows, strict=True)))


def _left_out(clients: Sequence[ClientCourse]) -> tuple[str, ...]:
    """Return in how many comparisons clients were, left out of how many, and what to expect."""
    known = [client.compared for client in clients if client.compared is not None]
    comparisons = sum(one.comparisons for one in known)
    if not comparisons:
        return ("0", "–", "–")
    shares = (sum(one.left_out for one in known), sum(one.expected for one in known))
    return (f"{comparisons:,}", *(f"{100 * share / comparisons:.0f} %" for share in shares))


def _complaints(client: ClientCourse, quarantined: bool) -> str:
    """Return why messages of a client were not counted."""
    said = [f"{escape(kind.value)}: {number:,}" for kind, number in client.rejections.items()]
    return "; ".join([*said, *(["now ignored"] if quarantined else [])])


def result_of(phase: PhaseCourse) -> str:
    """Return what came of a phase, in words."""
    return f"out: {', '.join(phase.dropped)}" if phase.dropped else _ENDS[phase.end]


_ENDS = {
    PhaseEnd.OPEN: "open",
    PhaseEnd.DECIDED: "all stay",
    PhaseEnd.ABANDONED: "abandoned: below the quorum, so nothing was decided",
    PhaseEnd.REFUSED: "a client's privacy budget is spent",
    PhaseEnd.CUT: "played out: the horizon ends before it",
    PhaseEnd.STOPPED: "the run was given up in it",
}


def _duration(began: str, ended: str) -> str:
    """Return how long something took.

    Examples
    --------
    >>> _duration("2026-01-01T00:00:00+00:00", "2026-01-01T02:03:04+00:00")
    '2 h 3 min'
    >>> _duration("2026-01-01T00:00:00+00:00", "2026-01-01T00:00:00.250+00:00")
    '0.2 s'
    """
    seconds = (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours < 1:
        return f"{minutes} min {seconds} s"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if days else f"{hours} h {minutes} min"
