"""The page of a run while it goes on: parts that are replaced when something in them has changed.

They are the sections of the page that is written once, in the order in which somebody asks who
watches: what is known, what is being waited for, what it costs, what is wrong. What only time
changes, such as how long a phase has lasted, is a time that the page counts from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from fedbandits.experiments.protection import protection_words
from fedbandits.federation.course import PhaseCourse, PhaseEnd
from fedbandits.federation.followed import FollowedRun
from fedbandits.federation.presence import Now, Presence, Sign, notes
from fedbandits.federation.status import ArmState, RunStatus, clock_time, counted, shortened
from fedbandits.privacy.protection import spent_at_most
from fedbandits.protocol.answer import guarantee_words
from fedbandits.protocol.forecast import Forecast, forecast
from fedbandits.report.markup import Words, definitions, items, row, table
from fedbandits.rules.guarantees import Condition, Status
from fedbandits.run_page import charts, sections, tables
from fedbandits.run_page.sections import SAID, sentence
from fedbandits.run_page.tables import text

HEADINGS: Mapping[str, str] = {
    "verdict": "In short",
    "estimates": "Estimates",
    "phase": "The open phase",
    "server": "The server",
    "left": "Options that left",
    "cost": "Costs",
    "health": "Health",
    "clients": "Clients",
    "journal": "Journal",
    "trial": "The trial",
}
"""The parts of the page, in their order, with their headings."""

MOST_NAMED = 20
"""So many missing clients are named; the table of clients has all of them."""

MOST_EVENTS = 200
"""So many events are in the journal, the latest first."""

# Stands in for a time in words that are escaped first.
_TIME = "\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRun:
    """A run at a moment, and what a page shows of it.

    Parameters
    ----------
    run : FollowedRun
        The run.
    status : RunStatus
        Where it is.
    still : Forecast or str
        What it will probably still cost, or why that is not said.
    basis : tuple
        What that rests on.
    waiting : tuple of str
        What people have asked for and the server has not taken up yet, in words.
    """

    run: FollowedRun
    status: RunStatus
    still: Forecast | str
    basis: tuple[Any, ...]
    waiting: Sequence[str] = ()

    @classmethod
    def of(
        cls, run: FollowedRun, *, waiting: Sequence[str] = (), before: LiveRun | None = None
    ) -> LiveRun:
        """Return a run as it is now.

        Parameters
        ----------
        run : FollowedRun
            The run.
        waiting : sequence of str
            As above.
        before : LiveRun, optional
            It as it was: what has not changed since is not worked out again.
        """
        status, now = run.status(), None
        if status.presence is not None and status.presence.sign is Sign.RUNNING:
            now = status.presence.now
        there = None if now is None or not now.bulletin else int(now.bulletin["connected"])
        state = run.server.run_state
        basis = (state.stage, state.phase, state.decision, tuple(state.withdrawn), there)
        known = before is not None and before.run is run and before.basis == basis
        still = before.still if before is not None and known else forecast(state, there)
        return cls(run=run, status=status, still=still, basis=basis, waiting=waiting)

    def parts(self) -> dict[str, str]:
        """Return the parts of the page, by the names in `HEADINGS`."""
        run, status = self.run, self.status
        return {
            "byline": sections.byline(status),
            "verdict": _verdict(run, status, self.waiting),
            "estimates": _estimates(run, status),
            "phase": _open_phase(status),
            "server": _server(status),
            "left": _left(status),
            "cost": _cost(run, status, self.still),
            "health": _health(status),
            "clients": _clients(status),
            "journal": _journal(status),
            "trial": f"{definitions(sections.GLOSSARY)}\n<h3>The file</h3>\n"
            f"{sections.trial_facts(run)}",
        }


def since(at: str) -> str:
    """Return a time of the log that the page counts from: "for 3 min, since …".

    Examples
    --------
    >>> since("2026-01-31T12:00:00.250+00:00")
    '<time datetime="2026-01-31T12:00:00.250+00:00" data-count="for">since 2026-01-31 12:00:00
    UTC</time>'
    """
    return _time(at, "for", f"since {clock_time(at)}")


def _time(at: str, way: str, said: str) -> str:
    """Return a time that a script puts into words: for how long, how long ago, in how long."""
    return f'<time datetime="{text(at)}" data-count="{way}">{said}</time>'


def headline(status: RunStatus) -> str:
    """Return the verdict so far in one sentence, HTML."""
    answer = status.answer
    if answer is None:
        if status.finished:
            return text(sentence(status.state_words()))
        return "No phase was decided yet, so nothing is known of the options."
    first, *more = answer.words().split("\n")
    if answer.winner is not None:
        return sections.with_bold(more[0], answer.winner)
    left = next(line for line in more if line.startswith("Left "))
    return f"{text(first)} {text(left)}"


def _verdict(run: FollowedRun, status: RunStatus, waiting: Sequence[str]) -> str:
    answer, guarantee = status.answer, run.server.run_state.guarantee
    said = [f'<p class="verdict">{headline(status)}</p>']
    said += [f'<p role="status"><b>{text(sentence(one))}</b></p>' for one in waiting]
    if answer is not None and answer.winner is not None:
        said.append(f"<p>{text(answer.words().splitlines()[0])}</p>")
    if not status.finished:
        state = status.state_words().partition("; missing: ")[0]  # named below
        said.append(f"<p>{text(sentence(state))}</p>")
    said.append(f"<p>{text(guarantee_words(guarantee))}</p>")
    if guarantee.conditions:
        said.append(f"<p>It rests on:</p>\n{_conditions(guarantee.conditions)}")
    said.append(f"<p>{text(sentence(f'the log is {status.signature_words()}'))}</p>")
    return "\n".join(said)


_STATES = {Status.KEPT: "holds", Status.BROKEN: "broken", Status.UNVERIFIABLE: "not checkable"}


def _conditions(conditions: Iterable[Condition]) -> str:
    """Return what a guarantee rests on, what is broken first."""
    order = [Status.BROKEN, Status.KEPT, Status.UNVERIFIABLE]
    rows = [
        f'<li class="{one.status.name.lower()}"><b>{_STATES[one.status]}</b>'
        f" <span>{text(one.words)}{f' ({text(one.why)})' if one.why else ''}</span></li>"
        for one in sorted(conditions, key=lambda one: order.index(one.status))
    ]
    return '<ul class="conditions">\n' + "\n".join(rows) + "\n</ul>"


def _estimates(run: FollowedRun, status: RunStatus) -> str:
    rows = charts.arm_rows(status.arms, run.trial.goal)
    shown = sections.estimates(status, rows, stills=False)
    if not rows:
        return shown
    narrowed = sections.over_time(rows, run.answers(), status, stills=False)
    return f"{shown}\n<h3>How they narrowed</h3>\n{narrowed}"


def _open_phase(status: RunStatus) -> str:
    phases = status.course.phases
    if not phases or phases[-1].end is not PhaseEnd.OPEN:
        return f"<p>None is open: {text(status.state_words())}.</p>"
    last, presence = phases[-1], status.presence
    done, asked = len(status.reported), len(status.reported) + len(status.missing)
    said = [
        f"<p>Phase {last.phase} is open {since(last.opened)}. {done:,} of"
        f" {counted(asked, 'client')} {'has' if done == 1 else 'have'} reported.</p>",
        f'<progress max="{max(asked, 1)}" value="{done}"'
        f' aria-label="{done:,} of {asked:,} clients have reported"></progress>',
    ]
    if status.missing:
        named = shortened(status.missing, most=MOST_NAMED)
        said.append(f"<p>Missing: {text(named)}.</p>")
    now = None if presence is None or presence.sign is not Sign.RUNNING else presence.now
    said.append(f"<p>{_deadline(now)}</p>")
    return "\n".join(said)


def _deadline(now: Now | None) -> str:
    if now is None or now.deadline is None or now.given_up is None:
        return "When it is decided is not known: no server says so."
    ends, given_up = (
        _time(_iso(at), "in", f"at {clock_time(_iso(at))}") for at in (now.deadline, now.given_up)
    )
    return (
        f"It is decided as soon as all have reported, and {ends} at the latest if enough have. If"
        f" not, it is abandoned {given_up}."
    )


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def _server(status: RunStatus) -> str:
    presence = status.presence
    if status.finished:
        return "<p>The run is over. No server is needed any longer.</p>"
    if presence is None:
        return "<p>The run is not read from a file, so that nothing is known of its server.</p>"
    kind = {Sign.RUNNING: "good", Sign.SILENT: "bad", Sign.GONE: "bad"}[presence.sign]
    first, *more = _lines(presence)
    shown = [f'<p class="{kind}"><b>{first}</b></p>']
    if more:
        shown.append(items(more))
    return "\n".join(shown)


def _lines(presence: Presence) -> list[str]:
    """Return what can be seen of a server, with a time in it that counts up."""
    ages: tuple[str, str] = ("", "")
    if presence.now is not None:
        at = _iso(presence.now.at)
        ages = since(at), _time(at, "ago", f"at {clock_time(at)}")
    said = set() if presence.now is None or not presence.now.bulletin else set(notes(presence.now))
    lines = presence.lines(lambda _: _TIME)
    # When the open phase is decided is said above.
    told = [line for line in lines if line not in said or not line.startswith("phase ")]
    return [
        ages[1].join(
            ages[0].join(text(part) for part in one.split(f"for {_TIME}"))
            for one in sentence(line).split(f"{_TIME} ago")
        )
        for line in told
    ]


def _left(status: RunStatus) -> str:
    ended = {phase.phase: phase.ended for phase in status.course.phases}
    times = {one.arm: one.at for one in status.course.withdrawals}
    rows = []
    for arm in status.arms:
        if arm.state is ArmState.LEFT:
            continue
        at = times.get(arm.name) or (ended.get(arm.phase) if arm.phase is not None else None)
        out = arm.state is ArmState.OUT
        why = f"withdrawn: {arm.reason}"
        if out:
            why = "the rule found it worse than another option"
        when = f"in phase {arm.phase}" if out else arm.when or ""
        last = "–" if arm.estimate is None else f"{arm.estimate:.4g}"
        rows.append(
            row(
                text(arm.name),
                Words(text(when)),
                clock_time(at) if at else "–",
                Words(text(why)),
                last,
            )
        )
    if not rows:
        return "<p>None so far: all options are in the game.</p>"
    heads = ("option", Words("when"), "time", Words("why"), "last estimate")
    return table("Options that left", heads, rows)


def _cost(run: FollowedRun, status: RunStatus, still: Forecast | str) -> str:
    clients, privacy = status.course.clients, run.trial.privacy
    known = not isinstance(still, str)
    ahead = _with_open(run, status, still if isinstance(still, Forecast) else Forecast())
    reports = sum(client.phases for client in clients)
    rows = [
        ("phases", f"{len(status.course.phases):,}", f"{ahead.phases:,}"),
        ("clients", f"{len(clients):,}", f"{ahead.clients:,}"),
        ("pulls", f"{sum(client.pulls for client in clients):,}", f"{ahead.pulls:,}"),
        ("reports", f"{reports:,}", f"{ahead.reports:,}"),
        (
            "bytes of means",
            f"{-(-status.bits // 8):,}",
            f"{-(-status.bits * ahead.reports // (8 * reports)):,}" if reports else "–",
        ),
    ]
    made = [row(head, *(cells if known else cells[:1])) for head, *cells in rows]
    heads = ("", "so far", "probably still") if known else ("", "so far")
    said = [still] if isinstance(still, str) else [still.words()]
    if privacy is not None:
        spent = privacy.in_words(spent_at_most(run.server.rule, privacy, len(status.course.phases)))
        said.append(SAID["protected"].format(how=protection_words(privacy), spent=spent))
    shown = table("Costs", heads, made)
    return "\n".join([shown, *(f"<p>{text(one)}</p>" for one in said)])


def _with_open(run: FollowedRun, status: RunStatus, still: Forecast) -> Forecast:
    """Return a forecast with what is missing in the open phase."""
    assignment = run.server.assignment
    if assignment is None or not status.missing:
        return still
    n = len(status.missing)
    return replace(still, pulls=still.pulls + n * sum(assignment.pulls), reports=still.reports + n)


def _health(status: RunStatus) -> str:
    warnings = [text(sentence(event)) for event in status.events()]
    parts = [items(warnings) if warnings else "<p>Nothing unusual has happened.</p>"]
    if status.course.clients:
        parts.append(f"<h3>Do options change?</h3>\n{sections.drift(status)}")
        if status.segments:
            parts.append(f"<h3>Segments</h3>\n{sections.segments(status)}")
    return "\n".join(parts)


def _clients(status: RunStatus) -> str:
    """Return how many clients are in which state; the table itself is asked for by page."""
    numbers = tables.client_states(status).values()
    states = {state: sum(state in one for one in numbers) for state in tables.CLIENT_STATES}
    said = [f"{number:,} {state}" for state, number in states.items() if number]
    n = counted(len(status.course.clients), "client")
    return f"<p>{n} in the run{': ' if said else ''}{', '.join(said)}.</p>"


def _journal(status: RunStatus) -> str:
    """Return what has happened, the latest first."""
    course = status.course
    events = [(at, text(sentence(said))) for at, said in sections.happenings(status)]
    for phase in course.phases:
        events += _of_phase(phase)
    for move in course.moves:
        to = f"node {move.node}" if move.node else f"the key {move.key}"
        moved = f"{shortened(move.clients)} moved to {to}: {move.reason}"
        events.append((move.at, text(sentence(moved))))
    # Of one moment, what was written last is the latest.
    events = sorted(events, key=lambda one: one[0])[::-1]
    if course.ending is not None and status.wrote is not None:
        events.insert(0, (status.wrote, text(sentence(f"the run has ended: {course.ending}"))))
    if not events:
        return "<p>Nothing has happened yet.</p>"
    shown = [
        f'<li><time datetime="{text(at)}">{clock_time(at)}</time> <span>{said}</span></li>'
        for at, said in events[:MOST_EVENTS]
    ]
    more = len(events) - MOST_EVENTS
    rest = f"<p>{counted(more, 'earlier event')}: the command report writes all of them.</p>"
    return '<ol class="journal">\n' + "\n".join(shown) + f"\n</ol>\n{rest if more > 0 else ''}"


def _of_phase(phase: PhaseCourse) -> list[tuple[str, str]]:
    """Return how a phase began and ended."""
    joined = f" and {counted(phase.admitted, 'new client')}" if phase.admitted else ""
    before = phase.clients - phase.admitted
    whom = f"{counted(before, 'client')}{joined}" if before else joined.removeprefix(" and ")
    found = [(phase.opened, f"Phase {phase.phase} was opened with {whom or 'nobody'}.")]
    if phase.ended is not None:
        reports = f"{phase.reported:,} of {counted(phase.clients, 'client')} had reported"
        result = tables.result_of(phase)
        if phase.dropped:
            result = f"{', '.join(phase.dropped)} {'is' if len(phase.dropped) == 1 else 'are'} out"
        ended = f"phase {phase.phase} has ended: {result} ({reports})"
        found.append((phase.ended, text(sentence(ended))))
    return found
