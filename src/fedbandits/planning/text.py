"""The plan in plain words, and its numbers as a table for a terminal."""

from __future__ import annotations

import io
from collections.abc import Callable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedbandits.experiments.wording import share
from fedbandits.planning.detection import POWER
from fedbandits.planning.outlook import Expected, Outlook
from fedbandits.planning.pilot import Pilot
from fedbandits.planning.plan import Plan
from fedbandits.planning.question import MOST_CLIENTS
from fedbandits.planning.search import MOST_UNDECIDED
from fedbandits.rules.guarantees import ALWAYS, BOUNDS_HOLD, INDEPENDENT_OPTIONS

ASSUMPTIONS = (BOUNDS_HOLD, INDEPENDENT_OPTIONS, *ALWAYS)
"""What has to be true for the error probability of a plan, whose radius is certified, to hold."""


def number(value: float) -> str:
    """Return a number of clients, pulls or regret as people read it.

    Examples
    --------
    >>> number(6525.2), number(2.9), number(3.0), number(0.0123)
    ('6,525', '2.9', '3', '0.012')
    """
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    if abs(value) >= 1:
        return f"{value:,.1f}".removesuffix(".0")
    return f"{value:.2g}"


def rounded(value: float) -> str:
    """Return a number to three digits where it is a large one.

    Examples
    --------
    >>> rounded(338760.6), rounded(2113), rounded(2.9)
    ('339,000', '2,113', '2.9')
    """
    return number(float(f"{value:.3g}") if abs(value) >= 10_000 else value)


def answer(plan: Plan) -> list[str]:
    """Return the plan in plain words, a paragraph a line."""
    return [
        _asked(plan),
        *([] if plan.pilot is None else [_pilot(plan, plan.pilot)]),
        *_reach(plan),
        *([_refusal(plan)] if plan.suggested is None else _advice(plan, plan.suggested)),
    ]


def _asked(plan: Plan) -> str:
    question = plan.question
    hardest = ", every other arm being exactly that much worse (the hardest case)"
    who = (
        "over all clients there might be"
        if question.population is None
        else f"over {question.population:,} clients"
    )
    until = "" if question.horizon is None else f" within {question.horizon:,} slots"
    delta = question.delta
    return (
        f"The question: which of {question.n_arms} arms is best {who}{until}, with an error "
        f"probability of at most {f'{delta:g}' if delta >= 1e-4 else f'1 in {1 / delta:,.0f}'}? "
        f"The best is {question.gap:.4g} above the "
        f"next{hardest if question.least_favourable else ''}."
    )


def _pilot(plan: Plan, pilot: Pilot) -> str:
    question = plan.question
    said = [
        f"noise {found.estimate:.4g} ({found.low:.4g} to {found.high:.4g})"
        if name == "noise"
        else f"spread {found.estimate:.4g} ({found.low:.4g} to {found.high:.4g})"
        for name, found in (("noise", pilot.noise), ("spread", pilot.spread))
    ]
    return (
        f"The pilot data ({pilot.observations:,} observations of {pilot.arms} arms by "
        f"{pilot.clients:,} clients) give {' and '.join(said)}, with 95 % intervals. These are "
        f"estimates; the plan uses noise {question.noise:.4g} and spread {question.spread:.4g}: "
        "the upper ends, unless you gave a value yourself."
    )


def _reach(plan: Plan) -> list[str]:
    """Return whether the gap is within reach, for everyone and for the clients there are."""
    found, n = plan.feasibility, plan.question.population
    least = f"{rounded(found.clients_unlimited)} clients"
    if n is None:
        if plan.question.spread == 0:
            return ["All clients are alike, so that one would do if it pulled often enough."]
        return [
            f"Clients differ, so that it takes at least {least}, however often each pulls; for an "
            "answer about a limited number of clients say how many there are."
        ]
    if found.within_reach:
        beyond = (
            f"For clients beyond these {n:,} as well (an unlimited population) it takes at least "
            f"{least}, which is within reach; leave the number of clients out to plan for that."
        )
    else:
        beyond = (
            f"For clients beyond these {n:,} (an unlimited population) the answer is out of reach: "
            f"it would take at least {least}, {rounded(found.clients_unlimited / n)} times as many "
            f"as there are. All {n:,} together could tell a gap of {found.gap_unlimited:.3g}."
        )
    few = found.clients_finite
    these = ""
    if few is not None:
        nearly = ", nearly all of them" if found.needs_nearly_all(n) else ""
        these = (
            f"For these {n:,} clients alone it takes at least {few:,} of them "
            f"({share(few / n)}{nearly}), however often each pulls."
        )
    return [beyond, these] if these else [beyond]


def _refusal(plan: Plan) -> str:
    found, question = plan.feasibility, plan.question
    if not found.fits and question.horizon is not None:
        if found.pulls_of_all is None:
            return (
                f"Not feasible: {question.horizon:,} slots do not even hold one pull of each of "
                f"{question.n_arms} arms. Raise the horizon."
            )
        said = (
            f"Not feasible: even all {question.population:,} clients together need about "
            f"{found.pulls_of_all:,} pulls of each arm, "
            f"{found.pulls_of_all * question.n_arms:,} slots, and there are "
            f"{question.horizon:,}. Raise the horizon"
        )
        if found.gap_finite is None:
            return f"{said}."
        return f"{said}, or be content with a gap of {found.gap_finite:.3g}."
    clients = f"{question.population or MOST_CLIENTS:,} clients"
    within = "" if question.horizon is None else f" within {question.horizon:,} slots"
    return (
        f"Not feasible: none of the schedules considered decides {share(1 - MOST_UNDECIDED)} of "
        f"games with up to {clients}{within}. Ask for a larger gap, a larger error probability, or "
        "more time."
    )


def _advice(plan: Plan, outlook: Outlook) -> list[str]:
    question = plan.question
    said = [
        f"Run {outlook.algorithm} with the certified radius and {_schedules(outlook)}.",
        f"Expect {rounded(outlook.clients.mean)} clients, {rounded(outlook.phases.mean)} phases, "
        f"{rounded(outlook.pulls_of_arm.mean)} pulls of an arm by a client, "
        f"{rounded(outlook.pulls_in_all.mean)} pulls in all and {rounded(outlook.reports.mean)} "
        f"reports to the server. In nine of ten runs {_between(outlook.clients)} clients and "
        f"{_between(outlook.phases)} phases are enough.",
        f"Expected regret {'until the decision' if question.horizon is None else 'in all'}: "
        f"{rounded(outlook.regret.mean)} (± {rounded(outlook.regret.stderr)} from simulating it), "
        f"of which {rounded(outlook.communication.mean)} for communication; nine of ten runs come "
        f"to {_between(outlook.regret)}.",
        f"Of {outlook.replications:,} simulated games {_failures(outlook)}. "
        f"{len(plan.searched.tried):,} schedules were tried to find this one.",
    ]
    for other in plan.others:
        name = "all clients at once" if other.admissions is None else "gradual admission"
        said.append(_compared(other, outlook, f"The best with {name}"))
    if plan.yours is not None:
        said.append(_compared(plan.yours, outlook, "Yours"))
    return said


def _schedules(outlook: Outlook) -> str:
    pulls = f"f(p) = {outlook.pulls} (pulls of each arm in play, by every client, in phase p)"
    if outlook.admissions is None:
        return f"{pulls} and all clients from the start"
    return f"{pulls} and g(p) = {outlook.admissions} (new clients in phase p)"


def _between(expected: Expected) -> str:
    low, high = rounded(expected.low), rounded(expected.high)
    return low if low == high else f"{low} to {high}"


def _failures(outlook: Outlook) -> str:
    parts = []
    for rate, ends in (
        (outlook.wrong_rate, "with a wrong arm"),
        (outlook.undecided_rate, "undecided"),
    ):
        count = round(rate * outlook.replications)
        parts.append(f"{'none' if count == 0 else f'{count:,}'} ended {ends}")
    return " and ".join(parts)


def _compared(other: Outlook, best: Outlook, name: str) -> str:
    more = other.regret.mean / best.regret.mean - 1.0 if best.regret.mean > 0 else 0.0
    than = "more" if more >= 0 else "less"
    return (
        f"{name}, {_schedules(other)}, has an expected regret of {rounded(other.regret.mean)}, "
        f"{100 * abs(more):.0f} % {than}."
    )


_ROWS: tuple[tuple[str, Callable[[Outlook], Expected | None]], ...] = (
    ("clients", lambda outlook: outlook.clients),
    ("phases", lambda outlook: outlook.phases),
    ("slots until the decision", lambda outlook: outlook.slots),
    ("pulls of an arm by a client", lambda outlook: outlook.pulls_of_arm),
    ("pulls in all", lambda outlook: outlook.pulls_in_all),
    ("reports to the server", lambda outlook: outlook.reports),
    ("total regret", lambda outlook: outlook.regret),
    ("  exploration", lambda outlook: outlook.exploration),
    ("  communication", lambda outlook: outlook.communication),
)


def columns(plan: Plan) -> list[tuple[str, Outlook]]:
    """Return the schedules of a plan and what they are called."""
    found = [] if plan.suggested is None else [("suggested", plan.suggested)]
    found += [
        ("best at once" if other.admissions is None else "best gradual", other)
        for other in plan.others
    ]
    return found + ([] if plan.yours is None else [("yours", plan.yours)])


def cells(plan: Plan) -> list[list[str]]:
    """Return the numbers of a plan: a row a quantity, its name first, then a cell a schedule."""
    outlooks = [outlook for _, outlook in columns(plan)]
    rows = [
        ["algorithm", *(o.algorithm for o in outlooks)],
        ["pulls f(p)", *(o.pulls for o in outlooks)],
        ["new clients g(p)", *(o.admissions or "all at once" for o in outlooks)],
    ]
    rows += [[name, *(_cell(of(o)) for o in outlooks)] for name, of in _ROWS]
    rows.append(["wrong arm", *(share(o.wrong_rate) for o in outlooks)])
    rows.append(["undecided", *(share(o.undecided_rate) for o in outlooks)])
    return rows


def _cell(expected: Expected | None) -> str:
    if expected is None:
        return "–"
    return f"{rounded(expected.mean)} ({_between(expected)})"


def plan_table(plan: Plan) -> Table:
    """Return the numbers as a Rich table: means, and in brackets where nine of ten games end."""
    table = Table(
        title=Text("Expected, and in nine of ten games"), title_justify="left", title_style="bold"
    )
    table.add_column("", no_wrap=True)
    for name, _ in columns(plan):
        table.add_column(name, justify="right")
    for row in cells(plan):
        table.add_row(*map(Text, row))
    return table


def table_text(plan: Plan, width: int = 140) -> str:
    """Return the table as plain text."""
    buffer = io.StringIO()
    Console(file=buffer, width=width).print(plan_table(plan))
    return buffer.getvalue().rstrip()


def conditions() -> str:
    """Return when the stated error probability holds, in one sentence."""
    return (
        f"This holds if {'; '.join(ASSUMPTIONS)}. “At least” and “could tell” mean: in one look, "
        f"with a probability of {share(POWER)}."
    )
