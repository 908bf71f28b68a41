"""What protects the means of simulated clients: from its exact law, in the drivers of phases."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from fedbandits.privacy.mechanisms import UNPROTECTED_BITS, Mechanism, Rounded
from fedbandits.privacy.policy import Privacy
from fedbandits.privacy.protection import bits_in_phase
from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.distortion import (
    NO_ERROR,
    UNDISTORTED,
    Distortion,
    DistortionSums,
    ReleaseError,
)
from fedbandits.simulation.game import Game


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalPrivacy(Privacy):
    """A policy whose effect is simulated roughly, in a normal game that stands in for another.

    Released means are off by normal errors of the variance that the policy's own have, and nothing
    is clipped. Widths are those of the policy itself. This lets the fastest fidelity play what it
    otherwise could not: for planning, where the true laws are not known anyway.

    Parameters
    ----------
    **policy
        As in `Privacy`.
    """

    @classmethod
    def of(cls, privacy: Privacy) -> NormalPrivacy:
        """Return a policy, to be simulated roughly.

        Examples
        --------
        >>> NormalPrivacy.of(Privacy(range=(0, 1), noise="laplace", epsilon=1.0)).epsilon
        1.0
        """
        return cls(**{field.name: getattr(privacy, field.name) for field in fields(Privacy)})


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseReleases:
    """How means are protected in some phases that are alike.

    Parameters
    ----------
    rounded : Rounded, optional
        How they are rounded.
    scale : float
        The scale of the noise; 0 where there is none.
    distortion : Distortion, shape (phases, 1, 1, groups)
        What is left of it in clients' means after each phase.
    error : ReleaseError
        What one released mean may be off by.
    """

    rounded: Rounded | None
    scale: float
    distortion: Distortion
    error: ReleaseError = NO_ERROR

    @property
    def bits(self) -> int:
        """Of a mean that is sent."""
        return UNPROTECTED_BITS if self.rounded is None else self.rounded.bits

    def last_distortion(self) -> Distortion:
        """Return what is left in the means of a replication's clients, after the last phase."""
        values = (self.distortion.variance, self.distortion.scale, self.distortion.bias)
        if values[0].ndim == 0:
            return self.distortion
        variance, scale, bias = (value[-1, 0, 0] for value in values)
        return Distortion(
            variance=variance, scale=scale, bias=bias, doubled=self.distortion.doubled
        )


_NOTHING = PhaseReleases(rounded=None, scale=0.0, distortion=UNDISTORTED)


class Releases:
    """What protects the means of all clients of many replications, the same in each of them.

    Parameters
    ----------
    game : Game
        With the policy of its clients, or none.
    """

    def __init__(self, game: Game) -> None:
        self.privacy = game.privacy
        self.rule = game.phased_rule()
        self._sums = DistortionSums.nothing((1, 0))

    @property
    def one_by_one(self) -> bool:
        """Whether phases differ in how means are protected even where they are alike otherwise."""
        # A narrower radius changes the bits of the next phase.
        return self.privacy is not None and self.privacy.bits_by_phase

    def admit(self, groups: int) -> None:
        """Let new groups of clients in."""
        self._sums = self._sums.admitted(groups)

    def play(self, phase: int, pulls: int, counts: FloatArray, sizes: FloatArray) -> PhaseReleases:
        """Return how the means of phases are protected, and count them as released.

        Parameters
        ----------
        phase, pulls : int
            The first of some phases that are alike, and its pulls of an arm.
        counts : array, shape (phases, groups)
            Pulls of an active arm so far by each client, after each phase.
        sizes : array, shape (groups,)
            Clients in each group.
        """
        privacy = self.privacy
        if privacy is None:
            return _NOTHING
        privacy.check_pulls(pulls, phase)
        bits = bits_in_phase(
            self.rule,
            privacy,
            phase=phase,
            pulls=pulls,
            counts=counts[0],
            sizes=sizes,
            sums=self._sums,
        )
        mechanism = privacy.mechanism(pulls, self.rule.n_arms, bits)
        left = []
        for after in counts:
            self._sums = self._sums.released(pulls, mechanism.error)
            left.append(self._sums.over(after))
        distortion = Distortion(
            variance=np.array([one.variance for one in left])[:, :, np.newaxis],
            scale=np.array([one.scale for one in left])[:, :, np.newaxis],
            bias=np.array([one.bias for one in left])[:, :, np.newaxis],
            doubled=privacy.doubled,
        )
        return release_of(mechanism, distortion)


def release_of(mechanism: Mechanism, distortion: Distortion = UNDISTORTED) -> PhaseReleases:
    """Return how means are protected by a mechanism."""
    if isinstance(mechanism, Rounded):
        return PhaseReleases(
            rounded=mechanism, scale=0.0, error=mechanism.error, distortion=distortion
        )
    return PhaseReleases(
        rounded=None, scale=mechanism.scale, error=mechanism.error, distortion=distortion
    )


def deviation(how: PhaseReleases, privacy: Privacy | None) -> float:
    """Return the standard deviation of what releases are off by, for a normal law of them.

    Exact for Gaussian noise. Of rounding it is that of a mean which may lie anywhere between two
    places of the grid: h²/6 for stochastic and h²/12 for nearest rounding.
    """
    if how.rounded is not None:
        parts = 6.0 if how.rounded.rounding == "stochastic" else 12.0
        return how.rounded.step / math.sqrt(parts)
    laplace = privacy is not None and privacy.noise == "laplace"
    return how.scale * math.sqrt(2.0) if laplace else how.scale


def protect(
    means: FloatArray, how: PhaseReleases, privacy: Privacy | None, rng: np.random.Generator
) -> FloatArray:
    """Return what clients release of their means, drawn from the exact law.

    Noise is continuous here: on its grid of 2²⁰ places to a scale it would be the same.
    """
    if how.rounded is not None:
        return how.rounded.values(how.rounded.places(means, rng))
    draw = rng.normal if privacy and privacy.noise == "gaussian" else rng.laplace
    return np.asarray(means + draw(0.0, how.scale, means.shape))
