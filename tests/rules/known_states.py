"""Index rules, and what they may know between two phases, by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import fedbandits as fb
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.index_rules import IndexRule
from fedbandits.rules.plans import State
from rule_calls import estimate_by_hand


def index_rule(**settings_of: Any) -> IndexRule:
    """Return the rule for three arms of an unlimited population, but for these settings."""
    told: dict[str, Any] = {"n_arms": 3, "horizon": 10**6, "noise": 0.5, "spread": 0.1}
    for name in list(settings_of):
        if name in fb.Beliefs.__dataclass_fields__:
            told[name] = settings_of.pop(name)
    rule = fb.FedIndex(**settings_of).rule(fb.Beliefs(**told))
    assert isinstance(rule, IndexRule)
    return rule


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What clients have reported between two phases, with estimates by hand."""

    active: BoolArray
    estimates: FloatArray
    counts: IntArray | FloatArray
    sizes: FloatArray
    clients: IntArray
    slots_left: IntArray

    def by(self, rule: IndexRule, capped: bool | BoolArray = False, joined: Any = None) -> State:
        """Return it as a rule knows it, when so many of its newcomers have joined."""
        estimate = estimate_by_hand(
            rule, estimates=self.estimates, counts=self.counts, sizes=self.sizes
        )
        return State(
            phase=2,
            active=self.active,
            estimate=estimate,
            clients=self.clients,
            slots_left=self.slots_left,
            capped=capped,
            joined=joined,
        )


def planned(rule: IndexRule, seen: Seen, newcomers: Any = 0) -> IntArray:
    """Return what a rule plays in phase 2 if so many have joined."""
    return rule.plan(seen.by(rule, joined=newcomers)).pulls


def joining(rule: IndexRule, seen: Seen, capped: bool = False) -> tuple[int, bool]:
    """Return how many a rule asks to join in phase 2, and whether a cap has cut them."""
    plan = rule.plan(seen.by(rule, capped))
    return int(plan.newcomers), bool(plan.capped)


def standing(
    estimates: list[float], counts: list[list[int]], sizes: list[int], **changes: Any
) -> Seen:
    known = Seen(
        active=np.ones(len(estimates), dtype=np.bool_),
        estimates=np.array(estimates),
        counts=np.array(counts),
        sizes=np.array([sizes], dtype=np.float64),
        clients=np.asarray(sum(sizes)),
        slots_left=np.asarray(10**5),
    )
    return replace(known, **changes)
