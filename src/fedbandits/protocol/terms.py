"""The terms of a run: everything about it that no event changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict, Unpack

import numpy as np

from fedbandits.errors import LARGEST, InputError, ProtocolError, check_number
from fedbandits.privacy.policy import Privacy
from fedbandits.privacy.protection import protected
from fedbandits.protocol.covariates import Covariate
from fedbandits.protocol.messages import Header, Release, arms_hash
from fedbandits.protocol.outcomes import Limits, Outside, joint_range, words_of
from fedbandits.protocol.quorum import Quorum
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.draws import PhaseDraws, SeededDraws
from fedbandits.rules.guarantees import Assumption, Guarantee, within
from fedbandits.rules.guardrails import Guardrail, settled
from fedbandits.rules.phased import PhasedRule

_MORE_AT_FIRST = (
    "none: the first phase lets in more clients (quorum.least) than the schedule of admissions, and"
    " the regret bounds are about the schedule"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a run is played by; see `fedbandits.Server` for the parameters.

    Parameters
    ----------
    rule : PhasedRule
        What decides, with weights and protection taken into account.
    arms : tuple of str
        Their names.
    header : Header
        Of the first server's messages.
    release : Release
        What clients are asked to send, before protection.
    weights : mapping from str to float, optional
        How much each client counts.
    privacy : Privacy, optional
        How clients protect their means.
    quorum : Quorum
        How many clients must report.
    quarantine_after : int, optional
        After so many invalid updates a client is ignored.
    limits : (float, float), optional
        The range that contains every outcome.
    outside : {"refuse", "clip"}
        What clients do with an outcome outside it.
    covariate : Covariate, optional
        What clients adjust outcomes by.
    draws : callable
        What a randomised rule draws, by phase.
    guardrails : tuple of Guardrail
        Second outcomes with a limit: an arm that is beyond one is withdrawn.
    """

    rule: PhasedRule
    arms: tuple[str, ...]
    header: Header
    release: Release
    weights: Mapping[str, float] | None
    privacy: Privacy | None
    quorum: Quorum
    quarantine_after: int | None
    limits: Limits | None
    outside: Outside
    covariate: Covariate | None
    draws: PhaseDraws
    guardrails: tuple[Guardrail, ...]

    @property
    def range(self) -> Limits | None:
        """The range that outcomes are declared to lie in: by the run, its rule, or its privacy.

        Of adjusted outcomes, if there is a covariate.
        """
        private, limits = None if self.privacy is None else self.privacy.range, self.limits
        if self.covariate is not None and limits is not None:
            limits = self.covariate.adjusted_range(limits)
        return joint_range((limits, self.rule.radius.limits)) or private

    @property
    def observed_range(self) -> Limits | None:
        """The range of outcomes as clients observe them, before they are adjusted."""
        return self.range if self.covariate is None else self.limits

    @property
    def clipped_range(self) -> Limits | None:
        """What clients clip outcomes to, if they do, before they adjust them."""
        adjusts = self.covariate is not None
        return self.observed_range if adjusts or self.privacy is None else self.privacy.range

    def guarantee(self) -> Guarantee:
        """Return what is proven before anything has happened: nobody is missing yet.

        Whatever a rule states of its own, the events of a run can break what every rule rests on.
        """
        found = self.rule.guarantee().requiring(*self.rule.grounds()).kept(Assumption.NO_SELECTION)
        if found.regret and self.quorum.least > int(self.rule.first_plan().newcomers):
            found = replace(found, claim="", regret=False, reason=_MORE_AT_FIRST)
        if self.covariate is not None:
            found = found.requiring(self.covariate.condition)
        kept = self.clipped_range
        if self.range is None or self.observed_range is None or kept is None:
            return found
        condition = replace(within(self.observed_range), limits=self.range)
        if self.privacy is not None or self.outside == "clip":  # clients clip by agreement
            low, high = kept
            clipped = f"what lies outside {words_of(kept)} is clipped"
            words = f"{clipped}: the answer is about clipped outcomes"
            if self.privacy is not None:
                words = f"clients protect their means as agreed, and {words}"
            own = self.rule.radius.limits
            if own is not None and not own[0] <= low < high <= own[1]:
                words = f"{within(own).words}, and {words}"
            condition = replace(condition, words=words)
        return found.without(Assumption.IN_RANGE).requiring(condition)

    def shares(self, clients: Sequence[str]) -> FloatArray | None:
        """Return the weights of these clients, if clients have weights of their own."""
        if self.weights is None or not self.rule.estimator.needs_shares:
            return None
        return np.array([self.weights[client] for client in clients], dtype=np.float64)

    def check_admitted(self, admitted: Sequence[str], wanted: int) -> None:
        """Refuse clients without a weight, and fewer than all if clients have weights."""
        if self.weights is None:
            return
        for client in admitted:
            if client not in self.weights:
                raise ProtocolError(
                    f'client "{client}" has no weight; give it one, or do not admit it'
                )
        if self.rule.estimator.needs_shares and len(admitted) < wanted:
            raise ProtocolError(
                f"{len(admitted)} clients, but {wanted} have weights; all of them must play"
            )


class TermsGiven(TypedDict, total=False):
    """What may be said of a run; see `fedbandits.Server`."""

    arms: Sequence[str] | None
    run: str
    epoch: int
    release: Release | None
    weights: Mapping[str, float] | None
    privacy: Privacy | None
    quorum: Quorum | None
    quarantine_after: int | None
    limits: Limits | None
    outside: Outside
    covariate: Covariate | None
    draws: PhaseDraws | None
    guardrails: Sequence[Guardrail]


def terms_of(rule: PhasedRule, **given: Unpack[TermsGiven]) -> Terms:
    """Return the terms of a run; refuse what contradicts itself."""
    arms, weights, privacy = given.get("arms"), given.get("weights"), given.get("privacy")
    names = [str(k) for k in range(rule.n_arms)] if arms is None else list(arms)
    if len(names) != rule.n_arms:
        raise ProtocolError(f"{len(names)} arm names for a rule of {rule.n_arms} arms")
    if weights is not None and not isinstance(weights, Mapping):
        raise InputError("weights", f'{weights!r} is not a mapping such as {{"alice": 2.0}}')
    counting = _counting(rule, weights)
    counting.check_clients()
    release = given.get("release") or Release(squares=rule.needs_squares)
    if rule.needs_squares and not release.squares:
        raise ProtocolError("the rule estimates σ from sums of squares: release them")
    if release.mechanism is not None:
        raise ProtocolError("how means are protected follows from a policy; give privacy")
    if privacy is not None and release.squares:
        raise ProtocolError("sums of squares are not protected, and means are: leave them out")
    guardrails = tuple(settled(given.get("guardrails", ())))
    if guardrails:
        why = no_guardrails(counting, privacy)
        if why is not None:
            raise ProtocolError(f"guardrails cannot be watched: {why}")
        release = replace(release, guardrails=guardrails)
    covariate = given.get("covariate")
    if covariate is not None:
        private = None if privacy is None else privacy.range
        ranges = {"radius": rule.radius.limits, "privacy": private}
        covariate.check_held_by(given.get("limits"), ranges)
    return Terms(
        rule=counting if privacy is None else protected(counting, privacy),
        arms=tuple(names),
        header=Header(
            run=given.get("run", "run"), epoch=given.get("epoch", 1), arms=arms_hash(names)
        ),
        release=release,
        weights=None if weights is None else dict(weights),
        privacy=privacy,
        quorum=given.get("quorum") or Quorum(),
        quarantine_after=given.get("quarantine_after"),
        limits=given.get("limits"),
        outside=given.get("outside", "refuse"),
        covariate=covariate,
        draws=given.get("draws") or SeededDraws(0),
        guardrails=guardrails,
    )


def no_guardrails(rule: PhasedRule, privacy: Privacy | None) -> str | None:
    """Return why no guardrail can be watched, and the way out; None if they can."""
    if privacy is not None:
        return (
            "clients protect their means, and sums of guardrails are not protected: they would"
            " reveal what the protection hides; leave out privacy, or the guardrails"
        )
    if rule.estimator.stands_liars:
        return (
            "clients may lie, and a single liar could have an option withdrawn; leave out liars,"
            " or the guardrails"
        )
    return None


def _counting(rule: PhasedRule, weights: Mapping[str, float] | None) -> PhasedRule:
    """Return a rule that counts clients by these weights; if all are equal, as it is."""
    if weights is None:
        if rule.estimator.needs_shares:
            raise ProtocolError("the rule counts clients by weights; give them, by name")
        return rule
    for client, weight in weights.items():
        check_number(weight, f'weights["{client}"]')
        if not 1 / LARGEST <= weight <= LARGEST:
            raise ProtocolError(f'the weight of client "{client}" is {weight}, and not positive')
    if not rule.estimator.needs_shares:
        if len(set(weights.values())) <= 1:
            return rule
        try:
            rule = rule.with_given_weights()
        except InputError as error:
            raise ProtocolError(str(error)) from None
    if len(weights) != rule.population:
        raise ProtocolError(f"{len(weights)} weights for a rule of {rule.population} clients")
    return rule
