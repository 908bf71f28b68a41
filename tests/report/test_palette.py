"""Colours: the same for an algorithm everywhere, and apart for every eye."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import rgb_to_hsv, to_hex, to_rgb

from drawn_runs import NASTY, plot_of, regret_figure
from fedbandits.experiments.results import Results
from fedbandits.report.palette import PALETTE, colours
from fedbandits.reproduce.catalogue import paper_experiment
from fedbandits.rules.algorithms import ALGORITHMS
from fedbandits.rules.arrays import FloatArray
from fedbandits.simulation.charts import regret_charts

# Colours


def test_an_algorithm_of_one_variant_keeps_its_colour() -> None:
    alone = colours(["x"], ["fed2-ucb"])["x"]
    among = colours(["a", "b", "c", "x"], ["fed1-ucb", "fed1-ucb", "my-own", "fed2-ucb"])
    assert among["x"] == alone
    assert len(set(among.values())) == 4


def lightness(colour: str) -> float:
    return float(lab(colour)[0])


@pytest.mark.parametrize("algorithm", [*ALGORITHMS, "my-own"])
@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_variants_of_an_algorithm_are_shades_of_its_hue(algorithm: str, number: int) -> None:
    labels = [f"f = {f}" for f in range(number)]
    (usual,) = colours(["alone"], [algorithm]).values()
    # Whatever else is in the figure.
    others = [other for other in ALGORITHMS if other != algorithm]
    given_out = colours([*labels, *others], [algorithm] * number + others)
    shades = [given_out[label] for label in labels]
    hue, saturation, _ = rgb_to_hsv(to_rgb(usual))
    for shade in shades:
        away = abs(rgb_to_hsv(to_rgb(shade))[0] - hue)
        assert saturation == 0 or min(away, 1 - away) < 0.03, (usual, shade)
    steps = -np.diff([lightness(shade) for shade in shades])
    assert (steps > (12 if number <= 3 else 5)).all(), steps
    if number in (1, 2):
        assert shades[0] == usual


def test_an_algorithm_has_one_hue_in_every_figure_of_the_paper() -> None:
    hues: dict[str, set[str]] = {}
    for name in ("fig3", "fig4", "fig5", "fig6", "fig6-equal"):
        variants = paper_experiment(name).variants
        labels, algorithms = [v.label for v in variants], [v.algorithm.name for v in variants]
        given_out = colours(labels, algorithms)
        assert len(set(given_out.values())) == len(variants)
        for label, algorithm in zip(labels, algorithms, strict=True):
            red, green, blue = (int(255 * part) for part in to_rgb(given_out[label]))
            order = "".join(key for _, key in sorted([(red, "r"), (green, "g"), (blue, "b")]))
            hues.setdefault(algorithm, set()).add("grey" if red == green == blue else order)
    assert hues == {
        "fed1-ucb": {"bgr"},
        "fed2-ucb": {"rgb"},
        "centralized": {"rbg"},
        "authors-baseline": {"grey"},
        "improved-ucb": {"gbr"},
    }


# Machado, Oliveira and Fernandes (2009), on linear red, green and blue, at full severity.
EYES = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
XYZ = np.array(
    [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
)  # of linear red, green and blue


def light(colour: str) -> FloatArray:
    """Return linear red, green and blue."""
    parts = np.array(to_rgb(colour))
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(colour: str, eyes: str = "usual") -> FloatArray:
    """Return CIELAB coordinates, in which distances are those that are seen."""
    seen = np.clip(EYES[eyes] @ light(colour), 0, 1)
    x = XYZ @ seen / [0.9505, 1.0, 1.089]
    f = np.where(x > 0.008856, np.cbrt(x), 7.787 * x + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("eyes", EYES)
def test_algorithms_stay_apart_with_any_colour_blindness(eyes: str) -> None:
    names = [*ALGORITHMS, "my-own"]
    given_out = list(colours(names, names).values())
    for number, one in enumerate(given_out):
        for other in given_out[:number]:
            apart = float(np.linalg.norm(lab(one, eyes) - lab(other, eyes)))
            assert apart > 15, (one, other)


@pytest.mark.parametrize(
    "algorithm", ["fed2-ucb", "fed1-ucb", "centralized", "improved-ucb", "authors-baseline"]
)
@pytest.mark.parametrize("number", [1, 2, 3, 5])
def test_curves_stand_out_from_white(algorithm: str, number: int) -> None:
    labels = [str(n) for n in range(number)]
    for colour in colours(labels, [algorithm] * number).values():
        contrast = 1.05 / (float(XYZ[1] @ light(colour)) + 0.05)
        assert contrast >= 3.0, colour


def test_more_variants_than_a_hue_has_shades_take_colours_of_their_own() -> None:
    labels = [f"f = {f}" for f in range(8)]
    given_out = colours([*labels, "base"], ["fed2-ucb"] * 8 + ["fed1-ucb"])
    assert list(given_out.values())[:3] == [PALETTE[0], PALETTE[2], PALETTE[3]]
    assert len(set(given_out.values())) == 9
    assert given_out["base"] == colours(["x"], ["fed1-ucb"])["x"]


@given(st.lists(st.sampled_from([*ALGORITHMS, "my-own"]), min_size=1, max_size=15))
def test_colours_differ_as_long_as_there_are_any(algorithms: list[str]) -> None:
    labels = [str(number) for number in range(len(algorithms))]
    given_out = colours(labels, algorithms)
    assert list(given_out) == labels
    assert len(set(given_out.values())) >= min(len(labels), len(PALETTE))


def test_pairs_share_the_colour_of_what_they_have_in_common() -> None:
    labels = [f"g = {g}, Δ = {gap}" for g in ("⌈log T⌉", "2^p") for gap in (0.005, 0.01, 0.02)]
    given_out = list(colours(labels, ["fed2-ucb"] * 6).values())
    assert len(set(given_out)) == 6
    assert given_out[:3] == list(PALETTE[:3])
    for light, dark in zip(given_out[:3], given_out[3:], strict=True):
        assert rgb_to_hsv(to_rgb(light))[0] == pytest.approx(rgb_to_hsv(to_rgb(dark))[0], abs=0.01)
        assert rgb_to_hsv(to_rgb(dark))[2] < 0.6 * rgb_to_hsv(to_rgb(light))[2]


@pytest.mark.parametrize(
    "labels",
    [
        ["a, x", "a, y", "b, x"],
        ["a, x", "b, x"],
        ["a, x", "a, y"],
        ["a, x", "b, y"],
        ["x", "y", "a, x", "a, y"],
        [f"{row}, {column}" for row in "abc" for column in "xy"],
    ],
)
def test_what_is_not_all_pairs_has_colours_of_its_own(labels: list[str]) -> None:
    as_shades = colours([str(n) for n in range(len(labels))], ["ucb1"] * len(labels))
    given_out = colours(labels, ["ucb1"] * len(labels))
    assert list(given_out.values()) == list(as_shades.values())


def test_print_and_page_use_the_colours_given(results: Results) -> None:
    colour_of = dict(zip((NASTY, "f = 40 $x^{$", "_alone"), PALETTE[3:], strict=False))
    axes = regret_figure(results.curves(), "title", colour_of=colour_of).axes[0]
    solid = [line for line in axes.lines if not line.is_dashed()]
    assert [to_hex(line.get_color()).upper() for line in solid] == list(colour_of.values())
    series = plot_of(regret_charts(results.curves(), "", colour_of=colour_of)["total"]).series
    assert [one.colour for one in series] == list(colour_of.values())
