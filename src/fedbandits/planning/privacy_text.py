"""What a privacy policy costs, in plain words."""

from __future__ import annotations

from fedbandits.experiments.protection import protection_words
from fedbandits.experiments.wording import listed
from fedbandits.planning.outlook import Outlook
from fedbandits.planning.plan import Plan
from fedbandits.planning.question import Question
from fedbandits.planning.wording import changed, counted, rounded
from fedbandits.privacy.policy import Privacy


def privacy_paragraphs(plan: Plan) -> list[str]:
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
