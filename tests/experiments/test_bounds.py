"""The lower bound of a game: its value, or why nothing is proven."""

from __future__ import annotations

import math
from typing import Any

import pytest

import fedbandits as fb
from commands import Command
from fedbandits.experiments.bounds import lower_bound_of
from fedbandits.theory.lower_bound import LowerBound
from repository import ROOT

NORMAL: dict[str, Any] = {
    "means": [0.5, 0.6],
    "noise": fb.Gaussian(0.5),
    "spread": fb.Gaussian(0.1),
}


def test_two_arms_have_the_bound_in_closed_form() -> None:
    least = lower_bound_of(fb.Approximate(**NORMAL), 3.0)
    assert isinstance(least, LowerBound)
    by_hand = 2 * (0.5 * math.sqrt(0.1) + 0.1 * math.sqrt(2 * 3.0)) ** 2 / 0.1**2
    assert least.slope == pytest.approx(by_hand)


def test_given_clients_have_the_slope_of_lai_and_robbins() -> None:
    given = fb.Exact(local_means=[[0.2, 0.9], [0.6, 0.1]], noise=fb.Gaussian(0.5))
    least = lower_bound_of(given, 3.0)
    assert isinstance(least, LowerBound)
    assert least.slope == pytest.approx(2 * 0.25 / 0.1)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"offset": 0.1}, "the arms of a client share an offset"),
        ({"population": 9}, "in a finite population"),
        ({"means": [0.6, 0.5, 0.6]}, "several arms are the best"),
        ({"noise": fb.Bernoulli(), "spread": fb.Beta(0.05)}, "normal rewards"),
        ({"spread": fb.Uniform(0.1)}, "normal rewards"),
    ],
)
def test_what_is_not_proven_has_no_bound(changes: dict[str, Any], reason: str) -> None:
    found = lower_bound_of(fb.Approximate(**NORMAL | changes), 3.0)
    assert isinstance(found, str)
    assert reason in found


def test_the_command_says_it(command: Command) -> None:
    said = " ".join(command("bounds", ROOT / "examples" / "figure-4.toml").out.split())
    assert (
        "at least 143.3 · log T for this game if a report costs 1: 1,980 at T = 1,000,000" in said
    )
