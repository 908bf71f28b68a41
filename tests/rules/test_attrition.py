"""Units that are lost with one option are found; those that are lost anyway are not."""

from __future__ import annotations

import numpy as np
import pytest

from fedbandits.rules.arrays import IntArray
from fedbandits.rules.attrition import uneven
from kept_promises import is_kept

TRIALS, BLOCKS = 2000, 40


def losses(
    seed: int, extra: float = 0.0, arms: int = 3, phases: int = 4
) -> tuple[IntArray, IntArray]:
    """Return what clients assign and lose, in blocks of two units for each option.

    Parameters
    ----------
    seed : int
        Of all draws.
    extra : float
        How much more often units of the first option are lost.
    arms, phases : int
        How many.
    """
    rng = np.random.default_rng(seed)
    # The rate changes from block to block, as from day to night, and by client.
    rates = rng.choice([0.0, 0.02, 0.4], size=(TRIALS, phases, BLOCKS, 1))
    lost = rng.binomial(2, rates + extra * (np.arange(arms) == 0)).sum(axis=-2)
    return np.full((TRIALS, phases, arms), 2 * BLOCKS), lost


@pytest.mark.parametrize("level", [0.05, 0.5])
def test_units_that_are_lost_anyway_are_no_alarm(level: float) -> None:
    """Whatever the rates are: options share them."""
    assigned, lost = losses(1)
    found = np.zeros(TRIALS, dtype=np.bool_)
    for last in range(1, assigned.shape[1] + 1):
        found |= uneven(assigned[:, :last], lost[:, :last], level).any(axis=-1)
    assert is_kept(int(found.sum()), TRIALS, level)
    # Rates that are not shared are found by the same test.
    alarms = uneven(*losses(1, extra=0.3), level).any(axis=-1)
    assert not is_kept(int(alarms.sum()), TRIALS, level)


def test_one_option_in_ten_units_is_found() -> None:
    """The power that docs/health.md states: 400 units of each option."""
    rng = np.random.default_rng(3)
    assigned = np.full((TRIALS, 1, 2), 400)
    lost = np.stack([rng.binomial(400, 0.1, TRIALS), np.zeros(TRIALS, dtype=np.int64)], axis=-1)
    found = uneven(assigned, lost[:, np.newaxis])
    assert found[:, 0].mean() > 0.95
    assert not found[:, 1].any()
    # If many are lost anyway, it takes more.
    assert uneven(*losses(2, extra=0.1, arms=2)).any(axis=-1).mean() < 0.5


def test_phases_with_uneven_numbers_and_no_phases_at_all_say_nothing() -> None:
    assert not uneven(np.array([[900, 100]]), np.array([[900, 0]])).any()
    assert not uneven(np.zeros((0, 3), dtype=np.int64), np.zeros((0, 3), dtype=np.int64)).any()
    # An option that is out has no units.
    assert not uneven(np.array([[50, 50], [0, 50]]), np.array([[5, 5], [0, 5]])).any()
