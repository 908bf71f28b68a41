"""The plan in plain words, and its numbers as a table for a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fedbandits.experiments.bounds import lower_bound_of
from fedbandits.experiments.protection import protection_words
from fedbandits.experiments.text import TIMES
from fedbandits.notebook.viewed import Table
from fedbandits.planning.candidates import rule_for
from fedbandits.planning.detection import POWER, Detector
from fedbandits.planning.honesty import hidden
from fedbandits.planning.outlook import LAST_PHASE, Expected, Outlook, Simulated
from fedbandits.planning.pilot import Pilot
from fedbandits.planning.protection import release_error
from fedbandits.planning.question import MOST_CLIENTS, Question
from fedbandits.planning.search import MOST_UNDECIDED
from fedbandits.planning.wording import all_of, between, changed, counted, rounded
from fedbandits.privacy.policy import Privacy
from fedbandits.report.chart import NORMAL_95
from fedbandits.report.shown import Shown
from fedbandits.report.wording import listed, share
from fedbandits.rules.guarantees import (
    Assumption,
    Condition,
    ConditionKind,
    Guarantee,
    within,
)

if TYPE_CHECKING:  # it shows itself by what is here
    from fedbandits.planning.plan import Plan

# What each row of the table shows: an attribute of `Outlook`.
_ROWS = {
    "algorithm": "algorithm",
    "pulls f(p)": "pulls",
    "new clients g(p)": "admissions",
    "weights": "weights",
    "clients": "clients",
    "phases": "phases",
    "slots until the decision": "slots",
    "pulls of an arm by a client": "pulls_of_arm",
    "pulls in all": "pulls_in_all",
    "reports to the server": "reports",
    "uplink bits per client": "uplink_bits",
    "total regret": "regret",
    "  per client": "per_client",
    "  exploration": "exploration",
    "  communication": "communication",
    "wrong arm": "wrong_rate",
    "undecided": "undecided_rate",
    "privacy budget spent": "spent_rate",
}
# Below this share of the spread a gap is called nearly a tie.
_NEARLY_TIED = 0.2
# What is compared with the suggestion, by the names of columns.
_COMPARED = {
    "best gradual": "The best with gradual admission",
    "best at once": "The best with all clients at once",
    "yours": "Your schedule",
}
# What the cost of privacy is counted in.
_COSTS = {
    "{} clients": "clients",
    "{} phases": "phases",
    "{} uplink bits per client": "uplink_bits",
    "a regret of {}": "regret",
}
# What the gain by a covariate is counted in.
_GAINS = {"{} pulls in all": "pulls_in_all", **_COSTS}


def guarantee(plan: Plan) -> Guarantee:
    """Return what is proven about the rule that a plan suggests, or would if it suggested one."""
    suggested, privacy = plan.suggested, plan.question.privacy
    at_once = suggested is not None and suggested.admissions is None
    found = rule_for(plan.question, at_once=at_once).guarantee()
    if plan.correlation is not None:
        found = found.requiring(Condition(Assumption.COVARIATE))
    return found if privacy is None else found.requiring(within(privacy.range))


def assumptions(plan: Plan) -> tuple[str, ...]:
    """Return what has to be true for the error probability and the numbers of a plan to hold."""
    also: dict[ConditionKind, str] = {
        Assumption.LIKE_DRAWS: " (a table of given clients, model “exact”, is judged by half the"
        " range of their means instead, which takes more of them)",
        Assumption.IN_RANGE: " (others are clipped, and the answer is about clipped ones)",
    }
    # Whom the answer is for is said with the guarantee, and is no condition.
    return tuple(
        one.words + also.get(one.kind, "")
        for one in guarantee(plan).conditions
        if one.kind is not Assumption.ALL_CLIENTS
    )


def in_short(plan: Plan) -> str:
    """Return what to run and what to expect of it, or why nothing is, in a few short sentences."""
    best, found = plan.suggested, guarantee(plan)
    if best is None:
        return refusal(plan)
    joining = "all clients from the start"
    if best.admissions is not None:
        joining = f"g(p) = {best.admissions} new clients in phase p"
    clients, phases = counted(best.clients.mean, "client"), counted(best.phases.mean, "phase")
    return (
        f"Run {best.algorithm} with f(p) = {best.pulls} pulls of each arm and {joining}."
        f" Expect {clients}, {phases} and a regret of {rounded(best.regret.mean)}."
        f" It {found.claim}, under the conditions below. The answer is for {found.whom}."
    )


def answer(plan: Plan) -> list[str]:
    """Return the plan in plain words, one paragraph per item."""
    return [
        _asked(plan.question),
        *([] if plan.pilot is None else [_pilot(plan.question, plan.pilot)]),
        *reach(plan),
        *_tie(plan),
        *_covariate(plan),
        *_privacy(plan),
        *_advice(plan),
    ]


def _asked(question: Question) -> str:
    n, delta, horizon = question.population, question.delta, question.horizon
    who = "all clients there might be" if n is None else all_of(n)
    slots = "" if horizon is None else f" within {horizon:,} slots"
    error = f"{delta:g}" if delta >= 1e-4 else f"1 in {1 / delta:,.0f}"
    others = "all others (the hardest case)" if question.least_favourable else "the next"
    return (
        f"The question: which of {question.n_arms} arms is best for {who}{slots}, with an error"
        f" probability of at most {error}? The best is {question.gap:.4g} above {others}."
    )


def _pilot(question: Question, pilot: Pilot) -> str:
    noise, spread = (
        f"{found.estimate:.4g} ({found.low:.4g} to {found.high:.4g})"
        for found in (pilot.noise, pilot.spread)
    )
    unseen = " No spread is visible, which is no proof that there is none."
    return (
        f"The pilot data ({counted(pilot.observations, 'observation')} of"
        f" {counted(pilot.arms, 'arm')} by {counted(pilot.clients, 'client')}) give noise {noise}"
        f" and spread {spread}, with 95 % intervals.{'' if pilot.spread.estimate else unseen} The"
        f" plan uses noise {question.noise:.4g} and spread {question.spread:.4g}: the upper ends,"
        " unless you gave a value yourself."
    )


def reach(plan: Plan) -> list[str]:
    """Return whether the gap is within reach, for everyone and for the given clients."""
    found, n = plan.feasibility, plan.question.population
    if found.clients_unlimited is None:
        return []  # the horizon holds no pull of every arm, or rounding is too coarse: said below
    often = "very often"
    honest = " and nobody may lie" if plan.question.liars else ""
    if found.pulls is not None:
        slots = f"{plan.question.horizon:,} slots"
        often = f"every arm {counted(found.pulls, 'time')}, which is what {slots} allow"
    everyone = (
        f"For an unlimited population, about {counted(found.clients_unlimited, 'client')} decide in"
        f" one look with a probability of {share(POWER)}, if each pulls {often}{honest}"
    )
    if n is None:
        return [f"{everyone}. If the number of clients is limited, say how many there are."]
    if found.within_reach:
        everyone += (
            f"; {all_of(n)} would with {share(found.chance_unlimited or 0.0)}. To plan for that,"
            " leave out the number of clients."
        )
    else:
        everyone += (
            f". That is out of reach: {rounded(found.clients_unlimited / n)} times as many as there"
            f" are. A gap of {found.gap_unlimited:.3g} is within reach of {all_of(n)}."
        )
    few = found.clients_finite
    if few is None or n == 1:
        return [everyone]
    nearly = ", nearly all of them" if found.needs_nearly_all(n) and few < n else ""
    these = f"For these {n:,} clients alone, about {few:,} ({share(few / n)}{nearly}) are enough."
    return [everyone, these]


def _tie(plan: Plan) -> list[str]:
    """Return what can be done about a gap that is small against the spread."""
    question, found = plan.question, plan.feasibility
    needed = found.clients_unlimited
    if question.population is not None or needed is None:
        return []
    if question.gap >= _NEARLY_TIED * question.spread:
        return []
    margin, everyone = 2 * question.gap, Detector.of(question, population=None)
    fewer = everyone.fewest_clients(margin, found.pulls or math.inf)
    if fewer is None:
        return []
    return [
        f"This is nearly a tie: the gap is {share(question.gap / question.spread)} of the spread."
        f" A gap of {margin:.3g} takes about {counted(fewer, 'client')} instead of"
        f" {rounded(needed)}. If such a difference does not matter, plan for that gap and set"
        f" epsilon = {margin:.3g}: with the same error probability the chosen arm is worse by no"
        f" more than that. With a cap of max_clients = {fewer:,} and no epsilon, smaller gaps stay"
        " undecided; if the arm that looks best is then played on (release = true for fed-index),"
        f" that costs at most {question.gap:.3g} per pull."
    ]


def _privacy(plan: Plan) -> list[str]:
    """Return what the policy is, what it costs, and what the simulated games leave out.

    There is nothing to say without a policy.
    """
    privacy, bare = plan.question.privacy, plan.unprotected
    if privacy is None or bare is None:
        return []
    suggested = plan.suggested, bare.suggested
    return [
        f"Privacy: {protection_words(privacy)}.",
        *_cost("What it costs, the best schedule with it against the best without", *suggested),
        *_cost("Your schedule with it against the same without", plan.yours, bare.yours),
        _left_out(plan.question, privacy),
    ]


def trial_keys(plan: Plan) -> str:
    """Return what a trial's file says if outcomes are adjusted by a covariate."""
    noise, spread = plan.question.noise, plan.question.spread
    return (
        f"assume = {{ noise = {noise}, spread = {spread} }}\n"
        'covariate = { name = "…", range = [low, high], coefficient = "history" }'
    )


def _covariate(plan: Plan) -> list[str]:
    """Return what a covariate gains, and how a trial uses it; nothing if there is none."""
    bare, noise = plan.unadjusted, plan.question.noise
    if plan.correlation is None or bare is None:
        return []
    gained = "What it gains, the best schedule with it against the best without"
    found = _cost(gained, plan.suggested, bare.suggested, _GAINS)
    if plan.suggested is not None and bare.suggested is None:
        found = ["Without it no schedule is feasible."]
    return [
        f"Covariate: a correlation of {plan.correlation:g} with the outcome, within options, leaves"
        f" {share(1 - plan.correlation**2)} of the variance. Adjusted outcomes have a noise of"
        f" {noise:.4g} instead of {bare.question.noise:.4g}.",
        *found,
        *_cost("Your schedule with it against the same without", plan.yours, bare.yours, _GAINS),
        "A trial adjusts outcomes if its file has the key covariate; assume.noise is then the noise"
        " of adjusted outcomes.",
    ]


def _cost(
    what: str,
    protected: Outlook | None,
    free: Outlook | None,
    counted_in: Mapping[str, str] = _COSTS,
) -> list[str]:
    """Return what a schedule comes to with something and without it, if there is one."""
    if free is None:
        return []
    if protected is None:
        return [
            f"Without it the comparison is feasible, with {counted(free.clients.mean, 'client')}"
            f" and a regret of {rounded(free.regret.mean)}."
        ]
    if protected.decided == 0 < free.decided:
        games = f"{protected.replications:,} games"
        return [f"Your schedule decides none of {games} with it, and {free.decided:,} without."]
    parts = []
    for words, name in counted_in.items():
        one, two = (rounded(getattr(outlook, name).mean) for outlook in (protected, free))
        if one != two:
            parts.append(f"{words.format(one)} instead of {two}")
    regret = f"{changed(protected.regret.mean, free.regret.mean)} regret"
    return [f"{what}: {listed(parts or ['nothing'])} ({regret})."]


def _left_out(question: Question, privacy: Privacy) -> str:
    """Return what the simulated games leave out."""
    low, high = privacy.range
    said = f"In the simulated games nothing is clipped to [{low:g}, {high:g}]."
    if privacy.noise != "gaussian":
        errors = "laplace noise" if privacy.noise else "rounding"
        said += (
            f" The errors of {errors} are drawn from normal laws of the same variance, which is an"
            " approximation; widths are exact."
        )
    if question.noise > privacy.length / 2:
        said += (
            f" Outcomes in this range have a noise of at most {privacy.length / 2:g}, but"
            f" {question.noise:g} was given: give a smaller noise or a wider range."
        )
    return said


def refusal(plan: Plan) -> str:
    """Return why nothing is suggested, and what would help."""
    because = hidden(plan.question)
    if because is not None:
        return f"Not feasible: {because}."
    because = _too_coarse(plan) or _no_room(plan) or _too_noisy(plan) or _too_many(plan)
    return f"Not feasible: {because or _undecided_by_all(plan.question)}"


def _too_coarse(plan: Plan) -> str | None:
    """Return why nearest rounding never decides, if it is coarser than the gap."""
    privacy, gap = plan.question.privacy, plan.question.gap
    if privacy is None or (privacy.coarsest_step or 0.0) < gap:
        return None
    bits = math.floor(math.log2(1.0 + privacy.length / gap)) + 1
    return (
        f"means are rounded to the nearest of steps of {privacy.coarsest_step:.3g}, and the gap is"
        f" {gap:.3g}. Such errors never average out, with any number of clients. Use at least"
        f' {bits} bits, and more to be fast, or rounding = "stochastic".'
    )


def _no_room(plan: Plan) -> str | None:
    """Return that the horizon is too short, if it is."""
    found, question, n = plan.feasibility, plan.question, plan.question.population
    if question.horizon is None or found.fits:
        return None
    if question.most_pulls < question.fewest_pulls:
        few = f"{counted(question.fewest_pulls, 'pull')} of each of {question.n_arms} arms"
        return f"{question.horizon:,} slots do not even hold {few}. Raise the horizon."
    if found.pulls_of_all is None or n is None:
        return None
    content = "" if found.gap_finite is None else f", or accept a gap of {found.gap_finite:.3g}"
    return (
        f"even {all_of(n)} would need about {counted(found.pulls_of_all, 'pull')} of each arm,"
        f" {counted(found.pulls_of_all * question.n_arms, 'slot')}, and there are"
        f" {question.horizon:,}. Raise the horizon{content}."
    )


def _too_noisy(plan: Plan) -> str | None:
    """Return why so few clients cannot average out their noise, if they cannot."""
    question, found = plan.question, plan.feasibility
    privacy, n = question.privacy, question.population
    if privacy is None or privacy.noise is None or n is None or found.clients_finite is not None:
        return None
    error = release_error(privacy, found.pulls or math.inf, question.n_arms)
    often = "however often it pulls"
    if found.pulls is not None:
        often = f"with {counted(found.pulls, 'pull')} of each arm"
    needed = "No number of clients is enough."
    if found.all_needed is not None:
        needed = f"About {counted(found.all_needed, 'client')} are enough, if all of them play."
    return (
        "the noise that protects each mean of a client has a standard deviation of"
        f" {math.sqrt(float(error.variance)):.3g}, {often}; the gap is {question.gap:.3g}."
        f" {counted(n, 'client')} cannot average that out within"
        f" {counted(privacy.releases, 'release') if privacy.releases else 'the horizon'}: a gap of"
        f" {found.gap_finite:.3g} is the smallest that they detect in one look with a probability"
        f" of {share(POWER)}. {needed}"
    )


def _too_many(plan: Plan) -> str | None:
    """Return that it takes more clients than a plan considers, if it does."""
    needed = plan.feasibility.clients_unlimited
    if plan.question.population is not None or needed is None or needed <= MOST_CLIENTS:
        return None
    less = "" if plan.question.privacy is None else ", or for less privacy"
    return (
        f"it takes about {counted(needed, 'client')}, and a plan considers {MOST_CLIENTS:,} at"
        f" most. Ask for a larger gap{less}."
    )


def _undecided_by_all(question: Question) -> str:
    """Return that no schedule decides often enough, and what would help."""
    decides = f"none of the schedules considered decides {share(1 - MOST_UNDECIDED)} of games"
    if question.liars:
        return (
            f"{decides} with up to {counted(question.most_clients, 'client')}, whatever liars send."
            " Allow for fewer liars, or ask for a larger gap."
        )
    if question.most_releases is None:
        return f"{decides}. Ask for a larger gap, a larger error probability, or more time."
    return (
        f"the clients' privacy budget ends after {counted(question.most_releases, 'release')}, and"
        f" {decides} by then. Allow more releases or a larger budget, or ask for a larger gap."
    )


def _advice(plan: Plan) -> list[str]:
    question, index, best = plan.question, plan.index, plan.suggested
    if best is None:
        yours = [] if plan.yours is None else [_compared(question, "yours", plan.yours)]
        return [*yours, refusal(plan)]
    until = "until the decision" if question.horizon is None else "in all"
    delta = f"{question.delta:g}" if question.horizon is None else '"1/T"'
    longer = "" if best.weights == "equal" else ' (the default, "equal", takes longer)'
    averaged = f'weights = "{best.weights}"{longer}'
    if question.liars:
        averaged = f"liars = {question.liars:g}, none of whom lies in the simulated games"
    clients = "all clients from the start"
    if best.admissions is not None:
        clients = f"g(p) = {best.admissions} (new clients in phase p)"
    said = [
        f"Run {best.algorithm} with the certified radius, f(p) = {best.pulls} (pulls of each arm in"
        f" play by a client in phase p) and {clients}.",
        f"Expected regret {until}: {rounded(best.regret.mean)}"
        f" (± {rounded(NORMAL_95 * best.regret.stderr)} from simulating it), of which"
        f" {rounded(best.communication.mean)} for communication, with"
        f" {counted(best.clients.mean, 'client')} in {counted(best.phases.mean, 'phase')}."
        f" {_failures(question, best)} {counted(len(plan.searched.tried), 'schedule')} were tried"
        " to find this one.",
        *_beside_bound(plan, best),
        f"This is for delta = {delta}, {averaged}, and a rule that is told"
        f" noise {question.noise:.4g} and spread {question.spread:.4g}.",
        *(_compared(question, name, one, best) for name, one in columns(plan) if name in _COMPARED),
    ]
    if index is not None:
        regret = changed(index.regret.mean, best.regret.mean)
        said.append(
            f"An index rule, fed-index with its defaults, has {regret} regret. Its guarantee:"
            f" {index.guarantee}."
        )
    return said


def least_regret(plan: Plan) -> float | None:
    """Return what the lower bound comes to for the game of a plan; None if none is proven."""
    question = plan.question
    least = lower_bound_of(question.problem(), question.communication_cost)
    if isinstance(least, str):
        return None
    if question.horizon is None:
        return least.until_decision(question.delta) or None
    return least.at(question.horizon)


def _beside_bound(plan: Plan, best: Outlook) -> list[str]:
    least = least_regret(plan)
    if least is None:
        return []
    times = f"That is {rounded(best.regret.mean / least)} times the lower bound."
    normal = "if outcomes and clients' means are normal with exactly this noise and spread"
    if plan.question.horizon is None:
        return [
            f"{times} Every rule with this error probability pays at least {rounded(least)} until"
            f" its decision, {normal}."
        ]
    return [
        f"{times} In the limit every consistent rule pays at least its slope times log T, {normal}:"
        f" here {rounded(least)}, which is a yardstick at a finite T."
    ]


def _given_up(question: Question) -> str:
    """Return after what games without a horizon are called undecided."""
    many = f" or {counted(question.most_clients, 'client')}" if question.liars else ""
    return f"{LAST_PHASE} phases{many}"


def _failures(question: Question, outlook: Outlook) -> str:
    """Return how games failed, and which of them the numbers leave out."""
    wrong, undecided = (
        f"{round(rate * outlook.replications):,}" if rate else "none"
        for rate in (outlook.wrong_rate, outlook.undecided_rate)
    )
    said = (
        f"Of {outlook.replications:,} simulated games {wrong} ended with a wrong arm and"
        f" {undecided} ended undecided."
    )
    if not outlook.cut:
        return said
    when = f"within {_given_up(question)}"
    if outlook.spent_rate > 0:
        when = "before the privacy budget was spent"
    if outlook.decided == 0:
        return f"{said} None was decided {when}; the numbers are what they came to until then."
    return f"{said} The numbers are of the {outlook.decided:,} that were decided {when}."


def _compared(question: Question, name: str, other: Outlook, best: Outlook | None = None) -> str:
    """Return what to expect of another schedule, compared with the best if there is one."""
    regret = "" if best is None else f", {changed(other.regret.mean, best.regret.mean)}"
    said = f"{_COMPARED[name]} has an expected regret of {rounded(other.regret.mean)}{regret}."
    return f"{said} {_failures(question, other)}" if other.cut else said


def columns(plan: Plan) -> list[tuple[str, Outlook]]:
    """Return the schedules of a plan and what they are called."""
    bare = plan.unprotected
    found = [
        ("suggested", plan.suggested),
        ("without privacy", None if bare is None else bare.suggested),
        *(("best gradual" if one.admissions else "best at once", one) for one in plan.others),
        ("yours", plan.yours),
        ("yours without privacy", None if bare is None else bare.yours),
    ]
    return [(name, outlook) for name, outlook in found if outlook is not None]


def shown_plan(plan: Plan) -> Shown:
    """Return the numbers: means, and in brackets where nine of ten games end.

    There is one row per quantity and one column per schedule.
    """
    shown: list[tuple[str, Simulated]] = [*columns(plan)]
    spent = any(outlook.spent_rate for _, outlook in columns(plan))
    if plan.index is not None:
        shown.append(("index rule", plan.index))
    rows = [[words, *(_cell(one, name) for _, one in shown)] for words, name in _ROWS.items()]
    least = least_regret(plan)
    if least is not None:
        times = [rounded(one.regret.mean / least) for _, one in shown]
        rows.insert(list(_ROWS).index("total regret") + 2, [f"  {TIMES}", *times])
    if not spent:
        rows.pop()
        if plan.question.horizon is None:
            rows[-1][0] += f" after {_given_up(plan.question)}"
    headings = ["", *(name for name, _ in shown)]
    return Shown(name="Expected, and in nine of ten games", headings=headings, rows=rows)


def schedules_table(plan: Plan) -> Table:
    """Return the same numbers as columns, one row per schedule; None of what an index rule lacks.

    A quantity has four columns: its mean, the standard error, and where nine of ten games lie.
    """
    rows: dict[str, Simulated] = dict(columns(plan))
    if plan.index is not None:
        rows["index rule"] = plan.index
    table: Table = {"schedule": list(rows)}
    for name in _ROWS.values():
        values = [getattr(one, name, None) for one in rows.values()]
        if not any(isinstance(value, Expected) for value in values):
            table[name] = values
            continue
        for part in ("mean", "stderr", "low", "high"):
            table[f"{name}_{part}"] = [getattr(value, part, None) for value in values]
    return table


def _cell(outlook: Simulated, name: str) -> str:
    value = getattr(outlook, name, "–")
    if value is None:
        return "all at once" if name == "admissions" else "–"
    if isinstance(value, Expected):
        return f"{rounded(value.mean)} ({between(value)})"
    return value if isinstance(value, str) else share(value)


def conditions(plan: Plan) -> str:
    """Return what is proven and when that and the numbers hold, in a few sentences."""
    found = guarantee(plan)
    return (
        f"Guarantee: {found.claim}; the answer is for {found.whom}. This holds if"
        f" {'; '.join(assumptions(plan))}."
    )
