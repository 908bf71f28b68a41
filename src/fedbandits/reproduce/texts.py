"""The texts of the page, in ``texts/``: sections, tables and sentences with values in braces.

Besides those of Python, values can have the forms ``number`` (of regret), ``probability``,
``percent``, ``share`` (of games), and ``mean`` and ``rate``, which have intervals.
"""

import math
import string
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias

from fedbandits.report import markup
from fedbandits.report.shown import Shown
from fedbandits.report.wording import share, to_digits

Row: TypeAlias = Mapping[str, Any]

_FOLDER = files("fedbandits.reproduce")


@cache
def section_text(key: str) -> str:
    """Return the text of a section as it is written, HTML."""
    return (_FOLDER / "texts" / f"{key}.html").read_text(encoding="utf-8").rstrip()


@cache
def listing(name: str) -> dict[str, Any]:
    """Return what a TOML file beside this one says."""
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def texts(name: str) -> dict[str, Any]:
    """Return what a file of sentences or tables says, by key."""
    return listing(f"texts/{name}")


def fill(text: str, values: Row) -> str:
    """Return a text with its values; what is not known is a dash.

    Examples
    --------
    >>> fill("{games:,} games, {part:share}, {z:.2f}", {"games": 1000, "part": 0.5, "z": None})
    '1,000 games, 50 %, –'
    """
    return _Filler().vformat(text, (), values)


class _Filler(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None:
            return "–"
        form = _FORMS.get(format_spec)
        return str(super().format_field(value, format_spec)) if form is None else form(value)


def shown_table(key: str, rows: Iterable[Row]) -> Shown:
    """Return rows as a table of plain text, with the columns of ``tables.toml``."""
    table = texts("tables")[key]
    headings, cells = zip(*table["columns"], strict=True)
    filled = [[fill(cell, row) for cell in cells] for row in rows]
    return Shown(name=table["name"], headings=headings, rows=filled)


def table_html(key: str, rows: Iterable[Row] | Mapping[str, Iterable[Row]]) -> str:
    """Return rows as a table of a page, with the columns of ``tables.toml``.

    Headings and cells are HTML, and words in a row plain text.

    Parameters
    ----------
    key : str
        Of the table in the file.
    rows : iterable, or mapping of str to iterable
        Where they come in groups, by the heading of the group.
    """
    table = texts("tables")[key]
    words = table.get("words", ())

    def aligned(heading: str, text: str) -> str:
        return markup.Words(text) if heading in words else text

    def line(row: Row) -> str:
        plain = {
            name: markup.with_subscripts(v) if isinstance(v, str) else v for name, v in row.items()
        }
        cells = (aligned(head, fill(cell, plain)) for head, cell in table["columns"])
        return markup.row(*cells, kind=fill(table.get("row", ""), plain))

    grouped = rows if isinstance(rows, Mapping) else {"": rows}
    return markup.table(
        table["name"],
        [aligned(head, head) for head, _ in table["columns"]],
        {group: [line(row) for row in found] for group, found in grouped.items()},
        kind=table.get("kind", "plain"),
        groups=[(text, span) for text, span in table.get("groups", ())],
    )


def _number(value: float) -> str:
    """Return a quantity of regret with separators; what is below 10 with two digits.

    Examples
    --------
    >>> _number(4_068_536.2), _number(5.6), _number(0.00002), _number(0.0)
    ('4,068,536', '5.6', '0.00002', '0')
    """
    return f"{value:,.0f}" if value >= 10 or value == 0 else _two_digits(value)


def _probability(value: float) -> str:
    """Return a probability as a decimal, or as a power of ten if that is unreadable.

    Examples
    --------
    >>> _probability(0.01), _probability(0.0402242), _probability(1e-6), _probability(6.8e-9)
    ('0.01', '0.04', '0.000001', '7 × 10⁻⁹')
    """
    if value >= 0.95e-6:
        return _two_digits(value)
    mantissa, exponent = f"{value:.0e}".split("e")
    return f"{mantissa} × 10{str(int(exponent)).translate(_SUPERSCRIPTS)}"


def _two_digits(value: float) -> str:
    """Return a positive number below 10 to two significant digits, without trailing zeros."""
    return f"{value:.{1 - math.floor(math.log10(value))}f}".rstrip("0").rstrip(".")


_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _rate(rate: Row) -> str:
    low, high = (f"{100 * rate[end]:.0f}" for end in ("low", "high"))
    return f"{share(rate['share'])} <small>{low} to {high} %</small>"


_FORMS: dict[str, Callable[[Any], str]] = {
    "number": _number,
    "probability": _probability,
    "percent": lambda part: f"{100 * part:.{0 if part >= 0.095 else 1}f}&nbsp;%",
    "share": share,
    "mean": lambda measured: " ± ".join(to_digits(measured["mean"], measured["margin"])),
    "rate": _rate,
}
