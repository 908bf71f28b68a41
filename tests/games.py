"""The paper's games, as several tests play them, and the regrets that are known of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import fedbandits as fb
from fedbandits.problems import Problem
from fedbandits.rules.algorithms import Algorithm

MEANS = [0.70, 0.71, 0.72, 0.73, 0.74, 0.75, 0.76, 0.765, 0.77, 0.79]
APPROXIMATE = fb.Approximate(means=MEANS, noise=fb.Gaussian(0.5), spread=fb.Gaussian(0.02))


def exact_game(n_clients: int) -> fb.Exact:
    """Return figure 3's game: local mean = global mean × weight, as in the authors' scripts."""
    if n_clients == 5:
        weights = np.full((5, 10), 0.2)
        for i in range(5):
            weights[i, i] = weights[i, 9 - i] = 4.2
    else:
        weights = np.full((10, 10), 0.1) + np.diag(np.full(10, 9.0))
    return fb.Exact(local_means=weights * np.array(MEANS), noise=fb.Gaussian(0.5))


@dataclass(frozen=True)
class Known:
    """A setting, and the mean total regret and its standard error that are known of it."""

    name: str
    problem: Problem
    algorithm: Algorithm
    horizon: int
    regret: float
    stderr: float


_F3 = "ceil(10*log(T))"
_TUNED3 = fb.PaperRadius(arm=4.0)
_TUNED4 = fb.PaperRadius(arm=1.0, client=1.0)
_TUNED5 = fb.PaperRadius(arm=2.0, client=1.0)

# Means over 100 replications (3,000 for figure 4), simulated independently of this package. The
# standard error of figure 4 with the theory's constants was not kept: 3,000 replications of a
# standard deviation that every run here confirms to be about 6,500 give 119.
KNOWN = [
    Known(
        "figure 3, M = 5", exact_game(5), fb.Fed1Ucb(pulls=_F3, radius=_TUNED3), 10**6, 13_517, 162
    ),
    Known(
        "figure 3, M = 10",
        exact_game(10),
        fb.Fed1Ucb(pulls=_F3, radius=_TUNED3),
        10**6,
        13_590,
        150,
    ),
    Known(
        "figure 3, baseline",
        exact_game(5),
        fb.AuthorsBaseline(pulls=_F3, radius=_TUNED3),
        10**6,
        12_308,
        160,
    ),
    Known("figure 3, improved UCB", exact_game(5), fb.ImprovedUcb(), 10**6, 6_057, 76),
    Known("figure 3, theory's 6", exact_game(5), fb.Fed1Ucb(pulls=_F3), 10**6, 19_834, 230),
    Known(
        "figure 3, centralised",
        exact_game(5),
        fb.Centralized(radius=_TUNED3),
        10**6,
        148_568,
        2_976,
    ),
    Known(
        "figure 4",
        APPROXIMATE,
        fb.Fed2Ucb(pulls=100, admissions="2^p", radius=_TUNED4),
        10**6,
        15_089,
        52,
    ),
    Known(
        "figure 4, theory's 6",
        APPROXIMATE,
        fb.Fed2Ucb(pulls=100, admissions="2^p"),
        10**6,
        87_019,
        119,
    ),
    *(
        Known(
            f"figure 5, f = {f}",
            APPROXIMATE,
            fb.Fed2Ucb(pulls=f, admissions="2^p", radius=_TUNED5),
            10**4,
            regret,
            stderr,
        )
        for f, regret, stderr in ((10, 21_405, 573), (50, 15_470, 291), (100, 16_119, 300))
    ),
]
