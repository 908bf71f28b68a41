"""What a privacy policy costs, and why it may ask for too much, in plain words."""

from __future__ import annotations

import math

from fedbandits.experiments.protection import protection_words
from fedbandits.experiments.wording import listed, share
from fedbandits.planning.detection import POWER
from fedbandits.planning.outlook import Outlook
from fedbandits.planning.plan import Plan
from fedbandits.planning.protection import release_error
from fedbandits.planning.question import Question
from fedbandits.planning.wording import changed, counted, rounded
from fedbandits.privacy.policy import Privacy


def privacy_paragraphs(plan: Plan, privacy: Privacy) -> list[str]:
    """Return what the policy is, what it costs, and how far the simulation can be trusted."""
    said = [f"Privacy: {protection_words(privacy)}.", *_cost(plan)]
    return [*said, f"{stand_in(plan.question, privacy)}."]


def _cost(plan: Plan) -> list[str]:
    bare = plan.unprotected
    if bare is None:
        return []
    said = []
    if plan.suggested is not None and bare.suggested is not None:
        compared = _compared(plan.suggested, bare.suggested)
        said.append(
            f"What it costs, the best schedule with it against the best without: {compared}."
        )
    elif bare.suggested is not None:
        said.append(
            f"Without it the comparison is feasible, with"
            f" {counted(bare.suggested.clients.mean, 'client')} and a regret of"
            f" {rounded(bare.suggested.regret.mean)}."
        )
    if plan.yours is not None and bare.yours is not None:
        said.append(f"{_of_yours(plan.yours, bare.yours)}.")
    return said


def _of_yours(protected: Outlook, free: Outlook) -> str:
    """Return what the policy costs a schedule of one's own."""
    if protected.decided == 0 < free.decided:
        return (
            f"Your schedule decides none of {protected.replications:,} games with it, and"
            f" {free.decided:,} without"
        )
    return f"Your schedule with it against the same without: {_compared(protected, free)}"


def _compared(protected: Outlook, free: Outlook) -> str:
    """Return what both schedules come to, quantity by quantity."""
    parts = []
    for what, one, other in (
        ("clients", protected.clients, free.clients),
        ("phases", protected.phases, free.phases),
        ("uplink bits per client", protected.uplink_bits, free.uplink_bits),
    ):
        parts.append(f"{rounded(one.mean)} {what} instead of {rounded(other.mean)}")
    regret = (
        f"a regret of {rounded(protected.regret.mean)} instead of {rounded(free.regret.mean)} "
        f"({changed(protected.regret.mean, free.regret.mean)})"
    )
    return listed([*parts, regret])


def stand_in(question: Question, privacy: Privacy) -> str:
    """Return what the simulated games leave out, as a sentence without its stop."""
    low, high = privacy.range
    said = (
        f"In the simulated games nothing is clipped: outcomes are taken to lie in [{low:g},"
        f" {high:g}], with the noise and spread that were given"
    )
    if privacy.noise != "gaussian":
        errors = "laplace noise" if privacy.noise else "rounding"
        said += (
            f"; the errors of {errors} are drawn from normal laws of the same variance, which is"
            " an approximation, while widths allow for them as they are"
        )
    if question.noise > privacy.length / 2:
        said += (
            f". Outcomes in this range have a noise of at most {privacy.length / 2:g}, and"
            f" {question.noise:g} was given: a smaller one, or a wider range, would be right"
        )
    return said


def too_coarse(question: Question) -> str | None:
    """Return why nearest rounding never decides, if it is coarser than the gap."""
    privacy, gap = question.privacy, question.gap
    step = None if privacy is None else privacy.coarsest_step
    if privacy is None or step is None or step < gap:
        return None
    bits = math.floor(math.log2(1.0 + privacy.length / gap)) + 1
    return (
        f"Not feasible: means are rounded to the nearest of steps of {step:.3g}, and the gap is"
        f" {gap:.3g}. Such errors never average out, so that two arms so close are never told"
        f" apart, with any number of clients. It takes at least {bits} bits, and more of them to be"
        ' fast; or rounding = "stochastic", which is right on average and takes as few as you like.'
    )


def too_noisy(plan: Plan) -> str | None:
    """Return why so few clients drown in their own noise, if all of them together do."""
    question, found = plan.question, plan.feasibility
    privacy, n = question.privacy, question.population
    if privacy is None or privacy.noise is None or n is None or found.clients_finite is not None:
        return None
    error = release_error(
        privacy, math.inf if found.pulls is None else found.pulls, question.n_arms
    )
    often = (
        "however often it pulls"
        if found.pulls is None
        else f"with the {counted(found.pulls, 'pull')} of each arm that the horizon holds"
    )
    needed = (
        "No number of clients would do."
        if found.all_needed is None
        else f"About {counted(found.all_needed, 'client')} would do, if all of them play."
    )
    return (
        f"Not feasible: the noise that protects a client's means has a standard deviation of"
        f" {math.sqrt(float(error.variance)):.3g} in each, {often}; the gap is {question.gap:.3g}."
        f" {counted(n, 'client')} cannot average that out within"
        f" {counted(privacy.releases, 'release') if privacy.releases else 'the horizon'}: a gap of"
        f" {found.gap_finite:.3g} is the smallest that they detect in one look with a probability"
        f" of {share(POWER)}. {needed}"
    )


def spent_too_early(question: Question, undecided: float) -> str:
    """Return that the budget ends before a decision, and what would help."""
    releases = question.most_releases
    return (
        f"Not feasible: the clients' privacy budget ends after"
        f" {counted(releases or 1, 'release')}, and none of the schedules considered decides"
        f" {share(1 - undecided)} of games by then. Allow more releases or a larger budget, or ask"
        " for a larger gap."
    )
