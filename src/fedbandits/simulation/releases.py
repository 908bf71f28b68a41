"""What protects the means of simulated clients: from its exact law, in the drivers of phases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedbandits.privacy.mechanisms import UNPROTECTED_BITS, Rounded, noise_error
from fedbandits.privacy.protection import bits_in_phase
from fedbandits.rules.arrays import BoolArray, FloatArray
from fedbandits.rules.distortion import UNDISTORTED, Distortion, DistortionSums
from fedbandits.simulation.game import Game


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseReleases:
    """How means are protected in some phases that are alike.

    Parameters
    ----------
    rounded : Rounded, optional
        How they are rounded.
    scales : array, shape (replications or 1,)
        The scale of the noise in each replication; empty where there is none.
    distortion : Distortion, shape (phases, replications or 1, 1, groups)
        What is left of it in clients' means after each phase.
    """

    rounded: Rounded | None
    scales: FloatArray
    distortion: Distortion

    @property
    def bits(self) -> int:
        """Of a mean that is sent."""
        return UNPROTECTED_BITS if self.rounded is None else self.rounded.bits

    def scale_of(self, row: int) -> float:
        """Return the scale of the noise in a replication."""
        return float(self.scales[row if self.scales.size > 1 else 0])

    def distortion_of(self, row: int) -> Distortion:
        """Return what is left in the means of one replication's clients, in the last phase."""
        values = (self.distortion.variance, self.distortion.scale, self.distortion.bias)
        if values[0].ndim == 0:
            return self.distortion
        at = row if values[0].shape[1] > 1 else 0
        variance, scale, bias = (value[-1, at, 0] for value in values)
        return Distortion(
            variance=variance, scale=scale, bias=bias, doubled=self.distortion.doubled
        )


_NOTHING = PhaseReleases(rounded=None, scales=np.zeros(0), distortion=UNDISTORTED)


class Releases:
    """What protects the means of all clients of many replications.

    Parameters
    ----------
    game : Game
        With the policy of its clients, or none.
    replications : int
        How many are played in step.
    """

    def __init__(self, game: Game, replications: int) -> None:
        self.privacy = game.privacy
        self.rule = game.phased_rule()
        # At user level noise depends on how many arms are active, which replications differ in.
        self.by_row = self.privacy is not None and self.privacy.level == "user"
        self._sums = DistortionSums.nothing((replications if self.by_row else 1, 0))

    def admit(self, groups: int) -> None:
        """Let new groups of clients in."""
        self._sums = self._sums.admitted(groups)

    def keep(self, going: BoolArray) -> None:
        """Forget the replications that are over."""
        if self.by_row:
            self._sums = self._sums.kept(going)

    def play(
        self, phase: int, pulls: int, active: BoolArray, counts: FloatArray, sizes: FloatArray
    ) -> PhaseReleases:
        """Return how the means of phases are protected, and count them as released.

        Parameters
        ----------
        phase, pulls : int
            The first of some phases that are alike, and its pulls of an arm.
        active : array of bool, shape (replications, arms)
            The arms that are pulled.
        counts : array, shape (phases, groups)
            Pulls of an active arm so far by each client, after each phase.
        sizes : array, shape (groups,)
            Clients in each group.
        """
        privacy = self.privacy
        if privacy is None:
            return _NOTHING
        privacy.check_pulls(pulls, phase)
        doubled = privacy.quantize is not None and privacy.quantize.widening == "paper"
        arms = active.sum(axis=-1)
        if privacy.noise is not None:
            rounded = None
            scales = np.atleast_1d(privacy.noise_scale(pulls, arms if self.by_row else arms.max()))
            error = noise_error(privacy.noise, scales[:, np.newaxis])
        else:
            bits = bits_in_phase(
                self.rule,
                privacy,
                phase=phase,
                pulls=pulls,
                counts=counts[0],
                sizes=sizes,
                sums=self._sums,
            )
            mechanism = privacy.mechanism(pulls, int(arms.max()), bits)
            if not isinstance(mechanism, Rounded):
                raise TypeError("a policy without noise rounds")
            rounded, scales, error = mechanism, np.zeros(0), mechanism.error
        left = []
        for after in counts:
            self._sums = self._sums.released(pulls, error)
            left.append(self._sums.over(after))
        distortion = Distortion(
            variance=np.array([one.variance for one in left])[:, :, np.newaxis],
            scale=np.array([one.scale for one in left])[:, :, np.newaxis],
            bias=np.array([one.bias for one in left])[:, :, np.newaxis],
            doubled=doubled,
        )
        return PhaseReleases(rounded=rounded, scales=scales, distortion=distortion)

    def protect(
        self, means: FloatArray, how: PhaseReleases, row: int, rng: np.random.Generator
    ) -> FloatArray:
        """Return what clients release of their means, drawn from the exact law.

        Noise is continuous here: on its grid of 2²⁰ places to a scale it would be the same.
        """
        if how.rounded is not None:
            return how.rounded.values(how.rounded.places(means, rng))
        draw = rng.normal if self.privacy and self.privacy.noise == "gaussian" else rng.laplace
        return np.asarray(means + draw(0.0, how.scale_of(row), means.shape))
