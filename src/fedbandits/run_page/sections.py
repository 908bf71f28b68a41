"""The sections of the page of a run, whether it is written once or shown while the run goes on."""

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
from fedbandits.report.page import live_chart
from fedbandits.rules.outliers import FEWEST, THRESHOLD
from fedbandits.run_page import charts, tables
from fedbandits.run_page.tables import text

GLOSSARY = read_words(Path(__file__).with_name("glossary.toml"))
# What stands above and below charts and tables.
SAID = dict(read_words(Path(__file__).with_name("texts.toml")))


def byline(status: RunStatus) -> str:
    """Return which run it is, when it was, and how large."""
    said = [f"Run {text(status.run)}"]
    if status.began is not None and status.wrote is not None:
        until = "to" if status.finished else "last heard of"
        said.append(f"from {clock_time(status.began)}, {until} {clock_time(status.wrote)}")
    counts = {"phase": len(status.course.phases), "client": len(status.course.clients)}
    return "; ".join([*said, *(counted(number, word) for word, number in counts.items())])


def verdict(status: RunStatus) -> str:
    """Return what is known, what it rests on, and what happened on the way."""
    answer = status.answer
    state = text(sentence(status.state_words()))
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
        parts += [f"<p>{with_bold(line, answer.winner)}</p>" for line in said]
        parts.append(f"<p>{text(answer.of_intervals)}</p>")
        parts.append(items(map(text, answer.assumptions)))
    parts += [f"<p>{text(sentence(words))}</p>" for words in status.gain_words()]
    parts.append(f"<p>{text(sentence(f'the log is {status.signature_words()}'))}</p>")
    warnings = [text(sentence(event)) for event in status.events()]
    if warnings:
        parts.append(f"<p>On the way:</p>\n{items(warnings)}")
    return "\n".join(parts)


def with_bold(line: str, winner: str | None) -> str:
    """Return a sentence, with the answer in bold."""
    begins = f"The answer is {winner}:"
    if winner is not None and line.startswith(begins):
        return f"The answer is <b>{text(winner)}</b>:{text(line[len(begins) :])}"
    return text(line)


def estimates(status: RunStatus, rows: Sequence[charts.ArmRow], *, stills: bool = True) -> str:
    """Return the estimates of all arms with their intervals, as a chart and as a table."""
    answer = status.answer
    table = tables.arms_table(status.arms, None if answer is None else answer.winner)
    if not rows or answer is None:
        return f"<p>There are none before a phase is decided.</p>\n{table}"
    caption = SAID["estimates"].format(phase=answer.phase, coverage=text(answer.coverage))
    if len(rows) > charts.MOST_ROWS:
        caption += f" Of {len(rows):,} options the best {charts.MOST_ROWS} are shown."
    alt = "Estimates with intervals: " + "; ".join(
        f"{row.label} {row.estimate:.4g}, {row.low:.4g} to {row.high:.4g}, {row.fate}"
        for row in rows[: charts.MOST_ROWS]
    )
    shown = live_chart(
        "estimates", charts.intervals_chart(rows), alt=alt, caption=caption, stills=stills
    )
    return f"{shown}\n{table}"


def over_time(
    rows: Sequence[charts.ArmRow],
    answers: Sequence[Answer],
    status: RunStatus,
    *,
    stills: bool = True,
) -> str:
    """Return how the intervals have narrowed over the phases."""
    square = ", a square where one was withdrawn" if status.course.withdrawals else ""
    caption = SAID["over time"].format(square=square)
    if len(rows) > charts.MOST_COLOURED:
        caption += f" The best {charts.MOST_COLOURED} of {len(rows):,} options have a colour."
    decided = sum(each.end is PhaseEnd.DECIDED for each in status.course.phases)
    if decided > len(answers):
        caption += " " + SAID["some phases"].format(decided=decided, shown=len(answers))
    fates = "; ".join(f"{row.label} {row.fate}" for row in rows[: charts.MOST_ROWS])
    alt = f"Estimates against phase; {fates}"
    chart = charts.phases_chart(rows, answers)
    return live_chart("eliminations", chart, alt=alt, caption=caption, stills=stills)


def sent(run: FollowedRun, status: RunStatus) -> str:
    """Return what each client has sent."""
    clients, privacy = status.course.clients, run.trial.privacy
    said = [SAID["sent"]]
    if privacy is not None:
        spent = privacy.in_words(spent_at_most(run.server.rule, privacy, len(status.course.phases)))
        said.append(SAID["protected"].format(how=protection_words(privacy), spent=spent))
    if status.covariate:
        said.append(SAID["adjusted"].format(covariate=status.covariate))
    strangers = tables.strangers(status)
    if strangers:
        said.append(SAID["strangers"].format(messages=counted(strangers, "message")))
    trimming = any(client.compared is not None for client in clients)
    if trimming:
        said.append(SAID["left out"])
    if len(clients) > tables.MOST_CLIENTS:
        then = "then those that were left out most often, " if trimming else ""
        some = SAID["some clients"].format(few=tables.FEW_CLIENTS, all=len(clients), then=then)
        said.append(some)
    clipped = privacy is not None or any(client.clipped for client in clients)
    return _below(said, tables.clients_table(status, clipped=clipped))


def client_means(run: FollowedRun, status: RunStatus) -> str:
    """Return each client's means, with those marked that are unlike the others."""
    rounded = "" if run.trial.privacy is None else ": after rounding or noise"
    marked = SAID["marked means"].format(threshold=THRESHOLD, fewest=FEWEST)
    said = [SAID["means"].format(rounded=rounded), marked]
    if len(status.means) > tables.MOST_CLIENTS:
        said.append(SAID["some means"].format(few=tables.FEW_CLIENTS, all=len(status.means)))
    return _below(said, tables.means_table(status))


def drift(status: RunStatus) -> str:
    """Return by how much options seem to have changed."""
    watched = status.drift
    if isinstance(watched, str):
        return f"<p>{escape(SAID['drift unwatched'].format(why=watched))}</p>"
    return _below([SAID["drift"].format(percent=100 * watched.level)], tables.drift_table(watched))


def guardrails(run: FollowedRun, status: RunStatus) -> str:
    """Return what second outcomes say of every option."""
    level = sum(rail.level or 0.0 for rail in run.trial.guardrails)
    said = SAID["guardrails"].format(percent=100 * level)
    return _below([said], tables.guardrails_table(status.guardrails))


def segments(status: RunStatus) -> str:
    """Return what options are like for groups of clients."""
    if isinstance(status.segments, str):
        return f"<p>{escape(SAID['no segments'].format(why=status.segments))}</p>"
    # What breaks the promise about all intervals breaks that about these.
    proven = status.answer is not None and status.answer.level < 1
    said = SAID["covered segments" if proven else "uncovered segments"]
    return _below([SAID["segments"], said], tables.segments_table(status.segments))


def _below(said: Sequence[str], table: str) -> str:
    """Return a table below paragraphs of plain text."""
    return "\n".join([*(f"<p>{escape(each)}</p>" for each in said), table])


def course_of(status: RunStatus) -> str:
    """Return the phases, and what else happened."""
    course = status.course
    happened = [(clock_time(at), text(said)) for at, said in sorted(happenings(status))]
    if course.ending is not None and status.wrote is not None:
        happened.append(("at the end", text(sentence(course.ending))))
    parts = ["<p>No phase was opened.</p>"]
    if course.phases:
        parts = [f"<p>{SAID['phases']}</p>", tables.phases_table(course.phases)]
    if happened:
        parts.append(f"<h3>What else happened</h3>\n{definitions(happened)}")
    return "\n".join(parts)


def happenings(status: RunStatus) -> list[tuple[str, str]]:
    """Return what people and servers did to the run, with the time of each."""
    course = status.course
    events = [(one.at, one.words) for one in course.halts]
    for gone in course.withdrawals:
        events.append((gone.at, f"{gone.arm} was withdrawn {gone.when}: {gone.reason}"))
    for new in course.restarts:
        events.append((new.at, f"a server took the run over {new.when}: epoch {new.epoch}"))
    return events


def trial_facts(run: FollowedRun) -> str:
    """Return what the file of the trial says."""
    facts = [
        (text(key), f"<code>{text(json.dumps(value, ensure_ascii=False))}</code>")
        for key, value in run.trial.tables.items()
    ]
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    began = f"<p>The run began with {escape(versions)}.</p>" if versions else ""
    return f"<p>What its file says; all else is as by default.</p>\n{definitions(facts)}\n{began}"


def sentence(words: str) -> str:
    """Return words as a sentence."""
    return f"{words[:1].upper()}{words[1:]}."
