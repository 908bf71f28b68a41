"""Problems that cannot be are refused by the key that is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from fedbandits.errors import InputError
from fedbandits.problems import (
    Approximate,
    Bernoulli,
    Beta,
    Channel,
    CognitiveRadio,
    Empirical,
    Exact,
    Gaussian,
    Problem,
    Transmitter,
    Uniform,
)
from fedbandits.problems.laws import NoiseLaw
from small_problems import FREE, RATING_LAW, named, sources, two_channels

# Mistakes ----------------------------------------------------------------------------------------


def approximate(**settings: Any) -> Callable[[], object]:
    known: dict[str, Any] = {
        "means": [0.4, 0.6],
        "noise": Gaussian(0.5),
        "spread": Gaussian(0.1),
    }
    return lambda: Approximate(**(known | settings))


def exact(rows: Any, noise: NoiseLaw | None = None) -> Callable[[], object]:
    return lambda: Exact(local_means=rows, noise=noise or Gaussian(0.5))


def radio(**settings: Any) -> Callable[[], object]:
    known: dict[str, Any] = {"area": (6.0, 4.0), "channels": [FREE, FREE]}
    return lambda: CognitiveRadio(**(known | settings))


def transmitter(**settings: Any) -> Callable[[], object]:
    known: dict[str, Any] = {"at": (1.0, 1.0), "reach": 1.0, "activity": 0.5}
    return lambda: Transmitter(**(known | settings))


BAD_INPUTS: list[tuple[str, Callable[[], object]]] = [
    *(
        ("sigma", lambda law=law, sigma=sigma: law(sigma))
        for law in (Gaussian, Uniform, Beta)
        for sigma in (-0.1, math.nan, math.inf)
    ),
    ("means", approximate(means=[])),
    ("means", approximate(means=[0.5])),
    ("means[1]", approximate(means=[0.5, math.nan])),
    ("means[0]", approximate(means=[math.inf, 0.5])),
    ("means", approximate(means=[0.5, 1.0], spread=Beta(0.1))),
    ("means", approximate(means=[0.0, 0.5], spread=Beta(0.0))),
    ("spread.sigma", approximate(means=[0.5, 0.9], spread=Beta(0.3))),
    ("spread.offset", approximate(offset=-0.1)),
    ("spread.offset", approximate(offset=math.nan)),
    ("population", approximate(population=0)),
    ("noise.law", approximate(noise=RATING_LAW)),
    ("spread", approximate(noise=Bernoulli(), spread=Gaussian(0.001))),
    ("spread", approximate(noise=Bernoulli(), spread=Uniform(0.25))),
    ("spread", approximate(noise=Bernoulli(), spread=Beta(0.1), offset=0.001)),
    ("spread", approximate(noise=Bernoulli(), spread=Uniform(0.0), means=[0.5, 1.1])),
    ("local_means", exact([])),
    ("local_means[0]", exact([[], []])),
    ("local_means[0]", exact([[0.5], [0.6]])),
    ("local_means[1]", exact([[0.5, 0.6], [0.5, 0.6, 0.7]])),
    ("local_means[1][0]", exact([[0.5, 0.6], [math.nan, 0.6]])),
    ("local_means", exact([[0.5, 0.6], [-0.1, 0.6]], Bernoulli())),
    ("local_means", exact([[0.5, 1.6], [0.1, 0.6]], Bernoulli())),
    ("observations", lambda: Exact.from_observations([])),
    ("observations", lambda: Exact.from_observations([[]])),
    ("observations[1]", lambda: Exact.from_observations([[[1.0], [2.0]], [[1.0]]])),
    ("observations[0][1]", lambda: Exact.from_observations([[[1.0], []]])),
    ("observations[1][0]", lambda: Empirical.of([[[1.0], [2.0]], [[math.nan], [1.0]]])),
    ("area", radio(area=(0.0, 4.0))),
    ("area", radio(area=(6.0, -4.0))),
    ("area", radio(area=(6.0, math.inf))),
    ("area", radio(area=(6.0,))),
    ("channels", radio(channels=[])),
    ("channels", radio(channels=[FREE])),
    ("population", radio(population=0)),
    ("base_station", radio(base_station=(6.1, 1.0))),
    ("base_station", radio(base_station=(1.0, -0.1))),
    ("base_station", radio(base_station=(1.0, math.nan))),
    ("listener", radio(listener="satellite")),
    ("at", transmitter(at=(math.nan, 0.0))),
    ("at", transmitter(at=(1.0, 2.0, 3.0))),
    ("reach", transmitter(reach=0.0)),
    ("reach", transmitter(reach=-1.0)),
    ("reach", transmitter(reach=math.inf)),
    ("reach", transmitter(reach=math.nan)),
    ("activity", transmitter(activity=-0.1)),
    ("activity", transmitter(activity=1.1)),
    ("activity", transmitter(activity=math.nan)),
    ("places", lambda: two_channels().availability(cast(Any, [1.0, 2.0]))),
    ("places", lambda: two_channels().availability(np.zeros((2, 3)))),
    ("resolution", lambda: two_channels().availability_map(0)),
    ("n_channels", lambda: CognitiveRadio.example(1)),
]


@pytest.mark.parametrize(("where", "make"), BAD_INPUTS)
def test_a_mistake_is_named_by_its_key(where: str, make: Callable[[], object]) -> None:
    with pytest.raises(InputError) as caught:
        make()
    assert caught.value.where == where
    assert str(caught.value).startswith(f"{where}: ")


@pytest.mark.parametrize(
    "game",
    [
        # Wide enough that clients stand close to 1, from where any shift upwards leads out.
        Approximate(means=[0.5, 0.9], noise=Bernoulli(), spread=Beta(0.25), population=5),
        CognitiveRadio(
            area=(6.0, 4.0),
            channels=[FREE, Channel([Transmitter(at=(3.0, 2.0), reach=0.5, activity=1.0)])],
            population=5,
        ),
    ],
    ids=named,
)
def test_recentring_keeps_a_probability_a_probability(game: Problem) -> None:
    plain, stopped = 0, 0
    for seed in range(20):
        means = game.sampler(sources(seed)).draw(5).means
        drawn = replace(cast(Any, game), population=None).sampler(sources(seed)).draw(5).means
        shifted = drawn + (game.means - drawn.mean(axis=1))[:, None]
        np.testing.assert_allclose(means.mean(axis=1), game.means, rtol=0, atol=1e-15)
        assert 0 <= means.min() <= means.max() <= 1
        for after, before, plainly in zip(means, drawn, shifted, strict=True):
            if 0 <= plainly.min() <= plainly.max() <= 1:
                # To the last bit as if there were no range.
                assert after.tolist() == plainly.tolist()
                plain += 1
            else:
                inside = (after > 0) & (after < 1)
                assert np.ptp((after - before)[inside]) <= 1e-15
                assert (np.abs(after - plainly)[inside] > 0).all()
                stopped += 1
    assert plain > 0
    assert stopped > 0
