"""The terms of a run: everything about it that no event changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedbandits.errors import LARGEST, InputError, ProtocolError, check_number
from fedbandits.privacy.policy import Privacy
from fedbandits.privacy.protection import protected
from fedbandits.protocol.messages import Header, Release, arms_hash
from fedbandits.protocol.quorum import Quorum
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.draws import PhaseDraws, SeededDraws
from fedbandits.rules.guarantees import Assumption, Guarantee, within
from fedbandits.rules.phased import PhasedRule


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
    draws : callable
        What a randomised rule draws, by phase.
    """

    rule: PhasedRule
    arms: tuple[str, ...]
    header: Header
    release: Release
    weights: Mapping[str, float] | None
    privacy: Privacy | None
    quorum: Quorum
    quarantine_after: int | None
    limits: tuple[float, float] | None
    draws: PhaseDraws

    @property
    def range(self) -> tuple[float, float] | None:
        """The range that outcomes are declared to lie in: by the run, its rule, or its privacy."""
        declared = [one for one in (self.limits, self.rule.radius.limits) if one is not None]
        if not declared and self.privacy is not None:
            declared = [self.privacy.range]
        if not declared:
            return None
        return max(low for low, _ in declared), min(high for _, high in declared)

    def guarantee(self) -> Guarantee:
        """Return what is proven before anything has happened: nobody is missing yet."""
        found = self.rule.guarantee().kept(Assumption.NO_SELECTION)
        if self.range is None:
            return found
        condition = within(self.range)
        if self.privacy is not None:
            low, high = self.privacy.range
            words = (
                f"clients protect their means as agreed, and what lies outside [{low:g}, {high:g}]"
                " is clipped: the answer is about clipped outcomes"
            )
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
                f"{len(admitted)} clients where {wanted} have weights; all of them must play"
            )


def terms_of(
    rule: PhasedRule,
    *,
    arms: Sequence[str] | None = None,
    run: str = "run",
    epoch: int = 1,
    release: Release | None = None,
    weights: Mapping[str, float] | None = None,
    privacy: Privacy | None = None,
    quorum: Quorum | None = None,
    quarantine_after: int | None = None,
    limits: tuple[float, float] | None = None,
    draws: PhaseDraws | None = None,
) -> Terms:
    """Return the terms of a run; refuse what contradicts itself."""
    names = [str(k) for k in range(rule.n_arms)] if arms is None else list(arms)
    if len(names) != rule.n_arms:
        raise ProtocolError(f"{len(names)} arm names for a rule of {rule.n_arms} arms")
    if weights is not None and not isinstance(weights, Mapping):
        raise InputError("weights", f'{weights!r} is not a mapping such as {{"alice": 2.0}}')
    counting = _counting(rule, weights)
    counting.check_clients()
    release = Release(squares=rule.needs_squares) if release is None else release
    if rule.needs_squares and not release.squares:
        raise ProtocolError("the rule estimates σ from sums of squares: release them")
    if release.mechanism is not None:
        raise ProtocolError("how means are protected follows from a policy; give privacy")
    if privacy is not None and release.squares:
        raise ProtocolError("sums of squares are not protected, and means are: leave them out")
    return Terms(
        rule=counting if privacy is None else protected(counting, privacy),
        arms=tuple(names),
        header=Header(run=run, epoch=epoch, arms=arms_hash(names)),
        release=release,
        weights=None if weights is None else dict(weights),
        privacy=privacy,
        quorum=Quorum() if quorum is None else quorum,
        quarantine_after=quarantine_after,
        limits=limits,
        draws=SeededDraws(0) if draws is None else draws,
    )


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
