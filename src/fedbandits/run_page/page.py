"""The page of a live run, from its log: over or not."""

from __future__ import annotations

from fedbandits.federation.followed import FollowedRun
from fedbandits.report.markup import definitions
from fedbandits.report.page import html_page
from fedbandits.run_page import charts, sections


def run_html(run: FollowedRun) -> str:
    """Return what is known of a run as one page that needs no network.

    Parameters
    ----------
    run : FollowedRun
        Over or not.

    Examples
    --------
    >>> from fedbandits.federation.trial import read_trial
    >>> told = {"title": "demo", "arms": ["red", "blue"], "pulls": 20, "admissions": 4}
    >>> trial = read_trial({**told, "horizon": 1000, "range": [0, 1], "population": 9})
    >>> page = run_html(FollowedRun("demo 1", trial))
    >>> "<h1>demo</h1>" in page, "No phase was opened yet" in page
    (True, True)
    """
    status = run.status()
    rows = charts.arm_rows(status.arms, run.trial.goal)
    found = [
        ("In short", sections.verdict(status)),
        ("Estimates", sections.estimates(status, rows)),
    ]
    if rows:
        found.append(("Eliminations over time", sections.over_time(rows, run.answers(), status)))
    if status.course.clients:
        found.append(("What each client sent", sections.sent(run, status)))
        found.append(("Means of each client", sections.client_means(run, status)))
        if status.segments:
            found.append(("Segments", sections.segments(status)))
        found.append(("Do options change?", sections.drift(status)))
    found += [
        ("The course of the run", sections.course_of(status)),
        ("How to read this", definitions(sections.GLOSSARY)),
        ("The trial", sections.trial_facts(run)),
    ]
    return html_page(title=run.trial.title, byline=sections.byline(status), sections=found)
