"""Intervals of segments hold together, in all phases."""

from __future__ import annotations

import numpy as np

from fedbandits.rules.arrays import FloatArray
from fedbandits.rules.distortion import UNDISTORTED, Distortion
from fedbandits.rules.segments import segment_means
from kept_promises import is_kept

TRIALS, LEVEL, SIGMA = 2000, 0.05, 0.5
MEMBERS = np.array(
    [[1, 1, 1, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1]], dtype=bool
)
# The last client of the first segment has not tried the first option.
COUNTS = np.array([[10, 30, 0, 10, 20, 20, 20], [10, 30, 5, 10, 20, 20, 20]])


def missed(*, level: float = LEVEL, bias: float = 0.0, declared: bool = True) -> int:
    """Return in how many trials an interval misses in the first phase."""
    rng = np.random.default_rng(1)
    local = rng.normal(size=(2, 7))
    tried = (COUNTS > 0) & MEMBERS[:, np.newaxis]
    truth: FloatArray = (tried * local).sum(axis=-1) / tried.sum(axis=-1)
    none = np.zeros(COUNTS.shape)
    left = Distortion(variance=none, scale=none, bias=np.full(COUNTS.shape, bias))
    found = 0
    for _ in range(TRIALS):
        noise = SIGMA * rng.normal(size=local.shape) / np.sqrt(np.maximum(COUNTS, 1))
        means, widths = segment_means(
            COUNTS,
            local + noise + bias,
            MEMBERS,
            noise=SIGMA,
            distortion=left if declared else UNDISTORTED,
            looks=1,
            level=level,
        )
        found += bool((np.abs(means - truth) > widths).any())
    return found


def test_intervals_hold_together() -> None:
    first = LEVEL * 6 / np.pi**2
    assert is_kept(missed(), TRIALS, first)
    # As wide as if every segment were alone, they do not.
    assert not is_kept(missed(level=20 * LEVEL), TRIALS, first)


def test_protection_widens_them() -> None:
    first = LEVEL * 6 / np.pi**2
    assert is_kept(missed(bias=0.3), TRIALS, first)
    assert not is_kept(missed(bias=0.3, declared=False), TRIALS, first)


def test_a_segment_without_reports_says_nothing() -> None:
    nobody = np.zeros((1, 7), dtype=np.bool_)
    means, widths = segment_means(
        COUNTS, np.ones((2, 7)), nobody, noise=SIGMA, distortion=UNDISTORTED, looks=3, level=LEVEL
    )
    assert (means == 0).all()
    assert np.isinf(widths).all()
