"""The plan in plain words, and its numbers as a table for a terminal."""

from __future__ import annotations

from collections.abc import Callable

from fedbandits.experiments.wording import share
from fedbandits.planning.candidates import rule_for
from fedbandits.planning.detection import POWER
from fedbandits.planning.outlook import LAST_PHASE, Expected, IndexOutlook, Outlook
from fedbandits.planning.pilot import Pilot
from fedbandits.planning.plan import Plan
from fedbandits.planning.privacy_text import (
    privacy_paragraphs,
    spent_too_early,
    too_coarse,
    too_noisy,
)
from fedbandits.planning.question import MOST_CLIENTS, Question
from fedbandits.planning.search import MOST_UNDECIDED
from fedbandits.planning.wording import all_of, between, changed, counted, rounded
from fedbandits.report.chart import NORMAL_95
from fedbandits.report.shown import Shown
from fedbandits.rules.guarantees import Assumption, ConditionKind, Guarantee, within


def guarantee(plan: Plan) -> Guarantee:
    """Return what is proven about the rule that a plan suggests, or would if it suggested one."""
    suggested, privacy = plan.suggested, plan.question.privacy
    at_once = suggested is not None and suggested.admissions is None
    found = rule_for(plan.question, at_once=at_once).guarantee()
    return found if privacy is None else found.requiring(within(privacy.range))


def assumptions(plan: Plan) -> tuple[str, ...]:
    """Return what has to be true for the error probability and the numbers of a plan to hold."""
    also: dict[ConditionKind, str] = {
        Assumption.LIKE_DRAWS: " (a table of given clients, model “exact”, is judged by half the"
        " range of their means instead, which takes more of them)",
        Assumption.IN_RANGE: " (others are clipped, and the answer is about clipped ones)",
    }
    return tuple(one.words + also.get(one.kind, "") for one in guarantee(plan).conditions)


def answer(plan: Plan) -> list[str]:
    """Return the plan in plain words, a paragraph a line."""
    return [
        _asked(plan),
        *([] if plan.pilot is None else [_pilot(plan, plan.pilot)]),
        *_reach(plan),
        *([] if plan.question.privacy is None else privacy_paragraphs(plan, plan.question.privacy)),
        *(_no_advice(plan) if plan.suggested is None else _advice(plan, plan.suggested)),
    ]


def _asked(plan: Plan) -> str:
    question = plan.question
    hardest = ", every other arm being exactly that much worse (the hardest case)"
    who = (
        "over all clients there might be"
        if question.population is None
        else f"over {_clients(question.population)}"
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
        f"{name} {found.estimate:.4g} ({found.low:.4g} to {found.high:.4g})"
        for name, found in (("noise", pilot.noise), ("spread", pilot.spread))
    ]
    unseen = (
        " No spread is visible, which is no proof that there is none: one of"
        f" {pilot.spread.high:.4g} might still have gone unseen."
        if pilot.spread.estimate == 0
        else ""
    )
    return (
        f"The pilot data ({counted(pilot.observations, 'observation')} of"
        f" {counted(pilot.arms, 'arm')} by {counted(pilot.clients, 'client')}) give"
        f" {' and '.join(said)}, with 95 % intervals.{unseen} These are estimates; the plan uses"
        f" noise {question.noise:.4g} and spread {question.spread:.4g}: the upper ends, unless you"
        " gave a value yourself."
    )


def _clients(n: int) -> str:
    return f"{n:,} client{'' if n == 1 else 's'}"


def _reach(plan: Plan) -> list[str]:
    """Return whether the gap is within reach, for everyone and for the clients there are."""
    found, question, n = plan.feasibility, plan.question, plan.question.population
    if found.clients_unlimited is None:
        return []  # the horizon holds no pull of every arm, or rounding is too coarse: said below
    least = counted(found.clients_unlimited, "client")
    often = (
        "if each pulls very often"
        if found.pulls is None
        else f"if each pulls every arm {counted(found.pulls, 'time')}, which is what"
        f" {question.horizon:,} slots allow"
    )
    look = f"in one look with a probability of {share(POWER)}"
    if n is None:
        differ = "Clients differ" if question.spread > 0 else "With a spread of 0 clients are alike"
        return [
            f"{differ}: to decide {look} takes about {least}, {often}. For an answer about a "
            "limited number of clients say how many there are."
        ]
    these = "this one client" if n == 1 else f"these {n:,}"
    if found.within_reach and found.chance_unlimited is not None:
        beyond = (
            f"For clients beyond {these} as well (an unlimited population) about {least} decide"
            f" {look}, {often}; all {n:,} do with {share(found.chance_unlimited)}. Leave the number"
            f" of clients out to plan for that, with as many as it takes."
        )
    else:
        beyond = (
            f"For clients beyond {these} (an unlimited population) the answer is out of reach: to"
            f" decide {look} would take about {least}, {often},"
            f" {rounded(found.clients_unlimited / n)} times as many as there are."
            f" {all_of(n).capitalize()} could tell a gap of {found.gap_unlimited:.3g}."
        )
    few = found.clients_finite
    if few is None or n == 1:
        return [beyond]
    nearly = ", nearly all of them" if found.needs_nearly_all(n) and few < n else ""
    return [
        beyond,
        f"For these {n:,} clients alone about {few:,} of them decide {look}"
        f" ({share(few / n)}{nearly}), {often}.",
    ]


def _no_advice(plan: Plan) -> list[str]:
    yours = plan.yours
    if yours is None:
        return [_refusal(plan)]
    of_yours = (
        f"Yours, {_schedules(yours)}, has an expected regret of {rounded(yours.regret.mean)}."
        f"{_undecided(yours)}"
    )
    return [of_yours, _refusal(plan)]


def _refusal(plan: Plan) -> str:
    question = plan.question
    because = too_coarse(question) or _no_room(plan) or too_noisy(plan) or _too_many(plan)
    if because is not None:
        return because
    if question.most_releases is not None:
        return spent_too_early(question, MOST_UNDECIDED)
    within = "" if question.horizon is None else f" within {question.horizon:,} slots"
    return (
        f"Not feasible: none of the schedules considered decides {share(1 - MOST_UNDECIDED)} of "
        f"games with up to {_clients(question.population or MOST_CLIENTS)}{within}. Ask for a "
        "larger gap, a larger error probability, or more time."
    )


def _too_many(plan: Plan) -> str | None:
    """Return that it takes more clients than a plan considers, if it does."""
    needed = plan.feasibility.clients_unlimited
    if plan.question.population is not None or needed is None or needed <= MOST_CLIENTS:
        return None
    less = "" if plan.question.privacy is None else ", or for less privacy"
    return (
        f"Not feasible: it takes about {counted(needed, 'client')}, and a plan considers"
        f" {_clients(MOST_CLIENTS)} at most. Ask for a larger gap{less}."
    )


def _no_room(plan: Plan) -> str | None:
    """Return that the horizon is too short, if it is."""
    found, question = plan.feasibility, plan.question
    if question.horizon is None or found.fits:
        return None
    if question.horizon // question.n_arms < question.fewest_pulls:
        return (
            f"Not feasible: {question.horizon:,} slots do not even hold"
            f" {counted(question.fewest_pulls, 'pull')} of each of"
            f" {counted(question.n_arms, 'arm')}. Raise the horizon."
        )
    if found.pulls_of_all is None or question.population is None:
        return None
    needs = "needs" if question.population == 1 else "need"
    said = (
        f"Not feasible: even {all_of(question.population)} {needs} about"
        f" {counted(found.pulls_of_all, 'pull')} of each arm,"
        f" {counted(found.pulls_of_all * question.n_arms, 'slot')}, and there are"
        f" {question.horizon:,}. Raise the horizon"
    )
    if found.gap_finite is None:
        return f"{said}."
    return f"{said}, or be content with a gap of {found.gap_finite:.3g}."


def _advice(plan: Plan, outlook: Outlook) -> list[str]:
    question = plan.question
    said = [
        f"Run {outlook.algorithm} with the certified radius and {_schedules(outlook)}.",
        f"Expect {counted(outlook.clients.mean, 'client')}, "
        f"{counted(outlook.phases.mean, 'phase')}, "
        f"{counted(outlook.pulls_of_arm.mean, 'pull')} of an arm by a client, "
        f"{counted(outlook.pulls_in_all.mean, 'pull')} in all and "
        f"{counted(outlook.reports.mean, 'report')} to the server. In nine of ten runs "
        f"{between(outlook.clients, 'client')} and {between(outlook.phases, 'phase')} are enough.",
        f"Expected regret {'until the decision' if question.horizon is None else 'in all'}: "
        f"{rounded(outlook.regret.mean)} "
        f"(± {rounded(NORMAL_95 * outlook.regret.stderr)} from simulating it), "
        f"of which {rounded(outlook.communication.mean)} for communication; nine of ten runs come "
        f"to {between(outlook.regret)}.",
        _rule(question, outlook),
        f"Of {outlook.replications:,} simulated games {_failures(outlook)}.{_cut(outlook)} "
        f"{counted(len(plan.searched.tried), 'schedule')} were tried to find this one.",
    ]
    for other in plan.others:
        name = "all clients at once" if other.admissions is None else "gradual admission"
        said.append(_compared(other, outlook, f"The best with {name}"))
    if plan.yours is not None:
        said.append(_compared(plan.yours, outlook, "Yours"))
    if plan.index is not None:
        said.append(_index_rule(plan.index, outlook))
    return said


def _index_rule(index: IndexOutlook, best: Outlook) -> str:
    """Return what an index rule would come to, and what it guarantees."""
    wrong = round(index.wrong_rate * index.replications)
    so_many = "none" if wrong == 0 else f"{wrong:,}"
    return (
        f"An index rule, fed-index with its defaults, has an expected regret of"
        f" {rounded(index.regret.mean)},"
        f" {changed(index.regret.mean, best.regret.mean)}, with"
        f" {counted(index.clients.mean, 'client')} in {counted(index.phases.mean, 'phase')}; of"
        f" {index.replications:,} simulated games {so_many} committed to a wrong arm, and"
        f" {index.undecided_rate:.0%} played to the end without committing. Its guarantee:"
        f" {index.guarantee}."
    )


def _rule(question: Question, outlook: Outlook) -> str:
    """Return what the numbers are of, beside the schedules."""
    delta = f"{question.delta:g}" if question.horizon is None else '"1/T"'
    said = (
        f"These numbers are for delta = {delta}, a rule that is told noise {question.noise:.4g}"
        f' and spread {question.spread:.4g}, and weights = "{outlook.weights}"'
    )
    if outlook.weights == "equal":
        return f"{said}, the default."
    return (
        f"{said}, by which a client counts the more the more is known of it; with the default,"
        ' "equal", it takes longer.'
    )


def _cut(outlook: Outlook) -> str:
    """Return which games the numbers leave out, where there are such."""
    if not outlook.cut:
        return ""
    within = (
        "before the privacy budget was spent"
        if outlook.spent_rate > 0
        else f"within {LAST_PHASE} phases"
    )
    if outlook.decided == 0:
        return f" None was decided {within}; the numbers are what they came to until then."
    others = outlook.replications - outlook.decided
    left_out = "one is" if others == 1 else f"{others:,} are"
    return (
        f" The numbers are of the {outlook.decided:,} that were decided {within}; the other"
        f" {left_out} left out."
    )


def _schedules(outlook: Outlook) -> str:
    pulls = f"f(p) = {outlook.pulls} (pulls of each arm in play, by every client, in phase p)"
    if outlook.admissions is None:
        return f"{pulls} and all clients from the start"
    return f"{pulls} and g(p) = {outlook.admissions} (new clients in phase p)"


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
    return (
        f"{name}, {_schedules(other)}, has an expected regret of {rounded(other.regret.mean)}, "
        f"{changed(other.regret.mean, best.regret.mean)}.{_undecided(other)}"
    )


def _undecided(outlook: Outlook) -> str:
    if not outlook.cut:
        return ""
    return f" Of its {outlook.replications:,} games {_failures(outlook)}.{_cut(outlook)}"


_ROWS: tuple[tuple[str, Callable[[Outlook], Expected | None]], ...] = (
    ("clients", lambda outlook: outlook.clients),
    ("phases", lambda outlook: outlook.phases),
    ("slots until the decision", lambda outlook: outlook.slots),
    ("pulls of an arm by a client", lambda outlook: outlook.pulls_of_arm),
    ("pulls in all", lambda outlook: outlook.pulls_in_all),
    ("reports to the server", lambda outlook: outlook.reports),
    ("uplink bits per client", lambda outlook: outlook.uplink_bits),
    ("total regret", lambda outlook: outlook.regret),
    ("  exploration", lambda outlook: outlook.exploration),
    ("  communication", lambda outlook: outlook.communication),
)


def columns(plan: Plan) -> list[tuple[str, Outlook]]:
    """Return the schedules of a plan and what they are called."""
    found: list[tuple[str, Outlook | None]] = [("suggested", plan.suggested)]
    bare = plan.unprotected
    if bare is not None:
        found.append(("without privacy", bare.suggested))
    found += [
        ("best at once" if other.admissions is None else "best gradual", other)
        for other in plan.others
    ]
    found.append(("yours", plan.yours))
    if bare is not None:
        found.append(("yours without privacy", bare.yours))
    return [(name, outlook) for name, outlook in found if outlook is not None]


def cells(plan: Plan) -> list[list[str]]:
    """Return the numbers of a plan: a row a quantity, its name first, then a cell a schedule."""
    outlooks = [outlook for _, outlook in columns(plan)]
    delta = f"{plan.question.delta:.3g}"
    rows = [
        ["algorithm", *(o.algorithm for o in outlooks)],
        ["pulls f(p)", *(o.pulls for o in outlooks)],
        ["new clients g(p)", *(o.admissions or "all at once" for o in outlooks)],
        ["radius", *("certified" for _ in outlooks)],
        ["delta", *(delta for _ in outlooks)],
        ["weights", *(o.weights for o in outlooks)],
    ]
    rows += [[name, *(_cell(of(o)) for o in outlooks)] for name, of in _ROWS]
    spent = any(o.spent_rate for o in outlooks)
    cut = plan.question.horizon is None and not spent
    late = f"undecided after {LAST_PHASE} phases" if cut else "undecided"
    rows.append(["wrong arm", *(share(o.wrong_rate) for o in outlooks)])
    rows.append([late, *(share(o.undecided_rate) for o in outlooks)])
    if spent:
        rows.append(["privacy budget spent", *(share(o.spent_rate) for o in outlooks)])
    return rows


def _cell(expected: Expected | None) -> str:
    if expected is None:
        return "–"
    return f"{rounded(expected.mean)} ({between(expected)})"


def shown_plan(plan: Plan) -> Shown:
    """Return the numbers: means, and in brackets where nine of ten games end."""
    return Shown(
        name="Expected, and in nine of ten games",
        headings=["", *(name for name, _ in columns(plan))],
        rows=cells(plan),
    )


def conditions(plan: Plan) -> str:
    """Return what is proven and when that and the numbers hold, in a few sentences."""
    question, found = plan.question, guarantee(plan)
    said = (
        f"Guarantee: {found.claim}; the answer is for {found.whom}. This holds if"
        f" {'; '.join(assumptions(plan))}."
    )
    if question.population is None:
        return said
    return f"{said} “Could tell” means: in one look, with a probability of {share(POWER)}."
