"""Values as parts of the page that show them and do nothing else."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any


def bold(text: str) -> str:
    """Return plain text as HTML, in bold."""
    return f"<b>{escape(text)}</b>"


def swatch(colour: str) -> str:
    """Return a square of a colour; on a dark screen it is as light as the curve."""
    return f'<span class="swatch" style="--c:{colour}"></span>'


def with_subscripts(text: str) -> str:
    """Return plain text as HTML, with what follows an underscore as a subscript.

    Examples
    --------
    >>> with_subscripts("P_e < 1 at Δ²/(4σ_c²)")
    'P<sub>e</sub> &lt; 1 at Δ²/(4σ<sub>c</sub>²)'
    """
    return re.sub(r"(?<![^\W\d_])([^\W\d_])_([a-z])(?![a-z])", r"\1<sub>\2</sub>", escape(text))


def definitions(pairs: Iterable[tuple[str, str]]) -> str:
    """Return words and their meanings, both HTML, as a list."""
    rows = "\n".join(f"<div><dt>{word}</dt><dd>{meaning}</dd></div>" for word, meaning in pairs)
    return f"<dl>\n{rows}\n</dl>"


class Words(str):
    """A cell or a heading of words, which begins at the left; numbers end at the right."""

    __slots__ = ()


def _kind(name: str) -> str:
    return f' class="{name}"' if name else ""


def _cell(tag: str, value: str, scope: str = "") -> str:
    kind = _kind("words" if isinstance(value, Words) else "")
    return f"<{tag}{scope}{kind}>{value}</{tag}>"


def row(head: str, *values: str, kind: str = "") -> str:
    """Return a row of a table, of a class: what it is about, and its cells, all HTML.

    Examples
    --------
    >>> row("paper", "15,089", Words("keeps its promise"))
    '<tr><th scope="row">paper</th><td>15,089</td><td class="words">keeps its promise</td></tr>'
    """
    cells = "".join(_cell("td", value) for value in values)
    return f'<tr{_kind(kind)}><th scope="row">{head}</th>{cells}</tr>'


def table(
    name: str,
    headings: Sequence[str],
    rows: Iterable[str] | Mapping[str, Iterable[str]],
    *,
    kind: str = "",
    caption: str = "",
    groups: Sequence[tuple[str, int]] = (),
) -> str:
    """Return a table in a region of its own that scrolls if the screen is too narrow.

    Parameters
    ----------
    name : str
        What the region is called, for those who do not see it.
    headings : sequence of str
        Of the columns, HTML.
    rows : iterable of str, or mapping of str to iterable of str
        From `row`; if they come in groups, by the heading of the group.
    kind : str
        Its class: "claims" if its cells hold sentences.
    caption : str
        HTML above it.
    groups : sequence of (str, int)
        What columns have in common, and how many of them; nothing if the text is empty.
    """
    heads = "".join(_cell("th", heading, ' scope="col"') for heading in headings)
    above = "".join(
        f'<th colspan="{span}" scope="colgroup">{text}</th>'
        if text
        else f'<td colspan="{span}"></td>'
        for text, span in groups
    )
    bodies = []
    for group, lines in (rows if isinstance(rows, Mapping) else {"": rows}).items():
        head = f'<tr><th colspan="{len(headings)}" scope="rowgroup">{group}</th></tr>'
        bodies.append("\n".join(("<tbody>", *([head] if group else []), *lines, "</tbody>")))
    parts = (
        f"<caption>{caption}</caption>" if caption else "",
        f"<thead>{f'<tr>{above}</tr>' if above else ''}<tr>{heads}</tr></thead>",
        *bodies,
    )
    inside = "\n".join(filter(None, parts))
    return f"""<div class="scroll" role="region" aria-label="{escape(name)}" tabindex="0">
<table{_kind(kind)}>
{inside}
</table>
</div>"""


def items(parts: Iterable[str]) -> str:
    """Return a list, each part HTML."""
    lines = "\n".join(f"<li>{part}</li>" for part in parts)
    return f"<ul>\n{lines}\n</ul>"


def picture(image: bytes, *, alt: str, caption: str) -> str:
    """Return a figure that is an image alone.

    Parameters
    ----------
    image : bytes
        PNG.
    alt : str
        What it shows, for those who do not see it.
    caption : str
        HTML below it.
    """
    return (
        f'<figure>\n<img src="{data_uri(image)}" alt="{escape(alt)}">\n'
        f"<figcaption>{caption}</figcaption>\n</figure>"
    )


def data_uri(image: bytes) -> str:
    """Return a PNG as an address that holds all of it."""
    return f"data:image/png;base64,{base64.b64encode(image).decode('ascii')}"


def json_in_script(value: Any) -> str:
    r"""Return JSON that cannot end the script element it stands in.

    Examples
    --------
    >>> print(json_in_script("</script>"))
    "\u003c/script>"
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")
