"""Whether a stated probability of error is kept."""

from __future__ import annotations

from scipy import stats

DELTA = 0.05
GAMES = 10_000


def is_kept(lost: int, games: int = GAMES, delta: float = DELTA) -> bool:
    """Return whether so many losses may well be from a probability of δ: at the 1 % level."""
    return bool(stats.binomtest(lost, games, delta, alternative="greater").pvalue >= 0.01)
