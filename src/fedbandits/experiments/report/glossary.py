"""How to read the page: the words on it, and what they mean."""

from __future__ import annotations

import tomllib
from pathlib import Path

_FILE = Path(__file__).with_suffix(".toml")
WORDS: list[tuple[str, str]] = [*tomllib.loads(_FILE.read_text(encoding="utf-8")).items()]


def glossary(*terms: str) -> list[tuple[str, str]]:
    """Return some of the words, for a page that does not use all of them.

    Examples
    --------
    >>> [word for word, _ in glossary("regret", "phase")]
    ['phase', 'regret']
    """
    return [(word, meaning) for word, meaning in WORDS if word in terms]
