"""Numbers and lists as a sentence or a table has them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

# Sums that are equal on paper differ by less than this part of them in a computer.
ROUNDING = 1e-9


def mean_and_error(measured: Mapping[str, float | None] | None) -> tuple[str, str]:
    """Return a mean and its standard error, to the digits that the error leaves meaningful.

    Examples
    --------
    >>> mean_and_error({"mean": 15089.31, "stderr": 52.1})
    ('15,089', '52')
    >>> mean_and_error({"mean": 7.3246, "stderr": 0.047})
    ('7.325', '0.047')
    >>> mean_and_error({"mean": 6.0, "stderr": 0.0})
    ('6', '0')
    >>> mean_and_error({"mean": 0.81234, "stderr": None})
    ('0.8123', '')
    """
    if measured is None or measured["mean"] is None:
        return "–", ""
    mean, stderr = measured["mean"], measured["stderr"]
    if stderr is not None and stderr <= ROUNDING * abs(mean):
        stderr = 0.0
    if stderr:
        digits = 1 - math.floor(math.log10(stderr))
    elif math.isclose(mean, round(mean), rel_tol=ROUNDING):
        digits = 0
    else:
        digits = 3 - math.floor(math.log10(abs(mean)))
    digits = min(max(digits, 0), 6)
    if stderr is None:
        return _number(mean, digits), ""
    return _number(mean, digits), _number(stderr, digits) if stderr else "0"


def _number(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}"


def in_words(measured: Mapping[str, float | None]) -> str:
    """Return a mean and its standard error, as a sentence has them."""
    mean, error = mean_and_error(measured)
    # The two stay in one line.
    return f"{mean}\u00a0±\u00a0{error}" if error else mean


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
