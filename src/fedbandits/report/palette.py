"""Colours: of variants, the same in print and on the page, and of everything around them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import TypeAlias

import numpy as np

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


_HUES: dict[str, tuple[str, ...]] = {
    "fed2-ucb": ("#0072B2", "#3A99D8"),
    "fed1-ucb": ("#D55E00",),
    "fed-index": ("#7B2BF0",),
    "fed-mom-ucb": ("#DD2233",),
    "centralized": ("#009E73",),
    "improved-ucb": ("#CC79A7",),
    "authors-baseline": ("#4D4D4D", "#8A8A8A"),
    "ucb1": ("#E69F00",),
    "kl-ucb": ("#8879F2",),
    "thompson": ("#731111", "#B84A4A"),
    "local-ucb": ("#6F2A6A", "#A8559A"),
}
"""The colour of an algorithm in every figure, and a lighter one where paper leaves room for it.

By name, because figures are drawn from tables that hold names, and what an algorithm is knows
nothing of colours. A name that is not here has a colour of its own in each figure.
"""

# One hue has no more shades that can be told apart.
_MOST_SHADES = 5


def colours(labels: Sequence[str], algorithms: Sequence[str]) -> dict[str, str]:
    """Return the colour of every variant, the same in print and on the page.

    An algorithm has one hue in every figure; its variants are shades of it, the later the darker.
    More variants of an algorithm than a hue has shades take colours that nothing else has. Where
    all labels are made of two parts, "row, column", and there is one for every pair of them, what
    shares a column shares a colour, and rows differ in how dark it is.

    Parameters
    ----------
    labels, algorithms : sequence of str
        Label of each variant, and the name of its algorithm.

    Examples
    --------
    >>> colours(["ours", "f = 10", "f = 20"], ["fed2-ucb", "fed1-ucb", "fed1-ucb"])
    {'ours': '#0072B2', 'f = 10': '#D55E00', 'f = 20': '#753400'}
    >>> colours(["f = 10", "f = 20", "f = 30"], ["fed2-ucb"] * 3)
    {'f = 10': '#3A99D8', 'f = 20': '#0072B2', 'f = 30': '#003350'}
    >>> colours(["f, Δ = 1", "f, Δ = 2", "g, Δ = 1", "g, Δ = 2"], ["fed1-ucb"] * 4).values()
    dict_values(['#0072B2', '#D55E00', '#003F62', '#753400'])
    """
    in_pairs = _colours_of_pairs(labels)
    if in_pairs is not None:
        return in_pairs
    users = Counter(algorithms)
    hues = _hues_of(users)
    shades = {
        algorithm: iter(_shades(hues[algorithm], users[algorithm]))
        for algorithm in users
        if users[algorithm] <= _MOST_SHADES
    }
    taken = {hues[algorithm][0] for algorithm in shades}
    left = cycle([colour for colour in PALETTE if colour not in taken] or PALETTE)
    return {
        label: next(shades[algorithm]) if algorithm in shades else next(left)
        for label, algorithm in zip(labels, algorithms, strict=True)
    }


def _hues_of(algorithms: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the hues of algorithms; of those that this package does not know, ones of their own.

    Examples
    --------
    >>> _hues_of(["my-own", "fed1-ucb"])
    {'my-own': ('#33BBEE',), 'fed1-ucb': ('#D55E00',)}
    """
    known = {hue for hue, *_ in _HUES.values()}
    others = cycle([colour for colour in PALETTE if colour not in known])
    return {name: _HUES[name] if name in _HUES else (next(others),) for name in algorithms}


def _shades(hue: tuple[str, ...], number: int) -> list[str]:
    """Return so many shades of a hue, the later the darker: the hue itself if there is one.

    Examples
    --------
    >>> _shades(("#D55E00",), 3)
    ['#D55E00', '#8D3E00', '#4D2200']
    >>> _shades(("#0072B2", "#3A99D8"), 1), _shades(("#0072B2", "#3A99D8"), 2)
    (['#0072B2'], ['#0072B2', '#003F62'])
    """
    usual, *lighter = hue
    if number <= 2:
        return [usual, _darker(usual, _SECOND)][:number]
    steps = [*lighter, usual, *(_darker(usual, light) for light in _STEPS[len(lighter)])]
    places = np.linspace(0, len(steps) - 1, number)
    # Red, green and blue on the way through the steps.
    mixed = [
        np.interp(places, range(len(steps)), part) for part in zip(*map(_parts, steps), strict=True)
    ]
    return [_hex(parts) for parts in zip(*mixed, strict=True)]


# How dark the second of two is, which is still of its hue.
_SECOND = 0.55
# How dark the shades below a hue are: two of them, or one below a hue that has a lighter one.
_STEPS = ((0.66, 0.36), (0.45,))


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
    return _hex(light * part for part in _parts(colour))


def _parts(colour: str) -> tuple[int, ...]:
    """Return red, green and blue of a colour, from 0 to 255."""
    return tuple(int(colour[place : place + 2], 16) for place in (1, 3, 5))


def _hex(parts: Iterable[float]) -> str:
    return "#" + "".join(f"{round(part):02X}" for part in parts)
