"""The page of a live run, from its log: over or not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path

from fedbandits.experiments.protection import protection_words
from fedbandits.experiments.report.glossary import read_words
from fedbandits.federation.course import PhaseEnd
from fedbandits.federation.followed import FollowedRun
from fedbandits.federation.status import RunStatus, clock_time, counted
from fedbandits.privacy.protection import spent_at_most
from fedbandits.protocol import Answer
from fedbandits.report.markup import definitions, items
from fedbandits.report.page import html_page, live_chart
from fedbandits.rules.outliers import FEWEST, THRESHOLD
from fedbandits.run_page.charts import (
    MOST_COLOURED,
    MOST_ROWS,
    ArmRow,
    arm_rows,
    intervals_chart,
    phases_chart,
)
from fedbandits.run_page.tables import (
    FEW_CLIENTS,
    MOST_CLIENTS,
    arms_table,
    clients_table,
    means_table,
    phases_table,
    strangers,
    text,
)

_WORDS = read_words(Path(__file__).with_name("glossary.toml"))


def run_html(run: FollowedRun) -> str:
    """Return what is known of a run as one page that needs no network.

    Parameters
    ----------
    run : FollowedRun
        Over or not.

    Examples
    --------
    >>> from fedbandits.federation.trial import read_trial
    >>> trial = read_trial({
    ...     "title": "demo", "arms": ["red", "blue"], "pulls": "20", "admissions": "2^p",
    ...     "radius": {"rule": "certified", "delta": 0.05}, "assume": {"noise": 0.1, "spread": 0.1},
    ... })
    >>> page = run_html(FollowedRun("demo 1", trial))
    >>> "<h1>demo</h1>" in page, "No phase was opened yet" in page
    (True, True)
    """
    status = run.status()
    rows = arm_rows(status.arms, run.trial.goal)
    sections = [("In short", _verdict(status)), ("Estimates", _estimates(status, rows))]
    if rows:
        sections.append(("Eliminations over time", _over_time(rows, run.answers(), status)))
    if status.course.clients:
        sections.append(("What each client sent", _sent(run, status)))
        sections.append(("Means of each client", _means(run, status)))
    sections += [
        ("The course of the run", _course(status)),
        ("How to read this", definitions(_WORDS)),
        ("The trial", _trial(run)),
    ]
    return html_page(title=run.trial.title, byline=_byline(status), sections=sections)


def _byline(status: RunStatus) -> str:
    said = [f"Run {text(status.run)}"]
    if status.began is not None and status.wrote is not None:
        until = "to" if status.finished else "last heard of"
        said.append(f"from {clock_time(status.began)}, {until} {clock_time(status.wrote)}")
    counts = {"phase": len(status.course.phases), "client": len(status.course.clients)}
    return "; ".join([*said, *(counted(number, word) for word, number in counts.items())])


def _verdict(status: RunStatus) -> str:
    answer = status.answer
    state = text(_sentence(status.state_words()))
    parts = []
    if not status.finished:
        parts.append(f"<p><b>This run goes on.</b> {state}</p>")
    elif answer is None:
        parts.append(f"<p><b>{state}</b></p>")
    if answer is None:
        if not status.finished:
            parts.append("<p>No phase was decided yet, so nothing is known of the options.</p>")
        parts += [
            f"<p>{text(one.arm)} was withdrawn ({text(one.reason)}).</p>"
            for one in status.course.withdrawals
        ]
    else:
        *said, _ = answer.words().split("\n")
        parts += [f"<p>{_with_bold(line, answer.winner)}</p>" for line in said]
        parts.append(f"<p>{text(answer.of_intervals)}</p>")
        parts.append(items(map(text, answer.assumptions)))
    warnings = [text(_sentence(event)) for event in status.events()]
    if warnings:
        parts.append(f"<p>On the way:</p>\n{items(warnings)}")
    return "\n".join(parts)


def _with_bold(line: str, winner: str | None) -> str:
    """Return a sentence, with the answer in bold."""
    begins = f"The answer is {winner}:"
    if winner is not None and line.startswith(begins):
        return f"The answer is <b>{text(winner)}</b>:{text(line[len(begins) :])}"
    return text(line)


def _estimates(status: RunStatus, rows: Sequence[ArmRow]) -> str:
    answer = status.answer
    table = arms_table(status.arms, None if answer is None else answer.winner)
    if not rows or answer is None:
        return f"<p>There are none before a phase is decided.</p>\n{table}"
    caption = (
        f"Dots are estimates after phase {answer.phase}, lines their intervals, which"
        f" {text(answer.coverage)}. Grey: out, and not tried since."
    )
    if len(rows) > MOST_ROWS:
        caption += f" Of {len(rows):,} options the best {MOST_ROWS} are shown."
    alt = "Estimates with intervals: " + "; ".join(
        f"{row.label} {row.estimate:.4g}, {row.low:.4g} to {row.high:.4g}, {row.fate}"
        for row in rows[:MOST_ROWS]
    )
    shown = live_chart("estimates", intervals_chart(rows), alt=alt, caption=caption)
    return f"{shown}\n{table}"


def _over_time(rows: Sequence[ArmRow], answers: Sequence[Answer], status: RunStatus) -> str:
    withdrawn = ", a square where one was withdrawn" if status.course.withdrawals else ""
    caption = (
        "Estimates after each phase, with the same intervals. A cross is where an option was"
        f" decided against{withdrawn}. Options of one phase stand side by side"
        " so that none hides another."
    )
    if len(rows) > MOST_COLOURED:
        caption += f" The best {MOST_COLOURED} of {len(rows):,} options have a colour."
    decided = sum(each.end is PhaseEnd.DECIDED for each in status.course.phases)
    if decided > len(answers):
        caption += (
            f" Of {decided:,} phases that were decided {len(answers):,} are shown, all among them"
            " in which an option went out; the axis is logarithmic."
        )
    fates = "; ".join(f"{row.label} {row.fate}" for row in rows[:MOST_ROWS])
    alt = f"Estimates against phase; {fates}"
    return live_chart("eliminations", phases_chart(rows, answers), alt=alt, caption=caption)


def _sent(run: FollowedRun, status: RunStatus) -> str:
    clients, privacy = status.course.clients, run.trial.privacy
    said = [
        "Clients send how often they tried each option in a phase, and the average of what they"
        " observed; never an observation. Bits are those of the averages alone, without what"
        " carries them."
    ]
    if privacy is not None:
        spent = privacy.in_words(spent_at_most(run.server.rule, privacy, len(status.course.phases)))
        said.append(
            f"These averages are protected: {protection_words(privacy)}. A client has spent at"
            f" most: {spent}."
        )
    if strangers(status):
        said.append(
            f"Besides, {counted(strangers(status), 'message')} came from who is not in the run, or"
            " cannot be told, and did not count."
        )
    if len(clients) > MOST_CLIENTS:
        said.append(
            f"{FEW_CLIENTS} of {len(clients):,} clients have a row: first those with messages that"
            " did not count, then the others in the order in which they joined. The command status"
            " with the option --json prints all of them."
        )
    clipped = privacy is not None or any(client.clipped for client in clients)
    return _below(said, clients_table(status, clipped=clipped))


def _means(run: FollowedRun, status: RunStatus) -> str:
    """Return each client's means, with those marked that are unlike the others."""
    said = [
        "The mean of each option over all phases that are over, as the server knows it"
        + ("." if run.trial.privacy is None else ": after rounding or noise."),
        f"Marked with ! is a mean more than {THRESHOLD:g} robust standard deviations (1.4826 times"
        " the median absolute deviation) from the median of all clients, if at least"
        f" {FEWEST} have reported. It may be a broken client, a false report or a place that is"
        " different: ask there. Marks change no decision, and a false report that is not extreme"
        " has none.",
    ]
    if len(status.means) > MOST_CLIENTS:
        said.append(
            f"{FEW_CLIENTS} of {len(status.means):,} clients have a row, those with a mark first."
        )
    return _below(said, means_table(status))


def _below(said: Sequence[str], table: str) -> str:
    """Return a table below paragraphs of plain text."""
    return "\n".join([*(f"<p>{escape(each)}</p>" for each in said), table])


def _course(status: RunStatus) -> str:
    course = status.course
    events = [(one.at, one.words) for one in course.halts]
    for gone in course.withdrawals:
        events.append((gone.at, f"{gone.arm} was withdrawn {gone.when}: {gone.reason}"))
    for new in course.restarts:
        events.append((new.at, f"a server took the run over {new.when}: epoch {new.epoch}"))
    happened = [(clock_time(at), text(said)) for at, said in sorted(events)]
    if course.ending is not None and status.wrote is not None:
        happened.append(("at the end", text(_sentence(course.ending))))
    parts = ["<p>No phase was opened.</p>"]
    if course.phases:
        parts = [
            "<p>Reported are clients whose update was counted; pulls each, how often a client tries"
            " options in the phase, all of them together.</p>",
            phases_table(course.phases),
        ]
    if happened:
        parts.append(f"<h3>What else happened</h3>\n{definitions(happened)}")
    return "\n".join(parts)


def _trial(run: FollowedRun) -> str:
    facts = [
        (escape(key), f"<code>{escape(json.dumps(value, ensure_ascii=False))}</code>")
        for key, value in run.trial.tables.items()
    ]
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    began = f"<p>The run began with {escape(versions)}.</p>" if versions else ""
    return f"<p>What its file says; all else is as by default.</p>\n{definitions(facts)}\n{began}"


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."
