r"""Whether options stay as good: what clients report anew against what they reported before.

Let a client have tried an option N times with the mean A, and n more times with the mean X. If the
option is as good as before, X − A has the expectation 0 and the proxy :math:`\sigma^2 u` with
u = 1/n + 1/N, whatever the client's own mean is, and over the phases these differences are
uncorrelated. The sum of (X − A)/u over clients and phases therefore has the proxy
:math:`\sigma^2 \sum 1/u`. ``docs/health.md`` has the proof, and what protected means add.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.levels import simultaneous_log

LEVEL = 0.01
"""How likely a run in which no option changes is taken for one in which some do, at most."""

# A sum of a hundred phases may be off by so much of itself; that matters if σ is 0, or nearly so.
_ROUNDING = 2.0**-46


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trend:
    """What fresh means differ by from those before, added up over clients and phases.

    Parameters
    ----------
    score, weight : array, shape (..., arms)
        The sums of (X − A)/u and of 1/u.
    bias : array, shape (..., arms)
        By how much the protection of means, and the rounding of sums, shift the score, at most.
    distorted : array, shape (..., arms)
        What the protection adds to σ², at most.
    """

    score: FloatArray
    weight: FloatArray
    bias: FloatArray
    distorted: FloatArray

    @classmethod
    def nothing(cls, n_arms: int) -> Trend:
        """Return what is known before the first phase."""
        none = np.zeros(n_arms)
        return cls(score=none, weight=none, bias=none, distorted=none)

    def after(self, before: Seen, now: Seen) -> Trend:
        """Return what is known after more reports.

        Parameters
        ----------
        before, now : Seen
            All reports without them, and with them, of the same clients.

        Examples
        --------
        >>> def seen(counts, sums):
        ...     zero = np.zeros((1, 2))
        ...     return Seen(np.array([counts]), np.array([sums]), zero, zero)
        >>> trend = Trend.nothing(1).after(seen([10, 10], [5.0, 2.0]), seen([20, 20], [11.0, 5.0]))
        >>> float(trend.change[0].round(3))
        0.1
        """
        fresh = now.counts - before.counts
        both = (fresh > 0) & (before.counts > 0)
        n, old = np.where(both, fresh, 1.0), np.where(both, before.counts, 1.0)
        weights = np.where(both, n * old / (n + old), 0.0)

        def anew(sums: FloatArray, earlier: FloatArray) -> FloatArray:
            return np.asarray((sums - earlier) / n)

        apart = anew(now.sums, before.sums) - before.sums / old
        biases = anew(now.biases, before.biases) + before.biases / old
        biases += _ROUNDING * (np.abs(now.sums) / n + np.abs(before.sums) / old)
        added = np.maximum(now.variances - before.variances, 0.0) / np.maximum(fresh, 1.0)
        return Trend(
            score=self.score + (weights * apart).sum(axis=-1),
            weight=self.weight + weights.sum(axis=-1),
            bias=self.bias + (weights * biases).sum(axis=-1),
            # Of first reports, too: later ones are compared with them.
            distorted=np.maximum(self.distorted, added.max(axis=-1, initial=0.0)),
        )

    @property
    def change(self) -> FloatArray:
        """By how much fresh means differ from those before, on average; 0 if there are none."""
        return np.divide(
            self.score, self.weight, out=np.zeros_like(self.score), where=self.weight > 0
        )

    def widths(self, noise: float, looks: int, level: float = LEVEL) -> FloatArray:
        """Return what a change must exceed, so that options that do not change seldom seem to.

        Parameters
        ----------
        noise : float
            σ.
        looks : int
            How many phases are over: the level is shared out among them.
        level : float
            How likely any option is suspected in any phase though none changes, at most.
        """
        arms = self.score.shape[-1]
        log = simultaneous_log(2 * arms, level, looks)
        weight = np.where(self.weight > 0, self.weight, 1.0)
        found = np.sqrt(2.0 * (noise**2 + self.distorted) * log / weight) + self.bias / weight
        return np.where(self.weight > 0, found, np.inf)


@dataclass(frozen=True, slots=True)
class Seen:
    """What clients have reported so far, arrays of shape (..., arms, clients).

    Parameters
    ----------
    counts, sums : array
        Pulls, and the sums of their outcomes.
    variances, biases : array
        What the protection of means has put into the sums: the sums of n²d and of n b, as in
        ``DistortionSums`` of ``fedbandits.rules.distortion``.
    """

    counts: FloatArray
    sums: FloatArray
    variances: FloatArray
    biases: FloatArray
