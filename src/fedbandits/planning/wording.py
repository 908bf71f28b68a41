"""Numbers as the sentences and tables of a plan have them."""

from __future__ import annotations

from fedbandits.planning.outlook import Expected


def rounded(value: float) -> str:
    """Return a number as people read it, to three digits if it is large.

    Examples
    --------
    >>> rounded(338760.6), rounded(6525.2), rounded(2.9), rounded(3.0), rounded(0.0123)
    ('339,000', '6,525', '2.9', '3', '0.012')
    """
    if abs(value) >= 10_000:
        value = float(f"{value:.3g}")
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:,.1f}".removesuffix(".0") if abs(value) >= 1 else f"{value:.2g}"


def counted(value: float, what: str) -> str:
    """Return a number and what it counts.

    Examples
    --------
    >>> counted(1, "client"), counted(2113, "client"), counted(235740, "client")
    ('1 client', '2,113 clients', '236,000 clients')
    """
    return f"{rounded(value)} {what}{'' if value == 1 else 's'}"


def all_of(clients: int) -> str:
    """Return all clients, as part of a sentence.

    Examples
    --------
    >>> all_of(1), all_of(2), all_of(2113)
    ('this one client', 'both clients together', 'all 2,113 clients together')
    """
    if clients <= 2:
        return "this one client" if clients == 1 else "both clients together"
    return f"all {clients:,} clients together"


def between(expected: Expected) -> str:
    """Return the range in which nine of ten games end.

    Examples
    --------
    >>> between(Expected(mean=1.0, stderr=0.0, low=1.0, high=1.0))
    '1'
    >>> between(Expected(mean=2.9, stderr=0.1, low=2.0, high=4.0))
    '2 to 4'
    """
    low, high = rounded(expected.low), rounded(expected.high)
    return high if low == high else f"{low} to {high}"


def changed(after: float, before: float) -> str:
    """Return by how much something has changed, in per cent.

    Examples
    --------
    >>> changed(120.0, 100.0), changed(80.0, 100.0), changed(100.1, 100.0), changed(900.0, 100.0)
    ('20 % more', '20 % less', 'the same', '9 times as much')
    """
    if before <= 0:
        return "more" if after > 0 else "the same"
    ratio = after / before
    if ratio >= 3.0:
        return f"{rounded(ratio)} times as much"
    more = f"{100 * abs(ratio - 1.0):.0f}"
    if more == "0":
        return "the same"
    return f"{more} % {'more' if ratio > 1 else 'less'}"
