"""What protects the means of simulated clients where every replication pulls its own way."""

from __future__ import annotations

import numpy as np

from fedbandits.privacy.mechanisms import UNPROTECTED_BITS
from fedbandits.privacy.policy import Privacy
from fedbandits.rules.arrays import BoolArray, FloatArray, IntArray
from fedbandits.rules.distortion import UNDISTORTED, Distortion, DistortionSums, ReleaseError
from fedbandits.simulation.game import Game
from fedbandits.simulation.releases import PhaseReleases, release_of


class AdaptiveReleases:
    """What protects the means of clients, replication by replication.

    Parameters
    ----------
    game : Game
        With the policy of its clients, or none.
    replications : int
        How many.
    """

    def __init__(self, game: Game, replications: int) -> None:
        self.privacy: Privacy | None = game.privacy
        self.n_arms = game.rule.n_arms
        self.bits = UNPROTECTED_BITS
        self._sums = DistortionSums.nothing((replications, self.n_arms, 0))
        self._known: dict[int, PhaseReleases] = {}

    def admit(self, groups: int) -> None:
        """Make room for new groups of clients."""
        self._sums = self._sums.admitted(groups)

    def keep(self, going: BoolArray) -> None:
        """Forget the replications that are over."""
        self._sums = self._sums.kept(going)

    def play(self, phase: int, pulls: IntArray, fresh: IntArray) -> list[PhaseReleases]:
        """Return how every replication protects its means of a phase, and count them as released.

        Parameters
        ----------
        phase : int
            The phase.
        pulls : array of int, shape (rows, arms)
            Of each client. Noise is that of the fewest.
        fresh : array, shape (rows, arms, groups)
            The same, and 0 for groups that are not there.
        """
        if self.privacy is None:
            return []
        fewest = np.where(pulls > 0, pulls, np.iinfo(np.int64).max).min(axis=-1).tolist()
        how = [self._release(self.privacy, phase, n) for n in fewest]
        self.bits = how[0].bits
        errors = [one.error for one in how]
        variance, scale, bias = (
            np.array([getattr(error, name) for error in errors]).reshape(-1, 1, 1)
            for name in ("variance", "scale", "bias")
        )
        self._sums = self._sums.released(
            fresh, ReleaseError(variance=variance, scale=scale, bias=bias)
        )
        return how

    def _release(self, privacy: Privacy, phase: int, pulls: int) -> PhaseReleases:
        if pulls not in self._known:
            privacy.check_pulls(pulls, phase)
            self._known[pulls] = release_of(privacy.mechanism(pulls, self.n_arms))
        return self._known[pulls]

    def distortion(self, counts: FloatArray) -> Distortion:
        """Return what is left in the means of groups of so many pulls."""
        if self.privacy is None:
            return UNDISTORTED
        return self._sums.over(counts, doubled=self.privacy.doubled)
