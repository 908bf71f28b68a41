"""How to read the page: the words on it, and what they mean."""

from __future__ import annotations

import tomllib
from pathlib import Path


def read_words(file: Path) -> list[tuple[str, str]]:
    """Return the words of a page and what they mean, in the order of their file."""
    return [*tomllib.loads(file.read_text(encoding="utf-8")).items()]


WORDS = read_words(Path(__file__).with_suffix(".toml"))


def glossary(*terms: str) -> list[tuple[str, str]]:
    """Return some of the words, for a page that does not use all of them.

    Examples
    --------
    >>> [word for word, _ in glossary("regret", "phase")]
    ['phase', 'regret']
    """
    return [(word, meaning) for word, meaning in WORDS if word in terms]
