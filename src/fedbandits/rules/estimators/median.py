"""The median of the values of clients, with its exact error for normal ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.contrasts import Crowd
from fedbandits.rules.estimators.robust import Robust
from fedbandits.rules.guarantees import Assumption, Condition, ProofContext, Status
from fedbandits.rules.statistics import ranked


@dataclass(frozen=True, slots=True, kw_only=True)
class Median(Robust):
    r"""The median of n values, of which f may be lies, for normal clients.

    It exceeds the truth by r only if ⌈n/2⌉ − f of the h = n − f honest values do, which has
    probability :math:`P(\mathrm{Bin}(h, \bar\Phi(r/\sqrt{v})) \ge \lceil n/2 \rceil - f)`, exactly
    if all lies are high. Its floor is lower than that of the trimmed mean; it needs more clients.

    Parameters
    ----------
    liars, groups
        As in `Robust`.

    Examples
    --------
    >>> Median(liars=1).middle(np.array([0.4, 0.5, 0.6, 1e9]), 1)
    array(0.55)
    """

    name: ClassVar[str] = "median"
    proven: ClassVar[bool] = True

    @property
    def needs_spread(self) -> bool:
        """Whether it must be told σ_c: always."""
        return True

    def conditions(self, context: ProofContext) -> tuple[Condition, ...]:
        """Return that values are normal, and those of clients independent of each other."""
        found = (
            Condition(Assumption.NORMAL_LAWS),
            Condition(Assumption.SPREAD_BOUND),
            *Robust.conditions(self, context),
        )
        if not context.finite:
            return found
        words = "clients are drawn independently of each other"
        why = "the median is proven for clients drawn independently, and these are all that exist"
        return (*found, Condition(words, status=Status.BROKEN, why=why))

    def middle(self, values: FloatArray, liars: int) -> FloatArray:
        """Return the median."""
        size = values.shape[-1]
        return np.asarray((ranked(values, (size - 1) // 2) + ranked(values, size // 2)) / 2.0)

    def excess(self, crowd: Crowd, log: FloatArray) -> FloatArray:
        """Return what it exceeds the truth by with probability at most exp(-log)."""
        # A live client that is asked for one phase is a process of its own: half a second is long.
        from scipy.special import betaincinv, ndtri  # noqa: PLC0415 - see above

        needed = math.ceil(crowd.units / 2) - crowd.liars
        # P(Bin(h, p) ≥ c) is the incomplete beta function of p with c and h − c + 1.
        share = betaincinv(needed, crowd.honest - needed + 1, np.exp(-np.asarray(log)))
        return np.asarray(np.sqrt(crowd.variance) * np.maximum(-ndtri(share), 0.0))
