"""What a run watches about itself, from what clients report anyway; and A/A runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from fedbandits.protocol.state import RunState
from fedbandits.rules.drift import LEVEL
from fedbandits.rules.phased import PhasedRule
from fedbandits.rules.segments import segment_means


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """By how much an option seems to have changed since clients first reported it.

    Parameters
    ----------
    arm : str
        Its name.
    by : float
        What fresh means differ by from those before, on average.
    unusual : float
        What that must exceed to be suspicious; infinite as long as nobody has reported the option
        twice.
    """

    arm: str
    by: float
    unusual: float

    @property
    def suspicious(self) -> bool:
        """Whether the option seems to have changed."""
        return abs(self.by) > self.unusual


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Whether options stay as good as they were; see `fedbandits.rules.drift`.

    Parameters
    ----------
    changes : tuple of Change
        One for every option.
    level : float
        How likely any of them is suspicious though none changes, at most.
    """

    changes: tuple[Change, ...]
    level: float

    @property
    def suspicious(self) -> tuple[Change, ...]:
        """The options that seem to have changed."""
        return tuple(one for one in self.changes if one.suspicious)

    def as_dict(self) -> dict[str, Any]:
        """Return it in values that JSON has."""
        changes = {
            one.arm: {
                "by": one.by,
                "unusual": one.unusual if np.isfinite(one.unusual) else None,
                "suspicious": one.suspicious,
            }
            for one in self.changes
        }
        return {"level": self.level, "changes": changes}


def _looks(state: RunState) -> int:
    """Return the number of the last phase, as far as error probabilities are shared out.

    When an option that came back was tried depends on what was observed, in one of so many ways as
    `fedbandits.protocol.decisions.looks` counts.
    """
    return max(state.phases_over, 1) * state.comebacks


def _noise_of(rule: PhasedRule) -> float | str:
    """Return σ of what clients report, or why their means prove nothing one by one."""
    if not rule.scheduled:
        return "how often options are tried depends on what was observed"
    if rule.estimator.stands_liars:
        return "a client that lies could pretend anything"
    # If a promise rests on a range, a smaller noise that was told is none of its conditions.
    limits = rule.radius.limits
    noise = rule.noise if limits is None else (limits[1] - limits[0]) / 2
    return "it is not told how large the noise is" if noise is None else noise


def drift(state: RunState) -> Drift | str:
    """Return whether options stay as good as they were, or why that is not watched."""
    trend, noise = state.trend, _noise_of(state.terms.rule)
    if isinstance(noise, str):
        return noise
    if state.terms.privacy is not None and state.terms.privacy.noise == "laplace":
        return "means have Laplace noise"
    widths = trend.widths(noise, _looks(state))
    told = zip(state.terms.arms, trend.change.tolist(), widths.tolist(), strict=True)
    return Drift(
        changes=tuple(Change(arm=arm, by=by, unusual=unusual) for arm, by, unusual in told),
        level=LEVEL,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """What options are like for some of the clients.

    Parameters
    ----------
    name : str
        Of the segment.
    clients : int
        How many of those that were admitted are in it.
    means : dict of str to float
        By option, of these clients alone.
    intervals : dict of str to (float, float)
        By option; infinite for one that none of them has tried.
    """

    name: str
    clients: int
    means: dict[str, float]
    intervals: dict[str, tuple[float, float]]


def segments(
    state: RunState, groups: Mapping[str, Sequence[str]], *, level: float = 0.05
) -> tuple[Segment, ...] | str:
    """Return what options are like in groups of clients, or why that is not known.

    All intervals together hold in all phases with probability 1 − ``level``; see
    `fedbandits.rules.segments`.

    Parameters
    ----------
    state : RunState
        Of the run.
    groups : mapping from str to names, or patterns of names
        A client is in the first group that has it. Clients that are in none are a last group.
    level : float
        How likely any interval misses, at most.
    """
    counted, noise = state.counted, _noise_of(state.terms.rule)
    if isinstance(noise, str):
        return noise
    names = [*groups, "other clients"]
    places = [
        next(
            (
                place
                for place, patterns in enumerate(groups.values())
                if client in patterns or any(fnmatchcase(client, each) for each in patterns)
            ),
            len(groups),
        )
        for client in state.columns
    ]
    members = (
        np.array(places, dtype=np.int64)[: counted.counts.shape[1]]
        == np.arange(len(names))[:, np.newaxis]
    )
    means, widths = segment_means(
        counted.counts,
        counted.means,
        members,
        noise=noise,
        distortion=counted.distortion(state.terms.privacy),
        looks=_looks(state),
        level=level,
    )
    arms = state.terms.arms
    return tuple(
        Segment(
            name=name,
            clients=int(inside.sum()),
            means=dict(zip(arms, found.tolist(), strict=True)),
            intervals={
                arm: (mean - width, mean + width)
                for arm, mean, width in zip(arms, found.tolist(), wide.tolist(), strict=True)
            },
        )
        for name, inside, found, wide in zip(names, members, means, widths, strict=True)
        if name in groups or inside.any()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """What is known of an option by one guardrail.

    Parameters
    ----------
    arm, guardrail : str
        Their names.
    goal : {"min", "max"}
        Whether the mean must be below the limit, or above it.
    limit : float
        The limit.
    units : int
        How many units are behind the mean, with those of the open phase.
    mean, low, high : float or None
        With an interval that holds at all times; None if there are no units.
    state : str
        "harmful" if the whole interval is beyond the limit, "within the limit" if none of it is,
        else "open".
    """

    arm: str
    guardrail: str
    goal: str
    limit: float
    units: int
    mean: float | None
    low: float | None
    high: float | None
    state: str


def guarded(state: RunState) -> tuple[Guarded, ...]:
    """Return what guardrails have seen of every option."""
    found, counts = [], state.guarded.counts
    for rail, sums in zip(state.terms.guardrails, state.guarded.sums, strict=True):
        lows, highs = rail.intervals(sums, counts)
        harmful = rail.beyond(sums, counts)
        fine = highs <= rail.limit if rail.goal == "min" else lows >= rail.limit
        for arm, name in enumerate(state.terms.arms):
            units = int(counts[arm])
            known = (float(sums[arm]) / units, float(lows[arm]), float(highs[arm])) if units else ()
            mean, low, high = known or (None, None, None)
            words = "within the limit" if fine[arm] and units else "open"
            found.append(
                Guarded(
                    arm=name,
                    guardrail=rail.name,
                    goal=rail.goal,
                    limit=rail.limit,
                    units=units,
                    mean=mean,
                    low=low,
                    high=high,
                    state="harmful" if harmful[arm] else words,
                )
            )
    return tuple(found)


def false_differences(state: RunState) -> float | None:
    """Return how likely a run whose options are all the same calls a difference, at most.

    Every option is a best one then, and each is dropped with the probability that the rule drops
    the best one with. None if the rule states no such probability.
    """
    error = state.guarantee.error
    return None if error is None else min(1.0, error * state.terms.rule.n_arms)


def called(state: RunState) -> tuple[str, ...]:
    """Return the options that were decided against."""
    out = ~state.left
    return tuple(
        name for arm, name in enumerate(state.terms.arms) if out[arm] and arm not in state.withdrawn
    )


def aa_words(state: RunState, treatment: str) -> str:
    """Return what an A/A run says about how sound a trial is, in words.

    Parameters
    ----------
    state : RunState
        Of the run.
    treatment : str
        What all of its options are.
    """
    most, out = false_differences(state), called(state)
    often = (
        "no error probability is stated, so that nothing can be said of how many such runs may"
        " call a difference"
        if most is None
        else f"at most {100 * most:.3g} % of such runs call a difference, if all conditions hold"
    )
    found = f"this one did ({', '.join(out)})" if out else "this one did not so far"
    return f"This is an A/A run, all options are {treatment}: {often}; {found}"
