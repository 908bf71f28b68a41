"""Numbers and lists as a sentence or a table has them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from fedbandits.report.chart import NORMAL_95

# Sums that are equal on paper differ by less than this part of them in a computer.
ROUNDING = 1e-9


def mean_and_half(measured: Mapping[str, float | None] | None) -> tuple[str, str]:
    """Return a measured mean and half of its 95 % interval, as `to_digits` has them.

    Examples
    --------
    >>> mean_and_half({"mean": 15089.31, "stderr": 52.1})
    ('15,089', '102')
    """
    if measured is None or measured["mean"] is None:
        return "–", ""
    stderr = measured["stderr"]
    return to_digits(measured["mean"], None if stderr is None else NORMAL_95 * stderr)


def to_digits(mean: float, half: float | None) -> tuple[str, str]:
    """Return a number and what follows its ±, to the digits that this leaves meaningful.

    Examples
    --------
    >>> to_digits(15089.31, 52.1), to_digits(7.3246, 0.047)
    (('15,089', '52'), ('7.325', '0.047'))
    >>> to_digits(6.0, 0.0), to_digits(0.81234, None)
    (('6', '0'), ('0.8123', ''))
    """
    if half is not None and half <= ROUNDING * abs(mean):
        half = 0.0
    if half:
        digits = 1 - math.floor(math.log10(half))
    elif math.isclose(mean, round(mean), rel_tol=ROUNDING):
        digits = 0
    else:
        digits = 3 - math.floor(math.log10(abs(mean)))
    digits = min(max(digits, 0), 6)
    if half is None:
        return _number(mean, digits), ""
    return _number(mean, digits), _number(half, digits) if half else "0"


def _number(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}"


def in_words(measured: Mapping[str, float | None] | None) -> str:
    """Return a mean and half of its 95 % interval, as a sentence has them; a dash for nothing."""
    mean, half = mean_and_half(measured)
    # The two stay in one line.
    return f"{mean}\u00a0±\u00a0{half}" if half else mean


def share(rate: float) -> str:
    """Return a rate in per cent; only what is all or nothing is said to be.

    Examples
    --------
    >>> share(0.97), share(1.0), share(0.99999), share(0.00001)
    ('97 %', '100 %', '> 99.9 %', '< 0.1 %')
    """
    text = f"{100 * rate:.1f}"
    if text == "100.0" and rate < 1:
        return "> 99.9 %"
    if text == "0.0" and rate > 0:
        return "< 0.1 %"
    return f"{text.removesuffix('.0')} %"


def listed(parts: Iterable[str]) -> str:
    """Return parts as a sentence lists them.

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last
