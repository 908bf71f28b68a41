"""Values as parts of the page that show them and do nothing else."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from html import escape
from typing import Any

from fedbandits.simulation.simulator import Simulation


def bold_label(simulation: Simulation) -> str:
    """Return the label of a variant, in bold."""
    return f"<b>{escape(simulation.variant.label)}</b>"


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


def scrolling(name: str, table: str) -> str:
    """Return a table in a region of its own that scrolls where the screen is too narrow.

    Parameters
    ----------
    name : str
        What the region is called, for those who do not see it.
    table : str
        HTML.
    """
    return (
        f'<div class="scroll" role="region" aria-label="{escape(name)}" tabindex="0">\n{table}\n'
        "</div>"
    )


def data_uri(png: bytes) -> str:
    """Return an image as an address that holds all of it."""
    return f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"


def json_in_script(value: Any) -> str:
    r"""Return JSON that cannot end the script element it stands in.

    Examples
    --------
    >>> print(json_in_script("</script>"))
    "\u003c/script>"
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")
