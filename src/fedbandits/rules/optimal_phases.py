r"""Phases of an elimination that is told what a report costs: ``pulls = admissions = "optimal"``.

Phase p looks for gaps of :math:`d_p = \sqrt{\sigma^2 + \sigma_c^2} \; 2^{(1 - p)/2}`. A certified
comparison finds them if estimates have the variance :math:`v_p = d_p^2 / (4 L_p)` with
:math:`L_p = \log((K - 1) T \pi^2 p^2 / 6)`. M clients who pull n times each have it if
:math:`M = (\sigma_c^2 + \sigma^2/n) / v_p`, and a phase costs about :math:`M (C + K n d_p)`. That
is least for :math:`n = (\sigma/\sigma_c) \sqrt{C / (K d_p)}`, as in the lower bound. The page on
the lower bound proves that regret is then within a constant of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from fedbandits.errors import LARGEST_COUNT

Optimal: TypeAlias = Literal["optimal"]
OPTIMAL: Final = "optimal"
"""What a schedule is called that follows from the cost of a report."""

LAST_PHASE = 120
"""Those after it are like it: its gap is 10¹⁸ times smaller than the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimalPhases:
    r"""How often clients pull, and how many of them there are, if reports cost C.

    Parameters
    ----------
    n_arms : int
        K.
    horizon : int
        T.
    noise, spread : float
        σ and σ_c.
    cost : float
        C.

    Examples
    --------
    >>> cheap = OptimalPhases(n_arms=10, horizon=10**6, noise=0.5, spread=0.02, cost=1.0)
    >>> [(cheap.pulls(p), cheap.clients(p)) for p in (1, 4, 8)]
    [(12, 6), (19, 34), (38, 295)]
    >>> costly = OptimalPhases(n_arms=10, horizon=10**6, noise=0.5, spread=0.02, cost=1000.0)
    >>> [(costly.pulls(p), costly.clients(p)) for p in (1, 4, 8)]
    [(66, 2), (595, 3), (1189, 26)]
    """

    n_arms: int
    horizon: int
    noise: float
    spread: float
    cost: float

    def pulls(self, phase: int) -> int:
        """Return how often every client pulls every active arm in a phase."""
        return _table(self)[min(phase, LAST_PHASE) - 1][0]

    def clients(self, phase: int) -> int:
        """Return how many clients play a phase."""
        return _table(self)[min(phase, LAST_PHASE) - 1][1]

    def admissions(self, phase: int) -> int:
        """Return how many clients join in a phase."""
        return self.clients(phase) - (self.clients(phase - 1) if phase > 1 else 0)

    def wanted(self, phase: int) -> tuple[float, float]:
        """Return the gap that a phase looks for, and the variance at which it is found."""
        # Without noise and spread there is nothing to find out.
        gap = (math.hypot(self.noise, self.spread) or 1.0) * 2 ** ((1 - phase) / 2)
        log = math.log(max(self.n_arms - 1, 1) * self.horizon * (math.pi * phase) ** 2 / 6)
        return gap, gap**2 / (4 * max(log, 1.0))


@lru_cache(maxsize=256)
def _table(phases: OptimalPhases) -> tuple[tuple[int, int], ...]:
    """Return pulls and clients of all phases that differ; clients never leave."""
    table, clients = [], 1
    for phase in range(1, LAST_PHASE + 1):
        gap, variance = phases.wanted(phase)
        # One client alone would be enough with so many.
        pulls = phases.noise**2 / variance
        if phases.spread > 0:
            best = phases.noise / phases.spread * math.sqrt(phases.cost / (phases.n_arms * gap))
            pulls = min(pulls, best)
        each = min(max(math.ceil(pulls), 1), LARGEST_COUNT)
        needed = math.ceil((phases.spread**2 + phases.noise**2 / each) / variance)
        clients = min(max(clients, needed), LARGEST_COUNT)
        table.append((each, clients))
    return tuple(table)
