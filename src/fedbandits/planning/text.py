"""The plan in plain words, and its numbers as a table for a terminal."""

from __future__ import annotations

import math
from collections.abc import Callable

from fedbandits.experiments.protection import protection_words
from fedbandits.experiments.wording import listed, share
from fedbandits.planning.candidates import rule_for
from fedbandits.planning.detection import POWER
from fedbandits.planning.outlook import LAST_PHASE, Expected, IndexOutlook, Outlook, Simulated
from fedbandits.planning.pilot import Pilot
from fedbandits.planning.plan import Plan
from fedbandits.planning.protection import release_error
from fedbandits.planning.question import MOST_CLIENTS, Question
from fedbandits.planning.search import MOST_UNDECIDED
from fedbandits.planning.wording import all_of, between, changed, counted, rounded
from fedbandits.privacy.policy import Privacy
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
    # Whom the answer is for is said with the guarantee, and is no condition.
    return tuple(
        one.words + also.get(one.kind, "")
        for one in guarantee(plan).conditions
        if one.kind is not Assumption.ALL_CLIENTS
    )


def answer(plan: Plan) -> list[str]:
    """Return the plan in plain words, one paragraph per item."""
    return [
        _asked(plan.question),
        *([] if plan.pilot is None else [_pilot(plan.question, plan.pilot)]),
        *_reach(plan),
        *_privacy(plan),
        *(_no_advice(plan) if plan.suggested is None else _advice(plan, plan.suggested)),
    ]


def _asked(question: Question) -> str:
    n, delta = question.population, question.delta
    who = "all clients there might be" if n is None else _clients(n)
    error = f"{delta:g}" if delta >= 1e-4 else f"1 in {1 / delta:,.0f}"
    hardest = ", and all others are exactly that much worse (the hardest case)"
    return (
        f"The question: which of {question.n_arms} arms is best over {who}{_within(question)}, with"
        f" an error probability of at most {error}? The best is {question.gap:.4g} above the"
        f" next{hardest if question.least_favourable else ''}."
    )


def _pilot(question: Question, pilot: Pilot) -> str:
    noise, spread = (
        f"{found.estimate:.4g} ({found.low:.4g} to {found.high:.4g})"
        for found in (pilot.noise, pilot.spread)
    )
    unseen = (
        " No spread is visible, which is no proof that there is none: one of"
        f" {pilot.spread.high:.4g} might still have gone unseen."
    )
    return (
        f"The pilot data ({counted(pilot.observations, 'observation')} of"
        f" {counted(pilot.arms, 'arm')} by {counted(pilot.clients, 'client')}) give noise {noise}"
        f" and spread {spread}, with 95 % intervals.{'' if pilot.spread.estimate else unseen} These"
        f" are estimates; the plan uses noise {question.noise:.4g} and spread"
        f" {question.spread:.4g}: the upper ends, unless you gave a value yourself."
    )


def _clients(n: int) -> str:
    return f"{n:,} client{'' if n == 1 else 's'}"


def _within(question: Question) -> str:
    return "" if question.horizon is None else f" within {question.horizon:,} slots"


def _reach(plan: Plan) -> list[str]:
    """Return whether the gap is within reach, for everyone and for the given clients."""
    found, question, n = plan.feasibility, plan.question, plan.question.population
    if found.clients_unlimited is None:
        return []  # the horizon holds no pull of every arm, or rounding is too coarse: said below
    least = counted(found.clients_unlimited, "client")
    look = f"in one look with a probability of {share(POWER)}"
    often = "if each pulls very often"
    if found.pulls is not None:
        often = (
            f"if each pulls every arm {counted(found.pulls, 'time')}, which is what"
            f" {question.horizon:,} slots allow"
        )
    if n is None:
        return [
            f"It takes about {least} to decide {look}, {often}. If the number of clients is"
            " limited, say how many there are."
        ]
    these = "this one" if n == 1 else f"these {n:,}"
    beyond = f"For clients beyond {these} (an unlimited population)"
    if found.within_reach:
        beyond += (
            f" about {least} decide {look}, {often}; all {n:,} do with"
            f" {share(found.chance_unlimited or 0.0)}. To plan for that, leave out the number of"
            " clients."
        )
    else:
        beyond += (
            f" the answer is out of reach: to decide {look} would take about {least}, {often},"
            f" {rounded(found.clients_unlimited / n)} times as many as there are."
            f" A gap of {found.gap_unlimited:.3g} is within reach of {all_of(n)}."
        )
    few = found.clients_finite
    if few is None or n == 1:
        return [beyond]
    nearly = ", nearly all of them" if found.needs_nearly_all(n) and few < n else ""
    return [
        beyond,
        f"For these {n:,} clients alone about {few:,} of them ({share(few / n)}{nearly}) are enough"
        f" to decide {look}, {often}.",
    ]


def _privacy(plan: Plan) -> list[str]:
    """Return what the policy is, what it costs, and how far the simulation can be trusted.

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


def _cost(what: str, protected: Outlook | None, free: Outlook | None) -> list[str]:
    """Return what a schedule comes to with the policy and without it, if there is one."""
    if free is None:
        return []
    if protected is None:
        return [
            f"Without it the comparison is feasible, with {counted(free.clients.mean, 'client')}"
            f" and a regret of {rounded(free.regret.mean)}."
        ]
    if protected.decided == 0 < free.decided:
        return [
            f"Your schedule decides none of {protected.replications:,} games with it, and"
            f" {free.decided:,} without."
        ]
    parts = [
        f"{rounded(one.mean)} {unit} instead of {rounded(other.mean)}"
        for unit, one, other in (
            ("clients", protected.clients, free.clients),
            ("phases", protected.phases, free.phases),
            ("uplink bits per client", protected.uplink_bits, free.uplink_bits),
        )
        if rounded(one.mean) != rounded(other.mean)
    ]
    with_it, without = protected.regret.mean, free.regret.mean
    regret = f"a regret of {rounded(with_it)} instead of {rounded(without)}"
    return [f"{what}: {listed([*parts, regret])} ({changed(with_it, without)})."]


def _left_out(question: Question, privacy: Privacy) -> str:
    """Return what the simulated games leave out."""
    low, high = privacy.range
    said = (
        f"In the simulated games nothing is clipped: outcomes are taken to lie in [{low:g},"
        f" {high:g}], with the noise and spread that were given."
    )
    if privacy.noise != "gaussian":
        said += (
            f" The errors of {'laplace noise' if privacy.noise else 'rounding'} are drawn from"
            " normal laws of the same variance, which is an approximation; widths allow for them"
            " as they are."
        )
    if question.noise > privacy.length / 2:
        said += (
            f" Outcomes in this range have a noise of at most {privacy.length / 2:g}, but"
            f" {question.noise:g} was given: give a smaller noise or a wider range."
        )
    return said


def _no_advice(plan: Plan) -> list[str]:
    because = _too_coarse(plan) or _no_room(plan) or _too_noisy(plan) or _too_many(plan)
    refusal = f"Not feasible: {because or _undecided_by_all(plan.question)}"
    return [refusal] if plan.yours is None else [_compared("Yours", plan.yours), refusal]


def _too_coarse(plan: Plan) -> str | None:
    """Return why nearest rounding never decides, if it is coarser than the gap."""
    privacy, gap = plan.question.privacy, plan.question.gap
    step = None if privacy is None else privacy.coarsest_step
    if privacy is None or step is None or step < gap:
        return None
    bits = math.floor(math.log2(1.0 + privacy.length / gap)) + 1
    return (
        f"means are rounded to the nearest of steps of {step:.3g}, and the gap is {gap:.3g}. Such"
        " errors never average out, so two arms this close are never told apart, with any number of"
        f" clients. It takes at least {bits} bits, and more of them to be fast; or rounding ="
        ' "stochastic", which is right on average and takes as few as you like.'
    )


def _no_room(plan: Plan) -> str | None:
    """Return that the horizon is too short, if it is."""
    found, question, n = plan.feasibility, plan.question, plan.question.population
    if question.horizon is None or found.fits:
        return None
    if question.most_pulls < question.fewest_pulls:
        return (
            f"{question.horizon:,} slots do not even hold"
            f" {counted(question.fewest_pulls, 'pull')} of each of"
            f" {counted(question.n_arms, 'arm')}. Raise the horizon."
        )
    if found.pulls_of_all is None or n is None:
        return None
    content = "" if found.gap_finite is None else f", or accept a gap of {found.gap_finite:.3g}"
    return (
        f"even {all_of(n)} {'needs' if n == 1 else 'need'} about"
        f" {counted(found.pulls_of_all, 'pull')} of each arm,"
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
    often, needed = "however often it pulls", "No number of clients is enough."
    if found.pulls is not None:
        often = f"with the {counted(found.pulls, 'pull')} of each arm that the horizon holds"
    if found.all_needed is not None:
        needed = f"About {counted(found.all_needed, 'client')} are enough, if all of them play."
    return (
        "the noise that protects a client's means has a standard deviation of"
        f" {math.sqrt(float(error.variance)):.3g} in each, {often}; the gap is {question.gap:.3g}."
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
        f"it takes about {counted(needed, 'client')}, and a plan considers"
        f" {_clients(MOST_CLIENTS)} at most. Ask for a larger gap{less}."
    )


def _undecided_by_all(question: Question) -> str:
    """Return that no schedule decides often enough, and what would help."""
    decides = f"none of the schedules considered decides {share(1 - MOST_UNDECIDED)} of games"
    if question.most_releases is not None:
        return (
            f"the clients' privacy budget ends after {counted(question.most_releases, 'release')},"
            f" and {decides} by then. Allow more releases or a larger budget, or ask for a larger"
            " gap."
        )
    return (
        f"{decides} with up to {_clients(question.most_clients)}{_within(question)}."
        " Ask for a larger gap, a larger error probability, or more time."
    )


def _advice(plan: Plan, outlook: Outlook) -> list[str]:
    until = "until the decision" if plan.question.horizon is None else "in all"
    said = [
        f"Run {outlook.algorithm} with the certified radius and {_schedules(outlook)}.",
        f"Expect {counted(outlook.clients.mean, 'client')}, "
        f"{counted(outlook.phases.mean, 'phase')}, "
        f"{counted(outlook.pulls_of_arm.mean, 'pull')} of an arm by a client, "
        f"{counted(outlook.pulls_in_all.mean, 'pull')} in all and "
        f"{counted(outlook.reports.mean, 'report')} to the server. In nine of ten runs "
        f"{between(outlook.clients, 'client')} and {between(outlook.phases, 'phase')} are enough.",
        f"Expected regret {until}: {rounded(outlook.regret.mean)} "
        f"(± {rounded(NORMAL_95 * outlook.regret.stderr)} from simulating it), "
        f"of which {rounded(outlook.communication.mean)} for communication; nine of ten runs come "
        f"to {between(outlook.regret)}.",
        _rule(plan.question, outlook),
        f"Of {outlook.replications:,} simulated games {_failures(outlook)}.{_cut(outlook)} "
        f"{counted(len(plan.searched.tried), 'schedule')} were tried to find this one.",
    ]
    for other in plan.others:
        name = "all clients at once" if other.admissions is None else "gradual admission"
        said.append(_compared(f"The best with {name}", other, outlook))
    if plan.yours is not None:
        said.append(_compared("Yours", plan.yours, outlook))
    if plan.index is not None:
        said.append(_index_rule(plan.index, outlook))
    return said


def _index_rule(index: IndexOutlook, best: Outlook) -> str:
    """Return what to expect of an index rule, and what it guarantees."""
    return (
        f"An index rule, fed-index with its defaults, has an expected regret of"
        f" {rounded(index.regret.mean)}, {changed(index.regret.mean, best.regret.mean)}, with"
        f" {counted(index.clients.mean, 'client')} in {counted(index.phases.mean, 'phase')}; of"
        f" {index.replications:,} simulated games {_games(index.wrong_rate, index)} committed to a"
        f" wrong arm, and {index.undecided_rate:.0%} played to the end without committing. Its"
        f" guarantee: {index.guarantee}."
    )


def _rule(question: Question, outlook: Outlook) -> str:
    """Return the settings behind the numbers, apart from the schedules."""
    delta = f"{question.delta:g}" if question.horizon is None else '"1/T"'
    uneven = (
        " These weights count a client more if more is known of it; with the default weights,"
        ' "equal", it takes longer.'
    )
    return (
        f'These numbers are for delta = {delta}, weights = "{outlook.weights}" and a rule that is'
        f" told noise {question.noise:.4g} and spread {question.spread:.4g}."
        f"{'' if outlook.weights == 'equal' else uneven}"
    )


def _cut(outlook: Outlook) -> str:
    """Return which games the numbers leave out, if there are any."""
    if not outlook.cut:
        return ""
    within = f"within {LAST_PHASE} phases"
    if outlook.spent_rate > 0:
        within = "before the privacy budget was spent"
    if outlook.decided == 0:
        return f" None was decided {within}; the numbers are what they came to until then."
    others = outlook.replications - outlook.decided
    return (
        f" The numbers are of the {outlook.decided:,} that were decided {within}; the other"
        f" {'one is' if others == 1 else f'{others:,} are'} left out."
    )


def _schedules(outlook: Outlook) -> str:
    clients = "all clients from the start"
    if outlook.admissions is not None:
        clients = f"g(p) = {outlook.admissions} (new clients in phase p)"
    pulls = "pulls of each arm in play, by every client, in phase p"
    return f"f(p) = {outlook.pulls} ({pulls}) and {clients}"


def _games(rate: float, found: Simulated) -> str:
    """Return how many of the simulated games this is."""
    return f"{round(rate * found.replications):,}" if rate else "none"


def _failures(outlook: Outlook) -> str:
    return (
        f"{_games(outlook.wrong_rate, outlook)} ended with a wrong arm and"
        f" {_games(outlook.undecided_rate, outlook)} ended undecided"
    )


def _compared(name: str, other: Outlook, best: Outlook | None = None) -> str:
    """Return what to expect of another schedule, compared with the best if there is one."""
    regret = rounded(other.regret.mean)
    if best is not None:
        regret += f", {changed(other.regret.mean, best.regret.mean)}"
    said = f"{name}, {_schedules(other)}, has an expected regret of {regret}."
    if not other.cut:
        return said
    return f"{said} Of its {other.replications:,} games {_failures(other)}.{_cut(other)}"


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
    shown = columns(plan)
    spent = any(outlook.spent_rate for _, outlook in shown)
    until = "" if spent or plan.question.horizon is not None else f" after {LAST_PHASE} phases"
    rows: list[tuple[str, Callable[[Outlook], str]]] = [
        ("algorithm", lambda o: o.algorithm),
        ("pulls f(p)", lambda o: o.pulls),
        ("new clients g(p)", lambda o: o.admissions or "all at once"),
        ("radius", lambda _: "certified"),
        ("delta", lambda _: f"{plan.question.delta:.3g}"),
        ("weights", lambda o: o.weights),
        ("clients", lambda o: _cell(o.clients)),
        ("phases", lambda o: _cell(o.phases)),
        ("slots until the decision", lambda o: "–" if o.slots is None else _cell(o.slots)),
        ("pulls of an arm by a client", lambda o: _cell(o.pulls_of_arm)),
        ("pulls in all", lambda o: _cell(o.pulls_in_all)),
        ("reports to the server", lambda o: _cell(o.reports)),
        ("uplink bits per client", lambda o: _cell(o.uplink_bits)),
        ("total regret", lambda o: _cell(o.regret)),
        ("  exploration", lambda o: _cell(o.exploration)),
        ("  communication", lambda o: _cell(o.communication)),
        ("wrong arm", lambda o: share(o.wrong_rate)),
        (f"undecided{until}", lambda o: share(o.undecided_rate)),
    ]
    if spent:
        rows.append(("privacy budget spent", lambda o: share(o.spent_rate)))
    return Shown(
        name="Expected, and in nine of ten games",
        headings=["", *(name for name, _ in shown)],
        rows=[[name, *(of(outlook) for _, outlook in shown)] for name, of in rows],
    )


def _cell(expected: Expected) -> str:
    return f"{rounded(expected.mean)} ({between(expected)})"


def conditions(plan: Plan) -> str:
    """Return what is proven and when that and the numbers hold, in a few sentences."""
    found = guarantee(plan)
    return (
        f"Guarantee: {found.claim}; the answer is for {found.whom}. This holds if"
        f" {'; '.join(assumptions(plan))}."
    )
