"""Colours: of variants, the same in print and on the page, and of everything around them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import TypeAlias

from fedbandits.rules.algorithms import ALGORITHMS

PALETTE = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#33BBEE",
    "#332288",
    "#882255",
    "#000000",
    "#666633",
    "#5D3A00",
    "#7F3C8D",
)
"""Colours of Okabe and Ito and of Tol that stay apart with any colour blindness, and on paper."""

INK, FAINT, RULE = "#222222", "#5f6368", "#dadce0"
"""Colours of text, of what is beside the point, and of lines that only guide the eye."""

ColourOf: TypeAlias = Mapping[str, str]
"""The colour of every label."""


def colours(labels: Sequence[str], algorithms: Sequence[str]) -> dict[str, str]:
    """Return the colour of every variant, the same in print and on the page.

    An algorithm that one variant alone uses has its own colour, so that it looks the same in every
    figure; the other variants share what is left, in their order. Where all labels are made of
    two parts, "row, column", and there is one for every pair of them, what shares a column shares
    a colour, and rows differ in how dark it is.

    Parameters
    ----------
    labels, algorithms : sequence of str
        Label of each variant, and the name of its algorithm.

    Examples
    --------
    >>> colours(["ours", "f = 10", "f = 20"], ["fed2-ucb", "fed1-ucb", "fed1-ucb"])
    {'ours': '#0072B2', 'f = 10': '#D55E00', 'f = 20': '#009E73'}
    >>> colours(["f = 10", "f = 20", "ours"], ["fed1-ucb", "fed1-ucb", "fed2-ucb"])["ours"]
    '#0072B2'
    >>> colours(["f, Δ = 1", "f, Δ = 2", "g, Δ = 1", "g, Δ = 2"], ["fed1-ucb"] * 4).values()
    dict_values(['#0072B2', '#D55E00', '#003F62', '#753400'])
    """
    in_pairs = _colours_of_pairs(labels)
    if in_pairs is not None:
        return in_pairs
    users = Counter(algorithms)
    own = dict(zip(ALGORITHMS, PALETTE, strict=False))
    fixed = {
        label: own[algorithm]
        for label, algorithm in zip(labels, algorithms, strict=True)
        if users[algorithm] == 1 and algorithm in own
    }
    left = cycle([colour for colour in PALETTE if colour not in fixed.values()] or PALETTE)
    return {label: fixed[label] if label in fixed else next(left) for label in labels}


_LIGHT = (1.0, 0.55)
# What comes after these is dark by itself.
_MOST_COLUMNS = 6


def _colours_of_pairs(labels: Sequence[str]) -> dict[str, str] | None:
    """Return the colours of labels that are all pairs of some rows and some columns, else None."""
    pairs = [label.rpartition(", ")[::2] for label in labels]
    rows = list(dict.fromkeys(row for row, _ in pairs))
    columns = list(dict.fromkeys(column for _, column in pairs))
    complete = "" not in rows and len(set(pairs)) == len(rows) * len(columns)
    if not complete or len(rows) != len(_LIGHT) or not 2 <= len(columns) <= _MOST_COLUMNS:
        return None
    return {
        label: _darker(PALETTE[columns.index(column)], _LIGHT[rows.index(row)])
        for label, (row, column) in zip(labels, pairs, strict=True)
    }


def _darker(colour: str, light: float) -> str:
    """Return a colour with a part of its light."""
    parts = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{round(light * part):02X}" for part in parts)


def given_or_in_order(colour_of: ColourOf | None, labels: Iterable[str]) -> ColourOf:
    """Return the colours given, or else those of the palette in the order of labels."""
    return dict(zip(labels, cycle(PALETTE), strict=False)) if colour_of is None else colour_of
