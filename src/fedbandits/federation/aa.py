"""A/A runs: a trial is played with all of its options the same, to see whether it is sound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from fedbandits.errors import check_count
from fedbandits.federation.host import History, PullByName
from fedbandits.federation.local import server_of, try_trial
from fedbandits.federation.trial import Trial, read_trial
from fedbandits.protocol.health import called, false_differences

# Below this probability a number of called differences is taken for a fault.
_UNLIKELY = 0.01

_AA_PHASES = 10


@dataclass(frozen=True, slots=True)
class AaTries:
    """What runs have called whose options were all the same.

    Parameters
    ----------
    runs, called : int
        How many there were, and how many of them have called a difference.
    most : float or None
        How likely that is, at most; None if the rule states no probability.
    """

    runs: int
    called: int
    most: float | None

    @property
    def sound(self) -> bool:
        """Whether so many differences are likely enough, at the 1 % level."""
        if self.most is None or not self.called:
            return True
        from scipy.special import bdtrc  # noqa: PLC0415 - half a second, for this command alone

        return bool(bdtrc(self.called - 1, self.runs, self.most) >= _UNLIKELY)

    def words(self) -> str:
        """Return it in a sentence.

        Examples
        --------
        >>> print(AaTries(runs=50, called=3, most=0.1).words())
        3 of 50 A/A runs called a difference where there is none; at most 10 % should: sound
        """
        found = f"{self.called:,} of {self.runs:,} A/A runs called a difference where there is none"
        if self.most is None:
            return f"{found}; no error probability is stated, so that any number may"
        verdict = (
            "sound"
            if self.sound
            else "NOT SOUND; look at how outcomes are recorded, and at what the trial assumes"
        )
        return f"{found}; at most {100 * self.most:.3g} % should: {verdict}"


def try_aa(
    trial: Trial,
    pull: PullByName | None,
    clients: int,
    *,
    runs: int,
    seed: int | None = None,
    watch: Callable[[int], None] = lambda _: None,
    history: History | None = None,
) -> AaTries:
    """Play a trial several times with all of its options the same, and count called differences.

    Each run has few phases: most of the error probability is spent in the first ones.

    Parameters
    ----------
    trial, pull, clients, seed, history
        As in `try_trial`; every run has a seed of its own.
    runs : int
        How many.
    watch : callable
        Told how many are over.
    """
    check_count(runs, "runs")
    same = read_trial({**trial.tables, "aa": True})
    same = replace(same, max_phases=min(same.max_phases, _AA_PHASES))
    most = false_differences(server_of(same).run_state)
    first = trial.seed if seed is None else seed
    differences = 0
    for number in range(runs):
        server = try_trial(same, pull, clients, seed=first + number, history=history)
        differences += bool(called(server.run_state))
        watch(number + 1)
    return AaTries(runs, differences, most)
