"""The Bernstein bound: outcomes in a known range, variances read off the estimates themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.guarantees import Guarantee, ProofContext, keeps_best, pairs_needed, within
from fedbandits.rules.levels import LevelLike
from fedbandits.rules.radii.bounded import BoundedRadius
from fedbandits.rules.radii.known import Dependence, PhaseStatistics
from fedbandits.rules.radii.pairs import Pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class BernsteinRadius(BoundedRadius, Pairs):
    r"""The variance-aware pairwise rule for outcomes in a known range and clients drawn at random.

    On [0, 1] an outcome of rate q has a variance of at most min(q, 1 − q, 1/4): at 2 % a twelfth of
    the 1/4 that σ = 1/2 stands for. k goes when best − k ≥ :math:`\sqrt{2 V L} + w L`, where w is
    the weight of the heaviest pull, :math:`V = V_k + V_l` with :math:`V_k = \min(r_k u, \eta / 4)
    + v_c`, η and :math:`v_c` the factors of pulls and clients, :math:`r_k` an upper bound on
    min(μ, 1 − μ) from the estimate itself, and u = η if clients are drawn independently of each
    other, else w (which is no smaller, and the same if all have pulled as often).

    Guarantee: P(the best arm is ever dropped) ≤ δ, for any number of phases, if outcomes lie in
    the range, the arms of a client are independent of each other (or ``dependence`` is "any"), and
    clients are drawn at random with a spread of at most σ_c. Who they are does not matter if
    all that exist play from the start.

    Derivation: given a client's rate q, Bennett's inequality bounds the logarithm of the moment
    generating function of its n centred pulls of weight :math:`w_m` by :math:`q(1-q)\,c_m`,
    :math:`c_m = n \varphi(\lambda w_m)`, :math:`\varphi(x) = e^x - 1 - x \le x^2 / (2(1 - x/3))`,
    and :math:`q(1-q) \le q`. With the client's weight :math:`W = n w_m`, the average over q of
    :math:`\exp(\lambda W (q - \mu) + c_m q)` is at most :math:`\exp(c_m \mu + (\lambda W +
    c_m)^2 \sigma_c^2 / 2)`. Comparing power series, the sum over independent clients is at most
    :math:`\lambda^2 (\mu \eta + v_c) / (2 (1 - \lambda w))`. In a finite population this fails:
    the clients of high rates may be those with the fewest pulls, and once everyone is in nothing
    of that is in :math:`v_c`. But :math:`\varphi(x) / x^2` grows with x, so :math:`c_m \le W
    \varphi(\lambda w) / w`, the sum over clients depends on their average rate alone, and the same
    follows with w in place of η. Either is sub-gamma, so an estimate is off by more than
    :math:`\sqrt{2 (\mu u + v_c) L} + w L` with probability at most :math:`\exp(-L)` on either
    side. Solved for μ that bounds μ, and for 1 − outcome 1 − μ, hence :math:`r_k`; :math:`q(1-q)
    \le 1/4` gives η/4 in place of μu; for two independent arms variances add. Half of δ goes to
    the 2 K bounds on rates, half to the K − 1 comparisons, each shared out over phases by
    :math:`6 / (\pi^2 p^2)`. Under any dependence between arms V and w double (Cauchy-Schwarz).

    Parameters
    ----------
    range : (float, float)
        [a, b], which contains every outcome; [0, 1] by default.
    delta : number or expression in T
        δ; "1/T" by default.
    dependence : {"independent", "any"}
        Whether the arms of a client are independent.

    References
    ----------
    Boucheron, Lugosi and Massart (2013), "Concentration Inequalities", sections 2.4 and 2.7.
    """

    rule: ClassVar[str] = "bernstein"
    options: ClassVar[tuple[str, ...]] = ("delta", "dependence")
    outlives_withdrawals: ClassVar[bool] = True

    range: tuple[float, float] = (0.0, 1.0)
    delta: LevelLike = "1/T"
    dependence: Dependence = "independent"

    def guarantee(self, context: ProofContext) -> Guarantee:
        """Return what is proven; see `Radius`."""
        needed = pairs_needed(context, self.dependence, noise=False)
        return keeps_best(self.delta, context, within(self.range), *needed)

    def _variances(self, known: PhaseStatistics) -> FloatArray:
        """Return the upper bound on the variance of every estimate, for outcomes in [0, 1]."""
        low, high = self.range
        log = self._log(known, 2 * 2 * known.n_arms)  # half of δ for 2 K events
        heaviest = known.estimate.heaviest_pull
        pulls = known.estimate.pull_factor if known.estimate.independent_clients else heaviest
        # What protects the means is independent of them: sub-gamma, like the rest.
        length, distortion = high - low, known.estimate.distortion
        clients = (known.estimate.client_variance + distortion.variance) / length**2
        heaviest = np.maximum(heaviest, distortion.scale / length)
        rates = np.clip((known.estimate.values - low) / (high - low), 0.0, 1.0)
        bounds = []
        for rate in (rates, 1.0 - rates):
            start = rate + distortion.bias / length + heaviest * log
            root = np.sqrt((log * pulls) ** 2 + 2.0 * log * (pulls * start + clients))
            bounds.append(start + log * pulls + root)
        rated = np.minimum(np.minimum(*bounds) * pulls, known.estimate.pull_factor / 4)
        return np.asarray(rated + clients)

    def _width(self, known: PhaseStatistics, one: FloatArray, other: FloatArray) -> FloatArray:
        low, high = self.range
        log = self._log(known, 2 * max(known.n_arms - 1, 1))  # half of δ for K - 1 events
        twice = 1.0 if self.dependence == "independent" else 2.0
        root = np.sqrt(2.0 * twice * (one + other) * log)
        # That of a pair is no heavier than the heaviest of any active arm.
        own = np.maximum(
            known.estimate.heaviest_pull, known.estimate.distortion.scale / (high - low)
        )
        widths = (high - low) * (root + twice * known.of_active(own) * log)
        return known.widened(widths, estimates=2)
