"""The simulator meets the regrets that are known of the paper's games, in every fidelity."""

from __future__ import annotations

import math
from functools import cache

import pytest

import fedbandits as fb
from games import KNOWN, Known

# Fewer replications where they are expensive; a phase of the centralised game is one pull.
REPLICATIONS = {"cohorts": 400, "clients": 60, "pulls": 12}
FEW = {"cohorts": 100, "clients": 4, "pulls": 1}


def play(known: Known, fidelity: str, seed: int) -> fb.Simulation:
    counts = FEW if known.algorithm.name == "centralized" else REPLICATIONS
    return fb.simulate(
        known.problem,
        known.algorithm,
        horizon=known.horizon,
        replications=counts[fidelity],
        seed=seed,
        fidelity=fidelity,
        workers=1,
    )


@cache
def deviation(number: int) -> float:
    """Return the standard deviation of one replication's regret, from the cheapest fidelity."""
    return float(play(KNOWN[number], "cohorts", seed=7).games.total.std(ddof=1))


# Up to half a minute each. That fidelities have one law is for test_fidelities.py to say.
LONG = {
    ("figure 3, baseline", "pulls"),
    ("figure 3, M = 5", "pulls"),
    ("figure 3, theory's 6", "pulls"),
    ("figure 3, centralised", "clients"),
    ("figure 3, centralised", "pulls"),
    ("figure 4, theory's 6", "pulls"),
    ("figure 5, f = 10", "pulls"),
}


@pytest.mark.parametrize(
    ("number", "fidelity"),
    [
        pytest.param(
            number,
            fidelity,
            id=f"{known.name}-{fidelity}",
            marks=[pytest.mark.slow] if (known.name, fidelity) in LONG else [],
        )
        for number, known in enumerate(KNOWN)
        for fidelity in ("cohorts", "clients", "pulls")
    ],
)
def test_mean_regret_is_within_4_standard_errors_of_what_is_known(
    number: int, fidelity: str
) -> None:
    known = KNOWN[number]
    outcome = play(known, fidelity, seed=11).games
    stderr = deviation(number) / math.sqrt(outcome.total.size)
    difference = outcome.total.mean() - known.regret
    assert abs(difference) < 4 * math.hypot(stderr, known.stderr)


def test_figure_3_pays_the_communication_that_is_known() -> None:
    outcome = play(KNOWN[0], "cohorts", seed=3).games
    stderr = outcome.communication.std(ddof=1) / math.sqrt(outcome.total.size)
    # 1,009 over 100 replications, whose standard error is twice that of our 400.
    assert abs(outcome.communication.mean() - 1_009) < 4 * math.hypot(stderr, 2 * stderr)


def test_centralised_pays_for_every_slot_in_the_papers_wording() -> None:
    known = next(k for k in KNOWN if k.algorithm.name == "centralized")
    runs = {
        reading: fb.simulate(
            known.problem,
            fb.Centralized(radius=fb.PaperRadius(arm=4.0), communicate=reading),
            horizon=known.horizon,
            replications=4,
            max_phases=2_000,
            workers=1,
        ).games
        for reading in ("phase", "slot")
    }
    by_phase, by_slot = runs["phase"], runs["slot"]
    assert (by_phase.exploration == by_slot.exploration).all()
    assert (by_phase.communication == 5 * by_phase.phases).all()
    # All ten arms are played at first, so a phase has up to ten slots.
    assert (by_slot.communication > 5 * by_phase.communication).all()
    assert (by_slot.communication <= 10 * by_phase.communication).all()
